"""The iterated join, rule by rule, on graphs small enough to work out by hand."""

from __future__ import annotations

from struct import pack, unpack

import pytest

from graphalgo.engine import iterated_join, iterated_join_trace
from tests.support.building import GOAL, Building, hops, ids

PAST = "2020-01-01T00:00:00+00:00"
THEN = "2021-01-01T00:00:00+00:00"
ENDED = "2022-01-01T00:00:00+00:00"


def as_real(value: float) -> float:
    nearest: float = unpack("<f", pack("<f", value))[0]
    return nearest


class TestRounds:
    def test_the_first_round_that_reaches_the_type_ends_the_walk(self):
        rows = (
            Building().things(1, 2).goals(3, 4)
            .edge(1, 2).edge(2, 3).edge(3, 4)
            .join("T-1", max_rounds=5)
        )  # fmt: skip
        assert ids(rows) == [3]
        assert (rows[0].resolved, rows[0].round, rows[0].hops) == (True, 2, 2)

    def test_all_of_the_type_in_one_round_are_answered_best_score_first(self):
        rows = (
            Building().things(1).goals(2, 3, 4)
            .edge(1, 2, 0.5).edge(1, 3, 0.9).edge(1, 4, 0.7)
            .join("T-1")
        )  # fmt: skip
        assert ids(rows) == [3, 4, 2]

    def test_answers_are_cut_at_the_limit_after_ordering(self):
        graph = Building().things(1).goals(2, 3, 4).edge(1, 2, 0.5).edge(1, 3, 0.9).edge(1, 4, 0.7)
        assert ids(graph.join("T-1", limit=2)) == [3, 4]

    def test_a_row_says_the_round_that_examined_it_and_the_walks_totals(self):
        graph = Building().things(1, 2, 3, 4).goals(5)
        graph.edge(1, 2, 0.9).edge(1, 3, 0.8).edge(1, 4, 0.7).edge(2, 5, 0.1)
        # Round 1 examines 2 and 3, round 2 the deferred 4 and the new 5.
        (row,) = graph.join("T-1", budget=2)
        assert (row.round, row.hops, row.examined, row.deferred) == (2, 2, 4, 0)

    def test_a_deferred_node_is_shorter_than_its_round(self):
        graph = Building().things(1, 2).goals(3).edge(1, 2, 0.9).edge(1, 3, 0.8)
        (row,) = graph.join("T-1", budget=1)
        assert (row.round, row.hops) == (2, 1)

    def test_deferred_at_the_end_are_those_still_waiting(self):
        graph = Building().things(1, 3, 4).goals(2)
        graph.edge(1, 2, 0.9).edge(1, 3, 0.8).edge(1, 4, 0.7)
        (row,) = graph.join("T-1", budget=1)
        assert (row.node_id, row.examined, row.deferred) == (2, 1, 2)

    def test_the_seed_is_never_an_answer(self):
        rows = Building().goals(1, 2).things(3).edge(1, 3).edge(3, 1).edge(3, 2).join("G-1")
        assert ids(rows) == [2]

    def test_a_seed_of_the_type_alone_reaches_nothing(self):
        (row,) = Building().goals(1).edge(1, 1).join("G-1")
        assert (row.resolved, row.reason) == (False, "exhausted")

    def test_a_soft_node_is_of_no_type_and_leads_on(self):
        graph = Building().things(1).soft(2, GOAL, "some goal").goals(3).edge(1, 2).edge(2, 3)
        (row,) = graph.join("T-1")
        assert (row.node_id, row.round) == (3, 2)

    def test_a_soft_node_can_be_the_seed(self):
        graph = Building().soft(1, "ship", "meridian dawn").goals(2).edge(2, 1)
        assert ids(graph.join("ship/meridian dawn")) == [2]
        assert ids(graph.join("soft-1")) == [2]


