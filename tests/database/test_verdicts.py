"""Verdicts that a worker stores, the judge over them, and the queue of pairs still to judge."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from graphalgo.stores.client import ClientStore
from tests.support.building import GOAL, Building, ids
from tests.support.engine import Bound
from tests.support.server import ServerFunctions, write_graph

RETIRED = "2022-01-01T00:00:00+00:00"


@pytest.fixture
def connection(empty_dsn):
    """A worker's transaction, rolled back at the end."""
    with (
        psycopg.connect(empty_dsn, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        graph = Building().node(1, "thing", "meridian dawn").node(2, GOAL, "meridien dawn")
        graph.node(3, "thing", "bulk harmony").soft(4, "ship", "meridian down")
        graph.node(5, "thing", "meridian dawns", retired_at=RETIRED)
        graph.code("meridian dawn 7", 3)
        write_graph(connection, graph.plain)
        connection.execute("set local role aiq_worker")
        yield connection


def record(connection: psycopg.Connection[Any], *arguments: Any) -> None:
    types = ("bigint", "bigint", "real", "text", "text")
    places = ", ".join(f"%s::{kind}" for kind, _ in zip(types, arguments, strict=False))
    connection.execute(f"select aiq.record_link_verdict({places})", arguments)


def queue(connection: psycopg.Connection[Any], *arguments: Any) -> list[tuple[Any, ...]]:
    """Queue pairs and return them without the similarity."""
    rows = connection.execute(
        "select * from aiq.queue_link_pairs(%s::real, %s::real, %s::int)", arguments
    ).fetchall()
    return [row[:4] for row in rows]


def queued(connection: psycopg.Connection[Any]) -> list[tuple[int, int]]:
    return connection.execute(
        "select node_a, node_b from aiq.link_pair_queue order by 1, 2"
    ).fetchall()


def verdicts(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select node_a, node_b, confidence, reason, judged_by"
        " from aiq.link_verdicts_api order by 1, 2"
    ).fetchall()


def refused(connection: psycopg.Connection[Any], call: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        call(connection, *arguments)
    assert caught.value.diag.message_hint
    return caught.value.sqlstate or "", caught.value.diag.message_primary or ""


class TestRecording:
    def test_a_verdict_is_kept_the_lower_id_first(self, connection):
        record(connection, 2, 1, 0.75, "same ship", "a model")
        assert verdicts(connection) == [(1, 2, 0.75, "same ship", "a model")]

    def test_a_later_verdict_replaces_it(self, connection):
        record(connection, 1, 2, 0.75, "same ship", "a model")
        record(connection, 2, 1, 0.25)
        assert verdicts(connection) == [(1, 2, 0.25, None, None)]

    @pytest.mark.parametrize("confidence", [0.0, 1e-45, 1.0])
    def test_the_whole_range_counts(self, connection, confidence):
        record(connection, 1, 2, confidence)
        assert len(verdicts(connection)) == 1

    @pytest.mark.parametrize(
        ("confidence", "shown"),
        [(None, "null"), (-0.01, "-0.01"), (1.0000001, "1.0000001"), ("NaN", "NaN"),
         ("Infinity", "Infinity")],
    )  # fmt: skip
    def test_a_confidence_outside_it_is_refused(self, connection, confidence, shown):
        assert refused(connection, record, 1, 2, confidence) == (
            "22023", f"p_confidence is {shown}, but must be from 0 to 1",
        )  # fmt: skip
        assert verdicts(connection) == []

    @pytest.mark.parametrize(
        ("pair", "shown"),
        [((1, 1), "not 1 and 1"), ((None, 1), "not null and 1"), ((1, None), "not 1 and null")],
    )
    def test_two_different_nodes_are_needed(self, connection, pair, shown):
        state, message = refused(connection, record, *pair, 0.5)
        assert state == "22023"
        assert shown in message

    @pytest.mark.parametrize(("pair", "missing"), [((1, 99), 99), ((99, 1), 99), ((99, 98), 98)])
    def test_nodes_that_are_not_there_are_refused(self, connection, pair, missing):
        said = refused(connection, record, *pair, 0.5)
        assert said == ("P0002", f"there is no node {missing}")

    def test_a_verdict_is_seen_while_both_its_nodes_are(self, connection):
        record(connection, 1, 5, 0.75)
        assert verdicts(connection) == []
        connection.execute("reset role; update aiq.nodes set retired_at = null where id = 5")
        connection.execute("set local role aiq_worker")
        assert len(verdicts(connection)) == 1


class TestTheStoredJudge:
    @pytest.fixture(params=["inside the server", "over a connection"])
    def algorithms(self, request, connection):
        connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
        if request.param == "inside the server":
            return ServerFunctions(connection)
        return Bound(ClientStore(connection))

    @pytest.mark.parametrize(("seed", "target", "reached"), [("T-1", GOAL, 2), ("G-2", "thing", 1)])
    def test_it_links_either_way(self, connection, algorithms, seed, target, reached):
        record(connection, 1, 2, 0.75, "same ship")
        connection.execute("set local role authenticated")
        (row,) = algorithms.iterated_join(seed, target, links=["judged"])
        assert (row.node_id, row.score) == (reached, 0.75)
        assert row.path[0]["reason"] == "same ship"

    def test_a_confidence_of_nothing_links_nothing(self, connection, algorithms):
        record(connection, 1, 2, 0)
        (row,) = algorithms.iterated_join("T-1", GOAL, links=["judged"])
        assert (row.resolved, row.reason) == (False, "exhausted")

    def test_retired_nodes_are_not_linked(self, connection, algorithms):
        record(connection, 1, 5, 1)
        record(connection, 2, 5, 1)
        assert not algorithms.iterated_join("G-2", "thing", links=["judged"])[0].resolved
        assert not algorithms.iterated_join(
            "G-2", "thing", links=["judged"], as_of="2021-01-01T00:00:00+00:00"
        )[0].resolved

    def test_it_is_asked_about_the_frontier_alone(self, connection):
        record(connection, 1, 2, 0.5)
        record(connection, 2, 3, 0.5)
        record(connection, 1, 3, 0)
        rows = connection.execute(
            "select node_id, linked_id, confidence from aiq.stored_link_judge(array[1, 2])"
            " order by 1, 2"
        ).fetchall()
        assert rows == [(1, 2, 0.5), (2, 1, 0.5), (2, 3, 0.5)]
        assert connection.execute("select * from aiq.stored_link_judge('{}')").fetchall() == []


class TestTheQueue:
    def similarity(self, connection: psycopg.Connection[Any], a: str, b: str) -> float:
        row = connection.execute("select aiq.name_similarity(%s, %s)", (a, b)).fetchone()
        assert row is not None
        return float(row[0])

    def test_it_takes_pairs_of_similar_names_the_most_similar_first(self, connection):
        close = self.similarity(connection, "meridian dawn", "meridian down")
        closer = self.similarity(connection, "meridian dawn", "meridien dawn")
        far = self.similarity(connection, "meridien dawn", "meridian down")
        assert far < min(close, closer)
        rows = connection.execute("select * from aiq.queue_link_pairs(0.3, 1, 10)").fetchall()
        assert [row[4] for row in rows] == sorted((row[4] for row in rows), reverse=True)
        assert {row[:4] for row in rows} == {
            (1, 2, "meridian dawn", "meridien dawn"),
            (1, 4, "meridian dawn", "meridian down"),
            (2, 4, "meridien dawn", "meridian down"),
        }
        assert queued(connection) == [(1, 2), (1, 4), (2, 4)]

    def test_low_is_in_and_high_is_not(self, connection):
        score = self.similarity(connection, "meridian dawn", "meridien dawn")
        above = connection.execute("select (%s::real + 1e-6::real)::real", (score,)).fetchone()[0]
        assert (1, 2) in [row[:2] for row in queue(connection, score, above, 10)]
        with connection.transaction(force_rollback=True):
            assert (1, 2) not in [row[:2] for row in queue(connection, above, 1, 10)]
        connection.execute("reset role; delete from aiq.link_pair_queue")
        connection.execute("set local role aiq_worker")
        assert (1, 2) not in [row[:2] for row in queue(connection, 0.3, score, 10)]

    def test_a_pair_is_queued_once(self, connection):
        assert len(queue(connection, 0.3, 1, 10)) == 3
        assert queue(connection, 0.3, 1, 10) == []
        assert len(queued(connection)) == 3

    def test_the_limit_takes_the_most_similar_and_the_next_call_goes_on(self, connection):
        taken = [queue(connection, 0.3, 1, 1) for _ in range(4)]
        assert [len(rows) for rows in taken] == [1, 1, 1, 0]
        assert sorted(rows[0][:2] for rows in taken[:3]) == queued(connection)
        assert taken[2][0][:2] == (2, 4)

    @pytest.mark.parametrize("confidence", [0, 1])
    def test_a_pair_with_a_verdict_is_not_queued(self, connection, confidence):
        record(connection, 2, 1, confidence)
        assert queued(connection) == []
        assert [row[:2] for row in queue(connection, 0.3, 1, 10)] != []
        assert (1, 2) not in queued(connection)

    def test_a_verdict_takes_the_pair_off_the_queue(self, connection):
        queue(connection, 0.3, 1, 10)
        record(connection, 4, 1, 0.5)
        assert queued(connection) == [(1, 2), (2, 4)]
        assert queue(connection, 0.3, 1, 10) == []

    def test_codes_retired_nodes_and_identical_names_are_no_pairs(self, connection):
        pairs = {row[:2] for row in queue(connection, 0.01, 1.1, 100)}
        assert pairs
        assert not any(5 in pair for pair in pairs)
        connection.execute("reset role; delete from aiq.link_pair_queue")
        connection.execute(
            "insert into aiq.nodes (id, entity_type) values (11, 'thing'), (12, 'thing');"
            "insert into aiq.node_keys (node_id, key, kind, is_name) values"
            " (11, 'qqq www', 'alias', true), (12, 'qqq www', 'alias', true),"
            " (11, '9331802', 'alias', false), (12, '9331803', 'alias', false)"
        )
        connection.execute("set local role aiq_worker")
        assert (11, 12) not in [row[:2] for row in queue(connection, 0.01, 1.1, 100)]

    def test_names_with_the_same_trigrams_are_reached_above_one(self, connection):
        connection.execute("reset role")
        connection.execute(
            "insert into aiq.nodes (id, entity_type) values (11, 'thing'), (12, 'thing');"
            "insert into aiq.node_keys (node_id, key, kind) values"
            " (11, 'c', 'alias'), (12, 'c++', 'alias')"
        )
        connection.execute("set local role aiq_worker")
        assert (11, 12) not in [row[:2] for row in queue(connection, 0.9, 1, 10)]
        assert queue(connection, 0.9, 1.1, 10) == [(11, 12, "c", "c++")]

    def test_of_several_names_the_most_similar_pair_is_queued(self, connection):
        connection.execute("reset role")
        connection.execute(
            "insert into aiq.node_keys (node_id, key, kind) values"
            " (1, 'meridian dawn one', 'alias'), (2, 'meridian dawn ones', 'alias')"
        )
        connection.execute("set local role aiq_worker")
        (row,) = [row for row in queue(connection, 0.3, 1, 10) if row[:2] == (1, 2)]
        assert row[2:] == ("meridian dawn one", "meridian dawn ones")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((None, 0.8, 10), "p_low is null, but must be above 0 and at most 1"),
            ((0, 0.8, 10), "p_low is 0, but must be above 0 and at most 1"),
            ((-0.1, 0.8, 10), "p_low is -0.1, but must be above 0 and at most 1"),
            ((1.0000001, 1.1, 10), "p_low is 1.0000001, but must be above 0 and at most 1"),
            (("NaN", 0.8, 10), "p_low is NaN, but must be above 0 and at most 1"),
            ((0.4, None, 10), "p_high is null, but must be above p_low (0.4) and at most 1.1"),
            ((0.4, 0.4, 10), "p_high is 0.4, but must be above p_low (0.4) and at most 1.1"),
            ((0.4, 0.3, 10), "p_high is 0.3, but must be above p_low (0.4) and at most 1.1"),
            ((0.4, 1.2, 10), "p_high is 1.2, but must be above p_low (0.4) and at most 1.1"),
            ((0.4, "NaN", 10), "p_high is NaN, but must be above p_low (0.4) and at most 1.1"),
            ((0.4, 0.8, None), "p_limit is null, but must be at least 1"),
            ((0.4, 0.8, 0), "p_limit is 0, but must be at least 1"),
        ],
    )
    def test_what_is_out_of_its_range_is_refused(self, connection, arguments, message):
        assert refused(connection, queue, *arguments) == ("22023", message)
        assert queued(connection) == []

    def test_the_threshold_does_not_outlive_the_call(self, connection):
        show = "select current_setting('pg_trgm.similarity_threshold', true)"
        queue(connection, 0.9, 1, 10)
        before = connection.execute(show).fetchone()
        queue(connection, 0.5, 1, 10)
        assert connection.execute(show).fetchone() == before


@pytest.mark.parametrize(
    "statement",
    [
        "select aiq.record_link_verdict(1, 2, 0.5)",
        "select * from aiq.queue_link_pairs(0.4, 0.8, 10)",
        "select * from aiq.link_pair_queue",
        "insert into aiq.link_verdicts (node_a, node_b, confidence) values (1, 2, 1)",
    ],
)
@pytest.mark.parametrize("role", ["authenticated", "web_anon"])
def test_only_the_worker_may(connection, statement, role):
    connection.execute(f"reset role; set local role {role}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
        connection.execute(statement)


def test_the_worker_writes_through_the_functions_alone(connection):
    for table in ("link_verdicts", "link_pair_queue"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(f"delete from aiq.{table}")


def test_a_worker_judges_what_is_queued_and_the_join_finds_it(connection):
    """The whole round: queue, judge, walk."""
    for node_a, node_b, name_a, name_b in queue(connection, 0.3, 0.99, 10):
        record(connection, node_a, node_b, 0.9, f"{name_a} is {name_b}", "test")
    assert queued(connection) == []
    connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
    connection.execute("set local role authenticated")
    rows = ServerFunctions(connection).iterated_join("ship/meridian down", GOAL, links=["judged"])
    assert ids(rows) == [2]
    assert rows[0].path[0]["reason"] == "meridien dawn is meridian down"
