"""What every policy is: statistic -> index -> project -> argmax, on the arrays of a situation.

situation --score--> one score per searched action --decide--> Choice ==> the world ==> Outcome --update--> statistic
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from causalbandits._hashing import code_hash
from causalbandits._typing import Array
from causalbandits.errors import PolicyError, ProblemWarning, ScaleWarning
from causalbandits.model import CausalModel
from causalbandits.policies.budgeted import decide_within_budget, with_all_actions
from causalbandits.policies.feedback import Choice, Outcome, OutcomeSums
from causalbandits.policies.fingerprint import format_parameter, is_plain, nondefault_parameters
from causalbandits.policies.posteriors import Bounds
from causalbandits.policies.statistics import Statistic
from causalbandits.policies.validation import validate_bool, validate_positive_integer
from causalbandits.problem import Action, BudgetTracker, CostCap, PacedScores, Problem, Scores, Situation, format_names

# The best action so far, and the second best, as policies name them.


class RunnerUp(NamedTuple):
    """The second best action so far, its estimated mean reward, nothing subtracted, and what it costs."""

    action: Action
    mean: float
    cost: float = 0.0


class Incumbent(NamedTuple):
    """The best action so far, all costs considered, and its estimated mean reward, nothing subtracted.

    `seen` is the probability that it leads where rewards have been seen; None where that has no meaning.
    """

    action: Action
    mean: float
    seen: float | None = None
    runner_up: RunnerUp | None = None


def runner_up_of(situation: Situation, position: int, means: Array) -> RunnerUp:
    """The action at a position as the second best."""
    action = situation.action(position)
    return RunnerUp(action, float(means[position]), situation.problem.cost(action))


def two_best_positions(scores: Scores) -> tuple[int, int | None]:
    """The positions of the best and of the second best."""
    first = scores.best_position()
    if len(scores.values) == 1:
        return first, None
    remaining = scores.values.copy()
    remaining[first] = remaining.min() - 1.0
    return first, Scores(remaining, scores.scale).best_position()


class Traits(NamedTuple):
    """What a policy needs and does, resolved once per policy object from its class and its parameters."""

    randomised: bool = True
    """Scores are drawn; if not, asking again without telling gives the same action."""
    unit_rewards: bool = False
    """Rewards must lie in [0, 1]."""
    searches_all: bool = False
    """All actions are searched, not only those that can be the best for some reward."""
    needs_parents: bool = True
    """Nothing can be learnt from a reward without the values of its parents."""
    needs_context: bool = False
    """Besides, something is kept for every context by itself, so that all of it must be known."""
    learns_tables: bool = False
    """The model's tables are learnt from all that is observed: nothing may then be searched by them."""
    learns_scales: bool = False
    """The rewards' scales are estimated from the rewards."""
    counts_successes: bool = False
    """Successes are counted: a reward between 0 and 1 then comes with a coin's flip, `outcome.successes`."""
    sequential: bool = False
    """Outcomes are also looked at in the order of their decisions: `monitor`."""
    no_budget: str = ""
    """Why no budget can be kept, and what to use instead, as the end of a sentence; empty where one can."""


S = TypeVar("S", bound=Statistic)


