"""What an agent's own outcomes say against its model: evidence, tests, and what a recommendation must say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Z, is_real
from causalbandits.errors import CausalBanditsError, PolicyError
from causalbandits.fitting import Check, Finding, contingency, finding_of, judged, table_findings
from causalbandits.model import CausalModel
from causalbandits.policies import AnyPolicy, CausalThompsonSampling, GuardedThompsonSampling, Outcome
from causalbandits.policies.robust import NOTHING, Evidence, Watching, arrow_claim, evidence_of, watched
from causalbandits.problem import Problem, shown_names

CLASSES = 8
"""Rewards of more different values than this are sorted into quarters before they are counted."""

DOUBT = 0.001
"""A recommendation speaks of contradictions at this level: it is asked for often."""

REMARK = (
    "Approximate while running: p-values do not know that actions were chosen by what had been seen, nor how often you "
    "have looked."
)


def evidence_of_told(
    problem: Problem,
    policy: AnyPolicy,
    statistic: Any,
    told: Iterable[Outcome],
    first_pending: int | None,
    level: float | None,
) -> Evidence:
    """The evidence that a guard has gathered, or that can be gathered from what was told of a randomised policy."""
    if isinstance(policy, GuardedThompsonSampling):
        if level not in (None, policy.level):
            raise PolicyError(f"The guard's own level is {policy.level:g}: leave level= out; got {level!r}.")
        _, later = _in_turn(told, first_pending)
        return policy.evidence(problem, statistic).waiting(later, first_pending)
    if getattr(policy, "draws", 1) < 2:
        raise PolicyError(
            f"Evidence is made from a policy's own chances, and {policy} does not know them: take Thompson sampling "
            "with draws=32, or check(), which is approximate and takes any policy."
        )
    error = _checked_level(0.05 if level is None else level)
    watch, noise = Watching.begin(problem), None if policy.counts_successes else getattr(policy, "noise_scale", 1.0)
    watch.learnt = int(policy.learns_tables)  # chances given z are then those of the tables as they were learnt so far
    in_turn, later = _in_turn(told, first_pending)
    for outcome in in_turn:
        known = problem if outcome.context is None else problem.in_context(outcome.context)
        watch.take_in(known, outcome, outcome.successes if policy.counts_successes else outcome.reward, noise)
        if (found := watch.alarm(error)) is not None:
            watch.note(outcome.number, *found, NOTHING)
    return evidence_of(problem, watch, error).waiting(later, first_pending)


def _checked_level(level: object) -> float:
    if not is_real(level) or not 0 < level < 1:
        raise CausalBanditsError(f"level must lie between 0 and 1; got {level!r}.")
    return float(level)


def _in_turn(told: Iterable[Outcome], first_pending: int | None) -> tuple[list[Outcome], int]:
    """What was told of decisions up to the first whose outcome is missing, in their order; of how many after it."""
    decided = sorted((outcome for outcome in told if outcome.number >= 0), key=lambda outcome: outcome.number)
    ready = [outcome for outcome in decided if first_pending is None or outcome.number < first_pending]
    return ready, len(decided) - len(ready)


def checked_model(problem: Problem, told: Iterable[Outcome], level: float) -> Check:
    """Every claim of the problem against what was told of decisions, by Pearson's statistic."""
    return checked_counts(problem, ((outcome, 1) for outcome in told), level)


def checked_counts(
    problem: Problem, counted: Iterable[tuple[Outcome, int]], level: float, *, rewards: bool = True
) -> Check:
    """The same of outcomes that came several times; of the tables alone, where `rewards` are not known one by one."""
    error = _checked_level(level)
    pairs = [(outcome, times) for outcome, times in counted if outcome.number >= 0 and outcome.z]
    used, times = [outcome for outcome, _ in pairs], np.array([n for _, n in pairs], dtype=np.float64)
    graph, tables = _arrows(problem, used, times) if rewards else [], _tables(problem, used, times)
    return Check((*judged(graph, error), *judged(tables, error)), int(times.sum()), error, REMARK)


