"""Clients that send half a request, or drop by drop, or close one side: nobody else waits for them."""

from __future__ import annotations

import http.client
import logging
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.service import server
from causalbandits.service.server import build_service, h11_protocol, http_protocol

ASKED = b"POST /v1/studies/mail/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
WHOLE, HALF = ASKED + b"Content-Length: 2\r\n\r\n{}", ASKED + b"Content-Length: 20\r\n\r\n{"


@pytest.fixture(params=[http_protocol(), h11_protocol()], ids=["as installed", "pure Python"])
def serve(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Served]]:
    cb.Study.create(tmp_path / "mail.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1).close()
    made: list[Served] = []

    def start(**patience: float) -> Served:
        made.append(Served(build_service([tmp_path / "mail.db"]), request.param, **patience))
        return made[-1]

    yield start
    for running in made:
        running.stop()


def sender(running: Served, *sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", running.port), 20)
    for one in sent:
        client.sendall(one)
    return client


def heard(client: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    try:
        while part := client.recv(2**16):
            found += part
    except ConnectionResetError:
        pass  # which is how the slow are cut off
    client.close()
    return found


def test_the_service_ends_though_somebody_has_sent_half_a_request(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SHUTDOWN_GRACE_PERIOD", 1.0)
    running = serve()
    half, rest = sender(running, HALF), sender(running, HALF)
    silent, unread = sender(running), sender(running, b"GET /mail/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    time.sleep(0.3)
    running.service.context.closing.set()
    running.server.should_exit = True
    time.sleep(0.3)
    rest.sendall(b'"key": "a"       }'.ljust(19))
    assert heard(rest).startswith(b"HTTP/1.1 201")  # it came in time
    running.thread.join(10)
    assert not running.thread.is_alive()
    assert heard(half) == b""
    silent.close()
    unread.close()


def test_what_arrives_too_slowly_is_cut_off_and_what_goes_on_is_not(serve: Callable[..., Served]) -> None:
    running = serve(request_timeout=1.5)
    slow = [sender(running, *begun) for begun in ((b"GET /li",), (HALF,), (WHOLE, WHOLE, HALF), (ASKED,))]
    steady, dripping = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20), sender(running, HALF)
    steady.connect()
    steady.auto_open = 0  # the one connection must do
    began, is_cut = time.monotonic(), False
    while time.monotonic() - began < 4:
        steady.request("POST", "/v1/studies/mail/decisions", b"{}", {"Content-Type": "application/json"})
        answer = steady.getresponse()
        assert (answer.status, bool(answer.read())) == (201, True)
        try:
            dripping.sendall(b" ")
        except (ConnectionResetError, BrokenPipeError):
            is_cut = True
            break
        time.sleep(0.2)
    assert is_cut
    assert time.monotonic() - began > 1.4
    assert [heard(client).count(b"HTTP/1.1 201") for client in slow] == [0, 0, 2, 0]
    steady.close()
    dripping.close()


def test_what_takes_the_service_long_is_not_cut_off(serve: Callable[..., Served]) -> None:
    running = serve(request_timeout=0.3)
    live = sender(running, b"GET /mail/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    time.sleep(1.8)
    live.shutdown(socket.SHUT_WR)
    running.service.context.closing.set()
    assert heard(live).count(b"still here") >= 1


@pytest.mark.parametrize("wait", [0.0, 0.1])
def test_who_closes_one_side_after_a_request_is_answered(
    serve: Callable[..., Served], wait: float, caplog: pytest.LogCaptureFixture
) -> None:
    running = serve()
    found: list[Any] = []
    with caplog.at_level(logging.WARNING):
        for sent in (WHOLE, HALF, ASKED, b"GET /mail HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"):
            client = sender(running, sent)
            time.sleep(wait)
            client.shutdown(socket.SHUT_WR)
            found.append(heard(client)[9:12])
    assert found == [b"201", b"", b"", b"200"]
    assert not caplog.records


def test_nonsense_after_an_answer_ends_the_connection_without_a_complaint(
    serve: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    running = serve()
    with caplog.at_level(logging.ERROR):
        client = sender(running, b"POST /no/where HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        time.sleep(0.3)
        client.sendall(b"nonsense\r\n")
        assert heard(client).startswith(b"HTTP/1.1 404")
    assert not caplog.records
    assert running.send("GET", "/livez")[0] == 200


def test_a_client_that_does_not_read_its_responses_is_cut_off(serve: Callable[..., Served]) -> None:
    running = serve(request_timeout=1.0)
    with socket.socket() as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**12)
        unread.connect(("127.0.0.1", running.port))
        unread.settimeout(0.2)
        until, is_cut = time.monotonic() + 15, False
        while not is_cut and time.monotonic() < until:
            try:
                unread.send(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 8)
            except OSError as error:
                is_cut = not isinstance(error, TimeoutError)
            time.sleep(0.05)
        assert is_cut


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_requests_sent_ahead_by_a_client_that_is_gone_leave_no_traceback(
    serve: Callable[..., Served], caplog: pytest.LogCaptureFixture, is_cut_off: bool
) -> None:
    running = serve(request_timeout=1.0 if is_cut_off else 30.0)
    with caplog.at_level(logging.WARNING), socket.socket() as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**11)
        unread.connect(("127.0.0.1", running.port))
        unread.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 60)
        time.sleep(0.5)
        if not is_cut_off:
            unread.close()
        until = time.monotonic() + 15
        while running.server.server_state.connections and time.monotonic() < until:
            time.sleep(0.05)
        assert running.send("GET", "/livez")[0] == 200
    assert [record.getMessage() for record in caplog.records] == []


def test_a_slow_reader_that_goes_on_is_not_cut_off(serve: Callable[..., Served]) -> None:
    running = serve(request_timeout=3.0)
    reader = sender(running, b"GET /mail/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    time.sleep(5)
    assert b"still here" in reader.recv(2**16)
    reader.shutdown(socket.SHUT_WR)
    running.service.context.closing.set()
    reader.close()


def test_requests_sent_ahead_are_bounded(serve: Callable[..., Served], request: pytest.FixtureRequest) -> None:
    running = serve()
    few = sender(running, WHOLE * 30)
    few.shutdown(socket.SHUT_WR)
    assert heard(few).count(b"HTTP/1.1 201") >= 1
    many = sender(running, b"GET /mail/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", WHOLE * 2000)
    time.sleep(1)
    # Either the connection is ended, or the requests wait in the sender.
    (connection,) = running.server.server_state.connections or [None]
    assert connection is None or len(getattr(connection, "pipeline", ())) <= server.MAX_PIPELINED
    running.service.context.closing.set()
    many.close()
    assert running.send("GET", "/livez")[0] == 200


def test_the_service_ends_though_somebody_does_not_read_a_response(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SHUTDOWN_GRACE_PERIOD", 0.5)
    running = serve()
    running.service.context = replace(running.service.context, openapi=b"x" * 10**7)
    unread = sender(running, b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    time.sleep(0.5)
    (connection,) = running.server.server_state.connections
    assert connection.transport.get_write_buffer_size()
    running.service.context.closing.set()
    running.server.should_exit = True
    running.thread.join(10)
    assert not running.thread.is_alive()
    unread.close()
