"""A custom environment as one function, from an intervention to observations and the reward.

It serves environments that are not a causal model with a reward: another simulator, a system with feedback, a
deliberately wrong graph. The function is opaque, so the mean reward of each action must be given or measured.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from causalbandits._cache import BoundedCache
from causalbandits._hashing import code_hash
from causalbandits._typing import Array, Z, is_integer
from causalbandits.environments.environment import LISTED, Environment
from causalbandits.environments.rewards import MeanReward, Reward
from causalbandits.errors import CausalBanditsError, ProblemError, SizeError
from causalbandits.model import Intervention, State
from causalbandits.problem import ActionSpace, Problem, Situation
from causalbandits.problem.actions import ACTION_CACHE_SIZE, Choices
from causalbandits.problem.candidates import ListedActions
from causalbandits.problem.projection import Projection

# The mean rewards of a custom environment, as given: by action, in every context.

STEP_LIMIT = 2**24
"""The maximum number of calls of the step to measure mean rewards."""

StepMeans = npt.ArrayLike | Mapping[Intervention, float] | Callable[..., float]
"""Mean rewards: in the order of the actions' numbers, by intervention, or a function of it (and the context)."""


class ActionMeans(MeanReward):
    """The mean reward of each action, without means of configurations."""

    by_configuration = False

    def __init__(self, space: ActionSpace, table: Array) -> None:
        self._space, self.table = space, table
        self.table.setflags(write=False)

    def at(self, z: Z) -> NoReturn:
        refuse_mechanism("no mean reward per configuration, which this call requires")

    def under(self, choices: Choices) -> float:
        return float(self.table[self._space.rank(choices)])

    def of_actions(self, projection: Projection) -> NoReturn:
        refuse_mechanism("mean rewards for its own actions only, not for P(z | a)")

    def content(self) -> bytes:
        return self.table.tobytes()

    def range(self) -> tuple[float, float]:
        """The smallest and the largest mean of an action; means of configurations are unknown."""
        return float(self.table.min()), float(self.table.max())


def refuse_mechanism(missing_part: str) -> NoReturn:
    """Raise an error for a quantity that a step function does not provide."""
    raise ProblemError(
        f"A step function has {missing_part}. Use an Environment with a reward, whose mechanism is known."
    )


def parse_samples(problem: Problem, means: StepMeans | None, samples: Any) -> int:
    """The number of trials of each action from which its mean is measured."""
    if (means is None) == (samples is None):
        raise ProblemError(
            "Regret requires the mean reward of each action. Pass means=, or samples=1000 to estimate them, and not "
            "both."
        )
    if samples is None:
        return 0
    if not is_integer(samples) or samples < 2:
        raise ProblemError(f"samples must be a whole number, 2 or more; got {samples!r}.")
    size = problem.actions.size * problem.contexts.size
    if samples * size > STEP_LIMIT:
        units = "actions in every context" if problem.context else "actions"
        raise SizeError(
            f"{samples} samples of each of {size} {units} are {samples * size} steps; the limit is {STEP_LIMIT}. Pass "
            "means=, or fewer samples."
        )
    return int(samples)


def parse_means(problem: Problem, means: StepMeans) -> Array:
    """The given mean of every action, in the order of their numbers; a row for each context."""
    space, contexts = problem.actions, problem.contexts
    contexts_values = (
        [contexts.values(contexts.at(number)) for number in range(contexts.size)] if problem.context else []
    )
    try:
        if isinstance(means, Mapping):
            values: Any = [means[do] for do in space]
        elif callable(means):
            values = (
                [[means(do, context) for do in space] for context in contexts_values]
                if contexts_values
                else [means(do) for do in space]
            )
        else:
            values = means
        table = np.array(values, dtype=np.float64)
    except KeyError as error:
        raise ProblemError(f"means must have every action; {error} is missing.") from None
    except (TypeError, ValueError) as error:
        raise ProblemError(f"means must be numbers, one per action; got {means!r} ({error}).") from None
    if contexts_values:
        if table.shape != (len(contexts_values), space.size) or not np.isfinite(table).all():
            raise ProblemError(
                f"means must be finite numbers, a row for each of {len(contexts_values)} contexts with one for each of "
                f"{space.size} actions, or a function of an intervention and a context; got shape {table.shape}."
            )
    elif table.shape != (space.size,) or not np.isfinite(table).all():
        raise ProblemError(f"means must be {space.size} finite numbers, one per action; got shape {table.shape}.")
    return table.reshape(contexts.size, -1)


CONTEXTS_TRIED = 2**16
"""The maximum number of sampled contexts that are rejected until one agrees with the known values."""

Step = Callable[..., tuple[Mapping[str, State], float]]
"""A function of an intervention and a generator (and the context, if any) that returns parents and reward."""

DrawContext = Callable[[np.random.Generator], Mapping[str, State]]
"""A function that samples a context."""


