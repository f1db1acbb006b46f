"""What stands on the pages: an answer for each context, health, where a decision leads, how studies stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import jinja2
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.service.dashboard.pages import _templates, render_page
from causalbandits.service.dashboard.panels import MAX_CONTEXTS, build_panels
from causalbandits.service.server import BoundedServer, build_service, serve

SEGMENTS, EMAIL = cb.zoo.email_segments(), cb.zoo.email_campaign()
MAIL = {"subject": "short", "template": "1", "send_time": "morning"}


def play(study: cb.Study, env: cb.Environment, rounds: int) -> None:
    rng, contexts = np.random.default_rng(0), env.problem.contexts
    with study.together():
        for _ in range(rounds):
            known = dict(contexts.values(contexts.sample(rng))) if env.problem.context else None
            decision = study.ask(context=known)
            seen = env.pull(decision.action, rng, context=known)
            study.tell(decision.id, reward=seen.reward, observed=seen.parents)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("pages")
    with cb.Study.create(
        folder / "segments.db", SEGMENTS.problem, cb.policy("c-ts", prior="beta", samples=8), seed=1
    ) as study:
        play(study, SEGMENTS, 200)
    with cb.Study.create(
        folder / "held.db",
        EMAIL.problem,
        "c-ts(prior=beta)",
        attribution_window=60,
        default_reward=0,
        hold_until_window=True,
    ) as study:
        play(study, EMAIL, 5)
        study.ask()
    cb.Study.create(folder / "none.db", EMAIL.problem, "c-ts(prior=beta)").close()
    running = Served(build_service(sorted(folder.glob("*.db"))))
    yield running
    running.stop()


def shown(served: Served, path: str) -> str:
    status, _, text = served.fetch("GET", path)
    assert status == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_a_page_has_the_answer_for_each_context(served: Served) -> None:
    text = shown(served, "/segments")
    there = cb.connect(f"http://127.0.0.1:{served.port}/segments")
    found = there.recommendations()
    assert len(found) == 3
    for share, one in found:
        done = ", ".join(f"{knob} = {value}" for knob, value in one.intervention.items())
        assert f"segment = {one.context['segment']} {done} {one.mean:.4g}" in text
        assert f"{share:.1%}" in text
    assert "Recommendation in each context" not in shown(served, "/held")
    there.close()


def test_a_page_says_why_the_stopping_rule_is_not_met_and_ranks_all_actions(served: Served) -> None:
    text = shown(served, "/segments")
    assert re.search(r"Stopping rule: not met \(error bound [\d.]+ &gt; 0\.05\)", text)
    assert "Stopping rule" not in shown(served, "/none")
    with cb.connect(f"http://127.0.0.1:{served.port}/segments") as there:
        table = there.recommend().table()
    for row in table[:12]:
        done = ", ".join(f"{knob} = {value}" for knob, value in row.action.items())
        assert f"{row.rank} {done} {row.mean:.4g} {row.lower:.4g} to {row.upper:.4g}" in text
    assert f"{min(12, len(table))} of {len(table)} actions." in text


def test_so_many_contexts_are_shown_and_no_more_the_likeliest_first(tmp_path: Path) -> None:
    """20 of them; and where there are too many to be listed, why none is."""
    for sizes, listed in (((20,), MAX_CONTEXTS), ((300, 300), 0)):
        kinds = [
            cb.Variable(f"c{k}", range(n), table=np.arange(1, n + 1) / (n * (n + 1) / 2)) for k, n in enumerate(sizes)
        ]
        model = cb.CausalModel([
            *kinds,
            cb.Variable("x", [0, 1], table=[0.5, 0.5]),
            cb.Variable("z", [0, 1], parents=["x"], table=[[0.7, 0.3], [0.2, 0.8]]),
        ])  # fmt: skip
        problem = cb.Problem(
            model, manipulable=["x"], reward_parents=["z"], context=[kind.name for kind in kinds], optional=True
        )
        with cb.Study.create(tmp_path / f"{len(sizes)}.db", problem, "c-ts(prior=beta)", seed=1) as study:
            decision = study.ask()
            study.tell(decision.id, reward=1, observed={"z": 1})
            found: Any = build_panels(study)["in_contexts"]
            assert len(found.answers) == listed
            shares = [share for share, _ in found.answers]
            assert shares == sorted(shares, reverse=True)
            assert found.contexts == np.prod(sizes)
            assert ("contexts; the limit is" in found.why_not) == (listed == 0)


def test_what_is_held_is_said_and_has_its_delays(served: Served) -> None:
    text = shown(served, "/held")
    assert "No outcome applied yet: 5 outcomes are delayed until their attribution window has passed." in text
    assert "Delayed 5" in text
    assert "Delays of outcomes ≤ 1 s" in text
    assert "No outcome yet." in text


def test_duplicates_are_counted_and_the_last_verification_is_shown(tmp_path: Path) -> None:
    with cb.Study.create(tmp_path / "mail.db", EMAIL.problem, "c-ts(prior=beta)", seed=1) as study:
        study.ask(2, eligible=[{"send_time": "morning"}])
        state = study.state_hash()
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        text = shown(running, "/mail")
        assert "Duplicates 0 Expired none" in text
        assert "Verified not since the start" in text
        assert state in text
        with cb.connect(f"http://127.0.0.1:{running.port}/mail") as there:
            for _ in range(3):
                there.tell(0, reward=1, observed=MAIL)
            there.verify()
            text = shown(running, "/mail")
            assert "Duplicates 2" in text
            assert re.search(r"Verified \d{4}-\d\d-\d\d", text)
            assert state not in text
            assert 'causalbandits_duplicate_outcomes_total{study="mail"} 2' in running.fetch("GET", "/metrics")[2]
            row = re.search(r"send_time = morning (\d+) \S+ (\d+)", text)
            assert row is not None
            assert row.groups() == ("1", "1")  # an outcome, and a decision that waits
    finally:
        running.stop()


def test_a_broken_log_is_shown_once_it_was_looked_at(tmp_path: Path) -> None:
    import sqlite3

    with cb.Study.create(tmp_path / "mail.db", EMAIL.problem, "c-ts(prior=beta)", seed=1) as study:
        play(study, EMAIL, 3)
    with sqlite3.connect(tmp_path / "mail.db") as database:
        database.execute("UPDATE statistic SET n = n + 1")
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        with cb.connect(f"http://127.0.0.1:{running.port}/mail") as there:
            assert not there.verify()
        assert "Verification failed." in shown(running, "/mail")
    finally:
        running.stop()


def test_the_same_outcomes_make_the_same_state_in_any_order(tmp_path: Path) -> None:
    found = set()
    for k in range(3):
        with cb.Study.create(tmp_path / f"{k}.db", EMAIL.problem, "c-ts(prior=beta)", seed=1) as study:
            decisions = study.ask(20)
            rng = np.random.default_rng(0)
            told = [(one.id, EMAIL.pull(one.action, rng)) for one in decisions]
            for number in np.random.default_rng(k).permutation(20):
                id, seen = told[number]
                study.tell(id, reward=seen.reward, observed=seen.parents)
            found.add(study.state_hash())
    assert len(found) == 1


def test_a_decision_predicts_nothing_while_cpts_are_learned(tmp_path: Path) -> None:
    """The problem has no probabilities: equal ones in their place would be taken for a prediction."""
    with cb.Study.create(tmp_path / "mail.db", EMAIL.problem.without_cpts(), seed=1) as study:
        play(study, EMAIL, 5)
        assert study.explain(study.ask().id)["leads_to"] == []


def test_a_decision_says_where_it_leads_and_what_was_known_of_that_then(tmp_path: Path) -> None:
    with cb.Study.create(tmp_path / "mail.db", EMAIL.problem, "c-ts(prior=beta)", seed=1) as study:
        play(study, EMAIL, 50)
        decision = study.ask()
        before = study.explain(decision.id)["leads_to"]
        play(study, EMAIL, 10)
        again = study.explain(decision.id)["leads_to"]
        assert before == again  # as it was then
        known = {tuple(parents.values()): own for parents, own in study.report().configurations}
        chances = EMAIL.problem.parent_distribution(decision.action)
        for one in before:
            z = EMAIL.problem.encode_parents(one["parents"])
            assert one["probability"] == pytest.approx(float(chances[z]))
            assert one["n"] <= known[tuple(one["parents"].values())].n
        assert [one["probability"] for one in before] == sorted((one["probability"] for one in before), reverse=True)


def test_templates_are_compiled_before_a_service_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cb.Study.create(tmp_path / "mail.db", EMAIL.problem, "c-ts(prior=beta)").close()

    def compiled_late(*given: Any, **named: Any) -> None:
        raise AssertionError("who looks first waits for it")

    def looked_at(server: BoundedServer) -> None:
        monkeypatch.setattr(jinja2.Environment, "compile", compiled_late)
        assert render_page("login.html", wrong=False).status_code == 200

    monkeypatch.setattr(BoundedServer, "run", looked_at)
    _templates.cache_clear()
    serve([tmp_path / "mail.db"])


def test_the_list_says_how_studies_stand(served: Served) -> None:
    text = shown(served, "/")
    assert re.search(r"segments c-ts\(prior=beta, samples=8\) 200 200 0\.\d+ 0 online", text)
    assert "none c-ts(prior=beta) 0 0 – 0 online" in text


def test_the_list_of_studies_has_pages_and_shows_each_study_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from causalbandits.service.dashboard import pages

    monkeypatch.setattr(pages, "STUDIES_PER_PAGE", 4)
    for k in range(9):
        cb.Study.create(tmp_path / f"study-{k}.db", EMAIL.problem, "c-ts(prior=beta)").close()
    running = Served(build_service(sorted(tmp_path.glob("*.db"))))
    try:
        found, path, places = [], "/", []
        while path:
            text = running.fetch("GET", path)[2]
            found += re.findall(r'<a href="/(study-\d)">', text)
            places += re.findall(r"Studies \d+ to \d+ of \d+", text)
            path = next(iter(re.findall(r'<a href="(/\?page=\d+)" rel="next">', text)), "")
        assert found == [f"study-{k}" for k in range(9)]
        assert places == ["Studies 1 to 4 of 9", "Studies 5 to 8 of 9", "Studies 9 to 9 of 9"]
        for wrong in ("0", "4", "-1", "x", "1" * 30):
            status, headers, text = running.fetch("GET", f"/?page={wrong}")
            assert (status, headers["content-type"]) == (422, "text/html; charset=utf-8")
            assert "The list of studies has the pages 1 to 3" in text
    finally:
        running.stop()
    css = Path(pages.__file__).with_name("static").joinpath("style.css").read_text(encoding="utf-8")
    assert re.search(r"main\.narrow \.scroll \{[^}]*max-height: none", css), "no row of the list is out of sight"


def test_errors_are_pages_for_people_and_problem_details_for_programs(served: Served) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path, status in (("/nothing", 404), ("/segments/no/such", 404), ("/segments/mode", 405), ("/problems/no", 404)):
        found, headers, text = served.fetch("GET", path, **browser)
        assert (found, headers["content-type"]) == (status, "text/html; charset=utf-8"), path
        assert "What to do" in text
        assert "default-src 'none'" in headers["content-security-policy"]
    assert served.fetch("GET", "/segments/mode", **browser)[1]["allow"] == "POST"
    for path in ("/v1/studies/nothing/report", "/v1/nothing", "/v1/studies/segments/decisions"):
        assert served.fetch("GET", path, **browser)[1]["content-type"] == "application/problem+json"
    assert served.fetch("GET", "/segments/no/such")[1]["content-type"] == "application/problem+json"
