"""What the harbour sample means as a graph.

The sample is written as its owners would write it: tables with rows, edges that
name their ends, and a sentence each on keys and summaries. This module is the
only place that reads it so; whoever loads the sample, into a database or into
memory, starts from what :func:`graph_from_harbour` gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphalgo.engine.folding import fold_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Row = dict[str, Any]

TABLES = (
    ("operators", "operator"),
    ("vessels", "vessel"),
    ("ports", "port"),
    ("registrations", "registration"),
)
"""The sample's tables in the order their rows get ids, each with its entity type."""

NOTES = "notes"
"""The text source that the sample's passages make up."""

NOTES_DESCRIPTION = "what inspectors and the two lines have noted"

MODEL_DESCRIPTION = "vectors made by hand: machinery lies one way, people the other"
"""What the sample's embedding model is."""

SOURCE_PREFIX = "harbour."
"""What the ``source_table`` of a node of the sample begins with."""


def is_harbour(data: Mapping[str, Any]) -> bool:
    """Tell the harbour format from the plain one: only the former has ``tables``."""
    return "tables" in data


def graph_from_harbour(data: Mapping[str, Any], *, scoped: bool = False) -> dict[str, list[Row]]:
    """Turn the harbour format into plain lists of types, relations, nodes, keys and edges.

    Parameters
    ----------
    data : mapping
        The sample, such as :func:`graphalgo.samples.harbour_json` reads it.
    scoped : bool
        True keeps each row's organisation; false shares every row with everyone.

    Returns
    -------
    dict
        ``entity_types``, ``relations``, ``nodes``, ``keys``, ``edges`` and
        ``verdicts``, each a list of dicts named like the columns of the tables of
        that name; ``text_sources``, ``passages``, ``embedding_models`` and
        ``embeddings`` as the store in memory reads them. Node ids count from 1
        through the tables in the order of :data:`TABLES`, then the soft nodes; edge
        ids count from 1. A ship that is not in service is no identity and gets no
        node.

    Raises
    ------
    KeyError
        If an edge names an end that is not in the tables.
    """
    nodes: list[Row] = []
    keys: list[Row] = []
    by_label: dict[str, int] = {}
    for table, entity_type in TABLES:
        for row in data["tables"][table]:
            if row.get("status", "in_service") != "in_service":
                continue
            node_id = len(nodes) + 1
            nodes.append(_typed_node(node_id, entity_type, table, row, scoped))
            keys.extend(_key_rows(node_id, entity_type, row))
            by_label[f"{entity_type}:{_label(entity_type, row)}"] = node_id
    for soft in data["soft_nodes"]:
        node_id = len(nodes) + 1
        nodes.append(_soft_node(node_id, soft, scoped))
        keys.append(
            {"node_id": node_id, "key": fold_key(soft["n"]), "kind": "alias", "is_name": True}
        )
    edges = [
        _edge(number, edge, by_label, scoped) for number, edge in enumerate(data["edges"], start=1)
    ]
    return {
        "entity_types": [dict(row) for row in data["entity_types"]],
        "relations": [dict(row) for row in data["relations"]],
        "nodes": nodes,
        "keys": keys,
        "edges": edges,
        "verdicts": [],
        **_notes(data, scoped),
    }


def visible_to(graph: Mapping[str, list[Row]], org_id: str) -> dict[str, list[Row]]:
    """Give what the members of an organisation see of a graph of organisations' rows.

    Parameters
    ----------
    graph : mapping
        As :func:`graph_from_harbour` gives it, scoped.
    org_id : str
        The organisation.

    Returns
    -------
    dict
        The same lists, with the rows that are shared or the organisation's; an
        edge only where both its ends are.
    """
    seen = (None, org_id)
    nodes = [node for node in graph["nodes"] if node["org_id"] in seen]
    ids = {node["id"] for node in nodes}
    passages = [passage for passage in graph["passages"] if passage["org_id"] in seen]
    shown = {passage["id"] for passage in passages}
    return {
        **graph,
        "passages": passages,
        "embeddings": [vector for vector in graph["embeddings"] if vector["id"] in shown],
        "nodes": nodes,
        "keys": [key for key in graph["keys"] if key["node_id"] in ids],
        "edges": [
            edge
            for edge in graph["edges"]
            if edge["org_id"] in seen and edge["src_id"] in ids and edge["dst_id"] in ids
        ],
    }


