"""Reading the ontology from the database, and making the database agree with another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from psycopg import Connection, Cursor
from psycopg.rows import tuple_row

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.loading.connecting import connected, require_schema
from graphalgo.ontology.declarations import EntityType, Ontology, Route
from graphalgo.ontology.differences import Change, differences, with_use

_TYPES = "select name, handle_prefix, description, indexed from aiq.entity_types order by name"
_ROUTES = """
select src_type, relation, dst_type, inverse_label, description
from aiq.relations
order by src_type, relation, dst_type
"""

# Row security would hide what is in use by others: where it would, this is refused.
_BEGIN = """
set local row_security = off;
lock table aiq.entity_types, aiq.relations in share row exclusive mode
"""
# Nothing comes into use while it is looked at and dropped.
_HOLD = "lock table aiq.nodes, aiq.edges in share row exclusive mode"

_TYPE_USE = """
select
    (select count(*) from aiq.nodes where entity_type = %(name)s),
    (
        select string_agg(distinct source_table, ', ' order by source_table)
        from (
            select source_table from aiq.entity_tables where entity_type = %(name)s
            union all
            select source_table from aiq.link_tables where %(name)s in (src_type, dst_type)
        ) as t
    )
"""
_ROUTE_USE = """
select
    (
        select count(*)
        from aiq.edges as e
        join aiq.nodes as s on s.id = e.src_id
        join aiq.nodes as d on d.id = e.dst_id
        where
            e.relation = %(relation)s and s.entity_type = %(src_type)s
            and d.entity_type = %(dst_type)s
    ),
    (
        select string_agg(distinct source_table, ', ' order by source_table)
        from aiq.link_tables
        where
            relation = %(relation)s and src_type = %(src_type)s and dst_type = %(dst_type)s
    )
"""

_DROP_ROUTE = "delete from aiq.relations where (src_type, relation, dst_type) = (%s, %s, %s)"
_DROP_TYPE = "delete from aiq.entity_types where name = %s"
# Two types may trade their prefixes: first both give theirs up.
_FREE_PREFIX = """
update aiq.entity_types set handle_prefix = 'changing_' || md5(name) where name = %s
"""
_PUT_TYPE = """
insert into aiq.entity_types (name, handle_prefix, description, indexed)
values (%s, %s, %s, %s)
on conflict (name) do update
set handle_prefix = excluded.handle_prefix, description = excluded.description,
    indexed = excluded.indexed
