"""An unobserved confounder where the graph is not known: the world is as described, the record is complete."""

from __future__ import annotations

import json

import numpy as np
import pytest

import causalbandits as cb
import latent as benchmark

RECORDED = json.loads(benchmark.RESULT.read_text(encoding="utf-8"))


def test_customers_with_template_1_click_more_often_although_it_costs_clicks():
    env = benchmark.confounded_environment(4)
    first = list(env.problem.variable("template").states).index("1")
    p, means = np.zeros(2), np.zeros(2)
    taste = np.array([0.5, 0.5])
    by_taste = env.problem.model["template"].table.mean(axis=(0, 1))
    click = {state: 0.5 + benchmark.EFFECTS["template"][state] for state in ("1", "2")}
    for k, state in enumerate(env.problem.variable("template").states):
        p[k] = taste @ by_taste[:, k]
        means[k] = (taste * by_taste[:, k]) @ (click[state] + np.array([-0.3, 0.3])) / p[k]
    assert means[first] > means[1 - first] + 0.02
    assert env.configuration_means.max() < 1
    assert env.configuration_means.min() > 0


def test_the_declaration_removes_template_from_the_sets_of_click():
    env = benchmark.confounded_environment(0)
    plain, declared = (benchmark.believed(env, is_declared).structure_prior for is_declared in (False, True))
    assert any("template" in names for names in plain.candidates[-1].sets)
    assert not any("template" in names for names in declared.candidates[-1].sets)
    assert any("subject" in names for names in declared.candidates[-1].sets)


def test_the_rows_are_those_that_are_recorded(monkeypatch, tmp_path):
    monkeypatch.setattr(benchmark, "HORIZON", 20)
    monkeypatch.setattr(benchmark, "RESULT", tmp_path / "latent.json")
    benchmark.main(["--replications", "2"])
    found = json.loads(benchmark.RESULT.read_text(encoding="utf-8"))
    assert [(row["knowledge"], row["policy"]) for row in found["rows"]] == [
        (row["knowledge"], row["policy"]) for row in RECORDED["rows"]
    ]
    assert found["replications"] == 2
    assert all(0 < row["mean"] <= row["worst"] for row in found["rows"])


def test_the_declaration_lowers_the_regret_of_the_default():
    env = benchmark.confounded_environment(0)
    mean = {(row["knowledge"], row["policy"]): row["mean"] for row in RECORDED["rows"]}
    default = cb.Agent(benchmark.believed(env, True)).policy
    assert default == cb.policy("c-ts-structure")
    assert mean["`latent`", "c-ts-structure"] < 0.9 * mean["nothing", "c-ts-structure"]
    assert mean["`latent`", "c-ts-structure"] == pytest.approx(mean["no structure", "ts(prior=beta)"], rel=0.2)
