"""The arguments of the compiled rounds: the rule, the projection of the actions, the environment, the statistic."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array, Z, is_real
from causalbandits.engine.compiled import arrays
from causalbandits.engine.driver import Moment, Moments
from causalbandits.environments import LISTED, AdditiveMean, Environment
from causalbandits.policies import (
    AnyPolicy,
    CausalDesign,
    CausalElimination,
    CausalGittins,
    CausalLinearThompsonSampling,
    CausalLinearUCB,
    CausalScreen,
    CausalTrackAndStop,
    CausalTSUCB,
    Cells,
    HorizonPolicy,
    PooledCells,
    Regression,
    Statistic,
)
from causalbandits.policies.cells import CellPolicy, GittinsPolicy, SamplingPolicy, effective_horizon
from causalbandits.policies.exploration import BatchedCells
from causalbandits.policies.linear import LinearPolicy, ScaledRegression
from causalbandits.policies.posteriors import BETA_MOMENTS, BETA_PAIRS, RATIOS, BetaGridCells, MainEffectCells
from causalbandits.problem import AdditiveFeatures, Problem, action_distributions
from causalbandits.problem.candidates import ProductActions, project_actions
from causalbandits.problem.projection import Projection

# A policy's problem and the environment in every context, as laid out for the compiled rounds.


class Scene(NamedTuple):
    """A policy's problem and the environment in every context, indexed by the environment's context number."""

    problem: Problem
    env: Environment
    moments: tuple[Moment, ...]
    policy_contexts: tuple[int, ...]
    """The policy's context for each, by number."""

    @property
    def context_codes(self) -> tuple[Z | None, ...]:
        """The context values that the policy observes in each."""
        return tuple(moment.situation.context_codes for moment in self.moments)

    @property
    def size(self) -> int:
        """The number of searched actions, in all contexts together."""
        return sum(moment.situation.size for moment in self.moments)

    @property
    def first(self) -> list[int]:
        """Where each context's actions begin, and where the last one's end; all 0 if they are too many to enumerate."""
        ends = accumulate((moment.situation.size for moment in self.moments), initial=0)
        return list(ends) if self.size <= LISTED else [0] * (len(self.moments) + 1)


def build_scene(env: Environment, policy: AnyPolicy, problem: Problem) -> Scene:
    """Every context; a context with probability 0 is replaced by one that occurs."""
    searches_all = policy.traits.searches_all

    def build() -> Scene:
        moments, contexts = Moments(env, policy, problem), env.problem.contexts
        if not contexts.names:
            return Scene(problem, env, (moments.unconditional,), (0,))
        likely = dict(contexts.by_probability())
        usual = next(iter(likely))
        by_context = [moments[codes if codes in likely else usual] for codes in map(contexts.at, range(contexts.size))]
        numbers = [moment.situation.problem.context_number for moment in by_context]
        return Scene(problem, env, tuple(by_context), tuple(number or 0 for number in numbers))

    return env.compute_once(("scene", problem, searches_all, policy.traits.learns_cpts), build)


def plays_by_block(scene: Scene, policy: AnyPolicy) -> bool:
    """Whether each block's best choice is found separately."""
    if not isinstance(policy, CausalLinearThompsonSampling):
        return False
    return all(policy.is_separable(moment.situation) for moment in scene.moments)


Call = tuple[str, tuple[Any, ...]]
"""The kind of rounds, and their first four arguments: rule, projection of the actions, environment, statistic."""


def build_call(policy: AnyPolicy, scene: Scene, statistic: Statistic, rewards_before: range) -> Call:
    """The rounds to call, given the number of earlier rewards in each round (`rewards_before`)."""
    if isinstance(policy, GittinsPolicy | CausalTSUCB) and isinstance(statistic, Cells):
        return _gittins_call(policy, scene, statistic, rewards_before)
    if isinstance(policy, CausalDesign | CausalElimination | CausalTrackAndStop) and isinstance(statistic, Cells):
        return _exploration_call(policy, scene, statistic)
    if isinstance(policy, CellPolicy) and isinstance(statistic, Cells):
        return _cell_call(policy, scene, statistic, rewards_before)
    if isinstance(policy, LinearPolicy) and isinstance(statistic, Regression):
        return _linear_call(policy, scene, statistic, rewards_before)
    raise TypeError(f"{policy!r} cannot be played compiled.")


