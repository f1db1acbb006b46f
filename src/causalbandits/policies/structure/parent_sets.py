"""The posterior over parent sets: counts of every candidate set, their marginal likelihoods, and draws.

For a CPT with rows r and K values, all concentrations 1:

    log P(data | S) = sum over rows [ log Gamma(K) - log Gamma(K + n_r) + sum over values log Gamma(1 + n_rk) ]

For rewards of 0 and 1, theta_s ~ Beta(1, 1):

    log P(rewards | S) = sum over s [ log Gamma(1 + successes_s) + log Gamma(1 + failures_s) - log Gamma(2 + n_s) ]

For real rewards, theta_s ~ N(m, sigma^2 / kappa), Y ~ N(theta_s, sigma^2) with a flat prior of sigma, m the mean of all
rewards, Q the sum of squares around it, T_s = sum over s of (Y - m), and kappa equally likely to be any of `KAPPAS`:

    log P(rewards | S, kappa) =
        1/2 sum over s log(kappa / (kappa + n_s)) - (n - 1)/2 log(Q - sum over s T_s^2 / (kappa + n_s))

All terms but the last are functions of a count. They are kept as whole multiples of a power of 2, so that an outcome
changes one row of each set and the sums are exact: no order of outcomes changes a bit. Everything else is computed in a
fixed order of additions, with exp and log of this module, so that `engine.compiled.structure` has the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array, Codes
from causalbandits.policies.statistics import Statistic
from causalbandits.problem import StructurePrior, count_structure_cells

RewardModel = Literal["beta", "gaussian"]
Ints = npt.NDArray[np.int64]

KAPPAS = np.array([0.1, 1.0, 10.0, 100.0, 1000.0])
"""Ratios of the noise's variance to that of the means, all equally likely in advance."""

NEGLIGIBLE = -60.0
"""Sets whose log posterior is below that of the likeliest by so much count as impossible."""

FEW_ENTRIES, PRODUCT_LIMIT = 2**12, 2**22
"""Products with more entries than the first number, and than actions, are computed by action. Draws are made in parts,
so that a product has no more entries than the second number.
"""

CACHED_PLANS = 2**10
"""So many ways to sum over the observed variables are remembered."""

SMALLEST_TABLE = 2**10
"""Tables of functions of a count have at least so many entries; their number is a power of 2."""

BITS, BITS_UP_TO = 43, 2**15
"""Logarithms are multiples of 2^-43 below 2^15 outcomes. Each doubling takes one bit away, so that sums fit 63 bits."""


class CountTables(NamedTuple):
    """Functions of a count, as multiples of 2^-bits."""

    capacity: int
    """Counts up to it are in the tables."""
    bits: int
    log_gamma: Ints
    """log Gamma(start + n) - log Gamma(start): a row for each of the starts."""
    shrinkage: Ints
    """1/2 log(kappa / (kappa + n)): a row for each of `KAPPAS`."""


def table_capacity(n: int) -> int:
    """The size of the tables after n outcomes, a power of 2 above n; the resolution depends on it."""
    return int(max(SMALLEST_TABLE, 1 << n.bit_length()))


@lru_cache(maxsize=64)
def count_tables(starts: tuple[int, ...], capacity: int, model: RewardModel) -> CountTables:
    """The tables of a problem whose variables have `starts` values, or 2 for a reward of 0 or 1; and 1."""
    bits = max(30, BITS - max(0, capacity.bit_length() - BITS_UP_TO.bit_length()))
    log_gamma = np.zeros((len(starts), capacity + 1), dtype=np.int64)
    for row, first in enumerate(starts):
        logs = np.log(np.arange(first, first + capacity, dtype=np.float64))
        coarse = np.rint(np.ldexp(logs, 30))
        fine = np.rint(np.ldexp(logs - np.ldexp(coarse, -30), 62))
        sums = np.cumsum(coarse.astype(np.int64)), np.cumsum(fine.astype(np.int64))
        log_gamma[row, 1:] = (sums[0] << (bits - 30)) + ((sums[1] + (1 << (61 - bits))) >> (62 - bits))
    counts = np.arange(capacity + 1 if model == "gaussian" else 1, dtype=np.float64)
    halves = 0.5 * np.log(KAPPAS[:, None] / (KAPPAS[:, None] + counts))
    return CountTables(capacity, bits, log_gamma, np.rint(np.ldexp(halves, bits)).astype(np.int64))


