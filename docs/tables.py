"""The tables on pages that are made from measurements, benchmarks/*.json, which the scripts in benchmarks/ write.

Also made here: the entries of a problem specification and their JSON schema, docs/problem.schema.json, from
the code.

python docs/tables.py        writes them into the pages
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))

from causalbandits.policies.registry import IMMEDIATE_FEEDBACK  # noqa: E402
from causalbandits.problem import SPEC_ENTRIES, format_toml, problem_schema  # noqa: E402
from causalbandits.results import Grid, Heading, Text, as_markdown  # noqa: E402
from causalbandits_bench.regret_report import (  # noqa: E402
    ABOUT_COSTS,
    Tail,
    costs_grid,
    means_grid,
    policies_of,
    read_costs,
    read_tails,
    tails_grid,
    with_error,
)
from causalbandits_bench.trust_report import report  # noqa: E402

START, END = "<!-- made by docs/tables.py -->\n", "<!-- until here -->\n"


def page(name: str) -> str:
    """A page with its tables as they should be."""
    before, *rest = (ROOT / "docs" / name).read_text(encoding="utf-8").split(START)
    made = [START + "\n" + as_markdown(wrapped(own())) + "\n" + END for own in PAGES[name]]
    after = [part.split(END)[1] for part in rest]
    return before + "".join(table + text for table, text in zip(made, after, strict=True))


def wrapped(parts: list[Any]) -> list[Any]:
    """The parts with paragraphs in lines of a page's length."""
    return [
        Text("\n".join(textwrap.wrap(p.text, 155))) if isinstance(p, Text) and "\n" not in p.text else p for p in parts
    ]


def measured(name: str) -> Any:
    """What was measured."""
    return json.loads((ROOT / "benchmarks" / name).read_text(encoding="utf-8"))


# --- regret ---------------------------------------------------------------------------------------------

TAILS = ("e-mail", "Figure 2", "low rates", "Gaussian, any noise", "rare prize")
"""Sets whose quantiles are on the page; benchmarks/regret.md has all."""
ABOUT_TAILS = (
    "Quantiles of the final regret, the worst replication, and the share of replications with a regret above 200. "
    "`benchmarks/regret.md` has these tables for all sets."
)
OF_A_FAMILY = ("e-mail", "Figure 2", "low rates", "lower bound", "Gaussian, any noise")
"""Sets on the page of a policy."""
DEFAULT = IMMEDIATE_FEEDBACK.id
ANYTIME = f"{DEFAULT}, anytime"


def regret() -> list[Any]:
    """Means, tails and costs of every policy on every set."""
    content = measured("regret.json")
    tails, costs = read_tails(content), read_costs(content)
    every = policies_of(tails)
    names, half = list(tails), (len(tails) + 1) // 2
    halves = [{name: tails[name] for name in some} for some in (names[:half], names[half:])]  # one would be too wide
    parts: list[Any] = [quoted(means_grid(some, every)) for some in halves]
    parts += [Heading("Quantiles"), Text(ABOUT_TAILS)]
    for name in TAILS:
        parts += [Heading(name, 3), quoted(tails_grid(tails[name]))]
    if costs:
        parts += [Heading("What a decision costs"), Text(ABOUT_COSTS), quoted(costs_grid(costs))]
    return parts


def quoted(grid: Grid) -> Grid:
    """The ids of policies as code."""
    return Grid(grid.head, [[f"`{row[0]}`", *row[1:]] for row in grid.rows])


