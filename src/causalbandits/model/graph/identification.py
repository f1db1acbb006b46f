"""Identification of P(z | do(s)) from observed variables: a formula, or the reason if there is none.

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
from typing import NamedTuple, TypeVar

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import NotIdentifiedError, ProblemError
from causalbandits.model.graph import dag as graphs
from causalbandits.model.graph.admg import ADMG, members, union
from causalbandits.model.graph.estimand import (
    Conditional,
    ConditionalTables,
    Formula,
    InvariantAverage,
    evaluate,
    free_names,
    product_of,
    ratio,
    sum_out,
)

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True)
class Hedge:
    """Why a factor is not identified: a group that hidden causes tie together, and one in it, which it all leads to."""

    outer: int
    inner: int


class DataRegime:
    """Rows in which a set of variables (none, perhaps) was set at random."""

    def __init__(self, graph: ADMG, randomised: int) -> None:
        self.graph, self.randomised = graph, randomised
        self.observed_nodes = graph.all_nodes & ~randomised
        self._order = [i for i in graph.order if self.observed_nodes >> i & 1]

    def factor(self, group: int) -> Formula | Hedge:
        """Q of a group that hidden causes tie together."""
        formula = self._identify_within(group, *self._district_factor(group))
        return formula if isinstance(formula, Hedge) else self._average_out_others(formula, group)

    def district(self, node: int) -> int:
        """What hidden causes tie a node to, among what came before it and was not set."""
        return self.graph.district(1 << node, self._prefix(node) & self.observed_nodes)

    def conditional(self, node: int) -> Conditional:
        """P(v | its pillow), of the rows in which what would have joined its district was set."""
        district = self.district(node)
        pillow = (district | self.graph.parents_of(district)) & ~(1 << node)
        cut_off = union(self.graph.siblings, district) & self._prefix(node) & ~district
        return Conditional(self.graph.names[node], self.graph.names_of(pillow), self.graph.names_of(cut_off))

    def conditionals(self) -> list[Conditional]:
        """The tables of all that was not set, in the graph's order."""
        return [self.conditional(i) for i in members(self.observed_nodes)]

    def _prefix(self, node: int) -> int:
        """What comes before a node, and the node."""
        order = self.graph.order
        return sum(1 << i for i in order[: order.index(node) + 1])

    def _district_factor(self, group: int) -> tuple[int, Formula]:
        district = self.graph.district(group, self.observed_nodes)
        return district, product_of(self.conditional(i) for i in self._order if district >> i & 1)

    def _identify_within(self, group: int, outer: int, factor: Formula) -> Formula | Hedge:
        """Q of a group, given that of a district it is in."""
        ancestral = self.graph.ancestors(group, outer)
        if ancestral == outer != group:
            return Hedge(outer, group)
        ancestral_factor = sum_out(self.graph.names_of(outer & ~ancestral), factor)
        if ancestral == group:
            return ancestral_factor
        district = self.graph.district(group, ancestral)
        order = [i for i in self._order if ancestral >> i & 1]
        return self._identify_within(
            group, district, product_of(self._conditional_factors(ancestral_factor, order, district))
        )

    def _conditional_factors(self, factor: Formula, order: Sequence[int], district: int) -> list[Formula]:
        """For each member of a district, its probability given what came before it: a ratio of partial sums."""
        names = [self.graph.names[i] for i in order]
        partial_sums = [sum_out(names[i:], factor) for i in range(len(order) + 1)]
        return [ratio(partial_sums[i + 1], partial_sums[i]) for i, node in enumerate(order) if district >> node & 1]

    def _average_out_others(self, factor: Formula, group: int) -> Formula:
        """The same without what makes no difference: all but the group and its parents."""
        relevant = self.graph.names_of(group | self.graph.parents_of(group))
        others = self.graph.bits(free_names(factor).difference(relevant))
        if not others:
            return factor
        closure = self._close_under_pillows(others & self.observed_nodes)
        tables = product_of(self.conditional(i) for i in self._order if closure >> i & 1)
        shares = sum_out(self.graph.names_of(closure & ~others), tables)
        # What was set at random has no share of its own: all its values count alike.
        alike = self.graph.bits(free_names(shares).difference(relevant)) & self.randomised | others & self.randomised
        return InvariantAverage(self.graph.names_of(others | alike), factor, shares, self.graph.names_of(alike))

    def _close_under_pillows(self, nodes: int) -> int:
        """These, what their tables are given, and so on: the product of all these tables is a distribution."""
        closure, previous = nodes, 0
        while closure != previous:
            previous = closure
            for i in members(closure):
                closure |= self.graph.bits(self.conditional(i).conditioning) & self.observed_nodes
        return closure


