"""The investigation sample, loaded as its application would keep it: tables, registered."""

from __future__ import annotations

from typing import Any

from psycopg import Connection, Cursor
from psycopg.sql import SQL, Composed, Identifier

from graphalgo.loading.connecting import connected, require_schema
from graphalgo.samples.investigation import (
    REFERENCES,
    SCHEMA,
    entities,
    investigation_json,
    references,
    routes,
)

_TYPE = """
insert into aiq.entity_types (name, handle_prefix, description, indexed)
values (%(name)s, %(handle_prefix)s, %(description)s, %(indexed)s)
on conflict (name) do nothing
"""
_RELATION = """
insert into aiq.relations (src_type, relation, dst_type) values (%s, %s, %s)
on conflict do nothing
"""
_MAKE_SCHEMA = SQL("create schema if not exists {0}; grant usage on schema {0} to aiq_engine")
_MAKE_TABLE = SQL("""
create table if not exists {table} (
    id int primary key, title text not null, body text not null, org uuid,
    visibility text not null default 'org', owner uuid
)
""")
_MAKE_ROUTE = SQL("""
create table if not exists {table} (
    src int not null references {src} (id), dst int not null references {dst} (id),
    primary key (src, dst)
)
""")
_PUT = SQL("""
insert into {table} (id, title, body) values (%s, %s, %s)
on conflict (id) do update set title = excluded.title, body = excluded.body
""")
_PUT_REFERENCE = SQL("insert into {table} (src, dst) values (%s, %s) on conflict do nothing")
_REGISTER = """
select aiq.register_entity_table(
    %(kind)s, %(table)s::regclass, p_key_expr => 'title', p_summary_expr => 'title',
    p_org_expr => 'org', p_visibility_expr => 'visibility', p_owner_expr => 'owner',
    p_number_expr => 'id', p_title_expr => 'title', p_body_expr => 'body'
)
"""
_REGISTER_ROUTE = """
select aiq.register_link_table(
    %(table)s::regclass, %(relation)s, %(src)s, %(dst)s, p_src_expr => 'src', p_dst_expr => 'dst'
)
"""


def load_investigation(connection: Connection[Any] | str) -> None:
    """Load the investigation sample; loading it again puts its rows back as they were.

    Parameters
    ----------
    connection : psycopg.Connection or str
        A connection or a DSN, of a superuser.

    Raises
    ------
    MissingSetting
        graphalgo is not installed in the database (55000).

    Notes
    -----
    Each type has a table in schema `investigation`, and each route one with `src`
    and `dst`: what is written there from now on is in the graph at once. Every row
    is shared by all until its `org`, `visibility` or `owner` says otherwise.
    """
    sample = investigation_json()
    with connected(connection) as opened:
        require_schema(opened)
        with opened.transaction(), opened.cursor() as cursor:
            cursor.executemany(_TYPE, sample["entity_types"])
            cursor.executemany(_RELATION, [(src, REFERENCES, dst) for src, dst in routes(sample)])
            _make_tables(cursor, sample)
            for kind, number, entity in entities(sample):
                put = _PUT.format(table=_table(kind))
                cursor.execute(put, (number, entity["title"], entity["body"]))
            for src, source, dst, target in references(sample):
                cursor.execute(_PUT_REFERENCE.format(table=_route(src, dst)), (source, target))
            _register(cursor, sample)


def _make_tables(cursor: Cursor[Any], sample: dict[str, Any]) -> None:
    cursor.execute(_MAKE_SCHEMA.format(Identifier(SCHEMA)))
    for each in sample["entity_types"]:
        cursor.execute(_MAKE_TABLE.format(table=_table(each["name"])))
    for src, dst in routes(sample):
        tables = {"src": _table(src), "dst": _table(dst)}
        cursor.execute(_MAKE_ROUTE.format(table=_route(src, dst), **tables))


def _register(cursor: Cursor[Any], sample: dict[str, Any]) -> None:
    for each in sample["entity_types"]:
        name = each["name"]
        cursor.execute(_REGISTER, {"kind": name, "table": _written(cursor, _table(name))})
    for src, dst in routes(sample):
        table = _written(cursor, _route(src, dst))
        named = {"table": table, "relation": REFERENCES, "src": src, "dst": dst}
        cursor.execute(_REGISTER_ROUTE, named)


def _table(kind: str) -> Composed:
    return Composed([Identifier(SCHEMA, kind)])


def _route(src: str, dst: str) -> Composed:
    return Composed([Identifier(SCHEMA, f"{src}_{dst}")])


def _written(cursor: Cursor[Any], name: Composed) -> str:
    return name.as_string(cursor)
