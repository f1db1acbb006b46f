"""The parallel bandit algorithm (Lattimore, Lattimore and Reid 2016, Algorithm 1), as printed.

N knobs of two values, independent of each other, are the reward's parents; an action sets one of them, or none.
for T/2 rounds:  leave everything alone;  of every action a = do(X_i = j):  p_a = share of rounds with X_i = j,
                 mean_a = the mean reward in these
m = min {k >= 2: |I_k| <= k},  I_k = {i: min_j P(X_i = j) < 1/k},  by the shares;  A = {a: p_a <= 1/m}
for T/2 rounds:  play each a of A equally often;  mean_a = the mean reward of these
recommend argmax mean_a
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalbandits._typing import Array
from causalbandits.errors import PolicyError
from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.feedback import Choice, Incumbent, Outcome, runner_up_of, two_best_positions
from causalbandits.policies.statistics import Statistic
from causalbandits.policies.traits import Traits
from causalbandits.problem.problem import Problem
from causalbandits.problem.projection.argmax import Scores
from causalbandits.problem.situation import Situation


def parallel_difficulty(q: Sequence[float] | Array) -> int:
    """m(q) of a parallel bandit, q_i = P(X_i = 1): how many rare values there are that must be set to be seen.

    >>> parallel_difficulty([0.5] * 20), parallel_difficulty([0.0] * 20), parallel_difficulty([0.5] * 17 + [0.01] * 3)
    (2, 20, 3)
    """
    rare = np.minimum(np.asarray(q, dtype=np.float64), 1.0 - np.asarray(q, dtype=np.float64))
    return next(k for k in range(2, max(2, len(rare)) + 1) if (rare < 1.0 / k).sum() <= k)


@dataclass(eq=False)
class ObservedAndTried(Statistic):
    """Rounds and rewards of every action: as if it had happened by itself, and when it was played."""

    observed: Array
    observed_total: Array
    tried: Array
    tried_total: Array


@dataclass(frozen=True, kw_only=True)
class ParallelBandit(HorizonPolicy[ObservedAndTried]):
    """Look for half of the rounds, then try what is rare. For problems of that one form, and a known horizon."""

    traits = Traits(randomised=False, searches_all=True)
    id = "parallel-bandit"

    def init(self, problem: Problem) -> ObservedAndTried:
        if self.horizon is None:
            raise PolicyError("parallel-bandit looks for half of its rounds: say how many there are, horizon=T.")
        sizes = [len(problem.model[name].states) for name in problem.manipulable]
        names = sorted(problem.parents) == sorted(problem.manipulable)
        roots = all(not problem.model[name].parents for name in problem.manipulable)
        if (
            not (names and roots and set(sizes) == {2} and problem.actions.size == 1 + 2 * len(sizes))
            or problem.context
        ):
            raise PolicyError(
                "parallel-bandit is for knobs of two values that have no causes and are the reward's parents, of which "
                f"at most one is set (max_set=1); this is {problem!r}. Use c-design, which is for all problems."
            )
        size = problem.actions.size
        return ObservedAndTried(0, np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size))

    def update(self, situation: Situation, statistic: ObservedAndTried, outcome: Outcome) -> None:
        statistic.rounds += 1
        if any(outcome.action.choices):
            statistic.tried[outcome.action.number] += 1.0
            statistic.tried_total[outcome.action.number] += outcome.reward
            return
        happened = _happened(situation.problem, outcome)
        statistic.observed += happened
        statistic.observed_total += happened * outcome.reward

    def rare_actions(self, problem: Problem, statistic: ObservedAndTried) -> list[int]:
        """The numbers of the actions that are tried in the second half."""
        shares = statistic.observed / max(1.0, float(statistic.observed.max()))
        singles = {tuple(c): number for number, c in enumerate(problem.actions.array().tolist())}
        knobs = len(problem.manipulable)
        own = [[singles[tuple(j * (k == i) for k in range(knobs))] for j in (1, 2)] for i in range(knobs)]
        m = parallel_difficulty(np.array([shares[pair[1]] for pair in own]))
        return [number for pair in own for number in pair if shares[number] <= 1.0 / m]

    def score(self, situation: Situation, statistic: ObservedAndTried, rng: np.random.Generator) -> Scores:
        assert self.horizon is not None
        problem, values = situation.problem, np.zeros(situation.problem.actions.size)
        half = self.horizon // 2
        if statistic.rounds < half:
            values[int((problem.actions.array() == 0).all(axis=1).argmax())] = 1.0
        else:
            rare = self.rare_actions(problem, statistic)
            each = max(1, (self.horizon - half) // max(1, len(rare)))
            values[rare[min(len(rare) - 1, (statistic.rounds - half) // each)] if rare else 0] = 1.0
        return situation.without_costs.take(values)

    def incumbent(self, situation: Situation, statistic: ObservedAndTried) -> Incumbent:
        looked = statistic.observed_total / np.maximum(1.0, statistic.observed)
        tried = statistic.tried_total / np.maximum(1.0, statistic.tried)
        means = situation.without_costs.take(np.where(statistic.tried > 0, tried, looked))
        first, second = two_best_positions(situation.net_of_costs(means))
        runner_up = None if second is None else runner_up_of(situation, second, means.values)
        return Incumbent(situation.action(first), float(means.values[first]), None, runner_up)

    def decide(self, situation: Situation, statistic: ObservedAndTried, rng: np.random.Generator) -> Choice:
        if situation.size < situation.problem.actions.size:
            raise PolicyError("parallel-bandit plays as it was planned beforehand: eligible= is not for it.")
        return super().decide(situation, statistic, rng)


def _happened(problem: Problem, outcome: Outcome) -> Array:
    """For every action, whether what it sets turned out so by itself."""
    z = dict(zip(problem.parents, outcome.z, strict=True))
    turned_out = np.array([1 + z[name] for name in problem.manipulable])
    choices = problem.actions.array()
    return np.asarray(((choices == 0) | (choices == turned_out)).all(axis=1), dtype=np.float64)
