"""The upper bound of Lu et al. (2020) for C-UCB, and their lower bound for UCB, with the constants of the proofs."""

from __future__ import annotations

import math

import numpy as np

from causalbandits._typing import is_integer
from causalbandits.errors import CausalBanditsError
from causalbandits.theory.bound import parse_rounds


def paper_c_ucb_bound(configurations: int, horizon: float) -> float:
    """The bound on the regret of C-UCB by the derivation of Lu et al. (2020).

    It assumes 1-sub-Gaussian rewards and Delta_max <= 2.

    >>> round(paper_c_ucb_bound(16, 5000))
    56308

    Args:
        configurations: The number of configurations.
        horizon: The number of rounds, at least 4.

    Returns:
        The bound.

    Raises:
        CausalBanditsError: If an argument is out of range.
    """
    J, T = _validate_count("configurations", configurations), float(parse_rounds("The horizon", horizon, least=4))
    log = math.log(T)
    return 8 * math.sqrt(J * T * log) * log + 4 * J + 2 * T * math.exp(-J * log**2 / 64)


def ucb_lower_bound(N: int, horizon: float, delta: float) -> float:
    """The lower bound on the expected regret of UCB in `zoo.lower_bound`.

    It counts the 3^(N-1) actions that set X_1 to 1. It is 0 until T exceeds 4096 x 3^N log(T) / delta^2.

    >>> ucb_lower_bound(3, 10_000, 0.5), round(ucb_lower_bound(3, 10**9, 0.5))
    (0.0, 21)

    Args:
        N: The number of variables.
        horizon: The number of rounds, at least 2.
        delta: The effect of X_1 on the mean reward.

    Returns:
        The lower bound.

    Raises:
        CausalBanditsError: If an argument is out of range.
    """
    K, T = 3.0 ** _validate_count("N", N), float(parse_rounds("The horizon", horizon))
    if not isinstance(delta, int | float | np.number) or not 0 < delta < math.inf:
        raise CausalBanditsError(f"delta must be a positive finite number; got {delta!r}.")
    return 0.5 * K / 3 * max(0.0, math.log(T * delta / (8 * _ucb_regret_cap(K, T, float(delta))))) / delta


def _ucb_regret_cap(K: float, T: float, delta: float) -> float:
    """A bound on UCB's regret in the environment, and in each one in which one action's mean is raised from delta to 3
    delta.

    Actions that do not set X_1 are mixtures, which are sub-Gaussian only at scale sqrt(1 + delta^2/4): their confidence
    bounds fail with probability T^(-2 / (1 + delta^2/4)) instead of T^-2.
    """
    if 3 * delta > 2 * math.sqrt(math.log(T)):
        return 2 * delta * T
    mixtures = math.pow(T, 2 * delta**2 / (4 + delta**2))
    return min(2 * delta * T, 8 * math.sqrt(K * T * math.log(T)) + 4 / 3 * K * delta * (2 + mixtures))


def _validate_count(name: str, value: int) -> int:
    if not is_integer(value) or value < 1:
        raise CausalBanditsError(f"{name} must be a whole number, 1 or more; got {value!r}.")
    return int(value)
