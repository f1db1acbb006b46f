"""Evidence in words: every claim of a model with its e-value, the worst first, and the alarms that rang."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from causalbandits.policies.alarms import ARROW, DONE, Ring
from causalbandits.policies.evidence import log_mean_exp
from causalbandits.policies.watched import watched
from causalbandits.policies.watching import Watching
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.separation import shown_names

CLAIMS_SHOWN = 10


class ModelClaim(NamedTuple):
    """One claim of the graph or of a table, and the evidence against it."""

    part: Literal["graph", "tables"]
    claim: str
    variable: str
    """The knob, or the variable whose table it is."""
    log_e: float
    """The logarithm of its e-value: 0 says nothing, log(100) that what had a chance of 1/100 at most has happened."""
    contradicted: bool

    @property
    def e(self) -> float:
        """Its e-value; infinite where that is beyond a float's range."""
        return math.exp(self.log_e) if self.log_e < 700 else math.inf

    def __str__(self) -> str:
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

    @property
    def contradicted(self) -> tuple[ModelClaim, ...]:
        """The claims that the outcomes contradict by now."""
        return tuple(claim for claim in self.claims if claim.contradicted)

    def __repr__(self) -> str:
        lines = [f"{self.rounds} outcomes. The chance of a false alarm, ever, is {self.level:g} at most."]
        lines += [f"Alarm: {alarm}." for alarm in self.alarms]
        for part in ("graph", "tables"):
            own = [claim for claim in self.claims if claim.part == part]
            wrong = sum(claim.contradicted for claim in own)
            if wrong:
                lines.append(f"The outcomes contradict {wrong} of the {len(own)} claims of the {part}:")
            else:
                lines.append(f"The outcomes do not contradict the {part} ({len(own)} claims). The nearest to it:")
            lines += [f"  {claim}" for claim in own[: min(max(wrong, 3), CLAIMS_SHOWN)]]
        return "\n".join(lines)

    __str__ = __repr__


def shown_e(log_e: float) -> str:
    """An e-value for people.

    >>> shown_e(0.0), shown_e(math.log(1234)), shown_e(2000.0)
    ('1', '1.2e+03', 'about 10^869')
    """
    return f"{math.exp(log_e):.2g}" if log_e < 700 else f"about 10^{log_e / math.log(10):.0f}"


def evidence_of(problem: CausalBandit, watch: Watching, level: float) -> Evidence:
    """What a watch has to say. A claim is contradicted if an alarm has named it, or its own e-value is large enough."""
    named = {(ring.about, ring.which): ring.log_e for ring in watch.rings()}
    arrows = watch.log_arrows.tolist()
    rows = [log_mean_exp(logs) for logs in watch.log_rows.tolist()]
    found = []
    for about, logs in enumerate((arrows, rows)):
        limit = math.log(2.0 * len(logs) / level)
        for which, log_e in enumerate(logs):
            part: Literal["graph", "tables"] = "graph" if about == ARROW else "tables"
            wrong = log_e >= limit or (about, which) in named
            log_e = max(log_e, named.get((about, which), log_e))  # which begins anew where something was mended
            text, variable = _claim(problem, about, which), _variable(problem, about, which)
            found.append(ModelClaim(part, text, variable, log_e, wrong))
    found.sort(key=lambda claim: (claim.part, not claim.contradicted, -claim.log_e))
    return Evidence(tuple(found), tuple(alarm_of(problem, ring) for ring in watch.rings()), watch.witnessed, level)


def alarm_of(problem: CausalBandit, ring: Ring) -> Alarm:
    """An alarm in words."""
    about, which = ring.about, ring.which
    return Alarm(
        ring.decision, _claim(problem, about, which), _variable(problem, about, which), ring.log_e, DONE[ring.done]
    )


def _variable(problem: CausalBandit, about: int, which: int) -> str:
    return problem.manipulable[which] if about == ARROW else watched(problem).variable_of(which)


def arrow_claim(problem: CausalBandit, knob: int) -> str:
    """That a knob acts through the parents alone."""
    return f"given {shown_names(problem.parents)}, the reward should not depend on {problem.manipulable[knob]}"


def _claim(problem: CausalBandit, about: int, which: int) -> str:
    if about == ARROW:
        return arrow_claim(problem, which)
    fitted = "it was fitted" if watched(problem).fitted else "in its table"
    return f"{watched(problem).described(which)} should be as {fitted}"
