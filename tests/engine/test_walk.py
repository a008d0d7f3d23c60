"""The walk, rule by rule, on graphs small enough to work out by hand."""

from __future__ import annotations

from struct import pack, unpack

import pytest

from graphalgo.engine import walk
from graphalgo.stores.memory import MemoryStore
from tests.support.building import Building, ids

PAST = "2020-01-01T00:00:00+00:00"
THEN = "2021-01-01T00:00:00+00:00"
ENDED = "2022-01-01T00:00:00+00:00"


def as_real(value: float) -> float:
    nearest: float = unpack("<f", pack("<f", value))[0]
    return nearest


def row_of(rows, node):
    (row,) = (row for row in rows if row.node_id == node)
    return row


def test_a_row_tells_all_of_its_node():
    graph = Building().things(1).node(2, "goal", "some name").key(2, "a code", "short")
    graph.nodes[-1]["summary"] = "A summary"
    (row,) = walk(graph.edge(1, 2, 0.5, "owns").store(), "T-1")
    assert row.as_dict() == {
        "depth": 1, "node_id": 2, "handle": "G-2", "key": "some name", "entity_type": "goal",
        "summary": "A summary", "path": ["owns"], "weight": 0.5, "capped": False,
    }  # fmt: skip


def test_a_soft_node_has_no_type_and_shows_kind_and_name():
    graph = Building().things(1).soft(2, "ship", "meridian dawn").edge(1, 2)
    (row,) = walk(graph.store(), "T-1")
    assert (row.handle, row.key, row.entity_type) == ("soft-2", "ship/meridian dawn", None)


def test_the_start_is_not_a_row():
    graph = Building().things(1, 2).edge(1, 2).edge(2, 1, 0.5, "owns").edge(1, 1)
    assert ids(walk(graph.store(), "T-1", 3)) == [2]


def test_edges_are_walked_both_ways():
    graph = Building().things(1, 2, 3).edge(2, 1).edge(2, 3)
    assert [(row.depth, row.node_id) for row in walk(graph.store(), "T-1", 2)] == [(1, 2), (2, 3)]


@pytest.mark.parametrize("depth", range(1, 6))
def test_it_goes_as_deep_as_it_is_told(depth):
    graph = Building().things(*range(1, 8))
    for node in range(1, 7):
        graph.edge(node, node + 1)
    assert [row.depth for row in walk(graph.store(), "T-1", depth)] == list(range(1, depth + 1))


class TestOneRowANode:
    def test_the_least_depth_comes_before_the_weight(self):
        graph = Building().things(1, 2, 3).edge(1, 3, 0.01, "owns").edge(1, 2).edge(2, 3)
        row = row_of(walk(graph.store(), "T-1", 2), 3)
        assert (row.depth, row.weight, row.path) == (1, as_real(0.01), ["owns"])

    def test_then_the_highest_weight(self):
        graph = Building().things(1, 2, 3, 4)
        graph.edge(1, 2, 0.9, "Zebra").edge(1, 3, 0.5, "knows")
        graph.edge(2, 4, 0.9, "Zebra").edge(3, 4, 1.0, "knows")
        row = row_of(walk(graph.store(), "T-1", 2), 4)
        assert (row.weight, row.path) == (as_real(0.9) * as_real(0.9), ["Zebra", "Zebra"])

    def test_then_the_path_by_code_point(self):
        # "Zebra" before "knows" before "éclair": upper case first, accents last.
        for relations in (["Zebra", "knows"], ["knows", "éclair"], ["knows", "part_of"]):
            graph = Building().things(1, 2)
            for relation in reversed(relations):
                graph.edge(1, 2, 0.5, relation)
            assert walk(graph.store(), "T-1")[0].path == [relations[0]]

    def test_the_path_is_compared_from_its_start(self):
        graph = Building().things(1, 2, 3, 4)
        graph.edge(1, 2, 0.5, "owns").edge(2, 4, 0.5, "knows")
        graph.edge(1, 3, 0.5, "knows").edge(3, 4, 0.5, "owns")
        assert row_of(walk(graph.store(), "T-1", 2), 4).path == ["knows", "owns"]

    def test_the_weight_is_the_product_of_reals_as_doubles(self):
        graph = Building().things(1, 2, 3).edge(1, 2, 0.1).edge(2, 3, 0.7)
        row = row_of(walk(graph.store(), "T-1", 2), 3)
        assert row.weight == as_real(0.1) * as_real(0.7) != 0.1 * 0.7


