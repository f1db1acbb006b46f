"""The plain driver: one policy, one replication, round by round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Z
from causalbandits.environments import AnyEnvironment, BudgetedRegret, Environment, segments_of
from causalbandits.errors import ProblemError
from causalbandits.policies import (
    AnyPolicy,
    Outcome,
    decide_within_budget,
    future_situations,
    randomised_rounding,
    refuse_budget,
    situation_for,
    validate_reward,
)
from causalbandits.problem import Action, Budget, BudgetTracker, Problem, Situation, build_budget_tracker
from causalbandits.problem.actions import Choices

TICK = 256
"""Rounds between two reports of progress."""

ENVIRONMENT, WORLD, POLICY = 0, 1, 2
"""Roles of random streams: drawing the environment, sampling in it, and the policy's own draws."""

Rounds = npt.NDArray[np.int64]

Watch = Callable[[int, Any, "PlayCounts"], None]
"""Called at each checkpoint with its position, the policy's statistic, and the plays of each action."""

PlayCounts = Callable[[], npt.NDArray[np.int64]]


class Trajectory(NamedTuple):
    """Regret and reward up to each checkpoint."""

    regret: Array
    reward: Array


def seed_of(seed: int, replication: int, role: int) -> np.random.SeedSequence:
    """The seed of one role in one replication."""
    return np.random.SeedSequence(seed, spawn_key=(replication, role))


def stream(seed: int, replication: int, role: int) -> np.random.Generator:
    """The random stream of one role in one replication, independent of the process and of other runs."""
    return np.random.default_rng(seed_of(seed, replication, role))


def play(
    env: AnyEnvironment,
    policy: AnyPolicy,
    problem: Problem,
    rounds: Rounds,
    seed: int,
    replication: int,
    tick: Callable[[int], None] = lambda rounds: None,
    watch: Watch | None = None,
    budget: float | None = None,
) -> Trajectory:
    """Play up to the last of `rounds`; return pseudo-regret and rewards up to each of them.

    The context, if any, is drawn before the decision, and regret is relative to the best action for it. The policy
    assumes `problem`, which may differ from the environment's. Its actions are then matched by their interventions
    instead of their numbers, and of z it observes the parents in its own problem. `watch` is called at each checkpoint.
    With a `budget` for all rounds, regret is relative to the best mixture for that budget, in rewards without costs. An
    environment that changes plays each round, and has its gaps, in the environment of that round; it has no budget.
    """
    (_, first), *changes = segments_of(env)
    later = dict(changes)
    env_rng, policy_seed = stream(seed, replication, WORLD), seed_of(seed, replication, POLICY)
    rng = np.random.default_rng(policy_seed)
    moments, statistic = Moments(first, policy, problem), policy.init(problem)
    fixed_moment = None if env.problem.context else moments.unconditional
    true_actions = None if problem is env.problem else _TrueActions(env.problem)
    parent_axes = (
        None if problem.parents == env.problem.parents else list(map(env.problem.parents.index, problem.parents))
    )
    must_check = policy.traits.unit_rewards and any(
        part.reward.bounded is not True for part in (first, *later.values())
    )
    counts_successes, in_order, plays = policy.traits.counts_successes, policy.traits.sequential, _Plays(env.problem)
    if budget is not None:
        refuse_budget(policy)
    tracker = None if budget is None else moments.budget_tracker(Budget(budget, int(rounds[-1])))
    budgeted_regret = None if budget is None else BudgetedRegret(first, budget / int(rounds[-1]))
    regret = collected = 0.0
    trajectory, checkpoints = Trajectory(np.empty(len(rounds)), np.empty(len(rounds))), iter(enumerate(rounds.tolist()))
    slot, checkpoint = next(checkpoints)
    for t in range(1, int(rounds[-1]) + 1):
        if t in later:
            moments = Moments(later[t], policy, problem)
            fixed_moment = None if env.problem.context else moments.unconditional
        situation, here = fixed_moment or moments.sample(env_rng)
        if tracker is None:
            believed_action, propensity, support = policy.decide(policy.feasible(situation, statistic), statistic, rng)
        else:
            believed_action, propensity, support = decide_within_budget(policy, situation, statistic, rng, tracker)
            tracker.charge(problem.cost(believed_action), situation.context_codes)
        action = believed_action if true_actions is None else true_actions[believed_action]
        if policy.traits.learns_cpts:
            observed, z, reward = here.draw_all(action.choices, env_rng)
        else:
            observed, (z, reward) = None, here.draw(action.choices, env_rng)
        if parent_axes is not None:
            z = tuple([z[axis] for axis in parent_axes])
        if must_check:
            validate_reward(policy, reward)
        is_fraction = counts_successes and 0.0 < reward < 1.0
        successes = randomised_rounding(reward, policy_seed, t - 1) if is_fraction else reward
        details = propensity, support, observed, situation.context_codes
        outcome = Outcome(believed_action, z, reward, successes, t - 1, *details)
        policy.update(situation, statistic, outcome)
        if in_order:
            policy.monitor(situation, statistic, outcome)
        regret += (
            here.gap(action.number)
            if budgeted_regret is None
            else budgeted_regret(action.number, here.problem.context_codes)
        )
        collected += reward
        plays[action.choices] = plays.get(action.choices, 0) + 1
        if t == checkpoint:
            trajectory.regret[slot], trajectory.reward[slot] = regret, collected
            if watch is not None:
                watch(slot, statistic, plays.by_number)
            slot, checkpoint = next(checkpoints, (0, 0))
        if t % TICK == 0:
            tick(TICK)
    tick(int(rounds[-1]) % TICK)
    return trajectory


