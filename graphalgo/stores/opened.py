"""The store inside a PostgreSQL backend of a caller whose types ask their own policies.

A node that its type's policy denies is not there: no key, handle or name finds it,
no link leads to it, and it counts nowhere. So what the engine makes of this store is
what it would make if the node did not exist.
"""

from __future__ import annotations

from graphalgo.stores import sql
from graphalgo.stores.relational import BLOCK_IDS, BLOCK_LINKS, RelationalStore
from graphalgo.stores.spi import SpiStore

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeAlias

    from graphalgo.engine.protocol import Links, Moment, NodeInfo, NoInfo, RelationLinks
    from graphalgo.p8ql.protocol import Ranking

    # Links in columns, or with their relations.
    Columns: TypeAlias = tuple[Sequence[Any], ...]

MOST = 2**31 - 1
# Far more than any source has; a ranking may ask for some more than it is asked for.
MOST_PASSAGES = 100_000_000
# So many times more are asked for where what is denied took the place of others.
GROWTH = 4

CLOSED = "select o.id from aiq.closed_nodes($1, $2) as o (id)"
CLOSED_PASSAGES = "select o.id from aiq.closed_passages($1, $2) as o (id)"
NEAR_NODES = """
select n.id, coalesce(n.soft_key, s.key) as shown, max(s.similarity) as similarity
from aiq.similar_keys(array[$1], $2) as s
join aiq.nodes_api as n on n.id = s.node_id
group by 1, 2
order by similarity desc, shown
"""
# Who else holds a key of some nodes.
HOLDERS = """
select distinct b.node_id as id
from unnest($1) as f (id)
join aiq.node_keys_api as a on a.node_id = f.id
join aiq.node_keys_api as b on b.key = a.key and b.node_id <> f.id
"""


def _without(text: str, parameter: str) -> str:
    """Return a statement that reads no key of the nodes in a parameter."""
    kept = f"(select node_id, key from aiq.node_keys_api where node_id <> all ({parameter}))"
    return text.replace("aiq.node_keys_api", kept)


SHARED_KEY_LINKS = _without(sql.SHARED_KEY_LINKS, "$4")
SHARED_KEY_DETAILS = _without(sql.SHARED_KEY_DETAILS, "$3")


