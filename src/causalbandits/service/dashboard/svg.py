"""Charts and the causal graph as inline SVG: no script, no external request, readable in print."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from markupsafe import Markup, escape

from causalbandits._typing import Array
from causalbandits.campaign import LearnedStructure
from causalbandits.results.plots import place_labels, structure_columns
from causalbandits.study.analysis import History

WIDTH, HEIGHT, LEFT, BOTTOM = 480, 190, 40, 24


def mean_chart(history: History) -> Markup:
    """The mean reward of each segment of the outcomes, as a thin line, and the running mean of all outcomes."""
    segment_points = [(segment.event, segment.mean) for segment in history.stretches if segment.mean is not None]
    cumulative_points = [(segment.event, segment.so_far) for segment in history.stretches if segment.so_far is not None]
    if len(segment_points) < 2:
        return Markup('<p class="quiet">No outcome yet.</p>')
    low, high = _value_range([mean for _, mean in (*segment_points, *cumulative_points)])
    last = history.stretches[-1].event

    def place(event: int, mean: float) -> str:
        x = LEFT + (WIDTH - LEFT - 8) * event / last
        y = 8 + (HEIGHT - BOTTOM - 8) * (high - mean) / (high - low)
        return f"{x:.1f},{y:.1f}"

    def line(kind: str, points: Sequence[tuple[int, float]]) -> str:
        return f'<polyline class="{kind}" points="{" ".join(place(*point) for point in points)}"/>'

    grid = "".join(_grid_line(tick, low, high) for tick in _ticks(low, high))
    overall, latest = cumulative_points[-1][1], segment_points[-1][1]
    title = f"Mean reward over {last} events: {overall:.3g} overall, {latest:.3g} in the latest segment"
    named = [f"{change.mechanism} near decision {change.decision}" for _, change in history.changes]
    title += f"; changes of mechanisms: {', '.join(named)}" if named else ""
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" class="chart">{grid}'
        f"{line('thin', segment_points)}{line('line', cumulative_points)}{_change_lines(history, last)}"
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">{last} events</text></svg>'
    )


def _change_lines(history: History, last: int) -> str:
    """A vertical line at each change of a mechanism, with the mechanism's name."""
    parts = []
    for k, (event, change) in enumerate(history.changes):
        x = LEFT + (WIDTH - LEFT - 8) * min(event, last) / last
        anchor, side = ("end", -4) if x > WIDTH / 2 else ("start", 4)
        parts.append(
            f'<g class="changed"><line x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="{HEIGHT - BOTTOM}"/>'
            f'<text x="{x + side:.1f}" y="{HEIGHT - BOTTOM - 8 - 15 * (k % 4):.1f}" text-anchor="{anchor}">'
            f"{escape(_truncate(change.mechanism))}</text></g>"
        )
    return "".join(parts)


def _value_range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(0.0, *values), max(values)
    return (low, high if high > low else low + 1.0)


def _ticks(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10(high - low))
    for finer in (1.0, 0.5, 0.2):
        if (high - low) / (step * finer) >= 3:
            step *= finer
            break
    first = math.ceil(low / step)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _grid_line(tick: float, low: float, high: float) -> str:
    y = 8 + (HEIGHT - BOTTOM - 8) * (high - tick) / (high - low)
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
    )


def share_chart(history: History) -> Markup:
    """The shares of actions in each tenth of the decisions, as stacked bars."""
    if not history.shares:
        return Markup('<p class="quiet">No decision yet.</p>')
    width = (WIDTH - 16) / max(1, len(history.shares))
    bars = []
    for part, shares in enumerate(history.shares):
        y = 8.0
        for kind, share in enumerate(shares):
            height = (HEIGHT - BOTTOM - 8) * share
            x = 8 + part * width
            colour = kind if kind < len(history.actions) else "rest"
            place = f'x="{x + 1:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{height:.1f}"'
            bars.append(f'<rect class="kind{colour}" {place}/>')
            y += height
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Shares of actions over time" class="chart">'
        f'{"".join(bars)}<text x="8" y="{HEIGHT - 6}">first decisions</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">latest</text></svg>'
    )


DELAY_BINS = (("1 s", 1), ("10 s", 10), ("1 min", 60), ("10 min", 600), ("1 h", 3600), ("6 h", 21600), ("1 day", 86400))
"""The upper ends of the bins of delays, in seconds."""


