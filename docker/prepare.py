"""Installs and upgrades graphalgo in the databases of a container's server.

Run by the entrypoint while the server listens on its Unix socket alone. With
``--database`` it makes that database, installs there and loads the sample;
without, it upgrades every database that has graphalgo. Doing either again does
no harm.
"""

from __future__ import annotations

import argparse
import sys

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from graphalgo import __version__
from graphalgo.engine.errors import GraphAlgoError
from graphalgo.install import install
from graphalgo.loading import load_harbour

_SOCKET = "/var/run/postgresql"


def dsn(user: str, database: str) -> str:
    """The way to a database over the socket."""
    return make_conninfo(host=_SOCKET, user=user, dbname=database)


def say(line: str) -> None:
    """Write a line to the container's log now."""
    print(f"graphalgo: {line}", flush=True)


def ensure_database(user: str, name: str) -> None:
    """Make a database if it is not there."""
    with psycopg.connect(dsn(user, "postgres"), autocommit=True) as connection:
        found = connection.execute("select 1 from pg_database where datname = %s", [name])
        if found.fetchone() is None:
            connection.execute(SQL("create database {}").format(Identifier(name)))


def installed_databases(user: str) -> list[str]:
    """The databases that have a schema of graphalgo's."""
    with psycopg.connect(dsn(user, "postgres")) as connection:
        names = connection.execute(
            "select datname from pg_database where datallowconn and not datistemplate order by 1"
        ).fetchall()
    return [name for (name,) in names if _has_schema(user, name)]


def _has_schema(user: str, name: str) -> bool:
    with psycopg.connect(dsn(user, name)) as connection:
        row = connection.execute("select to_regclass('aiq.meta') is not null").fetchone()
    return row is not None and bool(row[0])


def has_nodes(user: str, name: str) -> bool:
    """Whether the graph of a database has anything in it."""
    with psycopg.connect(dsn(user, name)) as connection:
        row = connection.execute("select exists (select from aiq.nodes)").fetchone()
    return row is not None and bool(row[0])


def main() -> int:
    """Prepare what the arguments say; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", required=True)
    parser.add_argument("--database")
    parser.add_argument("--sample", choices=["none", "harbour"], default="none")
    given = parser.parse_args()
    if given.database is None:
        databases = installed_databases(given.user)
    else:
        ensure_database(given.user, given.database)
        databases = [given.database]
    try:
        for name in databases:
            say(f"installing {__version__} in database {name}")
            install(dsn(given.user, name), report=say)
        if given.sample == "harbour" and not has_nodes(given.user, given.database):
            say("loading the harbour sample")
            load_harbour(dsn(given.user, given.database))
    except GraphAlgoError as error:
        print(f"graphalgo: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
