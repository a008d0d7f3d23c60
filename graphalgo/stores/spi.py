"""The store inside a PostgreSQL backend, on the server programming interface."""

from __future__ import annotations

from graphalgo.refusals import server_refusal
from graphalgo.stores import sql
from graphalgo.stores.passages import (
    MOST_ROWS,
    SPARE_ROWS,
    block_size,
    nearest_of_sent,
    single_error,
)
from graphalgo.stores.relational import RelationalStore

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from graphalgo.engine.protocol import NodeInfo, NoInfo
    from graphalgo.p8ql.protocol import Ranking, RowId, VectorSpace
    from graphalgo.p8ql.query import Embedding

# How many candidates an index is searched with, as aiq.query_by_index_plpython sets it.
SEARCH_WIDTH = 100
# The classes of the errors that tell of a value, of one too wide for any vector, or of a
# name that is no more: the vector, the extension or its schema.
LOOKED_INTO = ("22", "42", "3F", "54")


class SpiStore(RelationalStore):
    """Runs statements through `plpy`, prepared once in a backend.

    Parameters
    ----------
    plpy : module
        The server's own module, as a PL/Python function body sees it.
    shared : dict
        The backend's global dictionary `GD`; the prepared plans are kept there.

    Notes
    -----
    In a stable function every statement runs read-only on the snapshot of the
    calling query.
    """

    plans_name = "graphalgo.plans"

    def __init__(self, plpy: Any, shared: dict[str, Any]) -> None:
        super().__init__()
        self._plpy = plpy
        self._plans: dict[str, Any] = shared.setdefault(self.plans_name, {})

    def reading(self) -> SpiStore:
        return self

    def __enter__(self) -> SpiStore:
        return self

    def __exit__(self, *exception: object) -> None:
        """The calling query's snapshot outlives the call."""

    def _plan(self, text: str, types: Sequence[str]) -> Any:
        plan = self._plans.get(text)
        if plan is None:
            plan = self._plans[text] = self._plpy.prepare(text, list(types))
        return plan

    def _query(
        self, text: str, types: Sequence[str], parameters: Sequence[Any]
    ) -> Sequence[Mapping[str, Any]]:
        plan = self._plans.get(text) or self._plan(text, types)
        rows: Sequence[Mapping[str, Any]] = self._plpy.execute(plan, parameters)
        return rows

    def _stream(
        self, text: str, types: Sequence[str], parameters: Sequence[Any], size: int
    ) -> Iterator[Sequence[Mapping[str, Any]]]:
        plan = self._plan(text, types)
        cursor = self._plpy.cursor(plan, list(parameters))
        try:
            while rows := cursor.fetch(size):
                yield rows
        finally:
            cursor.close()

    def describe_answers(self, ids: Sequence[int]) -> dict[int, NodeInfo | NoInfo]:
        """Leave it out: the SQL functions read it where they hand the rows over.

        Texts that go to Python and back cost a walk of some thousand rows as much
        time as its edges.
        """
        return dict.fromkeys(ids, (None, None, None, None))

    def check_interrupts(self) -> None:
        self._query("select 1 as one", (), ())


