"""Costs of actions: a price for each value of a manipulable variable; an unset variable costs nothing.

    cost(a) = sum over the variables that a sets of price(variable, value)

Costs are known, so they are subtracted from scores, never from rewards. Given the parents, Y - cost(a) still depends on
the action, so a mean of it per configuration would be wrong.

>>> from causalbandits import zoo, Problem
>>> problem = zoo.email_campaign().problem
>>> priced = Problem(problem.model, manipulable=problem.manipulable, reward_parents=problem.parents,
...                       costs={"product": 0.02, "send_time": {"morning": 0.01}}, optional=True)
>>> priced.cost({"product": "Photoshop", "send_time": "morning"}), priced.cost({"send_time": "evening"})
(0.03, 0.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.errors import InterventionError, ProblemError, unknown_name_message
from causalbandits.model import State, Variable
from causalbandits.problem.actions.space import ActionSpace, Choices, Choices2D

Prices = Mapping[str, float | Mapping[State, float]]
"""The prices of each variable: one for all values, or one for each value; values without a price cost nothing."""

LARGEST_PRICE = 1e100
"""The largest price; sums of larger ones overflow."""


class Costs:
    """The costs of the actions of a space."""

    def __init__(self, space: ActionSpace, tables: Sequence[Sequence[float]]) -> None:
        self.space = space
        self.tables = tuple(np.array(table, dtype=np.float64) for table in tables)
        """For each manipulable variable, the price of each of its choices; the first choice, leaving it unset,
        costs nothing.
        """

    @classmethod
    def parse(cls, space: ActionSpace, prices: Prices | None) -> Costs | None:
        """The costs given by a user; None if no action costs anything."""
        if prices is None:
            return None
        if not isinstance(prices, Mapping):
            raise ProblemError(
                "costs must map manipulable variables to prices, such as {'x': 0.1} or {'x': {'high': 0.2}}; got "
                f"{prices!r}."
            )
        for name in prices:
            if name not in space.names:
                raise ProblemError(unknown_name_message("manipulable variable in costs=:", name, space.names))
        costs = cls(space, [_parse_prices(v, prices.get(v.name, 0.0)) for v in space.variables])
        return costs if any(table.any() for table in costs.tables) else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Costs):
            return NotImplemented
        return self.space.names == other.space.names and self.to_record() == other.to_record()

    __hash__ = None  # type: ignore[assignment]

    def cost_of(self, choices: Choices) -> float:
        """The cost of an action, given by its choices."""
        total = 0.0
        for prices, choice in zip(self._lists, choices, strict=True):
            total += prices[choice]
        return total

    def costs_of(self, choices: Choices2D, manipulable: Sequence[int] | None = None) -> Array:
        """The costs of rows of choices, of all variables or of some, given by their positions."""
        total = np.zeros(len(choices))
        for column, variable in enumerate(range(len(self.tables)) if manipulable is None else manipulable):
            total += self.tables[variable][choices[:, column]]
        return total

    @cached_property
    def _lists(self) -> list[list[float]]:
        return [table.tolist() for table in self.tables]

    @cached_property
    def largest(self) -> float:
        """The largest cost of an action."""
        return float(sum(max(prices) for prices in self._lists))

    def cheapest(self, choices: Choices) -> Choices:
        """The same choices, with the first of the cheapest values for variables that must be set."""
        allowed = zip(choices, self._lists, self.space.settable, strict=True)
        return tuple(
            min(settable_choices, key=prices.__getitem__) if choice else 0
            for choice, prices, settable_choices in allowed
        )

    def to_record(self) -> list[list[float]]:
        """A JSON-ready list of the costs of each variable."""
        return [prices[1:] for prices in self._lists]

    def by_value(self) -> dict[str, dict[str, float]]:
        """A JSON-ready mapping from each variable with a cost to the cost of each of its values, written as text."""
        priced = zip(self.space.variables, self.to_record(), strict=True)
        return {v.name: dict(zip(_state_texts(v), prices, strict=True)) for v, prices in priced if any(prices)}

    @classmethod
    def from_record(cls, record: Any, space: ActionSpace) -> Costs | None:
        """The costs that `to_record` or `by_value` describes."""
        if record is None:
            return None
        if isinstance(record, Mapping):
            record = [[record.get(v.name, {}).get(text, 0.0) for text in _state_texts(v)] for v in space.variables]
        if not isinstance(record, list) or [_length(prices) for prices in record] != [
            len(v.states) for v in space.variables
        ]:
            raise ProblemError(
                f"costs must be a list of prices for every manipulable variable, one for each value; got {record!r}."
            )
        named = zip(space.variables, record, strict=True)
        return cls.parse(space, {v.name: dict(zip(v.states, prices, strict=True)) for v, prices in named})

    @property
    def names(self) -> tuple[str, ...]:
        """The variables with a cost."""
        return tuple(v.name for v, table in zip(self.space.variables, self.tables, strict=True) if table.any())

    @property
    def prices_text(self) -> str:
        """The variables with a cost, each with its cost or the range of its costs."""
        parts = [
            _format_prices(v.name, prices[1:]) for v, prices in zip(self.space.variables, self._lists, strict=True)
        ]
        return ", ".join(part for part in parts if part)

    def __repr__(self) -> str:
        return f"Costs({self.prices_text})"


def _parse_prices(variable: Variable, prices: object) -> list[float]:
    """The price of each choice of a variable."""
    if not isinstance(prices, Mapping):
        return [0.0, *[_parse_price(variable, prices, "")] * len(variable.states)]
    table = [0.0] * (1 + len(variable.states))
    for value, price in prices.items():
        try:
            choice = 1 + variable.code(value)
        except InterventionError as error:
            raise ProblemError(f"costs of {variable.name!r}: {error}") from None
        table[choice] = _parse_price(variable, price, f" to {value!r}")
    return table


def _parse_price(variable: Variable, price: object, value: str) -> float:
    price = price.item() if isinstance(price, np.generic) else price
    if not is_real(price) or not 0 <= price <= LARGEST_PRICE:
        raise ProblemError(
            f"The cost of setting {variable.name!r}{value} must be a number from 0 to {LARGEST_PRICE:g}; got "
            f"{price!r}. Add earnings to the reward instead."
        )
    return float(price)


def _state_texts(variable: Variable) -> list[str]:
    """The values of a variable as distinct JSON keys; quotes distinguish the text "1" from the number 1."""
    texts = list(map(str, variable.states))
    return texts if len(set(texts)) == len(texts) else list(map(repr, variable.states))


def _length(prices: object) -> int:
    return len(prices) if isinstance(prices, list) else -1


def _format_prices(name: str, prices: Sequence[float]) -> str:
    least, most = min(prices), max(prices)
    if not most:
        return ""
    return f"{name} {most:g}" if least == most else f"{name} {least:g} to {most:g}"
