"""Tests of the independencies of a graph and of the CPTs of a model against data, the smallest p-values first.

*The graph.* Two variables without an arrow between them are independent given the parents of one of them (one that is
not a cause of the other). Rows with an intervention on that variable are skipped, because they contain no information
about its mechanism. With unobserved confounders, two variables are independent given an observed d-separating set, if
there is one (see `find_separations`). *The CPTs.* The given CPTs of a model are compared with the counts row by row;
for a fitted model, the counts of the fit are compared with the new counts.

The test statistic is Pearson's, summed over the configurations of the conditioning variables. Its exact mean and
variance with all margins fixed are known (Haldane 1940, Dawson 1954). The p-value is that of a chi-square variable with
this mean and variance (Nass 1959). The usual chi-square and G approximations fail if counts are small, which is common
with several parents.

p-values are adjusted for the number of claims by the method of Benjamini and Yekutieli (2001). It controls the false
discovery rate: of the claims rejected in each part, on average a share of at most `alpha` is rejected falsely, whatever
the dependence between the tests, which share rows and variables. (The adjustment of Benjamini and Hochberg is smaller
by about the logarithm of the number of claims, but requires a certain kind of dependence.) If the graph is correct, the
probability of any rejection is at most `alpha`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt

from causalbandits._progress import Notice, Progress
from causalbandits._typing import Array
from causalbandits.errors import DataError, SizeError, short_repr, unknown_name_message
from causalbandits.fitting.bins import Bins, add_bins
from causalbandits.fitting.chi_square import ChiSquareTest, goodness_of_fit_test, independence_test
from causalbandits.fitting.codebook import warn_of_odd_values
from causalbandits.fitting.counts import CodedRows, Kind, Rows, Tallies, Tally
from causalbandits.fitting.interventions import Interventions
from causalbandits.fitting.sources import open_source
from causalbandits.fitting.structure import Family, GraphLike, States, Structure, format_table_row, parse_structure
from causalbandits.model import CausalGraph, CausalModel, LatentModel, State
from causalbandits.model import graph as graphs

if TYPE_CHECKING:
    import pandas


# The claims of a graph with unobserved confounders: which observed variables are independent, given which others.
#
# Two variables without an arrow and without an unobserved common cause may be d-separated by other observed variables.
# The claim uses the cheapest separating set: the one with the fewest configurations, as far as states are known. Some
# pairs have no separating set, and make no claim. Rows with interventions are added as separate strata if the claim
# still holds there. An intervened variable has no causes except the design of the experiment, which may set several
# variables jointly.

PAIR_LIMIT = 2**12
"""The maximum number of pairs of variables, those of about 90 variables; each requires a maximum-flow computation."""

DESIGN = ("design",)
"""The common cause of all intervened variables: the design of the experiment."""


class Separation(NamedTuple):
    """Two variables that should be independent given others."""

    name: str
    other: str
    given: tuple[str, ...]

    def holds_where(self, graph: graphs.Graph, was_set: Kind) -> bool:
        """Whether the independence holds in rows in which these variables were set, possibly jointly."""
        cut = graphs.without_causes_of(graph, was_set)
        cut.add_edges_from((DESIGN, name) for name in was_set)
        return not graphs.open_path(cut, self.other, self.name, self.given)


class Separations(NamedTuple):
    """The claims of a graph, and the number of pairs without an edge that make no claim."""

    claims: list[Separation]
    unclaimed: int


def find_separations(structure: Structure, graph: CausalGraph) -> Separations:
    """For every pair without an arrow or an unobserved common cause, the cheapest set that d-separates it."""
    mixed, names = graph.admg(structure.names), structure.names
    neighbours = [parents | siblings for parents, siblings in zip(mixed.parents, mixed.siblings, strict=True)]
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(len(names)), 2)
        if not (neighbours[i] >> j | neighbours[j] >> i) & 1
    ]  # fmt: skip
    if len(pairs) > PAIR_LIMIT:
        raise SizeError(
            f"{len(pairs):,} pairs of variables may be independent; with unobserved confounders, the limit is "
            f"{PAIR_LIMIT:,}. Check parts of the graph: graph.projected([...]) keeps its claims about the given "
            "variables."
        )
    costs: dict[Hashable, int] = {
        name: graphs.product_cost(max(2, len(structure.states.get(name, (0, 1))))) for name in names
    }
    place, claims = {node: k for k, node in enumerate(mixed.order)}, []
    for i, j in pairs:
        first, last = (names[k] for k in sorted((i, j), key=place.__getitem__))
        other_costs = {name: cost for name, cost in costs.items() if name not in (first, last)}
        cut = graphs.cheapest_separator(graph.graph, [first], last, other_costs)
        if cut is not None:
            claims.append(Separation(last, first, tuple(name for name in names if name in cut)))
    return Separations(claims, len(pairs) - len(claims))


class SeparationTallies:
    """The counts for each claim.

    There is one tally for each kind of rows in which the claim holds, created when the first such row is read.
    """

    def __init__(self, structure: Structure, graph: CausalGraph) -> None:
        self._names, self._graph = structure.names, graph.graph
        self.claims, self.unclaimed = find_separations(structure, graph)
        self._tallies: list[list[Tally]] = [[] for _ in self.claims]
        self._kinds: set[Kind] = set()

    def add_kinds(self, coded: CodedRows) -> list[Tally]:
        """The tallies to be counted from now on because some rows are of a new kind."""
        new_kinds = [kind for kind in coded.kinds() if kind not in self._kinds]
        self._kinds.update(new_kinds)
        return [tally for kind in new_kinds for tally in self._build_tallies(kind)]

    def _build_tallies(self, kind: Kind) -> list[Tally]:
        not_intervened, new_tallies = frozenset(self._names) - kind, []
        for claim, tallies in zip(self.claims, self._tallies, strict=True):
            if claim.holds_where(self._graph, kind):
                tallies.append(
                    Tally((*claim.given, claim.other, claim.name), not_intervened=not_intervened, intervened=kind)
                )
                new_tallies.append(tallies[-1])
        return new_tallies

    def strata(self) -> Iterator[tuple[Separation, Array]]:
        """The counts of each claim's two variables in every stratum; no strata if a count array would be too large."""
        for claim, tallies in zip(self.claims, self._tallies, strict=True):
            is_counted = bool(tallies) and not any(tally.too_large for tally in tallies)
            yield claim, _stack_strata([tally.strata() for tally in tallies]) if is_counted else np.zeros((0, 1, 1))