class QuerySpiStore(SpiStore):
    """The store of `aiq.query`, which shows nodes itself.

    Parameters
    ----------
    plpy : module
        The server's own module.
    shared : dict
        The backend's global dictionary `GD`.
    by_index : bool
        Whether the settings are those that an index of vectors is searched with.
    looked_up : bool
        Whether the query is a lookup of one key of which the server already knows
        that no node has it as its canonical one; it is then not asked again.

    Notes
    -----
    An exact key brings what is shown of its node along, so that a lookup takes one
    statement; so does what an index of vectors finds. The plans are its own:
    `aiq.query` runs as its owner, and the server would make a plan again each time
    that the user changes.
    """

    plans_name = "graphalgo.query_plans"
    space_statement = sql.OWN_VECTOR_SPACE

    def __init__(
        self,
        plpy: Any,
        shared: dict[str, Any],
        by_index: bool = False,
        looked_up: bool = False,
    ) -> None:
        super().__init__(plpy, shared)
        self._by_index = by_index
        self._looked_up = looked_up
        # What searches the index of a model, or (None) of the default one.
        self._indexes: dict[str | None, tuple[str, int, str, str]] = shared.setdefault(
            "graphalgo.vector_indexes", {}
        )
        self._shown: dict[int, NodeInfo | NoInfo] = {}
        self._titles: dict[RowId, str | None] = {}

    def exact_keys(
        self, keys: Sequence[str], kinds: Sequence[str], limit: int
    ) -> list[tuple[int, int, str, str]]:
        if self._looked_up and "canonical" in kinds:
            return []
        if len(keys) == 1:
            blocks = self._blocks(
                sql.EXACT_KEY_SHOWN,
                ("text", "boolean", "int"),
                (keys[0], "canonical" in kinds, limit),
                limit,
            )
        else:
            blocks = self._blocks(
                sql.EXACT_KEYS_SHOWN,
                ("text[]", "text[]", "int"),
                (list(keys), list(kinds), limit),
                len(keys) * limit,
            )
        found = []
        for rows in blocks:
            for row in rows:
                node = row["node_id"]
                # The node's own key is not shown beside the key that matched.
                self._shown[node] = row["handle"], None, row["entity_type"], row["summary"]
                index = row["number"] - 1 if "number" in row else 0
                found.append((index, node, row["key"], row["kind"]))
        if len(keys) == 1 and len(found) > 1:
            # No node twice.
            found.sort()
        return found

    def describe_answers(self, ids: Sequence[int]) -> dict[int, NodeInfo | NoInfo]:
        missing = [node for node in ids if node not in self._shown]
        if missing:
            self._shown.update(self.describe(missing))
        return self._shown

    def vector_space(self, source: str, model: str | None) -> VectorSpace | None:
        space = super().vector_space(source, model)
        row = None if space is None else self._spaces[source, space.model.name]
        if row is not None and row["pgvector"] and row["indexed"]:
            name, dim, kind = row["name"], row["dim"], row["distance"]
            text = sql.indexed_vectors(
                row["vector_schema"],
                row["namespace"],
                row["model_id"],
                dim,
                kind,
                single_error(dim),
            )
            self._indexes[model] = name, dim, kind, text
        else:
            self._indexes.pop(model, None)
        return space

    def nearest_by_index(
        self, source: str, model: str | None, embedding: Embedding, limit: int
    ) -> tuple[str, Ranking] | None:
        """Search an index that an earlier query has heard of.

        With a vector that only the server reads, in a statement that is planned once in
        a backend: the server plans it again when the index goes or the extension
        changes, and it finds nothing if anything else has become otherwise.
        """
        index = self._indexes.get(model) if self._by_index else None
        if index is None:
            return None
        from graphalgo.p8ql.searching import decimals  # noqa: PLC0415 - it is loaded

        written = decimals(embedding)
        if written is None:
            return None
        name, dim, kind, text = index
        wanted = min(limit + SPARE_ROWS, MOST_ROWS)
        if wanted > SEARCH_WIDTH:
            self._query(sql.WIDER_SEARCH, ("int",), (wanted,))
        try:
            blocks = self._blocks(
                text,
                sql.INDEXED_VECTORS_TYPES,
                (written, source, name, model is None, wanted, limit - 1),
                wanted,
                max(SEARCH_WIDTH, block_size(dim)),
            )
            rows = [row for block in blocks for row in block]
        except self._plpy.SPIError as error:
            if (server_refusal(error)["sqlstate"] or "")[:2] in LOOKED_INTO:
                return None
            raise
        if len(rows) < limit:
            return None
        found = nearest_of_sent(kind, dim, rows, self.check_interrupts)[:limit]
        self._titles = {one: title for _, one, title in found}
        return name, [(one, away) for away, one, _ in found]

    def passages(
        self, source: str, ids: Sequence[RowId], words: str | None
    ) -> dict[RowId, tuple[str | None, str | None]]:
        if words is None and ids and all(one in self._titles for one in ids):
            return {one: (self._titles[one], None) for one in ids}
        return super().passages(source, ids, words)
