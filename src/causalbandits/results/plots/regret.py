"""Plots of results: colour-blind safe, legible in grey, labelled at the lines' ends."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure

from causalbandits._files import FilePath, open_atomically, parse_path, refuse_saved_file, refuse_unwritable
from causalbandits._typing import Array
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.policies import policy_label
from causalbandits.results.plots.fonts import set_fonts
from causalbandits.results.statistics import stopping_rounds, validate_delta
from causalbandits.theory import Bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from causalbandits.results.run import Run


# Okabe and Ito's colours without yellow, which is invisible on white; dashes distinguish the lines in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STOP_DELTA = 0.05
"""The delta of a forecast's dotted lines, which show the share of replications that stopped."""
EMBEDDED_FONTS: dict[Any, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42}
"""Fonts as TrueType, since many publishers refuse Matplotlib's default, Type 3."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))


def plot_run(
    run: Run,
    path: FilePath | None = None,
    *,
    measure: str = "regret",
    ax: Axes | None = None,
    title: str | None = None,
    bounds: Sequence[Bound] = (),
    log: bool = False,
) -> Figure:
    """The mean of a measure for every policy against rounds, with 95% bands; bounds as thin dashed lines.

    `log=True` makes the measure's axis logarithmic, for policies that differ by orders of magnitude.
    """
    if path is not None:
        parse_picture_path(path)
    if isinstance(bounds, Bound) or not all(isinstance(bound, Bound) for bound in bounds):
        raise CausalBanditsError(f"bounds must be a list of results of theory.bound(...); got {bounds!r}.")
    if bounds and measure != "regret":
        raise CausalBanditsError(f"bounds apply to the regret. Leave out bounds= in a plot of {measure!r}.")
    if not isinstance(log, bool):
        raise CausalBanditsError(f"log must be True or False; got {log!r}. It concerns the axis of the measure.")
    if ax is None:
        ax = Figure(figsize=(7, 4.2), dpi=150, layout="constrained").add_subplot()
    intervals = {policy: run.interval(policy, measure=measure) for policy in run.policies}
    means = [mean for mean, _, _ in intervals.values()]
    floor = _log_floor(means) if log else -math.inf
    zeros = log and any((mean == 0).any() for mean in means)
    ends = []
    for i, (policy, (mean, lower, upper)) in enumerate(intervals.items()):
        colour = COLOURS[i % len(COLOURS)]
        if zeros:
            mean = np.where(mean == 0, floor, mean)
        dashes = DASHES[(i + i // len(COLOURS)) % len(DASHES)]
        legend_label = policy_label(policy).replace("$", r"\$")
        ax.plot(run.rounds, mean, color=colour, linestyle=dashes, linewidth=1.8, label=legend_label)
        if not math.isnan(lower[-1]):
            ax.fill_between(run.rounds, lower, upper, color=colour, alpha=0.2, linewidth=0)
        ends.append((float(mean[-1]), policy, colour))
    ax.set_xlim(0, run.horizon)
    if log:
        ax.set_yscale("log")
        ax.set_ylim(bottom=floor, top=None if max(mean.max() for mean in means) > floor else 100 * floor)
    elif measure != "reward":  # regret can be negative
        ax.set_ylim(bottom=0)
    ax.set_xlabel("round")
    ax.set_ylabel(f"{measure} (log scale{'; 0 is at the bottom' * zeros})" if log else measure)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    replications = f"Mean of {run.replications} replications, 95% bands" if run.replications > 1 else "One replication"
    ax.set_title(title or replications, loc="left", fontsize=10, parse_math=False)
    colours = {policy: colour for _, policy, colour in ends}
    ends += _draw_bounds(ax, run, bounds, colours)
    label_ends(ax, ends)
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    return save_figure(figure, path)


def _log_floor(means: Sequence[Array]) -> float:
    """The lower end of a logarithmic axis: slightly below the lowest start of a line, ignoring zeros."""
    early = [float(mean[len(mean) // 50]) for mean in means]
    positive = [float(value) for mean in means for value in mean[mean > 0]]
    return max(1e-3, 0.7 * min((value for value in early if value > 0), default=min(positive, default=0.1)))


def save_figure(figure: Figure, path: FilePath | None) -> Figure:
    """Choose fonts for a figure and, if `path` is given, write it in the format of the suffix."""
    set_fonts(figure)
    if path is not None:
        where, kind = parse_picture_path(path)
        with open_atomically(where) as file, rc_context(EMBEDDED_FONTS):
            figure.savefig(file, format=kind)
    return figure


def parse_picture_path(path: FilePath) -> tuple[Path, str]:
    """The path of a picture and its format; raise if it cannot be written."""
    where, formats = parse_path(path, "regret.png"), FigureCanvasBase.get_supported_filetypes()
    format_name = os.path.splitext(path)[1][1:].lower()
    if format_name not in formats:
        raise StateError(f"A picture's name must end in its format, one of {', '.join(formats)}; got {str(path)!r}.")
    refuse_unwritable(where)
    refuse_saved_file(where, "a picture")
    return where, format_name


def label_ends(ax: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Labels at the lines' ends, moved apart just enough not to overlap, and kept beside the axes."""
    gap = 0.055
    ends = sorted(ends)
    ax.get_ylim()  # computes the scale
    heights = (ax.transData + ax.transAxes.inverted()).transform([(0.0, y) for y, _, _ in ends])[:, 1]
    places: list[float] = []
    for height in heights.tolist():
        places.append(max(height, places[-1] + gap) if places else height)
    ceiling = max(1.0, gap * (len(ends) - 1))
    for i in reversed(range(len(places))):
        places[i] = min(places[i], ceiling)
        ceiling = places[i] - gap
    for place, (_, name, colour) in zip(places, ends, strict=True):
        ax.annotate(
            policy_label(name),
            xy=(1, place),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
            parse_math=False,
        )


