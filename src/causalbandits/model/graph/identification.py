"""Identification of P(z | do(s)) from observed variables: a formula, or the reason if there is none.

Everything is in terms of factors Q[D], the distribution of a group D when all other variables are set (Tian and Pearl
2002). Let A be the ancestors of z after the edges into s are removed. Then P(z | do(s)) is the sum, over the variables
in A that are neither in z nor in s, of the product of Q[D] over the districts D of A - s. The observed distribution
gives Q[T] for its own districts T: in a topological order, the product of P(v | pillow). The Markov pillow of v is the
earlier part of its district and the parents of that part (Richardson 2003). To find Q[D] from Q[T], let A be the
ancestors of D inside T:

- If A is D, sum out the rest. If A is T, Q[D] is not identified (Huang and Valtorta 2006, Shpitser and Pearl 2006): T
  and D are a *hedge*.
- Otherwise sum out the variables that are not in A, and continue with the district of A that contains D. Its Q is the
  product, over its members in order, of ratios of two partial sums.

Rows in which a set R was randomised are another source, to which the same algorithm applies for the variables outside
of R. The CPT of v is the same in all sources in which the earlier part of v's district is the same. The CPT is
therefore named not by R but by the variables that must be randomised for that: the bidirected neighbours of that part
of the district.
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
    """The reason that a factor is not identified.

    `outer` is a district, `inner` a district within it; all nodes of `outer` are ancestors of `inner`.
    """

    outer: int
    inner: int


class DataRegime:
    """Rows in which a set of variables, possibly empty, was randomised."""

    def __init__(self, graph: ADMG, randomised: int) -> None:
        self.graph, self.randomised = graph, randomised
        self.observed_nodes = graph.all_nodes & ~randomised
        self._order = [i for i in graph.order if self.observed_nodes >> i & 1]

    def factor(self, group: int) -> Formula | Hedge:
        """The factor Q of a group that bidirected edges connect."""
        formula = self._identify_within(group, *self._district_factor(group))
        return formula if isinstance(formula, Hedge) else self._average_out_others(formula, group)

    def district(self, node: int) -> int:
        """The district of a node among the earlier nodes that were not randomised."""
        return self.graph.district(1 << node, self._prefix(node) & self.observed_nodes)

    def conditional(self, node: int) -> Conditional:
        """P(v | pillow), in rows in which the variables that would otherwise extend v's district were randomised."""
        district = self.district(node)
        pillow = (district | self.graph.parents_of(district)) & ~(1 << node)
        cut_off = union(self.graph.siblings, district) & self._prefix(node) & ~district
        return Conditional(self.graph.names[node], self.graph.names_of(pillow), self.graph.names_of(cut_off))

    def conditionals(self) -> list[Conditional]:
        """The conditional distributions of all variables that were not randomised, in the graph's order."""
        return [self.conditional(i) for i in members(self.observed_nodes)]

    def _prefix(self, node: int) -> int:
        """A node and all nodes before it in the order."""
        order = self.graph.order
        return sum(1 << i for i in order[: order.index(node) + 1])

    def _district_factor(self, group: int) -> tuple[int, Formula]:
        district = self.graph.district(group, self.observed_nodes)
        return district, product_of(self.conditional(i) for i in self._order if district >> i & 1)

    def _identify_within(self, group: int, outer: int, factor: Formula) -> Formula | Hedge:
        """The factor Q of a group, given that of a district that contains it."""
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
        """The probability of each member of a district given the earlier nodes, as a ratio of partial sums."""
        names = [self.graph.names[i] for i in order]
        partial_sums = [sum_out(names[i:], factor) for i in range(len(order) + 1)]
        return [ratio(partial_sums[i + 1], partial_sums[i]) for i, node in enumerate(order) if district >> node & 1]

    def _average_out_others(self, factor: Formula, group: int) -> Formula:
        """The factor without the variables that do not affect it: those other than the group and its parents."""
        relevant = self.graph.names_of(group | self.graph.parents_of(group))
        others = self.graph.bits(free_names(factor).difference(relevant))
        if not others:
            return factor
        closure = self._close_under_pillows(others & self.observed_nodes)
        tables = product_of(self.conditional(i) for i in self._order if closure >> i & 1)
        shares = sum_out(self.graph.names_of(closure & ~others), tables)
        # A randomised variable has no distribution of its own; its values have equal weights.
        uniform = self.graph.bits(free_names(shares).difference(relevant)) & self.randomised | others & self.randomised
        return InvariantAverage(self.graph.names_of(others | uniform), factor, shares, self.graph.names_of(uniform))

    def _close_under_pillows(self, nodes: int) -> int:
        """The nodes, their pillows, the pillows of these, and so on.

        The product of all their CPTs is a distribution.
        """
        closure, previous = nodes, 0
        while closure != previous:
            previous = closure
            for i in members(closure):
                closure |= self.graph.bits(self.conditional(i).conditioning) & self.observed_nodes
        return closure


def identify_factor(sources: Sequence[DataRegime], group: int) -> Formula | Hedge:
    """The factor Q of a group, from the first source that identifies it.

    If every source randomises some variable of the group, the result is a hedge of the group with itself.
    """
    hedge = Hedge(group, group)
    for source in sources:
        if not group & source.randomised:
            formula = source.factor(group)
            if not isinstance(formula, Hedge):
                return formula
            hedge = formula if hedge.outer == hedge.inner else hedge
    return hedge


