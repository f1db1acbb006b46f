"""Features f(z) of the reward's parents, and their means m_a = sum over z of f(z) P(z | a).

By default a parent whose states are numbers contributes its value, any other a one-hot vector. Such features are
*additive*: each coordinate depends on one parent, so m_a needs only the parents' marginals, and configurations are not
tabulated. An arbitrary function of all parents' values is tabulated once.
"""

from __future__ import annotations

import inspect
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array, Codes
from causalbandits.errors import ProblemError, SizeError, unknown_name_message
from causalbandits.model import State
from causalbandits.problem.actions import Choices
from causalbandits.problem.inference import Block
from causalbandits.problem.problem import Problem
from causalbandits.problem.projection import PRODUCT_BATCH_SIZE, Projection

# Arguments of functions of the parents' values: matched by name if parameters have the parents' names, otherwise by
# position.

POSITIONAL_KINDS = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)


def parents_by_name(function: Callable[..., Any], parents: Sequence[str], label: str) -> tuple[str, ...] | None:
    """The parents that a function takes by name, in the order of its parameters; None if it takes all by position.

    Parameters must be named after parents or have other names; a mixture is refused, because its positions are
    ambiguous. Not all parents need to occur, and other parameters may have a default.

    >>> parents_by_name(lambda b, a: a - b, ["a", "b"], "f"), parents_by_name(lambda x, y: x - y, ["a", "b"], "f")
    (('b', 'a'), None)
    """
    return _match_parent_names(_parameters(function), parents, label)


