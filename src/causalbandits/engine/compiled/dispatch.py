"""Which rounds a policy plays compiled, and on what: the rule, its table, the world and what is kept."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array, Z, is_real
from causalbandits.engine.compiled import arrays, layout
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
    Regression,
    ScaledCells,
    Statistic,
)
from causalbandits.policies.cells import BeliefPolicy, CellPolicy, SamplingPolicy, WorthPolicy, patience
from causalbandits.policies.exploration import BatchedCells
from causalbandits.policies.linear import LinearPolicy
from causalbandits.policies.posteriors import BETA_MOMENTS, BETA_PAIRS, EffectCells, RateCells
from causalbandits.problem import AdditiveFeatures, Problem, distributions
from causalbandits.problem.candidates import Combinations, project_some
from causalbandits.problem.projection import Projection

# A policy's problem and the world it is in, in every context: what is laid out for the compiled rounds.


class Scene(NamedTuple):
    """A policy's problem and the world it is in, in every context, by the number of the world's."""

    problem: Problem
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


def scene_of(env: Environment, policy: AnyPolicy, problem: Problem) -> Scene:
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


def by_block(scene: Scene, policy: AnyPolicy) -> bool:
    """Whether each block's best choice is found alone."""
    if not isinstance(policy, CausalLinearThompsonSampling):
        return False
    return all(policy.separates(moment.situation) for moment in scene.moments)


