"""The file of an agent: JSON with a checksum and a generation number, which prevents unnoticed overwriting."""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any, NamedTuple

from causalbandits._files import json_recogniser, lock_folder, refuse_other_kind, write_atomically
from causalbandits.errors import StateError

AGENT_FORMAT, AGENT_VERSION = "causalbandits-agent", 7


class Version(NamedTuple):
    """The version of a file: the agent's id, the number of saves, and a unique name of this save."""

    agent: str
    generation: int
    token: str

    @classmethod
    def after(cls, previous: Version | None, agent: str) -> Version:
        """The next version of an agent."""
        return cls(agent, 1 if previous is None else previous.generation + 1, secrets.token_hex(8))


def write_agent_file(
    path: Path, content: dict[str, Any], based_on: Version | None, new: Version, *, overwrite: bool
) -> None:
    """Write an agent's state if the file is unchanged since this agent's last save; otherwise raise, unless
    `overwrite`."""
    document = {"format": AGENT_FORMAT, "version": AGENT_VERSION, "edition": list(new), **content}
    document["checksum"] = _checksum(document)
    try:
        with lock_folder(path.parent):
            refuse_other_kind(path, "a saved agent", json_recogniser(AGENT_FORMAT))
            if not overwrite and path.exists() and path.stat().st_size:
                _validate_version(path, based_on)
            write_atomically(path, json.dumps(document).encode())
    except OSError as error:
        raise StateError(f"Cannot save to {path}: {error.strerror or error}. Nothing was changed.") from error


def _validate_version(path: Path, based_on: Version | None) -> None:
    try:
        version = parse_version(read_agent_file(path))
    except StateError as error:
        raise StateError(f"{error} To replace it: save(path, overwrite=True). Nothing was changed.") from None
    if version == based_on:
        return
    if based_on is not None and version.agent == based_on.agent:
        raise StateError(
            f"{path} has been saved by another process since this agent read or wrote it (save {version.generation}, "
            f"not {based_on.generation}): saving now would lose the outcomes that the other process reported. Load "
            "the file and report the remaining outcomes to it, save to another path, or overwrite the file with "
            "save(path, overwrite=True). Nothing was changed."
        )
    raise StateError(
        f"{path} holds another agent. Load the file to continue that agent, save to another path, or overwrite the "
        "file with save(path, overwrite=True). Nothing was changed."
    )


def read_agent_file(path: Path) -> dict[str, Any]:
    """The validated content of an agent's file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StateError(f"Cannot read {path}: {error.strerror}.") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StateError(f"{path} is corrupted or is not a saved agent: {error}.") from None
    if not isinstance(content, dict) or content.get("format") != AGENT_FORMAT:
        raise StateError(f"{path} is not a saved agent: its 'format' must be {AGENT_FORMAT!r}.")
    if content.get("version") != AGENT_VERSION:
        raise StateError(
            f"{path} was written by another version of this library: its format is {content.get('version')!r}, and "
            f"this one reads {AGENT_VERSION}. Use the version that wrote it, or create a new agent."
        )
    checksum = content.pop("checksum", None)
    if checksum != _checksum(content):
        raise StateError(f"{path} is corrupted: its checksum does not match its content.")
    return content


def parse_version(content: dict[str, Any]) -> Version:
    """The agent's id and the number of saves in a file."""
    agent, generation, token = content["edition"]
    return Version(str(agent), int(generation), str(token))


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
