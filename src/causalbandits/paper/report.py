"""The content of the reproduction report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from causalbandits._tables import format_p_value
from causalbandits.paper.claims import LEVEL, StatementVerdict, Verdict
from causalbandits.paper.experiment import AllRuns, Experiment, Runs
from causalbandits.paper.significance import EQUIVALENT
from causalbandits.results import Code, Grid, Heading, Part, Picture, Text, citation, final_regret_grid, format_versions

TITLE = "Reproduction of: Regret analysis of bandit problems with causal background knowledge"


def report_parts(
    experiments: Sequence[Experiment], runs: AllRuns, verdicts: Sequence[Verdict], about: Mapping[str, Any]
) -> Iterable[Part]:
    """The report, from title to reference."""
    yield Heading(TITLE, 1)
    yield Text(
        "Every experiment of Lu, Meisami, Tewari and Yan (UAI 2020) with the paper's settings, and a statistical test "
        f"of each of its claims. {about['replications']} replications, seed {about['seed']}."
    )
    yield Code(f"{about['command']}\n{format_versions(about)}")
    if verdicts:
        yield Heading("The paper's claims")
        yield Grid(
            ("claim", "section", "verdict", "with a change"),
            [(v.claim.text, v.claim.section, v.verdict, _format_remedy(v)) for v in verdicts],
        )
    if any(runs.values()):
        yield Heading("Settings that the paper does not state")
        yield Text(
            "The printed algorithms assume noise and unknown means of size 1; the experiments' noise is 0.1. CL-UCB "
            "and CL-TS regress the reward on the expected features although the features themselves are observed. "
            "With the true scale for each policy and the observed features for the linear policies, the final regret "
            "is:"
        )
        yield Grid(("environment", "policy", "as printed", "improved", "factor"), list(_improvement_rows(runs)))
    for experiment in experiments:
        yield from _experiment_parts(experiment, runs[experiment.name])
    if verdicts:
        yield from _detail_parts(verdicts)
    yield Heading("Reference")
    yield Code(citation("c-ucb"))


def _experiment_parts(experiment: Experiment, runs: Runs) -> Iterable[Part]:
    yield Heading(experiment.title)
    yield Text(experiment.about)
    for name, caption in experiment.captions.items():
        yield Picture(name, caption)
    if runs:
        yield final_regret_grid(runs)
        yield Text(
            f"All numbers: data/{experiment.name}.csv (curves), data/{experiment.name}-final.csv (replications)."
        )


def _improvement_rows(runs: AllRuns) -> Iterable[tuple[str, ...]]:
    """Each policy's final regret as printed and improved, if both were run."""
    for experiment, settings in runs.items():
        for setting, run in settings.items():
            mean = {row.policy: row.mean for row in run.summary()}
            for name in mean:
                if ", s = " not in name:
                    continue
                base = name.partition(", s = ")[0].removesuffix("(regressor=observed)")
                if base in mean and mean[name] > 0:
                    factor = mean[base] / mean[name]
                    yield (f"{experiment}, {setting}", name, f"{mean[base]:.1f}", f"{mean[name]:.1f}", f"{factor:.1f}")


def _detail_parts(verdicts: Sequence[Verdict]) -> Iterable[Part]:
    low, high = EQUIVALENT
    yield Heading("Tests of the claims")
    yield Text(
        "The sample consists of the replications; within a replication all policies face the same problem instance. "
        "'Less than' is a paired one-sided t-test. 'The same' is equivalence: the ratio of the means lies in "
        f"[{low:g}, {high:g}], by two one-sided tests. 'Grows' is a t-test of the replications' slopes. 'Grows like' "
        "is equivalence of the power of growth to 1, by the jackknife. Holm's correction runs over all statements "
        f"together, level {LEVEL:g}. A claim holds if all of its statements hold. It holds in part if some hold and "
        "some fail. It does not hold as printed if some fail and none holds. Otherwise it is inconclusive at this "
        "number of replications."
    )
    for v in verdicts:
        yield Heading(v.claim.text, 3)
        verdict = f"Verdict: {v.verdict}."
        yield Text(verdict if not v.with_remedy else f"{verdict} {_capitalise(v.claim.remedy)}: {v.with_remedy}.")
        rows = [_statement_row(statement, "") for statement in v.statements]
        rows += [_statement_row(statement, "changed: ") for statement in v.remedy_statements]
        yield Grid(("statement", "estimate", "interval", "p for", "p against", ""), rows)


def _statement_row(verdict: StatementVerdict, note: str) -> tuple[str, ...]:
    t = verdict.test
    interval = f"{t.lower:.3g} to {t.upper:.3g} ({t.level:.0%})"
    p_for, p_against = format_p_value(verdict.p_for), format_p_value(verdict.p_against)
    return f"{note}{verdict.statement}", f"{t.estimate:.3g}", interval, p_for, p_against, verdict.verdict


def _format_remedy(v: Verdict) -> str:
    return f"{v.with_remedy}: {v.claim.remedy}" if v.with_remedy else ""


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
