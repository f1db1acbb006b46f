"""Analyses of a study: reports, off-policy evaluation, diagnostics, export."""

from causalbandits.study.analysis.diagnostics import (
    change_caveats,
    check_statistic,
    compare_trusted_past,
    count_decisions,
    stored_cell_moments,
)
from causalbandits.study.analysis.export import Exported, write_table
from causalbandits.study.analysis.off_policy import By, Evaluation, Target, evaluate_target
from causalbandits.study.analysis.report import (
    OutcomeSummary,
    StudyReport,
    build_report,
    event_record,
    explain_decision,
    is_reproducible,
    likeliest_parent_set,
    mode_record,
    policy_change,
    statistic_key,
    statistic_records,
)
from causalbandits.study.analysis.timeline import ChangeMark, History, build_history

__all__ = [
    "By",
    "ChangeMark",
    "Evaluation",
    "Exported",
    "History",
    "OutcomeSummary",
    "StudyReport",
    "Target",
    "build_history",
    "build_report",
    "change_caveats",
    "check_statistic",
    "compare_trusted_past",
    "count_decisions",
    "evaluate_target",
    "event_record",
    "explain_decision",
    "is_reproducible",
    "likeliest_parent_set",
    "mode_record",
    "policy_change",
    "statistic_key",
    "statistic_records",
    "stored_cell_moments",
    "write_table",
]
