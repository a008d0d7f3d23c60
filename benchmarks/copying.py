"""Binary COPY straight from numpy arrays.

Rows in which every value has the same width have the same layout, so they are written as one
structured array. A block of rows is split by the widths of its texts; a block of 65,536 rows with
names of forty lengths is forty arrays, not 65,536 calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
BLOCK_ROWS = 65_536


class Column:
    """The values of one column: `kind` is a numpy type, or "text" for byte strings.

    Parameters
    ----------
    name : str
        The column's name in the table.
    values : numpy.ndarray or scalar
        One value a row; a scalar stands for all rows.
    kind : str
        ``>i8`` (bigint), ``>i4``, ``>f4`` (real), ``u1`` (boolean) or ``text``.
    present : numpy.ndarray of bool, optional
        False where the value is null.
    """

    def __init__(
        self, name: str, values: Any, kind: str, present: np.ndarray | None = None
    ) -> None:
        self.name = name
        self.values = np.asarray(values)
        self.kind = kind
        self.present = present

    def block(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Give the values and their widths in bytes (-1: null) of some rows."""
        count = rows.stop - rows.start
        values = self.values[rows] if self.values.ndim else np.broadcast_to(self.values, count)
        if self.kind == "text":
            widths = np.char.str_len(values).astype(np.int64)
        else:
            widths = np.full(count, np.dtype(self.kind).itemsize, dtype=np.int64)
        if self.present is not None:
            widths = np.where(self.present[rows], widths, -1)
        return values, widths


def encoded(columns: Sequence[Column], rows: slice) -> Iterator[bytes]:
    """Yield some rows in COPY's binary format, those of one layout together."""
    blocks = [column.block(rows) for column in columns]
    widths = np.stack([width for _, width in blocks], axis=1)
    layouts, which = np.unique(widths, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(which.reshape(-1), minlength=len(layouts)))
    start = 0
    for layout, end in zip(layouts.tolist(), ends.tolist(), strict=True):
        chosen = order[start:end]
        start = end
        yield _one_layout(columns, [values[chosen] for values, _ in blocks], layout, len(chosen))


def _one_layout(
    columns: Sequence[Column], values: Sequence[np.ndarray], layout: Sequence[int], count: int
) -> bytes:
    fields: list[tuple[str, str]] = [("count", ">i2")]
    for number, (column, width) in enumerate(zip(columns, layout, strict=True)):
        fields.append((f"width{number}", ">i4"))
        if width > 0:
            fields.append((f"value{number}", f"S{width}" if column.kind == "text" else column.kind))
    records = np.zeros(count, dtype=fields)
    records["count"] = len(columns)
    for number, width in enumerate(layout):
        records[f"width{number}"] = width
        if width > 0:
            records[f"value{number}"] = values[number]
    return records.tobytes()


def copy_rows(
    connection: psycopg.Connection[Any],
    table: str,
    columns: Sequence[Column],
    count: int,
    advance: Callable[[int], None],
    *,
    freeze: bool = True,
) -> None:
    """Append rows to a table of schema ``aiq`` by COPY.

    Parameters
    ----------
    connection : psycopg.Connection
        Inside a transaction; with `freeze` one that has truncated the table.
    table : str
        The table's name.
    columns : sequence of Column
        What to write.
    count : int
        How many rows.
    advance : callable
        Is told after each block how many rows it had.
    freeze : bool
        Whether the rows are written as visible to everyone, sparing a later vacuum.
    """
    statement = sql.SQL("copy {} ({}) from stdin with (format binary{})").format(
        sql.Identifier("aiq", table),
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        sql.SQL(", freeze" if freeze else ""),
    )
    with connection.cursor().copy(statement) as copy:
        copy.write(HEADER)
        for start in range(0, count, BLOCK_ROWS):
            rows = slice(start, min(count, start + BLOCK_ROWS))
            for chunk in encoded(columns, rows):
                copy.write(chunk)
            advance(rows.stop - rows.start)
        copy.write(TRAILER)
