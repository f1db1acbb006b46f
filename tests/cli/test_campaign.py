"""A campaign on the command line, and a page about one: on a study's file and on an agent's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import CausalBanditsError, StateError

ENV = cb.zoo.email_campaign()
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}$x_1$"


def run(*arguments: Any) -> Any:
    done = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def told(intervention: dict[str, str], seed: int) -> tuple[list[str], float, dict[str, Any]]:
    seen = ENV.pull(intervention, rng=seed)
    return [f"--parent={name}={value}" for name, value in seen.parents.items()], seen.reward, dict(seen.parents)


@pytest.mark.parametrize("kind", ["agent", "study"])
def test_a_campaign_on_the_command_line_is_the_one_in_python(tmp_path: Path, kind: str) -> None:
    file, here = tmp_path / "there", cb.Agent(ENV.problem, "c-ts-beta", seed=3)
    if kind == "agent":
        here.save(file)
    else:
        cb.Study.create(file, ENV.problem, "c-ts-beta", seed=3).close()
        here = cb.Study.create(tmp_path / "here", ENV.problem, "c-ts-beta", seed=3)
    for k in range(8):
        asked, own = json.loads(run("ask", file)), here.ask()
        assert (asked["id"], asked["intervention"]) == (own.id, dict(own.intervention))
        parents, reward, values = told(asked["intervention"], k)
        assert json.loads(run("tell", file, asked["id"], reward, *parents))["status"] == "applied"
        here.tell(own.id, values, reward)
    assert run("recommend", file, "--level", 0.9).strip() == repr(here.recommend(level=0.9))
    assert run("study", "recommend", file) == run("recommend", file) if kind == "study" else True


def test_a_study_is_asked_and_told_by_key_and_told_twice_it_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "campaign.db"
    cb.Study.create(file, ENV.problem, "c-ts-beta", seed=3).close()
    first = json.loads(run("ask", file, "--key", "visitor-1"))
    assert json.loads(run("ask", file, "--key", "visitor-1")) == first
    parents, reward, _ = told(first["intervention"], 0)
    statuses = [json.loads(run("tell", file, "visitor-1", reward, *parents))["status"] for _ in range(2)]
    assert statuses == ["applied", "duplicate"]


def test_digits_that_could_be_a_number_and_a_key_are_refused_until_it_is_said_which(tmp_path: Path) -> None:
    file = tmp_path / "campaign.db"
    cb.Study.create(file, ENV.problem, "c-ts-beta", seed=3).close()
    run("ask", file)
    asked = json.loads(run("ask", file, "--key", "0"))
    parents, reward, _ = told(asked["intervention"], 0)
    with pytest.raises(CausalBanditsError, match="key of another, number 1"):
        run("tell", file, "0", reward, *parents)
    run("tell", file, "0", reward, *parents, "--by", "key")
    run("study", "forget", file, "0", "--by", "number")
    with cb.Study.open(file) as study:
        assert [study.explain(number)["status"] for number in (0, 1)] == ["forgotten", "told"]


def test_what_a_campaign_cannot_take_is_refused_and_its_file_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    cb.Agent(ENV.problem, "c-ts-beta", seed=3).save(file)
    run("ask", file)
    before = file.read_bytes()
    for arguments, says in (
        (("tell", file, 7, 1), "Unknown decision 7"),
        (("tell", file, 0, 2, *told({}, 0)[0]), r"\[0, 1\]"),
        (("tell", file, "visitor-1", 1), "no keys"),
        (("tell", file, 0, 1, "--parent", "subject=green"), "subject is one of"),
        (("tell", file, 0, 1, "--parent", "nobody=green"), "nknown variable"),
        (("ask", file, "--key", "visitor-1"), "no keys"),
        (("recommend", file, "--level", 2), "level"),
        (("ask", tmp_path / "nothing"), "Cannot read"),
    ):
        with pytest.raises(CausalBanditsError, match=says):
            CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert file.read_bytes() == before
    (tmp_path / "text").write_text("hello")
    with pytest.raises(StateError, match="no saved agent"):
        CliRunner().invoke(app, ["ask", str(tmp_path / "text")], catch_exceptions=False)


def played(problem: cb.Problem, rounds: int) -> cb.Agent:
    agent = cb.Agent(problem, "c-ts-beta", seed=1)
    for k in range(rounds):
        decision = agent.ask()
        z = problem.decode_parents(tuple(0 for _ in problem.parents))
        agent.tell(decision.id, {name: decision.intervention.get(name, z[name]) for name in z}, k % 2)
    return agent


def test_a_page_about_an_agent_needs_nothing_else_and_says_what_it_recommends(tmp_path: Path) -> None:
    agent = played(ENV.problem, 60)
    agent.ask()
    agent.report(tmp_path / "campaign.html")
    text = (tmp_path / "campaign.html").read_text(encoding="utf-8")
    for word in ("60 rewards were told; 1 decisions wait", "Configurations", "subject = ", "Does what came contradict"):
        assert word in text
    assert repr(agent.recommend()).splitlines()[0] in text
    assert not re.findall(r"(?:src|href)=.(?!data:)", text)
    assert [path.name for path in tmp_path.iterdir()] == ["campaign.html"]
    first = (tmp_path / "campaign.html").stat().st_size
    agent.report(tmp_path / "campaign.html")  # it is replaced
    assert (tmp_path / "campaign.html").stat().st_size == first


def test_a_page_is_made_before_the_first_reward_and_where_only_a_graph_is_known(tmp_path: Path) -> None:
    cb.Agent(ENV.problem, "c-ts-beta", seed=1).report(tmp_path / "new.html")
    assert "No reward was told yet." in (tmp_path / "new.html").read_text(encoding="utf-8")
    names = {name: ["0", "1"] for name in "ABY"}
    graph = cb.CausalGraph({"A": [], "B": ["A"], "Y": ["A", "B"]}, states=names, hidden=[("B", "Y")])
    agent = cb.Agent(cb.Problem(graph, ["A", "B"], reward="Y"), "ts-beta", seed=1)
    agent.tell(agent.ask().id, reward=1)
    agent.report(tmp_path / "graph.html")
    assert "Actions" in (tmp_path / "graph.html").read_text(encoding="utf-8")


def test_hostile_names_stay_text_on_a_page(tmp_path: Path) -> None:
    model = cb.CausalModel(
        [
            cb.Variable(HOSTILE, ["<b>x", "y"], table=[0.5, 0.5]),
            cb.Variable("z", [HOSTILE, "b"], parents=[HOSTILE], table=[[0.2, 0.8], [0.7, 0.3]]),
        ]
    )
    played(cb.Problem(model, [HOSTILE], parents=["z"]), 30).report(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in text
    assert "<script" not in text
    assert "<b>x" not in text


def test_a_page_has_a_pages_name_so_that_no_other_file_is_lost(tmp_path: Path) -> None:
    agent = cb.Agent(ENV.problem, "c-ts-beta", seed=1)
    agent.save(tmp_path / "agent.json")
    with pytest.raises(StateError, match=r"ends in \.html"):
        agent.report(tmp_path / "agent.json")
    with pytest.raises(StateError, match="no folder"):
        agent.report(tmp_path / "nowhere" / "a.html")
