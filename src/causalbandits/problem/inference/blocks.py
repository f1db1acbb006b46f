"""P(z | do(a)), exactly: one tensor contraction per block, with a choice axis for every manipulable variable.

Slot 0 of a variable's choice axis holds its natural mechanism, slot j a point mass on its j-th state; the
contraction then yields the distribution for all choices at once. *Blocks* are the connected components of the ancestral
graph of z. Different blocks share no variable, so P(z | do(a)) is the product of their distributions:

    P(z | do(a)) = prod_b P(z_b | do(a_b)).

Given a context, blocks are the parts that remain connected after conditioning. Their CPTs are sliced at the known
values, the CPTs of known effects are included, and each row is divided by its sum. This sum is the probability of the
known values, which is equal for every action.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array
from causalbandits.errors import ProblemError, SizeError
from causalbandits.model import CausalModel
from causalbandits.model import graph as graphs
from causalbandits.problem.actions import Choices2D
from causalbandits.problem.inference.contraction import (
    Contraction,
    Operand,
    Order,
    contract,
    contract_in_order,
    contraction,
    find_order,
)
from causalbandits.problem.inference.factors import (
    MODEL,
    QUERY,
    Factor,
    FactorLayout,
    QueryFactors,
    build_factor_layout,
    is_looked_up,
)

DRAW_BATCH_SIZE = 2**22
"""The number of entries of sampled distributions that are computed at once."""

ENTRY_LIMIT = 2**27
"""The largest number of 8-byte entries of an array in a contraction (1 GiB)."""

SMALL_TABLE = 2**20
"""The largest distribution array of a block that is always computed for all choices."""

SMALL_FACTOR = 2**24
"""The largest factor with all choices in such a block; the factor of a manipulable variable has its values
squared.
"""

CONTRACTION_BATCH_SIZE = 2**18
"""The approximate number of entries of the largest intermediate array, which limits the rows of larger blocks per
batch.
"""

ROW_CACHE_SIZE, ROW_CACHE_NUMBERS = 2**12, 2**20
"""The largest number of cached rows of a block, and of their entries together."""

PLAN_CACHE_SIZE = 2**6
"""The number of patterns of set variables for which the contraction over many models is cached."""

RowBuilder = Callable[[Mapping[str, Array]], Array]
"""A function from CPTs, by variable, to rows P(z_b | .)."""


class Block:
    """A connected part of z's ancestral graph, with its own manipulable variables and parents of the reward.

    `manipulable` and `parents` are positions among the manipulable variables and among z. `evidence` has the codes of
    known variables outside the block, `effects` those of them with a parent in the block.
    """

    point: int | None = None
    """The code of its parent, if it is known."""

    def __init__(
        self,
        model: CausalModel,
        names: Sequence[str],
        manipulable: Sequence[str],
        parents: Sequence[str],
        evidence: Mapping[str, int] = MappingProxyType({}),
        effects: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.names = tuple(names)
        self.evidence, self.effects = dict(evidence), tuple(effects)
        self._cpts: Mapping[str, Array] = {name: model[name].table for name in self._factor_names}
        self.manipulable = tuple(i for i, name in enumerate(manipulable) if name in names)
        self.parents = tuple(i for i, name in enumerate(parents) if name in names)
        self.manipulable_names = tuple(manipulable[i] for i in self.manipulable)
        self.parent_names = tuple(parents[i] for i in self.parents)
        self.radices = tuple(len(model[name].states) + 1 for name in self.manipulable_names)
        self.shape = tuple(len(model[name].states) for name in self.parent_names)
        self.choices = math.prod(self.radices)
        self.configurations = math.prod(self.shape)
        self._row_cache: BoundedCache[tuple[int, ...], Array] = BoundedCache(self.row_cache_size)
        self._plan_cache: BoundedCache[tuple[int, tuple[bool, ...]], Contraction] = BoundedCache(PLAN_CACHE_SIZE)
        self._last: tuple[Mapping[str, Array], Array] | None = None

    def __repr__(self) -> str:
        return f"Block(manipulable={list(self.manipulable_names)}, parents={list(self.parent_names)})"

    def __getstate__(self) -> dict[str, Any]:
        derived = ("table", "is_small", "_full_contraction", "_layout")
        return {key: value for key, value in self.__dict__.items() if key not in derived} | {"_last": None}

    @property
    def row_cache_size(self) -> int:
        """The number of rows that are cached, here and in other caches."""
        return max(1, min(ROW_CACHE_SIZE, ROW_CACHE_NUMBERS // self.configurations))

    @cached_property
    def is_small(self) -> bool:
        """Whether the distributions of all choices are computed at the first request."""
        small = self.choices * self.configurations <= SMALL_TABLE
        return small and all(layout.size <= SMALL_FACTOR for layout in self._layout.values())

    def code(self, choices: Sequence[int]) -> int:
        """The row of `table` for an action's choices (for all manipulable variables)."""
        code = 0
        for variable, radix in zip(self.manipulable, self.radices, strict=True):
            code = code * radix + choices[variable]
        return code

    def _choices(self, codes: npt.NDArray[np.intp]) -> Choices2D:
        """The choices of these rows of `table`."""
        choices = np.empty((len(codes), len(self.radices)), dtype=np.intp)
        for column in reversed(range(len(self.radices))):
            codes, choices[:, column] = np.divmod(codes, self.radices[column])
        return choices

    @cached_property
    def table(self) -> Array:
        """P(z_b | do(a_b)) for every choice: one row per choice, one column per configuration."""
        table = self._table_from(self._cpts) if self.is_small else self._rows_in_parts(self.choices, self._choices)
        table.setflags(write=False)
        return table

    def _table_from(self, cpts: Mapping[str, Array]) -> Array:
        """The distributions of a small block under these CPTs."""
        table = self._full_contraction(
            [layout.operand_with_choices(cpts[name]).array for name, layout in self._layout.items()]
        )
        return self._condition_on_effects(table.reshape(self.choices, self.configurations))

    @cached_property
    def _full_contraction(self) -> Contraction:
        """The contraction for `table`, which depends on the sizes of the factors only."""
        operands, output = self._operands_with_choices()
        self._validate_size(self.choices)
        return contraction(operands, self._find_order(operands, output).steps, output)

    def _operands_with_choices(self) -> tuple[list[Operand], list[Any]]:
        """The factors with all choices of the block's variables, and the axes of the result."""
        factors = [layout.operand_with_choices(self._cpts[name]) for name, layout in self._layout.items()]
        return factors, self._output([("choice", k) for k in self.manipulable_names])

    def with_cpts(self, cpts: Mapping[str, Array]) -> Block:
        """The block under other CPTs. It shares the order of contraction."""
        _ = self._layout, self._full_contraction if self.is_small else self._order
        copy = Block.__new__(Block)
        copy.__dict__.update({key: value for key, value in self.__dict__.items() if key != "table"})
        copy._cpts, copy._row_cache = cpts, BoundedCache(self.row_cache_size)
        return copy

    def rows(self, choices: Choices2D) -> Array:
        """P(z_b | do(a_b)) for some choices for this block's variables, one row each.

        The bits of a row do not depend on the other requested choices, nor on whether `table` is cached.
        """
        if self.is_small or 4 * len(choices) >= self.choices or "table" in self.__dict__:
            return np.asarray(self.table[self._codes(choices)])
        return self._rows_in_parts(len(choices), lambda part: choices[part])

    def _codes(self, choices: Choices2D) -> npt.NDArray[np.intp]:
        """The rows of `table` for these choices."""
        codes = np.zeros(len(choices), dtype=np.intp)
        for column, radix in enumerate(self.radices):
            codes = codes * radix + choices[:, column]
        return codes

    def row_builder(self, choices: Choices2D) -> RowBuilder:
        """A function from CPTs to the `rows` of these choices.

        The result for the latest CPTs is cached, because other contexts with the same block request it, too.
        """
        if not self.is_small:
            return lambda cpts: self.with_cpts(cpts).rows(choices)
        codes = self._codes(choices)

        def rows(cpts: Mapping[str, Array]) -> Array:
            last = self._last
            if last is None or last[0] is not cpts:
                last = self._last = cpts, self._table_from(cpts)
            return np.asarray(last[1][codes])

        return rows

    def row(self, choices: tuple[int, ...]) -> Array:
        """The row for one choice for this block's variables."""
        row = self._row_cache.get(choices)
        if row is None:
            row = self._row_cache.store(choices, self.rows(np.array([choices], dtype=np.intp).reshape(1, -1))[0])
            row.setflags(write=False)
        return row

    def rows_under_models(self, cpts: Mapping[str, Array], choices: Sequence[int]) -> Array:
        """P(z_b | do(a_b)) under many models at once, one row each: `cpts` have the models on their first axis.

        `choices` are those for this block's variables.
        """
        choice_by_name = dict(zip(self.manipulable_names, choices, strict=True))
        models = len(next(iter(cpts.values())))
        step = max(1, ENTRY_LIMIT // 64 // self._order.largest)
        parts = []
        for start in range(0, models, step):
            operands = [Operand(np.ones(min(step, models - start)), [MODEL])]
            for name, layout in self._layout.items():
                if choice_by_name.get(name):
                    operands.append(layout.point_mass_operand(choice_by_name[name]))
                else:
                    operands.append(layout.observational_operand(cpts[name][start : start + step], MODEL))
            parts.append(self._contract_models(operands, tuple(map(bool, choices))))
        return np.concatenate(parts)

    def _contract_models(self, operands: list[Operand], is_set: tuple[bool, ...]) -> Array:
        """Contract many models; the order depends on the set variables and on the number of models."""
        models, output = len(operands[0].array), self._output([MODEL])
        plan = self._plan_cache.get((models, is_set))
        if plan is None:
            self._validate_size(models)
            order = self._find_order(operands, output)
            plan = self._plan_cache.store((models, is_set), contraction(operands, order.steps, output))
        rows = plan([array for array, _ in operands])
        return self._condition_on_effects(rows.reshape(models, self.configurations))

    def probability(self, choices: Sequence[int], z: Sequence[int]) -> float:
        """P(z_b | do(a_b)), from the choices for all manipulable variables and the codes of all parents."""
        code = 0
        for axis, size in zip(self.parents, self.shape, strict=True):
            code = code * size + z[axis]
        return float(self.row(tuple([choices[k] for k in self.manipulable]))[code])

    def evidence_probability(self) -> float:
        """The observational probability of the evidence; that of all evidence if all of it are `effects`."""
        operands = self._observational_operands()
        return float(contract(operands, self._find_order(operands, []).steps, []).item())

    def may_be_zero(self) -> bool:
        """Whether some configuration may have probability 0 under some choice; True if only a large array could
        decide it.
        """
        return not self.is_small or bool((self.table == 0.0).any())

    def _rows_in_parts(self, rows: int, choices: Callable[[npt.NDArray[np.intp]], Choices2D]) -> Array:
        """Rows of a large block in batches, given the choices of each batch."""
        self._validate_size(rows)
        table, contract_rows = np.empty((rows, self.configurations)), self._row_contraction()
        step = max(1, CONTRACTION_BATCH_SIZE // self._order.largest)
        for start in range(0, rows, step):
            part = np.arange(start, min(start + step, rows))
            table[part[0] : part[-1] + 1] = contract_rows(choices(part))
        return table

    def _row_contraction(self) -> Callable[[Choices2D], Array]:
        """A function from choices to their rows; parts that do not depend on the choices are computed once."""
        factors = QueryFactors(self._query_factors(), self.manipulable_names, self.parent_names)

        def contract_rows(choices: Choices2D) -> Array:
            rows = np.empty((len(choices), self.configurations))
            for group in factors.groups(choices):
                rows[group] = self._contract_query(factors.operands(choices[group]))
            return self._condition_on_effects(rows)

        return contract_rows

    def _query_factors(self) -> list[Factor]:
        factors = []
        for name, layout in self._layout.items():
            if layout.values is None or is_looked_up(layout.values):
                factors.append(
                    Factor(
                        *layout.observational_operand(self._cpts[name]), wide=None if layout.values is None else name
                    )
                )
            else:
                array, (_, *axes) = layout.operand_with_choices(self._cpts[name])
                factors.append(Factor(array, axes, (name,)))
        return factors

    def _contract_query(self, operands: list[Operand]) -> Array:
        """The rows of the requested choices."""
        return contract_in_order(operands, self._order.steps, self._output([QUERY])).reshape(-1, self.configurations)

    @cached_property
    def _order(self) -> Order:
        """The order of contraction, which depends on the block alone. If it depended on the number of choices, the
        last bits of rows would, too.
        """
        return self._find_order(self._observational_operands(), self._output([]))

    def _observational_operands(self) -> list[Operand]:
        """The CPTs without interventions."""
        return [
            Operand(np.ones(()), []),
            *(layout.observational_operand(self._cpts[name]) for name, layout in self._layout.items()),
        ]

    @property
    def _factor_names(self) -> tuple[str, ...]:
        """The variables whose CPTs are multiplied."""
        return (*self.names, *self.effects)

    @cached_property
    def _layout(self) -> dict[str, FactorLayout]:
        return {
            name: build_factor_layout(self.model, name, name in self.manipulable_names, self.evidence)
            for name in self._factor_names
        }

    def _condition_on_effects(self, rows: Array) -> Array:
        """Condition joint distributions of z_b and the known effects on the effects."""
        if not self.effects:
            return rows
        total = np.cumsum(rows, axis=1)[:, -1:]  # in order, independently of the other rows
        if not (total > 0.0).all():
            evidence_text = ", ".join(
                f"{name}={self.model[name].states[code]!r}" for name, code in self.evidence.items()
            )
            raise ProblemError(
                f"The context has probability 0 in the model: {evidence_text}. Check the values, or the model."
            )
        return np.asarray(rows / total)

    def _output(self, front: list[Any]) -> list[Any]:
        return front + [name for name in self.parent_names if len(self.model[name].states) > 1]

    def _find_order(self, operands: list[Operand], output: list[Any]) -> Order:
        order = find_order(operands, output, ENTRY_LIMIT)
        if order.largest > ENTRY_LIMIT:
            raise SizeError(self._too_large_message("during the computation", order.largest))
        return order

    def _validate_size(self, rows: int) -> None:
        if rows * self.configurations > ENTRY_LIMIT:
            raise SizeError(self._too_large_message("itself", rows * self.configurations))

    def _too_large_message(self, place: str, entries: int) -> str:
        return (
            f"P({', '.join(self.parent_names)} | do({', '.join(self.manipulable_names)})) needs an array of {entries} "
            f"numbers ({entries * 8 / 2**30:.3g} GiB) {place}; the limit is {ENTRY_LIMIT} "
            f"({ENTRY_LIMIT * 8 / 2**30:.3g} GiB). Use fewer manipulable variables, fewer actions (max_set=, "
            'actions=), or a smaller adjustment set (adjust="smallest").'
        )


def find_blocks(model: CausalModel, manipulable: Sequence[str], parents: Sequence[str]) -> tuple[Block, ...]:
    """The blocks of z, in the order of their first parent."""
    parts = graphs.components(model.graph, graphs.ancestors(model.graph, parents))
    parts.sort(key=lambda part: min(i for i, name in enumerate(parents) if name in part))
    return tuple(Block(model, [n for n in model.order if n in part], manipulable, parents) for part in parts)


def joint_distribution(blocks: Sequence[Block], shape: tuple[int, ...], rows: Sequence[Array]) -> Array:
    """The product of the blocks' distributions, combined row by row: the first axis are rows, the others
    variables.
    """
    product = np.ones((len(rows[0]), 1))
    for row in rows:
        product = (product[:, :, None] * row[:, None, :]).reshape(len(row), -1)
    axes = [axis for block in blocks for axis in block.parents]
    by_block = product.reshape(-1, *(shape[axis] for axis in axes))
    return np.ascontiguousarray(by_block.transpose(0, *(1 + np.argsort(axes))))


# A block of one variable whose value is known before the decision.


class PointMassBlock(Block):
    """A variable of z with a known value: one row, a point mass."""

    def __init__(self, model: CausalModel, name: str, parents: Sequence[str], code: int) -> None:
        super().__init__(model, [name], (), parents)
        self.point: int = code

    @cached_property
    def table(self) -> Array:
        table: Array = (np.arange(self.configurations) == self.point)[None].astype(np.float64)
        table.setflags(write=False)
        return table

    def with_cpts(self, cpts: Mapping[str, Array]) -> Block:
        return self

    def row_builder(self, choices: Choices2D) -> RowBuilder:
        rows = self.rows(choices)
        return lambda cpts: rows

    def rows_under_models(self, cpts: Mapping[str, Array], choices: Sequence[int]) -> Array:
        return np.tile(self.table, (len(next(iter(cpts.values()))), 1))
