"""Rewards with heavy tails: Student's t around the mean.

With three degrees of freedom the variance is finite and the fourth moment is not: one reward in a thousand is ten
times as far from its mean as usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from causalbandits._types import is_whole
from causalbandits.errors import ProblemError
from causalbandits.model.intervention import State
from causalbandits.problem.problem import CausalBandit
from causalbandits.world.rewards import MeanReward, Means, Reward, TabulatedMean, check_sd, shown_mean

MOST_DEGREES = 100
"""Beyond, it is a Gaussian for all that anybody could see."""


class StudentReward(Reward):
    """Y = `mean` + `scale` T, with T of Student's t distribution with so many `degrees` of freedom.

    Its standard deviation is `scale` sqrt(degrees / (degrees - 2)), 1.73 `scale` with three degrees and infinite with
    two.

    >>> StudentReward([0.1, 0.4], scale=0.1)
    StudentReward(mean=<array (2,)>, scale=0.1, degrees=3)
    """

    def __init__(self, mean: Means, scale: float = 1.0, degrees: int = 3) -> None:
        if not is_whole(degrees) or not 2 <= degrees <= MOST_DEGREES:
            raise ProblemError(
                f"degrees must be a whole number from 2 (with 1 there is no mean) to {MOST_DEGREES}; got {degrees!r}."
            )
        self.mean, self.scale, self.degrees = mean, check_sd(scale, "scale"), int(degrees)
        self.bounded = False if self.scale > 0 else None

    def __repr__(self) -> str:
        return f"StudentReward(mean={shown_mean(self.mean)}, scale={self.scale}, degrees={self.degrees})"

    def mean_on(self, problem: CausalBandit) -> MeanReward:
        return TabulatedMean(problem, self.mean)

    def draw(self, mean: float, values: Callable[[], Mapping[str, State]], rng: np.random.Generator) -> float:
        # By definition, from normals, and not rng.standard_t: compiled rounds then have the same bits.
        normal, squares = rng.standard_normal(), 0.0
        for _ in range(self.degrees):
            other = rng.standard_normal()
            squares += other * other
        return mean + self.scale * (normal / math.sqrt(squares / self.degrees))
