"""Import of past rounds that were not decided by this campaign: each row is an outcome, or left out with a reason."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from causalbandits._typing import Array, Z
from causalbandits.campaign.decision import DecisionSeeds
from causalbandits.errors import CausalBanditsError, DataError, DataWarning, InterventionError, ProblemError, warn
from causalbandits.fitting import Interventions, LoggedRounds, read_logged_rounds
from causalbandits.model import CausalModel
from causalbandits.policies import AnyPolicy, Outcome, validate_reward
from causalbandits.problem import Action, AugmentedGraph, Problem


@dataclass(frozen=True)
class LearnSummary:
    """The numbers of past rows that were used and left out; prints as a sentence.

    Attributes:
        used: The number of rows that were used.
        left_out: The number of rows that were left out, by reason.
        trust_past: The prior probability that past rewards have the same means as own rewards given the parents.
    """

    used: int
    left_out: Mapping[str, int]
    trust_past: float = 1.0

    def __repr__(self) -> str:
        trust = f", at trust_past {self.trust_past:g}" if self.trust_past < 1.0 else ""
        text = f"Learned from {self.used} of {self.used + sum(self.left_out.values())} rows{trust}."
        return " ".join([text, *(f"Left out {count}: {reason}." for reason, count in self.left_out.items())])


ALREADY_LEARNED = "already learned"
"""The reason for leaving out rows that were learned earlier."""


def history_checksum(outcomes: Sequence[Outcome], encode: Callable[[float], float] = float) -> str:
    """A hash that identifies a set of past rows; `encode` returns each reward as it is stored."""
    rows = [
        (
            *(outcome.action.choices, outcome.z, encode(outcome.reward), outcome.context),
            *(() if outcome.observed is None else (sorted(outcome.observed.items()),)),
        )
        for outcome in outcomes
    ]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@dataclass
class HistoryImporter:
    """The conversion of past rows into outcomes that a policy can learn from."""

    problem: Problem
    policy: AnyPolicy
    seeds: DecisionSeeds
    accept_impossible: bool
    left_out: Counter[str] = field(default_factory=Counter)

    def outcomes(self, data: Any, reward: str | None, interventions: Interventions, first: int) -> list[Outcome]:
        """The outcomes of all usable rows; their numbers descend from `first`, which is negative.

        `reward` is the name of the reward column; None stands for the reward of the problem.
        """
        column = self.problem.reward if reward is None else reward
        if not isinstance(column, str):
            raise CausalBanditsError("Name the column with the rewards: learn(past, reward='clicked').")
        manipulable = self.problem.manipulable if interventions is not None else ()
        columns = dict.fromkeys([*self.problem.parents, *manipulable, *self._observed, *self._context])
        states = {name: self.problem.variable(name).states for name in columns}
        rounds = read_logged_rounds(data, states, column, interventions)
        self._refuse_rewards(rounds.rewards, column)
        outcomes: list[Outcome] = []
        for action, z, value, context, observed in self._usable_rows(rounds, interventions is not None):
            number = first - len(outcomes)
            successes = self.seeds.binarise(value, number) if self.policy.traits.counts_successes else value
            outcomes.append(Outcome(action, z, value, successes, number, observed=observed, context=context))
        self._warn_of_double_counts(outcomes)
        return outcomes

    def _refuse_rewards(self, rewards: Array, column: str) -> None:
        """Refuse all rows if a reward cannot count: leaving its row out would select rows by their outcome."""
        if self.policy.traits.unit_rewards:
            remedy = "choose a policy for any rewards, such as 'c-ts'"
            _refuse_rewards_outside((0.0, 1.0), rewards, column, f"The policy {self.policy.id!r} needs", remedy)
        if self.problem.reward_range is not None:
            remedy = "correct reward_range= of the problem"
            _refuse_rewards_outside(self.problem.reward_range, rewards, column, "The problem declares", remedy)
        for reward in rewards[np.isfinite(rewards)].tolist():
            validate_reward(self.policy, reward)

    def _warn_of_double_counts(self, outcomes: Sequence[Outcome]) -> None:
        """Warn if rows of an experiment may have estimated the CPTs that the policy goes on to learn from them."""
        posterior = self.problem.posterior
        if not self.policy.traits.learns_cpts or posterior is None:
            return
        n_fitted = posterior.rows - posterior.observational
        n_learned = sum(any(outcome.action.choices) for outcome in outcomes)
        if n_fitted and n_learned:
            warn(
                f"The CPTs of this problem were estimated from data with {n_fitted:,} rows of an experiment, and the "
                f"policy {self.policy.id!r} also updates them by the {n_learned:,} rows with an intervention that are "
                "learned now. Rows that are in both count twice for the CPTs, so that intervals are too narrow. "
                "Estimate the CPTs from the other rows alone, or use a policy that takes the CPTs as known, such as "
                "'c-ts', or 'c-ts(prior=beta)' for rewards from 0 to 1.",
                DataWarning,
                stacklevel=4,
            )

    @property
    def _context(self) -> tuple[str, ...]:
        """The context variables, if they matter; the mean reward of a configuration is the same in all contexts."""
        return () if self.policy.traits.needs_parents and not self.policy.traits.needs_context else self.problem.context

    @property
    def _observed(self) -> tuple[str, ...]:
        """The variables whose values are needed in every row because the structure is learned from them."""
        prior = self.problem.structure_prior
        return () if prior is None or not self.policy.traits.learns_cpts else prior.observed

    def _usable_rows(
        self, rounds: LoggedRounds, experiment: bool
    ) -> Iterator[tuple[Action, Z, float, Z | None, dict[str, int] | None]]:
        manipulable = self.problem.manipulable if experiment else ()
        no_columns = np.zeros((len(rounds.rewards), 0), dtype=np.int64)
        parents = np.column_stack([no_columns, *(rounds.codes[name] for name in self.problem.parents)]).tolist()
        choices = np.zeros((len(parents), len(self.problem.manipulable)), dtype=np.int64)
        for k, name in enumerate(manipulable):
            choices[:, k] = np.where(rounds.was_set[name], rounds.codes[name] + 1, 0)
        context_codes = (
            np.column_stack([rounds.codes[name] for name in self._context]).tolist() if self._context else None
        )
        contexts = [None] * len(parents) if context_codes is None else [tuple(codes) for codes in context_codes]
        observed_codes = np.column_stack([no_columns, *(rounds.codes[name] for name in self._observed)]).tolist()
        other_reasons = self._other_intervention_reasons(rounds)
        rows = zip(
            choices.tolist(), parents, rounds.rewards.tolist(), contexts, observed_codes, other_reasons, strict=True
        )
        for row, z, reward, context, codes, other_reason in rows:
            action = self._action(tuple(row))
            reason = self._no_action_reason(row) if action is None else self._exclusion_reason(action, tuple(z), reward)
            reason = other_reason or reason or self._context_exclusion_reason(context)
            reason = reason or ("the value of an observed variable is missing" if min(codes, default=0) < 0 else "")
            if reason or action is None:
                self.left_out[reason] += 1
            else:
                observed = dict(zip(self._observed, codes, strict=True)) if self._observed else None
                yield action, tuple(z), reward, context, observed

    def _other_intervention_reasons(self, rounds: LoggedRounds) -> list[str]:
        """For each row, the reason for leaving it out if a variable that is not manipulable was set; otherwise empty.

        An unobserved confounder of such a variable and the reward may then affect the reward in another way than it
        does in this campaign.
        """
        reasons = [""] * len(rounds.rewards)
        for name, was_set in rounds.was_set.items():
            if name not in self.problem.manipulable:
                for row in np.flatnonzero(was_set).tolist():
                    reasons[row] = reasons[row] or f"{name} was set, but is not a manipulable variable of this problem"
        return reasons

    def _context_exclusion_reason(self, context: Z | None) -> str:
        """The reason why a context cannot be used; empty if it can."""
        if context is None:
            return ""
        if min(context) < 0:
            return "a value of the context is missing"
        try:
            can_occur = self.problem.condition_codes(context).can_occur
        except ProblemError:
            return "the context has probability 0 in the model"
        return "" if can_occur or self.accept_impossible else "the context has probability 0 in the model"

    def _action(self, choices: tuple[int, ...]) -> Action | None:
        if self._is_action(choices):
            return self.problem.actions.action(self.problem.actions.rank(choices))
        # An estimate of a configuration's mean does not depend on the action, so any action will do.
        usable = self._learns_configurations_only and not any(choices) and self._is_invariant_without_interventions
        return Action(self.problem.actions, choices) if usable else None

    @property
    def _learns_configurations_only(self) -> bool:
        """Whether the policy learns about configurations only, not about actions."""
        return self.policy.traits.needs_parents and not self.policy.traits.searches_all

    def _is_action(self, choices: tuple[int, ...]) -> bool:
        try:
            self.problem.actions.rank(choices)
        except InterventionError:
            return False
        return True

    @cached_property
    def _is_invariant_without_interventions(self) -> bool:
        """Whether, given the parents, the mean reward is the same without an intervention."""
        p = self.problem
        if p.reward is None or p.reward not in p.graph_with_reward.parents:
            return True
        return AugmentedGraph(p.graph_with_reward, p.manipulable, ()).is_separated(p.parents, p.reward)

    def _no_action_reason(self, choices: Sequence[int]) -> str:
        if self._observed and not any(choices):
            return (
                "observational row: its values of the manipulable variables may have been chosen by an unobserved "
                "confounder; if they were randomised, use interventions= to state which variables were set"
            )
        if any(choices) or not self._learns_configurations_only:
            return "the intervention is not an action of this problem"
        always = [name for name in self.problem.manipulable if name in self.problem.actions.variables_always_set()]
        return (
            f"observational row: without an intervention on {', '.join(always)}, the mean reward given the parents "
            "is different; use interventions= to state which variables were set"
        )

    def _exclusion_reason(self, action: Action, z: Z, reward: float) -> str:
        """The reason why a row cannot be used; empty if it can."""
        if np.isnan(reward):
            return "the reward is missing"
        if min(z, default=0) < 0:
            return "a parent's value is missing" if self.policy.traits.needs_parents else ""
        if not self.accept_impossible and self._knows_support(action) and not self.problem.is_supported(action, z):
            return "the configuration has probability 0 under the action in the model"
        return ""

    def _knows_support(self, action: Action) -> bool:
        """Whether the problem has a support for this action.

        A latent model has one for the actions of the problem only.
        """
        return isinstance(self.problem.knowledge, CausalModel) or self._is_action(action.choices)


def _refuse_rewards_outside(bounds: tuple[float, float], rewards: Array, column: str, reason: str, remedy: str) -> None:
    outside = rewards[(rewards < bounds[0]) | (rewards > bounds[1])]
    if len(outside):
        raise DataError(
            f"{reason} rewards from {bounds[0]:g} to {bounds[1]:g}; {len(outside)} of {len(rewards)} rows have another "
            f"one in {column!r}, such as {outside[0]:g}. Without these rows, the others would be selected by their "
            f"outcome, and every estimate would be biased. To use the rewards as they are, {remedy}. If they are "
            "errors, correct the data. Nothing was learned."
        )
