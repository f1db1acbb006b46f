"""The audit trail: who changed what; and changes behind the study's back, which chained checksums give away."""

from __future__ import annotations

import getpass
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import StateError
from causalbandits.study import back_up
from causalbandits.study.storage.encoding import CHECKSUMMED_COLUMNS, checksum

EMAIL = cb.zoo.email_campaign()
SEEN = {"subject": "short", "template": "1", "send_time": "morning"}
KEY = "a long random text, known to the owner"


def new(where: Path, **more: Any) -> cb.Study:
    return cb.Study.create(where, EMAIL.problem, "c-ts(prior=beta)", seed=1, **more)


def played(where: Path, **more: Any) -> Path:
    """A study with decisions, events, modes, policies, rounds of the past and early outcomes."""
    with new(where, **more) as study:
        past = {"subject": ["short", "long"], "template": ["1", "2"], "send_time": ["morning"] * 2, "clicked": [0, 1]}
        study.learn(past, reward="clicked")
        for decision in study.ask(5, eligible=[{"send_time": "morning"}]):
            study.tell(decision, reward=1, observed=SEEN)
        study.set_mode("frozen", by="ann", why="a test")
        study.tell("a", reward=1, observed=SEEN)
        study.tell("b", reward=1, observed=SEEN)
        for key in ("c", "d"):
            study.tell(key, reward=1, observed=SEEN)
            study.retract(key, by="cem")
        study.use("c-ucb", by="bob")
        study.ask()
    return where


def test_corrections_retractions_policies_and_modes_have_a_name(tmp_path: Path) -> None:
    with new(tmp_path / "study.db") as study:
        (decision,) = study.ask(1, eligible=[{"send_time": "morning"}])
        study.tell(decision, reward=1, observed=SEEN)
        study.correct(decision, reward=0, observed=SEEN, by="ann")
        study.retract(decision, by="bob")
        study.cancel(decision.id, by="cem")
        study.use("c-ucb", by="dora")
        study.set_mode("paused", by="eve", why="a wrong price")
        assert [(event["kind"], event["by"]) for event in study.events()] == [
            ("outcome", None),
            ("correct", "ann"),
            ("retract", "bob"),
            ("cancel", "cem"),
        ]
        first, second = study.policies()
        assert (first["policy"], first["by"], second["policy"], second["by"]) == (
            "c-ts(prior=beta)",
            "",
            "c-ucb",
            "dora",
        )
        assert second["since_event"] == 4
        assert study.modes()[-1]["by"] == "eve"
        for wrong in ("a\nb", "x" * 1001, 3):
            with pytest.raises(StateError, match="by must be printable text"):
                study.retract(decision, by=wrong)  # type: ignore[arg-type]
        assert study.verify()


