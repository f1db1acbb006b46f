"""Unobserved variables of a model whose CPTs are learned: marginalised out, or refused where that is not possible.

A CPT is counted in the rounds that show its variable and all its parents. A parent that is never observed would leave
it as it was for ever; so the graph is replaced by that of the observed variables (`model.graph.marginal`), whose CPTs
the rounds do show.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable

import networkx as nx
import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import ProblemError, SizeError
from causalbandits.model import FittedModel
from causalbandits.model import graph as graphs
from causalbandits.problem.inference import ENTRY_LIMIT


def marginalise_unobserved(
    model: FittedModel,
    observed: Collection[str],
    *,
    manipulable: Collection[str],
    always_set: Collection[str],
    reward: str | None,
) -> FittedModel:
    """The model of the observed variables, among which are the manipulable ones, the context and the reward.

    P(. | do(a)) of the observed variables is the same for every action. Of a CPT whose parents change nothing may be
    known: what is known of P(m | k, u) gives no Dirichlet distribution for P(m | k).
    """
    unobserved = [name for name in model.names if name not in observed]
    if not unobserved:
        return model
    graph = _without_unobserved_causes(model.graph, unobserved, always_set)
    marginal = graphs.marginal_graph(graph, _factor_order(graph, model, observed, manipulable, reward))
    _refuse_confounded(graph, marginal, unobserved, manipulable)
    parents = {
        name: _keep_order(model[name].parents, marginal.parents[name]) for name in model.names if name in observed
    }
    changed = [name for name in parents if parents[name] != model[name].parents]
    counts, prior = dict(model.counts), dict(model.prior)
    for name in changed:
        shape = tuple(len(model[axis].states) for axis in (*parents[name], name))
        _refuse_large_table(name, parents[name], shape)
        pseudo_count = 1.0 if name in always_set else _flat_pseudo_count(model, name, unobserved)
        counts[name], prior[name] = np.zeros(shape), np.full(shape, pseudo_count)
    return FittedModel(
        {name: model[name].states for name in parents},
        parents,
        {name: counts[name] for name in parents},
        {name: prior[name] for name in parents},
        model.rows,
        model.filled,
        model.observational,
    )


def has_flat_prior(model: FittedModel, name: str) -> bool:
    """Whether nothing is known of a variable's CPT: no counts, and the same pseudo-count in every cell."""
    prior: Array = model.prior[name]
    return not model.counts[name].any() and bool((prior == prior.flat[0]).all())


def refuse_unobserved(kind: str, names: Iterable[str], observed: Collection[str], reason: str) -> None:
    """Refuse names of variables that are not among the observed ones."""
    for name in names:
        if name not in observed:
            raise ProblemError(f"{kind} must be observable: observable= leaves {name!r} out. {reason}")


def _without_unobserved_causes(graph: graphs.Graph, unobserved: list[str], always_set: Collection[str]) -> graphs.Graph:
    """The graph without arrows from unobserved variables into those that every action sets."""
    cut = nx.DiGraph(graph)
    cut.remove_edges_from(
        [(cause, name) for name in always_set for cause in graph.predecessors(name) if cause in unobserved]
    )
    return cut


def _factor_order(
    graph: graphs.Graph, model: FittedModel, observed: Collection[str], manipulable: Collection[str], reward: str | None
) -> list[str]:
    """The observed variables in the order in which a district is factorised.

    The reward and what it causes come last, and before them what a manipulable variable causes: else the context, or a
    parent of the reward, might be given one of these.
    """
    after_reward = set() if reward is None else {reward, *nx.descendants(graph, reward)}
    after_action: set[Hashable] = set(manipulable).union(*(nx.descendants(graph, name) for name in manipulable))
    return sorted(
        (name for name in model.names if name in observed),
        key=lambda name: (name in after_reward, name in after_action),
    )


def _refuse_confounded(
    graph: graphs.Graph, marginal: graphs.MarginalGraph, unobserved: list[str], manipulable: Collection[str]
) -> None:
    """Refuse a manipulable variable that has an unobserved common cause with another one.

    Left alone, it tells something of that cause, and set, it does not: P(m | k) is not P(m | do(k)).
    """
    for district in marginal.confounded:
        knob = next((name for name in district if name in manipulable), None)
        if knob is not None:
            others = [name for name in district if name != knob]
            causes = graphs.ancestors(graph, [knob])
            cause = next(name for name in unobserved if name in causes)
            raise ProblemError(
                f"An unobserved variable must not be a common cause of a manipulable variable and others; {cause!r} is "
                f"one of {knob!r} and ties it to {', '.join(map(repr, others))}, so that rounds in which {knob!r} was "
                f"left alone do not show what setting it does. Set it in every action (always=[{knob!r}]), observe "
                f"{cause!r} (observable=), or learn a number per action (parents=[])."
            )


def _keep_order(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    """The parents in the order in which they were, and the new ones behind them."""
    return (*(name for name in before if name in after), *(name for name in after if name not in before))


def _flat_pseudo_count(model: FittedModel, name: str, unobserved: list[str]) -> float:
    """The pseudo-count of every cell of a CPT of which nothing is known."""
    if not has_flat_prior(model, name):
        lost = [parent for parent in model[name].parents if parent in unobserved] or unobserved
        raise ProblemError(
            f"Unobserved variables are marginalised out of CPTs of which nothing is known; something is known of "
            f"P({name} | {', '.join(model[name].parents)}), from data or a prior, and {', '.join(map(repr, lost))} is "
            "not observable. Fit the graph without it, fit(graph.projected([...]), ...), or add it to observable=."
        )
    return float(model.prior[name].flat[0])


def _refuse_large_table(name: str, parents: tuple[str, ...], shape: tuple[int, ...]) -> None:
    if math.prod(shape) > ENTRY_LIMIT:
        raise SizeError(
            f"Without the unobserved variables, the CPT of {name!r} is given {', '.join(map(repr, parents))} and has "
            f"{math.prod(shape)} entries; the limit is {ENTRY_LIMIT}. Observe more of them, or give them fewer states."
        )
