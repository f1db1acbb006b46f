"""The posterior over parent sets: counts of every candidate set, their marginal likelihoods, and draws.

For a CPT with rows r and K values, all concentrations 1:

    log P(data | S) = sum over rows [ log Gamma(K) - log Gamma(K + n_r) + sum over values log Gamma(1 + n_rk) ]

For rewards of 0 and 1, theta_s ~ Beta(1, 1):

    log P(rewards | S) = sum over s [ log Gamma(1 + successes_s) + log Gamma(1 + failures_s) - log Gamma(2 + n_s) ]

For real rewards, theta_s ~ N(m, sigma^2 / kappa), Y ~ N(theta_s, sigma^2) with a flat prior of sigma, m the mean of all
rewards, Q the sum of squares around it, T_s = sum over s of (Y - m), and kappa equally likely to be any of `KAPPAS`:

    log P(rewards | S, kappa) =
        1/2 sum over s log(kappa / (kappa + n_s)) - (n - 1)/2 log(Q - sum over s T_s^2 / (kappa + n_s))

Every log weight is a function of counts and sums alone, so that the order of outcomes changes none of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import opt_einsum

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array, Codes
from causalbandits.policies.statistics import Statistic
from causalbandits.problem import StructurePrior, count_structure_cells

RewardModel = Literal["beta", "gaussian"]

KAPPAS = np.array([0.1, 1.0, 10.0, 100.0, 1000.0])
"""Ratios of the noise's variance to that of the means, all equally likely in advance."""

CACHED_CONTRACTIONS = 2**10
"""So many ways to sum over the observed variables are remembered."""


@dataclass(eq=False)
class ParentSetCounts(Statistic):
    """Counts for every row of every candidate parent set."""

    seen: Array
    """How often each value of each observed variable was seen, by candidate set and its configuration."""
    count: Array
    """The number of rewards, by candidate set of the reward and its configuration."""
    total: Array
    """Their sums; of successes, for Beta priors."""
    pooled: Array
    """The number of rewards; their sum and the sum of their squares, each as a number and its rounding error."""
    unused: int = 0
    """The number of outcomes that lack a variable, and are not counted."""

    def __post_init__(self) -> None:
        self.weights: list[Array] | None = None
        """The posterior probabilities of the candidate sets, of every variable; computed when they are needed."""
        self.estimates: tuple[list[Array], tuple[int, ...], Array] | None = None
        """Draws of the mean reward of every action, with the probabilities and the context that they are made of."""


class SampledStructure(NamedTuple):
    """A parent set for the reward, and one for each observed variable on the way to it."""

    reward_set: int
    sets: tuple[tuple[int, int], ...]
    """The number of an observed variable, and that of its set; later variables first."""


class _LogGamma:
    """log Gamma(start + n) - log Gamma(start) for whole numbers n, from a table that grows."""

    def __init__(self, start: float) -> None:
        self._start, self._values = start, np.zeros(1)

    def __call__(self, counts: Codes) -> Array:
        largest = int(counts.max(initial=0))
        if largest >= len(self._values):
            from scipy.special import gammaln

            numbers = np.arange(max(64, 2 * largest) + 1, dtype=np.float64)
            self._values = gammaln(self._start + numbers) - math.lgamma(self._start)
        return np.asarray(self._values[counts])


class _Target(NamedTuple):
    """Where the counts of one variable's candidate sets stand."""

    sets: tuple[tuple[int, ...], ...]
    """The positions of the variables in each set."""
    states: int
    """The number of values; 1 for the reward, whose rows are cells."""
    starts: Codes
    """The first row of each set, and the end."""
    strides: Codes
    """The row of a configuration within a set: a row of strides for each set."""
    log_prior: Array
    offset: int
    """The first entry of the first row in `seen`; 0 for the reward."""


