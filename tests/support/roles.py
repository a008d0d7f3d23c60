"""What callers may touch, read from the catalogue, so that nothing new is left out."""

from __future__ import annotations

from typing import Any

import psycopg

ALL_ROLES = ("aiq_owner", "aiq_engine", "web_anon", "authenticated", "aiq_worker", "aiq_reader")

# Everything in our schemas but what an extension put there.
RELATIONS = """
select n.nspname || '.' || quote_ident(c.relname), c.relkind::text
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
where
    n.nspname in ('aiq', 'rbac') and c.relkind = any (%s)
    and not exists (
        select from pg_depend as d
        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
    )
order by 1
"""
FUNCTIONS = """
select p.oid::regprocedure::text
from pg_proc as p
join pg_namespace as n on n.oid = p.pronamespace
join pg_language as l on l.oid = p.prolang
where
    n.nspname in ('aiq', 'rbac') and {condition}
    and not exists (
        select from pg_depend as d
        where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
    )
order by 1
"""

# A call of each function that callers may execute and that reads rows.
CALLS = {
    "iterated_join": "select * from aiq.iterated_join('nobody', 'vessel')",
    "iterated_join_plpython": "select * from aiq.iterated_join_plpython("
    "'NL-2231', 'vessel', 1, '{edge}', 0.6::real, 1, 1, null, null, 1)",
    "iterated_join_trace": "select aiq.iterated_join_trace('nobody', 'vessel')",
    "iterated_join_trace_plpython": "select * from aiq.iterated_join_trace_plpython("
    "'NL-2231', 'vessel', 1, '{edge}', 0.6::real, 1, 1, null, null, 1)",
    "walk": "select * from aiq.walk('nobody')",
    "walk_plpython": "select * from aiq.walk_plpython('NL-2231', 1, null, 1, 1, null)",
    "lookup": "select * from aiq.lookup('{nobody}')",
    "lookup_plpython": "select * from aiq.lookup_plpython('{nobody}', true, 1)",
    "similar_keys": "select * from aiq.similar_keys('{nobody}', 0.9::real)",
    "similar_names": "select * from aiq.similar_names('{nobody}', 0.9::real)",
    "similar_names_plpython": "select * from aiq.similar_names_plpython("
    "'{nobody}', 0.9::real, 1, 'trigram', null)",
    "nodes_by_handle": "select * from aiq.nodes_by_handle('vessel', 0, null)",
    "nodes_by_key": "select * from aiq.nodes_by_key('{nobody}', '{canonical}', 1)",
    "nodes_by_soft_name": "select * from aiq.nodes_by_soft_name('{nobody}', true, 1)",
    "stored_link_judge": "select * from aiq.stored_link_judge('{}')",
    "query": "select aiq.query('LOOKUP \"nobody\"')",
    "rank_passages": "select * from aiq.rank_passages('notes', 'nobody', 1)",
    "near_vectors": "select * from aiq.near_vectors("
    "'notes', 'hand-4d', '{0,0,1,1}', 0.0, 1, false)",
    "show_passages": "select * from aiq.show_passages('notes', '{1}', 'nobody')",
    "sql_passthrough": "select aiq.sql_passthrough('select * from aiq.nodes_api')",
    "ontology": "select aiq.ontology()",
    "search_entities": "select aiq.search_entities('nobody')",
    "neighbors": "select aiq.neighbors('VSL-1')",
    "entity": "select aiq.entity('VSL-1')",
    "node_of_handle": "select aiq.node_of_handle('VSL-1')",
    "policies_of_nodes": "select * from aiq.policies_of_nodes('{1}')",
    "opened_nodes": "select * from aiq.opened_nodes('{1}')",
    "guarded_nodes": "select * from aiq.guarded_nodes('{1}')",
    "closed_nodes": "select * from aiq.closed_nodes('{1}')",
    "opened_lookup": "select * from aiq.opened_lookup('{nobody}')",
    "opened_lookup_plpython": "select * from aiq.opened_lookup_plpython('{nobody}', true, 1)",
    "opened_iterated_join": "select * from aiq.opened_iterated_join('nobody', 'vessel')",
    "opened_iterated_join_plpython": "select * from aiq.opened_iterated_join_plpython("
    "'NL-2231', 'vessel', 1, '{edge}', 0.6::real, 1, 1, null, null, 1)",
    "opened_query": "select aiq.opened_query('LOOKUP \"nobody\"')",
    "opened_query_plpython": "select * from aiq.opened_query_plpython('LOOKUP \"nobody\"', null)",
    "guarded_passages": "select * from aiq.guarded_passages('notes', '{1}')",
    "closed_passages": "select aiq.closed_passages('notes', '{1}')",
    "opened_in_order": "select aiq.opened_in_order('{1}')",
    "edges_of_node": "select * from aiq.edges_of_node(1, null, null, null, null, null, null, 1)",
    "edges_of_relations": "select * from aiq.edges_of_relations("
    "1, null, '{owns}', null, null, null, null, null, 1)",
    "matching_nodes": "select * from aiq.matching_nodes(null, 'nobody', null, null, null, 1)",
    "nearest_nodes": "select * from aiq.nearest_nodes(null, 'hand-4d', '[0,0,1,1]', null, null, 1)",
    "opened_matches": "select aiq.opened_matches(null, 'nobody', 1)",
    "opened_nearest": "select aiq.opened_nearest(null, 'hand-4d', '[0,0,1,1]', 1)",
}
# And each that reads none.
HELPERS = {
    "fold_key", "name_similarity", "parse", "parse_plpython", "refusal_plpython", "refuse",
    "caller_audiences", "vector_schema", "find_policy", "refuse_policy", "require_policy",
    "ask_policy", "opens_node", "refuse_unknown", "check_entity_types", "require_relations",
    "check_page", "check_search", "policies_of_type", "read_cursor", "searching_model",
    "entity_snippet",
}  # fmt: skip

