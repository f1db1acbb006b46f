"""Tables learnt while running."""

from __future__ import annotations

import copy
import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import DataError, PolicyError, ProblemWarning
from causalbandits.fitting import prior_model
from causalbandits.model import DirichletPosterior
from causalbandits.policies import situation_for
from causalbandits.policies.cpts.online_posterior import LearnedCPTs, learned_cpts, with_sampled_cpts
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.registry import ESTIMATED_TABLES
from causalbandits.policies.statistics import Cells
from causalbandits.problem.inference.blocks import Block
from oracles import cases, distribution, patient
from oracles.engine_agent import engine_agent

BETA = cb.policies.CausalThompsonSampling(prior="beta", cpts="learned")


@pytest.fixture(scope="module")
def env():
    return cb.zoo.email_campaign()


def play(agent, env, rounds, seed=0):
    """Rounds in which everything on the way to the reward is observed; what happened, as a log."""
    world, log = np.random.default_rng(seed), []
    for _ in range(rounds):
        decision = agent.ask()
        seen, z, reward = env.draw_all(env.problem.choices(decision.action), world)
        values = {name: env.problem.model[name].states[code] for name, code in seen.items()}
        parents = env.problem.decode_parents(z)
        others = {name: value for name, value in values.items() if name not in parents}
        agent.tell(decision.id, reward=reward, observed={**parents, **others})
        log.append({**values, "was set": ",".join(decision.action)})
    return log


def under(situation, tables):
    """A situation in which variables have other tables."""
    return situation.with_candidates(situation.candidates.with_cpts(tables))


def columns(log):
    return {name: [row[name] for row in log] for name in log[0]}


@pytest.mark.parametrize("seed", range(20))
def test_counting_while_running_is_fitting_the_log(seed):
    """20 random worlds, 5 histories each; counts equal, entry by entry."""
    env = cb.zoo.random_world(8, rng=seed)
    on_the_way = {name for block in env.problem.blocks for name in block.names}
    for own in range(5):
        problem = env.problem.without_cpts()
        agent = cb.Agent(problem, "c-ts(scales=given, cpts=learned)", seed=own)
        log = play(agent, env, 30, seed=own)
        part = {name: env.problem.model[name].parents for name in env.problem.model.order if name in on_the_way}
        states = {name: env.problem.model[name].states for name in part}
        fitted = cb.fit(part, columns(log), values=states, interventions="was set")
        for name in part:
            assert np.array_equal(agent.model.posterior.concentrations[name], fitted.posterior.concentrations[name])


def test_rows_count_only_where_a_variable_and_its_causes_were_seen(env):
    problem = env.problem.without_cpts()
    tables, policy = learned_cpts(problem), BETA
    statistic, action = (
        policy.init(problem),
        problem.actions.find({"purpose": "Promo", "send_time": "morning"}),
    )
    template = tables.split_by_name(np.arange(tables.size))["template"]
    for observed, counted in ((None, False), ({"product": 0}, True)):
        policy.update(problem.situation(), statistic, Outcome(action, (0, 1, 0), 1.0, 1.0, observed=observed))
        assert bool(statistic.seen[template].any()) is counted
    by_name = tables.split_by_name(statistic.seen)
    assert by_name["send_time"].sum() == by_name["purpose"].sum() == 0, "what was set says nothing of its table"
    assert by_name["product"].tolist() == [1, 0, 0]


@given(cases(most=6), st.integers(0, 2**32 - 1))
@patient
def test_a_situation_under_other_tables_is_that_of_a_problem_with_them(case, seed):
    problem = cb.Problem(
        case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True
    ).without_cpts()
    model = problem.model.draw(seed)
    tables = {name: v.table for name, v in model.variables.items()}
    index = np.random.default_rng(seed).normal(size=problem.configurations)
    other = problem.with_model(model)
    for ours, theirs in (
        (problem.situation(every=True), other.situation(every=True)),
        (problem.situation(any_cpts=True), other.situation(any_cpts=True)),
    ):
        found = ours.with_candidates(ours.candidates.with_cpts(tables))
        assert [found.action(i).choices for i in range(found.size)] == [
            theirs.action(i).choices for i in range(theirs.size)
        ]
        assert np.allclose(found.project(index).values, theirs.project(index).values, rtol=1e-12, atol=1e-12)
    do = problem.actions[problem.actions.size - 1]
    exact = distribution(model, do, case.parents).reshape(-1) @ index
    found = under(problem.situation(every=True), tables).project(index).values[-1]
    assert math.isclose(found, exact, rel_tol=1e-9, abs_tol=1e-9)


@st.composite
def narrowed(draw):
    case = draw(cases(most=6))
    knobs = case.manipulable
    always = draw(st.lists(st.sampled_from(knobs), unique=True, max_size=1))
    at_most = draw(st.none() | st.integers(max(1, len(always)), len(knobs)))
    some = draw(st.lists(st.sampled_from(knobs), unique=True, max_size=1))
    manipulable = {name: case.model[name].states[:1] if name in some else None for name in knobs}
    return case.model, manipulable, case.parents, at_most, always


