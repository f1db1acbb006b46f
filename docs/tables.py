"""The tables on pages that are made from what was measured: benchmarks/regret.json, which `python benchmarks/run.py
regret` writes, benchmarks/trust.json, which `python benchmarks/run.py trust` writes, and benchmarks/guard.json and
benchmarks/service.json, which guard.py and service.py there write. The entries of a problem specification and their
JSON schema, docs/problem.schema.json, are made from the code.

python docs/tables.py        writes them into the pages
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))

from causalbandits.problem import SPEC_ENTRIES, format_toml, problem_schema  # noqa: E402
from causalbandits.results import Grid, Heading, Text, as_markdown  # noqa: E402
from causalbandits_bench.regret_report import (  # noqa: E402
    ABOUT_COSTS,
    costs_grid,
    means_grid,
    policies_of,
    read_costs,
    read_tails,
    tails_grid,
)
from causalbandits_bench.trust_report import report  # noqa: E402

START, END = "<!-- made by docs/tables.py -->\n", "<!-- until here -->\n"
TAILS = ("e-mail", "Figure 2", "low rates", "Gaussian, any noise", "rare prize")
"""Sets whose tails are on the page; benchmarks/regret.md has all."""


ABOUT_TAILS = (
    "Quantiles, the worst replication, and how many lose more than 200; benchmarks/regret.md has them for all sets."
)
RIVALS = {"guarded": "guarded C-TS", "c-ts(prior=beta)": "C-TS", "ts(prior=beta)": "TS, no graph", "hac-ucb": "HAC-UCB"}
WITHIN = "within a budget"
ABOUT_WITHIN = """At the prices of that page, with 0.05 to spend in each round, 0.08 where there are segments or an
arrow is missing; regret is against the best mixture for the money:"""


def page(name: str) -> str:
    """A page with its tables as they should be."""
    before, *rest = (ROOT / "docs" / name).read_text(encoding="utf-8").split(START)
    made = [START + "\n" + as_markdown(own()) + "\n" + END for own in PAGES[name]]
    after = [part.split(END)[1] for part in rest]
    return before + "".join(table + text for table, text in zip(made, after, strict=True))


def measured(name: str) -> Any:
    """What was measured."""
    return json.loads((ROOT / "benchmarks" / name).read_text(encoding="utf-8"))


# --- regret ---------------------------------------------------------------------------------------------


def regret() -> list[Any]:
    """Means, tails and costs."""
    content = measured("regret.json")
    tails, costs = read_tails(content), read_costs(content)
    every = policies_of(tails)
    names, half = list(tails), (len(tails) + 1) // 2
    halves = [{name: tails[name] for name in some} for some in (names[:half], names[half:])]  # one would be too wide
    parts: list[Any] = [quoted(means_grid(some, every)) for some in halves]
    parts += [Heading("What the mean does not tell"), Text(ABOUT_TAILS)]
    for name in TAILS:
        parts += [Heading(name, 3), quoted(tails_grid(tails[name]))]
    if costs:
        parts += [Heading("What a decision costs"), Text(ABOUT_COSTS), quoted(costs_grid(costs))]
    return parts


def quoted(grid: Grid) -> Grid:
    """Ids as code."""
    return Grid(grid.head, [[f"`{row[0]}`", *row[1:]] for row in grid.rows])


# --- the guard ------------------------------------------------------------------------------------------


def shown(part: str) -> str:
    """A part's name for people.

    >>> shown("product 0.3"), shown("nothing wrong")
    ('product → click, ±0.3', 'nothing wrong')
    """
    knob, _, effect = part.partition(" ")
    return f"{knob} → click, ±{effect}" if effect[:1] == "0" else part


def guard() -> list[Any]:
    """Regret of the guard and its rivals, and alarms."""
    parts = {name: own for name, own in measured("guard.json").items() if WITHIN not in name}
    rivals = [[shown(name), *regrets(own)] for name, own in parts.items() if len(own["policies"]) > 1]
    return [Grid(["", *RIVALS.values()], rivals), Text("Alarms of the guard:"), alarms(parts)]


def guard_within() -> list[Any]:
    """The same under budgets."""
    parts = {name: own for name, own in measured("guard.json").items() if WITHIN in name}
    rivals = [[shown(name), *regrets(own)] for name, own in parts.items() if len(own["policies"]) > 1]
    return [Text(ABOUT_WITHIN), Grid(["", *RIVALS.values()], rivals), alarms(parts)] if rivals else []


def regrets(part: Any) -> list[str]:
    """With standard errors in brackets."""
    return [f"{own['regret']} ({own['standard error']})" for own in (part["policies"][id] for id in RIVALS)]


def alarms(parts: dict[str, Any]) -> Grid:
    """How often alarms rang, how soon, and whether they named what was wrong."""
    head = ["", "rounds", "replications", "alarmed", "standard error", "median decision", "named right", "regret"]
    rows = []
    for name, part in parts.items():
        own = part["policies"]["guarded"]
        soon, right = own["median decision"], own.get("named right")
        rows.append(
            [
                *(shown(name), str(part["horizon"]), str(own.get("replications", part["replications"]))),
                *(f"{own['alarmed']:.1%}", f"{own['error of alarmed']:.1%}"),
                *("-" if soon is None else f"{soon:g}", "-" if right is None else f"{right:.0%}"),
                f"{own['regret']} ({own['standard error']})",
            ]
        )
    return Grid(head, rows)


def guard_briefly() -> list[Any]:
    """Among the policies."""
    cases = {
        "nothing wrong": "nothing wrong",
        "product 0.3": "a hidden arrow product → click, ±0.3",
        "HAC-UCB's worst case": "HAC-UCB's worst case (twenty actions)",
        "HAC-UCB's benign case": "HAC-UCB's benign case",
    }
    head = ["mean regret after 5000 rounds of the e-mail campaign", *(f"`{id_of(id)}`" for id in RIVALS)]
    return [Grid(head, [[text, *(mean(case, id) for id in RIVALS)] for case, text in cases.items()])]


def of_guard() -> list[Any]:
    """On the guard's own page among the algorithms."""
    head = ["e-mail", "nothing wrong", "a hidden arrow product → click, ±0.3"]
    return [
        Grid(
            head, [[f"`{id_of(id)}`", *(mean(case, id) for case in ("nothing wrong", "product 0.3"))] for id in RIVALS]
        )
    ]


