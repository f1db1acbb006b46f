"""Agents that learn from the past, from half-lost rewards, and under better tables; priors and intercepts."""

from __future__ import annotations

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import DataError, PolicyError, StateError, TellError
from oracles import known_to
from oracles.policies import POLICIES


@pytest.fixture(scope="module")
def env():
    return cb.zoo.email_campaign()


def history(env, n, seed=0, experiment=False):
    """Rows of all variables with clicks; with an experiment, one in three has the purpose and the time set."""
    p, rng = env.problem, np.random.default_rng(seed)
    columns = {name: [] for name in (*p.model.names, "click", "set")}
    for i in range(n):
        knobs = ["purpose", "send_time"] if experiment and i % 3 == 0 else []
        do = {name: p.model[name].states[int(rng.integers(len(p.model[name].states)))] for name in knobs}
        row = p.model.sample(1, do=do, rng=rng)
        z = p.encode_parents({name: row[name][0] for name in p.parents})
        for name in p.model.names:
            columns[name].append(row[name][0])
        columns["click"].append(float(rng.random() < env.configuration_means[p.configuration(z)]))
        columns["set"].append(",".join(knobs))
    return columns


DECIDING = {"rounds", "count", "total", "told_choices", "told_z", "told_count", "told_total", "joined", "given_up"}
"""What a guard decides by."""


@pytest.mark.filterwarnings("ignore:No outcome counts so far")  # what was left alone is not reported
@pytest.mark.parametrize("id", POLICIES)
def test_learning_from_an_experiment_is_being_told_of_it(env, id):
    """Row by row: the same statistic as of an agent that made these very decisions."""
    rows = history(env, 60, experiment=True)
    learner, told = (cb.Agent(known_to(id, env), id, seed=0) for _ in range(2))
    assert learner.learn(rows, reward="click", interventions="set").used == 60
    for i in range(60):
        do = {name: rows[name][i] for name in rows["set"][i].split(",") if name}
        decision = told.ask(eligible=[do])
        values = {name: rows[name][i] for name in env.problem.parents}
        lost = {name: None for name in told.problem.must_observe if name not in (*values, *do)}
        told.tell(decision.id, reward=rows["click"][i], observed={**values, **lost})
    kept, same = (agent._statistic.to_record() for agent in (learner, told))
    if learner.policy.traits.sequential:  # evidence is made of own decisions only
        assert (learner._statistic.witnessed, told._statistic.witnessed) == (0, 60)
        kept, same = ({key: record[key] for key in record if key in DECIDING} for record in (kept, same))
    assert kept == same
    assert learner.n_outcomes == 60


def test_without_interventions_nothing_was_set(env):
    rows = history(env, 200)
    causal, plain = (cb.Agent(env.problem, id, seed=0) for id in ("c-ts(prior=beta)", "ts(prior=beta)"))
    assert repr(causal.learn(rows, reward="click")) == "Learned from 200 of 200 rows, at trust_past 0.5."
    plain.learn(rows, reward="click")
    assert plain._statistic.count[0] == 200
    assert causal._statistic.count.sum() == 200
    assert np.count_nonzero(causal._statistic.count) > 6


def test_what_cannot_be_used_is_counted_with_its_reason(env):
    rows = history(env, 30)
    rows["click"][3] = None
    rows["subject"][5] = None
    rows["subject"][6] = None
    agent = cb.Agent(env.problem, "c-ts(prior=beta)")
    learnt = agent.learn(rows, reward="click")
    assert learnt.used == 27
    assert dict(learnt.left_out) == {"the reward is missing": 1, "a parent's value is missing": 2}
    assert "Left out 2: a parent's value is missing." in repr(learnt)
    assert cb.Agent(env.problem, "uniform").learn(rows, reward="click").used == 29


def test_rows_are_not_selected_by_their_rewards(env):
    """Buyers left out because they paid more than 1 would leave those who bought nothing."""
    rows = {**history(env, 30), "revenue": [0.0] * 27 + [None, 7.0, 12.5]}
    agent = cb.Agent(env.problem, "c-ts(prior=beta)")
    with pytest.raises(DataError, match=r"2 of 30 rows have another one in 'revenue', such as 7\. .*'c-ts'"):
        agent.learn(rows, reward="revenue")
    assert agent.n_outcomes == 0
    assert cb.Agent(env.problem, "c-ts").learn(rows, reward="revenue").used == 29
    bounded = cb.Problem(
        env.problem.model,
        manipulable=["purpose"],
        reward_parents=env.problem.parents,
        reward_range=(0, 10),
        optional=True,
    )
    with pytest.raises(DataError, match=r"declares rewards from 0 to 10; 1 of 30 .* 12\.5\. .*reward_range"):
        cb.Agent(bounded, "c-ts").learn(rows, reward="revenue")


