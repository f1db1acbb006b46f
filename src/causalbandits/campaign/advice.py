"""Queries that do not change a campaign, shared by agents and studies.

A campaign provides its state (`_campaign_state`): the policy, its statistic, the budget and the outcomes. The queries
are derived from it: the best action and its uncertainty, for one context or for each of them; the misspecification
tests; and the model, if its CPTs are learned.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from causalbandits._typing import Z
from causalbandits.campaign.action_ranking import Belief, rank_actions
from causalbandits.campaign.action_table import ActionTable
from causalbandits.campaign.decision import Context
from causalbandits.campaign.diagnostics import check_model, contradictions, gather_evidence, noticed_changes
from causalbandits.campaign.learned_structure import LearnedStructure, learn_structure
from causalbandits.campaign.past_rewards import (
    TRUSTED_OBSTACLE,
    DoubtedPast,
    PastBatch,
    RewardComparison,
    doubted_batches,
    is_covered,
    trusted_contradiction,
)
from causalbandits.campaign.recommendation import Diagnostics, Recommendation, Recommendations, recommend
from causalbandits.campaign.reward_moments import (
    RewardMoments,
    counted_rewards,
    noise_contradiction,
    scale_caveats,
    sum_cell_moments,
)
from causalbandits.campaign.validation import condition_on_context
from causalbandits.errors import PolicyError
from causalbandits.fitting import Check
from causalbandits.model import CausalModel, Intervention
from causalbandits.policies import AnyPolicy, Outcome, StructureThompsonSampling, situation_for
from causalbandits.policies.changes import MechanismChanges, report_changes, require_tracker, tracker_of
from causalbandits.policies.robust import Evidence
from causalbandits.problem import Action, BudgetTracker, Problem


@dataclass(frozen=True)
class CampaignState:
    """The current state of a campaign.

    A component that is slow to compute is a function, called only if it is needed.
    """

    problem: Problem
    policy: AnyPolicy
    statistic: Any
    tracker: BudgetTracker | None
    """The budget spent so far; None without a budget."""
    accept_impossible: bool
    """Whether values that have probability 0 under the model are accepted."""
    outcomes: Callable[[], Iterable[Outcome]]
    """All outcomes that count, in the order of their reports."""
    first_pending: Callable[[], int | None]
    """The number of the earliest decision without an outcome."""
    cell_moments: Callable[[], RewardMoments]
    """The moments of the rewards in each cell of the variables that explain the reward according to the policy."""
    check: Callable[[float], Check]
    """The tests of the model's claims that are quick enough for the caveats of a recommendation."""
    times_chosen: Callable[[Z | None], Mapping[Action, int]]
    """The number of decisions per action, in the contexts that agree with these codes.

    Cancelled decisions are not counted.
    """
    past: Sequence[PastBatch] = ()
    """The batches of past rows that were learned."""
    doubted_past: DoubtedPast | None = None
    """Past rewards with a trust below 1; None if there are none.

    If they are dropped, `statistic` excludes them.
    """
    trusted_comparison: Callable[[], RewardComparison] = RewardComparison
    """The comparison of own rewards with past ones that have trust 1."""
    incomplete: str = ""
    """A caveat about outcomes without some value that the policy needs; empty if there are none."""

    def diagnostics(self) -> Diagnostics:
        """The contradictions between the outcomes and the assumptions of the policy, the model and the past rewards."""
        moments = self._moments()
        against_model = contradictions(self.problem, self.policy, self.statistic, self.check)
        noise = noise_contradiction(self.policy, self.problem, moments)
        caveats = (
            *((self._prior_only_caveat(),) if self._is_prior_only(moments) else ()),
            *((self.incomplete,) if self.incomplete else ()),
            *scale_caveats(self.policy, moments),
            *self._concerns(),
            *against_model,
        )
        withdrawal = noise or ("a misspecification test rejects the model (see the warnings)" if against_model else "")
        past_caveats, past_obstacle = self._past_caveats()
        return Diagnostics((*caveats, *past_caveats), withdrawal or past_obstacle, moments)

    def _moments(self) -> RewardMoments:
        """The moments of the rewards that count in each cell."""
        doubted = self.doubted_past
        return self._moments_of(
            self.statistic, self.cell_moments, without_past=doubted is not None and doubted.is_dropped
        )

    def _moments_of(
        self, statistic: Any, all_moments: Callable[[], RewardMoments], *, without_past: bool
    ) -> RewardMoments:
        """The moments of the rewards that a statistic counts: of all, unless the reward's mechanism has changed."""
        tracker = tracker_of(statistic)
        if tracker is None or not tracker.has_changed_reward:
            return all_moments()
        left_out = doubted_batches(self.past) if without_past else ()
        outcomes = (outcome for outcome in self.outcomes() if not is_covered(left_out, outcome.number))
        return sum_cell_moments(self.policy, counted_rewards(self.policy, self.problem, statistic, outcomes))

    def _changes_assumption(self) -> str:
        """The assumption of an interval about mechanisms that change."""
        tracker = tracker_of(self.statistic)
        if tracker is None:
            return ""
        changes = report_changes(self.problem, tracker).changes
        seen = "; ".join(f"{change.mechanism} near decision {change.decision}" for change in changes)
        return "; no mechanism changed except where a change was noticed" + (f" ({seen})" if seen else "")

    def _concerns(self) -> tuple[str, ...]:
        """The policy's concerns, without outcomes that are not learned from if another caveat counts them."""
        concerns = self.policy.concerns(self.problem, self.statistic)
        if not self.incomplete or not isinstance(self.policy, StructureThompsonSampling):
            return concerns
        unused = self.policy.unused_caveat(self.problem, self.statistic)
        return tuple(concern for concern in concerns if concern != unused)

    def _is_prior_only(self, moments: RewardMoments) -> bool:
        """Whether no reward counts: none was observed yet, or none since the reward's mechanism changed."""
        tracker = tracker_of(self.statistic)
        return (not moments.cells and not self.past) or (tracker is not None and tracker.counts_no_reward)

    def _prior_only_caveat(self) -> str:
        """The caveat of a campaign without rewards that count."""
        tracker = tracker_of(self.statistic)
        reason = "no reward updates the policy yet" if self.incomplete else "no rewards observed yet"
        if tracker is not None and tracker.has_changed_reward:
            reason = "no reward observed since the reward's mechanism changed"
        caveat = f"{reason}: the action follows from the prior alone"
        posterior = self.problem.posterior
        if posterior is not None and posterior.rows:
            caveat += "; past rows have estimated the CPTs, and their rewards count after learn(rows, reward=...)"
        return caveat

    def _past_caveats(self) -> tuple[list[str], str]:
        """The caveats about past rewards, and the reason why they rule out a stopping rule (empty if they do not)."""
        caveats, obstacle = [], ""
        trusted_rows = sum(batch.rows for batch in self.past if batch.trust == 1.0)
        tracker = tracker_of(self.statistic)
        has_changed = tracker is not None and tracker.has_changed_reward  # then own rewards differ for that reason
        if (
            trusted_rows
            and not has_changed
            and (contradiction := trusted_contradiction(self.trusted_comparison(), trusted_rows))
        ):
            caveats.append(self._without_reference_to_check(contradiction))
            obstacle = TRUSTED_OBSTACLE
        if self.doubted_past is not None:
            caveat = self._without_reference_to_check(self.doubted_past.caveat)
            caveats += [caveat] if caveat else []
            obstacle = self.doubted_past.obstacle or obstacle
        return caveats, obstacle

    def _without_reference_to_check(self, text: str) -> str:
        """The text without its reference to check(), which needs the reward's parents, if there are none."""
        return text if self.problem.parents else text.replace("; see check()", "")

    def _past_assumption(self, recommendation: Recommendation) -> str:
        """What an interval assumes of past rewards that are always counted."""
        rows = sum(batch.rows for batch in self.past if batch.trust == 1.0)
        if not rows or not math.isfinite(recommendation.lower + recommendation.upper):
            return ""
        if isinstance(self.policy, StructureThompsonSampling):
            return (
                f"; the {rows:,} past rows have the same distribution of observed variables and rewards, given the "
                "action, as future ones (trust_past=1)"
            )
        given = "configuration" if self.policy.traits.needs_parents else "action"
        return f"; the {rows:,} past rewards have the same means, given the {given}, as future ones (trust_past=1)"

    def learned_model(self) -> CausalModel | None:
        """The model with the CPTs learned so far; None if the policy does not learn CPTs."""
        return self.policy.learned_model(self.problem, self.statistic)

    def recommend(
        self, conditioned: Problem, confidence: float, tolerance: float, diagnostics: Diagnostics
    ) -> Recommendation:
        """The best action so far, given the known part of the context."""
        allowance = None if self.tracker is None else self.tracker.budget.per_round
        situation, doubted = situation_for(self.policy, conditioned), self.doubted_past
        lead, *others = self._beliefs(diagnostics)
        best = recommend(self.policy, situation, lead.statistic, confidence, tolerance, lead.diagnostics, allowance)
        best = replace(best, assumes=best.assumes + self._past_assumption(best) + self._changes_assumption())
        if doubted is None:
            return best
        action = conditioned.actions.find(best.intervention)
        for other in others:
            best = doubted.mix(
                best,
                recommend(
                    *(self.policy, situation, other.statistic, confidence, tolerance, other.diagnostics, allowance),
                    action,
                ),
            )
        return replace(best, past=doubted.summary)

    def rank_actions(
        self, conditioned: Problem, recommendation: Recommendation, limit: int | None, offset: int
    ) -> ActionTable:
        """The ranking of all actions, with the recommended one first, or a page of it."""
        beliefs = self._beliefs(self.diagnostics())
        times_chosen = self.times_chosen(conditioned.context_codes)
        return rank_actions(self.policy, conditioned, beliefs, recommendation, times_chosen, limit, offset)

    def _beliefs(self, diagnostics: Diagnostics) -> list[Belief]:
        """The statistic, or the statistics with and without past rows of uncertain validity, the likelier one first."""
        doubted = self.doubted_past
        if doubted is None or doubted.is_dropped:
            return [Belief(1.0, self.statistic, diagnostics)]
        moments = self._moments_of(doubted.statistic, doubted.cell_moments, without_past=True)
        beliefs = [
            Belief(doubted.belief, self.statistic, diagnostics),
            Belief(1.0 - doubted.belief, doubted.statistic, diagnostics._replace(moments=moments)),
        ]
        return beliefs[::-1] if doubted.is_unlikely else beliefs


