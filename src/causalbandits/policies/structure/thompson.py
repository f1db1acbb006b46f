"""C-TS with learned structure: Thompson sampling over parent sets, CPTs and mean rewards.

    draw a parent set of the reward, and one of each observed variable on the way, by their posterior probabilities
    draw the CPTs and the mean rewards that they need
    play argmax_a sum_s P(s | a) theta_s

Actions that differ only in variables without effect under the draw have the same value. Such ties are broken by further
draws of everything: a rule such as "the first" would leave some actions untried for as long as small sets are likely.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from causalbandits._typing import Array, Codes
from causalbandits.errors import PolicyError
from causalbandits.policies.base import FamilyPolicy, validate_samples
from causalbandits.policies.changes import ChangeTracker, describe_change, parse_false_alarm_rate
from causalbandits.policies.feedback import (
    Bounds,
    Choice,
    Incumbent,
    Outcome,
    runner_up_of,
    sample_choice_by_position,
    two_best_positions,
    with_pacing_propensity,
)
from causalbandits.policies.structure.changes import StructureChangeLayout
from causalbandits.policies.structure.limits import (
    feasibility_concern,
    restrict_to_likely_feasible,
    sample_probabilities,
)
from causalbandits.policies.structure.parent_sets import ParentSetCounts, ParentSets, RewardModel, SampledStructure
from causalbandits.policies.structure.variety import variety_concern
from causalbandits.policies.traits import Traits, situation_for
from causalbandits.policies.validation import require_context, validate_one_of
from causalbandits.problem import Action, Limit, Problem, Scores, Situation, StructurePrior
from causalbandits.problem.projection import TIE

TIE_BREAKS = 8
"""Ties are broken by so many further draws at most; then one of the actions that still tie is drawn at random.

The first of them must not be played: a variable that no sampled set contains would keep its value, and what is never
varied shows no effect.
"""

INTERVAL_DRAWS, INTERVAL_SEED = 2000, 0
"""Estimates and intervals are made of so many draws, always the same ones."""

STRUCTURE_DRAWS = 400
"""They are drawn from at most so many structures, because each distinct structure takes a sum over the variables."""

ParentSetProbabilities = dict[str, dict[tuple[str, ...], float]]
"""The probabilities of parent sets, by variable."""


class StructureLayout:
    """The arrays of a problem whose structure is learned: candidate sets, and the values of each action's variables."""

    def __init__(self, problem: Problem) -> None:
        prior = problem.structure_prior
        if prior is None:
            raise PolicyError(
                "The family 'c-ts-structure' learns the causal structure, and this problem's graph is given. Leave the "
                "graph out and name the observed variables, Problem(None, values=...), or declare that it is known "
                "partly, known='partly'."
            )
        self.names = (*problem.context, *problem.manipulable, *prior.observed)
        self.parent_sets = ParentSets(
            prior, self.names, {name: len(problem.variable(name).states) for name in self.names}
        )
        self.n_context = len(problem.context)
        self._manipulable = problem.manipulable
        self.action_codes: Codes = problem.actions.array().astype(np.intp) - 1
        """The values that each action sets, a row each."""

    def codes(self, outcome: Outcome) -> Codes | None:
        """The values of all variables before the reward, in order; None if one of them was not observed."""
        known = dict(zip(self.names[: self.n_context], outcome.context or (), strict=False))
        known |= dict(zip(self._manipulable, (choice - 1 for choice in outcome.action.choices), strict=True))
        known = {**(outcome.observed or {}), **known}
        codes = [known.get(name, -1) for name in self.names]
        return None if min(codes) < 0 else np.array(codes, dtype=np.intp)

    def by_action(self, kept: Sequence[int] | None, values: Array) -> Array:
        """Values by the manipulable variables `kept`, for every action; draws stay on the first axis.

        None for `kept`: the values are by action already.
        """
        if kept is None:
            return values
        columns = tuple(self.action_codes[:, k - self.n_context] for k in kept)
        if not columns:
            return np.repeat(values[:, None], len(self.action_codes), axis=1)
        index: tuple[Any, ...] = (slice(None), *columns)
        return np.asarray(values[index])


def structure_layout(problem: Problem) -> StructureLayout:
    """The arrays of a problem, the same in all contexts."""
    return problem.unconditional.compute_once("structure layout", lambda: StructureLayout(problem.unconditional))


