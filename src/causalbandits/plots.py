"""Pictures of results: colour-blind safe, legible in grey, labelled where the lines end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from causalbandits.errors import CausalBanditsError
from causalbandits.theory._base import Bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from causalbandits.results import Path, Run

# Okabe and Ito's colours without yellow, which vanishes on white; dashes tell them apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))


def plot_regret(
    run: Run,
    path: Path | None = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    bounds: Sequence[Bound] = (),
) -> Figure:
    """Mean regret of every policy against rounds, with 95% bands of the mean; bounds as thin dashed lines."""
    if isinstance(bounds, Bound) or not all(isinstance(bound, Bound) for bound in bounds):
        raise CausalBanditsError(f"bounds must be a list of what theory.bound(...) gives; got {bounds!r}.")
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
    colours = {policy: colour for _, policy, colour in ends}
    ends += _draw_bounds(ax, run, bounds, colours)
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


def _draw_bounds(ax: Axes, run: Run, bounds: Sequence[Bound], colours: dict[str, str]) -> list[tuple[float, str, str]]:
    """Bounds in their policies' colours, as far as the picture reaches; the ends of those that stay in it.

    Those that leave it are named where they do, with the value that they end at.
    """
    if not bounds or run.horizon < 2:
        return []
    low, high = ax.get_ylim()
    # Room above the regret, in which bounds can be seen to lie above it.
    high = low + 1.15 * (high - low)
    ax.set_ylim(low, high)
    ends, leaving = [], []
    for bound in bounds:
        rounds = np.unique(np.append(np.geomspace(2, run.horizon, 400), run.rounds[run.rounds >= 2]))
        values = bound.at(rounds, horizon=run.horizon)
        colour = colours.get(bound.policy, "0.45")
        ax.plot(rounds, values, color=colour, linestyle=(0, (4, 3)), linewidth=0.9, scalex=False, scaley=False)
        label = f"{bound.policy} bound{' (assumptions broken)' * bool(bound.broken)}"
        if values[-1] <= high:
            ends.append((float(values[-1]), label, colour))
        else:
            vacuous = " (vacuous)" if bound.vacuous(rounds[-1], horizon=run.horizon) else ""
            leaving.append((rounds, values, f"{label}: {values[-1]:,.0f} at the end{vacuous}", colour))
    for i, (rounds, values, label, colour) in enumerate(leaving):
        height = high - (high - low) * (0.03 + 0.05 * i)
        start = float(np.interp(height, values, rounds))
        left = start > 0.6 * run.horizon
        ax.annotate(
            label,
            xy=(start, height),
            xytext=(-4 if left else 4, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            color=colour,
            fontsize=7.5,
            parse_math=False,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.9},
        )
    return ends