@dataclass(frozen=True, kw_only=True)
class Policy(ABC, Generic[S]):
    """The frozen parameters of an algorithm. It sees a situation's arrays, never the reward's mechanism.

    A policy of your own defines `id`, `start`, `score` and `update`; the agent and the simulator do the rest.
    """

    @cached_property
    def traits(self) -> Traits:
        """What the agent and the simulator must know of the policy. A class of your own sets `traits = Traits(...)`."""
        return Traits()

    @property
    @abstractmethod
    def id(self) -> str:
        """The short name by which the registry and the results know the policy."""

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
        """Look at an outcome that was taken in, once all earlier decisions are told or forgotten, if `traits.sequential`.

        What it noticed is said in words, or nothing is. Nothing here is random either.
        """
        return ""

    def init_or_raise(self, problem: Problem) -> S:
        """`start`, and a clear word if it gives something that cannot be saved."""
        if not isinstance(self.id, str):
            raise PolicyError(f"A policy's id must be text, such as 'my-policy'; got {self.id!r}.")
        self.validate_parents(problem)
        statistic = self.init(problem)
        if not isinstance(statistic, Statistic):
            raise PolicyError(
                f"{self.id}: init() must return a Statistic, such as Cells.empty(problem.configurations); "
                f"it returned a {type(statistic).__name__}."
            )
        statistic.validate_fields(self.id)
        return statistic

    def validate_parents(self, problem: Problem) -> None:
        """Say so if there are no parents, and the policy learns of nothing else."""
        if problem.unit == "actions" and (self.traits.needs_parents or not self.traits.searches_all):
            raise PolicyError(
                f"{self.id} learns what a reward owes to its parents, and this problem has none (parents=[]). Use a "
                f"policy that learns a number per action: {'ts-beta' if self.traits.unit_rewards else 'ts-gaussian or ucb'}."
            )

    def score_or_raise(self, situation: Situation, statistic: S, rng: np.random.Generator) -> Scores:
        """`score`, and a clear word if it gives something else than Scores."""
        scores = self.score(situation, statistic, rng)
        if not isinstance(scores, Scores):
            raise PolicyError(
                f"{self.id}: score() must return Scores, from situation.project(a number per configuration) or "
                f"situation.take(a number per action); it returned a {type(scores).__name__}."
            )
        if not isinstance(scores.values, np.ndarray) or scores.values.shape != (situation.size,):
            raise PolicyError(
                f"{self.id}: score() must give one score for each of the {situation.size} searched actions; its scores "
                f"have shape {np.shape(scores.values)}."
            )
        # Who makes scores without the situation's help need not know of budgets.
        return situation.net_of_costs(scores) if situation.is_paced and not isinstance(scores, PacedScores) else scores

    def score_each(self, situations: Sequence[Situation], statistic: S, rng: np.random.Generator) -> list[Scores]:
        """`score` in several contexts; what is drawn for all of them is drawn once, by policies that share it.

        A policy that decides by several draws gives a row for each of them.
        """
        return [self.score_or_raise(situation, statistic, rng) for situation in situations]

    def decide(self, situation: Situation, statistic: S, rng: np.random.Generator) -> Choice:
        """The action to play."""
        best = self.score_or_raise(situation, statistic, rng).best_position()
        return Choice(situation.action(best), None if self.traits.randomised else 1.0)

    def feasible(self, situation: Situation, statistic: S) -> Situation:
        """The situation with those actions that keep to what is required, where that is learnt; else as it is."""
        return situation

    def choose(self, situation: Situation, statistic: S, rng: np.random.Generator) -> Choice:
        """`decide` among what is permitted, and a clear word if it gives something else than a Choice."""
        return self._decide_or_raise(self.feasible(situation, statistic), statistic, rng)

    def _decide_or_raise(self, situation: Situation, statistic: S, rng: np.random.Generator) -> Choice:
        choice = self.decide(situation, statistic, rng)
        if not isinstance(choice, Choice) or not isinstance(choice.action, Action):
            raise PolicyError(
                f"{self.id}: decide() must return a Choice, such as Choice(situation.action(position)); it returned "
                f"{choice!r}."
            )
        if not situation.allows(choice.action):
            raise PolicyError(f"{self.id}: decide() must choose an eligible action; it chose {choice.action}.")
        if choice.propensity is not None and not 0.0 < choice.propensity <= 1.0:
            raise PolicyError(f"{self.id}: a propensity must lie in (0, 1], or be None; it is {choice.propensity!r}.")
        return choice

    def choose_within_budget(
        self, situation: Situation, statistic: S, rng: np.random.Generator, tracker: BudgetTracker
    ) -> Choice:
        """`table_measures` within a budget, which decides by this round's scores and a coin: one of two actions."""
        if situation.context_codes is not None:
            return decide_within_budget(self, situation, statistic, rng, tracker)
        situation = self.feasible(situation, statistic)
        assert situation.costs is not None
        pacing = tracker.pacing_rule(situation.costs, rng.random)
        choice = self._decide_or_raise(situation.with_pacing(pacing), statistic, rng)
        cost = situation.problem.cost(choice.action)
        if not pacing.can_afford(cost):
            raise PolicyError(
                f"{self.id}: decide() must keep to the budget; it chose {choice.action}, which costs {cost:g}. Take "
                "the best position of scores from situation.project, situation.take or situation.net_of_costs."
            )
        return (
            Choice(choice.action, None if self.traits.randomised else pacing.propensity)
            if choice.support is None
            else choice
        )

    def refuse_budget(self) -> None:
        """Say so if a budget is not for this policy."""
        if self.traits.no_budget:
            raise PolicyError(
                f"{self.id}: a budget mixes two actions by their values, and here {self.traits.no_budget} or another "
                "policy that gives values, or costs without a budget."
            )

    def find_incumbent(self, situation: Situation, statistic: S, allowance: float | None = None) -> Incumbent:
        """`incumbent` among what is permitted, and a clear word if it gives something else than an Incumbent.

        With an allowance, which is what a budget has for each round, of what costs no more than that.
        """
        if allowance is not None:
            return self._affordable_incumbent(situation, statistic, allowance)
        return self._incumbent_or_raise(self.feasible(situation, statistic), statistic)

    def _affordable_incumbent(self, situation: Situation, statistic: S, allowance: float) -> Incumbent:
        situation = self.feasible(with_all_actions(situation), statistic)
        assert situation.costs is not None
        cost_cap = CostCap(situation.costs, allowance)
        incumbent = self._incumbent_or_raise(situation.with_pacing(cost_cap), statistic)
        runner_up = incumbent.runner_up
        return (
            incumbent if runner_up is None or runner_up.cost <= cost_cap.limit else incumbent._replace(runner_up=None)
        )

    def _incumbent_or_raise(self, situation: Situation, statistic: S) -> Incumbent:
        incumbent = self.incumbent(situation, statistic)
        if not isinstance(incumbent, Incumbent):
            raise PolicyError(
                f"{self.id}: incumbent() must return an Incumbent, such as Incumbent(situation.action(position), mean); "
                f"it returned a {type(incumbent).__name__}."
            )
        return incumbent

    def interval_or_raise(self, situation: Situation, statistic: S, action: Action, level: float) -> Bounds:
        """`interval`, and a clear word if it gives something else than Bounds."""
        bounds = self.interval(situation, statistic, action, level)
        if not isinstance(bounds, Bounds):
            raise PolicyError(
                f"{self.id}: interval() must return Bounds(lower, upper, kind, assumes); it returned a "
                f"{type(bounds).__name__}."
            )
        return bounds

    def from_sums(self, problem: Problem, outcome_sums: OutcomeSums) -> S:
        """The statistic after these outcomes, made from their sums."""
        raise PolicyError(
            f"The policy {self.id!r} does not say how its statistic is made from sums (from_sums), so the order of "
            "the outcomes may count: fold them one by one."
        )

    def situation(self, problem: Problem, **restrictions: Any) -> Situation:
        """A problem at a decision, with the actions that the policy searches."""
        return problem.situation(every=self.traits.searches_all, any_tables=self.traits.learns_tables, **restrictions)

    def learned_model(self, problem: Problem, statistic: S) -> CausalModel | None:
        """What is known of the tables by now; None where they are not learnt."""
        return None

    def concerns(self, problem: Problem, statistic: S) -> tuple[str, ...]:
        """What the outcomes so far say against the way in which the policy is used, in words."""
        return ()

    def alarms(self, problem: Problem, statistic: S) -> tuple[str, ...]:
        """Where the policy has found that outcomes contradict the model, in words."""
        return ()

    def incumbent(self, situation: Situation, statistic: S) -> Incumbent:
        """The action with the largest estimated mean reward."""
        raise PolicyError(f"The policy {self.id!r} gives no estimates: it does not define incumbent() and interval().")

    def interval(self, situation: Situation, statistic: S, action: Action, level: float) -> Bounds:
        """Bounds on one action's mean reward that hold with probability `level`, however actions were chosen."""
        raise PolicyError(f"The policy {self.id!r} gives no estimates: it does not define incumbent() and interval().")

    def error_probability(self, situation: Situation, statistic: S, action: Action, epsilon: float) -> float | None:
        """The chance, at most, that another action is better by more than epsilon; None where no rule says.

        It must hold at all times together, however actions were chosen.
        """
        return None

    def sample_values(self, situation: Situation, statistic: S, rng: np.random.Generator, draws: int) -> Array | None:
        """What the searched actions may be worth, costs subtracted, a row for each draw; None if that is not known."""
        return None

    def largest_expected_reward(self, problem: Problem) -> float:
        """Rewards beyond this size are far from what the policy was told to expect."""
        return math.inf

    def for_horizon(self, horizon: int) -> Self:
        """The policy for a run of known length; itself, unless it uses the length."""
        return self

    def validate_reward(self, reward: float) -> None:
        """Refuse a reward that the policy has no meaning for."""
        if self.traits.unit_rewards and not 0.0 <= reward <= 1.0:
            raise PolicyError(
                f"The policy {self.id!r} needs rewards in [0, 1]; got {float(reward)!r}. Rescale the rewards, "
                "or use a Gaussian prior or a UCB policy."
            )

    def parameters(self) -> dict[str, Any]:
        """The parameters that differ from their defaults."""
        return nondefault_parameters(self)

    def parameter_fingerprint(self, problem: Problem) -> str:
        """What those parameters that are neither text nor numbers do on a problem, hashed: by default, their code."""
        opaque_parameters = {name: value for name, value in self.parameters().items() if not is_plain(value)}
        return code_hash(opaque_parameters) if opaque_parameters else ""

    def warn_of_scale(self, what: str, size: float, problem: Problem, stacklevel: int) -> None:
        """Say so if rewards of this size are far from what the policy was told to expect."""
        expected = self.largest_expected_reward(problem)
        if size > expected:
            warnings.warn(
                f"{what} {size:g}, and {self} expects rewards within about {expected:g}: it may settle on the first "
                "action that pays. Rescale the rewards, or raise prior_scale and noise_scale.",
                ScaleWarning,
                stacklevel=stacklevel + 1,
            )

    def warn_of_unknown_tables(self, problem: Problem, stacklevel: int) -> None:
        """Say so if the policy takes tables for known of which nothing is known."""
        unknown = problem.unknown_tables
        if unknown and not self.traits.learns_tables and not self.traits.searches_all:
            warnings.warn(
                f"Nothing is known of the tables of {format_names(unknown)}, and {self.id} takes them as they are, "
                "every value being as likely as any other: by that, actions can hardly be told apart. Use a policy "
                "that learns tables, c-ts-beta-learnt or c-ts-gaussian-learnt, or fit them to data.",
                ProblemWarning,
                stacklevel=stacklevel + 1,
            )

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={format_parameter(value)}" for name, value in self.parameters().items())
        return f"{self.id}({arguments})" if arguments else self.id


AnyPolicy = Policy[Any]
"""A policy, whatever it keeps."""


@dataclass(frozen=True, kw_only=True)
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


DRAWS_LIMIT = 2**12
"""A decision is made from no more posterior draws than this."""


def validate_draws(value: object, name: str = "draws") -> None:
    """Refuse anything but a number of posterior draws."""
    validate_positive_integer(name, value)
    if isinstance(value, int | np.integer) and value > DRAWS_LIMIT:
        raise PolicyError(f"{name} must be {DRAWS_LIMIT} at most; got {value}.")