class TestNothingReached:
    def test_one_row_tells_the_last_round_the_counts_and_nothing_else(self):
        (row,) = Building().things(1, 2, 3).goals(9).edge(1, 2).edge(2, 3).join("T-1", max_rounds=5)
        assert row.as_dict() == {
            "resolved": False, "round": 3, "hops": None, "node_id": None, "handle": None,
            "key": None, "entity_type": None, "summary": None, "score": None, "path": None,
            "deferred": 0, "examined": 2, "reason": "exhausted",
        }  # fmt: skip

    def test_a_seed_without_links_is_exhausted_in_the_first_round(self):
        (row,) = Building().things(1).goals(2).join("T-1")
        assert (row.round, row.examined, row.reason) == (1, 0, "exhausted")

    def test_the_last_round_that_still_examined_says_max_rounds(self):
        (row,) = Building().things(1, 2, 3).edge(1, 2).edge(2, 3).join("T-1", max_rounds=2)
        assert (row.round, row.examined) == (2, 2)
        assert row.reason == "max_rounds (0 candidates still deferred)"

    def test_max_rounds_says_how_many_are_still_deferred(self):
        graph = Building().things(*range(1, 8))
        for node in range(2, 8):
            graph.edge(1, node)
        (row,) = graph.join("T-1", max_rounds=2, budget=2)
        assert (row.examined, row.deferred) == (4, 2)
        assert row.reason == "max_rounds (2 candidates still deferred)"


class TestDegreeCap:
    def test_it_keeps_the_strongest(self):
        graph = Building().things(1).goals(2, 3, 4).edge(1, 2, 0.5).edge(1, 3, 0.9).edge(4, 1, 0.7)
        assert ids(graph.join("T-1", degree_cap=2)) == [3, 4]

    def test_parallel_edges_count_each(self):
        graph = Building().things(1, 2).goals(3)
        graph.edge(1, 2, 0.9, "knows").edge(2, 1, 0.9, "knows").edge(1, 3, 0.5)
        (row,) = graph.join("T-1", degree_cap=2, max_rounds=1)
        assert (row.resolved, row.examined) == (False, 1)
        assert ids(graph.join("T-1", degree_cap=3, max_rounds=1)) == [3]

    def test_a_self_loop_counts_once_and_leads_nowhere(self):
        graph = Building().things(1).goals(2, 3).edge(1, 1, 1.0).edge(1, 2, 0.9).edge(1, 3, 0.8)
        assert ids(graph.join("T-1", degree_cap=2)) == [2]
        (row,) = graph.join("T-1", degree_cap=1)
        assert (row.examined, row.reason) == (0, "exhausted")

    def test_it_applies_before_examined_nodes_are_dropped(self):
        # Out of 2 the link back to 1 is the stronger: it takes the only place.
        graph = Building().things(1, 2).goals(3).edge(1, 2, 0.9).edge(2, 3, 0.5)
        (row,) = graph.join("T-1", degree_cap=1)
        assert (row.resolved, row.examined, row.reason) == (False, 1, "exhausted")
        assert ids(graph.join("T-1", degree_cap=2)) == [3]

    def test_it_is_for_each_node_and_link_kind(self):
        graph = Building().things(1).goals(2, 3).edge(1, 2, 0.9).code("k-1", 1, 3)
        assert ids(graph.join("T-1", ("edge", "shared_key"), degree_cap=1)) == [3, 2]

    @pytest.mark.parametrize(
        ("cut", "kept"),
        [
            # (to, relation, out before in, edge id) of the weaker and of the stronger.
            ((3, "Zebra", True, 1), (2, "part_of", False, 2)),
            ((2, "part_of", True, 1), (2, "knows", False, 2)),
            ((2, "knows", True, 1), (2, "Zebra", False, 2)),
            ((2, "éclair", True, 1), (2, "part_of", False, 2)),
            ((2, "knows", False, 1), (2, "knows", True, 2)),
        ],
        ids=["neighbour", "relation", "relation by code point", "accents last", "out before in"],
    )
    def test_ties_are_cut_in_order(self, cut, kept):
        """Of two links of one weight a cap of one keeps the first in order."""
        graph = Building().things(1).goals(2, 3)
        for node, relation, out, edge_id in (cut, kept):
            ends = (1, node) if out else (node, 1)
            graph.edge(*ends, 0.5, relation, edge_id)
        node, relation, out, _ = kept
        (row,) = graph.join("T-1", degree_cap=1)
        assert row.path == [
            {"link": "edge", "from": 1, "to": node, "weight": 0.5, "relation": relation,
             "direction": "out" if out else "in"}
        ]  # fmt: skip

    def test_weights_are_compared_before_neighbours(self):
        graph = Building().things(1).goals(2, 3).edge(1, 2, 0.5).edge(1, 3, 0.5000001)
        assert ids(graph.join("T-1", degree_cap=1)) == [3]

    def test_of_shared_keys_those_with_fewest_holders_are_kept(self):
        graph = Building().things(1, 5, 6).goals(2, 3, 4)
        graph.code("three-hold-it", 1, 2, 5).code("two-hold-it", 1, 4).code("four", 1, 3, 5, 6)
        assert ids(graph.join("T-1", ("shared_key",), degree_cap=1)) == [4]

    def test_of_one_number_of_holders_the_lower_neighbours_are_kept(self):
        graph = Building().things(1).goals(2, 3, 4).code("key", 4, 3, 1, 2)
        assert ids(graph.join("T-1", ("shared_key",), degree_cap=2)) == [2, 3]

    def test_of_similar_names_the_most_similar_are_kept(self):
        graph = Building().node(1, "thing", "meridian dawn")
        graph.node(2, GOAL, "meridian down").node(3, GOAL, "meridian dawns")
        assert ids(graph.join("T-1", ("similar",), similarity=0.5, degree_cap=1)) == [3]

    def test_of_judged_links_the_most_confident_are_kept(self):
        graph = Building().things(1).goals(2, 3, 4)
        graph.verdict(1, 2, 0.5).verdict(1, 3, 0.6).verdict(1, 4, 0.6)
        assert ids(graph.join("T-1", ("judged",), degree_cap=2)) == [3, 4]


