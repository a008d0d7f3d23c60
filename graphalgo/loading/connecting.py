"""The connection that a load runs on: the caller's own, or one for a DSN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from graphalgo.engine.errors import MissingSetting
from graphalgo.install.connection import open_connection


@contextmanager
def connected(connection_or_dsn: Connection[Any] | str) -> Iterator[Connection[Any]]:
    """Give the connection itself, or one for the DSN that is closed at the end."""
    if isinstance(connection_or_dsn, str):
        with open_connection(connection_or_dsn) as connection:
            yield connection
    else:
        yield connection_or_dsn


def require_schema(connection: Connection[Any]) -> None:
    """Refuse a database in which graphalgo is not installed (55000)."""
    row = connection.execute(
        "select pg_catalog.to_regclass('aiq.node_keys') is not null"
    ).fetchone()
    if row is None or not row[0]:
        raise MissingSetting(
            f'graphalgo is not installed in the database "{connection.info.dbname}"',
            "Install it with: graphalgo install --dsn DSN",
        )
