"""Our JSON: everything a model holds, the types of its states, every bit of its numbers and the counts of a fit."""

from __future__ import annotations

import json
import re

from causalbandits._files import our_json
from causalbandits.errors import CausalBanditsError, FormatError
from causalbandits.formats._text import clip
from causalbandits.model.causal_graph import GRAPH_FORMAT, CausalGraph
from causalbandits.model.model import CausalModel
from causalbandits.model.state import LABEL_LIMIT

_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"?', re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)


def loads(text: str, file: str = "JSON") -> CausalModel | CausalGraph:
    """The model or graph that a text in JSON describes; `file` names it in errors."""
    for found in _STRING.finditer(text):
        # Two for every \u: a letter beyond the first 65536 is written as a pair.
        if len(found[1]) > LABEL_LIMIT and len(_ESCAPED.sub("x", found[1])) > 2 * LABEL_LIMIT:
            message = f"expected at most {LABEL_LIMIT:,} characters, found {clip(found[1])}."
            line, column = text.count("\n", 0, found.start()) + 1, found.start() - text.rfind("\n", 0, found.start())
            raise FormatError(message, file=file, line=line, column=column)
    try:
        is_graph = our_json(GRAPH_FORMAT)(text.encode(errors="replace"))
        return CausalGraph.from_json(text) if is_graph else CausalModel.from_json(text)
    except RecursionError:
        raise FormatError("expected lists as deep as a table, found deeper ones.", file=file) from None
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
        return  # what the model said is all there is to say


def dumps(model: CausalModel) -> str:
    """The model as `CausalModel.to_json` writes it, with a line at the end."""
    return model.to_json() + "\n"


def dumps_graph(graph: CausalGraph) -> str:
    """The graph as `CausalGraph.to_json` writes it, with a line at the end."""
    return graph.to_json() + "\n"
