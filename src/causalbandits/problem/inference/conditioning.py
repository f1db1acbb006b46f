"""The blocks of z given a context, cached by the known variables and by the values that each block depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array
from causalbandits.errors import ProblemError
from causalbandits.model import CausalModel, LatentModel
from causalbandits.model import graph as graphs
from causalbandits.problem.actions import ActionSpace, Choices2D
from causalbandits.problem.inference.blocks import Block, PointMassBlock, find_blocks
from causalbandits.problem.inference.districts import find_district_blocks

COMPONENT_CACHE_SIZE, BLOCK_CACHE_SIZE = 2**8, 2**12
"""The number of cached sets of known variables with their components, and of cached blocks."""


class Component(NamedTuple):
    """A block before values are known: its variables, and the known variables in its CPTs."""

    names: tuple[str, ...]
    evidence_names: tuple[str, ...]
    evidence_effects: tuple[str, ...]
    """The known variables that have a parent in the block."""


class ConditionedBlocks:
    """P(z | do(a), c) by blocks, for any values of any of the context variables.

    Contexts with the same values of a block's known variables share the block: 4096 contexts of six blocks may need
    24 blocks.
    """

    def __init__(self, model: CausalModel, manipulable: Sequence[str], parents: Sequence[str]) -> None:
        self._model, self._manipulable, self._parents = model, tuple(manipulable), tuple(parents)
        self._component_cache: BoundedCache[frozenset[str], tuple[Component, ...]] = BoundedCache(COMPONENT_CACHE_SIZE)
        self._block_cache: BoundedCache[tuple[tuple[str, ...], tuple[tuple[str, int], ...]], Block] = BoundedCache(
            BLOCK_CACHE_SIZE
        )

    def __call__(self, evidence: Mapping[str, int]) -> tuple[Block, ...]:
        """The blocks, in the order of their first parent; raises an error if the evidence has probability 0."""
        if not evidence:
            return find_blocks(self._model, self._manipulable, self._parents)
        evidence_names = frozenset(evidence)
        components = self._component_cache.get(evidence_names)
        if components is None:
            components = self._component_cache.store(evidence_names, self._find_components(evidence_names))
        return tuple([self._conditioned_block(component, evidence) for component in components])

    def _find_components(self, evidence_names: frozenset[str]) -> tuple[Component, ...]:
        """Every component with a parent, and every known parent as a component of its own."""
        graph, free = self._model.graph, [name for name in self._parents if name not in evidence_names]
        parts = graphs.components_given(graph, free, evidence_names) if free else []
        parts += [{name} for name in self._parents if name in evidence_names]
        parts.sort(key=lambda part: min(i for i, name in enumerate(self._parents) if name in part))
        return tuple(self._build_component(part, evidence_names) for part in parts)

    def _build_component(self, part: set[str], evidence_names: frozenset[str]) -> Component:
        if part <= evidence_names:
            return Component(tuple(part), tuple(part), ())
        model = self._model
        names = tuple(name for name in model.order if name in part)
        effects = tuple(n for n in model.order if n in evidence_names and not part.isdisjoint(model[n].parents))
        causes = {cause for name in (*names, *effects) for cause in model[name].parents}
        return Component(
            names, tuple(n for n in model.order if n in evidence_names and (n in causes or n in effects)), effects
        )

    def _conditioned_block(self, part: Component, evidence: Mapping[str, int]) -> Block:
        relevant_evidence = tuple([(name, evidence[name]) for name in part.evidence_names])
        block = self._block_cache.get((part.names, relevant_evidence))
        if block is None:
            block = self._block_cache.store(
                (part.names, relevant_evidence), self._build_block(part, dict(relevant_evidence))
            )
        return block

    def _build_block(self, part: Component, evidence: dict[str, int]) -> Block:
        if part.names == part.evidence_names and not part.evidence_effects and part.names[0] in evidence:
            return PointMassBlock(self._model, part.names[0], self._parents, evidence[part.names[0]])
        block = Block(self._model, part.names, self._manipulable, self._parents, evidence, part.evidence_effects)
        if part.evidence_effects:
            block.row((0,) * len(block.manipulable))  # raises an error if the evidence is impossible
        return block


# The blocks of z given a context, with unobserved confounders. No action changes the context, so that P(z, c | do(a))
# / P(c) equals P(z | do(a), c), which is identified if and only if this joint distribution is. Blocks of z and c
# together are sliced at the known values, and each row is divided by its sum.


class ConditionedDistricts:
    """P(z | do(a), c) by blocks, for any values of any of the context variables, with unobserved confounders."""

    def __init__(self, latent_model: LatentModel, space: ActionSpace, parents: Sequence[str]) -> None:
        self._latent_model, self._space, self._parents = latent_model, space, tuple(parents)
        self._joint_cache: BoundedCache[frozenset[str], tuple[Block, ...]] = BoundedCache(COMPONENT_CACHE_SIZE)
        self._block_cache: BoundedCache[tuple[tuple[str, ...], tuple[tuple[str, int], ...]], Block] = BoundedCache(
            BLOCK_CACHE_SIZE
        )

    def __call__(self, evidence: Mapping[str, int]) -> tuple[Block, ...]:
        """The blocks, in the order of their first parent; raises an error if the evidence has probability 0."""
        joint = self._joint_blocks(frozenset(evidence))
        if not evidence:
            return joint
        blocks = [
            self._conditioned_block(block, evidence)
            for block in joint
            if not evidence.keys() >= set(block.parent_names)
        ]
        blocks += [self._point_mass_block(name, evidence[name]) for name in self._parents if name in evidence]
        return tuple(sorted(blocks, key=lambda block: block.parents))

    def validate_context(self, context: Sequence[str]) -> None:
        """Raise an error now if a distribution is not identified once the context is known."""
        self._joint_blocks(frozenset(context))

    def _joint_blocks(self, evidence_names: frozenset[str]) -> tuple[Block, ...]:
        """The joint blocks of z and the known variables."""
        blocks = self._joint_cache.get(evidence_names)
        if blocks is None:
            extra_names = [
                name for name in self._latent_model.names if name in evidence_names and name not in self._parents
            ]
            blocks = self._joint_cache.store(
                evidence_names, find_district_blocks(self._latent_model, self._space, [*self._parents, *extra_names])
            )
        return blocks

    def _conditioned_block(self, joint: Block, evidence: Mapping[str, int]) -> Block:
        relevant_evidence = tuple((name, evidence[name]) for name in joint.parent_names if name in evidence)
        block = self._block_cache.get((joint.parent_names, relevant_evidence))
        if block is None:
            built = ConditionedBlock(joint, self._space.names, self._parents, dict(relevant_evidence))
            block = self._block_cache.store((joint.parent_names, relevant_evidence), built)
        return block

    def _point_mass_block(self, name: str, code: int) -> Block:
        return PointMassBlock(self._latent_model.observational_model, name, self._parents, code)


def build_conditioned_blocks(
    model: CausalModel | LatentModel, space: ActionSpace, parents: Sequence[str]
) -> ConditionedBlocks | ConditionedDistricts:
    """P(z | do(a), c) by blocks, from the CPTs or from the observed variables' distribution."""
    if isinstance(model, LatentModel):
        return ConditionedDistricts(model, space, parents)
    return ConditionedBlocks(model, space.names, parents)


