"""Off-policy evaluation: the mean reward of another policy, estimated from the logged outcomes.

A decision's action a was drawn from a known mixture pi over actions (`samples=` of a Thompson sampling policy), and
resulted in z. Given z, the reward does not depend on the policy, so outcomes are weighted by configurations, not by
actions:

    w = P_target(z) / P_pi(z),   P_pi(z) = sum_a pi(a) P(z | a),   likewise for the target's own mixture

    direct   sum_z P_target(z) mean_z                     no weights; correct if the CPTs are, and all z were observed
    ips      mean of w y                                  unbiased, if pi reaches every z that the target reaches
    snips    sum of w y / sum of w                        small bias, lower variance
    dr       mean of (sum_z P_target(z) m_z + w (y - m_z))    correct if either is; m: the means of earlier outcomes

Weights of configurations vary far less than those of actions, because many actions result in the same z. Weights of
actions,

    w = target(a) / pi(a),

require neither CPTs nor the parents' values, but exact propensities of every action. A propensity estimated as a share
of posterior samples is 0 if the true propensity is small, and the mean of w y is then strongly biased. Weights of
actions are therefore refused without `min_propensity` (see `propensities`).

Decisions whose mixture does not reach everything that the target reaches have no support and are left out. The mixture
was fixed before the outcome, so this does not bias the mean within one context. It would bias the mean over contexts,
because a policy loses support where it is certain. Each context therefore counts by its share of all decisions, and an
estimate is None if too many contexts have no outcome with support; `reasons` names them.

Intervals have 95% confidence. Weights are known before the outcomes, so the variance of w y is computed without waiting
for a rare large weight: from the rewards' second moments in each cell, increased in cells with few outcomes. Quantiles
are Student's, with degrees of freedom determined by the kurtosis, and shifted by the skewness (Cornish and Fisher). If
the problem declares the range of rewards, the interval allows for unobserved values (see `campaign.skewed_rewards`).
Without a range, the absence of rare, far larger rewards is an assumption, stated in `assumes`. If CPTs were estimated
from data, the variance of the estimate over posterior samples of the CPTs is added.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from causalbandits._typing import Array, Z, is_iterable, is_real
from causalbandits.campaign import NO_RARE_REWARDS, WIDE_RANGE, UnseenValues
from causalbandits.errors import CausalBanditsError, short_repr, unknown_name_message
from causalbandits.model import State
from causalbandits.policies import Outcome
from causalbandits.problem import Action, Problem

By = Literal["configurations", "actions"]

LoggedOutcome = tuple[Outcome, bool]

Target = Mapping[str, State] | Iterable[tuple[Mapping[str, State], float]] | Literal["logged"]
"""An intervention, several interventions with their shares, or "logged" for the logged decisions."""

LARGEST_UNKNOWN_SHARE = 0.05
"""The maximum share of the target's rewards from unobserved cells or contexts; above it there is no estimate."""

UNSEEN_ERROR = 0.01
"""The probability that unobserved values occur more often than allowed for, if a range is declared."""

SMALLEST_EFFECTIVE = 1.0
"""The minimum effective sample size; intervals are valid down to it."""


class Estimate(NamedTuple):
    """A mean reward with its standard error and 95% confidence interval.

    Attributes:
        mean: The mean reward.
        standard_error: The standard error.
        low: The lower end of the interval.
        high: The upper end of the interval.
    """

    mean: float
    standard_error: float
    low: float
    high: float


class Evaluation(NamedTuple):
    """Off-policy estimates of a mean reward.

    Attributes:
        estimates: The estimates by name; None where the log does not support one.
        outcomes: The number of outcomes with a weight.
        effective: The effective sample size: the estimate is as precise as that many on-policy outcomes.
        largest_weight: The largest weight of an outcome.
        left_out: The number of outcomes without a weight: the parents' values or the propensities are not known, or the
            logged mixture does not cover the target.
        reasons: The reason for each missing estimate, by its name.
        unknown_share: The share of decisions in contexts without cover; it widens the intervals.
        assumes: The assumption of the intervals about rewards that were not seen; empty if none is needed.
        caveats: Warnings: changes of mechanisms, before and after which the estimates average over outcomes.
    """

    estimates: dict[str, Estimate | None]
    outcomes: int
    effective: float
    largest_weight: float
    left_out: int
    reasons: dict[str, str]
    unknown_share: float
    assumes: str = ""
    caveats: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [
            f"{name}: not available"
            if estimate is None
            else f"{name}: {estimate.mean:.4g} ± {estimate.standard_error:.2g}, 95% interval {estimate.low:.4g} to "
            f"{estimate.high:.4g}"
            for name, estimate in self.estimates.items()
        ]
        lines += [
            f"Outcomes used: {self.outcomes} (left out: {self.left_out})",
            f"Effective sample size: {self.effective:.0f} (largest weight {self.largest_weight:.3g})",
        ]
        lines += [f"Assumption: {self.assumes}"] if self.assumes else []
        lines += [f"Warning: {caveat}" for caveat in self.caveats]
        return "\n".join([*lines, *(f"Not available: {reason}" for reason in dict.fromkeys(self.reasons.values()))])


