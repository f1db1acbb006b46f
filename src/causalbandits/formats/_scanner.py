"""A tokenizer with error places."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from causalbandits.errors import FormatError
from causalbandits.model import LABEL_LIMIT

# Possessive quantifiers (++, *+) never backtrack, so that reading takes linear time.
NUMBER = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+")
NUMBERS = re.compile(rf"[\s,]*+(?:{NUMBER.pattern}(?:[\s,]++|\Z))*+")
_PLAIN = re.compile(rf"([\w\s,.<>=+-]{{0,{LABEL_LIMIT}}}+)\)")  # no quotes, no comments


class Token(NamedTuple):
    """A token: its kind ("word", "quoted", "mark" or "end"), and its start."""

    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end of the file" if self.kind == "end" else clip(self.text)


def clip(text: str, most: int = 40) -> str:
    """Text for an error message, of limited length."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}... ({len(text):,} characters)"


def decode_text(content: bytes, file: str) -> str:
    """The text of a UTF-8 file."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        content = error.object  # without the byte order mark that some editors add
        line = content.count(b"\n", 0, error.start) + 1
        start = content.rfind(b"\n", 0, error.start) + 1
        column = len(content[start : error.start].decode("utf-8")) + 1
        message = f"expected text in UTF-8, found the byte 0x{content[error.start]:02x}. Save the file as UTF-8."
        raise FormatError(message, file=file, line=line, column=column) from None


class Scanner:
    """Reads token by token; `skip` matches the separators, `token` has a group for each kind."""

    def __init__(
        self, text: str, file: str, *, skip: re.Pattern[str], token: re.Pattern[str], unquote: Callable[[str], str]
    ) -> None:
        self.text, self.file = text, file
        self._skip, self._token, self._unquote = skip, token, unquote
        self._next: Token | None = None
        self.at = 0

    @property
    def next(self) -> Token:
        """The next token, without consuming it."""
        if self._next is None:
            start = self._match_at(self._skip, self.at).end()
            if start == len(self.text):
                self._next = Token("end", "", start)
            elif (token_match := self._token.match(self.text, start)) is None:
                closing = {'"': "a closing quote", "/": "a closing */"}
                self.fail(start, closing.get(self.text[start], "a name or a sign"))
            else:
                self._next = self._build_token(token_match)
        return self._next

    def _match_at(self, pattern: re.Pattern[str], at: int) -> re.Match[str]:
        result = pattern.match(self.text, at)
        assert result is not None  # for patterns that also match the empty string
        return result

    def _build_token(self, matched: re.Match[str]) -> Token:
        kind, text = str(matched.lastgroup), matched.group()
        if kind == "quoted":
            text = self._unquote(text)
        if len(text) > LABEL_LIMIT:
            self.fail(matched.start(), f"at most {LABEL_LIMIT:,} characters", clip(text))
        self._end = matched.end()
        return Token(kind, text, matched.start())

    def take(self) -> Token:
        """Consume the next token and return it."""
        token = self.next
        self.at, self._next = (self._end if token.kind != "end" else token.at), None
        return token

    def sees(self, *texts: str) -> bool:
        """Whether the next token is one of these marks or words."""
        return self.next.kind in ("mark", "word") and self.next.text in texts

    def accept(self, text: str) -> bool:
        """Consume the next token if it is this mark or word."""
        return self.sees(text) and self.take() is not None

    def expect(self, *texts: str) -> Token:
        """Consume the next token, which must be one of these marks or words."""
        if not self.sees(*texts):
            self.fail(self.next.at, format_options(texts))
        return self.take()

    def label(self, expected: str) -> Token:
        """Consume the next token, which must be a name, quoted or not."""
        if self.next.kind not in ("word", "quoted"):
            self.fail(self.next.at, expected)
        return self.take()

    def numbers(self) -> array[float]:
        """The numbers up to the next semicolon, which is consumed as well."""
        start = self.next.at
        stop = self.text.find(";", start)
        if stop >= 0 and NUMBERS.fullmatch(self.text, start, stop):
            self.at, self._next = stop + 1, None
            return array("d", map(float, self.text[start:stop].replace(",", " ").split()))
        values: array[float] = array("d")
        while not self.accept(";"):  # a comment among the numbers, or an error
            if self.next.kind != "word" or not NUMBER.fullmatch(self.next.text):
                self.fail(self.next.at, "a number or ';'")
            values.append(float(self.take().text))
        return values

    def labels(self, expected: str) -> list[str]:
        """The names up to the next closing parenthesis, which is consumed as well."""
        plain = self.raw(_PLAIN)
        if plain is not None:
            return plain.replace(",", " ").split()
        names = []
        while not self.accept(")"):
            names.append(self.label(f"{expected} or ')'").text)
        return names

    def raw(self, pattern: re.Pattern[str]) -> str | None:
        """The first group of a pattern at this position, independent of token boundaries; None if it does not match."""
        result = pattern.match(self.text, self.at)
        if result is None:
            return None
        self.at, self._next = result.end(), None
        return str(result.group(1))

    def fail(self, at: int, expected: str, found: str = "") -> NoReturn:
        """An error about the token at this place."""
        if not found:
            found = str(self._next) if self._next and self._next.at == at else clip(self.text[at : at + 10])
        self.refuse(at, f"expected {expected}, found {found}.")

    def refuse(self, at: int, message: str) -> NoReturn:
        """Raise an error with this place."""
        line, column = self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        raise FormatError(message, file=self.file, line=line, column=column)


def format_options(texts: tuple[str, ...]) -> str:
    """Join options as 'a', 'b' or 'c'."""
    quoted = [repr(text) for text in texts]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


# Size limits of files, checked before anything of that size is allocated.

FILE_LIMIT = 2**27
"""The maximum size of a file after decompression: 128 MiB. The largest of the published networks has 5.5 MB."""

NUMBER_LIMIT = 2**26
"""The maximum number of entries of all CPTs in a file: half a GiB in memory."""

AXES_LIMIT = 32
"""The maximum number of axes of a CPT, including the variable's own: the limit of every supported NumPy."""

EDGE_LIMIT = 10**6
"""The maximum number of edges of a graph: in DOT, `{a b ...} -> {c d ...}` is a short text for many edges."""

DEPTH_LIMIT = 100
"""The maximum depth of nested brackets."""

ROUNDING_TOLERANCE = 5e-3
"""The largest deviation of a row sum from 1 that is renormalised.

It accepts rows rounded to three digits and refuses an error of a percent. The published networks need 3e-7.
"""
