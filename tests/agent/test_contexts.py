"""An agent that is told what is known before it decides."""

from __future__ import annotations

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, PolicyError, TellError
from causalbandits.policies.feedback import OutcomeSums
from oracles import played_compiled
from oracles.policies import POLICIES

SEGMENTS = ["new", "regular", "lapsed"]


def campaign(*, in_reward: bool = False) -> cb.Problem:
    """A purpose and a tone lead to a subject line, of which every segment makes something else."""
    rng = np.random.default_rng(1)
    model = cb.CausalModel(
        [
            cb.Variable("segment", SEGMENTS, table=[0.5, 0.3, 0.2]),
            cb.Variable("purpose", ["promo", "care", "news"], table=[0.4, 0.3, 0.3]),
            cb.Variable("tone", ["warm", "dry"], table=[0.5, 0.5]),
            cb.Variable(
                "subject", ["short", "long"], parents=["purpose", "segment"], table=rng.dirichlet([1, 1], (3, 3))
            ),
            cb.Variable("picture", ["yes", "no"], parents=["tone", "segment"], table=rng.dirichlet([1, 1], (2, 3))),
        ]
    )
    parents = ["subject", "picture", *(["segment"] if in_reward else [])]
    knobs = ["purpose", "tone"]
    return cb.Problem(model, manipulable=knobs, reward_parents=parents, context=["segment"], optional=True)


MEANS = np.array([[0.1, 0.8], [0.6, 0.3]])


def happen(problem, decision, context, rng):
    """The parents, and a reward, after a decision in a context."""
    view = problem.condition(context)
    z = np.unravel_index(
        rng.choice(
            problem.configurations, p=view.parent_distribution(problem.actions.index(decision.action)).reshape(-1)
        ),
        problem.shape,
    )
    return problem.decode_parents([int(c) for c in z]), float(rng.random() < MEANS[z[0], z[1]])


def conversation(agent, rounds, seed=0, *, log=None):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        context = {"segment": SEGMENTS[int(rng.integers(3))]}
        decision = agent.ask(context=context)
        parents, reward = happen(agent.problem, decision, context, rng)
        agent.tell(decision.id, reward=reward, observed=parents)
        if log is not None:
            log.append((context["segment"], repr(decision.action)))
    return agent


@pytest.mark.parametrize("in_reward", [False, True])
@pytest.mark.parametrize("id", POLICIES)
def test_every_policy_decides_in_a_context_and_goes_on_from_a_file(id, in_reward, tmp_path):
    problem = campaign(in_reward=in_reward)
    problem = problem.without_cpts() if cb.policy(id).traits.learns_cpts else problem
    whole, log = conversation(cb.Agent(problem, id, seed=5), 40), []
    conversation(whole, 20, 7, log=log)
    half, again = conversation(cb.Agent(problem, id, seed=5), 40), []
    half.save(tmp_path / "agent.json")
    conversation(cb.Agent.load(tmp_path / "agent.json"), 20, 7, log=again)
    assert log == again


ORDERED = ("c-elimination",)
"""What it keeps depends on when outcomes came."""


@pytest.mark.parametrize("id", [id for id in played_compiled() if id not in ORDERED])
def test_what_was_learnt_is_a_fold_of_outcomes_and_of_their_sums(id):
    problem = campaign()
    agent = conversation(cb.Agent(problem, id, seed=5), 60)
    policy, outcomes = agent.policy, list(agent._outcomes)
    assert {outcome.context for outcome in outcomes} == {(0,), (1,), (2,)}
    summed = policy.from_sums(problem, OutcomeSums.of(outcomes))
    for name, value in summed.to_record().items():
        np.testing.assert_allclose(value, agent._statistic.to_record()[name], atol=1e-9)
    agent.correct(3, reward=0.0, observed={"subject": "short", "picture": "no"})
    parents, reward = _told(outcomes[3], problem)
    agent.correct(3, reward=reward, observed=parents)
    np.testing.assert_allclose(agent._replay_if_stale().to_record()[name], summed.to_record()[name], atol=1e-9)


def _told(outcome, problem):
    return problem.decode_parents(outcome.z), outcome.reward


def test_causal_policies_share_what_they_learn_and_baselines_keep_a_number_for_each_context():
    problem = campaign()
    causal, plain = (conversation(cb.Agent(problem, id, seed=0), 30) for id in ("c-ucb", "ucb"))
    assert causal._statistic.count.shape == (4,)
    assert plain._statistic.count.shape == (3 * problem.actions.size,)
    by_context = plain._statistic.count.reshape(3, -1).sum(axis=1)
    assert by_context.tolist() == [sum(o.context == (c,) for o in plain._outcomes) for c in range(3)]


