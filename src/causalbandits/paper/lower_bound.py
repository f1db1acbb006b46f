"""Section 4: an environment in which all variables except one are irrelevant, while UCB explores all of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from causalbandits.environments import zoo
from causalbandits.paper.experiment import Experiment, Runs, Setting, build_printed_policies

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HORIZON = 10_000
SIZES = (1, 2, 3, 4, 5, 6, 7)
P1 = 0.5
C = 1.0
"""The hard gap is C sqrt(3^N / T)."""
FIXED_GAP = 0.3
COMPARED_POLICIES = ("ucb", "ts(scales=given)", "c-ucb", "c-ts(scales=given)")


def hard_gap(N: int) -> float:
    """The gap at which 3^N actions are hardest to distinguish within the horizon."""
    return C * math.sqrt(3**N / HORIZON)


def settings() -> list[Setting]:
    """Each N at its hard gap, and at a fixed one."""
    hard = [
        Setting(f"N = {N}", zoo.lower_bound(N, hard_gap(N), P1), build_printed_policies(COMPARED_POLICIES), HORIZON)
        for N in SIZES
    ]
    fixed = [
        Setting(
            f"fixed gap, N = {N}", zoo.lower_bound(N, FIXED_GAP, P1), build_printed_policies(COMPARED_POLICIES), HORIZON
        )
        for N in SIZES
    ]
    return hard + fixed


def figures(runs: Runs) -> dict[str, Figure]:
    """Final regret against N."""
    from causalbandits.results.plots import plot_final

    hard = {N: runs[f"N = {N}"] for N in SIZES}
    slope = ("growth like sqrt(3^N)", lambda N: math.sqrt(3**N))
    axis = "variables (N), 3^N actions"
    return {
        "lower-bound": plot_final(hard, axis, reference=slope),
        "lower-bound-fixed": plot_final({N: runs[f"fixed gap, N = {N}"] for N in SIZES}, axis),
    }


EXPERIMENT = Experiment(
    name="lower-bound",
    title="Section 4: the lower bound's environment",
    about=(
        f"N binary variables, of which only the first matters; 3^N actions, two configurations, {HORIZON:,} rounds. "
        f"At the hard gap, {C:g} sqrt(3^N / T), the lower bound says that UCB's regret grows at least like sqrt(3^N); "
        f"at the fixed gap of {FIXED_GAP} it can grow no further than linear regret."
    ),
    settings=settings,
    figures=figures,
    captions={
        "lower-bound": "At the hard gap; the grey line has the slope of sqrt(3^N).",
        "lower-bound-fixed": "At a fixed gap: C-UCB and C-TS play the same run for every N.",
    },
)
