"""Odd arguments to every function that callers or workers may call.

Each is answered, or refused in words of this project: never with the server's.
"""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import tuple_row

from tests.support.roles import REQUESTS, bare, functions, refused

OURS = {"22023", "42704", "P0002", "21000", "55000", "42883", "42501", "42601"}

# A call of each function that is answered, argument by argument.
NAMES = {"p_names": "'{meridian}'", "p_similarity": "0.5"}
JOIN = {
    "p_seed": "'NL-2231'", "p_target_type": "'port'", "p_max_rounds": "1", "p_links": "'{edge}'",
    "p_similarity": "0.5", "p_budget": "10", "p_degree_cap": "10", "p_relations": "null",
    "p_as_of": "now()", "p_limit": "10",
}  # fmt: skip
WALK = {
    "p_key": "'NL-2231'", "p_depth": "1", "p_relation": "null", "p_degree_cap": "10",
    "p_limit": "10", "p_as_of": "now()",
}  # fmt: skip
QUERY = {"p_query": "'LOOKUP \"meridian\"'"}
LOOKUP = {"p_keys": "'{meridian}'", "p_fuzzy": "true", "p_limit": "10"}
TYPED = "(select min(id) from aiq.nodes_api where entity_type = 'port')"
OTHER = "(select max(id) from aiq.nodes_api where entity_type = 'port')"
SOFT = "(select min(id) from aiq.nodes_api where claimed_kind = 'port')"
SIMILAR = {
    "p_names": "'{meridian}'", "p_similarity": "0.5", "p_limit": "10", "p_scorer": "'trigram'",
    "p_candidate_similarity": "null",
}  # fmt: skip
CALLS = {
    "similar_names": SIMILAR,
    "similar_names_plpython": SIMILAR,
    "refresh_names": {"p_rebuild": "false"},
    "iterated_join": JOIN,
    "iterated_join_plpython": JOIN,
    "iterated_join_trace": JOIN,
    "iterated_join_trace_plpython": JOIN,
    "walk": WALK,
    "walk_plpython": WALK,
    "lookup": LOOKUP,
    "lookup_plpython": LOOKUP,
    "similar_keys": NAMES,
    "nodes_by_handle": {"p_entity_type": "'vessel'", "p_number": "1", "p_as_of": "now()"},
    "nodes_by_key": {"p_keys": "'{meridian}'", "p_kinds": "'{short}'", "p_limit": "1"},
    "nodes_by_soft_name": {"p_names": "'{t}'", "p_bare": "true", "p_limit": "1"},
    "stored_link_judge": {"p_nodes": "'{1,2}'"},
    "fold_key": {"p_key": "'Meridian'"},
    "name_similarity": {"p_a": "'meridian'", "p_b": "'meridiam'"},
    "refuse": {"p_refusal": "null"},
    "close_edge": {
        "p_at": "now()", "p_by": "'me'", "p_edge_id": "(select min(id) from aiq.edges_current)",
        "p_memory": "null", "p_relation": "null",
    },
    "upsert_graph": {
        "p_graph": """'{"nodes": [{"k": "tug", "n": "odd"}]}'""", "p_context": "'{}'",
    },
    "promote_soft_node": {"p_soft": SOFT, "p_node": TYPED, "p_by": "'me'", "p_evidence": "'{}'"},
    "record_distinct": {"p_a": TYPED, "p_b": OTHER, "p_by": "'me'", "p_evidence": "'{}'"},
    "record_link_verdict": {
        "p_a": TYPED, "p_b": OTHER, "p_confidence": "0.5", "p_reason": "'alike'", "p_by": "'me'",
    },
    "queue_link_pairs": {"p_low": "0.4", "p_high": "0.8", "p_limit": "10"},
    "registration_problems": {},
    "sql_passthrough": {"p_statement": "'select 1'", "p_limit": "10"},
    "parse": QUERY,
    "parse_plpython": QUERY,
    "query": QUERY | {"p_embedding": "'[0, 0, 1, 1]'"},
    "refusal_plpython": {},
    "vector_schema": {},
    "rank_passages": {"p_source": "'notes'", "p_words": "'ship'", "p_limit": "3"},
    "show_passages": {"p_source": "'notes'", "p_ids": "'{1}'", "p_words": "'ship'"},
    "near_vectors": {
        "p_source": "'notes'", "p_model": "'hand-4d'", "p_vector": "'{0,0,1,1}'",
        "p_slack": "0.1", "p_limit": "3", "p_approximate": "false",
    },
    "register_embedding_model": {
        "p_name": "'another'", "p_dim": "4", "p_distance": "'l2'", "p_is_default": "false",
        "p_description": "null",
    },
    "unregister_embedding_model": {"p_name": "'hand-4d'"},
    "put_embeddings": {
        "p_source": "'notes'", "p_model": "'hand-4d'", "p_ids": "'{1}'",
        "p_vectors": "'{{0,0,1,1}}'", "p_digests": "null",
    },
    "passages_to_embed": {"p_source": "'notes'", "p_model": "'hand-4d'", "p_limit": "10"},
    "index_embeddings": {"p_model": "'hand-4d'", "p_on": "false"},
}  # fmt: skip

