"""Off-policy evaluation over contexts: what an estimate is of, whether its interval holds, and when there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.policies import Outcome
from causalbandits.study.analysis import By, Evaluation, evaluate_target

SHARES, ACTIONS, TARGET = (0.6, 0.3, 0.1), 4, {"ad": 0}
MEANS = np.array([[0.15, 0.3, 0.2, 0.5], [0.55, 0.4, 0.6, 0.3], [0.9, 0.7, 0.5, 0.8]])
TRUTH = float(np.array(SHARES) @ MEANS[:, 0])
UNIFORM = np.full(ACTIONS, 1 / ACTIONS)
WITHOUT_TARGET = np.array([0.0, 0.4, 0.4, 0.2])

Mixtures = Callable[[int, float], np.ndarray]
"""From the context and how much of the log is over, the chances of the actions."""


def make_problem() -> cb.Problem:
    segment = cb.Variable("segment", ["new", "known", "loyal"], table=SHARES)
    ad = cb.Variable("ad", range(ACTIONS), table=UNIFORM)
    return cb.Problem(
        cb.CausalModel([segment, ad]),
        manipulable=["ad"],
        reward_parents=["segment", "ad"],
        context=["segment"],
        optional=True,
    )


PROBLEM = make_problem()


def full_cover(context: int, progress: float) -> np.ndarray:
    return UNIFORM if context else np.array([0.1, 0.3, 0.3, 0.3])


def lost_cover(context: int, progress: float) -> np.ndarray:
    """As a policy does that is sure of itself: after a quarter, the target's ad is not shown to new customers."""
    return WITHOUT_TARGET if context == 0 and progress >= 0.25 else UNIFORM


def no_cover(context: int, progress: float) -> np.ndarray:
    return WITHOUT_TARGET if context == 0 else UNIFORM


def hardly_any_cover(context: int, progress: float) -> np.ndarray:
    return np.array([1e-4, 0.4, 0.4, 0.1999]) if context == 0 else UNIFORM


def evaluate(rng: np.random.Generator, n: int, mixtures: Mixtures, reward: str, by: By) -> Evaluation:
    outcomes = []
    for k, context in enumerate(rng.choice(3, n, p=SHARES).tolist()):
        chances = mixtures(context, k / n)
        ad = int(rng.choice(ACTIONS, p=chances))
        mean = MEANS[context, ad]
        y = float(rng.random() < mean) if reward == "bernoulli" else float(rng.exponential(mean))
        support = tuple((PROBLEM.actions.find({"ad": a}), float(p)) for a, p in enumerate(chances) if p > 0)
        action = PROBLEM.actions.find({"ad": ad})
        outcomes.append((Outcome(action, (context, ad), y, y, k, float(chances[ad]), support, None, (context,)), True))
    return evaluate_target(PROBLEM, outcomes, TARGET, by)


@pytest.mark.parametrize("reward", ["bernoulli", "exponential"])
@pytest.mark.parametrize(("mixtures", "n"), [(full_cover, 60), (lost_cover, 60), (lost_cover, 300)])
def test_intervals_hold_over_contexts_of_unequal_probabilities(mixtures: Mixtures, n: int, reward: str) -> None:
    """Of 120 at 95%, 105 is 4 standard deviations below; averaged over what stays covered, a quarter of such held."""
    rng, found = np.random.default_rng(0), {}
    for _ in range(120):
        for name, estimate in evaluate(rng, n, mixtures, reward, "configurations").estimates.items():
            if estimate is not None:
                found.setdefault(name, []).append((estimate.mean, estimate.low <= TRUTH <= estimate.high))
    for name in ("direct", "ips", "snips", "dr"):
        means, held = np.array(found[name]).T
        assert len(means) > 40, name
        assert held.sum() >= 105 / 120 * len(held), name
        if name in ("ips", "dr"):  # unbiased: a false alarm in 10,000
            assert abs(means.mean() - TRUTH) < 4 * means.std(ddof=1) / np.sqrt(len(means)), name


@pytest.mark.parametrize("by", ["configurations", "actions"])
@pytest.mark.parametrize("mixtures", [no_cover, hardly_any_cover])
def test_without_cover_in_a_context_there_is_no_estimate_and_the_context_is_named(mixtures: Mixtures, by: By) -> None:
    found = evaluate(np.random.default_rng(1), 400, mixtures, "bernoulli", by)
    for name in ("ips", "snips", "dr"):
        assert found.estimates[name] is None
        assert "segment=new" in found.reasons[name]
        assert "known" not in found.reasons[name]
    assert found.estimates["direct"] is None  # what the target leads to there was never seen
    assert "without outcomes" in found.reasons["direct"]
    assert "not available" in repr(found)
    assert "segment=new" in repr(found)