def findings() -> list[Any]:
    """The results of the regret benchmark in words."""
    tails = read_tails(measured("regret.json"))
    email, figure2, prize = tails["e-mail"], tails["Figure 2"], tails["rare prize"]
    sizes = tails["means of any size"]
    paper = [figure2[name].mean / figure2[DEFAULT].mean for name in ("c-ts(scales=given)", "c-ucb")]
    lines = [
        f"**The default** on the e-mail campaign: {in_words(email[DEFAULT])} with a known number of rounds, and "
        f"{in_words(email[ANYTIME])} without. The worst replications have {email[DEFAULT].worst:.0f} and "
        f"{email[ANYTIME].worst:.0f}. The 99% quantiles are {email[DEFAULT].q99:.0f} and {email[ANYTIME].q99:.0f}; "
        f"that of `c-ts(prior=beta)` is {email['c-ts(prior=beta)'].q99:.0f}.",
        "**Estimating the scales matters more than the algorithm.** `c-ts(scales=given)` and `c-ucb`, which assume "
        f"scales of 1, have {paper[0]:.0f} and {paper[1]:.0f} times the regret of the default on Figure 2.",
        "**The reference with known scales** (`told`) has a clearly smaller regret than the default in two cases: a "
        f"rare prize without a known number of rounds ({prize['told'].mean:.0f} against {prize[ANYTIME].mean:.0f}), "
        f"and means of any size ({sizes['told'].mean:.0f} against {sizes[DEFAULT].mean:.0f}).",
        "**Rare prizes** are found by the search of C-Gittins for configurations without rewards: the regret is "
        f"{in_words(prize[DEFAULT])} with a known number of rounds, and {in_words(prize['c-gittins'])} for "
        "`c-gittins`, which has no search. The search costs regret where no prize exists, for example on random "
        f"parallel environments: {in_words(tails['random parallel'][DEFAULT])} against "
        f"{in_words(tails['random parallel']['c-gittins'])}.",
        "**Main effects** reduce the regret if means are nearly sums over the parents, and cost little otherwise. On "
        "the lower bound, whose means are no such sums, the default without a known number of rounds has "
        f"{in_words(tails['lower bound'][ANYTIME])}, and `c-gittins` "
        f"{in_words(tails['lower bound']['c-gittins, anytime'])}.",
    ]
    return [Text("\n".join(textwrap.fill(f"- {line}", 150, subsequent_indent="  ") for line in lines))]


def in_words(tail: Tail) -> str:
    """A mean with its standard error, in a sentence."""
    return f"{tail.mean:.1f} (standard error {tail.standard_error:.1f})"


def family_regret(*families: str) -> list[Any]:
    """The policies of families on five sets: for the page of an algorithm."""
    tails = read_tails(measured("regret.json"))
    names = [name for name in policies_of(tails) if name.partition("(")[0].partition(",")[0] in families]
    rows = [[name, *(with_error(tails[one].get(name)) for one in OF_A_FAMILY)] for name in names]
    return [quoted(Grid(["mean regret (standard error)", *OF_A_FAMILY], rows))]


# --- structure ------------------------------------------------------------------------------------------


def structure() -> list[Any]:
    """Regret where the graph is not known, by what the policy is given."""
    parts = measured("structure.json")
    captions = {
        "right graph": "The e-mail campaign:",
        "decoys": "With four observed variables that matter for nothing:",
        "missing arrow": "Product also changes the click rate, by 0.15 each way, and the wrong graph lacks this arrow:",
    }
    replications = parts["right graph"]["replications"]
    found: list[Any] = [
        Text(f"Mean regret after 5,000 rounds, {replications} replications (standard errors in parentheses).")
    ]
    for part, caption in captions.items():
        rows = [
            [f"`{row['policy']}`", row["knowledge"], f"{row['mean']:.1f} ({row['standard_error']:.1f})"]
            for row in parts[part]["rows"]
        ]
        found += [Text(caption), Grid(["policy", "given", "regret"], rows)]
    return [*found, *beside_guard(parts), *published_environments(parts)]


GUARD_CASES = {
    "nothing wrong": "guard, nothing wrong",
    "product, ± 0.3": "guard, product 0.3",
    "product, ± 0.15": "guard, product 0.15",
    "purpose, ± 0.3": "guard, purpose 0.3",
}