def evaluate_target(
    problem: Problem,
    outcomes: Iterable[LoggedOutcome],
    target: Target,
    by: By,
    context_counts: Mapping[Z | None, int] | None = None,
) -> Evaluation:
    """The mean reward of a target, from logged outcomes, each with whether its propensities cover every action.

    Contexts are weighted by the given numbers of decisions, by default by those of the outcomes.
    """
    if not isinstance(by, str) or by not in ("configurations", "actions"):
        raise CausalBanditsError(unknown_name_message("weighting", by, ("configurations", "actions")))
    logging = isinstance(target, str) and target == "logged"
    mixture = () if logging else _parse_target(problem, target)
    if by == "configurations" and not logging and problem.unit == "actions":
        raise CausalBanditsError(
            "by='configurations' requires the reward's parents, and this problem has none: it learns a mean per action "
            "(reward_parents=[]). Use by='actions'."
        )
    logged = list(outcomes)
    if context_counts is None:
        context_counts = Counter(outcome.context for outcome, _ in logged)
    sample, left_out = _split_usable(logged, "logged" if logging else by)
    if not sample:
        raise CausalBanditsError(NO_USABLE_OUTCOME[by].format(left_out))
    if logging:
        rewards = np.array([outcome.reward for outcome in sample])
        mean = math.fsum(rewards.tolist()) / len(sample)
        estimate = _estimate(mean, (rewards - mean) / len(sample))
        assumes = _assumption(problem, rewards)
        return Evaluation({"logged": estimate}, len(sample), float(len(sample)), 1.0, left_out, {}, 0.0, assumes)
    contexts = list(context_counts)
    shares = np.array([context_counts[context] for context in contexts], dtype=float)
    distributions = (
        _ConfigurationDistributions(problem) if by == "configurations" else _ActionDistributions(sample, mixture)
    )
    log = _WeightedLog(distributions, sample, mixture, contexts, shares / shares.sum())
    if not log.covered.any():
        raise CausalBanditsError(NO_USABLE_OUTCOME[by].format(len(logged)))
    reasons = _reasons(problem, log, by)
    below, above = log.unseen_allowance(problem.reward_range)
    estimates = {
        name: None if name in reasons else _widen(estimate(log), below, above)
        for name, estimate in {"direct": _direct, "ips": _ips, "snips": _snips, "dr": _doubly_robust}.items()
    }
    n_covered = int(log.covered.sum())
    return Evaluation(
        estimates,
        n_covered,
        log.effective,
        float(log.weights.max()),
        len(logged) - n_covered,
        reasons,
        log.unknown_share,
        _assumption(problem, log.rewards),
    )


def _assumption(problem: Problem, rewards: Array) -> str:
    return "" if problem.reward_range is not None or _are_binary(rewards) else NO_RARE_REWARDS


def _are_binary(rewards: Array) -> bool:
    return bool(np.isin(rewards, (0.0, 1.0)).all())


def _widen(estimate: Estimate, below: float, above: float) -> Estimate:
    return estimate._replace(low=estimate.low - below, high=estimate.high + above)


NO_USABLE_OUTCOME = {
    "configurations": (
        "No outcome can be used. Off-policy evaluation requires decisions with logged propensities, the values "
        "of the reward's parents, and positive probability of every configuration that the target reaches. {} "
        "outcomes lack one of these. Use a policy with samples= above 1."
    ),
    "actions": (
        "No outcome can be weighted by actions. An unbiased estimate requires a positive propensity of every "
        'action. {} outcomes lack it. Use Study.create(..., min_propensity=0.1) or the mode "uniform". If the '
        'reward has parents, by="configurations" does not require it.'
    ),
}


