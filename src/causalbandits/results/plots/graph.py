"""Pictures of causal graphs."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
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


def layered_layout(graph: nx.DiGraph, level: Mapping[str, int] | None = None) -> Layout:
    """A layered layout of an acyclic graph; by default, each cause stands directly above its highest effect.

    >>> layout = layered_layout(nx.DiGraph([("a", "b"), ("b", "c"), ("a", "c")]))
    >>> [layout.places[name][1] for name in "abc"], len(layout.bends["a", "c"])
    ([0.0, -1.0, -2.0], 1)
    """
    if level is None:
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
    neither affect the reward, nor are manipulable, nor belong to the context. Where the structure is learned, all
    variables are drawn, with the arrows that the user has given.
    """
    if path is not None:
        parse_picture_path(path)
    goal = reward or problem.reward or "Y"
    graph = _relevant_subgraph(problem, goal) if problem.structure_prior is None else _given_graph(problem, goal)
    layout = layered_layout(graph, None if problem.structure_prior is None else _levels_in_order(problem, graph, goal))
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


def _given_graph(problem: Problem, goal: str) -> nx.DiGraph:
    """The arrows of a graph that is known partly, and those that are required, if the structure is learned."""
    prior = problem.structure_prior
    assert prior is not None
    order = [*problem.context, *problem.manipulable, *prior.observed, goal]
    graph = nx.DiGraph()
    graph.add_nodes_from(order)
    given = prior.given or {}
    for place, effect in enumerate(order):
        if effect not in problem.manipulable:
            graph.add_edges_from((cause, effect) for cause in order[:place] if cause in given.get(effect, ()))
    graph.add_edges_from(prior.required)
    return graph


def _levels_in_order(problem: Problem, graph: nx.DiGraph, goal: str) -> dict[str, int]:
    """The level of each variable: the context and manipulable variables, the observed ones, the reward last."""
    prior = problem.structure_prior
    assert prior is not None
    level = {name: 0 for name in graph if name != goal and name not in prior.observed}
    for name in prior.observed:
        level[name] = max([1, *(level[cause] + 1 for cause in graph.predecessors(name))])
    level[goal] = max(level.values()) + 1
    return level


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


# Learned structure: variables in columns in their order, so that many observed variables take no more than the height
# of a page, and a probability at each arrow.

COLUMN, ROW = 1.0, 0.46
"""The distance of columns between boxes, and of rows, in inches."""

PROBABLE = 0.5
"""The probability from which an edge leads to another column."""

LABEL_PLACES = (0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.26, 0.2, 0.74, 0.14, 0.8)
"""The places at which a label may stand, as fractions of its arrow; earlier ones are preferred."""

CURVE_POINTS = 30


def structure_columns(structure: Any, edges: Mapping[tuple[str, str], float]) -> dict[str, int]:
    """The column of each variable: the context, the manipulable variables, the observed ones in layers, the reward.

    An observed variable stands to the right of the observed variables from which a probable edge comes, and not to the
    left of others from which one of the edges comes.
    """
    groups = [[name for name, own in structure.roles.items() if own == role] for role in ("context", "manipulable")]
    column = {name: k for k, group in enumerate(group for group in groups if group) for name in group}
    first = max(column.values(), default=-1) + 1
    for name in structure.must_observe:
        into = [column[a] + (p >= PROBABLE) for (a, b), p in edges.items() if b == name and column[a] >= first]
        column[name] = max([first, *into])
    column[structure.reward] = max(column.values(), default=-1) + 1
    return column


def place_labels(curves: Sequence[Array], boxes: Sequence[tuple[Point, Point]], size: Point) -> list[Point]:
    """The middle of a label of a size for each curve: on the curve, and off labels, boxes and other curves if possible.

    Args:
        curves: Points along each curve, a row each.
        boxes: The lower and the upper corner of each box.
        size: Width and height of a label.
    """
    half = np.array(size) / 2
    low, high = (np.array([corners[k] for corners in boxes], dtype=float).reshape(-1, 2) for k in (0, 1))
    points = np.concatenate(curves) if curves else np.zeros((0, 2))
    owner = np.repeat(np.arange(len(curves)), [len(curve) for curve in curves])
    middles: list[Point] = []
    for k, curve in enumerate(curves):
        taken = np.array(middles).reshape(-1, 2)
        best, least = curve[0], np.inf
        for fraction in LABEL_PLACES:
            middle = curve[round(fraction * (len(curve) - 1))]
            labels = (np.abs(taken - middle) < 2 * half).all(axis=1).sum()
            covered = ((low < middle + half) & (high > middle - half)).all(axis=1).sum()
            crossed = len(np.unique(owner[(np.abs(points - middle) < half).all(axis=1) & (owner != k)]))
            cost = 100 * labels + 100 * covered + crossed
            if cost < least:
                best, least = middle, cost
        middles.append((float(best[0]), float(best[1])))
    return middles


