"""Where there is a context, all contexts share one budget: at one price, as a linear program would, never overspent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.journeys.test_contexts_costs_budgets import by_force, contexts, world

import causalbandits as cb
from causalbandits.engine.driver import POLICY, WORLD, play, seed_of, stream
from causalbandits.environments.budgeted_regret import BudgetedRegret
from causalbandits.errors import BudgetError, PolicyError
from causalbandits.policies import situation_for
from causalbandits.policies.feedback import Choice
from causalbandits.problem.budget import Budget, Menu, solve_knapsack
from causalbandits.problem.context_frequencies import context_frequencies
from oracles import patient
from oracles.engine_agent import engine_agent
from oracles.policies import POLICIES

PRICES = {"product": 0.05, "purpose": 0.08, "send_time": {"morning": 0.02}}
LOOKS = [id for id in POLICIES if "ts-ucb" not in id and "ids" not in id]


def segments(costs=PRICES, tastes=False, **keywords):
    env = cb.zoo.email_segments(tastes)
    p = env.problem
    problem = cb.Problem(
        p.model,
        manipulable=p.manipulable,
        reward_parents=p.parents,
        costs=costs,
        context=p.context,
        **keywords,
        optional=True,
    )
    return cb.Environment(problem, env.reward)


def linear_program(offers, allowance):
    """The most that a round brings in the mean if all contexts together spend the allowance at most; by force."""
    values = np.concatenate([offer.share * offer.values for offer in offers])
    costs = np.concatenate([offer.share * offer.costs for offer in offers])
    sums = np.zeros((len(offers), len(values)))
    ends = np.cumsum([len(offer.values) for offer in offers])
    for row, (end, offer) in enumerate(zip(ends, offers, strict=True)):
        sums[row, end - len(offer.values) : end] = 1.0
    ones = np.ones(len(offers))
    return -linprog(-values, A_ub=costs[None], b_ub=[allowance], A_eq=sums, b_eq=ones, bounds=(0, None)).fun


@patient
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 12), st.integers(0, 9))
def test_the_shared_envelope_is_the_linear_programs_answer(seed, number, most, digits):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(number))
    sizes = rng.integers(1, most + 1, number)
    offers = [
        Menu(float(share), rng.standard_normal(size).round(digits), rng.random(size).round(digits))
        for share, size in zip(shares, sizes, strict=True)
    ]
    least = sum(offer.share * offer.costs.min() for offer in offers)
    for allowance in (least, rng.uniform(least, least + 0.3), rng.uniform(least, 1.2)):
        found = solve_knapsack(offers, allowance)
        pairs = list(zip(found, offers, strict=True))
        paid = sum(offer.share * mixture.mean(offer.costs) for mixture, offer in pairs)
        brings = sum(offer.share * mixture.mean(offer.values) for mixture, offer in pairs)
        assert all(0 <= mixture.share <= 1 for mixture in found)
        assert sum(mixture.low != mixture.high for mixture in found) <= 1
        assert paid <= allowance + 1e-12
        assert brings == pytest.approx(linear_program(offers, max(allowance, least + 1e-12)), abs=1e-7)


def test_the_price_is_one_in_all_contexts():
    """Nothing that a context leaves is worth its money more than anything that another takes."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        offers = [Menu(0.25, rng.standard_normal(9), rng.random(9)) for _ in range(4)]
        found = solve_knapsack(offers, rng.uniform(0.1, 0.8))
        prices = [0.0]
        for mixture, (_, values, costs, _) in zip(found, offers, strict=True):
            if mixture.low != mixture.high:
                gained, paid = values[mixture.high] - values[mixture.low], costs[mixture.high] - costs[mixture.low]
                prices.append(gained / paid)
        price = max(prices)
        for mixture, (_, values, costs, _) in zip(found, offers, strict=True):
            worth = values - price * costs
            assert worth[mixture.low] >= worth.max() - 1e-9 or costs[mixture.low] == costs.min()


@pytest.mark.parametrize("seed", range(3))
def test_regret_is_against_the_linear_program_over_all_contexts_and_actions(seed):
    env = world(seed)
    problem, means = env.problem, env.configuration_means.reshape(env.problem.shape)
    likely = dict(problem.contexts.by_probability())
    for allowance in (0.01, 0.04, 0.08, 0.2):
        offers = []
        for context in contexts():
            codes = problem.condition(context).context_codes
            values = [float((by_force(problem.model, problem, do, context) * means).sum()) for do in problem.actions]
            offers.append(Menu(likely[codes], np.array(values), np.array([problem.cost(do) for do in problem.actions])))
        assert sum(likely.values()) == pytest.approx(1)
        shortfall = BudgetedRegret(env, allowance)
        assert shortfall.best == pytest.approx(linear_program(offers, allowance), abs=1e-8)
        best = {codes: shortfall(0, codes) + env.condition_codes(codes).mean_reward(0) for codes in likely}
        assert sum(share * best[codes] for codes, share in likely.items()) == pytest.approx(shortfall.best)


