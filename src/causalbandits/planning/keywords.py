"""The keywords of CausalBandit as they are written in files and on the command line, and how they are refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from causalbandits._types import is_real
from causalbandits.errors import CausalBanditsError, unknown
from causalbandits.model.intervention import State
from causalbandits.model.knowledge import Knowledge, as_causal_graph
from causalbandits.model.variable import Variable
from causalbandits.problem.costs import DEAREST
from causalbandits.problem.problem import CausalBandit

WRITABLE = tuple(
    name
    for name, parameter in inspect.signature(CausalBandit).parameters.items()
    if name != "model" and "Callable" not in str(parameter.annotation)
)
"""The keywords that can be written down: all but functions."""

EXAMPLES = {
    "manipulable": '["A", "B"]',
    "parents": '["A", "B"]',
    "reward": '"Y"',
    "separator": '"cheapest"',
    "observable": '["A", "B"]',
    "at_most": "2",
    "always": '["A"]',
    "actions": '[{ A = "x" }, { A = "x", B = "y" }]',
    "reduce": "false",
    "costs": "{ A = 0.1, B = { x = 0.2 } }",
    "require": "{ C = { y = 0.01 } }",
    "context": '["A"]',
}


class Spelling(Protocol):
    """How whoever gives settings writes an entry."""

    def name(self, entry: str) -> str:
        """What it is called."""

    def example(self, entry: str) -> str:
        """How it might look."""

    def values(self, name: str) -> str:
        """How the values that a variable can be set to might look."""


class InFile:
    """Entries of a file's table [environment]."""

    def name(self, entry: str) -> str:
        return f"[environment] {entry}"

    def example(self, entry: str) -> str:
        return f"{self.name(entry)} = {EXAMPLES.get(entry, '...')}"

    def values(self, name: str) -> str:
        return f'{self.name("manipulable")} = {{ {name} = ["x", "y"] }}'


def keywords(given: Mapping[str, Any], model: Knowledge, spelling: Spelling) -> dict[str, Any]:
    """The keywords for CausalBandit; what it may refuse after this, it says in words that need no spelling."""
    checked: dict[str, Any] = {}
    for entry, value in given.items():
        try:
            checked[entry] = RULES[entry](value, model)
        except CausalBanditsError as error:
            raise CausalBanditsError(f"{spelling.name(entry)}: {error}") from None
    _check_actions(checked, model, spelling)
    _check_reward(checked, spelling)
    if "observable" in checked:
        checked.setdefault("separator", "cheapest")
    return checked


def _check_actions(checked: Mapping[str, Any], model: Knowledge, spelling: Spelling) -> None:
    """What can be set, and how many at once."""
    knobs, always = checked.get("manipulable"), set(checked.get("always", ()))
    if not knobs:
        variables = ", ".join(model.names)
        raise CausalBanditsError(
            f"Say what can be set: {spelling.example('manipulable')}. The variables are {variables}."
        )
    for name in sorted(always.difference(knobs)):
        raise CausalBanditsError(f"{spelling.name('always')}: {unknown('variable that can be set:', name, knobs)}")
    for name in checked.get("costs", ()):
        if name not in knobs:
            raise CausalBanditsError(f"{spelling.name('costs')}: {unknown('variable that can be set:', name, knobs)}")
    if checked.get("at_most", len(always)) < len(always):
        raise CausalBanditsError(
            f"{spelling.name('at_most')}: expected no less than the {len(always)} variables that are always set; "
            f"got {checked['at_most']}."
        )


def _check_reward(checked: Mapping[str, Any], spelling: Spelling) -> None:
    """What the reward depends on, or where to look for it."""
    name, example = spelling.name, spelling.example
    searching = [entry for entry in ("separator", "observable") if entry in checked]
    if not searching and "parents" not in checked and "reward" not in checked:
        raise CausalBanditsError(
            f"Say what the reward depends on: {example('parents')}; or, where the model has it, which it is: "
            f"{example('reward')}."
        )
    if checked.get("parents") == [] and "reward" not in checked:
        raise CausalBanditsError(
            f"{name('parents')}: without parents a number per action is learnt, of the actions worth trying by the "
            f"graph: say which variable is the reward, {example('reward')}."
        )
    if searching and "parents" in checked:
        raise CausalBanditsError(
            f"{name(searching[0])} is to find what stands in for the reward's parents: leave out {name('parents')}."
        )
    if searching and "reward" not in checked:
        raise CausalBanditsError(
            f"{name(searching[0])} needs to know which variable is the reward: {example('reward')}."
        )
    if checked.get("reward") in checked.get("observable", ()):
        raise CausalBanditsError(
            f"{name('observable')} must not have the reward {checked['reward']!r} in it: it comes too late."
        )


