"""The one family of errors, the same inside the server and outside it.

Inside PostgreSQL an error of this family is raised again with its SQLSTATE and
hint; outside, it is an ordinary exception that carries the same text.
"""

from __future__ import annotations


class GraphAlgoError(Exception):
    """Base of every error the project raises on purpose.

    Parameters
    ----------
    message : str
        One sentence that names the offending value and what was expected.
    hint : str, optional
        What to write instead.
    """

    sqlstate = "XX000"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nHINT: {self.hint}"


class InvalidValue(GraphAlgoError):
    """A value is out of its range, missing, or of the wrong kind (22023)."""

    sqlstate = "22023"


class UnknownName(GraphAlgoError):
    """An entity type, relation, source or model is not declared (42704)."""

    sqlstate = "42704"


class NotFound(GraphAlgoError):
    """A name finds nothing that the caller may see (P0002).

    Attributes
    ----------
    near : tuple of str
        Near spellings, the nearest first, where they were looked for.
    """

    sqlstate = "P0002"
    near: tuple[str, ...] = ()


class Ambiguous(GraphAlgoError):
    """A name, or a close, finds several things (21000).

    Attributes
    ----------
    candidates : tuple of str
        The handles of the first of them, where they are nodes.
    """

    sqlstate = "21000"
    candidates: tuple[str, ...] = ()


class MissingSetting(GraphAlgoError):
    """A setting that the call needs is not set, or a state that it needs is not there (55000)."""

    sqlstate = "55000"


class InvalidJudge(GraphAlgoError):
    """A judge is missing, not the caller's to execute, or of the wrong shape (42883)."""

    sqlstate = "42883"


class NotAllowed(GraphAlgoError):
    """The caller may not do this (42501)."""

    sqlstate = "42501"