class BlackBoxEnvironment(Environment):
    """An environment whose mechanism is a function `step(intervention, rng)` that returns parents and reward.

    >>> from causalbandits import Problem, CausalModel, Variable
    >>> coin = Variable("coin", ["heads", "tails"], table=[.5, .5])
    >>> problem = Problem(CausalModel([coin]), manipulable=["coin"], reward_parents=["coin"], optional=True)
    >>> def step(do, rng):
    ...     coin = do.get("coin") or str(rng.choice(["heads", "tails"]))
    ...     return {"coin": coin}, float(coin == "heads")
    >>> env = BlackBoxEnvironment(problem, step, means=[.5, 1, 0])
    >>> env.best(), env.pull({"coin": "tails"}, rng=0)
    (Best(intervention=do(coin=heads), mean=1.0), Observation(parents={'coin': 'tails'}, reward=0.0))

    It is assumed, not checked, that the step follows the problem's graph. Pass either `means` or `samples`, because
    regret needs the mean reward of each action.

    Args:
        problem: The problem.
        step: A function of an intervention and a generator (and the context, if the problem has one) that returns the
            parents' values by variable, and the reward.
        means: The mean reward of each action: an array in the order of their numbers (one row per context, if there is
            one), a mapping from interventions, or a function of an intervention (and a context).
        samples: The number of trials of each action (in each context) by which the means are measured instead.
        draw_context: A function of a generator that returns a context. Default: contexts follow the model.

    Raises:
        ProblemError: If an argument is malformed, or not exactly one of `means` and `samples` is given.
    """

    def __init__(
        self,
        problem: Problem,
        step: Step,
        *,
        means: StepMeans | None = None,
        samples: int | None = None,
        draw_context: DrawContext | None = None,
    ) -> None:
        if not isinstance(problem, Problem) or not callable(step):
            raise ProblemError(
                f"A BlackBoxEnvironment needs a Problem and a function step(intervention, rng); got {problem!r}, "
                f"{step!r}."
            )
        if draw_context is not None and not (callable(draw_context) and problem.context):
            raise ProblemError(
                "draw_context must be a function of a generator, for a problem that has a context; got "
                f"{draw_context!r}, and the context is {list(problem.context)}."
            )
        if problem.context_codes is not None:
            raise ProblemError("A BlackBoxEnvironment requires a problem without a known context. Pass problem.whole.")
        problem.actions.refuse_enumeration("Mean rewards are stored for every action", LISTED)
        if problem.contexts.size * problem.actions.size > LISTED:
            raise SizeError(
                f"Mean rewards are stored for every action in every context, {problem.contexts.size} x "
                f"{problem.actions.size} of them; the limit is {LISTED}. Name fewer variables as context."
            )
        self.problem, self.step, self._draw_context = problem, step, draw_context
        self.reward = BlackBoxReward(step, draw_context)
        self._interventions: BoundedCache[Choices, Intervention] = BoundedCache(ACTION_CACHE_SIZE)
        self._views: dict[Z, BlackBoxEnvironment] = {}
        self.samples = parse_samples(problem, means, samples)
        table, self.standard_error = (parse_means(problem, means), 0.0) if means is not None else self._measure_means()
        self._by_context = table
        """The mean reward of each action, a row for each context."""
        self.mean: ActionMeans = self._action_means(problem)

    def _action_means(self, problem: Problem) -> ActionMeans:
        """The mean reward of each action given the known context values."""
        if not problem.context:
            return ActionMeans(problem.actions, self._by_context[0])
        number = problem.context_number
        shares = problem.context_distribution.reshape(-1) if number is None else None
        return ActionMeans(problem.actions, self._by_context[number] if shares is None else shares @ self._by_context)

    def condition_codes(self, codes: Z | None) -> BlackBoxEnvironment:
        if codes is None or codes == self.problem.context_codes:
            return self
        view = self._views.get(codes)
        if view is None:
            view = self._views[codes] = object.__new__(BlackBoxEnvironment)
            shared_attributes = (
                "step",
                "reward",
                "samples",
                "standard_error",
                "_draw_context",
                "_interventions",
                "_by_context",
                "_views",
            )
            view.__dict__.update({name: self.__dict__[name] for name in shared_attributes})
            view.problem = self.problem.condition_codes(codes)
            view.mean = view._action_means(view.problem)
        return view

    def means_in(self, situation: Situation) -> Array:
        search = situation.candidates
        return self.means[list(search.numbers)] if isinstance(search, ListedActions) else self.means

    def draw_codes(self, rng: np.random.Generator) -> Z:
        """Sample a context, as codes, from the model or from `draw_context`.

        Args:
            rng: The generator.

        Returns:
            The position of each context variable's value.

        Raises:
            ProblemError: If `draw_context` returns something else than a context.
        """
        if self._draw_context is None:
            return super().draw_codes(rng)
        try:
            codes = self.problem.unconditional.condition(self._draw_context(rng)).context_codes
        except CausalBanditsError as error:
            raise ProblemError(f"draw_context must return the context's values: {error}") from error
        except Exception as error:
            raise ProblemError(
                f"draw_context must be a function of a generator; it raised {type(error).__name__}: {error}"
            ) from error
        if codes is None or min(codes) < 0:
            raise ProblemError(
                f"draw_context must return a value of every context variable: {', '.join(self.problem.context)}."
            )
        return codes

    def __repr__(self) -> str:
        accuracy = f", means from {self.samples} samples each, to {self.standard_error:.2g}" if self.samples else ""
        return f"BlackBoxEnvironment({self.problem!r}{accuracy})"

    @cached_property
    def means(self) -> Array:
        """The mean reward of every action, as given or measured."""
        return self.mean.table

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the environment: its problem, its means, and the code of its step."""
        means = self._by_context if self.problem.context else self.mean.table
        content = f"{self.problem.fingerprint} {self.reward.code()}".encode() + means.tobytes()
        return hashlib.sha256(content).hexdigest()[:16]

    def draw(self, choices: Choices, rng: np.random.Generator) -> tuple[Z, float]:
        """Sample the parents and the reward by calling the step; an unknown context is sampled first.

        Args:
            choices: The position of each manipulable variable's choice.
            rng: The generator.

        Returns:
            The positions of the parents' values, and the reward.

        Raises:
            ProblemError: If the step returns something else than parents and a reward.
        """
        if self.problem.context and self.problem.context_number is None:
            return self._take_step(self.problem.condition_codes(self._complete_context(rng)), choices, rng)
        return self._take_step(self.problem, choices, rng)

    def _take_step(self, problem: Problem, choices: Choices, rng: np.random.Generator) -> tuple[Z, float]:
        do = self._interventions.get(choices)
        if do is None:
            do = self._interventions.store(choices, problem.actions.decode(choices))
        context = problem.contexts.values(problem.context_codes)
        try:
            parents, reward = self.step(do, rng, context) if context else self.step(do, rng)
            codes, number = problem.encode_parents(parents), float(reward)
        except CausalBanditsError as error:
            raise ProblemError(f"step must return the parents' values; after {do}: {error}") from error
        except Exception as error:
            takes = "an intervention, rng and the context" if context else "an intervention and rng"
            raise ProblemError(
                f"step must be a function of {takes} that returns the parents' values and a number; after {do} it "
                f"raised {type(error).__name__}: {error}"
            ) from error
        if not math.isfinite(number):
            raise ProblemError(f"step must return finite rewards; after {do} it returned {reward!r}.")
        for name, value in problem.known_parents.items():
            if parents[name] != value:
                raise ProblemError(
                    f"step must return the known values of context variables unchanged: {name!r} is {value!r} in this "
                    f"context, and after {do} step returned {parents[name]!r}."
                )
        return codes, number

    def _complete_context(self, rng: np.random.Generator) -> Z:
        """A context that agrees with the known values, by rejection sampling."""
        if self._draw_context is None:
            return self.problem.contexts.sample(rng)
        known_codes = self.problem.context_codes or (-1,) * len(self.problem.context)
        for _ in range(CONTEXTS_TRIED):
            codes = self.draw_codes(rng)
            if all(known_code in (-1, code) for known_code, code in zip(known_codes, codes, strict=True)):
                return codes
        raise ProblemError(
            f"draw_context returned {CONTEXTS_TRIED} contexts, and none of them had "
            f"{self.problem.contexts.format_context(known_codes)}."
        )

    def _measure_means(self) -> tuple[Array, float]:
        """Averages of every action's rewards, and the largest of their standard errors; deterministic."""
        problem, means, errors = self.problem, [], []
        for codes in map(problem.contexts.at, range(problem.contexts.size)):
            here = problem.condition_codes(codes) if problem.context else problem
            for number in range(problem.actions.size):
                rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(*codes, number)))
                choices = problem.actions.choices(number)
                rewards = np.array([self._take_step(here, choices, rng)[1] for _ in range(self.samples)])
                means.append(float(rewards.mean()))
                errors.append(float(rewards.std(ddof=1)) / math.sqrt(self.samples))
        return np.array(means).reshape(problem.contexts.size, -1), max(errors)


class BlackBoxReward(Reward):
    """The reward of a step function; parents and reward are sampled together, so no reward can be sampled given the
    parents."""

    def __init__(self, step: Step, draw_context: DrawContext | None = None) -> None:
        self._step, self._draw_context = step, draw_context

    def __repr__(self) -> str:
        return "BlackBoxReward(<function>)"

    def code(self) -> str:
        return code_hash(self._step if self._draw_context is None else (self._step, self._draw_context))

    def mean_on(self, problem: Problem) -> NoReturn:
        refuse_mechanism("no mean reward given the parents that another problem could use")

    def draw(self, mean: float, values: Callable[[], Mapping[str, State]], rng: np.random.Generator) -> NoReturn:
        refuse_mechanism("no reward for given parents")
