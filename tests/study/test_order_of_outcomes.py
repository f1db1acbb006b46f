"""The order in which outcomes are told changes nothing: the same sums, the same hash, the same decisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.policies import AnyPolicy, Outcome
from causalbandits.study import fold as fold_module
from causalbandits.study.fold import Fold
from causalbandits.study.storage import SumTable
from oracles.policies import POLICIES

ENV = cb.zoo.email_campaign()
IN_ORDER = {
    "c-elimination",
    "c-ts-guarded(prior=beta)",
    "c-ts(prior=beta, cpts=learned)",
    "c-ts-guarded",
    "c-ts(scales=given, cpts=learned)",
    "c-ts(cpts=learned)",
    "hac-ucb",
}
"""Policies that a study folds in the order of telling, as its page says: by batches, on guard, or with learnt
tables."""


def new_fold(policy: AnyPolicy) -> Fold:
    return Fold(ENV.problem, policy, SumTable(), tuple, lambda: 0)


def some_outcomes(seed: int, number: int) -> list[Outcome]:
    """Of actions at random: a mean for every configuration, noise, and a flip for policies that count successes."""
    rng, problem = np.random.default_rng(seed), ENV.problem
    means = rng.random(problem.shape)
    outcomes = []
    for k in range(number):
        action = problem.actions.action(int(rng.integers(problem.actions.size)))
        z = tuple(int(rng.integers(size)) for size in problem.shape)
        successes = float(rng.random() < means[z])
        outcomes.append(Outcome(action, z, float(rng.normal(means[z], 0.3)), successes, number=k))
    return outcomes


def teach(policy: AnyPolicy, outcomes: list[Outcome]) -> Fold:
    """Told one by one, as a study tells a fold that is up to date."""
    fold = new_fold(policy)
    assert fold.statistic.rounds == 0
    for outcome in outcomes:
        fold.table.change(outcome, 1)
        fold.change(outcome, 1)
    return fold


def test_only_these_policies_look_at_the_order_of_telling() -> None:
    policies = [cb.policy(id) for id in POLICIES]
    assert {p.id for p in policies if p.traits.learns_cpts or new_fold(p).kind == "log"} == IN_ORDER


@pytest.mark.parametrize("id", sorted(set(POLICIES) - IN_ORDER))
def test_sums_and_decisions_are_the_same_in_any_order(id: str) -> None:
    policy = cb.policy(id)
    for seed in range(40):
        outcomes = some_outcomes(seed, 25)
        shuffled = [outcomes[i] for i in np.random.default_rng(seed).permutation(len(outcomes))]
        one, other = teach(policy, outcomes), teach(policy, shuffled)
        assert one.statistic.to_record() == other.statistic.to_record()
        situation = one.situation(ENV.problem)
        for k in range(3):
            ours, theirs = (
                policy.decide(policy.feasible(situation, fold.statistic), fold.statistic, np.random.default_rng(k))
                for fold in (one, other)
            )
            assert ours == theirs


@pytest.mark.parametrize("id", ["c-gittins(prior=main-effects)", "c-ts(prior=main-effects)", "c-screen"])
def test_an_outcome_that_is_taken_back_leaves_no_trace(id: str) -> None:
    policy, (*outcomes, wrong) = cb.policy(id), some_outcomes(1, 25)
    plain, corrected = teach(policy, outcomes), teach(policy, [wrong, *outcomes])
    corrected.table.change(wrong, -1)
    corrected.change(wrong, -1)
    assert plain.statistic.to_record() == corrected.statistic.to_record()


@pytest.mark.parametrize(
    "id",
    [
        "c-gittins(prior=main-effects)",
        "c-ts(prior=main-effects)",
        "c-ts",
        "cl-ts(regressor=observed)",
        "cl-ts(scales=estimated, regressor=observed)",
    ],
)
def test_studies_of_one_hash_decide_alike(tmp_path: Path, id: str) -> None:
    """Twenty decisions are made and told alike after as many were told in different orders."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        studies = [cb.Study.create(tmp_path / f"{id}-{seed}-{k}.db", ENV.problem, id, seed=seed) for k in range(2)]
        decisions = studies[0].ask(25)
        outcomes = [ENV.pull(decision.action, rng) for decision in decisions]
        studies[1].ask(25)
        for study, order in zip(studies, (np.arange(25), rng.permutation(25)), strict=True):
            with study.together():
                for k in order.tolist():
                    study.tell(decisions[k].number, reward=outcomes[k].reward, observed=outcomes[k].parents)
        assert studies[0].state_hash() == studies[1].state_hash()
        for _ in range(20):
            ours, theirs = (study.ask() for study in studies)
            assert (ours.number, ours.action) == (theirs.number, theirs.action)
            outcome = ENV.pull(ours.action, rng)
            for study in studies:
                study.tell(ours.number, reward=outcome.reward, observed=outcome.parents)
        for study in studies:
            assert study.verify()
            study.close()


