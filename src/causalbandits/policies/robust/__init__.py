"""Robustness to a wrong graph: e-processes that test it, a guard that repairs it, model averaging, HAC-UCB."""

from causalbandits.policies.robust.evidence import Alarm, Evidence, ModelClaim, arrow_claim, evidence_of
from causalbandits.policies.robust.guarded import GuardedThompsonSampling
from causalbandits.policies.robust.hac_ucb import HACUCB
from causalbandits.policies.robust.implications import watched
from causalbandits.policies.robust.model_averaging import ModelsThompsonSampling
from causalbandits.policies.robust.monitor import NOTHING, Watching

__all__ = [
    "HACUCB",
    "NOTHING",
    "Alarm",
    "Evidence",
    "GuardedThompsonSampling",
    "ModelClaim",
    "ModelsThompsonSampling",
    "Watching",
    "arrow_claim",
    "evidence_of",
    "watched",
]
