"""The SQL functions called as a caller would, and plain graphs written into tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from graphalgo.engine.folding import fold_key
from graphalgo.engine.rows import JoinRow, LookupRow, WalkRow

TABLES = ("entity_types", "relations", "nodes", "keys", "edges", "verdicts", "distinct")

# Each puts a JSON array of objects into a table; absent columns get defaults.
INSERTS = {
    "entity_types": """
        insert into aiq.entity_types (name, handle_prefix)
        select name, handle_prefix
        from jsonb_to_recordset(%s) as r (name text, handle_prefix text)
    """,
    "relations": """
        insert into aiq.relations (src_type, relation, dst_type)
        select src_type, relation, dst_type
        from jsonb_to_recordset(%s) as r (src_type text, relation text, dst_type text)
    """,
    "nodes": """
        insert into aiq.nodes (
            id, entity_type, claimed_kind, soft_name, summary, handle_number, retired_at,
            org_id, visibility, owner_id
        )
        select
            id, entity_type, claimed_kind, soft_name, summary, handle_number, retired_at,
            org_id, coalesce(visibility, 'org'), owner_id
        from jsonb_to_recordset(%s) as r (
            id bigint, entity_type text, claimed_kind text, soft_name text, summary text,
            handle_number bigint, retired_at timestamptz, org_id uuid, visibility text,
            owner_id uuid
        )
    """,
    "keys": """
        insert into aiq.node_keys (node_id, key, kind, is_name)
        select node_id, key, coalesce(kind, 'canonical'), coalesce(is_name, true)
        from jsonb_to_recordset(%s) as r (node_id bigint, key text, kind text, is_name boolean)
    """,
    "edges": """
        insert into aiq.edges (
            id, src_id, dst_id, relation, weight, valid_from, valid_to, org_id, visibility, owner_id
        )
        select
            id, src_id, dst_id, relation, weight,
            coalesce(valid_from, '-infinity'), valid_to,
            org_id, coalesce(visibility, 'org'), owner_id
        from jsonb_to_recordset(%s) as r (
            id bigint, src_id bigint, dst_id bigint, relation text, weight real,
            valid_from timestamptz, valid_to timestamptz, org_id uuid, visibility text,
            owner_id uuid
        )
    """,
    "distinct": """
        insert into aiq.distinct_nodes (node_a, node_b)
        select node_a, node_b from jsonb_to_recordset(%s) as r (node_a bigint, node_b bigint)
    """,
    "verdicts": """
        insert into aiq.link_verdicts (node_a, node_b, confidence, reason)
        select node_a, node_b, confidence, reason
        from jsonb_to_recordset(%s) as r (
            node_a bigint, node_b bigint, confidence real, reason text
        )
    """,
}


def write_graph(connection: psycopg.Connection[Any], graph: Mapping[str, Any]) -> None:
    """Write a plain graph into empty tables. Soft nodes hold their bare name as a key."""
    nodes = [
        {
            **node,
            "claimed_kind": node.get("claimed_kind") and fold_key(node["claimed_kind"]),
            "soft_name": node.get("soft_name") and fold_key(node["soft_name"]),
            "summary": node.get("summary") or node.get("soft_name"),
        }
        for node in graph["nodes"]
    ]
    keys = {(key["node_id"], fold_key(key["key"])): key for key in reversed(graph.get("keys", []))}
    keys |= {
        (node["id"], node["soft_name"]): {"kind": "alias"} for node in nodes if node["soft_name"]
    }
    rows: dict[str, Any] = {
        **graph,
        "nodes": nodes,
        "keys": [{**key, "node_id": node, "key": name} for (node, name), key in keys.items()],
    }
    for table in TABLES:
        if rows.get(table):
            connection.execute(INSERTS[table], [json.dumps(rows[table])])


class ServerFunctions:
    """The SQL functions, with the Python functions' arguments and rows.

    Parameters
    ----------
    connection : psycopg.Connection
        What they are called over.
    """

    JOIN_TYPES: Mapping[str, str] = {
        "seed": "text",
        "target_type": "text",
        "max_rounds": "int",
        "links": "text[]",
        "similarity": "real",
        "budget": "int",
        "degree_cap": "int",
        "relations": "text[]",
        "as_of": "timestamptz",
        "limit": "int",
    }
    WALK_TYPES: Mapping[str, str] = {
        "key": "text",
        "depth": "int",
        "relation": "text",
        "degree_cap": "int",
        "limit": "int",
        "as_of": "timestamptz",
    }
    LOOKUP_TYPES: Mapping[str, str] = {"keys": "text[]", "fuzzy": "boolean", "limit": "int"}

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def iterated_join(self, *positional: Any, **named: Any) -> list[JoinRow]:
        rows = self._call("iterated_join", self.JOIN_TYPES, positional, named)
        return [JoinRow(*row) for row in rows]

    def iterated_join_trace(self, *positional: Any, **named: Any) -> dict[str, Any]:
        trace: dict[str, Any] = self._call(
            "iterated_join_trace", self.JOIN_TYPES, positional, named
        )[0][0]
        return trace

    def walk(self, *positional: Any, **named: Any) -> list[WalkRow]:
        return [WalkRow(*row) for row in self._call("walk", self.WALK_TYPES, positional, named)]

    def lookup(self, *positional: Any, **named: Any) -> list[LookupRow]:
        # A real comes over the wire as four bytes; as a double it is exact.
        rows = self._call("lookup", self.LOOKUP_TYPES, positional, named)
        return [LookupRow(*row) for row in rows]

    def _call(
        self,
        function: str,
        types: Mapping[str, str],
        positional: Sequence[Any],
        named: Mapping[str, Any],
    ) -> list[Any]:
        given = {**dict(zip(types, positional, strict=False)), **named}
        arguments = ", ".join(f"p_{name} => %s::{types[name]}" for name in given)
        values = [
            list(value) if isinstance(value, (tuple, set)) else value for value in given.values()
        ]
        with self.connection.cursor(row_factory=tuple_row, binary=True) as cursor:
            cursor.execute(f"select * from aiq.{function}({arguments})", values)
            return cursor.fetchall()
