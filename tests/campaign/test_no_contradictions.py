"""Random campaigns: no two lines of a recommendation contradict each other, and its table agrees with it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.campaign import Recommendation
from causalbandits.errors import CausalBanditsWarning

POLICIES = [
    "auto", "c-ts(prior=beta)", "c-ts(scales=given)", "c-ts(cpts=learned)", "c-ts(prior=main-effects)", "c-ucb",
    "c-kl-ucb", "c-gittins", "c-track-and-stop", "c-ts-guarded(prior=beta)", "cl-ts", "ts(prior=beta)", "ucb",
    "hac-ucb", "uniform",
]  # fmt: skip


def draw_environment(rng: np.random.Generator) -> cb.Environment:
    """A small random world with rewards of 0 and 1; the best action is often far ahead."""
    knobs, parents = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    world = cb.zoo.random_world(6, knobs=knobs, reward_parents=parents, arrows=2.0, rng=rng)
    shape = world.problem.shape
    means = rng.beta(0.3, 0.3, shape) if rng.random() < 0.5 else rng.uniform(0.2, 0.8, shape)
    return cb.Environment(world.problem, cb.rewards.BernoulliReward(means))


def draw_campaign(seed: int) -> tuple[cb.Agent, dict[str, Any], int]:
    """An agent with some outcomes, the arguments of `recommend`, and the number of its decisions."""
    rng = np.random.default_rng(seed)
    env = draw_environment(rng)
    problem = env.problem
    policy = POLICIES[seed % len(POLICIES)]
    if rng.random() < 0.4:
        problem = cb.Problem(
            problem.model, manipulable=problem.manipulable, reward_parents=problem.parents, optional=True,
            reward_range=(0, 1), costs={problem.manipulable[0]: 0.1} if rng.random() < 0.5 else None,
        )  # fmt: skip
    if "learned" in policy:
        problem = problem.without_cpts()
    agent = cb.Agent(problem, policy, seed=seed, zero_probability="allow")
    rounds = int(rng.choice([0, 1, 3, 20, 200, 1000]))
    for _ in range(rounds):
        decision = agent.ask()
        seen = env.pull(decision.action, rng)
        lost = {name: None for name in problem.must_observe if name not in {*seen.parents, *decision.action}}
        agent.tell(decision, reward=seen.reward, observed={**seen.parents, **lost})
    options = {
        "confidence": float(rng.choice([0.5, 0.9, 0.95, 0.999])),
        "tolerance": float(rng.choice([0.0, 0.05, 2.0])),
    }
    return agent, options, rounds


def read_lines(text: str) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        label, colon, value = line.partition(": ")
        assert colon, line
        lines.setdefault(label, []).append(value)
    return lines


def assert_lines_agree(best: Recommendation, confidence: float, tolerance: float) -> None:
    lines = read_lines(repr(best))
    (stopping,) = lines["Stopping rule"]
    # A verdict, or the reason why there is none.
    assert (best.stop is None) == (best.error_probability is None)
    if best.stop is None:
        assert stopping.startswith("not available: ")
        assert len(stopping) > len("not available: not known")
    else:
        assert best.error_probability is not None
        assert 0 <= best.error_probability <= 1
        assert best.stop == (best.error_probability <= 1 - confidence)
        assert stopping.startswith("met (error bound " if best.stop else "not met (error bound ")
        bound, relation, limit = stopping.split("error bound ")[1].rstrip(")").split()
        assert (float(bound) <= float(limit)) == (relation == "<=") == best.stop
    # A probability that seems to call for another verdict comes with its explanation, and only such a one.
    surprising = best.probability is not None and (
        (best.probability >= confidence and not best.stop) or (best.probability < confidence and bool(best.stop))
    )
    assert bool(lines.get("Note")) == surprising, repr(best)
    if best.probability is None:
        assert best.expected_loss is None
        return
    assert best.expected_loss is not None
    assert 0 <= best.probability <= 1
    assert best.expected_loss >= 0
    # All samples within the tolerance lose at most the tolerance, and the other way round.
    if best.probability == 1:
        assert best.expected_loss <= tolerance + 1e-9
    if best.expected_loss == 0:
        assert best.probability == 1
    if best.has_interval:
        assert best.lower - 1e-9 <= best.mean <= best.upper + 1e-9
    if best.runner_up is not None:
        assert best.runner_up.action.intervention != best.intervention
        behind = best.runner_up.mean - best.runner_up.cost <= best.mean - best.cost + 1e-9
        assert behind == (not any("of the runner-up is larger" in line for line in lines.get("Warning", ()))), repr(
            best
        )


@pytest.mark.parametrize("block", range(10))
def test_no_two_lines_of_a_recommendation_contradict_each_other(block: int) -> None:
    surprising = stopped = explained = 0
    for seed in range(12 * block, 12 * block + 12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CausalBanditsWarning)
            agent, options, rounds = draw_campaign(seed)
        best = agent.recommend(**options)
        assert_lines_agree(best, **options)
        surprising += "Note: " in repr(best)
        stopped += bool(best.stop)
        table = best.table()
        # The table ranks all actions; its first row says what the recommendation says.
        assert [row.rank for row in table] == list(range(1, agent.problem.actions.size + 1))
        assert {row.action for row in table} == {*agent.problem.actions}
        first = table[0]
        assert (first.action, first.mean, first.probability) == (best.intervention, best.mean, best.probability)
        assert (first.lower, first.upper) == ((best.lower, best.upper) if best.has_interval else (None, None))
        assert sum(row.times_chosen for row in table) == rounds
        probabilities = [row.probability for row in table if row.probability is not None]
        if options["tolerance"] == 0 and probabilities:
            assert sum(probabilities) >= 1 - 1e-9  # ties count for each
        nets = [row.mean - row.cost for row in table]
        assert nets[0] >= max(nets) - 1e-9 or "the means of some are larger" in table.note
        explained += nets[0] < max(nets) - 1e-9
    assert surprising + stopped + explained
