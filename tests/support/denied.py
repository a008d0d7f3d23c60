"""What is denied and what is missing, held to one answer, byte for byte.

A graph is asked with everything in it, under a caller's claims; then whatever
that caller may not see is deleted, and it is asked the same again.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
from hypothesis import strategies as st

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.stores.client import ClientStore
from tests.support import agreement, tenants
from tests.support.engine import Bound
from tests.support.server import ServerFunctions, write_graph

Call = tuple[str, dict[str, Any]]

VIEWS = (
    "nodes_ever", "nodes_api", "node_keys_api", "edges_current", "edge_periods",
    "link_verdicts_api", "entity_types_api", "relations_api",
)  # fmt: skip
ALL_LINKS = ["edge", "shared_key", "similar", "judged"]
# All that an error report has but where in the server's source it was raised.
REPORT = (
    "severity", "sqlstate", "message_primary", "message_detail", "message_hint",
    "statement_position", "internal_position", "internal_query", "context", "schema_name",
    "table_name", "column_name", "datatype_name", "constraint_name",
)  # fmt: skip


def check_denied_is_missing(connection: psycopg.Connection[Any], data: st.DataObject) -> None:
    """Hold every answer about a random graph to that of its visible part. Rolled back."""
    graph = data.draw(tenants.scoped_graphs(), label="graph")
    claims = data.draw(tenants.CLAIMS, label="claims")
    part = tenants.visible_part(graph, claims)
    calls = [
        *about_the_denied(graph, part),
        *(data.draw(agreement.calls(graph), label="call") for _ in range(3)),
    ]
    with connection.transaction(force_rollback=True):
        write_graph(connection, graph)
        tenants.write_tenants(connection)
        connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
        connection.execute(
            "select set_config('request.jwt.claims', %s, true)",
            ["" if claims is None else json.dumps(claims)],
        )
        denied = everything(connection, calls)
        delete_the_denied(connection, part)
        missing = everything(connection, calls)
    for call, before, after in zip(["views", *calls, *calls], denied, missing, strict=True):
        assert before == after, call


def about_the_denied(graph: dict[str, Any], part: dict[str, Any]) -> list[Call]:
    """Calls that name nodes the caller may not see: by handle, key and near spelling."""
    seen = {node["id"] for node in part["nodes"]}
    prefixes = {row["name"]: row["handle_prefix"] for row in graph["entity_types"]}
    names: list[str] = []
    for node in graph["nodes"]:
        if node["id"] in seen:
            continue
        if node["entity_type"] is None:
            names += [f"soft-{node['id']}", f"{node['claimed_kind']}/{node['soft_name']}"]
            names += [node["soft_name"]]
        else:
            names.append(f"{prefixes[node['entity_type']]}-{node['id']}")
    names += [key["key"] for key in graph["keys"] if key["node_id"] not in seen]
    chosen = list(dict.fromkeys(names))[:5]
    calls: list[Call] = []
    for name in chosen:
        calls += [
            ("walk", {"key": name, "depth": 2}),
            ("walk", {"key": name[:-1] + "x"}),
            ("iterated_join_trace", join(name)),
        ]
    if chosen:
        calls.append(("lookup", {"keys": chosen, "fuzzy": True}))
    for node in part["nodes"][:3]:
        if node["entity_type"] is not None and not node["retired_at"]:
            handle = f"{prefixes[node['entity_type']]}-{node['id']}"
            # A cap and a budget that what is denied would use up, and counts of it all.
            calls += [
                ("iterated_join_trace", join(handle, degree_cap=1, budget=1)),
                ("iterated_join", join(handle)),
                ("walk", {"key": handle, "depth": 3, "degree_cap": 2}),
            ]
    return calls


def join(seed: str, **arguments: Any) -> dict[str, Any]:
    return {
        "seed": seed, "target_type": "gamma", "links": ALL_LINKS, "similarity": 0.3, **arguments
    }  # fmt: skip


def everything(connection: psycopg.Connection[Any], calls: list[Call]) -> list[Any]:
    """What the caller is told: the views, and each call from inside and from outside."""
    connection.execute("set local role authenticated")
    told: list[Any] = [
        [
            connection.execute(f"select v::text from aiq.{view} as v order by 1").fetchall()  # type: ignore[arg-type]
            for view in VIEWS
        ]
    ]
    for algorithms in (ServerFunctions(connection), Bound(ClientStore(connection))):
        told += [_told(connection, algorithms, name, arguments) for name, arguments in calls]
    connection.execute("reset role")
    return told


def _told(
    connection: psycopg.Connection[Any], algorithms: Any, name: str, arguments: dict[str, Any]
) -> Any:
    try:
        with connection.transaction():
            answer = getattr(algorithms, name)(**arguments)
    except GraphAlgoError as error:
        return error.sqlstate, error.message, error.hint
    except psycopg.Error as error:
        return [getattr(error.diag, field) for field in REPORT]
    if name == "iterated_join_trace":
        for one in answer["rounds"]:
            one.pop("milliseconds")
        return answer
    return [row.as_dict() for row in answer]


def delete_the_denied(connection: psycopg.Connection[Any], part: dict[str, Any]) -> None:
    """Delete what the caller may not see."""
    for table, rows in (("edges", part["edges"]), ("nodes", part["nodes"])):
        connection.execute(
            f"delete from aiq.{table} where id <> all (%s::bigint[])",  # type: ignore[arg-type]
            [[row["id"] for row in rows]],
        )
