"""Regret with an unobserved confounder where the graph is not known: python benchmarks/latent.py [--replications N]

The e-mail campaign with 36 actions, in which an unobserved taste brings template 1 and clicks. Template 1 itself costs
clicks, but customers who got it click more often. C-TS with learned structure plays with and without the declaration
latent=[("template", "click")], beside Thompson sampling per action. The order of each variable's values is drawn anew
in every replication. Writes latent.json after each replication.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import causalbandits as cb
from causalbandits_bench.unknown_graphs import EMAIL_MANIPULABLE, email_without_graph

RESULT = Path(__file__).with_name("latent.json")
HORIZON, REPLICATIONS = 5000, 40
PAIR = ("template", "click")
SHIFT = 0.3
"""The taste changes the probability of template 1 by so much, down or up."""
EFFECTS = {
    "subject": {"short": 0.03, "long": -0.03},
    "template": {"1": -0.1, "2": 0.1},
    "send_time": {"morning": 0.03, "afternoon": 0.0, "evening": -0.03},
    "taste": {0: -0.3, 1: 0.3},
}
"""What each value adds to a click probability of 0.5."""

PLAYERS = (
    ("nothing", "c-ts-structure", False),
    ("`latent`", "c-ts-structure", True),
    ("nothing", "c-ts-structure(prior=beta)", False),
    ("`latent`", "c-ts-structure(prior=beta)", True),
    ("no structure", "ts(prior=beta)", False),
)


def confounded_environment(replication: int) -> cb.Environment:
    """The campaign with an unobserved taste, values in a random order."""
    rng = np.random.default_rng([replication, 27])
    original = cb.zoo.email_campaign().problem.model
    order = {name: rng.permutation(len(original[name].states)) for name in original.names}
    states = {name: [original[name].states[k] for k in order[name]] for name in original.names}
    states["taste"] = [0, 1]
    variables = [cb.Variable("taste", [0, 1], table=[0.5, 0.5])]
    for name in original.order:
        parents = list(original[name].parents)
        table = original[name].table[np.ix_(*(order[axis] for axis in (*parents, name)))]
        if name == "template":
            first = states[name].index("1")
            shifts = np.where(np.arange(2) == first, SHIFT, -SHIFT)
            table = np.clip(np.stack([table - shifts, table + shifts], axis=-2), 0.02, 0.98)
            parents.append("taste")
        variables.append(cb.Variable(name, states[name], parents=parents, table=table))
    problem = cb.Problem(cb.CausalModel(variables), manipulable=list(EMAIL_MANIPULABLE), reward_parents=list(EFFECTS))
    effects = [np.array([EFFECTS[name][state] for state in states[name]]) for name in problem.parents]
    means = 0.5 + sum(np.ix_(*effects))
    return cb.Environment(problem, cb.rewards.BernoulliReward(means))


def believed(env: cb.Environment, is_declared: bool) -> cb.Problem:
    """The variables and their values, without a graph."""
    return email_without_graph(env, latent=[PAIR] if is_declared else None)


def final_regret(replication: int, policy: str, is_declared: bool) -> float:
    env = confounded_environment(replication)
    run = cb.simulate(
        env,
        policy,
        believed=believed(env, is_declared),
        horizon=HORIZON,
        replications=range(replication, replication + 1),
        seed=0,
        progress=False,
    )
    return float(run.regret(policy)[0, -1])


def final_regrets(replication: int) -> list[float]:
    """Of every player, in one environment."""
    return [final_regret(replication, policy, is_declared) for _, policy, is_declared in PLAYERS]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if chosen.workers == 1:
        write(map(final_regrets, range(chosen.replications)))
    else:
        with ProcessPoolExecutor(chosen.workers) as pool:
            write(pool.map(final_regrets, range(chosen.replications)))


def write(regrets: Iterable[list[float]]) -> None:
    """Write the means of the replications so far, after each."""
    found: list[list[float]] = [[] for _ in PLAYERS]
    for replication, of_replication in enumerate(regrets):
        for own, regret in zip(found, of_replication, strict=True):
            own.append(regret)
        print(f"\r{replication + 1} replications", end="", file=sys.stderr, flush=True)
        rows: list[dict[str, Any]] = [
            {
                "knowledge": knowledge,
                "policy": policy,
                "mean": float(np.mean(own)),
                "standard_error": float(np.std(own, ddof=1) / len(own) ** 0.5) if len(own) > 1 else 0.0,
                "worst": max(own),
            }
            for own, (knowledge, policy, _) in zip(found, PLAYERS, strict=True)
        ]
        results = {"horizon": HORIZON, "replications": replication + 1, "rows": rows}
        RESULT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(file=sys.stderr)


if __name__ == "__main__":
    main()