def beside_guard(parts: Any) -> list[Any]:
    """A given graph as a prior, beside guarded C-TS, a column for each missing arrow."""
    first = parts[GUARD_CASES["nothing wrong"]]
    text = (
        f"A graph that may lack an arrow, as a prior and as a constraint that is tested: {first['replications']} "
        "replications. The variable of the missing arrow changes the click rate from minus to plus the effect."
    )
    rows = [
        [
            f"`{row['policy']}`",
            row["knowledge"],
            *(
                f"{parts[part]['rows'][k]['mean']:.1f} ({parts[part]['rows'][k]['standard_error']:.1f})"
                for part in GUARD_CASES.values()
            ),
        ]
        for k, row in enumerate(first["rows"])
    ]
    return [Text(text), Grid(["policy", "given", *GUARD_CASES], rows)]


GRAPHS = """Random graphs as in Shahverdikondori et al. (2026), `cb.zoo.random_graph(k)`: eight variables with three
values, of which an action sets any three (1,512 actions), and a reward with k parents. Mean regret after {horizon:,}
rounds, {replications} replications, each with a graph of its own:"""
TREES = """Random trees in the setting of Lu et al. (2021), `cb.zoo.random_tree(n)`: n variables with two values, of
which an action sets one or none, and a reward with one parent. Mean regret after {horizon:,} rounds, {replications}
replications, each with a tree of its own:"""


def published_environments(parts: Any) -> list[Any]:
    """Regret on environments of the literature on unknown graphs, a column for each of a family."""
    found: list[Any] = []
    for text, family in (
        (GRAPHS, {f"k = {k}": f"random graphs k={k}" for k in (1, 2, 3)}),
        (TREES, {f"n = {n}": f"random trees n={n}" for n in (15, 31)}),
    ):
        regrets: dict[tuple[str, str], dict[str, str]] = {}
        for column, part in family.items():
            for row in parts[part]["rows"]:
                name = f"`{row['policy']}`" if "ts" in row["policy"] else row["policy"]
                cells = regrets.setdefault((name, row["knowledge"]), {})
                cells[column] = f"{row['mean']:.1f} ({row['standard_error']:.1f})"
        counts = sorted({parts[part]["replications"] for part in family.values()})
        horizon, replications = parts[next(iter(family.values()))]["horizon"], " or ".join(map(str, counts))
        rows = [[*row, *(cells.get(column, "only for k = 1") for column in family)] for row, cells in regrets.items()]
        found += [
            Text(text.format(horizon=horizon, replications=replications)),
            Grid(["policy", "given", *family], rows),
        ]
    return found


# --- changes --------------------------------------------------------------------------------------------

CHANGES = {
    "none": "nothing",
    "subject": "the CPT of the subject, at 2,500",
    "template": "the CPT of the template, at 2,500",
    "evening": "click rates of morning and evening exchanged, at 2,500",
    "several": "one mechanism every 1,000 rounds",
    "one cell": "one configuration that is never reached becomes the best, at 2,500",
    "wandering": "all click rates, as random walks",
    "three arms, problem 1": "three arms, one at a time (Besson et al., Problem 1)",
    "three arms, problem 2": "three arms, all at once (Besson et al., Problem 2)",
}