def _stack_strata(parts: list[Array]) -> Array:
    """The strata of two variables in one array; tallies that contain fewer states are padded with zeros."""
    widths = np.max([part.shape[1:] for part in parts], axis=0)
    paddings = [[(0, w - k) for w, k in zip(widths, part.shape[1:], strict=True)] for part in parts]
    return np.concatenate([np.pad(part, [(0, 0), *padding]) for part, padding in zip(parts, paddings, strict=True)])


FINDINGS_SHOWN = 10

_NO_STRATA = np.zeros((0, 1, 1))


CLAIM_LIMIT = 2**18
"""The maximum number of pairs of variables that are tested: those of about 700 variables, which take minutes."""


class Finding(NamedTuple):
    """A claim of the graph or of a CPT, with its test.

    Attributes:
        part: "graph", "tables" (CPTs) or "past" (past rewards).
        claim: The claim in words.
        variables: The variables of the claim.
        given: The variables that are conditioned on.
        rows: The number of rows that the test uses.
        degrees: The degrees of freedom.
        strength: The size of the deviation: 0 is none; for the independence of two variables, 1 is full dependence.
        p: The p-value; NaN if there are too few data.
        adjusted: The p-value adjusted for the number of claims (Benjamini and Yekutieli).
        contradicted: Whether the claim is rejected at the false discovery rate.
    """

    part: Literal["graph", "tables", "past"]
    claim: str
    variables: tuple[str, ...]
    given: tuple[str, ...]
    rows: int
    degrees: int
    strength: float
    p: float
    adjusted: float
    contradicted: bool

    def __str__(self) -> str:
        if math.isnan(self.p):
            return f"{self.claim}: not tested, too few rows ({self.rows})"
        verdict = "rejected" if self.contradicted else "not rejected"
        return f"{self.claim}: p-value {self.p:.2g}, strength {self.strength:.2g}, {verdict}"