def _cell_call(policy: CellPolicy, scene: Scene, cells: Cells, rewards_before: range) -> Call:
    anytime = not policy.traits.randomised and not (isinstance(policy, HorizonPolicy) and policy.horizon is not None)
    has_fixed_index = not policy.traits.randomised and not anytime and not policy.traits.learns_scales
    moving = anytime or policy.traits.learns_scales
    explorations = np.array([policy.exploration(n) for n in (rewards_before if anytime else [0])])
    samples = policy.samples if isinstance(policy, SamplingPolicy) else 1
    rule = arrays.CellRule(
        _index_parameters(policy, cells),
        policy.causal,
        moving,
        explorations,
        samples,
        build_action_costs(scene, policy.weighs_costs),
    )
    tree = scene.problem.compute_once(
        ("tree", policy.traits.searches_all, scene.context_codes), lambda: _flat_tree(scene)
    )
    tree = tree if policy.causal else tree._replace(cells=_action_cells(scene))
    arguments = (rule, tree, true_environment(scene, policy), _statistic_arrays(cells))
    if not has_fixed_index:
        return "thompson", arguments
    if not policy.causal:
        return "ucb by actions", arguments
    return ("ucb" if arguments[2].before is None else "ucb in contexts"), arguments


def _index_parameters(policy: CellPolicy, cells: Cells) -> Any:
    """The index's parameters as floats, so that `prior_scale=2` needs no compilation beyond that of 2.0."""
    p: Any = policy.index_parameters_after(cells)
    return p._make(float(value) if is_real(value) else value for value in p)


def _action_cells(scene: Scene) -> arrays.Ragged | None:
    """Every action's cells, in every context; None if there is one context."""
    if len(scene.moments) == 1:
        return None
    return arrays.build_ragged([np.arange(moment.situation.size) for moment in scene.moments], np.int64)


def _statistic_arrays(cells: Cells) -> arrays.CellSums | arrays.ScaledSums | arrays.RateSums | arrays.EffectSums:
    if isinstance(cells, MainEffectCells):
        sums, d = (cells.count, cells.total, cells.within, cells.positions), cells.features.shape[1]
        work = *np.zeros((2, d, d + 1)), np.empty((d, d)), *np.empty((2, d)), *np.empty((2, len(cells.count)))
        return arrays.EffectSums(*sums, np.empty(5), np.empty((len(RATIOS), len(RATIOS))), *work)
    if isinstance(cells, BetaGridCells):
        return arrays.RateSums(cells.count, cells.total, cells.weights, BETA_PAIRS, BETA_MOMENTS)
    if isinstance(cells, PooledCells):
        return arrays.ScaledSums(cells.count, cells.total, cells.pooled)
    return arrays.CellSums(cells.count, cells.total)


def _gittins_call(policy: GittinsPolicy | CausalTSUCB, scene: Scene, cells: Cells, rewards_before: range) -> Call:
    effective_horizons = (
        _effective_horizons(policy.horizon, rewards_before) if isinstance(policy, GittinsPolicy) else np.zeros(1)
    )
    samples = (
        policy.samples if isinstance(policy, CausalScreen) else policy.samples if isinstance(policy, CausalTSUCB) else 1
    )
    moving, action_costs = policy.traits.learns_scales, build_action_costs(scene, True)
    windows = _discovery_windows(policy, rewards_before) if isinstance(policy, CausalGittins) else np.zeros((1, 2))
    rule = arrays.GittinsRule(
        _index_parameters(policy, cells), moving, effective_horizons, samples, action_costs, windows
    )
    environment, sums = true_environment(scene, policy), _statistic_arrays(cells)
    if isinstance(cells, MainEffectCells):
        rows = scene.problem.compute_once(("rows", scene.context_codes), lambda: _flat_rows(scene))
        return "gittins with main effects", (rule, rows, environment, sums)
    tree = scene.problem.compute_once(("tree", False, scene.context_codes), lambda: _flat_tree(scene))
    is_screen, is_gittins = isinstance(policy, CausalScreen), isinstance(policy, CausalGittins)
    return ("gittins" if is_gittins else "screen" if is_screen else "ts-ucb"), (rule, tree, environment, sums)


