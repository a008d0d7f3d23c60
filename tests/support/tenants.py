"""Random scopes and callers, and the oracle: filter first, walk after."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import psycopg
from hypothesis import strategies as st

from graphalgo.stores.client import ClientStore
from graphalgo.stores.memory import MemoryStore
from tests.support import agreement, graphs
from tests.support.engine import Bound
from tests.support.server import ServerFunctions, write_graph

ORGS = [str(UUID(int=0xD0 << 120 | number)) for number in (1, 2, 3)]
USERS = [str(UUID(int=0xE0 << 120 | number)) for number in (1, 2, 3)]
# The third user belongs to no organisation, the second to two.
MEMBERS = [(ORGS[0], USERS[0]), (ORGS[0], USERS[1]), (ORGS[1], USERS[1])]

SCOPES = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"org_id": st.sampled_from(ORGS)}),
    st.fixed_dictionaries({"org_id": st.sampled_from(ORGS), "visibility": st.just("public")}),
    st.fixed_dictionaries(
        {
            "org_id": st.one_of(st.none(), st.sampled_from(ORGS)),
            "visibility": st.just("private"),
            "owner_id": st.sampled_from(USERS),
        }
    ),
)
CLAIMS = st.one_of(
    st.none(),
    st.just({}),
    st.fixed_dictionaries({"orgs": st.lists(st.sampled_from(ORGS), max_size=2)}),
    st.fixed_dictionaries({"sub": st.sampled_from(USERS)}),
    st.fixed_dictionaries(
        {
            "sub": st.sampled_from(USERS),
            "orgs": st.lists(st.sampled_from([*ORGS, str(UUID(int=7))]), max_size=3),
        }
    ),
)


@st.composite
def scoped_graphs(draw: st.DrawFn) -> dict[str, Any]:
    """A graph whose nodes and edges have scopes."""
    graph = draw(graphs.plain_graphs())
    for row in [*graph["nodes"], *graph["edges"]]:
        row.update(draw(SCOPES))
    # One open edge a source, relation, target: scopes differ, so that is kept.
    return graph


def sees(row: dict[str, Any], claims: dict[str, Any] | None) -> bool:
    """Say whether a caller sees a row of that scope, from the words of the rule."""
    visibility = row.get("visibility") or "org"
    sub = (claims or {}).get("sub")
    if visibility == "public" or (visibility == "org" and row.get("org_id") is None):
        return True
    if visibility == "private":
        return sub is not None and row["owner_id"] == sub
    member = (row["org_id"], sub) in MEMBERS
    narrowed = (claims or {}).get("orgs")
    return member and (narrowed is None or row["org_id"] in narrowed)


def visible_part(graph: dict[str, Any], claims: dict[str, Any] | None) -> dict[str, Any]:
    """Return what is left of a graph for a caller."""
    nodes = [node for node in graph["nodes"] if sees(node, claims)]
    ids = {node["id"] for node in nodes}
    return {
        **graph,
        "nodes": nodes,
        "keys": [key for key in graph["keys"] if key["node_id"] in ids],
        "edges": [
            edge
            for edge in graph["edges"]
            if sees(edge, claims) and {edge["src_id"], edge["dst_id"]} <= ids
        ],
        "verdicts": [
            verdict
            for verdict in graph["verdicts"]
            if {verdict["node_a"], verdict["node_b"]} <= ids
        ]
        or agreement.NO_VERDICTS,
        "distinct": [pair for pair in graph["distinct"] if {pair["node_a"], pair["node_b"]} <= ids],
    }


def write_tenants(connection: psycopg.Connection[Any]) -> None:
    """Write the organisations, the users and who belongs where."""
    for org in ORGS:
        connection.execute("insert into rbac.orgs (id) values (%s)", [org])
    for user in USERS:
        connection.execute("insert into rbac.users (id) values (%s)", [user])
    for pair in MEMBERS:
        connection.execute("insert into rbac.org_members (org_id, user_id) values (%s, %s)", pair)


def check_tenants(connection: psycopg.Connection[Any], data: st.DataObject) -> None:
    """Hold every answer under random claims to the oracle's. All is rolled back."""
    graph = data.draw(scoped_graphs(), label="graph")
    with connection.transaction(force_rollback=True):
        write_graph(connection, graph)
        write_tenants(connection)
        connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
        connection.execute("set local role authenticated")
        for _ in range(3):
            claims = data.draw(CLAIMS, label="claims")
            connection.execute(
                "select set_config('request.jwt.claims', %s, true)",
                ["" if claims is None else json.dumps(claims)],
            )
            part = visible_part(graph, claims)
            _check_views(connection, part)
            stores = [
                Bound(MemoryStore.from_dict(part)),
                ServerFunctions(connection),
                Bound(ClientStore(connection)),
                *_twins(graph, claims),
            ]
            for _ in range(3):
                name, arguments = data.draw(agreement.calls(graph), label="call")
                first, *others = [
                    agreement.outcome(connection, store, name, arguments) for store in stores
                ]
                for other in others:
                    assert other == first, f"found: {other}\noracle: {first}"


def _twins(graph: dict[str, Any], claims: dict[str, Any] | None) -> list[Any]:
    """Return the store in memory that is filled for a caller, where the claims name one."""
    if not claims or "sub" not in claims:
        return []
    whole = {
        **graph,
        "members": [{"org": org, "user": user} for org, user in MEMBERS],
        "verdicts": graph["verdicts"] or agreement.NO_VERDICTS,
    }
    return [Bound(MemoryStore.from_dict(whole, sub=claims["sub"], orgs=claims.get("orgs")))]


def _check_views(connection: psycopg.Connection[Any], part: dict[str, Any]) -> None:
    expected = {
        "nodes_ever": {node["id"] for node in part["nodes"]},
        "nodes_api": {node["id"] for node in part["nodes"] if not node["retired_at"]},
        "edge_periods": {edge["id"] for edge in part["edges"]},
    }
    for view, ids in expected.items():
        rows = connection.execute(f"select id from aiq.{view}").fetchall()  # type: ignore[arg-type]
        assert {row[0] for row in rows} == ids, view
    holders = connection.execute("select node_id from aiq.node_keys_api").fetchall()
    assert {row[0] for row in holders} <= expected["nodes_api"]
    current = connection.execute("select id from aiq.edges_current").fetchall()
    assert {row[0] for row in current} <= expected["edge_periods"]
