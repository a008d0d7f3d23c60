"""The store inside a PostgreSQL backend, on the server programming interface."""

from __future__ import annotations

from graphalgo.refusals import server_refusal
from graphalgo.stores import sql
from graphalgo.stores.passages import MOST_ROWS, SPARE_ROWS, array_text
from graphalgo.stores.relational import RelationalStore

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from graphalgo.engine.protocol import NodeInfo, NoInfo
    from graphalgo.p8ql.protocol import Ranking, RowId


# The class of the errors that tell of a value.
DATA_EXCEPTION = "22"


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

    An exact key brings what is shown of its node along, so that a lookup takes one
    statement; so does what an index of vectors finds. The plans are its own:
    `aiq.query` runs as its owner, and the server would make a plan again each time
    that the user changes.
    """

    plans_name = "graphalgo.query_plans"
    space_statement = sql.OWN_VECTOR_SPACE

    def __init__(self, plpy: Any, shared: dict[str, Any]) -> None:
        super().__init__(plpy, shared)
        self._shown: dict[int, NodeInfo | NoInfo] = {}
        self._titles: dict[RowId, str | None] = {}

    def exact_keys(
        self, keys: Sequence[str], kinds: Sequence[str], limit: int
    ) -> list[tuple[int, int, str, str]]:
        if len(keys) == 1:
            rows = self._query(
                sql.EXACT_KEY_SHOWN,
                ("text", "boolean", "int"),
                (keys[0], "canonical" in kinds, limit),
            )
            if len(rows) > 1:
                rows = sorted(rows, key=lambda row: row["node_id"])
        else:
            rows = self._query(
                sql.EXACT_KEYS_SHOWN, ("text[]", "text[]", "int"), (list(keys), list(kinds), limit)
            )
        found = []
        for row in rows:
            node = row["node_id"]
            # The node's own key is not shown beside the key that matched.
            self._shown[node] = row["handle"], None, row["entity_type"], row["summary"]
            index = row["number"] - 1 if "number" in row else 0
            found.append((index, node, row["key"], row["kind"]))
        return found

    def describe_answers(self, ids: Sequence[int]) -> dict[int, NodeInfo | NoInfo]:
        missing = [node for node in ids if node not in self._shown]
        if missing:
            self._shown.update(self.describe(missing))
        return self._shown

    def _indexed(
        self, source: str, model: str, vector: Sequence[float], slack: float, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """Search the index in a statement that is planned once in a backend.

        It is the model's own: the server plans it again when the index goes or the
        extension changes, and it names what the space has just told.
        """
        space = self._spaces.get((source, model))
        if space is None or not (space["pgvector"] and space["indexed"]):
            return super()._indexed(source, model, vector, slack, limit)
        return self._found(space, array_text(vector), slack, limit)

    def written_ranking(self, source: str, model: str, written: str, limit: int) -> Ranking | None:
        """Search the index with a vector that only the server has read."""
        from graphalgo.stores.sent_vectors import numbers_of  # noqa: PLC0415

        space = self._spaces.get((source, model))
        # For an inner product the search must know the vector's length.
        if (
            space is None
            or not (space["pgvector"] and space["indexed"])
            or space["distance"] == "inner"
        ):
            return None
        try:
            rows = self._found(space, written, 0.0, min(limit + SPARE_ROWS, MOST_ROWS))
        except self._plpy.SPIError as error:
            if (server_refusal(error)["sqlstate"] or "").startswith(DATA_EXCEPTION):
                return None
            raise
        return self._chosen(numbers_of(rows[0]["own"], space["dim"]), rows, limit) if rows else None

    def _found(
        self, space: Mapping[str, Any], written: str, slack: float, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        schema = space["vector_schema"]
        text = sql.indexed_vectors(schema, space["model_id"], space["dim"], space["distance"])
        before = self._set_for_index(schema, limit)
        try:
            rows = self._query(
                text,
                ("text", "int", "int", "float8"),
                (written, space["source_id"], limit, slack),
            )
        finally:
            self._set_back(before)
        for row in rows:
            self._titles[row["id"] if row["number"] is None else row["number"]] = row["title"]
        return rows

    def _set_for_index(self, schema: str, limit: int) -> list[str | None]:
        """Set what an index is searched with; return what was set before."""
        row = self._query(sql.SET_FOR_INDEX, ("int",), (limit,))[0]
        if row["before0"] is None:
            # The library is not loaded, and does not know its settings yet.
            self._query(f"select null::{schema}.vector", (), ())
            self._set_back([row[f"before{one}"] for one in range(sql.SETTINGS_FOR_INDEX)])
            row = self._query(sql.SET_FOR_INDEX, ("int",), (limit,))[0]
        return [row[f"before{one}"] for one in range(sql.SETTINGS_FOR_INDEX)]

    def _set_back(self, before: list[str | None]) -> None:
        self._query(sql.SET_BACK, ("text",) * len(before), before)

    def passages(
        self, source: str, ids: Sequence[RowId], words: str | None
    ) -> dict[RowId, tuple[str | None, str | None]]:
        if words is None and ids and all(one in self._titles for one in ids):
            return {one: (self._titles[one], None) for one in ids}
        return super().passages(source, ids, words)
