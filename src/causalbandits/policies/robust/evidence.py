"""Evidence in words: every claim of a model with its e-value, the worst first, and the alarms that rang."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from causalbandits.policies.robust.e_process import log_mean_exp
from causalbandits.policies.robust.implications import watched
from causalbandits.policies.robust.monitor import ARROW, DONE, ROW, Ring, Watching
from causalbandits.problem import Problem, shown_names

CLAIMS_SHOWN = 10

NO_OUTCOMES = "there are no outcomes yet"


class ModelClaim(NamedTuple):
    """One claim of the graph or of a table, and the evidence against it."""

    part: Literal["graph", "tables"]
    claim: str
    variable: str
    """The knob, or the variable whose table it is."""
    log_e: float
    """The logarithm of its e-value: 0 says nothing, log(100) that what had a chance of 1/100 at most has happened."""
    contradicted: bool
    outcomes: int
    """How many outcomes tested it."""
    untested: str
    """Why none did, in words; empty if some did."""

    @property
    def e(self) -> float:
        """Its e-value; infinite where that is beyond a float's range."""
        return math.exp(self.log_e) if self.log_e < 700 else math.inf

    def __str__(self) -> str:
        if self.untested:
            return f"{self.claim}: not tested; {self.untested}."
        verdict = "the data contradict it" if self.contradicted else "no contradiction"
        return f"{self.claim}: e = {shown_e(self.log_e)}; {verdict}."


class Alarm(NamedTuple):
    """When a claim was found contradicted, how strongly, and what was done about it."""

    decision: int
    """The number of the decision after whose outcome it rang."""
    claim: str
    variable: str
    log_e: float
    done: str

    def __str__(self) -> str:
        strength = f"decision {self.decision}, e = {shown_e(self.log_e)}"
        return f"the outcomes contradict the model: {self.claim} ({strength}); {self.done}"


@dataclass(frozen=True, repr=False)
class Evidence:
    """What the outcomes say to every claim, the worst first; prints in words."""

    claims: tuple[ModelClaim, ...]
    alarms: tuple[Alarm, ...]
    rounds: int
    """Outcomes that count: those before which none is missing."""
    level: float
    later: int = 0
    """Outcomes that do not count yet, because an earlier one is missing."""
    missing: int | None = None
    """The number of the decision whose outcome is; None where no others wait for it."""

    def waiting(self, later: int, missing: int | None) -> Evidence:
        """The same, where so many outcomes wait for that of an earlier decision."""
        if not later:
            return self
        why = f"all {later} outcomes wait for that of decision {missing}"
        claims = tuple(c._replace(untested=why if c.untested == NO_OUTCOMES else c.untested) for c in self.claims)
        return replace(self, claims=claims, later=later, missing=missing)

    @property
    def contradicted(self) -> tuple[ModelClaim, ...]:
        """The claims that the outcomes contradict by now."""
        return tuple(claim for claim in self.claims if claim.contradicted)

    @property
    def untested(self) -> tuple[ModelClaim, ...]:
        """The claims that no outcome has tested: of these nothing is known."""
        return tuple(claim for claim in self.claims if claim.untested)

    def __repr__(self) -> str:
        later = (
            f" {self.later} more are looked at when that of decision {self.missing} has come: tell it, or forget it."
            if self.later
            else ""
        )
        lines = [f"{self.rounds} outcomes.{later} The chance of a false alarm, ever, is {self.level:g} at most."]
        lines += [f"Alarm: {alarm}." for alarm in self.alarms]
        for part in ("graph", "tables"):
            lines += _section(part, [claim for claim in self.claims if claim.part == part])
        return "\n".join(lines)

    __str__ = __repr__


