"""Past rewards from outside the campaign: their trust, and a comparison with the campaign's own rewards.

Where a hidden cause moved both what was done in the past and the reward, past rewards have other means given the
parents than rewards of own decisions have. Beforehand the two have the same means with probability `trust_past`. Own
rewards are then compared with past ones, cell by cell. With d the difference of their means in a cell, s^2 the variance
of all rewards there, shrunk towards that of all cells, and m past and n own rewards,

    d ~ t_n(0, s^2 (1/m + 1/n))                 if the means are the same
    d ~ t_n(0, s^2 (1/m + 1/n + k^2))           if they are not, for k = 1, 1/2 and 1/4, equally likely

with n degrees of freedom, so that one large reward among few proves nothing. The products over all cells give a Bayes
factor, and this the posterior probability that the past is right, the belief. It is a function of sums: the order of
outcomes does not matter. Past rewards are as likely to be counted in a decision as they are believed; with a belief
below `MIN_BELIEF` they are not counted at all. `learn(trust_past=1)` counts them always.
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
"""The prior probability that past rewards are right where some of them came about without an intervention."""

MIN_BELIEF = 0.05
"""Past rewards that are believed less than this are not counted."""

BIAS_SCALES = (1.0, 0.5, 0.25)
"""How far means of past and own rewards may differ, in standard deviations of the rewards."""

PRIOR_DEGREES = 4.0
"""The variance of all rewards counts as much as so many of a cell's own."""

MAX_LOG_BAYES_FACTOR = 700.0
"""No larger one is told apart."""

CONTRADICTION_FACTOR = 100.0
"""From this Bayes factor on own rewards contradict past ones that are taken on trust."""


class PastBatch(NamedTuple):
    """Rows of the past that were learnt at once."""

    first: int
    """The number of the first row, below 0; the numbers of the others follow downwards."""
    rows: int
    trust: float
    checksum: str
    """By which the same rows are recognised."""

    def covers(self, number: int) -> bool:
        """Whether this is the number of one of its rows."""
        return self.first - self.rows < number <= self.first


def doubted_batches(batches: Iterable[PastBatch]) -> list[PastBatch]:
    """Those with a trust below 1, which lose their weight where own rewards contradict them."""
    return [batch for batch in batches if batch.trust < 1.0]


def is_covered(batches: Iterable[PastBatch], number: int) -> bool:
    """Whether this is the number of a row of one of the batches."""
    return number < 0 and any(batch.covers(number) for batch in batches)


def resolve_trust(trust: object, outcomes: Iterable[Outcome]) -> float:
    """The trust in past outcomes: as given, or 1/2 where in some of them nothing was set, as for fitted CPTs."""
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
    """Counts, sums and sums of squares of past and of own rewards per cell, and how well they agree.

    Sums may be of integers (exact) or of floats; neither the unit of the rewards nor their zero matters.
    """

    def __init__(self) -> None:
        self._pivot: float | None = None
        """The reward that single rewards are counted from, so that no digits are lost."""
        self._past: dict[Hashable, tuple[Any, Any, Any]] = {}
        self._own: dict[Hashable, tuple[Any, Any, Any]] = {}
        self._log_bayes_factor: float | None = 0.0
        """Of different means against equal ones; None where it must be computed anew."""

    @classmethod
    def of_outcomes(
        cls, policy: AnyPolicy, outcomes: Iterable[Outcome], batches: Sequence[PastBatch]
    ) -> RewardComparison:
        """Own outcomes against those of some batches."""
        comparison = cls()
        for outcome in outcomes:
            comparison.add_outcome(policy, outcome, batches)
        return comparison

    def add_outcome(self, policy: AnyPolicy, outcome: Outcome, batches: Sequence[PastBatch]) -> None:
        """One more outcome: an own one, or of one of the batches; others do not matter."""
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
        """The logarithm of the Bayes factor of different means against equal ones; 0 where no cell has both."""
        if self._log_bayes_factor is None:
            self._log_bayes_factor = self._compute_log_bayes_factor()
        return self._log_bayes_factor

    @property
    def n_compared(self) -> int:
        """How many own rewards are in cells of past ones."""
        return sum(n for cell, (n, _, _) in self._own.items() if cell in self._past)

    def belief(self, trust: float) -> float:
        """The posterior probability that the means are the same."""
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
        pooled = math.fsum(squares.tolist()) / float((m + n - 1.0).sum())  # rounded once: the order does not matter
        variance = (PRIOR_DEGREES * pooled + squares) / (PRIOR_DEGREES + m + n - 1.0)
        if not variance.all():
            return 0.0  # rewards that are all the same agree
        errors = variance * (1.0 / m + 1.0 / n)
        same = _log_t_density(difference, errors, n)
        different = [_log_t_density(difference, errors + k * k * variance, n) for k in BIAS_SCALES]
        factor = float(np.logaddexp.reduce(different)) - math.log(len(BIAS_SCALES)) - same
        return min(MAX_LOG_BAYES_FACTOR, max(-MAX_LOG_BAYES_FACTOR, factor))


