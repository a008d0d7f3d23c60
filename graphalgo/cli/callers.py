"""Asking as somebody: the rights of a caller, and their claims."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from graphalgo.engine.errors import InvalidValue

if TYPE_CHECKING:
    import psycopg

_SETTING = "request.jwt.claims"
_EXAMPLE = "e0000000-0000-0000-0000-00000000000a"


def read_claims(sub: str | None, orgs: list[str] | None) -> tuple[str, list[str] | None] | None:
    """Read the options that name a caller.

    Parameters
    ----------
    sub : str, optional
        The user.
    orgs : list of str, optional
        The organisations that they ask for; none means every one of theirs.

    Returns
    -------
    tuple or None
        Both, checked; None where no caller is named.

    Raises
    ------
    InvalidValue
        Organisations without a user, or what is no uuid (22023).
    """
    if sub is None:
        if orgs:
            raise InvalidValue(
                "--as-org is given without --as-sub", "Name the user who asks with --as-sub UUID."
            )
        return None
    return _uuid("--as-sub", sub), [_uuid("--as-org", org) for org in orgs] if orgs else None


def speak_as(
    connection: psycopg.Connection[Any],
    sub: str,
    orgs: list[str] | None,
    *,
    local: bool = False,
) -> None:
    """Make a connection that of a caller: the role `authenticated`, with claims.

    Parameters
    ----------
    connection : psycopg.Connection
        Of a user who may take that role, such as a superuser.
    sub, orgs
        What :func:`read_claims` gives.
    local : bool
        Only until the transaction ends.
    """
    claims: dict[str, Any] = {"sub": sub} | ({} if orgs is None else {"orgs": orgs})
    connection.execute(
        "select pg_catalog.set_config(%s, %s, %s), pg_catalog.set_config('role', %s, %s)",
        (_SETTING, json.dumps(claims), local, "authenticated", local),
    )


def _uuid(option: str, written: str) -> str:
    try:
        return str(UUID(written))
    except ValueError:
        raise InvalidValue(
            f'{option} is "{written}", but must be a uuid',
            f"Write for example {option} {_EXAMPLE}.",
        ) from None
