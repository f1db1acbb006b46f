"""A service in a process of its own, that can be killed and started again at once; and load for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import causalbandits as cb

ENV = cb.zoo.email_campaign()


class PartProgress:
    """How far a part of a benchmark has come, from 0 to 1; shown where somebody looks."""

    def __init__(self) -> None:
        self.show: Callable[[float], None] = lambda fraction: None

    def set(self, fraction: float) -> None:
        """The share that is done."""
        self.show(fraction)


progress = PartProgress()


def fork_servers(file: str, port: int) -> None:
    """For each line of input a service, forked from a process that has everything in memory; prints its process id."""
    from causalbandits.service.dashboard.pages import warm_up
    from causalbandits.service.server import serve

    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        if (process := os.fork()) == 0:
            serve([file], port=port)
            os._exit(0)
        print(process, flush=True)


class Servers:
    """Services of one file, one after the other, on one port."""

    def __init__(self, file: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [sys.executable, __file__, str(file), str(self.port)]
        self._forking = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._now: int | None = None

    def start(self) -> None:
        """One more; returns when it answers."""
        assert self._forking.stdin is not None
        assert self._forking.stdout is not None
        self._forking.stdin.write("\n")
        self._forking.stdin.flush()
        self._now = int(self._forking.stdout.readline())
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def used(self) -> float:
        """How many seconds of a processor the service has used; not how many it has waited for one."""
        fields = Path(f"/proc/{self._now}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def process(self) -> int:
        """The id of the service's process."""
        assert self._now is not None
        return self._now

    def terminate(self) -> float:
        """Ask the service to stop; the seconds until it is gone."""
        began, process = time.monotonic(), self.process
        os.kill(process, signal.SIGTERM)
        self._wait_until_gone(process)
        return time.monotonic() - began

    def _wait_until_gone(self, process: int) -> None:
        try:
            while True:  # until its port is free
                os.kill(process, 0)
                time.sleep(0.002)
        except ProcessLookupError:
            self._now = None

    def kill(self) -> None:
        """As a power cut would, for this process."""
        if self._now is None:
            return
        os.kill(self._now, signal.SIGKILL)
        self._wait_until_gone(self._now)

    def end(self) -> None:
        """No more."""
        self.kill()
        assert self._forking.stdin is not None
        self._forking.stdin.close()
        self._forking.wait(20)


@contextmanager
def served(policy: Any = None) -> Iterator[tuple[Path, Servers]]:
    """A new study, served."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mail.db"
        cb.Study.create(file, ENV.problem, policy or cb.policy("c-ts", prior="beta", samples=16), seed=1).close()
        servers = Servers(file)
        try:
            servers.start()
            yield file, servers
        finally:
            servers.end()


def outcome(intervention: Any, rng: np.random.Generator) -> tuple[dict[str, Any], float]:
    """What comes of an intervention."""
    seen = ENV.pull(intervention, rng)
    return dict(seen.parents), seen.reward


Sender = Callable[..., Awaitable[Any]]


async def load(
    port: int | Sequence[int], connections: int, one: Callable[[Sender, int], Awaitable[None]]
) -> tuple[float, list[float]]:
    """What clients do at once, each on a connection of its own to one of the ports: how long all and each took."""
    times: list[float] = []
    ports = [port] if isinstance(port, int) else port

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[number % len(ports)])

        async def send(path: str, body: Any, method: str = "POST", statuses: list[int] | None = None) -> Any:
            where = path if path.startswith("/") else f"/v1/studies/mail/{path}"
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            head = f"{method} {where} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            started = time.perf_counter()
            writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            status, text = await _answer(reader)
            times.append(time.perf_counter() - started)
            if statuses is None:
                assert status < 300, text
            else:
                statuses.append(status)
            return json.loads(text) if statuses is None else None

        await one(send, number)
        writer.close()

    started = time.monotonic()
    await asyncio.gather(*(client(number) for number in range(connections)))
    return time.monotonic() - started, times


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next((int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length")), 0)
    return int(head.split()[1]), await reader.readexactly(length)


def speed(taken: tuple[float, list[float]]) -> dict[str, Any]:
    seconds, times = taken
    middle, last = np.quantile(times, [0.5, 0.99]) * 1000
    found = {"requests": len(times), "requests_a_second": round(len(times) / seconds)}
    return {**found, "median_ms": round(float(middle), 1), "p99_ms": round(float(last), 1)}


if __name__ == "__main__":
    fork_servers(sys.argv[1], int(sys.argv[2]))
