"""What an agent's own outcomes say of its model: evidence, check, and what a recommendation says of them."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import EvidenceWarning, PolicyError
from causalbandits.fitting import prior_model
from causalbandits.policies.robust.monitor import Monitor
from oracles.environments import BELIEF, EMAIL, seen, with_arrow, with_row


def told(env, policy, rounds, seed=3, noise=0.0):
    agent, rng = cb.Agent(BELIEF, policy, seed=seed), np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.ask()
        found = env.pull(decision.action, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)
            agent.tell(decision.id, reward=found.reward + noise * rng.normal(), observed=seen(found.parents))
    return agent


def test_the_evidence_of_a_policy_that_only_draws_is_that_of_a_guard_that_only_warns():
    env = with_arrow("product", 0.3)
    plain = told(env, cb.policies.CausalThompsonSampling(prior="beta", samples=32), 150)
    guard = told(env, cb.policies.GuardedThompsonSampling(prior="beta", on_alarm="warn"), 150)
    assert plain.evidence() == guard.evidence()
    assert len(plain.evidence().alarms) == 1
    assert plain.evidence().contradicted


@pytest.mark.parametrize(
    "policy",
    [
        cb.policies.CausalThompsonSampling(prior="gaussian", noise_scale=0.5, samples=16),
        cb.policies.CausalLinearThompsonSampling(regressor="observed", samples=16),
        cb.policies.ThompsonSampling(prior="beta", samples=16),
    ],
)
def test_every_policy_that_knows_its_chances_has_evidence(policy):
    found = told(EMAIL, policy, 80).evidence(alpha=0.01)
    assert (found.rounds, found.alpha, found.alarms) == (80, 0.01, ())
    assert [claim.variable for claim in found.claims if claim.part == "graph"] != []
    assert all(math.isfinite(claim.log_e) for claim in found.claims)


@pytest.mark.parametrize("policy", ["c-ucb", "c-ts(prior=beta)", "uniform", "hac-ucb"])
def test_who_does_not_know_its_chances_is_refused_with_the_way_out(policy):
    with pytest.raises(
        PolicyError,
        match=r"has none: use Thompson sampling with samples=32\. The approximate misspecification test, check",
    ):
        told(EMAIL, policy, 5).evidence()


def test_a_guards_level_is_its_own():
    agent = told(EMAIL, "c-ts-guarded(prior=beta)", 5)
    with pytest.raises(PolicyError, match=r"own alpha, 0\.05\. Leave out alpha; got 0\.01"):
        agent.evidence(alpha=0.01)
    with pytest.raises(cb.CausalBanditsError, match="alpha must lie between 0 and 1; got 2"):
        told(EMAIL, cb.policies.CausalThompsonSampling(prior="beta", samples=2), 5).evidence(alpha=2)


@pytest.mark.parametrize(
    "policy",
    [cb.policies.CausalThompsonSampling(prior="beta", samples=8), cb.policies.GuardedThompsonSampling(prior="beta")],
    ids=str,
)
def test_outcomes_wait_for_those_of_earlier_decisions_and_evidence_says_so(policy):
    agent = cb.Agent(BELIEF, policy, seed=0)
    first, *others = agent.ask(10)
    for decision in others:
        found = EMAIL.pull(decision.action, decision.id)
        agent.tell(decision.id, reward=found.reward, observed=found.parents)
    waiting = agent.evidence()
    assert (waiting.rounds, waiting.later, waiting.missing) == (0, 9, 0)
    lines = repr(waiting).splitlines()
    assert lines[0] == "Misspecification test: 0 outcomes, by e-values"
    assert lines[2] == "Waiting: 9 outcomes, until decision 0 has an outcome or is cancelled"
    assert "not tested: all 9 outcomes wait for the outcome of decision 0" in repr(waiting)
    assert "no outcomes yet" not in repr(waiting)
    agent.cancel(first.id)
    after = agent.evidence()
    assert (after.rounds, after.later, after.missing) == (9, 0, None)


def test_a_check_that_could_test_nothing_says_so():
    text = repr(told(EMAIL, "c-ts(prior=beta)", 3).check())
    assert "CPTs: no claim tested\n" in text
    assert "rejected" not in text.split("CPTs: ")[1]


def test_evidence_prints_claims_as_check_does():
    text = repr(told(with_row(0.5), cb.policies.GuardedThompsonSampling(prior="beta"), 120).evidence())
    assert text.startswith(
        "Misspecification test: 120 outcomes, by e-values\nProbability of any false alarm: at most 0.05\nAlarm: "
    )
    row = "P(template | product='Photoshop', purpose='Promo') should equal the row of the CPT"
    assert f"  {row}: e-value " in text
    assert ", rejected\n" in text
    assert "Graph: 0 of 2 claims rejected; largest e-values:" in text


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
        "template": "no outcome showed the parents of template with these values",
    }
    (arrow,) = [claim for claim in found.untested if claim.part == "graph"]
    assert arrow.untested == "given the parents, the choice of send_time was never random"
    assert f"  1 claim not tested: {arrow.untested}" in repr(found).splitlines()
    assert f"CPTs: 0 of {len([claim for claim in tested if claim.part == 'tables'])} claims rejected" in repr(found)
    assert str(arrow).endswith("should not depend on send_time: not tested, " + arrow.untested)


def test_of_what_is_never_told_no_table_is_tested():
    model = cb.CausalModel(
        [
            cb.Variable("x", [0, 1], table=[0.5, 0.5]),
            cb.Variable("hidden", [0, 1], parents=["x"], table=[[0.9, 0.1], [0.2, 0.8]]),
            cb.Variable("z", [0, 1], parents=["hidden"], table=[[0.9, 0.1], [0.2, 0.8]]),
        ]
    )
    problem = cb.Problem(model, manipulable=["x"], reward_parents=["z"], optional=True)
    agent = cb.Agent(problem, cb.policies.CausalThompsonSampling(prior="beta", samples=8), seed=0)
    assert {claim.untested for claim in agent.evidence().claims} == {"there are no outcomes yet"}
    reasons = []
    for observed in ({"z": 0}, {"z": 0, "hidden": 0}):
        decision = agent.ask()
        agent.tell(decision.id, reward=1.0, observed=observed)
        reasons.append({claim.untested for claim in agent.evidence().untested if claim.variable in ("hidden", "z")})
    assert reasons[0] == {"no outcome reported hidden; pass tell(..., observed={...})"}
    assert reasons[1] == {f"no outcome showed the parents of {name} with these values" for name in ("hidden", "z")}
    assert sum(claim.outcomes for claim in agent.evidence().claims if claim.part == "tables") == 2


def test_check_says_which_rows_could_not_be_tested():
    found = told(EMAIL, cb.policies.CausalUCB(noise_scale=0.5), 50).check()
    assert len([finding for finding in found.findings if finding.part == "tables"]) == 19
    assert any(finding.rows == 0 for finding in found.thin)
    assert re.search(r"CPTs: .*\n(  .*\n)*  \d+ claims not tested: too few rows", repr(found))


def test_check_finds_the_arrow_for_a_policy_without_chance():
    found = told(with_arrow("product", 0.3), cb.policies.CausalUCB(noise_scale=0.5), 400).check()
    assert ("product",) in [claim.variables for claim in found.contradicted]
    assert "Note: p-values are approximate." in repr(found)


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
    agent = told(EMAIL, cb.policies.CausalThompsonSampling(prior="beta", samples=16), 800)
    assert not agent.check().contradicted
    decision = agent.ask(eligible=[{"send_time": "morning"}])
    agent.tell(decision.id, reward=0.5, observed=EMAIL.pull(decision.action, 0).parents)
    check = agent.check()
    assert not check.contradicted
    assert sum(found.part == "graph" and found.p > 0.05 for found in check.findings) >= 2


def test_check_before_anything_was_told_has_nothing_to_say():
    found = cb.Agent(BELIEF, "c-ucb", seed=0).check()
    assert (found.rows, found.contradicted) == (0, ())
    with pytest.raises(cb.CausalBanditsError, match="alpha must lie between 0 and 1; got 'high'"):
        cb.Agent(BELIEF, "c-ucb", seed=0).check(alpha="high")


@pytest.mark.parametrize("policy", ["c-ts(prior=beta)", "c-ts-guarded(prior=beta)", "c-kl-ucb"])
def test_a_recommendation_says_what_contradicts_its_model_and_how_strongly(policy):
    caveats = told(with_arrow("product", 0.3), policy, 300).recommend().caveats
    assert any("given subject, template, send_time, the reward should not depend on product (" in c for c in caveats)
    assert all(("p-value " in c) or ("e-value " in c) for c in caveats)


@pytest.mark.parametrize(
    "policy", ["c-ts(prior=beta)", "c-ts-guarded(prior=beta)", "c-ucb", "cl-ts(regressor=observed)"]
)
def test_a_recommendation_under_a_right_model_says_nothing_of_the_kind(policy):
    assert not any("misspecification" in caveat for caveat in told(EMAIL, policy, 300).recommend().caveats)


def test_baselines_rest_on_no_model_that_could_be_contradicted():
    assert told(with_arrow("product", 0.3), cb.policies.ThompsonSampling(prior="beta"), 200).recommend().caveats == ()


def test_evidence_of_a_policy_that_learns_tables_takes_them_as_learnt_so_far():
    """By tables of which nothing was known, P(a | z) would be pi(a): the last of them must follow the counts."""
    model = BELIEF.model
    unknown = BELIEF.with_model(prior_model(model, values={name: model[name].states for name in model.order}))
    agent = cb.Agent(unknown, cb.policies.CausalThompsonSampling(prior="beta", cpts="learned", samples=16), seed=0)
    rng = np.random.default_rng(0)
    for _ in range(150):
        decision = agent.ask()
        found = EMAIL.pull(decision.action, rng)
        agent.tell(decision.id, reward=found.reward, observed=seen(found.parents))
    evidence = agent.evidence()
    assert evidence.alarms == ()
    fixed, learning = Monitor.start(unknown), Monitor.start(unknown)
    learning.learned = 1
    for outcome in agent._outcomes:
        for watch in (fixed, learning):
            watch.add_outcome(unknown, outcome, outcome.successes, None)
    found = {claim.variable: claim.log_e for claim in evidence.claims if claim.part == "graph"}
    assert found == dict(zip(unknown.manipulable, learning.log_arrows.tolist(), strict=True))
    assert fixed.log_arrows.tolist() != learning.log_arrows.tolist()
    assert learning.current_problem(unknown).model["subject"].table[0, 0] != 0.5
