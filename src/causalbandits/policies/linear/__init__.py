"""Policies that learn a linear model of the reward."""

from causalbandits.policies.linear.cl_ts import CausalLinearThompsonSampling
from causalbandits.policies.linear.cl_ts_ucb import CausalLinearTSUCB
from causalbandits.policies.linear.cl_ucb import CausalLinearUCB
from causalbandits.policies.linear.lin_ucb import LinTS, LinUCB
from causalbandits.policies.linear.policy import LinearPolicy

__all__ = ["CausalLinearTSUCB", "CausalLinearThompsonSampling", "CausalLinearUCB", "LinTS", "LinUCB", "LinearPolicy"]
