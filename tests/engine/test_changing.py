"""Simulations in environments that change: each round is played and evaluated in its own environment."""

from __future__ import annotations

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine import simulation
from causalbandits.engine.driver import play
from causalbandits.errors import BudgetError, CausalBanditsError, PolicyError, ProblemError, ProblemWarning

CAMPAIGN = cb.zoo.email_campaign()
MEANS = CAMPAIGN.configuration_means.reshape(CAMPAIGN.problem.shape)
EVENING = cb.Environment(CAMPAIGN.problem, cb.rewards.BernoulliReward(MEANS[..., ::-1]))
CHANGING = cb.ChangingEnvironment(CAMPAIGN, {61: EVENING, 151: CAMPAIGN})
POLICIES = ["c-ts(prior=beta)", "c-ts(prior=beta, cpts=learned)", "ucb", "uniform", "cl-ts"]


def bernoulli(problem, means):
    return cb.Environment(problem, cb.rewards.BernoulliReward(np.broadcast_to(means, problem.shape)))


@pytest.mark.parametrize("policy", POLICIES)
def test_regret_is_relative_to_the_best_action_of_each_round(policy):
    """The actions of every round, read off the counts of plays, have these gaps in the environments of these rounds."""
    measures = ["plays", "simple regret"]
    run = cb.simulate(CHANGING, policy, horizon=200, replications=2, seed=5, measures=measures)
    for replication in range(2):
        plays = np.diff(run.plays(policy)[replication], axis=0, prepend=0)
        actions = plays.argmax(axis=1)
        assert (plays.sum(axis=1) == 1).all()
        gaps = [CHANGING.at(t).gap(int(action)) for t, action in enumerate(actions, start=1)]
        assert run.regret(policy)[replication] == pytest.approx(np.cumsum(gaps), abs=1e-12)


def test_rewards_come_from_the_environment_of_the_round():
    env = cb.ChangingEnvironment(
        bernoulli(CAMPAIGN.problem, 0.0), {31: bernoulli(CAMPAIGN.problem, 1.0), 41: bernoulli(CAMPAIGN.problem, 0.0)}
    )
    run = cb.simulate(env, "uniform", horizon=50, replications=1, measures="reward")
    assert run.measure("reward", "uniform")[0].tolist() == [0] * 30 + [*range(1, 11)] + [10] * 10


def test_the_parents_come_from_the_environment_of_the_round():
    """The CPT of template turns from always "1" to always "2", and only "2" is rewarded."""
    model = CAMPAIGN.problem.model

    def always(state):
        table = np.zeros(model["template"].table.shape)
        table[..., state] = 1.0
        variables = [
            cb.Variable(v.name, v.states, parents=v.parents, table=table if v.name == "template" else v.table)
            for v in (model[name] for name in model.order)
        ]
        return bernoulli(CAMPAIGN.problem.with_model(cb.CausalModel(variables)), np.array([[[0.0], [1.0]]]))

    env = cb.ChangingEnvironment(always(0), {21: always(1)})
    for policy in ("uniform", "c-ts(prior=beta, cpts=learned)"):
        run = cb.simulate(env, policy, horizon=30, replications=1, measures="reward")
        assert run.measure("reward", policy)[0].tolist() == [0] * 20 + [*range(1, 11)]
        assert not run.regret(policy).any()


@pytest.mark.parametrize("policy", POLICIES)
def test_changes_to_the_same_environment_change_no_number(policy):
    still = cb.ChangingEnvironment(CAMPAIGN, dict.fromkeys((2, 40, 41, 100, 500), CAMPAIGN))
    runs = [
        cb.simulate(env, policy, horizon=120, replications=2, measures=["reward", "simple regret"])
        for env in (CAMPAIGN, still)
    ]
    for name in ("regret", "reward", "simple regret"):
        assert np.array_equal(*(run.measure(name, policy) for run in runs))


