"""Formulas of what is observed: tables P(v | given), their products, sums and ratios; printed, and computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import opt_einsum

from causalbandits._typing import Array


@dataclass(frozen=True)
class Conditional:
    """P(v | given), of all rows or of those in which some variables were set at random."""

    variable: str
    given: tuple[str, ...]
    randomised: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The table's: its variable's, and what was set."""
        return f"{self.variable} | do({', '.join(self.randomised)})" if self.randomised else self.variable

    def __str__(self) -> str:
        seen = [name for name in self.given if name not in self.randomised]
        given = ", ".join([*seen, *(f"do({name})" for name in self.randomised)])
        return f"P({self.variable} | {given})" if given else f"P({self.variable})"


@dataclass(frozen=True)
class Product:
    """Factors; none of them: 1."""

    factors: tuple[Formula, ...]

    def __str__(self) -> str:
        shown = [str(part) if isinstance(part, Conditional) else f"({part})" for part in self.factors]
        return " ".join(shown) or "1"


@dataclass(frozen=True)
class Sum:
    """The sum over all values of some variables."""

    over: tuple[str, ...]
    of: Formula

    def __str__(self) -> str:
        return f"sum over {', '.join(self.over)}: {self.of}"


@dataclass(frozen=True)
class Ratio:
    """One by the other; 0 where both are."""

    top: Formula
    bottom: Formula

    def __str__(self) -> str:
        return f"({self.top}) / ({self.bottom})"


@dataclass(frozen=True)
class Anywhere:
    """What is the same for every value of some variables: their average, by how often each occurs."""

    over: tuple[str, ...]
    of: Formula
    shares: Formula
    """How often."""
    alike: tuple[str, ...] = ()
    """Those of the variables of which all values count alike."""

    def __str__(self) -> str:
        return f"for any {', '.join(self.over)}: {self.of}"


Formula = Conditional | Product | Sum | Ratio | Anywhere


def free_names(formula: Formula) -> frozenset[str]:
    """The variables of whose values it is a function."""
    match formula:
        case Conditional(variable, given):
            return frozenset((variable, *given))
        case Product(factors):
            return frozenset[str]().union(*map(free_names, factors))
        case Sum(over, of) | Anywhere(over, of):
            return free_names(of).difference(over)
        case Ratio(top, bottom):
            return free_names(top) | free_names(bottom)


def _all_names(formula: Formula) -> frozenset[str]:
    """The same and the variables that are summed over inside."""
    match formula:
        case Product(factors):
            return frozenset[str]().union(*map(_all_names, factors))
        case Sum(over, of) | Anywhere(over, of):
            return _all_names(of).union(over)
        case Ratio(top, bottom):
            return _all_names(top) | _all_names(bottom)
    return free_names(formula)


def tables_in(formula: Formula) -> Iterator[Conditional]:
    """The tables that a formula is made of."""
    match formula:
        case Conditional():
            yield formula
        case Product(factors):
            for part in factors:
                yield from tables_in(part)
        case Sum(_, of):
            yield from tables_in(of)
        case Ratio(top, bottom) | Anywhere(_, top, bottom):
            yield from tables_in(top)
            yield from tables_in(bottom)


def times(parts: Iterable[Formula]) -> Formula:
    """The product, without products in it."""
    factors: list[Formula] = []
    for part in parts:
        factors += part.factors if isinstance(part, Product) else [part]
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def summed(over: Sequence[str], formula: Formula) -> Formula:
    """The sum over some variables: tables whose own variable goes are gone, what has none of them stands before it.

    >>> chain = times([Conditional("a", ()), Conditional("b", ("a",)), Conditional("c", ("b",))])
    >>> print(summed(["c"], chain), "and", summed(["a"], chain))
    P(a) P(b | a) and P(c | b) (sum over a: P(a) P(b | a))
    """
    left = [name for name in over if name in free_names(formula)]
    factors = _factors(formula)
    if isinstance(formula, Sum) and not set(left) & set(formula.over):
        return summed([*left, *formula.over], formula.of)
    while True:
        gone = [
            (name, part)
            for name in left
            for part in [own for own in factors if name in free_names(own)][:1]
            if isinstance(part, Conditional)
            and part.variable == name
            and sum(name in free_names(own) for own in factors) == 1
        ]
        if not gone:
            break
        left.remove(gone[0][0])
        factors.remove(gone[0][1])
        left = [name for name in left if any(name in free_names(own) for own in factors)]
    if not left:
        return times(factors)
    inside = [part for part in factors if not free_names(part).isdisjoint(left)]
    outside = [part for part in factors if free_names(part).isdisjoint(left)]
    return times([*outside, _joined(left, inside)])


