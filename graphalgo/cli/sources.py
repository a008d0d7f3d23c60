"""Whom the commands ask: the functions in a server, the engine over a connection, or the twin."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from graphalgo.cli.callers import read_claims, speak_as
from graphalgo.cli.options import DSN_VARIABLE
from graphalgo.engine.arguments import (
    MAX_BUDGET,
    MAX_DEGREE_CAP,
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_ROUNDS,
    whole_number,
)
from graphalgo.engine.errors import InvalidValue, MissingSetting

if TYPE_CHECKING:
    import psycopg

    from graphalgo.engine.protocol import Store

Row = dict[str, Any]

PLACES = ("auto", "server", "client")

_HOP_ORDER = ("link", "from", "to", "weight", "relation", "direction", "key", "names", "reason")
_TRACE_ORDER = (
    "seed", "target_type", "links", "rounds", "resolved", "reason", "examined", "deferred",
    "answers", "round", "frontier", "candidates", "capped", "capped_nodes", "milliseconds",
    "node_id", "handle", "key",
)  # fmt: skip

_ENVELOPE_ORDER = (
    "mode", "plan", "keys", "key", "words", "source", "model", "statement", "facet", "from", "to",
    "fuzzy", "relation", "input_key", "node_id", "handle", "entity_type", "match_kind", "id",
    "title", "lex", "sem", "rrf", "rank", "distance", "snippet", "name", "src_type", "dst_type",
    "depth", "summary", "path", "weight", "capped", "score", "degree_cap", "limit", "k",
    "vector_search", "rows", "unresolved", "sqlstate", "message", "hint", "error", "did_you_mean",
    "candidates", "note", "revision", "digest", "asks", "query", "accepted", "form", "answers",
    "p8ql", "modes", "rules", "limits", "sources", "models", "examples", "graph", "entity_types",
    "relations", "sql", "document",
)  # fmt: skip
JOIN_ARGUMENTS = """
    p_seed => %(seed)s::text, p_target_type => %(target_type)s::text,
    p_max_rounds => %(max_rounds)s::int, p_links => %(links)s::text[],
    p_similarity => %(similarity)s::real, p_budget => %(budget)s::int,
    p_degree_cap => %(degree_cap)s::int, p_relations => %(relations)s::text[],
    p_as_of => %(as_of)s::timestamptz, p_limit => %(limit)s::int
"""
_JOIN = f"""
select
    resolved, round, hops, node_id, handle, key, entity_type, summary, score, path, deferred,
    examined, reason
from aiq.iterated_join({JOIN_ARGUMENTS})
"""
_TRACE = f"select aiq.iterated_join_trace({JOIN_ARGUMENTS}) as trace"
_WALK = """
select depth, node_id, handle, key, entity_type, summary, path, weight, capped
from aiq.walk(
    p_key => %(key)s::text, p_depth => %(depth)s::int, p_relation => %(relation)s::text,
    p_degree_cap => %(degree_cap)s::int, p_limit => %(limit)s::int,
    p_as_of => %(as_of)s::timestamptz
)
"""
_LOOKUP = """
select
    input_key, node_id, handle, key, entity_type, summary, match_kind, score::float8 as score
from aiq.lookup(
    p_keys => %(keys)s::text[], p_fuzzy => %(fuzzy)s::boolean, p_limit => %(limit)s::int
)
"""
_QUERY = "select aiq.query(%s::text, %s::text)"
_INSTALLED = """
select
    pg_catalog.to_regclass('aiq.node_keys') is not null,
    pg_catalog.to_regproc('aiq.iterated_join') is not null
