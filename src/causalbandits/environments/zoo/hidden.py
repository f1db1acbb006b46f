"""Environments with unobserved confounders, and random graphs and models with some.

An environment is made from the complete model. `HIDDEN` names its unobserved variables:

>>> from causalbandits import Problem, CausalGraph, zoo
>>> env = zoo.coins()
>>> graph = env.problem.model.causal_graph.with_hidden(zoo.HIDDEN["coins"])
>>> Problem(graph, manipulable=["A", "B", "C"], reward="Y", reward_parents=[], optional=True)
Problem(8 actions on A, B, C; a mean per action is learned)
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from causalbandits._random import Seed, random_generator
from causalbandits._typing import is_integer, is_real
from causalbandits.environments.environment import Environment
from causalbandits.errors import ProblemError, SizeError, short_repr
from causalbandits.model import CausalGraph, CausalModel, Variable

HIDDEN = {
    "coins": ("U", "V"),
    "confounded_casino": ("drunk", "blinking"),
    "detour": ("U", "W"),
    "reversal": ("taste",),
}
"""The unobserved variables of each environment."""

DRAWN_VARIABLES = 200
"""The maximum number of variables of random graphs with unobserved confounders."""

CPT_ENTRY_LIMIT = 2**22
"""The maximum number of entries in all CPTs of a random model."""


def coins() -> Environment:
    """Unobserved confounders under which setting all three variables is worst.

    The graph is A -> B -> Y <- C. The unobserved U causes A and C; the unobserved V causes B and Y. Leaving B unset
    keeps its dependence on V.

    >>> env = coins()
    >>> [round(env.mean_reward(do), 3) for do in ({}, {"A": 1}, {"C": 1}, {"A": 1, "C": 0})]
    [0.308, 0.577, 0.628, 0.82]
    >>> round(env.mean_reward({"A": 1, "B": 0, "C": 0}), 3)
    0.5

    Returns:
        The graph is A -> B -> Y <- C. The unobserved U causes A and C; the unobserved V causes B and Y. If B is not
        set, it stays dependent on V.
    """
    model = CausalModel(
        [
            Variable("U", [0, 1], table=[0.7, 0.3]),
            Variable("V", [0, 1], table=[0.5, 0.5]),
            Variable("A", [0, 1], parents=["U"], table=[[1, 0], [0, 1]]),
            Variable("C", [0, 1], parents=["U"], table=_parity_cpt(1, 0.2)),
            Variable("B", [0, 1], parents=["A", "V"], table=_parity_cpt(2, 0.1)),
            Variable("Y", [0, 1], parents=["B", "V", "C"], table=_parity_cpt(3, 0.1)),
        ]
    )
    return Environment.from_model(model, manipulable=["A", "B", "C"], reward="Y", optional=True)


def detour() -> Environment:
    """Unobserved confounders and a variable that cannot be set, C, so that the best action sets A and B.

    The graph is A -> B -> C -> Y and A -> C. The unobserved U causes A and Y; the unobserved W causes B and C.

    >>> env = detour()
    >>> env.best().intervention, round(env.best().mean, 4)
    (do(A=0, B=0), 0.7836)

    Returns:
        The environment.
    """
    model = CausalModel(
        [
            Variable("U", [0, 1], table=[0.1, 0.9]),
            Variable("W", [0, 1], table=[0.4, 0.6]),
            Variable("A", [0, 1], parents=["U"], table=_binary_cpt([0.3, 0.6])),
            Variable("B", [0, 1], parents=["A", "W"], table=_binary_cpt([[0.5, 0.7], [0.4, 0.1]])),
            Variable(
                "C",
                [0, 1],
                parents=["A", "B", "W"],
                table=_binary_cpt([[[0.8, 0.9], [0.8, 0.1]], [[0.1, 0.1], [0.3, 0.6]]]),
            ),
            Variable("Y", [0, 1], parents=["C", "U"], table=_binary_cpt([[0.4, 0.1], [0.8, 0.9]])),
        ]
    )
    return Environment.from_model(model, manipulable=["A", "B"], reward="Y", optional=True)


def reversal() -> Environment:
    """An unobserved confounder of channel and engagement that reverses the order of the actions if it is ignored.

    The graph is channel -> exposure -> engagement -> sale; the unobserved taste causes channel and engagement. Exposure
    reduces engagement, but exposed customers would engage more anyway.

    >>> env = reversal()
    >>> [round(env.mean_reward({"channel": channel}), 3) for channel in ("web", "mail")]
    [0.488, 0.452]

    Returns:
        The environment.
    """
    model = CausalModel(
        [
            Variable("taste", [0, 1], table=[0.5, 0.5]),
            Variable("channel", ["web", "mail"], parents=["taste"], table=_binary_cpt([0.1, 0.9])),
            Variable("exposure", [0, 1], parents=["channel"], table=_binary_cpt([0.2, 0.8])),
            Variable("engagement", [0, 1], parents=["taste", "exposure"], table=_binary_cpt([[0.2, 0.1], [0.8, 0.7]])),
            Variable("sale", [0, 1], parents=["engagement"], table=_binary_cpt([0.2, 0.8])),
        ]
    )
    return Environment.from_model(model, manipulable=["channel"], reward="sale", optional=True)


def confounded_casino() -> Environment:
    """Two slot machines whose payout depends on the player's intent (Bareinboim, Forney and Pearl 2015).

    Drunkenness and a blinking machine determine the intent, which is the context. Machines pay least to players who
    follow their intent, so the best action given the intent is its opposite.

    >>> env = confounded_casino()
    >>> [round(env.mean_reward(do), 2) for do in ({}, {"machine": 0}, {"machine": 1})]
    [0.15, 0.3, 0.3]
    >>> env.best({"intent": 0})
    Best(intervention=do(machine=1), mean=0.45)

    Returns:
        The environment.
    """
    odd = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    pays = [[[0.1, 0.5], [0.4, 0.2]], [[0.5, 0.1], [0.2, 0.4]]]
    model = CausalModel(
        [
            Variable("drunk", [0, 1], table=[0.5, 0.5]),
            Variable("blinking", [0, 1], table=[0.5, 0.5]),
            Variable("intent", [0, 1], parents=["drunk", "blinking"], table=odd),
            Variable("machine", [0, 1], parents=["intent"], table=[[1, 0], [0, 1]]),
            Variable("payout", [0, 1], parents=["machine", "drunk", "blinking"], table=_binary_cpt(pays)),
        ]
    )
    return Environment.from_model(
        model, manipulable=["machine"], reward="payout", optional=True, shown=["intent"], context=["intent"]
    )


def _binary_cpt(probabilities: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The probabilities of 0 and 1, given those of 1."""
    p_one = np.asarray(probabilities, dtype=np.float64)
    return np.stack([1 - p_one, p_one], axis=-1)


