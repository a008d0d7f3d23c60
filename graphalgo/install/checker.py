"""Telling what is wrong with an installation, and what mends it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import psycopg

from graphalgo import __version__, resources
from graphalgo.install import names, roles, server
from graphalgo.install.connection import Connection, open_connection, psql, shell_dsn
from graphalgo.install.errors import InstallError
from graphalgo.install.objects import (
    NAMED_KINDS,
    has_books,
    in_schemas,
    listing,
    recorded_entries,
    schemas_there,
)
from graphalgo.install.versions import is_newer

_WRONG_OWNERS = """
select c.oid::regclass::text, pg_catalog.pg_get_userbyid(c.relowner)
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where
    n.nspname in ('aiq', 'rbac') and c.relkind in ('r', 'p', 'v', 'm')
    and pg_catalog.pg_get_userbyid(c.relowner) <> %s
order by 1
"""
# Functions that run with their owner's rights, and those in an untrusted language.
_WRONG_FUNCTION_OWNERS = """
select p.oid::regprocedure::text, pg_catalog.pg_get_userbyid(p.proowner)
from pg_catalog.pg_proc as p
join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
join pg_catalog.pg_language as l on l.oid = p.prolang
where
    n.nspname in ('aiq', 'rbac') and (p.prosecdef or l.lanname = 'plpython3u')
    and pg_catalog.pg_get_userbyid(p.proowner) <> all (%s)
order by 1
"""
_OPEN_ROWS = """
select c.oid::regclass::text, not c.relrowsecurity
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where
    n.nspname in ('aiq', 'rbac') and c.relkind in ('r', 'p')
    and not (c.relrowsecurity and c.relforcerowsecurity)
    and exists (select from pg_catalog.pg_policy as p where p.polrelid = c.oid)
order by 1
"""
_INVALID_INDEXES = """
select x.indexrelid::regclass::text
from pg_catalog.pg_index as x
join pg_catalog.pg_class as c on c.oid = x.indrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname in ('aiq', 'rbac') and not (x.indisvalid and x.indisready)
order by 1
"""
# What callers hold on base tables, directly or as members of PUBLIC.
_OPEN_TABLES = """
select distinct
    c.oid::regclass::text, a.privilege_type,
    case a.grantee when 0 then 'public' else pg_catalog.pg_get_userbyid(a.grantee)::text end
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
cross join lateral pg_catalog.aclexplode(c.relacl) as a
where
    n.nspname in ('aiq', 'rbac') and c.relkind in ('r', 'p')
    and (a.grantee = 0 or pg_catalog.pg_get_userbyid(a.grantee) = any (%s))
order by 1, 2, 3
"""
_REGISTRATIONS = """
select count(*) from aiq.registrations()
"""
_REGISTRATION_PROBLEMS = """
select registered_as, source_table, problem, remedy from aiq.registration_problems()
"""
# Of these, PUBLIC may run what only the owner or the worker should.
_OPEN_FUNCTIONS = """
select p.oid::regprocedure::text
from pg_catalog.pg_proc as p
join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
where
    n.nspname in ('aiq', 'rbac')
    and exists (
        select from pg_catalog.aclexplode(
            coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
        ) as a where a.grantee = 0
    )
