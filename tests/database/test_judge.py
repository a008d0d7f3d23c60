"""The judge that a caller names: found, checked, called once a round, as the caller."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.stores.client import ClientStore
from tests.support.building import GOAL, Building, ids
from tests.support.engine import Bound
from tests.support.server import ServerFunctions, write_graph

SHAPE = "returns table (node_id bigint, linked_id bigint, confidence real, reason text)"
SERVER, CLIENT = "inside the server", "over a connection"


def graph() -> Building:
    building = Building().things(1, 2, 3, 4).goals(9)
    for node in (2, 3, 4):
        building.edge(1, node)
    return building


@pytest.fixture
def connection(empty_dsn):
    """A transaction with a graph and a schema of judges, rolled back at the end."""
    with (
        psycopg.connect(empty_dsn, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        write_graph(connection, graph().plain)
        connection.execute("create schema judges; grant usage on schema judges to authenticated")
        yield connection


@pytest.fixture(params=[SERVER, CLIENT])
def algorithms(request, connection):
    if request.param == SERVER:
        return ServerFunctions(connection)
    return Bound(ClientStore(connection))


def create(connection: psycopg.Connection[Any], body: str, name: str = "judges.j") -> None:
    """Create a judge in SQL that is the connection's."""
    connection.execute(
        f"create or replace function {name}(p_nodes bigint[]) {SHAPE} language sql as $$ {body} $$"
    )


