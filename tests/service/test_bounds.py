"""Bounds on those who have no key: bodies, connections and requests of an address, and the cost of a request."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from starlette.requests import Request
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.service import app as service_app
from causalbandits.service.auth import COOKIE, Keys, RateLimit, client_address
from causalbandits.service.server import build_service


class Locked:
    """A service with keys, one of each role."""

    def __init__(self, folder: Path) -> None:
        cb.Study.create(folder / "mail.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1).close()
        self.key = Keys(folder / "keys.json").create("ann", "admin")
        self.running = Served(build_service([folder / "mail.db"]))


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Locked]:
    made = Locked(tmp_path)
    yield made
    made.running.stop()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("path", ["/login", "/mail/mode", "/v1/studies/mail/expire"])
def test_a_body_without_end_is_refused_and_not_kept(locked: Locked, path: str) -> None:
    before, sent = resident_bytes(), 0
    with socket.create_connection(("127.0.0.1", locked.running.port), 20) as client:
        cookie = f"Cookie: {COOKIE}={locked.key}\r\nSec-Fetch-Site: same-origin\r\n"
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{cookie}Content-Length: {10**9}\r\n\r\n"
        client.sendall(head.encode())
        client.settimeout(2.0)
        part = b"x" * 2**18
        while sent < 2**20 + 2**18:
            sent += client.send(part)
        status = client.recv(100)
        with suppress(OSError):  # the connection is ended
            while sent < 200 * 2**20:
                sent += client.send(part)
    assert status[9:12] == (b"401" if path == "/v1/studies/mail/expire" else b"413"), status
    assert sent < 60 * 2**20
    assert resident_bytes() - before < 30 * 2**20


def test_the_description_of_the_interface_is_encoded_once(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    first = locked.running.send("GET", "/openapi.json")[1]

    def encoded_again(*_: Any) -> bytes:
        raise AssertionError("for each request")

    monkeypatch.setattr(msgspec.json, "encode", encoded_again)
    assert locked.running.send("GET", "/openapi.json") == (200, first)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/openapi.json"), ("POST", "/login"), ("GET", "/v1/studies"), ("GET", "/mail"), ("GET", "/problems")],
)
def test_an_address_that_asks_too_much_without_a_key_is_refused_and_keys_are_not(
    locked: Locked, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    running = locked.running
    running.service.anonymous_rates = RateLimit(per_second=0.001, burst=3)
    monkeypatch.setattr(service_app, "REFUSAL_DELAY", 0.3)
    found = [running.fetch(method, path)[0] for _ in range(3)]
    assert 429 not in found
    began = time.monotonic()
    status, headers, text = running.fetch(method, path)
    assert (status, headers["retry-after"], "/problems/too-many-requests" in text) == (429, "1", True)
    assert time.monotonic() - began > 0.29, "it waits, so that a connection sends no more than a few a second"
    assert running.send("GET", "/v1/studies", key=locked.key)[0] == 200
    assert running.fetch("GET", "/mail", Cookie=f"{COOKIE}={locked.key}")[0] == 200
    assert [running.send("GET", health)[0] for health in ("/livez", "/readyz")] == [200, 200]


def test_a_bucket_fills_again_and_addresses_do_not_share_one_nor_add_up() -> None:
    rates = RateLimit(per_second=2, burst=3)
    assert [rates.allows("a", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert rates.allows("b", 0.0)
    assert [rates.allows("a", 1.0) for _ in range(3)] == [True, True, False]
    assert [rates.allows("a", 100.0) for _ in range(4)] == [True, True, True, False]
    for k in range(3 * RateLimit.MAX_ADDRESSES):
        rates.allows(str(k), 101.0)
    assert len(rates._missing) == RateLimit.MAX_ADDRESSES


def is_ended(client: socket.socket) -> bool:
    """Whether the other side ends a connection."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("proxy", "proxy"),
    ],
)
def test_addresses_that_one_client_has_are_counted_together(host: str, counted: str) -> None:
    assert client_address(Request({"type": "http", "client": (host, 1)})) == counted


def test_an_address_has_so_many_connections_and_no_more(locked: Locked) -> None:
    running = locked.running
    state: Any = running.server.server_state
    assert state.max_by_address >= 100
    state.max_by_address = 5
    clients = [socket.create_connection(("127.0.0.1", running.port), 20) for _ in range(5)]
    time.sleep(0.3)
    with socket.create_connection(("127.0.0.1", running.port), 5) as further:
        assert is_ended(further)
    clients.pop().close()
    time.sleep(0.3)
    assert running.send("GET", "/livez")[0] == 200
    for client in clients:
        client.close()
    until = time.monotonic() + 5
    while state.by_address:
        assert time.monotonic() < until, "closed connections are not counted"
        time.sleep(0.05)


def test_many_who_ask_at_once_for_readiness_share_one_write(locked: Locked) -> None:
    writer = locked.running.service.context.writers["mail"]
    before = writer.commits
    threads = [
        threading.Thread(target=lambda: [locked.running.send("GET", "/readyz") for _ in range(10)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= writer.commits - before <= 5