def identify_effect(graph: ADMG, of: int, do: int, randomised: Sequence[int]) -> Formula | Hedge:
    """P(of | do(do)), from sources in which these sets of variables were randomised (0 for observational rows)."""
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
    """Districts in the topological order of their first members."""
    place = {node: i for i, node in enumerate(graph.order)}
    return sorted(graph.districts(within), key=lambda district: min(place[node] for node in members(district)))


REMEDY_SIZE = 3
"""The maximum number of variables in a suggested remedy."""

UNSEEN_SHARE = 1e-6
"""The sum of a distribution may differ from 1 by this much; a larger difference means that some rows were never seen.
"""


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
        """Evaluate the formula; raises a ProblemError if it depends on rows that were never seen."""
        numbers = self.evaluate_unchecked(tables, sizes)
        total = numbers.sum(axis=tuple(range(len(self.do), numbers.ndim)))
        if (np.abs(total - 1) > UNSEEN_SHARE).any():
            raise ProblemError(
                f"{format_effect(self.of, self.do)} = {self.formula} is not available: one of its tables has rows "
                "without data."
            )
        return numbers


def format_effect(of: Sequence[str], do: Sequence[str]) -> str:
    """The text P(of | do(do))."""
    return f"P({', '.join(of)} | do({', '.join(do)}))" if do else f"P({', '.join(of)})"


class IdentificationQuery:
    """The query for an effect in a partially observed graph, and the data that would identify the effect."""

    def __init__(self, graph: graphs.Graph, observed: Sequence[str], of: Sequence[str], do: Sequence[str]) -> None:
        self._graph, self._observed, self._of, self._do = graph, list(observed), of, do
        self.admg = ADMG.projection(graph, observed)

    def identify(
        self, randomised: Sequence[Sequence[str]] = ((),), also_observed: Sequence[Hashable] = ()
    ) -> Formula | Hedge:
        """The formula if these sets of variables were randomised in some rows and these nodes were observed.

        The empty set stands for observational rows.
        """
        admg = self.admg
        if also_observed:
            admg = ADMG.projection(self._graph, [*self._observed, *also_observed])  # type: ignore[list-item]
        return identify_effect(
            admg, admg.bits(self._of), admg.bits(self._do), [admg.bits(group) for group in randomised]
        )

    def variables_to_randomise(self, hedge: Hedge, randomised: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """The smallest set of variables whose randomisation in some rows would identify the effect, or all of `do`."""
        candidates = [name for name in self.admg.names_of(hedge.outer) if name not in (*self._do, *self._of)]
        for subset in _small_subsets([*self._do, *candidates]):
            if not isinstance(self.identify([*randomised, subset]), Hedge):
                return subset
        return tuple(self._do)

    def nodes_to_observe(self, hedge: Hedge, randomised: Sequence[Sequence[str]]) -> tuple[Hashable, ...]:
        """The fewest unobserved common causes within the hedge whose observation would identify the effect."""
        outer = set(self.admg.names_of(hedge.outer))
        hidden = [node for node in self._graph if node not in self._observed]
        candidates = [node for node in hidden if len(outer & graphs.reachable_through(self._graph, node, hidden)) > 1]
        for subset in _small_subsets(candidates):
            if not isinstance(self.identify(randomised, subset), Hedge):
                return subset
        return ()

    def build_error(self, hedge: Hedge, randomised: Sequence[Sequence[str]]) -> NotIdentifiedError:
        """The error that explains why the effect is not identified and which data would identify it."""
        if hedge.outer == hedge.inner:
            return self._build_missing_rows_error(hedge)
        causes, variables = self.nodes_to_observe(hedge, randomised), self.variables_to_randomise(hedge, randomised)
        causes_text = ", ".join(map(graphs.format_hidden_cause, causes))
        randomisation_text = f"et {', '.join(variables)} at random in some rows (interventions=)"
        error = NotIdentifiedError(
            f"{format_effect(self._of, self._do)} is not identified from the observed variables: "
            f"{self.explain_hedge(hedge)}. {f'Observe {causes_text}, or s' if causes else 'S'}{randomisation_text}; "
            "or learn a mean per action: reward_parents=[]."
        )
        error.of, error.do, error.randomise = tuple(self._of), tuple(self._do), variables
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
        """The reason that the effect is not identified, as text."""
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


# The graph of the observed variables alone, for CPTs that are learned from observed variables.
#
# The latent projection onto the observed variables has arrows and, between variables with an unobserved common cause,
# bidirected edges; these divide the observed variables into districts. In a topological order, the joint distribution
# of the observed variables is the product of P(v | pillow of v). An unobserved variable with a single observed child
# passes its parents to that child, and nothing else changes.
#
# A factor P(v | pillow) is the same under every intervention on variables outside of v's district. The pillows
# therefore define a directed acyclic graph of the observed variables that has the true P(. | do(a)) for every
# intervention on variables without a bidirected edge, and whose CPTs can be counted in every round.


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
