"""What an agent's own outcomes say against its model: evidence, tests, and what a recommendation must say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Z, is_real
from causalbandits.errors import CausalBanditsError, PolicyError
from causalbandits.fitting import (
    Check,
    Finding,
    adjust_findings,
    build_finding,
    find_table_deviations,
    independence_test,
)
from causalbandits.model import CausalModel
from causalbandits.policies import AnyPolicy, CausalThompsonSampling, GuardedThompsonSampling, Outcome
from causalbandits.policies.robust import (
    UNCHANGED,
    Evidence,
    Monitor,
    evidence_of,
    format_arrow_claim,
    testable_implications,
)
from causalbandits.problem import Problem, format_names

MAX_REWARD_CLASSES = 8
"""Rewards of more different values than this are sorted into quarters before they are counted."""

CONTRADICTION_LEVEL = 0.001
"""A recommendation speaks of contradictions at this level: it is asked for often."""

ADAPTIVITY_NOTE = (
    "Approximate while running: p-values do not know that actions were chosen by what had been seen, nor how often you "
    "have looked."
)


def gather_evidence(
    problem: Problem,
    policy: AnyPolicy,
    statistic: Any,
    outcomes: Iterable[Outcome],
    first_pending: int | None,
    level: float | None,
) -> Evidence:
    """The evidence that a guard has gathered, or that can be gathered from what was told of a randomised policy."""
    if isinstance(policy, GuardedThompsonSampling):
        if level not in (None, policy.level):
            raise PolicyError(f"The guard's own level is {policy.level:g}: leave level= out; got {level!r}.")
        _, n_waiting = _split_ready(outcomes, first_pending)
        return policy.evidence(problem, statistic).with_pending(n_waiting, first_pending)
    if getattr(policy, "draws", 1) < 2:
        raise PolicyError(
            f"Evidence is made from a policy's own chances, and {policy} does not know them: take Thompson sampling "
            "with draws=32, or check(), which is approximate and takes any policy."
        )
    error = _validate_level(0.05 if level is None else level)
    monitor, noise = (
        Monitor.start(problem),
        None if policy.traits.counts_successes else getattr(policy, "noise_scale", 1.0),
    )
    monitor.learnt = int(
        policy.traits.learns_tables
    )  # chances given z are then those of the tables as they were learnt so far
    ready_outcomes, n_waiting = _split_ready(outcomes, first_pending)
    for outcome in ready_outcomes:
        conditioned = problem if outcome.context is None else problem.condition_codes(outcome.context)
        monitor.add_outcome(
            conditioned, outcome, outcome.successes if policy.traits.counts_successes else outcome.reward, noise
        )
        if (alarm := monitor.find_alarm(error)) is not None:
            monitor.record_alarm(outcome.number, *alarm, UNCHANGED)
    return evidence_of(problem, monitor, error).with_pending(n_waiting, first_pending)


def _validate_level(level: object) -> float:
    if not is_real(level) or not 0 < level < 1:
        raise CausalBanditsError(f"level must lie between 0 and 1; got {level!r}.")
    return float(level)


def _split_ready(outcomes: Iterable[Outcome], first_pending: int | None) -> tuple[list[Outcome], int]:
    """What was told of decisions up to the first whose outcome is missing, in their order; of how many after it."""
    ordered = sorted((outcome for outcome in outcomes if outcome.number >= 0), key=lambda outcome: outcome.number)
    ready = [outcome for outcome in ordered if first_pending is None or outcome.number < first_pending]
    return ready, len(ordered) - len(ready)


def check_model(problem: Problem, outcomes: Iterable[Outcome], level: float) -> Check:
    """Every claim of the problem against what was told of decisions, by Pearson's statistic."""
    return check_counts(problem, ((outcome, 1) for outcome in outcomes), level)


def check_counts(
    problem: Problem, outcome_counts: Iterable[tuple[Outcome, int]], level: float, *, rewards: bool = True
) -> Check:
    """The same of outcomes that came several times; of the tables alone, where `rewards` are not known one by one."""
    error = _validate_level(level)
    pairs = [(outcome, times) for outcome, times in outcome_counts if outcome.number >= 0 and outcome.z]
    outcomes, times = [outcome for outcome, _ in pairs], np.array([n for _, n in pairs], dtype=np.float64)
    graph, tables = (
        _graph_findings(problem, outcomes, times) if rewards else [],
        _cpt_findings(problem, outcomes, times),
    )
    return Check(
        (*adjust_findings(graph, error), *adjust_findings(tables, error)), int(times.sum()), error, ADAPTIVITY_NOTE
    )


