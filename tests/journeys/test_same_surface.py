"""Agent, study and client: the same calls with the same answers, and where they differ, on purpose."""

from __future__ import annotations

import inspect
import json
import logging
import re
import shlex
import shutil
import subprocess
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
from causalbandits.cli.study import study
from causalbandits.errors import CausalBanditsError, PolicyError, TellError, UnknownDecisionError
from causalbandits.service.auth import Keys
from causalbandits.service.schemas import CreateStudyRequest
from causalbandits.service.server import build_service
from causalbandits.study import RemoteStudy

ENV = cb.zoo.email_segments()
DOCS = Path(__file__).parents[2] / "docs"


def public(one: object) -> set[str]:
    return {
        name
        for name in {*dir(type(one) if not isinstance(one, type) else one), *getattr(one, "__dict__", {})}
        if not name.startswith("_")
    }


OF_AGENTS_ALONE = {"save", "load", "zero_probability"}
"""A study is on disk at every moment, and opened; its rules say what becomes of the impossible."""

OF_STUDIES_ALONE = {
    # made, opened and closed; many calls at once; one connection that only looks
    "create", "open", "close", "together", "reader",
    # decisions that wait, by key, with their chances, and what became of them
    "early_outcomes", "removed_outcomes",
    "by_action", "tell_many", "expire", "id_of", "due", "chances", "status", "events", "oldest_open",
    # who decides, and how
    "use", "policies", "mode", "modes", "set_mode",
    # what was logged
    "counts", "n_decisions", "description", "evaluate", "evaluation_obstacle", "explain", "export", "history",
    "in_shadow", "lines",
    "replay", "statistic", "verify",
    "version", "quick_check", "rules", "state_hash",
    # a service that starts and stops
    "interrupt", "warm_up",
}  # fmt: skip

NOT_OVER_HTTP = {
    # of a file: made and opened where it is; over HTTP by POST /v1/studies
    "create", "open", "reader", "together", "interrupt", "warm_up",
    # objects that do not travel; `description` says which policy and which rules
    "policy", "rules", "statistic",
    # lines by the thousand: for who has the file, or a backup of it
    "check", "evaluate", "export", "history", "in_shadow", "learn", "model", "pending", "quick_check",
    # in `explain`, `report` or /metrics
    "by_action", "chances", "counts", "due", "evaluation_obstacle", "id_of", "oldest_open", "state_hash", "version",
}  # fmt: skip


def test_a_study_can_what_an_agent_can_and_a_client_what_a_study_can(tmp_path: Path) -> None:
    with cb.Study.create(tmp_path / "mail.db", ENV.problem, "c-ts(prior=beta)") as made:
        agent, here = public(cb.Agent(ENV.problem, "c-ts(prior=beta)")), public(made)
    there = public(RemoteStudy)
    assert agent - here == OF_AGENTS_ALONE
    assert here - agent == OF_STUDIES_ALONE
    assert here - there == NOT_OVER_HTTP
    assert there - here == {"settle", "unsettled"}  # decisions that a client made by its fallback


DIFFERENT_PARAMETERS = {
    ("ask", "key"): "agents have no keys",
    ("ask", "unit"): "agents do not know for whom they decide",
    ("ask", "sticky"): "agents do not know for whom they decide",
    ("report", "path"): "a page is written where the outcomes are; a service has pages of its own",
    ("expire", "limit"): "over HTTP, 10,000 at once",
    ("lines", "limit"): "over HTTP, 10,000",
    ("set_mode", "by"): "a service knows whose key it is",
    ("use", "by"): "a service knows whose key it is",
    ("changed", "by"): "a service knows whose key it is, and an agent has one owner",
    ("correct", "by"): "a service knows whose key it is, and an agent has one owner",
    ("retract", "by"): "a service knows whose key it is, and an agent has one owner",
    ("cancel", "by"): "a service knows whose key it is, and an agent has one owner",
}


def test_calls_take_the_same_parameters_but_for_those_that_differ_on_purpose() -> None:
    found = set()
    for one, other in ((cb.Agent, cb.Study), (cb.Study, RemoteStudy)):
        for name in public(one) & public(other):
            if callable(getattr(one, name)):
                differ = set(_parameters(one, name)) ^ set(_parameters(other, name))
                found |= {(name, parameter) for parameter in differ}
    assert found == set(DIFFERENT_PARAMETERS)


def _parameters(kind: type, name: str) -> list[str]:
    return list(inspect.signature(getattr(kind, name)).parameters)


