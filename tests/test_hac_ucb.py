"""HAC-UCB against its listing, written plainly."""

from __future__ import annotations

import math

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.driver import WORLD, play, stream
from causalbandits.errors import PolicyError
from worlds import EMAIL, twenty_actions


def listing(P, pull, horizon):
    """The actions that HAC-UCB plays, and the round after which it left the graph."""
    K, Z = P.shape
    n_a, s_a, n_z, s_z = np.zeros(K), np.zeros(K), np.zeros(Z), np.zeros(Z)
    log, tries = 2 * math.log(horizon), round(math.sqrt(horizon) / K + 1)
    left, played = None, []
    for t in range(horizon):
        width_a, width_z = np.sqrt(log / (2 * np.maximum(n_a, 1))), np.sqrt(log / (2 * np.maximum(n_z, 1)))
        U = s_a / np.maximum(n_a, 1) + width_a
        C = P @ (s_z / np.maximum(n_z, 1) + width_z)
        if n_a.min() < tries:
            a = int((n_a < tries).argmax())
        else:
            if left is None and ((2 * width_a < U - C).any() or (2 * (P @ width_z) < C - U).any()):
                left = t
            scores = C if left is None else U
            a = int((scores >= scores.max() - 1e-12).argmax())
        z, y = pull(a)
        n_a[a] += 1
        s_a[a] += y
        if left is None:
            n_z[z] += 1
            s_z[z] += y
        played.append(a)
    return played, left


@pytest.mark.parametrize("case", ["worst", "email"])
def test_it_plays_its_listing(case):
    env, belief = twenty_actions() if case == "worst" else (EMAIL, EMAIL.problem)
    horizon = 900
    P = belief.parent_distributions().reshape(belief.actions.size, -1)
    policy = cb.HACUCB(horizon=horizon)
    ours, theirs = stream(3, 0, WORLD), stream(3, 0, WORLD)
    places = [env.problem.parents.index(name) for name in belief.parents]

    def draw(action, rng):
        z, reward = env.draw(belief.actions.choices(action), rng)
        return belief.configuration([z[place] for place in places]), reward

    expected, left = listing(P, lambda action: draw(action, theirs), horizon)
    situation, statistic, played = belief.situation(every=True), policy.begin(belief), []
    for t in range(horizon):
        action = policy.chosen(situation, statistic, np.random.default_rng(0)).action
        configuration, reward = draw(action.number, ours)
        z = tuple(int(code) for code in np.unravel_index(configuration, belief.shape))
        policy.update(situation, statistic, cb.policies.Outcome(action, z, reward, reward, t))
        played.append(action.number)
    assert played == expected
    assert bool(statistic.left) == (left is not None) == (case == "worst")


def test_its_regret_on_its_worst_case_is_the_published_one():
    """368 after 5000 rounds; four runs, whose spread is about 30, are within 60 of it."""
    env, belief = twenty_actions()
    policy = cb.HACUCB(horizon=5000)
    regrets = [play(env, policy, belief, np.array([5000]), 0, r).regret[-1] for r in range(4)]
    assert np.mean(regrets) == pytest.approx(368, abs=60)


def test_it_advises_by_the_view_that_it_takes():
    env, belief = twenty_actions()
    agent, rng = cb.Agent(belief, cb.HACUCB(horizon=1500), seed=1), np.random.default_rng(0)
    for _ in range(1500):
        decision = agent.ask()
        found = env.pull(decision.intervention, rng)
        agent.tell(decision.id, {"z": found.parents["z"]}, found.reward)
    assert agent._statistic.left
    best = agent.recommend()
    assert env.gap(best.intervention) == 0
    assert best.lower <= best.mean <= best.upper


def test_it_does_not_look_at_a_context_and_says_so():
    with pytest.raises(PolicyError, match="does not look at a context"):
        cb.Agent(cb.zoo.email_segments().problem, "hac-ucb")
