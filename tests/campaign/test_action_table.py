"""The ranking of all actions: the first row is the recommendation, the others have the same definitions."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import causalbandits as cb
from causalbandits import zoo
from causalbandits.campaign import ActionTable, Certainty, Recommendation
from causalbandits.campaign import action_ranking as ranking_module
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.policies import situation_for

ENV = zoo.email_campaign()


def two_arms(**more: object) -> cb.Problem:
    """Two arms, each of them its own configuration."""
    arm = cb.Variable("arm", ["a", "b", "c"], table=[1 / 3] * 3)
    return cb.Problem(cb.CausalModel([arm]), manipulable=["arm"], reward_parents=["arm"], optional=False, **more)


def play(campaign: cb.Agent | cb.Study, env: cb.Environment, rounds: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = campaign.ask()
        seen = env.pull(decision.action, rng)
        campaign.tell(decision.id, reward=seen.reward, observed=seen.parents)


def pull_arms(agent: cb.Agent | cb.Study, arms: str, rates: dict[str, float], seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for arm in arms:
        decision = agent.ask(eligible=[{"arm": arm}])
        agent.tell(decision.id, reward=float(rng.random() < rates[arm]), observed={"arm": arm})


def assert_first_row_is(table: ActionTable, recommendation: Recommendation) -> None:
    first = table[0]
    assert (first.rank, first.action) == (1, recommendation.intervention)
    assert (first.mean, first.lower, first.upper) == (recommendation.mean, recommendation.lower, recommendation.upper)
    assert first.probability == recommendation.probability
    assert first.coverage == recommendation.seen
    assert first.cost == recommendation.cost


@pytest.mark.parametrize(
    "id",
    [
        "c-ts(prior=beta)",
        "c-ucb",
        "c-ts(prior=main-effects)",
        "ts(prior=beta)",
        "cl-ts",
        "hac-ucb",
        "c-ts-guarded(prior=beta)",
    ],
)
def test_the_first_row_is_the_recommendation_and_the_others_are_estimated_as_it_is(id: str) -> None:
    agent = cb.Agent(ENV.problem, id, seed=1)
    play(agent, ENV, 120)
    recommendation = agent.recommend(confidence=0.9)
    table = recommendation.table()
    assert_first_row_is(table, recommendation)
    assert [row.rank for row in table] == list(range(1, 81))
    assert {cb.Intervention(row.action) for row in table} == set(ENV.problem.actions)
    assert table.n_ranked == table.n_actions == len(table)
    situation = situation_for(agent.policy, ENV.problem)
    if id in ("c-ts(prior=beta)", "ts(prior=beta)", "cl-ts", "c-ucb"):  # whose own interval recommend() shows
        for row in (table[1], table[40], table[79]):
            bounds = agent.policy.interval(situation, agent._statistic, ENV.problem.actions.find(row.action), 0.9)
            assert (row.lower, row.upper) == (bounds.lower, bounds.upper)
            assert bounds.lower <= row.mean <= bounds.upper
    if (
        id != "c-ts(prior=main-effects)"
    ):  # it shows a mean with a noise scale for each configuration, and ranks by the policy's
        order = [(row.coverage is not None and row.coverage < 0.5, -row.mean) for row in table]
        assert order == sorted(order)


def test_probabilities_are_those_of_the_posterior() -> None:
    agent = cb.Agent(two_arms(), "c-ts(prior=beta)", seed=0)
    pull_arms(agent, "abc" * 15, {"a": 0.3, "b": 0.5, "c": 0.6})
    table = agent.recommend().table()
    assert sum(row.probability for row in table) == pytest.approx(1.0)
    cells = agent._statistic
    draws = np.random.default_rng(5).beta(1 + cells.total, 1 + cells.count - cells.total, (50_000, 3))
    exact = dict(zip("abc", np.bincount(draws.argmax(axis=1), minlength=3) / 50_000, strict=True))
    for row in table:
        assert row.probability == pytest.approx(exact[row.action["arm"]], abs=0.06)
    loose = agent.recommend(tolerance=1.0).table()
    assert [row.probability for row in loose] == [1.0, 1.0, 1.0]
    assert "P(within 1 of best)" in repr(loose)


@pytest.mark.parametrize("kind", ["agent", "study"])
def test_it_counts_decisions_also_those_that_wait_and_not_those_that_were_cancelled(kind: str, tmp_path: Path) -> None:
    problem = two_arms()
    campaign: cb.Agent | cb.Study = (
        cb.Agent(problem, "c-ts(prior=beta)", seed=0)
        if kind == "agent"
        else cb.Study.create(tmp_path / "study.db", problem, "c-ts(prior=beta)", seed=0)
    )
    rows = {"arm": ["a", "b", "c"] * 10, "y": [0, 1, 1] * 10}
    campaign.learn(rows, reward="y", interventions={"arm": [True] * 30})
    pull_arms(campaign, "aaabbc", {"a": 0.5, "b": 0.5, "c": 0.5})
    campaign.ask(eligible=[{"arm": "c"}])
    campaign.cancel(campaign.ask(eligible=[{"arm": "a"}]).id)
    table = campaign.recommend().table()
    assert {row.action["arm"]: row.times_chosen for row in table} == {"a": 3, "b": 2, "c": 2}
    if isinstance(campaign, cb.Study):
        campaign.close()


def test_expired_and_held_decisions_of_a_study_are_counted(tmp_path: Path) -> None:
    clock = [0.0]
    with cb.Study.create(
        tmp_path / "study.db",
        two_arms(),
        "c-ts(prior=beta)",
        seed=0,
        attribution_window=10.0,
        default_reward=0.0,
        clock=lambda: clock[0],
    ) as study:
        study.ask(eligible=[{"arm": "a"}])
        clock[0] = 100.0
        assert study.expire() == 1
        pull_arms(study, "bb", {"b": 1.0})
        assert {row.action["arm"]: row.times_chosen for row in study.recommend().table()} == {"a": 1, "b": 2, "c": 0}


def test_a_context_has_its_own_ranking() -> None:
    env = zoo.email_segments()
    agent, rng = cb.Agent(env.problem, "c-ts(prior=beta)", seed=1), np.random.default_rng(1)
    chosen: dict[tuple[str, str], int] = {}
    for _ in range(60):
        context = env.draw_context(rng)
        decision = agent.ask(context=context)
        seen = env.pull(decision.action, rng, context)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
        key = repr(dict(context)), repr(cb.Intervention(decision.action))
        chosen[key] = chosen.get(key, 0) + 1
    for _, recommendation in agent.recommendations():
        table = recommendation.table()
        assert_first_row_is(table, recommendation)
        context = repr(dict(recommendation.context))
        for row in table:
            assert row.times_chosen == chosen.get((context, repr(row.action)), 0)
        assert repr(table).startswith("Context: segment=")
    assert sum(row.times_chosen for row in agent.recommend().table()) == 60


def test_with_doubted_past_rows_intervals_hold_with_and_without_them() -> None:
    agent, rng = cb.Agent(two_arms(), "c-ts(prior=beta)", seed=0), np.random.default_rng(3)
    rewards = (rng.random(120) < np.tile([0.2, 0.7, 0.8], 40)).astype(int)
    agent.learn({"arm": ["a", "b", "c"] * 40, "y": rewards.tolist()}, reward="y", trust_past=0.5)
    pull_arms(agent, "abc" * 6, {"a": 0.1, "b": 0.8, "c": 0.9})
    recommendation = agent.recommend()
    assert recommendation.past is not None
    assert recommendation.past.is_counted
    table = recommendation.table()
    assert_first_row_is(table, recommendation)
    own = cb.Agent(two_arms(), "c-ts(prior=beta)", seed=0)
    pull_arms(own, "abc" * 6, {"a": 0.1, "b": 0.8, "c": 0.9})
    alone = {row.action: row for row in own.recommend().table()}
    for row in table:
        assert row.lower <= alone[row.action].lower
        assert row.upper >= alone[row.action].upper


def test_of_very_many_actions_it_lists_the_two_best_and_those_that_were_chosen_and_says_so() -> None:
    rng = np.random.default_rng(4)
    env = zoo.random_parallel(3, 16, rng.random(16), rng=rng)
    agent = cb.Agent(env.problem, cb.policy("cl-ts", regressor="observed", noise_scale=0.2), seed=1)
    play(agent, env, 20)
    recommendation = agent.recommend()
    table = recommendation.table()
    assert_first_row_is(table, recommendation)
    chosen = {outcome.action.intervention for outcome in agent._outcomes}
    expected = chosen | {recommendation.intervention, recommendation.runner_up.action.intervention}
    assert {cb.Intervention(row.action) for row in table} == expected
    assert table.n_actions == 4**16
    assert f"{len(expected)} of 4,294,967,296" in table.note
    assert table.note in repr(table)


def test_up_to_the_limit_all_actions_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = cb.Agent(ENV.problem, "c-ts(prior=beta)", seed=1)
    play(agent, ENV, 30)
    assert len(agent.recommend().table()) == 80
    monkeypatch.setattr(ranking_module, "MAX_TABLE_ACTIONS", 79)
    assert 2 <= len(agent.recommend().table()) < 40


def test_under_a_budget_actions_that_cost_more_than_it_has_per_decision_come_last() -> None:
    problem = two_arms(costs={"arm": {"a": 0.0, "b": 0.1, "c": 2.0}})
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=0, budget=cb.Budget(30, rounds=60))
    pull_arms(agent, "aaabbbccc", {"a": 0.2, "b": 0.6, "c": 1.0})
    recommendation = agent.recommend()
    table = recommendation.table()
    assert_first_row_is(table, recommendation)
    assert table[2].action["arm"] == "c"
    assert [row.probability for row in table] == [None] * 3
    assert "P(best) is not available: under a budget, the optimum is a mixture of two actions." in repr(table)
    assert recommendation.stop is None
    assert "mixture of two actions" in recommendation.stop_reason


def test_a_table_is_computed_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = cb.Agent(two_arms(), "c-ts(prior=beta)", seed=0)

    def fail(*arguments: object) -> None:
        raise AssertionError("ranked")

    monkeypatch.setattr("causalbandits.campaign.advice.rank_actions", fail)
    recommendation = agent.recommend()
    with pytest.raises(AssertionError, match="ranked"):
        recommendation.table()


def test_pages_of_a_table_are_parts_of_it() -> None:
    agent = cb.Agent(ENV.problem, "c-ts(prior=beta)", seed=1)
    play(agent, ENV, 30)
    recommendation = agent.recommend()
    whole = recommendation.table()
    page = recommendation.table(limit=7, offset=5)
    assert page.rows == whole.rows[5:12]
    assert (page.n_ranked, len(page)) == (80, 7)
    assert "7 of 80 rows." in repr(page)
    assert recommendation.table(limit=10, offset=100).rows == ()
    for arguments, message in (
        ({"limit": 0}, "limit, the number of rows, must be an integer ≥ 1; got 0"),
        ({"limit": "all"}, "limit, the number of rows"),
        ({"offset": -1}, "offset, the number of rows that are skipped, must be an integer ≥ 0; got -1"),
    ):
        with pytest.raises(CausalBanditsError, match=message):
            recommendation.table(**arguments)  # type: ignore[arg-type]


def test_it_prints_lines_up_converts_and_is_written(tmp_path: Path) -> None:
    agent = cb.Agent(ENV.problem, "c-ts(prior=beta)", seed=1)
    play(agent, ENV, 30)
    table = agent.recommend().table()
    head, rule, *lines = repr(table).splitlines()
    assert head.split()[0] == "action"
    assert "95% credible interval  P(best)  chosen" in head
    assert set(rule) == {"-"}
    assert len({len(line) for line in (head, rule, *lines[:30])}) == 1
    assert lines[30] == "50 more rows: to_dicts() and write() give all of them."
    assert json.loads(json.dumps(table.to_dicts()))[0]["action"] == dict(table[0].action)
    table.write(tmp_path / "actions.csv")
    with (tmp_path / "actions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 80
    for row, read in zip(table, rows, strict=True):
        assert {name: read[name] for name in row.action} == {name: str(value) for name, value in row.action.items()}
        assert (float(read["mean"]), float(read["lower"])) == (row.mean, row.lower)
        assert int(read["times_chosen"]) == row.times_chosen
    with pytest.raises(StateError, match=r"written to a \.csv file"):
        table.write(tmp_path / "actions.txt")
    pytest.importorskip("pandas")
    assert table.to_pandas()["mean"].tolist() == [row.mean for row in table]


def test_a_variable_may_have_the_name_of_a_column() -> None:
    model = cb.CausalModel([cb.Variable("mean", ["a", "b"], table=[0.5, 0.5])])
    agent = cb.Agent(
        cb.Problem(model, manipulable=["mean"], reward_parents=["mean"], optional=False), "c-ts(prior=beta)", seed=0
    )
    head = agent.recommend().table().to_csv().splitlines()[0]
    assert head.startswith("rank,action.mean,mean,lower,upper,probability,times_chosen")


def test_a_recommendation_made_by_hand_has_no_table() -> None:
    made = replace(cb.Agent(two_arms(), "c-ts(prior=beta)", seed=0).recommend(), ranking=None)
    with pytest.raises(CausalBanditsError, match="recommendation has no table,"):
        made.table()


RULES = {"met": (0.01, ""), "not met": (0.31, ""), "not available": (None, "CPTs are learned online; wait")}
PROBABILITIES = {"high": 0.9996, "low": 0.4, "none": None}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_probability_and_stopping_rule_never_contradict_each_other(rule: str, probability: str) -> None:
    error_probability, obstacle = RULES[rule]
    value = PROBABILITIES[probability]
    certainty = Certainty(
        value, None if value is None else 0.01, error_probability, obstacle=obstacle, unavailable="no posterior"
    )
    made = replace(cb.Agent(two_arms(), "c-ts(prior=beta)", seed=0).recommend(), certainty=certainty)
    assert made.stop is {"met": True, "not met": False, "not available": None}[rule]
    lines = repr(made).splitlines()
    expected = {
        "met": "Stopping rule: met (error bound 0.01 <= 0.05)",
        "not met": "Stopping rule: not met (error bound 0.31 > 0.05)",
        "not available": "Stopping rule: not available: CPTs are learned online; wait",
    }
    assert expected[rule] in lines
    assert made.stop_reason in expected[rule]
    shown = {"high": "above 99.9%", "low": "40.0%", "none": "not available: no posterior"}
    assert f"Probability of being best: {shown[probability]}" in lines
    notes = [line for line in lines if line.startswith("Note: ")]
    if probability == "high" and rule != "met":
        assert notes[0].startswith("Note: a high posterior probability is not a stopping rule.")
    elif probability == "low" and rule == "met":
        assert "valid without the prior" in notes[0]
    else:
        assert notes == []


def test_a_bound_just_above_its_limit_is_printed_with_enough_digits() -> None:
    assert Certainty(error_probability=0.0500001).stop_reason(0.95) == "error bound 0.0500001 > 0.05"
    assert Certainty(error_probability=0.05 - 1e-9).stop_reason(0.95) == "error bound 0.049999999 <= 0.05"


def test_the_runner_up_has_one_mean_in_the_recommendation_and_in_the_ranking():
    """Where noise differs between configurations, means are shrunk by a scale for each: for both actions alike."""
    problem = cb.Problem(
        "purpose -> subject -> click; send_time -> click",
        reward="click",
        manipulable={"purpose": ["promo", "news"], "send_time": ["am", "pm"]},
        values={"subject": ["short", "long"]},
    )
    agent, rng = cb.Agent(problem, seed=1), np.random.default_rng(0)
    for _ in range(300):
        decision = agent.ask()
        subject = "short" if rng.random() < (0.8 if decision.action["purpose"] == "promo" else 0.3) else "long"
        chance = 0.02 + 0.4 * (subject == "short") * (decision.action["send_time"] == "am")
        agent.tell(decision, reward=int(rng.random() < chance), observed={"subject": subject})
    found = agent.recommend()
    assert any("a noise scale for each" in caveat for caveat in found.caveats)
    means = {cb.Intervention(row.action): row.mean for row in found.table()}
    assert means[found.intervention] == found.mean
    assert means[found.runner_up.action.intervention] == pytest.approx(found.runner_up.mean, rel=1e-12)