def identify_factor(sources: Sequence[DataRegime], group: int) -> Formula | Hedge:
    """Q of a group, from the first source that gives it; where each source sets some of it, it is its own hedge."""
    hedge = Hedge(group, group)
    for source in sources:
        if not group & source.randomised:
            formula = source.factor(group)
            if not isinstance(formula, Hedge):
                return formula
            hedge = formula if hedge.outer == hedge.inner else hedge
    return hedge


def identify_effect(graph: ADMG, of: int, do: int, randomised: Sequence[int]) -> Formula | Hedge:
    """P(of | do(do)), from sources in which these sets (none: 0) were set at random."""
    sources = [DataRegime(graph, nodes) for nodes in randomised]
    inner = graph.ancestors(of, graph.all_nodes & ~do)
    factors = []
    for district in _sort_districts(graph, inner):
        formula = identify_factor(sources, district)
        if isinstance(formula, Hedge):
            return formula
        factors.append(formula)
    return sum_out(graph.names_of(inner & ~of), product_of(factors))


def _sort_districts(graph: ADMG, within: int) -> list[int]:
    """Districts by their first members, causes before effects."""
    place = {node: i for i, node in enumerate(graph.order)}
    return sorted(graph.districts(within), key=lambda district: min(place[node] for node in members(district)))


REMEDY_SIZE = 3
"""Remedies of more parts are not looked for."""

UNSEEN_SHARE = 1e-6
"""Distributions may miss 1 by this much; by more, something was never seen."""


@dataclass(frozen=True)
class Estimand:
    """A formula for P(of | do(...)) in observed distributions; prints as the formula.

    Attributes:
        of: The outcome variables.
        do: The variables that are set.
        formula: The formula.
    """

    of: tuple[str, ...]
    do: tuple[str, ...]
    formula: Formula

    def __str__(self) -> str:
        return str(self.formula)

    def __repr__(self) -> str:
        return f"{format_effect(self.of, self.do)} = {self.formula}"

    def evaluate_unchecked(self, tables: ConditionalTables, sizes: dict[str, int]) -> Array:
        """Evaluate the formula; a distribution that does not sum to 1 depends on rows that were never seen.

        Args:
            tables: The CPTs.
            sizes: The number of values of each variable.

        Returns:
            An array with an axis for each of `do`, then of `of`.
        """
        array, axes = evaluate(self.formula, tables, sizes)
        all_axes = (*self.do, *self.of)
        order = np.argsort([all_axes.index(name) for name in axes])
        shape = [sizes[name] if name in axes else 1 for name in all_axes]
        return np.broadcast_to(array.transpose(order).reshape(shape), [sizes[name] for name in all_axes])

    def evaluate(self, tables: ConditionalTables, sizes: dict[str, int]) -> Array:
        """The same, refused where something was never seen."""
        numbers = self.evaluate_unchecked(tables, sizes)
        total = numbers.sum(axis=tuple(range(len(self.do), numbers.ndim)))
        if (np.abs(total - 1) > UNSEEN_SHARE).any():
            raise ProblemError(
                f"{format_effect(self.of, self.do)} = {self.formula} is not available: one of its tables has rows "
                "without data."
            )
        return numbers


def format_effect(of: Sequence[str], do: Sequence[str]) -> str:
    """P(of | do(do))."""
    return f"P({', '.join(of)} | do({', '.join(do)}))" if do else f"P({', '.join(of)})"


