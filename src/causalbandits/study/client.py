"""A study at the other end of HTTP: the same `ask` and `tell`. Needs nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from causalbandits import errors
from causalbandits.agent.decision import Context, Decision
from causalbandits.errors import (
    CausalBanditsError,
    ConflictError,
    StorageError,
    TellError,
    UnknownDecisionError,
    brief,
)
from causalbandits.model.intervention import Intervention, State
from causalbandits.study.outcomes import Id, Observed, Parents, Receipt

TRIES, FIRST_WAIT = 6, 0.1
"""A request is sent so often, at intervals that double, if the service cannot be reached or is busy."""

ERRORS = {404: UnknownDecisionError, 409: ConflictError, 422: TellError}
"""Where the service does not say which kind of error it is."""


class RemoteStudy:
    """Made by `connect`. May be used by several threads; each has a connection of its own.

    Whatever is sent may be sent again without harm: a question has a key, and an outcome counts once.
    """

    def __init__(self, url: str, key: str | None = None, timeout: float = 30.0) -> None:
        if key is not None and (not isinstance(key, str) or not key.isascii() or not key.isprintable()):
            raise CausalBanditsError("A key is text such as 'cb_...', as causalbandits study keys make shows it.")
        parts = _address(url)
        self._secure, self._host, self._port = parts.scheme == "https", str(parts.hostname), parts.port
        before, _, name = parts.path.strip("/").rpartition("/")
        prefix = f"/{before}" if before else ""
        self._path, self._key, self._timeout = f"{prefix}/v1/studies/{quote(name)}", key, timeout
        self._own = threading.local()
        self._connections: list[http.client.HTTPConnection] = []

    def __enter__(self) -> RemoteStudy:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, of all threads."""
        while self._connections:
            self._connections.pop().close()

    def ask(
        self,
        *,
        context: Context | None = None,
        eligible: Iterable[Mapping[str, State]] | None = None,
        key: str | None = None,
    ) -> Decision:
        """As `Study.ask`, one decision at a time."""
        asked = {
            "key": secrets.token_hex(16) if key is None else key,
            "context": None if context is None else dict(context),
            "eligible": None if eligible is None else [dict(one) for one in eligible],
        }
        found = self._send("POST", "/decisions", asked)
        return Decision(found["id"], Intervention(found["intervention"]), found["propensity"])

    def tell(self, id: Id, parents: Parents, reward: float | None, *, observed: Observed = None) -> Receipt:
        """As `Study.tell`."""
        (told,) = self.tell_many([{"id": id, "parents": parents, "reward": reward, "observed": observed}])
        if told.status == "conflict":
            raise ConflictError(told.why)
        if told.status == "unknown":
            raise UnknownDecisionError(told.why)
        if told.status == "refused":
            raise TellError(told.why)
        return told

    def tell_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Receipt]:
        """As `Study.tell_many`; 1,000 at most."""
        found = self._send("POST", "/outcomes", {"items": [dict(told) for told in outcomes]})
        return [Receipt(one["status"], one["why"]) for one in found["items"]]

    def correct(self, id: Id, parents: Parents, reward: float, *, observed: Observed = None) -> Receipt:
        """As `Study.correct`."""
        body = {"parents": parents, "reward": reward, "observed": observed}
        return Receipt(self._send("POST", _at(id, "/correct"), body)["status"])

    def retract(self, id: Id) -> None:
        """As `Study.retract`."""
        self._send("POST", _at(id, "/retract"), {})

    def forget(self, id: Id) -> None:
        """As `Study.forget`."""
        self._send("POST", _at(id, "/forget"), {})

    def set_mode(self, mode: str, *, baseline: Mapping[str, State] | None = None, why: str = "") -> None:
        """As `Study.set_mode`; the service knows by whom."""
        body = {"mode": mode, "baseline": None if baseline is None else dict(baseline), "why": why}
        self._send("POST", "/mode", body)

    @property
    def mode(self) -> str:
        """As `Study.mode`."""
        return str(self.modes()[-1]["mode"])

    def modes(self) -> list[dict[str, Any]]:
        """As `Study.modes`."""
        return self._send("GET", "/mode")["modes"]  # type: ignore[no-any-return]

    def report(self) -> dict[str, Any]:
        """How the study stands."""
        return self._send("GET", "/report")  # type: ignore[no-any-return]

    def explain(self, id: Id) -> dict[str, Any]:
        """As `Study.explain`."""
        return self._send("GET", _at(id))  # type: ignore[no-any-return]

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body, default=_plain, allow_nan=False)
        wait = FIRST_WAIT
        for last in [False] * (TRIES - 1) + [True]:
            try:
                status, answer = self._sent(method, self._path + path, content)
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                if last:
                    raise StorageError(f"{self._host} cannot be reached: {error!r}.") from error
            else:
                if status < 300:
                    return answer
                if last or status not in (429, 502, 503, 504):
                    raise _error(status, answer)
            time.sleep(wait)
            wait *= 2
        raise AssertionError  # the last try ends above

    def _drop(self) -> None:
        """This thread's connection is of no more use."""
        connection, self._own.connection = getattr(self._own, "connection", None), None
        if connection is not None:
            connection.close()
            self._connections.remove(connection)

    def _sent(self, method: str, path: str, content: str | None) -> tuple[int, Any]:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = self._own.connection = kind(self._host, self._port, timeout=self._timeout)
            self._connections.append(connection)
        headers = {"Content-Type": "application/json"} if content is not None else {}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        text = response.read()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, {"error": f"HTTP {response.status}: no JSON"}


def _error(status: int, answer: Any) -> CausalBanditsError:
    """What was refused there is refused here, by the same kind of error."""
    said = answer if isinstance(answer, dict) else {}
    named = getattr(errors, str(said.get("kind")), None)
    kind: type[CausalBanditsError] = ERRORS.get(status, CausalBanditsError)
    if isinstance(named, type) and issubclass(named, CausalBanditsError):
        kind = named
    return kind(str(said.get("error", f"HTTP {status}")))


def _address(url: object) -> SplitResult:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts and parts.scheme in ("http", "https") and parts.hostname and parts.path.strip("/"):
            _ = parts.port  # which may be none
            return parts
    except ValueError:
        pass  # refused below
    raise CausalBanditsError(f"A study's address is like http://127.0.0.1:8000/campaign; got {brief(url)}.")


def connect(url: str, key: str | None = None) -> RemoteStudy:
    """A study that `causalbandits serve` serves, such as http://127.0.0.1:8000/campaign."""
    return RemoteStudy(url, key)


def _at(id: Id, done: str = "") -> str:
    """The address of a decision: by its number or its key, which digits alone would not tell."""
    return f"/decisions/-{done}?{'key' if isinstance(id, str) else 'number'}={quote(str(id), safe='')}"


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
