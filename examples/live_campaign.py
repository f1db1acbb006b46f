"""A live e-mail campaign: a service, and mail servers that request decisions and report delayed or duplicate clicks.

The page at the printed address shows the current estimates and updates automatically. Press Ctrl-C to stop.
"""

import argparse
import os
import random
import signal
import socket
import tempfile
import threading
import time
from heapq import heappop, heappush
from pathlib import Path

import numpy as np

import causalbandits as cb
from causalbandits.service import serve

WINDOW = 10.0
"""A mail that was not clicked after so many seconds counts as not clicked (in a real campaign: days)."""


def mail_server(address: str, number: int, stop: threading.Event, pause: float) -> None:
    """Sends mails as decided, and tells what came of them: later, sometimes twice; of mails never opened nothing."""
    env, rng, chance = cb.zoo.email_campaign(), np.random.default_rng(number), random.Random(number)
    coming: list[tuple[float, str, float]] = []
    with cb.connect(address) as study:
        for mail in range(10**9):
            name = f"server-{number}-mail-{mail}"
            seen = env.pull(study.ask(key=name).action, rng)
            study.tell(name, reward=None, observed=seen.parents)  # sent; what came of it is not known yet
            if seen.reward or chance.random() < 0.8:
                heappush(coming, (time.monotonic() + chance.expovariate(0.5), name, seen.reward))
            while coming and coming[0][0] <= time.monotonic():
                _, came, reward = heappop(coming)
                for _ in range(chance.choice([1, 1, 1, 2])):
                    study.tell(came, reward=reward)
            if stop.wait(pause):
                return


def housekeeping(where: Path, stop: threading.Event) -> None:
    """Silence becomes "not clicked"; a cron job would do this. Another process's connection may do it as well."""
    with cb.Study.open(where) as study:
        while not stop.wait(1.0):
            study.expire()


def main(seconds: float | None, port: int, a_second: float, servers: int = 2) -> None:
    """Serve and play until interrupted, or for so many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "campaign.db"
        policy = cb.policy("c-ts", prior="beta", samples=32)  # with draws, "what if" can be answered afterwards
        cb.Study.create(
            where, cb.zoo.email_campaign().problem, policy, attribution_window=WINDOW, default_reward=0
        ).close()
        stop, address = threading.Event(), f"http://127.0.0.1:{port}/campaign"
        cleaner = threading.Thread(target=housekeeping, args=(where, stop))
        others = [
            threading.Thread(target=mail_server, args=(address, number, stop, servers / a_second), daemon=True)
            for number in range(servers)
        ]
        if seconds is not None:
            others.append(threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)))
            others[-1].daemon = True
        print(f"Campaign: {address} (press Ctrl-C to stop)", flush=True)
        for other in (cleaner, *others):
            other.start()  # the servers try again until the service answers
        try:
            serve([where], port=port)  # until it is interrupted
        finally:
            stop.set()
            cleaner.join()
        with cb.Study.open(where) as study:
            print(f"\nStopped: {study!r}\n{study.recommend()}\n{study.verify()}")


def free_port(wanted: int) -> int:
    """The wanted port, or any that is free."""
    for port in (wanted, 0):
        with socket.socket() as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                own.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(own.getsockname()[1])
    raise OSError("No port is free.")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, help="stop after this number of seconds (default: run until Ctrl-C)")
    options.add_argument(
        "--port", type=int, default=8000, help="port of the service; if it is in use, another port is chosen"
    )
    options.add_argument("--rate", type=float, default=20.0, help="mails per second")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that nothing is left behind
    main(given.seconds, free_port(given.port), given.rate)
