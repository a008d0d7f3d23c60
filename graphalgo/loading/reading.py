"""Reading CSV and JSON Lines a record at a time, with the number of each record's line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from graphalgo.loading.errors import InvalidLine, shown
from graphalgo.loading.formats import BadValue, Format, Parser

MAX_LINE_BYTES = 16 * 1024 * 1024
# How many bytes are read between two reports of progress.
REPORT_BYTES = 256 * 1024

EXTENSIONS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}

# A record's line and its values in the order of the format's columns.
Record = tuple[int, list[Any]]


def format_of(path: Path, stated: str | None = None) -> str:
    """Tell how a file is written: ``csv`` or ``jsonl``.

    Parameters
    ----------
    path : pathlib.Path
        Its extension counts where nothing is stated.
    stated : str, optional
        ``csv`` or ``jsonl``.

    Raises
    ------
    InvalidLine
        If neither says (22023).
    """
    found = stated or EXTENSIONS.get(path.suffix.lower())
    if found not in ("csv", "jsonl"):
        raise InvalidLine(
            str(path),
            0,
            f"the extension {shown(path.suffix)} does not tell CSV from JSON Lines"
            if stated is None
            else f"the format {shown(stated)} is neither csv nor jsonl",
            "Name the file .csv, .jsonl or .ndjson, or give the format: csv or jsonl.",
        )
    return found


class Reader:
    """Reads one file, checking every value as it goes.

    Parameters
    ----------
    path : pathlib.Path
        The file, in UTF-8.
    columns : Format
        What its columns are.
    written : str
        ``csv`` (with a header line) or ``jsonl`` (an object a line).
    progress : callable
        Called with the number of bytes read since its last call.

    Notes
    -----
    Memory does not grow with the file: one record is held at a time.
    """

    def __init__(
        self, path: Path, columns: Format, written: str, progress: Callable[[int], None]
    ) -> None:
        self.path = path
        self.columns = columns
        self.written = written
        self.progress = progress

    def __iter__(self) -> Iterator[Record]:
        """Yield the line and the values of each record.

        Raises
        ------
        LoadError
            At the first line that is wrong.
        """
        try:
            with self.path.open("rb") as stream:
                lines = self._lines(stream)
                yield from self._csv(lines) if self.written == "csv" else self._json_lines(lines)
        except OSError as error:
            self.refuse(0, f"cannot be read: {error.strerror or error}")

    def refuse(self, line: int, problem: str, hint: str | None = None) -> NoReturn:
        """Raise the error that names this file and a line of it."""
        raise InvalidLine(str(self.path), line, problem, hint)

    def _lines(self, stream: BinaryIO) -> Iterator[str]:
        unreported = 0
        number = 0
        while raw := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(raw) > MAX_LINE_BYTES:
                self.refuse(number, f"the line is longer than {MAX_LINE_BYTES} bytes")
            if b"\0" in raw:
                self.refuse(
                    number,
                    f"a character NUL at byte {raw.index(0) + 1} of the line,"
                    " but PostgreSQL cannot store one",
                    "Write the file as UTF-8 text.",
                )
            try:
                # A mark at the very start says that what follows is UTF-8; it is no text.
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                self.refuse(
                    number,
                    f"byte {raw[error.start : error.start + 1]!r} at position {error.start + 1}"
                    " of the line is not UTF-8",
                    "Write the file as UTF-8, for example with: iconv -t UTF-8",
                )
            unreported += len(raw)
            if unreported >= REPORT_BYTES:
                self.progress(unreported)
                unreported = 0
        self.progress(unreported)

    def _csv(self, lines: Iterator[str]) -> Iterator[Record]:
        records = csv.reader(lines, strict=True)
        header: list[tuple[str, int, Parser]] | None = None
        names = self.columns.names
        required = self.columns.required
        width = 0
        while True:
            line = records.line_num + 1
            try:
                fields = next(records, None)
            except csv.Error as error:
                self.refuse(
                    line,
                    f"the CSV record that begins here cannot be read: {error}",
                    'Put a value that holds a comma, a quote or a line break into "quotes",'
                    " and double each quote inside.",
                )
            if fields is None:
                break
            if not fields:
                continue
            if header is None:
                header = self._header(fields)
                width = len(header)
                continue
            if len(fields) != width:
                self.refuse(
                    line,
                    f"{len(fields)} columns, but the header names {width}",
                    f"The header is: {','.join(name for name, _, _ in header)}",
                )
            values: list[Any] = [None] * len(names)
            for (name, position, parser), field in zip(header, fields, strict=True):
                if field:
                    try:
                        values[position] = parser(field)
                    except BadValue:
                        self._refuse_value(line, name, field)
            for position, name in enumerate(names):
                if values[position] is None and name in required:
                    self._refuse_missing(line, name)
            yield line, values
        if header is None:
            self.refuse(
                0, "empty, but a CSV file begins with a header line", self.columns.described()
            )

    def _header(self, fields: list[str]) -> list[tuple[str, int, Parser]]:
        names = [field.strip().lower() for field in fields]
        for name in names:
            self._check_column(1, name)
        for name in names:
            if names.count(name) > 1:
                self.refuse(1, f"the column {shown(name)} is there twice")
        for name in self.columns.required:
            if name not in names:
                self.refuse(1, f"the column {shown(name)} is missing", self.columns.described())
        return [
            (name, self.columns.names.index(name), self.columns.columns[name]) for name in names
        ]

    def _json_lines(self, lines: Iterator[str]) -> Iterator[Record]:
        decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
        names = self.columns.names
        positions = {name: position for position, name in enumerate(names)}
        for line, text in enumerate(lines, start=1):
            if text.isspace():
                continue
            try:
                record = decoder.decode(text)
            except json.JSONDecodeError as error:
                self.refuse(
                    line,
                    f"broken JSON at character {error.pos + 1}: {error.msg}",
                    "Write one JSON object a line.",
                )
            except (ValueError, RecursionError) as error:
                self.refuse(line, f"broken JSON: {error}", "Write one JSON object a line.")
            if not isinstance(record, dict):
                self.refuse(
                    line,
                    f"a JSON {_json_type(record)}, but must be an object",
                    self.columns.described(),
                )
            values: list[Any] = [None] * len(names)
            for name, value in record.items():
                if name not in positions:
                    self._check_column(line, name)
                if value is None or value == "":
                    continue
                try:
                    values[positions[name]] = self.columns.columns[name](value)
                except BadValue:
                    self._refuse_value(line, name, value)
            for name in self.columns.required:
                if values[positions[name]] is None:
                    self._refuse_missing(line, name)
            yield line, values

    def _check_column(self, line: int, name: str) -> None:
        if name not in self.columns.columns:
            self.refuse(
                line,
                f"{shown(name)} is not a column of a {self.columns.kind} file",
                self.columns.described(),
            )

    def _refuse_missing(self, line: int, name: str) -> NoReturn:
        self.refuse(line, f"{name} is missing", self.columns.described())

    def _refuse_value(self, line: int, name: str, value: Any) -> NoReturn:
        try:
            self.columns.parse(name, value)
        except BadValue as bad:
            self.refuse(line, bad.expected, bad.hint)
        raise AssertionError(f"{name} was refused and is now taken")  # pragma: no cover


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{shown(twice)} is there twice")
    return record


def _no_constant(written: str) -> NoReturn:
    raise ValueError(f"{written} is not a number of JSON")


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    if isinstance(value, (str, list)):
        return "string" if isinstance(value, str) else "array"
    return "number"
