"""BIF, the Interchange Format for Bayesian networks (Cozman 1996, version 0.15).

    network asia { property author = me; }
    variable tub { type discrete [ 2 ] { yes, no }; }
    probability ( tub | asia ) { (yes) 0.05, 0.95; (no) 0.01, 0.99; }

Instead of rows there may be one `table`, in which the variable itself changes slowest and its last parent fastest, and
`default` stands for missing rows. Commas are white space. Names with white space, commas, brackets and similar
characters are enclosed in double quotes, in which \\" is a quote and \\\\ a backslash.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from causalbandits.formats._draft import Draft, PlacedTable, network_name, state_labels
from causalbandits.formats._scanner import Scanner, Token, clip
from causalbandits.model import LABEL_LIMIT, CausalModel

# The content of a BIF probability block, and its conversion to a CPT.


@dataclass
class ProbabilityEntries:
    """The content of a probability block: a table or rows, each with its place, and an optional default."""

    table: tuple[array[float], int] | None = None
    default: tuple[array[float], int] | None = None
    rows: list[tuple[list[str], array[float], int]] = field(default_factory=list)


def fill_table(
    scanner: Scanner, entries: ProbabilityEntries, axes: Sequence[Sequence[str]], name: Token
) -> PlacedTable:
    """The CPT with one axis for each parent, followed by the variable's own."""
    *parent_sizes, state_count = (len(states) for states in axes)

    def validate_length(numbers: array[float], at: int, count: int) -> array[float]:
        if len(numbers) != count:
            scanner.refuse(at, f"expected {count:,} numbers for {clip(name.text)}, found {len(numbers):,}.")
        return numbers

    if entries.table is not None:
        if entries.rows or entries.default:
            scanner.refuse(entries.table[1], f"expected a table or rows for {clip(name.text)}, found both.")
        numbers = np.array(validate_length(*entries.table, prod(parent_sizes) * state_count))
        return PlacedTable(np.moveaxis(numbers.reshape(state_count, *parent_sizes), 0, -1))
    rows = _index_rows(scanner, entries, axes[:-1], name)
    if entries.default is None and len(rows) < prod(parent_sizes):
        missing = next(row for row in range(prod(parent_sizes)) if row not in rows)
        missing_states = [
            clip(states[int(i)]) for states, i in zip(axes, np.unravel_index(missing, parent_sizes), strict=False)
        ]
        row_or_table = f"a row ({', '.join(missing_states)})" if missing_states else "a table"
        scanner.refuse(name.at, f"expected {row_or_table} for {clip(name.text)}, found none.")
    table = np.empty((prod(parent_sizes), state_count))
    if entries.default is not None:
        table[:] = validate_length(*entries.default, state_count)
    for row, (values, at) in rows.items():
        table[row] = validate_length(values, at, state_count)
    return PlacedTable(table.reshape(*parent_sizes, state_count), {row: at for row, (_, at) in rows.items()})


def _index_rows(
    scanner: Scanner, entries: ProbabilityEntries, parents: Sequence[Sequence[str]], name: Token
) -> dict[int, tuple[array[float], int]]:
    """The numbers and the place of each given row, by its position in the CPT."""
    codes = [{state: code for code, state in enumerate(states)} for states in parents]
    rows: dict[int, tuple[array[float], int]] = {}
    for states, values, at in entries.rows:
        if len(states) != len(codes):
            message = f"expected {len(codes)} states of the parents of {clip(name.text)}, found {len(states)}."
            scanner.refuse(at, message)
        row = 0
        for state, code in zip(states, codes, strict=True):
            if state not in code:
                known_states = ", ".join(clip(k) for k in itertools.islice(code, 20))
                scanner.fail(at, f"a state of the parent ({known_states})", clip(state))
            row = row * len(code) + code[state]
        if row in rows:
            scanner.refuse(at, f"expected each row of {clip(name.text)} once, found this one again.")
        rows[row] = values, at
    return rows


_SKIP = re.compile(r"(?:[\s,]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?+" + _SKIP.pattern.encode() + rb"network\b")
_WORD = re.compile(r'(?:[^\s,;|{}()\[\]"/]|/(?![/*]))++')
_TOKEN = re.compile(rf'(?P<quoted>"(?:[^"\\]|\\.)*+")|(?P<mark>[{{}}()\[\];|])|(?P<word>{_WORD.pattern})', re.DOTALL)
_BLANK = re.compile(r"(\s*+)")
# Up to the next semicolon outside of quotes; a quote without a partner on its line is an ordinary character.
_PROPERTY = re.compile(r'((?>"[^"\n]*+"|[^;\n])*+);')


def loads(text: str, file: str = "BIF") -> CausalModel:
    """The model in a BIF text; `file` names it in errors.

    >>> loads("network n {} variable x { type discrete [2] {a, b}; } probability (x) { table 0.25, 0.75; }")
    CausalModel(1 variables, 0 edges)
    """
    scanner = Scanner(text, file, skip=_SKIP, token=_TOKEN, unquote=_unquote)
    draft = Draft(scanner.refuse)
    scanner.expect("network")
    draft.name_network(scanner.label("the network's name").text)
    scanner.expect("{")
    while not scanner.accept("}"):
        scanner.expect("property", "}")
        draft.add_property("", _read_property(scanner))
    while scanner.next.kind != "end":
        if scanner.expect("variable", "probability").text == "variable":
            _read_variable(scanner, draft)
        else:
            _read_probability(scanner, draft)
    return draft.model()


