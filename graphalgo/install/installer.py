"""Putting graphalgo into a database."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from graphalgo import __version__, resources
from graphalgo.install import roles, server
from graphalgo.install.connection import Connection, Report, ignore, open_connection
from graphalgo.install.errors import InstallError
from graphalgo.install.files import FileRun, SqlFile
from graphalgo.install.objects import (
    EXTENSION,
    GRANT,
    NAMED_KINDS,
    ROLE,
    SCHEMA,
    SCHEMAS,
    DatabaseObject,
    Entry,
    has_books,
    in_schemas,
    listing,
    recorded_entries,
    schemas_there,
)
from graphalgo.install.versions import is_newer

# Any number will do; it has to be the same in every version.
_LOCK = 5_023_217_906_113_448_193


@dataclass(slots=True)
class InstallReport:
    """What an installation did.

    Attributes
    ----------
    action : str
        ``installed``, ``upgraded`` or, where the same version was there, ``unchanged``
        (everything was made again as it was).
    version : str
        The version that is installed now.
    previous_version : str or None
        The version that was there.
    server_version : str
        PostgreSQL's.
    plpython : bool
        Whether the PL/Python functions were installed.
    roles, extensions, schemas : list of str
        What was made now.
    dropped : list of str
        Functions and views that were dropped, to be made anew or because they are
        no longer a part of graphalgo.
    warnings : list of str
        What is worth knowing.
    """

    action: str = "installed"
    version: str = __version__
    previous_version: str | None = None
    server_version: str = ""
    plpython: bool = True
    roles: list[str] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def install(
    dsn: str,
    *,
    plpython: bool = True,
    report: Report | None = None,
    files: resources.Resources | None = None,
) -> InstallReport:
    """Install graphalgo into a database, or upgrade what is installed there.

    Everything happens in one transaction: after an error nothing is changed. Two
    installations into one database run one after the other.

    Parameters
    ----------
    dsn : str
        Where to. The user must be a superuser; without PL/Python CREATEROLE and
        CREATE on the database are enough.
    plpython : bool
        False leaves out the PL/Python functions, for a server that has none.
    report : callable, optional
        Called with a line for each thing that is done.
    files : graphalgo.resources.Resources, optional
        The SQL files and bodies; the package's own by default.

    Returns
    -------
    InstallReport
        What was done.

    Raises
    ------
    InstallError
        With the SQLSTATE and, as hint, the command that mends it: a server that does
        not answer (08001) or is older than 15 (0A000), a user who may not or
        a role that would open what row security closes (42501), an extension or
        package that is missing (0A000, 55000), a schema of the same name (42P06), an
        object of others in the way (2BP01), a newer version installed (55000).

    Notes
    -----
    Costs about a second, and an exclusive lock on the tables and views for that long.
    """
    run = _Installation(plpython, report or ignore, files or resources.find())
    with open_connection(dsn) as connection, told("install"):
        return run.run(connection)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn an error of the server into one that says what failed."""
    try:
        yield
    except psycopg.Error as error:
        message = error.diag.message_primary or " ".join(str(error).split())
        detail = error.diag.message_detail
        raise InstallError(
            f"graphalgo could not {what}: {message}" + (f" ({detail})" if detail else ""),
            error.diag.message_hint,
            sqlstate=error.sqlstate or "XX000",
        ) from error


def begin(connection: Connection) -> None:
    """Take the lock that keeps two installations apart, inside a transaction."""
    # Whoever waits for the lock must then see what the other has done.
    connection.execute("set transaction isolation level read committed, read write")
    # A statement timeout of the server's would end a long upgrade half-way.
    connection.execute("set local statement_timeout = 0")
    connection.execute("set local client_min_messages = warning")
    connection.execute("select pg_catalog.pg_advisory_xact_lock(%s)", (_LOCK,))
    connection.execute("set local search_path = pg_catalog, pg_temp")


