"""The abstract policy: the methods that a class defines, and that the agent and the simulator call.

    situation --score--> one score per searched action --decide--> Choice
    environment --Outcome--> update --> statistic

A policy is a frozen dataclass of parameters; everything that changes is in the statistic, which its methods receive as
an argument.
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


PUBLIC_ATTRIBUTES = (
    "decide", "error_probability", "family", "for_horizon", "from_sums", "id", "incumbent", "init", "interval", "label",
    "learned_model", "options", "sample_values", "score", "score_each", "traits", "update",
)  # fmt: skip
"""The attributes of a policy for its users and authors; the others serve the library's own modules."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Policy(ABC, Generic[S]):
    """The base class of policies: the frozen parameters of an algorithm.

    A policy of your own is a frozen dataclass that defines `id`, `init`, `score` and `update`. A policy never sees the
    reward's mechanism. Everything that changes is kept in a statistic, which is passed to its methods.

    >>> from dataclasses import dataclass
    >>> from causalbandits.policies import Cells, Outcome
    >>> @dataclass(frozen=True, kw_only=True, repr=False)
    ... class Greedy(Policy[Cells]):
    ...     optimism: float = 1.0
    ...
    ...     @property
    ...     def id(self):
    ...         return "greedy"
    ...
    ...     def init(self, problem):
    ...         return Cells.empty(problem.configurations)
    ...
    ...     def score(self, situation, statistic, rng):
    ...         means = (statistic.total + self.optimism) / (statistic.count + 1)
    ...         return situation.project(means)
    ...
    ...     def update(self, situation, statistic, outcome):
    ...         statistic.add(situation.problem.configuration(outcome.z), outcome.reward)
    >>> import causalbandits as cb
    >>> cb.simulate(cb.zoo.email_campaign(), [Greedy()], horizon=20, replications=1, seed=0)
    Run(greedy; replication 0 of 20 rounds, seed 0; regret)
    """

    def __dir__(self) -> list[str]:
        """The documented methods, the options, and the attributes that a class of the user's adds."""
        own = [name for cls in type(self).__mro__ if not is_ours(cls) and cls is not object for name in vars(cls)]
        hidden = [name for name in super().__dir__() if name.startswith("_")]
        options = [field.name for field in fields(self)]
        return sorted({*PUBLIC_ATTRIBUTES, *options, *own, *hidden} & {*super().__dir__()})

    overrides_decide: ClassVar[bool] = False
    """Whether a class that is not this library's has a `decide` of its own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "score" in vars(cls) and "score_each" not in vars(cls):  # the inherited score_each ignores the new score
            cls.score_each = Policy.score_each  # type: ignore[method-assign]
        if not is_ours(cls):
            cls.overrides_decide = cls.overrides_decide or "decide" in vars(cls)
            check_methods(cls)

    @cached_property
    def traits(self) -> Traits:
        """The properties that agents and simulations must know; a class of your own sets `traits = Traits(...)`."""
        return Traits()

    @property
    @abstractmethod
    def id(self) -> str:
        """The name of the policy in results, files and messages."""

    @property
    def label(self) -> str:
        """The name of the policy in legends."""
        return self.id

    def parameter_defaults(self) -> dict[str, Any]:
        """The default of every parameter; `dataclasses.MISSING` for required ones."""
        return {field.name: field.default for field in fields(self)}

    @abstractmethod
    def init(self, problem: Problem) -> S:
        """Create the statistic before the first outcome.

        Args:
            problem: The problem.

        Returns:
            The initial statistic.
        """

    @abstractmethod
    def score(self, situation: Situation, statistic: S, rng: np.random.Generator) -> Scores:
        """Score every searched action; the first of the best is played. The statistic must not be changed.

        Args:
            situation: The problem in the current context, with its eligible actions.
            statistic: The statistic after all outcomes so far.
            rng: The generator of this decision's random numbers.

        Returns:
            One score per searched action, usually from `situation.project`.
        """

    @abstractmethod
    def update(self, situation: Situation, statistic: S, outcome: Outcome) -> None:
        """Add one outcome to the statistic. This must be deterministic.

        Args:
            situation: The situation in which the decision was made.
            statistic: The statistic, changed in place.
            outcome: The outcome.
        """

    def monitor(self, situation: Situation, statistic: S, outcome: Outcome) -> str:
        """Test an outcome after all earlier decisions have an outcome or are cancelled (`traits.sequential`).
        Deterministic.

        Args:
            situation: The situation in which the decision was made.
            statistic: The statistic, which includes the outcome.
            outcome: The outcome.

        Returns:
            A message if an alarm was raised; otherwise an empty text.
        """
        return ""

    def score_each(self, situations: Sequence[Situation], statistic: S, rng: np.random.Generator) -> list[Scores]:
        """Score the actions in several contexts with shared random draws, for policies that share them.

        Args:
            situations: The situations.
            statistic: The statistic after all outcomes so far.
            rng: The generator of random numbers.

        Returns:
            The scores for each situation; a policy that decides by several draws gives one row per draw.
        """
        return [self.score(situation, statistic, rng) for situation in situations]

    def decide(self, situation: Situation, statistic: S, rng: np.random.Generator) -> Choice:
        """Choose the action to play.

        Args:
            situation: The problem in the current context, with its eligible actions.
            statistic: The statistic after all outcomes so far.
            rng: The generator of this decision's random numbers.

        Returns:
            The action, with its propensity if it is known.
        """
        action = situation.best(self.score(situation, statistic, rng))
        return Choice(action, None if self.traits.randomised else 1.0)

    @property
    def batch_policy(self) -> Policy[Any] | None:
        """The policy that decides batches with the same statistic: itself if it is randomised, otherwise None by
        default.
        """
        return self if self.traits.randomised else None

    def feasible(self, situation: Situation, statistic: S) -> Situation:
        """Restrict a situation to actions that meet the chance constraints, if their CPTs are learned.

        Args:
            situation: The situation.
            statistic: The statistic after all outcomes so far.

        Returns:
            The restricted situation; the default returns it unchanged.
        """
        return situation

    def from_sums(self, problem: Problem, outcome_sums: OutcomeSums) -> S:
        """Build the statistic from sums of outcomes, for policies whose statistic does not depend on their order.

        Args:
            problem: The problem.
            outcome_sums: The sums of the outcomes.

        Returns:
            The statistic after these outcomes.

        Raises:
            PolicyError: If the policy does not define this method.
        """
        raise PolicyError(
            f"The policy {self.id!r} has no method from_sums, so its statistic may depend on the order of the "
            "outcomes. Update it with one outcome at a time."
        )

    def learned_model(self, problem: Problem, statistic: S) -> CausalModel | None:
        """The model with the CPTs learned so far.

        Args:
            problem: The problem.
            statistic: The statistic after all outcomes so far.

        Returns:
            The model; None if the policy does not learn CPTs.
        """
        return None

    def concerns(self, problem: Problem, statistic: S) -> tuple[str, ...]:
        """Contradictions between the outcomes and the policy's assumptions.

        Args:
            problem: The problem.
            statistic: The statistic after all outcomes so far.

        Returns:
            A sentence for each contradiction.
        """
        return ()

    def missing_observations(self, problem: Problem, statistic: S, outcome: Outcome) -> str:
        """The variables that an outcome should also have reported.

        Args:
            problem: The problem.
            statistic: The statistic, which includes the outcome.
            outcome: The outcome.

        Returns:
            A message that names them; empty if nothing is missing.
        """
        return ""

    def incumbent(self, situation: Situation, statistic: S) -> Incumbent:
        """The action with the largest estimated mean reward.

        Args:
            situation: The problem in the current context, with its eligible actions.
            statistic: The statistic after all outcomes so far.

        Returns:
            The action, its mean and its runner-up.

        Raises:
            PolicyError: If the policy gives no estimates.
        """
        raise PolicyError(f"The policy {self.id!r} gives no estimates: it does not define incumbent() and interval().")

    def interval(self, situation: Situation, statistic: S, action: Action, confidence: float) -> Bounds:
        """An interval for an action's mean reward that is valid under adaptive sampling, or a credible interval.

        Args:
            situation: The problem in the current context.
            statistic: The statistic after all outcomes so far.
            action: The action.
            confidence: The probability of the interval.

        Returns:
            The bounds and their assumptions.

        Raises:
            PolicyError: If the policy gives no estimates.
        """
        raise PolicyError(f"The policy {self.id!r} gives no estimates: it does not define incumbent() and interval().")

    def error_probability(self, situation: Situation, statistic: S, action: Action, tolerance: float) -> float | None:
        """An anytime-valid bound on the probability that another action is better than this one.

        Args:
            situation: The problem in the current context, with its eligible actions.
            statistic: The statistic after all outcomes so far.
            action: The action that would be recommended.
            tolerance: The difference in mean reward up to which another action does not count as better.

        Returns:
            The bound; None if the policy has no valid stopping rule.
        """
        return None

    def sample_values(self, situation: Situation, statistic: S, rng: np.random.Generator, samples: int) -> Array | None:
        """Posterior samples of the searched actions' mean rewards minus costs.

        Args:
            situation: The problem in the current context, with its eligible actions.
            statistic: The statistic after all outcomes so far.
            rng: The generator of random numbers.
            samples: The number of samples.

        Returns:
            An array with one row per sample; None if the policy has no posterior.
        """
        return None

    def largest_expected_reward(self, problem: Problem) -> float:
        """The absolute reward beyond which a `ScaleWarning` is given.

        Args:
            problem: The problem.

        Returns:
            The limit; infinite by default.
        """
        return math.inf

    def for_horizon(self, horizon: int) -> Self:
        """The policy for a known number of rounds.

        Args:
            horizon: The number of rounds.

        Returns:
            The policy with this horizon; itself if it does not use one.
        """
        return self

    def parameter_fingerprint(self, problem: Problem) -> str:
        """A hash of the parameters that are neither texts nor numbers, by default of their code.

        Args:
            problem: The problem on which the parameters are compared.

        Returns:
            The hash; empty if all parameters are texts or numbers.
        """
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
"""A policy with a statistic of any type."""

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
    """A policy of this library: a family and its options. Its id is the text that `causalbandits.policy` parses."""

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

    `horizon` is that number if it is fixed in advance. Without it, `simulate` sets its own horizon, and an agent uses
    the anytime form, in which the current round replaces the horizon. `anytime=True` uses the anytime form everywhere.
    """

    horizon: int | None = None
    anytime: bool = False

    def __post_init__(self) -> None:
        validate_bool("anytime", self.anytime)
        if self.horizon is not None:
            validate_positive_integer("horizon", self.horizon)
            if self.anytime:
                raise PolicyError(
                    f"horizon= and anytime=True exclude each other. Pass one of them; got horizon={self.horizon}."
                )

    def for_horizon(self, horizon: int) -> Self:
        return self if self.anytime or self.horizon is not None else replace(self, horizon=horizon)

    def clock(self, rounds: int) -> int:
        """The horizon T; without a horizon, the round after `rounds` rewards; at least 2."""
        return max(2, rounds + 1 if self.horizon is None else self.horizon)


SAMPLES_LIMIT = 2**12
"""The largest number of posterior samples per decision."""


def validate_samples(value: object) -> None:
    """Raise an error unless the value is a valid number of posterior samples."""
    validate_positive_integer("samples", value)
    if isinstance(value, int | np.integer) and value > SAMPLES_LIMIT:
        raise PolicyError(f"samples must be {SAMPLES_LIMIT} at most; got {value}.")
