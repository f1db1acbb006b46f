"""What it costs to look at the context before deciding: the same campaign with and without."""

from __future__ import annotations

from typing import Any

from causalbandits.environments import zoo
from causalbandits_bench.agent_cost import without_context
from causalbandits_bench.timing import side_by_side
from causalbandits_bench.workloads import agent_task, engine_task

IDS = ("c-ts(prior=beta)", "c-ucb", "ts(prior=beta)", "ucb", "cl-ts", "lin-ts", "lin-ucb")


def compare_contexts(repeats: int) -> list[list[Any]]:
    """For each policy: a round of the engine and a decision of an agent, told the segment and not, and their ratios."""
    worlds = {"told": zoo.email_segments(), "not": without_context(zoo.email_segments())}
    rows = []
    for id in IDS:
        engine = side_by_side({name: engine_task(env, id) for name, env in worlds.items()}, repeats)
        agent = side_by_side({name: agent_task(env, id, 500) for name, env in worlds.items()}, repeats)
        times = [[own["told"] * unit, own["not"] * unit] for own, unit in ((engine, 1e9), (agent, 1e6))]
        rows.append([id, *(number for told, other in times for number in (told, other, told / other))])
    return rows
