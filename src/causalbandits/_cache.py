"""Caches of derived values on objects, of limited size and not pickled."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, ClassVar, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dictionary of what was found once; it holds `limit` things, and copies and pickles empty.

    Lookups are a dictionary's own, as fast as they can be. What is full starts afresh: a learner's questions move on,
    and those it asks now are those it will ask again.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def store(self, key: K, value: V) -> V:
        """The value, which is from now on found under its key."""
        if len(self) >= self.limit:
            self.clear()
        self[key] = value
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return (BoundedCache, (self.limit,))


class Cached:
    """Makes a thing once per key; nothing of it is pickled."""

    cache_size: ClassVar[int] = 64
    """So many things are remembered."""

    def compute_once(self, key: Hashable, compute: Callable[[], V]) -> V:
        """Compute a value, or return the cached one.

        Args:
            key: The key of the value.
            compute: A function that computes the value if it is not cached.

        Returns:
            The value.
        """
        value: V | None = self._cache.get(key)
        return self._cache.store(key, compute()) if value is None else value

    @cached_property
    def _cache(self) -> BoundedCache[Hashable, Any]:
        return BoundedCache(self.cache_size)
