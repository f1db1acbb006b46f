"""What it costs to learn the tables meanwhile: the same campaigns, told their tables and not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from causalbandits.agent import Agent
from causalbandits.bench.measure import Task, side_by_side
from causalbandits.model.intervention import Intervention, State
from causalbandits.policies import AnyPolicy
from causalbandits.problem.problem import CausalBandit
from causalbandits.world import zoo
from causalbandits.world.environment import Environment, Observation

WORLDS = {"e-mail": zoo.email_campaign, "e-mail, told the segment": zoo.email_segments}
ROUNDS = 2000

Happened = dict[tuple[State, Intervention], Iterator[Observation]]


def against_known(repeats: int) -> list[list[Any]]:
    """For each world: an agent's ask and tell where tables are learnt and where they are known, and the ratio."""
    rows = []
    for name, make in WORLDS.items():
        env = make()
        happened = _happened(env)
        tasks = {
            "learnt": _campaign(env, env.problem.without_tables(), "c-ts-beta-learnt", happened),
            "known": _campaign(env, env.problem, "c-ts-beta", happened),
        }
        best = side_by_side(tasks, repeats)
        rows.append([name, best["learnt"] * 1e6, best["known"] * 1e6, best["learnt"] / best["known"]])
    return rows


def _happened(env: Environment) -> Happened:
    """Outcomes of every action in every segment, drawn beforehand."""
    rng, known = np.random.default_rng(0), env.problem.context
    segments: tuple[State, ...] = env.problem.model[known[0]].states if known else ("",)
    return {
        (segment, do): itertools.cycle([env.pull(do, rng, context=_told(env, segment)) for _ in range(32)])
        for segment in segments
        for do in env.problem.actions
    }


def _told(env: Environment, segment: State) -> dict[str, State] | None:
    return {env.problem.context[0]: segment} if env.problem.context else None


def _campaign(
    env: Environment, problem: CausalBandit, policy: AnyPolicy | str, happened: Happened, rounds: int = ROUNDS
) -> Task:
    """A campaign from its first round on: tables are drawn anew most often in the beginning."""
    rng = np.random.default_rng(1)
    contexts = [env.draw_context(rng) for _ in range(rounds)]
    segments = [(context or None, next(iter(context.values()), "")) for context in contexts]

    def run() -> int:
        agent = Agent(problem, policy, seed=1)
        for context, segment in segments:
            decision = agent.ask(context=context)
            outcome = next(happened[segment, decision.intervention])
            agent.tell(decision.id, outcome.parents, outcome.reward)
        return rounds

    return run
