"""Environments whose mechanisms change over time: several environments, one after the other."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from causalbandits._typing import is_integer
from causalbandits.environments.environment import Environment
from causalbandits.errors import ProblemError, short_repr
from causalbandits.problem import Problem

LISTED_CHANGES = 5
"""The maximum number of changes that `repr` lists."""


class Segment(NamedTuple):
    """A part of a campaign in which nothing changes.

    Attributes:
        start: Its first decision, counted from 1.
        env: The environment of its decisions.
    """

    start: int
    env: Environment


class ChangingEnvironment:
    """An environment whose mechanisms change at known decisions; between two changes, they are constant.

    `simulate` accepts it like an `Environment`. The regret of a decision is relative to the best action of the
    environment at that decision (dynamic regret).

    >>> from causalbandits import Environment, rewards, zoo
    >>> morning = zoo.email_campaign()
    >>> means = morning.configuration_means.reshape(morning.problem.shape)
    >>> evening = Environment(morning.problem, rewards.BernoulliReward(means[..., ::-1]))
    >>> env = ChangingEnvironment(morning, {2501: evening})
    >>> for decision in (2500, 2501):
    ...     print(decision, env.at(decision).best().intervention)
    2500 do(product=Photoshop, purpose=Promo, send_time=morning)
    2501 do(product=Photoshop, purpose=Promo, send_time=evening)

    Args:
        first: The environment of the first decisions.
        changes: The later environments, each by the first decision in which it applies. Decisions are counted from 1:
            `{2501: other}` plays 2,500 decisions in `first` and all further ones in `other`. All environments have the
            same variables, values, arrows, actions, parents, contexts and costs; CPTs and rewards may differ.

    Attributes:
        problem: The problem of the first environment. Policies with known CPTs assume its CPTs throughout.
        shown: The further variables that are drawn, as for `Environment`.
        segments: The environments in order, each with its first decision.

    Raises:
        ProblemError: If an environment has another problem than the first, or a number of a decision is invalid.
    """

    def __init__(self, first: Environment, changes: Mapping[int, Environment]) -> None:
        if not isinstance(first, Environment):
            raise ProblemError(f"A ChangingEnvironment starts with an Environment; got {first!r}.")
        if not isinstance(changes, Mapping):
            raise ProblemError(
                "changes must map the first decision of each later environment to that environment, such as "
                f"{{2501: other}}; got {short_repr(changes)}."
            )
        for start, env in changes.items():
            _check_change(first, start, env)
        self.problem: Problem = first.problem
        self.shown = first.shown
        self.segments: tuple[Segment, ...] = (Segment(1, first), *_in_order(changes))
        self._starts = [segment.start for segment in self.segments]

    def at(self, decision: int) -> Environment:
        """The environment of a decision.

        Args:
            decision: The number of the decision, counted from 1.

        Returns:
            The environment, with the means, the best action and the gaps of this decision.

        Raises:
            ProblemError: If the number is not a whole number of at least 1.
        """
        if not is_integer(decision) or decision < 1:
            raise ProblemError(f"Decisions are counted 1, 2, ...; got {short_repr(decision)}.")
        return self.segments[bisect_right(self._starts, decision) - 1].env

    def __repr__(self) -> str:
        starts = self._starts[1:]
        listed = ", ".join(map(str, starts[:LISTED_CHANGES])) + (", ..." if len(starts) > LISTED_CHANGES else "")
        if not starts:
            return f"ChangingEnvironment({self.segments[0].env!r}, no changes)"
        count = "1 change at decision" if len(starts) == 1 else f"{len(starts)} changes at decisions"
        return f"ChangingEnvironment({self.segments[0].env!r}, {count} {listed})"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all environments and of the decisions at which they change."""
        content = " ".join(f"{segment.start} {segment.env.fingerprint}" for segment in self.segments)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


AnyEnvironment = Environment | ChangingEnvironment
"""An environment that `simulate` plays."""


def segments_of(env: AnyEnvironment) -> tuple[Segment, ...]:
    """The environments in order, each with its first decision; a single one if nothing changes."""
    return env.segments if isinstance(env, ChangingEnvironment) else (Segment(1, env),)


def environment_at(env: AnyEnvironment, decision: int) -> Environment:
    """The environment of a decision, counted from 1."""
    return env.at(decision) if isinstance(env, ChangingEnvironment) else env


def _in_order(changes: Mapping[int, Environment]) -> list[Segment]:
    return sorted((Segment(int(start), env) for start, env in changes.items()), key=lambda segment: segment.start)


def _check_change(first: Environment, start: Any, env: Any) -> None:
    if not is_integer(start) or start < 2:
        raise ProblemError(
            "An environment of changes= is named by its first decision, a whole number of at least 2; got "
            f"{short_repr(start)}."
        )
    if not isinstance(env, Environment):
        raise ProblemError(f"From decision {start} on, an Environment is needed; got {short_repr(env)}.")
    limited = first.problem.requirements and env.problem.requirements
    if limited and first.problem.actions.size != env.problem.actions.size:
        raise ProblemError(
            "All environments of a ChangingEnvironment must have the same actions, and their number under "
            f"max_probability is {first.problem.actions.size} in the first and {env.problem.actions.size} in the one "
            f"from decision {start} on, because their CPTs differ. Leave out max_probability=."
        )
    if set(env.shown) != set(first.shown):
        raise ProblemError(
            f"The environments of a ChangingEnvironment show the same variables; the first shows {list(first.shown)}, "
            f"the one from decision {start} on {list(env.shown)}."
        )
    difference = "" if env.problem is first.problem else first.problem.first_difference(env.problem)
    if difference:
        raise ProblemError(
            f"The environments of a ChangingEnvironment differ in CPTs and rewards only. The one from decision {start} "
            f"on has another problem than the first: {difference}."
        )
