"""SQL from outside: what it answers, and everything that it must not do."""

from __future__ import annotations

import json
import threading
import time

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from graphalgo.install import install
from graphalgo.loading import load_harbour
from graphalgo.passthrough import LONGEST_STATEMENT, OPENERS, opener
from tests.support import harbour
from tests.support.passthrough import (
    EITHER,
    HARMLESS,
    REFUSED,
    TOOLS,
    check_writable,
    passthrough,
    state,
)
from tests.support.roles import refused

VESSELS = "select key from aiq.nodes_api where entity_type = 'vessel' order by key"


@pytest.fixture(scope="module")
def tools_dsn(make_database):
    """The scoped sample, and tools for callers that go too far."""
    made = make_database()
    install(made)
    load_harbour(made, scoped=True)
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute("drop role if exists tools_login")
        connection.execute(TOOLS)
    yield made
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute("drop role tools_login")


@pytest.fixture
def connection(tools_dsn):
    """A caller's connection, as a gateway would open it."""
    with harbour.caller(tools_dsn, harbour.claims_of("kestrel")) as connection:
        # Libraries bring their settings when they are loaded.
        passthrough(connection, "select 1")
        connection.execute("prepare a_write as insert into tools.notes values (60, 'prepared')")
        connection.execute(
            "set tools.itself = $$select aiq.sql_passthrough(current_setting('tools.itself'))$$"
        )
        connection.execute("select pg_advisory_lock(77), pg_advisory_lock_shared(78, -79)")
        yield connection


def pinned(connection):
    """The claims that are pinned in this backend, if any are."""
    connection.execute("reset role")
    (claims,) = connection.execute("select rbac.pinned_claims()").fetchone()
    connection.execute("set role authenticated")
    return claims


def counted(connection, statement=f"select count(*) as n from ({VESSELS}) as v"):
    return passthrough(connection, statement)["rows"][0]["n"]