order by 1
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    name : str
        What was looked at, such as ``plpython3u``.
    ok : bool or None
        True if it is as it should be, False if not; None if it could not be looked at.
    message : str
        What was found.
    remedy : str or None
        The command that mends it; None where nothing is to be mended.
    """

    name: str
    ok: bool | None
    message: str
    remedy: str | None = None


def check(dsn: str) -> list[Finding]:
    """Look at an installation and at what it needs, changing nothing.

    Parameters
    ----------
    dsn : str
        Where to look. What a user who is no superuser cannot see is reported as such.

    Returns
    -------
    list of Finding
        In the order in which they should be mended.
    """
    try:
        connection = open_connection(dsn)
    except InstallError as error:
        return [Finding("server", False, error.message, error.hint)]
    with connection:
        connection.execute("begin read only")
        connection.execute("set local search_path = pg_catalog, pg_temp")
        return list(_Check(connection, dsn).run())


@dataclass(slots=True)
class _Check:
    """One run of :func:`check`, inside a read-only transaction."""

    connection: Connection
    dsn: str
    meta: dict[str, str] = field(default_factory=dict)

    def run(self) -> Iterator[Finding]:
        for obstacle in (server.too_old(self.connection), server.not_utf8(self.connection)):
            if obstacle is not None:
                yield Finding("server", False, obstacle.message, obstacle.remedy)
                return
        text = f"PostgreSQL {server.version_text(self.connection)} answers"
        newer = server.newer_than_known(self.connection)
        yield Finding("server", True, text if newer is None else f"{text}; {newer}")
        parts: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
            ("schema", self._schema),
            ("extensions", self._extensions),
            ("server's Python", self._python),
            ("roles", self._roles),
            ("objects", self._objects),
            ("owners", self._owners),
            ("row security", self._row_security),
            ("indexes", self._indexes),
            ("grants", self._grants),
            ("registrations", self._registrations),
            ("names", self._names),
        )
        for name, part in parts:
            yield from self._guarded(name, part)

    def _guarded(self, name: str, part: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
        """Run a part; what the user may not look at must not hide the rest."""
        try:
            with self.connection.transaction():
                found = list(part())
        except psycopg.errors.InsufficientPrivilege as error:
            found = [self._unseen(name, str(error.diag.message_primary))]
        except psycopg.Error as error:
            message = error.diag.message_primary or " ".join(str(error).split())
            found = [Finding(name, False, message, error.diag.message_hint)]
        yield from found

    def _unseen(self, name: str, why: str) -> Finding:
        return Finding(
            name, None, f"could not be looked at: {why}", "graphalgo check with a superuser's DSN"
        )

    @property
    def _install(self) -> str:
        return f"graphalgo install --dsn {shell_dsn(self.dsn)}"

    def _psql(self, statement: str) -> str:
        return psql(self.dsn, statement)

    def _schema(self) -> Iterator[Finding]:
        if not has_books(self.connection):
            there = schemas_there(self.connection)
            message = "graphalgo is not installed in this database"
            if there:
                message += f"; it has a schema {' and '.join(there)} that graphalgo did not make"
            yield Finding("schema", False, message, self._install)
            return
        self.meta = {
            row[0]: row[1] for row in self.connection.execute("select key, value from aiq.meta")
        }
        found = self.meta.get("schema_version", "of no version")
        if is_newer(found, __version__):
            message = f"the schema is graphalgo {found}, newer than this package's {__version__}"
            yield Finding("schema", False, message, f"pip install 'graphalgo=={found}'")
        elif found != __version__:
            message = f"the schema is graphalgo {found}, older than this package's {__version__}"
            yield Finding("schema", False, message, self._install)
        elif self.meta.get("digest") != resources.digest():
            message = f"the schema was made from other files of graphalgo {found} than this one's"
            yield Finding("schema", False, message, self._install)
        else:
            yield Finding("schema", True, f"graphalgo {found} is installed")

    def _extensions(self) -> Iterator[Finding]:
        for name in ("plpython3u", "pg_trgm"):
            state = server.extension_state(self.connection, name)
            if state == "created":
                yield Finding(name, True, f"the extension {name} is there")
            elif name == "plpython3u" and self.meta.get("plpython") == "false":
                message = "installed without PL/Python: the functions run in the client"
                yield Finding(name, True, message)
            elif state == "missing":
                problem = server.extension_missing(self.connection, name)
                yield Finding(name, False, problem.message, problem.remedy)
            else:
                message = f"the extension {name} is on the server but not in this database"
                yield Finding(name, False, message, self._psql(f"create extension {name};"))

    def _python(self) -> Iterator[Finding]:
        name = "server's Python"
        if server.extension_state(self.connection, "plpython3u") != "created":
            if self.meta.get("plpython") != "false":
                message = "could not be looked at: the extension plpython3u is not there"
                yield Finding(name, None, message, "see plpython3u")
            return
        if not server.one(self.connection, "select current_setting('is_superuser') = 'on'"):
            yield self._unseen(name, "only a superuser can run untrusted code")
            return
        found = server.probe_python(self.connection)
        problem = server.python_problem(found) or server.code_problem(found)
        if problem is not None:
            yield Finding(name, False, problem.message, problem.remedy)
        else:
            python = ".".join(str(part) for part in found.python)
            yield Finding(name, True, f"Python {python} imports graphalgo from {found.file}")

    def _roles(self) -> Iterator[Finding]:
        there = roles.existing(self.connection)
        missing = [name for name in roles.ROLES if name not in there]
        if missing:
            noun = "role" if len(missing) == 1 else "roles"
            message = (
                f"the {noun} {listing(missing)} {'is' if len(missing) == 1 else 'are'} missing"
            )
            yield Finding("roles", False, message, self._install)
        problems = roles.problems(self.connection)
        for problem in problems:
            statement = problem.remedy.removeprefix("As a superuser: ")
            yield Finding("roles", False, problem.message, self._psql(statement))
        if there.get(roles.OWNER) and there[roles.OWNER].logs_in:
            message = f"role {roles.OWNER} can log in, but nobody should be it"
            yield Finding("roles", False, message, self._psql(f"alter role {roles.OWNER} nologin;"))
        elif self._reader_reads_nothing(there):
            message = (
                f"role {roles.READER} is not a member of {roles.CALLER}, "
                "so that aiq.sql_passthrough has no rights"
            )
            statement = f"grant {roles.CALLER} to {roles.READER};"
            yield Finding("roles", False, message, self._psql(statement))
        elif not missing and not problems:
            yield Finding("roles", True, "all roles are there, and none gets round row security")

    def _reader_reads_nothing(self, there: Collection[str]) -> bool:
        """Tell whether the reader lacks its membership, which no dump of a database holds."""
        if self.meta.get("plpython") != "true" or not {roles.READER, roles.CALLER} <= set(there):
            return False
        member = "select pg_catalog.pg_has_role(%s::name, %s::name, 'usage')"
        return not server.one(self.connection, member, roles.READER, roles.CALLER)

    def _objects(self) -> Iterator[Finding]:
        """Look for what was installed and is gone."""
        if not self.meta:
            return
        recorded = recorded_entries(self.connection)
        there = {item.entry for item in in_schemas(self.connection, recorded)}
        gone = sorted(
            f"{kind} {name}" for kind, name in recorded - there if kind not in NAMED_KINDS
        )
        if gone:
            verb = "was" if len(gone) == 1 else "were"
            message = (
                f"{listing(gone)} {verb} installed but {'is' if len(gone) == 1 else 'are'} gone"
            )
            yield Finding("objects", False, message, self._install)
        else:
            yield Finding("objects", True, f"all {len(there & recorded)} objects are there")

    def _owners(self) -> Iterator[Finding]:
        if not has_books(self.connection):
            return
        wrong = self.connection.execute(_WRONG_OWNERS, (roles.OWNER,)).fetchall()
        for relation, owner in wrong:
            message = f"{relation} belongs to {owner}, not to {roles.OWNER}"
            statement = f"alter table {relation} owner to {roles.OWNER};"
            yield Finding("owners", False, message, self._psql(statement))
        ours = [roles.OWNER, roles.ENGINE, roles.READER]
        functions = self.connection.execute(_WRONG_FUNCTION_OWNERS, (ours,)).fetchall()
        for function, owner in functions:
            message = f"function {function} belongs to {owner}, to none of {listing(ours)}"
            yield Finding("owners", False, message, self._install)
        if not wrong and not functions:
            yield Finding("owners", True, f"all tables and views belong to {roles.OWNER}")

    def _row_security(self) -> Iterator[Finding]:
        if not has_books(self.connection):
            return
        tables = self.connection.execute(_OPEN_ROWS).fetchall()
        for table, off in tables:
            message = f"row security of {table} is {'off' if off else 'not forced on its owner'}"
            statement = f"alter table {table} enable row level security, force row level security;"
            yield Finding("row security", False, message, self._psql(statement))
        if not tables:
            yield Finding("row security", True, "row security holds wherever there are policies")

    def _indexes(self) -> Iterator[Finding]:
        if not has_books(self.connection):
            return
        invalid = self.connection.execute(_INVALID_INDEXES).fetchall()
        for (index,) in invalid:
            message = f"index {index} is invalid: it is not used, or not kept"
            yield Finding("indexes", False, message, self._psql(f"reindex index {index};"))
        if not invalid:
            yield Finding("indexes", True, "all indexes are valid")

    def _grants(self) -> Iterator[Finding]:
        if not has_books(self.connection):
            return
        callers = [roles.ANONYMOUS, roles.CALLER, roles.READER]
        tables = self.connection.execute(_OPEN_TABLES, (callers,)).fetchall()
        for relation, privilege, grantee in tables:
            message = f"{grantee} has {privilege} on the base table {relation}"
            statement = f"revoke {privilege} on {relation} from {grantee};"
            yield Finding("grants", False, message, self._psql(statement))
        functions = self.connection.execute(_OPEN_FUNCTIONS).fetchall()
        for (function,) in functions:
            message = f"everyone may execute {function}"
            statement = f"revoke execute on function {function} from public;"
            yield Finding("grants", False, message, self._psql(statement))
        if not tables and not functions:
            yield Finding("grants", True, "no caller has a grant on a base table")

    def _names(self) -> Iterator[Finding]:
        """Look whether similar names are found fast."""
        if self.meta.get("plpython") != "true":
            return
        found = server.probe_python(self.connection)
        maintain = f"graphalgo maintain --dsn {shell_dsn(self.dsn)}"
        for ok, message, remedy in names.problems(self.connection, found.numpy, maintain):
            yield Finding("names", ok, message, remedy)

    def _registrations(self) -> Iterator[Finding]:
        """Look whether what is registered is in step with its tables."""
        function = "select pg_catalog.to_regprocedure('aiq.registration_problems()') is not null"
        if not server.one(self.connection, function):
            return
        problems = self.connection.execute(_REGISTRATION_PROBLEMS).fetchall()
        for registered_as, table, problem, remedy in problems:
            message = f"{table}, registered as {registered_as}: {problem}"
            yield Finding("registrations", False, message, self._psql(remedy))
        if not problems:
            number = int(str(server.one(self.connection, _REGISTRATIONS)))
            text = "no table is registered"
            if number:
                text = f"all {number} registrations are in step with their tables"
            yield Finding("registrations", True, text)
