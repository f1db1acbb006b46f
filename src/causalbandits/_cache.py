"""Caches of derived values on objects, of limited size and not pickled."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, ClassVar, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dictionary of derived values with at most `limit` entries; copies and pickles are empty.

    Lookups are those of `dict`, without extra cost. A full cache is cleared, because a learner's later queries differ
    from its earlier ones.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def store(self, key: K, value: V) -> V:
        """Store a value under its key and return it."""
        if len(self) >= self.limit:
            self.clear()
        self[key] = value
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return (BoundedCache, (self.limit,))


class Cached:
    """Computes a value once per key; the cache is not pickled."""

    cache_size: ClassVar[int] = 64
    """The maximum number of cached values."""

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