def test_before_a_change_all_numbers_are_those_of_the_first_environment():
    runs = [cb.simulate(env, POLICIES, horizon=200, replications=1) for env in (CAMPAIGN, CHANGING)]
    for policy in POLICIES:
        first, second = (run.regret(policy)[0] for run in runs)
        assert np.array_equal(first[:60], second[:60])
        assert not np.array_equal(first, second)


def test_simple_regret_is_that_of_the_round():
    """With 900 rounds of each arm's reward before, the recommendation stays arm 1, which turns from best to worst."""
    arms = cb.zoo.changing_arms(1).problem
    env = cb.ChangingEnvironment(
        cb.Environment(arms, cb.rewards.BernoulliReward([0.9, 0.5, 0.1])),
        {901: cb.Environment(arms, cb.rewards.BernoulliReward([0.1, 0.5, 0.9]))},
    )
    run = cb.simulate(env, "ts(prior=beta)", horizon=901, replications=3, measures="simple regret")
    lost = run.measure("simple regret", "ts(prior=beta)")
    assert not lost[:, 899].any()
    assert lost[:, 900] == pytest.approx([0.8] * 3)


def test_contexts_are_drawn_from_the_environment_of_the_round():
    segments = cb.zoo.email_segments(tastes=True)
    problem = segments.problem

    def only(state):
        table = np.eye(3)[state]
        variables = [
            cb.Variable("segment", v.states, table=table) if v.name == "segment" else v
            for v in problem.model.variables.values()
        ]
        return cb.Environment(problem.with_model(cb.CausalModel(variables)), segments.reward)

    env = cb.ChangingEnvironment(only(0), {26: only(2)})
    seen = []

    class Watching(cb.policies.Uniform):
        def decide(self, situation, statistic, rng):
            seen.append(situation.problem.context_codes)
            return super().decide(situation, statistic, rng)

    policy = Watching()
    trajectory = play(env, policy, segments.problem, np.arange(1, 51), 0, 0)
    assert seen == [(0,)] * 25 + [(2,)] * 25
    assert trajectory.regret[-1] > 0


def test_the_regret_of_a_context_is_that_of_the_round():
    segments = cb.zoo.email_segments()
    reversed_means = segments.configuration_means.reshape(segments.problem.shape)[..., ::-1]
    later = cb.Environment(segments.problem, cb.rewards.BernoulliReward(reversed_means))
    env = cb.ChangingEnvironment(segments, {301: later})
    run = cb.simulate(env, "c-ts(prior=beta)", horizon=302, replications=3, measures=["plays", "simple regret"])
    weights = dict(segments.problem.contexts.by_probability())
    lost = run.measure("simple regret", "c-ts(prior=beta)")
    assert (lost[:, 300] > lost[:, 299] + 0.1).all()
    possible = {codes: set(later.condition_codes(codes).gaps().round(12)) for codes in weights}
    step = np.diff(run.regret("c-ts(prior=beta)"))[:, 299:]
    assert {float(value) for value in step.ravel().round(12)} <= set().union(*possible.values())


def test_policies_with_known_cpts_assume_those_of_the_first_environment():
    table = CAMPAIGN.problem.model["template"].table
    model = cb.CausalModel(
        [
            cb.Variable(
                v.name, v.states, parents=v.parents, table=table[..., ::-1] if v.name == "template" else v.table
            )
            for v in CAMPAIGN.problem.model.variables.values()
        ]
    )
    later = cb.Environment(CAMPAIGN.problem.with_model(model), CAMPAIGN.reward)
    env = cb.ChangingEnvironment(CAMPAIGN, {31: later})
    runs = [
        cb.simulate(env, POLICIES[:3], horizon=60, replications=2, believed=believed)
        for believed in (None, CAMPAIGN.problem)
    ]
    assert runs[0].regret("ucb").tolist() == runs[1].regret("ucb").tolist()
    assert runs[0].regret(POLICIES[0]).tolist() == runs[1].regret(POLICIES[0]).tolist()
    other = cb.simulate(env, POLICIES[0], horizon=60, replications=2, believed=later.problem)
    assert other.regret(POLICIES[0]).tolist() != runs[0].regret(POLICIES[0]).tolist()


