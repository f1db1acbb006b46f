"""Evidence: martingales, by adding up every possible history, and against closed forms."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.robust.e_process import (
    EFFECT_PSEUDO_COUNT,
    STRATUM_PSEUDO_COUNT,
    choice_effects,
    e_factor,
    log_mean_exp,
)
from causalbandits.policies.robust.implications import expected_rows, log_dirichlet_multinomial
from causalbandits.policies.robust.implications import testable_implications as implications_of
from causalbandits.policies.robust.monitor import ARROW, REPAIRED, ROW, UNCHANGED, Monitor
from oracles.environments import BELIEF, EMAIL, with_arrow


def small_problem(p=(0.3, 0.8)):
    """Two knobs; the first leads to z, the second nowhere."""
    model = cb.CausalModel(
        [
            cb.Variable("a", [0, 1], table=[0.5, 0.5]),
            cb.Variable("b", [0, 1], table=[0.5, 0.5]),
            cb.Variable("z", [0, 1], parents=["a", "b"], table=[[[1 - q, q]] * 2 for q in p]),
        ]
    )
    return cb.Problem(model, manipulable=["a", "b"], reward_parents=["z"], optional=False)


def chances(history):
    """Of four actions, by an adaptive rule: what has paid is tried again."""
    weights = np.ones(4)
    for action, z, reward in history:
        weights[action] += 2 * reward + 0.5 * z
    return weights / weights.sum()


def expectation(problem, true, law, rounds, of, prepare=lambda watch: None, noise=None):
    """The mean of a function of the evidence, over every history of so many rounds.

    `law(action, z)` gives the rewards' values and their probabilities.
    """
    actions = [problem.actions.action(i) for i in range(4)]
    total = 0.0

    def go(history, probability):
        nonlocal total
        if len(history) == rounds:
            watch = Monitor.start(problem)
            prepare(watch)
            for t in range(rounds):
                action, z, reward = history[t]
                support = tuple(zip(actions, chances(history[:t]).tolist(), strict=True))
                pi = support[action][1]
                watch.add_outcome(
                    problem, Outcome(actions[action], (z,), reward, reward, t, pi, support), reward, noise
                )
            total += probability * of(watch)
            return
        for (action, pi), z in itertools.product(enumerate(chances(history).tolist()), (0, 1)):
            pz = true.probability(action, (z,))
            for reward, py in law(action, z):
                go([*history, (action, z, reward)], probability * pi * pz * py)

    go([], 1.0)
    return total


def coin(p):
    return [(1.0, p), (0.0, 1 - p)]


@pytest.mark.parametrize("knob", [0, 1])
def test_evidence_on_a_knob_has_mean_one_for_an_adaptive_policy_if_the_graph_is_right(knob):
    problem = small_problem()
    mean = expectation(problem, problem, lambda a, z: coin((0.2, 0.7)[z]), 3, lambda w: math.exp(w.log_arrows[knob]))
    assert mean == pytest.approx(1.0, abs=1e-12)


def test_so_it_has_for_rewards_of_any_law():
    problem = small_problem()
    law = [(0.0, 0.5), (0.3, 0.4), (9.0, 0.1)], [(-1.0, 0.2), (0.5, 0.8)]
    mean = expectation(
        problem, problem, lambda a, z: law[z], 2, lambda w: math.exp(log_mean_exp(w.log_arrows.tolist())), noise=0.5
    )
    assert mean == pytest.approx(1.0, abs=1e-12)


def test_evidence_on_all_knobs_together_has_mean_one_for_an_adaptive_policy_and_rewards_of_any_law():
    problem = small_problem()
    coins = expectation(problem, problem, lambda a, z: coin((0.2, 0.7)[z]), 3, lambda w: math.exp(w.log_graph))
    assert coins == pytest.approx(1.0, abs=1e-12)
    law = [(0.0, 0.5), (0.3, 0.4), (9.0, 0.1)], [(-1.0, 0.2), (0.5, 0.8)]
    numbers = expectation(problem, problem, lambda a, z: law[z], 2, lambda w: math.exp(w.log_graph), noise=0.5)
    assert numbers == pytest.approx(1.0, abs=1e-12)


def test_evidence_on_all_knobs_does_not_wait_for_one_that_is_never_left_to_chance():
    """Only b varies: all that there is to win is won on b, and a is not tested."""
    problem = small_problem()
    actions, rng = [problem.actions.action(i) for i in (0, 1)], np.random.default_rng(1)
    watch = Monitor.start(problem)
    for t in range(200):
        played, z = int(rng.integers(2)), int(rng.integers(2))
        reward = float(rng.random() < 0.2 + 0.5 * played)
        support = tuple((action, 0.5) for action in actions)
        watch.add_outcome(problem, Outcome(actions[played], (z,), reward, reward, t, 0.5, support), reward, None)
    assert watch.contrasts.tolist() == [0, 200]
    assert watch.log_arrows[0] == 0.0
    assert watch.log_graph == pytest.approx(watch.log_arrows[1], abs=1e-9)
    assert watch.log_graph > 10


@pytest.mark.parametrize("seed", range(5))
def test_what_choices_add_is_a_regression_on_strata_and_one_knob(seed):
    """Three hundred times three sweeps come to what the normal equations say."""
    rng = np.random.default_rng(seed)
    starts, widths, strata = np.array([0, 2, 5]), (2, 3, 4), 4
    seen, paid = np.zeros((strata, 9)), np.zeros((strata, 9))
    for _ in range(300):
        z, own = int(rng.integers(strata)), starts + [rng.integers(w) for w in widths]
        reward = rng.normal() + z + 0.5 * own[1]
        seen[z, own] += 1
        paid[z, own] += reward
    total, added = paid[:, :2].sum(axis=1) + STRATUM_PSEUDO_COUNT * 0.7, np.zeros(9)
    for _ in range(300):
        added = choice_effects(seen, paid, total, starts, added)
    for start, width in zip(starts, widths, strict=True):
        n, s = seen[:, start : start + width], paid[:, start : start + width]
        count = n.sum(axis=1) + STRATUM_PSEUDO_COUNT
        A = np.diag(n.sum(axis=0) + EFFECT_PSEUDO_COUNT) - n.T @ (n / count[:, None])
        b = s.sum(axis=0) - n.T @ (total / count)
        assert added[start : start + width] == pytest.approx(np.linalg.solve(A, b), abs=1e-6)


def test_it_grows_if_the_reward_depends_on_the_knob():
    problem = small_problem()
    mean = expectation(problem, problem, lambda a, z: coin(0.9 if a in (1, 3) else 0.1), 3, lambda w: w.log_arrows[1])
    assert mean > 0.002


def test_a_knob_that_has_joined_the_parents_explains_what_it_does():
    """The reward depends on b: once b has joined, evidence on a is a martingale again."""
    problem = small_problem()

    def join_b(watch):
        watch.joined[1] = 1
        watch.record_alarm(0, ARROW, 1, 5.0, REPAIRED)
        watch.restart(problem)

    law = lambda a, z: coin((0.1 if z else 0.3) + 0.6 * (a in (1, 3)))  # noqa: E731
    mean = expectation(problem, problem, law, 3, lambda w: math.exp(w.log_arrows[0]), join_b)
    assert mean == pytest.approx(1.0, abs=1e-12)


def test_evidence_on_tables_has_mean_one_if_they_are_right_and_more_if_not():
    problem, other = small_problem(), small_problem((0.3, 0.5))
    law = lambda a, z: coin(0.5 + 0.1 * z)  # noqa: E731
    assert expectation(problem, problem, law, 3, lambda w: math.exp(w.log_tables)) == pytest.approx(1.0, abs=1e-12)
    assert expectation(problem, other, law, 3, lambda w: math.exp(w.log_tables)) > 1.001


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3),
    st.lists(st.floats(0.001, 1.0), min_size=3, max_size=3),
)
def test_a_factor_has_mean_one_whatever_was_guessed(q, weights):
    p = [weight / sum(weights) for weight in weights]
    factors = [e_factor(q, p, x) for x in range(3)]
    assert sum(map(math.prod, zip(p, factors, strict=True))) == pytest.approx(1.0, abs=1e-12)


def told(problem, n, seed):
    rng = np.random.default_rng(seed)
    for t in range(n):
        action = problem.actions.action(int(rng.integers(problem.actions.size)))
        z = tuple(int(rng.integers(size)) for size in problem.shape)
        yield Outcome(action, z, 1.0, 1.0, t)


@pytest.mark.parametrize("rows", [0, 50])
def test_evidence_on_rows_is_the_ratio_of_likelihoods_of_their_counts(rows):
    """Kept value by value, it is the closed form of the counts; also for tables that were fitted."""
    problem = cb.zoo.email_campaign().problem
    if rows:
        problem = problem.with_model(cb.fit(problem.model, problem.model.sample(rows, rng=1)))
    watch, claims = Monitor.start(problem), implications_of(problem)
    for outcome in told(problem, 300, seed=2):
        watch.add_outcome(problem, outcome, 1.0, None)
    places = claims.split_by_name(np.arange(claims.size))["template"]
    own = slice(int(places.min()), int(places.max()) + 1)
    first, size = int(claims.row_of[own.start]), places.size
    counts = watch.counted[own].reshape(-1, 2)
    prior = claims.prior[own].reshape(-1, 2)
    null = log_dirichlet_multinomial(prior, counts) if rows else (counts * np.log(prior)).sum(axis=1)
    for j, pseudo in enumerate(claims.alternatives):
        expected = log_dirichlet_multinomial(pseudo[own].reshape(-1, 2), counts) - null
        assert watch.log_rows[first : first + size // 2, j] == pytest.approx(expected, abs=1e-9)
    assert counts.sum() > 50


def test_rows_count_what_fit_counts():
    """Of the same rounds: a variable that was set says nothing of its table, nor one whose parents were not seen."""
    problem = cb.zoo.email_campaign().problem
    outcomes = list(told(problem, 200, seed=3))
    claims, watch = implications_of(problem), Monitor.start(problem)
    for outcome in outcomes:
        watch.add_outcome(problem, outcome, 1.0, None)
    complete = [o for o in outcomes if o.action.choices[0] and o.action.choices[1]]
    data = {name: [] for name in ("product", "purpose", "subject", "template", "send_time")}
    for o in complete:
        row = {**problem.decode_parents(o.z), **o.action.intervention}
        for name in row:
            data[name].append(row[name])
    data["set"] = [",".join(o.action.intervention) for o in complete]
    fitted = cb.fit(problem.model, data, interventions="set")
    assert claims.split_by_name(watch.counted)["template"] == pytest.approx(fitted.posterior.counts["template"])


def test_what_the_table_calls_impossible_is_an_alarm_at_once():
    model = cb.CausalModel(
        [
            cb.Variable("a", [0, 1], table=[0.5, 0.5]),
            cb.Variable("z", [0, 1], parents=["a"], table=[[1, 0], [0.5, 0.5]]),
        ]
    )
    problem = cb.Problem(model, manipulable=["a"], reward_parents=["z"], optional=True)
    watch = Monitor.start(problem)
    action = problem.actions.find({"a": 0})
    watch.add_outcome(problem, Outcome(action, (1,), 1.0, 1.0, 0), 1.0, None)
    about, row, log_e = watch.find_alarm(0.05)
    assert (about, implications_of(problem).format_row(row)) == (ROW, "P(z | a=0)")
    assert log_e > 600
    watch.record_alarm(0, about, row, log_e, UNCHANGED)
    assert watch.find_alarm(0.05) is None


def test_learnt_rows_follow_the_counts_where_these_contradict_the_table_and_else_stay():
    prior = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
    counts = np.array([[0.0, 0.0], [450.0, 50.0], [250.0, 250.0]])
    rows = expected_rows(prior, np.array([k * prior for k in (2, 20, 200)]), counts, fitted=False)
    assert rows.sum(axis=1) == pytest.approx(1.0)
    assert rows[0] == pytest.approx([0.9, 0.1])
    assert rows[1] == pytest.approx([0.9, 0.1], abs=1e-3)
    assert rows[2] == pytest.approx([0.5, 0.5], abs=0.01)


def test_fitted_rows_are_learnt_from_both_until_they_contradict_each_other():
    prior = np.array([[9.0, 1.0], [9.0, 1.0], [90.0, 10.0]])
    counts = np.array([[0.0, 0.0], [27.0, 3.0], [100.0, 100.0]])
    rows = expected_rows(prior, np.ones((1, 3, 2)), counts, fitted=True)
    assert rows[0] == pytest.approx([0.9, 0.1])
    assert rows[1] == pytest.approx([0.9, 0.1], abs=0.02)
    assert rows[2] == pytest.approx([0.5, 0.5], abs=0.01)


def test_a_constant_added_to_all_rewards_changes_no_evidence():
    env, policy = with_arrow("product", 0.3), cb.policies.CausalThompsonSampling(noise_scale=0.5, samples=16)
    situation, statistic, rng = BELIEF.situation(), policy.init(BELIEF), np.random.default_rng(1)
    watches = [Monitor.start(BELIEF) for _ in range(2)]
    for t in range(200):
        choice = policy.decide(situation, statistic, rng)
        z, reward = env.draw(choice.action.choices, rng)
        reward += 0.2 * rng.normal()
        outcome = Outcome(choice.action, z[:3], reward, reward, t, choice.propensity, choice.support)
        policy.update(situation, statistic, outcome)
        for watch, more in zip(watches, (0.0, 50.0), strict=True):
            watch.add_outcome(BELIEF, outcome, reward + more, 0.5)
    assert watches[0].log_arrows == pytest.approx(watches[1].log_arrows, abs=1e-6)
    assert watches[0].log_arrows[0] > math.log(40)


def test_an_outlier_leaves_evidence_finite():
    policy = cb.policies.CausalThompsonSampling(noise_scale=0.5, samples=16)
    situation, statistic, rng = BELIEF.situation(), policy.init(BELIEF), np.random.default_rng(1)
    watch = Monitor.start(BELIEF)
    for t in range(60):
        choice = policy.decide(situation, statistic, rng)
        z, _ = EMAIL.draw(choice.action.choices, rng)
        reward = 1e9 if t == 40 else float(rng.normal())
        outcome = Outcome(choice.action, z, reward, reward, t, choice.propensity, choice.support)
        watch.add_outcome(BELIEF, outcome, reward, 0.5)
    assert np.isfinite(watch.log_arrows).all()
    assert watch.log_arrows.min() > -60 * math.log(1000)
    assert watch.find_alarm(0.05) is None


def test_learned_cpts_are_those_of_a_problem_with_these_tables():
    problem = cb.zoo.email_campaign().problem
    claims = implications_of(problem)
    counts = np.zeros(claims.size)
    claims.split_by_name(counts)["subject"][0] = 0.0, 400.0
    learnt = claims.with_learned_cpts(counts)
    assert learnt.model["subject"].table[0, 1] > 0.95
    assert learnt.model["subject"].table[1:] == pytest.approx(problem.model["subject"].table[1:])
    assert learnt.actions is problem.actions


def problem_in_context(p=((0.3, 0.8), (0.6, 0.5))):
    """What a does to z depends on c, which is seen beforehand; b leads nowhere."""
    model = cb.CausalModel(
        [
            cb.Variable("c", [0, 1], table=[0.7, 0.3]),
            cb.Variable("a", [0, 1], table=[0.5, 0.5]),
            cb.Variable("b", [0, 1], table=[0.5, 0.5]),
            cb.Variable("z", [0, 1], parents=["c", "a", "b"], table=[[[[1 - q, q]] * 2 for q in own] for own in p]),
        ]
    )
    return cb.Problem(model, manipulable=["a", "b"], reward_parents=["z"], context=["c"], optional=False)


def mean_in_contexts(problem, true, law, of, rounds=2):
    """The mean of a function of the evidence over every history; who decides looks at the context and at the past."""
    actions, total = [problem.actions.action(i) for i in range(4)], 0.0

    def pi(history, context):
        weights = np.array([1.0, 2.0, 1.0, 1.0]) if context else chances([h[1:] for h in history]) * 4
        return weights / weights.sum()

    def go(history, probability):
        nonlocal total
        if len(history) == rounds:
            watch = Monitor.start(problem)
            for t, (c, action, z, reward) in enumerate(history):
                support = tuple(zip(actions, pi(history[:t], c).tolist(), strict=True))
                told = Outcome(actions[action], (z,), reward, reward, t, support[action][1], support, None, (c,))
                watch.add_outcome(problem.condition_codes((c,)), told, reward, None)
            total += probability * of(watch)
            return
        for c, pc in enumerate((0.7, 0.3)):
            for (action, share), z in itertools.product(enumerate(pi(history, c).tolist()), (0, 1)):
                pz = true.condition_codes((c,)).probability(action, (z,))
                for reward, py in law(action, z):
                    go([*history, (c, action, z, reward)], probability * pc * share * pz * py)

    go([], 1.0)
    return total


def test_evidence_has_mean_one_where_decisions_look_at_a_context():
    problem = problem_in_context()
    law = lambda a, z: coin((0.2, 0.7)[z])  # noqa: E731
    for knob in (0, 1):
        mean = mean_in_contexts(problem, problem, law, lambda w, knob=knob: math.exp(w.log_arrows[knob]))
        assert mean == pytest.approx(1.0, abs=1e-12)
    assert mean_in_contexts(problem, problem, law, lambda w: math.exp(w.log_tables)) == pytest.approx(1.0, abs=1e-12)


def test_who_comes_is_not_tested():
    """Segments that come otherwise than the model says are no reason for an alarm: they are known beforehand."""
    problem = problem_in_context()
    watch = Monitor.start(problem)
    for t in range(200):
        told = Outcome(problem.actions.action(0), (0,), 1.0, 1.0, t, context=(1,))
        watch.add_outcome(problem.condition_codes((1,)), told, 1.0, None)
    row = implications_of(problem).names.index("c")
    assert implications_of(problem).format_row(row) == "P(c)"
    assert watch.log_rows[row].tolist() == [0.0] * len(watch.log_rows[row])


@pytest.mark.parametrize("knob", ["product", "purpose"])
def test_a_guard_in_contexts_names_the_arrow_that_is_missing(knob):
    """A segment that acts on subject and template is told; the hidden arrow is found all the same."""
    env = with_arrow(knob, 0.3)
    p = env.problem
    segment = cb.Variable("segment", ["old", "new"], table=[0.5, 0.5])
    variables = [
        cb.Variable(
            v.name,
            v.states,
            parents=["segment", *v.parents],
            table=np.stack([v.table, np.roll(v.table, 1, axis=-1)]),
        )
        if v.name == "subject"
        else v
        for v in p.model.variables.values()
    ]
    model = cb.CausalModel([segment, *variables])
    believed = cb.Problem(
        model, manipulable=p.manipulable, reward_parents=BELIEF.parents, context=["segment"], optional=True
    )
    world = cb.Environment(
        cb.Problem(model, manipulable=p.manipulable, reward_parents=p.parents, context=["segment"], optional=True),
        env.reward,
    )
    agent, rng = cb.Agent(believed, "c-ts-guarded(prior=beta)", seed=2), np.random.default_rng(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(600):
            context = {"segment": ["old", "new"][int(rng.integers(2))]}
            decision = agent.ask(context=context)
            seen = world.pull(decision.action, rng, context=context)
            agent.tell(
                decision.id, reward=seen.reward, observed={name: seen.parents[name] for name in believed.parents}
            )
    assert agent.evidence().alarms[0].variable == knob
    assert agent.recommend(context={"segment": "new"}).caveats


def with_side_effect():
    """A dose changes the mood, which the reward depends on, and may do harm, of which something is required."""
    return cb.CausalModel(
        [
            cb.Variable("dose", ["low", "high"], table=[0.5, 0.5]),
            cb.Variable("mood", [0, 1], parents=["dose"], table=[[0.6, 0.4], [0.3, 0.7]]),
            cb.Variable("harm", ["no", "yes"], parents=["dose"], table=[[0.99, 0.01], [0.97, 0.03]]),
        ]
    )


def test_what_is_required_is_watched_though_the_reward_does_not_hang_on_it():
    problem = cb.Problem(
        with_side_effect(),
        manipulable=["dose"],
        reward_parents=["mood"],
        max_probability={"harm": {"yes": 0.05}},
        optional=True,
    )
    agent, rng = cb.Agent(problem, "c-ts-guarded(prior=beta)", seed=1), np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(200):
            decision = agent.ask()
            dose = decision.action.get("dose", "low")
            z = int(rng.random() < 0.5)
            harm = "yes" if rng.random() < 0.3 else "no"
            agent.tell(decision.id, reward=z, observed={"mood": z, "harm": harm, "dose": dose})
    assert any("harm" in claim.claim for claim in agent.evidence().contradicted)
    assert agent.model["harm"].table[:, 1].max() > 0.1
    assert any("were evaluated with the original CPTs" in caveat for caveat in agent.recommend().caveats)


def test_who_comes_is_tested_where_nobody_looked():
    problem = problem_in_context()
    watch = Monitor.start(problem)
    for t in range(100):
        told = Outcome(problem.actions.action(0), (0,), 1.0, 1.0, t, observed={"c": 1})
        watch.add_outcome(problem, told, 1.0, None)
    row = implications_of(problem).names.index("c")
    assert log_mean_exp(watch.log_rows[row].tolist()) > math.log(100)


def test_tastes_of_a_segment_that_the_graph_lacks_are_said():
    """The reward turns with the segment, and the graph has no such arrow: the policy's own draws cannot show it."""
    model = cb.CausalModel(
        [
            cb.Variable("segment", ["a", "b"], table=[0.5, 0.5]),
            cb.Variable("page", [0, 1], table=[0.5, 0.5]),
        ]
    )
    believed = cb.Problem(model, manipulable=["page"], reward_parents=["page"], context=["segment"], optional=True)
    for id in ("c-ts(prior=beta)", "c-ts-guarded(prior=beta)"):
        agent, rng = cb.Agent(believed, id, seed=1), np.random.default_rng(0)
        for _ in range(300):
            segment = ["a", "b"][int(rng.integers(2))]
            decision = agent.ask(context={"segment": segment})
            page = decision.action.get("page", int(rng.integers(2)))
            agent.tell(
                decision.id,
                reward=int(rng.random() < (0.9 if (segment == "a") == (page == 0) else 0.1)),
                observed={"page": page},
            )
        claims = [finding.claim for finding in agent.check().contradicted]
        assert "given page, the reward should not depend on segment" in claims
        assert any(
            "should not depend on segment" in caveat for caveat in agent.recommend(context={"segment": "a"}).caveats
        )


