"""Who asks: the claims that go to the database with every statement."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from graphalgo.engine.errors import InvalidValue

_EXAMPLE = "e0000000-0000-0000-0000-00000000000a"


@dataclass(frozen=True, slots=True)
class Caller:
    """A user, or nobody in particular.

    Attributes
    ----------
    subject : str or None
        The user's uuid.
    claims : str
        What the setting `request.jwt.claims` holds while they ask.
    """

    subject: str | None
    claims: str


def caller(sub: Any, orgs: Any, names: tuple[str, str] = ("sub", "orgs")) -> Caller:
    """Make a caller of claims.

    Parameters
    ----------
    sub : str or None
        The user.
    orgs : list of str or None
        The organisations that they ask for; None means every one of theirs.
    names : tuple of str
        What the two are called in a refusal.

    Raises
    ------
    InvalidValue
        Either is not made of uuids, or there are organisations and no user (22023).
    """
    if sub is None:
        if orgs:
            raise InvalidValue(
                f"{names[1]} is given without {names[0]}", f"Name the user with {names[0]}."
            )
        return Caller(None, "")
    claims: dict[str, Any] = {"sub": _uuid(names[0], sub)}
    if orgs is not None:
        if not isinstance(orgs, (list, tuple)):
            raise InvalidValue(
                f"{names[1]} is {orgs!r}, but must be a list of uuids",
                f'Write for example ["{_EXAMPLE}"].',
            )
        claims["orgs"] = [_uuid(names[1], org) for org in orgs]
    return Caller(claims["sub"], json.dumps(claims))


def _uuid(name: str, written: Any) -> str:
    try:
        if isinstance(written, str):
            return str(UUID(written))
    except ValueError:
        pass
    raise InvalidValue(
        f"{name} is {written!r}, but must be a uuid", f"Write for example {_EXAMPLE}."
    )
