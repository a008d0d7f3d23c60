"""The rows of a walk reach the caller as they are, whatever the relations are called."""

from __future__ import annotations

import psycopg

from graphalgo.stores.memory import MemoryStore
from tests.support.engine import Bound
from tests.support.server import ServerFunctions, write_graph

ODD = ["a,b", 'say "so"', "back\\slash", "{}", "null", " spaced ", "tab\there", "ünï🙂", "it's"]


def graph(count: int, relations: list[str]) -> dict[str, object]:
    return {
        "entity_types": [{"name": "thing", "handle_prefix": "T"}],
        "relations": [
            {"src_type": "thing", "relation": relation, "dst_type": "thing"}
            for relation in relations
        ],
        "nodes": [{"id": node, "entity_type": "thing"} for node in range(1, count + 1)],
        "edges": [
            {
                "id": node,
                "src_id": node // 2 or 1,
                "dst_id": node,
                "relation": relations[node % len(relations)],
                "weight": 0.5,
            }
            for node in range(2, count + 1)
        ],
    }


def same_walks(dsn: str, plain: dict[str, object], **arguments: int) -> int:
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        write_graph(connection, plain)
        rows = ServerFunctions(connection).walk("T-1", **arguments)
    assert rows == Bound(MemoryStore.from_dict(plain)).walk("T-1", **arguments)
    return len(rows)


def test_relations_of_any_name_come_back_as_they_are(empty_dsn):
    assert same_walks(empty_dsn, graph(30, ODD), depth=4) == 29


def test_rows_of_several_blocks_stay_in_order(empty_dsn):
    wide = graph(12_000, ["knows"])
    wide["edges"] = [{**edge, "src_id": 1} for edge in wide["edges"]]  # type: ignore[attr-defined]
    assert same_walks(empty_dsn, wide, degree_cap=100_000, limit=100_000) == 11_999
