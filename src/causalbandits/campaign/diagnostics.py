"""Misspecification tests based on an agent's own outcomes, and the caveats of a recommendation."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Z, is_real
from causalbandits.campaign.past_rewards import PastBatch, RewardComparison, is_covered
from causalbandits.campaign.reward_moments import CellMoments, explanatory_cell
from causalbandits.errors import CausalBanditsError, PolicyError
from causalbandits.fitting import (
    Check,
    ChiSquareTest,
    Finding,
    adjust_findings,
    build_finding,
    find_cpt_deviations,
    independence_test,
)
from causalbandits.model import CausalModel
from causalbandits.policies import (
    AnyPolicy,
    CausalThompsonSampling,
    GuardedThompsonSampling,
    Outcome,
    common_mean_p_value,
    declared_noise_scale,
)
from causalbandits.policies.changes import report_changes, tracker_of
from causalbandits.policies.robust import (
    UNCHANGED,
    Evidence,
    ModelClaim,
    Monitor,
    evidence_of,
    format_arrow_claim,
    testable_implications,
)
from causalbandits.problem import Problem, format_names

MAX_REWARD_CLASSES = 8
"""The maximum number of distinct rewards that are counted separately; more are grouped into quartiles."""

CONTRADICTION_LEVEL = 0.001
"""The level at which recommendations report contradictions; it is low because they are requested often."""

ADAPTIVITY_NOTE = (
    "p-values are approximate. They ignore that actions were chosen adaptively and that you may look repeatedly."
)


def gather_evidence(
    problem: Problem,
    policy: AnyPolicy,
    statistic: Any,
    outcomes: Iterable[Outcome],
    first_pending: int | None,
    alpha: float | None,
    past: Sequence[PastBatch] = (),
) -> Evidence:
    """The evidence of a misspecification test (e-values).

    It was collected by a guarded policy, or is computed from the outcomes of a randomised policy.
    """
    all_outcomes = list(outcomes)
    evidence = _gather_evidence_of_model(problem, policy, statistic, all_outcomes, first_pending, alpha)
    ready = [o for o in all_outcomes if first_pending is None or o.number < first_pending]
    claims = [_past_claim(policy, ready, [batch], evidence.alpha / len(past)) for batch in past]
    return replace(evidence, claims=(*evidence.claims, *claims))


def _past_claim(
    policy: AnyPolicy, outcomes: Iterable[Outcome], batches: Sequence[PastBatch], alpha: float
) -> ModelClaim:
    """The comparison of past rewards with own ones.

    Its Bayes factor is an e-value to the extent that differences of means are approximately normal.
    """
    comparison = RewardComparison.of_outcomes(policy, outcomes, batches)
    log_e, n = comparison.log_bayes_factor, comparison.n_compared
    rows, trust = sum(batch.rows for batch in batches), batches[0].trust
    claim = (
        f"{rows} past rewards (trust_past {trust:g}) should have the same means as rewards of this campaign "
        "(approximate)"
    )
    untested = "" if n else "no reward of this campaign shares a configuration with a past reward"
    return ModelClaim("past", claim, "reward", log_e, log_e >= -math.log(alpha), n, untested)


def _gather_evidence_of_model(
    problem: Problem,
    policy: AnyPolicy,
    statistic: Any,
    outcomes: Iterable[Outcome],
    first_pending: int | None,
    alpha: float | None,
) -> Evidence:
    if isinstance(policy, GuardedThompsonSampling):
        if alpha not in (None, policy.alpha):
            raise PolicyError(
                f"The policy's misspecification test has its own alpha, {policy.alpha:g}. Leave out alpha; got "
                f"{alpha!r}."
            )
        _, n_waiting = _split_ready(outcomes, first_pending)
        return policy.evidence(problem, statistic).with_pending(n_waiting, first_pending)
    if getattr(policy, "samples", 1) < 2:
        raise PolicyError(
            f"evidence() needs logged propensities, and {policy} has none: use Thompson sampling with samples=32. "
            "The approximate misspecification test, check(), works with any policy."
        )
    error = _validate_alpha(0.05 if alpha is None else alpha)
    monitor, noise = (
        Monitor.start(problem),
        None if policy.traits.counts_successes else getattr(policy, "noise_scale", 1.0),
    )
    monitor.learned = int(policy.traits.learns_cpts)  # predictions given z then use the CPTs learned up to that round
    ready_outcomes, n_waiting = _split_ready(outcomes, first_pending)
    for outcome in ready_outcomes:
        conditioned = problem if outcome.context is None else problem.condition_codes(outcome.context)
        monitor.add_outcome(
            conditioned, outcome, outcome.successes if policy.traits.counts_successes else outcome.reward, noise
        )
        if (alarm := monitor.find_alarm(error)) is not None:
            monitor.record_alarm(outcome.number, *alarm, UNCHANGED)
    return evidence_of(problem, monitor, error).with_pending(n_waiting, first_pending)


def _validate_alpha(alpha: object) -> float:
    if not is_real(alpha) or not 0 < alpha < 1:
        raise CausalBanditsError(f"alpha must lie between 0 and 1; got {alpha!r}.")
    return float(alpha)


def _split_ready(outcomes: Iterable[Outcome], first_pending: int | None) -> tuple[list[Outcome], int]:
    """The outcomes before the first pending decision, in order of their decisions, and the number of later outcomes."""
    ordered = sorted((outcome for outcome in outcomes if outcome.number >= 0), key=lambda outcome: outcome.number)
    ready = [outcome for outcome in ordered if first_pending is None or outcome.number < first_pending]
    return ready, len(ordered) - len(ready)


class NoticedChanges(NamedTuple):
    """The mechanisms that changed, as far as noticed, and the first decision that was made with all this knowledge."""

    since: int
    mechanisms: tuple[str, ...]


def noticed_changes(problem: Problem, statistic: Any) -> NoticedChanges | None:
    """The changes that a policy has noticed or was told of; None without any."""
    tracker = tracker_of(statistic)
    changes = () if tracker is None else report_changes(problem, tracker).changes
    if not changes:
        return None
    names = tuple(dict.fromkeys(change.mechanism for change in changes))
    return NoticedChanges(max(change.noticed for change in changes), names)


def check_model(
    problem: Problem,
    policy: AnyPolicy,
    outcomes: Iterable[Outcome],
    past: Sequence[PastBatch],
    alpha: float,
    changes: NoticedChanges | None = None,
) -> Check:
    """The tests of every claim of the problem, and of past rewards, against the outcomes, by Pearson's statistic.

    After changes of mechanisms, outcomes before them would contradict any model, so that only later ones are tested;
    the CPTs that changed claim nothing.
    """
    if changes is None:
        return check_counts(problem, policy, ((outcome, 1) for outcome in outcomes), past, alpha)
    counts = [(outcome, 1) for outcome in outcomes if outcome.number >= changes.since]
    check = check_counts(problem, policy, counts, (), alpha, changed=changes.mechanisms)
    note = (
        f"Only outcomes of decision {changes.since} and of later ones are tested, after the latest change of a "
        f"mechanism; the CPTs that changed ({', '.join(changes.mechanisms)}) make no claim."
    )
    return replace(check, remark=f"{check.remark} {note}")


def check_counts(
    problem: Problem,
    policy: AnyPolicy,
    outcome_counts: Iterable[tuple[Outcome, int]],
    past: Sequence[PastBatch],
    alpha: float,
    *,
    moments: Iterable[tuple[Outcome, CellMoments]] | None = None,
    changed: Sequence[str] = (),
) -> Check:
    """The tests of `check_model`, with a number of occurrences for each outcome.

    If individual rewards are not available, `moments` has the number, the sum and the sum of squares of the rewards of
    outcomes that agree in everything else. The claims of the graph are then tested by the means, with the declared
    scale of the rewards.
    """
    error = _validate_alpha(alpha)
    all_pairs = list(outcome_counts)
    pairs = [(outcome, times) for outcome, times in all_pairs if outcome.number >= 0 and outcome.z]
    outcomes, times = [outcome for outcome, _ in pairs], np.array([n for _, n in pairs], dtype=np.float64)
    graph, tables = (
        _graph_findings(problem, outcomes, times) if moments is None else _mean_findings(problem, policy, moments),
        [
            one
            for one in _cpt_findings(problem, outcomes, times)
            if one.part == "graph" or one.variables[0] not in changed
        ],
    )
    past_findings = _past_findings(policy, all_pairs, past) if moments is None else []
    findings = *adjust_findings(graph, error), *adjust_findings(tables, error), *adjust_findings(past_findings, error)
    return Check(findings, int(times.sum()), error, ADAPTIVITY_NOTE)


def _past_findings(
    policy: AnyPolicy, outcome_counts: Sequence[tuple[Outcome, int]], past: Sequence[PastBatch]
) -> list[Finding]:
    """The tests, one for each trust, of equal distributions of past and own rewards.

    The distributions are conditional on the variables that explain the reward according to the policy.
    """
    findings = []
    for trust in sorted({batch.trust for batch in past}):
        batches = [batch for batch in past if batch.trust == trust]
        pairs = [
            (outcome, times)
            for outcome, times in outcome_counts
            if (outcome.z or not policy.traits.needs_parents)
            and (outcome.number >= 0 or is_covered(batches, outcome.number))
        ]
        codes: dict[Hashable, int] = {}
        cells = [explanatory_cell(policy, o.action, o.context, o.z) for o, _ in pairs]
        strata = np.array([codes.setdefault(cell, len(codes)) for cell in cells], dtype=np.int64)
        is_own = np.array([outcome.number >= 0 for outcome, _ in pairs], dtype=np.int64)
        classes = _reward_classes(np.array([outcome.reward for outcome, _ in pairs]))
        times = np.array([n for _, n in pairs], dtype=np.float64)
        given = "action" if policy.traits.searches_all else "configuration"
        rows = sum(batch.rows for batch in batches)
        claim = (
            f"{rows} past rewards (trust_past {trust:g}) should have the same distribution as rewards of this "
            f"campaign, given the {given}"
        )
        test = independence_test(_contingency_table(times, strata, is_own, classes))
        findings.append(build_finding("past", claim, ("reward",), (given,), test))
    return findings


def _graph_findings(problem: Problem, outcomes: Sequence[Outcome], times: Array) -> list[Finding]:
    """The tests of whether the reward depends on a manipulable variable, given the parents."""
    classes = _reward_classes(np.array([outcome.reward for outcome in outcomes]))
    stratum_codes: dict[Z, int] = {}  # only the configurations that occurred
    strata = np.array([stratum_codes.setdefault(outcome.z, len(stratum_codes)) for outcome in outcomes], dtype=np.int64)
    choices = np.array([outcome.action.choices for outcome in outcomes], dtype=np.int64)
    choices = choices.reshape(len(outcomes), len(problem.manipulable))
    findings = []
    for k, variable in enumerate(problem.manipulable):
        counts = _contingency_table(times, strata, choices[:, k], classes)
        findings.append(
            build_finding(
                "graph", format_arrow_claim(problem, k), (variable,), problem.parents, independence_test(counts)
            )
        )
    return findings + _context_findings(problem, outcomes, times, strata, classes)


def _context_findings(
    problem: Problem, outcomes: Sequence[Outcome], times: Array, strata: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> list[Finding]:
    """The tests of whether the reward depends on the context, given the parents."""
    findings = []
    for i, name in enumerate(problem.context):
        if name not in problem.parents:
            codes = np.array(
                [-1 if outcome.context is None else outcome.context[i] for outcome in outcomes], dtype=np.int64
            )
            is_observed = codes >= 0
            claim = _format_context_claim(problem, name)
            counts = _contingency_table(
                times[is_observed], strata[is_observed], codes[is_observed], classes[is_observed]
            )
            findings.append(build_finding("graph", claim, (name,), problem.parents, independence_test(counts)))
    return findings


def _format_context_claim(problem: Problem, name: str) -> str:
    return f"given {format_names(problem.parents)}, the reward should not depend on {name}"


def _mean_findings(
    problem: Problem, policy: AnyPolicy, moments: Iterable[tuple[Outcome, CellMoments]]
) -> list[Finding]:
    """The tests of whether the mean reward depends on a manipulable variable or on the context, given the parents.

    They are anytime-valid under the assumptions of the stopping rule. There are none if no noise scale is declared.
    """
    noise = declared_noise_scale(
        policy, problem, None if policy.traits.learns_scales else getattr(policy, "noise_scale", None)
    )
    if math.isinf(noise):
        return []
    width = None if problem.reward_range is None else problem.reward_range[1] - problem.reward_range[0]
    claims: list[tuple[str, str, Callable[[Outcome], int]]] = [
        (variable, format_arrow_claim(problem, k), lambda outcome, k=k: outcome.action.choices[k])  # type: ignore[misc]
        for k, variable in enumerate(problem.manipulable)
    ]
    claims += [
        (name, _format_context_claim(problem, name), lambda o, i=i: -1 if o.context is None else o.context[i])  # type: ignore[misc]
        for i, name in enumerate(problem.context)
        if name not in problem.parents
    ]
    pairs, findings = list(moments), []
    for name, claim, code in claims:
        sums = dict[tuple[Z, int], Array]()
        for outcome, cell in pairs:
            if (value := code(outcome)) >= 0:
                sums[outcome.z, value] = sums.get((outcome.z, value), np.zeros(3)) + np.array(cell, dtype=np.float64)
        findings.append(build_finding("graph", claim, (name,), problem.parents, _mean_test(sums, noise, width)))
    return findings


def _mean_test(sums: dict[tuple[Z, int], Array], noise: float, width: float | None) -> ChiSquareTest:
    """The test of equal means within each configuration; its strength is the share of the variance explained."""
    rows = {z: i for i, z in enumerate(dict.fromkeys(z for z, _ in sums))}
    columns = {value: i for i, value in enumerate(dict.fromkeys(value for _, value in sums))}
    table = np.zeros((3, max(1, len(rows)), max(1, len(columns))))
    for (z, value), cell in sums.items():
        table[:, rows[z], columns[value]] = cell
    n, total, squares = table
    means = np.divide(total, n, out=np.zeros_like(n), where=n > 0)
    within = np.maximum(0.0, squares - total * means)
    degrees = int((np.maximum(1, (n > 0).sum(axis=1)) - 1).sum())
    if not degrees:
        return ChiSquareTest(int(n.sum()), 0, 0.0, math.nan)
    centres = total.sum(axis=1) / np.maximum(1.0, n.sum(axis=1))
    between = float((n * (means - centres[:, None]) ** 2).sum())
    strength = math.sqrt(between / max(between + float(within.sum()), 1e-300))
    # Rewards that vary more than declared (reported separately) still vary at random, so the larger scale is used.
    degrees_within = np.maximum(1.0, (n - (n > 0)).sum(axis=1))
    scale = max(noise, math.sqrt(float((within.sum(axis=1) / degrees_within).max())))
    p = common_mean_p_value(n, means, within / np.maximum(1.0, n - 1.0), scale, width)
    return ChiSquareTest(int(n.sum()), degrees, strength, p)


def _reward_classes(rewards: Array) -> npt.NDArray[np.intp]:
    """The class of each reward: its value, or, if there are many distinct values, its quartile."""
    values, codes = np.unique(rewards, return_inverse=True)
    if len(values) <= MAX_REWARD_CLASSES:
        return codes.reshape(-1)
    return np.searchsorted(np.quantile(rewards, [0.25, 0.5, 0.75]), rewards)


def _contingency_table(times: Array, *codes: npt.NDArray[Any]) -> Array:
    """The counts of all combinations of codes, with one axis per code."""
    shape = tuple(int(column.max(initial=0)) + 1 for column in codes)
    counts = np.zeros(shape)
    np.add.at(counts, codes, times)
    return counts


def _cpt_findings(problem: Problem, outcomes: Iterable[Outcome], times: Array) -> list[Finding]:
    """The tests of the CPTs; none for a latent model, whose CPTs are not mechanisms of its variables."""
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
        for finding in find_cpt_deviations(problem.model, name, table_counts.reshape(-1))
    ]


def contradictions(
    problem: Problem, policy: AnyPolicy, statistic: Any, check: Callable[[float], Check]
) -> tuple[str, ...]:
    """The contradictions between the outcomes and the model behind a recommendation, as text.

    `check` tests the model at a level.
    """
    if isinstance(policy, GuardedThompsonSampling):
        alarms = tuple(map(str, policy.evidence(problem, statistic).alarms))
        if statistic.given_up:  # the graph has been given up, including its claims about the context
            return alarms
        # The guard's own test waits for the first pending decision, possibly forever. After an alarm, the graph or its
        # CPTs have been repaired, and only the claims about the context remain.
        findings = [
            finding
            for finding in check(CONTRADICTION_LEVEL).contradicted
            if (finding.part == "graph" and finding.variables[0] in problem.context)
            or (not alarms and finding.part in _relevant_parts(policy.inner, problem))
        ]
        return (*alarms, *map(_format_finding, findings))
    if policy.traits.searches_all and not policy.traits.needs_parents:
        return ()
    parts = _relevant_parts(policy, problem)
    findings = [finding for finding in check(CONTRADICTION_LEVEL).contradicted if finding.part in parts]
    return tuple(map(_format_finding, findings))


def _relevant_parts(policy: AnyPolicy, problem: Problem) -> tuple[str, ...]:
    """The parts of a check that a policy relies on.

    CPTs are excluded if the policy discounts fitted CPTs that contradict the outcomes.
    """
    is_forgotten = isinstance(policy, CausalThompsonSampling) and policy.doubts_past_cpts(problem)
    return ("graph",) if is_forgotten else ("graph", "tables")


def _format_finding(finding: Finding) -> str:
    return (
        f"misspecification test rejects: {finding.claim} (p-value {finding.p:.2g}, strength {finding.strength:.2g}); "
        "see check()"
    )
