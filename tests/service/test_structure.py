"""The learned structure over HTTP: the same as in the study, and refused in words where a graph is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.errors import PolicyError
from causalbandits.service.server import build_service

SPECIFICATION = {
    "reward": "click",
    "manipulable": {"purpose": ["promo", "news"], "send_time": ["am", "noon", "pm"]},
    "values": {"subject": ["short", "long"], "device": ["phone", "pc"]},
    "context": {"segment": ["new", "old"]},
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    cb.Study.create(tmp_path / "given.db", cb.zoo.email_campaign().problem, seed=1).close()
    running = Served(build_service([], directory=tmp_path))
    assert running.send("POST", "/v1/studies", {"name": "mail", "problem": SPECIFICATION, "seed": 1})[0] == 201
    yield running
    running.stop()


def play(served: Served, rounds: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        context = {"segment": str(rng.choice(["new", "old"]))}
        decision = served.send("POST", "/v1/studies/mail/decisions", {"context": context})[1]
        subject = "short" if rng.random() < (0.9 if decision["action"]["purpose"] == "promo" else 0.1) else "long"
        observed = {"subject": subject, "device": str(rng.choice(["phone", "pc"]))}
        outcome = {
            "id": decision["id"],
            "reward": int(rng.random() < (0.8 if subject == "short" else 0.1)),
            "observed": observed,
        }
        assert served.send("POST", "/v1/studies/mail/outcomes", {"items": [outcome]})[1]["items"][0]["why"] == ""


def test_the_structure_over_http_is_that_of_the_study(served: Served, tmp_path: Path) -> None:
    play(served, 120)
    status, found = served.send("GET", "/v1/studies/mail/structure")
    assert status == 200
    assert (found["reward"], found["outcomes"], found["unused"]) == ("click", 120, 0)
    assert found["must_observe"] == ["subject", "device"]
    assert [(one["variable"], one["role"]) for one in found["variables"]] == [
        ("segment", "context"),
        ("purpose", "manipulable"),
        ("send_time", "manipulable"),
        ("subject", "observed"),
        ("device", "observed"),
    ]
    probability = {(one["cause"], one["effect"]): one["probability"] for one in found["edges"]}
    assert probability["purpose", "subject"] > 0.99
    assert probability["subject", "click"] > 0.99
    assert probability["device", "click"] < 0.5
    for one in found["parent_sets"]:
        shares = [own["probability"] for own in one["likeliest"]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1.0)
        for cause in {cause for own in one["likeliest"] for cause in own["parents"]}:
            into = sum(own["probability"] for own in one["likeliest"] if cause in own["parents"])
            assert probability[cause, one["variable"]] == pytest.approx(into)
    with cb.connect(f"http://127.0.0.1:{served.port}/mail") as there, cb.Study.open(tmp_path / "mail.db") as here:
        assert there.structure() == here.structure()
        assert repr(there.structure()) == repr(here.structure()) == found["text"]
        assert there.structure().graph(0.9) == here.structure().graph(0.9)
        assert there.structure().must_observe == here.problem.must_observe


def test_an_incomplete_outcome_is_counted_named_and_can_be_completed(served: Served) -> None:
    id = served.send("POST", "/v1/studies/mail/decisions", {"context": {"segment": "new"}})[1]["id"]

    def tell(**outcome: object) -> dict[str, object]:
        answer = served.send("POST", "/v1/studies/mail/outcomes", {"items": [{"id": id, **outcome}]})[1]["items"][0]
        assert isinstance(answer, dict)
        return answer

    receipt = tell(reward=1, observed={"device": "pc"})
    assert (receipt["status"], receipt["missing"]) == ("incomplete", ["subject"])
    assert "does not update the policy" in str(receipt["why"])
    structure = served.send("GET", "/v1/studies/mail/structure")[1]
    assert (structure["outcomes"], structure["unused"]) == (0, 1)
    assert "Outcomes not used: 1" in structure["text"]
    report = served.send("GET", "/v1/studies/mail/report")[1]
    assert (report["incomplete"]["n"], report["incomplete"]["without_parents"]) == (1, 1)
    assert report["incomplete"]["missing"] == report["incomplete"]["first"][0]["missing"] == ["subject"]
    assert "so it does not update the policy" in report["incomplete"]["text"]
    assert 'causalbandits_incomplete_outcomes{study="mail"} 1' in served.send("GET", "/metrics")[1]["text"]
    page = served.fetch("GET", "/mail")[2]
    assert "(missing: subject)" in page
    caveats = served.send("POST", "/v1/studies/mail/recommendation", {"context": {"segment": "new"}})[1]["caveats"]
    assert sum("lack" in caveat for caveat in caveats) == 1, caveats

    assert tell(reward=None, observed={"subject": "short"})["status"] == "applied"
    structure = served.send("GET", "/v1/studies/mail/structure")[1]
    assert (structure["outcomes"], structure["unused"]) == (1, 0)
    assert 'causalbandits_incomplete_outcomes{study="mail"} 0' in served.send("GET", "/metrics")[1]["text"]
    assert "(missing: subject)" not in served.fetch("GET", "/mail")[2]


def test_it_is_refused_in_words_where_a_graph_is_given_or_another_policy_decides(served: Served) -> None:
    status, problem = served.send("GET", "/v1/studies/given/structure")
    assert (status, problem["type"]) == (409, "/problems/structure-not-learned")
    assert problem["detail"].startswith("The causal graph of this problem is given, so no structure is learned.")
    assert "None" not in problem["detail"]
    assert served.send("POST", "/v1/studies/mail/policy", {"policy": "ts"})[0] == 200
    status, problem = served.send("GET", "/v1/studies/mail/structure")
    assert (status, problem["type"]) == (409, "/problems/structure-not-learned")
    assert "Change the policy to c-ts-structure" in problem["detail"]
    assert "No causal structure is learned" in served.fetch("GET", "/problems/structure-not-learned")[2]
    with (
        cb.connect(f"http://127.0.0.1:{served.port}/mail") as there,
        pytest.raises(PolicyError, match="'ts' does not learn the causal structure"),
    ):
        there.structure()


def test_a_study_without_outcomes_has_the_prior_as_its_structure(served: Served) -> None:
    found = served.send("GET", "/v1/studies/mail/structure")[1]
    assert found["outcomes"] == 0
    sets = {one["variable"]: one["likeliest"] for one in found["parent_sets"]}
    assert len({round(own["probability"], 12) for own in sets["subject"]}) == 1
    assert json.dumps(found)
