"""C-Gittins and C-Screen: try an action if it is worth more than the best by its mean (see `policies.worth`).

b = argmax_a sum_z P(z | a) x_z, the best by its mean
index:   play argmax_a worth(a), with worth(b) = mean_b
screen:  draw theta_z from the posterior;  a = argmax_a sum_z P(z | a) theta_z;  play a if worth(a) > mean_b, else b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from causalbandits._types import Array
from causalbandits.policies.base import HorizonPolicy, require_draws
from causalbandits.policies.effects import EffectCells, EffectsPosterior, effects_at_cells
from causalbandits.policies.indices import INDEX, Belief, IndexParameters, at_cells
from causalbandits.policies.outcome import Choice, pick_place
from causalbandits.policies.posterior import PosteriorPolicy, SamplingPolicy
from causalbandits.policies.statistics import Cells
from causalbandits.policies.worth import worth_of_each, worth_of_pair
from causalbandits.policies.worth_effects import refuse_rows, worth_by_effects
from causalbandits.problem.powers import Powers
from causalbandits.problem.scores import Scores, largest_size
from causalbandits.problem.situation import Situation

AHEAD, AMID, SO_FAR = 2.0, 4.0, 10.0
"""H: so many times the rounds that are left, and from amid them twice that; where their number is open, the rounds so
far."""


def patience(horizon: int | None, rounds: int) -> float:
    """H in the round after so many rewards.

    With a horizon, H is doubled from amid the rounds: what was wrongly given up early is tried again while there is
    time to gain from it (docs/algorithms/c-gittins.md has what that does to the worst replications).
    """
    if horizon is None:
        return SO_FAR * (rounds + 1)
    left = max(1, horizon - rounds)
    return max(AHEAD * left, AMID * min(rounds + 1, left))


@dataclass(frozen=True, kw_only=True)
class BeliefPolicy(PosteriorPolicy):
    """A policy that looks at the posterior's means and variances."""

    causal = True

    def believed(self, situation: Situation, statistic: Cells) -> Belief:
        """What is thought of the cells that matter now."""
        p, own = self.index_in(situation, statistic), self.cells_in(situation.problem)
        if own is not None:
            statistic = statistic.at(own)
        belief = INDEX[type(p)].belief
        assert belief is not None
        return belief(p, statistic.count, statistic.total)

    def index_in(self, situation: Situation, statistic: Cells) -> IndexParameters:
        """The parameters of the cells that matter now."""
        p, own = self.index_at(statistic), self.cells_in(situation.problem)
        return p if own is None else at_cells(p, own)


@dataclass(frozen=True, kw_only=True)
class WorthPolicy(HorizonPolicy[Cells], BeliefPolicy):
    """What the two share: for how many rounds it pays to know better."""

    def __post_init__(self) -> None:
        HorizonPolicy.__post_init__(self)
        PosteriorPolicy.__post_init__(self)

    @property
    def belief_id(self) -> str:
        """The belief's part of an id."""
        if self.scales == "learnt":
            return "scaled" if self.prior == "gaussian" else f"{self.prior_id}-scaled"
        return self.prior_id

    def effects_in(self, situation: Situation, statistic: EffectCells) -> EffectsPosterior:
        """Main effects of the cells that matter now, in the order of `powers_of`."""
        p = self.index_in(situation, statistic)
        assert isinstance(p, EffectsPosterior)
        return effects_at_cells(p, powers_of(situation).order)

    def patience(self, rounds: int) -> float:
        """H in the round after so many rewards."""
        return patience(self.horizon, rounds)


