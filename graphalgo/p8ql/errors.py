"""The dialect's own errors. Each knows its place in the query."""

from __future__ import annotations

from graphalgo.engine.errors import GraphAlgoError, InvalidValue


class QuerySyntaxError(GraphAlgoError):
    """A query does not parse (42601).

    Parameters
    ----------
    message : str
        What is wrong; " at character n" is added to it.
    hint : str or None
        What to write instead.
    position : int
        Where in the query, in characters from 1; one past its end where
        something is missing there.
    """

    sqlstate = "42601"

    def __init__(self, message: str, hint: str | None, position: int) -> None:
        super().__init__(f"{message} at character {position}", hint)
        self.position = position


class QueryValueError(InvalidValue):
    """A query parses, but a value in it is out of its range (22023).

    The parameters are those of :class:`QuerySyntaxError`.
    """

    def __init__(self, message: str, hint: str | None, position: int) -> None:
        super().__init__(f"{message} at character {position}", hint)
        self.position = position
