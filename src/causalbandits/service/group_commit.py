"""The threads of a study: one writes, with group commit, and three read.

The writer takes all queued requests (`MAX_GROUP_COMMIT` at most), executes them in one transaction, and answers them
when it is on disk. If the disk takes 8 ms, a commit for each request would allow only 120 requests a second. Readers
have a connection each, so that they neither wait for the writer nor delay it: one for quick reads of the statistic, one
for scans of many decisions, and one for the verification, which reads the whole log. The last two are interrupted when
the service stops.
"""

from __future__ import annotations

import asyncio
import math
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from causalbandits.errors import CausalBanditsError, StorageError
from causalbandits.service.telemetry import Histogram, logger
from causalbandits.study import Study, Verification

READ_QUEUE_LIMIT = 1000
"""The maximum number of queued read requests; further ones are refused."""

STORAGE_FAILURE_LOG_SECONDS = 1.0
"""Seconds between two log lines about a failing database, because the log may be on the same full disk."""

Result = TypeVar("Result")


class BusyError(CausalBanditsError):
    """A queue is full; the client may retry later."""


class StorageFailures:
    """Requests that failed because of the database, logged at most once a second, with their number."""

    def __init__(self, study: str) -> None:
        self._study, self._requests, self._logged_at = study, 0, -math.inf
        self._lock = threading.Lock()

    def add(self, error: StorageError, requests: int = 1) -> None:
        """Count requests that failed."""
        with self._lock:
            self._requests += requests
            if time.monotonic() - self._logged_at < STORAGE_FAILURE_LOG_SECONDS:
                return
            requests, self._requests, self._logged_at = self._requests, 0, time.monotonic()
        fields = {"event": "storage_error", "study": self._study, "requests": requests, "error": str(error)}
        logger.error("The database of study %r failed: %s", self._study, error, extra={"fields": fields})


class StudyReader:
    """A thread that reads a study on its own connection, opened at first use."""

    def __init__(self, study: Study, failures: StorageFailures) -> None:
        self._source, self._failures, self._is_interrupted = study, failures, False
        self._study: Study | None = None
        self._thread = ThreadPoolExecutor(1, "study reader")
        self.waiting = 0

    async def read(self, work: Callable[[Study], Result]) -> Result:
        """The result of `work`, on the data that was on disk when it began."""
        if self.waiting >= READ_QUEUE_LIMIT:
            raise BusyError(f"{READ_QUEUE_LIMIT} read requests are queued, which is the limit. Try again in a second.")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)
        except StorageError as error:
            if not self._is_interrupted:
                self._failures.add(error)
            raise
        finally:
            self.waiting -= 1

    def _run(self, work: Callable[[Study], Result]) -> Result:
        if self._study is None:
            self._study = self._source.reader()
        if self._is_interrupted:
            self._study.interrupt()
        return work(self._study)

    def interrupt(self) -> None:
        """Make the running read and the queued ones fail."""
        self._is_interrupted = True
        if self._study is not None:
            self._study.interrupt()

    def close(self) -> None:
        """Finish the running read, and close the connection."""
        self._thread.shutdown(cancel_futures=True)
        if self._study is not None:
            self._study.close()


MAX_GROUP_COMMIT = 512
SLOW_COMMIT_SECONDS = 1.0
"""Longer transactions are logged."""
QUEUE_LIMIT = 10_000
"""The maximum number of queued write requests; further ones are refused."""

Work = Callable[[Study], Any]


class _WriteRequest(NamedTuple):
    work: Work
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class LastVerification(NamedTuple):
    """The time and the result of the last replay of the log."""

    at: float
    verification: Verification


