"""Changes of mechanisms over HTTP, on the command line, on the dashboard and in the metrics."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import PolicyError
from causalbandits.service.auth import Keys
from causalbandits.service.server import build_service

EMAIL = cb.zoo.email_campaign()
ROUTE = "/v1/studies/mail/changes"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study in which the template was reported as changed, and the change of the subject was detected."""
    path = tmp_path_factory.mktemp("changes") / "mail.db"
    rng = np.random.default_rng(0)
    policy = cb.policy("c-ts", cpts="learned", samples=8)
    with cb.Study.create(path, EMAIL.problem, policy, seed=7, changes=0.05) as study, study.together():
        for k in range(300):
            decision = study.ask()
            seen = EMAIL.pull(decision.action, rng)
            parents = {**seen.parents, "subject": "long" if k >= 150 else "short"}
            study.tell(decision, reward=seen.reward, observed=parents)
            if k == 99:
                study.changed("template", by="Ada")
        assert [change.mechanism for change in study.changes().changes][:2] == ["template", "subject"]
    return path


@pytest.fixture
def served(file: Path, tmp_path: Path) -> Iterator[Served]:
    copy = tmp_path / "mail.db"
    copy.write_bytes(file.read_bytes())
    running = Served(build_service([], directory=tmp_path))
    yield running
    running.stop()


def test_a_client_reads_and_reports_changes_as_a_study_does(served: Served, file: Path) -> None:
    with cb.Study.open(file) as study, cb.connect(f"http://127.0.0.1:{served.port}/mail") as there:
        assert there.changes() == study.changes()
        assert repr(there.changes()) == repr(study.changes())
        there.changed("reward")
        there.changed("reward")  # before the next decision, without effect
        *before, last = there.changes().changes
        assert tuple(before) == study.changes().changes
        assert (last.mechanism, last.decision, last.is_reported) == ("reward", 300, True)
        event = there.events(300)[-1]
        assert (event["kind"], event["decision"], event["mechanism"]) == ("changed", 300, "reward")
        with pytest.raises(PolicyError, match="'colour' is no mechanism that can start anew"):
            there.changed("colour")
        assert there.verify()


def test_errors_name_the_field_and_no_python(served: Served) -> None:
    status, problem = served.send("POST", ROUTE, {"mechanism": "colour"})
    assert (status, problem["type"], problem["errors"][0]["field"]) == (422, "/problems/invalid-policy", "/mechanism")
    assert served.send("POST", ROUTE, {})[0] == 422
    fixed = {"name": "fixed", "problem": {"graph": "a -> y", "manipulable": {"a": [0, 1]}, "reward": "y"}}
    assert served.send("POST", "/v1/studies", fixed)[0] == 201
    for method, body in (("GET", None), ("POST", {"mechanism": "y"})):
        status, problem = served.send(method, "/v1/studies/fixed/changes", body)
        assert (status, problem["type"]) == (422, "/problems/invalid-policy")
        assert "changes: true" in problem["detail"]
        assert "True" not in problem["detail"]


@pytest.mark.parametrize(("changes", "alpha"), [(True, 0.05), (0.01, 0.01)])
def test_a_study_is_created_with_changes(served: Served, changes: Any, alpha: float) -> None:
    request = {"name": "new", "problem": {"graph": "a -> y", "manipulable": {"a": [0, 1]}, "reward": "y"}}
    status, created = served.send("POST", "/v1/studies", {**request, "changes": changes})
    assert (status, f"changes={alpha}" in created["policy"]) == (201, True)
    assert served.send("GET", "/v1/studies/new/changes")[1]["alpha"] == alpha
    status, problem = served.send("POST", "/v1/studies", {**request, "name": "bad", "changes": 3})
    assert (status, problem["errors"][0]["field"]) == (422, "/changes")


