"""Which actions of a problem may be chosen, and which of them can be the best for some reward: those are searched."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from causalbandits._types import Z
from causalbandits.errors import ProblemError
from causalbandits.problem.actions import Reasons
from causalbandits.problem.combinations import Reduction, reduce_space
from causalbandits.problem.contexts import Contexts
from causalbandits.problem.costs import Costs
from causalbandits.problem.distributions import Distributions
from causalbandits.problem.requirements import Requirements
from causalbandits.problem.search import SearchSet, SomeActions


class Searched(Distributions):
    """What is left of the actions by what is required, and by what P(z | a) and costs say of them."""

    reduce: bool
    costs: Costs | None
    """What actions cost; None where none costs anything."""
    context: tuple[str, ...]
    """The variables whose values may be known before a decision."""
    known: Z | None
    """The codes of the context's variables, -1 for those that are not known; None if none is."""
    known_codes: dict[str, int]
    """What is known of the context, by name."""

    @cached_property
    def contexts(self) -> Contexts:
        """The values that the context may have, and how likely they are, given what is known."""
        return Contexts(self.knowledge if self.context else None, self.context, self.known)

    @cached_property
    def requirements(self) -> Reasons | None:
        """What was required of actions, and which it leaves, here; None if nothing was."""
        found = self.actions.requirements
        return found.given(self.known_codes) if self.known and isinstance(found, Requirements) else found

    @property
    def required(self) -> tuple[str, ...]:
        """The variables of which something is required."""
        found = self.requirements
        return (
            tuple(dict.fromkeys(part.variable.name for part in found.parts)) if isinstance(found, Requirements) else ()
        )

    @cached_property
    def _left(self) -> tuple[int, ...] | None:
        """Where what is required depends on the context: the actions that keep to it here; None if all do."""
        if not self.context or not isinstance(self.requirements, Requirements):
            return None
        complies = self.requirements.complying(self.actions.array())
        return None if complies.all() else tuple(np.flatnonzero(complies).tolist())

    @property
    def has_actions(self) -> bool:
        """Whether anything may be done here: what is required may leave nothing in a context."""
        return self._left is None or bool(self._left)

    @property
    def no_action(self) -> str:
        """Why nothing may be done here; empty if something may."""
        if self.has_actions or not isinstance(self.requirements, Requirements):
            return ""
        where = f" where {self.contexts.shown(self.known)}" if self.known else " where the context is not known"
        return self.requirements.none_complies(self.actions.array(), where)

    @property
    def _complying(self) -> tuple[int, ...] | None:
        """The same as `_left`; refused if there are none."""
        if not self.has_actions:
            raise ProblemError(self.no_action)
        return self._left

    @property
    def is_narrowed(self) -> bool:
        """Whether fewer actions may be chosen here than there are, because of what is required."""
        return self._complying is not None

    @cached_property
    def _reduced(self) -> tuple[SearchSet, Reduction]:
        if self._complying is not None:
            size, why = len(self._complying), "the others do not keep to what is required"
            return SomeActions(self.every, self._complying), Reduction(self.actions, (), (), size, aside=why)
        if self.learns == "actions":
            why = "they may each be the only best, by the graph alone" if self.reduce else "reduce=False"
            return self.every, Reduction(self.actions, (), (), self.actions.size, aside=why)
        why = "the action set is a list" if self.actions.listed is not None else "" if self.reduce else "reduce=False"
        if why:
            return self.every, Reduction(self.actions, (), (), self.actions.size, aside=why)
        return reduce_space(self.actions, self.blocks, self.shape, self.costs)

    @property
    def search(self) -> SearchSet:
        """The actions that can be the best for some reward, which causal policies search."""
        return self._reduced[0]

    def reduction(self) -> Reduction:
        """Which actions need not be searched, and why.

        >>> from causalbandits import zoo
        >>> zoo.lower_bound(3, delta=0.1).problem.reduction()
        27 actions -> 2 that can be the best for some reward.
        Without effect on the reward's parents, so left alone: X2, X3.
        X1 -> X1: 3 choices, 2 kept.
          do() = 0.5 do(X1=1) + 0.5 do(X1=2)
        """
        return self._reduced[1]