FREE = arrays.Priced(np.zeros(0), 0.0)
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
    rule = arrays.CellRule(
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


def _own_cells(scene: Scene) -> arrays.Ragged | None:
    """Every action's, in every context; None where there is one."""
    if len(scene.moments) == 1:
        return None
    return arrays.ragged([np.arange(moment.situation.size) for moment in scene.moments], np.int64)


def _sums(cells: Cells) -> arrays.CellSums | arrays.ScaledSums | arrays.RateSums | arrays.EffectSums:
    if isinstance(cells, EffectCells):
        own = cells.count, cells.total, cells.pooled, cells.R, cells.u, cells.ratios, cells.positions
        return arrays.EffectSums(*own, *np.empty((2, len(cells.u))), *np.empty((2, len(cells.count))))
    if isinstance(cells, RateCells):
        return arrays.RateSums(cells.count, cells.total, cells.weights, BETA_PAIRS, BETA_MOMENTS)
    if isinstance(cells, ScaledCells):
        return arrays.ScaledSums(cells.count, cells.total, cells.pooled)
    return arrays.CellSums(cells.count, cells.total)


def _worth(policy: BeliefPolicy, scene: Scene, cells: Cells, told: range) -> Call:
    patiences = _patiences(policy.horizon, told) if isinstance(policy, WorthPolicy) else np.zeros(1)
    draws = (
        policy.draws if isinstance(policy, CausalScreen) else policy.samples if isinstance(policy, CausalTSUCB) else 1
    )
    moving, priced = policy.learns_scales, _priced(scene, True)
    rule = arrays.WorthRule(_index_at(policy, cells), moving, patiences, draws, priced)
    world, sums = true_world(scene, policy), _sums(cells)
    if isinstance(cells, EffectCells):
        rows = scene.problem.remember(("rows", scene.known), lambda: _rows(scene))
        return "worth by effects", (rule, rows, world, sums)
    tree = scene.problem.remember(("tree", False, scene.known), lambda: _tree(scene))
    screens, weighs = isinstance(policy, CausalScreen), isinstance(policy, CausalGittins)
    return ("worth" if weighs else "screened" if screens else "promised"), (rule, tree, world, sums)


def _designed(policy: CausalDesign | CausalElimination | CausalTrackAndStop, scene: Scene, cells: Cells) -> Call:
    world, sums = true_world(scene, policy), arrays.CellSums(cells.count, cells.total)
    situations = [moment.situation for moment in scene.moments]
    if isinstance(policy, CausalTrackAndStop):
        rows = scene.problem.remember(
            ("rows of a design", scene.known),
            lambda: arrays.design_rows([distributions(own) for own in situations]),
        )
        return "tracked", (arrays.TrackingRule(policy.epsilon, _priced(scene, True)), rows, world, sums)
    if isinstance(policy, CausalElimination):
        assert isinstance(cells, BatchedCells)
        shares = [policy.shares(own, cells.before) for own in situations]
    else:
        shares = [policy.shares(own) for own in situations]
    return "planned", (None, arrays.planned(shares), world, sums)


@lru_cache(maxsize=256)
def _patiences(horizon: int | None, told: range) -> Array:
    """The same in every replication."""
    return np.array([patience(horizon, n) for n in told])


def _rows(scene: Scene) -> arrays.FlatRows:
    projections = [moment.situation.search.projection for moment in scene.moments]
    return arrays.flat_rows_of(projections, _tree(scene).cells)


def _tree(scene: Scene) -> arrays.FlatTree:
    if scene.problem.learns == "actions":  # nobody looks at it
        projections = [_true_projection(moment) for moment in scene.moments]
        return layout.tree_of(projections, scene.env.problem.configurations)
    projections = [moment.situation.search.projection for moment in scene.moments]
    return layout.tree_of(projections, scene.problem.configurations)


def _linear(policy: LinearPolicy, scene: Scene, statistic: Regression, told: range) -> Call:
    kept, env = arrays.Rotated(statistic.R, statistic.u), scene.env
    by_rows = by_block(scene, policy)
    rule = _linear_rule(policy, len(statistic.u), told, _priced(scene, not by_rows))
    if by_rows:
        features = policy.resolved(scene.problem)
        features_by_block = env.remember(("by block", features), lambda: _features_by_block(scene, policy))
        return "by block", (rule, features_by_block, _unlisted_world(scene, policy), kept)
    key = "regressors", policy.feature_key(scene.problem), scene.known
    regressors = scene.problem.remember(key, lambda: _regressors(scene, policy))
    return "linear", (rule, regressors, true_world(scene, policy), kept)


def _features_by_block(scene: Scene, policy: LinearPolicy) -> arrays.ByBlock:
    features = [policy.resolved(moment.situation.problem) for moment in scene.moments]
    additive = [own for own in features if isinstance(own, AdditiveFeatures)]
    return layout.by_block_of([moment.env for moment in scene.moments], additive, _searches(scene))


def _searches(scene: Scene) -> list[Combinations]:
    searches = [moment.situation.search for moment in scene.moments]
    return [search for search in searches if isinstance(search, Combinations)]


def _regressors(scene: Scene, policy: LinearPolicy) -> arrays.Regressors:
    means = [policy.action_features(moment.situation) for moment in scene.moments]
    return layout.regressors_of(means, policy.configuration_features(scene.problem))


def _priced(scene: Scene, weighed: bool) -> arrays.Priced:
    """What the searched actions cost, if that is weighed."""
    costs = scene.problem.costs
    if costs is None or not weighed:
        return FREE
    own = [moment.situation.costs for moment in scene.moments]
    return arrays.Priced(np.concatenate([paid for paid in own if paid is not None]), costs.largest)


def _linear_rule(policy: LinearPolicy, dimension: int, told: range, priced: arrays.Priced) -> arrays.LinearRule:
    observed = policy.regressor == "observed"
    if isinstance(policy, CausalLinearThompsonSampling):
        return arrays.LinearRule(True, observed, policy.spread, np.zeros(1), policy.draws, priced)
    if isinstance(policy, CausalLinearUCB):
        betas = np.array([policy.beta(dimension, n) for n in ([0] if policy.horizon is not None else told)])
        return arrays.LinearRule(False, observed, 0.0, betas, 1, priced)
    raise TypeError(f"{policy!r} cannot be played compiled.")


def _unlisted_world(scene: Scene, policy: AnyPolicy) -> arrays.FlatWorld:
    env = scene.moments[0].env
    if not isinstance(env.mean, AdditiveMean):
        return true_world(scene, policy)
    return scene.env.remember(
        "world by block",
        lambda: layout.world_by_block(_before(scene), env, [own.rows for own in _searches(scene)], scene.first),
    )


def _before(scene: Scene) -> arrays.Before:
    return layout.before_of(scene.env, scene.told)


def true_world(scene: Scene, policy: AnyPolicy) -> arrays.FlatWorld:
    """What truly happens under each action that the policy searches, which it may believe to do something else."""

    def make() -> arrays.FlatWorld:
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