def require_power(connection: Connection, to: str, *, plpython: bool) -> None:
    """Refuse a user who cannot change what has to be changed, and a server that nobody can.

    Without PL/Python a role that may make roles and schemas does, since most managed
    servers have no superuser to give.
    """
    if connection.info.parameter_status("in_hot_standby") == "on":
        raise InstallError(
            "the server is a standby, which cannot be changed",
            "Give the DSN of its primary; the standby follows by itself.",
            sqlstate="25006",
        )
    if roles.is_superuser(connection):
        return
    user = connection.info.user
    if plpython:
        raise InstallError(
            f"{user} is not a superuser, but only a superuser can {to}: "
            "PL/Python functions are made by one and then given to another owner",
            "Give the DSN of a superuser, such as postgresql://postgres@HOST/DATABASE; where "
            "there is none, --no-plpython asks for CREATEROLE and CREATE on the database alone.",
            sqlstate="42501",
        )
    able = server.one(
        connection,
        "select rolcreaterole and pg_catalog.has_database_privilege("
        "pg_catalog.current_database(), 'create')"
        " from pg_catalog.pg_roles where rolname = current_user",
    )
    if not able:
        raise InstallError(
            f"{user} is neither a superuser nor has both CREATEROLE and CREATE on the database, "
            f"but needs them to {to}",
            f"As a superuser: alter role {resources.quoted(user)} createrole; and grant create on "
            f"database {resources.quoted(connection.info.dbname)} to {resources.quoted(user)};",
            sqlstate="42501",
        )