class TestOrder:
    def test_rows_come_by_depth_weight_path_and_id(self):
        graph = Building().things(*range(1, 10))
        graph.edge(1, 9, 0.9, "owns").edge(1, 8, 0.5, "knows").edge(1, 7, 0.5, "owns")
        graph.edge(1, 6, 0.5, "owns").edge(1, 5, 0.5, "Zebra").edge(9, 2, 1.0)
        assert ids(walk(graph.store(), "T-1", 2)) == [9, 5, 8, 6, 7, 2]

    def test_the_limit_cuts_in_that_order(self):
        graph = Building().things(*range(1, 6))
        graph.edge(1, 2, 0.1).edge(1, 3, 0.9).edge(3, 4, 1.0).edge(3, 5, 0.9)
        store = graph.store()
        whole = walk(store, "T-1", 2)
        assert ids(whole) == [3, 2, 4, 5]
        for limit in range(1, 6):
            assert walk(store, "T-1", 2, limit=limit) == whole[:limit]

    def test_many_rows_of_one_level_are_all_told(self):
        graph = Building().things(*range(1, 2502))
        for node in range(2, 2502):
            graph.edge(1, node)
        rows = walk(graph.store(), "T-1", degree_cap=3000, limit=5000)
        assert ids(rows) == list(range(2, 2502))


class TestRelation:
    def test_it_narrows_every_hop(self):
        graph = Building().things(1, 2, 3, 4)
        graph.edge(1, 2, 1.0, "owns").edge(2, 3, 1.0, "knows").edge(2, 4, 1.0, "owns")
        assert ids(walk(graph.store(), "T-1", 2, "owns")) == [2, 4]

    def test_a_node_behind_another_relation_is_reached_the_longer_way(self):
        graph = Building().things(1, 2, 3)
        graph.edge(1, 3, 1.0, "knows").edge(1, 2, 1.0, "owns").edge(2, 3, 1.0, "owns")
        assert row_of(walk(graph.store(), "T-1", 2, "owns"), 3).depth == 2

    def test_it_narrows_before_the_cap(self):
        graph = Building().things(1, 2, 3).edge(1, 2, 0.9, "knows").edge(1, 3, 0.1, "owns")
        (row,) = walk(graph.store(), "T-1", 1, "owns", 1)
        assert (row.node_id, row.capped) == (3, False)


class TestCap:
    def test_it_keeps_the_strongest(self):
        graph = Building().things(1, 2, 3, 4).edge(1, 2, 0.5).edge(3, 1, 0.9).edge(1, 4, 0.7)
        assert ids(walk(graph.store(), "T-1", degree_cap=2)) == [3, 4]

    def test_parallel_edges_count_each_and_a_self_loop_once(self):
        graph = Building().things(1, 2, 3)
        graph.edge(1, 1, 1.0).edge(1, 2, 0.9, "knows").edge(1, 2, 0.9, "owns").edge(1, 3, 0.5)
        store = graph.store()
        assert ids(walk(store, "T-1", degree_cap=3)) == [2]
        assert ids(walk(store, "T-1", degree_cap=4)) == [2, 3]

    def test_ties_are_cut_by_neighbour_relation_and_direction(self):
        graph = Building().things(1, 2, 3).edge(1, 3, 0.5).edge(1, 2, 0.5, "owns", 2)
        graph.edge(2, 1, 0.5, "knows", 1)
        (row,) = walk(graph.store(), "T-1", degree_cap=1)
        assert (row.node_id, row.path) == (2, ["knows"])

    def test_a_node_behind_a_cut_edge_is_reached_the_longer_way(self):
        graph = Building().things(1, 2, 3).edge(1, 2, 0.9).edge(1, 3, 0.1).edge(2, 3, 1.0)
        store = graph.store()
        for cap, depth in ((1, 2), (2, 1)):
            assert row_of(walk(store, "T-1", 2, degree_cap=cap), 3).depth == depth


