"""Ridge regression by Givens rotations, in a fixed order of operations.

V = ridge I + sum x x' and g = sum x Y are kept as R, upper triangular, and u with

    R'R = V,  R'u = g,  so that  theta_hat = V^-1 g = R^-1 u.

A reward rotates its (x, Y) into (R, u) in O(d^2). V and g are never formed, because that would lose half of the digits.
If R must not depend on the order of rewards, it is computed from sums instead (`solve_normal_equations`).

Nothing here calls LAPACK. Each function has a compiled twin, `..._jit`, which does the same operations entry by entry
and agrees in every bit. Compiled rounds use the twin. So does the NumPy version for few entries, because plain numbers
then take less time than NumPy calls.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from causalbandits._typing import Array


def qr_update_jit(R: Any, u: Any, left: Any, y: float) -> float:
    """The entry-by-entry form of `qr_update`; `left` is a copy of x and is overwritten."""
    d = len(u)
    for k in range(d):
        row = R[k]
        a, b = row[k], left[k]
        radius = math.sqrt(a * a + b * b)
        c, s = a / radius, b / radius
        row[k] = radius
        for j in range(k + 1, d):
            entry, other = row[j], left[j]
            row[j] = c * entry + s * other
            left[j] = c * other - s * entry
        entry = u[k]
        u[k] = c * entry + s * y
        y = c * y - s * entry
    return y


def back_substitute_jit(R: Any, x: Any) -> None:
    """The entry-by-entry form of `back_substitute`, in place. It works row by row, which changes no entry's order
    of operations.
    """
    d = len(x)
    for i in range(d - 1, -1, -1):
        row, entry = R[i], x[i]
        for k in range(d - 1, i, -1):
            entry -= x[k] * row[k]
        x[i] = entry / row[i]


def factorise_jit(equations: Any) -> None:
    """Replace V (on and above the diagonal) and g (one more column) by R and u, in place, by Cholesky
    factorisation.
    """
    d = len(equations)
    for k in range(d):
        row = equations[k]
        pivot = math.sqrt(row[k])
        row[k] = pivot
        for j in range(k + 1, d + 1):
            row[j] /= pivot
        for i in range(k + 1, d):
            below, factor = equations[i], row[i]
            for j in range(i, d + 1):
                below[j] -= factor * row[j]


def squared_norms_jit(columns: Any, R: Any, left: Any, total: Any) -> None:
    """The entry-by-entry form of `squared_norms`; `columns` are its rows transposed."""
    d, actions = columns.shape
    for k in range(d):
        for a in range(actions):
            left[k, a] = columns[k, a]
    for a in range(actions):
        total[a] = 0.0
    for k in range(d):
        inverse = 1.0 / R[k, k]
        for a in range(actions):
            left[k, a] *= inverse
            total[a] += left[k, a] * left[k, a]
        for j in range(k + 1, d):
            entry = R[k, j]
            for a in range(actions):
                left[j, a] -= entry * left[k, a]


FEW_ROWS = 32
"""The largest dimension for which R is updated entry by entry."""


def qr_update(R: Array, u: Array, x: Array, y: float) -> float:
    """Update (R, u) in place for V + x x' and g + x y. Return the remainder of y, whose square is the increase of
    (sum of Y^2) - |u|^2.
    """
    if len(u) <= FEW_ROWS:
        rows, sums = R.tolist(), u.tolist()
        remaining = qr_update_jit(rows, sums, x.tolist(), y)
        R[:], u[:] = rows, sums
        return remaining
    remainder = x
    for k, entry in enumerate(u.tolist()):
        row = R[k, k:]
        a, b = row.item(0), remainder.item(0)
        radius = math.sqrt(a * a + b * b)
        c, s = a / radius, b / radius
        rotated = c * row + s * remainder
        remainder = (c * remainder - s * row)[1:]
        row[:] = rotated
        row[0] = radius
        u[k], y = c * entry + s * y, c * y - s * entry
    return y


def back_substitute(R: Array, b: Array) -> Array:
    """Solve R x = b."""
    if len(b) <= FEW_ROWS:
        numbers = b.tolist()
        back_substitute_jit(R.tolist(), numbers)
        return np.array(numbers)
    x = b.copy()
    for k in range(len(b) - 1, -1, -1):
        x[k] = x[k] / R[k, k]
        x[:k] -= x[k] * R[:k, k]
    return x


def solve_normal_equations(equations: Array) -> tuple[Array, Array]:
    """R and theta, from V on and above the diagonal, zeros below it, and g as one more column."""
    d = len(equations)
    if d <= FEW_ROWS:
        rows = equations.tolist()
        factorise_jit(rows)
        theta = [row.pop() for row in rows]
        back_substitute_jit(rows, theta)
        return np.array(rows), np.array(theta)
    factors = equations.copy()
    for k in range(d):
        factors[k, k] = math.sqrt(factors[k, k])
        row = factors[k, k + 1 :]
        row /= factors[k, k]
        factors[k + 1 :, k + 1 :] -= row[:-1, None] * row
    R = np.triu(factors[:, :-1])
    return R, back_substitute(R, factors[:, -1])


def whiten_rows(rows: Array, R: Array) -> Array:
    """Solve R'w = x for every row x; one row per solution."""
    columns = rows.T.copy()
    for k, column in enumerate(columns):
        column *= 1.0 / R.item(k, k)
        if k + 1 < len(columns):
            columns[k + 1 :] -= R[k, k + 1 :, None] * column
    return columns.T


def squared_norms(rows: Array, R: Array) -> Array:
    """x' V^-1 x = |w|^2 with R'w = x, for every row x."""
    work = whiten_rows(rows, R).T
    total = np.zeros(len(rows))
    for squares in work * work:
        total += squares
    return total
