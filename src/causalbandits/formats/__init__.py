"""Models and graphs in files and in other libraries: BIF, XMLBIF, DOT and JSON; pgmpy and pyAgrum.

A format is a module with `loads` and `dumps`; files are read completely, within the limits of `_check_limits`.
"""

from __future__ import annotations

import gzip
import itertools
import os
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx

from causalbandits._files import json_recogniser, parse_path, refuse_other_kind, write_atomically
from causalbandits.errors import (
    CausalBanditsError,
    FormatError,
    ModelError,
    SizeError,
    short_repr,
    unknown_name_message,
)
from causalbandits.formats import bif, dot, json, xmlbif
from causalbandits.formats._scanner import AXES_LIMIT, FILE_LIMIT, NUMBER_LIMIT, clip, decode_text
from causalbandits.formats.adapters import from_pgmpy, from_pyagrum, to_pgmpy, to_pyagrum
from causalbandits.model import (
    LABEL_LIMIT,
    LATENT_FORMAT,
    MODEL_FORMAT,
    CausalGraph,
    CausalModel,
    LatentModel,
)
from causalbandits.model import graph as graphs
from causalbandits.model.graph import GRAPH_FORMAT

__all__ = ["FORMATS", "from_pgmpy", "from_pyagrum", "read", "read_dot", "read_json", "to_pgmpy", "to_pyagrum", "write"]

_PIECE = 2**20


class _Format(NamedTuple):
    loads: Callable[[bytes, str], Any]
    dumps: Callable[[Any], str]
    kind: str
    recognises: Callable[[bytes], object]
    """Whether the start of a file belongs to this format."""


def _text_loader(loads: Callable[[str, str], Any]) -> Callable[[bytes, str], Any]:
    return lambda content, file: loads(decode_text(content, file), file)


_BIF = _Format(_text_loader(bif.loads), bif.dumps, "a model in BIF", bif.BEGINNING.match)
_XML = _Format(xmlbif.loads, xmlbif.dumps, "a model in XMLBIF", xmlbif.BEGINNING.match)
_DOT = _Format(_text_loader(dot.loads), dot.dumps, "a graph in DOT", dot.BEGINNING.match)
_JSON = _Format(_text_loader(json.loads), json.dumps, "a model in JSON", json_recogniser(MODEL_FORMAT))
_JSON_OF: dict[type, _Format] = {
    CausalGraph: _JSON._replace(kind="a graph in JSON", recognises=json_recogniser(GRAPH_FORMAT)),
    LatentModel: _JSON._replace(kind="a latent model in JSON", recognises=json_recogniser(LATENT_FORMAT)),
}
FORMATS = {
    ".bif": _BIF, ".xml": _XML, ".xmlbif": _XML, ".bifxml": _XML, ".dot": _DOT, ".gv": _DOT, ".json": _JSON,
}  # fmt: skip
"""A format for each extension; ".gz" may follow any of them."""


def read(path: str | os.PathLike[str]) -> Any:
    """Read a model or a graph from a file.

    >>> import os, tempfile
    >>> from causalbandits import zoo
    >>> path = os.path.join(tempfile.mkdtemp(), "campaign.bif")
    >>> write(zoo.email_campaign().problem.model, path)
    >>> read(path) == zoo.email_campaign().problem.model
    True

    Args:
        path: The path; its suffix selects the format: .bif, .xml, .xmlbif, .bifxml, .json, .dot or .gv (also dagitty's
            language), each also with .gz.

    Returns:
        A `CausalModel`. DOT files have no CPTs and give a `CausalGraph`; JSON files give a `CausalModel`, a
        `LatentModel` or a `CausalGraph`, as written.

    Raises:
        FormatError: If the file cannot be read, has an unknown suffix, or does not follow its format.
    """
    file = parse_path(path, "model.bif")
    format = _find_format(file)
    content = _read_content(file)
    try:
        return format.loads(content, file.name)
    except FormatError:
        raise
    except CausalBanditsError as error:
        raise type(error)(f"{file.name}: {error}") from None


def read_json(text: str, file: str = "JSON") -> CausalModel | LatentModel | CausalGraph:
    """The model or graph in a JSON text; `file` names it in errors."""
    return json.loads(text, file)


def read_dot(text: str) -> CausalGraph:
    """The graph in a text in DOT or in dagitty's language."""
    return dot.loads(text)


