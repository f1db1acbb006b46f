"""The pages in a real browser: they fetch nothing from elsewhere, complain of nothing, fit a telephone, and survive."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

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
    return cb.Problem(model, manipulable=[one], reward_parents=[two, three], optional=True)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    file = tmp_path_factory.mktemp("served") / "campaign.db"
    problem = hostile_problem()
    with cb.Study.create(file, problem, cb.policy("c-ts", prior="beta", samples=8), seed=0) as study, study.together():
        rng = np.random.default_rng(0)
        for k in range(60):
            decision = study.ask(key=f"{k}{HOSTILE}")
            z = tuple(int(code) for code in rng.integers(0, 2, 2))
            study.tell(decision.id, reward=int(rng.integers(2)), observed=problem.decode_parents(z))
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


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Serving]:
    """A service with keys, so that a browser has to log in."""
    cb.Study.create(
        tmp_path / "mail.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta, samples=8)", seed=1
    ).close()
    made = Serving(tmp_path / "mail.db")
    yield made
    made.kill()


def log_in(browser: Chromium, service: str, key: str) -> None:
    browser.visit(f"{service}/login")
    browser.value(f"document.querySelector('[name=key]').value = '{key}'")
    browser.click("button")
    browser.until("location.pathname === '/'")


def change_mode(browser: Chromium, page: str, mode: str) -> None:
    browser.visit(page)
    browser.click(".change summary")
    browser.value(f"document.querySelector('.change select').value = '{mode}'")
    if mode == "closed":
        browser.click(".change [name=sure]")
    browser.click(".change button")
    browser.until(f"document.querySelector('.counts')?.textContent.includes('Mode: {mode}')")


@pytest.mark.parametrize(("host", "with_keys"), [("127.0.0.1", False), ("127.0.0.1", True), ("bandits.test", True)])
def test_a_click_pauses_freezes_and_closes_a_study(
    browser: Chromium, kept: Serving, tmp_path: Path, host: str, with_keys: bool
) -> None:
    """Also under a name for which a browser sends no Sec-Fetch-Site, but Origin alone."""
    from causalbandits.service import Keys

    browser.wide(1280)
    if with_keys:
        log_in_key = Keys(tmp_path / "keys.json").create("ann", "admin")
        log_in(browser, f"http://{host}:{kept.port}", log_in_key)
    for mode in ("paused", "frozen", "closed"):
        change_mode(browser, f"http://{host}:{kept.port}/mail", mode)
    with cb.Study.open(tmp_path / "mail.db") as study:
        changes = [(one["mode"], one["by"]) for one in study.modes()]
    by = "ann" if with_keys else ""
    assert changes == [("online", ""), ("paused", by), ("frozen", by), ("closed", by)]


def outcome_of(study: cb.study.RemoteStudy) -> None:
    decision = study.ask(eligible=[{"send_time": "morning"}])
    study.tell(decision, reward=1, observed={"subject": "short", "template": "1"})


def test_an_update_keeps_scroll_focus_selection_and_choices(browser: Chromium, kept: Serving) -> None:
    browser.wide(420, 500)
    with cb.connect(kept.address) as study:
        study.ask(40)
        for _ in range(3):
            outcome_of(study)
        browser.visit(kept.address)
        counted = "Number(document.querySelector('.counts dd').textContent)"
        before = browser.value(counted)
        # Somebody reads: scrolled down, a table scrolled, text selected, an estimate half chosen, a table unfolded.
        browser.value(
            "(() => { const box = document.querySelector('[data-part=the-causal-graph] .scroll');"
            " document.querySelector('#means-table').open = true;"
            " const select = document.querySelector('.whatif select');"
            " select.value = select.options[1].value; select.focus(); box.scrollLeft = 50;"
            " getSelection().selectAllChildren(document.querySelector('[data-part=mean-reward] h2')); })()"
        )
        state = (
            "[getSelection().toString(), document.activeElement.name, document.activeElement.value,"
            " document.querySelector('#means-table').open, scrollY > 100,"
            " document.querySelector('[data-part=the-causal-graph] .scroll').scrollLeft, scrollY]"
        )
        old = browser.value(state)
        assert old[0] == "Mean reward"
        first_value = browser.value("document.querySelector('.whatif select').options[1].value")
        assert old[1:6] == ["product", first_value, True, True, 50]
        for k in range(1, 4):
            outcome_of(study)
            browser.until(f"{counted} === {before + k}")
            assert browser.value(state)[:6] == old[:6]
        assert abs(browser.value(state)[6] - old[6]) < 150, "the page stays where it was scrolled to"
        # A part that comes anew, above all others, moves no state to another part.
        study.tell(study.ask(), reward=1)
        browser.until("document.querySelector('[data-part=incomplete-outcomes]') !== null")
        assert browser.value(state)[:6] == old[:6]
    assert browser.value("document.getElementById('lost').hidden")


def test_a_revoked_key_leads_to_the_login_as_a_whole_page(browser: Chromium, kept: Serving, tmp_path: Path) -> None:
    from causalbandits.service import Keys

    browser.wide(1280)
    keys = Keys(tmp_path / "keys.json")
    reader, _ = keys.create("eve", "reader"), keys.create("ann", "admin")
    log_in(browser, f"http://127.0.0.1:{kept.port}", reader)
    browser.visit(kept.address)
    browser.until("document.getElementById('lost').hidden")
    keys.revoke("eve")
    browser.until("location.pathname === '/login'")
    browser.until("document.readyState === 'complete'")
    assert browser.value("document.querySelectorAll('h1, header, #panels').length") == 2
    assert browser.value("document.querySelector('h1').textContent") == "Your key"


def test_a_name_with_every_character_has_links_and_forms_that_work(browser: Chromium, tmp_path: Path) -> None:
    name = "a?b#c%41 d&\"'<é>"
    cb.Study.create(
        tmp_path / f"{name}.db", cb.zoo.email_campaign().problem, cb.policy("c-ts", prior="beta", samples=8), seed=1
    ).close()
    serving = Serving(tmp_path / f"{name}.db")
    try:
        home = f"http://127.0.0.1:{serving.port}/"
        browser.wide(1280)
        browser.complaints.clear()
        browser.visit(home)
        browser.click("td a")
        browser.until(f"document.title === {json.dumps(name)}")
        browser.until("document.getElementById('lost')?.hidden")
        connection = http.client.HTTPConnection("127.0.0.1", serving.port)
        decisions = f"/v1/studies/{quote(name, safe='')}/decisions"
        connection.request("POST", decisions, "{}", {"Content-Type": "application/json"})
        assert connection.getresponse().status == 201
        connection.close()
        browser.until("document.querySelector('.counts dd').textContent === '1'")
        browser.value("document.querySelector('.look input').value = '0'")
        browser.click(".look button")
        browser.until("document.querySelector('h1')?.textContent === 'Decision 0'")
        browser.click("nav span a")
        browser.until(f"document.title === {json.dumps(name)}")
        browser.value("document.querySelector('.whatif [name=send_time]').value = 'morning'")
        browser.click(".whatif button")
        browser.until("document.querySelector('h1')?.textContent.startsWith('Off-policy evaluation')")
        browser.click("nav span a")
        browser.until("document.querySelector('.change') !== null")
        browser.click(".change summary")
        browser.value("document.querySelector('.change select').value = 'paused'")
        browser.click(".change button")
        browser.until("document.querySelector('.counts')?.textContent.includes('Mode: paused')")
        refused = [one for one in browser.complaints if "400" not in one]  # an estimate needs outcomes
        assert refused == []
    finally:
        serving.kill()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nothing", "The study does not exist"),
        ("mail/no/such", "The resource does not exist"),
        ("?page=7", "not valid"),
    ],
)
def test_an_error_is_a_page_that_says_what_to_do(browser: Chromium, kept: Serving, path: str, says: str) -> None:
    for width in (1280, 360):
        browser.wide(width)
        browser.visit(f"http://127.0.0.1:{kept.port}/{path}")
        assert says in browser.value("document.querySelector('h1').textContent")
        assert "What to do" in browser.value("document.querySelector('main').textContent")
        assert browser.value("document.documentElement.scrollWidth") <= width
    browser.click("main a")
    browser.until("location.pathname === '/' && document.querySelector('h1')?.textContent === 'Studies'")


def test_closing_a_study_without_being_sure_is_explained_and_leads_back(browser: Chromium, kept: Serving) -> None:
    browser.wide(1280)
    browser.visit(kept.address)
    browser.click(".change summary")
    browser.value("document.querySelector('.change select').value = 'closed'")
    browser.click(".change button")
    browser.until("document.querySelector('h1')?.textContent === 'The mode is not valid'")
    assert "Tick 'close permanently' only to close a study" in browser.value(
        "document.querySelector('main').textContent"
    )
    browser.click("main a")
    browser.until("location.pathname === '/mail' && document.getElementById('panels') !== null")
