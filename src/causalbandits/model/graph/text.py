"""Graphs as a line of text: `a -> b -> c; a <-> c; u [hidden]`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from causalbandits.errors import ModelError, brief

_LEXEME = re.compile(r'[^\S\n]*+(?:("(?:[^"\\\n]|\\.)*+")|([\w.]++)|(<->|->|<-|[{}\[\],;\n])|\Z)')
_BARE = re.compile(r"[\w.]+")

TEXT_LIMIT = 10**6
"""Characters; larger graphs belong into files."""


class GraphText(NamedTuple):
    """What a text says of a graph."""

    parents: dict[str, list[str]]
    hidden: list[str | tuple[str, ...]]


def read_text(text: str) -> GraphText:
    """The graph that a text says."""
    if not isinstance(text, str):
        raise ModelError(f"A graph's text is such as 'x -> y; x <-> y'; got {brief(text)}.")
    if len(text) > TEXT_LIMIT:
        raise ModelError(f"A graph's text has {TEXT_LIMIT:,} characters at most; this one has {len(text):,}.")
    reader = _Reader(text)
    while not reader.ended:
        reader.statement()
    return GraphText(reader.parents, reader.hidden)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.parents: dict[str, list[str]] = {}
        self.hidden: list[str | tuple[str, ...]] = []

    def peek(self) -> tuple[str, str, int]:
        """The kind of the next token ("name", "mark" or "end"), what it says, and where it ends."""
        found = _LEXEME.match(self.text, self.at)
        if found is None:
            self.fail("a name or an arrow", self.text[self.at :].lstrip()[:10])
        quoted, bare, mark = found.groups()
        if quoted is not None:
            return "name", self.unquoted(quoted), found.end()
        if bare is not None:
            return "name", bare, found.end()
        return ("mark", mark, found.end()) if mark else ("end", "", found.end())

    def unquoted(self, quoted: str) -> str:
        try:
            return str(json.loads(quoted))
        except ValueError:
            self.fail("a name in quotes as JSON has it", quoted[:40])

    @property
    def ended(self) -> bool:
        return self.peek()[0] == "end"

    def accept(self, *marks: str) -> str:
        """The next token if it is one of these marks, which is then behind; else nothing."""
        kind, said, end = self.peek()
        if kind != "mark" or said not in marks:
            return ""
        self.at = end
        return said

    def statement(self) -> None:
        if self.accept(";", "\n"):
            return
        before = self.operand()
        joined = False
        while arrow := self.accept("->", "<-", "<->"):
            after = self.operand()
            self.join(before, arrow, after)
            before, joined = after, True
        if self.accept("["):
            self.mark(before, joined)
        if not self.ended and not self.accept(";", "\n"):
            self.fail("an arrow, ';' or the end")

    def operand(self) -> list[str]:
        if not self.accept("{"):
            return [self.name()]
        names = [self.name()]
        while not self.accept("}"):
            self.accept(",")
            names.append(self.name())
        return names

    def name(self) -> str:
        kind, said, end = self.peek()
        if kind != "name":
            self.fail("a name")
        self.at = end
        self.parents.setdefault(said, [])
        return said

    def join(self, before: list[str], arrow: str, after: list[str]) -> None:
        for a, b in itertools.product(before, after):
            if arrow == "<->":
                self.hidden.append((a, b))
                continue
            cause, effect = (a, b) if arrow == "->" else (b, a)
            if cause not in self.parents[effect]:
                self.parents[effect].append(cause)

    def mark(self, names: list[str], joined: bool) -> None:
        kind, said, end = self.peek()
        if joined or (kind, said) != ("name", "hidden"):
            self.fail("'hidden' in brackets, after a name or a group")
        self.at = end
        if not self.accept("]"):
            self.fail("']'")
        self.hidden.append(names[0] if len(names) == 1 else tuple(names))

    def fail(self, expected: str, found: str = "") -> NoReturn:
        if not found:
            kind, said, _ = self.peek()
            found = "the end" if kind == "end" else said
        behind = self.text[: self.at].strip()
        after = f" after {behind[-40:]!r}" if behind else ""
        raise ModelError(f"The graph's text: expected {expected}, found {found!r}{after}.")


def write_text(parents: Mapping[str, Sequence[str]], hidden: Sequence[str], groups: Sequence[Sequence[str]]) -> str:
    """The text of a graph, which is read back to an equal one."""
    causes = {cause for before in parents.values() for cause in before}
    arrows = [
        (*before, name) if before else (name,) for name, before in parents.items() if before or name not in causes
    ]
    statements = [_arrow(names) for names in arrows]
    if list(dict.fromkeys(itertools.chain(*arrows))) != list(parents):
        statements = [*map(_shown, parents), *(_arrow(names) for names in arrows if len(names) > 1)]
    statements += [f"{_shown(name)} [hidden]" for name in hidden]
    statements += [
        " <-> ".join(map(_shown, group)) if len(group) == 2 else f"{_grouped(group)} [hidden]" for group in groups
    ]
    return "; ".join(statements)


def _arrow(names: Sequence[str]) -> str:
    *before, name = names
    return f"{_grouped(before)} -> {_shown(name)}" if before else _shown(name)


def _grouped(names: Sequence[str]) -> str:
    return _shown(names[0]) if len(names) == 1 else f"{{{', '.join(map(_shown, names))}}}"


def _shown(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)