@dataclass(eq=False)
class Evidence:
    """The log posterior probabilities of all candidate sets, up to a constant, as multiples of 2^-bits."""

    model: RewardModel
    tables: CountTables
    row_counts: Ints
    """The number of observations of each row of each candidate set of an observed variable."""
    of_cpts: Ints
    """By candidate set of the observed variables, one variable after another."""
    of_rewards: Ints
    """By candidate set of the reward; for real rewards a row for each of `KAPPAS`, without the sums of squares."""


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
        self.evidence: Evidence | None = None
        """A function of the counts, kept up to date; None if it must be computed from them."""
        self.weights: dict[int, Array] = {}
        """The posterior probabilities of the candidate sets, by variable; computed when they are needed."""
        self.by_kappa: KappaTerms | None = None
        """Of the reward's sets, for real rewards; computed when they are needed."""
        self.estimates: tuple[tuple[int, ...], Array] | None = None
        """A context, and draws of the mean reward of every action in it."""
        self.feasible: dict[Any, Any] = {}
        """The actions that keep limits on probabilities, by the actions in question; computed when they are needed."""
        self.has_warned_of_limits = False
        """Whether a decision has warned that no action is known to keep them."""

    def forget(self) -> None:
        """Compute everything from the counts when it is needed again, because these have been set."""
        self.evidence = None
        self.forget_weights()

    def forget_weights(self) -> None:
        """Compute the posterior probabilities when they are needed again."""
        self.by_kappa = self.estimates = None
        self.weights.clear()
        self.feasible.clear()

    def restore(self, record: Any) -> None:
        super().restore(record)
        self.forget()


class KappaTerms(NamedTuple):
    """The terms of the log posterior for real rewards: a row for each of `KAPPAS`, a column for each candidate set."""

    logs: Array
    """The prior and the terms that are functions of counts."""
    residual: Array
    """The sum of squares that the set does not explain."""
    factor: float
    """Of the logarithm of this sum."""

    def log_posterior(self, place: Any) -> Array:
        """The entries at a place, up to a constant."""
        return np.asarray(self.logs[place] - self.factor * _log(self.residual[place]))

    def largest_log_posteriors(self) -> Array:
        """All entries that are not negligible, and -inf for the others."""
        nearly = self.logs - self.factor * np.log(self.residual)
        place = nearly > nearly.max() + NEGLIGIBLE - 1.0
        logs = np.full(nearly.shape, -np.inf)
        logs[place] = self.log_posterior(place)
        return logs


class SampledStructure(NamedTuple):
    """A parent set for the reward, and one for each observed variable on the way to it."""

    reward_set: int
    sets: tuple[tuple[int, int], ...]
    """The number of an observed variable, and that of its set; later variables first."""


class _Elimination(NamedTuple):
    """A step of the sum over the observed variables: some factors are multiplied, and one variable is summed over."""

    used: tuple[int, ...]
    """The positions of these factors in the list; their product is appended to the others."""
    shapes: tuple[tuple[int, ...], ...]
    """The shape of each of them along all their variables; 1 along a variable that it does not depend on."""
    variable: int
    """The variable that is summed over; its axis, and the number of its values."""
    axis: int
    states: int


class _Plan(NamedTuple):
    """The sum over the observed variables, for one structure."""

    steps: tuple[_Elimination, ...]
    kept: tuple[int, ...]
    """The variables that the sum depends on."""
    largest: int
    """The number of entries of the largest product."""
    largest_of_action: int
    """The same for one action: of the observed variables alone."""


class _Target(NamedTuple):
    """Where the counts of one variable's candidate sets stand."""

    sets: tuple[tuple[int, ...], ...]
    """The positions of the variables in each set."""
    states: int
    """The number of values; 1 for the reward, whose rows are cells."""
    starts: Codes
    """The first row of each set, and the end."""
    masks: tuple[int, ...]
    """The variables in each set, as bits of a number."""
    strides: Codes
    """The row of a configuration within a set: a row of strides for each set."""
    log_prior: Array
    offset: int
    """The first entry of the first row in `seen`; 0 for the reward."""
    first_row: int
    """The first row among those of all observed variables; 0 for the reward."""
    first_set: int
    """The first set among those of all observed variables; 0 for the reward."""


class SetsOfCPTs(NamedTuple):
    """The candidate sets of all observed variables, one variable after another, an entry for each."""

    strides: Codes
    """The row of a configuration within a set: a row of strides for each set."""
    variables: Codes
    """The position of the observed variable among all variables."""
    states: Codes
    """The number of its values."""
    kinds: Codes
    """The row of `CountTables.log_gamma` for the counts of rows."""
    rows: Codes
    """The first row of the set, among those of all sets."""
    entries: Codes
    """The first entry of the set in `seen`."""


