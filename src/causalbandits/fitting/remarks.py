"""What looks odd in data that can be fitted: said, so that a slip does not become a state."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

from causalbandits.errors import DataWarning, brief
from causalbandits.fitting.coding import NUMERAL, Codebook

SUSPECTS = frozenset(
    {"", "-", "--", "?", ".", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "none", "nil", "missing"}
)
"""Texts, in small letters, that often stand for a missing value."""


def warn_of_odd_values(books: Iterable[Codebook]) -> None:
    """A DataWarning for everything odd among values that nobody named as states; called by what users call."""
    for book in books:
        texts = [value for value in book.values if isinstance(value, str)]
        if not book.given:
            for remark in (*_alike(texts), *_markers(texts), *_broken_lines(texts)):
                warnings.warn(f"{book.name!r} {remark}", DataWarning, stacklevel=3)


def _alike(texts: Sequence[str]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(" ".join(text.casefold().split()), []).append(text)
    for same in groups.values():
        if len(same) > 1:
            yield (
                f"has states that differ in case or blanks only: {_listed(same)}. If they mean the same, make them the "
                "same in the data; if not, name all the states (states=...)."
            )


def _markers(texts: Sequence[str]) -> Iterator[str]:
    suspects = [text for text in texts if text.strip().casefold() in SUSPECTS]
    words = [text for text in texts if not NUMERAL.fullmatch(text)]
    if suspects:
        yield f"has the state{'s' * (len(suspects) > 1)} {_listed(suspects)}: {_WAYS_OUT.format(suspects)}"
    elif len(words) == 1 and len(texts) > 2:
        yield f"has numbers and {brief(words[0])}, so that all of it is text: {_WAYS_OUT.format(words)}"


_WAYS_OUT = "if that stands for a missing value, say so (na_values={}); if not, name all the states (states=...)."


def _broken_lines(texts: Sequence[str]) -> Iterator[str]:
    broken = [text for text in texts if "\n" in text]
    if broken:
        yield f"has states of several lines, such as {brief(broken[0], most=60)}: is a quote in the file not closed?"


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(map(brief, sorted(texts)[:5])) + (", ..." if len(texts) > 5 else "")