NODE = "(select min(id) from aiq.nodes_api)"
EDGE = {
    "p_node": NODE, "p_direction": "'out'", "p_after_weight": "0.5", "p_after_neighbour": "1",
    "p_after_relation": "'calls_at'", "p_after_direction": "'in'", "p_after_edge": "7",
    "p_limit": "3",
}  # fmt: skip
MATCH = {"p_types": "null", "p_query": "'ship'"}
NEAR = {"p_types": "null", "p_model": "'hand-4d'", "p_embedding": "'[0,0,1,1]'"}
CALLS |= {
    "ontology": {},
    "search_entities": MATCH | {
        "p_limit": "3", "p_embedding": "'[0,0,1,1]'", "p_model": "'hand-4d'",
    },
    "neighbors": {
        "p_handle": "'VSL-1'", "p_direction": "'in'", "p_relations": "null", "p_limit": "3",
        "p_cursor": "null",
    },
    "entity": {"p_handle": "'VSL-1'"},
    "node_of_handle": {"p_handle": "'VSL-1'"},
    "find_policy": {"p_name": "'odd.policy'"},
    "require_policy": {"p_name": "'odd.policy'", "p_of_callers": "false"},
    "ask_policy": {"p_policy": "'odd.policy'", "p_nodes": "'{1,2}'"},
    "opens_node": {"p_policy": "'odd.policy'", "p_node": "1"},
    "policies_of_nodes": {"p_nodes": "'{1,2}'"},
    "policies_of_type": {"p_entity_type": "'vessel'"},
    "opened_nodes": {"p_nodes": "'{1,2}'"},
    "guarded_nodes": {"p_nodes": "'{1,2}'"},
    "closed_nodes": {"p_nodes": "'{1,2}'", "p_evenly": "true"},
    "opened_lookup": LOOKUP,
    "opened_lookup_plpython": LOOKUP,
    "opened_iterated_join": JOIN,
    "opened_iterated_join_plpython": JOIN,
    "opened_query": QUERY | {"p_embedding": "'[0, 0, 1, 1]'"},
    "opened_query_plpython": QUERY | {"p_embedding": "'[0, 0, 1, 1]'"},
    "guarded_passages": {"p_source": "'notes'", "p_ids": "'{1}'"},
    "closed_passages": {"p_source": "'notes'", "p_ids": "'{1}'"},
    "opened_in_order": {"p_nodes": "'{1,2}'"},
    "check_entity_types": {"p_types": "'{vessel}'"},
    "require_relations": {"p_relations": "null"},
    "check_page": {"p_limit": "3"},
    "check_search": {"p_query": "'ship'", "p_limit": "3"},
    "read_cursor": {"p_cursor": "null", "p_node": NODE},
    "edges_of_node": EDGE,
    "edges_of_relations": EDGE | {"p_relations": "'{calls_at}'"},
    "matching_nodes": MATCH | {
        "p_after_written": "true", "p_after_rank": "0.5", "p_after_node": "1", "p_limit": "3",
    },
    "searching_model": {"p_model": "'hand-4d'"},
    "nearest_nodes": NEAR | {"p_after_distance": "0.5", "p_after_node": "1", "p_limit": "3"},
    "entity_snippet": {
        "p_configuration": "'english'", "p_title": "'Ship'", "p_body": "'A ship.'",
        "p_query": "'ship'",
    },
    "opened_matches": MATCH | {"p_enough": "3"},
    "opened_nearest": NEAR | {"p_enough": "3"},
    "put_entity_embeddings": {
        "p_model": "'hand-4d'", "p_ids": "'{}'", "p_vectors": "'{}'", "p_digests": "null",
    },
    "entities_to_embed": {"p_model": "'hand-4d'", "p_limit": "3"},
}  # fmt: skip
# They answer nothing.
REFUSING = {
    "refuse_unknown": {
        "p_what": "'relation'", "p_parameter": "'p_relations'", "p_name": "'x'", "p_names": "'{y}'",
    },
    "refuse_policy": {"p_name": "'x'", "p_fault": "'is odd'", "p_hint": "'Do.'"},
}  # fmt: skip
CALLS |= REFUSING

