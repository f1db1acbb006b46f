"""Metrics: Prometheus' own parser reads them, and they keep to its naming rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

from prometheus_client import parser
from tests.service.test_service import Served, outcome

import causalbandits as cb
from causalbandits.service.metrics import METRICS
from causalbandits.service.server import build_service

ENV = cb.zoo.email_campaign()
HOSTILE = 'a"b\\c'


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("metrics")
    p = ENV.problem
    problem = cb.Problem(
        p.model, manipulable=p.manipulable, reward_parents=p.parents, costs={"product": 0.1}, optional=True
    )
    cb.Study.create(folder / "mail.db", problem, "c-ts(prior=beta)", seed=1, budget=cb.Budget(9, rounds=30)).close()
    cb.Study.create(folder / f"{HOSTILE}.db", p, "c-ts(prior=beta)", seed=1).close()
    rules = {"holdout": 0.5, "baseline": {"send_time": "morning"}, "attribution_window": 1e6, "default_reward": 0}
    cb.Study.create(folder / "held-out.db", p, seed=1, changes=0.05, **rules).close()
    running = Served(build_service(sorted(folder.glob("*.db"))))
    try:
        with cb.connect(f"http://127.0.0.1:{running.port}/mail") as there:
            rng = np.random.default_rng(0)
            told = [outcome(there.ask(), rng) for _ in range(12)]
            there.tell_many([*told[:9], told[0]])
        with cb.connect(f"http://127.0.0.1:{running.port}/held-out") as there:
            for _ in range(30):
                there.tell_many([outcome(there.ask(), rng)])
        running.send("GET", "/v1/studies/none/report")
        running.send("PROPFIND", "/v1/studies")
        status, headers, found = running.fetch("GET", "/metrics")
        assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        yield found
    finally:
        running.stop()


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def value(text: str, name: str, **labels: str) -> float:
    (found,) = [
        sample.value
        for family in families(text).values()
        for sample in family.samples
        if sample.name == f"causalbandits_{name}" and sample.labels == labels
    ]
    return float(found)


def test_prometheus_reads_the_counts(text: str) -> None:
    of = {"study": "mail"}
    assert value(text, "decisions_total", **of) == 12
    assert value(text, "events_total", **of) == 9
    assert value(text, "outcomes", **of) == 9
    assert value(text, "open_decisions", **of) == 3
    assert value(text, "duplicate_outcomes_total", **of) == 1
    assert value(text, "study_mode", mode="online", **of) == 1
    assert value(text, "study_mode", mode="closed", **of) == 0
    assert value(text, "writes_total", **of) == 13
    assert value(text, "commit_duration_seconds_count", **of) <= 13
    assert value(text, "rejected_writes_total", **of) == 0
    assert value(text, "oldest_open_decision_age_seconds", **of) > 0
    assert 0 < value(text, "budget_remaining", **of) <= 9
    assert value(text, "decisions_total", study=HOSTILE) == 0, "labels are escaped"
    route = {"method": "POST", "route": "/v1/studies/{study}/decisions"}
    assert value(text, "http_requests_total", status="201", **route) == 42
    assert value(text, "http_request_duration_seconds_count", **route) == 42
    assert value(text, "http_requests_total", method="other", route="unmatched", status="405") == 1


def test_the_arms_are_counted_only_where_there_is_a_control_group(text: str) -> None:
    of = {"study": "held-out"}
    control, treated = value(text, "control_outcomes", **of), value(text, "treated_outcomes", **of)
    assert control > 0
    assert treated > 0
    assert control + treated == value(text, "outcomes", **of) == 30
    sums = [value(text, f"{arm}_cumulative_reward", **of) for arm in ("control", "treated")]
    assert sum(sums) == value(text, "cumulative_reward", **of) > 0
    for name in ("control_outcomes", "treated_outcomes", "control_cumulative_reward", "treated_cumulative_reward"):
        assert f'causalbandits_{name}{{study="mail"}}' not in text
    assert 'causalbandits_budget_remaining{study="held-out"}' not in text


def test_every_family_is_described_once_and_typed(text: str) -> None:
    names = [name.removesuffix("_total") if METRICS[name].kind == "counter" else name for name in METRICS]
    assert set(families(text)) == {f"causalbandits_{name}" for name in names}
    for name, metric in METRICS.items():
        assert text.count(f"# HELP causalbandits_{name} ") == text.count(f"# TYPE causalbandits_{name} ") == 1
        assert families(text)[f"causalbandits_{name.removesuffix('_total')}"].type == metric.kind
    assert text.endswith("\n")


UNITS = ("milliseconds", "ms", "minutes", "hours", "days", "percent", "kilobytes", "megabytes")
RESERVED = ("_sum", "_count", "_bucket", "_info")


def naming_faults(name: str, kind: str, description: str, labels: set[str]) -> list[str]:
    """What `promtool check metrics` would say of a family, and Prometheus' page on names."""
    faults = []
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        faults.append("no snake case")
    if (kind == "counter") != name.endswith("_total"):
        faults.append("only counters end with _total, and all do")
    if name.endswith(RESERVED):
        faults.append("a suffix of histograms, summaries or info metrics")
    if any(f"_{unit}" in f"{name}_" for unit in UNITS):
        faults.append("no base unit")
    if any(f"_{word}_" in f"_{name}_" for word in ("gauge", "counter", "histogram", "metric")):
        faults.append("its type in its name")
    if kind == "histogram" and not name.endswith(("_seconds", "_bytes")):
        faults.append("no unit")
    if re.search(r"\b(age|duration|delay)\b", name.replace("_", " ")) and not name.endswith("_seconds"):
        faults.append("no unit")
    if not description.endswith("."):
        faults.append("no sentence")
    if not all(re.fullmatch(r"[a-z][a-z_]*", label) for label in labels):
        faults.append("a label that is not in snake case")
    return faults


