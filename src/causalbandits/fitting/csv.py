"""CSV files, compressed or not, read in blocks; error messages contain the line number."""

from __future__ import annotations

import codecs
import csv
import gzip
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from causalbandits.errors import DataError, short_repr
from causalbandits.fitting import batches
from causalbandits.fitting.batches import Batch, DataSource, arrow_batches
from causalbandits.fitting.codebook import MISSING_TEXTS, Reading

BLOCK = 2**20
"""The number of bytes of a CSV file per block."""

OTHER_DELIMITERS = ";\t|"


def csv_source(path: Path, delimiter: str | None) -> DataSource:
    """A CSV file with a header line of column names; the default delimiter is a comma."""
    if delimiter is not None and not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter in _DELIMITERS):
        raise DataError(f"delimiter must be a single character, such as ';'; got {short_repr(delimiter)}.")
    file = _CsvFile(path, delimiter or ",")
    header = file.header()
    if not header:
        raise DataError(f"{str(path)!r} must begin with a line of column names; it is empty.")
    likely_delimiter = next((sign for sign in OTHER_DELIMITERS if sign in header[0]), None)
    if delimiter is None and len(header) == 1 and likely_delimiter:
        raise DataError(
            f"{str(path)!r} has a single column, {short_repr(header[0])}: its fields seem to be separated by "
            f"{likely_delimiter!r}. Pass delimiter={likely_delimiter!r}; or pass delimiter=',' if the file has a "
            "single column."
        )
    return DataSource(tuple(header), file.batches, Reading(text=True, missing=MISSING_TEXTS, place=file.place))


_DELIMITERS = frozenset(",;:|\t ^~!#&/")


class _CsvFile:
    def __init__(self, path: Path, delimiter: str) -> None:
        self._path, self._delimiter = path, delimiter

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """The columns of these names, as text.

        Types are not guessed, because a guess from the first block may fail on a later one.
        """
        with _CsvBytes(self._path) as source:
            try:
                import pyarrow.csv
            except ImportError:
                yield from self._by_lines(source, names)
            else:
                yield from self._by_blocks(pyarrow, source, names)
            # An unclosed quote swallows the rest of the file. A quote in the middle of a field (5") is harmless.
            if source.quotes % 2:
                self.check()

    def _by_blocks(self, arrow: Any, source: _CsvBytes, names: Sequence[str]) -> Iterator[Batch]:
        text = arrow.dictionary(arrow.int32(), arrow.string())
        options = {
            "read_options": arrow.csv.ReadOptions(block_size=BLOCK),
            "parse_options": arrow.csv.ParseOptions(newlines_in_values=True, delimiter=self._delimiter),
            "convert_options": arrow.csv.ConvertOptions(
                include_columns=list(names), column_types=dict.fromkeys(names, text), strings_can_be_null=False
            ),
        }
        try:
            yield from arrow_batches(arrow.csv.open_csv(source, **options))
        except arrow.ArrowInvalid as error:
            if not self.check():  # pyarrow reports a file without rows as broken if its first line has no line end
                return
            raise DataError(f"Cannot read {str(self._path)!r} as CSV: {error}") from None

    def _by_lines(self, source: _CsvBytes, names: Sequence[str]) -> Iterator[Batch]:
        records = self._records(source)
        _, header = next(records)
        places = [header.index(name) for name in names]
        while rows := list(itertools.islice(records, batches.BATCH)):
            for line, fields in rows:
                self._check_width(line, fields, len(header))
            columns = {name: [fields[at] for _, fields in rows] for name, at in zip(names, places, strict=True)}
            yield Batch(len(rows), columns)

    def header(self) -> list[str]:
        """The fields of the first line; empty if there is no line."""
        with _CsvBytes(self._path) as source:
            _, fields = next(self._records(source), (1, []))
        return fields

    def _records(self, source: _CsvBytes, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Every non-empty record, with the line on which it begins."""
        lines = (self._decode_line(*line) for line in enumerate(source, start=1))
        reader = csv.reader(lines, delimiter=self._delimiter, strict=strict)
        while True:
            line = reader.line_num + 1
            try:
                fields = next(reader, None)
            except csv.Error as error:
                raise DataError(f"{self._error_prefix(line)}: {error}. Is there a quote that is not closed?") from None
            if fields is None:
                return
            if fields:
                yield line, fields

    def check(self) -> int:
        """The number of records after the header; raises an error with the line of the first invalid record."""
        with _CsvBytes(self._path) as source:
            records = self._records(source, strict=True)
            _, header = next(records)
            number = 0
            for number, (line, fields) in enumerate(records, start=1):  # noqa: B007
                self._check_width(line, fields, len(header))
        return number

    def place(self, row: int) -> str:
        """The line of a row, counted from 0; the file is read again up to that row."""
        with _CsvBytes(self._path) as source:
            record = next(itertools.islice(self._records(source), row + 1, None), None)
        return f"line {record[0]}" if record else f"row {row}"

    def _check_width(self, line: int, fields: Sequence[str], width: int) -> None:
        if len(fields) != width:
            excerpt = short_repr(self._delimiter.join(fields), most=60)
            raise DataError(
                f"{self._error_prefix(line)}: expected {width} fields, as in the first line, found {len(fields)}: "
                f"{excerpt}."
            )

    def _decode_line(self, line: int, content: bytes) -> str:
        try:
            return content.removeprefix(codecs.BOM_UTF8 if line == 1 else b"").decode()
        except UnicodeDecodeError as error:
            byte = f"the byte 0x{content[error.start]:02x}"
            raise DataError(
                f"{self._error_prefix(line)}: expected text in UTF-8, found {byte}. Save the file as UTF-8."
            ) from None

    def _error_prefix(self, line: int) -> str:
        return f"Cannot read {str(self._path)!r} as CSV: line {line}"


class _CsvBytes:
    """The bytes of a file, decompressed; counts the quotes that are read."""

    def __init__(self, path: Path) -> None:
        self._path, self.quotes, self.closed = path, 0, False
        try:
            self._file: Any = gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise DataError(f"Cannot read {str(path)!r}: {error.strerror or error}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._read_line, b"")

    def close(self) -> None:
        self._file.close()
        self.closed = True

    def read(self, size: int = -1) -> bytes:
        """The reading interface that pyarrow requires."""
        return self._read_counting_quotes(self._file.read, size)

    def _read_line(self) -> bytes:
        return self._read_counting_quotes(self._file.readline, -1)

    def _read_counting_quotes(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            content = read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"Cannot read {str(self._path)!r}: {error}.") from None
        self.quotes += content.count(b'"')
        return content
