"""`aiq.query` and `aiq.parse`: the dialect inside the server, and the same over a connection."""

from __future__ import annotations

import json

import psycopg
import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.install import install
from graphalgo.loading import load_harbour
from graphalgo.p8ql.query import query
from graphalgo.samples import harbour_json
from graphalgo.stores.client import ClientStore
from graphalgo.stores.memory import MemoryStore
from tests.support import harbour
from tests.support.queries import REFUSED, UNDERSTOOD

MACHINERY = "[0.1, 0, 0.7, 0.7]"
QUERIES = [
    'LOOKUP "meridian dawn"',
    'LOOKUP "Meridian", "9331802", \'meridien dawn\', "project/harbour rewrite", "no such thing"',
    'FUZZY LOOKUP "meridien" LIMIT 2',
    'LOOKUP ""',
    'GRAPH "bulk harmony" DEPTH 3',
    'GRAPH "VSL-1" TYPE operated_by',
    'GRAPH "soft-14"',
    'GRAPH "meridan dawn"',
    'GRAPH "9331802"',
    'TEXT "boiler" FROM notes',
    "TEXT '\"port state\" or galley -pelican' FROM notes LIMIT 2",
    'TEXT "the" FROM notes',
    'SEMANTIC "x" FROM notes LIMIT 3',
    'SEMANTIC "x" FROM notes USING hand-4d',
    'SEARCH "psc-441 vessels" FROM notes',
    'SEARCH "nothing of that" FROM notes LIMIT 2147483647',
    "SCHEMA p8ql",
    "SCHEMA graph",
    "select 1",
]


def ask(connection, text, vector=None):
    """Return the envelope of `aiq.query`, or the refusal."""
    try:
        return connection.execute(
            "select aiq.query(%s::text, %s::text)", [text, vector]
        ).fetchone()[0]
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_hint


def run(store, text, vector=None):
    """Return the envelope from a store, or the refusal, as `ask` does."""
    try:
        return json.loads(json.dumps(query(store, text, vector)))
    except GraphAlgoError as error:
        return error.sqlstate, error.message, error.hint


@pytest.fixture(scope="module")
def twin():
    return MemoryStore.from_dict(harbour_json())


@pytest.fixture
def connection(dsn):
    with harbour.caller(dsn, None) as connection:
        yield connection


@pytest.mark.parametrize("text", QUERIES)
def test_every_store_answers_the_same(connection, twin, text):
    inside = ask(connection, text, MACHINERY)
    assert inside["mode"] == inside["plan"]["mode"]
    assert run(ClientStore(connection), text, MACHINERY) == inside
    # What is shown of a passage the twin cuts otherwise.
    outside = run(twin, text, MACHINERY)
    assert _without_snippets(outside) == _without_snippets(inside)


KEYS = [
    "Meridian Dawn", "meridian dawn", "MERI", "9331802", "bulk harmony", "shared berth",
    "Bulk  Harmony", " bulk harmony", "bulk harmony ", "bulk\tharmony", "bulk\nharmony",
    "Élan Vital", "élan vital", "berth \\ 7 (100%) 'a' $1 {x}", "plugh plover", "tug/plugh plover",
    " ", "\u212a",
]  # fmt: skip


@pytest.fixture(scope="module")
def keyed(make_database):
    """A database in which keys are odd, shared by more nodes than are shown, and others'."""
    made = make_database()
    install(made)
    load_harbour(made, scoped=True)
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(
            """
            with made as (
                insert into aiq.nodes (entity_type, summary)
                select 'vessel', case when n > 1 then 'number ' || n end
                from generate_series(1, 12) as n returning id
            )
            insert into aiq.node_keys (node_id, key, kind, is_name)
            select id, 'shared berth', 'canonical', true from made
            union all (
                select id, unnest(array['élan vital', %s, 'k']), 'canonical', true
                from made order by id limit 1
            )
            """,
            [KEYS[13].lower()],
        )
        connection.execute(
            'select aiq.upsert_graph(\'{"nodes": [{"k": "tug", "n": "plugh plover"}]}\','
            " jsonb_build_object('org', (select id from rbac.orgs where slug = 'meridian')))"
        )
    return made


