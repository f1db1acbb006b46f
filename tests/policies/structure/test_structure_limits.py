"""Chance constraints where the structure is learned: actions comply with high posterior probability."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests.policies.structure.worlds import (
    ENVIRONMENT,
    MANIPULABLE,
    OBSERVED,
    play,
    problem,
    randomised_rows,
    sample_outcome,
)

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, PolicyError, ProblemError, ProblemWarning
from causalbandits.policies import situation_for
from causalbandits.policies.structure import structure_layout
from causalbandits.policies.structure.limits import sample_probabilities
from causalbandits.problem import Limit

BETA = "c-ts-structure(prior=beta)"
LIMITS = {"template": {"1": 0.7}}


def chain(**arguments) -> cb.Problem:
    """A problem whose structure is certain: x -> v -> w, and u for nothing; only rewards are compared."""
    return cb.Problem(
        None,
        reward="y",
        manipulable={"x": ["a", "b"], "u": [0, 1]},
        values={"v": ["p", "q", "r"], "w": [0, 1]},
        require_edges=[("x", "v"), ("v", "w")],
        forbid_edges=[("u", "v"), ("u", "w"), ("x", "w")],
        **arguments,
    )


def chain_rows(n: int) -> dict[str, list[object]]:
    rng = np.random.default_rng(2)
    x, u = rng.integers(2, size=n), rng.integers(2, size=n)
    v = np.array([rng.choice(3, p=[[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]][k]) for k in x])
    w = (rng.random(n) < np.array([0.2, 0.5, 0.9])[v]).astype(int)
    return {
        "x": ["ab"[k] for k in x],
        "u": u.tolist(),
        "v": ["pqr"[k] for k in v],
        "w": w.tolist(),
        "y": (rng.random(n) < 0.5).astype(float).tolist(),
        "set": ["x,u"] * n,
    }


def learned(found: cb.Problem, rows: dict[str, list[object]], policy: str = BETA) -> cb.Agent:
    agent = cb.Agent(found, policy, seed=0)
    assert agent.learn(rows, interventions="set").used == len(rows["y"])
    return agent


def samples_by_action(found: cb.Problem, agent: cb.Agent, limit: Limit, repeats: int) -> np.ndarray:
    layout = structure_layout(found)
    draws = [
        layout.by_action(*part)
        for seed in range(repeats)
        for part in sample_probabilities(
            layout.parent_sets, agent._statistic, "beta", limit, (), np.random.default_rng(seed)
        )
    ]
    return np.concatenate(draws)


def test_samples_of_one_row_have_its_beta_distribution() -> None:
    """P(v=q or r | do(x)) is Beta(2 + counts, 1 + count), whatever u is."""
    found, rows = chain(), chain_rows(60)
    agent = learned(found, rows)
    samples = samples_by_action(found, agent, Limit("v", (1, 2), 0.5), 5)
    assert samples.shape == (2000, 4)
    for number, action in enumerate(found.actions):
        at = [v for v, x in zip(rows["v"], rows["x"], strict=True) if x == action["x"]]
        hits = sum(v in ("q", "r") for v in at)
        beta = stats.beta(2 + hits, 1 + len(at) - hits)
        assert stats.kstest(samples[:, number], beta.cdf).pvalue > 1e-3


def test_the_mean_along_a_chain_is_the_sum_over_the_variable_between() -> None:
    found, rows = chain(), chain_rows(60)
    agent = learned(found, rows)
    samples = samples_by_action(found, agent, Limit("w", (1,), 0.5), 10)
    v, w, x = (np.array(rows[name]) for name in ("v", "w", "x"))
    for number, action in enumerate(found.actions):
        expected = 0.0
        for value in "pqr":
            given_x = (1 + ((v == value) & (x == action["x"])).sum()) / (3 + (x == action["x"]).sum())
            expected += given_x * (1 + ((w == 1) & (v == value)).sum()) / (2 + (v == value).sum())
        error = samples[:, number].std() / np.sqrt(len(samples))
        assert samples[:, number].mean() == pytest.approx(expected, abs=4.5 * error)


def true_probability(action: object) -> float:
    rng = np.random.default_rng(0)
    return float(np.mean([sample_outcome(action, rng)[1]["template"] == "1" for _ in range(300)]))


def test_actions_that_break_a_limit_are_not_played_once_their_probability_is_known() -> None:
    found = problem(max_probability=LIMITS)
    agent = learned(found, {**randomised_rows(1500, seed=1), "y": [0] * 1500})
    feasible = agent.policy.feasible(situation_for(agent.policy, found), agent._statistic)
    truth = {action: true_probability(action) for action in found.actions}
    allowed = {feasible.action(position).intervention for position in range(feasible.size)}
    assert {action for action, p in truth.items() if p < 0.62} <= allowed
    assert not {action for action, p in truth.items() if p > 0.78} & allowed
    for _ in range(20):
        decision = agent.ask()
        assert any(dict(action) == dict(decision.action) for action in allowed)
        reward, observed = sample_outcome(decision.action, np.random.default_rng(decision.id))
        agent.tell(decision, reward=reward, observed=observed)
    best = max(
        (action for action, p in truth.items() if p < 0.7),
        key=lambda action: ENVIRONMENT.mean_reward(dict(action)),
    )
    recommendation = agent.recommend()
    assert truth[cb.Intervention(recommendation.intervention)] < 0.75
    assert ENVIRONMENT.mean_reward(dict(best)) - ENVIRONMENT.mean_reward(dict(recommendation.intervention)) < 0.08
    assert "the limits on the probability of outcomes exclude them" in repr(recommendation.table())


def test_it_is_said_if_no_action_is_known_to_comply() -> None:
    found = problem(max_probability=LIMITS)
    agent = cb.Agent(found, BETA, seed=0)
    with pytest.warns(ProblemWarning, match=r"No action satisfies P\(template=1\) <= 0.7 with probability 0.95"):
        decision = agent.ask()
    assert any("no action satisfies P(template=1) <= 0.7" in text for text in agent.recommend().caveats)
    assert decision.action == agent.ask().action  # the most probable one


def test_feasible_actions_are_a_function_of_the_counts() -> None:
    found, rows = problem(max_probability=LIMITS), randomised_rows(300, seed=1)
    order = np.random.default_rng(0).permutation(300)
    one = learned(found, {**rows, "y": [0] * 300})
    other = learned(found, {name: [column[k] for k in order] for name, column in {**rows, "y": [0] * 300}.items()})
    found_sets = [agent.policy.feasible(situation_for(agent.policy, found), agent._statistic) for agent in (one, other)]
    assert found_sets[0].size == found_sets[1].size
    assert [found_sets[0].action(k) for k in range(found_sets[0].size)] == [
        found_sets[1].action(k) for k in range(found_sets[1].size)
    ]


def test_limits_in_a_context_use_its_values_and_hold_with_eligible_actions() -> None:
    found = cb.Problem(
        None,
        reward="y",
        manipulable={"x": ["a", "b"]},
        context={"c": [0, 1]},
        values={"v": [0, 1]},
        max_probability={"v": 0.5},
    )
    rng, n = np.random.default_rng(0), 800
    x, c = rng.integers(2, size=n), rng.integers(2, size=n)
    v = (rng.random(n) < np.where(x == c, 0.8, 0.2)).astype(int)  # x = a is fine where c = 1, and b where c = 0
    rows = {"x": ["ab"[k] for k in x], "c": c.tolist(), "v": v.tolist(), "y": v.astype(float).tolist()}
    agent = learned(found, {**rows, "set": ["x"] * n})
    assert agent.ask(context={"c": 1}).action == {"x": "a"}
    assert agent.ask(context={"c": 0}).action == {"x": "b"}
    with pytest.warns(ProblemWarning, match=r"No action satisfies P\(v=1\) <= 0.5"):
        assert agent.ask(context={"c": 0}, eligible=[{"x": "a"}]).action == {"x": "a"}


def test_limits_and_a_budget_hold_together() -> None:
    costs = {"purpose": {"Awareness": 0.1}}
    found = problem(max_probability=LIMITS, costs=costs)
    agent = cb.Agent(found, BETA, seed=1, budget=cb.Budget(1.0, rounds=40))
    agent.learn(randomised_rows(1500, seed=1), interventions="set")
    play(agent, 40, seed=0)
    assert agent.budget.spent <= 1.0 + 1e-9


def test_a_study_keeps_the_limits_and_its_decisions_are_repeated(tmp_path: Path) -> None:
    found = problem(max_probability=LIMITS)
    path = tmp_path / "study.db"
    with pytest.warns(ProblemWarning, match="No action satisfies"):
        study = cb.Study.create(path, found, "c-ts-structure(prior=beta, samples=4)", seed=2, min_propensity=0.1)
    with study:
        study.learn(randomised_rows(800, seed=1), interventions="set")
        feasible = study.policy.feasible(situation_for(study.policy, found), study.statistic)
        allowed = [dict(feasible.action(position).intervention) for position in range(feasible.size)]
        for number in range(15):
            decision = study.ask()
            assert decision.action in allowed
            reward, observed = sample_outcome(decision.action, np.random.default_rng(number))
            study.tell(decision.id, reward=reward, observed=observed)
            feasible = study.policy.feasible(situation_for(study.policy, found), study.statistic)
            allowed = [dict(feasible.action(position).intervention) for position in range(feasible.size)]
        assert study.verify()
    with cb.Study.open(path) as again:
        assert again.problem.structure_prior.limits == (Limit("template", (0,), 0.7),)
        assert "Differences: none" in repr(again.verify())


def test_limits_survive_the_record_and_the_specification() -> None:
    found = problem(max_probability=LIMITS)
    assert cb.Problem.from_record(found.to_record()).fingerprint == found.fingerprint
    assert found.fingerprint != problem().fingerprint
    specified = cb.Problem.from_spec(
        {"reward": "click", "manipulable": MANIPULABLE, "values": OBSERVED, "max_probability": LIMITS}
    )
    assert specified.fingerprint == found.fingerprint
    assert "Required: P(template=1) <= 0.7." in " ".join(str(cb.describe(found)).split())


def test_what_cannot_keep_or_measure_a_limit_is_refused_in_words() -> None:
    found = problem(max_probability=LIMITS)
    for policy in ("ts", "uniform"):
        with pytest.raises(PolicyError, match="Use the policy that learns them, c-ts-structure"):
            cb.Agent(found, policy)
    with pytest.raises(CausalBanditsError, match="Leave max_probability= out of the problem to forecast"):
        cb.forecast(found, horizon=20, replications=2)
    with pytest.raises(ProblemError, match="Leave max_probability= out to simulate or forecast"):
        cb.simulate(ENVIRONMENT, "c-ts-structure", believed=found, horizon=10, replications=1, progress=False)
