"""The abstract policy: what a class of your own defines, and what the agent and the simulator call.

    situation --score--> one score per searched action --decide--> Choice
    environment --Outcome--> update --> statistic

A policy is a frozen dataclass of parameters; all that changes is the statistic, which is handed to it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from causalbandits._hashing import code_hash, is_ours
from causalbandits._typing import Array
from causalbandits.errors import PolicyError
from causalbandits.model import CausalModel
from causalbandits.policies.feedback import Bounds, Choice, Incumbent, Outcome, OutcomeSums
from causalbandits.policies.fingerprint import format_parameter, is_plain, nondefault_parameters
from causalbandits.policies.notation import format_policy_text, format_value
from causalbandits.policies.return_checks import check_methods
from causalbandits.policies.statistics import Statistic
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import validate_bool, validate_positive_integer
from causalbandits.problem import Action, Problem, Scores, Situation

S = TypeVar("S", bound=Statistic)


@dataclass(frozen=True, kw_only=True, repr=False)
class Policy(ABC, Generic[S]):
    """The frozen parameters of an algorithm. It sees a situation's arrays, never the reward's mechanism.

    A policy of your own defines `id`, `init`, `score` and `update`; the agent and the simulator do the rest.
    """

    overrides_decide: ClassVar[bool] = False
    """Whether a class that is not this library's has a `decide` of its own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "score" in vars(cls) and "score_each" not in vars(cls):  # what it inherits does not know of its scores
            cls.score_each = Policy.score_each  # type: ignore[method-assign]
        if not is_ours(cls):
            cls.overrides_decide = cls.overrides_decide or "decide" in vars(cls)
            check_methods(cls)

    @cached_property
    def traits(self) -> Traits:
        """What the agent and the simulator must know of the policy. A class of your own sets `traits = Traits(...)`."""
        return Traits()

    @property
    @abstractmethod
    def id(self) -> str:
        """The short name by which results, files and messages know the policy."""

    @property
    def label(self) -> str:
        """The name of the policy in legends."""
        return self.id

    def parameter_defaults(self) -> dict[str, Any]:
        """The value of every parameter that is left out; `dataclasses.MISSING` where it may not be."""
        return {field.name: field.default for field in fields(self)}

    @abstractmethod
    def init(self, problem: Problem) -> S:
        """What is kept, before the first reward."""

    @abstractmethod
    def score(self, situation: Situation, statistic: S, rng: np.random.Generator) -> Scores:
        """One score per searched action, as `situation.project` gives them; the first of the best is played.

        The statistic is left as it is.
        """

    @abstractmethod
    def update(self, situation: Situation, statistic: S, outcome: Outcome) -> None:
        """Take in one outcome. Nothing here is random: the statistic is a fold of the outcomes."""

    def monitor(self, situation: Situation, statistic: S, outcome: Outcome) -> str:
        """Look at an outcome that was taken in, once all earlier decisions are told or cancelled (`traits.sequential`).

        What it noticed is said in words, or nothing is. Nothing here is random either.
        """
        return ""

    def score_each(self, situations: Sequence[Situation], statistic: S, rng: np.random.Generator) -> list[Scores]:
        """`score` in several contexts; what is drawn for all of them is drawn once, by policies that share it.

        A policy that decides by several draws gives a row for each of them.
        """
        return [self.score(situation, statistic, rng) for situation in situations]

    def decide(self, situation: Situation, statistic: S, rng: np.random.Generator) -> Choice:
        """The action to play."""
        action = situation.best(self.score(situation, statistic, rng))
        return Choice(action, None if self.traits.randomised else 1.0)

    @property
    def batch_policy(self) -> Policy[Any] | None:
        """What decides several rounds at once, by the same statistic: itself if it draws, else None unless it says so.

        A deterministic policy would repeat one action until an outcome comes.
        """
        return self if self.traits.randomised else None

    def feasible(self, situation: Situation, statistic: S) -> Situation:
        """The situation with those actions that keep to what is required, where that is learnt; else as it is."""
        return situation

    def from_sums(self, problem: Problem, outcome_sums: OutcomeSums) -> S:
        """The statistic after these outcomes, made from their sums."""
        raise PolicyError(
            f"The policy {self.id!r} does not say how its statistic is made from sums (from_sums), so the order of "
            "the outcomes may count: fold them one by one."
        )

    def learned_model(self, problem: Problem, statistic: S) -> CausalModel | None:
        """What is known of the tables by now; None where they are not learnt."""
        return None

    def concerns(self, problem: Problem, statistic: S) -> tuple[str, ...]:
        """What the outcomes so far say against the way in which the policy is used, in words."""
        return ()

    def missing_observations(self, problem: Problem, statistic: S, outcome: Outcome) -> str:
        """What an outcome that was taken in should have shown besides, in words; empty where it lacks nothing."""
        return ""

    def incumbent(self, situation: Situation, statistic: S) -> Incumbent:
        """The action with the largest estimated mean reward."""
        raise PolicyError(f"The policy {self.id!r} gives no estimates: it does not define incumbent() and interval().")

    def interval(self, situation: Situation, statistic: S, action: Action, confidence: float) -> Bounds:
        """Bounds on one action's mean reward that hold with probability `confidence`, however actions were chosen."""
        raise PolicyError(f"The policy {self.id!r} gives no estimates: it does not define incumbent() and interval().")

    def error_probability(self, situation: Situation, statistic: S, action: Action, tolerance: float) -> float | None:
        """The chance, at most, that another action is better by more than `tolerance`; None where no rule says.

        It must hold at all times together, however actions were chosen.
        """
        return None

    def sample_values(self, situation: Situation, statistic: S, rng: np.random.Generator, samples: int) -> Array | None:
        """What the searched actions may be worth, costs subtracted, a row for each draw; None if that is not known."""
        return None

    def largest_expected_reward(self, problem: Problem) -> float:
        """Rewards beyond this size are far from what the policy was told to expect."""
        return math.inf

    def for_horizon(self, horizon: int) -> Self:
        """The policy for a run of known length; itself, unless it uses the length."""
        return self

    def parameter_fingerprint(self, problem: Problem) -> str:
        """What those parameters that are neither text nor numbers do on a problem, hashed: by default, their code."""
        opaque_parameters = {name: value for name, value in nondefault_parameters(self).items() if not is_plain(value)}
        return code_hash(opaque_parameters) if opaque_parameters else ""

    def __str__(self) -> str:
        arguments = ", ".join(
            f"{name}={format_parameter(value)}" for name, value in nondefault_parameters(self).items()
        )
        return f"{self.id}({arguments})" if arguments else self.id

    def __repr__(self) -> str:
        return str(self)


