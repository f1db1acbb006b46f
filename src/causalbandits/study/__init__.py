"""Studies: durable campaigns whose decisions and outcomes are in a database that many processes share."""

from typing import TYPE_CHECKING

from causalbandits._lazy import lazy_exports

if TYPE_CHECKING:
    from causalbandits.study.analysis import OutcomeSummary, StudyReport
    from causalbandits.study.backup import back_up
    from causalbandits.study.decide import MODES
    from causalbandits.study.remote import RemoteStudy, connect
    from causalbandits.study.replay import Shadowed
    from causalbandits.study.session import Rules
    from causalbandits.study.storage import Verification
    from causalbandits.study.study import Study, probe_write
    from causalbandits.study.tell import EXPIRY_BATCH, EarlyOutcome, Receipt, RemovedOutcome, Status
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "causalbandits.study.analysis": ["OutcomeSummary", "StudyReport"],
            "causalbandits.study.backup": ["back_up"],
            "causalbandits.study.decide": ["MODES"],
            "causalbandits.study.remote": ["RemoteStudy", "connect"],
            "causalbandits.study.replay": ["Shadowed"],
            "causalbandits.study.session": ["Rules"],
            "causalbandits.study.storage": ["Verification"],
            "causalbandits.study.study": ["Study", "probe_write"],
            "causalbandits.study.tell": ["EXPIRY_BATCH", "EarlyOutcome", "Receipt", "RemovedOutcome", "Status"],
        },
    )

__all__ = [
    "EXPIRY_BATCH",
    "MODES",
    "EarlyOutcome",
    "OutcomeSummary",
    "Receipt",
    "RemoteStudy",
    "RemovedOutcome",
    "Rules",
    "Shadowed",
    "Status",
    "Study",
    "StudyReport",
    "Verification",
    "back_up",
    "connect",
    "probe_write",
]
