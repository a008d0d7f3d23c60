"""The dialect beside the functions that it calls, and a lookup beside the bare select."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench
from benchmarks.measuring import Case, interleaved
from benchmarks.results import Bound, Section
from benchmarks.server import caller
from benchmarks.suite.calls import CAP, WALK

BARE = """
select k.node_id, n.handle, k.key, n.entity_type, n.summary, k.kind
from aiq.node_keys_api as k
join aiq.nodes_ever as n on n.id = k.node_id
where k.key = %(key)s and k.kind = 'canonical' and not k.soft
order by k.node_id limit 10
"""
LOOKUP = "select * from aiq.lookup(array[%(key)s::text])"
QUERY = "select aiq.query(%(query)s)::text"
PARSE = "select aiq.parse(%(query)s)::text"

# They take a fraction of a millisecond each: it takes many for a steady median.
CALLS = 500

MOST_ADDED = 0.5
MOST_TIMES = 1.5


def run(bench: Bench) -> Section:
    """Measure lookups of one key, and walks of depth 1, each as text of the dialect and without."""
    section = Section("query", "aiq.query beside the functions that it calls")
    graph = bench.main_graph()
    dsn = bench.database(graph)
    nodes = graph.random_nodes(CALLS, bench.seed + 5)
    keys = _keys(dsn, nodes)
    nodes = [node for node in nodes if node in keys]

    # One backend for all: what an application's pool would give them.
    connection = caller(dsn)

    def case(text: str, **given: Any) -> Case[int]:
        def call(node: int) -> None:
            found = {
                name: value.format(key=keys[node], handle=graph.handle(node))
                if isinstance(value, str)
                else value
                for name, value in given.items()
            }
            connection.execute(text, found, prepare=True).fetchall()

        return call

    lookup, walk = 'LOOKUP "{key}"', 'GRAPH "{handle}"'
    cases = {
        "bare select": case(BARE, key="{key}"),
        "aiq.lookup": case(LOOKUP, key="{key}"),
        "aiq.query, LOOKUP": case(QUERY, query=lookup),
        "aiq.walk": case(WALK, handle="{handle}", depth=1, cap=CAP, limit=100),
        "aiq.query, GRAPH": case(QUERY, query=walk),
        "aiq.parse": case(PARSE, query=lookup),
    }
    with bench.progress("query", len(nodes)) as advance:
        found = interleaved(cases, nodes, advance=advance)
    for name, timings in found.items():
        section.add(timings, found["bare select"] if "LOOKUP" in name else None, what=name)
    section.bounds += [
        Bound(
            "LOOKUP of one key, of the bare select's time (medians)",
            found["aiq.query, LOOKUP"].p50 / found["bare select"].p50,
            MOST_TIMES,
            judged=bench.profile.judged_at_full_size,
        ),
        *(
            Bound(
                f"{asked}: what it adds to {function} (medians)",
                found[asked].p50 - found[function].p50,
                MOST_ADDED,
                "ms",
            )
            for asked, function in (
                ("aiq.query, LOOKUP", "aiq.lookup"),
                ("aiq.query, GRAPH", "aiq.walk"),
            )
        ),
    ]
    section.note(
        "The bare select reads the same columns through the views that callers have; an answer"
        " of aiq.query is fetched as text."
    )
    return section


def _keys(dsn: str, nodes: list[int]) -> dict[int, str]:
    rows = caller(dsn).execute(
        "select node_id, min(key) from aiq.node_keys_api"
        " where node_id = any (%s) and kind = 'canonical' and key !~ '[\"{}]' group by 1",
        [nodes],
    )
    return dict(rows.fetchall())
