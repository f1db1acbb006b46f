"""Figure 3: regret against m, the number of values of each X; the parents stay four binary ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from causalbandits.environments import Environment, zoo
from causalbandits.paper.experiment import (
    PRINTED_POLICIES,
    Experiment,
    Runs,
    Setting,
    build_improved_policies,
    build_printed_policies,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HORIZON = 5000
N = 4
MS = (2, 3, 4, 5, 6)
THETA = (0.25, 0.25, -0.25, -0.25)
TABULAR, COARSE = 0.1, float(np.sqrt(0.1**2 + sum(np.square(THETA)) / 4))


def random_environments(m: int) -> Callable[[np.random.Generator], Environment]:
    """The paper's distribution: P(X) ~ Dirichlet(1), P(W = 1 | X = j) uniform, independent for each j."""
    return partial(_sample_random, m)


def _sample_random(m: int, rng: np.random.Generator) -> Environment:
    return zoo.random_parallel(m, N, THETA, rng)


def clean_environments(m: int) -> Callable[[np.random.Generator], Environment]:
    """The controlled distribution: the two extreme P(W = 1 | X) are the same for every m, further values lie between
    them.

    With it only the number of actions changes with m, while the gaps between the best ones stay equal.
    """
    return partial(_sample_clean, m)


def _sample_clean(m: int, rng: np.random.Generator) -> Environment:
    extremes = rng.random((N, 2))
    between = extremes[:, :1] + rng.random((N, m - 2)) * (extremes[:, 1:] - extremes[:, :1])
    pw = np.concatenate([extremes, between], axis=1)
    return zoo.parallel(list(rng.dirichlet(np.ones(m), size=N)), list(pw), THETA)


def settings() -> list[Setting]:
    """Each m, with the paper's and with the controlled distribution."""
    policies = build_printed_policies(PRINTED_POLICIES) | build_improved_policies(
        PRINTED_POLICIES, tabular=TABULAR, coarse=COARSE
    )
    random_settings = [Setting(f"m = {m}", random_environments(m), policies, HORIZON) for m in MS]
    return random_settings + [
        Setting(f"clean, m = {m}", clean_environments(m), build_printed_policies(PRINTED_POLICIES), HORIZON) for m in MS
    ]


def figures(runs: Runs) -> dict[str, Figure]:
    """Final regret against m: as printed, improved, and in the controlled experiment."""
    from causalbandits.results.plots import plot_final

    paper = {m: runs[f"m = {m}"] for m in MS}
    improved = [name for name in paper[MS[0]].policies if "s =" in name]
    axis = "values of each X (m)"
    return {
        "figure3": plot_final({m: run.only(PRINTED_POLICIES) for m, run in paper.items()}, axis),
        "figure3-improved": plot_final({m: run.only(improved) for m, run in paper.items()}, axis),
        "figure3-clean": plot_final({m: runs[f"clean, m = {m}"] for m in MS}, axis),
    }


EXPERIMENT = Experiment(
    name="figure3",
    title="Figure 3: regret against the number of values",
    about=(
        "Four pairs, m = 2 to 6 values of each X, so 81 to 2401 actions and always 16 configurations; 5000 rounds. "
        "Each replication draws its own probabilities. In the paper's draw, the gaps also change with m: the extreme "
        "P(W | X) are more extreme for more values. The clean draw keeps the extremes constant."
    ),
    settings=settings,
    figures=figures,
    captions={
        "figure3": "As printed: final regret, 95% intervals.",
        "figure3-improved": "At the true noise scales, linear policies on the observed features.",
        "figure3-clean": "The clean draw: only the number of actions changes with m.",
    },
)
