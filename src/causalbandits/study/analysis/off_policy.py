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
from causalbandits.errors import CausalBanditsError, brief, unknown
from causalbandits.model import State
from causalbandits.policies import Outcome
from causalbandits.problem import Action, Problem

By = Literal["configurations", "actions"]

Logged = tuple[Outcome, bool]

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
        lines = [f"{name:8s} {found.mean:.4g} ± {found.standard_error:.2g}" for name, found in self.estimates.items()]
        worth = f"{self.outcomes} outcomes, worth {self.effective:.0f} of the target's own; largest weight "
        return "\n".join([*lines, worth + f"{self.largest_weight:.3g}; {self.left_out} left out"])


def evaluated(problem: Problem, outcomes: Iterable[Logged], target: Target, by: By) -> Evaluation:
    """The mean reward of a target, from logged outcomes, each with whether its chances are those of every action."""
    if not isinstance(by, str) or by not in ("configurations", "actions"):
        raise CausalBanditsError(unknown("way to weigh outcomes by", by, ("configurations", "actions")))
    logging = isinstance(target, str) and target == "logged"
    mixture = () if logging else _mixture(problem, target)
    if by == "configurations" and not logging and problem.learns == "actions":
        raise CausalBanditsError(
            "Configurations are of the reward's parents, and this problem has none: it learns a number per action "
            '(parents=[]). by="actions" weighs its outcomes.'
        )
    told, left_out = _usable(outcomes, "logged" if logging else by)
    spreads = _Configurations(problem) if by == "configurations" else _Actions(told, mixture)
    if told and not logging:
        usable = len(told)
        told = [outcome for outcome in told if _reaches(spreads, outcome, mixture)]
        left_out += usable - len(told)
    if not told:
        raise CausalBanditsError(UNUSABLE[by].format(left_out))
    rewards = np.array([outcome.reward for outcome in told])
    if logging:
        logged = _mean(rewards)
        return Evaluation({"logged": logged}, len(told), float(len(told)), 1.0, left_out)
    weights = np.array([_weight(spreads, outcome, mixture) for outcome in told])
    means = _means(spreads, told)
    expected = np.array([float(spreads(outcome.context, mixture) @ means) for outcome in told])
    residual = rewards - means[[spreads.cell(outcome) for outcome in told]]
    estimates = {
        "direct": Estimate(float(expected.mean()), _direct_error(spreads, told, mixture)),
        "ips": _mean(weights * rewards),
        "snips": _ratio(weights, rewards),
        "dr": _mean(expected + weights * residual),
    }
    if not weights.any():  # nothing of what the target leads to was seen: a mean of zeros
        del estimates["snips"]
    if np.count_nonzero(weights) < 2:  # how much one outcome could have been another, it does not say itself
        weighted = [name for name in estimates if name != "direct"]
        estimates |= {name: estimates[name]._replace(standard_error=math.inf) for name in weighted}
    effective = float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))
    return Evaluation(estimates, len(told), effective, float(weights.max()), left_out)


UNUSABLE = {
    "configurations": "No outcome can be used: what another policy would have brought is known only where each "
    "decision's chances are, and the parents' values, and where these chances reach all that the target reaches. "
    "{} outcomes lack something of that; use a policy with draws= above 1.",
    "actions": "No outcome can be weighted by actions: that needs decisions in which every action had a chance, "
    'Study.create(..., floor=0.1), or the mode "uniform"; without, it would be biased. {} outcomes lack that. '
    'Where the reward has parents, by="configurations" does without.',
}


def _usable(outcomes: Iterable[Logged], purpose: str) -> tuple[list[Outcome], int]:
    told, left_out = [], 0
    for outcome, complete in outcomes:
        known = bool(outcome.z) and outcome.propensity is not None
        if purpose == "logged" or (complete if purpose == "actions" else known):
            told.append(outcome)
        else:
            left_out += 1
    return told, left_out


def _mixture(problem: Problem, target: Any) -> AMixture:
    given = [(target, 1.0)] if isinstance(target, Mapping) else target
    if not is_iterable(given) or isinstance(given, str):
        raise CausalBanditsError(
            f"A target is an intervention, pairs of one and its share, or 'logged'; got {brief(target)}."
        )
    pairs = [tuple(pair) if is_iterable(pair) else () for pair in given]
    if not all(len(pair) == 2 and isinstance(pair[0], Mapping) and is_real(pair[1]) for pair in pairs):
        raise CausalBanditsError(f"A target's parts are pairs of an intervention and its share; got {brief(target)}.")
    found = tuple((problem.actions.find(one), float(share)) for one, share in pairs)
    shares = [share for _, share in found]
    if not found or min(shares) < 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-9):
        raise CausalBanditsError(f"The shares of a target's interventions must sum to 1; got {shares}.")
    return found


