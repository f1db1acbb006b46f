"""Past rewards from outside the campaign: their trust, and a comparison with the campaign's own rewards.

If an unobserved confounder affected both past actions and rewards, the means of past rewards given the parents differ
from those of own rewards. The prior probability of equal means is `trust_past`. Own rewards are compared with past
ones, cell by cell. Let d be the difference of their means in a cell, s^2 the variance of all rewards there, shrunk
towards that of all cells, and m and n the numbers of past and own rewards. Then

    d ~ t_n(0, s^2 (1/m + 1/n))                 if the means are equal
    d ~ t_n(0, s^2 (1/m + 1/n + k^2))           if they differ, for k = 1, 1/2 and 1/4 with equal probability

with n degrees of freedom, so that one large reward among few is weak evidence. The products over all cells give a Bayes
factor, which gives the posterior probability of equal means, the belief. It is a function of sums, so the order of the
outcomes does not matter. Each decision counts past rewards with a probability equal to the belief; if the belief is
below `MIN_BELIEF`, they are never counted. With `learn(trust_past=1)` they are always counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.campaign.recommendation import PastData, Recommendation
from causalbandits.campaign.reward_moments import RewardMoments, explanatory_cell
from causalbandits.errors import CausalBanditsError
from causalbandits.policies import AnyPolicy, Outcome

OBSERVATIONAL_TRUST = 0.5
"""The default prior probability of equal means if some past rows are without an intervention."""

MIN_BELIEF = 0.05
"""Past rewards with a smaller belief are not counted."""

BIAS_SCALES = (1.0, 0.5, 0.25)
"""The prior scales of the difference between means of past and own rewards, in standard deviations of the rewards."""

PRIOR_DEGREES = 4.0
"""The weight of the variance of all rewards in each cell, as a number of rewards of the cell."""

MAX_LOG_BAYES_FACTOR = 700.0
"""The limit of the absolute logarithm of a Bayes factor."""

CONTRADICTION_FACTOR = 100.0
"""The Bayes factor from which on own rewards contradict past ones with trust 1."""


class PastBatch(NamedTuple):
    """Past rows that were learned in one call."""

    first: int
    """The number of the first row, which is negative; the other rows have the next smaller numbers."""
    rows: int
    trust: float
    checksum: str
    """The checksum that identifies the rows."""

    def covers(self, number: int) -> bool:
        """Whether this is the number of one of the batch's rows."""
        return self.first - self.rows < number <= self.first


def doubted_batches(batches: Iterable[PastBatch]) -> list[PastBatch]:
    """The batches with a trust below 1, which are discounted if own rewards contradict them."""
    return [batch for batch in batches if batch.trust < 1.0]


def is_covered(batches: Iterable[PastBatch], number: int) -> bool:
    """Whether this is the number of a row in one of the batches."""
    return number < 0 and any(batch.covers(number) for batch in batches)


def resolve_trust(trust: object, outcomes: Iterable[Outcome]) -> float:
    """The trust in past outcomes, by default 1/2 if some of them are without an intervention, otherwise 1."""
    if trust is None:
        is_observational = any(not any(outcome.action.choices) for outcome in outcomes)
        return OBSERVATIONAL_TRUST if is_observational else 1.0
    if not is_real(trust) or not 0.0 < trust <= 1.0:
        raise CausalBanditsError(
            "trust_past is the prior probability, above 0 and up to 1, that past rewards have the same means as "
            f"rewards of this campaign, given the reward's parents; got {trust!r}. Use 1 if the past rows come "
            "from a randomised experiment; leave out rows that are certainly confounded."
        )
    return float(trust)


class RewardComparison:
    """Counts, sums and sums of squares of past and of own rewards per cell, and the Bayes factor between them.

    Sums may be of integers (exact) or of floats; the result does not depend on the unit or the zero of the rewards.
    """

    def __init__(self) -> None:
        self._pivot: float | None = None
        """The origin from which individual rewards are measured, which avoids cancellation."""
        self._past: dict[Hashable, tuple[Any, Any, Any]] = {}
        self._own: dict[Hashable, tuple[Any, Any, Any]] = {}
        self._log_bayes_factor: float | None = 0.0
        """The Bayes factor of different means against equal ones; None if it must be recomputed."""

    @classmethod
    def of_outcomes(
        cls, policy: AnyPolicy, outcomes: Iterable[Outcome], batches: Sequence[PastBatch]
    ) -> RewardComparison:
        """The comparison of own outcomes with those of some batches."""
        comparison = cls()
        for outcome in outcomes:
            comparison.add_outcome(policy, outcome, batches)
        return comparison

    def add_outcome(self, policy: AnyPolicy, outcome: Outcome, batches: Sequence[PastBatch]) -> None:
        """Add an outcome of the campaign or of one of the batches; other past outcomes are ignored."""
        is_past = outcome.number < 0
        if (outcome.z or not policy.traits.needs_parents) and (not is_past or is_covered(batches, outcome.number)):
            cell = explanatory_cell(policy, outcome.action, outcome.context, outcome.z)
            self._pivot = outcome.reward if self._pivot is None else self._pivot
            y = outcome.reward - self._pivot
            self.add_sums(cell, (1, y, y * y), is_past=is_past)

    def add_sums(self, cell: Hashable, sums: tuple[Any, Any, Any], *, is_past: bool) -> None:
        """Add a count, a sum and a sum of squares of rewards in a cell."""
        side = self._past if is_past else self._own
        n, total, squares = side.get(cell, (0, 0, 0))
        side[cell] = n + sums[0], total + sums[1], squares + sums[2]
        if cell in self._past:
            self._log_bayes_factor = None

    @property
    def log_bayes_factor(self) -> float:
        """The logarithm of the Bayes factor of different means against equal ones; 0 if no cell has both."""
        if self._log_bayes_factor is None:
            self._log_bayes_factor = self._compute_log_bayes_factor()
        return self._log_bayes_factor

    @property
    def n_compared(self) -> int:
        """The number of own rewards in cells that have past rewards."""
        return sum(n for cell, (n, _, _) in self._own.items() if cell in self._past)

    def belief(self, trust: float) -> float:
        """The posterior probability of equal means."""
        return 1.0 / (1.0 + (1.0 - trust) / trust * math.exp(self.log_bayes_factor))

    def _compute_log_bayes_factor(self) -> float:
        cells = []
        for cell, (m, past_total, past_squares) in self._past.items():
            n, own_total, own_squares = self._own.get(cell, (0, 0, 0))
            if m and n:
                within = (m * past_squares - past_total**2) / m + (n * own_squares - own_total**2) / n
                cells.append((m, n, own_total / n - past_total / m, max(0.0, within)))
        if not cells:
            return 0.0
        m, n, difference, within = np.array(cells, dtype=np.float64).T
        squares = within + difference * difference * m * n / (m + n)
        pooled = math.fsum(squares.tolist()) / float((m + n - 1.0).sum())  # independent of the order
        variance = (PRIOR_DEGREES * pooled + squares) / (PRIOR_DEGREES + m + n - 1.0)
        if not variance.all():
            return 0.0  # constant rewards agree
        errors = variance * (1.0 / m + 1.0 / n)
        same = _log_t_density(difference, errors, n)
        different = [_log_t_density(difference, errors + k * k * variance, n) for k in BIAS_SCALES]
        factor = float(np.logaddexp.reduce(different)) - math.log(len(BIAS_SCALES)) - same
        return min(MAX_LOG_BAYES_FACTOR, max(-MAX_LOG_BAYES_FACTOR, factor))


