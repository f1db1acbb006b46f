"""Regret where the causal graph is not known. python benchmarks/structure.py [part ...] [--replications N]

Plays C-TS with learned structure on the e-mail campaign with 36 actions, told nothing but the variables and their
values, beside C-TS that is given the right graph, C-TS and guarded C-TS that are given a wrong one, and Thompson
sampling per action. The order of each variable's values is drawn anew in every replication, so that no rule such as
"the first of the best" can help a policy. Writes structure.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import causalbandits as cb

HERE = Path(__file__).parent
HORIZON, DECOYS = 5000, 4
MANIPULABLE, OBSERVED = ("product", "purpose", "send_time"), ("subject", "template")
GRAPH = "purpose -> subject; product, purpose -> template; subject, template, send_time -> click"

Case = tuple[str, Callable[[cb.Environment], cb.Problem]]


def permuted_environment(replication: int, effect: float = 0.0, decoys: int = 0) -> cb.Environment:
    """The e-mail campaign, values in a random order; product changes click rates by `effect`, half of it each way."""
    rng = np.random.default_rng([replication, 27])
    original = cb.zoo.email_campaign()
    model = original.problem.model
    order = {name: rng.permutation(len(model[name].states)) for name in model.names}
    variables = []
    for name in model.order:
        axes = [*model[name].parents, name]
        table = model[name].table[np.ix_(*(order[axis] for axis in axes))]
        states = [model[name].states[k] for k in order[name]]
        variables.append(cb.Variable(name, states, parents=model[name].parents, table=table))
    noise = [f"decoy_{k}" for k in range(decoys)]
    variables += [cb.Variable(name, [0, 1], table=[0.5, 0.5]) for name in noise]
    parents = ("subject", "template", "send_time", *(("product",) if effect else ()))
    problem = cb.Problem(cb.CausalModel(variables), manipulable=list(MANIPULABLE), reward_parents=[*parents, *noise])
    means = original.configuration_means.reshape(original.problem.shape)
    means = means[np.ix_(*(order[name] for name in original.problem.parents))]
    if effect:
        signs = np.where(order["product"] % 2 == 0, 0.5, -0.5)
        means = np.clip(means[..., None] + effect * signs, 0.02, 0.98)
    means = means.reshape(*means.shape, *(1 for _ in noise))
    return cb.Environment(problem, cb.rewards.BernoulliReward(np.broadcast_to(means, problem.shape)))


def values_of(env: cb.Environment, names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: list(env.problem.variable(name).states) for name in names}


def without_graph(env: cb.Environment) -> cb.Problem:
    decoys = tuple(name for name in env.problem.parents if name.startswith("decoy"))
    return cb.Problem(
        None, reward="click", manipulable=values_of(env, MANIPULABLE), values=values_of(env, (*OBSERVED, *decoys))
    )


def with_graph(env: cb.Environment, known: Any = None, graph: str = GRAPH) -> cb.Problem:
    return cb.Problem(
        graph,
        reward="click",
        known=known,
        manipulable=values_of(env, MANIPULABLE),
        values=values_of(env, OBSERVED),
    )


def partly(env: cb.Environment) -> cb.Problem:
    return with_graph(env, known="partly")


def model_without_arrow(env: cb.Environment) -> cb.Problem:
    """The right CPTs and a graph in which product does not cause clicks: for the guard, which needs CPTs."""
    return cb.Problem(
        env.problem.model, manipulable=list(MANIPULABLE), reward_parents=["subject", "template", "send_time"]
    )


PARTS: dict[str, tuple[dict[str, Any], list[tuple[str, str, Callable[[cb.Environment], cb.Problem]]]]] = {
    "right graph": (
        {},
        [
            ("given the right graph", "c-ts(prior=beta, cpts=learned)", with_graph),
            ("told nothing", "c-ts-structure(prior=beta)", without_graph),
            ("told nothing", "c-ts-structure", without_graph),
            ("no structure", "ts(prior=beta)", without_graph),
        ],
    ),
    "decoys": (
        {"decoys": DECOYS},
        [("told nothing", "c-ts-structure(prior=beta)", without_graph)],
    ),
    "missing arrow": (
        {"effect": 0.3},
        [
            ("told nothing", "c-ts-structure(prior=beta)", without_graph),
            ("given the wrong graph, known partly", "c-ts-structure(prior=beta)", partly),
            ("given the wrong graph and the right CPTs", "c-ts-guarded(prior=beta)", model_without_arrow),
            ("given the wrong graph and the right CPTs", "c-ts(prior=beta)", model_without_arrow),
            ("no structure", "ts(prior=beta)", without_graph),
        ],
    ),
}


def regrets(part: str, policy: str, believed: Callable[[cb.Environment], cb.Problem], replications: int) -> list[float]:
    """The final regret of each replication, in an environment of its own."""
    settings = PARTS[part][0]
    found = []
    for replication in range(replications):
        env = permuted_environment(replication, **settings)
        run = cb.simulate(
            env,
            policy,
            believed=believed(env),
            horizon=HORIZON,
            replications=range(replication, replication + 1),
            seed=0,
            progress=False,
        )
        found.append(float(run.regret(policy)[0, -1]))
        print(f"\r{part}: {policy}, {replication + 1} of {replications}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all, if left out")
    parser.add_argument("--replications", type=int, default=60)
    chosen = parser.parse_args()
    path = HERE / "structure.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for part in chosen.parts or PARTS:
        rows = []
        for knowledge, policy, believed in PARTS[part][1]:
            found = regrets(part, policy, believed, chosen.replications)
            mean, error = float(np.mean(found)), float(np.std(found, ddof=1) / len(found) ** 0.5)
            rows.append({"knowledge": knowledge, "policy": policy, "mean": mean, "standard_error": error})
            print(f"{part} | {knowledge} | {policy} | {mean:.1f} ({error:.1f})")
        results[part] = {"horizon": HORIZON, "replications": chosen.replications, "rows": rows}
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