def changes() -> list[Any]:
    """Dynamic regret by the kind of change and the policy, and the alarms of the tests."""
    parts = measured("changes.json")
    about = parts["none"]
    found: list[Any] = [
        Text(
            f"Mean dynamic regret, against the best action of each round, after {about['horizon']:,} rounds, "
            f"{about['replications']} replications (standard errors in parentheses). E-mail campaign with 36 actions, "
            "by the change; for each policy without and with `changes=0.05`."
        )
    ]
    for names in (("none", "subject", "template", "evening", "several", "one cell", "wandering"), _ARMS):
        policies = [row["policy"] for row in parts[names[0]]["rows"] if "changes=" not in row["policy"]]
        rows = [
            [CHANGES[name], *(_without_and_with(parts[name]["rows"], policy) for policy in policies)] for name in names
        ]
        found.append(Grid(["change", *(f"`{policy}`" for policy in policies)], rows))
    alarms = parts["alarms"]
    found.append(
        Text(
            f"Alarms within {alarms['horizon']:,} rounds, in environments drawn at random ({alarms['replications']} of "
            "each kind): three manipulable variables, one mediator *m* and the reward *y*. Where something changes, it "
            f"does at {alarms['horizon'] // 2:,}; false alarms come before that."
        )
    )
    rows = [
        [
            row["rewards"],
            row["changed"],
            f"{row['false_alarms']} of {row['runs']}",
            "" if row["changed"] == "nothing" else f"{row['noticed']} of {row['runs'] - row['false_alarms']}",
            "" if row["changed"] == "nothing" else f"{row['right_mechanism']} of {row['noticed']}",
            "" if row["median_delay"] is None else f"{row['median_delay']:.0f}",
        ]
        for row in alarms["rows"]
    ]
    header = ["rewards", "change", "false alarms", "noticed", "right mechanism first", "median delay"]
    return [*found, Grid(header, rows)]


_ARMS = ("three arms, problem 1", "three arms, problem 2")


def _without_and_with(rows: list[Any], policy: str) -> str:
    """The regret of a policy, and of the same one that follows changes."""
    follows = policy.replace(")", ", changes=0.05)") if policy.endswith(")") else f"{policy}(changes=0.05)"
    by_policy = {row["policy"]: row for row in rows}
    texts = [f"{by_policy[name]['mean']:.1f} ({by_policy[name]['standard_error']:.1f})" for name in (policy, follows)]
    return " → ".join(texts)


# --- unobserved confounders without a graph --------------------------------------------------------------


def latent() -> list[Any]:
    """Regret with an unobserved confounder where the graph is not known."""
    own = measured("latent.json")
    rows = [
        [
            f"`{row['policy']}`",
            row["knowledge"],
            f"{row['mean']:.1f} ({row['standard_error']:.1f})",
            f"{row['worst']:.0f}",
        ]
        for row in own["rows"]
    ]
    about = (
        f"Mean regret after {own['horizon']:,} rounds, {own['replications']} replications (standard errors in "
        "parentheses):"
    )
    return [Text(about), Grid(["policy", "declared", "regret", "worst replication"], rows)]


# --- several decisions ----------------------------------------------------------------------------------


def several_decisions() -> list[Any]:
    """Purchases lost if several decisions precede the reward, by the number of decisions."""
    parts = measured("several_decisions.json")
    first = next(iter(parts.values()))
    about = f"Purchases lost of {first['customers']:,} customers, with standard errors in parentheses:"
    rows = [
        [
            name,
            *(f"{own['rows'][name]['lost']:.0f} ({own['rows'][name]['standard_error']:.0f})" for own in parts.values()),
        ]
        for name in first["rows"]
    ]
    rows.append(["replications", *(str(own["replications"]) for own in parts.values())])
    return [Text(about), Grid(["decided by", *(f"{n} e-mails" for n in parts)], rows)]


# --- misspecification -----------------------------------------------------------------------------------

RIVALS = {"guarded": "guarded C-TS", "c-ts(prior=beta)": "C-TS", "ts(prior=beta)": "TS, no graph", "hac-ucb": "HAC-UCB"}
WITHIN = "within a budget"
ABOUT_WITHIN = """Measured with the prices of the page on costs and a budget of 0.05 per round, or 0.08 with segments or
a missing arrow. Regret is against the best mixture of actions within the budget."""
CASES = {
    "nothing wrong": "right model",
    "nothing wrong, 2% audit": "right model, `audit=0.02`",
    "row .9, in truth .5": "one row of a CPT: 0.9, true value 0.5",
    "row .7, in truth .6": "one row of a CPT: 0.7, true value 0.6",
    "HAC-UCB's worst case": "worst case of Bilodeau et al. (20 actions)",
    "HAC-UCB's benign case": "benign case of Bilodeau et al.",
    "false alarms, exact tables": "right model, exact CPTs",
    "false alarms, tables from 100 rows": "right graph, CPTs from 100 rows",
    "false alarms, tables from 1000 rows": "right graph, CPTs from 1,000 rows",
    "false alarms, t_3 noise": "right model, noise of Student's t with 3 degrees of freedom",
    "false alarms, random graphs": "right model, random graphs",
    "false alarms, segments known beforehand": "right model, segments as context",
    "false alarms, clicks twenty times rarer": "right model, click probabilities divided by 20",
    "false alarms, random graphs, normal rewards": "right model, random graphs, normal rewards",
    "false alarms, tables learnt from nothing": "right graph, CPTs learned online",
    "false alarms, within a budget": "right model, budget",
    "false alarms, segments within a budget": "right model, segments, budget",
}
"""The parts of guard.json in words; the others are arrows that are missing."""


