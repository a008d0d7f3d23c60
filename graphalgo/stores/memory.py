"""The store in memory: the twin of the database's tables.

Everything in it is visible. It loads from Python calls, from JSON (for a caller, only
what that caller sees), and from networkx graphs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from json import JSONDecodeError, loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphalgo.engine.arguments import shown
from graphalgo.engine.errors import GraphAlgoError, InvalidValue, NotFound, UnknownName
from graphalgo.engine.folding import fold_key
from graphalgo.engine.seed import SOFT_PREFIX
from graphalgo.engine.trigram import ratio, real, similarity, similarity_of, trigrams
from graphalgo.stores.memory_texts import MemoryTexts
from graphalgo.stores.moments import known_moment
from graphalgo.stores.relational import missing_judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import networkx

    from graphalgo.engine.protocol import Links, Moment, NodeInfo, NoInfo, RelationLinks, Verdicts
    from graphalgo.names.keeping import KeptNames

    Judge = Callable[[Sequence[int]], Iterable[tuple[int | None, int | None, float | None, Any]]]

KEY_KINDS = ("canonical", "short", "alias")
BLOCK_LINKS = 20_000
MAX_KEY_BYTES = 2_000
# New names that are kept as arrays all at once, where numpy is there.
MANY_NAMES = 5_000


class _Node:
    __slots__ = ("entity_type", "keys", "number", "retired_at", "soft_key", "soft_name", "summary")

    def __init__(
        self,
        entity_type: str | None,
        soft_name: str | None,
        soft_key: str | None,
        number: int,
        summary: str | None,
        retired_at: datetime | None,
    ) -> None:
        self.entity_type = entity_type
        self.soft_name = soft_name
        self.soft_key = soft_key
        self.number = number
        self.summary = summary
        self.retired_at = retired_at
        # Key -> (kind, is it a name).
        self.keys: dict[str, tuple[str, bool]] = {}


class _Edge:
    __slots__ = ("dst", "ends_at", "id", "relation", "src", "valid_from", "weight")

    def __init__(
        self,
        identifier: int,
        src: int,
        dst: int,
        relation: str,
        weight: float,
        valid_from: datetime | None,
        ends_at: datetime | None,
    ) -> None:
        self.id = identifier
        self.src = src
        self.dst = dst
        self.relation = relation
        self.weight = weight
        self.valid_from = valid_from
        self.ends_at = ends_at

    def holds(self, moment: datetime) -> bool:
        return (self.valid_from is None or self.valid_from <= moment) and (
            self.ends_at is None or self.ends_at > moment
        )


class MemoryStore(MemoryTexts):
    """Nodes, keys, edges and texts in memory, for the engine to run on outside a database.

    Attributes
    ----------
    link_judge : callable, optional
        What answers `judged` links: called with the frontier's node ids, it gives
        (node id, linked id, confidence, reason) tuples.

    Notes
    -----
    The strongest edges of a node come off a sorted list, names off an inverted
    index of trigrams (ScanCount; Li, Lu, Lu 2008), of which the bulk is kept as arrays
    where numpy is there (:mod:`graphalgo.names`).
    """

    def __init__(self) -> None:
        super().__init__()
        self.link_judge: Judge | None = None
        self._types: dict[str, str] = {}
        self._type_descriptions: dict[str, str | None] = {}
        # (type, relation, type) -> inverse label, description.
        self._relations: dict[tuple[str, str, str], tuple[str | None, str | None]] = {}
        self._nodes: dict[int, _Node] = {}
        self._handles: dict[tuple[str | None, int], int] = {}
        self._holders: dict[str, list[int]] = {}
        self._soft_by_name: dict[str, list[int]] = {}
        self._soft_by_key: dict[str, list[int]] = {}
        # Node -> (-weight, neighbour, relation, direction, edge id, edge), sorted.
        self._adjacent: dict[int, list[tuple[float, int, str, int, int, _Edge]]] = {}
        self._unsorted: set[int] = set()
        self._edge_count = 0
        self._names: dict[str, frozenset[str]] = {}
        # Names that are not kept as arrays: all, where there are few or numpy is not there.
        self._new_names: list[str] = []
        self._names_by_trigram: dict[str, list[str]] = {}
        self._kept: KeptNames | None = None
        self._may_keep = True
        self._distinct: set[tuple[int, int]] = set()
        self._now = datetime.now(UTC)

    # Building.

    def add_entity_type(
        self, name: str, handle_prefix: str, description: str | None = None
    ) -> None:
        """Register an entity type; its prefix must be its own, whatever its case."""
        letters = handle_prefix.replace("_", "a")
        if not (letters.isascii() and letters.isalnum() and handle_prefix[0].isalpha()) or (
            handle_prefix.lower() == SOFT_PREFIX
        ):
            raise InvalidValue(
                f'"{handle_prefix}" cannot be a handle prefix',
                "Write ASCII letters, digits and underscores after a letter, other than soft.",
            )
        for other, prefix in self._types.items():
            if other != name and prefix.lower() == handle_prefix.lower():
                raise InvalidValue(
                    f'handle prefix "{handle_prefix}" belongs to entity type "{other}"',
                    "Give each entity type a prefix of its own.",
                )
        self._types[name] = handle_prefix
        self._type_descriptions[name] = description

    def add_relation(
        self,
        src_type: str,
        relation: str,
        dst_type: str,
        *,
        inverse_label: str | None = None,
        description: str | None = None,
    ) -> None:
        """Declare that a relation may stand between two entity types."""
        for name in (src_type, dst_type):
            if name not in self._types:
                raise UnknownName(f'"{name}" is not a registered entity type', "Register it first.")
        self._relations[src_type, relation, dst_type] = inverse_label, description

    def add_node(
        self,
        node_id: int,
        entity_type: str,
        *,
        summary: str | None = None,
        handle_number: int | None = None,
        retired_at: datetime | str | None = None,
    ) -> int:
        """Add a typed node and return its id.

        Raises
        ------
        InvalidValue
            The id or the handle is taken (22023).
        UnknownName
            The type is not registered (42704).
        """
        if entity_type not in self._types:
            raise UnknownName(
                f'"{entity_type}" is not a registered entity type', "Register it first."
            )
        number = node_id if handle_number is None else handle_number
        node = _Node(entity_type, None, None, number, summary, _moment(retired_at))
        self._place(node_id, (entity_type, number), node)
        return node_id

    def add_soft_node(
        self,
        node_id: int,
        claimed_kind: str,
        name: str,
        *,
        summary: str | None = None,
        retired_at: datetime | str | None = None,
    ) -> int:
        """Add a soft node of a kind and a bare name and return its id."""
        soft_name = fold_key(name)
        soft_key = f"{fold_key(claimed_kind)}/{soft_name}"
        shown = name if summary is None else summary
        node = _Node(None, soft_name, soft_key, node_id, shown, _moment(retired_at))
        self._place(node_id, (None, node_id), node)
        if node.retired_at is None:
            insort(self._soft_by_name.setdefault(soft_name, []), node_id)
            insort(self._soft_by_key.setdefault(soft_key, []), node_id)
        self.add_key(node_id, name, kind="alias", is_name=True)
        return node_id

    def add_key(
        self, node_id: int, key: str, *, kind: str = "canonical", is_name: bool = True
    ) -> None:
        """Add a key to a node, folded; a node holds each key once.

        Raises
        ------
        InvalidValue
            The kind is unknown, or the key is empty or too long (22023).
        NotFound
            The node is not there (P0002).
        """
        if kind not in KEY_KINDS:
            raise InvalidValue(f'"{kind}" is not a kind of key', "Write canonical, short or alias.")
        node = self._node(node_id)
        folded = fold_key(key)
        if not folded or len(folded.encode()) > MAX_KEY_BYTES:
            raise InvalidValue(
                f'key "{key[:60]}" is empty or longer than {MAX_KEY_BYTES} bytes',
                "Write a shorter key.",
            )
        if folded in node.keys:
            return
        node.keys[folded] = (kind, is_name)
        if node.retired_at is not None:
            return
        insort(self._holders.setdefault(folded, []), node_id)
        if is_name and folded not in self._names:
            self._names[folded] = trigrams(folded)
            self._new_names.append(folded)
            for trigram in self._names[folded]:
                self._names_by_trigram.setdefault(trigram, []).append(folded)

    def add_edge(
        self,
        src_id: int,
        dst_id: int,
        relation: str,
        weight: float = 1.0,
        *,
        edge_id: int | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
    ) -> int:
        """Add an edge and return its id.

        Raises
        ------
        InvalidValue
            The weight is outside (0, 1] (22023).
        NotFound
            An end is not there (P0002).
        UnknownName
            The relation is not declared for the ends' types (42704).
        """
        source, target = self._node(src_id), self._node(dst_id)
        rounded = real(weight) if 0 < weight <= 1 else 0.0
        if not rounded:
            raise InvalidValue(
                f"weight is {weight}, but must be above 0 and at most 1", "Write for example 1.0."
            )
        self._check_relation(relation, source.entity_type, target.entity_type)
        ends = [
            moment
            for moment in (_moment(valid_to), source.retired_at, target.retired_at)
            if moment is not None
        ]
        self._edge_count += 1
        edge = _Edge(
            self._edge_count if edge_id is None else edge_id,
            src_id,
            dst_id,
            relation,
            rounded,
            _moment(valid_from),
            min(ends, default=None),
        )
        places = [(src_id, dst_id, 0)]
        if src_id != dst_id:
            places.append((dst_id, src_id, 1))
        for here, there, direction in places:
            self._adjacent.setdefault(here, []).append(
                (-rounded, there, relation, direction, edge.id, edge)
            )
            self._unsorted.add(here)
        return edge.id

    @classmethod
    def from_dict(
        cls,
        graph: Mapping[str, Any],
        *,
        sub: str | None = None,
        orgs: Sequence[str] | None = None,
    ) -> MemoryStore:
        """Build a store from a graph as plain lists, or from the harbour sample's form.

        The plain form has `entity_types`, `relations`, `nodes`, `keys`, `edges` and,
        where there are any, `verdicts` and `distinct`, each a list of objects with the
        columns of the tables of that name; and `text_sources` (`name`,
        `configuration`), `passages` (`source`, `id`, `title`, `content`),
        `embedding_models` (`name`, `dim`, `distance`, `is_default`, `description`) and
        `embeddings` (`source`, `model`, `id`, `vector`).

        Parameters
        ----------
        graph : mapping
            Of either form.
        sub : str, optional
            The user who asks: the store then holds what they see, by `org_id`,
            `visibility` and `owner_id` of nodes, edges and passages, and by `members`
            (`org`, `user`). Without a user it holds everything.
        orgs : sequence of str, optional
            Of the user's organisations only these.

        Raises
        ------
        InvalidValue, NotFound, UnknownName
            As the methods that add do, naming the list and the entry; so is an
            entry that is not an object, or lacks a column.
        """
        if "tables" in graph:
            from graphalgo.samples.harbour import graph_from_harbour  # noqa: PLC0415

            try:
                members = graph.get("members", ())
                graph = graph_from_harbour(dict(graph), scoped=sub is not None)
                graph = {**graph, "members": members}
            except (AttributeError, KeyError, TypeError) as error:
                raise InvalidValue(
                    f"the graph has tables, but is not in the harbour sample's form: {error!r}",
                    "Write the plain form: entity_types, relations, nodes, keys and edges.",
                ) from error
        caller = None
        if sub is not None:
            from graphalgo.stores.memory_callers import Caller  # noqa: PLC0415

            caller = Caller(sub, orgs, graph.get("members", ()))
        store = cls()
        for name, add in (
            ("entity_types", store._add_type_from),
            ("relations", store._add_relation_from),
            ("nodes", store._add_node_from),
            ("keys", store._add_key_from),
            ("edges", store._add_edge_from),
            ("distinct", store._add_distinct_from),
            ("text_sources", store._add_source_from),
            ("passages", store._add_passage_from),
            ("embedding_models", store._add_model_from),
            ("embeddings", store._add_embedding_from),
        ):
            _add_entries(name, graph.get(name, ()), caller.only(name, add) if caller else add)
        if verdicts := graph.get("verdicts"):
            store.judge_by(filter(caller.shows_pair, verdicts) if caller else verdicts)
        return store

    @classmethod
    def from_json(
        cls,
        source: str | Path | Mapping[str, Any],
        *,
        sub: str | None = None,
        orgs: Sequence[str] | None = None,
    ) -> MemoryStore:
        """Build a store from a JSON file, or from its contents as a dictionary.

        `sub` and `orgs` are those of :meth:`from_dict`.

        Raises
        ------
        InvalidValue
            The file is not a JSON object (22023), or as :meth:`from_dict`.
        OSError
            The file cannot be read.
        """
        if isinstance(source, Mapping):
            return cls.from_dict(source, sub=sub, orgs=orgs)
        path = Path(source)
        try:
            graph = loads(path.read_text(encoding="utf-8"))
        except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidValue(
                f"{path} is not JSON: {error}", "Give a file with one JSON object."
            ) from error
        if not isinstance(graph, dict):
            raise InvalidValue(
                f"{path} holds a {type(graph).__name__}, but must hold a JSON object",
                "Write the lists entity_types, relations, nodes, keys and edges in one object.",
            )
        return cls.from_dict(graph, sub=sub, orgs=orgs)

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph[Any],
        *,
        entity_type: str = "node",
        relation: str = "edge",
    ) -> MemoryStore:
        """Build a store from a networkx graph.

        A node's id is the graph's own where every node is a whole number, else its
        place from 1; its canonical key is `str(node)`, a name unless the node is a
        number. Attributes are read where they are there: of nodes `entity_type`
        and `summary`, of edges `relation` and `weight`. An undirected edge goes
        from its first node to its second.

        Cost: O(n + m).
        """
        store = cls()
        nodes = list(graph.nodes(data=True))
        numbered = all(isinstance(node, int) and not isinstance(node, bool) for node, _ in nodes)
        ids = {node: node if numbered else place for place, (node, _) in enumerate(nodes, 1)}
        types = {node: str(data.get("entity_type", entity_type)) for node, data in nodes}
        for place, name in enumerate(sorted(set(types.values())), 1):
            store.add_entity_type(name, f"T{place}")
        for node, data in nodes:
            store.add_node(ids[node], types[node], summary=data.get("summary"))
            store.add_key(ids[node], str(node), is_name=not numbered)
        for src, dst, data in graph.edges(data=True):
            name = str(data.get("relation", relation))
            store._relations[types[src], name, types[dst]] = None, None
            store.add_edge(ids[src], ids[dst], name, data.get("weight", 1.0))
        return store

    def _add_type_from(self, row: Mapping[str, Any]) -> None:
        self.add_entity_type(row["name"], row["handle_prefix"], row.get("description"))

    def _add_relation_from(self, row: Mapping[str, Any]) -> None:
        self.add_relation(
            row["src_type"],
            row["relation"],
            row["dst_type"],
            inverse_label=row.get("inverse_label"),
            description=row.get("description"),
        )

    def _add_node_from(self, row: Mapping[str, Any]) -> None:
        if row.get("entity_type") is None:
            self.add_soft_node(
                row["id"],
                row["claimed_kind"],
                row["soft_name"],
                summary=row.get("summary"),
                retired_at=row.get("retired_at"),
            )
        else:
            self.add_node(
                row["id"],
                row["entity_type"],
                summary=row.get("summary"),
                handle_number=row.get("handle_number"),
                retired_at=row.get("retired_at"),
            )

    def _add_key_from(self, row: Mapping[str, Any]) -> None:
        self.add_key(
            row["node_id"],
            row["key"],
            kind=row.get("kind", "canonical"),
            is_name=row.get("is_name", True),
        )

    def _add_distinct_from(self, row: Mapping[str, Any]) -> None:
        self.record_distinct(row["node_a"], row["node_b"])

    def _add_edge_from(self, row: Mapping[str, Any]) -> None:
        self.add_edge(
            row["src_id"],
            row["dst_id"],
            row["relation"],
            row.get("weight", 1.0),
            edge_id=row.get("id"),
            valid_from=row.get("valid_from"),
            valid_to=row.get("valid_to"),
        )

    def _place(self, node_id: int, handle: tuple[str | None, int], node: _Node) -> None:
        if node_id in self._nodes or handle in self._handles:
            raise InvalidValue(
                f"node {node_id} or its handle is there already", "Give each node its own id."
            )
        self._nodes[node_id] = node
        self._handles[handle] = node_id

    def _node(self, node_id: int) -> _Node:
        try:
            return self._nodes[node_id]
        except KeyError:
            raise NotFound(f"there is no node {node_id}", "Add the node first.") from None

    def _check_relation(self, relation: str, src_type: str | None, dst_type: str | None) -> None:
        if src_type is None or dst_type is None:
            declared = any(name == relation for _, name, _ in self._relations)
        else:
            declared = (src_type, relation, dst_type) in self._relations
        if not declared:
            shown = [f'"{kind}"' if kind else "a soft node" for kind in (src_type, dst_type)]
            raise UnknownName(
                f'relation "{relation}" is not declared from {shown[0]} to {shown[1]}',
                "Declare it, or write a relation that is declared for these types.",
            )

    def judge_by(self, verdicts: Iterable[Mapping[str, Any]]) -> None:
        """Answer `judged` links from verdicts (`node_a`, `node_b`, `confidence`, `reason`).

        Each holds either way, and only between nodes that are not retired.
        """
        by_node: dict[int, list[tuple[int, int, float, str | None]]] = {}
        for verdict in verdicts:
            pair = verdict["node_a"], verdict["node_b"]
            if len(self.visible(pair, None)) < len(pair):
                continue
            for node, linked in (pair, pair[::-1]):
                by_node.setdefault(node, []).append(
                    (node, linked, verdict["confidence"], verdict.get("reason"))
                )
        self.link_judge = lambda nodes: (
            verdict for node in nodes for verdict in by_node.get(node, ())
        )

    def record_distinct(self, node_a: int, node_b: int) -> None:
        """Remember that two nodes are not the same: `similar` and `judged` never link them."""
        for node in (node_a, node_b):
            self._node(node)
        self._distinct.update({(node_a, node_b), (node_b, node_a)})

    # What the engine asks.

    def reading(self) -> MemoryStore:
        return self

    def __enter__(self) -> MemoryStore:
        self._now = datetime.now(UTC)
        for node in self._unsorted:
            self._adjacent[node].sort(key=lambda link: link[:5])
        self._unsorted.clear()
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing is held."""

    def check_interrupts(self) -> None:
        """Python itself can be interrupted."""

    def entity_types(self) -> list[tuple[str, str]]:
        return sorted(self._types.items())

    def relation_names(self) -> list[str]:
        return sorted({relation for _, relation, _ in self._relations})

    def entity_type_rows(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "handle_prefix": prefix, "description": self._type_descriptions[name]}
            for name, prefix in self.entity_types()
        ]

    def relation_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "src_type": src_type,
                "relation": relation,
                "dst_type": dst_type,
                "inverse_label": inverse_label,
                "description": description,
            }
            for (src_type, relation, dst_type), (inverse_label, description) in sorted(
                self._relations.items(), key=lambda item: item[0]
            )
        ]

    def keys_with_prefix(self, prefix: str, limit: int) -> list[str]:
        return sorted(key for key in self._holders if key.startswith(prefix))[:limit]

    def readable_relations(self) -> list[dict[str, Any]]:
        """Return nothing: there is no SQL here."""
        return []

    def relation_columns(self, relation: str) -> list[dict[str, Any]] | None:
        """Refuse: there is no SQL here, so none that could be misspelt either (42704)."""
        raise UnknownName(
            f"{shown(relation)} is not a readable relation: a graph file has no relations",
            "Ask a database for them; here SCHEMA graph tells what there is.",
        )

    def callable_functions(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return nothing: there is no SQL here."""
        return []

    def nodes_by_handle(
        self, entity_type: str | None, number: int, as_of: Moment | None
    ) -> list[int]:
        node = self._handles.get((entity_type, number))
        return [] if node is None else self.visible([node], as_of)

    def nodes_by_key(self, key: str, limit: int) -> list[int]:
        typed = (node for node in self._holders.get(key, ()) if self._typed(node))
        return sorted({*typed, *self._soft_by_key.get(key, ())})[:limit]

    def near_names(self, name: str, threshold: float, limit: int) -> list[str]:
        best: dict[str, float] = {}
        for key, score in self._similar_names(name, threshold):
            for node in self._name_holders(key):
                shown = self._nodes[node].soft_key or key
                best[shown] = max(score, best.get(shown, 0.0))
        return sorted(best, key=lambda shown: (-best[shown], shown))[:limit]

    def exact_keys(
        self, keys: Sequence[str], kinds: Sequence[str], limit: int
    ) -> list[tuple[int, int, str, str]]:
        found: list[tuple[int, int, str, str]] = []
        for index, key in enumerate(keys):
            holders = (
                (index, node, key, self._nodes[node].keys[key][0])
                for node in self._holders.get(key, ())
                if self._typed(node) and self._nodes[node].keys[key][0] in kinds
            )
            found += islice(holders, limit)
        return found

    def soft_names(self, keys: Sequence[str], limit: int) -> list[tuple[int, int, str]]:
        found: list[tuple[int, int, str]] = []
        for index, key in enumerate(keys):
            nodes = {*self._soft_by_name.get(key, ()), *self._soft_by_key.get(key, ())}
            shown = sorted((self._nodes[node].soft_key or "", node) for node in nodes)
            found += [(index, node, soft_key) for soft_key, node in shown[:limit]]
        return found

    def fuzzy_keys(
        self, keys: Sequence[str], threshold: float, limit: int
    ) -> list[tuple[int, int, str, float]]:
        found: list[tuple[int, int, str, float]] = []
        for index, name in enumerate(keys):
            best: dict[int, tuple[float, str]] = {}
            for key, score in self._similar_names(name, threshold):
                for node in self._name_holders(key):
                    if self._typed(node):
                        best[node] = min(best.get(node, (0.0, "")), (-score, key))
            ordered = sorted((score, key, node) for node, (score, key) in best.items())
            found += [(index, node, key, -score) for score, key, node in ordered[:limit]]
        return found

    def best_names(
        self, names: Sequence[str], threshold: float, limit: int
    ) -> list[tuple[int, int, str, float]]:
        found: list[tuple[int, int, str, float]] = []
        for index, name in enumerate(names):
            best: dict[int, tuple[float, str]] = {}
            for key, score in self._similar_names(name, threshold):
                for node in self._name_holders(key):
                    best[node] = min(best.get(node, (0.0, "")), (-score, key))
            ordered = sorted((score, key, node) for node, (score, key) in best.items())
            found += [(index, node, key, -score) for score, key, node in ordered[:limit]]
        return found

    def all_names(
        self, names: Sequence[str], threshold: float
    ) -> list[tuple[int, int, str, float]]:
        return [
            (index, node, key, score)
            for index, name in enumerate(names)
            for key, score in self._similar_names(name, threshold)
            for node in self._name_holders(key)
        ]

    def describe(self, ids: Sequence[int]) -> dict[int, NodeInfo]:
        return {node: self._info(node) for node in ids if node in self._nodes}

    def describe_answers(self, ids: Sequence[int]) -> dict[int, NodeInfo | NoInfo]:
        return {**self.describe(ids)}

    def of_type(self, ids: Sequence[int], entity_type: str) -> list[int]:
        return [node for node in ids if self._nodes[node].entity_type == entity_type]

    def visible(self, ids: Sequence[int], as_of: Moment | None) -> list[int]:
        moment = _moment(as_of)
        return [
            node_id
            for node_id in ids
            if (node := self._nodes.get(node_id)) is not None
            and (node.retired_at is None or (moment is not None and node.retired_at > moment))
        ]

    def edge_links(
        self,
        frontier: Sequence[int],
        limit: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> Iterator[Links]:
        for sources, neighbours, weights, _ in self.relation_links(
            frontier, limit, relations, as_of
        ):
            yield sources, neighbours, weights

    def relation_links(
        self,
        frontier: Sequence[int],
        limit: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> Iterator[RelationLinks]:
        sources: list[int] = []
        neighbours: list[int] = []
        weights: list[float] = []
        names: list[str] = []
        for node in frontier:
            for negative, neighbour, relation, _, _, _ in islice(
                self._edges_of(node, relations, as_of), limit
            ):
                sources.append(node)
                neighbours.append(neighbour)
                weights.append(-negative)
                names.append(relation)
            if len(sources) >= BLOCK_LINKS:
                yield sources, neighbours, weights, names
                sources, neighbours, weights, names = [], [], [], []
        if sources:
            yield sources, neighbours, weights, names

    def over_cap(
        self,
        ids: Sequence[int],
        cap: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> list[int]:
        return [
            node
            for node in ids
            if next(islice(self._edges_of(node, relations, as_of), cap, None), None) is not None
        ]

    def shared_key_links(self, frontier: Sequence[int], limit: int) -> Iterator[Links]:
        return _weighted_links(((node, self._shared_neighbours(node)) for node in frontier), limit)

    def similar_links(
        self, frontier: Sequence[int], threshold: float, limit: int
    ) -> Iterator[Links]:
        alike: dict[str, list[tuple[str, float]]] = {}
        return _weighted_links(
            ((node, self._similar_neighbours(node, threshold, alike)) for node in frontier), limit
        )

    def distinct_pairs(self, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        return [pair for pair in pairs if pair in self._distinct]

    def check_judge(self) -> None:
        if self.link_judge is None:
            raise missing_judge()

    def judged_links(self, frontier: Sequence[int]) -> Iterator[Verdicts]:
        self.check_judge()
        assert self.link_judge is not None
        verdicts = iter(self.link_judge(list(frontier)))
        while block := list(islice(verdicts, BLOCK_LINKS)):
            nodes, linked, confidences, reasons = zip(*block, strict=True)
            rounded = [None if one is None else _confidence(one) for one in confidences]
            yield nodes, linked, rounded, reasons

    def edge_details(
        self,
        hops: Sequence[tuple[int, int, float]],
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> list[tuple[str, str]]:
        details = []
        for source, target, weight in hops:
            links = self._adjacent[source]
            start = bisect_left(links, (-weight, target), key=lambda link: link[:2])
            relation, direction = next(
                (relation, direction)
                for _, neighbour, relation, direction, _, edge in islice(links, start, None)
                if neighbour == target
                and (relations is None or relation in relations)
                and edge.holds(self._moment(as_of))
            )
            details.append((relation, "out" if direction == 0 else "in"))
        return details

    def shared_key_details(self, pairs: Sequence[tuple[int, int]]) -> list[str]:
        return [
            min(
                (len(self._holders[key]), key)
                for key in self._nodes[source].keys
                if key in self._nodes[target].keys
            )[1]
            for source, target in pairs
        ]

    def similar_details(self, pairs: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
        details = []
        for source, target in pairs:
            _, target_name, source_name = min(
                (-similarity(mine, theirs), theirs, mine)
                for mine in self._names_of(source)
                for theirs in self._names_of(target)
                if mine != theirs
            )
            details.append((source_name, target_name))
        return details

    # Within.

    def _typed(self, node: int) -> bool:
        return self._nodes[node].entity_type is not None

    def _info(self, node_id: int) -> NodeInfo:
        node = self._nodes[node_id]
        if node.entity_type is None:
            return f"soft-{node_id}", node.soft_key, None, node.summary
        key = min(
            ((KEY_KINDS.index(kind), key) for key, (kind, _) in node.keys.items()),
            default=(0, None),
        )[1]
        handle = f"{self._types[node.entity_type]}-{node.number}"
        return handle, key, node.entity_type, node.summary

    def _moment(self, as_of: Moment | None) -> datetime:
        return self._now if as_of is None else known_moment(as_of)

    def _edges_of(
        self, node: int, relations: Sequence[str] | None, as_of: Moment | None
    ) -> Iterator[tuple[float, int, str, int, int, _Edge]]:
        moment = self._moment(as_of)
        return (
            link
            for link in self._adjacent.get(node, ())
            if (relations is None or link[2] in relations) and link[5].holds(moment)
        )

    def _shared_neighbours(self, node: int) -> dict[int, float]:
        fewest: dict[int, int] = {}
        for key in self._keys_of(node):
            holders = self._holders.get(key, ())
            for other in holders:
                fewest[other] = min(len(holders), fewest.get(other, len(holders)))
        fewest.pop(node, None)
        return {other: real(1 / (holders - 1)) for other, holders in fewest.items()}

    def _similar_neighbours(
        self, node: int, threshold: float, alike: dict[str, list[tuple[str, float]]]
    ) -> dict[int, float]:
        best: dict[int, float] = {}
        for name in self._names_of(node):
            if name not in alike:
                alike[name] = [
                    (key, score)
                    for key, score in self._similar_names(name, threshold)
                    if key != name
                ]
            for key, score in alike[name]:
                for other in self._name_holders(key):
                    best[other] = max(score, best.get(other, 0.0))
        best.pop(node, None)
        return {
            other: score for other, score in best.items() if (node, other) not in self._distinct
        }

    def _keys_of(self, node: int) -> dict[str, tuple[str, bool]]:
        """Return the keys that links follow: a retired node has none."""
        return {} if self._nodes[node].retired_at is not None else self._nodes[node].keys

    def _names_of(self, node: int) -> list[str]:
        return [key for key, (_, is_name) in self._keys_of(node).items() if is_name]

    def _name_holders(self, key: str) -> list[int]:
        return [node for node in self._holders.get(key, ()) if self._nodes[node].keys[key][1]]

    def _similar_names(self, name: str, threshold: float) -> list[tuple[str, float]]:
        """Return the names of similarity `threshold` or more, in no order."""
        if self._may_keep and len(self._new_names) >= MANY_NAMES:
            self._keep_names()
        own = trigrams(name)
        common: dict[str, int] = {}
        for trigram in own:
            for key in self._names_by_trigram.get(trigram, ()):
                common[key] = common.get(key, 0) + 1
        found = [
            (key, score)
            for key, count in common.items()
            if (score := ratio(count, len(own), len(self._names[key]))) >= threshold
        ]
        if self._kept is not None:
            found += [
                (key, similarity_of(own, self._names[key]))
                for key in self._kept.similar(list(own), threshold)
            ]
        return found

    def _keep_names(self) -> None:
        """Turn the new names into arrays, if numpy is there."""
        try:
            from graphalgo.names.keeping import KeptNames  # noqa: PLC0415
        except ImportError:
            self._may_keep = False
            return
        if self._kept is None:
            self._kept = KeptNames()
        self._kept.add({name: self._names[name] for name in self._new_names})
        self._new_names.clear()
        self._names_by_trigram.clear()


def _add_entries(name: str, entries: Any, add: Callable[[Any], None]) -> None:
    """Add each entry of a list; what is wrong with one is told with its list and number."""
    if not isinstance(entries, (list, tuple)):
        raise InvalidValue(
            f'"{name}" holds a {type(entries).__name__}, but must hold a list',
            "Write a list of objects.",
        )
    for number, entry in enumerate(entries, 1):
        try:
            add(entry)
        except GraphAlgoError as error:
            raise type(error)(f"{name}, entry {number}: {error.message}", error.hint) from error
        except KeyError as error:
            raise InvalidValue(
                f"{name}, entry {number} has no {error.args[0]}", "Write every column it needs."
            ) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidValue(
                f"{name}, entry {number} is not what it should be: {error}",
                "Write an object with the columns of the table of that name.",
            ) from error


def _weighted_links(
    neighbours: Iterable[tuple[int, dict[int, float]]], limit: int
) -> Iterator[Links]:
    """Yield each node's neighbours by weight descending, id, in blocks."""
    block: tuple[list[int], list[int], list[float]] = ([], [], [])
    for node, weights in neighbours:
        ordered = sorted((-weight, other) for other, weight in weights.items())[:limit]
        block[0].extend([node] * len(ordered))
        block[1].extend(other for _, other in ordered)
        block[2].extend(-negative for negative, _ in ordered)
        if len(block[0]) >= BLOCK_LINKS:
            yield block
            block = ([], [], [])
    if block[0]:
        yield block


def _confidence(value: float) -> float:
    """Return a confidence as the double of a real; what no real holds is out of range anyway."""
    try:
        return real(value)
    except InvalidValue:
        return 0.0


def _moment(value: datetime | str | None) -> datetime | None:
    return None if value is None else known_moment(value)
