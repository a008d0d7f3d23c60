"""What goes wrong between the server and the database, in words for the agent."""

from __future__ import annotations

import psycopg

from graphalgo.engine.errors import GraphAlgoError

# What the SQL functions refuse with, and what PostgreSQL says of a caller's own doing.
_TOLD = {
    "21000", "22003", "22007", "22008", "22021", "22023", "22P02", "42501", "42601", "42704",
    "55000", "P0002",
}  # fmt: skip
_UNDEFINED_FUNCTION = "42883"
_CANCELED = "57014"


class Unreachable(GraphAlgoError):
    """The database does not answer (08001)."""

    sqlstate = "08001"


class ConnectionLost(GraphAlgoError):
    """The connection broke during a call (08006)."""

    sqlstate = "08006"


class Busy(GraphAlgoError):
    """Every connection is in use for longer than a call waits (53300)."""

    sqlstate = "53300"


class TooSlow(GraphAlgoError):
    """A statement ran longer than it may (57014)."""

    sqlstate = "57014"


class TooLarge(GraphAlgoError):
    """An answer is larger than one may be (54000)."""

    sqlstate = "54000"


def unreachable() -> Unreachable:
    """Say that the database does not answer."""
    return Unreachable("the database does not answer", "Call again in a few seconds.")


def stopping() -> Unreachable:
    """Say that this server does not ask the database any more."""
    return Unreachable("the server is stopping", "Connect again in a few seconds.")


def connection_lost() -> ConnectionLost:
    """Say that the connection broke during a call."""
    return ConnectionLost(
        "the connection to the database was lost during the call",
        "Call again: a call changes nothing.",
    )


def from_database(error: psycopg.Error, seconds: float) -> GraphAlgoError:
    """Turn an error of a statement into one of ours.

    Parameters
    ----------
    error : psycopg.Error
        Raised by the statement.
    seconds : float
        How long a statement may run.

    Returns
    -------
    GraphAlgoError
        With the SQL function's own words, where it refused; an error that is not
        the caller's doing is told by its SQLSTATE alone.
    """
    state = error.sqlstate
    if state == _CANCELED:
        return TooSlow(
            f"the call ran longer than {seconds:g} s and was stopped",
            "Ask for less: a lower limit, budget, degree_cap or max_rounds.",
        )
    if isinstance(error, psycopg.OperationalError) and (state is None or state[:2] in ("08", "57")):
        return connection_lost()
    told: GraphAlgoError
    if state in _TOLD:
        told = GraphAlgoError(error.diag.message_primary or "refused", error.diag.message_hint)
    elif state == _UNDEFINED_FUNCTION and _is_ours(error):
        told = GraphAlgoError(
            "the database has no such function of this version of graphalgo",
            "Its administrator installs it with: graphalgo install --dsn DSN",
        )
    elif state == _UNDEFINED_FUNCTION:
        # A judge, which the SQL functions refuse in their own words.
        told = GraphAlgoError(error.diag.message_primary or "refused", error.diag.message_hint)
    else:
        told = GraphAlgoError("the database could not answer the call")
    told.sqlstate = state or "XX000"
    return told


def _is_ours(error: psycopg.Error) -> bool:
    """Whether it is PostgreSQL itself that misses a function: it then says where in the text."""
    return error.diag.statement_position is not None
