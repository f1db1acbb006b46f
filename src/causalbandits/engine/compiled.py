"""Which policies and environments the compiled rounds take, and how they are called."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, Z
from causalbandits.engine import design_tables, tables, worth_tables
from causalbandits.engine.driver import POLICY, WORLD, Moment, Moments, Played, Rounds, Watch, stream
from causalbandits.engine.learning import Learning, can_learn
from causalbandits.policies import POLICIES, AnyPolicy, CausalLinearThompsonSampling, CausalLinearUCB, LinTS, LinUCB
from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.designed import CausalDesign
from causalbandits.policies.effects import EffectCells
from causalbandits.policies.elimination import BatchedCells, CausalElimination
from causalbandits.policies.gittins import BeliefPolicy, CausalGittins, CausalScreen, WorthPolicy, patience
from causalbandits.policies.learnt import LearntCells
from causalbandits.policies.linear import LinearPolicy
from causalbandits.policies.posterior import SamplingPolicy
from causalbandits.policies.rates import BETA_MOMENTS, BETA_PAIRS, RateCells
from causalbandits.policies.statistics import Cells, Regression, ScaledCells, Statistic
from causalbandits.policies.thompson import CausalThompsonSampling
from causalbandits.policies.tracking import CausalTrackAndStop
from causalbandits.policies.ts_ucb import CausalTSUCB
from causalbandits.policies.worth_effects import ROWS_LIMIT
from causalbandits.problem.design import distributions
from causalbandits.problem.features import AdditiveFeatures
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.projection import Projection
from causalbandits.problem.search import Combinations, project_some
from causalbandits.world.environment import LISTED, Environment
from causalbandits.world.rewards import AdditiveMean, BernoulliReward, GaussianReward, LinearReward
from causalbandits.world.student import StudentReward

CELL_POLICIES = {kind for kind, _ in POLICIES.values() if issubclass(kind, CellPolicy) and kind.has_kernel}
LINEAR_POLICIES = {CausalLinearUCB, CausalLinearThompsonSampling, LinUCB, LinTS}
"""Subclasses may define anything, so only the library's own policies are taken."""

ROUNDS_AT_ONCE, NUMBERS_AT_ONCE = 2**16, 2**29
"""So many rounds are played at a time, and fewer where they look at more than so many numbers, which takes about a
second; but `kernels.FRESH` of them, or a multiple, so that parts change no bit."""

FREE = tables.Priced(np.zeros(0), 0.0)
"""What nothing costs."""
CONTEXTS_COMPILED = 2**8
"""Up to so many contexts are laid out beforehand; of more, the plain driver looks at those that come."""

Call = tuple[str, tuple[Any, ...]]
"""Which rounds, and their first four arguments: rule, table, world, what is kept."""


def can_play(env: Environment, policy: AnyPolicy, problem: CausalBandit) -> bool:
    """Whether the compiled driver plays this; it gives the plain driver's numbers, bit for bit."""
    known = type(env.reward) in (BernoulliReward, GaussianReward, LinearReward, StudentReward)
    if not known or type(policy) not in CELL_POLICIES | LINEAR_POLICIES:
        return False
    if isinstance(policy, BeliefPolicy) and policy.has_effects and not isinstance(policy, CausalGittins):
        return False
    if problem.learns == "actions":
        return not policy.learns_tables and _by_actions(env, policy, problem)
    if problem.parents != env.problem.parents:
        return False
    if policy.unit_rewards and env.reward.bounded is not True:
        return False
    if env.problem.contexts.size > CONTEXTS_COMPILED:
        return False
    if Moments(env, policy, problem).left_out:
        return False
    scene = scene_of(env, policy, problem)
    if policy.learns_tables and (_learns_scales(policy) or not can_learn(scene)):
        return False
    if any(moment.situation.problem.is_narrowed for moment in scene.moments):
        return False
    if _by_block(scene, policy):
        if problem is not env.problem:
            return False
        if isinstance(env.mean, AdditiveMean):
            return True
    if problem is not env.problem and not problem.actions.same_as(env.problem.actions):
        return False
    if isinstance(policy, CausalGittins) and policy.has_effects and scene.size * problem.configurations > ROWS_LIMIT:
        return False
    return scene.size <= LISTED and problem.configurations <= LISTED


