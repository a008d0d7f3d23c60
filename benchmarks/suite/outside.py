"""What else one could reach for: loading all edges into networkx, and pgRouting."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import psycopg

from benchmarks.bench import Bench
from benchmarks.generators import Graph
from benchmarks.measuring import Timings, interleaved
from benchmarks.peers import bounded_search
from benchmarks.results import Section
from benchmarks.server import superuser
from benchmarks.suite.calls import CAP, WALK, statement

# Within three hops of a node: each edge costs one, either way.
ROUTED = """
select * from pgr_drivingDistance(
    'select row_number() over () as id, src_id as source, dst_id as target,
        1::float8 as cost, 1::float8 as reverse_cost from benchmark.edges',
    %s, 3, false
)
"""


def run(bench: Bench) -> Section:
    """Measure what answers a similar question by other means."""
    section = Section("outside", "other means: networkx over all edges, pgRouting")
    nodes = bench.profile.twin_nodes
    graph = bench.graph("power_law", nodes, 4 * nodes)
    dsn = bench.database(graph)
    seeds = graph.random_nodes(bench.profile.few_seeds, bench.seed + 6)
    found = interleaved({"walk": statement(dsn, WALK, graph, depth=3, cap=CAP, limit=100)}, seeds)
    walked = found["walk"]
    section.add(walked, walked, what="aiq.walk, depth 3", nodes=nodes)
    _load_all(bench, section, dsn, graph, seeds, walked)
    _pgrouting(bench, section, dsn, graph, seeds, walked)
    section.note(
        "Apache AGE is not in Debian; neither it nor any server of another kind was compared."
    )
    return section


def _load_all(
    bench: Bench, section: Section, dsn: str, graph: Graph, seeds: list[int], walked: Timings
) -> None:
    """Fetch every edge into networkx, then search, as one does without us."""
    import networkx  # noqa: PLC0415 - only where it is needed

    loading, searching = Timings(), Timings()
    loaded: Any = None
    with bench.progress("networkx: loading all edges", 1), superuser(dsn) as connection:
        began = perf_counter()
        loaded = networkx.MultiDiGraph()
        rows = connection.execute("select src_id, dst_id, relation, weight from benchmark.edges")
        loaded.add_edges_from(
            (source, target, {"relation": relation, "weight": weight})
            for source, target, relation, weight in rows
        )
        loading.add((perf_counter() - began) * 1000)
    for node in seeds:
        began = perf_counter()
        if node in loaded:
            bounded_search(loaded, node, 3, CAP)
            searching.add((perf_counter() - began) * 1000)
    nodes = graph.node_count
    section.add(loading, walked, what="networkx: load all edges, once", nodes=nodes)
    section.add(searching, walked, what="networkx: bounded search after that", nodes=nodes)


def _pgrouting(
    bench: Bench, section: Section, dsn: str, graph: Graph, seeds: list[int], walked: Timings
) -> None:
    routing = Timings()
    few = seeds[:3]
    with superuser(dsn) as connection, bench.progress("pgRouting", len(few)) as advance:
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("create extension pgrouting cascade")
                for node in few:
                    began = perf_counter()
                    connection.execute(ROUTED, (node,)).fetchall()
                    routing.add((perf_counter() - began) * 1000)
                    advance()
        except psycopg.Error as error:
            section.note(f"pgRouting was not compared: {str(error).splitlines()[0]}")
            return
    section.add(routing, walked, what="pgr_drivingDistance, distance 3", nodes=graph.node_count)
    section.note(
        "pgr_drivingDistance reads all edges at each call and answers distances without a cap,"
        " weights, types or names."
    )