class _Installation:
    """One run of :func:`install`."""

    def __init__(self, plpython: bool, report: Report, files: resources.Resources) -> None:
        self.tell = report
        self.files = files
        self.report = InstallReport(plpython=plpython)

    def run(self, connection: Connection) -> InstallReport:
        for obstacle in (server.too_old(connection), server.not_utf8(connection)):
            if obstacle is not None:
                raise obstacle.error()
        self.report.server_version = server.version_text(connection)
        self._warn(server.newer_than_known(connection))
        with connection.transaction():
            begin(connection)
            require_power(connection, "install", plpython=self.report.plpython)
            self._make_roles(connection)
            with roles.borrowed(connection):
                self._install(connection)
        self.tell(f"graphalgo {__version__} is {self.report.action}")
        return self.report

    def _install(self, connection: Connection) -> None:
        self._look_at_schema(connection)
        recorded = recorded_entries(connection)
        self._make_extensions(connection)
        grants = self._open_trgm_schema(connection)
        self.report.schemas = sorted(set(SCHEMAS) - set(schemas_there(connection)))
        runner = FileRun(connection, recorded)
        with roles.engine_may_own(connection, SCHEMAS):
            ours = runner.run(self._rendered(connection))
        self.report.dropped = [str(item) for item in runner.dropped]
        for line in self.report.dropped:
            self.tell(f"dropped {line}")
        self._record(connection, recorded, ours, grants)

    def _look_at_schema(self, connection: Connection) -> None:
        """Refuse what is newer than this package, and schemas that are somebody else's."""
        if has_books(connection):
            found = server.one(
                connection, "select value from aiq.meta where key = 'schema_version'"
            )
            self._compare(connection, None if found is None else str(found))
            return
        foreign = in_schemas(connection)
        if foreign:
            names = listing([str(item) for item in foreign])
            raise InstallError(
                f"the database has a schema aiq or rbac that graphalgo did not make, with {names}",
                "Rename it (alter schema aiq rename to NAME; or the same for rbac), "
                "or install into another database.",
                sqlstate="42P06",
            )

    def _compare(self, connection: Connection, found: str | None) -> None:
        self.report.previous_version = found
        if found is not None and is_newer(found, __version__):
            raise InstallError(
                f"the database has graphalgo {found}, which is newer than this package's "
                f"{__version__}",
                f"Install the newer package: pip install --upgrade 'graphalgo>={found}'; or, to go "
                "back, which loses the graph: graphalgo uninstall, then install again.",
                sqlstate="55000",
            )
        same = set(self._meta().items()) <= _meta(connection)
        self.report.action = "unchanged" if same else "upgraded"

    def _make_roles(self, connection: Connection) -> None:
        self.report.roles = roles.make_missing(connection)
        for name in self.report.roles:
            self.tell(f"made role {name}")
        for problem in roles.problems(connection):
            raise problem.error()

    def _make_extensions(self, connection: Connection) -> None:
        names = ["plpython3u", "pg_trgm"] if self.report.plpython else ["pg_trgm"]
        for name in names:
            if server.create_extension(connection, name):
                self.report.extensions.append(name)
                self.tell(f"made extension {name}")
        if self.report.plpython:
            found = server.probe_python(connection)
            problem = server.python_problem(found)
            if problem is not None:
                raise problem.error()
            skew = server.code_problem(found)
            self._warn(None if skew is None else skew.message)

    def _open_trgm_schema(self, connection: Connection) -> list[Entry]:
        """Let the owner and the engine into the schema of pg_trgm, wherever it is."""
        schema = server.trgm_schema(connection)
        # Loads its library: only then may anyone else than a superuser make functions
        # that set its threshold.
        load = sql.SQL("select {}.show_limit()").format(sql.Identifier(schema))
        connection.execute(load)
        made: list[Entry] = []
        for role in (roles.OWNER, roles.ENGINE):
            if not server.one(
                connection,
                "select pg_catalog.has_schema_privilege(%s, %s::name, 'usage')",
                role,
                schema,
            ):
                what = sql.SQL("usage on schema {} {} {}")
                grantee = sql.Identifier(role)
                to, from_ = (
                    what.format(sql.Identifier(schema), sql.SQL(word), grantee)
                    for word in ("to", "from")
                )
                connection.execute(sql.SQL("grant {}").format(to))
                made.append((GRANT, from_.as_string(connection)))
        return made

    def _rendered(self, connection: Connection) -> list[SqlFile]:
        schema = server.trgm_schema(connection)
        return [
            SqlFile(
                file.name,
                self.files.render(
                    file.read_text(encoding="utf-8"), trgm_schema=schema, version=__version__
                ),
            )
            for file in self.files.sql_files(self.report.plpython)
        ]

    def _record(
        self,
        connection: Connection,
        recorded: Collection[Entry],
        ours: list[DatabaseObject],
        grants: list[Entry],
    ) -> None:
        """Write the books: what is ours now, and from which version."""
        # A role with our mark was made by an installation in another database.
        marked = [role.name for role in roles.existing(connection).values() if role.marked]
        kept = {entry for entry in recorded if entry[0] in NAMED_KINDS}
        entries = kept | set(grants) | {item.entry for item in ours}
        entries |= {(ROLE, name) for name in marked}
        entries |= {(EXTENSION, name) for name in self.report.extensions}
        entries |= {(SCHEMA, name) for name in self.report.schemas}
        connection.execute("delete from aiq.installed_objects")
        connection.execute(
            "insert into aiq.installed_objects (kind, name)"
            " select * from unnest(%s::text[], %s::text[])",
            ([kind for kind, _ in entries], [name for _, name in entries]),
        )
        meta = self._meta()
        connection.execute(
            "insert into aiq.meta (key, value) select * from unnest(%s::text[], %s::text[])"
            " on conflict (key) do update set value = excluded.value",
            (list(meta), list(meta.values())),
        )

    def _meta(self) -> dict[str, str]:
        return {
            "schema_version": __version__,
            "digest": self.files.digest(),
            "plpython": str(self.report.plpython).lower(),
        }

    def _warn(self, line: str | None) -> None:
        if line is not None:
            self.report.warnings.append(line)
            self.tell(f"warning: {line}")


def _meta(connection: Connection) -> set[tuple[str, str]]:
    return {(row[0], row[1]) for row in connection.execute("select key, value from aiq.meta")}
