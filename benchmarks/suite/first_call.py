"""The first call in a fresh backend, over a PL/Python function that does nothing."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.measuring import interleaved
from benchmarks.results import Bound, Section
from benchmarks.server import caller
from benchmarks.suite.calls import CAP, JOIN, WALK

NOTHING = "select benchmark.nothing()"
MOST = 40.0


def run(bench: Bench) -> Section:
    """Open a connection for each measurement; only the call is timed."""
    section = Section("first_call", "the first call in a fresh backend")
    graph = bench.main_graph()
    dsn = bench.database(graph)
    joined = {"rounds": 3, "budget": 500, "cap": CAP, "limit": 100}
    walked = {"cap": CAP, "limit": 100}
    edge, shared = ["edge"], ["edge", "shared_key"]
    calls = {
        "a PL/Python function that does nothing": (NOTHING, {}),
        "aiq.walk, depth 1": (WALK, {**walked, "depth": 1}),
        "aiq.walk, depth 3": (WALK, {**walked, "depth": 3}),
        "aiq.iterated_join, edges, unresolved": (
            JOIN, {**joined, "links": edge, "target": "grail", "rounds": 1},
        ),
        "aiq.iterated_join, edges, resolved": (JOIN, {**joined, "links": edge, "target": "site"}),
        "aiq.iterated_join, edges and shared keys, resolved": (
            JOIN, {**joined, "links": shared, "target": "site"},
        ),
    }  # fmt: skip

    def fresh(text: str, parameters: dict[str, object]) -> Callable[[int], float]:
        def call(node: int) -> float:
            with caller(dsn) as connection:
                found = {**parameters, "handle": graph.handle(node)}
                began = perf_counter()
                connection.execute(text, found).fetchall()
                return (perf_counter() - began) * 1000

        return call

    nodes = graph.random_nodes(bench.profile.fresh, bench.seed + 2)
    with bench.progress("first calls", len(nodes)) as advance:
        found = interleaved(
            {name: fresh(*call) for name, call in calls.items()}, nodes, warm=0, advance=advance
        )
    nothing = next(iter(found.values()))
    for name, timings in found.items():
        section.add(timings, what=name)
        section.rows[-1]["p50 over nothing"] = round(timings.p50 - nothing.p50, 2)
        if name not in {*list(calls)[:1], "aiq.walk, depth 3"}:
            section.bounds.append(
                Bound(f"{name}: first call over the no-op's (medians)",
                      timings.p50 - nothing.p50, MOST, "ms")
            )  # fmt: skip
    section.columns.append("p50 over nothing")
    section.note(
        "The call's own work is in it: a depth-3 walk is told, not judged, since warm it takes"
        " milliseconds of its own."
    )
    return section
