"""What a decision of each policy costs, beside one of C-TS that is timed in the same minutes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from causalbandits.engine.compiled.driver import can_play
from causalbandits.environments import zoo
from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import BernoulliReward
from causalbandits.policies.base import AnyPolicy
from causalbandits.policies.registry import policy
from causalbandits_bench.oracle_policy import oracle_thompson
from causalbandits_bench.regret import Benchmark
from causalbandits_bench.timing import Task, side_by_side
from causalbandits_bench.workloads import agent_task, engine_task

YARDSTICK = "c-ts(prior=beta)"
ROUNDS, ASKS = 5000, 200
"""How many are timed, in the engine and of an agent."""


class Cost(NamedTuple):
    """A round in the engine, None where that is not compiled; an agent's ask and tell; and both against C-TS."""

    engine_ns: float | None
    agent_us: float
    engine_ratio: float | None
    agent_ratio: float


def decision_costs(benchmark: Benchmark, repeats: int) -> dict[str, Cost]:
    """On Figure 2's problem, rewards 0 or 1, in campaigns from their first round on."""
    problem = zoo.figure2().problem
    env = Environment(problem, BernoulliReward(np.linspace(0.2, 0.8, problem.configurations).reshape(problem.shape)))
    yardstick = _tasks(env, policy(YARDSTICK))
    found = {}
    for name, player in benchmark.players.items():
        own = oracle_thompson(env) if player.policy is None else player.policy.for_horizon(benchmark.horizon)
        tasks = {f"own {place}": task for place, task in _tasks(env, own).items()}
        found[name] = _cost(side_by_side({**tasks, **yardstick}, repeats))
    return found


def _tasks(env: Environment, own: AnyPolicy) -> dict[str, Task]:
    believed = env.problem.without_cpts() if own.traits.learns_cpts else env.problem
    agent = agent_task(env, own, ASKS, problem=believed)
    if not can_play(env, own, believed):
        return {"agent": agent}
    return {"agent": agent, "engine": engine_task(env, own, ROUNDS, believed)}


def _cost(best: dict[str, float]) -> Cost:
    engine, agent = best.get("own engine"), best["own agent"]
    return Cost(
        None if engine is None else engine * 1e9,
        agent * 1e6,
        None if engine is None else engine / best["engine"],
        agent / best["agent"],
    )