def of_hac() -> list[Any]:
    """On HAC-UCB's own page."""
    head, cases = ["", "its worst case", "its benign case"], ("HAC-UCB's worst case", "HAC-UCB's benign case")
    ids = ("hac-ucb", "guarded", "ts(prior=beta)", "c-ts(prior=beta)")
    return [Grid(head, [[f"`{id_of(id)}`", *(mean(case, id) for case in cases)] for id in ids])]


def id_of(policy: str) -> str:
    return "c-ts-guarded(prior=beta)" if policy == "guarded" else policy


def mean(case: str, policy: str) -> str:
    return f"{measured('guard.json')[case]['policies'][policy]['regret']:g}"


# --- trust ----------------------------------------------------------------------------------------------


def trust() -> list[Any]:
    """What is said, against what is true."""
    parts = report(measured("trust.json"))
    return [Heading(part.text, 3) if isinstance(part, Heading) else part for part in parts]


# --- the service ----------------------------------------------------------------------------------------


def service() -> list[Any]:
    """What it stood up to, and how fast it was; and how busy the machine was."""
    head = ["what", "found", "fsync (ms)", "load"]
    parts = measured("service.json")
    rows = []
    for part, told in SERVICE.items():
        if (own := parts.get(part)) is None:
            continue
        found = {**own, "verified": "verified" if own.get("verified") else "not verified"}
        rows.append([*(text.format(**found) for text in told), f"{own['fsync_ms']:g}", f"{own['load']:g}"])
    return [Grid(head, rows), Text("What was aimed at:"), aims(parts)]


def aims(parts: Any) -> Grid:
    """Which of the aims are reached by what was measured."""
    rows = []
    for what, part, name, least, most in AIMS:
        found = parts.get(part, {}).get(name)
        is_there = isinstance(found, int | float)
        word = ("reached" if least <= found <= most else "missed") if is_there else "not measured"
        rows.append([what, f"{found:,}" if is_there else "", word])
    return Grid(["aim", "measured", ""], rows)


AIMS = (
    ("requests a second, 64 connections: 3,000 at least", "http", "requests_a_second", 3000, math.inf),
    ("of these the slowest hundredth, in ms: below 100", "http", "p99_ms", 0, 100),
    ("outcomes a second, in batches: 10,000 at least", "batches", "outcomes_a_second", 10_000, math.inf),
    ("first paint of a page with a million events, in ms: below 1,000", "events", "first_paint_ms", 0, 1000),
)
"""In words; which part of benchmarks/service.py measures it under which name; from where to where it is reached."""

