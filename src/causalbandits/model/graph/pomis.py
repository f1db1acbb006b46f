"""POMIS: the possibly optimal minimal intervention sets, determined by the graph alone.

Unobserved variables and variables that cannot be set are equivalent here, so all functions use the latent projection
onto the manipulable variables and the reward.

*Minimal intervention sets* (MIS; Lee and Bareinboim 2018): each member has a directed path to the reward that avoids
the other members. In any other set, some member has no effect once the others are set.

*Possibly optimal sets*: let a set W be cut off from its causes, and let I be the ancestors of the reward that remain.
The *territory* T(W) is the smallest subset of I that contains the reward and is closed under bidirected edges and under
descendants. The *border* B(W) consists of the parents of the territory outside of it. Setting W is a mixture of
settings of B(W). The borders are the POMIS: each of them is strictly the best in some model. From each border found,
the next ones result from cutting one more variable of the territory. Cutting outside of the territory changes neither
territory nor border, and the effect of cutting inside depends on earlier cuts only through their border. All borders
are therefore found.

*Under constraints*, one rule covers all cases. Let X and Z be two sets, and W = Z - X. Suppose that W is separated from
the reward once X is set and the arrows out of W are removed. Suppose also that, among X + W, only members of Z are then
parents of an ancestor of the reward. Then setting X is a mixture of the settings of Z that agree with X on common
variables, with weights P(w | do(x)). X can therefore be dropped if all these settings are allowed. Each replacement
moves towards the reward, so the process ends. (Only dropping the possibly optimal sets that are not allowed would be
wrong, because the best of the remaining sets need not be possibly optimal in the unconstrained problem.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from causalbandits.errors import SizeError
from causalbandits.model.graph.admg import ADMG, members, union

SETS_LIMIT = 2**16
"""The maximum number of sets that are listed."""

COMPARISON_LIMIT = 2**12
"""The maximum number of minimal sets that are compared with each other."""


def minimal_subset(graph: ADMG, reward: int, nodes: int) -> int:
    """The members of a set with a directed path to the reward that avoids the other members.

    If all members are set, the others have no effect.
    """
    inner = graph.ancestors(reward, graph.all_nodes & ~nodes)
    return graph.parents_of(inner) & nodes


def minimal_intervention_sets(graph: ADMG, reward: int, max_set: int | None = None) -> list[int]:
    """The minimal intervention sets up to a size.

    Subsets of minimal sets are minimal, so the sets are built by adding one variable at a time.
    """
    candidates = graph.ancestors(reward, graph.all_nodes) & ~reward
    sets = [0]
    for smaller in sets:
        if max_set is not None and smaller.bit_count() >= max_set:
            continue
        for node in members(candidates >> smaller.bit_length() << smaller.bit_length()):
            larger = smaller | 1 << node
            if minimal_subset(graph, reward, larger) == larger:
                sets.append(larger)
        if len(sets) > SETS_LIMIT:
            raise SizeError(_too_many_message("minimal intervention sets (MIS)"))
    return sets


def muct_and_border(graph: ADMG, reward: int, cut: int) -> tuple[int, int]:
    """The territory of the reward (MUCT) after a set is cut off from its causes, and the territory's border."""
    inner = graph.ancestors(reward, graph.all_nodes & ~cut)
    muct, previous = reward, 0
    while muct != previous:
        previous = muct
        muct = graph.descendants(graph.district(muct, inner), inner)
    return muct, graph.parents_of(muct) & ~muct


def interventional_borders(graph: ADMG, reward: int) -> list[int]:
    """All possibly optimal sets (POMIS)."""
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
    """The sets that may be the best to intervene on, with at most `max_set` variables, including those of `always`."""
    cut_graph = graph.without_edges_of(always)
    sets = (
        interventional_borders(cut_graph, reward)
        if max_set is None
        else _undominated_sets(cut_graph, reward, max_set - always.bit_count())
    )
    return [always | nodes for nodes in sets]


def _undominated_sets(graph: ADMG, reward: int, max_set: int) -> list[int]:
    """The sets with at most `max_set` variables that no other such set dominates."""
    allowed = minimal_intervention_sets(graph, reward, max_set)
    if len(allowed) > COMPARISON_LIMIT:
        raise SizeError(
            f"{len(allowed)} sets of at most {max_set} variables would be compared with each other; the limit is "
            f"{COMPARISON_LIMIT}. Allow fewer: max_set=, or fewer manipulable variables."
        )
    return [nodes for nodes in allowed if next(dominating_sets(graph, reward, nodes, allowed), None) is None]


def dominating_sets(graph: ADMG, reward: int, nodes: int, candidates: Sequence[int]) -> Iterator[int]:
    """The candidate sets whose settings include those of this set as mixtures."""
    return (candidate for candidate in candidates if candidate != nodes and is_mixture(graph, reward, nodes, candidate))


def is_mixture(graph: ADMG, reward: int, nodes: int, candidate: int) -> bool:
    """Whether every setting of one set is a mixture of the other set's settings that agree with it."""
    added = candidate & ~nodes
    inner = graph.ancestors(reward, graph.all_nodes & ~(nodes | added))
    if graph.parents_of(inner) & nodes & ~candidate:
        return False  # a member of the difference would still affect the reward
    # Intervened variables block every path and nothing else is conditioned on: two sets are dependent if they share a
    # cause.
    causes = added | graph.ancestors(graph.parents_of(added), graph.all_nodes & ~(nodes | added))
    return not (causes | union(graph.siblings, causes)) & inner


def _too_many_message(subject: str) -> str:
    return f"More than {SETS_LIMIT} {subject}; the limit is {SETS_LIMIT}. Use max_set=, or fewer manipulable variables."