class TestOneKey:
    """A plain lookup of one key has a way of its own through the server."""

    @pytest.mark.parametrize("tenant", [None, "meridian", "kestrel"])
    @pytest.mark.parametrize("key", KEYS)
    def test_it_is_answered_to_the_letter_as_by_the_way_of_all_others(self, keyed, key, tenant):
        claims = tenant and harbour.claims_of(tenant)
        with harbour.caller(keyed, claims) as connection:
            plain, read, many = (
                connection.execute("select aiq.query(%s)::text", [form.format(key)]).fetchone()[0]
                for form in ('lookup "{}"', 'LOOKUP  "{}"', 'LOOKUP "{}", "no such thing"')
            )
            assert plain == read
            assert json.loads(plain)["rows"] == json.loads(many)["rows"]
            assert run(ClientStore(connection), f'LOOKUP "{key}"') == json.loads(plain)

    def test_as_many_nodes_as_the_limit_are_shown_in_their_order(self, keyed):
        with harbour.caller(keyed, None) as connection:
            rows = ask(connection, 'LOOKUP "Shared Berth"')["rows"]
        ids = [row["node_id"] for row in rows]
        assert len(ids) == 10
        assert ids == sorted(ids)

    @pytest.mark.parametrize(("key", "asked"), [("shared berth", 1), ("no such thing", 2)])
    def test_no_stage_is_asked_twice(self, keyed, key, asked):
        with psycopg.connect(keyed) as connection:
            connection.execute("set local track_functions = 'all'")
            connection.execute("set local role authenticated")
            connection.execute("select aiq.query(%s)", [f'LOOKUP "{key}"'])
            found = connection.execute(
                "select pg_stat_get_xact_function_calls("
                "'aiq.one_key_places(text, boolean, int)'::regprocedure)"
            ).fetchone()
        assert found == (asked,)

    def test_a_query_that_is_too_long_is_refused(self, connection):
        longest = f'LOOKUP "{"x" * (100_000 - 9)}"'
        assert ask(connection, longest)["rows"] == []
        assert ask(connection, longest.replace("x", "xx", 1))[0] == "22023"


def _without_snippets(answer):
    rows = [{name: row[name] for name in row if name != "snippet"} for row in answer["rows"]]
    return {**answer, "rows": rows}


