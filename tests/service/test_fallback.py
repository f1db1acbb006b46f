"""A client whose service hangs, refuses, is busy or swallows its answers: time-outs, retries and the fallback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, InterventionError, StorageError, TellError
from causalbandits.service.server import build_service

PROBLEM = cb.zoo.email_campaign().problem
FALLBACK = {"send_time": "morning"}
SEEN = {"subject": "short", "template": "1", "send_time": "morning"}


OK = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "drip": OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 900,
    "drip of a head": OK + b"X-Name: " + b"x" * 900,
    "drip of continuations": b"HTTP/1.1 100 Continue\r\n\r\n" * 40,
    "drip of a chunk's size": OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 900,
}
"""Answers that come byte by byte, and do not end in time."""


class Proxy:
    """A listener before a service: it passes requests on, or fails in the way that `mode` says."""

    def __init__(self, port: int | None = None) -> None:
        self.mode, self.connections, self._port = "pass", 0, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._open.append(client)
                self.connections += 1
                threading.Thread(target=self._serve, args=(client, self.connections), daemon=True).start()

    def _serve(self, client: socket.socket, number: int) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < _length(data):
                    data += client.recv(65536)
                if self.mode == "hang":
                    continue
                if self.mode in DRIPS:
                    for byte in DRIPS[self.mode]:
                        client.sendall(bytes([byte]))
                        time.sleep(0.03)
                if self.mode == "busy" or (self.mode == "busy twice" and number <= 2):
                    client.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
                    break
                answer = self._ask_service(data)
                if self.mode == "swallow":
                    continue
                if number <= 2:
                    head, separator, body = answer.partition(b"\r\n\r\n")
                    if self.mode == "body cut twice":
                        answer = head + separator + body[:5]
                    elif self.mode == "head cut twice":
                        answer = head[:30]
                    elif self.mode == "web page twice":
                        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"
                client.sendall(answer)
                break
        client.close()

    def _ask_service(self, data: bytes) -> bytes:
        assert self._port is not None
        with socket.create_connection(("127.0.0.1", self._port)) as service:
            service.sendall(data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = b""
            while part := service.recv(65536):
                answer += part
            return answer


def _length(data: bytes) -> int:
    for line in data.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    clock = lambda: 1000.0  # noqa: E731
    rules = {"attribution_window": 60.0, "default_reward": 0.0}
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1, clock=clock, **rules).close()
    running = Served(build_service([tmp_path / "mail.db"]))
    before = Proxy(running.port)
    yield before
    before.close()
    running.stop()


@contextmanager
def connected(
    port: int, timeout: float | tuple[float, float] = 0.6, **options: object
) -> Iterator[cb.study.RemoteStudy]:
    with cb.connect(f"http://127.0.0.1:{port}/mail", timeout=timeout, **options) as client:  # type: ignore[arg-type]
        yield client


def seconds(call: Callable[[], object]) -> float:
    start = time.monotonic()
    call()
    return time.monotonic() - start


@pytest.mark.parametrize("mode", ["hang", "busy", *DRIPS, "swallow"])
def test_a_service_that_does_not_answer_in_time_brings_the_fallback(proxy: Proxy, mode: str) -> None:
    proxy.mode = mode
    with connected(proxy.port, fallback=FALLBACK) as client:
        found = []
        assert seconds(lambda: found.append(client.ask(unit="v1"))) < 1.5
        (decision,) = found
        assert (decision.fallback, decision.action, decision.propensity) == (True, FALLBACK, None)
        assert "fallback=True" in repr(decision)
        assert client.unsettled == 1
        with pytest.raises(TellError, match="fallback, which the service does not"):
            client.tell(decision.id, reward=1, observed=SEEN)
    with connected(proxy.port) as plain, pytest.raises(CausalBanditsError):
        plain.ask()


def test_a_service_that_is_not_there_brings_the_fallback(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with connected(port, 0.5, fallback={}) as client:
        assert seconds(lambda: client.ask()) < 1.2
        assert client.ask().action == {}
        with pytest.raises(StorageError, match="cannot be reached"):
            client.ask(3)
        with pytest.raises(StorageError, match="is not eligible in"):
            client.ask(eligible=[{"send_time": "evening"}])
        with pytest.raises(StorageError, match="cannot be reached"):
            client.report()


def test_a_service_that_is_busy_for_a_while_is_asked_again_with_the_same_key(proxy: Proxy) -> None:
    proxy.mode = "busy twice"
    with connected(proxy.port, 5.0, fallback=FALLBACK) as client:
        decision = client.ask()
        assert (decision.fallback, decision.number, proxy.connections) == (False, 0, 3)
        assert client.tell(
            decision.id, reward=1, observed={**SEEN, "send_time": decision.action.get("send_time", "morning")}
        )
        assert client.unsettled == 0


@pytest.mark.parametrize("mode", ["body cut twice", "head cut twice", "web page twice"])
def test_an_answer_that_is_cut_or_no_json_is_asked_for_again(proxy: Proxy, mode: str) -> None:
    """As where a service is killed while it answers: what it decided is the answer to the same question."""
    proxy.mode = mode
    with connected(proxy.port, 5.0) as client:
        decision = client.ask()
        assert (decision.number, proxy.connections) == (0, 3)
        assert client.report()["decisions"]["open"] == 1


def test_a_decision_that_was_made_all_the_same_is_cancelled_when_the_service_is_back(proxy: Proxy) -> None:
    with connected(proxy.port, fallback=FALLBACK) as client:
        told = client.ask()
        proxy.mode = "swallow"
        assert client.ask().fallback
        proxy.mode = "hang"
        assert client.ask(key="mine").fallback
        assert client.unsettled == 2
        assert client.settle() == 2
        proxy.mode = "pass"
        client.tell(told.id, reward=1, observed={**SEEN, "send_time": told.action.get("send_time", "morning")})
        assert client.unsettled == 1  # one for each call that goes through
        assert client.settle() == 0
        statuses = client.report()["decisions"]
        assert (statuses["told"], statuses["cancelled"], statuses["open"]) == (1, 2, 0)
        assert client.status("mine") == "cancelled"
        assert client.expire() == 0  # no default reward for what was not carried out
        assert client.verify()


def test_a_decision_that_the_service_refuses_is_refused_with_a_fallback_too(proxy: Proxy) -> None:
    with connected(proxy.port, 5.0, fallback=FALLBACK) as client:
        client.set_mode("paused")
        with pytest.raises(CausalBanditsError, match="paused"):
            client.ask()
        assert client.unsettled == 0


def test_what_cannot_be_settled_is_said_and_left(proxy: Proxy) -> None:
    with connected(proxy.port, fallback=FALLBACK) as client:
        proxy.mode = "hang"
        client.ask()
        proxy.mode = "pass"
        client.set_mode("paused")
        with pytest.warns(cb.CausalBanditsWarning, match="could not cancel a decision .*paused"):
            assert client.settle() == 0


def test_the_time_to_connect_has_a_limit_of_its_own(proxy: Proxy) -> None:
    with connected(proxy.port, (0.2, 5.0)) as client:
        assert client.ask().number == 0
        proxy.mode = "busy"
        start = time.monotonic()
        with pytest.raises(CausalBanditsError):
            client.ask()
        assert 0.3 < time.monotonic() - start < 5.5


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "1", None, True, (1,), (1, 0), (1, 2, 3)])
def test_a_timeout_that_is_none_is_refused(timeout: object) -> None:
    with pytest.raises(CausalBanditsError, match="the number of seconds"):
        cb.connect("http://127.0.0.1:1/mail", timeout=timeout)  # type: ignore[arg-type]


def test_a_fallback_that_is_no_action_is_refused() -> None:
    with pytest.raises(InterventionError, match="fallback must be an action,"):
        cb.connect("http://127.0.0.1:1/mail", fallback="morning")  # type: ignore[arg-type]