AMixture = tuple[tuple[Action, float], ...]


class _Spreads(ABC):
    """The chances of cells (configurations, or actions) under a mixture of actions, in a context."""

    size: int

    def __init__(self) -> None:
        self._found: dict[tuple[Z | None, AMixture], Array] = {}

    def __call__(self, context: Z | None, mixture: AMixture) -> Array:
        key = context, mixture
        if key not in self._found:
            self._found[key] = self._spread(*key)
        return self._found[key]

    @abstractmethod
    def _spread(self, context: Z | None, mixture: AMixture) -> Array: ...

    @abstractmethod
    def cell(self, outcome: Outcome) -> int:
        """Where an outcome belongs."""


class _Configurations(_Spreads):
    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self._problem, self.size = problem, problem.configurations
        self._rows: dict[tuple[Z | None, Action], Array] = {}

    def _spread(self, context: Z | None, mixture: AMixture) -> Array:
        return np.asarray(sum(share * self._row(context, action) for action, share in mixture))

    def _row(self, context: Z | None, action: Action) -> Array:
        key = context, action
        if key not in self._rows:
            self._rows[key] = self._problem.in_context(context).parent_distribution(action).reshape(-1)
        return self._rows[key]

    def cell(self, outcome: Outcome) -> int:
        return self._problem.configuration(outcome.z)


class _Actions(_Spreads):
    def __init__(self, told: Iterable[Outcome], target: AMixture) -> None:
        super().__init__()
        self._places: dict[Action, int] = {}
        for mixture in (target, *{_logged(outcome) for outcome in told}):
            for action, _ in mixture:
                self._places.setdefault(action, len(self._places))
        self.size = len(self._places)

    def _spread(self, context: Z | None, mixture: AMixture) -> Array:
        found = np.zeros(self.size)
        for action, share in mixture:
            found[self._places[action]] += share
        return found

    def cell(self, outcome: Outcome) -> int:
        return self._places[outcome.action]


def _reaches(spreads: _Spreads, outcome: Outcome, mixture: AMixture) -> bool:
    """Whether the decision could lead wherever the target leads."""
    return not (spreads(outcome.context, mixture)[spreads(outcome.context, _logged(outcome)) <= 0] > 0).any()


def _weight(spreads: _Spreads, outcome: Outcome, mixture: AMixture) -> float:
    z = spreads.cell(outcome)
    return float(spreads(outcome.context, mixture)[z] / spreads(outcome.context, _logged(outcome))[z])


def _logged(outcome: Outcome) -> AMixture:
    return outcome.support or ((outcome.action, 1.0),)


def _means(spreads: _Spreads, told: list[Outcome]) -> Array:
    """Mean rewards by cell; the mean of all where none was seen."""
    count, total = np.zeros(spreads.size), np.zeros(spreads.size)
    for outcome in told:
        z = spreads.cell(outcome)
        count[z] += 1
        total[z] += outcome.reward
    return np.asarray(np.where(count > 0, total / np.maximum(1.0, count), total.sum() / count.sum()))


def _direct_error(spreads: _Spreads, told: list[Outcome], mixture: AMixture) -> float:
    """From the spread of rewards within cells; that of tables is not in it."""
    count, squares = np.zeros(spreads.size), np.zeros(spreads.size)
    means = _means(spreads, told)
    target = np.mean([spreads(outcome.context, mixture) for outcome in told], axis=0)
    for outcome in told:
        z = spreads.cell(outcome)
        count[z] += 1
        squares[z] += (outcome.reward - means[z]) ** 2
    pooled = squares.sum() / max(1.0, count.sum() - (count > 0).sum())
    return float(math.sqrt((target**2 * pooled / np.maximum(1.0, count)).sum()))


def _mean(values: Array) -> Estimate:
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf
    return Estimate(math.fsum(values.tolist()) / len(values), error)


def _ratio(weights: Array, rewards: Array) -> Estimate:
    whole = float(weights.sum()) or math.inf
    mean = float((weights * rewards).sum()) / whole
    error = math.sqrt(float((weights**2 * (rewards - mean) ** 2).sum())) / whole
    return Estimate(mean, error)
