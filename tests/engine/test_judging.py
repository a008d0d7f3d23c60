"""What a judge says is checked before it is walked."""

from __future__ import annotations

import math
from typing import Any

import pytest

from graphalgo.engine import iterated_join, iterated_join_trace
from graphalgo.engine.errors import MissingSetting
from tests.support.building import GOAL, Building, ids

ENDED = "2022-01-01T00:00:00+00:00"
THEN = "2021-01-01T00:00:00+00:00"


def judged(graph: Building, verdicts: list[Any], seed: str = "T-1", **arguments: Any) -> Any:
    """Join over a judge that says these verdicts of whatever it is asked."""
    store = graph.store()
    store.link_judge = lambda nodes: iter(verdicts)
    return iterated_join(store, seed, GOAL, links=["judged"], **arguments)


def test_the_path_tells_confidence_and_reason():
    (row,) = judged(Building().things(1).goals(2), [(1, 2, 0.75, "same ship")])
    assert row.score == 0.75
    assert row.path == [
        {"link": "judged", "from": 1, "to": 2, "weight": 0.75, "reason": "same ship"}
    ]


def test_a_confidence_is_a_real():
    (row,) = judged(Building().things(1).goals(2), [(1, 2, 0.1, None)])
    assert row.score == 0.10000000149011612


def test_a_verdict_is_walked_either_way():
    rows = judged(Building().things(1).goals(2, 3), [(1, 2, 0.5, "a"), (3, 1, 0.9, "b")])
    assert ids(rows) == [3, 2]
    assert [(hop["from"], hop["to"]) for row in rows for hop in row.path] == [(1, 3), (1, 2)]


@pytest.mark.parametrize(
    "verdict",
    [
        (None, 2, 0.5, "no node"),
        (1, None, 0.5, "no linked node"),
        (1, 2, None, "no confidence"),
        (1, 1, 0.5, "itself"),
        (1, 99, 0.5, "no such node"),
        (99, 2, 0.5, "no such node"),
        (1, 2, 0.0, "not linked"),
        (1, 2, -0.5, "below the range"),
        (1, 2, 1.0000001, "above the range"),
        (1, 2, math.nan, "no number"),
        (1, 2, math.inf, "no number"),
        (1, 2, 1e-300, "nothing as a real"),
        (3, 2, 0.5, "of nodes that were not asked about"),
        (1, 4, 0.5, "a retired node"),
    ],
    ids=lambda verdict: str(verdict[3]),
)
def test_what_is_no_verdict_is_dropped(verdict):
    graph = Building().things(1, 3).goals(2).node(4, GOAL, retired_at=ENDED)
    (row,) = judged(graph, [verdict])
    assert (row.resolved, row.examined, row.reason) == (False, 0, "exhausted")


@pytest.mark.parametrize("confidence", [1e-45, 1.0, 1])
def test_the_whole_range_counts(confidence):
    assert judged(Building().things(1).goals(2), [(1, 2, confidence, None)])[0].resolved


def test_what_is_dropped_takes_no_place_under_the_cap():
    verdicts = [(1, 1, 1.0, "itself"), (1, 99, 0.9, "nobody"), (1, 2, 0.5, "good")]
    rows = judged(Building().things(1).goals(2), verdicts, degree_cap=1)
    assert ids(rows) == [2]


def test_of_verdicts_as_confident_the_lower_neighbour_is_kept():
    verdicts = [(1, 3, 0.5, "b"), (1, 2, 0.5, "a")]
    assert ids(judged(Building().things(1).goals(2, 3), verdicts, degree_cap=1)) == [2]


def test_of_two_verdicts_on_a_pair_the_more_confident_is_told():
    verdicts = [(1, 2, 0.5, "less"), (2, 1, 0.9, "more")]
    (row,) = judged(Building().things(1).goals(2), verdicts)
    assert row.path[0]["reason"] == "more"


def test_a_missing_reason_reads_as_empty():
    (row,) = judged(Building().things(1).goals(2), [(1, 2, 0.5, None)])
    assert row.path[0]["reason"] == ""


def test_the_judge_is_called_once_a_round_with_the_frontier():
    graph = Building().things(1, 2, 3, 4)
    for node in (2, 3, 4):
        graph.edge(1, node)
    asked: list[list[int]] = []
    store = graph.goals(9).store()

    def judge(nodes):
        asked.append(list(nodes))
        return ()

    store.link_judge = judge
    iterated_join(store, "T-1", GOAL, links=["edge", "judged"], budget=2)
    assert asked == [[1], [2, 3], [4]]


def test_the_judge_is_not_called_for_a_refused_call():
    store = Building().things(1).goals(2).store()
    store.link_judge = pytest.fail
    with pytest.raises(Exception, match="p_budget"):
        iterated_join(store, "T-1", GOAL, links=["judged"], budget=0)


def test_a_judge_that_says_very_much_is_cut_to_the_cap():
    verdicts = [(1, node, 1 / node, None) for node in range(2, 6000)]
    graph = Building().things(1).goals(*range(2, 6000))
    rows = judged(graph, verdicts * 2, degree_cap=3)
    # Each was said twice, and each saying is a link.
    assert ids(rows) == [2, 3]
    store = graph.store()
    store.link_judge = lambda nodes: verdicts
    trace = iterated_join_trace(store, "T-1", GOAL, links=["judged"], degree_cap=10)
    assert trace["rounds"][0]["candidates"] == {"judged": 10}
    assert trace["rounds"][0]["capped"] == 1


def test_asking_for_judged_without_a_judge_is_refused_naming_the_setting():
    with pytest.raises(MissingSetting, match="percolate.link_judge"):
        iterated_join(Building().things(1).store(), "T-1", GOAL, links=["judged"])


def test_stored_verdicts_hold_only_between_nodes_that_are_not_retired():
    graph = Building().things(1).node(2, GOAL, retired_at=ENDED).goals(3)
    graph.verdict(1, 2, 1.0).verdict(1, 3, 0.5)
    for as_of in (None, THEN):
        assert ids(graph.join("T-1", ("judged",), as_of=as_of)) == [3]


def test_a_stored_confidence_of_nothing_links_nothing():
    assert not Building().things(1).goals(2).verdict(1, 2, 0.0).join("T-1", ("judged",))[0].resolved