def test_rows_that_count_twice_for_the_cpts_are_warned_of(env):
    rows = history(env, 300, experiment=True)
    graph = "purpose -> subject; {purpose, product} -> template; {subject, template, send_time} -> click"
    names = ["purpose", "product", "send_time"]
    settings = {"reward": "click", "manipulable": names, "interventions": "set", "optional": True}
    observed = {
        name: [x for x, was in zip(column, rows["set"], strict=True) if not was] for name, column in rows.items()
    }
    both, other = cb.Problem(graph, data=rows, **settings), cb.Problem(graph, data=observed, **settings)
    with pytest.warns(cb.errors.DataWarning, match=r"with 100 rows .* by the 100 rows .* count twice .*'c-ts'"):
        cb.Agent(both, "c-ts(cpts=learned)").learn(rows, interventions="set")
    for problem, policy in ((both, "c-ts"), (other, "c-ts(cpts=learned)")):  # no warning: an error in this suite
        cb.Agent(problem, policy).learn(rows, interventions="set")


def test_bad_pasts_are_refused_and_change_nothing(env):
    agent, rows = cb.Agent(env.problem, "c-ts(prior=beta)"), history(env, 5)
    with pytest.raises(cb.CausalBanditsError, match="Name the column with the rewards"):
        agent.learn(rows)
    with pytest.raises(
        DataError, match=r"column for every reward; 'clicks' has none.* Did you mean 'click'"
    ) as refused:
        agent.learn(rows, reward="clicks")
    assert "[hidden]" not in str(refused.value)  # a reward cannot be unobserved
    with pytest.raises(DataError, match="must be numbers; one of them is 'yes'"):
        agent.learn({**rows, "click": ["yes"] * 5}, reward="click")
    with pytest.raises(DataError, match="'subject', is one of the variables"):
        agent.learn(rows, reward="subject")
    with pytest.raises(DataError, match="Unknown value of 'template'"):
        agent.learn({**rows, "template": ["9"] * 5}, reward="click")
    assert agent.n_outcomes == 0


def test_a_warm_start_survives_the_file_and_corrections(env, tmp_path):
    rows = history(env, 50, experiment=True)
    rows["click"] = [y * 0.5 + 0.25 for y in rows["click"]]  # coins are flipped
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=0)
    agent.learn(rows, reward="click", interventions="set")
    decision = agent.ask()
    seen = env.pull(decision.action, 0)
    agent.tell(decision.id, reward=1, observed=seen.parents)
    agent.save(tmp_path / "agent.json")
    loaded = cb.Agent.load(tmp_path / "agent.json")
    for one in (agent, loaded):
        one.correct(decision.id, reward=0, observed=seen.parents)
        one.learn(rows, reward="click")
    assert loaded._replay_if_stale().to_record() == agent._replay_if_stale().to_record()
    assert len({outcome.number for outcome in agent._outcomes}) == agent.n_outcomes == 101


def test_a_past_in_which_what_must_be_set_was_left_alone_teaches_about_configurations(env, tmp_path):
    p = env.problem
    problem = cb.Problem(
        p.model,
        manipulable=p.manipulable,
        reward_parents=p.parents,
        optional=[name for name in p.manipulable if name not in ["purpose"]],
    )
    causal, *others = (cb.Agent(problem, id, seed=0) for id in ("c-ts(prior=beta)", "ts(prior=beta)", "hac-ucb"))
    rows = history(env, 40)
    assert causal.learn(rows, reward="click").used == 40
    for plain in others:  # both learn about actions, too
        assert dict(plain.learn(rows, reward="click").left_out) == {
            "the intervention is not an action of this problem": 40
        }
    causal.save(tmp_path / "agent.json")
    assert cb.Agent.load(tmp_path / "agent.json").n_outcomes == 40


