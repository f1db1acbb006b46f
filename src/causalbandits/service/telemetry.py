"""Request telemetry: identifiers, log lines (text or JSON) and durations.

No secret is recorded: only the name and role of a key, the template of a route, and the study.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from causalbandits.errors import StateError, unknown_name_message

logger = logging.getLogger("causalbandits.service")
"""Errors and warnings; its child `requests` has a line for each request."""

change_logger = logging.getLogger("causalbandits.service.changes")
"""A line for each change by an admin, with the name of the key that made it."""

request_logger = logging.getLogger("causalbandits.service.requests")

DEFAULT_LEVELS = {"text": "warning", "json": "info"}
"""The log formats, with the default level of each."""

LEVELS = ("info", "warning", "error")

REFUSALS = (401, 403, 429)
"""Status codes that are logged as warnings."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def request_id(headers: list[tuple[bytes, bytes]]) -> str:
    """A request's id: its X-Request-ID, else the trace id of its traceparent, else a new one."""
    own = trace = ""
    for name, value in headers:
        if name == b"x-request-id":
            own = value.decode("latin-1")
        elif name == b"traceparent":
            trace = value.decode("latin-1")
    if _REQUEST_ID.fullmatch(own):
        return own
    match = _TRACEPARENT.fullmatch(trace)
    return match[1] if match and set(match[1]) != {"0"} else secrets.token_hex(16)


class Histogram:
    """Counts of durations in seconds, by upper bounds."""

    BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

    def __init__(self) -> None:
        self.counts, self.sum = [0] * (len(self.BOUNDS) + 1), 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(self.BOUNDS, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.counts)


class RequestStatistics:
    """The number of requests and their durations, by method, route and status; of one event loop."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, int], int] = {}
        self.durations: dict[tuple[str, str], Histogram] = {}

    def record(self, scope: Mapping[str, Any], status: int, started: float) -> None:
        """Count an answered request, and log it."""
        seconds, state = time.perf_counter() - started, scope["state"]
        method, route = scope["method"], state.get("route", "unmatched")
        if method not in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            method = "other"  # so that clients cannot create an unlimited number of labels
        key = method, route, status
        self.counts[key] = self.counts.get(key, 0) + 1
        if (histogram := self.durations.get((method, route))) is None:
            histogram = self.durations[method, route] = Histogram()
        if "streams" not in state:  # streams last as long as the page is open
            histogram.observe(seconds)
        if "change" in state and status < 400:
            self._log_change(scope)
        level = logging.WARNING if status in REFUSALS else logging.INFO
        if request_logger.isEnabledFor(level):
            self._log(level, scope, (method, route, status), seconds)

    def _log_change(self, scope: Mapping[str, Any]) -> None:
        state, study = scope["state"], scope.get("path_params", {}).get("study")
        key, change = state["key"], state["change"]
        fields = {
            "event": "change",
            "request_id": state["request_id"],
            "change": change,
            "study": study,
            "key": key.name,
            "role": key.role,
        }
        by = f"key {key.name!r} ({key.role})" if key.name else "a client without a key"
        at = "" if study is None else f" of study {study!r}"
        change_logger.info("Change: %s%s by %s", change, at, by, extra={"fields": fields})

    def _log(self, level: int, scope: Mapping[str, Any], request: tuple[str, str, int], seconds: float) -> None:
        state, (method, route, status) = scope["state"], request
        key, problem = state.get("key"), state.get("problem")
        fields = {
            "event": "refusal" if status in REFUSALS else "request",
            "request_id": state["request_id"],
            "method": method,
            "route": route,
            "study": scope.get("path_params", {}).get("study"),
            "status": status,
            "duration_seconds": round(seconds, 6),
            "key": key.name if key is not None else None,
            "role": key.role if key is not None else None,
            "problem": problem,
        }
        who = f" key {key.name!r} ({key.role})" if key is not None and key.name else ""
        why = f" {problem}" if problem else ""
        message = f"{method} {route} {status}{why} in {1000 * seconds:.1f} ms{who}"
        present = {name: value for name, value in fields.items() if value is not None}
        request_logger.log(level, message, extra={"fields": present})


class JSONFormatter(logging.Formatter):
    """A record as one JSON line: time, level, logger, message, its own fields, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        content: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


class TextFormatter(logging.Formatter):
    """A record as text, with the id of its request."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        own_id = getattr(record, "fields", {}).get("request_id")
        return (
            text
            if own_id is None
            else text.replace("\n", f" [{own_id}]\n", 1)
            if "\n" in text
            else f"{text} [{own_id}]"
        )


@contextmanager
def logging_to_stderr(log_format: str, level: str | None = None) -> Iterator[None]:
    """Log the service, its server and warnings to stderr, one line per event."""
    if log_format not in DEFAULT_LEVELS:
        raise StateError(unknown_name_message("log format", log_format, DEFAULT_LEVELS))
    if level is not None and level not in LEVELS:
        raise StateError(unknown_name_message("log level", level, LEVELS))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter() if log_format == "json" else TextFormatter())
    service_level = (level or DEFAULT_LEVELS[log_format]).upper()
    levels = {
        "causalbandits.service": service_level,
        change_logger.name: "ERROR" if service_level == "ERROR" else "INFO",
        "uvicorn": "WARNING",
        "py.warnings": "WARNING",
    }
    before = {name: (logging.getLogger(name).level, logging.getLogger(name).propagate) for name in levels}
    logging.captureWarnings(True)
    for name, own_level in levels.items():
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(own_level)
        logging.getLogger(name).propagate = False  # each event once
    try:
        yield
    finally:
        logging.captureWarnings(False)
        for name, (own_level_before, propagate) in before.items():
            own_logger = logging.getLogger(name)
            own_logger.removeHandler(handler)
            own_logger.setLevel(own_level_before)
            own_logger.propagate = propagate
