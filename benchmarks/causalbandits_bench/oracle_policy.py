"""C-TS that is told what nobody knows: the noise, and the prior that the world's means are drawn from.

The yardstick for policies that learn their scales. Gaussian: the noise's standard deviation, and the root mean square
of the configurations' means as the prior's. Beta: the prior with these means' own mean and variance.
"""

from __future__ import annotations

import math

from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import BernoulliReward, StudentReward
from causalbandits.policies.cells.thompson import CausalThompsonSampling

SMALLEST_PART = 1e-3
"""A noise of 0 is said to be this part of the means' size: a prior must have some."""

FIRMEST = 1e4
"""A prior counts as this many rewards at most."""


def oracle_thompson(env: Environment) -> CausalThompsonSampling:
    """C-TS with the scales of this world.

    >>> from causalbandits import zoo
    >>> oracle_thompson(zoo.figure2()).noise_scale
    0.1
    """
    means = env.configuration_means
    if isinstance(env.reward, BernoulliReward):
        m, v = float(means.mean()), float(means.var())
        firm = min(FIRMEST, max(SMALLEST_PART, m * (1 - m) / v - 1)) if v > 0 else FIRMEST
        m = min(1 - SMALLEST_PART, max(SMALLEST_PART, m))
        return CausalThompsonSampling(prior="beta", successes=firm * m, failures=firm * (1 - m))
    size = math.sqrt(float((means**2).mean())) or 1.0
    return CausalThompsonSampling(
        prior="gaussian", noise_scale=max(SMALLEST_PART * size, _noise(env)), prior_scale=size
    )


def _noise(env: Environment) -> float:
    """The standard deviation of a reward given its parents; of one that has none, the scale."""
    reward = env.reward
    if isinstance(reward, StudentReward):
        return reward.scale * (math.sqrt(reward.degrees / (reward.degrees - 2)) if reward.degrees > 2 else 1.0)
    return float(getattr(reward, "sd", 0.0))