@dataclass(frozen=True, kw_only=True)
class CausalGittins(WorthPolicy):
    """Play the action that is worth most, by its mean and by what can still be learnt from it.

    Nothing is drawn: as long as outcomes are late, the same action is played. `CausalScreen` is the form that draws.
    """

    randomised = False

    @property
    def id(self) -> str:
        return f"c-gittins-{self.belief_id}"

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        belief, powers = self.believed(situation, statistic), powers_of(situation)
        x, q, noise = map(powers.ordered, belief)
        means = Scores(powers.sums(x, 1), largest_size(x))
        b = situation.priced(means).best_position()
        more = self.worths(situation, statistic, b, Belief(x, q, noise))
        return situation.priced(Scores(means.values + more, means.scale))

    def worths(self, situation: Situation, statistic: Cells, b: int, ordered: Belief) -> Array:
        """What every action is worth beyond its mean, if b is the best by its mean."""
        powers, patience = powers_of(situation), self.patience(statistic.rounds)
        if not isinstance(statistic, EffectCells):
            return worth_of_each(powers, b, ordered.variance, ordered.noise, patience)
        refuse_rows(self.id, situation.size, len(ordered.mean))
        return worth_by_effects(powers.rows, b, self.effects_in(situation, statistic), patience)


@dataclass(frozen=True, kw_only=True)
class CausalScreen(WorthPolicy, SamplingPolicy):
    """Play what a posterior draw proposes if it is worth more than the best mean; otherwise play that.

    With `draws=M`, M draws propose, and one of what is then to be played is, each draw being as likely.
    """

    def __post_init__(self) -> None:
        WorthPolicy.__post_init__(self)
        require_draws(self.draws)

    @property
    def id(self) -> str:
        return f"c-screen-{self.belief_id}"

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """The means, and what the proposed action is worth."""
        proposal = self.proposed(situation, statistic, rng, 1)
        return proposal.screened(proposal.positions[0])

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        if self.draws == 1:
            return HorizonPolicy.decide(self, situation, statistic, rng)
        proposal = self.proposed(situation, statistic, rng, self.draws)
        positions = proposal.positions
        played = {a: proposal.screened(a).best_position() for a in dict.fromkeys(positions)}
        return pick_place([played[a] for a in positions], situation.action, rng)

    def score_each(self, situations: Sequence[Situation], statistic: Cells, rng: np.random.Generator) -> list[Scores]:
        if self.draws == 1:
            return super().score_each(situations, statistic, rng)
        each = [self.proposed(situation, statistic, rng, self.draws) for situation in situations]
        return [Scores.of(np.stack([own.screened(a).values for a in own.positions])) for own in each]

    def proposed(self, situation: Situation, statistic: Cells, rng: np.random.Generator, draws: int) -> Proposals:
        """The best by their means, and the best by each of several draws."""
        if draws == 1:
            drawn = situation.project(self.index_now(situation, statistic, rng))
            positions = [drawn.best_position()]
        else:
            drawn = situation.project(self.index_now(situation, statistic, rng, draws))
            positions = drawn.best_positions().tolist()
        belief, powers = self.believed(situation, statistic), powers_of(situation)
        ordered = Belief(*map(powers.ordered, belief))
        means = Scores(powers.sums(ordered.mean, 1), largest_size(belief.mean))
        shared = self.effects_in(situation, statistic) if isinstance(statistic, EffectCells) else None
        return Proposals(situation, powers, ordered, shared, means, positions, self.patience(statistic.rounds))


class Proposals(NamedTuple):
    """What draws propose to play instead of the best by its mean."""

    situation: Situation
    powers: Powers
    belief: Belief
    shared: EffectsPosterior | None
    means: Scores
    positions: list[int]
    patience: float

    def screened(self, a: int) -> Scores:
        """The means of all actions, save for what a proposed one is worth."""
        means = self.situation.priced(self.means)
        b = means.best_position()
        if a == b:
            return means
        values = self.means.values.copy()
        values[a] += self.worth(a, b)
        return self.situation.priced(Scores(values, self.means.scale))

    def worth(self, a: int, b: int) -> float:
        """What a proposed action is worth beyond its mean."""
        if self.shared is None:
            return worth_of_pair(self.powers, a, b, self.belief.variance, self.belief.noise, self.patience)
        rows = np.stack([self.powers.row(b), self.powers.row(a)])
        return float(worth_by_effects(rows, 0, self.shared, self.patience)[1])


def powers_of(situation: Situation) -> Powers:
    """Sums under powers of P, for the searched actions."""
    return situation.remember("powers", lambda: Powers(situation.search.projection))
