"""Group commit: what many clients want written goes to disk together, and each is answered after that.

One thread a study writes. It takes all that waits (`MAX_GROUP_COMMIT` at most), does it in one transaction, and only when that
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

READ_QUEUE_LIMIT = 1000
"""More than so many who wait to look are refused: try again later."""

Result = TypeVar("Result")


class BusyError(CausalBanditsError):
    """Too much waits already."""


class StudyReader:
    """The one thread that looks at a study."""

    def __init__(self, study: Study) -> None:
        self._study = study.reader()
        self._thread = ThreadPoolExecutor(1, "study reader")
        self.waiting = 0

    async def read(self, work: Callable[[Study], Result]) -> Result:
        """What `work` gives, from all that was on disk when it began."""
        if self.waiting >= READ_QUEUE_LIMIT:
            raise BusyError(f"{READ_QUEUE_LIMIT} wait to look already. Try again in a second.")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._study)
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Finish what is being looked at, and close the connection."""
        self._thread.shutdown(cancel_futures=True)
        self._study.close()


MAX_GROUP_COMMIT = 512
QUEUE_LIMIT = 10_000
"""More than so many waiting are refused: try again later."""

Work = Callable[[Study], Any]


class _WriteRequest(NamedTuple):
    work: Work
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class LastVerification(NamedTuple):
    """When the log was folded again, and what was found."""

    at: float
    verification: Verification


class Writer:
    """The one thread that writes a study."""

    def __init__(self, study: Study, limit: int = QUEUE_LIMIT) -> None:
        self._study, self._limit, self.reader = study, limit, StudyReader(study)
        self._queue: queue.SimpleQueue[_WriteRequest | None] = queue.SimpleQueue()
        self.commits = self.completed = self.rejected = self.duplicates = 0
        self.last_verification: LastVerification | None = None
        """The last time that the log was folded again, since this began."""
        self._thread = threading.Thread(target=self._write_loop, name="study writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many wait to be written."""
        return self._queue.qsize()

    @property
    def is_alive(self) -> bool:
        """Whether anything can be written."""
        return self._thread.is_alive()

    async def submit(self, work: Callable[[Study], Result]) -> Result:
        """What `work` gives, once all that it wrote is on disk."""
        if self._queue.qsize() >= self._limit:
            self.rejected += 1
            raise BusyError(f"{self._limit} requests wait already. Try again in a second.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._queue.put(_WriteRequest(work, loop, answer))
        return await answer

    def close(self) -> None:
        """Finish what waits, then stop, and close the study."""
        self._queue.put(None)
        self._thread.join()
        self.reader.close()
        self._study.close()

    def _write_loop(self) -> None:
        while True:
            batch, last = self._take_batch()
            if batch:
                _deliver_answers(batch, self._write_batch(batch))
            if last:
                return

    def _take_batch(self) -> tuple[list[_WriteRequest], bool]:
        """All that waits by now, one at least; whether that was the last."""
        first = self._queue.get()
        if first is None:
            return [], True
        batch = [first]
        while len(batch) < MAX_GROUP_COMMIT and not self._queue.empty():
            next_request = self._queue.get()
            if next_request is None:
                return batch, True
            batch.append(next_request)
        return batch, False

    def _write_batch(self, batch: list[_WriteRequest]) -> list[Any]:
        """The answers, after the commit; if that fails, its error is everybody's answer."""
        answers: list[Any] = []
        try:
            with self._study.together():
                answers = [self._run(request.work) for request in batch]
        except StorageError as error:
            return [error] * len(batch)
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [
                answer for request in batch for answer in self._write_batch([request])
            ]  # the others are not to blame
        self.commits += 1
        self.completed += len(batch)
        return answers

    def _run(self, work: Work) -> Any:
        """What one work gives; a refusal is an answer as well, and leaves the others alone."""
        try:
            return work(self._study)
        except StorageError:
            raise
        except CausalBanditsError as error:
            return error


def _deliver_answers(batch: list[_WriteRequest], answers: list[Any]) -> None:
    """Each its answer; a loop is woken once for all that wait on it."""
    answers_by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for request, answer in zip(batch, answers, strict=True):
        answers_by_loop.setdefault(request.loop, []).append((request.answer, answer))
    for loop, pairs in answers_by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            loop.call_soon_threadsafe(_resolve_futures, pairs)


def _resolve_futures(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in pairs:
        if future.cancelled():
            continue
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
