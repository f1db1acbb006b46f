"""JSON-ready records of a model's variables: name, states, parents, and the numbers that the kind of model stores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from causalbandits._files import DuplicateKeyError, parse_json
from causalbandits.errors import ModelError, short_repr
from causalbandits.model.intervention import State
from causalbandits.model.variable import Variable, decode_state, encode_state


def parse_document(text: str, kind: str, format: str, version: int) -> dict[str, Any]:
    """The record in a JSON text; raises a ModelError unless its format and version are the given ones."""
    try:
        data = parse_json(text)
    except (json.JSONDecodeError, TypeError, RecursionError) as error:
        raise ModelError(f"Not JSON: {error}.") from None
    except DuplicateKeyError as error:
        raise ModelError(f"Not a causalbandits {kind}: {error}. Keep one of them.") from None
    if not isinstance(data, dict) or data.get("format") != format:
        found = f"; got {short_repr(data['format'])}" if isinstance(data, dict) and "format" in data else ""
        raise ModelError(f"Not a causalbandits {kind}: the key 'format' must be {format!r}{found}.")
    if data.get("version") != version:
        raise ModelError(
            f"{kind.capitalize()} files of version {version} are supported; got version "
            f"{short_repr(data.get('version'))}."
        )
    return data


class VariableRecord(NamedTuple):
    """The fields of a variable's record, not validated; the model checks that they make a variable."""

    name: str
    states: Any
    parents: Any
    numbers: tuple[Any, ...]


def encode_variable(v: Variable, **numbers: Any) -> dict[str, Any]:
    """The record of a variable, including these numbers."""
    states = [encode_state(state) for state in v.states]
    return {"name": v.name, "states": states, "parents": list(v.parents), **numbers}


def decode_variables(record: Mapping[str, Any], *numbers: str) -> list[VariableRecord]:
    """The variables in a model's record, with the numbers of these names."""
    records = record.get("variables")
    if not isinstance(records, list):
        raise ModelError("The variables of a model must be a list of records.")
    decoded = [_decode_variable(variable_fields, numbers) for variable_fields in records]
    names: set[str] = set()
    for name, *_ in decoded:
        if name in names:
            raise ModelError(f"The variables' names must differ: {name!r} appears twice.")
        names.add(name)
    return decoded


def _decode_variable(record: Any, numbers: tuple[str, ...]) -> VariableRecord:
    needs = f"A variable's record needs {', '.join(('name', 'states', *numbers))} and parents"
    if not isinstance(record, Mapping):
        raise ModelError(f"{needs}; got {short_repr(record)}.")
    try:
        name, states, parents = record["name"], record["states"], record.get("parents", [])
        if not isinstance(name, str):
            raise ModelError(f"A variable's name must be a non-empty string, not {short_repr(name)}.")
        decoded = states if isinstance(states, str) else [decode_state(state) for state in states]
        return VariableRecord(name, decoded, parents, tuple([record[key] for key in numbers]))
    except KeyError as error:
        raise ModelError(f"{needs}; {short_repr(record)} lacks {error}.") from None
    except (TypeError, RecursionError):
        raise ModelError(f"{needs}; got {short_repr(record)}.") from None


class GraphRecord(NamedTuple):
    """The fields of a graph's record, not validated; the graph checks them."""

    parents: dict[str, Any]
    states: dict[str, Any]
    hidden: list[Any]


def encode_graph(
    parents: Mapping[str, Sequence[str]], states: Mapping[str, Sequence[State]], hidden: Sequence[str | Sequence[str]]
) -> dict[str, Any]:
    """The record of a graph: its variables and its unobserved confounders."""
    variables = [
        {
            "name": name,
            "parents": list(causes),
            **({"states": [encode_state(state) for state in states[name]]} if name in states else {}),
        }
        for name, causes in parents.items()
    ]
    return {"variables": variables, "hidden": [part if isinstance(part, str) else list(part) for part in hidden]}


def decode_graph(record: Any) -> GraphRecord:
    """The fields of a graph's record."""
    if not isinstance(record, Mapping) or not isinstance(record.get("variables"), list):
        raise ModelError(f"A graph's record needs variables, a list of records; got {short_repr(record)}.")
    decoded = GraphRecord({}, {}, [])
    for fields in record["variables"]:
        if not isinstance(fields, Mapping) or not isinstance(fields.get("name"), str):
            raise ModelError(f"A variable's record needs a name; got {short_repr(fields)}.")
        name = fields["name"]
        if name in decoded.parents:
            raise ModelError(f"The variables' names must differ: {name!r} appears twice.")
        decoded.parents[name] = fields.get("parents", [])
        if "states" in fields:
            decoded.states[name] = _decode_states(name, fields["states"])
    hidden = record.get("hidden", [])
    return decoded._replace(hidden=hidden)


def _decode_states(name: str, states: Any) -> Any:
    if not isinstance(states, list):
        raise ModelError(f"The states of {name!r} must be a list of values; got {short_repr(states)}.")
    try:
        return [decode_state(state) for state in states]
    except (TypeError, KeyError, RecursionError):
        raise ModelError(f"The states of {name!r} must be a list of values; got {short_repr(states)}.") from None
