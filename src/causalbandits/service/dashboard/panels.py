"""The panels of a study's page: values for the templates, computed from the statistic, however long the log is."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from causalbandits.campaign import Recommendations
from causalbandits.errors import CausalBanditsError
from causalbandits.results.plots import graph_with_reward
from causalbandits.service.dashboard.svg import delay_chart, graph_svg, mean_chart, share_chart
from causalbandits.study import Study


class ModelDiagnostics(NamedTuple):
    """Contradictions of the graph or its tables: in words, by variable, and of how many tested claims and outcomes."""

    messages: list[str]
    variables: frozenset[str]
    claims: int
    outcomes: int


def diagnose_model(study: Study) -> ModelDiagnostics | None:
    """Whether outcomes contradict the model; None where there is none: where a mean is learnt for each action."""
    if not study.problem.parents:
        return None
    check = study.quick_check()
    contradicted = check.contradicted
    variables = frozenset(name for finding in contradicted for name in finding.variables)
    messages = [f"{finding.claim} (p = {finding.p:.2g}, strength {finding.strength:.2g})" for finding in contradicted]
    return ModelDiagnostics(messages, variables, len(check.findings) - len(check.thin), check.rows)


REWARD_NODE = "reward"
MAX_ROWS, MAX_CONTEXTS = 50, 12
"""The most actions or configurations in a table, and the most contexts with a recommendation."""


class ContextRecommendations(NamedTuple):
    """The recommendations in the likeliest contexts, the number of all contexts; or why there is none."""

    answers: Recommendations
    contexts: int
    why_not: str = ""


def build_panels(study: Study) -> dict[str, Any]:
    """The values for the templates of the study page and its panels."""
    report, history = study.report(), study.history()
    try:
        recommendation: Any = study.recommend()
        why_not = ""
    except CausalBanditsError as error:
        recommendation, why_not = None, str(error)
    knobs, parents = set(study.problem.manipulable), set(study.problem.parents)
    graph = graph_with_reward(study.problem, study.problem.reward or REWARD_NODE)
    kinds = {n: "knob" if n in knobs else "parent" if n in parents else "plain" for n in graph.nodes}
    kinds |= {n: "hidden" for n, hidden in graph.nodes(data="hidden") if hidden}
    diagnostics = diagnose_model(study)
    if diagnostics is not None:
        kinds |= {n: f"{kinds[n]} doubted" for n in diagnostics.variables & set(kinds)}
    return {
        "report": report,
        "answer": recommendation,
        "why_not": why_not,
        "means": mean_chart(history),
        "shares": share_chart(history),
        "delays": delay_chart(history.delays),
        "doubts": diagnostics,
        "in_contexts": _recommend_in_contexts(study) if recommendation is not None and report.outcomes.n else None,
        "state": study.state_hash(),
        "mode": study.modes()[-1],
        "context": study.problem.context,
        "has_parents": bool(parents),
        "knobs": [(name, study.problem.knowledge[name].states) for name in study.problem.manipulable],
        "actions_named": history.actions,
        "graph": graph_svg(
            graph, _node_notes(report, parents, recommendation, study.problem.reward or REWARD_NODE), kinds
        ),
        "actions": report.actions[:MAX_ROWS],
        "waiting": study.by_action("open"),
        "expired": study.by_action("expired") if report.decisions["expired"] else None,
        "configurations": sorted(report.configurations, key=lambda pair: -pair[1].n)[:MAX_ROWS],
        "version": report.events,
        "oldest": study.oldest_open(),
        "now": time.time(),
    }


def _node_notes(report: Any, parents: set[str], recommendation: Any, reward: str) -> dict[str, str]:
    """The second line of a node: the recommended value, or the value of a parent with the highest mean reward."""
    is_recommended = recommendation is not None and report.outcomes.n
    notes = (
        {name: f"set to {value}" for name, value in dict(recommendation.intervention).items()} if is_recommended else {}
    )
    for name in parents - set(notes):
        sums_by_value: dict[Any, tuple[int, float]] = {}
        for values, summary in report.configurations:
            n, total = sums_by_value.get(values[name], (0, 0.0))
            sums_by_value[values[name]] = n + summary.n, total + summary.n * (summary.mean or 0.0)
        if sums_by_value:
            value, (n, total) = max(sums_by_value.items(), key=lambda pair: pair[1][1] / max(1, pair[1][0]))
            notes[name] = f"{value}: {total / max(1, n):.3g} of {n}"
    if report.outcomes.mean is not None:
        notes[reward] = f"{report.outcomes.mean:.3g} in the mean"
    return notes


def _recommend_in_contexts(study: Study) -> ContextRecommendations | None:
    """Recommendations in contexts; None where the problem has no context."""
    if not study.problem.context:
        return None
    size = study.problem.contexts.size
    try:
        return ContextRecommendations(study.recommendations(at_most=MAX_CONTEXTS), size)
    except CausalBanditsError as error:
        return ContextRecommendations(Recommendations(()), size, str(error))
