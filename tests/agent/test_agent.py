"""Ask and tell: late, out of order, in batches or never; errors that change nothing; files that resume exactly."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import BatchWarning, InterventionError, PolicyError, StateError, TellError
from causalbandits.fitting import prior_model
from oracles import known_to
from oracles.policies import POLICIES

CLICK = {"subject": "short", "template": "1", "send_time": "morning"}


@pytest.fixture
def env():
    return cb.zoo.email_campaign()


def converse(agent, env, rounds, seed=0):
    world = np.random.default_rng(seed)
    decided = []
    for _ in range(rounds):
        decision = agent.ask()
        outcome = env.pull(decision.action, world)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
        decided.append(decision.action)
    return decided


def state(agent, path):
    """What a file says of an agent, but for how often it was saved."""
    agent.save(path)
    return {key: value for key, value in json.loads(path.read_text()).items() if key not in ("edition", "checksum")}


def test_a_second_telling_changes_nothing(env, tmp_path):
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=1)
    decision = agent.ask(eligible=[{"send_time": "morning"}])
    agent.tell(decision.id, reward=1, observed=CLICK)
    before = state(agent, tmp_path / "a.json")
    with pytest.raises(TellError, match="has already been reported"):
        agent.tell(decision.id, reward=1, observed=CLICK)
    assert state(agent, tmp_path / "a.json") == before


@pytest.mark.parametrize(
    ("id", "parents", "reward", "complaint"),
    [
        (7, CLICK, 1, "Unknown decision 7"),
        (-1, CLICK, 1, "Unknown decision -1"),
        ("0", CLICK, 1, "Unknown decision '0'"),
        (0, {**CLICK, "template": "3"}, 1, "Unknown value of 'template': '3'"),
        (0, {**CLICK, "send_time": "mornin"}, 1, "Did you mean 'morning'"),
        (0, {"subject": "short"}, 1, "The outcome lacks 'template': "),
        (0, {**CLICK, "produkt": "Photoshop"}, 1, "observed: Unknown variable 'produkt'"),
        (0, "short", 1, "observed must map variables to their values"),
        (0, CLICK, math.nan, "finite number"),
        (0, CLICK, math.inf, "finite number"),
        (0, CLICK, "1", "finite number"),
        (0, CLICK, None, "finite number"),
        (0, CLICK, 1.5, r"needs rewards in \[0, 1\]; got 1.5"),
        (0, CLICK, -0.1, r"needs rewards in \[0, 1\]"),
        (
            0,
            {**CLICK, "send_time": "evening"},
            1,
            "'send_time' was set to 'morning' by the decision; observed has 'evening'",
        ),
    ],
)
def test_a_bad_telling_is_refused_and_changes_nothing(env, tmp_path, id, parents, reward, complaint):
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=1)
    agent.ask(eligible=[{"send_time": "morning"}])
    before = state(agent, tmp_path / "a.json")
    with pytest.raises(TellError, match=complaint):
        agent.tell(id, reward=reward, observed=parents)
    assert state(agent, tmp_path / "a.json") == before
    agent.tell(0, reward=1, observed=CLICK)


def test_impossible_configurations_are_taken_on_request():
    model = cb.CausalModel(
        [cb.Variable("x", [0, 1], table=[0.5, 0.5]), cb.Variable("y", [0, 1], parents=["x"], table=np.eye(2))]
    )
    env = cb.Environment(
        cb.Problem(model, manipulable=["x"], reward_parents=["y"], optional=True),
        cb.rewards.BernoulliReward([0.2, 0.8]),
    )
    agent = cb.Agent(env.problem, "c-ucb", seed=1)
    with pytest.raises(TellError, match=r'probability 0 under do.*zero_probability="allow"'):
        agent.tell(agent.ask(eligible=[{"x": 0}]).id, reward=1, observed={"y": 1})
    agent = cb.Agent(env.problem, "c-ucb", seed=1, zero_probability="allow")
    decision = agent.ask(eligible=[{"x": 0}])
    agent.tell(decision.id, reward=1, observed={"y": 1})
    assert agent.n_outcomes == 1
    with pytest.raises(cb.CausalBanditsError, match="'raise' or 'allow'"):
        cb.Agent(env.problem, "c-ucb", zero_probability="maybe")


def test_parents_that_the_action_set_may_be_left_out(env):
    agent = cb.Agent(env.problem, "c-ucb", seed=1)
    ids = [agent.ask(eligible=[{"send_time": "morning"}]).id for _ in range(2)]
    agent.tell(ids[0], reward=1, observed={"subject": "short", "template": "1"})
    agent.tell(ids[1], reward=1, observed=CLICK)
    assert len({outcome.z for outcome in agent._outcomes}) == 1
    with pytest.raises(TellError, match="The outcome lacks 'send_time': "):
        agent.tell(agent.ask(eligible=[{}]).id, reward=1, observed={"subject": "short", "template": "1"})
    with pytest.raises(TellError, match="The outcome lacks 'subject', 'template': "):
        agent.tell(agent.ask(eligible=[{"send_time": "evening"}]).id, reward=1)


def test_the_first_outcome_of_the_readme_can_be_told_for_every_seed():
    states = {"purpose": ["Promo", "Nurture"], "subject": ["short", "long"], "send_time": ["morning", "evening"]}
    model = prior_model({"subject": ["purpose"], "send_time": []}, values=states)
    problem = cb.Problem(
        model, manipulable=["purpose", "send_time"], reward_parents=["subject", "send_time"], optional=["purpose"]
    )
    for seed in range(50):
        agent = cb.Agent(problem, "c-ts(prior=beta, cpts=learned)", seed=seed)
        agent.tell(agent.ask().id, reward=1, observed={"subject": "short"})


def test_all_parents_may_be_left_out_where_the_action_sets_all():
    env = cb.zoo.lower_bound(3, delta=0.1)
    agent = cb.Agent(env.problem, "c-ucb", seed=1)
    agent.tell(agent.ask(eligible=[{"X1": 2}]).id, reward=0.5)
    assert [outcome.z for outcome in agent._outcomes] == [(1,)]


@pytest.mark.parametrize("zero_probability", ["raise", "allow"])
def test_a_value_that_contradicts_what_was_set_is_refused_without_advice_to_accept_it(env, zero_probability):
    agent = cb.Agent(env.problem, "c-ucb", seed=1, zero_probability=zero_probability)
    decision = agent.ask(eligible=[{"send_time": "morning"}])
    with pytest.raises(TellError, match="was set to 'morning' by the decision; observed has 'evening'") as error:
        agent.tell(decision.id, reward=1, observed={**CLICK, "send_time": "evening"})
    assert "Leave it out: it is filled in" in str(error.value)
    assert "allow" not in str(error.value)


@pytest.mark.parametrize("reward", [1, 0.5, True])
def test_a_reward_in_the_place_of_observed_values_is_refused_with_the_name_of_its_argument(env, reward):
    agent = cb.Agent(env.problem, "c-ucb", seed=1)
    with pytest.raises(TellError) as error:
        agent.tell(agent.ask().id, observed=reward)
    assert f"tell(decision, reward={reward}, observed={{...}})" in str(error.value)
    assert "nan" not in str(error.value)
    with pytest.raises(TellError, match="it is missing, or nan"):
        agent.tell(0, observed=CLICK)


@pytest.mark.parametrize("id", ["c-ucb", "ucb", "c-ts(scales=given)", "cl-ucb", "cl-ts(regressor=observed)"])
def test_the_order_of_tellings_does_not_matter(env, id):
    """Statistics are sums: telling a batch backwards leads to the same decisions."""
    outcomes = {}
    agents = [cb.Agent(env.problem, id, seed=3) for _ in range(2)]
    for agent in agents:
        for decision in agent.ask(30):
            outcomes.setdefault(decision.id, env.pull(decision.action, 100 + decision.id))
    for agent, ids in zip(agents, (sorted(outcomes), sorted(outcomes, reverse=True)), strict=True):
        for decision in ids:
            agent.tell(decision, reward=outcomes[decision].reward, observed=outcomes[decision].parents)
    assert [d.action for d in agents[0].ask(5)] == [d.action for d in agents[1].ask(5)]


def test_rewards_may_never_come(env):
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=0)
    first, second = agent.ask(2)
    outcome = env.pull(second.action, 0)
    agent.tell(second.id, reward=outcome.reward, observed=outcome.parents)
    assert agent.pending == {first.id: first.action}
    assert agent.n_outcomes == 1
    assert agent.ask().id == 2


def test_a_batch_of_a_deterministic_policy_is_one_action_and_of_thompson_sampling_is_not(env):
    with pytest.warns(BatchWarning):
        assert len({cb.Intervention(d.action) for d in cb.Agent(env.problem, "c-ucb").ask(20)}) == 1
    assert len({cb.Intervention(d.action) for d in cb.Agent(env.problem, "c-ts(prior=beta)", seed=0).ask(20)}) > 5
    for bad in (0, -1, 1.5, True, "3"):
        with pytest.raises(cb.CausalBanditsError, match="must be an integer"):
            cb.Agent(env.problem, "c-ucb").ask(bad)


def test_a_decision_stays_among_the_eligible(env):
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=0)
    some = [{"purpose": "Promo"}, {"send_time": "evening", "product": "Photoshop"}]
    chosen = {cb.Intervention(agent.ask(eligible=some).action) for _ in range(40)}
    assert chosen == {cb.Intervention(a) for a in some}
    by_rule = agent.ask(40, eligible=lambda do: "product" not in do and len(do) == 1)
    assert all(set(d.action) <= {"purpose", "send_time"} for d in by_rule)
    with pytest.raises(InterventionError, match="No action is eligible"):
        agent.ask(eligible=[])
    with pytest.raises(InterventionError, match="Did you mean 'purpose'"):
        agent.ask(eligible=[{"purposes": "Promo"}])


def test_eligible_actions_are_chosen_as_if_there_were_no_others(env):
    """The best of the eligible by the policy's own scores."""
    agent = cb.Agent(env.problem, "c-ucb", seed=0)
    converse(agent, env, 100)
    p = env.problem
    every = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, reduce=False, optional=True)
    situation = every.situation()
    scores = agent.policy.score(situation, agent._statistic, np.random.default_rng()).values
    some = [3, 17, 60, 79]
    decision = agent.ask(eligible=[env.problem.actions[i] for i in some])
    assert env.problem.actions.index(decision.action) == max(some, key=lambda i: scores[i])


