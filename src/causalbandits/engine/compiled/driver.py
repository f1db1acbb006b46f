"""The policies and environments supported by the compiled rounds, and the calls of these."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from causalbandits.engine.compiled import arrays
from causalbandits.engine.compiled.arrays import Record
from causalbandits.engine.compiled.cpt_learning import (
    CptLearning,
    StructureLearning,
    can_learn,
    can_learn_structure,
)
from causalbandits.engine.compiled.kernel_arguments import (
    Scene,
    build_action_costs,
    build_call,
    build_scene,
    plays_by_block,
    true_environment,
)
from causalbandits.engine.driver import POLICY, WORLD, Moments, Rounds, Trajectory, Watch, stream
from causalbandits.environments import (
    LISTED,
    AdditiveMean,
    AnyEnvironment,
    BernoulliReward,
    Environment,
    GaussianReward,
    LinearReward,
    StudentReward,
    segments_of,
)
from causalbandits.policies import (
    FAMILIES,
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
from causalbandits.policies.cpts import CellsAndCPTs
from causalbandits.policies.exploration import BatchedCells
from causalbandits.policies.linear import LinearPolicy
from causalbandits.policies.posteriors import MainEffectCells
from causalbandits.policies.structure import ParentSetCounts, StructureThompsonSampling
from causalbandits.problem import Problem
from causalbandits.problem.candidates import ProductActions


class Recorder:
    """The sums of regret and reward after the requested rounds; rounds are played in segments."""

    def __init__(self, rounds: Rounds, positions: int | None) -> None:
        self._sums = Trajectory(np.empty(len(rounds) + 1), np.empty(len(rounds) + 1))
        self.plays = np.zeros(positions or 1, dtype=np.int64)
        """Plays by position if the number of positions is given; otherwise the total."""
        self._rounds, self._totals, self._counts_plays = rounds, np.zeros(2), int(positions is not None)

    @property
    def sums(self) -> Trajectory:
        """The sums after each requested round."""
        return Trajectory(self._sums.regret[:-1], self._sums.reward[:-1])

    def record(self, start: int, end: int) -> Record:
        """The accumulators for the rounds of a segment."""
        first, last = np.searchsorted(self._rounds, (start, end), side="right")
        checkpoints = np.append(self._rounds[first:last] - start, 0)
        sums = self._sums.regret[first : last + 1], self._sums.reward[first : last + 1], self._totals
        slot = np.zeros(1, dtype=np.int64)
        return Record(end - start, checkpoints, *sums, slot, self._counts_plays, self.plays)


CELL_POLICIES = {kind for kind in FAMILIES.values() if issubclass(kind, CellPolicy) and kind.has_kernel}
LINEAR_POLICIES = {CausalLinearUCB, CausalLinearThompsonSampling, LinUCB, LinTS}
"""Exact classes only, because subclasses may redefine anything."""

ROUNDS_AT_ONCE, NUMBERS_AT_ONCE = 2**16, 2**29
"""The maximum number of rounds and of array elements read per segment, which takes about a second; rounds are a
multiple of `primitives.RECOMPUTE_EVERY`, so that segments change no bit."""

CONTEXTS_COMPILED = 2**8
"""The maximum number of contexts laid out in advance; with more, the plain driver computes contexts as they occur."""


def can_play(env: AnyEnvironment, policy: AnyPolicy, problem: Problem) -> bool:
    """Whether the compiled driver supports this run; its numbers equal the plain driver's bit for bit."""
    environments = [segment.env for segment in segments_of(env)]
    if not all(_can_play_constant(each, policy, problem) for each in environments):
        return False
    if not env.problem.context or len(environments) == 1:
        return True
    # a context that occurs in some of the environments only has no constant position
    scenes = [build_scene(each, policy, problem) for each in environments]
    return len({(scene.context_codes, scene.policy_contexts) for scene in scenes}) == 1