class ConditionedBlock(Block):
    """A joint block of z and known variables, sliced at the known values."""

    def __init__(
        self, joint: Block, manipulable: Sequence[str], parents: Sequence[str], evidence: Mapping[str, int]
    ) -> None:
        names = [name for name in joint.names if name not in evidence]
        super().__init__(joint.model, names, manipulable, parents)
        self._joint, self._evidence = joint, evidence
        self._evidence_index: tuple[Any, ...] = tuple(evidence.get(name, slice(None)) for name in joint.parent_names)
        # Both have the order of z, so that no axes need to be transposed.
        assert [name for name in joint.parent_names if name not in evidence] == list(self.parent_names)

    @cached_property
    def table(self) -> Array:
        table = self._condition_rows(self._joint.table)
        table.setflags(write=False)
        return table

    def rows(self, choices: Choices2D) -> Array:
        return self._condition_rows(self._joint.rows(choices))

    def rows_under_models(self, cpts: Mapping[str, Array], choices: Sequence[int]) -> Array:
        return self._condition_rows(self._joint.rows_under_models(cpts, choices))

    def with_cpts(self, cpts: Mapping[str, Array]) -> Block:
        return self._joint.with_cpts(cpts)  # raises an error

    def _condition_rows(self, rows: Array) -> Array:
        """Condition rows of the joint distribution on the evidence; rows of impossible evidence stay 0."""
        if not self._evidence:
            return rows
        sliced = rows.reshape(-1, *self._joint.shape)[:, *self._evidence_index].reshape(len(rows), -1)
        total = np.cumsum(sliced, axis=1)[:, -1:]  # in order, independently of the other rows
        if not (total > 0.0).any():
            evidence_text = ", ".join(
                f"{name}={self.model[name].states[code]!r}" for name, code in self._evidence.items()
            )
            raise ProblemError(
                f"The context {evidence_text} has probability 0 in the data, so the effects of actions in it are "
                "unknown. Collect rows with these values, use a prior above 0, or remove the variable from context."
            )
        return np.asarray(np.divide(sliced, total, out=np.zeros(sliced.shape), where=total > 0.0))