class OpenedStore(SpiStore):
    """Reads as :class:`SpiStore` does, without what a policy denies the caller.

    Parameters
    ----------
    plpy : module
        The server's own module.
    shared : dict
        The backend's global dictionary `GD`.

    Notes
    -----
    What is denied is asked once a node and call. Where it has taken the place of
    others below a limit, more are asked for until the limit is filled or nothing is
    left.
    """

    def __init__(self, plpy: Any, shared: dict[str, Any]) -> None:
        super().__init__(plpy, shared)
        self._closed: dict[int, bool] = {}

    def _open(self, ids: Iterable[int], evenly: bool = False) -> set[int]:
        """Return those of the nodes that no policy denies.

        With `evenly` every policy is asked, about no node if there is none to ask
        about: what is denied then takes as long as what is missing.
        """
        wanted = set(ids)
        unknown = sorted(wanted - self._closed.keys())
        for start in range(0, len(unknown), BLOCK_IDS):
            self._ask(unknown[start : start + BLOCK_IDS], evenly)
        if evenly and not unknown:
            self._ask([], evenly)
        return {node for node in wanted if not self._closed[node]}

    def _ask(self, ids: list[int], evenly: bool) -> None:
        rows = self._query(CLOSED, ("bigint[]", "boolean"), (ids, evenly))
        closed = {row["id"] for row in rows}
        self._closed.update((node, node in closed) for node in ids)

    def _first_open(
        self,
        fetch: Callable[[int], list[Any]],
        limit: int,
        place: Callable[[Any], int],
        node: Callable[[Any], int],
    ) -> list[Any]:
        """Return the first `limit` open rows of each place, asking for more as needed."""
        asked = limit
        while True:
            rows = fetch(asked)
            opened = self._open(map(node, rows), evenly=True)
            kept: dict[int, list[Any]] = {}
            fetched: dict[int, int] = {}
            for row in rows:
                fetched[place(row)] = fetched.get(place(row), 0) + 1
                if node(row) in opened:
                    kept.setdefault(place(row), []).append(row)
            lacking = any(
                count >= asked and len(kept.get(index, ())) < limit
                for index, count in fetched.items()
            )
            if not lacking or asked >= MOST:
                return [row for index in sorted(kept) for row in kept[index][:limit]]
            asked = min(asked * GROWTH, MOST)

    # Nodes and names.

    def nodes_by_handle(
        self, entity_type: str | None, number: int, as_of: Moment | None
    ) -> list[int]:
        found = super().nodes_by_handle(entity_type, number, as_of)
        opened = self._open(found, evenly=True)
        return [node for node in found if node in opened]

    def nodes_by_key(self, key: str, limit: int) -> list[int]:
        fetch = super().nodes_by_key
        return self._first_open(lambda asked: fetch(key, asked), limit, lambda _: 0, int)

    def near_names(self, name: str, threshold: float, limit: int) -> list[str]:
        rows = self._query(NEAR_NODES, ("text", "real"), (name, threshold))
        opened = self._open((row["id"] for row in rows), evenly=True)
        names = dict.fromkeys(row["shown"] for row in rows if row["id"] in opened)
        return list(names)[:limit]

    def exact_keys(
        self, keys: Sequence[str], kinds: Sequence[str], limit: int
    ) -> list[tuple[int, int, str, str]]:
        fetch = super().exact_keys
        return self._first_open(lambda asked: fetch(keys, kinds, asked), limit, _index, _node)

    def fuzzy_keys(
        self, keys: Sequence[str], threshold: float, limit: int
    ) -> list[tuple[int, int, str, float]]:
        fetch = super().fuzzy_keys
        return self._first_open(lambda asked: fetch(keys, threshold, asked), limit, _index, _node)

    def visible(self, ids: Sequence[int], as_of: Moment | None) -> list[int]:
        found = super().visible(ids, as_of)
        opened = self._open(found)
        return [node for node in found if node in opened]

    # Links.

    def edge_links(
        self,
        frontier: Sequence[int],
        limit: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> Iterator[Links]:
        fetch = super().edge_links
        for block in self._open_links(
            lambda nodes, asked: fetch(nodes, asked, relations, as_of), frontier, limit
        ):
            yield block[0], block[1], block[2]

    def relation_links(
        self,
        frontier: Sequence[int],
        limit: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> Iterator[RelationLinks]:
        fetch = super().relation_links
        for block in self._open_links(
            lambda nodes, asked: fetch(nodes, asked, relations, as_of), frontier, limit
        ):
            yield block[0], block[1], block[2], block[3]

    def over_cap(
        self,
        ids: Sequence[int],
        cap: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> list[int]:
        counts: dict[int, int] = {}
        for sources, _, _ in self.edge_links(ids, cap + 1, relations, as_of):
            for source in sources:
                counts[source] = counts.get(source, 0) + 1
        return [node for node in ids if counts.get(node, 0) > cap]

    def similar_links(
        self, frontier: Sequence[int], threshold: float, limit: int
    ) -> Iterator[Links]:
        fetch = super().similar_links
        for block in self._open_links(
            lambda nodes, asked: fetch(nodes, threshold, asked), frontier, limit
        ):
            yield block[0], block[1], block[2]

    def shared_key_links(self, frontier: Sequence[int], limit: int) -> Iterator[Links]:
        """Yield them; the weights count the holders that are open."""
        types = ("bigint[]", "int", "int", "bigint[]")
        most = max(BLOCK_LINKS, limit)
        parameters = (None, limit, most, self._closed_holders(frontier))
        for row in self._expand(SHARED_KEY_LINKS, types, parameters, limit, frontier):
            yield row["sources"], row["neighbours"], row["weights"]

    def shared_key_details(self, pairs: Sequence[tuple[int, int]]) -> list[str]:
        types = ("bigint[]", "bigint[]", "bigint[]")
        found: list[str] = []
        for start in range(0, len(pairs), BLOCK_IDS):
            block = pairs[start : start + BLOCK_IDS]
            sources, targets = [pair[0] for pair in block], [pair[1] for pair in block]
            closed = self._closed_holders(list(dict.fromkeys(sources)))
            rows = self._query(SHARED_KEY_DETAILS, types, (sources, targets, closed))
            found += [row["key"] for row in rows]
        return found

    def _closed_holders(self, nodes: Sequence[int]) -> list[int]:
        """Return the denied nodes that hold a key of some nodes."""
        holders: set[int] = set()
        for start in range(0, len(nodes), BLOCK_IDS):
            block = list(nodes[start : start + BLOCK_IDS])
            holders.update(row["id"] for row in self._query(HOLDERS, ("bigint[]",), (block,)))
        return sorted(holders - self._open(holders))

    def _open_links(
        self,
        fetch: Callable[[list[int], int], Iterator[Any]],
        frontier: Sequence[int],
        limit: int,
    ) -> Iterator[Columns]:
        """Yield blocks of the first `limit` open links of each node."""
        for block in fetch(list(frontier), limit):
            opened = self._open(block[1])
            kept, lacking = _kept(block, opened, limit, limit)
            for node in lacking:
                kept[node] = self._more_links(fetch, node, limit)
            links = [link for node in kept for link in kept[node]]
            if links:
                yield tuple(zip(*links, strict=True))

    def _more_links(
        self, fetch: Callable[[list[int], int], Iterator[Any]], node: int, limit: int
    ) -> list[tuple[Any, ...]]:
        asked = limit
        while True:
            asked = min(asked * GROWTH, MOST - 1)
            self.check_interrupts()
            kept: dict[int, list[tuple[Any, ...]]] = {}
            lacking: list[int] = []
            for block in fetch([node], asked):
                kept, lacking = _kept(block, self._open(block[1]), limit, asked)
            if not lacking or asked >= MOST - 1:
                return kept.get(node, [])


class OpenedQueryStore(OpenedStore):
    """The same for the dialect, which shows nodes itself and searches passages."""

    def describe_answers(self, ids: Sequence[int]) -> dict[int, NodeInfo | NoInfo]:
        return RelationalStore.describe_answers(self, ids)

    def text_ranking(self, source: str, words: str, limit: int) -> Ranking:
        fetch = super().text_ranking
        return self._open_rows(source, lambda asked: fetch(source, words, asked), limit)

    def vector_ranking(
        self, source: str, model: str, vector: Sequence[float], limit: int
    ) -> Ranking:
        fetch = super().vector_ranking
        return self._open_rows(source, lambda asked: fetch(source, model, vector, asked), limit)

    def approximate_ranking(
        self, source: str, model: str, vector: Sequence[float], limit: int
    ) -> Ranking:
        fetch = super().approximate_ranking
        return self._open_rows(source, lambda asked: fetch(source, model, vector, asked), limit)

    def _open_rows(self, source: str, fetch: Callable[[int], Ranking], limit: int) -> Ranking:
        """Return the first `limit` passages that are open, asking for more as needed."""
        asked = limit
        while True:
            rows = fetch(asked)
            ids = [str(row) for row, _ in rows]
            closed: set[str] = set()
            for start in range(0, len(ids), BLOCK_IDS):
                block = ids[start : start + BLOCK_IDS]
                found = self._query(CLOSED_PASSAGES, ("text", "text[]"), (source, block))
                closed.update(row["id"] for row in found)
            kept = [row for row in rows if str(row[0]) not in closed][:limit]
            if len(kept) == limit or len(rows) < asked or asked >= MOST_PASSAGES:
                return kept
            asked = min(asked * GROWTH, MOST_PASSAGES)


def _index(row: tuple[int, ...]) -> int:
    return row[0]


def _node(row: tuple[int, ...]) -> int:
    return row[1]


def _kept(
    block: Columns, opened: set[int], limit: int, asked: int
) -> tuple[dict[int, list[tuple[Any, ...]]], list[int]]:
    """Return each node's first open links, and the nodes that may have more of them."""
    kept: dict[int, list[tuple[Any, ...]]] = {}
    counts: dict[int, int] = {}
    for link in zip(*block, strict=True):
        links = kept.setdefault(link[0], [])
        counts[link[0]] = counts.get(link[0], 0) + 1
        if link[1] in opened and len(links) < limit:
            links.append(link)
    lacking = [node for node, links in kept.items() if counts[node] >= asked and len(links) < limit]
    return kept, lacking
