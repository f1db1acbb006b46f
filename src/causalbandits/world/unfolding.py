"""How a world unfolds: every variable on the way to the parents, drawn one by one, causes first."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from causalbandits._memory import Memory
from causalbandits.model.graph import ancestors
from causalbandits.model.sampling import cumulative
from causalbandits.problem.actions import Choices
from causalbandits.problem.given import BlocksGiven
from causalbandits.problem.problem import CausalBandit

GIVEN_LAWS_KEPT = 2**16
"""So many distributions, given what is known, are remembered."""


class Mechanism(NamedTuple):
    """How a variable comes about: by which knob, if that is set, or else by its causes."""

    name: str
    knob: int | None
    causes: tuple[tuple[str, int], ...]
    cdfs: list[list[float]]
    """For every configuration of the causes, P(value or less)."""


class Unfolding:
    """How variables come about where some may be set, and some are known beforehand."""

    def __init__(self, problem: CausalBandit) -> None:
        self._problem = problem
        self._cdfs_given: Memory[tuple[str, tuple[tuple[str, int], ...]], list[float]] = Memory(GIVEN_LAWS_KEPT)

    def draw(self, choices: Choices, rng: np.random.Generator) -> dict[str, int]:
        """What every variable on the way to the parents, and to what is required, turns out to be."""
        course: dict[str, int] = {}
        known = self._problem.known_codes
        for name, knob, causes, cdfs in self.mechanisms:
            if name in known:
                course[name] = known[name]
                continue
            if name in self._causes_of_known:
                course[name] = bisect_right(self._cdf_given(name, {**course, **known}), rng.random())
                continue
            if knob is not None and choices[knob]:
                course[name] = choices[knob] - 1
                continue
            row = 0
            for cause, size in causes:
                row = row * size + course[cause]
            course[name] = bisect_right(cdfs[row], rng.random())
        return course

    def _cdf_given(self, name: str, known: Mapping[str, int]) -> list[float]:
        """How a cause of what is known comes about, given that and the causes before it."""
        key = name, tuple(known.items())
        found = self._cdfs_given.get(key)
        if found is None:
            block = self._causes_of_known[name](known)[0]
            found = self._cdfs_given.keep(key, cumulative(block.table[0]).tolist())
        return found

    @cached_property
    def _causes_of_known(self) -> dict[str, BlocksGiven]:
        """The causes of what is known, which are no knobs: by name, how each is distributed given others."""
        model, known = self._problem.model, self._problem.known_codes
        return {name: BlocksGiven(model, (), (name,)) for name in ancestors(model.graph, known) if name not in known}

    @cached_property
    def mechanisms(self) -> list[Mechanism]:
        """How each variable on the way to the parents, and to what is required, comes about: causes first."""
        problem = self._problem
        model, knobs = problem.model, problem.manipulable
        on_the_way = ancestors(model.graph, (*problem.parents, *problem.context, *problem.required))
        return [
            Mechanism(
                name,
                knobs.index(name) if name in knobs else None,
                tuple((cause, len(model[cause].states)) for cause in model[name].parents),
                [cumulative(row).tolist() for row in model[name].table.reshape(-1, len(model[name].states))],
            )
            for name in model.order
            if name in on_the_way
        ]
