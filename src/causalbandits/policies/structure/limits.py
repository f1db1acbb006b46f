"""Chance constraints where the structure is learned: actions must comply with high posterior probability.

P(variable = value | do(a)) is computed under samples of the structure and of the CPTs, always from the same seed: each
samples a parent set of the variable and of each observed variable before it that matters, and the CPTs of these sets.
The context is set to its values. The samples are a function of the counts. If no action complies with the required
probability, the action with the largest probability remains, because an agent that does not act cannot learn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import ProblemWarning, caller_stacklevel, warn
from causalbandits.policies.cpts import WARNINGS_ENABLED, FeasibleActions, feasible_by_sureness
from causalbandits.policies.structure.parent_sets import ParentSetCounts, ParentSets, RewardModel
from causalbandits.problem import (
    COMPLIANCE_PROBABILITY,
    LIMIT_TOLERANCE,
    POSTERIOR_SAMPLES,
    Compliance,
    Limit,
    Situation,
)

STRUCTURES = 100
"""The samples are of at most so many structures, because each distinct one takes a sum over the variables."""

Probabilities = Callable[[Limit, np.random.Generator], Array]
"""Samples of a limited probability, a row each, for every action of the problem."""

SetsOnTheWay = tuple[tuple[int, int], ...]
"""The number of an observed variable and that of its set; later variables first."""


def sample_probabilities(
    sets: ParentSets,
    statistic: ParentSetCounts,
    model: RewardModel,
    limit: Limit,
    context: Sequence[int],
    rng: np.random.Generator,
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Samples of the limited probability by the manipulable variables that matter: their positions, and an array with
    an axis for the samples and for each of them.
    """
    weights = sets.weights(statistic, model)
    each = math.ceil(POSTERIOR_SAMPLES / STRUCTURES)
    structures = Counter(_sample_sets(sets, weights, limit, rng) for _ in range(POSTERIOR_SAMPLES // each))
    for structure, n in structures.items():
        yield _sample_for_structure(sets, statistic, structure, limit, context, rng, n * each)


def _sample_sets(sets: ParentSets, weights: Sequence[Array], limit: Limit, rng: np.random.Generator) -> SetsOnTheWay:
    needed, chosen_sets = {sets.names.index(limit.variable)}, []
    for number in reversed(range(len(sets.observed))):
        if sets.observed[number] in needed:
            chosen = int(rng.choice(len(weights[number]), p=weights[number]))
            needed.update(sets.targets[number].sets[chosen])
            chosen_sets.append((number, chosen))
    return tuple(chosen_sets)


def _sample_for_structure(
    sets: ParentSets,
    statistic: ParentSetCounts,
    structure: SetsOnTheWay,
    limit: Limit,
    context: Sequence[int],
    rng: np.random.Generator,
    draws: int,
) -> tuple[tuple[int, ...], Array]:
    limited, operands, free = sets.names.index(limit.variable), list[object](), set[int]()
    for number, chosen in structure:
        target, variable = sets.targets[number], sets.observed[number]
        members = target.sets[chosen]
        start, end = (target.offset + int(target.starts[chosen + k]) * target.states for k in (0, 1))
        concentrations = 1.0 + statistic.seen[start:end].reshape(-1, target.states)
        gammas = rng.standard_gamma(concentrations, (draws, *concentrations.shape))
        cpt = (gammas / gammas.sum(axis=-1, keepdims=True)).reshape(
            draws, *(sets.sizes[k] for k in members), target.states
        )
        cpt = cpt[(slice(None), *(context[k] if k < len(context) else slice(None) for k in members))]
        axes = [0, *(1 + k for k in members if k >= len(context))]
        if variable == limited:
            operands += [cpt[..., list(limit.codes)].sum(axis=-1), axes]
        else:
            operands += [cpt, [*axes, 1 + variable]]
        free.update(k for k in members if len(context) <= k < sets.first_observed)
    kept = tuple(sorted(free))
    return kept, np.asarray(np.einsum(*operands, [0, *(1 + k for k in kept)], optimize=True))  # type: ignore[call-overload]


def restrict_to_likely_feasible(
    situation: Situation, statistic: ParentSetCounts, probabilities: Probabilities
) -> Situation:
    """The situation restricted to actions that keep all limits with the required posterior probability."""
    if situation.is_subset:
        return situation
    feasible = _feasible_actions(situation, statistic, probabilities)
    if not feasible.is_sure and not statistic.has_warned_of_limits and WARNINGS_ENABLED.get():
        statistic.has_warned_of_limits = True
        warn(
            f"No action satisfies {_limits_text(situation)} with probability {COMPLIANCE_PROBABILITY:g} under the "
            "posterior of structure and CPTs. The agent plays the action with the largest probability. To narrow the "
            "posterior, learn from past rows of an experiment. recommend() prints the probability.",
            ProblemWarning,
            stacklevel=caller_stacklevel(),
        )
    return situation if feasible.positions is None else situation.restrict_to(feasible.positions)


def feasibility_concern(situation: Situation, statistic: ParentSetCounts, probabilities: Probabilities) -> str:
    """The warning for the case that no action keeps the limits with the required probability; otherwise empty."""
    feasible = _feasible_actions(situation, statistic, probabilities)
    if feasible.is_sure or feasible.positions is None:
        return ""
    first = int(feasible.positions[0])
    return (
        f"no action satisfies {_limits_text(situation)} with probability {COMPLIANCE_PROBABILITY:g} under the "
        f"posterior of structure and CPTs; the largest probability is {feasible.sureness.share[first]:.2g}, of "
        f"{situation.action(first)}"
    )


def _feasible_actions(
    situation: Situation, statistic: ParentSetCounts, probabilities: Probabilities
) -> FeasibleActions:
    found: FeasibleActions | None = statistic.feasible.get(situation)
    if found is None:
        found = statistic.feasible[situation] = _find_feasible_actions(situation, probabilities)
    return found


def _find_feasible_actions(situation: Situation, probabilities: Probabilities) -> FeasibleActions:
    shares, excesses = [], []
    for limit in _limits(situation):
        rows = situation.without_costs.take(probabilities(limit, np.random.default_rng(0))).values
        shares.append((rows <= limit.largest + LIMIT_TOLERANCE).mean(axis=0))
        excesses.append(rows.mean(axis=0) - limit.largest)
    return feasible_by_sureness(Compliance(np.min(shares, axis=0), np.max(excesses, axis=0)))


def _limits(situation: Situation) -> tuple[Limit, ...]:
    prior = situation.problem.structure_prior
    assert prior is not None
    return prior.limits


def _limits_text(situation: Situation) -> str:
    texts = zip(situation.problem.unknown_limits, _limits(situation), strict=True)
    return " and ".join(f"{text} <= {limit.largest:g}" for text, limit in texts)
