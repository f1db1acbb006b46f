"""C-IDS (variance-based information-directed sampling, Russo and Van Roy 2014, on configurations).

theta^1 .. theta^K drawn from the posterior;  b_k the best action if theta^k were true
D_a = mean of max_b P_b theta^k - mean of P_a theta^k                what a is expected to lose
v_z = sum_b alpha_b (mean of theta_z where b is the best - mean of theta_z)^2,  alpha_b the share of draws
g_a = sum_z P(z | a) v_z                                               what a is expected to tell of the best action
play a with probability q and b otherwise: the two, and the q, for which (q D_a + (1 - q) D_b)^2 / (q g_a + (1 - q) g_b)
is the least of all

What an action tells is a projection, too. An action that cannot be the best may tell most, so all are searched.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import PolicyError
from causalbandits.policies.base import require_draws
from causalbandits.policies.cells.gittins import BeliefPolicy
from causalbandits.policies.feedback import Choice, pick_place
from causalbandits.policies.statistics import Cells
from causalbandits.problem import Problem, Scores, Situation

NOTHING_TOLD = 1e-15
"""Less information than this, relative to the squares of what is drawn, is rounding."""


class Weighed(NamedTuple):
    """What every action is expected to lose, and to tell of which is the best; and the best of each draw."""

    lost: Array
    told: Array
    best: Codes


class TwoActions(NamedTuple):
    """Two actions by their positions: the first with probability `share`, the second otherwise."""

    one: int
    other: int
    share: float
    ratio: float
    """Squared regret over information."""


@dataclass(frozen=True, kw_only=True)
class CausalIDS(BeliefPolicy):
    """Play the mixture of two actions that loses least for what it tells of the best action.

    `samples` draws of the means say what is lost and what is told.
    """

    has_kernel = False
    samples: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require_draws(self.samples, "samples")

    @property
    def id(self) -> str:
        return f"c-ids-{self.prior if not self.learns_scales else 'scaled'}"

    def situation(self, problem: Problem, **narrowed: Any) -> Situation:
        return problem.situation(every=True, **narrowed)

    def weighed(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Weighed:
        """What every action is expected to lose and to tell, by draws."""
        drawn = self.index_now(situation, statistic, rng, self.samples)
        scores = situation.project(drawn)
        best, middle = scores.best_positions(), drawn.mean(axis=0)
        between = np.zeros(drawn.shape[1])
        for position in dict.fromkeys(best.tolist()):
            own = drawn[best == position]
            between += len(own) / len(drawn) * (own.mean(axis=0) - middle) ** 2
        lost = scores.values.max(axis=1).mean() - scores.values.mean(axis=0)
        return Weighed(np.maximum(0.0, lost), situation.free.project(between).values, best)

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        lost, told, best = self.weighed(situation, statistic, rng)
        if told.max() <= NOTHING_TOLD * max(1.0, float(np.abs(lost).max()) ** 2):
            return pick_place(best.tolist(), situation.action, rng)  # draws agree, so nothing can be told: as C-TS
        one, other, share, _ = best_mixture_for(lost, told)
        taken = rng.random() < share
        if one == other or share in (0.0, 1.0):
            return Choice(situation.action(one if taken else other), 1.0)
        both = (situation.action(one), share), (situation.action(other), 1.0 - share)
        return Choice(*both[0 if taken else 1], both)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """Information over squared regret, of each action by itself."""
        lost, told, _ = self.weighed(situation, statistic, rng)
        return Scores.of(told / np.maximum(lost * lost, 1e-300))

    def refuse_budget(self) -> None:
        raise PolicyError(
            f"{self.id}: a budget mixes two actions by their values, and here regret is weighed against information. "
            "Use c-ts-beta, c-gittins-beta or another policy that gives values, or costs without a budget."
        )


def best_mixture_for(lost: Array, told: Array) -> TwoActions:
    """The mixture of two actions with the least squared regret over information, exactly.

    The ratio grows with the one and falls with the other, so that only the border of the actions' convex hull towards
    little regret and much information matters, and of that two neighbours.

    >>> best_mixture_for(np.array([0.1, 0.5]), np.array([0.0, 1.0]))[:3]
    (1, 0, 0.25)
    """
    border = _border(lost, told)
    found = [_mixed(lost, told, i, i) for i in border]
    found += [_mixed(lost, told, j, i) for i, j in itertools.pairwise(border)]
    return min(found, key=lambda pair: pair.ratio)


def _border(lost: Array, told: Array) -> list[int]:
    """Positions on the border, from the least regret to the most information."""
    border: list[int] = []
    for i in np.lexsort((-told, lost)).tolist():
        if border and told[i] <= told[border[-1]]:
            continue
        while len(border) > 1 and _below(lost, told, border[-2], border[-1], i):
            border.pop()
        border.append(i)
    return border


def _below(lost: Array, told: Array, a: int, b: int, c: int) -> bool:
    """Whether b is no higher than the line from a to c."""
    return bool((told[b] - told[a]) * (lost[c] - lost[a]) <= (told[c] - told[a]) * (lost[b] - lost[a]))


def _mixed(lost: Array, told: Array, one: int, other: int) -> TwoActions:
    """The best share of two actions, of which the first loses and tells more."""
    share, more = 1.0, float(lost[one] - lost[other])
    if one != other:
        gained = float(told[one] - told[other])
        share = min(1.0, max(0.0, float(lost[other]) / more - 2.0 * float(told[other]) / gained)) if more > 0 else 1.0
    regret = share * float(lost[one]) + (1.0 - share) * float(lost[other])
    information = share * float(told[one]) + (1.0 - share) * float(told[other])
    return TwoActions(one, other, share, regret * regret / information if information > 0 else np.inf)