def _parity_cpt(causes: int, error: float) -> npt.NDArray[np.float64]:
    """Whether the sum of some binary variables is odd, wrong with a small probability."""
    odd = np.indices([2] * causes).sum(axis=0) % 2 == 1
    return _binary_cpt(np.where(odd, 1 - error, error))


def random_hidden_graph(variables: int, *, arrows: float = 1.5, hidden: float = 1.0, rng: Seed = None) -> CausalGraph:
    """A random graph with unobserved confounders.

    >>> random_hidden_graph(4, rng=1)
    CausalGraph('X1 -> X2; X2 -> X3; {X2, X3} -> X4; X2 <-> X3')

    Args:
        variables: The number of observed variables.
        arrows: The mean number of parents of a variable; the first variables have fewer.
        hidden: The mean number of other variables with which a variable shares an unobserved confounder.
        rng: The seed or generator. Default: a random seed.

    Returns:
        The graph.

    Raises:
        ProblemError: If an argument is out of range.
        SizeError: If there are too many variables.
    """
    if not is_integer(variables) or variables < 1:
        raise ProblemError(f"variables must be a whole number, 1 or more; got {short_repr(variables)}.")
    if variables > DRAWN_VARIABLES:
        raise SizeError(
            f"A random graph with unobserved confounders has at most {DRAWN_VARIABLES} variables; got "
            f"{short_repr(variables)}."
        )
    for name, value in (("arrows", arrows), ("hidden", hidden)):
        if not is_real(value) or not 0 <= value <= DRAWN_VARIABLES:
            raise ProblemError(f"{name} must be a mean number, from 0 to {DRAWN_VARIABLES}; got {short_repr(value)}.")
    generator = random_generator(rng)
    names = [f"X{i}" for i in range(1, int(variables) + 1)]
    parents = {
        name: [names[j] for j in np.flatnonzero(generator.random(i) < arrows / max(i, 1))]
        for i, name in enumerate(names)
    }
    pairs = list(itertools.combinations(names, 2))
    tied = generator.random(len(pairs)) < hidden / max(1, len(names) - 1)
    return CausalGraph(parents, hidden=[pair for pair, is_tied in zip(pairs, tied.tolist(), strict=True) if is_tied])


