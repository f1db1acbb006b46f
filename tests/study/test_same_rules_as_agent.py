"""What an agent keeps to, a study keeps to as well: budgets, what is required, the guard, learnt tables, contexts."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import BudgetError, CausalBanditsError, ConflictError, PolicyError, ProblemWarning, TellError
from causalbandits.problem.budget import Budget
from oracles.environments import with_arrow

PRICES = {"product": 0.05, "purpose": 0.08, "send_time": {"morning": 0.02}}


def priced(env: cb.Environment, **keywords: Any) -> cb.Environment:
    p = env.problem
    problem = cb.Problem(
        p.model,
        manipulable=p.manipulable,
        reward_parents=p.parents,
        costs=PRICES,
        context=p.context,
        **keywords,
        optional=True,
    )
    return cb.Environment(problem, env.reward)


EMAIL, SEGMENTS = priced(cb.zoo.email_campaign()), priced(cb.zoo.email_segments())


def new(folder: Path, env: cb.Environment, policy: Any = "c-ts(prior=beta)", **rules: Any) -> cb.Study:
    return cb.Study.create(folder / "study.db", env.problem, policy, **{"seed": 1, **rules})


def play(study: cb.Study, env: cb.Environment, rounds: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    with study.together():
        for _ in range(rounds):
            known = env.draw_context(rng) if env.problem.context else None
            decision = study.ask(context=known)
            seen = env.pull(decision.action, rng, context=known)
            study.tell(decision.id, reward=seen.reward, observed=seen.parents)


def spent_by_hand(study: cb.Study) -> float:
    rows = study._log.decisions("status <> 'cancelled'")
    return float(sum(study.problem.cost(row.choice.action) for row in rows))


@pytest.mark.parametrize(
    ("env", "policy"),
    [(EMAIL, "c-ts(prior=beta)"), (EMAIL, "c-ucb"), (SEGMENTS, "c-ts(prior=beta)")],
    ids=["ts", "ucb", "contexts"],
)
def test_a_budget_lasts_to_its_last_round_and_every_decision_comes_out_again(
    tmp_path: Path, env: cb.Environment, policy: str
) -> None:
    with new(tmp_path, env, policy, budget=Budget(5, rounds=150)) as study:
        play(study, env, 150)
        assert study.budget is not None
        assert study.budget.spent == pytest.approx(spent_by_hand(study))
        assert 4 < study.budget.spent <= 5
        assert study.budget.rounds_left == 0
        with pytest.raises(BudgetError, match="All 150 rounds"):
            study.ask(context=None if not env.problem.context else {"segment": "new"})
        assert study.n_decisions == 150
        assert all(study.replay(k) for k in range(0, 150, 7))
        assert study.recommend().allowance == pytest.approx(5 / 150)
        before = study.budget
    with cb.Study.open(tmp_path / "study.db") as again:
        assert again.budget == before


def test_what_is_forgotten_is_given_back_what_expired_is_not_and_every_process_knows(tmp_path: Path) -> None:
    now = [0.0]
    rules = {"budget": Budget(1, rounds=8), "attribution_window": 60, "default_reward": 0, "clock": lambda: now[0]}
    with new(tmp_path, EMAIL, **rules) as one, cb.Study.open(tmp_path / "study.db", clock=lambda: now[0]) as two:
        dear = [{"product": "Photoshop", "purpose": "Promo"}]
        ids = [asker.ask(eligible=dear).id for asker in (one, two, one)]
        assert one.budget == two.budget
        assert one.budget is not None
        assert one.budget.spent == pytest.approx(0.39)
        two.cancel(ids[0])
        two.cancel(ids[0])
        assert one.budget == two.budget
        assert one.budget.spent == pytest.approx(0.26)
        assert one.tell(ids[0], reward=1).status == "late"  # it was carried out after all
        assert two.budget is not None
        assert two.budget.spent == pytest.approx(0.39)
        one.retract(ids[0])
        assert two.budget.spent == pytest.approx(0.39)
        two.cancel(ids[0])
        now[0] = 61.0
        assert one.expire() == 2
        assert one.budget == two.budget
        assert one.budget.spent == pytest.approx(0.26)
        assert all(one.replay(k) for k in range(3))
        assert one.verify()
        with cb.Study.open(tmp_path / "study.db") as three:
            assert three.budget == one.budget


def test_several_decisions_are_made_together_or_not_at_all(tmp_path: Path) -> None:
    dear = [{"product": "Photoshop", "purpose": "Promo"}]
    with new(tmp_path, EMAIL, budget=Budget(0.5, rounds=5)) as study:
        with study.together():
            assert [one.number for one in study.ask(2, eligible=dear)] == [0, 1]
            with pytest.raises(BudgetError):
                study.ask(3, eligible=dear)
        assert study.n_decisions == 2
        with pytest.raises(BudgetError, match="3 more rounds"):
            study.ask(4)
        assert study.budget is not None
        assert study.budget.spent == pytest.approx(0.26)
        with pytest.raises(CausalBanditsError, match="must be an integer"):
            study.ask(0)


SPENDER = """
import sys, causalbandits as cb
from causalbandits.errors import BudgetError
study, n = cb.Study.open(sys.argv[1]), 0
while True:
    try:
        decision = study.ask()
    except BudgetError:
        break
    n += 1
    if n % 7 == 0:
        study.cancel(decision.id)
