"""Figure 5: the graph of the e-mail campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from causalbandits.environments import zoo
from causalbandits.paper.experiment import Experiment, Runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures(runs: Runs) -> dict[str, Figure]:
    """The graph."""
    from causalbandits.results.plots import plot_graph

    return {"figure5": plot_graph(zoo.email_campaign().problem, reward="click")}


EXPERIMENT = Experiment(
    name="figure5",
    title="Figure 5: the graph of the e-mail campaign",
    about="Product, purpose and send time are manipulable; subject length and template depend on the first two.",
    settings=list,
    figures=figures,
    captions={"figure5": "Blue: manipulable variables. Bold outline: parents of the reward."},
)
