"""Authentication and authorization: keys, their roles, and which requests they allow.

Keys are random; a file holds their SHA-256 hashes, which are compared in constant time. Each key has a role, and may be
for some studies only:

    reader   reads
    writer   also asks for decisions and tells outcomes
    admin    also corrects, verifies, changes the policy and the mode, and creates studies

Keys are created and revoked while a service runs: before each request it looks whether the file has changed. While the
file is missing or damaged, the keys stay as they were. A service that has never had a key listens on this machine only,
and everybody there may do everything; where the last key was revoked, nobody may do anything.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from starlette.requests import Request

from causalbandits._files import write_atomically
from causalbandits.errors import StateError

logger = logging.getLogger("causalbandits.service")

Role = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = ("reader", "writer", "admin")
"""In ascending order: each includes those before it."""

COOKIE = "causalbandits_key"
"""Where a browser keeps its key."""

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")

UNKNOWN_KEY_MESSAGE = "This key is not known here: it was mistyped, or revoked, or is for another service."

MAX_KEY_NAME_LENGTH = 100

KEYS_FORMAT = "causalbandits-keys"


class AuthorizationError(Exception):
    """A request that is not allowed: 401 without a known key, 403 with one whose role or studies do not allow it."""

    kind = None  # no error of the library's

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class KeyRecord(NamedTuple):
    """What the file has of a key: not the key itself."""

    name: str
    role: Role
    hash: str
    studies: tuple[str, ...] | None = None
    """The studies that it opens; None: all."""

    def opens(self, study: str | None) -> bool:
        """Whether it opens a study; None stands for what concerns all studies."""
        return self.studies is None or study in self.studies


ANONYMOUS_ADMIN = KeyRecord("", "admin", "")
"""The record of every request to a service without keys."""


class Keys:
    """The keys of a service, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file_version = _file_version(path)
        self._records = _load_records(path)
        self.are_needed = bool(self._records)
        """Whether there has been a key: revoking the last one does not open the service to everybody."""

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._records)

    def create(self, name: str, role: str, studies: Iterable[str] = ()) -> str:
        """Create a key and return it, this once; for some studies, or, where none is named, for all."""
        if role not in ROLES:
            raise StateError(f"A key's role is one of {', '.join(ROLES)}; got {role!r}.")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_KEY_NAME_LENGTH or not name.isprintable():
            raise StateError(
                f"A key's name is printable text of 1 to {MAX_KEY_NAME_LENGTH} characters; got {name!r:.60}."
            )
        self._reload_if_changed()
        if any(record.name == name for record in self._records):
            raise StateError(f"There is a key named {name!r} already. Revoke it first, or choose another name.")
        key = f"cb_{secrets.token_urlsafe(32)}"
        self._records.append(KeyRecord(name, ROLES[ROLES.index(role)], _hash_key(key), tuple(studies) or None))
        self._save()
        return key

    def revoke(self, name: str) -> None:
        """Delete a key: from now on it opens nothing."""
        self._reload_if_changed()
        remaining = [record for record in self._records if record.name != name]
        if len(remaining) == len(self._records):
            raise StateError(f"There is no key named {name!r}.")
        self._records = remaining
        self._save()

    def role_of(self, key: str | None) -> Role | None:
        """The role of a key; None if it is unknown. A service without keys allows everything."""
        record = self.record_of(key)
        return None if record is None else record.role

    def record_of(self, key: str | None) -> KeyRecord | None:
        """The record of a key; None if it is unknown."""
        self._reload_if_changed()
        if not self.are_needed:
            return ANONYMOUS_ADMIN
        key_hash, match = _hash_key(key or ""), None
        for record in self._records:  # all of them, in constant time
            if hmac.compare_digest(record.hash, key_hash):
                match = record
        return match

    def _reload_if_changed(self) -> None:
        """Load keys that were created or revoked in another process."""
        file_version = _file_version(self.path)
        if file_version == self._file_version:
            return
        self._file_version = file_version
        try:
            self._records = self._records if file_version is None else _load_records(self.path)
            self.are_needed = self.are_needed or bool(self._records)
        except StateError as error:
            logger.error("Keys are as they were: %s", error)

    def _save(self) -> None:
        content = {"format": KEYS_FORMAT, "keys": [record._asdict() for record in self._records]}
        write_atomically(self.path, json.dumps(content, indent=2).encode())
        self.path.chmod(0o600)


def _file_version(path: Path) -> tuple[int, int, int] | None:
    """A value that changes whenever the file does; None where there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def allows(role: Role | None, required_role: Role) -> bool:
    """Whether a role includes the required one."""
    return role is not None and ROLES.index(role) >= ROLES.index(required_role)


def authorize(keys: Keys, required_role: Role, request: Request, *, by_cookie: bool) -> None:
    """Raise an error unless a request's key has a role that is enough; `request.state.key` becomes the key's record."""
    headers = dict(reversed(request.scope["headers"]))  # the first of each name
    if not keys.are_needed and str(headers.get(b"host", b""), "latin-1").rsplit(":", 1)[0] not in LOCAL_HOSTS:
        raise AuthorizationError(403, "Without keys, this service answers to this machine alone.")
    scheme, _, credentials = str(headers.get(b"authorization", b""), "latin-1").partition(" ")
    key = credentials if scheme.lower() == "bearer" else ""
    if not key and by_cookie:
        key = request.cookies.get(COOKIE, "")
    record = keys.record_of(key)
    if record is None:
        raise AuthorizationError(401, UNKNOWN_KEY_MESSAGE if key else "This needs a key: Authorization: Bearer cb_...")
    if not allows(record.role, required_role):
        raise AuthorizationError(403, f"This needs a key with the role {required_role}; yours has {record.role}.")
    if "study" in request.path_params and not record.opens(request.path_params["study"]):
        raise AuthorizationError(403, "Your key is for other studies.")
    request.state.key = record


def is_reader(keys: Keys, request: Request) -> bool:
    """Whether a request's key allows it to read: it may have been revoked since."""
    try:
        authorize(keys, "reader", request, by_cookie=True)
    except AuthorizationError:
        return False
    return True


def _hash_key(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()  # keys are random, so that no salt is needed


def _decode_record(entry: Mapping[str, Any]) -> KeyRecord:
    studies, role = entry.get("studies"), ROLES[ROLES.index(entry["role"])]
    if studies is not None and not isinstance(studies, list):
        raise ValueError(f"studies must be a list; got {studies!r:.60}")
    return KeyRecord(
        str(entry["name"]), role, str(entry["hash"]), None if studies is None else tuple(map(str, studies))
    )


def _load_records(path: Path) -> list[KeyRecord]:
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != KEYS_FORMAT:
            raise ValueError(content["format"])
        return [_decode_record(entry) for entry in content["keys"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path} is no file of keys, or is damaged: {error!r}.") from None
