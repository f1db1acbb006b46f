"""What every policy is: statistic -> index -> project -> argmax, on the arrays of a problem."""

from __future__ import annotations

import json
import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from causalbandits.errors import PolicyError, ScaleWarning
from causalbandits.policies.statistics import Statistic
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores

Z = tuple[int, ...]


class Interval(NamedTuple):
    """Bounds on an action's mean reward, and where they come from."""

    lower: float
    upper: float
    kind: str


class Favourite(NamedTuple):
    """The best action so far, and its estimated mean reward.

    `seen` is the probability that it leads where rewards have been seen; None where that has no meaning.
    """

    action: int
    mean: float
    seen: float | None = None


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """The frozen parameters of an algorithm. It sees a problem's arrays, never the reward's mechanism.

    A policy of your own defines `id`, `start`, `score` and `update`; the agent and the simulator do the rest.
    """

    randomised: ClassVar[bool] = True
    """Whether scores are drawn; if not, asking again without telling gives the same action."""
    unit_rewards: ClassVar[bool] = False
    """Whether rewards must lie in [0, 1]."""
    keeps_actions: ClassVar[bool] = False
    """Whether the statistic is kept by actions' numbers, so that all actions must be there when it is scored."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The short name by which the registry and the results know the policy."""

    @abstractmethod
    def start(self, problem: CausalBandit) -> Statistic:
        """What is kept, before the first reward."""

    @abstractmethod
    def score(self, problem: CausalBandit, statistic: Any, rng: np.random.Generator) -> Scores:
        """One score per searched action, as `problem.project` gives them; the first of the best is played.

        The statistic is left as it is.
        """

    @abstractmethod
    def update(
        self,
        problem: CausalBandit,
        statistic: Any,
        action: int,
        z: Z,
        reward: float,
        rng: np.random.Generator,
    ) -> None:
        """Take in one reward: the action's number, the parents' codes, the reward."""

    def begin(self, problem: CausalBandit) -> Any:
        """`start`, and a clear word if it gives something that cannot be saved."""
        statistic = self.start(problem)
        if not isinstance(statistic, Statistic):
            raise PolicyError(
                f"{self.id}: start() must return a Statistic, such as Cells.empty(problem.configurations); "
                f"it returned a {type(statistic).__name__}."
            )
        return statistic

    def scored(self, problem: CausalBandit, statistic: Any, rng: np.random.Generator) -> Scores:
        """`score`, and a clear word if it gives something else than Scores."""
        scores = self.score(problem, statistic, rng)
        if not isinstance(scores, Scores):
            raise PolicyError(
                f"{self.id}: score() must return Scores, from problem.project(a number per configuration) or "
                f"Scores.of(a number per action); it returned a {type(scores).__name__}."
            )
        return scores

    def decide(self, problem: CausalBandit, statistic: Any, rng: np.random.Generator) -> int:
        """The number of the action to play."""
        return self.scored(problem, statistic, rng).first_best()

    def favourite(self, problem: CausalBandit, statistic: Any) -> Favourite:
        """The action with the largest estimated mean reward."""
        raise PolicyError(f"The policy {self.id!r} gives no estimates: it does not define favourite() and interval().")

    def interval(self, problem: CausalBandit, statistic: Any, action: int, level: float) -> Interval:
        """Bounds on one action's mean reward that hold with probability `level`, however actions were chosen."""
        raise PolicyError(f"The policy {self.id!r} gives no estimates: it does not define favourite() and interval().")

    def largest_expected_reward(self, problem: CausalBandit) -> float:
        """Rewards beyond this size are far from what the policy was told to expect."""
        return math.inf

    def for_horizon(self, horizon: int) -> Self:
        """The policy for a run of known length; itself, unless it uses the length."""
        return self

    def check_reward(self, reward: float) -> None:
        """Refuse a reward that the policy has no meaning for."""
        if self.unit_rewards and not 0.0 <= reward <= 1.0:
            raise PolicyError(
                f"The policy {self.id!r} needs rewards in [0, 1]; got {reward:g}. Rescale the rewards, "
                "or use a Gaussian prior or a UCB policy."
            )

    def parameters(self) -> dict[str, Any]:
        """The parameters that differ from their defaults."""
        given = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        return {name: value for name, (value, default) in given.items() if default is MISSING or value != default}

    def plain_parameters(self) -> dict[str, Any]:
        """The same as JSON; what is neither text nor number (a function) is kept by its mere presence."""
        values = {name: v.item() if isinstance(v, np.generic) else v for name, v in self.parameters().items()}
        plain = (str, int, float, bool, type(None))
        return {name: value if isinstance(value, plain) else {"not saved": True} for name, value in values.items()}

    def content(self, problem: CausalBandit) -> str:
        """What decides about its numbers on a problem, the same in every process."""
        return f"{self.id} {json.dumps(self.plain_parameters(), sort_keys=True)}"

    def warn_of_scale(self, what: str, size: float, problem: CausalBandit, stacklevel: int) -> None:
        """Say so if rewards of this size are far from what the policy was told to expect."""
        expected = self.largest_expected_reward(problem)
        if size > expected:
            warnings.warn(
                f"{what} {size:g}, and {self} expects rewards within about {expected:g}: it may settle on the first "
                "action that pays. Rescale the rewards, or raise prior_scale and noise_scale.",
                ScaleWarning,
                stacklevel=stacklevel + 1,
            )

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{self.id}({shown})" if shown else self.id


@dataclass(frozen=True, kw_only=True)
class HorizonPolicy(Policy):
    """A policy whose exploration depends on the number of rounds.

    `horizon` is that number, where it is fixed beforehand. Without one, `simulate` puts its own in, and an agent
    uses the anytime form, in which the round itself takes the horizon's place. `anytime=True` is that form
    everywhere.
    """

    horizon: int | None = None
    anytime: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.anytime, bool):
            raise PolicyError(f"anytime must be True or False; got {self.anytime!r}.")
        if self.horizon is not None:
            require_whole("horizon", self.horizon)
            if self.anytime:
                raise PolicyError(f"Give a horizon or anytime=True, not both; got horizon={self.horizon}.")

    def for_horizon(self, horizon: int) -> Self:
        return self if self.anytime or self.horizon is not None else replace(self, horizon=horizon)

    def clock(self, rounds: int) -> int:
        """T, or, if that is open, the round that comes after `rounds` rewards; 2 at least."""
        return max(2, rounds + 1 if self.horizon is None else self.horizon)


def require_whole(name: str, value: object) -> None:
    """Refuse anything but a positive whole number."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise PolicyError(f"{name} must be a whole number, 1 or more; got {value!r}.")


def require_positive(**values: Any) -> None:
    """Refuse anything but positive finite numbers."""
    for name, value in values.items():
        if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not 0 < value < math.inf:
            raise PolicyError(f"{name} must be a positive finite number; got {value!r}.")


def require_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse anything but the allowed words."""
    if value not in allowed:
        raise PolicyError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")