class TestAnswer:
    def test_the_envelope(self, connection):
        statement = "select 1 as one, 'x'::varchar(3) as x, 2.50::numeric(4, 2) as amount"
        assert passthrough(connection, statement) == {
            "mode": "SQL",
            "plan": {"mode": "SQL", "statement": statement},
            "columns": [
                {"name": "one", "type": "integer"},
                {"name": "x", "type": "character varying(3)"},
                {"name": "amount", "type": "numeric(4,2)"},
            ],
            "rows": [{"one": 1, "x": "x", "amount": 2.5}],
            "row_count": 1,
            "truncated": False,
        }

    @pytest.mark.parametrize(
        "statement",
        ["select 1 as a where false", "select 1 as a limit 0", "select from aiq.nodes_api"],
    )
    def test_columns_are_told_without_rows(self, connection, statement):
        answer = passthrough(connection, statement)
        assert answer["columns"] == (
            [{"name": "a", "type": "integer"}] if " as a" in statement else []
        )
        assert answer["row_count"] == len(answer["rows"])

    @pytest.mark.parametrize(
        "expression",
        [
            "'NaN'::numeric", "'Infinity'::float8", "1e-300::float8", "0.1::real",
            "'infinity'::timestamptz", "'2024-02-29 12:00:00.5+00'::timestamptz",
            r"'\x00ff'::bytea", "array[[1, null], [3, 4]]", "row(1, 'x', null)",
            """'{"b": [1, null], "a": "ä"}'::jsonb""", """'{"a" : 1.0}'::json""",
            "null::int", "interval '1 year 2 days'", "'a'::\"char\"", "int4range(1, 5)",
            "'10.0.0.1/8'::inet", "12345678901234567890123::numeric", "true",
            r"E'quote \" and line\nend'", "''::text", "'<a>&amp;</a>'::xml",
        ],
    )  # fmt: skip
    def test_values_are_as_to_jsonb_has_them(self, connection, expression):
        (expected,) = connection.execute(
            f"select to_jsonb(v) from (select {expression} as v) as t"
        ).fetchone()
        (row,) = passthrough(connection, f"select {expression} as v")["rows"]
        assert row == {"v": expected}

    @pytest.mark.parametrize("word", OPENERS)
    def test_the_five_openers_in_any_case(self, connection, word):
        rest = {
            "select": "1 as a", "with": "w as (select 1 as a) select * from w",
            "table": "tools.notes", "values": "(1)", "explain": "select 1",
        }[word]  # fmt: skip
        for written in (word.upper(), word.title()):
            assert passthrough(connection, f"/* ; */ {written} {rest}")["rows"]

    def test_rows_come_in_their_order(self, connection):
        rows = passthrough(connection, "select g from tools.many(1, 50) as g order by g desc")[
            "rows"
        ]
        assert [row["g"] for row in rows] == list(range(50, 0, -1))

    def test_names_need_their_schema(self, connection):
        state_, message, hint = refused(connection, "select aiq.sql_passthrough('table notes')")
        assert (state_, message) == ("42P01", 'relation "notes" does not exist')
        assert "aiq.nodes_api" in hint

    def test_an_error_says_where(self, connection):
        with pytest.raises(psycopg.Error) as caught:
            passthrough(connection, "select 'ä', nix from tools.notes")
        assert caught.value.sqlstate == "42703"
        assert caught.value.diag.message_detail == "At character 13 of the statement."

    def test_an_error_keeps_its_detail_and_hint(self, connection):
        text = (
            "do $$ begin raise exception using errcode = ''AB123'', message = ''m'',"
            " detail = ''d'', hint = ''h''; end $$"
        )
        with pytest.raises(psycopg.Error) as caught:
            passthrough(connection, f"select tools.run('{text}')")
        diag = caught.value.diag
        assert (diag.sqlstate, diag.message_primary) == ("AB123", "m")
        assert (diag.message_detail, diag.message_hint) == ("d", "h")

    @pytest.mark.parametrize(
        ("arguments", "part"),
        [
            ("null", "p_statement is null"),
            ("'select 1', 0", "p_limit is 0"),
            ("'select 1', -1", "p_limit is -1"),
            ("'select 1', null", "p_limit is null"),
        ],
    )
    def test_arguments_out_of_range(self, connection, arguments, part):
        state_, message, hint = refused(connection, f"select aiq.sql_passthrough({arguments})")
        assert state_ == "22023"
        assert part in message
        assert hint

    def test_the_refused_word_is_named(self, connection):
        _, message, _ = refused(connection, "select aiq.sql_passthrough('DROP table x')")
        assert 'begins with "drop"' in message