def test_names_keep_to_prometheus_rules(text: str) -> None:
    found = families(text)
    for name, metric in METRICS.items():
        family = found[f"causalbandits_{name.removesuffix('_total')}"]
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert naming_faults(f"causalbandits_{name}", metric.kind, metric.help, labels) == []


def test_the_rules_find_bad_names() -> None:
    for name, kind in (
        ("a_decisions", "counter"),
        ("a_outcomes_total", "gauge"),
        ("a_reward_sum", "gauge"),
        ("a_age_ms", "gauge"),
        ("a_commit_duration", "histogram"),
        ("a_Queue", "gauge"),
    ):
        assert naming_faults(name, kind, "A sentence.", set()), name


def test_buckets_are_cumulative_and_end_with_all(text: str) -> None:
    for family in families(text).values():
        if family.type != "histogram":
            continue
        by_labels: dict[Any, list[Any]] = {}
        for sample in family.samples:
            key = tuple(sorted(pair for pair in sample.labels.items() if pair[0] != "le"))
            by_labels.setdefault(key, []).append(sample)
        for samples in by_labels.values():
            buckets = [sample for sample in samples if sample.name.endswith("_bucket")]
            counts = [sample.value for sample in buckets]
            assert counts == sorted(counts)
            assert buckets[-1].labels["le"] == "+Inf"
            assert counts[-1] == next(sample.value for sample in samples if sample.name.endswith("_count"))


@pytest.mark.parametrize("page", ["operations.md", "http-service.md", "studies.md", "shadow-rollout.md"])
def test_the_counts_of_a_page_exist(page: str) -> None:
    text = (Path(__file__).parents[2] / "docs/how-to" / page).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:causalbandits_|`\.\.\._)([a-z_]+)", text))
    assert named - {"campaign"}, "besides the name of a schema in PostgreSQL"
    assert named - {"campaign"} <= set(METRICS)
