"""C-TS with learned structure, compiled: the plain driver's numbers, bit for bit."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import play
from causalbandits.policies.structure import parent_sets, structure_layout

ROUNDS = np.array([1, 2, 37, 300])
EMAIL = cb.zoo.email_campaign()
MODEL = EMAIL.problem.model
MANIPULABLE = {name: list(MODEL[name].states) for name in ("product", "purpose", "send_time")}
OBSERVED = {name: list(MODEL[name].states) for name in ("subject", "template")}
PRICES = {"product": {"Photoshop": 0.02}, "purpose": {"Promo": 0.05}}


def campaign(*, decoys: int = 0, effect: float = 0.0, reward=None, parents=None, **keywords) -> cb.Environment:
    """The e-mail campaign, every variable set, with decoys and with an effect of the product on clicks if asked for."""
    names = [f"decoy_{k}" for k in range(decoys)]
    variables = [*MODEL.variables.values(), *(cb.Variable(name, [0, 1], table=[0.4, 0.6]) for name in names)]
    chosen = parents or [*EMAIL.problem.parents, *(["product"] if effect else []), *names]
    problem = cb.Problem(cb.CausalModel(variables), manipulable=list(MANIPULABLE), reward_parents=chosen, **keywords)
    means = EMAIL.configuration_means.reshape(EMAIL.problem.shape)
    if effect:
        means = np.clip(means[..., None] + effect * np.linspace(-1.0, 1.0, len(MANIPULABLE["product"])), 0.0, 1.0)
    axes = [chosen.index(name) for name in [*EMAIL.problem.parents, *(["product"] if effect else [])]]
    means = np.moveaxis(means.reshape(*means.shape, *(1 for _ in names)), range(len(axes)), axes)
    return cb.Environment(problem, (reward or cb.rewards.BernoulliReward)(np.broadcast_to(means, problem.shape)))


def without_graph(decoys: int = 0, **keywords) -> cb.Problem:
    values = OBSERVED | {f"decoy_{k}": [0, 1] for k in range(decoys)}
    return cb.Problem(None, reward="click", manipulable=MANIPULABLE, values=values, **keywords)


def partly(graph: str, **keywords) -> cb.Problem:
    return cb.Problem(graph, reward="click", known="partly", manipulable=MANIPULABLE, values=OBSERVED, **keywords)


GRAPH = "purpose -> subject; product, purpose -> template; subject, template, send_time -> click"
WORLDS = {
    "told nothing": (campaign(), without_graph()),
    "decoys": (campaign(decoys=2), without_graph(2, max_parents=3)),
    "other order of parents": (campaign(parents=["send_time", "template", "subject"]), without_graph()),
    "product matters": (campaign(effect=0.3), without_graph()),
    "known partly": (campaign(effect=0.3), partly(GRAPH)),
    "costs": (campaign(costs=PRICES), without_graph(costs=PRICES)),
    "costs of the environment": (campaign(costs=PRICES), without_graph()),
    "edges": (
        campaign(),
        without_graph(require_edges=[("purpose", "subject")], forbid_edges=[("template", "click")], max_parents=2),
    ),
    "certain sets": (campaign(), without_graph(max_parents=0)),
    "tiers": (campaign(), without_graph(tiers=[["template"], ["subject"]])),
}


class Watched(list[tuple[dict, list[int]]]):
    """The statistic and the plays of each action, at every checkpoint."""

    def __call__(self, slot, statistic, plays) -> None:
        self.append((statistic.to_record(), plays().tolist()))


def assert_alike(policy, env: cb.Environment, problem: cb.Problem, seed: int = 3, rounds=ROUNDS) -> None:
    """Regret, rewards, plays and statistics."""
    assert can_play(env, policy, problem)
    for replication in range(2):
        one, other = Watched(), Watched()
        compiled = play_compiled(env, policy, problem, rounds, seed, replication, watch=one)
        plain = play(env, policy, problem, rounds, seed, replication, watch=other)
        assert np.array_equal(compiled.regret, plain.regret)
        assert np.array_equal(compiled.reward, plain.reward)
        assert one == other
        unwatched = play_compiled(env, policy, problem, rounds, seed, replication)
        assert np.array_equal(unwatched.regret, plain.regret)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("prior", ["beta", "gaussian"])
def test_compiled_rounds_are_the_plain_driver_s(world: str, prior: str) -> None:
    assert_alike(cb.policy("c-ts-structure", prior=prior), *WORLDS[world])


@pytest.mark.parametrize("sd", [0.3, 50.0])
def test_so_are_those_with_real_rewards(sd: float) -> None:
    env = campaign(effect=0.2, reward=lambda means: cb.rewards.GaussianReward(1000.0 + 100.0 * means, sd=sd))
    assert_alike(cb.policy("c-ts-structure"), env, without_graph())


def test_so_are_those_whose_rewards_never_vary() -> None:
    env = campaign(reward=lambda means: cb.rewards.GaussianReward(0.0 * means, sd=0.0))
    assert_alike(cb.policy("c-ts-structure"), env, without_graph())


@pytest.mark.parametrize("prior", ["beta", "gaussian"])
def test_so_are_those_that_draw_more_than_once(prior: str) -> None:
    assert_alike(cb.policy("c-ts-structure", prior=prior, samples=4), *WORLDS["costs"])


def test_so_are_those_in_environments_that_change_and_show_more_than_the_reward_s_parents() -> None:
    env = campaign()
    decoy = cb.Variable("decoy_0", [0, 1], parents=["subject"], table=[[0.2, 0.8], [0.7, 0.3]])
    model = cb.CausalModel([*MODEL.variables.values(), decoy])
    problem = cb.Problem(model, manipulable=list(MANIPULABLE), reward_parents=EMAIL.problem.parents)
    means = EMAIL.configuration_means.reshape(EMAIL.problem.shape)
    rewards = env.reward, cb.rewards.BernoulliReward(means[..., ::-1])
    parts = [cb.Environment(problem, reward, shown=["decoy_0"]) for reward in rewards]
    changing = cb.ChangingEnvironment(parts[0], {30: parts[1], 200: parts[0]})
    for prior in ("beta", "gaussian"):
        assert_alike(cb.policy("c-ts-structure", prior=prior), changing, without_graph(1))


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=10)
@pytest.mark.filterwarnings("ignore::causalbandits.errors.ProblemWarning")
def test_so_they_are_in_random_worlds(seed: int) -> None:
    env = cb.zoo.random_world(7, rng=seed)
    true = env.problem
    observed = [m.name for m in env.mechanisms if m.name not in true.manipulable]
    problem = cb.Problem(
        None,
        reward="Y",
        manipulable={name: list(true.variable(name).states) for name in true.manipulable},
        values={name: list(true.variable(name).states) for name in observed},
        max_parents=1 + seed % 3,
    )
    for prior in ("beta", "gaussian"):
        assert_alike(cb.policy("c-ts-structure", prior=prior), env, problem, seed, np.array([5, 80]))


@pytest.mark.parametrize("prior", ["beta", "gaussian"])
def test_so_they_are_where_tables_grow_and_their_resolution_falls(monkeypatch, prior: str) -> None:
    """Tables of 16 counts at first, and one bit less per doubling from 32 counts on."""
    parent_sets.count_tables.cache_clear()
    monkeypatch.setattr(parent_sets, "SMALLEST_TABLE", 16)
    monkeypatch.setattr(parent_sets, "BITS_UP_TO", 32)
    try:
        assert parent_sets.count_tables((1, 2), parent_sets.table_capacity(300), prior).bits == 43 - 4
        assert_alike(cb.policy("c-ts-structure", prior=prior), *WORLDS["product matters"])
    finally:
        parent_sets.count_tables.cache_clear()


def test_segments_and_watching_change_nothing(monkeypatch) -> None:
    """Regret, plays and simple regret, by either driver."""
    simulation = sys.modules["causalbandits.engine.simulation"]
    env, problem = WORLDS["product matters"]
    runs = []
    for compiled_from in (0, 10**12):
        monkeypatch.setattr(simulation, "COMPILED_FROM", compiled_from)
        runs.append(
            cb.simulate(
                env,
                "c-ts-structure(prior=beta)",
                believed=problem,
                horizon=200,
                replications=2,
                seed=1,
                measures=["plays", "simple regret"],
                progress=False,
            )
        )
    one, other = runs
    (name,) = one.policies
    assert np.array_equal(one.regret(name), other.regret(name))
    for measure in ("plays", "simple regret"):
        assert np.array_equal(one.measure(measure, name), other.measure(measure, name))


@pytest.mark.parametrize("prior", ["beta", "gaussian"])
def test_the_evidence_that_is_kept_is_that_of_the_counts(prior: str) -> None:
    """After every outcome, against the evidence computed from the counts; kept through 2^10 outcomes and beyond."""
    _, problem = WORLDS["decoys"]
    sets, rng = structure_layout(problem).parent_sets, np.random.default_rng(0)
    statistic = sets.empty()
    sets.evidence(statistic, prior)
    kept = 0
    for n in range(1100):
        codes = np.array([rng.integers(size) for size in sets.sizes])
        sets.add(statistic, codes, float(rng.integers(2)))
        evidence = statistic.evidence
        if evidence is not None and n % 9 == 0:
            statistic.forget()
            again = sets.evidence(statistic, prior)
            assert np.array_equal(evidence.of_cpts, again.of_cpts)
            assert np.array_equal(evidence.of_rewards, again.of_rewards)
            assert np.array_equal(evidence.row_counts, again.row_counts)
            statistic.evidence, kept = evidence, kept + 1
    assert kept > 100


def test_contexts_limits_changes_and_beta_priors_of_real_rewards_are_left_to_the_plain_driver() -> None:
    segments = cb.zoo.email_segments()
    problem = cb.Problem(
        None,
        reward="click",
        manipulable=MANIPULABLE,
        values=OBSERVED,
        context={"segment": list(segments.problem.variable("segment").states)},
    )
    assert not can_play(segments, cb.policy("c-ts-structure"), problem)
    real = campaign(reward=lambda means: cb.rewards.GaussianReward(means, sd=0.1))
    assert not can_play(real, cb.policy("c-ts-structure(prior=beta)"), without_graph())
    assert not can_play(EMAIL, cb.policy("c-ts-structure"), without_graph(decoys=1))
    limited = without_graph(max_probability={"subject": {OBSERVED["subject"][0]: 0.9}})
    assert not can_play(campaign(), cb.policy("c-ts-structure"), limited)
    assert can_play(campaign(), cb.policy("c-ts-structure"), without_graph())
    assert not can_play(campaign(), cb.policy("c-ts-structure", changes=True), without_graph())