class TestLimits:
    def test_it_says_when_the_row_limit_cut(self, connection):
        whole = passthrough(connection, "select g from tools.many(1, 5) as g", 5)
        assert (whole["row_count"], whole["truncated"], "note" in whole) == (5, False, False)
        cut = passthrough(connection, "select g from tools.many(1, 6) as g", 5)
        assert (cut["row_count"], len(cut["rows"]), cut["truncated"]) == (5, 5, True)
        assert "first 5 rows" in cut["note"]
        assert "p_limit" in cut["note"]

    def test_the_limit_is_a_thousand_rows_by_default(self, connection):
        (answer,) = connection.execute(
            "select aiq.sql_passthrough('select generate_series(1, 1001)')"
        ).fetchone()
        assert (answer["row_count"], answer["truncated"]) == (1000, True)

    def test_what_is_not_shown_is_not_read(self, connection):
        started = time.perf_counter()
        answer = passthrough(connection, "select generate_series(1, 1000000000)", 10)
        assert answer["row_count"] == 10
        assert time.perf_counter() - started < 1

    def test_it_says_when_the_size_cut(self, connection):
        many = passthrough(connection, "select repeat('x', 1000000) as x from tools.many(1, 40)")
        assert (many["row_count"], many["truncated"]) == (16, True)
        assert "16 MB" in many["note"]
        one = passthrough(connection, "select 1 as n, repeat('x', 17000000) as x")
        assert (one["rows"], one["truncated"]) == ([], True)
        assert "16 MB" in one["note"]

    def test_a_long_statement(self, connection):
        text = "ä" * (LONGEST_STATEMENT - len("select '' as x"))
        assert passthrough(connection, f"select '{text}' as x")["rows"] == [{"x": text}]
        state_, message, hint = refused(
            connection, f"select aiq.sql_passthrough($q$select '{text}' as xy$q$)"
        )
        assert state_ == "22023"
        assert message == "p_statement has 100001 characters, but may have 100000: it is too long"
        assert hint

    def test_a_statement_that_is_too_long_is_not_read(self, connection):
        started = time.perf_counter()
        assert (
            refused(connection, f"select aiq.sql_passthrough('{'/*' * 5_000_000}')")[0] == "22023"
        )
        assert time.perf_counter() - started < 2

    @pytest.mark.parametrize(
        "prefix",
        [
            "/*" * 50_000, "/*" * 25_000 + "*/" * 25_000, "/**/" * 25_000, "-- x\n" * 20_000,
            "--\r" * 33_000, "-- x\r" * 10_000 + "-- x\n" * 10_000, "(" * 100_000, " " * 100_000,
            "\n " * 50_000, "-" * 100_000, "x" * 100_000, "explain /*" + "*" * 99_990,
        ],
        ids=lambda prefix: repr(prefix[:4]),
    )  # fmt: skip
    def test_the_first_word_is_found_in_no_time(self, prefix):
        best = 1.0
        for _ in range(3):
            started = time.perf_counter()
            opener(prefix)
            best = min(best, time.perf_counter() - started)
        assert best < 0.3

    @pytest.mark.parametrize(
        "statement",
        [
            "select pg_sleep(20)",
            "with recursive r as (select 1 as n union all select n + 1 from r)"
            " select count(*) from r",
            "select set_config('statement_timeout', '0', false), pg_sleep(20)",
            "with s as materialized (select tools.settle('statement_timeout', '0') as n)"
            " select pg_sleep(20 * n) from s",
            "select tools.swallow('select pg_sleep(20)')",
            "select aiq.sql_passthrough('select pg_sleep(20)')",
        ],
    )
    def test_a_statement_timeout_stops_it(self, connection, statement):
        connection.execute("set statement_timeout = '300ms'")
        before = state(connection)
        started = time.perf_counter()
        assert (
            refused(connection, "select aiq.sql_passthrough($q$" + statement + "$q$)")[0] == "57014"
        )
        assert time.perf_counter() - started < 2
        assert state(connection) == before
        assert pinned(connection) is None
        check_writable(connection)


class TestOpener:
    """The first word, found as the server's lexer would find it."""

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            ("SELECT 1", "select"),
            ("select$1", "select$1"),
            ("select(1)", "select"),
            ("values(1)", "values"),
            ("\f\r\t\n with", "with"),
            ("--\rtable x", "table"),
            ("--", ""),
            ("-- select", ""),
            (" " * 1000 + "-- \r\n" * 100 + "/**/table", "table"),
            ("-- select\n-- select\r\nexplain", "explain"),
            ("/**/select", "select"),
            ("/***/select", "select"),
            ("/*/*/*/ */ */ */ select", "select"),
            ("/* -- */ select", "select"),
            ("-- /*\nselect", "select"),
            ("/* /* */ select", ""),
            ("*/ select", ""),
            ("\u00a0select", ""),
            ("\u2028select", ""),
            ("", ""),
        ],
    )
    def test_the_first_word(self, text, word):
        assert opener(text) == word


