"""Loading a generated graph into a database that graphalgo is installed in.

The load takes the shortest way that a superuser has: triggers and foreign keys are not run
(``session_replication_role``), the indexes are dropped before and made again after. What is copied
keeps every promise the triggers make, and the catalogue afterwards is compared with the one before:
the benchmark measures exactly the installed schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from psycopg import sql

from benchmarks.copying import Column, copy_rows
from benchmarks.generators import ENTITY_TYPES, KEY_KINDS, RELATIONS, SOFT, SOFT_KIND, Graph

TABLES = ("nodes", "node_keys", "edges")
DAY = 86_400_000_000
# 2020-01-01, in microseconds since PostgreSQL's epoch of 2000-01-01.
START = 7_305 * DAY

# What the measurements need beside the graph. The peers' table holds the four
# columns that they read, with the two indexes that a user would make.
EXTRAS = """
create schema benchmark;
grant usage on schema benchmark to public;
create function benchmark.nothing() returns integer language plpython3u
    as 'return None';
create table benchmark.edges as
    select src_id, dst_id, relation, weight from aiq.edges where valid_to is null;
create index on benchmark.edges (src_id);
create index on benchmark.edges (dst_id);
grant select on benchmark.edges to public;
"""

CATALOGUE = """
select 'index', c.relname::text, pg_catalog.pg_get_indexdef(c.oid), i.indisvalid::text,
    coalesce(obj_description(c.oid, 'pg_class'), ''), pg_get_userbyid(c.relowner)::text
from pg_catalog.pg_index as i join pg_catalog.pg_class as c on c.oid = i.indexrelid
where c.relnamespace = 'aiq'::regnamespace
union all
select 'constraint', conrelid::regclass::text || '.' || conname, pg_get_constraintdef(oid),
    convalidated::text, coalesce(obj_description(oid, 'pg_constraint'), ''), ''
from pg_catalog.pg_constraint where connamespace = 'aiq'::regnamespace
union all
select 'trigger', t.tgrelid::regclass::text || '.' || t.tgname, pg_get_triggerdef(t.oid),
    t.tgenabled::text, '', ''
from pg_catalog.pg_trigger as t
join pg_catalog.pg_class as c on c.oid = t.tgrelid
where c.relnamespace = 'aiq'::regnamespace and not t.tgisinternal
order by 1, 2
"""

LOOSE_INDEXES = """
select c.relname::text, pg_catalog.pg_get_indexdef(c.oid), obj_description(c.oid, 'pg_class')
from pg_catalog.pg_index as i join pg_catalog.pg_class as c on c.oid = i.indexrelid
where i.indrelid = any (%s::regclass[])
    and not exists (select from pg_catalog.pg_constraint as k where k.conindid = c.oid)
order by c.relname
"""

Connection = psycopg.Connection[Any]
# Told what is being done, how much of it is done, and how much there is.
Report = Callable[[str, int, int], None]


def load(connection: Connection, graph: Graph, report: Report) -> None:
    """Replace what the graph's tables hold by a generated graph.

    Parameters
    ----------
    connection : psycopg.Connection
        A superuser's, in autocommit mode, to a database with graphalgo installed.
    graph : Graph
        What to load.
    report : callable
        Is told what is being done, how many rows (or indexes) are done, and how many there are.

    Raises
    ------
    RuntimeError
        If the schema afterwards is not the one before.
    """
    before = connection.execute(CATALOGUE).fetchall()
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute("set local maintenance_work_mem = '1GB'")
        indexes = _drop_indexes(connection)
        connection.execute("truncate aiq.nodes, aiq.node_keys, aiq.edges cascade")
        _declare(connection)
        _found(connection, graph.organisations)
        _copy_nodes(connection, graph, report)
        _copy_keys(connection, graph, report)
        _copy_edges(connection, graph, report)
        for number, (name, definition, comment) in enumerate(indexes):
            report(f"index {name}", number, len(indexes))
            connection.execute(definition)
            if comment is not None:
                connection.execute(
                    sql.SQL("comment on index {} is {}").format(
                        sql.Identifier("aiq", name), sql.Literal(comment)
                    )
                )
        _advance_identities(connection)
    for table in TABLES:
        report(f"analyze {table}", 0, 1)
        connection.execute(f"vacuum (analyze) aiq.{table}")
    after = connection.execute(CATALOGUE).fetchall()
    if before != after:
        raise RuntimeError(f"the load changed the schema: {sorted(set(before) ^ set(after))}")


def _drop_indexes(connection: Connection) -> list[tuple[str, str, str | None]]:
    indexes = connection.execute(LOOSE_INDEXES, ([f"aiq.{table}" for table in TABLES],)).fetchall()
    for name, _, _ in indexes:
        connection.execute(sql.SQL("drop index {}").format(sql.Identifier("aiq", name)))
    return [(str(name), str(definition), comment) for name, definition, comment in indexes]


def _declare(connection: Connection) -> None:
    """Declare the synthetic types, and every relation between any two of them."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into aiq.entity_types (name, handle_prefix, description)"
            " values (%s, %s, 'synthetic') on conflict do nothing",
            list(ENTITY_TYPES.items()),
        )
        cursor.execute(
            "insert into aiq.relations (src_type, relation, dst_type)"
            " select s, r, d from unnest(%s::text[]) as s, unnest(%s::text[]) as r,"
            " unnest(%s::text[]) as d on conflict do nothing",
            (list(ENTITY_TYPES), list(RELATIONS), list(ENTITY_TYPES)),
        )


