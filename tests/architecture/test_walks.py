"""How many files a reader must open to follow one call: budgets that only shrink.

A walk is what `sys.setprofile` sees of one call: the files of the package that it enters, and how deep it goes. The
calls are warm: the action was chosen before, and everything that is computed once has been computed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine.driver import play

PACKAGE = str(Path(cb.__file__).parent) + "/"
COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")


class Walk(NamedTuple):
    """The files that a call enters, in the order in which it enters them, and its deepest stack within the package."""

    files: tuple[str, ...]
    depth: int


def trace(call) -> Walk:
    files: dict[str, None] = {}
    stack, deepest = [], 0

    def profile(frame, event, argument):
        nonlocal deepest
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name in COMPREHENSIONS:
            return
        if event == "call":
            files.setdefault(code.co_filename.removeprefix(PACKAGE))
            stack.append(frame)
            deepest = max(deepest, len(stack))
        elif event == "return" and stack and stack[-1] is frame:
            stack.pop()

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Walk(tuple(files), deepest)


def play_rounds(agent_or_study, env, rounds, rng):
    for _ in range(rounds):
        decision = agent_or_study.ask()
        outcome = env.pull(decision.action, rng)
        agent_or_study.tell(decision.id, reward=outcome.reward, observed=outcome.parents)


def ask_and_tell(agent_or_study, env, rng):
    """The walks of a decision and of its outcome: of ten each, the one that passes through the fewest files."""
    asks, tells = [], []
    for _ in range(10):
        made = []
        asks.append(trace(lambda: made.append(agent_or_study.ask())))  # noqa: B023
        outcome = env.pull(made[0].action, rng)
        told = {"reward": outcome.reward, "observed": outcome.parents}
        tells.append(trace(lambda: agent_or_study.tell(made[0], **told)))  # noqa: B023
    return min(asks, key=lambda walk: len(walk.files)), min(tells, key=lambda walk: len(walk.files))


@pytest.fixture(scope="module")
def env():
    return cb.zoo.email_campaign()


@pytest.mark.parametrize(
    ("policy", "ask", "tell"),
    [("c-ts(prior=beta)", (10, 7), (8, 6)), ("c-ucb", (11, 8), (8, 6)), (None, (14, 9), (11, 8))],
    ids=["c-ts(prior=beta)", "c-ucb", "default"],
)
def test_a_decision_and_an_outcome_of_an_agent(env, policy, ask, tell):
    agent, rng = cb.Agent(env.problem, policy, seed=0), np.random.default_rng(0)
    play_rounds(agent, env, 60, rng)
    for walk, (files, depth) in zip(ask_and_tell(agent, env, rng), (ask, tell), strict=True):
        assert len(walk.files) <= files, walk
        assert walk.depth <= depth, walk


def test_a_decision_and_an_outcome_of_a_study(env, tmp_path):
    rng = np.random.default_rng(0)
    with cb.Study.create(tmp_path / "campaign.db", env.problem, "c-ts(prior=beta)", seed=0) as study:
        play_rounds(study, env, 60, rng)
        for walk, (files, depth) in zip(ask_and_tell(study, env, rng), ((20, 11), (18, 10)), strict=True):
            assert len(walk.files) <= files, walk
            assert walk.depth <= depth, walk


def test_a_plain_simulated_round(env):
    """The calls of the driver's loop from the last decision on."""
    horizon, children, driver = 50, [], []

    def profile(frame, event, argument):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name in COMPREHENSIONS:
            return
        if code is play.__code__:
            driver.append(frame)
        elif driver and frame.f_back is driver[0]:
            children.append((code.co_name, {code.co_filename.removeprefix(PACKAGE)}))
        elif children:
            children[-1][1].add(code.co_filename.removeprefix(PACKAGE))

    chosen = cb.policy("c-ts", prior="beta")
    sys.setprofile(profile)
    try:
        play(env, chosen, env.problem, np.array([horizon]), seed=0, replication=0)
    finally:
        sys.setprofile(None)
    names = [name for name, _ in children]
    first = next(name for name in names if names.count(name) == horizon)  # what the loop calls first: the decision
    start = len(names) - 1 - names[::-1].index(first)
    files = set().union(*(found for _, found in children[start:])) | {"engine/driver.py"}
    assert len(files) <= 12, sorted(files)
