"""Agents that learn a past in which a hidden cause moved both what was done and the reward."""

from __future__ import annotations

import json

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.agent import file
from causalbandits.errors import StateError

RATES = (0.6, 0.4)
"""Of success, where x is set to 0 or to 1."""
PROBLEM = cb.Problem(
    cb.CausalModel([cb.Variable("x", [0, 1], table=[0.5, 0.5])]),
    manipulable=["x"],
    reward_parents=["x"],
    optional=False,
)


def confounded_log(rows, seed, effects=(-0.35, 0.35)):
    """A hidden cause raises the rate of success and mostly goes with x = 1, its absence lowers it, with x = 0."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(rows) < 0.5
    x = np.where(rng.random(rows) < 0.95, hidden, ~hidden).astype(int)
    rate = np.array(RATES)[x] + np.array(effects)[hidden.astype(int)]
    return {"x": x.tolist(), "reward": (rng.random(rows) < rate).astype(float).tolist()}


def right_log(rows, seed):
    return confounded_log(rows, seed, effects=(0.0, 0.0))


def play(campaign, rounds, seed):
    """The regret of so many decisions."""
    rng, worse = np.random.default_rng(seed), 0
    for _ in range(rounds):
        decision = campaign.ask()
        x = decision.action["x"]
        campaign.tell(decision.id, reward=float(rng.random() < RATES[x]), observed={"x": x})
        worse += x
    return worse * (RATES[0] - RATES[1])


def learned(policy="c-ts(prior=beta)", rows=400, seed=0, log=confounded_log, problem=PROBLEM, **arguments):
    agent = cb.Agent(problem, policy, seed=seed)
    agent.learn(log(rows, seed), reward="reward", **arguments)
    return agent


@pytest.mark.parametrize("policy", [None, "c-ts(prior=beta)", "c-ucb(scales=estimated)"])
def test_a_confounded_log_that_favours_the_worse_action_costs_little(policy):
    regrets = [play(learned(policy, seed=seed), 300, seed) for seed in range(4)]
    assert np.mean(regrets) < 20  # of 60
    if policy == "c-ts(prior=beta)":
        assert play(learned(policy, trust_past=1), 300, 0) > 50  # who declares it to be right is believed


def test_a_log_that_makes_the_better_action_look_worse_is_found_out_though_the_other_is_as_it_says():
    def log(rows, seed):
        return confounded_log(rows, seed, effects=(-0.5, 0.0))

    regrets = [play(learned(log=log, seed=seed), 400, seed) for seed in range(4)]
    assert np.mean(regrets) < 25  # of 80
    assert play(learned(log=log, trust_past=1), 400, 0) > 70


def test_while_past_rewards_count_there_is_no_stopping_rule_and_it_is_said_how_many_count():
    agent = learned(log=right_log)
    play(agent, 100, 0)
    found = agent.recommend()
    assert (found.stop, found.error_probability) == (None, None)
    assert "past rewards are counted (400 rows, trust_past 0.5)" in found.certainty.obstacle
    assert "trust_past=1" in found.certainty.obstacle
    assert (found.past.rows, found.past.trust_past, found.past.is_counted) == (400, 0.5, True)
    weight = f"weight now {found.past.weight:.2g}"
    text = f"Past data: 400 rows, trust_past 0.5 (prior probability that they have the same means); {weight}"
    assert text in repr(found).splitlines()
    trusting = learned(log=right_log, trust_past=1)
    play(trusting, 100, 0)
    assert trusting.recommend().stop is not None
    assert not trusting.recommend().caveats
    assert trusting.recommend().past is None
    assert "Past data" not in repr(trusting.recommend())


def test_a_contradicted_past_is_not_counted_and_own_outcomes_have_their_guarantee_again():
    agent = learned()
    play(agent, 200, 0)
    found = agent.recommend()
    assert found.intervention == {"x": 0}
    assert found.stop is not None
    (caveat,) = found.caveats
    assert (
        "400 past rewards are not counted: rewards of this campaign contradict them (posterior probability that"
        in caveat
    )
    assert "trust_past 0.5" in caveat
    assert not found.past.is_counted
    assert "are not counted" in repr(found)


def test_a_past_that_is_taken_on_trust_counts_but_its_contradiction_is_reported_and_takes_the_stopping_rule():
    agent = learned(trust_past=1)
    play(agent, 200, 0)
    found = agent.recommend()
    assert (found.stop, found.error_probability) == (None, None)
    assert any(
        "rewards of this campaign contradict 400 past rewards, which count with trust_past 1" in caveat
        for caveat in found.caveats
    )
    (finding,) = [finding for finding in agent.check().findings if finding.part == "past"]
    assert finding.contradicted
    assert "400 past rewards (trust_past 1)" in str(finding)
    assert "Past data: 1 of 1 claim rejected" in repr(agent.check())


def test_check_and_evidence_compare_the_past_with_own_outcomes():
    for log, is_wrong in ((confounded_log, True), (right_log, False)):
        agent = learned(cb.policies.CausalThompsonSampling(prior="beta", samples=32), log=log)
        (claim,) = [claim for claim in agent.evidence().claims if claim.part == "past"]
        assert claim.untested
        play(agent, 200, 0)
        (claim,) = [claim for claim in agent.evidence().claims if claim.part == "past"]
        (finding,) = [finding for finding in agent.check().findings if finding.part == "past"]
        assert finding.contradicted == claim.contradicted == is_wrong
        assert (claim.e > 20) == is_wrong
        assert f"Past data: {int(is_wrong)} of 1 claim rejected" in repr(agent.evidence())
    assert not [claim for claim in cb.Agent(PROBLEM, agent.policy).evidence().claims if claim.part == "past"]


def test_the_interval_holds_with_and_without_the_past_and_the_probability_is_in_between():
    agent = learned(log=right_log)
    play(agent, 30, 1)
    with_past = learned(log=right_log, trust_past=1)
    without_past = cb.Agent(PROBLEM, "c-ts(prior=beta)", seed=0)
    for one in (with_past, without_past):
        for outcome in [outcome for outcome in agent._outcomes if outcome.number >= 0]:
            decision = one.ask(eligible=[outcome.action.intervention])
            one.tell(decision.id, reward=outcome.reward, observed={"x": outcome.z[0]})
    mixed, *others = (one.recommend() for one in (agent, with_past, without_past))
    assert mixed.intervention == others[0].intervention == others[1].intervention
    assert mixed.lower == min(other.lower for other in others)
    assert mixed.upper == max(other.upper for other in others)
    low, high = sorted(other.probability for other in others)
    assert low <= mixed.probability <= high


@pytest.mark.parametrize(
    "policy",
    [
        None,
        "c-ts(prior=beta)",
        "c-ucb(scales=estimated)",
        "ts(prior=beta)",
        "cl-ts(regressor=observed)",
        "c-ts-guarded(prior=beta)",
    ],
)
def test_a_dropped_past_leaves_the_state_of_an_agent_that_never_learnt_it(policy):
    problem = cb.Problem(PROBLEM.model, manipulable=["x"], reward_parents=["x"], optional=True)  # with leaving it alone
    agent, fresh = learned(policy, problem=problem, trust_past=0.5), cb.Agent(problem, policy, seed=1)
    rng = np.random.default_rng(0)
    for k in range(300):
        do = ({"x": 0}, {"x": 1}, {})[k % 3]
        x, y = do.get("x", int(rng.integers(2))), float(rng.random() < 0.1)
        for one in (agent, fresh):
            one.tell(one.ask(eligible=[do]).id, reward=y, observed={"x": x})
    with agent._campaign_state() as state, fresh._campaign_state() as other:
        assert state.doubted_past.is_dropped
        assert state.statistic.to_record() == other.statistic.to_record()
    for one in (agent, fresh):
        one.correct(0, reward=1.0, observed={"x": 0})
    with agent._campaign_state() as state, fresh._campaign_state() as other:
        assert state.statistic.to_record() == other.statistic.to_record()


@pytest.mark.parametrize("trust", [0, -0.5, 1.5, float("nan"), "half", True])
def test_a_trust_that_is_no_probability_is_refused_in_words_and_nothing_is_learnt(trust):
    agent = cb.Agent(PROBLEM, "c-ts(prior=beta)")
    with pytest.raises(cb.CausalBanditsError, match=r"trust_past is the prior probability, above 0 and up to 1.*; got"):
        agent.learn(right_log(10, 0), reward="reward", trust_past=trust)
    assert agent.n_outcomes == 0


def test_by_default_rows_in_which_nothing_was_set_are_trusted_half():
    rows = right_log(20, 0)
    assert cb.Agent(PROBLEM, "c-ts(prior=beta)").learn(rows, reward="reward").trust_past == 0.5
    experiment = {**rows, "set": ["x"] * 20}
    learnt = cb.Agent(PROBLEM, "c-ts(prior=beta)").learn(experiment, reward="reward", interventions="set")
    assert learnt.trust_past == 1.0
    assert repr(learnt) == "Learned from 20 of 20 rows."
    mixed = {**rows, "set": ["x"] * 19 + [""]}
    assert repr(cb.Agent(PROBLEM, "c-ts(prior=beta)").learn(mixed, reward="reward", interventions="set")) == (
        "Learned from 20 of 20 rows, at trust_past 0.5."
    )


def test_the_same_rows_count_once():
    agent = learned(rows=50)
    again = agent.learn(confounded_log(50, 0), reward="reward")
    assert (again.used, dict(again.left_out)) == (0, {"already learned": 50})
    assert agent.n_outcomes == 50
    assert agent.learn(confounded_log(50, 1), reward="reward").used == 50
    assert agent.n_outcomes == 100


def test_a_saved_agent_keeps_the_trust_and_decides_alike(tmp_path):
    agent = learned(trust_past=0.3)
    agent.learn(right_log(30, 5), reward="reward", trust_past=1)
    play(agent, 15, 0)
    agent.save(tmp_path / "agent.json")
    loaded = cb.Agent.load(tmp_path / "agent.json")
    assert [batch.trust for batch in loaded._past] == [0.3, 1.0]
    assert [agent.ask().action for _ in range(20)] == [loaded.ask().action for _ in range(20)]
    assert repr(agent.recommend()) == repr(loaded.recommend())
    assert loaded.learn(confounded_log(400, 0), reward="reward").used == 0


def test_files_of_earlier_versions_are_refused_in_words(tmp_path):
    path = tmp_path / "agent.json"
    learned(trust_past=1, rows=40).save(path)
    old = {**file.read_agent_file(path), "version": 5}
    path.write_text(json.dumps({**old, "checksum": file._checksum(old)}))
    with pytest.raises(StateError, match="its format is 5, and this one reads 7"):
        cb.Agent.load(path)
