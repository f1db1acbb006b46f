"""TS-UCB's ratio, written once (Baek and Farias 2023): what an action gives up for its uncertainty.

f = what the best action is worth in the mean over some draws;  at least the largest mean
play argmin_a (f - mean_a) / uncertainty_a

It is elementwise: on arrays for the agent, on scalars once compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from causalbandits._types import Array
from causalbandits.problem.scores import Scores

LEAST_UNCERTAINTY = 1e-12
"""What has no uncertainty is given this much."""


def given_up(promised: float, mean: Any, uncertainty: Any) -> Any:
    """The ratio: regret per uncertainty, if the best were worth what is promised."""
    return (promised - mean) / np.maximum(LEAST_UNCERTAINTY, uncertainty)


def scores_by_ratio(best_of_draws: Sequence[float] | Array, means: Array, uncertainties: Array) -> Scores:
    """Those of actions, the least ratio being the best; `best_of_draws` is what the best is worth in each draw."""
    promised = max(float(np.mean(best_of_draws)), float(means.max()))
    return Scores.of(-given_up(promised, means, uncertainties))
