"""Who may do what: keys are random, kept as hashes, compared in constant time, each with a role.

    reader   looks
    writer   looks, asks and tells
    admin    all of it: corrects, verifies, changes the policy and the mode, makes studies

A key may be for some studies alone. Without any key the service listens on this machine alone, and everybody there may
do everything.

Keys are made and revoked while a service runs: it looks whether the file has changed before it lets anybody in. While
that is gone or damaged, keys are as they were; where there were keys and none is left, nobody gets in.
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

from causalbandits._files import write_atomically
from causalbandits.errors import StateError

logger = logging.getLogger("causalbandits.service")

Role = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = ("reader", "writer", "admin")
"""Each may do what those before it may."""

LONGEST_NAME = 100

KEYS_FORMAT = "causalbandits-keys"


class KeyRecord(NamedTuple):
    """What is kept of a key."""

    name: str
    role: Role
    hash: str
    studies: tuple[str, ...] | None = None
    """Those that it opens; None: all."""

    def opens(self, study: str | None) -> bool:
        """Whether it is for a study; None stands for what concerns all of them."""
        return self.studies is None or study in self.studies


ANYBODY = KeyRecord("", "admin", "")
"""Who comes where there are no keys."""


class Keys:
    """The keys of a service, in a file of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = _edition(path)
        self._kept = _read(path)
        self.are_needed = bool(self._kept)
        """Whether there have been any: who has revoked the last one does not want to let everybody in."""

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._kept)

    def make(self, name: str, role: str, studies: Iterable[str] = ()) -> str:
        """A new key, shown this once; for some studies, or, where none is named, for all."""
        if role not in ROLES:
            raise StateError(f"A key's role is one of {', '.join(ROLES)}; got {role!r}.")
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise StateError(f"A key's name is printable text of 1 to {LONGEST_NAME} characters; got {name!r:.60}.")
        self._follow()
        if any(own.name == name for own in self._kept):
            raise StateError(f"There is a key named {name!r} already. Revoke it first, or choose another name.")
        key = f"cb_{secrets.token_urlsafe(32)}"
        self._kept.append(KeyRecord(name, ROLES[ROLES.index(role)], _hash(key), tuple(studies) or None))
        self._write()
        return key

    def revoke(self, name: str) -> None:
        """From now on, it opens nothing."""
        self._follow()
        kept = [own for own in self._kept if own.name != name]
        if len(kept) == len(self._kept):
            raise StateError(f"There is no key named {name!r}.")
        self._kept = kept
        self._write()

    def role_of(self, key: str | None) -> Role | None:
        """What a key allows; None if it opens nothing. Without any keys, everything is allowed."""
        own = self.record_of(key)
        return None if own is None else own.role

    def record_of(self, key: str | None) -> KeyRecord | None:
        """Whose key it is; None if it is nobody's, and anybody's where there are no keys."""
        self._follow()
        if not self.are_needed:
            return ANYBODY
        given, found = _hash(key or ""), None
        for own in self._kept:  # all of them: time tells nothing
            if hmac.compare_digest(own.hash, given):
                found = own
        return found

    def _follow(self) -> None:
        """Take in what was made and revoked since."""
        edition = _edition(self.path)
        if edition == self._seen:
            return
        self._seen = edition
        try:
            self._kept = self._kept if edition is None else _read(self.path)
            self.are_needed = self.are_needed or bool(self._kept)
        except StateError as error:
            logger.error("Keys are as they were: %s", error)

    def _write(self) -> None:
        content = {"format": KEYS_FORMAT, "keys": [own._asdict() for own in self._kept]}
        write_atomically(self.path, json.dumps(content, indent=2).encode())
        self.path.chmod(0o600)


def _edition(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever the file does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def allows(role: Role | None, needed: Role) -> bool:
    """Whether a role is enough."""
    return role is not None and ROLES.index(role) >= ROLES.index(needed)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()  # keys are random, so that no salt is needed


def _record(own: Mapping[str, Any]) -> KeyRecord:
    some, role = own.get("studies"), ROLES[ROLES.index(own["role"])]
    if some is not None and not isinstance(some, list):
        raise ValueError(f"studies must be a list; got {some!r:.60}")
    return KeyRecord(str(own["name"]), role, str(own["hash"]), None if some is None else tuple(map(str, some)))


def _read(path: Path) -> list[KeyRecord]:
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != KEYS_FORMAT:
            raise ValueError(content["format"])
        return [_record(own) for own in content["keys"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path} is no file of keys, or is damaged: {error!r}.") from None
