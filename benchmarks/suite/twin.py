"""The twin beside networkx: the same graph, both in this process."""

from __future__ import annotations

from time import perf_counter

from benchmarks import peers
from benchmarks.bench import Bench
from benchmarks.in_memory import memory_store, networkx_graph
from benchmarks.measuring import Case, interleaved
from benchmarks.results import Section
from benchmarks.suite.calls import CAP, NEVER_CUTS
from graphalgo.engine import iterated_join, walk

TWIN = "twin's walk"
BOUNDED = "networkx, bounded search"
WHOLE = "networkx, ego_graph (uncapped)"


def run(bench: Bench) -> Section:
    """Measure walks and joins in memory."""
    nodes = bench.profile.twin_nodes
    graph = bench.graph("power_law", nodes, 4 * nodes)
    section = Section("twin", f"the twin beside networkx on {nodes:,} nodes, {4 * nodes:,} edges")
    with bench.progress("building the twin and networkx", 2) as advance:
        began = perf_counter()
        store = memory_store(graph)
        built_store = perf_counter()
        advance()
        networkx = networkx_graph(graph)
        undirected = networkx.to_undirected()
        built_networkx = perf_counter()
        advance()
    section.note(
        f"Built in {built_store - began:.1f} s (the twin, with keys and names) and"
        f" {built_networkx - built_store:.1f} s (networkx, directed and"
        " undirected, nodes and edges alone)."
    )
    seeds = graph.random_nodes(bench.profile.seeds, bench.seed + 4)
    hub = [graph.largest_hub()] * max(5, bench.profile.repeats // 10)
    for depth in (1, 2, 3):
        for start, items in (("random", seeds), ("hub", hub)):
            cases: dict[str, Case[int]] = {
                TWIN: lambda node, depth=depth: _discard(
                    walk(store, graph.handle(node), depth, None, CAP, NEVER_CUTS)
                ),
                TWIN + ", limit 100": lambda node, depth=depth: _discard(
                    walk(store, graph.handle(node), depth, None, CAP, 100)
                ),
                BOUNDED: lambda node, depth=depth: _discard(
                    peers.bounded_search(networkx, node, depth, CAP)
                ),
                WHOLE: lambda node, depth=depth: _discard(
                    peers.whole_neighbourhood(undirected, node, depth)
                ),
            }
            once = {WHOLE: min(len(items), bench.profile.few_seeds if start == "random" else 2)}
            with bench.progress(f"twin: depth {depth}, {start}", len(items)) as advance:
                found = interleaved(cases, items, once=once, advance=advance)
            for name, timings in found.items():
                section.add(timings, found[TWIN], start=start, depth=depth, what=name)
    for links in (["edge"], ["edge", "shared_key"]):
        join: dict[str, Case[int]] = {
            "twin's join": lambda node, links=links: _discard(
                iterated_join(store, graph.handle(node), "grail", 3, links)
            )
        }
        for start, items in (("random", seeds), ("hub", hub)):
            found = interleaved(join, items)
            section.add(found["twin's join"], start=start, what=f"twin's join, {'+'.join(links)}")
    section.note(
        "The ratios are to the twin's walk. The bounded search sorts each node's edges anew and"
        " answers ids, depths and weights; the twin answers the rows of aiq.walk, details and paths"
        " with them. ego_graph answers everything within reach, as a graph."
    )
    return section


def _discard(_answer: object) -> None:
    """A case gives None: its wall time counts."""
