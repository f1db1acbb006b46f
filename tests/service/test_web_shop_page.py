"""The tutorial of the web shop: its files, commands and programs are run as printed, against a service."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_drain import Process

import causalbandits as cb
import commands
import toolchains

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorials/web-shop.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
BEST = {"banner": "loud", "delivery": "free"}
N_VISITORS = 300


def block(language: str, place: int = 0) -> str:
    return [text for own, text in BLOCKS if own == language][place]


def test_the_blocks_are_those_that_are_run() -> None:
    languages = [language for language, _ in BLOCKS]
    assert languages == ["bash", "toml", "bash", "bash", "text", "js", "bash", "go", "bash", "text", "bash"]


class Shop(NamedTuple):
    folder: Path
    created: str
    port: int

    @property
    def study(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/studies/shop"

    def run(self, *command: str) -> str:
        """What a program prints, with the address of this service."""
        environment = {**os.environ, "STUDY": self.study}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def n_outcomes(self) -> int:
        with cb.connect(f"http://127.0.0.1:{self.port}/shop") as study:
            return study.n_outcomes


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.toml").write_text(block("toml"), encoding="utf-8")
    create, serve = block("bash", 1).splitlines()
    program, *arguments = shlex.split(create)
    created = commands.run(*arguments, folder=folder, columns=200)
    assert (program, created.returncode) == ("causalbandits", 0), created
    assert serve == "causalbandits serve shop.db"
    process = Process(folder / "shop.db")
    yield Shop(folder, created.stdout, process.port)
    assert process.stop()[0] == 0


def test_the_study_has_the_actions_and_variables_of_the_page(shop: Shop) -> None:
    assert "4 actions on banner, delivery" in shop.created
    assert "observe viewed" in shop.created


@pytest.mark.skipif(toolchains.CURL is None, reason="curl is not installed")
def test_curl_prints_what_the_page_shows(shop: Shop) -> None:
    decision, receipt = map(json.loads, shop.run("bash", "-euc", block("bash", 2)).splitlines())
    shown_decision, shown_receipt = map(json.loads, block("text").splitlines())
    assert receipt == shown_receipt
    assert list(decision) == list(shown_decision)
    assert [type(value) for value in decision.values()] == [type(value) for value in shown_decision.values()]
    ranking: dict[str, Any] = json.loads(shop.run("bash", "-euc", block("bash", 5)))
    assert len(next(value for value in ranking.values() if isinstance(value, list))) == 4
    page = shop.run("curl", "-sSf", f"http://127.0.0.1:{shop.port}/shop/decision?id=page-view-1")
    assert "decision page-view-1" in page
    assert decision["action"]["banner"] in page


def check_result(printed: str, shop: Shop, before: int) -> None:
    """All visitors were decided for and counted, and the best of the four actions is recommended."""
    first, *lines = printed.splitlines()
    assert re.fullmatch(r"\d+ sales", first)
    assert lines[0] == "Action: do(banner=loud, delivery=free)"
    shown = [line.partition(":")[0] for line in block("text", 1).splitlines()]
    assert [line.partition(":")[0] for line in lines][: len(shown)] == shown
    assert block("text", 1).splitlines()[-1] in lines
    assert shop.n_outcomes() == before + N_VISITORS
    with cb.connect(f"http://127.0.0.1:{shop.port}/shop") as study:
        assert dict(study.recommend().intervention) == BEST


@pytest.mark.skipif(toolchains.NODE is None, reason="node is not installed")
def test_node_plays_visitors_and_finds_the_best_action(shop: Shop) -> None:
    """Of 60 simulated campaigns of 300 visitors, all found it."""
    assert block("bash", 3) == "node visitors.mjs\n"
    (shop.folder / "visitors.mjs").write_text(block("js"), encoding="utf-8")
    before = shop.n_outcomes()
    check_result(shop.run("node", "visitors.mjs"), shop, before)


@pytest.mark.skipif(toolchains.GO is None, reason="go is not installed")
def test_go_plays_visitors_and_finds_the_best_action(shop: Shop) -> None:
    assert block("bash", 4) == "go run visitors.go\n"
    (shop.folder / "visitors.go").write_text(block("go"), encoding="utf-8")
    shop.run("go", "vet", "visitors.go")
    assert not shop.run(str(Path(str(toolchains.GO)).resolve().parent / "gofmt"), "-l", "visitors.go")
    before = shop.n_outcomes()
    check_result(shop.run("go", "run", "visitors.go"), shop, before)


@pytest.mark.parametrize("line", re.findall(r"`(causalbandits study (?:expire|keys)[^`]*)`", PAGE))
def test_commands_in_the_text_run(line: str, tmp_path: Path) -> None:
    problem = cb.Problem.from_spec({"graph": "x -> y", "reward": "y", "manipulable": {"x": [0, 1]}})
    cb.Study.create(tmp_path / "shop.db", problem, attribution_window=3600, default_reward=0, seed=1).close()
    assert commands.run(*shlex.split(line)[1:], folder=tmp_path).returncode == 0


def test_the_page_has_two_commands_in_its_text() -> None:
    assert len(re.findall(r"`causalbandits study (?:expire|keys)", PAGE)) == 2


@pytest.mark.skipif(toolchains.CURL is None, reason="curl is not installed")
def test_the_commands_of_the_readme_create_and_serve_a_study_that_decides(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    create, serve, ask = re.findall(r"^(?:causalbandits|curl) .*$", readme, re.MULTILINE)
    assert commands.run(*shlex.split(create, comments=True)[1:], folder=tmp_path).returncode == 0
    assert shlex.split(serve, comments=True) == ["causalbandits", "serve", "campaign.db"]
    process = Process(tmp_path / "campaign.db")
    command = shlex.split(ask.replace("127.0.0.1:8000", f"127.0.0.1:{process.port}"))
    done = subprocess.run([*command, "-sS"], capture_output=True, text=True, timeout=60)
    assert process.stop()[0] == 0
    assert json.loads(done.stdout)["id"].startswith("d0-"), done
