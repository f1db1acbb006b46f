"""Who may do what: keys are random, kept as hashes, compared in constant time, each with a role.

    reader   looks
    writer   looks, asks and tells
    admin    all of it: corrects, forgets, changes the policy, makes keys

Without any key the service listens on this machine alone, and everybody there may do everything.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from pathlib import Path
from typing import Literal, NamedTuple

from causalbandits._files import write_atomically
from causalbandits.errors import StateError

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


class Keys:
    """The keys of a service, in a file of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept = _read(path)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._kept)

    def make(self, name: str, role: str) -> str:
        """A new key, shown this once."""
        if role not in ROLES:
            raise StateError(f"A key's role is one of {', '.join(ROLES)}; got {role!r}.")
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise StateError(f"A key's name is printable text of 1 to {LONGEST_NAME} characters; got {name!r:.60}.")
        if any(own.name == name for own in self._kept):
            raise StateError(f"There is a key named {name!r} already. Revoke it first, or choose another name.")
        key = f"cb_{secrets.token_urlsafe(32)}"
        self._kept.append(KeyRecord(name, ROLES[ROLES.index(role)], _hash(key)))
        self._write()
        return key

    def revoke(self, name: str) -> None:
        """From now on, it opens nothing."""
        kept = [own for own in self._kept if own.name != name]
        if len(kept) == len(self._kept):
            raise StateError(f"There is no key named {name!r}.")
        self._kept = kept
        self._write()

    def role_of(self, key: str | None) -> Role | None:
        """What a key allows; None if it opens nothing. Without any keys, everything is allowed."""
        if not self._kept:
            return "admin"
        own = self._of(key)
        return None if own is None else own.role

    def name_of(self, key: str | None) -> str | None:
        """Whose key it is; None if it is nobody's."""
        own = self._of(key)
        return None if own is None else own.name

    def _of(self, key: str | None) -> KeyRecord | None:
        given, found = _hash(key or ""), None
        for own in self._kept:  # all of them: time tells nothing
            if hmac.compare_digest(own.hash, given):
                found = own
        return found

    def _write(self) -> None:
        content = {"format": KEYS_FORMAT, "keys": [own._asdict() for own in self._kept]}
        write_atomically(self.path, json.dumps(content, indent=2).encode())
        self.path.chmod(0o600)


def allows(role: Role | None, needed: Role) -> bool:
    """Whether a role is enough."""
    return role is not None and ROLES.index(role) >= ROLES.index(needed)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()  # keys are random, so that no salt is needed


def _read(path: Path) -> list[KeyRecord]:
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != KEYS_FORMAT:
            raise ValueError(content["format"])
        return [
            KeyRecord(str(own["name"]), ROLES[ROLES.index(own["role"])], str(own["hash"])) for own in content["keys"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path} is no file of keys, or is damaged: {error!r}.") from None
