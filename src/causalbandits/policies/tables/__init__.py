"""Conditional probability tables learned online, and chance constraints while they are learned."""

from causalbandits.policies.tables.chance_constraints import said_before, surely_complying, unsure
from causalbandits.policies.tables.counts import ENTRIES_KEPT, TableRows
from causalbandits.policies.tables.learned import (
    LearntCells,
    LearntTables,
    Schedule,
    count_tables,
    draw_anew,
    learnt_tables,
    nothing_learnt,
    under_drawn_tables,
    under_mean_tables,
)

__all__ = [
    "ENTRIES_KEPT",
    "LearntCells",
    "LearntTables",
    "Schedule",
    "TableRows",
    "count_tables",
    "draw_anew",
    "learnt_tables",
    "nothing_learnt",
    "said_before",
    "surely_complying",
    "under_drawn_tables",
    "under_mean_tables",
    "unsure",
]
