"""Detection of changed mechanisms by Bayes factors.

A mechanism is a CPT, or the reward given its cells. It has rows, each with a distribution of few values. While nothing
changes, the outcomes of row r have the marginal likelihood M_r under a Dirichlet(1, ..., 1) prior. A change after
outcome tau affects each row with probability 1/2, and an affected row has new, independent probabilities:

    BF_m(n) = sum over tau of w_tau prod over rows r of [ 1/2 + 1/2 M_r(before tau) M_r(after tau) / M_r ] + w_later(n)
    w_later(n) = 1 / log2(n + 2),    w_tau = w_later(tau - 1) - w_later(tau)

n counts the mechanism's outcomes since its last change. Under the prior, BF_m is a martingale that starts at 1 while
nothing changes, so the probability that any of K mechanisms ever reaches K / alpha is at most alpha (Ville 1939). This
averages over the prior; the error rate for given probabilities is measured, not proved.

A mechanism whose parents are not known has a variant for each candidate parent set S, with rows of its own. Then

    BF_m = sum over S of P(S | outcomes) BF_m,S

where P(S | outcomes) is the posterior while nothing changes. After a change, the evidence of the outcomes that no
longer count remains in the prior of S: the probabilities changed, and the parents did not.

Candidate times are one in `SPACING` outcomes of the mechanism, with the weight of the times up to the next; the least
likely of `CANDIDATES` makes room for a new one, and its weight is given up. Logarithms of row factors are whole
multiples of 2^-32, so that their sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes
from causalbandits.errors import SizeError
from causalbandits.policies.statistics import Statistic

SPACING, CANDIDATES = 10, 48
"""A candidate time every so many outcomes of a mechanism, and the number of candidates that are kept."""

RESOLUTION = 2.0**32
"""Logarithms of row factors are multiples of its inverse."""

SIZE_LIMIT = 2**21
"""The largest number of counts: candidates times rows times values."""

CREDIBLE_RANGE = 0.9
"""The posterior probability of the range of decisions in which a mechanism changed."""

Integers = npt.NDArray[np.int64]


class Mechanism(NamedTuple):
    """A mechanism whose rows are watched."""

    name: str
    """The variable, or the reward."""
    rows: int
    values: int
    """The number of values of each row."""
    variant_rows: tuple[int, ...] = ()
    """The number of rows of each candidate parent set, if there are several."""
    log_prior: tuple[float, ...] = (0.0,)
    """The log prior probability of each candidate parent set."""


class DetectedChange(NamedTuple):
    """A mechanism's change, as far as outcomes show it."""

    mechanism: int
    slot: int
    """The likeliest candidate."""
    decision: int
    """The first decision after the likeliest time."""
    earliest: int
    latest: int
    """The range of that decision with a posterior probability of `CREDIBLE_RANGE`."""
    log_bayes_factor: float


class _LogFactorials:
    """log n! for whole numbers n, from a table that grows."""

    def __init__(self) -> None:
        self._values = np.zeros(2)

    def up_to(self, largest: int) -> Array:
        """The table, at least up to this number."""
        if largest >= len(self._values):
            size = max(256, 2 * largest)
            logs = np.log(np.arange(1, size, dtype=np.float64))
            self._values = np.concatenate([[0.0], np.cumsum(logs)])
        return self._values


LOG_FACTORIALS = _LogFactorials()


def log_time_weight(n: Integers | np.int64) -> Array:
    """log w_later(n): the prior probability that the mechanism changes after more than n outcomes."""
    return np.asarray(-np.log(np.log2(n + 2.0)))


