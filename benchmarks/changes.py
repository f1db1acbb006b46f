"""Regret where mechanisms change, and how changes are noticed. python benchmarks/changes.py [part ...]

Regret is dynamic: against the best action of each round. Parts: the e-mail campaign with 36 actions under each kind of
change (`zoo.email_changes`), the three arms of Besson et al. (2020) (`zoo.changing_arms`), and false alarms of the
tests where nothing changes, for four kinds of rewards. Writes changes.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import causalbandits as cb
from causalbandits_bench.unknown_graphs import email_without_graph

HERE = Path(__file__).parent
HORIZON = 5000
EMAIL_CHANGES = ("none", "subject", "template", "evening", "several", "one cell", "wandering")
EMAIL_POLICIES = {
    "given the graph": [
        "c-ts(prior=beta, cpts=learned)",
        "c-ts(prior=beta, cpts=learned, changes=0.05)",
    ],
    "told nothing": ["c-ts-structure(prior=beta)", "c-ts-structure(prior=beta, changes=0.05)"],
    "no structure": ["ts(prior=beta)", "ts(prior=beta, changes=0.05)"],
}
ARM_POLICIES = ["ts(prior=beta)", "ts(prior=beta, changes=0.05)", "kl-ucb", "kl-ucb(changes=0.05)"]

Row = dict[str, Any]


def summary(found: list[float]) -> Row:
    error = float(np.std(found, ddof=1) / len(found) ** 0.5) if len(found) > 1 else 0.0
    return {"mean": float(np.mean(found)), "standard_error": error}


def email_part(change: str, replications: int, workers: int) -> list[Row]:
    source = partial(draw_email, change)
    rows = []
    for knowledge, policies in EMAIL_POLICIES.items():
        believed = email_without_graph(cb.zoo.email_changes("none").at(1)) if knowledge == "told nothing" else None
        for policy in policies:
            run = cb.simulate(
                source,
                policy,
                horizon=HORIZON,
                replications=replications,
                seed=0,
                workers=workers,
                believed=believed,
                progress=sys.stderr.isatty(),
            )
            rows.append({"knowledge": knowledge, "policy": policy, **summary(run.regret(policy)[:, -1].tolist())})
            print(f"{change} | {knowledge} | {policy} | {rows[-1]['mean']:.1f} ({rows[-1]['standard_error']:.1f})")
    return rows


def draw_email(change: str, rng: np.random.Generator) -> Any:
    return cb.zoo.email_changes(change, rng, horizon=HORIZON)


def arms_part(number: int, replications: int, workers: int) -> list[Row]:
    rows = []
    for policy in ARM_POLICIES:
        run = cb.simulate(
            cb.zoo.changing_arms(number, horizon=HORIZON),
            policy,
            horizon=HORIZON,
            replications=replications,
            seed=0,
            workers=workers,
            progress=sys.stderr.isatty(),
        )
        rows.append({"policy": policy, **summary(run.regret(policy)[:, -1].tolist())})
        print(f"three arms, problem {number} | {policy} | {rows[-1]['mean']:.1f} ({rows[-1]['standard_error']:.1f})")
    return rows


# Alarms: what the tests notice, and what they report where nothing changes.

ALARM_HORIZON = 2000
KINDS = ("coins", "normal", "skewed", "rare")
GRAPH = "a, b -> m; m, c -> y"
VALUES = {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1], "m": [0, 1, 2]}


def draw_reward(kind: str, mean: float, rng: np.random.Generator) -> float:
    if kind == "coins":
        return float(rng.random() < mean)
    if kind == "rare":
        return float(rng.random() < 0.02 * mean)
    if kind == "normal":
        return float(rng.normal(mean, 0.5))
    return float(mean * rng.lognormal(0.0, 1.5))


def first_alarm(kind: str, replication: int, changed: str | None) -> tuple[str, int] | None:
    """The first mechanism that is reported, and the decision at which it is; None if none is.

    The world is drawn at random: three manipulable variables, one mediator, and a reward. With `changed`, that
    mechanism is drawn anew at half of the rounds.
    """
    rng = np.random.default_rng([KINDS.index(kind), replication, 27])
    problem = cb.Problem(
        GRAPH,
        reward="y",
        manipulable={name: VALUES[name] for name in "abc"},
        values={"m": VALUES["m"]},
    )
    prior = "beta, " if kind in ("coins", "rare") else ""
    policy = f"c-ts({f'prior={prior}' if prior else ''}cpts=learned, changes=0.05)"
    agent = cb.Agent(problem, policy, seed=replication)
    cpt, means = rng.dirichlet(np.ones(3), size=(2, 3)), rng.random((3, 2))
    for t in range(ALARM_HORIZON):
        if changed is not None and t == ALARM_HORIZON // 2:
            if changed == "m":
                cpt = rng.dirichlet(np.ones(3), size=(2, 3))
            else:
                means = rng.random((3, 2))
        decision = agent.ask()
        a, b, c = (VALUES[name].index(decision.action[name]) for name in "abc")
        m = int(rng.choice(3, p=cpt[a, b]))
        agent.tell(decision, reward=draw_reward(kind, means[m, c], rng), observed={"m": VALUES["m"][m]})
        changes = agent.changes().changes if t % 25 == 24 else ()
        if changes:
            return changes[0].mechanism, changes[0].noticed
    return None


def _first_alarm(task: tuple[str, int, str | None]) -> tuple[str, int] | None:
    warnings.simplefilter("ignore")
    return first_alarm(*task)


def alarms_part(replications: int, workers: int) -> list[Row]:
    rows = []
    with ProcessPoolExecutor(workers) as pool:
        for kind in KINDS:
            for changed in (None, "m", "y"):
                tasks = [(kind, replication, changed) for replication in range(replications)]
                found = list(pool.map(_first_alarm, tasks, chunksize=4))
                false = sum(
                    alarm is not None and (changed is None or alarm[1] <= ALARM_HORIZON // 2) for alarm in found
                )
                later = [alarm for alarm in found if alarm is not None and alarm[1] > ALARM_HORIZON // 2]
                named = Counter(mechanism for mechanism, _ in later)
                delays = [noticed - ALARM_HORIZON // 2 for mechanism, noticed in later if mechanism == changed]
                row = {
                    "rewards": kind,
                    "changed": changed or "nothing",
                    "runs": replications,
                    "false_alarms": false,
                    "noticed": len(later) if changed else 0,
                    "right_mechanism": named[changed] if changed else 0,
                    "median_delay": float(np.median(delays)) if delays else None,
                }
                rows.append(row)
                print(row, flush=True)
    return rows


PARTS = [*EMAIL_CHANGES, "three arms, problem 1", "three arms, problem 2", "alarms"]


def play_part(part: str, replications: int, workers: int) -> list[Row]:
    if part == "alarms":
        return alarms_part(replications, workers)
    if part.startswith("three arms"):
        return arms_part(int(part[-1]), replications, workers)
    return email_part(part, replications, workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all, if left out")
    parser.add_argument("--replications", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    path = HERE / "changes.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for part in chosen.parts or PARTS:
        rows = play_part(part, chosen.replications, chosen.workers)
        horizon = ALARM_HORIZON if part == "alarms" else HORIZON
        results[part] = {"horizon": horizon, "replications": chosen.replications, "rows": rows}
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
