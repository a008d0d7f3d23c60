"""The store on PostgreSQL's tables, apart from how a statement is run.

The SPI store and the psycopg store differ only in that.
"""

from __future__ import annotations

from graphalgo.engine.errors import InvalidJudge, MissingSetting
from graphalgo.stores import sql
from graphalgo.stores.catalogue import Catalogue
from graphalgo.stores.passages import Passages

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from graphalgo.engine.protocol import Links, Moment, NodeInfo, NoInfo, RelationLinks, Verdicts

# Links that one statement may hand over (more only where one node has more):
# a loop over so many takes Python some milliseconds.
BLOCK_LINKS = 20_000
# Nodes that one statement expands: the first try, and the most.
FIRST_NODES = 500
MOST_NODES = 4_000
# Ids that one statement of another kind is given.
BLOCK_IDS = 10_000

JUDGE_SETTING = "percolate.link_judge"
# The types of its columns, by oid: bigint, bigint, real, text.
JUDGE_COLUMNS = [20, 20, 700, 25]
JUDGE_SHAPE = "f(bigint[]) returns table(bigint, bigint, real, text)"


class RelationalStore(Passages, Catalogue):
    """Reads nodes, keys and links through the views and functions of schema `aiq`.

    A subclass runs statements.
    """

    # Of the class until they are known: a store is made for each call.
    _entity_types: list[tuple[str, str]] | None = None
    _any_ending: bool | None = None
    _judge: str | None = None

    def reading(self) -> AbstractContextManager[object]:
        """Give the statements within one snapshot."""
        raise NotImplementedError

    # How statements are run.

    def _query(
        self, text: str, types: Sequence[str], parameters: Sequence[Any]
    ) -> Sequence[Mapping[str, Any]]:
        """Run a statement of this project and return its rows."""
        raise NotImplementedError

    def _stream(
        self, text: str, types: Sequence[str], parameters: Sequence[Any], size: int
    ) -> Iterator[Sequence[Mapping[str, Any]]]:
        """Run a statement and yield its rows in blocks of at most `size`."""
        raise NotImplementedError

    # Vocabulary.

    def entity_types(self) -> list[tuple[str, str]]:
        if self._entity_types is None:
            rows = self._query(sql.ENTITY_TYPES, (), ())
            self._entity_types = [(row["name"], row["handle_prefix"]) for row in rows]
        return self._entity_types

    def relation_names(self) -> list[str]:
        return [row["relation"] for row in self._query(sql.RELATION_NAMES, (), ())]

    # Nodes and names.

    def nodes_by_handle(
        self, entity_type: str | None, number: int, as_of: Moment | None
    ) -> list[int]:
        rows = self._query(
            sql.NODES_BY_HANDLE, ("text", "bigint", "timestamptz"), (entity_type, number, as_of)
        )
        return [row["id"] for row in rows]

    def nodes_by_key(self, key: str, limit: int) -> list[int]:
        rows = self._query(sql.NODES_BY_KEY, ("text", "int"), (key, limit))
        return [row["id"] for row in rows]

    def near_names(self, name: str, threshold: float, limit: int) -> list[str]:
        rows = self._query(sql.NEAR_NAMES, ("text", "real", "int"), (name, threshold, limit))
        return [row["name"] for row in rows]

    def exact_keys(
        self, keys: Sequence[str], kinds: Sequence[str], limit: int
    ) -> list[tuple[int, int, str, str]]:
        blocks = self._blocks(
            sql.EXACT_KEYS,
            ("text[]", "text[]", "int"),
            (list(keys), list(kinds), limit),
            len(keys) * limit,
        )
        return [
            (row["number"] - 1, row["node_id"], row["key"], row["kind"])
            for rows in blocks
            for row in rows
        ]

    def soft_names(self, keys: Sequence[str], limit: int) -> list[tuple[int, int, str]]:
        blocks = self._blocks(
            sql.SOFT_NAMES, ("text[]", "int"), (list(keys), limit), len(keys) * limit
        )
        return [(row["number"] - 1, row["node_id"], row["key"]) for rows in blocks for row in rows]

    def fuzzy_keys(
        self, keys: Sequence[str], threshold: float, limit: int
    ) -> list[tuple[int, int, str, float]]:
        return self._best_of(sql.FUZZY_KEYS, keys, threshold, limit)

    def best_names(
        self, names: Sequence[str], threshold: float, limit: int
    ) -> list[tuple[int, int, str, float]]:
        return self._best_of(sql.BEST_NAMES, names, threshold, limit)

    def _best_of(
        self, statement: str, names: Sequence[str], threshold: float, limit: int
    ) -> list[tuple[int, int, str, float]]:
        blocks = self._blocks(
            statement,
            ("text[]", "real", "int"),
            (list(names), threshold, limit),
            len(names) * limit,
        )
        return [
            (row["number"] - 1, row["node_id"], row["key"], row["similarity"])
            for rows in blocks
            for row in rows
        ]

    def all_names(
        self, names: Sequence[str], threshold: float
    ) -> Iterator[tuple[int, int, str, float]]:
        for rows in self._stream(
            sql.ALL_NAMES, ("text[]", "real"), (list(names), threshold), BLOCK_LINKS
        ):
            for row in rows:
                yield row["number"] - 1, row["node_id"], row["key"], row["similarity"]

    def describe(self, ids: Sequence[int]) -> dict[int, NodeInfo]:
        return {
            row["id"]: (row["handle"], row["key"], row["entity_type"], row["summary"])
            for block in _blocks(ids)
            for row in self._query(sql.DESCRIBE, ("bigint[]",), (block,))
        }

    def describe_answers(self, ids: Sequence[int]) -> dict[int, NodeInfo | NoInfo]:
        return {**self.describe(ids)}

    def of_type(self, ids: Sequence[int], entity_type: str) -> list[int]:
        return [
            row["id"]
            for block in _blocks(ids)
            for row in self._query(sql.OF_TYPE, ("bigint[]", "text"), (block, entity_type))
        ]

    def visible(self, ids: Sequence[int], as_of: Moment | None) -> list[int]:
        return [
            row["id"]
            for block in _blocks(ids)
            for row in self._query(sql.VISIBLE, ("bigint[]", "timestamptz"), (block, as_of))
        ]

    # Links.

    def edge_links(
        self,
        frontier: Sequence[int],
        limit: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> Iterator[Links]:
        text = sql.edge_links(relation=False, **self._edge_variant(relations, as_of))
        for row in self._expand(text, *_edge_parameters(limit, relations, as_of), frontier):
            yield row["sources"], row["neighbours"], row["weights"]

    def relation_links(
        self,
        frontier: Sequence[int],
        limit: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> Iterator[RelationLinks]:
        text = sql.edge_links(relation=True, **self._edge_variant(relations, as_of))
        for row in self._expand(text, *_edge_parameters(limit, relations, as_of), frontier):
            yield row["sources"], row["neighbours"], row["weights"], row["relations"]

    def over_cap(
        self,
        ids: Sequence[int],
        cap: int,
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> list[int]:
        text = sql.over_cap(**self._edge_variant(relations, as_of))
        types, parameters, _ = _edge_parameters(cap, relations, as_of)
        return [
            row["id"]
            for block in _blocks(ids)
            for row in self._query(text, types, (block, *parameters[1:]))
        ]

    def shared_key_links(self, frontier: Sequence[int], limit: int) -> Iterator[Links]:
        for row in self._expand(
            sql.SHARED_KEY_LINKS,
            ("bigint[]", "int", "int"),
            (None, limit, _most_links(limit)),
            limit,
            frontier,
        ):
            yield row["sources"], row["neighbours"], row["weights"]

    def similar_links(
        self, frontier: Sequence[int], threshold: float, limit: int
    ) -> Iterator[Links]:
        for row in self._expand(
            sql.SIMILAR_LINKS,
            ("bigint[]", "real", "int", "int"),
            (None, threshold, limit, _most_links(limit)),
            limit,
            frontier,
        ):
            yield row["sources"], row["neighbours"], row["weights"]

    def _expand(
        self,
        text: str,
        types: Sequence[str],
        parameters: Sequence[Any],
        limit: int,
        frontier: Sequence[int],
    ) -> Iterator[Mapping[str, Any]]:
        """Run a statement of links over the frontier, a block of nodes at a time.

        A statement hands over at most a block of links. Where it was cut off, the
        last node in it may be incomplete: its links are dropped here and the node
        starts the next block. `limit` links of one node always fit, so the first
        node of a block is complete.
        """
        most = _most_links(limit)
        start, size = 0, FIRST_NODES
        while start < len(frontier):
            part = list(frontier[start : start + size])
            row = dict(self._query(text, types, (part, *parameters[1:]))[0])
            sources = row["sources"]
            if sources is None:
                start, size = start + len(part), min(2 * size, MOST_NODES)
                continue
            if len(sources) < most:
                yield row
                start, size = start + len(part), min(2 * size, MOST_NODES)
                continue
            last = part.index(sources[-1])
            if sources[0] == sources[-1]:
                start += last + 1
                yield row
            else:
                start += last
                kept = sources.index(sources[-1])
                yield {name: column[:kept] for name, column in row.items()}
            size = max(1, last)

    def _edge_variant(
        self, relations: Sequence[str] | None, as_of: Moment | None
    ) -> dict[str, bool]:
        past = as_of is not None
        return {
            "by_relation": relations is not None,
            "ending": past or self._has_ending(),
            "past": past,
        }

    def _has_ending(self) -> bool:
        if self._any_ending is None:
            self._any_ending = bool(self._query(sql.ANY_ENDING, (), ())[0]["found"])
        return self._any_ending

    # What a path tells of its hops.

    def edge_details(
        self,
        hops: Sequence[tuple[int, int, float]],
        relations: Sequence[str] | None,
        as_of: Moment | None,
    ) -> list[tuple[str, str]]:
        text = sql.edge_details(by_relation=relations is not None, past=as_of is not None)
        types = ["bigint[]", "bigint[]", "float8[]", "text[]", "timestamptz"]
        found: list[tuple[str, str]] = []
        for block in _blocks(hops):
            rows = self._query(
                text,
                types,
                (
                    [hop[0] for hop in block],
                    [hop[1] for hop in block],
                    [hop[2] for hop in block],
                    None if relations is None else list(relations),
                    as_of,
                ),
            )
            found += [(row["relation"], row["direction"]) for row in rows]
        return found

    def shared_key_details(self, pairs: Sequence[tuple[int, int]]) -> list[str]:
        return [
            row["key"]
            for block in _blocks(pairs)
            for row in self._query(
                sql.SHARED_KEY_DETAILS,
                ("bigint[]", "bigint[]"),
                ([pair[0] for pair in block], [pair[1] for pair in block]),
            )
        ]

    def similar_details(self, pairs: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
        return [
            (row["source_name"], row["target_name"])
            for block in _blocks(pairs)
            for row in self._query(
                sql.SIMILAR_DETAILS,
                ("bigint[]", "bigint[]"),
                ([pair[0] for pair in block], [pair[1] for pair in block]),
            )
        ]

    def distinct_pairs(self, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        return [
            block[row["number"] - 1]
            for block in _blocks(pairs)
            for row in self._query(
                sql.DISTINCT_PAIRS,
                ("bigint[]", "bigint[]"),
                ([min(pair) for pair in block], [max(pair) for pair in block]),
            )
        ]

    # The judge.

    def check_judge(self) -> None:
        setting = self._query(sql.JUDGE_SETTING, (), ())[0]["judge"]
        if setting is None or not setting.strip():
            raise missing_judge()
        schema, name = self._judge_name(setting)
        found = self._query(sql.FIND_JUDGE, ("text", "text"), (schema, name))
        if not found:
            raise InvalidJudge(
                f'the judge "{setting}" named by {JUDGE_SETTING} does not exist as {JUDGE_SHAPE}',
                "Create the function, or set the setting to one that exists.",
            )
        judge = found[0]
        if not judge["allowed"]:
            raise InvalidJudge(
                f'the judge "{setting}" named by {JUDGE_SETTING} may not be executed by the caller',
                "Grant execute on the function and usage on its schema to the caller.",
            )
        if not judge["returns_set"] or judge["columns"] != JUDGE_COLUMNS:
            raise InvalidJudge(
                f'the judge "{setting}" named by {JUDGE_SETTING} has another shape than '
                f"{JUDGE_SHAPE}",
                "Give the function that argument and those columns.",
            )
        self._judge = f"{_quote(judge['schema'])}.{_quote(judge['name'])}"

    def _judge_name(self, setting: str) -> tuple[str, str]:
        parts = self._parse_identifier(setting)
        if parts is None or len(parts) != 2:
            raise InvalidJudge(
                f'{JUDGE_SETTING} is "{setting}", which is not a function name with its schema',
                "Write schema.function, such as aiq.stored_link_judge.",
            )
        return parts[0], parts[1]

    def _parse_identifier(self, name: str) -> list[str] | None:
        """Return the parts of an identifier as SQL reads it, or None where it is not one."""
        parts: list[str] = []
        rest = name.strip()
        while True:
            if rest.startswith('"'):
                part, rest = _quoted_part(rest)
            else:
                head, dot, tail = rest.partition(".")
                part, rest = head.strip().lower(), dot + tail
                if not part or not all(c.isalnum() or c in "_$" for c in part):
                    return None
            if not part:
                return None
            parts.append(part)
            rest = rest.lstrip()
            if not rest:
                return parts
            if not rest.startswith("."):
                return None
            rest = rest[1:].lstrip()

    def judged_links(self, frontier: Sequence[int]) -> Iterator[Verdicts]:
        if self._judge is None:
            self.check_judge()
        assert self._judge is not None
        text = sql.judged_links(self._judge)
        for rows in self._stream(text, ("bigint[]",), (list(frontier),), BLOCK_LINKS):
            yield (
                [row["node_id"] for row in rows],
                [row["linked_id"] for row in rows],
                [row["confidence"] for row in rows],
                [row["reason"] for row in rows],
            )


def missing_judge() -> MissingSetting:
    """Return the refusal of judged links where no judge is set, the same for every store."""
    return MissingSetting(
        f"judged links are asked for, but {JUDGE_SETTING} names no function",
        f"Set {JUDGE_SETTING} to a judge, such as aiq.stored_link_judge.",
    )


def _edge_parameters(
    limit: int, relations: Sequence[str] | None, as_of: Moment | None
) -> tuple[Sequence[str], Sequence[Any], int]:
    """Return types and parameters of an edge statement, the frontier left open, and the limit."""
    return (
        ("bigint[]", "int", "int", "text[]", "timestamptz"),
        (
            None,
            limit,
            _most_links(limit),
            None if relations is None else list(relations),
            as_of,
        ),
        limit,
    )


def _most_links(limit: int) -> int:
    """Return how many links a statement may hand over: a block, or one node's if more."""
    return max(BLOCK_LINKS, limit)


def _blocks(items: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), BLOCK_IDS):
        yield list(items[start : start + BLOCK_IDS])


def _quote(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _quoted_part(rest: str) -> tuple[str, str]:
    """Split off a leading quoted identifier; an empty part where it is not closed."""
    part = ""
    position = 1
    while True:
        end = rest.find('"', position)
        if end < 0:
            return "", ""
        part += rest[position:end]
        if not rest.startswith('""', end):
            return part, rest[end + 1 :]
        part += '"'
        position = end + 2
