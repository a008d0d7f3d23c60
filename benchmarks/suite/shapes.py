"""Other shapes: a star of stars, and nodes joined only through keys that many hold."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.bench import Bench
from benchmarks.measuring import Case, interleaved
from benchmarks.results import Section
from benchmarks.suite.calls import CAP, JOIN, WALK, statement


def run(bench: Bench) -> Section:
    """Measure walks on a star of stars and joins over shared keys."""
    section = Section("shapes", "a star of stars, and a dense bipartite graph of shared keys")
    nodes = bench.profile.shape_nodes
    star = bench.graph("star_of_stars", nodes, nodes + nodes // 2)
    walked = {"depth": 3, "cap": CAP, "limit": 100}
    dsn = bench.database(star)
    texts = {"aiq.walk": WALK, "capped recursive": peers.capped(peers.BARE)}
    centre = [star.largest_hub()] * bench.profile.repeats
    seeds = star.random_nodes(bench.profile.seeds, bench.seed)
    for start, items in (("random", seeds), ("centre", centre)):
        cases = {name: statement(dsn, text, star, **walked) for name, text in texts.items()}
        _tell(bench, section, "star of stars", start, cases, items, "aiq.walk")

    keyed = bench.graph("shared_key_bipartite", nodes)
    dsn = bench.database(keyed)
    joined = {
        "target": "vault", "rounds": 2, "links": ["shared_key"], "budget": 500, "cap": CAP,
        "limit": 100,
    }  # fmt: skip
    shared = peers.join(peers.BARE, shared_key=True, cap=True)
    texts = {"aiq.iterated_join": JOIN, "capped recursive": shared}
    cases = {name: statement(dsn, text, keyed, **joined) for name, text in texts.items()}
    seeds = keyed.random_nodes(bench.profile.few_seeds, bench.seed)
    _tell(bench, section, "shared keys", "random", cases, seeds, "aiq.iterated_join")
    section.note(
        "In the bipartite graph each node holds three keys that about a thousand hold. The ratios"
        " are to our function."
    )
    return section


def _tell(
    bench: Bench,
    section: Section,
    shape: str,
    start: str,
    cases: dict[str, Case[int]],
    items: list[int],
    base: str,
) -> None:
    with bench.progress(f"shapes: {shape}, {start}", len(items)) as advance:
        found = interleaved(cases, items, rounds=2, advance=advance)
    for name, timings in found.items():
        section.add(timings, found[base], shape=shape, start=start, what=name)
