"""Whether an intervention and an observation are possible together, by the zeros of the CPTs.

Only CPTs with zeros exclude observations, and only among the ancestors of observed variables. At the known values they
are factors of zeros and ones; some values of the other variables must make all factors one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from causalbandits.model import CausalModel
from causalbandits.model.graph import ancestors, without_causes_of
from causalbandits.problem.inference.contraction import Operand, contract, find_order

LARGEST_FACTOR = 2**20
"""The largest array; if a larger one would be needed, the observation counts as possible."""


def has_support(model: CausalModel, intervened: Mapping[str, int], observed: Mapping[str, int]) -> bool:
    """Whether P(observed | do(intervened)) > 0, both given by codes.

    >>> from causalbandits import Variable
    >>> copy = Variable("b", [0, 1], parents=["a"], table=[[1, 0], [0, 1]])
    >>> model = CausalModel([Variable("a", [0, 1], table=[1, 0]), copy])
    >>> has_support(model, {}, {"b": 1}), has_support(model, {"a": 1}, {"b": 1})
    (False, True)
    """
    evidence = {**observed, **intervened}
    if any(intervened[name] != code for name, code in observed.items() if name in intervened):
        return False
    relevant = ancestors(without_causes_of(model.graph, intervened), evidence).difference(intervened)
    factors = [_support_factor(model, name, evidence) for name in relevant]
    if not all(factor.array.any() for factor in factors):
        return False
    return _is_satisfiable([factor for factor in factors if not factor.array.all()])


def _support_factor(model: CausalModel, name: str, evidence: Mapping[str, int]) -> Operand:
    """The positive entries of a variable's CPT, over those of its parents and itself that are not known."""
    axes = (*model[name].parents, name)
    positive = model[name].table[tuple(evidence.get(axis, slice(None)) for axis in axes)] > 0
    return Operand(np.asarray(positive, dtype=np.float64), [axis for axis in axes if axis not in evidence])


def _is_satisfiable(factors: list[Operand]) -> bool:
    """Whether some values make all factors positive: their product, with sums limited to 1 to avoid overflow."""
    if not factors:
        return True
    order = find_order(factors, [], LARGEST_FACTOR)
    if order.largest > LARGEST_FACTOR:
        return True
    remaining = list(factors)
    for step in order.steps:
        operands = [remaining.pop(position) for position in sorted(step, reverse=True)]
        kept_axes = sorted(_axes(operands) & _axes(remaining))
        product = np.minimum(1.0, contract(operands, [tuple(range(len(operands)))], kept_axes))
        remaining.append(Operand(product if kept_axes else product.reshape(()), kept_axes))
    return bool(remaining[0].array > 0)


def _axes(factors: Iterable[Operand]) -> set[str]:
    return {axis for factor in factors for axis in factor.axes}