def write(model: CausalModel | LatentModel | CausalGraph | graphs.Graph, path: str | os.PathLike[str]) -> None:
    """Write a model or a graph to a file; the write is atomic.

    Only JSON keeps the types of values; other formats turn them into text. DOT keeps the graph alone. A file that does
    not hold a model or a graph of the same format is not overwritten.

    >>> import os, tempfile
    >>> from causalbandits import CausalGraph
    >>> path = os.path.join(tempfile.mkdtemp(), "graph.dot")
    >>> write(CausalGraph.from_text("ad -> sale; ad <-> sale"), path)
    >>> read(path)
    CausalGraph('ad -> sale; ad <-> sale')

    Args:
        model: The model or graph. A `CausalGraph` or a `LatentModel` needs JSON or DOT; a `networkx.DiGraph` needs DOT.
        path: The path; its suffix selects the format, as for `read`.

    Raises:
        StateError: If the file cannot be written or holds something else.
        FormatError: If the suffix is unknown.
        ModelError: If the format cannot hold the model.
    """
    file = parse_path(path, "model.bif")
    format = _find_format(file)
    if isinstance(model, CausalModel):
        _check_limits(model)
    elif type(model) in _JSON_OF and format in (_JSON, _DOT):
        format = _JSON_OF[type(model)] if format is _JSON else _DOT
    elif format is not _DOT or not isinstance(model, nx.DiGraph):
        raise ModelError(
            "write() takes a CausalModel (for JSON and DOT also a CausalGraph or a LatentModel, for DOT also a "
            f"networkx.DiGraph); got {short_repr(model)} for {file.name}."
        )
    content_source = model.graph if format is _DOT and not isinstance(model, nx.DiGraph) else model
    try:
        content = format.dumps(content_source).encode()
    except UnicodeEncodeError as error:
        position_text = f"{error.object[error.start : error.end]!r} after {error.object[: error.start][-20:]!r}"
        raise ModelError(f"{file.name}: UTF-8 cannot hold {position_text}; JSON can.") from None
    if len(content) > FILE_LIMIT:
        raise SizeError(f"{file.name}: the limit of a file is {FILE_LIMIT:,} bytes; this model needs {len(content):,}.")
    if file.suffix.lower() == ".gz":
        content = gzip.compress(content, mtime=0)  # the same model gives the same bytes at any time
    refuse_other_kind(file, format.kind, format.recognises, compressed=file.suffix.lower() == ".gz")
    write_atomically(file, content)


def _find_format(file: Path) -> _Format:
    extension = Path(file.stem if file.suffix.lower() == ".gz" else file.name).suffix.lower()
    if extension not in FORMATS:
        raise FormatError(unknown_name_message("extension", extension, FORMATS), file=file.name)
    return FORMATS[extension]


def _read_content(file: Path) -> bytes:
    """The bytes of a file, decompressed, up to the limit."""
    if os.path.exists(file) and not os.path.isfile(file):
        raise FormatError("expected a regular file, found a folder or a device.", file=file.name)
    opener: Any = gzip.open if file.suffix.lower() == ".gz" else open
    try:
        with opener(file, "rb") as source:
            content = b"".join(itertools.islice(iter(partial(source.read, _PIECE), b""), FILE_LIMIT // _PIECE + 1))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"expected a gzip file, found a corrupted one: {error}.", file=file.name) from None
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}.", file=str(file)) from None
    if len(content) > FILE_LIMIT:
        raise FormatError(f"expected at most {FILE_LIMIT:,} bytes after decompression, found more.", file=file.name)
    return content


def _check_limits(model: CausalModel) -> None:
    """Raise if the model exceeds the limits of `read`."""
    entries = sum(v.table.size for v in model.variables.values())
    axes = max(v.table.ndim for v in model.variables.values())
    if entries > NUMBER_LIMIT or axes > AXES_LIMIT:
        raise SizeError(
            f"A file is limited to {NUMBER_LIMIT:,} numbers in all, in tables of at most {AXES_LIMIT - 1} parents; "
            f"this model has {entries:,} and {axes - 1}."
        )
    texts = [*model.names, *(text for texts in model.properties.values() for text in texts)]
    texts += [str(state) for v in model.variables.values() for state in v.states]
    for text in texts:
        if len(text) > LABEL_LIMIT:
            raise ModelError(
                f"Names, states and properties in a file are limited to {LABEL_LIMIT:,} characters: {clip(text)}."
            )
