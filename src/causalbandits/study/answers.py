"""What can be asked of a study without changing it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from typing import Any

from causalbandits._files import checked_path
from causalbandits.agent import saving
from causalbandits.agent.agent import Context
from causalbandits.agent.contradictions import DOUBT, checked_model, evidence_of_told
from causalbandits.agent.recommendation import Recommendation, Recommendations, recommended
from causalbandits.fitting.checks import Check
from causalbandits.model.intervention import Intervention
from causalbandits.model.model import CausalModel
from causalbandits.policies import AnyPolicy
from causalbandits.policies.claims import Evidence
from causalbandits.problem.budget import Spent
from causalbandits.problem.situation import Situation
from causalbandits.study.asking import Asking
from causalbandits.study.doubts import checked_statistic, doubts
from causalbandits.study.evaluation import By, Evaluation, Target, evaluated
from causalbandits.study.export import write_table
from causalbandits.study.fold import rows_of
from causalbandits.study.grid import value
from causalbandits.study.history import History, history_of
from causalbandits.study.outcomes import Id, Outcomes
from causalbandits.study.report import StudyReport, comes_out_again, event_record, explained, mode_record, report_of
from causalbandits.study.rows import IS_OPEN
from causalbandits.study.state import StudyState
from causalbandits.study.verify import Verification, verified


class Answers:
    """The half of a study that only looks."""

    def __init__(self, state: StudyState) -> None:
        self._state = state
        self._log, self._outcomes = state.log, Outcomes(state)
        self._asking = Asking(state, self._outcomes)
        self.problem, self.rules = state.problem, state.rules

    @property
    def policy(self) -> AnyPolicy:
        """Who decides by now."""
        with self._state.transaction() as fold:
            return fold.policy

    @property
    def statistic(self) -> Any:
        """What the policy keeps, by now; not to be changed."""
        with self._state.transaction() as fold:
            return fold.statistic

    @property
    def decided(self) -> int:
        """How many decisions were made."""
        return self._log.count()

    @property
    def rounds(self) -> int:
        """How many outcomes count."""
        with self._state.transaction():
            return sum(line.n for line in self._state.table.values())

    @property
    def version(self) -> int:
        """Changes with every decision and every event."""
        return self._log.count() + self._log.newest()

    def state_hash(self) -> str:
        """A short name of what was learnt: the same outcomes make the same, in whatever order they came."""
        with self._state.transaction():
            return hashlib.blake2b(repr(list(rows_of(self._state.table))).encode(), digest_size=6).hexdigest()

    def oldest_open(self) -> float | None:
        """Since when the earliest decision waits that has no outcome yet, as seconds since 1970."""
        with self._state.transaction():
            return self._log.oldest_open(self._state.frontier())

    def counts(self) -> dict[str, float | None]:
        """How many of what, from a few lookups: for those who watch a service."""
        with self._state.transaction():
            oldest, now, spent = self.oldest_open(), self._state.clock(), self.budget
            return {
                "decisions": self._state.decided,
                "events": self._state.events,
                "outcomes": self._state.counted,
                "reward_sum": value(self._state.collected),
                "open_decisions": self._log.count(IS_OPEN),
                "early_outcomes": self._log.waiting(),
                "oldest_open_seconds": None if oldest is None else now - oldest,
                "budget_left": None if spent is None else spent.left,
            }

    @property
    def model(self) -> CausalModel:
        """The model as it is known by now; with a policy that learns tables, what was observed has been counted."""
        with self._state.transaction() as fold:
            return fold.policy.learnt_model(self.problem, fold.statistic) or self.problem.model

    @property
    def budget(self) -> Spent | None:
        """What has been spent of the budget, and what is left; None without one."""
        with self._state.transaction():
            return None if self._state.charges is None else self._state.charges.purse.spent

    @property
    def mode(self) -> str:
        """How decisions come about: online, shadow, uniform, frozen; paused or closed where none do."""
        return self._log.mode().mode

    def modes(self) -> list[dict[str, Any]]:
        """All modes that the study has been in, since when, who chose them and why."""
        return [mode_record(self._log, mode) for mode in self._log.modes()]

    @property
    def pending(self) -> dict[int, Intervention]:
        """Decisions whose outcome has not come (yet), by number."""
        return {row.number: row.choice.action.intervention for row in self._log.decisions("status = ?", (IS_OPEN,))}

    def report(self) -> StudyReport:
        """How the study stands: counts, and means by action and by configuration."""
        with self._state.transaction():
            return report_of(self._state)

    def by_action(self, status: str, *, at_most: int = 20_000) -> dict[Intervention, int] | None:
        """How many decisions of a status ("open", "expired", ...) each action has; None where that are too many."""
        with self._state.transaction():
            if self._log.count(status) > at_most:
                return None
            return {action.intervention: n for action, n in self._log.by_action(status).items()}

    def history(self) -> History:
        """How it went: the mean reward, stretch by stretch, and the shares of the actions."""
        with self._state.transaction():
            return history_of(self._state)

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

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write a line for each decision to a .csv, .parquet or .dsjson file; how many."""
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
            row = self._outcomes.found(id)
            return None if row is None else row.status

    def due(self, id: Id) -> float | None:
        """Until when a decision's outcome is waited for, as seconds since 1970; None where that is for ever."""
        with self._state.transaction():
            return self._outcomes.known(id).due

    def chances(self, id: Id) -> dict[Intervention, float]:
        """What a decision was drawn from, each with its probability; empty where that is not known."""
        with self._state.transaction():
            action, propensity, support = self._outcomes.known(id).choice
            drawn = ((action, propensity),) if support is None else support
            return {one.intervention: chance for one, chance in drawn if chance is not None}

    def description(self) -> dict[str, Any]:
        """What was agreed on: the problem, as `to_record()` gives it, who decides, and the rules."""
        with self._state.transaction() as fold:
            decides = saving.policy_record(fold.policy, self.problem)
            return {"problem": self.problem.to_record(), "policy": decides, "rules": asdict(self.rules)}

    def explain(self, id: Id) -> dict[str, Any]:
        """A decision: who decided when, from what, what was told since; whether it comes out the same again."""
        with self._state.transaction():
            row = self._outcomes.known(id)
            return explained(self._state, row)

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