@pytest.mark.parametrize("id", POLICIES)
def test_a_reward_whose_parents_were_lost_teaches_those_who_need_only_the_action(env, id):
    agent = cb.Agent(known_to(id, env), id, seed=0)
    decision = agent.ask()
    if agent.policy.traits.needs_parents:
        with pytest.raises(TellError, match=r"estimates the mean reward given subject, template, send_time, and needs"):
            agent.tell(decision.id, reward=1)
        assert (agent.n_outcomes, list(agent.pending)) == (0, [0])
        return
    other = cb.Agent(env.problem, id, seed=0)
    other.ask()
    agent.tell(decision.id, reward=1)
    other.tell(0, reward=1, observed=env.pull(decision.action, 0).parents)
    assert agent._statistic.to_record() == other._statistic.to_record()
    assert not id.startswith("c-")


@pytest.mark.parametrize("id", ["c-ts(prior=beta)", "cl-ts", "cl-ucb(regressor=observed)", "ucb"])
def test_better_tables_for_a_running_agent_keep_its_rewards(env, tmp_path, id):
    """As if it had been told under these tables from the start."""
    p = env.problem
    rough = p.with_model(cb.fit(p.model, p.model.sample(100, rng=0)))
    agent = cb.Agent(rough, id, seed=0, zero_probability="allow")
    rng = np.random.default_rng(0)
    rounds = []
    for _ in range(50):
        decision = agent.ask()
        seen = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
        rounds.append((decision.action, seen))
    agent.save(tmp_path / "agent.json")
    better = cb.Agent.load(tmp_path / "agent.json", problem=p)
    afresh = cb.Agent(p, id, zero_probability="allow")
    for do, seen in rounds:
        afresh.tell(afresh.ask(eligible=[do]).id, reward=seen.reward, observed=seen.parents)
    assert better.n_outcomes == 50
    assert better._replay_if_stale().to_record() == afresh._statistic.to_record()
    assert better.problem is p
    narrowed = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, max_set=1)
    with pytest.raises(StateError, match="belongs to another problem"):
        cb.Agent.load(tmp_path / "agent.json", problem=narrowed)


def test_a_prior_for_low_rates(env):
    """Before anything is seen the means are as the prior says; with the uniform one, twelve times as hopeful."""
    low = cb.policies.CausalThompsonSampling(prior="beta", successes=2, failures=50)
    assert cb.Agent(env.problem, low).recommend().mean == pytest.approx(2 / 52)
    assert (
        cb.Agent(env.problem, low).recommend().assumes == "independent Beta(2, 50) priors on the configurations' means"
    )
    agents = [cb.Agent(env.problem, policy, seed=0) for policy in ("c-ts(prior=beta)", low)]
    for agent in agents:  # a hundred mails, of which none was clicked
        for decision in agent.ask(100):
            agent.tell(decision.id, reward=0, observed=env.pull(decision.action, decision.id).parents)
    assert agents[1].recommend().mean < 0.04 < 0.5 * agents[0].recommend().mean
    for wrong in ({"successes": 0}, {"failures": -1}, {"prior": "gaussian", "successes": 2}):
        with pytest.raises(PolicyError):
            cb.policies.CausalThompsonSampling(**{"prior": "beta", **wrong})


def test_an_intercept_is_a_constant_feature(env):
    """The same decisions as with the constant written by hand, for additive features and for joint ones."""

    def joint(s, t, w):
        return [s == "short", t == "1"]

    for features, by_hand in ((None, lambda *z: [1, *_indicators(env, z)]), (joint, lambda *z: [1, *joint(*z)])):
        given = cb.policies.CausalLinearThompsonSampling(features=features, intercept=True)
        hand = cb.policies.CausalLinearThompsonSampling(features=by_hand)
        run = cb.simulate(env, {"given": given, "hand": hand}, horizon=200, replications=2)
        assert run.regret("given") == pytest.approx(run.regret("hand"), abs=1e-9)
    with pytest.raises(PolicyError, match="intercept must be True or False"):
        cb.policies.CausalLinearUCB(intercept=1)


def _indicators(env, z):
    for name, value in zip(env.problem.parents, z, strict=True):
        yield from (value == state for state in env.problem.model[name].states)


def test_an_intercept_mends_an_affine_reward():
    env = cb.zoo.figure2()
    shifted = cb.Environment(
        env.problem, cb.rewards.LinearReward([5, 0.25, 0.25, -0.25, -0.25], lambda *w: [1, *w], sd=0.1)
    )
    policies = {
        "without": cb.policy("cl-ts", regressor="observed", prior_scale=5),
        "with": cb.policy("cl-ts", regressor="observed", prior_scale=5, intercept=True),
    }
    final = {r.policy: r.mean for r in cb.simulate(shifted, policies, horizon=800, replications=4).summary()}
    assert final["with"] < 0.3 * final["without"]