def test_a_study_is_made_from_the_same_words_here_over_http_and_on_the_command_line() -> None:
    here = set(inspect.signature(cb.Study.create).parameters) - {"where", "problem", "policy", "clock", "signing_key"}
    there = set(CreateStudyRequest.__struct_fields__) - {"name", "problem", "policy", "parameters"}
    assert there == here
    (create,) = (one.callback for one in study.registered_commands if one.callback.__name__ == "create")
    typed = set(inspect.signature(create).parameters)
    assert here - typed == set()
    assert typed & {"policy", "samples", "rounds", "to"} == {"policy", "samples", "rounds", "to"}


def run(*words: str, fails: bool = False) -> str:
    found = CliRunner().invoke(app, ["study", *words])
    assert (found.exit_code != 0) == fails, found.output
    return found.output


def test_rules_the_past_and_another_policy_on_the_command_line(tmp_path: Path) -> None:
    file = str(tmp_path / "mail.db")
    rules = [
        "--attribution-window",
        "60",
        "--default-reward",
        "0",
        "--late-outcomes",
        "ignore",
        "--hold-until-window",
        "--zero-probability",
        "allow",
    ]
    run("create", "email_campaign", "--to", file, "--policy", "c-ucb", "--horizon", "500", *rules)
    past = tmp_path / "past.csv"
    past.write_text("subject,template,send_time,clicked\nshort,1,morning,1\nlong,2,evening,0\n")
    assert run("learn", file, str(past), "--reward", "clicked") == "Learned from 2 of 2 rows, at trust_past 0.5.\n"
    assert "already learned" in run("learn", file, str(past), "--reward", "clicked")
    assert json.loads(run("ask", file, "--key", "a"))["id"].startswith("d0-")
    assert json.loads(run("tell", file, "a", "1"))["status"] == "held"
    run("retract", file, "a")
    run("retract", file, "a")  # again, the same success
    run("retract", file, "b", fails=True)
    assert "Policy: c-ts(prior=beta, samples=4)" in run("use", file, "c-ts(prior=beta)", "--samples", "4")
    assert "Expired: 0 decisions" in run("expire", file)
    with cb.Study.open(file) as made:
        found = made.rules
        assert (found.late_outcomes, found.hold_until_window, found.zero_probability, made.n_outcomes) == (
            "ignore",
            True,
            "allow",
            2,
        )
        assert made.status("a") == "open"
    run("create", "email_campaign", "--to", str(tmp_path / "b.db"), "--late-outcomes", "perhaps", fails=True)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[cb.Study, RemoteStudy]]:
    """A study here, and another at the other end of HTTP, of the same seed."""
    policy = cb.policy("c-ts", prior="beta", samples=8)
    here = cb.Study.create(tmp_path / "here.db", ENV.problem, policy, seed=1, attribution_window=9, default_reward=0)
    cb.Study.create(tmp_path / "there.db", ENV.problem, policy, seed=1, attribution_window=9, default_reward=0).close()
    running = Served(build_service([tmp_path / "there.db"]))
    with here, cb.connect(f"http://127.0.0.1:{running.port}/there") as there:
        yield here, there
    running.stop()