class _Block(NamedTuple):
    """The candidate sets of the reward with equally many cells."""

    sets: Codes
    cells: Codes
    """A column of cells for each of these sets."""


def _blocks_of_cells(target: _Target) -> list[_Block]:
    rows = np.diff(target.starts)
    blocks = []
    for n in np.unique(rows).tolist():
        sets = np.flatnonzero(rows == n)
        blocks.append(_Block(sets, target.starts[sets] + np.arange(n)[:, None]))
    return blocks


class ParentSets:
    """The candidate parent sets of a problem, on arrays."""

    def __init__(self, prior: StructurePrior, names: Sequence[str], sizes: Mapping[str, int]) -> None:
        """`names` are the variables before the reward, in order; `sizes` the number of their values."""
        self.cells = count_structure_cells(prior, sizes)
        self.names, self.sizes = tuple(names), tuple(sizes[name] for name in names)
        position = {name: place for place, name in enumerate(self.names)}
        self.observed = tuple(position[name] for name in prior.observed)
        self.first_observed = len(self.names) - len(self.observed)
        self.starts = tuple(sorted({1, 2, *(self.sizes[k] for k in self.observed)}))
        """The arguments at which the tables of log Gamma start."""
        self.targets: list[_Target] = []
        offset = first_row = first_set = 0
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
            place = (0, 0, 0) if is_reward else (offset, first_row, first_set)
            masks = tuple(sum(1 << k for k in members) for members in sets)
            self.targets.append(_Target(sets, states, starts, masks, strides, np.array(candidate.log_prior), *place))
            if not is_reward:
                offset, first_row = offset + int(starts[-1]) * states, first_row + int(starts[-1])
                first_set += len(sets)
        self.n_seen, self.n_rows, self.n_sets = offset, first_row, first_set
        self.n_reward_cells = int(self.reward_target.starts[-1])
        self.of_cpts = self._sets_of_cpts()
        self._blocks = _blocks_of_cells(self.reward_target)
        self._cells_by_block = np.concatenate([block.cells.reshape(-1) for block in self._blocks])
        self._target_of_set = np.repeat(
            np.arange(len(self.observed)), [len(target.sets) for target in self.targets[:-1]]
        )
        self._plans: BoundedCache[SampledStructure, _Plan] = BoundedCache(CACHED_PLANS)
        self._variables: BoundedCache[int, tuple[tuple[int, ...], int]] = BoundedCache(CACHED_PLANS)

    def _sets_of_cpts(self) -> SetsOfCPTs:
        targets = [*zip(self.observed, self.targets, strict=False)]
        numbers = [len(target.sets) for _, target in targets]

        def by_set(values: Sequence[int]) -> Codes:
            return np.repeat(np.array(values, dtype=np.intp), numbers)

        within = [target.starts[:-1] for _, target in targets]
        none = np.zeros(0, dtype=np.intp)
        return SetsOfCPTs(
            strides=np.concatenate([np.zeros((0, len(self.names)), dtype=np.intp), *(t.strides for _, t in targets)]),
            variables=by_set([k for k, _ in targets]),
            states=by_set([target.states for _, target in targets]),
            kinds=by_set([self.starts.index(target.states) for _, target in targets]),
            rows=np.concatenate([none, *(t.first_row + w for (_, t), w in zip(targets, within, strict=True))]),
            entries=np.concatenate(
                [none, *(t.offset + w * t.states for (_, t), w in zip(targets, within, strict=True))]
            ),
        )

    @property
    def reward_target(self) -> _Target:
        """The candidate sets of the reward."""
        return self.targets[-1]

    def empty(self) -> ParentSetCounts:
        """Before the first outcome."""
        return ParentSetCounts(
            0, np.zeros(self.n_seen), np.zeros(self.n_reward_cells), np.zeros(self.n_reward_cells), np.zeros(5)
        )

    def add(self, statistic: ParentSetCounts, codes: Codes, reward: float) -> None:
        """Take in one outcome; `codes` are the values of all variables before the reward, in order."""
        rows, entries = self.observed_entries(codes)
        cells = self.reward_cells(codes)
        if statistic.evidence is not None:
            self._add_evidence(statistic, rows, entries, cells, reward)
        statistic.seen[entries] += 1.0
        statistic.count[cells] += 1.0
        statistic.total[cells] += reward
        add_to_moments(statistic.pooled, reward)
        statistic.rounds += 1
        statistic.forget_weights()

    def _add_evidence(
        self, statistic: ParentSetCounts, rows: Codes, entries: Codes, cells: Codes, reward: float
    ) -> None:
        """Change the evidence by one outcome, before it is counted."""
        evidence = statistic.evidence
        assert evidence is not None
        if max(statistic.rounds, statistic.pooled[0]) + 2 > evidence.tables.capacity:
            statistic.evidence = None
            return
        log_gamma, kinds = evidence.tables.log_gamma, self.of_cpts.kinds
        seen, row_counts = statistic.seen[entries].astype(np.intp), evidence.row_counts[rows]
        evidence.of_cpts += log_gamma[0][seen + 1] - log_gamma[0][seen]
        evidence.of_cpts -= log_gamma[kinds, row_counts + 1] - log_gamma[kinds, row_counts]
        evidence.row_counts[rows] = row_counts + 1
        count = statistic.count[cells].astype(np.intp)
        if evidence.model == "gaussian":
            shrinkage = evidence.tables.shrinkage
            evidence.of_rewards += shrinkage[:, count + 1] - shrinkage[:, count]
            return
        same = statistic.total[cells].astype(np.intp)
        if reward == 0.0:
            same = count - same
        evidence.of_rewards += log_gamma[0][same + 1] - log_gamma[0][same]
        evidence.of_rewards -= log_gamma[1][count + 1] - log_gamma[1][count]

    def observed_entries(self, codes: Codes) -> tuple[Codes, Codes]:
        """The rows of all candidate sets of observed variables that an outcome shows, and the entries of its values."""
        within = self.of_cpts.strides @ codes
        entries = self.of_cpts.entries + within * self.of_cpts.states + codes[self.of_cpts.variables]
        return self.of_cpts.rows + within, entries

    def reward_cells(self, codes: Codes) -> Codes:
        """The cells of all candidate sets of the reward in which an outcome counts."""
        return np.asarray(self.reward_target.starts[:-1] + self.reward_target.strides @ codes)

    def add_to(self, statistic: ParentSetCounts, entries: Codes, cells: Codes, reward: float) -> None:
        """Take in one outcome for some entries and cells only."""
        statistic.seen[entries] += 1.0
        statistic.count[cells] += 1.0
        statistic.total[cells] += reward
        if len(cells):
            add_to_moments(statistic.pooled, reward)
        statistic.rounds += 1
        statistic.forget()

    def log_prior(self, statistic: ParentSetCounts, target: _Target) -> Array:
        """The log prior probabilities of a variable's sets, with the evidence of outcomes that no longer count."""
        if statistic.tracker is None:
            return target.log_prior
        carried: Array = statistic.tracker.detector.log_prior
        first = self.n_sets if target is self.reward_target else target.first_set
        return carried[first : first + len(target.sets)]

    # The posterior over sets.

    def evidence(self, statistic: ParentSetCounts, model: RewardModel) -> Evidence:
        """The log posterior probabilities of all sets: those that are kept, or computed from the counts."""
        evidence = statistic.evidence
        if evidence is None or evidence.model != model:
            evidence = statistic.evidence = self._compute_evidence(statistic, model)
            statistic.forget_weights()
        return evidence

    def _compute_evidence(self, statistic: ParentSetCounts, model: RewardModel) -> Evidence:
        tables = count_tables(self.starts, table_capacity(max(statistic.rounds, int(statistic.pooled[0]))), model)
        log_gamma = tables.log_gamma
        row_counts, of_cpts = np.zeros(self.n_rows, dtype=np.int64), np.zeros(self.n_sets, dtype=np.int64)
        for target in self.targets[:-1]:
            rows = self._rows(statistic, target).astype(np.int64)
            counts = rows.sum(axis=1)
            row_counts[target.first_row : target.first_row + len(rows)] = counts
            terms = log_gamma[0][rows].sum(axis=1) - log_gamma[self.starts.index(target.states)][counts]
            of_cpts[target.first_set : target.first_set + len(target.sets)] = np.add.reduceat(
                terms, target.starts[:-1]
            ) + _to_multiples(self.log_prior(statistic, target), tables.bits)
        count, starts = statistic.count.astype(np.int64), self.reward_target.starts[:-1]
        if model == "gaussian":
            of_rewards = np.add.reduceat(tables.shrinkage[:, count], starts, axis=1)
        else:
            successes = statistic.total.astype(np.int64)
            terms = log_gamma[0][successes] + log_gamma[0][count - successes] - log_gamma[1][count]
            of_rewards = np.add.reduceat(terms, starts)
        of_rewards += _to_multiples(self.log_prior(statistic, self.reward_target), tables.bits)
        return Evidence(model, tables, row_counts, of_cpts, of_rewards)

    def _rows(self, statistic: ParentSetCounts, target: _Target) -> Array:
        end = target.offset + int(target.starts[-1]) * target.states
        return statistic.seen[target.offset : end].reshape(-1, target.states)

    def weights(self, statistic: ParentSetCounts, model: RewardModel) -> Sequence[Array]:
        """The posterior probabilities of the candidate sets: of every observed variable in order, and of the reward."""
        return _SetWeights(self, statistic, model)

    def weigh_sets_of_cpts(self, statistic: ParentSetCounts, model: RewardModel) -> list[Array]:
        """The posterior probabilities of the candidate sets of every observed variable."""
        evidence = self.evidence(statistic, model)
        if not self.observed:
            return []
        starts = [target.first_set for target in self.targets[:-1]]
        logs = evidence.of_cpts - np.maximum.reduceat(evidence.of_cpts, starts)[self._target_of_set]
        weights = _exp(np.ldexp(logs.astype(np.float64), -evidence.tables.bits))
        return [_normalise(weights[a:b]) for a, b in zip(starts, [*starts[1:], self.n_sets], strict=True)]

    def weigh_sets_of_reward(self, statistic: ParentSetCounts, model: RewardModel) -> Array:
        """The posterior probabilities of the candidate sets of the reward."""
        if model == "gaussian":
            by_kappa = self.terms_by_kappa(statistic).largest_log_posteriors()
            return _normalise(_sum_rows(_exp(by_kappa - by_kappa.max())))
        evidence = self.evidence(statistic, model)
        logs = evidence.of_rewards - evidence.of_rewards.max()
        return _normalise(_exp(np.ldexp(logs.astype(np.float64), -evidence.tables.bits)))

    def terms_by_kappa(self, statistic: ParentSetCounts) -> KappaTerms:
        """The terms of the log posterior of the reward's sets, for real rewards."""
        if statistic.by_kappa is None:
            statistic.by_kappa = self._compute_terms_by_kappa(statistic)
        return statistic.by_kappa

    def _compute_terms_by_kappa(self, statistic: ParentSetCounts) -> KappaTerms:
        evidence, target = self.evidence(statistic, "gaussian"), self.reward_target
        n, mean, squares = pooled_moments(statistic)
        shape = len(KAPPAS), len(target.sets)
        if n < 2 or squares <= 0.0:
            prior = self.log_prior(statistic, target)
            log_prior = np.ldexp(_to_multiples(prior, evidence.tables.bits).astype(np.float64), -evidence.tables.bits)
            return KappaTerms(np.broadcast_to(log_prior, shape), np.ones(shape), 0.0)
        count, total = statistic.count[self._cells_by_block], statistic.total[self._cells_by_block]
        deviation = total - count * mean
        shares = deviation * deviation / (KAPPAS[:, None] + count)
        explained, first = np.empty(shape), 0
        for block in self._blocks:
            rows, columns = block.cells.shape
            part = shares[:, first : first + rows * columns].reshape(len(KAPPAS), rows, columns)
            # NumPy adds numbers that are not neighbours in memory one after another, like accumulate.
            explained[:, block.sets] = part.sum(axis=1) if columns > 1 else np.add.accumulate(part, axis=1)[:, -1]
            first += rows * columns
        residual = np.maximum(squares - explained, 1e-12 * squares)
        logs = np.ldexp(evidence.of_rewards.astype(np.float64), -evidence.tables.bits)
        return KappaTerms(logs, residual, 0.5 * (n - 1.0))

    # Draws of a structure, and of the values of actions.

    def sample_structure(self, weights: Sequence[Array], rng: np.random.Generator) -> SampledStructure:
        """A set for the reward and for every observed variable on the way; certain sets take no random number."""
        reward_set = _sample_position(weights[len(self.observed)], rng)
        needed, sets = set(self.reward_target.sets[reward_set]), []
        for number in reversed(range(len(self.observed))):
            if self.observed[number] in needed:
                chosen = _sample_position(weights[number], rng)
                needed.update(self.targets[number].sets[chosen])
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
        actions: Codes | None = None,
    ) -> tuple[tuple[int, ...] | None, Array]:
        """The mean reward by the manipulable variables that matter: their positions, and draws with an axis for each.

        `context` has the codes of the context, which come first among the variables. With the values that each of the
        `actions` sets, a product with more entries than there are actions is computed for the actions alone: None, and
        draws with an axis of actions.
        """
        members = self.reward_target.sets[structure.reward_set]
        means = self._sample_means(statistic, model, structure.reward_set, rng, draws)
        factors = [self._in_context(members, means, context)]
        for number, chosen in structure.sets:
            target = self.targets[number]
            start, end = int(target.starts[chosen]), int(target.starts[chosen + 1])
            concentrations = 1.0 + self._rows(statistic, target)[start:end]
            gammas = rng.standard_gamma(concentrations, (draws, *concentrations.shape))
            sums = gammas[..., 0].copy()
            for code in range(1, target.states):
                sums += gammas[..., code]
            cpt = gammas / sums[..., None]
            members = (*target.sets[chosen], self.observed[number])
            factors.append(self._in_context(members, cpt.reshape(draws, *(self.sizes[k] for k in members)), context))
        plan = self._plans.get(structure)
        if plan is None:
            plan = self._plans.store(structure, self._plan(structure, len(context)))
        entries, by_action = plan.largest, None
        if actions is not None and plan.largest > max(FEW_ENTRIES, len(actions) * plan.largest_of_action):
            entries, by_action = len(actions) * plan.largest_of_action, actions
        rows, parts = max(1, PRODUCT_LIMIT // entries), list[Array]()
        for first in range(0, draws, rows):
            part = [factor[first : first + rows] for factor in factors]
            if by_action is None:
                parts.append(_sum_by_variables(plan, part))
            else:
                parts.append(self._sum_by_action(plan, structure, part, by_action, len(context)))
        return plan.kept if by_action is None else None, parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _sum_by_action(
        self, plan: _Plan, structure: SampledStructure, factors: list[Array], actions: Codes, known: int
    ) -> Array:
        """The sum over the observed variables for each action: the same additions as in `_sum_by_variables`."""
        members = [self.reward_target.sets[structure.reward_set]]
        members += [(*self.targets[number].sets[chosen], self.observed[number]) for number, chosen in structure.sets]
        scopes, arrays = [], []
        for names, factor in zip(members, factors, strict=True):
            set_by_us = [k for k in names if known <= k < self.first_observed]
            index: tuple[Any, ...] = (slice(None), *(actions[:, k - known] for k in set_by_us))
            arrays.append(factor[index] if set_by_us else factor[:, None])
            scopes.append(tuple(k for k in names if k >= self.first_observed))
        for step in plan.steps:
            union = sorted({k for f in step.used for k in scopes[f]})
            shaped = [
                arrays[f].reshape(*arrays[f].shape[:2], *(self.sizes[k] if k in scopes[f] else 1 for k in union))
                for f in step.used
            ]
            result = _sum_along(_product(shaped), 2 + union.index(step.variable))
            arrays = [array for f, array in enumerate(arrays) if f not in step.used] + [result]
            scopes = [scope for f, scope in enumerate(scopes) if f not in step.used]
            scopes.append(tuple(k for k in union if k != step.variable))
        return np.broadcast_to(arrays[0], (len(arrays[0]), len(actions)))

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
        logs = self.terms_by_kappa(statistic).log_posterior((slice(None), chosen))
        sums = np.cumsum(_exp(logs - logs.max()))
        kappa = KAPPAS[np.searchsorted(sums[:-1], rng.random(draws) * sums[-1], side="right")][:, None]
        weight, deviation = kappa + count, total - count * mean
        explained = np.cumsum(deviation * deviation / weight, axis=1)[:, -1:]
        residual = np.maximum(squares - explained, 1e-12 * squares)
        # A chi-square variable with n - 1 degrees of freedom is twice a gamma variable with half of that.
        spread = (
            np.sqrt(residual / (2.0 * rng.standard_gamma(0.5 * (n - 1.0), (draws, 1))))
            if n >= 2 and squares > 0.0
            else np.ones((draws, 1))
        )
        noise = rng.standard_normal((draws, len(count)))
        means = mean + deviation / weight + spread / np.sqrt(weight) * noise
        return np.asarray(means.reshape(shape))

    def _in_context(self, members: tuple[int, ...], factor: Array, context: Sequence[int]) -> Array:
        """A factor in a context; the first axis is that of draws."""
        if not context:
            return factor
        return factor[(slice(None), *(context[k] if k < len(context) else slice(None) for k in members))]

    def _plan(self, structure: SampledStructure, known: int) -> _Plan:
        """The order in which variables are summed over: next the one with the smallest product, of these the latest.

        The first `known` variables are the context, and have their values.
        """
        reward_set, steps, largest, of_action = structure.reward_set, list[_Elimination](), 1, 1
        masks = [self.reward_target.masks[reward_set]]
        masks += [self.targets[number].masks[chosen] | 1 << self.observed[number] for number, chosen in structure.sets]
        masks = [mask >> known << known for mask in masks]
        remaining = [self.observed[number] for number, _ in structure.sets]
        while remaining:
            least, best = math.inf, (0, 0)
            for v in remaining:
                union = 0
                for mask in masks:
                    if mask >> v & 1:
                        union |= mask
                cost = self._variables_of(union)[1]
                if cost < least:
                    least, best = cost, (v, union)
            v, union = best
            remaining.remove(v)
            members, bit = self._variables_of(union)[0], 1 << v
            used = tuple([f for f, mask in enumerate(masks) if mask & bit])
            shapes = tuple([tuple([self.sizes[k] if masks[f] >> k & 1 else 1 for k in members]) for f in used])
            steps.append(_Elimination(used, shapes, v, members.index(v), self.sizes[v]))
            observed = union >> self.first_observed << self.first_observed
            largest, of_action = max(largest, int(least)), max(of_action, self._variables_of(observed)[1])
            masks = [mask for mask in masks if not mask & bit] + [union & ~bit]
        return _Plan(tuple(steps), self._variables_of(masks[0])[0], largest, of_action)

    def _variables_of(self, mask: int) -> tuple[tuple[int, ...], int]:
        """The variables in the bits of a number, and the number of their configurations."""
        found = self._variables.get(mask)
        if found is None:
            members = tuple([k for k in range(len(self.names)) if mask >> k & 1])
            found = self._variables.store(mask, (members, math.prod([self.sizes[k] for k in members])))
        return found


class _SetWeights(Sequence[Array]):
    """The posterior probabilities of the candidate sets by variable, computed when they are read."""

    def __init__(self, sets: ParentSets, statistic: ParentSetCounts, model: RewardModel) -> None:
        self._sets, self._statistic, self._model = sets, statistic, model
        sets.evidence(statistic, model)

    def __len__(self) -> int:
        return len(self._sets.targets)

    @overload
    def __getitem__(self, number: int) -> Array: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Array]: ...

    def __getitem__(self, number: int | slice) -> Array | Sequence[Array]:
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        found = self._statistic.weights
        if number not in found:
            if number < len(self) - 1:
                found.update(enumerate(self._sets.weigh_sets_of_cpts(self._statistic, self._model)))
            else:
                found[number] = self._sets.weigh_sets_of_reward(self._statistic, self._model)
        return found[number]


