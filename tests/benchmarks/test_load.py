"""A synthetic graph in the database is the graph that was generated, in the installed schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("numpy", reason="the generators need numpy: pip install graphalgo[bench]")

import psycopg

from benchmarks import peers
from benchmarks.generators import SOFT, Graph, power_law, shared_key_bipartite
from benchmarks.in_memory import memory_store
from benchmarks.load import CATALOGUE, EXTRAS, load
from benchmarks.replay import RecordingStore, Replay, ServerSide, recorded
from graphalgo.engine import iterated_join, walk
from graphalgo.install import install

HISTORY = 3


def nothing(_what: str, _done: int, _total: int) -> None:
    """Report nothing."""


@pytest.fixture(scope="module")
def graph() -> Graph:
    made = power_law(1_000, 4_000, 5)
    made.history = HISTORY
    return made


@pytest.fixture(scope="module")
def catalogue_before(make_database: Callable[[], str]) -> tuple[str, list[Any]]:
    dsn = make_database()
    install(dsn)
    with psycopg.connect(dsn) as connection:
        return dsn, connection.execute(CATALOGUE).fetchall()


@pytest.fixture(scope="module")
def connection(catalogue_before: tuple[str, list[Any]], graph: Graph) -> Any:
    with psycopg.connect(catalogue_before[0], autocommit=True) as connection:
        # What was there before has to give way.
        load(connection, shared_key_bipartite(50, 1), nothing)
        load(connection, graph, nothing)
        connection.execute(EXTRAS)
        yield connection


def one(connection: Any, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]


def test_the_schema_is_the_installed_one(
    connection: Any, catalogue_before: tuple[str, list[Any]]
) -> None:
    assert connection.execute(CATALOGUE).fetchall() == catalogue_before[1]


def test_every_node_key_edge_and_period_is_there(connection: Any, graph: Graph) -> None:
    soft = graph.node_types == SOFT
    assert one(connection, "select count(*) from aiq.nodes") == graph.node_count
    assert one(connection, "select count(*) from aiq.nodes where entity_type is null") == soft.sum()
    keys = graph.node_count + (~soft[graph.key_nodes - 1]).sum()
    assert one(connection, "select count(*) from aiq.node_keys_api") == keys
    assert one(connection, "select count(*) from aiq.edges_current") == graph.edge_count
    periods = graph.edge_count * (HISTORY + 1)
    assert one(connection, "select count(*) from aiq.edge_periods") == periods


def test_copies_are_what_the_triggers_would_have_made(connection: Any) -> None:
    keys = connection.execute(
        """
        select count(*) from aiq.node_keys as k join aiq.nodes as n on n.id = k.node_id
        where (k.soft, k.audience, k.retired_at)
            is distinct from ((n.entity_type is null), n.audience, n.retired_at)
        """
    ).fetchone()[0]
    edges = connection.execute(
        """
        select count(*) from aiq.edges as e
        left join aiq.nodes as s on s.id = e.src_id
        left join aiq.nodes as d on d.id = e.dst_id
        where s.id is null or d.id is null
            or (e.src_audience, e.dst_audience, e.retired_at)
            is distinct from (s.audience, d.audience, least(s.retired_at, d.retired_at))
        """
    ).fetchone()[0]
    assert (keys, edges) == (0, 0)


def test_new_rows_get_new_ids(connection: Any, graph: Graph) -> None:
    with connection.transaction(force_rollback=True):
        insert = "insert into aiq.nodes (entity_type) values ('site') returning id"
        assert one(connection, insert) > graph.node_count


def test_the_database_answers_as_the_twin(connection: Any, graph: Graph) -> None:
    store = memory_store(graph)
    for node in [*graph.random_nodes(5, 1), graph.largest_hub()]:
        handle = graph.handle(node)
        answered = connection.execute(
            "select depth, node_id, handle, key, path, weight, capped"
            " from aiq.walk(%s, 3, null, 20, 300)",
            (handle,),
        ).fetchall()
        expected = [
            (row.depth, row.node_id, row.handle, row.key, row.path, row.weight, row.capped)
            for row in walk(store, handle, 3, None, 20, 300)
        ]
        assert answered == expected
        links = ["edge", "shared_key"]
        joined = connection.execute(
            "select node_id, score, examined, deferred from aiq.iterated_join(%s, 'site', 2, %s)",
            (handle, links),
        ).fetchall()
        expected_join = iterated_join(store, handle, "site", 2, links)
        assert joined == [
            (row.node_id, row.score, row.examined, row.deferred) for row in expected_join
        ]


def test_the_plain_peer_answers_what_an_uncapped_walk_answers(
    connection: Any, graph: Graph
) -> None:
    """What is measured side by side is the same question."""
    node = graph.random_nodes(1, 2)[0]
    given = {"node": node, "depth": 2, "cap": 100_000, "limit": 100_000}
    walked = connection.execute(
        "select * from aiq.walk(%s, 2, null, 100000, 100000)", (graph.handle(node),)
    ).fetchall()
    for text in (
        peers.plain(peers.BARE),
        peers.plain(peers.VIEW),
        peers.capped(peers.BARE),
        peers.capped_and_told(peers.BARE),
        peers.capped_strongest(),
    ):
        assert connection.execute(text, given).fetchall() == walked


def test_a_replay_runs_every_statement_of_a_call(connection: Any, graph: Graph) -> None:
    store = RecordingStore(connection)
    handle = graph.handle(graph.largest_hub())
    statements = recorded(store, walk, handle, 2)
    assert len(statements) >= 3
    milliseconds = Replay(connection).run(statements)
    whole = ServerSide(connection, "aiq.walk($1, $2)", ("text", "int")).run(handle, 2)
    assert milliseconds > 0
    assert whole > 0
