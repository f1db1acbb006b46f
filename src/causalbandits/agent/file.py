"""An agent's file: JSON with a checksum, and a generation, so that nobody's outcomes are overwritten unnoticed."""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any, NamedTuple

from causalbandits._files import alone_in, our_json, refuse_other_kind, write_atomically
from causalbandits.errors import StateError

AGENT_FORMAT, AGENT_VERSION = "causalbandits-agent", 3


class Edition(NamedTuple):
    """Which agent's state a file holds, how often that has been saved, and a name for this one time."""

    agent: str
    generation: int
    token: str

    @classmethod
    def after(cls, before: Edition | None, agent: str) -> Edition:
        """The next one of an agent."""
        return cls(agent, 1 if before is None else before.generation + 1, secrets.token_hex(8))


def write(path: Path, content: dict[str, Any], based_on: Edition | None, new: Edition, *, overwrite: bool) -> None:
    """Write an agent's state, if the file is as this agent last left it; else refuse, unless told to `overwrite`."""
    whole = {"format": AGENT_FORMAT, "version": AGENT_VERSION, "edition": list(new), **content}
    whole["checksum"] = _checksum(whole)
    try:
        with alone_in(path.parent):
            refuse_other_kind(path, "a saved agent", our_json(AGENT_FORMAT))
            if not overwrite and path.exists() and path.stat().st_size:
                _check_edition(path, based_on)
            write_atomically(path, json.dumps(whole).encode())
    except OSError as error:
        raise StateError(f"Cannot save to {path}: {error.strerror or error}. Nothing was changed.") from error


def _check_edition(path: Path, based_on: Edition | None) -> None:
    try:
        found = edition_of(read(path))
    except StateError as error:
        raise StateError(
            f"{error} To replace it all the same: save(path, overwrite=True). Nothing was changed."
        ) from None
    if found == based_on:
        return
    if based_on is not None and found.agent == based_on.agent:
        raise StateError(
            f"{path} has been saved by another process since this agent read or wrote it (save {found.generation}, "
            f"not {based_on.generation}): saving now would lose what that one was told. Load the file and tell it the "
            "rest, save elsewhere, or overwrite it with save(path, overwrite=True). Nothing was changed."
        )
    raise StateError(
        f"{path} holds another agent. Load it to go on with it, save elsewhere, or overwrite it with "
        "save(path, overwrite=True). Nothing was changed."
    )


def read(path: Path) -> dict[str, Any]:
    """The content of an agent's file, whole and of this version."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StateError(f"Cannot read {path}: {error.strerror}.") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StateError(f"{path} is corrupted or no saved agent: {error}.") from None
    if not isinstance(content, dict) or content.get("format") != AGENT_FORMAT:
        raise StateError(f"{path} is no saved agent: its 'format' must be {AGENT_FORMAT!r}.")
    if content.get("version") != AGENT_VERSION:
        raise StateError(
            f"{path} was written by another version of this library: its format is {content.get('version')!r}, and "
            f"this one reads {AGENT_VERSION}. Go on with the version that wrote it, or start a new agent."
        )
    checksum = content.pop("checksum", None)
    if checksum != _checksum(content):
        raise StateError(f"{path} is corrupted: its checksum does not match its content.")
    return content


def edition_of(content: dict[str, Any]) -> Edition:
    """Which agent's state this is, and how old."""
    agent, generation, token = content["edition"]
    return Edition(str(agent), int(generation), str(token))


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
