"""A warning if the outcomes are nearly all of one action, so that confounding could not show."""

from __future__ import annotations

import numpy as np
import pytest
from tests.policies.structure.worlds import MANIPULABLE, play, problem

import causalbandits as cb

BETA = "c-ts-structure(prior=beta)"


def small_problem(**arguments) -> cb.Problem:
    return cb.Problem(
        None, reward="y", manipulable={"a": ["p", "q"], "b": [0, 1]}, values={"v": ["u", "w"]}, **arguments
    )


def rows(n: int, others: int, *, own: float = 0.5, other: float = 0.5, **more: list[object]) -> dict[str, list[object]]:
    """Rows of do(a=p, b=0), and some of do(a=q, b=1); `v` decides the reward, whose means by action are given."""
    rng = np.random.default_rng(0)
    a = ["p"] * n + ["q"] * others
    v = ["w" if rng.random() < (own if value == "p" else other) else "u" for value in a]
    y = [float(rng.random() < (0.9 if value == "w" else 0.1)) for value in v]
    return {"a": a, "b": [0] * n + [1] * others, "v": v, "y": y, "set": ["a,b"] * (n + others)}


def concerns(data: dict[str, list[object]], **arguments) -> tuple[str, ...]:
    found = small_problem(**arguments)
    agent = cb.Agent(found, BETA, seed=0)
    assert agent.learn(data, interventions="set").used == len(data["a"])
    return agent.policy.concerns(found, agent._statistic)


def test_nearly_constant_actions_are_reported_with_their_numbers() -> None:
    (text,) = concerns(rows(195, 5))
    assert text.startswith("98% of 200 outcomes are of the most frequent action (2 distinct ones): whether a or b")
    assert "matters for y given v rests on few comparisons (a 5, b 5)" in text
    agent = cb.Agent(small_problem(), BETA, seed=0)
    agent.learn(rows(195, 5), interventions="set")
    assert any(text in caveat for caveat in agent.recommend().caveats)


def test_an_action_that_was_always_played_is_reported() -> None:
    (text,) = concerns(rows(200, 0))
    assert text.startswith("100% of 200 outcomes are of the most frequent action (1 distinct ones)")
    assert "(a 0, b 0)" in text


@pytest.mark.parametrize(
    "data",
    [
        rows(40, 2),  # too few outcomes
        rows(150, 50),  # varied
        rows(2400, 200),  # nearly constant, with enough comparisons
        rows(195, 15, own=0.9, other=0.1),  # the action's own rewards show that it is better
    ],
)
def test_there_is_no_warning_where_it_would_not_help(data) -> None:
    assert concerns(data) == ()


def test_edges_that_are_forbidden_by_the_user_are_not_doubted() -> None:
    (text,) = concerns(rows(195, 5), forbid_edges=[("b", "y")])
    assert "whether a matters" in text
    assert concerns(rows(195, 5), forbid_edges=[("a", "y"), ("b", "y")]) == ()


def test_a_required_edge_from_an_observed_variable_leaves_the_warning() -> None:
    (text,) = concerns(rows(195, 5), require_edges=[("v", "y")])
    assert "98% of 200 outcomes" in text
    assert concerns(rows(150, 50), require_edges=[("v", "y")]) == ()
    assert concerns(rows(195, 5), require_edges=[("v", "y")], max_parents=1) == ()  # nothing else is a candidate


def test_one_action_in_each_context_is_nearly_constant_too() -> None:
    found = small_problem(context={"c": [0, 1]})
    data = rows(200, 0)
    data["c"] = [0] * 100 + [1] * 100
    data["a"] = ["p"] * 100 + ["q"] * 100
    agent = cb.Agent(found, BETA, seed=0)
    agent.learn(data, interventions="set")
    (text,) = agent.policy.concerns(found, agent._statistic)
    assert text.startswith("100% of 200 outcomes are of the most frequent action")


def test_the_order_of_outcomes_does_not_matter() -> None:
    data, order = rows(195, 5), np.random.default_rng(1).permutation(200)
    assert concerns(data) == concerns({name: [column[k] for k in order] for name, column in data.items()})


def test_the_email_campaign_without_confounding_raises_no_warning() -> None:
    """Of 12 campaigns of 2500 rounds, none had a warning at 7 checks when this was written; here 2 of 600."""
    found = problem()
    for seed in range(2):
        agent = cb.Agent(found, BETA, seed=seed)
        for part in range(3):
            play(agent, 200, seed=10 * seed + part)
            assert agent.policy.concerns(found, agent._statistic) == ()
    assert len(MANIPULABLE) == 3