def _arrows(problem: Problem, told: Sequence[Outcome], times: Array) -> list[Finding]:
    """Does the reward depend on what was done with a knob, given the parents?"""
    classes = _classes(np.array([outcome.reward for outcome in told]))
    numbers: dict[Z, int] = {}  # those that occurred: of all together there may be too many to count
    strata = np.array([numbers.setdefault(outcome.z, len(numbers)) for outcome in told], dtype=np.int64)
    choices = np.array([outcome.action.choices for outcome in told], dtype=np.int64)
    choices = choices.reshape(len(told), len(problem.manipulable))
    found = []
    for k, knob in enumerate(problem.manipulable):
        counts = _counted(times, strata, choices[:, k], classes)
        found.append(finding_of("graph", arrow_claim(problem, k), (knob,), problem.parents, contingency(counts)))
    return found + _tastes(problem, told, times, strata, classes)


def _tastes(
    problem: Problem, told: Sequence[Outcome], times: Array, strata: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> list[Finding]:
    """Does the reward depend on what was known beforehand, given the parents?"""
    found = []
    for i, name in enumerate(problem.context):
        if name not in problem.parents:
            codes = np.array([-1 if o.context is None else o.context[i] for o in told], dtype=np.int64)
            seen = codes >= 0
            claim = f"given {shown_names(problem.parents)}, the reward should not depend on {name}"
            counts = _counted(times[seen], strata[seen], codes[seen], classes[seen])
            found.append(finding_of("graph", claim, (name,), problem.parents, contingency(counts)))
    return found


def _classes(rewards: Array) -> npt.NDArray[np.intp]:
    """Each reward's class: its value, or, of many different values, its quarter."""
    values, codes = np.unique(rewards, return_inverse=True)
    if len(values) <= CLASSES:
        return codes.reshape(-1)
    return np.searchsorted(np.quantile(rewards, [0.25, 0.5, 0.75]), rewards)


def _counted(times: Array, *codes: npt.NDArray[Any]) -> Array:
    """How often each combination of codes occurs, an axis each."""
    shape = tuple(int(own.max(initial=0)) + 1 for own in codes)
    counts = np.zeros(shape)
    np.add.at(counts, codes, times)
    return counts


def _tables(problem: Problem, told: Iterable[Outcome], times: Array) -> list[Finding]:
    """Were the variables drawn as their tables say? Tables of what is observed do not say how they are."""
    if not isinstance(problem.knowledge, CausalModel):
        return []
    claims = watched(problem)
    counts = np.zeros(claims.size)
    for outcome, n in zip(told, times, strict=True):
        for place, _ in claims.entries(outcome):
            counts[place] += n
    return [
        found
        for name, own in claims.by_name(counts).items()
        for found in table_findings(problem.model, name, own.reshape(-1))
    ]


def contradictions(
    problem: Problem, policy: AnyPolicy, statistic: Any, checked: Callable[[float], Check]
) -> tuple[str, ...]:
    """Where outcomes contradict the model that a recommendation rests on, in words; `checked` tests it at a level."""
    if isinstance(policy, GuardedThompsonSampling):
        alarms = policy.alarms(problem, statistic)
        if statistic.given_up:  # and with it all that the graph says of the context
            return alarms
        own = [f for f in checked(DOUBT).contradicted if f.variables[0] in problem.context]
        return (*alarms, *map(_in_words, own))
    if policy.searches_all and not policy.needs_parents:
        return ()
    found = checked(DOUBT).contradicted
    if isinstance(policy, CausalThompsonSampling) and policy.doubts_tables(problem):
        found = tuple(f for f in found if f.part == "graph")  # what was fitted is forgotten where it is wrong
    return tuple(map(_in_words, found))


def _in_words(found: Finding) -> str:
    return (
        f"the outcomes contradict the model: {found.claim} (p = {found.p:.2g}, strength {found.strength:.2g}); see "
        "check()"
    )
