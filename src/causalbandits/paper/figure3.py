"""Figure 3: regret against m, the number of values of each X; the parents stay four binary ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from causalbandits.environments import Environment, zoo
from causalbandits.paper.experiment import PRINTED, Experiment, Runs, Setting, improved, printed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HORIZON = 5000
N = 4
MS = (2, 3, 4, 5, 6)
THETA = (0.25, 0.25, -0.25, -0.25)
TABULAR, COARSE = 0.1, float(np.sqrt(0.1**2 + sum(np.square(THETA)) / 4))


def random(m: int) -> Callable[[np.random.Generator], Environment]:
    """The paper's draw: P(X) ~ Dirichlet(1), P(W = 1 | X = j) uniform, for each j anew."""
    return partial(_random, m)


def _random(m: int, rng: np.random.Generator) -> Environment:
    return zoo.random_parallel(m, N, THETA, rng)


def clean(m: int) -> Callable[[np.random.Generator], Environment]:
    """The clean draw: the two extreme P(W = 1 | X) are the same for every m, further values lie between them.

    So only the number of actions changes with m, not the gaps between the best ones.
    """
    return partial(_clean, m)


def _clean(m: int, rng: np.random.Generator) -> Environment:
    extremes = rng.random((N, 2))
    between = extremes[:, :1] + rng.random((N, m - 2)) * (extremes[:, 1:] - extremes[:, :1])
    pw = np.concatenate([extremes, between], axis=1)
    return zoo.parallel(list(rng.dirichlet(np.ones(m), size=N)), list(pw), THETA)


def settings() -> list[Setting]:
    """Each m, drawn as in the paper and cleanly."""
    policies = printed(PRINTED) | improved(PRINTED, tabular=TABULAR, coarse=COARSE)
    drawn = [Setting(f"m = {m}", random(m), policies, HORIZON) for m in MS]
    return drawn + [Setting(f"clean, m = {m}", clean(m), printed(PRINTED), HORIZON) for m in MS]


def figures(runs: Runs) -> dict[str, Figure]:
    """Final regret against m: as printed, improved, and in the clean experiment."""
    from causalbandits.results.plots import plot_final

    paper = {m: runs[f"m = {m}"] for m in MS}
    own = [name for name in paper[MS[0]].policies if "s =" in name]
    axis = "values of each X (m)"
    return {
        "figure3": plot_final({m: run.only(PRINTED) for m, run in paper.items()}, axis),
        "figure3-improved": plot_final({m: run.only(own) for m, run in paper.items()}, axis),
        "figure3-clean": plot_final({m: runs[f"clean, m = {m}"] for m in MS}, axis),
    }


EXPERIMENT = Experiment(
    name="figure3",
    title="Figure 3: regret against the number of values",
    about=(
        "Four pairs, m = 2 to 6 values of each X, so 81 to 2401 actions and always 16 configurations; 5000 rounds. "
        "Each replication draws its own probabilities. In the paper's draw the gaps change with m too: with more "
        "values the extreme P(W | X) lie further out. The clean draw keeps the extremes."
    ),
    settings=settings,
    figures=figures,
    captions={
        "figure3": "As printed: final regret, 95% intervals.",
        "figure3-improved": "At the true noise scales, linear policies on what was observed.",
        "figure3-clean": "The clean draw: only the number of actions changes with m.",
    },
)
