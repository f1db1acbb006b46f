"""Online learning of CPTs, and chance constraints under learned CPTs."""

from causalbandits.policies.cpts.chance_constraints import (
    WARNINGS_ENABLED,
    FeasibleActions,
    feasibility_warnings,
    feasible_by_sureness,
    restrict_to_feasible,
    suppress_warnings,
)
from causalbandits.policies.cpts.counts import CACHED_ENTRIES, CPTRows
from causalbandits.policies.cpts.online_posterior import (
    CellsAndCPTs,
    LearnedCPTs,
    ResamplingSchedule,
    count_outcome,
    init_cells_and_cpts,
    learned_cpts,
    require_unknown_cpts,
    resample_cpts,
    with_mean_cpts,
    with_sampled_cpts,
)

__all__ = [
    "CACHED_ENTRIES",
    "WARNINGS_ENABLED",
    "CPTRows",
    "CellsAndCPTs",
    "FeasibleActions",
    "LearnedCPTs",
    "ResamplingSchedule",
    "count_outcome",
    "feasibility_warnings",
    "feasible_by_sureness",
    "init_cells_and_cpts",
    "learned_cpts",
    "require_unknown_cpts",
    "resample_cpts",
    "restrict_to_feasible",
    "suppress_warnings",
    "with_mean_cpts",
    "with_sampled_cpts",
]
