"""Paths from outside, and files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from causalbandits.errors import StateError

PART = ".part"
"""What the names of unfinished files end in."""


def checked_path(path: object, example: str) -> Path:
    """A path, with links followed; anything else is refused."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise StateError(f"A path must be text or a Path, such as {example!r}; got {path!r}.")
    return Path(os.path.realpath(path))


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file, then put it in its place: whoever looks sees the old one or the new one, whole.

    Any number of threads and processes, on any machine, may do so at once: the last one's file stays. A file that is
    replaced keeps its permissions.
    """
    try:
        with _beside(path, content) as temporary:
            os.replace(temporary, path)
    except OSError as error:
        raise StateError(f"Cannot save to {path}: {error.strerror or error}. Nothing was changed.") from error
    _sync_folder(path.parent)


def write_first(path: Path, content: bytes) -> None:
    """Write the file unless it is there: of all who try at once, one does, and whoever looks sees it whole."""
    try:
        with _beside(path, content) as temporary:
            _link(temporary, path)
    except OSError as error:
        raise StateError(f"Cannot save to {path}: {error.strerror or error}. Nothing was changed.") from error
    _sync_folder(path.parent)


def _link(temporary: Path, path: Path) -> None:
    """Give a file its name, if that is free."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links: nothing there both takes a free name and refuses a taken one
        if not path.exists():
            os.replace(temporary, path)


def _replaced(path: Path) -> int | None:
    """The permissions of the file that is there, if any; what a file would destroy, such as /dev/null, is refused."""
    try:
        found = path.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        what = "a folder" if stat.S_ISDIR(found) else "a device, a pipe or a socket"
        raise StateError(f"Cannot save to {path}: it is {what}, no ordinary file. Choose another path.")
    return stat.S_IMODE(found)


@contextmanager
def _beside(path: Path, content: bytes) -> Iterator[Path]:
    """A new file with this content, beside the path and safely on disk; gone at the end, unless it was moved."""
    kept = _replaced(path)
    temporary = path.with_name(f"{path.name[:50]}.{secrets.token_hex(8)}{PART}")
    # Private until it has the permissions of the file that it replaces: who opens it before could read on after.
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, mode=0o666 if kept is None else 0o600)
    try:
        with open(descriptor, "wb") as file:
            if kept is not None:
                os.chmod(temporary, kept)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Have the file's name on disk, too; where a platform or a file system cannot, the file is saved all the same."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