def shown(part: str) -> str:
    """The name of a part of guard.json in words.

    >>> shown("product 0.3"), shown("nothing wrong"), shown("product 0.3 within a budget")
    ('product → click, ± 0.3', 'right model', 'product → click, ± 0.3, budget')
    """
    if part in CASES:
        return CASES[part]
    variable, effect, *rest = part.split(" ")
    return f"{variable} → click, ± {effect}" + (", budget" if rest else "")


def guard() -> list[Any]:
    """Regret of the guarded policy and its rivals, and alarms."""
    parts = {name: own for name, own in measured("guard.json").items() if WITHIN not in name}
    return [rivals_grid(parts), Text("Alarms of the guarded policy:"), alarms(parts)]


def guard_within() -> list[Any]:
    """Regret and alarms under budgets."""
    parts = {name: own for name, own in measured("guard.json").items() if WITHIN in name}
    return [Text(ABOUT_WITHIN), rivals_grid(parts), Text("Alarms of the guarded policy:"), alarms(parts)]


def rivals_grid(parts: dict[str, Any]) -> Grid:
    """Regret of all policies, where all were played; standard errors in parentheses."""
    rows = [
        [shown(name), *(f"{mean:.1f} ({error:.1f})" for mean, error in regrets(name, part))]
        for name, part in parts.items()
        if len(part["policies"]) > 1
    ]
    return Grid(["environment", *RIVALS.values()], rows)


def regrets(name: str, part: Any) -> list[tuple[float, float]]:
    """Means with standard errors; with a right model those of the regret benchmark, which has more replications."""
    if name == "nothing wrong":
        right = read_tails(measured("regret.json"))["e-mail"]
        found = [right["c-ts-guarded(prior=beta)" if id == "guarded" else id] for id in RIVALS]
        return [(own.mean, own.standard_error) for own in found]
    return [(own["regret"], own["standard error"]) for own in (part["policies"][id] for id in RIVALS)]


def alarms(parts: dict[str, Any]) -> Grid:
    """How often alarms occurred, how soon, and whether they named the wrong part of the model."""
    head = ["environment", "rounds", "replications", "with an alarm", "standard error", "median decision of the alarm"]
    rows = []
    for name, part in parts.items():
        own = part["policies"]["guarded"]
        soon, right = own["median decision"], own.get("named right")
        rows.append(
            [
                *(shown(name), str(part["horizon"]), str(own.get("replications", part["replications"]))),
                *(f"{own['alarmed']:.1%}", f"{own['error of alarmed']:.1%}"),
                *("none" if soon is None else f"{soon:g}", "not applicable" if right is None else f"{right:.0%}"),
            ]
        )
    return Grid([*head, "named the right part"], rows)


# --- explanation pages ----------------------------------------------------------------------------------


OF_THE_BENCHMARK: dict[str, dict[str, dict[str, str]]] = {
    "wrong CPTs": {"exact CPTs": {"c-ts(prior=beta)": "c-ts(prior=beta)", "c-ucb": "c-ucb"}},
    "learned CPTs": {
        id: {"e-mail campaign": id} for id in ("c-ts(prior=beta)", "c-ts(prior=beta, cpts=learned)", "ts(prior=beta)")
    },
}
"""Cells of explanation.json that the regret benchmark has: by part, row and column, the policy on the set e-mail."""