class TestCapped:
    def test_the_starts_cap_marks_every_row(self):
        graph = Building().things(1, 2, 3, 4).edge(1, 2, 0.9).edge(1, 3, 0.8).edge(2, 4, 0.9)
        # 2 has two edges, 1 has two: a cap of one cuts 1.
        rows = walk(graph.store(), "T-1", 2, degree_cap=1)
        assert [(row.node_id, row.capped) for row in rows] == [(2, True)]

    def test_exactly_the_cap_is_not_capped(self):
        graph = Building().things(1, 2, 3).edge(1, 2).edge(1, 3)
        assert not any(row.capped for row in walk(graph.store(), "T-1", degree_cap=2))

    def test_a_self_loop_counts_once(self):
        graph = Building().things(1, 2).edge(1, 1).edge(1, 2)
        assert not walk(graph.store(), "T-1", degree_cap=2)[0].capped
        assert walk(graph.store(), "T-1", degree_cap=1) == []

    def test_only_edges_of_the_relation_count(self):
        graph = Building().things(1, 2, 3).edge(1, 2, 1.0, "owns").edge(1, 3, 1.0, "knows")
        assert not walk(graph.store(), "T-1", 1, "owns", 1)[0].capped

    def test_only_edges_that_held_count(self):
        graph = Building().things(1, 2, 3).edge(1, 2)
        graph.edge(1, 3, 0.5, valid_from=PAST, valid_to=ENDED)
        assert not walk(graph.store(), "T-1", degree_cap=1)[0].capped
        assert walk(graph.store(), "T-1", degree_cap=1, as_of=THEN)[0].capped

    @pytest.fixture
    def branching(self) -> MemoryStore:
        """1 - 2 - 3 - 4 and a hub at 2 with too many edges; 1 - 5 - 6 aside."""
        graph = Building().things(*range(1, 7), 20, 21, 22)
        graph.edge(1, 2, 1.0).edge(2, 3, 1.0).edge(3, 4, 1.0).edge(1, 5, 0.5).edge(5, 6, 0.5)
        for node in (20, 21, 22):
            graph.edge(2, node, 0.01)
        return graph.store()

    def test_rows_behind_a_cut_node_are_capped_and_others_are_not(self, branching):
        rows = walk(branching, "T-1", 3, degree_cap=2)
        assert {row.node_id: row.capped for row in rows} == {
            2: True, 3: True, 4: True, 5: False, 6: False
        }  # fmt: skip

    def test_a_rows_own_node_counts_where_the_depth_expands_it(self, branching):
        rows = walk(branching, "T-1", 1, degree_cap=2)
        assert {row.node_id: row.capped for row in rows} == {2: False, 5: False}
        rows = walk(branching, "T-1", 2, degree_cap=2)
        assert row_of(rows, 2).capped

    def test_a_limit_that_stops_the_walk_early_does_not_hide_it(self, branching):
        whole = walk(branching, "T-1", 5, degree_cap=2)
        for limit in range(1, 6):
            assert walk(branching, "T-1", 5, degree_cap=2, limit=limit) == whole[:limit]
        assert walk(branching, "T-1", 5, degree_cap=2, limit=1)[0].capped


class TestAsOf:
    def test_it_walks_the_edges_that_held_then(self):
        graph = Building().things(1, 2, 3)
        graph.edge(1, 2, valid_from=PAST, valid_to=ENDED).edge(1, 3, valid_from=ENDED)
        store = graph.store()
        assert ids(walk(store, "T-1")) == [3]
        assert ids(walk(store, "T-1", as_of=THEN)) == [2]
        assert ids(walk(store, "T-1", as_of=ENDED)) == [3]

    def test_a_handle_finds_a_node_retired_since(self):
        graph = Building().node(1, retired_at=ENDED).things(2).edge(1, 2)
        assert ids(walk(graph.store(), "T-1", as_of=THEN)) == [2]

    def test_an_edge_ends_with_its_end(self):
        graph = Building().things(1).node(2, retired_at=ENDED).edge(1, 2)
        assert walk(graph.store(), "T-1") == []
        assert ids(walk(graph.store(), "T-1", as_of=THEN)) == [2]
