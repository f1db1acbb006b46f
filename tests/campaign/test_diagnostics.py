"""What an agent's own outcomes say of its model: evidence, check, and what a recommendation says of them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import EvidenceWarning, PolicyError
from causalbandits.policies.robust.monitor import Monitor
from oracles.environments import BELIEF, EMAIL, seen, with_arrow, with_row


def told(env, policy, rounds, seed=3, noise=0.0):
    agent, rng = cb.Agent(BELIEF, policy, seed=seed), np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.ask()
        found = env.pull(decision.intervention, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)
            agent.tell(decision.id, seen(found.parents), found.reward + noise * rng.normal())
    return agent


def test_the_evidence_of_a_policy_that_only_draws_is_that_of_a_guard_that_only_warns():
    env = with_arrow("product", 0.3)
    plain = told(env, cb.policies.CausalThompsonSampling(prior="beta", draws=32), 150)
    guard = told(env, cb.policies.GuardedThompsonSampling(prior="beta", on_alarm="warn"), 150)
    assert plain.evidence() == guard.evidence()
    assert len(plain.evidence().alarms) == 1
    assert plain.evidence().contradicted


@pytest.mark.parametrize(
    "policy",
    [
        cb.policies.CausalThompsonSampling(prior="gaussian", noise_scale=0.5, draws=16),
        cb.policies.CausalLinearThompsonSampling(regressor="observed", draws=16),
        cb.policies.ThompsonSampling(prior="beta", draws=16),
    ],
)
def test_every_policy_that_knows_its_chances_has_evidence(policy):
    found = told(EMAIL, policy, 80).evidence(level=0.01)
    assert (found.rounds, found.level, found.alarms) == (80, 0.01, ())
    assert [claim.variable for claim in found.claims if claim.part == "graph"] != []
    assert all(math.isfinite(claim.log_e) for claim in found.claims)


@pytest.mark.parametrize("policy", ["c-ucb", "c-ts-beta", "uniform", "hac-ucb"])
def test_who_does_not_know_its_chances_is_refused_with_the_way_out(policy):
    with pytest.raises(PolicyError, match=r"does not know them: take Thompson sampling with draws=32, or check"):
        told(EMAIL, policy, 5).evidence()


def test_a_guards_level_is_its_own():
    agent = told(EMAIL, "c-ts-beta-guarded", 5)
    with pytest.raises(PolicyError, match=r"own level is 0\.05: leave level= out; got 0\.01"):
        agent.evidence(level=0.01)
    with pytest.raises(cb.CausalBanditsError, match="level must lie between 0 and 1; got 2"):
        told(EMAIL, cb.policies.CausalThompsonSampling(prior="beta", draws=2), 5).evidence(level=2)


@pytest.mark.parametrize(
    "policy",
    [cb.policies.CausalThompsonSampling(prior="beta", draws=8), cb.policies.GuardedThompsonSampling(prior="beta")],
    ids=str,
)
def test_outcomes_wait_for_those_of_earlier_decisions_and_evidence_says_so(policy):
    agent = cb.Agent(BELIEF, policy, seed=0)
    first, *others = agent.ask(10)
    for decision in others:
        found = EMAIL.pull(decision.intervention, decision.id)
        agent.tell(decision.id, found.parents, found.reward)
    waiting = agent.evidence()
    assert (waiting.rounds, waiting.later, waiting.missing) == (0, 9, 0)
    text = "0 outcomes. 9 more are looked at when that of decision 0 has come: tell it, or forget it. "
    assert repr(waiting).startswith(text)
    assert "could not be tested: all 9 outcomes wait for that of decision 0." in repr(waiting)
    assert "no outcomes yet" not in repr(waiting)
    agent.forget(first.id)
    after = agent.evidence()
    assert (after.rounds, after.later, after.missing) == (9, 0, None)


def test_a_check_that_could_test_nothing_says_so():
    text = repr(told(EMAIL, "c-ts-beta", 3).check())
    assert "The data have tested no claim of the tables." in text
    assert "The nearest to it:\n" not in text.split("of the tables.")[1]


def test_evidence_prints_claims_as_check_does():
    text = repr(told(with_row(0.5), cb.policies.GuardedThompsonSampling(prior="beta"), 120).evidence())
    assert text.startswith("120 outcomes. The chance of a false alarm, ever, is 0.05 at most.\nAlarm: ")
    row = "P(template | product='Photoshop', purpose='Promo') should be as in its table"
    assert f"  {row}: e = " in text
    assert "the data contradict it." in text
    assert "The outcomes do not contradict the graph (2 claims tested)." in text


def test_what_no_outcome_has_tested_is_said_apart_with_the_reason():
    """Of the actions searched, all set all knobs: send_time is one of the parents, and not every product is tried."""
    agent = told(EMAIL, cb.policies.GuardedThompsonSampling(prior="beta"), 60)
    found = agent.evidence()
    tested = [claim for claim in found.claims if not claim.untested]
    assert all(claim.outcomes > 0 for claim in tested)
    assert all((claim.outcomes, claim.log_e, claim.contradicted) == (0, 0.0, False) for claim in found.untested)
    assert {claim.variable: claim.untested for claim in found.untested} == {
        "send_time": "send_time was set, or not observed",
        "product": "product was set, or not observed",
        "purpose": "purpose was set, or not observed",
        "template": "the causes of template are not known to have had these values",
    }
    (arrow,) = [claim for claim in found.untested if claim.part == "graph"]
    assert arrow.untested == "given the parents, what was done with send_time was never left to chance"
    assert f"1 claim of the graph could not be tested: {arrow.untested}." in repr(found)
    assert f"({len([claim for claim in tested if claim.part == 'tables'])} claims tested)" in repr(found)
    assert str(arrow).endswith("should not depend on send_time: not tested; " + arrow.untested + ".")


def test_of_what_is_never_told_no_table_is_tested():
    model = cb.CausalModel(
        [
            cb.Variable("x", [0, 1], table=[0.5, 0.5]),
            cb.Variable("hidden", [0, 1], parents=["x"], table=[[0.9, 0.1], [0.2, 0.8]]),
            cb.Variable("z", [0, 1], parents=["hidden"], table=[[0.9, 0.1], [0.2, 0.8]]),
        ]
    )
    problem = cb.Problem(model, ["x"], ["z"])
    agent = cb.Agent(problem, cb.policies.CausalThompsonSampling(prior="beta", draws=8), seed=0)
    assert {claim.untested for claim in agent.evidence().claims} == {"there are no outcomes yet"}
    reasons = []
    for observed in (None, {"hidden": 0}):
        decision = agent.ask()
        agent.tell(decision.id, {"z": 0}, 1.0, observed=observed)
        reasons.append({claim.untested for claim in agent.evidence().untested if claim.variable in ("hidden", "z")})
    assert reasons[0] == {"hidden can be seen only if told, tell(..., observed={...})"}
    assert reasons[1] == {f"the causes of {name} are not known to have had these values" for name in ("hidden", "z")}
    assert sum(claim.outcomes for claim in agent.evidence().claims if claim.part == "tables") == 2


def test_check_says_which_rows_could_not_be_tested():
    found = told(EMAIL, cb.policies.CausalUCB(noise_scale=0.5), 50).check()
    assert len([finding for finding in found.findings if finding.part == "tables"]) == 19
    assert any(finding.rows == 0 for finding in found.thin)
    assert "claims of the tables could not be tested: too few rows." in repr(found)


def test_check_finds_the_arrow_for_a_policy_without_chance():
    found = told(with_arrow("product", 0.3), cb.policies.CausalUCB(noise_scale=0.5), 400).check()
    assert ("product",) in [claim.variables for claim in found.contradicted]
    assert "Approximate while running" in repr(found)


def test_check_finds_it_for_rewards_of_many_values():
    found = told(
        with_arrow("product", 0.3), cb.policies.CausalThompsonSampling(noise_scale=0.5), 400, noise=0.1
    ).check()
    assert found.contradicted[0].variables == ("product",)


def test_check_of_rows_is_what_check_says_of_the_same_data():
    """As `check` says of the whole data, told as columns."""
    agent = told(with_row(0.5), cb.policies.Uniform(), 300)
    outcomes = [o for o in agent._outcomes if o.action.choices[0] and o.action.choices[1]]
    columns = {name: [] for name in ("product", "purpose", "send_time", "subject", "template", "set")}
    for o in outcomes:
        row = {**BELIEF.decode_parents(o.z), **o.action.intervention, "set": ",".join(o.action.intervention)}
        for name, value in row.items():
            columns[name].append(value)
    theirs = {f.claim: f for f in cb.check(BELIEF.model, columns, interventions="set").findings}
    ours = [f for f in agent.check().findings if f.claim.startswith("P(template")]
    assert len(ours) == 12
    for found in ours:
        assert found[4:8] == pytest.approx(theirs[found.claim][4:8], nan_ok=True)


def test_one_reward_of_a_new_value_after_a_new_action_contradicts_nothing():
    agent = told(EMAIL, cb.policies.CausalThompsonSampling(prior="beta", draws=16), 800)
    assert not agent.check().contradicted
    decision = agent.ask(eligible=[{"send_time": "morning"}])
    agent.tell(decision.id, EMAIL.pull(decision.intervention, 0).parents, 0.5)
    check = agent.check()
    assert not check.contradicted
    assert sum(found.part == "graph" and found.p > 0.05 for found in check.findings) >= 2


def test_check_before_anything_was_told_has_nothing_to_say():
    found = cb.Agent(BELIEF, "c-ucb", seed=0).check()
    assert (found.rows, found.contradicted) == (0, ())
    with pytest.raises(cb.CausalBanditsError, match="level must lie between 0 and 1; got 'high'"):
        cb.Agent(BELIEF, "c-ucb", seed=0).check(level="high")


@pytest.mark.parametrize("policy", ["c-ts-beta", "c-ts-beta-guarded", "c-kl-ucb"])
def test_a_recommendation_says_what_contradicts_its_model_and_how_strongly(policy):
    caveats = told(with_arrow("product", 0.3), policy, 300).recommend().caveats
    assert any("given subject, template, send_time, the reward should not depend on product (" in c for c in caveats)
    assert all(("p = " in c) or ("e = " in c) for c in caveats)


@pytest.mark.parametrize("policy", ["c-ts-beta", "c-ts-beta-guarded", "c-ucb", "cl-ts-observed"])
def test_a_recommendation_under_a_right_model_says_nothing_of_the_kind(policy):
    assert not any("contradict" in caveat for caveat in told(EMAIL, policy, 300).recommend().caveats)


def test_baselines_rest_on_no_model_that_could_be_contradicted():
    assert told(with_arrow("product", 0.3), cb.policies.ThompsonSampling(prior="beta"), 200).recommend().caveats == ()


def test_evidence_of_a_policy_that_learns_tables_takes_them_as_learnt_so_far():
    """By tables of which nothing was known, P(a | z) would be pi(a): the last of them must follow the counts."""
    model = BELIEF.model
    unknown = BELIEF.with_model(cb.fit(model, None, states={name: model[name].states for name in model.order}))
    agent = cb.Agent(unknown, cb.policies.CausalThompsonSampling(prior="beta", tables="learnt", draws=16), seed=0)
    rng = np.random.default_rng(0)
    for _ in range(150):
        decision = agent.ask()
        found = EMAIL.pull(decision.intervention, rng)
        agent.tell(decision.id, seen(found.parents), found.reward)
    evidence = agent.evidence()
    assert evidence.alarms == ()
    fixed, learning = Monitor.start(unknown), Monitor.start(unknown)
    learning.learnt = 1
    for outcome in agent._outcomes:
        for watch in (fixed, learning):
            watch.add_outcome(unknown, outcome, outcome.successes, None)
    found = {claim.variable: claim.log_e for claim in evidence.claims if claim.part == "graph"}
    assert found == dict(zip(unknown.manipulable, learning.log_arrows.tolist(), strict=True))
    assert fixed.log_arrows.tolist() != learning.log_arrows.tolist()
    assert learning.current_problem(unknown).model["subject"].table[0, 0] != 0.5
