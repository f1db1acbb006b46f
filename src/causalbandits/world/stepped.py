"""A world of your own as one function: what is observed after an intervention, and the reward.

For worlds that are no model with a reward on top: another simulator, a system with feedback, a graph that is wrong on
purpose. What such a function does cannot be seen, so what each action is worth in the mean must be said, or measured.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from causalbandits._code import code_hash
from causalbandits._memory import Memory
from causalbandits._types import Array, Z, is_whole
from causalbandits.errors import CausalBanditsError, ProblemError, SizeError
from causalbandits.model.intervention import Intervention, State
from causalbandits.problem.actions import ACTIONS_KEPT, ActionSpace, Choices
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.projection import Projection
from causalbandits.world.environment import LISTED, Environment
from causalbandits.world.rewards import MeanReward, Reward

STEP_LIMIT = 2**24
"""No more steps than this are taken to measure what actions are worth."""

Step = Callable[[Intervention, np.random.Generator], tuple[Mapping[str, State], float]]
"""What happens: from an intervention and a generator to the parents' values and the reward."""

StepMeans = npt.ArrayLike | Mapping[Intervention, float] | Callable[[Intervention], float]
"""What actions are worth: in the order of their numbers, by intervention, or as a function of it."""


class StepEnvironment(Environment):
    """A problem together with a function `step(intervention, rng)` that gives the parents' values and the reward.

    >>> from causalbandits import CausalBandit, CausalModel, Variable
    >>> coin = Variable("coin", ["heads", "tails"], table=[.5, .5])
    >>> problem = CausalBandit(CausalModel([coin]), manipulable=["coin"], parents=["coin"])
    >>> def step(do, rng):
    ...     coin = do.get("coin") or str(rng.choice(["heads", "tails"]))
    ...     return {"coin": coin}, float(coin == "heads")
    >>> env = StepEnvironment(problem, step, means=[.5, 1, 0])
    >>> env.best(), env.pull({"coin": "tails"}, rng=0)
    (Best(intervention=do(coin=heads), mean=1.0), Observation(parents={'coin': 'tails'}, reward=0.0))

    Regret needs to know what each action is worth: `means`, one number per action in the order of their numbers, a
    mapping from interventions, or a function of an intervention. If nobody knows, `draws=1000` tries each action so
    many times beforehand and takes the averages. `standard_error` is then the largest of their standard errors; a
    round's regret is a difference of two averages, and known no better than that.

    `describe` and bounds take what actions are worth from it. That the step follows the problem's graph, and how
    rewards vary, cannot be seen, and is taken for granted.
    """

    def __init__(
        self, problem: CausalBandit, step: Step, *, means: StepMeans | None = None, draws: int | None = None
    ) -> None:
        if not isinstance(problem, CausalBandit) or not callable(step):
            raise ProblemError(
                "A StepEnvironment needs a CausalBandit and a function step(intervention, rng); got "
                f"{problem!r}, {step!r}."
            )
        if problem.context:
            raise ProblemError(
                "A step function is not told the context, so that it cannot act on it; this problem has "
                f"{', '.join(problem.context)}. Use an Environment with a reward, or leave the context out."
            )
        problem.actions.refuse_enumeration("What an action is worth is kept for every action", LISTED)
        self.problem, self.step = problem, step
        self.reward = StepReward(step)
        self._interventions: Memory[Choices, Intervention] = Memory(ACTIONS_KEPT)
        self.draws = _checked_draws(problem.actions, means, draws)
        table, self.standard_error = (_given(problem.actions, means), 0.0) if means is not None else self._measured()
        self.mean: ActionMeans = ActionMeans(problem.actions, table)

    def __repr__(self) -> str:
        known = f", means from {self.draws} draws each, to {self.standard_error:.2g}" if self.draws else ""
        return f"StepEnvironment({self.problem!r}{known})"

    @cached_property
    def means(self) -> Array:
        """The mean reward of every action, as given or measured."""
        return self.mean.table

    @cached_property
    def fingerprint(self) -> str:
        """A short name for this very environment: its problem, its means, and the code of its step."""
        content = f"{self.problem.fingerprint} {self.reward.code()}".encode() + self.mean.content()
        return hashlib.sha256(content).hexdigest()[:16]

    def draw(self, choices: Choices, rng: np.random.Generator) -> tuple[Z, float]:
        """The parents' codes and the reward, as the step gives them."""
        do = self._interventions.get(choices)
        if do is None:
            do = self._interventions.keep(choices, self.problem.actions.decode(choices))
        try:
            parents, reward = self.step(do, rng)
            codes, number = self.problem.encode_parents(parents), float(reward)
        except CausalBanditsError as error:
            raise ProblemError(f"step must give the parents' values; after {do}: {error}") from error
        except Exception as error:
            raise ProblemError(
                "step must be a function of an intervention and rng that gives the parents' values and a number; "
                f"after {do} it raised {type(error).__name__}: {error}"
            ) from error
        if not math.isfinite(number):
            raise ProblemError(f"step must give finite rewards; after {do} it gave {reward!r}.")
        return codes, number

    def _measured(self) -> tuple[Array, float]:
        """Averages of every action's rewards, and the largest of their standard errors; the same every time."""
        means, errors = [], []
        for number in range(self.problem.actions.size):
            rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(number,)))
            choices = self.problem.actions.choices(number)
            rewards = np.array([self.draw(choices, rng)[1] for _ in range(self.draws)])
            means.append(float(rewards.mean()))
            errors.append(float(rewards.std(ddof=1)) / math.sqrt(self.draws))
        return np.array(means), max(errors)


