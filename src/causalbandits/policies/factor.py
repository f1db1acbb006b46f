"""Ridge regression by rotations, in a fixed order of operations.

V = ridge I + sum x x' and g = sum x Y are kept as R, upper triangular, and u with

    R'R = V,  R'u = g,  so that  theta_hat = V^-1 g = R^-1 u.

A reward rotates its (x, Y) into (R, u) in O(d^2); V and g, whose forming would cost half of the digits, are never
formed. Nothing here calls LAPACK: `policies/entries.py` does the same operations entry by entry, and the two agree in
every bit. Of few entries these take less time one by one, as plain numbers, than the calls of NumPy would.
"""

from __future__ import annotations

import math

import numpy as np

from causalbandits._types import Array
from causalbandits.policies import entries

FEW_ROWS = 32
"""Up to so many rows R goes entry by entry."""


def rotate_in(R: Array, u: Array, x: Array, y: float) -> None:
    """Turn (R, u) into those of V + x x' and g + x y, in place."""
    if len(u) <= FEW_ROWS:
        rows, sums = R.tolist(), u.tolist()
        entries.qr_update_jit(rows, sums, x.tolist(), y)
        R[:], u[:] = rows, sums
        return
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
    if len(b) <= FEW_ROWS:
        numbers = b.tolist()
        entries.back_substitute_jit(R.tolist(), numbers)
        return np.array(numbers)
    x = b.copy()
    for k in range(len(b) - 1, -1, -1):
        x[k] = x[k] / R[k, k]
        x[:k] -= x[k] * R[:k, k]
    return x


def whitened(rows: Array, R: Array) -> Array:
    """w with R'w = x, for every row x, as a row."""
    left = rows.T.copy()
    for k, own in enumerate(left):
        own *= 1.0 / R.item(k, k)
        if k + 1 < len(left):
            left[k + 1 :] -= R[k, k + 1 :, None] * own
    return left.T


def squared_norms(rows: Array, R: Array) -> Array:
    """x' V^-1 x = |w|^2, where R'w = x, for every row x."""
    left = whitened(rows, R).T
    total = np.zeros(len(rows))
    for squares in left * left:
        total += squares
    return total
