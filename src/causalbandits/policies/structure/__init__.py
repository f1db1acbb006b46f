"""Policies for problems whose causal graph is not known: the structure is learned with the CPTs."""

from causalbandits.policies.structure.parent_sets import ParentSetCounts, ParentSets, SampledStructure
from causalbandits.policies.structure.thompson import StructureThompsonSampling, structure_layout

__all__ = [
    "ParentSetCounts",
    "ParentSets",
    "SampledStructure",
    "StructureThompsonSampling",
    "structure_layout",
]
