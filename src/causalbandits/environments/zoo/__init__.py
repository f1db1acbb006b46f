"""Environments: those of Lu et al. (2020), Sections 4 and 5, with unobserved confounders, with graphs that the learner
does not know, with mechanisms that change over time, and random ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._random import Seed, random_generator
from causalbandits._typing import is_integer, is_real
from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import BernoulliReward, GaussianReward, LinearReward
from causalbandits.environments.zoo.changes import changing_arms as changing_arms
from causalbandits.environments.zoo.changes import email_changes as email_changes
from causalbandits.environments.zoo.email import email_campaign, email_segments
from causalbandits.environments.zoo.hidden import HIDDEN as HIDDEN
from causalbandits.environments.zoo.hidden import coins, confounded_casino, detour, reversal
from causalbandits.environments.zoo.hidden import model_of_graph as model_of_graph
from causalbandits.environments.zoo.hidden import random_hidden_graph as random_hidden_graph
from causalbandits.environments.zoo.networks import asia as asia
from causalbandits.environments.zoo.networks import cancer as cancer
from causalbandits.environments.zoo.networks import earthquake as earthquake
from causalbandits.environments.zoo.unknown_graphs import random_graph, random_tree
from causalbandits.errors import ProblemError, ProblemWarning, SizeError, short_repr
from causalbandits.model import CausalModel, Variable
from causalbandits.problem import Problem

# The environments; random_dag, random_model and the like are their components, asia and the like are models, and
# email_changes and changing_arms change over time.
__all__ = [
    "coins",
    "confounded_casino",
    "detour",
    "email_campaign",
    "email_segments",
    "figure2",
    "lower_bound",
    "parallel",
    "random_graph",
    "random_parallel",
    "random_tree",
    "random_world",
    "rare_prize",
    "reversal",
]

_PARTS = [
    "HIDDEN",
    "asia",
    "cancer",
    "changing_arms",
    "earthquake",
    "email_changes",
    "model_of_graph",
    "random_dag",
    "random_hidden_graph",
    "random_model",
]
"""Public functions that do not return an `Environment`: models, graphs and environments that change."""


def __dir__() -> list[str]:
    return sorted([*__all__, *_PARTS])


VARIABLE_LIMIT, DRAWN_LIMIT = 2000, 2**22
"""The maximum number of variables, and of entries of all CPTs, of a random model."""

MANIPULABLE_DRAWS = 1000
"""The maximum number of draws of manipulable variables until enough variables are among their descendants."""


def parallel(
    px: Sequence[npt.ArrayLike], pw: Sequence[npt.ArrayLike], theta: npt.ArrayLike, sd: float = 0.1
) -> Environment:
    """The parallel model of Lu et al. (2020), Figure 1: pairs X_i -> W_i -> Y with a linear reward.

    Each W_i is 1 or 2, and Y = <theta, W> + N(0, sd^2). The X_i are manipulable and optional.

    >>> env = parallel(px=[[0.5, 0.5]], pw=[[0.2, 0.8]], theta=[1.0])
    >>> round(env.mean_reward({"X1": 1}), 10), round(env.mean_reward({"X1": 2}), 10)
    (1.8, 1.2)

    Args:
        px: For each pair, the distribution of X_i over 1, ..., m.
        pw: For each pair and each value of X_i, the probability of W_i = 1.
        theta: The coefficient of each W_i.
        sd: The standard deviation of the reward's noise.

    Returns:
        The environment.

    Raises:
        ProblemError: If the arguments are malformed or have different lengths.
    """
    if not all(isinstance(argument, Sequence | np.ndarray) and not isinstance(argument, str) for argument in (px, pw)):
        raise ProblemError(f"px and pw must be lists with an entry per pair; got px={px!r}, pw={pw!r}.")
    if len(px) != len(pw) or len(px) == 0:
        raise ProblemError(f"px and pw need one entry per pair, and at least one; they have {len(px)} and {len(pw)}.")
    variables = []
    for i, (x, w) in enumerate(zip(px, pw, strict=True), start=1):
        try:
            ones = np.asarray(w, dtype=np.float64)
        except (TypeError, ValueError):
            raise ProblemError(f"pw must hold probabilities of W_i = 1; for pair {i} it is {w!r}.") from None
        values = list(range(1, np.size(x) + 1))
        variables.append(Variable(f"X{i}", values, table=x))
        variables.append(Variable(f"W{i}", [1, 2], parents=[f"X{i}"], table=np.stack([ones, 1 - ones], axis=-1)))
    names = range(1, len(px) + 1)
    problem = Problem(
        CausalModel(variables),
        manipulable=[f"X{i}" for i in names],
        reward_parents=[f"W{i}" for i in names],
        optional=True,
    )
    return Environment(problem, LinearReward(theta, sd=sd))


def figure2() -> Environment:
    """The instance of Lu et al. (2020), Figure 2: four pairs with three values each.

    >>> env = figure2()
    >>> env.problem.actions.size, env.problem.configurations
    (256, 16)

    Returns:
        The environment.
    """
    return parallel(
        px=[[0.3, 0.4, 0.3], [0.3, 0.3, 0.4], [0.5, 0.3, 0.2], [0.25, 0.25, 0.5]],
        pw=[[0.2, 0.5, 0.8], [0.3, 0.2, 0.8], [0.4, 0.6, 0.5], [0.3, 0.5, 0.6]],
        theta=[0.25, 0.25, -0.25, -0.25],
    )


def random_parallel(m: int, n: int, theta: npt.ArrayLike, rng: Seed = None) -> Environment:
    """A random parallel model as in Lu et al. (2020), Figures 3 and 4.

    P(X_i) is drawn from a uniform Dirichlet distribution, and P(W_i = 1 | X_i = j) uniformly from [0, 1].

    >>> random_parallel(3, 5, theta=[1, 0, 0, 0, 0], rng=0).problem.actions.size
    1024

    Args:
        m: The number of values of each X_i.
        n: The number of pairs.
        theta: The coefficient of each W_i.
        rng: The seed or generator. Default: a random seed.

    Returns:
        The environment.

    Raises:
        ProblemError: If `m`, `n` or `theta` is malformed.
        SizeError: If there are too many variables or values.
    """
    _check_whole(m=m, n=n)
    if n > VARIABLE_LIMIT or m * n > DRAWN_LIMIT:
        raise SizeError(
            f"n may be {VARIABLE_LIMIT} at most, and m times n {DRAWN_LIMIT}; got m={short_repr(m)}, n={short_repr(n)}."
        )
    generator = random_generator(rng)
    px = generator.dirichlet(np.ones(m), size=n)
    pw = generator.random((n, m))
    return parallel(list(px), list(pw), theta)


def lower_bound(N: int, delta: float, p1: float = 0.5) -> Environment:
    """The environment of the lower bound of Lu et al. (2020), Section 4.

    X_1, ..., X_N are 1 or 2, only X_1 affects the reward, and Y = delta X_1 + N(0, 1). There are 3^N actions.

    >>> lower_bound(14, delta=0.1).problem.actions.size
    4782969

    Args:
        N: The number of variables.
        delta: The effect of X_1 on the mean reward.
        p1: The probability that a variable that is not set is 1.

    Returns:
        The environment.

    Raises:
        ProblemError: If an argument is out of range.
        SizeError: If there are too many variables.
    """
    if not is_integer(N) or N < 1:
        raise ProblemError(f"N must be a whole number, 1 or more; got {short_repr(N)}.")
    if N > VARIABLE_LIMIT:
        raise SizeError(f"N may be {VARIABLE_LIMIT} at most; got {short_repr(N)}.")
    if not (is_real(p1) and 0 <= p1 <= 1 and is_real(delta) and abs(delta) <= 1e150):
        raise ProblemError(
            f"p1 must be a probability and delta a number of size 1e150 at most; got p1={short_repr(p1)}, "
            f"delta={short_repr(delta)}."
        )
    variables = [Variable(f"X{i}", [1, 2], table=[p1, 1 - p1] if i == 1 else [0.5, 0.5]) for i in range(1, int(N) + 1)]
    # that the other variables do not affect the reward is intended
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):
        problem = Problem(
            CausalModel(variables), manipulable=[v.name for v in variables], reward_parents=["X1"], optional=True
        )
    return Environment(problem, LinearReward([delta], sd=1.0))


def rare_prize(chance: float = 0.05, prize: float = 20.0, sd: float = 0.5) -> Environment:
    """Ten offers with a rare and valuable response: one offer triggers it with probability `chance`.

    The other offers trigger it once in a thousand times, but have more of the common responses, which are worth 1.
    Early rewards therefore favour the wrong offers.

    >>> env = rare_prize()
    >>> env.best()
    Best(intervention=do(offer=10), mean=1.1)
    >>> round(env.mean_reward({"offer": 9}), 3)
    0.52

    Args:
        chance: The probability of the rare response under the best offer, from 0 to 0.9.
        prize: The mean reward of the rare response.
        sd: The standard deviation of the reward's noise.

    Returns:
        The environment.

    Raises:
        ProblemError: If an argument is out of range.
    """
    if not (is_real(chance) and 0 <= chance <= 0.9 and is_real(prize) and abs(prize) <= 1e150):
        raise ProblemError(
            f"chance must be a probability up to 0.9 and prize a number of size 1e150 at most; got chance="
            f"{short_repr(chance)}, prize={short_repr(prize)}."
        )
    offers = [(0.1 + 0.05 * i, 0.001) for i in range(9)] + [(0.1, float(chance))]
    responses = [[1 - usual - rare, usual, rare] for usual, rare in offers]
    model = CausalModel(
        [
            Variable("offer", range(1, 11), table=np.full(10, 0.1)),
            Variable("response", ["none", "some", "prize"], parents=["offer"], table=responses),
        ]
    )
    return Environment(
        Problem(model, manipulable=["offer"], reward_parents=["response"], optional=True),
        GaussianReward([0.0, 1.0, float(prize)], sd),
    )


def random_dag(variables: int, *, arrows: float = 1.5, rng: Seed = None) -> dict[str, list[str]]:
    """A random directed acyclic graph: the parents of each variable in causal order, as `fit` accepts them.

    >>> random_dag(4, arrows=1, rng=0)
    {'X1': [], 'X2': ['X1'], 'X3': ['X1', 'X2'], 'X4': ['X1']}

    Args:
        variables: The number of variables.
        arrows: The mean number of parents of a variable; the first variables have fewer.
        rng: The seed or generator. Default: a random seed.

    Returns:
        The parents by variable.

    Raises:
        ProblemError: If an argument is out of range.
        SizeError: If there are too many variables.
    """
    _check_whole(variables=variables)
    if variables > VARIABLE_LIMIT:
        raise SizeError(f"A random graph has at most {VARIABLE_LIMIT} variables; got {short_repr(variables)}.")
    if not is_real(arrows) or not 0 <= arrows <= VARIABLE_LIMIT:
        raise ProblemError(
            f"arrows must be a mean number of parents, from 0 to {VARIABLE_LIMIT}; got {short_repr(arrows)}."
        )
    generator = random_generator(rng)
    names = [f"X{i}" for i in range(1, int(variables) + 1)]
    return {
        name: [names[j] for j in np.flatnonzero(generator.random(i) < arrows / max(i, 1))]
        for i, name in enumerate(names)
    }


def random_model(
    variables: int, *, states: int = 2, arrows: float = 1.5, concentration: float = 1.0, rng: Seed = None
) -> CausalModel:
    """A random causal model: a graph from `random_dag` with random CPTs.

    >>> random_model(20, states=3, rng=0)
    CausalModel(20 variables, 26 edges)

    Args:
        variables: The number of variables.
        states: The number of values of each variable.
        arrows: The mean number of parents of a variable.
        concentration: The Dirichlet parameter of CPT rows: below 1 nearly deterministic, far above 1 nearly uniform.
        rng: The seed or generator. Default: a random seed.

    Returns:
        The model.

    Raises:
        ProblemError: If an argument is out of range.
        SizeError: If the model is too large.
    """
    _check_whole(states=states)
    if not is_real(concentration) or not 1e-3 <= concentration <= 1e6:
        raise ProblemError(f"concentration must be a number from 0.001 to 1,000,000; got {short_repr(concentration)}.")
    generator = random_generator(rng)
    graph = random_dag(variables, arrows=arrows, rng=generator)
    numbers = sum(int(states) ** (len(parents) + 1) for parents in graph.values())
    if numbers > DRAWN_LIMIT or max(map(len, graph.values())) > 30:
        raise SizeError(
            f"The CPTs of this random model would have more than {DRAWN_LIMIT} numbers. Pass fewer arrows or states."
        )
    row = np.full(int(states), float(concentration))
    return CausalModel(
        Variable(
            name, range(int(states)), parents=parents, table=generator.dirichlet(row, [int(states)] * len(parents))
        )
        for name, parents in graph.items()
    )


def random_world(
    variables: int,
    *,
    knobs: int = 3,
    reward_parents: int = 2,
    states: int = 2,
    arrows: float = 1.5,
    concentration: float = 1.0,
    rng: Seed = None,
) -> Environment:
    """A random environment: a random model, some manipulable variables, and a reward whose parents they can affect.

    The reward is 1 with a probability that is drawn uniformly from [0, 1] for each configuration. The manipulable
    variables are optional.

    >>> random_world(12, rng=0).problem
    Problem(27 actions on X1, X8, X9; 4 configurations of X3, X6; observe X3, X6)

    Args:
        variables: The number of variables.
        knobs: The number of manipulable variables.
        reward_parents: The number of parents of the reward.
        states: The number of values of each variable.
        arrows: The mean number of parents of a variable.
        concentration: The Dirichlet parameter of CPT rows: below 1 nearly deterministic, far above 1 nearly uniform.
        rng: The seed or generator. Default: a random seed.

    Returns:
        The environment.

    Raises:
        ProblemError: If an argument is out of range, or no such environment was found.
        SizeError: If the model is too large.
    """
    _check_whole(knobs=knobs, reward_parents=reward_parents)
    generator = random_generator(rng)
    model = random_model(variables, states=states, arrows=arrows, concentration=concentration, rng=generator)
    if int(states) ** min(reward_parents, VARIABLE_LIMIT) > DRAWN_LIMIT:
        raise SizeError(f"The reward would have more than {DRAWN_LIMIT} means. Pass fewer parents or fewer states.")
    manipulable, effects = _sample_manipulable(model, int(knobs), int(reward_parents), generator)
    parents = [effects[i] for i in sorted(generator.choice(len(effects), int(reward_parents), replace=False))]
    means = generator.random([int(states)] * len(parents))
    return Environment(
        Problem(model, manipulable=manipulable, reward_parents=parents, optional=True), BernoulliReward(means)
    )


def _sample_manipulable(
    model: CausalModel, knobs: int, fewest: int, generator: np.random.Generator
) -> tuple[list[str], list[str]]:
    """Manipulable variables with enough descendants among the others, and these descendants."""
    names = model.names
    causes = _ancestor_matrix(model)
    for _ in range(MANIPULABLE_DRAWS if knobs + fewest <= len(names) else 0):
        indices = np.sort(generator.choice(len(names), knobs, replace=False))
        is_effect = np.asarray(causes[:, indices].any(axis=1))
        is_effect[indices] = False
        if np.count_nonzero(is_effect) >= fewest:
            return [names[i] for i in indices], [names[i] for i in np.flatnonzero(is_effect)]
    raise ProblemError(
        f"No set of {knobs} among {len(names)} variables has {fewest} descendants. Pass more variables or arrows, or "
        "fewer manipulable variables or parents of the reward."
    )


def _ancestor_matrix(model: CausalModel) -> npt.NDArray[np.bool_]:
    """Whether a variable (row) has another (column) among its ancestors."""
    place = {name: i for i, name in enumerate(model.names)}
    causes = np.zeros((len(place), len(place)), dtype=bool)
    for name in model.order:
        for parent in model[name].parents:
            causes[place[name]] |= causes[place[parent]]
            causes[place[name], place[parent]] = True
    return causes


def _check_whole(**arguments: Any) -> None:
    for name, value in arguments.items():
        if not is_integer(value) or value < 1:
            raise ProblemError(f"{name} must be a whole number, 1 or more; got {short_repr(value)}.")
        if value > 2**20:
            raise SizeError(f"{name} may be {2**20} at most; got {short_repr(value)}.")
