"""Things that keep what is expensive to derive from them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Remembers:
    """Makes a thing once per key; nothing of it is pickled."""

    _memory: dict[Hashable, Any]

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for this key, made now if it was not."""
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_memory": {}}
