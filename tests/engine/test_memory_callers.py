"""The store in memory, filled for one caller, holds what that caller sees and nothing else."""

from __future__ import annotations

import pytest

from graphalgo.engine import lookup, walk
from graphalgo.engine.errors import GraphAlgoError
from graphalgo.samples import harbour_json
from graphalgo.samples.harbour import graph_from_harbour, visible_to
from graphalgo.stores.memory import MemoryStore

ANN, BOB = (f"e0000000-0000-0000-0000-00000000000{last}" for last in "1b")
HERS, HIS = (f"d0000000-0000-0000-0000-00000000000{last}" for last in "1b")


@pytest.fixture
def graph():
    return {
        "members": [{"org": HERS, "user": ANN}, {"org": HIS, "user": BOB}],
        "entity_types": [{"name": "ship", "handle_prefix": "SHP"}],
        "relations": [{"src_type": "ship", "relation": "tows", "dst_type": "ship"}],
        "nodes": [
            {"id": 1, "entity_type": "ship"},
            {"id": 2, "entity_type": "ship", "org_id": HERS},
            {"id": 3, "entity_type": "ship", "org_id": HIS, "visibility": "public"},
            {"id": 4, "entity_type": "ship", "org_id": HIS},
            {"id": 5, "entity_type": "ship", "visibility": "private", "owner_id": ANN},
            {"id": 6, "entity_type": "ship", "org_id": HERS, "visibility": "private",
             "owner_id": BOB},
        ],
        "keys": [{"node_id": number, "key": f"ship {number}"} for number in range(1, 7)],
        "edges": [
            *({"src_id": 1, "dst_id": number, "relation": "tows"} for number in range(2, 7)),
            {"src_id": 3, "dst_id": 1, "relation": "tows", "org_id": HIS},
        ],
        "distinct": [{"node_a": 2, "node_b": 4}, {"node_a": 1, "node_b": 2}],
        "verdicts": [
            {"node_a": 1, "node_b": 4, "confidence": 0.5},
            {"node_a": 1, "node_b": 5, "confidence": 0.5},
        ],
        "text_sources": [{"name": "logs", "configuration": "simple"}],
        "passages": [
            {"source": "logs", "id": 1, "content": "fog"},
            {"source": "logs", "id": 2, "content": "fog fog", "org_id": HIS},
        ],
        "embedding_models": [{"name": "m", "dim": 2}],
        "embeddings": [
            {"source": "logs", "model": "m", "id": number, "vector": [1.0, number]}
            for number in (1, 2)
        ],
    }  # fmt: skip


SHIPS = [f"ship {number}" for number in range(1, 7)]


def found(store):
    return [row.node_id for row in lookup(store, SHIPS)]


@pytest.mark.parametrize(
    ("sub", "orgs", "seen"),
    [
        (None, None, [1, 2, 3, 4, 5, 6]),
        (ANN, None, [1, 2, 3, 5]),
        (ANN.upper(), [HERS.upper()], [1, 2, 3, 5]),
        (ANN, [], [1, 3, 5]),
        (ANN, [HIS], [1, 3, 5]),
        (BOB, None, [1, 3, 4, 6]),
        (HERS, None, [1, 3]),
    ],
)
def test_nodes_are_seen_by_their_scope(graph, sub, orgs, seen):
    store = MemoryStore.from_dict(graph, sub=sub, orgs=orgs)
    assert found(store) == seen
    reached = {row.node_id for row in walk(store, "ship 1")}
    assert reached == set(seen) - {1}


def test_an_edge_is_seen_by_its_own_scope_too(graph):
    # Then only his edge goes between the two.
    del graph["edges"][1]
    assert walk(MemoryStore.from_dict(graph, sub=ANN), "ship 3") == []
    (row,) = walk(MemoryStore.from_dict(graph, sub=BOB), "ship 3")
    assert (row.node_id, row.path) == (1, ["tows"])


def test_what_hangs_on_others_is_not_there(graph):
    store = MemoryStore.from_dict(graph, sub=ANN)
    assert [linked for _, linked, *_ in store.link_judge([1])] == [5]
    assert store.text_ranking("logs", "fog", 5) == MemoryStore.from_dict(
        {**graph, "passages": graph["passages"][:1], "embeddings": graph["embeddings"][:1]}
    ).text_ranking("logs", "fog", 5)
    assert [row for row, _ in store.vector_ranking("logs", "m", [1.0, 2.0], 5)] == [1]
    assert [row for row, _ in store.text_ranking("logs", "fog", 5)] == [1]


def test_a_tenant_of_the_sample_sees_what_the_tenant_sees():
    sample = harbour_json()
    scoped = graph_from_harbour(sample, scoped=True)
    for member in sample["members"]:
        store = MemoryStore.from_dict(sample, sub=member["user"])
        part = MemoryStore.from_dict(visible_to(scoped, member["org"]))
        names = [key["key"] for key in scoped["keys"]]
        assert lookup(store, names) == lookup(part, names)
        assert store.text_ranking("notes", "psc-441", 9) == part.text_ranking("notes", "psc-441", 9)
    everyone = MemoryStore.from_dict(sample)
    assert len(lookup(everyone, names)) > len(lookup(store, names))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"members": [{"org": HERS}]}, "members are not what they should be"),
        ({"members": 5}, "members are not what they should be"),
        ({"nodes": [{"id": 1, "entity_type": "ship", "visibility": "all"}]},
         'nodes, entry 1: "all" is not a visibility'),
        ({"nodes": [{"id": 1, "entity_type": "ship"}, 7]}, "nodes, entry 2 is not what"),
        ({"edges": [{"src_id": 4, "relation": "tows"}]}, "edges, entry 1 has no dst_id"),
    ],
)  # fmt: skip
def test_what_has_no_scope_that_can_be_read_is_refused(graph, change, says):
    with pytest.raises(GraphAlgoError, match=says) as caught:
        MemoryStore.from_dict({**graph, **change}, sub=ANN)
    assert caught.value.sqlstate == "22023"
