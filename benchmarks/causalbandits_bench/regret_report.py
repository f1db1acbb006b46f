"""What the regret benchmark found: a table of means, a table of tails, a picture; as Markdown, JSON and CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from causalbandits._files import write_atomically
from causalbandits._typing import Array
from causalbandits.errors import CausalBanditsError
from causalbandits.results.document import (
    Grid,
    Heading,
    Part,
    Picture,
    Text,
    as_markdown,
    format_versions,
    provenance,
    write_csv,
    write_figures,
)
from causalbandits_bench.decision_cost import ASKS, ROUNDS, YARDSTICK, Cost
from causalbandits_bench.regret import BAD, Benchmark, Tail, tail_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tails = Mapping[str, Mapping[str, Tail]]
"""By set, then policy."""
DecisionCosts = Mapping[str, Cost]
"""By policy."""
ABOUT_COSTS = (
    "CPU time on the problem of Figure 2 (256 actions, 16 configurations) with rewards 0 or 1: nanoseconds per round "
    f"in the engine (empty: not compiled), over {ROUNDS:,} rounds, and microseconds per `ask` and `tell` of an agent, "
    f"over the first {ASKS} rounds of a campaign. Ratios are to `{YARDSTICK}`, timed in turn with each."
)
COST_NAMES = ("engine (ns)", "agent (us)", "engine's ratio", "agent's ratio")


def tails_of(found: Mapping[str, Mapping[str, Array]]) -> dict[str, dict[str, Tail]]:
    """Where every policy ended on every set."""
    return {name: {policy: tail_of(own) for policy, own in by.items()} for name, by in found.items()}


def means_grid(tails: Tails, policies: list[str]) -> Grid:
    """A row per policy, a column per set: means with their standard errors; a star where replications are fewer."""
    most = max(own.replications for by in tails.values() for own in by.values())
    rows = [
        [policy, *(_with_star(tails[name].get(policy), most) for name in tails)]
        for policy in policies
        if any(policy in by for by in tails.values())
    ]
    return Grid(["mean regret (standard error)", *tails], rows)


def _with_star(tail: Tail | None, most: int) -> str:
    return with_error(tail) + " *" * (tail is not None and tail.replications < most)


def with_error(tail: Tail | None) -> str:
    """A mean, with as many digits as its standard error makes worth reading.

    >>> with_error(Tail(1.5432, 0.0213, 0, 0, 0, 0, 9)), with_error(Tail(1121.8, 30.2, 0, 0, 0, 0, 9)), with_error(None)
    ('1.54 (0.02)', '1122 (30)', '')
    """
    if tail is None:
        return ""
    error = tail.standard_error
    digits = 2 if not error > 0 else min(2, max(0, 1 - math.floor(math.log10(error)) - (error >= 1)))
    return f"{tail.mean:.{digits}f} ({error:.{digits}f})"


def tails_grid(by: Mapping[str, Tail]) -> Grid:
    """One set: a row per policy, with what the mean does not tell."""
    head = ("policy", "mean", "standard error", "90%", "99%", "worst", f"above {BAD:g}", "replications")
    rows = [
        [
            policy,
            *(f"{value:.2f}" for value in own[:5]),
            f"{own.above:.1%}",
            str(own.replications),
        ]
        for policy, own in sorted(by.items(), key=lambda item: item[1].mean)
    ]
    return Grid(head, rows)


def costs_grid(costs: DecisionCosts) -> Grid:
    """What a decision costs.

    >>> costs_grid({"slow": Cost(None, 123.4, None, 5.678), "fast": Cost(90.1, 20, 0.082, 0.63)}).rows
    [['slow', '', '123', '', '5.7'], ['fast', '90', '20', '0.08', '0.63']]
    """
    rows = [[policy, *map(_time, own[:2]), *map(_ratio, own[2:])] for policy, own in costs.items()]
    return Grid(("policy", *COST_NAMES), rows)


def _time(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.{1 if value >= 1 else 2}f}"


DEFAULTS = ("c-gittins(prior=main-effects)", "c-gittins(prior=main-effects), anytime")
"""The default policy with a horizon, and without."""
REFERENCES = ("c-ts(prior=beta)", "c-ts(scales=given)", "ts(prior=beta)", "ts(scales=given)")
"""C-TS and TS as they are published, with scales of 1."""
BLIND = "uniform"
ALLOWED_RATIO, ALLOWED_RATIO_ON_PRIZES, PRIZES = 1.5, 2.0, ("rare prize",)
"""The default's regret is no larger than so many times that of the better of C-TS and TS."""
ERRORS = 2.0
"""What is allowed is widened by so many standard errors."""


