"""How do I write an algorithm of my own, check it, and compare it?

A policy is a class with three methods: about twenty lines. This one is epsilon-greedy on the combinations of the
reward's parents: it mostly plays the best action by the means so far, and sometimes scores the combinations at
random. The library's checks test it, and a simulation on 20 random campaigns compares it with C-UCB and C-TS.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import causalbandits as cb
from causalbandits.policies import Cells
from causalbandits.testing import CHECKS

OUT = Path("results")


@dataclass(frozen=True, kw_only=True)
class CausalGreedy(cb.Policy):
    """Mostly the best by the means so far, sometimes anything."""

    epsilon: float = 0.1
    id = "c-greedy"

    def init(self, problem):
        return Cells.empty(problem.configurations)

    def score(self, situation, cells, rng):
        explore = rng.random() < self.epsilon
        return situation.project(rng.random(len(cells.count)) if explore else cells.means())

    def update(self, situation, cells, outcome):
        cells.add(situation.problem.configuration(outcome.z), outcome.reward)


def random_campaign(rng):
    """The e-mail campaign's graph with random click rates, so that no policy wins by luck on one campaign."""
    problem = cb.zoo.email_campaign().problem
    return cb.Environment(problem, cb.rewards.BernoulliReward(rng.random(problem.shape)))


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)

    # The checks: reproducible, independent of the order of outcomes, saved and restored, ...
    for check in CHECKS:
        check(CausalGreedy())
        print(f"{check.__name__}: passed")

    # The comparison: every policy plays the same 20 random campaigns.
    policies = [CausalGreedy(), CausalGreedy(epsilon=0.02), "c-ucb", "c-ts(prior=beta)"]
    run = cb.simulate(random_campaign, policies, horizon=2000, replications=20, seed=seed, progress=False)
    print("\nRegret after 2,000 rounds, mean of 20 random campaigns:")
    for row in run.summary():
        print(f"  {row.policy}: {row.mean:.1f}, standard error {row.standard_error:.1f}")

    # The plot: regret over time.
    figure = run.plot(title="20 random campaigns, mean with 95% bands")
    figure.axes[0].set(xlabel="round", ylabel="regret (clicks lost)")
    figure.savefig(OUT / "own_policy.png")
    print(f"\nPlot: {OUT / 'own_policy.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
