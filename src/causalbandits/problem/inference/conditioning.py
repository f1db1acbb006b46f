"""The blocks of z once something is known: by which variables are known, then by the values that each mentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from causalbandits._cache import Memory
from causalbandits._typing import Array
from causalbandits.errors import ProblemError
from causalbandits.model import CausalModel, ObservedModel
from causalbandits.model import graph as graphs
from causalbandits.problem.actions import ActionSpace, Choices2D
from causalbandits.problem.inference.blocks import Block, KnownBlock, find_blocks
from causalbandits.problem.inference.districts import district_blocks

PARTS_KEPT, BLOCKS_KEPT = 2**8, 2**12
"""For so many sets of known variables the graph's parts are remembered, and so many blocks."""


class Component(NamedTuple):
    """A block before values are known: its variables, and the known ones that its tables mention."""

    names: tuple[str, ...]
    mentioned: tuple[str, ...]
    effects: tuple[str, ...]
    """The known variables that it has causes of."""


class BlocksGiven:
    """P(z | do(a), c) by blocks, for any values of any of the variables that may be known beforehand.

    Contexts that differ in nothing that a block mentions share it: 4096 contexts of six blocks may need 24 of them.
    """

    def __init__(self, model: CausalModel, manipulable: Sequence[str], parents: Sequence[str]) -> None:
        self._model, self._manipulable, self._parents = model, tuple(manipulable), tuple(parents)
        self._parts: Memory[frozenset[str], tuple[Component, ...]] = Memory(PARTS_KEPT)
        self._blocks: Memory[tuple[tuple[str, ...], tuple[tuple[str, int], ...]], Block] = Memory(BLOCKS_KEPT)

    def __call__(self, known: Mapping[str, int]) -> tuple[Block, ...]:
        """The blocks, in the order of their first parent; refused if what is known is impossible."""
        if not known:
            return find_blocks(self._model, self._manipulable, self._parents)
        which = frozenset(known)
        parts = self._parts.get(which)
        if parts is None:
            parts = self._parts.keep(which, self._found(which))
        return tuple([self._block(part, known) for part in parts])

    def _found(self, which: frozenset[str]) -> tuple[Component, ...]:
        """Every part that holds a parent, and every parent that is known, as a part of its own."""
        graph, free = self._model.graph, [name for name in self._parents if name not in which]
        parts = graphs.parts_given(graph, free, which) if free else []
        parts += [{name} for name in self._parents if name in which]
        parts.sort(key=lambda part: min(i for i, name in enumerate(self._parents) if name in part))
        return tuple(self._part(part, which) for part in parts)

    def _part(self, part: set[str], which: frozenset[str]) -> Component:
        if part <= which:
            return Component(tuple(part), tuple(part), ())
        model = self._model
        names = tuple(name for name in model.order if name in part)
        effects = tuple(n for n in model.order if n in which and not part.isdisjoint(model[n].parents))
        causes = {cause for name in (*names, *effects) for cause in model[name].parents}
        return Component(names, tuple(n for n in model.order if n in which and (n in causes or n in effects)), effects)

    def _block(self, part: Component, known: Mapping[str, int]) -> Block:
        told = tuple([(name, known[name]) for name in part.mentioned])
        block = self._blocks.get((part.names, told))
        if block is None:
            block = self._blocks.keep((part.names, told), self._made(part, dict(told)))
        return block

    def _made(self, part: Component, told: dict[str, int]) -> Block:
        if part.names == part.mentioned and not part.effects and part.names[0] in told:
            return KnownBlock(self._model, part.names[0], self._parents, told[part.names[0]])
        block = Block(self._model, part.names, self._manipulable, self._parents, told, part.effects)
        if part.effects:
            block.row((0,) * len(block.knobs))  # which is refused if what is known is impossible
        return block


# The blocks of z once something is known, where causes are hidden.
#
# What is known beforehand is changed by no action, so that P(z | do(a), c) = P(z, c | do(a)) / P(c): it is computed
# from
# what is observed if and only if the joint distribution is. Blocks are found with c among what they tell of, cut at
# what
# is known, and each row is divided by its sum.


