"""The e-mail campaign without its graph, and its past rows, for tests of learned structure."""

from __future__ import annotations

from typing import Any

import numpy as np

import causalbandits as cb

EMAIL = cb.zoo.email_campaign().problem.model
MANIPULABLE = {name: list(EMAIL[name].states) for name in ("product", "purpose", "send_time")}
OBSERVED = {name: list(EMAIL[name].states) for name in ("subject", "template")}
COSTS = {"product": {"Acrobat XI Pro": 0.02, "Adobe Stock": 0.05}, "purpose": {"Promo": 0.06, "Nurture": 0.03}}


def environment(**arguments: Any) -> cb.Environment:
    """The true e-mail campaign."""
    problem = cb.Problem(
        EMAIL, manipulable=list(MANIPULABLE), reward_parents=["subject", "template", "send_time"], **arguments
    )
    return cb.Environment(problem, cb.zoo.email_campaign().reward)


ENVIRONMENT = environment()


def problem(**arguments: Any) -> cb.Problem:
    """The campaign as a problem without a graph."""
    return cb.Problem(None, reward="click", manipulable=MANIPULABLE, values=OBSERVED, **arguments)


def sample_outcome(action: Any, rng: np.random.Generator) -> tuple[float, dict[str, str]]:
    """The reward and the observed values of an action."""
    codes, _, reward = ENVIRONMENT.draw_all(ENVIRONMENT.problem.choices(action), rng)
    return reward, {name: OBSERVED[name][codes[name]] for name in OBSERVED}


def randomised_rows(n: int, seed: int) -> dict[str, list[Any]]:
    """Columns of rounds with uniformly random actions; `set` names the manipulable variables."""
    rng, space = np.random.default_rng(seed), problem().actions
    rows = []
    for _ in range(n):
        action = dict(space.action(int(rng.integers(space.size))).intervention)
        reward, observed = sample_outcome(action, rng)
        rows.append({**action, **observed, "click": reward, "set": ",".join(MANIPULABLE)})
    return {name: [row[name] for row in rows] for name in rows[0]}


def play(agent: Any, rounds: int, seed: int) -> None:
    """Decisions with outcomes of the true campaign."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.ask()
        reward, observed = sample_outcome(decision.action, rng)
        agent.tell(decision, reward=reward, observed=observed)
