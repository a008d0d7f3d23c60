"""The name-lookup cascade, stage by stage."""

from __future__ import annotations

from struct import pack, unpack

import pytest

from graphalgo.engine import lookup
from graphalgo.engine.lookup import BLOCK_ROWS
from tests.support.building import Building, ids

RETIRED = "2022-01-01T00:00:00+00:00"


def matches(rows):
    return [(row.input_key, row.node_id, row.key, row.match_kind) for row in rows]


def test_a_row_tells_all_of_its_node():
    graph = Building().node(1, "thing", "a first name").key(1, "short name", "short")
    graph.nodes[-1]["summary"] = "A summary"
    (row,) = lookup(graph.store(), ["SHORT  name"])
    assert row.as_dict() == {
        "input_key": "SHORT  name", "node_id": 1, "handle": "T-1", "key": "short name",
        "entity_type": "thing", "summary": "A summary", "match_kind": "short", "score": 1.0,
    }  # fmt: skip


def test_a_canonical_key_ends_the_cascade():
    graph = Building().node(1, "thing", "dawn").things(2, 3)
    graph.key(2, "dawn", "short").key(3, "dawn", "alias").soft(4, "ship", "dawn")
    assert matches(lookup(graph.store(), ["dawn"], True)) == [("dawn", 1, "dawn", "canonical")]


def test_short_keys_and_aliases_are_one_stage():
    graph = Building().things(1, 2, 3).key(3, "dawn", "short").key(2, "dawn", "alias")
    graph.soft(4, "ship", "dawn").node(5, "thing", "dawns")
    assert matches(lookup(graph.store(), ["dawn"], True)) == [
        ("dawn", 2, "dawn", "alias"),
        ("dawn", 3, "dawn", "short"),
    ]


def test_soft_nodes_come_only_where_no_typed_node_has_the_name():
    graph = Building().soft(4, "tug", "dawn").soft(5, "ship", "dawn").node(6, "thing", "dawns")
    assert matches(lookup(graph.store(), ["dawn"], True)) == [
        ("dawn", 5, "ship/dawn", "soft"),
        ("dawn", 4, "tug/dawn", "soft"),
    ]


def test_kind_and_name_find_a_soft_node():
    graph = Building().soft(4, "tug", "dawn").soft(5, "ship", "dawn")
    assert matches(lookup(graph.store(), ["Tug/Dawn"])) == [("Tug/Dawn", 4, "tug/dawn", "soft")]


class TestFuzzy:
    @pytest.fixture
    def graph(self) -> Building:
        graph = Building().node(1, "thing", "meridian dawn").node(2, "goal", "meridian star")
        return graph.soft(3, "ship", "meridian down").code("meridian dawn 7", 2)

    def test_only_when_asked(self, graph):
        assert lookup(graph.store(), ["meridian dwan"]) == []

    def test_typed_nodes_names_the_most_similar_first(self, graph):
        rows = lookup(graph.store(), ["meridian dwan"], True)
        assert matches(rows) == [
            ("meridian dwan", 1, "meridian dawn", "fuzzy"),
            ("meridian dwan", 2, "meridian star", "fuzzy"),
        ]
        assert 0.3 <= rows[1].score < rows[0].score < 1

    def test_scores_are_reals(self, graph):
        for row in lookup(graph.store(), ["meridian dwan"], True):
            assert unpack("<f", pack("<f", row.score)) == (row.score,)

    def test_each_node_once_with_its_most_similar_name(self):
        graph = Building().node(1, "thing", "meridian star", "meridian dawn", "dawn")
        (row,) = lookup(graph.store(), ["meridian dwan"], True)
        assert row.key == "meridian dawn"

    def test_ties_by_key_then_id(self):
        # "c", "c#" and "c++" have one set of trigrams.
        graph = Building().node(1, "thing", "c++").node(3, "thing", "c#").node(2, "thing", "c#")
        graph.node(4, "thing", "c++", "c!")
        rows = lookup(graph.store(), ["c"], True)
        assert [(row.key, row.node_id) for row in rows] == [
            ("c!", 4), ("c#", 2), ("c#", 3), ("c++", 1),
        ]  # fmt: skip
        assert {row.score for row in rows} == {1.0}

    def test_less_than_three_tenths_is_nothing(self):
        graph = Building().node(1, "thing", "meridian dawn")
        assert lookup(graph.store(), ["bulk harmony"], True) == []


class TestManyKeys:
    def test_each_key_has_a_cascade_of_its_own(self):
        graph = Building().node(1, "thing", "dawn").soft(2, "ship", "dusk").node(3, "thing", "noon")
        rows = lookup(graph.store(), ["dusk", "dawns", "dawn"], True)
        assert matches(rows) == [
            ("dusk", 2, "ship/dusk", "soft"),
            ("dawns", 1, "dawn", "fuzzy"),
            ("dawn", 1, "dawn", "canonical"),
        ]

    def test_the_limit_is_for_each_key(self):
        graph = Building()
        for node in range(1, 20):
            graph.node(node, "thing", "dawn", "dusk")
        rows = lookup(graph.store(), ["dusk", "dawn"], limit=3)
        assert ids(rows) == [1, 2, 3, 1, 2, 3]
        assert len(lookup(graph.store(), ["dawn"])) == 10

    def test_a_key_that_is_given_twice_is_answered_twice(self):
        store = Building().node(1, "thing", "dawn").store()
        assert matches(lookup(store, ["dawn", " DAWN "])) == [
            ("dawn", 1, "dawn", "canonical"), (" DAWN ", 1, "dawn", "canonical"),
        ]  # fmt: skip

    @pytest.mark.parametrize("keys", [[], [""], ["  "], ["nothing like it"]])
    def test_what_finds_nothing_has_no_row(self, keys):
        assert lookup(Building().node(1, "thing", "dawn").store(), keys, True) == []


def test_retired_nodes_are_not_found():
    graph = Building().node(1, "thing", "dawn", retired_at=RETIRED)
    graph.soft(2, "ship", "dawn", retired_at=RETIRED)
    assert lookup(graph.store(), ["dawn", "ship/dawn", "dawns"], True) == []


def test_a_handle_is_no_key():
    assert lookup(Building().node(1, "thing", "dawn").store(), ["T-1"]) == []


def test_an_interrupt_strikes_between_blocks_of_many_rows():
    """Whatever the store shows without being asked once more."""
    graph = Building()
    for number in range(1, BLOCK_ROWS + 2):
        graph.node(number, "thing", "everybody")
    store = graph.store()

    class Cancelled(Exception):
        pass

    def cancel():
        raise Cancelled

    store.check_interrupts = cancel
    assert len(lookup(store, ["everybody"], limit=BLOCK_ROWS)) == BLOCK_ROWS
    with pytest.raises(Cancelled):
        lookup(store, ["everybody"], limit=BLOCK_ROWS + 1)
    with pytest.raises(Cancelled):
        lookup(store, ["nobody"] * (BLOCK_ROWS + 1))