def _exploration_call(
    policy: CausalDesign | CausalElimination | CausalTrackAndStop, scene: Scene, cells: Cells
) -> Call:
    environment, sums = true_environment(scene, policy), arrays.CellSums(cells.count, cells.total)
    situations = [moment.situation for moment in scene.moments]
    if isinstance(policy, CausalTrackAndStop):
        rows = scene.problem.compute_once(
            ("rows of a design", scene.context_codes),
            lambda: arrays.build_design_rows([action_distributions(situation) for situation in situations]),
        )
        return "track and stop", (
            arrays.TrackingRule(policy.tolerance, build_action_costs(scene, True)),
            rows,
            environment,
            sums,
        )
    if isinstance(policy, CausalElimination):
        assert isinstance(cells, BatchedCells)
        shares = [policy.allocation(situation, cells.cells_at_batch_start) for situation in situations]
    else:
        shares = [policy.allocation(situation) for situation in situations]
    return "design", (None, arrays.build_allocation_arrays(shares), environment, sums)


@lru_cache(maxsize=256)
def _effective_horizons(horizon: int | None, rewards_before: range) -> Array:
    """The effective horizons, the same in every replication."""
    return np.array([effective_horizon(horizon, n) for n in rewards_before])


@lru_cache(maxsize=256)
def _discovery_windows(policy: CausalGittins, rewards_before: range) -> Array:
    """The discovery windows, the same in every replication."""
    return np.array([policy.discovery_window(n) for n in rewards_before])


def _flat_rows(scene: Scene) -> arrays.FlatRows:
    projections = [moment.situation.candidates.projection for moment in scene.moments]
    return arrays.build_flat_rows(projections, _flat_tree(scene).cells)


def _flat_tree(scene: Scene) -> arrays.FlatTree:
    if scene.problem.unit == "actions":  # unused by these policies
        projections = [_true_projection(moment) for moment in scene.moments]
        return arrays.build_tree(projections, scene.env.problem.configurations)
    projections = [moment.situation.candidates.projection for moment in scene.moments]
    return arrays.build_tree(projections, scene.problem.configurations)


def _linear_call(policy: LinearPolicy, scene: Scene, statistic: Regression, rewards_before: range) -> Call:
    regression, env = _regression_arrays(statistic), scene.env
    by_rows = plays_by_block(scene, policy)
    rule = _linear_rule(policy, scene.problem, rewards_before, build_action_costs(scene, not by_rows))
    if by_rows:
        features = policy.resolve_features(scene.problem)
        features_by_block = env.compute_once(("by block", features), lambda: _features_by_block(scene, policy))
        return "linear by block", (rule, features_by_block, _environment_by_block(scene, policy), regression)
    key = "regressors", policy.feature_key(scene.problem), scene.context_codes
    regressors = scene.problem.compute_once(key, lambda: _regressor_arrays(scene, policy))
    return "linear", (rule, regressors, true_environment(scene, policy), regression)


def _regression_arrays(statistic: Regression) -> arrays.RegressionArrays | arrays.ScaledRegressionArrays:
    if not isinstance(statistic, ScaledRegression):
        return arrays.RegressionArrays(statistic.R, statistic.u)
    sums = statistic.R, statistic.u, statistic.feature_totals, statistic.pooled
    return arrays.ScaledRegressionArrays(*sums, np.empty(len(statistic.u)))


