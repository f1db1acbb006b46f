"""The threads of a study: one writes, with group commit, and one reads.

The writer takes all requests that wait (`MAX_GROUP_COMMIT` at most), executes them in one transaction, and answers them
when that is on disk: where the disk takes 8 ms, a commit for each request would allow 120 requests a second. The reader
has a connection of its own, so that readers neither wait for the writer nor delay it.
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

READ_QUEUE_LIMIT = 1000
"""Where so many requests wait to read, further ones are refused."""

Result = TypeVar("Result")


class BusyError(CausalBanditsError):
    """A queue is full: the client may try again later."""


class StudyReader:
    """The one thread that reads a study."""

    def __init__(self, study: Study) -> None:
        self._study = study.reader()
        self._thread = ThreadPoolExecutor(1, "study reader")
        self.waiting = 0

    async def read(self, work: Callable[[Study], Result]) -> Result:
        """The result of `work`, from what was on disk when it began."""
        if self.waiting >= READ_QUEUE_LIMIT:
            raise BusyError(f"{READ_QUEUE_LIMIT} wait to look already. Try again in a second.")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._study)
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Finish the read that runs, and close the connection."""
        self._thread.shutdown(cancel_futures=True)
        self._study.close()


MAX_GROUP_COMMIT = 512
QUEUE_LIMIT = 10_000
"""Where so many requests wait to be written, further ones are refused."""

Work = Callable[[Study], Any]


class _WriteRequest(NamedTuple):
    work: Work
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class LastVerification(NamedTuple):
    """When the log was last folded again, and the result."""

    at: float
    verification: Verification


class Writer:
    """The one thread that writes a study."""

    def __init__(self, study: Study, limit: int = QUEUE_LIMIT) -> None:
        self._study, self._limit, self.reader = study, limit, StudyReader(study)
        self._queue: queue.SimpleQueue[_WriteRequest | None] = queue.SimpleQueue()
        self.commits = self.completed = self.rejected = self.duplicates = 0
        self.last_verification: LastVerification | None = None
        """None: not since the service was started."""
        self._thread = threading.Thread(target=self._write_loop, name="study writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of requests that wait to be written."""
        return self._queue.qsize()

    @property
    def is_alive(self) -> bool:
        """Whether anything can be written."""
        return self._thread.is_alive()

    async def submit(self, work: Callable[[Study], Result]) -> Result:
        """The result of `work`, once all that it wrote is on disk."""
        if self._queue.qsize() >= self._limit:
            self.rejected += 1
            raise BusyError(f"{self._limit} requests wait already. Try again in a second.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._queue.put(_WriteRequest(work, loop, answer))
        return await answer

    def close(self) -> None:
        """Write what waits, then stop, and close the study."""
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
        """All requests that wait by now, one at least; and whether the writer is to stop after them."""
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
        """The results, after the commit; if that fails, its error is the result of all."""
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
        """The result of one request; an error of the library's is a result too, and leaves the others alone."""
        try:
            return work(self._study)
        except StorageError:
            raise
        except CausalBanditsError as error:
            return error


def _deliver_answers(batch: list[_WriteRequest], answers: list[Any]) -> None:
    """Each request its result; an event loop is woken once for all that wait on it."""
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
