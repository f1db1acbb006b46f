"""What an action brings less than the best that a budget pays for."""

from __future__ import annotations

import numpy as np

from causalbandits._cache import Memory
from causalbandits._typing import Array, Z
from causalbandits.environments.environment import CONTEXTS_KEPT, LISTED, MEANS_KEPT, Environment
from causalbandits.errors import BudgetError
from causalbandits.problem import (
    SLACK,
    Mixture,
    Offer,
    Situation,
    Within,
    best_mixture,
    cheapest_everywhere,
    occasions_of,
    shared_mixtures,
)


class Shortfall:
    """`shortfall(number)`: the mean reward of the best mixture at an allowance a round, less that of an action.

    Negative where an action costs more than the allowance and brings more: over the rounds these make up for others.
    In a context, given by its codes, it is the mixture that the context plays where all of them share the money.

    >>> from causalbandits import Problem, Environment, zoo
    >>> free = zoo.email_campaign()
    >>> p = free.problem
    >>> env = Environment(Problem(p.model, p.manipulable, p.parents, costs={"send_time": 0.1}), free.reward)
    >>> shortfall = Shortfall(env, 0.05)
    >>> shortfall.mixture.share, round(shortfall(0), 4), round(shortfall(p.actions.index({"send_time": "morning"})), 4)
    (0.5, 0.0834, -0.0054)
    """

    def __init__(self, env: Environment, allowance: float) -> None:
        self._env = env
        self._contexts = occasions_of(env.problem, (0,) * len(env.problem.context)) if env.problem.context else None
        codes = (None,) if self._contexts is None else self._contexts.codes
        worlds = [env.in_context(own) for own in codes]
        cheapest = cheapest_everywhere([_situation(world) for world in worlds])
        if cheapest > allowance * (1 + SLACK):
            raise BudgetError(
                f"The cheapest action costs {cheapest:g}, and the budget has {allowance:g} for each round: it does not "
                "last for all of them. Give a larger budget, or a shorter horizon."
            )
        self._allowance = max(allowance, cheapest)
        self._best: Memory[Z | None, float] = Memory(max(len(worlds), CONTEXTS_KEPT))
        self._lost: Memory[tuple[int, Z | None], float] = Memory(MEANS_KEPT)
        if self._contexts is None:
            values, costs = _offered(env)
            self.mixture = best_mixture(values, costs, self._allowance)
            self.best = self._best.keep(None, self.mixture.mean(values))
            """The most that a round can bring in the mean."""
        else:
            shares = self._contexts.shares({}).tolist()
            self._offers = [Offer(share, *_offered(world)) for share, world in zip(shares, worlds, strict=True)]
            mixtures = shared_mixtures(self._offers, self._allowance)
            for own, mixture, offer in zip(codes, mixtures, self._offers, strict=True):
                self._best.keep(own, mixture.mean(offer.values))
            self.best = sum(share * self._best[own] for share, own in zip(shares, codes, strict=True))

    def __call__(self, action: int, known: Z | None = None) -> float:
        lost = self._lost.get((action, known))
        if lost is None:
            here = self._env if known is None else self._env.in_context(known)
            best = self._best.get(known)
            if best is None:  # a context that was not weighed
                best = self._best.keep(known, self._mean_beside(here))
            lost = self._lost.keep((action, known), best - here.mean_reward(action))
        return lost

    def _mean_beside(self, here: Environment) -> float:
        """What is best in a context that comes so seldom that it does not change the price of money."""
        offer = Offer(0.0, *_offered(here))
        return Mixture.mean(shared_mixtures([offer, *self._offers], self._allowance)[0], offer.values)


def paid_for(env: Environment, allowance: float) -> Array:
    """The mean rewards of the actions that an allowance pays for in every round; of the cheapest if of none."""
    values, costs = _offered(env)
    return np.asarray(values[Within(costs, allowance).allowed])


def _situation(env: Environment) -> Situation:
    return env.problem.situation(every=env.problem.actions.size <= LISTED)


def _offered(env: Environment) -> tuple[Array, Array]:
    """Mean rewards and costs of the actions among which the best are found."""
    situation = _situation(env)
    assert situation.costs is not None
    return env.means_in(situation), situation.costs
