"""Policies for problems whose causal graph is not known: the structure is learned with the CPTs."""

from causalbandits.policies.structure.parent_sets import (
    KAPPAS,
    ParentSetCounts,
    ParentSets,
    SampledStructure,
    add_exactly,
    add_to_moments,
    exp_series,
    exp_unless_negligible,
    log_by_table,
    log_series,
    mean_and_squares,
    multiply_exactly,
)
from causalbandits.policies.structure.thompson import (
    TIE_BREAKS,
    StructureThompsonSampling,
    structure_layout,
)

__all__ = [
    "KAPPAS",
    "TIE_BREAKS",
    "ParentSetCounts",
    "ParentSets",
    "SampledStructure",
    "StructureThompsonSampling",
    "add_exactly",
    "add_to_moments",
    "exp_series",
    "exp_unless_negligible",
    "log_by_table",
    "log_series",
    "mean_and_squares",
    "multiply_exactly",
    "structure_layout",
]
