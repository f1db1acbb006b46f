"""Metrics in Prometheus' text format, by its naming rules: base units, `_total` for counters, `_seconds` for durations.

All of them are counts that are stored anyway, so that reading them takes a few lookups, however long a study is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from causalbandits.errors import CausalBanditsError
from causalbandits.service.group_commit import Writer
from causalbandits.service.telemetry import Histogram, RequestStatistics
from causalbandits.study import MODES, Study

MAX_MECHANISMS = 100
"""The maximum number of mechanisms of a study whose changes are counted."""

PROMETHEUS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    """A metric family."""

    kind: str
    help: str
    source: str | None = None
    """The name in `Study.counts`, for metrics that come from there."""


METRICS = {
    "study_readable": Metric("gauge", "1 if the study can be read, 0 if not: then its other counts are absent."),
    "decisions_total": Metric("counter", "Decisions of a study.", "decisions"),
    "events_total": Metric("counter", "Events in the log of a study: outcomes, corrections, expiries.", "events"),
    "outcomes": Metric("gauge", "Outcomes that update the policy.", "outcomes"),
    "incomplete_outcomes": Metric(
        "gauge", ("Incomplete outcomes: a value that the policy requires is missing."), "outcomes_incomplete"
    ),
    "cumulative_reward": Metric("gauge", "The sum of the rewards of these outcomes.", "reward_sum"),
    "control_outcomes": Metric("gauge", "Outcomes of the control group.", "control_outcomes"),
    "control_cumulative_reward": Metric("gauge", "The sum of the rewards of the control group.", "control_reward_sum"),
    "control_cumulative_cost": Metric(
        "gauge", "The sum of the costs of the actions with these rewards, in units of the reward.", "control_cost_sum"
    ),
    "treated_outcomes": Metric(
        "gauge", "Outcomes of decisions by the policy, if the study has a control group.", "treated_outcomes"
    ),
    "treated_cumulative_reward": Metric("gauge", "The sum of the rewards of these decisions.", "treated_reward_sum"),
    "treated_cumulative_cost": Metric("gauge", "The sum of the costs of these decisions.", "treated_cost_sum"),
    "open_decisions": Metric("gauge", "Decisions without an outcome.", "open_decisions"),
    "early_outcomes": Metric("gauge", "Stored outcomes that were reported before their decision.", "early_outcomes"),
    "oldest_open_decision_age_seconds": Metric(
        "gauge", "The age of the earliest decision without an outcome.", "oldest_open_seconds"
    ),
    "expiry_lag_seconds": Metric(
        "gauge",
        "The time since the end of the earliest attribution window that has not been expired.",
        "expiry_lag_seconds",
    ),
    "budget_remaining": Metric("gauge", "The remaining budget, in units of cost.", "budget_left"),
    "study_mode": Metric("gauge", "1 for the mode of the study, 0 for the others."),
    "mechanism_changes": Metric(
        "gauge",
        "Changes of a mechanism, detected or reported, if the study follows changes. Corrections can undo one.",
    ),
    "writes_total": Metric("counter", "Executed write requests."),
    "rejected_writes_total": Metric("counter", "Requests that were rejected because the queue was full."),
    "duplicate_outcomes_total": Metric("counter", "Duplicate outcomes."),
    "queued_writes": Metric("gauge", "Queued write requests."),
    "commit_duration_seconds": Metric("histogram", "The duration of transactions, until they are on disk."),
    "http_requests_total": Metric("counter", "HTTP requests, by method, route and status."),
    "http_request_duration_seconds": Metric("histogram", "The duration of HTTP requests, by method and route."),
}

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Any, Labels]
"""A metric's name, its value (a number or a histogram) and its labels."""