class Comparison(NamedTuple):
    """The default on one set, against the best of the references."""

    default: str
    reference: str
    ratio: float
    allowed: float
    holds: bool
    """Whether it loses no more than is allowed, and no more than choosing blindly, each within `ERRORS`."""


def compare_default(name: str, by: Mapping[str, Tail], default: str) -> Comparison | None:
    """None where the default or the references were not played on the set."""
    references = [policy for policy in REFERENCES if policy in by]
    if default not in by or not references:
        return None
    reference = min(references, key=lambda policy: by[policy].mean)
    own, best, allowed = by[default], by[reference], ALLOWED_RATIO_ON_PRIZES if name in PRIZES else ALLOWED_RATIO
    holds = _exceeds(own, best, allowed) <= 0.0 and (BLIND not in by or _exceeds(own, by[BLIND], 1.0) <= 0.0)
    return Comparison(default, reference, own.mean / best.mean if best.mean > 0 else 1.0, allowed, holds)


def _exceeds(own: Tail, other: Tail, factor: float) -> float:
    """By how much a mean is larger than a multiple of another, beyond the errors of both."""
    error = math.hypot(own.standard_error, factor * other.standard_error)
    return own.mean - factor * other.mean - ERRORS * error


def comparisons_grid(tails: Tails) -> Grid:
    """Every set: how the default compares with the better of C-TS and TS."""
    rows = []
    for name, by in tails.items():
        for default in DEFAULTS:
            found = compare_default(name, by, default)
            if found is not None:
                pair = [with_error(by[default]), found.reference, with_error(by[found.reference])]
                blind = with_error(by.get(BLIND))
                verdict = "yes" if found.holds else "**no**"
                rows.append([name, default, *pair, f"{found.ratio:.2f}", f"{found.allowed:g}", blind, verdict])
    head = ("set", "default", "regret", "best of C-TS and TS", "its regret", "ratio", "allowed", "uniform", "holds")
    return Grid(head, rows)


def page_of_regret(content: Mapping[str, Any]) -> list[Part]:
    """Everything that regret.json has, for reading."""
    about, tails, costs = content["about"], read_tails(content), read_costs(content)
    parts: list[Part] = [
        Heading("Regret, untuned", 1),
        Text(
            f"Mean regret after {about['horizon']:,} rounds, {about['replications']} replications with an environment "
            "each (a star: fewer replications; the numbers are below), with standard errors. Every policy has the same "
            "environments. Policies know the problem only; `told` is C-TS with the true noise scale and prior."
        ),
        means_grid(tails, policies_of(tails)),
        Picture("regret", "Mean regret as a multiple of the least of its set: dark is good."),
    ]
    comparisons = comparisons_grid(tails)
    if comparisons.rows:
        text = (
            f"The regret of the default may be {ALLOWED_RATIO:g} times that of the better of C-TS and TS with scales "
            f"of 1 ({ALLOWED_RATIO_ON_PRIZES:g} times with rare prizes), and at most that of `uniform`, each within "
            f"{ERRORS:g} standard errors."
        )
        parts += [Heading("The default against C-TS and TS"), Text(text), comparisons]
    if costs:
        parts += [Heading("What a decision costs"), Text(ABOUT_COSTS), costs_grid(costs)]
    for name, by in tails.items():
        parts += [Heading(name), tails_grid(by)]
    updated = ", ".join(f"{policy} at {commit}" for policy, commit in about.get("updated", {}).items())
    later = f" Played again later: {updated}." if updated else ""
    return [*parts, Text(f"Seed {about['seed']}; {format_versions(about)}.{later}")]


def read_tails(content: Mapping[str, Any]) -> dict[str, dict[str, Tail]]:
    """Those in regret.json."""
    return {name: {policy: Tail(**own) for policy, own in by.items()} for name, by in content["sets"].items()}


def read_costs(content: Mapping[str, Any]) -> dict[str, Cost]:
    """Those in regret.json; none, where nothing was timed."""
    return {policy: Cost(*(own[name] for name in COST_NAMES)) for policy, own in content["costs"].items()}


def policies_of(tails: Tails) -> list[str]:
    """All that are in one set or another."""
    return list(dict.fromkeys(policy for by in tails.values() for policy in by))


