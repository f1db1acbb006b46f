"""What an action brings less than the best mixture that a budget pays for."""

from __future__ import annotations

from causalbandits._memory import Memory
from causalbandits.errors import BudgetError
from causalbandits.problem.budget import SLACK, Mixture, best_mixture, refuse_context
from causalbandits.world.environment import LISTED, MEANS_KEPT, Environment


class Shortfall:
    """`shortfall(number)`: the mean reward of the best mixture at an allowance a round, less that of an action.

    Negative where an action costs more than the allowance and brings more: over the rounds these make up for others.

    >>> from causalbandits import CausalBandit, Environment, zoo
    >>> free = zoo.email_campaign()
    >>> p = free.problem
    >>> env = Environment(CausalBandit(p.model, p.manipulable, p.parents, costs={"send_time": 0.1}), free.reward)
    >>> shortfall = Shortfall(env, 0.05)
    >>> shortfall.mixture.share, round(shortfall(0), 4), round(shortfall(p.actions.index({"send_time": "morning"})), 4)
    (0.5, 0.0834, -0.0054)
    """

    def __init__(self, env: Environment, allowance: float) -> None:
        listed = env.problem.actions.size <= LISTED
        situation = env.problem.situation(every=listed)
        if situation.costs is None:
            raise BudgetError("A budget needs to know what actions cost: CausalBandit(..., costs={...}).")
        refuse_context(env.problem.context)
        cheapest = float(situation.costs.min())
        if cheapest > allowance * (1 + SLACK):
            raise BudgetError(
                f"The cheapest action costs {cheapest:g}, and the budget has {allowance:g} for each round: it does not "
                "last for all of them. Give a larger budget, or a shorter horizon."
            )
        values = env.means if listed else env.mean.of_actions(situation.search.projection)
        self._env, self.mixture = env, best_mixture(values, situation.costs, max(allowance, cheapest))
        self.best: float = Mixture.mean(self.mixture, values)
        """The most that a round can bring in the mean."""

        self._lost: Memory[int, float] = Memory(MEANS_KEPT)

    def __call__(self, action: int) -> float:
        lost = self._lost.get(action)
        return self._lost.keep(action, self.best - self._env.mean_reward(action)) if lost is None else lost
