"""Policies that learn one mean reward per configuration of the reward's parents."""

from causalbandits.policies.cells.gittins import (
    EQUAL,
    ROWS_LIMIT,
    BeliefPolicy,
    CausalGittins,
    CausalScreen,
    WorthPolicy,
    patience,
    psi,
    taken_away,
    worth_of_one,
)
from causalbandits.policies.cells.ids import CausalIDS
from causalbandits.policies.cells.policy import CellPolicy, SamplingPolicy, actions_in_contexts, favourite_of
from causalbandits.policies.cells.thompson import CausalThompsonSampling, ThompsonSampling
from causalbandits.policies.cells.ts_ucb import CausalTSUCB, given_up, scores_by_ratio
from causalbandits.policies.cells.ucb import KLUCB, UCB, CausalKLUCB, CausalUCB
from causalbandits.policies.cells.uniform import Uniform

__all__ = [
    "EQUAL",
    "KLUCB",
    "ROWS_LIMIT",
    "UCB",
    "BeliefPolicy",
    "CausalGittins",
    "CausalIDS",
    "CausalKLUCB",
    "CausalScreen",
    "CausalTSUCB",
    "CausalThompsonSampling",
    "CausalUCB",
    "CellPolicy",
    "SamplingPolicy",
    "ThompsonSampling",
    "Uniform",
    "WorthPolicy",
    "actions_in_contexts",
    "favourite_of",
    "given_up",
    "patience",
    "psi",
    "scores_by_ratio",
    "taken_away",
    "worth_of_one",
]
