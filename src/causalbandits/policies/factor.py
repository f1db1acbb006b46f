"""Linear algebra on the factor L of V = L L', lower triangular, in a fixed order of operations.

A reward changes V by x x', and L with it in O(d^2). Nothing here calls LAPACK: these functions are executed as they
stand by the agent and compiled by the engine, and every entry goes through the same operations in both, so that the
two agree in every bit.
"""

from __future__ import annotations

import numpy as np

from causalbandits.variable import Array


def add_outer(factor: Array, x: Array) -> None:
    """Turn the factor of V into that of V + x x', in place."""
    left = x.copy()
    for k in range(len(x)):
        diagonal = factor[k, k]
        radius = np.sqrt(diagonal * diagonal + left[k] * left[k])
        cosine, sine = radius / diagonal, left[k] / diagonal
        factor[k, k] = radius
        factor[k + 1 :, k] = (factor[k + 1 :, k] + sine * left[k + 1 :]) / cosine
        left[k + 1 :] = cosine * left[k + 1 :] - sine * factor[k + 1 :, k]


def solve_lower(factor: Array, b: Array) -> Array:
    """x with L x = b."""
    x = b.copy()
    for k in range(len(b)):
        x[k] = x[k] / factor[k, k]
        x[k + 1 :] -= x[k] * factor[k + 1 :, k]
    return x


def solve_upper(factor: Array, b: Array) -> Array:
    """x with L' x = b."""
    x = b.copy()
    for k in range(len(b) - 1, -1, -1):
        x[k] = x[k] / factor[k, k]
        x[:k] -= x[k] * factor[k, :k]
    return x


def estimate(factor: Array, g: Array) -> Array:
    """theta = V^-1 g."""
    return solve_upper(factor, solve_lower(factor, g))


def draw_theta(factor: Array, g: Array, spread: float, noise: Array) -> Array:
    """A draw from N(V^-1 g, spread^2 V^-1), given standard normal noise."""
    return estimate(factor, g) + spread * solve_upper(factor, noise)


def norms(rows: Array, factor: Array) -> Array:
    """sqrt(x' V^-1 x) = |L^-1 x| for every row x."""
    left = rows.T.copy()
    total = np.zeros(len(rows))
    for k in range(len(left)):
        left[k] = left[k] / factor[k, k]
        left[k + 1 :] -= factor[k + 1 :, k : k + 1] * left[k]
        total += left[k] * left[k]
    return np.sqrt(total)
