"""Pages of other sites change nothing: every request that may is refused by Sec-Fetch-Site, else by Origin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.service.auth import COOKIE, Keys
from causalbandits.service.routes import PAGES, ROUTES
from causalbandits.service.server import build_service

CHANGING = sorted({(route.method, route.path) for route in (*ROUTES, *PAGES) if route.method not in ("GET", "HEAD")})
FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1"},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("studies") / "mail.db"
    cb.Study.create(file, cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([file]))
    yield running
    running.stop()


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_no_page_of_another_site_reaches_a_route_that_changes_anything(
    served: Served, method: str, path: str, headers: dict[str, str]
) -> None:
    served.send("POST", "/v1/studies/mail/decisions", {"key": "a"})
    before = served.send("GET", "/v1/studies/mail/report")[1]
    where = path.format(study="mail", decision="0")
    for body in ("", "mode=paused", "{}"):
        status, _, text = served.fetch(method, where, body, **{"Content-Type": "text/plain"}, **headers)
        assert (status, "/problems/cross-site-request" in text) == (403, True), text
    assert served.send("GET", "/v1/studies/mail/report")[1] == before


def test_programs_and_own_pages_may(served: Served) -> None:
    own = f"http://127.0.0.1:{served.port}"
    for headers in ({}, {"Origin": own}, {"Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "none"}):
        assert served.send("POST", "/v1/studies/mail/decisions", {}, **headers)[0] == 201
    # Behind a proxy that rewrites Host, an Origin differs from it: the browser's own statement decides.
    moved = {"Origin": "https://bandits.example", "Sec_Fetch_Site": "same-origin"}
    assert served.send("POST", "/v1/studies/mail/decisions", {}, **moved)[0] == 201


def test_a_cookie_counts_in_a_form_only_where_the_browser_says_that_the_form_is_an_own_one(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "mail.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1).close()
    key = Keys(tmp_path / "keys.json").create("ann", "admin")
    running = Served(build_service([tmp_path / "mail.db"]))

    def sent(**headers: Any) -> tuple[int, str]:
        status, answer, _ = running.fetch("POST", "/mail/mode", "mode=paused", Cookie=f"{COOKIE}={key}", **headers)
        return status, answer.get("location", "")

    try:
        assert sent() == (303, "/login")
        assert sent(**{"Sec-Fetch-Site": "none"}) == (303, "/login")
        assert sent(**{"Sec-Fetch-Site": "same-origin"}) == (303, "/mail")
        assert sent(Origin=f"http://127.0.0.1:{running.port}") == (303, "/mail")
    finally:
        running.stop()
