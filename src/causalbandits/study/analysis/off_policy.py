"""What another way of deciding would have brought, from what this one logged.

A decision's action a was drawn from a known mixture pi over actions (`draws=` of a Thompson policy), and led to z.
Given z the reward is the same whoever chose, so that outcomes are weighted by configurations, not by actions:

    w = P_target(z) / P_pi(z),   P_pi(z) = sum_a pi(a) P(z | a),   likewise for the target's own mixture

    direct   sum_z P_target(z) mean_z                     no weights; right where the tables are, and all z were seen
    ips      mean of w y                                  unbiased, if pi reaches every z that the target reaches
    snips    sum of w y / sum of w                        hardly biased, and steadier
    dr       mean of (direct + w (y - mean_z))            right if either is

Weights of configurations vary far less than those of actions: many actions lead to the same z. Weights of actions,

    w = target(a) / pi(a),

need neither tables nor the parents' values, but chances that are true of every action: a share of the draws is 0 where
the true chance is small, and the mean of w y is then far off. So they are refused without a floor (see `chances`).

Decisions whose mixture
could not reach all that the target reaches have no weight and are left out: the mixture was known before anything
happened, so that this does not bias the others (in contexts, the mean is then over the contexts of those that stay).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from causalbandits._typing import Array, Z, is_iterable, is_real
from causalbandits.errors import CausalBanditsError, short_repr, unknown_name_message
from causalbandits.model import State
from causalbandits.policies import Outcome
from causalbandits.problem import Action, Problem

By = Literal["configurations", "actions"]

LoggedOutcome = tuple[Outcome, bool]

Target = Mapping[str, State] | Iterable[tuple[Mapping[str, State], float]] | Literal["logged"]
"""An intervention, several with their shares, or what was done."""


class Estimate(NamedTuple):
    """A mean reward, and its standard error."""

    mean: float
    standard_error: float


class Evaluation(NamedTuple):
    """Estimates of a mean reward by name, and how far they can be trusted."""

    estimates: dict[str, Estimate]
    outcomes: int
    effective: float
    """So many outcomes of the target itself would be worth as much."""
    largest_weight: float
    left_out: int
    """Outcomes without the parents' values, or whose decision's chances are not known, or do not reach the target's."""

    def __repr__(self) -> str:
        lines = [
            f"{name:8s} {estimate.mean:.4g} ± {estimate.standard_error:.2g}"
            for name, estimate in self.estimates.items()
        ]
        sample_size = f"{self.outcomes} outcomes, worth {self.effective:.0f} of the target's own; largest weight "
        return "\n".join([*lines, sample_size + f"{self.largest_weight:.3g}; {self.left_out} left out"])


def evaluate_target(problem: Problem, outcomes: Iterable[LoggedOutcome], target: Target, by: By) -> Evaluation:
    """The mean reward of a target, from logged outcomes, each with whether its chances are those of every action."""
    if not isinstance(by, str) or by not in ("configurations", "actions"):
        raise CausalBanditsError(unknown_name_message("way to weigh outcomes by", by, ("configurations", "actions")))
    logging = isinstance(target, str) and target == "logged"
    mixture = () if logging else _parse_target(problem, target)
    if by == "configurations" and not logging and problem.unit == "actions":
        raise CausalBanditsError(
            "Configurations are of the reward's parents, and this problem has none: it learns a number per action "
            '(parents=[]). by="actions" weighs its outcomes.'
        )
    sample, left_out = _split_usable(outcomes, "logged" if logging else by)
    distributions = (
        _ConfigurationDistributions(problem) if by == "configurations" else _ActionDistributions(sample, mixture)
    )
    if sample and not logging:
        n_usable = len(sample)
        sample = [outcome for outcome in sample if _reaches(distributions, outcome, mixture)]
        left_out += n_usable - len(sample)
    if not sample:
        raise CausalBanditsError(NO_USABLE_OUTCOME[by].format(left_out))
    rewards = np.array([outcome.reward for outcome in sample])
    if logging:
        logged = _mean_estimate(rewards)
        return Evaluation({"logged": logged}, len(sample), float(len(sample)), 1.0, left_out)
    weights = np.array([_weight(distributions, outcome, mixture) for outcome in sample])
    means = _cell_means(distributions, sample)
    expected = np.array([float(distributions(outcome.context, mixture) @ means) for outcome in sample])
    residual = rewards - means[[distributions.cell(outcome) for outcome in sample]]
    estimates = {
        "direct": Estimate(float(expected.mean()), _direct_standard_error(distributions, sample, mixture)),
        "ips": _mean_estimate(weights * rewards),
        "snips": _ratio_estimate(weights, rewards),
        "dr": _mean_estimate(expected + weights * residual),
    }
    if not weights.any():  # nothing of what the target leads to was seen: a mean of zeros
        del estimates["snips"]
    if np.count_nonzero(weights) < 2:  # how much one outcome could have been another, it does not say itself
        weighted = [name for name in estimates if name != "direct"]
        estimates |= {name: estimates[name]._replace(standard_error=math.inf) for name in weighted}
    effective = float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))
    return Evaluation(estimates, len(sample), effective, float(weights.max()), left_out)


