"""How latencies grow with the graph."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.bench import Bench
from benchmarks.measuring import interleaved
from benchmarks.results import Section
from benchmarks.suite.calls import CAP, JOIN, WALK, statement


def run(bench: Bench) -> Section:
    """Measure depth-3 walks and joins on growing power-law graphs."""
    section = Section("growth", "depth-3 walks and 3-round joins on growing graphs")
    joined = {
        "target": "grail", "rounds": 3, "links": ["edge"], "budget": 500, "cap": CAP, "limit": 100,
    }  # fmt: skip
    walked = {"depth": 3, "cap": CAP, "limit": 100}
    calls = {
        "aiq.walk": (WALK, walked),
        "aiq.iterated_join": (JOIN, joined),
        "capped recursive": (peers.capped(peers.BARE), walked),
        "plain recursive": (peers.plain(peers.BARE), walked),
    }
    for nodes in bench.profile.growth:
        graph = bench.graph("power_law", nodes, 4 * nodes)
        dsn = bench.database(graph)
        seeds = graph.random_nodes(bench.profile.seeds, bench.seed + 5)
        hub = [graph.largest_hub()] * 5
        for start, items in (("random", seeds), ("hub", hub)):
            cases = {
                name: statement(dsn, text, graph, **given) for name, (text, given) in calls.items()
            }
            once = {"plain recursive": bench.profile.few_seeds}
            if start == "hub":
                del cases["plain recursive"]
            with bench.progress(f"growth: {nodes:,} nodes, {start}", len(items)) as advance:
                found = interleaved(cases, items, once=once, advance=advance)
            for name, timings in found.items():
                labels = {"nodes": nodes, "start": start, "what": name}
                section.add(timings, found["aiq.walk"], **labels)
    section.note("The ratios are to aiq.walk.")
    return section
