"""Nothing that a budget puts off is ever lost: enough rounds reach the same nodes as no budget."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import networkx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphalgo.engine import join
from graphalgo.stores.memory import MemoryStore
from tests.support import graphs
from tests.support.building import run_search

# A caller may ask for five rounds; the search itself goes on for as long as it is told.
ENOUGH_ROUNDS = 500
LINKS = ("edge", "shared_key", "similar", "judged")
NOBODY = "nobody"
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def store_of(graph: dict[str, Any]) -> MemoryStore:
    """The graph in memory, with a type that no node is of."""
    store = MemoryStore.from_dict({**graph, "verdicts": []})
    store.add_entity_type(NOBODY, "NOB")
    store.judge_by(graph["verdicts"])
    return store


@settings(max_examples=150, **QUIET)
@given(data=st.data())
def test_every_budget_reaches_what_no_budget_reaches(data):
    graph = data.draw(st.integers(0, 2**32).map(graphs.dense_graph), label="graph")
    links = data.draw(st.lists(st.sampled_from(LINKS), min_size=1, unique=True), label="links")
    cap = data.draw(st.sampled_from([1, 2, 3, 100]), label="degree_cap")
    budget = data.draw(st.integers(1, 6), label="budget")
    seed = graphs.seed_of(data.draw(st.sampled_from(graph["nodes"]), label="seed"))
    store = store_of(graph)
    given_arguments = {"links": links, "degree_cap": cap, "similarity": 0.3}

    whole = run_search(store, seed, NOBODY, rounds=ENOUGH_ROUNDS, budget=100_000, **given_arguments)
    slow = run_search(store, seed, NOBODY, rounds=ENOUGH_ROUNDS, budget=budget, **given_arguments)

    assert set(slow.reached) == set(whole.reached)
    assert slow.reason() == whole.reason() == "exhausted"
    assert slow.deferred == whole.deferred == 0
    assert slow.examined == len(slow.reached) - 1
    assert all(1 <= one["examined"] <= budget for one in slow.rounds[:-1])


@settings(max_examples=150, **QUIET)
@given(data=st.data())
def test_what_a_budget_defers_is_counted_to_the_last(data):
    """In few rounds: the examined and the deferred together are all that was seen."""
    graph = data.draw(st.integers(0, 2**32).map(graphs.dense_graph), label="graph")
    rounds = data.draw(st.integers(1, 5), label="rounds")
    budget = data.draw(st.integers(1, 4), label="budget")
    seed = graphs.seed_of(data.draw(st.sampled_from(graph["nodes"]), label="seed"))
    arguments: dict[str, Any] = {"max_rounds": rounds, "budget": budget, "links": LINKS}
    search = run_search(store_of(graph), seed, NOBODY, **arguments)
    with patch.object(join, "PRUNE_SLACK", 10**9):
        # With no end in sight nothing is out of reach, and all the waiting have a place.
        patient = join.Search(
            search.store, seed, NOBODY, rounds, LINKS, 0.6, budget, 100, None, None, 100
        )
        patient.max_rounds = 10**6
        with patient.store.reading():
            for _ in range(len(search.rounds)):
                patient.round += 1
                expansion = join.Expansion(patient)
                expansion.run()
                patient._examine(expansion)
    assert search.reached == patient.reached
    assert search.deferred == len(patient.waiting)
    assert set(search.waiting) | search.out_of_reach == set(patient.waiting)


@pytest.mark.parametrize("budget", [1, 2, 7, 30])
@pytest.mark.parametrize("seed", range(3))
def test_a_budget_reaches_the_whole_component_of_a_graph_with_hubs(seed, budget):
    graph = networkx.barabasi_albert_graph(120, 1, seed=seed)
    graph.add_edges_from([(1000, 1001), (1001, 1002)])
    draw = Random(seed)
    for _, _, data in graph.edges(data=True):
        data["weight"] = draw.choice([1.0, 0.9, 0.5, 0.1])
    store = MemoryStore.from_networkx(graph)
    store.add_entity_type(NOBODY, "NOB")
    search = run_search(store, "0", NOBODY, rounds=ENOUGH_ROUNDS, budget=budget, degree_cap=100_000)
    assert set(search.reached) == networkx.node_connected_component(graph, 0)
    assert search.reason() == "exhausted"
