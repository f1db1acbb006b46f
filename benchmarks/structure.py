"""Regret where the causal graph is not known: python benchmarks/structure.py [part ...] [--replications N]

Plays C-TS with learned structure on the e-mail campaign with 36 actions, told nothing but the variables and their
values, beside C-TS that is given the right graph, C-TS and guarded C-TS that are given a wrong one, and Thompson
sampling per action. The order of each variable's values is drawn anew in every replication, so that no rule such as
"the first of the best" can help a policy.

Then plays it on the random graphs of Shahverdikondori et al. (2026) and on random trees as in Lu et al. (2021), beside
published algorithms (causalbandits_bench/unknown_graphs.py). A new graph is drawn in every replication; all variables
and values are exchangeable. Writes structure.json; the numbers do not depend on the number of workers.

With --speed, it prints the time of a round on the e-mail campaign and of an agent's decision, and plays nothing else.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import causalbandits as cb
from causalbandits.engine import driver
from causalbandits_bench.timing import side_by_side
from causalbandits_bench.unknown_graphs import (
    EMAIL_MANIPULABLE,
    EMAIL_OBSERVED,
    RAPS,
    KnownKUCBPlus,
    Player,
    StandardUCB,
    UnknownKUCBPlus,
    email_without_graph,
    environment_with_graph,
    play,
    problem_with_graph,
    problem_without_graph,
    settings_of,
    values_of,
)
from causalbandits_bench.workloads import engine_task

HERE = Path(__file__).parent
HORIZON, DECOYS = 5000, 4
GRAPH_HORIZON, GRAPH_VALUES, TREE_VALUES = 2000, 3, 2
GRAPH = "purpose -> subject; product, purpose -> template; subject, template, send_time -> click"


class Row(NamedTuple):
    """A policy, and what it is given."""

    knowledge: str
    policy: str
    regret: Callable[[int], float]
    """The final regret of a replication, in an environment of its own."""


class Part(NamedTuple):
    """Policies on the same environments."""

    horizon: int
    rows: tuple[Row, ...]


def play_policy(
    environment: Callable[[int], cb.Environment],
    policy: str,
    believed: Callable[[cb.Environment], cb.Problem],
    horizon: int,
    replication: int,
) -> float:
    """The final regret of a policy of the library."""
    # that some manipulable variables do not affect the reward is intended
    with warnings.catch_warnings(action="ignore", category=cb.errors.ProblemWarning):
        env = environment(replication)
        problem = believed(env)
    numbers = range(replication, replication + 1)
    run = cb.simulate(
        env, policy, believed=problem, horizon=horizon, replications=numbers, seed=0, progress=False, workers=1
    )
    return float(run.regret(policy)[0, -1])


def permuted_environment(
    replication: int, effect: float = 0.0, decoys: int = 0, arrow: tuple[str, float] | None = None
) -> cb.Environment:
    """The e-mail campaign, values in a random order; product changes click rates by `effect`, half of it each way.

    With `arrow`, a variable changes click rates by -effect for its first value to +effect for its last.
    """
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
    cause = "product" if effect else arrow[0] if arrow else ""
    parents = ("subject", "template", "send_time", *((cause,) if cause else ()))
    problem = cb.Problem(
        cb.CausalModel(variables), manipulable=list(EMAIL_MANIPULABLE), reward_parents=[*parents, *noise]
    )
    means = original.configuration_means.reshape(original.problem.shape)
    means = means[np.ix_(*(order[name] for name in original.problem.parents))]
    if effect:
        signs = np.where(order["product"] % 2 == 0, 0.5, -0.5)
        means = np.clip(means[..., None] + effect * signs, 0.02, 0.98)
    if arrow:
        shift = np.linspace(-arrow[1], arrow[1], len(model[cause].states))[order[cause]]
        means = np.clip(means[..., None] + shift, 0.02, 0.98)
    means = means.reshape(*means.shape, *(1 for _ in noise))
    return cb.Environment(problem, cb.rewards.BernoulliReward(np.broadcast_to(means, problem.shape)))


def without_graph(env: cb.Environment) -> cb.Problem:
    return email_without_graph(env, decoys=tuple(name for name in env.problem.parents if name.startswith("decoy")))


def with_graph(env: cb.Environment, known: Any = None, graph: str = GRAPH) -> cb.Problem:
    return cb.Problem(
        graph,
        reward="click",
        known=known,
        manipulable=values_of(env, EMAIL_MANIPULABLE),
        values=values_of(env, EMAIL_OBSERVED),
    )


def partly(env: cb.Environment) -> cb.Problem:
    return with_graph(env, known="partly")


def model_without_arrow(env: cb.Environment) -> cb.Problem:
    """The right CPTs and a graph in which product does not cause clicks: for the guard, which needs CPTs."""
    return cb.Problem(
        env.problem.model, manipulable=list(EMAIL_MANIPULABLE), reward_parents=["subject", "template", "send_time"]
    )


def email_part(rows: list[tuple[str, str, Callable[[cb.Environment], cb.Problem]]], **settings: Any) -> Part:
    environment = partial(permuted_environment, **settings)
    return Part(
        HORIZON,
        tuple(
            Row(knowledge, policy, partial(play_policy, environment, policy, believed, HORIZON))
            for knowledge, policy, believed in rows
        ),
    )


def guard_part(**settings: Any) -> Part:
    """A given graph as a prior, and guarded C-TS, whose graph is a constraint until it repairs it."""
    return email_part(
        [
            ("nothing", "c-ts-structure(prior=beta)", without_graph),
            ("the graph, known partly", "c-ts-structure(prior=beta)", partly),
            ("the graph and the right CPTs", "c-ts-guarded(prior=beta)", model_without_arrow),
            ("the graph and the right CPTs", "c-ts(prior=beta)", model_without_arrow),
            ("the graph", "c-ts(prior=beta, cpts=learned)", with_graph),
            ("no structure", "ts(prior=beta)", without_graph),
        ],
        **settings,
    )


# --- random graphs and trees --------------------------------------------------------------------------


def graph_environment(k: int, replication: int, set_size: int = 3) -> cb.Environment:
    """A random graph whose reward has k parents; the graph is the same for every `set_size`."""
    return cb.zoo.random_graph(k, set_size=set_size, rng=np.random.default_rng([replication, 31, k]))


def tree_environment(variables: int, replication: int) -> cb.Environment:
    return cb.zoo.random_tree(variables, rng=np.random.default_rng([replication, 37, variables]))


def play_published(
    environment: Callable[[int], cb.Environment],
    player: Callable[[cb.Environment, np.random.Generator], Player],
    horizon: int,
    replication: int,
    target: Callable[[int], cb.Environment] | None = None,
) -> float:
    """The final regret of a published algorithm; `target` has the actions among which the best one is, if others."""
    env = environment(replication)
    best = (target or environment)(replication).best().mean
    policy_rng, env_rng = (np.random.default_rng([replication, 41, i]) for i in range(2))
    return play(env, player(env, policy_rng), horizon, env_rng, best)


def known_k(k: int, env: cb.Environment, rng: np.random.Generator) -> Player:
    return KnownKUCBPlus(settings_of(env), k, GRAPH_VALUES, GRAPH_HORIZON, rng)


def unknown_k(env: cb.Environment, rng: np.random.Generator) -> Player:
    return UnknownKUCBPlus(settings_of(env), GRAPH_VALUES, GRAPH_HORIZON, rng)


def standard_ucb(horizon: int, env: cb.Environment, rng: np.random.Generator) -> Player:
    return StandardUCB(settings_of(env), horizon)


def raps(n_values: int, env: cb.Environment, rng: np.random.Generator) -> Player:
    return RAPS(settings_of(env), n_values, rng)


def with_its_graph(environment: Callable[[int], cb.Environment], replication: int) -> cb.Environment:
    return environment_with_graph(environment(replication))


def library_rows(environment: Callable[[int], cb.Environment], horizon: int, max_parents: int) -> list[Row]:
    without = partial(problem_without_graph, max_parents=max_parents)
    policies = [
        (f"no graph, at most {max_parents} parents", "c-ts-structure(prior=beta)", environment, without),
        ("the graph", "c-ts(prior=beta, cpts=learned)", partial(with_its_graph, environment), problem_with_graph),
        ("no structure", "ts(prior=beta)", environment, without),
    ]
    return [
        Row(knowledge, policy, partial(play_policy, source, policy, believed, horizon))
        for knowledge, policy, source, believed in policies
    ]


def graph_part(k: int) -> Part:
    environment = partial(graph_environment, k)
    published = [
        ("the number of parents", "Known-k UCB+", partial(known_k, k)),
        ("no graph", "Unknown-k UCB+", unknown_k),
        ("no structure", "UCB", partial(standard_ucb, GRAPH_HORIZON)),
    ]
    rows = [
        *library_rows(environment, GRAPH_HORIZON, max_parents=3),
        *(
            Row(knowledge, name, partial(play_published, environment, player, GRAPH_HORIZON))
            for knowledge, name, player in published
        ),
    ]
    if k == 1:
        atomic = partial(graph_environment, k, set_size=1)
        player = partial(raps, GRAPH_VALUES)
        regret = partial(play_published, atomic, player, GRAPH_HORIZON, target=environment)
        rows.append(Row("that there is one parent", "RAPS", regret))
    return Part(GRAPH_HORIZON, tuple(rows))


def tree_part(variables: int) -> Part:
    environment = partial(tree_environment, variables)
    published = [
        ("no structure", "UCB", partial(standard_ucb, HORIZON)),
        ("that there is one parent", "RAPS", partial(raps, TREE_VALUES)),
    ]
    return Part(
        HORIZON,
        (
            *library_rows(environment, HORIZON, max_parents=2),
            *(
                Row(knowledge, name, partial(play_published, environment, player, HORIZON))
                for knowledge, name, player in published
            ),
        ),
    )


PARTS = {
    "right graph": email_part(
        [
            ("given the right graph", "c-ts(prior=beta, cpts=learned)", with_graph),
            ("told nothing", "c-ts-structure(prior=beta)", without_graph),
            ("told nothing", "c-ts-structure", without_graph),
            ("no structure", "ts(prior=beta)", without_graph),
        ]
    ),
    "decoys": email_part([("told nothing", "c-ts-structure(prior=beta)", without_graph)], decoys=DECOYS),
    "missing arrow": email_part(
        [
            ("told nothing", "c-ts-structure(prior=beta)", without_graph),
            ("given the wrong graph, known partly", "c-ts-structure(prior=beta)", partly),
            ("given the wrong graph and the right CPTs", "c-ts-guarded(prior=beta)", model_without_arrow),
            ("given the wrong graph and the right CPTs", "c-ts(prior=beta)", model_without_arrow),
            ("no structure", "ts(prior=beta)", without_graph),
        ],
        effect=0.3,
    ),
    "guard, nothing wrong": guard_part(),
    "guard, product 0.3": guard_part(arrow=("product", 0.3)),
    "guard, product 0.15": guard_part(arrow=("product", 0.15)),
    "guard, purpose 0.3": guard_part(arrow=("purpose", 0.3)),
    **{f"random graphs k={k}": graph_part(k) for k in (1, 2, 3)},
    **{f"random trees n={n}": tree_part(n) for n in (15, 31)},
}


def regret_of(part: str, row: int, replication: int) -> float:
    importlib.import_module("causalbandits.engine.compiled.primitives")  # short runs are compiled as well
    return PARTS[part].rows[row].regret(replication)


def measure(part: str, replications: int, workers: int) -> list[list[float]]:
    """The final regrets of the replications, a list for each row; a replication has its own random numbers."""
    jobs = [(row, replication) for row in range(len(PARTS[part].rows)) for replication in range(replications)]
    found = {}
    with ProcessPoolExecutor(workers) as pool:
        futures = {pool.submit(regret_of, part, *job): job for job in jobs}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            print(f"\r{part}: {len(found)} of {len(jobs)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return [[found[row, replication] for replication in range(replications)] for row in range(len(PARTS[part].rows))]


def print_speed(repeats: int = 5) -> None:
    """The best of several times: a round of a simulation, plain and compiled, and a decision of an agent."""
    env = permuted_environment(0)
    problem = without_graph(env)
    three, two = {f"m{k}": range(3) for k in range(3)}, {f"m{k}": range(2) for k in range(3)}
    agents = {
        "8 variables of 2 values": cb.Problem(
            None, reward="y", manipulable=two, values={f"v{k}": range(2) for k in range(5)}
        ),
        "8 variables of 3 values": cb.Problem(
            None, reward="y", manipulable=three, values={f"v{k}": range(3) for k in range(5)}
        ),
        "12 observed variables of 3 values, max_parents=3": cb.Problem(
            None, reward="y", manipulable=three, values={f"v{k}": range(3) for k in range(12)}, max_parents=3
        ),
    }
    for name in ("c-ts-structure(prior=beta)", "c-ts-structure"):
        policy = cb.policy(name)
        tasks = {
            "compiled": engine_task(env, policy, 5000, problem),
            "plain": partial(play_plainly, env, policy, problem, 500),
        }
        for kind, seconds in side_by_side(tasks, repeats).items():
            print(f"{name} | e-mail, {kind} | {seconds * 1e6:.1f} us a round")
        for size, believed in agents.items():
            print(f"{name} | {size} | {median_decision(believed, name) * 1e3:.2f} ms a decision")


def play_plainly(env: cb.Environment, policy: Any, problem: cb.Problem, rounds: int) -> int:
    driver.play(env, policy, problem, np.array([rounds]), 0, 0)
    return rounds


def median_decision(problem: cb.Problem, policy: str, rounds: int = 300) -> float:
    """The median CPU time of a decision of an agent, where the reward depends on two variables."""
    agent, rng, times = cb.Agent(problem, policy, seed=0), np.random.default_rng(0), []
    for _ in range(rounds):
        start = time.process_time()
        decision = agent.ask()
        times.append(time.process_time() - start)
        observed = {name: int(rng.integers(len(problem.variable(name).states))) for name in problem.must_observe}
        mean = 0.3 + 0.2 * (decision.action["m0"] == 0) + 0.2 * (observed["v0"] == 0)
        agent.tell(decision, reward=float(rng.random() < mean), observed=observed)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all, if left out")
    parser.add_argument("--replications", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2, help="processes; the numbers do not depend on it")
    parser.add_argument("--out", type=Path, default=HERE / "structure.json")
    parser.add_argument("--speed", action="store_true", help="print times instead")
    chosen = parser.parse_args()
    if chosen.speed:
        print_speed()
        return
    for part in chosen.parts:
        if part not in PARTS:
            parser.error(f"unknown part {part!r}; the parts are {', '.join(map(repr, PARTS))}")
    path = chosen.out
    for part in chosen.parts or PARTS:
        rows = []
        regrets = measure(part, chosen.replications, chosen.workers)
        for (knowledge, policy, _), found in zip(PARTS[part].rows, regrets, strict=True):
            mean, error = float(np.mean(found)), float(np.std(found, ddof=1) / len(found) ** 0.5)
            rows.append({"knowledge": knowledge, "policy": policy, "mean": mean, "standard_error": error})
            print(f"{part} | {knowledge} | {policy} | {mean:.1f} ({error:.1f})", flush=True)
        results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        results[part] = {"horizon": PARTS[part].horizon, "replications": chosen.replications, "rows": rows}
        results = {name: results[name] for name in (*PARTS, *results) if name in results}
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
