"""Which kind of rows tells of which values: the first that tells at all, and of what it never saw the next that did.

Q of a group that hidden causes tie together is a distribution of the group for each value of its parents, whichever
rows it is computed from. So where one kind of rows never saw what it needs, and the numbers do not sum to 1, another is
asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array
from causalbandits.model.formula import MODELS, Formula, Named, aligned
from causalbandits.model.identification import UNSEEN_SHARE, Hedge, RowSource, factor_of

Numbers = Callable[[Formula], Named]
"""From a formula to what it is, given some tables."""


class ToldBy(NamedTuple):
    """Q of a group: the formulas that tell of it, and the values of its parents that each is asked for.

    `axes` are the group's and its parents', `where` has a part for each formula; None where the first tells all.
    """

    formulas: list[Formula]
    axes: tuple[str, ...]
    where: list[Array] | None = None

    def numbers(self, computed: Numbers, sizes: dict[str, int]) -> Named:
        """What the formulas say together."""
        first = computed(self.formulas[0])
        if self.where is None:
            return first
        axes = (*first.axes[: MODELS in first.axes], *self.axes)
        parts = [aligned(own, axes, sizes) for own in (first, *map(computed, self.formulas[1:]))]
        return Named(np.sum([own * part for own, part in zip(parts, self.where, strict=True)], axis=0), axes)


def told_of(sources: Sequence[RowSource], group: int, computed: Numbers, sizes: dict[str, int]) -> ToldBy | Hedge:
    """Q of a group from all sources that give it, in order; `computed` knows the tables."""
    first = factor_of(sources, group)
    if isinstance(first, Hedge):
        return first
    graph = sources[0].graph
    axes = graph.shown(group | graph.parents_of(group))
    summed = tuple(axes.index(name) for name in graph.shown(group))

    def whole(formula: Formula) -> npt.NDArray[np.bool_]:
        total = aligned(computed(formula), axes, sizes).sum(axis=summed, keepdims=True)
        return np.asarray(np.abs(total - 1) <= UNSEEN_SHARE)

    formulas, where, unseen = [first], [np.ones(())], ~whole(first)
    others = (own.factor(group) for own in sources if unseen.any() and not group & own.randomised)
    for other in others:
        if isinstance(other, Hedge) or other in formulas:
            continue
        fills = unseen & whole(other)
        if fills.any():
            formulas, where, unseen = [*formulas, other], [*where, fills.astype(np.float64)], unseen & ~fills
    where[0] = 1.0 - np.sum(where[1:], axis=0)
    return ToldBy(formulas, axes, where if len(where) > 1 else None)
