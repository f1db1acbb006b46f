"""The HTML report of a campaign: recommendation, ranking, mean reward over time, misspecification test."""

from __future__ import annotations

import io
import itertools
import math
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from causalbandits._files import parse_path, refuse_unwritable, write_atomically
from causalbandits.campaign.advice import Advice, CampaignState
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.policies import Outcome
from causalbandits.policies.changes import MechanismChanges, report_changes, tracker_of
from causalbandits.results import Code, Drawing, Grid, Heading, Part, Text, as_html, format_number

MAX_TABLE_ROWS = 100
"""The maximum number of actions and of configurations that are listed, those with the most rewards first."""

MAX_SEGMENTS, MIN_SEGMENT_LENGTH = 40, 10
"""The maximum number of segments in the plot of the mean reward, and the minimum number of rewards per segment."""

GRAPH_CAPTION = "Blue: manipulable variables. Violet: context. Bold outline: parents of the reward."


STRUCTURE_CAPTION = (
    "Blue: manipulable variables. Violet: context. Bold outline: the likeliest parent set of the reward. The number at "
    "an edge is the probability that the parent set of its second variable contains the first. Edges below 0.1 are "
    "left out."
)


class Average(NamedTuple):
    """The mean of some rewards, with its standard error."""

    n: int
    mean: float
    standard_error: float


def write_report(advice: Advice, state: CampaignState, path: str | os.PathLike[str]) -> None:
    """Write the report of a campaign to a self-contained .html file."""
    file_path = parse_path(path, "campaign.html")
    if file_path.suffix.lower() not in (".html", ".htm"):
        raise StateError(f"The report can be written to an .html file only, such as campaign.html; got {str(path)!r}.")
    refuse_unwritable(file_path)
    write_atomically(file_path, as_html(_build_page(advice, state), file_path.parent).encode())


def _build_page(advice: Advice, state: CampaignState) -> list[Part]:
    outcomes = list(state.outcomes())
    tracker = tracker_of(state.statistic)
    changes = None if tracker is None else report_changes(state.problem, tracker)
    return [
        Heading("Campaign report", 1),
        Code(_format_counts(advice, state, outcomes)),
        Heading("Recommendation"),
        *_recommendation_parts(advice, outcomes),
        *_graph_parts(advice),
        *_change_parts(changes),
        *_reward_plot_parts(outcomes, changes),
        *_average_parts(advice, outcomes),
        *_model_check_parts(advice, outcomes),
    ]


def _format_counts(advice: Advice, state: CampaignState, outcomes: Sequence[Outcome]) -> str:
    n_decided = sum(outcome.number >= 0 for outcome in outcomes)
    lines = [f"Outcomes: {n_decided:,}", f"Pending decisions: {len(advice.pending):,}"]
    if n_decided < len(outcomes):
        lines.append(f"Past rows: {len(outcomes) - n_decided:,}")
    if outcomes:
        lines.append(f"Mean reward: {format_number(sum(o.reward for o in outcomes) / len(outcomes))}")
    lines.append(f"Policy: {state.policy}")
    if state.tracker is not None:
        lines.append(f"Budget: {state.tracker.status}")
    return "\n".join(lines)


def _recommendation_parts(advice: Advice, outcomes: Sequence[Outcome]) -> list[Part]:
    if not outcomes:
        return [Text("No outcome yet.")]
    try:
        if advice.problem.context:
            return [Code(repr(advice.recommendations()))]
        recommendation = advice.recommend()
        ranking = recommendation.table(limit=MAX_TABLE_ROWS)
    except CausalBanditsError as error:
        return [Text(str(error))]
    head, rows = ranking.format_cells()
    notes = [Text(note) for note in ranking.format_notes(len(rows))]
    return [Code(repr(recommendation)), Heading("Ranking of actions"), Grid(head, rows), *notes]


def _graph_parts(advice: Advice) -> list[Part]:
    from causalbandits.results.plots import plot_graph

    if advice.problem.structure_prior is not None:
        return _structure_parts(advice)
    return [
        Heading("The causal graph"),
        Drawing(_svg(plot_graph(advice.problem, reward=advice.problem.reward or "reward")), GRAPH_CAPTION),
    ]


