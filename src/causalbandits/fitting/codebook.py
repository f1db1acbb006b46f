"""Values as integer codes: each distinct value is encoded once, and further occurrences are looked up."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Codes, is_real
from causalbandits.errors import DataError, DataWarning, caller_stacklevel, short_repr, unknown_name_message, warn
from causalbandits.model import STATE_RULE, State, format_edge, intervals_of_states, parse_state

MISSING, UNKNOWN, NOT_CACHED = -1, -2, -3

STATE_LIMIT = 4096
"""The maximum number of states of a variable that are found in data; given states may be more."""

NUMBER_LIMIT = 20
"""The maximum number of distinct numbers treated as categories; with more, the user must pass bins or all values."""

LOOKUP_LIMIT = 2**16
"""The maximum range of integers that are looked up by position."""

MISSING_TEXTS = frozenset({"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL"})
"""Fields of a text file that stand for a missing value, unless a state is spelt so."""

NUMERAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Dictionary:
    """A column of positions in a short list of values, which may be ordered; -1 is a missing value.

    `categorical`: the source declares that the values are categories, even if they are numbers.
    """

    def __init__(
        self, indices: npt.NDArray[Any], values: Sequence[Any], *, ordered: bool = False, categorical: bool = False
    ) -> None:
        self.indices, self.values, self.ordered, self.categorical = indices, values, ordered, categorical

    def __len__(self) -> int:
        return len(self.indices)


Column = npt.NDArray[Any] | Sequence[Any] | Dictionary


@dataclass(frozen=True)
class Reading:
    """The rules for reading the values of a source.

    `text`: the source is a text file, without types. Whether a column is numeric depends on all of its values.
    `missing`: values that stand for missing ones, unless they are given as states. `place`: the name of a row in error
    messages.
    """

    text: bool = False
    missing: frozenset[State] = frozenset()
    place: Callable[[int], str] = "row {}".format

    def with_missing(self, values: Iterable[Any]) -> Reading:
        """The same rules with more values that stand for missing ones.

        In text files, their Python spelling counts as well.
        """
        try:
            extra = frozenset(parse_state(value) for value in values)
        except TypeError:
            raise DataError(f"na_values must be {STATE_RULE}; got {short_repr(values)}.") from None
        as_text = frozenset(map(str, extra)) if self.text else frozenset()
        return replace(self, missing=self.missing | extra | as_text)


TYPED = Reading()
"""The rules for values that have types."""

_CONVERT = "Convert it to text or a number first; from a date, extract the relevant part, such as the month."


class _UnfitError(Exception):
    """A value that cannot be a state."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Codebook:
    """The states of a variable and their codes; unless states are given, new values are added as they occur.

    If the states are intervals (`bins=`), a number has the code of its interval. `categories`: whether the values are
    states of a variable, whose number is limited; otherwise any number of distinct values is allowed (for rewards).

    >>> book = Codebook("x")
    >>> book.encode(np.array([7, 3, 7, 7]), 0).tolist(), book.values
    ([1, 0, 1, 1], [3, 7])
    """

    def __init__(
        self,
        name: str,
        states: Sequence[State] | None = None,
        reading: Reading = TYPED,
        *,
        categories: bool = True,
    ) -> None:
        self.name = name
        self._categories, self._limits_numbers = categories, categories and states is None
        self.intervals = None if states is None else intervals_of_states(tuple(states))
        self._missing_numbers = [value for value in reading.missing if is_real(value)]
        self.has_given_states = states is not None
        self.text = reading.text
        self._reading = reading
        self._ranking: list[State] | None = None
        self.values: list[State] = list(states or ())
        self.missing = 0
        self._code_of_state = {value: code for code, value in enumerate(self.values)}
        self._code_cache: dict[Any, int] = {} if self.text else dict(self._code_of_state)
        self._lookup: Codes = np.full(0, NOT_CACHED, dtype=np.intp)
        self._low = 0

    def encode(self, column: Column, first_row: int) -> Codes:
        """The codes of a part of the column; -1 for missing values. `first_row` is used in error messages."""
        try:
            codes = self._encode(column)
        except _UnfitError as unfit:
            place = self._reading.place(first_row + _find_position(column, unfit.value))
            raise DataError(
                f"The values of {self.name!r} must be {STATE_RULE}; in {place} it is {short_repr(unfit.value)}. "
                f"{_CONVERT}"
            ) from None
        lowest = int(codes.min(initial=0))
        if lowest == UNKNOWN:
            at = int(np.argmax(codes == UNKNOWN))
            value = column.values[column.indices[at]] if isinstance(column, Dictionary) else column[at]
            value = value.item() if isinstance(value, np.generic) else value
            place = self._reading.place(first_row + at)
            if self.intervals is not None:
                raise DataError(
                    f"The value of {self.name!r} in {place} must be a number {self.intervals.range}, the range of its "
                    f"bins; it is {short_repr(value)}. Correct the data, or pass other bins: the outer edges may be "
                    "-inf and inf."
                )
            message = unknown_name_message(f"value of {self.name!r} in {place}:", value, self.values)
            raise DataError(f"{message} Correct the data, or pass all values (values=...).")
        if lowest == MISSING:
            self.missing += int(np.count_nonzero(codes == MISSING))
        if not self.text:  # in a text file, a later value may turn out not to be a number
            self.check_numbers(first_row + len(codes))
        return codes

    def check_numbers(self, rows: int) -> None:
        """Raise an error if there are more distinct numbers than are treated as categories, after `rows` rows."""
        if len(self.values) <= NUMBER_LIMIT or not self._limits_numbers:
            return
        numbers = self._numbers()
        if numbers is None:
            self._limits_numbers = False  # a value is not a number, so the column is not numeric
            return
        low, high = min(numbers), max(numbers)
        inner = (float(f"{low + (high - low) * part / 3:.3g}") for part in (1, 2))
        edges = sorted({float(math.floor(low)), *inner, float(math.ceil(high))})
        raise DataError(
            f"{self.name!r} is a column of numbers with {len(numbers)} distinct values in {rows:,} rows, from "
            f"{format_edge(low)} to {format_edge(high)}; a CPT allows at most {NUMBER_LIMIT}. Discretise them: "
            f"bins={{{self.name!r}: [{', '.join(map(format_edge, edges))}]}} has the edges, "
            f"bins={{{self.name!r}: 4}} makes 4 quantiles. Or declare that every value is a category: "
            f"values={{{self.name!r}: [...]}}."
        )

    def _numbers(self) -> list[float] | None:
        """The values as numbers; None if one of them is not a number."""
        if self.text:
            texts = [value for value in self.values if isinstance(value, str) and NUMERAL.fullmatch(value)]
            return sorted({float(text) for text in texts}) if len(texts) == len(self.values) else None
        numbers = [float(value) for value in self.values if is_real(value)]
        return numbers if len(numbers) == len(self.values) else None

    def arrange(self) -> tuple[tuple[State, ...], Codes]:
        """The states in their final order, and the final position of every code assigned so far."""
        if self.has_given_states:
            return tuple(self.values), np.arange(len(self.values))
        if not self.values:
            raise DataError(f"No value of {self.name!r} was observed, so its states are unknown. Pass values=...")
        values = _parse_texts(self.values) if self.text else self.values
        ranking = None if self._ranking is None else {value: rank for rank, value in enumerate(self._ranking)}
        try:
            states = tuple(sorted(set(values), key=ranking and ranking.__getitem__))  # type: ignore[type-var,arg-type]
        except TypeError:
            by_type = {type(value).__name__: value for value in values}
            kinds = ", ".join(f"{kind} ({value!r})" for kind, value in by_type.items())
            raise DataError(
                f"The values of {self.name!r} have no common order: {kinds}. Convert them to one type, or pass the "
                "states in the order you want (values=...)."
            ) from None
        place = {state: i for i, state in enumerate(states)}
        return states, np.array([place[value] for value in values], dtype=np.intp)

    def _encode(self, column: Column) -> Codes:
        if isinstance(column, Dictionary):
            if column.ordered:
                self._set_ranking(column.values)
            if column.categorical and not self.text:
                self._limits_numbers = False
            # Index -1 selects the last entry. Categories that do not occur are not states.
            occurs = np.zeros(len(column.values) + 1, dtype=bool)
            occurs[column.indices] = True
            codes = [
                self._code(value) if does_occur else 0
                for value, does_occur in zip(column.values, occurs[:-1], strict=True)
            ]
            return np.array([*codes, self._code(None)], dtype=np.intp).take(column.indices)
        if isinstance(column, np.ndarray) and not self.text:
            if self.intervals is not None and column.dtype.kind in "iuf":
                return self._encode_numbers(column)
            if column.dtype.kind in "iub" and len(column):
                return self._encode_integers(column)
            if column.dtype.kind == "f":
                return self._encode_floats(column)
            if column.dtype.kind not in "iubOUT":
                raise DataError(
                    f"The values of {self.name!r} must be text, numbers or booleans; its column holds {column.dtype}. "
                    f"{_CONVERT}"
                )
        values = column.tolist() if isinstance(column, np.ndarray) else column
        return self._encode_objects(values)

    def _set_ranking(self, values: Sequence[Any]) -> None:
        """Store the order of the categories."""
        if self._ranking is None:
            self._ranking = list(values)
        elif self._ranking != list(values) and not self.has_given_states:
            raise DataError(
                f"The categories of {self.name!r} have another order in another part of the data. Pass the states in "
                "the order you want (values=...)."
            )

    def _encode_numbers(self, values: npt.NDArray[Any]) -> Codes:
        """The code of the interval of each number."""
        assert self.intervals is not None
        numbers = values.astype(np.float64)
        codes = self.intervals.codes(numbers)
        codes[codes < 0] = UNKNOWN
        codes[np.isnan(numbers) | np.isin(values, self._missing_numbers)] = MISSING
        return codes

    def _encode_integers(self, values: npt.NDArray[Any]) -> Codes:
        places = self._places(values)
        # One comparison covers both ends: a value below the range becomes a huge unsigned number.
        if int(places.view(np.uintp).max()) >= len(self._lookup):
            if not self._widen(int(values.min()), int(values.max())):
                return self._encode_distinct(values)
            places = self._places(values)
        codes = self._lookup.take(places)
        if codes.min() == NOT_CACHED:
            for place in np.unique(places[codes == NOT_CACHED]).tolist():
                state = place + self._low
                self._lookup[place] = self._code(bool(state) if values.dtype.kind == "b" else state)
            codes = self._lookup.take(places)
        return codes

    def _places(self, values: npt.NDArray[Any]) -> Codes:
        if values.dtype == np.intp and not self._low:
            return np.ascontiguousarray(values)
        places: Codes = np.subtract(values, self._low, dtype=np.intp, casting="unsafe")
        return places

    def _widen(self, low: int, high: int) -> bool:
        """Extend the lookup array to these numbers; False if it would become too large."""
        if len(self._lookup):
            low, high = min(low, self._low), max(high, self._low + len(self._lookup) - 1)
        if high - low >= LOOKUP_LIMIT or max(-low, high) >= 2**62:
            return False
        wider = np.full(high - low + 1, NOT_CACHED, dtype=np.intp)
        wider[self._low - low : self._low - low + len(self._lookup)] = self._lookup
        self._lookup, self._low = wider, low
        return True

    def _encode_floats(self, values: npt.NDArray[Any]) -> Codes:
        is_present = ~np.isnan(values)
        if not is_present.all():
            codes = np.full(len(values), self._code(None))
            codes[is_present] = self._encode_floats(values[is_present])
            return codes
        if len(values) and np.abs(values).max() < 2**53:
            integers = values.astype(np.int64)
            if (integers == values).all():
                return self._encode_integers(integers)
        return self._encode_distinct(values)

    def _encode_distinct(self, values: npt.NDArray[Any]) -> Codes:
        distinct, inverse = np.unique(values, return_inverse=True)
        return np.array([self._code(value) for value in distinct.tolist()], dtype=np.intp).take(inverse)

    def _encode_objects(self, values: Sequence[Any]) -> Codes:
        try:
            distinct = dict.fromkeys(values)
        except TypeError:  # a value is not hashable
            return np.array([self._code(value) for value in values], dtype=np.intp)
        code_of = {value: self._code(value) for value in distinct}.get
        codes = np.fromiter(map(code_of, values, repeat(NOT_CACHED)), dtype=np.intp, count=len(values))
        for at in np.flatnonzero(codes == NOT_CACHED).tolist():  # NaN, if the sequence creates a new object for each
            codes[at] = self._code(values[at])
        return codes

    def _code(self, value: Any) -> int:
        """The code of one value, cached."""
        try:
            if value in self._code_cache:
                return self._code_cache[value]
        except TypeError:
            if is_missing(value):
                return MISSING
            raise _UnfitError(value) from None
        code = self._code_of_text(value) if self.text and isinstance(value, str) else self._code_of_value(value)
        # NaN is not cached, because each NaN object is a separate key; nor are numbers that belong to intervals.
        if self.intervals is None and (code >= 0 or isinstance(value, str)):
            self._code_cache[value] = code
        return code

    def _code_of_value(self, value: Any) -> int:
        if value in self._code_of_state:
            return self._code_of_state[value]
        if is_missing(value) or value in self._reading.missing:
            return MISSING
        if self.intervals is not None and is_real(value):
            return self._code_of_number(value)
        if self.has_given_states:
            return UNKNOWN
        try:
            state = parse_state(value)
        except TypeError:
            raise _UnfitError(value) from None
        return self._add(int(state) if isinstance(state, float) and state.is_integer() else state)

    def _code_of_text(self, text: str) -> int:
        if not self.has_given_states:
            return MISSING if text in self._reading.missing else self._add(text)
        for state, code in self._code_of_state.items():
            if str(state) == text:
                return code
        if text in self._reading.missing:
            return MISSING
        if self.intervals is not None:
            number = parse_number_text(text)
            return UNKNOWN if number is None else self._code_of_number(number)
        parsed = _parse_number(text) if NUMERAL.fullmatch(text) else BOOLEAN_TEXTS.get(text)
        return UNKNOWN if parsed is None else self._code_of_state.get(parsed, UNKNOWN)

    def _code_of_number(self, number: float) -> int:
        assert self.intervals is not None
        code = self.intervals.code(number)
        return UNKNOWN if code is None else code

    def _add(self, value: State) -> int:
        if self._categories and len(self.values) == STATE_LIMIT:
            if self._limits_numbers and self._numbers() is not None:
                examples = ", ".join(format_edge(float(number)) for number in self.values[:3])  # type: ignore[arg-type]
                raise DataError(
                    f"{self.name!r} is a column of numbers with more than {STATE_LIMIT} distinct values ({examples}, "
                    f"...); a CPT allows at most {NUMBER_LIMIT}. Discretise them: bins={{{self.name!r}: "
                    f"[0, 30, 45, 60]}} has the edges, bins={{{self.name!r}: 4}} makes 4 quantiles."
                )
            examples = ", ".join(map(repr, self.values[:3]))
            raise DataError(
                f"{self.name!r} has more than {STATE_LIMIT} different values ({examples}, ...), too many for a CPT. "
                "Merge values first, or pass all values (values=...)."
            )
        self._code_of_state[value] = len(self.values)
        self.values.append(value)
        return len(self.values) - 1


