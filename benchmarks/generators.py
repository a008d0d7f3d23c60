"""Seeded generators of synthetic graphs with high degrees.

Each makes a :class:`Graph` of plain arrays: node ids run from 1, the same arguments and seed give
the same graph, and any two edges differ in source, relation or target. Nodes are numbered in
random order, so that nothing about a node follows from its id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.names import company_names, zipf_choices

ENTITY_TYPES = {
    "company": "CMP",
    "person": "PSN",
    "site": "SIT",
    # Few nodes are vaults, so that a join that looks for one takes some rounds.
    "vault": "VLT",
    # No node is a grail, so that a join that looks for one takes all its rounds.
    "grail": "GRL",
}
RELATIONS = ("owns", "controls", "supplies", "insures", "audits")
KEY_KINDS = ("canonical", "short", "alias")
SOFT = 255
SOFT_KIND = "mention"

# Weights: most lie on a grid of twenty values, as hand-given confidences do,
# so that ties are the rule; the others are arbitrary.
GRID = 20
GRID_SHARE = 0.75
PARALLEL_SHARE = 0.02
VAULT_SHARE = 0.0005
SOFT_SHARE = 0.02
CODE_SHARE = 0.3


@dataclass
class Graph:
    """A graph as arrays.

    Attributes
    ----------
    kind, seed
        The generator's name and seed.
    node_types : numpy.ndarray
        Per node (node 1 first) the index of its type in `ENTITY_TYPES`, or `SOFT`.
    names : numpy.ndarray
        Per node its name, as folded bytes: the canonical key, or a soft node's bare name.
    key_nodes, key_texts, key_kinds, key_is_name : numpy.ndarray
        The other keys: node id, folded bytes, index in `KEY_KINDS`, and whether it is a name.
    sources, targets, relations, weights : numpy.ndarray
        The edges: node ids, index in `RELATIONS`, and a float32 in (0, 1].
    history : int
        How many closed periods to store before each edge's current one.
    organisations : int
        Of how many organisations the nodes are, by turns; 0: everyone sees them.
    """

    kind: str
    seed: int
    node_types: np.ndarray
    names: np.ndarray
    key_nodes: np.ndarray
    key_texts: np.ndarray
    key_kinds: np.ndarray
    key_is_name: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    relations: np.ndarray
    weights: np.ndarray
    history: int = 0
    organisations: int = 0
    _degrees: np.ndarray | None = field(default=None, repr=False)

    @property
    def node_count(self) -> int:
        """How many nodes."""
        return len(self.node_types)

    @property
    def edge_count(self) -> int:
        """How many current edges."""
        return len(self.sources)

    def degrees(self) -> np.ndarray:
        """Count each node's edges, both ways, a self-loop once; index 0 is unused."""
        if self._degrees is None:
            out = np.bincount(self.sources, minlength=self.node_count + 1)
            back = self.targets[self.targets != self.sources]
            self._degrees = out + np.bincount(back, minlength=self.node_count + 1)
        return self._degrees

    def handle(self, node_id: int) -> str:
        """Give a node's handle."""
        type_number = int(self.node_types[node_id - 1])
        if type_number == SOFT:
            return f"soft-{node_id}"
        return f"{list(ENTITY_TYPES.values())[type_number]}-{node_id}"

    def largest_hub(self) -> int:
        """Give the id of the typed node with the most edges."""
        degrees = self.degrees()[1:].copy()
        degrees[self.node_types == SOFT] = -1
        return int(np.argmax(degrees)) + 1

    def node_of_degree(self, degree: int) -> int:
        """Give the typed node whose degree comes nearest to `degree` (the least id of several)."""
        distance = np.abs(self.degrees()[1:] - degree)
        distance[self.node_types == SOFT] = np.iinfo(distance.dtype).max
        return int(np.argmin(distance)) + 1

    def random_nodes(self, count: int, seed: int) -> list[int]:
        """Choose `count` different typed nodes that have an edge or share a key."""
        linked = self.degrees()[1:] > 0
        linked[self.key_nodes - 1] = True
        eligible = np.flatnonzero(linked & (self.node_types != SOFT)) + 1
        chosen = np.random.default_rng([seed, 7002]).permutation(eligible)[:count]
        return [int(node) for node in chosen]


