"""Environments: problems with the mechanism of their reward, which policies never see.

`environment` joins a problem with a reward mechanism from `rewards`; `black_box` wraps a custom function; `zoo` has the
environments of Lu et al. (2020) and others; `budgeted_regret` is the regret within a budget.
"""

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


def __dir__() -> list[str]:
    return __all__
