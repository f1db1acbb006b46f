"""What actions are worth in a world of your own, as given beforehand: in the mean, in every context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, Z, is_whole
from causalbandits.errors import ProblemError, SizeError
from causalbandits.model.intervention import Intervention
from causalbandits.problem.actions import ActionSpace, Choices
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.projection import Projection
from causalbandits.world.rewards import MeanReward

STEP_LIMIT = 2**24
"""No more steps than this are taken to measure what actions are worth."""

StepMeans = npt.ArrayLike | Mapping[Intervention, float] | Callable[..., float]
"""What actions are worth: in the order of their numbers, by intervention, or as a function of it (and the context)."""


class ActionMeans(MeanReward):
    """What each action is worth in the mean, and nothing of what leads to it."""

    by_configuration = False

    def __init__(self, space: ActionSpace, table: Array) -> None:
        self._space, self.table = space, table
        self.table.setflags(write=False)

    def at(self, z: Z) -> NoReturn:
        refuse_mechanism("no mean for a configuration, which this needs")

    def under(self, choices: Choices) -> float:
        return float(self.table[self._space.rank(choices)])

    def of_actions(self, projection: Projection) -> NoReturn:
        refuse_mechanism("no mean for P(z | a), only for its own actions")

    def content(self) -> bytes:
        return self.table.tobytes()

    def range(self) -> tuple[float, float]:
        """The smallest and the largest mean of an action; those of configurations are not known."""
        return float(self.table.min()), float(self.table.max())


def refuse_mechanism(what: str) -> NoReturn:
    """Say what a step function has not."""
    raise ProblemError(f"A step function has {what}. Use an Environment with a reward, whose mechanism is known.")


def checked_draws(problem: CausalBandit, means: StepMeans | None, draws: Any) -> int:
    """How often each action is tried beforehand."""
    if (means is None) == (draws is None):
        raise ProblemError(
            "Regret needs to know what each action is worth: give means=, or draws=1000 to measure it, and not both."
        )
    if draws is None:
        return 0
    if not is_whole(draws) or draws < 2:
        raise ProblemError(f"draws must be a whole number, 2 or more; got {draws!r}.")
    size = problem.actions.size * problem.contexts.size
    if draws * size > STEP_LIMIT:
        each = "actions in every context" if problem.context else "actions"
        raise SizeError(
            f"{draws} draws of each of {size} {each} are {draws * size} steps; the limit is {STEP_LIMIT}. "
            "Give means=, or fewer draws."
        )
    return int(draws)


def given_means(problem: CausalBandit, means: StepMeans) -> Array:
    """What was said of every action, in the order of their numbers; a row for each context."""
    space, contexts = problem.actions, problem.contexts
    known = [contexts.values(contexts.at(number)) for number in range(contexts.size)] if problem.context else []
    try:
        if isinstance(means, Mapping):
            listed: Any = [means[do] for do in space]
        elif callable(means):
            listed = [[means(do, own) for do in space] for own in known] if known else [means(do) for do in space]
        else:
            listed = means
        table = np.array(listed, dtype=np.float64)
    except KeyError as error:
        raise ProblemError(f"means must have every action; {error} is missing.") from None
    except (TypeError, ValueError) as error:
        raise ProblemError(f"means must be numbers, one per action; got {means!r} ({error}).") from None
    if known:
        if table.shape != (len(known), space.size) or not np.isfinite(table).all():
            raise ProblemError(
                f"means must be finite numbers, a row for each of {len(known)} contexts with one for each of "
                f"{space.size} actions, or a function of an intervention and a context; got shape {table.shape}."
            )
    elif table.shape != (space.size,) or not np.isfinite(table).all():
        raise ProblemError(f"means must be {space.size} finite numbers, one per action; got shape {table.shape}.")
    return table.reshape(contexts.size, -1)
