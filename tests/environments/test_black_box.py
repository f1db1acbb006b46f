"""A world as a function: what it gives is checked, and what actions are worth is said or measured."""

import math
import pickle

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.environments import black_box
from causalbandits.errors import ProblemError, SizeError, StateError

CAMPAIGN = cb.zoo.email_campaign()
SEEN = {"subject": "short", "template": "1", "send_time": "morning"}


def constant(do, rng):
    return SEEN, 0.5


def evenings(do, rng):
    evening = do.get("send_time") == "evening"
    return SEEN | {"send_time": do.get("send_time", "morning")}, float(rng.random() < 0.2 + 0.6 * evening)


def test_a_step_that_pulls_another_environment_is_that_environment_in_every_bit():
    env = cb.BlackBoxEnvironment(CAMPAIGN.problem, CAMPAIGN.pull, means=CAMPAIGN.means)
    runs = [cb.simulate(e, ["c-ts(prior=beta)", "ucb"], horizon=200, replications=2, seed=3) for e in (CAMPAIGN, env)]
    for policy in ("c-ts(prior=beta)", "ucb"):
        assert np.array_equal(runs[0].regret(policy), runs[1].regret(policy))
    assert env.best() == CAMPAIGN.best()
    assert env.gaps().tolist() == CAMPAIGN.gaps().tolist()
    assert env.pull({"purpose": "Promo"}, rng=5) == CAMPAIGN.pull({"purpose": "Promo"}, rng=5)


def test_what_actions_are_worth_may_be_said_in_three_ways():
    actions = list(CAMPAIGN.problem.actions)
    by_number = [0.1 * len(do) for do in actions]
    by_intervention = dict(zip(actions, by_number, strict=True))
    for means in (by_number, by_intervention, lambda do: 0.1 * len(do)):
        env = cb.BlackBoxEnvironment(CAMPAIGN.problem, constant, means=means)
        assert env.means.tolist() == by_number
        assert env.mean_reward(actions[7]) == env.mean_reward(7) == by_number[7]
        assert env.standard_error == 0
        assert len(env.best().intervention) == 3


def test_what_nobody_knows_is_measured_with_a_standard_error():
    """Each average misses by more than 5 standard errors with probability 6e-7, 80 actions: 5e-5."""
    env = cb.BlackBoxEnvironment(CAMPAIGN.problem, evenings, samples=400)
    exact = [0.8 if do.get("send_time") == "evening" else 0.2 for do in env.problem.actions]
    assert env.standard_error == pytest.approx(math.sqrt(0.2 * 0.8 / 400), rel=0.2)
    assert np.abs(env.means - exact).max() < 5 * env.standard_error
    assert env.best().intervention["send_time"] == "evening"
    assert "means from 400 samples each, to 0.02" in repr(env)
    assert cb.BlackBoxEnvironment(CAMPAIGN.problem, evenings, samples=400).fingerprint == env.fingerprint


