"""Bandit policies: a statistic, an index per cell, its projection on actions, an argmax; by id in the registry."""

from typing import TYPE_CHECKING

from causalbandits._lazy import lazy_exports

if TYPE_CHECKING:
    from causalbandits.policies._qr import back_substitute_jit, qr_update_jit, squared_norms_jit
    from causalbandits.policies.base import AnyPolicy, HorizonPolicy, Policy
    from causalbandits.policies.budgeted import decide_within_budget, find_incumbent, future_situations
    from causalbandits.policies.cells import (
        KLUCB,
        UCB,
        CausalGittins,
        CausalIDS,
        CausalKLUCB,
        CausalScreen,
        CausalThompsonSampling,
        CausalTSUCB,
        CausalUCB,
        ThompsonSampling,
        Uniform,
    )
    from causalbandits.policies.exploration import CausalDesign, CausalElimination, CausalTrackAndStop
    from causalbandits.policies.feedback import (
        Bounds,
        Choice,
        Incumbent,
        Outcome,
        OutcomeSums,
        RunnerUp,
        Sums,
        Support,
        randomised_rounding,
    )
    from causalbandits.policies.fingerprint import (
        class_name,
        decode_parameters,
        encode_parameters,
        policy_fingerprint,
        policy_fingerprint_with_code,
        same_parameters,
        unsaved_parameters,
    )
    from causalbandits.policies.linear import (
        CausalLinearThompsonSampling,
        CausalLinearTSUCB,
        CausalLinearUCB,
        LinTS,
        LinUCB,
    )
    from causalbandits.policies.registry import (
        POLICIES,
        Policies,
        as_policy,
        default_policy,
        default_with_reason,
        name_policies,
        policy,
        resolve_policy,
    )
    from causalbandits.policies.return_checks import unchecked_method
    from causalbandits.policies.robust import HACUCB, GuardedThompsonSampling, ModelsThompsonSampling
    from causalbandits.policies.statistics import Cells, PooledCells, Regression, Statistic, add_to_cell, add_to_pool
    from causalbandits.policies.stopping import empirical_bernstein_error_probability, stopping_obstacle
    from causalbandits.policies.traits import Traits, situation_for
    from causalbandits.policies.validation import (
        refuse_budget,
        validate_parents,
        validate_reward,
        warn_of_scale,
        warn_of_unknown_tables,
    )
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "causalbandits.policies._qr": ["back_substitute_jit", "qr_update_jit", "squared_norms_jit"],
            "causalbandits.policies.base": ["AnyPolicy", "HorizonPolicy", "Policy"],
            "causalbandits.policies.budgeted": ["decide_within_budget", "find_incumbent", "future_situations"],
            "causalbandits.policies.cells": [
                "KLUCB",
                "UCB",
                "CausalGittins",
                "CausalIDS",
                "CausalKLUCB",
                "CausalScreen",
                "CausalThompsonSampling",
                "CausalTSUCB",
                "CausalUCB",
                "ThompsonSampling",
                "Uniform",
            ],
            "causalbandits.policies.exploration": ["CausalDesign", "CausalElimination", "CausalTrackAndStop"],
            "causalbandits.policies.feedback": [
                "Bounds",
                "Choice",
                "Incumbent",
                "Outcome",
                "OutcomeSums",
                "RunnerUp",
                "Sums",
                "Support",
                "randomised_rounding",
            ],
            "causalbandits.policies.fingerprint": [
                "class_name",
                "decode_parameters",
                "encode_parameters",
                "policy_fingerprint",
                "policy_fingerprint_with_code",
                "same_parameters",
                "unsaved_parameters",
            ],
            "causalbandits.policies.linear": [
                "CausalLinearThompsonSampling",
                "CausalLinearTSUCB",
                "CausalLinearUCB",
                "LinTS",
                "LinUCB",
            ],
            "causalbandits.policies.registry": [
                "POLICIES",
                "Policies",
                "as_policy",
                "default_policy",
                "default_with_reason",
                "name_policies",
                "policy",
                "resolve_policy",
            ],
            "causalbandits.policies.return_checks": ["unchecked_method"],
            "causalbandits.policies.robust": ["HACUCB", "GuardedThompsonSampling", "ModelsThompsonSampling"],
            "causalbandits.policies.statistics": [
                "Cells",
                "PooledCells",
                "Regression",
                "Statistic",
                "add_to_cell",
                "add_to_pool",
            ],
            "causalbandits.policies.stopping": ["empirical_bernstein_error_probability", "stopping_obstacle"],
            "causalbandits.policies.traits": ["Traits", "situation_for"],
            "causalbandits.policies.validation": [
                "refuse_budget",
                "validate_parents",
                "validate_reward",
                "warn_of_scale",
                "warn_of_unknown_tables",
            ],
        },
    )

__all__ = [
    "HACUCB",
    "KLUCB",
    "POLICIES",
    "UCB",
    "AnyPolicy",
    "Bounds",
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
    "Cells",
    "Choice",
    "GuardedThompsonSampling",
    "HorizonPolicy",
    "Incumbent",
    "LinTS",
    "LinUCB",
    "ModelsThompsonSampling",
    "Outcome",
    "OutcomeSums",
    "Policies",
    "Policy",
    "PooledCells",
    "Regression",
    "RunnerUp",
    "Statistic",
    "Sums",
    "Support",
    "ThompsonSampling",
    "Traits",
    "Uniform",
    "add_to_cell",
    "add_to_pool",
    "as_policy",
    "back_substitute_jit",
    "class_name",
    "decide_within_budget",
    "decode_parameters",
    "default_policy",
    "default_with_reason",
    "empirical_bernstein_error_probability",
    "encode_parameters",
    "find_incumbent",
    "future_situations",
    "name_policies",
    "policy",
    "policy_fingerprint",
    "policy_fingerprint_with_code",
    "qr_update_jit",
    "randomised_rounding",
    "refuse_budget",
    "resolve_policy",
    "same_parameters",
    "situation_for",
    "squared_norms_jit",
    "stopping_obstacle",
    "unchecked_method",
    "unsaved_parameters",
    "validate_parents",
    "validate_reward",
    "warn_of_scale",
    "warn_of_unknown_tables",
]


def __dir__() -> list[str]:
    return __all__
