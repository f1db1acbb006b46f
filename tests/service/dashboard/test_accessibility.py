"""Everybody can read the pages: contrast, labels, tables, landmarks; axe-core, if installed, finds no fault."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.service.server import build_service
from chromium import FOUND, Chromium

ENV = cb.zoo.email_campaign()
PAGES = [
    "/",
    "/mail",
    "/empty",
    "/learned",
    "/mail/decision?id=0",
    "/mail/decision?id=201",
    "/mail/what-if?send_time=morning",
    "/login",
    "/problems",
    "/nothing",
]
MAIL = {"subject": "short", "template": "1"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("pages")
    cb.Study.create(folder / "empty.db", ENV.problem, "c-ts(prior=beta)").close()
    with cb.Study.create(folder / "mail.db", ENV.problem, cb.policy("c-ts", prior="beta", samples=8), seed=1) as study:
        rng = np.random.default_rng(0)
        with study.together():
            for _ in range(200):
                decision = study.ask()
                seen = ENV.pull(decision.action, rng)
                study.tell(decision.id, reward=seen.reward, observed=seen.parents)
        study.tell(study.ask().id, reward=1)
        study.tell("too-early", reward=1, observed={**MAIL, "send_time": "evening"})
        study.ask(key="too-early", eligible=[{"send_time": "morning"}])
        study.ask()
    values = {"subject": ["short", "long"], "device": ["phone", "pc"]}
    without_graph = cb.Problem(None, reward="click", manipulable={"purpose": ["promo", "news"]}, values=values)
    with cb.Study.create(folder / "learned.db", without_graph, seed=1) as study:
        for k, decision in enumerate(study.ask(40)):
            observed = {"subject": "short" if decision.action["purpose"] == "promo" else "long", "device": "pc"}
            study.tell(decision.id, reward=k % 2, observed=observed)
        study.tell(study.ask().id, reward=1)
    running = Served(build_service(sorted(folder.glob("*.db"))))
    yield running
    running.stop()


def test_outcomes_that_could_not_be_used_are_shown_with_the_reason(served: Served) -> None:
    page = served.fetch("GET", "/mail")[2]
    (section,) = re.findall(
        r"<section(?:(?!<section).)*Outcomes that could not be applied.*?</section>", page, re.DOTALL
    )
    assert "too-early" in section
    assert re.search(r"send_time.* was set to .*morning", section)
    assert "forget(" not in section
    (id,) = re.findall(r'href="/mail/decision\?id=(d201-[0-9a-f]{8})"', section)
    assert "lack" in page, "incomplete outcomes have a section of their own"
    assert "could not be applied" in served.fetch("GET", f"/mail/decision?id={id}")[2]
    assert "could not be applied" not in served.fetch("GET", "/empty")[2]


class Outline(HTMLParser):
    """What assistive technology needs of a page."""

    VOID = frozenset(("meta", "link", "input", "br", "path", "rect", "line", "polyline"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.faults: list[str] = []
        self.tags: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.tables: list[set[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        own, around = dict(attributes), [name for name, _ in self.open]
        self.tags.append(tag)
        if own.get("id"):
            self.ids.append(str(own["id"]))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag in ("input", "select") and "label" not in around and "aria-label" not in own:
            self.faults.append(f"{tag} {own} has no label")
        if tag == "html" and own.get("lang") != "en":
            self.faults.append("no language")
        if tag == "svg" and not (own.get("role") == "img" and own.get("aria-label")):
            self.faults.append("a picture without a name")
        if tag == "table":
            self.tables.append(set())
        if tag == "caption":
            self.tables[-1].add("caption")
        if tag == "th" and own.get("scope") not in ("col", "row"):
            self.faults.append("a heading of a table without a scope")
        if "scroll" in str(own.get("class")).split() and not ("tabindex" in own and own.get("aria-label")):
            self.faults.append("a part that scrolls cannot be reached by keyboard")
        if tag == "section" and "main" not in around:
            self.faults.append("a section outside main")
        if any(name.startswith("on") or name == "style" for name in own):
            self.faults.append(f"inline {own}")
        if tag not in self.VOID:
            self.open.append((tag, own))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass


@pytest.mark.parametrize("path", PAGES)
def test_pages_have_landmarks_headings_labels_and_captions(served: Served, path: str) -> None:
    page = served.fetch("GET", path)[2]
    outline = Outline(page)
    assert outline.faults == []
    assert outline.tags.count("main") == outline.tags.count("header") == outline.tags.count("nav") == 1
    assert outline.headings.count(1) == 1
    assert outline.headings[0] == 1
    assert all(b - a <= 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))
    assert len(outline.ids) == len(set(outline.ids))
    assert "main" in outline.ids, "where the skip link leads"
    assert '<a class="skip" href="#main">' in page
    assert all("caption" in table for table in outline.tables)


def test_every_chart_has_its_numbers_in_a_table(served: Served) -> None:
    page = served.fetch("GET", "/mail")[2]
    assert page.count("<svg") == 4
    for name in ("graph-table", "means-table", "shares-table", "delays-table"):
        (details,) = re.findall(rf'<details id="{name}">(.*?)</details>', page, re.DOTALL)
        assert details.count("<tr>") > 1
        assert '<th scope="row">' in details


CSS = resources.files("causalbandits.service.dashboard").joinpath("static", "style.css").read_text(encoding="utf-8")


def scheme(dark: bool) -> dict[str, str]:
    """The colours of a scheme, by name."""
    light, *rest = re.findall(r":root\s*{([^}]*--ink[^}]*)}", CSS)
    found = dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]+)", light))
    return found | (dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]+)", rest[0])) if dark else {})


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:4])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


TEXTS = [
    *((ink, ground) for ink in ("ink", "quiet", "main", "good", "bad") for ground in ("paper", "card")),
    ("warn", "warnpaper"),
    ("bad", "badpaper"),
    ("ink", "badpaper"),
    *((ink, ground) for ink in ("ink", "quiet") for ground in ("knob", "parent")),
]
SHAPES = [
    *((f"kind{k}", "card") for k in range(6)),
    ("rest", "card"),
    ("field", "card"),
    ("field", "paper"),
    ("main", "knob"),
    ("good", "parent"),
    ("warn", "card"),
]


@pytest.mark.parametrize("dark", [False, True])
def test_colours_have_enough_contrast(dark: bool) -> None:
    colours = scheme(dark)
    too_faint = {
        (ink, ground): round(contrast(colours[ink], colours[ground]), 2)
        for pairs, least in ((TEXTS, 4.5), (SHAPES, 3.0))
        for ink, ground in pairs
        if contrast(colours[ink], colours[ground]) < least
    }
    assert too_faint == {}
    assert set(re.findall(r"(?<!fill: )var\(--([\w-]+)\)", CSS)) <= set(scheme(False))


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#fff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if FOUND is None:
        pytest.skip("there is no Chromium here")
    made = Chromium(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.mark.browser
def test_the_keyboard_reaches_the_content_first_and_sees_where_it_is(browser: Chromium, served: Served) -> None:
    browser.wide(1280)
    browser.visit(f"http://127.0.0.1:{served.port}/mail")
    key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
    browser.send("Input.dispatchKeyEvent", type="keyDown", **key)
    browser.send("Input.dispatchKeyEvent", type="keyUp", **key)
    assert browser.value("document.activeElement.textContent") == "Skip to the content"
    assert browser.value("document.activeElement.getBoundingClientRect().left") >= 0
    browser.send("Input.dispatchKeyEvent", type="keyDown", **key)
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.browser
def test_what_is_open_and_focused_stays_so_when_the_page_is_updated(browser: Chromium, served: Served) -> None:
    address = f"http://127.0.0.1:{served.port}/empty"
    browser.wide(1280)
    browser.visit(address)
    browser.value("document.querySelector('#graph-table summary').click()")
    browser.value("document.querySelector('#graph-table summary').focus()")
    browser.value("document.querySelector('#graph-table').dataset.old = 'yes'")
    with cb.connect(address) as study:
        study.ask()
    browser.until("!document.querySelector('#graph-table').dataset.old")
    assert browser.value("document.querySelector('#graph-table').open")
    assert browser.value("document.activeElement.textContent") == "The graph as a table"


AXE = [
    folder / "node_modules" / "axe-core" / "axe.min.js"
    for folder in (Path(os.environ.get("AXE_CORE", ".")), Path(__file__).parents[3])
]


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_no_fault(browser: Chromium, served: Served, path: str, dark: bool) -> None:
    script = next((file for file in AXE if file.exists()), None)
    if script is None:
        pytest.skip("axe-core is not installed: npm install axe-core, or AXE_CORE=folder")
    browser.wide(1280, dark=dark)
    browser.visit(f"http://127.0.0.1:{served.port}{path}")
    browser.send("Runtime.evaluate", expression=script.read_text(encoding="utf-8"))
    browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    found: Any = json.loads(browser.value("axe.run().then((found) => JSON.stringify(found.violations))"))
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found] == []
