"""Paths from outside, and files that are there whole or not at all."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from causalbandits.errors import StateError

AnyPath = str | os.PathLike[str]
"""A path as users give it."""


def checked_path(path: object, example: str) -> Path:
    """A path, with links followed; anything else is refused."""
    if not isinstance(path, str | os.PathLike) or not str(path) or "\0" in str(path):
        raise StateError(f"A path must be text or a Path, such as {example!r}; got {path!r}.")
    return Path(os.path.realpath(path))


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Write beside the file, then put it in its place: whoever looks sees the old one or the new one, whole."""
    temporary = path.parent / f"{path.name}.{os.getpid()}.part"
    try:
        if path.exists() and not path.is_file():
            raise StateError(f"Cannot save to {path}: something else than a file is there. Nothing was changed.")
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # where it could not be made, it cannot be removed
            temporary.unlink()
        if isinstance(error, OSError):
            raise StateError(f"Cannot save to {path}: {error.strerror or error}. Nothing was changed.") from error
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """The whole content of a file, at once."""
    with writing(path) as file:
        file.write(content)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """What `numpy.savez` wrote; nothing pickled is read, and every part's own checksum is verified first."""
    try:
        with zipfile.ZipFile(path) as file:
            parts = {name.removesuffix(".npy"): file.read(name) for name in file.namelist()}
        return {name: np.lib.format.read_array(io.BytesIO(part), allow_pickle=False) for name, part in parts.items()}
    except OSError as error:
        raise StateError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise StateError(f"{path} is corrupted: {str(error) or 'it ends too soon'}.") from None