def _learns_scales(policy: AnyPolicy) -> bool:
    return isinstance(policy, SamplingPolicy) and policy.learns_scales


def _by_actions(env: Environment, policy: AnyPolicy, problem: CausalBandit) -> bool:
    """Whether a number per action is learnt of some of the world's actions, which need not be all of them."""
    if not isinstance(policy, CellPolicy) or env.problem.learns == "actions":
        return False
    if policy.unit_rewards and env.reward.bounded is not True:
        return False
    contexts = env.problem.contexts.size
    if contexts > CONTEXTS_COMPILED or (contexts > 1 and (env.problem.required or problem.required)):
        return False
    sizes = problem.actions.size, env.problem.configurations
    return max(sizes) <= LISTED and all(do in env.problem.actions for do in problem.actions)


class Scene(NamedTuple):
    """A policy's problem and the world it is in, in every context, by the number of the world's."""

    problem: CausalBandit
    env: Environment
    moments: tuple[Moment, ...]
    told: tuple[int, ...]
    """Which context each is for the policy, by number."""

    @property
    def known(self) -> tuple[Z | None, ...]:
        """What the policy knows in each."""
        return tuple(moment.situation.known for moment in self.moments)

    @property
    def size(self) -> int:
        """How many actions are searched, in all contexts together."""
        return sum(moment.situation.size for moment in self.moments)

    @property
    def first(self) -> list[int]:
        """Where each context's actions begin, and the last one's end; all 0 where these are too many to be listed."""
        ends = accumulate((moment.situation.size for moment in self.moments), initial=0)
        return list(ends) if self.size <= LISTED else [0] * (len(self.moments) + 1)