def test_a_believed_problem_may_have_fewer_parents_and_other_numbers_of_actions():
    problem = CAMPAIGN.problem
    believed = cb.Problem(
        problem.model, manipulable=list(problem.manipulable), reward_parents=["subject", "template"], max_set=2
    )
    run = cb.simulate(
        CHANGING, ["c-ts(prior=beta)", "ts"], horizon=200, replications=1, believed=believed, measures="plays"
    )
    for policy in run.policies:
        actions = np.diff(run.plays(policy)[0], axis=0, prepend=0).argmax(axis=1)
        gaps = [CHANGING.at(t).gap(int(action)) for t, action in enumerate(actions, start=1)]
        assert run.regret(policy)[0] == pytest.approx(np.cumsum(gaps), abs=1e-12)


def test_regret_is_net_of_costs():
    problem = CAMPAIGN.problem
    priced = cb.Problem(
        problem.model,
        manipulable=list(problem.manipulable),
        reward_parents=problem.parents,
        costs={"send_time": {"morning": 0.2}},
        optional=True,
    )
    env = cb.ChangingEnvironment(cb.Environment(priced, CAMPAIGN.reward), {41: cb.Environment(priced, EVENING.reward)})
    run = cb.simulate(env, "c-ts(prior=beta)", horizon=80, replications=1, measures="plays")
    actions = np.diff(run.plays("c-ts(prior=beta)")[0], axis=0, prepend=0).argmax(axis=1)
    gaps = [env.at(t).values.max() - env.at(t).values[action] for t, action in enumerate(actions, start=1)]
    assert run.regret("c-ts(prior=beta)")[0] == pytest.approx(np.cumsum(gaps), abs=1e-12)


def test_a_budget_is_refused():
    problem = CAMPAIGN.problem
    priced = cb.Problem(
        problem.model, manipulable=list(problem.manipulable), reward_parents=problem.parents, costs={"send_time": 0.1}
    )
    env = cb.Environment(priced, CAMPAIGN.reward)
    with pytest.raises(BudgetError, match="not defined if the environment changes"):
        cb.simulate(cb.ChangingEnvironment(env, {5: env}), "c-ts(prior=beta)", horizon=10, budget=5)


def test_a_policy_for_rewards_from_0_to_1_is_refused_if_a_later_environment_leaves_that_range():
    gaussian = cb.Environment(CAMPAIGN.problem, cb.rewards.GaussianReward(MEANS, sd=0.3))
    env = cb.ChangingEnvironment(CAMPAIGN, {5: gaussian})
    with pytest.raises(PolicyError, match=r"needs rewards in \[0, 1\]"):
        cb.simulate(env, "c-kl-ucb", horizon=10)
    custom = cb.Environment(CAMPAIGN.problem, cb.rewards.CustomReward(lambda s, t, h: 0.5, lambda s, t, h, rng: 1.5))
    with pytest.raises(PolicyError, match=r"needs rewards in \[0, 1\]; got 1\.5"):
        cb.simulate(cb.ChangingEnvironment(CAMPAIGN, {5: custom}), "ts(prior=beta)", horizon=10, replications=1)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_and_checkpoints_give_the_same_numbers(tmp_path, workers):
    settings = {"policies": POLICIES[:3], "horizon": 200, "measures": ["plays", "reward"]}
    whole = cb.simulate(CHANGING, replications=3, **settings)
    part = cb.simulate(CHANGING, replications=2, checkpoint=tmp_path / "run", **settings)
    again = cb.simulate(CHANGING, replications=3, checkpoint=tmp_path / "run", workers=workers, **settings)
    assert whole == again
    last = cb.simulate(CHANGING, replications=range(2, 3), workers=workers, **settings)
    assert cb.Run.merged([part, last]) == whole


