"""Policies that learn one mean reward per configuration of the reward's parents."""

from causalbandits.policies.cells.discovery import discovery_score, favourite_rounds, reward_standard_deviation
from causalbandits.policies.cells.gittins import (
    EQUAL_ROWS,
    ROWS_LIMIT,
    CausalGittins,
    CausalScreen,
    GittinsPolicy,
    effective_horizon,
    gittins_bonus,
    psi,
    variance_reduction,
)
from causalbandits.policies.cells.ids import CausalIDS
from causalbandits.policies.cells.policy import (
    MIN_COVERAGE,
    CellPolicy,
    PosteriorPolicy,
    action_cell_count,
    incumbent_by_means,
)
from causalbandits.policies.cells.thompson import CausalThompsonSampling, SamplingPolicy, ThompsonSampling
from causalbandits.policies.cells.ts_ucb import CausalTSUCB, regret_per_uncertainty, scores_by_ratio
from causalbandits.policies.cells.ucb import KLUCB, UCB, CausalKLUCB, CausalUCB
from causalbandits.policies.cells.uniform import Uniform

__all__ = [
    "EQUAL_ROWS",
    "KLUCB",
    "MIN_COVERAGE",
    "ROWS_LIMIT",
    "UCB",
    "CausalGittins",
    "CausalIDS",
    "CausalKLUCB",
    "CausalScreen",
    "CausalTSUCB",
    "CausalThompsonSampling",
    "CausalUCB",
    "CellPolicy",
    "GittinsPolicy",
    "PosteriorPolicy",
    "SamplingPolicy",
    "ThompsonSampling",
    "Uniform",
    "action_cell_count",
    "discovery_score",
    "effective_horizon",
    "favourite_rounds",
    "gittins_bonus",
    "incumbent_by_means",
    "psi",
    "regret_per_uncertainty",
    "reward_standard_deviation",
    "scores_by_ratio",
    "variance_reduction",
]