def test_a_baseline_in_a_context_is_the_one_that_never_saw_another():
    problem = campaign()
    alone = problem.condition({"segment": "regular"})
    policy = cb.policies.UCB(horizon=100)  # without one, time would count, which they do not share
    both, one = cb.Agent(problem, policy, seed=3), cb.Agent(alone, policy, seed=3)
    rng = np.random.default_rng(0)
    for t in range(60):
        context = {"segment": "regular" if t % 2 else "new"}
        decision = both.ask(context=context)
        if t % 2:
            assert decision.action == one.ask().action
        parents, reward = happen(problem, decision, context, rng)
        both.tell(decision.id, reward=reward, observed=parents)
        if t % 2:
            one.tell(one._next_id - 1, reward=reward, observed=parents)


def test_a_baseline_needs_the_whole_context_and_says_so():
    agent = cb.Agent(campaign(), "ts(prior=beta)", seed=0)
    with pytest.raises(PolicyError, match=r"'ts\(prior=beta\)' learns a mean for every action in every context,"):
        agent.ask()
    assert cb.Agent(campaign(), "c-ts(prior=beta)", seed=0).ask()
    with pytest.raises(PolicyError, match="needs the whole context"):
        agent.recommend()


@pytest.mark.parametrize("id", ["c-ucb", "c-ts(prior=beta)"])
def test_scores_in_a_context_are_means_under_its_own_distribution(id):
    problem = campaign(in_reward=True)
    agent = conversation(cb.Agent(problem, id, seed=1), 50)
    for segment in SEGMENTS:
        situation = problem.situation(context={"segment": segment}, every=True)
        index = agent.policy.index(agent._statistic.subset(situation.cells), np.random.default_rng(2))
        whole = np.full(problem.configurations, 1e6)  # what does not agree must not count
        whole[situation.cells] = index
        rows = problem.condition({"segment": segment}).parent_distributions().reshape(situation.size, -1)
        scores = agent.policy.score(situation, agent._statistic, np.random.default_rng(2))
        np.testing.assert_allclose(scores.values, rows @ whole, atol=1e-9)


def test_known_parents_may_be_left_out_and_must_agree():
    agent = cb.Agent(campaign(in_reward=True), "c-ts(prior=beta)", seed=0)
    ids = [agent.ask(context={"segment": "lapsed"}).id for _ in range(3)]
    agent.tell(ids[0], reward=1, observed={"subject": "short", "picture": "no"})
    agent.tell(ids[1], reward=1, observed={"subject": "short", "picture": "no", "segment": "lapsed"})
    assert len({outcome.z for outcome in agent._outcomes}) == 1
    with pytest.raises(TellError, match="'segment' was 'lapsed' in the context of the decision; observed has 'new'"):
        agent.tell(ids[2], reward=1, observed={"subject": "short", "picture": "no", "segment": "new"})
    with pytest.raises(TellError, match="The outcome lacks 'segment': "):
        agent.tell(agent.ask().id, reward=1, observed={"subject": "short", "picture": "no"})
    assert agent.n_outcomes == 2


def test_decisions_that_wait_know_their_context(tmp_path):
    problem = campaign()
    agent = cb.Agent(problem, "ucb", seed=0)
    one, other = (agent.ask(context={"segment": segment}).id for segment in ("new", "lapsed"))
    agent.tell(one, reward=1, observed={"subject": "short", "picture": "no"})
    agent.retract(one)
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json", problem=problem)
    for id in (other, one):
        again.tell(id, reward=1, observed={"subject": "long", "picture": "no"})
    assert [outcome.context for outcome in again._outcomes] == [(2,), (0,)]
    assert again._statistic.count.reshape(3, -1).sum(axis=1).tolist() == [1, 0, 1]


def test_eligible_actions_in_a_context_are_decided_by_its_scores():
    problem = campaign()
    agent = conversation(cb.Agent(problem, "c-ucb", seed=0), 200)
    some = [{"purpose": "promo"}, {"purpose": "care"}, {"tone": "dry"}]
    for segment in SEGMENTS:
        situation = problem.situation(context={"segment": segment}, every=True)
        scores = agent.policy.score(situation, agent._statistic, np.random.default_rng(0)).values
        best = max(some, key=lambda do: scores[problem.actions.index(do)])
        for eligible in (some, lambda do: dict(do) in some):
            assert agent.ask(context={"segment": segment}, eligible=eligible).action == best


def test_recommendations_are_one_for_each_context_the_likeliest_first():
    problem = campaign()
    agent = conversation(cb.Agent(problem, "c-ts(prior=beta)", seed=0), 3000)
    found = agent.recommendations()
    assert [(share, r.context["segment"]) for share, r in found] == [(0.5, "new"), (0.3, "regular"), (0.2, "lapsed")]
    for _, recommended in found:
        assert recommended == agent.recommend(context=recommended.context)
        rows = problem.condition(recommended.context).parent_distributions().reshape(problem.actions.size, -1)
        means = rows @ MEANS.reshape(-1)
        true = means[problem.actions.index(recommended.intervention)]
        assert true >= means.max() - 0.02
        assert recommended.lower < true < recommended.upper
    assert repr(found).startswith("Share of decisions: 50.0%\n  Context: segment=new\n  Action: do(")
    assert agent.recommend().context == {}
    with pytest.raises(CausalBanditsError, match="confidence"):
        agent.recommendations(confidence=2.0)


