"""Without keys a service is for its own machine, unless the operator says twice that it is not; lost keys close it."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_drain import Process
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import StateError
from causalbandits.service.auth import COOKIE, Keys
from causalbandits.service.server import (
    WITHOUT_KEYS_VALUE,
    WITHOUT_KEYS_VARIABLE,
    BoundedServer,
    build_service,
    serve,
)
from causalbandits.study import back_up

PROBLEM = cb.zoo.email_campaign().problem


@pytest.fixture
def file(tmp_path: Path) -> Path:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    return tmp_path / "mail.db"


@pytest.fixture
def served(file: Path) -> Iterator[Served]:
    running = Served(build_service([file]))
    yield running
    running.stop()


@pytest.mark.parametrize(
    "header",
    [
        {"X-Forwarded-For": "203.0.113.9"},
        {"Forwarded": "for=203.0.113.9"},
        {"X-Real-IP": "203.0.113.9"},
        {"X-Forwarded-Host": "bandits.example"},
        {"X-Forwarded-Proto": "https"},
        {"Via": "1.1 proxy"},
        {"X-Forwarded-Port": "443"},
        {"CF-Connecting-IP": "203.0.113.9"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/", "/mail", "/v1/studies", "/metrics"])
def test_behind_a_proxy_nobody_is_an_admin_without_a_key(served: Served, path: str, header: dict[str, str]) -> None:
    assert served.fetch("GET", path)[0] == 200
    status, _, text = served.fetch("GET", path, **header)
    assert status == 403
    assert "a proxy forwarded this request" in text
    assert "causalbandits study keys make" in text


def test_nginx_as_it_is_installed_makes_nobody_an_admin(served: Served) -> None:
    """It adds no header, names the service as the host, and speaks HTTP/1.0."""
    for version, status in ((b"1.1", b"200"), (b"1.0", b"403")):
        with socket.create_connection(("127.0.0.1", served.port), 20) as proxy:
            host = b"Host: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % served.port
            proxy.sendall(b"GET /v1/studies HTTP/" + version + b"\r\n" + host)
            answer = proxy.makefile("rb").read()
        assert answer.split()[1] == status
        assert (b"(HTTP/1.0)" in answer) == (version == b"1.0")


def test_with_a_key_a_proxy_is_welcome(file: Path) -> None:
    key = Keys(file.parent / "keys.json").create("ann", "reader")
    running = Served(build_service([file]))
    try:
        assert running.send("GET", "/v1/studies", key=key, X_Forwarded_For="203.0.113.9")[0] == 200
    finally:
        running.stop()


def test_everybody_is_an_admin_only_where_it_is_said_twice(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listened: list[str] = []
    monkeypatch.setattr(BoundedServer, "run", lambda self: listened.append(self.config.host))
    monkeypatch.delenv(WITHOUT_KEYS_VARIABLE, raising=False)
    with pytest.raises(StateError, match="a service listens on"):
        serve([file], host="0.0.0.0")
    for wrong in (None, "1", "yes"):
        if wrong is not None:
            monkeypatch.setenv(WITHOUT_KEYS_VARIABLE, wrong)
        with pytest.raises(StateError, match=f"{WITHOUT_KEYS_VARIABLE} to {WITHOUT_KEYS_VALUE}"):
            serve([file], host="0.0.0.0", without_keys=True)
    monkeypatch.setenv(WITHOUT_KEYS_VARIABLE, WITHOUT_KEYS_VALUE)
    with pytest.raises(StateError, match="a service listens on"):
        serve([file], host="0.0.0.0")
    assert listened == []
    serve([file], host="0.0.0.0", without_keys=True)
    assert listened == ["0.0.0.0"]
    found = CliRunner().invoke(app, ["serve", str(file), "--host", "0.0.0.0", "--without-keys"])
    assert (found.exit_code, listened) == (0, ["0.0.0.0"] * 2), found.output
    Keys(file.parent / "keys.json").create("ann", "admin")
    with pytest.raises(StateError, match=r"--without-keys contradicts .*keys\.json"):
        serve([file], without_keys=True)


def test_a_service_for_everybody_answers_through_a_proxy_and_by_any_name(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WITHOUT_KEYS_VARIABLE, WITHOUT_KEYS_VALUE)
    running = Served(build_service([file], without_keys=True))
    try:
        assert running.send("GET", "/v1/studies", Host="bandits.example", X_Forwarded_For="203.0.113.9")[0] == 200
        # Pages of other sites stay out.
        assert running.send("POST", "/v1/studies/mail/decisions", {}, Origin="https://evil.example")[0] == 403
    finally:
        running.stop()


def test_while_the_file_of_keys_is_missing_nobody_is_let_in(file: Path) -> None:
    keys = Keys(file.parent / "keys.json")
    key = keys.create("ann", "admin")
    running = Served(build_service([file]))
    try:
        assert running.send("GET", "/v1/studies", key=key)[0] == 200
        assert running.send("GET", "/readyz")[0] == 200
        away = keys.path.rename(file.parent / "away.json")
        for given in (key, None, "cb_wrong"):
            status, answer = running.send("POST", "/v1/studies/mail/decisions", {}, given)
            assert (status, answer["type"]) == (503, "/problems/keys-unavailable")
        assert running.fetch("GET", "/mail", Cookie=f"{COOKIE}={key}")[0] == 503
        assert running.fetch("POST", "/login", f"key={key}")[0] == 503
        status, answer = running.send("GET", "/readyz")
        assert (status, "file of keys is missing" in answer["detail"]) == (503, True)
        assert running.send("GET", "/livez")[0] == 200
        away.rename(keys.path)
        assert running.send("GET", "/v1/studies", key=key)[0] == 200
        assert running.send("GET", "/readyz")[0] == 200
    finally:
        running.stop()


def test_keys_that_were_lost_do_not_come_back_with_a_new_one(file: Path) -> None:
    keys = Keys(file.parent / "keys.json")
    lost = keys.create("ann", "admin")
    keys.path.unlink()
    new = keys.create("bob", "admin")
    assert (keys.role_of(lost), keys.role_of(new)) == (None, "admin")


def test_a_service_that_had_keys_does_not_start_without_them(file: Path) -> None:
    keys = Keys(file.parent / "keys.json")
    keys.create("ann", "admin")
    build_service([file]).close()
    keys.path.unlink()
    with pytest.raises(StateError, match="does not exist, although the service had keys"):
        build_service([file])
    Path(f"{keys.path}.required").unlink()
    build_service([file]).close()


def test_keys_that_are_made_while_a_service_runs_close_it_for_good(file: Path) -> None:
    running = Served(build_service([file]))
    try:
        assert running.send("GET", "/v1/studies")[0] == 200
        keys = Keys(file.parent / "keys.json")
        keys.create("ann", "admin")
        assert running.send("GET", "/v1/studies")[0] == 401
        keys.path.unlink()
        assert running.send("GET", "/v1/studies")[0] == 503
    finally:
        running.stop()
    with pytest.raises(StateError, match="although the service had keys"):
        build_service([file])


def permissions(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_files_of_studies_copies_and_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1) as study:
            study.ask()
            found = {name: permissions(tmp_path / name) for name in ("mail.db", "mail.db-wal", "mail.db-shm")}
            back_up(tmp_path / "mail.db", tmp_path / "copy.db")
        Keys(tmp_path / "keys.json").create("ann", "admin")
        build_service([tmp_path / "mail.db"]).close()
    finally:
        os.umask(before)
    found |= {name: permissions(tmp_path / name) for name in ("copy.db", "keys.json", "keys.json.required")}
    assert set(found.values()) == {"0o600"}, found
    with cb.Study.open(tmp_path / "copy.db") as copy:
        assert copy.n_decisions == 1
        copy.ask()
        assert {permissions(path) for path in tmp_path.glob("copy.db*")} == {"0o600"}


def test_a_new_file_of_keys_is_never_readable_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    replace = os.replace

    def looked_at(source: Path, target: Path) -> None:
        seen.append(permissions(Path(source)))
        replace(source, target)

    monkeypatch.setattr(os, "replace", looked_at)
    Keys(tmp_path / "keys.json").create("ann", "admin")
    assert seen == ["0o600"]


def test_a_service_without_keys_says_so_in_its_log(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITHOUT_KEYS_VARIABLE, WITHOUT_KEYS_VALUE)
    service = Process(file, "--without-keys")
    code, errors = service.stop()
    assert (code, "every client is an admin" in errors) == (0, True)
