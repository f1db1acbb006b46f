"""Authentication and authorization: keys, their roles, and which requests they allow.

Keys are random; a file holds their SHA-256 hashes, which are compared in constant time. Each key has a role, and may be
for some studies only:

    reader   reads
    writer   also requests decisions and reports outcomes
    admin    also corrects, verifies, changes the policy and the mode, and creates studies

The service checks the file for changes before each request, so keys can be created and revoked while it runs. While the
file is damaged, the loaded keys stay valid. While it is missing, every request is refused, and a service that had keys
does not start without them; a marker beside the file records that keys existed. After the last key is revoked, every
request is refused as well.

A service that has never had a key accepts only requests from its own machine, with all permissions, unless the operator
opens it to everybody by two settings. A request that came through a proxy does not count as local.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
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
"""Roles in ascending order; each includes the previous ones."""

COOKIE = "causalbandits_key"
"""The cookie that holds a browser's key."""

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")

PROXY_HEADERS = (b"forwarded", b"x-real-ip", b"via", b"x-client-ip", b"true-client-ip", b"cf-connecting-ip")
PROXY_HEADER_PREFIXES = (b"x-forwarded", b"x-original-forwarded", b"x-envoy", b"x-amzn")
"""Headers that proxies add, or their prefixes: such a request may come from any machine."""

UNKNOWN_KEY_MESSAGE = (
    "The service does not know this key: the key was mistyped or revoked, or belongs to another service."
)

MAX_KEY_NAME_LENGTH = 100

KEYS_FORMAT = "causalbandits-keys"


class AuthorizationError(Exception):
    """A request that is not allowed, with its problem type."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class KeyRecord(NamedTuple):
    """The stored data of a key, without the key itself."""

    name: str
    role: Role
    hash: str
    studies: tuple[str, ...] | None = None
    """The studies that the key gives access to; None means all."""

    def opens(self, study: str | None) -> bool:
        """Whether the key gives access to a study; None stands for operations on all studies."""
        return self.studies is None or study in self.studies


ANONYMOUS_ADMIN = KeyRecord("", "admin", "")
"""The record of every request to a service without keys."""


class RateLimit:
    """A token bucket for each address: `burst` requests at once, and `per_second` in the long run."""

    MAX_ADDRESSES = 10_000

    def __init__(self, per_second: float = 20.0, burst: float = 200.0) -> None:
        self._per_second, self._burst = per_second, burst
        self._missing: dict[str, tuple[float, float]] = {}
        """The number of missing tokens of each bucket, and the time of that count; unlisted buckets are full."""

    def allows(self, address: str, now: float) -> bool:
        """Take a token from a bucket; return whether it had one."""
        missing, since = self._missing.pop(address, (0.0, now))
        missing = max(0.0, missing - self._per_second * (now - since))
        is_allowed = missing + 1.0 <= self._burst
        if len(self._missing) >= self.MAX_ADDRESSES:
            del self._missing[next(iter(self._missing))]  # the bucket with the earliest last request
        self._missing[address] = missing + is_allowed, now
        return is_allowed


def client_address(request: Request) -> str:
    """The address for rate limits: for IPv6 the network prefix, because one client has all of its addresses."""
    host = "" if request.client is None else request.client.host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(ipaddress.ip_network((address, 64), strict=False) if mapped is None else mapped)
    return host


class Keys:
    """The keys of a service, in a file."""

    admits_everybody = False
    """Whether a service without keys accepts requests from other machines."""

    def __init__(self, path: Path) -> None:
        self.path, self.marker = path, path.with_name(f"{path.name}.required")
        self._file_version = _file_version(path)
        self._records = _load_records(path)
        self.are_needed = bool(self._records)
        """Whether a key has existed: revoking the last one does not open the service."""

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._records)

    def create(self, name: str, role: str, studies: Iterable[str] = ()) -> str:
        """Create a key and return it; it cannot be read again. It is valid for the named studies, by default for
        all."""
        if role not in ROLES:
            raise StateError(f"The role of a key must be one of {', '.join(ROLES)}; got {role!r}.")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_KEY_NAME_LENGTH or not name.isprintable():
            raise StateError(
                f"The name of a key must be printable text of 1 to {MAX_KEY_NAME_LENGTH} characters; got {name!r:.60}."
            )
        self._reload_if_changed()
        if any(record.name == name for record in self._records):
            raise StateError(f"A key named {name!r} exists already. Revoke that key first, or choose another name.")
        key = f"cb_{secrets.token_urlsafe(32)}"
        self._records.append(KeyRecord(name, ROLES[ROLES.index(role)], _hash_key(key), tuple(studies) or None))
        self._save()
        return key

    def revoke(self, name: str) -> None:
        """Delete a key, which becomes invalid immediately."""
        self._reload_if_changed()
        remaining = [record for record in self._records if record.name != name]
        if len(remaining) == len(self._records):
            raise StateError(f"There is no key named {name!r}.")
        self._records = remaining
        self._save()

    def role_of(self, key: str | None) -> Role | None:
        """The role of a key; None if it is unknown. Without keys, every request has full permissions."""
        record = self.record_of(key)
        return None if record is None else record.role

    def are_missing(self) -> bool:
        """Whether keys have existed and their file is missing."""
        self._reload_if_changed()
        return self.are_needed and self._file_version is None

    def mark_required(self) -> None:
        """Write a marker beside the file, so that the service does not start without keys if the file is lost."""
        try:
            self.marker.touch(mode=0o600)
        except OSError as error:
            logger.warning(
                "The marker file %s cannot be written (%s): a later loss of the file of keys will not be detected.",
                self.marker,
                error,
            )

    def record_of(self, key: str | None) -> KeyRecord | None:
        """The record of a key; None if it is unknown."""
        if self.are_missing():
            raise AuthorizationError(
                "keys-unavailable",
                ("The service's file of keys is missing. The service accepts no key until the file is restored."),
            )
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
        if self.are_needed and file_version is None:
            logger.error(
                "The file of keys, %s, is missing. The service accepts no key until the file is restored.", self.path
            )
        try:
            self._records = _load_records(self.path)
            if self._records and not self.are_needed:
                self.are_needed = True
                self.mark_required()
        except StateError as error:
            logger.error("The keys are unchanged: %s", error)

    def _save(self) -> None:
        content = {"format": KEYS_FORMAT, "keys": [record._asdict() for record in self._records]}
        write_atomically(self.path, json.dumps(content, indent=2).encode(), permissions=0o600)
        self._file_version, self.are_needed = _file_version(self.path), True


def _file_version(path: Path) -> tuple[int, int, int] | None:
    """A value that changes whenever the file does; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def allows(role: Role | None, required_role: Role) -> bool:
    """Whether a role includes the required one."""
    return role is not None and ROLES.index(role) >= ROLES.index(required_role)