def _can_play_constant(env: Environment, policy: AnyPolicy, problem: Problem) -> bool:
    has_compiled_reward = type(env.reward) in (BernoulliReward, GaussianReward, LinearReward, StudentReward)
    if isinstance(policy, StructureThompsonSampling) and policy.changes is not None:
        return False
    if has_compiled_reward and type(policy) is StructureThompsonSampling:
        return can_learn_structure(env, policy, problem)
    if not has_compiled_reward or type(policy) not in CELL_POLICIES | LINEAR_POLICIES:
        return False
    if isinstance(policy, CellPolicy) and policy.changes is not None:
        return False
    if (
        isinstance(policy, GittinsPolicy | CausalTSUCB)
        and policy.has_main_effects
        and not isinstance(policy, CausalGittins)
    ):
        return False
    if problem.unit == "actions":
        return not policy.traits.learns_cpts and _can_play_by_actions(env, policy, problem)
    if problem.parents != env.problem.parents:
        return False
    if policy.traits.unit_rewards and env.reward.bounded is not True:
        return False
    if env.problem.contexts.size > CONTEXTS_COMPILED:
        return False
    if Moments(env, policy, problem).infeasible:
        return False
    scene = build_scene(env, policy, problem)
    if policy.traits.learns_cpts and (env.shown or _learns_scales(policy) or not can_learn(scene)):
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
    """Whether the policy estimates a mean per action for some or all of the environment's actions."""
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
    env: AnyEnvironment,
    policy: AnyPolicy,
    problem: Problem,
    rounds: Rounds,
    seed: int,
    replication: int,
    watch: Watch | None = None,
) -> Trajectory:
    """As `driver.play`, compiled, in segments: between them the user can interrupt, `watch` is called, and the
    environment changes."""
    from causalbandits.engine.compiled.kernel_cache import kernel
    from causalbandits.engine.compiled.primitives import RECOMPUTE_EVERY

    streams = arrays.Streams(stream(seed, replication, POLICY), stream(seed, replication, WORLD))
    (_, first), *changes = segments_of(env)
    scene, statistic = build_scene(first, policy, problem), policy.init(problem)
    counts_plays = watch is not None and scene.size <= LISTED
    learning = _build_learning(policy, scene, statistic, streams)
    structure = _build_structure_learning(policy, scene, statistic)
    start, step = 0, RECOMPUTE_EVERY * max(1, rounds_at_once(scene, policy) // RECOMPUTE_EVERY)
    recorder = Recorder(rounds, scene.size if counts_plays else None)
    while start < rounds[-1]:
        if changes and changes[0].start == start + 1:
            scene = build_scene(changes.pop(0).env, policy, problem)
            if learning is not None:
                learning.enter(scene, true_environment(scene, policy))
            if structure is not None:
                structure.enter(scene, true_environment(scene, policy))
        slot = int(np.searchsorted(rounds, start, side="right"))
        end = min(start + step, int(rounds[slot if watch is not None else -1]))
        if changes:
            end = min(end, changes[0].start - 1)
        if isinstance(statistic, BatchedCells):
            end = min(end, statistic.batch_end)
        if structure is not None:
            end = structure.last_round(start, end)
            name, arguments = structure.build_call()
        else:
            name, arguments = build_call(policy, scene, statistic, range(start, end))
        if learning is not None:
            name, (rule, *_) = "thompson with learned CPTs", arguments
            arguments = rule, *learning.arguments()
        stopped = kernel(name)(*arguments, streams, recorder.record(start, end))
        if learning is not None:
            end = start + learning.advance(stopped)
        if structure is not None:
            structure.advance()
        statistic.rounds, start = end, end
        if isinstance(statistic, MainEffectCells):
            statistic.forget_posterior()
        if isinstance(statistic, BatchedCells):
            statistic.start_next_batch_if_due()
        if watch is not None and end == rounds[slot]:
            watch(slot, statistic, partial(_plays_by_number, recorder.plays, scene))
    return recorder.sums


def _build_learning(
    policy: AnyPolicy, scene: Scene, statistic: Statistic, streams: arrays.Streams
) -> CptLearning | None:
    if isinstance(policy, CausalThompsonSampling) and isinstance(statistic, CellsAndCPTs):
        return CptLearning(policy, scene, statistic, streams, true_environment(scene, policy))
    return None


def _build_structure_learning(policy: AnyPolicy, scene: Scene, statistic: Statistic) -> StructureLearning | None:
    if isinstance(policy, StructureThompsonSampling) and isinstance(statistic, ParentSetCounts):
        costs = build_action_costs(scene, True)
        return StructureLearning(policy, scene, statistic, true_environment(scene, policy), costs)
    return None


def rounds_at_once(scene: Scene, policy: AnyPolicy) -> int:
    """The number of rounds played before the next check for an interrupt."""
    search, causal = scene.moments[0].situation.candidates, isinstance(policy, CellPolicy) and policy.causal
    if plays_by_block(scene, policy) and isinstance(search, ProductActions):
        return min(ROUNDS_AT_ONCE, NUMBERS_AT_ONCE // sum(rows.size for rows in search.rows))
    width = scene.problem.configurations if causal else 1
    if isinstance(policy, LinearPolicy):
        width = policy.dimension(scene.problem) ** 2
    most = max(moment.situation.size for moment in scene.moments)
    return min(ROUNDS_AT_ONCE, NUMBERS_AT_ONCE // (most * width))


def _plays_by_number(plays: npt.NDArray[np.int64], scene: Scene) -> npt.NDArray[np.int64]:
    """Plays by position, converted to plays of the true problem's actions."""
    actions = scene.env.problem.actions
    counts = np.zeros(actions.size, dtype=np.int64)
    for moment, first in zip(scene.moments, scene.first, strict=False):
        context_plays = plays[first : first + moment.situation.size]
        for position in np.flatnonzero(context_plays).tolist():
            counts[actions.rank(moment.situation.action(position).choices)] += context_plays[position]
    return counts
