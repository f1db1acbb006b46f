"""Conformance checks for custom policies.

    import pytest
    from causalbandits.testing import CHECKS

    @pytest.mark.parametrize("check", CHECKS)
    def test_my_policy(check):
        check(MyPolicy())

A check that fails raises an AssertionError that names the rule and the place.
"""

from causalbandits.testing.conformance import (
    CHECKS,
    check_budgets_are_kept,
    check_decisions_follow_scores,
    check_decisions_stay_eligible,
    check_identity,
    check_policy,
    check_scores_permute,
    check_scoring_is_pure,
    check_seeded_runs_repeat,
    check_state_is_a_fold,
    check_state_round_trips,
)
from causalbandits.testing.permuted_environment import permute_environment

__all__ = [
    "CHECKS",
    "check_budgets_are_kept",
    "check_decisions_follow_scores",
    "check_decisions_stay_eligible",
    "check_identity",
    "check_policy",
    "check_scores_permute",
    "check_scoring_is_pure",
    "check_seeded_runs_repeat",
    "check_state_is_a_fold",
    "check_state_round_trips",
    "permute_environment",
]


def __dir__() -> list[str]:
    return __all__
