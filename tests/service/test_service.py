"""The service: what stands in its routes, over a real socket."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import (
    CausalBanditsError,
    ConflictError,
    StateError,
    StudyModeError,
    TellError,
    UnknownDecisionError,
)
from causalbandits.study import RemoteStudy

pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")

import causalbandits.service  # noqa: E402
from causalbandits.service.app import Service  # noqa: E402
from causalbandits.service.auth import COOKIE, ROLES, Keys, allows  # noqa: E402
from causalbandits.service.routes import PAGES, ROUTES  # noqa: E402
from causalbandits.service.server import (  # noqa: E402
    MAX_HEAD_BYTES,
    BoundedServer,
    build_service,
    h11_protocol,
    http_protocol,
    serve,
)

ENV = cb.zoo.email_campaign()


class Served:
    """A service that runs in a thread."""

    def __init__(self, service: Service, http: Any = None, **patience: float) -> None:
        self.service = service
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(service, http=http or http_protocol(), ws="none", log_config=None, lifespan="off")
        self.server = BoundedServer(config, service, **patience)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.service.close()

    def send(
        self, method: str, path: str, body: Any = None, key: str | None = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        own = {"Content-Type": "application/json"} if content is not None else {}
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            own["Authorization"] = f"Bearer {key}"
        connection.request(method, path, content, own)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        is_json = answer.getheader("Content-Type") in ("application/json", "application/problem+json")
        return answer.status, json.loads(text) if is_json else {"text": text.decode()}

    def fetch(self, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, Any, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    cb.Study.create(tmp_path / "mail.db", ENV.problem, "c-ts(prior=beta)", seed=1).close()
    return tmp_path / "mail.db"


@pytest.fixture
def there(served: Served) -> Iterator[RemoteStudy]:
    with cb.connect(f"http://127.0.0.1:{served.port}/mail") as remote:
        yield remote


@pytest.fixture
def served(file: Path) -> Iterator[Served]:
    running = Served(build_service([file]))
    yield running
    running.stop()


def outcome(decision: Any, rng: np.random.Generator) -> dict[str, Any]:
    action = ENV.problem.actions.find(decision.action)
    z, reward = ENV.draw(action.choices, rng)
    return {"id": decision.id, "observed": ENV.problem.decode_parents(z), "reward": reward}


def tell(study: Any, told: dict[str, Any]) -> Any:
    return study.tell(told["id"], reward=told["reward"], observed=told["observed"])


def test_decisions_over_http_are_those_in_process_seed_for_seed(there: RemoteStudy, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    here = cb.Study.create(tmp_path / "here" / "mail.db", ENV.problem, "c-ts(prior=beta)", seed=1)
    rng = np.random.default_rng(0)
    for _ in range(40):
        one, two = here.ask(), there.ask()
        assert (one.number, *one[1:]) == (two.number, *two[1:])
        told = outcome(one, rng)
        assert tell(here, told) == tell(there, {**told, "id": two.id})
    assert there.report() == json.loads(json.dumps(here.report().to_record()))
    here.close()


def test_what_is_sent_again_is_answered_the_same(there: RemoteStudy) -> None:
    decision = there.ask(key="a")
    assert there.ask(key="a") == decision
    told = outcome(decision, np.random.default_rng(0))
    assert [tell(there, told).status for _ in range(3)] == ["applied", "duplicate", "duplicate"]
    with pytest.raises(ConflictError):
        there.ask(key="a", eligible=[{"send_time": "morning"}])
    with pytest.raises(ConflictError):
        tell(there, {**told, "reward": 1 - told["reward"]})
    assert there.correct(told["id"], reward=1 - told["reward"], observed=told["observed"]).status == "applied"
    with pytest.raises(UnknownDecisionError):
        there.tell(99, reward=1)
    with pytest.raises(TellError):
        there.tell(decision.id, reward=1, observed={"subject": "green"})
    assert there.explain(decision.id)["comes_out_again"]
    there.retract(decision.id)
    there.cancel("a")
    assert there.explain("a")["status"] == "cancelled"


def test_many_clients_at_once_get_different_decisions_and_lose_nothing(served: Served, there: RemoteStudy) -> None:
    def client(seed: int) -> list[int]:
        rng, ids = np.random.default_rng(seed), []
        for k in range(15):
            decision = there.ask(key=f"{seed}-{k}")
            if k % 5 == 0:
                assert there.ask(key=f"{seed}-{k}") == decision
            ids.append(decision.number)
            tell(there, outcome(decision, rng))
        return ids

    with ThreadPoolExecutor(8) as pool:
        ids = [id for own in pool.map(client, range(8)) for id in own]
    assert sorted(ids) == list(range(120))
    status, found = served.send("POST", "/v1/studies/mail/verify")
    assert (status, found["ok"]) == (200, True)
    assert there.report()["outcomes"]["n"] == 120


def test_every_route_is_closed_unless_it_says_otherwise_to_every_role(file: Path, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    given = {role: keys.create(role, role) for role in ROLES}
    running = Served(build_service([file]))
    try:
        for route in ROUTES:
            path = route.path.format(study="mail", decision="0")
            body = b"{}" if route.method == "POST" else None
            for role in (None, "wrong", *ROLES):
                key = None if role is None else given.get(role, "cb_wrong")
                status, answer = running.send(route.method, path, body, key)
                if route.role is None:
                    assert status < 400, path
                elif role in (None, "wrong"):
                    assert status == 401, (path, answer)
                elif not allows(role, route.role):
                    assert status == 403, (path, role)
                else:
                    assert status not in (401, 403, 500), (path, role, answer)
            for method in ("DELETE", "PUT", "PATCH"):
                assert running.send(method, path, b"{}", given["admin"])[0] == 405
    finally:
        running.stop()
    text = (tmp_path / "keys.json").read_text()
    assert not any(key in text for key in given.values())
    keys.revoke("writer")
    assert Keys(tmp_path / "keys.json").role_of(given["writer"]) is None


async def sent_by(app: Any, method: str, path: str, key: str | None, body: bytes) -> list[Any]:
    """What an application answers, without a socket."""
    sent, parts = [], [body[start : start + 2**18] for start in range(0, len(body) or 1, 2**18)]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": len(parts) > 0}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")]
    headers += [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("word", ["decisions", "outcomes"])
def test_a_request_passes_through_five_files_of_the_service(file: Path, word: str) -> None:
    folder = str(Path(causalbandits.service.__file__).parent)
    entered: set[str] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            entered.add(Path(frame.f_code.co_filename).name)

    async def traced(service: Service) -> None:
        sys.setprofile(profile)
        try:
            sent = await sent_by(service, "POST", f"/v1/studies/mail/{word}", None, b'{"items": []}' if told else b"{}")
        finally:
            sys.setprofile(None)
        assert sent[0]["status"] in (200, 201)

    told = word == "outcomes"
    threading.setprofile(profile)  # of the writer's thread
    try:
        service = build_service([file])
    finally:
        threading.setprofile(None)
    entered.clear()
    asyncio.run(traced(service))
    assert entered == {"app.py", "auth.py", "commands.py", "group_commit.py", "telemetry.py"}
    service.close()


def test_a_studys_own_routes_are_answered_as_the_framework_would(file: Path, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    of_role = {role: keys.create(role, role) for role in ROLES}
    service, ask, told = build_service([file]), b'{"key": "a"}', b'{"items": [{"id": "a", "reward": 1}]}'
    words = ("decisions", "outcomes", "report", "events", "mode", "expire", "verify", "else", "")
    roles = [None, *of_role.values()]
    cases = list(itertools.product(("POST", "GET", "DELETE"), words, ("mail",), roles, (ask,)))
    bodies = ask, told, b"{", b" ", b"x" * 2**21
    cases += itertools.product(("POST",), ("decisions", "outcomes"), ("mail", "a b"), roles[2:3], bodies)

    async def compared() -> None:
        for method, word, name, key, body in cases:
            given = method, f"/v1/studies/{name}/{word}", key, body
            await sent_by(service, *given)  # so that both of the others ask and tell again
            head, *rest = await sent_by(service, *given)
            assert head["headers"].pop()[0] == b"x-request-id"
            assert [head, *rest] == await sent_by(service.app, *given), given

    asyncio.run(compared())
    service.close()


def test_without_keys_only_this_machine_is_answered(served: Served, file: Path) -> None:
    assert served.send("GET", "/v1/studies")[0] == 200
    assert served.send("GET", "/v1/studies", None, None, Host="evil.example")[0] == 403
    with pytest.raises(StateError, match="a key: causalbandits study keys make"):
        serve([file], host="0.0.0.0")


def test_a_key_of_digits_is_never_taken_for_another_decisions_number(served: Served, there: RemoteStudy) -> None:
    first, by_key, slashed = there.ask(), there.ask(key="0"), there.ask(key="order/17?x=1")
    there.cancel("0")
    assert there.explain(by_key.id)["status"] == "cancelled"
    assert there.explain(first.id)["status"] == "open"
    there.cancel(first.id)
    assert there.explain(0)["status"] == "cancelled"
    assert there.explain("order/17?x=1")["id"] == slashed.id
    status, found = served.send("GET", "/v1/studies/mail/decisions/0")
    assert (status, "key of another, number 1" in found["detail"]) == (422, True)
    assert served.send("GET", "/v1/studies/mail/decisions/1")[1]["key"] == "0"
    assert served.send("GET", "/v1/studies/mail/decisions/-?number=x")[0] == 422


def test_a_page_says_what_is_so_without_outcomes_without_parents_within_a_budget_and_while_paused(
    served: Served, tmp_path: Path
) -> None:
    assert "set to" not in served.fetch("GET", "/mail")[2]
    graph = cb.CausalGraph.from_text("A -> B -> Y; A <-> Y").with_values({"A": [0, 1], "B": [0, 1]})
    hidden = cb.Problem(graph, manipulable=["A", "B"], reward="Y", reward_parents=[], costs={"B": 0.5}, optional=True)
    with cb.Study.create(
        tmp_path / "hidden.db", hidden, "ts(prior=beta)", seed=1, budget=cb.Budget(9, rounds=30)
    ) as study:
        for decision in study.ask(20):
            study.tell(decision.id, reward=1)
        spent = study.budget
        assert spent is not None
        study.set_mode("paused", by="ann", why="a <wrong> price")
    running = Served(build_service([tmp_path / "hidden.db"]))
    try:
        text = running.fetch("GET", "/hidden")[2]
    finally:
        running.stop()
    assert "Configurations" not in text
    assert "No outcome yet" not in text
    assert f"Budget: {spent.spent:.4g} spent, {spent.left:.4g} left for 10 rounds." in text
    assert re.search(r"Mode: paused since .* UTC, set by ann \(reason: a &lt;wrong&gt; price\)", text)


def test_a_file_of_keys_without_a_key_opens_nothing(file: Path, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="only, leave out --keys"):
        build_service([file], tmp_path / "kyes.json")
    keys = Keys(tmp_path / "keys.json")
    keys.create("backend", "writer")
    build_service([file]).close()
    text = keys.path.read_text()
    keys.path.write_text(text.replace("writer", "owner"))
    with pytest.raises(StateError, match="is not a file of keys, or is"):
        build_service([file])
    keys.path.write_text(text)
    keys.revoke("backend")
    with pytest.raises(StateError, match=r"contains no key.*remove .*keys\.json"):
        build_service([file])


def test_a_service_says_where_it_is_only_when_its_studies_are_open(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(CausalBanditsError, match="no study"):
        serve([tmp_path / "nothing.db"], ready=lambda: said.append("here"))
    assert said == []


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("outcomes", b"", 400),
        ("decisions", b"{", 400),
        ("decisions", b"[" * 100_000, 400),
        ("decisions", b"\xff\xfe", 400),
        ("decisions", {"surprise": 1}, 422),
        ("decisions", {"key": ""}, 422),
        ("decisions", {"key": "x" * 1000}, 422),
        ("decisions", {"context": {"segment": "new"}}, 422),
        ("decisions", {"eligible": [{"nobody": 1}]}, 422),
        ("decisions", b" " * (2**20 + 1), 413),
        ("outcomes", {"items": [{"id": 0, "reward": 1}] * 1001}, 413),
        ("outcomes", b'{"items": [{"id": 0, "reward": NaN}]}', 400),
        ("outcomes", b'{"items": 3}', 422),
        ("decisions/0/correct", {"reward": 1}, 404),
        ("decisions/../report", None, 404),
    ],
)
def test_malformed_requests_are_refused_in_words(served: Served, path: str, body: Any, status: int) -> None:
    method = "GET" if body is None else "POST"
    found, answer = served.send(method, f"/v1/studies/mail/{path}", body)
    assert found == status, answer
    assert answer["detail"]


@pytest.mark.parametrize("reward", [1e300, 1e19, -5, 1.5])
def test_rewards_that_cannot_be_are_refused_one_by_one(served: Served, reward: float) -> None:
    status, _ = served.send("POST", "/v1/studies/mail/decisions", {})
    assert status == 201
    status, found = served.send("POST", "/v1/studies/mail/outcomes", {"items": [{"id": 0, "reward": reward}]})
    assert status == 200
    assert found["items"][0]["status"] == "refused"
    assert found["items"][0]["why"]


def test_one_outcome_that_is_mistyped_does_not_keep_back_the_others(served: Served) -> None:
    served.send("POST", "/v1/studies/mail/decisions", {"n": 2, "key": "a"})
    parents = {"subject": "short", "template": "1"}
    told = [{"id": f"early-{k}", "reward": 1, "observed": {**parents, "send_time": "morning"}} for k in range(2)]
    wrong = [{"id": 0, "reward": "1"}, {"id": 0, "reward": True}, {"id": 0}, {"id": 1.5, "reward": 1}, 3, None]
    wrong += [{"id": 0, "reward": 1, "surprise": 1}, {"id": 0, "reward": 1, "observed": {"subject": [1]}}]
    status, found = served.send("POST", "/v1/studies/mail/outcomes", {"items": [told[0], *wrong, told[1], told[1]]})
    assert status == 200
    assert [one["status"] for one in found["items"]] == ["early", *["refused"] * len(wrong), "early", "duplicate"]
    assert all(one["why"] for one in found["items"][1:-2])
    assert found["items"][1]["errors"] == [{"field": "/items/1/reward", "detail": 'must be a number or null; got "1".'}]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/v1/studies/mail/decisions", {"n": 0}, 422, "A request must ask for 1 to 1000 decisions; got 0."),
        (
            "/v1/studies/mail/decisions",
            {"n": 1001},
            413,
            "A request must ask for 1 to 1000 decisions; got 1001.",
        ),
        ("/v1/studies/mail/mode", {"mode": "onlin"}, 422, "Unknown mode 'onlin'. Did you mean 'online'?"),
    ],
)
def test_refusals_say_what_holds_here(served: Served, path: str, body: Any, status: int, says: str) -> None:
    found = served.send("POST", path, body)
    assert found[0] == status
    assert found[1]["detail"].startswith(says)


def test_an_unknown_mode_is_the_same_error_over_http(there: RemoteStudy) -> None:
    with pytest.raises(StudyModeError, match="Did you mean 'paused'"):
        there.set_mode("pause")


def test_a_reward_that_is_a_little_too_much_is_shown_as_it_is(served: Served) -> None:
    told = {"items": [{"id": "early", "reward": 1.0000000001}]}
    (found,) = served.send("POST", "/v1/studies/mail/outcomes", told)[1]["items"]
    assert "got 1.0000000001." in found["why"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/studies", "GET, HEAD, POST"),
        ("GET", "/v1/studies/mail/decisions", "POST"),
        ("DELETE", "/v1/studies/mail/mode", "GET, HEAD, POST"),
        ("POST", "/livez", "GET, HEAD"),
        ("PUT", "/login", "GET, HEAD, POST"),
    ],
)
def test_what_another_method_would_do_is_said(served: Served, method: str, path: str, allowed: str) -> None:
    status, headers, text = served.fetch(method, path)
    assert (status, headers["allow"]) == (405, allowed)
    assert allowed in json.loads(text)["detail"]


def test_a_wrong_key_is_told_from_none(file: Path) -> None:
    Keys(file.parent / "keys.json").create("own", "reader")
    running = Served(build_service([file]))
    try:
        status, found = running.send("GET", "/v1/studies", key="cb_wrong")
        assert (status, found["detail"].partition(":")[0]) == (401, "The service does not know this key")
        status, found = running.send("GET", "/v1/studies")
        assert (status, found["detail"].partition(".")[0]) == (401, "This request requires a key")
    finally:
        running.stop()


def test_a_wrong_content_type_is_refused_so_that_no_page_elsewhere_can_post(served: Served) -> None:
    assert served.send("POST", "/v1/studies/mail/decisions", b"{}", Content_Type="text/plain")[0] == 415


@pytest.mark.parametrize("by", [http_protocol(), h11_protocol()])
@pytest.mark.parametrize(
    "begun",
    [
        b"GET /livez?",
        b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
)
def test_a_head_that_does_not_end_is_not_read_for_ever(file: Path, by: Any, begun: bytes) -> None:
    running = Served(build_service([file]), by)
    try:
        with socket.create_connection(("127.0.0.1", running.port), 20) as client:
            client.sendall(begun)
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                client.sendall(b"x" * 400 * MAX_HEAD_BYTES)
        assert running.send("GET", "/livez")[0] == 200
    finally:
        running.stop()


def test_where_httptools_and_uvloop_are_not_installed_all_is_served_in_pure_python(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "uvicorn.protocols.http.httptools_impl", raising=False)
    for missing in ("httptools", "uvloop"):
        monkeypatch.setitem(sys.modules, missing, None)
    assert http_protocol().__name__ == h11_protocol().__name__
    running = Served(build_service([file]))
    try:
        with cb.connect(f"http://127.0.0.1:{running.port}/mail") as study:
            assert [study.ask().number for _ in range(2)] == [0, 1]
    finally:
        running.stop()


@pytest.mark.parametrize("by", [http_protocol(), h11_protocol()])
def test_a_long_body_is_no_long_head_and_the_connection_goes_on(file: Path, by: Any) -> None:
    running = Served(build_service([file]), by)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
        for size in (0, 5 * MAX_HEAD_BYTES, 0):
            body = b'{"key": "a"' + b" " * size + b"}"
            connection.request("POST", "/v1/studies/mail/decisions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["id"][:3]) == (201, "d0-")
        connection.close()
    finally:
        running.stop()


def test_the_interface_describes_itself(served: Served) -> None:
    status, document = served.send("GET", "/openapi.json")
    assert status == 200
    assert document["openapi"].startswith("3.")
    for route in ROUTES:
        assert route.method.lower() in document["paths"][route.path]
        assert document["paths"][route.path][route.method.lower()]["summary"]


def test_other_studies_are_not_here(served: Served) -> None:
    assert served.send("GET", "/v1/studies/other/report")[0] == 404
    assert served.send("GET", "/nothing")[0] == 404
    with pytest.raises(CausalBanditsError):
        cb.connect("ftp://nowhere")


def test_pages_are_closed_without_a_key_and_open_with_a_cookie(file: Path, tmp_path: Path) -> None:
    key = Keys(tmp_path / "keys.json").create("me", "reader")
    running = Served(build_service([file]))
    try:
        for method, path, role, *_ in PAGES:
            if role is not None and method == "GET" and not path.endswith("live"):
                where = path.format(study="mail")
                status, headers, _ = running.fetch(method, where)
                assert (status, headers["location"]) == (303, "/login"), where
                wrong = running.fetch(method, where, Cookie=f"{COOKIE}=cb_wrong")
                assert wrong[0] == 303
                status, headers, _ = running.fetch(method, where, Cookie=f"{COOKIE}={key}")
                assert status in (200, 400), where
                assert "default-src 'none'" in headers["content-security-policy"]
                assert "unsafe" not in headers["content-security-policy"]
        # A cookie opens pages, and never changes anything: that needs the key itself.
        assert running.send("POST", "/v1/studies/mail/decisions", {}, Cookie=f"{COOKIE}={key}")[0] == 401
        status, headers, _ = running.fetch("POST", "/login", body=f"key={key}")
        assert status == 303
        assert "httponly" in headers["set-cookie"].lower()
        assert "samesite=strict" in headers["set-cookie"].lower()
        assert running.fetch("POST", "/login", body="key=cb_wrong")[0] == 401
        assert running.fetch("GET", "/static/style.css")[0] == 200
        assert running.fetch("GET", "/static/..%2fapp.py")[0] == 404
    finally:
        running.stop()


HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}"


def test_hostile_names_stay_text_on_every_page(tmp_path: Path) -> None:
    model = cb.CausalModel(
        [
            cb.Variable(HOSTILE, ["<b>x", "y"], table=[0.5, 0.5]),
            cb.Variable("z", [HOSTILE, "b"], parents=[HOSTILE], table=[[0.2, 0.8], [0.7, 0.3]]),
        ]
    )
    problem = cb.Problem(model, manipulable=[HOSTILE], reward_parents=["z"], optional=True)
    with cb.Study.create(tmp_path / "x.db", problem, "c-ts(prior=beta)", seed=0) as study:
        decision = study.ask(key=HOSTILE)
        study.tell(decision.id, reward=1, observed={"z": "b"})
    running = Served(build_service([tmp_path / "x.db"]))
    try:
        for where in ("/", "/x", "/x/decision?id=0", "/x/decision?id=%3Cscript%3Ealert(1)%3C/script%3E"):
            _, _, text = running.fetch("GET", where)
            assert "<script>alert" not in text
            assert "<b>x" not in text
    finally:
        running.stop()


def test_a_page_shows_the_answer_the_counts_and_the_graph(served: Served, there: RemoteStudy) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        tell(there, outcome(there.ask(), rng))
    _, _, text = served.fetch("GET", "/mail")
    for word in ("Recommendation", "Ranking of actions", "subject", "template", "<svg", "Configurations", "reward"):
        assert word in text
    _, _, fragment = served.fetch("GET", "/mail?fragment")
    assert "<html" not in fragment
    assert len(fragment) < 200_000
    assert "recomputation" in served.fetch("GET", "/mail/decision?id=0")[2].lower()
    assert served.fetch("GET", "/mail/decision?id=77")[0] == 404


def test_a_study_that_knows_only_a_graph_has_a_page_with_its_hidden_causes(tmp_path: Path) -> None:
    states = {name: ["0", "1"] for name in "ABY"}
    graph = cb.CausalGraph({"A": [], "B": ["A"], "Y": ["A", "B"]}, values=states, hidden=[("B", "Y")])
    problem = cb.Problem(graph, manipulable=["A", "B"], reward="Y", reward_parents=[], optional=True)
    with cb.Study.create(tmp_path / "x.db", problem, "ts(prior=beta)", seed=0) as study:
        study.tell(study.ask().id, reward=1)
    running = Served(build_service([tmp_path / "x.db"]))
    try:
        status, _, text = running.fetch("GET", "/x")
        assert status == 200
        assert 'class="node hidden"' in text
    finally:
        running.stop()


def test_a_page_warns_where_outcomes_contradict_the_model_and_names_the_variable(tmp_path: Path) -> None:
    from causalbandits.service.dashboard.panels import diagnose_model

    found = []
    for right in (True, False):
        (tmp_path / str(right)).mkdir()
        with cb.Study.create(tmp_path / str(right) / "mail.db", ENV.problem, "uniform", seed=0) as study:
            rng = np.random.default_rng(0)
            with study.together():
                for _ in range(600):
                    told = outcome(decision := study.ask(), rng)
                    late = decision.action.get("product") == "Photoshop"
                    tell(study, told if right else {**told, "reward": int(late)})  # product acts by itself
            found.append(diagnose_model(study))
    assert (found[0].messages, found[0].outcomes) == ([], 600)
    assert "product" in found[1].variables
    running = Served(build_service([tmp_path / "False" / "mail.db"]))
    try:
        _, _, text = running.fetch("GET", "/mail")
        assert "⚠ Outcomes contradict the model." in text
        assert 'class="node knob doubted"' in text
        assert "Delays of outcomes" in text
    finally:
        running.stop()


def test_a_page_says_what_another_way_would_have_brought_or_why_it_cannot(tmp_path: Path) -> None:
    with cb.Study.create(
        tmp_path / "mail.db", ENV.problem, cb.policy("c-ts", prior="beta", samples=8), seed=0
    ) as study:
        rng = np.random.default_rng(0)
        for _ in range(30):
            tell(study, outcome(study.ask(), rng))
        expected = study.evaluate({"send_time": "morning"})
    running = Served(build_service([tmp_path / "mail.db"]))
    try:
        status, _, text = running.fetch("GET", "/mail/what-if?send_time=morning&purpose=")
        assert status == 200
        assert all(f"{own.mean:.4g}" in text for own in expected.estimates.values())
        for wrong in ("send_time=midnight", "nobody=1", "subject=short"):
            status, _, text = running.fetch("GET", f"/mail/what-if?{wrong}")
            assert status == 400
            assert 'class="warning"' in text
    finally:
        running.stop()


def test_the_mode_is_changed_by_a_form_of_an_admin_and_of_no_other_site(file: Path, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    given = {role: keys.create(role, role) for role in ROLES}
    running = Served(build_service([file]))
    here = f"http://127.0.0.1:{running.port}"

    def sent(role: str, body: str, origin: str) -> int:
        return running.fetch("POST", "/mail/mode", body, Cookie=f"{COOKIE}={given[role]}", Origin=origin)[0]

    try:
        assert sent("admin", "mode=paused", "http://evil.example") == 403
        assert running.send("GET", "/v1/studies/mail/mode", key=given["reader"])[1]["items"][-1]["mode"] == "online"
        assert [sent(role, "mode=paused", here) for role in ("reader", "writer")] == [403, 403]
        assert sent("admin", "mode=nonsense", here) == 422
        assert sent("admin", "mode=closed", here) == 422  # not without being sure
        assert sent("admin", "mode=paused&why=a+wrong+price", here) == 303
        last = running.send("GET", "/v1/studies/mail/mode", key=given["reader"])[1]["items"][-1]
        assert (last["mode"], last["why"]) == ("paused", "a wrong price")
        assert "admin" in last.values()
        for role, shown in (("reader", False), ("admin", True)):
            page = running.fetch("GET", "/mail", Cookie=f"{COOKIE}={given[role]}")[2]
            assert ("Change the mode" in page) == shown
    finally:
        running.stop()


def test_the_ranking_of_actions_comes_in_pages_and_errors_name_fields(served: Served) -> None:
    path = "/v1/studies/mail/actions"
    status, page = served.send("POST", path, {"limit": 3, "offset": 1, "tolerance": 0.1})
    assert status == 200
    assert [item["rank"] for item in page["items"]] == [2, 3, 4]
    assert (page["total"], page["n_actions"], page["limit"], page["offset"]) == (80, 80, 3, 1)
    assert page["tolerance"] == 0.1
    best = served.send("POST", path, {})[1]["items"][0]
    recommendation = served.send("POST", "/v1/studies/mail/recommendation", {})[1]
    assert best["action"] == recommendation["action"]
    assert (best["mean"], best["lower"], best["upper"]) == tuple(recommendation[n] for n in ("mean", "lower", "upper"))
    assert recommendation["stop"] is False
    assert recommendation["stop_reason"].startswith("error bound ")
    for body, says in (
        ({"limit": 0}, "limit must be between 1 and 1000; got 0"),
        ({"limit": 1001}, "limit must be between 1 and 1000; got 1001"),
        ({"offset": -1}, "offset must be 0 or more; got -1"),
        ({"confidence": 1.5}, "confidence must be a number above 0"),
        ({"tolerance": -1}, "tolerance, the acceptable loss in mean reward, must be 0 or more"),
    ):
        status, answer = served.send("POST", path, body)
        assert (status, says in answer["detail"]) == (422, True), answer
