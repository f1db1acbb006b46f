"""Which policies and environments the compiled rounds take, and how they are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits.engine import tables
from causalbandits.engine.driver import POLICY, WORLD, Played, Rounds, Watch, stream
from causalbandits.policies import POLICIES, AnyPolicy, CausalLinearThompsonSampling, CausalLinearUCB
from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.linear import LinearPolicy
from causalbandits.policies.statistics import Cells, Regression, Statistic
from causalbandits.policies.thompson import PosteriorPolicy
from causalbandits.problem.features import AdditiveFeatures
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.search import Combinations, project_some
from causalbandits.problem.situation import Situation
from causalbandits.world.environment import LISTED, Environment
from causalbandits.world.rewards import AdditiveMean, BernoulliReward, GaussianReward, LinearReward

CELL_POLICIES = {kind for kind, _ in POLICIES.values() if issubclass(kind, CellPolicy)}
LINEAR_POLICIES = {CausalLinearUCB, CausalLinearThompsonSampling}
"""Subclasses may define anything, so only the library's own policies are taken."""

ROUNDS_AT_ONCE, NUMBERS_AT_ONCE = 2**16, 2**29
"""So many rounds are played at a time, and fewer where they look at more than so many numbers, which takes about a
second; but `kernels.FRESH` of them, or a multiple, so that parts change no bit."""

FREE = tables.Priced(np.zeros(0), 0.0)
"""What nothing costs."""

Call = tuple[str, tuple[Any, ...]]
"""Which rounds, and their first four arguments: rule, table, world, what is kept."""


def can_play(env: Environment, policy: AnyPolicy, problem: CausalBandit) -> bool:
    """Whether the compiled driver plays this; it gives the plain driver's numbers, bit for bit."""
    known = type(env.reward) in (BernoulliReward, GaussianReward, LinearReward)
    if not known or type(policy) not in CELL_POLICIES | LINEAR_POLICIES:
        return False
    if policy.learns_tables or problem.parents != env.problem.parents:
        return False
    if policy.unit_rewards and env.reward.bounded is not True:
        return False
    situation = policy.situation(problem)
    if _by_block(situation, policy):
        if problem is not env.problem:
            return False
        if isinstance(env.mean, AdditiveMean):
            return True
    if problem is not env.problem and not problem.actions.same_as(env.problem.actions):
        return False
    return situation.size <= LISTED and problem.configurations <= LISTED


