"""The plain driver: one policy, one replication, one round after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from causalbandits.environment import Environment
from causalbandits.errors import PolicyError
from causalbandits.policies import Policy
from causalbandits.variable import Array

TICK = 256
"""Rounds between two reports of progress."""

WORLD, POLICY = 1, 2
"""Roles of random streams; 0 is for drawing the environment itself."""


def stream(seed: int, replication: int, role: int) -> np.random.Generator:
    """The random numbers of one role in one replication, the same whoever runs it and whatever else is run."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replication, role)))


def play(
    env: Environment,
    policy: Policy,
    rounds: npt.NDArray[np.int64],
    seed: int,
    replication: int,
    tick: Callable[[int], None] = lambda rounds: None,
) -> Array:
    """Play up to the last of `rounds`; the pseudo-regret up to each of them."""
    world, rng = stream(seed, replication, WORLD), stream(seed, replication, POLICY)
    problem, statistic = env.problem, policy.begin(env.problem)
    must_check = policy.unit_rewards and env.reward.bounded is not True
    regret, regrets, checkpoints = 0.0, np.empty(len(rounds)), iter(enumerate(rounds.tolist()))
    slot, checkpoint = next(checkpoints)
    for t in range(1, int(rounds[-1]) + 1):
        action = policy.decide(problem, statistic, rng)
        z, reward = env.draw(env.choices(action), world)
        if must_check:
            policy.check_reward(reward)
        policy.update(problem, statistic, action, z, reward, rng)
        regret += env.gap(action)
        if t == checkpoint:
            regrets[slot] = regret
            slot, checkpoint = next(checkpoints, (0, 0))
        if t % TICK == 0:
            tick(TICK)
    tick(int(rounds[-1]) % TICK)
    return regrets


def refuse_mismatch(env: Environment, policy: Policy) -> None:
    """Raise, before anything runs, if a policy cannot take the environment's rewards."""
    if policy.unit_rewards and env.reward.bounded is False:
        raise PolicyError(
            f"The policy {policy.id!r} needs rewards in [0, 1]; {env.reward!r} leaves that range. Use a Gaussian "
            "prior or a UCB policy."
        )
