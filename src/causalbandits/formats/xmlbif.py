"""XMLBIF 0.3, the Interchange Format in XML.

In a TABLE, the states of the variable itself change fastest, followed by those of its last parent (the last GIVEN).
White space around names and states is ignored, unless the element has xml:space="preserve". Declared
entities are refused, because they can expand without limit or refer to other files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from causalbandits.errors import CausalBanditsError, FormatError, ModelError
from causalbandits.formats._draft import Draft, PlacedTable, network_name, state_labels
from causalbandits.formats._scanner import NUMBER, NUMBERS, clip, format_options
from causalbandits.model import LABEL_LIMIT, CausalModel

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

_LineAndColumn = tuple[int, int]

_INSIDE = {
    "": ("BIF",),
    "BIF": ("NETWORK",),
    "NETWORK": ("NAME", "PROPERTY", "VARIABLE", "DEFINITION"),
    "VARIABLE": ("NAME", "OUTCOME", "PROPERTY"),
    "DEFINITION": ("FOR", "GIVEN", "TABLE", "PROPERTY"),
}
"""The elements that an element may contain; all others contain text."""

_ENTRY = re.compile(r"[^\s,]+")
BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?+(?s:\s++|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*+(?:\[.*?\]\s*+)?+>)*+<BIF\b")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def loads(content: bytes, file: str = "XMLBIF") -> CausalModel:
    """The model in an XMLBIF file; `file` names it in errors."""
    from xml.parsers import expat

    parser = expat.ParserCreate()
    reader = _XmlReader(parser, file)
    try:
        parser.Parse(content, True)
    except CausalBanditsError:
        raise
    except expat.ExpatError as error:
        reader.refuse((error.lineno, error.offset + 1), f"expected XML, found {expat.ErrorString(error.code)!r}.")
    except (LookupError, ValueError) as error:  # an encoding unknown to Python
        raise FormatError(f"expected an encoding such as UTF-8, found {error}.", file=file, line=1, column=1) from None
    return reader.draft.model()


class _XmlReader:
    """The parser's callbacks, element by element."""

    def __init__(self, parser: XMLParserType, file: str) -> None:
        self.parser, self.file = parser, file
        self.draft = Draft(self.refuse)
        self.path = [""]
        self.texts: dict[str, list[tuple[str, _LineAndColumn]]] = {}  # texts inside the open VARIABLE or DEFINITION
        self.text: list[str] = []
        self.lines: list[_LineAndColumn] = []  # where each text of a TABLE starts
        self.length, self.networks = 0, 0
        self.start, self.outer = (1, 1), (1, 1)
        self.preserve = False
        parser.StartElementHandler = self.open
        parser.EndElementHandler = self.close
        parser.CharacterDataHandler = self.characters
        parser.EntityDeclHandler = self.entity
        parser.SkippedEntityHandler = self.entity

    @property
    def place(self) -> _LineAndColumn:
        return self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1

    def refuse(self, place: _LineAndColumn, message: str) -> NoReturn:
        raise FormatError(message, file=self.file, line=place[0], column=place[1])

    def entity(self, name: str, *_: object) -> None:
        self.refuse(self.place, f"expected no entities beyond XML's own, found {clip(name)}.")

    def open(self, tag: str, attributes: dict[str, str]) -> None:
        inside, name = self.path[-1], tag.upper()
        if name not in _INSIDE.get(inside, ()):
            expected = format_options(_INSIDE[inside]) if inside in _INSIDE else f"text inside {inside!r}"
            self.refuse(self.place, f"expected {expected}, found the element {clip(tag)}.")
        self.networks += name == "NETWORK"
        if self.networks > 1:
            self.refuse(self.place, "expected one NETWORK, found a second.")
        kind = attributes.get("TYPE", attributes.get("type", "nature"))
        if name == "VARIABLE" and kind != "nature":
            self.refuse(self.place, f"expected a VARIABLE of TYPE 'nature', found {clip(kind)}.")
        if name in ("VARIABLE", "DEFINITION"):
            self.texts, self.outer = {}, self.place
        self.preserve = attributes.get("xml:space") == "preserve"
        self.path.append(name)
        self.text, self.length, self.start = [], 0, self.place
        self.lines = []

    def characters(self, text: str) -> None:
        element = self.path[-1]
        if element in _INSIDE:
            if text.strip():
                self.refuse(
                    self.place, f"expected {format_options(_INSIDE[element])}, found the text {clip(text.strip())}."
                )
            return
        self.length += len(text)
        if self.length > LABEL_LIMIT and element != "TABLE":
            self.refuse(self.start, f"expected at most {LABEL_LIMIT:,} characters in {element}, found more.")
        self.text.append(text)
        if element == "TABLE":
            self.lines.append(self.place)

    def close(self, _: str) -> None:
        element = self.path.pop()
        if element == "VARIABLE":
            name, place = self.single_text("NAME")
            self.draft.declare(name, self.texts.get("OUTCOME", []), place)
            self.add_properties(name)
        elif element == "DEFINITION":
            name, place = self.single_text("FOR")
            table = self.single_text("TABLE")
            self.draft.define(name, self.texts.get("GIVEN", []), place, lambda axes: self.fill_table(name, table, axes))
            self.add_properties(name)
        elif element not in _INSIDE:
            text = "".join(self.text)
            if element == "TABLE" and not NUMBERS.fullmatch(text):
                self.refuse_number()
            text = text if self.preserve else text.strip()
            if self.path[-1] != "NETWORK":
                self.texts.setdefault(element, []).append((text, self.start))
            elif element == "NAME":
                self.draft.name_network(text)
            else:
                self.draft.add_property("", text)

    def single_text(self, element: str) -> tuple[str, _LineAndColumn]:
        texts = self.texts.get(element, [])
        if len(texts) != 1:
            self.refuse(self.outer, f"expected one {element}, found {len(texts)}.")
        return texts[0]

    def add_properties(self, name: str) -> None:
        for text, _ in self.texts.get("PROPERTY", []):
            self.draft.add_property(name, text)

    def refuse_number(self) -> NoReturn:
        for text, (line, column) in zip(self.text, self.lines, strict=True):
            for word in _ENTRY.finditer(text):
                if not NUMBER.fullmatch(word.group()):
                    self.refuse((line, column + word.start()), f"expected a number, found {clip(word.group())}.")
        self.refuse(self.start, "expected numbers in the TABLE, found something else.")

    def fill_table(self, name: str, table: tuple[str, _LineAndColumn], axes: Sequence[Sequence[str]]) -> PlacedTable:
        text, place = table
        words = text.replace(",", " ").split()
        shape = [len(states) for states in axes]
        if len(words) != prod(shape):
            expectation = f"{prod(shape):,} numbers in the TABLE of {clip(name)}, found {len(words):,}"
            self.refuse(place, f"expected {expectation}.")
        return PlacedTable(np.array([float(word) for word in words]).reshape(shape))