BOOLEAN_TEXTS = {"True": True, "true": True, "TRUE": True, "False": False, "false": False, "FALSE": False}
"""Spellings of booleans in text files, the same as in pandas."""


def _parse_texts(texts: Sequence[Any]) -> list[Hashable]:
    """Texts as numbers if all of them are numbers (007 is not), as booleans if all of them are, otherwise unchanged."""
    if all(NUMERAL.fullmatch(text) for text in texts):
        return [_parse_number(text) for text in texts]
    if all(text in BOOLEAN_TEXTS for text in texts):
        return [BOOLEAN_TEXTS[text] for text in texts]
    return list(texts)


def _parse_number(text: str) -> int | float:
    if NUMERAL.fullmatch(text) and text.lstrip("-").isdigit():
        return int(text)
    number = float(text)
    return int(number) if number.is_integer() else number


def parse_number_text(text: str) -> float | None:
    """The number in a text, including spellings such as 007 and +3; None if the text is not a number."""
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def _find_position(column: Column, value: Any) -> int:
    """The position at which a value occurs first in a column."""
    values = column.values if isinstance(column, Dictionary) else column
    value_list = values.tolist() if isinstance(values, np.ndarray) else values
    at = next(
        i
        for i, candidate in enumerate(value_list)
        if candidate is value or (isinstance(value, float) and candidate == value)
    )
    return int(np.argmax(column.indices == at)) if isinstance(column, Dictionary) else at


