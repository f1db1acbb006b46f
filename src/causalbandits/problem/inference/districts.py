"""P(z | do(a)) where causes are hidden: a block's operands are districts, not variables.

With A what leads to z once what is always set is cut off from its causes, P(A | do(s)) is the product of Q over the
districts of A - s (`model.identification`). So each district of A is one operand: a choice axis for each of its own
knobs, then its members and their parents; the entry for a choice is the product of Q over the districts of what the
choice leaves and still leads to z, times point masses on what it sets. (What no longer leads to z is summed out
whatever its distribution is: all its values count alike.) Contracted as ever, that gives all choices at once. With no
hidden causes a district is one variable, and this is a block as it always was.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn, cast

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import NotIdentifiedError, ProblemError, SizeError
from causalbandits.model import CausalModel, ObservedModel
from causalbandits.model import graph as graphs
from causalbandits.model.graph import MODELS, UNSEEN_SHARE, MixedGraph, Named, aligned
from causalbandits.problem.actions import ActionSpace, Choices2D
from causalbandits.problem.inference.blocks import ENTRY_LIMIT, Block
from causalbandits.problem.inference.contraction import Operand
from causalbandits.problem.inference.factors import MODEL, Factor, is_looked_up


class DistrictBlock(Block):
    """A connected part of what leads to z, hidden causes being arrows, too."""

    def __init__(self, known: ObservedModel, names: Sequence[str], space: ActionSpace, parents: Sequence[str]) -> None:
        # A block asks its model for states and for tables of what no arrow leads to, and these are the same here.
        super().__init__(cast(CausalModel, known), names, space.names, parents)
        self._known, self._space = known, space
        graph = self._graph = known.causal_graph.mixed(known.names)
        own, always = graph.bits(names), graph.bits(space.surely_set())
        self._always = always
        self._operands = [self._operand(graph, district, always) for district in graph.without(always).districts(own)]

    def _operand(self, graph: MixedGraph, district: int, always: int) -> Factor:
        """A district's array, with the choices of its knobs in front."""
        knobs = tuple(name for name in graph.shown(district) if name in self.knob_names)
        axes = graph.shown(district | graph.parents_of(district & ~always))
        sizes = {name: len(self._known[name].states) for name in axes}
        wide = knobs[0] if self._is_wide(knobs, graph.shown(district)) else None
        front = () if wide else knobs
        shape = [sizes[name] + 1 for name in front] + list(sizes.values())
        if math.prod(shape) > ENTRY_LIMIT:
            raise SizeError(
                f"Hidden causes tie {', '.join(graph.shown(district))} together, and with their parents and choices "
                f"their table has {math.prod(shape)} cells; the limit is {ENTRY_LIMIT}. Manipulate fewer of them."
            )
        array = np.zeros(shape)
        for chosen in self._patterns(knobs):
            if wide and chosen:
                continue  # it is looked up
            left, needed = district & ~graph.bits(chosen), self._needed(graph, knobs, chosen)
            array[tuple(slice(1, None) if name in chosen else 0 for name in front)] = self._product(
                graph, left & needed, chosen, axes, sizes
            ) / math.prod(sizes[name] for name in graph.shown(left & ~needed))
        kept = [name for name in axes if sizes[name] > 1]
        return Factor(array.reshape(*(sizes[k] + 1 for k in front), *(sizes[n] for n in kept)), list(kept), front, wide)

    def _is_wide(self, knobs: tuple[str, ...], district: tuple[str, ...]) -> bool:
        """Whether a district is a knob of many values that may be set."""
        if knobs != district or len(knobs) > 1 or not is_looked_up(len(self._known[knobs[0]].states)):
            return False
        return knobs in self._patterns(knobs)

    def _product(
        self, graph: MixedGraph, left: int, chosen: Sequence[str], axes: tuple[str, ...], sizes: dict[str, int]
    ) -> Array:
        """Q of what a choice leaves, times point masses: an axis for each chosen knob, then the district's."""
        product = np.ones(list(sizes.values()))
        for part in graph.districts(left):
            factor = self._known.factor(graph.shown(part))
            if factor is None:
                self._refuse(chosen)
            product = product * aligned(factor, axes, sizes)
        for place, name in enumerate(reversed(chosen)):
            shape = [1] * (place + len(axes))
            shape[place + axes.index(name)] = sizes[name]
            product = product[None] * np.eye(sizes[name]).reshape(sizes[name], *shape)
        return product

    def _needed(self, graph: MixedGraph, knobs: Sequence[str], chosen: Sequence[str]) -> int:
        """What may still lead to z where just these of some knobs are set."""
        if self._space.listed is None:
            together = [self._space.always.intersection(self.knob_names).union(chosen)]
        else:
            together = [own for own in self._listed if own.intersection(knobs) == set(chosen)]
        goals, found = graph.bits(self.parent_names), 0
        for own in together:
            found |= graph.ancestors(goals, graph.all & ~graph.bits(own))
        return found

    def _patterns(self, knobs: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Which of some knobs may be set together."""
        if self._space.listed is not None:
            yield from dict.fromkeys(tuple(name for name in knobs if name in own) for own in self._listed)
            return
        for size in range(len(knobs) + 1):
            for chosen in itertools.combinations(knobs, size):
                if self._may_be_set(knobs, chosen):
                    yield chosen

    @cached_property
    def _listed(self) -> set[frozenset[str]]:
        """What the actions of a list set of this block's knobs."""
        rows = [[row[k] for k in self.knobs] for row in self._space.listed or ()]
        return {frozenset(n for n, choice in zip(self.knob_names, row, strict=True) if choice) for row in rows}

    def _may_be_set(self, knobs: Sequence[str], chosen: Sequence[str]) -> bool:
        """Whether some action sets these of some knobs, and no others of them."""
        space = self._space
        if space.listed is not None:
            return any(own.intersection(knobs) == set(chosen) for own in self._listed)
        most = len(space.names) if space.at_most is None else space.at_most
        return space.always.intersection(knobs) <= set(chosen) and len(space.always.union(chosen)) <= most

    def _refuse(self, chosen: Sequence[str]) -> NoReturn:
        done = [name for name in self._graph.names if name in chosen or self._always & self._graph.bits([name])]
        of = [name for name in self.parent_names if name not in done]
        if of:
            self._known.effect(of, do=done)  # which says why not
        raise NotIdentifiedError(
            f"P({', '.join(self.parent_names)} | do({', '.join(done)})) cannot be computed from what is observed. "
            "Learn a number per action: parents=[]."
        )

    def _all_choices(self) -> tuple[list[Operand], list[Any]]:
        operands = [
            Operand(array, [*(("choice", k) for k in knobs), *axes])
            if wide is None
            else Operand(_with_point_masses(array, axes.index(wide)), [("choice", wide), *axes])
            for array, axes, knobs, wide in self._operands
        ]
        return operands, self._output([("choice", k) for k in self.knob_names])

    def _made_of(self, tables: Mapping[str, Array]) -> Array:
        operands, _ = self._all_choices()
        table = self._of_all([operand.array for operand in operands])
        return self._given(table.reshape(self.choices, self.configurations))

    def _left_alone(self) -> list[Operand]:
        alone = [Operand(array[(0,) * len(knobs)], axes) for array, axes, knobs, _ in self._operands]
        return [Operand(np.ones(()), []), *alone]

    def _asked_factors(self) -> list[Factor]:
        return self._operands

    def rows(self, choices: Choices2D) -> Array:
        found = super().rows(choices)
        for row in np.flatnonzero(np.abs(found.sum(axis=1) - 1) > UNSEEN_SHARE).tolist():
            chosen = [name for name, choice in zip(self.knob_names, choices[row].tolist(), strict=True) if choice]
            if self._may_be_set(self.knob_names, chosen):
                found[row] = self._told_otherwise(choices[row].tolist())
        return found

    def _told_otherwise(self, choices: Sequence[int]) -> Array:
        """A row whose operands need what was never seen: by what this action needs alone, or refused."""
        codes = {name: choice - 1 for name, choice in zip(self.knob_names, choices, strict=True) if choice}
        do = {name: self.model[name].states[code] for name, code in codes.items()}
        of = [name for name in self.parent_names if name not in do]
        row = np.zeros(self.shape)
        row[tuple(codes.get(name, slice(None)) for name in self.parent_names)] = (
            self._known.distribution(of, do=do) if of else 1.0
        )
        return row.reshape(-1)

    def with_tables(self, tables: Any) -> NoReturn:
        raise ProblemError("Tables of what is observed do not say how variables come about: they are not learnt.")

    def under(self, tables: Mapping[str, Array], choices: Sequence[int]) -> Array:
        models = len(next(iter(tables.values())))
        step = max(1, ENTRY_LIMIT // 64 // self._order.largest)
        parts = [
            self._under({name: own[start : start + step] for name, own in tables.items()}, choices)
            for start in range(0, models, step)
        ]
        return np.concatenate(parts)

    def _under(self, tables: Mapping[str, Array], choices: Sequence[int]) -> Array:
        """P(z_b | do(a_b)) under a few models, a row each."""
        models = len(next(iter(tables.values())))
        operands = [Operand(np.ones(models), [MODEL])]
        for name, choice in zip(self.knob_names, choices, strict=True):
            if choice and len(self._known[name].states) > 1:
                operands.append(Operand(np.eye(len(self._known[name].states))[choice - 1], [name]))
        graph = self._graph
        chosen = [name for name, choice in zip(self.knob_names, choices, strict=True) if choice]
        needed = graph.ancestors(graph.bits(self.parent_names), graph.all & ~graph.bits(chosen) & ~self._always)
        for part in graph.districts(needed):
            factor = self._known.factor(graph.shown(part), tables)
            if factor is None:
                self._refuse(chosen)
            operands.append(self._without_units(factor))
        return self._of_models(operands, tuple(map(bool, choices)))

    def _without_units(self, factor: Named) -> Operand:
        """A factor without its axes of one state."""
        kept = [name for name in factor.axes if name == MODELS or len(self._known[name].states) > 1]
        shape = [size for name, size in zip(factor.axes, factor.array.shape, strict=True) if name in kept]
        return Operand(factor.array.reshape(shape), [MODEL if name == MODELS else name for name in kept])


def _with_point_masses(array: Array, axis: int) -> Array:
    """What is left alone, then a point mass on each value of a knob."""
    points = np.eye(array.shape[axis]).reshape([-1, *(n if i == axis else 1 for i, n in enumerate(array.shape))])
    return np.concatenate([array[None], np.broadcast_to(points, (len(points), *array.shape))])


def district_blocks(known: ObservedModel, space: ActionSpace, parents: Sequence[str]) -> tuple[Block, ...]:
    """The blocks of z, in the order of their first parent."""
    cut = graphs.without_causes_of(known.graph, space.surely_set())
    parts = graphs.components(cut, graphs.ancestors(cut, parents))
    parts.sort(key=lambda part: min(i for i, name in enumerate(parents) if name in part))
    return tuple(DistrictBlock(known, [n for n in known.order if n in part], space, parents) for part in parts)