@pytest.mark.parametrize(
    "text",
    [case[0] for case in REFUSED],
    ids=[case[0][:40] for case in REFUSED],
)
def test_what_does_not_parse_is_refused_alike(connection, twin, text):
    sqlstate, message, hint = ask(connection, text)
    assert sqlstate in ("42601", "22023")
    assert hint
    assert run(twin, text) == (sqlstate, message, hint)
    assert connection.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize(
    ("text", "vector", "sqlstate", "says"),
    [
        ('SEMANTIC "x" FROM notes', None, "22023", "p_embedding is missing"),
        ('SEARCH "x" FROM notes', "[1,2]", "22023", 'has 2 numbers, but model "hand-4d" writes 4'),
        ('SEARCH "x" FROM notes', "[1,2,NaN,4]", "22023", "must be finite"),
        ('SEARCH "x" FROM notes', "{1,2,Infinity,4}", "22023", "must be finite"),
        ('SEARCH "x" FROM notes', "junk", "22023", "must be an array"),
        ('SEARCH "x" FROM notes', "[1,2,3,4}", "22023", "must be an array"),
        ('SEARCH "x" FROM notes', "[ ]", "22023", "has 0 numbers"),
        ('SEARCH "x" FROM notes', "[1,2,x,4]", "22023", '"x", which is no number'),
        ('SEARCH "x" FROM notes', "[1,2,,4]", "22023", '"", which is no number'),
        ('SEARCH "x" FROM notes', "[1,2,1_0,4]", "22023", '"1_0", which is no number'),
        ('SEARCH "x" FROM notes', "[1,2,٣,4]", "22023", '"٣", which is no number'),
        ('SEARCH "x" FROM notes', "[1,2,null,4]", "22023", '"null", which is no number'),
        ('SEARCH "x" FROM notes', "[1,2,1e39,4]", "22023", "greater than any real"),
        ('SEARCH "x" FROM notes', "[1,2,1e999,4]", "22023", '"1e999", but must be finite'),
        ('SEARCH "x" FROM notes', "[0,0,-0,0]", "22023", "no direction"),
        ('SEARCH "x" FROM notes', "[" + " " * 999_999 + "]", "22023", "it is too long"),
        ('SEARCH "x" FROM nots', MACHINERY, "42704", '"nots" is not a registered text source'),
        ('GRAPH "x" LIMIT 0', None, "22023", "LIMIT is 0, but must be from 1"),
        ('GRAPH "x" DEPTH 6', None, "22023", "DEPTH is 6, but must be from 1 to 5"),
        ("SCHEMA facet", None, "22023", '"facet" is not a facet of SCHEMA'),
        ('TEXT "x" FROM nots', None, "42704", '"nots" is not a registered text source'),
        ('SEARCH "x" FROM notes USING hand', MACHINERY, "42704", '"hand" is not a registered'),
        ('GRAPH "x" TYPE operatedby', None, "42704", 'TYPE is "operatedby", which is not'),
        ("SCHEMA sql FROM aiq.nodes", None, "42704", '"aiq.nodes" is not a readable relation'),
        ('GRAPH " "', None, "22023", "is empty"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_its_code(
    connection, twin, text, vector, sqlstate, says
):
    found = ask(connection, text, vector)
    assert found[0] == sqlstate
    assert says in found[1]
    assert found[2]
    if "SCHEMA sql" not in text:
        assert run(twin, text, vector) == run(ClientStore(connection), text, vector) == found


def test_a_missing_query_is_refused(connection):
    for function in ("query", "parse"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="query is null"):
            connection.execute(f"select aiq.{function}(null)")


def test_a_transaction_goes_on_after_a_refusal(dsn):
    with psycopg.connect(dsn) as connection:
        connection.execute("create temporary table t (x int)")
        with pytest.raises(psycopg.Error), connection.transaction():
            connection.execute("select aiq.query('LOKUP')")
        connection.execute("insert into t values (1)")
        assert ask(connection, 'LOOKUP "meri"')["rows"]
        connection.rollback()


@pytest.mark.parametrize(("text", "plan"), UNDERSTOOD, ids=[text for text, _ in UNDERSTOOD])
def test_parse_gives_the_plan(connection, text, plan):
    assert connection.execute("select aiq.parse(%s)", [text]).fetchone() == (plan,)


def test_a_refusal_is_never_that_of_another_call(connection):
    with pytest.raises(psycopg.Error, match="DEPTH belongs to GRAPH"):
        connection.execute(
            "select aiq.parse(q)"
            " from (values ('SCHEMA'), ('TEXT \"x\" DEPTH 2'), ('LOKUP')) as t (q)"
        )
    with pytest.raises(psycopg.Error, match="LOKUP"):
        connection.execute("select aiq.parse('LOKUP'), aiq.query('TEXT \"x\" DEPTH 2')")


class TestTenants:
    @pytest.mark.parametrize("case", harbour.EXPECTED["lookup"])
    def test_lookups(self, tenants_dsn, case):
        with harbour.caller(tenants_dsn, harbour.claims_of(case["as"])) as connection:
            answer = ask(connection, case["query"])
            assert run(ClientStore(connection), case["query"]) == answer
        found = [
            {name: round(row[name], 3) if name == "score" else row[name] for name in expected}
            for row, expected in zip(answer["rows"], case["rows"], strict=True)
        ]
        assert found == case["rows"]
        assert answer["unresolved"] == case.get("unresolved", [])

    @pytest.mark.parametrize("case", harbour.EXPECTED["walk"])
    def test_walks(self, tenants_dsn, case):
        relation = f" TYPE {case['relation']}" if "relation" in case else ""
        with harbour.caller(tenants_dsn, harbour.claims_of(case["as"])) as connection:
            answer = ask(connection, f'GRAPH "{case["key"]}" DEPTH {case["depth"]}{relation}')
        found = [
            {name: round(row[name], 3) if name == "weight" else row[name] for name in expected}
            for row, expected in zip(answer["rows"], case["rows"], strict=True)
        ]
        assert found == case["rows"]

    @pytest.mark.parametrize("mode", ["LOOKUP", "GRAPH"])
    def test_what_is_another_s_answers_as_what_is_not_there(self, tenants_dsn, mode):
        with harbour.caller(tenants_dsn, harbour.claims_of("kestrel")) as connection:
            denied, missing = (
                json.dumps(ask(connection, f'{mode} "{key}"')).replace(key, "…")
                for key in ("bulk harmony", "hulk barmony")
            )
        assert denied == missing

    def test_one_search_ranks_otherwise_for_another(self, tenants_dsn):
        ranks = {}
        for tenant in ("meridian", "kestrel", None):
            claims = None if tenant is None else harbour.claims_of(tenant)
            with harbour.caller(tenants_dsn, claims) as connection:
                rows = ask(connection, 'SEARCH "psc-441" FROM notes', MACHINERY)["rows"]
                ranks[tenant] = {row["id"]: (row["lex"], row["sem"], row["rrf"]) for row in rows}
        assert set(ranks["meridian"]) == {1, 2, 3, 5}
        assert set(ranks["kestrel"]) == {1, 2, 4, 5}
        assert set(ranks[None]) == {1, 2, 5}
        # The same row has other places, not only other neighbours.
        assert ranks["meridian"][1][:2] == (1, 3)
        assert ranks["kestrel"][1][:2] == (1, 2)
        assert ranks["meridian"][1] != ranks["kestrel"][1]

    @pytest.mark.parametrize("text", QUERIES[:-1])
    def test_claims_that_cannot_be_read_are_an_error(self, tenants_dsn, text):
        with harbour.caller(tenants_dsn, "{") as connection:
            found = ask(connection, text, MACHINERY)
            assert found[0] == "22023"
            assert "request.jwt.claims" in found[1]


class TestSchema:
    def test_it_shows_what_the_caller_may_read(self, connection, dsn):
        mine = ask(connection, "SCHEMA sql")["document"]["sql"]
        names = {f"{one['schema']}.{one['name']}" for one in mine["relations"]}
        assert {"aiq.nodes_api", "aiq.edges_current", "aiq.edge_periods"} <= names
        assert not names & {"aiq.nodes", "aiq.edges", "rbac.orgs", "harbour.ships"}
        described = {one["name"]: one["description"] for one in mine["relations"]}
        assert described["nodes_api"] == "The nodes that are not retired"
        with psycopg.connect(dsn, autocommit=True) as superuser:
            theirs = ask(superuser, "SCHEMA sql")["document"]["sql"]["relations"]
        assert {"nodes", "edges"} <= {one["name"] for one in theirs}

    def test_it_shows_the_functions_with_their_arguments(self, connection):
        functions = ask(connection, "SCHEMA sql")["document"]["sql"]["functions"]
        shown = {one["name"]: one for one in functions}
        assert "p_key text, p_depth integer DEFAULT 1" in shown["walk"]["arguments"]
        assert shown["query"]["result"] == "jsonb"
        assert shown["query"]["description"].startswith("Answers a query of P8QL")

    @pytest.mark.parametrize("name", ["nodes_api", "aiq.nodes_api"])
    def test_it_shows_the_columns_of_a_relation(self, connection, name):
        columns = ask(connection, f"SCHEMA sql FROM {name}")["document"]["sql"]["columns"]
        expected = connection.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute"
            " where attrelid = 'aiq.nodes_api'::regclass and attnum > 0 order by attnum"
        ).fetchall()
        assert [(one["name"], one["type"]) for one in columns] == expected

    def test_a_relation_near_the_name_is_proposed(self, connection):
        _, _, hint = ask(connection, "SCHEMA sql FROM nodes_apy")
        assert '"nodes_api"' in hint

    def test_every_example_is_accepted_and_answers(self, connection):
        for example in ask(connection, "SCHEMA")["document"]["p8ql"]["examples"]:
            assert example["accepted"], example
            answer = ask(connection, example["query"], MACHINERY)
            assert answer["mode"] == example["mode"], answer

    def test_the_digest_changes_when_and_only_when_the_document_does(self, fresh, connection):
        del connection
        with psycopg.connect(fresh, autocommit=True) as superuser:
            first, again = (ask(superuser, "SCHEMA")["document"] for _ in range(2))
            assert first == again
            for change in (
                "insert into aiq.entity_types (name, handle_prefix) values ('pilot', 'PIL')",
                "comment on view aiq.nodes_api is 'nodes'",
                "create table public.one_more (x int)",
                "select aiq.register_embedding_model('m', 3)",
            ):
                superuser.execute(change)
                changed = ask(superuser, "SCHEMA")["document"]
                assert changed["digest"] != first["digest"], change
                assert changed["revision"] == first["revision"]
                first = changed
            superuser.execute(
                "insert into aiq.nodes (entity_type, summary) values ('pilot', 'one')"
            )
            assert ask(superuser, "SCHEMA")["document"] == first

    @pytest.mark.parametrize(
        "setting",
        [
            "quote_all_identifiers = on", "search_path = aiq, harbour, public", "datestyle = 'SQL'",
            "intervalstyle = sql_standard", "timezone = 'Asia/Tokyo'", "extra_float_digits = -15",
            "bytea_output = escape", "standard_conforming_strings = off", "xmloption = document",
            "default_text_search_config = 'pg_catalog.simple'", "array_nulls = off",
        ],
    )  # fmt: skip
    def test_it_is_the_same_in_every_session(self, dsn, setting):
        texts = ("SCHEMA", "SCHEMA sql FROM aiq.nodes_api", "SCHEMA sql FROM harbour.odd")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "create table harbour.odd (a harbour.vessels, b numeric(4, 2), c name)"
            )
            try:
                plain = [ask(connection, text)["document"] for text in texts]
                connection.execute(f"set {setting}")
                assert [ask(connection, text)["document"] for text in texts] == plain
                store = ClientStore(connection)
                assert [query(store, text)["document"] for text in texts] == plain
                with connection.transaction():
                    assert [query(store, text)["document"] for text in texts] == plain
            finally:
                connection.execute("drop table harbour.odd")

    def test_a_model_is_described(self, dsn):
        with psycopg.connect(dsn, autocommit=True) as connection:
            (model,) = ask(connection, "SCHEMA p8ql")["document"]["p8ql"]["models"]
        assert model == {
            "name": "hand-4d", "dim": 4, "distance": "cosine", "is_default": True,
            "description": "vectors made by hand: machinery lies one way, people the other",
        }  # fmt: skip

    @pytest.fixture
    def fresh(self, make_database):
        made = make_database()
        install(made)
        return made


def test_a_planned_statement_answers_through_the_passthrough(connection):
    text = "SELECT summary FROM aiq.iterated_join('NL-2231', 'operator');"
    answer = ask(connection, text)
    assert (answer["rows"], answer["plan"]) == (
        [],
        {"mode": "SQL", "statement": text.removesuffix(";")},
    )
    passed = connection.execute(
        "select aiq.sql_passthrough(%s)", [answer["plan"]["statement"]]
    ).fetchone()[0]
    assert "Meridian Line" in json.dumps(passed)
    # The dialect itself may be asked through it, too.
    inner = connection.execute(
        "select aiq.sql_passthrough($$select aiq.query('LOOKUP \"meri\"') -> 'rows'$$)"
    ).fetchone()[0]
    assert "Meridian Line" in json.dumps(inner)
