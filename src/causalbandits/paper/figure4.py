"""Figure 4: regret against n, the number of parents; only the first parent affects the reward."""

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

HORIZON = 10_000
M = 3
NS = (2, 3, 4, 5, 6)
TABULAR, COARSE = 0.1, float(np.sqrt(0.1**2 + 1 / 4))


def random_environments(n: int) -> Callable[[np.random.Generator], Environment]:
    """The paper's distribution, with theta = (1, 0, ..., 0)."""
    return partial(_sample_random, n)


def _sample_random(n: int, rng: np.random.Generator) -> Environment:
    return zoo.random_parallel(M, n, np.eye(n)[0], rng)


def settings() -> list[Setting]:
    """A setting for each n."""
    policies = build_printed_policies(PRINTED_POLICIES) | build_improved_policies(
        PRINTED_POLICIES, tabular=TABULAR, coarse=COARSE
    )
    return [Setting(f"n = {n}", random_environments(n), policies, HORIZON) for n in NS]


def figures(runs: Runs) -> dict[str, Figure]:
    """Final regret against n, as printed and improved."""
    from causalbandits.results.plots import plot_final

    improved = [name for name in runs[f"n = {NS[0]}"].policies if "s =" in name]
    axis = "pairs X -> W (n)"
    return {
        "figure4": plot_final({n: runs[f"n = {n}"].only(PRINTED_POLICIES) for n in NS}, axis),
        "figure4-improved": plot_final({n: runs[f"n = {n}"].only(improved) for n in NS}, axis),
    }


EXPERIMENT = Experiment(
    name="figure4",
    title="Figure 4: regret against the number of parents",
    about=(
        "n = 2 to 6 pairs, three values of each X: 16 to 4096 actions, 4 to 64 configurations; 10,000 rounds. Only "
        "the first parent affects the reward; the algorithms do not know this. Each replication draws its own "
        "probabilities."
    ),
    settings=settings,
    figures=figures,
    captions={
        "figure4": "As printed: final regret, 95% intervals.",
        "figure4-improved": "At the true noise scales, linear policies on the observed features.",
    },
)