# And each by which a table's owner asks for it to be registered: here, by another.
REQUESTS = {
    "register_entity_table": "select aiq.register_entity_table('port', 'harbour.ports', 'name')",
    "unregister_entity_table": "select aiq.unregister_entity_table('port', 'harbour.ports')",
    "rebuild": "select aiq.rebuild('port')",
    "bulk": "select aiq.bulk('harbour.ports', true)",
    "register_link_table": "select aiq.register_link_table("
    "'harbour.competitors', 'competes_with', 'operator', 'operator', 'operator_id',"
    " 'competitor_id')",
    "unregister_link_table": "select aiq.unregister_link_table("
    "'harbour.competitors', 'competes_with')",
    "rebuild_links": "select aiq.rebuild_links('harbour.competitors')",
    "register_text_source": "select aiq.register_text_source("
    "'berths', 'harbour.notes', 'id', 'content')",
    "unregister_text_source": "select aiq.unregister_text_source('notes')",
    "rebuild_text": "select aiq.rebuild_text('notes')",
    "request_registration": "select aiq.request_registration("
    """'unregister_entity', 'harbour.ports', '{"entity_type": "port"}')""",
}


def relations(connection: psycopg.Connection[Any], kinds: str) -> list[str]:
    """The relations of those kinds (`r`, `p`, `v`, `S`…) in our schemas."""
    return [row[0] for row in connection.execute(RELATIONS, [list(kinds)])]


def functions(connection: psycopg.Connection[Any], condition: str = "true") -> list[str]:
    """The functions in our schemas for which a condition on `p` (pg_proc) holds."""
    return [row[0] for row in connection.execute(FUNCTIONS.format(condition=condition).encode())]


def bare(signature: str) -> str:
    """The name of a function, without its schema and arguments."""
    return signature.partition("(")[0].rpartition(".")[2]


def refused(connection: psycopg.Connection[Any], statement: str) -> tuple[str, str, str]:
    """Run a statement that must fail; return SQLSTATE, sentence and hint."""
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except psycopg.Error as error:
        diag = error.diag
        return error.sqlstate or "", diag.message_primary or "", diag.message_hint or ""
    raise AssertionError(f"not refused: {statement}")