print(n)
"""


def test_processes_that_spend_at_once_never_overspend(tmp_path: Path) -> None:
    with new(tmp_path, EMAIL, budget=Budget(3, rounds=90)) as study:
        command = [sys.executable, "-c", textwrap.dedent(SPENDER), str(tmp_path / "study.db")]
        spenders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        made = [int(spender.communicate(timeout=120)[0]) for spender in spenders]
        assert study.n_decisions == sum(made) >= 90
        assert study.budget is not None
        assert study.budget.rounds_left == 0
        assert spent_by_hand(study) == pytest.approx(study.budget.spent)
        assert study.budget.spent <= 3
        assert all(study.replay(k) for k in range(0, study.n_decisions, 9))


def test_a_budget_that_cannot_be_kept_to_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="the costs of actions"):
        cb.Study.create(tmp_path / "a.db", cb.zoo.email_campaign().problem, "c-ts(prior=beta)", budget=Budget(1, 2))
    with pytest.raises(PolicyError):
        new(tmp_path, EMAIL, "c-ids(prior=beta)", budget=Budget(1, 2))
    with pytest.raises(BudgetError, match="min_propensity"):
        new(tmp_path, EMAIL, "c-ucb", budget=Budget(1, 2), min_propensity=0.1)
    with pytest.raises(BudgetError, match="must be a Budget"):
        new(tmp_path, EMAIL, budget=3)
    assert not list(tmp_path.iterdir())
    with new(tmp_path, EMAIL, budget=Budget(1, 20)) as study:
        with pytest.raises(PolicyError):
            study.use("c-ids(prior=beta)")
        assert study.policy.id == "c-ts(prior=beta)"


HARM = [[[0.99, 0.01], [0.99, 0.01]], [[0.95, 0.05], [0.5, 0.5]]]


def trial(**keywords: Any) -> cb.Environment:
    model = cb.CausalModel(
        [
            cb.Variable("age", ["young", "old"], table=[0.7, 0.3]),
            cb.Variable("dose", ["low", "high"], table=[0.5, 0.5]),
            cb.Variable("harm", ["no", "yes"], parents=["dose", "age"], table=HARM),
            cb.Variable("relief", ["no", "yes"], parents=["dose"], table=[[0.8, 0.2], [0.2, 0.8]]),
        ]
    )
    problem = cb.Problem(
        model,
        manipulable=["dose"],
        reward_parents=["relief"],
        max_probability={"harm": {"yes": 0.1}},
        context=["age"],
        **keywords,
        optional=True,
    )
    return cb.Environment(problem, cb.rewards.BernoulliReward([0.1, 0.9]))


def test_what_is_required_in_a_context_is_kept_to_in_every_mode(tmp_path: Path) -> None:
    env = trial()
    with new(tmp_path, env, cb.policy("c-ts", prior="beta", samples=8), min_propensity=0.5) as study:
        for mode in ("online", "uniform", "frozen"):
            study.set_mode(mode)
            for _ in range(20):
                assert study.ask(context={"age": "old"}).action.get("dose") != "high"
            assert "high" in {study.ask(context={"age": "young"}).action.get("dose") for _ in range(20)}
        study.set_mode("shadow", baseline={"dose": "high"})
        assert study.ask(context={"age": "young"}).action == {"dose": "high"}
        with pytest.raises(CausalBanditsError, match="is not eligible in this request"):
            study.ask(context={"age": "old"})
        assert all(study.replay(k) for k in range(0, study.n_decisions, 5))


def test_what_was_warned_of_when_it_was_decided_is_not_warned_of_when_it_is_derived_again(tmp_path: Path) -> None:
    unknown = trial().problem.without_cpts()
    with cb.Study.create(tmp_path / "s.db", unknown, "c-ts(prior=beta, cpts=learned)", seed=1) as study:
        with pytest.warns(ProblemWarning, match="No action satisfies"):
            decision = study.ask()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert study.replay(decision.id)
            assert study.explain(decision.id)["comes_out_again"]
            study.report()


@pytest.mark.parametrize("id", ["c-ts(prior=beta, cpts=learned)", "c-ts-guarded(prior=beta)", "hac-ucb"])
def test_several_questions_in_a_row_from_two_processes_come_out_again(tmp_path: Path, id: str) -> None:
    env = cb.zoo.email_campaign()
    problem = env.problem.without_cpts() if "learned" in id else env.problem
    rng = np.random.default_rng(0)
    with cb.Study.create(tmp_path / "s.db", problem, id, seed=1) as one, cb.Study.open(tmp_path / "s.db") as two:
        for _ in range(8):
            decisions = [asker.ask() for asker in (one, two, one, two)]
            for decision in reversed(decisions):
                seen = env.pull(decision.action, rng)
                two.tell(decision.id, reward=seen.reward, observed=seen.parents)
        assert json.dumps(one.statistic.to_record()) == json.dumps(two.statistic.to_record())
        assert all(one.replay(k) and two.replay(k) for k in range(32))


def test_a_guard_in_a_study_notices_what_an_agents_guard_notices(tmp_path: Path) -> None:
    env = with_arrow("product", 0.3)
    belief, rng = cb.zoo.email_campaign().problem, np.random.default_rng(3)
    with cb.Study.create(tmp_path / "s.db", belief, "c-ts-guarded(prior=beta)", seed=2) as study:
        with study.together():
            for _ in range(300):
                decision = study.ask()
                seen = env.pull(decision.action, rng)
                parents = {name: seen.parents[name] for name in belief.parents}
                study.tell(decision.id, reward=seen.reward, observed=parents)
        evidence = study.evidence()
        assert evidence.alarms
        assert any(str(alarm) in caveat for alarm in evidence.alarms for caveat in study.recommend().caveats)
        assert study.replay(299)


def test_tables_are_learnt_in_a_study_as_by_an_agent(tmp_path: Path) -> None:
    env = cb.zoo.email_campaign()
    rng, unknown = np.random.default_rng(1), env.problem.without_cpts()
    with cb.Study.create(tmp_path / "s.db", unknown, "c-ts(prior=beta, cpts=learned)", seed=1) as study:
        agent = cb.Agent(unknown, "c-ts(prior=beta, cpts=learned)", seed=1)
        for _ in range(60):
            decision = study.ask()
            twin = agent.ask(eligible=[decision.action])
            seen = env.pull(decision.action, rng)
            study.tell(decision.id, reward=seen.reward, observed=seen.parents)
            agent.tell(twin.id, reward=seen.reward, observed=seen.parents)
        for name in unknown.model.names:
            assert np.allclose(study.model[name].table, agent.model[name].table)
        assert study.check().findings == agent.check().findings


def test_contexts_have_decisions_and_recommendations_of_their_own(tmp_path: Path) -> None:
    env = cb.zoo.email_segments()
    with new(tmp_path, env, cb.policy("c-ts", prior="beta", samples=8), min_propensity=0.1) as study:
        play(study, env, 120)
        shares = [share for share, _ in study.recommendations()]
        assert sum(shares) == pytest.approx(1)
        assert {one.context["segment"] for _, one in study.recommendations()} == set(
            env.problem.model["segment"].states
        )
        assert all(study.replay(k) for k in range(0, 120, 11))
        study.ask(context={"segment": "new"}, key="a")
        with pytest.raises(ConflictError):
            study.ask(context={"segment": "lapsed"}, key="a")


@pytest.mark.parametrize("id", ["c-ts(prior=beta)", "c-ucb", "ts(scales=given)", "c-ts(scales=given)"])
def test_a_study_doubts_what_an_agent_doubts(tmp_path: Path, id: str) -> None:
    wrong, factor = with_arrow("product", 0.4), 8.0 if "scales=given" in id else 1.0
    belief, rng = cb.zoo.email_campaign().problem, np.random.default_rng(3)
    agent = cb.Agent(belief, id, seed=1)
    with cb.Study.create(tmp_path / "s.db", belief, id, seed=1) as study, study.together(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(250):
            do = {knob: str(rng.choice(belief.model[knob].states)) for knob in belief.manipulable}
            seen = wrong.pull(do, rng)
            parents = {name: seen.parents[name] for name in belief.parents}
            for one in (agent, study):
                one.tell(one.ask(eligible=[do]).id, reward=seen.reward * factor, observed=parents)
        ours, theirs = study.recommend().caveats, agent.recommend().caveats
    assert theirs
    if factor == 1.0:
        assert ours == theirs
    else:  # of such rewards the statistic has the means alone, and another test
        claims = [{text.split(" (p-value")[0] for text in texts} for texts in (ours, theirs)]
        assert claims[0] <= claims[1]
        scales = [[text for text in texts if "have a standard deviation of" in text] for texts in (theirs, ours)]
        assert scales[0] == scales[1] != []


def test_an_agents_user_changes_one_line(tmp_path: Path) -> None:
    env = cb.zoo.email_campaign()
    graph = cb.CausalModel(
        [
            cb.Variable("x", [0, 1, 2], table=[0.2, 0.3, 0.5]),
            cb.Variable("y", [0, 1], parents=["x"], table=[[0.5, 0.5], [0.6, 0.4], [0.1, 0.9]]),
        ]
    )
    by_actions = cb.Problem(graph, manipulable=["x"], reward_parents=[], reward="y", optional=True)
    for k, problem in enumerate((env.problem, by_actions)):
        for durable in (False, True):
            file = tmp_path / f"{k}.db"
            one: Any = cb.Study.create(file, problem, seed=1) if durable else cb.Agent(problem, delayed=True, seed=1)
            rng = np.random.default_rng(0)
            for decision in one.ask(40):
                if problem.parents:
                    seen = env.pull(decision.action, rng)
                    one.tell(decision.id, reward=seen.reward, observed=seen.parents)
                else:
                    one.tell(decision.id, reward=float(rng.random() < 0.5))
            assert one.n_outcomes == 40
            assert one.pending == {}
            assert one.recommend().intervention in problem.actions
            assert one.budget is None
            assert one.model is not None
            with pytest.raises(TellError):
                one.tell(0, reward=float("nan"))
            if problem.parents and durable:
                assert one.tell(one.ask().id, reward=1).status == "incomplete"
            elif problem.parents:
                with pytest.raises(TellError, match="The outcome lacks 'subject', 'template'"):
                    one.tell(one.ask().id, reward=1)
            if durable:
                assert one.policy == cb.default_policy(problem, delayed=True)
                assert one.verify()
                assert all(one.replay(j) for j in range(40))
                one.close()


class Mine(cb.policies.CausalThompsonSampling):
    """A policy of one's own."""