def _split_usable(outcomes: Iterable[LoggedOutcome], purpose: str) -> tuple[list[Outcome], int]:
    sample, left_out = [], 0
    for outcome, complete in outcomes:
        is_weightable = bool(outcome.z) and outcome.propensity is not None
        if purpose == "logged" or (complete if purpose == "actions" else is_weightable):
            sample.append(outcome)
        else:
            left_out += 1
    return sample, left_out


def _parse_target(problem: Problem, target: Any) -> ActionMixture:
    parts = [(target, 1.0)] if isinstance(target, Mapping) else target
    if not is_iterable(parts) or isinstance(parts, str):
        raise CausalBanditsError(
            "A target must be an intervention, pairs of an intervention and its share, or 'logged'; got "
            f"{short_repr(target)}."
        )
    pairs = [tuple(pair) if is_iterable(pair) else () for pair in parts]
    if not all(len(pair) == 2 and isinstance(pair[0], Mapping) and is_real(pair[1]) for pair in pairs):
        raise CausalBanditsError(
            f"The parts of a target must be pairs of an intervention and its share; got {short_repr(target)}."
        )
    mixture = tuple((problem.actions.find(intervention), float(share)) for intervention, share in pairs)
    shares = [share for _, share in mixture]
    if not mixture or min(shares) < 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-9):
        raise CausalBanditsError(f"The shares of a target's interventions must sum to 1; got {shares}.")
    return mixture


ActionMixture = tuple[tuple[Action, float], ...]


class _CellDistributions(ABC):
    """The probabilities of cells (configurations or actions) under a mixture of actions, in a context."""

    size: int
    has_means_by_context: bool
    """Whether a cell's mean reward depends on the context."""

    @abstractmethod
    def __call__(self, context: Z | None, mixture: ActionMixture) -> Array: ...

    def draws(self, context: Z | None, action: Action) -> Array | None:
        """The probabilities under posterior samples of estimated CPTs, one row each; None if no CPT is estimated.

        The samples are the same for all actions.
        """
        return None

    @abstractmethod
    def cell(self, outcome: Outcome) -> int:
        """The cell of an outcome."""


class _ConfigurationDistributions(_CellDistributions):
    has_means_by_context = False

    def __init__(self, problem: Problem) -> None:
        self._problem, self.size = problem, problem.configurations
        self._rows: dict[tuple[Z | None, Action], Array] = {}

    def __call__(self, context: Z | None, mixture: ActionMixture) -> Array:
        return np.asarray(sum(share * self._row(context, action) for action, share in mixture))

    def _row(self, context: Z | None, action: Action) -> Array:
        key = context, action
        if key not in self._rows:
            self._rows[key] = self._problem.condition_codes(context).parent_distribution(action).reshape(-1)
        return self._rows[key]

    def draws(self, context: Z | None, action: Action) -> Array | None:
        return self._problem.condition_codes(context).sample_parent_distributions(action)

    def cell(self, outcome: Outcome) -> int:
        return self._problem.configuration(outcome.z)


class _ActionDistributions(_CellDistributions):
    has_means_by_context = True

    def __init__(self, sample: Iterable[Outcome], target: ActionMixture) -> None:
        self._positions: dict[Action, int] = {}
        for mixture in (target, *{_logging_mixture(outcome) for outcome in sample}):
            for action, _ in mixture:
                self._positions.setdefault(action, len(self._positions))
        self.size = len(self._positions)

    def __call__(self, context: Z | None, mixture: ActionMixture) -> Array:
        distribution = np.zeros(self.size)
        for action, share in mixture:
            distribution[self._positions[action]] += share
        return distribution

    def cell(self, outcome: Outcome) -> int:
        return self._positions[outcome.action]


def _logging_mixture(outcome: Outcome) -> ActionMixture:
    return outcome.support or ((outcome.action, 1.0),)


