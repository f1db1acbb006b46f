"""A place for every variable of a graph: causes above effects, and arrows that pass between variables, not behind.

An arrow that spans several levels holds a place, a bend, on each level in between, as a variable would but narrower
(Sugiyama, Tagawa, Toda 1981). Levels are put in an order with few crossings, and then as straight as order allows.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from causalbandits._types import Array
from causalbandits.model.causal_graph import CausalGraph

BEND = 0.4
"""The width of an arrow's place, that of a variable being 1."""

SWEEPS = 12
"""So often levels are ordered, and moved, from top to bottom or back."""


class Layout(NamedTuple):
    """Where variables are, and through which points each arrow goes; the top level has height 0, the next -1."""

    places: Mapping[str, tuple[float, float]]
    bends: Mapping[tuple[str, str], Sequence[tuple[float, float]]]


def with_named_causes(graph: CausalGraph) -> nx.DiGraph:
    """A graph for pictures: hidden causes without a name have one, and are labelled with a question mark."""
    free = (name for i in itertools.count(1) if (name := f"?{i}") not in graph.parents)
    names = {node: next(free) for node in graph.graph if not isinstance(node, str)}
    drawn = nx.relabel_nodes(nx.DiGraph(graph.graph), names)
    for name in names.values():
        drawn.nodes[name]["label"] = "?"
    return drawn


def layered(graph: nx.DiGraph) -> Layout:
    """Places for an acyclic graph.

    >>> layout = layered(nx.DiGraph([("a", "b"), ("b", "c"), ("a", "c")]))
    >>> [layout.places[name][1] for name in "abc"], len(layout.bends["a", "c"])
    ([0.0, -1.0, -2.0], 1)
    """
    level = _levels(graph)
    paths = {(a, b): [a, *((a, b, i) for i in range(level[a] + 1, level[b])), b] for a, b in graph.edges}
    near: dict[Hashable, list[Hashable]] = {name: [] for name in graph}
    rows: list[list[Hashable]] = [[name for name in graph if level[name] == i] for i in range(max(level.values()) + 1)]
    for path in paths.values():
        for bend in path[1:-1]:
            rows[bend[2]].append(bend)
        for one, next_one in itertools.pairwise(path):
            near.setdefault(one, []).append(next_one)
            near.setdefault(next_one, []).append(one)
    x = _ordered(rows, near)
    height = {node: 0.0 - i for i, row in enumerate(rows) for node in row}
    return Layout(
        {name: (x[name], height[name]) for name in graph},
        {edge: [(x[node], height[node]) for node in path[1:-1]] for edge, path in paths.items()},
    )


def _levels(graph: nx.DiGraph) -> dict[Any, int]:
    """Effects as low as they can be, each cause right above its highest effect."""
    height: dict[Any, int] = {}
    for name in reversed(list(nx.topological_sort(graph))):
        height[name] = max((height[effect] + 1 for effect in graph.successors(name)), default=0)
    return {name: max(height.values()) - height[name] for name in graph}


def _ordered(rows: list[list[Hashable]], near: Mapping[Hashable, list[Hashable]]) -> dict[Hashable, float]:
    """Places from left to right: each node near the mean of its neighbours', first in any order, then in the last."""
    x = {node: float(place) for row in rows for node, place in zip(row, _packed(row), strict=True)}
    where = {node: i for i, row in enumerate(rows) for node in row}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for i in range(len(rows)) if down else reversed(range(len(rows))):
            # Only the side that was just put in order decides about the order.
            wish = {node: _mean([x[n] for n in near[node] if (where[n] < i) == down], x[node]) for node in rows[i]}
            rows[i].sort(key=lambda node: wish[node])
            x |= zip(rows[i], _packed(rows[i]), strict=True)
    for sweep in range(SWEEPS):
        for i in range(len(rows)) if sweep % 2 else reversed(range(len(rows))):
            wanted = np.array([_mean([x[n] for n in near[node]], x[node]) for node in rows[i]])
            x |= zip(rows[i], _apart(wanted, _packed(rows[i])).tolist(), strict=True)
    return x


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _packed(row: Sequence[Hashable]) -> Array:
    """Side by side, the middle at 0."""
    widths = np.array([BEND if isinstance(node, tuple) else 1.0 for node in row])
    return np.asarray(np.cumsum(widths) - widths / 2 - widths.sum() / 2)


def _apart(wanted: Array, packed: Array) -> Array:
    """The places nearest to the wanted ones, in this order and no closer than when packed: isotonic regression."""
    blocks: list[tuple[float, int]] = []
    for value in (wanted - packed).tolist():
        mean, count = value, 1
        while blocks and blocks[-1][0] > mean:
            before, more = blocks.pop()
            mean, count = (mean * count + before * more) / (count + more), count + more
        blocks.append((mean, count))
    return np.asarray(packed + np.repeat([mean for mean, _ in blocks], [count for _, count in blocks]))
