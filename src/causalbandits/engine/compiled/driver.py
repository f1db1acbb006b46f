"""Which policies and environments the compiled rounds take, and how they are called."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from causalbandits.engine.compiled import arrays
from causalbandits.engine.compiled.arrays import Ints, Record
from causalbandits.engine.compiled.dispatch import Scene, build_call, build_scene, plays_by_block, true_world
from causalbandits.engine.compiled.learned_arrays import TableLearning, can_learn
from causalbandits.engine.driver import POLICY, WORLD, Moments, Rounds, Trajectory, Watch, stream
from causalbandits.environments import (
    LISTED,
    AdditiveMean,
    BernoulliReward,
    Environment,
    GaussianReward,
    LinearReward,
    StudentReward,
)
from causalbandits.policies import (
    POLICIES,
    AnyPolicy,
    CausalGittins,
    CausalLinearThompsonSampling,
    CausalLinearUCB,
    CausalThompsonSampling,
    LinTS,
    LinUCB,
    Statistic,
)
from causalbandits.policies.cells import ROWS_LIMIT, CausalTSUCB, CellPolicy, GittinsPolicy, SamplingPolicy
from causalbandits.policies.exploration import BatchedCells
from causalbandits.policies.linear import LinearPolicy
from causalbandits.policies.posteriors import MainEffectCells
from causalbandits.policies.tables import CellsAndTables
from causalbandits.problem import Problem
from causalbandits.problem.candidates import ProductActions

# What compiled rounds write down, round by round, and the sums that are kept of it after some of them.


class Recorder:
    """Rounds are played in parts; there is room for the longest of them."""

    def __init__(self, rounds: Rounds, longest: int) -> None:
        self.sums = Trajectory(np.empty(len(rounds)), np.empty(len(rounds)))
        """After each of the rounds that are asked for."""
        self._rounds, self._totals = rounds, [0.0, 0.0]
        self._record = Record(0, np.empty(longest), np.empty(longest), np.empty(longest, dtype=np.int64))

    def record(self, rounds: int) -> Record:
        """Where so many rounds are written down."""
        return self._record._replace(last=rounds)

    def add_sums(self, start: int, end: int, plays: Ints) -> None:
        """Keep the sums of a part; and count what was played, unless there is no room for that."""
        first, last = np.searchsorted(self._rounds, (start, end), side="right")
        of_part, checkpoint_offsets = slice(0, end - start), self._rounds[first:last] - start - 1
        for i, recorded in enumerate((self._record.gaps, self._record.rewards)):
            part = recorded[of_part]
            part[0] += self._totals[i]
            np.cumsum(part, out=part)  # one after another, as the plain driver adds
            self.sums[i][first:last], self._totals[i] = part[checkpoint_offsets], part[-1]
        if len(plays):
            plays += np.bincount(self._record.played[of_part], minlength=len(plays))


CELL_POLICIES = {kind for kind, _ in POLICIES.values() if issubclass(kind, CellPolicy) and kind.has_kernel}
LINEAR_POLICIES = {CausalLinearUCB, CausalLinearThompsonSampling, LinUCB, LinTS}
"""Subclasses may define anything, so only the library's own policies are taken."""

ROUNDS_AT_ONCE, NUMBERS_AT_ONCE = 2**16, 2**29
"""So many rounds are played at a time, and fewer where they look at more than so many numbers, which takes about a
second; but `kernels.RECOMPUTE_EVERY` of them, or a multiple, so that parts change no bit."""

CONTEXTS_COMPILED = 2**8
"""Up to so many contexts are laid out beforehand; of more, the plain driver looks at those that come."""


def can_play(env: Environment, policy: AnyPolicy, problem: Problem) -> bool:
    """Whether the compiled driver plays this; it gives the plain driver's numbers, bit for bit."""
    has_compiled_reward = type(env.reward) in (BernoulliReward, GaussianReward, LinearReward, StudentReward)
    if not has_compiled_reward or type(policy) not in CELL_POLICIES | LINEAR_POLICIES:
        return False
    if (
        isinstance(policy, GittinsPolicy | CausalTSUCB)
        and policy.has_main_effects
        and not isinstance(policy, CausalGittins)
    ):
        return False
    if problem.unit == "actions":
        return not policy.traits.learns_tables and _can_play_by_actions(env, policy, problem)
    if problem.parents != env.problem.parents:
        return False
    if policy.traits.unit_rewards and env.reward.bounded is not True:
        return False
    if env.problem.contexts.size > CONTEXTS_COMPILED:
        return False
    if Moments(env, policy, problem).infeasible:
        return False
    scene = build_scene(env, policy, problem)
    if policy.traits.learns_tables and (_learns_scales(policy) or not can_learn(scene)):
        return False
    if any(moment.situation.problem.is_restricted for moment in scene.moments):
        return False
    if plays_by_block(scene, policy):
        if problem is not env.problem:
            return False
        if isinstance(env.mean, AdditiveMean):
            return True
    if problem is not env.problem and not problem.actions.is_same_as(env.problem.actions):
        return False
    if (
        isinstance(policy, CausalGittins)
        and policy.has_main_effects
        and scene.size * problem.configurations > ROWS_LIMIT
    ):
        return False
    return scene.size <= LISTED and problem.configurations <= LISTED


