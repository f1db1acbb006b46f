"""Environments: how rewards come about, which only a simulator knows."""

from causalbandits.environments.black_box import BlackBoxEnvironment
from causalbandits.environments.budgeted_regret import BudgetedRegret, affordable_means
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
    "BlackBoxEnvironment",
    "BudgetedRegret",
    "CustomReward",
    "Environment",
    "GaussianReward",
    "LinearReward",
    "Observation",
    "Reward",
    "StudentReward",
    "affordable_means",
]
