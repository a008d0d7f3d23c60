"""What is refused is refused alike in memory, over a connection and inside the server."""

from __future__ import annotations

import math
from typing import Any

import psycopg
import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.names.finding import similar_names
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


SIMILAR_NAMES: list[tuple[dict[str, Any], str, str]] = [
    ({"names": None}, "null::text[]", "p_names is null, but must be a list of names"),
    ({"names": ["a", None]}, "'{a,null}'", "an element of p_names is null, but must be a text"),
    ({"similarity": 0}, "'{a}', 0", "p_similarity is 0, but must be above 0 and at most 1"),
    ({"similarity": 1.0000001}, "'{a}', 1.0000001", "p_similarity is 1.0000001, but must be"),
    ({"similarity": math.nan}, "'{a}', 'NaN'", "p_similarity is NaN, but must be"),
    ({"similarity": None}, "'{a}', null", "p_similarity is null, but must be"),
    ({"limit": 0}, "'{a}', p_limit => 0", "p_limit is 0, but must be at least 1"),
    ({"limit": None}, "'{a}', p_limit => null", "p_limit is null, but must be at least 1"),
    ({"scorer": None}, "'{a}', p_scorer => null", "p_scorer is null, but must be a text"),
    ({"scorer": "best"}, "'{a}', p_scorer => 'best'", 'p_scorer is "best", which is not a scorer'),
    (
        {"candidate_similarity": 0.2},
        "'{a}', p_candidate_similarity => 0.2::real",
        "p_candidate_similarity is 0.2, but means nothing for the scorer trigram",
    ),
    (
        {"candidate_similarity": -1},
        "'{a}', p_candidate_similarity => -1",
        "p_candidate_similarity is -1, but must be above 0 and at most 1",
    ),
]


@pytest.mark.parametrize(("arguments", "written", "message"), SIMILAR_NAMES)
def test_similar_names_are_refused_alike_by_all_three(
    connection, twin, arguments, written, message
):
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute(f"select * from aiq.similar_names({written})")
    report = caught.value.diag
    assert report.sqlstate == "22023"
    assert report.message_primary.startswith(message)
    assert report.message_hint
    for store in (twin.store, ClientStore(connection)):
        with pytest.raises(GraphAlgoError) as refusal, connection.transaction():
            similar_names(store, **{"names": ["a"], **arguments})
        error = refusal.value
        assert (error.sqlstate, error.message, error.hint) == (
            "22023",
            report.message_primary,
            report.message_hint,
        )


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
