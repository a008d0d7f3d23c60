"""The walk: everything within a few hops of a node, by the strongest edges."""

from __future__ import annotations

from graphalgo.engine import arguments
from graphalgo.engine.ordering import smallest
from graphalgo.engine.rows import WalkRow
from graphalgo.engine.seed import resolve_seed

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from graphalgo.engine.protocol import Moment, Store

    # How a node is reached at its depth, so made that the better of two is the
    # smaller: -weight, relations on the way, the node it comes from.
    Arrival: TypeAlias = tuple[float, tuple[str, ...], int]

BLOCK_ROWS = 2_000


def walk(
    store: Store,
    key: str,
    depth: int = 1,
    relation: str | None = None,
    degree_cap: int = 100,
    limit: int = 100,
    as_of: Moment | None = None,
) -> list[WalkRow]:
    """Return everything within `depth` hops of a node, edges walked both ways.

    Parameters
    ----------
    store : Store
        What the caller sees.
    key : str
        A handle, a soft node's `kind/name`, or a key that names exactly one node.
    depth : int
        The most hops, from 1 to 5.
    relation : str, optional
        Walk only edges of this relation, at every hop.
    degree_cap : int
        The most edges out of one node, the strongest, from 1 to 100,000.
    limit : int
        The most rows, at least 1.
    as_of : moment, optional
        Walk the edges that held then.

    Returns
    -------
    list of WalkRow
        Each node once, by its least depth, then the highest weight (the product
        along the path), then the path's relations by code point, then the id; in
        that order. `capped` says that a node on the way that was expanded, or is
        one that the depth would expand, has more edges than the cap.

    Raises
    ------
    InvalidValue
        An argument is null or out of its range (22023).
    UnknownName
        The relation is not declared (42704).
    NotFound, Ambiguous
        The key names no node (P0002), or several (21000).

    Notes
    -----
    A breadth-first search (Moore 1959) that expands one depth at a time and stops
    as soon as the depths it has seen fill `limit`: deeper rows would come after
    them. Each expanded node costs at most degree_cap + 1 edges.
    """
    with store.reading():
        return _walk(store, key, depth, relation, degree_cap, limit, as_of)


def _walk(
    store: Store,
    key: str,
    depth: int,
    relation: str | None,
    degree_cap: int,
    limit: int,
    as_of: Moment | None,
) -> list[WalkRow]:
    whole = arguments.whole_number
    deepest = whole("p_depth", depth, 1, arguments.MAX_DEPTH, 2)
    cap = whole("p_degree_cap", degree_cap, 1, arguments.MAX_DEGREE_CAP, 100)
    limit = whole("p_limit", limit, 1, arguments.MAX_INTEGER, 100)
    relations = None
    if relation is not None:
        relations = [arguments.declared_relation("p_relation", relation, store.relation_names())]
    start = resolve_seed(store, "p_key", key, as_of)
    levels = _Levels(store, start, cap, relations, as_of)
    while len(levels.levels) <= deepest and levels.found < limit and levels.levels[-1]:
        levels.expand()
    return levels.rows(deepest, limit)


class _Levels:
    """The nodes by depth, the start's own first, and the nodes whose edges the cap cut."""

    def __init__(
        self,
        store: Store,
        start: int,
        cap: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> None:
        self.store = store
        self.cap = cap
        self.relations = relations
        self.as_of = as_of
        self.levels: list[dict[int, Arrival]] = [{start: (-1.0, (), start)}]
        self.seen = {start}
        self.cut: set[int] = set()
        self.found = 0

    def expand(self) -> None:
        """Expand the deepest level into the next."""
        last = self.levels[-1]
        blocks = self.store.relation_links(list(last), self.cap + 1, self.relations, self.as_of)
        level: dict[int, Arrival] = {}
        for block in blocks:
            self._take(last, level, *block)
        self.levels.append(level)
        self.seen.update(level)
        self.found += len(level)

    def _take(
        self,
        last: dict[int, Arrival],
        level: dict[int, Arrival],
        sources: Sequence[int],
        neighbours: Sequence[int],
        weights: Sequence[float],
        relations: Sequence[str],
    ) -> None:
        """Take one block of edges into the next level."""
        seen = self.seen
        source = None
        left = 0
        so_far, path = -1.0, ()  # type: tuple[float, tuple[str, ...]]
        for from_node, node, weight, relation in zip(
            sources, neighbours, weights, relations, strict=True
        ):
            if from_node != source:
                source, left = from_node, self.cap
                so_far, path, _ = last[from_node]
            if not left:
                self.cut.add(from_node)
                continue
            left -= 1
            negative = so_far * weight
            known = level.get(node)
            if known is None:
                if node in seen:
                    continue
            elif negative > known[0]:
                continue
            arrival = (negative, (*path, relation), from_node)
            if known is None or arrival < known:
                level[node] = arrival

    def rows(self, deepest: int, limit: int) -> list[WalkRow]:
        """Return the first `limit` rows in order."""
        rows: list[WalkRow] = []
        for depth in range(1, len(self.levels)):
            # -weight, path, node, the node before it.
            ordered = smallest(
                (
                    (negative, path, node, before)
                    for node, (negative, path, before) in self.levels[depth].items()
                ),
                limit - len(rows),
                self.store.check_interrupts,
            )
            for first in range(0, len(ordered), BLOCK_ROWS):
                if first:
                    self.store.check_interrupts()
                block = ordered[first : first + BLOCK_ROWS]
                rows += self._level_rows(depth, deepest, block)
        return rows

    def _level_rows(
        self, depth: int, deepest: int, block: Sequence[tuple[float, tuple[str, ...], int, int]]
    ) -> Iterator[WalkRow]:
        infos = self.store.describe_answers([node for _, _, node, _ in block])
        capped = {node for _, _, node, before in block if self._cut_before(depth, before)}
        open_nodes = [node for _, _, node, _ in block if node not in capped]
        if depth < len(self.levels) - 1:
            capped.update(node for node in open_nodes if node in self.cut)
        elif depth < deepest:
            # The limit was reached before these were expanded.
            capped.update(self.store.over_cap(open_nodes, self.cap, self.relations, self.as_of))
        for negative, path, node, _ in block:
            handle, key, entity_type, summary = infos[node]
            yield WalkRow(
                depth, node, handle, key, entity_type, summary, list(path), -negative,
                node in capped,
            )  # fmt: skip

    def _cut_before(self, depth: int, node: int) -> bool:
        """Say whether the cap cut a node on the way to one at `depth` that comes from `node`."""
        while depth > 0:
            if node in self.cut:
                return True
            depth -= 1
            node = self.levels[depth][node][2]
        return False
