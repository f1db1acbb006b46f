"""Environments: how rewards come about, which only a simulator knows."""

from causalbandits.environments.black_box import StepEnvironment
from causalbandits.environments.budgeted_regret import Shortfall, paid_for
from causalbandits.environments.environment import LISTED, Best, Environment, Observation
from causalbandits.environments.rewards import (
    AdditiveMean,
    BernoulliReward,
    CustomReward,
    GaussianReward,
    LinearReward,
    Reward,
    StudentReward,
)

__all__ = [
    "LISTED",
    "AdditiveMean",
    "BernoulliReward",
    "Best",
    "CustomReward",
    "Environment",
    "GaussianReward",
    "LinearReward",
    "Observation",
    "Reward",
    "Shortfall",
    "StepEnvironment",
    "StudentReward",
    "paid_for",
]