@given(narrowed(), st.integers(0, 2**32 - 1))
@patient
def test_the_search_by_structure_never_loses_the_best_whatever_the_tables(given_, seed):
    model, manipulable, parents, at_most, always = given_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProblemWarning)
        problem = cb.Problem(
            model,
            manipulable=manipulable,
            reward_parents=parents,
            max_set=at_most,
            optional=[name for name in manipulable if name not in always],
        ).without_cpts()
    rng = np.random.default_rng(seed)
    for _ in range(5):
        drawn = problem.model.draw(rng)
        tables = {name: v.table for name, v in drawn.variables.items()}
        index = rng.normal(size=problem.configurations)
        everything = under(problem.situation(every=True), tables).project(index).values.max()
        searched = under(problem.situation(any_cpts=True), tables).project(index).values.max()
        assert math.isclose(everything, searched, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("whole_limit", [1, 2**12])
def test_some_actions_under_other_tables_are_those_of_a_problem_with_them(env, whole_limit, monkeypatch):
    """Given as eligible, listed, or few at once; in contexts, too; whether all or some are scored."""
    monkeypatch.setattr("causalbandits.problem.candidates.candidate_set.SCORE_ALL_LIMIT", whole_limit)
    p, segments, rng = env.problem, cb.zoo.email_segments().problem, np.random.default_rng(0)
    few = list(p.actions)[3:70:5]
    some = {"eligible": few}
    for problem, how in (
        (p, some),
        (cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, actions=few), {"any_cpts": True}),
        (cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, max_set=2), {"any_cpts": True}),
        (segments.condition({"segment": "new"}), {"any_cpts": True}),
        (segments.condition({"segment": "new"}), some),
    ):
        open_, index = problem.without_cpts(), rng.random(problem.configurations)
        for _ in range(2):
            model = open_.model.draw(rng)
            theirs = open_.with_model(model).situation(**how)
            ours = under(open_.situation(**how), {name: v.table for name, v in model.variables.items()})
            assert [ours.action(i).choices for i in range(ours.size)] == [
                theirs.action(i).choices for i in range(theirs.size)
            ]
            assert np.array_equal(ours.candidates.array(), theirs.candidates.array())
            for found in (ours.project(index).values, ours.candidates.projection(index)):
                assert np.array_equal(found, theirs.project(index).values)


def test_a_root_that_is_left_alone_is_not_searched(env):
    assert env.problem.situation(any_cpts=True).size == 4 * 3 * 3
    one = cb.Problem(
        env.problem.model, manipulable=env.problem.manipulable, reward_parents=env.problem.parents, max_set=1
    )
    assert {tuple(one.situation(any_cpts=True).action(i).intervention) for i in range(10)} == {
        ("product",),
        ("purpose",),
        ("send_time",),
    }


def test_the_posterior_of_a_row_with_doubt_is_bayes_rule_observation_by_observation():
    """Two hypotheses, each with its predictive probability of the next observation."""
    model = cb.CausalModel.from_posterior(
        cb.CausalGraph({"x": []}, values={"x": [0, 1, 2]}),
        DirichletPosterior({"x": [40.0, 5.0, 0.0]}, {"x": [1.0, 1.0, 0.5]}, rows=45),
    )
    tables = learned_cpts(cb.Problem(model, manipulable=["x"], reward_parents=["x"], optional=True))
    rng, seen, odds, a = np.random.default_rng(0), np.zeros(3), math.log(0.3 / 0.7), tables.prior
    for code in rng.integers(3, size=60).tolist():
        past = (a[code] + seen[code]) / (a.sum() + seen.sum())
        nothing = (1 + seen[code]) / (3 + seen.sum())
        odds += math.log(past / nothing)
        seen[code] += 1
        assert math.isclose(tables.belief_in_past(seen, 0.3)[0], 1 / (1 + math.exp(-odds)), rel_tol=1e-9)
    mean = tables.mean(seen, 0.3)
    kept = 1 / (1 + math.exp(-odds))
    assert np.allclose(mean, kept * (a + seen) / (a + seen).sum() + (1 - kept) * (1 + seen) / (1 + seen).sum())


def test_drawn_tables_have_the_posterior_s_mean_and_variance():
    counts, prior = {"x": [3, 7], "y": [[1, 2, 3], [9, 0, 0]]}, {"x": [1, 1], "y": [[1, 1, 1], [1, 1, 0.01]]}
    model = cb.CausalModel.from_posterior(
        cb.CausalGraph({"x": [], "y": ["x"]}, values={"x": [0, 1], "y": [0, 1, 2]}),
        DirichletPosterior(counts, prior, rows=10),
    )
    tables = learned_cpts(cb.Problem(model, manipulable=["x"], reward_parents=["y"], optional=True))
    seen = np.arange(tables.size, dtype=float)
    drawn = tables.sample_entries(seen, 1.0, np.random.default_rng(0), 40_000)
    a = tables.prior + seen
    mean, size = a / tables.row_totals(a)[tables.row_of], tables.row_totals(a)[tables.row_of]
    assert np.allclose(drawn.mean(axis=0), mean, atol=0.005)
    assert np.allclose(drawn.var(axis=0), mean * (1 - mean) / (size + 1), atol=0.002)
    doubted = tables.sample_entries(seen, 0.4, np.random.default_rng(0), 40_000).mean(axis=0)
    assert np.allclose(doubted, tables.mean(seen, 0.4), atol=0.005)