class TestBudget:
    def test_it_defers_and_never_drops(self):
        graph = Building().things(1, 2, 3, 4).goals(5)
        graph.edge(1, 2, 0.9).edge(1, 3, 0.8).edge(1, 4, 0.7).edge(1, 5, 0.6)
        for rounds in (1, 2, 3):
            (row,) = graph.join("T-1", budget=1, max_rounds=rounds)
            assert (row.resolved, row.deferred) == (False, 4 - rounds)
        (row,) = graph.join("T-1", budget=1, max_rounds=4)
        assert (row.node_id, row.round, row.hops, row.examined) == (5, 4, 1, 4)

    def test_the_deferred_are_examined_before_better_new_candidates(self):
        # Round 1 examines 2 and defers 3; in round 2 the new 4 has the better score.
        graph = Building().things(1, 2, 3, 4).edge(1, 2, 1.0).edge(1, 3, 0.1).edge(2, 4, 1.0)
        search = graph.search("T-1", budget=1, max_rounds=2)
        assert list(search.reached) == [1, 2, 3]
        assert search.deferred == 1

    def test_the_deferred_keep_the_order_in_which_they_came(self):
        graph = Building().things(*range(1, 9))
        graph.edge(1, 2, 1.0).edge(1, 3, 0.3).edge(1, 4, 0.2)
        graph.edge(2, 5, 0.9).edge(2, 6, 0.8)
        search = graph.search("T-1", budget=1, max_rounds=5)
        assert list(search.reached) == [1, 2, 3, 4, 5, 6]

    def test_a_waiting_node_gets_a_better_path_and_keeps_its_place(self):
        # 4 waits behind 3 with 0.1; the path over 2 is the better, 3 still comes first.
        graph = Building().things(1, 2, 3).goals(4)
        graph.edge(1, 2, 1.0).edge(1, 3, 0.2).edge(1, 4, 0.1).edge(2, 4, 0.9)
        (row,) = graph.join("T-1", budget=1)
        assert (row.round, row.hops, row.score) == (3, 2, as_real(0.9))
        assert hops(row) == [(1, 2), (2, 4)]

    def test_a_waiting_node_keeps_its_path_where_the_new_one_is_no_better(self):
        graph = Building().things(1, 2).goals(3)
        graph.edge(1, 2, 1.0, "knows").edge(1, 3, 0.5, "owns").edge(2, 3, 0.5, "knows")
        (row,) = graph.join("T-1", budget=1)
        # One score, and the shorter path wins.
        assert (row.round, row.hops, hops(row)) == (2, 1, [(1, 3)])

    def test_what_was_cut_back_and_comes_again_is_counted_once(self, monkeypatch):
        """A node cut back as out of reach returns by a better link of the same round."""
        monkeypatch.setattr("graphalgo.engine.join.PRUNE_SLACK", 0)
        graph = Building().things(*range(1, 9)).code("shared", 1, 8)
        for node in range(2, 9):
            graph.edge(1, node, 1 - node / 10)
        (row,) = graph.join("T-1", ("edge", "shared_key"), budget=1, max_rounds=1)
        assert (row.examined, row.deferred) == (1, 6)
        search = graph.search("T-1", ("edge", "shared_key"), budget=1, max_rounds=1)
        assert list(search.reached) == [1, 8]


