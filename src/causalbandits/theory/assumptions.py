"""Inputs of bounds: the number of reachable configurations, and facts about their assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array
from causalbandits.environments import LISTED, AdditiveMean, BernoulliReward, Environment, GaussianReward, LinearReward
from causalbandits.errors import ProblemError
from causalbandits.problem import Features, Problem, count_reachable_configurations, feasible_contexts
from causalbandits.problem.inference import SMALL_TABLE


class Line(NamedTuple):
    """The shortest theta with mean reward = <theta, features>, and the residual of that fit."""

    norm: float
    error: float


@dataclass(frozen=True)
class Facts:
    """A problem and, if given, its environment. Facts that are unknown or too large to compute are None."""

    problem: Problem
    environment: Environment | None

    @classmethod
    def of(cls, source: object) -> Facts:
        if isinstance(source, Environment):
            return cls(source.problem, source)
        if isinstance(source, Problem):
            return cls(source, None)
        raise ProblemError(f"A bound requires a Problem or an Environment; got {source!r}.")

    def cells(self, causal: bool) -> int:
        """J or K: the number of means that a policy estimates; configurations are counted over all contexts, actions
        once."""
        if causal:
            return count_reachable_configurations(self.problem)
        return self.problem.actions.size * self.problem.contexts.size

    @cached_property
    def environments_by_context(self) -> list[tuple[float, Environment]] | None:
        """The environment in every context, with its probability; None if there are too many contexts or no
        environment."""
        env = self.environment
        if env is None or self.problem.contexts.size * self.problem.actions.size > SMALL_TABLE:
            return None
        if not self.problem.context:
            return [(1.0, env)]
        likely = feasible_contexts(self.problem, self.problem.contexts.by_probability())
        return [(share, env.condition_codes(codes)) for codes, share in likely]

    @property
    def has_few_actions(self) -> bool:
        """Whether the actions are few enough to enumerate."""
        return self.problem.actions.size <= LISTED

    @cached_property
    def support(self) -> npt.NDArray[np.bool_] | None:
        """P(z | a) > 0: a row per action, a column per configuration."""
        if self.problem.actions.size * self.problem.configurations > SMALL_TABLE:
            return None
        return np.asarray(self.problem.parent_distributions().reshape(self.problem.actions.size, -1) > 0)

    def has_own_configurations(self) -> bool | None:
        """Whether every action produces one configuration, and no two actions the same one."""
        if self.problem.context:
            return False  # the action produces the same configurations as others, or several
        if self.problem.unit == "actions":
            return None  # the distribution of configurations is unknown
        if self.support is None:
            return False if self.problem.actions.size > self.problem.configurations else None
        return bool((self.support.sum(axis=1) == 1).all() and (self.support.sum(axis=0) <= 1).all())

    def largest_gap(self) -> float | None:
        """Delta_max over all contexts; with too many actions the range of E[Y | z], which is at least as large."""
        if self.environment is None:
            return None
        if self.has_few_actions and self.environments_by_context is not None:
            return max(float(env.gaps().max()) for _, env in self.environments_by_context)
        low, high = self.environment.mean.range()
        return high - low + self.largest_cost()

    def largest_cost(self) -> float:
        """The largest difference that costs can make between two actions."""
        return 0.0 if self.problem.costs is None else self.problem.costs.largest

    def mean_gap(self) -> float | None:
        """The expected regret of a round with a uniformly random action."""
        if self.environments_by_context is None or not self.has_few_actions:
            return None
        return sum(share * float(env.gaps().mean()) for share, env in self.environments_by_context)

    def gaussian_sd(self) -> float | None:
        """The standard deviation of a Gaussian reward given the parents."""
        reward = None if self.environment is None else self.environment.reward
        return reward.sd if isinstance(reward, GaussianReward | LinearReward) else None

    def reward_kind(self) -> str | None:
        """The kind of reward for a message; None if it is unknown."""
        if self.environment is None or not self.environment.mean.by_configuration:
            return None
        return type(self.environment.reward).__name__

    def unit_rewards(self) -> bool | None:
        """Whether rewards lie in [0, 1]."""
        return None if self.environment is None else self.environment.reward.bounded

    def noise(self, given_parents: bool) -> float | None:
        """A scale at which the reward is certainly sub-Gaussian, given the parents or the action alone.

        Given the action, E[Y | z] varies as well. By Hoeffding's lemma its scale is half of its range; if it is a sum
        over independent blocks, their squared scales add up.
        """
        if self.environment is None:
            return None
        if isinstance(self.environment.reward, BernoulliReward) or self.environment.reward.bounded:
            return 0.5
        sd = self.gaussian_sd()
        return sd if sd is None or given_parents else math.hypot(sd, self._half_range_within_an_action())

    def _half_range_within_an_action(self) -> float:
        assert self.environment is not None
        mean = self.environment.mean
        if self.support is None:
            low, high = mean.range()
            half_range = (high - low) / 2
        else:
            means = self.environment.configuration_means
            highest = np.where(self.support, means, -np.inf).max(axis=1)
            half_range = float((highest - np.where(self.support, means, np.inf).min(axis=1)).max()) / 2
        if isinstance(mean, AdditiveMean):
            ranges = [max(states) - min(states) for states in mean.by_parent]
            by_block = [sum(ranges[axis] for axis in block.parents) / 2 for block in self.problem.blocks]
            half_range = min(half_range, math.hypot(*by_block))
        return half_range

    def largest_mean(self, causal: bool) -> float | None:
        """The largest |E[Y | z]| over reachable configurations, or |E[Y | a]| over actions."""
        if self.environment is None:
            return None
        if not causal and self.has_few_actions and self.environments_by_context is not None:
            return max(float(np.abs(env.means).max()) for _, env in self.environments_by_context)
        if not self.environment.mean.by_configuration:
            return None
        if self.support is None:
            return max(map(abs, self.environment.mean.range()))
        return float(np.abs(self.environment.configuration_means[self.support.any(axis=0)]).max())

    def feature_norm(self, features: Features, observed: bool) -> float:
        """A bound on the norm of the regressors: f(z), or its mean under each action."""
        if observed or not self.has_few_actions or self.problem.context:
            return features.largest_norm()
        return float(np.linalg.norm(features.means(self.problem.projection), axis=1).max())

    def line(self, features: Features, observed: bool) -> Line | None:
        """The fit of E[Y | z] (or E[Y | a]) as linear in f(z) (or its mean)."""
        env = self.environment
        if env is None:
            return None
        if observed and not env.mean.by_configuration:
            return None
        if observed and self.support is not None:
            reached = self.support.any(axis=0)
            all_features = [features.at(z) for z in np.ndindex(*self.problem.shape)]
            return _fit_line(np.array(all_features)[reached], env.configuration_means[reached])
        if not observed and self.has_few_actions and self.environments_by_context is not None:
            environments = [place for _, place in self.environments_by_context]
            means = [features.on_problem(env.problem).means(env.problem.projection) for env in environments]
            return _fit_line(np.concatenate(means), np.concatenate([env.means for env in environments]))
        mean: Any = env.mean
        return Line(float(np.linalg.norm(mean.theta)), 0.0) if getattr(mean, "features", None) is features else None


def _fit_line(rows: Array, targets: Array) -> Line:
    theta = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return Line(float(np.linalg.norm(theta)), float(np.abs(rows @ theta - targets).max()))


def noise_scales(env: Environment) -> tuple[float, float]:
    """Scales at which the reward is certainly sub-Gaussian.

    >>> from causalbandits import zoo
    >>> [round(scale, 3) for scale in noise_scales(zoo.figure2())]
    [0.1, 0.269]

    Args:
        env: The environment, with Bernoulli or Gaussian rewards.

    Returns:
        Two scales. The first is given the parents, for policies with a mean per configuration and linear policies with
        observed regressors. The second is given the action alone, for other policies.

    Raises:
        ProblemError: If the scale of the reward is not known.
    """
    facts = Facts.of(env)
    tabular, coarse = facts.noise(given_parents=True), facts.noise(given_parents=False)
    if tabular is None or coarse is None:
        raise ProblemError(
            f"The scale of {env.reward!r} is unknown. Bernoulli and Gaussian rewards have a known scale."
        )
    return tabular, coarse
