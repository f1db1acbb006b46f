"""The panels of a study's page: template values, computed from the statistic, in time independent of the log's
length."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from causalbandits.campaign import LearnedStructure, Recommendations
from causalbandits.errors import CausalBanditsError, PolicyError
from causalbandits.results.plots import graph_with_reward
from causalbandits.service.dashboard.svg import (
    count_delays,
    delay_chart,
    graph_svg,
    mean_chart,
    share_chart,
    structure_svg,
)
from causalbandits.study import Study
from causalbandits.study.analysis import History, StudyReport
from causalbandits.study.remote import without_python


class ModelDiagnostics(NamedTuple):
    """Contradictions of the graph or its CPTs: as text, by variable, with the numbers of tested claims and outcomes."""

    messages: list[str]
    variables: frozenset[str]
    claims: int
    outcomes: int


def diagnose_model(study: Study) -> ModelDiagnostics | None:
    """Whether outcomes contradict the model; None without a model, that is, with a mean per action."""
    if not study.problem.parents:
        return None
    check = study.quick_check()
    contradicted = check.contradicted
    variables = frozenset(name for finding in contradicted for name in finding.variables)
    messages = [f"{finding.claim} (p = {finding.p:.2g}, strength {finding.strength:.2g})" for finding in contradicted]
    return ModelDiagnostics(messages, variables, len(check.findings) - len(check.thin), check.rows)


REWARD_NODE = "reward"
MAX_ROWS, MAX_CONTEXTS = 50, 12
"""The maximum number of actions or configurations in a table, and of contexts with a recommendation."""

MAX_RANKED, MAX_ACTIONS_RANKED = 12, 1000
"""The maximum number of rows of the ranking, and of actions that a page ranks, because pages are rendered often."""


class ContextRecommendations(NamedTuple):
    """The recommendations in the most likely contexts, the number of all contexts; or the reason why there is none."""

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
    has_answer = recommendation is not None and report.outcomes.n > 0
    ranking = (
        recommendation.table(limit=MAX_RANKED)
        if has_answer and study.problem.actions.size <= MAX_ACTIONS_RANKED
        else None
    )
    return {
        **_graph_panel(study, report, recommendation),
        "report": report,
        "history": history,
        "share_rows": _share_rows(history),
        "delay_rows": count_delays(history.delays) if history.delays else [],
        "answer": recommendation,
        "answer_lines": [tuple(without_python(line).split(": ", 1)) for line in recommendation.format_lines()[1:]]
        if has_answer
        else [],
        "ranking": ranking,
        "ranking_note": without_python(ranking.note) if ranking is not None else "",
        "ranking_interval": f"{recommendation.confidence:.0%} {recommendation.kind} interval" if has_answer else "",
        "why_not": why_not,
        "means": mean_chart(history),
        "shares": share_chart(history),
        "delays": delay_chart(history.delays),
        "in_contexts": _recommend_in_contexts(study) if has_answer else None,
        "changes": study.changes() if study.policy.traits.follows_changes else None,
        "state": study.state_hash(),
        "mode": study.modes()[-1],
        "context": study.problem.context,
        "without_graph": study.problem.structure_prior is not None,
        "has_parents": bool(study.problem.parents),
        "has_costs": study.problem.costs is not None,
        "why_no_evaluation": study.evaluation_obstacle(),
        "knobs": [(name, study.problem.knowledge[name].states) for name in study.problem.manipulable],
        "actions_named": history.actions,
        "actions": report.actions[:MAX_ROWS],
        "waiting": study.by_action("open"),
        "expired": study.by_action("expired") if report.decisions["expired"] else None,
        "configurations": sorted(report.configurations, key=lambda pair: -pair[1].n)[:MAX_ROWS],
        "version": report.events,
        "oldest": study.oldest_open(),
        "now": time.time(),
    }


def _graph_panel(study: Study, report: StudyReport, recommendation: Any) -> dict[str, Any]:
    """The causal graph, or the learned structure of a problem without a graph; as a picture and as rows of tables."""
    reward, parents = study.problem.reward or REWARD_NODE, set(study.problem.parents)
    panel: dict[str, Any] = {"structure": None, "graph": "", "graph_rows": [], "doubts": None}
    notes = _node_notes(report, parents, recommendation, reward)
    if study.problem.structure_prior is not None:
        return {**panel, **_structure_panel(study, notes)}
    knobs = set(study.problem.manipulable)
    graph = graph_with_reward(study.problem, reward)
    kinds = {n: "knob" if n in knobs else "parent" if n in parents else "plain" for n in graph.nodes}
    kinds[reward] = "reward"
    kinds |= {n: "hidden" for n, hidden in graph.nodes(data="hidden") if hidden}
    diagnostics = diagnose_model(study)
    if diagnostics is not None:
        kinds |= {n: f"{kinds[n]} doubted" for n in diagnostics.variables & set(kinds)}
    graph_rows = _graph_rows(graph, notes, kinds)
    return {**panel, "graph": graph_svg(graph, notes, kinds), "graph_rows": graph_rows, "doubts": diagnostics}


MIN_PROBABILITY, MAX_EDGES = 0.1, 40
"""The smallest probability of an edge that is drawn, and the maximum number of edges in the picture."""


class StructurePanel(NamedTuple):
    """A learned structure: the number of drawn edges and of those probable enough to be drawn; edges and parent sets
    by variable, the reward first.
    """

    learned: LearnedStructure
    drawn: int
    probable: int
    edges: list[tuple[str, str, float]]
    parent_sets: list[tuple[str, tuple[str, ...], float]]


def _structure_panel(study: Study, notes: Mapping[str, str]) -> dict[str, Any]:
    """The learned structure; nothing if the current policy does not learn it."""
    try:
        learned = study.structure()
    except PolicyError:
        return {}
    likely = learned.likely_edges(MIN_PROBABILITY)
    likeliest = sorted(likely, key=lambda edge: -likely[edge])[:MAX_EDGES]
    drawn = {edge: probability for edge, probability in likely.items() if edge in set(likeliest)}
    reward_set = learned.likeliest_sets(learned.reward, 1)[0][0] if learned.rounds else ()
    kinds = {
        name: "knob" if role == "manipulable" else "parent" if name in reward_set else "plain"
        for name, role in learned.roles.items()
    }
    variables = [*learned.parent_sets][::-1]
    panel = StructurePanel(
        learned,
        len(drawn),
        len(likely),
        [(effect, cause, p) for effect in variables for cause, p in learned.edges_into(effect)],
        [(variable, names, p) for variable in variables for names, p in learned.likeliest_sets(variable)],
    )
    picture = structure_svg(learned, drawn, notes, {**kinds, learned.reward: "reward"})
    return {"structure": panel, "graph": picture}


class GraphRow(NamedTuple):
    """A variable of the graph, as text."""

    name: str
    causes: list[str]
    role: str
    note: str


NODE_ROLES = {
    "knob": "manipulable",
    "parent": "parent of the reward",
    "hidden": "unobserved",
    "reward": "reward",
}


def _graph_rows(graph: Any, notes: dict[str, str], kinds: dict[str, str]) -> list[GraphRow]:
    rows = []
    for name in graph.nodes:
        kind, _, doubted = kinds[name].partition(" ")
        role = NODE_ROLES.get(kind, "other") + (", contradicted by outcomes" if doubted else "")
        rows.append(GraphRow(name, list(graph.predecessors(name)), role, notes.get(name, "")))
    return rows


class ShareRow(NamedTuple):
    """The shares of an action, or of all actions without a row, in each segment of the decisions."""

    name: str
    shares: list[float]


def _share_rows(history: History) -> list[ShareRow]:
    names = [
        ", ".join(f"{k} = {v}" for k, v in dict(action).items()) or ("no intervention") for action in history.actions
    ]
    rows = [ShareRow(name, [part[k] for part in history.shares]) for k, name in enumerate([*names, "others"])]
    return [row for row in rows if any(row.shares)]


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
            notes[name] = f"{value}: mean {total / max(1, n):.3g}, n = {n}"
    if report.outcomes.mean is not None:
        notes[reward] = f"mean {report.outcomes.mean:.3g}"
    return notes


def _recommend_in_contexts(study: Study) -> ContextRecommendations | None:
    """Recommendations by context; None if the problem has no context."""
    if not study.problem.context:
        return None
    size = study.problem.contexts.size
    try:
        return ContextRecommendations(study.recommendations(limit=MAX_CONTEXTS), size)
    except CausalBanditsError as error:
        return ContextRecommendations(Recommendations(()), size, str(error))
