"""What stands on a study's page: functions of its statistic, however many decisions there are."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from causalbandits.campaign import Recommendations
from causalbandits.errors import CausalBanditsError
from causalbandits.results.plots import whole_graph
from causalbandits.service.dashboard.svg import delay_chart, graph_picture, mean_chart, share_chart
from causalbandits.study import Study

# The warning light of a study's page: do outcomes contradict the graph, or its tables?


class Doubts(NamedTuple):
    """What speaks against the model: in words, and the variables that are named; of how many claims and outcomes."""

    found: list[str]
    variables: frozenset[str]
    claims: int
    outcomes: int


def doubts_of(study: Study) -> Doubts | None:
    """By now; None where there is no model to doubt: where a number is learnt for each action."""
    if not study.problem.parents:
        return None
    check = study.quick_check()
    wrong = check.contradicted
    named = frozenset(name for one in wrong for name in one.variables)
    words = [f"{one.claim} (p = {one.p:.2g}, strength {one.strength:.2g})" for one in wrong]
    return Doubts(words, named, len(check.findings) - len(check.thin), check.rows)


REWARD = "reward"
LINES, CONTEXTS = 50, 12
"""So many actions and configurations are listed, and so many contexts."""


class InContexts(NamedTuple):
    """The answer in each of the likeliest contexts, of how many; or why there is none."""

    answers: Recommendations
    contexts: int
    why_not: str = ""


def panels_of(study: Study) -> dict[str, Any]:
    """What the panels of a study show."""
    report, history = study.report(), study.history()
    try:
        answer: Any = study.recommend()
        why_not = ""
    except CausalBanditsError as error:
        answer, why_not = None, str(error)
    knobs, parents = set(study.problem.manipulable), set(study.problem.parents)
    graph = whole_graph(study.problem, study.problem.reward or REWARD)
    kinds = {n: "knob" if n in knobs else "parent" if n in parents else "plain" for n in graph.nodes}
    kinds |= {n: "hidden" for n, hidden in graph.nodes(data="hidden") if hidden}
    doubts = doubts_of(study)
    if doubts is not None:
        kinds |= {n: f"{kinds[n]} doubted" for n in doubts.variables & set(kinds)}
    return {
        "report": report,
        "answer": answer,
        "why_not": why_not,
        "means": mean_chart(history),
        "shares": share_chart(history),
        "delays": delay_chart(history.delays),
        "doubts": doubts,
        "in_contexts": _in_contexts(study) if answer is not None and report.outcomes.n else None,
        "state": study.state_hash(),
        "mode": study.modes()[-1],
        "context": study.problem.context,
        "has_parents": bool(parents),
        "knobs": [(name, study.problem.knowledge[name].states) for name in study.problem.manipulable],
        "actions_named": history.actions,
        "graph": graph_picture(graph, _notes(report, parents, answer, study.problem.reward or REWARD), kinds),
        "actions": report.actions[:LINES],
        "waiting": study.by_action("open"),
        "expired": study.by_action("expired") if report.decisions["expired"] else None,
        "configurations": sorted(report.configurations, key=lambda pair: -pair[1].n)[:LINES],
        "version": report.events,
        "oldest": study.oldest_open(),
        "now": time.time(),
    }


def _notes(report: Any, parents: set[str], answer: Any, reward: str) -> dict[str, str]:
    """What stands in a node: what is recommended for a knob, how many outcomes a parent explains."""
    is_answered = answer is not None and report.outcomes.n
    notes = {name: f"set to {value}" for name, value in dict(answer.intervention).items()} if is_answered else {}
    for name in parents - set(notes):
        best: dict[Any, tuple[int, float]] = {}
        for values, own in report.configurations:
            n, total = best.get(values[name], (0, 0.0))
            best[values[name]] = n + own.n, total + own.n * (own.mean or 0.0)
        if best:
            value, (n, total) = max(best.items(), key=lambda pair: pair[1][1] / max(1, pair[1][0]))
            notes[name] = f"{value}: {total / max(1, n):.3g} of {n}"
    if report.outcomes.mean is not None:
        notes[reward] = f"{report.outcomes.mean:.3g} in the mean"
    return notes


def _in_contexts(study: Study) -> InContexts | None:
    """None where nothing is known before a decision."""
    if not study.problem.context:
        return None
    size = study.problem.contexts.size
    try:
        return InContexts(study.recommendations(at_most=CONTEXTS), size)
    except CausalBanditsError as error:
        return InContexts(Recommendations(()), size, str(error))
