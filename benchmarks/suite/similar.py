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

# The default of iterated_join, and that of pg_trgm.
THRESHOLDS = (0.6, 0.3)


def run(bench: Bench) -> Section:
    """Measure one probe at a time, among growing numbers of names."""
    section = Section("similar", "one probe for similar names")
    for count in bench.profile.names:
        graph = bench.graph("names_only", count)
        dsn = bench.database(graph)
        nodes = _nodes(graph, bench.profile.probes, bench.seed)
        for threshold in THRESHOLDS:
            cases = _cases(dsn, graph, threshold)
            what = f"similar: {count:,} names, {threshold}"
            with bench.progress(what, len(nodes)) as advance:
                found = interleaved(cases, nodes, rounds=2, advance=advance)
            for name, timings in found.items():
                labels = {"names": count, "threshold": threshold, "what": name}
                section.add(timings, found["pg_trgm's bare query"], **labels)
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


def _cases(dsn: str, graph: Graph, threshold: float) -> dict[str, Case[int]]:
    bare = superuser(dsn)
    bare.execute(f"set pg_trgm.similarity_threshold = {threshold}")
    names = [name.decode() for name in graph.names.tolist()]

    def search(node: int) -> None:
        bare.execute(peers.SIMILAR_NAMES, (names[node - 1],), prepare=True).fetchall()

    def compare(node: int) -> None:
        process.extract(
            names[node - 1], names, scorer=fuzz.ratio, score_cutoff=100 * threshold, limit=CAP
        )

    similar = JOIN.removesuffix(")") + ", p_similarity => %(similarity)s::real)"
    joined = {
        "similarity": threshold, "target": "grail", "rounds": 1, "links": ["similar"],
        "budget": 500, "cap": CAP, "limit": 100,
    }  # fmt: skip
    return {
        "pg_trgm's bare query": search,
        "aiq.iterated_join, similar, 1 round": statement(dsn, similar, graph, **joined),
        "rapidfuzz over a list": compare,
    }
