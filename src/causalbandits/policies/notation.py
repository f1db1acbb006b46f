"""The text form of a policy, `family(option=value, ...)`: one formatter and one parser.

    c-ts                                  a family with its defaults
    c-ts(prior=beta, cpts=learned)        with options

A value is a number, `true`, `false`, `none`, a word, a text in double quotes (as in JSON), or a list of values in
brackets. `...` stands for a value without a text form (a function, an object, an array of many numbers); the formatter
writes it, and the parser rejects it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from causalbandits.errors import PolicyError, short_repr

EXAMPLE = "c-ts(prior=beta, cpts=learned)"

LENGTH_LIMIT = 2000
"""The largest length of a policy's text in characters."""

LIST_LIMIT, DEPTH_LIMIT = 16, 8
"""Lists with more numbers than this, or deeper nesting, are written as `...`; the parser rejects deeper nesting."""

CONSTANTS: dict[str, Any] = {"true": True, "false": False, "none": None}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf|nan")
INTEGER = re.compile(r"[+-]?\d+")
WORD = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
OPTION = re.compile(r"[A-Za-z_]\w*", re.ASCII)
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
BARE = re.compile(r"[^\s,()\[\]=\"]+")


class Unwritten(NamedTuple):
    """The value that stands for `...` after parsing."""

    text: str = "..."


class PolicyText(NamedTuple):
    """A family and its options as written."""

    family: str
    options: dict[str, Any]


def format_policy_text(family: str, options: Mapping[str, Any]) -> str:
    """The family with these options, in their order.

    >>> format_policy_text("c-ts", {"prior": "beta", "successes": (2.0, 0.5), "samples": 8})
    'c-ts(prior=beta, successes=[2, 0.5], samples=8)'
    >>> format_policy_text("ucb", {})
    'ucb'
    """
    if not options:
        return family
    return f"{family}({', '.join(f'{name}={format_value(value)}' for name, value in options.items())})"


def format_value(value: object) -> str:
    """A value of an option; equal values have the same text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, str):
        is_word = WORD.fullmatch(value) and value not in CONSTANTS and not NUMBER.fullmatch(value)
        return value if is_word else json.dumps(value)
    if isinstance(value, tuple | list) and _depth(value) <= DEPTH_LIMIT and _count_leaves(value) <= LIST_LIMIT:
        return f"[{', '.join(map(format_value, value))}]"
    return "..."


def _count_leaves(value: object) -> int:
    return sum(map(_count_leaves, value)) if isinstance(value, tuple | list) else 1


def _depth(value: object) -> int:
    return 1 + max(map(_depth, value), default=0) if isinstance(value, tuple | list) else 0


def parse_policy_text(text: str) -> PolicyText:
    """The family and the options in a text; the registry checks whether they exist.

    >>> parse_policy_text("c-ts(prior=beta, samples=8)")
    PolicyText(family='c-ts', options={'prior': 'beta', 'samples': 8})
    """
    if len(text) > LENGTH_LIMIT:
        raise PolicyError(f"A policy is written with at most {LENGTH_LIMIT} characters; got {len(text)}.")
    return _Reader(text).policy()


class _Reader:
    """A recursive-descent parser of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def policy(self) -> PolicyText:
        family, parenthesis, _ = self.text.partition("(")
        self.position = len(family) + len(parenthesis)
        if not parenthesis:
            return PolicyText(family.strip(), {})
        options: dict[str, Any] = {}
        while not self.skip(")"):
            if options and not self.skip(","):
                self.refuse("',' or ')'")
            name = self.match(OPTION) or self.refuse("the name of an option")
            if name in options:
                raise PolicyError(f"The option {name!r} is given twice in {short_repr(self.text)}.")
            self.expect("=")
            options[name] = self.value()
        if self.rest():
            self.refuse("the end of the text")
        return PolicyText(family.strip(), options)

    def value(self, depth: int = 0) -> Any:
        if depth < DEPTH_LIMIT and self.skip("["):
            parts: list[Any] = []
            while not self.skip("]"):
                if parts and not self.skip(","):
                    self.refuse("',' or ']'")
                parts.append(self.value(depth + 1))
            return tuple(parts)
        quoted = self.match(QUOTED)
        if quoted:
            try:
                return json.loads(quoted)
            except ValueError:
                raise PolicyError(
                    f"Cannot read {quoted} in the policy {short_repr(self.text)}. Quoted texts follow JSON syntax."
                ) from None
        word = self.match(BARE) or self.refuse("a value")
        if word == "...":
            return Unwritten()
        if word in CONSTANTS:
            return CONSTANTS[word]
        if NUMBER.fullmatch(word):
            return int(word) if INTEGER.fullmatch(word) else float(word)
        return word

    def rest(self) -> str:
        return self.text[self.position :].strip()

    def match(self, pattern: re.Pattern[str]) -> str:
        """The text that the pattern matches here after blanks; empty if there is no match."""
        start = len(self.text) - len(self.text[self.position :].lstrip())
        found = pattern.match(self.text, start)
        if found is None:
            return ""
        self.position = found.end()
        return found.group()

    def skip(self, sign: str) -> bool:
        return bool(self.match(re.compile(re.escape(sign))))

    def expect(self, sign: str) -> None:
        if not self.skip(sign):
            self.refuse(repr(sign))

    def refuse(self, expected: str) -> NoReturn:
        place = f"before {short_repr(self.rest())}" if self.rest() else "at the end"
        raise PolicyError(
            f"Cannot read the policy {short_repr(self.text)}: expected {expected} {place}. A policy is written "
            f"{EXAMPLE!r}: a family, and options in parentheses."
        )
