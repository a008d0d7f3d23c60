"""A generated graph as the twin's store and as a networkx graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.generators import ENTITY_TYPES, KEY_KINDS, RELATIONS, SOFT, SOFT_KIND, Graph
from graphalgo.stores.memory import MemoryStore

if TYPE_CHECKING:
    import networkx


def memory_store(graph: Graph) -> MemoryStore:
    """Give the store that answers as the database with this graph does."""
    store = MemoryStore()
    types = list(ENTITY_TYPES)
    for name, prefix in ENTITY_TYPES.items():
        store.add_entity_type(name, prefix)
    for source in types:
        for target in types:
            for relation in RELATIONS:
                store.add_relation(source, relation, target)
    names = [name.decode() for name in graph.names.tolist()]
    for node, (type_number, name) in enumerate(
        zip(graph.node_types.tolist(), names, strict=True), 1
    ):
        if type_number == SOFT:
            store.add_soft_node(node, SOFT_KIND, name)
        else:
            store.add_node(node, types[type_number])
            store.add_key(node, name)
    for node, key, kind, is_name in zip(
        graph.key_nodes.tolist(),
        graph.key_texts.tolist(),
        graph.key_kinds.tolist(),
        graph.key_is_name.tolist(),
        strict=True,
    ):
        if graph.node_types[node - 1] != SOFT:
            store.add_key(node, key.decode(), kind=KEY_KINDS[kind], is_name=is_name)
    for source, target, relation, weight in zip(
        graph.sources.tolist(),
        graph.targets.tolist(),
        graph.relations.tolist(),
        graph.weights.tolist(),
        strict=True,
    ):
        store.add_edge(source, target, RELATIONS[relation], weight)
    return store


def networkx_graph(graph: Graph) -> networkx.MultiDiGraph[int]:
    """Give the nodes and edges as networkx keeps them; keys and names are left out."""
    import networkx  # noqa: PLC0415 - only where it is needed

    result: networkx.MultiDiGraph[int] = networkx.MultiDiGraph()
    result.add_nodes_from(range(1, graph.node_count + 1))
    result.add_edges_from(
        (source, target, {"relation": RELATIONS[relation], "weight": weight})
        for source, target, relation, weight in zip(
            graph.sources.tolist(),
            graph.targets.tolist(),
            graph.relations.tolist(),
            graph.weights.tolist(),
            strict=True,
        )
    )
    return result
