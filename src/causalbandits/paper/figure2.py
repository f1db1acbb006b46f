"""Figure 2: the six algorithms on one fixed instance, and the Bayesian regret of Thompson sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from causalbandits.environments import Environment, LinearReward, zoo
from causalbandits.paper.experiment import (
    TS_FAMILY,
    UCB_FAMILY,
    Experiment,
    Runs,
    Setting,
    build_improved_policies,
    build_printed_policies,
)
from causalbandits.theory import noise_scales

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HORIZON = 5000
PRIOR_SD = 0.1
"""For the Bayesian panel theta ~ N(0, PRIOR_SD^2 I)."""
NOISE_SD = 0.1


def sample_environment(rng: np.random.Generator) -> Environment:
    """The instance with theta drawn from its prior."""
    problem = zoo.figure2().problem
    return Environment(problem, LinearReward(rng.normal(0.0, PRIOR_SD, size=4), sd=NOISE_SD))


def settings() -> list[Setting]:
    """The fixed instance, and instances with sampled theta."""
    env = zoo.figure2()
    tabular, coarse = noise_scales(env)
    ids = UCB_FAMILY + TS_FAMILY
    fixed = build_printed_policies(ids) | build_improved_policies(ids, tabular=tabular, coarse=coarse)
    bayesian = build_printed_policies(TS_FAMILY) | build_improved_policies(
        TS_FAMILY, tabular=NOISE_SD, coarse=BAYESIAN_SCALE
    )
    return [Setting("fixed", env, fixed, HORIZON), Setting("bayesian", sample_environment, bayesian, HORIZON)]


BAYESIAN_SCALE = float(np.sqrt(NOISE_SD**2 + 4 * PRIOR_SD**2 / 4))
"""The noise scale given the action: each of four parents adds theta_i^2 / 4, on average PRIOR_SD^2 / 4."""


def figures(runs: Runs) -> dict[str, Figure]:
    """Three panels, as printed and improved."""
    from causalbandits.results.plots import plot_panels

    fixed, bayesian = runs["fixed"], runs["bayesian"]
    improved = [name for name in fixed.policies if "s =" in name]
    ucb, ts = [name for name in improved if "ucb" in name], [name for name in improved if "ts" in name]
    bayes = [name for name in bayesian.policies if "s =" in name]
    titles = ["UCB family", "TS family", "TS family, Bayesian regret"]
    return {
        "figure2": plot_panels([fixed.only(UCB_FAMILY), fixed.only(TS_FAMILY), bayesian.only(TS_FAMILY)], titles),
        "figure2-improved": plot_panels([fixed.only(ucb), fixed.only(ts), bayesian.only(bayes)], titles, log=True),
    }


EXPERIMENT = Experiment(
    name="figure2",
    title="Figure 2: six algorithms on one instance",
    about=(
        "Four pairs X -> W, three values each: 256 actions, 16 configurations of the reward's parents, 5000 rounds. "
        "The reward is linear in W, with noise of standard deviation 0.1."
    ),
    settings=settings,
    figures=figures,
    captions={
        "figure2": "As printed: every scale is 1, CL-UCB and CL-TS regress on the expected features.",
        "figure2-improved": (
            "Each policy at its true noise scale s; the linear policies regress on the observed features."
        ),
    },
)
