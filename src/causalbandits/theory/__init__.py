"""Regret bounds with their assumptions; docs/explanation/regret-bounds.md derives each of them.

Frequentist bounds hold in every environment that meets their assumptions. Bayesian bounds hold on average over
environments drawn from the policy's prior. The two kinds cannot be compared. Logarithms are natural, and T is at least
2.
"""

from causalbandits.errors import TheoryWarning
from causalbandits.problem import count_reachable_configurations
from causalbandits.theory.assumptions import noise_scales
from causalbandits.theory.bound import Bound
from causalbandits.theory.bound import validate_horizon as validate_horizon
from causalbandits.theory.classical import paper_c_ucb_bound, ucb_lower_bound
from causalbandits.theory.comparison import Comparison, compare
from causalbandits.theory.entropy import effective_configurations, entropy_bound
from causalbandits.theory.policy_bounds import bound
from causalbandits.theory.sample_complexity import characteristic_time, graves_lai_constant

__all__ = [
    "Bound",
    "Comparison",
    "TheoryWarning",
    "bound",
    "characteristic_time",
    "compare",
    "count_reachable_configurations",
    "effective_configurations",
    "entropy_bound",
    "graves_lai_constant",
    "noise_scales",
    "paper_c_ucb_bound",
    "ucb_lower_bound",
]


def __dir__() -> list[str]:
    return __all__
