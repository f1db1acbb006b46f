"""P(z | do(a)) with unobserved confounders: the operands of a block are districts, not variables.

Let A be the ancestors of z after removing the edges into variables that are always set. Then P(A | do(s)) is the
product of Q over the districts of A - s (`model.graph.identification`). So each district of A is one operand, with a
choice axis for each of its own manipulable variables, and axes for its members and their parents. The entry for a
choice is the product of Q over the districts that remain after the intervention and are still ancestors of z, times
point masses on the set values. (Variables that are no longer ancestors of z are summed out; all their values have
equal weight.) The contraction then gives all choices at once. Without unobserved confounders, a district is one
variable, and the block equals an ordinary one.
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
from causalbandits.model import CausalModel, LatentModel
from causalbandits.model import graph as graphs
from causalbandits.model.graph import ADMG, MODELS, UNSEEN_SHARE, NamedArray, align_axes
from causalbandits.problem.actions import ActionSpace, Choices2D
from causalbandits.problem.inference.blocks import ENTRY_LIMIT, Block
from causalbandits.problem.inference.contraction import Operand
from causalbandits.problem.inference.factors import MODEL, Factor, is_looked_up


class DistrictBlock(Block):
    """A connected part of z's ancestral graph, in which bidirected edges connect, too."""

    def __init__(
        self, latent_model: LatentModel, names: Sequence[str], space: ActionSpace, parents: Sequence[str]
    ) -> None:
        # A block reads only states and the CPTs of roots from its model, and these are the same here.
        super().__init__(cast(CausalModel, latent_model), names, space.names, parents)
        self._latent_model, self._space = latent_model, space
        graph = self._graph = latent_model.causal_graph.admg(latent_model.names)
        nodes, always = graph.bits(names), graph.bits(space.variables_always_set())
        self._always = always
        self._district_factors = [
            self._build_factor(graph, district, always) for district in graph.without_edges_of(always).districts(nodes)
        ]

    def _build_factor(self, graph: ADMG, district: int, always: int) -> Factor:
        """A district's array, with the choices of its manipulable variables as first axes."""
        manipulable = tuple(name for name in graph.names_of(district) if name in self.manipulable_names)
        axes = graph.names_of(district | graph.parents_of(district & ~always))
        sizes = {name: len(self._latent_model[name].states) for name in axes}
        wide = manipulable[0] if self._is_wide(manipulable, graph.names_of(district)) else None
        front = () if wide else manipulable
        shape = [sizes[name] + 1 for name in front] + list(sizes.values())
        if math.prod(shape) > ENTRY_LIMIT:
            raise SizeError(
                f"{', '.join(graph.names_of(district))} are confounded, and the joint table with their parents and "
                f"choices has {math.prod(shape)} cells; the limit is {ENTRY_LIMIT}. Use fewer manipulable variables "
                "among them."
            )
        array = np.zeros(shape)
        for set_names in self._settable_patterns(manipulable):
            if wide and set_names:
                continue  # set values are looked up
            unset, ancestral = district & ~graph.bits(set_names), self._ancestral_nodes(graph, manipulable, set_names)
            array[tuple(slice(1, None) if name in set_names else 0 for name in front)] = self._product(
                graph, unset & ancestral, set_names, axes, sizes
            ) / math.prod(sizes[name] for name in graph.names_of(unset & ~ancestral))
        kept_axes = [name for name in axes if sizes[name] > 1]
        return Factor(
            array.reshape(*(sizes[k] + 1 for k in front), *(sizes[n] for n in kept_axes)), list(kept_axes), front, wide
        )

    def _is_wide(self, manipulable: tuple[str, ...], district: tuple[str, ...]) -> bool:
        """Whether a district is a single manipulable variable with many values that may be set."""
        if (
            manipulable != district
            or len(manipulable) > 1
            or not is_looked_up(len(self._latent_model[manipulable[0]].states))
        ):
            return False
        return manipulable in self._settable_patterns(manipulable)

    def _product(
        self, graph: ADMG, unset: int, set_names: Sequence[str], axes: tuple[str, ...], sizes: dict[str, int]
    ) -> Array:
        """Q of the remaining variables, times point masses: one axis for each set variable, then the district's
        axes.
        """
        product = np.ones(list(sizes.values()))
        for part in graph.districts(unset):
            factor = self._latent_model.factor(graph.names_of(part))
            if factor is None:
                self._raise_not_identified(set_names)
            product = product * align_axes(factor, axes, sizes)
        for place, name in enumerate(reversed(set_names)):
            shape = [1] * (place + len(axes))
            shape[place + axes.index(name)] = sizes[name]
            product = product[None] * np.eye(sizes[name]).reshape(sizes[name], *shape)
        return product

    def _ancestral_nodes(self, graph: ADMG, manipulable: Sequence[str], set_names: Sequence[str]) -> int:
        """The remaining ancestors of z if exactly these of some manipulable variables are set."""
        if self._space.explicit_choices is None:
            set_patterns = [self._space.always_set.intersection(self.manipulable_names).union(set_names)]
        else:
            set_patterns = [
                pattern for pattern in self._patterns_in_list if pattern.intersection(manipulable) == set(set_names)
            ]
        goals, ancestral = graph.bits(self.parent_names), 0
        for pattern in set_patterns:
            ancestral |= graph.ancestors(goals, graph.all_nodes & ~graph.bits(pattern))
        return ancestral

    def _settable_patterns(self, manipulable: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """The subsets of some manipulable variables that may be set together."""
        if self._space.explicit_choices is not None:
            yield from dict.fromkeys(
                tuple(name for name in manipulable if name in pattern) for pattern in self._patterns_in_list
            )
            return
        for size in range(len(manipulable) + 1):
            for set_names in itertools.combinations(manipulable, size):
                if self._may_be_set(manipulable, set_names):
                    yield set_names

    @cached_property
    def _patterns_in_list(self) -> set[frozenset[str]]:
        """The sets of this block's variables that the actions of a list set."""
        rows = [[row[k] for k in self.manipulable] for row in self._space.explicit_choices or ()]
        return {frozenset(n for n, choice in zip(self.manipulable_names, row, strict=True) if choice) for row in rows}

    def _may_be_set(self, manipulable: Sequence[str], set_names: Sequence[str]) -> bool:
        """Whether some action sets exactly these of some manipulable variables."""
        space = self._space
        if space.explicit_choices is not None:
            return any(pattern.intersection(manipulable) == set(set_names) for pattern in self._patterns_in_list)
        most = len(space.names) if space.max_set is None else space.max_set
        return (
            space.always_set.intersection(manipulable) <= set(set_names)
            and len(space.always_set.union(set_names)) <= most
        )

    def _raise_not_identified(self, set_names: Sequence[str]) -> NoReturn:
        intervened = [
            name for name in self._graph.names if name in set_names or self._always & self._graph.bits([name])
        ]
        of = [name for name in self.parent_names if name not in intervened]
        if of:
            self._latent_model.effect(of, do=intervened)  # raises an error with the reason
        raise NotIdentifiedError(
            f"P({', '.join(self.parent_names)} | do({', '.join(intervened)})) is not identified from the observed "
            "variables. Learn a mean per action: reward_parents=[]."
        )

    def _operands_with_choices(self) -> tuple[list[Operand], list[Any]]:
        operands = [
            Operand(array, [*(("choice", k) for k in manipulable), *axes])
            if wide is None
            else Operand(_with_point_masses(array, axes.index(wide)), [("choice", wide), *axes])
            for array, axes, manipulable, wide in self._district_factors
        ]
        return operands, self._output([("choice", k) for k in self.manipulable_names])

    def _table_from(self, cpts: Mapping[str, Array]) -> Array:
        operands, _ = self._operands_with_choices()
        table = self._full_contraction([operand.array for operand in operands])
        return self._condition_on_effects(table.reshape(self.choices, self.configurations))

    def _observational_operands(self) -> list[Operand]:
        operands = [
            Operand(array[(0,) * len(manipulable)], axes) for array, axes, manipulable, _ in self._district_factors
        ]
        return [Operand(np.ones(()), []), *operands]

    def _query_factors(self) -> list[Factor]:
        return self._district_factors

    def rows(self, choices: Choices2D) -> Array:
        rows = super().rows(choices)
        for row in np.flatnonzero(np.abs(rows.sum(axis=1) - 1) > UNSEEN_SHARE).tolist():
            set_names = [
                name for name, choice in zip(self.manipulable_names, choices[row].tolist(), strict=True) if choice
            ]
            if self._may_be_set(self.manipulable_names, set_names):
                rows[row] = self._identify_row(choices[row].tolist())
        return rows

    def _identify_row(self, choices: Sequence[int]) -> Array:
        """A row whose contraction needs unobserved values: identified for this action alone, or an error."""
        codes = {name: choice - 1 for name, choice in zip(self.manipulable_names, choices, strict=True) if choice}
        do = {name: self.model[name].states[code] for name, code in codes.items()}
        of = [name for name in self.parent_names if name not in do]
        row = np.zeros(self.shape)
        row[tuple(codes.get(name, slice(None)) for name in self.parent_names)] = (
            self._latent_model.distribution(of, do=do) if of else 1.0
        )
        return row.reshape(-1)

    def with_cpts(self, cpts: Any) -> NoReturn:
        raise ProblemError(
            "A LatentModel has no CPT per variable, so a policy cannot learn CPTs online. Use a policy with "
            "cpts='known'."
        )

    def rows_under_models(self, cpts: Mapping[str, Array], choices: Sequence[int]) -> Array:
        models = len(next(iter(cpts.values())))
        step = max(1, ENTRY_LIMIT // 64 // self._order.largest)
        parts = [
            self._rows_under_batch({name: table[start : start + step] for name, table in cpts.items()}, choices)
            for start in range(0, models, step)
        ]
        return np.concatenate(parts)

    def _rows_under_batch(self, cpts: Mapping[str, Array], choices: Sequence[int]) -> Array:
        """P(z_b | do(a_b)) under a few models, one row each."""
        models = len(next(iter(cpts.values())))
        operands = [Operand(np.ones(models), [MODEL])]
        for name, choice in zip(self.manipulable_names, choices, strict=True):
            if choice and len(self._latent_model[name].states) > 1:
                operands.append(Operand(np.eye(len(self._latent_model[name].states))[choice - 1], [name]))
        graph = self._graph
        set_names = [name for name, choice in zip(self.manipulable_names, choices, strict=True) if choice]
        ancestral = graph.ancestors(
            graph.bits(self.parent_names), graph.all_nodes & ~graph.bits(set_names) & ~self._always
        )
        for part in graph.districts(ancestral):
            factor = self._latent_model.factor(graph.names_of(part), cpts)
            if factor is None:
                self._raise_not_identified(set_names)
            operands.append(self._drop_unit_axes(factor))
        return self._contract_models(operands, tuple(map(bool, choices)))

    def _drop_unit_axes(self, factor: NamedArray) -> Operand:
        """A factor without axes of size 1."""
        kept_axes = [name for name in factor.axes if name == MODELS or len(self._latent_model[name].states) > 1]
        shape = [size for name, size in zip(factor.axes, factor.array.shape, strict=True) if name in kept_axes]
        return Operand(factor.array.reshape(shape), [MODEL if name == MODELS else name for name in kept_axes])


def _with_point_masses(array: Array, axis: int) -> Array:
    """The factor without intervention, followed by a point mass on each value of a variable."""
    points = np.eye(array.shape[axis]).reshape([-1, *(n if i == axis else 1 for i, n in enumerate(array.shape))])
    return np.concatenate([array[None], np.broadcast_to(points, (len(points), *array.shape))])


def find_district_blocks(latent_model: LatentModel, space: ActionSpace, parents: Sequence[str]) -> tuple[Block, ...]:
    """The blocks of z, in the order of their first parent."""
    cut_graph = graphs.without_causes_of(latent_model.graph, space.variables_always_set())
    parts = graphs.components(cut_graph, graphs.ancestors(cut_graph, parents))
    parts.sort(key=lambda part: min(i for i, name in enumerate(parents) if name in part))
    return tuple(
        DistrictBlock(latent_model, [n for n in latent_model.order if n in part], space, parents) for part in parts
    )