def _graph_findings(problem: Problem, outcomes: Sequence[Outcome], times: Array) -> list[Finding]:
    """Does the reward depend on what was done with a knob, given the parents?"""
    classes = _reward_classes(np.array([outcome.reward for outcome in outcomes]))
    stratum_codes: dict[Z, int] = {}  # those that occurred: of all together there may be too many to count
    strata = np.array([stratum_codes.setdefault(outcome.z, len(stratum_codes)) for outcome in outcomes], dtype=np.int64)
    choices = np.array([outcome.action.choices for outcome in outcomes], dtype=np.int64)
    choices = choices.reshape(len(outcomes), len(problem.manipulable))
    findings = []
    for k, knob in enumerate(problem.manipulable):
        counts = _contingency_table(times, strata, choices[:, k], classes)
        findings.append(
            build_finding("graph", format_arrow_claim(problem, k), (knob,), problem.parents, independence_test(counts))
        )
    return findings + _context_findings(problem, outcomes, times, strata, classes)


def _context_findings(
    problem: Problem, outcomes: Sequence[Outcome], times: Array, strata: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> list[Finding]:
    """Does the reward depend on what was known beforehand, given the parents?"""
    findings = []
    for i, name in enumerate(problem.context):
        if name not in problem.parents:
            codes = np.array(
                [-1 if outcome.context is None else outcome.context[i] for outcome in outcomes], dtype=np.int64
            )
            is_observed = codes >= 0
            claim = f"given {format_names(problem.parents)}, the reward should not depend on {name}"
            counts = _contingency_table(
                times[is_observed], strata[is_observed], codes[is_observed], classes[is_observed]
            )
            findings.append(build_finding("graph", claim, (name,), problem.parents, independence_test(counts)))
    return findings


def _reward_classes(rewards: Array) -> npt.NDArray[np.intp]:
    """Each reward's class: its value, or, of many different values, its quarter."""
    values, codes = np.unique(rewards, return_inverse=True)
    if len(values) <= MAX_REWARD_CLASSES:
        return codes.reshape(-1)
    return np.searchsorted(np.quantile(rewards, [0.25, 0.5, 0.75]), rewards)


def _contingency_table(times: Array, *codes: npt.NDArray[Any]) -> Array:
    """How often each combination of codes occurs, an axis each."""
    shape = tuple(int(column.max(initial=0)) + 1 for column in codes)
    counts = np.zeros(shape)
    np.add.at(counts, codes, times)
    return counts


def _cpt_findings(problem: Problem, outcomes: Iterable[Outcome], times: Array) -> list[Finding]:
    """Were the variables drawn as their tables say? Tables of what is observed do not say how they are."""
    if not isinstance(problem.knowledge, CausalModel):
        return []
    implications = testable_implications(problem)
    counts = np.zeros(implications.size)
    for outcome, n in zip(outcomes, times, strict=True):
        for place, _ in implications.entries(outcome):
            counts[place] += n
    return [
        finding
        for name, table_counts in implications.split_by_name(counts).items()
        for finding in find_table_deviations(problem.model, name, table_counts.reshape(-1))
    ]


def contradictions(
    problem: Problem, policy: AnyPolicy, statistic: Any, check: Callable[[float], Check]
) -> tuple[str, ...]:
    """Where outcomes contradict the model that a recommendation rests on, in words; `check` tests it at a level."""
    if isinstance(policy, GuardedThompsonSampling):
        alarms = tuple(map(str, policy.evidence(problem, statistic).alarms))
        if statistic.given_up:  # and with it all that the graph says of the context
            return alarms
        context_findings = [
            finding for finding in check(CONTRADICTION_LEVEL).contradicted if finding.variables[0] in problem.context
        ]
        return (*alarms, *map(_format_finding, context_findings))
    if policy.traits.searches_all and not policy.traits.needs_parents:
        return ()
    findings = check(CONTRADICTION_LEVEL).contradicted
    if isinstance(policy, CausalThompsonSampling) and policy.doubts_tables(problem):
        findings = tuple(
            finding for finding in findings if finding.part == "graph"
        )  # what was fitted is forgotten where it is wrong
    return tuple(map(_format_finding, findings))


def _format_finding(finding: Finding) -> str:
    return (
        f"the outcomes contradict the model: {finding.claim} (p = {finding.p:.2g}, strength {finding.strength:.2g}); "
        "see check()"
    )