class Advice(ABC):
    """The read-only part of a campaign: the base class of `Agent` and `Study`."""

    problem: Problem

    @abstractmethod
    def _campaign_state(self) -> AbstractContextManager[CampaignState]:
        """The current state; it does not change until the context manager exits."""

    @property
    @abstractmethod
    def pending(self) -> Mapping[int, Intervention]:
        """The decisions without an outcome, by number."""

    @property
    def model(self) -> CausalModel:
        """The current causal model; where the policy learns CPTs, these are its posterior means.

        `problem.with_model(agent.model)` is the problem with these CPTs taken as known.
        """
        with self._campaign_state() as state:
            return state.learned_model() or self.problem.model

    def recommend(
        self, *, context: Context | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Recommendation:
        """Recommend the action with the largest estimated mean reward minus cost, with an interval for its mean reward.

        The recommendation prints as lines *label: value*; `recommend().table()` ranks all actions.

        Thompson sampling gives a credible interval of its posterior. UCB, KL-UCB, CL-UCB and uniform give confidence
        bounds that are valid under adaptive sampling and at any time. Configurations without rewards are assumed to be
        like the others, within the scale of the prior. Only actions that mostly lead to configurations with rewards are
        candidates; under a budget, only those that it pays for in every round. The uncertainty of CPTs that were
        estimated from data is included.

        `stop` is True if, with probability `confidence`, no other action is better by more than `tolerance`. It is None
        if no valid bound exists; `stop_reason` says why. Two equal actions cannot be told apart, so a tolerance of 0
        may never stop.

        Args:
            context: The known values of the problem's context, by variable, as for `ask`. Default: marginal over the
                context.
            confidence: The probability of the interval, and of the stopping rule; above 0 and below 1.
            tolerance: The acceptable loss in mean reward, in units of the reward; 0 or more.

        Returns:
            The recommendation.

        Raises:
            CausalBanditsError: If `confidence` or `tolerance` is out of range.
            PolicyError: If the policy gives no estimates.
            InterventionError: If a value of the context is unknown.
            ProblemError: If the context has a variable that is not part of the problem's context, or no action meets
                the chance constraints in it.
        """
        with self._campaign_state() as state:
            conditioned = condition_on_context(self.problem, context, accept_impossible=state.accept_impossible)
            recommendation = state.recommend(conditioned, confidence, tolerance, state.diagnostics())
            return self._with_ranking(recommendation, conditioned)

    def _with_ranking(self, recommendation: Recommendation, conditioned: Problem) -> Recommendation:
        """A recommendation that can compute the ranking of all actions on request."""
        confidence, tolerance = recommendation.confidence, recommendation.certainty.tolerance

        def ranking(limit: int | None, offset: int) -> ActionTable:
            with self._campaign_state() as state:
                current = state.recommend(conditioned, confidence, tolerance, state.diagnostics())
                return state.rank_actions(conditioned, current, limit, offset)

        return replace(recommendation, ranking=ranking)

    def recommendations(
        self, *, confidence: float = 0.95, tolerance: float = 0.0, limit: int | None = None
    ) -> Recommendations:
        """Recommend an action for each context that can occur.

        Args:
            confidence: The probability of each interval, and of each stopping rule.
            tolerance: The acceptable loss in mean reward, in units of the reward.
            limit: The number of contexts, the most probable first. Default: all.

        Returns:
            Pairs of the context's probability and its recommendation, the most probable context first. Contexts in
            which no action is allowed are in its attribute `refused`, with the reason.
        """
        with self._campaign_state() as state:
            learned_model = state.learned_model() if state.policy.traits.learns_cpts else None
            current_problem = self.problem if learned_model is None else self.problem.with_model(learned_model)
            diagnostics, recommendations, refused = state.diagnostics(), [], []
            for codes, share in current_problem.contexts.by_probability()[:limit]:
                conditioned = self.problem.condition_codes(codes or None)
                if conditioned.has_actions:
                    recommendation = state.recommend(conditioned, confidence, tolerance, diagnostics)
                    recommendations.append((share, self._with_ranking(recommendation, conditioned)))
                else:
                    refused.append((share, conditioned.infeasibility))
            return Recommendations(recommendations, refused)

    def evidence(self, *, alpha: float | None = None) -> Evidence:
        """Test the model by e-values: manipulable variables act through the parents alone, and each row of the CPTs.

        The tests are valid however actions were chosen and whenever you look. They use the policy's own propensities,
        which randomised policies log with `samples=` above 1. Past rewards are compared with own ones by a Bayes
        factor, which is an approximate e-value. Outcomes count in the order of decisions; those after the first pending
        decision wait for it.

        Args:
            alpha: The limit of the probability of any false alarm. Default: 0.05, or the guard's own level.

        Returns:
            The claims with their e-values; it prints as text.

        Raises:
            ProblemError: If the problem has no parents, so that there is nothing to test.
            PolicyError: If the policy logs no propensities, or changes of mechanisms were noticed.
            CausalBanditsError: If `alpha` is out of range.
        """
        self.problem.require_parents("Evidence")
        with self._campaign_state() as state:
            if (changes := noticed_changes(self.problem, state.statistic)) is not None:
                raise PolicyError(
                    "evidence() assumes that mechanisms stay the same, and changes were noticed of "
                    f"{', '.join(map(repr, changes.mechanisms))}: see changes(). check() tests the outcomes since the "
                    "latest change."
                )
            outcomes, first_pending = state.outcomes(), state.first_pending()
            return gather_evidence(
                self.problem, state.policy, state.statistic, outcomes, first_pending, alpha, state.past
            )

    def structure(self) -> LearnedStructure:
        """The causal structure, as far as outcomes have told it: probabilities of edges and of parent sets.

        Returns:
            The structure; it prints as text, and `graph()` makes a graph of it.

        Raises:
            PolicyError: If the graph is given, or the policy does not learn the structure.
        """
        with self._campaign_state() as state:
            if state.problem.structure_prior is None:
                raise PolicyError(_structure_refusal(state.problem))
            if not isinstance(state.policy, StructureThompsonSampling):
                raise PolicyError(
                    f"The policy {state.policy.id!r} does not learn the causal structure. Change the policy to "
                    "c-ts-structure."
                )
            return learn_structure(state.problem, state.policy, state.statistic)

    def changes(self) -> MechanismChanges:
        """The changes of mechanisms so far, detected or reported, and the evidence for further ones.

        Returns:
            The changes; they print as text.

        Raises:
            PolicyError: If the campaign was created without `changes=`.
        """
        with self._campaign_state() as state:
            return report_changes(state.problem, require_tracker(state.policy.id, state.statistic))

    def check(self, *, alpha: float = 0.05) -> Check:
        """Test the model by Pearson's chi-squared statistic, for any policy; also compare past rewards with own ones.

        The p-values are approximate while the campaign runs: they ignore adaptive sampling, and repeated looks find
        something in the end. `evidence` has neither weakness. After a noticed change of a mechanism, only later
        outcomes are tested.

        Args:
            alpha: The false discovery rate.

        Returns:
            The claims with their p-values; it prints as text.

        Raises:
            ProblemError: If the problem has no parents, so that there is nothing to test.
            CausalBanditsError: If `alpha` is out of range.
        """
        self.problem.require_parents("A check")
        with self._campaign_state() as state:
            changes = noticed_changes(self.problem, state.statistic)
            return check_model(self.problem, state.policy, state.outcomes(), state.past, alpha, changes)


def _structure_refusal(problem: Problem) -> str:
    """The reason why a problem has no structure to learn, with the remedy."""
    if problem.unit == "actions":
        return (
            "This problem learns one mean reward per action, so no structure is learned. Create a problem without a "
            "graph that lists the observed variables (values=)."
        )
    return (
        "The causal graph of this problem is given, so no structure is learned. Create a problem without a graph, or "
        "declare that the graph is known partly (known='partly')."
    )
