"""Sums of products of arrays with named axes, two arrays at a time, in a precomputed order.

There are two ways: `contract` is fast, by matrix products; `contract_in_order` gives every number the same bits,
independently of the size of the batch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import opt_einsum

from causalbandits._typing import Array

SLICE_BATCH_SIZE = 2**14
"""The number of entries of slices that are multiplied at once, before they are added one after the other."""


class Operand(NamedTuple):
    """An array, and the names of its axes."""

    array: Array
    axes: list[Any]


Steps = Sequence[tuple[int, ...]]
"""The positions of the next two operands among the remaining ones; their product is appended."""


Contraction = Callable[[list[Array]], Array]
"""A function from the operands' arrays to the sum of their product."""


class Order(NamedTuple):
    """The order in which operands are multiplied, and the size of the largest intermediate array."""

    steps: Steps
    largest: int


def find_order(operands: list[Operand], output: list[Any], limit: int) -> Order:
    """A greedy order; if an intermediate array would exceed the limit, the best order of a random search."""
    numbered = _number_axes(operands, output)
    steps, info = opt_einsum.contract_path(*numbered, optimize="greedy")
    if info.largest_intermediate > limit:
        seeded = random.getstate()  # the search seeds Python's global generator
        steps, info = opt_einsum.contract_path(*numbered, optimize="random-greedy")
        random.setstate(seeded)
    return Order(steps, max(1, int(info.largest_intermediate)))


def contract(operands: list[Operand], steps: Steps, output: list[Any]) -> Array:
    """The sum of the operands' product over all axes except for the output's."""
    return contraction(operands, steps, output)([array for array, _ in operands])


def contraction(operands: list[Operand], steps: Steps, output: list[Any]) -> Contraction:
    """A reusable contraction for arrays of these shapes."""
    numbered = _number_axes([Operand(array.shape, axes) for array, axes in operands], output)  # type: ignore[arg-type]
    # Numbered axes come in pairs with their operands; an expression needs them as one text.
    letters = [opt_einsum.get_symbol(i) for i in range(1 + max([0, *(i for axes in numbered[1::2] for i in axes)]))]
    inputs = ",".join("".join(letters[i] for i in axes) for axes in numbered[1:-1:2])
    equation = f"{inputs}->{''.join(letters[i] for i in numbered[-1])}"
    expression = opt_einsum.contract_expression(equation, *numbered[:-1:2], optimize=steps)
    sizes = {letters[i]: n for shape, axes in _pairs(numbered[:-1]) for n, i in zip(shape, axes, strict=True)}
    plan = [
        (
            positions,
            _product_by_blas(step_equation, "".join(summed_axes), sizes)
            if _is_blas(blas)
            else _product_by_einsum(step_equation),
        )
        for positions, summed_axes, step_equation, _, blas in expression.contraction_list
    ]

    def contract_plan(arrays: list[Array]) -> Array:
        remaining = list(arrays)
        for positions, product in plan:
            remaining.append(product(*[remaining.pop(position) for position in positions]))
        return np.ascontiguousarray(remaining[0], dtype=np.float64)

    return contract_plan


