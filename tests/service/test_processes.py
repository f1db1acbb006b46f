"""Several service processes on one PostgreSQL decide and count as one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.study.storage import location_name
from postgresql import PROGRAMS, running, serving

pytest.importorskip("psycopg", reason="psycopg is not installed")

ENV = cb.zoo.email_campaign()
POLICY = cb.policy("c-ts", prior="beta", samples=4)
PROCESSES, CLIENTS, ASKS = 3, 6, 20


@pytest.fixture
def address() -> Iterator[str]:
    if not PROGRAMS:
        pytest.skip("PostgreSQL is not installed: /usr/lib/postgresql/*/bin/initdb")
    with running() as server:
        yield f"{server}&study=shop"


def test_processes_on_one_database_decide_and_count_as_one(address: str, tmp_path: Path) -> None:
    rules = {"seed": 1, "holdout": 0.3, "baseline": {"send_time": "morning"}}
    cb.Study.create(address, ENV.problem, POLICY, **rules).close()
    assert parse_qs(urlsplit(address).query)["study"] == [location_name(address)]
    made: dict[str, set[tuple[int, str]]] = {}
    statuses: list[str] = []
    errors: list[Exception] = []

    def campaign(client: int, ports: list[int]) -> None:
        """Each question is asked in two processes, and each outcome is told in two."""
        try:
            studies = [cb.connect(f"http://127.0.0.1:{port}/shop") for port in ports]
            for k in range(ASKS):
                key, unit = f"{client // 2}-{k}", f"visitor-{k % 7}"  # two clients ask with the same keys
                pair = studies[(client + k) % PROCESSES], studies[(client + k + 1) % PROCESSES]
                for study in pair:
                    decision = study.ask(key=key, unit=unit)
                    made.setdefault(key, set()).add((decision.number, repr(decision.action)))
                seen = ENV.pull(decision.action, np.random.default_rng([client // 2, k]))
                statuses.extend(study.tell(key, reward=seen.reward, observed=seen.parents).status for study in pair)
            for study in studies:
                study.close()
        except Exception as error:
            errors.append(error)

    with serving(address, PROCESSES) as ports:
        clients = [threading.Thread(target=campaign, args=(client, ports)) for client in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(120)
    assert not errors
    asked = CLIENTS // 2 * ASKS
    assert all(len(answers) == 1 for answers in made.values())
    assert sorted(number for ((number, _),) in made.values()) == list(range(asked))
    assert (statuses.count("applied"), statuses.count("duplicate")) == (asked, 3 * asked)
    with cb.Study.open(address) as study, cb.Study.create(tmp_path / "one.db", ENV.problem, POLICY, **rules) as one:
        assert (study.n_decisions, study.n_outcomes) == (asked, asked)
        assert study.verify()
        assert all(study.replay(number) for number in range(0, asked, 3))
        # One process that takes in the same log, event by event, has the same state and makes the next decision alike.
        events = iter(study._log.events())
        event = next(events, None)
        with one.together():
            for row in list(study._log.decisions()):
                while event is not None and event.number <= row.events:
                    _tell(one, study, event)
                    event = next(events, None)
                decision = one.ask(key=row.key, unit=row.unit)
                assert (decision.number, decision.action) == (row.number, row.choice.action.intervention)
                assert decision.propensity == row.choice.propensity
            while event is not None:
                _tell(one, study, event)
                event = next(events, None)
        assert one.state_hash() == study.state_hash()
        assert one.report().holdout == study.report().holdout
        assert one.ask(key="next", unit="new")[1:] == study.ask(key="next", unit="new")[1:]


def _tell(one: cb.Study, study: cb.Study, event: object) -> None:
    """The same outcome, told to one process."""
    z, number = event.z, event.decision  # type: ignore[attr-defined]
    one.tell(number, reward=event.reward / 2**40, observed=study.problem.decode_parents(z))  # type: ignore[attr-defined]
