"""Reward mechanisms of environments: distributions given the parents, and custom functions."""

from causalbandits.environments import (
    BernoulliReward,
    CustomReward,
    GaussianReward,
    LinearReward,
    Reward,
    StudentReward,
)

__all__ = ["BernoulliReward", "CustomReward", "GaussianReward", "LinearReward", "Reward", "StudentReward"]
