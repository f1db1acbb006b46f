"""Robustness to a wrong graph: e-processes that test it, a guard that repairs it, model averaging, HAC-UCB."""

from causalbandits.policies.robust.evidence import Alarm, Evidence, ModelClaim, evidence_of, format_arrow_claim
from causalbandits.policies.robust.guarded import GuardedThompsonSampling
from causalbandits.policies.robust.hac_ucb import HACUCB
from causalbandits.policies.robust.implications import testable_implications
from causalbandits.policies.robust.model_averaging import ModelsThompsonSampling
from causalbandits.policies.robust.monitor import UNCHANGED, Monitor

__all__ = [
    "HACUCB",
    "UNCHANGED",
    "Alarm",
    "Evidence",
    "GuardedThompsonSampling",
    "ModelClaim",
    "ModelsThompsonSampling",
    "Monitor",
    "evidence_of",
    "format_arrow_claim",
    "testable_implications",
]