COUNTED = "{lost} of {acknowledged:,} acknowledged lost, {doubled} counted twice"
BESIDE = (
    "{service_1:,}, {service_16:,}, {service_64:,} and {service_256:,} requests a second, p99 {service_p99_1}, "
    "{service_p99_16}, {service_p99_64} and {service_p99_256} ms; the application {bare_1:,}, {bare_16:,}, {bare_64:,} "
    "and {bare_256:,}, p99 {bare_p99_1}, {bare_p99_16}, {bare_p99_64} and {bare_p99_256} ms"
)
SERVICE = {
    "kills": (
        "{kills:,} kills (`kill -9`) under load, every outcome sent twice",
        COUNTED + ", {different_answers} answers that differ when asked again; {verified}",
    ),
    "backends": (
        "four processes on PostgreSQL, {killed:,} backends killed, every outcome sent twice",
        COUNTED + "; {verified}",
    ),
    "clients": (
        "64 clients, {questions:,} questions, a tenth asked again",
        "{different_answers} different answers; the allocation is within {largest_score} standard errors of the logged "
        "propensities, the largest of all actions; {verified}",
    ),
    "malformed": (
        "{requests:,} malformed requests to every route",
        "{server_errors} server errors; {verified}",
    ),
    "http": (
        "questions and outcomes in turn, 64 connections",
        "{cpu_us_a_request} µs of a processor a request; by the clock {requests_a_second:,} a second, the load's own "
        "process beside it, median {median_ms} ms, p99 {p99_ms} ms",
    ),
    "batches": (
        "outcomes in batches of 1,000",
        "{cpu_us_an_outcome} µs of a processor an outcome; by the clock {outcomes_a_second:,} a second",
    ),
    "events": (
        "{events:,} events",
        "folded again in {fold_again_cpu_s:.0f} s of a processor; {verified}; first paint of its page in Chromium "
        "after {first_paint_ms:,} ms, for {page_cpu_ms} of which the service had a processor, {page_bytes:,} bytes in "
        "all; {file_bytes:,} bytes on disk",
    ),
    "connections": (
        "questions and outcomes in turn on 1, 16, 64 and 256 connections, beside an application that writes one row "
        "for each request",
        BESIDE,
    ),
    "slow_disk": ("the same requests where each wait for the disk takes 8 ms longer", BESIDE),
    "memory": (
        "memory of the service during {decisions:,} decisions and their outcomes, in batches of 1,000",
        "{mib_first} MiB at the start, {mib_half} MiB after half of them, {mib_last} MiB at the end; {file_mib} MiB on "
        "disk",
    ),
    "start": (
        "start of a new process on {events:,} events, until it is ready",
        "{uniform_ready_s} s with `uniform`, {c_ts_ready_s} s with `c-ts(prior=beta)`, {c_ts_guarded_ready_s} s with "
        "`c-ts-guarded(prior=beta)`, with {uniform_mib}, {c_ts_mib} and {c_ts_guarded_mib} MiB of memory",
    ),
    "processes": (
        "1, 2 and 4 processes on one PostgreSQL, {cores} cores, 64 connections",
        "{write_1:,}, {write_2:,} and {write_4:,} questions and outcomes a second, p99 {write_p99_1}, {write_p99_2} "
        "and {write_p99_4} ms; {read_1:,}, {read_2:,} and {read_4:,} recommendations a second; {wrong} outcomes lost "
        "or counted twice",
    ),
    "stalls": (
        "while a log of {events:,} events is verified, for {verify_s} s",
        "p99 of questions {decisions_p99_ms} ms, of the page {page_p99_ms} ms, of metrics {metrics_p99_ms} ms; "
        "SIGTERM takes {stop_s} s",
    ),
}
"""What the parts of benchmarks/service.py found, in words."""


# --- specifications -------------------------------------------------------------------------------------


def specification() -> list[Any]:
    """The entries of a problem specification."""
    rows = [[f"`{name}`", entry.description, f"`{format_toml(entry.example)}`"] for name, entry in SPEC_ENTRIES.items()]
    return [Grid(["entry", "meaning", "example (TOML)"], rows)]


def schema() -> str:
    """The JSON schema of a specification, as it is published."""
    return json.dumps(problem_schema(), indent=2) + "\n"


PAGES: dict[str, list[Callable[[], list[Any]]]] = {
    "project/regret.md": [regret],
    "explanation/calibration.md": [trust],
    "explanation/misspecification.md": [guard, guard_within],
    "reference/policies.md": [guard_briefly],
    "reference/algorithms/c-ts-guarded.md": [of_guard],
    "reference/algorithms/hac-ucb.md": [of_hac],
    "how-to/http-service.md": [service],
    "reference/specification.md": [specification],
}
"""Pages, and what is made for each of the places on them."""

if __name__ == "__main__":
    for name in PAGES:
        text = page(name)
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    (ROOT / "docs/problem.schema.json").write_text(schema(), encoding="utf-8")