AnyPolicy = Policy[Any]
"""A policy, whatever it keeps."""

LEADING_OPTIONS = ("prior", "scales", "cpts", "regressor")
"""Options that are written first, in this order; the others follow in the order of the class."""

OPTION_LABELS = {
    ("prior", "beta"): "Beta prior",
    ("prior", "gaussian"): "Gaussian prior",
    ("prior", "main-effects"): "main effects",
    ("scales", "given"): "given scales",
    ("scales", "estimated"): "estimated scales",
    ("cpts", "learned"): "learned CPTs",
    ("regressor", "observed"): "observed regressors",
    ("anytime", True): "anytime",
    ("intercept", True): "intercept",
}
"""Options in legends; others are written as name=value."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FamilyPolicy(Policy[S]):
    """A policy of this library: a family and its options. Its id is the text that `causalbandits.policy` reads."""

    family: ClassVar[str]
    """The family in texts."""
    family_label: ClassVar[str]
    """The family in legends."""

    @cached_property
    def id(self) -> str:
        return format_policy_text(self.family, self.options)

    @property
    def label(self) -> str:
        options = {name: value for name, value in self.options.items() if name != "horizon"}
        words = [
            OPTION_LABELS.get((name, value)) if isinstance(value, str | bool) else None
            for name, value in options.items()
        ]
        written = [
            word or f"{name}={format_value(value)}" for word, (name, value) in zip(words, options.items(), strict=True)
        ]
        return f"{self.family_label} ({', '.join(written)})" if written else self.family_label

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from the family's defaults, in the order in which they are written."""
        parameters = nondefault_parameters(self)
        first = [name for name in LEADING_OPTIONS if name in parameters]
        return {name: parameters[name] for name in (*first, *(name for name in parameters if name not in first))}

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True, kw_only=True, repr=False)
class HorizonPolicy(Policy[S]):
    """A policy whose exploration depends on the number of rounds.

    `horizon` is that number, where it is fixed beforehand. Without one, `simulate` puts its own in, and an agent
    uses the anytime form, in which the round itself takes the horizon's place. `anytime=True` is that form
    everywhere.
    """

    horizon: int | None = None
    anytime: bool = False

    def __post_init__(self) -> None:
        validate_bool("anytime", self.anytime)
        if self.horizon is not None:
            validate_positive_integer("horizon", self.horizon)
            if self.anytime:
                raise PolicyError(f"Give a horizon or anytime=True, not both; got horizon={self.horizon}.")

    def for_horizon(self, horizon: int) -> Self:
        return self if self.anytime or self.horizon is not None else replace(self, horizon=horizon)

    def clock(self, rounds: int) -> int:
        """T, or, if that is open, the round that comes after `rounds` rewards; 2 at least."""
        return max(2, rounds + 1 if self.horizon is None else self.horizon)


SAMPLES_LIMIT = 2**12
"""A decision is made from no more posterior samples than this."""


def validate_samples(value: object) -> None:
    """Refuse anything but a number of posterior samples."""
    validate_positive_integer("samples", value)
    if isinstance(value, int | np.integer) and value > SAMPLES_LIMIT:
        raise PolicyError(f"samples must be {SAMPLES_LIMIT} at most; got {value}.")