def regret_picture(tails: Tails, policies: list[str]) -> Figure:
    """A cell per policy and set: its mean regret, shaded by how many times the least of the set it is."""
    from matplotlib.figure import Figure

    rows = [policy for policy in policies if any(policy in by for by in tails.values())]
    means = np.array([[by[p].mean if p in by else math.nan for by in tails.values()] for p in rows])
    times = np.maximum(1.0, means / np.maximum(1.0, np.nanmin(means, axis=0)))  # less than 1 is nothing
    figure = Figure(figsize=(2.6 + 0.72 * len(tails), 1.6 + 0.27 * len(rows)), dpi=150, layout="constrained")
    ax = figure.add_subplot()
    ax.imshow(np.log10(times), cmap="viridis", vmin=0, vmax=2, aspect="auto")
    for (i, j), mean in np.ndenumerate(means):
        if not math.isnan(mean):
            light = times[i, j] < 10
            said = f"{mean:.0f}" if mean >= 10 else f"{mean:.1f}"
            ax.text(j, i, said, ha="center", va="center", fontsize=7, color="white" if light else "black")
    ax.set_xticks(range(len(tails)), list(tails), rotation=40, ha="left", fontsize=8)
    ax.set_yticks(range(len(rows)), rows, fontsize=8)
    ax.xaxis.tick_top()
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return figure


def write_regret(
    folder: Path,
    benchmark: Benchmark,
    found: Mapping[str, Mapping[str, Array]],
    costs: DecisionCosts,
    previous: Mapping[str, Any] | None = None,
) -> Tails:
    """`regret.json`, `regret.csv`, `regret.md` and the picture.

    With `previous`, the content of an earlier regret.json, what was found takes the place of these policies' numbers
    there, and all others stay; `about.updated` has the commit of each policy that was played again.
    """
    about = provenance("python benchmarks/run.py regret", benchmark.seed, benchmark.replications)
    tails, merged_costs, about["horizon"] = tails_of(found), _records(costs), benchmark.horizon
    shown = tails
    if previous is not None:
        if previous["about"]["horizon"] != benchmark.horizon or previous["about"]["seed"] != benchmark.seed:
            raise CausalBanditsError(
                f"The results in {folder} are of {previous['about']['horizon']} rounds with seed "
                f"{previous['about']['seed']}; --update adds to such results only."
            )
        updated = previous["about"].get("updated", {}) | dict.fromkeys(policies_of(tails), about["commit"])
        about = {**previous["about"], "updated": updated}
        old = read_tails(previous)
        shown = {name: {**old.get(name, {}), **tails.get(name, {})} for name in (*old, *(set(tails) - set(old)))}
        merged_costs = {**previous["costs"], **merged_costs}
    content = {
        "about": about,
        "sets": {name: {policy: own._asdict() for policy, own in by.items()} for name, by in shown.items()},
        "costs": merged_costs,
    }
    folder.mkdir(parents=True, exist_ok=True)
    _write_content(folder, content)
    rows: list[tuple[Any, ...]] = [(name, policy, *own) for name, by in shown.items() for policy, own in by.items()]
    write_csv(folder / "regret.csv", about, ("set", "policy", *Tail._fields), rows)
    write_figures(folder / "figures", {"regret": regret_picture(shown, policies_of(shown))})
    return tails


def read_regret(folder: Path) -> dict[str, Any]:
    """What `write_regret` wrote."""
    path = folder / "regret.json"
    if not path.exists():
        raise CausalBanditsError(
            f"There is no {path}, into which costs could be written: name the folder of a benchmark that was played, "
            "--out benchmarks, say; or leave --costs out to play it."
        )
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def write_costs(folder: Path, content: Mapping[str, Any], costs: DecisionCosts) -> None:
    """Into `regret.json` and `regret.md`, in the place of what these policies cost before; regret stays as it is."""
    merged = {**content["costs"], **_records(costs)}
    _write_content(folder, {**content, "costs": merged})


def _records(costs: DecisionCosts) -> dict[str, dict[str, float | None]]:
    return {policy: dict(zip(COST_NAMES, own, strict=True)) for policy, own in costs.items()}


def _write_content(folder: Path, content: Mapping[str, Any]) -> None:
    write_atomically(folder / "regret.json", (json.dumps(content, indent=1) + "\n").encode())
    write_atomically(folder / "regret.md", as_markdown(page_of_regret(content)).encode())
