"""Which variables are worth setting, by the graph alone: whatever the tables are, a best action sets one of these sets.

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
from causalbandits.model.graph.admg import MixedGraph, members, union

SETS_LIMIT = 2**16
"""No more sets than this are listed."""

COMPARED_LIMIT = 2**12
"""No more minimal sets than this are compared with each other."""


def leading(graph: MixedGraph, reward: int, nodes: int) -> int:
    """Those of a set that lead to the reward by a path that avoids the others: once all are set, only these count."""
    inner = graph.ancestors(reward, graph.all & ~nodes)
    return graph.parents_of(inner) & nodes


def minimal_sets(graph: MixedGraph, reward: int, at_most: int | None = None) -> list[int]:
    """The sets of which every member counts, up to a size. Their subsets are such sets, so they grow one by one."""
    knobs = graph.ancestors(reward, graph.all) & ~reward
    found = [0]
    for smaller in found:
        if at_most is not None and smaller.bit_count() >= at_most:
            continue
        for node in members(knobs >> smaller.bit_length() << smaller.bit_length()):
            larger = smaller | 1 << node
            if leading(graph, reward, larger) == larger:
                found.append(larger)
        if len(found) > SETS_LIMIT:
            raise SizeError(_too_many("sets of variables have no member that could be left alone"))
    return found


def border(graph: MixedGraph, reward: int, cut: int) -> tuple[int, int]:
    """The territory of the reward where a set is cut off from its causes, and the territory's border."""
    inner = graph.ancestors(reward, graph.all & ~cut)
    territory, before = reward, 0
    while territory != before:
        before = territory
        territory = graph.descendants(graph.district(territory, inner), inner)
    return territory, graph.parents_of(territory) & ~territory


def borders(graph: MixedGraph, reward: int) -> list[int]:
    """All optimal sets."""
    first, start = border(graph, reward, 0)
    territories = {start: first}
    queue = [start]
    for found in queue:
        for node in members(territories[found] & ~reward):
            territory, other = border(graph, reward, found | 1 << node)
            if other not in territories:
                territories[other] = territory
                queue.append(other)
        if len(queue) > SETS_LIMIT:
            raise SizeError(_too_many("sets of variables may each be the best to set"))
    return queue


def optimal_sets(graph: MixedGraph, reward: int, at_most: int | None = None, always: int = 0) -> list[int]:
    """The sets that may each be the best to set, with at most so many variables, some of which are always set."""
    left = graph.without(always)
    found = borders(left, reward) if at_most is None else _few(left, reward, at_most - always.bit_count())
    return [always | own for own in found]


def _few(graph: MixedGraph, reward: int, at_most: int) -> list[int]:
    """Of the sets with at most so many variables, those that no other of them replaces."""
    allowed = minimal_sets(graph, reward, at_most)
    if len(allowed) > COMPARED_LIMIT:
        raise SizeError(
            f"{len(allowed)} sets of at most {at_most} variables would be compared with each other; the limit is "
            f"{COMPARED_LIMIT}. Allow fewer: at_most=, or fewer manipulable variables."
        )
    return [own for own in allowed if next(replacing(graph, reward, own, allowed), None) is None]


def replacing(graph: MixedGraph, reward: int, own: int, others: Sequence[int]) -> Iterator[int]:
    """Those of other sets whose settings have those of this one as mixtures."""
    return (other for other in others if other != own and is_mixture(graph, reward, own, other))


def is_mixture(graph: MixedGraph, reward: int, own: int, other: int) -> bool:
    """Whether every setting of one set is a mixture of the other's settings that agree with it."""
    more = other & ~own
    inner = graph.ancestors(reward, graph.all & ~(own | more))
    if graph.parents_of(inner) & own & ~other:
        return False  # a member of it would still count
    # What is set blocks every path, and nothing else is given: two sets are tied if they have a common cause.
    causes = more | graph.ancestors(graph.parents_of(more), graph.all & ~(own | more))
    return not (causes | union(graph.partners, causes)) & inner


def _too_many(what: str) -> str:
    return f"More than {SETS_LIMIT} {what}; the limit is {SETS_LIMIT}. Use at_most=, or fewer manipulable variables."