@dataclass(frozen=True, repr=False)
class Check:
    """The result of `check`: every claim with its test, the smallest p-values first; prints as text.

    Attributes:
        findings: The claims with their tests.
        rows: The number of rows.
        alpha: The false discovery rate.
        remark: A limitation of the p-values, in words; empty if there is none.
        unclaimed: The number of pairs of variables that are not adjacent and that no observed set d-separates; they
            make no claim. None if the graph has no unobserved confounders.
    """

    findings: tuple[Finding, ...]
    rows: int
    alpha: float
    remark: str = ""
    unclaimed: int | None = None

    @property
    def contradicted(self) -> tuple[Finding, ...]:
        """The claims that are rejected."""
        return tuple(finding for finding in self.findings if finding.contradicted)

    @property
    def thin(self) -> tuple[Finding, ...]:
        """The claims for which there are too few data to test them."""
        return tuple(finding for finding in self.findings if math.isnan(finding.p))

    def __repr__(self) -> str:
        lines = [f"Misspecification test: {self.rows} rows, false discovery rate {self.alpha:g}"]
        for part in PART_LABELS:
            findings = [finding for finding in self.findings if finding.part == part]
            if part == "graph" or findings:
                lines += self._section(part, findings)
        if self.unclaimed:
            pairs = "pair" if self.unclaimed == 1 else "pairs"
            lines.append(f"No claim: {self.unclaimed} {pairs} of variables that no observed set separates")
        return "\n".join([*lines, f"Note: {self.remark}"] if self.remark else lines)

    __str__ = __repr__

    def _section(self, part: str, findings: Sequence[Finding]) -> list[str]:
        label = PART_LABELS[part]
        if not findings:
            joined = "arrows" if self.unclaimed is None else "arrows or unobserved confounders"
            why = (
                "no observed set separates two of its variables"
                if self.unclaimed
                else f"all its variables are joined by {joined}"
            )
            return [f"{label}: no testable claim, because {why}"]
        tested = [finding for finding in findings if not math.isnan(finding.p)]
        rejected = sum(finding.contradicted for finding in findings)
        lines = [f"{label}: {format_rejections(rejected, len(tested), 'smallest p-values')}"]
        lines += [f"  {finding}" for finding in tested[: min(rejected or 3, FINDINGS_SHOWN)]]
        if rejected > FINDINGS_SHOWN:
            lines.append(f"  ... and {rejected - FINDINGS_SHOWN} more")
        if thin := len(findings) - len(tested):
            lines.append(f"  {format_claim_count(thin)} not tested: too few rows")
        return lines

    def to_pandas(self) -> pandas.DataFrame:
        """The claims as a pandas DataFrame, one row each."""
        try:
            import pandas
        except ImportError:
            raise DataError("Data frames require pandas: pip install 'causalbandits[data]'.") from None
        return pandas.DataFrame(list(self.findings), columns=list(Finding._fields))


PART_LABELS = {"graph": "Graph", "tables": "CPTs", "past": "Past data"}


def format_rejections(rejected: int, tested: int, order: str) -> str:
    """The number of claims that a misspecification test rejects, as text.

    `order` describes the order of the claims listed below if none is rejected.

    >>> format_rejections(1, 2, "smallest p-values"), format_rejections(0, 1, "smallest p-values")
    ('1 of 2 claims rejected', '0 of 1 claim rejected; smallest p-values:')
    """
    if not tested:
        return "no claim tested"
    return f"{rejected} of {format_claim_count(tested)} rejected" + ("" if rejected else f"; {order}:")


def format_claim_count(count: int) -> str:
    """A number of claims, as text."""
    return f"{count} claim{'' if count == 1 else 's'}"


