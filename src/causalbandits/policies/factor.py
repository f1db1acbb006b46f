"""Ridge regression by rotations, in a fixed order of operations.

V = ridge I + sum x x' and g = sum x Y are kept as R, upper triangular, and u with

    R'R = V,  R'u = g,  so that  theta_hat = V^-1 g = R^-1 u.

A reward rotates its (x, Y) into (R, u) in O(d^2); V and g, whose forming would cost half of the digits, are never
formed. Nothing here calls LAPACK: `engine/algebra.py` does the same operations entry by entry, and the two agree in
every bit.
"""

from __future__ import annotations

import math

import numpy as np

from causalbandits.variable import Array


def rotate_in(R: Array, u: Array, x: Array, y: float) -> None:
    """Turn (R, u) into those of V + x x' and g + x y, in place."""
    left = x.copy()
    for k in range(len(u)):
        radius = math.sqrt(R[k, k] * R[k, k] + left[k] * left[k])
        c, s = R[k, k] / radius, left[k] / radius
        R[k, k] = radius
        row = R[k, k + 1 :].copy()
        R[k, k + 1 :] = c * row + s * left[k + 1 :]
        left[k + 1 :] = c * left[k + 1 :] - s * row
        u[k], y = c * u[k] + s * y, c * y - s * u[k]


def solve(R: Array, b: Array) -> Array:
    """x with R x = b."""
    x = b.copy()
    for k in range(len(b) - 1, -1, -1):
        x[k] = x[k] / R[k, k]
        x[:k] -= x[k] * R[:k, k]
    return x


def draw_theta(R: Array, u: Array, spread: float, noise: Array) -> Array:
    """A draw from N(V^-1 g, spread^2 V^-1), given standard normal noise."""
    return solve(R, u + spread * noise)


def norms(rows: Array, R: Array) -> Array:
    """sqrt(x' V^-1 x) = |w|, where R'w = x, for every row x."""
    left = rows.T.copy()
    total = np.zeros(len(rows))
    for k in range(len(left)):
        left[k] *= 1.0 / R[k, k]
        left[k + 1 :] -= R[k, k + 1 :, None] * left[k]
        total += left[k] * left[k]
    return np.sqrt(total)