def _sum_by_variables(plan: _Plan, factors: list[Array]) -> Array:
    """The sum over the observed variables, with an axis for each manipulable variable that matters."""
    for step in plan.steps:
        shaped = [factors[k].reshape(-1, *shape) for k, shape in zip(step.used, step.shapes, strict=True)]
        result = _sum_along(_product(shaped), 1 + step.axis)
        factors = [factor for k, factor in enumerate(factors) if k not in step.used] + [result]
    return factors[0]


def _sum_along(product: Array, axis: int) -> Array:
    """The sum along an axis, one entry after another."""
    along: tuple[Any, ...] = (slice(None),) * axis
    total = product[(*along, 0)]
    for code in range(1, product.shape[axis]):
        total = total + product[(*along, code)]
    return np.asarray(total)


def _product(factors: Sequence[Array]) -> Array:
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product


def _to_multiples(values: Array, bits: int) -> Ints:
    return np.rint(np.ldexp(values, bits)).astype(np.int64)


# Sums of rewards without loss of digits; also compiled.


def add_to_moments(pooled: Array, reward: float) -> None:
    """Add a reward to the number of rewards, to their sum and to the sum of their squares; also compiled."""
    pooled[0] += 1.0
    pooled[1], pooled[2] = add_exactly(pooled[1], pooled[2], reward)
    square, error = multiply_exactly(reward, reward)
    pooled[3], pooled[4] = add_exactly(pooled[3], pooled[4] + error, square)


