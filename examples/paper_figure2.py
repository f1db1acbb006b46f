"""How do I reproduce a figure of the paper, in small?

Figure 2 of Lu, Meisami, Tewari and Yan (2020) compares six algorithms on one instance with 256 actions and 16
combinations of the reward's parents. The script plays the algorithms as printed, for 2,000 rounds and 10 replications.
The full experiment has 5,000 rounds. `make reproduce` runs all experiments in full.
"""

import argparse
from pathlib import Path

import causalbandits as cb
from causalbandits.results.plots import plot_panels

OUT = Path("results")
HORIZON, REPLICATIONS = 2000, 10
FAMILIES = {
    "UCB family": ["ucb", "c-ucb", "cl-ucb"],
    "Thompson sampling family": ["ts(scales=given)", "c-ts(scales=given)", "cl-ts"],
}


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    env = cb.zoo.figure2()
    print(f"Actions: {env.problem.actions.size}")
    print(f"Combinations of the reward's parents: {env.problem.configurations}")
    print(f"True best action: {env.best().intervention}, mean reward {env.best().mean:.3f}")

    # Every policy plays the same replications: adding one changes no number of the others.
    policies = [policy for family in FAMILIES.values() for policy in family]
    run = cb.simulate(env, policies, horizon=HORIZON, replications=REPLICATIONS, seed=seed, progress=False)
    print(f"\nRegret after {HORIZON} rounds, mean of {REPLICATIONS} replications:")
    for row in run.summary():
        print(f"  {row.policy}: {row.mean:.1f}, standard error {row.standard_error:.1f}")

    # The plot: one panel for each family.
    figure = plot_panels([run.only(family) for family in FAMILIES.values()], list(FAMILIES))
    figure.savefig(OUT / "paper_figure2.png")
    print(f"\nPlot: {OUT / 'paper_figure2.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