def test_a_checkpoint_of_other_changes_is_refused(tmp_path):
    cb.simulate(CHANGING, "uniform", horizon=10, replications=1, checkpoint=tmp_path)
    for env in (CAMPAIGN, cb.ChangingEnvironment(CAMPAIGN, {62: EVENING, 151: CAMPAIGN})):
        with pytest.raises(CausalBanditsError, match="another run"):
            cb.simulate(env, "uniform", horizon=10, replications=1, checkpoint=tmp_path)


def test_an_environment_that_changes_can_be_drawn_for_each_replication():
    drawn = []

    def draw(rng):
        drawn.append(cb.zoo.email_changes("wandering", rng, horizon=100))
        return drawn[-1]

    run = cb.simulate(draw, {"one": "uniform", "two": "uniform"}, horizon=100, replications=2, measures="plays")
    assert run.regret("one").tolist() == run.regret("two").tolist()
    assert "drawn anew each replication, such as ChangingEnvironment(" in run.environment
    by_fingerprint = {env.fingerprint: env for env in drawn}
    assert len(by_fingerprint) == 2
    expected = []
    for env, plays in zip(by_fingerprint.values(), run.plays("one"), strict=True):
        actions = np.diff(plays, axis=0, prepend=0).argmax(axis=1)
        expected.append(sum(env.at(t).gap(int(action)) for t, action in enumerate(actions, start=1)))
    assert run.regret("one")[:, -1] == pytest.approx(expected)


def test_functions_of_the_round_are_black_box_environments_one_after_the_other():
    """The step of the evening pulls the environment of the evening, so both descriptions give the same numbers."""
    problem = CAMPAIGN.problem
    boxes = [cb.BlackBoxEnvironment(problem, env.pull, means=env.means) for env in (CAMPAIGN, EVENING)]
    described = cb.ChangingEnvironment(CAMPAIGN, {61: EVENING})
    env = cb.ChangingEnvironment(boxes[0], {61: boxes[1]})
    runs = [
        cb.simulate(each, ["c-ts(prior=beta)", "ucb"], horizon=120, replications=2, measures="reward")
        for each in (described, env)
    ]
    for policy in runs[0].policies:
        for measure in ("regret", "reward"):
            assert runs[0].measure(measure, policy).tolist() == runs[1].measure(measure, policy).tolist()


def test_rounds_without_an_allowed_action_are_skipped_in_the_environments_that_have_them():
    """In the second environment, one of two equally frequent contexts has no allowed action."""

    def risky(second):
        model = cb.CausalModel(
            [
                cb.Variable("c", [0, 1], table=[0.5, 0.5]),
                cb.Variable("x", [0, 1], table=[0.5, 0.5]),
                cb.Variable("w", [0, 1], parents=["c", "x"], table=[[[0.9, 0.1]] * 2, [[1 - second, second]] * 2]),
            ]
        )
        problem = cb.Problem(
            model,
            manipulable=["x"],
            reward_parents=["x", "w"],
            context=["c"],
            max_probability={"w": {1: 0.5}},
        )
        return bernoulli(problem, 0.5)

    env = cb.ChangingEnvironment(risky(0.1), {51: risky(0.9)})
    with pytest.warns(ProblemWarning, match=r"25% of all rounds"):
        run = cb.simulate(env, "uniform", horizon=100, replications=1)
    assert run.horizon == 100


def test_compiled_and_plain_simulations_give_the_same_numbers(monkeypatch):
    measures = ["simple regret", "reward", "plays"]
    settings = {"policies": POLICIES[:4], "horizon": 700, "replications": 2, "measures": measures}
    plain = cb.simulate(CHANGING, **settings)
    monkeypatch.setattr(simulation, "COMPILED_FROM", 1)
    assert cb.simulate(CHANGING, **settings) == plain


def test_a_source_that_is_no_environment_is_refused():
    with pytest.raises(CausalBanditsError, match="needs an Environment"):
        cb.simulate(CAMPAIGN.problem, "uniform", horizon=10)
    with pytest.raises(ProblemError, match="must have the environment's manipulable variables"):
        cb.simulate(CHANGING, "uniform", horizon=10, believed=cb.zoo.figure2().problem)
