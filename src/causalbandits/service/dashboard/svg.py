"""Charts and the causal graph as inline SVG: no script, no request, readable in print."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
from markupsafe import Markup, escape

from causalbandits.study.analysis import History

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 200, 48, 24


def mean_chart(history: History) -> Markup:
    """The mean reward of each segment of the outcomes, as a thin line, and of all outcomes so far."""
    segment_points = [(segment.event, segment.mean) for segment in history.stretches if segment.mean is not None]
    cumulative_points = [(segment.event, segment.so_far) for segment in history.stretches if segment.so_far is not None]
    if len(segment_points) < 2:
        return Markup('<p class="quiet">A picture comes with the first outcomes.</p>')
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
    title = f"Mean reward over {last} events: {overall:.3g} of all, {latest:.3g} of the latest"
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" class="chart">{grid}'
        f"{line('thin', segment_points)}{line('line', cumulative_points)}"
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">{last} events</text></svg>'
    )


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
        return Markup('<p class="quiet">No decision was made yet.</p>')
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


def delay_chart(delays: Sequence[float]) -> Markup:
    """A histogram of the delays of outcomes."""
    if not delays:
        return Markup('<p class="quiet">No outcome was told yet.</p>')
    ends = [seconds for _, seconds in DELAY_BINS]
    counts = Counter(bisect_right(ends, delay) for delay in delays)
    width, tallest = (WIDTH - 16) / (len(DELAY_BINS) + 1), max(counts.values())
    bars = []
    for span in range(len(DELAY_BINS) + 1):
        height = (HEIGHT - BOTTOM - 26) * counts[span] / tallest
        x, y, middle = 8 + span * width, HEIGHT - BOTTOM - height, 8 + (span + 0.5) * width
        name = f"to {DELAY_BINS[span][0]}" if span < len(DELAY_BINS) else "longer"
        bars.append(
            f'<rect class="kind0" x="{x + 3:.1f}" y="{y:.1f}" width="{width - 6:.1f}" height="{height:.1f}"/>'
            f'<text x="{middle:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{name}</text>'
        )
        if counts[span]:
            share = f"{counts[span] / len(delays):.0%}"
            bars.append(f'<text x="{middle:.1f}" y="{y - 5:.1f}" text-anchor="middle">{share}</text>')
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="How long outcomes took" class="chart">'
        f"{''.join(bars)}</svg>"
    )


NODE_WIDTH, NODE_HEIGHT, COLUMN, ROW_STEP = 150, 54, 200, 74


def graph_svg(graph: Any, notes: Mapping[str, str], kinds: Mapping[str, str]) -> Markup:
    """A causal graph, causes on the left; `notes` are second lines of nodes, `kinds` their CSS classes."""
    layers = list(nx.topological_generations(graph))
    tallest = max(map(len, layers), default=1)
    positions: dict[str, tuple[float, float]] = {}
    for column, layer in enumerate(layers):
        for row, name in enumerate(sorted(layer, key=list(graph.nodes).index)):
            positions[name] = 12 + column * COLUMN, 12 + (row + (tallest - len(layer)) / 2) * ROW_STEP
    below = 12 + tallest * ROW_STEP
    arrows = "".join(_arrow_path(positions[a], positions[b], below) for a, b in graph.edges)
    nodes = "".join(
        _node_group(name, *positions[name], notes.get(name, ""), kinds.get(name, "plain")) for name in graph.nodes
    )
    width, height = 24 + (len(layers) - 1) * COLUMN + NODE_WIDTH, below + 8
    return Markup(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="The causal graph" class="graph">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>{arrows}{nodes}</svg>'
    )


def _arrow_path(start: tuple[float, float], end: tuple[float, float], below: float) -> str:
    """An edge: to the next column straight, to a later one below all nodes."""
    x1, y1 = start[0] + NODE_WIDTH, start[1] + NODE_HEIGHT / 2
    x2, y2 = end[0] - 2, end[1] + NODE_HEIGHT / 2
    middle, gap = (x1 + x2) / 2, COLUMN - NODE_WIDTH
    curve = f"C{middle} {y1} {middle} {y2} {x2} {y2}"
    if end[0] - start[0] > 1.5 * COLUMN:
        curve = (
            f"C{x1 + gap / 2} {y1} {x1 + gap / 2} {below} {x1 + gap} {below} L{x2 - gap} {below} "
            f"C{x2 - gap / 2} {below} {x2 - gap / 2} {y2} {x2} {y2}"
        )
    return f'<path class="arrow" d="M{x1} {y1} {curve}" marker-end="url(#tip)"/>'


def _node_group(name: str, x: float, y: float, note: str, kind: str) -> str:
    middle, line = x + NODE_WIDTH / 2, 23 if note else 32
    return (
        f'<g class="node {kind}"><rect x="{x}" y="{y}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="8"/>'
        f'<text x="{middle}" y="{y + line}" text-anchor="middle">{escape(_truncate(name))}</text>'
        f'<text class="note" x="{middle}" y="{y + 42}" text-anchor="middle">{escape(_truncate(note, 24))}</text></g>'
    )


def _truncate(text: str, length: int = 18) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
