"""Reward mechanisms: E[Y | z], and a sample from the distribution given z."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from causalbandits._cache import BoundedCache
from causalbandits._hashing import code_hash, is_ours
from causalbandits._typing import Array, Z, is_integer, is_real
from causalbandits.errors import ProblemError
from causalbandits.model import State
from causalbandits.problem import (
    AdditiveFeatures,
    Features,
    FeatureSpec,
    Problem,
    dot_in_order,
    parents_and_rng_by_name,
    resolve_features,
    tabulate,
)
from causalbandits.problem.actions import Choices
from causalbandits.problem.projection import Projection

GAIN_CACHE_SIZE = 2**14
"""The maximum number of cached choices of a block, with their contribution to the mean."""

SAMPLER_CACHE_SIZE = 16
"""The maximum number of problems for which a sampler caches how its parameters match the parents."""

Means = npt.ArrayLike | Callable[..., float]


class MeanReward(ABC):
    """E[Y | z] of a problem, and its average under actions."""

    by_configuration: ClassVar[bool] = True
    """Whether E[Y | z] is known, instead of the means of actions alone."""

    @abstractmethod
    def at(self, z: Z) -> float:
        """E[Y | z], where z is given by the parents' codes."""

    @abstractmethod
    def under(self, choices: Choices) -> float:
        """The mean reward of one action."""

    @abstractmethod
    def of_actions(self, projection: Projection) -> Array:
        """The mean reward of every action of a set."""

    @abstractmethod
    def content(self) -> bytes:
        """All numbers that define the mean reward."""

    @abstractmethod
    def range(self) -> tuple[float, float]:
        """The smallest and the largest E[Y | z]."""


class TabulatedMean(MeanReward):
    """E[Y | z] as an array over the parents' axes."""

    def __init__(self, problem: Problem, means: Means) -> None:
        self._problem = problem
        self.table = _parse_mean_table(problem, means).reshape(-1)

    def at(self, z: Z) -> float:
        return float(self.table[self._problem.configuration(z)])

    def under(self, choices: Choices) -> float:
        return float(self.of_actions(self._problem.projection_of(choices))[0])

    def of_actions(self, projection: Projection) -> Array:
        return projection(self.table)

    def content(self) -> bytes:
        return self.table.tobytes()

    def range(self) -> tuple[float, float]:
        return float(self.table.min()), float(self.table.max())


class LinearMean(MeanReward):
    """E[Y | z] = <theta, f(z)> for features that depend on several parents at once."""

    def __init__(self, theta: Array, features: Features) -> None:
        self.theta, self.features = theta, features

    def at(self, z: Z) -> float:
        return float(self.features.at(z) @ self.theta)

    def under(self, choices: Choices) -> float:
        return float(dot_in_order(self.features.mean(choices)[None], self.theta)[0])

    def of_actions(self, projection: Projection) -> Array:
        # Summed in order, so that the last bit of an action's mean does not depend on the set of actions.
        return dot_in_order(self.features.means(projection), self.theta)

    def content(self) -> bytes:
        return self.theta.tobytes() + self.features.content()

    def range(self) -> tuple[float, float]:
        return self.features.range(self.theta)


class AdditiveMean(MeanReward):
    """E[Y | z] = <theta, f(z)> with additive features: a sum over parents, and for an action a sum over blocks.

    No array over the configurations or over the actions is ever made. All sums run in order, so that they are
    bit-identical wherever they are formed.
    """

    def __init__(self, theta: Array, features: AdditiveFeatures) -> None:
        self.theta, self.features = theta, features
        tables = zip(features.tables, features.slices, strict=True)
        self.by_parent = [dot_in_order(table, theta[where]).tolist() for table, where in tables]
        """The contribution of each state of each parent."""
        self._by_choice: list[BoundedCache[Choices, float]] = [BoundedCache(GAIN_CACHE_SIZE) for _ in features.blocks]

    def at(self, z: Z) -> float:
        total = 0.0
        for contributions, code in zip(self.by_parent, z, strict=True):
            total += contributions[code]
        return total

    def under(self, choices: Choices) -> float:
        total = 0.0
        for block, contributions in zip(self.features.blocks, self._by_choice, strict=True):
            block_choices = tuple([choices[k] for k in block.manipulable])
            part = contributions.get(block_choices)
            if part is None:
                where, means = self.features.block_mean(block, block.row(block_choices)[None])
                part = contributions.store(block_choices, float(dot_in_order(means, self.theta[where])[0]))
            total += part
        return total

    def by_row(self, rows: Sequence[Array]) -> list[Array]:
        """For each block, given rows of its distribution: the contribution of every row."""
        return [dot_in_order(means, self.theta[where]) for where, means in self.features.block_means(rows)]

    def of_actions(self, projection: Projection) -> Array:
        total = np.zeros(projection.size)
        for b, contributions in enumerate(self.by_row(projection.rows)):
            total += contributions[projection.row_of_action(b)]
        return total

    def content(self) -> bytes:
        return self.theta.tobytes() + self.features.content()

    def range(self) -> tuple[float, float]:
        return self.features.range(self.theta)