def test_over_http_the_name_is_that_of_the_key(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from tests.service.test_service import Served

    from causalbandits.service.auth import Keys
    from causalbandits.service.server import build_service

    new(tmp_path / "mail.db").close()
    key = Keys(tmp_path / "keys.json").create("ann's key", "admin")
    served = Served(build_service([tmp_path / "mail.db"], tmp_path / "keys.json"))
    path = "/v1/studies/mail"
    try:
        decision = served.send("POST", f"{path}/decisions", {"eligible": [{"send_time": "morning"}]}, key)[1]
        outcome = {"reward": 1, "observed": SEEN}
        served.send("POST", f"{path}/outcomes", {"items": [{"id": decision["id"], **outcome}]}, key)
        for command, body in (("correct", {**outcome, "reward": 0}), ("retract", {}), ("cancel", {})):
            assert served.send("POST", f"{path}/decisions/{decision['id']}/{command}", body, key)[0] == 200
        assert served.send("POST", f"{path}/policy", {"policy": "c-ucb"}, key)[0] == 200
        items = served.send("GET", f"{path}/events", key=key)[1]["items"]
        assert [item["by"] for item in items] == [None, "ann's key", "ann's key", "ann's key"]
        policies = served.send("GET", f"{path}/policy", key=key)[1]["items"]
        assert [(item["policy"], item["by"]) for item in policies] == [("c-ts(prior=beta)", ""), ("c-ucb", "ann's key")]
    finally:
        served.stop()


def test_on_the_command_line_the_name_is_that_of_the_user(tmp_path: Path) -> None:
    file = str(tmp_path / "study.db")
    with new(tmp_path / "study.db") as study:
        study.ask(key="a", eligible=[{"send_time": "morning"}])
        study.tell("a", reward=1, observed=SEEN)
    for words in (
        ["correct", file, "a", "0"],
        ["retract", file, "a"],
        ["use", file, "c-ucb"],
        ["mode", file, "paused"],
    ):
        found = CliRunner().invoke(app, ["study", *words])
        assert found.exit_code == 0, found.output
    user = getpass.getuser()
    with cb.Study.open(file) as study:
        assert [event["by"] for event in study.events()] == [None, user, user]
        assert (study.policies()[-1]["by"], study.modes()[-1]["by"]) == (user, user)
    listed = CliRunner().invoke(app, ["study", "use", file]).output.splitlines()
    assert [json.loads(line)["policy"] for line in listed] == ["c-ts(prior=beta)", "c-ucb"]


def forge(connection: sqlite3.Connection, table: str, order: str, change: str, last: bool = True) -> None:
    """Change a row, and give it the checksum that belongs to it."""
    columns = CHECKSUMMED_COLUMNS[table]
    rows = connection.execute(f"SELECT {columns}, checksum FROM {table} ORDER BY {order}").fetchall()
    at = len(rows) - 1 if last else len(rows) // 2
    name, key = columns.split(",")[0], rows[at][0]
    connection.execute(f"UPDATE {table} SET {change} WHERE {name} = ?", (key,))
    (row,) = connection.execute(f"SELECT {columns} FROM {table} WHERE {name} = ?", (key,)).fetchall()
    previous = (
        rows[at - 1][-1]
        if at
        else json.loads(connection.execute("SELECT value FROM facts WHERE name = 'checksum'").fetchone()[0])
    )
    connection.execute(f"UPDATE {table} SET checksum = ? WHERE {name} = ?", (checksum(row, previous), key))


def forge_head(connection: sqlite3.Connection, change: str) -> None:
    connection.execute(f"UPDATE head SET {change}")
    row = connection.execute(f"SELECT {CHECKSUMMED_COLUMNS['head']} FROM head").fetchone()
    connection.execute("UPDATE head SET checksum = ?", (checksum(row),))


def remove_early(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM early WHERE key = 'a'")
    forge_head(connection, "early = early - 1")


def change_early(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE early SET told = replace(told, '1', '0') WHERE key = 'a'")
    row = connection.execute("SELECT key, told, at FROM early WHERE key = 'a'").fetchone()
    connection.execute("UPDATE early SET checksum = ? WHERE key = 'a'", (checksum(row),))


FORGERIES: dict[str, Callable[[sqlite3.Connection], object]] = {
    "a removed early outcome": remove_early,
    "a changed early outcome": change_early,
    "who removed an early outcome": lambda c: forge(c, "removals", "number", "who = 'ann'"),
    "a removed record of a removal": lambda c: c.execute("DELETE FROM removals WHERE number = 2"),
    "the mode": lambda c: forge(c, "modes", "version", "mode = 'online'"),
    "who chose the mode": lambda c: forge(c, "modes", "version", "who = 'bob'"),
    "who chose the policy": lambda c: forge(c, "policies", "version", "who = 'ann'"),
    "the last decision": lambda c: forge(c, "decisions", "number", "unit = 'someone'"),
    "a decision amid others": lambda c: forge(c, "decisions", "number", "unit = 'someone'", last=False),
    "the last event": lambda c: forge(c, "events", "number", "at = at - 1"),
    "an event amid others": lambda c: forge(c, "events", "number", "who = 'ann'", last=False),
    "how far the past is trusted": lambda c: forge(c, "past", "first DESC", "trust = 0.75"),
}


@pytest.mark.parametrize("forgery", list(FORGERIES))
def test_a_forged_row_with_a_checksum_of_its_own_is_found(tmp_path: Path, forgery: str) -> None:
    with cb.Study.open(played(tmp_path / "study.db")) as study:
        assert study.verify()
    connection = sqlite3.connect(tmp_path / "study.db")
    with connection:
        FORGERIES[forgery](connection)
    connection.close()
    with cb.Study.open(tmp_path / "study.db") as study:
        assert not study.verify()


def test_a_signed_study_is_opened_with_its_key_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = played(tmp_path / "signed.db", signing_key=KEY)
    for key, message in ((None, r"is signed\. Pass the key"), ("another" * 3, "is signed with another key")):
        with pytest.raises(StateError, match=message):
            cb.Study.open(file, signing_key=key)
    with cb.Study.open(file, signing_key=KEY) as study, study.reader() as reader:
        study.tell("later", reward=1, observed=SEEN)
        assert len(reader.early_outcomes()) == 3
        assert study.verify()
        assert reader.verify()
    played(tmp_path / "plain.db")
    with pytest.raises(StateError, match="is not signed"):
        cb.Study.open(tmp_path / "plain.db", signing_key=KEY)
    with pytest.raises(StateError, match="16 characters"):
        cb.Study.open(file, signing_key="short")
    monkeypatch.setenv("CAUSALBANDITS_SIGNING_KEY", KEY)
    assert back_up(file, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
    assert CliRunner().invoke(app, ["study", "verify", str(tmp_path / "copy.db")]).exit_code == 0
    with cb.Study.open(tmp_path / "copy.db") as study:
        assert study.n_decisions == 6


def test_who_lacks_the_key_cannot_forge_a_signed_study(tmp_path: Path) -> None:
    """The last decision is changed, and every checksum after it computed anew, as far as that takes no key."""
    file = played(tmp_path / "signed.db", signing_key=KEY)
    connection = sqlite3.connect(file)
    with connection:
        forge(connection, "decisions", "number", "unit = 'someone'")
        (last,) = connection.execute("SELECT checksum FROM decisions ORDER BY number DESC LIMIT 1").fetchone()
        chains = json.loads(connection.execute("SELECT chains FROM head").fetchone()[0])
        forge_head(connection, f"chains = '{json.dumps({**chains, 'decisions': last}, sort_keys=True)}'")
    connection.close()
    with pytest.raises(StateError, match="checksum mismatch in the head row"):
        cb.Study.open(file, signing_key=KEY)
    shutil.copy(played(tmp_path / "plain.db"), file)  # another study in its place
    with pytest.raises(StateError, match="is not signed"):
        cb.Study.open(file, signing_key=KEY)


def test_a_damaged_checksum_of_an_early_outcome_is_reported_in_words(tmp_path: Path) -> None:
    connection = sqlite3.connect(played(tmp_path / "study.db"))
    with connection:
        connection.execute("UPDATE early SET checksum = 'no number' WHERE key = 'a'")
    connection.close()
    with cb.Study.open(tmp_path / "study.db") as study:
        assert "checksum mismatch in a row of early: 'a'" in repr(study.verify())
        with pytest.raises(StateError, match="is corrupted"):
            study.retract("a")