class StepReward(Reward):
    """What a step gives; parents and reward come together, so that none can be drawn for given parents."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def __repr__(self) -> str:
        return "StepReward(<function>)"

    def code(self) -> str:
        return code_hash(self._step)

    def mean_on(self, problem: CausalBandit) -> NoReturn:
        _refuse("no mean for given parents that another problem could use")

    def draw(self, mean: float, values: Callable[[], Mapping[str, State]], rng: np.random.Generator) -> NoReturn:
        _refuse("no reward for given parents")


class ActionMeans(MeanReward):
    """What each action is worth in the mean, and nothing of what leads to it."""

    by_configuration = False

    def __init__(self, space: ActionSpace, table: Array) -> None:
        self._space, self.table = space, table
        self.table.setflags(write=False)

    def at(self, z: Z) -> NoReturn:
        _refuse("no mean for a configuration, which this needs")

    def under(self, choices: Choices) -> float:
        return float(self.table[self._space.rank(choices)])

    def of_actions(self, projection: Projection) -> NoReturn:
        _refuse("no mean for P(z | a), only for its own actions")

    def content(self) -> bytes:
        return self.table.tobytes()

    def range(self) -> tuple[float, float]:
        """The smallest and the largest mean of an action; those of configurations are not known."""
        return float(self.table.min()), float(self.table.max())


def _refuse(what: str) -> NoReturn:
    raise ProblemError(f"A step function has {what}. Use an Environment with a reward, whose mechanism is known.")


def _checked_draws(space: ActionSpace, means: StepMeans | None, draws: Any) -> int:
    """How often each action is tried beforehand."""
    if (means is None) == (draws is None):
        raise ProblemError(
            "Regret needs to know what each action is worth: give means=, or draws=1000 to measure it, and not both."
        )
    if draws is None:
        return 0
    if not is_whole(draws) or draws < 2:
        raise ProblemError(f"draws must be a whole number, 2 or more; got {draws!r}.")
    if draws * space.size > STEP_LIMIT:
        raise SizeError(
            f"{draws} draws of each of {space.size} actions are {draws * space.size} steps; the limit is {STEP_LIMIT}. "
            "Give means=, or fewer draws."
        )
    return int(draws)


def _given(space: ActionSpace, means: StepMeans) -> Array:
    """What was said of every action, in the order of their numbers."""
    try:
        if isinstance(means, Mapping):
            listed: Any = [means[do] for do in space]
        else:
            listed = [means(do) for do in space] if callable(means) else means
        table = np.array(listed, dtype=np.float64)
    except KeyError as error:
        raise ProblemError(f"means must have every action; {error} is missing.") from None
    except (TypeError, ValueError) as error:
        raise ProblemError(f"means must be numbers, one per action; got {means!r} ({error}).") from None
    if table.shape != (space.size,) or not np.isfinite(table).all():
        raise ProblemError(f"means must be {space.size} finite numbers, one per action; got shape {table.shape}.")
    return table
