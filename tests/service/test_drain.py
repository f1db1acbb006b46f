"""A service that is told to stop: not ready at once, answering for a while, its studies closed at the end."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import causalbandits as cb
from causalbandits.errors import CausalBanditsWarning, StateError
from causalbandits.service.server import serve


class Process:
    """A service in a process of its own."""

    def __init__(self, file: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "causalbandits.cli", "serve", str(file), "--port", str(self.port), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 60
        while self.status("/livez") != 200:
            assert time.monotonic() < until
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.1)

    def status(self, path: str, body: Any = None, **headers: str) -> int | None:
        """The status of a request on a connection of its own; None where nobody listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        content = None if body is None else json.dumps(body)
        own = {} if body is None else {"Content-Type": "application/json"}
        try:
            connection.request("GET" if body is None else "POST", path, content, own | headers)
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def stop(self, signal_number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(signal_number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """The exit code, and what was logged; of slow commits, which a busy machine has, nothing."""
        _, errors = self.process.communicate(timeout=60)
        lines = [line for line in errors.splitlines(keepends=True) if "A commit of study" not in line]
        return self.process.returncode, "".join(lines)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    cb.Study.create(tmp_path / "mail.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1).close()
    yield tmp_path / "mail.db"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mail.db"], "its -wal was written back and removed"
    with cb.Study.open(tmp_path / "mail.db") as study:
        assert study.verify()


def test_while_it_drains_a_service_is_not_ready_and_answers_and_what_began_is_finished(file: Path) -> None:
    service = Process(file, "--drain-seconds", "6")
    assert (service.status("/readyz"), service.status("/v1/studies/mail/decisions", {})) == (200, 201)
    half = socket.create_connection(("127.0.0.1", service.port), 20)
    head = b"POST /v1/studies/mail/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    half.sendall(head + b"Content-Length: 13\r\n\r\n{")
    began = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    while service.status("/readyz") != 503:
        assert time.monotonic() < began + 4, "at once"
    assert service.status("/livez") == 200
    assert service.status("/v1/studies/mail/decisions", {}) == 201, "a new connection is still answered"
    while service.status("/livez") is not None:
        assert time.monotonic() < began + 30
        time.sleep(0.05)
    assert time.monotonic() > began + 5.5
    half.sendall(b'"key": "a" }')
    assert half.recv(100).startswith(b"HTTP/1.1 201"), "a request in progress is finished"
    half.close()
    assert service.wait() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_without_a_wait_it_stops_at_once_with_exit_code_0(file: Path, number: int) -> None:
    service = Process(file)
    assert service.status("/v1/studies/mail/decisions", {}) == 201
    began = time.monotonic()
    assert service.stop(number) == (0, "")
    assert time.monotonic() - began < 20


def test_after_the_stop_the_file_alone_has_everything_while_another_process_keeps_it_open(
    file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copied = tmp_path_factory.mktemp("copy") / "mail.db"
    service = Process(file)
    with cb.Study.open(file):
        for _ in range(20):
            assert service.status("/v1/studies/mail/decisions", {}) == 201
        assert service.stop() == (0, "")
        shutil.copy(file, copied)
    with cb.Study.open(copied) as study:
        assert study.n_decisions == 20
        assert study.verify()


def test_a_file_that_still_needs_its_wal_says_so(tmp_path: Path) -> None:
    study = cb.Study.create(tmp_path / "mail.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=1)
    reader = study.reader()
    with reader._session.store.transaction():
        reader.n_decisions  # noqa: B018 (from here on it sees this state)
        study.ask()
        with pytest.warns(CausalBanditsWarning, match=r"mail.db-wal. Copy both files"):
            study.close()
    reader.close()


def test_a_second_signal_ends_the_wait(file: Path) -> None:
    service = Process(file, "--drain-seconds", "600")
    service.process.send_signal(signal.SIGTERM)
    while service.status("/readyz") != 503:
        time.sleep(0.05)
    assert service.stop() == (0, "")


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), 1e9])
def test_a_wait_without_end_is_refused(file: Path, seconds: float) -> None:
    with pytest.raises(StateError, match="drain_seconds must be from 0 to 3600"):
        serve([file], drain_seconds=seconds)