def is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return type(value).__name__ == "NAType"


# Warnings about suspicious values in otherwise valid data, so that a typing error does not become a state.

SUSPECTS = frozenset(
    {"", "-", "--", "?", ".", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "none", "nil", "missing"}
)
"""Texts, in lower case, that often stand for a missing value."""


def warn_of_odd_values(books: Iterable[Codebook]) -> None:
    """Emit a DataWarning for suspicious values among states that were not given by the user.

    The stack level of the warning is that of the caller of a public function.
    """
    for book in books:
        texts = [value for value in book.values if isinstance(value, str)]
        if not book.has_given_states:
            for warning in (*_near_duplicates(texts), *_missing_value_markers(texts), *_broken_lines(texts)):
                warn(f"{book.name!r} {warning}", DataWarning, stacklevel=caller_stacklevel())


def _near_duplicates(texts: Sequence[str]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(" ".join(text.casefold().split()), []).append(text)
    for variants in groups.values():
        if len(variants) > 1:
            yield (
                f"has states that differ in case or blanks only: {_format_texts(variants)}. If they mean the same, "
                "unify them in the data; if not, pass all values (values=...)."
            )


def _missing_value_markers(texts: Sequence[str]) -> Iterator[str]:
    suspects = [text for text in texts if text.strip().casefold() in SUSPECTS]
    words = [text for text in texts if not NUMERAL.fullmatch(text)]
    if suspects:
        yield f"has the state{'s' * (len(suspects) > 1)} {_format_texts(suspects)}: {_MARKER_ADVICE.format(suspects)}"
    elif len(words) == 1 and len(texts) > 2:
        yield (
            f"has numbers and {short_repr(words[0])}, so that the whole column is text: {_MARKER_ADVICE.format(words)}"
        )


_MARKER_ADVICE = (
    "if that marks a missing value, leave such cells empty in the data, or pass fit(..., na_values={}); if not, pass "
    "all values (values=...)."
)


def _broken_lines(texts: Sequence[str]) -> Iterator[str]:
    broken = [text for text in texts if "\n" in text]
    if broken:
        example = short_repr(broken[0], most=60)
        yield f"has states of several lines, such as {example}: is a quote in the file not closed?"


def _format_texts(texts: Sequence[str]) -> str:
    return ", ".join(map(short_repr, sorted(texts)[:5])) + (", ..." if len(texts) > 5 else "")