def test_a_problem_without_context_has_one_recommendation():
    agent = cb.Agent(cb.zoo.email_campaign().problem, "c-ts(prior=beta)", seed=0)
    ((share, only),) = agent.recommendations()
    assert share == 1.0
    assert only == agent.recommend()


def test_intervals_carry_what_fitted_tables_leave_uncertain_in_the_context():
    exact = campaign()
    rows = exact.model.sample(60, rng=0)
    graph = {name: list(v.parents) for name, v in exact.model.variables.items()}
    fitted = cb.fit(
        graph,
        {k: v.tolist() for k, v in rows.items()},
        values={name: v.states for name, v in exact.model.variables.items()},
    )
    guess = exact.with_model(fitted)
    known = cb.CausalModel(fitted.variables.values())
    context = {"segment": "lapsed"}
    one, other = (conversation(cb.Agent(p, "c-ts(prior=beta)", seed=2), 2000) for p in (guess, exact.with_model(known)))
    wide, narrow = (agent.recommend(context=context) for agent in (one, other))
    assert wide.upper - wide.lower > 2 * (narrow.upper - narrow.lower)


def test_contexts_that_cannot_occur_are_refused_unless_accepted():
    model = cb.CausalModel(
        [
            cb.Variable("c", [0, 1, 2], table=[0.5, 0.5, 0.0]),
            cb.Variable("x", [0, 1], table=[0.5, 0.5]),
            cb.Variable("z", [0, 1], parents=["x", "c"], table=np.random.default_rng(0).dirichlet([1, 1], (2, 3))),
        ]
    )
    problem = cb.Problem(model, manipulable=["x"], reward_parents=["z"], context=["c"], optional=True)
    with pytest.raises(CausalBanditsError, match=r"gives the context {'c': 2} probability 0\."):
        cb.Agent(problem, "c-ucb").ask(context={"c": 2})
    agent = cb.Agent(problem, "c-ucb", zero_probability="allow")
    agent.tell(agent.ask(context={"c": 2}).id, reward=0.5, observed={"z": 1})
    assert agent.n_outcomes == 1


def test_the_past_teaches_each_context_its_own():
    problem = campaign()
    past = {name: column.tolist() for name, column in problem.model.sample(200, do={"purpose": "care"}, rng=0).items()}
    past["paid"] = np.random.default_rng(0).random(200).tolist()
    interventions = {"purpose": [True] * 200}
    ucb, causal = cb.Agent(problem, "ucb"), cb.Agent(problem, "c-ucb")
    assert ucb.learn(past, reward="paid", interventions=interventions).used == 200
    counts = ucb._statistic.count.reshape(3, -1)
    assert counts.sum(axis=1).tolist() == [past["segment"].count(segment) for segment in SEGMENTS]
    assert set(np.flatnonzero(counts.sum(axis=0))) == {problem.actions.index({"purpose": "care"})}
    without = {name: column for name, column in past.items() if name != "segment"}
    assert causal.learn(without, reward="paid", interventions=interventions).used == 200
    gaps = {**past, "segment": [None, *past["segment"][1:]]}
    learnt = cb.Agent(problem, "ucb").learn(gaps, reward="paid", interventions=interventions)
    assert learnt.left_out == {"a value of the context is missing": 1}


def test_better_tables_for_a_running_agent_keep_its_contexts(tmp_path):
    problem = campaign()
    agent = conversation(cb.Agent(problem, "cl-ts", seed=0), 30)
    agent.save(tmp_path / "agent.json")
    v = problem.model["subject"]
    better = cb.CausalModel(
        [
            cb.Variable("subject", v.states, parents=v.parents, table=v.table[::-1]) if name == "subject" else own
            for name, own in problem.model.variables.items()
        ]
    )
    again = cb.Agent.load(tmp_path / "agent.json", problem=problem.with_model(better))
    fresh = again.policy.from_sums(again.problem, OutcomeSums.of(agent._outcomes))
    np.testing.assert_allclose(again._replay_if_stale().theta(), fresh.theta(), atol=1e-9)
    assert not np.allclose(agent._statistic.theta(), fresh.theta())


def test_a_context_is_worked_out_once():
    problem = campaign()
    for segment in SEGMENTS:
        situation = problem.situation(context={"segment": segment})
        assert problem.situation(context={"segment": segment}) is situation
        assert problem.condition_codes(situation.context_codes).situation() is situation
