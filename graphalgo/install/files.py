"""Running the SQL files, also over what an older version has left.

``create or replace`` cannot change a function's result or a view's columns. Where
it fails for that reason the old object is dropped, with those of ours that hang
on it, and all files are run again from the first: they make them anew. Grants
that others hold on what was dropped are given back. What is not ours is never
dropped: if it hangs on the old object, the upgrade is refused.

A recorded function or view that no file has created or replaced is no longer a
part of graphalgo and is dropped, so a file must not leave one alone because it is
there already.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from graphalgo.install.connection import Connection
from graphalgo.install.errors import InstallError
from graphalgo.install.objects import DatabaseObject, Entry, dependents, in_schemas, listing
from graphalgo.install.roles import ROLES
from graphalgo.install.server import one

# What the files make again after it was dropped, none of it holding data.
_REPLACEABLE = frozenset(
    ("function", "procedure", "aggregate", "view", "index", "policy", "trigger", "rule")
)
# From the server's hint, whatever its language: DROP FUNCTION aiq.f(integer)
_HINTED = re.compile(r"DROP (?:FUNCTION|PROCEDURE|ROUTINE|AGGREGATE) (.+\))", re.IGNORECASE)

# What others may do with our functions and views, by grants that are not ours.
_FOREIGN_GRANTS = """
select
    o.type, o.identity, a.privilege_type,
    pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)), a.is_grantable
from (
    select 'pg_catalog.pg_proc'::regclass as classid, oid, proacl as acl, proowner as owner
    from pg_catalog.pg_proc
    union all
    select 'pg_catalog.pg_class'::regclass, oid, relacl, relowner
    from pg_catalog.pg_class
) as c
join unnest(%(classids)s::bigint[], %(objids)s::bigint[]) as u (classid, objid)
    on u.classid::oid = c.classid and u.objid::oid = c.oid
cross join lateral pg_catalog.pg_identify_object(c.classid, c.oid, 0) as o
cross join lateral pg_catalog.aclexplode(c.acl) as a
where a.grantee not in (0, c.owner) and pg_catalog.pg_get_userbyid(a.grantee) <> all (%(roles)s)
order by 1, 2, 3, 4
"""


@dataclass(frozen=True, slots=True)
class SqlFile:
    """A file to run: its name and its text, filled in."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class _ForeignGrant:
    kind: str
    name: str
    privilege: str
    grantee: str
    grantable: bool


class _FileFailed(Exception):
    def __init__(self, file: SqlFile, error: psycopg.Error) -> None:
        super().__init__()
        self.file = file
        self.error = error