def check(
    graph: GraphLike,
    data: Any,
    *,
    values: States | None = None,
    bins: Bins | None = None,
    interventions: Interventions = None,
    missing: Literal["refuse", "drop"] = "refuse",
    na_values: Iterable[State] = (),
    delimiter: str | None = None,
    alpha: float = 0.05,
) -> Check:
    """Test the independencies of a graph, or the CPTs of a model, against data.

    A claim that is not rejected is not confirmed: few rows reject little. With many rows small deviations are rejected;
    `strength` shows their size.

    >>> from causalbandits import zoo
    >>> model = zoo.email_campaign().problem.model
    >>> check({"purpose": [], "product": [], "template": ["product"]}, model.sample(2000, rng=0))
    Misspecification test: 2000 rows, false discovery rate 0.05
    Graph: 1 of 2 claims rejected
      purpose and template should be independent: p-value 4.9e-29, strength 0.26, rejected

    Args:
        graph: The graph, as for `fit`, or a model whose CPTs are tested, too.
        data: The data, as for `fit`.
        values: The allowed values of some variables, as for `fit`.
        bins: The bins of numeric columns, as for `fit`.
        interventions: The variables that were set in each row, as for `fit`.
        missing: The treatment of missing values: "refuse" raises an error, "drop" skips rows with one.
        na_values: Values that stand for missing ones.
        delimiter: The delimiter of a CSV file. Default: a comma.
        alpha: The false discovery rate, above 0 and below 1.

    Returns:
        The claims with their p-values, smallest first; it prints as text.

    Raises:
        DataError: If the data cannot be read or do not fit the graph, or `alpha` is out of range.
        ModelError: If the graph is malformed.
    """
    if not isinstance(missing, str) or missing not in ("refuse", "drop"):
        raise DataError(unknown_name_message("way to treat missing values:", missing, ["refuse", "drop"]))
    if not isinstance(alpha, float | int) or not 0 < alpha < 1:
        raise DataError(f"alpha must lie between 0 and 1; got {short_repr(alpha)}.")
    structure = parse_structure(graph, values)
    separated = None if structure.hidden is None else SeparationTallies(structure, structure.hidden)
    if separated is None:
        _check_size(structure)
    source = open_source(data, na_values=na_values, delimiter=delimiter)
    structure = add_bins(structure, bins, source)
    rows = Rows(structure, source, interventions)
    claims = [Separation(*claim) for claim in find_independencies(structure)] if separated is None else separated.claims
    pairs = [Tally((*claim.given, claim.other, claim.name)) for claim in claims] if separated is None else []
    families = {
        family.name: Tally(family.axes, not_intervened=family.not_intervened, intervened=family.intervened)
        for family in _table_families(graph, structure)
    }
    tallies = Tallies([*pairs, *families.values()], rows.books)
    with Notice(f"Counting rows for {len(claims)} claims of the graph"):
        for coded, complete in rows:
            complete_rows = coded if complete is None else coded.select(complete)
            if separated is not None:
                tallies.extend(separated.add_kinds(complete_rows))
            tallies.add(complete_rows)
        tallies.finish()
    for tally in families.values():
        tally.check_size()
    if missing == "refuse":
        rows.check_complete("Use missing='drop' to leave these rows out.")
    warn_of_odd_values(rows.books.values())
    parent_strata = (
        (claim, tally.strata() if not tally.too_large else _NO_STRATA)
        for claim, tally in zip(claims, pairs, strict=True)
    )
    pairwise = []
    with Progress(len(claims), "Testing") as bar:
        for claim, strata in parent_strata if separated is None else separated.strata():
            pairwise.append(_independence_finding(claim, strata))
            bar.advance(1)
    tables: list[Finding] = []
    if isinstance(graph, CausalModel | LatentModel):
        tables = [
            finding for name, tally in families.items() for finding in find_cpt_deviations(graph, name, tally.counts)
        ]
    used = rows.count - rows.incomplete
    posterior = graph.posterior if isinstance(graph, CausalModel | LatentModel) else None
    overconfidence = "" if posterior is None else posterior.overconfidence
    remark = f"{overconfidence} The p-values of its CPTs are too small." if overconfidence else ""
    unclaimed = None if separated is None else separated.unclaimed
    return Check((*adjust_findings(pairwise, alpha), *adjust_findings(tables, alpha)), used, alpha, remark, unclaimed)


def _table_families(graph: GraphLike, structure: Structure) -> Iterable[Family]:
    """The CPTs of a model."""
    if isinstance(graph, CausalModel):
        return structure.families
    if not isinstance(graph, LatentModel):
        return ()
    kinds = [frozenset(source) for source in ((), *graph.sources)]
    return {family.name: family for kind in kinds for family in structure.families_where(kind)}.values()


def _check_size(structure: Structure) -> None:
    arrows = sum(map(len, structure.parents.values()))
    claims = math.comb(len(structure.names), 2) - arrows
    if claims > CLAIM_LIMIT:
        raise SizeError(
            f"A graph of {len(structure.names)} variables and {arrows} arrows makes {claims:,} claims; the limit is "
            f"{CLAIM_LIMIT:,}. Check parts of the graph: a set of variables with all their causes makes the same "
            "claims alone."
        )


