"""Budgets: a total amount for a number of rounds, and the pacing rule that spends it.

If the values of actions were known, the largest mean value of a round with mean cost b is given by a linear program:

    max sum_a x_a value_a   where   sum_a x_a cost_a <= b,   sum_a x_a = 1,   x >= 0,

Its solution is the upper envelope of the points (cost, value) at b: a mixture of two actions, one that costs at most b
and one that costs more. While the values are learned, each decision uses this round's scores as values, and as b the
remaining budget divided by the number of remaining rounds:

    value
      |               . d          a and c cost at most b, d costs more
      |       . c  /               the envelope at b lies between c and d: d is played with probability
      |         :                  (b - cost_c) / (cost_d - cost_c), else c
      | . a     :
      +---------b--------- cost

There is no step size to tune, and the budget lasts to the last round: an action is not played if the remaining budget
would then not suffice for the cheapest action in all later rounds. With a context, see `problem.context_frequencies`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes, Z, is_integer, is_real
from causalbandits.errors import BudgetError
from causalbandits.problem.projection import TIE, Scores

LARGEST_TOTAL = 1e300
"""The largest total; sums overflow beyond it."""

SLACK = 1e-12
"""The tolerance for rounding in sums of prices: a cost may exceed the remaining budget by this share of the total."""


@dataclass(frozen=True)
class Budget:
    """A total budget and the number of rounds that it must last.

    >>> budget = Budget(250, rounds=5000)
    >>> budget, budget.per_round
    (Budget(total=250.0, rounds=5000), 0.05)

    Args:
        total: The amount to spend, in the units of the costs; a positive finite number.
        rounds: The number of decisions that the budget must last; an integer of at least 1.

    Raises:
        BudgetError: If `total` or `rounds` is out of range.
    """

    total: float
    rounds: int

    def __post_init__(self) -> None:
        if not is_real(self.total) or not 0 < self.total <= LARGEST_TOTAL:
            raise BudgetError(f"A budget's total must be a positive finite number; got {self.total!r}.")
        if not is_integer(self.rounds) or self.rounds < 1:
            raise BudgetError(f"A budget's rounds must be a whole number, 1 or more; got {self.rounds!r}.")
        object.__setattr__(self, "total", float(self.total))
        object.__setattr__(self, "rounds", int(self.rounds))

    @property
    def per_round(self) -> float:
        """The mean amount to spend per round."""
        return self.total / self.rounds


class BudgetStatus(NamedTuple):
    """The state of a budget.

    Attributes:
        spent: The amount spent, in the units of the costs.
        left: The amount left.
        rounds_left: The number of rounds left.
    """

    spent: float
    left: float
    rounds_left: int


class Mixture(NamedTuple):
    """Two actions by position: the second is played with probability `share`, otherwise the first."""

    low: int
    high: int
    share: float

    def mean(self, values: Array) -> float:
        """The mean value of the mixture."""
        return float((1.0 - self.share) * values[self.low] + self.share * values[self.high])


def best_mixture(values: Array, costs: Array, allowance: float, tie: float = 0.0) -> Mixture:
    """The mixture on the upper envelope of (cost, value) at an allowance of at least the cheapest cost.

    Values that differ by at most `tie` count as equal, and the cheapest is used.

    >>> best_mixture(np.array([0.1, 0.3, 0.4]), np.array([0., 1., 3.]), 1.5)
    Mixture(low=1, high=2, share=0.25)
    """
    cheap = costs <= allowance
    low = cheapest_of_the_best(values, costs, cheap, tie)
    if cheap.all():
        return Mixture(low, low, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.where(cheap, -math.inf, (values - values[low]) / (costs - costs[low]))
    high = int(slopes.argmax())
    if values[high] - values[low] <= tie:
        return Mixture(low, low, 0.0)
    while True:
        # The point farthest above the line replaces the end on its side of the allowance.
        slope = (values[high] - values[low]) / (costs[high] - costs[low])
        above = values - values[low] - slope * (costs - costs[low])
        top = int(above.argmax())
        if top in (low, high) or above[top] <= tie:
            return Mixture(low, high, float((allowance - costs[low]) / (costs[high] - costs[low])))
        low, high = (top, high) if cheap[top] else (low, top)


def cheapest_of_the_best(values: Array, costs: Array, allowed: npt.NDArray[np.bool_], tie: float) -> int:
    """Among the allowed positions with the largest value (within `tie`), the first of the cheapest."""
    best = allowed & (values >= np.max(values, where=allowed, initial=-math.inf) - tie)
    return int(np.where(best, costs, math.inf).argmin())


class BudgetTracker:
    """The remaining budget. Sums are exact, so that a refund restores the state before the charge."""

    def __init__(self, budget: Budget, cheapest: float) -> None:
        self.budget, self.cheapest = budget, cheapest
        self._spent, self._rounds = Fraction(0), 0
        self.context_counts: dict[Z, int] = {}
        """The number of rounds in which each context was known."""

    def charge(self, cost: float, context_codes: Z | None = None, times: int = 1) -> None:
        """Charge one or several rounds with this cost, in a known context if given."""
        self._spent += Fraction(cost) * times
        self._rounds += times
        if context_codes is not None:
            self.context_counts[context_codes] = self.context_counts.get(context_codes, 0) + times

    def refund(self, cost: float, context_codes: Z | None = None) -> None:
        """Refund a round that was not played."""
        self._spent -= Fraction(cost)
        self._rounds -= 1
        if context_codes is not None:
            self.context_counts[context_codes] -= 1

    @property
    def status(self) -> BudgetStatus:
        """The state of the budget; amounts within the rounding tolerance (1e-12 of the total) count as 0."""
        spent = min(self.budget.total, float(self._spent))
        return BudgetStatus(spent, self.budget.total - spent, self.budget.rounds - self._rounds)

    def pacing_rule(self, costs: Array, draw: Callable[[], float]) -> PacingRule:
        """The pacing rule for a decision among actions with these costs; raises an error if none is affordable."""
        spent, remaining, rounds = self.status
        if rounds < 1:
            raise BudgetError(
                f"All {self.budget.rounds} rounds of the budget are used. Cancel decisions that were not carried out, "
                "or start a new campaign with a new budget."
            )
        slack = SLACK * self.budget.total
        affordable = costs <= self._spendable()
        if not affordable.any():
            cheapest_cost = float(costs.min())
            if cheapest_cost > remaining + slack:
                raise BudgetError(
                    f"No allowed action is affordable: the cheapest costs {cheapest_cost:g}, and {remaining:g} of "
                    f"{self.budget.total:g} is left for {rounds} rounds ({spent:g} is spent)."
                )
            affordable = costs <= cheapest_cost
        return PacingRule(
            costs, affordable, max(remaining / rounds, float(costs[affordable].min())) * (1 + SLACK), draw()
        )

    @property
    def remaining_per_round(self) -> float:
        """The mean remaining budget per remaining round."""
        _, remaining, rounds = self.status
        return remaining / rounds * (1 + SLACK)

    def affordable_positions(self, costs: Array) -> Codes:
        """The positions of the actions that are affordable now; the cheapest is always included."""
        return np.flatnonzero(costs <= max(self._spendable(), float(costs.min())))

    def _spendable(self) -> float:
        """The amount that may be spent now so that the cheapest action remains affordable in all later rounds."""
        _, remaining, rounds = self.status
        return remaining - (rounds - 1) * self.cheapest + SLACK * self.budget.total


class PacingRule:
    """The pacing rule of one decision: from scores to one of the two actions of the best mixture.

    After the decision, `chance` is the probability of the chosen action given the scores, and `mixtures` has one
    mixture per posterior sample.
    """

    def __init__(self, costs: Array, affordable: npt.NDArray[np.bool_], allowance: float, uniform: float) -> None:
        self.positions = np.flatnonzero(affordable)
        self.costs, self.allowance, self.uniform = costs[self.positions], allowance, uniform
        self.propensity = 1.0
        self.mixtures: list[Mixture] = []

    def __call__(self, scores: Scores) -> Scores:
        paced = PacedScores(*scores)
        paced.pacing_rule = self
        return paced

    def can_afford(self, cost: float) -> bool:
        """Whether an action of this cost is affordable."""
        return cost <= float(self.costs.max())

    def position(self, values: Array, scale: float) -> int:
        """The position of the action to play."""
        return self.choose_from(best_mixture(values[self.positions], self.costs, self.allowance, TIE * max(1.0, scale)))

    def choose_from(self, mixture: Mixture) -> int:
        """The position of the action to play from a mixture of affordable actions."""
        low, high, share = int(self.positions[mixture.low]), int(self.positions[mixture.high]), mixture.share
        self.mixtures.append(Mixture(low, high, share))
        plays_high = self.uniform < share
        self.propensity = 1.0 if low == high else share if plays_high else 1.0 - share
        return high if plays_high else low

    def position_probabilities(self) -> dict[int, float]:
        """The probability of each position, if every mixture has the same probability.

        >>> pace = PacingRule(np.array([0., 1., 2.]), np.array([True, True, False]), 0.5, uniform=0.9)
        >>> pace.choose_from(Mixture(0, 1, 0.5)), pace.choose_from(Mixture(0, 0, 0.0))
        (0, 0)
        >>> pace.position_probabilities()
        {0: 0.75, 1: 0.25}
        """
        sums: dict[int, float] = {}
        for low, high, share in self.mixtures:
            for position, part in ((low, 1.0 - share), (high, share)):
                if part:
                    sums[position] = sums.get(position, 0.0) + part
        return {position: part / len(self.mixtures) for position, part in sums.items()}


class PacedScores(Scores):
    """Scores of the reward alone; the budget's pacing rule selects the action instead of the maximum."""

    pacing_rule: PacingRule

    def best_position(self) -> int:
        self.validate_finite()
        return self.pacing_rule.position(self.values, float(self.scale))

    def best_positions(self) -> Codes:
        self.validate_finite()
        scales = np.broadcast_to(self.scale, len(self.values))
        return np.array([self.pacing_rule.position(row, float(s)) for row, s in zip(self.values, scales, strict=True)])


