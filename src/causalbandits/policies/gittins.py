"""C-Gittins and C-Screen: try an action if it is worth more than the best by its mean (see `policies.worth`).

b = argmax_a sum_z P(z | a) x_z, the best by its mean
index:   play argmax_a worth(a), with worth(b) = mean_b
screen:  draw theta_z from the posterior;  a = argmax_a sum_z P(z | a) theta_z;  play a if worth(a) > mean_b, else b
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from causalbandits.policies.base import HorizonPolicy, require_draws
from causalbandits.policies.indices import INDEX, Belief, at_cells
from causalbandits.policies.outcome import Choice, pick_place
from causalbandits.policies.posterior import PosteriorPolicy, SamplingPolicy
from causalbandits.policies.statistics import Cells
from causalbandits.policies.worth import worth_of_each, worth_of_pair
from causalbandits.problem.powers import Powers
from causalbandits.problem.scores import Scores, largest_size
from causalbandits.problem.situation import Situation

AHEAD, SO_FAR = 2.0, 10.0
"""H: so many times the rounds that are left, or, where their number is open, the rounds so far."""


@dataclass(frozen=True, kw_only=True)
class BeliefPolicy(PosteriorPolicy):
    """A policy that looks at the posterior's means and variances."""

    causal = True

    def believed(self, situation: Situation, statistic: Cells) -> Belief:
        """What is thought of the cells that matter now."""
        p, own = self.index_at(statistic), self.cells_in(situation.problem)
        if own is not None:
            statistic, p = statistic.at(own), at_cells(p, own)
        belief = INDEX[type(p)].belief
        assert belief is not None
        return belief(p, statistic.count, statistic.total)


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

    def patience(self, rounds: int) -> float:
        """H in the round after so many rewards."""
        if self.horizon is None:
            return SO_FAR * (rounds + 1)
        return AHEAD * max(1, self.horizon - rounds)


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
        more = worth_of_each(powers, b, q, noise, self.patience(statistic.rounds))
        return situation.priced(Scores(means.values + more, means.scale))


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
        if powers.is_small:
            means = Scores(powers.sums(ordered.mean, 1), largest_size(belief.mean))
        else:
            means = situation.free.project(belief.mean)
        return Proposals(situation, powers, ordered, means, positions, self.patience(statistic.rounds))


class Proposals(NamedTuple):
    """What draws propose to play instead of the best by its mean."""

    situation: Situation
    powers: Powers
    belief: Belief
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
        values[a] += worth_of_pair(self.powers, a, b, self.belief.variance, self.belief.noise, self.patience)
        return self.situation.priced(Scores(values, self.means.scale))


def powers_of(situation: Situation) -> Powers:
    """Sums under powers of P, for the searched actions."""
    return situation.remember("powers", lambda: Powers(situation.search.projection))
