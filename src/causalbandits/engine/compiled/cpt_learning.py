"""Compiled rounds of policies that estimate the CPTs, with a given graph or with a structure that is learned as well.

With a graph, they are played in segments from one posterior sample of the CPTs to the next. Between two samples the
tree of P(z | a) does not change, and the time of the next sample depends on counts alone (see `policies.cpts`). The
compiled rounds therefore stop at the round after which the CPTs are sampled again. Sampling and contraction use the
uncompiled code; the tree's columns are overwritten, and the rounds continue with the same random streams.

Where the structure is learned, every decision samples structure and CPTs, within the compiled rounds
(`engine.compiled.structure`). Their arrays are here, because they do not need numba.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.engine.compiled import arrays
from causalbandits.environments import LISTED, BernoulliReward, Environment
from causalbandits.policies import CausalThompsonSampling
from causalbandits.policies.cpts import (
    CellsAndCPTs,
    LearnedCPTs,
    ResamplingSchedule,
    learned_cpts,
    resample_cpts,
)
from causalbandits.policies.structure import (
    ParentSetCounts,
    ParentSets,
    StructureThompsonSampling,
    structure_layout,
)
from causalbandits.problem import Problem
from causalbandits.problem.candidates import AllActions

if TYPE_CHECKING:
    from causalbandits.engine.compiled.kernel_arguments import Scene


class MechanismArrays(NamedTuple):
    """The ancestors of the parents in causal order: their CPTs, and the counts that they update."""

    manipulable: arrays.Ints
    """The index of the manipulable variable; -1 for other variables."""
    sizes: arrays.Ints
    causes: arrays.Ragged
    """The positions of the variable's parents among the variables."""
    strides: arrays.Ragged
    """The stride of each parent's code in the row number."""
    cdf: arrays.Ragged
    """The CPT, rows concatenated, each as a cumulative distribution."""
    steps: arrays.Ints
    """The stride of the variable's code in the configuration's number: 0 if it is not a parent of the reward."""
    entries: arrays.Ints
    """The start of the variable's CPT among the entries of all arrays."""
    rows: arrays.Ints
    """The start of the variable's CPT among the rows of all arrays."""


class LearnedCptEnvironment(NamedTuple):
    """The environment by variable, with mean rewards and gaps."""

    course: MechanismArrays
    choices: arrays.Ints
    """The choice of each manipulable variable, by searched action."""
    mean: Array
    gap: Array
    noise: arrays.RewardNoise


class LearnedCptSums(NamedTuple):
    """`policies.cpts.CellsAndCPTs`, and the conditions for the next sample of the CPTs."""

    counts: Array
    totals: Array
    seen: Array
    of_rows: Array
    """The number of observations of each row."""
    limits: Array
    """The counts of a row at which the CPTs are sampled again."""
    observed: int
    """The number of observed rounds after which the CPTs are sampled again."""
    due: float
    """The number of rounds observed so far."""


def can_learn(scene: Scene) -> bool:
    """Whether the compiled rounds support a policy that estimates CPTs here: it must observe all variables."""
    problem, true = scene.problem, scene.env.problem
    return not (true.context or problem.context or true.constrained_variables) and problem.is_same_except_cpts(true)


class CptLearning:
    """One replication: its statistic, and the tree that is overwritten."""

    def __init__(
        self,
        policy: CausalThompsonSampling,
        scene: Scene,
        cells: CellsAndCPTs,
        streams: arrays.Streams,
        flat: arrays.FlatEnvironment,
    ) -> None:
        self._policy, self._cells, self._rng = policy, cells, streams.policy
        self._situation = scene.moments[0].situation
        self._tables, search = learned_cpts(scene.problem), self._situation.candidates
        self._tree = arrays.build_tree([search.projection], scene.problem.configurations)
        self._choices = np.asarray(search.array(), dtype=np.int64)
        self._env = self._flatten(scene, flat)

    def enter(self, scene: Scene, flat: arrays.FlatEnvironment) -> None:
        """Play in another environment from now on; counts and the sampled CPTs are kept."""
        self._env = self._flatten(scene, flat)

    def _flatten(self, scene: Scene, flat: arrays.FlatEnvironment) -> LearnedCptEnvironment:
        env = scene.moments[0].env
        mechanisms = env.compute_once(("course", scene.problem), lambda: build_mechanism_arrays(env, self._tables))
        return LearnedCptEnvironment(mechanisms, self._choices, flat.mean, flat.gap, flat.noise)

    def arguments(self) -> tuple[arrays.FlatTree, LearnedCptEnvironment, LearnedCptSums]:
        """The arguments of the rounds except the rule: the tree under the latest sample of the CPTs."""
        projection = self._policy.sample_situation(self._situation, self._cells, self._rng).candidates.projection
        np.concatenate([level.columns.reshape(-1) for level in projection.tree[0]], out=self._tree.columns)
        cells, schedule = self._cells, ResamplingSchedule(self._tables, self._cells)
        counts, limits = np.array(schedule.counts), np.array(schedule.limits)
        sums = LearnedCptSums(
            cells.count, cells.total, cells.seen, counts, limits, cells.rounds, float(schedule.rounds)
        )
        return self._tree, self._env, sums

    def advance(self, stopped: tuple[int, bool]) -> int:
        """Add the number of rounds played; sample the CPTs again if that is due."""
        played, due = stopped
        self._cells.rounds += played
        if due:
            resample_cpts(self._cells)
        return played