def _pairs(numbered: list[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(numbered[::2], numbered[1::2], strict=True)


def _is_blas(flag: str | bool) -> bool:
    """Whether opt_einsum would use a matrix product, which is planned here once instead of at every call."""
    return isinstance(flag, str) and "EINSUM" not in flag


def _product_by_einsum(equation: str) -> Callable[..., Array]:
    symbols = "".join(sorted(set(equation).difference(",->")))
    if not symbols.isascii():  # NumPy accepts Latin letters only, and no step has more axes
        equation = equation.translate({ord(s): opt_einsum.get_symbol(i) for i, s in enumerate(symbols)})
    return lambda *arrays: np.einsum(equation, *arrays)


def _product_by_blas(equation: str, summed: str, sizes: dict[str, int]) -> Callable[..., Array]:
    """A matrix product as in np.tensordot, whose handling of axes takes longer than a small product."""
    inputs, output = equation.split("->")
    left, right = inputs.split(",")
    inner = sorted(summed, key=left.index)
    left_axes, right_axes = ([s for s in axes if s not in summed] for axes in (left, right))
    of_left, of_right = [left.index(s) for s in left_axes + inner], [right.index(s) for s in inner + right_axes]
    width = math.prod(sizes[s] for s in inner)
    shape, order = [sizes[s] for s in left_axes + right_axes], [(left_axes + right_axes).index(s) for s in output]

    def product(first: Array, second: Array) -> Array:
        rows, columns = first.transpose(of_left).reshape(-1, width), second.transpose(of_right).reshape(width, -1)
        return np.dot(rows, columns).reshape(shape).transpose(order)  # type: ignore[no-any-return]

    return product


def _number_axes(operands: list[Operand], output: list[Any]) -> list[Any]:
    """The contraction with numbered axes, as opt_einsum expects them."""
    numbers: dict[Any, int] = {}
    named: list[Any] = []
    for array, axes in operands:
        named += [array, [numbers.setdefault(axis, len(numbers)) for axis in axes]]
    return [*named, [numbers[axis] for axis in output]]


def contract_in_order(operands: list[Operand], steps: Steps, output: list[Any]) -> Array:
    """Like `contract`, but each entry results from the same operations in the same order.

    These depend on the steps and on the sizes of the summed axes, not on the sizes of the output's axes, unlike a
    matrix product. The first axis of the output is assumed to be the longest.
    """
    remaining = list(operands)
    for step in steps:
        first, second = (remaining.pop(position) for position in sorted(step, reverse=True))
        needed_axes = {axis for _, axes in remaining for axis in axes}.union(output)
        remaining.append(_product(first, second, needed_axes, long=output[0]))
    ((array, axes),) = remaining
    return np.ascontiguousarray(array.transpose([axes.index(axis) for axis in output]))


def _product(first_operand: Operand, second_operand: Operand, needed_axes: set[Any], long: Any) -> Operand:
    """The product of two operands, summed slice by slice over axes that are not needed afterwards."""
    axes = sorted(
        dict.fromkeys([*first_operand.axes, *second_operand.axes]), key=lambda axis: axis == long
    )  # it makes the inner loops
    summed_axes, kept_axes = (
        [axis for axis in axes if axis not in needed_axes],
        [axis for axis in axes if axis in needed_axes],
    )
    left, right = (_align(operand, summed_axes + kept_axes) for operand in (first_operand, second_operand))
    shape = np.broadcast_shapes(left.shape, right.shape)
    if not summed_axes:
        return Operand(np.asarray(left * right), kept_axes)
    *outer_sizes, length = shape[: len(summed_axes)]
    step, total = max(1, SLICE_BATCH_SIZE // math.prod(shape[len(summed_axes) :])), None
    for index in np.ndindex(*outer_sizes):
        left_slices, right_slices = _slice(left, index), _slice(right, index)
        for start in range(0, length, step):
            products = _batch(left_slices, start, step) * _batch(right_slices, start, step)
            if total is not None:
                products[0] += total
            total = products[0] if len(products) == 1 else np.add.accumulate(products)[-1]  # one after the other
    return Operand(np.asarray(total), kept_axes)


def _batch(slices: Array, start: int, step: int) -> Array:
    """Some slices along the first axis; an axis of size 1 is broadcast."""
    return slices if len(slices) == 1 else slices[start : start + step]


def _align(operand: Operand, axes: list[Any]) -> Array:
    """The operand with these axes, of size 1 if it lacks one."""
    array = operand.array.transpose([operand.axes.index(axis) for axis in axes if axis in operand.axes])
    sizes = iter(array.shape)
    return array.reshape([next(sizes) if axis in operand.axes else 1 for axis in axes])


def _slice(array: Array, index: tuple[int, ...]) -> Array:
    """The subarray at an index of the first axes; an axis of size 1 is broadcast."""
    return np.asarray(array[tuple([min(i, size - 1) for i, size in zip(index, array.shape, strict=False)])])
