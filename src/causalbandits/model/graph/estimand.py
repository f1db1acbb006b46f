"""Estimands: formulas of observed distributions P(v | given), with products, sums and ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import opt_einsum

from causalbandits._typing import Array


@dataclass(frozen=True)
class Conditional:
    """P(variable | conditioning) in all rows, or in the rows in which some variables were randomised."""

    variable: str
    conditioning: tuple[str, ...]
    randomised: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the CPT: its variable, and the randomised variables if there are any."""
        return f"{self.variable} | do({', '.join(self.randomised)})" if self.randomised else self.variable

    def __str__(self) -> str:
        observed = [name for name in self.conditioning if name not in self.randomised]
        conditions = ", ".join([*observed, *(f"do({name})" for name in self.randomised)])
        return f"P({self.variable} | {conditions})" if conditions else f"P({self.variable})"


@dataclass(frozen=True)
class Product:
    """The product of factors; 1 if there are none."""

    factors: tuple[Formula, ...]

    def __str__(self) -> str:
        parts = [str(part) if isinstance(part, Conditional) else f"({part})" for part in self.factors]
        return " ".join(parts) or "1"


@dataclass(frozen=True)
class Sum:
    """The sum over all values of some variables."""

    over: tuple[str, ...]
    of: Formula

    def __str__(self) -> str:
        return f"sum over {', '.join(self.over)}: {self.of}"


@dataclass(frozen=True)
class Ratio:
    """The quotient of two formulas; 0 where both are 0."""

    top: Formula
    bottom: Formula

    def __str__(self) -> str:
        return f"({self.top}) / ({self.bottom})"


@dataclass(frozen=True)
class InvariantAverage:
    """The weighted average, over some variables, of a formula whose value does not depend on them."""

    over: tuple[str, ...]
    of: Formula
    shares: Formula
    """The distribution used as weights."""
    uniform_names: tuple[str, ...] = ()
    """The variables whose values have equal weights."""

    def __str__(self) -> str:
        return f"for any {', '.join(self.over)}: {self.of}"


Formula = Conditional | Product | Sum | Ratio | InvariantAverage


def free_names(formula: Formula) -> frozenset[str]:
    """The free variables of the formula."""
    match formula:
        case Conditional(variable, conditioning):
            return frozenset((variable, *conditioning))
        case Product(factors):
            return frozenset[str]().union(*map(free_names, factors))
        case Sum(over, of) | InvariantAverage(over, of):
            return free_names(of).difference(over)
        case Ratio(top, bottom):
            return free_names(top) | free_names(bottom)


def _all_names(formula: Formula) -> frozenset[str]:
    """The free variables of the formula and the variables that it sums over."""
    match formula:
        case Product(factors):
            return frozenset[str]().union(*map(_all_names, factors))
        case Sum(over, of) | InvariantAverage(over, of):
            return _all_names(of).union(over)
        case Ratio(top, bottom):
            return _all_names(top) | _all_names(bottom)
    return free_names(formula)


def conditionals_in(formula: Formula) -> Iterator[Conditional]:
    """The conditional distributions that occur in a formula."""
    match formula:
        case Conditional():
            yield formula
        case Product(factors):
            for part in factors:
                yield from conditionals_in(part)
        case Sum(_, of):
            yield from conditionals_in(of)
        case Ratio(top, bottom) | InvariantAverage(_, top, bottom):
            yield from conditionals_in(top)
            yield from conditionals_in(bottom)


def product_of(parts: Iterable[Formula]) -> Formula:
    """The product of formulas; nested products are flattened."""
    factors: list[Formula] = []
    for part in parts:
        factors += part.factors if isinstance(part, Product) else [part]
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def sum_out(over: Sequence[str], formula: Formula) -> Formula:
    """The sum over some variables, simplified.

    A conditional distribution whose own variable is summed out is dropped, and factors without these variables are
    moved out of the sum.

    >>> chain = product_of([Conditional("a", ()), Conditional("b", ("a",)), Conditional("c", ("b",))])
    >>> print(sum_out(["c"], chain), "and", sum_out(["a"], chain))
    P(a) P(b | a) and P(c | b) (sum over a: P(a) P(b | a))
    """
    remaining = [name for name in over if name in free_names(formula)]
    factors = _factors(formula)
    if isinstance(formula, Sum) and not set(remaining) & set(formula.over):
        return sum_out([*remaining, *formula.over], formula.of)
    while True:
        removable = [
            (name, part)
            for name in remaining
            for part in [factor for factor in factors if name in free_names(factor)][:1]
            if isinstance(part, Conditional)
            and part.variable == name
            and sum(name in free_names(factor) for factor in factors) == 1
        ]
        if not removable:
            break
        remaining.remove(removable[0][0])
        factors.remove(removable[0][1])
        remaining = [name for name in remaining if any(name in free_names(factor) for factor in factors)]
    if not remaining:
        return product_of(factors)
    inside = [part for part in factors if not free_names(part).isdisjoint(remaining)]
    outside = [part for part in factors if free_names(part).isdisjoint(remaining)]
    return product_of([*outside, _merge_sums(remaining, inside)])


