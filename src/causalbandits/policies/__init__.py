"""The algorithms: one file each, found by id in the registry."""

from causalbandits.policies.base import AnyPolicy, Policy
from causalbandits.policies.default import default_policy
from causalbandits.policies.designed import CausalDesign
from causalbandits.policies.elimination import CausalElimination
from causalbandits.policies.gittins import CausalGittins, CausalScreen
from causalbandits.policies.guarded import GuardedThompsonSampling
from causalbandits.policies.hac_ucb import HACUCB
from causalbandits.policies.ids import CausalIDS
from causalbandits.policies.kl_ucb import KLUCB, CausalKLUCB
from causalbandits.policies.lin import LinTS, LinUCB
from causalbandits.policies.linear_thompson import CausalLinearThompsonSampling
from causalbandits.policies.linear_ts_ucb import CausalLinearTSUCB
from causalbandits.policies.linear_ucb import CausalLinearUCB
from causalbandits.policies.models import ModelsThompsonSampling
from causalbandits.policies.outcome import Choice, Outcome
from causalbandits.policies.registry import POLICIES, as_policy, policy
from causalbandits.policies.thompson import CausalThompsonSampling, ThompsonSampling
from causalbandits.policies.tracking import CausalTrackAndStop
from causalbandits.policies.ts_ucb import CausalTSUCB
from causalbandits.policies.ucb import UCB, CausalUCB
from causalbandits.policies.uniform import Uniform

__all__ = [
    "HACUCB",
    "KLUCB",
    "POLICIES",
    "UCB",
    "AnyPolicy",
    "CausalDesign",
    "CausalElimination",
    "CausalGittins",
    "CausalIDS",
    "CausalKLUCB",
    "CausalLinearTSUCB",
    "CausalLinearThompsonSampling",
    "CausalLinearUCB",
    "CausalScreen",
    "CausalTSUCB",
    "CausalThompsonSampling",
    "CausalTrackAndStop",
    "CausalUCB",
    "Choice",
    "GuardedThompsonSampling",
    "LinTS",
    "LinUCB",
    "ModelsThompsonSampling",
    "Outcome",
    "Policy",
    "ThompsonSampling",
    "Uniform",
    "as_policy",
    "default_policy",
    "policy",
]