"""


# The greatest values that the SQL functions take, by argument.
_MOST = {
    "max_rounds": MAX_ROUNDS,
    "depth": MAX_DEPTH,
    "budget": MAX_BUDGET,
    "degree_cap": MAX_DEGREE_CAP,
}


class Source(Protocol):
    """Answers questions; rows are dictionaries named as the SQL functions' columns.

    Attributes
    ----------
    store : Store
        For what a picture or a table needs beyond the answer.
    """

    store: Store

    def join(self, arguments: Mapping[str, Any]) -> list[Row]:
        """Answer an iterated join."""

    def trace(self, arguments: Mapping[str, Any]) -> Row:
        """Give the account of the same iterated join."""

    def walk(self, arguments: Mapping[str, Any]) -> list[Row]:
        """Answer a walk."""

    def lookup(self, arguments: Mapping[str, Any]) -> list[Row]:
        """Answer a lookup."""

    def query(self, text: str, embedding: str | None) -> Row:
        """Answer a query of P8QL with its envelope."""


class EngineSource:
    """Runs the engine here, on a store: the twin, or one over a connection."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def join(self, arguments: Mapping[str, Any]) -> list[Row]:
        """Answer an iterated join."""
        from graphalgo.engine import iterated_join

        return [_ordered_path(row.as_dict()) for row in iterated_join(self.store, **arguments)]

    def trace(self, arguments: Mapping[str, Any]) -> Row:
        """Give the account of the same iterated join."""
        from graphalgo.engine import iterated_join_trace

        return _ordered_trace(iterated_join_trace(self.store, **arguments))

    def walk(self, arguments: Mapping[str, Any]) -> list[Row]:
        """Answer a walk."""
        from graphalgo.engine import walk

        return [row.as_dict() for row in walk(self.store, **arguments)]

    def lookup(self, arguments: Mapping[str, Any]) -> list[Row]:
        """Answer a lookup."""
        from graphalgo.engine import lookup

        return [row.as_dict() for row in lookup(self.store, **arguments)]

    def query(self, text: str, embedding: str | None) -> Row:
        """Answer a query of P8QL with its envelope."""
        from graphalgo.p8ql.query import query

        store: Any = self.store  # every store here has what the dialect asks, too
        return _ordered_envelope(query(store, text, embedding))


class ServerSource:
    """Calls the SQL functions, which run the engine inside the server."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        from graphalgo.stores.client import ClientStore

        self.connection = connection
        self.store: Store = ClientStore(connection)

    def join(self, arguments: Mapping[str, Any]) -> list[Row]:
        """Answer an iterated join."""
        return [_ordered_path(row) for row in self._rows(_JOIN, arguments)]

    def trace(self, arguments: Mapping[str, Any]) -> Row:
        """Give the account of the same iterated join."""
        return _ordered_trace(self._rows(_TRACE, arguments)[0]["trace"])

    def walk(self, arguments: Mapping[str, Any]) -> list[Row]:
        """Answer a walk."""
        return self._rows(_WALK, arguments)

    def lookup(self, arguments: Mapping[str, Any]) -> list[Row]:
        """Answer a lookup."""
        return self._rows(_LOOKUP, arguments)

    def query(self, text: str, embedding: str | None) -> Row:
        """Answer a query of P8QL with its envelope."""
        row = self.connection.execute(_QUERY, (text, embedding)).fetchone()
        assert row is not None
        return _ordered_envelope(row[0])

    def _rows(self, statement: str, arguments: Mapping[str, Any]) -> list[Row]:
        from psycopg.rows import dict_row

        _require_whole_numbers(arguments)
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, arguments).fetchall()


def _require_whole_numbers(arguments: Mapping[str, Any]) -> None:
    """Refuse a number that no `int` of the SQL functions can hold, in the engine's words."""
    for name, value in arguments.items():
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_INTEGER:
            whole_number(f"p_{name}", value, 1, _MOST.get(name, MAX_INTEGER), 1)


