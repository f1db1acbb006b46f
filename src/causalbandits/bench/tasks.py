"""What is timed most: rounds in the engine, and decisions of an agent."""

from __future__ import annotations

import itertools

import numpy as np

from causalbandits.agent import Agent
from causalbandits.bench.measure import Task
from causalbandits.engine.compiled import play_compiled
from causalbandits.policies import AnyPolicy, as_policy
from causalbandits.problem.problem import CausalBandit
from causalbandits.world.environment import Environment


def played(
    env: Environment, given: AnyPolicy | str, horizon: int = 20_000, problem: CausalBandit | None = None
) -> Task:
    """One replication in the engine; `problem` is what the policy believes, where that is not the world's own."""
    own, rounds = as_policy(given).for_horizon(horizon), np.array([horizon])
    believed = env.problem if problem is None else problem

    def run() -> int:
        play_compiled(env, own, believed, rounds, 0, 0)
        return horizon

    return run


def asked(env: Environment, given: AnyPolicy | str, rounds: int = 1000, some: int = 0) -> Task:
    """Decisions of an agent, told outcomes of the first action, drawn beforehand; `some` are eligible, if not all."""
    agent, rng = Agent(env.problem, given, seed=1, impossible="accept"), np.random.default_rng(0)
    eligible = [env.problem.actions[i] for i in range(some)] or None
    outcomes = itertools.cycle([env.pull(env.problem.actions[0], rng) for _ in range(64)])

    def run() -> int:
        for outcome in itertools.islice(outcomes, rounds):
            decision = agent.ask(eligible=eligible)
            agent.tell(decision.id, outcome.parents, outcome.reward)
        return rounds

    return run
