"""The drawn graph: every edge has a line of its own, and none crosses a node."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest

pytest.importorskip("starlette")

from causalbandits.service.dashboard.svg import NODE_HEIGHT, NODE_WIDTH, graph_svg


def graph_of(text: str) -> Any:
    graph = nx.DiGraph()
    graph.add_edges_from(tuple(edge) for edge in text.split())
    return graph


def random_graph(seed: int) -> Any:
    rng, names = np.random.default_rng(seed), "abcdefghij"
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from((a, b) for a, b in combinations(names, 2) if rng.random() < 0.35)
    return graph


GRAPHS = [
    graph_of("ab bc ac"),
    graph_of("ab bc cd dy ac ad ay bd by ec ey fy cy"),
    graph_of("ab bc cd ad bd xd"),
    *map(random_graph, range(5)),
]


def points(d: str) -> list[tuple[float, float]]:
    """Points along a path of M, C and L."""
    numbers = [(kind, [float(one) for one in text.split()]) for kind, text in re.findall(r"([MCL])([^MCL]*)", d)]
    found, place = [], np.zeros(2)
    for kind, values in numbers:
        ends = np.array(values).reshape(-1, 2)
        if kind == "C":
            control = np.vstack([place, ends])
            for t in np.linspace(0, 1, 40):
                weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3]
                found.append(tuple(weights @ control))
        else:
            found += [tuple(place + t * (ends[0] - place)) for t in (np.linspace(0, 1, 20) if kind == "L" else [1.0])]
        place = ends[-1]
    return found


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{len(graph)} nodes, {len(graph.edges)} edges")
def test_edges_that_skip_columns_have_lines_of_their_own_and_cross_no_node(graph: Any) -> None:
    drawn = str(graph_svg(graph, {}, {}))
    width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', drawn)[0])
    arrows = [points(d) for d in re.findall(r'class="arrow" d="([^"]+)"', drawn)]
    assert len(arrows) == len(graph.edges)
    nodes = [(float(x), float(y)) for x, y in re.findall(r'<rect x="(\S+)" y="(\S+)"', drawn)]
    assert len(nodes) == len(graph)
    for arrow in arrows:
        for x, y in arrow:
            assert 0 <= x <= width
            assert 0 <= y <= height
            for left, top in nodes:
                is_inside = left + 1 < x < left + NODE_WIDTH - 1 and top + 1 < y < top + NODE_HEIGHT - 1
                assert not is_inside, "a line crosses a node"
    for one, other in combinations(arrows, 2):
        shared = sum(any(np.hypot(x - u, y - v) < 2 for u, v in other) for x, y in one)
        assert shared <= 0.25 * len(one), "two edges share a line"


def test_every_edge_leads_from_its_cause_to_its_effect() -> None:
    graph = graph_of("ab bc ac")
    drawn = str(graph_svg(graph, {}, {}))
    place = {
        name: (float(x), float(y)) for x, y, name in re.findall(r'<rect x="(\S+)" y="(\S+)".*?>(\w)</text>', drawn)
    }
    ends = [(found[0], found[-1]) for found in map(points, re.findall(r'class="arrow" d="([^"]+)"', drawn))]
    for (a, b), (start, end) in zip(graph.edges, ends, strict=True):
        assert start[0] == place[a][0] + NODE_WIDTH
        assert place[a][1] < start[1] < place[a][1] + NODE_HEIGHT
        assert end[0] == place[b][0] - 2
        assert place[b][1] < end[1] < place[b][1] + NODE_HEIGHT
