"""The pages in a real browser: they fetch nothing from elsewhere, complain of nothing, fit a telephone, and survive."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import causalbandits as cb
from chromium import FOUND, Chromium

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(FOUND is None, reason="there is no Chromium here")

HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>\"'&{{7*7}}`${1}`"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    made = Chromium(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


class Serving:
    """A service in a process of its own, which can be killed and started again at the same address."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "causalbandits.cli", "serve", str(self._file), "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.1)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self._file.stem}"


def hostile_problem() -> cb.Problem:
    """Every name and every value is hostile."""
    one, two, three = HOSTILE, f"2{HOSTILE}", f"3{HOSTILE}"
    model = cb.CausalModel(
        [
            cb.Variable(one, [HOSTILE, "</option><b>"], table=[0.5, 0.5]),
            cb.Variable(
                two, ["</text></svg><script>alert(2)</script>", "b"], parents=[one], table=[[0.2, 0.8], [0.7, 0.3]]
            ),
            cb.Variable(three, [HOSTILE, "b"], parents=[two], table=[[0.2, 0.8], [0.7, 0.3]]),
        ]
    )
    return cb.Problem(model, [one], parents=[two, three])


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    file = tmp_path_factory.mktemp("served") / "campaign.db"
    problem = hostile_problem()
    with cb.Study.create(file, problem, cb.policy("c-ts-beta", draws=8), seed=0) as study, study.together():
        rng = np.random.default_rng(0)
        for k in range(60):
            decision = study.ask(key=f"{k}{HOSTILE}")
            z = tuple(int(code) for code in rng.integers(0, 2, 2))
            study.tell(decision.id, problem.decode_parents(z), int(rng.integers(2)))
    made = Serving(file)
    yield made
    made.kill()


PAGES = ["", "/decision?id=0", "/decision?id=%3Cscript%3Ealert(1)%3C/script%3E", "/what-if?x=1", "/../", "/../login"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fetches_nothing_from_elsewhere_and_nothing_on_it_runs_or_complains(
    browser: Chromium, serving: Serving, path: str
) -> None:
    browser.wide(1280)
    browser.requests.clear()
    browser.complaints.clear()
    browser.visit(serving.address + path)
    assert browser.value("[...document.querySelectorAll('body script:not([src]), img, b, iframe')].length") == 0
    fetched = {urlsplit(one).netloc for one in browser.requests if not one.startswith("data:")}
    assert fetched == {f"127.0.0.1:{serving.port}"}
    # A page that says that something is not there has a status that says so, too, which a browser notes once.
    answered = browser.value("performance.getEntriesByType('navigation')[0].responseStatus")
    assert len(browser.complaints) == (answered >= 400), browser.complaints


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_fits_a_telephone_without_scrolling_sideways(
    browser: Chromium, serving: Serving, path: str, dark: bool
) -> None:
    browser.wide(360, 740, dark=dark)
    browser.visit(serving.address + path)
    assert browser.value("document.documentElement.scrollWidth") <= 360


def test_a_page_shows_what_happens_while_it_is_open(browser: Chromium, serving: Serving) -> None:
    browser.wide(1280)
    browser.visit(serving.address)
    counted = "Number(document.querySelector('.counts dd').textContent)"
    before = browser.value(counted)
    with cb.connect(serving.address) as study:
        study.ask()
    browser.until(f"{counted} === {before + 1}")
    assert browser.value("document.getElementById('lost').hidden")


def test_when_the_service_is_killed_the_page_says_so_and_goes_on_when_it_is_back(
    browser: Chromium, serving: Serving
) -> None:
    browser.wide(1280)
    browser.visit(serving.address)
    browser.until("document.getElementById('lost').hidden")
    counted = "Number(document.querySelector('.counts dd').textContent)"
    before = browser.value(counted)
    serving.kill()
    browser.until("!document.getElementById('lost').hidden")
    assert browser.value(counted) == before  # what was there stays readable
    serving.start()
    with cb.connect(serving.address) as study:
        study.ask()
    browser.until(f"document.getElementById('lost').hidden && {counted} === {before + 1}")


def test_on_paper_there_is_dark_ink_and_nothing_to_click(browser: Chromium, serving: Serving) -> None:
    browser.wide(1000)
    browser.visit(serving.address)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.send("Emulation.setEmulatedMedia", media="print", features=[scheme])
    try:
        seen = "[...document.querySelectorAll('form, details, #lost')].filter((one) => one.offsetHeight > 0).length"
        assert browser.value(seen) == 0
        ink, paper = browser.value(
            "[getComputedStyle(document.querySelector('.best')).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert (ink, paper) == ("rgb(28, 36, 48)", "rgb(255, 255, 255)")
        assert (
            browser.value(
                "Math.max(...[...document.querySelectorAll('.scroll')].map((s) => s.scrollHeight - s.clientHeight))"
            )
            <= 1
        )
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")
