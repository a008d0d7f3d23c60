"""Hypothesis strategies for plain graphs and for the arguments of the algorithms.

The graphs are small and nasty: hubs, duplicate weights, self-loops, parallel
edges of different relations, shared keys, soft nodes, unicode names, closed and
future periods, retired nodes, judges' verdicts.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

TYPES = ("alpha", "beta", "gamma")
RELATIONS = ("knows", "part_of", "Zebra", "éclair")
PAST = "2020-01-01T00:00:00+00:00"
MIDDLE = "2022-06-01T00:00:00+00:00"
RECENT = "2024-01-01T00:00:00+00:00"
FUTURE = "2999-01-01T00:00:00+00:00"

# Few weights, so that ties are common; reals that are not doubles among them.
WEIGHT_LIST = [1.0, 1.0, 0.9, 0.5, 0.5, 0.25, 0.1, 1e-3]
NAME_LIST = [
    "meridian dawn", "meridien dawn", "meridian star", "meridian", "bulk harmony",
    "bulk harmonie", "c", "c++", "αθήνα σας", "αθηνα σασ", "straße", "strasse",
    "مریدین", "北京 航运", "北京 航運", "nord½vik", "nordvik", "rotterdam", "roterdam", "🙂🙂", "a",
]  # fmt: skip
CODE_LIST = ["9331802", "9331803", "x-1", "x-2", "nl-2231"]
WEIGHTS = st.sampled_from(WEIGHT_LIST)
NAMES = st.sampled_from(NAME_LIST)
CODES = st.sampled_from(CODE_LIST)


def any_graphs() -> st.SearchStrategy[dict[str, Any]]:
    """Graphs drawn bit by bit, which shrink well, and dense ones."""
    return st.one_of(plain_graphs(), st.integers(0, 2**32).map(dense_graph))


@st.composite
def plain_graphs(draw: st.DrawFn, temporal: bool = True) -> dict[str, Any]:
    """A graph in the plain form, with ids from 1."""
    count = draw(st.integers(2, 14))
    nodes = [_node(draw, node, temporal) for node in range(1, count + 1)]
    ids = [node["id"] for node in nodes]
    return {
        **_vocabulary(),
        "nodes": nodes,
        "keys": _keys(draw, nodes),
        "edges": _edges(draw, ids, temporal),
        "verdicts": _verdicts(draw, ids),
        "distinct": _distinct(draw, ids),
    }


def _vocabulary() -> dict[str, Any]:
    return {
        "entity_types": [{"name": name, "handle_prefix": name[:3].upper()} for name in TYPES],
        "relations": [
            {"src_type": src, "relation": relation, "dst_type": dst}
            for relation in RELATIONS
            for src in TYPES
            for dst in TYPES
        ],
    }


def _node(draw: st.DrawFn, node: int, temporal: bool) -> dict[str, Any]:
    retired = draw(st.sampled_from([None] * 8 + [MIDDLE])) if temporal else None
    if draw(st.integers(0, 4)) == 0:
        # One soft node a kind, name and scope: the id keeps kinds apart.
        return {
            "id": node,
            "entity_type": None,
            "claimed_kind": f"kind{node % 3}" if draw(st.booleans()) else f"own{node}",
            "soft_name": draw(NAMES) + (f" {node}" if draw(st.booleans()) else ""),
            "retired_at": retired,
        }
    return {
        "id": node,
        "entity_type": draw(st.sampled_from(TYPES)),
        "summary": draw(st.one_of(st.none(), NAMES)),
        "retired_at": retired,
    }


def _keys(draw: st.DrawFn, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = []
    for node in nodes:
        if node["entity_type"] is None:
            continue
        keys.append({"node_id": node["id"], "key": f"node {node['id']}", "kind": "alias",
                     "is_name": False})  # fmt: skip
        for name in draw(st.lists(NAMES, max_size=2, unique=True)):
            kind = draw(st.sampled_from(["canonical", "short", "alias"]))
            keys.append({"node_id": node["id"], "key": name, "kind": kind, "is_name": True})
        for code in draw(st.lists(CODES, max_size=1)):
            keys.append({"node_id": node["id"], "key": code, "kind": "alias", "is_name": False})
    return keys


def _edges(draw: st.DrawFn, ids: list[int], temporal: bool) -> list[dict[str, Any]]:
    # A hub: half of all edges have node 1 at one end.
    ends = st.one_of(st.just(1), st.sampled_from(ids))
    # Left to itself, a list has some five elements: dense graphs are asked for.
    fewest = draw(st.sampled_from([0, 15, 40]))
    drawn = draw(
        st.lists(st.tuples(ends, st.sampled_from(ids), st.sampled_from(RELATIONS), WEIGHTS),
                 min_size=fewest, max_size=60)
    )  # fmt: skip
    periods = [(PAST, None)] * 5 + (
        [(PAST, MIDDLE), (RECENT, None), (MIDDLE, FUTURE), (FUTURE, None)] if temporal else []
    )
    open_edges: set[tuple[int, str, int]] = set()
    edges = []
    for src, dst, relation, weight in drawn:
        valid_from, valid_to = draw(st.sampled_from(periods))
        if valid_to is None:
            if (src, relation, dst) in open_edges:
                continue
            open_edges.add((src, relation, dst))
        edges.append(
            {"id": len(edges) + 1, "src_id": src, "dst_id": dst, "relation": relation,
             "weight": weight, "valid_from": valid_from, "valid_to": valid_to}
        )  # fmt: skip
    return edges


def _verdicts(draw: st.DrawFn, ids: list[int]) -> list[dict[str, Any]]:
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=6, unique=True)
    )
    seen = {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}
    return [
        {"node_a": a, "node_b": b, "confidence": draw(st.sampled_from([0.0, 0.5, 0.5, 1.0])),
         "reason": draw(st.sampled_from([None, "same ship", "schön"]))}
        for a, b in sorted(seen)
    ]  # fmt: skip


def _distinct(draw: st.DrawFn, ids: list[int]) -> list[dict[str, Any]]:
    pairs = draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=2))
    kept = {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}
    return [{"node_a": a, "node_b": b} for a, b in sorted(kept)]


def seed_of(node: dict[str, Any]) -> str:
    """A node's handle."""
    if node["entity_type"] is None:
        return f"soft-{node['id']}"
    return f"{node['entity_type'][:3].upper()}-{node['id']}"


