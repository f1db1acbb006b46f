"""Progress messages of operations that take longer than two seconds.

Within `progress_lines`, steps are reported as lines if stderr is not a terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

PATIENCE = 2.0
LINE_INTERVAL = 10.0
"""Seconds between two progress lines if stderr is not a terminal."""


_LINE_HINT: ContextVar[str | None] = ContextVar("line_hint", default=None)


@contextmanager
def progress_lines(hint: str = "") -> Iterator[None]:
    """Report progress as lines on stderr if stderr is not a terminal; `hint` is appended to each line."""
    token = _LINE_HINT.set(hint)
    try:
        yield
    finally:
        _LINE_HINT.reset(token)


class _DelayedDisplay(ABC):
    """A display on a terminal or in a notebook, shown from `PATIENCE` seconds after the start until the end."""

    def __init__(self, *, visible: bool = True) -> None:
        self._display: Any = None
        self._is_over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._show) if visible else None

    @abstractmethod
    def _build_display(self, console: Any) -> Any:
        """The display object; it can be started and stopped."""

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
            self._is_over = True
            if self._display is not None:
                self._display.stop()

    def _show(self) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        with self._lock:
            if not self._is_over and (console.is_terminal or console.is_jupyter):
                self._display = self._build_display(console)
                self._display.start()


class Notice(_DelayedDisplay):
    """A line that is shown while an operation runs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def _build_display(self, console: Any) -> Any:
        return console.status(self._text)


class Progress(_DelayedDisplay):
    """Counts completed steps and displays the progress.

    `told` is called with the number of steps since its last call, for callers with their own display.
    """

    def __init__(
        self, total: int, description: str, *, visible: bool = True, on_advance: Callable[[int], None] | None = None
    ) -> None:
        super().__init__(visible=visible and total > 0)
        self._total, self._description, self._done, self._on_advance = total, description, 0, on_advance
        self._hint = _LINE_HINT.get() if visible and not sys.stderr.isatty() else None
        self._started = self._last_line = time.monotonic()

    def advance(self, steps: int) -> None:
        """Add completed steps."""
        with self._lock:
            self._done += steps
            if self._on_advance is not None:
                self._on_advance(steps)
            if self._display is not None:
                self._display.update(0, completed=self._done)
            elif self._hint is not None and time.monotonic() - self._last_line >= LINE_INTERVAL:
                self._print_line(self._hint)

    def _print_line(self, hint: str) -> None:
        self._last_line = time.monotonic()
        seconds, share = self._last_line - self._started, self._done / self._total
        remaining = f", about {seconds * (1 / share - 1):,.0f} s left" if share else ""
        print(f"{self._description}: {share:.0%} after {seconds:,.0f} s{remaining}. {hint}".strip(), file=sys.stderr)

    def _build_display(self, console: Any) -> Any:
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
        bar = Bar(*columns, console=console, transient=True)
        bar.add_task(self._description, total=self._total, completed=self._done)
        return bar