def _notes(data: Mapping[str, Any], scoped: bool) -> dict[str, list[Row]]:
    """The notes of the sample as a text source, with the vectors of its one model."""
    model = data["embedding_model"]
    notes = {
        "text_sources": [
            {"name": NOTES, "configuration": "english", "description": NOTES_DESCRIPTION}
        ],
        "embedding_models": [
            {
                "name": model["name"],
                "dim": model["dim"],
                "distance": model["distance_op"],
                "is_default": model["is_default"],
                "description": MODEL_DESCRIPTION,
            }
        ],
        "passages": [],
        "embeddings": [],
    }
    for chunk in data["chunks"]:
        passage = {name: chunk[name] for name in ("id", "title", "content")}
        notes["passages"].append({"source": NOTES, **passage, **_scope(chunk, scoped)})
        notes["embeddings"].append(
            {
                "source": NOTES,
                "model": model["name"],
                "id": chunk["id"],
                "vector": chunk["embedding"],
            }
        )
    return notes


def _scope(row: Mapping[str, Any], scoped: bool) -> Row:
    org_id = row.get("org") if scoped else None
    return {"org_id": org_id, "visibility": "org", "owner_id": None}


def _typed_node(
    node_id: int, entity_type: str, table: str, row: Mapping[str, Any], scoped: bool
) -> Row:
    return {
        "id": node_id,
        "entity_type": entity_type,
        "claimed_kind": None,
        "soft_name": None,
        "summary": _summary(entity_type, row),
        "handle_number": row["id"],
        **_scope(row, scoped),
        "source_table": SOURCE_PREFIX + table,
        "source_pk": str(row["id"]),
    }


def _soft_node(node_id: int, soft: Mapping[str, Any], scoped: bool) -> Row:
    return {
        "id": node_id,
        "entity_type": None,
        "claimed_kind": fold_key(soft["k"]),
        "soft_name": fold_key(soft["n"]),
        "summary": soft["n"],
        "handle_number": None,
        **_scope(soft, scoped),
        "source_table": None,
        "source_pk": None,
    }


def _edge(number: int, edge: Mapping[str, Any], by_label: Mapping[str, int], scoped: bool) -> Row:
    return {
        "id": number,
        "src_id": by_label[edge["src"]],
        "dst_id": by_label[edge["dst"]],
        "relation": edge["relation"],
        "weight": edge["weight"],
        "memory": None,
        "provenance": {"source": edge["source"]},
        **_scope(edge, scoped),
    }


def _label(entity_type: str, row: Mapping[str, Any]) -> str:
    """What an edge of the sample calls this row: an operator by its code."""
    column = {"operator": "code", "registration": "entry"}.get(entity_type, "name")
    return str(row[column])


def _summary(entity_type: str, row: Mapping[str, Any]) -> str:
    match entity_type:
        case "operator":
            return str(row["name"])
        case "port":
            return f"{row['name']}, {row['country']}"
        case "vessel":
            return f"{row['name']} (IMO {row['imo']})"
    return f"{row['entry']} (IMO {row['imo']})"


def _key_rows(node_id: int, entity_type: str, row: Mapping[str, Any]) -> Iterator[Row]:
    """The keys of a row: codes that are compared exactly have ``is_name`` false."""
    match entity_type:
        case "operator":
            named = [(row["code"], "canonical", True), (row["short"], "short", True)]
        case "port":
            named = [(row["name"], "canonical", True)]
        case "vessel":
            named = [(row["name"], "canonical", True), (row["imo"], "alias", False)]
        case _:
            named = [(row["entry"], "canonical", False), (row["imo"], "alias", False)]
    for key, kind, is_name in named:
        if key is not None:
            yield {"node_id": node_id, "key": fold_key(key), "kind": kind, "is_name": is_name}
