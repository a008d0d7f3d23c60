"""A server that is killed: what it acknowledged is there, and nothing is half there."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from graphalgo.cluster import up
from graphalgo.install import install
from tests.support.facts import Facts

WRITERS = 4
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
NEW_NODES, EDGES = 5, 9


def graph_of(memory: str) -> dict[str, Any]:
    """Return a graph with nodes of its own, a node of all, and an edge for each pair in turn."""
    nodes = [{"k": "note", "n": f"{memory} {number}"} for number in range(NEW_NODES)]
    nodes.append({"k": "note", "n": "hub"})
    pairs = [(number, NEW_NODES) for number in range(NEW_NODES)]
    pairs += [(number, number + 1) for number in range(NEW_NODES - 1)]
    return {"nodes": nodes, "edges": [{"s": s, "t": t, "r": "knows"} for s, t in pairs]}


class Writer(threading.Thread):
    """Writes graphs until the server is gone; remembers those that were acknowledged."""

    def __init__(self, dsn: str, number: int) -> None:
        super().__init__(daemon=True)
        self.dsn = dsn
        self.number = number
        self.acknowledged: list[str] = []
        self.closed: list[int] = []
        self.ended_by: BaseException | None = None

    def run(self) -> None:
        try:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                facts = Facts(connection)
                while True:
                    memory = f"{self.number}-{len(self.acknowledged)}"
                    written = facts.upsert(graph_of(memory), memory=memory)
                    self.acknowledged.append(memory)
                    facts.close(edge_id=written["edges"][0])
                    self.closed.append(written["edges"][0])
        except BaseException as error:
            self.ended_by = error


@pytest.mark.slow
def test_a_server_killed_among_writers_keeps_what_it_acknowledged(top: Path) -> None:
    cluster = up(top / "cluster", settings=DURABLE)
    install(cluster.dsn)
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        Facts(connection).prepare()
        assert Facts(connection).one("show fsync") == "on"
    writers = [Writer(cluster.dsn, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + 30
    while min(len(writer.acknowledged) for writer in writers) < 10:
        assert time.monotonic() < deadline, [writer.ended_by for writer in writers]
        time.sleep(0.05)
    os.kill(cluster.pid, signal.SIGKILL)
    for writer in writers:
        writer.join(30)
        assert isinstance(writer.ended_by, psycopg.OperationalError)

    again = up(top / "cluster")
    assert again.started_now
    with psycopg.connect(again.dsn, autocommit=True) as connection:
        check_whole(connection, {name for writer in writers for name in writer.acknowledged})
        closed = [edge for writer in writers for edge in writer.closed]
        facts = Facts(connection)
        assert facts.one(
            "select count(*) from aiq.edges where id = any (%s) and valid_to is not null", closed
        ) == len(closed)
        # And it goes on: what was cut off can be written now.
        for writer in writers:
            memory = f"{writer.number}-{len(writer.acknowledged)}"
            facts.upsert(graph_of(memory), memory=memory)
        check_whole(connection, {name for writer in writers for name in writer.acknowledged})


def check_whole(connection: psycopg.Connection[Any], acknowledged: set[str]) -> None:
    """Check that each graph is there with all its parts, or not at all."""
    assertions = dict(
        connection.execute("select memory, count(*) from aiq.edge_assertions group by 1").fetchall()
    )
    nodes = dict(
        connection.execute(
            "select split_part(n.soft_name, ' ', 1), count(*) from aiq.nodes as n"
            " join aiq.node_keys as k on k.node_id = n.id and k.key = n.soft_name"
            " where n.soft_name <> 'hub' group by 1"
        ).fetchall()
    )
    assert acknowledged <= assertions.keys()
    assert set(assertions.values()) == {EDGES}
    assert nodes.keys() == assertions.keys()
    assert set(nodes.values()) == {NEW_NODES}
    row = connection.execute(
        "select count(*), count(*) filter (where a.edge_id is null)"
        " from aiq.edges as e left join aiq.edge_assertions as a on a.edge_id = e.id"
    ).fetchone()
    assert row == (len(assertions) * EDGES, 0)
