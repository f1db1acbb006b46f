"""Chance constraints under learned CPTs: actions must comply with high posterior probability, given all outcomes so
far.

P(outcome | do(a)) is computed under as many samples of the CPTs as in `problem.chance_constraints`, always from the
same seed and from the counts at the last resampling of the CPTs. So it is a function of the statistic, and is updated
whenever the CPTs are resampled. If no action complies with the required probability, the action with the largest
probability remains, because an agent that does not act cannot learn. A warning and the recommendation report it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Codes
from causalbandits.errors import ProblemWarning, caller_stacklevel, warn
from causalbandits.policies.cpts.online_posterior import CellsAndCPTs, learned_cpts
from causalbandits.problem import (
    COMPLIANCE_PROBABILITY,
    LIMIT_TOLERANCE,
    POSTERIOR_SAMPLES,
    ChanceConstraints,
    Compliance,
    Situation,
)

WARNINGS_ENABLED = ContextVar("says_so", default=True)
"""Whether a decision may warn."""


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress the warnings of decisions that are recomputed, because they were given when the decisions were
    made.
    """
    token = WARNINGS_ENABLED.set(False)
    try:
        yield
    finally:
        WARNINGS_ENABLED.reset(token)


class FeasibleActions(NamedTuple):
    """The positions of the actions that may be chosen (None for all), and whether they comply with the required
    probability.
    """

    positions: Codes | None
    is_sure: bool
    sureness: Compliance


def restrict_to_feasible(situation: Situation, cells: CellsAndCPTs, trust: float) -> Situation:
    """The situation restricted to actions that meet the chance constraints with the required posterior
    probability.
    """
    if situation.is_subset:
        return situation
    is_cached = situation.candidates in cells.feasible_actions
    feasible = _feasible_actions(situation, cells, trust)
    if not feasible.is_sure and not is_cached and WARNINGS_ENABLED.get():
        warn(
            f"No action satisfies {_requirements(situation).limits_text} with probability {COMPLIANCE_PROBABILITY:g} "
            "under the posterior of the CPTs. The agent plays the action with the largest "
            f"probability.{_trust_hint(trust)} To narrow the posterior, pass past rows (data=) or a prior of the CPTs "
            "(prior=). recommend() prints the probability.",
            ProblemWarning,
            stacklevel=caller_stacklevel(),
        )
    return situation if feasible.positions is None else situation.restrict_to(feasible.positions)


def feasibility_warnings(situation: Situation, cells: CellsAndCPTs, trust: float) -> tuple[str, ...]:
    """The warning for the case that no action meets the chance constraints with the required probability."""
    if not situation.problem.constrained_variables:
        return ()
    feasible = _feasible_actions(situation, cells, trust)
    if feasible.is_sure or feasible.positions is None:
        return ()
    first = int(feasible.positions[0])
    return (
        f"no action satisfies {_requirements(situation).limits_text} with probability {COMPLIANCE_PROBABILITY:g} "
        f"under the posterior of the CPTs; the largest probability is {feasible.sureness.share[first]:.2g}, of "
        f"{situation.action(first)}.{_trust_hint(trust)}".removesuffix("."),
    )


def _trust_hint(trust: float) -> str:
    """The current trust in past rows and the way to raise it, if it is below 1."""
    if trust == 1.0:
        return ""
    return (
        f" Some past rows were not randomised, so their prior probability of being unconfounded is {trust:g}. If "
        "assignment in these rows was as good as random, use the policy c-ts(cpts=learned, trust_past=1)."
    )


def _feasible_actions(situation: Situation, cells: CellsAndCPTs, trust: float) -> FeasibleActions:
    cached: FeasibleActions | None = cells.feasible_actions.get(situation.candidates)
    return (
        cells.feasible_actions.store(situation.candidates, _find_feasible_actions(situation, cells, trust))
        if cached is None
        else cached
    )


def _find_feasible_actions(situation: Situation, cells: CellsAndCPTs, trust: float) -> FeasibleActions:
    cpts = learned_cpts(situation.problem, cells)
    sampled_cpts = cpts.split_by_name(
        cpts.sample_entries(cells.seen_at_draw, trust, np.random.default_rng(0), POSTERIOR_SAMPLES)
    )
    return feasible_by_sureness(_requirements(situation).compliance(situation.candidates.array(), sampled_cpts))


def feasible_by_sureness(sureness: Compliance) -> FeasibleActions:
    """The actions that comply with the required probability; if there is none, those that come closest."""
    is_sure = sureness.share >= COMPLIANCE_PROBABILITY
    if is_sure.any():
        return FeasibleActions(None if is_sure.all() else np.flatnonzero(is_sure), True, sureness)
    is_likeliest = sureness.share == sureness.share.max()
    excess = np.where(is_likeliest, sureness.excess, np.inf)
    return FeasibleActions(np.flatnonzero(excess <= excess.min() + LIMIT_TOLERANCE), False, sureness)


def _requirements(situation: Situation) -> ChanceConstraints:
    requirements = situation.problem.requirements
    assert isinstance(requirements, ChanceConstraints)
    return requirements