def use(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute("select set_config('percolate.link_judge', %s, true)", (name,))


def join(algorithms: Any, **arguments: Any) -> Any:
    return algorithms.iterated_join("T-1", GOAL, **{"links": ["judged"], **arguments})


def refused(algorithms: Any, connection: psycopg.Connection[Any], **arguments: Any) -> Any:
    """Return SQLSTATE and sentence of a refusal."""
    with pytest.raises((GraphAlgoError, psycopg.Error)) as caught, connection.transaction():
        join(algorithms, **arguments)
    error = caught.value
    if isinstance(error, GraphAlgoError):
        assert error.hint
        return error.sqlstate, error.message
    assert error.diag.message_hint
    return error.sqlstate, error.diag.message_primary


class TestCalled:
    def test_it_links(self, connection, algorithms):
        create(connection, "select 1::bigint, 9::bigint, 0.75::real, 'same ship'")
        use(connection, "judges.j")
        (row,) = join(algorithms)
        assert row.path == [
            {"link": "judged", "from": 1, "to": 9, "weight": 0.75, "reason": "same ship"}
        ]

    def test_it_is_walked_only_when_asked_for(self, connection, algorithms):
        create(connection, "select 1::bigint, 9::bigint, 0.75::real, 'same ship'")
        use(connection, "judges.j")
        assert not algorithms.iterated_join("T-1", GOAL)[0].resolved

    def test_it_is_called_once_a_round_with_the_frontier_as_the_caller(
        self, connection, algorithms
    ):
        connection.execute(
            f"""
            create function judges.telling(p_nodes bigint[]) {SHAPE} language plpgsql as $$
            begin
                raise notice 'asked % by % of %', p_nodes, current_user, session_user;
            end $$
            """
        )
        use(connection, "judges.telling")
        session_user = connection.execute("select session_user").fetchone()[0]
        connection.execute("set local role authenticated")
        told: list[str] = []
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        join(algorithms, links=["edge", "judged"], budget=2, max_rounds=5)
        # 2 and 3 in the first round, the deferred 4 in the second, nothing after it.
        assert told == [
            f"asked {frontier} by authenticated of {session_user}"
            for frontier in ("{1}", "{2,3}", "{4}")
        ]

    def test_it_sees_what_the_caller_sees_and_no_more(self, connection, algorithms):
        """A judge runs with the caller's rights: one that reads a base table fails."""
        create(connection, "select id, 9::bigint, 1::real, 'x' from aiq.nodes")
        use(connection, "judges.j")
        assert ids(join(algorithms)) == [9]
        connection.execute("set local role authenticated")
        state, message = "", ""
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            join(algorithms)
        state, message = caught.value.sqlstate or "", str(caught.value)
        assert state == "42501"
        assert "nodes" in message

    def test_what_is_no_verdict_is_dropped(self, connection, algorithms):
        create(
            connection,
            """
            values
                (null::bigint, 9::bigint, 0.5::real, 'no node'), (1, null, 0.5, 'no linked node'),
                (1, 9, null, 'no confidence'), (1, 1, 0.5, 'itself'), (1, 99, 0.5, 'nobody'),
                (1, 9, 0, 'not linked'), (1, 9, -1, 'below'), (1, 9, 1.0000001, 'above'),
                (1, 9, 'NaN', 'no number'), (1, 9, 'Infinity', 'no number'),
                (4, 9, 0.5, 'not asked about')
            """,
        )
        use(connection, "judges.j")
        (row,) = join(algorithms)
        assert (row.resolved, row.examined, row.reason) == (False, 0, "exhausted")

    def test_a_verdict_is_walked_either_way(self, connection, algorithms):
        create(connection, "select 9::bigint, 1::bigint, 0.1::real, null")
        use(connection, "judges.j")
        (row,) = join(algorithms)
        assert (row.node_id, row.score) == (9, 0.10000000149011612)
        assert row.path[0]["reason"] == ""

    def test_very_many_verdicts_are_cut_to_the_cap(self, connection, algorithms):
        connection.execute(
            "insert into aiq.nodes (id, entity_type) select i, 'goal'"
            " from generate_series(1001, 51000) as i"
        )
        create(
            connection,
            "select 1::bigint, i::bigint, (1 / (i - 999)::float8)::real, null::text"
            " from generate_series(1001, 51000) as i",
        )
        use(connection, "judges.j")
        assert ids(join(algorithms, degree_cap=3)) == [1001, 1002, 1003]
        trace = algorithms.iterated_join_trace("T-1", GOAL, links=["judged"], degree_cap=7)
        assert trace["rounds"][0]["candidates"] == {"judged": 7}
        assert trace["rounds"][0]["capped_nodes"] == ["T-1"]

    def test_a_failing_judge_fails_the_call_with_its_own_error(self, connection, algorithms):
        create(connection, "select 1::bigint, 9::bigint, (1 / 0)::real, 'x'")
        use(connection, "judges.j")
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            join(algorithms)
        assert caught.value.sqlstate == "22012"

    @pytest.mark.parametrize("state", ["PT404", "AB123", "P0001", "ZZ999"])
    def test_a_judge_s_own_sqlstate_and_words_reach_the_caller(self, connection, algorithms, state):
        connection.execute(f"""
            create function judges.j(p_nodes bigint[]) {SHAPE} language plpgsql as $$
            begin
                raise exception using
                    errcode = '{state}', message = 'no verdict', hint = 'ask again';
            end $$
        """)
        use(connection, "judges.j")
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            join(algorithms)
        assert caught.value.sqlstate == state
        assert caught.value.diag.message_primary == "no verdict"
        assert caught.value.diag.message_hint == "ask again"

    def test_a_judge_may_be_written_in_many_ways(self, connection, algorithms):
        connection.execute(
            """
            create type judges.verdict as (a bigint, b bigint, c real, d text);
            create function judges.composite(p bigint[]) returns setof judges.verdict
            language sql as $$ select 1::bigint, 9::bigint, 1::real, 'x' $$;
            create function judges.out_columns(
                p bigint[], out a bigint, out b bigint, out c real, out d text
            ) returns setof record
            language sql as $$ select 1::bigint, 9::bigint, 1::real, 'x' $$;
            create function judges."Strange.Name"(bigint[]) returns table (
                a bigint, b bigint, c real, d text
            )
            language plpgsql as $$ begin return query select 1::bigint, 9::bigint, 1::real, 'x';
            end $$;
            """
        )
        for name in (
            "judges.composite", "judges.out_columns", ' JUDGES . "composite" ',
            'judges."Strange.Name"',
        ):  # fmt: skip
            use(connection, name)
            assert ids(join(algorithms)) == [9], name

    def test_of_overloaded_functions_the_one_with_the_shape_is_called(self, connection, algorithms):
        create(connection, "select 1::bigint, 9::bigint, 1::real, 'right'")
        for other in ("p int[]", "p text[]", "p bigint[], q int", ""):
            connection.execute(
                f"create function judges.j({other}) {SHAPE} language sql"
                " as $$ select 1::bigint, 9::bigint, 1::real, 'wrong' $$"
            )
        use(connection, "judges.j")
        (row,) = join(algorithms)
        assert row.path[0]["reason"] == "right"

    def test_columns_go_by_their_place_whatever_their_names(self, connection, algorithms):
        connection.execute(
            "create function judges.named(bigint[]) returns table"
            " (linked_id bigint, node_id bigint, reason real, confidence text) language sql"
            " as $$ select 1::bigint, 9::bigint, 0.5::real, 'why' $$"
        )
        use(connection, "judges.named")
        (row,) = join(algorithms)
        assert (row.path[0]["from"], row.score, row.path[0]["reason"]) == (1, 0.5, "why")


class TestRefused:
    @pytest.mark.parametrize("setting", ["", "   ", "\t"])
    def test_an_empty_setting(self, connection, algorithms, setting):
        use(connection, setting)
        assert refused(algorithms, connection) == (
            "55000", "judged links are asked for, but percolate.link_judge names no function",
        )  # fmt: skip

    def test_a_setting_that_was_never_made(self, connection, algorithms):
        assert refused(algorithms, connection)[0] == "55000"

    @pytest.mark.parametrize("links", [["edge"], ["edge", "shared_key", "similar"]])
    def test_it_matters_only_where_judged_is_asked_for(self, connection, algorithms, links):
        use(connection, "no such thing")
        assert not join(algorithms, links=links)[0].resolved

    @pytest.mark.parametrize(
        "setting",
        [
            "j", "stored_link_judge", "a.b.c", "judges.", ".j", "judges..j", "judges.j()",
            "judges.j; drop table aiq.nodes", "judges.j(array[1])", 'judges."j', '""."j"',
            "judges j", "1.2; select 1", "select",
        ],
    )  # fmt: skip
    def test_what_is_no_qualified_name(self, connection, algorithms, setting):
        create(connection, "select 1::bigint, 9::bigint, 1::real, 'x'")
        use(connection, setting)
        assert refused(algorithms, connection) == (
            "42883",
            f'percolate.link_judge is "{setting}", which is not a function name with its schema',
        )

    @pytest.mark.parametrize(
        "setting", ["judges.none", "nowhere.j", 'judges."J"', "judges.j\u00e9", "pg_temp.j"]
    )
    def test_a_function_that_does_not_exist(self, connection, algorithms, setting):
        create(connection, "select 1::bigint, 9::bigint, 1::real, 'x'")
        use(connection, setting)
        state, message = refused(algorithms, connection)
        assert state == "42883"
        assert f'"{setting}"' in message and "does not exist" in message

    @pytest.mark.parametrize(
        "definition",
        [
            "function judges.odd(p bigint) {shape}",
            "function judges.odd(p int[]) {shape}",
            "function judges.odd(p text[]) {shape}",
            "function judges.odd() {shape}",
            "function judges.odd(p bigint[], q int default 1) {shape}",
            "function judges.odd(variadic p bigint[]) {shape}",
            "function judges.odd(inout p bigint[], out b bigint, out c real, out d text)"
            " returns setof record",
            "function judges.odd(p bigint[]) returns table (a bigint, b bigint, c real)",
            "function judges.odd(p bigint[]) returns table"
            " (a bigint, b bigint, c real, d text, e int)",
            "function judges.odd(p bigint[]) returns table (a int, b bigint, c real, d text)",
            "function judges.odd(p bigint[]) returns table (a bigint, b bigint, c float8, d text)",
            "function judges.odd(p bigint[]) returns table (a bigint, b bigint, c real, d varchar)",
            "function judges.odd(p bigint[]) returns setof bigint",
            "function judges.odd(p bigint[]) returns setof record",
            "function judges.odd(p bigint[]) returns void",
            "function judges.odd(p bigint[], out a bigint, out b bigint, out c real, out d text)",
            "procedure judges.odd(p bigint[])",
        ],
    )
    def test_a_function_of_another_shape(self, connection, algorithms, definition):
        body = "begin end"
        connection.execute(
            f"create {definition.format(shape=SHAPE)} language plpgsql as $$ {body} $$"
        )
        use(connection, "judges.odd")
        state, message = refused(algorithms, connection)
        assert state == "42883"
        assert '"judges.odd"' in message
        assert "shape" in message or "does not exist as" in message

    def test_a_function_that_the_caller_may_not_execute(self, connection, algorithms):
        create(connection, "select 1::bigint, 9::bigint, 1::real, 'x'")
        connection.execute("revoke all on function judges.j(bigint[]) from public")
        use(connection, "judges.j")
        connection.execute("set local role authenticated")
        state, message = refused(algorithms, connection)
        assert state == "42883"
        assert '"judges.j"' in message and "may not be executed" in message
        connection.execute("reset role")
        assert ids(join(algorithms)) == [9]

    def test_a_function_in_a_schema_that_is_closed_to_the_caller(self, connection, algorithms):
        create(connection, "select 1::bigint, 9::bigint, 1::real, 'x'")
        connection.execute("revoke usage on schema judges from authenticated")
        use(connection, "judges.j")
        connection.execute("set local role authenticated")
        assert refused(algorithms, connection)[0] == "42883"

    def test_all_stores_say_the_same(self, connection):
        create(connection, "select 1::bigint, 9::bigint, 1::real, 'x'")
        connection.execute("create function judges.odd(bigint[]) returns int language sql return 1")
        for setting in ("", "j", "judges.none", "judges.odd"):
            use(connection, setting)
            said = [
                refused(one, connection)
                for one in (ServerFunctions(connection), Bound(ClientStore(connection)))
            ]
            assert said[0] == said[1]


def test_a_judge_of_the_callers_own_runs_with_the_callers_rights_alone(connection):
    """The functions are the caller's to run: nothing of their owner's rights reaches a judge."""
    rows = connection.execute(
        "select proname, prosecdef from pg_proc as p join pg_namespace as n"
        " on n.oid = pronamespace where nspname = 'aiq'"
        " and proname ~ '^(iterated_join|iterated_join_trace)(_plpython)?$' order by 1"
    ).fetchall()
    assert [name for name, _ in rows] == [
        "iterated_join", "iterated_join_plpython", "iterated_join_trace",
        "iterated_join_trace_plpython",
    ]  # fmt: skip
    assert not any(definer for _, definer in rows)


def test_a_logging_judge_may_write(connection):
    """A judge is any function: one that keeps a log inside the server can."""
    connection.execute(
        f"""
        create table judges.log (nodes bigint[]);
        create function judges.logging(p_nodes bigint[]) {SHAPE} language plpgsql as $$
        begin
            insert into judges.log values (p_nodes);
        end $$
        """
    )
    use(connection, "judges.logging")
    join(ServerFunctions(connection), links=["edge", "judged"])
    rows = connection.execute("select nodes from judges.log").fetchall()
    assert rows == [([1],), ([2, 3, 4],)]


def test_settings_of_a_call_do_not_outlive_it(connection):
    names = "search_path", "plan_cache_mode", "jit", "pg_trgm.similarity_threshold"
    show = "select " + ", ".join(f"current_setting('{name}', true)" for name in names)
    ServerFunctions(connection).lookup(["x"], fuzzy=True)
    before = connection.execute(show).fetchone()
    join(ServerFunctions(connection), links=["edge", "shared_key", "similar"])
    assert connection.execute(show).fetchone() == before
    assert not re.search("aiq", before[0])
