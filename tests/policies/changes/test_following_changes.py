"""Policies that follow changes: without one they decide as before, after one they know just the outcomes that count."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import EvidenceWarning, PolicyError
from causalbandits.policies import FAMILIES, Cells
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.changes import tracker_of
from causalbandits.policies.cpts import CellsAndCPTs, learned_cpts
from causalbandits.policies.structure import ParentSetCounts, structure_layout

EMAIL = cb.zoo.email_campaign()
MODEL = EMAIL.problem.model
MANIPULABLE = {name: list(MODEL[name].states) for name in EMAIL.problem.manipulable}
OBSERVED = {name: list(MODEL[name].states) for name in ("subject", "template")}
GRAPH = "purpose -> subject; product, purpose -> template; subject, template, send_time -> click"
WITH_GRAPH = cb.Problem(GRAPH, reward="click", manipulable=MANIPULABLE, values=OBSERVED)
WITHOUT_GRAPH = cb.Problem(None, reward="click", manipulable=MANIPULABLE, values=OBSERVED)

POLICIES = [
    "c-ts(changes=0.05)",
    "c-ts(prior=beta, changes=0.05)",
    "c-ts(prior=beta, scales=estimated, changes=0.05)",
    "c-ts(prior=main-effects, changes=0.05)",
    "c-ts(prior=beta, cpts=learned, changes=0.05)",
    "c-ts(cpts=learned, changes=0.05)",
    "c-gittins(prior=main-effects, changes=0.05)",
    "c-ucb(changes=0.05)",
    "c-kl-ucb(changes=0.05)",
    "c-ts-ucb(changes=0.05)",
    "ts(prior=beta, changes=0.05)",
    "ts(changes=0.05)",
    "ucb(changes=0.05)",
    "c-ts-structure(prior=beta, changes=0.05)",
    "c-ts-structure(changes=0.05)",
]


def environment(flipped: tuple[str, ...] = (), *, rate: float = 1.0) -> cb.Environment:
    """The e-mail campaign with some CPTs reversed, and click rates times `rate`."""
    variables = [
        cb.Variable(
            name,
            MODEL[name].states,
            parents=MODEL[name].parents,
            table=np.asarray(MODEL[name].table)[..., :: -1 if name in flipped else 1],
        )
        for name in MODEL.order
    ]
    means = EMAIL.configuration_means.reshape(EMAIL.problem.shape)
    problem = cb.Problem(
        cb.CausalModel(variables), manipulable=list(MANIPULABLE), reward_parents=EMAIL.problem.parents, reward="click"
    )
    return cb.Environment(problem, cb.rewards.BernoulliReward(rate * means))


BEFORE, AFTER = environment(), environment(("template",), rate=0.05)
KNOWN = BEFORE.problem


def problem_for(policy: str) -> cb.Problem:
    if policy.startswith("c-ts-structure"):
        return WITHOUT_GRAPH
    return WITH_GRAPH if "learned" in policy else KNOWN


def observed(codes: dict[str, int]) -> dict[str, Any]:
    return {name: OBSERVED[name][codes[name]] for name in OBSERVED}


def run(agent: cb.Agent, rounds: range, rng: np.random.Generator, change: int) -> None:
    """Play in order; the world changes at decision `change`."""
    for t in rounds:
        decision = agent.ask()
        env = BEFORE if t < change else AFTER
        codes, _, reward = env.draw_all(env.problem.choices(decision.action), rng)
        agent.tell(decision, reward=reward, observed=observed(codes))


def assert_counts_what_counts(agent: cb.Agent) -> None:
    """The statistic against a plain recount of the outcomes, by the first decision that counts for each row."""
    statistic = agent._replay_if_stale()
    tracker = tracker_of(statistic)
    assert tracker is not None
    layout, counts_from = tracker.layout, tracker.counts_from
    outcomes = list(agent._outcomes)
    if isinstance(statistic, ParentSetCounts):
        sets = structure_layout(agent.problem)
        seen, count, total = np.zeros(layout.entries), np.zeros(layout.cells), np.zeros(layout.cells)
        for outcome in outcomes:
            codes = sets.codes(outcome)
            assert codes is not None
            rows, entries = sets.parent_sets.observed_entries(codes)
            cells = sets.parent_sets.reward_cells(codes)
            seen[entries[counts_from[rows] <= outcome.number]] += 1
            cells = cells[counts_from[layout.first_cell + cells] <= outcome.number]
            count[cells] += 1
            total[cells] += outcome.reward
        np.testing.assert_array_equal(statistic.seen, seen)
        np.testing.assert_array_equal(statistic.count, count)
        np.testing.assert_allclose(statistic.total, total)
        return
    assert isinstance(agent.policy, CellPolicy)
    expected = Cells.empty(layout.cells)
    for outcome in outcomes:
        cell = agent.policy.cell(agent.problem, outcome.action, outcome.z)
        if counts_from[layout.first_cell + cell] <= outcome.number:
            expected.add(cell, outcome.reward)
    np.testing.assert_array_equal(statistic.count, expected.count)
    np.testing.assert_allclose(statistic.total, expected.total)
    assert statistic.rounds == expected.rounds
    if isinstance(statistic, CellsAndCPTs):
        cpts, seen = learned_cpts(agent.problem), np.zeros(layout.entries)
        for outcome in outcomes:
            for place, row in cpts.entries(outcome):
                if not tracker.watches(row) or counts_from[layout.row_number[row]] <= outcome.number:  # type: ignore[attr-defined]
                    seen[place] += 1
        np.testing.assert_array_equal(statistic.seen, seen)


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_change_decisions_are_those_of_the_same_policy_without_changes(policy: str) -> None:
    plain = policy.replace("(changes=0.05)", "").replace(", changes=0.05", "")
    believed = None if problem_for(policy) is not WITHOUT_GRAPH else WITHOUT_GRAPH
    found = cb.simulate(
        BEFORE,
        {"follows": policy, "plain": plain},
        believed=believed,
        horizon=120,
        replications=2,
        seed=4,
        progress=False,
    )
    np.testing.assert_array_equal(found.regret("follows"), found.regret("plain"))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.filterwarnings("ignore::causalbandits.errors.EvidenceWarning")
def test_after_a_change_the_statistic_holds_just_the_outcomes_that_count(policy: str) -> None:
    agent = cb.Agent(problem_for(policy), policy, seed=1)
    run(agent, range(900), np.random.default_rng(2), change=450)
    assert "click" in {change.mechanism for change in agent.changes().changes}
    assert_counts_what_counts(agent)
    agent.changed("click")
    run(agent, range(900, 920), np.random.default_rng(3), change=0)
    assert_counts_what_counts(agent)
    assert agent.changes().of("click")[-1].is_reported


@pytest.mark.parametrize("policy", ["c-ts(prior=beta, cpts=learned, changes=0.05)", "c-ts-structure(changes=0.05)"])
@pytest.mark.filterwarnings("ignore::causalbandits.errors.EvidenceWarning")
def test_late_outcomes_corrections_and_files(policy: str, tmp_path: Any) -> None:
    rng, agent = np.random.default_rng(7), cb.Agent(problem_for(policy), policy, seed=5)
    waiting: list[tuple[int, Any]] = []
    for t in range(900):
        decision, env = agent.ask(), BEFORE if t < 400 else AFTER
        codes, _, reward = env.draw_all(env.problem.choices(decision.action), rng)
        waiting.append((t + int(rng.integers(40)), (decision, reward, observed(codes))))
        if t == 600:
            agent.changed("template")
        for due in [entry for entry in waiting if entry[0] <= t]:
            waiting.remove(due)
            done, value, seen = due[1]
            agent.tell(done, reward=value, observed=seen)
    assert {"click", "template"} <= {change.mechanism for change in agent.changes().changes}
    assert_counts_what_counts(agent)

    agent.save(tmp_path / "agent.json")
    loaded = cb.Agent.load(tmp_path / "agent.json")
    assert repr(loaded.changes()) == repr(agent.changes())
    assert loaded.ask() == agent.ask()

    # A correction learns everything again: reported changes take effect at the same place.
    changes = agent.changes()
    first = next(iter(agent._outcomes))
    agent.correct(first.number, reward=1.0 - first.reward)
    agent.correct(first.number, reward=first.reward)
    assert agent.changes().changes == changes.changes
    assert_counts_what_counts(agent)


@pytest.mark.parametrize("known", [True, False])
def test_the_mechanism_that_changed_is_named(known: bool) -> None:
    named = []
    for seed in range(4):
        flipped = environment(("template",))
        agent = cb.Agent(KNOWN if known else WITH_GRAPH, changes=True, seed=seed)
        rng = np.random.default_rng([seed, 1])
        with warnings.catch_warnings():
            warnings.simplefilter("error", EvidenceWarning)
            try:
                for t in range(1000):
                    decision, env = agent.ask(), BEFORE if t < 500 else flipped
                    codes, _, reward = env.draw_all(env.problem.choices(decision.action), rng)
                    agent.tell(decision, reward=reward, observed=observed(codes))
            except EvidenceWarning as warning:
                named.append(str(warning))
    assert len(named) == 4
    assert all(text.startswith("P(template | product, purpose) changed near decision") for text in named)


def test_known_cpts_count_as_many_observations_until_they_change() -> None:
    agent = cb.Agent(KNOWN, changes=True, seed=0)
    assert agent.policy.id == "c-ts(cpts=learned, changes=0.05)"
    np.testing.assert_allclose(agent.model["template"].table, MODEL["template"].table, atol=1e-3)
    run(agent, range(200), np.random.default_rng(0), change=1000)
    np.testing.assert_allclose(agent.model["template"].table, MODEL["template"].table, atol=1e-3)
    agent.changed("template")
    assert np.ptp(agent.model["template"].table) < 1e-9  # nothing is known any more
    np.testing.assert_allclose(agent.model["subject"].table, MODEL["subject"].table, atol=1e-3)
    with pytest.warns(EvidenceWarning, match="Click given"):
        run(agent, range(200, 800), np.random.default_rng(1), change=0)
    flipped = np.asarray(MODEL["template"].table)[..., ::-1]
    assert np.abs(np.asarray(agent.model["template"].table) - flipped).min(axis=(0, 1)).max() < 0.1


def test_recommendations_say_since_when_rewards_count() -> None:
    agent = cb.Agent(WITH_GRAPH, "c-ts(prior=beta, cpts=learned)", changes=0.01, seed=2)
    rng = np.random.default_rng(2)
    run(agent, range(300), rng, change=1000)
    agent.changed("click")
    run(agent, range(300, 400), rng, change=1000)
    text = str(agent.recommend())
    assert "no mechanism changed except where a change was noticed (click near decision 300)" in text
    assert "mechanisms may change (changes=)" in text  # no stopping rule
    assert agent.recommend().stop is None
    only_after = cb.Agent(WITH_GRAPH, "c-ts(prior=beta, cpts=learned)", seed=9)
    for outcome in agent._outcomes:
        if outcome.number >= 300:
            decision = only_after.ask(eligible=[dict(outcome.action.intervention)])
            only_after.tell(decision, reward=outcome.reward, observed=agent._observed_values(outcome))
    ours, theirs = agent._statistic, only_after._statistic
    np.testing.assert_array_equal(ours.count, theirs.count)
    np.testing.assert_array_equal(ours.total, theirs.total)


def test_shifts_of_real_rewards_are_noticed_whatever_their_unit() -> None:
    noise = np.random.default_rng(1).standard_normal(1200)
    seen = []
    for scale, origin in ((1.0, 0.0), (1e4, -3e6)):
        agent = cb.Agent(cb.Problem(None, reward="y", manipulable={"arm": ["a", "b", "c"]}), changes=True, seed=4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for t in range(1200):
                decision = agent.ask()
                mean = {"a": 0.0, "b": 1.0, "c": 2.0}[decision.action["arm"]] * (1 if t < 700 else -1)
                agent.tell(decision, reward=origin + scale * (mean + noise[t]))
        seen.append([(change.mechanism, change.decision) for change in agent.changes().changes])
        assert agent.recommend().intervention == {"arm": "a"}
    assert seen[0] == seen[1]
    assert seen[0][0][0] == "y"
    assert 640 <= seen[0][0][1] <= 760


def test_what_cannot_follow_changes_is_refused_in_words() -> None:
    with pytest.raises(PolicyError, match=r"'cl-ts' has no changes=. Families that have it: 'c-ts', 'c-ucb'"):
        cb.Agent(WITH_GRAPH, "cl-ts", changes=True)
    with pytest.raises(PolicyError, match="'c-elimination' decides by batches"):
        cb.Agent(EMAIL.problem, "c-elimination", changes=True)
    with pytest.raises(PolicyError, match=r"from 1e-9 to 0.5; got 2"):
        cb.Agent(WITH_GRAPH, changes=2)
    with pytest.raises(PolicyError, match=r"assumes that no mechanism changes. Create the campaign with changes=True"):
        cb.Agent(WITH_GRAPH).changes()
    with pytest.raises(PolicyError, match=r"'banner' is no mechanism that can start anew. These can: 'subject'"):
        cb.Agent(WITH_GRAPH, changes=True).changed("banner")
    with pytest.raises(PolicyError, match=r"changes= is given twice: 0.1, and 0.05"):
        cb.Agent(WITH_GRAPH, "c-ts(cpts=learned, changes=0.05)", changes=0.1)
    with pytest.raises(PolicyError, match="cpts='learned' requires CPTs that are estimated or unknown"):
        cb.Agent(EMAIL.problem, "c-ts(cpts=learned)")


def test_every_family_of_cells_can_follow_changes_or_refuses() -> None:
    for name, kind in FAMILIES.items():
        if issubclass(kind, CellPolicy):
            if kind.follows_changes:
                assert cb.policy(name, changes=True).changes == 0.05  # type: ignore[attr-defined]
            else:
                with pytest.raises(PolicyError, match="has no changes="):
                    cb.policy(name, changes=True)


@pytest.mark.parametrize("problem", [WITH_GRAPH, WITHOUT_GRAPH])
def test_without_a_reward_since_the_change_the_recommendation_says_that_it_follows_from_the_prior(
    problem: cb.Problem,
) -> None:
    agent = cb.Agent(problem, changes=True, seed=3)
    run(agent, range(60), np.random.default_rng(4), change=1000)
    assert "follows from the prior alone" not in str(agent.recommend())
    agent.changed("click")
    caveat = "no reward observed since the reward's mechanism changed: the action follows from the prior alone"
    assert caveat in str(agent.recommend())


def test_the_reward_per_action_is_named_by_the_action_whatever_the_number_of_actions() -> None:
    square = cb.Problem("a -> m -> y", reward="y", manipulable={"a": [0, 1]}, values={"m": [0, 1]})
    assert cb.Agent(square, "ts", changes=True).changes().mechanisms == {"y": "y given a"}
    assert cb.Agent(square, changes=True).changes().mechanisms["y"] == "y given m"


def test_the_default_that_follows_changes_keeps_the_options_of_auto_and_checks_the_horizon() -> None:
    assert (
        cb.Agent(WITH_GRAPH, "auto(samples=8)", changes=True).policy.id == "c-ts(cpts=learned, changes=0.05, samples=8)"
    )
    with pytest.raises(PolicyError, match="horizon, the number of rounds"):
        cb.Agent(WITH_GRAPH, changes=True, horizon=-1)