class TestBreakOuts:
    @pytest.mark.parametrize("name", REFUSED)
    def test_it_is_refused_and_leaves_nothing(self, connection, name):
        statement, expected = REFUSED[name]
        with connection.transaction():
            before = state(connection)
            with pytest.raises(psycopg.Error) as caught, connection.transaction():
                passthrough(connection, statement)
            assert caught.value.sqlstate == expected, caught.value
            assert state(connection) == before
            check_writable(connection)
        assert pinned(connection) is None

    @pytest.mark.parametrize("name", HARMLESS)
    def test_it_is_answered_and_leaves_nothing(self, connection, name):
        with connection.transaction():
            before = state(connection)
            assert passthrough(connection, HARMLESS[name])["mode"] == "SQL"
            assert state(connection) == before
            check_writable(connection)
        assert state(connection) == before
        assert pinned(connection) is None
        assert list(connection.notifies(timeout=0)) == []

    @pytest.mark.parametrize("name", EITHER)
    def test_refused_or_not_it_leaves_nothing(self, connection, name):
        statement, expected = EITHER[name]
        with connection.transaction():
            before = state(connection)
            try:
                with connection.transaction():
                    passthrough(connection, statement)
            except psycopg.Error as error:
                assert error.sqlstate in expected, error
            assert state(connection) == before
            check_writable(connection)
        assert state(connection) == before

    @pytest.mark.parametrize("name", ["an inserting with", "a function that writes", "a role"])
    def test_outside_a_transaction_too(self, connection, name):
        statement, expected = REFUSED[name]
        before = state(connection)
        with pytest.raises(psycopg.Error) as caught:
            passthrough(connection, statement)
        assert caught.value.sqlstate == expected
        assert state(connection) == before

    def test_a_caller_who_only_reads_goes_on_reading(self, connection):
        with connection.transaction():
            connection.execute("set transaction read only")
            before = state(connection)
            assert passthrough(connection, "select 1 as a")["rows"] == [{"a": 1}]
            assert (
                refused(connection, "select aiq.sql_passthrough('select tools.write(3)')")[0]
                == "25006"
            )
            assert state(connection) == before
            assert refused(connection, "insert into tools.notes values (3)")[0] == "25006"
        check_writable(connection)

    def test_in_a_serializable_transaction(self, connection):
        with connection.transaction():
            connection.execute("set transaction isolation level serializable")
            assert counted(connection) == len(connection.execute(VESSELS).fetchall())
            check_writable(connection)

    def test_a_caught_error_leaves_the_callers_function_going(self, connection):
        statement = (
            "select tools.swallow($q$select aiq.sql_passthrough('select tools.write(3)')$q$) || "
            "tools.swallow('insert into tools.notes values (70, null)')"
        )
        with connection.transaction(force_rollback=True):
            assert connection.execute(statement).fetchone() == ("25006done",)

    def test_strings_of_the_old_kind(self, connection):
        connection.execute("set standard_conforming_strings = off; set escape_string_warning = off")
        statement = r"select '\'; delete from tools.notes; --' as text"
        assert passthrough(connection, statement)["rows"] == [
            {"text": "'; delete from tools.notes; --"}
        ]

    def test_nobody_hears_of_it(self, connection, tools_dsn):
        with psycopg.connect(tools_dsn, autocommit=True) as listener:
            listener.execute("listen passthrough")
            passthrough(connection, "select pg_notify('passthrough', 'hello')")
            connection.execute("select pg_notify('passthrough', 'the end')")
            (heard,) = list(listener.notifies(timeout=2, stop_after=1))
            assert heard.payload == "the end"

    def test_sessions_of_the_same_user_are_not_its_to_end(self, tools_dsn):
        with (
            psycopg.connect(tools_dsn, autocommit=True) as one,
            psycopg.connect(tools_dsn, autocommit=True) as other,
        ):
            for connection in (one, other):
                connection.execute("set session authorization authenticated")
            pid = other.info.backend_pid
            for function in ("pg_terminate_backend", "pg_cancel_backend"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    passthrough(one, f"select {function}({pid})")
            assert other.execute("select 1").fetchone() == (1,)


class TestNotUndone:
    """What a rollback does not reach, and the README says so."""

    def test_sequences_on_a_version_whose_mode_can_be_reset(self, connection, tools_dsn):
        statement = (
            "select set_config('transaction_read_only', null, true) as a,"
            " nextval('tools.numbers') as b, set_config('transaction_read_only', 'on', true) as c"
        )
        with psycopg.connect(tools_dsn, autocommit=True) as owner:
            owner.execute("select setval('tools.numbers', 100)")
            if connection.info.server_version >= 160000:
                refusal = refused(connection, f"select aiq.sql_passthrough($q${statement}$q$)")
                assert refusal[0] == "0A000"
                taken = 0
            else:
                assert passthrough(connection, statement)["rows"][0]["b"] == 101
                taken = 1
            assert owner.execute("select nextval('tools.numbers')").fetchone() == (101 + taken,)

    def test_a_lock_that_was_held_twice_comes_back_once(self, connection, tools_dsn):
        connection.execute("select pg_advisory_lock(77)")
        passthrough(connection, "select pg_advisory_unlock(77) as a, pg_advisory_unlock(77) as b")
        with psycopg.connect(tools_dsn, autocommit=True) as other:
            free = "select pg_try_advisory_lock(77)"
            assert other.execute(free).fetchone() == (False,)
            connection.execute("select pg_advisory_unlock(77)")
            assert other.execute(free).fetchone() == (True,)

    def test_prepared_statements_and_cursors(self, connection):
        with connection.transaction():
            connection.execute("declare mine scroll cursor for select generate_series(1, 9)")
            connection.execute("declare other cursor for select 1")
            passthrough(connection, "select tools.run('move forward 3 in mine')")
            assert connection.execute("fetch mine").fetchone() == (4,)
            passthrough(connection, "select tools.run('close other')")
            (cursors,) = connection.execute("select array_agg(name) from pg_cursors").fetchone()
            assert "other" not in cursors
        passthrough(connection, "select tools.run('deallocate a_write')")
        assert "a_write" not in connection.execute(
            "select coalesce(string_agg(name, ','), '') from pg_prepared_statements"
        ).fetchone()[0].split(",")


class TestWords:
    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            (
                "with w as (insert into tools.notes values (3, 'x') returning id) select id from w",
                "cannot execute SELECT in a read-only transaction",
            ),
            ("select tools.write(3)", "cannot execute INSERT in a read-only transaction"),
            ("explain execute nothing", 'prepared statement "nothing" does not exist'),
            ("select 1 / 0", "division by zero"),
            ("select 1 / (n - n) from tools.many(1, 2) as n", "division by zero"),
            ("select tools.run('do $do$ begin perform 1 / 0; end $do$')", "division by zero"),
            ("select aiq.sql_passthrough('select tools.write(3)')",
             "cannot execute INSERT in a read-only transaction"),
            ("with w as (delete from tools.notes) select pg_sleep(20)",
             "cannot execute SELECT in a read-only transaction"),
            ("select aiq.query('LOKUP')", '"LOKUP" is not a mode'),
        ],
    )  # fmt: skip
    def test_an_error_is_in_the_servers_own_words(self, connection, statement, message):
        with pytest.raises(psycopg.Error) as caught:
            passthrough(connection, statement)
        assert caught.value.diag.message_primary.startswith(message)

    def test_what_a_write_is_told(self, connection):
        state_, _, hint = refused(
            connection,
            "select aiq.sql_passthrough($q$with w as (delete from tools.notes) select 1$q$)",
        )
        assert state_ == "25006"
        assert "writers are called by themselves" in hint