def count_delays(delays: Sequence[float]) -> list[tuple[str, int]]:
    """The number of outcomes in each bin of delays."""
    ends = [seconds for _, seconds in DELAY_BINS]
    counts = Counter(bisect_right(ends, delay) for delay in delays)
    return [
        (f"to {DELAY_BINS[span][0]}" if span < len(DELAY_BINS) else "longer", counts[span])
        for span in range(len(DELAY_BINS) + 1)
    ]


def delay_chart(delays: Sequence[float]) -> Markup:
    """A histogram of the delays of outcomes."""
    if not delays:
        return Markup('<p class="quiet">No outcome yet.</p>')
    bins = count_delays(delays)
    width, tallest = (WIDTH - 16) / len(bins), max(count for _, count in bins)
    bars = []
    for span, (name, count) in enumerate(bins):
        height = (HEIGHT - BOTTOM - 26) * count / tallest
        x, y, middle = 8 + span * width, HEIGHT - BOTTOM - height, 8 + (span + 0.5) * width
        bars.append(
            f'<rect class="kind0" x="{x + 3:.1f}" y="{y:.1f}" width="{width - 6:.1f}" height="{height:.1f}"/>'
            f'<text class="tick" x="{middle:.1f}" y="{HEIGHT - 6}" text-anchor="middle">'
            f"{name.replace('to ', '≤ ')}</text>"
        )
        if count:
            share = f"{count / len(delays):.0%}"
            bars.append(f'<text x="{middle:.1f}" y="{y - 5:.1f}" text-anchor="middle">{share}</text>')
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Delays of outcomes" '
        f'class="chart">{"".join(bars)}</svg>'
    )


NODE_WIDTH, NODE_HEIGHT, COLUMN, ROW_STEP, LANE_STEP = 176, 54, 226, 74, 18
STRUCTURE_COLUMN, LABEL_SIZE = 286, (32, 16)
"""The distance of columns of a learned structure, which has a number at each edge; the size of such a number."""

ORDERING_SWEEPS = 8
CURVE_POINTS = 24

Edge = tuple[str, str]
Place = str | Edge
"""An item of a column: a node, or an edge that passes to a later column."""

Point = tuple[float, float]
Segment = tuple[Point, ...]
"""The two ends of a line, or the four points of a cubic curve."""


class _Layout(NamedTuple):
    """The upper left corner of each node, the corners that each edge passes, and the size of the picture."""

    corners: dict[str, Point]
    paths: dict[Edge, list[Point]]
    width: float
    height: float


def graph_svg(graph: Any, notes: Mapping[str, str], kinds: Mapping[str, str]) -> Markup:
    """A causal graph, causes on the left; `notes` are second lines of nodes, `kinds` their CSS classes."""
    column_of = {name: k for k, layer in enumerate(nx.topological_generations(graph)) for name in layer}
    layout = _lay_out(list(graph.nodes), list(graph.edges), column_of, COLUMN)
    starts, ends = _ports(layout.paths, 0, 1), _ports(layout.paths, -1, -2)
    arrows = "".join(
        f'<path class="arrow" d="{_path_text(_segments(path, starts[edge], ends[edge]))}" marker-end="url(#tip)"/>'
        for edge, path in layout.paths.items()
    )
    return Markup(
        f'<svg viewBox="0 0 {layout.width} {layout.height:g}" role="img" aria-label="The causal graph" class="graph">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>{arrows}{_node_groups(layout, notes, kinds)}</svg>'
    )