def _features_by_block(scene: Scene, policy: LinearPolicy) -> arrays.ByBlock:
    features = [policy.resolve_features(moment.situation.problem) for moment in scene.moments]
    additive = [block_features for block_features in features if isinstance(block_features, AdditiveFeatures)]
    return arrays.build_by_block([moment.env for moment in scene.moments], additive, _product_candidates(scene))


def _product_candidates(scene: Scene) -> list[ProductActions]:
    searches = [moment.situation.candidates for moment in scene.moments]
    return [search for search in searches if isinstance(search, ProductActions)]


def _regressor_arrays(scene: Scene, policy: LinearPolicy) -> arrays.Regressors:
    means = [policy.action_features(moment.situation) for moment in scene.moments]
    return arrays.build_regressors(means, policy.configuration_features(scene.problem))


def build_action_costs(scene: Scene, weighs_costs: bool) -> arrays.ActionCosts | None:
    """The costs of the searched actions, if the policy uses them."""
    costs = scene.problem.costs
    if costs is None or not weighs_costs:
        return None
    costs_by_context = [moment.situation.costs for moment in scene.moments]
    return arrays.ActionCosts(
        np.concatenate([context_costs for context_costs in costs_by_context if context_costs is not None]),
        costs.largest,
    )


def _linear_rule(
    policy: LinearPolicy, problem: Problem, rewards_before: range, action_costs: arrays.ActionCosts | None
) -> arrays.LinearRule:
    observed, in_units_of_noise = policy.regressor == "observed", problem.costs is None
    if isinstance(policy, CausalLinearThompsonSampling):
        spread = float(policy.posterior_scale)
        return arrays.LinearRule(True, observed, spread, np.zeros(1), policy.samples, action_costs, in_units_of_noise)
    if isinstance(policy, CausalLinearUCB):
        dimension, rounds = policy.dimension(problem), [0] if policy.horizon is not None else rewards_before
        betas = np.array([policy.beta(dimension, n) for n in rounds])
        return arrays.LinearRule(False, observed, 0.0, betas, 1, action_costs, in_units_of_noise)
    raise TypeError(f"{policy!r} cannot be played compiled.")


def _environment_by_block(scene: Scene, policy: AnyPolicy) -> arrays.FlatEnvironment:
    env = scene.moments[0].env
    if not isinstance(env.mean, AdditiveMean):
        return true_environment(scene, policy)
    return scene.env.compute_once(
        "environment by block",
        lambda: arrays.build_environment_by_block(
            _context_arrays(scene), env, [candidates.rows for candidates in _product_candidates(scene)], scene.first
        ),
    )


def _context_arrays(scene: Scene) -> arrays.ContextArrays:
    return arrays.build_context_arrays(scene.env, scene.policy_contexts)


def true_environment(scene: Scene, policy: AnyPolicy) -> arrays.FlatEnvironment:
    """The true effect of each action that the policy searches, which may differ from its belief."""

    def build() -> arrays.FlatEnvironment:
        envs = [moment.env for moment in scene.moments]
        projections = [_true_projection(moment) for moment in scene.moments]
        return arrays.build_flat_environment(
            _context_arrays(scene), envs, projections, [_true_costs(moment) for moment in scene.moments]
        )

    return scene.env.compute_once(
        ("environment", scene.problem, policy.traits.searches_all, policy.traits.learns_cpts), build
    )


def _true_projection(moment: Moment) -> Projection:
    search, true = moment.situation.candidates, moment.env.problem
    if moment.situation.problem is true:
        return search.projection
    return project_actions(search.array(), true.blocks, true.shape)


def _true_costs(moment: Moment) -> Array | None:
    true = moment.env.problem
    if moment.situation.problem is true or true.costs is None:
        return moment.situation.costs if true.costs is not None else None
    return true.costs.costs_of(moment.situation.candidates.array())
