"""The plain driver: one policy, one replication, one round after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array
from causalbandits.policies import Policy
from causalbandits.problem.problem import CausalBandit
from causalbandits.world.environment import Environment

TICK = 256
"""Rounds between two reports of progress."""

ENVIRONMENT, WORLD, POLICY = 0, 1, 2
"""Roles of random streams: drawing the environment, what happens in it, what the policy draws."""


def stream(seed: int, replication: int, role: int) -> np.random.Generator:
    """The random numbers of one role in one replication, the same whoever runs it and whatever else is run."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replication, role)))


def play(
    env: Environment,
    policy: Policy,
    problem: CausalBandit,
    rounds: npt.NDArray[np.int64],
    seed: int,
    replication: int,
    tick: Callable[[int], None] = lambda rounds: None,
    watch: Callable[[int, Any], None] | None = None,
) -> Array:
    """Play up to the last of `rounds`; the pseudo-regret up to each of them.

    The policy believes in `problem`, which may be another than the environment's: its actions are then the
    interventions that count, not their numbers. `watch` is called at each checkpoint with its position and the
    policy's statistic.
    """
    world, rng = stream(seed, replication, WORLD), stream(seed, replication, POLICY)
    statistic = policy.begin(problem)
    true_number = {} if problem is env.problem else _Numbers(problem, env.problem)
    must_check = policy.unit_rewards and env.reward.bounded is not True
    regret, regrets, checkpoints = 0.0, np.empty(len(rounds)), iter(enumerate(rounds.tolist()))
    slot, checkpoint = next(checkpoints)
    for t in range(1, int(rounds[-1]) + 1):
        action = policy.decide(problem, statistic, rng)
        number = true_number[action] if true_number else action
        z, reward = env.draw(env.problem.actions.choices(number), world)
        if must_check:
            policy.check_reward(reward)
        policy.update(problem, statistic, action, z, reward, rng)
        regret += env.gap(number)
        if t == checkpoint:
            regrets[slot] = regret
            if watch is not None:
                watch(slot, statistic)
            slot, checkpoint = next(checkpoints, (0, 0))
        if t % TICK == 0:
            tick(TICK)
    tick(int(rounds[-1]) % TICK)
    return regrets


class _Numbers(dict[int, int]):
    """From an action's number in the believed problem to its number in the true one, found once each."""

    def __init__(self, believed: CausalBandit, true: CausalBandit) -> None:
        self._believed, self._true = believed, true

    def __missing__(self, action: int) -> int:
        self[action] = self._true.actions.rank(self._believed.actions.choices(action))
        return self[action]

    def __bool__(self) -> bool:
        return True