async def format_metrics(writers: Mapping[str, Writer], requests: RequestStatistics) -> str:
    """The metrics of some studies and of the service, in Prometheus' text format."""
    lines: dict[str, list[str]] = {name: [] for name in METRICS}
    for study, writer in sorted(writers.items()):
        for name, value, labels in [*await _read_samples(writer), *_writer_samples(writer)]:
            lines[name] += _format_sample(name, value, (("study", study), *labels))
    for name, value, labels in _request_samples(requests):
        lines[name] += _format_sample(name, value, labels)
    text: list[str] = []
    for name, metric in METRICS.items():
        if lines[name]:
            text += [
                f"# HELP causalbandits_{name} {_escape_help(metric.help)}",
                f"# TYPE causalbandits_{name} {metric.kind}",
                *lines[name],
            ]
    return "\n".join(text) + "\n"


async def _read_samples(writer: Writer) -> list[Sample]:
    """The counts of a study; damaged studies and studies with busy readers are skipped, and the others are counted."""
    try:
        return [*await writer.reader.read(_study_samples), ("study_readable", 1, ())]
    except CausalBanditsError:
        return [("study_readable", 0, ())]


def _study_samples(study: Study) -> list[Sample]:
    counts = study.counts()
    samples: list[Sample] = [
        (name, counts[metric.source], ())
        for name, metric in METRICS.items()
        if metric.source is not None and counts.get(metric.source) is not None
    ]
    modes: list[Sample] = [("study_mode", int(mode == study.mode), (("mode", mode),)) for mode in MODES]
    return [*samples, *modes, *_change_samples(study)]


def _change_samples(study: Study) -> list[Sample]:
    """The number of changes of each mechanism; of at most `MAX_MECHANISMS`, so that the number of series is limited."""
    if not study.policy.traits.follows_changes:
        return []
    changes = study.changes()
    counts = Counter((change.mechanism, change.is_reported) for change in changes.changes)
    changed_first = sorted(changes.mechanisms, key=lambda name: not changes.of(name))[:MAX_MECHANISMS]
    return [
        ("mechanism_changes", counts[name, is_reported], (("mechanism", name), ("source", source)))
        for name in changed_first
        for is_reported, source in ((False, "detected"), (True, "reported"))
    ]


def _writer_samples(writer: Writer) -> list[Sample]:
    values = {
        "writes_total": writer.completed,
        "rejected_writes_total": writer.rejected,
        "duplicate_outcomes_total": writer.duplicates,
        "queued_writes": writer.waiting,
        "commit_duration_seconds": writer.commit_durations,
    }
    return [(name, value, ()) for name, value in values.items()]


def _request_samples(requests: RequestStatistics) -> Iterable[Sample]:
    for (method, route, status), count in sorted(requests.counts.items()):
        yield "http_requests_total", count, (("method", method), ("route", route), ("status", str(status)))
    for (method, route), histogram in sorted(requests.durations.items()):
        yield "http_request_duration_seconds", histogram, (("method", method), ("route", route))


def _format_sample(name: str, value: Any, labels: Labels) -> list[str]:
    if not isinstance(value, Histogram):
        return [_line(name, labels, value)]
    lines, total = list[str](), 0
    for bound, count in zip((*Histogram.BOUNDS, math.inf), value.counts, strict=True):
        total += count
        lines.append(_line(f"{name}_bucket", (*labels, ("le", _number(bound))), total))
    return [*lines, _line(f"{name}_sum", labels, value.sum), _line(f"{name}_count", labels, total)]


def _line(name: str, labels: Labels, value: float) -> str:
    label_text = ",".join(f'{key}="{_escape_label(text)}"' for key, text in labels)
    return f"causalbandits_{name}{{{label_text}}} {_number(value)}"


def _number(value: float) -> str:
    """A number in Prometheus' format.

    >>> _number(3), _number(0.5), _number(float("inf")), _number(float("nan"))
    ('3', '0.5', '+Inf', 'NaN')
    """
    if isinstance(value, int):
        return str(int(value))
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))


def _escape_label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
