"""Telling whether the index of names serves, and what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphalgo.install import server
from graphalgo.names.serving import FEW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphalgo.install.connection import Connection

# More changes than this share of the index make searches slower than they need be.
SHARE = 0.1
# Of fewer nobody notices.
FEW_CHANGES = 5_000
# More entries than this many times the names: most of them are gone.
STALE = 2

_THERE = "select pg_catalog.to_regprocedure('aiq.refresh_names(boolean)') is not null"
_NAMES = """
select count(*) from (
    select from aiq.node_keys where is_name and retired_at is null limit %s
) as k
"""
_ALL_NAMES = "select count(*) from aiq.node_keys where is_name and retired_at is null"
_STATE = """
select
    coalesce(sum(s.entries), 0)::bigint, count(*) filter (where s.ctype <> aiq.name_ctype()),
    (select count(*) from aiq.name_changes), aiq.most_name_changes()
from aiq.name_segments as s
"""
NUMPY_REMEDY = (
    "On the server, as root: apt-get install python3-numpy\n"
    "Elsewhere: python3 -m pip install numpy, for the Python that PL/Python links"
)


def problems(
    connection: Connection, numpy: str | None, maintain: str
) -> Iterator[tuple[bool, str, str | None]]:
    """Look at the index of names.

    Parameters
    ----------
    connection : psycopg.Connection
        Inside a transaction, which may be read-only.
    numpy : str or None
        Its version in the server's Python; None where it is missing.
    maintain : str
        The command that refreshes the index.

    Yields
    ------
    tuple
        Whether something is as it should be, what was found, and what mends it.
    """
    if not server.one(connection, _THERE):
        return
    many = int(str(server.one(connection, _NAMES, FEW))) >= FEW
    if numpy is None:
        message = (
            "the server's Python cannot import numpy: names are compared by pg_trgm's index,"
            " which among a million takes tens of times as long"
        )
        yield not many, message, NUMPY_REMEDY
        return
    row = connection.execute(_STATE).fetchone()
    assert row is not None
    entries, other, changes, most = row
    if not many and not entries and changes <= most:
        yield True, f"fewer than {FEW:,} names need no index but pg_trgm's", None
        return
    found = list(_stale(connection, entries, other, changes, most, maintain))
    yield from found
    if not found:
        yield True, f"the index of names holds {entries:,}, {changes:,} written since", None


def _stale(
    connection: Connection, entries: int, other: int, changes: int, most: int, maintain: str
) -> Iterator[tuple[bool, str, str | None]]:
    if not entries:
        message = f"no index of names has been built, and {changes:,} written names wait for it"
        yield False, message, maintain
    elif other:
        message = "the index of names was made where other characters make words: it does not serve"
        yield False, message, maintain
    elif changes > most:
        message = f"{changes:,} names were written since the index was refreshed: it does not serve"
        yield False, message, maintain
    elif changes > max(FEW_CHANGES, SHARE * entries):
        message = (
            f"{changes:,} names were written since the index of {entries:,} was refreshed,"
            f" more than {SHARE:.0%} of it"
        )
        yield False, message, maintain
    elif entries > FEW and entries > STALE * int(str(server.one(connection, _ALL_NAMES))):
        message = f"more than half of the {entries:,} entries of the index of names are gone"
        yield False, message, f"{maintain} --rebuild"
