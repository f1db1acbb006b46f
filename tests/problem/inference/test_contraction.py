"""Sums of products whose every number is made by the same operations, whatever else is computed along with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from causalbandits._typing import Array
from causalbandits.problem.inference import contraction
from causalbandits.problem.inference.contraction import Operand, contract_in_order


def sum_one_by_one(operands: list[tuple[Array, list[str]]], output: list[str]) -> Array:
    """The product of two at a time, from the first on, where places are added one after the other."""
    remaining = [*operands]
    while len(remaining) > 1:
        (right, right_axes), (left, left_axes) = remaining.pop(1), remaining.pop(0)
        needed = {*output, *(axis for _, axes in remaining for axis in axes)}
        # `contract_in_order` takes the later operand first.
        axes = sorted(dict.fromkeys([*right_axes, *left_axes]), key=lambda axis: axis == output[0])
        summed, kept = [a for a in axes if a not in needed], [a for a in axes if a in needed]
        sizes = {**dict(zip(left_axes, left.shape, strict=True)), **dict(zip(right_axes, right.shape, strict=True))}
        total: Any = None
        for place in np.ndindex(*[sizes[a] for a in summed]):
            at = dict(zip(summed, place, strict=True))
            parts = []
            for array, own in ((left, left_axes), (right, right_axes)):
                part = array[tuple(at.get(a, slice(None)) for a in own)]
                own_kept = [a for a in own if a not in at]
                part = np.transpose(part, [own_kept.index(a) for a in kept if a in own_kept])
                parts.append(part.reshape([sizes[a] if a in own_kept else 1 for a in kept]))
            product = parts[0] * parts[1]
            total = product if total is None else total + product
        remaining.append((np.asarray(total), kept))
    array, axes = remaining[0]
    return array.transpose([axes.index(a) for a in output])


@pytest.mark.parametrize("batch", [1, 5, 2**14])
def test_sums_have_the_bits_of_adding_one_place_after_the_other(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "SLICE_BATCH_SIZE", batch)
    rng = np.random.default_rng(0)
    for _ in range(60):
        sizes = {"a": int(rng.integers(1, 200)), "b": 3, "c": 2, "d": int(rng.integers(1, 4))}
        axes = [["a", "b"], ["b", "c", "a"], ["d", "a"], ["c", "d"]]
        operands = [(rng.random([sizes[a] for a in own]), own) for own in axes]
        output = [["c"], ["b", "d"], ["a", "c"]][int(rng.integers(3))]
        found = contract_in_order([Operand(*operand) for operand in operands], [(0, 1)] * 3, output)
        assert found.tobytes() == np.ascontiguousarray(sum_one_by_one(operands, output)).tobytes()
