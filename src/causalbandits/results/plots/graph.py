"""Pictures of causal graphs."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from causalbandits._files import FilePath
from causalbandits._typing import Array
from causalbandits.model import CausalGraph
from causalbandits.results.plots.fonts import text_width
from causalbandits.results.plots.regret import parse_picture_path, save_figure

if TYPE_CHECKING:
    from causalbandits.problem import Problem


# Layered layout of a graph: causes above effects, and arrows that pass between variables instead of behind them. An
# arrow that spans several levels takes a place (a bend) on each level in between, like a variable but narrower
# (Sugiyama, Tagawa, Toda 1981). Levels are ordered to reduce crossings, and then straightened as far as the order
# allows.

BEND = 0.4
"""The width of a bend; the width of a variable is 1."""

SWEEPS = 12
"""The number of sweeps, down or up, that order and move the levels."""


class Layout(NamedTuple):
    """The places of the variables and the points of each arrow; the top level has height 0, the next -1."""

    places: Mapping[str, tuple[float, float]]
    bends: Mapping[tuple[str, str], Sequence[tuple[float, float]]]


def name_confounders(graph: CausalGraph) -> nx.DiGraph:
    """A graph for pictures: unobserved confounders without a name get one, and are labelled with a question mark."""
    free = (name for i in itertools.count(1) if (name := f"?{i}") not in graph.parents)
    names = {node: next(free) for node in graph.graph if not isinstance(node, str)}
    labelled = nx.relabel_nodes(nx.DiGraph(graph.graph), names)
    for name in names.values():
        labelled.nodes[name]["label"] = "?"
    return labelled


def layered_layout(graph: nx.DiGraph) -> Layout:
    """A layered layout of an acyclic graph.

    >>> layout = layered_layout(nx.DiGraph([("a", "b"), ("b", "c"), ("a", "c")]))
    >>> [layout.places[name][1] for name in "abc"], len(layout.bends["a", "c"])
    ([0.0, -1.0, -2.0], 1)
    """
    level = _assign_levels(graph)
    paths = {(a, b): [a, *((a, b, i) for i in range(level[a] + 1, level[b])), b] for a, b in graph.edges}
    near: dict[Hashable, list[Hashable]] = {name: [] for name in graph}
    rows: list[list[Hashable]] = [[name for name in graph if level[name] == i] for i in range(max(level.values()) + 1)]
    for path in paths.values():
        for bend in path[1:-1]:
            rows[bend[2]].append(bend)
        for upper, lower in itertools.pairwise(path):
            near.setdefault(upper, []).append(lower)
            near.setdefault(lower, []).append(upper)
    x = _horizontal_places(rows, near)
    height = {node: 0.0 - i for i, row in enumerate(rows) for node in row}
    return Layout(
        {name: (x[name], height[name]) for name in graph},
        {edge: [(x[node], height[node]) for node in path[1:-1]] for edge, path in paths.items()},
    )


def _assign_levels(graph: nx.DiGraph) -> dict[Any, int]:
    """Each effect as low as possible, each cause directly above its highest effect."""
    height: dict[Any, int] = {}
    for name in reversed(list(nx.topological_sort(graph))):
        height[name] = max((height[effect] + 1 for effect in graph.successors(name)), default=0)
    return {name: max(height.values()) - height[name] for name in graph}


def _horizontal_places(rows: list[list[Hashable]], near: Mapping[Hashable, list[Hashable]]) -> dict[Hashable, float]:
    """Horizontal places: each node near the mean of its neighbours', first in any order, then in the last."""
    x = {node: float(place) for row in rows for node, place in zip(row, _packed_places(row), strict=True)}
    where = {node: i for i, row in enumerate(rows) for node in row}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for i in range(len(rows)) if down else reversed(range(len(rows))):
            # The order depends only on the side that was ordered last.
            target = {node: _mean([x[n] for n in near[node] if (where[n] < i) == down], x[node]) for node in rows[i]}
            rows[i].sort(key=lambda node: target[node])
            x |= zip(rows[i], _packed_places(rows[i]), strict=True)
    for sweep in range(SWEEPS):
        for i in range(len(rows)) if sweep % 2 else reversed(range(len(rows))):
            targets = np.array([_mean([x[n] for n in near[node]], x[node]) for node in rows[i]])
            x |= zip(rows[i], _separate_places(targets, _packed_places(rows[i])).tolist(), strict=True)
    return x


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _packed_places(row: Sequence[Hashable]) -> Array:
    """Places side by side, centred at 0."""
    widths = np.array([BEND if isinstance(node, tuple) else 1.0 for node in row])
    return np.asarray(np.cumsum(widths) - widths / 2 - widths.sum() / 2)


def _separate_places(targets: Array, packed: Array) -> Array:
    """The places nearest to the preferred ones, in this order and no closer than when packed (isotonic regression)."""
    blocks: list[tuple[float, int]] = []
    for value in (targets - packed).tolist():
        mean, count = value, 1
        while blocks and blocks[-1][0] > mean:
            previous_mean, previous_count = blocks.pop()
            mean, count = (
                (mean * count + previous_mean * previous_count) / (count + previous_count),
                count + previous_count,
            )
        blocks.append((mean, count))
    return np.asarray(packed + np.repeat([mean for mean, _ in blocks], [count for _, count in blocks]))


BLUE, WHITE, GREEN, YELLOW, VIOLET = "#9ecae9", "#ffffff", "#b8e0c8", "#fff0b8", "#dccbea"