class Writer:
    """The only thread that writes a study."""

    def __init__(self, study: Study, limit: int = QUEUE_LIMIT, name: str = "") -> None:
        self._study, self._limit, self._name = study, limit, name
        self._failures = StorageFailures(name)
        self.reader, self.scanner, self.verifier = (StudyReader(study, self._failures) for _ in range(3))
        """Reader threads for quick reads of the statistic, for scans of many decisions, and for the verification, which
        takes longest."""
        self.is_stopping = False
        self.damage = ""
        """The reason why the study cannot decide, if its stored data are damaged; detected at warm-up."""
        self._queue: queue.SimpleQueue[_WriteRequest | None] = queue.SimpleQueue()
        self.completed = self.rejected = self.duplicates = 0
        self.commit_durations = Histogram()
        self.last_verification: LastVerification | None = None
        """None until the first verification since the service started."""
        self._thread = threading.Thread(target=self._write_loop, name="study writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of queued write requests."""
        return self._queue.qsize()

    @property
    def commits(self) -> int:
        """The number of written transactions."""
        return self.commit_durations.count

    @property
    def is_alive(self) -> bool:
        """Whether the writer thread can still write."""
        return self._thread.is_alive()

    async def submit(self, work: Callable[[Study], Result]) -> Result:
        """The result of `work`, once all its writes are on disk."""
        if self.waiting >= self._limit:
            self.rejected += 1
            raise BusyError(f"{self._limit} requests are queued, which is the limit. Try again in a second.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._queue.put(_WriteRequest(work, loop, answer))
        return await answer

    def stop_scans(self) -> None:
        """Interrupt long reads, because the service stops."""
        self.is_stopping = True
        self.scanner.interrupt()
        self.verifier.interrupt()

    def close(self) -> None:
        """Write queued requests, then stop, and close the study."""
        self.stop_scans()
        self._queue.put(None)
        self._thread.join()
        for reader in (self.reader, self.scanner, self.verifier):
            reader.close()
        self._study.close()

    def _write_loop(self) -> None:
        self._warm_up()
        while True:
            batch, last = self._take_batch()
            if batch:
                _deliver_answers(batch, self._write_batch(batch))
            if last:
                return

    def _warm_up(self) -> None:
        """Warm up before the first write, so that a study receives requests only when it can decide quickly."""
        try:
            self._study.warm_up()
        except Exception as error:
            if not isinstance(error, StorageError):  # a storage error may be temporary
                self.damage = repr(error)
            fields = {"event": "error", "study": self._name}
            logger.error("Warm-up of study %r failed: %r", self._name, error, extra={"fields": fields})

    def _take_batch(self) -> tuple[list[_WriteRequest], bool]:
        """All queued requests, waiting for at least one; and whether the writer stops after them."""
        first = self._queue.get()
        if first is None:
            return [], True
        batch = [first]
        return batch, self._add_waiting(batch)

    def _add_waiting(self, batch: list[_WriteRequest]) -> bool:
        """Add the queued requests to a batch; return whether the writer stops after them."""
        while len(batch) < MAX_GROUP_COMMIT and not self._queue.empty():
            next_request = self._queue.get()
            if next_request is None:
                return True
            batch.append(next_request)
        return False

    def _write_batch(self, batch: list[_WriteRequest], *, extend: bool = True) -> list[Any]:
        """The results after the commit; if the commit fails, its error is the result of every request.

        The transaction may wait for other processes. Requests that arrive meanwhile are added to the batch, so that
        more processes lead to larger batches instead of more commits.
        """
        answers: list[Any] = []
        started = time.perf_counter()
        try:
            with self._study.together():
                if extend and self._add_waiting(batch):
                    self._queue.put(None)  # stop after these
                answers = [self._run(request.work) for request in batch]
        except StorageError as error:
            self._failures.add(error, len(batch))
            return [error] * len(batch)
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [
                answer for request in batch for answer in self._write_batch([request], extend=False)
            ]  # the other requests are not affected
        self._record_commit(time.perf_counter() - started, len(batch))
        return answers

    def _record_commit(self, seconds: float, requests: int) -> None:
        self.commit_durations.observe(seconds)
        self.completed += requests
        if seconds > SLOW_COMMIT_SECONDS:
            fields = {
                "event": "slow_commit",
                "study": self._name,
                "duration_seconds": round(seconds, 6),
                "requests": requests,
            }
            logger.warning(
                "A commit of study %r took %.2f s for %d requests",
                self._name,
                seconds,
                requests,
                extra={"fields": fields},
            )

    def _run(self, work: Work) -> Any:
        """The result of one request; an error of this library is also a result, without effect on the other
        requests."""
        try:
            return work(self._study)
        except StorageError:
            raise
        except CausalBanditsError as error:
            return error


def _deliver_answers(batch: list[_WriteRequest], answers: list[Any]) -> None:
    """Deliver the results; an event loop is woken once for all requests that wait on it."""
    answers_by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for request, answer in zip(batch, answers, strict=True):
        answers_by_loop.setdefault(request.loop, []).append((request.answer, answer))
    for loop, pairs in answers_by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so no task waits on it
            loop.call_soon_threadsafe(_resolve_futures, pairs)


def _resolve_futures(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in pairs:
        if future.cancelled():
            continue
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
