"""A policy's problem and the world it is in, in every context: what is laid out for the compiled rounds."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from causalbandits._types import Z
from causalbandits.engine.driver import Moment, Moments
from causalbandits.policies import AnyPolicy, CausalLinearThompsonSampling
from causalbandits.problem.problem import CausalBandit
from causalbandits.world.environment import LISTED, Environment


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


def by_block(scene: Scene, policy: AnyPolicy) -> bool:
    """Whether each block's best choice is found alone."""
    if not isinstance(policy, CausalLinearThompsonSampling):
        return False
    return all(policy.separates(moment.situation) for moment in scene.moments)
