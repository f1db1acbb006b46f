"""Figure 6: the e-mail campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from causalbandits.environments import zoo
from causalbandits.paper.experiment import Experiment, Runs, Setting, build_printed_policies
from causalbandits.policies import policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HORIZON = 5000
CAMPAIGN_POLICIES = ("ucb", "c-ucb", "ts(prior=beta)", "c-ts(prior=beta)")
CLICK_SCALE = 0.5
"""A Bernoulli variable is 1/2-sub-Gaussian."""


def settings() -> list[Setting]:
    """The campaign."""
    scaled = {f"{id}, s = {CLICK_SCALE}": policy(id, noise_scale=CLICK_SCALE) for id in ("ucb", "c-ucb")}
    return [
        Setting(
            "campaign",
            zoo.email_campaign(),
            build_printed_policies((*CAMPAIGN_POLICIES, "kl-ucb", "c-kl-ucb")) | scaled,
            HORIZON,
        )
    ]


def figures(runs: Runs) -> dict[str, Figure]:
    """Regret, as printed and with indices for Bernoulli rewards."""
    from causalbandits.results.plots import plot_panels

    run = runs["campaign"]
    scaled = [name for name in run.policies if "s =" in name]
    return {
        "figure6": plot_panels([run.only(CAMPAIGN_POLICIES)], ["E-mail campaign"]),
        "figure6-improved": plot_panels(
            [run.only([*scaled, "kl-ucb", "c-kl-ucb", "ts(prior=beta)", "c-ts(prior=beta)"])],
            ["E-mail campaign, improved"],
        ),
    }


EXPERIMENT = Experiment(
    name="figure6",
    title="Figure 6: the e-mail campaign",
    about="80 actions, 12 configurations of the reward's parents, 5000 mails. The reward is a click.",
    settings=settings,
    figures=figures,
    captions={
        "figure6": "As printed: Beta priors for Thompson sampling, scale 1 for UCB.",
        "figure6-improved": (
            "UCB at the true scale of a click, and KL-UCB, whose index is designed for Bernoulli rewards."
        ),
    },
)