def benchmark_cell(policy: str) -> list[float]:
    """The mean and the standard error of a policy on the e-mail campaign."""
    own = read_tails(measured("regret.json"))["e-mail"][policy]
    return [own.mean, own.standard_error]


def explained(part: str, first: str, text: str) -> list[Any]:
    """A part of explanation.json: a sentence with the number of replications, and a table."""
    own = measured("explanation.json")[part]
    for row, policies in OF_THE_BENCHMARK.get(part, {}).items():
        own["rows"].setdefault(row, {})
        own["rows"][row] = {column: benchmark_cell(id) for column, id in policies.items()} | own["rows"][row]
    columns = list(dict.fromkeys(column for cells in own["rows"].values() for column in cells))
    policies = {name: f"`{name}`" for name in (*own["rows"], *columns) if "(" in name and "`" not in name}
    policies |= {name: f"`{name}`" for name in (*own["rows"], *columns) if name in ("c-ucb", "c-screen")}
    rows = [
        [policies.get(row, row), *("{:.1f} ({:.1f})".format(*cells[column]) for column in columns)]
        for row, cells in own["rows"].items()
    ]
    about = Text(text.format(replications=own["replications"]))
    return [about, Grid([first, *(policies.get(column, column) for column in columns)], rows)]


WRONG_CPTS = partial(
    explained,
    "wrong CPTs",
    "CPTs from",
    "Mean regret after 5,000 rounds, {replications} data sets of each size with 5 replications each (standard errors "
    "in parentheses):",
)
LEARNED_CPTS = partial(
    explained,
    "learned CPTs",
    "policy",
    "Mean regret after 5,000 rounds (standard errors in parentheses); e-mail campaign: the regret benchmark, one "
    "variable: {replications} replications. The first policy knows the exact CPTs, the second learns them, the third "
    "does not use the graph:",
)
PAST_DATA = partial(
    explained,
    "past data",
    "past data",
    "Mean regret of `c-ts(prior=beta)` after 5,000 rounds of the e-mail campaign, {replications} replications "
    "(standard errors in parentheses):",
)
UNOBSERVED = partial(
    explained,
    "unobserved variables",
    "variable u",
    "Mean regret of the default policy after 1,000 rounds, {replications} replications (standard errors in "
    "parentheses):",
)
SETS = partial(
    explained,
    "intervention sets",
    "actions",
    "Mean regret after 5,000 rounds, {replications} replications (standard errors in parentheses):",
)
INTENT = partial(
    explained,
    "intent",
    "policy",
    "Mean over {replications} replications (standard errors in parentheses):",
)
DELAYED = partial(
    explained,
    "delayed outcomes",
    "policy",
    "Mean regret after 3,000 decisions, {replications} replications (standard errors in parentheses). Columns: the "
    "environment, and the number of later decisions after which an outcome is known:",
)

PAST_ROWS = {
    "rows without end": "infinite data",
    "1,000 rows, hidden cause ignored": "1,000 rows, unobserved confounder not in the graph",
    "300 rows and 1,000 of an experiment, channel always set": "300 rows and 1,000 randomised rows, channel always set",
}
"""The parts of hidden.json in words, where their names are not enough."""


def unobserved_confounder() -> list[Any]:
    """Regret with an unobserved confounder, by what is known."""
    content = measured("hidden.json")
    rows = []
    for name, own in content["regret"].items():
        label = PAST_ROWS.get(name, name)
        label = f"no rows: `{name.removeprefix('no rows: ')}`" if name.startswith("no rows") else label
        wrong = f"{own['wrong']:.1%}" if "wrong" in own else "not applicable"
        regret_and_error = f"{own['regret']:.1f} ({own['standard error']:.1f})"
        rows.append([label, f"{own['half way']:.1f}", regret_and_error, wrong])
    horizon = content["horizon"]
    about = (
        f"Mean regret of `c-ts(prior=beta)`, and of policies without graph and rows, over {content['replications']} "
        "replications, each with rows of its own (standard errors in parentheses):"
    )
    head = ["known", f"regret after {horizon // 2:,} rounds", f"after {horizon:,}", "rows prefer the wrong action"]
    return [Text(about), Grid(head, rows)]


