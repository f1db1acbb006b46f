"""Random environments of the literature on causal bandits whose graph is not known to the learner.

An action sets some of the variables X1, X2, ... and leaves the others to their causes; all of them are observed. A
learner without a graph needs the choice to leave a variable as it is among the values, so each variable X1 has a
manipulable variable set_X1, with the value "no" and those of X1. Given set_X1 = "no", X1 depends on its causes;
otherwise it has the value of set_X1. The reward depends on some of X1, X2, ... only.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from causalbandits._random import Seed, random_generator
from causalbandits._typing import Array, is_integer, is_real
from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import BernoulliReward
from causalbandits.errors import ProblemError, ProblemWarning, SizeError, short_repr
from causalbandits.model import CausalModel, State, Variable
from causalbandits.problem import Problem

NOT_SET = "no"
"""The value of a manipulable variable set_X that leaves X to its causes."""

TABLE_LIMIT, ACTION_LIMIT = 2**22, 2**16
"""The maximum number of entries of all CPTs, and of actions."""


def random_graph(
    reward_parents: int = 1,
    *,
    variables: int = 8,
    values: int = 3,
    set_size: int = 3,
    edge_probability: float = 0.25,
    parent_effect: float = 0.7,
    rng: Seed = None,
) -> Environment:
    """A random graph as in Shahverdikondori et al. (2026), where an action sets any `set_size` of the variables.

    The defaults are those of the paper's published code. Variables are in a random causal order; each earlier one is
    a cause of a later one with probability `edge_probability`. A row of a CPT is (1 - `parent_effect`) times a
    distribution that is the same for all rows of the variable, plus `parent_effect` times one of its own, all uniform.
    The reward is 1 with a probability that is drawn uniformly from [0, 1] for each configuration of its parents. The
    manipulable variable of X1 is set_X1; its value "no" leaves X1 to its causes.

    >>> env = random_graph(rng=0)
    >>> env.problem.actions.size, env.problem.parents
    (1512, ('X1',))
    >>> env.best().intervention
    do(set_X1=1, set_X2=1, set_X3=1, set_X4=no, set_X5=no, set_X6=no, set_X7=no, set_X8=no)

    Args:
        reward_parents: The number of parents of the reward.
        variables: The number of variables.
        values: The number of values of each variable: 1, 2, ...
        set_size: The number of variables that an action sets, neither more nor fewer.
        edge_probability: The probability of an edge between two variables.
        parent_effect: How much a variable depends on its causes, from 0 to 1.
        rng: The seed or generator. Default: a random seed.

    Returns:
        The environment. It draws all variables X1, X2, ... in every round.

    Raises:
        ProblemError: If an argument is out of range.
        SizeError: If there are too many actions, or CPT entries.
    """
    _check_counts(variables, values=values, set_size=set_size, reward_parents=reward_parents)
    for name, share in (("edge_probability", edge_probability), ("parent_effect", parent_effect)):
        if not is_real(share) or not 0 <= share <= 1:
            raise ProblemError(f"{name} must be a number from 0 to 1; got {short_repr(share)}.")
    generator = random_generator(rng)
    order = generator.permutation(variables).tolist()
    is_edge = generator.random((variables, variables)) < edge_probability
    causes = {
        effect: sorted(cause for j, cause in enumerate(order[:i]) if is_edge[i, j]) for i, effect in enumerate(order)
    }
    _check_entries(causes, values, reward_parents)
    flat = np.ones(values)
    cpts = {}
    for k, parents in sorted(causes.items()):
        base = generator.dirichlet(flat)
        own = generator.dirichlet(flat, [values] * len(parents))
        cpts[k] = (1.0 - parent_effect) * base + parent_effect * own
    chosen = sorted(generator.choice(variables, reward_parents, replace=False).tolist())
    means = generator.random([values] * reward_parents)
    return _environment(causes, cpts, list(range(1, values + 1)), set_size, chosen, means)


def random_tree(variables: int = 15, *, values: int = 2, rng: Seed = None) -> Environment:
    """A random causal tree, where an action sets one variable or none, and the reward has one parent.

    It is the setting of Lu et al. (2021), Causal bandits with unknown graph structure; how trees and probabilities are
    drawn is not taken from that paper. Variables are in a random causal order. The cause of each is any of the earlier
    ones, all equally likely; the first has none. Every row of a CPT is drawn uniformly. The reward's parent is any of
    the variables, all equally likely, and the reward is 1 with a probability that is drawn uniformly from [0, 1] for
    each of its values. The manipulable variable of X1 is set_X1; its value "no" leaves X1 to its cause.

    >>> env = random_tree(rng=0)
    >>> env.problem.actions.size, env.problem.parents
    (31, ('X7',))

    Args:
        variables: The number of variables.
        values: The number of values of each variable: 0, 1, ...
        rng: The seed or generator. Default: a random seed.

    Returns:
        The environment. It draws all variables X1, X2, ... in every round.

    Raises:
        ProblemError: If an argument is out of range.
        SizeError: If there are too many actions, or CPT entries.
    """
    _check_counts(variables, values=values, set_size=1, reward_parents=1)
    generator = random_generator(rng)
    order = generator.permutation(variables).tolist()
    causes = {effect: [order[int(generator.integers(i))]] if i else [] for i, effect in enumerate(order)}
    _check_entries(causes, values, 1)
    cpts = {k: generator.dirichlet(np.ones(values), [values] * len(parents)) for k, parents in sorted(causes.items())}
    chosen = int(generator.integers(variables))
    return _environment(causes, cpts, list(range(values)), 1, [chosen], generator.random(values), or_none=True)


def _environment(
    causes: Mapping[int, Sequence[int]],
    cpts: Mapping[int, Array],
    states: list[State],
    set_size: int,
    chosen: Sequence[int],
    means: Array,
    or_none: bool = False,
) -> Environment:
    """The environment of a graph over the numbers of variables; `chosen` are the reward's parents."""
    names = [f"X{k + 1}" for k in range(len(causes))]
    switches = [f"set_{name}" for name in names]
    choices: list[State] = [NOT_SET, *states]
    certain = np.eye(len(choices))[0]
    variables = [Variable(switch, choices, table=certain) for switch in switches]
    for k, name in enumerate(names):
        natural = np.asarray(cpts[k])
        set_to = [np.broadcast_to(row, natural.shape) for row in np.eye(len(states))]
        parents = [switches[k], *(names[cause] for cause in causes[k])]
        variables.append(Variable(name, states, parents=parents, table=np.stack([natural, *set_to])))
    nothing: dict[str, State] = dict.fromkeys(switches, NOT_SET)
    actions = [
        {**nothing, **dict(zip(members, values, strict=True))}
        for size in ([0, set_size] if or_none else [set_size])
        for members in itertools.combinations(switches, size)
        for values in itertools.product(states, repeat=size)
    ]
    # that some variables do not affect the reward is intended
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):
        problem = Problem(
            CausalModel(variables),
            manipulable=switches,
            reward_parents=[names[k] for k in chosen],
            actions=actions,
        )
    return Environment(problem, BernoulliReward(means), shown=names)