def _found(connection: Connection, organisations: int) -> None:
    """Make the organisations and their users: 0 is a member of all, the others of one each."""
    connection.execute("truncate rbac.org_members, rbac.users, rbac.orgs cascade")
    with connection.cursor() as cursor:
        for number in range(organisations):
            org, user = organisation(number), number + 1
            cursor.execute(
                "insert into rbac.orgs (id, slug) values (%s, %s)", (org, f"organisation-{number}")
            )
            for member in (0, user):
                identity = f"00000000-0000-0000-0000-{member:012}"
                cursor.execute(
                    "insert into rbac.users (id) values (%s) on conflict do nothing", (identity,)
                )
                cursor.execute(
                    "insert into rbac.org_members (org_id, user_id) values (%s, %s)",
                    (org, identity),
                )


def organisation(number: int) -> UUID:
    """Give the id of an organisation."""
    return UUID(int=(1 << 64) + number)


def _audience(graph: Graph, name: str, nodes: np.ndarray) -> list[Column]:
    """Make the column of the organisations of some nodes; none where everyone sees them."""
    if not graph.organisations:
        return []
    ids = [organisation((node - 1) % graph.organisations) for node in range(graph.organisations)]
    return [Column(name, np.array([i.bytes for i in ids], dtype="S16")[nodes % len(ids)], "S16")]


def _copy_nodes(connection: Connection, graph: Graph, report: Report) -> None:
    typed = graph.node_types != SOFT
    names = np.array([name.encode() for name in ENTITY_TYPES])
    count = graph.node_count
    columns = [
        Column("id", np.arange(1, count + 1, dtype=np.int64), ">i8"),
        Column("entity_type", names[np.where(typed, graph.node_types, 0)], "text", typed),
        Column("claimed_kind", SOFT_KIND.encode(), "text", ~typed),
        Column("soft_name", graph.names, "text", ~typed),
        Column("summary", summaries(graph), "text"),
        *_audience(graph, "org_id", np.arange(1, count + 1)),
    ]
    copy_rows(connection, "nodes", columns, count, _counter(report, "nodes", count))


def summaries(graph: Graph) -> np.ndarray:
    """Write each node's summary, some fifty bytes."""
    return np.char.add(graph.names, b": synthetic, made for the benchmark")


def _copy_keys(connection: Connection, graph: Graph, report: Report) -> None:
    soft = graph.node_types == SOFT
    kinds = np.array([kind.encode() for kind in KEY_KINDS])
    node_count = graph.node_count
    own = np.where(soft, KEY_KINDS.index("alias"), KEY_KINDS.index("canonical"))
    # A node's keys stand together, its name first.
    nodes = np.concatenate([np.arange(1, node_count + 1, dtype=np.int64), graph.key_nodes])
    order = np.argsort(nodes, kind="stable")
    nodes = nodes[order]
    texts = np.concatenate([graph.names, graph.key_texts])[order]
    kind = np.concatenate([own, graph.key_kinds])[order]
    is_name = np.concatenate([np.ones(node_count, dtype=bool), graph.key_is_name])[order]
    # A soft node has its bare name alone.
    kept = ~soft[nodes - 1] | (order < node_count)
    columns = [
        Column("node_id", nodes[kept], ">i8"),
        Column("key", texts[kept], "text"),
        Column("kind", kinds[kind[kept]], "text"),
        Column("is_name", is_name[kept], "u1"),
        Column("soft", soft[nodes[kept] - 1], "u1"),
        *_audience(graph, "audience", nodes[kept]),
    ]
    count = int(kept.sum())
    copy_rows(connection, "node_keys", columns, count, _counter(report, "keys", count))


def _copy_edges(connection: Connection, graph: Graph, report: Report) -> None:
    count = graph.edge_count
    relations = np.array([relation.encode() for relation in RELATIONS])[graph.relations]
    total = count * (graph.history + 1)
    counter = _counter(report, "edges", total)
    first_id = 1
    # One period for every ten days, each nine days long; the last has no end.
    for period in range(graph.history + 1):
        began = START + 10 * DAY * period
        columns = [
            Column("id", np.arange(first_id, first_id + count, dtype=np.int64), ">i8"),
            Column("src_id", graph.sources, ">i8"),
            Column("dst_id", graph.targets, ">i8"),
            Column("relation", relations, "text"),
            Column("weight", graph.weights, ">f4"),
            Column("valid_from", began, ">i8"),
            *_audience(graph, "src_audience", graph.sources),
            *_audience(graph, "dst_audience", graph.targets),
        ]
        if period < graph.history:
            columns.append(Column("valid_to", began + 9 * DAY, ">i8"))
        copy_rows(connection, "edges", columns, count, counter)
        first_id += count


def _advance_identities(connection: Connection) -> None:
    for table in ("nodes", "edges"):
        connection.execute(
            f"select setval(pg_get_serial_sequence('aiq.{table}', 'id'),"
            f" greatest(1, (select max(id) from aiq.{table})))"
        )


def _counter(report: Report, what: str, total: int) -> Callable[[int], None]:
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        report(what, done, total)

    return advance
