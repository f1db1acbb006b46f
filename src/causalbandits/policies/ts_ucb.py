"""C-TS-UCB (TS-UCB of Baek and Farias 2023, on configurations): regret per uncertainty, without a constant to choose.

mean_a = sum_z P(z | a) mean_z;  uncertainty_a = sum_z P(z | a) sd_z
a draw of theta is worth max_a sum_z P(z | a) theta_z
play the action with the least ratio (`ratios`)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from causalbandits.errors import PolicyError
from causalbandits.policies.base import require_draws
from causalbandits.policies.gittins import BeliefPolicy
from causalbandits.policies.ratios import scores_by_ratio
from causalbandits.policies.statistics import Cells
from causalbandits.problem.scores import Scores
from causalbandits.problem.situation import Situation


@dataclass(frozen=True, kw_only=True)
class CausalTSUCB(BeliefPolicy):
    """Play the action that gives up least for its uncertainty, if the best were worth what draws promise.

    `samples` draws say what that is.
    """

    samples: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        require_draws(self.samples, "samples")

    @property
    def id(self) -> str:
        return f"c-ts-ucb-{self.prior if not self.learns_scales else 'scaled'}"

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """What each action gives up for a unit of uncertainty, the least being the best."""
        drawn = situation.project(self.index_now(situation, statistic, rng, self.samples)).values
        belief = self.believed(situation, statistic)
        means = situation.project(belief.mean).values
        uncertainties = situation.free.project(np.sqrt(belief.variance)).values
        return scores_by_ratio(drawn.max(axis=1), means, uncertainties)

    def refuse_budget(self) -> None:
        raise PolicyError(
            f"{self.id}: a budget mixes two actions by their values, and here a ratio is compared, which is none. Use "
            "c-ts-beta, c-gittins-beta or another policy that gives values, or costs without a budget."
        )
