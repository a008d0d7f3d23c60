"""A hub costs what its cap costs."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.measuring import interleaved
from benchmarks.results import Bound, Section
from benchmarks.suite.calls import CAP, JOIN, NEVER_CUTS, WALK, statement


def run(bench: Bench) -> Section:
    """Expand the largest hub and a node of degree 100, cap 100."""
    graph = bench.main_graph()
    dsn = bench.database(graph)
    hub, plain = graph.largest_hub(), graph.node_of_degree(CAP)
    degrees = graph.degrees()
    section = Section(
        "hub",
        f"expanding a hub of {degrees[hub]:,} edges and a node of {degrees[plain]:,}, cap {CAP}",
    )
    walks = {
        f"aiq.walk, depth 1, limit {limit:,}": statement(
            dsn, WALK, graph, depth=1, limit=limit, cap=CAP
        )
        for limit in (100, NEVER_CUTS)
    }
    join = statement(
        dsn, JOIN, graph, target="grail", rounds=1, links=["edge"], budget=500, cap=CAP, limit=100
    )
    for name, case in {**walks, "aiq.iterated_join, 1 round, edges": join}.items():
        nodes = {"hub": hub, "degree 100": plain}
        cases = {what: (lambda _, node=node, case=case: case(node)) for what, node in nodes.items()}
        repeats = 4 * bench.profile.repeats
        with bench.progress(f"hub: {name}", repeats) as advance:
            found = interleaved(cases, range(repeats), warm=1, advance=advance)
        for what, timings in found.items():
            section.add(timings, found["degree 100"], call=name, node=what)
        section.bounds.append(
            Bound(
                f"{name}: the hub over the node of degree 100 (medians)",
                found["hub"].p50 / found["degree 100"].p50,
                3.0,
            )
        )
    return section
