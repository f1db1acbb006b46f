"""A picture of when policies stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from causalbandits._files import FilePath
from causalbandits.results.plots import COLOURS, DASHES, label_ends, picture_path, saved
from causalbandits.results.stopping import check_delta, stopping_rounds

if TYPE_CHECKING:
    from causalbandits.results.run import Run


def plot_stopping(run: Run, path: FilePath | None = None, *, delta: float = 0.05) -> Figure:
    """How many replications of each policy have stopped by each round; wrong ones are among them, delta at most."""
    if path is not None:
        picture_path(path)
    check_delta(delta)
    figure = Figure(figsize=(7, 4.2), dpi=150, layout="constrained")
    ax, ends = figure.add_subplot(), []
    for i, policy in enumerate(run.policies):
        when = stopping_rounds(run.rounds, run.measure("risk", policy), delta)
        share = (when[:, None] <= run.rounds).mean(axis=0)
        colour, dashes = COLOURS[i % len(COLOURS)], DASHES[(i + i // len(COLOURS)) % len(DASHES)]
        ax.plot(run.rounds, share, color=colour, linestyle=dashes, linewidth=1.8)
        ends.append((float(share[-1]), policy, colour))
    ax.set_xscale("log")
    ax.set_xlim(run.rounds[0], run.horizon)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("round (log scale)")
    ax.set_ylabel("share that has stopped")
    ax.set_title(f"Sure of the best action, wrong with probability {delta:g} at most", loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    label_ends(ax, ends)
    return saved(figure, path)