def _log_t_density(x: Array, variances: Array, degrees: Array) -> float:
    """The sum of the logarithms of Student's t densities, up to a term that depends on the degrees of freedom alone."""
    kernel = 0.5 * (degrees + 1.0) * np.log1p(x * x / (degrees * variances))
    return -math.fsum((kernel + 0.5 * np.log(variances)).tolist())


class DoubtedPast(NamedTuple):
    """Past rewards with a trust below 1, and the statistics without them."""

    rows: int
    trust: float
    belief: float
    """The posterior probability that past and own rewards have equal means."""
    statistic: Any
    """The policy's statistic without the past rewards."""
    cell_moments: Callable[[], RewardMoments]
    """The moments of the rewards without the past ones."""

    @property
    def is_dropped(self) -> bool:
        """Whether own rewards contradict the past rewards, so that they are not counted."""
        return self.belief < MIN_BELIEF

    @property
    def is_unlikely(self) -> bool:
        """Whether own rewards are evidence against past ones: the belief is below half of min(0.5, prior)."""
        return self.belief < min(0.5, self.trust) / 2

    @property
    def summary(self) -> PastData:
        """The summary of the past rewards for a recommendation."""
        return PastData(self.rows, self.trust, self.belief, not self.is_dropped)

    @property
    def caveat(self) -> str:
        """The warning of a recommendation; empty if the past rewards are counted."""
        if not self.is_dropped:
            return ""
        return (
            f"{self.rows} past rewards are not counted: rewards of this campaign contradict them (posterior "
            f"probability that they have the same means {self.belief:.2g}, trust_past {self.trust:g}); see check()"
        )

    @property
    def obstacle(self) -> str:
        """The reason why no stopping rule is valid if past rewards are counted; empty if they are not counted."""
        if self.is_dropped:
            return ""
        return (
            f"past rewards are counted ({self.rows} rows, trust_past {self.trust:g}) and may be confounded; pass "
            "trust_past=1 to learn() only for rows of a randomised experiment"
        )

    def mix(self, lead: Recommendation, other: Recommendation) -> Recommendation:
        """A recommendation that is valid with and without past rewards; `other` is for the same action without them.

        If the past rewards are unlikely, `lead` is without them and `other` is with them.
        """
        weight = 1.0 - self.belief if self.is_unlikely else self.belief
        one, two = lead.certainty, other.certainty
        certainty = one._replace(
            probability=_mix(weight, one.probability, two.probability),
            expected_loss=_mix(weight, one.expected_loss, two.expected_loss),
            unavailable=one.unavailable or two.unavailable,
        )
        return replace(
            lead,
            lower=min(lead.lower, other.lower),
            upper=max(lead.upper, other.upper),
            caveats=tuple(dict.fromkeys((*lead.caveats, *other.caveats))),
            certainty=certainty,
        )


def _mix(weight: float, first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else weight * first + (1.0 - weight) * second


def trusted_contradiction(comparison: RewardComparison, rows: int) -> str:
    """The contradiction between own rewards and past ones with trust 1, as text; empty if there is none."""
    if comparison.log_bayes_factor < math.log(CONTRADICTION_FACTOR):
        return ""
    factor = math.exp(comparison.log_bayes_factor)
    return (
        f"rewards of this campaign contradict {rows} past rewards, which count with trust_past 1 (Bayes factor "
        f"{factor:.2g}); see check(). In a new campaign, learn(..., trust_past=0.5) allows their weight to decrease"
    )


TRUSTED_OBSTACLE = "rewards of this campaign contradict past rewards, which count with trust_past 1"
"""The reason why there is no stopping rule in this case."""