def test_answers_over_http_are_those_in_process(pair: tuple[cb.Study, RemoteStudy]) -> None:
    here, there = pair
    for rng, one in zip((np.random.default_rng(0), np.random.default_rng(0)), pair, strict=True):
        for segment in ("new", "regular", "lapsed"):
            for decision in one.ask(15, context={"segment": segment}):
                seen = ENV.pull(decision.action, rng, context={"segment": segment})
                one.tell(decision.id, reward=seen.reward, observed=seen.parents)
    assert there.problem.fingerprint == here.problem.fingerprint
    assert there.recommend(context={"segment": "new"}) == here.recommend(context={"segment": "new"})
    assert repr(there.recommend(confidence=0.5, tolerance=0.1)) == repr(here.recommend(confidence=0.5, tolerance=0.1))
    for asked in ({}, {"context": {"segment": "new"}, "confidence": 0.5, "tolerance": 0.1}):
        tables = [one.recommend(**asked).table() for one in pair]
        assert tables[0] == tables[1]
        assert repr(tables[0]) == repr(tables[1])
        pages = [one.recommend(**asked).table(limit=3, offset=2) for one in pair]
        assert pages[0] == pages[1]
        assert pages[0].rows == tables[0].rows[2:5]
    assert there.recommendations()[0][1].table() == here.recommendations()[0][1].table()
    assert there.recommendations() == here.recommendations()
    assert there.recommendations(limit=1) == here.recommendations(limit=1)
    assert len(there.recommendations(limit=1)) == 1
    assert there.evidence() == here.evidence()
    assert there.evidence(alpha=0.01).alpha == 0.01
    assert (
        (there.n_outcomes, there.n_decisions, there.budget)
        == (here.n_outcomes, here.n_decisions, here.budget)
        == (45, 45, None)
    )
    assert there.report() == json.loads(json.dumps(here.report().to_record()))
    assert there.verify() == here.verify()
    assert there.lines() == json.loads(json.dumps(here.lines()))
    untimed = [[{**one, "at": 0, "id": ""} for one in own.events(3, 5)] for own in pair]
    assert untimed[0] == json.loads(json.dumps(untimed[1]))
    assert there.description() == json.loads(json.dumps(here.description()))
    assert there.status(0) == here.status(0) == "told"
    assert there.status("nobody") is here.status("nobody") is None
    assert there.replay(44)
    assert there.expire() == here.expire() == 0
    for one in pair:
        one.use(cb.policy("c-ts", scales="given", samples=4))
        with pytest.raises(UnknownDecisionError):
            one.status(1000)
        assert one.tell(one.ask(key="last").id, reward=1).status == "incomplete"
        with pytest.raises(TellError):
            one.tell("last")
        with pytest.raises(TellError):
            one.tell("last", reward=float("inf"))
    assert there.ask(key="last")[1:] == here.ask(key="last")[1:]
    assert there.ask(2, key="two") == there.ask(2, key="two")
    assert [one.action for one in there.ask(2, key="two")] == [one.action for one in here.ask(2, key="two")]


def test_a_policy_of_your_own_does_not_travel(pair: tuple[cb.Study, RemoteStudy]) -> None:
    class Mine(cb.policies.CausalThompsonSampling):
        pass

    with pytest.raises(PolicyError, match="cannot be sent over HTTP"):
        pair[1].use(Mine(prior="beta"))


def test_infinite_numbers_travel() -> None:
    from causalbandits.policies.robust.evidence import Alarm, Evidence, ModelClaim
    from causalbandits.study.remote.wire import decode_evidence, encode_evidence

    claim = ModelClaim("graph", "a", "b", float("-inf"), False, 3, "")
    found = Evidence((claim,), (Alarm(1, "a", "b", float("inf"), "c"),), 3, 0.05)
    assert decode_evidence(json.loads(json.dumps(encode_evidence(found), allow_nan=False))) == found


def test_evidence_that_waits_for_an_earlier_outcome_prints_alike_over_http(
    pair: tuple[cb.Study, RemoteStudy],
) -> None:
    for rng, one in zip((np.random.default_rng(0), np.random.default_rng(0)), pair, strict=True):
        for decision in one.ask(4, context={"segment": "new"})[1:]:
            seen = ENV.pull(decision.action, rng, context={"segment": "new"})
            one.tell(decision.id, reward=seen.reward, observed=seen.parents)
    here, there = (one.evidence() for one in pair)
    assert (here.later, here.missing) == (there.later, there.missing) == (3, 0)
    assert there == here
    assert "tested: all 3 outcomes wait for the outcome of decision 0" in repr(there)
    assert repr(there) == repr(here)


# Keys


def test_keys_are_made_and_revoked_while_the_service_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cb.Study.create(tmp_path / "mail.db", ENV.problem, "c-ts(prior=beta)", seed=1).close()
    file = tmp_path / "keys.json"
    running = Served(build_service([tmp_path / "mail.db"]))

    def status(key: str | None = None, host: str = "127.0.0.1") -> int:
        header = {} if key is None else {"Authorization": f"Bearer {key}"}
        return running.fetch("GET", "/v1/studies", None, Host=host, **header)[0]

    try:
        assert status() == 200
        first = Keys(file).create("first", "reader")  # in another process, say
        assert (status(), status(first)) == (401, 200)
        second = Keys(file).create("second", "reader")
        assert status(second, host="elsewhere") == 200
        Keys(file).revoke("first")
        assert (status(first), status(second)) == (401, 200)
        text = file.read_text()
        file.write_text("{")
        with caplog.at_level(logging.ERROR):
            assert (status(), status(first), status(second)) == (401, 401, 200)
        assert sum("keys are unchanged" in one.message for one in caplog.records) == 1
        file.unlink()
        assert (status(), status(second)) == (503, 503), "nobody gets in while they are missing"
        file.write_text(text)
        Keys(file).revoke("second")  # the last one: nobody gets in, rather than everybody
        assert (status(), status(second)) == (401, 401)
    finally:
        running.stop()