@pytest.mark.parametrize("id", ["c-gittins(prior=main-effects)", "c-ts(prior=main-effects)"])
def test_agents_told_in_other_orders_differ_by_rounding_alone(id: str) -> None:
    """An agent adds floating-point numbers: the last bits of its sums may differ, its decisions do not."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        agents = [cb.Agent(ENV.problem, id, seed=seed) for _ in range(2)]
        decisions = [[agent.ask() for _ in range(25)] for agent in agents]
        outcomes = [ENV.pull(decision.action, rng) for decision in decisions[0]]
        for agent, order in zip(agents, (np.arange(25), rng.permutation(25)), strict=True):
            for k in order.tolist():
                agent.tell(decisions[0][k].id, reward=outcomes[k].reward, observed=outcomes[k].parents)
        one, other = (agent._statistic.to_record() for agent in agents)
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-12, atol=1e-12)
        assert [agents[0].ask().action for _ in range(5)] == [agents[1].ask().action for _ in range(5)]


ORDERED = ["c-ts-guarded(prior=beta)", "c-ts-guarded(prior=beta, on_alarm=warn)", "hac-ucb(horizon=500)"]


@pytest.mark.parametrize("policy", ORDERED)
def test_corrections_from_a_checkpoint_leave_what_a_fold_of_all_outcomes_leaves(tmp_path, monkeypatch, policy):
    monkeypatch.setattr(fold_module, "CHECKPOINT_EVERY", 4)
    rng, decisions, told = np.random.default_rng(5), [], []
    with cb.Study.create(tmp_path / "s.db", ENV.problem, policy, seed=3) as study, study.reader() as reader:
        for step in range(120):
            decisions.append(study.ask())
            if rng.random() < 0.8:
                told.append(decisions[-1 - int(rng.integers(min(3, len(decisions))))])
                seen = ENV.pull(told[-1].action, rng)
                if study.status(told[-1].id) == "open":
                    study.tell(told[-1], reward=seen.reward, observed=seen.parents)
            kind, waiting = rng.integers(6), [one for one in decisions if study.status(one.id) == "open"]
            if kind == 0 and told and study.status(told[-1].id) == "told":
                one = told[-1 - int(rng.integers(min(len(told), 9)))]
                if study.status(one.id) == "told":
                    seen = ENV.pull(one.action, rng)
                    study.correct(one, reward=1.0 - study.explain(one.id)["reward"], observed=seen.parents)
            elif kind == 1 and study.status(told[-1].id if told else 0) == "told":
                study.retract(told[-1])
            elif kind == 2 and waiting:
                study.cancel(waiting[0].id)
            elif kind == 3 and (cancelled := [one for one in decisions if study.status(one.id) == "cancelled"]):
                study.retract(cancelled[-1])
            if step % 5 == 0:
                with cb.Study.open(tmp_path / "s.db") as anew:
                    expected = anew.statistic.to_record()
                assert study.statistic.to_record() == expected
                assert reader.statistic.to_record() == expected
        assert study.verify()


def test_a_correction_takes_in_anew_what_was_told_since_and_no_more(tmp_path, monkeypatch):
    updates, update = [], Fold._update
    monkeypatch.setattr(Fold, "_update", lambda fold, outcome: (updates.append(outcome), update(fold, outcome))[1])
    rng = np.random.default_rng(5)
    with cb.Study.create(tmp_path / "s.db", ENV.problem, "c-ts-guarded(prior=beta)", seed=3) as study:
        with study.together():
            for _ in range(1000):
                decision = study.ask()
                seen = ENV.pull(decision.action, rng)
                study.tell(decision, reward=seen.reward, observed=seen.parents)
        for back, most in ((1, 300), (10, 300), (300, 600), (999, 1000)):
            before = study.explain(1000 - back)
            updates.clear()
            study.correct(1000 - back, reward=1 - before["reward"], observed=before["parents"])
            study.ask()
            assert 0 < len(updates) <= most
        assert len(study._session.fold._checkpoints) <= fold_module.MAX_CHECKPOINTS


@pytest.mark.parametrize("policy", ORDERED[:2])
def test_a_correction_after_a_start_shows_the_policy_again_what_came_since_and_no_more(tmp_path, monkeypatch, policy):
    shown, rng = [], np.random.default_rng(5)
    with cb.Study.create(tmp_path / "s.db", ENV.problem, policy, seed=3) as study, study.together():
        decisions = study.ask(1000)
        for k in np.argsort(np.arange(1000) + 30 * rng.random(1000)).tolist():  # each is late by some decisions
            seen = ENV.pull(decisions[k].action, rng)
            study.tell(decisions[k], reward=seen.reward, observed=seen.parents)
    kind = type(cb.policy(policy))
    monitor = kind.monitor
    monkeypatch.setattr(kind, "monitor", lambda *given: (shown.append(1), monitor(*given))[1])
    with cb.Study.open(tmp_path / "s.db") as study:
        study.ask()
        assert len(shown) == 1000
        for number, most in ((990, 300), (950, 300), (600, 800), (991, 300), (3, 1000), (992, 300)):
            before = study.explain(number)
            shown.clear()
            study.correct(number, reward=1 - before["reward"], observed=before["parents"])
            study.ask()
            assert 0 < len(shown) <= most
            record = study.statistic.to_record()
            with cb.Study.open(tmp_path / "s.db") as anew:
                assert anew.statistic.to_record() == record
