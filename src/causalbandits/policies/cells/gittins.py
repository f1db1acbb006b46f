"""C-Gittins and C-Screen: an index like Gittins', the posterior mean plus the value of information.

    b = argmax_a sum_z P(z | a) x_z, the action with the largest posterior mean
    index:   play argmax_a index(a), with index(b) = mean_b
    screen:  sample theta_z from the posterior;  a = argmax_a sum_z P(z | a) theta_z;
             play a if index(a) > mean_b, else b

The index depends on the difference of two actions, c_z = P(z | a) - P(z | b). Under the posterior of the cells (means
x_z of variance q_z, rewards of variance noise_z around them), with w_z = q_z^2 / (q_z + noise_z),

    v        = sum_z c_z^2 q_z            posterior variance of the difference
    r_x      = sum_z P(z | x) c_z^2 w_z   expected reduction of that variance by one trial of x, x = a, b
    index(a) = mean_a + sqrt(v) psi((r_a - r_b) / (r_b + v / H)),  or mean_a where r_a <= r_b

H is the effective number of remaining rounds in which information is useful. psi is Brezzi and Lai's (2002)
approximation of the Gittins index of a Gaussian arm.

If cells share main effects (`posteriors.main_effects`), a reward of one cell also informs the others, and the
covariances K of the cells' means replace their variances:

    v   = c' K c
    r_x = sum_z P(z | x) (c' K)_z^2 / (K_zz + noise)
    K   = s^2 (diag(lambda_2 h) + G G'),  h_z = 1 / (1 + lambda_2 n_z),  R'g = h_z f(z) for the row g of G that is z's

The agent multiplies matrices; compiled rounds update sums incrementally. Both agree up to rounding. Tie tolerances keep
rounding from changing a decision; smaller variances and gains count as zero (`EQUAL_ROWS`, `EQUAL_GAINS`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.errors import PolicyError, SizeError
from causalbandits.policies.base import HorizonPolicy, validate_samples
from causalbandits.policies.cells.discovery import (
    DISCOVERY_SHARE,
    Window,
    discovery_score,
    discovery_window,
    find_wanted_configurations,
    has_unseen_state,
    reward_standard_deviation,
)
from causalbandits.policies.cells.policy import PosteriorPolicy
from causalbandits.policies.cells.thompson import CausalThompsonSampling
from causalbandits.policies.feedback import Choice, sample_choice_by_position, sample_tied
from causalbandits.policies.posteriors import (
    INDEX,
    Belief,
    IndexParameters,
    MainEffectCells,
    MainEffects,
    main_effects_at_cells,
    main_effects_mean,
)
from causalbandits.policies.statistics import Cells
from causalbandits.policies.traits import HasTraits, Traits
from causalbandits.problem import Scores, Situation
from causalbandits.problem.projection import PowerSums, largest_magnitude

EQUAL_ROWS, EQUAL_GAINS = 1e-12, 1e-9
"""Relative tolerances for rounding. If v is below the first times b's own variance, the rows of P count as equal.
If r_a - r_b is below the second times r_b, the actions count as equally informative.
"""

SCALAR_LIMIT = 24
"""The largest number of actions whose bonus is computed one by one, which is then faster than an array operation."""

LOG_16_PI = math.log(16.0 * math.pi)


def psi(s: float) -> float:
    """Brezzi and Lai's boundary of a Gaussian arm for one positive number; compiled.

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


def psi_array(s: Array) -> Array:
    """The elementwise form of `psi`."""
    root = np.sqrt(s)
    boundary = np.where(s <= 0.2, np.sqrt(s / 2.0), 0.49 - 0.11 / root)
    boundary = np.where(s > 1.0, 0.63 - 0.26 / root, boundary)
    boundary = np.where(s > 5.0, 0.77 - 0.58 / root, boundary)
    large = np.flatnonzero(s > 15.0)
    if large.size:
        log = np.log(s[large])
        boundary[large] = np.sqrt(2.0 * log - np.log(log) - LOG_16_PI)
    return boundary


def variance_reduction(variance: Array, noise: Array) -> Array:
    """w: the reduction of a cell's variance by one reward."""
    return variance * variance / (variance + noise)


