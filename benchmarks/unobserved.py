"""CPTs learned online with a variable that is never observed: python benchmarks/unobserved.py, about two minutes.

Two kinds of worlds with random CPTs, of which policies are told the graph and no CPT. In "one child", k -> m <- u, and
the reward depends on m. In "two children", u is a common cause of m and n, and the reward on whether they agree. The
decision variable k is always set, and u is reported only where that is said.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

import causalbandits as cb
from causalbandits.fitting import prior_model

VALUES, ROUNDS, REPLICATIONS = 5, 1000, 20
GRAPHS: dict[str, dict[str, list[str]]] = {
    "one child": {"k": [], "u": [], "m": ["k", "u"]},
    "two children": {"k": [], "u": [], "m": ["k", "u"], "n": ["u"]},
}
WAYS = ("u reported", "declared", "left out of the graph", "undeclared", "uniform")


def random_environment(world: str, replication: int) -> cb.Environment:
    """The world of a replication."""
    rng = np.random.default_rng([replication, len(world)])
    graph, sizes = GRAPHS[world], {"k": VALUES, "u": 2, "m": 2, "n": 2}
    model = cb.CausalModel(
        cb.Variable(name, range(sizes[name]), parents=causes, table=rng.dirichlet([1, 1], [sizes[c] for c in causes]))
        if name != "k"
        else cb.Variable("k", range(VALUES), table=[1 / VALUES] * VALUES)
        for name, causes in graph.items()
    )
    parents = ["m"] if world == "one child" else ["m", "n"]
    mean = [0.2, 0.8] if world == "one child" else [[0.8, 0.2], [0.2, 0.8]]
    return cb.Environment(
        cb.Problem(model, manipulable=["k"], reward_parents=parents, optional=False), cb.rewards.BernoulliReward(mean)
    )


def believed_problem(env: cb.Environment, way: str) -> cb.Problem:
    """What a policy is told."""
    model = env.problem.model
    left_out = {"u"} if way == "left out of the graph" else set()
    graph = {n: [c for c in v.parents if c not in left_out] for n, v in model.variables.items() if n not in left_out}
    flat = prior_model(graph, values={name: model[name].states for name in graph})
    declared: dict[str, Any] = {"can_observe": env.problem.parents} if way == "declared" else {}
    return cb.Problem(flat, manipulable=["k"], reward_parents=env.problem.parents, optional=False, **declared)


def regret(world: str, way: str, replication: int) -> float:
    """Pseudo-regret of one campaign."""
    env, rng = random_environment(world, replication), np.random.default_rng([replication, 1])
    agent = cb.Agent(believed_problem(env, way), "uniform" if way == "uniform" else None, seed=replication)
    total = 0.0
    for _ in range(ROUNDS):
        decision = agent.ask()
        do = env.problem.choices(decision.action)
        codes, z, reward = env.draw_all(do, rng)
        observed = {"u": codes["u"] if way == "u reported" else None} if "u" in agent.problem.must_observe else None
        agent.tell(decision.id, reward=reward, observed={**env.problem.decode_parents(z), **observed})
        total += env.best().mean - env.mean_reward(decision.action)
    return total


def main() -> None:
    """Measure every way in every world, and print means with standard errors."""
    warnings.simplefilter("ignore")
    for world in GRAPHS:
        for way in WAYS:
            regrets = np.array([regret(world, way, replication) for replication in range(REPLICATIONS)])
            error = regrets.std(ddof=1) / REPLICATIONS**0.5
            sys.stdout.write(f"{world:14} {way:24} {regrets.mean():6.1f} ({error:.1f})\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
