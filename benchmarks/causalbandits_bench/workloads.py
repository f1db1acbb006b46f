"""What is timed most: rounds in the engine, and decisions of an agent."""

from __future__ import annotations

import numpy as np

from causalbandits.agent.agent import Agent
from causalbandits.engine.compiled.driver import play_compiled
from causalbandits.environments.environment import Environment
from causalbandits.policies.base import AnyPolicy
from causalbandits.policies.registry import as_policy
from causalbandits.problem.problem import Problem
from causalbandits_bench.timing import Task


def engine_task(
    env: Environment, given: AnyPolicy | str, horizon: int = 20_000, problem: Problem | None = None
) -> Task:
    """One replication in the engine; `problem` is what the policy believes, where that is not the world's own."""
    own, rounds = as_policy(given).for_horizon(horizon), np.array([horizon])
    believed = env.problem if problem is None else problem

    def run() -> int:
        play_compiled(env, own, believed, rounds, 0, 0)
        return horizon

    return run


def agent_task(
    env: Environment,
    given: AnyPolicy | str,
    rounds: int = 1000,
    some: int = 0,
    problem: Problem | None = None,
) -> Task:
    """A campaign of an agent from its first round on; `some` actions are eligible, if not all.

    Drawing what happens is not timed: it was drawn in a rehearsal, in which the same seed decided the same.
    """
    rng, believed = np.random.default_rng(0), env.problem if problem is None else problem
    eligible = [env.problem.actions[i] for i in range(some)] or None
    contexts = [env.draw_context(rng) or None for _ in range(rounds)]
    rehearsal, happened = Agent(believed, given, seed=1), []
    for context in contexts:
        decision = rehearsal.ask(context=context, eligible=eligible)
        parents, reward = env.pull(decision.action, rng, context=context)
        known = {*parents, *decision.action}
        lost = {name: None for name in believed.must_observe if name not in known}
        happened.append((parents, reward, lost))
        rehearsal.tell(decision.id, reward=reward, observed={**parents, **lost})

    def run() -> int:
        agent = Agent(believed, given, seed=1)
        for context, (parents, reward, lost) in zip(contexts, happened, strict=True):
            decision = agent.ask(context=context, eligible=eligible)
            agent.tell(decision.id, reward=reward, observed={**parents, **lost})
        return rounds

    return run