class _WeightedLog:
    """Outcomes with their weights. Decisions that do not reach everything that the target reaches have no support.

    The rows of `means` are shared by all contexts, or one per context if a cell's mean reward depends on the context.
    """

    def __init__(
        self,
        distributions: _CellDistributions,
        sample: list[Outcome],
        mixture: ActionMixture,
        contexts: list[Z | None],
        shares: Array,
    ) -> None:
        positions = {context: k for k, context in enumerate(contexts)}
        self.contexts, self.context_shares = contexts, shares
        self.decisions = len(sample)
        self.targets = np.array([distributions(context, mixture) for context in contexts])
        """P_target(cell), one row for each context."""
        self.rewards = np.array([outcome.reward for outcome in sample])
        self.context = np.array([positions[outcome.context] for outcome in sample])
        self.cell = np.array([distributions.cell(outcome) for outcome in sample])
        self.row = self.context if distributions.has_means_by_context else np.zeros_like(self.context)
        self.rows = (
            np.arange(len(contexts)) if distributions.has_means_by_context else np.zeros(len(contexts), dtype=int)
        )
        self.weights, self.covered = np.zeros(len(sample)), np.zeros(len(sample), dtype=bool)
        squares = np.zeros_like(self.targets)
        logged_weights: list[dict[Action, Array]] = [{} for _ in contexts]
        groups: dict[tuple[Z | None, ActionMixture], list[int]] = {}
        for k, outcome in enumerate(sample):
            groups.setdefault((outcome.context, _logging_mixture(outcome)), []).append(k)
        for (context, logging_mixture), members in groups.items():
            target, logging = self.targets[positions[context]], distributions(context, logging_mixture)
            if (target[logging <= 0] > 0).any():
                continue
            ratio = np.divide(target, logging, out=np.zeros_like(target), where=logging > 0)
            self.covered[members] = True
            self.weights[members] = ratio[self.cell[members]]
            squares[positions[context]] += len(members) * target * ratio
            by_action = logged_weights[positions[context]]
            for action, share in logging_mixture:
                by_action[action] = by_action.get(action, 0.0) + len(members) * share * ratio
        self.n_covered = np.bincount(self.context[self.covered], minlength=len(contexts))
        has_cover = self.n_covered > 0
        self.unknown_share = max(0.0, 1.0 - float(shares[has_cover].sum())) if not has_cover.all() else 0.0
        known_shares = np.where(has_cover, shares, 0.0) / max(shares[has_cover].sum(), 1e-300)
        self.factors = known_shares / np.maximum(1, self.n_covered)
        """The weight of an outcome of each context, which gives contexts their shares."""
        self.squares = self.factors[:, None] ** 2 * squares
        """Expected sums of (factor times weight) squared, by context and cell, which do not depend on the outcomes."""
        self.effective = 1.0 / max(float(self.squares.sum()), 1e-300)
        self.is_binary = _are_binary(self.rewards)
        self.range = 1.0 if self.is_binary else float(np.ptp(self.rewards))
        shape = len(contexts) if distributions.has_means_by_context else 1, distributions.size
        self.count, total = np.zeros(shape), np.zeros(shape)
        np.add.at(self.count, (self.row, self.cell), 1.0)
        np.add.at(total, (self.row, self.cell), self.rewards)
        self.means = np.where(self.count > 0, total / np.maximum(1.0, self.count), self.rewards.mean())
        self._draw_cpts(distributions, mixture, logged_weights)

    def _draw_cpts(
        self, distributions: _CellDistributions, mixture: ActionMixture, logged_weights: list[dict[Action, Array]]
    ) -> None:
        """Sample the target's distribution and the weighted logged distribution from the posterior of estimated CPTs.

        One row per sample, with all contexts combined; None if CPTs are exact or not used.
        """
        self.drawn_targets: Array | None = None
        self.drawn_weighted: Array | None = None
        for k, context in enumerate(self.contexts):
            draws = [(distributions.draws(context, action), share) for action, share in mixture]
            if any(rows is None for rows, _ in draws):
                return
            target = sum(share * np.asarray(rows) for rows, share in draws)
            weighted = np.zeros_like(target)
            for action, coefficients in logged_weights[k].items():
                weighted += coefficients * np.asarray(distributions.draws(context, action))
            share, factor = self.factors[k] * self.n_covered[k], self.factors[k]
            self.drawn_targets = share * target + (0.0 if self.drawn_targets is None else self.drawn_targets)
            self.drawn_weighted = factor * weighted + (0.0 if self.drawn_weighted is None else self.drawn_weighted)

    def cpt_variance(self, values: Array, is_weighted: bool) -> float:
        """The variance that estimated CPTs add to a mean of cell values.

        `is_weighted`: for a mean of weighted outcomes instead of the model's mean.
        """
        if self.drawn_targets is None or self.drawn_weighted is None:
            return 0.0
        difference = self.drawn_targets - self.drawn_weighted if is_weighted else self.drawn_targets
        return float((difference @ values[0]).var())

    def second_moments(self, reference: Array) -> Array:
        """Mean squares of rewards around `reference` by cell, increased in cells with few outcomes."""
        squares = np.zeros(self.count.shape)
        np.add.at(squares, (self.row, self.cell), (self.rewards - reference[self.row, self.cell]) ** 2)
        if self.is_binary:  # as if one 0 and one 1 had been observed in each cell
            return np.asarray((squares + reference**2 + (1 - reference) ** 2) / (self.count + 2))
        well_seen = self.count >= 5
        prior = max(squares.sum() / len(self.rewards), (squares[well_seen] / self.count[well_seen]).max(initial=0.0))
        return np.asarray((squares + 2 * prior) / (self.count + 1))

    def earlier_means(self) -> tuple[Array, Array]:
        """For each outcome, sum_z P_target(z) m_z and its own cell's m, computed from earlier outcomes."""
        expected, own = np.zeros(len(self.rewards)), np.zeros(len(self.rewards))
        count, total, everything = np.zeros(self.count.shape), np.zeros(self.count.shape), 0.0
        for k, reward in enumerate(self.rewards.tolist()):
            row, cell = self.row[k], self.cell[k]
            means = (total[row] + everything / max(1, k)) / (count[row] + 1)
            expected[k], own[k] = self.targets[self.context[k]] @ means, means[cell]
            count[row, cell] += 1
            total[row, cell] += reward
            everything += reward
        return expected, own

    def unseen_allowance(self, reward_range: tuple[float, float] | None) -> tuple[float, float]:
        """The largest shift of the target's mean downwards and upwards by unobserved rewards in the declared range.

        0 if the range is not wide compared to the variation of the rewards.
        """
        if reward_range is None or self.is_binary:
            return 0.0, 0.0
        low, high = reward_range
        if high - low <= WIDE_RANGE * float(self.rewards.std()):
            return 0.0, 0.0
        largest, smallest = np.full(self.count.shape, low), np.full(self.count.shape, high)
        np.maximum.at(largest, (self.row, self.cell), self.rewards)
        np.minimum.at(smallest, (self.row, self.cell), self.rewards)
        reached = np.zeros(self.count.shape)
        np.add.at(reached, self.rows, self.context_shares[:, None] * self.targets)
        above, below = np.where(self.count > 0, (high - largest, smallest - low), high - low)
        unseen = UnseenValues(above.ravel(), below.ravel(), self.count.ravel())
        return unseen.allowance(reached.ravel(), math.log(UNSEEN_ERROR))

    @property
    def unknown_range(self) -> float:
        """The largest shift of the mean by the rewards of contexts without support."""
        return self.unknown_share * self.range


