"""Compiled rounds of policies that learn the CPTs: in pieces, from one sample of the CPTs to the next.

Between two draws the tree of P(z | a) stays as it is, and when the next is due depends on counts alone (see
`policies.cpts`). So the compiled rounds stop in the very round after which tables are drawn anew; they are drawn and
contracted as everywhere, the tree's columns are written over, and the rounds go on with the same streams.
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
    """Every variable on the way to the parents, causes first: how it comes about, and where it counts."""

    knobs: arrays.Ints
    """Which knob it is; -1 if none."""
    sizes: arrays.Ints
    causes: arrays.Ragged
    """Its causes' places among the variables."""
    strides: arrays.Ragged
    """What a cause's code adds to the number of a row."""
    cdf: arrays.Ragged
    """Its table, rows end to end, each as a cumulative distribution."""
    steps: arrays.Ints
    """What its code adds to the configuration's number: 0 if it is no parent."""
    entries: arrays.Ints
    """Where its table begins among the entries of all arrays,"""
    rows: arrays.Ints
    """and among their rows."""


class LearnedTableWorld(NamedTuple):
    """What happens to every variable, what it is worth, and what it is less than the best."""

    course: MechanismArrays
    choices: arrays.Ints
    """By searched action and knob."""
    mean: Array
    gap: Array
    noise: arrays.RewardNoise


class LearnedTableSums(NamedTuple):
    """`policies.cpts.CellsAndCPTs`, and when tables are drawn anew."""

    counts: Array
    totals: Array
    seen: Array
    of_rows: Array
    """How often each row was seen."""
    limits: Array
    """From which count of a row on tables are drawn anew,"""
    told: int
    """and after how many rounds, of which so many"""
    due: float
    """have been told."""


def can_learn(scene: Scene) -> bool:
    """Whether the compiled rounds play a policy that learns tables here: where it is told of all that happens."""
    problem, true = scene.problem, scene.env.problem
    return not (true.context or problem.context or true.constrained_variables) and problem.is_same_except_cpts(true)


class TableLearning:
    """One replication: its statistic, and the tree that is written over."""

    def __init__(
        self,
        policy: CausalThompsonSampling,
        scene: Scene,
        cells: CellsAndCPTs,
        streams: arrays.Streams,
        world: arrays.FlatWorld,
    ) -> None:
        self._policy, self._cells, self._rng = policy, cells, streams.policy
        ((self._situation, env),) = scene.moments
        self._tables, search = learned_cpts(scene.problem), self._situation.candidates
        self._tree = arrays.build_tree([search.projection], scene.problem.configurations)
        mechanisms = env.compute_once(("course", scene.problem), lambda: build_mechanism_arrays(env, self._tables))
        choices = np.asarray(search.array(), dtype=np.int64)
        self._world = LearnedTableWorld(mechanisms, choices, world.mean, world.gap, world.noise)

    def arguments(self) -> tuple[arrays.FlatTree, LearnedTableWorld, LearnedTableSums]:
        """What the rounds are called with, but for the rule: the tree under the tables that were drawn last."""
        projection = self._policy.sample_situation(self._situation, self._cells, self._rng).candidates.projection
        np.concatenate([level.columns.reshape(-1) for level in projection.tree[0]], out=self._tree.columns)
        cells, schedule = self._cells, ResamplingSchedule(self._tables, self._cells)
        counts, limits = np.array(schedule.counts), np.array(schedule.limits)
        sums = LearnedTableSums(
            cells.count, cells.total, cells.seen, counts, limits, cells.rounds, float(schedule.rounds)
        )
        return self._tree, self._world, sums

    def advance(self, stopped: tuple[int, bool]) -> int:
        """How many rounds were played; tables are drawn anew if that is due."""
        played, due = stopped
        self._cells.rounds += played
        if due:
            resample_cpts(self._cells)
        return played


def build_mechanism_arrays(env: Environment, learned: LearnedCPTs) -> MechanismArrays:
    """How things come about in an environment, and where they count in what is learnt."""
    mechanisms, problem = env.mechanisms, env.problem
    place = {mechanism.name: i for i, mechanism in enumerate(mechanisms)}
    step = {name: math.prod(problem.shape[i + 1 :]) for i, name in enumerate(problem.parents)}
    sizes = [[size for _, size in mechanism.causes] for mechanism in mechanisms]
    entries = [learned.first_entry(mechanism.name) for mechanism in mechanisms]
    return MechanismArrays(
        knobs=arrays.as_ints([-1 if m.knob is None else m.knob for m in mechanisms]),
        sizes=arrays.as_ints([len(problem.model[m.name].states) for m in mechanisms]),
        causes=arrays.build_ragged([[place[cause] for cause, _ in m.causes] for m in mechanisms], np.int64),
        strides=arrays.build_ragged(
            [[math.prod(cause_sizes[i + 1 :]) for i in range(len(cause_sizes))] for cause_sizes in sizes], np.int64
        ),
        cdf=arrays.build_ragged([np.concatenate(m.cdfs) for m in mechanisms]),
        steps=arrays.as_ints([step.get(m.name, 0) for m in mechanisms]),
        entries=arrays.as_ints(entries),
        rows=arrays.as_ints(learned.row_of[entries]),
    )
