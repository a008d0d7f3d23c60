"""Cases that several benchmarks measure: calls of the SQL functions, of peers, of the bare SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.generators import Graph
from benchmarks.measuring import Case
from benchmarks.replay import RecordingStore, Replay, ServerSide, Statement, recorded
from benchmarks.server import caller
from graphalgo.engine import iterated_join, walk

WALK = "select * from aiq.walk(%(handle)s, %(depth)s, null, %(cap)s, %(limit)s)"
JOIN = (
    "select * from aiq.iterated_join(p_seed => %(handle)s, p_target_type => %(target)s,"
    " p_max_rounds => %(rounds)s, p_links => %(links)s, p_budget => %(budget)s,"
    " p_degree_cap => %(cap)s, p_limit => %(limit)s)"
)
CAP = 100
NEVER_CUTS = 1_000_000


def statement(
    dsn: str, text: str, graph: Graph, timeout: str = "60s", **parameters: Any
) -> Case[int]:
    """A statement from a connection of its own, called with a node; all rows are fetched."""
    connection = caller(dsn, timeout)

    def run(node: int) -> None:
        found = {**parameters, "node": node, "handle": graph.handle(node)}
        connection.execute(text, found, prepare=True).fetchall()

    return run


def walk_on_server(dsn: str, graph: Graph, depth: int, limit: int, cap: int = CAP) -> Case[int]:
    """``aiq.walk`` by the server's clock: without the connection and the fetching."""
    measured = ServerSide(
        caller(dsn), "aiq.walk($1, $2, null, $3, $4)", ("text", "int", "int", "int")
    )
    return lambda node: measured.run(graph.handle(node), depth, cap, limit)


def walk_statements(dsn: str, graph: Graph, depth: int, limit: int, cap: int = CAP) -> Case[int]:
    """The statements of ``aiq.walk`` alone, by the server's clock."""
    return _replayed(
        dsn, lambda store, node: recorded(store, walk, graph.handle(node), depth, None, cap, limit)
    )


def join_on_server(
    dsn: str, graph: Graph, target: str, links: Sequence[str], rounds: int = 3
) -> Case[int]:
    """``aiq.iterated_join`` by the server's clock."""
    measured = ServerSide(
        caller(dsn), "aiq.iterated_join($1, $2, $3, $4)", ("text", "text", "int", "text[]")
    )
    return lambda node: measured.run(graph.handle(node), target, rounds, list(links))


def join_statements(
    dsn: str, graph: Graph, target: str, links: Sequence[str], rounds: int = 3
) -> Case[int]:
    """The statements of ``aiq.iterated_join`` alone, by the server's clock."""
    return _replayed(
        dsn,
        lambda store, node: recorded(
            store, iterated_join, graph.handle(node), target, rounds, list(links)
        ),
    )


def _replayed(dsn: str, record: Callable[[RecordingStore, int], list[Statement]]) -> Case[int]:
    store = RecordingStore(caller(dsn))
    replay = Replay(caller(dsn))
    known: dict[int, list[Statement]] = {}

    def run(node: int) -> float:
        if node not in known:
            known[node] = record(store, node)
        return replay.run(known[node])

    return run
