"""The rows of a variable's table: distributions, up to rounding, or an error that says which row is none."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from causalbandits.errors import ModelError
from causalbandits.model.variable import Variable

ROW_SUM_TOLERANCE = 1e-6
"""A row of a table may miss 1 by this much (rounded input); it is then renormalised."""


def checked_rows(v: Variable, variables: Mapping[str, Variable]) -> Variable:
    """The variable with its rows renormalised, or the error that says which row is wrong."""
    shape = (*(len(variables[p].states) for p in v.parents), len(v.states))
    if v.table.shape != shape:
        axes = ", ".join(f"{name} ({size})" for name, size in zip((*v.parents, v.name), shape, strict=True))
        raise ModelError(f"The table of {v.name!r} must have axes {axes}; its shape is {v.table.shape}.")
    flat = v.table.reshape(-1, len(v.states))
    finite = np.isfinite(flat).all(axis=1)
    signs = (flat >= 0).all(axis=1)
    with np.errstate(over="ignore"):
        sums = flat.sum(axis=1, where=np.isfinite(flat))
    for ok, rule in (
        (finite, "be finite"),
        (signs, "not be negative"),
        (np.abs(sums - 1) <= ROW_SUM_TOLERANCE, f"sum to 1 (to {ROW_SUM_TOLERANCE:g})"),
    ):
        if not ok.all():
            row = int(np.argmin(ok))
            found = f"sums to {sums[row]:.12g}" if rule.startswith("sum") else f"is {flat[row].tolist()}"
            raise ModelError(f"{conditional(v)} must {rule}: {row_name(v, variables, row)} {found}.")
    # Rows that are normalised up to rounding stay as they are, so that a model read back equals the one written.
    off = np.abs(sums - 1) > len(v.states) * math.ulp(1.0)
    if not off.any():
        return v
    table = np.where(off[:, None], flat / sums[:, None], flat).reshape(shape)
    return Variable(v.name, v.states, parents=v.parents, table=table)


def conditional(v: Variable) -> str:
    """The name of a variable's table: P(v | parents)."""
    return f"P({v.name} | {', '.join(v.parents)})" if v.parents else f"P({v.name})"


def row_name(v: Variable, variables: Mapping[str, Variable], row: int) -> str:
    """The parents' states that a row of a table is for."""
    if not v.parents:
        return "it"
    codes = np.unravel_index(row, v.table.shape[:-1])
    where = (f"{p}={variables[p].states[int(c)]!r}" for p, c in zip(v.parents, codes, strict=True))
    return f"row ({', '.join(where)})"