def test_a_study_that_refuses_speaks_of_itself_and_not_of_agents(tmp_path: Path) -> None:
    env = cb.zoo.email_campaign()
    said = []

    def refused(call: Any, *given: Any, **named: Any) -> None:
        with pytest.raises(CausalBanditsError) as error:
            call(*given, **named)
        said.append(str(error.value))

    with new(tmp_path, EMAIL, budget=Budget(5, rounds=1)) as study:
        decision = study.ask()
        refused(study.ask)
        other = {name: str(env.problem.model[name].states[-1]) for name in study.problem.parents}
        other["send_time"] = next(time for time in ("morning", "evening") if time != decision.action["send_time"])
        refused(study.tell, decision, reward=1, observed=other)
        refused(study.evidence)
    refused(cb.Study.create, tmp_path / "no.db", "problem")
    mine = Mine(prior="beta")
    cb.Study.create(tmp_path / "mine.db", env.problem, mine, seed=1).close()
    refused(cb.Study.open, tmp_path / "mine.db")
    with cb.Study.open(tmp_path / "mine.db", policy=mine) as own:
        assert own.ask().number == 0
    assert not [text for text in said if "agent" in text.lower()]
    assert len(said) == 5


NEED_ALL_OF_IT = ("ucb", "uniform", "ts(prior=beta)", "kl-ucb", "lin-ucb", "lin-ts", "hac-ucb", "c-ts-models")


