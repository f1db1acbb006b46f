"""What can be asked of an agent without changing it: its advice, what speaks against the model, a page about it all."""

from __future__ import annotations

import os

from causalbandits._files import checked_path, refuse_unwritable, write_atomically
from causalbandits.agent.contradictions import checked_model, contradictions, evidence_of_told
from causalbandits.agent.decision import Context
from causalbandits.agent.learner import Learner
from causalbandits.agent.recommendation import Recommendation, Recommendations, caveats, recommended
from causalbandits.errors import StateError
from causalbandits.fitting.checks import Check
from causalbandits.model.model import CausalModel
from causalbandits.policies.claims import Evidence
from causalbandits.problem.budget import Spent
from causalbandits.problem.situation import Situation


class Adviser(Learner):
    """The half of an agent that only looks."""

    @property
    def model(self) -> CausalModel:
        """The model as it is known by now: with a policy that learns tables, what was observed has been counted.

        `problem.with_model(agent.model)` is the problem for a policy that is to take these tables as known.
        """
        return self.policy.learnt_model(self.problem, self._folded()) or self.problem.model

    @property
    def budget(self) -> Spent | None:
        """What has been spent of the budget, and what is left; None without one."""
        return None if self._purse is None else self._purse.spent

    def recommend(self, *, context: Context | None = None, level: float = 0.95, epsilon: float = 0.0) -> Recommendation:
        """The action with the largest estimated mean so far, less its cost, and an interval for that mean.

        `context` has the values of what is known, as for `ask`. Thompson sampling gives its posterior's credible
        interval. UCB, KL-UCB and uniform give confidence bounds that hold for all configurations (actions, for the
        baselines) at all times together, CL-UCB its ellipsoid: both stay valid however the actions were chosen and
        whenever you look. Configurations without rewards are taken to be like the others, within the prior's scale.
        Only actions that mostly lead to configurations seen before are candidates; under a budget, only those that it
        pays for in every round. Tables that were fitted to data are as uncertain as these leave them. What the interval
        assumes, and where rewards contradict that, is said with it.

        It also says how likely the action is to be the best, what stopping now would lose, and whether you may stop:
        whether, with probability `level`, no other action is better by more than `epsilon`. That holds whenever you
        look; but equal actions are never told apart, so that an epsilon of 0 may never let you stop.
        """
        situation = self._whole if context is None else self._situation(context)
        return self._recommended(situation, level, epsilon, self._doubts())

    def recommendations(self, *, level: float = 0.95, epsilon: float = 0.0) -> Recommendations:
        """What to do in each context that can occur, the likeliest first, with its share of the decisions.

        Contexts in which nothing may be done, because of what is required, are in `.refused`, with the reason.
        """
        known = self.problem.with_model(self.model) if self.policy.learns_tables else self.problem
        against, found, refused = self._doubts(), [], []
        for codes, share in known.contexts.likely():
            here = self.problem.in_context(codes or None)
            if here.has_actions:
                found.append((share, self._recommended(self._situation_of(here.known), level, epsilon, against)))
            else:
                refused.append((share, here.no_action))
        return Recommendations(found, refused)

    def _doubts(self) -> tuple[str, ...]:
        """What the outcomes say against the policy's scales, the way it is used, and the model: of all contexts."""
        statistic = self._folded()
        return (
            *caveats(self.policy, self._told),
            *self.policy.concerns(self.problem, statistic),
            *contradictions(self.problem, self.policy, statistic, lambda level: self.check(level=level)),
        )

    def _recommended(
        self, situation: Situation, level: float, epsilon: float, against: tuple[str, ...]
    ) -> Recommendation:
        allowance = None if self._purse is None else self._purse.budget.a_round
        return recommended(self.policy, situation, self._folded(), level, epsilon, against, allowance)

    def evidence(self, *, level: float | None = None) -> Evidence:
        """What the outcomes say of the model: that knobs act through the parents alone, and every row of its tables.

        The e-values are made from the policy's own chances (`draws=` above 1): they are valid however actions were
        chosen and whenever you look. The chance of a false alarm, ever, is `level` at most (0.05, or the guard's own).
        Outcomes count in the order of decisions: those after the first pending one wait for it.
        """
        self.problem.refuse_by_actions("Evidence")
        known = self.problem, self.policy, self._folded(), self._told
        return evidence_of_told(*known, min(self._pending, default=None), level)

    def check(self, *, level: float = 0.05) -> Check:
        """Test the same claims by Pearson's statistic, for any policy; approximate while running.

        p-values take the outcomes for a sample that was chosen without looking: chosen adaptively they are about right,
        and looking again and again finds something in the end. `evidence` has neither weakness.
        """
        self.problem.refuse_by_actions("A check")
        return checked_model(self.problem, self._told, level)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page about the campaign, to look at and to pass on: it needs no other file, and opens offline.

        The answer so far and how sure it is, the causal graph, the mean reward, every action and configuration, and
        where outcomes contradict the model.
        """
        where = checked_path(path, "campaign.html")
        if where.suffix.lower() not in (".html", ".htm"):
            raise StateError(f"A page's name ends in .html, such as campaign.html; got {str(path)!r}.")
        refuse_unwritable(where)
        from causalbandits.agent.page import page_of
        from causalbandits.results.report import as_html

        write_atomically(where, as_html(page_of(self, list(self._told)), where.parent).encode())