class TestScores:
    def test_it_is_the_product_of_reals_as_doubles_in_path_order(self):
        graph = Building().things(1, 2, 3, 4).goals(5)
        graph.edge(1, 2, 0.03).edge(2, 3, 0.03).edge(3, 4, 0.05).edge(4, 5, 0.07)
        (row,) = graph.join("T-1", max_rounds=4)
        first, second, third, fourth = (as_real(weight) for weight in (0.03, 0.03, 0.05, 0.07))
        assert row.score == first * second * third * fourth
        # The case can tell it from the product of doubles and from another order.
        assert row.score != 0.03 * 0.03 * 0.05 * 0.07
        assert row.score != fourth * third * second * first
        assert [hop["weight"] for hop in row.path] == [first, second, third, fourth]

    def test_the_best_of_several_paths_is_kept_though_it_comes_later(self):
        graph = Building().things(1, 2, 3).goals(4)
        graph.edge(1, 2, 0.5).edge(1, 3, 1.0).edge(2, 4, 1.0).edge(3, 4, 0.9)
        (row,) = graph.join("T-1")
        assert (hops(row), row.score) == ([(1, 3), (3, 4)], as_real(0.9))

    def test_of_one_score_the_fewest_hops_win(self):
        # 5 waits from round 1 on and comes again over 2 and over 3 in round 2.
        graph = Building().things(1, 2, 3, 4).goals(5)
        graph.edge(1, 2, 1.0).edge(1, 3, 1.0).edge(1, 4, 0.9).edge(1, 5, 0.5)
        graph.edge(2, 5, 0.5).edge(3, 5, 0.5)
        (row,) = graph.join("T-1", budget=2)
        assert hops(row) == [(1, 5)]

    @pytest.mark.parametrize(
        ("links", "won"),
        [
            (("edge", "shared_key", "similar", "judged"), "edge"),
            (("judged", "similar", "shared_key"), "shared_key"),
            (("judged", "similar"), "similar"),
            (("judged",), "judged"),
        ],
    )
    def test_of_one_score_and_length_the_link_kinds_come_in_their_order(self, links, won):
        # Four links of weight 1: "c" and "c++" have the same trigrams.
        graph = Building().node(1, "thing", "c").node(2, GOAL, "c++")
        graph.edge(2, 1).code("k", 1, 2).verdict(1, 2, 1.0)
        (row,) = graph.join("T-1", links)
        assert [hop["link"] for hop in row.path] == [won]

    def test_of_one_score_the_lower_neighbour_is_examined_first(self):
        graph = Building().things(1, 4, 3, 2).edge(1, 4).edge(1, 2).edge(1, 3)
        assert list(graph.search("T-1").reached) == [1, 2, 3, 4]

    def test_the_link_kind_comes_before_the_neighbour(self):
        graph = Building().things(1, 2, 3).code("k", 1, 2).edge(1, 3)
        assert list(graph.search("T-1", ("edge", "shared_key")).reached) == [1, 3, 2]

    def test_of_one_neighbour_the_lower_from_id_wins_before_the_relation(self):
        graph = Building().things(1, 2, 3).goals(4).edge(1, 3).edge(1, 2)
        graph.edge(3, 4, 0.5, "knows").edge(2, 4, 0.5, "part_of")
        (row,) = graph.join("T-1")
        assert hops(row) == [(1, 2), (2, 4)]
        assert row.path[-1]["relation"] == "part_of"

    @pytest.mark.parametrize("first", ["knows", "part_of"])
    def test_of_parallel_edges_the_least_relation_is_told(self, first):
        second = {"knows": "part_of", "part_of": "knows"}[first]
        graph = Building().things(1).goals(2).edge(1, 2, 0.5, first).edge(1, 2, 0.5, second)
        (row,) = graph.join("T-1")
        assert row.path[0]["relation"] == "knows"

    def test_of_parallel_edges_of_one_relation_out_is_told_before_in(self):
        graph = Building().things(1).goals(2).edge(2, 1, 0.5).edge(1, 2, 0.5)
        (row,) = graph.join("T-1")
        assert row.path[0]["direction"] == "out"

    def test_of_parallel_edges_the_heavier_is_told(self):
        graph = Building().things(1).goals(2).edge(1, 2, 0.5, "knows").edge(2, 1, 0.6, "owns")
        (row,) = graph.join("T-1")
        assert (row.path[0]["relation"], row.path[0]["weight"]) == ("owns", as_real(0.6))

    def test_answers_of_one_score_come_by_link_and_id(self):
        graph = Building().things(1, 2, 4).goals(7, 6, 5)
        graph.edge(1, 2).edge(2, 7, 0.5).edge(2, 6, 0.5).code("k", 2, 5, 4)
        assert ids(graph.join("T-1", ("edge", "shared_key"))) == [6, 7, 5]

    def test_answers_of_one_score_come_by_hops_before_id(self):
        # 9 waited for the second round, in which 5 is reached by two hops.
        graph = Building().things(1, 2, 3).goals(5, 9)
        graph.edge(1, 2).edge(1, 3, 0.9).edge(1, 9, 0.5).edge(2, 5, 0.5)
        rows = graph.join("T-1", budget=2)
        assert ids(rows) == [9, 5]
        assert [row.score for row in rows] == [0.5, 0.5]


