"""A policy of your own: twenty lines, checked, and compared with C-UCB.

The idea is epsilon-greedy on the configurations of the reward's parents: mostly play what is best by the means so
far, sometimes score the configurations at random. The graph turns numbers of configurations into scores of actions.
"""

from dataclasses import dataclass

import causalbandits as cb
from causalbandits.policies import Cells
from causalbandits.testing import CHECKS


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


def drawn_world(rng):
    """The e-mail campaign's graph with click rates of its own, so that no policy wins by luck on one world."""
    problem = cb.zoo.email_campaign().problem
    return cb.Environment(problem, cb.rewards.BernoulliReward(rng.random(problem.shape)))


def main() -> None:
    for check in CHECKS:
        check(CausalGreedy())
        print(f"{check.__name__}: kept")
    policies = [CausalGreedy(), CausalGreedy(epsilon=0.02), "c-ucb", "c-ts(prior=beta)"]
    print(cb.simulate(drawn_world, policies, horizon=2000, replications=20, seed=0).summary())


if __name__ == "__main__":
    main()