class TestLocks:
    def test_the_sessions_own_stay_and_all_others_go(self, connection, tools_dsn):
        passthrough(
            connection,
            "select pg_advisory_lock(1) as a, pg_advisory_lock(2) as b,"
            " pg_advisory_lock_shared(-5) as c, pg_advisory_lock(-1, 2) as d,"
            " pg_advisory_lock_shared(2147483647, -2147483648) as e,"
            " pg_advisory_lock(9223372036854775807) as f, pg_advisory_lock(2) as g",
        )
        with psycopg.connect(tools_dsn, autocommit=True) as other:
            free = other.execute(
                "select pg_try_advisory_lock(1), pg_try_advisory_lock(2),"
                " pg_try_advisory_lock(-5), pg_try_advisory_lock(-1, 2),"
                " pg_try_advisory_lock(2147483647, -2147483648),"
                " pg_try_advisory_lock(9223372036854775807),"
                " pg_try_advisory_lock(77), pg_try_advisory_lock(78, -79)"
            ).fetchone()
        assert free == (True,) * 6 + (False,) * 2

    def test_an_error_releases_them_too(self, connection):
        before = state(connection)
        for failing in ("1 / (n - n)", "tools.write(n)", "pg_sleep(20)"):
            statement = (
                "with l as materialized (select 5 as n, pg_advisory_lock(5),"
                f" pg_advisory_lock_shared(6, 6)) select {failing} from l"
            )
            connection.execute("set statement_timeout = '300ms'")
            refused(connection, f"select aiq.sql_passthrough('{statement}')")
            connection.execute("reset statement_timeout")
            assert state(connection) == before

    def test_without_locks_of_the_session(self, connection):
        connection.execute("select pg_advisory_unlock_all()")
        before = state(connection)
        passthrough(connection, "select pg_advisory_lock(g) from tools.many(1, 100) as g")
        assert state(connection) == before

    def test_a_lock_that_another_took_meanwhile_is_told(self, connection, tools_dsn):
        taken = threading.Event()

        def take() -> None:
            with psycopg.connect(tools_dsn, autocommit=True) as other:
                other.execute("select pg_advisory_lock(77)")
                taken.set()
                time.sleep(1.5)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            found, message, _ = refused(
                connection,
                "select aiq.sql_passthrough('with u as materialized"
                " (select pg_advisory_unlock(77)) select pg_sleep(0.6) from u')",
            )
        finally:
            thread.join()
        assert taken.is_set()
        assert found == "55P03"
        assert message == (
            "the statement released the session's advisory lock (77), and another session has it"
        )


