"""LinUCB and LinTS: ridge regression on the chosen values, per context; baselines that do not use the graph.

x(a, c): in the coordinates of context c, a 1 and an indicator of each variable's value; otherwise 0
LinUCB plays as CL-UCB does, LinTS as CL-TS, with x(a, c) in the place of m_a
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalbandits._typing import Array, Z
from causalbandits.errors import PolicyError
from causalbandits.policies.linear.cl_ts import CausalLinearThompsonSampling
from causalbandits.policies.linear.cl_ucb import CausalLinearUCB
from causalbandits.policies.linear.policy import LinearPolicy
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import require_context
from causalbandits.problem import Action, Problem, Scores, Situation, dot_in_order
from causalbandits.problem.actions import Choices2D


@dataclass(frozen=True, kw_only=True, repr=False)
class ChoicePolicy(LinearPolicy):
    """The features of LinUCB and LinTS. They do not depend on the parents, so outcomes need not report them."""

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(searches_all=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features is not None or self.intercept or self.regressor != "expected":
            raise PolicyError(
                f"The policy {self.id!r} defines its own features of actions and contexts. Leave out features, "
                "intercept and regressor; 'cl-ucb' and 'cl-ts' accept these options."
            )

    def dimension(self, problem: Problem) -> int:
        return _features_per_context(problem) * problem.contexts.size

    def feature_key(self, problem: Problem) -> Hashable:
        return ChoicePolicy

    def configuration_features(self, problem: Problem) -> Array:
        return np.zeros((1, self.dimension(problem)))  # configurations have no features

    def action_features(self, situation: Situation) -> Array:
        problem = situation.problem
        return situation.compute_once(
            ("choices", ChoicePolicy), lambda: self._choice_features(problem, situation.candidates.array())
        )

    def expected_features(self, problem: Problem, action: Action) -> Array:
        return np.asarray(self._choice_features(problem, np.array([action.choices]))[0])

    def _choice_features(self, problem: Problem, choices: Choices2D) -> Array:
        rows = np.zeros((len(choices), self.dimension(problem)))
        column = require_context(self.id, problem) * _features_per_context(problem)
        rows[:, column] = 1.0
        for variable, radix in enumerate(problem.actions.radices):
            codes = choices[:, variable].astype(np.intp)
            rows[np.flatnonzero(codes), column + codes[codes > 0]] = 1.0
            column += radix - 1
        return rows

    def feature_draws(self, problem: Problem, action: Action) -> Array | None:
        return None

    def regressors(self, problem: Problem, action: Action, z: Z) -> Array:
        return self.expected_features(problem, action)

    def is_separable(self, situation: Situation) -> bool:
        return False

    def best_action_for(self, situation: Situation, theta: Array) -> Action:
        scores = situation.net_of_costs(Scores.of(dot_in_order(self.action_features(situation), theta)))
        return situation.best(scores)

    def parameter_fingerprint(self, problem: Problem) -> str:
        return ""

    def feature_size(self, problem: Problem) -> float:
        return math.sqrt(1 + len(problem.manipulable))


def _features_per_context(problem: Problem) -> int:
    """The number of features of an action in one context."""
    return 1 + sum(radix - 1 for radix in problem.actions.radices)


@dataclass(frozen=True, kw_only=True, repr=False)
class LinUCB(ChoicePolicy, CausalLinearUCB):
    """LinUCB (Li et al. 2010): optimism over linear models of the action's values in each context, without the graph.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, LinUCB(noise_scale=0.5)).policy
    lin-ucb(noise_scale=0.5)

    Args:
        regressor: Must keep its default, "expected".
        features: Must keep its default: an indicator of each variable's value, and a constant, in each context.
        intercept: Must keep its default, False; a constant is always included.
        noise_scale: The sub-Gaussian scale of rewards given the action and the context, in units of the reward.
        prior_scale: A bound on the Euclidean norm of the coefficients.
        horizon: The number of rounds. Default: `simulate` passes its own; an agent uses the current round instead.
        anytime: Whether to use the current round instead of a horizon everywhere. Not together with `horizon`.
        feature_bound: A bound on the Euclidean norm of the feature vectors.

    Raises:
        PolicyError: If an option is out of range, or an option of the linear policies with a graph is given.
    """

    family, family_label = "lin-ucb", "LinUCB"


@dataclass(frozen=True, kw_only=True, repr=False)
class LinTS(ChoicePolicy, CausalLinearThompsonSampling):
    """LinTS (Agrawal and Goyal 2013): linear Thompson sampling on the action's values in each context, without the
    graph.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, LinTS(noise_scale=0.5)).policy
    lin-ts(noise_scale=0.5)

    Args:
        regressor: Must keep its default, "expected".
        features: Must keep its default: an indicator of each variable's value, and a constant, in each context.
        intercept: Must keep its default, False; a constant is always included.
        noise_scale: The standard deviation of rewards given the action and the context, in units of the reward.
        prior_scale: The prior standard deviation of each coefficient.
        v: The factor by which the posterior standard deviation is multiplied when sampling.
        samples: The number of posterior samples per decision, from 1 to 4096. One of their best actions is played, each
            with equal probability; with 2 or more the decision has a propensity.
        scales: Must keep its default, "given".

    Raises:
        PolicyError: If an option is out of range, or an option of the linear policies with a graph is given.
    """

    family, family_label = "lin-ts", "LinTS"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scales != "given":
            raise PolicyError(
                f"The family 'lin-ts' requires scales='given'; got scales={self.scales!r}. Use "
                "'cl-ts(scales=estimated)'; without a graph, use 'ts'."
            )
