"""Studies that are made over HTTP, and keys for some studies alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.errors import StateError
from causalbandits.service.auth import Keys
from causalbandits.service.server import build_service
from specs import spec_of

PROBLEM = cb.zoo.email_campaign().problem
WANTED: dict[str, Any] = {"name": "spring", "problem": spec_of(PROBLEM), "policy": "c-ts(prior=beta)", "seed": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cb.Study.create(tmp_path / "mail.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    return tmp_path


@pytest.fixture
def running(folder: Path) -> Iterator[Served]:
    served = Served(build_service([], directory=folder))
    yield served
    served.stop()


def post(running: Served, path: str, body: Any, key: str | None = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    status, _, text = running.fetch("POST", path, json.dumps(body), **headers)
    return status, json.loads(text)


def test_a_study_that_is_made_over_http_decides_as_one_made_here(running: Served, folder: Path, tmp_path: Path) -> None:
    assert post(running, "/v1/studies", WANTED)[0] == 201
    with cb.Study.create(tmp_path / "here.sqlite", PROBLEM, "c-ts(prior=beta)", seed=3) as here:
        for _ in range(3):
            status, found = post(running, "/v1/studies/spring/decisions", {})
            assert (status, found["action"]) == (201, here.ask().action)
    assert json.loads(running.fetch("GET", "/v1/studies")[2]) == {
        "items": [{"study": "mail"}, {"study": "spring"}],
        "next": None,
    }
    running.stop()
    again = build_service([], directory=folder)
    assert sorted(again.context.writers) == ["mail", "spring"]
    again.close()


def test_the_body_on_the_page_creates_a_study(running: Served, folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/http-service.md").read_text(encoding="utf-8")
    body = json.loads(page.split("\n## Studies made over HTTP\n")[1].split("```json\n")[1].split("```")[0])
    status, answer = post(running, "/v1/studies", body)
    assert (status, answer["policy"]) == (201, "c-ts(cpts=learned)"), answer
    with cb.Study.open(folder / f"{body['name']}.db") as study:
        assert (study.problem.must_observe, study.rules.attribution_window) == (("viewed",), 3600)


def test_all_that_a_study_can_be_told_is_taken(running: Served, folder: Path) -> None:
    more = {
        "attribution_window": 60,
        "default_reward": 0,
        "late_outcomes": "ignore",
        "zero_probability": "allow",
        "budget": [5, 100],
    }
    status, _ = post(
        running, "/v1/studies", {**WANTED, "problem": {**WANTED["problem"], "costs": {"product": 0.1}}, **more}
    )
    assert status == 201
    status, _ = post(
        running, "/v1/studies", {**WANTED, "name": "floor", "min_propensity": 0.1, "parameters": {"samples": 8}}
    )
    assert status == 201
    with cb.Study.open(folder / "spring.db") as study:
        assert (study.rules.attribution_window, study.rules.late_outcomes, study.budget.left) == (60, "ignore", 5)
    with cb.Study.open(folder / "floor.db") as study:
        assert (study.rules.min_propensity, study.policy.samples) == (0.1, 8)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"name": "mail"}, 409),
        ({"name": "../mail"}, 422),
        ({"name": "metrics"}, 422),
        ({"name": ""}, 422),
        ({"name": "Caps"}, 422),
        ({"policy": "c-ts-bta"}, 422),
        ({"parameters": {"drws": 3}}, 422),
        ({"problem": {}}, 422),
        ({"problem": {"format": "x", "model": [1, {}]}}, 422),
        ({"min_propensity": 2}, 422),
        ({"attribution_window": 3}, 422),
        ({"late_outcomes": "perhaps"}, 422),
        ({"unheard": 1}, 422),
    ],
    ids=str,
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(
    running: Served, folder: Path, change: dict[str, Any], status: int
) -> None:
    before = sorted(folder.iterdir())
    found, answer = post(running, "/v1/studies", {**WANTED, **change})
    assert (found, "detail" in answer) == (status, True)
    assert [path.name for path in sorted(folder.iterdir())] == [path.name for path in before]
    assert sorted(running.service.context.writers) == ["mail"]


def test_without_a_directory_no_studies_are_made(folder: Path) -> None:
    served = Served(build_service([folder / "mail.db"]))
    try:
        status, answer = post(served, "/v1/studies", WANTED)
        assert (status, "--directory" in answer["detail"]) == (403, True)
    finally:
        served.stop()
    with pytest.raises(StateError, match="is not a directory"):
        build_service([], directory=folder / "nowhere")
    with pytest.raises(StateError, match="Pass one or more studies"):
        build_service([])


def test_a_key_for_one_study_opens_no_other(folder: Path) -> None:
    cb.Study.create(folder / "shop.db", PROBLEM, "c-ts(prior=beta)", seed=1).close()
    keys = Keys(folder / "keys.json")
    own, every = keys.create("mailer", "admin", ["mail"]), keys.create("ann", "admin")
    assert [record.studies for record in Keys(folder / "keys.json")] == [("mail",), None]
    served = Served(build_service([], directory=folder))
    try:
        said = {"Authorization": f"Bearer {own}"}
        assert post(served, "/v1/studies/mail/decisions", {}, own)[0] == 201
        status, answer = post(served, "/v1/studies/shop/decisions", {}, own)
        assert (status, "access to this study" in answer["detail"]) == (403, True)
        assert json.loads(served.fetch("GET", "/v1/studies", **said)[2]) == {"items": [{"study": "mail"}], "next": None}
        assert "shop" not in served.fetch("GET", "/metrics", **said)[2]
        assert "shop" not in served.fetch("GET", "/", **said)[2]
        assert served.fetch("GET", "/shop", **said)[0] == 403
        assert served.fetch("GET", "/mail", **said)[0] == 200
        assert post(served, "/v1/studies", WANTED, own)[0] == 403
        assert post(served, "/v1/studies", WANTED, every)[0] == 201
    finally:
        served.stop()


SHOP: dict[str, Any] = {
    "graph": "{banner, price} -> basket -> sale; shipping -> sale",
    "reward": "sale",
    "manipulable": {"banner": ["plain", "big"], "price": [9, 12], "shipping": ["free", "paid"]},
    "values": {"basket": ["small", "big"]},
    "reward_range": [0, 1],
    "costs": {"shipping": {"free": 0.05}},
}


def test_warnings_of_a_problem_are_those_of_the_request_that_caused_them(running: Served) -> None:
    idle = {**SHOP, "graph": "{banner, price} -> basket; shipping -> sale"}
    del idle["values"]
    found: dict[str, tuple[int, Any]] = {}

    def create(name: str, problem: Any) -> None:
        found[name] = post(running, "/v1/studies", {"name": name, "problem": problem})

    threads = [
        threading.Thread(target=create, args=(f"{kind}-{k}", problem))
        for k in range(4)
        for kind, problem in (("idle", idle), ("shop", SHOP))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, (status, answer) in found.items():
        assert status == 201, answer
        paths = [text for text in answer["warnings"] if "banner, price" in text]
        assert len(paths) == name.startswith("idle"), (name, answer)


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/v1/studies/mail/decisions", '{"key": "a", "key": "b"}', ["/key"]),
        ("/v1/studies/mail/outcomes", '{"items": [], "items": []}', ["/items"]),
        ("/v1/studies/mail/decisions", '{"context": {"x": 1, "x": 2}}', ["/context/x"]),
        (
            "/v1/studies",
            '{"name": "twice", "problem": {"graph": "a -> y", "reward": "y", "manipulable": {"a": [1], "a": [2]}}}',
            ["/problem/manipulable/a"],
        ),
    ],
)
def test_a_key_that_is_there_twice_is_refused_by_its_name(
    running: Served, path: str, body: str, named: list[str]
) -> None:
    status, _, text = running.fetch("POST", path, body, **{"Content-Type": "application/json"})
    answer = json.loads(text)
    assert status == 422, answer
    assert [error["field"] for error in answer["errors"]] == named


def test_an_outcome_with_a_key_twice_does_not_keep_back_the_others(running: Served) -> None:
    post(running, "/v1/studies/mail/decisions", {"n": 2})
    seen = '"observed": {"subject": "short", "template": "1"}'
    body = f'{{"items": [{{"id": 0, "reward": 1, "reward": 0, {seen}}}, {{"id": 1, "reward": 1, {seen}}}]}}'
    _, _, text = running.fetch("POST", "/v1/studies/mail/outcomes", body, **{"Content-Type": "application/json"})
    first, second = json.loads(text)["items"]
    assert (first["status"], [error["field"] for error in first["errors"]]) == ("refused", ["/items/0/reward"])
    assert second["status"] in ("applied", "incomplete")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"values": {**SHOP["values"], "sale": [0, 1]}}, "/problem/values/sale"),
        ({"max_set": 9}, "/problem/max_set"),
        ({"missing": "drop"}, "/problem/missing"),
        ({"graph": None, "values": None, "prior": 5}, "/problem/prior"),
        ({"manipulable": {**SHOP["manipulable"], "banner": [True, "true"]}}, "/problem/manipulable/banner/1"),
        ({"manipulable": {**SHOP["manipulable"], "price": [9, "9"]}}, "/problem/manipulable/price/1"),
    ],
    ids=str,
)
def test_entries_without_effect_are_refused(running: Served, change: Any, named: str) -> None:
    problem = {name: value for name, value in {**SHOP, **change}.items() if value is not None}
    status, answer = post(running, "/v1/studies", {"name": "shop", "problem": problem})
    assert status == 422, answer
    assert [error["field"] for error in answer["errors"]] == [named], answer
    status, answer = post(running, "/v1/studies", {"name": "shop", "problem": {**SHOP, "prior": None}})
    assert (status, [error["field"] for error in answer["errors"]]) == (422, ["/problem/prior"])


def test_a_price_of_a_truth_value_is_found_by_its_text(running: Served) -> None:
    change = {"manipulable": {**SHOP["manipulable"], "banner": [True, False]}, "costs": {"banner": {"true": 0.1}}}
    status, answer = post(running, "/v1/studies", {"name": "shop", "problem": {**SHOP, **change}})
    assert status == 201, answer


def test_json_names_an_action_action_and_costs_by_value(running: Served) -> None:
    assert post(running, "/v1/studies", {"name": "shop", "problem": SHOP, "policy": "c-ts(prior=beta)"})[0] == 201
    path = "/v1/studies/shop"
    _, asked = post(running, f"{path}/decisions", {})
    outcome = {"id": asked["id"], "reward": 1, "observed": {"basket": "big"}}
    assert post(running, f"{path}/outcomes", {"items": [outcome]})[1]["items"][0]["status"] == "applied"

    def get(what: str) -> Any:
        return json.loads(running.fetch("GET", f"{path}{what}")[2])

    assert get(f"/decisions/{asked['id']}")["action"] == asked["action"]
    assert get("/report")["actions"][0]["action"] == asked["action"]
    assert get("/statistics")["items"][0]["action"] == asked["action"]
    _, recommendation = post(running, f"{path}/recommendation", {})
    assert set(recommendation["action"]) == set(recommendation["runner_up"]["action"]) == set(SHOP["manipulable"])
    assert {"mean", "cost"} <= set(recommendation["runner_up"])
    for answer in (get(f"/decisions/{asked['id']}"), get("/report"), get("/statistics"), recommendation):
        assert '"intervention"' not in json.dumps(answer)
    assert get("")["problem"]["costs"] == {"shipping": {"free": 0.05, "paid": 0.0}}
    with cb.connect(f"http://127.0.0.1:{running.port}/shop") as client:
        assert client.problem.cost({**asked["action"], "shipping": "free"}) == 0.05
        found = client.recommend()
        assert dict(found.intervention) == recommendation["action"]
        assert found.runner_up is not None
        assert dict(found.runner_up.action.intervention) == recommendation["runner_up"]["action"]


def test_a_body_whose_fields_are_all_optional_may_be_left_out(running: Served) -> None:
    status, _, text = running.fetch("POST", "/v1/studies/mail/decisions")
    assert (status, json.loads(text)["action"].keys()) == (201, {"product", "purpose", "send_time"})
    assert running.fetch("POST", "/v1/studies/mail/recommendation")[0] == 200
    assert running.fetch("POST", "/v1/studies/mail/outcomes")[0] == 415
    assert running.fetch("POST", "/v1/studies/mail/decisions", "{}")[0] == 415


def test_a_directory_may_be_given_as_an_argument(folder: Path) -> None:
    service = build_service([folder])
    assert (sorted(service.context.writers), service.context.directory) == (["mail"], folder.resolve())
    service.close()
    with pytest.raises(StateError, match="one directory of studies;"):
        build_service([folder], directory=folder)


def test_the_page_has_costs_the_reward_and_whether_what_if_can_answer(running: Served) -> None:
    assert post(running, "/v1/studies", {"name": "shop", "problem": SHOP, "policy": "c-ts(prior=beta)"})[0] == 201
    path = "/v1/studies/shop"
    post(running, f"{path}/decisions", {})
    post(running, f"{path}/outcomes", {"items": [{"id": 0, "reward": 1, "observed": {"basket": "big"}}]})
    page = running.fetch("GET", "/shop")[2]
    assert '<th scope="col">Cost</th><th scope="col">Reward less cost</th>' in page
    assert "<td>reward</td>" in page
    assert "swatch reward" in page
    assert 'class="node reward' in page
    assert "Not available for this study: its decisions are logged without propensities." in page
    assert 'class="whatif"' not in page
    post(running, f"{path}/policy", {"policy": "c-ts(prior=beta, samples=8)"})
    post(running, f"{path}/decisions", {})
    page = running.fetch("GET", "/shop")[2]
    assert 'class="whatif"' in page
    mail = running.fetch("GET", "/mail")[2]
    assert "Reward less cost" not in mail
