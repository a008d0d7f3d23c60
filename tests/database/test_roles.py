"""Who may do what: the roles' rights, read from the catalogue and tried; and the claims."""

from __future__ import annotations

import json
from uuid import UUID

import psycopg
import pytest

from graphalgo.engine.errors import GraphAlgoError, InvalidValue
from graphalgo.stores.client import ClientStore
from tests.support import harbour
from tests.support.engine import Bound
from tests.support.roles import (
    ALL_ROLES,
    CALLS,
    HELPERS,
    REQUESTS,
    bare,
    functions,
    refused,
    relations,
)
from tests.support.server import ServerFunctions

NOT_ALLOWED = "42501"

# Tables that hold no tenant's rows: the vocabulary, and the installer's books.
WITHOUT_TENANTS = {"aiq.entity_types", "aiq.relations", "aiq.meta", "aiq.installed_objects"}


@pytest.fixture
def connection(tenants_dsn):
    """A superuser's transaction, rolled back at the end."""
    with (
        psycopg.connect(tenants_dsn, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
        yield connection


def claim(connection, claims):
    written = claims if isinstance(claims, str) else json.dumps(claims)
    connection.execute("select set_config('request.jwt.claims', %s, true)", [written])


class TestAnonymous:
    def test_it_has_no_usage_on_our_schemas(self, connection):
        row = connection.execute(
            "select has_schema_privilege('web_anon', 'aiq', 'usage, create'),"
            " has_schema_privilege('web_anon', 'rbac', 'usage, create')"
        ).fetchone()
        assert row == (False, False)

    def test_nothing_of_ours_is_granted_to_it_or_to_everyone(self, connection):
        rows = connection.execute(
            """
            select c.oid::regclass::text from pg_class as c
            cross join lateral aclexplode(c.relacl) as a
            where
                c.relnamespace in ('aiq'::regnamespace, 'rbac'::regnamespace)
                and a.grantee in (0, 'web_anon'::regrole)
            union all
            select p.oid::regprocedure::text from pg_proc as p
            cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
            where
                p.pronamespace in ('aiq'::regnamespace, 'rbac'::regnamespace)
                and a.grantee in (0, 'web_anon'::regrole)
            """
        ).fetchall()
        assert rows == []

    def test_every_view_and_function_is_closed_to_it(self, connection):
        statements = [f"select * from {view}" for view in relations(connection, "v")]
        assert statements
        connection.execute("set local role web_anon")
        for statement in [*statements, *CALLS.values(), "select rbac.caller_audiences()"]:
            assert refused(connection, statement)[0] == NOT_ALLOWED


class TestCatalogue:
    def test_the_functions_that_callers_may_execute_are_these(self, connection):
        """A new one has to be added to the calls that are tried below."""
        may = "has_function_privilege('authenticated', p.oid, 'execute')"
        found = {bare(name) for name in functions(connection, may)}
        assert found == set(CALLS) | HELPERS | set(REQUESTS)

    @pytest.mark.parametrize(
        ("condition", "why"),
        [
            (
                "not coalesce('search_path=pg_catalog, pg_temp' = any (p.proconfig), false)",
                "resolves names along its caller's search_path",
            ),
            ("obj_description(p.oid, 'pg_proc') is null", "has no comment"),
            ("has_function_privilege('public', p.oid, 'execute')", "is everyone's to execute"),
            (
                "pg_get_userbyid(p.proowner) not in ('aiq_owner', 'aiq_engine')"
                " and p.oid <> 'aiq.sql_passthrough(text,int)'::regprocedure",
                "belongs to somebody else",
            ),
            (
                "p.prosecdef and l.lanname not in ('sql', 'plpgsql')",
                "runs untrusted code as another role",
            ),
            (
                "p.proowner = 'aiq_engine'::regrole"
                " and has_function_privilege('authenticated', p.oid, 'execute')",
                "is the engine's, yet callers may execute it",
            ),
            (
                "p.prosecdef and p.prosrc ~ 'link_judge'",
                "may call the judge of a caller as another role",
            ),
            (
                "p.proname ~ '^(iterated_join|walk|lookup|stored_link_judge)' and p.prosecdef",
                "may call a judge, or be one, as another role",
            ),
        ],
    )
    def test_no_function_of_ours(self, connection, condition, why):
        found = functions(connection, condition)
        assert found == [], why

    def test_every_relation_has_a_comment_and_is_the_owners(self, connection):
        rows = connection.execute(
            """
            select c.oid::regclass::text, pg_get_userbyid(c.relowner),
                obj_description(c.oid, 'pg_class') is null
            from pg_class as c
            where
                c.relnamespace in ('aiq'::regnamespace, 'rbac'::regnamespace)
                and c.relkind in ('r', 'p', 'v', 'm')
            """
        ).fetchall()
        assert rows
        assert [row for row in rows if row[2]] == []
        assert {row[1] for row in rows} == {"aiq_owner"}

    def test_row_security_is_forced_wherever_tenants_have_rows(self, connection):
        rows = connection.execute(
            """
            select c.oid::regclass::text, c.relrowsecurity and c.relforcerowsecurity
            from pg_class as c
            where c.relnamespace = 'aiq'::regnamespace and c.relkind in ('r', 'p')
            """
        ).fetchall()
        forced = {name for name, is_forced in rows if is_forced}
        assert {"aiq.nodes", "aiq.node_keys", "aiq.edges", "aiq.link_verdicts"} <= forced
        assert {name for name, _ in rows} - forced - WITHOUT_TENANTS <= registrations(connection)

    def test_a_policy_is_for_the_owner_to_read_by_or_for_a_role_of_ours(self, connection):
        rows = connection.execute(
            """
            select tablename, policyname, roles::text[], cmd, permissive
            from pg_policies where schemaname in ('aiq', 'rbac')
            """
        ).fetchall()
        assert rows
        for table, policy, names, command, permissive in rows:
            (role,) = names
            assert permissive == "PERMISSIVE"
            assert (role, command) in {
                ("aiq_owner", "SELECT"),
                ("aiq_engine", "ALL"),
                ("aiq_worker", "SELECT"),
            }, (table, policy)

    def test_no_role_of_ours_gets_round_row_security(self, connection):
        rows = connection.execute(
            "select rolname, rolsuper, rolbypassrls, rolcanlogin, rolcreaterole, rolreplication"
            " from pg_roles where rolname = any (%s)",
            [list(ALL_ROLES)],
        ).fetchall()
        assert sorted(row[0] for row in rows) == sorted(ALL_ROLES)
        assert not any(any(row[1:]) for row in rows)

    def test_no_role_of_ours_is_a_member_of_another(self, connection):
        for role in ALL_ROLES:
            for other in ALL_ROLES:
                row = connection.execute(
                    "select pg_has_role(%s, %s, 'member')", [role, other]
                ).fetchone()
                expected = role == other or (role, other) == ("aiq_reader", "authenticated")
                assert row == (expected,), (role, other)

    def test_the_reader_has_nothing_but_what_callers_have(self, connection):
        """And one function, with the functions that serve it."""
        owned = functions(connection, "p.proowner = 'aiq_reader'::regrole")
        assert owned == ["aiq.sql_passthrough(text,integer)"]
        granted = connection.execute(
            "select p.proname from pg_proc as p cross join lateral aclexplode(p.proacl) as a"
            " where a.grantee = 'aiq_reader'::regrole and p.proowner <> a.grantee order by 1"
        ).fetchall()
        assert [row[0] for row in granted] == [
            "cursor_columns", "read_statement", "run_statement", "sql_passthrough_plpython",
        ]  # fmt: skip
        others = connection.execute(
            "select d.classid::regclass::text, d.objid from pg_shdepend as d"
            " where d.refobjid = 'aiq_reader'::regrole and d.classid <> 'pg_proc'::regclass"
            " and d.dbid = (select oid from pg_database where datname = current_database())"
        ).fetchall()
        assert others == []


def registrations(connection):
    """Tables that hold what is registered, which names tables and no row of theirs."""
    return {
        name
        for name in relations(connection, "rp")
        if name in {"aiq.entity_tables", "aiq.link_tables"}
    }


class TestCallers:
    @pytest.mark.parametrize("role", ["authenticated", "web_anon", "aiq_worker"])
    def test_no_base_table_is_theirs(self, connection, role):
        tables = relations(connection, "rp")
        assert len(tables) > 10
        for table in tables:
            held = connection.execute(
                "select p from unnest('{select,insert,update,delete,truncate,references,trigger}'"
                "::text[]) as p where has_table_privilege(%s, %s, p)",
                [role, table],
            ).fetchall()
            columns = connection.execute(
                "select has_any_column_privilege(%s, %s, 'select, insert, update, references')",
                [role, table],
            ).fetchone()
            # The worker reads which pairs of names are to be judged.
            queue = (role, table) == ("aiq_worker", "aiq.link_pair_queue")
            assert held == ([("select",)] if queue else [])
            assert columns == (queue,)

    def test_reading_a_base_table_is_refused(self, connection):
        tables = relations(connection, "rp")
        connection.execute("set local role authenticated")
        for table in tables:
            state, message, _ = refused(connection, f"select * from {table}")
            assert state == NOT_ALLOWED and message.startswith("permission denied")

    def test_no_sequence_is_theirs(self, connection):
        for sequence in relations(connection, "S"):
            row = connection.execute(
                "select has_sequence_privilege('authenticated', %s, 'usage, select, update')",
                [sequence],
            ).fetchone()
            assert row == (False,)

    @pytest.mark.parametrize("role", ["authenticated", "aiq_worker"])
    def test_no_view_can_be_written_through(self, connection, role):
        views = [view for view in relations(connection, "v") if view.startswith("aiq.")]
        readable = [
            view
            for view in views
            if connection.execute(
                "select has_table_privilege(%s, %s, 'select')", [role, view]
            ).fetchone()
            == (True,)
        ]
        assert len(readable) >= 8
        connection.execute(f"set local role {role}")
        for view in readable:
            row = connection.execute(
                "select has_table_privilege(%s, 'insert, update, delete, truncate, trigger')",
                [view],
            ).fetchone()
            assert row == (False,)
            column = connection.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum = 1",
                [view],
            ).fetchone()[0]
            for statement in (
                f"insert into {view} ({column}) values (default)",
                f"update {view} set {column} = {column}",
                f"delete from {view}",
                f"select * from {view} for update",
            ):
                # A view over several tables is said not to be written through by anybody.
                assert refused(connection, statement)[0] in {NOT_ALLOWED, "55000"}, statement

    def test_they_can_create_nothing_in_our_schemas(self, connection):
        connection.execute("set local role authenticated")
        for statement in (
            "create table aiq.mine (a int)",
            "create function aiq.mine() returns int language sql as 'select 1'",
            "create view rbac.mine as select 1",
            "comment on view aiq.nodes_api is 'mine'",
            "alter table aiq.nodes disable row level security",
            "drop view aiq.nodes_api",
        ):
            assert refused(connection, statement)[0] == NOT_ALLOWED

    def test_what_is_the_engines_or_the_workers_is_refused(self, connection):
        """Candidate functions, writers, triggers: each is called with nulls."""
        closed = connection.execute(
            """
            select
                p.oid::regprocedure::text,
                format(
                    'select %s(%s)', p.oid::regproc,
                    array_to_string(array(
                        select 'null::' || format_type(t, null) from unnest(p.proargtypes) as t
                    ), ', ')
                )
            from pg_proc as p
            where
                p.pronamespace in ('aiq'::regnamespace, 'rbac'::regnamespace)
                and p.prorettype <> 'trigger'::regtype and p.prokind = 'f'
                and not has_function_privilege('authenticated', p.oid, 'execute')
            """
        ).fetchall()
        names = {bare(signature) for signature, _ in closed}
        assert {"similar_name_candidates", "record_link_verdict", "queue_link_pairs"} <= names
        connection.execute("set local role authenticated")
        for _, call in closed:
            state, message, _ = refused(connection, call)
            assert state == NOT_ALLOWED, call
            assert message.startswith("permission denied")

    @pytest.mark.parametrize("role", ["authenticated", "aiq_worker"])
    @pytest.mark.parametrize("request_", REQUESTS)
    def test_a_table_of_somebody_elses_is_not_theirs_to_register(self, connection, role, request_):
        before = connection.execute("select e::text from aiq.entity_tables as e").fetchall()
        assert before
        connection.execute(f"set local role {role}")
        assert refused(connection, REQUESTS[request_])[0] == NOT_ALLOWED
        connection.execute("reset role")
        assert before == connection.execute("select e::text from aiq.entity_tables as e").fetchall()

    def test_row_security_cannot_be_put_off(self, connection):
        claim(connection, harbour.claims_of("kestrel"))
        connection.execute("set local role authenticated")
        connection.execute("set local row_security = off")
        for statement in ("select * from aiq.nodes_api", "select * from aiq.walk('NL-2231')"):
            state, message, _ = refused(connection, statement)
            assert state == NOT_ALLOWED and "row-level security" in message

    @pytest.mark.parametrize("role", ["aiq_owner", "aiq_engine", "aiq_worker", "postgres"])
    def test_a_caller_cannot_become_another(self, tenants_dsn, role):
        with psycopg.connect(tenants_dsn, autocommit=True) as connection:
            connection.execute("set session authorization authenticated")
            assert refused(connection, f"set role {role}")[0] == NOT_ALLOWED
            assert refused(connection, f"select set_config('role', '{role}', true)")[0] == (
                NOT_ALLOWED
            )


USER = harbour.claims_of("kestrel")["sub"]
# Claims that cannot be read, and a part of what is said of them.
BAD_CLAIMS = {
    "no JSON": ("{", 'is not JSON: "{"'),
    "a bare word": ("kestrel", 'is not JSON: "kestrel"'),
    "a list": ("[]", "holds a JSON array, but must hold an object: []"),
    "a number": ("7", "holds a JSON number, but must hold an object: 7"),
    "a text": ('"kestrel"', "holds a JSON string"),
    "null": ("null", "holds a JSON null"),
    "a NUL": ('{"sub": "\\u0000"}', "is not JSON"),
    "nested beyond measure": ("[" * 200_000, "is not JSON"),
    "sub no uuid": (
        '{"sub": "kestrel"}',
        'the claim "sub" in the setting request.jwt.claims is not made of uuids: "kestrel"',
    ),
    "sub empty": ('{"sub": ""}', 'the claim "sub"'),
    "sub a number": ('{"sub": 7}', 'the claim "sub"'),
    "sub an object": ('{"sub": {}}', 'the claim "sub"'),
    "orgs a text": (f'{{"sub": "{USER}", "orgs": "{USER}"}}', 'the claim "orgs"'),
    "orgs a number": (f'{{"sub": "{USER}", "orgs": 7}}', 'the claim "orgs"'),
    "orgs an object": (f'{{"sub": "{USER}", "orgs": {{}}}}', 'the claim "orgs"'),
    "an org no uuid": (f'{{"sub": "{USER}", "orgs": ["{USER}", "kestrel"]}}', 'the claim "orgs"'),
    "an org a number": (f'{{"sub": "{USER}", "orgs": [7]}}', 'the claim "orgs"'),
    "an org null": (
        f'{{"sub": "{USER}", "orgs": [null]}}',
        'the claim "orgs" in the setting request.jwt.claims is not made of uuids: [null]',
    ),
    "an org a list": (f'{{"sub": "{USER}", "orgs": [["{USER}"]]}}', 'the claim "orgs"'),
    "orgs without a sub": ('{"orgs": ["kestrel"]}', 'the claim "orgs"'),
}
# Claims of nobody in particular: what is public and shared, and no more.
NOBODY = {
    "empty": "",
    "blank": " \t\n",
    "no claim": "{}",
    "no sub": '{"role": "authenticated", "exp": 1}',
    "a null sub": '{"sub": null, "orgs": null}',
    "a stranger": json.dumps({"sub": str(UUID(int=9))}),
    "orgs without a sub": json.dumps({"orgs": [USER.replace("e", "d", 1)]}),
    "someone else's org": json.dumps({"sub": USER, "orgs": [str(UUID(int=9))]}),
    "no org": json.dumps({"sub": USER, "orgs": []}),
}
NO_ROW = "select * from {} as v where v::text = 'no such row'"


class TestClaims:
    @pytest.mark.parametrize("bad", BAD_CLAIMS)
    @pytest.mark.parametrize("role", ["authenticated", "aiq_worker", None])
    def test_what_cannot_be_read_is_refused_naming_the_setting(self, connection, bad, role):
        written, says = BAD_CLAIMS[bad]
        views = [view for view in relations(connection, "v") if readable(connection, view)]
        assert len(views) >= 8
        claim(connection, written)
        if role:
            connection.execute(f"set local role {role}")
        for statement in [
            *(NO_ROW.format(view) for view in views),
            *(f"select count(*) from {view}" for view in views),
            *CALLS.values(),
            "select * from aiq.lookup('{}')",
            "select * from aiq.lookup(array['', ' '], p_fuzzy => true)",
            "select * from aiq.similar_keys('{}', 0.9::real)",
            "select * from aiq.iterated_join('NL-2231', 'vessel', p_links => '{judged}')",
        ]:
            found = refusal_of(connection, statement)
            assert found[0] == "22023", statement
            assert found[1].startswith(("the setting request.jwt.claims ", "the claim "))
            assert "request.jwt.claims" in found[1] and says in found[1]
            assert found[2]

    @pytest.mark.parametrize("bad", BAD_CLAIMS)
    def test_the_store_over_a_connection_refuses_them_alike(self, connection, bad):
        claim(connection, BAD_CLAIMS[bad][0])
        connection.execute("set local role authenticated")
        algorithms = Bound(ClientStore(connection))
        for name, arguments in (
            ("walk", ("NL-2231",)),
            ("lookup", ([],)),
            ("lookup", (["nobody"], True)),
            ("iterated_join", ("nobody", "vessel")),
        ):
            with pytest.raises(InvalidValue) as caught, connection.transaction():
                getattr(algorithms, name)(*arguments)
            assert caught.value.sqlstate == "22023"
            assert BAD_CLAIMS[bad][1] in caught.value.message
            assert caught.value.hint

    @pytest.mark.parametrize("written", NOBODY)
    def test_of_nobody_in_particular_they_show_what_is_shared(self, connection, written):
        connection.execute("set local role authenticated")
        views = ["aiq.nodes_ever", "aiq.nodes_api", "aiq.node_keys_api", "aiq.edge_periods"]
        seen = [connection.execute(f"table {view}").fetchall() for view in views]
        claim(connection, NOBODY[written])
        assert [connection.execute(f"table {view}").fetchall() for view in views] == seen
        assert {row[0] for row in connection.execute("select org_id from aiq.nodes_api")} == {None}
        assert ServerFunctions(connection).lookup(["Aurora Kestrel", "Meridian Dawn"]) == []

    def test_a_setting_that_was_never_set_shows_what_is_shared(self, tenants_dsn):
        with psycopg.connect(tenants_dsn, autocommit=True) as connection:
            connection.execute("set role authenticated")
            rows = connection.execute("select distinct org_id from aiq.nodes_api").fetchall()
            assert rows == [(None,)]


def readable(connection, view):
    return connection.execute(
        "select has_table_privilege('authenticated', %s, 'select')", [view]
    ).fetchone() == (True,)


def refusal_of(connection, statement):
    """A refusal; where a PL/Python function hands one on as a value, that one."""
    if "_plpython(" not in statement:
        return refused(connection, statement)
    with connection.transaction():
        rows = connection.execute(statement.encode()).fetchall()
    told = json.loads(rows[0][-1])
    return told["sqlstate"], told["message"], told["hint"]


class TestPrivateRows:
    @pytest.fixture
    def private(self, connection):
        """Kestrel's and Meridian's members have a port of their own each."""
        for number, tenant in ((901, "kestrel"), (902, "meridian")):
            connection.execute(
                "insert into aiq.nodes (id, entity_type, visibility, owner_id)"
                " values (%s, 'port', 'private', %s)",
                [number, harbour.claims_of(tenant)["sub"]],
            )
        connection.execute(
            "insert into aiq.node_keys (node_id, key, kind)"
            " values (901, 'cove', 'canonical'), (902, 'cove', 'canonical')"
        )
        connection.execute("set local role authenticated")
        return connection

    @pytest.mark.parametrize(
        ("claims", "seen"),
        [
            ({"sub": USER}, [901]),
            ({"sub": USER, "orgs": []}, [901]),
            (harbour.claims_of("meridian"), [902]),
            ({"orgs": []}, []),
            ({"sub": str(UUID(int=9))}, []),
        ],
    )
    def test_are_their_owners_whatever_organisations_are_claimed(self, private, claims, seen):
        claim(private, claims)
        assert [row.node_id for row in ServerFunctions(private).lookup(["cove"])] == seen
        assert [row[0] for row in private.execute(
            "select id from aiq.nodes_api where id > 900 order by id"
        )] == seen  # fmt: skip


class TestSuperuser:
    """What a superuser asks through our views and functions is answered by the claims, too."""

    @pytest.mark.parametrize("tenant", ["meridian", "kestrel"])
    def test_reads_the_views_as_the_claims_say(self, connection, tenant):
        claim(connection, harbour.claims_of(tenant))
        views = [view for view in relations(connection, "v") if readable(connection, view)]
        statements = [f"select v::text from {view} as v order by 1" for view in views]
        statements += [
            "select * from aiq.walk('Rotterdam', p_depth => 5)",
            "select * from aiq.lookup(array['meridian', 'kest'], p_fuzzy => true)",
        ]
        as_superuser = [connection.execute(text.encode()).fetchall() for text in statements]
        connection.execute("set local role authenticated")
        assert [connection.execute(text.encode()).fetchall() for text in statements] == as_superuser

    def test_without_claims_sees_what_is_shared(self, connection):
        connection.execute("reset role")
        rows = connection.execute("select distinct org_id from aiq.nodes_api").fetchall()
        assert rows == [(None,)]


class TestSetRole:
    def test_inside_a_transaction_each_role_has_its_own_rights(self, connection):
        """Plans that one role has made serve no other."""
        question = "select handle from aiq.walk('Aurora Kestrel')"
        claim(connection, harbour.claims_of("kestrel"))
        connection.execute("prepare base as select count(*) from aiq.nodes")
        connection.execute("prepare view as select count(*) from aiq.nodes_api")
        everything = connection.execute("execute base").fetchone()
        for _ in range(7):
            connection.execute("reset role")
            found = connection.execute(question).fetchall()
            assert found
            assert connection.execute("execute base").fetchone() == everything
            seen = connection.execute("execute view").fetchone()
            connection.execute("set local role authenticated")
            assert connection.execute(question).fetchall() == found
            assert connection.execute("execute view").fetchone() == seen
            assert refused(connection, "execute base")[0] == NOT_ALLOWED
            connection.execute("set local role web_anon")
            for statement in (question, "execute view", "execute base"):
                assert refused(connection, statement)[0] == NOT_ALLOWED

    def test_and_claims_that_change_within_one_are_heeded_at_once(self, connection):
        connection.execute("set local role authenticated")
        server, client = ServerFunctions(connection), Bound(ClientStore(connection))
        for _ in range(4):
            for tenant, found in (("kestrel", True), ("meridian", False)):
                claim(connection, harbour.claims_of(tenant))
                for algorithms in (server, client):
                    (row,) = algorithms.iterated_join(
                        "SE-0117", "operator", links=["edge", "shared_key"]
                    )
                    assert row.resolved is found

    def test_claims_of_a_savepoint_end_with_it(self, connection):
        connection.execute("set local role authenticated")
        claim(connection, harbour.claims_of("meridian"))
        server = ServerFunctions(connection)
        with connection.transaction(force_rollback=True):
            claim(connection, harbour.claims_of("kestrel"))
            assert server.walk("Aurora Kestrel")
        with pytest.raises((psycopg.Error, GraphAlgoError)) as caught, connection.transaction():
            server.walk("Aurora Kestrel")
        assert caught.value.sqlstate == "P0002"
