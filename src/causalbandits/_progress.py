"""What is said while something takes longer than two seconds; nothing before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

PATIENCE = 2.0


class Notice:
    """A line that is shown while something goes on, if it goes on for `PATIENCE` seconds."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._status: Any = None
        self._over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._show)

    def __enter__(self) -> Self:
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._status is not None:
                self._status.stop()

    def _show(self) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        with self._lock:
            if not self._over and (console.is_terminal or console.is_jupyter):
                self._status = console.status(self._text)
                self._status.start()


class Progress:
    """Counts steps; after `PATIENCE` seconds it shows how far they are, on a terminal or in a notebook.

    `told` is called with the number of steps done since the last time, for those who show it in their own way.
    """

    def __init__(self, total: int, what: str, *, shown: bool = True, told: Callable[[int], None] | None = None) -> None:
        self._total, self._what, self._done, self._told = total, what, 0, told
        self._bar: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._show) if shown else None

    def __enter__(self) -> Self:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._total = 0
            if self._bar is not None:
                self._bar.stop()

    def advance(self, steps: int) -> None:
        """So many more steps are done."""
        with self._lock:
            self._done += steps
            if self._told is not None:
                self._told(steps)
            if self._bar is not None:
                self._bar.update(0, completed=self._done)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        with self._lock:
            if not self._total or not (console.is_terminal or console.is_jupyter):
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Bar(*columns, console=console, transient=True)
            self._bar.add_task(self._what, total=self._total, completed=self._done)
            self._bar.start()
