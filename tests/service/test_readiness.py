"""Liveness and readiness: the process runs; it can decide and write."""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_drain import Process
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.service import http as service_http
from causalbandits.service import queries
from causalbandits.service.server import build_service
from causalbandits.study.fold import Fold

PROBLEM = cb.zoo.email_campaign().problem


@pytest.fixture(autouse=True)
def every_request_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_http, "READINESS_SECONDS", 0.0)


def test_a_study_that_can_be_read_and_not_written_is_not_ready_and_the_process_is_alive(tmp_path: Path) -> None:
    for name in ("mail", "shop"):
        cb.Study.create(tmp_path / f"{name}.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service(sorted(tmp_path.glob("*.db"))))
    writer = running.service.context.writers["shop"]
    try:
        assert running.send("GET", "/readyz") == (200, {"status": "ready"})
        asyncio.run(writer.submit(lambda study: study._session.store.query("PRAGMA query_only=ON")))
        assert running.send("GET", "/v1/studies/shop/report")[0] == 200
        status, headers, text = running.fetch("GET", "/readyz")
        assert (status, headers["retry-after"]) == (503, "1")
        assert "/problems/not-ready" in text
        assert "cannot be written: shop." in text
        assert running.send("GET", "/livez") == (200, {"status": "ok"})
    finally:
        running.stop()


def test_liveness_does_not_wait_for_a_database_that_is_held_and_readiness_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    monkeypatch.setattr(queries, "READINESS_TIMEOUT", 0.3)
    running = Served(build_service([tmp_path / "mail.db"]))
    other = sqlite3.connect(tmp_path / "mail.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        assert running.send("GET", "/readyz")[0] == 503
        assert running.send("GET", "/livez")[0] == 200
        other.execute("ROLLBACK")
        monkeypatch.setattr(queries, "READINESS_TIMEOUT", 20)
        assert running.send("GET", "/readyz")[0] == 200
    finally:
        other.close()
        running.stop()


def test_the_probe_changes_nothing_that_is_logged(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([tmp_path / "mail.db"]))

    def version(study: cb.Study) -> Any:
        return study.version, study.state_hash(), bool(study.verify())

    try:
        reader = running.service.context.writers["mail"].reader
        running.send("POST", "/v1/studies/mail/decisions", {})
        before = asyncio.run(reader.read(version))
        assert [running.send("GET", "/readyz")[0] for _ in range(3)] == [200] * 3
        assert asyncio.run(reader.read(version)) == before == (1, before[1], True)
    finally:
        running.stop()


FAILING_FSYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int fails(void) { const char *file = getenv("FSYNC_FAILS"); return file && access(file, F_OK) == 0; }
int fsync(int fd) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd);
}
int fdatasync(int fd) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""


def until_status(service: Process, status: int) -> None:
    until = time.monotonic() + 20
    while (found := service.status("/readyz")) != status:
        assert time.monotonic() < until, found
        time.sleep(0.1)


def events(errors: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in errors.splitlines()]


def assert_failures_are_logged(service: Process) -> None:
    code, errors = service.stop()
    assert code == 0
    found = {line["event"]: line for line in events(errors)}
    assert found["storage_error"]["study"] == "mail"
    assert found["storage_error"]["level"] == found["not_ready"]["level"] == "error"
    assert found["storage_error"]["requests"] >= 1
    assert found["storage_error"]["error"]
    assert found["not_ready"]["studies"] == ["mail"]
    assert "ready" in found


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of other processes are Linux's")
def test_with_a_full_disk_a_service_is_not_ready_and_says_why_in_its_log(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    service = Process(tmp_path / "mail.db", "--log-format", "json")
    limits = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
    assert service.status("/readyz") == 200
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (1, limits[1]))  # no file may be written to
    until_status(service, 503)
    assert service.status("/v1/studies/mail/decisions", {}) == 503
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, limits)
    until_status(service, 200)
    assert service.status("/v1/studies/mail/decisions", {}) == 201
    assert_failures_are_logged(service)