@pytest.mark.parametrize("told", [True, False], ids=["told", "open"])
def test_a_policy_that_could_not_learn_in_the_contexts_so_far_does_not_take_over(tmp_path: Path, told: bool) -> None:
    """Once it had, every question would be refused, and so would every outcome."""
    with new(tmp_path, SEGMENTS) as study:
        decision = study.ask(key="blind")
        seen = SEGMENTS.pull(decision.action, np.random.default_rng(0))
        if told:
            study.tell(0, reward=seen.reward, observed=seen.parents)
        for id in NEED_ALL_OF_IT:
            for refused in (study.use, study.in_shadow):
                with pytest.raises(PolicyError, match=r"known: nothing.*Decision 0"):
                    refused(id)
            assert study.policy.id == "c-ts(prior=beta)"
        study.recommend(context={"segment": "new"})
        if told:
            study.retract(0)
        study.cancel(0)
        study.use("ucb")
        with pytest.raises(TellError, match="known: nothing"):  # cancelled, and told all the same
            study.tell(0, reward=seen.reward, observed=seen.parents)
        play(study, SEGMENTS, 5)
        assert study.n_outcomes == 5
        assert study.verify()


@pytest.mark.parametrize("id", NEED_ALL_OF_IT)
def test_an_experiment_asks_for_the_context_that_its_policy_needs(tmp_path: Path, id: str) -> None:
    with new(tmp_path, SEGMENTS, id) as study:
        study.set_mode("uniform")
        with pytest.raises(PolicyError, match="known: nothing"):
            study.ask()
        play(study, SEGMENTS, 3)
        assert study.n_decisions == study.n_outcomes == 3
        assert study.verify()
