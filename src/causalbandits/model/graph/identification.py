"""P(z | do(s)) from what is observed: identified, with its formula, or not, with the reason.

Everything is in terms of factors Q[D], the distribution of a group D when all else is set (Tian and Pearl 2002). With A
what leads to z once s is cut off from its causes, P(z | do(s)) is the sum, over what is in A and neither in z nor in s,
of the product of Q[D] over the districts D of A - s. What is observed gives Q[T] of its own districts T: in an order of
causes before effects, the product of P(v | pillow), where v's pillow is its district among what came before it and
that district's parents (Richardson 2003). From Q[T], to find Q[D]:

- with A the ancestors of D inside T: if that is D, sum the rest out; if it is T, there is no way (Huang and Valtorta
  2006, Shpitser and Pearl 2006): T and D are a *hedge*;
- else sum out what is not in A, and go on with the district of A that holds D, whose Q is, for each member in order, a
  ratio of two partial sums.

Rows in which a set R was set at random are a further source: the same with all that is outside of R. A table of v is
the same in all sources in which v's district among what came before it is: it is named by what must have been set for
that, the district's hidden partners, and not by R.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import NotIdentifiedError, ProblemError
from causalbandits.model.graph import dag as graphs
from causalbandits.model.graph.admg import MixedGraph, members, union
from causalbandits.model.graph.estimand import (
    Anywhere,
    Conditional,
    ConditionalTables,
    Formula,
    computed,
    free_names,
    ratio,
    summed,
    times,
)

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True)
class Hedge:
    """Why a factor is not identified: a group that hidden causes tie together, and one in it, which it all leads to."""

    whole: int
    inner: int


class RowSource:
    """Rows in which a set of variables (none, perhaps) was set at random."""

    def __init__(self, graph: MixedGraph, randomised: int) -> None:
        self.graph, self.randomised = graph, randomised
        self.rest = graph.all & ~randomised
        self._order = [i for i in graph.order if self.rest >> i & 1]

    def factor(self, group: int) -> Formula | Hedge:
        """Q of a group that hidden causes tie together."""
        found = self._inside(group, *self._observed(group))
        return found if isinstance(found, Hedge) else self._without_others(found, group)

    def district(self, node: int) -> int:
        """What hidden causes tie a node to, among what came before it and was not set."""
        return self.graph.district(1 << node, self._upto(node) & self.rest)

    def conditional(self, node: int) -> Conditional:
        """P(v | its pillow), of the rows in which what would have joined its district was set."""
        district = self.district(node)
        pillow = (district | self.graph.parents_of(district)) & ~(1 << node)
        cut_off = union(self.graph.partners, district) & self._upto(node) & ~district
        return Conditional(self.graph.names[node], self.graph.shown(pillow), self.graph.shown(cut_off))

    def conditionals(self) -> list[Conditional]:
        """The tables of all that was not set, in the graph's order."""
        return [self.conditional(i) for i in members(self.rest)]

    def _upto(self, node: int) -> int:
        """What comes before a node, and the node."""
        order = self.graph.order
        return sum(1 << i for i in order[: order.index(node) + 1])

    def _observed(self, group: int) -> tuple[int, Formula]:
        district = self.graph.district(group, self.rest)
        return district, times(self.conditional(i) for i in self._order if district >> i & 1)

    def _inside(self, group: int, whole: int, factor: Formula) -> Formula | Hedge:
        """Q of a group, given that of a district it is in."""
        own = self.graph.ancestors(group, whole)
        if own == whole != group:
            return Hedge(whole, group)
        left = summed(self.graph.shown(whole & ~own), factor)
        if own == group:
            return left
        district = self.graph.district(group, own)
        order = [i for i in self._order if own >> i & 1]
        return self._inside(group, district, times(self._shares(left, order, district)))

    def _shares(self, factor: Formula, order: Sequence[int], district: int) -> list[Formula]:
        """For each member of a district, its probability given what came before it: a ratio of partial sums."""
        names = [self.graph.names[i] for i in order]
        upto = [summed(names[i:], factor) for i in range(len(order) + 1)]
        return [ratio(upto[i + 1], upto[i]) for i, node in enumerate(order) if district >> node & 1]

    def _without_others(self, factor: Formula, group: int) -> Formula:
        """The same without what makes no difference: all but the group and its parents."""
        own = self.graph.shown(group | self.graph.parents_of(group))
        others = self.graph.bits(free_names(factor).difference(own))
        if not others:
            return factor
        closed = self._with_pillows(others & self.rest)
        tables = times(self.conditional(i) for i in self._order if closed >> i & 1)
        shares = summed(self.graph.shown(closed & ~others), tables)
        # What was set at random has no share of its own: all its values count alike.
        alike = self.graph.bits(free_names(shares).difference(own)) & self.randomised | others & self.randomised
        return Anywhere(self.graph.shown(others | alike), factor, shares, self.graph.shown(alike))

    def _with_pillows(self, nodes: int) -> int:
        """These, what their tables are given, and so on: the product of all these tables is a distribution."""
        found, before = nodes, 0
        while found != before:
            before = found
            for i in members(found):
                found |= self.graph.bits(self.conditional(i).given) & self.rest
        return found


