"""Paths and JSON from users, and atomic files."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import secrets
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from causalbandits.errors import StateError, short_repr

FilePath = str | os.PathLike[str]
"""The types in which a caller may pass a file path."""

PART = ".part"
"""The suffix of unfinished files."""

HEAD = 2**16
"""The number of leading bytes by which a file's kind is recognised."""

_FORMAT_FIELD = re.compile(rb'"format"\s*:\s*"([^"]{0,100})"')


class DuplicateKeyError(ValueError):
    """A JSON object has a duplicate key; `path` is its location."""

    def __init__(self, path: tuple[str | int, ...]) -> None:
        super().__init__(f"the key {json.dumps(path[-1], ensure_ascii=False)} occurs twice in one object")
        self.path = path


def parse_json(text: str | bytes) -> Any:
    """The content of a JSON document; a `DuplicateKeyError` is raised if an object has a duplicate key.

    >>> parse_json('{"a": {"b": 1, "b": 2}}')
    Traceback (most recent call last):
    causalbandits._files.DuplicateKeyError: the key "b" occurs twice in one object
    """
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except _RepeatedKeyError:
        path = next(find_duplicate_keys(text))
        raise DuplicateKeyError(path) from None


def has_duplicate_keys(text: str | bytes) -> bool:
    """Whether an object of a JSON document has a duplicate key; False for text that is not JSON.

    >>> has_duplicate_keys('{"a": 1, "a": 2}'), has_duplicate_keys('{"a": 1}')
    (True, False)
    """
    try:
        json.loads(text, object_pairs_hook=_unique_keys)
    except _RepeatedKeyError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def find_duplicate_keys(text: str | bytes) -> Iterator[tuple[str | int, ...]]:
    """Paths to the duplicate keys of the objects of a JSON document."""
    return _duplicates(json.loads(text, object_pairs_hook=_Pairs), ())


class _RepeatedKeyError(Exception):
    """An object has a duplicate key."""


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object, in their original order."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise _RepeatedKeyError
    return content


def _duplicates(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, _Pairs):
        counts = Counter(name for name, _ in value)
        yield from ((*path, name) for name, n in counts.items() if n > 1)
        for name, item in value:
            yield from _duplicates(item, (*path, name))
    elif isinstance(value, list):
        for k, item in enumerate(value):
            yield from _duplicates(item, (*path, k))


def parse_path(path: object, example: str) -> Path:
    """Parse a path and resolve its links; other values raise an error."""
    if not isinstance(path, str | os.PathLike) or not str(path) or "\0" in str(path):
        raise StateError(f"A path must be text or a Path, such as {example!r}; got {short_repr(path)}.")
    try:
        return Path(os.path.realpath(path))
    except (OSError, UnicodeError) as error:
        raise StateError(f"{short_repr(path)} cannot be a path: {getattr(error, 'strerror', None) or error}.") from None


def refuse_unwritable(path: Path) -> None:
    """Raise if no file can be written there, so that this is detected before any computation."""
    if not os.path.isdir(path.parent):
        raise StateError(
            f"Cannot save to {path}: the folder {path.parent} does not exist. Create it, or choose another."
        )
    _refuse_unwritable_place(path, path.parent)
    _existing_permissions(path)


def refuse_unwritable_folder(folder: Path) -> None:
    """Raise if no folder can be written there; missing folders, including parents, count as creatable."""
    existing = next(above for above in (folder, *folder.absolute().parents) if os.path.exists(above))
    if not existing.is_dir():
        raise StateError(f"Cannot write into {folder}: {existing} is a file, not a folder. Choose another folder.")
    _refuse_unwritable_place(folder, existing)