def test_policies_learn_in_a_world_that_is_a_function():
    env = cb.BlackBoxEnvironment(
        CAMPAIGN.problem, evenings, means=lambda do: 0.2 + 0.6 * (do.get("send_time") == "evening")
    )
    run = cb.simulate(env, ["c-ts(prior=beta)", "uniform"], horizon=400, replications=3, seed=0)
    assert run.regret("c-ts(prior=beta)")[:, -1].max() < 0.75 * run.regret("uniform")[:, -1].min()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            lambda do, rng: None,
            r"step must be a function of an intervention and rng .*; after do\(\) it raised TypeError",
        ),
        (
            lambda do: (SEEN, 1.0),
            r"step must be a function of an intervention and rng .*; after do\(\) it raised TypeError",
        ),
        (
            lambda do, rng: (SEEN, "much"),
            r"that returns the parents' values and a number; after do\(\) it raised ValueError:",
        ),
        (lambda do, rng: (SEEN, math.nan), r"step must return finite rewards; after do\(\) it"),
        (
            lambda do, rng: ({"subject": "short"}, 1.0),
            r"step must return the parents' values; after do\(\): Every parent must",
        ),
        (
            lambda do, rng: (SEEN | {"subject": "odd"}, 1.0),
            r"step must return the parents' values; after do\(\): Unknown value of 'subject':",
        ),
        (lambda do, rng: (3, 1.0), r"after do\(\): The parents' values must be a mapping"),
    ],
)
def test_what_a_step_gives_is_checked_with_the_action(step, message):
    with pytest.raises(ProblemError, match=message):
        cb.BlackBoxEnvironment(CAMPAIGN.problem, step, means=np.zeros(80)).pull({}, rng=0)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, r"Regret requires the mean reward of each action\. Pass means=, or samples=1000 to"),
        ({"means": np.zeros(80), "samples": 10}, "and not both"),
        ({"means": np.zeros(79)}, "means must be 80 finite numbers, one per action; got shape"),
        ({"means": np.full(80, np.nan)}, "means must be 80 finite numbers"),
        ({"means": "much"}, "means must be numbers, one per action; got 'much'"),
        ({"means": {cb.Intervention(): 1.0}}, r"means must have every action; do\(send_time=morning\) is missing"),
        ({"means": lambda do: None}, "means must be"),
        ({"samples": 1}, "samples must be a whole number, 2 or more; got 1"),
        ({"samples": "many"}, "samples must be a whole number, 2 or more; got 'many'"),
    ],
)
def test_what_actions_are_worth_must_be_known(keywords, message):
    with pytest.raises(ProblemError, match=message):
        cb.BlackBoxEnvironment(CAMPAIGN.problem, constant, **keywords)


def test_a_step_environment_is_made_of_a_problem_and_a_function():
    with pytest.raises(ProblemError, match=r"needs a Problem and a function step\(intervention, rng\); got .*, 3"):
        cb.BlackBoxEnvironment(CAMPAIGN.problem, 3, means=np.zeros(80))


def test_too_many_actions_or_draws_are_refused_before_the_first_step():
    with pytest.raises(SizeError, match="Mean rewards are stored for every action,"):
        cb.BlackBoxEnvironment(cb.zoo.random_parallel(3, 9, np.ones(9), rng=0).problem, constant, samples=2)
    with pytest.raises(SizeError, match=f"are 80000000 steps; the limit is {black_box.STEP_LIMIT}"):
        cb.BlackBoxEnvironment(CAMPAIGN.problem, constant, samples=10**6)


def test_what_only_a_mechanism_could_tell_is_refused():
    env = cb.BlackBoxEnvironment(CAMPAIGN.problem, constant, means=np.zeros(80))
    with pytest.raises(ProblemError, match="A step function has no mean"):
        print(env.configuration_means)
    with pytest.raises(ProblemError, match="has no mean reward given the parents that another problem could use"):
        cb.Environment(CAMPAIGN.problem, env.reward)
    with pytest.raises(ProblemError, match="its own actions"):
        env.gaps_in(CAMPAIGN.problem.projection)
    with pytest.raises(ProblemError, match="no reward for given parents"):
        env.reward.draw(0.0, dict, np.random.default_rng(0))


def test_bounds_use_what_actions_are_worth_and_take_the_rest_for_granted():
    twin = cb.BlackBoxEnvironment(CAMPAIGN.problem, constant, means=CAMPAIGN.means)
    of_twin = cb.theory.compare(twin, 10**6)
    gap, known = float(CAMPAIGN.gaps().max()), [row.policy for row in of_twin if row.policy != "uniform"]
    assumed = cb.theory.compare(CAMPAIGN.problem, 10**6, largest_gap=gap, policies=known)
    assert [row[:4] for row in of_twin if row.policy != "uniform"] == [row[:4] for row in assumed]
    of_campaign = {row.policy: row for row in cb.theory.compare(CAMPAIGN, 10**6)}
    assert {row.policy: row for row in of_twin}["uniform"] == of_campaign["uniform"]
    assert not {row.policy: row for row in of_twin}["c-ts(scales=given)"].broken
    assert of_campaign["c-ts(scales=given)"].broken
    described = cb.describe(twin)
    assert (described.policy, described.reachable) == ("c-gittins(prior=main-effects)", 12)
    assert "it has the lowest benchmark regret among policies that need" in described.reason


