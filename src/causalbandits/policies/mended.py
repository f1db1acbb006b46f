"""Actions scored by cells (z, x): x is what the action does with the knobs that have joined the reward's parents.

score_a = sum over z of P(z | a) theta[z, x(a)]. Actions that do the same with these knobs share their theta, and are
projected together. Which of them can be the best is no longer a matter of P(z | a) alone, so all of them are searched.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from causalbandits._types import Array, Codes
from causalbandits.problem.actions import Choices
from causalbandits.problem.projection import Projection
from causalbandits.problem.scores import Scores
from causalbandits.problem.search import project_some
from causalbandits.problem.situation import Situation


class Alike(NamedTuple):
    """The searched actions that do the same with the joined knobs."""

    code: int
    """What they do, as a number."""
    positions: Codes
    projection: Projection


class MendedSearch:
    """The searched actions of a situation, by what they do with the joined knobs."""

    def __init__(self, situation: Situation, knobs: tuple[int, ...]) -> None:
        problem, choices = situation.problem, situation.search.array()
        self.size, self.ways = situation.size, ways(problem.actions.radices, knobs)
        codes = np.zeros(len(choices), dtype=np.intp)
        for knob in knobs:
            codes = codes * problem.actions.radices[knob] + choices[:, knob]
        self.groups = []
        for code in np.unique(codes).tolist():
            positions = np.flatnonzero(codes == code)
            projection = project_some(choices[positions], problem.blocks, problem.shape)
            self.groups.append(Alike(code, positions, projection))

    def scores(self, index: Array) -> Scores:
        """From a number per cell, for each of several draws, to a score per searched action."""
        theta = index.reshape(len(index), -1, self.ways)
        values = np.empty((len(index), self.size))
        for code, positions, projection in self.groups:
            values[:, positions] = projection(np.ascontiguousarray(theta[:, :, code].T))
        return Scores(values, np.abs(index).max(axis=1))


def ways(radices: tuple[int, ...], knobs: tuple[int, ...]) -> int:
    """In how many ways the joined knobs can be set or left alone."""
    return math.prod(radices[knob] for knob in knobs)


def cell_of(configuration: int, choices: Choices, radices: tuple[int, ...], knobs: tuple[int, ...]) -> int:
    """The cell in which an outcome counts."""
    for knob in knobs:
        configuration = configuration * radices[knob] + choices[knob]
    return configuration
