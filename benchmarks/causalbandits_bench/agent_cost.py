"""What an agent's decision costs: against a NumPy loop, and with more to think of, against the same policy without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from causalbandits.environments import zoo
from causalbandits.environments.environment import Environment
from causalbandits.policies.registry import policy
from causalbandits.problem.problem import Problem
from causalbandits_bench import plain_loops
from causalbandits_bench.peers import peers
from causalbandits_bench.timing import Task, side_by_side
from causalbandits_bench.workloads import agent_task

ELIGIBLE = 20
"""So many actions are eligible, where not all are."""


def against_loops(ids: tuple[str, ...], repeats: int) -> list[list[Any]]:
    """Figure 2's campaign: ask and tell, and other libraries' bandits with as many actions, against a loop's round."""
    env = zoo.figure2()
    matrices = plain_loops.matrices(env)
    timed = [(id, id, agent_task(env, id)) for id in ids]
    for name, (decide, learn) in peers(env.problem.actions.size).items():
        timed.append((name, "ucb" if "UCB" in name else "ts(scales=given)", _peer(decide, learn)))
    rows = []
    for name, id, task in timed:
        best = side_by_side({"own": task, "loop": loop_task(matrices, id)}, repeats)
        rows.append(_row("Figure 2", name, "a NumPy loop", best["own"], best["loop"]))
    return rows


def against_without(repeats: int) -> list[list[Any]]:
    """Few of the actions eligible, many draws, a guard, tables to learn, a context: each against none of it."""
    rows = []
    for world, name, task, like, without in _with_and_without():
        best = side_by_side({"with": task, "without": without}, repeats)
        rows.append(_row(world, name, like, best["with"], best["without"]))
    return rows


def _with_and_without() -> list[tuple[str, str, Task, str, Task]]:
    figure2, campaign, segments = zoo.figure2(), zoo.email_campaign(), zoo.email_segments()
    gaussian, beta = agent_task(figure2, "c-ts(scales=given)"), agent_task(campaign, "c-ts(prior=beta)")
    told, not_told = (agent_task(env, "c-ts(prior=beta)") for env in (segments, without_context(segments)))
    few, draws = (
        agent_task(figure2, "c-ucb", some=ELIGIBLE),
        agent_task(figure2, policy("c-ts", scales="given", samples=32)),
    )
    return [
        ("Figure 2", f"c-ucb, {ELIGIBLE} actions eligible", few, "c-ucb", agent_task(figure2, "c-ucb")),
        ("Figure 2", "c-ts(scales=given), samples=32", draws, "c-ts(scales=given)", gaussian),
        ("Figure 2", "c-ts-guarded", agent_task(figure2, "c-ts-guarded"), "c-ts(scales=given)", gaussian),
        (
            "e-mail",
            "c-ts-guarded(prior=beta)",
            agent_task(campaign, "c-ts-guarded(prior=beta)"),
            "c-ts(prior=beta)",
            beta,
        ),
        ("e-mail", "c-ts(prior=beta, cpts=learned)", _learning(campaign), "c-ts(prior=beta)", beta),
        (
            "e-mail, segments",
            "c-ts(prior=beta), told the segment",
            told,
            "not told",
            not_told,
        ),
        ("e-mail, segments", "c-ts(prior=beta, cpts=learned)", _learning(segments), "c-ts(prior=beta)", told),
    ]


def without_context(env: Environment) -> Environment:
    """The same world, where the context is not told."""
    problem = env.problem
    return Environment(
        Problem(problem.model, manipulable=problem.manipulable, reward_parents=problem.parents, optional=True),
        env.reward,
    )


def loop_task(matrices: plain_loops.Matrices, id: str, horizon: int = 1000) -> Task:
    """One replication of a NumPy loop."""

    def run() -> int:
        plain_loops.play(id, matrices, horizon, 0)
        return horizon

    return run


def _learning(env: Environment) -> Task:
    return agent_task(env, "c-ts(prior=beta, cpts=learned)", problem=env.problem.without_cpts())


def _peer(decide: Callable[[], int], learn: Callable[[int, float], None], rounds: int = 40) -> Task:
    def run() -> int:
        for t in range(rounds):
            learn(decide(), float(t % 2))
        return rounds

    return run


def _row(world: str, name: str, like: str, own: float, other: float) -> list[Any]:
    return [world, name, own * 1e6, like, other * 1e6, own / other]
