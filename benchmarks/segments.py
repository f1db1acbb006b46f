"""C-TS against LinUCB and LinTS where the context is itself one of the reward's parents.

Then nothing that is learnt in one context counts in another, and what the graph still saves are actions. Two kinds of
worlds beside the e-mail campaign: three knobs of four values, each of which acts through a mediator of its own, in
another way in each of three segments; rewards are arbitrary given mediators and segment, or additive in the mediators.
"""

import sys
from collections.abc import Callable

import numpy as np

import causalbandits as cb

HORIZON = 5000
SCALES = (0.05, 0.1, 0.3, 0.5)
"""Noise scales for the rivals, of which the best counts; their prior scale is 0.5."""


def world(rng: np.random.Generator, additive: bool) -> cb.Environment:
    """Drawn anew for each replication."""
    knobs = [cb.Variable(f"x{i}", range(4), table=np.full(4, 0.25)) for i in range(3)]
    segment = cb.Variable("segment", ["a", "b", "c"], table=[0.5, 0.3, 0.2])
    mediators = [
        cb.Variable(f"w{i}", [0, 1], parents=[f"x{i}", "segment"], table=rng.dirichlet([1, 1], (4, 3)))
        for i in range(3)
    ]
    names = ["w0", "w1", "w2", "segment"]
    model = cb.CausalModel([segment, *knobs, *mediators])
    problem = cb.Problem(
        model, manipulable=[knob.name for knob in knobs], reward_parents=names, context=["segment"], optional=True
    )
    means = rng.random(problem.shape)
    if additive:
        effects = rng.uniform(-0.3, 0.3, (3, 3))
        codes = np.moveaxis(np.indices((2, 2, 2)), 0, -1) - 0.5
        means = np.clip(0.5 + codes @ effects, 0, 1)
    return cb.Environment(problem, cb.rewards.BernoulliReward(means))


def rivals() -> dict[str, cb.Policy]:
    """Every policy with every scale."""
    return {
        f"{id}, noise scale {scale}": cb.policy(id, noise_scale=scale, prior_scale=0.5)
        for id in ("lin-ts", "lin-ucb")
        for scale in SCALES
    }


def main(replications: int = 100) -> None:
    worlds: dict[str, cb.Environment | Callable[[np.random.Generator], cb.Environment]] = {
        "e-mail campaign with tastes": cb.zoo.email_segments(tastes=True),
        "arbitrary rewards": lambda rng: world(rng, additive=False),
        "additive rewards": lambda rng: world(rng, additive=True),
    }
    for name, env in worlds.items():
        policies = {"c-ts(prior=beta)": cb.policy("c-ts", prior="beta"), **rivals()}
        run = cb.simulate(env, policies, horizon=HORIZON, replications=replications, seed=0)
        regrets = {policy: run.regret(policy)[:, -1] for policy in policies}
        print(f"{name}: regret after {HORIZON} rounds (standard error)")
        for policy, values in regrets.items():
            print(f"  {policy:<28}{values.mean():7.1f} ({values.std(ddof=1) / np.sqrt(len(values)):.1f})")
        for id in ("lin-ts", "lin-ucb"):
            best = min((policy for policy in policies if policy.startswith(id)), key=lambda p: regrets[p].mean())
            print(f"  share of the best {id}: {regrets['c-ts(prior=beta)'].mean() / regrets[best].mean():.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