def scene_of(env: Environment, policy: AnyPolicy, problem: CausalBandit) -> Scene:
    """Every context; one that never occurs is shown as one that does."""
    every = policy.searches_all

    def make() -> Scene:
        moments, contexts = Moments(env, policy, problem), env.problem.contexts
        if not contexts.names:
            return Scene(problem, env, (moments.whole,), (0,))
        likely = dict(contexts.likely())
        usual = next(iter(likely))
        found = [moments[codes if codes in likely else usual] for codes in map(contexts.at, range(contexts.size))]
        numbers = [moment.situation.problem.context_number for moment in found]
        return Scene(problem, env, tuple(found), tuple(number or 0 for number in numbers))

    return env.remember(("scene", problem, every, policy.learns_tables), make)


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
    from causalbandits.engine.kernels import FRESH
    from causalbandits.engine.kinds import kernel

    streams = tables.Streams(stream(seed, replication, POLICY), stream(seed, replication, WORLD))
    scene, statistic = scene_of(env, policy, problem), policy.begin(problem)
    played, sums = Played(np.empty(len(rounds)), np.empty(len(rounds))), np.zeros(2)
    listed = watch is not None and scene.size <= LISTED
    plays = np.zeros(scene.size if listed else 0, dtype=np.int64)
    learning = _learning(policy, scene, statistic, streams)
    start, step = 0, FRESH * max(1, rounds_at_once(scene, policy) // FRESH)
    while start < rounds[-1]:
        slot = int(np.searchsorted(rounds, start, side="right"))
        end = min(start + step, int(rounds[slot if watch is not None else -1]))
        if isinstance(statistic, EffectCells):  # what is sought now and then is sought between parts
            end = min(end, start + statistic.left)
        if isinstance(statistic, BatchedCells):
            end = min(end, statistic.batch_end)
        within = slice(slot, int(np.searchsorted(rounds, end, side="right")))
        name, arguments = _call(policy, scene, statistic, range(start, end))
        if learning is not None:
            name, (rule, *_) = "learnt", arguments
            arguments = rule, *learning.arguments()
        kept = played.regret[within], played.reward[within]
        record = tables.Record(end - start, rounds[within] - start, *kept, sums, plays)
        stopped = kernel(name)(*arguments, streams, record)
        if learning is not None:
            end = start + learning.took(stopped)
        statistic.rounds, start = end, end
        if isinstance(statistic, EffectCells) and statistic.left == 0:
            statistic.fit()
        if isinstance(statistic, BatchedCells):
            statistic.turn()
        if watch is not None and end == rounds[slot]:
            watch(slot, statistic, lambda: _by_number(plays, scene))
    return played


def _learning(policy: AnyPolicy, scene: Scene, statistic: Statistic, streams: tables.Streams) -> Learning | None:
    if isinstance(policy, CausalThompsonSampling) and isinstance(statistic, LearntCells):
        return Learning(policy, scene, statistic, streams, _world(scene, policy))
    return None


def rounds_at_once(scene: Scene, policy: AnyPolicy) -> int:
    """How many rounds may be played before the user is listened to again."""
    search, causal = scene.moments[0].situation.search, isinstance(policy, CellPolicy) and policy.causal
    if _by_block(scene, policy) and isinstance(search, Combinations):
        return min(ROUNDS_AT_ONCE, NUMBERS_AT_ONCE // sum(rows.size for rows in search.rows))
    width = scene.problem.configurations if causal else 1
    if isinstance(policy, LinearPolicy):
        width = policy.dimension(scene.problem) ** 2
    most = max(moment.situation.size for moment in scene.moments)
    return min(ROUNDS_AT_ONCE, NUMBERS_AT_ONCE // (most * width))


def _by_number(plays: npt.NDArray[np.int64], scene: Scene) -> npt.NDArray[np.int64]:
    """Plays of positions as plays of the true problem's actions."""
    actions = scene.env.problem.actions
    counts = np.zeros(actions.size, dtype=np.int64)
    for moment, first in zip(scene.moments, scene.first, strict=False):
        own = plays[first : first + moment.situation.size]
        for position in np.flatnonzero(own).tolist():
            counts[actions.rank(moment.situation.action(position).choices)] += own[position]
    return counts


def _call(policy: AnyPolicy, scene: Scene, statistic: Statistic, told: range) -> Call:
    """The rounds before which `told` rewards had come in."""
    if isinstance(policy, BeliefPolicy) and isinstance(statistic, Cells):
        return _worth(policy, scene, statistic, told)
    if isinstance(policy, CausalDesign | CausalElimination | CausalTrackAndStop) and isinstance(statistic, Cells):
        return _designed(policy, scene, statistic)
    if isinstance(policy, CellPolicy) and isinstance(statistic, Cells):
        return _cells(policy, scene, statistic, told)
    if isinstance(policy, LinearPolicy) and isinstance(statistic, Regression):
        return _linear(policy, scene, statistic, told)
    raise TypeError(f"{policy!r} cannot be played compiled.")


def _cells(policy: CellPolicy, scene: Scene, cells: Cells, told: range) -> Call:
    anytime = not policy.randomised and not (isinstance(policy, HorizonPolicy) and policy.horizon is not None)
    settled = not policy.randomised and not anytime and not policy.learns_scales
    moving = anytime or policy.learns_scales
    explorations = np.array([policy.exploration(n) for n in (told if anytime else [0])])
    draws = policy.draws if isinstance(policy, SamplingPolicy) else 1
    rule = tables.CellRule(
        policy.index_at(cells), policy.causal, moving, explorations, draws, _priced(scene, policy.weighs_costs)
    )
    tree = scene.problem.remember(("tree", policy.searches_all, scene.known), lambda: _tree(scene))
    tree = tree if policy.causal else tree._replace(cells=None)
    arguments = (rule, tree, _world(scene, policy), _sums(cells))
    return ("drawn" if not settled else "settled" if policy.causal else "settled actions"), arguments


def _sums(cells: Cells) -> tables.CellSums | tables.ScaledSums | tables.RateSums | tables.EffectSums:
    if isinstance(cells, EffectCells):
        own = cells.count, cells.total, cells.pooled, cells.R, cells.u, cells.ratios, cells.positions
        return tables.EffectSums(*own, *np.empty((2, len(cells.u))), *np.empty((2, len(cells.count))))
    if isinstance(cells, RateCells):
        return tables.RateSums(cells.count, cells.total, cells.weights, BETA_PAIRS, BETA_MOMENTS)
    if isinstance(cells, ScaledCells):
        return tables.ScaledSums(cells.count, cells.total, cells.pooled)
    return tables.CellSums(cells.count, cells.total)


def _worth(policy: BeliefPolicy, scene: Scene, cells: Cells, told: range) -> Call:
    patiences = _patiences(policy.horizon, told) if isinstance(policy, WorthPolicy) else np.zeros(1)
    draws = (
        policy.draws if isinstance(policy, CausalScreen) else policy.samples if isinstance(policy, CausalTSUCB) else 1
    )
    moving, priced = policy.learns_scales, _priced(scene, True)
    rule = worth_tables.WorthRule(policy.index_at(cells), moving, patiences, draws, priced)
    world, sums = _world(scene, policy), _sums(cells)
    if isinstance(cells, EffectCells):
        rows = scene.problem.remember(("rows", scene.known), lambda: _rows(scene))
        return "worth by effects", (rule, rows, world, sums)
    if isinstance(policy, CausalGittins):
        trees = scene.problem.remember(("powers", scene.known), lambda: _power_trees(scene))
        return "worth", (rule, trees, world, sums)
    tree = scene.problem.remember(("tree", False, scene.known), lambda: _tree(scene))
    return ("screened" if isinstance(policy, CausalScreen) else "promised"), (rule, tree, world, sums)


def _designed(policy: CausalDesign | CausalElimination | CausalTrackAndStop, scene: Scene, cells: Cells) -> Call:
    world, sums = _world(scene, policy), tables.CellSums(cells.count, cells.total)
    situations = [moment.situation for moment in scene.moments]
    if isinstance(policy, CausalTrackAndStop):
        rows = scene.problem.remember(
            ("rows", scene.known), lambda: design_tables.design_rows([distributions(own) for own in situations])
        )
        return "tracked", (design_tables.TrackingRule(policy.epsilon, _priced(scene, True)), rows, world, sums)
    if isinstance(policy, CausalElimination):
        assert isinstance(cells, BatchedCells)
        shares = [policy.shares(own, cells.before) for own in situations]
    else:
        shares = [policy.shares(own) for own in situations]
    return "planned", (None, design_tables.planned(shares), world, sums)


@lru_cache(maxsize=256)
def _patiences(horizon: int | None, told: range) -> Array:
    """The same in every replication."""
    return np.array([patience(horizon, n) for n in told])


def _rows(scene: Scene) -> worth_tables.FlatRows:
    projections = [moment.situation.search.projection for moment in scene.moments]
    return worth_tables.flat_rows_of(projections, _tree(scene).cells)


def _power_trees(scene: Scene) -> worth_tables.PowerTrees:
    projections = [moment.situation.search.projection for moment in scene.moments]
    return worth_tables.power_trees_of(projections, scene.problem.configurations)


def _tree(scene: Scene) -> tables.FlatTree:
    if scene.problem.learns == "actions":  # nobody looks at it
        projections = [_true_projection(moment) for moment in scene.moments]
        return tables.tree_of(projections, scene.env.problem.configurations)
    projections = [moment.situation.search.projection for moment in scene.moments]
    return tables.tree_of(projections, scene.problem.configurations)


def _linear(policy: LinearPolicy, scene: Scene, statistic: Regression, told: range) -> Call:
    kept, env = tables.Rotated(statistic.R, statistic.u), scene.env
    by_rows = _by_block(scene, policy)
    rule = _linear_rule(policy, len(statistic.u), told, _priced(scene, not by_rows))
    if by_rows:
        features = policy.resolved(scene.problem)
        by_block = env.remember(("by block", features), lambda: _features_by_block(scene, policy))
        return "by block", (rule, by_block, _unlisted_world(scene, policy), kept)
    key = "regressors", policy.feature_key(scene.problem), scene.known
    regressors = scene.problem.remember(key, lambda: _regressors(scene, policy))
    return "linear", (rule, regressors, _world(scene, policy), kept)


def _features_by_block(scene: Scene, policy: LinearPolicy) -> tables.ByBlock:
    features = [policy.resolved(moment.situation.problem) for moment in scene.moments]
    additive = [own for own in features if isinstance(own, AdditiveFeatures)]
    return tables.by_block_of([moment.env for moment in scene.moments], additive, _searches(scene))


def _searches(scene: Scene) -> list[Combinations]:
    searches = [moment.situation.search for moment in scene.moments]
    return [search for search in searches if isinstance(search, Combinations)]


def _regressors(scene: Scene, policy: LinearPolicy) -> tables.Regressors:
    means = [policy.action_features(moment.situation) for moment in scene.moments]
    return tables.regressors_of(means, policy.configuration_features(scene.problem))


def _priced(scene: Scene, weighed: bool) -> tables.Priced:
    """What the searched actions cost, if that is weighed."""
    costs = scene.problem.costs
    if costs is None or not weighed:
        return FREE
    own = [moment.situation.costs for moment in scene.moments]
    return tables.Priced(np.concatenate([paid for paid in own if paid is not None]), costs.largest)


def _linear_rule(policy: LinearPolicy, dimension: int, told: range, priced: tables.Priced) -> tables.LinearRule:
    observed = policy.regressor == "observed"
    if isinstance(policy, CausalLinearThompsonSampling):
        return tables.LinearRule(True, observed, policy.spread, np.zeros(1), policy.draws, priced)
    if isinstance(policy, CausalLinearUCB):
        betas = np.array([policy.beta(dimension, n) for n in ([0] if policy.horizon is not None else told)])
        return tables.LinearRule(False, observed, 0.0, betas, 1, priced)
    raise TypeError(f"{policy!r} cannot be played compiled.")


def _by_block(scene: Scene, policy: AnyPolicy) -> bool:
    if not isinstance(policy, CausalLinearThompsonSampling):
        return False
    return all(policy.separates(moment.situation) for moment in scene.moments)


def _unlisted_world(scene: Scene, policy: AnyPolicy) -> tables.FlatWorld:
    env = scene.moments[0].env
    if not isinstance(env.mean, AdditiveMean):
        return _world(scene, policy)
    return scene.env.remember(
        "world by block",
        lambda: tables.world_by_block(_before(scene), env, [own.rows for own in _searches(scene)], scene.first),
    )


def _before(scene: Scene) -> tables.Before:
    return tables.before_of(scene.env, scene.told)


def _world(scene: Scene, policy: AnyPolicy) -> tables.FlatWorld:
    """What truly happens under each action that the policy searches, which it may believe to do something else."""

    def make() -> tables.FlatWorld:
        envs = [moment.env for moment in scene.moments]
        projections = [_true_projection(moment) for moment in scene.moments]
        return tables.world_of(_before(scene), envs, projections, [_true_costs(moment) for moment in scene.moments])

    return scene.env.remember(("world", scene.problem, policy.searches_all, policy.learns_tables), make)


def _true_projection(moment: Moment) -> Projection:
    search, true = moment.situation.search, moment.env.problem
    if moment.situation.problem is true:
        return search.projection
    return project_some(search.array(), true.blocks, true.shape)


def _true_costs(moment: Moment) -> Array | None:
    true = moment.env.problem
    if moment.situation.problem is true or true.costs is None:
        return moment.situation.costs if true.costs is not None else None
    return true.costs.of_each(moment.situation.search.array())