LONG = "repeat('é', 3000)"
JSON = ["'null'", "'[]'", "'{}'", "'1'", "'\"x\"'", "'[[[]]]'", '\'{"a": {"b": [null]}}\'']
ODD = {
    "text": ["''", "' '", "'zzz'", "'port-1'", "'%'", LONG, *JSON,
             """'{"sqlstate": "x", "message": "m"}'""",
             """'{"sqlstate": "00000", "message": ""}'""",
             """'{"message": "\\u0000", "sqlstate": "22023"}'""", "repeat('[', 200000)"],
    "text[]": ["'{}'", "'{null}'", "'{a,null}'", "'{{a},{b}}'", "'{\"\"}'", "'[0:1]={a,b}'",
               f"array[{LONG}]"],
    "bigint": ["0", "-1", "9223372036854775807", "-9223372036854775808"],
    "bigint[]": ["'{}'", "'{null}'", "'{{1},{2}}'", "'{-1}'", "'[0:1]={1,2}'"],
    "integer": ["0", "-1", "2147483647", "-2147483648"],
    "real": ["0", "-0.0", "-1", "2", "'nan'", "'infinity'", "'-infinity'", "1e-45", "1.0000001"],
    "real[]": ["'{}'", "'{null}'", "'{0,0,0,0}'", "'{nan,0,1,1}'", "'{{1},{2}}'", "'{1}'",
               "'[0:3]={0,0,1,1}'", "'{{infinity,0,0,1}}'", "'{{0,0,0,0}}'", "'{{{1}}}'"],
    "double precision": ["0", "-1", "1e308", "'nan'", "'infinity'", "'-infinity'"],
    "boolean": ["true", "false"],
    "jsonb": JSON,
    "timestamp with time zone": ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'290000-01-01'"],
}  # fmt: skip


@pytest.fixture(scope="module")
def connection(dsn):
    with psycopg.connect(dsn, autocommit=True, row_factory=tuple_row) as connection:
        yield connection


def may(role):
    return f"has_function_privilege('{role}', p.oid, 'execute')"


def arguments_of(connection, name):
    """The names and types of the arguments of a function, in order."""
    return connection.execute(
        """
        select p.pronamespace::regnamespace::text, u.name, format_type(u.type, null)
        from pg_proc as p
        left join lateral unnest(p.proargnames[1:p.pronargs], p.proargtypes::oid[])
            with ordinality as u (name, type, place) on true
        where p.proname = %s and p.pronamespace in ('aiq'::regnamespace, 'rbac'::regnamespace)
        order by u.place
        """,
        [name],
    ).fetchall()


def call_of(connection, name, **instead):
    found = arguments_of(connection, name)
    written = [
        sql.SQL(f"{argument} => ({instead.get(argument, CALLS[name][argument])})::{type_}")
        for _, argument, type_ in found
        if argument is not None
    ]
    return (
        sql.SQL("select * from {}({})")
        .format(sql.Identifier(found[0][0], name), sql.SQL(", ").join(written))
        .as_string(connection)
    )


def odd_values(connection, name):
    return [
        (argument, value)
        for _, argument, type_ in arguments_of(connection, name)
        if argument is not None
        for value in ["null", *ODD[type_]]
    ]


@pytest.fixture
def worker(connection):
    """The worker, who may call what callers may and more, over a graph with soft nodes."""
    with connection.transaction(force_rollback=True):
        connection.execute(
            """select aiq.upsert_graph('{"nodes": [{"k": "port", "n": "t"}]}', '{}')"""
        )
        connection.execute(
            "create schema odd; grant usage on schema odd to aiq_worker;"
            "create function odd.policy(p_nodes bigint[]) returns setof bigint language sql stable"
            " as 'select unnest(p_nodes)'"
        )
        connection.execute("set local role aiq_worker")
        yield connection


def test_every_function_that_can_be_called_is_called(connection):
    either = f"({may('authenticated')} or {may('aiq_worker')})"
    found = {bare(name) for name in functions(connection, either)}
    # It has no argument, and only policies and views can name it: its schema is closed.
    found.remove("caller_audiences")
    assert found == set(CALLS) | set(REQUESTS)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in REFUSING])
def test_it_answers_where_nothing_is_odd(worker, name):
    extensions = {row[0] for row in worker.execute("select extname from pg_extension")}
    if name == "near_vectors" and "vector" not in extensions:
        pytest.skip("the extension vector is not there")
    worker.execute(call_of(worker, name).encode())


@pytest.mark.parametrize("name", [name for name, arguments in CALLS.items() if arguments])
def test_an_odd_argument_is_answered_or_refused_in_our_words(worker, name):
    tried = 0
    for argument, value in odd_values(worker, name):
        call = call_of(worker, name, **{argument: value})
        tried += 1
        try:
            with worker.transaction(force_rollback=True):
                worker.execute(call.encode()).fetchall()
        except psycopg.Error as error:
            said = (error.sqlstate, error.diag.message_primary, error.diag.message_hint)
            assert error.sqlstate in OURS, (call[:200], said)
            assert error.diag.message_hint, (call[:200], said)
            assert "pg_trgm" not in str(error), (call[:200], said)
    assert tried