class CostCap:
    """The restriction of a recommendation under a budget to actions within a cost limit, or else to the cheapest."""

    def __init__(self, costs: Array, limit: float) -> None:
        self.limit = max(limit * (1 + SLACK), float(costs.min()))
        self.allowed = costs <= self.limit

    def __call__(self, scores: Scores) -> Scores:
        least = scores.values.min(axis=-1, keepdims=True) - 1.0
        return Scores(np.where(self.allowed, scores.values, least), scores.scale)


# A budget that contexts share is divided among them.
#
# With P(c) for the probability of each context, the largest mean value of a round with mean cost b is again given by a
# linear program:
#
#     max sum_c P(c) sum_a x_ca value_ca   where   sum_c P(c) sum_a x_ca cost_ca <= b,   sum_a x_ca = 1,   x >= 0.
#
# Each context has its own upper envelope of the points (cost, value). All contexts start with their cheapest action.
# The remaining amount is spent on the steepest step of any envelope, repeatedly, until it is used up. The slope of the
# last step is the shadow price, common to all contexts. Only the last step may be partial, so that at most one context
# mixes two actions.

EnvelopeStep = tuple[float, int, int]
"""The negative slope of a step along an envelope, the number of its menu, and the action at its end."""


class Menu(NamedTuple):
    """The actions of one context, its probability, and the tie tolerance of its values."""

    share: float
    values: Array
    costs: Array
    tie: float = 0.0


