"""Figure 1: the graph of the simulations. Pairs X_i -> W_i -> Y; only the X_i are manipulable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from causalbandits.environments import zoo
from causalbandits.paper.experiment import Experiment, Runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures(runs: Runs) -> dict[str, Figure]:
    """The graph for n = 4."""
    from causalbandits.results.plots import plot_graph

    return {"figure1": plot_graph(zoo.figure2().problem)}


EXPERIMENT = Experiment(
    name="figure1",
    title="Figure 1: the graph of the simulations",
    about="Each parent of the reward depends on one manipulable variable. Drawn for n = 4 pairs.",
    settings=list,
    figures=figures,
    captions={"figure1": "Blue: manipulable variables. Bold outline: parents of the reward."},
)
