"""The service under what goes wrong: nonsense, failing commits, full queues, a process killed again and again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import StorageError

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from causalbandits.service.app import Service
from causalbandits.service.group_commit import BusyError, Writer
from causalbandits.service.routes import PAGES, ROUTES
from causalbandits.service.server import build_service

ENV = cb.zoo.email_campaign()
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "service.py"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    where = tmp_path_factory.mktemp("served") / "mail.db"
    with cb.Study.create(where, ENV.problem, "c-ts(prior=beta)", seed=1) as study:
        decision = study.ask(key="a")
        study.tell(decision.id, reward=1, observed=dict(ENV.pull(decision.action, rng=0).parents))
    made = build_service([where])
    yield made
    made.close()


async def answered(
    app: Callable[..., Awaitable[None]],
    method: str,
    path: str,
    query: bytes,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> tuple[int, bytes]:
    """What an ASGI application answers, without a socket."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode("utf-8", "replace"), "query_string": query, "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), *headers], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


NAMES = st.sampled_from(["key", "context", "eligible", "items", "id", "reward", "observed", "subject", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=12) | st.just("short"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
BODIES = st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass"))
OPEN = [(route.method, route.path) for route in ROUTES] + [
    (method, path) for method, path, *_ in PAGES if not path.endswith("live")
]
TYPES = st.sampled_from([b"application/json", b"application/json; charset=utf-8", b"text/plain", b"\xff"])


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(OPEN),
    st.sampled_from(["GET", "POST", "same", "same", "same"]),
    st.sampled_from(["mail", "mail", "mail", ""]) | st.text(max_size=8),
    st.sampled_from(["0", "a", "99999999999999999999"]) | st.text(max_size=8),
    st.binary(max_size=12) | st.just(b"id=0") | st.just(b"after=1"),
    TYPES,
    BODIES,
)
@example(("POST", "/v1/studies/{study}/outcomes"), "same", "mail", "0", b"", b"application/json", b"[" * 5000)
@example(("POST", "/v1/studies/{study}/decisions"), "same", "mail", "0", b"", b"application/json", b'{"key": "\xb2"}')
@example(("GET", "/{study}/decision"), "same", "mail", "0", b"id=\xff%00", b"", b"")
def test_nothing_that_is_sent_makes_the_service_fail(
    service: Service,
    route: tuple[str, str],
    method: str,
    study: str,
    decision: str,
    query: bytes,
    kind: bytes,
    body: bytes,
) -> None:
    own, path = route
    where = path.replace("{study}", study).replace("{decision}", decision)
    asked = own if method == "same" else method
    status, text = asyncio.run(answered(service, asked, where, query, [(b"content-type", kind)], body))
    assert status < 500, (asked, quote(where), body, text)
    if status >= 400 and where.startswith("/v1"):
        assert json.loads(text)["detail"]


def test_after_all_that_nonsense_the_study_is_as_its_log_says(service: Service) -> None:
    status, text = asyncio.run(answered(service, "POST", "/v1/studies/mail/verify", b"", [], b""))
    assert (status, json.loads(text)["ok"]) == (200, True)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(cb.Study.create(tmp_path / "mail.db", ENV.problem, "c-ts(prior=beta)", seed=1))
    yield made
    made.close()


def together(writer: Writer, *works: Callable[[cb.Study], Any]) -> list[Any]:
    """What some works give that are in one commit: the writer is kept busy until all of them wait."""
    open_now, is_busy = threading.Event(), threading.Event()

    def busy(study: cb.Study) -> None:
        is_busy.set()
        open_now.wait(20)

    async def all_of_them() -> list[Any]:
        first = asyncio.ensure_future(writer.submit(busy))
        await asyncio.to_thread(is_busy.wait, 20)
        rest = [asyncio.ensure_future(writer.submit(work)) for work in works]
        await asyncio.sleep(0.05)
        open_now.set()
        await first
        return await asyncio.gather(*rest, return_exceptions=True)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # older servers make uvloop everybody's
        return runner.run(all_of_them())


def test_a_commit_that_fails_is_nobodys_success_and_the_next_one_works(writer: Writer) -> None:
    def disk_full(study: cb.Study) -> None:
        raise StorageError("the disk is full")

    answers = together(writer, lambda study: study.ask(key="a"), disk_full, lambda study: study.ask(key="b"))
    assert [type(answer) for answer in answers] == [StorageError] * 3
    assert together(writer, lambda study: study.n_decisions) == [0]
    one, two = together(writer, lambda study: study.ask(key="a"), lambda study: study.ask(key="b"))
    assert (one.number, two.number) == (0, 1)
    assert together(writer, lambda study: bool(study.verify())) == [True]


def test_one_work_that_fails_for_reasons_of_its_own_does_not_fail_its_neighbours(writer: Writer) -> None:
    def wrong(study: cb.Study) -> None:
        study.ask(key="never")
        raise RuntimeError("a mistake of ours")

    one, failed, two = together(writer, lambda study: study.ask(key="a"), wrong, lambda study: study.ask(key="b"))
    assert (one.number, two.number) == (0, 1)
    assert isinstance(failed, RuntimeError)
    assert together(writer, lambda study: (study.n_decisions, bool(study.verify()))) == [(2, True)]
    assert writer.is_alive


def test_a_commit_wakes_the_loop_once_however_many_wait_for_it(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[Any] = []
    of_the_loop = asyncio.BaseEventLoop.call_soon_threadsafe

    def counted(loop: Any, call: Any, *given: Any, **named: Any) -> Any:
        if threading.current_thread().name == "study writer":
            woken.append(call)
        return of_the_loop(loop, call, *given, **named)

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", counted)
    answers = together(writer, *[lambda study: study.ask().number] * 20)
    assert sorted(answers) == list(range(20))
    assert len(woken) == writer.commits == 2  # of what kept it busy, and of the twenty


def test_a_full_queue_refuses_and_what_waits_is_done(tmp_path: Path) -> None:
    writer = Writer(cb.Study.create(tmp_path / "mail.db", ENV.problem, "c-ts(prior=beta)", seed=1), limit=3)
    answers = together(writer, *[lambda study: study.ask().number] * 8)
    refused = [answer for answer in answers if isinstance(answer, BusyError)]
    done = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(refused) >= 4
    assert sorted(done) == list(range(len(done)))
    writer.close()


def test_who_does_not_wait_any_more_does_not_stop_the_writer(writer: Writer) -> None:
    loop, busy = asyncio.new_event_loop(), threading.Event()

    async def leave() -> None:
        waiting = asyncio.ensure_future(writer.submit(lambda study: busy.wait(20)))
        await asyncio.sleep(0.05)
        assert not waiting.done()

    loop.run_until_complete(leave())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.close()
    busy.set()
    assert together(writer, lambda study: study.ask().number) == [0]
    assert writer.is_alive


def test_a_service_that_is_killed_again_and_again_loses_and_doubles_nothing_that_it_acknowledged() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "kills", "--share", "0.025"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["kills"]
    assert found["kills"] == 25
    assert found["acknowledged"] > 25
    assert (found["lost"], found["doubled"], found["changed"], found["verified"]) == (0, 0, 0, True)
