"""From a file into a temporary table, through COPY, each row checked on its way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from psycopg import Cursor, sql
from psycopg.rows import TupleRow

from graphalgo.engine.folding import fold_key
from graphalgo.loading.reading import Reader
from graphalgo.loading.vocabulary import Vocabulary

# Column and type: the order is that of the rows which the functions below yield.
NODE_COLUMNS = {
    "line": "bigint",
    "ref": 'text collate "C"',
    "entity_type": 'text collate "C"',
    "claimed_kind": 'text collate "C"',
    "soft_name": 'text collate "C"',
    "summary": "text",
    "handle_number": "bigint",
    "org_id": "uuid",
    "visibility": 'text collate "C"',
    "owner_id": "uuid",
}
KEY_COLUMNS = {
    "line": "bigint",
    "ref": 'text collate "C"',
    "key": 'text collate "C"',
    "kind": 'text collate "C"',
    "is_name": "boolean",
}
EDGE_COLUMNS = {
    "line": "bigint",
    "src": 'text collate "C"',
    "relation": 'text collate "C"',
    "dst": 'text collate "C"',
    "weight": "real",
    "valid_from": "timestamptz",
    "valid_to": "timestamptz",
    "memory": 'text collate "C"',
    "org_id": "uuid",
    "visibility": 'text collate "C"',
    "owner_id": "uuid",
}

Row = tuple[Any, ...]


def stage(
    cursor: Cursor[TupleRow],
    table: str,
    columns: dict[str, str],
    rows: Iterator[Row],
) -> int:
    """Copy rows into a temporary table that lives as long as the transaction.

    Parameters
    ----------
    cursor : psycopg.Cursor
        In the load's transaction.
    table : str
        The table's name; a table of that name from an earlier load is dropped.
    columns : dict
        The columns' types by name.
    rows : iterator of tuples
        In the order of the columns.

    Returns
    -------
    int
        How many rows there were.
    """
    name = sql.Identifier("pg_temp", table)
    make_table(cursor, table, columns)
    statement = sql.SQL("copy {} ({}) from stdin").format(
        name, sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    count = 0
    with cursor.copy(statement) as copy:
        write = copy.write_row
        for row in rows:
            write(row)
            count += 1
    # The planner knows nothing of a table that is a moment old.
    cursor.execute(sql.SQL("analyze {}").format(name))
    return count


def make_table(cursor: Cursor[TupleRow], table: str, columns: dict[str, str]) -> None:
    """Make an empty temporary table that lives as long as the transaction."""
    name = sql.Identifier("pg_temp", table)
    cursor.execute(sql.SQL("drop table if exists {}").format(name))
    cursor.execute(
        sql.SQL("create temporary table {} ({}) on commit drop").format(
            sql.Identifier(table),
            sql.SQL(", ").join(
                sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(kind))
                for column, kind in columns.items()
            ),
        )
    )


def node_rows(reader: Reader, vocabulary: Vocabulary) -> Iterator[Row]:
    """Yield a nodes file's rows for the temporary table."""
    types = vocabulary.prefixes
    for line, values in reader:
        ref, entity_type, kind, name, summary, number, org_id, visibility, owner_id = values
        if entity_type is not None:
            if entity_type not in types:
                vocabulary.check_type(reader, line, "entity_type", entity_type)
            if kind is not None or name is not None:
                reader.refuse(
                    line,
                    "a node has an entity_type, or a claimed_kind and a name, but not both",
                    "Leave claimed_kind and name empty; a typed node's names go into a keys file.",
                )
        elif kind is None or name is None:
            reader.refuse(
                line,
                "a node needs an entity_type, or (a soft node) a claimed_kind and a name",
                "Fill in entity_type, or both claimed_kind and name.",
            )
        elif number is not None:
            reader.refuse(
                line,
                "a soft node has no handle_number: its handle is soft- and its id",
                "Leave handle_number empty.",
            )
        else:
            # As it was written is the best there is to show of it.
            summary = summary or name
            name = fold_key(name)
        visibility = _visibility(reader, line, visibility, owner_id)
        yield line, ref, entity_type, kind, name, summary, number, org_id, visibility, owner_id


def key_rows(reader: Reader) -> Iterator[Row]:
    """Yield a keys file's rows for the temporary table."""
    for line, (ref, key, kind, is_name) in reader:
        yield line, ref, key, kind or "canonical", True if is_name is None else is_name


def edge_rows(reader: Reader, vocabulary: Vocabulary, now: datetime) -> Iterator[Row]:
    """Yield an edges file's rows for the temporary table; a start not stated is `now`."""
    relations = vocabulary.relations
    for line, values in reader:
        source, relation, target, weight, start, end, memory, org_id, visibility, owner_id = values
        if relation not in relations:
            vocabulary.check_relation(reader, line, relation)
        if end is not None:
            if start is None:
                reader.refuse(
                    line,
                    "an edge with a valid_to needs a valid_from",
                    "Say from when the edge held.",
                )
            if end < start:
                reader.refuse(
                    line,
                    f"valid_to {_shown(end)} is before valid_from {_shown(start)}",
                    "Write the later of the two as valid_to.",
                )
        visibility = _visibility(reader, line, visibility, owner_id)
        yield (
            line, source, relation, target, weight, start or now, end, memory, org_id, visibility,
            owner_id,
        )  # fmt: skip


def _visibility(reader: Reader, line: int, visibility: str | None, owner_id: object) -> str:
    if visibility == "private" and owner_id is None:
        reader.refuse(
            line, "visibility is private, but there is no owner_id", "Say whose the row is."
        )
    return visibility or "org"


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
