"""Fewer actions to search, the same optimum, and a certificate for everything that was removed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.policies.feedback import Outcome
from causalbandits.problem.candidates import hull
from causalbandits.problem.candidates.hull import build_hull
from oracles import cases, distribution, random_table

thorough = settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def constrained(draw):
    """A random problem, with at_most, always, values, all or none; and its twin that searches every action."""
    case = draw(cases(most=6, knobs=3))
    always = draw(st.lists(st.sampled_from(case.manipulable), unique=True, max_size=2))
    at_most = draw(st.one_of(st.none(), st.integers(len(always), 3)))
    some = {k: st.none() | st.lists(st.sampled_from(case.model[k].states), min_size=1) for k in case.manipulable}
    values = {k: None if (found := draw(own)) is None else list(dict.fromkeys(found)) for k, own in some.items()}
    make = {"max_set": at_most, "optional": [name for name in case.manipulable if name not in always]}
    return tuple(
        cb.Problem(case.model, manipulable=values, reward_parents=case.parents, reduce=r, **{"optional": True, **make})
        for r in (True, False)
    )


def best_mean(problem, mean):
    return problem.situation().project(mean.reshape(-1)).values.max()


@thorough
@given(constrained(), st.integers(0, 2**32 - 1))
def test_reduced_and_full_action_sets_have_the_same_best_mean(twins, seed):
    reduced, full = twins
    rng = np.random.default_rng(seed)
    for _ in range(5):
        mean = rng.standard_normal(reduced.shape) * rng.integers(0, 2, size=reduced.shape)
        assert best_mean(reduced, mean) == pytest.approx(best_mean(full, mean), abs=1e-9)


@thorough
@given(constrained())
def test_every_removed_choice_is_a_mixture_of_kept_ones_that_touch_no_more_where_that_counts(twins):
    problem = twins[0]
    for block in problem.reduction().blocks:
        kept = set(block.kept.tolist())
        assert kept | set(block.certificates) == set(range(len(block.choices)))
        assert not kept & set(block.certificates)
        for removed, weights in block.certificates.items():
            assert set(weights) <= kept
            assert min(weights.values()) > 0
            assert sum(weights.values()) == pytest.approx(1, abs=1e-12)
            assert block.residual(removed) <= hull.RESIDUAL_TOLERANCE
            if problem.actions.max_set is not None:
                touched = block.choices[removed] > 0
                assert all(not ((block.choices[k] > 0) & ~touched).any() for k in weights)


@thorough
@given(constrained())
def test_searched_positions_are_allowed_actions_with_the_distribution_they_are_scored_by(twins):
    problem = twins[0]
    identity = np.eye(problem.configurations)
    scored = np.array([problem.situation().project(cell).values for cell in identity]).T
    numbers = [problem.candidates.action(i).number for i in range(problem.candidates.size)]
    assert len(set(numbers)) == len(numbers)
    assert len(scored) == len(numbers)
    for row, number in list(zip(scored, numbers, strict=True))[:10]:
        exact = distribution(problem.model, problem.actions[number], problem.parents)
        assert row == pytest.approx(exact.reshape(-1), abs=1e-12)


@thorough
@given(cases(most=5, knobs=3))
def test_nothing_that_stays_is_a_mixture_of_the_others_that_stay(case):
    """Where this holds the reduction is as small as it can be."""
    problem = cb.Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    assert all(map(is_minimal, problem.reduction().blocks))


def is_minimal(block):
    """Whether no kept row is a mixture of the others, by least squares."""
    from scipy.optimize import nnls

    others = {i: [k for k in block.kept.tolist() if k != i] for i in block.kept.tolist()}
    systems = {i: np.vstack([block.rows[own].T, np.ones(len(own))]) for i, own in others.items() if own}
    return all(nnls(matrix, np.append(block.rows[i], 1.0))[1] > 1e-11 for i, matrix in systems.items())


def test_a_row_goes_that_is_a_mixture_of_what_is_only_found_after_it():
    rng = np.random.default_rng(9)
    model = cb.CausalModel([
        cb.Variable("u", range(3), table=random_table(rng, [], 3)),
        cb.Variable("x", range(4), table=random_table(rng, [], 4)),
        cb.Variable("w", range(4), parents=["u"], table=random_table(rng, [3], 4)),
        cb.Variable("z", range(4), parents=["u", "x"], table=random_table(rng, [3, 4], 4)),
    ])  # fmt: skip
    assert all(
        map(
            is_minimal,
            cb.Problem(model, manipulable=["x", "u", "w"], reward_parents=["z", "w"], optional=True).reduction().blocks,
        )
    )


def test_sixty_thousand_choices_of_two_configurations_are_reduced_in_seconds():
    """1.2 seconds where it was written, 30 with a list to search in."""
    rng, knobs = np.random.default_rng(0), [f"x{i}" for i in range(10)]
    model = cb.CausalModel([
        cb.Variable("u", [0, 1], table=[0.5, 0.5]),
        *(cb.Variable(x, [0, 1], parents=["u"], table=rng.dirichlet([1, 1], 2)) for x in knobs),
        cb.Variable("z", [0, 1], parents=knobs, table=rng.dirichlet([1, 1], (2,) * 10)),
    ])  # fmt: skip
    problem = cb.Problem(model, manipulable=knobs, reward_parents=["z"], optional=True)
    started = time.process_time()
    assert (problem.actions.size, problem.candidates.size) == (3**10, 2)
    assert time.process_time() - started < 10


def test_the_papers_action_sets_shrink_to_the_known_sizes():
    assert cb.zoo.email_campaign().problem.candidates.size == 12
    assert cb.zoo.figure2().problem.candidates.size == 16
    assert cb.zoo.random_parallel(3, 6, np.ones(6), rng=0).problem.candidates.size == 64
    assert cb.zoo.lower_bound(14, 0.1).problem.candidates.size == 2


def test_among_equal_choices_the_one_that_touches_the_fewest_stays():
    """b copies a, so do(a=1) and do(a=1, b=1) do the same."""
    a = cb.Variable("a", [0, 1], table=[0.5, 0.5])
    b = cb.Variable("b", [0, 1], parents=["a"], table=[[1, 0], [0, 1]])
    problem = cb.Problem(cb.CausalModel([a, b]), manipulable=["a", "b"], reward_parents=["b"], optional=True)
    searched = [problem.candidates.action(i).intervention for i in range(problem.candidates.size)]
    assert all(len(do) == 1 for do in searched)
    assert len(searched) == 2


def confounded():
    """u moves both the knob and the other parent, so leaving the knob alone tells something that no setting does."""
    u = cb.Variable("u", [0, 1], table=[0.5, 0.5])
    knob = cb.Variable("knob", [0, 1], parents=["u"], table=[[0.9, 0.1], [0.1, 0.9]])
    w = cb.Variable("w", [0, 1], parents=["u"], table=[[0.8, 0.2], [0.2, 0.8]])
    return cb.Problem(cb.CausalModel([u, knob, w]), manipulable=["knob"], reward_parents=["knob", "w"], optional=True)


def test_leaving_alone_stays_where_it_can_be_the_only_best():
    problem = confounded()
    assert problem.candidates.size == 3
    agree = np.array([[1.0, 0.0], [0.0, 1.0]])
    env = cb.Environment(problem, cb.rewards.BernoulliReward(agree))
    assert env.best().intervention == cb.Intervention()
    assert env.gaps()[1:].min() > 0.2


def test_a_list_of_actions_and_reduce_false_step_aside():
    p = cb.zoo.figure2().problem
    listed = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, actions=[{}, {"X1": 2}])
    assert listed.candidates.size == 2
    assert repr(listed.reduction()) == "All 2 actions are searched: the action set is a list."
    assert "reduce=False" in repr(
        cb.Problem(
            p.model, manipulable=p.manipulable, reward_parents=p.parents, reduce=False, optional=True
        ).reduction()
    )
    forbidden = cb.Problem(
        p.model, manipulable=p.manipulable, reward_parents=p.parents, forbid=lambda do: len(do) == 4, optional=True
    )
    env = cb.Environment(forbidden, cb.rewards.LinearReward([0.25, 0.25, -0.25, -0.25], sd=0.1))
    assert env.best().mean == pytest.approx(env.means.max())
    assert len(env.best().intervention) == 3


def test_undecided_rows_are_kept(monkeypatch):
    monkeypatch.setattr(hull, "MAX_SOLVES", 0)
    monkeypatch.setattr(hull.Hull, "_vertices", lambda self, points: [0])
    problem = cb.zoo.email_campaign().problem
    blocks = problem.reduction().blocks
    assert len(blocks[0].kept) > 4
    assert best_mean(problem, np.ones(12)) == pytest.approx(1.0)


def spread(rows, mixtures, dimensions=60, seed=0):
    """Rows in many dimensions, and mixtures of a few of them; each with a cost."""
    rng = np.random.default_rng(seed)
    points = rng.dirichlet(np.ones(dimensions), rows)
    mixed = rng.dirichlet(np.ones(rows) / rows, mixtures) @ points
    return np.vstack([points, mixed]), np.concatenate([rng.random(rows), np.ones(mixtures)])


@pytest.mark.parametrize("priced", [False, True], ids=["free", "priced"])
def test_in_many_dimensions_least_squares_are_left_to_what_does_not_lie_far_out(monkeypatch, priced):
    rows, costs = spread(100, 9)
    monkeypatch.setattr(hull, "DIRECTION_WORK", 0)  # few are left in many dimensions
    found = {}
    for many in (0, 10**9):
        monkeypatch.setattr(hull, "MANY_NUMBERS", many)
        own = build_hull(rows, costs if priced else None)
        own.reduce(np.arange(len(rows)), [], {})
        found[many] = own.kept, own.solves
    assert found[0][0] == found[10**9][0] == set(range(100))
    assert found[0][1] == 9 < found[10**9][1]


def test_least_squares_stop_at_a_budget_of_work_and_what_is_undecided_is_kept(monkeypatch):
    rows, _ = spread(100, 9)
    monkeypatch.setattr(hull, "MAX_WORK", 3 * 61 * 100 * 61)
    monkeypatch.setattr(hull.Hull, "_vertices", lambda self, points: list(range(100)))
    own = hull.Hull(rows)
    own.reduce(np.arange(len(rows)), [], {})
    assert own.solves == 3
    assert own.kept == set(range(100)) | set(range(103, 109))


def test_the_report_says_what_went_and_why():
    text = repr(cb.zoo.email_campaign().problem.reduction())
    assert text.startswith("80 actions -> 12 that can be optimal for some reward.")
    assert (
        "do(product=Acrobat XI Pro, purpose=Promo) has the same effect as do(product=Photoshop, purpose=Promo)" in text
    )
    assert "do() = 0.5 do(send_time=morning) + 0.3 do(send_time=evening) + 0.2 do(send_time=afternoon)" in text
    text = repr(cb.zoo.lower_bound(3, 0.1).problem.reduction())
    assert "Not set, because they have no effect on the reward's parents: X2, X3." in text


def test_eligible_actions_may_be_ones_that_are_not_searched():
    problem = cb.zoo.email_campaign().problem
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=0)
    some = [{"purpose": "Nurture"}, {"product": "Acrobat XI Pro"}]
    assert {cb.Intervention(d.action) for d in agent.ask(40, eligible=some)} == {cb.Intervention(a) for a in some}


def test_a_knob_without_effect_that_must_be_set_is_set():
    a = cb.Variable("a", [0, 1], table=[0.5, 0.5])
    idle = cb.Variable("idle", ["x", "y"], table=[0.5, 0.5])
    problem = cb.Problem(
        cb.CausalModel([a, idle]), manipulable=["a", "idle"], reward_parents=["a"], optional=["a"], max_set=2
    )
    searched = [problem.candidates.action(i).intervention for i in range(problem.candidates.size)]
    assert all(do["idle"] == "x" for do in searched)
    assert {do.get("a") for do in searched} >= {0, 1}


def test_four_to_the_sixteenth_actions_are_ordinary():
    env = cb.zoo.random_parallel(3, 16, theta=np.linspace(-0.5, 0.5, 16), rng=1)
    assert env.problem.candidates.size == 2**16
    agent = cb.Agent(env.problem, "c-ts(scales=given)", seed=0)
    decision = agent.ask()
    outcome = env.pull(decision.action, 0)
    agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    assert agent.recommend().seen > 0


def test_a_knob_without_effect_that_must_be_set_is_set_to_a_value_that_it_may_be_set_to():
    a = cb.Variable("a", [0, 1], table=[0.5, 0.5])
    idle = cb.Variable("idle", ["x", "y"], table=[0.5, 0.5])
    problem = cb.Problem(
        cb.CausalModel([a, idle]), manipulable={"a": None, "idle": ["y"]}, reward_parents=["a"], optional=["a"]
    )
    assert {problem.candidates.action(i).intervention["idle"] for i in range(problem.candidates.size)} == {"y"}
    assert problem.candidates.array()[:, 1].tolist() == [2] * problem.candidates.size


def test_the_best_of_two_to_the_thousandth_actions_sets_what_may_be_set():
    n = 1000
    p = cb.zoo.random_parallel(3, n, theta=np.full(n, 0.02), rng=1).problem
    values = {name: [2, 3] if i % 2 else [1] for i, name in enumerate(p.manipulable)}
    env = cb.Environment(
        cb.Problem(p.model, manipulable=values, reward_parents=p.parents, optional=True),
        cb.rewards.LinearReward(np.full(n, 0.02), sd=0.1),
    )
    best = env.best()
    assert best.intervention in env.problem.actions
    for i in range(0, n, 97):
        others = [{**best.intervention, f"X{i + 1}": value} for value in values[f"X{i + 1}"]]
        without = {name: value for name, value in best.intervention.items() if name != f"X{i + 1}"}
        assert max(map(env.mean_reward, [*others, without])) <= best.mean + 1e-12
    assert cb.Agent(env.problem, "cl-ts(regressor=observed)", seed=0).ask().action in env.problem.actions


def test_four_to_the_thousandth_actions_are_decided_block_by_block():
    n = 1000
    env = cb.zoo.random_parallel(3, n, theta=np.full(n, 0.02), rng=1)
    agent = cb.Agent(env.problem, "cl-ts(regressor=observed)", seed=0)
    decision = agent.ask()
    outcome = env.pull(decision.action, 0)
    agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    assert env.mean_reward(agent.recommend().intervention) <= env.best().mean
    with pytest.raises(
        cb.CausalBanditsError,
        match=r"about 10\^301 actions may be optimal, .* Use cl-ts",
    ):
        cb.Agent(env.problem, "cl-ucb").ask()


@pytest.mark.parametrize("id", ["cl-ts", "cl-ts(regressor=observed)"])
def test_deciding_block_by_block_is_the_first_best_of_all_scores(id):
    env = cb.zoo.email_campaign()
    policy = cb.policy(id)
    situation, statistic = env.problem.situation(), policy.init(env.problem)
    rng = np.random.default_rng(0)
    for _ in range(300):
        seed = int(rng.integers(2**32))
        action = policy.decide(situation, statistic, np.random.default_rng(seed)).action
        scores = policy.score(situation, statistic, np.random.default_rng(seed))
        assert action == situation.action(scores.best_position())
        z, reward = env.draw(action.choices, rng)
        policy.update(situation, statistic, Outcome(action, z, reward, reward))


def test_all_policies_reach_the_same_means_with_and_without_the_reduction():
    """In distribution, not in trajectory: regrets over 6 replications differ by less than 5 joint standard errors."""
    p = cb.zoo.email_campaign()
    full = cb.Environment(
        cb.Problem(
            p.problem.model,
            manipulable=p.problem.manipulable,
            reward_parents=p.problem.parents,
            reduce=False,
            optional=True,
        ),
        p.reward,
    )
    ids = ["c-ucb", "c-ts(prior=beta)", "c-kl-ucb", "cl-ts(regressor=observed)"]
    runs = [cb.simulate(env, ids, horizon=600, replications=6, seed=s) for s, env in enumerate((p, full))]
    for one, other in zip(runs[0].summary(), runs[1].summary(), strict=True):
        assert abs(one.mean - other.mean) < 5 * np.hypot(one.standard_error, other.standard_error)