class ParentSets:
    """The candidate parent sets of a problem, on arrays."""

    def __init__(self, prior: StructurePrior, names: Sequence[str], sizes: Mapping[str, int]) -> None:
        """`names` are the variables before the reward, in order; `sizes` the number of their values."""
        self.cells = count_structure_cells(prior, sizes)
        self.names, self.sizes = tuple(names), tuple(sizes[name] for name in names)
        position = {name: place for place, name in enumerate(self.names)}
        self.observed = tuple(position[name] for name in prior.observed)
        self._first_observed = len(self.names) - len(self.observed)
        self._targets, offset = [], 0
        for candidate in prior.candidates:
            is_reward = candidate.variable == prior.reward
            states = 1 if is_reward else sizes[candidate.variable]
            sets = tuple(tuple(position[name] for name in names) for names in candidate.sets)
            rows = [math.prod(self.sizes[k] for k in members) for members in sets]
            starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.intp)
            strides = np.zeros((len(sets), len(self.names)), dtype=np.intp)
            for row, members in enumerate(sets):
                stride = 1
                for k in reversed(members):
                    strides[row, k] = stride
                    stride *= self.sizes[k]
            self._targets.append(
                _Target(sets, states, starts, strides, np.array(candidate.log_prior), 0 if is_reward else offset)
            )
            offset += 0 if is_reward else int(starts[-1]) * states
        self.n_seen = offset
        self.n_reward_cells = int(self.reward_target.starts[-1])
        self._log_gamma = {states: _LogGamma(float(states)) for states in {1, 2, *self.sizes}}
        self._contractions: BoundedCache[Any, Any] = BoundedCache(CACHED_CONTRACTIONS)

    @property
    def reward_target(self) -> _Target:
        """The candidate sets of the reward."""
        return self._targets[-1]

    def empty(self) -> ParentSetCounts:
        """Before the first outcome."""
        return ParentSetCounts(
            0, np.zeros(self.n_seen), np.zeros(self.n_reward_cells), np.zeros(self.n_reward_cells), np.zeros(5)
        )

    def add(self, statistic: ParentSetCounts, codes: Codes, reward: float) -> None:
        """Take in one outcome; `codes` are the values of all variables before the reward, in order."""
        for k, target in zip(self.observed, self._targets, strict=False):
            rows = target.starts[:-1] + target.strides @ codes
            statistic.seen[target.offset + rows * target.states + codes[k]] += 1.0
        target = self.reward_target
        cells = target.starts[:-1] + target.strides @ codes
        statistic.count[cells] += 1.0
        statistic.total[cells] += reward
        pooled = statistic.pooled
        pooled[0] += 1.0
        pooled[1], pooled[2] = _add_exactly(pooled[1], pooled[2], reward)
        square, error = _square_exactly(reward)
        pooled[3], pooled[4] = _add_exactly(pooled[3], pooled[4] + error, square)
        statistic.rounds += 1
        statistic.weights = None

    # The posterior over sets.

    def weights(self, statistic: ParentSetCounts, model: RewardModel) -> list[Array]:
        """The posterior probabilities of the candidate sets: of every observed variable in order, and of the reward."""
        if statistic.weights is None:
            logs = [self._log_evidence_of_cpt(statistic, target) for target in self._targets[:-1]]
            logs.append(self._log_evidence_of_rewards(statistic, model))
            statistic.weights = [
                _normalise(log + target.log_prior) for log, target in zip(logs, self._targets, strict=True)
            ]
        return statistic.weights

    def _rows(self, statistic: ParentSetCounts, target: _Target) -> Array:
        end = target.offset + int(target.starts[-1]) * target.states
        return statistic.seen[target.offset : end].reshape(-1, target.states)

    def _log_evidence_of_cpt(self, statistic: ParentSetCounts, target: _Target) -> Array:
        rows = self._rows(statistic, target).astype(np.intp)
        terms = self._log_gamma[1](rows).sum(axis=1) - self._log_gamma[target.states](rows.sum(axis=1))
        return np.asarray(np.add.reduceat(terms, target.starts[:-1]))

    def _log_evidence_of_rewards(self, statistic: ParentSetCounts, model: RewardModel) -> Array:
        if model == "gaussian":
            by_kappa = self._log_evidence_by_kappa(statistic)
            largest = by_kappa.max(axis=0)
            return np.asarray(largest + np.log(np.exp(by_kappa - largest).mean(axis=0)))
        count, successes = statistic.count.astype(np.intp), statistic.total.astype(np.intp)
        log_gamma = self._log_gamma[1]
        terms = log_gamma(successes) + log_gamma(count - successes) - self._log_gamma[2](count)
        return np.asarray(np.add.reduceat(terms, self.reward_target.starts[:-1]))

    def _log_evidence_by_kappa(self, statistic: ParentSetCounts) -> Array:
        """A row for each of `KAPPAS`, a column for each candidate set of the reward."""
        n, _, squares = pooled_moments(statistic)
        starts = self.reward_target.starts[:-1]
        if n < 2 or squares <= 0.0:
            return np.zeros((len(KAPPAS), len(starts)))
        deviation = self._deviations(statistic)
        weights = KAPPAS[:, None] + statistic.count
        explained = np.add.reduceat(deviation * deviation / weights, starts, axis=1)
        shrinkage = np.add.reduceat(np.log(KAPPAS[:, None] / weights), starts, axis=1)
        residual = np.maximum(squares - explained, 1e-12 * squares)
        return np.asarray(0.5 * shrinkage - 0.5 * (n - 1.0) * np.log(residual))

    def _deviations(self, statistic: ParentSetCounts) -> Array:
        """The sum of rewards minus the mean of all rewards, by cell."""
        _, mean, _ = pooled_moments(statistic)
        return np.asarray(statistic.total - statistic.count * mean)

    # Draws of a structure, and of the values of actions.

    def sample_structure(self, weights: Sequence[Array], rng: np.random.Generator) -> SampledStructure:
        """A set for the reward and for every observed variable on the way; certain sets take no random number."""
        reward_set = _sample_position(weights[-1], rng)
        needed, sets = set(self.reward_target.sets[reward_set]), []
        for number in reversed(range(len(self.observed))):
            if self.observed[number] in needed:
                chosen = _sample_position(weights[number], rng)
                needed.update(self._targets[number].sets[chosen])
                sets.append((number, chosen))
        return SampledStructure(reward_set, tuple(sets))

    def sample_values(
        self,
        statistic: ParentSetCounts,
        model: RewardModel,
        structure: SampledStructure,
        context: Sequence[int],
        rng: np.random.Generator,
        draws: int,
    ) -> tuple[tuple[int, ...], Array]:
        """The mean reward by the manipulable variables that matter: their positions, and draws with an axis for each.

        `context` has the codes of the context, which come first among the variables.
        """
        operands = [
            (
                self.reward_target.sets[structure.reward_set],
                self._sample_means(statistic, model, structure.reward_set, rng, draws),
            )
        ]
        for number, chosen in structure.sets:
            target = self._targets[number]
            members = target.sets[chosen]
            start, end = int(target.starts[chosen]), int(target.starts[chosen + 1])
            concentrations = 1.0 + self._rows(statistic, target)[start:end]
            gammas = rng.standard_gamma(np.broadcast_to(concentrations, (draws, *concentrations.shape)))
            cpt = gammas / gammas.sum(axis=-1, keepdims=True)
            shape = (draws, *(self.sizes[k] for k in members), target.states)
            operands.append(((*members, self.observed[number]), cpt.reshape(shape)))
        return self._contract(structure, operands, context)

    def _sample_means(
        self, statistic: ParentSetCounts, model: RewardModel, chosen: int, rng: np.random.Generator, draws: int
    ) -> Array:
        target = self.reward_target
        cells = slice(int(target.starts[chosen]), int(target.starts[chosen + 1]))
        shape = (draws, *(self.sizes[k] for k in target.sets[chosen]))
        count, total = statistic.count[cells], statistic.total[cells]
        if model == "beta":
            return np.asarray(rng.beta(1.0 + total, 1.0 + count - total, (draws, len(count))).reshape(shape))
        n, mean, squares = pooled_moments(statistic)
        by_kappa = _normalise(self._log_evidence_by_kappa(statistic)[:, chosen])
        kappa = KAPPAS[np.searchsorted(np.cumsum(by_kappa)[:-1], rng.random(draws), side="right")][:, None]
        weight = kappa + count
        deviation = self._deviations(statistic)[cells]
        residual = np.maximum(squares - (deviation * deviation / weight).sum(axis=1, keepdims=True), 1e-12 * squares)
        spread = np.sqrt(residual / rng.chisquare(max(1.0, n - 1.0), (draws, 1))) if squares > 0.0 else 1.0
        noise = rng.standard_normal((draws, len(count)))
        means = mean + deviation / weight + spread / np.sqrt(weight) * noise
        return np.asarray(means.reshape(shape))

    def _contract(
        self, structure: SampledStructure, operands: Sequence[tuple[tuple[int, ...], Array]], context: Sequence[int]
    ) -> tuple[tuple[int, ...], Array]:
        """The sum over the observed variables; the first axis of every operand and of the result is that of draws."""
        known = len(context)
        arrays, axes = [], []
        for members, array in operands:
            place = (slice(None), *(context[k] if k < known else slice(None) for k in members))
            arrays.append(array[place])
            axes.append(tuple(k for k in members if k >= known))
        kept = tuple(sorted({k for members in axes for k in members if k < self._first_observed}))
        key = structure, len(arrays[0])
        expression = self._contractions.get(key)
        if expression is None:
            letters = {k: opt_einsum.get_symbol(1 + k) for k in range(len(self.names))}
            first = opt_einsum.get_symbol(0)
            inputs = ",".join(first + "".join(letters[k] for k in members) for members in axes)
            equation = f"{inputs}->{first}{''.join(letters[k] for k in kept)}"
            built = opt_einsum.contract_expression(equation, *(array.shape for array in arrays))
            expression = self._contractions.store(key, built)
        return kept, np.asarray(expression(*arrays))