def factor_of(sources: Sequence[RowSource], group: int) -> Formula | Hedge:
    """Q of a group, from the first source that gives it; where each source sets some of it, it is its own hedge."""
    refused = Hedge(group, group)
    for source in sources:
        if not group & source.randomised:
            found = source.factor(group)
            if not isinstance(found, Hedge):
                return found
            refused = found if refused.whole == refused.inner else refused
    return refused


def effect_of(graph: MixedGraph, of: int, do: int, randomised: Sequence[int]) -> Formula | Hedge:
    """P(of | do(do)), from sources in which these sets (none: 0) were set at random."""
    sources = [RowSource(graph, own) for own in randomised]
    inner = graph.ancestors(of, graph.all & ~do)
    factors = []
    for district in _districts_in_order(graph, inner):
        found = factor_of(sources, district)
        if isinstance(found, Hedge):
            return found
        factors.append(found)
    return summed(graph.shown(inner & ~of), times(factors))


def _districts_in_order(graph: MixedGraph, within: int) -> list[int]:
    """Districts by their first members, causes before effects."""
    place = {node: i for i, node in enumerate(graph.order)}
    return sorted(graph.districts(within), key=lambda own: min(place[node] for node in members(own)))


REMEDY_SIZE = 3
"""Remedies of more parts are not looked for."""

UNSEEN_SHARE = 1e-6
"""Distributions may miss 1 by this much; by more, something was never seen."""


@dataclass(frozen=True)
class Effect:
    """P(of | do(do)) as a formula of what is observed."""

    of: tuple[str, ...]
    do: tuple[str, ...]
    formula: Formula

    def __str__(self) -> str:
        return str(self.formula)

    def __repr__(self) -> str:
        return f"{effect_name(self.of, self.do)} = {self.formula}"

    def numbers(self, tables: ConditionalTables, sizes: dict[str, int]) -> Array:
        """An axis for each of `do`, then of `of`, given the tables and how many states variables have.

        Where a distribution does not sum to 1, something was never seen.
        """
        found, axes = computed(self.formula, tables, sizes)
        wanted = (*self.do, *self.of)
        order = np.argsort([wanted.index(name) for name in axes])
        shape = [sizes[name] if name in axes else 1 for name in wanted]
        return np.broadcast_to(found.transpose(order).reshape(shape), [sizes[name] for name in wanted])

    def computed(self, tables: ConditionalTables, sizes: dict[str, int]) -> Array:
        """The same, refused where something was never seen."""
        numbers = self.numbers(tables, sizes)
        total = numbers.sum(axis=tuple(range(len(self.do), numbers.ndim)))
        if (np.abs(total - 1) > UNSEEN_SHARE).any():
            raise ProblemError(
                f"{effect_name(self.of, self.do)} = {self.formula} needs what was never seen: a table in it has rows "
                "of probability 0."
            )
        return numbers


def effect_name(of: Sequence[str], do: Sequence[str]) -> str:
    """P(of | do(do))."""
    return f"P({', '.join(of)} | do({', '.join(do)}))" if do else f"P({', '.join(of)})"


