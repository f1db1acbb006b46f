"""Lower bounds of an environment: the rounds to identify its best action, and the constant of log T in the regret.

Both apply to policies that are good in all environments with these CPTs, arbitrary means, and Gaussian rewards of scale
s given the parents. For binary rewards, s = 1/2 gives the values that this library's rules, which assume no more, can
reach.
"""

from __future__ import annotations

import numpy as np

from causalbandits._typing import is_real
from causalbandits.environments import Environment
from causalbandits.errors import ProblemError
from causalbandits.problem import DIFFERENCE_TOLERANCE, action_distributions, cheapest_allocation, design
from causalbandits.problem.projection import TIE
from causalbandits.theory.assumptions import noise_scales


def characteristic_time(env: Environment, *, noise_scale: float | None = None, tolerance: float = 0.0) -> float:
    """The characteristic time T* of best-arm identification.

    Identifying the best action with error probability delta needs at least about T* log(1/delta) rounds on average.

    >>> from causalbandits import zoo
    >>> round(characteristic_time(zoo.email_campaign(), noise_scale=1.0), 1)
    968.6

    Args:
        env: The environment.
        noise_scale: The standard deviation of rewards given the parents. Default: the scale from `noise_scales`.
        tolerance: The acceptable loss in mean reward, in units of the reward.

    Returns:
        T*, in rounds.

    Raises:
        ProblemError: If the noise scale is not known, or an argument is out of range.
    """
    _require_environment(env)
    noise = noise_scales(env)[0] if noise_scale is None else noise_scale
    return design(env.problem, env.configuration_means, noise_scale=noise, tolerance=tolerance).value


def graves_lai_constant(env: Environment, *, noise_scale: float | None = None) -> float:
    """The Graves-Lai constant c: a uniformly good policy has an expected regret of at least about c log T.

    Learning the mean of a configuration that the best action can produce causes no regret. If it can produce all
    relevant ones, c is 0 and the regret can stay bounded.

    >>> from causalbandits import zoo
    >>> [round(graves_lai_constant(env), 2) for env in (zoo.email_campaign(), zoo.figure2(), zoo.lower_bound(3, 0.5))]
    [8.07, 0.0, 4.0]

    Args:
        env: The environment.
        noise_scale: The standard deviation of rewards given the parents. Default: the scale from `noise_scales`.

    Returns:
        The constant c, in units of the reward.

    Raises:
        ProblemError: If the noise scale is not known or not positive.
    """
    _require_environment(env)
    noise = noise_scales(env)[0] if noise_scale is None else noise_scale
    if not is_real(noise) or not 0 < noise < np.inf:
        raise ProblemError(f"noise_scale must be a positive finite number; got {noise!r}.")
    situation = env.problem.situation()
    rows = action_distributions(situation)
    gaps = env.gaps_in(situation.candidates.projection, situation.costs)
    is_optimal = gaps <= TIE * max(1.0, float(np.abs(gaps).max()))
    is_uncovered = ~(rows[is_optimal] > DIFFERENCE_TOLERANCE).any(axis=0)
    is_suboptimal = ~is_optimal
    targets = np.sqrt(2.0) * noise * rows[is_suboptimal][:, is_uncovered] / gaps[is_suboptimal, None]
    if not is_uncovered.any() or not targets.any():
        return 0.0
    return cheapest_allocation(rows[is_suboptimal][:, is_uncovered], targets, gaps[is_suboptimal]).value


def _require_environment(env: object) -> None:
    if not isinstance(env, Environment):
        raise ProblemError(f"This function requires an Environment, whose means are known; got {env!r}.")
