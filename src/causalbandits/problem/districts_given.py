"""The blocks of z once something is known, where causes are hidden.

What is known beforehand is changed by no action, so that P(z | do(a), c) = P(z, c | do(a)) / P(c): it is computed from
what is observed if and only if the joint distribution is. Blocks are found with c among what they tell of, cut at what
is known, and each row is divided by its sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from causalbandits._memory import Memory
from causalbandits._types import Array
from causalbandits.errors import ProblemError
from causalbandits.model.model import CausalModel
from causalbandits.model.observed import ObservedModel
from causalbandits.problem.actions import ActionSpace, Choices2D
from causalbandits.problem.districts import district_blocks
from causalbandits.problem.given import BLOCKS_KEPT, PARTS_KEPT, BlocksGiven
from causalbandits.problem.inference import Block
from causalbandits.problem.known_block import KnownBlock


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