def build_mechanism_arrays(env: Environment, learned: LearnedCPTs | None) -> MechanismArrays:
    """The mechanisms of an environment, and the counts that they update, if CPTs are learned."""
    mechanisms, problem = env.mechanisms, env.problem
    place = {mechanism.name: i for i, mechanism in enumerate(mechanisms)}
    step = {name: math.prod(problem.shape[i + 1 :]) for i, name in enumerate(problem.parents)}
    sizes = [[size for _, size in mechanism.causes] for mechanism in mechanisms]
    entries = [0 if learned is None else learned.first_entry(mechanism.name) for mechanism in mechanisms]
    return MechanismArrays(
        manipulable=arrays.as_ints([-1 if m.position is None else m.position for m in mechanisms]),
        sizes=arrays.as_ints([len(problem.model[m.name].states) for m in mechanisms]),
        causes=arrays.build_ragged([[place[cause] for cause, _ in m.causes] for m in mechanisms], np.int64),
        strides=arrays.build_ragged(
            [[math.prod(cause_sizes[i + 1 :]) for i in range(len(cause_sizes))] for cause_sizes in sizes], np.int64
        ),
        cdf=arrays.build_ragged([np.concatenate(m.cdfs) for m in mechanisms]),
        steps=arrays.as_ints([step.get(m.name, 0) for m in mechanisms]),
        entries=arrays.as_ints(entries),
        rows=arrays.as_ints(entries if learned is None else learned.row_of[entries]),
    )


# Arrays of policies that learn the structure.

VARIABLES_COMPILED = 62
"""Sets of variables are the bits of a number."""


class StructureRule(NamedTuple):
    """The options of a policy that learns the structure."""

    samples: int
    is_beta: bool
    costs: arrays.ActionCosts | None


class CandidateSetArrays(NamedTuple):
    """The candidate sets of all observed variables, one variable after another, and of the reward."""

    sizes: arrays.Ints
    """The number of values of each variable: the manipulable ones, then the observed ones."""
    observed: int
    first_set: arrays.Ints
    """The first set of each observed variable and of the reward, and the end."""
    members: arrays.Ragged
    """The positions of the variables in each set."""
    strides: arrays.Ragged
    masks: arrays.Ints
    """The variables in each set as bits."""
    rows: arrays.Ints
    """The number of configurations of each set."""
    first_row: arrays.Ints
    """The first row of each set among those of all observed variables; of a set of the reward, its first cell."""
    first_entry: arrays.Ints
    """The first entry of each set in `seen`; 0 for a set of the reward."""
    kinds: arrays.Ints
    """By observed variable: the row of `CountTables.log_gamma` for the counts of rows."""
    log_prior: Array
    """By set of the reward."""


class StructureEnvironment(NamedTuple):
    """The environment by variable, with mean rewards and gaps."""

    course: MechanismArrays
    choices: arrays.Ints
    """The choice of each manipulable variable, by action."""
    observed: arrays.Ints
    """The positions of the observed variables in the environment's order."""
    mean: Array
    gap: Array
    noise: arrays.RewardNoise


class StructureSums(NamedTuple):
    """`policies.structure.ParentSetCounts` and its `Evidence`."""

    seen: Array
    rewards: Array
    totals: Array
    pooled: Array
    row_counts: arrays.Ints
    of_cpts: arrays.Ints
    of_rewards: arrays.Ints
    """A row for each of `KAPPAS`, or one row for Beta priors."""
    log_gamma: arrays.Ints
    shrinkage: arrays.Ints
    scale: float
    """The unit of the evidence."""


SETTINGS_COMPILED = 2**24
"""The maximum number of joint settings of the manipulable variables; with more, the plain driver sums by action."""