class IdentificationQuery:
    """An effect that is asked of a graph of which only some nodes are observed, and what would help to answer it."""

    def __init__(self, graph: graphs.Graph, observed: Sequence[str], of: Sequence[str], do: Sequence[str]) -> None:
        self._graph, self._observed, self._of, self._do = graph, list(observed), of, do
        self.admg = ADMG.projection(graph, observed)

    def identify(
        self, randomised: Sequence[Sequence[str]] = ((),), also_observed: Sequence[Hashable] = ()
    ) -> Formula | Hedge:
        """The formula, where rows set these sets at random (nothing, perhaps), and these hidden nodes are observed."""
        admg = self.admg
        if also_observed:
            admg = ADMG.projection(self._graph, [*self._observed, *also_observed])  # type: ignore[list-item]
        return identify_effect(
            admg, admg.bits(self._of), admg.bits(self._do), [admg.bits(group) for group in randomised]
        )

    def variables_to_randomise(self, hedge: Hedge, randomised: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """The smallest set of variables that would help if it were set at random in some rows; to set all does."""
        candidates = [name for name in self.admg.names_of(hedge.outer) if name not in (*self._do, *self._of)]
        for subset in _small_subsets([*self._do, *candidates]):
            if not isinstance(self.identify([*randomised, subset]), Hedge):
                return subset
        return tuple(self._do)

    def nodes_to_observe(self, hedge: Hedge, randomised: Sequence[Sequence[str]]) -> tuple[Hashable, ...]:
        """The fewest hidden nodes whose observation would help, of those that tie the hedge together."""
        outer = set(self.admg.names_of(hedge.outer))
        hidden = [node for node in self._graph if node not in self._observed]
        candidates = [node for node in hidden if len(outer & graphs.reachable_through(self._graph, node, hidden)) > 1]
        for subset in _small_subsets(candidates):
            if not isinstance(self.identify(randomised, subset), Hedge):
                return subset
        return ()

    def build_error(self, hedge: Hedge, randomised: Sequence[Sequence[str]]) -> NotIdentifiedError:
        """Why there is no answer, and what would help."""
        if hedge.outer == hedge.inner:
            return self._build_missing_rows_error(hedge)
        causes, knobs = self.nodes_to_observe(hedge, randomised), self.variables_to_randomise(hedge, randomised)
        causes_text = ", ".join(map(graphs.format_hidden_cause, causes))
        randomisation_text = f"et {', '.join(knobs)} at random in some rows (interventions=)"
        error = NotIdentifiedError(
            f"{format_effect(self._of, self._do)} is not identified from the observed variables: "
            f"{self.explain_hedge(hedge)}. {f'Observe {causes_text}, or s' if causes else 'S'}{randomisation_text}; "
            "or learn a mean per action: reward_parents=[]."
        )
        error.of, error.do, error.randomise = tuple(self._of), tuple(self._do), knobs
        error.observe = tuple(node[1] if isinstance(node, tuple) else str(node) for node in causes)
        error.hedge = self.admg.names_of(hedge.outer), self.admg.names_of(hedge.inner)
        return error

    def _build_missing_rows_error(self, hedge: Hedge) -> NotIdentifiedError:
        names = ", ".join(self.admg.names_of(hedge.outer))
        error = NotIdentifiedError(
            f"{format_effect(self._of, self._do)} depends on the natural mechanism of {names}, and every row "
            f"sets some of these variables. Add rows without an intervention on {names}; or learn a mean per action: "
            "reward_parents=[]."
        )
        error.of, error.do = tuple(self._of), tuple(self._do)
        return error

    def explain_hedge(self, hedge: Hedge) -> str:
        """Why there is no answer, in words."""
        admg, outside = self.admg, hedge.outer & ~hedge.inner
        pairs = [
            f"{admg.names[i]} <-> {admg.names[j]}"
            for i in members(hedge.outer)
            for j in members(admg.siblings[i] & hedge.outer >> i + 1 << i + 1)
        ]
        leads = "leads" if outside.bit_count() == 1 else "lead"
        confounding_text = (
            "both have an unobserved common cause"
            if hedge.outer.bit_count() == 2
            else "unobserved common causes connect them"
        )
        return (
            f"{', '.join(admg.names_of(outside))} {leads} to {', '.join(admg.names_of(hedge.inner))}, and "
            f"{confounding_text} "
            f"({', '.join(pairs)})"
        )


def _small_subsets(parts: Sequence[_T]) -> Iterator[tuple[_T, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(parts, size) for size in range(1, REMEDY_SIZE + 1))


# The graph of the observed variables alone, for CPTs that are learned from what is observed.
#
# The latent projection onto the observed variables has arrows and, where an unobserved variable is a common cause,
# bidirected edges; these divide the observed variables into districts. In an order of causes before effects, the joint
# distribution of the observed variables is the product of P(v | pillow of v). An unobserved variable with a single
# observed child leaves its parents to that child, and nothing else changes.
#
# A factor P(v | pillow) is the same under every intervention on variables outside of v's district. So the pillows make
# a directed acyclic graph of the observed variables that has the true P(. | do(a)) for every intervention on variables
# that have no bidirected edge, and whose CPTs can be counted in every round.


class MarginalGraph(NamedTuple):
    """The observed variables with their Markov pillows, and the districts in which unobserved common causes join them.

    >>> import networkx as nx
    >>> marginal_graph(nx.DiGraph([("k", "m"), ("v", "u"), ("u", "m"), ("m", "y")]), ["k", "v", "m", "y"]).parents
    {'k': (), 'v': (), 'm': ('k', 'v'), 'y': ('m',)}
    >>> marginal_graph(nx.DiGraph([("k", "m"), ("u", "m"), ("u", "n")]), ["k", "m", "n"])
    MarginalGraph(parents={'k': (), 'm': ('k',), 'n': ('k', 'm')}, confounded=(('m', 'n'),))
    """

    parents: dict[str, tuple[str, ...]]
    confounded: tuple[tuple[str, ...], ...]
    """The districts of two variables or more."""


def marginal_graph(graph: graphs.Graph, observed: Sequence[str]) -> MarginalGraph:
    """The graph of the observed variables; in a district, those listed first come first if the arrows allow it."""
    admg = ADMG.projection(graph, observed)
    pillows = {factor.variable: factor.conditioning for factor in DataRegime(admg, 0).conditionals()}
    districts = (admg.names_of(district) for district in admg.districts(admg.all_nodes))
    return MarginalGraph(pillows, tuple(district for district in districts if len(district) > 1))
