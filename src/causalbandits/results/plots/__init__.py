"""Plots of regret, of stopping times and of causal graphs."""

from causalbandits.results.plots.graph import (
    graph_with_reward,
    place_labels,
    plot_graph,
    plot_structure,
    structure_columns,
)
from causalbandits.results.plots.regret import (
    parse_picture_path,
    plot_final,
    plot_forecast,
    plot_panels,
    plot_run,
    plot_stopping,
)

__all__ = [
    "graph_with_reward",
    "parse_picture_path",
    "place_labels",
    "plot_final",
    "plot_forecast",
    "plot_graph",
    "plot_panels",
    "plot_run",
    "plot_stopping",
    "plot_structure",
    "structure_columns",
]
