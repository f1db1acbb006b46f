"""What one would write without this library: each algorithm as a plain NumPy loop over all actions.

The yardstick of `benchmarks/run.py speed`. Honest: vectorised over the actions, P(z | a) as a matrix that is ready
before the first round, sums kept from round to round, no step that the algorithm does not need.
`tests/benchmarks/test_speed.py`
checks that their regret is the library's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import BernoulliReward
from causalbandits.problem.features import resolve_features

Decide = Callable[[], int]
Learn = Callable[[int, int, float], None]


class Matrices(NamedTuple):
    """An environment as matrices over all actions."""

    P: Array
    """P(z | a), a row per action."""
    F: Array
    """f(z), a row per configuration."""
    M: Array
    """m_a, a row per action."""
    mean: Array
    gap: Array
    sd: float | None
    """None: the reward is a coin's flip."""


def matrices(env: Environment) -> Matrices:
    """Everything a loop may look up."""
    problem = env.problem
    P = problem.parent_distributions().reshape(problem.actions.size, -1)
    features = resolve_features(problem)
    F = np.array([features.at(z) for z in np.ndindex(*problem.shape)])
    sd = None if isinstance(env.reward, BernoulliReward) else float(getattr(env.reward, "sd", 0.0))
    return Matrices(P, F, P @ F, env.configuration_means, env.gaps(), sd)


def play(id: str, m: Matrices, horizon: int, seed: int) -> Array:
    """The regret after each round of one replication."""
    rng = np.random.default_rng(seed)
    decide, learn = LOOPS[id](m, horizon, rng)
    cdf = np.cumsum(m.P, axis=1)
    cdf[:, -1] = 1.0
    regret, regrets = 0.0, np.empty(horizon)
    for t in range(horizon):
        action = decide()
        z = int(cdf[action].searchsorted(rng.random(), side="right"))
        mean = m.mean[z]
        reward = float(rng.random() < mean) if m.sd is None else mean + m.sd * rng.standard_normal()
        learn(action, z, reward)
        regret += m.gap[action]
        regrets[t] = regret
    return regrets


def ucb(m: Matrices, horizon: int, rng: np.random.Generator) -> tuple[Decide, Learn]:
    """UCB: one cell per action."""
    return _upper_bounds(len(m.P), None, horizon)


def c_ucb(m: Matrices, horizon: int, rng: np.random.Generator) -> tuple[Decide, Learn]:
    """C-UCB: one cell per configuration."""
    return _upper_bounds(len(m.F), m.P, horizon)


def _upper_bounds(cells: int, P: Array | None, horizon: int) -> tuple[Decide, Learn]:
    count, total, level = np.zeros(cells), np.zeros(cells), 4 * math.log(horizon)

    def decide() -> int:
        n = np.maximum(1.0, count)
        index = total / n + np.sqrt(level / n)
        return int((index if P is None else P @ index).argmax())

    return decide, _counting(count, total, by_action=P is None)


def ts_gaussian(m: Matrices, horizon: int, rng: np.random.Generator) -> tuple[Decide, Learn]:
    """Gaussian Thompson sampling: one cell per action."""
    return _gaussian_draws(len(m.P), None, rng)


def c_ts_gaussian(m: Matrices, horizon: int, rng: np.random.Generator) -> tuple[Decide, Learn]:
    """C-TS with Gaussian priors: one cell per configuration."""
    return _gaussian_draws(len(m.F), m.P, rng)


def _gaussian_draws(cells: int, P: Array | None, rng: np.random.Generator) -> tuple[Decide, Learn]:
    count, total = np.zeros(cells), np.zeros(cells)

    def decide() -> int:
        precision = count + 1.0
        index = total / precision + rng.standard_normal(cells) / np.sqrt(precision)
        return int((index if P is None else P @ index).argmax())

    return decide, _counting(count, total, by_action=P is None)


def ts_beta(m: Matrices, horizon: int, rng: np.random.Generator) -> tuple[Decide, Learn]:
    """Thompson sampling of coins: one cell per action."""
    return _beta_draws(len(m.P), None, rng)


def c_ts_beta(m: Matrices, horizon: int, rng: np.random.Generator) -> tuple[Decide, Learn]:
    """C-TS with Beta priors: one cell per configuration."""
    return _beta_draws(len(m.F), m.P, rng)


def _beta_draws(cells: int, P: Array | None, rng: np.random.Generator) -> tuple[Decide, Learn]:
    successes, failures = np.ones(cells), np.ones(cells)

    def decide() -> int:
        index = rng.beta(successes, failures)
        return int((index if P is None else P @ index).argmax())

    def learn(action: int, z: int, reward: float) -> None:
        cell = action if P is None else z
        successes[cell] += reward
        failures[cell] += 1.0 - reward

    return decide, learn


def _counting(count: Array, total: Array, *, by_action: bool) -> Learn:
    def learn(action: int, z: int, reward: float) -> None:
        cell = action if by_action else z
        count[cell] += 1.0
        total[cell] += reward

    return learn


def cl_ucb(m: Matrices, horizon: int, rng: np.random.Generator, *, observed: bool = False) -> tuple[Decide, Learn]:
    """CL-UCB."""
    d = m.M.shape[1]
    V, g = np.eye(d), np.zeros(d)
    beta = 1 + math.sqrt(2 * math.log(horizon) + d * math.log(1 + horizon / d))

    def decide() -> int:
        inverse = np.linalg.inv(V)
        norms = np.sqrt(np.einsum("ij,ij->i", m.M @ inverse, m.M))
        return int((m.M @ (inverse @ g) + beta * norms).argmax())

    return decide, _regressing(m, V, g, observed)


def cl_ts(m: Matrices, horizon: int, rng: np.random.Generator, *, observed: bool = False) -> tuple[Decide, Learn]:
    """CL-TS with v = 1."""
    d = m.M.shape[1]
    V, g = np.eye(d), np.zeros(d)

    def decide() -> int:
        upper = np.linalg.cholesky(V).T
        theta = np.linalg.solve(V, g) + np.linalg.solve(upper, rng.standard_normal(d))
        return int((m.M @ theta).argmax())

    return decide, _regressing(m, V, g, observed)


def _regressing(m: Matrices, V: Array, g: Array, observed: bool) -> Learn:
    def learn(action: int, z: int, reward: float) -> None:
        x = m.F[z] if observed else m.M[action]
        V[:] += np.multiply.outer(x, x)
        g[:] += x * reward

    return learn


LOOPS: dict[str, Callable[[Matrices, int, np.random.Generator], tuple[Decide, Learn]]] = {
    "ucb": ucb,
    "c-ucb": c_ucb,
    "ts(scales=given)": ts_gaussian,
    "c-ts(scales=given)": c_ts_gaussian,
    "ts(prior=beta)": ts_beta,
    "c-ts(prior=beta)": c_ts_beta,
    "cl-ucb": cl_ucb,
    "cl-ucb(regressor=observed)": lambda m, horizon, rng: cl_ucb(m, horizon, rng, observed=True),
    "cl-ts": cl_ts,
    "cl-ts(regressor=observed)": lambda m, horizon, rng: cl_ts(m, horizon, rng, observed=True),
}