def _find_name(run: Run, policy: str) -> str:
    """The name under which a run has a policy; the policy itself where it has several, or did not note them."""
    ids = {} if run.origin is None or run.origin.ids is None else run.origin.ids
    horizon = rf"\(horizon={run.horizon}\)|horizon={run.horizon}, |, horizon={run.horizon}(?=\))"
    names = [name for name, id in ids.items() if policy in (id, re.sub(horizon, "", id))]
    return names[0] if policy not in run.policies and len(names) == 1 else policy


def _draw_bounds(ax: Axes, run: Run, bounds: Sequence[Bound], colours: dict[str, str]) -> list[tuple[float, str, str]]:
    """Bounds in their policies' colours, clipped to the picture; return the ends of those that stay inside.

    A bound that leaves the picture is labelled at that point with its final value.
    """
    if not bounds or run.horizon < 2:
        return []
    low, high = ax.get_ylim()
    # Space above the regret, so that bounds above it are visible; a logarithmic scale has space for all of them.
    if ax.get_yscale() == "log":
        high = max(high, *(1.3 * float(bound.at(run.horizon)) for bound in bounds))
    else:
        high = low + 1.15 * (high - low)
    ax.set_ylim(low, high)
    ends, cut_off = [], []
    for bound in bounds:
        rounds = np.unique(np.append(np.geomspace(2, run.horizon, 400), run.rounds[run.rounds >= 2]))
        values = bound.at(rounds, horizon=run.horizon)
        colour = colours.get(_find_name(run, bound.policy), "0.45")
        kind = "Bayesian bound" if bound.kind == "Bayesian" else "bound"
        label = f"{policy_label(bound.policy)} {kind}{' (assumptions broken)' * bool(bound.broken)}"
        vacuous = " (vacuous)" if bound.vacuous(rounds[-1], horizon=run.horizon) else ""
        ax.plot(
            rounds, values, color=colour, linestyle=(0, (4, 3)), linewidth=0.9, scalex=False, scaley=False,
            label=f"{label}{vacuous}",
        )  # fmt: skip
        if values[-1] <= high:
            ends.append((float(values[-1]), f"{label}{vacuous}", colour))
        else:
            cut_off.append((rounds, values, f"{label}: {values[-1]:,.0f} at the end{vacuous}", colour))
    for i, (rounds, values, label, colour) in enumerate(cut_off):
        height = high - (high - low) * (0.03 + 0.05 * i)
        start = float(np.interp(height, values, rounds))
        is_late = start > 0.6 * run.horizon
        ax.annotate(
            label,
            xy=(start, height),
            xytext=(-4 if is_late else 4, 0),
            textcoords="offset points",
            ha="right" if is_late else "left",
            va="center",
            color=colour,
            fontsize=7.5,
            parse_math=False,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.9},
        )
    return ends


def plot_panels(runs: Sequence[Run], titles: Sequence[str], *, log: bool = False) -> Figure:
    """Regret plots side by side, each with its own scale."""
    figure = Figure(figsize=(4.9 * len(runs) + 0.6 * (len(runs) == 1), 3.7), dpi=150, layout="constrained")
    for ax, run, title in zip(figure.subplots(1, len(runs), squeeze=False)[0], runs, titles, strict=True):
        plot_run(run, ax=ax, title=title, log=log)
    return figure


MARKERS = "osD^vPX*"


