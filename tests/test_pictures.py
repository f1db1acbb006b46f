"""Pictures show what is so: arrows do not pass behind variables, names are legible, nothing is empty."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch

import causalbandits as cb
from causalbandits.results.graphs import plot_graph
from causalbandits.results.layered import layered


def problem_of(edges, knobs, goal):
    """Binary variables with these arrows; tables do not matter."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    parents = {name: [cause for cause, effect in edges if effect == name] for name in names}
    variables = [
        cb.Variable(name, [0, 1], parents=parents[name], table=np.full((2,) * (len(parents[name]) + 1), 0.5))
        for name in names
    ]
    return cb.CausalBandit(cb.CausalModel(variables), knobs, reward=goal)


def random_edges(rng):
    names = [f"name {i}" * rng.integers(1, 3) for i in range(10)]
    found = [(a, b) for i, b in enumerate(names) for a in names[:i] if rng.random() < 0.3]
    return [*found, (names[0], names[9])]


CASES = [
    [("temp", "viscosity"), ("viscosity", "warp"), ("temp", "warp"), ("pressure", "warp"), ("warp", "yield")],
    [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "c"), ("b", "d")],
    *(random_edges(np.random.default_rng(seed)) for seed in range(6)),
]


@pytest.mark.parametrize("edges", CASES, ids=range(len(CASES)))
def test_no_arrow_passes_behind_a_variable(edges):
    figure = plot_graph(problem_of(edges, [edges[0][0]], edges[-1][1]))
    figure.draw_without_rendering()
    (ax,) = figure.axes
    boxes = {text.get_text(): text.get_bbox_patch().get_window_extent() for text in ax.texts}
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert arrows
    for arrow in arrows:
        crossed = {name for name, box in boxes.items() if any(box.contains(*point) for point in curve(arrow, ax))}
        assert not crossed, crossed


def curve(arrow, ax):
    """Points along an arrow, from cubic curve to cubic curve."""
    at = arrow._path_original.vertices
    ts = np.linspace(0, 1, 60)[:, None]
    weights = [(1 - ts) ** 3, 3 * ts * (1 - ts) ** 2, 3 * ts**2 * (1 - ts), ts**3]
    for i in range(0, len(at) - 1, 3):
        yield from ax.transData.transform(sum(w * p for w, p in zip(weights, at[i : i + 4], strict=True)))


@pytest.mark.parametrize("edges", CASES, ids=range(len(CASES)))
def test_variables_on_a_level_keep_apart_and_causes_stand_above(edges):
    import networkx as nx

    layout = layered(nx.DiGraph(edges))
    for cause, effect in edges:
        assert layout.places[cause][1] > layout.places[effect][1]
    levels = {}
    for x, y in layout.places.values():
        levels.setdefault(y, []).append(x)
    assert all(np.diff(sorted(xs)).min(initial=1.0) >= 1.0 - 1e-9 for xs in levels.values())
