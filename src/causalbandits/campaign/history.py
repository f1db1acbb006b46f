"""What an agent can learn from rounds that it did not decide: each row an outcome, or a reason why it is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from causalbandits._typing import Z
from causalbandits.errors import CausalBanditsError, InterventionError, ProblemError
from causalbandits.fitting import Interventions, PastRounds, read_past
from causalbandits.model import CausalModel
from causalbandits.policies import AnyPolicy, Outcome, flip
from causalbandits.problem import Action, AugmentedGraph, Problem

PAST = 2**32 - 1
"""The coins of past rounds come from a branch of the seed that no decision has."""


@dataclass(frozen=True)
class Learnt:
    """How many rows of the past were taken in, and why the others were not; prints as a sentence or two."""

    used: int
    left_out: Mapping[str, int]
    """By reason."""

    def __repr__(self) -> str:
        text = f"Learnt from {self.used} of {self.used + sum(self.left_out.values())} rows."
        return " ".join([text, *(f"Left out {count}: {reason}." for reason, count in self.left_out.items())])


@dataclass
class Past:
    """The rows of the past as a policy can take them in."""

    problem: Problem
    policy: AnyPolicy
    seed: np.random.SeedSequence
    accept_impossible: bool
    left_out: Counter[str] = field(default_factory=Counter)

    def outcomes(self, data: Any, reward: str, interventions: Interventions, first: int) -> list[Outcome]:
        """The outcomes of all rows that can be used; their numbers go down from `first`, which is below 0."""
        knobs = self.problem.manipulable if interventions is not None else ()
        needed = dict.fromkeys([*self.problem.parents, *knobs, *self._context])
        states = {name: self.problem.variable(name).states for name in needed}
        rounds = read_past(data, states, reward, interventions)
        coins = np.random.SeedSequence(self.seed.entropy, spawn_key=(*self.seed.spawn_key, PAST))
        told: list[Outcome] = []
        for action, z, value, context in self._rows(rounds, interventions is not None):
            number = first - len(told)
            successes = flip(value, coins, -number) if self.policy.counts_successes else value
            told.append(Outcome(action, z, value, successes, number, context=context))
        return told

    @property
    def _context(self) -> tuple[str, ...]:
        """The context, where it matters: what a configuration is worth is the same in all contexts."""
        return () if self.policy.needs_parents and not self.policy.needs_context else self.problem.context

    def _rows(self, rounds: PastRounds, experiment: bool) -> Iterator[tuple[Action, Z, float, Z | None]]:
        knobs = self.problem.manipulable if experiment else ()
        nothing = np.zeros((len(rounds.rewards), 0), dtype=np.int64)
        parents = np.column_stack([nothing, *(rounds.codes[name] for name in self.problem.parents)]).tolist()
        choices = np.zeros((len(parents), len(self.problem.manipulable)), dtype=np.int64)
        for k, name in enumerate(knobs):
            choices[:, k] = np.where(rounds.was_set[name], rounds.codes[name] + 1, 0)
        before = np.column_stack([rounds.codes[name] for name in self._context]).tolist() if self._context else None
        known = [None] * len(parents) if before is None else [tuple(codes) for codes in before]
        others = self._set_besides(rounds)
        rows = zip(choices.tolist(), parents, rounds.rewards.tolist(), known, others, strict=True)
        for row, z, reward, context, other in rows:
            action = self._action(tuple(row))
            reason = self._no_action(row) if action is None else self._reason(action, tuple(z), reward)
            reason = other or reason or self._reason_of_context(context)
            if reason or action is None:
                self.left_out[reason] += 1
            else:
                yield action, tuple(z), reward, context

    def _set_besides(self, rounds: PastRounds) -> list[str]:
        """Of each row, what was set that is no knob: hidden causes may then move the reward, as they never do here."""
        reasons = [""] * len(rounds.rewards)
        for name, was_set in rounds.was_set.items():
            if name not in self.problem.manipulable:
                for row in np.flatnonzero(was_set).tolist():
                    reasons[row] = reasons[row] or f"{name} was set, and is no knob of this problem"
        return reasons

    def _reason_of_context(self, context: Z | None) -> str:
        """Why a context cannot be used; empty if it can."""
        if context is None:
            return ""
        if min(context) < 0:
            return "a value of the context is missing"
        try:
            can_occur = self.problem.in_context(context).can_occur
        except ProblemError:
            return "the context is impossible, says the model"
        return "" if can_occur or self.accept_impossible else "the context has probability 0, says the model"

    def _action(self, choices: tuple[int, ...]) -> Action | None:
        if self._is_own(choices):
            return self.problem.actions.action(self.problem.actions.rank(choices))
        # What is learnt of configurations does not depend on the action, which may then be any.
        usable = self._by_configurations and not any(choices) and self._same_left_alone
        return Action(self.problem.actions, choices) if usable else None

    @property
    def _by_configurations(self) -> bool:
        """Whether only configurations are learnt about, and no action."""
        return self.policy.needs_parents and not self.policy.searches_all

    def _is_own(self, choices: tuple[int, ...]) -> bool:
        try:
            self.problem.actions.rank(choices)
        except InterventionError:
            return False
        return True

    @cached_property
    def _same_left_alone(self) -> bool:
        """Whether, given the parents, the reward is the same where what every action sets was left alone."""
        p = self.problem
        graph = AugmentedGraph(p.knowledge, p.manipulable, ())
        return p.reward is None or graph.is_separated(p.parents, p.reward)

    def _no_action(self, choices: Sequence[int]) -> str:
        if any(choices) or not self._by_configurations:
            return "it was no action of this problem"
        always = [name for name in self.problem.manipulable if name in self.problem.actions.surely_set()]
        return (
            f"nothing was set, and where {', '.join(always)} is left alone the same parents have another mean reward; "
            "interventions= says what was set"
        )

    def _reason(self, action: Action, z: Z, reward: float) -> str:
        """Why a row cannot be used; empty if it can."""
        if np.isnan(reward):
            return "the reward is missing"
        if min(z, default=0) < 0:
            return "a parent's value is missing" if self.policy.needs_parents else ""
        try:
            self.policy.check_reward(reward)
        except CausalBanditsError:
            return f"the policy {self.policy.id!r} needs rewards in [0, 1]"
        if not self.accept_impossible and self._can_judge(action) and not self.problem.possible(action, z):
            return "the configuration is impossible under the action, says the model"
        return ""

    def _can_judge(self, action: Action) -> bool:
        """Whether the problem says what is possible: what is observed is asked of its own actions only."""
        return isinstance(self.problem.knowledge, CausalModel) or self._is_own(action.choices)
