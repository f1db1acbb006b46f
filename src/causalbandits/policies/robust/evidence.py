"""The evidence against each claim of a model as text: e-values, ordered by part and strength, and alarms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from causalbandits.fitting import PART_LABELS, format_claim_count, format_rejections
from causalbandits.policies.robust.e_process import log_mean_exp
from causalbandits.policies.robust.implications import testable_implications
from causalbandits.policies.robust.monitor import ARROW, RESPONSES, ROW, AlarmRow, Monitor
from causalbandits.problem import Problem, format_names

MAX_CLAIMS_LISTED = 10

NO_OUTCOMES = "there are no outcomes yet"


class ModelClaim(NamedTuple):
    """A claim of the graph or of a CPT, with the evidence against it.

    Attributes:
        part: "graph", "tables" (CPTs) or "past" (past rewards).
        claim: The claim in words.
        variable: The manipulable variable, or the variable of the CPT.
        log_e: The logarithm of the e-value. 0 is no evidence; log(100) is an event of probability 1/100 at most if the
            claim holds.
        contradicted: Whether the claim is rejected.
        outcomes: The number of outcomes that tested it.
        untested: The reason why no outcome tested it; empty if some did.
    """

    part: Literal["graph", "tables", "past"]
    claim: str
    variable: str
    log_e: float
    contradicted: bool
    outcomes: int
    untested: str

    @property
    def e(self) -> float:
        """The e-value; infinite beyond the range of floating-point numbers."""
        return math.exp(self.log_e) if self.log_e < 700 else math.inf

    def __str__(self) -> str:
        if self.untested:
            return f"{self.claim}: not tested, {self.untested}"
        verdict = "rejected" if self.contradicted else "not rejected"
        return f"{self.claim}: e-value {format_e_value(self.log_e)}, {verdict}"


class Alarm(NamedTuple):
    """The rejection of a claim by a guarded policy, and its reaction.

    Attributes:
        decision: The number of the decision whose outcome led to the rejection.
        claim: The claim in words.
        variable: The manipulable variable, or the variable of the CPT.
        log_e: The logarithm of the e-value.
        done: The reaction in words.
    """

    decision: int
    claim: str
    variable: str
    log_e: float
    done: str

    def __str__(self) -> str:
        strength = f"decision {self.decision}, e-value {format_e_value(self.log_e)}"
        return f"misspecification test rejects: {self.claim} ({strength}); {self.done}"


@dataclass(frozen=True, repr=False)
class Evidence:
    """The evidence against every claim of the model, the strongest first; prints as text.

    Attributes:
        claims: The claims.
        alarms: The alarms of a guarded policy.
        rounds: The number of outcomes that count, which are those before the first pending decision.
        alpha: The limit of the probability of any false alarm.
        later: The number of outcomes that do not count yet, because an earlier one is missing.
        missing: The number of the decision whose outcome is missing; None if no outcome waits for it.
    """

    claims: tuple[ModelClaim, ...]
    alarms: tuple[Alarm, ...]
    rounds: int
    alpha: float
    later: int = 0
    missing: int | None = None

    def with_pending(self, later: int, missing: int | None) -> Evidence:
        """The same evidence while outcomes wait for that of an earlier decision.

        Args:
            later: The number of outcomes that wait.
            missing: The number of the decision whose outcome is missing.

        Returns:
            The evidence.
        """
        if not later:
            return self
        why = f"all {later} outcomes wait for the outcome of decision {missing}"
        claims = tuple(c._replace(untested=why if c.untested == NO_OUTCOMES else c.untested) for c in self.claims)
        return replace(self, claims=claims, later=later, missing=missing)

    @property
    def contradicted(self) -> tuple[ModelClaim, ...]:
        """The claims that are rejected so far."""
        return tuple(claim for claim in self.claims if claim.contradicted)

    @property
    def untested(self) -> tuple[ModelClaim, ...]:
        """The claims that no outcome has tested."""
        return tuple(claim for claim in self.claims if claim.untested)

    def __repr__(self) -> str:
        lines = [
            f"Misspecification test: {self.rounds} outcomes, by e-values",
            f"Probability of any false alarm: at most {self.alpha:g}",
        ]
        if self.later:
            lines.append(
                f"Waiting: {self.later} outcomes, until decision {self.missing} has an outcome or is cancelled"
            )
        lines += [f"Alarm: {alarm}" for alarm in self.alarms]
        for part in PART_LABELS:
            claims = [claim for claim in self.claims if claim.part == part]
            if part != "past" or claims:
                lines += _format_section(part, claims)
        return "\n".join(lines)

    __str__ = __repr__


def _format_section(part: str, claims: list[ModelClaim]) -> list[str]:
    tested = [claim for claim in claims if not claim.untested]
    rejected = sum(claim.contradicted for claim in claims)
    lines = [f"{PART_LABELS[part]}: {format_rejections(rejected, len(tested), 'largest e-values')}"]
    lines += [f"  {claim}" for claim in tested[: min(max(rejected, 3), MAX_CLAIMS_LISTED)]]
    reasons = Counter(claim.untested for claim in claims if claim.untested)
    return lines + [f"  {format_claim_count(count)} not tested: {reason}" for reason, count in reasons.items()]


def format_e_value(log_e: float) -> str:
    """An e-value as readable text.

    >>> format_e_value(0.0), format_e_value(math.log(1234)), format_e_value(2000.0)
    ('1', '1.2e+03', 'about 10^869')
    """
    return f"{math.exp(log_e):.2g}" if log_e < 700 else f"about 10^{log_e / math.log(10):.0f}"


def evidence_of(problem: Problem, monitor: Monitor, alpha: float) -> Evidence:
    """The evidence of a monitor. A claim is contradicted if an alarm has named it, or if its own e-value is large
    enough.
    """
    rows = [log_mean_exp(logs) for logs in monitor.log_rows.tolist()]
    draw_counts = [int(count) for count in testable_implications(problem).row_totals(monitor.counted).tolist()]
    claims = [
        *_evaluate_claims(problem, monitor, ARROW, monitor.log_arrows.tolist(), monitor.contrasts.tolist(), alpha),
        *_evaluate_claims(problem, monitor, ROW, rows, draw_counts, alpha),
    ]
    claims.sort(key=lambda claim: (claim.part, not claim.contradicted, bool(claim.untested), -claim.log_e))
    return Evidence(
        tuple(claims), tuple(alarm_of(problem, ring) for ring in monitor.alarm_rows()), monitor.witnessed, alpha
    )


def _evaluate_claims(
    problem: Problem, monitor: Monitor, about: int, logs: list[float], outcomes: list[int], alpha: float
) -> Iterator[ModelClaim]:
    log_e_of_alarms = {ring.which: ring.log_e for ring in monitor.alarm_rows() if ring.about == about}
    limit = math.log(2.0 * len(logs) / alpha)
    for which, (log_e, count) in enumerate(zip(logs, outcomes, strict=True)):
        wrong = log_e >= limit or which in log_e_of_alarms
        log_e = max(log_e, log_e_of_alarms.get(which, log_e))  # the e-value restarts after a repair
        text, variable = _format_claim(problem, about, which), _variable(problem, about, which)
        reason = "" if count or wrong else _reason_untested(problem, monitor, about, which)
        yield ModelClaim("graph" if about == ARROW else "tables", text, variable, log_e, wrong, count, reason)


def _reason_untested(problem: Problem, monitor: Monitor, about: int, which: int) -> str:
    """The reason why a claim was not tested."""
    if not monitor.witnessed:
        return NO_OUTCOMES
    if about == ARROW:
        since = " since the last repair of the graph" if monitor.added_variables else ""
        return f"given the parents, the choice of {problem.manipulable[which]} was never random{since}"
    return testable_implications(problem).reason_untested(which, monitor.counted)


def alarm_of(problem: Problem, row: AlarmRow) -> Alarm:
    """An alarm as text."""
    about, which = row.about, row.which
    return Alarm(
        row.decision,
        _format_claim(problem, about, which),
        _variable(problem, about, which),
        row.log_e,
        RESPONSES[row.done],
    )


def _variable(problem: Problem, about: int, which: int) -> str:
    return problem.manipulable[which] if about == ARROW else testable_implications(problem).variable_of(which)


def format_arrow_claim(problem: Problem, variable: int) -> str:
    """The claim that a manipulable variable affects the reward only through the parents."""
    return f"given {format_names(problem.parents)}, the reward should not depend on {problem.manipulable[variable]}"


def _format_claim(problem: Problem, about: int, which: int) -> str:
    if about == ARROW:
        return format_arrow_claim(problem, which)
    expected = "the fitted row" if testable_implications(problem).fitted else "the row of the CPT"
    return f"{testable_implications(problem).format_row(which)} should equal {expected}"