def power_law(
    nodes: int,
    edges: int,
    seed: int = 1,
    *,
    exponent: float = 0.785,
    source_exponent: float = 0.3,
) -> Graph:
    """A graph whose degrees follow a power law, with hubs.

    An edge's ends are drawn in proportion to rank^-exponent (Chung and Lu's model of a given
    expected degree sequence), so that degrees have a tail of exponent 1 + 1/exponent. Two edges in
    a hundred run parallel to another with another relation, a few lead from a node to itself, three
    nodes in ten hold a code that others hold too, two in a hundred are soft, and about one in two
    thousand is of the type ``vault``.

    Parameters
    ----------
    nodes, edges : int
        The sizes; a million and four million give a largest hub of more than 40,000 edges.
    seed : int
        The same seed gives the same graph.
    exponent, source_exponent : float
        How unequal the targets' and the sources' shares are, from 0 (all alike) to below 1.
    """
    random = np.random.default_rng([seed, 7003])
    by_rank = random.permutation(nodes).astype(np.int64) + 1
    source_order = random.permutation(by_rank)
    parallel = int(edges * PARALLEL_SHARE)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return (
            source_order[zipf_choices(nodes, count, source_exponent, random)],
            by_rank[zipf_choices(nodes, count, exponent, random)],
            zipf_choices(len(RELATIONS), count, 0.7, random),
        )

    sources, targets, relations = _distinct_edges(draw, edges - parallel, nodes)
    beside = random.choice(len(sources), size=parallel, replace=False)
    sources, targets, relations = _with_parallel(sources, targets, relations, beside)
    shortfall = edges - len(sources)
    if shortfall:
        more = _distinct_edges(draw, shortfall, nodes, known=(sources, targets, relations))
        sources, targets, relations = (
            np.concatenate(pair) for pair in zip((sources, targets, relations), more, strict=True)
        )
    order = random.permutation(len(sources))
    key_nodes, key_texts = _codes(nodes, random)
    return Graph(
        kind="power_law",
        seed=seed,
        node_types=_node_types(nodes, random),
        names=company_names(nodes, seed),
        key_nodes=key_nodes,
        key_texts=key_texts,
        key_kinds=np.full(len(key_nodes), KEY_KINDS.index("alias"), dtype=np.uint8),
        key_is_name=np.zeros(len(key_nodes), dtype=bool),
        sources=sources[order],
        targets=targets[order],
        relations=relations[order].astype(np.uint8),
        weights=_weights(len(sources), random),
    )