@dataclass(frozen=True, kw_only=True, repr=False)
class StructureThompsonSampling(FamilyPolicy[ParentSetCounts]):
    """Thompson sampling for a problem whose graph is not known: the causal structure is learned with the CPTs.

    Every outcome is evidence about every candidate parent set, of each observed variable and of the reward. It assumes
    that no unobserved variable confounds an observed variable with the reward, and that the reward's parents are among
    the candidate sets.

    >>> from causalbandits import Problem
    >>> problem = Problem(None, reward="click", manipulable={"price": [9, 12]}, values={"page": ["a", "b"]})
    >>> structure_layout(problem).parent_sets.cells
    15

    Args:
        prior: "beta" for rewards in [0, 1], with a Beta(1, 1) prior of each mean; "gaussian" for any rewards, whose
            scales are estimated.
        samples: The number of posterior samples of a decision; with two or more, propensities are logged.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range.
    """

    family, family_label = "c-ts-structure", "C-TS, learned structure"

    prior: Literal["beta", "gaussian"] = "gaussian"
    samples: int = 1
    changes: float | None = None

    def __post_init__(self) -> None:
        validate_one_of("prior", self.prior, ("beta", "gaussian"))
        validate_samples(self.samples)
        off = self.changes is None or self.changes is False
        object.__setattr__(self, "changes", None if off else parse_false_alarm_rate(self.changes))

    @cached_property
    def traits(self) -> Traits:
        is_beta = self.prior == "beta"
        return Traits(
            searches_all=True,
            needs_parents=False,
            needs_context=True,
            learns_cpts=True,
            unit_rewards=is_beta,
            counts_successes=is_beta,
            sequential=self.changes is not None,
            follows_changes=self.changes is not None,
        )

    @property
    def _model(self) -> RewardModel:
        return self.prior

    def init(self, problem: Problem) -> ParentSetCounts:
        problem.actions.refuse_enumeration(f"The policy {self.id!r} scores every action")
        layout = structure_layout(problem)
        statistic = layout.parent_sets.empty()
        if self.changes is not None:
            prior = problem.structure_prior
            assert prior is not None
            rows = StructureChangeLayout(layout.parent_sets, prior.reward, self.prior == "beta", layout.codes)
            statistic.attach_tracker(ChangeTracker(rows, self.changes))
        return statistic

    def update(self, situation: Situation, statistic: ParentSetCounts, outcome: Outcome) -> None:
        layout = structure_layout(situation.problem)
        codes = layout.codes(outcome)
        if codes is None:
            statistic.unused += 1
            return
        reward, sets = outcome.successes if self.traits.counts_successes else outcome.reward, layout.parent_sets
        tracker: ChangeTracker | None = statistic.tracker
        if tracker is None:
            sets.add(statistic, codes, reward)
            return
        cells = sets.reward_cells(codes)
        counted, entries = tracker.add_reward(cells, reward, outcome.number), tracker.count_entries(outcome)
        if counted.all() and len(entries) == sets.n_sets:
            sets.add(statistic, codes, reward)
        else:
            sets.add_to(statistic, entries, cells[counted], reward)

    def monitor(self, situation: Situation, statistic: ParentSetCounts, outcome: Outcome) -> str:
        layout, tracker = structure_layout(situation.problem), statistic.tracker
        codes = None if tracker is None else layout.codes(outcome)
        if tracker is None or codes is None:
            return ""
        reward = outcome.successes if self.traits.counts_successes else outcome.reward
        change = tracker.watch(layout.parent_sets.reward_cells(codes), reward, outcome)
        if change is None:
            return ""
        tracker.restart_after(change, statistic, outcome.number + 1)
        return describe_change(situation.problem, tracker, tracker.change_rows[-1])

    def _context(self, situation: Situation) -> tuple[int, ...]:
        require_context(self.id, situation.problem)
        return tuple(situation.problem.context_codes or ())

    def _sample(self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator) -> Scores:
        """The value of every searched action under one draw of structure, CPTs and means."""
        layout = structure_layout(situation.problem)
        sets = layout.parent_sets
        structure = sets.sample_structure(sets.weights(statistic, self._model), rng)
        context, actions = self._context(situation), layout.action_codes
        kept, values = sets.sample_values(statistic, self._model, structure, context, rng, 1, actions)
        return situation.take(layout.by_action(kept, values)[0])

    def score(self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator) -> Scores:
        return self._sample(situation, statistic, rng)

    def _best_position(self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator) -> int:
        """The position of the best action under a draw; ties are broken by further draws."""
        tied = self._sample(situation, statistic, rng).tied_positions()
        for _ in range(TIE_BREAKS):
            if len(tied) == 1:
                break
            scores = self._sample(situation, statistic, rng)
            tied = tied[Scores(scores.values[tied], scores.scale).tied_positions()]
        return int(tied[0] if len(tied) == 1 else tied[int(rng.random() * len(tied))])

    def _sample_within_budget(
        self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator
    ) -> Scores:
        """The values under one draw, for a mixture of two actions; ties at the same cost are broken by further draws.

        Of several actions with the same value and cost, the others than the winner are lowered by a few roundings. Ties
        between costs remain, and the budget's rule takes the cheapest.
        """
        situation = situation.without_costs
        assert situation.costs is not None
        values, scale = self._sample(situation, statistic, rng)
        tie = TIE * max(1.0, float(scale))
        _, group = np.unique(np.column_stack([values, situation.costs]), axis=0, return_inverse=True)
        group, remaining = group.reshape(-1), np.ones(len(values), dtype=np.bool_)
        for _ in range(TIE_BREAKS):
            if np.bincount(group[remaining]).max() == 1:
                break
            further = np.where(remaining, self._sample(situation, statistic, rng).values, -math.inf)
            best = np.full(len(values), -math.inf)
            np.maximum.at(best, group, further)
            remaining &= further >= best[group] - tie
        places = np.flatnonzero(remaining)
        if np.bincount(group[places]).max() > 1:
            places = rng.permutation(places)
        winners = places[np.unique(group[places], return_index=True)[1]]
        lowered = values - 4.0 * tie
        lowered[winners] = values[winners]
        return Scores(lowered, scale)

    def feasible(self, situation: Situation, statistic: ParentSetCounts) -> Situation:
        if not situation.problem.constrained_variables:
            return situation
        probabilities = partial(self._sample_limited_probabilities, situation, statistic)
        return restrict_to_likely_feasible(situation, statistic, probabilities)

    def _sample_limited_probabilities(
        self, situation: Situation, statistic: ParentSetCounts, limit: Limit, rng: np.random.Generator
    ) -> Array:
        """The limited probability of every action of the problem, a row for each draw of a structure and of CPTs."""
        layout, context = structure_layout(situation.problem), self._context(situation)
        return np.concatenate(
            [
                layout.by_action(*draws)
                for draws in sample_probabilities(layout.parent_sets, statistic, self._model, limit, context, rng)
            ]
        )

    def decide(self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator) -> Choice:
        if situation.is_paced:
            draws = [self._sample_within_budget(situation, statistic, rng) for _ in range(self.samples)]
            positions = [situation.net_of_costs(scores).best_position() for scores in draws]
            if self.samples == 1:
                return Choice(situation.action(positions[0]))
            choice = sample_choice_by_position(positions, situation.action, rng)
            return with_pacing_propensity(choice, situation.pacing_rule, situation.action)
        best = [self._best_position(situation, statistic, rng) for _ in range(self.samples)]
        if self.samples == 1:
            return Choice(situation.action(best[0]))
        return sample_choice_by_position(best, situation.action, rng)

    def parent_set_probabilities(self, problem: Problem, statistic: ParentSetCounts) -> ParentSetProbabilities:
        """The posterior probability of each candidate parent set, of every observed variable and of the reward, last;
        the likeliest first.
        """
        prior = problem.structure_prior
        assert prior is not None
        weights = structure_layout(problem).parent_sets.weights(statistic, self._model)
        return {
            candidate.variable: dict(
                sorted(zip(candidate.sets, probabilities.tolist(), strict=True), key=lambda item: -item[1])
            )
            for candidate, probabilities in zip(prior.candidates, weights, strict=True)
        }

    def concerns(self, problem: Problem, statistic: ParentSetCounts) -> tuple[str, ...]:
        sets, prior = structure_layout(problem).parent_sets, problem.structure_prior
        assert prior is not None
        weights = sets.weights(statistic, self._model)[-1]
        caveats = (
            self.unused_caveat(problem, statistic),
            variety_concern(sets, prior, problem.manipulable, statistic, weights),
            self._feasibility_concern(problem, statistic),
        )
        return tuple(caveat for caveat in caveats if caveat)

    def unused_caveat(self, problem: Problem, statistic: ParentSetCounts) -> str:
        """A sentence about outcomes that are not learned from; empty if there are none."""
        n = statistic.unused
        if not n:
            return ""
        verb, be = ("outcome lacks", "is") if n == 1 else ("outcomes lack", "are")
        return (
            f"{n} {verb} a value of {', '.join(problem.must_observe)} and {be} not learned from: parent sets are "
            "compared on the same outcomes"
        )

    def _feasibility_concern(self, problem: Problem, statistic: ParentSetCounts) -> str:
        """The warning that no action keeps the limits with the required probability; in a context, it is given by the
        decision.
        """
        if not problem.constrained_variables or (problem.context and problem.context_number is None):
            return ""
        situation = situation_for(self, problem)
        probabilities = partial(self._sample_limited_probabilities, situation, statistic)
        return feasibility_concern(situation, statistic, probabilities)

    def sample_values(
        self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator, samples: int
    ) -> Array:
        return situation.take(self._sample_action_values(situation, statistic, rng, samples)).values

    def _sample_action_values(
        self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator, draws: int
    ) -> Array:
        """The mean reward of every action of the problem, a row for each draw of a structure, of CPTs and of means."""
        layout, context = structure_layout(situation.problem), self._context(situation)
        sets = layout.parent_sets
        weights = sets.weights(statistic, self._model)
        each = math.ceil(draws / STRUCTURE_DRAWS)
        structures = Counter(sets.sample_structure(weights, rng) for _ in range(math.ceil(draws / each)))
        rows = [
            layout.by_action(
                *sets.sample_values(statistic, self._model, structure, context, rng, n * each, layout.action_codes)
            )
            for structure, n in structures.items()
        ]
        return np.asarray(rng.permutation(np.concatenate(rows))[:draws])

    def _estimates(self, situation: Situation, statistic: ParentSetCounts) -> Array:
        """Draws of the mean reward of every action, a row each; those of the latest context are kept."""
        context, kept = self._context(situation), statistic.estimates
        if kept is None or kept[0] != context:
            rng = np.random.default_rng(INTERVAL_SEED)
            kept = context, self._sample_action_values(situation, statistic, rng, INTERVAL_DRAWS)
            statistic.estimates = kept
        return kept[1]

    def incumbent(self, situation: Situation, statistic: ParentSetCounts) -> Incumbent:
        means = self._estimates(situation, statistic).mean(axis=0)
        scores = situation.take(means)
        first, second = two_best_positions(scores)
        values = situation.without_costs.take(means).values
        runner_up = None if second is None else runner_up_of(situation, second, values)
        return Incumbent(situation.action(first), float(values[first]), None, runner_up)

    def _own_estimates(self, situation: Situation, statistic: ParentSetCounts) -> Array | None:
        """Draws of the mean reward of every action from its own rewards alone; None if no candidate set allows it."""
        layout, problem = structure_layout(situation.problem), situation.problem
        sets, everything = layout.parent_sets, tuple(range(layout.n_context + len(problem.manipulable)))
        if everything not in sets.reward_target.sets:
            return None
        by_action = SampledStructure(sets.reward_target.sets.index(everything), ())
        context, rng = self._context(situation), np.random.default_rng(INTERVAL_SEED)
        draws = sets.sample_values(statistic, self._model, by_action, context, rng, INTERVAL_DRAWS)
        return layout.by_action(*draws)

    def interval(self, situation: Situation, statistic: ParentSetCounts, action: Action, confidence: float) -> Bounds:
        """The credible interval over structures, together with that of the action's own rewards.

        A structure that lacks a small effect may have nearly all of the posterior probability. Its interval is then
        narrow, and misses the mean; that of the action's own rewards does not depend on the structure.
        """
        levels, own = [(1 - confidence) / 2, (1 + confidence) / 2], self._own_estimates(situation, statistic)
        estimates = [self._estimates(situation, statistic), *([] if own is None else [own])]
        bounds = np.array([np.quantile(draws[:, action.number], levels) for draws in estimates])
        prior = situation.problem.structure_prior
        assert prior is not None
        covers = "" if own is None else "; the interval covers the estimates with and without the learned structure"
        return Bounds(
            float(bounds[:, 0].min()),
            float(bounds[:, 1].max()),
            "credible",
            f"{_assumption_about_latent(prior)}; the reward's parents are among the candidate sets of at most "
            f"{prior.max_parents} variables{covers}",
        )


def _assumption_about_latent(prior: StructurePrior) -> str:
    if not prior.latent:
        return "no unobserved variable confounds an observed variable with the reward"
    pairs = ", ".join(" and ".join(pair) for pair in prior.latent)
    return (
        f"unobserved variables affect the reward and observed variables only as declared ({pairs}), and no variable "
        "affects one that is listed before it"
    )
