"""The gallery: every example runs with the seed of its page and with another, and its page shows what it printed."""

from __future__ import annotations

import ast
import re
import runpy
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
GALLERY = runpy.run_path(str(ROOT / "docs/gallery.py"))
IS_PINNED = f"\nmatplotlib=={version('matplotlib')}\n" in (ROOT / "constraints.txt").read_text(encoding="utf-8")
"""Whether Matplotlib has the version with which the pictures of the pages were drawn."""
NAMES = list(GALLERY["TITLES"])
MOST_DIFFERENT = 1.0
"""The mean difference of two plots in grey levels of 255: fonts may be drawn in slightly different ways."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs an example as a program in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")

    def run_example(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        with warnings.catch_warnings():  # an example may ignore some; those that it does not ignore are errors
            runpy.run_path(str(ROOT / f"examples/{name}.py"), run_name="__main__")
        plt.close("all")
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run_example


def pixels(path: Path) -> np.ndarray:
    """A plot in grey, at a quarter of its size."""
    plot = Image.open(path).convert("L")
    return np.asarray(plot.resize((plot.width // 4, plot.height // 4)), dtype=float)


def truths(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("True best")]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_and_draws_what_its_page_shows_and_runs_with_another_seed(
    name: str, run: Any, tmp_path: Path
) -> None:
    output, drawn = run(name, "--seed", str(GALLERY["SEED"])), tmp_path / f"results/{name}.png"
    page = (ROOT / "docs/gallery" / GALLERY["page_name"](name)).read_text(encoding="utf-8")
    assert page == GALLERY["page"](name, output), f"python docs/gallery.py {name}"
    assert all((tmp_path / path).exists() for path in re.findall(r"results/\S+", output))
    committed, found = pixels(ROOT / f"docs/gallery/images/{name}.png"), pixels(drawn)
    assert found.shape == committed.shape
    # Other versions of Matplotlib draw other pixels.
    assert np.abs(found - committed).mean() < MOST_DIFFERENT or not IS_PINNED, f"python docs/gallery.py {name}"

    drawn.unlink()
    other = run(name, "--seed", "1")
    assert other != output
    assert truths(other) == truths(output)  # the truth does not depend on the seed
    assert pixels(drawn).shape == committed.shape


def test_every_example_has_a_page_and_the_index_shows_it() -> None:
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert scripts == {*NAMES, "live_campaign"}
    assert list(GALLERY["PLOTS"]) == NAMES
    index = (ROOT / "docs/gallery/index.md").read_text(encoding="utf-8")
    assert index == GALLERY["index"](), "python docs/gallery.py"
    plots = {path.stem for path in (ROOT / "docs/gallery/images").glob("*.png")}
    assert plots == set(NAMES)
    listed = re.findall(r"^ +- (.*): gallery/(.*)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed[1:] == [(title, GALLERY["page_name"](name)) for name, title in GALLERY["TITLES"].items()]


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_of_an_example_asks_a_question_and_answers_it(name: str) -> None:
    lines = (ast.get_docstring(ast.parse(GALLERY["source"](name))) or "").splitlines()
    assert lines[0].endswith("?")
    assert lines[1] == ""
    assert len(" ".join(lines[2:]).split()) > 25


def test_a_plot_of_another_seed_is_told_apart(run: Any, tmp_path: Path) -> None:
    """The check of the plots can fail."""
    run("wrong_graph", "--seed", "1")
    committed = pixels(ROOT / "docs/gallery/images/wrong_graph.png")
    found = pixels(tmp_path / "results/wrong_graph.png")
    assert np.abs(found - committed).mean() > MOST_DIFFERENT