def test_rewards_that_would_overflow_are_refused_at_once(env):
    agent = cb.Agent(env.problem, "c-ucb", seed=0)
    decision = agent.ask()
    parents = env.pull(decision.action, 0).parents
    for reward in (1e308, -1e200, 10**400):
        with pytest.raises(TellError, match=r"of size 1e\+150 at most; got"):
            agent.tell(decision.id, reward=reward, observed=parents)
    assert agent.n_outcomes == 0


def left_alone_is_another_thing():
    """A cause of both x and the reward: where x is left alone, z tells of it, and rows name the worse action."""
    return cb.CausalModel(
        [
            cb.Variable("u", [0, 1], table=[0.5, 0.5]),
            cb.Variable("x", [0, 1], parents=["u"], table=[[0.95, 0.05], [0.05, 0.95]]),
            cb.Variable("z", [0, 1], parents=["x"], table=[[0.9, 0.1], [0.1, 0.9]]),
            cb.Variable("y", [0, 1], parents=["z", "u"], table=[[[0.2, 0.8], [0.9, 0.1]], [[0.1, 0.9], [0.8, 0.2]]]),
        ]
    )


@pytest.mark.parametrize("hides", [False, True])
def test_rows_left_alone_teach_nothing_where_only_what_is_always_set_makes_parents_separate(hides):
    model = left_alone_is_another_thing()
    known = cb.LatentModel.from_model(model, hidden=["u"]) if hides else model
    problem = cb.Problem(known, manipulable=["x"], reward_parents=["z"], reward="y", optional=False)
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=0)
    rows = {name: column.tolist() for name, column in model.sample(400, rng=1).items() if name != "u"}
    learnt = agent.learn(rows)
    assert (learnt.used, agent.n_outcomes) == (0, 0)
    assert "without an intervention on x, the mean reward given the parents is different" in str(learnt)
    assert "use interventions= to state which variables were set" in str(learnt)
    for x in (0, 1):
        rows = {name: own.tolist() for name, own in model.sample(3000, do={"x": x}, rng=x).items() if name != "u"}
        assert agent.learn(rows | {"set": ["x"] * 3000}, interventions="set").used == 3000
    best = agent.recommend()
    assert best.intervention == {"x": 1}
    assert best.mean == pytest.approx(0.54, abs=0.03)


def test_rows_left_alone_teach_where_parents_separate_without_what_is_always_set():
    model = cb.CausalModel([v for v in left_alone_is_another_thing().variables.values() if v.name != "y"])
    model = cb.CausalModel([*model.variables.values(), cb.Variable("y", [0, 1], parents=["z"], table=[[0.5, 0.5]] * 2)])
    known = cb.LatentModel.from_model(model, hidden=["u"])
    agent = cb.Agent(
        cb.Problem(known, manipulable=["x"], reward_parents=["z"], reward="y", optional=False),
        "c-ts(prior=beta)",
        seed=0,
    )
    assert agent.learn({"z": [0, 1, 1], "y": [1, 0, 1]}).used == 3


def test_rows_in_which_something_else_than_a_knob_was_set_are_left_out():
    """A hidden cause of z and y: given x and z, the reward is another where z was set."""
    model = cb.CausalModel(
        [
            cb.Variable("h", [0, 1], table=[0.5, 0.5]),
            cb.Variable("x", [0, 1], table=[0.5, 0.5]),
            cb.Variable("z", [0, 1], parents=["x", "h"], table=[[[0.9, 0.1], [0.5, 0.5]], [[0.4, 0.6], [0.1, 0.9]]]),
            cb.Variable("y", [0, 1], parents=["z", "h"], table=[[[0.2, 0.8], [0.9, 0.1]], [[0.1, 0.9], [0.8, 0.2]]]),
        ]
    )
    problem = cb.Problem(
        cb.LatentModel.from_model(model, hidden=["h"]),
        manipulable=["x"],
        reward_parents=["x", "z"],
        reward="y",
        optional=True,
    )
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=0)
    rows = {"x": [0, 1, 1, 0], "z": [0, 1, 0, 1], "y": [1, 0, 1, 0], "set": ["z", "x", "x,z", "y"]}
    left_out = dict(agent.learn(rows, interventions="set").left_out)
    assert left_out == {
        "z was set, but is not a manipulable variable of this problem": 2,
        "y was set, but is not a manipulable variable of this problem": 1,
    }
    assert agent.n_outcomes == 1
