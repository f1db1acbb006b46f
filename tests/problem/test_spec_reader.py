"""One specification of a problem: TOML, JSON, a mapping, the command line and HTTP make equal problems; its JSON schema
accepts what the reader accepts."""

from __future__ import annotations

import copy
import json
import random
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("jsonschema")

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.service.test_service import Served

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, ProblemError
from causalbandits.problem import SPEC_ENTRIES, SpecError, format_toml, problem_schema
from causalbandits.service.server import build_service
from commands import run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/specification.md").read_text(encoding="utf-8")
SHOP: dict[str, Any] = {
    "graph": "purpose -> subject -> click; send_time -> click",
    "reward": "click",
    "manipulable": {"purpose": ["promo", "news"], "send_time": ["am", "pm"]},
    "values": {"subject": ["short", "long"]},
}
PROBLEM = cb.Problem(
    SHOP["graph"], reward="click", manipulable=SHOP["manipulable"], values={"subject": ["short", "long"]}
)
VALIDATOR = jsonschema.Draft202012Validator(problem_schema())


def as_toml(spec: dict[str, Any]) -> str:
    return "".join(f"{name} = {format_toml(value)}\n" for name, value in spec.items())


def test_five_ways_to_write_a_problem_without_cpts_make_the_same_study(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(as_toml(SHOP))
    (tmp_path / "shop.json").write_text(json.dumps(SHOP))
    (tmp_path / "shop.dot").write_text("digraph { purpose -> subject -> click; send_time -> click; }")
    (tmp_path / "by_file.toml").write_text(as_toml({**SHOP, "graph": "shop.dot"}))
    options = ["--manipulable", "purpose=promo,news", "--manipulable", "send_time=am,pm", "--reward", "click"]
    options += ["--values", "subject=short,long"]
    ways: dict[str, list[str]] = {
        "toml": ["shop.toml"],
        "json": ["shop.json"],
        "file": ["by_file.toml"],
        "dot": ["shop.dot", *options],
        "text": [SHOP["graph"], *options],
    }
    for name, arguments in ways.items():
        to = str(tmp_path / f"{name}.db")
        done = run("study", "create", *arguments, "--to", to, "--seed", 1, folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), name
        with cb.Study.open(to) as study:
            assert study.problem.fingerprint == PROBLEM.fingerprint, name
            assert study.policy == cb.default_policy(PROBLEM, delayed=True), name
    for file in ("shop.toml", "shop.json", "by_file.toml"):
        assert cb.Problem.from_spec(tmp_path / file).fingerprint == PROBLEM.fingerprint, file
    assert cb.Problem.from_spec(SHOP).fingerprint == PROBLEM.fingerprint


def test_over_http_it_is_the_same_problem(tmp_path: Path) -> None:
    served = Served(build_service([], directory=tmp_path))
    try:
        status, answer = served.send("POST", "/v1/studies", {"name": "shop", "problem": SHOP})
        assert (status, answer["warnings"]) == (201, [])
        status, answer = served.send("POST", "/v1/studies", {"name": "files", "problem": {**SHOP, "graph": "shop.dot"}})
        assert status == 422
        assert [error["field"] for error in answer["errors"]] == ["/problem/graph"]
        assert "does not read files:" in answer["errors"][0]["detail"]
    finally:
        served.stop()
    with cb.Study.open(str(tmp_path / "shop.db")) as study:
        assert study.problem.fingerprint == PROBLEM.fingerprint


def test_the_schema_is_published_and_printed() -> None:
    jsonschema.Draft202012Validator.check_schema(problem_schema())
    assert json.loads((ROOT / "docs/problem.schema.json").read_text(encoding="utf-8")) == problem_schema(), (
        "python docs/tables.py"
    )
    done = run("schema")
    assert json.loads(done.stdout) == problem_schema()


def test_every_example_of_an_entry_is_valid_by_the_schema_and_survives_toml() -> None:
    for name, entry in SPEC_ENTRIES.items():
        jsonschema.validate(entry.example, {**entry.schema})
        assert tomllib.loads(f"{name} = {format_toml(entry.example)}") == {name: entry.example}


def model_of_letters() -> dict[str, Any]:
    """A model in JSON in which A, B -> C -> Y, as in the examples of entries."""
    model = cb.CausalModel([
        cb.Variable("A", ["x", "y"], table=[0.5, 0.5]),
        cb.Variable("B", ["x", "y"], table=[0.5, 0.5]),
        cb.Variable("C", ["x", "y"], parents=["A", "B"], table=[[[0.9, 0.1], [0.5, 0.5]], [[0.4, 0.6], [0.2, 0.8]]]),
        cb.Variable("Y", [0, 1], parents=["C"], table=[[0.8, 0.2], [0.3, 0.7]]),
    ])  # fmt: skip
    return dict(json.loads(model.to_json()))


LETTERS = {"model": model_of_letters(), "manipulable": ["A", "B"], "reward": "Y"}
WITHOUT_MODEL = {
    "graph": "A, B -> C -> Y",
    "manipulable": {"A": ["x", "y"], "B": ["x", "y"]},
    "values": {"C": ["x", "y"]},
    "reward": "Y",
}
WRONG_VALUES: list[Any] = [3.5, -1, "nonsense", True, [], {}, [1, 2, 3], {"A": "x"}, {"nobody": 1}, [[]], {"A": [[]]}]


@pytest.mark.parametrize("base", [LETTERS, WITHOUT_MODEL], ids=["model", "graph"])
@pytest.mark.parametrize("entry", SPEC_ENTRIES)
def test_whatever_the_schema_refuses_the_reader_refuses(entry: str, base: dict[str, Any]) -> None:
    """The schema never forbids an entry that works; in the other way, meaning is the reader's alone."""
    refused = 0
    for value in [*WRONG_VALUES, SPEC_ENTRIES[entry].example]:
        spec = {**base, entry: value}
        if VALIDATOR.is_valid(spec):
            continue
        refused += 1
        with pytest.raises(CausalBanditsError):
            cb.Problem.from_spec(spec)
    assert refused or entry in ("reduce", "optional")
    assert VALIDATOR.is_valid(base)
    cb.Problem.from_spec(base)


WITH_DATA = {
    **{name: value for name, value in WITHOUT_MODEL.items() if name != "values"},
    "data": {"A": ["x", "y"] * 6, "B": ["x", "x", "y"] * 4, "C": ["x", "y", "y"] * 4},
}
BETWEEN_ENTRIES = re.compile(r"max_set: expected (no less than|at most)|reward_range: expected|.*must differ as texts")
"""Errors about numbers or texts that a schema cannot compare."""
LEAVES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 0.5, 1.0, 2.0, 10**30, "", "x", "y", "A", "B", "C", "Y", "->", "smallest", "drop",
    "em", "refuse", "x" * 10_001, [], {}, [[]], {"": []},
]  # fmt: skip


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all parts of a document, but for a model, whose format has a reader of its own."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document if isinstance(document, list) else ())
    )
    inner = [place for key, value in items if key != "model" for place in places(value, (*path, key))]
    return [path, *inner] if path else inner