@pytest.mark.parametrize("id", POLICIES)
def test_a_saved_agent_goes_on_as_if_it_had_never_stopped(env, tmp_path, id):
    agent = cb.Agent(known_to(id, env), id, seed=5)
    converse(agent, env, 60)
    waiting = agent.ask(2)
    agent.save(tmp_path / "agent.json")
    resumed = cb.Agent.load(tmp_path / "agent.json")
    assert resumed.pending == agent.pending
    for one in (agent, resumed):
        outcome = env.pull(waiting[1].action, 3)
        one.tell(waiting[1].id, reward=outcome.reward, observed=outcome.parents)
    assert converse(resumed, env, 60, seed=8) == converse(agent, env, 60, seed=8)
    assert resumed.recommend() == agent.recommend()


def test_fractional_rewards_use_the_saved_seed(env, tmp_path):
    """The coin that a Beta prior flips for a reward of 0.5 comes from the seed that is saved."""
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=5)
    agent.save(tmp_path / "a.json")
    pair = [agent, cb.Agent.load(tmp_path / "a.json")]
    for one in pair:
        for decision in one.ask(50, eligible=[{"send_time": "morning"}]):
            one.tell(decision.id, reward=0.5, observed=CLICK)
    assert state(pair[0], tmp_path / "a.json") == state(pair[1], tmp_path / "b.json")
    assert 10 < pair[0]._statistic.total.sum() < 40


