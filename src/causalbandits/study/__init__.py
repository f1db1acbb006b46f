"""A policy at work, durably: decisions and outcomes in a database, for many processes."""

from causalbandits.study.client import RemoteStudy, connect
from causalbandits.study.outcomes import Receipt
from causalbandits.study.report import OutcomeSummary, StudyReport
from causalbandits.study.study import Study
from causalbandits.study.verify import Verification

__all__ = ["OutcomeSummary", "Receipt", "RemoteStudy", "Study", "StudyReport", "Verification", "connect"]
