"""When do policies stop, and how often are they wrong? The numbers of docs/stopping.md.

    python benchmarks/stopping.py [share]     # all of it takes an hour; the page's numbers are those of a fifth, 0.2

Every run goes to the horizon; the rule is asked at 60 moments, each some percent later than the one before.
"""

from __future__ import annotations

import math
import sys
import warnings

import numpy as np

import causalbandits as cb
from causalbandits import zoo

WORLDS = {"Figure 2": (zoo.figure2(), 0.1, 1000), "e-mail": (zoo.email_campaign(), 0.5, 20_000)}


def policies(noise: float, beta: bool) -> dict[str, cb.Policy]:
    """Those that look for the best action, those that earn, and one without the graph."""
    earning = "c-ts-beta" if beta else "c-ts-gaussian"
    scales = {} if beta else {"noise_scale": noise, "prior_scale": noise}
    return {
        "c-track-and-stop": cb.CausalTrackAndStop(noise_scale=noise),
        "c-elimination": cb.CausalElimination(noise_scale=noise),
        "c-design": cb.CausalDesign(noise_scale=noise),
        earning: cb.policy(earning, **scales),
        "c-ucb": cb.CausalUCB(noise_scale=noise),
        "uniform": cb.Uniform(noise_scale=noise),
    }


def looked_at(horizon: int) -> np.ndarray:
    """The rounds at which the rule is asked."""
    return np.unique(np.geomspace(max(10, horizon / 100), horizon, 60).astype(int))


def table(name: str, env: object, noise: float, horizon: int, replications: int, *, beta: bool) -> None:
    """One world, or a way to draw one."""
    run = cb.simulate(
        env, policies(noise, beta), horizon=horizon, replications=replications, seed=5, rounds=looked_at(horizon),
        measures=["risk", "simple regret"], workers=1, progress=False,
    )  # fmt: skip
    for delta in (0.05, 0.2):
        print(f"\n{name}, delta {delta}, {replications} replications of {horizon} rounds")
        print(run.stopping(delta), flush=True)


def main() -> None:
    """All tables."""
    warnings.simplefilter("ignore")
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    for name, (env, noise, horizon) in WORLDS.items():
        found = cb.design(env.problem, env.configuration_means, noise_scale=noise)
        print(f"\n{name}: T* = {found.value:.4g}; T* log(1/0.05) = {found.value * math.log(20):.4g}")
        replications = max(10, int(share * (2000 if horizon <= 1000 else 200)))
        table(name, env, noise, horizon, replications, beta=noise == 0.5)
    drawn = lambda rng: zoo.random_world(12, rng=rng)  # noqa: E731
    table("random worlds", drawn, 0.5, 1000, max(10, int(share * 2000)), beta=True)


if __name__ == "__main__":
    main()
