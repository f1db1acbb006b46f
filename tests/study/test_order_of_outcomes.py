"""The order in which outcomes are told changes nothing: the same sums, the same hash, the same decisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.policies import AnyPolicy, Outcome
from causalbandits.policies.registry import POLICIES
from causalbandits.study.fold import Fold
from causalbandits.study.storage import SumTable

ENV = cb.zoo.email_campaign()
IN_ORDER = {
    "c-elimination",
    "c-ts-beta-guarded",
    "c-ts-beta-learnt",
    "c-ts-gaussian-guarded",
    "c-ts-gaussian-learnt",
    "c-ts-gaussian-learnt-scaled",
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
    assert {p.id for p in policies if p.traits.learns_tables or new_fold(p).kind == "log"} == IN_ORDER


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


@pytest.mark.parametrize("id", ["c-gittins-effects", "c-ts-effects", "c-screen-scaled"])
def test_an_outcome_that_is_taken_back_leaves_no_trace(id: str) -> None:
    policy, (*outcomes, wrong) = cb.policy(id), some_outcomes(1, 25)
    plain, corrected = teach(policy, outcomes), teach(policy, [wrong, *outcomes])
    corrected.table.change(wrong, -1)
    corrected.change(wrong, -1)
    assert plain.statistic.to_record() == corrected.statistic.to_record()


@pytest.mark.parametrize(
    "id", ["c-gittins-effects", "c-ts-effects", "c-ts-gaussian-scaled", "cl-ts-observed", "cl-ts-observed-scaled"]
)
def test_studies_of_one_hash_decide_alike(tmp_path: Path, id: str) -> None:
    """Twenty decisions are made and told alike after as many were told in different orders."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        studies = [cb.Study.create(tmp_path / f"{id}-{seed}-{k}.db", ENV.problem, id, seed=seed) for k in range(2)]
        decisions = studies[0].ask(25)
        outcomes = [ENV.pull(decision.intervention, rng) for decision in decisions]
        studies[1].ask(25)
        for study, order in zip(studies, (np.arange(25), rng.permutation(25)), strict=True):
            with study.together():
                for k in order.tolist():
                    study.tell(decisions[k].id, outcomes[k].parents, outcomes[k].reward)
        assert studies[0].state_hash() == studies[1].state_hash()
        for _ in range(20):
            ours, theirs = (study.ask() for study in studies)
            assert (ours.id, ours.intervention) == (theirs.id, theirs.intervention)
            outcome = ENV.pull(ours.intervention, rng)
            for study in studies:
                study.tell(ours.id, outcome.parents, outcome.reward)
        for study in studies:
            assert study.verify()
            study.close()


@pytest.mark.parametrize("id", ["c-gittins-effects", "c-ts-effects"])
def test_agents_told_in_other_orders_differ_by_rounding_alone(id: str) -> None:
    """An agent adds floating-point numbers: the last bits of its sums may differ, its decisions do not."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        agents = [cb.Agent(ENV.problem, id, seed=seed) for _ in range(2)]
        decisions = [[agent.ask() for _ in range(25)] for agent in agents]
        outcomes = [ENV.pull(decision.intervention, rng) for decision in decisions[0]]
        for agent, order in zip(agents, (np.arange(25), rng.permutation(25)), strict=True):
            for k in order.tolist():
                agent.tell(decisions[0][k].id, outcomes[k].parents, outcomes[k].reward)
        one, other = (agent._statistic.to_record() for agent in agents)
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-12, atol=1e-12)
        assert [agents[0].ask().intervention for _ in range(5)] == [agents[1].ask().intervention for _ in range(5)]
