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

from causalbandits._types import Array


def rotate_in(R: Array, u: Array, x: Array, y: float) -> None:
    """Turn (R, u) into those of V + x x' and g + x y, in place."""
    left = x
    for k, old in enumerate(u.tolist()):
        row = R[k, k:]
        a, b = row.item(0), left.item(0)
        radius = math.sqrt(a * a + b * b)
        c, s = a / radius, b / radius
        turned = c * row + s * left
        left = (c * left - s * row)[1:]
        row[:] = turned
        row[0] = radius
        u[k], y = c * old + s * y, c * y - s * old


def solve(R: Array, b: Array) -> Array:
    """x with R x = b."""
    x = b.copy()
    for k in range(len(b) - 1, -1, -1):
        x[k] = x[k] / R[k, k]
        x[:k] -= x[k] * R[:k, k]
    return x


def squared_norms(rows: Array, R: Array) -> Array:
    """x' V^-1 x = |w|^2, where R'w = x, for every row x."""
    left = rows.T.copy()
    total = np.zeros(len(rows))
    for k in range(len(left)):
        left[k] *= 1.0 / R[k, k]
        left[k + 1 :] -= R[k, k + 1 :, None] * left[k]
        total += left[k] * left[k]
    return total