def draw_part(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth > 2 or kind < 0.6:
        return copy.deepcopy(rng.choice(LEAVES))
    if kind < 0.8:
        return [draw_part(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {rng.choice(["A", "B", "C", "Y", "x", "?"]): draw_part(rng, depth + 1) for _ in range(rng.randint(0, 3))}


def mutate(rng: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    document = copy.deepcopy(document)
    for _ in range(rng.randint(1, 2)):
        if rng.random() < 0.5:
            entry = rng.choice([name for name in SPEC_ENTRIES if name != "model"])
            document[entry] = copy.deepcopy(SPEC_ENTRIES[entry].example) if rng.random() < 0.6 else draw_part(rng)
        *above, last = rng.choice(places(document))
        part = document
        for key in above:
            part = part[key]
        change = rng.random()
        if change < 0.5:
            part[last] = draw_part(rng)
        elif change < 0.7:
            del part[last]
        elif isinstance(part, list):
            part.append(copy.deepcopy(rng.choice(part)))
        else:
            part[last] = [part[last]]
    return document


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_changed_documents_are_valid_by_the_schema_just_when_the_reader_reads_them(seed: int) -> None:
    """What the reader "expected", the schema demands; the reader alone knows names, columns and CPTs."""
    rng = random.Random(seed)
    read = refused = 0
    for _ in range(250):
        document = mutate(rng, rng.choice([LETTERS, WITHOUT_MODEL, WITH_DATA]))
        message = ""
        try:
            cb.Problem.from_spec(document)
        except CausalBanditsError as error:
            message = str(error)
        shown = f"{json.dumps({name: part for name, part in document.items() if name != 'model'})[:500]}: {message}"
        if VALIDATOR.is_valid(document):
            assert "expected" not in message or BETWEEN_ENTRIES.match(message) or "graph's text" in message, shown
            read += not message
        else:
            assert message, shown
            refused += 1
    assert min(read, refused) > 10


def test_an_unknown_entry_is_refused_by_both() -> None:
    spec = {**SHOP, "knobs": ["purpose"]}
    assert not VALIDATOR.is_valid(spec)
    with pytest.raises(SpecError, match="Unknown entry 'knobs'"):
        cb.Problem.from_spec(spec)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**6) | st.floats() | st.sampled_from(["A", "C", "Y", "x", "", "->"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["A", "C", "x", "?"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*SPEC_ENTRIES, "surprise"]), JSON_VALUES, max_size=4))
def test_any_document_makes_a_problem_or_an_error_that_names_no_argument_of_python(entries: dict[str, Any]) -> None:
    for base in (LETTERS, WITHOUT_MODEL):
        message = ""
        try:
            cb.Problem.from_spec({**base, **entries})
        except CausalBanditsError as error:
            message = str(error)
        assert not re.search(rf"\b({'|'.join(SPEC_ENTRIES)})=", message), message


def test_data_and_bins_stand_in_a_specification(tmp_path: Path) -> None:
    ages = [18, 25, 31, 47, 52, 66, 29, 38, 58, 71, 22, 35, 44, 49, 61, 33, 27, 55, 40, 68, 24, 36]
    rows = ["age,price,sale", *(f"{age},{(9, 12)[k % 2]},{k % 3 == 0:d}" for k, age in enumerate(ages))]
    (tmp_path / "past.csv").write_text("\n".join(rows))
    spec = {
        "graph": "age -> price; age, price -> sale",
        "reward": "sale",
        "manipulable": ["price"],
        "context": ["age"],
        "data": "past.csv",
    }
    with pytest.raises(CausalBanditsError, match=r"bins = \{"):
        cb.Problem.from_spec(spec, folder=tmp_path)
    problem = cb.Problem.from_spec({**spec, "bins": {"age": [0, 30, 45, 80]}}, folder=tmp_path)
    assert len(problem.variable("age").states) == 3
    (tmp_path / "sale.toml").write_text(as_toml({**spec, "bins": {"age": [0, 30, 45, 80]}}))
    assert cb.Problem.from_spec(tmp_path / "sale.toml").fingerprint == problem.fingerprint


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("graph = ")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "zoo.toml").write_text('[environment]\nzoo = "email_campaign"')
    for spec, message in (
        (tmp_path / "absent.toml", "Cannot read .*absent.toml"),
        (tmp_path / "broken.toml", "is not a TOML file:"),
        (tmp_path / "list.json", "an object with entries"),
        (tmp_path / "shop.yaml", "a .toml or .json file"),
        (tmp_path / "zoo.toml", r"cb.zoo.email_campaign\(...\).problem"),
        (3, "the name of a .toml or .json file, or a mapping"),
    ):
        with pytest.raises(ProblemError, match=message):
            cb.Problem.from_spec(spec)  # type: ignore[arg-type]


def test_the_specifications_of_the_page_are_read(tmp_path: Path) -> None:
    problem, ages, simulation = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "age.toml").write_text(ages)
    assert "age" in cb.Problem.from_spec(tmp_path / "age.toml").graph.names
    (tmp_path / "shop.toml").write_text(problem)
    assert cb.Problem.from_spec(tmp_path / "shop.toml").fingerprint == PROBLEM.fingerprint
    (request,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert cb.Problem.from_spec(json.loads(request)["problem"]).fingerprint == PROBLEM.fingerprint
    (tmp_path / "shop.toml").write_text(problem + simulation.replace("2000", "20"))
    done = run("simulate", "shop.toml", "--out", "report", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report" / "report.html").exists()
    assert cb.Problem.from_spec(tmp_path / "shop.toml").fingerprint == PROBLEM.fingerprint


def test_a_key_that_is_there_twice_in_a_json_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "twice.json"
    file.write_text('{"graph": "a -> y", "reward": "y", "manipulable": {"a": [1, 2], "a": [3]}}')
    with pytest.raises(cb.errors.ProblemError, match='the key "a" occurs twice'):
        cb.Problem.from_spec(file)


def test_an_entry_below_a_table_of_toml_is_told_where_it_belongs(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('graph = "a -> y"\n[manipulable]\na = [1, 2]\nreward = "y"\n')
    with pytest.raises(ProblemError, match="In TOML, the entry reward must stand above the first table") as raised:
        cb.Problem.from_spec(file)
    assert raised.value.path == ("manipulable", "reward")


def test_dates_are_refused_as_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('graph = "a -> y"\nreward = "y"\n[manipulable]\na = [2024-01-01, 2024-01-02]\n')
    with pytest.raises(ProblemError, match=r"a finite number or a boolean for 'a'; got 2024-01-01\.$"):
        cb.Problem.from_spec(file)


def test_over_http_a_recommendation_without_rewards_names_the_command_that_learns_past_ones(tmp_path: Path) -> None:
    rows = {"purpose": ["promo", "news"] * 5, "subject": ["short", "long"] * 5, "send_time": ["am", "pm"] * 5}
    spec = {"graph": SHOP["graph"], "reward": "click", "manipulable": ["purpose", "send_time"], "data": rows}
    served = Served(build_service([], directory=tmp_path))
    try:
        assert served.send("POST", "/v1/studies", {"name": "shop", "problem": spec})[0] == 201
        (caveat,) = served.send("POST", "/v1/studies/shop/recommendation", {})[1]["caveats"]
    finally:
        served.stop()
    assert caveat.startswith("no rewards observed yet")
    assert caveat.endswith("their rewards count after `causalbandits study learn`")
