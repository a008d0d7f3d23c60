"""The database: a bounded pool, and every statement under its caller's claims.

A call is one transaction: it takes the claims, the role and the time limit for
itself alone, asks one statement, and ends. Nothing of a caller is left on a
connection when the next one has it.

A call runs in a task of its own. Whoever waits for it may go away at any time; the
task then stops the statement in the server, and gives its connection back or drops
it, undisturbed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from graphalgo.engine.errors import GraphAlgoError, InvalidValue
from graphalgo.mcp.callers import Caller
from graphalgo.mcp.errors import Busy, connection_lost, from_database, stopping, unreachable
from graphalgo.mcp.logs import tell
from graphalgo.mcp.settings import Settings

Row = dict[str, Any]

_BEGIN = """
select
    pg_catalog.set_config('request.jwt.claims', %s, true),
    pg_catalog.set_config('statement_timeout', %s, true),
    pg_catalog.set_config('role', %s, true)
"""
_READY = "select pg_catalog.to_regproc('aiq.ontology') is not null as installed"
_NOBODY = Caller(None, "")

# A connection serves so long: what a backend has loaded and kept goes with it.
_LIFETIME = 30 * 60.0
_IDLE = 5 * 60.0
_CONNECT_TIMEOUT = 5
_RECONNECT = 30.0
# What a call may take beyond its statement before it is given up.
_SLACK = 5.0


class _NothingSent(Exception):
    """A connection turned out to be broken before the call's statement was sent."""


class Database:
    """Asks the SQL functions.

    Parameters
    ----------
    settings : Settings
        With the DSN and the limits.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._pool = AsyncConnectionPool(
            _conninfo(settings),
            connection_class=AsyncConnection[DictRow],
            kwargs={"row_factory": dict_row},
            min_size=1,
            max_size=settings.connections,
            open=False,
            configure=_configure,
            timeout=settings.wait,
            max_lifetime=_LIFETIME,
            max_idle=_IDLE,
            # After that the next call tries again: an outage may take any time.
            reconnect_timeout=_RECONNECT,
            name="graphalgo",
        )
        self._free = asyncio.Semaphore(settings.connections)
        self._tasks: set[asyncio.Task[list[Row]]] = set()
        self._closing = False
        self._answered = 0.0

    async def open(self) -> None:
        """Start the pool; that the database does not answer yet is no error."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Let the calls that run finish, stop those that take too long, close the connections."""
        self._closing = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.settings.shutdown)
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2 * _SLACK)
        await self._pool.close()

    def connections(self) -> int:
        """Tell how many connections there are."""
        return int(self._pool.get_stats().get("pool_size", 0))

    async def ask(self, who: Caller, statement: str, arguments: Mapping[str, Any]) -> list[Row]:
        """Run one statement as a caller.

        Parameters
        ----------
        who : Caller
            Under whose claims.
        statement : str
            A constant of this package, with named parameters.
        arguments : mapping
            Their values.

        Returns
        -------
        list of dict
            The rows.

        Raises
        ------
        GraphAlgoError
            The statement was refused or failed, or there was no connection for it.
        """
        if self._closing:
            raise stopping()
        task = asyncio.create_task(self._ask(who, statement, arguments))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def ready(self) -> bool:
        """Tell whether the database answers and has graphalgo installed."""
        try:
            rows = await self.ask(_NOBODY, _READY, {})
        except Busy:
            # Calls that are being answered keep it busy; calls that hang do not.
            recent = 2 * (self.settings.statement_timeout + self.settings.wait)
            return time.monotonic() - self._answered < recent
        except GraphAlgoError:
            return False
        return bool(rows[0]["installed"])

    def _done(self, task: asyncio.Task[list[Row]]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # where nobody waits any more, nobody misses it

    async def _ask(self, who: Caller, statement: str, arguments: Mapping[str, Any]) -> list[Row]:
        async with self._turn():
            try:
                return await self._try(who, statement, arguments)
            except _NothingSent:
                tell("reconnecting", logging.WARNING)
            # After a restart every connection that was idle is broken.
            with contextlib.suppress(PoolClosed):
                await self._pool.check()
            try:
                return await self._try(who, statement, arguments)
            except _NothingSent:
                raise unreachable() from None

    @contextlib.asynccontextmanager
    async def _turn(self) -> Any:
        """Wait for one of as many turns as there are connections."""
        seconds = self.settings.wait
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
        except TimeoutError:
            raise Busy(
                f"all {self.settings.connections} connections to the database have been busy"
                f" for {seconds:g} s",
                "Call again later, with fewer calls at once.",
            ) from None
        try:
            yield
        finally:
            self._free.release()

    async def _try(self, who: Caller, statement: str, arguments: Mapping[str, Any]) -> list[Row]:
        seconds = self.settings.statement_timeout
        try:
            async with (
                asyncio.timeout(self.settings.wait + seconds + _SLACK),
                self._pool.connection() as connection,
            ):
                rows = await self._transaction(connection, who, statement, arguments)
        except (PoolTimeout, PoolClosed):
            raise unreachable() from None
        except TimeoutError:
            raise connection_lost() from None
        except psycopg.Error as error:
            raise from_database(error, seconds) from None
        self._answered = time.monotonic()
        return rows

    async def _transaction(
        self,
        connection: AsyncConnection[DictRow],
        who: Caller,
        statement: str,
        arguments: Mapping[str, Any],
    ) -> list[Row]:
        settings = self.settings
        limit = str(max(1, round(settings.statement_timeout * 1000)))
        sent = False
        try:
            async with connection.transaction():
                await connection.execute(_BEGIN, [who.claims, limit, settings.role])
                sent = True
                # The text is a constant of this package.
                cursor = await connection.execute(statement.encode(), arguments)
                return await cursor.fetchall()
        except psycopg.OperationalError as error:
            if not sent and connection.closed:
                raise _NothingSent from error
            raise


async def _configure(connection: AsyncConnection[DictRow]) -> None:
    """Let no statement of a connection write."""
    await connection.set_read_only(True)


def _conninfo(settings: Settings) -> str:
    """Add to a DSN what keeps a call from waiting for a host that is gone."""
    try:
        given = conninfo_to_dict(settings.dsn)
    except psycopg.ProgrammingError:
        raise InvalidValue(
            "the DSN is neither a connection string nor a URL of PostgreSQL",
            "Write 'host=localhost port=5432 dbname=mine user=me' or "
            "'postgresql://me@localhost:5432/mine'.",
        ) from None
    silence = round((settings.statement_timeout + 2 * _SLACK) * 1000)
    defaults: dict[str, Any] = {
        "connect_timeout": _CONNECT_TIMEOUT,
        "application_name": "graphalgo mcp",
        "tcp_user_timeout": silence,
        "keepalives_idle": 30,
    }
    return make_conninfo("", **(defaults | given | {"client_encoding": "UTF8"}))
