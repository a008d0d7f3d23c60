"""The iterated join answers what a plain rendering of its rules answers."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphalgo.engine import join
from graphalgo.stores import memory
from graphalgo.stores.memory import MemoryStore
from tests.support import graphs
from tests.support.agreement import NO_VERDICTS
from tests.support.engine import Bound
from tests.support.oracle import Oracle

ACCOUNT = ("round", "frontier", "candidates", "examined", "deferred", "capped")


def hold_to_the_rules(data: st.DataObject, **given_arguments: st.SearchStrategy[Any]) -> None:
    """Draw a graph and a join, and hold rows and trace to the oracle's."""
    graph = data.draw(graphs.any_graphs(), label="graph")
    arguments = data.draw(graphs.joins(graph), label="arguments")
    arguments |= data.draw(st.fixed_dictionaries(given_arguments), label="given")
    twin = Bound(MemoryStore.from_dict({**graph, "verdicts": graph["verdicts"] or NO_VERDICTS}))
    handle = arguments.pop("seed")
    seed = int(handle.partition("-")[2])
    retired = next(node for node in graph["nodes"] if node["id"] == seed)["retired_at"]
    if retired is not None and (arguments["as_of"] is None or arguments["as_of"] >= retired):
        return
    expected, account = Oracle(graph).iterated_join(seed, **arguments)
    rows = [row.as_dict() for row in twin.iterated_join(handle, **arguments)]
    assert [_only(row, one) for row, one in zip(rows, expected, strict=True)] == expected
    trace = twin.iterated_join_trace(handle, **arguments)
    assert [{name: one[name] for name in ACCOUNT} for one in trace["rounds"]] == account
    assert trace["answers"] == len([row for row in expected if row["resolved"]])


def _only(row: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The columns that are wanted; the others must be null but for the summary."""
    others = {name for name, value in row.items() if value is not None and name not in wanted}
    assert others <= {"summary"}, others
    return {name: row[name] for name in wanted}


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rows_and_trace_are_those_of_the_rules(data):
    hold_to_the_rules(data)


@pytest.mark.parametrize("block", [1, 5])
def test_cutting_back_candidates_changes_nothing(block):
    """The engine drops candidates that no round can examine; here at every block of links."""

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data):
        hold_to_the_rules(
            data,
            links=st.just(["edge", "shared_key", "similar", "judged"]),
            similarity=st.just(0.1),
            max_rounds=st.integers(1, 3),
            budget=st.integers(1, 2),
            degree_cap=st.sampled_from([3, 100]),
        )

    with patch.object(join, "PRUNE_SLACK", 0), patch.object(memory, "BLOCK_LINKS", block):
        check()
