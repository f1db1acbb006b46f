"""Contexts before launch: descriptions, bounds, specifications and options."""

from __future__ import annotations

import math

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.planning.environment_spec import parse_environment
from causalbandits.theory.assumptions import Facts
from causalbandits.theory.comparison import compare
from causalbandits.theory.policy_bounds import bound


def test_a_description_says_what_is_known_beforehand():
    text = str(cb.describe(cb.zoo.email_segments()))
    assert "segment: 3 contexts" in text
    assert "Means to learn: 12 with the graph, 240 without it. Search: 12 to 24 actions, by context" in text
    assert "beforehand" not in str(cb.describe(cb.zoo.email_campaign()))


def test_the_cheapest_set_of_a_description_serves_the_context():
    env = cb.zoo.email_segments(True)
    problem = env.problem
    clicks = env.configuration_means.reshape(problem.shape)
    reward = cb.Variable("click", [0, 1], parents=problem.parents, table=np.stack([1 - clicks, clicks], axis=-1))
    model = cb.CausalModel([*problem.model.variables.values(), reward])
    own = cb.Problem(model, manipulable=problem.manipulable, reward="click", context=["segment"], optional=True)
    sets = {s.name: s.variables for s in cb.describe(own).separators}
    assert all("segment" in variables for variables in sets.values())


def test_bounds_hold_in_contexts_and_count_what_is_learnt_in_each():
    env = cb.zoo.email_segments()
    facts = Facts.of(env)
    assert facts.cells(causal=True) == 12
    assert facts.cells(causal=False) == 240
    gaps = [env.condition({"segment": s}).gaps().max() for s in env.problem.model["segment"].states]
    assert facts.largest_gap() == pytest.approx(max(gaps))
    policies = [cb.policies.CausalUCB(noise_scale=0.5), cb.policies.UCB(noise_scale=0.5), "uniform"]
    run = cb.simulate(env, policies, horizon=2000, replications=3, progress=False)
    for policy, name in zip(policies, run.policies, strict=True):
        found = bound(policy, env)
        assert run.regret(name)[:, -1].mean() <= found.at(2000) * 1.05
    assert len(compare(env, 5000)) > 5


def test_lin_policies_have_no_bound_of_their_own():
    with pytest.raises(cb.CausalBanditsError, match="No regret bound for 'lin-ucb'"):
        bound("lin-ucb", cb.zoo.email_segments())


def test_a_specification_names_the_context(tmp_path):
    env = cb.zoo.email_segments()
    cb.write(env.problem.model, tmp_path / "model.json")
    settings = {
        "model": "model.json",
        "manipulable": ["product", "purpose", "send_time"],
        "reward_parents": ["subject", "template", "send_time"],
        "optional": True,
        "context": ["segment"],
    }
    problem = parse_environment(settings, folder=tmp_path)
    assert problem.context == ("segment",)
    assert problem.fingerprint == env.problem.fingerprint
    assert (
        parse_environment({}, {"zoo": "email_segments", "tastes": True}).fingerprint
        == cb.zoo.email_segments(True).fingerprint
    )
    with pytest.raises(cb.CausalBanditsError, match=r"^context: Unknown variable 'sgment'"):
        parse_environment({**settings, "context": ["sgment"]}, folder=tmp_path)
    assert math.isclose(problem.context_distribution.sum(), 1.0)


def test_a_world_of_the_zoo_with_fewer_actions_keeps_its_context():
    env = parse_environment({"max_set": 1}, {"zoo": "email_segments"})
    assert env.problem.context == ("segment",)
    assert env.problem.actions.max_set == 1
    assert parse_environment({"context": []}, {"zoo": "email_segments"}).problem.context == ()
