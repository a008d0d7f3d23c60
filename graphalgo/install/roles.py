"""The roles: making them, and refusing those that would open what row security closes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from graphalgo.install.connection import Connection
from graphalgo.install.server import Problem

OWNER = "aiq_owner"
ENGINE = "aiq_engine"
ANONYMOUS = "web_anon"
CALLER = "authenticated"
WORKER = "aiq_worker"
READER = "aiq_reader"
ROLES = (OWNER, ENGINE, ANONYMOUS, CALLER, WORKER, READER)

# Roles belong to the whole cluster, and another database of it may use ours too.
# The comment tells every database that graphalgo made the role, whichever did.
MARK = "Made by graphalgo"

_MAY_NOT_BYPASS = (OWNER, ANONYMOUS, CALLER, READER)
_MAY_NOT_BE_MEMBER = (
    (OWNER, ENGINE),
    (CALLER, ENGINE),
    (ANONYMOUS, ENGINE),
    (CALLER, OWNER),
    # The reader is what a statement from outside runs as.
    (READER, ENGINE),
    (READER, OWNER),
    (READER, WORKER),
    (CALLER, READER),
    (ANONYMOUS, READER),
)
_CONSEQUENCE = "row security would not hold for anyone who reads its views"

_HELD = """
with granted (classid, objid) as (
    select s.classid, s.objid
    from pg_catalog.pg_shdepend as s
    join pg_catalog.pg_database as d on d.oid = s.dbid
    where
        d.datname = pg_catalog.current_database() and s.deptype = 'a'
        and s.refclassid = 'pg_catalog.pg_authid'::regclass
        and s.refobjid = pg_catalog.to_regrole(%(role)s)
)
select distinct
    case c.relkind when 'S' then 'sequence ' else 'table ' end
    || pg_catalog.format('%%I.%%I', n.nspname, c.relname) as name
from granted as g
join pg_catalog.pg_class as c on g.classid = 'pg_catalog.pg_class'::regclass and c.oid = g.objid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where
    n.nspname not in ('aiq', 'rbac')
    and (
        %(tables)s::text[] is null
        or pg_catalog.format('%%I.%%I', n.nspname, c.relname) = any (%(tables)s::text[])
    )
union all
select 'schema ' || pg_catalog.quote_ident(n.nspname)
from granted as g
join pg_catalog.pg_namespace as n
    on g.classid = 'pg_catalog.pg_namespace'::regclass and n.oid = g.objid
where n.nspname not in ('aiq', 'rbac') and %(tables)s::text[] is null
order by 1
"""


@dataclass(frozen=True, slots=True)
class Role:
    """A role as the catalogue has it."""

    name: str
    superuser: bool
    bypasses: bool
    logs_in: bool
    marked: bool


def existing(connection: Connection) -> dict[str, Role]:
    """Look up those of our roles that are there."""
    rows = connection.execute(
        "select rolname, rolsuper, rolbypassrls, rolcanlogin,"
        " coalesce(pg_catalog.shobj_description(oid, 'pg_authid') = %s, false)"
        " from pg_catalog.pg_roles where rolname = any (%s)",
        (MARK, list(ROLES)),
    ).fetchall()
    return {row[0]: Role(*row) for row in rows}


def make_missing(connection: Connection) -> list[str]:
    """Create the roles that are not there.

    Parameters
    ----------
    connection : psycopg.Connection
        A superuser's, inside a transaction.

    Returns
    -------
    list of str
        The names of those made now.
    """
    if len(existing(connection)) == len(ROLES):
        return []
    if is_superuser(connection):
        # An advisory lock holds in one database alone. This lock makes an
        # installation in another database of the cluster wait before it looks.
        connection.execute("lock table pg_catalog.pg_authid in share row exclusive mode")
    there = existing(connection)
    made = [name for name in ROLES if name not in there]
    for name in made:
        role = sql.Identifier(name)
        connection.execute(sql.SQL("create role {} nologin").format(role))
        connection.execute(sql.SQL("comment on role {} is {}").format(role, MARK))
    return made


@contextmanager
def borrowed(connection: Connection) -> Iterator[None]:
    """Be the owner and the engine for a while, as a user who is no superuser has to.

    Parameters
    ----------
    connection : psycopg.Connection
        Inside a transaction. A superuser has all rights already, and nothing is done.
    """
    lent = []
    for role in () if is_superuser(connection) else (OWNER, ENGINE):
        has = "select pg_catalog.pg_has_role(pg_catalog.to_regrole(%s)::oid, 'usage')"
        if connection.execute(has, (role,)).fetchone() == (False,):
            lent.append(sql.Identifier(role))
    for name in lent:
        connection.execute(sql.SQL("grant {} to current_user").format(name))
    yield
    for name in lent:  # after an error the transaction gives them back
        connection.execute(sql.SQL("revoke {} from current_user").format(name))


@contextmanager
def engine_may_own(connection: Connection, schemas: Sequence[str]) -> Iterator[None]:
    """Let the engine create in our schemas for a while, or it can be given nothing in them.

    Parameters
    ----------
    connection : psycopg.Connection
        Inside a transaction. A superuser can give anything to anyone, and nothing is done.
    schemas : sequence of str
        The schemas; they are made where they are missing.
    """
    theirs = [] if is_superuser(connection) else [sql.Identifier(name) for name in schemas]
    engine = sql.Identifier(ENGINE)
    for name in theirs:
        owner = sql.Identifier(OWNER)
        make = sql.SQL("create schema if not exists {} authorization {}")
        connection.execute(make.format(name, owner))
        connection.execute(sql.SQL("grant create on schema {} to {}").format(name, engine))
    yield
    for name in theirs:
        connection.execute(sql.SQL("revoke create on schema {} from {}").format(name, engine))


def is_superuser(connection: Connection) -> bool:
    """Tell whether the connection's user is a superuser."""
    return connection.info.parameter_status("is_superuser") == "on"