def test_it_goes_to_workers_and_comes_back_the_same():
    env = cb.BlackBoxEnvironment(CAMPAIGN.problem, evenings, means=np.linspace(0, 1, 80))
    env.pull({}, rng=0)
    again = pickle.loads(pickle.dumps(env))
    assert again.fingerprint == env.fingerprint
    assert again.pull({"send_time": "evening"}, rng=1) == env.pull({"send_time": "evening"}, rng=1)
    runs = [cb.simulate(env, "c-ts(prior=beta)", horizon=50, replications=2, workers=w) for w in (None, 2)]
    assert runs[0] == runs[1]


def test_a_checkpoint_knows_the_code_of_a_step(tmp_path):
    def simulated(step):
        env = cb.BlackBoxEnvironment(CAMPAIGN.problem, step, means=np.zeros(80))
        return cb.simulate(env, "c-ts(prior=beta)", horizon=20, replications=1, checkpoint=tmp_path / "run")

    simulated(lambda do, rng: (SEEN, 0.25))
    simulated(lambda do, rng: (SEEN, 0.25))
    with pytest.raises(StateError, match="another run"):
        simulated(lambda do, rng: (SEEN, 0.75))


def segmented(**keywords):
    """A coin that is looked at first decides which side pays."""
    model = cb.CausalModel(
        [
            cb.Variable("who", ["a", "b"], table=[0.75, 0.25]),
            cb.Variable("coin", ["heads", "tails"], table=[0.5, 0.5]),
            cb.Variable("hit", [0, 1], parents=["who", "coin"], table=[[[0, 1], [1, 0]], [[0.5, 0.5], [0, 1]]]),
        ]
    )
    return cb.Problem(
        model, manipulable=["coin"], reward_parents=["hit"], context=["who"], **{"optional": True, **keywords}
    )


def hitting(do, rng, context):
    side = do.get("coin") or str(rng.choice(["heads", "tails"]))
    p = {("a", "heads"): 1.0, ("a", "tails"): 0.0, ("b", "heads"): 0.5, ("b", "tails"): 1.0}[context["who"], side]
    hit = int(rng.random() < p)
    return {"hit": hit}, float(rng.random() < 0.2 + 0.6 * hit)


WORTH = [[0.5, 0.8, 0.2], [0.65, 0.5, 0.8]]


def test_a_step_is_told_the_context_and_worth_is_by_context():
    env = cb.BlackBoxEnvironment(segmented(), hitting, means=WORTH)
    assert env.best({"who": "a"}) == ({"coin": "heads"}, 0.8)
    assert env.best({"who": "b"}) == ({"coin": "tails"}, 0.8)
    assert env.gap({}, {"who": "b"}) == pytest.approx(0.15)
    assert env.mean_reward({"coin": "heads"}) == pytest.approx(0.75 * 0.8 + 0.25 * 0.5)
    assert env.pull({"coin": "heads"}, 0, context={"who": "a"}).parents == {"hit": 1}
    by_function = cb.BlackBoxEnvironment(
        segmented(), hitting, means=lambda do, context: WORTH[context["who"] == "b"][env.problem.actions.index(do)]
    )
    assert by_function.fingerprint == env.fingerprint
    measured = cb.BlackBoxEnvironment(segmented(), hitting, samples=2000)
    for context in ({"who": "a"}, {"who": "b"}):
        assert measured.condition(context).means == pytest.approx(
            env.condition(context).means, abs=5 * measured.standard_error
        )
    assert pickle.loads(pickle.dumps(env.condition({"who": "b"}))).best() == env.best({"who": "b"})


