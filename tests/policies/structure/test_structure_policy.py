"""C-TS with learned structure in agents, studies and simulations."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.campaign import LearnedStructure
from causalbandits.errors import PolicyError, ProblemError, TellError
from causalbandits.policies.structure import ParentSetCounts, structure_layout

EMAIL = cb.zoo.email_campaign().problem.model
MANIPULABLE = {name: list(EMAIL[name].states) for name in ("product", "purpose", "send_time")}
OBSERVED = {name: list(EMAIL[name].states) for name in ("subject", "template")}
ENVIRONMENT = cb.Environment(
    cb.Problem(EMAIL, manipulable=list(MANIPULABLE), reward_parents=["subject", "template", "send_time"]),
    cb.zoo.email_campaign().reward,
)


def problem(**arguments) -> cb.Problem:
    return cb.Problem(None, reward="click", manipulable=MANIPULABLE, values=OBSERVED, **arguments)


def sample_outcome(decision: cb.Decision, rng: np.random.Generator) -> tuple[float, dict[str, str]]:
    """The reward and the observed values of a decision in the e-mail campaign."""
    codes, _, reward = ENVIRONMENT.draw_all(ENVIRONMENT.problem.choices(decision.action), rng)
    return reward, {name: OBSERVED[name][codes[name]] for name in OBSERVED}


def play(agent: cb.Agent | cb.Study, rounds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.ask()
        reward, observed = sample_outcome(decision, rng)
        agent.tell(decision, reward=reward, observed=observed)


def test_the_default_policy_of_a_problem_without_a_graph_learns_the_structure() -> None:
    for delayed in (False, True):
        assert cb.default_policy(problem(), delayed=delayed).id == "c-ts-structure"
    assert cb.default_policy(cb.Problem(None, reward="click", manipulable=MANIPULABLE)).id == "ts"


def test_an_agent_finds_the_best_action_and_the_parents() -> None:
    """The true parents are subject, template and send_time; the loss of the recommended action is below 0.02."""
    for seed in range(3):
        agent = cb.Agent(problem(), "c-ts-structure(prior=beta)", seed=seed)
        play(agent, 1500, seed)
        recommendation = agent.recommend()
        assert ENVIRONMENT.gap(dict(recommendation.intervention)) < 0.02
        assert recommendation.stop is None
        structure = agent.structure()
        assert structure.rounds == 1500
        assert structure.probability("purpose", "subject") > 0.99
        assert structure.probability("send_time", "subject") < 0.05
        assert "purpose -> subject" in repr(structure.graph(0.9))
        assert "Into click:" in repr(structure)
        assert {edge["cause"] for edge in structure.to_record()["edges"]} == {*MANIPULABLE, *OBSERVED}


def test_learned_structure_loses_much_less_than_thompson_sampling_per_action() -> None:
    """Of ten replications each: means 29 (3) and 117 (4) when this was written."""
    run = cb.simulate(
        ENVIRONMENT,
        ["c-ts-structure(prior=beta)", "c-ts-structure", "ts(prior=beta)"],
        believed=problem(),
        horizon=1000,
        replications=6,
        seed=1,
        progress=False,
    )
    learned, gaussian, ts = (float(run.regret(name)[:, -1].mean()) for name in run.policies)
    assert learned < 0.5 * ts
    assert gaussian < 0.7 * ts


def test_the_order_of_actions_does_not_matter_for_ties() -> None:
    """With every value order reversed the regret stays of the same size: no rule such as "the first" breaks ties."""
    reversed_values = {name: states[::-1] for name, states in MANIPULABLE.items()}
    regrets = []
    for values in (MANIPULABLE, reversed_values):
        losses = []
        for seed in range(4):
            agent = cb.Agent(
                cb.Problem(None, reward="click", manipulable=values, values=OBSERVED),
                "c-ts-structure(prior=beta)",
                seed=seed,
            )
            rng, loss = np.random.default_rng(seed), 0.0
            for _ in range(500):
                decision = agent.ask()
                reward, observed = sample_outcome(decision, rng)
                loss += ENVIRONMENT.gap(decision.action)
                agent.tell(decision, reward=reward, observed=observed)
            losses.append(loss)
        regrets.append(np.mean(losses))
    assert max(regrets) < 70.0
    assert max(regrets) < 2.5 * min(regrets)


def test_an_outcome_that_lacks_an_observed_variable_is_refused_and_a_lost_one_is_reported() -> None:
    agent = cb.Agent(problem(), seed=0)
    decision = agent.ask()
    with pytest.raises(TellError, match="lacks 'subject', 'template'"):
        agent.tell(decision, reward=1)
    agent.tell(decision, reward=1, observed={"subject": "short", "template": None})
    assert any("1 outcome lacks a value" in caveat for caveat in agent.recommend().caveats)
    assert agent.structure().rounds == 0


def test_a_study_completes_incomplete_outcomes_and_decides_like_an_agent(tmp_path: Path) -> None:
    agent = cb.Agent(problem(), seed=5)
    with cb.Study.create(tmp_path / "study.db", problem(), seed=5) as study:
        rng = np.random.default_rng(0)
        for number in range(60):
            decision, other = study.ask(), agent.ask()
            assert decision.action == other.action
            reward, observed = sample_outcome(decision, rng)
            agent.tell(other, reward=reward, observed=observed)
            if number % 7 == 0:
                receipt = study.tell(decision.id, reward=reward)
                assert (receipt.status, receipt.missing) == ("incomplete", ("subject", "template"))
            assert study.tell(decision.id, reward=reward, observed=observed).status == "applied"
        assert study.statistic.to_record() == agent._statistic.to_record()
        assert study.structure().to_record() == agent.structure().to_record()
        assert study.verify()
    with cb.Study.open(tmp_path / "study.db") as again:
        assert again.statistic.to_record() == agent._statistic.to_record()


def test_a_saved_agent_goes_on_where_it_stopped(tmp_path: Path) -> None:
    agent = cb.Agent(problem(), seed=2)
    play(agent, 80, 0)
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json")
    assert isinstance(again._statistic, ParentSetCounts)
    assert [again.ask().action for _ in range(5)] == [agent.ask().action for _ in range(5)]


def test_propensities_of_several_samples_are_their_shares() -> None:
    agent = cb.Agent(problem(), cb.policy("c-ts-structure", samples=40), seed=0)
    play(agent, 150, 1)
    decision = agent.ask()
    assert 1 / 40 <= decision.propensity <= 1.0
    assert round(decision.propensity * 40, 9) == round(decision.propensity * 40)


def test_contexts_and_costs_count() -> None:
    """y = 1 with probability 0.8 if x equals the segment, else 0.2; x = 1 costs 0.5, so that x = 0 is best if c = 0."""
    found = cb.Problem(
        None,
        reward="y",
        manipulable={"x": [0, 1]},
        values={"v": ["p", "q"]},
        context={"c": [0, 1]},
        costs={"x": {1: 0.1}},
    )
    agent = cb.Agent(found, "c-ts-structure(prior=beta)", seed=0)
    rng = np.random.default_rng(0)
    for _ in range(600):
        c = int(rng.integers(2))
        decision = agent.ask(context={"c": c})
        reward = float(rng.random() < (0.8 if decision.action["x"] == c else 0.2))
        agent.tell(decision, reward=reward, observed={"v": str(rng.choice(["p", "q"]))})
    for c in range(2):
        best = agent.recommend(context={"c": c})
        assert dict(best.intervention) == {"x": c}
        assert best.mean == pytest.approx(0.8, abs=0.08)
    assert agent.structure().probability("v", "y") < 0.2
    with pytest.raises(cb.CausalBanditsError, match="context"):
        agent.ask()


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """90% intervals of the recommended action in 40 random problems x -> v -> y; 36 expected, 30 at least."""
    held = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        cpt, means = rng.dirichlet(np.ones(3), 2), rng.uniform(0.05, 0.95, 3)
        found = cb.Problem(None, reward="y", manipulable={"x": [0, 1], "u": [0, 1]}, values={"v": [0, 1, 2]})
        agent = cb.Agent(found, "c-ts-structure(prior=beta)", seed=seed)
        for _ in range(200):
            decision = agent.ask()
            v = int(rng.choice(3, p=cpt[decision.action["x"]]))
            agent.tell(decision, reward=float(rng.random() < means[v]), observed={"v": v})
        best = agent.recommend(confidence=0.9)
        truth = float(cpt[best.intervention["x"]] @ means)
        held += best.lower <= truth <= best.upper
    assert held >= 30


def test_structure_is_refused_where_it_is_not_learned() -> None:
    agent = cb.Agent(cb.zoo.email_campaign().problem, seed=0)
    with pytest.raises(PolicyError, match="causal graph of this problem is given"):
        agent.structure()
    with pytest.raises(PolicyError, match="one mean reward per action"):
        cb.Agent(cb.Problem(None, reward="click", manipulable=MANIPULABLE), seed=0).structure()
    with pytest.raises(PolicyError, match="'ts' does not learn the causal structure"):
        cb.Agent(problem(), "ts", seed=0).structure()
    with pytest.raises(PolicyError, match="this problem's graph is given"):
        cb.Agent(cb.zoo.email_campaign().problem, "c-ts-structure")
    structure = cb.Agent(problem(), seed=0).structure()
    with pytest.raises(PolicyError, match="is no possible edge"):
        structure.probability("click", "subject")
    with pytest.raises(PolicyError, match="at_least must be a probability"):
        structure.graph(2)


def test_a_simulation_whose_environment_does_not_draw_an_observed_variable_is_refused() -> None:
    believed = cb.Problem(None, reward="click", manipulable=MANIPULABLE, values={**OBSERVED, "device": ["phone", "pc"]})
    with pytest.raises(ProblemError, match="'device', and the environment has no such variable; it has 'product'"):
        cb.simulate(ENVIRONMENT, "c-ts-structure", believed=believed, horizon=10, replications=1, progress=False)


def test_certain_sets_take_no_random_number() -> None:
    found = problem(
        require_edges=[("purpose", "subject"), *itertools.product(MANIPULABLE, ["template"])],
        forbid_edges=[("product", "subject"), ("send_time", "subject"), ("subject", "template")],
        max_parents=5,
    )
    layout = structure_layout(found)
    weights = layout.parent_sets.weights(layout.parent_sets.empty(), "beta")
    assert [len(w) for w in weights[:2]] == [1, 1]
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    layout.parent_sets.sample_structure([*weights[:2], np.array([1.0])], rng)
    assert rng.bit_generator.state == before


def test_a_description_reads_no_options_off_a_graph_that_nobody_gave() -> None:
    text = " ".join(str(cb.describe(problem())).split())
    assert "Learned: the causal structure, its CPTs, and mean rewards" in text
    assert "reward_parents" not in text
    assert "one mean reward per action" not in text
    assert "c-ts-structure: the graph is not known" in text


def test_a_check_of_the_graph_is_refused_with_the_way_to_one() -> None:
    with pytest.raises(ProblemError, match=r"requires a graph, .* agent\.structure\(\)\.graph\(\)"):
        cb.Agent(problem(), seed=0).check()


def test_reports_have_the_structure(tmp_path: Path) -> None:
    with cb.Study.create(tmp_path / "study.db", problem(), seed=5) as study:
        assert study.report().parent_set is None
        play(study, 200, 0)
        structure, report = study.structure(), study.report(tmp_path / "page.html")
        best, probability = structure.likeliest_sets("click", 1)[0]
        assert report.parent_set == (best, probability)
        assert report.to_record()["parent_set"] == {"parents": list(best), "probability": probability}
        said = f"Likeliest parent set of the reward: {', '.join(best)} (probability {probability:.2f})"
        assert said in repr(report)
        page = (tmp_path / "page.html").read_text()
        assert "The learned structure" in page
        assert "The causal graph" not in page
        assert "Its variables need not cause the reward" in page
        study.use("ts")
        assert study.report(tmp_path / "page.html").parent_set is None
        page = (tmp_path / "page.html").read_text()
        assert "does not learn the causal structure" in page


def test_a_structure_is_built_again_from_its_record() -> None:
    values = {"subject": [("a", 1), ("b", 2)], "device": [0.5, 1]}
    found = cb.Problem(None, reward="y", manipulable={"x": [0, 1]}, values=values, context={"c": ["p", "q"]})
    agent = cb.Agent(found, seed=0)
    for k in range(20):
        observed = {"subject": values["subject"][k % 2], "device": values["device"][k % 2]}
        agent.tell(agent.ask(context={"c": "p"}), reward=k % 3, observed=observed)
    structure = agent.structure()
    record = json.loads(json.dumps(structure.to_record()))
    again = LearnedStructure.from_record(record)
    assert again == structure
    assert repr(again) == repr(structure)
    assert again.graph(0.2) == structure.graph(0.2)
    assert structure.roles == {"c": "context", "x": "manipulable", "subject": "observed", "device": "observed"}
    assert structure.edges_into("y")[0][1] == max(p for (_, effect), p in structure.edges.items() if effect == "y")


def test_a_record_has_the_hundred_likeliest_sets_of_a_variable() -> None:
    names = {f"v{k}": [0, 1] for k in range(8)}
    structure = cb.Agent(cb.Problem(None, reward="y", manipulable={"x": [0, 1]}, values=names), seed=0).structure()
    again = LearnedStructure.from_record(structure.to_record())
    assert (len(structure.parent_sets["y"]), len(again.parent_sets["y"])) == (256, 100)
    assert again.edges == structure.edges


def test_estimates_are_the_same_when_they_are_asked_for_again() -> None:
    """They are kept until the next outcome, of one context at a time."""
    found = cb.Problem(None, reward="y", manipulable={"x": [0, 1]}, values={"v": [0, 1]}, context={"c": [0, 1]})
    agent, fresh = (cb.Agent(found, seed=0) for _ in range(2))
    for one in (agent, fresh):
        for k in range(12):
            one.tell(one.ask(context={"c": k % 2}), reward=k % 3, observed={"v": k % 2})
            if one is agent:
                one.recommend(context={"c": 0})
                one.recommend(context={"c": 1})
    for c in (0, 1, 0):
        assert agent.recommend(context={"c": c}) == fresh.recommend(context={"c": c})
    assert agent.recommend(context={"c": 0}) != agent.recommend(context={"c": 1})
