"""Things that keep what is expensive to derive from them: so much of it, and never in a pickle."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memory(dict[K, V]):
    """A dictionary of what was found once; it holds `limit` things, and copies and pickles empty.

    Lookups are a dictionary's own, as fast as they can be. What is full starts afresh: a learner's questions move on,
    and those it asks now are those it will ask again.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def keep(self, key: K, value: V) -> V:
        """The value, which is from now on found under its key."""
        return keep(self, key, value, self.limit)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Memory, (self.limit,))


class Remembers:
    """Makes a thing once per key; nothing of it is pickled."""

    remembered: ClassVar[int] = 64
    """So many things are remembered."""

    _memory: dict[Hashable, Any]

    def remember(self, key: Hashable, make: Callable[[], V]) -> V:
        """What was made for this key, made now if it was not, or if that is `remembered` other things ago."""
        found: V | None = self._memory.get(key)
        return keep(self._memory, key, make(), self.remembered) if found is None else found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_memory": {}}


def keep(memory: dict[K, V], key: K, value: V, limit: int) -> V:
    """The value, put into a memory; a full one is emptied first."""
    if len(memory) >= limit:
        memory.clear()
    memory[key] = value
    return value
