"""The synthetic graphs are what the benchmarks take them for."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="the generators need numpy: pip install graphalgo[bench]")

from benchmarks.copying import Column, encoded  # noqa: E402
from benchmarks.generators import (  # noqa: E402
    ENTITY_TYPES,
    RELATIONS,
    SOFT,
    Graph,
    names_only,
    power_law,
    shared_key_bipartite,
    star_of_stars,
)
from benchmarks.measuring import Timings, interleaved  # noqa: E402
from benchmarks.names import company_names  # noqa: E402
from graphalgo.engine.folding import fold_key  # noqa: E402
from graphalgo.engine.trigram import trigrams  # noqa: E402

NODES, EDGES = 5_000, 20_000

MAKERS = {
    "power_law": lambda seed: power_law(NODES, EDGES, seed),
    "star_of_stars": lambda seed: star_of_stars(NODES, NODES + 500, seed),
    "shared_key_bipartite": lambda seed: shared_key_bipartite(NODES, seed),
    "names_only": lambda seed: names_only(NODES, seed),
}
ARRAYS = (
    "node_types", "names", "key_nodes", "key_texts", "key_kinds", "key_is_name", "sources",
    "targets", "relations", "weights",
)  # fmt: skip


@pytest.fixture(scope="module", params=MAKERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def graph(kind: str) -> Graph:
    return MAKERS[kind](1)


@pytest.fixture(scope="module")
def hubs() -> Graph:
    return power_law(NODES, EDGES, 1)


def test_the_same_seed_gives_the_same_graph(kind: str, graph: Graph) -> None:
    again = MAKERS[kind](1)
    for name in ARRAYS:
        assert np.array_equal(getattr(graph, name), getattr(again, name)), name


def test_another_seed_gives_another_graph(kind: str, graph: Graph) -> None:
    other = MAKERS[kind](2)
    assert not np.array_equal(graph.names, other.names)
    if graph.edge_count:
        assert not np.array_equal(graph.sources, other.sources)


def test_ids_types_and_relations_are_in_range(graph: Graph) -> None:
    for ends in (graph.sources, graph.targets, graph.key_nodes):
        assert ends.size == 0 or (ends.min() >= 1 and ends.max() <= graph.node_count)
    typed = graph.node_types[graph.node_types != SOFT]
    assert typed.max() < len(ENTITY_TYPES)
    assert graph.relations.max(initial=0) < len(RELATIONS)


def test_no_two_edges_agree_in_source_relation_and_target(graph: Graph) -> None:
    edges = np.stack([graph.sources, graph.relations, graph.targets], axis=1)
    assert len(np.unique(edges, axis=0)) == graph.edge_count


def test_no_node_holds_a_key_twice(graph: Graph) -> None:
    held = list(zip(graph.key_nodes.tolist(), graph.key_texts.tolist(), strict=True))
    held += list(enumerate(graph.names.tolist(), 1))
    assert len(set(held)) == len(held)


def test_keys_are_folded(graph: Graph) -> None:
    for text in [*graph.names[:200].tolist(), *graph.key_texts[:200].tolist()]:
        assert fold_key(text.decode()) == text.decode()


def test_weights_are_reals_above_0_and_at_most_1_with_many_ties(hubs: Graph) -> None:
    assert hubs.weights.dtype == np.float32
    assert hubs.weights.min() > 0
    assert hubs.weights.max() <= 1
    values, counts = np.unique(hubs.weights, return_counts=True)
    assert counts.max() > hubs.edge_count / 50
    # And not only ties: weights that no other edge has exist, too.
    assert (counts == 1).sum() > hubs.edge_count / 10
    assert len(values) > 100


def test_power_law_has_the_sizes_asked_for(hubs: Graph) -> None:
    assert (hubs.node_count, hubs.edge_count) == (NODES, EDGES)


def test_power_law_has_a_heavy_tail(hubs: Graph) -> None:
    degrees = np.sort(hubs.degrees()[1:])[::-1]
    assert degrees[0] == hubs.degrees()[hubs.largest_hub()]
    assert degrees[0] > 50 * np.median(degrees)
    # Clauset, Shalizi and Newman's estimate of the tail's exponent: between 2
    # and 3 the mean is finite and the variance is not.
    tail = degrees[degrees >= 30]
    exponent = 1 + len(tail) / np.log(tail / 29.5).sum()
    assert 2.0 < exponent < 3.0


def test_power_law_grows_a_hub_of_a_hundredth_of_all_edges() -> None:
    for nodes in (2_000, 50_000):
        graph = power_law(nodes, 4 * nodes, 3)
        assert graph.degrees().max() >= graph.edge_count / 100


@pytest.mark.slow
def test_power_law_of_a_million_nodes_has_a_hub_of_40_000_edges() -> None:
    graph = power_law(1_000_000, 4_000_000, 1)
    assert (graph.node_count, graph.edge_count) == (1_000_000, 4_000_000)
    assert graph.degrees().max() >= 40_000


def test_power_law_has_parallel_edges_of_different_relations(hubs: Graph) -> None:
    ends = np.stack([hubs.sources, hubs.targets], axis=1)
    _, counts = np.unique(ends, axis=0, return_counts=True)
    assert (counts > 1).sum() >= hubs.edge_count * 0.015
    assert set(np.unique(hubs.relations)) == set(range(len(RELATIONS)))


def test_power_law_has_soft_nodes_vaults_and_no_grail(hubs: Graph) -> None:
    types = list(ENTITY_TYPES)
    assert (hubs.node_types == SOFT).any()
    assert (hubs.node_types == types.index("vault")).any()
    assert not (hubs.node_types == types.index("grail")).any()


def test_soft_nodes_have_different_names(graph: Graph) -> None:
    names = graph.names[graph.node_types == SOFT]
    assert len(np.unique(names)) == len(names)


def test_star_of_stars_is_a_star_of_stars() -> None:
    graph = star_of_stars(10_000)
    assert graph.edge_count == 9_999
    degrees = np.sort(graph.degrees()[1:])
    # The centre's hundred hubs, each with 98 or 99 leaves and the centre.
    assert (degrees >= 99).sum() == 101
    assert (degrees == 1).sum() == 10_000 - 101


def test_star_of_stars_takes_more_edges_than_nodes() -> None:
    assert star_of_stars(1_000, 1_500).edge_count == 1_500


def test_bipartite_joins_nodes_only_through_keys_that_many_hold() -> None:
    graph = shared_key_bipartite(10_000, holders=500, keys_per_node=3)
    assert graph.edge_count == 0
    _, holders = np.unique(graph.key_texts, return_counts=True)
    assert holders.min() > 400
    assert not graph.key_is_name.any()
    assert (np.bincount(graph.key_nodes)[1:] == 3).all()


def test_names_have_about_22_trigrams_and_are_different() -> None:
    names = [name.decode() for name in company_names(3_000, 1)]
    assert len(set(names)) == 3_000
    mean = sum(len(trigrams(name)) for name in names) / len(names)
    assert 20 <= mean <= 25


def test_a_graph_that_has_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room for"):
        power_law(2, 1_000)


def test_binary_copy_keeps_nulls_widths_and_values() -> None:
    columns = [
        Column("number", np.array([1, 2, 3]), ">i8"),
        Column("text", np.array([b"a", b"bcd", b""]), "text", np.array([True, True, False])),
        Column("flag", True, "u1"),
    ]
    found = set()
    data = b"".join(encoded(columns, slice(0, 3)))
    while data:
        assert data[:2] == b"\0\3"
        row, data = [], data[2:]
        for _ in range(3):
            width = int.from_bytes(data[:4], "big", signed=True)
            row.append(None if width < 0 else data[4 : 4 + width])
            data = data[4 + max(0, width) :]
        found.add(tuple(row))
    assert found == {
        ((1).to_bytes(8, "big"), b"a", b"\1"),
        ((2).to_bytes(8, "big"), b"bcd", b"\1"),
        ((3).to_bytes(8, "big"), None, b"\1"),
    }


def test_percentiles_are_nearest_ranks() -> None:
    timings = Timings()
    for value in range(100, 0, -1):
        timings.add(value)
    assert (timings.p50, timings.p95, timings.maximum) == (50, 95, 100)


def test_interleaving_takes_turns() -> None:
    calls: list[tuple[str, int]] = []

    def case(name: str) -> object:
        return lambda item: calls.append((name, item))  # a case gives None: its wall time counts

    found = interleaved({"a": case("a"), "b": case("b")}, [1, 2], warm=0)  # type: ignore[dict-item]
    assert sorted(calls[:2]) == [("a", 1), ("b", 1)]
    assert sorted(calls[2:]) == [("a", 2), ("b", 2)]
    assert all(len(timings.values) == 2 for timings in found.values())
