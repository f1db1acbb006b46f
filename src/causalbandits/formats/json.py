"""The JSON format of this library: the complete model, with types of states, all bits of numbers and fit counts."""

from __future__ import annotations

import json
import re

from causalbandits._files import json_recogniser
from causalbandits.errors import CausalBanditsError, FormatError
from causalbandits.formats._scanner import clip
from causalbandits.model import LABEL_LIMIT, LATENT_FORMAT, CausalGraph, CausalModel, LatentModel
from causalbandits.model.graph import GRAPH_FORMAT

_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"?', re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)


Readable = CausalModel | CausalGraph | LatentModel

_OTHER_KINDS: dict[str, type[CausalGraph] | type[LatentModel]] = {
    GRAPH_FORMAT: CausalGraph, LATENT_FORMAT: LatentModel,
}  # fmt: skip


def loads(text: str, file: str = "JSON") -> Readable:
    """The model or graph in a JSON text; `file` names it in errors."""
    for string in _STRING.finditer(text):
        # Two for every \u: a character above U+FFFF is written as a surrogate pair.
        if len(string[1]) > LABEL_LIMIT and len(_ESCAPED.sub("x", string[1])) > 2 * LABEL_LIMIT:
            message = f"expected at most {LABEL_LIMIT:,} characters, found {clip(string[1])}."
            line, column = text.count("\n", 0, string.start()) + 1, string.start() - text.rfind("\n", 0, string.start())
            raise FormatError(message, file=file, line=line, column=column)
    try:
        head = text.encode(errors="replace")
        kind = next((kind for format, kind in _OTHER_KINDS.items() if json_recogniser(format)(head)), CausalModel)
        return kind.from_json(text)
    except RecursionError:
        raise FormatError("expected lists nested as deeply as a table, found deeper nesting.", file=file) from None
    except ValueError as error:
        _refuse_broken(text, file)
        if isinstance(error, CausalBanditsError):
            raise
        raise FormatError(f"expected numbers of a table, found {error}.", file=file) from None


def _refuse_broken(text: str, file: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        message = f"expected JSON, found {error.msg!r}."
        raise FormatError(message, file=file, line=error.lineno, column=error.colno) from None
    except (ValueError, RecursionError):
        return  # the model's own message is sufficient


def dumps(model: Readable) -> str:
    """The output of the model's `to_json`, followed by a newline."""
    return model.to_json() + "\n"
