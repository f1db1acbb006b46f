"""A budget that contexts share: what each of them is to spend.

With P(c) for how often a context comes, the most that a round can bring for b, in the mean, is again a linear program:

    max sum_c P(c) sum_a x_ca value_ca   where   sum_c P(c) sum_a x_ca cost_ca <= b,   sum_a x_ca = 1,   x >= 0.

Each context has its own upper envelope of the points (cost, value). All start with what is cheapest, and money goes to
the steepest step of any envelope, wherever that is, until it is spent: what a step brings for its money is then the
price, the same in all contexts. Only the last step may be taken in part, so that one context at most mixes two actions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from causalbandits._types import Array
from causalbandits.problem.budget import Mixture, cheapest_of_the_best

Ascent = tuple[float, int, int]
"""The slope of a step along an envelope, negative; whose envelope it is, and which action it leads to."""


class Offer(NamedTuple):
    """What can be done in one context, how often that comes, and what ties there."""

    share: float
    values: Array
    costs: Array
    tie: float = 0.0


def shared_mixtures(offers: Sequence[Offer], allowance: float) -> list[Mixture]:
    """What each context plays if all of them together are to spend no more than the allowance, in the mean.

    Where even the cheapest actions cost more than that, they are what is played.

    >>> rich = Offer(0.5, np.array([0., 1.]), np.array([0., 1.]))
    >>> poor = Offer(0.5, np.array([0., 3.]), np.array([0., 1.]))
    >>> shared_mixtures([rich, poor], 0.75)
    [Mixture(low=0, high=1, share=0.5), Mixture(low=1, high=1, share=0.0)]
    """
    reached = [_cheapest(offer) for offer in offers]
    left = allowance - math.fsum(offer.share * offer.costs[low] for offer, low in zip(offers, reached, strict=True))
    steps = [step for number, low in enumerate(reached) if (step := _step(offers[number], number, low))]
    heapq.heapify(steps)
    mixtures = [Mixture(low, low, 0.0) for low in reached]
    while steps:
        _, number, high = heapq.heappop(steps)
        low, offer = mixtures[number].low, offers[number]
        price = offer.share * float(offer.costs[high] - offer.costs[low])
        if price > left:
            mixtures[number] = Mixture(low, high, max(0.0, left) / price)
            break
        left -= price
        mixtures[number] = Mixture(high, high, 0.0)
        if step := _step(offer, number, high):
            heapq.heappush(steps, step)
    return mixtures


def _cheapest(offer: Offer) -> int:
    """The best of the cheapest actions."""
    return cheapest_of_the_best(offer.values, offer.costs, offer.costs <= offer.costs.min(), offer.tie)


def _step(offer: Offer, number: int, low: int) -> Ascent | None:
    """The steepest way up from an action of an envelope; None where nothing that costs more brings more."""
    dearer, gained = offer.costs - offer.costs[low], offer.values - offer.values[low]
    upwards = (dearer > 0) & (gained > offer.tie)
    if not upwards.any():
        return None
    slopes = np.divide(gained, dearer, out=np.zeros(len(gained)), where=upwards)
    high = int(slopes.argmax())
    return -float(slopes[high]), number, high
