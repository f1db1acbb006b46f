"""Paths from outside, and files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from causalbandits.errors import StateError

FilePath = str | os.PathLike[str]
"""Where a file is, as a caller may say it."""


def checked_path(path: object, example: str) -> Path:
    """A path, with links followed; anything else is refused."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise StateError(f"A path must be text or a Path, such as {example!r}; got {path!r}.")
    return Path(os.path.realpath(path))


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file, then put it in its place: whoever looks sees the old one or the new one, whole."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StateError(f"Cannot save to {path}: {error.strerror or error}. Nothing was changed.") from error