def gittins_bonus(v: float, gain: float, rest: float, horizon: float) -> float:
    """sqrt(v) psi(gain / (rest + v / H)), with gain = r_a - r_b and rest = r_b; 0 if there is no gain."""
    if v <= 0.0 or gain <= EQUAL_GAINS * abs(rest):
        return 0.0
    return math.sqrt(v) * psi(gain / (max(0.0, rest) + v / horizon))


def gittins_bonus_array(v: Array, gain: Array, rest: Array, horizon: float) -> Array:
    """The form of `gittins_bonus` for several actions."""
    if len(v) <= SCALAR_LIMIT:
        return np.array(
            [gittins_bonus(*moments, horizon) for moments in zip(v.tolist(), gain.tolist(), rest.tolist(), strict=True)]
        )
    bonuses = np.zeros(len(v))
    positions = np.flatnonzero((v > 0.0) & (gain > EQUAL_GAINS * np.abs(rest)))
    moments = v[positions]
    bonuses[positions] = np.sqrt(moments) * psi_array(
        gain[positions] / (np.maximum(0.0, rest[positions]) + moments / horizon)
    )
    return bonuses


def gittins_bonus_of_each(powers: PowerSums, b: int, variance: Array, noise: Array, horizon: float) -> Array:
    """The bonus of every action beyond its mean, if b has the largest mean; cells are in the order of `powers`."""
    w = variance_reduction(variance, noise)
    if powers.is_small:
        _, squares, cross_terms = powers.differences_from(b)
        v, gains_and_rests = variance @ squares, w @ cross_terms
        return gittins_bonus_array(v, gains_and_rests[: len(v)], gains_and_rests[len(v) :], horizon)
    return gittins_bonus_array(*difference_moments(powers, b, variance, w), horizon)


def difference_moments(powers: PowerSums, b: int, variance: Array, w: Array) -> tuple[Array, Array, Array]:
    """v, r_a - r_b and r_b of every action: products with c = P(. | a) - P(. | b) as sums under P, P^2 and P^3.

    If two rows are equal, the rounding error that remains of v is set to 0.
    """
    row = powers.row(b)
    under_one, under_two = np.empty((2, 2, len(row)))
    under_one[0], under_two[0] = row * variance, variance
    under_two[1] = row * w
    under_one[1] = row * under_two[1]
    (pq, ppw), (qq, pw), cube = powers.sums(under_one, 1), powers.sums(under_two, 2), powers.sums(w, 3)
    v = qq - 2.0 * pq + qq[b]
    v *= v > EQUAL_ROWS * qq[b]
    return v, cube + 3.0 * (ppw - pw) - cube[b], pw - 2.0 * ppw + cube[b]


def gittins_bonus_of_pair(powers: PowerSums, a: int, b: int, variance: Array, noise: Array, horizon: float) -> float:
    """The bonus of one action beyond its mean, if b has the largest mean."""
    row_a, row_b = powers.row(a), powers.row(b)
    c = row_a - row_b
    square = c * c
    reductions = square * variance_reduction(variance, noise)
    # Sums, not products with @: for long rows BLAS starts threads and waits for them when other processes use the
    # cores.
    v, gain, rest = (
        float((weights * terms).sum()) for weights, terms in ((square, variance), (c, reductions), (row_b, reductions))
    )
    return gittins_bonus(v, gain, rest, horizon)


ROWS_LIMIT = 2**22
"""The largest number of searched actions times configurations, because every action needs a row of its own."""


def validate_row_count(policy: HasTraits, actions: int, configurations: int) -> None:
    """Raise an error if there are too many rows to compare every action with the best, cell by cell."""
    if actions * configurations > ROWS_LIMIT:
        raise SizeError(
            f"The policy {policy.id!r} computes an index of {actions} actions for each of {configurations} "
            f"configurations; the limit is {ROWS_LIMIT} in all. Use 'c-gittins', or the randomised "
            "'c-ts(prior=main-effects)'."
        )


DENSE_CELLS = 256
"""The largest number of cells for which the whole matrix K is computed, which takes fewer operations."""


