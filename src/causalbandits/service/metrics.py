"""What Prometheus reads: how many decisions, events and outcomes, what waits, how much was committed.

Everything is a count that is kept anyway, so that looking costs a few lookups, however long a study is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causalbandits.service.writer import Writer
from causalbandits.study import Study
from causalbandits.study.deciding import MODES

HELP = {
    "decisions": ("counter", "Decisions that were made."),
    "events": ("counter", "Events of decisions: outcomes, corrections, expiries."),
    "outcomes": ("gauge", "Outcomes that count."),
    "reward_sum": ("gauge", "The sum of their rewards."),
    "open_decisions": ("gauge", "Decisions that wait for their outcome."),
    "early_outcomes": ("gauge", "Outcomes that wait for their decision."),
    "oldest_open_seconds": ("gauge", "How long the earliest of the waiting decisions has waited."),
    "budget_left": ("gauge", "What is left of the budget, where there is one."),
    "mode": ("gauge", "1 for the mode that the study is in."),
    "requests": ("counter", "Requests that were written, together with others where they came at once."),
    "refused": ("counter", "Requests that were refused because too many waited."),
    "duplicates": ("counter", "Outcomes that were told again."),
    "commits": ("counter", "Transactions that were written."),
    "queue": ("gauge", "Requests that wait to be written."),
}


async def metrics_text(writers: Mapping[str, Writer]) -> str:
    """All studies, in Prometheus' text format."""
    samples: dict[str, list[str]] = {name: [] for name in HELP}
    for study, writer in sorted(writers.items()):
        for name, value, labels in [*await writer.reader.look(_of_study), *_of_writer(writer)]:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in (("study", study), *labels))
            samples[name].append(f"causalbandits_{name}{{{shown}}} {value!r}")
    lines: list[str] = []
    for name, (kind, says) in HELP.items():
        if samples[name]:
            lines += [f"# HELP causalbandits_{name} {says}", f"# TYPE causalbandits_{name} {kind}", *samples[name]]
    return "\n".join(lines) + "\n"


Sample = tuple[str, Any, tuple[tuple[str, str], ...]]


def _of_study(study: Study) -> list[Sample]:
    found: list[Sample] = [(name, value, ()) for name, value in study.counts().items() if value is not None]
    return found + [("mode", int(mode == study.mode), (("mode", mode),)) for mode in MODES]


def _of_writer(writer: Writer) -> list[Sample]:
    own = {"requests": writer.done, "refused": writer.refused, "commits": writer.commits, "queue": writer.waiting}
    return [(name, value, ()) for name, value in {**own, "duplicates": writer.duplicates}.items()]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
