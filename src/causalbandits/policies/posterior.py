"""A posterior for every cell, of which policies draw, or make an index: its prior and its scales.

beta:      theta_z ~ Beta(a + successes_z, b + failures_z), a = b = 1; a reward in (0, 1) is first a coin's flip
gaussian:  theta_z ~ N(m_z, 1 / q_z),  q_z = 1/tau^2 + n_z/s^2,  m_z = (sum of rewards / s^2) / q_z
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from causalbandits.errors import PolicyError
from causalbandits.policies.base import require_draws
from causalbandits.policies.beta_prior import frozen, per_cell, require_fit
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.effects import EffectCells, effects_of
from causalbandits.policies.indices import BetaPosterior, GaussianPosterior, IndexParameters
from causalbandits.policies.outcome import Choice, over_the_coin, pick_place
from causalbandits.policies.rates import RateCells, rates_of
from causalbandits.policies.requiring import require_one_of, require_positive
from causalbandits.policies.scales import ScaledPosterior, refuse_scales, scales_of
from causalbandits.policies.statistics import Cells, ScaledCells
from causalbandits.policies.totals import Totals
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores
from causalbandits.problem.situation import Situation


@dataclass(frozen=True, kw_only=True)
class PosteriorPolicy(CellPolicy):
    """What such policies share: the prior. `noise_scale` s and `prior_scale` tau belong to the Gaussian prior.

    `successes` a and `failures` b belong to the Beta prior: what you think of the means beforehand, as if so many had
    been seen. successes=2, failures=50 says rates of about 4%. Arrays say it for each configuration by itself: a number
    for each in their order, or shaped like `problem.shape`; for a baseline, a number for each action (in each context).

    With `scales="learnt"` nobody needs to know the scales: they, and the centre of the means, are learnt from the
    rewards (see `policies.scales`), and rewards in other units, or counted from elsewhere, lead to the same decisions.
    A Beta prior is learnt likewise (see `policies.rates`), which pays where rates are low.

    With `prior="main effects"` they are learnt, too, and means may be sums over the parents: it is learnt how far they
    are (see `policies.effects`).
    """

    prior: Literal["beta", "gaussian", "main effects"] = "gaussian"
    noise_scale: float = 1.0
    prior_scale: float = 1.0
    successes: npt.ArrayLike = 1.0
    failures: npt.ArrayLike = 1.0
    scales: Literal["given", "learnt"] = "given"

    def __post_init__(self) -> None:
        require_one_of("prior", self.prior, ("beta", "gaussian", "main effects"))
        require_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)
        for name in ("successes", "failures"):
            object.__setattr__(self, name, frozen(name, getattr(self, name)))
        require_one_of("scales", self.scales, ("given", "learnt"))
        if self.prior == "beta" and (self.noise_scale, self.prior_scale) != (1.0, 1.0):
            raise PolicyError("A Beta prior has no scales; noise_scale and prior_scale are for prior='gaussian'.")
        if self.prior == "main effects" and not self.causal:
            raise PolicyError("prior='main effects' is of the reward's parents, and this policy has no use for them.")
        if self.prior != "beta" and (self.successes, self.failures) != (1.0, 1.0):
            raise PolicyError("A Gaussian prior has no successes and failures; these are for prior='beta'.")
        if self.learns_scales and (self.successes, self.failures) != (1.0, 1.0):
            raise PolicyError(
                "scales='learnt' learns the Beta prior from the rewards: leave successes and failures out."
            )
        if self.learns_scales:
            refuse_scales(self.noise_scale, self.prior_scale)

    @property
    def learns_scales(self) -> bool:  # type: ignore[override]
        return self.scales == "learnt" or self.has_effects

    @property
    def has_effects(self) -> bool:
        """Whether means may be sums over the parents, as far as rewards say so."""
        return self.prior == "main effects"

    @property
    def prior_id(self) -> str:
        """The prior's part of an id."""
        return "effects" if self.has_effects else self.prior

    def index_at(self, statistic: Cells) -> IndexParameters:
        if isinstance(statistic, RateCells):
            return rates_of(statistic)
        if isinstance(statistic, EffectCells):
            return effects_of(statistic)
        if isinstance(statistic, ScaledCells):
            return ScaledPosterior(*scales_of(statistic))
        return self.index_parameters

    @cached_property
    def index_parameters(self) -> BetaPosterior | GaussianPosterior:
        if self.prior == "beta":
            return BetaPosterior(*per_cell(self.successes, self.failures))
        return GaussianPosterior(self.noise_scale, self.prior_scale)

    @property
    def unit_rewards(self) -> bool:  # type: ignore[override]
        return self.prior == "beta"

    @property
    def counts_successes(self) -> bool:  # type: ignore[override]
        return self.prior == "beta"

    def nothing_seen(self, cells: int) -> Cells:
        return RateCells.empty(cells) if self.prior == "beta" and self.learns_scales else super().nothing_seen(cells)

    def start(self, problem: CausalBandit) -> Cells:
        cells = super().start(problem)
        if self.has_effects:
            return EffectCells.of_shape(problem.shape)
        if self.prior == "beta":
            require_fit(self.id, problem, self.causal, successes=self.successes, failures=self.failures)
        return cells

    def from_totals(self, problem: CausalBandit, totals: Totals) -> Cells:
        if self.has_effects:
            raise PolicyError(
                f"The policy {self.id!r} seeks ratios now and then on the way: fold the outcomes one by one."
            )
        return super().from_totals(problem, totals)

    def largest_expected_reward(self, problem: CausalBandit) -> float:
        return math.inf if self.prior == "beta" or self.learns_scales else 3 * (self.noise_scale + self.prior_scale)


@dataclass(frozen=True, kw_only=True)
class SamplingPolicy(PosteriorPolicy):
    """A policy that draws from the posterior.

    With `draws=M`, M posteriors are drawn and one of their M best actions is played, each draw being as likely: still
    Thompson sampling, and the decision knows its propensity. It costs M draws.
    """

    draws: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_draws(self.draws)

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        if self.draws == 1:
            return super().decide(situation, statistic, rng)
        imagined = self.imagined(situation, statistic, rng)
        index = self.index_now(situation, statistic, rng, self.draws)
        best = imagined.best_of_draws(index) if self.causal else self.spread(imagined, index).best_positions()
        return over_the_coin(pick_place(best.tolist(), situation.action, rng), situation.pace, situation.action)

    def score_each(self, situations: Sequence[Situation], statistic: Cells, rng: np.random.Generator) -> list[Scores]:
        if self.draws == 1:
            return super().score_each(situations, statistic, rng)
        index = self.index(statistic, rng, self.draws)
        return [self.spread(self.imagined(situation, statistic, rng), index) for situation in situations]