def main_effects_gittins_bonuses(rows: Array, b: int, p: MainEffects, horizon: float) -> Array:
    """The bonus of each action beyond its mean, if b has the largest mean; `rows` are P(. | a)."""
    best = rows[b]
    c = rows - best
    # One call of LAPACK, because nothing here depends on the last bit.
    own_variances = p.remainder * p.shrink
    G = p.known * np.linalg.solve(p.R.T, (p.features * p.shrink[:, None]).T).T
    if len(own_variances) <= DENSE_CELLS:
        K = G @ G.T
        K.flat[:: len(K) + 1] += own_variances
        covariances, variances = c @ K, K.diagonal()
    else:
        covariances = c * own_variances + (c @ G) @ G.T
        variances = own_variances + (G * G).sum(axis=1)
    v = p.noise * np.add.reduce(c * covariances, axis=1)
    reductions = covariances * covariances * (p.noise / (1.0 + variances))
    return gittins_bonus_array(v, np.add.reduce(c * reductions, axis=1), reductions @ best, horizon)


REMAINING_FACTOR, MIDWAY_FACTOR, ELAPSED_FACTOR = 2.0, 4.0, 10.0
"""The factors of H: of the remaining rounds, of the rounds near the middle of the horizon, and (without a horizon) of
the elapsed rounds.
"""


def effective_horizon(horizon: int | None, rounds: int) -> float:
    """H in the round after `rounds` rewards.

    With a horizon, H is doubled from the middle of the rounds on: an action that was dropped too early is tried again
    while there is time to gain from it. docs/reference/algorithms/c-gittins.md gives the effect on the worst
    replications.
    """
    if horizon is None:
        return ELAPSED_FACTOR * (rounds + 1)
    remaining = max(1, horizon - rounds)
    return max(REMAINING_FACTOR * remaining, MIDWAY_FACTOR * min(rounds + 1, remaining))