class TestEdges:
    def test_they_are_walked_either_way(self):
        graph = Building().things(1, 2).goals(3).edge(2, 1).edge(2, 3)
        (row,) = graph.join("T-1")
        assert [hop["direction"] for hop in row.path] == ["in", "out"]

    def test_relations_narrow_every_hop(self):
        graph = Building().things(1, 2).goals(3).edge(1, 2, 1.0, "owns").edge(2, 3, 1.0, "knows")
        assert ids(graph.join("T-1", relations=["owns", "knows"])) == [3]
        for relation in ("owns", "knows"):
            assert not graph.join("T-1", relations=[relation])[0].resolved

    def test_relations_narrow_before_the_cap(self):
        graph = Building().things(1).goals(2, 3).edge(1, 2, 0.9, "owns").edge(1, 3, 0.1, "knows")
        assert ids(graph.join("T-1", relations=["knows"], degree_cap=1)) == [3]

    def test_relations_narrow_what_a_path_tells(self):
        graph = Building().things(1).goals(2).edge(1, 2, 0.5, "knows").edge(1, 2, 0.5, "owns")
        (row,) = graph.join("T-1", relations=["owns"])
        assert row.path[0]["relation"] == "owns"

    def test_relations_do_not_narrow_other_links(self):
        graph = Building().things(1).goals(2).code("k", 1, 2)
        assert ids(graph.join("T-1", ("edge", "shared_key"), relations=["owns"])) == [2]

    def test_only_those_that_hold_now_are_walked(self):
        future = "2999-01-01T00:00:00+00:00"
        graph = Building().things(1).goals(2, 3, 4, 5)
        graph.edge(1, 2, valid_from=PAST, valid_to=ENDED)
        graph.edge(1, 3, valid_from=future)
        graph.edge(1, 4, valid_from=PAST, valid_to=future)
        graph.edge(1, 5, valid_from=PAST)
        assert ids(graph.join("T-1")) == [4, 5]

    def test_as_of_walks_those_that_held_then(self):
        graph = Building().things(1).goals(2, 3, 4)
        graph.edge(1, 2, valid_from=PAST, valid_to=ENDED)
        graph.edge(1, 3, valid_from=ENDED)
        graph.edge(1, 4)
        assert ids(graph.join("T-1", as_of=THEN)) == [2, 4]

    def test_a_period_holds_from_its_start_until_before_its_end(self):
        graph = Building().things(1).goals(2).edge(1, 2, valid_from=PAST, valid_to=ENDED)
        assert graph.join("T-1", as_of=PAST)[0].resolved
        assert not graph.join("T-1", as_of=ENDED)[0].resolved

    def test_as_of_tells_the_edge_that_held_then(self):
        graph = Building().things(1).goals(2)
        graph.edge(1, 2, 0.5, "knows", valid_from=ENDED)
        graph.edge(1, 2, 0.5, "owns", valid_from=PAST, valid_to=ENDED)
        (row,) = graph.join("T-1", as_of=THEN)
        assert row.path[0]["relation"] == "owns"

    def test_a_retired_node_is_reached_only_as_of_before(self):
        graph = Building().things(1).node(2, GOAL, retired_at=ENDED).edge(1, 2)
        assert not graph.join("T-1")[0].resolved
        (row,) = graph.join("T-1", as_of=THEN)
        assert (row.node_id, row.handle) == (2, "G-2")