@dataclass(eq=False)
class ChangeDetector(Statistic):
    """Counts of each row since its last restart, and since each candidate time of its mechanism."""

    counts: Integers
    """The outcomes of each row by value, since the row last started anew."""
    later: Integers
    """The outcomes of each row since each candidate time: candidate, row, value."""
    outcomes: Integers
    """The number of outcomes of each mechanism since its last change."""
    decisions: Integers
    """The first decision after each candidate time, by candidate and mechanism; -1 where there is none."""
    log_weights: Array
    """The log prior probability of each candidate time."""
    log_prior: Array
    """The log prior probability of each variant, with the evidence of outcomes that no longer count."""

    def __post_init__(self) -> None:
        nothing = np.zeros(0, dtype=np.intp)
        self._mechanism_of: Codes = nothing
        self._variant_of: Codes = nothing
        self._starts: Codes = nothing
        """The first row of each mechanism, and the end."""
        self._variant_starts: Codes = nothing
        """The first row of each variant."""
        self._first_variants: Codes = nothing
        """The first variant of each mechanism, and the end."""
        self._mechanism_of_variant: Codes = nothing
        self._sizes: Integers = np.zeros(0, dtype=np.int64)
        self._evidence: _RowEvidence | None = None

    @classmethod
    def of(cls, mechanisms: Sequence[Mechanism]) -> ChangeDetector:
        """A detector before the first outcome."""
        rows, values = sum(m.rows for m in mechanisms), max(m.values for m in mechanisms)
        if CANDIDATES * rows * values > SIZE_LIMIT:
            raise SizeError(
                f"changes= keeps {CANDIDATES} candidate times for each of {rows} rows with up to {values} values; the "
                f"limit is {SIZE_LIMIT} numbers. Leave changes= out, or use a smaller adjustment set."
            )
        detector = cls(
            0,
            np.zeros((rows, values), dtype=np.int64),
            np.zeros((CANDIDATES, rows, values), dtype=np.int64),
            np.zeros(len(mechanisms), dtype=np.int64),
            np.full((CANDIDATES, len(mechanisms)), -1, dtype=np.int64),
            np.zeros((CANDIDATES, len(mechanisms))),
            np.concatenate([m.log_prior for m in mechanisms]),
        )
        variants = [m.variant_rows or (m.rows,) for m in mechanisms]
        detector._first_variants = np.cumsum([0, *map(len, variants)])
        variant_rows = np.concatenate(variants)
        detector._mechanism_of_variant = np.repeat(np.arange(len(mechanisms)), [*map(len, variants)])
        detector._variant_starts = np.cumsum([0, *variant_rows[:-1]])
        detector._variant_of = np.repeat(np.arange(len(variant_rows)), variant_rows)
        detector._mechanism_of = np.repeat(np.arange(len(mechanisms)), [m.rows for m in mechanisms])
        detector._starts = np.cumsum([0, *(m.rows for m in mechanisms)])
        detector._sizes = np.repeat([m.values for m in mechanisms], [m.rows for m in mechanisms]).astype(np.int64)
        return detector

    def restore(self, record: object) -> None:
        super().restore(record)
        self._evidence = None

    def rows_of(self, mechanism: int) -> slice:
        """The rows of a mechanism."""
        return slice(int(self._starts[mechanism]), int(self._starts[mechanism + 1]))

    def mechanisms_of(self, rows: Codes) -> Codes:
        """The mechanism of each of these rows."""
        return np.asarray(self._mechanism_of[rows])

    def set_values(self, mechanism: int, values: int) -> None:
        """Set the number of values of a mechanism's rows, no more than the largest."""
        self._sizes[self.rows_of(mechanism)] = values
        self._evidence = None

    # Evidence.

    def _log_marginals(self, counts: Integers, sizes: Integers) -> Array:
        """The log marginal likelihood of counts by row and value, for rows with these numbers of values."""
        n = counts.sum(axis=-1)
        log_factorial = LOG_FACTORIALS.up_to(int(n.max(initial=0)) + int(sizes.max(initial=1)))
        return np.asarray(log_factorial[counts].sum(axis=-1) + log_factorial[sizes - 1] - log_factorial[sizes - 1 + n])

    def _log_parts(self, rows: Codes) -> tuple[Array, Array]:
        """log of M(before) M(after) of these rows, for every candidate time; and log M."""
        after, total, sizes = self.later[:, rows], self.counts[rows], self._sizes[rows]
        parts = self._log_marginals(np.concatenate([total - after, after, total[None]]), sizes)
        return parts[:CANDIDATES] + parts[CANDIDATES : 2 * CANDIDATES], parts[-1]

    def log_ratios(self, rows: Codes) -> Array:
        """log of M(before) M(after) / M of these rows, for every candidate time."""
        split, whole = self._log_parts(rows)
        return split - whole

    def _row_factors(self, rows: Codes) -> tuple[Integers, Integers]:
        """The log factors of these rows by candidate time, and their log marginal likelihoods, in fixed point."""
        split, whole = self._log_parts(rows)
        ratios = split - whole
        larger = np.maximum(ratios, 0.0)
        factors = larger + np.log(0.5 * (np.exp(ratios - larger) + np.exp(-larger)))
        return _to_multiples(factors), _to_multiples(whole)

    @property
    def evidence(self) -> _RowEvidence:
        """The log factors and marginal likelihoods of all rows, in fixed point; kept up to date."""
        if self._evidence is None:
            rows = np.arange(len(self.counts))
            factors, marginals = self._row_factors(rows)
            self._evidence = _RowEvidence(
                factors,
                np.add.reduceat(factors, self._variant_starts, axis=1),
                marginals,
                np.add.reduceat(marginals, self._variant_starts),
            )
        return self._evidence

    def log_posterior(self, mechanism: int) -> Array:
        """The log posterior probabilities of a mechanism's variants while nothing changes."""
        variants = slice(*self._first_variants[mechanism : mechanism + 2].tolist())
        logs = self.log_prior[variants] + self.evidence.marginal_sums[variants] / RESOLUTION
        return np.asarray(logs - _log_sum(logs))

    def likeliest_rows(self, mechanism: int) -> Codes:
        """The rows of a mechanism, those of the likeliest parent set where the parents are not known."""
        variant = int(self._first_variants[mechanism]) + int(self.log_posterior(mechanism).argmax())
        return np.flatnonzero(self._variant_of == variant)

    def _log_terms(self, mechanism: int) -> Array:
        """log of w_tau times the product over rows, by candidate time; -inf where there is none."""
        first, end = self._first_variants[mechanism : mechanism + 2].tolist()
        sums = self.evidence.sums[:, first:end] / RESOLUTION
        logs = sums[:, 0] if end == first + 1 else _log_sum(sums + self.log_posterior(mechanism))
        return np.where(self.decisions[:, mechanism] >= 0, self.log_weights[:, mechanism] + logs, -np.inf)

    def log_bayes_factor(self, mechanism: int) -> float:
        """log BF of a mechanism."""
        opened = -(-self.outcomes[mechanism] // SPACING) * SPACING  # their weights are those of candidates
        terms = np.append(self._log_terms(mechanism), log_time_weight(opened))
        return float(_log_sum(terms))

    # One more outcome.

    def add(self, rows: Codes, values: Codes, decision: int) -> None:
        """Add the values of some rows, one row per mechanism at most, that an outcome of a decision shows."""
        if not len(rows):
            return
        self.rounds += 1
        mechanisms = self._mechanism_of[rows]
        if len(self._mechanism_of_variant) > len(self.outcomes):
            mechanisms = np.unique(mechanisms)
        for mechanism in mechanisms[self.outcomes[mechanisms] % SPACING == 0].tolist():
            self._open_candidate(mechanism, decision)
        evidence, variants = self.evidence, self._variant_of[rows]
        self.counts[rows, values] += 1
        self.later[:, rows, values] += 1
        self.outcomes[mechanisms] += 1
        factors, marginals = self._row_factors(rows)
        evidence.sums[:, variants] += factors - evidence.factors[:, rows]
        evidence.factors[:, rows] = factors
        evidence.marginal_sums[variants] += marginals - evidence.marginals[rows]
        evidence.marginals[rows] = marginals

    def _open_candidate(self, mechanism: int, decision: int) -> None:
        n = int(self.outcomes[mechanism])
        slot = int(self._log_terms(mechanism).argmin())
        rows, variants = self.rows_of(mechanism), slice(*self._first_variants[mechanism : mechanism + 2].tolist())
        self.later[slot, rows] = 0
        self.evidence.factors[slot, rows], self.evidence.sums[slot, variants] = 0, 0
        self.decisions[slot, mechanism] = decision
        now, then = np.exp(log_time_weight(np.array([n, n + SPACING])))
        self.log_weights[slot, mechanism] = math.log(now - then)

    def detect(self, mechanisms: Codes, alpha: float) -> DetectedChange | None:
        """The change with the largest Bayes factor, if that reaches the number of mechanisms / alpha."""
        threshold = len(self.outcomes) / alpha
        # Every term is at most the largest one of any variant, so that small terms need no sum.
        largest = (self.evidence.sums / RESOLUTION + self.log_weights[:, self._mechanism_of_variant]).max()
        if CANDIDATES * math.exp(min(largest, 700.0)) + 1.0 < threshold:
            return None
        logs = {mechanism: self.log_bayes_factor(mechanism) for mechanism in np.unique(mechanisms).tolist()}
        best = max(logs, key=logs.__getitem__)
        if logs[best] < math.log(threshold):
            return None
        return self.likeliest_change(best, logs[best])

    def likeliest_change(self, mechanism: int, log_bayes_factor: float) -> DetectedChange:
        """The likeliest time of a mechanism's change, and a range of times."""
        terms = self._log_terms(mechanism)
        slot = int(terms.argmax())
        decisions = self.decisions[:, mechanism]
        order = np.argsort(decisions, kind="stable")
        order = order[decisions[order] >= 0]
        share = np.cumsum(np.exp(terms[order] - terms[slot]))
        tail = (1.0 - CREDIBLE_RANGE) / 2.0 * share[-1]
        first, last = np.searchsorted(share, tail), np.searchsorted(share, share[-1] - tail)
        earliest, latest = decisions[order[first]], decisions[order[min(int(last), len(order) - 1)]]
        return DetectedChange(mechanism, slot, int(decisions[slot]), int(earliest), int(latest), log_bayes_factor)

    # After a change.

    def changed_rows(self, change: DetectedChange) -> Codes:
        """The rows that start anew: those that more likely changed than not, and those not seen since."""
        rows = np.arange(*self.rows_of(change.mechanism).indices(len(self.counts)))
        unseen = self.later[change.slot, rows].sum(axis=1) == 0
        return np.asarray(rows[(self.log_ratios(rows)[change.slot] > 1e-9) | unseen])

    def restart(self, mechanism: int, rows: Codes, remaining: Integers) -> None:
        """Start a mechanism anew: some rows keep the `remaining` counts, the others all of theirs."""
        if self._first_variants[mechanism + 1] - self._first_variants[mechanism] > 1:
            forgotten = self._log_marginals(self.counts[rows] - remaining, self._sizes[rows])
            np.add.at(self.log_prior, self._variant_of[rows], forgotten)
        self.counts[rows] = remaining
        self.later[:, self.rows_of(mechanism)] = 0
        self.outcomes[mechanism] = 0
        self.decisions[:, mechanism], self.log_weights[:, mechanism] = -1, 0.0
        self._evidence = None


class _RowEvidence(NamedTuple):
    """Logarithms in fixed point: of the factor of each row for each candidate time, and of its marginal likelihood."""

    factors: Integers
    sums: Integers
    """Of the factors, by variant."""
    marginals: Integers
    marginal_sums: Integers
    """By variant."""


def _to_multiples(logs: Array) -> Integers:
    return np.rint(logs * RESOLUTION).astype(np.int64)


def _log_sum(logs: Array) -> Array:
    """The log of the sum of exponentials along the last axis."""
    largest = logs.max(axis=-1, keepdims=True)
    return np.asarray(largest[..., 0] + np.log(np.exp(logs - largest).sum(axis=-1)))