class Reward(ABC):
    """The base class of reward mechanisms: the distribution of the reward given its parents.

    >>> from causalbandits import Environment, zoo
    >>> problem = zoo.email_campaign().problem
    >>> Environment(problem, GaussianReward(lambda subject, **others: float(subject == "short"), sd=0.1)).reward
    GaussianReward(mean=<function>, sd=0.1)
    """

    bounded: bool | None = None
    """Whether rewards always lie in [0, 1]; None if unknown."""

    @abstractmethod
    def mean_on(self, problem: Problem) -> MeanReward:
        """The mean reward of every configuration of a problem's parents.

        Args:
            problem: The problem.

        Returns:
            The means E[Y | z] and their averages under actions.

        Raises:
            ProblemError: If the reward does not fit the problem.
        """

    @abstractmethod
    def draw(self, mean: float, values: Callable[[], Mapping[str, State]], rng: np.random.Generator) -> float:
        """Sample a reward.

        Args:
            mean: The mean reward E[Y | z] of the configuration.
            values: A function that returns the parents' values by variable.
            rng: The generator.

        Returns:
            The reward.
        """

    def code(self) -> str:
        """A hash of the code that samples rewards; empty for the classes of this library."""
        return "" if is_ours(type(self)) else code_hash(self)


class BernoulliReward(Reward):
    """A reward of 1 with probability `mean`, and 0 otherwise.

    >>> BernoulliReward(lambda subject: {"short": .3, "long": .1}[subject])
    BernoulliReward(mean=<function>)

    Args:
        mean: The probabilities: an array with one axis per parent, or a function of the parents' values. Its parameters
            are matched by name if they are the parents' names, otherwise by position.
    """

    bounded = True

    def __init__(self, mean: Means) -> None:
        self.mean = mean

    def __repr__(self) -> str:
        return f"BernoulliReward(mean={format_mean(self.mean)})"

    def mean_on(self, problem: Problem) -> MeanReward:
        mean = TabulatedMean(problem, self.mean)
        _check_probabilities(problem, mean.table)
        return mean

    def draw(self, mean: float, values: Callable[[], Mapping[str, State]], rng: np.random.Generator) -> float:
        return 1.0 if rng.random() < mean else 0.0


class GaussianReward(Reward):
    """A Gaussian reward with mean `mean` and standard deviation `sd`.

    >>> GaussianReward([0.1, 0.4], sd=0.5)
    GaussianReward(mean=<array (2,)>, sd=0.5)

    Args:
        mean: The means: an array with one axis per parent, or a function of the parents' values.
        sd: The standard deviation, in units of the reward; 0 or more.

    Raises:
        ProblemError: If `sd` is out of range.
    """

    def __init__(self, mean: Means, sd: float = 1.0) -> None:
        self.mean, self.sd = mean, validate_sd(sd)
        self.bounded = False if self.sd > 0 else None

    def __repr__(self) -> str:
        return f"GaussianReward(mean={format_mean(self.mean)}, sd={self.sd})"

    def mean_on(self, problem: Problem) -> MeanReward:
        return TabulatedMean(problem, self.mean)

    def draw(self, mean: float, values: Callable[[], Mapping[str, State]], rng: np.random.Generator) -> float:
        return mean + self.sd * rng.standard_normal()


