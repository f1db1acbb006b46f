"""The blocks of z once something is known: by which variables are known, then by the values that each mentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from causalbandits._memory import Memory
from causalbandits.model import graph as graphs
from causalbandits.model.model import CausalModel
from causalbandits.problem.inference import Block, find_blocks
from causalbandits.problem.known_block import KnownBlock

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