class TestSharedKeys:
    def test_the_weight_is_one_over_the_other_holders(self):
        graph = Building().things(1, 3, 4).goals(2).code("k", 1, 2, 3, 4)
        (row,) = graph.join("T-1", ("shared_key",))
        assert row.score == as_real(1 / 3)
        assert row.path == [
            {"link": "shared_key", "from": 1, "to": 2, "weight": as_real(1 / 3), "key": "k"}
        ]

    def test_one_link_a_neighbour_over_the_key_with_fewest_holders(self):
        graph = Building().things(1, 3).goals(2).code("a", 1, 2, 3).code("z", 1, 2)
        (row,) = graph.join("T-1", ("shared_key",), degree_cap=1)
        assert (row.path[0]["key"], row.score) == ("z", 1.0)
        trace = iterated_join_trace(graph.store(), "T-1", GOAL, links=["shared_key"])
        assert trace["rounds"][0]["candidates"] == {"shared_key": 2}

    def test_of_keys_with_as_few_holders_the_least_by_code_point(self):
        graph = Building().things(1).goals(2).code("é", 1, 2).code("z", 1, 2)
        (row,) = graph.join("T-1", ("shared_key",))
        assert row.path[0]["key"] == "z"

    def test_names_are_keys_too_whatever_their_kind(self):
        graph = Building().node(1, "thing", "same name").goals(2).key(2, "same name", "alias")
        assert ids(graph.join("T-1", ("shared_key",))) == [2]

    def test_a_soft_node_holds_its_bare_name(self):
        graph = Building().soft(1, "ship", "meridian dawn").node(2, GOAL, "meridian dawn")
        (row,) = graph.join("soft-1", ("shared_key",))
        assert row.path[0]["key"] == "meridian dawn"

    def test_a_soft_node_does_not_hold_its_kind_and_name(self):
        graph = Building().soft(1, "ship", "dawn").node(2, GOAL, "ship/dawn")
        assert not graph.join("soft-1", ("shared_key",))[0].resolved

    def test_retired_holders_do_not_count(self):
        graph = Building().things(1).goals(2).node(3, retired_at=ENDED).code("k", 1, 2, 3)
        assert graph.join("T-1", ("shared_key",))[0].score == 1.0
        # Keys have no past.
        assert graph.join("T-1", ("shared_key",), as_of=THEN)[0].score == 1.0

    def test_a_retired_node_holds_no_key_in_the_past_either(self):
        graph = Building().node(1, retired_at=ENDED).goals(2, 3).code("k", 1, 2)
        graph.edge(1, 3, 0.5)
        assert ids(graph.join("T-1", ("edge", "shared_key"), as_of=THEN)) == [3]


class TestSimilarNames:
    def test_the_path_tells_both_names_and_their_similarity(self):
        graph = Building().node(1, "thing", "meridian dawn").node(2, GOAL, "meridien dawn")
        (row,) = graph.join("T-1", ("similar",), similarity=0.5)
        (hop,) = row.path
        assert hop["names"] == ["meridian dawn", "meridien dawn"]
        assert hop["weight"] == row.score == as_real(hop["weight"])
        assert 0.5 <= row.score < 1

    def test_the_threshold_decides_as_a_real(self):
        # Similarity 7/10: the real nearest to 0.7 is below the double 0.7.
        graph = Building().node(1, "thing", "abcdef").node(2, GOAL, "abcdef xy")
        assert ids(graph.join("T-1", ("similar",), similarity=0.7)) == [2]
        assert as_real(0.7) < 0.7
        assert not graph.join("T-1", ("similar",), similarity=0.7000001)[0].resolved

    def test_identical_names_are_no_similar_link(self):
        graph = Building().node(1, "thing", "meridian dawn").node(2, GOAL, "Meridian  Dawn")
        assert not graph.join("T-1", ("similar",), similarity=0.1)[0].resolved
        assert ids(graph.join("T-1", ("shared_key",))) == [2]

    def test_of_several_pairs_the_most_similar_different_one(self):
        graph = Building().node(1, "thing", "meridian dawn", "meridian star")
        graph.node(2, GOAL, "meridian dawn", "meridian stars")
        (row,) = graph.join("T-1", ("similar",), similarity=0.3)
        assert row.path[0]["names"] == ["meridian star", "meridian stars"]

    def test_of_pairs_as_similar_the_least_names(self):
        # "c", "c++" and "c#" have one set of trigrams.
        graph = Building().node(1, "thing", "c++", "c#").node(2, GOAL, "c?", "c")
        (row,) = graph.join("T-1", ("similar",))
        assert (row.path[0]["names"], row.score) == (["c#", "c"], 1.0)

    def test_codes_are_never_compared(self):
        graph = Building().things(1).goals(2).code("9331802", 1).code("9331803", 2)
        assert not graph.join("T-1", ("similar",), similarity=0.1)[0].resolved
        graph = Building().things(1).code("9331802", 1).node(2, GOAL, "9331803")
        assert not graph.join("T-1", ("similar",), similarity=0.1)[0].resolved

    def test_soft_nodes_are_similar_by_their_bare_name(self):
        graph = Building().soft(1, "ship", "meridien dawn").node(2, GOAL, "meridian dawn")
        (row,) = graph.join("soft-1", ("similar",), similarity=0.5)
        assert row.path[0]["names"] == ["meridien dawn", "meridian dawn"]

    def test_every_name_over_the_threshold_is_linked(self):
        graph = Building().node(1, "thing", "meridian dawn")
        for node in range(2, 40):
            graph.node(node, GOAL, f"meridian dawn {node}")
        assert len(graph.join("T-1", ("similar",))) == 38

    def test_retired_nodes_have_no_names(self):
        graph = Building().node(1, "thing", "meridian dawn")
        graph.node(2, GOAL, "meridien dawn", retired_at=ENDED)
        for as_of in (None, THEN):
            row = graph.join("T-1", ("similar",), similarity=0.3, as_of=as_of)[0]
            assert not row.resolved