def solve_knapsack(menus: Sequence[Menu], allowance: float) -> list[Mixture]:
    """The mixture of each context, if their mean cost together must not exceed the allowance.

    If even the cheapest actions cost more, the cheapest actions are played.

    >>> rich = Menu(0.5, np.array([0., 1.]), np.array([0., 1.]))
    >>> poor = Menu(0.5, np.array([0., 3.]), np.array([0., 1.]))
    >>> solve_knapsack([rich, poor], 0.75)
    [Mixture(low=0, high=1, share=0.5), Mixture(low=1, high=1, share=0.0)]
    """
    cheapest = [_best_of_cheapest(menu) for menu in menus]
    remaining = allowance - math.fsum(menu.share * menu.costs[low] for menu, low in zip(menus, cheapest, strict=True))
    steps = [step for number, low in enumerate(cheapest) if (step := _steepest_step(menus[number], number, low))]
    heapq.heapify(steps)
    mixtures = [Mixture(low, low, 0.0) for low in cheapest]
    while steps:
        _, number, high = heapq.heappop(steps)
        low, menu = mixtures[number].low, menus[number]
        price = menu.share * float(menu.costs[high] - menu.costs[low])
        if price > remaining:
            mixtures[number] = Mixture(low, high, max(0.0, remaining) / price)
            break
        remaining -= price
        mixtures[number] = Mixture(high, high, 0.0)
        if step := _steepest_step(menu, number, high):
            heapq.heappush(steps, step)
    return mixtures


def _best_of_cheapest(menu: Menu) -> int:
    """The best of the cheapest actions."""
    return cheapest_of_the_best(menu.values, menu.costs, menu.costs <= menu.costs.min(), menu.tie)


def _steepest_step(menu: Menu, number: int, low: int) -> EnvelopeStep | None:
    """The steepest step upwards from an action of an envelope; None if no more expensive action has a larger
    value.
    """
    extra_costs, gains = menu.costs - menu.costs[low], menu.values - menu.values[low]
    upwards = (extra_costs > 0) & (gains > menu.tie)
    if not upwards.any():
        return None
    slopes = np.divide(gains, extra_costs, out=np.zeros(len(gains)), where=upwards)
    high = int(slopes.argmax())
    return -float(slopes[high]), number, high
