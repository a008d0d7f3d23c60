"""What row security costs a walk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.generators import Graph
from benchmarks.measuring import Timings
from benchmarks.results import Bound, Section
from benchmarks.server import Connection, caller, superuser
from benchmarks.suite.calls import CAP, WALK

MOST = 1.6
# Row security is a property of the tables, so the cases take turns by the block, not the call.
ROUNDS, WARM = 5, 10
ORGANISATIONS = 50
TABLES = ("nodes", "node_keys", "edges")
ON, OFF = "row security on", "row security off"
MEMBER = "row security on, a member of one organisation of 50"
MEMBER_OF_ALL = "row security on, a member of all 50"


def run(bench: Bench) -> Section:
    """Measure depth-3 walks with row security and without, on shared rows and on tenants'."""
    section = Section("row_security", "depth-3 walks (cap 100) with row security and without")
    profile = bench.profile
    shared = bench.main_graph()
    tenants = bench.graph("power_law", profile.nodes, profile.edges, organisations=ORGANISATIONS)
    for name, graph, callers in (
        ("everyone's", shared, {ON: 0}),
        ("of 50 organisations", tenants, {MEMBER_OF_ALL: 0, MEMBER: 1}),
    ):
        for limit in (100, 10_000):
            found = _measure(bench, graph, callers, limit, name)
            for what, timings in found.items():
                section.add(timings, found[OFF], rows=name, limit=limit, what=what)
            section.bounds += [
                Bound(
                    f"rows {name}, limit {limit:,}: {what} over off (medians)",
                    found[what].p50 / found[OFF].p50,
                    MOST,
                    judged=what != MEMBER and profile.judged_at_full_size,
                )
                for what in callers
            ]
    section.note(
        "The same graph twice: with rows that everyone sees, and with each node one organisation's."
        " A member of one organisation of 50 sees one node in 50 and one edge in 2,500, but the"
        " stronger edges that are skipped have to be read: beside the walk without row security,"
        " which answers with all of them, it is told and not judged."
    )
    return section


def _measure(
    bench: Bench, graph: Graph, callers: dict[str, int], limit: int, name: str
) -> dict[str, Timings]:
    dsn = bench.database(graph)
    given = {"depth": 3, "cap": CAP, "limit": limit}
    # Starts that every caller sees: nodes of the first organisation.
    starts = [
        node
        for node in graph.random_nodes(bench.profile.seeds * (60 if graph.organisations else 1),
                                       bench.seed + 6)
        if not graph.organisations or node % graph.organisations == 1
    ][: bench.profile.seeds]  # fmt: skip
    parameters = [{**given, "handle": graph.handle(node)} for node in starts]
    connections = {OFF: caller(dsn)}
    for what, user in callers.items():
        connections[what] = caller(dsn)
        if graph.organisations:
            claims = json.dumps({"sub": f"00000000-0000-0000-0000-{user:012}"})
            connections[what].execute(
                "select set_config('request.jwt.claims', %s, false)", (claims,)
            )
    found = {what: Timings() for what in connections}
    with bench.progress(f"row security: {name}, limit {limit:,}", ROUNDS) as advance:
        for _ in range(ROUNDS):
            with _switched_off(dsn):
                _block(connections[OFF], parameters, found[OFF])
            for what in callers:
                _block(connections[what], parameters, found[what])
            advance()
    for connection in connections.values():
        connection.close()
    return found


def _block(connection: Connection, parameters: list[dict[str, object]], found: Timings) -> None:
    """Measure all walks, after as many as it takes to make the plans anew after a switch."""
    for _ in range(WARM):
        connection.execute(WALK, parameters[0], prepare=True).fetchall()
    for given in parameters:
        # Once for the caches, which another block has left as it liked.
        connection.execute(WALK, given, prepare=True).fetchall()
        began = perf_counter()
        connection.execute(WALK, given, prepare=True).fetchall()
        found.add((perf_counter() - began) * 1000)


@contextmanager
def _switched_off(dsn: str) -> Iterator[None]:
    """Do something without row security, and switch it on again whatever happens."""
    with superuser(dsn) as owner:

        def switch(action: str) -> None:
            for table in TABLES:
                owner.execute(f"alter table aiq.{table} {action} row level security".encode())

        switch("disable")
        try:
            yield
        finally:
            switch("enable")