STOREY, BOX = 1.15, 0.17
"""The distance of levels, and the half-width of a box, in inches."""

PORT = 0.2
"""The maximum distance of neighbouring arrows at one box."""

Point = tuple[float, float]


def plot_graph(problem: Problem, path: FilePath | None = None, *, reward: str | None = None) -> Figure:
    """The causal graph, causes above effects: manipulable variables are blue, the reward's parents have a bold border.

    The reward is green, the context violet, and the candidate variables of a separator yellow. Unobserved variables
    have a dashed border and dashed arrows, and a question mark if they have no name. Variables are left out if they
    neither affect the reward, nor are manipulable, nor belong to the context.
    """
    if path is not None:
        parse_picture_path(path)
    goal = reward or problem.reward or "Y"
    graph = _relevant_subgraph(problem, goal)
    layout = layered_layout(graph)
    half = 0.13 + 0.045 * max(text_width(name) for name in graph)
    step = max(1.3, 2 * half + 0.3)
    points = [*layout.places.values(), *(point for bends in layout.bends.values() for point in bends)]
    leftmost, rightmost = (f(x for x, _ in points) * step for f in (min, max))
    tall = STOREY * -min(y for _, y in points)
    figure = Figure(
        figsize=(max(3.2, rightmost - leftmost + 2 * half + 0.4), tall + 0.8), dpi=150, layout="constrained"
    )
    ax = figure.add_subplot()
    for name, (x, y) in layout.places.items():
        colour = YELLOW if name in problem.can_observe else WHITE
        colour = VIOLET if name in problem.context else colour
        colour = GREEN if name == goal else BLUE if name in problem.manipulable else colour
        ax.text(
            x * step, y * STOREY, graph.nodes[name].get("label", name), ha="center", va="center", fontsize=11,
            parse_math=False, zorder=3,
            bbox={"boxstyle": "round,pad=0.45", "facecolor": colour, "edgecolor": "0.2",
                  "linewidth": 2.4 if name in problem.parents else 1.0,
                  "linestyle": "--" if graph.nodes[name].get("hidden") else "-"},
        )  # fmt: skip
    ports = _arrow_offsets(graph, layout, 2 * half)
    for (cause, effect), bends in layout.bends.items():
        (x0, y0), (x1, y1) = layout.places[cause], layout.places[effect]
        start = x0 * step + ports[cause, effect][0], y0 * STOREY - BOX
        end = x1 * step + ports[cause, effect][1], y1 * STOREY + BOX + 0.02
        style = "--" if graph.nodes[cause].get("hidden") else "-"
        ax.add_patch(_build_arrow([start, *((x * step, y * STOREY) for x, y in bends), end], style))
    middle = (leftmost + rightmost) / 2
    wide = max(3.0, rightmost - leftmost + 2 * half + 0.2) / 2
    ax.set_xlim(middle - wide, middle + wide)
    ax.set_ylim(-tall - 0.35, 0.35)
    ax.axis("off")
    return save_figure(figure, path)


def graph_with_reward(problem: Problem, goal: str) -> nx.DiGraph:
    """The causal graph including the reward; unnamed unobserved confounders are named after their effects."""
    graph = name_confounders(problem.graph)
    if goal not in graph:
        graph.add_edges_from((parent, goal) for parent in problem.parents)
    return graph


def _relevant_subgraph(problem: Problem, goal: str) -> nx.DiGraph:
    """The subgraph of the reward's ancestors, manipulable variables and context variables."""
    import networkx as nx

    graph = graph_with_reward(problem, goal)
    return graph.subgraph(nx.ancestors(graph, goal) | {goal, *problem.manipulable, *problem.context})


def _arrow_offsets(graph: nx.DiGraph, layout: Layout, width: float) -> dict[tuple[str, str], Point]:
    """The offsets of each arrow from the middle of its cause and of its effect: side by side, without crossings."""
    offsets: dict[tuple[str, str], list[float]] = {edge: [0.0, 0.0] for edge in graph.edges}
    for name in graph:
        for side, edges in enumerate((graph.out_edges(name), graph.in_edges(name))):
            order = sorted(edges, key=lambda edge: _adjacent_x(layout, edge, side))
            gap = min(PORT, 0.8 * width / max(1, len(order)))
            for i, edge in enumerate(order):
                offsets[edge][side] = (i - (len(order) - 1) / 2) * gap
    return {edge: (start, end) for edge, (start, end) in offsets.items()}


def _adjacent_x(layout: Layout, edge: tuple[str, str], side: int) -> float:
    """The first point of an arrow after its cause (side 0), or the last before its effect (side 1), as x."""
    bends = layout.bends[edge]
    point = (bends[0], bends[-1])[side] if bends else layout.places[edge[1 - side]]
    return point[0]


def _build_arrow(points: Sequence[Point], style: str) -> FancyArrowPatch:
    """A smooth arrow that is vertical at every point, so that it does not cross the boxes beside it."""
    vertices, codes = [points[0]], [Path.MOVETO]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        reach = 0.45 * (y0 - y1)
        vertices += [(x0, y0 - reach), (x1, y1 + reach), (x1, y1)]
        codes += [Path.CURVE4] * 3
    return FancyArrowPatch(
        path=Path(vertices, codes),
        arrowstyle="-|>",
        mutation_scale=10,
        color="0.35",
        linewidth=1.2,
        zorder=1,
        linestyle=style,
    )
