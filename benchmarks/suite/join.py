"""The iterated join beside recursive queries and beside its own SQL without Python."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import peers
from benchmarks.bench import Bench
from benchmarks.generators import Graph
from benchmarks.measuring import Case, interleaved
from benchmarks.results import Bound, Section
from benchmarks.suite.calls import CAP, JOIN, join_on_server, join_statements, statement

JOINED = "aiq.iterated_join"
ON_SERVER = "aiq.iterated_join, server's clock"
BARE_SQL = "its SQL without Python, server's clock"
PLAIN = "plain recursive, bare table"
CAPPED = "capped recursive, bare table"

BUDGET = 500
ROUNDS = 3
LINK_SETS = (("edge",), ("edge", "shared_key"))


def run(bench: Bench) -> Section:
    """Measure joins that find a rare type and joins that find nothing."""
    section = Section(
        "join", "aiq.iterated_join (budget 500, cap 100, 3 rounds) beside recursive queries"
    )
    graph = bench.main_graph()
    dsn = bench.database(graph)
    seeds = graph.random_nodes(bench.profile.seeds, bench.seed + 1)
    for links in LINK_SETS:
        for target in ("vault", "grail"):
            _measure(bench, section, dsn, graph, seeds, links, target, "random")
            hub = [graph.largest_hub()] * max(5, bench.profile.repeats // 5)
            _measure(bench, section, dsn, graph, hub, links, target, "hub")
    section.note(
        "One node in two thousand is a vault; no node is a grail, so that all rounds are run. The"
        " recursive queries have no budget and go through all their rounds; the capped one keeps an"
        " arbitrary hundred links a node. They are not asked for a grail: the planner sees that"
        " there is none and answers at once. The ratios are to aiq.iterated_join."
    )
    return section


def _cases(dsn: str, graph: Graph, links: Sequence[str], target: str) -> dict[str, Case[int]]:
    shared = "shared_key" in links
    given = {
        "rounds": ROUNDS, "links": list(links), "target": target, "limit": 100, "cap": CAP,
        "budget": BUDGET,
    }  # fmt: skip
    texts = {
        JOINED: JOIN,
        CAPPED: peers.join(peers.BARE, shared_key=shared, cap=True),
        PLAIN: peers.join(peers.BARE, shared_key=shared, cap=False),
    }
    cases = {name: statement(dsn, text, graph, "20s", **given) for name, text in texts.items()}
    cases[ON_SERVER] = join_on_server(dsn, graph, target, links, ROUNDS)
    cases[BARE_SQL] = join_statements(dsn, graph, target, links, ROUNDS)
    return cases


def _measure(
    bench: Bench,
    section: Section,
    dsn: str,
    graph: Graph,
    items: list[int],
    links: Sequence[str],
    target: str,
    start: str,
) -> None:
    cases = _cases(dsn, graph, links, target)
    once = {PLAIN: bench.profile.few_seeds, CAPPED: len(items)}
    if start == "hub":
        # The plain query would enumerate hundreds of millions of paths.
        del cases[PLAIN]
    if target == "grail":
        # The planner sees that there is no grail, and the recursion is never run.
        cases = {name: case for name, case in cases.items() if name not in (PLAIN, CAPPED)}
    told = f"{'+'.join(links)} to a {target}"
    with bench.progress(f"join: {told}, {start}", len(items)) as advance:
        found = interleaved(cases, items, rounds=2, once=once, advance=advance)
    for name, timings in found.items():
        labels = {"from": start, "links": "+".join(links), "target": target, "what": name}
        section.add(timings, found[JOINED], **labels)
    section.bounds.append(
        Bound(
            f"join, {told}, {start}: total over its bare SQL (medians)",
            found[ON_SERVER].p50 / found[BARE_SQL].p50,
            2.0,
        )
    )