class Question:
    """An effect that is asked of a graph of which only some nodes are observed, and what would help to answer it."""

    def __init__(self, graph: graphs.Graph, observed: Sequence[str], of: Sequence[str], do: Sequence[str]) -> None:
        self._graph, self._observed, self._of, self._do = graph, list(observed), of, do
        self.mixed = MixedGraph.projection(graph, observed)

    def answer(
        self, randomised: Sequence[Sequence[str]] = ((),), also_observed: Sequence[Hashable] = ()
    ) -> Formula | Hedge:
        """The formula, where rows set these sets at random (nothing, perhaps), and these hidden nodes are observed."""
        mixed = self.mixed
        if also_observed:
            mixed = MixedGraph.projection(self._graph, [*self._observed, *also_observed])  # type: ignore[list-item]
        return effect_of(mixed, mixed.bits(self._of), mixed.bits(self._do), [mixed.bits(own) for own in randomised])

    def to_randomise(self, hedge: Hedge, randomised: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """The smallest set of variables that would help if it were set at random in some rows; to set all does."""
        near = [name for name in self.mixed.shown(hedge.whole) if name not in (*self._do, *self._of)]
        for own in _small([*self._do, *near]):
            if not isinstance(self.answer([*randomised, own]), Hedge):
                return own
        return tuple(self._do)

    def to_observe(self, hedge: Hedge, randomised: Sequence[Sequence[str]]) -> tuple[Hashable, ...]:
        """The fewest hidden nodes whose observation would help, of those that tie the hedge together."""
        whole = set(self.mixed.shown(hedge.whole))
        hidden = [node for node in self._graph if node not in self._observed]
        near = [node for node in hidden if len(whole & graphs.reached_through(self._graph, node, hidden)) > 1]
        for own in _small(near):
            if not isinstance(self.answer(randomised, own), Hedge):
                return own
        return ()

    def refusal(self, hedge: Hedge, randomised: Sequence[Sequence[str]]) -> NotIdentifiedError:
        """Why there is no answer, and what would help."""
        if hedge.whole == hedge.inner:
            return self._without_rows(hedge)
        causes, knobs = self.to_observe(hedge, randomised), self.to_randomise(hedge, randomised)
        shown = ", ".join(map(graphs.shown_cause, causes))
        at_random = f"et {', '.join(knobs)} at random in some rows (interventions=)"
        error = NotIdentifiedError(
            f"{effect_name(self._of, self._do)} cannot be computed from what is observed: {self.reason(hedge)}. "
            f"{f'Observe {shown}, or s' if causes else 'S'}{at_random}; or learn a number per action: parents=[]."
        )
        error.of, error.do, error.randomise = tuple(self._of), tuple(self._do), knobs
        error.observe = tuple(node[1] if isinstance(node, tuple) else str(node) for node in causes)
        error.hedge = self.mixed.shown(hedge.whole), self.mixed.shown(hedge.inner)
        return error

    def _without_rows(self, hedge: Hedge) -> NotIdentifiedError:
        names = ", ".join(self.mixed.shown(hedge.whole))
        error = NotIdentifiedError(
            f"{effect_name(self._of, self._do)} hangs on how {names} come{'s' * (hedge.whole.bit_count() == 1)} about, "
            f"and no rows tell: in each, some of that was set. Add rows that leave {names} alone; or learn a number "
            "per action: parents=[]."
        )
        error.of, error.do = tuple(self._of), tuple(self._do)
        return error

    def reason(self, hedge: Hedge) -> str:
        """Why there is no answer, in words."""
        mixed, outer = self.mixed, hedge.whole & ~hedge.inner
        pairs = [
            f"{mixed.names[i]} <-> {mixed.names[j]}"
            for i in members(hedge.whole)
            for j in members(mixed.partners[i] & hedge.whole >> i + 1 << i + 1)
        ]
        leads = "leads" if outer.bit_count() == 1 else "lead"
        tied = "both have a hidden cause" if hedge.whole.bit_count() == 2 else "hidden causes tie them together"
        return (
            f"{', '.join(mixed.shown(outer))} {leads} to {', '.join(mixed.shown(hedge.inner))}, and {tied} "
            f"({', '.join(pairs)})"
        )


def _small(parts: Sequence[_T]) -> Iterator[tuple[_T, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(parts, size) for size in range(1, REMEDY_SIZE + 1))
