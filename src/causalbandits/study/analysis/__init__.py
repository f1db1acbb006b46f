"""What can be read off a study: reports, off-policy evaluation, replay, verification, export."""

from causalbandits.study.analysis.diagnostics import checked_statistic, doubts
from causalbandits.study.analysis.export import Exported, write_table
from causalbandits.study.analysis.off_policy import By, Evaluation, Target, evaluated
from causalbandits.study.analysis.report import (
    OutcomeSummary,
    StudyReport,
    comes_out_again,
    event_record,
    explained,
    mode_record,
    report_of,
    statistic_records,
)
from causalbandits.study.analysis.timeline import History, history_of

__all__ = [
    "By",
    "Evaluation",
    "Exported",
    "History",
    "OutcomeSummary",
    "StudyReport",
    "Target",
    "checked_statistic",
    "comes_out_again",
    "doubts",
    "evaluated",
    "event_record",
    "explained",
    "history_of",
    "mode_record",
    "report_of",
    "statistic_records",
    "write_table",
]
