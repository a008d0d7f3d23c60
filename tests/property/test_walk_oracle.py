"""The walk answers what a plain rendering of its rules answers, and what networkx knows."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import networkx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphalgo.engine import walk
from graphalgo.stores.memory import MemoryStore
from tests.support import graphs
from tests.support.oracle import Oracle

# Products of up to five of these are exact, so the order of the factors cannot
# tell two ways of one weight apart.
EXACT_WEIGHTS = (1.0, 0.75, 0.5, 0.25, 0.125)
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def with_exact_weights(graph: dict[str, Any], draw: Random) -> dict[str, Any]:
    """The graph with other weights."""
    edges = [{**edge, "weight": draw.choice(EXACT_WEIGHTS)} for edge in graph["edges"]]
    return {**graph, "edges": edges}


@settings(max_examples=250, **QUIET)
@given(data=st.data())
def test_rows_are_those_of_the_rules(data):
    drawn = data.draw(graphs.any_graphs(), label="graph")
    graph = with_exact_weights(drawn, Random(data.draw(st.integers(0, 999), label="weights")))
    arguments = data.draw(graphs.walks(graph), label="arguments")
    store = MemoryStore.from_dict({**graph, "verdicts": []})
    key = arguments.pop("key")
    start = int(key.partition("-")[2])
    retired = next(node for node in graph["nodes"] if node["id"] == start)["retired_at"]
    if retired is not None and (arguments["as_of"] is None or arguments["as_of"] >= retired):
        return
    expected = Oracle(graph).walk(start, **arguments)
    rows = [row.as_dict() for row in walk(store, key, **arguments)]
    for row in rows:
        row.pop("summary")
    capped = [row.pop("capped") for row in rows]
    assert rows == [row for row, _ in expected]
    for told, (row, allowed) in zip(capped, expected, strict=True):
        assert told in allowed, row


GRAPHS = {
    "sparse": lambda seed: networkx.gnm_random_graph(40, 60, seed=seed),
    "hubs": lambda seed: networkx.barabasi_albert_graph(60, 2, seed=seed),
    "directed": lambda seed: networkx.gnp_random_graph(40, 0.05, seed=seed, directed=True),
    "star": lambda seed: networkx.star_graph(30),
    "ring": lambda seed: networkx.cycle_graph(15),
    "parallel edges": lambda seed: networkx.MultiDiGraph(
        [(draw.randrange(20), draw.randrange(20)) for draw in [Random(seed)] for _ in range(60)]
    ),
}


@pytest.fixture(params=[(name, seed) for name in GRAPHS for seed in range(4)], ids=str)
def random_graph(request) -> Any:
    """A networkx graph with weights and relations, from 0."""
    name, seed = request.param
    graph = GRAPHS[name](seed)
    draw = Random(seed)
    for _, _, data in graph.edges(data=True):
        data["weight"] = draw.choice(EXACT_WEIGHTS)
        data["relation"] = draw.choice(["knows", "owns"])
    return graph


def either_way(graph: Any, relation: str | None) -> networkx.Graph:
    """The graph walked both ways, with the heaviest of parallel edges, of one relation or all."""
    simple = networkx.Graph()
    simple.add_nodes_from(graph)
    for src, dst, data in graph.edges(data=True):
        if relation in (None, data["relation"]):
            known = simple.get_edge_data(src, dst, {"weight": 0.0})["weight"]
            simple.add_edge(src, dst, weight=max(known, data["weight"]))
    return simple


@pytest.mark.parametrize("relation", [None, "owns"])
@pytest.mark.parametrize("depth", [1, 3, 5])
def test_depths_are_the_lengths_of_shortest_paths(random_graph, relation, depth):
    store = MemoryStore.from_networkx(random_graph)
    start = next(iter(random_graph))
    rows = walk(store, str(start), depth, relation, degree_cap=100_000, limit=100_000)
    lengths = networkx.single_source_shortest_path_length(
        either_way(random_graph, relation), start, cutoff=depth
    )
    del lengths[start]
    names = {row.key: row for row in rows}
    assert {key: row.depth for key, row in names.items()} == {
        str(node): length for node, length in lengths.items()
    }
    assert len(rows) == len(lengths)
    assert not any(row.capped for row in rows)


def test_weights_are_the_greatest_products_over_shortest_paths(random_graph):
    store = MemoryStore.from_networkx(random_graph)
    simple = either_way(random_graph, None)
    start = next(iter(random_graph))
    for row in walk(store, str(start), 4, degree_cap=100_000, limit=100_000):
        node = next(node for node in simple if str(node) == row.key)
        products = []
        for path in networkx.all_shortest_paths(simple, start, node):
            product = 1.0
            for step in pairwise(path):
                product *= simple.edges[step]["weight"]
            products.append(product)
        assert row.weight == max(products)


@settings(max_examples=100, **QUIET)
@given(seed=st.integers(0, 2**32), limit=st.integers(1, 12), cap=st.integers(1, 6))
def test_a_limit_cuts_the_whole_walk_and_changes_nothing_else(seed, limit, cap):
    """The walk stops as soon as the limit is filled; what it answers is the same."""
    graph = graphs.dense_graph(seed)
    store = MemoryStore.from_dict({**graph, "verdicts": []})
    key = graphs.seed_of(graph["nodes"][-1])
    for depth in (1, 2, 3, 5):
        whole = walk(store, key, depth, degree_cap=cap, limit=100_000)
        assert walk(store, key, depth, degree_cap=cap, limit=limit) == whole[:limit]