def add_exactly(total: float, error: float, x: float) -> tuple[float, float]:
    """A sum and its rounding error after one more summand (Knuth's two-sum); also compiled."""
    result = total + x
    part = result - total
    return result, error + ((total - (result - part)) + (x - part))


def multiply_exactly(x: float, y: float) -> tuple[float, float]:
    """A product and its rounding error (Dekker); 0 for the error where it cannot be computed; also compiled."""
    product, scaled_x, scaled_y = x * y, 134217729.0 * x, 134217729.0 * y
    if not (math.isfinite(scaled_x) and math.isfinite(scaled_y) and math.isfinite(product)):
        return product, 0.0
    high_x, high_y = scaled_x - (scaled_x - x), scaled_y - (scaled_y - y)
    low_x, low_y = x - high_x, y - high_y
    return product, ((high_x * high_y - product) + high_x * low_y + low_x * high_y) + low_x * low_y


def mean_and_squares(
    n: float, total: float, total_error: float, squares: float, squares_error: float
) -> tuple[float, float]:
    """The mean, and the sum of squares around it, in twice the usual precision; also compiled."""
    mean = total / n
    product, error = multiply_exactly(mean, n)
    mean_error = ((total - product) - error + total_error) / n
    product, error = multiply_exactly(total, mean)
    error += total * mean_error + total_error * mean
    around, rest = add_exactly(squares, 0.0, -product)
    return mean + mean_error, max(0.0, around + (rest + (squares_error - error)))


