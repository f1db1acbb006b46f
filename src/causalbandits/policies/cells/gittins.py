"""C-Gittins and C-Screen: try an action if it is worth more than the best by its mean (see `policies.worth`).

b = argmax_a sum_z P(z | a) x_z, the best by its mean
index:   play argmax_a worth(a), with worth(b) = mean_b
screen:  draw theta_z from the posterior;  a = argmax_a sum_z P(z | a) theta_z;  play a if worth(a) > mean_b, else b
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import SizeError
from causalbandits.policies._qr import whitened
from causalbandits.policies.base import HorizonPolicy, require_draws
from causalbandits.policies.cells.policy import PosteriorPolicy, SamplingPolicy
from causalbandits.policies.feedback import Choice, pick_place
from causalbandits.policies.posteriors import (
    INDEX,
    Belief,
    EffectCells,
    EffectsPosterior,
    IndexParameters,
    at_cells,
    effects_at_cells,
)
from causalbandits.policies.statistics import Cells
from causalbandits.problem import Scores, Situation
from causalbandits.problem.projection import Powers, largest_size

# What it is worth to try an action instead of the one with the largest mean, b: an index like Gittins'.
#
# What counts is the difference of two actions, c_z = P(z | a) - P(z | b). By what is believed of the cells (means x_z
# of
# variance q_z, rewards of variance noise_z around them), with w_z = q_z^2 / (q_z + noise_z),
#
#     v        = sum_z c_z^2 q_z            how uncertain the difference is
#     r_x      = sum_z P(z | x) c_z^2 w_z   how much of it one try of x takes away, x = a, b
#     worth(a) = mean_a + sqrt(v) psi((r_a - r_b) / (r_b + v / H)),  or mean_a where r_a <= r_b
#
# H is for how many rounds more it pays to know better. psi is Brezzi and Lai's (2002) approximation of the Gittins
# index
# of a Gaussian arm.
#
# The agent multiplies matrices, and compiled rounds add to the sums what a reward changed: they agree but for
# rounding,
# and what rounding could decide is a tie, or counts as nothing (`EQUAL`, `ALIKE`).

EQUAL, ALIKE = 1e-12, 1e-9
"""Where v is so small a share of b's own variance, or r_a - r_b of r_b, it is rounding: the rows of P are the same, or
what they teach is."""

ONE_BY_ONE = 24
"""So many actions are weighed one by one: that is quicker than all together."""

LOG_16_PI = math.log(16.0 * math.pi)


def psi(s: float) -> float:
    """Brezzi and Lai's boundary of a Gaussian arm, of one number above 0; compiled.

    >>> [round(psi(s), 3) for s in (0.02, 0.5, 2.0, 10.0, 1000.0)]
    [0.1, 0.334, 0.446, 0.587, 2.822]
    """
    if s <= 0.2:
        return math.sqrt(s / 2.0)
    if s <= 1.0:
        return 0.49 - 0.11 / math.sqrt(s)
    if s <= 5.0:
        return 0.63 - 0.26 / math.sqrt(s)
    if s <= 15.0:
        return 0.77 - 0.58 / math.sqrt(s)
    log = math.log(s)
    return math.sqrt(2.0 * log - math.log(log) - LOG_16_PI)


def psi_of_each(s: Array) -> Array:
    """The same of many."""
    root = np.sqrt(s)
    found = np.where(s <= 0.2, np.sqrt(s / 2.0), 0.49 - 0.11 / root)
    found = np.where(s > 1.0, 0.63 - 0.26 / root, found)
    found = np.where(s > 5.0, 0.77 - 0.58 / root, found)
    large = np.flatnonzero(s > 15.0)
    if large.size:
        log = np.log(s[large])
        found[large] = np.sqrt(2.0 * log - np.log(log) - LOG_16_PI)
    return found


def taken_away(variance: Array, noise: Array) -> Array:
    """w: how much of a cell's variance one reward takes away."""
    return variance * variance / (variance + noise)


def worth_of_one(v: float, gain: float, rest: float, patience: float) -> float:
    """sqrt(v) psi(gain / (rest + v / H)), where gain = r_a - r_b and rest = r_b; 0 where nothing is to be gained."""
    if v <= 0.0 or gain <= ALIKE * abs(rest):
        return 0.0
    return math.sqrt(v) * psi(gain / (max(0.0, rest) + v / patience))


