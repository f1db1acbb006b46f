"""Regret if an unobserved confounder is ignored: python benchmarks/hidden.py [part ...], into hidden.json beside it.

An unobserved segment of users reverses the order of two channels (docs/explanation/identification.md). Each replication
draws its own past rows, fits its model to them, and plays in the same environment. Without names, all parts are
measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import causalbandits as cb

RESULT = Path(__file__).with_name("hidden.json")
HORIZON, REPLICATIONS = 3000, 400
MODEL = cb.CausalModel([
    cb.Variable("segment", [0, 1], table=[.5, .5]),
    cb.Variable("channel", [0, 1], parents=["segment"], table=[[.9, .1], [.1, .9]]),
    cb.Variable("exposure", [0, 1], parents=["channel"], table=[[.8, .2], [.2, .8]]),
    cb.Variable("engagement", [0, 1], parents=["segment", "exposure"],
                table=[[[.8, .2], [.9, .1]], [[.2, .8], [.3, .7]]]),
    cb.Variable("sale", [0, 1], parents=["engagement"], table=[[.8, .2], [.2, .8]]),
])  # fmt: skip
ENV = cb.Environment.from_model(MODEL, manipulable=["channel"], reward="sale", optional=True)
GRAPH = MODEL.causal_graph.with_hidden(["segment"])
IGNORED = {name: [cause for cause in GRAPH.parents[name] if cause != "segment"] for name in GRAPH.names}

Belief = Callable[[int], cb.Problem]


def fitted(graph: Any, rows: int, of_an_experiment: int = 0) -> Belief:
    """What is believed after so many rows, and so many in which a coin set the channel, as it then always will be."""

    def believed(replication: int) -> cb.Problem:
        rng = np.random.default_rng([rows, replication])
        parts = [MODEL.sample(rows, rng=rng)]
        parts += [MODEL.sample(of_an_experiment // 2, do={"channel": c}, rng=rng) for c in (0, 1)]
        data = {name: np.concatenate([part[name] for part in parts]) for name in GRAPH.names}
        was_set = {"channel": np.arange(rows + of_an_experiment) >= rows}
        known = cb.fit(graph, data, interventions=was_set)
        always = ["channel"] if of_an_experiment else []
        return cb.Problem(
            known,
            manipulable=["channel"],
            reward_parents=["engagement"],
            optional=[name for name in ["channel"] if name not in always],
        )

    return believed


def exact(replication: int) -> cb.Problem:
    """What is believed after rows without end."""
    return cb.Problem(
        cb.LatentModel.from_model(MODEL, hidden=["segment"]),
        manipulable=["channel"],
        reward_parents=["engagement"],
        optional=True,
    )


BELIEFS: dict[str, Belief] = {
    "rows without end": exact,
    "1,000 rows": fitted(GRAPH, 1000),
    "300 rows": fitted(GRAPH, 300),
    "300 rows and 1,000 of an experiment, channel always set": fitted(GRAPH, 300, 1000),
    "1,000 rows, hidden cause ignored": fitted(IGNORED, 1000),
}


def measured(believed: Belief) -> dict[str, float]:
    """Regret of C-TS, half way and at the end; and how often the rows name another action than the best."""
    found = []
    for replication in range(REPLICATIONS):
        problem = believed(replication)
        run = cb.simulate(
            ENV, ["c-ts(prior=beta)"], believed=problem, horizon=HORIZON, rounds=[HORIZON // 2, HORIZON],
            replications=1, seed=replication, progress=False,
        )  # fmt: skip
        good = {str(do): problem.parent_distribution(do)[1] for do in problem.actions}
        best = max(good, key=lambda do: good[do])
        found.append([*run.measures["regret"]["c-ts(prior=beta)"][0], best != "do(channel=0)"])
    return summary(np.array(found, dtype=float))


def summary(found: Any) -> dict[str, float]:
    half, whole, *wrong = found.mean(axis=0).tolist()
    error = float(found[:, 1].std(ddof=1) / len(found) ** 0.5)
    told = {"wrong": wrong[0]} if wrong else {}
    return {"half way": round(half, 3), "regret": round(whole, 3), "standard error": round(error, 3), **told}


def played_without_graph(policy: str) -> dict[str, float]:
    rounds = [HORIZON // 2, HORIZON]
    run = cb.simulate(ENV, [policy], horizon=HORIZON, rounds=rounds, replications=REPLICATIONS, seed=0, progress=False)
    return summary(run.measures["regret"][policy])


PARTS: dict[str, Callable[[], dict[str, float]]] = {
    **{name: partial(measured, believed) for name, believed in BELIEFS.items()},
    **{f"no rows: {policy}": partial(played_without_graph, policy) for policy in ("ts(prior=beta)", "kl-ucb", "ucb")},
}


def main() -> None:
    before = json.loads(RESULT.read_text(encoding="utf-8"))["regret"] if RESULT.exists() else {}
    result = {}
    for name, part in PARTS.items():
        result[name] = part() if name in (sys.argv[1:] or PARTS) else before[name]
        print(name, result[name], flush=True)
    told = {"horizon": HORIZON, "replications": REPLICATIONS, "regret": result}
    RESULT.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