class DistrictsGiven:
    """P(z | do(a), c) by blocks, for any values of any of the variables that may be known beforehand."""

    def __init__(self, known: ObservedModel, space: ActionSpace, parents: Sequence[str]) -> None:
        self._known, self._space, self._parents = known, space, tuple(parents)
        self._joint: Memory[frozenset[str], tuple[Block, ...]] = Memory(PARTS_KEPT)
        self._blocks: Memory[tuple[tuple[str, ...], tuple[tuple[str, int], ...]], Block] = Memory(BLOCKS_KEPT)

    def __call__(self, known: Mapping[str, int]) -> tuple[Block, ...]:
        """The blocks, in the order of their first parent; refused if what is known is impossible."""
        joint = self._with(frozenset(known))
        if not known:
            return joint
        found = [self._block(block, known) for block in joint if not known.keys() >= set(block.parent_names)]
        found += [self._point(name, known[name]) for name in self._parents if name in known]
        return tuple(sorted(found, key=lambda block: block.parents))

    def check(self, context: Sequence[str]) -> None:
        """Refuse now what could not be computed once the context is known."""
        self._with(frozenset(context))

    def _with(self, which: frozenset[str]) -> tuple[Block, ...]:
        """The blocks of z and of what is known."""
        found = self._joint.get(which)
        if found is None:
            more = [name for name in self._known.names if name in which and name not in self._parents]
            found = self._joint.keep(which, district_blocks(self._known, self._space, [*self._parents, *more]))
        return found

    def _block(self, joint: Block, known: Mapping[str, int]) -> Block:
        told = tuple((name, known[name]) for name in joint.parent_names if name in known)
        found = self._blocks.get((joint.parent_names, told))
        if found is None:
            made = CutBlock(joint, self._space.names, self._parents, dict(told))
            found = self._blocks.keep((joint.parent_names, told), made)
        return found

    def _point(self, name: str, code: int) -> Block:
        return KnownBlock(self._known.left_alone, name, self._parents, code)


def blocks_given(
    model: CausalModel | ObservedModel, space: ActionSpace, parents: Sequence[str]
) -> BlocksGiven | DistrictsGiven:
    """P(z | do(a), c) by blocks, from whichever is known."""
    if isinstance(model, ObservedModel):
        return DistrictsGiven(model, space, parents)
    return BlocksGiven(model, space.names, parents)


class CutBlock(Block):
    """A block of z and of what is known, cut at what is known."""

    def __init__(
        self, joint: Block, manipulable: Sequence[str], parents: Sequence[str], told: Mapping[str, int]
    ) -> None:
        names = [name for name in joint.names if name not in told]
        super().__init__(joint.model, names, manipulable, parents)
        self._joint, self._told = joint, told
        self._where: tuple[Any, ...] = tuple(told.get(name, slice(None)) for name in joint.parent_names)
        # Their order is that of z in both, so that nothing needs to be transposed.
        assert [name for name in joint.parent_names if name not in told] == list(self.parent_names)

    @cached_property
    def table(self) -> Array:
        table = self._cut(self._joint.table)
        table.setflags(write=False)
        return table

    def rows(self, choices: Choices2D) -> Array:
        return self._cut(self._joint.rows(choices))

    def under(self, tables: Mapping[str, Array], choices: Sequence[int]) -> Array:
        return self._cut(self._joint.under(tables, choices))

    def with_tables(self, tables: Mapping[str, Array]) -> Block:
        return self._joint.with_tables(tables)  # which is refused

    def _cut(self, rows: Array) -> Array:
        """Rows of the joint distribution as distributions of z given what is known; what no action makes stays 0."""
        if not self._told:
            return rows
        cut = rows.reshape(-1, *self._joint.shape)[:, *self._where].reshape(len(rows), -1)
        total = np.cumsum(cut, axis=1)[:, -1:]  # in order, whatever the other rows are
        if not (total > 0.0).any():
            told = ", ".join(f"{name}={self.model[name].states[code]!r}" for name, code in self._told.items())
            raise ProblemError(
                f"The context {told} has probability 0 by what is observed, so that nothing is known of what an action "
                "does there. Gather rows of that kind, fit with a prior above 0, or leave it out of context."
            )
        return np.asarray(np.divide(cut, total, out=np.zeros(cut.shape), where=total > 0.0))