def test_rows_of_tiny_parameters_are_drawn_beside_rows_of_large_ones():
    model = cb.CausalModel.from_posterior(
        cb.CausalGraph({"x": [], "y": []}, values={"x": [0, 1], "y": [0, 1]}),
        DirichletPosterior({"x": [1e6, 1e6], "y": [0, 0]}, {"x": [1, 1], "y": [1e-3, 1e-3]}, rows=1),
    )
    tables = learned_cpts(cb.Problem(model, manipulable=["x", "y"], reward_parents=["x", "y"], optional=True))
    drawn = tables.sample_entries(np.zeros(4), 1.0, np.random.default_rng(0), 2000)
    assert np.isfinite(drawn).all()
    assert np.allclose(drawn[:, 2:].sum(axis=1), 1)
    assert abs(drawn[:, 2].mean() - 0.5) < 0.06


def test_tables_are_kept_until_a_row_has_grown_by_a_tenth_or_the_rounds_by_a_fiftieth_or_ten(env):
    agent = cb.Agent(env.problem.without_cpts(), BETA, seed=1)
    play(agent, env, 2000)
    assert 200 < agent._replay_if_stale().draw < 600
    tables = learned_cpts(agent.problem)
    statistic = agent._replay_if_stale()
    weight, at_draw = (tables.row_totals(tables.prior + n) for n in (statistic.seen, statistic.seen_at_draw))
    assert (weight < 1.1 * at_draw).all()
    assert statistic.rounds < min(1.02 * statistic.rounds_at_draw, statistic.rounds_at_draw + 10)


def test_asking_again_uses_the_same_drawn_tables_and_draws_nothing_else(env):
    problem = env.problem.without_cpts()
    statistic, situation, rng = BETA.init(problem), situation_for(BETA, problem), np.random.default_rng(5)
    state = copy.deepcopy(rng.bit_generator.state)
    first = with_sampled_cpts(situation, statistic, 1.0, rng)
    assert with_sampled_cpts(situation, statistic, 1.0, rng).candidates is first.candidates
    assert rng.bit_generator.state == state
    again = with_sampled_cpts(situation, BETA.init(problem), 1.0, np.random.default_rng(5))
    index = np.arange(problem.configurations, dtype=float)
    assert np.array_equal(again.project(index).values, first.project(index).values)
    other = with_sampled_cpts(situation, statistic, 1.0, np.random.default_rng(6))
    assert not np.array_equal(other.project(index).values, first.project(index).values)


def test_a_saved_agent_goes_on_with_the_same_drawn_tables(env, tmp_path):
    agent = cb.Agent(env.problem.without_cpts(), "c-ts(prior=beta, cpts=learned)", seed=3)
    play(agent, env, 137)
    agent.save(tmp_path / "agent.json")
    resumed = cb.Agent.load(tmp_path / "agent.json")
    assert resumed.model == agent.model
    assert play(resumed, env, 80, seed=9) == play(agent, env, 80, seed=9)
    assert resumed.recommend() == agent.recommend()


def test_a_correction_counts_for_the_tables_too(env):
    problem = env.problem.without_cpts()
    agents = [cb.Agent(problem, BETA, seed=3) for _ in range(2)]
    for agent in agents:
        play(agent, env, 40)
    wrong, right = {"subject": "long", "template": "1"}, {"subject": "short", "template": "2"}
    for agent, told in zip(agents, (wrong, right), strict=True):
        decision = agent.ask(eligible=[{"send_time": "morning"}])
        agent.tell(
            decision.id, reward=1, observed={**told, "send_time": "morning", "product": "Photoshop", "purpose": "Promo"}
        )
    both = {"product": "Photoshop", "purpose": "Promo"}
    agents[0].correct(40, reward=1, observed={**right, "send_time": "morning", **both})
    assert agents[0].model == agents[1].model
    assert play(agents[0], env, 30) == play(agents[1], env, 30)


def test_agent_and_simulator_decide_alike(env):
    """The same random numbers, played by hand."""
    from causalbandits.engine.driver import POLICY, WORLD, seed_of, stream

    run = cb.simulate(env, BETA, horizon=200, replications=1, seed=4, measures=["plays"])
    agent = engine_agent(env.problem.without_cpts(), BETA, seed=seed_of(4, 0, POLICY))
    world, regret, problem = stream(4, 0, WORLD), 0.0, env.problem
    for _ in range(200):
        decision = agent.ask()
        seen, z, reward = env.draw_all(problem.choices(decision.action), world)
        others = {n: problem.model[n].states[c] for n, c in seen.items() if n not in problem.parents}
        agent.tell(decision.id, reward=reward, observed={**problem.decode_parents(z), **others})
        regret += env.gap(decision.action)
    assert run.regret("c-ts(prior=beta, cpts=learned)")[0, -1] == regret


