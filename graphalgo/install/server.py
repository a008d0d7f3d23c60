"""What a server offers: its version, its extensions, the Python it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import psycopg

from graphalgo import __version__, resources
from graphalgo.install.connection import Connection
from graphalgo.install.errors import InstallError

OLDEST_MAJOR = 15
NEWEST_MAJOR = 18
OLDEST_PYTHON = (3, 11)

# Says what `import graphalgo` gives inside a backend. It answers through a
# setting of the transaction: a DO block returns nothing, and unlike a function
# it also runs where nothing may be written.
_PROBE = r"""
do language plpython3u $probe$
import json
import sys

found = {"python": list(sys.version_info[:3]), "path": sys.path}
try:
    import graphalgo
    found["version"] = graphalgo.__version__
    found["file"] = graphalgo.__file__
    from graphalgo import resources
    found["digest"] = resources.server_code_digest()
except Exception as error:
    found["error"] = "%s: %s" % (type(error).__name__, error)
try:
    import numpy
    found["numpy"] = numpy.__version__
except Exception:
    pass
plan = plpy.prepare("select set_config('graphalgo.probe', $1, true)", ["text"])
plpy.execute(plan, [json.dumps(found)])
$probe$
"""


@dataclass(frozen=True, slots=True)
class ServerPython:
    """The interpreter inside the server and the package that it finds.

    Attributes
    ----------
    python : tuple of int
        Version of the interpreter.
    path : list of str
        Where it looks for modules.
    version : str or None
        ``graphalgo.__version__`` there; None if it cannot be imported.
    file : str or None
        Where that package lies.
    digest : str or None
        Digest of its code; None if it is too old to tell.
    error : str or None
        Why something could not be imported.
    numpy : str or None
        The version of numpy there; None if it cannot be imported.
    """

    python: tuple[int, ...]
    path: list[str] = field(default_factory=list)
    version: str | None = None
    file: str | None = None
    digest: str | None = None
    error: str | None = None
    numpy: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about the server that stands in the way.

    Attributes
    ----------
    message : str
        What was found and what is needed.
    remedy : str
        The command that mends it.
    sqlstate : str
        The SQLSTATE of the error if it stops an installation.
    """

    message: str
    remedy: str
    sqlstate: str = "55000"

    def error(self) -> InstallError:
        """Make the error that stops an installation."""
        return InstallError(self.message, self.remedy, sqlstate=self.sqlstate)


def one(connection: Connection, query: str, *parameters: object) -> Any:
    """Fetch the first column of the first row, or None."""
    row = connection.execute(query.encode(), parameters or None).fetchone()
    return None if row is None else row[0]


def version_text(connection: Connection) -> str:
    """Tell the server's version as people write it, such as ``15.4``."""
    return (connection.info.parameter_status("server_version") or "").split(" ")[0]


def major(connection: Connection) -> int:
    """Tell the server's major version."""
    return connection.info.server_version // 10000


def too_old(connection: Connection) -> Problem | None:
    """Look whether the server is older than what is supported."""
    if major(connection) >= OLDEST_MAJOR:
        return None
    return Problem(
        f"the server is PostgreSQL {version_text(connection)}, "
        f"but {OLDEST_MAJOR} to {NEWEST_MAJOR} are needed",
        "Upgrade the server, on Debian as root: apt-get install "
        f"postgresql-{NEWEST_MAJOR} postgresql-plpython3-{NEWEST_MAJOR} "
        f"(or any from {OLDEST_MAJOR} on), then pg_upgradecluster.",
        "0A000",
    )


def not_utf8(connection: Connection) -> Problem | None:
    """Look whether the database cannot hold every character."""
    encoding = one(connection, "select pg_catalog.getdatabaseencoding()")
    if encoding == "UTF8":
        return None
    return Problem(
        f"the database's encoding is {encoding}, but UTF8 is needed",
        "Make a database with it: create database NAME encoding 'UTF8' template template0;",
        "0A000",
    )


def newer_than_known(connection: Connection) -> str | None:
    """Say so if the server is newer than any that this version was tried on."""
    if major(connection) <= NEWEST_MAJOR:
        return None
    return (
        f"PostgreSQL {version_text(connection)} is newer than {NEWEST_MAJOR}, "
        f"the newest that graphalgo {__version__} was tried on"
    )


def extension_state(connection: Connection, name: str) -> str:
    """Tell how far an extension is: ``created``, ``available`` or ``missing``."""
    if one(connection, "select 1 from pg_catalog.pg_extension where extname = %s", name):
        return "created"
    if one(connection, "select 1 from pg_catalog.pg_available_extensions where name = %s", name):
        return "available"
    return "missing"


def extension_missing(connection: Connection, name: str) -> Problem:
    """Describe an extension whose files are not on the server, with what brings them."""
    built = str(one(connection, "select pg_catalog.version()"))
    number = major(connection)
    debian, red_hat = {
        "plpython3u": (f"postgresql-plpython3-{number}", f"postgresql{number}-plpython3"),
    }.get(name, (f"postgresql-{number}", f"postgresql{number}-contrib"))
    if "Debian" in built or "Ubuntu" in built:
        remedy = f"On the server, as root: apt-get install {debian}"
    elif "Red Hat" in built:
        remedy = f"On the server, as root: dnf install {red_hat}"
    else:
        remedy = (
            f"On the server, install the package that holds {name} for PostgreSQL {number} "
            f"({debian} on Debian and Ubuntu, {red_hat} on Red Hat and its kin)."
        )
    if name == "plpython3u":
        remedy += (
            "\nWhere PL/Python is not to be had: graphalgo install --no-plpython "
            "(the functions then run in the client)"
        )
    return Problem(
        f"the extension {name} is not among those that PostgreSQL {version_text(connection)} "
        "on this server can create",
        remedy,
        "0A000",
    )