def test_only_an_admin_reports_a_change(file: Path, tmp_path: Path) -> None:
    (tmp_path / "mail.db").write_bytes(file.read_bytes())
    keys = Keys(tmp_path / "keys.json")
    reader, writer, admin = (keys.create(role, role) for role in ("reader", "writer", "admin"))
    running = Served(build_service([tmp_path / "mail.db"]))
    try:

        def status(method: str, key: str, body: Any = None) -> int:
            return int(running.send(method, ROUTE, body, Authorization=f"Bearer {key}")[0])

        assert status("GET", reader) == 200
        assert [status("POST", key, {"mechanism": "subject"}) for key in (reader, writer, admin)] == [403, 403, 200]
        with cb.Study.open(tmp_path / "mail.db") as study:
            assert study.events(300)[-1]["by"] == "admin"
    finally:
        running.stop()


def test_the_page_lists_the_changes_and_marks_them(served: Served) -> None:
    page = served.fetch("GET", "/mail", None)[2]
    text = page if isinstance(page, str) else page.decode()
    assert 'data-part="changes-of-mechanisms"' in text
    assert "P(subject | purpose)" in text
    assert text.count('<g class="changed">') == text.count("<td>reported</td>") + text.count("<td>detected</td>") >= 2
    assert "changes of mechanisms: template near decision 100, subject near decision" in text
    assert "Outcomes contradict the model" not in text, "the outcomes before a change are not held against the model"
    evaluation = served.fetch("GET", "/mail/what-if?purpose=Promo", None)[2]
    text = evaluation if isinstance(evaluation, str) else evaluation.decode()
    assert "mechanisms changed (template near decision 100" in text


def test_metrics_count_the_changes(served: Served) -> None:
    page = served.fetch("GET", "/metrics", None)[2]
    text = page if isinstance(page, str) else page.decode()
    for mechanism, source, n in (("template", "reported", 1), ("template", "detected", 0), ("subject", "detected", 1)):
        assert f'mechanism_changes{{study="mail",mechanism="{mechanism}",source="{source}"}} {n}' in text


def run(*words: str, fails: bool = False) -> str:
    found = CliRunner().invoke(app, ["study", *words])
    assert (found.exit_code != 0) == fails, found.output
    return found.output


def test_the_command_line_creates_lists_and_reports(tmp_path: Path) -> None:
    path = str(tmp_path / "mail.db")
    assert "changes=0.05" in run("create", "email_campaign", "--to", path, "--changes", "0.05")
    run("changed", path, "--mechanism", "template")
    assert "P(template | product, purpose) was reported as changed before decision 0" in run("changes", path)
    record = json.loads(run("changes", path, "--json"))
    assert [change["mechanism"] for change in record["changes"]] == ["template"]
    run("changed", path, "--mechanism", "colour", fails=True)
    run("create", "email_campaign", "--to", str(tmp_path / "b.db"), "--changes", "3", fails=True)
    run("create", "email_campaign", "--to", str(tmp_path / "c.db"))
    run("changes", str(tmp_path / "c.db"), fails=True)


def test_reports_and_tests_say_where_mechanisms_changed(file: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with cb.Study.open(file) as study:
            last = study.changes().changes[-1].noticed
            evaluation = study.evaluate({"purpose": "Promo"})
            assert "mechanisms changed (template near decision 100" in evaluation.caveats[0]
            assert "Warning: mechanisms changed" in repr(evaluation)
            for check in (study.check(), study.quick_check()):
                assert f"Only outcomes of decision {last} and of later ones are tested" in check.remark
                assert check.rows == 300 - last
                assert not check.contradicted
            with pytest.raises(PolicyError, match="changes were noticed of 'template', 'subject'"):
                study.evidence()
            study.report(tmp_path / "page.html")
            page = (tmp_path / "page.html").read_text()
            assert "Changes of mechanisms" in page
            assert "Dashed lines: changes of mechanisms." in page
            assert [mark.change.mechanism for mark in study.history().changes][:2] == ["template", "subject"]
            assert study.history().changes[0].event == 101  # after the report