def test_a_context_that_says_nothing_changes_no_decision():
    """One context of probability 1: the two ways to find the mixture agree."""
    e = cb.zoo.email_campaign().problem
    only = cb.Variable("only", ["one"], table=[1.0])
    model = cb.CausalModel([only, *e.model.variables.values()])
    plain = cb.Problem(model, manipulable=e.manipulable, reward_parents=e.parents, costs=PRICES, optional=True)
    looking = cb.Problem(
        model, manipulable=e.manipulable, reward_parents=e.parents, costs=PRICES, context=["only"], optional=True
    )
    env, rng = cb.Environment(plain, cb.zoo.email_campaign().reward), np.random.default_rng(3)
    for id in ("c-ucb", "c-ts(prior=beta)", "cl-ts", "ts(scales=given)"):
        one, other = (cb.Agent(p, id, seed=1, budget=Budget(10, 200)) for p in (plain, looking))
        for _ in range(200):
            mine, its = one.ask(), other.ask(context={"only": "one"})
            assert mine.action == its.action
            assert mine.propensity == pytest.approx(its.propensity) if id == "c-ucb" else its.propensity is None
            seen = env.pull(mine.action, rng)
            one.tell(mine.id, reward=seen.reward, observed=seen.parents)
            other.tell(its.id, reward=seen.reward, observed=seen.parents)


@pytest.mark.parametrize("tastes", [False, True])
@pytest.mark.parametrize("id", LOOKS)
def test_agent_and_driver_spend_alike_and_all_of_it_in_contexts(id, tastes):
    env, seed, horizon, total = segments(tastes=tastes), 5, 120, 5.0
    policy = cb.policy(id).for_horizon(horizon)
    problem = env.problem.without_cpts() if policy.traits.learns_cpts else env.problem
    agent = engine_agent(problem, policy, seed=seed_of(seed, 0, POLICY), budget=Budget(total, horizon))
    worldly, reward = stream(seed, 0, WORLD), 0.0
    for _ in range(horizon):
        codes = env.draw_codes(worldly)
        decision = agent.ask(context=env.problem.contexts.values(codes))
        choices = env.problem.choices(decision.action)
        if policy.traits.learns_cpts:
            seen, z, came = env.condition_codes(codes).draw_all(choices, worldly)
            states = {name: env.problem.model[name].states[code] for name, code in seen.items()}
            told = {name: value for name, value in states.items() if name not in env.problem.parents}
            agent.tell(decision.id, reward=came, observed={**env.problem.decode_parents(z), **told})
        else:
            z, came = env.condition_codes(codes).draw(choices, worldly)
            agent.tell(decision.id, reward=came, observed=env.problem.decode_parents(z))
        reward += came
    played = play(env, policy, problem, np.array([horizon]), seed, 0, budget=total)
    assert played.reward[-1] == reward
    assert agent.budget.spent <= total
    assert agent.budget.left < 0.15


def test_never_overspent_in_contexts_with_forgets_parts_of_contexts_and_none():
    rng, asked, refused = np.random.default_rng(0), 0, 0
    env = world(costs={"x": {1: 0.7, 2: 5.0}, "y": 0.3})
    acts, every = list(env.problem.actions), [*contexts(), {"a": 1}, {"b": 0}, None]
    while asked < 10_000:
        rounds, total = int(rng.integers(1, 200)), float(rng.choice([12.0, rng.uniform(1, 300)]))
        agent = cb.Agent(
            env.problem, str(rng.choice(["c-ts(prior=beta)", "c-ucb", "cl-ts"])), seed=1, budget=Budget(total, rounds)
        )
        paid = {}
        for _ in range(rounds + int(rng.integers(0, 20))):
            eligible = [acts[i] for i in rng.integers(0, len(acts), 3)] if rng.random() < 0.1 else None
            asked += 1
            try:
                decision = agent.ask(context=every[rng.integers(len(every))], eligible=eligible)
                paid[decision.id] = env.problem.cost(decision.action)
            except BudgetError:
                refused += 1
            if rng.random() < 0.3 and paid:
                id = next(iter(paid)) if rng.random() < 0.5 else next(reversed(paid))
                agent.cancel(id)
                del paid[id]
            spent, left, rounds_left = agent.budget
            assert rounds_left == rounds - len(paid) >= 0
            assert spent + left == pytest.approx(total)
            assert math.fsum(paid.values()) <= total * (1 + 1e-12)
            assert spent == pytest.approx(math.fsum(paid.values()), abs=1e-9)
    assert 0 < refused < asked / 2


