"""Looking at a study: on a connection of its own, which neither waits for the writer nor keeps it waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from causalbandits.errors import CausalBanditsError
from causalbandits.study import Study

LOOKING_LIMIT = 1000
"""More than so many who wait to look are refused: try again later."""

LookedUp = TypeVar("LookedUp")


class BusyError(CausalBanditsError):
    """Too much waits already."""


class StudyReader:
    """The one thread that looks at a study."""

    def __init__(self, study: Study) -> None:
        self._study = study.reader()
        self._thread = ThreadPoolExecutor(1, "study reader")
        self.waiting = 0

    async def look(self, work: Callable[[Study], LookedUp]) -> LookedUp:
        """What `work` gives, from all that was on disk when it began."""
        if self.waiting >= LOOKING_LIMIT:
            raise BusyError(f"{LOOKING_LIMIT} wait to look already. Try again in a second.")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._study)
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Finish what is being looked at, and close the connection."""
        self._thread.shutdown(cancel_futures=True)
        self._study.close()
