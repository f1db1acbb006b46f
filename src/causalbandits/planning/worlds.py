"""Worlds that may be, before launch: drawn from what is thought of the reward, and from what data leave open."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from causalbandits._types import Array
from causalbandits.engine.driver import ENVIRONMENT, WORLD, stream
from causalbandits.errors import CausalBanditsError
from causalbandits.model.fitted import FittedModel
from causalbandits.model.fitted_observed import FittedObservedModel
from causalbandits.model.intervention import State
from causalbandits.policies import AnyPolicy, default_policy
from causalbandits.problem.contexts import CONTEXTS_WEIGHED
from causalbandits.problem.occasions import playable
from causalbandits.problem.problem import CausalBandit
from causalbandits.world.environment import LISTED, Environment
from causalbandits.world.rewards import BernoulliReward, Reward
from causalbandits.world.shortfall import paid_for
from causalbandits.world.stepped import StepEnvironment

RewardPrior = tuple[float, float] | Callable[[CausalBandit, np.random.Generator], Reward]

WEIGHED = 50
"""What is at stake is the median of so many worlds."""

TRIED = 1000
"""Where there are too many actions to look at each, so many are drawn instead."""


@dataclass(frozen=True)
class CoinStep:
    """A step of a world that learns by actions: the reward is 1 with the action's own probability."""

    problem: CausalBandit
    means: Array
    """A row for each context."""

    def __call__(
        self, do: Mapping[str, State], rng: np.random.Generator, context: Mapping[str, State] | None = None
    ) -> tuple[dict[str, State], float]:
        row = 0 if context is None else self.problem.given(context).context_number or 0
        return {}, float(rng.random() < self.means[row, self.problem.actions.find(do).number])


@dataclass(frozen=True)
class Worlds:
    """Draws worlds that may be: the reward from its prior, the tables from their posterior if they have one."""

    problem: CausalBandit
    reward_prior: RewardPrior

    def __post_init__(self) -> None:
        if callable(self.reward_prior):
            return
        try:
            a, b = (float(value) for value in self.reward_prior)
        except (TypeError, ValueError):
            a = b = math.nan
        if not (0 < a < math.inf and 0 < b < math.inf):
            raise CausalBanditsError(
                "reward_prior must be two positive numbers (a, b), the means being Beta(a, b), or a function of the "
                f"problem and a random generator that gives a reward; got {self.reward_prior!r}."
            )
        object.__setattr__(self, "reward_prior", (a, b))

    def __call__(self, rng: np.random.Generator) -> Environment:
        if self.problem.learns == "actions":
            return self._by_actions(rng)
        known = self.problem.knowledge
        truth = self.problem
        if isinstance(known, FittedModel | FittedObservedModel):
            truth = truth.with_model(known.draw(rng))
        return Environment(truth, self._reward(truth, rng))

    def _by_actions(self, rng: np.random.Generator) -> Environment:
        """A world in which every action's mean, in every context, is drawn for itself: no table ties them together."""
        if callable(self.reward_prior):
            raise CausalBanditsError(
                "reward_prior: a number per action is learnt here, and a function draws rewards given parents. Give "
                "two numbers (a, b): the actions' means are Beta(a, b)."
            )
        problem, (a, b) = self.problem, self.reward_prior
        means = rng.beta(a, b, size=(problem.contexts.size, problem.actions.size))
        return StepEnvironment(problem, CoinStep(problem, means), means=means if problem.context else means[0])

    def _reward(self, truth: CausalBandit, rng: np.random.Generator) -> Reward:
        if not callable(self.reward_prior):
            a, b = self.reward_prior
            return BernoulliReward(rng.beta(a, b, size=truth.shape))
        try:
            reward = self.reward_prior(truth, rng)
        except TypeError as error:
            raise CausalBanditsError(
                f"reward_prior, a function, must take the problem and a random generator; it raised {error!r}."
            ) from error
        if not isinstance(reward, Reward):
            raise CausalBanditsError(
                f"reward_prior must give a reward, such as GaussianReward(...); it gave {reward!r}."
            )
        return reward

    def usual_policies(self, horizon: int, seed: int) -> list[AnyPolicy | str]:
        """What an agent takes by default, Thompson sampling without the graph, and a uniform test."""
        by_actions = self.problem.learns == "actions"  # of coins
        bounded = by_actions or self(stream(seed, 0, ENVIRONMENT)).reward.bounded
        prior = "beta" if bounded else "gaussian"
        return [default_policy(self.problem, horizon=horizon), f"ts-{prior}", "uniform"]

    def at_stake(self, seed: int, allowance: float | None = None) -> float:
        """What an action chosen blindly loses against the best one, in the mean: the median of some worlds.

        With an allowance, of those that it pays for in every round.
        The median, because worlds in which nothing or everything is at stake must not decide for the others. The
        number of worlds is fixed, so that it does not depend on how many are played.
        """
        return float(np.median([self._lost_blindly(seed, number, allowance) for number in range(WEIGHED)]))

    def _lost_blindly(self, seed: int, number: int, allowance: float | None) -> float:
        env, rng = self(stream(seed, number, ENVIRONMENT)), stream(seed, number, WORLD)
        if not self.problem.context:
            return self._lost_in(env, rng, allowance)
        contexts = env.problem.contexts
        if contexts.size <= CONTEXTS_WEIGHED:
            likely = playable(env.problem, contexts.likely())
            return sum(share * self._lost_in(env.in_context(codes), rng, allowance) for codes, share in likely)
        drawn = [(env.draw_codes(rng), 1.0) for _ in range(CONTEXTS_WEIGHED)]
        return float(
            np.mean([self._lost_in(env.in_context(codes), rng, allowance) for codes, _ in playable(env.problem, drawn)])
        )

    def _lost_in(self, env: Environment, rng: np.random.Generator, allowance: float | None) -> float:
        if allowance is not None:
            means = paid_for(env, allowance)
            return float(means.max() - means.mean())
        size = self.problem.actions.size
        if size <= LISTED:
            return float(env.gaps().mean())
        length = size.bit_length() // 8 + 9  # more bytes than its numbers have
        return float(np.mean([env.gap(int.from_bytes(rng.bytes(length), "little") % size) for _ in range(TRIED)]))