def play_compiled(
    env: Environment,
    policy: AnyPolicy,
    problem: CausalBandit,
    rounds: Rounds,
    seed: int,
    replication: int,
    watch: Watch | None = None,
) -> Played:
    """As `driver.play`, compiled; in parts, between which the user can interrupt and `watch` can look."""
    from causalbandits.engine.kernels import FRESH, kernel

    streams = tables.Streams(stream(seed, replication, POLICY), stream(seed, replication, WORLD))
    situation, statistic = policy.situation(problem), policy.begin(problem)
    played, sums = Played(np.empty(len(rounds)), np.empty(len(rounds))), np.zeros(2)
    listed = watch is not None and situation.size <= LISTED
    plays = np.zeros(situation.size if listed else 0, dtype=np.int64)
    start, step = 0, FRESH * max(1, rounds_at_once(situation, policy) // FRESH)
    while start < rounds[-1]:
        slot = int(np.searchsorted(rounds, start, side="right"))
        end = min(start + step, int(rounds[slot if watch is not None else -1]))
        within = slice(slot, int(np.searchsorted(rounds, end, side="right")))
        name, arguments = _call(env, policy, situation, statistic, range(start, end))
        kept = played.regret[within], played.reward[within]
        record = tables.Record(end - start, rounds[within] - start, *kept, sums, plays)
        kernel(name)(*arguments, streams, record)
        statistic.rounds, start = end, end
        if watch is not None and end == rounds[slot]:
            watch(slot, statistic, lambda: _by_number(plays, situation, env.problem))
    return played


def rounds_at_once(situation: Situation, policy: AnyPolicy) -> int:
    """How many rounds may be played before the user is listened to again."""
    search, causal = situation.search, isinstance(policy, CellPolicy) and policy.causal
    if _by_block(situation, policy) and isinstance(search, Combinations):
        return min(ROUNDS_AT_ONCE, NUMBERS_AT_ONCE // sum(rows.size for rows in search.rows))
    width = situation.problem.configurations if causal else 1
    if isinstance(policy, LinearPolicy):
        width = policy.resolved(situation.problem).dimension ** 2
    return min(ROUNDS_AT_ONCE, NUMBERS_AT_ONCE // (situation.size * width))


def _by_number(plays: npt.NDArray[np.int64], situation: Situation, true: CausalBandit) -> npt.NDArray[np.int64]:
    """Plays of positions as plays of the true problem's actions."""
    counts = np.zeros(true.actions.size, dtype=np.int64)
    for position in np.flatnonzero(plays).tolist():
        counts[true.actions.rank(situation.action(position).choices)] += plays[position]
    return counts


def _call(env: Environment, policy: AnyPolicy, situation: Situation, statistic: Statistic, told: range) -> Call:
    """The rounds before which `told` rewards had come in."""
    if isinstance(policy, CellPolicy) and isinstance(statistic, Cells):
        return _cells(env, policy, situation, statistic, told)
    if isinstance(policy, LinearPolicy) and isinstance(statistic, Regression):
        return _linear(env, policy, situation, statistic, told)
    raise TypeError(f"{policy!r} cannot be played compiled.")


def _cells(env: Environment, policy: CellPolicy, situation: Situation, cells: Cells, told: range) -> Call:
    settled = not policy.randomised and isinstance(policy, HorizonPolicy) and policy.horizon is not None
    moving = not policy.randomised and not settled
    explorations = np.array([policy.exploration(n) for n in (told if moving else [0])])
    draws = policy.draws if isinstance(policy, PosteriorPolicy) else 1
    priced = _priced(situation) if policy.weighs_costs else FREE
    rule = tables.CellRule(policy.index_parameters, policy.causal, moving, explorations, draws, priced)
    tree = situation.remember("tree", lambda: tables.tree_of(situation.search.projection))
    arguments = (rule, tree, _world(env, situation), tables.CellSums(cells.count, cells.total))
    return ("settled" if settled else "drawn"), arguments


def _linear(env: Environment, policy: LinearPolicy, situation: Situation, statistic: Regression, told: range) -> Call:
    features = policy.resolved(situation.problem)
    kept, search = tables.Rotated(statistic.R, statistic.u), situation.search
    if _by_block(situation, policy) and isinstance(features, AdditiveFeatures) and isinstance(search, Combinations):
        rule = _linear_rule(policy, features.dimension, told, FREE)
        by_block = env.remember(("by block", features), lambda: tables.by_block_of(env, features, search))
        return "by block", (rule, by_block, _unlisted_world(env, situation, search), kept)
    rule = _linear_rule(policy, features.dimension, told, _priced(situation))
    regressors = situation.remember(
        ("regressors", features),
        lambda: tables.regressors_of(situation.problem, features, policy.action_features(situation)),
    )
    return "linear", (rule, regressors, _world(env, situation), kept)


def _priced(situation: Situation) -> tables.Priced:
    """What the searched actions cost."""
    costs = situation.problem.costs
    return FREE if situation.costs is None or costs is None else tables.Priced(situation.costs, costs.largest)


def _linear_rule(policy: LinearPolicy, dimension: int, told: range, priced: tables.Priced) -> tables.LinearRule:
    observed = policy.regressor == "observed"
    if isinstance(policy, CausalLinearThompsonSampling):
        return tables.LinearRule(True, observed, policy.spread, np.zeros(1), policy.draws, priced)
    if isinstance(policy, CausalLinearUCB):
        betas = np.array([policy.beta(dimension, n) for n in ([0] if policy.horizon is not None else told)])
        return tables.LinearRule(False, observed, 0.0, betas, 1, priced)
    raise TypeError(f"{policy!r} cannot be played compiled.")


def _by_block(situation: Situation, policy: AnyPolicy) -> bool:
    return isinstance(policy, CausalLinearThompsonSampling) and policy.separates(situation)


def _unlisted_world(env: Environment, situation: Situation, search: Combinations) -> tables.FlatWorld:
    if not isinstance(env.mean, AdditiveMean):
        return _world(env, situation)
    return env.remember("world by block", lambda: tables.world_by_block(env, search.rows))


def _world(env: Environment, situation: Situation) -> tables.FlatWorld:
    """What truly happens under each action that the policy searches, which it may believe to do something else."""

    def make() -> tables.FlatWorld:
        true = env.problem
        if situation.problem is true:
            return tables.world_of(env, situation.search.projection, situation.costs)
        actions = situation.search.array()
        costs = None if true.costs is None else true.costs.of_each(actions)
        return tables.world_of(env, project_some(actions, true.blocks, true.shape), costs)

    return env.remember(("world", situation), make)
