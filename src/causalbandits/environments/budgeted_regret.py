"""Budgeted regret: the difference between the best mixture within a budget and the played action."""

from __future__ import annotations

import numpy as np

from causalbandits._cache import BoundedCache
from causalbandits._typing import Array, Z
from causalbandits.environments.environment import CONTEXT_CACHE_SIZE, LISTED, MEAN_CACHE_SIZE, Environment
from causalbandits.errors import BudgetError
from causalbandits.problem import (
    SLACK,
    CostCap,
    Menu,
    Mixture,
    Situation,
    best_mixture,
    context_frequencies,
    largest_cheapest_cost,
    solve_knapsack,
)


class BudgetedRegret:
    """`shortfall(number)`: the mean reward of the best mixture at a budget per round, minus that of an action.

    It is negative if the action costs more than the budget per round and has a higher mean; such rounds offset others.
    In a context, given by its codes, the mixture is that context's part of the mixture for all contexts together.

    >>> from causalbandits import Problem, Environment, zoo
    >>> free = zoo.email_campaign()
    >>> p = free.problem
    >>> priced = Problem(
    ...     p.model, manipulable=p.manipulable, reward_parents=p.parents, costs={"send_time": 0.1}, optional=True)
    >>> env = Environment(priced, free.reward)
    >>> shortfall = BudgetedRegret(env, 0.05)
    >>> shortfall.mixture.share, round(shortfall(0), 4), round(shortfall(p.actions.index({"send_time": "morning"})), 4)
    (0.5, 0.0834, -0.0054)
    """

    def __init__(self, env: Environment, allowance: float) -> None:
        self._env = env
        self._frequencies = (
            context_frequencies(env.problem, (0,) * len(env.problem.context)) if env.problem.context else None
        )
        codes = (None,) if self._frequencies is None else self._frequencies.codes
        environments = [env.condition_codes(context_codes) for context_codes in codes]
        cheapest = largest_cheapest_cost([_situation(each) for each in environments])
        if cheapest > allowance * (1 + SLACK):
            raise BudgetError(
                f"The cheapest action costs {cheapest:g}, and the budget has {allowance:g} per round: the budget does "
                "not last for all rounds. Pass a larger budget or a shorter horizon."
            )
        self._allowance = max(allowance, cheapest)
        self._best: BoundedCache[Z | None, float] = BoundedCache(max(len(environments), CONTEXT_CACHE_SIZE))
        self._regrets: BoundedCache[tuple[int, Z | None], float] = BoundedCache(MEAN_CACHE_SIZE)
        if self._frequencies is None:
            values, costs = _means_and_costs(env)
            self.mixture = best_mixture(values, costs, self._allowance)
            self.best = self._best.store(None, self.mixture.mean(values))
            """The largest mean reward of a round."""
        else:
            shares = self._frequencies.frequencies({}).tolist()
            self._menus = [
                Menu(share, *_means_and_costs(environment))
                for share, environment in zip(shares, environments, strict=True)
            ]
            mixtures = solve_knapsack(self._menus, self._allowance)
            for context_codes, mixture, menu in zip(codes, mixtures, self._menus, strict=True):
                self._best.store(context_codes, mixture.mean(menu.values))
            self.best = sum(
                share * self._best[context_codes] for share, context_codes in zip(shares, codes, strict=True)
            )

    def __call__(self, action: int, context_codes: Z | None = None) -> float:
        regret = self._regrets.get((action, context_codes))
        if regret is None:
            here = self._env if context_codes is None else self._env.condition_codes(context_codes)
            best = self._best.get(context_codes)
            if best is None:  # a context without a weight
                best = self._best.store(context_codes, self._best_mean_in_rare_context(here))
            regret = self._regrets.store((action, context_codes), best - here.mean_reward(action))
        return regret

    def _best_mean_in_rare_context(self, here: Environment) -> float:
        """The best mean in a context that is too rare to change the shadow price of the budget."""
        menu = Menu(0.0, *_means_and_costs(here))
        return Mixture.mean(solve_knapsack([menu, *self._menus], self._allowance)[0], menu.values)


def affordable_means(env: Environment, allowance: float) -> Array:
    """The mean rewards of the actions that the budget pays for in every round; of the cheapest if there is none."""
    values, costs = _means_and_costs(env)
    return np.asarray(values[CostCap(costs, allowance).allowed])


def _situation(env: Environment) -> Situation:
    return env.problem.situation(every=env.problem.actions.size <= LISTED)


def _means_and_costs(env: Environment) -> tuple[Array, Array]:
    """Mean rewards and costs of the actions that are compared."""
    situation = _situation(env)
    assert situation.costs is not None
    return env.means_in(situation), situation.costs
