"""What can be wrong with a file that is loaded."""

from __future__ import annotations

from graphalgo.engine.errors import (
    Ambiguous,
    GraphAlgoError,
    InvalidValue,
    NotFound,
    UnknownName,
)

_SHOWN = 80


class LoadError(GraphAlgoError):
    """A line of a file is refused, and with it the whole load: nothing is stored.

    Parameters
    ----------
    file : str
        The file as it was named.
    line : int
        The number of the line on which the record begins, from 1; 0 where the
        file as a whole is meant.
    problem : str
        The value and what was expected in its place.
    hint : str, optional
        What to write instead.
    """

    def __init__(self, file: str, line: int, problem: str, hint: str | None = None) -> None:
        place = f"{file}, line {line}" if line else file
        super().__init__(f"{place}: {problem}", hint)
        self.file = file
        self.line = line
        self.problem = problem


class InvalidLine(LoadError, InvalidValue):
    """A value is out of its range, missing or of the wrong kind (22023)."""


class UnknownNameInLine(LoadError, UnknownName):
    """A line names an entity type or a relation that is not declared (42704)."""


class NotFoundInLine(LoadError, NotFound):
    """A line names a node that is not there (P0002)."""


class AmbiguousInLine(LoadError, Ambiguous):
    """A line names a node by a key that several hold (21000)."""


def shown(value: object) -> str:
    """Write a value as it goes into a message: quoted, unprintable characters escaped, not long."""
    text = str(value)
    visible = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text[: _SHOWN + 1]
    )
    if len(text) > _SHOWN:
        return f'"{visible[:_SHOWN]}…" ({len(text)} characters)'
    return f'"{visible}"'
