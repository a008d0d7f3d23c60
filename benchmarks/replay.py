"""The bare SQL of a walk or a join, without Python: recorded, and run again inside the server.

The recording store is the client's store, whose statements and parameters are the SPI store's own;
it notes each of them down. Each statement then becomes a PL/pgSQL function, whose plan is kept as
that of a prepared statement is, and which measures its statement by the server's clock: parsing,
the connection and Python are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import psycopg
from psycopg import sql

from graphalgo.stores.client import ClientStore

Connection = psycopg.Connection[Any]
# A statement, its parameters' types, and their values.
Statement = tuple[str, tuple[str, ...], tuple[Any, ...]]

INTERRUPT_CHECK = "select 1 as one"


class RecordingStore(ClientStore):
    """The client's store, which notes down the statements that it runs."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.statements: list[Statement] = []

    def _query(
        self, text: str, types: Sequence[str], parameters: Sequence[Any]
    ) -> Sequence[Mapping[str, Any]]:
        self.statements.append((text, tuple(types), tuple(parameters)))
        return super()._query(text, types, parameters)

    def _stream(
        self, text: str, types: Sequence[str], parameters: Sequence[Any], size: int
    ) -> Iterator[Sequence[Mapping[str, Any]]]:
        self.statements.append((text, tuple(types), tuple(parameters)))
        return super()._stream(text, types, parameters, size)

    def check_interrupts(self) -> None:
        """Note the statement that the SPI store runs for this."""
        self.statements.append((INTERRUPT_CHECK, (), ()))


class Replay:
    """Runs recorded statements again inside the server.

    Parameters
    ----------
    connection : psycopg.Connection
        A caller's, in autocommit mode. It is given the settings of the SQL functions.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.functions: dict[tuple[str, tuple[str, ...]], str] = {}
        connection.execute(
            "set search_path = pg_catalog, pg_temp; set plan_cache_mode = force_generic_plan;"
            " set jit = off"
        )

    def run(self, statements: Sequence[Statement]) -> float:
        """Run the statements and give the milliseconds that they took together."""
        return sum(self._run_one(*statement) for statement in statements)

    def _run_one(self, text: str, types: tuple[str, ...], parameters: tuple[Any, ...]) -> float:
        call = self._function(text, types)
        row = self.connection.execute(call, parameters, prepare=True).fetchone()
        assert row is not None
        return float(row[0])

    def _function(self, text: str, types: tuple[str, ...]) -> str:
        key = (text, types)
        if key not in self.functions:
            name = f"replay_{len(self.functions)}"
            self._create(name, text, types)
            slots = ", ".join(f"%s::{kind}" for kind in types)
            self.functions[key] = f"select pg_temp.{name}({slots})"
        return self.functions[key]

    def _create(self, name: str, text: str, types: tuple[str, ...]) -> None:
        # PERFORM stands for SELECT; a statement that begins otherwise is put inside one.
        stripped = text.strip()
        if stripped.lower().startswith("select"):
            perform = "perform" + stripped[len("select") :]
        else:
            perform = f"perform * from ({stripped}) as recorded_statement"
        body = f"""
declare
    replay_began timestamptz := clock_timestamp();
begin
    {perform};
    return 1000 * extract(epoch from clock_timestamp() - replay_began);
end
"""
        self.connection.execute(
            sql.SQL(
                "create function pg_temp.{}({}) returns float8 language plpgsql stable as {}"
            ).format(sql.Identifier(name), sql.SQL(", ".join(types)), sql.Literal(body))
        )


def recorded(store: RecordingStore, algorithm: Any, *arguments: Any) -> list[Statement]:
    """Run an algorithm of the engine on the store and give the statements that it ran."""
    store.statements = []
    algorithm(store, *arguments)
    return store.statements


class ServerSide:
    """Measures a call of a SQL function by the server's clock, its rows computed and dropped."""

    def __init__(self, connection: Connection, call: str, types: Sequence[str]) -> None:
        self.connection = connection
        connection.execute("set jit = off")
        body = f"""
declare
    call_began timestamptz := clock_timestamp();
begin
    perform * from {call};
    return 1000 * extract(epoch from clock_timestamp() - call_began);
end
"""
        name = f"call_{crc32(call.encode())}"
        connection.execute(
            sql.SQL(
                "create or replace function pg_temp.{}({}) returns float8"
                " language plpgsql stable as {}"
            ).format(sql.Identifier(name), sql.SQL(", ".join(types)), sql.Literal(body))
        )
        slots = ", ".join(f"%s::{kind}" for kind in types)
        self.statement = f"select pg_temp.{name}({slots})"

    def run(self, *arguments: Any) -> float:
        """Call it once and give the milliseconds."""
        row = self.connection.execute(self.statement, arguments, prepare=True).fetchone()
        assert row is not None
        return float(row[0])
