"""P(z | do(a)), exactly: one tensor contraction per block, with a choice axis for every manipulable variable.

Slot 0 of a variable's choice axis holds its natural mechanism, slot j a point mass on its j-th state; the
contraction then yields the distribution for all choices at once. *Blocks* are the connected components of the
ancestral graph of z. Different blocks share no variable, so P(z | do(a)) is the product of their tables:

    P(z | do(a)) = prod_b P(z_b | do(a_b)).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import opt_einsum

from causalbandits._types import Array
from causalbandits.errors import SizeError
from causalbandits.model import graph as graphs
from causalbandits.model.model import CausalModel

ENTRY_LIMIT = 2**27
"""The largest array a contraction may make, in numbers of 8 bytes: 1 GiB."""

SMALL_TABLE = 2**20
"""A block's table of at most this many entries is made whole, even where only some rows are needed."""


class Block:
    """A connected part of z's ancestral graph: its own knobs, its own parents of the reward, nothing shared.

    `knobs` are positions among the manipulable variables, `parents` positions among z.
    """

    def __init__(
        self, model: CausalModel, names: Sequence[str], manipulable: Sequence[str], parents: Sequence[str]
    ) -> None:
        self.model = model
        self.names = tuple(names)
        self.knobs = tuple(i for i, name in enumerate(manipulable) if name in names)
        self.parents = tuple(i for i, name in enumerate(parents) if name in names)
        self.knob_names = tuple(manipulable[i] for i in self.knobs)
        self.parent_names = tuple(parents[i] for i in self.parents)
        self.radices = tuple(len(model[name].states) + 1 for name in self.knob_names)
        self.shape = tuple(len(model[name].states) for name in self.parent_names)
        self.choices = math.prod(self.radices)
        self.configurations = math.prod(self.shape)
        self.row = lru_cache(maxsize=4096)(self._row)

    def __repr__(self) -> str:
        return f"Block(knobs={list(self.knob_names)}, parents={list(self.parent_names)})"

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "row"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "table" in state:
            self.table.setflags(write=False)
        self.row = lru_cache(maxsize=4096)(self._row)

    def code(self, choices: Sequence[int]) -> int:
        """The row of `table` for an action's choices (those of all manipulable variables)."""
        code = 0
        for knob, radix in zip(self.knobs, self.radices, strict=True):
            code = code * radix + choices[knob]
        return code

    @cached_property
    def table(self) -> Array:
        """P(z_b | do(a_b)) for every choice: a row per choice, a column per configuration."""
        operands: list[Any] = []
        for name in self.names:
            tensor, axes = self._factor(name)
            operands += [tensor, [("choice", name), *axes] if name in self.knob_names else axes]
        table = self._contract(operands, [("choice", name) for name in self.knob_names], self.choices)
        table.setflags(write=False)
        return table

    def rows(self, choices: npt.NDArray[np.integer[Any]]) -> Array:
        """P(z_b | do(a_b)) for some choices of this block's knobs only, a row each."""
        size = self.choices * self.configurations
        if size <= SMALL_TABLE or 4 * len(choices) >= self.choices:
            codes = np.zeros(len(choices), dtype=np.intp)
            for column, radix in enumerate(self.radices):
                codes = codes * radix + choices[:, column]
            return np.asarray(self.table[codes])
        # One axis runs over the asked choices, instead of one for each knob.
        step = max(1, ENTRY_LIMIT // 64 // self._largest_for_one_choice)
        parts = [self._some(choices[i : i + step]) for i in range(0, len(choices), step)]
        return np.concatenate(parts)

    def under(self, tables: Mapping[str, Array], choices: Sequence[int]) -> Array:
        """P(z_b | do(a_b)) under many models at once, a row each: `tables` have the models on their first axis.

        `choices` are those of this block's knobs.
        """
        chosen = dict(zip(self.knob_names, choices, strict=True))
        models = len(next(iter(tables.values())))
        step = max(1, ENTRY_LIMIT // 64 // self._largest_for_one_choice)
        parts = []
        for start in range(0, models, step):
            operands: list[Any] = [np.ones(min(step, models - start)), ["model"]]
            for name in self.names:
                tensor, axes = self._factor(name)
                if chosen.get(name):
                    operands += [tensor[chosen[name]], axes]
                else:
                    drawn = tables[name][start : start + step]
                    shape = [len(self.model[axis].states) for axis in axes]
                    operands += [drawn.reshape(len(drawn), *shape), ["model", *axes]]
            parts.append(self._contract(operands, ["model"], len(operands[0])))
        return np.concatenate(parts)

    def probability(self, choices: Sequence[int], z: Sequence[int]) -> float:
        """P(z_b | do(a_b)), given all knobs' choices and all parents' codes."""
        code = 0
        for axis, size in zip(self.parents, self.shape, strict=True):
            code = code * size + z[axis]
        return float(self.row(tuple([choices[k] for k in self.knobs]))[code])

    def may_be_zero(self) -> bool:
        """Whether some configuration may be impossible under some choice; True if only a large table could tell."""
        return self.choices * self.configurations > SMALL_TABLE or bool((self.table == 0.0).any())

    def _row(self, choices: tuple[int, ...]) -> Array:
        """The row for one choice of this block's knobs."""
        return np.asarray(self.rows(np.array([choices], dtype=np.intp).reshape(1, -1))[0])

    def _some(self, choices: npt.NDArray[np.integer[Any]]) -> Array:
        operands: list[Any] = [np.ones(len(choices)), ["asked"]]
        for name in self.names:
            tensor, axes = self._factor(name)
            if name in self.knob_names:
                tensor, axes = tensor[choices[:, self.knob_names.index(name)]], ["asked", *axes]
            operands += [tensor, axes]
        return self._contract(operands, ["asked"], len(choices))

    @cached_property
    def _largest_for_one_choice(self) -> int:
        operands: list[Any] = []
        for name in self.names:
            tensor, axes = self._factor(name)
            operands += [tensor[0] if name in self.knob_names else tensor, axes]
        _, info = _path(operands, self._output([]))
        return max(1, int(info.largest_intermediate))

    def _factor(self, name: str) -> tuple[Array, list[Any]]:
        """A variable's table with its axes; a knob's has its choices in front."""
        v = self.model[name]
        axes = [axis for axis in (*v.parents, name) if len(self.model[axis].states) > 1]
        shape = [len(self.model[axis].states) for axis in axes]
        if name not in self.knob_names:
            return v.table.reshape(shape), axes
        size = len(v.states)
        forced = np.broadcast_to(np.eye(size).reshape(size, *[1] * (v.table.ndim - 1), size), (size, *v.table.shape))
        return np.concatenate([v.table[None], forced]).reshape(size + 1, *shape), axes

    def _output(self, front: list[Any]) -> list[Any]:
        return front + [name for name in self.parent_names if len(self.model[name].states) > 1]

    def _contract(self, operands: list[Any], front: list[Any], rows: int) -> Array:
        if rows * self.configurations > ENTRY_LIMIT:
            raise SizeError(self._too_large("itself", rows * self.configurations))
        output = self._output(front)
        path, info = _path(operands, output)
        if info.largest_intermediate > ENTRY_LIMIT:
            raise SizeError(self._too_large("on the way", int(info.largest_intermediate)))
        numbered = _numbered(operands, output)
        result = opt_einsum.contract(*numbered, optimize=path)
        return np.ascontiguousarray(result, dtype=np.float64).reshape(rows, self.configurations)

    def _too_large(self, where: str, entries: int) -> str:
        return (
            f"P({', '.join(self.parent_names)} | do({', '.join(self.knob_names)})) needs an array of {entries} "
            f"numbers ({entries * 8 / 2**30:.3g} GiB) {where}; the limit is {ENTRY_LIMIT} "
            f"({ENTRY_LIMIT * 8 / 2**30:.3g} GiB). Manipulate fewer of these variables, allow fewer actions "
            "(at_most=, a list of actions), or let a smaller set stand in for the parents."
        )


def find_blocks(model: CausalModel, manipulable: Sequence[str], parents: Sequence[str]) -> tuple[Block, ...]:
    """The blocks of z, in the order of their first parent."""
    parts = graphs.components(model.graph, graphs.ancestors(model.graph, parents))
    parts.sort(key=lambda part: min(i for i, name in enumerate(parents) if name in part))
    return tuple(Block(model, [n for n in model.order if n in part], manipulable, parents) for part in parts)


def _numbered(operands: list[Any], output: list[Any]) -> list[Any]:
    """The same contraction with axes named by numbers, as opt_einsum wants them."""
    numbers: dict[Any, int] = {}
    return [
        [numbers.setdefault(axis, len(numbers)) for axis in item] if isinstance(item, list) else item
        for item in [*operands, output]
    ]


def _path(operands: list[Any], output: list[Any]) -> tuple[Any, Any]:
    """An order of pairwise contractions and what it costs; a search only where the greedy one is too large."""
    numbered = _numbered(operands, output)
    path, info = opt_einsum.contract_path(*numbered, optimize="greedy")
    if info.largest_intermediate > ENTRY_LIMIT:
        seeded = random.getstate()  # the search seeds Python's global generator
        path, info = opt_einsum.contract_path(*numbered, optimize="random-greedy")
        random.setstate(seeded)
    return path, info