NO_USABLE_OUTCOME = {
    "configurations": "No outcome can be used: what another policy would have brought is known only where each "
    "decision's chances are, and the parents' values, and where these chances reach all that the target reaches. "
    "{} outcomes lack something of that; use a policy with draws= above 1.",
    "actions": "No outcome can be weighted by actions: that needs decisions in which every action had a chance, "
    'Study.create(..., floor=0.1), or the mode "uniform"; without, it would be biased. {} outcomes lack that. '
    'Where the reward has parents, by="configurations" does without.',
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
            f"A target is an intervention, pairs of one and its share, or 'logged'; got {short_repr(target)}."
        )
    pairs = [tuple(pair) if is_iterable(pair) else () for pair in parts]
    if not all(len(pair) == 2 and isinstance(pair[0], Mapping) and is_real(pair[1]) for pair in pairs):
        raise CausalBanditsError(
            f"A target's parts are pairs of an intervention and its share; got {short_repr(target)}."
        )
    mixture = tuple((problem.actions.find(intervention), float(share)) for intervention, share in pairs)
    shares = [share for _, share in mixture]
    if not mixture or min(shares) < 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-9):
        raise CausalBanditsError(f"The shares of a target's interventions must sum to 1; got {shares}.")
    return mixture


ActionMixture = tuple[tuple[Action, float], ...]


class _CellDistributions(ABC):
    """The chances of cells (configurations, or actions) under a mixture of actions, in a context."""

    size: int

    def __init__(self) -> None:
        self._cache: dict[tuple[Z | None, ActionMixture], Array] = {}

    def __call__(self, context: Z | None, mixture: ActionMixture) -> Array:
        key = context, mixture
        if key not in self._cache:
            self._cache[key] = self._distribution(*key)
        return self._cache[key]

    @abstractmethod
    def _distribution(self, context: Z | None, mixture: ActionMixture) -> Array: ...

    @abstractmethod
    def cell(self, outcome: Outcome) -> int:
        """Where an outcome belongs."""


class _ConfigurationDistributions(_CellDistributions):
    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self._problem, self.size = problem, problem.configurations
        self._rows: dict[tuple[Z | None, Action], Array] = {}

    def _distribution(self, context: Z | None, mixture: ActionMixture) -> Array:
        return np.asarray(sum(share * self._row(context, action) for action, share in mixture))

    def _row(self, context: Z | None, action: Action) -> Array:
        key = context, action
        if key not in self._rows:
            self._rows[key] = self._problem.condition_codes(context).parent_distribution(action).reshape(-1)
        return self._rows[key]

    def cell(self, outcome: Outcome) -> int:
        return self._problem.configuration(outcome.z)


class _ActionDistributions(_CellDistributions):
    def __init__(self, sample: Iterable[Outcome], target: ActionMixture) -> None:
        super().__init__()
        self._positions: dict[Action, int] = {}
        for mixture in (target, *{_logging_mixture(outcome) for outcome in sample}):
            for action, _ in mixture:
                self._positions.setdefault(action, len(self._positions))
        self.size = len(self._positions)

    def _distribution(self, context: Z | None, mixture: ActionMixture) -> Array:
        distribution = np.zeros(self.size)
        for action, share in mixture:
            distribution[self._positions[action]] += share
        return distribution

    def cell(self, outcome: Outcome) -> int:
        return self._positions[outcome.action]


def _reaches(distributions: _CellDistributions, outcome: Outcome, mixture: ActionMixture) -> bool:
    """Whether the decision could lead wherever the target leads."""
    return not (
        distributions(outcome.context, mixture)[distributions(outcome.context, _logging_mixture(outcome)) <= 0] > 0
    ).any()


def _weight(distributions: _CellDistributions, outcome: Outcome, mixture: ActionMixture) -> float:
    cell = distributions.cell(outcome)
    return float(
        distributions(outcome.context, mixture)[cell] / distributions(outcome.context, _logging_mixture(outcome))[cell]
    )


def _logging_mixture(outcome: Outcome) -> ActionMixture:
    return outcome.support or ((outcome.action, 1.0),)


def _cell_means(distributions: _CellDistributions, sample: list[Outcome]) -> Array:
    """Mean rewards by cell; the mean of all where none was seen."""
    count, total = np.zeros(distributions.size), np.zeros(distributions.size)
    for outcome in sample:
        cell = distributions.cell(outcome)
        count[cell] += 1
        total[cell] += outcome.reward
    return np.asarray(np.where(count > 0, total / np.maximum(1.0, count), total.sum() / count.sum()))


def _direct_standard_error(distributions: _CellDistributions, sample: list[Outcome], mixture: ActionMixture) -> float:
    """From the spread of rewards within cells; that of tables is not in it."""
    count, squares = np.zeros(distributions.size), np.zeros(distributions.size)
    means = _cell_means(distributions, sample)
    target = np.mean([distributions(outcome.context, mixture) for outcome in sample], axis=0)
    for outcome in sample:
        cell = distributions.cell(outcome)
        count[cell] += 1
        squares[cell] += (outcome.reward - means[cell]) ** 2
    pooled = squares.sum() / max(1.0, count.sum() - (count > 0).sum())
    return float(math.sqrt((target**2 * pooled / np.maximum(1.0, count)).sum()))


def _mean_estimate(values: Array) -> Estimate:
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf
    return Estimate(math.fsum(values.tolist()) / len(values), error)


def _ratio_estimate(weights: Array, rewards: Array) -> Estimate:
    total_weight = float(weights.sum()) or math.inf
    mean = float((weights * rewards).sum()) / total_weight
    error = math.sqrt(float((weights**2 * (rewards - mean) ** 2).sum())) / total_weight
    return Estimate(mean, error)