@dataclass(frozen=True, kw_only=True, repr=False)
class GittinsPolicy(HorizonPolicy[Cells], PosteriorPolicy):
    """The base class of C-Gittins and C-Screen: the bonus of an action beyond its mean, and the effective horizon
    H.
    """

    causal = True

    def __post_init__(self) -> None:
        HorizonPolicy.__post_init__(self)
        PosteriorPolicy.__post_init__(self)

    def value_estimates(self, situation: Situation, p: IndexParameters, cells: Cells) -> ValueEstimates:
        """The posterior means of the actions, and the posterior of the cells that matter in this context."""
        powers, horizon = powers_of(situation), self.effective_horizon(cells.rounds)
        if isinstance(p, MainEffects):
            x = powers.in_tree_order(main_effects_mean(p, cells.count, cells.total))
            return ValueEstimates(powers, _project_means(powers, x), main_effects_at_cells(p, powers.order), horizon)
        compute_belief = INDEX[type(p)].belief
        assert compute_belief is not None
        belief = Belief(*map(powers.in_tree_order, compute_belief(p, cells.count, cells.total)))
        return ValueEstimates(powers, _project_means(powers, belief.mean), belief, horizon)

    def effective_horizon(self, rounds: int) -> float:
        """H in the round after `rounds` rewards."""
        return effective_horizon(self.horizon, rounds)


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalGittins(GittinsPolicy):
    """C-Gittins: the action with the largest index, which is its posterior mean plus its value of information.

    The index is deterministic; only ties are broken at random. With delayed feedback it repeats one action, so use
    Thompson sampling instead (`Agent(problem, delayed=True)`). Batches, `agent.ask(n)`, are drawn by Thompson sampling
    from the same posterior.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalGittins(prior="beta")).policy
    c-gittins(prior=beta)

    Args:
        prior: The prior of each configuration's mean: "gaussian"; "beta" for rewards in [0, 1]; or "main-effects", a
            Gaussian prior with an additive effect of each parent whose scales are estimated.
        noise_scale: The standard deviation of rewards given the parents, in units of the reward; for the Gaussian
            prior. Default: 1 if the scales are given.
        prior_scale: The prior standard deviation of each mean, in units of the reward; for the Gaussian prior. Default:
            1 if the scales are given.
        successes: The first parameter of the Beta prior: a number, or an array with one number per configuration. With
            `failures` of 50, 2 successes express rates of about 4%.
        failures: The second parameter of the Beta prior: a number, or an array with one number per configuration.
        scales: "estimated" estimates the parameters of the prior from the rewards (empirical Bayes); "given" uses those
            that are passed. Default: estimated, unless `noise_scale` or `prior_scale` is passed or the prior is Beta.
        horizon: The number of rounds. Default: `simulate` passes its own; an agent uses the current round instead.
        anytime: Whether to use the current round instead of a horizon everywhere. Not together with `horizon`.
        discovery: The share of the horizon, from 0 to 0.5, that is spent on configurations that were never observed and
            that the best action rarely produces. 0 turns it off. Only with `prior="main-effects"`, and not under a
            budget.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    discovery: float = DISCOVERY_SHARE
    family, family_label = "c-gittins", "C-Gittins"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_real(self.discovery) or not 0 <= self.discovery <= 0.5:
            raise PolicyError(f"discovery, a share of the rounds, must lie between 0 and 0.5; got {self.discovery!r}.")
        if self.discovery != DISCOVERY_SHARE and not self.has_main_effects:
            raise PolicyError(
                f"discovery= requires prior='main-effects'; the prior is {self.prior!r}. Leave discovery= out; got "
                f"{self.discovery!r}."
            )

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(randomised=False)

    @property
    def batch_policy(self) -> CausalThompsonSampling:
        """Thompson sampling from the same posterior."""
        shared = {field.name: getattr(self, field.name) for field in fields(PosteriorPolicy)}
        return CausalThompsonSampling(**shared)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        estimates = self.value_estimates(situation, *self.posterior_in(situation, statistic))
        means = estimates.means
        net = situation.net_of_costs(means)
        b = net.best_position()
        if isinstance(estimates.posterior, MainEffects):
            validate_row_count(self, situation.size, len(estimates.posterior.shrink))
            window = self.discovery_window(statistic.rounds)
            if window.length and not situation.is_paced:
                scores = self.discovery_scores(situation, statistic, estimates, net, b, window)
                if scores is not None:
                    return scores
        return situation.net_of_costs(Scores(means.values + estimates.bonuses(b), means.scale))

    def discovery_window(self, rounds: int) -> Window:
        """The window for unseen configurations in the round after `rounds` rewards."""
        return discovery_window(self.discovery if self.has_main_effects else 0.0, self.horizon, rounds)

    def discovery_scores(
        self, situation: Situation, statistic: Cells, estimates: ValueEstimates, net: Scores, b: int, window: Window
    ) -> Scores | None:
        """Score each action by its probability of wanted, never observed configurations; None if no configuration
        is wanted.
        """
        p, rows = estimates.posterior, estimates.powers.rows
        assert isinstance(p, MainEffects)
        assert isinstance(statistic, MainEffectCells)
        if not p.known:
            return None
        relevant = self.relevant_cells(situation.problem)
        cells = slice(None) if relevant is None else relevant
        count = estimates.powers.in_tree_order(statistic.count[cells])
        unseen = estimates.powers.in_tree_order(has_unseen_state(statistic)[cells])
        wanted = find_wanted_configurations(rows, b, count, unseen, window)
        if not wanted.any():
            return None
        standard_deviation = reward_standard_deviation(statistic.pooled())
        return Scores.of(discovery_score(rows @ wanted, net.values[b] - net.values, standard_deviation))

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        if situation.is_paced:
            return super().decide(situation, statistic, rng)
        return sample_tied(self.score(situation, statistic, rng), situation.action, rng)


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalScreen(GittinsPolicy):
    """C-Screen: Thompson sampling with screening; the sampled action is played only if its index exceeds the best mean.

    The index is that of C-Gittins. Otherwise the action with the largest posterior mean is played.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalScreen(prior="beta")).policy
    c-screen(prior=beta)

    Args:
        prior: The prior of each configuration's mean: "gaussian"; "beta" for rewards in [0, 1]; or "main-effects", a
            Gaussian prior with an additive effect of each parent whose scales are estimated.
        noise_scale: The standard deviation of rewards given the parents, in units of the reward; for the Gaussian
            prior. Default: 1 if the scales are given.
        prior_scale: The prior standard deviation of each mean, in units of the reward; for the Gaussian prior. Default:
            1 if the scales are given.
        successes: The first parameter of the Beta prior: a number, or an array with one number per configuration. With
            `failures` of 50, 2 successes express rates of about 4%.
        failures: The second parameter of the Beta prior: a number, or an array with one number per configuration.
        scales: "estimated" estimates the parameters of the prior from the rewards (empirical Bayes); "given" uses those
            that are passed. Default: estimated, unless `noise_scale` or `prior_scale` is passed or the prior is Beta.
        horizon: The number of rounds. Default: `simulate` passes its own; an agent uses the current round instead.
        anytime: Whether to use the current round instead of a horizon everywhere. Not together with `horizon`.
        samples: The number of posterior samples per decision, from 1 to 4096. One of their best actions is played, each
            with equal probability; with 2 or more the decision has a propensity.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    samples: int = 1
    family, family_label = "c-screen", "C-Screen"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_samples(self.samples)

    def score(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Scores:
        """The means of all actions, with the index in place of the mean for the proposed action."""
        proposal = self.propose(situation, statistic, rng, 1)
        return proposal.screen(proposal.positions[0])

    def decide(self, situation: Situation, statistic: Cells, rng: np.random.Generator) -> Choice:
        if self.samples == 1:
            return super().decide(situation, statistic, rng)
        proposal = self.propose(situation, statistic, rng, self.samples)
        positions = proposal.positions
        best_after_screen = {a: proposal.screen(a).best_position() for a in dict.fromkeys(positions)}
        return sample_choice_by_position([best_after_screen[a] for a in positions], situation.action, rng)

    def score_each(self, situations: Sequence[Situation], statistic: Cells, rng: np.random.Generator) -> list[Scores]:
        if self.samples == 1:
            return HorizonPolicy.score_each(self, situations, statistic, rng)
        proposals = [self.propose(situation, statistic, rng, self.samples) for situation in situations]
        return [Scores.of(np.stack([proposal.screen(a).values for a in proposal.positions])) for proposal in proposals]

    def propose(self, situation: Situation, statistic: Cells, rng: np.random.Generator, samples: int) -> Proposals:
        """The posterior means, and the best action of each of several posterior samples."""
        p, cells = self.posterior_in(situation, statistic)
        if samples == 1:
            positions = [situation.project(self.index(cells, rng, None, p)).best_position()]
        else:
            positions = situation.project(self.index(cells, rng, samples, p)).best_positions().tolist()
        return Proposals(situation, self.value_estimates(situation, p, cells), positions)


class Proposals(NamedTuple):
    """The best actions of posterior samples, proposed instead of the action with the largest mean."""

    situation: Situation
    estimates: ValueEstimates
    positions: list[int]

    def screen(self, a: int) -> Scores:
        """The means of all actions, with the index of action `a` in place of its mean."""
        means = self.situation.net_of_costs(self.estimates.means)
        b = means.best_position()
        if a == b:
            return means
        values = self.estimates.means.values.copy()
        values[a] += self.estimates.bonus(a, b)
        return self.situation.net_of_costs(Scores(values, self.estimates.means.scale))


class ValueEstimates(NamedTuple):
    """The searched actions' means, and the posterior of the cells in the order of `powers`."""

    powers: PowerSums
    means: Scores
    posterior: Belief | MainEffects
    horizon: float
    """The effective horizon H."""

    def bonuses(self, b: int) -> Array:
        """The bonus of every action beyond its mean, if b has the largest mean."""
        if isinstance(self.posterior, MainEffects):
            return main_effects_gittins_bonuses(self.powers.rows, b, self.posterior, self.horizon)
        return gittins_bonus_of_each(self.powers, b, self.posterior.variance, self.posterior.noise, self.horizon)

    def bonus(self, a: int, b: int) -> float:
        """The bonus of one action beyond its mean."""
        if isinstance(self.posterior, MainEffects):
            rows = np.stack([self.powers.row(b), self.powers.row(a)])
            return float(main_effects_gittins_bonuses(rows, 0, self.posterior, self.horizon)[1])
        belief = self.posterior
        return gittins_bonus_of_pair(self.powers, a, b, belief.variance, belief.noise, self.horizon)


def _project_means(powers: PowerSums, x: Array) -> Scores:
    return Scores(powers.sums(x, 1), largest_magnitude(x))


def powers_of(situation: Situation) -> PowerSums:
    """Sums under powers of P, for the searched actions."""
    return situation.compute_once("powers", lambda: PowerSums(situation.candidates.projection))
