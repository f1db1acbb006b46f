"""Where what is required leaves no action in one context, the others go on, and it is said which one and why."""

from __future__ import annotations

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play
from causalbandits.errors import ProblemError, ProblemWarning


def world(limit=0.45, **more):
    """Old and frail patients are harmed by any dose; of the young, some by a high one, which relieves more of them."""
    harm = np.array([[0.05, 0.5, 0.5], [0.4, 0.6, 0.6]])
    relief = np.array([[0.3, 0.3, 0.3], [0.7, 0.6, 0.5]])
    ages, doses = ["young", "old", "frail"], ["low", "high"]
    model = cb.CausalModel(
        [
            cb.Variable("age", ages, table=[0.5, 0.3, 0.2]),
            cb.Variable("dose", doses, parents=["age"], table=[[0.5, 0.5], [0.9, 0.1], [0.8, 0.2]]),
            cb.Variable("harm", ["no", "yes"], parents=["dose", "age"], table=np.stack([1 - harm, harm], axis=-1)),
            cb.Variable(
                "relief", ["no", "yes"], parents=["dose", "age"], table=np.stack([1 - relief, relief], axis=-1)
            ),
        ]
    )
    problem = cb.Problem(
        model,
        manipulable=["dose"],
        reward_parents=["relief"],
        context=["age"],
        max_probability={"harm": {"yes": limit}},
        optional=False,
        **more,
    )
    return cb.Environment(problem, cb.rewards.BernoulliReward([0.2, 0.8]))


def test_recommendations_say_where_nothing_may_be_done_and_recommend_in_the_others():
    env, rng = world(), np.random.default_rng(0)
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=1)
    for _ in range(20):
        decision = agent.ask(context={"age": "young"})
        seen = env.pull(decision.action, rng, context={"age": "young"})
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
    found = agent.recommendations()
    assert [(share, dict(own.context)) for share, own in found] == [(0.5, {"age": "young"})]
    assert [share for share, _ in found.refused] == pytest.approx([0.3, 0.2])
    for name, (_, reason) in zip(["old", "frail"], found.refused, strict=True):
        assert reason.startswith(
            f"max_probability excludes every action where age={name}: none satisfies P(harm=yes) <= 0.45"
        )
        assert reason in repr(found)
    with pytest.raises(ProblemError, match="every action where age=frail:"):
        agent.ask(context={"age": "frail"})
    with pytest.raises(ProblemError, match="every action where age=frail:"):
        agent.recommend(context={"age": "frail"})


def views(problem):
    return [problem.condition_codes(codes) for codes, _ in problem.contexts.by_probability()]


def test_rounds_in_which_nothing_may_be_done_are_left_out_and_that_is_said():
    env, measures = world(), ["plays", "simple regret"]
    with pytest.warns(ProblemWarning, match=r"where age=old: .* Rounds without an allowed action are skipped .50%"):
        run = cb.simulate(
            env, ["c-ts(prior=beta)", "ts(prior=beta)"], horizon=200, replications=2, measures=measures, progress=False
        )
    for id in ("c-ts(prior=beta)", "ts(prior=beta)"):
        low, high = run.measure("plays", id)[0, -1]
        assert low + high == 200
        assert run.regret(id)[0, -1] == pytest.approx(low * env.gap({"dose": "low"}, {"age": "young"}))
        assert run.measure("simple regret", id)[:, -1].tolist() == [0.0, 0.0]
    assert not can_play(env, cb.policy("c-ts", prior="beta"), env.problem)


def test_what_is_required_of_some_contexts_only_narrows_those():
    env = world(limit=0.55)
    assert [view.situation(every=True).size for view in views(env.problem)] == [2, 1, 1]
    run = cb.simulate(env, "uniform", horizon=300, replications=1, measures="plays", progress=False)
    assert 50 < run.measure("plays", "uniform")[0, -1][1] < 100  # in about half of the young's rounds


def test_where_no_context_has_an_action_everything_is_refused():
    with pytest.raises(ProblemError, match="is allowed in any context"):
        cb.simulate(world(limit=0.01), "c-ts(prior=beta)", horizon=20, replications=1)


@pytest.mark.parametrize("of_world", [True, False])
def test_describe_names_the_contexts_in_which_nothing_may_be_done(of_world):
    env = world()
    said = repr(cb.describe(env if of_world else env.problem))
    assert "where age=frail" in said
    assert "where age=old" in said
    assert "where age=young" not in said
    assert "2 actions, by context" in said


def test_a_forecast_is_of_the_contexts_in_which_something_may_be_done():
    with pytest.warns(ProblemWarning, match="are skipped"):
        found = cb.forecast(world().problem, "c-ts(prior=beta)", horizon=50, replications=3, progress=False)
    assert found.has_found_best("c-ts(prior=beta)").all()
    assert found.at_stake > 0


def test_a_budget_is_shared_by_the_contexts_in_which_something_may_be_done():
    env = world(costs={"dose": {"high": 0.1}})
    with pytest.warns(ProblemWarning, match="are skipped"):
        run = cb.simulate(env, "c-ts(prior=beta)", horizon=50, replications=1, budget=5.1, progress=False)
    assert (
        0 <= run.regret("c-ts(prior=beta)")[0, -1] < 10 * 0.24
    )  # money lasts for the best in every round, once it is known