class TestTrace:
    def test_it_tells_each_round(self):
        graph = Building().things(1, 2, 3).goals(4)
        graph.edge(1, 2, 0.9).edge(1, 3, 0.8).edge(1, 1, 0.1).edge(2, 4, 0.5)
        trace = iterated_join_trace(
            graph.store(), "T-1", GOAL, links=["shared_key", "edge"], budget=1, degree_cap=2
        )
        milliseconds = [one.pop("milliseconds") for one in trace["rounds"]]
        assert all(isinstance(one, float) and one >= 0 for one in milliseconds)
        assert trace == {
            "seed": {"node_id": 1, "handle": "T-1", "key": None},
            "target_type": GOAL,
            "links": ["edge", "shared_key"],
            "rounds": [
                {"round": 1, "frontier": 1, "candidates": {"edge": 2, "shared_key": 0},
                 "examined": 1, "deferred": 1, "capped": 1, "capped_nodes": ["T-1"]},
                {"round": 2, "frontier": 1, "candidates": {"edge": 1, "shared_key": 0},
                 "examined": 1, "deferred": 1, "capped": 0, "capped_nodes": []},
                {"round": 3, "frontier": 1, "candidates": {"edge": 0, "shared_key": 0},
                 "examined": 1, "deferred": 0, "capped": 0, "capped_nodes": []},
            ],
            "resolved": True, "reason": None, "examined": 3, "deferred": 0, "answers": 1,
        }  # fmt: skip

    def test_it_says_why_nothing_was_reached(self):
        trace = iterated_join_trace(Building().things(1).goals(2).store(), "T-1", GOAL)
        assert (trace["resolved"], trace["reason"], trace["answers"]) == (False, "exhausted", 0)
        assert len(trace["rounds"]) == 1

    def test_it_counts_the_capped_nodes_and_names_ten(self):
        graph = Building().things(1, *range(10, 25))
        for node in range(10, 25):
            graph.edge(1, node).edge(node, node, 0.5)
        trace = iterated_join_trace(graph.store(), "T-1", GOAL, links=["edge"], degree_cap=100)
        assert trace["rounds"][1]["capped"] == 0
        for node in range(10, 25):
            for other in range(10, 25):
                graph.edge(node, other, 0.25, "owns")
        trace = iterated_join_trace(graph.store(), "T-1", GOAL, links=["edge"], degree_cap=20)
        assert trace["rounds"][1]["capped"] == 15
        assert trace["rounds"][1]["capped_nodes"] == [f"T-{node}" for node in range(10, 20)]


def test_a_store_may_be_asked_again_and_again():
    graph = Building().things(1).goals(2).edge(1, 2)
    store = graph.store()
    first = iterated_join(store, "T-1", GOAL)
    assert iterated_join(store, "T-1", GOAL) == first
