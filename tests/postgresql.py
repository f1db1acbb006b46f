"""A PostgreSQL of our own, reached through a socket in its folder, and processes that use a study in it."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
"""Of each version that is installed."""


@contextmanager
def running() -> Iterator[str]:
    """The address of a server that answers, and is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="cbpg", dir="/tmp"))
    own: dict[str, Any] = {}
    if os.geteuid() == 0:  # it refuses to run as root
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        own = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **own}
    programs, data = PROGRAMS[-1].parent, folder / "data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-A", "trust", "-U", "me", "-N", "-E", "UTF8"], check=True, **quiet
    )
    server = subprocess.Popen([programs / "postgres", "-D", data, "-k", folder, "-h", ""], **quiet)
    address = f"postgresql:///postgres?host={folder}&user=me"
    try:
        _wait_for(address)
        yield address
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder)


def _wait_for(address: str) -> None:
    import psycopg

    until = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(address).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


WORKER = """
import sys, numpy as np, causalbandits as cb
from causalbandits.errors import StorageError

def surely(call):
    while True:
        try:
            return call()
        except StorageError:
            pass  # the connection was lost: again, which does no harm

env, study = cb.zoo.email_campaign(), surely(lambda: cb.Study.open(sys.argv[1]))
rng = np.random.default_rng(int(sys.argv[2]))
for k in range(int(sys.argv[3])):
    decision = surely(lambda: study.ask(key=f"{sys.argv[2]}-{k}"))
    seen = env.pull(decision.action, rng)
    for _ in range(2):  # every outcome is sent twice
        surely(lambda: study.tell(decision, reward=seen.reward, observed=seen.parents))
    print(decision.number, int(seen.reward), flush=True)
"""


def used_while_killed(
    address: str, server: str, *, processes: int, rounds: int, kills: int
) -> tuple[int, dict[int, int]]:
    """Processes ask and tell, each outcome twice, while backends are killed: how many were, and the rewards told.

    No more than `kills` of them: on a busy machine they would be killed faster than they can do anything.
    """
    import psycopg

    command, chance, killed = [sys.executable, "-c", WORKER, address], random.Random(0), 0
    workers = [
        subprocess.Popen([*command, str(seed), str(rounds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for seed in range(processes)
    ]
    with psycopg.connect(server, autocommit=True) as killer:
        while any(worker.poll() is None for worker in workers):
            sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'causalbandits'"
            found = [pid for (pid,) in killer.execute(sql)]
            if found and killed < kills:
                killer.execute("SELECT pg_terminate_backend(%s)", (chance.choice(found),))
                killed += 1
            time.sleep(0.02)
    printed = [worker.communicate(timeout=60) for worker in workers]
    assert not any(worker.returncode for worker in workers), printed
    lines = [line.split() for out, _ in printed for line in out.splitlines()]
    return killed, {int(decision): int(reward) for decision, reward in lines}


@contextmanager
def serving(address: str, processes: int) -> Iterator[list[int]]:
    """The ports of service processes on one study, which are ended afterwards."""
    ports = []
    for _ in range(processes):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    command = [sys.executable, "-m", "causalbandits.cli", "serve", address, "--port"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    services = [subprocess.Popen([*command, str(port)], **quiet) for port in ports]
    try:
        until = time.monotonic() + 60
        for port in ports:
            while not _answers(port):
                assert time.monotonic() < until, "a service does not answer"
                time.sleep(0.1)
        yield ports
    finally:
        for service in services:
            service.terminate()
        for service in services:
            service.wait(30)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
