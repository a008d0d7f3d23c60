"""Installs and upgrades graphalgo in the databases of a container's server.

Run by the entrypoint while the server listens on its Unix socket alone. With
``--database`` it makes that database, installs there and loads the sample;
without, it upgrades every database that has graphalgo. Doing either again does
no harm.
"""

from __future__ import annotations

import argparse
import os
import sys

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier, Literal

from graphalgo import __version__
from graphalgo.engine.errors import GraphAlgoError
from graphalgo.install import install
from graphalgo.loading import load_harbour, load_investigation

_SOCKET = "/var/run/postgresql"
_SAMPLES = {"harbour": load_harbour, "investigation": load_investigation}
_AGENT = "graphalgo_agent"


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


def load_samples(user: str, database: str, sample: str) -> None:
    """Load the samples that are asked for into a graph that holds nothing."""
    if sample == "none" or has_nodes(user, database):
        return
    for name, load in _SAMPLES.items():
        if sample in (name, "all"):
            say(f"loading the {name} sample")
            load(dsn(user, database))


def make_agent(user: str, database: str) -> None:
    """Make the MCP server's role, if it is given a password: it may become a caller."""
    password = os.environ.get("GRAPHALGO_AGENT_PASSWORD")
    if not password:
        return
    role = Identifier(_AGENT)
    with psycopg.connect(dsn(user, database), autocommit=True) as connection:
        found = connection.execute("select 1 from pg_roles where rolname = %s", [_AGENT])
        verb = SQL("create" if found.fetchone() is None else "alter")
        # Sent as a digest, so that no log holds the password.
        digest = connection.pgconn.encrypt_password(password.encode(), _AGENT.encode())
        connection.execute(
            SQL("{} role {} login noinherit password {}").format(
                verb, role, Literal(digest.decode())
            )
        )
        connection.execute(SQL("grant authenticated to {}").format(role))
    say(f"the role {_AGENT} may become a caller")


def main() -> int:
    """Prepare what the arguments say; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", required=True)
    parser.add_argument("--database")
    parser.add_argument("--sample", choices=["none", *_SAMPLES, "all"], default="none")
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
        if given.database is not None:
            load_samples(given.user, given.database, given.sample)
            make_agent(given.user, given.database)
    except GraphAlgoError as error:
        print(f"graphalgo: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