def test_a_disk_with_room_for_a_row_and_not_for_a_request_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from causalbandits.study.storage import sqlite

    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        assert running.send("GET", "/readyz")[0] == 200
        free = shutil._ntuple_diskusage(2**30, 2**30 - 50_000, 50_000)  # type: ignore[attr-defined]
        with monkeypatch.context() as full:
            full.setattr(sqlite.shutil, "disk_usage", lambda path: free)
            status, problem = running.send("GET", "/readyz")
            assert (status, "cannot be written: mail." in problem["detail"]) == (503, True)
            assert "its disk has 50000 bytes left" in caplog.text
            full.setattr(sqlite.shutil, "disk_usage", lambda path: (tmp_path / "gone").stat())
            assert running.send("GET", "/readyz")[0] == 503
        assert running.send("GET", "/readyz")[0] == 200
    finally:
        running.stop()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no compiler here")
def test_where_fsync_fails_a_service_is_not_ready_and_says_why_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fsync.c").write_text(FAILING_FSYNC)
    library, flag = tmp_path / "fsync.so", tmp_path / "fails"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "fsync.c", "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("FSYNC_FAILS", str(flag))
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    service = Process(tmp_path / "mail.db", "--log-format", "json")
    assert service.status("/readyz") == 200
    flag.touch()
    until_status(service, 503)
    flag.unlink()
    until_status(service, 200)
    assert service.status("/v1/studies/mail/decisions", {}) == 201
    assert_failures_are_logged(service)