def structure_svg(
    structure: LearnedStructure, edges: Mapping[Edge, float], notes: Mapping[str, str], kinds: Mapping[str, str]
) -> Markup:
    """A learned structure with these edges, in the order of its variables; each edge has its probability.

    Edges are wider and more opaque the more probable they are.
    """
    column_of = structure_columns(structure, edges)
    across = [edge for edge in edges if column_of[edge[0]] < column_of[edge[1]]]
    layout = _lay_out([*structure.values, structure.reward], across, column_of, STRUCTURE_COLUMN)
    starts, ends = _ports(layout.paths, 0, 1), _ports(layout.paths, -1, -2)
    segments = {
        (a, b): _segments(layout.paths[a, b], starts[a, b], ends[a, b])
        if (a, b) in layout.paths
        else [_arc(layout.corners[a], layout.corners[b])]
        for a, b in edges
    }
    arrows = "".join(
        f'<path class="edge" d="{_path_text(segments[edge])}" stroke-width="{0.8 + 2.4 * probability:.2f}" '
        f'opacity="{0.4 + 0.6 * probability:.2f}" marker-end="url(#edge-tip)"/>'
        for edge, probability in edges.items()
    )
    boxes = [((x, y), (x + NODE_WIDTH, y + NODE_HEIGHT)) for x, y in layout.corners.values()]
    middles = place_labels([_sample_points(segments[edge]) for edge in edges], boxes, LABEL_SIZE)
    labels = "".join(
        f'<rect class="ground" x="{x - LABEL_SIZE[0] / 2:.1f}" y="{y - LABEL_SIZE[1] / 2:.1f}" width="{LABEL_SIZE[0]}" '
        f'height="{LABEL_SIZE[1]}" rx="4"/>'
        f'<text class="probability" x="{x:.1f}" y="{y + 4.5:.1f}" text-anchor="middle">{probability:.2f}</text>'
        for (x, y), probability in zip(middles, edges.values(), strict=True)
    )
    margin = 60 if len(across) < len(edges) else 0  # for arcs beside the last column
    return Markup(
        f'<svg viewBox="0 0 {layout.width + margin:g} {layout.height:g}" width="{layout.width + margin:g}" '
        f'height="{layout.height:g}" role="img" aria-label="The learned structure" class="structure">'
        '<defs><marker id="edge-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="10" markerHeight="10" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
        f"{arrows}{_node_groups(layout, notes, kinds)}{labels}</svg>"
    )


def _node_groups(layout: _Layout, notes: Mapping[str, str], kinds: Mapping[str, str]) -> str:
    return "".join(
        _node_group(name, *corner, notes.get(name, ""), kinds.get(name, "plain"))
        for name, corner in layout.corners.items()
    )


def _lay_out(names: Sequence[str], edges: Sequence[Edge], column_of: Mapping[str, int], step: int) -> _Layout:
    """Nodes in their columns; each edge leads to a later column."""
    columns = _arrange_columns(names, edges, column_of)
    tallest = max((_column_height(column) for column in columns), default=0)
    positions: dict[tuple[int, Place], Point] = {}
    for k, column in enumerate(columns):
        y = 12 + (tallest - _column_height(column)) / 2
        for place in column:
            positions[k, place] = 12 + k * step, y
            y += _place_height(place)
    paths = {
        (a, b): [
            positions[k, (a, b) if column_of[a] < k < column_of[b] else a if k == column_of[a] else b]
            for k in range(column_of[a], column_of[b] + 1)
        ]
        for a, b in edges
    }
    corners = {name: positions[column_of[name], name] for name in names}
    return _Layout(corners, paths, 24 + (len(columns) - 1) * step + NODE_WIDTH, 20 + tallest)


def _arrange_columns(names: Sequence[str], edges: Sequence[Edge], column_of: Mapping[str, int]) -> list[list[Place]]:
    """The nodes and the passing edges, column by column, in an order with few crossings (Sugiyama et al. 1981).

    An edge that skips a column has its own place in it, so that it crosses no node and shares no line.
    """
    columns: list[list[Place]] = [[] for _ in range(max(column_of.values(), default=-1) + 1)]
    for name in names:
        columns[column_of[name]].append(name)
    neighbours: list[dict[Place, list[Place]]] = [{} for _ in columns]  # in the column before
    for a, b in edges:
        chain: list[Place] = [a, *[(a, b)] * (column_of[b] - column_of[a] - 1), b]
        for k, (left, right) in enumerate(pairwise(chain), column_of[a] + 1):
            neighbours[k].setdefault(right, []).append(left)
            if right == (a, b):
                columns[k].append(right)
    for sweep in range(ORDERING_SWEEPS):
        if sweep % 2 == 0:
            for k in range(1, len(columns)):
                _sort_by_neighbours(columns[k], columns[k - 1], neighbours[k])
        else:
            for k in range(len(columns) - 2, -1, -1):
                later: dict[Place, list[Place]] = {}
                for right, lefts in neighbours[k + 1].items():
                    for left in lefts:
                        later.setdefault(left, []).append(right)
                _sort_by_neighbours(columns[k], columns[k + 1], later)
    return columns


