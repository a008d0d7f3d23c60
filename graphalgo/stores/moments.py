"""Moments as callers outside the server write them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from graphalgo.engine.arguments import told
from graphalgo.engine.errors import InvalidValue


def known_moment(value: Any) -> datetime:
    """Return a moment with its time zone; one without is UTC's, a date begins at midnight.

    Parameters
    ----------
    value : datetime, date or str
        A text is read as ISO 8601.

    Raises
    ------
    InvalidValue
        It is none of these (22023).
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise _refused(value) from None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise _refused(value)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _refused(value: object) -> InvalidValue:
    return InvalidValue(
        f"{told(value)} is not a moment", "Write it as in 2026-01-31T12:00:00+00:00."
    )