def _check_counts(variables: int, *, values: int, set_size: int, reward_parents: int) -> None:
    if not is_integer(variables) or not 1 <= variables <= 60:
        raise ProblemError(f"variables must be a whole number from 1 to 60; got {short_repr(variables)}.")
    if not is_integer(values) or not 2 <= values <= 1000:
        raise ProblemError(f"values must be a whole number from 2 to 1000; got {short_repr(values)}.")
    for name, number in (("set_size", set_size), ("reward_parents", reward_parents)):
        if not is_integer(number) or not 1 <= number <= variables:
            raise ProblemError(
                f"{name} must be a whole number from 1 to the number of variables, {variables}; got "
                f"{short_repr(number)}."
            )
    actions = math.comb(variables, set_size) * values**set_size
    if actions > ACTION_LIMIT:
        raise SizeError(f"There would be {actions} actions; the limit is {ACTION_LIMIT}. Pass a smaller set_size.")


def _check_entries(causes: Mapping[int, Sequence[int]], values: int, reward_parents: int) -> None:
    entries = sum((values + 1) * values ** (len(parents) + 1) for parents in causes.values()) + values**reward_parents
    if entries > TABLE_LIMIT:
        raise SizeError(
            f"The CPTs and the reward would have {entries} entries; the limit is {TABLE_LIMIT}. Pass fewer variables, "
            "values or reward parents, or a smaller edge_probability."
        )
