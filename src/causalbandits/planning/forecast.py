"""Before launch: what would each policy lose, and how soon would it know what to do?

Worlds are drawn from a prior on the reward, and from the tables' posterior where the model was fitted to data; the
policies know the problem as it is given. Each is played on the same worlds. What it would recommend at a checkpoint
counts as found if its true mean is within `epsilon` of the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._files import FilePath
from causalbandits._types import Array
from causalbandits.engine import simulate
from causalbandits.engine.driver import ENVIRONMENT, stream
from causalbandits.errors import CausalBanditsError
from causalbandits.policies.registry import Policies
from causalbandits.problem.problem import CausalBandit
from causalbandits.results.run import Run
from causalbandits.results.tables import decimals, table
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import BernoulliReward, Reward

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RewardPrior = tuple[float, float] | Callable[[CausalBandit, np.random.Generator], Reward]

LOOKS = 40


class Needed(NamedTuple):
    """After how many rounds the best is found with some probability; None where the horizon is too short to tell.

    The truth lies between `lower` and `upper` with 95% confidence, replications being what they are.
    """

    rounds: int | None
    lower: int | None
    upper: int | None


@dataclass(frozen=True)
class Forecast:
    """Regret, and whether the best action was found, at checkpoints; prints as a table."""

    run: Run
    """With simple regret among its measures."""
    epsilon: float
    """How much worse than the best is good enough; `dataclasses.replace` asks the same run another question."""

    def found(self, policy: str) -> npt.NDArray[np.bool_]:
        """Replications x checkpoints: whether the action that the policy would recommend is good enough."""
        return self.run.measure("simple regret", policy) <= self.epsilon

    def probability(self, policy: str) -> tuple[Array, Array, Array]:
        """At each checkpoint: how often the best was found, and its 95% interval (Wilson's)."""
        found = self.found(policy)
        n, p, z = len(found), found.mean(axis=0), 1.96
        centre, scale = p + z * z / (2 * n), 1 + z * z / n
        half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return p, np.maximum(0.0, (centre - half) / scale), np.minimum(1.0, (centre + half) / scale)

    def needed(self, policy: str, probability: float = 0.9) -> Needed:
        """After how many rounds the policy has found the best for good with this probability, with an interval."""
        if not isinstance(probability, float) or not 0 < probability < 1:
            raise CausalBanditsError(f"probability must lie between 0 and 1, such as 0.9; got {probability!r}.")
        estimate, lower, upper = self.probability(policy)
        return Needed(*(self._first(curve >= probability) for curve in (estimate, upper, lower)))

    def _first(self, reached: Any) -> int | None:
        """The round from which on it stays so."""
        lasting = np.logical_and.accumulate(reached[::-1])[::-1]
        return int(self.run.rounds[int(np.argmax(lasting))]) if bool(lasting[-1]) else None

    def __repr__(self) -> str:
        horizon = self.run.horizon
        rows, digits = [], decimals([row.mean for row in self.run.summary()])
        for row in self.run.summary():
            p, lower, upper = (float(values[-1]) for values in self.probability(row.policy))
            regret = f"{row.mean:.{digits}f} ({row.lower:.{digits}f} to {row.upper:.{digits}f})"
            share = f"{p:.0%} ({lower:.0%} to {upper:.0%})"
            rows.append((row.policy, regret, share, _shown(self.needed(row.policy), horizon)))
        head = ("policy", f"regret after {horizon}", "best found by then", "rounds to find it 9 times in 10")
        note = f"{self.run.replications} worlds. Found: the recommended action is within {self.epsilon:g} of the best."
        return f"{table(head, rows)}\n{note}"

    __str__ = __repr__

    def plot(self, path: FilePath | None = None) -> Figure:
        """Regret, and the probability of having found the best, against rounds."""
        from causalbandits.results.plots import plot_forecast

        return plot_forecast(self, path)


def _shown(needed: Needed, horizon: int) -> str:
    if needed.rounds is None:
        return f"more than {horizon}"
    return f"{needed.rounds} ({needed.lower} to {needed.upper or f'more than {horizon}'})"


def forecast(
    problem: CausalBandit,
    policies: Policies | None = None,
    *,
    horizon: int,
    reward_prior: RewardPrior = (1.0, 1.0),
    epsilon: float = 0.02,
    replications: int = 200,
    seed: int = 0,
    workers: int | None = None,
    checkpoint: FilePath | None = None,
    progress: bool | Callable[[int], None] = True,
) -> Forecast:
    """What each policy would lose, and how soon it would know the best action, on average over possible worlds.

    `reward_prior` is what you think of the reward beforehand: a pair (a, b) makes it 0 or 1 with means drawn from
    Beta(a, b) for every configuration of the parents, (2, 50) for click rates around 4%, say; a function of the problem
    and a random generator draws any reward. The default policies are causal Thompson sampling, the same without the
    graph, and a uniform test of all actions. `workers`, `checkpoint` and `progress` are those of `simulate`.

    >>> from causalbandits import zoo
    >>> forecast(zoo.email_campaign().problem, horizon=500, replications=20)
    policy          regret after 500  best found by then  rounds to find it 9 times in 10
    -------------------------------------------------------------------------------------
    c-ts-beta    17.6 (15.0 to 20.2)    95% (76% to 99%)       183 (100 to more than 500)
    ...
    """
    if not isinstance(problem, CausalBandit):
        raise CausalBanditsError(f"forecast needs a CausalBandit (an environment has one); got {problem!r}.")
    for name, value, least in (("horizon", horizon, 10), ("replications", replications, 2), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise CausalBanditsError(f"{name} must be a whole number, {least} or more; got {value!r}.")
    if not isinstance(epsilon, int | float) or not 0 <= epsilon < math.inf:
        raise CausalBanditsError(f"epsilon, how much worse is good enough, must be 0 or more; got {epsilon!r}.")
    worlds = Worlds(problem, reward_prior)
    run = simulate(
        worlds,
        worlds.usual_policies(seed) if policies is None else policies,
        horizon=horizon,
        replications=replications,
        seed=seed,
        workers=workers,
        problem=problem,
        measures="simple regret",
        rounds=np.unique(np.geomspace(10, horizon, LOOKS).astype(np.int64)),
        checkpoint=checkpoint,
        progress=progress,
    )
    return Forecast(run, float(epsilon))


@dataclass(frozen=True)
class Worlds:
    """Draws worlds that may be: the reward from its prior, the tables from their posterior if they have one."""

    problem: CausalBandit
    reward_prior: RewardPrior

    def __post_init__(self) -> None:
        if callable(self.reward_prior):
            return
        try:
            a, b = (float(value) for value in self.reward_prior)
        except (TypeError, ValueError):
            a = b = math.nan
        if not (0 < a < math.inf and 0 < b < math.inf):
            raise CausalBanditsError(
                "reward_prior must be two positive numbers (a, b), the means being Beta(a, b), or a function of the "
                f"problem and a random generator that gives a reward; got {self.reward_prior!r}."
            )
        object.__setattr__(self, "reward_prior", (a, b))

    def __call__(self, rng: np.random.Generator) -> Environment:
        drawn = getattr(self.problem.model, "draw", None)
        truth = self.problem if drawn is None else self.problem.with_model(drawn(rng))
        return Environment(truth, self._reward(truth, rng))

    def _reward(self, truth: CausalBandit, rng: np.random.Generator) -> Reward:
        if not callable(self.reward_prior):
            a, b = self.reward_prior
            return BernoulliReward(rng.beta(a, b, size=truth.shape))
        reward = self.reward_prior(truth, rng)
        if not isinstance(reward, Reward):
            raise CausalBanditsError(
                f"reward_prior must give a reward, such as GaussianReward(...); it gave {reward!r}."
            )
        return reward

    def usual_policies(self, seed: int) -> list[str]:
        """Causal Thompson sampling, the same without the graph, and a uniform test; for 0 to 1 where rewards are so."""
        prior = "beta" if self(stream(seed, 0, ENVIRONMENT)).reward.bounded else "gaussian"
        return [f"c-ts-{prior}", f"ts-{prior}", "uniform"]
