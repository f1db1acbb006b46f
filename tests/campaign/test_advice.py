"""What an agent and a study say of the same campaign: the same, because it is written once."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.campaign import Advice
from causalbandits.errors import CausalBanditsError, StateError

ENV = cb.zoo.email_segments()


def converse(campaign: cb.Agent | cb.Study, rounds: int) -> None:
    """Decisions by the context's turn, with rewards that depend on the decision's number alone."""
    rng = np.random.default_rng(5)
    for t in range(rounds):
        context = {"segment": ENV.problem.variable("segment").states[t % 3]}
        decision = campaign.ask(context=context)
        outcome = ENV.condition(context).pull(decision.action, rng)
        campaign.tell(decision.id, reward=outcome.reward, observed=dict(outcome.parents))


def text_of_page(path: Path) -> str:
    """The page without its pictures, in which Matplotlib numbers things at random."""
    return re.sub(r'src="data:[^"]*"', "", path.read_text())


@pytest.fixture
def campaigns(tmp_path: Path):
    policy = cb.policy("c-ts", prior="beta")
    agent = cb.Agent(ENV.problem, policy, seed=1)
    with cb.Study.create(tmp_path / "study.db", ENV.problem, policy, seed=1) as study:
        converse(study, 90)
        for outcome in study._log.outcomes():  # the agent is told of the same actions
            chosen = outcome.action.intervention
            context = dict(ENV.problem.contexts.values(outcome.context))
            decision = agent.ask(context=context, eligible=[chosen])
            agent.tell(decision.id, reward=outcome.reward, observed=ENV.problem.decode_parents(outcome.z))
        yield agent, study


def test_agent_and_study_give_the_same_advice_on_the_same_outcomes(campaigns):
    agent, study = campaigns
    assert isinstance(agent, Advice)
    assert isinstance(study, Advice)
    for context in (None, {"segment": ENV.problem.variable("segment").states[1]}):
        assert agent.recommend(context=context) == study.recommend(context=context)
    assert agent.recommendations() == study.recommendations()
    assert len(agent.recommendations(limit=2)) == 2
    assert agent.recommendations(limit=2) == agent.recommendations()[:2]
    assert agent.check() == study.check()
    assert agent.model == study.model


def test_agent_and_study_write_the_same_page(campaigns, tmp_path: Path):
    agent, study = campaigns
    agent.report(tmp_path / "agent.html")
    assert study.report(tmp_path / "study.html") == study.report()
    pages = [text_of_page(tmp_path / name) for name in ("agent.html", "study.html")]
    assert "Outcomes: 90\nPending decisions: 0" in pages[1]
    assert pages[0] == pages[1]
    with pytest.raises(StateError, match=r"to an \.html file only"):
        study.report(tmp_path / "study.txt")


def test_both_refuse_a_context_of_probability_0_in_the_same_words(tmp_path: Path):
    segment = cb.Variable("segment", ("new", "old"), table=[1.0, 0.0])
    banner = cb.Variable("banner", ("a", "b"), table=[0.5, 0.5])
    seen = cb.Variable("seen", (0, 1), parents=("segment", "banner"), table=[[[0.9, 0.1]] * 2, [[0.5, 0.5]] * 2])
    problem = cb.Problem(
        cb.CausalModel([segment, banner, seen]),
        manipulable=["banner"],
        reward_parents=["seen"],
        context=["segment"],
        optional=True,
    )
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=1)
    with cb.Study.create(tmp_path / "study.db", problem, "c-ts(prior=beta)", seed=1) as study:
        for campaign in (agent, study):
            for call in (campaign.ask, campaign.recommend):
                with pytest.raises(CausalBanditsError, match=r'probability 0.*zero_probability="allow"'):
                    call(context={"segment": "old"})


def test_the_report_of_past_rows_states_what_it_assumes_and_fits_a_window(tmp_path: Path) -> None:
    """Trusted past rows are an assumption of the interval; long lines wrap; the ranking is a table with all columns."""
    problem = cb.Problem(
        "x -> y; y -> reward", reward="reward", manipulable={"x": ["a", "b"]}, values={"y": [0, 1]}, optional=True
    )
    rows = {"x": ["a", "b"] * 30, "y": [0, 1, 1, 1] * 15, "reward": [0, 1, 1, 0, 1, 0] * 10, "set": ["x"] * 59 + [""]}
    agent = cb.Agent(problem, "c-ts(prior=beta, cpts=learned)", seed=1)
    agent.learn(rows, interventions="set", trust_past=1)
    assumed = "the 60 past rewards have the same means, given the configuration, as future ones (trust_past=1)"
    assert agent.recommend().assumes.endswith(assumed)
    agent.report(tmp_path / "agent.html")
    page = (tmp_path / "agent.html").read_text(encoding="utf-8")
    assert assumed in page
    assert "white-space: pre-wrap" in page
    assert "<th>95% credible interval</th>" in page
    assert "<td>do(), no intervention</td>" in page
    assert "past rewards have" not in cb.Agent(problem, "c-ts(prior=beta, cpts=learned)").recommend().assumes
    doubting = cb.Agent(problem, "c-ts(prior=beta, cpts=learned)", seed=1)
    doubting.learn(rows, interventions="set")
    assert "past rewards have" not in doubting.recommend().assumes