def _log_t_density(x: Array, variances: Array, degrees: Array) -> float:
    """The sum of logarithms of Student's t densities, up to a term that depends on the degrees of freedom alone."""
    kernel = 0.5 * (degrees + 1.0) * np.log1p(x * x / (degrees * variances))
    return -math.fsum((kernel + 0.5 * np.log(variances)).tolist())


class DoubtedPast(NamedTuple):
    """Past rewards with a trust below 1, and what is known without them."""

    rows: int
    trust: float
    belief: float
    """The posterior probability that they are right."""
    statistic: Any
    """The policy's statistic without them."""
    cell_moments: Callable[[], RewardMoments]
    """The moments of all other rewards."""

    @property
    def is_dropped(self) -> bool:
        """Whether own rewards contradict them, so that they are not counted."""
        return self.belief < MIN_BELIEF

    @property
    def is_unlikely(self) -> bool:
        """Whether own rewards speak against them: their probability is below half of what it was beforehand."""
        return self.belief < min(0.5, self.trust) / 2

    @property
    def summary(self) -> PastData:
        """What a recommendation says of them."""
        return PastData(self.rows, self.trust, self.belief, not self.is_dropped)

    @property
    def caveat(self) -> str:
        """What a recommendation warns of; empty where they are counted."""
        if not self.is_dropped:
            return ""
        return (
            f"{self.rows} past rewards are not counted: rewards of this campaign contradict them (posterior "
            f"probability that they have the same means {self.belief:.2g}, trust_past {self.trust:g}); see check()"
        )

    @property
    def obstacle(self) -> str:
        """Why no stopping rule is valid with them; empty where they are not counted."""
        if self.is_dropped:
            return ""
        return (
            f"past rewards are counted ({self.rows} rows, trust_past {self.trust:g}) and may be confounded; pass "
            "trust_past=1 to learn() only for rows of a randomised experiment"
        )

    def mix(self, lead: Recommendation, other: Recommendation) -> Recommendation:
        """A recommendation that holds with and without past rewards: `other` is of the same action without them.

        Where these are unlikely, `lead` is without them and `other` is with them.
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
    """Where own rewards contradict past ones that are taken on trust, in words; empty where they do not."""
    if comparison.log_bayes_factor < math.log(CONTRADICTION_FACTOR):
        return ""
    factor = math.exp(comparison.log_bayes_factor)
    return (
        f"rewards of this campaign contradict {rows} past rewards, which count with trust_past 1 (Bayes factor "
        f"{factor:.2g}); see check(). In a new campaign, learn(..., trust_past=0.5) allows their weight to decrease"
    )


TRUSTED_OBSTACLE = "rewards of this campaign contradict past rewards, which count with trust_past 1"
"""Why there is no stopping rule then."""
