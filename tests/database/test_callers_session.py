"""What a caller puts into their session changes no answer and shows nobody else's rows."""

from __future__ import annotations

import json
import statistics
import time
from random import Random

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from graphalgo.engine.errors import InvalidValue, NotFound
from graphalgo.stores.client import ClientStore
from tests.support import harbour
from tests.support.engine import Bound
from tests.support.roles import refused, relations
from tests.support.server import ServerFunctions
from tests.support.timing import soon

QUESTIONS = [
    ("iterated_join", {"seed": "NL-2231", "target_type": "operator"}),
    ("iterated_join", {"seed": "vessel/meridien dawn", "target_type": "port", "similarity": 0.5}),
    ("iterated_join", {"seed": "SE-0117", "target_type": "operator"}),
    ("iterated_join", {"seed": "Meridian Star", "target_type": "port", "links": ["judged"]}),
    ("walk", {"key": "Rotterdam", "depth": 5}),
    ("walk", {"key": "Bulk Harmony", "depth": 2, "as_of": "2999-01-01T00:00:00+00:00"}),
    ("lookup", {"keys": ["meridian", "MERIDIEN", "SE-0117", "nobody"], "fuzzy": True}),
]
VIEWS = ("nodes_ever", "node_keys_api", "edges_current", "edge_periods", "link_verdicts_api")
TENANTS = ("meridian", "kestrel")


@pytest.fixture(scope="module")
def judged_dsn(make_database):
    """The tenants' sample, with verdicts on pairs that one of them sees."""
    from graphalgo.install import install  # noqa: PLC0415
    from graphalgo.loading import load_harbour  # noqa: PLC0415

    made = make_database()
    install(made)
    load_harbour(made, scoped=True)
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(
            """
            insert into aiq.link_verdicts (node_a, node_b, confidence, reason)
            select
                least(a.id, b.id), greatest(a.id, b.id), 0.5,
                a.summary || ' secretly ' || b.summary
            from aiq.nodes as a, aiq.nodes as b
            where a.entity_type = 'vessel' and b.entity_type in ('port', 'operator')
            """
        )
        # The two tenants' own ships, and operators, are known not to be the same.
        connection.execute(
            """
            select aiq.record_distinct(a.id, b.id, 'a clerk', '{}')
            from aiq.nodes as a
            join aiq.nodes as b on b.entity_type = a.entity_type and b.id > a.id
            where a.entity_type in ('vessel', 'operator')
            """
        )
    return made


