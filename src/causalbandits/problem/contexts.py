"""Contexts: the values that variables known before a decision may have, their codes, and P(c)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from causalbandits._typing import Array, Z, is_integer
from causalbandits.errors import ProblemError, SizeError
from causalbandits.model import CausalGraph, CausalModel, Knowledge, LatentModel, State, cumulative_probabilities
from causalbandits.model import graph as graphs
from causalbandits.problem.actions import format_count
from causalbandits.problem.inference import ENTRY_LIMIT, Block, ConditionedBlocks, joint_distribution

CONTEXTS_LIMIT = 2**16
"""The largest number of contexts that are listed."""

CONTEXT_SAMPLE_SIZE = 2**8
"""The number of sampled contexts in a mean over contexts, if there are more than this."""


class Contexts:
    """The contexts of a problem.

    A context is given by codes, the position of each variable's value, -1 for unknown values. The last variable's code
    changes fastest.
    """

    def __init__(self, knowledge: Knowledge | None, names: tuple[str, ...], context_codes: Z | None) -> None:
        self.names, self._knowledge, self._context_codes = names, knowledge, context_codes
        self._states = {} if knowledge is None else {name: knowledge[name].states for name in names}
        self.shape = tuple(map(len, self._states.values()))
        self.size = math.prod(self.shape)
        """The number of contexts; 1 without context."""

    @property
    def _model(self) -> CausalModel:
        assert self._knowledge is not None  # a problem with a context has a model or a graph
        if isinstance(self._knowledge, CausalGraph):
            raise ProblemError(
                f"The distribution of {', '.join(self.names)} is unknown, because a CausalGraph has no CPTs. Pass the "
                "context, or a CausalModel or a LatentModel."
            )
        # No action changes a context, so that its distribution is the observational one.
        return self._knowledge.observational_model if isinstance(self._knowledge, LatentModel) else self._knowledge

    @property
    def has_probabilities(self) -> bool:
        """Whether the probabilities of contexts are known."""
        return not isinstance(self._knowledge, CausalGraph)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The independent parts of the context."""
        return (
            ConditionedBlocks(self._model, (), self.names)(self._codes_by_name(self._context_codes))
            if self.names
            else ()
        )

    @cached_property
    def distribution(self) -> Array:
        """P(c), one axis per variable of the context."""
        if self.size > ENTRY_LIMIT:
            raise SizeError(
                f"There are {format_count(self.size)} contexts; the limit for their distribution is {ENTRY_LIMIT}."
            )
        if not self.names:
            return np.ones(())
        return np.asarray(joint_distribution(self.blocks, self.shape, [block.table for block in self.blocks])[0])

    def by_probability(self) -> list[tuple[Z, float]]:
        """Every possible context with its probability, the most probable first."""
        if self.size > CONTEXTS_LIMIT:
            raise SizeError(
                f"This call enumerates {format_count(self.size)} contexts; the limit is {CONTEXTS_LIMIT}. Pass the "
                "relevant contexts one by one."
            )
        flat = self.distribution.reshape(-1)
        order = np.argsort(-flat, kind="stable")
        return [(self.at(number), float(flat[number])) for number in order.tolist() if flat[number] > 0]

    def sample(self, rng: np.random.Generator) -> Z:
        """Sample a context: one uniform number for each independent part, in order."""
        codes = [0] * len(self.names)
        for block, cdf in self._cdfs:
            code = bisect_right(cdf, rng.random())
            for axis, size in zip(reversed(block.parents), reversed(block.shape), strict=True):
                code, codes[axis] = divmod(code, size)
        return tuple(codes)

    @cached_property
    def _cdfs(self) -> list[tuple[Block, list[float]]]:
        return [(block, cumulative_probabilities(block.table[0]).tolist()) for block in self.blocks]

    def weighted_contexts(self) -> list[tuple[Z, float]]:
        """Every possible context with its probability; if there are too many, an equally weighted sample."""
        if self.size <= CONTEXT_SAMPLE_SIZE:
            return self.by_probability()
        rng = np.random.default_rng(0)
        return [(self.sample(rng), 1 / CONTEXT_SAMPLE_SIZE) for _ in range(CONTEXT_SAMPLE_SIZE)]

    def probability(self, codes: Z) -> float:
        """The prior probability of the values of these codes."""
        evidence = self._codes_by_name(codes)
        graph = self._model.graph
        names = [n for n in self._model.order if n in graphs.ancestors(graph, evidence) and n not in evidence]
        return Block(self._model, names, (), (), evidence, tuple(evidence)).evidence_probability()

    def number(self, codes: Z | None) -> int | None:
        """The number of a fully known context (0 if there is no context); otherwise None."""
        number = 0
        for size, code in zip(self.shape, codes or (-1,) * len(self.shape), strict=True):
            if code < 0:
                return None
            number = number * size + code
        return number

    def at(self, number: int) -> Z:
        """The codes of the context with this number."""
        return tuple(map(int, np.unravel_index(number, self.shape))) if self.names else ()

    def values(self, codes: Z | None) -> dict[str, State]:
        """The known values, by variable."""
        return {name: self._states[name][code] for name, code in self._codes_by_name(codes).items()}

    def format_context(self, codes: Z | None) -> str:
        """The known values as text."""
        return ", ".join(f"{name}={value}" for name, value in self.values(codes).items())

    def parse_codes(self, codes: object) -> Z | None:
        """Codes from a file."""
        if codes is None:
            return None
        if not isinstance(codes, Sequence) or len(codes) != len(self.shape):
            raise ProblemError(f"A context has one code per variable of {list(self.names)}; got {codes!r}.")
        for code, size in zip(codes, self.shape, strict=True):
            if not is_integer(code) or not -1 <= code < size:
                raise ProblemError(f"A context's codes lie below {list(self.shape)}, or are -1; got {codes!r}.")
        return tuple(map(int, codes)) if any(code >= 0 for code in codes) else None

    def _codes_by_name(self, codes: Z | None) -> dict[str, int]:
        return {name: code for name, code in zip(self.names, codes or (), strict=False) if code >= 0}
