"""What a wrong table costs: P(z | a) estimated from few past mails, against the exact one and against no graph at all.

The graph is right, its tables are fitted to 100, 1,000 and 10,000 past mails in which nothing was set. The policies
believe the fitted tables; the world runs on the true ones.
"""

import sys

import numpy as np

import causalbandits as cb

HORIZON = 5000
POLICIES = ("c-ts(prior=beta)", "c-ucb")


def regrets(rows: int | None, datasets: int, replications: int) -> dict[str, np.ndarray]:
    """Final regrets, one a replication, over several data sets of so many rows; None: the exact tables."""
    env = cb.zoo.email_campaign()
    truth = env.problem
    found: dict[str, list[np.ndarray]] = {policy: [] for policy in POLICIES}
    for dataset in range(datasets):
        believed = None
        if rows is not None:
            fitted = cb.fit(truth.model, truth.model.sample(rows, rng=dataset))
            believed = cb.Problem(fitted, manipulable=truth.manipulable, reward_parents=truth.parents, optional=True)
        run = cb.simulate(env, POLICIES, horizon=HORIZON, replications=replications, seed=dataset, believed=believed)
        for policy in POLICIES:
            found[policy].append(run.regret(policy)[:, -1])
    return {policy: np.concatenate(parts) for policy, parts in found.items()}


def main(datasets: int = 40, replications: int = 5) -> None:
    env = cb.zoo.email_campaign()
    print(f"Final regret after {HORIZON} mails, {datasets} data sets x {replications} replications (standard error).\n")
    print(f"{'P(z | a) from':<16}" + "".join(f"{policy:>18}" for policy in POLICIES))
    for rows in (100, 1_000, 10_000, None):
        label = "the exact table" if rows is None else f"{rows:,} mails"
        cells = []
        for values in regrets(rows, datasets, replications).values():
            # Replications of one data set hang together: the data sets are the sample.
            means = values.reshape(datasets, -1).mean(axis=1)
            cells.append(f"{means.mean():.1f} ({means.std(ddof=1) / np.sqrt(datasets):.1f})")
        print(f"{label:<16}" + "".join(f"{cell:>18}" for cell in cells))
    plain = cb.simulate(env, ["ts(prior=beta)", "ucb"], horizon=HORIZON, replications=datasets)
    print("Without the graph: " + ", ".join(f"{row.policy} {row.mean:.1f}" for row in plain.summary()) + ".")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