def can_learn_structure(env: Environment, policy: StructureThompsonSampling, problem: Problem) -> bool:
    """Whether the compiled rounds support a policy that learns the structure here: without contexts and chance
    constraints, and with rewards of 0 and 1 for Beta priors."""
    true = env.problem
    if problem.structure_prior is None or true.context or problem.context:
        return False
    if true.constrained_variables or problem.constrained_variables:
        return False
    if true.unit == "actions" or (policy.prior == "beta" and type(env.reward) is not BernoulliReward):
        return False
    if problem.manipulable != true.manipulable or not {*problem.must_observe} <= {m.name for m in env.mechanisms}:
        return False
    if max(problem.actions.size, true.configurations) > LISTED:
        return False
    layout, is_listed = structure_layout(problem), isinstance(problem.situation().candidates, AllActions)
    sets_all = len(layout.names) <= VARIABLES_COMPILED and int(layout.action_codes.min(initial=0)) >= 0
    settings = math.prod(layout.parent_sets.sizes[layout.n_context : layout.n_context + len(problem.manipulable)])
    if settings > SETTINGS_COMPILED:  # a sampled structure may depend on all of them
        return False
    return is_listed and sets_all and all(action in true.actions for action in problem.actions)


class StructureLearning:
    """One replication of a policy that learns the structure."""

    def __init__(
        self,
        policy: StructureThompsonSampling,
        scene: Scene,
        statistic: ParentSetCounts,
        flat: arrays.FlatEnvironment,
        costs: arrays.ActionCosts | None,
    ) -> None:
        self._policy, self._statistic = policy, statistic
        problem = scene.problem
        self._layout = structure_layout(problem)
        self._sets = problem.compute_once(
            "candidate set arrays", lambda: build_candidate_set_arrays(self._layout.parent_sets)
        )
        self._choices = arrays.as_ints(problem.actions.array())
        self._env = self._flatten(scene, flat)
        self._rule = StructureRule(policy.samples, policy.prior == "beta", costs)

    def enter(self, scene: Scene, flat: arrays.FlatEnvironment) -> None:
        """Play in another environment from now on; counts are kept."""
        self._env = self._flatten(scene, flat)

    def _flatten(self, scene: Scene, flat: arrays.FlatEnvironment) -> StructureEnvironment:
        env = scene.env
        course = env.compute_once("course of all variables", lambda: build_mechanism_arrays(env, None))
        place = {mechanism.name: i for i, mechanism in enumerate(env.mechanisms)}
        observed = arrays.as_ints([place[name] for name in scene.problem.must_observe])
        return StructureEnvironment(course, self._choices, observed, flat.mean, flat.gap, flat.noise)

    def last_round(self, start: int, end: int) -> int:
        """The end of a segment at most: tables of functions of counts have another resolution from there on."""
        return min(end, start + self._tables_capacity() - self._statistic.rounds)

    def _tables_capacity(self) -> int:
        sets = self._layout.parent_sets
        return sets.evidence(self._statistic, self._policy.prior).tables.capacity

    def build_call(self) -> tuple[str, tuple[Any, ...]]:
        """The kind of rounds, and their arguments."""
        statistic, sets = self._statistic, self._layout.parent_sets
        evidence = sets.evidence(statistic, self._policy.prior)
        tables, reward_sets = evidence.tables, len(sets.reward_target.sets)
        sums = StructureSums(
            statistic.seen,
            statistic.count,
            statistic.total,
            statistic.pooled,
            evidence.row_counts,
            evidence.of_cpts,
            evidence.of_rewards.reshape(-1, reward_sets),
            tables.log_gamma,
            tables.shrinkage,
            math.ldexp(1.0, -tables.bits),
        )
        return "learned structure", (self._rule, self._sets, self._env, sums)

    def advance(self) -> None:
        """After a segment: what was computed from the counts is computed again when it is needed."""
        self._statistic.forget()


def build_candidate_set_arrays(sets: ParentSets) -> CandidateSetArrays:
    """The candidate sets as arrays."""
    targets = sets.targets
    all_sets = [members for target in targets for members in target.sets]
    starts = [target.first_row + target.starts[:-1] for target in targets]
    entries = [target.offset + target.starts[:-1] * target.states for target in targets[:-1]]
    return CandidateSetArrays(
        sizes=arrays.as_ints(sets.sizes),
        observed=len(sets.observed),
        first_set=arrays.as_ints(np.cumsum([0, *(len(target.sets) for target in targets)])),
        members=arrays.build_ragged(all_sets, np.int64),
        strides=arrays.build_ragged(
            [
                row[list(members)]
                for target in targets
                for members, row in zip(target.sets, target.strides, strict=True)
            ],
            np.int64,
        ),
        masks=arrays.as_ints([mask for target in targets for mask in target.masks]),
        rows=arrays.as_ints([math.prod(sets.sizes[k] for k in members) for members in all_sets]),
        first_row=arrays.as_ints(np.concatenate(starts)),
        first_entry=arrays.as_ints(np.concatenate([*entries, np.zeros(len(sets.reward_target.sets))])),
        kinds=arrays.as_ints([sets.starts.index(target.states) for target in targets[:-1]]),
        log_prior=sets.reward_target.log_prior,
    )