def test_every_variable_on_the_way_is_drawn_by_its_own_table(env):
    rng, choices = np.random.default_rng(0), env.problem.choices({"purpose": "Nurture"})
    drawn = [env.draw_all(choices, rng) for _ in range(4000)]
    assert all(seen["purpose"] == 2 for seen, _, _ in drawn)
    found = np.bincount([env.problem.configuration(z) for _, z, _ in drawn], minlength=env.problem.configurations)
    exact = env.problem.parent_distribution({"purpose": "Nurture"}).reshape(-1)
    assert np.abs(found / 4000 - exact).max() < 0.03


def test_learning_without_cpts_costs_little_on_the_email_campaign(env):
    """47.9 in the long run, and 454 for TS without the graph; 12 runs have a standard error of about 4."""
    run = cb.simulate(env, ["c-ts(prior=beta, cpts=learned)"], horizon=5000, replications=12, seed=1, workers=2)
    assert run.regret("c-ts(prior=beta, cpts=learned)")[:, -1].mean() < 62


def ten_settings(rng):
    """One knob of ten values and a coin that it turns: nothing but tables is to be learnt."""
    knob = cb.Variable("x", range(10), table=[0.1] * 10)
    coin = cb.Variable("z", [0, 1], parents=["x"], table=rng.dirichlet([1, 1], size=10))
    problem = cb.Problem(cb.CausalModel([knob, coin]), manipulable=["x"], reward_parents=["z"], optional=False)
    return cb.Environment(problem, cb.rewards.BernoulliReward(np.array([0.2, 0.8])))


def test_a_setting_that_was_never_tried_is_tried():
    """Mean tables would lose 387 here: what was never tried looks like nothing in particular."""
    run = cb.simulate(
        ten_settings,
        ["c-ts(prior=beta, cpts=learned)", "ts(prior=beta)"],
        horizon=2000,
        replications=20,
        seed=1,
        workers=2,
    )
    learnt, plain = (run.regret(id)[:, -1].mean() for id in ("c-ts(prior=beta, cpts=learned)", "ts(prior=beta)"))
    assert learnt < 30
    assert learnt < plain / 2


def test_confounded_past_data_are_forgotten_row_by_row(env):
    """Past rows in which who chose the purpose knew the subject: right for prediction, wrong for do()."""
    model, rng = env.problem.model, np.random.default_rng(0)
    rows = model.sample(1000, rng=rng)
    past = cb.fit(model, {**rows, "subject": rng.permutation(rows["subject"]), "template": rows["template"][::-1]})
    assert past.posterior.observational == 1000
    problem = env.problem.with_model(past)
    policies = {
        "fixed": cb.policies.CausalThompsonSampling(prior="beta"),
        "believed": cb.policies.CausalThompsonSampling(prior="beta", cpts="learned", trust_past=1.0),
        "doubted": cb.policies.CausalThompsonSampling(prior="beta", cpts="learned"),
    }
    run = cb.simulate(env, policies, horizon=2000, replications=12, seed=2, believed=problem, workers=2)
    final = {name: run.regret(name)[:, -1].mean() for name in policies}
    assert final["doubted"] < final["believed"] < final["fixed"]


def test_intervals_carry_what_is_not_known_of_the_tables(env):
    """Of 60 campaigns of 150 rounds at 90%, 54 are expected to cover; fewer than 44 happens once in 10^4 times."""
    covered = 0
    for seed in range(60):
        agent = cb.Agent(env.problem.without_cpts(), BETA, seed=seed)
        play(agent, env, 150, seed=seed)
        best = agent.recommend(confidence=0.9)
        covered += best.lower <= env.mean_reward(best.intervention) <= best.upper
    assert covered >= 44


@pytest.mark.parametrize("policy", ["c-ts(prior=beta, cpts=learned)", "c-ts(prior=beta)"])
def test_the_probability_of_being_the_best_carries_what_is_not_known_of_the_tables(policy):
    """Taken for known at their means, these tables would make it 1 in place of 0.6."""
    graph, states = {"visits": ["banner"]}, {"banner": ["none", "small", "large"], "visits": ["few", "many"]}
    rows = {"none": [5, 3], "small": [4, 4], "large": [3, 5]}
    log = [(b, v) for b, own in rows.items() for v, n in zip(["few", "many"], own, strict=True) for _ in range(n)]
    past = {"banner": [b for b, _ in log], "visits": [v for _, v in log]}
    model = prior_model(graph, values=states) if "learned" in policy else cb.fit(graph, past, values=states)
    agent = cb.Agent(
        cb.Problem(model, manipulable=["banner"], reward_parents=["visits"], optional=True), policy, seed=1
    )
    for k, (banner, visits) in enumerate(log):
        decision = agent.ask(eligible=[{"banner": banner}])
        agent.tell(decision.id, reward=float(visits == "many" and k % 4 > 0), observed={"visits": visits})
    found = agent.recommend()
    cells, rng = agent._statistic, np.random.default_rng(0)
    many = rng.beta([1 + own[1] for own in rows.values()], [1 + own[0] for own in rows.values()], (20_000, 3))
    means = rng.beta(1 + cells.total, 1 + cells.count - cells.total, (20_000, 2))
    values = (1 - many) * means[:, :1] + many * means[:, 1:]
    lost = values.max(axis=1) - values[:, list(rows).index(found.intervention["banner"])]
    assert found.probability == pytest.approx((lost <= 1e-9).mean(), abs=0.09)
    assert found.expected_loss == pytest.approx(lost.mean(), rel=0.25)


