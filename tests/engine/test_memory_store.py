"""The store in memory: how it is built, from what, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import networkx
import pytest

from graphalgo.engine import iterated_join, lookup, walk
from graphalgo.engine.errors import InvalidValue, NotFound, UnknownName
from graphalgo.samples import harbour_json
from graphalgo.stores.memory import MemoryStore
from tests.support.building import Building, ids


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.add_entity_type("vessel", "VSL")
    store.add_entity_type("company", "CPY")
    store.add_relation("company", "operates", "vessel")
    store.add_node(1, "company")
    store.add_node(2, "vessel")
    return store


class TestBuilding:
    def test_nodes_keys_and_edges_are_found_again(self, store):
        store.add_key(2, "  Meridian   DAWN ")
        store.add_edge(1, 2, "operates", 0.5)
        (row,) = walk(store, "meridian dawn")
        assert (row.handle, row.path, row.weight) == ("CPY-1", ["operates"], 0.5)

    def test_what_is_added_after_a_question_is_found_too(self, store):
        assert walk(store, "CPY-1") == []
        store.add_edge(1, 2, "operates", 0.5)
        assert ids(walk(store, "CPY-1")) == [2]
        store.add_node(3, "vessel")
        store.add_edge(1, 3, "operates", 0.9)
        assert ids(walk(store, "CPY-1")) == [3, 2]

    def test_adding_tells_the_id(self, store):
        assert store.add_node(9, "vessel") == 9
        assert store.add_soft_node(10, "ship", "x") == 10
        assert store.add_edge(1, 2, "operates") == 1
        assert store.add_edge(1, 2, "operates", edge_id=77) == 77

    def test_weights_are_reals(self, store):
        store.add_edge(1, 2, "operates", 0.1)
        assert walk(store, "CPY-1")[0].weight == 0.10000000149011612

    @pytest.mark.parametrize("weight", [0, -0.1, 1.0000001, 2, float("nan"), float("inf"), 1e-300])
    def test_a_weight_outside_its_range_is_refused(self, store, weight):
        with pytest.raises(InvalidValue, match=r"above 0 and at most 1|does not fit into a real"):
            store.add_edge(1, 2, "operates", weight)
        assert walk(store, "CPY-1") == []

    @pytest.mark.parametrize(("src", "dst"), [(1, 99), (99, 2)])
    def test_an_edge_needs_both_its_ends(self, store, src, dst):
        with pytest.raises(NotFound, match="there is no node 99") as caught:
            store.add_edge(src, dst, "operates")
        assert caught.value.hint
        assert walk(store, "CPY-1") == []

    @pytest.mark.parametrize(
        ("src", "relation", "dst", "shown"),
        [
            (2, "operates", 1, 'relation "operates" is not declared from "vessel" to "company"'),
            (1, "owns", 2, 'relation "owns" is not declared from "company" to "vessel"'),
            (3, "owns", 2, 'relation "owns" is not declared from a soft node to "vessel"'),
        ],
    )
    def test_an_undeclared_relation_is_refused_by_name(self, store, src, relation, dst, shown):
        store.add_soft_node(3, "ship", "x")
        with pytest.raises(UnknownName) as caught:
            store.add_edge(src, dst, relation)
        assert caught.value.message == shown

    def test_an_edge_with_a_soft_end_is_checked_by_relation_alone(self, store):
        store.add_soft_node(3, "ship", "x")
        store.add_edge(2, 3, "operates")
        store.add_edge(3, 1, "operates")
        assert ids(walk(store, "soft-3")) == [1, 2]

    def test_a_key_and_a_distinct_pair_need_their_nodes(self, store):
        for add in (lambda: store.add_key(99, "x"), lambda: store.record_distinct(1, 99)):
            with pytest.raises(NotFound, match="there is no node 99"):
                add()

    @pytest.mark.parametrize("prefix", ["", "_x", "1x", "é", "x-1", "soft", "SOFT"])
    def test_a_handle_prefix_is_letters_other_than_soft(self, store, prefix):
        with pytest.raises(InvalidValue) as caught:
            store.add_entity_type("other", prefix)
        assert caught.value.message == f'"{prefix}" cannot be a handle prefix'
        assert caught.value.hint

    def test_an_id_is_taken_once(self, store):
        with pytest.raises(InvalidValue, match="node 1"):
            store.add_node(1, "vessel")
        with pytest.raises(InvalidValue, match="node 1"):
            store.add_soft_node(1, "ship", "x")

    def test_a_handle_is_taken_once(self, store):
        store.add_node(5, "vessel", handle_number=50)
        with pytest.raises(InvalidValue, match="handle"):
            store.add_node(50, "vessel")
        store.add_node(51, "company", handle_number=50)

    def test_an_unregistered_type_is_refused(self, store):
        with pytest.raises(UnknownName, match='"boat"'):
            store.add_node(3, "boat")
        with pytest.raises(UnknownName, match='"boat"'):
            store.add_relation("boat", "operates", "vessel")

    def test_a_prefix_belongs_to_one_type_whatever_its_case(self, store):
        with pytest.raises(InvalidValue, match='"vsl" belongs to entity type "vessel"'):
            store.add_entity_type("boat", "vsl")
        store.add_entity_type("vessel", "SHP")
        assert ids(lookup(store, ["nothing"])) == []

    @pytest.mark.parametrize("key", ["", "   ", "x" * 2001, "é" * 1001])
    def test_an_empty_or_very_long_key_is_refused(self, store, key):
        with pytest.raises(InvalidValue, match="is empty or longer than 2000 bytes"):
            store.add_key(1, key)

    def test_the_longest_key_is_accepted(self, store):
        store.add_key(1, "x" * 2000)
        assert ids(lookup(store, ["X" * 2000])) == [1]

    def test_an_unknown_kind_of_key_is_refused(self, store):
        with pytest.raises(InvalidValue, match='"nickname" is not a kind of key'):
            store.add_key(1, "x", kind="nickname")

    def test_a_node_holds_a_key_once(self, store):
        store.add_key(1, "same", kind="canonical")
        store.add_key(1, "SAME", kind="alias")
        (row,) = lookup(store, ["same"])
        assert row.match_kind == "canonical"

    @pytest.mark.parametrize("moment", ["yesterday", "", "2022-13-01"])
    def test_what_is_no_moment_is_refused(self, store, moment):
        with pytest.raises(InvalidValue, match="is not a moment"):
            store.add_edge(1, 2, "operates", valid_from=moment)

    def test_a_moment_without_a_zone_is_utc(self, store):
        store.add_edge(1, 2, "operates", valid_from="2020-01-01T12:00:00")
        assert walk(store, "CPY-1", as_of="2020-01-01T13:59:59+02:00") == []
        assert len(walk(store, "CPY-1", as_of="2020-01-01T14:00:00+02:00")) == 1
        assert len(walk(store, "CPY-1", as_of="2020-01-01T12:00:00")) == 1


class TestShown:
    def test_the_key_is_the_least_canonical_else_short_else_alias(self):
        graph = Building().things(1, 2, 3, 4, 5)
        for node in range(2, 6):
            graph.edge(1, node)
        graph.key(2, "z", "canonical").key(2, "é", "canonical").key(2, "a", "short")
        graph.key(3, "z", "short").key(3, "a", "alias")
        graph.key(4, "z", "alias").key(4, "b", "alias", False)
        shown = {row.node_id: row.key for row in walk(graph.store(), "T-1")}
        assert shown == {2: "z", 3: "z", 4: "b", 5: None}

    def test_a_soft_nodes_name_is_its_summary_where_it_has_none(self):
        graph = Building().things(1).soft(2, "Ship", "Meridian  Dawn").edge(1, 2)
        (row,) = walk(graph.store(), "T-1")
        assert (row.key, row.summary) == ("ship/meridian dawn", "Meridian  Dawn")


class TestFromJson:
    def test_a_file_and_its_contents_give_one_store(self, tmp_path):
        graph = harbour_json()
        path = tmp_path / "harbour.json"
        path.write_text(json.dumps(graph), encoding="utf-8")
        found = [
            [row.as_dict() for row in lookup(store, ["meridian dawn"], True)]
            for store in (MemoryStore.from_json(graph), MemoryStore.from_json(path))
        ]
        assert found[0] == found[1] != []

    def test_the_plain_form_takes_defaults(self):
        store = MemoryStore.from_dict(
            {
                "entity_types": [{"name": "thing", "handle_prefix": "T"}],
                "relations": [{"src_type": "thing", "relation": "knows", "dst_type": "thing"}],
                "nodes": [{"id": 1, "entity_type": "thing"}, {"id": 2, "entity_type": "thing"},
                          {"id": 3, "claimed_kind": "ship", "soft_name": "dawn"}],
                "keys": [{"node_id": 1, "key": "Dawn"}],
                "edges": [{"src_id": 1, "dst_id": 2, "relation": "knows"}],
            }
        )  # fmt: skip
        (row,) = walk(store, "dawn")
        assert (row.node_id, row.weight) == (2, 1.0)
        (row,) = iterated_join(store, "soft-3", "thing", links=["shared_key"])
        assert row.node_id == 1

    @pytest.mark.parametrize(
        ("graph", "error", "message"),
        [
            ({"nodes": {}}, InvalidValue, '"nodes" holds a dict, but must hold a list'),
            ({"nodes": "x"}, InvalidValue, '"nodes" holds a str, but must hold a list'),
            ({"nodes": [7]}, InvalidValue, "nodes, entry 1 is not what it should be"),
            ({"nodes": [{"entity_type": "x"}]}, InvalidValue, "nodes, entry 1 has no id"),
            ({"nodes": [{"id": 1, "entity_type": "x"}]}, UnknownName, 'nodes, entry 1: "x" is not'),
            ({"keys": [{"node_id": 9, "key": "x"}]}, NotFound,
             "keys, entry 1: there is no node 9"),
            ({"embedding_models": [{"name": "m", "dim": "2"}]}, InvalidValue,
             "embedding_models, entry 1: p_dim is '2', but must be from 1 to 16000"),
            ({"embeddings": [{"source": "s", "model": "m", "id": 1, "vector": []}]}, UnknownName,
             'embeddings, entry 1: there is no text source "s"'),
        ],
    )  # fmt: skip
    def test_a_wrong_entry_is_refused_naming_its_list_and_place(self, graph, error, message):
        with pytest.raises(error) as caught:
            MemoryStore.from_dict(graph)
        assert caught.value.message.startswith(message)
        assert caught.value.hint

    @pytest.mark.parametrize("text", ["", "{", "nodes", "\ufeff{}"])
    def test_what_is_not_json_is_refused_naming_the_file(self, tmp_path, text):
        path = tmp_path / "graph.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidValue, match=r"graph\.json is not JSON"):
            MemoryStore.from_json(path)

    def test_what_is_not_text_is_refused_naming_the_file(self, tmp_path):
        path = tmp_path / "graph.json"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InvalidValue, match=r"graph\.json is not JSON"):
            MemoryStore.from_json(path)

    @pytest.mark.parametrize(("text", "kind"), [("[]", "list"), ("7", "int"), ("null", "NoneType")])
    def test_what_is_not_an_object_is_refused(self, tmp_path, text, kind):
        path = tmp_path / "graph.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidValue, match=f"holds a {kind}, but must hold a JSON object"):
            MemoryStore.from_json(path)

    def test_a_missing_file_is_an_os_error(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            MemoryStore.from_json(tmp_path / "none.json")


class TestFromNetworkx:
    def test_whole_numbers_are_the_ids_and_no_names(self):
        store = MemoryStore.from_networkx(networkx.path_graph([7, 8, 9]))
        assert ids(walk(store, "7", 2)) == [8, 9]
        assert not iterated_join(store, "7", "node", links=["similar"], similarity=0.01)[0].resolved

    def test_names_are_keys_and_compared(self):
        graph: Any = networkx.Graph()
        graph.add_nodes_from(["meridian dawn", "meridien dawn"])
        store = MemoryStore.from_networkx(graph)
        (row,) = iterated_join(store, "meridian dawn", "node", links=["similar"], similarity=0.5)
        assert row.key == "meridien dawn"

    def test_attributes_are_read(self):
        graph = networkx.MultiDiGraph()
        graph.add_node("a", entity_type="ship", summary="The ship a")
        graph.add_node("b", entity_type="firm")
        graph.add_edge("b", "a", relation="operates", weight=0.5)
        graph.add_edge("a", "b", relation="sails for", weight=0.25)
        store = MemoryStore.from_networkx(graph)
        (row,) = walk(store, "b")
        assert (row.entity_type, row.summary, row.path, row.weight) == (
            "ship", "The ship a", ["operates"], 0.5,
        )  # fmt: skip
        (row,) = iterated_join(store, "b", "ship", relations=["sails for"])
        assert row.path[0]["direction"] == "in"

    def test_a_weight_outside_its_range_is_refused(self):
        graph = networkx.Graph()
        graph.add_edge(1, 2, weight=3)
        with pytest.raises(InvalidValue, match="weight is 3"):
            MemoryStore.from_networkx(graph)

    def test_an_empty_graph_is_a_store_without_nodes(self):
        assert lookup(MemoryStore.from_networkx(networkx.Graph()), ["x"]) == []

    def test_a_node_that_is_true_is_a_name(self):
        graph = networkx.Graph([(True, "other")])
        assert ids(walk(MemoryStore.from_networkx(graph), "true")) == [2]


def test_a_hub_costs_its_cap():
    """Its strongest edges come off a sorted list: a walk looks at one more than its cap."""
    graph = Building().things(*range(1, 2002))
    for node in range(2, 2002):
        graph.edge(1, node, 1 - node / 4000)
    store = graph.store()
    looked_at = 0
    edges_of = store._edges_of

    def counted(*arguments):
        nonlocal looked_at
        for link in edges_of(*arguments):
            looked_at += 1
            yield link

    store._edges_of = counted
    assert ids(walk(store, "T-1", degree_cap=10)) == list(range(2, 12))
    assert looked_at == 11