def dense_graph(seed: int) -> dict[str, Any]:
    """A graph in the plain form that is the same for the same seed, and never sparse.

    What is drawn element by element is mostly small; this one has up to 16 nodes
    with tens of edges, keys and verdicts between them.
    """
    draw = Random(seed)
    ids = list(range(1, draw.randint(6, 16) + 1))
    nodes: list[dict[str, Any]] = []
    keys: list[dict[str, Any]] = []
    for node in ids:
        if draw.random() < 0.15:
            nodes.append({"id": node, "entity_type": None, "claimed_kind": f"own{node}",
                          "soft_name": draw.choice(NAME_LIST)})  # fmt: skip
            continue
        nodes.append({"id": node, "entity_type": draw.choice(TYPES)})
        for name in draw.sample(NAME_LIST, draw.randint(0, 3)):
            kind = draw.choice(["canonical", "short", "alias"])
            keys.append({"node_id": node, "key": name, "kind": kind, "is_name": True})
        for code in draw.sample(CODE_LIST, draw.randint(0, 2)):
            keys.append({"node_id": node, "key": code, "kind": "alias", "is_name": False})
    edges: dict[tuple[int, str, int], float] = {}
    for _ in range(draw.randint(len(ids), 5 * len(ids))):
        ends = draw.choice([1, draw.choice(ids)]), draw.choice(ids)
        src, dst = draw.sample(ends, 2)
        edges[src, draw.choice(RELATIONS), dst] = draw.choice(WEIGHT_LIST)
    pairs = {tuple(sorted(draw.sample(ids, 2))) for _ in range(draw.randint(0, len(ids)))}
    return {
        **_vocabulary(),
        "nodes": [{**node, "retired_at": None} for node in nodes],
        "keys": keys,
        "edges": [
            {"id": number, "src_id": src, "dst_id": dst, "relation": relation, "weight": weight,
             "valid_from": PAST, "valid_to": None}
            for number, ((src, relation, dst), weight) in enumerate(edges.items(), 1)
        ],
        "verdicts": [
            {"node_a": a, "node_b": b, "confidence": draw.choice([0.0, 0.3, 0.5, 1.0]),
             "reason": draw.choice([None, "same ship"])}
            for a, b in sorted(pairs)
        ],
        "distinct": [
            {"node_a": a, "node_b": b}
            for a, b in sorted({tuple(sorted(draw.sample(ids, 2))) for _ in range(2)})
        ],
    }  # fmt: skip


RELATION_LISTS = st.one_of(st.none(), st.lists(st.sampled_from(RELATIONS), min_size=1, max_size=3))
MOMENTS = st.sampled_from([None, None, None, "2021-01-01T00:00:00+00:00", RECENT])


@st.composite
def joins(draw: st.DrawFn, graph: dict[str, Any]) -> dict[str, Any]:
    """Arguments of an iterated join on that graph."""
    links = draw(
        st.lists(st.sampled_from(["edge", "shared_key", "similar", "judged"]), min_size=1,
                 unique=True)
    )  # fmt: skip
    return {
        "seed": seed_of(draw(st.sampled_from(graph["nodes"]))),
        "target_type": draw(st.sampled_from(TYPES)),
        "max_rounds": draw(st.integers(1, 5)),
        "links": links,
        "similarity": draw(st.sampled_from([0.1, 0.3, 0.5, 0.6, 1.0])),
        "budget": draw(st.sampled_from([1, 2, 3, 5, 500])),
        "degree_cap": draw(st.sampled_from([1, 2, 3, 100])),
        "relations": draw(RELATION_LISTS),
        "as_of": draw(MOMENTS),
        "limit": draw(st.sampled_from([1, 2, 100])),
    }


@st.composite
def walks(draw: st.DrawFn, graph: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a walk on that graph."""
    return {
        "key": seed_of(draw(st.sampled_from(graph["nodes"]))),
        "depth": draw(st.integers(1, 5)),
        "relation": draw(st.one_of(st.none(), st.sampled_from(RELATIONS))),
        "degree_cap": draw(st.sampled_from([1, 2, 3, 100])),
        "limit": draw(st.sampled_from([1, 2, 5, 100])),
        "as_of": draw(MOMENTS),
    }


@st.composite
def lookups(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a lookup."""
    others = st.sampled_from(["kind1/meridian dawn", "", "  Meridian  ", "?"])
    keys = st.one_of(NAMES, CODES, others)
    return {
        "keys": draw(st.lists(keys, max_size=4)),
        "fuzzy": draw(st.booleans()),
        "limit": draw(st.sampled_from([1, 2, 10])),
    }