def _sort_by_neighbours(column: list[Place], other: list[Place], neighbours: Mapping[Place, Sequence[Place]]) -> None:
    """Sort a column by the mean rank of each place's neighbours in another; places without neighbours keep their
    rank."""
    ranks = {place: (rank + 0.5) / len(other) for rank, place in enumerate(other)}
    own = {place: (rank + 0.5) / len(column) for rank, place in enumerate(column)}
    column.sort(
        key=lambda place: (
            fmean(ranks[one] for one in neighbours[place]) if neighbours.get(place) else own[place],
            own[place],
        )
    )


def _place_height(place: Place) -> float:
    return ROW_STEP if isinstance(place, str) else LANE_STEP


def _column_height(column: Sequence[Place]) -> float:
    return sum(map(_place_height, column))


def _ports(paths: Mapping[Edge, Sequence[Point]], end: int, neighbour: int) -> dict[Edge, float]:
    """The attachment point of each edge at its node, at one end: separated, in the order of the other ends."""
    edges_by_node: dict[str, list[Edge]] = {}
    for edge in paths:
        edges_by_node.setdefault(edge[end], []).append(edge)
    heights = {}
    for edges in edges_by_node.values():
        edges.sort(key=lambda edge: paths[edge][neighbour][1])
        for k, edge in enumerate(edges, 1):
            heights[edge] = paths[edge][end][1] + NODE_HEIGHT * k / (len(edges) + 1)
    return heights


def _segments(path: Sequence[Point], start: float, end: float) -> list[Segment]:
    """An edge from one node to another, horizontal in every column that it passes."""
    x, y = path[0][0] + NODE_WIDTH, start
    segments: list[Segment] = []
    for column_x, column_y in path[1:-1]:
        level = column_y + LANE_STEP / 2
        segments += [_curve(x, y, column_x, level), ((column_x, level), (column_x + NODE_WIDTH, level))]
        x, y = column_x + NODE_WIDTH, level
    return [*segments, _curve(x, y, path[-1][0] - 2, end)]


def _curve(x1: float, y1: float, x2: float, y2: float) -> Segment:
    middle = (x1 + x2) / 2
    return (x1, y1), (middle, y1), (middle, y2), (x2, y2)


def _arc(cause: Point, effect: Point) -> Segment:
    """An edge within a column, around the right sides of the nodes."""
    side = 1 if effect[1] > cause[1] else -1
    x, y1, y2 = cause[0] + NODE_WIDTH, *(y + NODE_HEIGHT / 2 for _, y in (cause, effect))
    y1, y2 = y1 + side * NODE_HEIGHT / 4, y2 - side * NODE_HEIGHT / 4
    reach = min(80.0, 30 + abs(y2 - y1) / 5)
    return (x, y1), (x + reach, y1), (x + reach, y2), (x + 2, y2)


def _path_text(segments: Sequence[Segment]) -> str:
    """Segments as the attribute `d` of a path."""
    steps = ["M{:g} {:g}".format(*segments[0][0])]
    for _, *points in segments:
        steps.append(f"{'C' if len(points) == 3 else 'L'}{' '.join(f'{x:g} {y:g}' for x, y in points)}")
    return " ".join(steps)


def _sample_points(segments: Sequence[Segment]) -> Array:
    """Points along segments."""
    ts = np.linspace(0, 1, CURVE_POINTS)[:, None]
    line = np.hstack([1 - ts, ts])
    cubic = np.hstack([(1 - ts) ** 3, 3 * ts * (1 - ts) ** 2, 3 * ts**2 * (1 - ts), ts**3])
    return np.concatenate([(line if len(segment) == 2 else cubic) @ np.array(segment) for segment in segments])


def _node_group(name: str, x: float, y: float, note: str, kind: str) -> str:
    middle, line = x + NODE_WIDTH / 2, 23 if note else 32
    return (
        f'<g class="node {kind}"><rect x="{x}" y="{y}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="8"/>'
        f'<text x="{middle}" y="{y + line}" text-anchor="middle">{escape(_truncate(name))}</text>'
        f'<text class="note" x="{middle}" y="{y + 42}" text-anchor="middle">{escape(_truncate(note, 30))}</text></g>'
    )


def _truncate(text: str, length: int = 18) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