def worth_of_many(v: Array, gain: Array, rest: Array, patience: float) -> Array:
    """The same of many actions."""
    if len(v) <= ONE_BY_ONE:
        return np.array(
            [worth_of_one(*own, patience) for own in zip(v.tolist(), gain.tolist(), rest.tolist(), strict=True)]
        )
    found = np.zeros(len(v))
    some = np.flatnonzero((v > 0.0) & (gain > ALIKE * np.abs(rest)))
    own = v[some]
    found[some] = np.sqrt(own) * psi_of_each(gain[some] / (np.maximum(0.0, rest[some]) + own / patience))
    return found


def worth_of_each(powers: Powers, b: int, variance: Array, noise: Array, patience: float) -> Array:
    """What every action is worth beyond its mean, if b is the best by its mean; cells are in the order of `powers`."""
    w = taken_away(variance, noise)
    if powers.is_small:
        _, squares, others = powers.apart(b)
        v, both = variance @ squares, w @ others
        return worth_of_many(v, both[: len(v)], both[len(v) :], patience)
    return worth_of_many(*multiplied_out(powers, b, variance, w), patience)


def multiplied_out(powers: Powers, b: int, variance: Array, w: Array) -> tuple[Array, Array, Array]:
    """v, r_a - r_b and r_b of every action: products with c = P(. | a) - P(. | b) as sums under P, P^2 and P^3.

    What is left of v by rounding, where two rows are the same, is nothing.
    """
    row = powers.row(b)
    under_one, under_two = np.empty((2, 2, len(row)))
    under_one[0], under_two[0] = row * variance, variance
    under_two[1] = row * w
    under_one[1] = row * under_two[1]
    (pq, ppw), (qq, pw), cube = powers.sums(under_one, 1), powers.sums(under_two, 2), powers.sums(w, 3)
    v = qq - 2.0 * pq + qq[b]
    v *= v > EQUAL * qq[b]
    return v, cube + 3.0 * (ppw - pw) - cube[b], pw - 2.0 * ppw + cube[b]


def worth_of_pair(powers: Powers, a: int, b: int, variance: Array, noise: Array, patience: float) -> float:
    """What one action is worth beyond its mean, if b is the best by its mean."""
    one, other = powers.row(a), powers.row(b)
    c = one - other
    square = c * c
    taken = square * taken_away(variance, noise)
    # Sums, not products with @: BLAS wakes threads for long rows, and waits for them where others work.
    v, gain, rest = (float((left * right).sum()) for left, right in ((square, variance), (c, taken), (other, taken)))
    return worth_of_one(v, gain, rest, patience)


# What an action is worth where cells have main effects in common (`policies.effects`): a reward of one cell teaches of
# the others.
#
# As in `policies.worth`, with the covariances K of the cells' means in the place of their variances: of the difference
# c = P(. | a) - P(. | b) of two actions,
#
#     v   = c' K c                                            how uncertain it is
#     r_x = sum_z P(z | x) (c' K)_z^2 / (K_zz + noise)        how much of that one try of x takes away, x = a, b
#
# K = s^2 (diag(lambda_2 h) + G G'), h_z = 1 / (1 + lambda_2 n_z), and R'g = h_z f(z) for the row g of G that is z's
# own.

ROWS_LIMIT = 2**22
"""Searched actions times configurations are no more than this: every action has a row of its own."""


def refuse_rows(id: str, actions: int, configurations: int) -> None:
    """Every action is compared with the best, cell by cell."""
    if actions * configurations > ROWS_LIMIT:
        raise SizeError(
            f"The policy {id!r} looks at {actions} actions in each of {configurations} configurations; the limit is "
            f"{ROWS_LIMIT} in all. Use 'c-gittins-scaled', or 'c-ts-effects', which draws."
        )


def worth_by_effects(rows: Array, b: int, p: EffectsPosterior, patience: float) -> Array:
    """What each action is worth beyond its mean, if b is the best by its mean; `rows` are P(. | a)."""
    c = rows - rows[b]
    own, shared = p.remainder * p.shrink, p.known * whitened(p.features * p.shrink[:, None], p.R)
    along = c @ shared
    v = p.noise * ((c * c) @ own + (along * along).sum(axis=1))
    together = c * own + along @ shared.T
    taken = p.noise * together * together / (1.0 + own + (shared * shared).sum(axis=1))
    return worth_of_many(v, (c * taken).sum(axis=1), taken @ rows[b], patience)


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