def test_known_tables_are_refused_with_the_way_out(env):
    with pytest.raises(PolicyError, match=r"CPTs online, Problem\(graph, values=\.\.\.\)"):
        cb.Agent(env.problem, "c-ts(prior=beta, cpts=learned)")
    with pytest.raises(PolicyError, match="trust_past= requires cpts"):
        cb.policies.CausalThompsonSampling(scales="given", trust_past=0.5)
    for wrong in (0, -1, 1.5, math.nan, "all", True):
        with pytest.raises(PolicyError, match="trust_past must be a probability"):
            cb.policies.CausalThompsonSampling(scales="given", cpts="learned", trust_past=wrong)
    with pytest.raises(PolicyError, match="cpts must be one of 'known', 'learned'"):
        cb.policies.CausalThompsonSampling(scales="given", cpts="guessed")
    with pytest.raises(PolicyError, match=r"No regret bound for 'c-ts\(prior=beta, cpts=learned\)'"):
        cb.theory.bound("c-ts(prior=beta, cpts=learned)", env)


def test_a_graph_alone_makes_a_problem():
    graph = {"subject": ["purpose"], "template": ["purpose"]}
    states = {"purpose": ["Promo", "Nurture"], "subject": ["short", "long"], "template": ["A", "B", "C"]}
    model = prior_model(graph, values=states)
    assert model.posterior.rows == 0
    assert np.allclose(model["template"].table, 1 / 3)
    assert prior_model(graph, values=states, prior=3.0).posterior.concentrations["subject"].tolist() == [[3, 3], [3, 3]]
    with pytest.raises(DataError, match=r"Without data the values of every variable must be given.*'template'"):
        prior_model(graph, values={"purpose": [0, 1], "subject": [0, 1]})
    with pytest.raises(DataError, match="prior of 0"):
        prior_model(graph, values=states, prior=0)
    agent = cb.Agent(
        cb.Problem(model, manipulable=["purpose"], reward_parents=["subject", "template"], optional=True),
        "c-ts(prior=beta, cpts=learned)",
        seed=0,
    )
    decision = agent.ask()
    agent.tell(decision.id, reward=1, observed={"subject": "long", "template": "A"})
    assert agent.model.posterior.counts["template"].sum() == 1


def test_the_first_outcome_that_lacks_a_parent_is_warned_of_once():
    graph = {"b": ["a"], "c": ["b"]}
    model = prior_model(graph, values={name: [0, 1] for name in "abc"})
    agent = cb.Agent(
        cb.Problem(model, manipulable=["a"], reward_parents=["c"], optional=True),
        "c-ts(prior=beta, cpts=learned)",
        seed=0,
    )
    assert [caveat.partition(":")[0] for caveat in agent.recommend().caveats] == ["no rewards observed yet"]
    with pytest.raises(cb.errors.TellError, match=r"lacks 'b': .* learns CPTs .*observed=\{'b': None\}.* can_observe="):
        agent.tell(agent.ask().id, reward=1, observed={"c": 0})
    with pytest.warns(
        ProblemWarning, match=r"No outcome counts so far for the CPTs of 'b', 'c': .* Report 'b' too, .*obs"
    ):
        agent.tell(agent.ask().id, reward=1, observed={"c": 0, "b": None})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(98):
            agent.tell(agent.ask().id, reward=1, observed={"c": 0, "b": None})
    assert any("no outcome counts for the CPTs of 'b', 'c'" in caveat for caveat in agent.recommend().caveats)
    with pytest.warns(ProblemWarning, match="no outcome counts for the CPTs of 'b', 'c'"):  # after a hundred, again
        agent.tell(agent.ask().id, reward=1, observed={"c": 0, "b": None})


def test_the_caveat_stays_until_enough_outcomes_count():
    model = prior_model({"b": ["a"], "c": ["b"]}, values={name: [0, 1] for name in "abc"})
    agent = cb.Agent(
        cb.Problem(model, manipulable=["a"], reward_parents=["c"], optional=True),
        "c-ts(prior=beta, cpts=learned)",
        seed=0,
    )
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):
        for _ in range(30):
            agent.tell(agent.ask().id, reward=1, observed={"c": 0, "b": None})
    agent.tell(agent.ask().id, reward=1, observed={"c": 0, "b": 0})
    assert any("no more than 1 of 31 outcomes count" in caveat for caveat in agent.recommend().caveats)
    for _ in range(4):
        agent.tell(agent.ask().id, reward=1, observed={"c": 0, "b": 0})
    assert not any("outcomes count" in caveat for caveat in agent.recommend().caveats)