# --- trust ----------------------------------------------------------------------------------------------


def trust() -> list[Any]:
    """Statements compared with the truth."""
    parts = report(measured("trust.json"))
    return [Heading(part.text, 3) if isinstance(part, Heading) else part for part in parts]


# --- the service ----------------------------------------------------------------------------------------


def service() -> list[Any]:
    """The load tests of the service, with the load of the machine."""
    head = ["test", "result", "fsync (ms)", "load of the machine"]
    parts = measured("service.json")
    rows = []
    for part, told in SERVICE.items():
        if (own := parts.get(part)) is None:
            continue
        found = {**own, "verified": "verified" if own.get("verified") else "not verified"}
        rows.append([*(text.format(**found) for text in told), f"{own['fsync_ms']:g}", f"{own['load']:g}"])
    return [Grid(head, rows), Text("Targets:"), aims(parts)]


def aims(parts: Any) -> Grid:
    """The targets, with the measured values."""
    rows = []
    for target, part, name, least, most in AIMS:
        found = parts.get(part, {}).get(name)
        is_there = isinstance(found, int | float)
        word = ("reached" if least <= found <= most else "missed") if is_there else "not measured"
        rows.append([target, f"{found:,}" if is_there else "", word])
    return Grid(["target", "measured", "verdict"], rows)


AIMS = (
    ("requests per second, 64 connections: at least 3,000", "http", "requests_a_second", 3000, math.inf),
    ("99% quantile of their response time, in ms: below 100", "http", "p99_ms", 0, 100),
    ("outcomes per second, in batches: at least 10,000", "batches", "outcomes_a_second", 10_000, math.inf),
    ("first paint of a page with a million events, in ms: below 1,000", "events", "first_paint_ms", 0, 1000),
)
"""A target in words, the part of benchmarks/service.py that measures it, the name there, and the allowed range."""

COUNTED = "{lost} of {acknowledged:,} acknowledged lost, {doubled} counted twice"
BESIDE = (
    "{service_1:,}, {service_16:,}, {service_64:,} and {service_256:,} requests per second, 99% quantile "
    "{service_p99_1}, {service_p99_16}, {service_p99_64} and {service_p99_256} ms; the application {bare_1:,}, "
    "{bare_16:,}, {bare_64:,} and {bare_256:,}, 99% quantile {bare_p99_1}, {bare_p99_16}, {bare_p99_64} and "
    "{bare_p99_256} ms"
)
SERVICE = {
    "kills": (
        "{kills:,} kills (`kill -9`) under load, every outcome sent twice",
        COUNTED + ", {different_answers} repeated requests with a different response; {verified}",
    ),
    "backends": (
        "four processes on PostgreSQL, {killed:,} backends killed, every outcome sent twice",
        COUNTED + "; {verified}",
    ),
    "clients": (
        "64 clients, {questions:,} requests for decisions, a tenth of them repeated",
        "{different_answers} different responses; the allocation deviates from the logged propensities by at most "
        "{largest_score} standard errors; {verified}",
    ),
    "malformed": (
        "{requests:,} malformed requests to every route",
        "{server_errors} server errors; {verified}",
    ),
    "http": (
        "decisions and outcomes alternately, 64 connections",
        "{cpu_us_a_request} µs of CPU time per request; {requests_a_second:,} requests per second, with the clients on "
        "the same machine; median {median_ms} ms, 99% quantile {p99_ms} ms",
    ),
    "batches": (
        "outcomes in batches of 1,000",
        "{cpu_us_an_outcome} µs of CPU time per outcome; {outcomes_a_second:,} outcomes per second",
    ),
    "events": (
        "{events:,} events",
        "log replayed in {fold_again_cpu_s:.0f} s of CPU time; {verified}; first paint of its page in Chromium after "
        "{first_paint_ms:,} ms, {page_cpu_ms} ms of CPU time in the service, {page_bytes:,} bytes; {file_bytes:,} "
        "bytes on disk",
    ),
    "connections": (
        "decisions and outcomes alternately on 1, 16, 64 and 256 connections, beside an application that writes one "
        "row for each request",
        BESIDE,
    ),
    "slow_disk": ("requests as in the row above, with 8 ms more for each wait for the disk", BESIDE),
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
        "{write_1:,}, {write_2:,} and {write_4:,} decisions and outcomes per second, 99% quantile {write_p99_1}, "
        "{write_p99_2} and {write_p99_4} ms; {read_1:,}, {read_2:,} and {read_4:,} recommendations per second; "
        "{wrong} outcomes lost or counted twice",
    ),
    "stalls": (
        "while a log of {events:,} events is verified, for {verify_s} s",
        "99% quantile for decisions {decisions_p99_ms} ms, for the page {page_p99_ms} ms, for metrics {metrics_p99_ms} "
        "ms; SIGTERM takes {stop_s} s",
    ),
}
"""The parts of benchmarks/service.py in words: a test and its result."""


