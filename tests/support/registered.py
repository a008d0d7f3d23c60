"""A database with graphalgo and empty tables of its own, to register tables in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

Connection: TypeAlias = psycopg.Connection[Any]

OWNER = f"registering_owner_{os.getpid()}"
OTHER = f"registering_other_{os.getpid()}"
WRITER = f"registering_writer_{os.getpid()}"
ROLES = (OWNER, OTHER, WRITER)

_EMPTY = """
truncate aiq.link_rows, aiq.link_tables, aiq.entity_tables, aiq.edges, aiq.node_keys, aiq.nodes,
    aiq.link_verdicts, aiq.link_pair_queue, aiq.relations, aiq.entity_types cascade;
drop schema if exists harbour cascade;
create schema harbour;
grant usage on schema harbour to public;
insert into aiq.entity_types (name, handle_prefix) values ('vessel', 'VSL'), ('operator', 'OPR');
insert into aiq.relations (src_type, relation, dst_type)
values ('vessel', 'operated_by', 'operator'), ('operator', 'subsidiary_of', 'operator');
"""


@contextmanager
def registering(dsn: str) -> Iterator[Connection]:
    """A superuser's connection to a database that is as good as new."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_EMPTY)
        yield connection


@contextmanager
def with_roles(dsn: str) -> Iterator[None]:
    """The owner of tables, another one who may register, and one who only writes."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for role in ROLES:
            connection.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
        for role in (OWNER, OTHER):
            connection.execute(
                sql.SQL(
                    "grant authenticated to {0};"
                    "grant select, insert on aiq.registration_requests to {0}"
                ).format(sql.Identifier(role))
            )
    try:
        yield
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for role in ROLES:
                connection.execute(
                    sql.SQL("drop owned by {0} cascade; drop role {0}").format(sql.Identifier(role))
                )


@contextmanager
def acting_as(connection: Connection, role: str) -> Iterator[None]:
    """Run statements as another role."""
    connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
    try:
        yield
    finally:
        connection.execute("reset role")


def active(connection: Connection) -> dict[str, set[str]]:
    """The keys of the nodes that are not retired, by the primary key of their row, oldest first."""
    rows = connection.execute(
        "select n.source_pk, coalesce(array_agg(k.key) filter (where k.key is not null), '{}')"
        " from aiq.nodes as n left join aiq.node_keys as k on k.node_id = n.id"
        " where n.retired_at is null and n.entity_type is not null group by n.id order by n.id"
    ).fetchall()
    return {row[0]: set(row[1]) for row in rows}


def ids(connection: Connection) -> dict[str, int]:
    """Every node's id, retired ones too, by the primary key of its row."""
    rows = connection.execute("select source_pk, id from aiq.nodes").fetchall()
    return {row[0]: row[1] for row in rows}


def edges(connection: Connection) -> set[tuple[str, str, str]]:
    """The edges that hold now, whoever may see them: rows' primary keys and the relation."""
    rows = connection.execute(
        "select s.source_pk, e.relation, d.source_pk from aiq.edges as e"
        " join aiq.nodes as s on s.id = e.src_id join aiq.nodes as d on d.id = e.dst_id"
        " where e.valid_from <= now() and (e.ends_at is null or e.ends_at > now())"
    ).fetchall()
    return {(row[0], row[1], row[2]) for row in rows}