def find_independencies(structure: Structure) -> list[tuple[str, str, tuple[str, ...]]]:
    """Every pair without an arrow, as (variable, other, parents of the variable): independent given these parents.

    If neither is a cause of the other, the variable is the one with fewer parents.
    """
    graph = structure.graph()
    causes = {name: nx.ancestors(graph, name) for name in structure.names}
    claims = []
    for a, b in itertools.combinations(structure.names, 2):
        if graph.has_edge(a, b) or graph.has_edge(b, a):
            continue
        able = [(x, y) for x, y in ((b, a), (a, b)) if x not in causes[y]]
        name, other = min(able, key=lambda pair: len(structure.parents[pair[0]]))
        claims.append((name, other, structure.parents[name]))
    return claims


def _independence_finding(claim: Separation, strata: Array) -> Finding:
    name, other, conditioning = claim
    claim_text = f"{name} and {other} should be independent" + (
        f" given {' and '.join(conditioning)}" if conditioning else ""
    )
    return build_finding("graph", claim_text, (name, other), conditioning, independence_test(strata))


def find_cpt_deviations(
    model: CausalModel | LatentModel, name: str, table_counts: npt.NDArray[Any]
) -> Iterator[Finding]:
    """The tests of a CPT, row by row, against the counts of its variable."""
    v = model.cpts[name] if isinstance(model, LatentModel) else model[name]
    states, shape = {p: model[p].states for p in v.parents}, v.table.shape[:-1]
    counts = table_counts.reshape(-1, len(v.states)) if table_counts.size else np.zeros((0, len(v.states)))
    nothing_to_compare = independence_test(np.zeros((0, 2, len(v.states))))
    for row, row_counts in enumerate(counts.astype(np.float64)):
        row_label = format_table_row(
            name, v.parents, states, [int(i) for i in np.unravel_index(row, shape)] if shape else []
        )
        expected = v.table.reshape(counts.shape)[row]
        if model.posterior is not None:
            before = model.posterior.counts[name].reshape(counts.shape)[row]
            both = np.stack([before, row_counts])[None]
            test = independence_test(both) if row_counts.any() else nothing_to_compare
            yield build_finding("tables", f"{row_label} should equal the fitted row", (v.name,), v.parents, test)
        elif expected.any():  # a row that was never observed makes no claim
            impossible = [v.states[i] for i in np.flatnonzero((row_counts > 0) & (expected == 0)).tolist()]
            remark = f" (which gives {impossible[0]!r} probability 0)" if impossible else ""
            claim = f"{row_label} should equal the row of the CPT{remark}"
            yield build_finding("tables", claim, (v.name,), v.parents, goodness_of_fit_test(row_counts, expected))


def build_finding(
    part: Literal["graph", "tables", "past"],
    claim: str,
    variables: tuple[str, ...],
    conditioning: Sequence[str],
    test: ChiSquareTest,
) -> Finding:
    """A claim with its test, before p-values are adjusted."""
    return Finding(part, claim, variables, tuple(conditioning), *test, math.nan, False)


def adjust_findings(findings: Sequence[Finding], alpha: float) -> list[Finding]:
    """The findings with adjusted p-values, the smallest first; claims that could not be tested come last."""
    tested = sorted((f for f in findings if not math.isnan(f.p)), key=lambda finding: (finding.p, -finding.strength))
    adjusted = adjust_p_values([finding.p for finding in tested])
    adjusted_findings = [f._replace(adjusted=p, contradicted=p <= alpha) for f, p in zip(tested, adjusted, strict=True)]
    return adjusted_findings + [finding for finding in findings if math.isnan(finding.p)]


def adjust_p_values(p: Sequence[float]) -> list[float]:
    """p-values, in ascending order, adjusted by the method of Benjamini and Yekutieli.

    >>> [round(q, 3) for q in adjust_p_values([0.001, 0.02, 0.9])]
    [0.005, 0.055, 1.0]
    """
    m = len(p)
    harmonic = sum(1 / i for i in range(1, m + 1))
    raised = np.array([min(1.0, value * m * harmonic / (i + 1)) for i, value in enumerate(p)])
    return [float(value) for value in np.minimum.accumulate(raised[::-1])[::-1]]
