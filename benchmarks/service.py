"""How the study and its service stand up to kills, load and nonsense. The numbers of docs/how-to/http-service.md.

    python benchmarks/service.py [part ...] [--quick] [--share 0.1] [--write]

Parts, all of them if none is named, with their time on two cores:

    kills        1,000 kills of the service under load                                              3 min
    backends     4,000 rounds in PostgreSQL with its backends killed                                0.5 min
    clients      64 clients with 1,000 questions each                                               0.5 min
    http         60 s of load on 64 connections                                                     1 min
    batches      200,000 outcomes in batches                                                        0.5 min
    events       a million events, folded again, and their page in Chromium                         2 min
    malformed    100,000 malformed requests                                                         1 min
    connections  1, 16, 64 and 256 connections, beside an application that writes a row a request   3 min
    slow_disk    the same where each wait for the disk takes 8 ms longer                            2 min
    memory       the service's memory during a million decisions                                    4 min
    start        a new process on a million events: until it is ready, until it has decided         4 min
    processes    1, 2 and 4 processes on one PostgreSQL: writes and reads                           2 min
    stalls       questions, pages, metrics and SIGTERM while 300,000 events are verified            1 min

`--share` is of the full size; `--quick` is a hundredth, some seconds a part, to see whether it runs. Shows a bar,
prints JSON; `--write` keeps it in service.json, with what waiting for the disk takes here: `python docs/tables.py` then
writes it into the page. A part for which something is not installed says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import causalbandits as cb
from causalbandits.errors import StorageError
from service_load import LOAD_PARTS
from serving import ENV, Sender, Servers, load, outcome, progress, served, speed

KEPT = Path(__file__).with_name("service.json")
sys.path.append(str(Path(__file__).parent.parent / "tests"))  # for the browser and the server that tests use


def kills(share: float) -> dict[str, Any]:
    """Kill the service under load; every outcome is sent twice, and whatever gets no answer is sent again."""
    wanted, chance, told = round(1000 * share), random.Random(0), {}
    stop, asked_again = threading.Event(), []

    def client(number: int, address: str) -> None:
        rng, k = np.random.default_rng(number), 0
        with cb.connect(address) as study:
            while not stop.is_set():
                key, k = f"{number}-{k}", k + 1
                decision = _until_answered(study.ask, key=key)
                parents, reward = outcome(decision.action, rng)
                statuses = {_until_answered(study.tell, key, reward=reward, observed=parents).status for _ in range(2)}
                assert statuses <= {"applied", "duplicate"}
                told[key] = decision.id, reward
                asked_again.append(_until_answered(study.ask, key=key) != decision)

    with served() as (file, servers):
        address = f"http://127.0.0.1:{servers.port}/mail"
        clients = [threading.Thread(target=client, args=(number, address), daemon=True) for number in range(8)]
        for one in clients:
            one.start()
        for k in range(wanted):
            progress.set(k / wanted)
            before, until = len(told), time.monotonic() + chance.random() * 0.1
            while len(told) == before or time.monotonic() < until:
                assert all(one.is_alive() for one in clients), "A client has given up."
                time.sleep(0.002)
            servers.kill()
            servers.start()
        stop.set()
        for one in clients:
            one.join()
        servers.kill()
        return {"kills": wanted, "different_answers": sum(asked_again), **_compared(file, told)}


def _until_answered(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """A client gives up after six tries; killed every tenth of a second, the service may need more."""
    while True:
        try:
            return call(*given, **named)
        except StorageError:
            continue


def _compared(file: Path, told: dict[str, tuple[int | str, float]]) -> dict[str, Any]:
    """What was acknowledged against what is in the file."""
    with cb.Study.open(file) as study:
        kept = {row.key: row for row in study._log.decisions("reward IS NOT NULL")}
        return {
            "acknowledged": len(told),
            "lost": sum(key not in kept for key in told),
            "doubled": study.n_outcomes - len(kept),
            "changed": sum(
                (kept[key].id, kept[key].reward) != (id, round(reward * 2**40))
                for key, (id, reward) in told.items()
                if key in kept
            ),
            "verified": bool(study.verify()),
        }


def clients(share: float) -> dict[str, Any]:
    """64 clients ask, one question in ten again: do answers differ, and does what was done fit the propensities?"""
    each, different = max(10, round(1000 * share)), []

    async def one(send: Sender, number: int) -> None:
        rng = np.random.default_rng(number)
        for k in range(each):
            progress.set(k / each)
            body = {"key": f"{number}-{k}"}
            answer = await send("decisions", body)
            if k % 10 == 0:
                different.append(await send("decisions", body) != answer)
            parents, reward = outcome(answer["action"], rng)
            await send("outcomes", {"items": [{"id": body["key"], "observed": parents, "reward": reward}]})

    with served() as (file, servers):
        times = asyncio.run(load(servers.port, 64, one))
        servers.kill()
        with cb.Study.open(file) as study:
            found = {"questions": 64 * each, "asked_again": len(different), "different_answers": sum(different)}
            return {**found, **speed(times), "largest_score": _allocation(study), "verified": bool(study.verify())}


def _allocation(study: cb.Study) -> float:
    """Of any action: how often it was chosen less how often it should have been, in standard errors."""
    more: dict[Any, float] = {}
    spread: dict[Any, float] = {}
    for row in study._log.decisions():
        for action, part in row.choice.support or ():
            more[action] = more.get(action, 0.0) + (action == row.choice.action) - part
            spread[action] = spread.get(action, 0.0) + part * (1 - part)
    return round(max(abs(more[one]) / spread[one] ** 0.5 for one in more if spread[one] > 5), 2)


def http(share: float) -> dict[str, Any]:
    """Questions and outcomes in turn, on 64 connections, for a minute."""
    seconds, warm = max(3.0, 60 * share), True

    async def one(send: Sender, number: int) -> None:
        rng, until = np.random.default_rng(number), time.monotonic() + (1.0 if warm else seconds)
        while time.monotonic() < until:
            progress.set(1 - (until - time.monotonic()) / seconds)
            answer = await send("decisions", {})
            parents, reward = outcome(answer["action"], rng)
            await send("outcomes", {"items": [{"id": answer["id"], "observed": parents, "reward": reward}]})

    with served() as (_, servers):
        asyncio.run(load(servers.port, 64, one))
        before, warm = servers.used(), False
        found = speed(asyncio.run(load(servers.port, 64, one)))
        own = (servers.used() - before) / found["requests"]
        return {"connections": 64, **found, "cpu_us_a_request": round(own * 1e6)}


def batches(share: float) -> dict[str, Any]:
    """Outcomes by the thousand, on 4 connections."""
    many = max(8, round(200 * share)) * 1000
    with served() as (file, servers):
        rng = np.random.default_rng(0)
        with cb.Study.open(file) as study, study.together():
            asked = [study.ask() for _ in range(many)]
        told = [dict(zip(("observed", "reward"), outcome(d.action, rng), strict=True), id=d.id) for d in asked]
        parts = [told[start : start + 1000] for start in range(0, many, 1000)]

        async def one(send: Sender, number: int) -> None:
            for k, part in enumerate(parts[number::4]):
                progress.set(4 * k / len(parts))
                answer = await send("outcomes", {"items": part})
                assert {item["status"] for item in answer["items"]} == {"applied"}

        started, before = time.monotonic(), servers.used()
        asyncio.run(load(servers.port, 4, one))
        fast, own = many / (time.monotonic() - started), (servers.used() - before) / many
        return {"outcomes": many, "outcomes_a_second": round(fast), "cpu_us_an_outcome": round(own * 1e6)}


def events(share: float) -> dict[str, Any]:
    """A study with a million events: opening it, folding it again, and its page."""
    many = round(1_000_000 * share)
    with tempfile.TemporaryDirectory() as folder:
        file, rng = Path(folder) / "mail.db", np.random.default_rng(0)
        with cb.Study.create(file, ENV.problem, "uniform", seed=1) as study:
            for start in range(0, many, 5000):
                with study.together():
                    for decision in study.ask(min(5000, many - start)):
                        parents, reward = outcome(decision.action, rng)
                        study.tell(decision, reward=reward, observed=parents)
                progress.set(0.7 * start / many)
        return looked_at(file)


def looked_at(file: Path) -> dict[str, Any]:
    """What it takes to open a study, to fold it again and to show it."""
    opened, study = _timed(lambda: cb.Study.open(file))
    with study:
        before = time.process_time()
        folded, found = _timed(study.verify)
        own = round(time.process_time() - before, 3)
    seconds = {"open_s": opened, "fold_again_s": folded, "fold_again_cpu_s": own}
    size = {"verified": bool(found), "file_bytes": file.stat().st_size}
    with tempfile.TemporaryDirectory() as profile:
        return {"events": found.events, **seconds, **painted(file, Path(profile)), **size}


def painted(file: Path, profile: Path) -> dict[str, Any]:
    """A study's page in a browser that has just started, from a service that has: when something is seen first."""
    from chromium import FOUND, Chromium

    if FOUND is None:
        return {"first_paint_ms": "there is no Chromium here"}
    servers, browser = Servers(file), Chromium(profile)
    try:
        servers.start()
        before = servers.used()
        browser.visit(f"http://127.0.0.1:{servers.port}/{file.stem}")
        browser.until("performance.getEntriesByName('first-contentful-paint').length")
        first = browser.value("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        fetched = "['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind))"
        bytes_ = browser.value(f"{fetched}.reduce((sum, one) => sum + one.decodedBodySize, 0)")
        own = servers.used() - before
        return {"first_paint_ms": round(first), "page_cpu_ms": round(own * 1000), "page_bytes": bytes_}
    finally:
        browser.close()
        servers.end()


def backends(share: float) -> dict[str, Any]:
    """Four processes use a study in PostgreSQL, and its backends are killed, one for each round of a process."""
    from postgresql import PROGRAMS, running, used_while_killed

    if not PROGRAMS:
        return {"killed": "PostgreSQL is not installed"}
    rounds = max(10, round(1000 * share))
    with running() as server:
        address = f"{server}&study=mail"
        with cb.Study.create(address, ENV.problem, "c-ts(prior=beta)", seed=1) as study:
            killed, told = used_while_killed(address, server, processes=4, rounds=rounds, kills=rounds)
            kept = {row.number: row.reward for row in study._log.decisions("reward IS NOT NULL")}
            return {
                "killed": killed,
                "acknowledged": len(told),
                "lost": sum(kept.get(number) != reward * 2**40 for number, reward in told.items()),
                "doubled": study.n_outcomes - len(kept),
                "verified": bool(study.verify()),
            }


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = work()
    return round(time.perf_counter() - started, 3), found


def malformed(share: float) -> dict[str, Any]:
    """Nonsense to every route, on 16 connections: none may be a server error."""
    from causalbandits.service.routes import ROUTES

    each, statuses = max(50, round(100_000 * share / 16)), []
    routes = [(route.method, route.path) for route in ROUTES]

    async def one(send: Sender, number: int) -> None:
        chance = random.Random(number)
        for k in range(each):
            progress.set(k / each)
            method, path = chance.choice(routes)
            study, some = chance.choice(["mail", "mail", "x"]), chance.choice(["0", "a", "%00"])
            where = path.format(study=study, decision=some, event=some, version=chance.choice(["v1.0", "v1.1", "x"]))
            await send(where, _nonsense(chance), method=method, statuses=statuses)

    with served() as (file, servers):
        asyncio.run(load(servers.port, 16, one))
        servers.kill()
        with cb.Study.open(file) as study:
            failed = sum(status >= 500 for status in statuses)
            return {"requests": len(statuses), "server_errors": failed, "verified": bool(study.verify())}


def _nonsense(chance: random.Random) -> bytes:
    """JSON of the right names with wrong values, sometimes with bytes changed."""
    names = ("key", "context", "eligible", "items", "id", "reward", "observed", "subject", "é")

    def value(depth: int) -> Any:
        kinds = [None, True, -1, 2**70, 1e308, "", "short", "\x00", "x" * 300, chance.random(), 0, 1]
        if depth > 3 or chance.random() < 0.4:
            return chance.choice(kinds)
        if chance.random() < 0.5:
            return [value(depth + 1) for _ in range(chance.randrange(4))]
        return {chance.choice(names): value(depth + 1) for _ in range(chance.randrange(5))}

    content = bytearray(json.dumps(value(0)).encode())
    for _ in range(chance.choice([0, 0, 1, 3])):
        if content:
            content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def fsync_ms() -> float:
    """What one wait for the disk takes here, by the median of 50."""
    times = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(50):
            started = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    return round(statistics.median(times) * 1000, 2)


PARTS = {part.__name__: part for part in (kills, backends, clients, http, batches, events, malformed, *LOAD_PARTS)}


@contextmanager
def shown_progress(name: str) -> Iterator[None]:
    """A bar on stderr while a part runs."""
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        progress.show = lambda fraction: bar.update(task, completed=fraction)
        try:
            yield
        finally:
            progress.show = lambda fraction: None


def main() -> None:
    """The parts that were named, or all."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("part", nargs="*", choices=[*PARTS, []], help="all if none is named")
    options.add_argument("--share", type=float, default=1.0, help="of the full size")
    options.add_argument("--quick", action="store_const", const=0.01, dest="share", help="a hundredth of it")
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    found: dict[str, Any] = {}
    for name in given.part or PARTS:
        with shown_progress(name):
            took, result = _timed(lambda name=name: PARTS[name](given.share))
        machine = {"took_s": round(took), "fsync_ms": fsync_ms(), "load": round(os.getloadavg()[0], 1)}
        found[name] = {**result, "share": given.share, **machine}
        print(name, found[name], file=sys.stderr, flush=True)
        if given.write:
            kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
            KEPT.write_text(json.dumps({**kept, name: found[name]}, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
