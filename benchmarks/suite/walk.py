"""The walk beside recursive queries and beside its own SQL without Python."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.bench import Bench
from benchmarks.generators import Graph
from benchmarks.measuring import Case, Timings, interleaved
from benchmarks.results import Bound, Section
from benchmarks.suite.calls import (
    CAP,
    NEVER_CUTS,
    WALK,
    statement,
    walk_on_server,
    walk_statements,
)

WALKED = "aiq.walk"
ON_SERVER = "aiq.walk, server's clock"
BARE_SQL = "its SQL without Python, server's clock"
PLAIN = "plain recursive, bare table"
PLAIN_VIEW = "plain recursive, on the view"
CAPPED = "capped recursive, bare table"
CAPPED_TOLD = "capped recursive that says capped, bare table"
CAPPED_VIEW = "capped recursive, on the view"
CAPPED_STRONGEST = "capped recursive, the strongest"


def run(bench: Bench) -> Section:
    """Measure walks of depths 1 to 3 from random nodes and from the largest hub."""
    section = Section("walk", "aiq.walk (cap 100) beside recursive queries of the same columns")
    graph = bench.main_graph()
    dsn = bench.database(graph)
    seeds = graph.random_nodes(bench.profile.seeds, bench.seed)
    for limit in (100, NEVER_CUTS):
        for depth in (1, 2, 3):
            found = _measure(bench, dsn, graph, seeds, depth, limit)
            _tell(section, found, "random", limit, depth)
            if depth == 3:
                _judge(section, found, limit, bench)
            _tell(section, _from_hub(bench, dsn, graph, depth, limit), "hub", limit, depth)
    section.note(
        "The ratios say how many times as long as aiq.walk a case takes: above 1 it is slower."
    )
    section.note(
        "The plain query answers what no cap hides; the capped ones keep an arbitrary hundred"
        " edges a node, the walk and 'the strongest' the strongest hundred. The bare table has"
        " four columns, no periods, no scopes, and an index on each end: the best case for the"
        " peers. The peers are given the node's id; the walk finds it by its handle."
    )
    section.note(
        f"Limit {NEVER_CUTS:,} never cuts. With limit 100 the walk stops at the depth that fills"
        " it, which the peers cannot."
    )
    return section


def _cases(dsn: str, graph: Graph, depth: int, limit: int) -> dict[str, Case[int]]:
    given = {"depth": depth, "limit": limit, "cap": CAP}
    texts = {
        WALKED: WALK,
        CAPPED: peers.capped(peers.BARE),
        CAPPED_TOLD: peers.capped_and_told(peers.BARE),
        CAPPED_VIEW: peers.capped(peers.VIEW),
        CAPPED_STRONGEST: peers.capped_strongest(),
        PLAIN: peers.plain(peers.BARE),
        PLAIN_VIEW: peers.plain(peers.VIEW),
    }
    cases = {name: statement(dsn, text, graph, **given) for name, text in texts.items()}
    cases[ON_SERVER] = walk_on_server(dsn, graph, depth, limit)
    cases[BARE_SQL] = walk_statements(dsn, graph, depth, limit)
    return cases


def _measure(
    bench: Bench, dsn: str, graph: Graph, seeds: list[int], depth: int, limit: int
) -> dict[str, Timings]:
    profile = bench.profile
    cases = _cases(dsn, graph, depth, limit)
    with bench.progress(f"walk: depth {depth}, limit {limit:,}", len(seeds)) as advance:
        return interleaved(
            cases,
            seeds,
            once={
                PLAIN: len(seeds) if limit == 100 else profile.few_seeds,
                PLAIN_VIEW: profile.few_seeds,
            },
            advance=advance,
        )


def _from_hub(bench: Bench, dsn: str, graph: Graph, depth: int, limit: int) -> dict[str, Timings]:
    hub = graph.largest_hub()
    cases = _cases(dsn, graph, depth, limit)
    del cases[PLAIN_VIEW]
    if depth > 2:
        # Hundreds of millions of paths: not to be waited for.
        del cases[PLAIN]
    repeats = max(3, bench.profile.repeats // (5 if depth < 3 else 20))
    with bench.progress(f"walk: hub, depth {depth}, limit {limit:,}", repeats) as advance:
        return interleaved(cases, [hub] * repeats, once={PLAIN: 3}, advance=advance)


def _tell(section: Section, found: dict[str, Timings], start: str, limit: int, depth: int) -> None:
    for name, timings in found.items():
        labels = {"from": start, "limit": limit, "depth": depth, "what": name}
        section.add(timings, found[WALKED], **labels)


def _judge(section: Section, found: dict[str, Timings], limit: int, bench: Bench) -> None:
    judged = bench.profile.judged_at_full_size
    told = f"depth-3 walk, limit {limit:,}: "
    section.bounds.append(
        Bound(
            told + "p95 over the plain recursive query's",
            found[WALKED].p95 / found[PLAIN].p95,
            0.1,
            judged=judged,
        )
    )
    section.bounds.append(
        Bound(
            told + "p95 over the capped recursive query's",
            found[WALKED].p95 / found[CAPPED].p95,
            1.5,
            judged=judged,
        )
    )
    section.bounds.append(
        Bound(
            told + "total over its bare SQL (medians)",
            found[ON_SERVER].p50 / found[BARE_SQL].p50,
            2.0,
        )
    )
