"""C-Track-and-Stop: identify the best action with as few rounds as possible.

After Garivier and Kaufmann (2016) and Shahverdikondori et al. (2025), who track observed configurations instead of
played actions.

v_z = (n_z + c) / n_z^2, c = 30;  b* the best by its mean;  for every rival b, with d = P_b - P_b*,
f_b = sum_z d_z^2 v_z / (gap_b + epsilon)^2, which must become small for the rule of `policies.stopping` to exclude b
play argmax_a sum_z P(z | a) g_z,  g_z = - sum_b w_b d_bz^2 v'_z / (gap_b + epsilon)^2,  w_b = (f_b / max f)^31

For large n the optimal allocation (`design`, T*) minimises the largest f_b. Each round is one Frank-Wolfe step towards
that, on a smooth maximum (the norm of power 32: some percent above the maximum of a hundred). It starts from the
observed counts: g_z is the decrease by one more reward in configuration z. So no round solves an optimisation problem,
and no allocation needs to be tracked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.errors import PolicyError
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.posteriors import UpperBound
from causalbandits.policies.statistics import Cells
from causalbandits.policies.stopping import WIDTHS
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import validate_positive
from causalbandits.problem import DIFFERENCE_TOLERANCE, Problem, Scores, Situation, action_distributions, dot_in_order
from causalbandits.problem.projection import largest_magnitude

TRACKED_WIDTH = WIDTHS[1]
"""c: the width whose bound is minimised, among those of the stopping rule."""

UNSEEN_COUNT = 0.5
"""The count that a configuration without rewards is given."""

LEAST_GAP = 1e-3
"""The smallest gap, as a share of its own uncertainty, so that no division by 0 occurs."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalTrackAndStop(CellPolicy):
    """C-Track-and-Stop (after Garivier and Kaufmann 2016): best-arm identification at fixed confidence.

    It samples the actions that distinguish the best action from its rivals fastest; `agent.recommend().stop` says when
    to stop. Regret and costs of trials do not count; costs decide which action is best.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalTrackAndStop(tolerance=0.01)).policy
    c-track-and-stop(tolerance=0.01)

    Args:
        noise_scale: The sub-Gaussian scale of rewards given the parents, in units of the reward. It serves the interval
            and the stopping rule, not the choice of actions.
        prior_scale: The size of the unknown means, in units of the reward. It serves the interval and the stopping
            rule.
        tolerance: The acceptable loss in mean reward, in units of the reward; 0 or more.

    Raises:
        PolicyError: If an option is out of range.
    """

    causal = True
    family, family_label = "c-track-and-stop", "C-Track-and-Stop"
    noise_scale: float = 1.0
    prior_scale: float = 1.0
    tolerance: float = 0.0

    follows_changes = False

    def __post_init__(self) -> None:
        self._resolve_changes()
        validate_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)
        if not is_real(self.tolerance) or not 0 <= self.tolerance < math.inf:
            raise PolicyError(
                f"tolerance, the acceptable loss in mean reward, must be 0 or more; got {self.tolerance!r}."
            )

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(randomised=False)

    @cached_property
    def index_parameters(self) -> UpperBound:
        return UpperBound(self.noise_scale, self.prior_scale)

    def largest_expected_reward(self, problem: Problem) -> float:
        return 3 * (self.noise_scale + self.prior_scale)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        rows = situation.compute_once("distributions", lambda: action_distributions(situation))
        means = plug_in_means(statistic.count, statistic.total)
        current = situation.net_of_costs(Scores(dot_in_order(rows, means), largest_magnitude(means)))
        values = dot_in_order(rows, marginal_gains(rows, current, statistic.count, self.tolerance))
        largest = float(values.max())
        scores = Scores(values / largest if largest > 0 else values, 1.0)
        return situation.net_of_costs(scores) if situation.is_paced else scores


def plug_in_means(count: Array, total: Array) -> Array:
    """Each configuration's mean, or the mean of all rewards if it has none. The sums are taken in order, so that
    compiled rounds give the same bits.
    """
    common = total.cumsum()[-1] / max(1.0, float(count.sum()))
    return np.where(count > 0, total / np.maximum(1.0, count), common)


def sharpen(x: Any) -> Any:
    """x^31 by multiplication, for a number (compiled) or an array, with the same bits."""
    x2 = x * x
    x4 = x2 * x2
    x8 = x4 * x4
    return x * x2 * x4 * x8 * (x8 * x8)


def marginal_gains(rows: Array, values: Scores, count: Array, tolerance: float) -> Array:
    """g: for every configuration, the decrease of the smooth maximum by one more reward there."""
    n, best = np.maximum(UNSEEN_COUNT, count), values.best_position()
    v, slope = (n + TRACKED_WIDTH) / (n * n), (n + 2.0 * TRACKED_WIDTH) / (n * n * n)
    differences = rows - rows[best]
    squares = np.where(np.abs(differences) <= DIFFERENCE_TOLERANCE, 0.0, differences * differences)
    variances = dot_in_order(squares, v)
    gaps = values.values[best] - values.values + tolerance
    gaps = np.maximum(gaps, LEAST_GAP * np.sqrt(variances))
    distances = np.divide(variances, gaps * gaps, out=np.zeros(len(rows)), where=variances > 0)
    if not distances.any():
        return np.asarray(slope)
    weights = np.divide(sharpen(distances / distances.max()), gaps * gaps, out=np.zeros(len(rows)), where=distances > 0)
    return np.asarray(dot_in_order(squares.T, weights) * slope)