def test_a_cells_mean_by_actions_is_of_its_context(tmp_path: Path) -> None:
    """The target's ad is shown mostly to new customers: their mean is not that of all."""

    def mixtures(context: int, progress: float) -> np.ndarray:
        return np.array([0.7, 0.1, 0.1, 0.1] if context == 0 else [0.1, 0.3, 0.3, 0.3])

    direct = evaluate(np.random.default_rng(2), 2000, mixtures, "bernoulli", "actions").estimates["direct"]
    assert direct is not None
    assert abs(direct.mean - TRUTH) < 0.1  # 0.17 too low, if contexts are pooled


def test_contexts_whose_decisions_have_no_outcomes_count(tmp_path: Path) -> None:
    policy = cb.policy("c-ts", prior="beta", samples=8)
    with cb.Study.create(tmp_path / "ads.db", PROBLEM, policy, seed=1, min_propensity=0.5) as study:
        rng = np.random.default_rng(3)
        for k in range(80):
            segment = ("new", "known")[k % 2]
            decision = study.ask(context={"segment": segment})
            if segment == "known":
                ad = decision.action.get("ad", 0)
                study.tell(decision.id, reward=float(rng.random() < 0.5), observed={"segment": segment, "ad": ad})
        found = study.evaluate(TARGET)
        assert found.estimates["dr"] is None
        assert "segment=new (50.0%)" in found.reasons["dr"]
        assert found.unknown_share == pytest.approx(0.5)


def evaluate_log(problem: cb.Problem, rewards: list[float], folder: Path) -> Evaluation:
    with cb.Study.create(folder / "log.db", problem, cb.policy("c-ts", samples=8), seed=1) as study:
        with study.together():
            for reward in rewards:
                decision = study.ask()
                study.tell(decision.id, reward=reward, observed={"offer": decision.action["offer"]})
        return study.evaluate({"offer": "a"})


def test_a_declared_range_widens_intervals_by_what_rare_rewards_could_add(tmp_path: Path) -> None:
    model = cb.CausalModel([cb.Variable("offer", ["a", "b"], table=[0.5, 0.5])])
    rewards = (0.5 + 0.1 * np.random.default_rng(1).standard_normal(120)).tolist()
    found = {}
    for name, reward_range in (("none", None), ("wide", (-1.0, 60.0)), ("narrow", (0.0, 1.0))):
        folder = tmp_path / name
        folder.mkdir()
        problem = cb.Problem(
            model, manipulable=["offer"], reward_parents=["offer"], optional=False, reward_range=reward_range
        )
        in_range = np.clip(rewards, *reward_range).tolist() if reward_range else rewards
        found[name] = evaluate_log(problem, in_range if name != "narrow" else np.round(in_range).tolist(), folder)
    plain, wide = found["none"].estimates["dr"], found["wide"].estimates["dr"]
    assert plain is not None
    assert wide is not None
    assert plain.high < 1.0
    assert wide.high > 0.5 + 60 * 0.02  # a chance of 2% would go unseen in 100 rewards
    assert "Assumption: no rare rewards are far larger than those observed" in repr(found["none"])
    assert found["wide"].assumes == ""
    assert found["narrow"].assumes == ""


def test_intervals_know_that_estimated_cpts_are_uncertain() -> None:
    # Taken for exact, CPTs from 30 rows made 95% intervals that covered half of the time.
    rng, runs, covered = np.random.default_rng(3), 60, dict.fromkeys(("direct", "ips", "snips", "dr"), 0)
    means = np.array([0.1, 0.5, 0.9])
    for _ in range(runs):
        rows = rng.dirichlet(np.ones(3), 2)
        truth = cb.CausalModel(
            [cb.Variable("ad", [0, 1], table=[0.5, 0.5]), cb.Variable("z", [0, 1, 2], parents=["ad"], table=rows)]
        )
        fitted = cb.fit(truth, truth.sample(30, rng=rng), values={"ad": [0, 1], "z": [0, 1, 2]})
        problem = cb.Problem(fitted, manipulable=["ad"], reward_parents=["z"], optional=False)
        actions = [problem.actions.find({"ad": ad}) for ad in (0, 1)]
        support, outcomes = ((actions[0], 0.3), (actions[1], 0.7)), []
        for k in range(600):
            ad = int(rng.random() < 0.7)
            z = int(rng.choice(3, p=rows[ad]))
            y = float(rng.random() < means[z])
            outcomes.append((Outcome(actions[ad], (z,), y, y, k, (0.3, 0.7)[ad], support, None, None), True))
        found = evaluate_target(problem, outcomes, {"ad": 0}, "configurations").estimates
        for name in covered:
            estimate = found[name]
            covered[name] += estimate is not None and estimate.low <= rows[0] @ means <= estimate.high
    assert min(covered.values()) >= 0.86 * runs, covered