"""
_PUT_ROUTE = """
insert into aiq.relations (src_type, relation, dst_type, inverse_label, description)
values (%s, %s, %s, %s, %s)
on conflict (src_type, relation, dst_type) do update
set inverse_label = excluded.inverse_label, description = excluded.description
"""

_MOST_NAMED = 10


class InUse(GraphAlgoError):
    """What a declaration leaves out is in use (2BP01)."""

    sqlstate = "2BP01"


def current(connection: Connection[Any] | str) -> Ontology:
    """Read the ontology from the database.

    Parameters
    ----------
    connection : psycopg.Connection or str
        A connection or a DSN.

    Raises
    ------
    MissingSetting
        graphalgo is not installed in the database (55000).
    """
    with connected(connection) as opened:
        require_schema(opened)
        with opened.cursor(row_factory=tuple_row) as cursor:
            return _read(cursor)


def difference(
    connection: Connection[Any] | str, wanted: Ontology, *, keep_used: bool = False
) -> list[Change]:
    """Tell what :func:`apply` would do, and change nothing."""
    with connected(connection) as opened:
        require_schema(opened)
        with (
            opened.transaction(force_rollback=True),
            opened.cursor(row_factory=tuple_row) as cursor,
        ):
            cursor.execute("set local row_security = off")
            return _changes(cursor, wanted, keep_used)


def apply(
    connection: Connection[Any] | str, wanted: Ontology, *, keep_used: bool = False
) -> list[Change]:
    """Make the database's ontology the one that is declared, in one transaction.

    Parameters
    ----------
    connection : psycopg.Connection or str
        A connection or a DSN, of a superuser.
    wanted : Ontology
        All of it: what is not in it is dropped.
    keep_used : bool
        Keep what would be dropped and is in use.

    Returns
    -------
    list of Change
        What was done, and what was kept.

    Raises
    ------
    InUse
        Something to be dropped is in use, and nothing is changed (2BP01).
    MissingSetting
        graphalgo is not installed in the database (55000).

    Notes
    -----
    Costs a few statements, and for each thing that is dropped a count of what
    stands on it. Nobody writes nodes or edges meanwhile.
    """
    with connected(connection) as opened:
        require_schema(opened)
        with opened.transaction(), opened.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(_BEGIN)
            if any(change.after is None for change in differences(_read(cursor), wanted)):
                cursor.execute(_HOLD)
            changes = _changes(cursor, wanted, keep_used)
            _refuse_used(changes)
            _write(cursor, changes)
            return changes


def _read(cursor: Cursor[Any]) -> Ontology:
    types = [EntityType(*row) for row in cursor.execute(_TYPES).fetchall()]
    routes = [Route(*row) for row in cursor.execute(_ROUTES).fetchall()]
    return Ontology(types, routes)


def _changes(cursor: Cursor[Any], wanted: Ontology, keep_used: bool) -> list[Change]:
    changes = [
        with_use(change, _use(cursor, change), keep_used)
        for change in differences(_read(cursor), wanted)
    ]
    kept = {
        end
        for change in changes
        if change.kept and isinstance(change.before, Route)
        for end in (change.before.src_type, change.before.dst_type)
    }
    # A type stays as long as a route stands on it.
    return [
        with_use(change, change.use or "a route of it is kept", True)
        if change.drops and isinstance(change.before, EntityType) and change.before.name in kept
        else change
        for change in changes
    ]


def _use(cursor: Cursor[Any], change: Change) -> str | None:
    """Say what stands on a thing that is to go, or whose handles are to change."""
    before, after = change.before, change.after
    if isinstance(before, EntityType):
        renames = isinstance(after, EntityType) and after.handle_prefix != before.handle_prefix
        if after is not None and not renames:
            return None
        count, tables = _one(cursor, _TYPE_USE, {"name": before.name})
        if renames:
            return (
                f"the handles of {_counted(count, 'entity', 'entities')} change" if count else None
            )
        return _said(_counted(count, "entity", "entities") if count else None, tables)
    if isinstance(before, Route) and after is None:
        named = {"src_type": before.src_type, "relation": before.relation}
        count, tables = _one(cursor, _ROUTE_USE, {**named, "dst_type": before.dst_type})
        return _said(_counted(count, "edge", "edges") if count else None, tables)
    return None


def _one(cursor: Cursor[Any], statement: str, arguments: dict[str, str]) -> tuple[int, str | None]:
    row = cursor.execute(statement.encode(), arguments).fetchone()
    assert row is not None
    return row[0], row[1]


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _said(rows: str | None, tables: str | None) -> str | None:
    said = [part for part in (rows, f"registered tables {tables}" if tables else None) if part]
    return f"in use by {' and '.join(said)}" if said else None


def _refuse_used(changes: Iterable[Change]) -> None:
    used = [change.line().removeprefix("- ") for change in changes if change.drops and change.use]
    if not used:
        return
    more = f"; and {len(used) - _MOST_NAMED} more" if len(used) > _MOST_NAMED else ""
    raise InUse(
        f"what is in use is not dropped: {'; '.join(used[:_MOST_NAMED])}{more}",
        "Declare it, unregister its tables and remove its rows, or keep it with --keep-used.",
    )


def _write(cursor: Cursor[Any], changes: list[Change]) -> None:
    for change in changes:
        if change.drops and isinstance(change.before, Route):
            cursor.execute(_DROP_ROUTE, change.before.name)
    for change in changes:
        if change.drops and isinstance(change.before, EntityType):
            cursor.execute(_DROP_TYPE, [change.before.name])
    for change in changes:
        before, after = change.before, change.after
        if (
            isinstance(before, EntityType)
            and isinstance(after, EntityType)
            and before.handle_prefix != after.handle_prefix
        ):
            cursor.execute(_FREE_PREFIX, [before.name])
    for change in changes:
        after = change.after
        if isinstance(after, EntityType):
            row = (after.name, after.handle_prefix, after.description, after.indexed)
            cursor.execute(_PUT_TYPE, row)
        elif isinstance(after, Route):
            cursor.execute(_PUT_ROUTE, [*after.name, after.inverse_label, after.description])
