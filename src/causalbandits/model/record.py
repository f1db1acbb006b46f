"""A model's variables as JSON-ready records: name, states, parents, and the numbers that its kind of model keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from causalbandits.errors import ModelError, brief
from causalbandits.model.state import decode_state, encode_state
from causalbandits.model.variable import Variable


class VariableRecord(NamedTuple):
    """What a variable's record says; that it makes a variable is for the model to check."""

    name: str
    states: Any
    parents: Any
    numbers: tuple[Any, ...]


def variable_record(v: Variable, **numbers: Any) -> dict[str, Any]:
    """A variable as a record, with these numbers."""
    states = [encode_state(state) for state in v.states]
    return {"name": v.name, "states": states, "parents": list(v.parents), **numbers}


def variable_records(record: Mapping[str, Any], *numbers: str) -> list[VariableRecord]:
    """The variables of a model's record, with the numbers of these names."""
    records = record.get("variables")
    if not isinstance(records, list):
        raise ModelError("The variables of a model must be a list of records.")
    found = [_read(own, numbers) for own in records]
    names: set[str] = set()
    for name, *_ in found:
        if name in names:
            raise ModelError(f"The variables' names must differ: {name!r} appears twice.")
        names.add(name)
    return found


def _read(record: Any, numbers: tuple[str, ...]) -> VariableRecord:
    needs = f"A variable's record needs name, states, {', '.join(numbers)} and parents"
    if not isinstance(record, Mapping):
        raise ModelError(f"{needs}; got {brief(record)}.")
    try:
        name, states, parents = record["name"], record["states"], record.get("parents", [])
        if not isinstance(name, str):
            raise ModelError(f"A variable's name must be a non-empty string, not {brief(name)}.")
        decoded = states if isinstance(states, str) else [decode_state(state) for state in states]
        return VariableRecord(name, decoded, parents, tuple([record[key] for key in numbers]))
    except KeyError as error:
        raise ModelError(f"{needs}; {brief(record)} lacks {error}.") from None
    except (TypeError, RecursionError):
        raise ModelError(f"{needs}; got {brief(record)}.") from None
