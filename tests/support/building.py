"""Small graphs written by hand, a line a node or an edge."""

from __future__ import annotations

from typing import Any

from graphalgo.engine.join import Search
from graphalgo.engine.rows import JoinRow
from graphalgo.stores.memory import MemoryStore
from tests.support.engine import Bound

# The type that a join looks for, and the type of everything on the way.
GOAL = "goal"
THING = "thing"
PREFIXES = {GOAL: "G", THING: "T", "person": "P"}
RELATIONS = ("knows", "owns", "part_of", "Zebra", "éclair")


class Building:
    """A graph in the plain form, with the types `thing`, `goal` and `person`.

    Every relation is declared between all of them.
    """

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.keys: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self.verdicts: list[dict[str, Any]] = []

    def things(self, *ids: int) -> Building:
        """Add nodes that are on the way."""
        for node in ids:
            self.node(node)
        return self

    def goals(self, *ids: int) -> Building:
        """Add nodes of the type that is looked for."""
        for node in ids:
            self.node(node, GOAL)
        return self

    def node(
        self, node_id: int, entity_type: str = THING, *names: str, retired_at: str | None = None
    ) -> Building:
        """Add a node with canonical names."""
        self.nodes.append({"id": node_id, "entity_type": entity_type, "retired_at": retired_at})
        for name in names:
            self.key(node_id, name)
        return self

    def soft(self, node_id: int, kind: str, name: str, retired_at: str | None = None) -> Building:
        """Add a soft node."""
        self.nodes.append(
            {"id": node_id, "entity_type": None, "claimed_kind": kind, "soft_name": name,
             "retired_at": retired_at}
        )  # fmt: skip
        return self

    def key(
        self, node_id: int, key: str, kind: str = "canonical", is_name: bool = True
    ) -> Building:
        """Give a node a key."""
        self.keys.append({"node_id": node_id, "key": key, "kind": kind, "is_name": is_name})
        return self

    def code(self, key: str, *node_ids: int) -> Building:
        """Give nodes a key that is no name."""
        for node in node_ids:
            self.key(node, key, "alias", is_name=False)
        return self

    def edge(
        self,
        src: int,
        dst: int,
        weight: float = 1.0,
        relation: str = "knows",
        edge_id: int | None = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
    ) -> Building:
        """Add an edge; ids go on from 1."""
        self.edges.append(
            {"id": len(self.edges) + 1 if edge_id is None else edge_id, "src_id": src,
             "dst_id": dst, "relation": relation, "weight": weight, "valid_from": valid_from,
             "valid_to": valid_to}
        )  # fmt: skip
        return self

    def verdict(
        self, node_a: int, node_b: int, confidence: float, reason: str | None = None
    ) -> Building:
        """Add what a judge has said of two nodes."""
        self.verdicts.append(
            {"node_a": node_a, "node_b": node_b, "confidence": confidence, "reason": reason}
        )
        return self

    @property
    def plain(self) -> dict[str, Any]:
        """The graph in the plain form."""
        return {
            "entity_types": [
                {"name": name, "handle_prefix": prefix} for name, prefix in PREFIXES.items()
            ],
            "relations": [
                {"src_type": src, "relation": relation, "dst_type": dst}
                for relation in RELATIONS
                for src in PREFIXES
                for dst in PREFIXES
            ],
            "nodes": self.nodes,
            "keys": self.keys,
            "edges": self.edges,
            "verdicts": self.verdicts,
        }

    def store(self) -> MemoryStore:
        """The graph in memory."""
        return MemoryStore.from_dict(self.plain)

    def bound(self) -> Bound:
        """The algorithms on the graph in memory."""
        return Bound(self.store())

    def join(
        self, seed: str, links: tuple[str, ...] = ("edge",), **arguments: Any
    ) -> list[JoinRow]:
        """Run an iterated join to the goals, over edges alone if nothing else is asked."""
        return self.bound().iterated_join(seed, GOAL, links=links, **arguments)

    def search(
        self, seed: str, links: tuple[str, ...] = ("edge",), target: str = GOAL, **arguments: Any
    ) -> Search:
        """Run an iterated join and return it whole."""
        return run_search(self.store(), seed, target, links=links, **arguments)


def run_search(
    store: MemoryStore, seed: str, target: str, *, rounds: int | None = None, **arguments: Any
) -> Search:
    """Run a join, past the most rounds that a caller may ask for if `rounds` says so."""
    given: dict[str, Any] = {
        "max_rounds": 3, "links": ("edge",), "similarity": 0.6, "budget": 500,
        "degree_cap": 100, "relations": None, "as_of": None, "limit": 100, **arguments,
    }  # fmt: skip
    with store.reading():
        search = Search(store, seed, target, **given)
        if rounds is not None:
            search.max_rounds = rounds
        search.run()
    return search


def ids(rows: list[Any]) -> list[int]:
    """The rows' nodes, in order."""
    return [row.node_id for row in rows]


def hops(row: JoinRow) -> list[tuple[int, int]]:
    """The ends of each hop of a row's path."""
    assert row.path is not None
    return [(hop["from"], hop["to"]) for hop in row.path]
