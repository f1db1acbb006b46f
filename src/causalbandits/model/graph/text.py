"""Graphs as a line of text: `a, b -> c -> d; a <-> c; u [hidden]`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from causalbandits.errors import ModelError, short_repr

_LEXEME = re.compile(r'[^\S\n]*+(?:("(?:[^"\\\n]|\\.)*+")|([\w.]++)|(<->|->|<-|[{}\[\],;\n])|\Z)')
_BARE = re.compile(r"[\w.]+")

TEXT_LIMIT = 10**6
"""The maximum number of characters; use a file for larger graphs."""


class GraphText(NamedTuple):
    """The content of a graph's text."""

    parents: dict[str, list[str]]
    hidden: list[str | tuple[str, ...]]


def parse_graph_text(text: str) -> GraphText:
    """The graph that a text describes."""
    if not isinstance(text, str):
        raise ModelError(f"A graph's text has the form 'x -> y; x <-> y'; got {short_repr(text)}.")
    if len(text) > TEXT_LIMIT:
        raise ModelError(f"A graph's text has at most {TEXT_LIMIT:,} characters; this one has {len(text):,}.")
    parser = _GraphTextParser(text)
    while not parser.at_end:
        parser.parse_statement()
    return GraphText(parser.parents, parser.hidden)


class _GraphTextParser:
    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self.parents: dict[str, list[str]] = {}
        self.hidden: list[str | tuple[str, ...]] = []

    def peek(self) -> tuple[str, str, int]:
        """The kind of the next token ("name", "mark" or "end"), its text, and the position where it ends."""
        match = _LEXEME.match(self.text, self.position)
        if match is None:
            self.raise_error("a name or an arrow", self.text[self.position :].lstrip()[:10])
        quoted, bare, mark = match.groups()
        if quoted is not None:
            return "name", self.unquote(quoted), match.end()
        if bare is not None:
            return "name", bare, match.end()
        return ("mark", mark, match.end()) if mark else ("end", "", match.end())

    def unquote(self, quoted: str) -> str:
        try:
            return str(json.loads(quoted))
        except ValueError:
            self.raise_error("a quoted name in JSON syntax", quoted[:40])

    @property
    def at_end(self) -> bool:
        return self.peek()[0] == "end"

    def accept(self, *marks: str) -> str:
        """The next token, consumed, if it is one of these marks; otherwise an empty text."""
        kind, token, end = self.peek()
        if kind != "mark" or token not in marks:
            return ""
        self.position = end
        return token

    def parse_statement(self) -> None:
        if self.accept(";", "\n"):
            return
        sources = self.parse_operand()
        has_arrow = False
        while arrow := self.accept("->", "<-", "<->"):
            targets = self.parse_operand()
            self.add_edges(sources, arrow, targets)
            sources, has_arrow = targets, True
        if self.accept("["):
            self.mark_hidden(sources, has_arrow)
        if not self.at_end and not self.accept(";", "\n"):
            self.raise_error("an arrow, ';' or the end")

    def parse_operand(self) -> list[str]:
        if not self.accept("{"):
            names = [self.parse_name()]
            while self.accept(","):
                names.append(self.parse_name())
            return names
        names = [self.parse_name()]
        while not self.accept("}"):
            self.accept(",")
            names.append(self.parse_name())
        return names

    def parse_name(self) -> str:
        kind, token, end = self.peek()
        if kind != "name":
            self.raise_error("a name")
        self.position = end
        self.parents.setdefault(token, [])
        return token

    def add_edges(self, sources: list[str], arrow: str, targets: list[str]) -> None:
        for a, b in itertools.product(sources, targets):
            if arrow == "<->":
                self.hidden.append((a, b))
                continue
            cause, effect = (a, b) if arrow == "->" else (b, a)
            if cause not in self.parents[effect]:
                self.parents[effect].append(cause)

    def mark_hidden(self, names: list[str], has_arrow: bool) -> None:
        kind, token, end = self.peek()
        if has_arrow or (kind, token) != ("name", "hidden"):
            self.raise_error("'hidden' in brackets, after a name or a group")
        self.position = end
        if not self.accept("]"):
            self.raise_error("']'")
        self.hidden.append(names[0] if len(names) == 1 else tuple(names))

    def raise_error(self, expected: str, actual: str = "") -> NoReturn:
        if not actual:
            kind, token, _ = self.peek()
            actual = "the end" if kind == "end" else token
        consumed = self.text[: self.position].strip()
        context = f" after {consumed[-40:]!r}" if consumed else ""
        raise ModelError(f"The graph's text: expected {expected}, found {actual!r}{context}.")


def format_graph_text(
    parents: Mapping[str, Sequence[str]], hidden: Sequence[str], groups: Sequence[Sequence[str]]
) -> str:
    """The text of a graph; reading it gives an equal graph."""
    causes = {cause for direct_causes in parents.values() for cause in direct_causes}
    arrows = [
        (*direct_causes, name) if direct_causes else (name,)
        for name, direct_causes in parents.items()
        if direct_causes or name not in causes
    ]
    statements = [_format_arrow(names) for names in arrows]
    if list(dict.fromkeys(itertools.chain(*arrows))) != list(parents):
        statements = [*map(_format_name, parents), *(_format_arrow(names) for names in arrows if len(names) > 1)]
    statements += [f"{_format_name(name)} [hidden]" for name in hidden]
    statements += [
        " <-> ".join(map(_format_name, group)) if len(group) == 2 else f"{_format_group(group)} [hidden]"
        for group in groups
    ]
    return "; ".join(statements)


def _format_arrow(names: Sequence[str]) -> str:
    *direct_causes, name = names
    return f"{_format_group(direct_causes)} -> {_format_name(name)}" if direct_causes else _format_name(name)


def _format_group(names: Sequence[str]) -> str:
    return _format_name(names[0]) if len(names) == 1 else f"{{{', '.join(map(_format_name, names))}}}"


def _format_name(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)
