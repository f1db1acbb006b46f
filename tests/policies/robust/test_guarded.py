"""The guard: what it notices, what it does about it, and that it changes nothing where nothing is wrong."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play
from causalbandits.engine.driver import POLICY, WORLD, play, seed_of, stream
from causalbandits.errors import EvidenceWarning, PolicyError, SizeError
from causalbandits.planning.experiment_spec import read_spec
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.robust.implications import testable_implications as implications_of
from causalbandits.policies.robust.monitor import (
    ARROW,
    GRAPH_ABANDONED,
    REPAIRED,
    ROW,
    TABLES_LEARNED,
    TOO_LARGE,
    UNCHANGED,
    GroupedProjection,
    repaired_cell,
)
from oracles.engine_agent import engine_agent
from oracles.environments import BELIEF, EMAIL, seen, twenty_actions, with_arrow, with_row

GUARD = cb.policies.GuardedThompsonSampling(prior="beta")


def played(env, policy=GUARD, belief=BELIEF, horizon=400, replication=0):
    """Regret, and what the policy knows in the end."""
    kept = []
    watch = lambda slot, statistic, plays: kept.append(statistic)  # noqa: E731
    regret = play(env, policy, belief, np.array([horizon]), 1, replication, watch=watch).regret[-1]
    return regret, kept[0]


def first_alarms(env, runs, **settings):
    rings = [played(env, replication=r, **settings)[1].alarm_rows() for r in range(runs)]
    return [own[0] if own else None for own in rings]


def test_without_an_alarm_it_is_thompson_sampling_with_as_many_draws():
    plain = cb.policies.CausalThompsonSampling(prior="beta", samples=32)
    run = cb.simulate(EMAIL, {"guarded": GUARD, "plain": plain}, horizon=300, replications=3, seed=5)
    assert np.array_equal(run.regret("guarded"), run.regret("plain"))


def test_false_alarms_are_rarer_than_the_level():
    """At a level of 20%, more than 18 of 60 right runs would be alarmed by chance once in 300 at most."""
    policy = cb.policies.GuardedThompsonSampling(prior="beta", alpha=0.2)
    assert sum(ring is not None for ring in first_alarms(EMAIL, 60, policy=policy, horizon=250)) <= 18


def test_an_arrow_that_is_missing_is_named_and_mended():
    """The bars: by round 150 in the median, the right knob in 60% of the runs or more."""
    env = with_arrow("product", 0.3)
    rings = first_alarms(env, 12, horizon=300)
    assert np.median([math.inf if ring is None else ring.decision for ring in rings]) <= 150
    assert sum(ring is not None and ring[1:3] == (ARROW, 0) for ring in rings) >= 0.6 * 12
    regrets = [
        [played(env, policy, horizon=1500, replication=r)[0] for r in range(4)] for policy in (GUARD, GUARD.inner)
    ]
    assert np.mean(regrets[0]) < np.mean(regrets[1]) / 2


def test_a_row_that_is_wrong_is_named_and_learnt_and_no_arrow_is_blamed():
    env = with_row(0.5)
    rings = first_alarms(env, 8, horizon=200)
    described = [None if ring is None else implications_of(BELIEF).format_row(ring.which) for ring in rings]
    assert described.count("P(template | product='Photoshop', purpose='Promo')") >= 6
    assert np.median([math.inf if ring is None else ring.decision for ring in rings]) <= 150
    _, statistic = played(env, horizon=800)
    assert [ring.about for ring in statistic.alarm_rows()] == [ROW]
    assert statistic.alarm_rows()[0].done == TABLES_LEARNED
    believed = statistic.current_problem(BELIEF).model["template"].table[0, 1, 0]
    assert believed == pytest.approx(0.5, abs=0.08)


def test_cells_of_a_mended_graph_hold_all_that_was_told():
    env = with_arrow("product", 0.3)
    outcomes, statistic = conversation(env, GUARD, 250)
    assert statistic.alarm_rows()[0].done == REPAIRED
    knobs = tuple(np.flatnonzero(statistic.joined).tolist())
    count, total = np.zeros(len(statistic.count)), np.zeros(len(statistic.count))
    for outcome in outcomes:
        cell = repaired_cell(BELIEF.configuration(outcome.z), outcome.action.choices, BELIEF.actions.radices, knobs)
        count[cell] += 1
        total[cell] += outcome.reward
    assert np.array_equal(count, statistic.count)
    assert np.array_equal(total, statistic.total)


def conversation(env, policy, rounds, belief=BELIEF, seed=1):
    """Outcomes of a policy that is told everything at once, and what it knows then."""
    rng, world = stream(seed, 0, POLICY), stream(seed, 0, WORLD)
    situation, statistic = belief.situation(), policy.init(belief)
    places = [env.problem.parents.index(name) for name in belief.parents]
    outcomes = []
    for t in range(rounds):
        choice = policy.decide(policy.feasible(situation, statistic), statistic, rng)
        z, reward = env.draw(choice.action.choices, world)
        own = tuple(z[place] for place in places)
        outcomes.append(Outcome(choice.action, own, reward, reward, t, choice.propensity, choice.support))
        policy.update(situation, statistic, outcomes[-1])
        policy.monitor(situation, statistic, outcomes[-1])
    return outcomes, statistic


@pytest.mark.parametrize("knobs", [(0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("settings", [{}, {"max_set": 2}, {"optional": ["product", "send_time"]}])
def test_mended_scores_are_sums_over_z_of_the_cells_that_an_action_leads_to(knobs, settings):
    problem = cb.Problem(
        BELIEF.model, manipulable=BELIEF.manipulable, reward_parents=BELIEF.parents, **{"optional": True, **settings}
    )
    situation = problem.situation(every=True)
    search = GroupedProjection(situation, knobs)
    radices = problem.actions.radices
    index = np.random.default_rng(0).normal(size=(3, problem.configurations * search.choice_count))
    found = search.scores(index).values
    for position in range(situation.size):
        action = situation.action(position)
        p = problem.parent_distribution(action).reshape(-1)
        cells = [repaired_cell(z, action.choices, radices, knobs) for z in range(problem.configurations)]
        assert found[:, position] == pytest.approx(index[:, cells] @ p, abs=1e-12)


def test_where_a_single_knob_is_blamed_the_graph_is_given_up():
    """On the worst case for a graph that is believed in: near Thompson sampling without it, which has 49."""
    env, belief = twenty_actions()
    results = [played(env, GUARD, belief, 2000, r) for r in range(4)]
    assert np.mean([regret for regret, _ in results]) < 80
    for _, statistic in results:
        assert [ring.done for ring in statistic.alarm_rows()] == [GRAPH_ABANDONED]
        assert statistic.alarm_rows()[0].decision <= 150
        assert len(statistic.count) == 20
        assert statistic.count.sum() == 2000


def test_what_is_done_about_an_alarm_can_be_chosen():
    env = with_arrow("product", 0.3)
    warned, left = (
        played(env, cb.policies.GuardedThompsonSampling(prior="beta", on_alarm=way), horizon=250)[1]
        for way in ("warn", "leave")
    )
    assert [ring.done for ring in warned.alarm_rows()] == [UNCHANGED]
    assert not warned.joined.any()
    assert [ring.done for ring in left.alarm_rows()] == [GRAPH_ABANDONED]
    assert len(left.count) == 80


def test_the_agent_and_the_simulator_decide_the_same_through_an_alarm():
    env = with_arrow("product", 0.3)
    expected, statistic = conversation(env, GUARD, 200)
    agent, world = engine_agent(BELIEF, GUARD, seed=seed_of(1, 0, POLICY)), stream(1, 0, WORLD)

    def replay():
        for outcome in expected:
            decision = agent.ask()
            assert decision.action == outcome.action.intervention
            z, reward = env.draw(outcome.action.choices, world)
            agent.tell(decision.id, reward=reward, observed=seen(env.problem.decode_parents(z)))

    with pytest.warns(
        EvidenceWarning,
        match="should not depend on product .*the policy added the variable to the reward's parents. See agent.",
    ):
        replay()
    assert agent._statistic.to_record() == statistic.to_record()
    assert len(statistic.alarm_rows()) == 1


def pulled(env, decisions):
    return [(d, env.pull(d.action, d.id)) for d in decisions]


def test_evidence_counts_in_the_order_of_decisions_whatever_the_order_of_telling():
    env = with_arrow("product", 0.3)
    forward, backward = (cb.Agent(BELIEF, GUARD, seed=3) for _ in range(2))
    batch = pulled(env, forward.ask(120))
    backward.ask(120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        for decision, found in batch:
            forward.tell(decision.id, reward=found.reward, observed=seen(found.parents))
        for decision, found in batch[:0:-1]:
            backward.tell(decision.id, reward=found.reward, observed=seen(found.parents))
            assert backward.evidence().rounds == 0
        backward.tell(0, reward=batch[0][1].reward, observed=seen(batch[0][1].parents))
    assert backward.evidence() == forward.evidence()
    assert forward.evidence().rounds == 120
    assert forward.evidence().alarms


def test_who_is_forgotten_is_not_waited_for():
    agent = cb.Agent(BELIEF, GUARD, seed=3)
    for decision, found in pulled(EMAIL, agent.ask(20))[1:]:
        agent.tell(decision.id, reward=found.reward, observed=found.parents)
    assert agent.evidence().rounds == 0
    agent.cancel(0)
    assert agent.evidence().rounds == 19


def test_a_correction_makes_evidence_as_if_it_had_been_told_at_first(tmp_path):
    env = with_arrow("product", 0.3)
    right, wrong = (cb.Agent(BELIEF, GUARD, seed=3) for _ in range(2))
    batch = pulled(env, right.ask(120))
    wrong.ask(120)
    right.cancel(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        for decision, found in batch:
            if decision.id != 7:
                right.tell(decision.id, reward=found.reward, observed=seen(found.parents))
                mistake = decision.id % 4 == 0
                wrong.tell(
                    decision.id, reward=1 - found.reward if mistake else found.reward, observed=seen(found.parents)
                )
        wrong.cancel(7)
        for decision, found in batch[::4]:
            wrong.correct(decision.id, reward=found.reward, observed=seen(found.parents))
    statistics = []
    for name, agent in (("right", right), ("wrong", wrong)):
        agent.save(tmp_path / name)
        statistics.append(json.loads((tmp_path / name).read_text())["statistic"])
    assert statistics[0] == statistics[1]
    assert len(right.evidence().alarms) >= 1


@pytest.mark.parametrize(("env", "rounds"), [(with_arrow("product", 0.3), 250), (with_row(0.5), 120)])
def test_an_agent_that_has_mended_its_model_is_saved_whole(tmp_path, env, rounds):
    agent = cb.Agent(BELIEF, GUARD, seed=2)

    def converse(one, n, seed):
        rng, decided = np.random.default_rng(seed), []
        for _ in range(n):
            decision = one.ask()
            found = env.pull(decision.action, rng)
            one.tell(decision.id, reward=found.reward, observed=seen(found.parents))
            decided.append(decision.action)
        return decided

    with pytest.warns(EvidenceWarning):
        converse(agent, rounds, 0)
    agent.save(tmp_path / "agent.json")
    resumed = cb.Agent.load(tmp_path / "agent.json")
    assert resumed.evidence() == agent.evidence()
    assert resumed.recommend() == agent.recommend()
    assert converse(resumed, 40, 1) == converse(agent, 40, 1)


def test_audits_try_every_searched_action_with_its_exact_probability():
    policy = cb.policies.GuardedThompsonSampling(prior="beta", audit=0.4)
    situation, statistic = BELIEF.situation(), policy.init(BELIEF)
    for outcome in conversation(EMAIL, GUARD, 300)[0]:
        policy.update(situation, statistic, outcome)
    rng, n = np.random.default_rng(0), 1500
    choices = [policy.decide(policy.feasible(situation, statistic), statistic, rng) for _ in range(n)]
    for choice in choices[:50]:
        shares = dict(choice.support)
        assert len(shares) == situation.size
        assert sum(shares.values()) == pytest.approx(1.0)
        assert min(shares.values()) >= 0.4 / situation.size - 1e-15
        assert choice.propensity == shares[choice.action]
    for action in (situation.action(position) for position in range(situation.size)):
        expected = np.mean([dict(choice.support)[action] for choice in choices])
        share = np.mean([choice.action == action for choice in choices])
        assert abs(share - expected) < 5 * math.sqrt(0.25 / n)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"samples": 1}, "samples must be 2 or more"),
        ({"alpha": 0.0}, "alpha must lie between 1e-9 and 0.5; got 0.0"),
        ({"audit": 0.6}, "audit must lie between 0 and 0.5; got 0.6"),
        ({"on_alarm": "panic"}, "on_alarm must be one of 'repair', 'warn', 'leave'; got 'panic'"),
        ({"prior": "beta", "noise_scale": 2.0}, "A Beta prior has no scales"),
    ],
)
def test_what_makes_no_guard_is_refused(settings, complaint):
    with pytest.raises(PolicyError, match=complaint):
        cb.policies.GuardedThompsonSampling(**settings)


def many_knobs(n):
    model = cb.CausalModel(
        variable
        for i in range(n)
        for variable in (
            cb.Variable(f"x{i}", [0, 1, 2], table=[0.2, 0.3, 0.5]),
            cb.Variable(f"w{i}", [0, 1], parents=[f"x{i}"], table=[[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]]),
        )
    )
    return cb.Problem(
        model, manipulable=[f"x{i}" for i in range(n)], reward_parents=[f"w{i}" for i in range(n)], optional=True
    )


def test_a_giant_action_set_is_watched_but_not_mended():
    problem = many_knobs(9)
    policy = cb.policies.GuardedThompsonSampling(prior="beta", samples=8)
    situation, statistic, rng = problem.situation(), policy.init(problem), np.random.default_rng(0)
    for t in range(5):
        choice = policy.decide(policy.feasible(situation, statistic), statistic, rng)
        z = tuple(rng.integers(2, size=9).tolist())
        outcome = Outcome(choice.action, z, 1.0, 1.0, t, choice.propensity, choice.support)
        if t == 3:
            statistic.log_arrows[4] = statistic.log_graph = 20.0
        policy.update(situation, statistic, outcome)
        policy.monitor(situation, statistic, outcome)
    assert [(ring.which, ring.done) for ring in statistic.alarm_rows()] == [(4, TOO_LARGE)]
    wide = cb.policies.GuardedThompsonSampling(prior="beta", audit=0.1)
    large = many_knobs(13)
    with pytest.raises(SizeError, match="audit= periodically tries each of the 8192 searched actions;"):
        wide.decide(wide.feasible(large.situation(), GUARD.init(large)), GUARD.init(large), rng)


def test_the_compiled_rounds_leave_it_to_the_plain_ones():
    assert not can_play(EMAIL, GUARD, BELIEF)
    assert not can_play(EMAIL, cb.policies.HACUCB(), BELIEF)


def test_a_file_that_describes_a_comparison_takes_the_ids(tmp_path):
    (tmp_path / "campaign.toml").write_text(
        """
        environment = { zoo = "email_campaign" }
        simulation = { horizon = 40, replications = 1 }
        policies = { 'c-ts-guarded(prior=beta)' = { audit = 0.02, on_alarm = "warn" }, hac-ucb = {} }
        """
    )
    run = read_spec(tmp_path / "campaign.toml").run()
    assert run.policies == ("c-ts-guarded(prior=beta)", "hac-ucb")


def segments_with_arrow(effect=0.35):
    """Clicks also hang on the product, which the belief denies; customers are of three segments."""
    base = cb.zoo.email_segments()
    p = base.problem
    true = cb.Problem(
        p.model, manipulable=p.manipulable, reward_parents=[*p.parents, "product"], context=p.context, optional=True
    )
    means = base.configuration_means.reshape(p.shape)[..., None] + np.linspace(-effect, effect, 3)
    return cb.Environment(true, cb.rewards.BernoulliReward(means.clip(0.01, 0.99))), p


def converse(agent, env, rounds, seed=0):
    rng, decided = np.random.default_rng(seed), []
    for _ in range(rounds):
        known = env.draw_context(rng)
        decision = agent.ask(context=known)
        found = env.pull(decision.action, rng, context=known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)
            agent.tell(decision.id, reward=found.reward, observed=seen(found.parents, agent.problem))
        decided.append((known, decision))
    return decided


def test_a_graph_that_is_left_in_contexts_is_a_number_for_every_action_in_each(tmp_path):
    env, belief = segments_with_arrow()
    agent = cb.Agent(belief, cb.policies.GuardedThompsonSampling(prior="beta", on_alarm="leave"), seed=1)
    with pytest.raises(
        PolicyError,
        match=r"\(segment\); known: nothing\. Pass the whole context, or leave on_alarm out: the default accepts a",
    ):
        agent.ask()
    past = {"segment": ["new"], "product": ["Photoshop"], "subject": ["short"], "template": ["1"]}
    past |= {"purpose": ["Promo"], "send_time": ["morning"], "click": [1], "set": ["product,purpose,send_time"]}
    assert agent.learn(past, reward="click", interventions="set").used == 1
    decided = converse(agent, env, 300)
    statistic, size = agent._statistic, belief.actions.size
    assert [ring.done for ring in statistic.alarm_rows()] == [GRAPH_ABANDONED]
    count, total = np.zeros(3 * size), np.zeros(3 * size)
    for outcome in agent._outcomes:
        context = outcome.context[0]
        count[context * size + outcome.action.number] += 1
        total[context * size + outcome.action.number] += outcome.reward
    assert np.array_equal(count, statistic.count)
    assert np.array_equal(total, statistic.total)
    assert count.sum() == len(decided) + 1
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json")
    assert str(again.recommendations()) == str(agent.recommendations())
    assert converse(again, env, 20, 5) == converse(agent, env, 20, 5)
    assert all(decision.propensity is not None for _, decision in converse(agent, env, 3))
    with pytest.raises(PolicyError, match="needs the whole context"):
        agent.recommend()


def test_a_context_that_says_nothing_changes_no_decision_when_the_graph_is_left():
    env = with_arrow("product", 0.3)
    only = cb.Variable("only", ["one"], table=[1.0])
    model = cb.CausalModel([only, *BELIEF.model.variables.values()])
    looking = cb.Problem(
        model, manipulable=BELIEF.manipulable, reward_parents=BELIEF.parents, context=["only"], optional=True
    )
    policy, rng = cb.policies.GuardedThompsonSampling(prior="beta", on_alarm="leave"), np.random.default_rng(3)
    one, other = (cb.Agent(problem, policy, seed=1) for problem in (BELIEF, looking))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        for _ in range(150):
            mine, its = one.ask(), other.ask(context={"only": "one"})
            assert mine == its
            found = env.pull(mine.action, rng)
            for agent, decision in ((one, mine), (other, its)):
                agent.tell(decision.id, reward=found.reward, observed=seen(found.parents))
    assert one.evidence().alarms == other.evidence().alarms != ()