@pytest.fixture
def connection(judged_dsn):
    """A superuser's transaction, rolled back at the end."""
    with (
        psycopg.connect(judged_dsn, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
        yield connection


def become(connection, tenant, role="authenticated"):
    claims = json.dumps(harbour.claims_of(tenant))
    connection.execute("select set_config('request.jwt.claims', %s, true)", [claims])
    connection.execute(f"set local role {role}")


def answers(connection):
    """Every question's rows, from inside the server and over the connection."""
    found = []
    for algorithms in (ServerFunctions(connection), Bound(ClientStore(connection))):
        for name, arguments in QUESTIONS:
            try:
                with connection.transaction():
                    rows = getattr(algorithms, name)(**arguments)
            except Exception as error:  # a refusal is an answer here
                found.append((error.sqlstate, str(error).split("CONTEXT")[0]))
            else:
                found.append([row.as_dict() for row in rows])
    return found


# Objects named as those that our text names, each with a wrong answer.
TABLES = (
    "nodes", "node_keys", "edges", "entity_types", "relations", "nodes_api", "nodes_ever",
    "node_keys_api", "edges_current", "edge_periods", "entity_types_api", "relations_api",
    "link_verdicts", "link_verdicts_api", "org_members", "pg_proc", "pg_namespace", "pg_type",
    "pg_attribute", "held", "shared", "best", "placed", "links",
)  # fmt: skip
FUNCTIONS = """
create function {schema}.similarity(text, text) returns real language sql as 'select 1::real';
create function {schema}.now() returns timestamptz
    language sql as $$ select 'epoch'::timestamptz $$;
create function {schema}.fold_key(text) returns text language sql as $$ select 'evil' $$;
create function {schema}.current_setting(text, boolean) returns text
    language sql as $$ select 'evil' $$;
create function {schema}.caller_audiences() returns uuid[]
    language sql as 'select null::uuid[]';
create function {schema}.has_function_privilege(oid, text) returns boolean
    language sql as 'select false';
create function {schema}.walk(text, int, text, int, int, timestamptz) returns int
    language sql as 'select 1';
create function {schema}.array_length(anyarray, int) returns int language sql as 'select 0';
create function {schema}.unnest(bigint[]) returns setof bigint language sql as 'select 1::bigint';
create function {schema}.count(bigint) returns bigint language sql as 'select 7::bigint';
create function {schema}.set_config(text, text, boolean) returns text
    language sql as 'select $1';
create function {schema}.never(text, text) returns boolean language sql as 'select false';
create function {schema}.never(bigint, bigint) returns boolean language sql as 'select false';
create function {schema}.never(real, real) returns boolean language sql as 'select false';
create function {schema}.never(uuid, uuid) returns boolean language sql as 'select false';
create operator {schema}.% (function = {schema}.never, leftarg = text, rightarg = text);
create operator {schema}.= (function = {schema}.never, leftarg = text, rightarg = text);
create operator {schema}.<> (function = {schema}.never, leftarg = text, rightarg = text);
create operator {schema}.= (function = {schema}.never, leftarg = bigint, rightarg = bigint);
create operator {schema}.<> (function = {schema}.never, leftarg = bigint, rightarg = bigint);
create operator {schema}.= (function = {schema}.never, leftarg = uuid, rightarg = uuid);
create operator {schema}.>= (function = {schema}.never, leftarg = real, rightarg = real);
"""


class TestHijack:
    @pytest.mark.parametrize("tenant", TENANTS)
    def test_temporary_objects_are_never_resolved(self, connection, tenant):
        become(connection, tenant)
        before = answers(connection)
        views = [connection.execute(f"table aiq.{view}").fetchall() for view in VIEWS]
        for table in TABLES:
            connection.execute(f"create temporary table {table} (id bigint, key text, name text)")
        connection.execute(FUNCTIONS.format(schema="pg_temp"))
        connection.execute("create type pg_temp.jsonb as enum ('evil')")
        connection.execute("create domain pg_temp.uuid as text check (value = 'evil')")
        connection.execute("set local search_path = pg_temp, pg_catalog, aiq")
        assert answers(connection) == before
        after = [connection.execute(f"table aiq.{view}").fetchall() for view in VIEWS]
        assert after == views

    @pytest.mark.parametrize("tenant", TENANTS)
    @pytest.mark.parametrize("when", ["before the first call", "after it"])
    def test_a_schema_in_front_of_the_search_path_is_never_resolved(self, judged_dsn, tenant, when):
        """In a fresh session, too, where nothing has been planned yet."""
        with psycopg.connect(judged_dsn, autocommit=True) as connection:
            connection.execute("set percolate.link_judge = 'aiq.stored_link_judge'")
            harbour.speak_as(connection, harbour.claims_of(tenant))
            expected = answers(connection)
        with (
            psycopg.connect(judged_dsn, autocommit=True) as connection,
            connection.transaction(force_rollback=True),
        ):
            connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
            connection.execute("create schema evil authorization authenticated")
            become(connection, tenant)
            connection.execute(FUNCTIONS.format(schema="evil"))
            for table in TABLES:
                connection.execute(f"create table evil.{table} (id bigint, key text, name text)")
            if when == "after it":
                assert answers(connection) == expected
            connection.execute("set local search_path = evil, pg_catalog, public")
            assert answers(connection) == expected

    def test_nor_is_it_by_the_store_over_a_connection(self, judged_dsn):
        """Outside a transaction of the caller's, the store's own pins the path."""
        with psycopg.connect(judged_dsn, autocommit=True) as connection:
            connection.execute("set percolate.link_judge = 'aiq.stored_link_judge'")
            harbour.speak_as(connection, harbour.claims_of("meridian"))
            store = Bound(ClientStore(connection))
            expected = [
                [row.as_dict() for row in getattr(store, name)(**arguments)]
                for name, arguments in (QUESTIONS[0], QUESTIONS[4], QUESTIONS[6])
            ]
            connection.execute("reset role")
            connection.execute("create schema evil authorization authenticated")
            try:
                connection.execute("set role authenticated")
                connection.execute(FUNCTIONS.format(schema="evil"))
                connection.execute("set search_path = evil, pg_catalog")
                found = [
                    [row.as_dict() for row in getattr(store, name)(**arguments)]
                    for name, arguments in (QUESTIONS[0], QUESTIONS[4], QUESTIONS[6])
                ]
            finally:
                connection.execute("reset role")
                connection.execute("drop schema evil cascade")
            assert found == expected


SHOW = """
select current_setting('search_path'), current_setting('plan_cache_mode'), current_setting('jit')
"""


class TestCallersTransaction:
    """What the store over a connection sets in a transaction of its caller's is put back."""

    @pytest.mark.parametrize("path", ["harbour, public", "''", '"Ö x", "$user", pg_temp'])
    @pytest.mark.parametrize("local", ["", "local"])
    def test_the_settings_are_put_back(self, judged_dsn, path, local):
        with psycopg.connect(judged_dsn) as connection:
            connection.execute(f"set {local} search_path = {path}")
            connection.execute(f"set {local} plan_cache_mode = force_custom_plan")
            before = connection.execute(SHOW).fetchone()
            store = Bound(ClientStore(connection))
            for _ in range(2):
                assert store.lookup(["Rotterdam"])
                assert connection.execute(SHOW).fetchone() == before
            with pytest.raises(NotFound):
                store.walk("nobody at all")
            assert connection.execute(SHOW).fetchone() == before
            connection.commit()
            kept = connection.execute(SHOW).fetchone()
            assert (kept == before) is (local == "")

    def test_they_are_after_a_statement_that_fails_and_is_rolled_back(self, judged_dsn):
        with psycopg.connect(judged_dsn) as connection:
            connection.execute("set local search_path = harbour")
            before = connection.execute(SHOW).fetchone()
            with pytest.raises(InvalidValue) as caught, connection.transaction():
                connection.execute("set local request.jwt.claims = '{'")
                Bound(ClientStore(connection)).walk("Rotterdam")
            assert caught.value.sqlstate == "22023"
            assert connection.execute(SHOW).fetchone() == before
            assert Bound(ClientStore(connection)).lookup(["Rotterdam"])

    def test_a_failed_transaction_says_so(self, judged_dsn):
        with psycopg.connect(judged_dsn) as connection:
            with pytest.raises(psycopg.Error):
                connection.execute("select 1 / 0")
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                Bound(ClientStore(connection)).walk("Rotterdam")

    def test_a_judge_is_found_by_its_own_name_alone(self, connection):
        """The caller's path is not the judge's, in the server or outside it."""
        connection.execute("create schema evil; grant usage on schema evil to authenticated")
        connection.execute(
            "create function public.path(p_nodes bigint[]) returns table (node_id bigint,"
            " linked_id bigint, confidence real, reason text) language sql as $$ select n, m.id,"
            " 1::real, current_setting('search_path') from unnest(p_nodes) as n, aiq.nodes_api as m"
            " where m.entity_type = 'port' $$"
        )
        connection.execute("set local percolate.link_judge = 'public.path'")
        become(connection, "meridian")
        connection.execute("set local search_path = evil, public")
        for algorithms in (ServerFunctions(connection), Bound(ClientStore(connection))):
            row, *_ = algorithms.iterated_join("NL-2231", "port", links=["judged"])
            assert row.path[0]["reason"] == "pg_catalog, pg_temp"


LEAK = """
create function pg_temp.leak(text) returns boolean language plpgsql cost 0.0000001
as $$ begin raise notice 'seen: %', $1; return true; end $$
"""


class TestLeaks:
    @pytest.mark.parametrize("tenant", TENANTS)
    @pytest.mark.parametrize("plans", ["nestloop", "hashjoin", "mergejoin"])
    def test_a_condition_of_the_callers_is_asked_about_their_rows_alone(
        self, connection, tenant, plans
    ):
        """Cheap, and of a function that tells what it is given; on whatever plan."""
        views = [view for view in relations(connection, "v") if view.startswith("aiq.")]
        become(connection, tenant)
        connection.execute(LEAK)
        for other in {"nestloop", "hashjoin", "mergejoin"} - {plans}:
            connection.execute(f"set local enable_{other} = off")
        told = []
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        shown = []
        for view in views:
            if not connection.execute(
                "select has_table_privilege(%s, 'select')", [view]
            ).fetchone()[0]:  # fmt: skip
                continue
            shown += connection.execute(f"select v::text from {view} as v").fetchall()
            connection.execute(f"select from {view} as v where pg_temp.leak(v::text)")
            columns = connection.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0",
                [view],
            ).fetchall()
            for (column,) in columns:
                shown += connection.execute(f"select {column}::text from {view}").fetchall()
                connection.execute(f"select from {view} as v where pg_temp.leak({column}::text)")
        assert len(told) > 100
        assert set(told) <= {f"seen: {text or '<NULL>'}" for (text,) in shown}

    def test_a_verdict_on_what_another_sees_is_not_among_ones_own(self, connection):
        become(connection, "kestrel")
        reasons = connection.execute("select reason from aiq.link_verdicts_api").fetchall()
        assert reasons
        assert all("Aurora Kestrel" in reason for (reason,) in reasons)


SETTINGS = {
    "dates": {"datestyle": "SQL, DMY", "timezone": "Asia/Kolkata"},
    "old dates": {"datestyle": "Postgres, MDY", "timezone": "Australia/Sydney"},
    "German dates": {"datestyle": "German", "timezone": "America/St_Johns"},
    "intervals": {"intervalstyle": "sql_standard"},
    "short floats": {"extra_float_digits": "-15"},
    "old floats": {"extra_float_digits": "0"},
    "similarity": {"pg_trgm.similarity_threshold": "0.99"},
    "strings": {"standard_conforming_strings": "off", "escape_string_warning": "off"},
    "nulls": {"transform_null_equals": "on", "array_nulls": "off"},
    "bytes": {"bytea_output": "escape"},
    "names": {"quote_all_identifiers": "on"},
    "plans": {"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off"},
    "no indexes": {"enable_indexscan": "off", "enable_bitmapscan": "off"},
    "checks": {"plpgsql.extra_errors": "all"},
    "jit": {"jit_above_cost": "0"},
}


class TestSettings:
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_a_setting_of_the_session_changes_no_answer(self, connection, setting):
        become(connection, "meridian")
        before = answers(connection)
        for name, value in SETTINGS[setting].items():
            connection.execute("select set_config(%s, %s, true)", [name, value])
        assert answers(connection) == before

    @pytest.mark.parametrize("digits", [1, 0, -1, -15])
    def test_a_threshold_is_not_rounded_on_its_way(self, connection, digits):
        """Each pair is found at a threshold that is its own similarity."""
        become(connection, "meridian")
        connection.execute("select set_config('extra_float_digits', %s, true)", [str(digits)])
        missed = connection.execute(
            """
            select a.key, b.key
            from aiq.node_keys_api as a
            join aiq.node_keys_api as b on a.is_name and b.is_name and a.key <> b.key
            cross join lateral (select aiq.name_similarity(a.key, b.key)) as s (similarity)
            where
                s.similarity > 0
                and not exists (
                    select from aiq.similar_keys(array[a.key], s.similarity) as k
                    where k.key = b.key and k.node_id = b.node_id
                )
            """
        ).fetchall()
        assert missed == []

    @pytest.mark.parametrize(
        ("style", "zone"), [("SQL, DMY", "Asia/Kolkata"), ("Postgres", "America/St_Johns")]
    )
    def test_a_moment_stays_the_moment_however_dates_are_written(self, connection, style, zone):
        """Where dates are written with a zone's letters, IST is Israel's before it is India's."""
        connection.execute(
            "update aiq.edges"
            " set valid_from = '2020-06-01 12:00+00', valid_to = '2020-06-01 13:00+00'"
        )
        become(connection, "meridian")
        connection.execute("select set_config('timezone', %s, true)", [zone])
        connection.execute("select set_config('datestyle', %s, true)", [style])
        for moment, held in (("11:59", 0), ("12:00", 2), ("12:59", 2), ("13:00", 0)):
            count = "select count(*) from aiq.walk('Meridian Dawn', p_as_of => %s::timestamptz)"
            assert connection.execute(count, [f"2020-06-01T{moment}+00"]).fetchone() == (held,)
            join = (
                "select resolved from aiq.iterated_join('Meridian Dawn', 'port',"
                " p_links => '{edge}', p_as_of => %s::timestamptz)"
            )
            assert connection.execute(join, [f"2020-06-01T{moment}+00"]).fetchone() == (held > 0,)

    @pytest.mark.parametrize("tenant", TENANTS)
    def test_parallel_workers_see_what_the_caller_sees(self, connection, tenant):
        become(connection, tenant)
        statements = [f"select count(*), min(v::text) from aiq.{view} as v" for view in VIEWS]
        before = [connection.execute(text).fetchone() for text in statements]
        version = connection.info.server_version
        force = "debug_parallel_query" if version >= 160000 else "force_parallel_mode"
        for name, value in {
            force: "on", "parallel_setup_cost": "0", "parallel_tuple_cost": "0",
            "min_parallel_table_scan_size": "0", "min_parallel_index_scan_size": "0",
        }.items():  # fmt: skip
            connection.execute("select set_config(%s, %s, true)", [name, value])
        assert [connection.execute(text).fetchone() for text in statements] == before
        connection.execute("select set_config('request.jwt.claims', '{', true)")
        for text in statements:
            state, message, _ = refused(connection, text)
            assert (state, message) == ("22023", 'the setting request.jwt.claims is not JSON: "{"')


class TestJudge:
    SHAPE = "returns table (node_id bigint, linked_id bigint, confidence real, reason text)"

    def judge(self, connection, body, name="judges.j", more=""):
        connection.execute(
            f"create or replace function {name}(p_nodes bigint[]) {self.SHAPE}"
            f" language plpgsql stable {more} as $$ begin {body} end $$"
        )
        connection.execute("select set_config('percolate.link_judge', %s, true)", [name])

    @pytest.fixture
    def judges(self, connection):
        connection.execute(
            "create schema judges;"
            " grant usage, create on schema judges to authenticated, aiq_worker"
        )
        return connection

    @pytest.mark.parametrize("role", ["authenticated", "aiq_worker"])
    @pytest.mark.parametrize("store", [ServerFunctions, lambda c: Bound(ClientStore(c))])
    def test_runs_as_the_caller(self, judges, role, store):
        self.judge(
            judges,
            "return query select p_nodes[1], n.id, 0.5::real, current_user::text"
            " from aiq.nodes_api as n where n.entity_type = 'operator' limit 1;",
        )
        become(judges, "kestrel", role)
        (row,) = store(judges).iterated_join("SE-0117", "operator", links=["judged"])
        assert row.path[0]["reason"] == role

    def test_a_callers_own_temporary_judge_runs_as_nobody_else(self, judges):
        become(judges, "kestrel")
        judges.execute("create temporary table mine (a int)")
        schema = judges.execute(
            "select nspname from pg_namespace where oid = pg_my_temp_schema()"
        ).fetchone()[0]
        self.judge(
            judges,
            "return query select p_nodes[1], n.id, 0.5::real, current_user::text"
            " from aiq.nodes_api as n where n.entity_type = 'operator' limit 1;",
            name=f"{schema}.j",
        )
        (row,) = ServerFunctions(judges).iterated_join("SE-0117", "operator", links=["judged"])
        assert row.path[0]["reason"] == "authenticated"

    @pytest.mark.parametrize(
        "attempt",
        [
            "perform * from aiq.nodes;",
            "perform * from rbac.org_members;",
            "perform aiq.similar_name_candidates('{a}', 0.3::real);",
            "perform aiq.record_link_verdict(1, 2, 1::real);",
            "set local role aiq_owner;",
            "perform set_config('role', 'aiq_engine', true);",
            "insert into aiq.nodes (entity_type) values ('port');",
        ],
    )
    def test_cannot_do_what_the_caller_cannot(self, judged_dsn, attempt):
        with psycopg.connect(judged_dsn, autocommit=True) as connection:
            connection.execute("set session authorization authenticated")
            connection.execute("begin; create temporary table mine (a int)")
            schema = connection.execute(
                "select nspname from pg_namespace where oid = pg_my_temp_schema()"
            ).fetchone()[0]
            self.judge(connection, attempt, name=f"{schema}.j")
            connection.execute(f"alter function {schema}.j volatile")
            state, _, _ = refused(
                connection,
                "select * from aiq.iterated_join('SE-0117', 'operator', p_links => '{judged}')",
            )
            # A statement that writes is refused before anybody's rights are asked about.
            assert state in {"42501", "0A000"}

    def test_links_to_what_the_caller_cannot_see_count_for_nothing(self, judges):
        # Before and beside links that count.
        self.judge(
            judges,
            "return query select p_nodes[1], n.id, 1::real, 'x' from unnest(array[1, 2, 3, 4, 5,"
            " 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 99, -1]::bigint[]) as n (id);",
        )
        become(judges, "kestrel")
        visible = {row[0] for row in judges.execute("select id from aiq.nodes_api")}
        server = ServerFunctions(judges)
        rows = server.iterated_join("SE-0117", "port", links=["judged"], degree_cap=20)
        seed = server.lookup(["SE-0117"])[0].node_id
        trace = server.iterated_join_trace("SE-0117", "port", links=["judged"], degree_cap=20)
        counted = len(visible - {seed})
        assert trace["rounds"][0]["candidates"] == {"judged": counted}
        assert trace["examined"] == rows[0].examined == counted
        assert {row.node_id for row in rows} <= visible
        # The cap falls on what is left, not on what was said.
        capped = server.iterated_join_trace("SE-0117", "port", links=["judged"], degree_cap=counted)
        assert capped["rounds"][0]["capped"] == 0


class TestPool:
    """One connection, whose callers take turns."""

    @pytest.fixture
    def pool(self, judged_dsn):
        with ConnectionPool(judged_dsn, min_size=1, max_size=1, open=True) as pool:
            yield pool

    @pytest.fixture
    def expected(self, judged_dsn):
        """What each tenant is answered on a connection of their own."""
        found = {}
        for tenant in (*TENANTS, None):
            with psycopg.connect(judged_dsn) as connection:
                self.speak(connection, tenant)
                found[tenant] = self.everything(connection)
        assert found["meridian"] != found["kestrel"] != found[None]
        return found

    @staticmethod
    def speak(connection, tenant):
        connection.execute("set local role authenticated")
        connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
        if tenant is not None:
            claims = json.dumps(harbour.claims_of(tenant))
            connection.execute("select set_config('request.jwt.claims', %s, true)", [claims])

    @staticmethod
    def everything(connection):
        rows = [
            connection.execute(f"select * from aiq.{view} order by 1, 2", prepare=True).fetchall()
            for view in VIEWS
        ]
        for statement in (
            "select * from aiq.walk(%s, p_depth => 5)",
            "select * from aiq.lookup(array[%s, 'meridian', 'kest'], p_fuzzy => true)",
        ):
            rows.append(connection.execute(statement, ["Rotterdam"], prepare=True).fetchall())
        return rows + answers(connection)

    @pytest.mark.parametrize("plans", ["auto", "force_generic_plan", "force_custom_plan"])
    def test_no_row_and_no_plan_is_left_for_the_next_caller(self, pool, expected, plans):
        backends = set()
        # More often than it takes a statement to be prepared and its plan to be kept.
        for turn in range(8):
            for tenant in (TENANTS[turn % 2], TENANTS[(turn + 1) % 2], None):
                with pool.connection() as connection:
                    connection.execute(f"set local plan_cache_mode = {plans}")
                    backends.add(connection.info.backend_pid)
                    self.speak(connection, tenant)
                    assert self.everything(connection) == expected[tenant], (turn, tenant)
        assert len(backends) == 1

    def test_claims_end_with_the_transaction(self, pool, expected):
        with pool.connection() as connection:
            self.speak(connection, "kestrel")
            assert self.everything(connection) == expected["kestrel"]
        with pool.connection() as connection:
            assert connection.execute("select current_user = 'authenticated'").fetchone() == (
                False,
            )
            self.speak(connection, None)
            assert self.everything(connection) == expected[None]

    def test_a_store_that_is_kept_answers_each_caller(self, judged_dsn, expected):
        with psycopg.connect(judged_dsn, autocommit=True) as connection:
            store = Bound(ClientStore(connection))
            for _ in range(4):
                for tenant in TENANTS:
                    harbour.speak_as(connection, harbour.claims_of(tenant))
                    (row,) = store.iterated_join(
                        "SE-0117", "operator", links=["edge", "shared_key"]
                    )
                    assert row.resolved is (tenant == "kestrel")

    def test_a_membership_that_ends_is_heeded_at_once(self, judged_dsn):
        claims = harbour.claims_of("kestrel")
        with (
            psycopg.connect(judged_dsn, autocommit=True) as keeper,
            harbour.caller(judged_dsn, claims) as connection,
        ):
            server = ServerFunctions(connection)
            assert server.lookup(["Aurora Kestrel"])
            keeper.execute("delete from rbac.org_members where user_id = %s", [claims["sub"]])
            try:
                assert server.lookup(["Aurora Kestrel"]) == []
            finally:
                keeper.execute(
                    "insert into rbac.org_members (org_id, user_id)"
                    " select id, %s from rbac.orgs where slug = 'kestrel'",
                    [claims["sub"]],
                )
            assert server.lookup(["Aurora Kestrel"])


class TestTiming:
    def test_a_denied_name_takes_as_long_as_a_missing_one(self, judged_dsn):
        """Medians of calls that take turns, in an order of chance."""
        questions = {
            "denied handle": ("walk", "VSL-1"),
            "missing handle": ("walk", "VSL-8"),
            "denied key": ("lookup", ["9331803"]),
            "missing key": ("lookup", ["9331809"]),
        }

        def medians():
            times: dict[str, list[float]] = {name: [] for name in questions}
            for _ in range(200):
                for name in order.sample(list(questions), len(questions)):
                    function, asked = questions[name]
                    started = time.perf_counter()
                    try:
                        assert getattr(server, function)(asked) == []
                    except psycopg.Error as error:
                        assert error.sqlstate == "P0002"
                    times[name].append(time.perf_counter() - started)
            return {name: statistics.median(taken) for name, taken in times.items()}

        order = Random(7)
        with harbour.caller(judged_dsn, harbour.claims_of("kestrel")) as connection:
            server = ServerFunctions(connection)
            soon(
                medians,
                lambda middle: (
                    middle["denied handle"] < 1.25 * middle["missing handle"]
                    and middle["denied key"] < 1.25 * middle["missing key"]
                ),
            )

    @pytest.mark.parametrize("store", [ServerFunctions, lambda c: Bound(ClientStore(c))])
    @pytest.mark.parametrize(
        ("function", "denied", "missing"),
        [
            ("walk", "VSL-1", "VSL-8"),
            ("walk", "soft-{soft}", "soft-999"),
            ("walk", "Bulk Harmony", "Xyzzyx Qwqwqw"),
            ("walk", "tug/plugh plover", "tug/xyzzyx qwqwqw"),
            ("lookup", "9331803", "9331809"),
            ("lookup", "plugh plover", "xyzzyx qwqwqw"),
            ("lookup", "Bulk Harmony", "Xyzzyx Qwqwqw"),
        ],
    )
    def test_the_caller_is_asked_for_as_often(self, connection, store, function, denied, missing):
        """Most of what a denied row could cost more is to find out who asks."""
        connection.execute(
            'select aiq.upsert_graph(\'{"nodes": [{"k": "tug", "n": "plugh plover"}]}\','
            " jsonb_build_object('org', (select id from rbac.orgs where slug = 'meridian')))"
        )
        soft = connection.execute("select max(id) from aiq.nodes").fetchone()[0]
        asked = [text.format(soft=soft) for text in (denied, missing)]
        assert self.answered(connection, store, function, asked[0], "meridian") is not None
        connection.execute("set local track_functions = 'all'")
        counts = []
        for text in (*asked, *asked):
            before = self.asked_for(connection)
            assert self.answered(connection, store, function, text, "kestrel") is None
            counts.append(self.asked_for(connection) - before)
        assert counts[0] > 0
        assert counts[2] == counts[3]

    @pytest.mark.parametrize(
        ("form", "denied", "missing"),
        [
            ('LOOKUP "{}"', "9331803", "9331809"),
            ('LOOKUP "{}"', "Bulk Harmony", "Xyzzyx Qwqwqw"),
            ('LOOKUP "{}"', "tug/plugh plover", "tug/xyzzyx qwqwqw"),
            ('LOOKUP "{}", "another key"', "9331803", "9331809"),
            ('FUZZY LOOKUP "{}"', "9331803", "9331809"),
            ('GRAPH "{}"', "VSL-1", "VSL-8"),
            ('GRAPH "{}"', "Bulk Harmony", "Xyzzyx Qwqwqw"),
            ('GRAPH "{}"', "tug/plugh plover", "tug/xyzzyx qwqwqw"),
        ],
    )
    def test_a_query_asks_for_the_caller_as_often(self, connection, form, denied, missing):
        connection.execute(
            'select aiq.upsert_graph(\'{"nodes": [{"k": "tug", "n": "plugh plover"}]}\','
            " jsonb_build_object('org', (select id from rbac.orgs where slug = 'meridian')))"
        )

        def rows(name, tenant):
            become(connection, tenant)
            answer = connection.execute("select aiq.query(%s)", [form.format(name)]).fetchone()
            connection.execute("reset role")
            return answer[0]["rows"]

        connection.execute("set local track_functions = 'all'")
        assert rows(denied, "meridian") or form.startswith("GRAPH")
        counts = []
        for name in (denied, missing, denied, missing):
            before = self.asked_for(connection)
            assert rows(name, "kestrel") == []
            counts.append(self.asked_for(connection) - before)
        assert counts[0] > 0
        assert counts[2] == counts[3]

    @staticmethod
    def answered(connection, store, function, text, tenant):
        become(connection, tenant)
        fuzzy = {"fuzzy": True} if function == "lookup" else {}
        try:
            with connection.transaction():
                asked = [text] if function == "lookup" else text
                rows = getattr(store(connection), function)(asked, **fuzzy)
        except NotFound:
            return None
        except psycopg.Error as error:
            assert error.sqlstate == "P0002"
            return None
        finally:
            connection.execute("reset role")
        return None if function == "lookup" and not rows else rows

    @staticmethod
    def asked_for(connection):
        """How often the policies have asked for the caller's audiences in this transaction."""
        row = connection.execute(
            "select pg_stat_get_xact_function_calls('rbac.caller_audiences()'::regprocedure)"
        ).fetchone()
        return row[0] or 0
