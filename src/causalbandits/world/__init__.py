"""What only a simulator knows: how the reward comes about."""

from causalbandits.world.environment import Environment
from causalbandits.world.rewards import BernoulliReward, CustomReward, GaussianReward, LinearReward, Reward
from causalbandits.world.stepped import StepEnvironment
from causalbandits.world.student import StudentReward

__all__ = [
    "BernoulliReward",
    "CustomReward",
    "Environment",
    "GaussianReward",
    "LinearReward",
    "Reward",
    "StepEnvironment",
    "StudentReward",
]
