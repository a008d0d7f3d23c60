"""A text source of notes with vectors, seen by callers of two organisations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg

from graphalgo.stores.client import ClientStore
from tests.support.facts import ORG_A, ORG_B, USER_A, USER_B

Connection: TypeAlias = psycopg.Connection[Any]

_TENANTS = f"""
insert into rbac.orgs (id, slug) values ('{ORG_A}', 'a'), ('{ORG_B}', 'b') on conflict do nothing;
insert into rbac.users (id) values ('{USER_A}'), ('{USER_B}') on conflict do nothing;
insert into rbac.org_members (org_id, user_id)
values ('{ORG_A}', '{USER_A}'), ('{ORG_B}', '{USER_B}') on conflict do nothing;
"""
_EMPTY = """
truncate aiq.chunk_vectors, aiq.text_chunks, aiq.text_sources, aiq.embedding_models,
    aiq.entity_tables, aiq.link_tables, aiq.link_rows cascade;
drop schema if exists harbour cascade;
create schema harbour;
grant usage on schema harbour to public;
"""
TABLE = """
create table harbour.notes (
    id int primary key, title text, content text, org uuid, visibility text, owner uuid
);
"""
REGISTER = (
    "select * from aiq.register_text_source('notes', 'harbour.notes', 'id', 'content',"
    " p_title_column => 'title', p_org_expr => 'org', p_visibility_expr => 'visibility',"
    " p_owner_expr => 'owner')"
)


@contextmanager
def empty_tables(dsn: str) -> Iterator[Connection]:
    """A superuser's connection to a database with two tenants and no source of texts."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_EMPTY)
        connection.execute(_TENANTS)
        yield connection


@contextmanager
def speaking(connection: Connection, sub: str | None) -> Iterator[ClientStore]:
    """The store of a caller, for some statements of a superuser's connection."""
    claims = "" if sub is None else json.dumps({"sub": sub})
    with connection.transaction():
        connection.execute("set local role authenticated")
        connection.execute("select set_config('request.jwt.claims', %s, true)", (claims,))
        yield ClientStore(connection)
        connection.execute("set local role none")
        connection.execute("select set_config('request.jwt.claims', '', true)")


def put(
    connection: Connection,
    ids: Sequence[Any],
    vectors: Sequence[Sequence[float]],
    *,
    source: str = "notes",
    model: str = "small",
    digests: Sequence[str] | None = None,
) -> int:
    """Write vectors as a worker does."""
    with connection.transaction():
        connection.execute("set local role aiq_worker")
        row = connection.execute(
            "select aiq.put_embeddings(%s, %s, %s::text[], %s::text::real[], %s::text[])",
            (source, model, [str(one) for one in ids], array_text(vectors), digests),
        ).fetchone()
        connection.execute("set local role none")
    assert row is not None
    return int(row[0])


def array_text(vectors: Any) -> str:
    """Write lists of numbers as PostgreSQL does."""
    if isinstance(vectors, str):
        return vectors
    if isinstance(vectors, (list, tuple)):
        return "{" + ",".join(map(array_text, vectors)) + "}"
    return "null" if vectors is None else str(vectors)


def held(connection: Connection, source: str = "notes") -> dict[str, str]:
    """The contents of the passages, whoever may see them, by id."""
    rows = connection.execute(
        "select c.row_id, c.content from aiq.text_chunks as c"
        " join aiq.text_sources as s on s.id = c.source_id where s.name = %s order by c.id",
        (source,),
    ).fetchall()
    return {row[0]: row[1] for row in rows}


def embedded(connection: Connection) -> list[str]:
    """The ids of the passages that have vectors."""
    rows = connection.execute(
        "select c.row_id from aiq.chunk_vectors as v join aiq.text_chunks as c on c.id = v.chunk_id"
        " order by c.row_number, c.row_id"
    ).fetchall()
    return [row[0] for row in rows]
