"""What is refused is refused alike in memory, over a connection and inside the server."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.stores.client import ClientStore
from tests.support import refusals
from tests.support.engine import Bound
from tests.support.server import ServerFunctions, write_graph


@pytest.fixture(scope="module")
def connection(empty_dsn):
    """A connection in a transaction that holds the table's graph and is rolled back."""
    with (
        psycopg.connect(empty_dsn, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        write_graph(connection, refusals.graph().plain)
        yield connection


@pytest.fixture(scope="module")
def twin():
    return refusals.graph().bound()


def refused(algorithms: Any, refusal: refusals.Refusal) -> tuple[Any, ...]:
    """The refusal as SQLSTATE, sentence and hint."""
    with pytest.raises(GraphAlgoError) as caught:
        getattr(algorithms, refusal.function)(**refusal.arguments)
    return caught.value.sqlstate, caught.value.message, caught.value.hint


def refused_by_server(
    connection: psycopg.Connection[Any], refusal: refusals.Refusal
) -> tuple[Any, ...]:
    """The same of the server's error report."""
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        getattr(ServerFunctions(connection), refusal.function)(**refusal.arguments)
    report = caught.value.diag
    assert report.severity == "ERROR"
    return report.sqlstate, report.message_primary, report.message_hint


@pytest.mark.parametrize("refusal", refusals.cases())
def test_all_three_refuse_with_one_code_sentence_and_hint(connection, twin, refusal):
    expected = refused(twin, refusal)
    assert expected[0] == refusal.sqlstate
    assert expected[1].startswith(refusal.message)
    assert refused_by_server(connection, refusal) == expected
    with connection.transaction():
        assert refused(Bound(ClientStore(connection)), refusal) == expected


@pytest.mark.parametrize(("function", "arguments"), refusals.accepted_cases())
def test_all_three_accept_the_ends_of_every_range(connection, twin, function, arguments):
    expected = [row.as_dict() for row in getattr(twin, function)(**arguments)]
    for algorithms in (ServerFunctions(connection), Bound(ClientStore(connection))):
        with connection.transaction():
            rows = getattr(algorithms, function)(**arguments)
        assert [row.as_dict() for row in rows] == expected


@pytest.mark.parametrize(
    "call",
    [
        "aiq.iterated_join(null, 'goal')",
        "aiq.iterated_join('T-1', 'goal', p_links => '{{edge},{similar}}')",
        "aiq.iterated_join('T-1', 'goal', p_links => null)",
        "aiq.walk('T-1', p_depth => null)",
        "aiq.lookup(null)",
    ],
)
def test_callers_see_the_sentence_alone(connection, call):
    """No exception class, no traceback in the message."""
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute(f"select * from {call}")
    assert caught.value.sqlstate == "22023"
    message = caught.value.diag.message_primary
    assert "Error" not in message and "graphalgo" not in message
    assert message.startswith(("p_", "an element of p_"))
    assert caught.value.diag.message_hint


def test_a_refusal_can_be_caught_by_its_condition(connection):
    caught = connection.execute(
        """
        create function pg_temp.caught() returns text language plpgsql as $$
        begin
            perform * from aiq.iterated_join('no such node', 'goal');
        exception when no_data_found then
            return 'caught';
        end $$;
        select pg_temp.caught()
        """
    )
    assert caught.nextset() and caught.fetchone() == ("caught",)


def test_a_refusal_leaves_the_backend_fit_for_the_next_call(connection):
    for _ in range(3):
        for call in ("aiq.walk('T-1', 0)", "aiq.iterated_join('nobody', 'goal')"):
            with pytest.raises(psycopg.Error), connection.transaction():
                connection.execute(f"select * from {call}")
        rows = connection.execute("select node_id from aiq.walk('T-1')").fetchall()
        assert rows == [(2,), (3,)]


def test_what_a_caller_writes_is_never_read_as_sql(connection):
    nasty = "x'); drop table aiq.nodes; --"
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        ServerFunctions(connection).walk(nasty)
    assert (caught.value.sqlstate, nasty in caught.value.diag.message_primary) == ("P0002", True)
    for name in ('a"b\\c{d},e', "$$", "%s", "\\", "NULL", "{}"):
        with connection.transaction():
            assert Bound(ClientStore(connection)).lookup([name], fuzzy=True) == []
        assert ServerFunctions(connection).lookup([name], fuzzy=True) == []
