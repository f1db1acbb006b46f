"""Policies that learn a linear model of the reward."""

from causalbandits.policies.linear.cl_ts import CausalLinearThompsonSampling
from causalbandits.policies.linear.cl_ts_ucb import CausalLinearTSUCB
from causalbandits.policies.linear.cl_ucb import CausalLinearUCB
from causalbandits.policies.linear.lin_ucb import LinTS, LinUCB
from causalbandits.policies.linear.policy import LinearPolicy
from causalbandits.policies.linear.scaled_regression import (
    SCALED_REGRESSION_STEPS,
    ScaledRegression,
    add_round_jit,
    select_scales_jit,
)

__all__ = [
    "SCALED_REGRESSION_STEPS",
    "CausalLinearTSUCB",
    "CausalLinearThompsonSampling",
    "CausalLinearUCB",
    "LinTS",
    "LinUCB",
    "LinearPolicy",
    "ScaledRegression",
    "add_round_jit",
    "select_scales_jit",
]