def _change_parts(changes: MechanismChanges | None) -> list[Part]:
    if changes is None:
        return []
    note = "The recommendation counts outcomes since the changes; the averages below count all outcomes."
    return [Heading("Changes of mechanisms"), Code(repr(changes)), *([Text(note)] if changes.changes else [])]


def _structure_parts(advice: Advice) -> list[Part]:
    """The learned structure as a picture and as text."""
    heading = Heading("The learned structure")
    try:
        structure = advice.structure()
    except CausalBanditsError as error:
        return [heading, Text(str(error))]
    return [heading, Drawing(_svg(structure.plot()), STRUCTURE_CAPTION), Code(repr(structure))]


def _reward_plot_parts(outcomes: Sequence[Outcome], changes: MechanismChanges | None) -> list[Part]:
    """A plot of the mean reward per segment of the campaign."""
    rewards = [outcome.reward for outcome in outcomes]
    if len(rewards) < 2 * MIN_SEGMENT_LENGTH:
        return []
    from matplotlib.figure import Figure

    size = max(MIN_SEGMENT_LENGTH, math.ceil(len(rewards) / MAX_SEGMENTS))
    segments = [rewards[start : start + size] for start in range(0, len(rewards), size)]
    ends = list(itertools.accumulate(map(len, segments)))
    figure = Figure(figsize=(7.5, 2.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(ends, [sum(segment) / len(segment) for segment in segments], color="#1f6feb")
    axes.set_xlabel("outcomes")
    axes.set_ylabel("mean reward")
    axes.grid(alpha=0.3)
    caption = f"Means of {size:,} consecutive outcomes."
    for change in () if changes is None else changes.changes:
        place = sum(outcome.number < change.decision for outcome in outcomes)
        axes.axvline(place, color="#9a4b00", linestyle="--", linewidth=1)
        axes.text(place, 1.0, change.mechanism, color="#9a4b00", fontsize=8, transform=axes.get_xaxis_transform())
    if changes is not None and changes.changes:
        caption += " Dashed lines: changes of mechanisms."
    return [Heading("Mean reward"), Drawing(_svg(figure), caption)]


def _svg(figure: Any) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def _average_parts(advice: Advice, outcomes: Sequence[Outcome]) -> list[Part]:
    problem = advice.problem
    parts = _average_table(
        "Rewards by action",
        "action",
        [(_format_values(a.intervention), average) for a, average in average_by(outcomes, lambda o: o.action)],
    )
    if problem.parents:
        configurations = average_by([outcome for outcome in outcomes if outcome.z], lambda o: o.z)
        rows = [(_format_values(problem.decode_parents(z)), average) for z, average in configurations]
        parts += _average_table("Rewards by configuration of the parents", ", ".join(problem.parents), rows)
    return parts


def average_by(outcomes: Iterable[Outcome], by: Callable[[Outcome], Hashable]) -> list[tuple[Any, Average]]:
    """The mean rewards of groups of outcomes, the largest group first."""
    groups: dict[Any, list[float]] = {}
    for outcome in outcomes:
        groups.setdefault(by(outcome), []).append(outcome.reward)
    return sorted(((key, _average(rewards)) for key, rewards in groups.items()), key=lambda pair: -pair[1].n)


def _average(rewards: Sequence[float]) -> Average:
    n, mean = len(rewards), math.fsum(rewards) / len(rewards)
    if n == 1:
        return Average(1, mean, math.nan)
    return Average(n, mean, math.sqrt(math.fsum((y - mean) ** 2 for y in rewards) / (n - 1) / n))


def _average_table(title: str, head: str, averages: list[tuple[str, Average]]) -> list[Part]:
    if not averages:
        return []
    rows = [
        (name, f"{n:,}", format_number(mean), "" if math.isnan(error) else format_number(error))
        for name, (n, mean, error) in averages[:MAX_TABLE_ROWS]
    ]
    more = (
        [Text(f"Listed: the {MAX_TABLE_ROWS} rows with the most rewards, of {len(averages):,}.")]
        if len(averages) > MAX_TABLE_ROWS
        else []
    )
    return [Heading(title), Grid((head, "rewards", "mean", "standard error"), rows), *more]


def _format_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "do(), no intervention"


def _model_check_parts(advice: Advice, outcomes: Sequence[Outcome]) -> list[Part]:
    if not outcomes or not advice.problem.parents:
        return []
    return [Heading("Misspecification test"), Code(repr(advice.check()))]