def test_outcomes_that_lack_a_value_now_and_then_bring_no_warning():
    model = prior_model({"b": ["a"], "c": ["b"]}, values={name: [0, 1] for name in "abc"})
    agent = cb.Agent(
        cb.Problem(model, manipulable=["a"], reward_parents=["c"], optional=True),
        "c-ts(prior=beta, cpts=learned)",
        seed=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(120):
            agent.tell(agent.ask().id, reward=1, observed={"c": 0, "b": 0 if i % 3 == 0 else None})


def test_a_manipulable_variable_that_was_left_alone_must_be_reported():
    model = prior_model({"a": ["s"], "b": ["a"]}, values={name: [0, 1] for name in "sab"})
    problem = cb.Problem(model, manipulable=["a"], reward_parents=["b"], optional=True)
    agent = cb.Agent(problem, "c-ts(prior=beta, cpts=learned)", seed=0)
    agent.tell(agent.ask(eligible=[{"a": 1}]).id, reward=1, observed={"b": 0, "s": 0})
    decision = agent.ask(eligible=[{}])
    with pytest.raises(cb.errors.TellError, match=r"observed=\{'a': None\}\. Or set 'a' in every action: remove the"):
        agent.tell(decision.id, reward=1, observed={"b": 0, "s": 0})
    with pytest.warns(
        ProblemWarning,
        match=r"the CPT of 'a': .* Report 'a' too.*; or set 'a' in every action: remove the name from optional=",
    ):
        agent.tell(decision.id, reward=1, observed={"b": 0, "s": 0, "a": None})


def test_what_is_known_as_the_context_need_not_be_told_again():
    graph = {"b": ["a", "s"], "c": ["b"]}
    model = prior_model(graph, values={name: [0, 1] for name in "sabc"})
    agent = cb.Agent(
        cb.Problem(model, manipulable=["a"], reward_parents=["c"], context=["s"], optional=True),
        "c-ts(prior=beta, cpts=learned)",
        seed=0,
    )
    with pytest.warns(ProblemWarning, match="the CPTs of 'b', 'c': .* Report 'b' too"):
        agent.tell(agent.ask(context={"s": 0}).id, reward=1, observed={"c": 0, "b": None})


UNOBSERVED_CAUSE = {"m": ["k", "u"]}


def world_with_unobserved_cause():
    """k -> m <- u, m -> reward; the best k brings 0.67 on average, the worst 0.33."""
    effect = np.linspace(0.1, 0.9, 5)[:, None] * [0.5, 0.5] + [[0.0, 0.3]] * 5
    model = cb.CausalModel([
        cb.Variable("k", range(5), table=[0.2] * 5),
        cb.Variable("u", [0, 1], table=[0.4, 0.6]),
        cb.Variable("m", [0, 1], parents=["k", "u"], table=np.stack([1 - effect, effect], axis=-1)),
    ])  # fmt: skip
    env = cb.Environment(
        cb.Problem(model, manipulable=["k"], reward_parents=["m"], optional=True),
        cb.rewards.BernoulliReward([0.1, 0.9]),
    )
    flat = prior_model(UNOBSERVED_CAUSE, values={name: v.states for name, v in model.variables.items()})
    return env, flat


def play_without_u(agent, env, rounds):
    rng = np.random.default_rng(5)
    for _ in range(rounds):
        decision = agent.ask()
        observed = env.pull(decision.action, rng)
        lost = {name: None for name in agent.problem.must_observe if name == "u"}
        agent.tell(decision.id, reward=observed.reward, observed={**observed.parents, **lost})


def test_cpts_are_learned_where_an_unobserved_cause_is_declared():
    env, flat = world_with_unobserved_cause()
    declared = cb.Agent(
        cb.Problem(flat, manipulable=["k"], reward_parents=["m"], can_observe=["m"], optional=True), seed=1
    )
    play_without_u(declared, env, 200)
    assert declared.model.posterior.counts["m"].sum() == 200
    assert dict(declared.recommend().intervention) == {"k": 4}
    assert not any("count" in caveat for caveat in declared.recommend().caveats)
    undeclared = cb.Agent(cb.Problem(flat, manipulable=["k"], reward_parents=["m"], optional=True), seed=1)
    with pytest.warns(ProblemWarning, match="the CPTs of 'u', 'm'.* can_observe="):
        play_without_u(undeclared, env, 200)
    assert undeclared.model.posterior.counts["m"].sum() == 0


@pytest.mark.parametrize("policy", ["c-ts(cpts=learned)", "c-ts(prior=beta, cpts=learned)"])
def test_regret_with_a_declared_unobserved_cause_is_below_half_of_uniform_sampling(policy):
    env, flat = world_with_unobserved_cause()
    problem = cb.Problem(flat, manipulable=["k"], reward_parents=["m"], can_observe=["m"], optional=True)
    run = cb.simulate(env, [policy, "uniform"], believed=problem, horizon=400, replications=10, seed=0)
    regret = {id: run.regret(id)[:, -1].mean() for id in (policy, "uniform")}
    assert regret[policy] < 0.5 * regret["uniform"]


def test_a_saved_agent_with_a_declared_unobserved_cause_goes_on_as_before(tmp_path):
    env, flat = world_with_unobserved_cause()
    problem = cb.Problem(flat, manipulable=["k"], reward_parents=["m"], can_observe=["m"], optional=True)
    agent = cb.Agent(problem, seed=3)
    play_without_u(agent, env, 30)
    agent.save(tmp_path / "agent.json")
    for loaded in (cb.Agent.load(tmp_path / "agent.json"), cb.Agent.load(tmp_path / "agent.json", problem=problem)):
        assert loaded.problem.model.names == ("k", "m")
        assert loaded.model == agent.model
        assert loaded.ask(20) == cb.Agent.load(tmp_path / "agent.json").ask(20)
    with pytest.raises(cb.errors.StateError, match="its variables are"):
        cb.Agent.load(
            tmp_path / "agent.json", problem=cb.Problem(flat, manipulable=["k"], reward_parents=["m"], optional=True)
        )


def test_a_study_learns_with_a_declared_unobserved_cause(tmp_path):
    env, flat = world_with_unobserved_cause()
    rng = np.random.default_rng(2)
    with cb.Study.create(
        tmp_path / "s.db",
        cb.Problem(flat, manipulable=["k"], reward_parents=["m"], can_observe=["m"], optional=True),
        seed=1,
    ) as study:
        for _ in range(60):
            decision = study.ask()
            observed = env.pull(decision.action, rng)
            study.tell(decision.id, reward=observed.reward, observed=observed.parents)
    with cb.Study.open(tmp_path / "s.db") as study:
        assert study.problem.must_observe == ("m", "k")
        assert study.model.posterior.counts["m"].sum() == 60


def test_a_study_says_that_nothing_is_learned_where_the_cause_is_not_declared(tmp_path):
    _, flat = world_with_unobserved_cause()
    with cb.Study.create(
        tmp_path / "s.db", cb.Problem(flat, manipulable=["k"], reward_parents=["m"], optional=True), seed=1
    ) as study:
        study.tell(study.ask().id, reward=1.0, observed={"m": 1})
        assert any("no outcome counts for the CPTs of 'u', 'm'" in caveat for caveat in study.recommend().caveats)


def test_past_rows_in_which_something_was_set_are_told_from_others():
    data = {"x": [0, 1, 0, 1], "y": [0, 1, 1, 1], "set": ["x", "", "x,y", None]}
    fitted = cb.fit({"x": [], "y": ["x"]}, data, interventions="set")
    assert fitted.posterior.observational == 2
    assert cb.fit({"x": [], "y": ["x"]}, data, prior=fitted).posterior.observational == 6
    again = cb.CausalModel.from_record(fitted.to_record())
    assert again == fitted
    assert again.posterior.observational == 2
    problem = cb.Problem(fitted, manipulable=["x"], reward_parents=["y"], optional=True)
    assert cb.policies.CausalThompsonSampling(scales="given", cpts="learned").trust_in(problem) == 0.5
    assert cb.policies.CausalThompsonSampling(scales="given", cpts="learned").trust_in(problem.without_cpts()) == 1.0


def test_many_draws_of_the_means_share_the_drawn_tables_and_tell_propensities(env):
    policy = cb.policies.CausalThompsonSampling(prior="beta", cpts="learned", samples=16)
    agent = cb.Agent(env.problem.without_cpts(), policy, seed=0)
    play(agent, env, 20)
    decision = agent.ask()
    assert decision.propensity is not None
    assert 0 < decision.propensity <= 1


def test_rewards_are_counted_as_without_learning(env):
    agent = cb.Agent(env.problem.without_cpts(), BETA, seed=0)
    play(agent, env, 50)
    statistic = agent._replay_if_stale()
    plain = Cells.empty(env.problem.configurations)
    for outcome in agent._outcomes:
        plain.add(env.problem.configuration(outcome.z), outcome.successes)
    assert np.array_equal(statistic.count, plain.count)
    assert np.array_equal(statistic.total, plain.total)
    assert len(list(itertools.islice(agent._outcomes, 3))) == 3


PRICES = {"product": 0.02, "purpose": {"Promo": 0.05}, "send_time": 0.01}


def priced(env):
    p = env.problem
    return cb.Environment(
        cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=PRICES, optional=True),
        env.reward,
    )


