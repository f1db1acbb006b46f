"""The default policy: an agent, a study, the command line and the service choose the same, with the same warnings."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.test_service import Served
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import ProblemWarning
from causalbandits.fitting import prior_model
from causalbandits.service.server import build_service

EMAIL, PARENTS = cb.zoo.email_campaign().problem.model, cb.zoo.email_campaign().problem.parents
GRAPH = {"a": [], "b": [], "s": ["a", "b"], "y": ["s"]}
STATES = {"a": [0, 1], "b": [0, 1], "s": ["x", "y"], "y": [0, 1]}
ROWS = {"a": [0, 1] * 9, "b": [0, 0, 1] * 6, "s": ["x", "y"] * 9, "y": [0, 1, 1] * 6}
MANY = 70


def wide() -> cb.CausalModel:
    return cb.CausalModel([cb.Variable("x", list(range(MANY)), table=np.full(MANY, 1 / MANY))])


Build = Callable[[], Any]
PROBLEMS: dict[str, tuple[Build, list[str], dict[str, Any]]] = {
    "known CPTs": (lambda: EMAIL, ["product", "purpose", "send_time"], {"reward_parents": list(PARENTS)}),
    "unknown CPTs": (lambda: prior_model(GRAPH, values=STATES), ["a", "b"], {"reward": "y"}),
    "fitted CPTs": (lambda: cb.fit(GRAPH, ROWS, values=STATES), ["a", "b"], {"reward": "y"}),
    "many states": (wide, ["x"], {"reward_parents": ["x"]}),
    "no CPTs": (lambda: cb.CausalGraph(GRAPH, values=STATES), ["a", "b"], {"reward": "y"}),
}


def build(kind: str) -> cb.Problem:
    model, manipulable, arguments = PROBLEMS[kind]
    return cb.Problem(model(), manipulable=manipulable, **{"optional": True, **arguments})


def on_the_command_line(kind: str, folder: Path, *options: str) -> tuple[cb.policies.Policy[Any], str]:
    """The policy of a study that the command line creates, and what it prints to stderr."""
    model, manipulable, arguments = PROBLEMS[kind]
    cb.write(model(), folder / "model.json")
    given = [
        f"--{name.replace('_', '-')}={value if isinstance(value, str) else ','.join(value)}"
        for name, value in arguments.items()
    ]
    command = [sys.executable, "-m", "causalbandits.cli", "study", "create", str(folder / "model.json")]
    command += [
        "--manipulable",
        ",".join(manipulable),
        "--optional",
        "all",
        *given,
        "--to",
        str(folder / "c.db"),
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    with cb.Study.open(folder / "c.db") as study:
        return study.policy, done.stderr


def specify(kind: str, folder: Path) -> dict[str, Any]:
    """The specification of the problem."""
    model, manipulable, arguments = PROBLEMS[kind]
    cb.write(model(), folder / "model.json")
    content = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    return {"model": content, "manipulable": manipulable, "optional": True, **arguments}


def over_http(kind: str, folder: Path, **fields: Any) -> tuple[cb.policies.Policy[Any], dict[str, Any]]:
    running = Served(build_service([], directory=folder))
    try:
        body = {"name": "http", "problem": specify(kind, folder), **fields}
        status, answer = running.send("POST", "/v1/studies", body)
    finally:
        running.stop()
    assert status == 201
    with cb.Study.open(folder / "http.db") as study:
        assert answer["policy"] == str(study.policy)
        return study.policy, answer


@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_four_ways_to_start_choose_the_same_policy(kind: str, tmp_path: Path) -> None:
    problem = build(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ProblemWarning)
        expected = cb.default_policy(problem, delayed=True)
        assert cb.Agent(problem, delayed=True).policy == expected
        with cb.Study.create(tmp_path / "p.db", problem) as study:
            assert study.policy == expected
    policy, printed = on_the_command_line(kind, tmp_path)
    assert (policy, printed) == (expected, "")
    policy, answer = over_http(kind, tmp_path)
    assert (policy, answer["warnings"]) == (expected, [])


def test_a_horizon_and_parameters_reach_the_default_everywhere(tmp_path: Path) -> None:
    problem = build("known CPTs")
    expected = cb.policy("c-ts", prior="main-effects", samples=8)
    assert type(cb.default_policy(problem, delayed=True)) is type(expected)
    policy, _ = on_the_command_line("known CPTs", tmp_path, "--samples", "8", "--min-propensity", "0.1")
    assert policy == expected
    assert over_http("known CPTs", tmp_path, parameters={"samples": 8}, min_propensity=0.1)[0] == expected
    (tmp_path / "http.db").unlink()
    (tmp_path / "c.db").unlink()
    expected = cb.default_policy(problem, horizon=40, delayed=True)
    assert on_the_command_line("known CPTs", tmp_path, "--horizon", "40")[0] == expected
    assert over_http("known CPTs", tmp_path, horizon=40)[0] == expected


def test_a_policy_that_takes_unknown_cpts_for_uniform_brings_the_same_warning_everywhere(tmp_path: Path) -> None:
    problem = build("unknown CPTs")
    with pytest.warns(ProblemWarning, match="The CPTs of s are unknown") as heard:
        cb.Agent(problem, "c-ts(prior=beta)")
    text = str(heard[0].message)
    with pytest.warns(ProblemWarning) as heard, cb.Study.create(tmp_path / "p.db", problem, "c-ts(prior=beta)"):
        pass
    assert [str(warning.message) for warning in heard] == [text]
    assert heard[0].filename == __file__
    with cb.Study.create(tmp_path / "q.db", problem) as study:
        with pytest.warns(ProblemWarning) as heard:
            study.use("c-ts(prior=beta)")
        assert [str(warning.message) for warning in heard] == [text]
    assert on_the_command_line("unknown CPTs", tmp_path, "--policy", "c-ts(prior=beta)")[1] == f"Warning: {text}\n"
    answer = over_http("unknown CPTs", tmp_path, policy="c-ts(prior=beta)")[1]
    assert answer["warnings"] == [text]


def test_a_policy_that_is_chosen_over_http_brings_the_warning(tmp_path: Path) -> None:
    cb.Study.create(tmp_path / "a.db", build("unknown CPTs")).close()
    running = Served(build_service([], directory=tmp_path))
    try:
        status, answer = running.send("POST", "/v1/studies/a/policy", {"policy": "c-ts(prior=beta)"})
        assert (status, json.dumps(answer["warnings"]).count("are unknown, and")) == (200, 1)
        status, answer = running.send("POST", "/v1/studies/a/policy", {"policy": "c-ts(prior=beta, cpts=learned)"})
        assert (status, answer["warnings"]) == (200, [])
    finally:
        running.stop()


def draw_specification(rng: np.random.Generator) -> dict[str, Any]:
    """A problem of a random kind: a graph alone, with data, with a context, a model, or no graph."""
    sizes = {name: int(rng.integers(2, 5)) for name in "ksmz"}
    values = {name: [f"{name}{i}" for i in range(size)] for name, size in sizes.items()}
    graphs = ["k -> m -> y", "k -> m -> y; s -> z -> y", "k, s -> m -> y; s -> y", "k -> m; s -> m; m, z -> y"]
    graph = str(rng.choice(graphs))
    knobs = {name: values[name] for name in "ks" if name in graph}
    others = {name: values[name] for name in "mz" if name in graph}
    kind = rng.choice(["graph", "data", "context", "model", "no graph"])
    spec: dict[str, Any] = {"graph": graph, "reward": "y", "manipulable": knobs, "values": others}
    if kind == "data":
        columns = {name: rng.choice(values[name], 60).tolist() for name in (*knobs, *others)}
        spec = {"graph": graph, "reward": "y", "manipulable": knobs, "data": columns}
    elif kind == "context" and "s" in knobs:
        spec |= {"manipulable": {"k": values["k"]}, "context": {"s": values["s"]}}
    elif kind == "model":
        model = cb.Problem.from_spec(spec).model.sample(50, rng=rng)
        fitted = cb.fit(cb.CausalGraph.from_text(graph).projected([*knobs, *others]), model)
        given = cb.CausalModel(fitted.variables.values())
        known = {name: [v for v in values[name] if v in given[name].states] for name in knobs}
        parents = list(cb.CausalGraph.from_text(graph).parents["y"])
        spec = {"model": json.loads(given.to_json()), "reward": "y", "manipulable": known, "reward_parents": parents}
    elif kind == "no graph":
        spec = {"reward": "y", "manipulable": knobs}
    if rng.random() < 0.5:
        spec["optional"] = True
    if rng.random() < 0.3:
        spec["costs"] = {"k": 0.1}
    return spec


@pytest.mark.filterwarnings("ignore::causalbandits.errors.CausalBanditsWarning")
def test_on_random_problems_every_way_to_start_chooses_the_same_policy(tmp_path: Path) -> None:
    rng, chosen = np.random.default_rng(0), set()
    (tmp_path / "service").mkdir()
    running = Served(build_service([], directory=tmp_path / "service"))
    try:
        for number in range(24):
            spec, horizon = draw_specification(rng), [None, 100, 100_000][number % 3]
            problem = cb.Problem.from_spec(spec)
            expected = cb.default_policy(problem, horizon=horizon, delayed=True)
            chosen.add(expected.id)
            assert cb.Agent(problem, horizon=horizon, delayed=True).policy == expected
            with cb.Study.create(tmp_path / f"python-{number}.db", problem, horizon=horizon) as study:
                assert study.policy == expected
            (tmp_path / "problem.json").write_text(json.dumps(spec))
            command = ["study", "create", str(tmp_path / "problem.json"), "--to", str(tmp_path / f"cli-{number}.db")]
            command += [] if horizon is None else ["--horizon", str(horizon)]
            done = CliRunner().invoke(app, command)
            assert done.exit_code == 0, done.exception
            with cb.Study.open(tmp_path / f"cli-{number}.db") as study:
                assert (study.policy, study.problem.fingerprint) == (expected, problem.fingerprint)
            body = {"name": f"s{number}", "problem": spec, **({} if horizon is None else {"horizon": horizon})}
            status, answer = running.send("POST", "/v1/studies", body)
            assert (status, answer.get("policy")) == (201, expected.id), answer
    finally:
        running.stop()
    assert len(chosen) >= 3, chosen
