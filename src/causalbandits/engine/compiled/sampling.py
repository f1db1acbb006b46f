"""Compiled sampling of a round: contexts, configurations and rewards."""

import math

import numpy as np
from numba.extending import register_jitable


@register_jitable
def sample_number(law, starts, line, codes, rng):
    """Sample one uniform number for each part of a `arrays.Law`; return the codes and the sum of their steps.

    One function on one tuple: inner calls would count references to arrays, which would dominate the time.
    """
    number = 0
    cdf = law.cdf.values
    for b in range(len(law.sizes)):
        u = rng.random()
        start, last = starts[line, b], law.sizes[b] - 1
        code = 0
        if last == 1:
            code = int(cdf[start] <= u)
        elif last <= 8:
            for c in range(last):  # no branch depends on random numbers
                code += int(cdf[start + c] <= u)
        else:
            high = last
            while code < high:
                middle = (code + high) // 2
                if cdf[start + middle] <= u:
                    code = middle + 1
                else:
                    high = middle
        codes[b] = code
        number += law.steps.values[law.steps.starts[b] + code]
    return number


@register_jitable
def context_buffer(before):
    """The array for the codes of a context."""
    if before is None:
        return np.empty(0, dtype=np.int64)
    return np.empty(len(before.sizes), dtype=np.int64)


@register_jitable
def sample_context(before, starts, codes, rng):
    """The context's number; 0 without a context, which the compiler treats as a constant."""
    if before is None:
        return 0
    return sample_number(before, starts, 0, codes, rng)


@register_jitable
def first_cell(before, policy_contexts, context, cells):
    """The start of a context's own cells; 0 if it has none, or without a context."""
    if before is None:
        return 0
    return policy_contexts[context] * cells


@register_jitable
def sample_reward(noise, mean, rng):
    """A reward with this mean; the arguments are scalars, because arrays would be copied at every call."""
    if noise.bernoulli:
        return 1.0 if rng.random() < mean else 0.0
    return mean + noise.sd * sample_noise(noise.degrees, rng)


@register_jitable
def sample_noise(degrees, rng):
    """A standard normal number, or one of Student's t, as in `environments.rewards.StudentReward`.

    The compiler knows the case in advance: a loop here, even one that is never run, doubles the time of all rounds.
    """
    if degrees is None:
        return rng.standard_normal()
    normal, squares = rng.standard_normal(), 0.0
    for _ in range(degrees):
        normal_term = rng.standard_normal()
        squares += normal_term * normal_term
    return normal / math.sqrt(squares / degrees)


@register_jitable
def cost_buffer(costs):
    """The array for the costs of manipulable variables; those in no block keep their minimum."""
    if costs is None:
        return np.empty(0)
    return costs.least.copy()


@register_jitable
def action_cost(row_costs, first_block, rows, variable_costs):
    """The cost of the action with these rows, as `Costs.of`, variable by variable; the context's blocks begin at the
    given start."""
    if row_costs is None:
        return 0.0
    for b in range(len(rows)):
        first, last = row_costs.variables.starts[b], row_costs.variables.starts[b + 1]
        at = row_costs.prices.starts[first_block + b] + rows[b] * (last - first)
        for i in range(last - first):
            variable_costs[row_costs.variables.values[first + i]] = row_costs.prices.values[at + i]
    total = 0.0
    for variable in range(len(variable_costs)):
        total += variable_costs[variable]
    return total


@register_jitable
def additive_mean_and_gap(additive, context, rows, codes, states, cost):
    """If actions are not enumerated: the mean reward of the sampled configuration and the gap of the action.

    The sums are taken as in `environments.rewards.AdditiveMean`.
    """
    under = 0.0
    for b in range(len(rows)):
        under += additive.gains.values[additive.gains.starts[context * len(rows) + b] + rows[b]]
        first, last = additive.parents.starts[b], additive.parents.starts[b + 1]
        at = additive.codes.starts[b] + codes[b] * (last - first)
        for i in range(last - first):
            states[additive.parents.values[first + i]] = additive.codes.values[at + i]
    mean = 0.0
    for parent in range(len(states)):
        mean += additive.by_parent.values[additive.by_parent.starts[parent] + states[parent]]
    return mean, max(0.0, additive.best[context] - (under - cost))
