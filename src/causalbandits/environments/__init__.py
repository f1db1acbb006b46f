"""Environments: problems with the mechanism of their reward, which policies never see.

`environment` joins a problem with a reward mechanism from `rewards`; `black_box` wraps a custom function; `zoo` has the
environments of Lu et al. (2020) and others; `changing` joins environments that replace each other over time;
`budgeted_regret` is the regret within a budget.
"""

from causalbandits.environments.black_box import BlackBoxEnvironment
from causalbandits.environments.budgeted_regret import BudgetedRegret, affordable_means
from causalbandits.environments.changing import (
    AnyEnvironment,
    ChangingEnvironment,
    Segment,
    environment_at,
    segments_of,
)
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
    "AnyEnvironment",
    "BernoulliReward",
    "Best",
    "BlackBoxEnvironment",
    "BudgetedRegret",
    "ChangingEnvironment",
    "CustomReward",
    "Environment",
    "GaussianReward",
    "LinearReward",
    "Observation",
    "Reward",
    "Segment",
    "StudentReward",
    "affordable_means",
    "environment_at",
    "segments_of",
]


def __dir__() -> list[str]:
    return __all__
