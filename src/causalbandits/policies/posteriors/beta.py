"""A Beta prior: pseudo-counts of successes and failures, shared by all cells or one pair per cell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import PolicyError
from causalbandits.policies.validation import validate_positive
from causalbandits.problem import Problem


def parse_pseudo_counts(name: str, value: Any) -> Any:
    """A positive number, or an array of them as nested tuples, which can be compared, hashed and written to files.

    >>> parse_pseudo_counts("failures", [[1, 2], [3, 4]])
    ((1.0, 2.0), (3.0, 4.0))
    """
    if not isinstance(value, list | tuple | np.ndarray):
        validate_positive(**{name: value})
        return value
    array = _parse_array(name, value)
    allowed = (array >= 1e-100) & (array <= 1e100)  # false for NaN, too
    if not allowed.all():
        place = tuple(int(i) for i in np.argwhere(~allowed)[0])
        validate_positive(**{f"{name}[{', '.join(map(str, place))}]": float(array[place])})
    return _to_tuples(array.tolist())


def _parse_array(name: str, value: Any) -> Array:
    try:
        array = np.array(value)
    except ValueError:  # lists of different lengths
        array = np.array(None)
    if array.dtype.kind not in "iuf" or array.ndim == 0 or array.size == 0 or np.ma.isMaskedArray(value):
        raise PolicyError(
            f"{name} must be a positive finite number, or an array with a number for each configuration; got {value!r}."
        )
    return array.astype(np.float64)


def _to_tuples(nested: Any) -> Any:
    return tuple(map(_to_tuples, nested)) if isinstance(nested, list) else nested


def pseudo_counts_per_cell(successes: Any, failures: Any) -> tuple[float | Array, float | Array]:
    """Both as numbers, or both as arrays with one entry per cell."""
    a, b = (np.asarray(counts, dtype=np.float64).reshape(-1) for counts in (successes, failures))
    if not isinstance(successes, tuple) and not isinstance(failures, tuple):
        return float(a[0]), float(b[0])
    size = max(len(a), len(b))
    return a + np.zeros(size), b + np.zeros(size)


def validate_prior_shape(policy: str, problem: Problem, causal: bool, **priors: Any) -> None:
    """Raise an error if an array does not have one number for each of a problem's cells."""
    expected_shape = problem.shape if causal else _action_shape(problem)
    cells = math.prod(expected_shape)
    for name, value in priors.items():
        shape = np.shape(value)
        if isinstance(value, tuple) and shape not in ((cells,), expected_shape):
            unit = f"configurations of {', '.join(problem.parents)}" if causal else "actions"
            unit = f"{cells} {unit}{' in contexts' if problem.context and not causal else ''}"
            layout = f", as {cells} numbers or in the shape {expected_shape}" if len(expected_shape) > 1 else ""
            raise PolicyError(
                f"{policy}: {name} must be a number, or have one for each of the {unit}{layout}; its shape is {shape}."
            )


def _action_shape(problem: Problem) -> tuple[int, ...]:
    """The number of actions; with a context, preceded by the number of contexts."""
    size = problem.actions.size
    return (problem.contexts.size, size) if problem.context else (size,)


def log_rising_factorial(a: Array, n: Array) -> Array:
    """log of a (a + 1) ... (a + n - 1), elementwise, for likelihoods of counts under a Dirichlet."""
    from scipy.special import gammaln

    positive = np.maximum(a, 1e-300)
    return np.asarray(np.where(n > 0, gammaln(positive + n) - gammaln(positive), 0.0))