def _refuse_unwritable_place(path: Path, folder: Path) -> None:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # the file does not exist yet, or the folder is at fault, which is reported below
    except OSError as error:  # the name is too long
        raise StateError(f"Cannot save to {short_repr(str(path))}: {error.strerror}. Choose another name.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StateError(f"Cannot save to {path}: the folder {folder} is not writable. Choose another folder.")


def refuse_other_kind(
    path: Path, kind: str, recognises: Callable[[bytes], object], *, compressed: bool = False
) -> None:
    """Raise if the existing file is not of the kind that is about to replace it; an empty file may be replaced.

    `kind` names the kind in the error ("a saved agent"); `recognises` is called with the decompressed start of the
    file.
    """
    head = _read_head(path, compressed) if os.path.isfile(path) else b""
    if head and not recognises(head):
        stated_format = _FORMAT_FIELD.search(head)
        description = (
            f"a file of the format {stated_format[1].decode(errors='replace')!r}"
            if stated_format
            else ("a file of another kind")
        )
        raise StateError(
            f"Writing {kind} to {path} would overwrite another file: {description}. Choose another path, or delete "
            "the file first."
        )


def json_recogniser(format: str) -> Callable[[bytes], object]:
    """A function that recognises this library's JSON files of one format by the first "format" in them."""
    return lambda head: (stated_format := _FORMAT_FIELD.search(head)) and stated_format[1] == format.encode()


def refuse_saved_file(path: Path, kind: str) -> None:
    """Raise if the path holds a saved agent or model, which a table or a picture would overwrite."""
    refuse_other_kind(path, kind, lambda head: b'"causalbandits-' not in head)


def _read_head(path: Path, compressed: bool) -> bytes:
    try:
        with (gzip.open if compressed else open)(path, "rb") as file:
            return file.read(HEAD)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return b"\0"  # not a compressed file of this library
    except OSError as error:
        raise StateError(f"Cannot inspect {path}: {error.strerror or error}. Choose another path.") from error


@contextmanager
def open_atomically(path: Path, permissions: int | None = None) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces the target when it is complete; readers see the old or the new file, whole.

    Any number of threads, processes and machines may do this at once; the last write wins. A replaced file keeps its
    permissions unless others are given.
    """
    with _translate_errors(path), _open_temporary(path, permissions) as (file, temporary):
        yield file
        _flush_and_close(file)
        os.replace(temporary, path)
    _sync_folder(path.parent)


def write_atomically(path: Path, content: bytes, permissions: int | None = None) -> None:
    """Write the whole content of a file atomically."""
    with open_atomically(path, permissions) as file:
        file.write(content)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder, so that no other process replaces a file between the check and the replacement.

    The lock covers only processes on machines that share locks; if the platform or the file system has no locks,
    nothing is locked.
    """
    descriptor = None
    with suppress(ImportError, OSError):
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)  # closing releases the lock


def write_if_absent(path: Path, content: bytes) -> None:
    """Write the file unless it exists: exactly one of several concurrent calls writes it, and readers see it whole."""
    with _translate_errors(path), _open_temporary(path) as (file, temporary):
        file.write(content)
        _flush_and_close(file)
        _link_if_free(temporary, path)
    _sync_folder(path.parent)


def temporary_path(path: Path) -> Path:
    """A unique temporary name in the folder of a file."""
    return path.with_name(f"{path.name[:50]}.{secrets.token_hex(8)}{PART}")


def move_if_free(temporary: Path, path: Path) -> bool:
    """Rename a finished file; return whether the name was free. An empty file counts as free."""
    with _translate_errors(path):
        if path.exists() and not path.stat().st_size:
            os.replace(temporary, path)
        elif not _link_if_free(temporary, path):
            return False
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return True


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(f"Cannot save to {path}: {error.strerror or error}. Nothing was changed.") from error


def _flush_and_close(file: BinaryIO) -> None:
    """Flush the file to disk before it is renamed."""
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _link_if_free(temporary: Path, path: Path) -> bool:
    """Link a file to a name if that name is free; return whether it was."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links has no operation that both takes a free name and refuses a taken one
        if path.exists():
            return False
        os.replace(temporary, path)
    return True


def _existing_permissions(path: Path) -> int | None:
    """The permissions of the existing file, if any; special files that a write would destroy, such as /dev/null, are
    refused."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        description = "a folder" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
        raise StateError(f"Cannot save to {path}: it is {description}, not a regular file. Choose another path.")
    return stat.S_IMODE(mode)


@contextmanager
def _open_temporary(path: Path, permissions: int | None = None) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a temporary file beside the path, to be written and moved; it is deleted at the end unless it was moved."""
    existing_permissions = _existing_permissions(path)
    permissions = existing_permissions if permissions is None else permissions
    temporary = temporary_path(path)
    # Private until it has the permissions of the file that it replaces: a process that opens it earlier could keep
    # reading it.
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, mode=0o666 if permissions is None else 0o600)
    try:
        with open(descriptor, "wb") as file:
            if permissions is not None:
                os.chmod(temporary, permissions)
            yield file, temporary
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Flush the file's directory entry to disk; platforms and file systems without support are ignored."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Arrays written by `numpy.savez`; pickled data is refused, and the checksum of every member is verified first."""
    try:
        with zipfile.ZipFile(path) as file:
            parts = {name.removesuffix(".npy"): file.read(name) for name in file.namelist()}
        return {name: np.lib.format.read_array(io.BytesIO(part), allow_pickle=False) for name, part in parts.items()}
    except OSError as error:
        raise StateError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise StateError(f"{path} is corrupted: {str(error) or 'the file is truncated'}.") from None
