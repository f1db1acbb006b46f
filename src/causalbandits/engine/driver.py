"""The plain driver: one policy, one replication, one round after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Z
from causalbandits.environments import Environment, Shortfall
from causalbandits.errors import ProblemError
from causalbandits.policies import AnyPolicy, Outcome, flip, situations_to_come
from causalbandits.problem import Action, Budget, Problem, Purse, Situation, opened

TICK = 256
"""Rounds between two reports of progress."""

ENVIRONMENT, WORLD, POLICY = 0, 1, 2
"""Roles of random streams: drawing the environment, what happens in it, what the policy draws."""

Rounds = npt.NDArray[np.int64]

Watch = Callable[[int, Any, "PlayCounts"], None]
"""Called at each checkpoint with its position, the policy's statistic, and how often each action was played."""

PlayCounts = Callable[[], npt.NDArray[np.int64]]


class Played(NamedTuple):
    """Regret and reward up to each checkpoint."""

    regret: Array
    reward: Array


def seed_of(seed: int, replication: int, role: int) -> np.random.SeedSequence:
    """Where the random numbers of one role in one replication come from."""
    return np.random.SeedSequence(seed, spawn_key=(replication, role))


def stream(seed: int, replication: int, role: int) -> np.random.Generator:
    """The random numbers of one role in one replication, the same whoever runs it and whatever else is run."""
    return np.random.default_rng(seed_of(seed, replication, role))


def play(
    env: Environment,
    policy: AnyPolicy,
    problem: Problem,
    rounds: Rounds,
    seed: int,
    replication: int,
    tick: Callable[[int], None] = lambda rounds: None,
    watch: Watch | None = None,
    budget: float | None = None,
) -> Played:
    """Play up to the last of `rounds`; pseudo-regret and rewards up to each of them.

    Where there is a context, it is drawn before the decision, and regret is against the best action for it. The policy
    believes in `problem`, which may be another than the environment's: its actions are then the interventions that
    count, not their numbers, and of z it sees the parents that it believes in. `watch` is called at each checkpoint.
    With a `budget` for all rounds, regret is what the best mixture for it would have brought more, of the reward alone.
    """
    world, own = stream(seed, replication, WORLD), seed_of(seed, replication, POLICY)
    rng = np.random.default_rng(own)
    moments, statistic = Moments(env, policy, problem), policy.begin(problem)
    always = None if env.problem.context else moments.whole
    true_actions = None if problem is env.problem else _TrueActions(env.problem)
    seen = None if problem.parents == env.problem.parents else list(map(env.problem.parents.index, problem.parents))
    must_check = policy.unit_rewards and env.reward.bounded is not True
    flips, in_order, plays = policy.counts_successes, policy.in_order, _Plays(env.problem)
    if budget is not None:
        policy.refuse_budget()
    purse = None if budget is None else moments.purse(Budget(budget, int(rounds[-1])))
    shortfall = None if budget is None else Shortfall(env, budget / int(rounds[-1]))
    regret = collected = 0.0
    played, checkpoints = Played(np.empty(len(rounds)), np.empty(len(rounds))), iter(enumerate(rounds.tolist()))
    slot, checkpoint = next(checkpoints)
    for t in range(1, int(rounds[-1]) + 1):
        situation, here = always or moments.drawn(world)
        if purse is None:
            chosen, propensity, support = policy.chosen(situation, statistic, rng)
        else:
            chosen, propensity, support = policy.paced(situation, statistic, rng, purse)
            purse.pay(problem.cost(chosen), situation.known)
        action = chosen if true_actions is None else true_actions[chosen]
        if policy.learns_tables:
            observed, z, reward = here.draw_all(action.choices, world)
        else:
            observed, (z, reward) = None, here.draw(action.choices, world)
        if seen is not None:
            z = tuple([z[axis] for axis in seen])
        if must_check:
            policy.check_reward(reward)
        successes = flip(reward, own, t - 1) if flips else reward
        more = propensity, support, observed, situation.known
        outcome = Outcome(chosen, z, reward, successes, t - 1, *more)
        policy.update(situation, statistic, outcome)
        if in_order:
            policy.witness(situation, statistic, outcome)
        regret += here.gap(action.number) if shortfall is None else shortfall(action.number, here.problem.known)
        collected += reward
        plays[action] = plays.get(action, 0) + 1
        if t == checkpoint:
            played.regret[slot], played.reward[slot] = regret, collected
            if watch is not None:
                watch(slot, statistic, plays.by_number)
            slot, checkpoint = next(checkpoints, (0, 0))
        if t % TICK == 0:
            tick(TICK)
    tick(int(rounds[-1]) % TICK)
    return played


class Moment(NamedTuple):
    """A situation as the policy believes it to be, and the world as it is then."""

    situation: Situation
    env: Environment


class Moments(dict[Z, Moment]):
    """Every context that came, by its codes in the environment; a policy is told what its own problem calls context."""

    def __init__(self, env: Environment, policy: AnyPolicy, problem: Problem) -> None:
        self._env, self._problem, self._policy = env, problem, policy
        self._told = [env.problem.context.index(name) for name in problem.context]
        self.left_out = self._left_out()
        """Contexts that come and in which nothing may be done, with their shares: rounds in these are not played."""

    def _left_out(self) -> dict[Z, float]:
        if not self._env.problem.context or not (self._env.problem.requirements or self._problem.requirements):
            return {}
        contexts = dict(self._env.problem.contexts.weighed())
        found = {codes: share for codes, share in contexts.items() if not self._is_playable(codes)}
        if len(found) == len(contexts):
            raise ProblemError(f"Nothing may be done in any context. {self.why_left_out(next(iter(found)))}")
        return found

    def _is_playable(self, codes: Z) -> bool:
        return self._env.problem.in_context(codes).has_actions and self._believed(codes).has_actions

    def why_left_out(self, codes: Z) -> str:
        """Why nothing may be done in a context."""
        return self._env.problem.in_context(codes).no_action or self._believed(codes).no_action

    def _believed(self, codes: Z) -> Problem:
        told = tuple(codes[i] for i in self._told)
        return self._problem.in_context(told) if told else self._problem

    def drawn(self, rng: np.random.Generator) -> Moment:
        """The next context in which something may be done."""
        codes = self._env.draw_codes(rng)
        while codes not in self and not self._is_playable(codes):
            codes = self._env.draw_codes(rng)
        return self[codes]

    @property
    def whole(self) -> Moment:
        """Without a context."""
        return Moment(self._policy.situation(self._problem), self._env)

    def purse(self, budget: Budget) -> Purse:
        """A budget for what the policy will decide."""
        return opened(budget, situations_to_come(self._policy, self._problem), stacklevel=3)

    def __missing__(self, codes: Z) -> Moment:
        self[codes] = Moment(self._policy.situation(self._believed(codes)), self._env.in_context(codes))
        return self[codes]


class _Plays(dict[Action, int]):
    """How often each action was played."""

    def __init__(self, problem: Problem) -> None:
        self._size = problem.actions.size

    def by_number(self) -> npt.NDArray[np.int64]:
        """The same for all actions, in the order of their numbers."""
        counts = np.zeros(self._size, dtype=np.int64)
        for action, count in self.items():
            counts[action.number] = count
        return counts


class _TrueActions(dict[Action, Action]):
    """From an action of the believed problem to the one of the true problem that makes the same intervention."""

    def __init__(self, true: Problem) -> None:
        self._true = true.actions

    def __missing__(self, believed: Action) -> Action:
        self[believed] = self._true.action(self._true.rank(believed.choices))
        return self[believed]
