"""Mechanisms that change: detection by Bayes factors, and the restart of what changed."""

from causalbandits.policies.changes.detector import ChangeDetector, DetectedChange, Mechanism
from causalbandits.policies.changes.report import (
    MechanismChange,
    MechanismChanges,
    describe_change,
    find_mechanism,
    parse_false_alarm_rate,
    report_changes,
    require_tracker,
    tracker_of,
)
from causalbandits.policies.changes.tracker import (
    CATEGORIES,
    CellChangeLayout,
    ChangeLayout,
    ChangeTracker,
    ObservedRows,
)

__all__ = [
    "CATEGORIES",
    "CellChangeLayout",
    "ChangeDetector",
    "ChangeLayout",
    "ChangeTracker",
    "DetectedChange",
    "Mechanism",
    "MechanismChange",
    "MechanismChanges",
    "ObservedRows",
    "describe_change",
    "find_mechanism",
    "parse_false_alarm_rate",
    "report_changes",
    "require_tracker",
    "tracker_of",
]