def test_one_draw_serves_all_contexts():
    """Of the same situation, twice, scores are the same; of another context, those of the same cells."""
    for tastes in (False, True):
        problem, rng = segments(tastes=tastes).problem, np.random.default_rng(1)
        for id in (
            "c-ts(prior=beta)",
            "c-ts(scales=given)",
            "cl-ts",
            "ts(prior=beta)",
            "lin-ts",
            "c-ts(prior=beta, cpts=learned)",
        ):
            policy = cb.policy(id)
            known = problem.without_cpts() if policy.traits.learns_cpts else problem
            views = [known.condition({"segment": name}) for name in ("new", "lapsed", "new")]
            situations = [situation_for(policy, view).without_costs for view in views]
            new, lapsed, again = policy.score_each(situations, policy.init(known), rng)
            assert np.array_equal(new.values, again.values)
            assert lapsed.values.shape != new.values.shape or not np.array_equal(new.values, lapsed.values)


def test_c_ts_loses_little_in_contexts_and_looking_pays():
    env, horizon, total = segments(), 2000, 160.0
    p = env.problem
    blind = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=PRICES, optional=True)
    looks = cb.simulate(
        env, ["c-ts(prior=beta)", "ts(prior=beta)"], horizon=horizon, replications=4, budget=total, progress=False
    )
    not_look = cb.simulate(
        env, "c-ts(prior=beta)", horizon=horizon, replications=4, budget=total, believed=blind, progress=False
    )
    causal, plain = (looks.regret(id)[:, -1].mean() for id in ("c-ts(prior=beta)", "ts(prior=beta)"))
    assert causal <= 50
    assert plain > 2 * causal
    assert not_look.regret("c-ts(prior=beta)")[:, -1].mean() > 2 * causal


@pytest.mark.filterwarnings("ignore:No outcome counts so far")  # what was left alone is not reported
def test_a_saved_agent_goes_on_in_contexts_with_what_is_left(tmp_path):
    env, rng = segments(), np.random.default_rng(0)
    problem = env.problem.without_cpts()
    agent = cb.Agent(problem, "c-ts(prior=beta, cpts=learned)", seed=4, budget=Budget(10, 300))
    for _ in range(60):
        known = env.draw_context(rng)
        decision = agent.ask(context=known)
        if rng.random() < 0.2:
            agent.cancel(decision.id)
        elif rng.random() < 0.8:
            seen = env.pull(decision.action, rng, context=known)
            known_values = {*seen.parents, *decision.action}
            lost = {name: None for name in problem.must_observe if name not in known_values}
            agent.tell(decision.id, reward=seen.reward, observed={**seen.parents, **lost})
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json")
    assert again.budget == agent.budget
    for _ in range(40):
        known = env.draw_context(rng)
        assert again.ask(context=known) == agent.ask(context=known)
    assert again.budget == agent.budget


def test_shares_that_are_not_known_are_counted():
    problem = segments().problem
    exact, unknown = (context_frequencies(p, (0,)) for p in (problem, problem.without_cpts()))
    came = {(0,): 60, (2,): 20}
    assert exact.frequencies(came).tolist() == [0.5, 0.3, 0.2]
    assert unknown.frequencies({}) == pytest.approx([1 / 3] * 3)
    assert unknown.frequencies(came) == pytest.approx([61 / 83, 1 / 83, 21 / 83])


def test_who_knows_a_part_is_taken_to_know_it_in_later_rounds_too():
    problem = world().problem
    assert set(context_frequencies(problem, (0, -1)).codes) == {(0, -1), (1, -1)}
    by_b = problem.context_distribution.sum(axis=1)
    found = context_frequencies(problem, (0, -1))
    assert dict(zip(found.codes, found.frequencies({}), strict=True)) == pytest.approx(
        {(0, -1): by_b[0], (1, -1): by_b[1]}
    )


def test_of_many_contexts_some_are_weighed():
    names = [f"c{i}" for i in range(9)]
    half = [cb.Variable(name, [0, 1], table=[0.5, 0.5]) for name in names]
    x = cb.Variable("x", [0, 1], table=[0.5, 0.5])
    table = np.array([[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.2, 0.8]]])
    z = cb.Variable("z", [0, 1], parents=["x", "c0"], table=table)
    problem = cb.Problem(
        cb.CausalModel([*half, x, z]),
        manipulable=["x"],
        reward_parents=["z"],
        context=names,
        costs={"x": {1: 1.0}},
        optional=True,
    )
    env = cb.Environment(problem, cb.rewards.BernoulliReward([0.1, 0.9]))
    run = cb.simulate(env, "c-ts(prior=beta)", horizon=300, replications=1, budget=60.0, progress=False)
    # Money is worth most where c0 is 1, in about half of the rounds.
    assert -10 < run.regret("c-ts(prior=beta)")[0, -1] < 20
    assert len(context_frequencies(problem, (0,) * 9).codes) <= 256


