"""What a service logs: one line per event, as text or JSON, with the id of the request and no secret."""

from __future__ import annotations

import http.client
import json
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_drain import Process
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.service import group_commit
from causalbandits.service.auth import COOKIE, Keys
from causalbandits.service.server import build_service, serve
from causalbandits.service.telemetry import JSONFormatter, TextFormatter, request_id

PROBLEM = cb.zoo.email_campaign().problem
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    return tmp_path / "mail.db"


def test_every_request_is_a_line_of_json_on_stderr_and_no_key_is_in_it(file: Path) -> None:
    keys = Keys(file.parent / "keys.json")
    writer, reader = keys.create("backend", "writer"), keys.create("page", "reader")
    service = Process(file, "--log-format", "json")
    path = "/v1/studies/mail/decisions"
    assert service.status(path, {}, Authorization=f"Bearer {writer}", X_Request_ID="ignored") == 201
    assert service.status(path, {}, **{"Authorization": f"Bearer {reader}", "X-Request-ID": "order-17"}) == 403
    assert service.status(f"{path}?key=cb_secret", {}, Authorization="Bearer cb_wrong") == 401
    assert service.status("/no/such/path", None, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01") == 404
    code, errors = service.stop()
    assert code == 0
    assert not any(secret in errors for secret in (writer, reader, "cb_wrong", "cb_secret"))
    lines: list[dict[str, Any]] = [json.loads(line) for line in errors.splitlines()]
    allowed, refused, unknown, nowhere = [line for line in lines if line["route"] != "/livez"]
    assert (allowed["event"], allowed["level"], allowed["status"]) == ("request", "info", 201)
    assert (allowed["route"], allowed["study"]) == ("/v1/studies/{study}/decisions", "mail")
    assert (allowed["key"], allowed["role"], allowed["method"]) == ("backend", "writer", "POST")
    assert 0 < allowed["duration_seconds"] < 20
    assert len(allowed["request_id"]) == 32
    assert (refused["event"], refused["level"], refused["status"]) == ("refusal", "warning", 403)
    assert (refused["request_id"], refused["key"], refused["problem"]) == ("order-17", "page", "/problems/forbidden")
    assert (unknown["event"], unknown["status"], "key" in unknown) == ("refusal", 401, False)
    assert (nowhere["route"], nowhere["request_id"], nowhere["status"]) == ("unmatched", TRACE, 404)


def test_text_has_refusals_and_no_line_for_every_request(file: Path) -> None:
    key = Keys(file.parent / "keys.json").create("page", "reader")
    service = Process(file)
    assert service.status("/v1/studies", Authorization=f"Bearer {key}") == 200
    assert service.status("/v1/studies/mail/decisions", {}, Authorization=f"Bearer {key}") == 403
    _, errors = service.stop()
    (line,) = errors.splitlines()
    assert "WARNING POST /v1/studies/{study}/decisions 403 /problems/forbidden" in line
    assert "key 'page' (reader)" in line


@pytest.mark.parametrize("options", [(), ("--log-format", "json"), ("--log-level", "error")], ids=str)
def test_changes_are_logged_with_the_name_of_the_key_that_made_them(file: Path, options: tuple[str, ...]) -> None:
    keys = Keys(file.parent / "keys.json")
    admin, writer = keys.create("ann", "admin"), keys.create("backend", "writer")
    service, at = Process(file, *options), "/v1/studies/mail"
    bearer = {name: {"Authorization": f"Bearer {key}"} for name, key in (("ann", admin), ("backend", writer))}
    for path, body, who, status in (
        ("decisions", {"n": 2}, "backend", 201),
        (
            "outcomes",
            {"items": [{"id": 0, "reward": 1, "observed": {"subject": "short", "template": "1"}}]},
            "backend",
            200,
        ),
        ("decisions/1/cancel", {}, "backend", 200),
        ("decisions/0/retract", {}, "backend", 403),
        ("decisions/0/retract", {}, "ann", 200),
        ("decisions/0/correct", {"reward": 1}, "ann", 409),
        ("mode", {"mode": "frozen"}, "ann", 200),
        ("policy", {"policy": "c-ts(prior=beta, samples=4)"}, "ann", 200),
    ):
        assert service.status(f"{at}/{path}", body, **bearer[who]) == status, path
    form = {"Cookie": f"{COOKIE}={admin}", "Sec-Fetch-Site": "same-origin"}
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    connection.request("POST", "/mail/mode", "mode=online", form)
    assert connection.getresponse().status == 303
    connection.close()
    _, errors = service.stop()
    wanted = [("retract", "ann"), ("mode", "ann"), ("policy", "ann"), ("mode", "ann")]
    if options == ("--log-format", "json"):
        found = [line for line in map(json.loads, errors.splitlines()) if line["event"] == "change"]
        assert [(line["change"], line["key"]) for line in found] == wanted
        assert {(line["study"], line["level"]) for line in found} == {("mail", "info")}
        assert all(len(line["request_id"]) == 32 for line in found)
    elif options:
        assert "Change:" not in errors
    else:
        lines = [line for line in errors.splitlines() if "Change:" in line]
        assert len(lines) == len(wanted)
        for line, (change, key) in zip(lines, wanted, strict=True):
            assert f"Change: {change} of study 'mail' by key '{key}'" in line


def test_errors_have_their_traceback_and_slow_commits_are_logged(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running = Served(build_service([file]))
    try:
        monkeypatch.setattr(group_commit, "SLOW_COMMIT_SECONDS", 0.0)
        with caplog.at_level(logging.INFO, "causalbandits.service"):
            running.send("POST", "/v1/studies/mail/decisions", {})
            monkeypatch.setattr(group_commit.Writer, "_run", lambda *_: 1 / 0)
            headers = {"Content-Type": "application/json", "X-Request-ID": "order-18"}
            status, answered, _ = running.fetch("POST", "/v1/studies/mail/decisions", "{}", **headers)
            time.sleep(0.1)
    finally:
        running.stop()
    assert (status, answered["x-request-id"]) == (500, "order-18")
    lines = [json.loads(JSONFormatter().format(record)) for record in caplog.records]
    (slow,) = [line for line in lines if line.get("event") == "slow_commit"]
    assert (slow["level"], slow["study"], slow["requests"]) == ("warning", "mail", 1)
    (error,) = [line for line in lines if line.get("event") == "error"]
    assert (error["level"], error["request_id"]) == ("error", "order-18")
    assert error["traceback"].endswith("ZeroDivisionError: division by zero")
    texts = [TextFormatter().format(record) for record in caplog.records]
    assert any("Traceback" in text and "[order-18]" in text for text in texts)


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({"x-request-id": "a-1"}, "a-1"),
        ({"x-request-id": "a-1", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, "a-1"),
        ({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, TRACE),
        ({"x-request-id": "a\n{}"}, None),
        ({"x-request-id": "x" * 129}, None),
        ({"traceparent": f"00-{'0' * 32}-00f067aa0ba902b7-01"}, None),
        ({}, None),
    ],
)
def test_an_id_is_taken_over_if_it_is_one(headers: dict[str, str], wanted: str | None) -> None:
    found = request_id([(name.encode(), value.encode()) for name, value in headers.items()])
    assert found == wanted if wanted else len(found) == 32


@pytest.mark.parametrize(("options", "says"), [({"log_format": "xml"}, "log format"), ({"log_level": "all"}, "level")])
def test_unknown_formats_and_levels_are_refused(file: Path, options: Any, says: str) -> None:
    with pytest.raises(cb.errors.StateError, match=says):
        serve([file], **options)


def test_loggers_are_as_they_were_when_a_service_has_stopped(file: Path) -> None:
    program = (
        "import logging, sys; from causalbandits.service import serve\n"
        "try: serve([sys.argv[1]], ready=lambda: 1 / 0)\n"
        "except ZeroDivisionError: pass\n"
        "own = logging.getLogger('causalbandits.service'); print(own.handlers, own.level, own.propagate)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[] 0 True", done.stderr
