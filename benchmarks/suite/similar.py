"""What a search for similar names costs: the link, pg_trgm's bare query, rapidfuzz over a list."""

from __future__ import annotations

import numpy as np
from rapidfuzz import fuzz, process

from benchmarks import peers
from benchmarks.bench import Bench
from benchmarks.generators import SOFT, Graph
from benchmarks.measuring import Case, interleaved
from benchmarks.results import Section
from benchmarks.server import superuser
from benchmarks.suite.calls import CAP, JOIN, statement

THRESHOLD = 0.6


def run(bench: Bench) -> Section:
    """Measure one probe at a time, among growing numbers of names."""
    section = Section("similar", f"one probe for names of a similarity of at least {THRESHOLD}")
    for count in bench.profile.names:
        graph = bench.graph("names_only", count)
        dsn = bench.database(graph)
        nodes = _nodes(graph, bench.profile.probes, bench.seed)
        with bench.progress(f"similar: {count:,} names", len(nodes)) as advance:
            found = interleaved(_cases(dsn, graph), nodes, rounds=2, advance=advance)
        for name, timings in found.items():
            section.add(timings, found["pg_trgm's bare query"], names=count, what=name)
    section.note(
        "The ratios are to pg_trgm's bare query, which a superuser runs on the table: no caller's"
        " predicate, no details. rapidfuzz compares by edit distance, so its matches differ; it"
        " holds all names in memory and says nothing of who may see them."
    )
    return section


def _nodes(graph: Graph, count: int, seed: int) -> list[int]:
    typed = np.flatnonzero(graph.node_types != SOFT) + 1
    chosen = np.random.default_rng([seed, 7006]).permutation(typed)[:count]
    return [int(node) for node in chosen]


def _cases(dsn: str, graph: Graph) -> dict[str, Case[int]]:
    bare = superuser(dsn)
    bare.execute(f"set pg_trgm.similarity_threshold = {THRESHOLD}")
    names = [name.decode() for name in graph.names.tolist()]

    def search(node: int) -> None:
        bare.execute(peers.SIMILAR_NAMES, (names[node - 1],), prepare=True).fetchall()

    def compare(node: int) -> None:
        process.extract(
            names[node - 1], names, scorer=fuzz.ratio, score_cutoff=100 * THRESHOLD, limit=CAP
        )

    joined = {
        "target": "grail", "rounds": 1, "links": ["similar"], "budget": 500, "cap": CAP,
        "limit": 100,
    }  # fmt: skip
    return {
        "pg_trgm's bare query": search,
        "aiq.iterated_join, similar, 1 round": statement(dsn, JOIN, graph, **joined),
        "rapidfuzz over a list": compare,
    }