def plot_final(
    runs: Mapping[int, Run], xlabel: str, *, reference: tuple[str, Callable[[int], float]] | None = None
) -> Figure:
    """Final regret of every policy against a parameter that differs between runs, with 95% intervals of the mean.

    `reference` is a function for comparing the growth; it is drawn through the first policy's first mean.
    """
    figure = Figure(figsize=(6.4, 4.4), dpi=150, layout="constrained")
    ax = figure.add_subplot()
    xs = list(runs)
    ends = []
    finals = {
        policy: np.array([[bound[-1] for bound in run.interval(policy)] for run in runs.values()]).T
        for policy in runs[xs[0]].policies
    }
    floor, zeros = _final_floor(finals.values())
    for i, (policy, (mean, lower, upper)) in enumerate(finals.items()):
        height = np.maximum(mean, floor)
        colour, dashes = COLOURS[i % len(COLOURS)], DASHES[(i + i // len(COLOURS)) % len(DASHES)]
        below, above = np.minimum(mean - lower, 0.9 * mean), np.maximum(upper - height, 0.0)
        error = np.nan_to_num(np.stack([below, above]))
        ax.errorbar(
            xs, height, error, color=colour, linestyle=dashes, marker=MARKERS[i % len(MARKERS)],
            markersize=5, linewidth=1.6, elinewidth=1, capsize=2.5,
        )  # fmt: skip
        ends.append((float(height[-1]), policy, colour))
    if reference is not None:
        name, function = reference
        first = next(iter(runs.values()))
        scale = max(floor, float(first.regret(first.policies[0])[:, -1].mean())) / function(xs[0])
        values = [scale * function(x) for x in xs]
        ax.plot(xs, values, color="0.6", linewidth=5, alpha=0.5, zorder=0, solid_capstyle="round")
        middle = len(xs) // 2
        ax.annotate(
            name,
            (xs[middle], values[middle]),
            (-8, 16),
            textcoords="offset points",
            color="0.4",
            ha="right",
            fontsize=9,
        )
    ax.set_yscale("log")
    if zeros:
        ax.set_ylim(
            bottom=floor, top=None if max(mean.max() for mean, _, _ in finals.values()) > floor else 100 * floor
        )
    ax.set_xticks(xs)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(f"final regret (log scale{'; 0 is at the bottom' * zeros})")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    replications = next(iter(runs.values())).replications
    ax.set_title(f"Mean of {replications} replications, 95% intervals", loc="left", fontsize=10)
    label_ends(ax, ends)
    return figure


def _final_floor(finals: Iterable[Array]) -> tuple[float, bool]:
    """The place of zero means on a logarithmic axis, and whether there is one: below the smallest other mean."""
    means = np.concatenate([mean for mean, _, _ in finals])
    positive = means[means > 0]
    return (float(positive.min()) / 3 if len(positive) else 0.1), bool((means == 0).any())


def plot_forecast(forecast: Any, path: FilePath | None = None) -> Figure:
    """Regret, and the share of good enough recommendations, side by side (of a `forecast.Forecast`)."""
    if path is not None:
        parse_picture_path(path)
    run = forecast.run
    figure = Figure(figsize=(10.6, 3.9), dpi=150, layout="constrained")
    regret_axes, probability_axes = figure.subplots(1, 2)
    plot_run(run, ax=regret_axes, title=f"Mean regret of {run.replications} problem instances")
    ends = []
    for i, policy in enumerate(run.policies):
        p, lower, upper = forecast.probability(policy)
        colour, dashes = COLOURS[i % len(COLOURS)], DASHES[(i + i // len(COLOURS)) % len(DASHES)]
        probability_axes.plot(run.rounds, p, color=colour, linestyle=dashes, linewidth=1.8)
        probability_axes.fill_between(run.rounds, lower, upper, color=colour, alpha=0.2, linewidth=0)
        ends.append((float(p[-1]), policy, colour))
        if "error probability" in run.measures:
            when = stopping_rounds(run.rounds, run.measure("error probability", policy), STOP_DELTA)
            probability_axes.plot(
                run.rounds, (when[:, None] <= run.rounds).mean(axis=0), color=colour, linestyle=":", linewidth=1.2
            )
    probability_axes.axhline(0.9, color="0.6", linewidth=0.8, linestyle=(0, (2, 3)))
    probability_axes.set_xscale("log")
    probability_axes.set_xlim(run.rounds[0], run.horizon)
    probability_axes.set_ylim(0, 1)
    probability_axes.set_xlabel("round (log scale)")
    probability_axes.set_ylabel("probability")
    dotted = "; dotted: stopping rule met" if "error probability" in run.measures else ""
    title = f"Recommended action is within {forecast.tolerance:.3g} of the best{dotted}"
    probability_axes.set_title(title, loc="left", fontsize=10)
    probability_axes.spines[["top", "right"]].set_visible(False)
    label_ends(probability_axes, ends)
    return save_figure(figure, path)


# Plot of stopping times.


def plot_stopping(run: Run, path: FilePath | None = None, *, delta: float = 0.05) -> Figure:
    """The share of replications of each policy that have stopped by each round, including wrong ones (at most
    delta)."""
    if path is not None:
        parse_picture_path(path)
    validate_delta(delta)
    figure = Figure(figsize=(7, 4.2), dpi=150, layout="constrained")
    ax, ends = figure.add_subplot(), []
    for i, policy in enumerate(run.policies):
        stopping_times = stopping_rounds(run.rounds, run.measure("error probability", policy), delta)
        share = (stopping_times[:, None] <= run.rounds).mean(axis=0)
        colour, dashes = COLOURS[i % len(COLOURS)], DASHES[(i + i // len(COLOURS)) % len(DASHES)]
        ax.plot(run.rounds, share, color=colour, linestyle=dashes, linewidth=1.8)
        ends.append((float(share[-1]), policy, colour))
    ax.set_xscale("log")
    ax.set_xlim(run.rounds[0], run.horizon)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("round (log scale)")
    ax.set_ylabel("share that has stopped")
    ax.set_title(f"Stopping rule met, error probability at most {delta:g}", loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    label_ends(ax, ends)
    return save_figure(figure, path)