def _joined(over: list[str], factors: list[Formula]) -> Formula:
    """A sum of factors, the sums among them joined to it where no name is meant twice: more may go then."""
    own: list[Formula] = []
    names = list(over)
    for i, part in enumerate(factors):
        others = frozenset[str]().union(*(_all_names(other) for j, other in enumerate(factors) if j != i), names)
        if isinstance(part, Sum) and others.isdisjoint(part.over):
            names += part.over
            own.append(part.of)
        else:
            own.append(part)
    return Sum(tuple(names), times(own)) if len(names) == len(over) else summed(names, times(own))


def ratio(top: Formula, bottom: Formula) -> Formula:
    """One by the other, without the factors that both have."""
    above, below = _factors(top), _factors(bottom)
    for part in list(below):
        if part in above:
            above.remove(part)
            below.remove(part)
    return Ratio(times(above), times(below)) if below else times(above)


def _factors(formula: Formula) -> list[Formula]:
    return list(formula.factors) if isinstance(formula, Product) else [formula]


class Named(NamedTuple):
    """An array and the names of its axes."""

    array: Array
    axes: tuple[str, ...]


MODELS = "\0models"
"""The axis of many models at once."""

ConditionalTables = Callable[[Conditional], Array]
"""Gives P(v | given), an axis for each that is given, in order, then v's own; before them, perhaps, one of `MODELS`."""


def computed(formula: Formula, tables: ConditionalTables, sizes: Mapping[str, int]) -> Named:
    """The numbers of a formula. Where a ratio is 0 / 0 it counts 0."""
    match formula:
        case Conditional(variable, given, _):
            table, axes = tables(formula), (*given, variable)
            return Named(table, axes if table.ndim == len(axes) else (MODELS, *axes))
        case Product(factors):
            return contracted([computed(part, tables, sizes) for part in factors], _in_order(formula))
        case Sum(_, of):
            factors = of.factors if isinstance(of, Product) else (of,)
            return contracted([computed(part, tables, sizes) for part in factors], _in_order(formula))
        case Ratio(top, bottom):
            parts = [computed(part, tables, sizes) for part in (top, bottom)]
            axes = (*_front(parts), *_in_order(formula))
            above, below = (aligned(part, axes, sizes) for part in parts)
            return Named(np.divide(above, below, out=np.zeros(below.shape), where=below > 0), axes)
        case Anywhere(_, of, shares, alike):
            own, share = computed(of, tables, sizes), computed(shares, tables, sizes)
            same = [Named(np.full(sizes[name], 1 / sizes[name]), (name,)) for name in alike]
            return contracted([own, share, *same], _in_order(formula))


def _front(parts: Iterable[Named]) -> tuple[str, ...]:
    return (MODELS,) if any(MODELS in part.axes for part in parts) else ()


def _in_order(formula: Formula) -> tuple[str, ...]:
    return tuple(sorted(free_names(formula)))


def aligned(value: Named, axes: tuple[str, ...], sizes: Mapping[str, int]) -> Array:
    """An array with these axes, those that it does not have being broadcast."""
    order = np.argsort([axes.index(name) for name in value.axes])
    shape = [sizes[name] if name in value.axes else 1 for name in axes]
    return np.broadcast_to(value.array.transpose(order).reshape(shape), [sizes[name] for name in axes])


def contracted(parts: list[Named], axes: tuple[str, ...]) -> Named:
    """The product of arrays, summed over all axes but these."""
    if not parts:
        return Named(np.ones(()), ())
    operands = [piece for part in parts for piece in (part.array, part.axes)]
    output = (*_front(parts), *axes)
    return Named(np.asarray(opt_einsum.contract(*operands, output)), output)