def problems(connection: Connection) -> list[Problem]:
    """Find what is wrong with the roles that are there.

    Parameters
    ----------
    connection : psycopg.Connection
        Anyone's.

    Returns
    -------
    list of Problem
        Each stops an installation; the remedy is the statement that mends it.
    """
    there = existing(connection)
    found = []
    for role in there.values():
        if role.superuser:
            found.append(_refused(f"role {role.name} is a superuser", f"{role.name} nosuperuser"))
        if role.bypasses and role.name in _MAY_NOT_BYPASS:
            found.append(_refused(f"role {role.name} has BYPASSRLS", f"{role.name} nobypassrls"))
    for member, group in _MAY_NOT_BE_MEMBER:
        # Of a superuser the question has no meaning: it is a member of every role.
        if {member, group} <= there.keys() and not there[member].superuser:
            mended = {problem.remedy for problem in found}
            # What the reader has as a caller, the caller is told for.
            found.extend(
                problem
                for problem in _membership(connection, member, group)
                if problem.remedy not in mended
            )
    return found


def _refused(what: str, change: str) -> Problem:
    return Problem(
        f"{what}, but it must not be: {_CONSEQUENCE}",
        f"As a superuser: alter role {change};",
        "42501",
    )


def _membership(connection: Connection, member: str, group: str) -> list[Problem]:
    """Find the grants by which one role has become a member of another."""
    rows = connection.execute(
        """
        with recursive above (role, group_role) as (
            select m.member, m.roleid from pg_catalog.pg_auth_members as m
            where m.member = pg_catalog.to_regrole(%(member)s)
            union
            select m.member, m.roleid
            from above join pg_catalog.pg_auth_members as m on m.member = above.group_role
        )
        select role::regrole::text, group_role::regrole::text from above
        where group_role = pg_catalog.to_regrole(%(group)s) order by 1
        """,
        {"member": member, "group": group},
    ).fetchall()
    return [
        Problem(
            f"role {member} is a member of {group}"
            + ("" if via == member else f" by way of {via}")
            + f", but it must not be: {_CONSEQUENCE}",
            f"As a superuser: revoke {last} from {via};",
            "42501",
        )
        for via, last in rows
    ]


def other_databases(connection: Connection) -> list[str]:
    """Name the other databases of the cluster that have graphalgo too: they use all its roles."""
    rows = connection.execute(
        "select distinct d.datname from pg_catalog.pg_shdepend as s"
        " join pg_catalog.pg_database as d on d.oid = s.dbid"
        " where s.refclassid = 'pg_catalog.pg_authid'::regclass"
        " and s.refobjid = pg_catalog.to_regrole(%s) and s.deptype = 'o'"
        " and d.datname <> pg_catalog.current_database() order by 1",
        (OWNER,),
    ).fetchall()
    return [row[0] for row in rows]


def take_back(
    connection: Connection, name: str, registered: Sequence[str] | None = None
) -> list[str]:
    """Revoke what a role was granted on tables and schemas that are not ours.

    Parameters
    ----------
    connection : psycopg.Connection
        A superuser's, inside a transaction. What others granted, another user cannot
        revoke: that is left.
    name : str
        One of our roles.
    registered : sequence of str, optional
        The only relations to look at, for what registering grants alone; None takes
        everything back, on all relations and schemas.

    Returns
    -------
    list of str
        On what the role has been granted something, such as ``table public.mine``.
    """
    rights = "all" if registered is None else "select, trigger"
    taken = []
    for what in connection.execute(_HELD, {"role": name, "tables": registered}).fetchall():
        statement = f"revoke {rights} on {what[0]} from {{}}"
        try:
            with connection.transaction():
                connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
        except psycopg.errors.InsufficientPrivilege:
            continue
        taken.append(what[0])
    return taken


def drop(connection: Connection, name: str) -> str | None:
    """Drop a role unless something still needs it.

    Parameters
    ----------
    connection : psycopg.Connection
        A superuser's, inside a transaction.
    name : str
        One of our roles.

    Returns
    -------
    str or None
        What still needs it, in any database of the cluster; None if it is gone.
    """
    try:
        with connection.transaction():
            connection.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(name)))
    except psycopg.errors.DependentObjectsStillExist as error:
        detail = error.diag.message_detail or error.diag.message_primary or "something"
        return "; ".join(detail.splitlines())
    return None
