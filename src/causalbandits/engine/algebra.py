"""The linear algebra of `policies/factor.py`, entry by entry: no temporaries, and the same bits.

Every entry goes through the same operations in the same order as there; `tests/test_compiled.py` compares the two.
"""

import math

from numba.extending import register_jitable


@register_jitable
def rotate_in(R, u, left, y):
    """As `factor.rotate_in`; `left`, a copy of x, is used up."""
    d = len(u)
    for k in range(d):
        radius = math.sqrt(R[k, k] * R[k, k] + left[k] * left[k])
        c, s = R[k, k] / radius, left[k] / radius
        R[k, k] = radius
        for j in range(k + 1, d):
            entry = R[k, j]
            R[k, j] = c * entry + s * left[j]
            left[j] = c * left[j] - s * entry
        entry = u[k]
        u[k] = c * entry + s * y
        y = c * y - s * entry


@register_jitable
def solve(R, x):
    """As `factor.solve`, in place; row by row, which changes no entry's order of operations."""
    d = len(x)
    for i in range(d - 1, -1, -1):
        entry = x[i]
        for k in range(d - 1, i, -1):
            entry -= x[k] * R[i, k]
        x[i] = entry / R[i, i]


@register_jitable
def squared_norms(columns, R, left, total):
    """The squares of `factor.norms`; `columns` are its rows transposed."""
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