def parents_and_rng_by_name(
    function: Callable[..., Any], parents: Sequence[str], label: str
) -> tuple[tuple[str, ...], str] | None:
    """As `parents_by_name`, for a function with a generator as the parameter `rng` or the last one, whose name comes
    second.

    >>> parents_and_rng_by_name(lambda rng, b, a: 0.0, ["a", "b"], "f")
    (('b', 'a'), 'rng')
    >>> parents_and_rng_by_name(lambda x, y, g: 0.0, ["a", "b"], "f") is None
    True
    """
    parameters = _parameters(function)
    if not parameters or any(p.kind in POSITIONAL_KINDS for p in parameters):
        return None
    names = [p.name for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
    required = [p.name for p in parameters if p.default is Parameter.empty and p.name in names]
    rng = "rng" if "rng" in names and "rng" not in parents else next(iter(required[::-1]), "rng")
    if rng in parents:
        raise ProblemError(
            f"{label} must take the parents' values and a generator, rng; its parameters are {', '.join(names)}."
        )
    matched = _match_parent_names([p for p in parameters if p.name != rng], parents, label)
    return None if matched is None else (matched, rng)


def _match_parent_names(parameters: Sequence[Parameter], parents: Sequence[str], label: str) -> tuple[str, ...] | None:
    if any(p.kind in POSITIONAL_KINDS for p in parameters):
        return None
    if [p.kind for p in parameters] == [Parameter.VAR_KEYWORD]:
        return tuple(parents)
    parameters = [p for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
    matched = tuple(p.name for p in parameters if p.name in parents)
    unmatched = [p.name for p in parameters if p.name not in parents and p.default is Parameter.empty]
    if matched and unmatched:
        raise ProblemError(
            f"{label} must name its parameters after the parents {list(parents)}, in any order, or none of them; "
            f"{', '.join(map(repr, matched))} is a parent's name, {', '.join(map(repr, unmatched))} is not."
        )
    return matched or None


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a function; empty if they cannot be determined, as for some functions written in C."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


FeatureSpec = Callable[..., npt.ArrayLike] | Mapping[str, Callable[[Any], npt.ArrayLike]] | None

TABULATION_LIMIT = 2**22
"""The largest number of configurations at which a function of all parents is evaluated."""


FEATURE_CACHE_SIZE = 4096
"""The number of actions whose mean features are cached."""


class Features(ABC):
    """f(z) on a problem: `dimension`, `at(z)`, the mean for one action or for all."""

    dimension: int

    @abstractmethod
    def at(self, z: tuple[int, ...]) -> Array:
        """f(z) of the parents' codes z."""

    @abstractmethod
    def mean(self, choices: Choices) -> Array:
        """m_a for one action."""

    @abstractmethod
    def means(self, projection: Projection) -> Array:
        """m_a for every action of a set, one row each."""

    @abstractmethod
    def means_of_distributions(self, rows: Sequence[Array]) -> Array:
        """m of several distributions, one row each, given by their blocks' rows."""

    @abstractmethod
    def largest_norm(self) -> float:
        """A bound on the Euclidean norm of f(z)."""

    @abstractmethod
    def widths(self) -> Array:
        """The range of each coordinate of f(z): the largest value minus the smallest."""

    @abstractmethod
    def range(self, theta: Array) -> tuple[float, float]:
        """The smallest and the largest <theta, f(z)>."""

    @abstractmethod
    def content(self) -> bytes:
        """All numbers that define the features."""

    @abstractmethod
    def on_problem(self, problem: Problem) -> Features:
        """The same functions of the same parents on a problem with another P(z | a)."""


def resolve_features(problem: Problem, spec: FeatureSpec = None, *, intercept: bool = False) -> Features:
    """The features of a problem: by default (None), from a function per parent, or from a function of all parents.

    With `intercept`, a constant 1 comes before them.
    """

    if spec is not None and not callable(spec) and not isinstance(spec, Mapping):
        raise ProblemError(
            "features must be None (the parents' values), a function of the parents' values, by name or in the order "
            f"{list(problem.parents)}, or a mapping from each parent to a function of its value; got {spec!r}."
        )
    return problem.compute_once(
        ("features", _spec_key(spec), intercept), lambda: _build_features(problem, spec, intercept)
    )


def _build_features(problem: Problem, spec: FeatureSpec, intercept: bool) -> Features:
    if problem.unconditional is not problem:  # the same features with other means
        return resolve_features(problem.unconditional, spec, intercept=intercept).on_problem(problem)
    if spec is None or isinstance(spec, Mapping):
        tables = _parent_tables(problem, spec or {})
        # The first parent's features include the constant, so that the features remain additive.
        return AdditiveFeatures(problem, [_prepend_intercept(tables[0]), *tables[1:]] if intercept else tables)
    table = tabulate(problem, spec, "features").reshape(problem.configurations, -1)
    return TabulatedFeatures(problem, _prepend_intercept(table) if intercept else table)


def _prepend_intercept(table: Array) -> Array:
    return np.column_stack([np.ones(len(table)), table])


def _spec_key(spec: FeatureSpec) -> Hashable:
    """A key that is equal for equivalent specifications; an unhashable callable is equal only to itself."""
    if spec is None:
        return None
    if isinstance(spec, Mapping):
        return tuple((name, _spec_key(function)) for name, function in spec.items())
    try:
        hash(spec)
    except TypeError:
        return _ByIdentity(spec)
    return spec


class _ByIdentity:
    """A key that holds an object, so that its id is never reused."""

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other._thing is self._thing

    def __hash__(self) -> int:
        return id(self._thing)


class Stack(NamedTuple):
    """Blocks with the same numbers of rows and features, stacked."""

    blocks: Codes
    coordinates: Codes
    """The coordinates of each block."""
    means: Array
    """The axes are block, row and coordinate."""

    def values(self, theta: Array) -> Array:
        """<theta, m> for every row of every block, summed in order."""
        coefficients = theta[self.coordinates]
        total = self.means[:, :, 0] * coefficients[:, :1]
        for i in range(1, coefficients.shape[1]):
            total += self.means[:, :, i] * coefficients[:, i : i + 1]
        return np.asarray(total)


class AdditiveFeatures(Features):
    """Features whose coordinates each depend on one parent; `tables[i]` has one row per state of parent i."""

    def __init__(self, problem: Problem, tables: list[Array]) -> None:
        self.blocks, self.tables = problem.blocks, tables
        ends = np.cumsum([0, *(table.shape[1] for table in tables)])
        self.slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        self.dimension = int(ends[-1])
        self._means: BoundedCache[Choices, Array] = BoundedCache(FEATURE_CACHE_SIZE)

    def on_problem(self, problem: Problem) -> AdditiveFeatures:
        return AdditiveFeatures(problem, self.tables)

    def at(self, z: tuple[int, ...]) -> Array:
        return np.concatenate([table[code] for table, code in zip(self.tables, z, strict=True)])

    def mean(self, choices: Choices) -> Array:
        m = self._means.get(choices)
        if m is None:
            m = np.empty(self.dimension)
            for block in self.blocks:
                coordinates, means = self.block_mean(
                    block, block.row(tuple(choices[k] for k in block.manipulable))[None]
                )
                m[coordinates] = means[0]
            self._means.store(choices, m)
        return m

    def block_means(self, rows: Sequence[Array]) -> list[tuple[Codes, Array]]:
        """`block_mean` of every block."""
        return [self.block_mean(block, block_rows) for block, block_rows in zip(self.blocks, rows, strict=True)]

    def stacks(self, rows: Sequence[Array]) -> list[Stack]:
        """The means of all blocks, stacked by shape, so that a thousand blocks cost about as much as a few."""
        parts = self.block_means(rows)
        blocks_by_shape: dict[tuple[int, ...], list[int]] = {}
        for b, (_, means) in enumerate(parts):
            blocks_by_shape.setdefault(means.shape, []).append(b)
        return [
            Stack(
                np.array(block_numbers),
                np.array([parts[b][0] for b in block_numbers]),
                np.array([parts[b][1] for b in block_numbers]),
            )
            for block_numbers in blocks_by_shape.values()
        ]

    def block_mean(self, block: Block, rows: Array) -> tuple[Codes, Array]:
        """The coordinates of a block, and their means in every row of its distributions.

        Sums are taken in order, so that the means of a row do not depend, in their last bit, on the other rows.
        """
        coordinates, columns = [], []
        for position, axis in enumerate(block.parents):
            marginal = np.zeros((len(rows), block.shape[position]))
            for configuration, codes in enumerate(np.ndindex(*block.shape)):
                marginal[:, codes[position]] += rows[:, configuration]
            coordinates.append(np.arange(self.dimension)[self.slices[axis]])
            columns += [dot_in_order(marginal, column) for column in self.tables[axis].T]
        return np.concatenate(coordinates), np.column_stack(columns)

    def means_of_distributions(self, rows: Sequence[Array]) -> Array:
        m = np.empty((len(rows[0]), self.dimension))
        for coordinates, means in self.block_means(rows):
            m[:, coordinates] = means
        return m

    def range(self, theta: Array) -> tuple[float, float]:
        parts = [table @ theta[coordinates] for table, coordinates in zip(self.tables, self.slices, strict=True)]
        return sum(float(part.min()) for part in parts), sum(float(part.max()) for part in parts)

    def content(self) -> bytes:
        return b"".join(table.tobytes() for table in self.tables)

    def largest_norm(self) -> float:
        return math.sqrt(sum(float((table**2).sum(axis=1).max()) for table in self.tables))

    def widths(self) -> Array:
        return np.concatenate([np.ptp(table, axis=0) for table in self.tables])

    def means(self, projection: Projection) -> Array:
        m = np.empty((projection.size, self.dimension))
        for b, (coordinates, means) in enumerate(self.block_means(projection.rows)):
            m[:, coordinates] = means[projection.row_of_action(b)]
        return m


class TabulatedFeatures(Features):
    """A function of all parents; `table` has one row per configuration."""

    def __init__(self, problem: Problem, table: Array) -> None:
        self._problem = problem
        self.table = table.reshape(problem.configurations, -1)
        self.dimension = self.table.shape[1]

    def on_problem(self, problem: Problem) -> TabulatedFeatures:
        return TabulatedFeatures(problem, self.table)

    def at(self, z: tuple[int, ...]) -> Array:
        return np.asarray(self.table[self._problem.configuration(z)])

    def mean(self, choices: Choices) -> Array:
        return np.asarray(self.means(self._problem.projection_of(choices))[0])

    def means_of_distributions(self, rows: Sequence[Array]) -> Array:
        return self._problem.joint(rows).reshape(len(rows[0]), -1) @ self.table

    def range(self, theta: Array) -> tuple[float, float]:
        values = self.table @ theta
        return float(values.min()), float(values.max())

    def content(self) -> bytes:
        return self.table.tobytes()

    def largest_norm(self) -> float:
        return math.sqrt(float((self.table**2).sum(axis=1).max()))

    def widths(self) -> Array:
        return np.asarray(np.ptp(self.table, axis=0))

    def means(self, projection: Projection) -> Array:
        return np.column_stack([projection(np.ascontiguousarray(column)) for column in self.table.T])


def dot_in_order(rows: Array, weights: Array) -> Array:
    """rows @ weights, summed in order, so that equal rows have equal sums independently of the other rows.

    Few products are formed at once, as in `projection.Level`, for the same bits.
    """
    if 1 < len(rows) <= PRODUCT_BATCH_SIZE // len(weights):
        return np.add.reduce(np.multiply(rows.T, weights[:, None], order="C"))  # type: ignore[no-any-return]
    total = rows[:, 0] * weights[0]
    for i in range(1, len(weights)):
        total += rows[:, i] * weights[i]
    return np.asarray(total)


def tabulate(problem: Problem, function: Callable[..., npt.ArrayLike], label: str) -> Array:
    """A function of the parents' values at every configuration: one axis per parent, then the function's own."""
    if problem.configurations > TABULATION_LIMIT:
        raise SizeError(
            f"{label} as a function would be evaluated at {problem.configurations} configurations of "
            f"{len(problem.parents)} parents; the limit is {TABULATION_LIMIT}. Pass a mapping with one function per "
            "parent instead, which needs no joint table."
        )
    states = [problem.variable(name).states for name in problem.parents]
    by_name = parents_by_name(function, problem.parents, label)
    results = [_call_at(problem, function, by_name, values, label) for values in itertools.product(*states)]
    shapes = {result.shape for result in results}
    if len(shapes) > 1:
        raise ProblemError(f"{label} must have the same length at every configuration; got {sorted(shapes)}.")
    if results[0].size == 0:
        raise ProblemError(f"{label} must be at least one number; at every configuration there is none.")
    return np.array(results).reshape(*problem.shape, *shapes.pop())


def _call_at(
    problem: Problem,
    function: Callable[..., npt.ArrayLike],
    by_name: tuple[str, ...] | None,
    values: tuple[State, ...],
    label: str,
) -> Array:
    named = dict(zip(problem.parents, values, strict=True))
    place = ", ".join(f"{name}={value!r}" for name, value in named.items())
    try:
        returned = function(*values) if by_name is None else function(**{name: named[name] for name in by_name})
        result = np.asarray(returned, dtype=np.float64)
    except Exception as error:
        raise ProblemError(
            f"{label} must be a function of the parents' values, by their names or in the order "
            f"{list(problem.parents)}, that returns numbers; at ({place}) it raised {type(error).__name__}: {error}"
        ) from error
    if not np.isfinite(result).all():
        raise ProblemError(f"{label} must be finite; at ({place}) it is {result.tolist()}.")
    return result


def _default_table(problem: Problem, name: str) -> Array:
    states = problem.variable(name).states
    if all(isinstance(s, int | float) and not isinstance(s, bool) and math.isfinite(s) for s in states):
        return np.array(states, dtype=np.float64)[:, None]
    return np.eye(len(states))


def _parent_tables(problem: Problem, spec: Mapping[str, Callable[[Any], npt.ArrayLike]]) -> list[Array]:
    for name in spec:
        if name not in problem.parents:
            raise ProblemError(unknown_name_message("parent in features=:", name, problem.parents))
    tables = []
    for name in problem.parents:
        if name not in spec:
            tables.append(_default_table(problem, name))
            continue
        rows = [np.atleast_1d(_feature_value(spec[name], name, state)) for state in problem.variable(name).states]
        if len({row.shape for row in rows}) > 1 or rows[0].ndim > 1:
            raise ProblemError(f"The features of {name!r} must be vectors of one length.")
        tables.append(np.array(rows))
    return tables


def _feature_value(function: Callable[[Any], npt.ArrayLike], name: str, state: State) -> Array:
    try:
        value = np.asarray(function(state), dtype=np.float64)
    except Exception as error:
        raise ProblemError(
            f"The feature of {name!r} must map each of its values to numbers; at {state!r} it raised "
            f"{type(error).__name__}: {error}"
        ) from error
    if not np.isfinite(value).all():
        raise ProblemError(f"The feature of {name!r} must be finite; at {state!r} it is {value.tolist()}.")
    return value