def test_what_costs_something_may_be_left_alone_whatever_the_tables(env):
    """Of each knob that costs something, leaving it alone stays; the best is never lost."""
    problem = priced(env).problem.without_cpts()
    assert problem.situation(any_cpts=True).size == problem.actions.size
    some = cb.Problem(
        problem.model,
        manipulable=problem.manipulable,
        reward_parents=problem.parents,
        costs={"product": 0.1},
        optional=True,
    )
    assert some.situation(any_cpts=True).size == 4 * 4 * 3 < some.actions.size
    rng = np.random.default_rng(0)
    for _ in range(30):
        tables = {name: v.table for name, v in some.model.draw(rng).variables.items()}
        index = rng.random(some.configurations)
        best = [
            under(some.situation(**how), tables).project(index).values.max()
            for how in ({"every": True}, {"any_cpts": True})
        ]
        assert math.isclose(best[0], best[1], rel_tol=1e-12)


def test_costs_and_budgets_go_with_learned_cpts(env):
    """Drawn tables are kept for a whole epoch also where every decision has a situation of its own."""
    world = priced(env)
    agent = cb.Agent(world.problem.without_cpts(), BETA, seed=1, budget=cb.Budget(10, rounds=300))
    play(agent, world, 300)
    assert 9 < agent.budget.spent <= 10
    assert len(agent._replay_if_stale().sampled_cpts) <= 1
    run = cb.simulate(
        world, ["c-ts(prior=beta, cpts=learned)", "ts(prior=beta)"], horizon=1500, replications=6, seed=1, workers=2
    )
    learnt, plain = (run.regret(id)[:, -1].mean() for id in ("c-ts(prior=beta, cpts=learned)", "ts(prior=beta)"))
    assert learnt < plain / 2