def test_a_step_with_a_context_plays_as_the_model_that_it_is():
    """The same world as a model: the mean of the rewards is the same, and so is regret, up to chance."""
    problem = segmented()
    env, model = (
        cb.BlackBoxEnvironment(problem, hitting, means=WORTH),
        cb.Environment(problem, cb.rewards.BernoulliReward([0.2, 0.8])),
    )
    for context in ({"who": "a"}, {"who": "b"}):
        assert env.condition(context).means == pytest.approx(model.condition(context).means)
    for id in ("c-ts(prior=beta)", "ts(prior=beta)", "lin-ts"):
        regrets = [
            cb.simulate(world, id, horizon=300, replications=8, measures="simple regret", progress=False).regret(id)[
                :, -1
            ]
            for world in (env, model)
        ]
        spread = np.sqrt(sum(r.var(ddof=1) / len(r) for r in regrets))
        assert abs(regrets[0].mean() - regrets[1].mean()) < 5 * spread + 1e-9


def test_a_function_of_your_own_may_draw_the_context():
    turns = iter(["a", "b"] * 1000)
    env = cb.BlackBoxEnvironment(segmented(), hitting, means=WORTH, draw_context=lambda rng: {"who": next(turns)})
    assert [env.draw_context(0)["who"] for _ in range(4)] == ["a", "b", "a", "b"]
    assert env.pull({"coin": "tails"}, 0, context={"who": "b"}).parents == {"hit": 1}
    assert {env.pull({"coin": "tails"}, 0).parents["hit"] for _ in range(2)} == {0, 1}  # whichever comes
    for draw, said in (
        (lambda rng: {"who": "c"}, "draw_context must return the context's values:"),
        (lambda rng: {}, "of every context variable: who"),
        (lambda: {}, "draw_context must be a function of a generator; it raised TypeError"),
    ):
        wrong = cb.BlackBoxEnvironment(segmented(), hitting, means=WORTH, draw_context=draw)
        with pytest.raises(ProblemError, match=said):
            wrong.draw_context(0)


def test_a_step_in_a_context_keeps_to_what_is_required_and_to_a_budget():
    problem = segmented(max_probability={"hit": {0: 0.6}}, costs={"coin": 0.1})
    env = cb.BlackBoxEnvironment(problem, hitting, means=WORTH)
    assert env.best({"who": "a"}).intervention == {"coin": "heads"}
    run = cb.simulate(env, "c-ts(prior=beta)", horizon=200, replications=1, budget=10.0, progress=False)
    assert np.isfinite(run.regret("c-ts(prior=beta)")).all()


def test_a_step_with_a_context_is_refused_in_words_where_it_does_not_fit():
    with pytest.raises(
        ProblemError, match=r"a row for each of 2 contexts with one for each of 3 actions.*shape \(3,\)"
    ):
        cb.BlackBoxEnvironment(segmented(), hitting, means=[0.5, 0.8, 0.2])
    env = cb.BlackBoxEnvironment(segmented(), lambda do, rng: ({"hit": 1}, 1.0), means=WORTH)
    with pytest.raises(ProblemError, match="must be a function of an intervention, rng and the context"):
        env.pull({}, 0)
    with pytest.raises(ProblemError, match="draw_context must be a function of a generator, for a problem that has a"):
        cb.BlackBoxEnvironment(segmented(), hitting, means=WORTH, draw_context=3)
    with pytest.raises(ProblemError, match="without a known context"):
        cb.BlackBoxEnvironment(segmented().condition({"who": "a"}), hitting, means=WORTH)
    model = segmented().model
    seen = cb.Problem(model, manipulable=["coin"], reward_parents=["hit", "who"], context=["who"], optional=True)
    wrong = cb.BlackBoxEnvironment(seen, lambda do, rng, context: ({"hit": 1, "who": "a"}, 1.0), means=WORTH)
    with pytest.raises(ProblemError, match="'who' is 'b' in this context, and after"):
        wrong.pull({}, 0, context={"who": "b"})
