"""Policies that learn a linear model of the reward."""

from causalbandits.policies.linear.cl_ts import CausalLinearThompsonSampling
from causalbandits.policies.linear.cl_ts_ucb import CausalLinearTSUCB
from causalbandits.policies.linear.cl_ucb import CausalLinearUCB
from causalbandits.policies.linear.lin_ucb import LinTS, LinUCB
from causalbandits.policies.linear.policy import LinearPolicy
from causalbandits.policies.linear.scaled_regression import (
    ScaledRegression,
    add_round_jit,
    centre_round,
    estimate_linear_scales,
    posterior_terms,
)

__all__ = [
    "CausalLinearTSUCB",
    "CausalLinearThompsonSampling",
    "CausalLinearUCB",
    "LinTS",
    "LinUCB",
    "LinearPolicy",
    "ScaledRegression",
    "add_round_jit",
    "centre_round",
    "estimate_linear_scales",
    "posterior_terms",
]