def test_what_is_required_in_a_context_limits_what_it_spends():
    env = segments(max_probability={"template": {"2": 0.45}}, costs={"product": 0.1, "purpose": 0.1})
    cheapest = [
        min(env.problem.cost(do) for do in map(view.situation().action, range(view.situation().size)))
        for view in (env.problem.condition({"segment": s}) for s in ("new", "regular", "lapsed"))
    ]
    assert len(set(cheapest)) > 1
    with pytest.raises(BudgetError, match=f"The cheapest action costs {max(cheapest):g}"):
        cb.simulate(env, "c-ts(prior=beta)", horizon=100, replications=1, budget=max(cheapest) * 99)
    run = cb.simulate(env, "c-ts(prior=beta)", horizon=100, replications=3, budget=max(cheapest) * 100, progress=False)
    assert np.isfinite(run.regret("c-ts(prior=beta)")).all()


def test_a_decide_of_your_own_is_refused_where_contexts_share_a_budget():
    class Own(cb.policies.CausalUCB):
        def decide(self, situation, statistic, rng):
            return Choice(situation.action(0))

    agent = cb.Agent(segments().problem, Own(), budget=Budget(10, 100))
    with pytest.raises(PolicyError, match=r"this policy overrides decide\(\)\. Leave"):
        agent.ask(context={"segment": "new"})
    assert agent.budget == (0.0, 10.0, 100)


def test_a_budget_in_contexts_is_written_in_a_file(tmp_path):
    from causalbandits.planning.experiment_spec import read_spec

    path = tmp_path / "shared.toml"
    lines = ["[environment]", 'zoo = "email_segments"', "[costs]", "product = 0.05", "[simulation]", "horizon = 60"]
    path.write_text("\n".join([*lines, "replications = 2", "budget = 0.5", "[policies]", '"c-ts(prior=beta)" = {}']))
    spec = read_spec(path)
    again = cb.simulate(spec.environment, ["c-ts(prior=beta)"], horizon=60, replications=2, budget=0.5)
    assert spec.environment.problem.context == ("segment",)
    assert np.array_equal(spec.run().regret("c-ts(prior=beta)"), again.regret("c-ts(prior=beta)"))


@pytest.mark.parametrize("policy", ["c-gittins(prior=beta)", "c-gittins", "c-track-and-stop", "c-ucb"])
def test_what_is_decided_without_chance_but_for_the_coin_of_the_budget_has_its_propensity(policy):
    env = segments()
    agent, rng = cb.Agent(env.problem, policy, seed=1, budget=cb.Budget(30, rounds=400)), np.random.default_rng(1)
    for _ in range(30):
        known = env.draw_context(rng)
        decision = agent.ask(context=known)
        seen = env.pull(decision.action, rng, known)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
    chances = {}
    for _ in range(60):
        decision = agent.ask(context={"segment": "new"})
        chances.setdefault(str(decision.action), set()).add(decision.propensity)
        agent.cancel(decision.id)
    assert all(len(found) == 1 for found in chances.values())
    assert sum(sum(found) for found in chances.values()) == pytest.approx(1)


@pytest.mark.parametrize("policy", ["c-design", "c-track-and-stop", "c-elimination", "c-gittins(prior=main-effects)"])
def test_policies_with_scores_of_their_own_decide_by_these_in_contexts_too(policy):
    problem = segments().problem
    own = cb.policy(policy)
    statistic = own.init(problem)
    there = [situation_for(own, problem.condition_codes((c,))).without_costs for c in range(3)]
    each = own.score_each(there, statistic, np.random.default_rng(4))
    rng = np.random.default_rng(4)
    for scores, situation in zip(each, there, strict=True):
        assert np.array_equal(scores.values, own.score(situation, statistic, rng).values)


def test_every_draw_that_screens_is_screened_in_contexts_too():
    """Before any reward all means are equal: a screened row has one action that is worth more, and a drawn one many."""
    problem = segments().problem
    own = cb.policies.CausalScreen(prior="beta", samples=4)
    there = [situation_for(own, problem.condition_codes((c,))).without_costs for c in range(3)]
    for scores in own.score_each(there, own.init(problem), np.random.default_rng(4)):
        assert scores.values.shape[0] == 4
        assert all(len(np.unique(row.round(9))) <= 2 for row in scores.values)