class TestClaims:
    FORGED = json.dumps(harbour.claims_of("meridian"))

    @pytest.mark.parametrize(
        "forging",
        [
            "select set_config('request.jwt.claims', $f${0}$f$, true) as f",
            "select set_config('request.jwt.claims', $f${0}$f$, false) as f",
            "select set_config('request.jwt.claims', null, true) as f",
            "select tools.settle('request.jwt.claims', $f${0}$f$) as f",
            "select tools.run($r$set local request.jwt.claims = '{0}'$r$) as f",
        ],
    )
    @pytest.mark.parametrize("read_only", [False, True])
    def test_the_rest_of_the_statement_does_not_see_them(self, connection, forging, read_only):
        expected = [row[0] for row in connection.execute(VESSELS)]
        forging = forging.replace("{0}", self.FORGED)
        with connection.transaction():
            if read_only:
                connection.execute("set transaction read only")
            answer = passthrough(
                connection,
                f"with f as materialized ({forging}) select v.key from f, lateral ("
                "select n.key from aiq.nodes_api as n where n.entity_type = 'vessel'"
                " and f is not null) as v order by v.key",
            )
            assert [row["key"] for row in answer["rows"]] == expected
            inner = (
                f"with f as materialized ({forging}) select l.key from f, lateral ("
                "select * from aiq.lookup(array['Meridian', '9331803', f.f::text])) as l"
            )
            assert (
                passthrough(connection, inner)["rows"]
                == passthrough(connection, "select key from aiq.lookup('{Meridian,9331803}')")[
                    "rows"
                ]
            )
        assert [row[0] for row in connection.execute(VESSELS)] == expected

    def test_nor_where_the_transaction_is_made_writable_for_a_while(self, connection):
        expected = connection.execute(f"select count(*) from ({VESSELS}) as v").fetchone()[0]
        statement = (
            "with f as materialized (select set_config('transaction_read_only', null, true) as a,"
            f" set_config('request.jwt.claims', $f${self.FORGED}$f$, true) as b), n as materialized"
            f" (select count(*) as n from f, lateral ({VESSELS}) as v where f.a is not null)"
            " select n, set_config('transaction_read_only', 'on', true) as c from n"
        )
        try:
            assert counted(connection, statement) == expected
        except psycopg.Error as error:
            assert error.sqlstate in {"0A000", "25006"}

    def test_a_statement_in_the_statement_keeps_them(self, connection):
        expected = counted(connection)
        statement = (
            (
                "with f as materialized (select set_config('request.jwt.claims',"
                f" $f${self.FORGED}$f$,"
                " false) as f), i as materialized (select aiq.sql_passthrough("
                f"$s$select count(*) as n from ({VESSELS}) as v$s$)"
                " -> 'rows' -> 0 -> 'n' as inner"
                f" from f), o as (select count(*) as n from i, lateral ({VESSELS}) as v"
                ' where i.inner is not null) select i."inner", o.n from i, o'
            )
            .replace(" as inner", ' as "inner"')
            .replace("i.inner", 'i."inner"')
        )
        assert passthrough(connection, statement)["rows"] == [{"inner": expected, "n": expected}]

    def test_a_failing_statement_in_the_statement_keeps_them(self, connection):
        expected = counted(connection)
        statement = (
            "with i as materialized (select tools.swallow($s$select aiq.sql_passthrough("
            "'select 1 / 0')$s$) as i), f as materialized (select set_config('request.jwt.claims',"
            f" $f${self.FORGED}$f$, false) as f from i where i is not null)"
            f" select count(*) as n from f, lateral ({VESSELS}) as v where f is not null"
        )
        assert counted(connection, statement) == expected

    def test_two_tenants_take_turns_on_one_connection(self, tools_dsn):
        seen: dict[str, set[str]] = {}
        statements = [
            "select * from aiq.nodes_api order by id",
            "select * from aiq.walk('Rotterdam', p_depth => 3)",
            "select * from aiq.lookup('{Meridian,Aurora Kestrel}', p_fuzzy => true)",
            "select * from aiq.iterated_join('SE-0117', 'operator',"
            " p_links => '{edge,shared_key}')",
            "select aiq.iterated_join_trace('SE-0117', 'operator', p_links => '{edge}')"
            " -> 'answers' as n",
        ]
        with ConnectionPool(tools_dsn, min_size=1, max_size=1, open=True) as pool:
            for turn in range(6):
                tenant = ("kestrel", "meridian")[turn % 2]
                with pool.connection() as connection:
                    connection.execute(
                        "select set_config('request.jwt.claims', %s, true),"
                        " set_config('role', 'authenticated', true)",
                        [json.dumps(harbour.claims_of(tenant))],
                    )
                    for statement in statements:
                        with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
                            expected = cursor.execute(
                                f"select to_jsonb(r) as row from ({statement}) as r"
                            ).fetchall()
                        answer = passthrough(connection, statement)
                        assert answer["rows"] == [row["row"] for row in expected]
                        seen.setdefault(tenant, set()).add(json.dumps(answer["rows"]))
        assert seen["kestrel"] != seen["meridian"]
        assert len(seen["kestrel"]) == len(statements)

    @pytest.mark.parametrize("claims", ["nonsense", '{"sub": 1}'])
    def test_claims_that_cannot_be_read_are_an_error(self, connection, claims):
        connection.execute("select set_config('request.jwt.claims', %s, false)", [claims])
        found, message, _ = refused(connection, "select aiq.sql_passthrough('table aiq.nodes_api')")
        assert found == "22023"
        assert "request.jwt.claims" in message

    @pytest.mark.parametrize("claims", ["", None])
    def test_nobody_stays_nobody(self, connection, claims):
        connection.execute("select set_config('request.jwt.claims', %s, false)", [claims])
        public = counted(connection)
        statement = (
            "with f as materialized (select set_config('request.jwt.claims',"
            f" $f${self.FORGED}$f$,"
            f" false) as f) select count(*) as n from f, lateral ({VESSELS}) as v"
            " where f is not null"
        )
        assert counted(connection, statement) == public

    def test_a_cancellation_drops_them(self, connection, tools_dsn):
        before = state(connection)

        def cancel() -> None:
            with psycopg.connect(tools_dsn, autocommit=True) as other:
                other.execute("select pg_cancel_backend(%s)", [connection.info.backend_pid])

        timer = threading.Timer(0.3, cancel)
        timer.start()
        try:
            with pytest.raises(psycopg.errors.QueryCanceled):
                passthrough(connection, "select pg_advisory_lock(9), pg_sleep(20) from tools.notes")
        finally:
            timer.join()
        assert pinned(connection) is None
        assert state(connection) == before
        self.speaks_for_another(connection)

    def test_an_error_half_way_drops_them(self, connection):
        with pytest.raises(psycopg.errors.DivisionByZero):
            passthrough(connection, "select 1 / (500 - g) from tools.many(1, 1000) as g")
        assert pinned(connection) is None
        self.speaks_for_another(connection)

    def speaks_for_another(self, connection):
        """The next caller of the connection is answered as themselves."""
        mine = connection.execute(VESSELS).fetchall()
        with connection.transaction(force_rollback=True):
            connection.execute("set transaction read only")
            connection.execute("select set_config('request.jwt.claims', %s, true)", [self.FORGED])
            theirs = connection.execute(VESSELS).fetchall()
            rows = passthrough(connection, VESSELS)["rows"]
        assert [(row["key"],) for row in rows] == theirs != mine

    def test_a_cursor_of_that_name_pins_nothing(self, connection):
        expected = connection.execute(VESSELS).fetchall()
        with connection.transaction():
            connection.execute("set transaction read only")
            connection.execute('declare "aiq.sql_passthrough" cursor for select 1')
            assert connection.execute(VESSELS).fetchall() == expected