def _names(value: object, model: Knowledge) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise CausalBanditsError(f"expected a list of names; got {value!r}.")
    return [_name(name, model) for name in value]


def _manipulable(value: object, model: Knowledge) -> list[str] | dict[str, list[State] | None]:
    if not isinstance(value, dict):
        return _names(value, model)
    return {name: _values(name, states, model) for name, states in value.items()}


def _values(name: str, states: object, model: Knowledge) -> list[State] | None:
    variable = model[_name(name, model)]
    if states is None:  # all of them
        return None
    if not isinstance(states, list) or not states:
        raise CausalBanditsError(f"expected a list of the values that {name!r} may be set to; got {states!r}.")
    return [_state(variable, state) for state in states]


def _name(value: object, model: Knowledge) -> str:
    if not isinstance(value, str):
        raise CausalBanditsError(f"expected the name of a variable; got {value!r}.")
    if value not in model.names:
        raise CausalBanditsError(unknown("variable", value, model.names))
    return value


def _reward(value: object, model: Knowledge) -> str:
    """The reward may be hidden in the data: it is told."""
    if isinstance(value, str) and value in as_causal_graph(model).parents:
        return value
    return _name(value, model)


def _cheapest(value: object, model: Knowledge) -> str:
    if value != "cheapest":
        raise CausalBanditsError(f'expected "cheapest"; got {value!r}.')
    return "cheapest"


def _whole(value: object, model: Knowledge) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CausalBanditsError(f"expected a whole number, 1 or more; got {value!r}.")
    return value


def _truth(value: object, model: Knowledge) -> bool:
    if not isinstance(value, bool):
        raise CausalBanditsError(f"expected true or false; got {value!r}.")
    return value


def _actions(value: object, model: Knowledge) -> list[dict[str, State]]:
    if not isinstance(value, list) or not all(isinstance(action, dict) for action in value):
        raise CausalBanditsError(f"expected a list of assignments, such as {EXAMPLES['actions']}; got {value!r}.")
    return [{_name(name, model): _state(model[name], state) for name, state in action.items()} for action in value]


def _costs(value: object, model: Knowledge) -> dict[str, float | dict[State, float]]:
    if not isinstance(value, dict):
        raise CausalBanditsError(f"expected a price for each knob, such as {EXAMPLES['costs']}; got {value!r}.")
    return {_name(name, model): _prices(model[name], given) for name, given in value.items()}


def _prices(variable: Variable, given: Any) -> Any:
    """One price, or one for each value."""
    if not isinstance(given, dict):
        return _price(variable.name, given)
    return {_state(variable, state): _price(f"{variable.name}={state}", price) for state, price in given.items()}


def _price(what: str, given: object) -> float:
    if not is_real(given) or not 0 <= given <= DEAREST:
        raise CausalBanditsError(f"expected a number from 0 to {DEAREST:g} for {what}; got {given!r}.")
    return float(given)


def _require(value: object, model: Knowledge) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CausalBanditsError(f"expected how likely a value may be, such as {EXAMPLES['require']}; got {value!r}.")
    return {_name(name, model): _likely(model[name], given) for name, given in value.items()}


def _likely(variable: Variable, given: Any) -> dict[State, float]:
    """How likely each of some values may be."""
    if not isinstance(given, dict):
        raise CausalBanditsError(f"expected how likely which value of {variable.name!r} may be; got {given!r}.")
    for state, limit in given.items():
        if not is_real(limit) or not 0 <= limit < 1:
            raise CausalBanditsError(f"expected a number from 0 to below 1 for {variable.name}={state}; got {limit!r}.")
    return {_state(variable, state): float(limit) for state, limit in given.items()}


def _state(variable: Variable, value: Any) -> State:
    """The state that is meant: itself, or else the one that is written so (the number 1 and the text "1")."""
    if value in variable.states:
        return variable.states[variable.states.index(value)]
    written = [state for state in variable.states if str(state) == str(value)]
    return written[0] if len(written) == 1 else variable.states[variable.code(value)]


RULES: dict[str, Callable[[object, Knowledge], Any]] = {
    "manipulable": _manipulable,
    "parents": _names,
    "reward": _reward,
    "separator": _cheapest,
    "observable": _names,
    "at_most": _whole,
    "always": _names,
    "actions": _actions,
    "reduce": _truth,
    "costs": _costs,
    "require": _require,
    "context": _names,
}
