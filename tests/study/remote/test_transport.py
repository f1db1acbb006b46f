"""How a client sends again: until its deadline, at pauses that double, and not before the service wants it."""

import http.client

import pytest

import causalbandits as cb
from causalbandits.errors import StorageError
from causalbandits.study.remote import transport
from causalbandits.study.remote.transport import Response, Transport, Unavailable


class Clock:
    """Time that passes only where the client sleeps."""

    def __init__(self) -> None:
        self.now, self.pauses = 1000.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(transport, "time", clock)
    return clock


def client(monkeypatch: pytest.MonkeyPatch, exchange, timeout: float = 30.0) -> Transport:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(Transport, "_exchange", lambda self, *request: exchange())
    return Transport("http://127.0.0.1:1/mail", timeout=timeout)


def refuse() -> Response:
    raise ConnectionRefusedError


def test_a_service_that_is_restarted_for_twenty_seconds_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def exchange() -> Response:
        return refuse() if clock.now < 1020.0 else Response(200, {"id": 1}, None)

    assert client(monkeypatch, exchange).send("POST", "/decisions", {}) == {"id": 1}
    assert len(clock.pauses) < 25  # and not asked all the time meanwhile


def test_pauses_double_up_to_a_limit_and_no_try_is_after_the_deadline(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    assert isinstance(client(monkeypatch, refuse, 60.0).send_if_available("GET", ""), Unavailable)
    limits = [0.1, 0.2, 0.4, 0.8, 1.6, *[2.0] * 99]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(clock.pauses, limits, strict=False))
    assert len({pause / limit for pause, limit in zip(clock.pauses, limits, strict=False)}) > 5  # random
    assert 1000.0 + 60.0 - 2.0 <= clock.now < 1000.0 + 60.0
    with pytest.raises(StorageError, match="cannot be reached"):
        client(monkeypatch, refuse, 1.0).send("GET", "")


@pytest.mark.parametrize("status", [429, 503])
def test_the_client_waits_as_long_as_the_service_says(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, status: int
) -> None:
    answers = [Response(status, {}, 7.0), Response(status, {}, 2.0), Response(200, {"id": 1}, None)]
    assert client(monkeypatch, lambda: answers.pop(0)).send("POST", "/decisions", {}) == {"id": 1}
    assert 7.0 <= clock.pauses[0] <= 7.1
    assert 2.0 <= clock.pauses[1] <= 2.2


def test_a_client_does_not_wait_for_a_time_after_its_deadline(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    answers = [Response(503, {"type": "/problems/storage-unavailable", "detail": "The disk is full."}, 120.0)]
    answer = client(monkeypatch, lambda: answers.pop(0)).send_if_available("GET", "")
    assert isinstance(answer, Unavailable)
    assert "The disk is full" in str(answer.error)
    assert clock.pauses == []


def test_what_is_refused_is_not_sent_again(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    answers = [Response(422, {"type": "/problems/invalid-outcome", "detail": "No."}, 1.0)]
    with pytest.raises(cb.errors.TellError, match="No"):
        client(monkeypatch, lambda: answers.pop(0)).send("POST", "/outcomes", {})


def test_the_header_is_read_from_an_answer(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    class Answer:
        status, length = 503, 0

        def __init__(self) -> None:
            self.headers = http.client.HTTPMessage()
            self.headers["Retry-After"] = "Thu, 01 Jan 1970 00:17:00 GMT"  # 1020

        def read1(self, size: int) -> bytes:
            return b""

        def read(self) -> bytes:
            return b""

    class Socket:
        def settimeout(self, seconds: float) -> None:
            assert seconds > 0

    class Connection:
        timeout, sock = 0.0, Socket()

        def request(self, *request: object) -> None: ...
        def getresponse(self) -> Answer:
            return Answer()

    sender = Transport("http://127.0.0.1:1/mail", timeout=10.0)
    sender._local.connection = Connection()
    assert sender._exchange("GET", "/", None, 1010.0).retry_after == 20.0
