"""A map of notes, topics and what refers to what, and callers who see parts of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg

from tests.support.facts import ORG_A, ORG_B, USER_A, USER_B

Connection: TypeAlias = psycopg.Connection[Any]

A, B = {"sub": USER_A}, {"sub": USER_B}
NOBODY: dict[str, Any] = {}

_EMPTY = f"""
truncate aiq.entity_vectors, aiq.entity_documents, aiq.embedding_models, aiq.link_rows,
    aiq.link_tables, aiq.entity_tables, aiq.edges, aiq.node_keys, aiq.nodes, aiq.relations,
    aiq.entity_types cascade;
drop schema if exists desk cascade;
create schema desk;
grant usage on schema desk to aiq_engine, authenticated;
insert into aiq.entity_types (name, handle_prefix, indexed)
values ('note', 'NT', true), ('topic', 'TP', true), ('hidden', 'HD', false);
insert into aiq.relations (src_type, relation, dst_type)
values ('note', 'about', 'topic'), ('note', 'cites', 'note'), ('topic', 'within', 'topic');
create table desk.notes (
    id int primary key, title text, body text, org uuid, visibility text, owner uuid,
    draft boolean not null default false
);
create table desk.topics (id int primary key, name text not null);
create table desk.cites (
    id int generated always as identity primary key, src int, dst int, weight real default 1
);
insert into rbac.orgs (id, slug) values ('{ORG_A}', 'a'), ('{ORG_B}', 'b') on conflict do nothing;
insert into rbac.users (id) values ('{USER_A}'), ('{USER_B}') on conflict do nothing;
insert into rbac.org_members (org_id, user_id)
values ('{ORG_A}', '{USER_A}'), ('{ORG_B}', '{USER_B}') on conflict do nothing;
"""
# Notes that the product lets its callers open: all but those in desk.closed.
POLICY = """
create table desk.closed (id int primary key);
create function desk.may_open(p_nodes bigint[]) returns setof bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select n.id from aiq.nodes as n
    where n.id = any (p_nodes)
        and not exists (select from desk.closed as c where c.id::text = n.source_pk)
$$;
grant execute on function desk.may_open(bigint[]) to authenticated;
"""


@contextmanager
def mapping(dsn: str) -> Iterator[Connection]:
    """A superuser's connection to a database whose tables are there and are not registered."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_EMPTY.encode())
        yield connection


def register(connection: Connection, **more: str | None) -> None:
    """Register the notes with titles and bodies, the topics by name, and what cites what."""
    arguments = {
        "p_org_expr": "org", "p_visibility_expr": "visibility", "p_owner_expr": "owner",
        "p_number_expr": "id", "p_include_where": "not draft", "p_title_expr": "title",
        "p_body_expr": "body",
    } | more  # fmt: skip
    written = ", ".join(f"{name} => %s" for name in arguments)
    connection.execute(
        f"select aiq.register_entity_table('note', 'desk.notes', 'title', {written})".encode(),
        list(arguments.values()),
    )
    connection.execute(
        "select aiq.register_entity_table("
        "'topic', 'desk.topics', 'name', p_number_expr => 'id', p_title_expr => 'name')"
    )
    connection.execute(
        "select aiq.register_link_table('desk.cites', 'cites', 'note', 'note', 'src', 'dst',"
        " p_weight_expr => 'weight')"
    )


def put(connection: Connection, *notes: dict[str, Any]) -> None:
    """Insert notes."""
    columns = "id, title, body, org, visibility, owner, draft"
    connection.execute(
        f"insert into desk.notes ({columns})"
        " select id, title, body, org, visibility, owner, coalesce(draft, false)"
        " from jsonb_populate_recordset(null::desk.notes, %s)".encode(),
        [json.dumps(notes)],
    )


def cite(connection: Connection, *pairs: tuple[int, int] | tuple[int, int, float]) -> None:
    """Insert citations, with their weights where they have one."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into desk.cites (src, dst, weight) values (%s, %s, %s)",
            [(*pair, 1)[:3] for pair in pairs],
        )


def ask(
    connection: Connection, function: str, *arguments: Any, claims: Any = None, **named: Any
) -> Any:
    """Call a function of the map as a caller; give its answer."""
    written = [*("%s" for _ in arguments), *(f"{name} => %s" for name in named)]
    with connection.transaction():
        claim(connection, claims)
        row = connection.execute(
            f"select aiq.{function}({', '.join(written)})".encode(),
            [*arguments, *named.values()],
        ).fetchone()
    assert row
    return row[0]


def claim(connection: Connection, claims: Any) -> None:
    """Become a caller until the transaction ends."""
    connection.execute(
        "select set_config('request.jwt.claims', %s, true)",
        ["" if claims is None else json.dumps(claims)],
    )
    connection.execute("set local role authenticated")


def refusal(
    connection: Connection, function: str, *arguments: Any, claims: Any = None, **named: Any
) -> tuple[str | None, str | None, str | None]:
    """Call a function that must refuse; give SQLSTATE, sentence and hint."""
    try:
        answer = ask(connection, function, *arguments, claims=claims, **named)
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_hint
    raise AssertionError(f"not refused: {answer}")


def found(connection: Connection, query: str, claims: Any = None, **named: Any) -> list[str]:
    """The handles that a search finds, the best first."""
    return handles(ask(connection, "search_entities", query, claims=claims, **named))


def near(connection: Connection, handle: str, claims: Any = None, **named: Any) -> list[str]:
    """The handles that are one hop away, strongest first."""
    return handles(ask(connection, "neighbors", handle, claims=claims, **named))


def handles(answer: dict[str, Any]) -> list[str]:
    """The handles of an answer's rows."""
    rows: Sequence[dict[str, Any]] = answer["rows"]
    return [row["handle"] for row in rows]
