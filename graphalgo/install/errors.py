"""What can go wrong while installing, uninstalling or checking."""

from __future__ import annotations

from graphalgo.engine.errors import GraphAlgoError


class InstallError(GraphAlgoError):
    """Installing or uninstalling was refused or failed; nothing was changed.

    Parameters
    ----------
    message : str
        What was found and what was expected.
    hint : str, optional
        The command that mends it.
    sqlstate : str
        The SQLSTATE that fits: the server's own where the server refused.
    """

    def __init__(self, message: str, hint: str | None = None, *, sqlstate: str = "XX000") -> None:
        super().__init__(message, hint)
        self.sqlstate = sqlstate
