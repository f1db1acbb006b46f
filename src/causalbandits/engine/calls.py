"""Which rounds a policy plays compiled, and on what: the rule, its table, the world and what is kept."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from causalbandits._types import Array, is_real
from causalbandits.engine import design_tables, layout, tables, worth_tables
from causalbandits.engine.driver import Moment
from causalbandits.engine.scene import Scene, by_block
from causalbandits.policies import AnyPolicy, CausalLinearThompsonSampling, CausalLinearUCB
from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.designed import CausalDesign
from causalbandits.policies.effects import EffectCells
from causalbandits.policies.elimination import BatchedCells, CausalElimination
from causalbandits.policies.gittins import BeliefPolicy, CausalGittins, CausalScreen, WorthPolicy, patience
from causalbandits.policies.linear import LinearPolicy
from causalbandits.policies.posterior import SamplingPolicy
from causalbandits.policies.rates import BETA_MOMENTS, BETA_PAIRS, RateCells
from causalbandits.policies.statistics import Cells, Regression, ScaledCells, Statistic
from causalbandits.policies.tracking import CausalTrackAndStop
from causalbandits.policies.ts_ucb import CausalTSUCB
from causalbandits.problem.combinations import Combinations
from causalbandits.problem.design import distributions
from causalbandits.problem.features import AdditiveFeatures
from causalbandits.problem.projection import Projection
from causalbandits.problem.search import project_some
from causalbandits.world.rewards import AdditiveMean

FREE = tables.Priced(np.zeros(0), 0.0)
"""What nothing costs."""

Call = tuple[str, tuple[Any, ...]]
"""Which rounds, and their first four arguments: rule, table, world, what is kept."""


def call_of(policy: AnyPolicy, scene: Scene, statistic: Statistic, told: range) -> Call:
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
        _index_at(policy, cells), policy.causal, moving, explorations, draws, _priced(scene, policy.weighs_costs)
    )
    tree = scene.problem.remember(("tree", policy.searches_all, scene.known), lambda: _tree(scene))
    tree = tree if policy.causal else tree._replace(cells=_own_cells(scene))
    arguments = (rule, tree, true_world(scene, policy), _sums(cells))
    return ("drawn" if not settled else "settled" if policy.causal else "settled actions"), arguments


def _index_at(policy: CellPolicy, cells: Cells) -> Any:
    """The index's parameters, none of them a whole number: for `prior_scale=2` nothing is compiled that 2.0 has."""
    p: Any = policy.index_at(cells)
    return p._make(float(value) if is_real(value) else value for value in p)


def _own_cells(scene: Scene) -> tables.Ragged | None:
    """Every action's, in every context; None where there is one."""
    if len(scene.moments) == 1:
        return None
    return tables.ragged([np.arange(moment.situation.size) for moment in scene.moments], np.int64)


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
    rule = worth_tables.WorthRule(_index_at(policy, cells), moving, patiences, draws, priced)
    world, sums = true_world(scene, policy), _sums(cells)
    if isinstance(cells, EffectCells):
        rows = scene.problem.remember(("rows", scene.known), lambda: _rows(scene))
        return "worth by effects", (rule, rows, world, sums)
    tree = scene.problem.remember(("tree", False, scene.known), lambda: _tree(scene))
    screens, weighs = isinstance(policy, CausalScreen), isinstance(policy, CausalGittins)
    return ("worth" if weighs else "screened" if screens else "promised"), (rule, tree, world, sums)


def _designed(policy: CausalDesign | CausalElimination | CausalTrackAndStop, scene: Scene, cells: Cells) -> Call:
    world, sums = true_world(scene, policy), tables.CellSums(cells.count, cells.total)
    situations = [moment.situation for moment in scene.moments]
    if isinstance(policy, CausalTrackAndStop):
        rows = scene.problem.remember(
            ("rows of a design", scene.known),
            lambda: design_tables.design_rows([distributions(own) for own in situations]),
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


def _tree(scene: Scene) -> tables.FlatTree:
    if scene.problem.learns == "actions":  # nobody looks at it
        projections = [_true_projection(moment) for moment in scene.moments]
        return layout.tree_of(projections, scene.env.problem.configurations)
    projections = [moment.situation.search.projection for moment in scene.moments]
    return layout.tree_of(projections, scene.problem.configurations)


def _linear(policy: LinearPolicy, scene: Scene, statistic: Regression, told: range) -> Call:
    kept, env = tables.Rotated(statistic.R, statistic.u), scene.env
    by_rows = by_block(scene, policy)
    rule = _linear_rule(policy, len(statistic.u), told, _priced(scene, not by_rows))
    if by_rows:
        features = policy.resolved(scene.problem)
        features_by_block = env.remember(("by block", features), lambda: _features_by_block(scene, policy))
        return "by block", (rule, features_by_block, _unlisted_world(scene, policy), kept)
    key = "regressors", policy.feature_key(scene.problem), scene.known
    regressors = scene.problem.remember(key, lambda: _regressors(scene, policy))
    return "linear", (rule, regressors, true_world(scene, policy), kept)


def _features_by_block(scene: Scene, policy: LinearPolicy) -> tables.ByBlock:
    features = [policy.resolved(moment.situation.problem) for moment in scene.moments]
    additive = [own for own in features if isinstance(own, AdditiveFeatures)]
    return layout.by_block_of([moment.env for moment in scene.moments], additive, _searches(scene))


def _searches(scene: Scene) -> list[Combinations]:
    searches = [moment.situation.search for moment in scene.moments]
    return [search for search in searches if isinstance(search, Combinations)]


def _regressors(scene: Scene, policy: LinearPolicy) -> tables.Regressors:
    means = [policy.action_features(moment.situation) for moment in scene.moments]
    return layout.regressors_of(means, policy.configuration_features(scene.problem))


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


def _unlisted_world(scene: Scene, policy: AnyPolicy) -> tables.FlatWorld:
    env = scene.moments[0].env
    if not isinstance(env.mean, AdditiveMean):
        return true_world(scene, policy)
    return scene.env.remember(
        "world by block",
        lambda: layout.world_by_block(_before(scene), env, [own.rows for own in _searches(scene)], scene.first),
    )


def _before(scene: Scene) -> tables.Before:
    return layout.before_of(scene.env, scene.told)


def true_world(scene: Scene, policy: AnyPolicy) -> tables.FlatWorld:
    """What truly happens under each action that the policy searches, which it may believe to do something else."""

    def make() -> tables.FlatWorld:
        envs = [moment.env for moment in scene.moments]
        projections = [_true_projection(moment) for moment in scene.moments]
        return layout.world_of(_before(scene), envs, projections, [_true_costs(moment) for moment in scene.moments])

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
