"""Compiled rounds of policies that estimate the CPTs, played in segments from one posterior sample of the CPTs to the
next.

Between two samples the tree of P(z | a) does not change, and the time of the next sample depends on counts alone (see
`policies.cpts`). The compiled rounds therefore stop at the round after which the CPTs are sampled again. Sampling and
contraction use the uncompiled code; the tree's columns are overwritten, and the rounds continue with the same random
streams.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.engine.compiled import arrays
from causalbandits.environments import Environment
from causalbandits.policies import CausalThompsonSampling
from causalbandits.policies.cpts import (
    CellsAndCPTs,
    LearnedCPTs,
    ResamplingSchedule,
    learned_cpts,
    resample_cpts,
)

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
        ((self._situation, env),) = scene.moments
        self._tables, search = learned_cpts(scene.problem), self._situation.candidates
        self._tree = arrays.build_tree([search.projection], scene.problem.configurations)
        mechanisms = env.compute_once(("course", scene.problem), lambda: build_mechanism_arrays(env, self._tables))
        choices = np.asarray(search.array(), dtype=np.int64)
        self._env = LearnedCptEnvironment(mechanisms, choices, flat.mean, flat.gap, flat.noise)

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