def pooled_moments(statistic: ParentSetCounts) -> tuple[float, float, float]:
    """The number of rewards, their mean, and the sum of squares around it, without loss of digits."""
    n, total, total_error, squares, squares_error = statistic.pooled.tolist()
    if n < 1:
        return 0.0, 0.0, 0.0
    return n, *mean_and_squares(n, total, total_error, squares, squares_error)


# Logarithms and exponentials of arrays, and of numbers in compiled code, with the same bits. Those of NumPy differ from
# those of the C library in the last bit, and by processor.

LN_2 = math.log(2.0)
LOG_STEPS, EXP_STEPS = 256, 128
LOG_CENTRES = 0.5 + (np.arange(LOG_STEPS // 2) + 0.5) / LOG_STEPS
LOG_INVERSES, LOGS = 1.0 / LOG_CENTRES, np.array([*map(math.log, LOG_CENTRES.tolist())])
EXPS = np.array([math.exp(-k) for k in range(1 - int(NEGLIGIBLE))])
EXP_FRACTIONS = np.array([math.exp(-k / EXP_STEPS) for k in range(EXP_STEPS)])


def _log(values: Array) -> Array:
    mantissa, exponent = np.frexp(values)
    k = ((mantissa - 0.5) * LOG_STEPS).astype(np.intp)
    return np.asarray(log_series(exponent, LOGS[k], (mantissa - LOG_CENTRES[k]) * LOG_INVERSES[k]))


def log_by_table(x: float) -> float:
    """The logarithm of a positive number: compiled."""
    mantissa, exponent = math.frexp(x)
    k = int((mantissa - 0.5) * LOG_STEPS)
    return float(log_series(exponent, LOGS[k], (mantissa - LOG_CENTRES[k]) * LOG_INVERSES[k]))


def log_series(exponent: Any, log: Any, r: Any) -> Any:
    """exponent log 2 + log + log(1 + r), for |r| up to 2^-8: of arrays, and compiled."""
    series = r * (1.0 - r * (0.5 - r * (1.0 / 3.0 - r * (0.25 - r * (0.2 - r * (1.0 / 6.0))))))
    return (exponent * LN_2 + log) + series


def _exp(logs: Array) -> Array:
    """Probabilities relative to the largest; 0 for negligible ones."""
    is_large = logs > NEGLIGIBLE
    x = np.where(is_large, -logs, 0.0)
    k = (x * EXP_STEPS).astype(np.intp)
    values = EXPS[k // EXP_STEPS] * EXP_FRACTIONS[k % EXP_STEPS] * exp_series(x - k / EXP_STEPS)
    return np.where(is_large, values, 0.0)


def exp_unless_negligible(log: float) -> float:
    """As `_exp`, for one number: compiled."""
    if log <= NEGLIGIBLE:
        return 0.0
    x = -log
    k = int(x * EXP_STEPS)
    return float(EXPS[k // EXP_STEPS] * EXP_FRACTIONS[k % EXP_STEPS] * exp_series(x - k / EXP_STEPS))


def exp_series(t: Any) -> Any:
    """exp(-t), for t up to 2^-7: of arrays, and compiled."""
    return 1.0 - t * (1.0 - t * (0.5 - t * (1.0 / 6.0 - t * (1.0 / 24.0 - t * (1.0 / 120.0 - t * (1.0 / 720.0))))))


def _sum_rows(table: Array) -> Array:
    """The sum of the rows, one after another."""
    total = table[0].copy()
    for row in table[1:]:
        total += row
    return np.asarray(total)


def _normalise(weights: Array) -> Array:
    return np.asarray(weights / weights.cumsum()[-1])


def _sample_position(weights: Array, rng: np.random.Generator) -> int:
    """A position by its probability; where one has probability 1, no random number is taken."""
    best = int(weights.argmax())
    if weights[best] == 1.0:
        return best
    sums = weights.cumsum()
    return int(sums[:-1].searchsorted(rng.random() * sums[-1], side="right"))