def model_of_graph(graph: CausalGraph, *, states: int = 2, concentration: float = 1.0, rng: Seed = None) -> CausalModel:
    """A random causal model of a graph, with its unobserved confounders as variables U1, U2, ...

    >>> model = model_of_graph(CausalGraph.from_text("x -> y; x <-> y"), rng=0)
    >>> model.names, model["y"].parents
    (('U1', 'x', 'y'), ('x', 'U1'))

    Args:
        graph: The graph. Variables without values get 0, 1, ...
        states: The number of values of a variable whose values the graph does not give.
        concentration: The Dirichlet parameter of CPT rows.
        rng: The seed or generator. Default: a random seed.

    Returns:
        The model.

    Raises:
        ProblemError: If an argument is out of range.
    """
    if not isinstance(graph, CausalGraph):
        raise ProblemError(f"model_of_graph() takes a CausalGraph; got {short_repr(graph)}.")
    if not is_integer(states) or states < 1:
        raise ProblemError(f"states must be a whole number, 1 or more; got {short_repr(states)}.")
    if not is_real(concentration) or not 1e-3 <= concentration <= 1e6:
        raise ProblemError(f"concentration must be a number from 0.001 to 1,000,000; got {short_repr(concentration)}.")
    causes = dict(zip(graph.groups, _unused_names(graph, len(graph.groups)), strict=True))
    parents: dict[str, tuple[str, ...]] = dict.fromkeys(causes.values(), ())
    for name, own_parents in graph.parents.items():
        parents[name] = (*own_parents, *(cause for group, cause in causes.items() if name in group))
    values = {name: graph.states.get(name, tuple(range(int(states)))) for name in parents}
    if (
        sum(np.prod([float(len(values[n])) for n in (*own_parents, name)]) for name, own_parents in parents.items())
        > CPT_ENTRY_LIMIT
    ):
        raise SizeError(
            f"The CPTs of this model would have more than {CPT_ENTRY_LIMIT} numbers. Pass fewer arrows or states."
        )
    generator = random_generator(rng)
    return CausalModel(
        Variable(
            name,
            values[name],
            parents=own_parents,
            table=generator.dirichlet(
                np.full(len(values[name]), float(concentration)), [len(values[p]) for p in own_parents]
            ),
        )
        for name, own_parents in parents.items()
    )


def _unused_names(graph: CausalGraph, number: int) -> list[str]:
    """U1, U2, ..., without the names that the graph already has."""
    free = (name for i in itertools.count(1) if (name := f"U{i}") not in graph.parents)
    return list(itertools.islice(free, number))
