"""Situations: what is known before a decision, and that narrowing one costs no exactness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import InterventionError, PolicyError
from causalbandits.policies.feedback import Outcome
from causalbandits.problem import Scores
from causalbandits.problem.budget import PacingRule
from causalbandits.problem.candidates import candidate_set
from causalbandits.problem.candidates.candidate_set import AllActions, ListedActions
from causalbandits.problem.candidates.product_actions import ProductActions
from causalbandits.problem.projection.argmax import clear_winners


@pytest.fixture(scope="module")
def problem():
    return cb.zoo.email_campaign().problem


def test_an_action_is_the_same_in_every_form(problem):
    for number in (0, 17, 79):
        action = problem.actions.action(number)
        assert action.number == number
        assert problem.actions.index(action.intervention) == number
        assert problem.actions.rank(action.choices) == number
        assert problem.actions.find(action.intervention) == problem.actions.find(dict(action.intervention)) == action
    assert problem.actions.action(-1).number == 79
    assert len({problem.actions.action(n) for n in (1, 1, 2)}) == 2


def test_an_intervention_that_is_none_is_refused_also_when_asked_again(problem):
    for _ in range(2):
        with pytest.raises(InterventionError, match="Did you mean 'purpose'"):
            problem.actions.find({"purposes": "Promo"})
        with pytest.raises(InterventionError, match="hashable"):
            problem.actions.find({"purpose": ["Promo"]})
        with pytest.raises(InterventionError, match="maps variables to values"):
            problem.actions.find("Promo")


def test_a_list_of_interventions_is_the_same_situation_in_any_order_and_form(problem):
    some = [problem.actions[n] for n in (40, 3, 17)]
    situation = problem.situation(eligible=some)
    for eligible in (some, some[::-1], iter(some), [dict(one) for one in some], [*map(problem.actions.find, some)]):
        assert problem.situation(eligible=eligible) is situation
    assert problem.situation(eligible=some[:2]) is not situation


def test_another_problems_actions_are_not_taken_for_those_with_the_same_choices(problem):
    other = cb.Problem(
        problem.model, manipulable=problem.manipulable[::-1], reward_parents=problem.parents, optional=True
    )
    mine, theirs = problem.actions.find({"send_time": "evening"}), other.actions.find({"send_time": "evening"})
    twin = next(a for a in map(problem.actions.action, range(problem.actions.size)) if a == theirs)
    for eligible, meant in (([twin], twin), ([theirs], mine), ([twin], twin)):
        assert problem.situation(eligible=eligible).action(0).number == meant.number


def test_situations_are_remembered(problem):
    some = [{"purpose": "Promo"}, {"send_time": "evening"}]
    assert problem.situation() is problem.situation()
    assert problem.situation(every=True) is problem.situation(every=True)
    assert problem.situation(eligible=some) is problem.situation(eligible=some[::-1])
    assert isinstance(problem.situation().candidates, ProductActions)
    assert isinstance(problem.situation(every=True).candidates, AllActions)
    assert isinstance(problem.situation(eligible=some).candidates, ListedActions)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_eligible_actions_have_the_scores_that_they_have_among_all(data, problem):
    """Bit for bit, whether all are scored and some taken, or only some are."""
    numbers = data.draw(st.lists(st.integers(0, 79), min_size=1, max_size=20, unique=True))
    seed = data.draw(st.integers(0, 2**32 - 1))
    index = np.random.default_rng(seed).normal(size=problem.configurations)
    every = problem.situation(every=True).project(index)
    narrowed = problem.situation(eligible=[problem.actions[n] for n in numbers])
    assert [narrowed.action(i).number for i in range(narrowed.size)] == sorted(numbers)
    assert np.array_equal(narrowed.project(index).values, every.values[sorted(numbers)])
    assert np.array_equal(narrowed.candidates.projection(index), every.values[sorted(numbers)])
    assert narrowed.project(index).scale == every.scale


def test_a_few_of_very_many_actions_are_scored_alone(monkeypatch):
    problem = cb.zoo.random_parallel(3, 30, np.ones(30), rng=0).problem
    some = [{"X1": 2}, {"X3": 1, "X29": 2}, {}]
    situation = problem.situation(eligible=some)
    assert {situation.action(i).intervention for i in range(3)} == set(map(cb.Intervention, some))
    small = cb.zoo.figure2().problem
    index = np.random.default_rng(0).normal(size=small.configurations)
    some = [small.actions[n] for n in (3, 77, 200)]
    together = small.situation(eligible=some).project(index)
    monkeypatch.setattr(candidate_set, "SCORE_ALL_LIMIT", 0)
    assert np.array_equal(small.situation(eligible=some).project(index).values, together.values)


def test_an_action_of_another_problem_is_taken_for_what_it_does(problem):
    other = cb.Problem(
        problem.model, manipulable=["send_time", "product"], reward_parents=problem.parents, optional=True
    )
    evening = other.actions.find({"send_time": "evening"})
    assert problem.situation(eligible=[evening]).action(0).intervention == cb.Intervention(send_time="evening")


def test_positions_that_are_not_searched_are_refused(problem):
    for situation in (problem.situation(), problem.situation(eligible=[{}, {"purpose": "Promo"}])):
        for position in (situation.size, 99, -1):
            with pytest.raises(InterventionError, match=f"{situation.size} actions are searched, at positions from 0"):
                situation.action(position)


def test_many_draws_are_projected_as_one_by_one(problem):
    draws = np.random.default_rng(1).normal(size=(50, problem.configurations))
    some = [problem.actions[n] for n in (3, 4, 50)]
    for situation in (problem.situation(), problem.situation(every=True), problem.situation(eligible=some)):
        together = situation.project(draws)
        for row, scale, draw in zip(together.values, together.scale, draws, strict=True):
            assert np.array_equal(situation.project(draw).values, row)
            assert situation.project(draw).scale == scale
        alone = [situation.project(draw).best_position() for draw in draws]
        assert together.best_positions().tolist() == alone


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(6))
def test_the_quick_way_to_the_best_of_several_draws_is_the_exact_one(seed, scale):
    rng = np.random.default_rng(seed)
    world = cb.zoo.random_world(10, reward_parents=3, concentration=0.5, rng=seed)
    for problem in (world.problem, cb.zoo.email_campaign().problem):
        situation = problem.situation()
        draws = scale * rng.normal(size=(64, problem.configurations))
        draws[0] = draws[0, 0]  # all actions tie
        draws[1:9] = draws[1:9].round(1)
        for index in (draws, draws[9:]):
            assert situation.best_of_draws(index).tolist() == situation.project(index).best_positions().tolist()


def test_near_ties_are_left_to_exact_scores():
    weights = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert clear_winners(weights, np.array([[0.5, 0.6], [0.9, 0.1]])).tolist() == [1, 0]
    for near in (0.5, 0.5 + 1e-13, 0.5 + 1e-10, np.nan):
        assert clear_winners(weights, np.array([[0.5, near], [0.9, 0.1]])) is None
    with pytest.raises(PolicyError, match="Scores must be finite"):
        cb.zoo.email_campaign().problem.situation().best_of_draws(np.full((2, 12), np.nan))


def test_numbers_of_the_wrong_shape_or_kind_of_search_are_refused(problem):
    with pytest.raises(PolicyError, match="one number per configuration, 12 of them"):
        problem.situation().project(np.zeros(13))
    with pytest.raises(PolicyError, match="one number per configuration, 12 of them"):
        problem.situation().project(np.array(["high"] * 12))
    with pytest.raises(PolicyError, match="one number per action, 80 of them"):
        problem.situation(every=True).take(np.zeros(12))
    with pytest.raises(PolicyError, match=r"set traits = Traits\(searches_all=True\)"):
        problem.situation().take(np.zeros(80))
    with pytest.raises(InterventionError, match="No action is eligible"):
        problem.situation(eligible=[])


def test_the_same_problem_with_other_tables_shares_nothing_that_was_derived(problem):
    problem.situation(), problem.situation(every=True).candidates.projection, problem.fingerprint, problem.is_supported
    rng = np.random.default_rng(0)
    model = cb.CausalModel(
        cb.Variable(
            v.name, v.states, parents=v.parents, table=rng.dirichlet(np.ones(len(v.states)), v.table.shape[:-1])
        )
        for v in problem.model.variables.values()
    )
    other = problem.with_model(model)
    fresh = cb.Problem(model, manipulable=problem.manipulable, reward_parents=problem.parents, optional=True)
    assert other.fingerprint == fresh.fingerprint != problem.fingerprint
    index = rng.normal(size=12)
    assert np.array_equal(other.situation().project(index).values, fresh.situation().project(index).values)
    assert np.array_equal(other.projection(index), fresh.projection(index))


@pytest.mark.parametrize(
    "id",
    [
        "c-ts(prior=beta)",
        "ts(prior=beta)",
        "c-ts(scales=given)",
        "ts(scales=given)",
        "cl-ts",
        "cl-ts(regressor=observed)",
    ],
)
def test_several_draws_are_thompson_sampling_with_a_known_propensity(id, problem):
    """One of the best actions of M draws: in the mean over draws the shares are the chances of a single draw."""
    one, many = cb.policy(id), cb.policy(id, samples=16)
    situation = problem.situation(every=one.traits.searches_all)
    statistic, rng = one.init(problem), np.random.default_rng(3)
    for t in range(40):
        action = problem.actions.action(int(rng.integers(80)))
        z = tuple(int(rng.integers(size)) for size in problem.shape)
        y = float(rng.random() < 0.5)
        one.update(situation, statistic, Outcome(action, z, y, y, t))
    plain: dict = {}
    shares: dict = {}
    for _ in range(3000):
        chosen = one.decide(situation, statistic, rng).action
        plain[chosen] = plain.get(chosen, 0) + 1 / 3000
    for _ in range(600):
        choice = many.decide(situation, statistic, rng)
        support = dict(choice.support)
        assert choice.propensity == support[choice.action]
        assert sum(support.values()) == pytest.approx(1)
        assert all(round(16 * share) == pytest.approx(16 * share) for share in support.values())
        for action, share in support.items():
            shares[action] = shares.get(action, 0) + share / 600
    # Standard errors are at most 1/2 / sqrt(3000) and / sqrt(9600): five of both together are 0.053.
    assert max(abs(plain.get(action, 0) - shares.get(action, 0)) for action in {*plain, *shares}) < 0.053


def test_one_draw_changes_no_bit_and_tells_no_propensity(problem):
    policy = cb.policies.CausalThompsonSampling(prior="beta")
    assert policy.decide(problem.situation(), policy.init(problem), np.random.default_rng(0)).propensity is None
    for draws in (0, 1.5, True, 10**6):
        with pytest.raises(PolicyError, match="samples must be"):
            cb.policy("c-ts", prior="beta", samples=draws)


@pytest.mark.parametrize(("id", "propensity"), [("c-ucb", 1.0), ("ucb", 1.0), ("kl-ucb", 1.0), ("uniform", 1 / 80)])
def test_a_decision_knows_its_propensity(id, propensity, problem):
    assert cb.Agent(problem, id, seed=0).ask().propensity == propensity


def test_uniform_among_the_eligible_has_their_number_as_its_chance(problem):
    agent = cb.Agent(problem, "uniform", seed=0)
    assert agent.ask(eligible=[{"purpose": "Promo"}, {}]).propensity == 0.5


def test_a_list_of_numbers_is_projected_and_gathered_as_their_array(problem):
    index = np.linspace(0, 1, problem.configurations)
    situation, every = problem.situation(), problem.situation(every=True)
    assert situation.project(index.tolist()).values.tolist() == situation.project(index).values.tolist()
    assert situation.project([index.tolist()]).values.tolist() == [situation.project(index).values.tolist()]
    numbers = np.arange(float(problem.actions.size))
    assert every.take(numbers.tolist()).values.tolist() == numbers.tolist()
    for wrong in ([1.0], None, "x", [[1.0]]):
        with pytest.raises(PolicyError, match="one number per configuration, 12 of them; got"):
            situation.project(wrong)


def test_the_best_action_is_the_first_of_those_that_tie_after_costs(problem):
    situation = problem.situation()
    index = np.random.default_rng(0).random(problem.configurations)
    scores = situation.project(index)
    assert situation.best(scores) == situation.action(scores.best_position())
    equal = Scores.of(np.array([0.0, 1.0, 1.0 + 1e-15, *[0.5] * (situation.size - 3)]))
    assert situation.best(equal) == situation.action(1)
    priced = cb.Problem(
        problem.model,
        manipulable=problem.manipulable,
        reward_parents=problem.parents,
        costs={"product": 5.0, "purpose": 5.0},
        optional=True,
    )
    cheapest = priced.situation().best(priced.situation().project(index))
    assert priced.cost(cheapest) == priced.situation().costs.min()


def test_under_a_budget_the_best_is_an_action_of_the_best_mixture_whoever_made_the_scores(problem):
    priced = cb.Problem(
        problem.model,
        manipulable=problem.manipulable,
        reward_parents=problem.parents,
        costs={"product": 1.0},
        optional=True,
    )
    situation = priced.situation()
    rewards = Scores.of(situation.costs + 0.1)  # what costs more is worth more
    affordable = np.ones(situation.size, dtype=bool)
    low, high = float(situation.costs.min()), float(situation.costs.max())
    assert low < high
    for uniform, cost in ((0.0, high), (0.999, low)):
        pacing = PacingRule(situation.costs, affordable, (low + high) / 2, uniform)
        paced = situation.with_pacing(pacing)
        assert priced.cost(paced.best(rewards)) == cost
        assert paced.best(rewards) == paced.best(paced.net_of_costs(rewards))
        assert pacing.propensity == pytest.approx(0.5)


def test_an_action_of_a_candidate_set_is_not_validated_again(problem, monkeypatch):
    def refuse(self, choices):
        raise AssertionError("an action's own choices were validated")

    fresh = cb.Problem(problem.model, manipulable=problem.manipulable, reward_parents=problem.parents, optional=True)
    action = fresh.situation().action(0)
    monkeypatch.setattr(type(fresh.actions), "validate_choices", refuse)
    assert fresh.actions.action(action.number).intervention == action.intervention
