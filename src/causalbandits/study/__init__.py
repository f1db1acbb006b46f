"""A policy at work, durably: decisions and outcomes in a database, for many processes."""

from causalbandits.study.analysis import OutcomeSummary, StudyReport
from causalbandits.study.backup import back_up
from causalbandits.study.decide import MODES
from causalbandits.study.remote import RemoteStudy, connect
from causalbandits.study.replay import Shadowed
from causalbandits.study.storage import Verification
from causalbandits.study.study import Study
from causalbandits.study.tell import Receipt, Status

__all__ = [
    "MODES",
    "OutcomeSummary",
    "Receipt",
    "RemoteStudy",
    "Shadowed",
    "Status",
    "Study",
    "StudyReport",
    "Verification",
    "back_up",
    "connect",
]