class TestRights:
    def test_anonymous_may_not_call_it(self, tools_dsn):
        with psycopg.connect(tools_dsn, autocommit=True) as connection:
            connection.execute("set role web_anon")
            assert refused(connection, "select aiq.sql_passthrough('select 1')")[0] == "42501"

    @pytest.mark.parametrize("role", ["authenticated", "aiq_worker", "postgres"])
    def test_whoever_asks_it_has_the_rights_of_authenticated(self, tools_dsn, role):
        with psycopg.connect(tools_dsn, autocommit=True) as connection:
            connection.execute(f"set role {role}")
            rows = passthrough(connection, "select id from tools.notes order by id")["rows"]
            assert rows == [{"id": 1}, {"id": 2}]
            assert passthrough(connection, "select count(*) as n from tools.seen")["rows"] == [
                {"n": 2}
            ]
            assert (
                refused(
                    connection, "select aiq.sql_passthrough('select * from aiq.link_pair_queue')"
                )[0]
                == "42501"
            )

    def test_a_judge_runs_with_no_more(self, connection, tools_dsn):
        with psycopg.connect(tools_dsn, autocommit=True) as keeper:
            keeper.execute(
                "create or replace function tools.judge(p_nodes bigint[]) returns table ("
                "node_id bigint, linked_id bigint, confidence real, reason text)"
                " language plpgsql volatile as $$ begin insert into tools.notes values (3, 'x');"
                " return; end $$"
            )
        join = "select * from aiq.iterated_join('SE-0117', 'operator', p_links => '{judged}')"
        statement = (
            "with j as materialized (select tools.settle('percolate.link_judge', 'tools.judge'))"
            f" select r.* from j, lateral ({join}) as r"
        )
        with pytest.raises(psycopg.Error) as caught:
            passthrough(connection, statement)
        assert caught.value.sqlstate in {"0A000", "25006", "55000"}
        check_writable(connection)