@dataclass(slots=True)
class FileRun:
    """Runs the files in one transaction and keeps account of what they change.

    Parameters
    ----------
    connection : psycopg.Connection
        A superuser's, inside a transaction.
    recorded : set of (str, str)
        What earlier installations are recorded to have made.

    Attributes
    ----------
    dropped : list of DatabaseObject
        What had to be dropped: changed beyond replacing, or no longer a part of graphalgo.
    """

    connection: Connection
    recorded: set[Entry]
    dropped: list[DatabaseObject] = field(default_factory=list)
    _before: list[DatabaseObject] = field(default_factory=list)
    _views_dropped: bool = False

    def run(self, files: Sequence[SqlFile]) -> list[DatabaseObject]:
        """Run the files.

        Parameters
        ----------
        files : sequence of SqlFile
            In order.

        Returns
        -------
        list of DatabaseObject
            All that is ours afterwards.

        Raises
        ------
        InstallError
            If a file fails or something of others stands in the way.
        """
        self._before = in_schemas(self.connection, self.recorded)
        grants = self._foreign_grants()
        self._run_until_it_fits(files)
        after = in_schemas(self.connection, self.recorded)
        self._refuse_overwritten(after)
        obsolete = self._obsolete(after)
        self._drop(obsolete, "is no longer a part of graphalgo")
        self.dropped.extend(obsolete)
        self._grant_again(grants, after)
        gone = {item.address for item in obsolete}
        foreign = {item.address for item in self._before if item.entry not in self.recorded}
        return [item for item in after if item.address not in foreign | gone]

    def _run_until_it_fits(self, files: Sequence[SqlFile]) -> None:
        first: list[DatabaseObject] = []
        while True:
            try:
                with self.connection.transaction():
                    self._drop(first, "has to be made anew, since it has changed")
                    for file in files:
                        self._run_file(file)
                self.dropped.extend(first)
                return
            except _FileFailed as failure:
                dropped = {item.address for item in first}
                more = [item for item in self._to_drop(failure) if item.address not in dropped]
                if not more:
                    raise _file_error(failure.file, failure.error) from failure.error
                first = first + more

    def _run_file(self, file: SqlFile) -> None:
        # A name that is not qualified is a mistake in a file: it must not be found.
        self.connection.execute("set local search_path = pg_catalog, pg_temp")
        try:
            self.connection.execute(file.text.encode(), prepare=False)
        except psycopg.Error as error:
            raise _FileFailed(file, error) from error

    def _to_drop(self, failure: _FileFailed) -> list[DatabaseObject]:
        """Find what to drop so that the file that failed may pass."""
        error = failure.error
        if isinstance(error, psycopg.errors.InvalidFunctionDefinition):
            match = _HINTED.search(error.diag.message_hint or "")
            return self._function(match.group(1)) if match else []
        if isinstance(error, psycopg.errors.InvalidTableDefinition):
            return self._views()
        return []

    def _views(self) -> list[DatabaseObject]:
        """Find the views to make anew, since the error does not say which one it is."""
        views = [item for item in self._ours() if item.kind == "view"]
        if self._views_dropped:  # so it is one of those that were spared
            return [item for item in views if self._foreign_dependents(item)]
        self._views_dropped = True
        return [item for item in views if not self._foreign_dependents(item)]

    def _foreign_dependents(self, item: DatabaseObject) -> list[str]:
        replaceable = {ours.address for ours in self._ours() if ours.kind in _REPLACEABLE}
        return dependents(self.connection, [item], replaceable, parts_go_along=False)

    def _function(self, signature: str) -> list[DatabaseObject]:
        oid = one(self.connection, "select pg_catalog.to_regprocedure(%s)::oid::bigint", signature)
        for item in self._before:
            if item.address[1] == oid and item.kind in ("function", "procedure", "aggregate"):
                if item.entry not in self.recorded:
                    raise _overwritten([item])
                return [item]
        return []

    def _ours(self) -> list[DatabaseObject]:
        return [item for item in self._before if item.entry in self.recorded]

    def _drop(self, objects: Sequence[DatabaseObject], because: str) -> None:
        """Drop functions and views, with what hangs on them, if all of that is ours."""
        for item in objects:
            foreign = self._foreign_dependents(item)
            if foreign:
                raise InstallError(
                    f"{item} {because}, but {listing(foreign)} "
                    f"{'depends' if len(foreign) == 1 else 'depend'} on it",
                    "Drop what depends on it, install again, and make it again.",
                    sqlstate="2BP01",
                )
            # Something before may have taken it along.
            self.connection.execute(f"drop {item.kind} if exists {item.name} cascade".encode())

    def _obsolete(self, after: Sequence[DatabaseObject]) -> list[DatabaseObject]:
        written = {item.address: item.written for item in self._ours() if item.written}
        return [
            item for item in after if item.written and item.written == written.get(item.address)
        ]

    def _refuse_overwritten(self, after: Sequence[DatabaseObject]) -> None:
        foreign = {
            item.address: item.written for item in self._before if item.entry not in self.recorded
        }
        changed = [
            item for item in after if item.written != foreign.get(item.address, item.written)
        ]
        if changed:
            raise _overwritten(changed)

    def _foreign_grants(self) -> list[_ForeignGrant]:
        addresses = [item.address for item in self._ours() if item.written]
        rows = self.connection.execute(
            _FOREIGN_GRANTS.encode(),
            {
                "classids": [classid for classid, _ in addresses],
                "objids": [objid for _, objid in addresses],
                "roles": list(ROLES),
            },
        ).fetchall()
        return [_ForeignGrant(*row) for row in rows]

    def _grant_again(
        self, grants: Sequence[_ForeignGrant], after: Sequence[DatabaseObject]
    ) -> None:
        """Give back what others were granted on objects that have been made anew."""
        old = {item.entry: item.address for item in self._before}
        new = {item.entry for item in after if item.address != old.get(item.entry, item.address)}
        for grant in grants:
            if (grant.kind, grant.name) in new:
                kind = {"view": "table", "aggregate": "function"}.get(grant.kind, grant.kind)
                statement = f"grant {grant.privilege} on {kind} {grant.name} to {grant.grantee}"
                option = " with grant option" if grant.grantable else ""
                self.connection.execute((statement + option).encode())


def _overwritten(objects: Sequence[DatabaseObject]) -> InstallError:
    return InstallError(
        f"{listing([str(item) for item in objects])} was not made by graphalgo, "
        "but graphalgo has one of the same name",
        "Rename it or move it to another schema, then install again.",
        sqlstate="42710",
    )


def _file_error(file: SqlFile, error: psycopg.Error) -> InstallError:
    position = error.diag.statement_position
    line = file.text.count("\n", 0, int(position)) + 1 if position else None
    where = file.name if line is None else f"{file.name}, line {line}"
    message = error.diag.message_primary or str(error)
    detail = error.diag.message_detail
    return InstallError(
        f"{where}: {message}" + (f" ({'; '.join(detail.splitlines())})" if detail else ""),
        error.diag.message_hint,
        sqlstate=error.sqlstate or "XX000",
    )