def _add_exactly(total: float, error: float, x: float) -> tuple[float, float]:
    """A sum and its rounding error after one more summand (Knuth's two-sum)."""
    result = total + x
    part = result - total
    return result, error + ((total - (result - part)) + (x - part))


def _square_exactly(x: float) -> tuple[float, float]:
    """A square and its rounding error (Dekker's product); 0 for the error where it cannot be computed."""
    square = x * x
    scaled = 134217729.0 * x
    if not math.isfinite(scaled) or not math.isfinite(square):
        return square, 0.0
    high = scaled - (scaled - x)
    low = x - high
    return square, ((high * high - square) + 2.0 * high * low) + low * low


def pooled_moments(statistic: ParentSetCounts) -> tuple[float, float, float]:
    """The number of rewards, their mean, and the sum of squares around it, without loss of digits."""
    n, total, total_error, squares, squares_error = statistic.pooled.tolist()
    if n < 1:
        return 0.0, 0.0, 0.0
    from fractions import Fraction

    exact_total = Fraction(total) + Fraction(total_error)
    around = Fraction(squares) + Fraction(squares_error) - exact_total * exact_total / Fraction(n)
    return n, float(exact_total / Fraction(n)), max(0.0, float(around))


def _normalise(logs: Array) -> Array:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _sample_position(weights: Array, rng: np.random.Generator) -> int:
    """A position by its probability; where one has probability 1, no random number is taken."""
    best = int(weights.argmax())
    if weights[best] == 1.0:
        return best
    return int(np.searchsorted(np.cumsum(weights)[:-1], rng.random() * weights.sum(), side="right"))