def test_a_bad_file_in_the_directory_is_reported_and_the_good_ones_are_served(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "good.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    content = (tmp_path / "good.db").read_bytes()
    (tmp_path / "empty.db").touch()
    (tmp_path / "half.db").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.db").write_text("no database")
    (tmp_path / "login.db").write_bytes(content)
    sqlite3.connect(tmp_path / "other.db").executescript("CREATE TABLE a (b)").connection.close()
    (tmp_path / "folder.db").mkdir()
    bad = ["empty", "folder", "half", "login", "other", "text"]
    running = Served(build_service([], directory=tmp_path))
    try:
        assert running.send("GET", "/readyz") == (200, {"status": "ready", "unavailable": bad})
        assert running.send("POST", "/v1/studies/good/decisions", {})[0] == 201
        page = running.send("GET", "/")[1]["text"]
        assert all(f"<dt>{name}</dt>" in page for name in bad)
        status, problem = running.send("GET", "/v1/studies/half/report")
        assert (status, problem["type"]) == (503, "/problems/storage-unavailable")
        assert running.send("GET", "/half")[0] == 503
        assert running.send("GET", "/v1/studies/none/report")[0] == 404
    finally:
        running.stop()


def _damage(file: Path, sql: str) -> None:
    connection = sqlite3.connect(file)
    connection.execute(sql)
    connection.commit()
    connection.close()


def test_a_study_that_turns_out_to_be_damaged_keeps_no_other_from_being_served(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "good.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    with cb.Study.open(tmp_path / "good.db") as study:
        study.tell(study.ask(), reward=1, observed={"subject": "short", "template": "1"})
    damages = {
        "deep": f"UPDATE facts SET value = '{'[' * 100_000}' WHERE name = 'problem'",  # no error that JSON documents
        "half": "DROP TABLE early",  # found when its counts are read
        "odd": "UPDATE decisions SET choices = '99,99,99'",  # found when it is to decide
    }
    for name, sql in damages.items():
        shutil.copy(tmp_path / "good.db", tmp_path / f"{name}.db")
        _damage(tmp_path / f"{name}.db", sql)
    running = Served(build_service([], directory=tmp_path))
    try:
        assert running.send("POST", "/v1/studies/good/decisions", {})[0] == 201
        assert running.send("GET", "/readyz") == (200, {"status": "ready", "unavailable": ["deep", "odd"]})
        status, _, page = running.fetch("GET", "/")
        assert status == 200
        assert "half.db: no such table: early" in page
        assert 'href="/good"' in page
        assert "<dt>deep</dt>" in page
        status, _, text = running.fetch("GET", "/metrics")
        assert status == 200
        assert 'causalbandits_study_readable{study="half"} 0' in text
        assert 'causalbandits_study_readable{study="good"} 1' in text
        assert 'causalbandits_decisions_total{study="good"} 2' in text
        assert 'causalbandits_decisions_total{study="half"}' not in text
        assert running.send("GET", "/v1/studies/half/report")[0] == 503
    finally:
        running.stop()


def test_a_bad_file_that_was_named_is_refused_and_the_others_are_closed(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "good.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    (tmp_path / "bad.db").write_text("no database")
    with pytest.raises(CausalBanditsError, match=r"bad\.db"):
        build_service([tmp_path / "good.db", tmp_path / "bad.db"])
    assert not (tmp_path / "good.db-wal").exists()


KILLED = """
import os, sys, causalbandits as cb
from causalbandits.study.storage import SQLite
import causalbandits._files as files

left, execute = int(sys.argv[2]), SQLite.execute

def killed(store, sql, parameters=()):
    global left
    left -= 1
    if left == 0:
        os._exit(9)
    return execute(store, sql, parameters)

SQLite.execute = killed
if left < 0:  # when all is written, and before it has its name
    files.os.link = lambda *names: os._exit(9)
cb.Study.create(sys.argv[1], cb.zoo.email_campaign().problem, seed=1)
"""


@pytest.mark.kills
@pytest.mark.parametrize("statements", [1, 10, 25, -1])
def test_killed_while_a_study_is_created_the_service_starts_and_the_name_is_free(
    tmp_path: Path, statements: int
) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "new.db"), str(statements)]
    assert subprocess.run(command, check=False, timeout=60).returncode == 9
    service = build_service([], directory=tmp_path)
    assert (dict(service.context.writers), service.context.unavailable) == ({}, {})
    service.close()
    cb.Study.create(tmp_path / "new.db", PROBLEM, seed=1).close()


def test_of_two_that_create_a_study_at_once_one_succeeds_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    def create(seed: int) -> bool:
        try:
            cb.Study.create(tmp_path / "new.db", PROBLEM, "c-ts(prior=beta)", seed=seed).close()
        except StateError as error:
            assert "exists already" in str(error)  # noqa: PT017 (of some of them)
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(create, range(8))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["new.db"]
    assert (tmp_path / "new.db").stat().st_mode & 0o077 == 0


def test_a_study_is_ready_once_it_decides_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    may_end, warm_up = threading.Event(), cb.Study.warm_up
    monkeypatch.setattr(queries, "READINESS_TIMEOUT", 0.3)
    monkeypatch.setattr(cb.Study, "warm_up", lambda study: (may_end.wait(60), warm_up(study)))
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        assert running.send("GET", "/readyz")[0] == 503
        assert running.send("GET", "/livez")[0] == 200
        may_end.set()
        monkeypatch.setattr(queries, "READINESS_TIMEOUT", 20)
        assert running.send("GET", "/readyz")[0] == 200
    finally:
        may_end.set()
        running.stop()


@pytest.mark.parametrize("policy", ["c-ts(prior=beta)", "c-ts-guarded(prior=beta)", "c-ucb"])
def test_warming_up_changes_no_decision_and_leaves_nothing_to_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    builds, rebuild = list[Any](), Fold._rebuild
    monkeypatch.setattr(Fold, "_rebuild", lambda fold: (builds.append(fold), rebuild(fold))[1])
    env, decisions = cb.zoo.email_segments(), list[Any]()
    for name in ("cold", "warm"):
        with cb.Study.create(tmp_path / f"{name}.db", env.problem, policy, seed=1) as study:
            study.tell(study.ask(context={"segment": "new"}), reward=1, observed={"subject": "short", "template": "1"})
        with cb.Study.open(tmp_path / f"{name}.db") as study:
            if name == "warm":
                study.warm_up()
                assert study.n_decisions == 1
                builds.clear()
            decisions.append(study.ask(context={"segment": "new"}))
            assert (name == "cold") == bool(builds)
            assert study.verify()
    assert decisions[0].action == decisions[1].action
    assert decisions[0].propensity == decisions[1].propensity


def test_a_study_that_is_paused_or_new_is_warmed_up_too(tmp_path: Path) -> None:
    with cb.Study.create(tmp_path / "mail.db", cb.zoo.email_segments().problem, "c-ucb", seed=1) as study:
        study.warm_up()
        study.set_mode("paused")
        study.warm_up()
        assert study.n_decisions == 0
