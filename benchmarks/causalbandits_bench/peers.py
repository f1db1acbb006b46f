"""Other libraries' bandits, where they are installed: a decision and an update with as many actions."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from causalbandits_bench.plain_loops import Decide

LearnReward = Callable[[int, float], None]


def peers(actions: int) -> dict[str, tuple[Decide, LearnReward]]:
    """Each one's name, with how it decides and how it learns (from rewards that are 0 or 1)."""
    found: dict[str, tuple[Decide, LearnReward]] = {}
    if importlib.util.find_spec("mabwiser"):
        found |= {"MABWiser UCB1": _mabwiser(actions, "UCB1"), "MABWiser TS": _mabwiser(actions, "ThompsonSampling")}
    if importlib.util.find_spec("river"):
        found |= {"river UCB": _river(actions, "UCB"), "river TS": _river(actions, "ThompsonSampling")}
    return found


def _mabwiser(actions: int, name: str) -> tuple[Decide, LearnReward]:
    library: Any = importlib.import_module("mabwiser.mab")
    parameters = {"alpha": 1.0} if name == "UCB1" else {}
    mab = library.MAB(list(range(actions)), getattr(library.LearningPolicy, name)(**parameters))
    mab.fit(list(range(actions)), [0] * actions)
    return mab.predict, lambda action, reward: mab.partial_fit([action], [reward])


def _river(actions: int, name: str) -> tuple[Decide, LearnReward]:
    bandit: Any = importlib.import_module("river.bandit")
    proba: Any = importlib.import_module("river.proba")
    arms = list(range(actions))
    policy = bandit.UCB(delta=1.0) if name == "UCB" else bandit.ThompsonSampling(reward_obj=proba.Beta())
    for arm in arms:
        policy.update(arm, 0)
    return lambda: policy.pull(arms), lambda action, reward: policy.update(action, int(reward))
