"""P(z | do(a)) of a problem, for one action or all, exactly or as data leave it: what is asked of its blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, overload

import numpy as np

from causalbandits._random import Seed
from causalbandits._types import Array, Codes
from causalbandits.errors import ProblemError, SizeError
from causalbandits.model.fitted_observed import Fitted
from causalbandits.model.intervention import State
from causalbandits.model.model import CausalModel
from causalbandits.problem.actions import Action, ActionSpace, Choices, shown
from causalbandits.problem.encoding import Encoding
from causalbandits.problem.inference import DRAWS_AT_ONCE, ENTRY_LIMIT, Block, joint_of
from causalbandits.problem.possibility import can_happen
from causalbandits.problem.projection import Projection, agreeing
from causalbandits.problem.search import EveryAction


class CredibleInterval(NamedTuple):
    """The mean of a distribution, entry by entry, and the limits of what the data leave likely."""

    mean: Array
    lower: Array
    upper: Array


class Distributions(Encoding):
    """What follows from a model, an action space and the blocks of z, and nothing else."""

    actions: ActionSpace
    blocks: tuple[Block, ...]

    @cached_property
    def every(self) -> EveryAction:
        """All actions, in the order of their numbers."""
        return EveryAction(self.actions, self.blocks, self.shape)

    @property
    def projection(self) -> Projection:
        """Sums over P(z | a) for every action, in the order of their numbers."""
        self.refuse_by_actions("P(z | do(a))")
        return self.every.projection

    def projection_of(self, choices: Choices) -> Projection:
        """Sums over P(z | a) for a single action, equal to `projection`'s in every bit."""
        self.refuse_by_actions("P(z | do(a))")
        rows = [block.row(tuple(choices[k] for k in block.knobs))[None] for block in self.blocks]
        return Projection(rows, None, self.shape, self.blocks, all_pairs=True)

    def choices(self, action: Action | Mapping[str, State] | int) -> Choices:
        """An action, given as such, by its number or its intervention, as one choice per manipulable variable."""
        if isinstance(action, Action):
            return action.choices
        if isinstance(action, Mapping):
            choices = self.actions.encode(action)
            self.actions.rank(choices)
            return choices
        return self.actions.choices(action)

    @overload
    def parent_distribution(
        self,
        action: Action | Mapping[str, State] | int,
        *,
        interval: Literal[False] = False,
        level: float = ...,
        draws: int = ...,
        rng: Seed = ...,
    ) -> Array: ...

    @overload
    def parent_distribution(
        self,
        action: Action | Mapping[str, State] | int,
        *,
        interval: Literal[True],
        level: float = ...,
        draws: int = ...,
        rng: Seed = ...,
    ) -> CredibleInterval: ...

    def parent_distribution(
        self,
        action: Action | Mapping[str, State] | int,
        *,
        interval: bool = False,
        level: float = 0.95,
        draws: int = 1000,
        rng: Seed = 0,
    ) -> Array | CredibleInterval:
        """P(z | do(a)) with one axis per parent.

        If the model was fitted, `interval=True` adds what the data leave uncertain: for each configuration, the
        quantiles between which its probability lies with probability `level`, from `draws` of the posterior.
        """
        self.refuse_by_actions("P(z | do(a))")
        choices = self.choices(action)
        if self.configurations > ENTRY_LIMIT:
            raise SizeError(
                f"The joint distribution of {len(self.parents)} parents has {shown(self.configurations)} entries; the "
                f"limit is {ENTRY_LIMIT}. Use features, whose means need the parents' marginals only."
            )
        own = [tuple(choices[k] for k in block.knobs) for block in self.blocks]
        mean = self.joint([block.row(c)[None] for block, c in zip(self.blocks, own, strict=True)])[0]
        if not isinstance(interval, bool):
            raise ProblemError(f"interval must be True or False; got {interval!r}.")
        if not interval:
            return np.asarray(mean)
        if not isinstance(self.knowledge, Fitted):
            raise ProblemError(
                "Only a model fitted to data has intervals (fit(graph, data)); this one is known exactly."
            )
        if not isinstance(level, float | int) or not 0 < level < 1:
            raise ProblemError(f"level must lie between 0 and 1; got {level!r}.")
        if not isinstance(draws, int | np.integer) or draws < 2 or draws * self.configurations > ENTRY_LIMIT:
            raise ProblemError(
                f"draws must be a whole number, 2 or more, and {ENTRY_LIMIT // self.configurations} at most for "
                f"{self.configurations} configurations; got {draws!r}."
            )
        tables = self.knowledge.draw_tables(int(draws), rng)
        drawn = self.joint([block.under(tables, c) for block, c in zip(self.blocks, own, strict=True)])
        lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return CredibleInterval(mean, lower, upper)

    def block_draws(self, action: Action, draws: int = 400) -> list[Array] | None:
        """Each block's P(z_b | do(a)) drawn from the posterior of fitted tables, a row each; None where they are exact.

        The draws are the same every time, so that an interval made of them is.
        """
        if not isinstance(self.knowledge, Fitted):
            return None
        tables = self.knowledge.draw_tables(draws, np.random.default_rng(0))
        return [block.under(tables, [action.choices[k] for k in block.knobs]) for block in self.blocks]

    def parent_draws(self, action: Action) -> Array | None:
        """The same for P(z | do(a))."""
        rows = self.block_draws(action, max(2, min(400, DRAWS_AT_ONCE // self.configurations)))
        return None if rows is None else self.joint(rows).reshape(len(rows[0]), -1)

    def joint(self, rows: Sequence[Array]) -> Array:
        """The product of the blocks' distributions, given as rows of as many models: models, then the parents' axes."""
        return joint_of(self.blocks, self.shape, rows)

    def parent_distributions(self) -> Array:
        """P(z | do(a)) for all actions at once: a row per action, then one axis per parent."""
        size = self.actions.size * self.configurations
        if size > ENTRY_LIMIT:
            raise SizeError(
                f"{self.actions.size} actions x {self.configurations} configurations are {size} numbers; the limit "
                f"is {ENTRY_LIMIT}. Ask for one action at a time, or use project(), which never builds this matrix."
            )
        table = np.ones((self.actions.size, 1))
        for b, rows in enumerate(self.projection.rows):
            table = (table[:, :, None] * rows[self.projection.row_of_action(b)][:, None, :]).reshape(len(table), -1)
        axes = [axis for block in self.blocks for axis in block.parents]
        by_block = table.reshape(-1, *(self.shape[axis] for axis in axes))
        return np.ascontiguousarray(by_block.transpose(0, *(1 + np.argsort(axes))))

    def probability(self, action: int, z: Sequence[int]) -> float:
        """P(z | do(a)) of one configuration, z given by the parents' codes."""
        self.configuration(z)
        choices = self.actions.choices(action)
        return math.prod([block.probability(choices, z) for block in self.blocks])

    def possible(self, action: Action, z: Sequence[int]) -> bool:
        """Whether P(z | do(a)) > 0; asks only the blocks in which something is impossible."""
        doubtful = self._blocks_with_zeros
        return not doubtful or all(block.probability(action.choices, z) > 0.0 for block in doubtful)

    def possible_together(self, action: Action, seen: Mapping[str, int]) -> bool:
        """Whether P(seen | do(a)) > 0 for values of any variables, given by their codes; True if it is hard to tell."""
        if not isinstance(self.knowledge, CausalModel):
            return True
        return not self._has_zeros or can_happen(self.model, self.model.codes(action.intervention), seen)

    @cached_property
    def _has_zeros(self) -> bool:
        return any(not v.table.all() for v in self.model.variables.values())

    @cached_property
    def cells(self) -> Codes | None:
        """The configurations that agree with what is known of the parents; None where that is all of them."""
        return agreeing(self.shape, self.blocks)

    @cached_property
    def _blocks_with_zeros(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.may_be_zero())
