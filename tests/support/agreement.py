"""Three stores, one answer: the check that the property tests share."""

from __future__ import annotations

from typing import Any

import psycopg
from hypothesis import strategies as st

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.stores.client import ClientStore
from graphalgo.stores.memory import MemoryStore
from tests.support import graphs
from tests.support.engine import Bound
from tests.support.server import ServerFunctions, write_graph

CALLS_PER_GRAPH = 6


def check_agreement(connection: psycopg.Connection[Any], data: st.DataObject) -> None:
    """Write a random graph into the tables and hold the three stores to the same answers.

    The graph is rolled back at the end.
    """
    graph = data.draw(graphs.any_graphs(), label="graph")
    with connection.transaction(force_rollback=True):
        write_graph(connection, graph)
        connection.execute("set local percolate.link_judge = 'aiq.stored_link_judge'")
        stores = [
            Bound(MemoryStore.from_dict({**graph, "verdicts": graph["verdicts"] or NO_VERDICTS})),
            ServerFunctions(connection),
            Bound(ClientStore(connection)),
        ]
        for _ in range(CALLS_PER_GRAPH):
            name, arguments = data.draw(calls(graph), label="call")
            first, *others = [outcome(connection, store, name, arguments) for store in stores]
            for store, other in zip(("in the server", "over a connection"), others, strict=True):
                assert other == first, f"{store}: {other}\nin memory: {first}"


# A judge that links nothing, where the stored verdicts are none.
NO_VERDICTS = [{"node_a": 0, "node_b": 0, "confidence": 0.0, "reason": None}]


def calls(graph: dict[str, Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.one_of(
        st.tuples(st.just("iterated_join"), graphs.joins(graph)),
        st.tuples(st.just("iterated_join"), graphs.joins(graph)),
        st.tuples(st.just("iterated_join_trace"), graphs.joins(graph)),
        st.tuples(st.just("walk"), graphs.walks(graph)),
        st.tuples(st.just("lookup"), graphs.lookups()),
    )


def outcome(
    connection: psycopg.Connection[Any], algorithms: Any, name: str, arguments: dict[str, Any]
) -> Any:
    """Return the rows, or the refusal as SQLSTATE, sentence and hint."""
    try:
        with connection.transaction():
            answer = getattr(algorithms, name)(**arguments)
    except GraphAlgoError as error:
        return error.sqlstate, error.message, error.hint
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_hint
    if name == "iterated_join_trace":
        for one in answer["rounds"]:
            assert one.pop("milliseconds") >= 0
        return answer
    return [row.as_dict() for row in answer]
