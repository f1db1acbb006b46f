"""An intervention: an assignment of values to variables."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from causalbandits.errors import InterventionError, short_repr

State = Hashable


class Intervention(Mapping[str, State]):
    """An intervention do(x = value, ...): an immutable, hashable mapping from variables to values.

    >>> Intervention(product="Photoshop", send_time="morning")
    do(product=Photoshop, send_time=morning)
    >>> Intervention({"a": 1, "b": 2}) == Intervention({"b": 2, "a": 1})
    True

    It is not a `dict`. Convert it where one is required, for example by `json.dumps`:

    >>> dict(Intervention(product="Photoshop"))
    {'product': 'Photoshop'}

    Args:
        assignment: The values by variable. Default: none; all variables keep their natural mechanisms.
        **more: Further values, by keyword.

    Raises:
        InterventionError: If `assignment` is not a mapping from names to values.
    """

    __slots__ = ("_assignment", "_hash")

    def __init__(self, assignment: Mapping[str, State] | None = None, /, **more: State) -> None:
        if assignment is not None and not isinstance(assignment, Mapping):
            raise InterventionError(
                f"An intervention maps variables to values, as in {{'purpose': 'Promo'}}; got {short_repr(assignment)}."
            )
        merged = {**(assignment or {}), **more}
        for name, value in merged.items():
            if not _has_hash(value):
                raise InterventionError(f"do({name}={short_repr(value)}): a value must be hashable.")
        self._assignment = merged
        self._hash = hash(frozenset(merged.items()))

    def __getitem__(self, name: str) -> State:
        return self._assignment[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._assignment)

    def __len__(self) -> int:
        return len(self._assignment)

    def __eq__(self, other: object) -> bool:
        return self._assignment == other._assignment if isinstance(other, Intervention) else super().__eq__(other)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # The hash is recomputed on unpickling because hashes of strings differ between processes.
        return (Intervention, (self._assignment,))

    def __repr__(self) -> str:
        return f"do({', '.join(f'{name}={value}' for name, value in self._assignment.items())})"


def _has_hash(value: object) -> bool:
    try:
        hash(value)
    except TypeError:  # raised also for a tuple that contains a list
        return False
    return True
