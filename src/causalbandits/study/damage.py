"""What cannot be read was damaged: by a disk, a copy or a person."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from causalbandits.errors import StateError, StorageError

L = TypeVar("L")
P = ParamSpec("P")
T = TypeVar("T")


def reading(method: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """A method of what has a `store`, which says so where it cannot read what is there."""

    @wraps(method)
    def read(log: L, /, *given: P.args, **named: P.kwargs) -> T:
        try:
            return method(log, *given, **named)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            if isinstance(error, StorageError):
                raise
            where: Any = log
            raise StateError(
                f"{where.store.path} is damaged: {error!r:.200}. verify() says where; go back to a backup."
            ) from error

    return read