def test_parameters_and_constraints_survive_the_file(env, tmp_path):
    p = env.problem
    problem = cb.Problem(
        p.model,
        manipulable=p.manipulable,
        reward_parents=p.parents,
        max_set=2,
        optional=[name for name in p.manipulable if name not in ["send_time"]],
        forbid=lambda do: "purpose" in do,
    )
    policy = cb.policies.CausalUCB(noise_scale=0.5, horizon=100)
    cb.Agent(problem, policy, seed=0).save(tmp_path / "a.json")
    loaded = cb.Agent.load(tmp_path / "a.json", problem=problem)
    assert loaded.policy == policy
    assert list(loaded.problem.actions) == list(problem.actions)
    assert cb.Agent.load(tmp_path / "a.json").problem.fingerprint == problem.fingerprint


def test_a_file_of_another_problem_is_refused(env, tmp_path):
    cb.Agent(env.problem, "c-ucb").save(tmp_path / "a.json")
    with pytest.raises(StateError, match="belongs to another problem"):
        cb.Agent.load(tmp_path / "a.json", problem=cb.zoo.figure2().problem)


@pytest.mark.parametrize("damage", ["truncate", "empty", "change", "list", "binary", "version", "drop"])
def test_a_damaged_file_is_refused_with_the_reason(env, tmp_path, damage):
    path = tmp_path / "a.json"
    agent = cb.Agent(env.problem, "c-ucb", seed=0)
    converse(agent, env, 5)
    agent.save(path)
    text = path.read_text()
    content = json.loads(text)
    if damage == "change":
        content["statistic"]["total"][0] += 1
    elif damage == "version":
        content["version"] = 99
    elif damage == "drop":
        del content["statistic"]
    damaged = {
        "truncate": text[: len(text) // 2],
        "empty": "",
        "list": "[1, 2]",
        "binary": "\x00\x01",
    }.get(damage, json.dumps(content))
    path.write_text(damaged)
    with pytest.raises(StateError, match=r"corrupted|not a saved agent|another version"):
        cb.Agent.load(path)


def test_saving_leaves_the_old_file_when_it_fails(env, tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    agent = cb.Agent(env.problem, "c-ucb", seed=0)
    agent.save(path)
    before = path.read_text()
    converse(agent, env, 3)

    def fails(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(StateError, match=r"Cannot save to .*a\.json: disk full\. Nothing was changed"):
        agent.save(path)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_policy_with_functions_must_be_handed_in_again(env, tmp_path):
    policy = cb.policies.CausalLinearUCB(features=lambda subject, template, send_time: [1.0, subject == "short"])
    cb.Agent(env.problem, policy).save(tmp_path / "a.json")
    with pytest.raises(StateError, match="policy="):
        cb.Agent.load(tmp_path / "a.json")
    with pytest.raises(StateError, match="was written by the policy cl-ucb"):
        cb.Agent.load(tmp_path / "a.json", policy=cb.policies.CausalUCB())
    assert cb.Agent.load(tmp_path / "a.json", policy=policy).policy is policy


@pytest.mark.parametrize("id", POLICIES)
def test_a_recommendation_never_crashes_and_names_its_kind(env, id):
    agent = cb.Agent(known_to(id, env), id, seed=2)
    for rounds in (0, 1, 30, 300):
        converse(agent, env, rounds, seed=rounds)
        best = agent.recommend()
        believes = any(word in id for word in ("ts", "gittins", "screen", "ids"))
        assert best.kind == ("credible" if believes else "confidence")
        assert best.lower <= best.mean <= best.upper
        if agent.n_outcomes < 4 and cb.policy(id).traits.learns_scales and "beta" not in id:
            assert math.isinf(best.upper - best.lower)  # nothing is known of the scale yet, and that is said
            assert "interval not available: the noise scale is estimated once there are four rewards" in repr(best)
            continue
        assert math.isfinite(best.lower)
        assert math.isfinite(best.upper)
        wider = agent.recommend(confidence=0.99)
        assert wider.upper - wider.lower > best.upper - best.lower or best.upper - best.lower == 1.0


def test_more_rewards_narrow_the_interval_and_find_the_best(env):
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=2)
    widths = []
    for _ in range(3):
        converse(agent, env, 700, seed=len(widths))
        best = agent.recommend()
        widths.append(best.upper - best.lower)
    assert widths == sorted(widths, reverse=True)
    assert env.mean_reward(best.intervention) == pytest.approx(env.best().mean)
    assert best.seen == pytest.approx(1.0)


def test_an_unseen_configuration_widens_the_interval(env):
    """Promo mails show mostly template 1: the action's own interval is wider while template 2 has no reward."""
    policy = cb.policies.CausalUCB()
    action = env.problem.actions.index({"send_time": "morning"})

    def width(template_2_seen):
        statistic = policy.init(env.problem)
        for subject in (0, 1):
            for template in (0, 1) if template_2_seen else (0,):
                for _ in range(400):
                    statistic.add(env.problem.configuration((subject, template, 0)), 1.0)
        interval = policy.interval(env.problem.situation(), statistic, env.problem.actions.action(action), 0.95)
        return interval.upper - interval.lower

    assert width(False) > 2 * width(True)


def test_an_untried_action_is_not_recommended_on_its_prior_alone():
    """Rewards of 2 percent: a Beta(1, 1) prior's mean of one half must not beat what has been measured."""
    arm = cb.Variable("arm", [1, 2, 3], table=[1 / 3, 1 / 3, 1 / 3])
    problem = cb.Problem(cb.CausalModel([arm]), manipulable=["arm"], reward_parents=["arm"], optional=False)
    for id in ("ts(prior=beta)", "c-ts(prior=beta)"):
        agent = cb.Agent(problem, id, seed=0)
        for i in range(200):
            decision = agent.ask(eligible=[{"arm": 1 + i % 2}])
            agent.tell(decision.id, reward=1.0 if i in (3, 5) else 0.0, observed={"arm": 1 + i % 2})
        assert agent.recommend().intervention == cb.Intervention(arm=2)


@pytest.mark.parametrize("id", ["c-ucb", "ucb", "c-kl-ucb", "cl-ucb(regressor=observed)", "uniform"])
def test_confidence_intervals_hold_at_all_times_under_adaptive_sampling(id):
    """Nominal 95%; over 60 runs and every 20th round, more than 10 misses would have probability below 0.002."""
    misses = 0
    arm = cb.Variable("arm", [0, 1, 2], table=[0.2, 0.3, 0.5])
    screen = cb.Variable("screen", [0, 1], parents=["arm"], table=[[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    problem = cb.Problem(cb.CausalModel([arm, screen]), manipulable=["arm"], reward_parents=["screen"], optional=True)
    env = cb.Environment(problem, cb.rewards.BernoulliReward([0.3, 0.6]))
    for seed in range(60):
        agent = cb.Agent(problem, cb.policy(id), seed=seed)
        missed = False
        for t in range(10):
            converse(agent, env, 20, seed=1000 * seed + t)
            best = agent.recommend()
            missed |= not best.lower <= env.mean_reward(best.intervention) <= best.upper
        misses += missed
    assert misses <= 10


@pytest.mark.parametrize(
    "id", ["ts(prior=beta)", "c-ts(prior=beta)", "ts(scales=given)", "c-ts(scales=given)", "cl-ts(regressor=observed)"]
)
def test_posterior_intervals_cover_at_their_level_when_the_prior_is_true(id):
    """Means drawn from the prior, 300 runs at level 0.8: outside [215, 265] of 240 expected has probability < 0.002."""
    arm = cb.Variable("arm", ["a", "b", "c"], table=[0.2, 0.3, 0.5])
    screen = cb.Variable("screen", ["x", "y"], parents=["arm"], table=[[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    parents = ["screen"] if id.startswith("c") else ["arm"]
    problem = cb.Problem(cb.CausalModel([arm, screen]), manipulable=["arm"], reward_parents=parents, optional=False)
    covered = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        size = problem.configurations
        if "beta" in id:
            env = cb.Environment(problem, cb.rewards.BernoulliReward(rng.random(size)))
        else:
            env = cb.Environment(problem, cb.rewards.GaussianReward(rng.standard_normal(size), sd=1.0))
        agent = cb.Agent(problem, id, seed=seed)
        converse(agent, env, 25, seed=seed + 10_000)
        best = agent.recommend(confidence=0.8)
        covered += best.lower <= env.mean_reward(best.intervention) <= best.upper
    assert 215 <= covered <= 265


def test_the_moment_matched_beta_interval_agrees_with_draws():
    problem = cb.zoo.email_campaign().problem
    policy = cb.policies.CausalThompsonSampling(prior="beta")
    statistic = policy.init(problem)
    rng = np.random.default_rng(0)
    for cell in rng.integers(12, size=150).tolist():
        statistic.add(cell, float(rng.random() < 0.1 + 0.07 * cell))
    for action in (0, 17, 45):
        interval = policy.interval(problem.situation(), statistic, problem.actions.action(action), 0.95)
        a, b = 1 + statistic.total, 1 + statistic.count - statistic.total
        draws = rng.beta(a, b, size=(200_000, 12)) @ problem.parent_distribution(action).reshape(-1)
        assert interval[:2] == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=0.008)


def test_rewards_far_from_the_expected_scale_warn_once(env):
    agent = cb.Agent(env.problem, "c-ucb")
    for decision, expectation in zip(
        agent.ask(2), (pytest.warns(cb.errors.ScaleWarning, match="50"), None), strict=True
    ):
        outcome = env.pull(decision.action, 0)
        if expectation is None:
            agent.tell(decision.id, reward=50.0, observed=outcome.parents)
        else:
            with expectation:
                agent.tell(decision.id, reward=50.0, observed=outcome.parents)


def test_a_wrong_policy_or_problem_is_refused(env):
    with pytest.raises(PolicyError, match="Did you mean 'c-ucb'"):
        cb.Agent(env.problem, "c-ucbb")
    with pytest.raises(PolicyError, match="such as CausalUCB"):
        cb.Agent(env.problem, cb.policies.CausalUCB)
    with pytest.raises(cb.CausalBanditsError, match="needs a Problem"):
        cb.Agent(env, "c-ucb")
    with pytest.raises(cb.CausalBanditsError, match="seed"):
        cb.Agent(env.problem, "c-ucb", seed=-1)
    with pytest.raises(cb.CausalBanditsError, match=r"confidence must be a number above 0 and up to .*; got 95"):
        cb.Agent(env.problem, "c-ucb").recommend(confidence=95)


def test_numpy_numbers_as_parameters_survive_the_file(env, tmp_path):
    policy = cb.policies.CausalUCB(horizon=np.int64(10), noise_scale=np.float64(0.5))
    cb.Agent(env.problem, policy).save(tmp_path / "a.json")
    assert cb.Agent.load(tmp_path / "a.json").policy == cb.policies.CausalUCB(horizon=10, noise_scale=0.5)
    assert cb.Agent.load(tmp_path / "a.json", policy=policy).policy == policy


def test_paths_that_cannot_be_are_refused_with_their_name(env, tmp_path):
    agent = cb.Agent(env.problem, "c-ucb")
    with pytest.raises(StateError, match=r"Cannot save to .*missing/a\.json: No such file or directory"):
        agent.save(tmp_path / "missing" / "a.json")
    with pytest.raises(StateError, match=r"Cannot read .*a\.json: No such file"):
        cb.Agent.load(tmp_path / "a.json")
    for nothing in (None, "", 3):
        with pytest.raises(StateError, match="A path must be text"):
            agent.save(nothing)


def test_saving_through_a_link_keeps_the_link(env, tmp_path):
    agent = cb.Agent(env.problem, "c-ucb")
    agent.save(tmp_path / "real.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    agent.ask()
    agent.save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert len(cb.Agent.load(tmp_path / "real.json").pending) == 1


def test_a_forgotten_decision_is_no_longer_waited_for(env):
    agent = cb.Agent(env.problem, "c-ucb")
    decision = agent.ask()
    agent.cancel(decision.id)
    assert agent.pending == {}
    for again in (agent.cancel, lambda id: agent.tell(id, reward=1, observed=CLICK)):
        with pytest.raises(TellError, match="cancelled"):
            again(decision.id)


def test_a_problem_or_policy_of_the_wrong_kind_is_refused_on_loading(env, tmp_path):
    cb.Agent(env.problem, "c-ucb").save(tmp_path / "a.json")
    assert cb.Agent.load(tmp_path / "a.json", policy="c-ucb").policy == cb.policies.CausalUCB()
    with pytest.raises(cb.CausalBanditsError, match="must be a Problem"):
        cb.Agent.load(tmp_path / "a.json", problem=env)
    for wrong in (3, {"purpose": "Promo"}, "Promo"):
        with pytest.raises(InterventionError, match="must be a list of interventions"):
            cb.Agent(env.problem, "c-ucb").ask(eligible=wrong)


CHANGED = {
    "costs are send_time {morning: 0.02, afternoon: 0, evening: 0}, not send_time {morning: 0.02, afternoon: 0.01,": {
        "costs": {"send_time": {"morning": 0.02, "afternoon": 0.01}}
    },
    "costs are send_time {.*}, not none": {"costs": None},
    r"its limits on outcomes are nothing, not \[\['subject', \[1\], 0.8\]\]": {
        "max_probability": {"subject": {"long": 0.8}}
    },
    "it has 80 other actions, not these 44": {"max_set": 2},
    r"its manipulable is \['product', 'purpose', 'send_time'\], not \['product', 'purpose'\]": {
        "manipulable": ["product", "purpose"],
        "costs": None,
    },
    r"its parents are \[.*'send_time'\], not \['subject', 'template'\]": {"reward_parents": ["subject", "template"]},
}


@pytest.mark.parametrize("said", CHANGED)
@pytest.mark.filterwarnings("ignore:No path leads")
def test_a_file_of_another_problem_says_in_what_that_differs(said, tmp_path):
    p = cb.zoo.email_campaign().problem
    usual = {"manipulable": p.manipulable, "reward_parents": p.parents, "optional": True}
    usual["costs"] = {"send_time": {"morning": 0.02}}
    cb.Agent(cb.Problem(p.model, **usual), "c-ts(prior=beta)").save(tmp_path / "agent.json")
    with pytest.raises(StateError, match=f"belongs to another problem: .*{said}"):
        cb.Agent.load(tmp_path / "agent.json", problem=cb.Problem(p.model, **{**usual, **CHANGED[said]}))


def test_a_file_of_other_states_or_arrows_names_them(tmp_path):
    def problem(states, parents):
        table = np.full((2,) * len(parents) + (len(states),), 1 / len(states))
        x, c = (cb.Variable(n, [0, 1], table=[0.5, 0.5]) for n in "xc")
        return cb.Problem(
            cb.CausalModel([x, c, cb.Variable("z", states, parents=parents, table=table)]),
            manipulable=["x"],
            reward_parents=["z"],
            optional=True,
        )

    cb.Agent(problem([0, 1], ["x"]), "c-ucb").save(tmp_path / "agent.json")
    with pytest.raises(StateError, match=r"its states of 'z' are \[0, 1\], not \[0, 1, 2\]"):
        cb.Agent.load(tmp_path / "agent.json", problem=problem([0, 1, 2], ["x"]))
    with pytest.raises(StateError, match=r"its causes of 'z' are \['x'\], not \['x', 'c'\]"):
        cb.Agent.load(tmp_path / "agent.json", problem=problem([0, 1], ["x", "c"]))
