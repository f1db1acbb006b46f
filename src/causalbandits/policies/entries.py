"""The linear algebra of `policies/factor.py`, entry by entry: on plain numbers where there are few, else compiled.

Every entry goes through the same operations in the same order as there; `tests/test_compiled.py` compares the two.
"""

import math
from typing import Any


def qr_update_jit(R: Any, u: Any, left: Any, y: float) -> None:
    """As `factor.rotate_in`; `left`, a copy of x, is used up."""
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


def back_substitute_jit(R: Any, x: Any) -> None:
    """As `factor.solve`, in place; row by row, which changes no entry's order of operations."""
    d = len(x)
    for i in range(d - 1, -1, -1):
        row, entry = R[i], x[i]
        for k in range(d - 1, i, -1):
            entry -= x[k] * row[k]
        x[i] = entry / row[i]


def squared_norms_jit(columns: Any, R: Any, left: Any, total: Any) -> None:
    """As `factor.squared_norms`; `columns` are its rows transposed."""
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
