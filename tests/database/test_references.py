"""New rows reference what is there: also what another transaction is deleting meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest

Connection = psycopg.Connection[Any]

NODE = (
    "insert into aiq.nodes (entity_type, source_table, source_pk) values ('thing', 't', %s)"
    " returning id"
)
KEY = "insert into aiq.node_keys (node_id, key, kind) values (%s, 'a key', 'alias')"
EDGE = (
    "insert into aiq.edges (src_id, dst_id, relation, weight) values (%s, %s, 'near', 1)"
    " returning id"
)
NOWHERE = 10**12


@pytest.fixture
def connection(empty_dsn: str) -> Iterator[Connection]:
    """A superuser's connection to a database with one type and one relation."""
    with psycopg.connect(empty_dsn, autocommit=True) as opened:
        opened.execute(
            "truncate aiq.entity_types, aiq.nodes restart identity cascade;"
            "insert into aiq.entity_types (name, handle_prefix) values ('thing', 'T');"
            "insert into aiq.relations values ('thing', 'near', 'thing')"
        )
        yield opened
        opened.execute("truncate aiq.entity_types, aiq.nodes restart identity cascade")


@pytest.fixture
def other(empty_dsn: str) -> Iterator[Connection]:
    """Another superuser's connection, whose transactions are begun and ended by hand."""
    with psycopg.connect(empty_dsn) as opened:
        yield opened
        opened.rollback()


@pytest.fixture
def aside() -> Iterator[Callable[..., Future[Any]]]:
    """Start a statement in a thread of its own and see it wait for a lock."""
    with ThreadPoolExecutor(1) as pool:

        def start(watcher: Connection, connection: Connection, *call: Any) -> Future[Any]:
            pid = connection.info.backend_pid
            running = pool.submit(connection.execute, *call)
            until = monotonic() + 20
            while monotonic() < until:
                row = watcher.execute(
                    "select cardinality(pg_blocking_pids(%s)) > 0", (pid,)
                ).fetchone()
                assert row is not None
                if row[0]:
                    return running
                sleep(0.01)
            raise AssertionError("the statement does not wait")

        yield start


def made(connection: Connection, number: str) -> int:
    row = connection.execute(NODE, (number,)).fetchone()
    assert row is not None
    return int(row[0])


def count(connection: Connection, table: str) -> int:
    row = connection.execute(f"select count(*) from aiq.{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        (KEY.replace("%s", str(NOWHERE)), "node_keys_node_id_fkey"),
        (EDGE.replace("%s, %s", f"1, {NOWHERE}"), "edges_dst_id_fkey"),
        (EDGE.replace("%s, %s", f"{NOWHERE}, 1"), "edges_src_id_fkey"),
        (NODE.replace("'thing'", "'no such type'").replace("%s", "'x'"), "nodes_entity_type_fkey"),
    ],
)
def test_a_row_that_references_nothing_is_refused(
    connection: Connection, statement: str, constraint: str
) -> None:
    made(connection, "1")
    with pytest.raises(psycopg.errors.ForeignKeyViolation) as refused:
        connection.execute(statement.encode())
    assert refused.value.diag.constraint_name == constraint
    assert f'violates foreign key constraint "{constraint}"' in str(refused.value)
    assert [count(connection, table) for table in ("nodes", "node_keys", "edges")] == [1, 0, 0]


def test_one_missing_reference_among_many_rows_refuses_them_all(connection: Connection) -> None:
    node = made(connection, "1")
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match=str(NOWHERE)):
        connection.execute(
            "insert into aiq.node_keys (node_id, key, kind)"
            " select case g when 77 then %s else %s end, 'key ' || g, 'alias'"
            " from generate_series(1, 100) as g",
            (NOWHERE, node),
        )
    assert count(connection, "node_keys") == 0


def test_a_node_deleted_while_it_gets_a_key_takes_the_key_along(
    connection: Connection, other: Connection, aside: Callable[..., Future[Any]], empty_dsn: str
) -> None:
    node = made(connection, "1")
    other.execute(KEY, (node,))
    with psycopg.connect(empty_dsn, autocommit=True) as deleter:
        deleting = aside(connection, deleter, "delete from aiq.nodes where id = %s", (node,))
        other.commit()
        assert deleting.result(20).rowcount == 1
    assert count(connection, "node_keys") == 0


def test_a_node_that_gets_an_edge_meanwhile_is_not_deleted(
    connection: Connection, other: Connection, aside: Callable[..., Future[Any]], empty_dsn: str
) -> None:
    one, two = made(connection, "1"), made(connection, "2")
    other.execute(EDGE, (one, two))
    with psycopg.connect(empty_dsn, autocommit=True) as deleter:
        deleting = aside(connection, deleter, "delete from aiq.nodes where id = %s", (two,))
        other.commit()
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            deleting.result(20)
    assert [count(connection, table) for table in ("nodes", "edges")] == [2, 1]


@pytest.mark.parametrize(
    ("isolation", "refusal"),
    [
        ("read committed", psycopg.errors.ForeignKeyViolation),
        ("repeatable read", psycopg.errors.SerializationFailure),
        ("serializable", psycopg.errors.SerializationFailure),
    ],
)
@pytest.mark.parametrize("what", ["key", "edge"])
def test_a_row_waits_for_the_deletion_of_its_node_and_is_refused(
    connection: Connection, other: Connection, aside: Callable[..., Future[Any]], empty_dsn: str,
    isolation: str, refusal: type[psycopg.Error], what: str,
) -> None:  # fmt: skip
    node = made(connection, "1")
    other.execute("delete from aiq.nodes where id = %s", (node,))
    call = (KEY, (node,)) if what == "key" else (EDGE, (node, node))
    with psycopg.connect(empty_dsn, autocommit=True) as writer:
        writer.execute(f"set default_transaction_isolation = '{isolation}'".encode())
        writing = aside(connection, writer, *call)
        other.commit()
        with pytest.raises(refusal):
            writing.result(20)
    assert [count(connection, table) for table in ("nodes", "node_keys", "edges")] == [0, 0, 0]


def test_a_type_that_a_new_node_has_is_not_deleted(
    connection: Connection, other: Connection, aside: Callable[..., Future[Any]], empty_dsn: str
) -> None:
    connection.execute("delete from aiq.relations")
    other.execute(NODE, ("1",))
    with psycopg.connect(empty_dsn, autocommit=True) as deleter:
        deleting = aside(connection, deleter, "delete from aiq.entity_types")
        other.commit()
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            deleting.result(20)
    assert [count(connection, table) for table in ("nodes", "entity_types")] == [1, 1]