# --- specifications -------------------------------------------------------------------------------------


def specification() -> list[Any]:
    """The entries of a problem specification."""
    rows = [[f"`{name}`", entry.description, f"`{format_toml(entry.example)}`"] for name, entry in SPEC_ENTRIES.items()]
    return [Grid(["entry", "meaning", "example (TOML)"], rows)]


def schema() -> str:
    """The JSON schema of a specification, as it is published."""
    return json.dumps(problem_schema(), indent=2) + "\n"


ALGORITHMS = {
    "c-ts": ("c-ts",),
    "c-gittins": ("c-gittins", "c-screen"),
    "c-ts-ucb": ("c-ts-ucb",),
    "c-ids": ("c-ids",),
    "c-ts-guarded": ("c-ts-guarded",),
    "c-ts-models": ("c-ts-models",),
    "c-ucb": ("c-ucb",),
    "cl-ucb": ("cl-ucb",),
    "cl-ts": ("cl-ts",),
    "c-track-and-stop": ("c-track-and-stop",),
    "c-design": ("c-design", "c-elimination"),
    "ucb": ("ucb",),
    "ts": ("ts",),
    "kl-ucb": ("kl-ucb", "c-kl-ucb"),
    "hac-ucb": ("hac-ucb",),
    "lin-ucb": ("lin-ucb", "lin-ts"),
    "uniform": ("uniform",),
}
"""The pages of algorithms, with the families whose regret is on each."""

PAGES: dict[str, list[Callable[[], list[Any]]]] = {
    "explanation/changes.md": [changes],
    "project/regret.md": [DELAYED, findings, regret],
    "explanation/calibration.md": [trust],
    "explanation/misspecification.md": [guard, guard_within],
    "explanation/wrong-cpts.md": [WRONG_CPTS],
    "explanation/learned-cpts.md": [LEARNED_CPTS, PAST_DATA, UNOBSERVED],
    "explanation/identification.md": [SETS, unobserved_confounder, INTENT],
    "project/measurements.md": [service],
    "reference/algorithms/c-ts-structure.md": [structure, latent],
    "how-to/several-decisions.md": [several_decisions],
    "reference/specification.md": [specification],
    **{f"reference/algorithms/{page}.md": [partial(family_regret, *families)] for page, families in ALGORITHMS.items()},
}
"""Pages, and what is made for each of the places on them."""

if __name__ == "__main__":
    for name in PAGES:
        text = page(name)
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    (ROOT / "docs/problem.schema.json").write_text(schema(), encoding="utf-8")