def _learns_scales(policy: AnyPolicy) -> bool:
    return isinstance(policy, SamplingPolicy) and policy.traits.learns_scales


def _can_play_by_actions(env: Environment, policy: AnyPolicy, problem: Problem) -> bool:
    """Whether a number per action is learnt of some of the world's actions, which need not be all of them."""
    if not isinstance(policy, CellPolicy) or env.problem.unit == "actions":
        return False
    if policy.traits.unit_rewards and env.reward.bounded is not True:
        return False
    contexts = env.problem.contexts.size
    if contexts > CONTEXTS_COMPILED or (
        contexts > 1 and (env.problem.constrained_variables or problem.constrained_variables)
    ):
        return False
    sizes = problem.actions.size, env.problem.configurations
    return max(sizes) <= LISTED and all(do in env.problem.actions for do in problem.actions)


def play_compiled(
    env: Environment,
    policy: AnyPolicy,
    problem: Problem,
    rounds: Rounds,
    seed: int,
    replication: int,
    watch: Watch | None = None,
) -> Trajectory:
    """As `driver.play`, compiled; in parts, between which the user can interrupt and `watch` can look."""
    from causalbandits.engine.compiled.compile import kernel
    from causalbandits.engine.compiled.primitives import RECOMPUTE_EVERY

    streams = arrays.Streams(stream(seed, replication, POLICY), stream(seed, replication, WORLD))
    scene, statistic = build_scene(env, policy, problem), policy.init(problem)
    counts_plays = watch is not None and scene.size <= LISTED
    plays = np.zeros(scene.size if counts_plays else 0, dtype=np.int64)
    learning = _build_learning(policy, scene, statistic, streams)
    start, step = 0, RECOMPUTE_EVERY * max(1, rounds_at_once(scene, policy) // RECOMPUTE_EVERY)
    recorder = Recorder(rounds, min(step, int(rounds[-1])))
    while start < rounds[-1]:
        slot = int(np.searchsorted(rounds, start, side="right"))
        end = min(start + step, int(rounds[slot if watch is not None else -1]))
        if isinstance(statistic, MainEffectCells):  # what is sought now and then is sought between parts
            end = min(end, start + statistic.rewards_until_fit)
        if isinstance(statistic, BatchedCells):
            end = min(end, statistic.batch_end)
        name, arguments = build_call(policy, scene, statistic, range(start, end))
        if learning is not None:
            name, (rule, *_) = "learnt", arguments
            arguments = rule, *learning.arguments()
        stopped = kernel(name)(*arguments, streams, recorder.record(end - start))
        if learning is not None:
            end = start + learning.advance(stopped)
        recorder.add_sums(start, end, plays)
        statistic.rounds, start = end, end
        if isinstance(statistic, MainEffectCells) and statistic.rewards_until_fit == 0:
            statistic.fit()
        if isinstance(statistic, BatchedCells):
            statistic.start_next_batch_if_due()
        if watch is not None and end == rounds[slot]:
            watch(slot, statistic, lambda: _plays_by_number(plays, scene))
    return recorder.sums


def _build_learning(
    policy: AnyPolicy, scene: Scene, statistic: Statistic, streams: arrays.Streams
) -> TableLearning | None:
    if isinstance(policy, CausalThompsonSampling) and isinstance(statistic, CellsAndTables):
        return TableLearning(policy, scene, statistic, streams, true_world(scene, policy))
    return None


def rounds_at_once(scene: Scene, policy: AnyPolicy) -> int:
    """How many rounds may be played before the user is listened to again."""
    search, causal = scene.moments[0].situation.candidates, isinstance(policy, CellPolicy) and policy.causal
    if plays_by_block(scene, policy) and isinstance(search, ProductActions):
        return min(ROUNDS_AT_ONCE, NUMBERS_AT_ONCE // sum(rows.size for rows in search.rows))
    width = scene.problem.configurations if causal else 1
    if isinstance(policy, LinearPolicy):
        width = policy.dimension(scene.problem) ** 2
    most = max(moment.situation.size for moment in scene.moments)
    return min(ROUNDS_AT_ONCE, NUMBERS_AT_ONCE // (most * width))


def _plays_by_number(plays: npt.NDArray[np.int64], scene: Scene) -> npt.NDArray[np.int64]:
    """Plays of positions as plays of the true problem's actions."""
    actions = scene.env.problem.actions
    counts = np.zeros(actions.size, dtype=np.int64)
    for moment, first in zip(scene.moments, scene.first, strict=False):
        context_plays = plays[first : first + moment.situation.size]
        for position in np.flatnonzero(context_plays).tolist():
            counts[actions.rank(moment.situation.action(position).choices)] += context_plays[position]
    return counts