def test_how_often_contexts_come_is_learnt_too():
    world = cb.zoo.email_segments()
    agent, rng = cb.Agent(world.problem.without_cpts(), BETA, seed=1), np.random.default_rng(2)
    for _ in range(300):
        known = world.draw_context(rng)
        decision = agent.ask(context=known)
        seen = world.pull(decision.action, rng, context=known)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
    shares = {one.context["segment"]: share for share, one in agent.recommendations()}
    exact = world.problem.model["segment"]
    for segment, share in zip(exact.states, exact.table.tolist(), strict=True):
        assert abs(shares[segment] - share) < 0.12


def test_tables_are_drawn_once_for_all_contexts_and_what_they_share_is_contracted_once(monkeypatch):
    world = cb.zoo.email_segments()
    problem, made, drawn = world.problem.without_cpts(), [], []
    whole, draw = Block._table_from, LearnedCPTs.sample_entries
    monkeypatch.setattr(Block, "_table_from", lambda own, tables: made.append(own) or whole(own, tables))
    monkeypatch.setattr(LearnedCPTs, "sample_entries", lambda own, *given: drawn.append(own) or draw(own, *given))
    statistic, rng = BETA.init(problem), np.random.default_rng(0)
    contexts = [{"segment": segment} for segment in problem.model["segment"].states]
    for context in contexts:
        situation_for(BETA, problem.condition(context)).candidates.projection  # noqa: B018 (made before it is counted)
    made.clear()
    for context in 2 * contexts:
        BETA.decide(situation_for(BETA, problem.condition(context)), statistic, rng)
    assert len(drawn) == 1
    shared = {block for block in made if not block.evidence}
    assert len(made) == len(set(made)) == len(contexts) + len(shared)
    assert {block.manipulable_names for block in shared} == {("send_time",)}


def test_tables_of_which_nothing_is_known_are_not_silently_taken_for_known(env):
    problem = env.problem.without_cpts()
    assert set(problem.unknown_cpts) == {"template", "subject"}
    said = r"The CPTs of subject, template are unknown, and .* as known and uniform.*c-ts\(prior=beta, cpts=learned\)"
    with pytest.warns(ProblemWarning, match=said):
        cb.Agent(problem, "c-ts(prior=beta)")
    with pytest.warns(ProblemWarning, match=said):
        cb.simulate(env, "c-ucb", horizon=10, replications=1, believed=problem)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cb.Agent(problem, "ts(prior=beta)")
        cb.Agent(problem, "c-ts(prior=beta, cpts=learned)")
        cb.Agent(
            env.problem.with_model(cb.fit(env.problem.model, env.problem.model.sample(50, rng=0))), "c-ts(prior=beta)"
        )
        cb.Agent(
            env.problem.with_model(prior_model(env.problem.model, prior={"template": [3, 1], "subject": [1, 2]})),
            "c-ucb",
        )
    description = cb.describe(problem)
    assert description.policy == ESTIMATED_TABLES.id
    assert "CPTs to learn online: subject, template" in str(description)
    assert "Search: 36 actions." in str(description)
    found = cb.forecast(problem, horizon=60, replications=3, progress=False)
    assert ESTIMATED_TABLES.id in str(found)


def test_the_model_of_a_doubted_past_is_what_is_expected_of_it(env):
    past = cb.fit(env.problem.model, env.problem.model.sample(200, rng=0))
    problem = env.problem.with_model(past)
    agent = cb.Agent(problem, cb.policies.CausalThompsonSampling(prior="beta", cpts="learned", trust_past=0.3), seed=1)
    assert agent.model.posterior.rows == 200
    play(agent, env, 60)
    tables = learned_cpts(problem)
    expected = tables.split_by_name(tables.mean(agent._replay_if_stale().seen, 0.3))
    for name in tables.names:
        assert np.allclose(agent.model[name].table, expected[name], atol=1e-12)
    believing = cb.Agent(
        problem, cb.policies.CausalThompsonSampling(prior="beta", cpts="learned", trust_past=1.0), seed=1
    )
    play(believing, env, 60)
    assert believing.model.posterior.rows == 260
    assert believing.model.posterior.counts["subject"].sum() > past.posterior.counts["subject"].sum()


@pytest.mark.parametrize("trust", [0.5, 1.0])
def test_a_past_that_is_forgotten_is_no_caveat_and_one_that_is_believed_is(env, trust):
    """Short subject lines were noted as long: where the past may be doubted, the recommendation does not rest on it."""
    model = env.problem.model
    rows = model.sample(5000, rng=0)
    past = cb.fit(model, {**rows, "subject": np.where(rows["subject"] == "short", "long", "short")})
    policy = cb.policies.CausalThompsonSampling(prior="beta", cpts="learned", trust_past=trust)
    agent = cb.Agent(env.problem.with_model(past), policy, seed=1)
    play(agent, env, 300)
    assert any("P(subject" in finding.claim for finding in agent.check().contradicted)
    assert any("P(subject" in caveat for caveat in agent.recommend().caveats) is (trust == 1.0)
