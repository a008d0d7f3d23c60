"""Reaching a server, and speaking of a DSN without its password."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from graphalgo.install.errors import InstallError

Connection: TypeAlias = psycopg.Connection[TupleRow]
Report: TypeAlias = Callable[[str], None]

_CONNECT_TIMEOUT = 10


def open_connection(dsn: str) -> Connection:
    """Connect, or say in one sentence why not.

    Parameters
    ----------
    dsn : str
        A connection string or URL of PostgreSQL. Where it names no
        ``connect_timeout``, ten seconds hold.

    Returns
    -------
    psycopg.Connection
        In autocommit mode: each caller begins its own transaction.

    Raises
    ------
    InstallError
        If the DSN cannot be read (22023) or does not answer (08001). The
        password is never told.
    """
    parameters = read_dsn(dsn)
    parameters.setdefault("connect_timeout", str(_CONNECT_TIMEOUT))
    parameters["client_encoding"] = "UTF8"  # what is run is encoded here
    try:
        connection = psycopg.connect(make_conninfo("", **parameters), autocommit=True)
    except psycopg.OperationalError as error:
        raise InstallError(
            f"no connection to {describe(dsn)}: {' '.join(str(error).split())}",
            "Start the server or correct the DSN; try it with: psql " + shell_dsn(dsn),
            sqlstate=error.sqlstate or "08001",
        ) from error
    connection.prepare_threshold = None
    return connection


def read_dsn(dsn: str) -> dict[str, str]:
    """Take a DSN apart.

    Parameters
    ----------
    dsn : str
        A connection string or URL.

    Returns
    -------
    dict
        Its parameters by name.

    Raises
    ------
    InstallError
        If it is neither (22023). What was given is not repeated: a password may be in it.
    """
    try:
        return {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except psycopg.ProgrammingError:
        raise InstallError(
            "the DSN is neither a connection string nor a URL of PostgreSQL",
            "Write 'host=localhost port=5432 dbname=mine user=me' or "
            "'postgresql://me@localhost:5432/mine'.",
            sqlstate="22023",
        ) from None


def describe(dsn: str) -> str:
    """Tell where a DSN leads.

    Parameters
    ----------
    dsn : str
        A connection string or URL.

    Returns
    -------
    str
        Host, port and database, defaults and environment included; no password.
    """
    found = {
        option.keyword.decode(): option.val.decode()
        for option in pq.Conninfo.get_defaults()
        if option.val is not None
    }
    found.update(read_dsn(dsn))
    host = found.get("host") or found.get("hostaddr") or "the local socket"
    database = found.get("dbname") or found.get("user") or "the user's own"
    return f"host {host}, port {found.get('port', '5432')}, database {database}"


def without_password(dsn: str) -> str:
    """Write a DSN again without its passwords.

    Parameters
    ----------
    dsn : str
        A connection string or URL.

    Returns
    -------
    str
        A connection string, to be shown in commands.
    """
    secrets = {"password", "sslpassword", "oauth_client_secret"}
    return make_conninfo(
        "", **{name: value for name, value in read_dsn(dsn).items() if name not in secrets}
    )


def shell_dsn(dsn: str) -> str:
    """Write a DSN without its passwords as one word for a shell."""
    return shell_word(without_password(dsn))


def shell_word(text: str) -> str:
    """Quote a text as one word for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def psql(dsn: str, statement: str) -> str:
    """Write the command that runs one SQL statement where a DSN leads."""
    return f"psql {shell_dsn(dsn)} -c {shell_word(statement)}"


def ignore(_line: str) -> None:
    """Report nothing."""
