"""The page of a study without a graph: a picture of the learned structure, with the same numbers in tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.dashboard.test_accessibility import Outline
from tests.service.dashboard.test_graph_svg import points
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.campaign import LearnedStructure
from causalbandits.service.dashboard.panels import MAX_EDGES, build_panels
from causalbandits.service.dashboard.svg import LABEL_SIZE, NODE_HEIGHT, NODE_WIDTH, structure_svg
from causalbandits.service.server import build_service
from chromium import FOUND, Chromium

HOSTILE = "</text></svg><script>alert(1)</script>\"'&"
PROBLEM = cb.Problem(
    None,
    reward="click",
    manipulable={"purpose": ["promo", "news"], "send_time": ["am", "noon", "pm"]},
    values={"subject": ["short", "long"], "device": ["phone", "pc"], HOSTILE: ["a", "b"]},
)


def play(study: cb.Study, rounds: int) -> None:
    rng = np.random.default_rng(0)
    for decision in study.ask(rounds):
        subject = "short" if rng.random() < (0.9 if decision.action["purpose"] == "promo" else 0.1) else "long"
        others = {"device": str(rng.choice(["phone", "pc"])), HOSTILE: str(rng.choice(["a", "b"]))}
        reward = float(rng.random() < (0.8 if subject == "short" else 0.1))
        study.tell(decision.id, reward=reward, observed={"subject": subject, **others})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    with cb.Study.create(folder / "learned.db", PROBLEM, seed=1) as study:
        play(study, 200)
        study.tell(study.ask().id, reward=1, observed={"device": "pc"})
    cb.Study.create(folder / "empty.db", PROBLEM, seed=1).close()
    cb.Study.create(folder / "other.db", PROBLEM, "ts", seed=1).close()
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    running = Served(build_service(sorted(folder.glob("*.db"))))
    yield running
    running.stop()


def section(served: Served, path: str) -> str:
    (found,) = re.findall(
        r'<section class="wide" data-part="the-learned-structure">.*?</section>',
        served.fetch("GET", path)[2],
        re.DOTALL,
    )
    return found


def test_the_picture_and_the_tables_have_the_probabilities_of_the_study(served: Served, folder: Path) -> None:
    found = section(served, "/learned")
    with cb.Study.open(folder / "learned.db") as study:
        structure = study.structure()
    drawn = structure.likely_edges(0.1)
    assert found.count('class="edge"') == len(drawn)
    assert sorted(re.findall(r'class="probability"[^>]*>([\d.]+)<', found)) == sorted(
        f"{p:.2f}" for p in drawn.values()
    )
    rows = re.findall(r'<tr><th scope="row">(\w+)</th><td>([\w, ]+)</td><td>([\d.]+)</td></tr>', found)
    for (cause, effect), probability in structure.edges.items():
        if HOSTILE not in (cause, effect):
            assert (effect, cause, f"{probability:.2f}") in rows
    best, probability = structure.likeliest_sets("click", 1)[0]
    assert ("click", ", ".join(best), f"{probability:.2f}") in rows
    assert rows[0][0] == "click"
    text = " ".join(re.sub(r"<[^>]+>", " ", found).split())
    assert "Learned from 200 outcomes." in text
    assert "The parent set of the reward separates the actions from the reward." in text
    assert "Its variables need not cause the reward." in text
    assert f"0.1 or more, {len(drawn)} of {len(structure.edges)} possible ones. Not used: 1 outcome that lacks" in text
    assert "<script>alert" not in found
    assert served.fetch("GET", "/learned")[2].count('data-part="the-causal-graph"') == 0


def test_the_page_can_be_read_by_everybody(served: Served) -> None:
    for path in ("/learned", "/empty", "/other"):
        outline = Outline(served.fetch("GET", path)[2])
        assert outline.faults == []
        assert all("caption" in table for table in outline.tables)
        assert len(outline.ids) == len(set(outline.ids))


def test_without_outcomes_the_probabilities_are_those_of_the_prior(served: Served) -> None:
    found = section(served, "/empty")
    assert "No outcome yet: the probabilities are those of the prior." in found
    assert "likeliest parent set of the reward" not in found


def test_a_policy_that_learns_no_structure_has_no_picture(served: Served) -> None:
    found = section(served, "/other")
    assert "the policy ts does not learn it" in found
    assert "<svg" not in found


def test_only_the_likeliest_of_many_edges_are_drawn(tmp_path: Path) -> None:
    many = cb.Problem(
        None,
        reward="y",
        manipulable={"a": [0, 1], "b": [0, 1]},
        values={f"v{k}": [0, 1] for k in range(12)},
        max_parents=2,
    )
    with cb.Study.create(tmp_path / "many.db", many) as study:
        panel = build_panels(study)["structure"]
    assert panel.drawn == MAX_EDGES < panel.probable


def structure_of(seed: int, observed: int) -> LearnedStructure:
    """A structure with random probabilities of all edges."""
    rng = np.random.default_rng(seed)
    roles = {"c": "context", "a": "manipulable", "b": "manipulable", **{f"v{k}": "observed" for k in range(observed)}}
    order = [*roles, "y"]
    edges = {
        (cause, effect): float(rng.random() ** 3)
        for cause, effect in combinations(order, 2)
        if effect == "y" or roles[effect] == "observed"
    }
    return LearnedStructure("y", 10, edges, {"y": {("a",): 1.0}}, dict.fromkeys(roles, (0, 1)), roles)


@pytest.mark.parametrize("seed", range(6))
def test_edges_cross_no_node_and_variables_stand_in_their_order(seed: int) -> None:
    structure = structure_of(seed, 3 + 2 * seed)
    edges = structure.likely_edges(0.3)
    drawn = str(structure_svg(structure, edges, {}, {}))
    width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', drawn)[0])
    place = {
        name: (float(x), float(y))
        for x, y, name in re.findall(r'<g class="node plain"><rect x="(\S+)" y="(\S+)".*?>(\w+)</text>', drawn)
    }
    assert set(place) == {*structure.values, "y"}
    left = {name: x for name, (x, _) in place.items()}
    assert left["c"] < left["a"] == left["b"] < min(left[name] for name in structure.must_observe)
    assert left["y"] > max(left[name] for name in structure.must_observe)
    paths = [points(d) for d in re.findall(r'class="edge" d="([^"]+)"', drawn)]
    assert len(paths) == len(edges)
    for ((cause, effect), probability), path in zip(edges.items(), paths, strict=True):
        assert left[cause] <= left[effect]
        assert left[cause] < left[effect] or probability < 0.5
        for x, y in path:
            assert 0 <= x <= width
            assert 0 <= y <= height
            for corner_x, corner_y in place.values():
                inside = corner_x + 1 < x < corner_x + NODE_WIDTH - 1 and corner_y + 1 < y < corner_y + NODE_HEIGHT - 1
                assert not inside, (cause, effect)
    labels = [(float(x), float(y)) for x, y in re.findall(r'class="probability" x="(\S+)" y="(\S+)"', drawn)]
    for (x, y), path in zip(labels, paths, strict=True):
        assert min(np.hypot(x - u, y - 4.5 - v) for u, v in path) < LABEL_SIZE[0] / 2, "a number stands at its edge"
    widths = [float(one) for one in re.findall(r'stroke-width="(\S+)"', drawn)]
    assert all(np.diff(np.array(widths)[np.argsort(list(edges.values()))]) >= 0)


@pytest.mark.browser
@pytest.mark.skipif(FOUND is None, reason="there is no Chromium here")
@pytest.mark.parametrize("wide", [1280, 390])
def test_a_browser_shows_the_picture_within_the_page(served: Served, tmp_path: Path, wide: int) -> None:
    browser = Chromium(tmp_path)
    try:
        browser.wide(wide)
        browser.visit(f"http://127.0.0.1:{served.port}/learned")
        assert browser.value("document.documentElement.scrollWidth") <= wide
        assert browser.value("document.querySelectorAll('svg.structure .node').length") == 6
        assert browser.value("document.querySelector('svg.structure').getBoundingClientRect().height") > 150
        assert browser.value("[...document.querySelectorAll('body script:not([src])')].length") == 0
    finally:
        browser.close()