def test_a_knob_that_hangs_on_the_context_when_left_alone_is_named_and_not_mended():
    """To leave it alone means one thing in one context and another in the other: its choice is no value."""
    model = cb.CausalModel(
        [
            cb.Variable("clinic", ["A", "B"], table=[0.5, 0.5]),
            cb.Variable("nurse", [0, 1], parents=["clinic"], table=[[0.02, 0.98], [0.98, 0.02]]),
            cb.Variable("pressure", ["bad", "good"], parents=["nurse"], table=[[0.6, 0.4], [0.4, 0.6]]),
        ]
    )
    known = {"context": ["clinic"], "costs": {"nurse": 0.35}}
    believed = cb.Problem(model, manipulable=["nurse"], reward_parents=["pressure"], **{"optional": True, **known})
    true = cb.Problem(model, manipulable=["nurse"], reward_parents=["pressure", "nurse"], **{"optional": True, **known})
    world = cb.Environment(true, cb.rewards.BernoulliReward([[0.1, 0.6], [0.4, 0.95]]))
    policy = cb.policies.GuardedThompsonSampling(prior="beta", audit=0.1)
    agent, rng = cb.Agent(believed, policy, seed=0), np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(1500):
            clinic = world.draw_context(rng)
            decision = agent.ask(context=clinic)
            seen = world.pull(decision.action, rng, context=clinic)
            agent.tell(decision.id, reward=seen.reward, observed={"pressure": seen.parents["pressure"]})
    (alarm,) = agent.evidence().alarms
    assert alarm.variable == "nurse"
    assert "variable depends on the context," in str(alarm)
    assert agent.recommend(context={"clinic": "A"}).caveats