class TestSimilarKeys:
    @pytest.mark.parametrize(
        ("written", "shown"),
        [
            ("0", "0"), ("-1", "-1"), ("2", "2"), ("'nan'", "NaN"), ("'infinity'", "Infinity"),
            ("'-infinity'", "-Infinity"), ("1.0000001", "1.0000001"), ("null", "null"),
        ],
    )  # fmt: skip
    def test_a_similarity_out_of_its_range_is_refused_as_by_the_join(self, worker, written, shown):
        worker.execute("set local extra_float_digits = -15")
        said = refused(worker, f"select * from aiq.similar_keys('{{a}}', ({written})::real)")
        assert said == (
            "22023",
            f"p_similarity is {shown}, but must be above 0 and at most 1",
            "Write for example p_similarity => 0.6.",
        )
        assert said == refused(worker, call_of(worker, "iterated_join", p_similarity=written))

    @pytest.mark.parametrize(
        ("written", "message"),
        [
            ("null", "p_names is null, but must be a list of names"),
            ("'{a,null}'", "an element of p_names is null, but must be a text"),
        ],
    )
    def test_what_is_no_name_is_refused(self, worker, written, message):
        state, said, hint = refused(
            worker, f"select * from aiq.similar_keys(({written})::text[], 0.5::real)"
        )
        assert (state, said) == ("22023", message)
        assert "array['meridian dawn']" in hint

    def test_no_names_find_nothing(self, worker):
        assert worker.execute("select * from aiq.similar_keys('{}', 0.5::real)").fetchall() == []

    @pytest.mark.parametrize(
        "written", ["'[0:1]={zzzz,meridian dawn}'", "'{{zzzz},{meridian dawn}}'"]
    )
    def test_names_are_numbered_from_1_whatever_the_arrays_bounds(self, worker, written):
        row = worker.execute(
            f"select name_number, key from aiq.similar_keys({written}, 0.9::real)"
        ).fetchall()
        assert row == [(2, "meridian dawn")]


@pytest.mark.parametrize(
    "written",
    ["", "m", "[]", "{}", '{"sqlstate": "22023"}', '{"sqlstate": "x", "message": "m"}',
     '{"sqlstate": "00000", "message": "m"}', '{"sqlstate": "22023", "message": "\\u0000"}'],
)  # fmt: skip
def test_what_is_no_refusal_is_refused(worker, written):
    state, message, hint = refused(worker, f"select aiq.refuse('{written}')")
    assert (state, message) == (
        "22023",
        f"p_refusal is {written}, but must be a refusal of the engine",
    )
    assert '"sqlstate"' in hint


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("aiq.nodes_by_key('{a}', '{canonical}', 0)", "p_limit is 0, but must be at least 1"),
        ("aiq.nodes_by_key('{a}', '{canonical}', null)", "p_limit is null, but must be at least 1"),
        ("aiq.nodes_by_soft_name('{a}', true, -1)", "p_limit is -1, but must be at least 1"),
        ("aiq.refresh_names(null)", "p_rebuild is null, but must be true or false"),
        ("aiq.similar_names(null)", "p_names is null, but must be a list of names"),
        ("aiq.similar_names('{a,null}')", "an element of p_names is null, but must be a text"),
        ("aiq.similar_names('{a}', 0)", "p_similarity is 0, but must be above 0 and at most 1"),
        (
            "aiq.similar_names('{a}', 'nan')",
            "p_similarity is NaN, but must be above 0 and at most 1",
        ),
        ("aiq.similar_names('{a}', p_limit => 0)", "p_limit is 0, but must be at least 1"),
        ("aiq.similar_names('{a}', p_limit => null)", "p_limit is null, but must be at least 1"),
        ("aiq.similar_names('{a}', p_scorer => null)", "p_scorer is null, but must be a text"),
        (
            "aiq.similar_names('{a}', p_scorer => 'best')",
            'p_scorer is "best", which is not a scorer',
        ),
        (
            "aiq.similar_names('{a}', p_candidate_similarity => 0.2::real)",
            "p_candidate_similarity is 0.2, but means nothing for the scorer trigram, which"
            " compares all names",
        ),
    ],
)
def test_a_value_out_of_its_range_is_refused_by_name(worker, call, message):
    state, said, hint = refused(worker, f"select * from {call}")
    assert (state, said) == ("22023", message)
    assert hint


def test_a_refused_confidence_is_shown_to_its_last_digit(worker):
    worker.execute("set local extra_float_digits = -15")
    said = refused(worker, "select aiq.record_link_verdict(1, 2, 1.0000001::real)")
    assert said[:2] == ("22023", "p_confidence is 1.0000001, but must be from 0 to 1")
