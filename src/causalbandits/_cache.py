"""Things that keep what is expensive to derive from them: so much of it, and never in a pickle."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
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
        if len(self) >= self.limit:
            self.clear()
        self[key] = value
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return (Memory, (self.limit,))


class Remembers:
    """Makes a thing once per key; nothing of it is pickled."""

    remembered: ClassVar[int] = 64
    """So many things are remembered."""

    def remember(self, key: Hashable, make: Callable[[], V]) -> V:
        """What was made for this key, made now if it was not, or if that is `remembered` other things ago."""
        found: V | None = self._memory.get(key)
        return self._memory.keep(key, make()) if found is None else found

    @cached_property
    def _memory(self) -> Memory[Hashable, Any]:
        return Memory(self.remembered)
