"""The control group compared with the treated group: exact sums of rewards by arm, and intervals from them.

If actions have costs, the arms are compared by reward less cost, the quantity that the policy maximises, and also by
reward alone. The outcomes of a unit are dependent, so standard errors are clustered by unit (by decision, if no unit is
given). With N_u outcomes and the sum T_u for each of C units, and m = sum T_u / sum N_u,

    standard error^2 = C / (C - 1) * sum (T_u - m N_u)^2 / (sum N_u)^2

Intervals are Student's with C - 1 degrees of freedom, and Welch's for the difference. They are approximate, and more
accurate with more units. There is no interval if all units of an arm have the same mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from causalbandits.model import State
from causalbandits.study.storage import CONTROL, TREATED, from_fixed_point, squares_from_fixed_point, to_fixed_point

CONFIDENCE = 0.95
REWARD, NET_REWARD = "reward", "reward less cost"
METHOD = "Student's t (Welch's for the difference), standard errors clustered by unit; approximate"


class ArmSums:
    """Sums of the rewards of an arm, in fixed point.

    The sums are integers, so they do not depend on the order of the outcomes.
    """

    def __init__(self) -> None:
        self.n = self.total = 0
        self.units = 0
        """The number of units with an outcome; a decision without a unit counts as a unit of its own."""
        self._squares = self._products = self._sizes = 0
        """The sums of T_u^2, T_u N_u and N_u^2."""
        self._by_unit: dict[str, tuple[int, int]] = {}

    def change(self, unit: str | None, reward: int, sign: int) -> None:
        """Add an outcome (sign 1) or subtract it (sign -1)."""
        self.n += sign
        self.total += sign * reward
        if unit is None:
            self._add_unit(1, reward, sign)
            return
        n, total = self._by_unit.pop(unit, (0, 0))
        if n:
            self._add_unit(n, total, -1)
        if n + sign:
            self._by_unit[unit] = n + sign, total + sign * reward
            self._add_unit(*self._by_unit[unit], 1)

    def _add_unit(self, n: int, total: int, sign: int) -> None:
        self.units += sign
        self._squares += sign * total * total
        self._products += sign * total * n
        self._sizes += sign * n * n

    @property
    def variance(self) -> float | None:
        """The squared standard error of the mean.

        None with fewer than two units, or if all units have the same mean.
        """
        n, total = self.n, self.total
        if self.units < 2:
            return None
        residuals = n * n * self._squares - 2 * n * total * self._products + total * total * self._sizes
        if residuals <= 0:
            return None
        return self.units / (self.units - 1) * squares_from_fixed_point(residuals) / n**2 / n**2


class Arms:
    """The sums of both arms: of rewards, and of rewards less costs (the same object if no action has a cost)."""

    def __init__(self, has_costs: bool) -> None:
        self.has_costs = has_costs
        self.rewards = {CONTROL: ArmSums(), TREATED: ArmSums()}
        self.net_rewards = {CONTROL: ArmSums(), TREATED: ArmSums()} if has_costs else self.rewards

    def change(self, arm: str, unit: str | None, reward: int, cost: float, sign: int) -> None:
        """Add the outcome of an action with this cost (sign 1) or subtract it (sign -1)."""
        self.rewards[arm].change(unit, reward, sign)
        if self.has_costs:
            self.net_rewards[arm].change(unit, reward - to_fixed_point(cost), sign)


class ArmSummary(NamedTuple):
    """The outcomes of an arm: their number, the number of units, their mean and its interval (None if unavailable)."""

    n: int
    units: int
    mean: float | None
    lower: float | None
    upper: float | None


class ArmDifference(NamedTuple):
    """The mean of the treated group minus that of the control group, with its interval."""

    mean: float
    lower: float
    upper: float


class ArmComparison(NamedTuple):
    """The comparison of both arms by one measure: `reward` or `reward less cost`."""

    measure: str
    control: ArmSummary
    treated: ArmSummary
    difference: ArmDifference | None
    reason: str
    """The reason why there is no difference; empty if there is one."""

    def to_record(self) -> dict[str, Any]:
        """The comparison as a JSON-ready mapping."""
        return {
            "measure": self.measure,
            "control": self.control._asdict(),
            "treated": self.treated._asdict(),
            "difference": None if self.difference is None else self.difference._asdict(),
            "reason": self.reason,
        }

    def format_lines(self) -> list[str]:
        """One line for each arm and one for the difference; names the measure only if it is not the reward."""
        lines = [
            f"{name}: {arm.n} outcomes of {arm.units} units{_format_mean(arm, self.measure)}"
            for name, arm in ((CONTROL, self.control), (TREATED, self.treated))
        ]
        name = "difference" if self.measure == REWARD else f"difference of {self.measure}"
        if self.difference is None:
            return [*lines, f"{name}: not available, because {self.reason}"]
        mean, lower, upper = self.difference
        return [*lines, f"{name}: {mean:+.4g}, {CONFIDENCE:.0%} interval {lower:+.4g} to {upper:+.4g}"]


class HoldoutReport(NamedTuple):
    """The comparison of the control group with the treated group, by reward less cost if actions have costs."""

    holdout: float
    baseline: Mapping[str, State]
    measure: str
    """The measure of the means: `reward less cost` if actions have costs, otherwise `reward`."""
    control: ArmSummary
    treated: ArmSummary
    difference: ArmDifference | None
    reason: str
    """The reason why there is no difference; empty if there is one."""
    rewards: ArmComparison | None
    """The comparison by reward alone if actions have costs; otherwise None."""
    confidence: float = CONFIDENCE
    method: str = METHOD

    @property
    def comparison(self) -> ArmComparison:
        """The comparison by `measure`."""
        return ArmComparison(self.measure, self.control, self.treated, self.difference, self.reason)

    def to_record(self) -> dict[str, Any]:
        """The report as a JSON-ready mapping."""
        return {
            **self._asdict(),
            **self.comparison.to_record(),
            "baseline": dict(self.baseline),
            "rewards": None if self.rewards is None else self.rewards.to_record(),
        }

    def __str__(self) -> str:
        lines = self.comparison.format_lines()
        if self.rewards is not None:
            lines += [f"without costs, {line}" for line in self.rewards.format_lines()]
        return "\n".join([*lines, f"method: {self.method}"])


def _format_mean(arm: ArmSummary, measure: str) -> str:
    if arm.mean is None:
        return ""
    interval = "" if arm.lower is None else f", {CONFIDENCE:.0%} interval {arm.lower:.4g} to {arm.upper:.4g}"
    return f", mean {measure} {arm.mean:.4g}{interval}"


def compare_arms(arms: Arms, holdout: float, baseline: Mapping[str, State]) -> HoldoutReport:
    """The means of both arms and their difference."""
    if not arms.has_costs:
        return HoldoutReport(holdout, baseline, *_compare_sums(arms.rewards, REWARD), None)
    rewards = _compare_sums(arms.rewards, REWARD)
    return HoldoutReport(holdout, baseline, *_compare_sums(arms.net_rewards, NET_REWARD), rewards)


def _compare_sums(arms: Mapping[str, ArmSums], measure: str) -> ArmComparison:
    """The means of both arms by one measure, and their difference."""
    control, treated = arms[CONTROL], arms[TREATED]
    variances = control.variance, treated.variance
    difference, reason = None, ""
    for name, arm, variance in ((CONTROL, control, variances[0]), (TREATED, treated, variances[1])):
        if arm.units < 2:
            reason = reason or f"fewer than two units of the arm {name!r} have an outcome"
        elif variance is None:
            reason = reason or f"all units of the arm {name!r} have the same mean {measure} so far"
    if variances[0] is not None and variances[1] is not None:
        mean = _mean(treated) - _mean(control)
        parts = [(variances[0], control.units - 1), (variances[1], treated.units - 1)]
        variance = math.fsum(part for part, _ in parts)
        freedom = variance**2 / math.fsum(part**2 / df for part, df in parts)
        width = _quantile(freedom) * math.sqrt(variance)
        difference = ArmDifference(mean, mean - width, mean + width)
    return ArmComparison(measure, _summary(control), _summary(treated), difference, reason)


def _summary(arm: ArmSums) -> ArmSummary:
    if not arm.n:
        return ArmSummary(0, 0, None, None, None)
    mean, variance = _mean(arm), arm.variance
    if variance is None:
        return ArmSummary(arm.n, arm.units, mean, None, None)
    width = _quantile(arm.units - 1) * math.sqrt(variance)
    return ArmSummary(arm.n, arm.units, mean, mean - width, mean + width)


def _mean(arm: ArmSums) -> float:
    return from_fixed_point(arm.total) / arm.n


def _quantile(freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))
