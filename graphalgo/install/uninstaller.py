"""Taking graphalgo out of a database again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from graphalgo.install import roles
from graphalgo.install.connection import Connection, Report, ignore, open_connection
from graphalgo.install.errors import InstallError
from graphalgo.install.installer import begin, require_power, told
from graphalgo.install.objects import (
    EXTENSION,
    GRANT,
    ROLE,
    SCHEMA,
    DatabaseObject,
    Entry,
    dependents,
    has_books,
    in_schemas,
    listing,
    recorded_entries,
    schemas_there,
)
from graphalgo.install.server import one
from graphalgo.resources import quoted

# Views before the tables they read, and what tables and their triggers use last.
_ORDER = ("trigger", "view", "materialized view", "table", "sequence", "function", "procedure")
# Whether there are functions that only a superuser can have made.
_PLPYTHON = """
select exists (
    select from pg_catalog.pg_proc as p
    join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
    join pg_catalog.pg_language as l on l.oid = p.prolang
    where n.nspname = 'aiq' and l.lanname = 'plpython3u'
)
"""
_REGISTERED = """
select distinct pg_catalog.format('%I.%I', n.nspname, c.relname)
from pg_catalog.pg_trigger as t
join pg_catalog.pg_proc as p on p.oid = t.tgfoid
join pg_catalog.pg_namespace as f on f.oid = p.pronamespace
join pg_catalog.pg_class as c on c.oid = t.tgrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where f.nspname = 'aiq' and p.proname = 'keep_in_step'
order by 1
"""
# These go with their table.
_PARTS = ("index", "policy", "rule", "default value", "table constraint")


@dataclass(slots=True)
class UninstallReport:
    """What was removed.

    Attributes
    ----------
    found : bool
        Whether graphalgo was installed in the database at all.
    removed : list of str
        Schemas, extensions, roles and triggers on registered tables that are gone.
    left : list of str
        What graphalgo made but something else needs now, and what that is.
    """

    found: bool = True
    removed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def uninstall(dsn: str, *, report: Report | None = None) -> UninstallReport:
    """Remove from a database exactly what installing has made, the graph included.

    Everything happens in one transaction: after an error nothing is changed.

    Parameters
    ----------
    dsn : str
        Where from. The user must be one who can install there.
    report : callable, optional
        Called with a line for each thing that is removed or left.

    Returns
    -------
    UninstallReport
        What is gone, and what was left because something else needs it: a role that
        another database uses or that owns something, an extension that others use.

    Raises
    ------
    InstallError
        If the server does not answer (08001), the user may not (42501), or
        objects of others lie in our schemas or depend on ours (2BP01): they are named.
    """
    with open_connection(dsn) as connection, told("uninstall"), connection.transaction():
        begin(connection)
        return _Removal(connection, report or ignore).run()


class _Removal:
    """One run of :func:`uninstall`."""

    def __init__(self, connection: Connection, report: Report) -> None:
        self.connection = connection
        self.tell = report
        self.report = UninstallReport()

    def run(self) -> UninstallReport:
        if not has_books(self.connection):
            self.report.found = False
            self.tell("graphalgo is not installed in this database")
            return self.report
        plpython = bool(one(self.connection, _PLPYTHON))
        require_power(self.connection, "uninstall", plpython=plpython)
        with roles.borrowed(self.connection):
            registered = self._lock_registered()
            recorded = recorded_entries(self.connection)
            self._lock(recorded)
            ours = self._removable(recorded)
            for name in _names(recorded, GRANT):
                self.connection.execute(f"revoke {name}".encode())
            self._drop_schemas(recorded, ours)
            self._close_tables(registered)
        for name in _names(recorded, EXTENSION):
            self._tell(f"extension {name}", self._drop_extension(name))
        others = roles.other_databases(self.connection)
        used = f"graphalgo in {listing([f'database {name}' for name in others])} uses it"
        for name in _names(recorded, ROLE):
            self._tell(f"role {name}", used if others else self._drop_role(name))
        return self.report

    def _lock_registered(self) -> list[str]:
        """Make those who write registered tables wait, and name the tables.

        First, since a writer takes its table before the graph, too.
        """
        tables = [row[0] for row in self.connection.execute(_REGISTERED).fetchall()]
        for table in tables:
            self.connection.execute(f"lock table only {table} in access exclusive mode".encode())
        return tables

    def _close_tables(self, registered: list[str]) -> None:
        """Take back what registering has granted the engine on tables of others."""
        self._taken(roles.take_back(self.connection, roles.ENGINE, registered))
        for table in registered:
            self._tell(f"triggers on {table}", None)

    def _drop_role(self, name: str) -> str | None:
        """Drop a role of our making; return what still needs it, if anything.

        With the engine goes what others have granted it, such as the use of their
        schemas. If it has to stay, so does that.
        """
        taken: list[str] = []
        with self.connection.transaction() as attempt:
            if name == roles.ENGINE:
                taken = roles.take_back(self.connection, name)
            needed = roles.drop(self.connection, name)
            if needed is not None:
                raise psycopg.Rollback(attempt)
            self._taken(taken)
        return needed

    def _taken(self, taken: Sequence[str]) -> None:
        for what in taken:
            self.tell(f"took back what {roles.ENGINE} was granted on {what}")

    def _lock(self, recorded: set[Entry]) -> None:
        """Keep others from making something that depends on ours while it is removed."""
        for item in in_schemas(self.connection, recorded):
            if item.kind in ("table", "view") and item.entry in recorded:
                self.connection.execute(f"lock table {item.name} in access exclusive mode".encode())

    def _removable(self, recorded: set[Entry]) -> list[DatabaseObject]:
        """List what is ours; refuse if it cannot go without something of others."""
        there = in_schemas(self.connection, recorded)
        ours = [item for item in there if item.entry in recorded]
        addresses = {item.address for item in ours}
        # What others put on our tables goes with these, as any part of a table does.
        inside = [
            str(item)
            for item in there
            if item.entry not in recorded and item.kind not in (*_PARTS, "trigger")
        ]
        if inside:
            raise _refusal(inside, "is" if len(inside) == 1 else "are", "in its schemas")
        outside = dependents(self.connection, ours, addresses, parts_go_along=True)
        if outside:
            raise _refusal(outside, "depends" if len(outside) == 1 else "depend", "on it")
        return ours

    def _drop_schemas(self, recorded: set[Entry], ours: Sequence[DatabaseObject]) -> None:
        made = _names(recorded, SCHEMA)
        kept = [name for name in schemas_there(self.connection) if name not in made]
        # One by one, since triggers of ours lie elsewhere too, and since a schema
        # that was there before stays.
        for item in sorted(ours, key=_place):
            if item.kind not in _PARTS and (kept or item.kind == "trigger"):
                self._drop(item)
        for name in made:
            self.connection.execute(f"drop schema if exists {quoted(name)} cascade".encode())
            self._tell(f"schema {name}", None)
        for name in kept:
            self._close_schema(name)
            self._tell(f"schema {name}", "it was there before")

    def _drop(self, item: DatabaseObject) -> None:
        self.connection.execute(f"drop {item.kind} if exists {item.name} cascade".encode())

    def _close_schema(self, name: str) -> None:
        for role in roles.existing(self.connection):
            self.connection.execute(
                sql.SQL("revoke all on schema {} from {}").format(
                    sql.Identifier(name), sql.Identifier(role)
                )
            )

    def _drop_extension(self, name: str) -> str | None:
        try:
            with self.connection.transaction():
                self.connection.execute(f"drop extension if exists {quoted(name)}".encode())
        except psycopg.errors.DependentObjectsStillExist as error:
            detail = error.diag.message_detail or error.diag.message_primary or "something"
            return "; ".join(detail.splitlines())
        return None

    def _tell(self, what: str, needed: str | None) -> None:
        if needed is None:
            self.report.removed.append(what)
            self.tell(f"removed {what}")
        else:
            self.report.left.append(f"{what}: {needed}")
            self.tell(f"left {what}: {needed}")


def _names(recorded: set[Entry], kind: str) -> list[str]:
    return sorted(name for found, name in recorded if found == kind)


def _place(item: DatabaseObject) -> int:
    return _ORDER.index(item.kind) if item.kind in _ORDER else len(_ORDER)


def _refusal(names: Sequence[str], verb: str, where: str) -> InstallError:
    return InstallError(
        f"graphalgo cannot be removed: {listing(names)} {verb} {where}, but graphalgo did not make "
        f"{'it' if len(names) == 1 else 'them'}",
        "Drop them or move them elsewhere, then uninstall again.",
        sqlstate="2BP01",
    )
