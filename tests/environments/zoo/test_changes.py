"""The environments that change: what changes, when, and what it does to the best action."""

import itertools

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.environments.zoo import changes
from causalbandits.errors import ProblemError

KINDS = ["none", "subject", "template", "evening", "several", "one cell", "wandering"]


def rates(env):
    return env.configuration_means.reshape(env.problem.shape)


def cpt(env, name):
    return env.problem.model[name].table


def different(first, second):
    """The mechanisms in which two environments differ."""
    names = {name for name in first.problem.model.names if not np.array_equal(cpt(first, name), cpt(second, name))}
    return names | ({"click"} if not np.array_equal(rates(first), rates(second)) else set())


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_begins_with_the_campaign_in_which_every_variable_is_set(kind):
    env = cb.zoo.email_changes(kind, rng=3)
    original = cb.zoo.email_campaign()
    first = env.at(1)
    assert env.problem.actions.size == 36
    assert {len(do) for do in env.problem.actions} == {3}
    assert first.best() == original.best()
    assert all(first.mean_reward(do) == pytest.approx(original.mean_reward(do)) for do in env.problem.actions)


@pytest.mark.parametrize(
    ("kind", "starts"),
    [
        ("none", [1]),
        ("subject", [1, 2501]),
        ("template", [1, 2501]),
        ("evening", [1, 2501]),
        ("one cell", [1, 2501]),
        ("several", [1, 1001, 2001, 3001, 4001]),
        ("wandering", list(range(1, 5000, 50))),
    ],
)
def test_the_changes_take_place_at_these_decisions_and_the_horizon_scales_them(kind, starts):
    env = cb.zoo.email_changes(kind, rng=0)
    assert [segment.start for segment in env.segments] == starts
    shorter = cb.zoo.email_changes(kind, rng=0, horizon=500)
    assert [segment.start for segment in shorter.segments] == [(start - 1) // 10 + 1 for start in starts]


@pytest.mark.parametrize("kind", ["subject", "template", "evening"])
def test_one_mechanism_is_reversed(kind):
    mechanism = "click" if kind == "evening" else kind
    env = cb.zoo.email_changes(kind)
    before, after = env.at(2500), env.at(2501)
    assert different(before, after) == {mechanism}
    if mechanism == "click":
        assert np.array_equal(rates(after), rates(before)[..., ::-1])
    else:
        assert np.array_equal(cpt(after, mechanism), cpt(before, mechanism)[..., ::-1])
    assert before.best().intervention != after.best().intervention


def test_a_configuration_that_the_best_action_never_reaches_becomes_the_best():
    env = cb.zoo.email_changes("one cell")
    before, after = env.at(2500), env.at(2501)
    changed = np.argwhere(rates(before) != rates(after))
    assert changed.tolist() == [[1, 1, 2]]
    assert rates(before)[1, 1, 2] == rates(before).min() == pytest.approx(2 / 9)
    assert rates(after)[1, 1, 2] == rates(after).max() == 0.95
    assert before.problem.parent_distribution(before.best().intervention)[1, 1, 2] == 0
    assert after.problem.parent_distribution(after.best().intervention)[1, 1, 2] > 0.5
    assert after.gap(before.best().intervention) > 0.05


def test_several_mechanisms_are_redrawn_one_at_a_time():
    env = cb.zoo.email_changes("several", rng=0)
    environments = [segment.env for segment in env.segments]
    assert [different(*pair) for pair in itertools.pairwise(environments)] == [
        {"subject"},
        {"template"},
        {"click"},
        {"subject"},
    ]
    assert not np.array_equal(cpt(environments[1], "subject"), cpt(environments[4], "subject"))


def test_wandering_rates_take_normal_steps_between_two_limits():
    """1,188 steps; those that cannot have been reflected have a standard deviation of 0.035, plus or minus 0.0045 with
    probability above 99.99%."""
    env = cb.zoo.email_changes("wandering", rng=1)
    walk = np.array([rates(segment.env) for segment in env.segments])
    assert walk.shape == (100, 2, 2, 3)
    assert walk.min() >= 0.02
    assert walk.max() <= 0.98
    inside = (walk[:-1] > 0.2) & (walk[:-1] < 0.8)
    steps = np.diff(walk, axis=0)[inside]
    assert len(steps) > 500
    assert steps.std() == pytest.approx(0.035, abs=0.0045)
    assert all(different(env.at(1), segment.env) == {"click"} for segment in env.segments[1:])


def test_rates_are_reflected_at_the_limits():
    outside = np.array([-0.01, 0.02, 0.5, 0.98, 1.02, 1.95])
    assert changes.reflect(outside) == pytest.approx([0.05, 0.02, 0.5, 0.98, 0.94, 0.03])


@pytest.mark.parametrize("kind", ["several", "wandering"])
def test_random_changes_depend_on_the_seed_and_the_others_do_not(kind):
    fingerprints = [cb.zoo.email_changes(kind, seed).fingerprint for seed in (0, 0, 1)]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]
    assert cb.zoo.email_changes("subject", 0).fingerprint == cb.zoo.email_changes("subject", 1).fingerprint


@pytest.mark.parametrize("kind", ["subjects", "", None, ["subject"]])
def test_an_unknown_kind_is_refused(kind):
    with pytest.raises(ProblemError, match="change"):
        cb.zoo.email_changes(kind)


@pytest.mark.parametrize(("kind", "horizon"), [("wandering", 99), ("several", 4), ("subject", 1), ("subject", 2.5)])
def test_a_horizon_that_is_shorter_than_the_changes_is_refused(kind, horizon):
    with pytest.raises(ProblemError, match="horizon must be a whole number of rounds"):
        cb.zoo.email_changes(kind, 0, horizon=horizon)


@pytest.mark.parametrize(("number", "together"), [(1, 1), (2, 3)])
def test_the_problems_of_besson_et_al_change_one_arm_or_all(number, together):
    env = cb.zoo.changing_arms(number)
    assert [segment.start for segment in env.segments] == [1, 1001, 2001, 3001, 4001]
    means = np.array([segment.env.means for segment in env.segments])
    assert means.shape == (5, 3)
    assert (np.diff(means, axis=0) != 0).sum(axis=1).tolist() == [together] * 4
    assert env.problem.actions.size == env.problem.configurations == 3


def test_each_problem_of_besson_et_al_has_the_means_of_the_published_code():
    first, second = (cb.zoo.changing_arms(number) for number in (1, 2))
    assert [first.at(t).best().mean for t in (1, 1001, 2001, 3001, 4001)] == [0.9, 0.9, 0.3, 0.7, 0.7]
    assert [second.at(t).means.tolist() for t in (1, 5000)] == [[0.9, 0.5, 0.4], [0.1, 0.1, 0.8]]


@pytest.mark.parametrize("number", [0, 3, 1.5, "1", True, None])
def test_other_numbers_of_problems_are_refused(number):
    with pytest.raises(ProblemError, match="numbers 1 and 2"):
        cb.zoo.changing_arms(number)


def test_the_functions_are_public_names_of_the_zoo_but_not_its_environments():
    """A specification names one environment, `zoo = "email_campaign"`; it cannot describe one that changes."""
    assert {"email_changes", "changing_arms"} <= set(dir(cb.zoo)) - set(cb.zoo.__all__)
