"""Group commit: what many clients want written goes to disk together, and each is answered after that.

One thread a study writes. It takes all that waits (`A_COMMIT` at most), does it in one transaction, and only when that
is on disk do the answers leave. Where the disk takes 8 ms, a commit for each request would be 120 a second.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from causalbandits.errors import CausalBanditsError, StorageError
from causalbandits.study import Study, Verification

# Looking at a study: on a connection of its own, which neither waits for the writer nor keeps it waiting.

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


A_COMMIT = 512
QUEUE_LIMIT = 10_000
"""More than so many waiting are refused: try again later."""

Work = Callable[[Study], Any]


class _Wanted(NamedTuple):
    work: Work
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Verified(NamedTuple):
    """When the log was folded again, and what was found."""

    at: float
    found: Verification


class Writer:
    """The one thread that writes a study."""

    def __init__(self, study: Study, limit: int = QUEUE_LIMIT) -> None:
        self._study, self._limit, self.reader = study, limit, StudyReader(study)
        self._waiting: queue.SimpleQueue[_Wanted | None] = queue.SimpleQueue()
        self.commits = self.done = self.refused = self.duplicates = 0
        self.verified: Verified | None = None
        """The last time that the log was folded again, since this began."""
        self._thread = threading.Thread(target=self._write, name="study writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many wait to be written."""
        return self._waiting.qsize()

    @property
    def is_alive(self) -> bool:
        """Whether anything can be written."""
        return self._thread.is_alive()

    async def do(self, work: Work) -> Any:
        """What `work` gives, once all that it wrote is on disk."""
        if self._waiting.qsize() >= self._limit:
            self.refused += 1
            raise BusyError(f"{self._limit} requests wait already. Try again in a second.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.put(_Wanted(work, loop, answer))
        return await answer

    def close(self) -> None:
        """Finish what waits, then stop, and close the study."""
        self._waiting.put(None)
        self._thread.join()
        self.reader.close()
        self._study.close()

    def _write(self) -> None:
        while True:
            wanted, last = self._taken()
            if wanted:
                _hand_over(wanted, self._written(wanted))
            if last:
                return

    def _taken(self) -> tuple[list[_Wanted], bool]:
        """All that waits by now, one at least; whether that was the last."""
        first = self._waiting.get()
        if first is None:
            return [], True
        taken = [first]
        while len(taken) < A_COMMIT and not self._waiting.empty():
            more = self._waiting.get()
            if more is None:
                return taken, True
            taken.append(more)
        return taken, False

    def _written(self, wanted: list[_Wanted]) -> list[Any]:
        """The answers, after the commit; if that fails, its error is everybody's answer."""
        answers: list[Any] = []
        try:
            with self._study.together():
                answers = [self._done(one.work) for one in wanted]
        except StorageError as error:
            return [error] * len(wanted)
        except Exception as error:
            if len(wanted) == 1:
                return [error]
            return [answer for one in wanted for answer in self._written([one])]  # the others are not to blame
        self.commits += 1
        self.done += len(wanted)
        return answers

    def _done(self, work: Work) -> Any:
        """What one work gives; a refusal is an answer as well, and leaves the others alone."""
        try:
            return work(self._study)
        except StorageError:
            raise
        except CausalBanditsError as error:
            return error


def _hand_over(wanted: list[_Wanted], answers: list[Any]) -> None:
    """Each its answer; a loop is woken once for all that wait on it."""
    of_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for one, answer in zip(wanted, answers, strict=True):
        of_loop.setdefault(one.loop, []).append((one.answer, answer))
    for loop, answered in of_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            loop.call_soon_threadsafe(_answer, answered)


def _answer(answered: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in answered:
        if future.cancelled():
            continue
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
