"""Parts of service.py: load beside a bare application and on a slow disk, memory, start, processes, stalls."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import causalbandits as cb
from serving import ENV, Sender, load, outcome, progress, served, speed

CONNECTIONS = (1, 16, 64, 256)

FSYNC_SECONDS = 0.008

SLOW_FSYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static void wait_for_disk(void) { struct timespec pause = {0, 8000000}; nanosleep(&pause, 0); }
int fsync(int fd) { wait_for_disk(); return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { wait_for_disk(); return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""
"""A disk for which each wait takes 8 ms longer, as one that turns does."""


@contextmanager
def slow_fsync() -> Iterator[bool]:
    """Processes that are started within wait 8 ms longer for the disk; False where there is no compiler."""
    if shutil.which("gcc") is None:
        yield False
        return
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "fsync.c", Path(folder) / "fsync.so"
        source.write_text(SLOW_FSYNC, encoding="utf-8")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        os.environ["LD_PRELOAD"] = str(library)
        try:
            yield True
        finally:
            del os.environ["LD_PRELOAD"]


def serve_bare(file: str, port: int) -> None:
    """An application that does no more than it must: each POST is a row of a table, committed before the answer."""
    import uvicorn

    store = sqlite3.connect(file, isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE rows (body TEXT)"):
        store.execute(statement)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        number = store.execute("INSERT INTO rows (body) VALUES (?)", (body.decode(),)).lastrowid
        content = json.dumps({"id": number, "action": {}}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    uvicorn.run(application, port=port, log_level="error", access_log=False, lifespan="off")


class BareServer:
    """The bare application, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [sys.executable, __file__, str(folder / "bare.db"), str(self.port)]
        self._process = subprocess.Popen(command)
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(20)


def _ask_and_tell(seconds: float) -> Any:
    """What a client does for some seconds: it asks, and tells what came of it, in turn."""

    async def one(send: Sender, number: int) -> None:
        rng, until = np.random.default_rng(number), time.monotonic() + seconds
        while time.monotonic() < until:
            answer = await send("decisions", {})
            parents, reward = outcome(answer["action"], rng)
            await send("outcomes", {"items": [{"id": answer["id"], "observed": parents, "reward": reward}]})

    return one


def _rates(port: int, seconds: float, first: float, last: float) -> dict[str, Any]:
    """The speed at each number of connections."""
    found = {}
    for k, connections in enumerate(CONNECTIONS):
        asyncio.run(load(port, connections, _ask_and_tell(min(1.0, seconds))))  # it is warm
        found[str(connections)] = speed(asyncio.run(load(port, connections, _ask_and_tell(seconds))))
        progress.set(first + (last - first) * (k + 1) / len(CONNECTIONS))
    return found


def _beside_a_bare_application(seconds: float) -> dict[str, Any]:
    with served() as (_, servers):
        found = {"service": _rates(servers.port, seconds, 0.0, 0.5)}
    with tempfile.TemporaryDirectory() as folder:
        bare = BareServer(Path(folder))
        try:
            found["bare"] = _rates(bare.port, seconds, 0.5, 1.0)
        finally:
            bare.close()
    return {
        "seconds": seconds,
        **{f"{kind}_{n}": rates["requests_a_second"] for kind, of in found.items() for n, rates in of.items()},
        **{f"{kind}_p99_{n}": rates["p99_ms"] for kind, of in found.items() for n, rates in of.items()},
    }


def connections(share: float) -> dict[str, Any]:
    """1, 16, 64 and 256 connections that ask and tell, and the same requests to a bare application: 20 s each."""
    return _beside_a_bare_application(max(1.0, 20 * share))


def slow_disk(share: float) -> dict[str, Any]:
    """As `connections`, where each wait for the disk takes 8 ms longer: 10 s each."""
    with slow_fsync() as is_slow:
        return _beside_a_bare_application(max(1.0, 10 * share)) if is_slow else {"service": "gcc is not installed"}