def test_a_page_that_is_looked_at_ends_when_its_key_is_revoked(tmp_path: Path) -> None:
    import http.client

    cb.Study.create(tmp_path / "mail.db", ENV.problem, "c-ts(prior=beta)", seed=1).close()
    keys = Keys(tmp_path / "keys.json")
    keys.create("boss", "admin")
    key = keys.create("guest", "reader")
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
        connection.request("GET", "/mail/live", None, {"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        assert answer.readline().startswith(b"data:")
        Keys(tmp_path / "keys.json").revoke("guest")
        assert b"data:" not in answer.read()  # which ends
        connection.close()
    finally:
        running.stop()


# What the pages say


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_every_line_with_curl_does_what_the_page_says(tmp_path: Path) -> None:
    file = tmp_path / "campaign.db"
    cb.Study.create(
        file, cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=28, attribution_window=3600, default_reward=0
    ).close()
    key = Keys(tmp_path / "keys.json").create("backend", "writer")
    running = Served(build_service([file]))
    try:
        commands = list(
            _commands((DOCS / "how-to/http-service.md").read_text(), f"http://127.0.0.1:{running.port}", key)
        )
        assert commands
        for command in commands:
            found = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=True)
            answer = json.loads(found.stdout)
            assert "detail" not in answer, (command, answer)
        assert {one.get("status", "applied") for one in json.loads(found.stdout).get("items", [])} <= {"applied"}
        with cb.Study.open(file) as found_there:
            assert found_there.n_decisions == found_there.n_outcomes == 1
            assert found_there.verify()
    finally:
        running.stop()


def _commands(text: str, address: str, key: str) -> Iterator[str]:
    """The lines with curl on a page, with the service's address and a key."""
    shell = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ")
    shell = shell.replace("http://127.0.0.1:8000", address).replace("cb_...", key)
    for found in re.finditer(r"^[^\n#]*?\bcurl (?:[^'\n]|'[^']*')*", shell, re.MULTILINE):
        command = found.group(0)[found.group(0).index("curl") :]
        if "Authorization" not in command:
            command += f" -H 'Authorization: Bearer {key}'"
        yield f"{command} -s"


def test_the_unit_of_systemd_is_one(tmp_path: Path) -> None:
    text = (DOCS / "how-to/operations.md").read_text()
    (unit,) = re.findall(r"```ini\n(.*?)```", text, re.DOTALL)
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words = shlex.split(start)[1:]
    assert words[0] == "serve"
    taken = {option for option in words if option.startswith("--")}
    known = CliRunner().invoke(app, ["serve", "--help"]).output
    assert all(option in known for option in taken)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    here = unit.replace("/opt/causalbandits/bin/causalbandits", "/bin/true")
    assert _complaints(tmp_path, here) == []
    assert _complaints(tmp_path, here.replace("Restart=always", "Restart=allways")) != []


def _complaints(tmp_path: Path, unit: str) -> list[str]:
    file = tmp_path / "causalbandits.service"
    file.write_text(unit)
    command = ["systemd-analyze", "verify", "--man=no", str(file)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return [line for line in found.stderr.splitlines() if file.name in line]


def test_a_decision_is_given_as_such_or_by_its_id_everywhere(pair: tuple[cb.Study, RemoteStudy]) -> None:
    """In an agent, a study and over HTTP: what `ask` returned need not be taken apart."""
    agent = cb.Agent(pair[0].problem, "c-ts(prior=beta)", seed=1)
    campaigns: list[Any] = [agent, *pair]
    for campaign in campaigns:
        for name in ("explain", "status", "due", "chances"):
            decision = campaign.ask()
            if hasattr(campaign, name):
                assert getattr(campaign, name)(decision) == getattr(campaign, name)(decision.id), name
            campaign.cancel(decision)
        values = {name: campaign.problem.variable(name).states[0] for name in campaign.problem.must_observe}
        decision = campaign.ask()
        campaign.tell(decision, reward=1, observed={**values, **decision.action})
        campaign.correct(decision, reward=0)
        campaign.retract(decision)
        campaign.cancel(decision)
        with pytest.raises(CausalBanditsError):
            campaign.cancel(cb.Decision(id=0 if campaign is agent else "d99-0", action={}))
