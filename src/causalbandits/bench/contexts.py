"""What it costs to look at the context before deciding: the same campaign with and without."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from causalbandits.agent import Agent
from causalbandits.bench.measure import Task, side_by_side
from causalbandits.engine.compiled import play_compiled
from causalbandits.policies import policy
from causalbandits.problem.problem import CausalBandit
from causalbandits.world import zoo
from causalbandits.world.environment import Environment

IDS = ("c-ts-beta", "c-ucb", "ts-beta", "ucb", "cl-ts", "lin-ts", "lin-ucb")


def compared(repeats: int) -> list[list[Any]]:
    """For each policy: a round of the engine and a decision of an agent, told the segment and not, and their ratios."""
    looks = zoo.email_segments()
    problem = looks.problem
    blind = Environment(CausalBandit(problem.model, problem.manipulable, problem.parents), looks.reward)
    rows = []
    for id in IDS:
        engine = side_by_side({"told": _in_engine(looks, id), "not": _in_engine(blind, id)}, repeats)
        agent = side_by_side({"told": _by_agent(looks, id), "not": _by_agent(blind, id)}, repeats)
        times = [[own["told"] * unit, own["not"] * unit] for own, unit in ((engine, 1e9), (agent, 1e6))]
        rows.append([id, *(number for told, other in times for number in (told, other, told / other))])
    return rows


def _in_engine(env: Environment, id: str, horizon: int = 20_000) -> Task:
    own, rounds = policy(id).for_horizon(horizon), np.array([horizon])

    def run() -> int:
        play_compiled(env, own, env.problem, rounds, 0, 0)
        return horizon

    return run


def _by_agent(env: Environment, id: str, rounds: int = 500) -> Task:
    """Decisions of an agent in contexts that were drawn beforehand, and so were the outcomes."""
    agent, rng = Agent(env.problem, id, seed=1, impossible="accept"), np.random.default_rng(0)
    known = [env.draw_context(rng) or None for _ in range(64)]
    happened = itertools.cycle([(context, env.pull({}, rng, context=context)) for context in known])

    def run() -> int:
        for context, outcome in itertools.islice(happened, rounds):
            decision = agent.ask(context=context)
            agent.tell(decision.id, outcome.parents, outcome.reward)
        return rounds

    return run