def probe_python(connection: Connection) -> ServerPython:
    """Import graphalgo inside the server and tell what was found.

    Parameters
    ----------
    connection : psycopg.Connection
        A superuser's, inside a transaction (which may be read-only), in a
        database with plpython3u.

    Returns
    -------
    ServerPython
        The interpreter and the package.

    Raises
    ------
    psycopg.Error
        If PL/Python itself cannot run.
    """
    connection.execute(_PROBE.encode())
    found = json.loads(one(connection, "select pg_catalog.current_setting('graphalgo.probe')"))
    found["python"] = tuple(found["python"])
    return ServerPython(**found)


def python_problem(found: ServerPython) -> Problem | None:
    """Judge what the server's Python found against this package.

    Parameters
    ----------
    found : ServerPython
        From :func:`probe_python`.

    Returns
    -------
    Problem or None
        None if the server runs the same graphalgo as the client.
    """
    python = ".".join(str(part) for part in found.python)
    if found.python < OLDEST_PYTHON:
        return Problem(
            f"the server's PL/Python runs Python {python}, but graphalgo needs 3.11 or newer",
            "Move the server to a newer release of its system, or: graphalgo install --no-plpython "
            "(the functions then run in the client)",
            "0A000",
        )
    if found.version is None:
        return Problem(
            f"the server's Python {python} cannot import graphalgo ({found.error}); "
            f"it looks in {', '.join(found.path) or 'no folder'}",
            import_remedy(found),
        )
    if found.version != __version__:
        return Problem(
            f"the server's Python {python} imports graphalgo {found.version} from {found.file}, "
            f"but this is graphalgo {__version__}",
            import_remedy(found),
        )
    return None


def code_problem(found: ServerPython) -> Problem | None:
    """Tell a server's copy of this version whose code is not the same as this one's.

    That happens while the package is being worked on. It does not stop an
    installation, but the server may answer otherwise than the twin.
    """
    if found.version != __version__ or found.digest == resources.server_code_digest():
        return None
    return Problem(
        f"the server's Python imports graphalgo {found.version} from {found.file}, "
        "whose code is not the same as this one's",
        import_remedy(found),
    )


def import_remedy(found: ServerPython) -> str:
    """Write the command that puts this package where the server's Python finds it.

    The engine needs nothing but the standard library, so the package goes alone.
    With ``--target`` pip also accepts an interpreter that a distribution manages.
    """
    python = f"python{found.python[0]}.{found.python[1]}"
    tree = resources.source_tree()
    package = f"graphalgo=={__version__}" if tree is None else str(tree)
    install = f"{python} -m pip install --no-deps --upgrade --target"
    folder = _site_folder(found.path)
    elsewhere = (
        f"{install} /opt/graphalgo {package}\n"
        "and start the server with PYTHONPATH=/opt/graphalgo in its environment (on Debian a line "
        "PYTHONPATH = '/opt/graphalgo' in /etc/postgresql/VERSION/CLUSTER/environment)"
    )
    if folder is None:
        return f"On the server, as root: {elsewhere}"
    return (
        f"On the server, as root: {install} {folder} {package}\n"
        f"Or, to leave the system's folders alone: {elsewhere}\n"
        "Where pip is missing, on Debian: apt-get install python3-pip"
    )


def _site_folder(path: list[str]) -> str | None:
    """Choose the folder of the server's module path that is meant for additions."""
    folders = [part for part in path if part.endswith(("/dist-packages", "/site-packages"))]
    local = [part for part in folders if part.startswith("/usr/local/")]
    return next(iter(local + folders), None)


def create_extension(connection: Connection, name: str) -> bool:
    """Create an extension if it is not there.

    Parameters
    ----------
    connection : psycopg.Connection
        A superuser's, inside a transaction.
    name : str
        ``plpython3u`` or ``pg_trgm``.

    Returns
    -------
    bool
        True if it was made now.

    Raises
    ------
    InstallError
        If its files are not on the server, or it cannot be created.
    """
    state = extension_state(connection, name)
    if state == "created":
        return False
    if state == "missing":
        raise extension_missing(connection, name).error()
    where = ""
    if name == "pg_trgm":
        if not one(connection, "select 1 from pg_catalog.pg_namespace where nspname = 'public'"):
            raise InstallError(
                "the database has neither the extension pg_trgm nor a schema public to put it in",
                "Choose a schema for it: create extension pg_trgm schema SCHEMA;",
                sqlstate="3F000",
            )
        where = " schema public"
    try:
        connection.execute(f"create extension {name}{where}".encode())
    except psycopg.Error as error:
        raise InstallError(
            f"the extension {name} cannot be created: {error.diag.message_primary}",
            error.diag.message_hint or f"See why with: create extension {name};",
            sqlstate=error.sqlstate or "XX000",
        ) from error
    return True


def trgm_schema(connection: Connection) -> str:
    """Tell in which schema pg_trgm lives."""
    return str(
        one(
            connection,
            "select n.nspname from pg_catalog.pg_extension as e"
            " join pg_catalog.pg_namespace as n on n.oid = e.extnamespace"
            " where e.extname = 'pg_trgm'",
        )
    )