def _reasons(problem: Problem, log: _WeightedLog, by: By) -> dict[str, str]:
    """The reasons why estimates are not available, by name of the estimate."""
    reasons = {}
    unseen = float(log.context_shares @ np.where(log.count[log.rows] > 0, 0.0, log.targets).sum(axis=1))
    if unseen > LARGEST_UNKNOWN_SHARE:
        reasons["direct"] = (
            f"direct: {unseen:.1%} of the probability under the target is on {by} without outcomes; the limit is "
            f"{LARGEST_UNKNOWN_SHARE:.0%}. Collect more outcomes, or use a policy that explores more."
        )
    weighted = ("ips", "snips", "dr")
    if log.unknown_share > LARGEST_UNKNOWN_SHARE:
        order = np.argsort(-log.context_shares, kind="stable")
        names = [
            f"{problem.contexts.format_context(log.contexts[k]) or 'unknown'} ({log.context_shares[k]:.1%})"
            for k in order.tolist()
            if log.n_covered[k] == 0
        ]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        reason = (
            f"{', '.join(weighted)}: {log.unknown_share:.1%} of the decisions were in contexts without support, in "
            "which no decision with an outcome could reach all configurations of the target: "
            f"{'; '.join(names[:5])}{more}. Study.create(..., min_propensity=0.1) ensures support in every context."
        )
        reasons |= dict.fromkeys(weighted, reason)
    elif log.effective < SMALLEST_EFFECTIVE:
        contributions = log.squares.sum(axis=1)
        worst = log.contexts[int(contributions.argmax())]
        where = f", lowest in the context {problem.contexts.format_context(worst)}" if worst is not None else ""
        reason = (
            f"{', '.join(weighted)}: the effective sample size is {log.effective:.2g}{where}; the minimum is "
            f"{SMALLEST_EFFECTIVE:g}. Play the target's actions more often, for example with min_propensity=."
        )
        reasons |= dict.fromkeys(weighted, reason)
    elif not log.weights.any():
        reasons["snips"] = "snips: no outcome has a positive weight under the target."
    return reasons