class LinearReward(Reward):
    """A reward with mean <theta, f(z)>, linear in features of the parents, and Gaussian noise.

    >>> LinearReward([0.25, -0.25], sd=0.1).theta
    array([ 0.25, -0.25])

    Args:
        theta: The coefficients, one per feature.
        features: A function of the parents' values that returns a vector, or a mapping from each parent to a function
            of its value. Default: the parents' values, one-hot encoded unless they are numbers.
        sd: The standard deviation of the noise, in units of the reward; 0 or more.

    Raises:
        ProblemError: If `theta` is not a vector of finite numbers, or `sd` is out of range.
    """

    def __init__(self, theta: npt.ArrayLike, features: FeatureSpec = None, sd: float = 1.0) -> None:
        try:
            self.theta = np.array(theta, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ProblemError(f"theta must be a vector of numbers; got {theta!r}.") from None
        if self.theta.ndim != 1 or not np.isfinite(self.theta).all():
            raise ProblemError(f"theta must be a vector of finite numbers; got {theta!r}.")
        self.features, self.sd = features, validate_sd(sd)
        self.bounded = False if self.sd > 0 else None

    def __repr__(self) -> str:
        return f"LinearReward(theta in R^{len(self.theta)}, sd={self.sd})"

    def mean_on(self, problem: Problem) -> MeanReward:
        features = resolve_features(problem, self.features)
        if features.dimension != len(self.theta):
            raise ProblemError(
                f"theta must have one entry per feature: the features of {list(problem.parents)} have "
                f"dimension {features.dimension}, theta has {len(self.theta)}."
            )
        if isinstance(features, AdditiveFeatures):
            return AdditiveMean(self.theta, features)
        return LinearMean(self.theta, features)

    def draw(self, mean: float, values: Callable[[], Mapping[str, State]], rng: np.random.Generator) -> float:
        return mean + self.sd * rng.standard_normal()


class CustomReward(Reward):
    """A reward that is sampled by a custom function.

    >>> mean = {"short": 0.3, "long": 0.1}
    >>> CustomReward(lambda subject: mean[subject], sample=lambda subject, rng: rng.exponential(mean[subject]))
    CustomReward(mean=<function>)

    Args:
        mean: The means, which regret needs: an array with one axis per parent, or a function of the parents' values.
        sample: A function of the parents' values and a generator `rng` that returns a reward. Parameters are matched by
            name if they are the parents' names, otherwise by position, with the generator last.

    Raises:
        ProblemError: If `sample` is not a function.
    """

    def __init__(self, mean: Means, sample: Callable[..., float]) -> None:
        if not callable(sample):
            raise ProblemError(f"sample must be a function of the parents' values and rng; got {sample!r}.")
        self.mean, self.sample = mean, sample
        self._bindings: BoundedCache[tuple[str, ...], tuple[tuple[str, ...], str] | None] = BoundedCache(
            SAMPLER_CACHE_SIZE
        )

    def __repr__(self) -> str:
        return f"CustomReward(mean={format_mean(self.mean)})"

    def code(self) -> str:
        return code_hash(self.sample)

    def mean_on(self, problem: Problem) -> MeanReward:
        parents_and_rng_by_name(self.sample, problem.parents, "sample")
        return TabulatedMean(problem, self.mean)

    def draw(self, mean: float, values: Callable[[], Mapping[str, State]], rng: np.random.Generator) -> float:
        parents = values()
        try:
            reward = float(self._call_sampler(parents, rng))
        except Exception as error:
            raise ProblemError(
                "sample must be a function of the parents' values and rng that returns a number; at "
                f"{tuple(parents.values())} it raised {type(error).__name__}: {error}"
            ) from error
        if not math.isfinite(reward):
            raise ProblemError(f"sample must return finite rewards; at {tuple(parents.values())} it returned {reward}.")
        return reward

    def _call_sampler(self, parents: Mapping[str, State], rng: np.random.Generator) -> float:
        names = tuple(parents)
        if names not in self._bindings:
            self._bindings.store(names, parents_and_rng_by_name(self.sample, names, "sample"))
        binding = self._bindings[names]
        if binding is None:
            return self.sample(*parents.values(), rng)
        named, generator = binding
        return self.sample(**{name: parents[name] for name in named}, **{generator: rng})


def _parse_mean_table(problem: Problem, means: Means) -> Array:
    if callable(means):
        table = tabulate(problem, means, "The mean reward")
    else:
        try:
            table = np.array(means, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ProblemError(f"The mean reward must be an array of numbers or a function; got {means!r}.") from None
    if table.shape != problem.shape:
        axes = ", ".join(f"{name} ({size})" for name, size in zip(problem.parents, problem.shape, strict=True))
        raise ProblemError(f"The mean reward must have axes {axes}; its shape is {table.shape}.")
    if not np.isfinite(table).all():
        raise ProblemError(
            f"The mean reward must be finite; at {_format_first_cell(problem, ~np.isfinite(table))} it is not."
        )
    return table


def _check_probabilities(problem: Problem, table: Array) -> None:
    wrong = (table < 0) | (table > 1)
    if wrong.any():
        raise ProblemError(
            "The mean of a BernoulliReward must lie in [0, 1]: at "
            f"{_format_first_cell(problem, wrong.reshape(problem.shape))} it is {table[np.argmax(wrong)]:g}."
        )


def _format_first_cell(problem: Problem, wrong: npt.NDArray[Any]) -> str:
    z = [int(i) for i in np.unravel_index(int(np.argmax(wrong)), problem.shape)]
    return ", ".join(f"{name}={value!r}" for name, value in problem.decode_parents(z).items())


LARGEST_SD = 1e150


def validate_sd(sd: float, name: str = "sd") -> float:
    """The standard deviation of rewards given the parents, as a number; other values raise an error."""
    if not is_real(sd) or not 0 <= sd <= LARGEST_SD:
        raise ProblemError(f"{name} must be a finite number, 0 or more; got {sd!r}.")
    return float(sd)


def format_mean(mean: Means) -> str:
    """A short description of the form in which the mean reward was given."""
    return "<function>" if callable(mean) else f"<array {np.shape(mean)}>"


# Heavy-tailed rewards: Student's t around the mean. With three degrees of freedom the variance is finite and the fourth
# moment is not: one reward in a thousand deviates ten times as far from its mean as usual.

MOST_DEGREES = 100
"""The largest number of degrees of freedom; beyond it, the distribution is practically Gaussian."""


class StudentReward(Reward):
    """A heavy-tailed reward: `mean` plus `scale` times a Student's t variable.

    Its standard deviation is scale x sqrt(degrees / (degrees - 2)): 1.73 x scale for three degrees of freedom, and
    infinite for two.

    >>> StudentReward([0.1, 0.4], scale=0.1)
    StudentReward(mean=<array (2,)>, scale=0.1, degrees=3)

    Args:
        mean: The means: an array with one axis per parent, or a function of the parents' values.
        scale: The scale, in units of the reward; 0 or more.
        degrees: The degrees of freedom; an integer from 2 to 100.

    Raises:
        ProblemError: If `scale` or `degrees` is out of range.
    """

    def __init__(self, mean: Means, scale: float = 1.0, degrees: int = 3) -> None:
        if not is_integer(degrees) or not 2 <= degrees <= MOST_DEGREES:
            raise ProblemError(
                f"degrees must be a whole number from 2 (with 1 there is no mean) to {MOST_DEGREES}; got {degrees!r}."
            )
        self.mean, self.scale, self.degrees = mean, validate_sd(scale, "scale"), int(degrees)
        self.bounded = False if self.scale > 0 else None

    def __repr__(self) -> str:
        return f"StudentReward(mean={format_mean(self.mean)}, scale={self.scale}, degrees={self.degrees})"

    def mean_on(self, problem: Problem) -> MeanReward:
        return TabulatedMean(problem, self.mean)

    def draw(self, mean: float, values: Callable[[], Mapping[str, State]], rng: np.random.Generator) -> float:
        # Computed from normal variables by definition, instead of by rng.standard_t, so that compiled rounds have the
        # same bits.
        normal, squares = rng.standard_normal(), 0.0
        for _ in range(self.degrees):
            normal_term = rng.standard_normal()
            squares += normal_term * normal_term
        return mean + self.scale * (normal / math.sqrt(squares / self.degrees))
