"""The store over a connection, for callers outside the server.

It needs nothing of the server but the schema: no PL/Python. So it also serves
where that is not to be had.
"""

from __future__ import annotations

from contextlib import contextmanager
from re import compile as compile_pattern
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from graphalgo.engine.errors import (
    Ambiguous,
    InvalidJudge,
    InvalidValue,
    MissingSetting,
    NotAllowed,
    NotFound,
    UnknownName,
)
from graphalgo.stores.moments import known_moment
from graphalgo.stores.relational import RelationalStore
from graphalgo.stores.settings import PINNED, local_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Types and arguments are written alike in every session. Plans are made once: the
# arguments are arrays, whose values the planner cannot use.
SETTINGS = {
    **PINNED,
    "quote_all_identifiers": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}

PARAMETER = compile_pattern(r"\$(\d+)")
# A function of this project, as a context names it.
OURS = compile_pattern(r"\b(?:aiq|rbac)\.\w+\(")
# The errors that a function of this project may raise, by their SQLSTATE.
REFUSALS = {
    kind.sqlstate: kind
    for kind in (
        Ambiguous, InvalidJudge, InvalidValue, MissingSetting, NotAllowed, NotFound, UnknownName,
    )
}  # fmt: skip


class ClientStore(RelationalStore):
    """Runs statements over a psycopg connection, as the connection's role and claims.

    Parameters
    ----------
    connection : psycopg.Connection
        Used for one call of an algorithm at a time. Outside a transaction each
        call runs in one of its own, repeatable and read-only.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__()
        self.connection = connection
        self._cast: dict[tuple[str, tuple[str, ...]], tuple[str, list[int]]] = {}

    @classmethod
    @contextmanager
    def connect(cls, dsn: str) -> Iterator[ClientStore]:
        """Open a connection, hand over a store on it, and close it at the end."""
        with psycopg.connect(dsn, autocommit=True) as connection:
            yield cls(connection)

    @contextmanager
    def reading(self) -> Iterator[ClientStore]:
        """Give the statements within one snapshot.

        Inside a transaction that is already open, its own isolation level holds, and
        its settings are put back at the end.
        """
        self._any_ending = self._entity_types = self._judge = None
        self._spaces.clear()
        try:
            with self._snapshot():
                yield self
        finally:
            self._spaces.clear()

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        idle = psycopg.pq.TransactionStatus.IDLE
        if self.connection.info.transaction_status != idle:
            with local_settings(self.connection, SETTINGS):
                yield
            return
        with self.connection.transaction():
            self.connection.execute(
                "set transaction isolation level repeatable read, read only; "
                + "; ".join(f"set local {name} = {value}" for name, value in SETTINGS.items())
            )
            yield

    def _statement(self, text: str, types: Sequence[str]) -> tuple[str, list[int]]:
        """Return the text with each parameter cast, and which parameters it uses, renumbered."""
        key = (text, tuple(types))
        if key not in self._cast:
            used = sorted({int(number) for number in PARAMETER.findall(text)})
            numbers = {number: place for place, number in enumerate(used, 1)}
            cast = PARAMETER.sub(
                lambda match: f"(${numbers[int(match[1])]}::text::{types[int(match[1]) - 1]})",
                text,
            )
            self._cast[key] = cast, used
        return self._cast[key]

    def _query(
        self, text: str, types: Sequence[str], parameters: Sequence[Any]
    ) -> Sequence[Mapping[str, Any]]:
        cast, used = self._statement(text, types)
        values = [_literal(parameters[number - 1], types[number - 1]) for number in used]
        with _refusals(), psycopg.RawCursor(self.connection, row_factory=dict_row) as cursor:
            return cursor.execute(cast, values, prepare=True, binary=True).fetchall()

    def _stream(
        self, text: str, types: Sequence[str], parameters: Sequence[Any], size: int
    ) -> Iterator[Sequence[Mapping[str, Any]]]:
        cast, used = self._statement(text, types)
        values = [_literal(parameters[number - 1], types[number - 1]) for number in used]
        with psycopg.RawServerCursor(
            self.connection, "graphalgo_stream", row_factory=dict_row
        ) as cursor:
            with _refusals():
                cursor.execute(cast, values, binary=True)
                rows = cursor.fetchmany(size)
            while rows:
                yield rows
                with _refusals():
                    rows = cursor.fetchmany(size)


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise what a function of this project refuses as one of its own errors.

    What the server says of itself, or a judge of its own, stays an error of psycopg.
    """
    try:
        yield
    except psycopg.Error as error:
        kind = REFUSALS.get(error.sqlstate or "")
        if kind is None or not _is_ours(error.diag):
            raise
        raise kind(error.diag.message_primary or "refused", error.diag.message_hint) from error


def _is_ours(said: psycopg.errors.Diagnostic) -> bool:
    """Tell whether a function of this project has raised it.

    Where it was raised stands first in the context, in the words of the server's language
    but for the function's name.
    """
    raised_by = (said.context or "").partition("\n")[0]
    return said.source_function == "exec_stmt_raise" and OURS.search(raised_by) is not None


def _literal(value: Any, type_name: str) -> str | None:
    """Return a parameter in PostgreSQL's text form: its type is then the statement's own."""
    if value is None:
        return None
    if type_name == "timestamptz":
        return known_moment(value).isoformat()
    if isinstance(value, list):
        return "{" + ",".join(_element(element) for element in value) + "}"
    return value if isinstance(value, str) else repr(value)


def _element(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