def _read_variable(scanner: Scanner, draft: Draft) -> None:
    name = scanner.label("the variable's name")
    states: list[tuple[str, int]] = []
    scanner.expect("{")
    while not scanner.accept("}"):
        if scanner.expect("type", "property", "}").text == "property":
            draft.add_property(name.text, _read_property(scanner))
            continue
        scanner.expect("discrete")
        scanner.expect("[")
        size = scanner.label("the number of states")
        if not re.fullmatch("[0-9]{1,9}", size.text):
            scanner.fail(size.at, "the number of states", clip(size.text))
        scanner.expect("]")
        scanner.expect("{")
        while not scanner.sees("}"):
            state = scanner.label("a state or '}'")
            states.append((state.text, state.at))
        if len(states) != int(size.text):
            problem_text = f"{len(states)}. A state with a space or a comma requires quotes"
            scanner.fail(size.at, f"{int(size.text)} states of {clip(name.text)}", problem_text)
        scanner.expect("}")
        scanner.expect(";")
    draft.declare(name.text, states, name.at)


def _read_probability(scanner: Scanner, draft: Draft) -> None:
    scanner.expect("(")
    name = scanner.label("a variable's name")
    scanner.accept("|")
    parents = []
    while not scanner.accept(")"):
        parents.append(scanner.label("a parent's name or ')'"))
    entries = ProbabilityEntries()
    scanner.expect("{")
    while not scanner.accept("}"):
        start = scanner.expect("(", "table", "default", "property", "}")
        if start.text == "property":
            draft.add_property(name.text, _read_property(scanner))
        elif start.text == "(":
            entries.rows.append((scanner.labels("a parent's state"), scanner.numbers(), start.at))
        elif getattr(entries, start.text) is not None:
            scanner.refuse(start.at, f"expected one {start.text!r} for {clip(name.text)}, found a second.")
        else:
            setattr(entries, start.text, (scanner.numbers(), start.at))

    def fill(axes: Sequence[Sequence[str]]) -> PlacedTable:
        return fill_table(scanner, entries, axes, name)

    draft.define(name.text, [(parent.text, parent.at) for parent in parents], name.at, fill)


def _read_property(scanner: Scanner) -> str:
    """The text after the word `property`: one quoted string, or anything up to a semicolon on the same line."""
    scanner.raw(_BLANK)
    start = scanner.at
    quoted = scanner.label("a property") if scanner.text.startswith('"', start) else None
    rest = scanner.raw(_PROPERTY)
    if rest is None:
        scanner.fail(start, "a property that ends with ';'")
    text = quoted.text if quoted and not rest.strip() else scanner.text[start : scanner.at - 1].strip()
    if len(text) > LABEL_LIMIT:
        scanner.fail(start, f"at most {LABEL_LIMIT:,} characters", clip(text))
    return text


def _unquote(text: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", text[1:-1])


def _quote(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def dumps(model: CausalModel) -> str:
    """The model in BIF, numbers with all their digits; states that are not text are converted to text."""
    return "".join(_format_lines(model))


def _format_lines(model: CausalModel) -> Iterator[str]:
    name, remarks = network_name(model)
    states = {v.name: [_format_name(label) for label in state_labels(v)] for v in model.variables.values()}
    yield f"network {_format_name(name)} {{\n{_format_properties(remarks)}}}\n"
    for v in model.variables.values():
        yield f"variable {_format_name(v.name)} {{\n"
        yield f"  type discrete [ {len(v.states)} ] {{ {', '.join(states[v.name])} }};\n"
        yield f"{_format_properties(model.properties.get(v.name, ()))}}}\n"
    for v in model.variables.values():
        condition = f" | {', '.join(map(_format_name, v.parents))}" if v.parents else ""
        yield f"probability ( {_format_name(v.name)}{condition} ) {{\n"
        rows = itertools.product(*(states[parent] for parent in v.parents))
        for row, numbers in zip(rows, v.table.reshape(-1, len(v.states)).tolist(), strict=True):
            yield f"  {'(' + ', '.join(row) + ')' if row else 'table'} {', '.join(map(repr, numbers))};\n"
        yield "}\n"


def _format_properties(texts: Sequence[str]) -> str:
    return "".join(f"  property {_format_property(text)};\n" for text in texts)


def _format_property(text: str) -> str:
    """A property without quotes if that is read back unchanged, otherwise in quotes."""
    property_match = _PROPERTY.fullmatch(text + ";")
    plain = property_match is not None and text == text.strip() != "" and not text.startswith('"')
    return text if plain else _quote(text)


def _format_name(text: str) -> str:
    return text if _WORD.fullmatch(text) else _quote(text)
