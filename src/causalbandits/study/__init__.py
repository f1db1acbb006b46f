"""A policy at work, durably: decisions and outcomes in a database, for many processes."""

from causalbandits.study.client import RemoteStudy, connect
from causalbandits.study.outcomes import Told
from causalbandits.study.report import StudyReport, Summary
from causalbandits.study.study import Study
from causalbandits.study.verify import Verification

__all__ = ["RemoteStudy", "Study", "StudyReport", "Summary", "Told", "Verification", "connect"]
