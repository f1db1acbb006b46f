"""The code with which users begin, with twenty seeds; and each form in which a problem or a policy may be written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError

ROOT = Path(__file__).parents[2]
README = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)

FRONT_DOOR = """
import causalbandits as cb

problem = cb.Problem(
    "purpose -> subject -> click; send_time -> click",
    reward="click",
    manipulable={"purpose": ["promo", "news"], "send_time": ["am", "pm"]},
    values={"subject": ["short", "long"]},
)
print(problem)
agent = cb.Agent(problem)
decision = agent.ask()
agent.tell(decision, reward=1, observed={"subject": "short"})
print(agent.recommend())
"""


@pytest.mark.parametrize("seed", range(20))
def test_the_front_door_runs_as_printed_and_for_every_seed(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """As printed an agent draws its own seed, so that every run is another one."""
    for code in (FRONT_DOOR, FRONT_DOOR.replace("cb.Agent(problem)", f"cb.Agent(problem, seed={seed})")):
        names: dict[str, Any] = {}
        exec(code, names)
        first, *lines = capsys.readouterr().out.splitlines()
        assert first.startswith("Problem(4 actions on purpose, send_time;")
        assert "observe subject; CPTs are learned online" in first
        assert all(": " in line for line in lines)
        assert set(json.loads(json.dumps(names["decision"].action))) == {"purpose", "send_time"}
        assert names["problem"].must_observe == ("subject",)
        assert (len(names["problem"].actions), names["decision"].id) == (4, 0)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("block", range(len(README)))
def test_the_readmes_code_runs_for_twenty_seeds(
    block: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "docs/tutorials/data", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    code = re.sub(r"\bseed=\d+", f"seed={seed}", README[block])
    exec(code.replace("replications=10", "replications=2"), {})
    assert capsys.readouterr().out


SHOP = "purpose -> subject -> click; send_time -> click"
SETTINGS: dict[str, Any] = {
    "reward": "click",
    "manipulable": {"purpose": ["promo", "news"], "send_time": ["am", "pm"]},
    "values": {"subject": ["short", "long"]},
}
ROWS = {
    "purpose": ["promo", "news"] * 20,
    "send_time": ["am", "am", "pm", "pm"] * 10,
    "subject": ["short", "long", "long"] * 13 + ["short"],
    "click": [0, 1, 0, 0, 1] * 8,
}
MODEL = cb.CausalModel([
    cb.Variable("purpose", ["promo", "news"], table=[0.5, 0.5]),
    cb.Variable("send_time", ["am", "pm"], table=[0.5, 0.5]),
    cb.Variable("subject", ["short", "long"], parents=["purpose"], table=[[0.8, 0.2], [0.3, 0.7]]),
])  # fmt: skip
WAYS: dict[str, Callable[[], cb.Problem]] = {
    "text": lambda: cb.Problem(SHOP, **SETTINGS),
    "commas": lambda: cb.Problem("purpose -> subject; subject, send_time -> click", **SETTINGS),
    "braces": lambda: cb.Problem("purpose -> subject; {subject, send_time} -> click", **SETTINGS),
    "mapping": lambda: cb.Problem({"subject": ["purpose"], "click": ["subject", "send_time"]}, **SETTINGS),
    "networkx": lambda: cb.Problem(
        nx.DiGraph([("purpose", "subject"), ("subject", "click"), ("send_time", "click")]), **SETTINGS
    ),
    "graph": lambda: cb.Problem(cb.CausalGraph.from_text(SHOP), **SETTINGS),
    "dagitty": lambda: cb.Problem("dag { purpose -> subject -> click; send_time -> click }", **SETTINGS),
    "model": lambda: cb.Problem(
        MODEL, manipulable=["purpose", "send_time"], reward="click", reward_parents=["subject", "send_time"]
    ),
    "data": lambda: cb.Problem(SHOP, reward="click", manipulable=["purpose", "send_time"], data=ROWS),
    "no graph": lambda: cb.Problem(None, reward="click", manipulable=SETTINGS["manipulable"]),
    "specification": lambda: cb.Problem.from_spec({"graph": SHOP, **SETTINGS}),
    "limit": lambda: cb.Problem(SHOP, **SETTINGS, max_probability={"subject": {"long": 0.99}}),
    "context": lambda: cb.Problem(f"segment -> click; {SHOP}", **SETTINGS, context={"segment": ["new", "old"]}),
    "context's names": lambda: cb.Problem(
        f"segment -> click; {SHOP}",
        **{**SETTINGS, "values": {**SETTINGS["values"], "segment": ["new", "old"]}},
        context=["segment"],
    ),
    "declared": lambda: cb.Problem(SHOP, **SETTINGS, reward_range=(0, 1), noise_scale=0.5),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::causalbandits.errors.ProblemWarning")
def test_each_form_of_a_problem_is_asked_told_and_recommends(way: str) -> None:
    problem = WAYS[way]()
    agent = cb.Agent(problem, seed=1)
    context = {name: problem.variable(name).states[0] for name in problem.context} or None
    for _ in range(3):
        decision = agent.ask(context=context)
        assert set(decision.action) == {"purpose", "send_time"}
        agent.tell(
            decision, reward=1, observed={name: problem.variable(name).states[0] for name in problem.must_observe}
        )
    best = agent.recommend(context=context)
    assert best.stop in (None, False)
    assert len(best.table()) == len(problem.actions) == 4


def test_optional_variables_may_be_left_alone_and_others_never() -> None:
    sizes = {
        "default": len(cb.Problem(SHOP, **SETTINGS).actions),
        "one": len(cb.Problem(SHOP, **SETTINGS, optional=["send_time"]).actions),
        "all": len(cb.Problem(SHOP, **SETTINGS, optional=True).actions),
        "at once": len(cb.Problem(SHOP, **SETTINGS, max_set=1).actions),
    }
    assert sizes == {"default": 4, "one": 6, "all": 9, "at once": 5}


def test_policies_are_written_in_three_ways() -> None:
    policies = [
        cb.policy("c-ts", prior="beta", cpts="learned"),
        cb.policies.CausalThompsonSampling(prior="beta", cpts="learned"),
        cb.policy("c-ts(prior=beta, cpts=learned)"),
    ]
    assert len({*policies}) == 1
    assert {repr(policy) for policy in policies} == {"c-ts(prior=beta, cpts=learned)"}
    assert cb.policy(repr(policies[0])) == policies[0]
    assert policies[0].label


def test_the_software_and_a_run_are_cited() -> None:
    run = cb.simulate(cb.zoo.coins(), ["c-ts(prior=beta)"], horizon=10, replications=1, seed=0)
    assert "causalbandits" in str(cb.citation())
    assert "Regret Analysis" in str(cb.citation(run))


def test_the_library_is_imported_in_no_time() -> None:
    """Under 130 modules, of which 8 or so are this library's; no NumPy."""
    code = "import sys; import causalbandits; print(len(sys.modules), 'numpy' in sys.modules)"
    modules, numpy = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert (int(modules) < 130, numpy) == (True, "False")


def test_missing_arguments_of_a_problem_are_named() -> None:
    with pytest.raises((TypeError, CausalBanditsError), match="manipulable"):
        cb.Problem(SHOP, reward="click")  # type: ignore[call-arg]
