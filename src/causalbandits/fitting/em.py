"""CPTs from rows with missing values, by exact expectation maximisation (EM).

The E-step completes each distinct incomplete row in every possible way, weighted by its probability under the current
CPTs. The M-step is the usual estimate from the expected counts. Each step increases

    sum over rows of log P(observed values)  +  sum over cells of pseudo-count * log(CPT entry),

and the iteration converges to a maximum of it, which is local if there are several.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes
from causalbandits.errors import DataError, SizeError
from causalbandits.fitting.counts import CodedRows
from causalbandits.fitting.structure import Structure

TOLERANCE = 1e-8
"""The iteration stops when no probability changes by more than this."""

ITERATIONS = 10_000

COMPLETION_LIMIT = 2**22
"""The maximum number of completions held in memory, summed over all distinct incomplete rows."""


class IncompleteRow(NamedTuple):
    """One distinct row: its codes (-1: missing) and intervention flags, in the variables' order."""

    codes: tuple[int, ...]
    was_set: tuple[bool, ...]


class IncompleteRows:
    """The distinct rows with missing values, and the number of occurrences of each."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self.rows: Counter[IncompleteRow] = Counter()

    def __bool__(self) -> bool:
        return bool(self.rows)

    def add(self, coded: CodedRows) -> None:
        """Add incomplete rows."""
        columns = [coded.codes[name] for name in self._names]
        nothing = np.zeros(len(columns[0]), dtype=bool)
        masks = [coded.was_set.get(name, nothing) for name in self._names]
        for name, codes, mask in zip(self._names, columns, masks, strict=True):
            if ((codes < 0) & mask).any():
                raise DataError(
                    f"The value of a variable that was set must be known; in some rows {name!r} was set and its value "
                    "is missing. Use missing='drop', or fill in the values."
                )
        codes_and_masks = np.stack([*columns, *masks], axis=1)
        width = len(self._names)
        for row, times in zip(*np.unique(codes_and_masks, axis=0, return_counts=True), strict=True):
            values = row.tolist()
            self.rows[IncompleteRow(tuple(values[:width]), tuple(map(bool, values[width:])))] += int(times)

    def reorder(self, orders: Mapping[str, Codes]) -> dict[IncompleteRow, int]:
        """The rows with every state in its final position, sorted.

        Sorting makes sums independent of the order of the data.
        """
        places = [(*orders[name].tolist(), -1) for name in self._names]
        reordered: Counter[IncompleteRow] = Counter()
        for row, times in self.rows.items():
            codes = tuple(place[code] for place, code in zip(places, row.codes, strict=True))
            reordered[IncompleteRow(codes, row.was_set)] += times
        return dict(sorted(reordered.items()))


class Maximum(NamedTuple):
    """The expected counts at the maximum, and the objective before every step."""

    counts: dict[str, Array]
    objective: list[float]


class _Completions(NamedTuple):
    """Rows with the same missing variables: for each family that counts, the cell of every completion of every row."""

    times: Array
    cells: dict[str, npt.NDArray[np.intp]]


def maximise(
    structure: Structure,
    shapes: Mapping[str, tuple[int, ...]],
    counts: Mapping[str, Array],
    prior: Mapping[str, Array],
    incomplete: Mapping[IncompleteRow, int],
) -> Maximum:
    """The expected counts of complete (`counts`) and incomplete rows under the CPTs that maximise the objective."""
    groups = _build_completions(structure, shapes, incomplete)
    # Add 1 to every cell, because an entry that starts at 0 would stay 0.
    tables = _normalise_cpts({name: counts[name] + prior[name] + 1.0 for name in counts})
    objective: list[float] = []
    change = math.inf
    while change > TOLERANCE:
        if len(objective) == ITERATIONS:
            raise DataError(
                f"The EM fit has not converged after {ITERATIONS} steps: probabilities still change by {change:.2g} "
                "per step. Too many values are missing for this graph. Use missing='drop', or a larger prior."
            )
        expected, observed = _expected_counts(tables, counts, groups)
        objective.append(observed + _log_likelihood({name: counts[name] + prior[name] for name in counts}, tables))
        new_cpts = _normalise_cpts({name: expected[name] + prior[name] for name in counts})
        change = max(float(np.abs(new_cpts[name] - tables[name]).max()) for name in tables)
        tables = new_cpts
    return Maximum(_expected_counts(tables, counts, groups)[0], objective)


def _expected_counts(
    tables: Mapping[str, Array], counts: Mapping[str, Array], groups: Sequence[_Completions]
) -> tuple[dict[str, Array], float]:
    """The expected counts under the CPTs, and the log-likelihood of the incomplete rows."""
    expected = {name: array.copy() for name, array in counts.items()}
    observed = 0.0
    for times, cells in groups:
        weights = np.ones(next(iter(cells.values())).shape)
        for name, places in cells.items():
            weights *= tables[name].reshape(-1)[places]
        totals = weights.sum(axis=1)
        observed += float(times @ np.log(totals))
        weights *= (times / totals)[:, None]
        for name, places in cells.items():
            size = tables[name].size
            cell_weights = np.bincount(places.reshape(-1), weights=weights.reshape(-1), minlength=size)
            expected[name] += cell_weights.reshape(tables[name].shape)
    return expected, observed


def _log_likelihood(counts: Mapping[str, Array], tables: Mapping[str, Array]) -> float:
    total = 0.0
    for name, array in counts.items():
        is_positive = array > 0
        total += float(array[is_positive] @ np.log(tables[name][is_positive]))
    return total


def _normalise_cpts(concentrations: Mapping[str, Array]) -> dict[str, Array]:
    """CPTs with normalised rows; rows without counts are uniform."""
    tables = {}
    for name, array in concentrations.items():
        totals = array.sum(axis=-1, keepdims=True)
        tables[name] = np.where(totals > 0, array / np.where(totals > 0, totals, 1.0), 1 / array.shape[-1])
    return tables


def _build_completions(
    structure: Structure, shapes: Mapping[str, tuple[int, ...]], incomplete: Mapping[IncompleteRow, int]
) -> list[_Completions]:
    names = structure.names
    position = {name: i for i, name in enumerate(names)}
    by_gaps: dict[tuple[tuple[bool, ...], tuple[bool, ...]], list[IncompleteRow]] = {}
    for row in incomplete:
        by_gaps.setdefault((tuple(code < 0 for code in row.codes), row.was_set), []).append(row)
    sizes = {name: shapes[name][-1] for name in names}
    ways = {gaps: math.prod(sizes[n] for n, gap in zip(names, gaps, strict=True) if gap) for gaps, _ in by_gaps}
    completions = sum(len(rows) * ways[gaps] for (gaps, _), rows in by_gaps.items())
    if completions > COMPLETION_LIMIT:
        raise SizeError(
            f"The incomplete rows, {len(incomplete)} different ones, have {completions} completions; the limit is "
            f"{COMPLETION_LIMIT}. Remove the rows with the most missing values, or use missing='drop'."
        )
    groups = []
    for (gaps, was_set), rows in by_gaps.items():
        codes = np.array([row.codes for row in rows], dtype=np.intp)
        missing = [i for i, gap in enumerate(gaps) if gap]
        fill = np.indices([sizes[names[i]] for i in missing], dtype=np.intp).reshape(len(missing), -1)
        full = {i: fill[at][None, :] for at, i in enumerate(missing)}
        cells = {}
        for family in structure.families_where(frozenset(itertools.compress(names, was_set))):
            code = np.zeros((1, 1), dtype=np.intp)
            for axis in family.axes:
                i = position[axis]
                code = code * sizes[axis] + full.get(i, codes[:, i, None])
            cells[family.name] = np.ascontiguousarray(np.broadcast_to(code, (len(rows), fill.shape[1])))
        if cells:
            groups.append(_Completions(np.array([incomplete[row] for row in rows], dtype=np.float64), cells))
    return groups
