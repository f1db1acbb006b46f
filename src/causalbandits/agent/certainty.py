"""How sure it is that the best action so far is the best, and whether one may stop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from causalbandits.model.fitted_observed import Fitted
from causalbandits.policies import AnyPolicy
from causalbandits.problem.actions import Action
from causalbandits.problem.scores import TIE
from causalbandits.problem.situation import Situation

DRAWS_OF_MEANS = 1000
"""So many draws tell how likely it is to be the best, or fewer where there are many actions."""

DRAWN_AT_ONCE, FEWEST_DRAWS = 2**22, 50
"""No more numbers are drawn, and nothing is said of the probability where that would leave fewer draws."""


class Certainty(NamedTuple):
    """What is known of an action's being the best, to within `epsilon`; None where the policy does not say."""

    probability: float | None = None
    loss: float | None = None
    risk: float | None = None
    epsilon: float = 0.0
    rough: str = ""
    """What makes the risk approximate, where something does."""

    def lines(self, level: float) -> list[str]:
        """The same in words."""
        best = f"within {self.epsilon:g} of the best" if self.epsilon else "the best"
        found = []
        if self.probability is not None and self.loss is not None:
            found.append(
                f"{best} with probability {_share(self.probability)}; to stop now loses {self.loss:.2g} a round"
            )
        if self.risk is not None:
            found.append(self._advice(level))
        return found

    def _advice(self, level: float) -> str:
        assert self.risk is not None
        better = f"another is better by more than {self.epsilon:g}" if self.epsilon else "another is better"
        if self.risk >= 0.5:
            return f"go on: it is open whether {better}"
        rough = f"; {self.rough}, so that this is approximate" if self.rough else ""
        advice = "you may stop" if self.risk <= 1 - level else "go on"
        return f"{advice}: {better} with probability {self.risk:.2g} at most, whenever you look{rough}"


def _share(probability: float) -> str:
    """Draws tell no more than this."""
    return "above 99.9%" if probability > 0.999 else f"{probability:.1%}"


def certainty(policy: AnyPolicy, situation: Situation, statistic: Any, best: Action, epsilon: float) -> Certainty:
    """How sure a policy is of the best action so far. Draws are the same every time, so that this is."""
    probability, loss = _by_draws(policy, situation, statistic, best, epsilon)
    risk = policy.risk(situation, statistic, best, epsilon)
    if policy.learns_tables and risk is not None:
        risk = 1.0  # taking learnt tables for known errs far too often, by benchmarks/stopping.py; 1 is all that holds
    return Certainty(probability, loss, risk, epsilon, "" if risk is None else _rough(policy, situation))


def _by_draws(
    policy: AnyPolicy, situation: Situation, statistic: Any, best: Action, epsilon: float
) -> tuple[float | None, float | None]:
    draws = min(DRAWS_OF_MEANS, DRAWN_AT_ONCE // max(situation.size, situation.problem.configurations))
    if draws < FEWEST_DRAWS:
        return None, None
    values = policy.drawn_values(situation, statistic, np.random.default_rng(0), draws)
    if values is None:
        return None, None
    lost = values.max(axis=1) - values[:, situation.position(best)]
    return float((lost <= epsilon + TIE).mean()), float(lost.mean())


def _rough(policy: AnyPolicy, situation: Situation) -> str:
    """What the risk takes for known that is learnt."""
    if getattr(policy, "scales", None) == "learnt" or getattr(policy, "prior", None) == "main effects":
        return "the noise is learnt"
    if policy.learns_tables:
        return "the tables are learnt, and taken to be as they are expected"
    if not policy.searches_all and isinstance(situation.problem.knowledge, Fitted):
        return "the tables were fitted to data, and are taken for exact"
    return ""
