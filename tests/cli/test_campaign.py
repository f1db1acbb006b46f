"""A campaign on the command line, and a page about one: on a study's file and on an agent's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
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
    return [f"--observed={name}={value}" for name, value in seen.parents.items()], seen.reward, dict(seen.parents)


@pytest.mark.parametrize("kind", ["agent", "study"])
def test_a_campaign_on_the_command_line_is_the_one_in_python(tmp_path: Path, kind: str) -> None:
    file, here = tmp_path / "there", cb.Agent(ENV.problem, "c-ts(prior=beta)", seed=3)
    if kind == "agent":
        here.save(file)
    else:
        cb.Study.create(file, ENV.problem, "c-ts(prior=beta)", seed=3).close()
        here = cb.Study.create(tmp_path / "here", ENV.problem, "c-ts(prior=beta)", seed=3)
    for k in range(8):
        asked, own = json.loads(run("ask", file)), here.ask()
        number = cb.Decision(asked["id"], {}).number
        assert (number, asked["action"]) == (own.number, own.action)
        parents, reward, values = told(asked["action"], k)
        assert json.loads(run("tell", file, asked["id"], reward, *parents))["status"] == "applied"
        here.tell(own.id, reward=reward, observed=values)
    assert run("recommend", file, "--confidence", 0.9).strip() == repr(here.recommend(confidence=0.9))
    assert run("study", "recommend", file) == run("recommend", file) if kind == "study" else True


@pytest.mark.parametrize("kind", ["agent", "study"])
def test_the_ranking_of_actions_is_printed_as_text_and_as_json(tmp_path: Path, kind: str) -> None:
    file, here = tmp_path / "there", cb.Agent(ENV.problem, "c-ts(prior=beta)", seed=3)
    if kind == "agent":
        here.save(file)
    else:
        cb.Study.create(file, ENV.problem, "c-ts(prior=beta)", seed=3).close()
    recommendation = here.recommend(tolerance=0.1)
    table = recommendation.table()
    printed = run("recommend", file, "--tolerance", 0.1, "--table")
    assert printed.strip() == f"{recommendation!r}\n\n{table.format_rows()}"
    record = json.loads(run("recommend", file, "--tolerance", 0.1, "--table", "--json"))
    assert record["table"]["items"] == table.to_dicts()
    assert (record["table"]["total"], record["mean"]) == (80, recommendation.mean)
    assert (record["stop"], record["stop_reason"]) == (False, "error bound 1 > 0.05")
    assert "table" not in json.loads(run("recommend", file, "--json"))


def test_an_incomplete_outcome_is_completed_without_repeating_its_reward(tmp_path: Path) -> None:
    file = tmp_path / "study.db"
    cb.Study.create(file, ENV.problem, "c-ts(prior=beta)", seed=3).close()
    asked = json.loads(run("ask", file))
    parents, reward, _ = told(asked["action"], 0)
    receipt = json.loads(run("tell", file, asked["id"], reward))
    assert receipt["status"] == "incomplete"
    assert f"causalbandits tell FILE {asked['id']} --observed subject=..." in receipt["why"]
    assert json.loads(run("tell", file, asked["id"], *parents))["status"] == "applied"
    assert json.loads(run("tell", file, asked["id"], reward, *parents))["status"] == "duplicate"
    second = json.loads(run("ask", file))
    result = CliRunner().invoke(app, ["tell", str(file), second["id"]])
    assert result.exit_code != 0
    assert "REWARD" in str(result.exception)
    agent = tmp_path / "agent.json"
    cb.Agent(ENV.problem, "c-ts(prior=beta)", seed=3).save(agent)
    run("ask", agent)
    result = CliRunner().invoke(app, ["tell", str(agent), "0", *parents])
    assert (result.exit_code, "REWARD" in str(result.exception)) == (1, True)


def test_the_command_line_names_its_options_and_no_python(tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    cb.Agent(ENV.problem.without_cpts(), "c-ts(prior=beta, cpts=learned)", seed=3).save(file)
    printed = run("recommend", file)
    way_out = "CPTs are learned online; plan a number of rounds with causalbandits forecast"
    assert f"Stopping rule: not available: {way_out}" in printed
    for option, value in (("--confidence", 2), ("--tolerance", -1)):
        result = CliRunner().invoke(app, ["recommend", str(file), option, str(value)])
        assert result.exit_code == 2
        assert option in re.sub(r"\x1b\[[0-9;]*m", "", result.output)


def test_a_study_is_asked_and_told_by_key_and_told_twice_it_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "campaign.db"
    cb.Study.create(file, ENV.problem, "c-ts(prior=beta)", seed=3).close()
    first = json.loads(run("ask", file, "--key", "visitor-1"))
    assert json.loads(run("ask", file, "--key", "visitor-1")) == first
    parents, reward, _ = told(first["action"], 0)
    statuses = [json.loads(run("tell", file, "visitor-1", reward, *parents))["status"] for _ in range(2)]
    assert statuses == ["applied", "duplicate"]


def test_digits_that_could_be_a_number_and_a_key_are_refused_until_it_is_said_which(tmp_path: Path) -> None:
    file = tmp_path / "campaign.db"
    cb.Study.create(file, ENV.problem, "c-ts(prior=beta)", seed=3).close()
    run("ask", file)
    asked = json.loads(run("ask", file, "--key", "0"))
    parents, reward, _ = told(asked["action"], 0)
    with pytest.raises(CausalBanditsError, match="key of another, number 1"):
        run("tell", file, "0", reward, *parents)
    run("tell", file, "0", reward, *parents, "--by", "key")
    run("study", "cancel", file, "0", "--by", "number")
    with cb.Study.open(file) as study:
        assert [study.explain(number)["status"] for number in (0, 1)] == ["cancelled", "told"]


def test_what_a_campaign_cannot_take_is_refused_and_its_file_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    cb.Agent(ENV.problem, "c-ts(prior=beta)", seed=3).save(file)
    run("ask", file)
    before = file.read_bytes()
    for arguments, says in (
        (("tell", file, 7, 1), "Unknown decision 7"),
        (("tell", file, 0, 2, *told({}, 0)[0]), r"\[0, 1\]"),
        (("tell", file, "visitor-1", 1), "no keys"),
        (("tell", file, 0, 1, "--observed", "subject=green"), "subject must be one of"),
        (("tell", file, 0, 1, "--observed", "subject=short,template=1"), "Repeat the option for each variable"),
        (("tell", file, 0, 1, "--observed", "nobody=green"), "nknown variable"),
        (("ask", file, "--key", "visitor-1"), "no keys"),
        (("ask", tmp_path / "nothing"), "Cannot read"),
    ):
        with pytest.raises(CausalBanditsError, match=says):
            CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert file.read_bytes() == before
    (tmp_path / "text").write_text("hello")
    with pytest.raises(StateError, match="a saved agent:"):
        CliRunner().invoke(app, ["ask", str(tmp_path / "text")], catch_exceptions=False)


def played(problem: cb.Problem, rounds: int) -> cb.Agent:
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=1)
    for k in range(rounds):
        decision = agent.ask()
        z = problem.decode_parents(tuple(0 for _ in problem.parents))
        agent.tell(decision.id, reward=k % 2, observed={name: decision.action.get(name, z[name]) for name in z})
    return agent


def test_a_page_about_an_agent_needs_nothing_else_and_says_what_it_recommends(tmp_path: Path) -> None:
    agent = played(ENV.problem, 60)
    agent.ask()
    agent.report(tmp_path / "campaign.html")
    text = (tmp_path / "campaign.html").read_text(encoding="utf-8")
    for word in ("Outcomes: 60", "Pending decisions: 1", "configuration", "subject = ", "Misspecification test"):
        assert word in text
    assert repr(agent.recommend()).splitlines()[0] in text
    assert "Ranking of actions" in text
    assert not re.findall(r"(?:src|href)=.(?!data:)", text)
    assert [path.name for path in tmp_path.iterdir()] == ["campaign.html"]
    first = (tmp_path / "campaign.html").stat().st_size
    agent.report(tmp_path / "campaign.html")  # it is replaced
    assert (tmp_path / "campaign.html").stat().st_size == first


def test_a_page_is_made_before_the_first_reward_and_where_only_a_graph_is_known(tmp_path: Path) -> None:
    cb.Agent(ENV.problem, "c-ts(prior=beta)", seed=1).report(tmp_path / "new.html")
    assert "No outcome yet." in (tmp_path / "new.html").read_text(encoding="utf-8")
    names = {name: ["0", "1"] for name in "ABY"}
    graph = cb.CausalGraph({"A": [], "B": ["A"], "Y": ["A", "B"]}, values=names, hidden=[("B", "Y")])
    agent = cb.Agent(
        cb.Problem(graph, manipulable=["A", "B"], reward="Y", reward_parents=[], optional=True),
        "ts(prior=beta)",
        seed=1,
    )
    agent.tell(agent.ask().id, reward=1)
    agent.report(tmp_path / "graph.html")
    assert "Rewards by action" in (tmp_path / "graph.html").read_text(encoding="utf-8")


def test_hostile_names_stay_text_on_a_page(tmp_path: Path) -> None:
    model = cb.CausalModel(
        [
            cb.Variable(HOSTILE, ["<b>x", "y"], table=[0.5, 0.5]),
            cb.Variable("z", [HOSTILE, "b"], parents=[HOSTILE], table=[[0.2, 0.8], [0.7, 0.3]]),
        ]
    )
    played(cb.Problem(model, manipulable=[HOSTILE], reward_parents=["z"], optional=True), 30).report(
        tmp_path / "x.html"
    )
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in text
    assert "<script" not in text
    assert "<b>x" not in text


def test_a_page_has_a_pages_name_so_that_no_other_file_is_lost(tmp_path: Path) -> None:
    agent = cb.Agent(ENV.problem, "c-ts(prior=beta)", seed=1)
    agent.save(tmp_path / "agent.json")
    with pytest.raises(StateError, match=r"to an \.html file only"):
        agent.report(tmp_path / "agent.json")
    with pytest.raises(StateError, match="does not exist"):
        agent.report(tmp_path / "nowhere" / "a.html")


def test_a_default_reward_out_of_range_is_refused_by_the_option_s_name(tmp_path: Path) -> None:
    options = ["--reward", "y", "--manipulable", "a=x,z", "--reward-range", "0,1", "--attribution-window", "60"]
    to = ["--to", str(tmp_path / "new.db")]
    found = CliRunner().invoke(app, ["study", "create", "a -> y", *options, *to, "--default-reward", "7"])
    assert isinstance(found.exception, CausalBanditsError)
    assert str(found.exception).startswith("--default-reward must lie in reward_range, from 0 to 1")
    assert not (tmp_path / "new.db").exists()
    found = CliRunner().invoke(app, ["study", "create", "a -> y", *options, *to])
    assert str(found.exception).startswith("--attribution-window and --default-reward belong together")


def test_a_contradiction_names_the_commands_that_resolve_it(tmp_path: Path) -> None:
    file = tmp_path / "study.db"
    with cb.Study.create(file, ENV.problem, "c-ts(prior=beta)", seed=1) as study:
        study.ask()
        study.tell(0, reward=1, observed={"subject": "short", "template": "1"})
    command = [sys.executable, "-m", "causalbandits.cli", "tell", str(file), "0", "0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "To change it, use causalbandits study correct FILE 0 REWARD" in done.stderr
    assert "correct(" not in done.stderr


def test_numbers_stand_for_their_intervals_as_in_python(tmp_path: Path) -> None:
    graph, file = "age -> visits; channel -> visits -> sale", tmp_path / "study.db"
    knobs = ["--manipulable", "channel=web,mail", "--values", "visits=low,high", "--reward", "sale"]
    run("study", "create", graph, *knobs, "--context", "age", "--bins", "age=0,30,60", "--to", file)
    asked = json.loads(run("ask", file, "--context", "age=25"))
    same = json.loads(run("tell", file, asked["id"], 1, "--observed", "visits=low", "--observed", "age=29.5"))
    assert same["status"] == "applied"
    for option in (["ask", file, "--context", "age=61"], ["recommend", file, "--context", "age=old"]):
        result = CliRunner().invoke(app, [*map(str, option)])
        assert isinstance(result.exception, CausalBanditsError)
        assert "[30, 60]" in str(result.exception)
    assert "Context: age=[0, 30)" in run("recommend", file, "--context", "age=7")
    result = CliRunner().invoke(app, ["tell", str(file), asked["id"], "1", "--observed", "age=40"])
    assert "[0, 30)" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "way_out"),
    [
        (["ask", "absent.db"], "causalbandits study create"),
        (["serve", "absent.db"], "causalbandits study create"),
        (["study", "expire", "study.db"], "--attribution-window and --default-reward"),
    ],
)
def test_errors_of_commands_name_commands_and_options(tmp_path: Path, arguments: list[str], way_out: str) -> None:
    cb.Study.create(tmp_path / "study.db", ENV.problem, "c-ts(prior=beta)", seed=3).close()
    command = [sys.executable, "-m", "causalbandits.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert way_out in done.stderr
    assert not re.search(r"Study\.|\w\(", done.stderr)


def test_a_new_study_prints_its_rules(tmp_path: Path) -> None:
    """A mistyped window or baseline shows before the first visitor comes."""
    rules = ["--attribution-window", 3600, "--default-reward", 0, "--holdout", 0.15]
    baseline = ["--baseline", "send_time=morning", "--baseline", "purpose=Promo"]
    output = run("study", "create", "email_campaign", "--to", tmp_path / "a.db", *rules, *baseline)
    assert "Attribution window: 3600 s, default reward 0, late outcomes: apply\n" in output
    assert "Control group: 15% of units, always send_time=morning, purpose=Promo\n" in output
    output = run("study", "create", "email_campaign", "--to", tmp_path / "b.db")
    assert "Attribution window: none; decisions without an outcome stay open\n" in output
    assert "Control group" not in output


WITHOUT_GRAPH = {
    "reward": "click",
    "manipulable": {"purpose": ["promo", "news"], "colour": ["red", "blue"]},
    "values": {"subject": ["short", "long"]},
}


@pytest.mark.parametrize("kind", ["agent", "study"])
def test_the_learned_structure_is_printed_written_and_handed_on(tmp_path: Path, kind: str) -> None:
    file, problem = tmp_path / "there", cb.Problem.from_spec(WITHOUT_GRAPH)
    here = cb.Agent(problem, seed=1) if kind == "agent" else cb.Study.create(file, problem, seed=1)
    rng = np.random.default_rng(0)
    for _ in range(150):
        decision = here.ask()
        subject = "short" if rng.random() < (0.9 if decision.action["purpose"] == "promo" else 0.1) else "long"
        here.tell(
            decision, reward=float(rng.random() < (0.9 if subject == "short" else 0.1)), observed={"subject": subject}
        )
    structure = here.structure()
    if isinstance(here, cb.Agent):
        here.save(file)
    before = file.read_bytes()
    printed = run(
        "structure", file, "--at-least", 0.9, "--out", tmp_path / "graph.json", "--picture", tmp_path / "s.svg"
    )
    assert printed.startswith(repr(structure))
    assert f"Graph (edges with probability 0.9 or more): {structure.graph(0.9).to_text()}" in printed
    assert "purpose -> subject; subject -> click" in printed
    assert kind == "study" or file.read_bytes() == before
    assert cb.read(tmp_path / "graph.json") == structure.graph(0.9)
    assert "<svg" in (tmp_path / "s.svg").read_text()
    record = json.loads(run("structure", file, "--json"))
    assert record == json.loads(json.dumps({**structure.to_record(), "text": repr(structure)}))
    if kind == "study":
        assert run("study", "structure", file) == run("structure", file)
        words = ["--reward", "click", "--manipulable", "purpose,colour", "--to", tmp_path / "next.db"]
        assert "c-ts(cpts=learned)" in run("study", "create", tmp_path / "graph.json", *words)
        result = CliRunner().invoke(app, ["structure", str(tmp_path / "next.db")])
        assert result.exit_code == 1
        assert "causal graph of this problem is given" in str(result.exception)
