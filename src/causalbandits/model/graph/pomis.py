"""POMIS: the possibly optimal minimal intervention sets, by the graph alone.

Hidden variables and variables that cannot be set are the same thing here, so all of this is asked of the projection
onto what can be set and the reward.

*Minimal sets* (Lee and Bareinboim 2018): each member leads to the reward by a path that avoids the others; of any other
set, some member changes nothing once the rest is set.

*Optimal sets*: for a set W that is cut off from its causes, let the *territory* T(W) be the smallest set among what
then leads to the reward that holds the reward and is closed under hidden pairs and under effects, and the *border* B(W)
the causes of the territory outside of it. Setting W is a mixture of settings of B(W). The borders are the optimal sets:
each of them is strictly the best in some model. From each border found, the next are those with one more variable of
the territory cut: cutting outside of the territory changes neither territory nor border, and cutting inside depends on
what was cut before only through its border, so that all are found.

*Under constraints*, one rule for all. With X and Z two sets and W = Z - X: if W is separated from the reward once X is
set and the arrows out of W are gone, and of X + W only members of Z still lead to the reward, then setting X is a
mixture of the settings of Z that agree with it where both set, with weights P(w | do(x)). So X need not be tried where
all these may be. Replacing moves towards the reward, and comes to an end. (To drop those optimal sets that are not
allowed would be wrong: what is the best of the rest may have been none of them.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from causalbandits.errors import SizeError
from causalbandits.model.graph.admg import ADMG, members, union

SETS_LIMIT = 2**16
"""No more sets than this are listed."""

COMPARISON_LIMIT = 2**12
"""No more minimal sets than this are compared with each other."""


def minimal_subset(graph: ADMG, reward: int, nodes: int) -> int:
    """Those of a set that lead to the reward by a path that avoids the others: once all are set, only these count."""
    inner = graph.ancestors(reward, graph.all_nodes & ~nodes)
    return graph.parents_of(inner) & nodes


def minimal_intervention_sets(graph: ADMG, reward: int, max_set: int | None = None) -> list[int]:
    """The sets of which every member counts, up to a size. Their subsets are such sets, so they grow one by one."""
    knobs = graph.ancestors(reward, graph.all_nodes) & ~reward
    sets = [0]
    for smaller in sets:
        if max_set is not None and smaller.bit_count() >= max_set:
            continue
        for node in members(knobs >> smaller.bit_length() << smaller.bit_length()):
            larger = smaller | 1 << node
            if minimal_subset(graph, reward, larger) == larger:
                sets.append(larger)
        if len(sets) > SETS_LIMIT:
            raise SizeError(_too_many_message("minimal intervention sets (MIS)"))
    return sets


def muct_and_border(graph: ADMG, reward: int, cut: int) -> tuple[int, int]:
    """The territory of the reward where a set is cut off from its causes, and the territory's border."""
    inner = graph.ancestors(reward, graph.all_nodes & ~cut)
    muct, previous = reward, 0
    while muct != previous:
        previous = muct
        muct = graph.descendants(graph.district(muct, inner), inner)
    return muct, graph.parents_of(muct) & ~muct


def interventional_borders(graph: ADMG, reward: int) -> list[int]:
    """All optimal sets."""
    first_muct, start = muct_and_border(graph, reward, 0)
    mucts = {start: first_muct}
    queue = [start]
    for border in queue:
        for node in members(mucts[border] & ~reward):
            muct, next_border = muct_and_border(graph, reward, border | 1 << node)
            if next_border not in mucts:
                mucts[next_border] = muct
                queue.append(next_border)
        if len(queue) > SETS_LIMIT:
            raise SizeError(_too_many_message("possibly optimal minimal intervention sets (POMIS)"))
    return queue


def pomis_sets(graph: ADMG, reward: int, max_set: int | None = None, always: int = 0) -> list[int]:
    """The sets that may each be the best to set, with at most so many variables, some of which are always set."""
    cut_graph = graph.without_edges_of(always)
    sets = (
        interventional_borders(cut_graph, reward)
        if max_set is None
        else _undominated_sets(cut_graph, reward, max_set - always.bit_count())
    )
    return [always | nodes for nodes in sets]


def _undominated_sets(graph: ADMG, reward: int, max_set: int) -> list[int]:
    """Of the sets with at most so many variables, those that no other of them replaces."""
    allowed = minimal_intervention_sets(graph, reward, max_set)
    if len(allowed) > COMPARISON_LIMIT:
        raise SizeError(
            f"{len(allowed)} sets of at most {max_set} variables would be compared with each other; the limit is "
            f"{COMPARISON_LIMIT}. Allow fewer: max_set=, or fewer manipulable variables."
        )
    return [nodes for nodes in allowed if next(dominating_sets(graph, reward, nodes, allowed), None) is None]


def dominating_sets(graph: ADMG, reward: int, nodes: int, candidates: Sequence[int]) -> Iterator[int]:
    """Those of other sets whose settings have those of this one as mixtures."""
    return (candidate for candidate in candidates if candidate != nodes and is_mixture(graph, reward, nodes, candidate))


def is_mixture(graph: ADMG, reward: int, nodes: int, candidate: int) -> bool:
    """Whether every setting of one set is a mixture of the other's settings that agree with it."""
    added = candidate & ~nodes
    inner = graph.ancestors(reward, graph.all_nodes & ~(nodes | added))
    if graph.parents_of(inner) & nodes & ~candidate:
        return False  # a member of it would still count
    # What is set blocks every path, and nothing else is given: two sets are tied if they have a common cause.
    causes = added | graph.ancestors(graph.parents_of(added), graph.all_nodes & ~(nodes | added))
    return not (causes | union(graph.siblings, causes)) & inner


def _too_many_message(subject: str) -> str:
    return f"More than {SETS_LIMIT} {subject}; the limit is {SETS_LIMIT}. Use max_set=, or fewer manipulable variables."