def star_of_stars(nodes: int, edges: int | None = None, seed: int = 1) -> Graph:
    """A centre with the square root of `nodes` hubs around it, each with as many leaves.

    Parameters
    ----------
    nodes : int
        How many nodes, at least 4.
    edges : int, optional
        How many edges: `nodes` - 1 (the default) or more; the others lead from a leaf to a hub of
        another star.
    seed : int
        The same seed gives the same graph.
    """
    random = np.random.default_rng([seed, 7004])
    ids = random.permutation(nodes).astype(np.int64) + 1
    hubs = max(1, round(np.sqrt(nodes)))
    inner = np.zeros(hubs, dtype=np.int64)
    outer = np.arange(1, nodes, dtype=np.int64)
    parent = np.concatenate([inner, 1 + np.arange(nodes - 1 - hubs, dtype=np.int64) % hubs])
    relations = zipf_choices(len(RELATIONS), nodes - 1, 0.7, random)
    wanted = (nodes - 1 if edges is None else edges) - (nodes - 1)
    sources, targets = ids[parent], ids[outer]
    if wanted > 0:

        def draw(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return (
                ids[random.integers(1 + hubs, nodes, count)],
                ids[random.integers(1, 1 + hubs, count)],
                random.integers(0, len(RELATIONS), count),
            )

        more = _distinct_edges(draw, wanted, nodes, known=(sources, targets, relations))
        sources, targets, relations = (
            np.concatenate(pair) for pair in zip((sources, targets, relations), more, strict=True)
        )
    none = np.zeros(0, dtype=np.int64)
    return Graph(
        kind="star_of_stars",
        seed=seed,
        node_types=_node_types(nodes, random),
        names=company_names(nodes, seed),
        key_nodes=none,
        key_texts=np.zeros(0, dtype="S1"),
        key_kinds=none.astype(np.uint8),
        key_is_name=none.astype(bool),
        sources=sources,
        targets=targets,
        relations=relations.astype(np.uint8),
        weights=_weights(len(sources), random),
    )


def shared_key_bipartite(
    nodes: int, seed: int = 1, *, holders: int = 1000, keys_per_node: int = 3
) -> Graph:
    """Nodes without any edge, joined only through keys with many holders.

    Parameters
    ----------
    nodes : int
        How many nodes.
    seed : int
        The same seed gives the same graph.
    holders : int
        How many nodes hold a key, about; at most `nodes`.
    keys_per_node : int
        How many such keys a node holds, at least 1.
    """
    random = np.random.default_rng([seed, 7005])
    keys = max(keys_per_node, round(nodes * keys_per_node / holders))
    # A node's keys are a random one and those that many steps further on.
    steps = np.cumsum(random.integers(1, max(2, keys // keys_per_node), size=keys_per_node - 1))
    first = random.integers(0, keys, size=nodes)
    chosen = (first[:, None] + np.concatenate([[0], steps])[None, :]) % keys
    key_nodes = np.repeat(np.arange(1, nodes + 1, dtype=np.int64), keys_per_node)
    count = len(key_nodes)
    none = np.zeros(0, dtype=np.int64)
    return Graph(
        kind="shared_key_bipartite",
        seed=seed,
        node_types=_node_types(nodes, random),
        names=company_names(nodes, seed),
        key_nodes=key_nodes,
        key_texts=_numbered("register ", chosen.reshape(-1)),
        key_kinds=np.full(count, KEY_KINDS.index("alias"), dtype=np.uint8),
        key_is_name=np.zeros(count, dtype=bool),
        sources=none,
        targets=none,
        relations=none.astype(np.uint8),
        weights=none.astype(np.float32),
    )


def names_only(nodes: int, seed: int = 1) -> Graph:
    """Nodes with a company-like name each, all different, and nothing else.

    Parameters
    ----------
    nodes : int
        How many nodes.
    seed : int
        The same seed gives the same names.
    """
    graph = shared_key_bipartite(nodes, seed, keys_per_node=1)
    graph.kind = "names_only"
    for attribute in ("key_nodes", "key_texts", "key_kinds", "key_is_name"):
        setattr(graph, attribute, getattr(graph, attribute)[:0])
    return graph


def _distinct_edges(
    draw: Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]],
    count: int,
    nodes: int,
    known: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw until there are `count` different edges, none of them among the known ones."""

    def code(sources: np.ndarray, targets: np.ndarray, relations: np.ndarray) -> np.ndarray:
        return (sources * (nodes + 1) + targets) * len(RELATIONS) + relations

    taken = np.zeros(0, dtype=np.int64) if known is None else np.sort(code(*known))
    codes = np.zeros(0, dtype=np.int64)
    for _attempt in range(100):
        missing = count - len(codes)
        if missing <= 0:
            break
        drawn = code(*draw(missing + missing // 10 + 16))
        drawn = drawn[~np.isin(drawn, taken, assume_unique=False)]
        together = np.concatenate([codes, drawn])
        _values, first = np.unique(together, return_index=True)
        codes = together[np.sort(first)][:count]
    if len(codes) < count:
        raise ValueError(f"{nodes} nodes have no room for {count} different edges of this kind")
    pairs, relations = np.divmod(codes, len(RELATIONS))
    sources, targets = np.divmod(pairs, nodes + 1)
    return sources, targets, relations


def _with_parallel(
    sources: np.ndarray, targets: np.ndarray, relations: np.ndarray, beside: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add, beside the edges numbered in `beside`, one of the next relation where there is none."""
    nodes = int(max(sources.max(initial=0), targets.max(initial=0))) + 1
    existing = (sources * nodes + targets) * len(RELATIONS) + relations
    other = (relations[beside] + 1) % len(RELATIONS)
    codes = (sources[beside] * nodes + targets[beside]) * len(RELATIONS) + other
    new = np.setdiff1d(codes, existing)
    pairs, more_relations = np.divmod(new, len(RELATIONS))
    more_sources, more_targets = np.divmod(pairs, nodes)
    return (
        np.concatenate([sources, more_sources]),
        np.concatenate([targets, more_targets]),
        np.concatenate([relations, more_relations]),
    )


def _weights(count: int, random: np.random.Generator) -> np.ndarray:
    grid = random.integers(1, GRID + 1, count).astype(np.float32) / np.float32(GRID)
    # 1 - [0, 1) is (0, 1]; the least double there is too small for no real.
    free = np.maximum((1.0 - random.random(count)).astype(np.float32), np.float32(1e-6))
    return np.where(random.random(count) < GRID_SHARE, grid, free).astype(np.float32)


def _node_types(nodes: int, random: np.random.Generator) -> np.ndarray:
    names = list(ENTITY_TYPES)
    draws = random.random(nodes)
    types = np.full(nodes, names.index("company"), dtype=np.uint8)
    types[draws < 0.40] = names.index("person")
    types[draws < 0.15] = names.index("site")
    types[draws < SOFT_SHARE] = SOFT
    vaults = max(1, int(nodes * VAULT_SHARE))
    types[random.choice(nodes, size=vaults, replace=False)] = names.index("vault")
    return types


def _codes(nodes: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Codes that several nodes hold: most by a few, some by hundreds."""
    holders = int(nodes * CODE_SHARE)
    key_nodes = np.sort(random.permutation(nodes)[:holders].astype(np.int64) + 1)
    numbers = zipf_choices(max(1, holders // 3), holders, 0.5, random)
    return key_nodes, _numbered("nr ", numbers)


def _numbered(prefix: str, numbers: np.ndarray) -> np.ndarray:
    """Write each number, zero-padded, after the prefix."""
    return np.array([f"{prefix}{number:07d}".encode() for number in numbers.tolist()])


GENERATORS: dict[str, Callable[..., Graph]] = {
    "power_law": power_law,
    "star_of_stars": star_of_stars,
    "shared_key_bipartite": shared_key_bipartite,
    "names_only": names_only,
}
