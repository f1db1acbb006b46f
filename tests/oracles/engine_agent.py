"""An agent with the engine's random numbers, so that the two can be compared decision by decision."""

from __future__ import annotations

from typing import Any

import numpy as np

import causalbandits as cb
from causalbandits.campaign import DecisionSeeds
from causalbandits.policies import randomised_rounding


class EngineSeeds(DecisionSeeds):
    """One generator that goes on from decision to decision; agents and studies have one for each decision."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        super().__init__(seed)
        self._generator, self._root = np.random.default_rng(seed), seed

    def decision_rng(self, number: int) -> np.random.Generator:
        return self._generator

    def binarise(self, reward: float, number: int) -> float:
        return randomised_rounding(reward, self._root, number)


def engine_agent(problem: cb.Problem, policy: Any, seed: np.random.SeedSequence, **more: Any) -> cb.Agent:
    """An agent that decides as a replication of the engine with this seed."""
    agent = cb.Agent(problem, policy, seed=seed, **more)
    agent._seeds = EngineSeeds(seed)
    return agent
