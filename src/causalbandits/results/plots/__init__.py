"""Plots of regret, of stopping times and of causal graphs."""

from causalbandits.results.plots.graph import plot_graph, whole_graph
from causalbandits.results.plots.regret import panels, picture_path, plot_final, plot_forecast, plot_run, plot_stopping

__all__ = [
    "panels",
    "picture_path",
    "plot_final",
    "plot_forecast",
    "plot_graph",
    "plot_run",
    "plot_stopping",
    "whole_graph",
]
