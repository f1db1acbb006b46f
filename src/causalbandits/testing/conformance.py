"""The rules that the agent and the simulator rely on, each as a function of a policy."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from causalbandits.agent import Agent
from causalbandits.engine import simulate
from causalbandits.errors import PolicyError
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.model import CausalModel
from causalbandits.model.variable import Variable
from causalbandits.policies import Policy
from causalbandits.problem.problem import CausalBandit
from causalbandits.world import zoo
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import BernoulliReward

DRAWS = 400
STANDARD_ERRORS = 6.0
"""Averages of drawn scores may differ by this much: for 80 actions, chance breaks it less than once in 10^6 checks."""


class Event(NamedTuple):
    """One past round: what was done, which configuration came, what it paid."""

    intervention: Mapping[str, State]
    z: tuple[int, ...]
    reward: float


def check_policy(policy: Policy) -> None:
    """Run every check.

    >>> from causalbandits import CausalUCB
    >>> check_policy(CausalUCB())
    """
    for check in CHECKS:
        check(policy)


def check_scoring_is_pure(policy: Policy) -> None:
    """Scoring changes nothing and depends on nothing but problem, statistic and random numbers."""
    if not isinstance(policy, Policy):
        raise PolicyError(f"The checks take a policy, such as CausalUCB(); got {policy!r}.")
    env = zoo.email_campaign()
    fresh = policy.scored(env.problem, policy.begin(env.problem), np.random.default_rng(3))
    assert np.isfinite(fresh.values).all(), f"{policy}: scores must be finite, also before the first reward."
    statistic = _taught(policy, env.problem, _history(env, 60))
    before = json.dumps(statistic.to_record())
    first, second = (policy.score(env.problem, statistic, np.random.default_rng(3)) for _ in range(2))
    assert json.dumps(statistic.to_record()) == before, f"{policy}: score() changed the statistic."
    assert np.array_equal(first.values, second.values), f"{policy}: two scorings with the same random numbers differ."
    searched = env.problem.actions.size if first.number is None else len(env.problem.project(np.zeros(12)).values)
    assert first.values.shape == (searched,), (
        f"{policy}: {searched} searched actions need as many scores; got shape {first.values.shape}."
    )


def check_scores_permute(policy: Policy) -> None:
    """Numbering the actions otherwise gives the same scores, renumbered, and the same choice where it is unique.

    A policy that draws a number per action meets this in the mean over draws only, and is checked so.
    """
    env = zoo.email_campaign()
    p = env.problem
    env = Environment(CausalBandit(p.model, p.manipulable, p.parents, reduce=False), env.reward)
    actions = list(env.problem.actions)
    order = np.random.default_rng(11).permutation(len(actions))
    shuffled = CausalBandit(
        env.problem.model,
        env.problem.manipulable,
        env.problem.parents,
        actions=[actions[i] for i in order],
    )
    history = _history(env, 200)
    ours = _taught(policy, env.problem, history)
    theirs = _taught(policy, shuffled, history)

    def scores(problem: CausalBandit, statistic: Any, seed: int) -> Any:
        return policy.score(problem, statistic, np.random.default_rng(seed)).values

    straight, turned = scores(env.problem, ours, 0)[order], scores(shuffled, theirs, 0)
    if np.allclose(straight, turned, rtol=1e-9, atol=1e-9):
        runner_up, best = np.sort(turned)[-2:]
        if best - runner_up > 1e-6:
            assert np.argmax(straight) == np.argmax(turned), f"{policy}: the choice depends on the numbering."
        return
    assert policy.randomised, f"{policy}: scores depend on how the actions are numbered."
    a = np.array([scores(env.problem, ours, seed)[order] for seed in range(DRAWS)])
    b = np.array([scores(shuffled, theirs, seed + DRAWS) for seed in range(DRAWS)])
    error = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / DRAWS)
    worst = int(np.argmax(np.abs(a.mean(axis=0) - b.mean(axis=0)) - STANDARD_ERRORS * error))
    assert abs(a[:, worst].mean() - b[:, worst].mean()) <= STANDARD_ERRORS * error[worst] + 1e-9, (
        f"{policy}: the mean score of {shuffled.actions[worst]} depends on how the actions are numbered."
    )


def check_state_round_trips(policy: Policy) -> None:
    """A statistic through JSON, and an agent through a file, go on as if nothing had happened."""
    env = zoo.email_campaign()
    statistic = _taught(policy, env.problem, _history(env, 60))
    restored = policy.start(env.problem)
    restored.restore(json.loads(json.dumps(statistic.to_record())))
    scores = [policy.score(env.problem, s, np.random.default_rng(5)).values for s in (statistic, restored)]
    assert np.array_equal(scores[0], scores[1]), f"{policy}: a statistic that went through JSON scores differently."
    agent = Agent(env.problem, policy, seed=1)
    _converse(agent, env, 40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.json"
        agent.save(path)
        resumed = Agent.load(path, policy=policy)
    assert _converse(agent, env, 40) == _converse(resumed, env, 40), (
        f"{policy}: an agent that was saved and loaded decides differently."
    )


def check_seeded_runs_repeat(policy: Policy) -> None:
    """The same seed gives the same regret, also for a copy of the policy that was pickled."""
    env = zoo.email_campaign()
    copy = pickle.loads(pickle.dumps(policy))
    runs = [simulate(env, {"it": p}, horizon=80, replications=2, seed=4) for p in (policy, policy, copy)]
    for run in runs[1:]:
        assert np.array_equal(runs[0].regret("it"), run.regret("it")), f"{policy}: a seeded run does not repeat."


def check_identity(causal: Policy, plain: Policy, *, horizon: int = 400) -> None:
    """Where every action leads to a configuration of its own (P = identity), two policies are the same, bit for bit.

    >>> from causalbandits import UCB, CausalUCB
    >>> check_identity(CausalUCB(), UCB())
    """
    k = 7
    arm = Variable("arm", list(range(k)), table=np.full(k, 1 / k))
    problem = CausalBandit(CausalModel([arm]), manipulable=["arm"], parents=["arm"], always=["arm"])
    env = Environment(problem, BernoulliReward(np.linspace(0.2, 0.8, k)))
    rngs = [np.random.default_rng(9) for _ in range(2)]
    world = np.random.default_rng(10)
    pair = [(p.for_horizon(horizon), p.start(problem)) for p in (causal, plain)]
    for t in range(horizon):
        scores = [p.score(problem, s, rng) for (p, s), rng in zip(pair, rngs, strict=True)]
        assert np.array_equal(scores[0].values, scores[1].values), (
            f"{causal} and {plain} must score alike where P is the identity; they differ in round {t + 1}."
        )
        action = scores[0].first_best()
        z, reward = env.draw(problem.actions.choices(action), world)
        for (p, s), rng in zip(pair, rngs, strict=True):
            p.update(problem, s, action, z, reward, rng)


CHECKS: tuple[Callable[[Policy], None], ...] = (
    check_scoring_is_pure,
    check_scores_permute,
    check_state_round_trips,
    check_seeded_runs_repeat,
)


def _history(env: Environment, rounds: int) -> list[Event]:
    rng = np.random.default_rng(0)
    actions = rng.integers(env.problem.actions.size, size=rounds).tolist()
    return [Event(env.problem.actions[a], *env.draw(env.problem.actions.choices(a), rng)) for a in actions]


def _taught(policy: Policy, problem: CausalBandit, history: list[Event]) -> Any:
    statistic, rng = policy.start(problem), np.random.default_rng(1)
    for event in history:
        policy.update(problem, statistic, problem.actions.index(event.intervention), event.z, event.reward, rng)
    return statistic


def _converse(agent: Agent, env: Environment, rounds: int) -> list[Intervention]:
    world = np.random.default_rng(2)
    decided = []
    for _ in range(rounds):
        decision = agent.ask()
        outcome = env.pull(decision.intervention, world)
        agent.tell(decision.id, outcome.parents, outcome.reward)
        decided.append(decision.intervention)
    return decided