def _direct(log: _WeightedLog) -> Estimate:
    values = np.einsum("cz,cz->c", log.targets, log.means[log.rows])
    mean = float(log.context_shares @ values)
    reached = np.zeros(log.count.shape)
    np.add.at(reached, log.rows, log.context_shares[:, None] * log.targets)
    n = np.maximum(1.0, log.count)
    between = float(log.context_shares @ (values - mean) ** 2) / log.decisions
    variance = float((reached**2 * log.second_moments(log.means) / n).sum()) + between
    deviations = (reached / n)[log.row, log.cell] * (log.rewards - log.means[log.row, log.cell])
    unseen = float(reached[log.count == 0].sum()) * log.range
    return _estimate(mean, deviations, variance, unseen, log.cpt_variance(log.means, is_weighted=False))


def _ips(log: _WeightedLog) -> Estimate:
    values = log.weights * log.rewards
    factors = np.where(log.covered, log.factors[log.context], 0.0)
    mean = math.fsum((factors * values).tolist())
    expected = np.einsum("cz,cz->c", log.targets, log.means[log.rows])
    moments = log.second_moments(np.zeros_like(log.means))[log.rows]
    offsets = log.factors**2 * log.n_covered * (2 * mean * expected - mean**2)
    variance = float((log.squares * moments).sum() - offsets.sum())
    cpt_variance = log.cpt_variance(log.means, is_weighted=True)
    return _estimate(mean, factors * (values - mean), variance, log.unknown_range, cpt_variance)


def _snips(log: _WeightedLog) -> Estimate:
    factors = np.where(log.covered, log.factors[log.context], 0.0) * log.weights
    total = float(factors.sum())
    mean = float(factors @ log.rewards) / total
    moments = log.second_moments(np.full_like(log.means, mean))[log.rows]
    return _estimate(
        mean,
        factors * (log.rewards - mean) / total,
        float((log.squares * moments).sum()),
        log.unknown_range,
        log.cpt_variance(log.means - mean, is_weighted=True),
    )


def _doubly_robust(log: _WeightedLog) -> Estimate:
    expected, own = log.earlier_means()
    values = expected + log.weights * (log.rewards - own)
    factors = np.where(log.covered, log.factors[log.context], 0.0)
    mean = math.fsum((factors * values).tolist())
    by_context = np.einsum("cz,cz->c", log.targets, log.means[log.rows])
    variance = float((log.squares * log.second_moments(log.means)[log.rows]).sum())
    variance += float((log.factors**2 * log.n_covered * (by_context - mean) ** 2).sum())
    cpt_variance = log.cpt_variance(log.means, is_weighted=False)
    return _estimate(mean, factors * (values - mean), variance, log.unknown_range, cpt_variance)


def _estimate(
    mean: float, deviations: Array, variance: float = 0.0, widening: float = 0.0, cpt_variance: float = 0.0
) -> Estimate:
    """An estimate from the contributions of the outcomes to its error.

    `variance` is used if it is larger than the empirical variance.
    """
    from scipy.special import stdtrit

    n, squares = len(deviations), float((deviations**2).sum())
    if n < 2:
        return Estimate(mean, math.inf, -math.inf, math.inf)
    degrees, shift = n - 1.0, 0.0
    if squares > 0:
        excess = float((deviations**4).sum()) / squares**2 - 1 / n
        degrees = min(max(2 / max(excess, 1e-300), 2.0), n - 1.0)
        shift = SKEWNESS_FACTOR * float((deviations**3).sum()) / squares**1.5
    error = math.sqrt(max(squares * n / (n - 1), variance) + cpt_variance)
    quantile = float(stdtrit(degrees, 0.975))
    low = mean - error * (quantile + max(0.0, -shift)) - widening
    return Estimate(mean, error, low, mean + error * (quantile + max(0.0, shift)) + widening)


SKEWNESS_FACTOR = (2 * 1.96**2 + 1) / 6
"""The shift of the 95% quantile of a studentised mean per unit of skewness."""
