"""Lists come in pages: `limit` and `cursor`, and `next`, which leads to all items, each once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served, outcome

import causalbandits as cb
from causalbandits.service.openapi import build_document
from causalbandits.service.routes import ROUTES
from causalbandits.service.server import build_service

PROBLEM = cb.zoo.email_campaign().problem
LISTS_OF_A_STUDY = "events", "statistics", "mode", "early-outcomes", "removed-outcomes"
LISTS = ["/v1/studies", *(f"/v1/studies/mail/{name}" for name in LISTS_OF_A_STUDY)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("lists")
    for name in ("mail", "a b", "z", "shop"):
        cb.Study.create(folder / f"{name}.db", PROBLEM, "uniform", seed=1).close()
    running = Served(build_service(sorted(folder.glob("*.db"))))
    with cb.connect(f"http://127.0.0.1:{running.port}/mail") as there:
        rng = np.random.default_rng(0)
        there.tell_many([outcome(decision, rng) for decision in there.ask(30)])
        there.tell_many([{"id": f"early-{k}", "reward": 1} for k in range(9)])
        for k in range(5, 9):
            there.retract(f"early-{k}")
        for mode in ("frozen", "online", "uniform"):
            there.set_mode(mode)
    yield running
    running.stop()


def pages(served: Served, path: str, limit: int) -> list[list[Any]]:
    found, query = [], f"?limit={limit}"
    while query is not None:
        status, page = served.send("GET", path + query)
        assert (status, set(page)) == (200, {"items", "next"})
        found.append(page["items"])
        query = page["next"]
    return found


@pytest.mark.parametrize("path", LISTS)
def test_pages_of_any_size_have_all_items_once_and_in_one_order(served: Served, path: str) -> None:
    (everything,) = pages(served, path, 1000)
    assert len(everything) >= 4
    for limit in (1, 2, 3, len(everything) - 1, len(everything)):
        found = pages(served, path, limit)
        assert [item for page in found for item in page] == everything
        assert all(len(page) == limit for page in found[:-1])
        assert 1 <= len(found[-1]) <= limit


def test_what_comes_between_two_pages_neither_repeats_nor_hides_an_item(served: Served) -> None:
    path = "/v1/studies/mail/statistics"
    first = served.send("GET", f"{path}?limit=5")[1]
    before = [item for page in pages(served, path, 1000) for item in page]
    with cb.connect(f"http://127.0.0.1:{served.port}/mail") as there:
        rng = np.random.default_rng(1)
        there.tell_many([outcome(decision, rng) for decision in there.ask(60)])
    rest = [item for page in pages_from(served, path, first["next"]) for item in page]

    def names(items: list[Any]) -> list[str]:
        return [str([item["action"], item["parents"]]) for item in items]

    assert not set(names(first["items"])) & set(names(rest))
    assert set(names(before)) <= set(names(first["items"] + rest))


def pages_from(served: Served, path: str, query: str | None) -> Iterator[list[Any]]:
    while query is not None:
        page = served.send("GET", path + query)[1]
        yield page["items"]
        query = page["next"]


def test_events_can_be_followed_by_their_numbers(served: Served) -> None:
    newest = pages(served, "/v1/studies/mail/events", 1000)[-1][-1]["number"]
    assert served.send("GET", f"/v1/studies/mail/events?cursor={newest}")[1] == {"items": [], "next": None}


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit=-1", "limit=", "cursor=%C3%A9", "cursor=*"]
)
def test_bad_values_are_refused(served: Served, path: str, query: str) -> None:
    status, answer = served.send("GET", f"{path}?{query}")
    assert (status, answer["type"]) == (422, "/problems/invalid-value")
    assert answer["errors"][0]["parameter"] == query.partition("=")[0]


def test_every_list_is_documented_with_its_bounds() -> None:
    document = build_document(ROUTES)
    for route in ROUTES:
        operation = document["paths"][route.path][route.method.lower()]
        is_list = operation["responses"][str(route.status)]["content"].get("application/json", {}).get("schema", {})
        is_page = str(is_list.get("$ref", "")).endswith("Page")
        limits = [one["schema"] for one in operation["parameters"] if one["name"] == "limit"]
        assert is_page == bool(limits) == ("cursor" in [one["name"] for one in operation["parameters"]])
        if is_page:
            assert limits == [{"type": "integer", "format": "int64", "minimum": 1, "maximum": 1000, "default": 100}]


def test_a_client_reads_all_pages(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with cb.connect(f"http://127.0.0.1:{served.port}/mail") as there:
        whole = there.events(), there.modes(), there.lines()
        monkeypatch.setattr("causalbandits.study.remote.client.PAGE_LIMIT", 2)
        assert (there.events(), there.modes(), there.lines()) == whole
        assert len(there.events(3, 5)) == 5