def _section(part: str, claims: list[ModelClaim]) -> list[str]:
    tested = [claim for claim in claims if not claim.untested]
    wrong = sum(claim.contradicted for claim in claims)
    if wrong:
        head = f"The outcomes contradict {wrong} of the {_claims(len(tested))} of the {part} tested:"
    elif tested:
        head = f"The outcomes do not contradict the {part} ({_claims(len(tested))} tested). The nearest to it:"
    else:
        head = f"The outcomes have tested no claim of the {part}."
    lines = [head, *(f"  {claim}" for claim in tested[: min(max(wrong, 3), CLAIMS_SHOWN)])]
    reasons = Counter(claim.untested for claim in claims if claim.untested)
    for reason, count in reasons.items():
        lines.append(f"{_claims(count)} of the {part} could not be tested: {reason}.")
    return lines


def _claims(count: int) -> str:
    return f"{count} claim{'s' if count > 1 else ''}"


def shown_e(log_e: float) -> str:
    """An e-value for people.

    >>> shown_e(0.0), shown_e(math.log(1234)), shown_e(2000.0)
    ('1', '1.2e+03', 'about 10^869')
    """
    return f"{math.exp(log_e):.2g}" if log_e < 700 else f"about 10^{log_e / math.log(10):.0f}"


def evidence_of(problem: Problem, watch: Watching, level: float) -> Evidence:
    """What a watch has to say. A claim is contradicted if an alarm has named it, or its own e-value is large enough."""
    rows = [log_mean_exp(logs) for logs in watch.log_rows.tolist()]
    drawn = [int(count) for count in watched(problem).totals(watch.counted).tolist()]
    found = [
        *_judged(problem, watch, ARROW, watch.log_arrows.tolist(), watch.contrasts.tolist(), level),
        *_judged(problem, watch, ROW, rows, drawn, level),
    ]
    found.sort(key=lambda claim: (claim.part, not claim.contradicted, bool(claim.untested), -claim.log_e))
    return Evidence(tuple(found), tuple(alarm_of(problem, ring) for ring in watch.rings()), watch.witnessed, level)


def _judged(
    problem: Problem, watch: Watching, about: int, logs: list[float], outcomes: list[int], level: float
) -> Iterator[ModelClaim]:
    named = {ring.which: ring.log_e for ring in watch.rings() if ring.about == about}
    limit = math.log(2.0 * len(logs) / level)
    for which, (log_e, count) in enumerate(zip(logs, outcomes, strict=True)):
        wrong = log_e >= limit or which in named
        log_e = max(log_e, named.get(which, log_e))  # which begins anew where something was mended
        text, variable = _claim(problem, about, which), _variable(problem, about, which)
        why = "" if count or wrong else _untested(problem, watch, about, which)
        yield ModelClaim("graph" if about == ARROW else "tables", text, variable, log_e, wrong, count, why)


def _untested(problem: Problem, watch: Watching, about: int, which: int) -> str:
    """Why nothing is known of a claim."""
    if not watch.witnessed:
        return NO_OUTCOMES
    if about == ARROW:
        since = " since the graph was mended" if watch.knobs else ""
        return f"given the parents, what was done with {problem.manipulable[which]} was never left to chance{since}"
    return watched(problem).why_undrawn(which, watch.counted)


def alarm_of(problem: Problem, ring: Ring) -> Alarm:
    """An alarm in words."""
    about, which = ring.about, ring.which
    return Alarm(
        ring.decision, _claim(problem, about, which), _variable(problem, about, which), ring.log_e, DONE[ring.done]
    )


def _variable(problem: Problem, about: int, which: int) -> str:
    return problem.manipulable[which] if about == ARROW else watched(problem).variable_of(which)


def arrow_claim(problem: Problem, knob: int) -> str:
    """That a knob acts through the parents alone."""
    return f"given {shown_names(problem.parents)}, the reward should not depend on {problem.manipulable[knob]}"


def _claim(problem: Problem, about: int, which: int) -> str:
    if about == ARROW:
        return arrow_claim(problem, which)
    fitted = "it was fitted" if watched(problem).fitted else "in its table"
    return f"{watched(problem).described(which)} should be as {fitted}"