def _merge_sums(over: list[str], factors: list[Formula]) -> Formula:
    """A sum of factors; nested sums are merged unless a name would be bound twice, and simplified further."""
    merged: list[Formula] = []
    names = list(over)
    for i, part in enumerate(factors):
        other_names = frozenset[str]().union(*(_all_names(other) for j, other in enumerate(factors) if j != i), names)
        if isinstance(part, Sum) and other_names.isdisjoint(part.over):
            names += part.over
            merged.append(part.of)
        else:
            merged.append(part)
    return Sum(tuple(names), product_of(merged)) if len(names) == len(over) else sum_out(names, product_of(merged))


def ratio(top: Formula, bottom: Formula) -> Formula:
    """The quotient of two formulas, with common factors cancelled."""
    above, below = _factors(top), _factors(bottom)
    for part in list(below):
        if part in above:
            above.remove(part)
            below.remove(part)
    return Ratio(product_of(above), product_of(below)) if below else product_of(above)


def _factors(formula: Formula) -> list[Formula]:
    return list(formula.factors) if isinstance(formula, Product) else [formula]


class NamedArray(NamedTuple):
    """An array and the names of its axes."""

    array: Array
    axes: tuple[str, ...]


MODELS = "\0models"
"""The axis over many models."""

ConditionalTables = Callable[[Conditional], Array]
"""Returns P(v | conditioning), with one axis per conditioning variable, in order, then one for v.

The first axis may be `MODELS`.
"""


def evaluate(formula: Formula, tables: ConditionalTables, sizes: Mapping[str, int]) -> NamedArray:
    """The values of a formula; a ratio 0 / 0 counts as 0."""
    match formula:
        case Conditional(variable, conditioning, _):
            table, axes = tables(formula), (*conditioning, variable)
            return NamedArray(table, axes if table.ndim == len(axes) else (MODELS, *axes))
        case Product(factors):
            return contract_arrays([evaluate(part, tables, sizes) for part in factors], _sorted_free_names(formula))
        case Sum(_, of):
            factors = of.factors if isinstance(of, Product) else (of,)
            return contract_arrays([evaluate(part, tables, sizes) for part in factors], _sorted_free_names(formula))
        case Ratio(top, bottom):
            parts = [evaluate(part, tables, sizes) for part in (top, bottom)]
            axes = (*_model_axes(parts), *_sorted_free_names(formula))
            above, below = (align_axes(part, axes, sizes) for part in parts)
            return NamedArray(np.divide(above, below, out=np.zeros(below.shape), where=below > 0), axes)
        case InvariantAverage(_, of, shares, uniform_names):
            averaged, weights = evaluate(of, tables, sizes), evaluate(shares, tables, sizes)
            uniform = [NamedArray(np.full(sizes[name], 1 / sizes[name]), (name,)) for name in uniform_names]
            return contract_arrays([averaged, weights, *uniform], _sorted_free_names(formula))


def _model_axes(parts: Iterable[NamedArray]) -> tuple[str, ...]:
    return (MODELS,) if any(MODELS in part.axes for part in parts) else ()


def _sorted_free_names(formula: Formula) -> tuple[str, ...]:
    return tuple(sorted(free_names(formula)))


def align_axes(value: NamedArray, axes: tuple[str, ...], sizes: Mapping[str, int]) -> Array:
    """An array broadcast to these axes."""
    order = np.argsort([axes.index(name) for name in value.axes])
    shape = [sizes[name] if name in value.axes else 1 for name in axes]
    return np.broadcast_to(value.array.transpose(order).reshape(shape), [sizes[name] for name in axes])


def contract_arrays(parts: list[NamedArray], axes: tuple[str, ...]) -> NamedArray:
    """The product of arrays, summed over all axes except these."""
    if not parts:
        return NamedArray(np.ones(()), ())
    operands = [piece for part in parts for piece in (part.array, part.axes)]
    output = (*_model_axes(parts), *axes)
    return NamedArray(np.asarray(opt_einsum.contract(*operands, output)), output)
