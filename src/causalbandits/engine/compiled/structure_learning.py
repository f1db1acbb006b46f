"""The arrays of the compiled rounds that learn the structure, and one replication of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.engine.compiled import arrays
from causalbandits.engine.compiled.cpt_learning import MechanismArrays, build_mechanism_arrays
from causalbandits.environments import LISTED, BernoulliReward, Environment
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
    count: Array
    total: Array
    pooled: Array
    row_counts: arrays.Ints
    of_cpts: arrays.Ints
    of_rewards: arrays.Ints
    """A row for each of `KAPPAS`, or one row for Beta priors."""
    log_gamma: arrays.Ints
    shrinkage: arrays.Ints
    scale: float
    """The unit of the evidence."""


def can_learn_structure(env: Environment, policy: StructureThompsonSampling, problem: Problem) -> bool:
    """Whether the compiled rounds support a policy that learns the structure here: without contexts, and rewards of 0
    and 1 for Beta priors."""
    true = env.problem
    if problem.structure_prior is None or true.context or problem.context or true.constrained_variables:
        return False
    if true.unit == "actions" or (policy.prior == "beta" and type(env.reward) is not BernoulliReward):
        return False
    if problem.manipulable != true.manipulable or not {*problem.must_observe} <= {m.name for m in env.mechanisms}:
        return False
    if max(problem.actions.size, true.configurations) > LISTED:
        return False
    layout, is_listed = structure_layout(problem), isinstance(problem.situation().candidates, AllActions)
    sets_all = len(layout.names) <= VARIABLES_COMPILED and int(layout.action_codes.min(initial=0)) >= 0
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
        env = scene.env
        course = env.compute_once("course of all variables", lambda: build_mechanism_arrays(env, None))
        place = {mechanism.name: i for i, mechanism in enumerate(env.mechanisms)}
        observed = arrays.as_ints([place[name] for name in problem.must_observe])
        choices = arrays.as_ints(problem.actions.array())
        self._env = StructureEnvironment(course, choices, observed, flat.mean, flat.gap, flat.noise)
        self._rule = StructureRule(policy.samples, policy.prior == "beta", costs)

    def last_round(self, start: int, end: int) -> int:
        """The end of a segment at most: tables of functions of counts have another resolution from there on."""
        counted = int(self._statistic.pooled[0])
        return min(end, start + self._tables_capacity() - counted)

    def _tables_capacity(self) -> int:
        sets = self._layout.parent_sets
        return sets.evidence(self._statistic, self._policy.prior).tables.capacity

    def arguments(self) -> tuple[StructureRule, CandidateSetArrays, StructureEnvironment, StructureSums]:
        """The arguments of the rounds."""
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
        return self._rule, self._sets, self._env, sums

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
        masks=arrays.as_ints([sum(1 << k for k in members) for members in all_sets]),
        rows=arrays.as_ints([math.prod(sets.sizes[k] for k in members) for members in all_sets]),
        first_row=arrays.as_ints(np.concatenate(starts)),
        first_entry=arrays.as_ints(np.concatenate([*entries, np.zeros(len(sets.reward_target.sets))])),
        kinds=arrays.as_ints([sets.starts.index(target.states) for target in targets[:-1]]),
        log_prior=sets.reward_target.log_prior,
    )
