"""Settings that hold for a while within a transaction that somebody else has begun."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import tuple_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Under this path names and operators are the server's own, whatever the caller's
# path: what is temporary comes last, and never for functions and operators.
PINNED = {"search_path": "pg_catalog, pg_temp"}


@contextmanager
def local_settings(
    connection: psycopg.Connection[Any], settings: Mapping[str, str]
) -> Iterator[None]:
    """Set settings inside a transaction, and put back at the end what they were.

    Parameters
    ----------
    connection : psycopg.Connection
        Inside a transaction. It takes no savepoint: if the transaction fails, the
        rollback that has to follow puts the settings back.
    settings : mapping of str to str
        Constants of this project: the names of settings and what each is set to.

    Notes
    -----
    Costs a round trip before and one after.
    """
    names = list(settings)
    read = ", ".join(f"pg_catalog.current_setting('{name}')" for name in names)
    write = "; ".join(f"set local {name} = {value}" for name, value in settings.items())
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        before = cursor.execute(f"select {read}; {write}".encode()).fetchone()
    assert before is not None
    try:
        yield
    finally:
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
            back = ", ".join(f"pg_catalog.set_config('{name}', %s, true)" for name in names)
            with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
                cursor.execute(f"select {back}".encode(), before)