def plot_structure(structure: Any, path: FilePath | None = None, *, at_least: float = 0.1) -> Figure:
    """The learned structure, from the context and the manipulable variables on the left to the reward on the right.

    Colours are those of `plot_graph`: violet for the context, blue for manipulable variables, green for the reward. A
    bold border marks the likeliest parent set of the reward. Arrows are wider the more probable they are.
    """
    if path is not None:
        parse_picture_path(path)
    edges = structure.likely_edges(at_least)
    column = structure_columns(structure, edges)
    graph = nx.DiGraph()
    graph.add_nodes_from((*structure.values, structure.reward))
    graph.add_edges_from(edge for edge in edges if column[edge[0]] < column[edge[1]])
    layout = layered_layout(graph, column)
    half = 0.13 + 0.045 * max(map(text_width, graph))
    step = 2 * half + COLUMN
    y = {name: -ROW * x for name, (x, _) in layout.places.items()}
    bends = {edge: [(-height * step, -ROW * x) for x, height in points] for edge, points in layout.bends.items()}
    heights = [*y.values(), *(height for points in bends.values() for _, height in points)]
    low, high = min(heights) - 0.35, max(heights) + 0.35
    width = max(column.values()) * step + 2 * half + 0.2
    figure = Figure(figsize=(max(3.2, width), max(1.2, high - low + 0.3)), dpi=150, layout="constrained")
    ax = figure.add_subplot()
    likeliest = structure.likeliest_sets(structure.reward, 1)[0][0]
    for name in graph:
        colour = {"context": VIOLET, "manipulable": BLUE}.get(structure.roles.get(name, ""), WHITE)
        ax.add_patch(
            FancyBboxPatch(
                (column[name] * step - half, y[name] - BOX), 2 * half, 2 * BOX,
                boxstyle="round,pad=0,rounding_size=0.06",
                facecolor=GREEN if name == structure.reward else colour, edgecolor="0.2", zorder=3,
                linewidth=2.4 if name in likeliest else 1.0,
            )
        )  # fmt: skip
        ax.text(column[name] * step, y[name], name, ha="center", va="center", fontsize=11, parse_math=False, zorder=4)
    ports = _arrow_offsets(graph, layout, 1.6 * BOX)
    curves = []
    for (cause, effect), probability in edges.items():
        right, left = column[cause] * step + half, column[effect] * step - half - 0.02
        if column[cause] == column[effect]:
            arrow = _arc(right, y[cause], y[effect])
        else:
            leave, enter = ports[cause, effect]
            passed = [(x + side, height) for x, height in bends[cause, effect] for side in (-half, half)]
            arrow = _horizontal_curve([(right, y[cause] - leave), *passed, (left, y[effect] - enter)])
        ax.add_patch(
            FancyArrowPatch(
                path=arrow, arrowstyle="-|>", mutation_scale=8 + 4 * probability, color="0.35",
                linewidth=0.5 + 2 * probability, alpha=0.3 + 0.7 * probability, zorder=1,
            )
        )  # fmt: skip
        curves.append(_curve_points(arrow))
    boxes = [((column[n] * step - half, y[n] - BOX), (column[n] * step + half, y[n] + BOX)) for n in graph]
    for (x, height), probability in zip(place_labels(curves, boxes, (0.34, 0.17)), edges.values(), strict=True):
        ax.text(
            x, height, f"{probability:.2f}", ha="center", va="center", fontsize=8, zorder=2,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"},
        )  # fmt: skip
    ax.set_xlim(-half - 0.1, width - half - 0.1)
    ax.set_ylim(low, high)
    ax.axis("off")
    return save_figure(figure, path)


def _horizontal_curve(points: Sequence[Point]) -> Path:
    """A smooth path that is horizontal at every point, and straight from the second point to the third, and so on."""
    vertices, codes = [points[0]], [Path.MOVETO]
    for k, ((x0, y0), (x1, y1)) in enumerate(itertools.pairwise(points)):
        reach = (1 / 3 if k % 2 else 0.5) * (x1 - x0)
        vertices += [(x0 + reach, y0), (x1 - reach, y1), (x1, y1)]
        codes += [Path.CURVE4] * 3
    return Path(vertices, codes)


def _arc(x: float, cause: float, effect: float) -> Path:
    """An arrow within a column, around the right sides of the boxes."""
    side = 1 if effect > cause else -1
    y0, y1 = cause + side * BOX / 2, effect - side * BOX / 2
    reach = min(0.8, 0.3 + abs(y1 - y0) / 5)
    return Path(
        [(x, y0), (x + reach, y0), (x + reach, y1), (x + 0.02, y1)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )


def _curve_points(path: Path) -> Array:
    """Points along a path of cubic curves."""
    ts = np.linspace(0, 1, CURVE_POINTS)[:, None]
    weights = np.hstack([(1 - ts) ** 3, 3 * ts * (1 - ts) ** 2, 3 * ts**2 * (1 - ts), ts**3])
    vertices = np.asarray(path.vertices)
    return np.concatenate([weights @ vertices[k : k + 4] for k in range(0, len(vertices) - 1, 3)])
