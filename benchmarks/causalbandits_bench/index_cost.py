"""What it costs to weigh what actions are worth: the index and its form that draws, against C-TS with their belief."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from causalbandits.environments import zoo
from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import BernoulliReward
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.variable import Variable
from causalbandits.policies.base import AnyPolicy
from causalbandits.policies.cells.gittins import ROWS_LIMIT
from causalbandits.policies.registry import policy
from causalbandits.problem.problem import Problem
from causalbandits_bench.timing import side_by_side
from causalbandits_bench.workloads import agent_task, engine_task

GROUPS = (
    ("c-ts", "c-screen", "c-gittins", "c-ts(prior=main-effects)", "c-gittins(prior=main-effects)"),
    ("c-ts(scales=given)", "c-screen(scales=given)", "c-gittins(scales=given)"),
    ("c-ts(prior=beta)", "c-screen(prior=beta)", "c-gittins(prior=beta)"),
)
"""The first of each is what the others are compared with."""

ROUNDS_TOLD = 5000
"""What policies are told that want to know."""


class Timed(NamedTuple):
    """A world, and for how many rounds it is measured in the engine and in an agent."""

    env: Environment
    rounds: int
    asks: int

    @property
    def size(self) -> str:
        """Searched actions by configurations."""
        problem = self.env.problem
        return f"{problem.situation().size:,} x {problem.configurations:,}"


def against_thompson(repeats: int) -> list[list[Any]]:
    """For each world and policy: a round of the engine, a decision of an agent, and both against C-TS."""
    rows = []
    for name, world in worlds().items():
        for group in GROUPS:
            ids = [id for id in group if _fits(id, world.env.problem)]
            engine = side_by_side({id: engine_task(world.env, with_horizon(id), world.rounds) for id in ids}, repeats)
            agent = side_by_side({id: agent_task(world.env, with_horizon(id), world.asks) for id in ids}, repeats)
            rows += [
                [name, world.size, id, *(own[id] * 1e6 for own in (engine, agent))]
                + [own[id] / own[group[0]] for own in (engine, agent)]
                for id in ids
            ]
    return rows


def worlds() -> dict[str, Timed]:
    """From few actions to many; rewards are 0 or 1, so that every policy can be played on each of them."""
    figure2 = zoo.figure2().problem
    means = np.random.default_rng(0).uniform(0.2, 0.8, figure2.shape)
    return {
        "e-mail": Timed(zoo.email_campaign(), ROUNDS_TOLD, 300),
        "Figure 2": Timed(Environment(figure2, BernoulliReward(means)), ROUNDS_TOLD, 300),
        "one knob, 2 parents": Timed(one_knob(500, (10, 10)), 1000, 100),
        "one wide knob": Timed(one_knob(5000, (40, 25)), 20, 4),
        "most of a product": Timed(three_knobs(5000, values=18), 60, 20),
        "little of a product": Timed(three_knobs(5000, values=60), 60, 20),
    }


def one_knob(actions: int, shape: tuple[int, ...]) -> Environment:
    """A knob that moves all parents at once: P(z | a) is one matrix, and every action is searched."""
    rng = np.random.default_rng(0)
    knob = Variable("x", range(actions), table=np.full(actions, 1 / actions))
    parents = [
        Variable(f"z{i}", range(states), parents=["x"], table=rng.dirichlet(np.full(states, 0.3), actions))
        for i, states in enumerate(shape)
    ]
    model, names = CausalModel([knob, *parents]), [parent.name for parent in parents]
    problem = Problem(
        model, manipulable=["x"], reward_parents=names, actions=[{"x": value} for value in range(actions)]
    )
    return Environment(problem, BernoulliReward(rng.uniform(0.2, 0.8, shape)))


def three_knobs(actions: int, values: int, states: int = 10) -> Environment:
    """A parent for each knob, and a list of their settings: P(z | a) is a product of three rows, and is not kept."""
    rng, knobs = np.random.default_rng(0), ["x0", "x1", "x2"]
    tables = rng.dirichlet(np.full(states, 0.3), (3, values))
    causes = [Variable(knob, range(values), table=np.full(values, 1 / values)) for knob in knobs]
    parents = [Variable(f"z{i}", range(states), parents=[knob], table=tables[i]) for i, knob in enumerate(knobs)]
    chosen = np.unravel_index(rng.choice(values**3, actions, replace=False), (values,) * 3)
    listed = [dict(zip(knobs, one, strict=True)) for one in np.transpose(chosen).tolist()]
    problem = Problem(
        CausalModel([*causes, *parents]), manipulable=knobs, reward_parents=["z0", "z1", "z2"], actions=listed
    )
    return Environment(problem, BernoulliReward(rng.uniform(0.2, 0.8, (states,) * 3)))


def with_horizon(id: str) -> AnyPolicy:
    """A policy that knows for how many rounds."""
    return policy(id).for_horizon(ROUNDS_TOLD)


def _fits(id: str, problem: Problem) -> bool:
    """C-Gittins with main effects is refused beyond so many numbers."""
    return id != "c-gittins(prior=main-effects)" or problem.situation().size * problem.configurations <= ROWS_LIMIT
