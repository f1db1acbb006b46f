"""How many questions and outcomes a second several service processes answer on one PostgreSQL.

    PYTHONPATH=tests python benchmarks/processes.py [--seconds 8] [--clients 8] [--processes 1 2 4]

Each client asks and tells in turn over a connection of its own; clients are spread over the processes. The writers of
one study take turns in the database, so that more processes share the work of HTTP and of the policy, not the commits.
Prints JSON with the load of the machine: numbers from a busy one are worth little.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from typing import Any

import causalbandits as cb
from postgresql import running, serving

ENV = cb.zoo.email_campaign()
SEEN = {"subject": "short", "template": "1"}


def pairs_per_second(server: str, processes: int, clients: int, seconds: float) -> dict[str, Any]:
    """Pairs of a question and an outcome, acknowledged."""
    address, counts = f"{server}&study=s{processes}", [0] * clients
    cb.Study.create(address, ENV.problem, "c-ts(prior=beta)", seed=1).close()
    with serving(address, processes) as ports:
        end = time.monotonic() + seconds

        def client(number: int) -> None:
            with cb.connect(f"http://127.0.0.1:{ports[number % processes]}/s{processes}") as study:
                while time.monotonic() < end:
                    decision = study.ask()
                    seen = {**SEEN, "send_time": decision.action.get("send_time", "morning")}
                    study.tell(decision.id, reward=1, observed=seen)
                    counts[number] += 1

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with cb.Study.open(address) as study:
        assert study.n_outcomes == sum(counts)
    return {"processes": processes, "clients": clients, "pairs_per_second": round(sum(counts) / seconds, 1)}


def main() -> None:
    """Each number of processes in turn, on a new study."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=8.0)
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    given = options.parse_args()
    with running() as server:
        found = [pairs_per_second(server, n, given.clients, given.seconds) for n in given.processes]
    print(json.dumps({"results": found, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