def authorize(keys: Keys, required_role: Role, request: Request, *, by_cookie: bool) -> None:
    """Raise an error unless a request's key has a sufficient role; `request.state.key` becomes the key's record."""
    headers = dict(reversed(request.scope["headers"]))  # the first of each name
    if not keys.are_needed and not keys.admits_everybody:
        _refuse_other_machines(headers, request.scope.get("http_version", "1.1"))
    scheme, _, credentials = str(headers.get(b"authorization", b""), "latin-1").partition(" ")
    key = credentials if scheme.lower() == "bearer" else ""
    if not key and by_cookie:
        key = request.cookies.get(COOKIE, "")
    record = keys.record_of(key)
    if record is None:
        raise AuthorizationError(
            "authentication-required",
            UNKNOWN_KEY_MESSAGE if key else "This request requires a key. Send the header Authorization: Bearer cb_...",
        )
    request.state.key = record
    if not allows(record.role, required_role):
        raise AuthorizationError(
            "forbidden",
            (f"This request requires a key with the role {required_role}; your key has the role {record.role}."),
        )
    if "study" in request.path_params and not record.opens(request.path_params["study"]):
        raise AuthorizationError("forbidden", "Your key does not give access to this study.")


def _proxy_sign(headers: Mapping[bytes, bytes], http_version: str) -> str | None:
    """The evidence that a proxy forwarded a request; None if there is none.

    By default, Nginx adds no header, sends this machine's name as the host, and speaks HTTP/1.0, which current browsers
    and clients do not use.
    """
    for name in headers:
        if name in PROXY_HEADERS or name.startswith(PROXY_HEADER_PREFIXES):
            return f"header {name.decode('latin-1').title()}"
    return "HTTP/1.0" if http_version == "1.0" else None


def _refuse_other_machines(headers: Mapping[bytes, bytes], http_version: str) -> None:
    """Raise an error unless a request names this machine as host and shows no sign of a proxy."""
    if (sign := _proxy_sign(headers, http_version)) is not None:
        raise AuthorizationError(
            "forbidden",
            "Without keys, the service accepts requests from its own machine only, and a proxy forwarded this request "
            f"({sign}). The operator can create a key: causalbandits study keys make.",
        )
    if str(headers.get(b"host", b""), "latin-1").rsplit(":", 1)[0] not in LOCAL_HOSTS:
        raise AuthorizationError(
            "forbidden",
            "Without keys, the service accepts requests from its own machine only, as 127.0.0.1 or localhost. The "
            "operator can create a key: causalbandits study keys make.",
        )


def is_same_origin(request: Request) -> bool | None:
    """Whether a page of this service sent a request, according to the browser's headers; None without such headers.

    Scripts cannot set either header. `Sec-Fetch-Site` is checked first, because a proxy may rewrite `Host`, which is
    compared with `Origin`; browsers send it over HTTPS and to localhost.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return None if site == "none" else site == "same-origin"
    return None if origin is None else origin.partition("://")[2] == request.headers.get("host")


def refuse_cross_site(request: Request) -> None:
    """Raise an error if a page of another site sent a request that may change data."""
    if request.method not in ("GET", "HEAD") and is_same_origin(request) is False:
        raise AuthorizationError("cross-site-request", "A page of another site sent this request. Nothing was changed.")


def is_reader(keys: Keys, request: Request) -> bool:
    """Whether a request's key still allows reading; it may have been revoked since."""
    try:
        authorize(keys, "reader", request, by_cookie=True)
    except AuthorizationError:
        return False
    return True


def _hash_key(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()  # keys are random and need no salt


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
        raise StateError(f"{path} is not a file of keys, or is corrupted: {error!r}.") from None
