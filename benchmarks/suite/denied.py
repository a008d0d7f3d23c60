"""What a caller could tell by the clock: a name that is denied beside one that is missing."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random

import psycopg

from benchmarks.bench import Bench
from benchmarks.generators import SOFT, Graph
from benchmarks.measuring import Case, interleaved
from benchmarks.results import Bound, Section
from benchmarks.server import caller

ORGANISATIONS = 50
MEMBER = "00000000-0000-0000-0000-000000000001"
MOST = 1.05
ROUNDS = 4
ANSWERS = {
    "walk": "select * from aiq.walk(%(name)s)",
    "lookup": "select * from aiq.lookup(array[%(name)s])",
    "iterated_join": "select * from aiq.iterated_join(%(name)s, 'grail')",
}


def run(bench: Bench) -> Section:
    """Measure refusals and empty answers about single handles and keys."""
    section = Section("denied", "a name that only others hold, beside one that nobody holds")
    profile = bench.profile
    graph = bench.graph("power_law", profile.nodes, profile.edges, organisations=ORGANISATIONS)
    dsn = bench.database(graph)
    nodes = _denied_nodes(graph, 5 * profile.seeds, bench.seed)
    for function, text in ANSWERS.items():
        for kind in ("handle", "key"):
            if (function, kind) == ("lookup", "handle"):
                continue
            found = interleaved(_cases(dsn, graph, text, kind), nodes, rounds=ROUNDS)
            for what, timings in found.items():
                section.add(timings, found["missing"], function=function, named_by=kind, what=what)
            section.bounds.append(
                Bound(
                    f"{function} by {kind}: denied over missing (medians)",
                    found["denied"].p50 / found["missing"].p50,
                    MOST,
                )
            )
    section.note(
        "A denied name is left out where the index is read, before anything else is done about it:"
        " what is left is to visit it there, some microseconds. A search for near spellings, which"
        " a name that finds nothing sets off, visits every name like it, whoever holds it, whether"
        " the name itself is denied or missing: the missing name has the same words in another"
        " order, and so the same trigrams and as many names like it."
    )
    return section


def _denied_nodes(graph: Graph, count: int, seed: int) -> list[int]:
    """Typed nodes of organisations that the caller is no member of.

    Those whose name nobody holds with its words in another order.
    """
    held = set(graph.names.tolist())
    others = [
        node
        for node in range(1, graph.node_count + 1)
        if node % ORGANISATIONS != int(MEMBER[-1])
        and graph.node_types[node - 1] != SOFT
        and _reordered(graph, node).encode() not in held
    ]
    return Random(seed).sample(others, count)


def _cases(dsn: str, graph: Graph, text: str, kind: str) -> dict[str, Case[int]]:
    connection = caller(dsn)
    claims = json.dumps({"sub": MEMBER})
    connection.execute("select set_config('request.jwt.claims', %s, false)", (claims,))

    def ask(name: str) -> None:
        with suppress(psycopg.errors.NoDataFound):
            connection.execute(text.encode(), {"name": name}, prepare=True).fetchall()

    def denied(node: int) -> None:
        ask(graph.handle(node) if kind == "handle" else graph.names[node - 1].decode())

    def missing(node: int) -> None:
        ask(_missing_handle(graph, node) if kind == "handle" else _reordered(graph, node))

    return {"denied": denied, "missing": missing}


def _missing_handle(graph: Graph, node: int) -> str:
    """A handle that no node has, past the last of them."""
    return f"{graph.handle(node).partition('-')[0]}-{graph.node_count + node}"


def _reordered(graph: Graph, node: int) -> str:
    """A node's name with its words the other way round: as like to every other name."""
    return " ".join(reversed(graph.names[node - 1].decode().split()))