@contextmanager
def opened(
    dsn: str | None,
    graph: Path | None,
    where: str,
    as_sub: str | None = None,
    as_org: list[str] | None = None,
) -> Iterator[Source]:
    """Give whom the options name.

    Parameters
    ----------
    dsn, graph : optional
        Of a database, or a file for the twin; not both. With neither, the
        environment variable names a database.
    where : str
        ``server``, ``client`` or ``auto``; only with a database.
    as_sub, as_org : optional
        The user to ask as, and the organisations that they ask for.

    Raises
    ------
    InvalidValue
        Both are given, or neither; or `where` is something else; or the user or an
        organisation is no uuid (22023).
    MissingSetting
        graphalgo is not installed in the database, or its PL/Python functions
        are wanted and are not there (55000).
    """
    if where not in PLACES:
        raise InvalidValue(
            f'--where is "{where}", but must be {", ".join(PLACES[:-1])} or {PLACES[-1]}',
            "Leave it out to run in the server where that is possible.",
        )
    if graph is not None:
        if dsn is not None:
            raise InvalidValue(
                "--dsn and --graph are both given, but only one graph can be asked",
                "Leave one of them out.",
            )
        yield EngineSource(_twin(graph, *(read_claims(as_sub, as_org) or (None, None))))
        return
    claims = read_claims(as_sub, as_org)
    from graphalgo.install.connection import open_connection

    with open_connection(required_dsn(dsn, " or --graph FILE")) as connection:
        source = _of_database(connection, where)
        if claims is not None:
            speak_as(connection, *claims)
        yield source


def required_dsn(dsn: str | None, otherwise: str = "") -> str:
    """Give the DSN of the option or of the environment; refuse if there is none (22023)."""
    found = dsn if dsn is not None else os.environ.get(DSN_VARIABLE, "")
    if not found.strip():
        raise InvalidValue(
            "no database is named",
            f"Give --dsn DSN{otherwise}, or set {DSN_VARIABLE};"
            " `graphalgo up` starts a PostgreSQL and prints its DSN.",
        )
    return found


def written_to(path: Path, picture: str) -> None:
    """Write a picture; refuse where that cannot be (22023)."""
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise InvalidValue(
            f'the picture cannot be written to "{path}": {error.strerror or error}',
            "Name a file in a directory that can be written.",
        ) from error


def _twin(graph: Path, sub: str | None, orgs: list[str] | None) -> Store:
    from graphalgo.stores.memory import MemoryStore

    try:
        return MemoryStore.from_json(graph, sub=sub, orgs=orgs)
    except OSError as error:
        raise InvalidValue(
            f'the graph file "{graph}" cannot be read: {error.strerror or error}',
            "Name a JSON file with a graph.",
        ) from error


def _of_database(connection: psycopg.Connection[Any], where: str) -> Source:
    row = connection.execute(_INSTALLED).fetchone()
    assert row is not None
    schema, functions = row
    database = connection.info.dbname
    if not schema:
        raise MissingSetting(
            f'graphalgo is not installed in the database "{database}"',
            "Install it with: graphalgo install --dsn DSN",
        )
    if where == "server" and not functions:
        raise MissingSetting(
            f'the database "{database}" has no PL/Python functions of graphalgo',
            "Install them with: graphalgo install --dsn DSN; or leave out --where server.",
        )
    if where == "client" or not functions:
        from graphalgo.stores.client import ClientStore

        return EngineSource(ClientStore(connection))
    return ServerSource(connection)


def _ordered_path(row: Row) -> Row:
    """Give a row whose hops have their members in one order, whoever answered."""
    if row["path"] is not None:
        row["path"] = [
            {name: hop[name] for name in _HOP_ORDER if name in hop} for hop in row["path"]
        ]
    return row


def _ordered_envelope(answer: Row) -> Row:
    """Give an envelope whose members are in one order, whoever answered."""
    ordered: Row = _ordered(answer, _ENVELOPE_ORDER)
    return ordered


def _ordered_trace(trace: Row) -> Row:
    """Give a trace whose members are in one order, whoever answered."""
    ordered: Row = _ordered(trace, _TRACE_ORDER)
    return ordered


def _ordered(value: Any, order: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        known = [name for name in order if name in value]
        others = sorted(set(value) - set(known))
        return {name: _ordered(value[name], order) for name in [*known, *others]}
    if isinstance(value, list):
        return [_ordered(element, order) for element in value]
    return value
