"""Pictures of results: colour-blind safe, legible in grey, labelled where the lines end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from causalbandits.results import Path, Run

# Okabe and Ito's colours without yellow, which vanishes on white; dashes tell them apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))


def plot_regret(run: Run, path: Path | None = None, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Mean regret of every policy against rounds, with 95% bands of the mean."""
    if ax is None:
        ax = Figure(figsize=(7, 4.2), dpi=150, layout="constrained").add_subplot()
    ends = []
    for i, policy in enumerate(run.policies):
        mean, lower, upper = run.interval(policy)
        colour = COLOURS[i % len(COLOURS)]
        dashes = DASHES[(i + i // len(COLOURS)) % len(DASHES)]
        ax.plot(run.rounds, mean, color=colour, linestyle=dashes, linewidth=1.8)
        if not math.isnan(lower[-1]):
            ax.fill_between(run.rounds, lower, upper, color=colour, alpha=0.2, linewidth=0)
        ends.append((float(mean[-1]), policy, colour))
    ax.set_xlim(0, run.horizon)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("round")
    ax.set_ylabel("regret")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    replications = f"Mean of {run.replications} replications, 95% bands" if run.replications > 1 else "One replication"
    ax.set_title(title or replications, loc="left", fontsize=10, parse_math=False)
    _label_ends(ax, ends)
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    if path is not None:
        figure.savefig(path)
    return figure


def _label_ends(ax: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Names at the lines' ends, moved apart just enough not to overlap, and kept beside the axes."""
    low, high = ax.get_ylim()
    gap = (high - low) * 0.055
    ends = sorted(ends)
    places: list[float] = []
    for y, _, _ in ends:
        places.append(max(y, places[-1] + gap) if places else y)
    ceiling = max(high, low + gap * (len(ends) - 1))
    for i in reversed(range(len(places))):
        places[i] = min(places[i], ceiling)
        ceiling = places[i] - gap
    for place, (_, policy, colour) in zip(places, ends, strict=True):
        ax.annotate(
            policy,
            xy=(1, place),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
            parse_math=False,
        )
