"""How a study stands: who decides, how much was decided, told and spent, and what was learnt."""

from __future__ import annotations

import hashlib
from typing import Any

from causalbandits.model.intervention import Intervention
from causalbandits.model.model import CausalModel
from causalbandits.policies import AnyPolicy
from causalbandits.problem.budget import Spent
from causalbandits.study.asking import Asking
from causalbandits.study.exact_sums import rows_of
from causalbandits.study.grid import value
from causalbandits.study.history import History, history_of
from causalbandits.study.outcomes import Outcomes
from causalbandits.study.report import (
    StudyReport,
    mode_record,
    report_of,
    statistic_records,
)
from causalbandits.study.rows import IS_OPEN
from causalbandits.study.state import StudyState

STRANDED_NAMED = 100
"""At most so many outcomes that could not be taken are listed."""


class Standing:
    """What is known of a study at a glance."""

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
            return report_of(self._state, self._outcomes.stranded(STRANDED_NAMED))

    def by_action(self, status: str, *, at_most: int = 20_000) -> dict[Intervention, int] | None:
        """How many decisions of a status ("open", "expired", ...) each action has; None where that are too many."""
        with self._state.transaction():
            if self._log.count(status) > at_most:
                return None
            return {action.intervention: n for action, n in self._log.by_action(status).items()}

    def lines(self, at_most: int = 10_000) -> list[dict[str, Any]]:
        """The statistic, a line for each context, action and configuration that occurred, the most frequent first."""
        with self._state.transaction():
            return statistic_records(self._state, at_most)

    def history(self) -> History:
        """How it went: the mean reward, stretch by stretch, and the shares of the actions."""
        with self._state.transaction():
            return history_of(self._state)