class Moment(NamedTuple):
    """A situation as the policy assumes it, and the environment in that context."""

    situation: Situation
    env: Environment


class Moments(dict[Z, Moment]):
    """Every context that occurred, by its codes in the environment; the policy observes the context variables of its
    own problem."""

    def __init__(self, env: Environment, policy: AnyPolicy, problem: Problem) -> None:
        self._env, self._problem, self._policy = env, problem, policy
        self._context_axes = [env.problem.context.index(name) for name in problem.context]
        self.infeasible = self._find_infeasible()
        """Contexts with positive probability and no feasible action, with their probabilities; such rounds are not
        played."""

    def _find_infeasible(self) -> dict[Z, float]:
        if not self._env.problem.context or not (self._env.problem.requirements or self._problem.requirements):
            return {}
        contexts = dict(self._env.problem.contexts.weighted_contexts())
        infeasible = {codes: share for codes, share in contexts.items() if not self._is_playable(codes)}
        if len(infeasible) == len(contexts):
            raise ProblemError(
                f"No action is allowed in any context. {self.infeasibility_reason(next(iter(infeasible)))}"
            )
        return infeasible

    def _is_playable(self, codes: Z) -> bool:
        return self._env.problem.condition_codes(codes).has_actions and self._believed_problem(codes).has_actions

    def infeasibility_reason(self, codes: Z) -> str:
        """The reason why a context has no feasible action."""
        return self._env.problem.condition_codes(codes).infeasibility or self._believed_problem(codes).infeasibility

    def _believed_problem(self, codes: Z) -> Problem:
        policy_codes = tuple(codes[i] for i in self._context_axes)
        return self._problem.condition_codes(policy_codes) if policy_codes else self._problem

    def sample(self, rng: np.random.Generator) -> Moment:
        """The next context with a feasible action."""
        codes = self._env.draw_codes(rng)
        while codes not in self and not self._is_playable(codes):
            codes = self._env.draw_codes(rng)
        return self[codes]

    @property
    def unconditional(self) -> Moment:
        """The moment without a context."""
        return Moment(situation_for(self._policy, self._problem), self._env)

    def budget_tracker(self, budget: Budget) -> BudgetTracker:
        """A tracker of the budget for the policy's decisions."""
        return build_budget_tracker(budget, future_situations(self._policy, self._problem), stacklevel=3)

    def __missing__(self, codes: Z) -> Moment:
        self[codes] = Moment(
            situation_for(self._policy, self._believed_problem(codes)), self._env.condition_codes(codes)
        )
        return self[codes]


class _Plays(dict[Choices, int]):
    """The number of plays of each action, by its choices."""

    def __init__(self, problem: Problem) -> None:
        self._actions = problem.actions

    def by_number(self) -> npt.NDArray[np.int64]:
        """The plays of all actions, in the order of their numbers."""
        counts = np.zeros(self._actions.size, dtype=np.int64)
        for choices, count in self.items():
            counts[self._actions.rank(choices)] = count
        return counts


class _TrueActions(dict[Action, Action]):
    """A map from an action of the assumed problem to the action of the true problem with the same intervention."""

    def __init__(self, true: Problem) -> None:
        self._true = true.actions

    def __missing__(self, believed: Action) -> Action:
        self[believed] = self._true.action(self._true.rank(believed.choices))
        return self[believed]