def dumps(model: CausalModel) -> str:
    """The model in XMLBIF, numbers with all their digits; states that are not text are converted to text."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<BIF VERSION="0.3">\n' + "".join(_format_elements(model)) + "</BIF>\n"
    )


def _format_elements(model: CausalModel) -> Iterator[str]:
    name, remarks = network_name(model)
    yield "<NETWORK>\n" + _format_element("NAME", name) + "".join(_format_element("PROPERTY", text) for text in remarks)
    for v in model.variables.values():
        yield '<VARIABLE TYPE="nature">\n' + _format_element("NAME", v.name)
        yield from (_format_element("OUTCOME", label) for label in state_labels(v))
        yield from (_format_element("PROPERTY", text) for text in model.properties.get(v.name, ()))
        yield "</VARIABLE>\n"
    for v in model.variables.values():
        yield (
            "<DEFINITION>\n"
            + _format_element("FOR", v.name)
            + "".join(_format_element("GIVEN", parent) for parent in v.parents)
        )
        yield "<TABLE>\n"
        yield from (" ".join(map(repr, row)) + "\n" for row in v.table.reshape(-1, len(v.states)).tolist())
        yield "</TABLE>\n</DEFINITION>\n"
    yield "</NETWORK>\n"


def _format_element(tag: str, text: str) -> str:
    odd = _NOT_IN_XML.search(text)
    if odd:
        raise ModelError(f"XML cannot hold the character {odd.group()!r} of {clip(text)}; JSON can.")
    space = ' xml:space="preserve"' if text != text.strip() else ""
    for letter, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;")):
        text = text.replace(letter, written)
    return f"<{tag}{space}>{text}</{tag}>\n"