def _resident_mib(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def memory(share: float) -> dict[str, Any]:
    """The memory of a service during a million decisions with their outcomes, in batches of a thousand."""
    batches = max(20, round(1000 * share))
    with served() as (file, servers):
        sizes, rng = list[float](), np.random.default_rng(0)

        async def one(send: Sender, number: int) -> None:
            for batch in range(batches):
                if batch % max(1, batches // 20) == 0:
                    sizes.append(round(_resident_mib(servers.process), 1))
                asked = (await send("decisions", {"n": 1000}))["items"]
                told = [
                    dict(zip(("observed", "reward"), outcome(decision["action"], rng), strict=True), id=decision["id"])
                    for decision in asked
                ]
                await send("outcomes", {"items": told})
                progress.set((batch + 1) / batches)

        asyncio.run(load(servers.port, 1, one))
        sizes.append(round(_resident_mib(servers.process), 1))
        servers.kill()
        half = sizes[len(sizes) // 2]
        return {
            "decisions": 1000 * batches,
            "mib_by_twentieth": sizes,
            "mib_first": sizes[0],
            "mib_half": half,
            "mib_last": sizes[-1],
            "file_mib": round(sum(one.stat().st_size for one in file.parent.iterdir()) / 2**20, 1),
        }


STARTED_POLICIES = ("uniform", "c-ts(prior=beta)", "c-ts-guarded(prior=beta)")


def start(share: float) -> dict[str, Any]:
    """Start a service in a new process on a study with a million events: until it is ready, and has decided."""
    many = max(5000, round(1_000_000 * share))
    with tempfile.TemporaryDirectory() as folder:
        file, rng = Path(folder) / "mail.db", np.random.default_rng(0)
        with cb.Study.create(file, ENV.problem, STARTED_POLICIES[0], seed=1) as study:
            for made in range(0, many, 5000):
                with study.together():
                    for decision in study.ask(min(5000, many - made)):
                        parents, reward = outcome(decision.action, rng)
                        study.tell(decision, reward=reward, observed=parents)
                progress.set(0.7 * made / many)
        found: dict[str, Any] = {"events": many}
        for k, policy in enumerate(STARTED_POLICIES):
            with cb.Study.open(file) as study:
                study.use(policy)
            ready, decided, size = _started(file)
            name = policy.split("(")[0].replace("-", "_")
            found |= {f"{name}_ready_s": ready, f"{name}_decided_s": decided, f"{name}_mib": size}
            progress.set(0.7 + 0.3 * (k + 1) / len(STARTED_POLICIES))
        return found


def _started(file: Path) -> tuple[float, float, float]:
    """Seconds from the start of a process until it is ready, and has answered a question, and its memory then."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    began = time.monotonic()
    command = [sys.executable, "-m", "causalbandits.cli", "serve", str(file), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while _status(port, "GET", "/readyz") != 200:
            assert process.poll() is None
            assert time.monotonic() < began + 600
            time.sleep(0.02)
        ready = time.monotonic() - began
        assert _status(port, "POST", f"/v1/studies/{file.stem}/decisions") == 201
        return round(ready, 2), round(time.monotonic() - began, 2), round(_resident_mib(process.pid), 1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _status(port: int, method: str, path: str) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, "{}" if method == "POST" else None, {"Content-Type": "application/json"})
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


PROCESSES = (1, 2, 4)


def processes(share: float) -> dict[str, Any]:
    """1, 2 and 4 service processes on one PostgreSQL, 64 connections: asks and tells, then reads; 15 s each."""
    from postgresql import PROGRAMS, running, serving

    if not PROGRAMS:
        return {"write_1": "PostgreSQL is not installed"}
    seconds, found = max(1.0, 15 * share), dict[str, Any]()
    with running() as server:
        for k, many in enumerate(PROCESSES):
            address = f"{server}&study=mail"
            cb.Study.create(address, ENV.problem, cb.policy("c-ts", prior="beta", samples=16), seed=1).close()
            with serving(address, many) as ports:
                written, wrong = _write_and_count(ports, seconds, address)
                read = speed(asyncio.run(load(ports, 64, _read(seconds))))
            _drop(server, "causalbandits_mail")
            found |= {f"write_{many}": written["requests_a_second"], f"write_p99_{many}": written["p99_ms"]}
            found |= {f"read_{many}": read["requests_a_second"], f"read_p99_{many}": read["p99_ms"]}
            found["wrong"] = found.get("wrong", 0) + wrong
            progress.set((k + 1) / len(PROCESSES))
    return {"seconds": seconds, "cores": os.cpu_count(), **found}


def _write_and_count(ports: Sequence[int], seconds: float, address: str) -> tuple[dict[str, Any], int]:
    """The speed of writing; and by how many the outcomes that count differ from those that were acknowledged."""
    asyncio.run(load(ports, 64, _ask_and_tell(min(1.0, seconds))))
    with cb.Study.open(address) as study:
        before = study.n_outcomes
        taken = asyncio.run(load(ports, 64, _ask_and_tell(seconds)))
        return speed(taken), abs(study.n_outcomes - before - len(taken[1]) // 2)


def _read(seconds: float) -> Any:
    async def one(send: Sender, number: int) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await send("recommendation", {})

    return one


def _drop(server: str, schema: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE')  # type: ignore[call-overload]


def stalls(share: float) -> dict[str, Any]:
    """While a log of 300,000 events is verified: how long questions, pages and metrics take, and SIGTERM."""
    many = max(5000, round(300_000 * share))
    with served(cb.policy("uniform")) as (file, servers):
        rng = np.random.default_rng(0)
        with cb.Study.open(file) as study:
            for made in range(0, many, 5000):
                with study.together():
                    for decision in study.ask(min(5000, many - made)):
                        parents, reward = outcome(decision.action, rng)
                        study.tell(decision, reward=reward, observed=parents)
                progress.set(0.8 * made / many)
        durations: dict[str, list[float]] = {"decisions": [], "page": [], "metrics": []}
        is_over = threading.Event()

        def poll(name: str, method: str, path: str) -> None:
            while not is_over.is_set():
                began = time.perf_counter()
                assert (_status(servers.port, method, path) or 500) < 300
                durations[name].append(time.perf_counter() - began)
                time.sleep(0.05)

        polls = [
            ("decisions", "POST", "/v1/studies/mail/decisions"),
            ("page", "GET", "/mail"),
            ("metrics", "GET", "/metrics"),
        ]
        for _, method, path in polls:  # the service first takes in what this process has written
            assert (_status(servers.port, method, path) or 500) < 300
        threads = [threading.Thread(target=poll, args=one) for one in polls]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        _status(servers.port, "POST", "/v1/studies/mail/verify")
        verified = time.monotonic() - began
        is_over.set()
        for thread in threads:
            thread.join()
        verifying = threading.Thread(target=_status, args=(servers.port, "POST", "/v1/studies/mail/verify"))
        verifying.start()
        time.sleep(min(0.5, verified / 2))
        stopped = servers.terminate()
        verifying.join()
        return {
            "events": many,
            "verify_s": round(verified, 2),
            **{f"{name}_p99_ms": round(float(np.quantile(d, 0.99)) * 1000, 1) for name, d in durations.items()},
            "stop_s": round(stopped, 2),
        }


LOAD_PARTS = (connections, slow_disk, memory, start, processes, stalls)

if __name__ == "__main__":
    serve_bare(sys.argv[1], int(sys.argv[2]))
