"""What can be asked of a study without changing it."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from causalbandits._files import checked_path
from causalbandits.agent.contradictions import DOUBT, checked_model, evidence_of_told
from causalbandits.agent.decision import Context
from causalbandits.agent.policy_record import policy_record
from causalbandits.agent.recommendation import Recommendation, Recommendations, recommended
from causalbandits.errors import BudgetError
from causalbandits.fitting.checks import Check
from causalbandits.model.intervention import Intervention
from causalbandits.policies import AnyPolicy, as_policy
from causalbandits.policies.claims import Evidence
from causalbandits.policies.complying import said_before
from causalbandits.problem.situation import Situation
from causalbandits.study.doubts import checked_statistic, doubts
from causalbandits.study.evaluation import By, Evaluation, Target, evaluated
from causalbandits.study.export import Exported, write_table
from causalbandits.study.modes import refuse_log
from causalbandits.study.outcomes import Id
from causalbandits.study.report import (
    comes_out_again,
    event_record,
    explained,
)
from causalbandits.study.shadowing import Shadowed, in_shadow
from causalbandits.study.standing import Standing
from causalbandits.study.verify import Verification, verified


class Answers(Standing):
    """The half of a study that only looks."""

    def recommend(self, *, context: Context | None = None, level: float = 0.95, epsilon: float = 0.0) -> Recommendation:
        """What to do if the study had to stop now, how sure that is, and whether it may: as `Agent.recommend`.

        What it says against the model comes from the statistic alone, however many decisions there are; `check` and
        `evidence` look at every one.
        """
        with self._state.transaction() as fold:
            known = self._asking.known(context)
            return self._recommended(fold.policy.situation(known), level, epsilon, doubts(self._state))

    def recommendations(
        self, *, level: float = 0.95, epsilon: float = 0.0, at_most: int | None = None
    ) -> Recommendations:
        """What to do in each context that can occur, or in the likeliest of them: as `Agent.recommendations`."""
        with self._state.transaction() as fold:
            against, found, refused = doubts(self._state), [], []
            known = self.problem.with_model(self.model) if fold.policy.learns_tables else self.problem
            for codes, share in known.contexts.likely()[:at_most]:
                here = self.problem.in_context(codes or None)
                if here.has_actions:
                    found.append((share, self._recommended(fold.policy.situation(here), level, epsilon, against)))
                else:
                    refused.append((share, here.no_action))
            return Recommendations(found, refused)

    def _recommended(
        self, situation: Situation, level: float, epsilon: float, against: tuple[str, ...]
    ) -> Recommendation:
        fold, budget = self._state.fold, self._state.budget
        allowance = None if budget is None else budget.a_round
        return recommended(fold.policy, situation, fold.statistic, level, epsilon, against, allowance)

    def evidence(self, *, level: float | None = None) -> Evidence:
        """What the outcomes say of the model, whenever you look: as `Agent.evidence`. Looks at every outcome."""
        self.problem.refuse_by_actions("Evidence")
        with self._state.transaction() as fold:
            told = self.problem, fold.policy, fold.statistic, self._log.outcomes()
            return evidence_of_told(*told, self._log.first_open(), level)

    def check(self, *, level: float = 0.05) -> Check:
        """The same claims by Pearson's statistic, approximate while running: as `Agent.check`. Looks at every one."""
        self.problem.refuse_by_actions("A check")
        with self._state.transaction():
            return checked_model(self.problem, self._log.outcomes(), level)

    def quick_check(self, *, level: float = DOUBT) -> Check:
        """As `check`, from the statistic alone: as quick after a million. Rewards other than 0 and 1 are left out."""
        self.problem.refuse_by_actions("A check")
        with self._state.transaction():
            return checked_statistic(self._state, level)

    def evaluate(self, target: Target, *, by: By = "configurations") -> Evaluation:
        """What always doing something else would have brought: an intervention, or several with their shares.

        From what was logged, with weights of configurations, or of actions (`by="actions"`, which needs a study with a
        floor=); see `causalbandits.study.evaluation`. `"logged"` gives the mean of what came. Where the policy learns
        tables, or has mended them, the tables are those of `model`.
        """
        with self._state.transaction() as fold:
            learnt = fold.policy.learnt_model(self.problem, fold.statistic)
            known = self.problem if learnt is None else self.problem.with_model(learnt)
            return evaluated(known, self._log.logged(), target, by)

    def in_shadow(self, policy: AnyPolicy | str) -> list[Shadowed]:
        """What another policy would have decided, each time by what had been told by then: in the shadow, afterwards.

        It learns from what was done. Its random numbers are those of the decision, so that the policy that decided,
        without a floor, would have done what was done.
        """
        chosen = as_policy(policy)
        chosen.begin(self.problem)
        if self._state.budget is not None:
            raise BudgetError("What another policy would have spent is not known: a budget is spent by what was done.")
        with self._state.transaction():
            refuse_log(self._state, chosen)
            with said_before():
                return list(in_shadow(self._log, chosen, self._state.coins))

    def export(self, path: str | os.PathLike[str]) -> Exported:
        """Write a line for each decision to a .csv or .parquet file, or to a .dsjson file, if it can be learnt from."""
        with self._state.transaction():
            return write_table(self._log, checked_path(path, "decisions.csv"))

    def id_of(self, text: str, by: str | None = None) -> Id:
        """The decision that a text from outside means: `by` its "number" or its "key", or whichever it is.

        Refused where it is the number of one decision and the key of another.
        """
        with self._state.transaction():
            return self._outcomes.named(text, by)

    def status(self, id: Id) -> str | None:
        """What became of a decision: open, held, told, expired or forgotten; None where a key was not asked with."""
        with self._state.transaction():
            row = self._outcomes.found(id, chances=False)
            return None if row is None else row.status

    def due(self, id: Id) -> float | None:
        """Until when a decision's outcome is waited for, as seconds since 1970; None where that is for ever."""
        with self._state.transaction():
            return self._outcomes.known(id, chances=False).due

    def chances(self, id: Id) -> dict[Intervention, float]:
        """What a decision was drawn from, each with its probability; empty where that is not known."""
        with self._state.transaction():
            action, propensity, support = self._outcomes.known(id).choice
            drawn = ((action, propensity),) if support is None else support
            return {one.intervention: chance for one, chance in drawn if chance is not None}

    def description(self) -> dict[str, Any]:
        """What was agreed on: the problem, as `to_record()` gives it, who decides, and the rules."""
        with self._state.transaction() as fold:
            decides = policy_record(fold.policy, self.problem)
            return {"problem": self.problem.to_record(), "policy": decides, "rules": asdict(self.rules)}

    def explain(self, id: Id) -> dict[str, Any]:
        """A decision: who decided when, from what, what was told since; whether it comes out the same again."""
        with self._state.transaction():
            row = self._outcomes.known(id)
            return {**explained(self._state, row), "stranded": self._outcomes.why_stranded(row)}

    def events(self, after: int = 0, at_most: int = 1000) -> list[dict[str, Any]]:
        """What was told after an event, in its order: to follow the study from outside."""
        return [event_record(event) for event in self._log.events(after, limit=at_most)]

    def verify(self) -> Verification:
        """Fold the log again and compare, bit for bit, with what is kept; true if all is well."""
        with self._state.store.transaction():
            self._state.write_lines()  # where this is within a transaction of the caller's
            return verified(self._log)

    def replay(self, id: Id) -> bool:
        """Whether a decision comes out the same again, from what had been told when it was made."""
        with self._state.transaction():
            return comes_out_again(self._state, self._outcomes.known(id))
