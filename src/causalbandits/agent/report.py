"""A page about an agent: what it would do now and how sure that is, what it was told, what speaks against its model."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from causalbandits.errors import CausalBanditsError
from causalbandits.policies import Outcome
from causalbandits.results import Code, Drawing, Grid, Heading, Part, Text, number

if TYPE_CHECKING:
    from causalbandits.agent.agent import Adviser

ROWS_SHOWN = 100
"""So many actions and configurations are listed, those with most rewards first."""

STRETCHES, SHORTEST = 40, 10
"""The mean reward is drawn for so many stretches of the campaign, of so many rewards at least."""

GRAPH_CAPTION = (
    "What causes what: blue can be set, violet may be known beforehand, a bold rim: what the reward depends on."
)


class Average(NamedTuple):
    """Of some rewards."""

    n: int
    mean: float
    standard_error: float


def page_of(agent: Adviser, told: Sequence[Outcome]) -> list[Part]:
    """The page, part by part; `told` are the outcomes in the order of telling."""
    return [
        Heading("The campaign so far", 1),
        Text(_counts(agent, told)),
        Heading("The answer so far"),
        *_answers(agent, told),
        *_graph(agent),
        *_course(told),
        *_averages(agent, told),
        *_doubts(agent, told),
    ]


def _counts(agent: Adviser, told: Sequence[Outcome]) -> str:
    decided = sum(outcome.number >= 0 for outcome in told)
    past = f", and {len(told) - decided:,} rows of the past" if decided < len(told) else ""
    mean = f" Their mean is {number(sum(o.reward for o in told) / len(told))}." if told else ""
    money = "" if agent.budget is None else f" Budget: {agent.budget}."
    return (
        f"{decided:,} rewards were told{past}; {len(agent.pending):,} decisions wait for theirs.{mean} Decided by "
        f"{agent.policy}.{money}"
    )


def _answers(agent: Adviser, told: Sequence[Outcome]) -> list[Part]:
    if not told:
        return [Text("No reward was told yet.")]
    try:
        found = agent.recommendations() if agent.problem.context else agent.recommend()
    except CausalBanditsError as error:
        return [Text(str(error))]
    return [Code(repr(found))]


def _graph(agent: Adviser) -> list[Part]:
    from causalbandits.results.plots import plot_graph

    return [
        Heading("The causal graph"),
        Drawing(_svg(plot_graph(agent.problem, reward=agent.problem.reward or "reward")), GRAPH_CAPTION),
    ]


def _course(told: Sequence[Outcome]) -> list[Part]:
    """The mean reward, stretch by stretch."""
    rewards = [outcome.reward for outcome in told]
    if len(rewards) < 2 * SHORTEST:
        return []
    from matplotlib.figure import Figure

    size = max(SHORTEST, math.ceil(len(rewards) / STRETCHES))
    parts = [rewards[start : start + size] for start in range(0, len(rewards), size)]
    ends = list(itertools.accumulate(map(len, parts)))
    figure = Figure(figsize=(7.5, 2.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(ends, [sum(part) / len(part) for part in parts], color="#1f6feb")
    axes.set_xlabel("rewards told")
    axes.set_ylabel("mean reward")
    axes.grid(alpha=0.3)
    return [
        Heading("Mean reward"),
        Drawing(_svg(figure), f"In stretches of {size:,} rewards, in the order of telling."),
    ]


def _svg(figure: Any) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def _averages(agent: Adviser, told: Sequence[Outcome]) -> list[Part]:
    problem = agent.problem
    parts = _table("Actions", "set", [(_shown(a.intervention), own) for a, own in averaged(told, lambda o: o.action)])
    if problem.parents:
        seen = averaged([outcome for outcome in told if outcome.z], lambda o: o.z)
        rows = [(_shown(problem.decode_parents(z)), own) for z, own in seen]
        parts += _table("Configurations", ", ".join(problem.parents), rows)
    return parts


def averaged(told: Iterable[Outcome], by: Callable[[Outcome], Hashable]) -> list[tuple[Any, Average]]:
    """Rewards by something of their outcomes, those with most first."""
    groups: dict[Any, list[float]] = {}
    for outcome in told:
        groups.setdefault(by(outcome), []).append(outcome.reward)
    return sorted(((key, _average(own)) for key, own in groups.items()), key=lambda pair: -pair[1].n)


def _average(rewards: Sequence[float]) -> Average:
    n, mean = len(rewards), math.fsum(rewards) / len(rewards)
    if n == 1:
        return Average(1, mean, math.nan)
    return Average(n, mean, math.sqrt(math.fsum((y - mean) ** 2 for y in rewards) / (n - 1) / n))


def _table(title: str, head: str, found: list[tuple[str, Average]]) -> list[Part]:
    if not found:
        return []
    rows = [
        (name, f"{n:,}", number(mean), "" if math.isnan(error) else number(error))
        for name, (n, mean, error) in found[:ROWS_SHOWN]
    ]
    more = [Text(f"The {ROWS_SHOWN} with most rewards, of {len(found):,}.")] if len(found) > ROWS_SHOWN else []
    return [Heading(title), Grid((head, "rewards", "mean", "standard error"), rows), *more]


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "nothing"


def _doubts(agent: Adviser, told: Sequence[Outcome]) -> list[Part]:
    if not told or not agent.problem.parents:
        return []
    return [Heading("Does what came contradict the model?"), Code(repr(agent.check()))]
