"""From a query to its envelope."""

from __future__ import annotations

from graphalgo.engine.errors import Ambiguous, InvalidValue, NotFound, UnknownName
from graphalgo.engine.lookup import lookup
from graphalgo.engine.walk import walk
from graphalgo.p8ql.parser import parse

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from graphalgo.engine.errors import GraphAlgoError
    from graphalgo.engine.rows import Row
    from graphalgo.p8ql.plan import GraphPlan, LookupPlan, Plan, SchemaPlan, SqlPlan, TextPlan
    from graphalgo.p8ql.protocol import QueryStore

    Envelope: TypeAlias = dict[str, Any]
    Embedding: TypeAlias = str | Sequence[float] | None

BLOCK_ROWS = 5_000
SQL_NOTE = (
    "Not run here: aiq.sql_passthrough(p_statement) runs this statement, read only, as the caller."
)
# What the engine calls by the names of the SQL functions' arguments, in the dialect's words.
ARGUMENTS = {"p_key": "the key", "p_depth": "DEPTH", "p_relation": "TYPE", "p_limit": "LIMIT"}
SIMILAR_NAMES = ("aiq.lookup with p_fuzzy => true", "FUZZY LOOKUP")


def query(store: QueryStore, text: str, embedding: Embedding = None) -> Envelope:
    """Answer a query.

    Parameters
    ----------
    store : QueryStore
        What the caller sees.
    text : str
        The query.
    embedding : str or list of float, optional
        The vector of the words, for SEMANTIC and SEARCH: numbers, or their text as
        `[0.1, 0.2]` or `{0.1,0.2}`. Other modes leave it aside.

    Returns
    -------
    dict
        `mode`; `plan`, what was understood, defaults included; `rows`; and
        `unresolved` (LOOKUP), `error` with `did_you_mean` or `candidates` (GRAPH,
        where the key names no node or several), `document` (SCHEMA), `note` (SQL).

    Raises
    ------
    QuerySyntaxError
        It does not parse (42601).
    InvalidValue
        A number is out of its range, or the vector is missing, ill-formed, of
        another width, or in a space that the source has no vectors of (22023).
    UnknownName
        A relation, source or model is not registered (42704).
    """
    plan = parse(text)
    with store.reading():
        return _ANSWERS[plan.mode](store, plan, embedding)


def dictionaries(store: QueryStore, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as JSON has them; between blocks the store can be interrupted."""
    found: list[dict[str, Any]] = []
    for start in range(0, len(rows), BLOCK_ROWS):
        if start:
            store.check_interrupts()
        found += [row.as_dict() for row in rows[start : start + BLOCK_ROWS]]
    return found


def envelope(plan: Plan, rows: list[dict[str, Any]], **more: Any) -> Envelope:
    """Return an answer in the form that all modes share."""
    return {"mode": plan.mode, "plan": plan.as_dict(), "rows": rows, **more}


def _lookup(store: QueryStore, plan: LookupPlan, embedding: Embedding) -> Envelope:
    rows = dictionaries(store, lookup(store, plan.keys, plan.fuzzy, plan.limit))
    unresolved = dict.fromkeys(plan.keys)
    for row in rows:
        unresolved.pop(row["input_key"], None)
    return envelope(plan, rows, unresolved=list(unresolved))


def _graph(store: QueryStore, plan: GraphPlan, embedding: Embedding) -> Envelope:
    try:
        rows = walk(store, plan.key, plan.depth, plan.relation, plan.degree_cap, plan.limit)
    except (InvalidValue, UnknownName) as error:
        _translate(error)
        raise
    except NotFound as error:
        if not error.near and error.hint:
            error.hint = error.hint.replace(*SIMILAR_NAMES)
        return envelope(plan, [], error=_told(error), did_you_mean=list(error.near))
    except Ambiguous as error:
        return envelope(plan, [], error=_told(error), candidates=list(error.candidates))
    return envelope(plan, dictionaries(store, rows))


def _translate(error: GraphAlgoError) -> None:
    """Put the dialect's word in the place of an argument's name, with which a message begins."""
    name, space, rest = error.message.partition(" ")
    error.message = f"{ARGUMENTS.get(name, name)}{space}{rest}"


def _told(error: NotFound | Ambiguous) -> dict[str, Any]:
    return {"sqlstate": error.sqlstate, "message": error.message, "hint": error.hint}


def _text(store: QueryStore, plan: TextPlan, embedding: Embedding) -> Envelope:
    from graphalgo.p8ql.searching import text_rows  # noqa: PLC0415 - only who searches pays

    return envelope(plan, text_rows(store, plan))


def _vectors(store: QueryStore, plan: Any, embedding: Embedding) -> Envelope:
    from graphalgo.p8ql.searching import vector_rows  # noqa: PLC0415

    rows, found = vector_rows(store, plan, embedding)
    answer = envelope(plan, rows)
    answer["plan"].update(found)
    return answer


def _schema(store: QueryStore, plan: SchemaPlan, embedding: Embedding) -> Envelope:
    from graphalgo.p8ql.document import document  # noqa: PLC0415

    return envelope(plan, [], document=document(store, plan.facet, plan.source))


def _sql(store: QueryStore, plan: SqlPlan, embedding: Embedding) -> Envelope:
    return envelope(plan, [], note=SQL_NOTE)


_ANSWERS: dict[str, Callable[[QueryStore, Any, Embedding], Envelope]] = {
    "LOOKUP": _lookup,
    "GRAPH": _graph,
    "TEXT": _text,
    "SEMANTIC": _vectors,
    "SEARCH": _vectors,
    "SCHEMA": _schema,
    "SQL": _sql,
}
