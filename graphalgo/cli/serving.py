"""The commands ``up`` and ``down``: a private server, with the schema and the sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphalgo import __version__
from graphalgo.cli.console import say
from graphalgo.cli.options import DirectoryOption, VersionOption
from graphalgo.engine.errors import InvalidValue

if TYPE_CHECKING:
    import psycopg

Report = Callable[[str], None]

_META = "select key, value from aiq.meta"
_META_THERE = "select pg_catalog.to_regclass('aiq.meta') is not null"


@dataclass(frozen=True, slots=True)
class Serving:
    """A server of our own.

    Attributes
    ----------
    dsn : str
        Connects as its superuser.
    version : int
        PostgreSQL's major version.
    place : str
        Where it runs, as the end of a sentence.
    """

    dsn: str
    version: int
    place: str


def serve(
    directory: Path | None,
    version: int | None,
    settings: Mapping[str, str] | None,
    report: Report,
) -> Serving:
    """Start a private server or find it running: a cluster of this machine's, or a container.

    Raises
    ------
    ClusterError
        Neither can serve; the message gives both reasons.
    """
    from graphalgo.cluster import ClusterError, up
    from graphalgo.cluster.docker import docker_obstacle, docker_up
    from graphalgo.cluster.errors import NOTHING_FOUND, TOO_OLD

    try:
        cluster = up(directory, version=version, settings=settings, report=report)
    except ClusterError as error:
        no_server = error.sqlstate in (NOTHING_FOUND, TOO_OLD)
        if not no_server or settings:
            raise
        obstacle = docker_obstacle()
        if obstacle is None:
            report(f"No server of this machine's can serve: {error.message}")
            try:
                container = docker_up(directory, version=version, report=report)
            except ClusterError as failure:
                obstacle = failure.message
            else:
                return Serving(container.dsn, container.version, "in a container")
        message = f"{error.message}; and in a container neither: {obstacle}"
        raise ClusterError(message, error.hint, sqlstate=error.sqlstate) from error
    return Serving(cluster.dsn, cluster.version, f"in {cluster.data_directory.parent}")


def make_ready(dsn: str, report: Report) -> None:
    """Install the schema, unless it is there as it should be, and the sample, if it is absent."""
    from graphalgo.install import install
    from graphalgo.install.connection import open_connection
    from graphalgo.loading import harbour_is_loaded, load_harbour

    with open_connection(dsn) as connection:
        if not _is_current(connection):
            report("Installing the schema")
            install(dsn)
        if not harbour_is_loaded(connection):
            report("Loading the harbour sample")
            load_harbour(connection)


def up(
    directory: DirectoryOption = None,
    version: VersionOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the server; may be given several times.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start a private PostgreSQL with the schema and the harbour sample, and print its DSN.

    A server that runs is used again. Where this machine has no PostgreSQL and can
    get none, a container serves if a Docker engine runs.
    """
    serving = serve(directory, version, _settings(settings), say)
    make_ready(serving.dsn, say)
    say(f"PostgreSQL {serving.version} runs {serving.place}")
    print(serving.dsn)


def down(
    directory: DirectoryOption = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove its data and everything else of it, too.")
    ] = False,
) -> None:
    """Stop the private PostgreSQL."""
    from graphalgo.cluster import down as cluster_down
    from graphalgo.cluster.docker import docker_down

    stopped = cluster_down(directory, purge=purge, report=say)
    stopped = docker_down(directory, purge=purge, report=say) or stopped
    if not stopped:
        say("There is no private PostgreSQL to stop")


def _settings(pairs: list[str] | None) -> dict[str, str] | None:
    if not pairs:
        return None
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidValue(
                f'--set is "{pair}", but must be a name and a value',
                "Write for example --set shared_buffers=256MB.",
            )
        settings[name.strip()] = value.strip()
    return settings


def _is_current(connection: psycopg.Connection[Any]) -> bool:
    """Tell whether what is installed is what this package would install."""
    from graphalgo import resources

    row = connection.execute(_META_THERE).fetchone()
    if row is None or not row[0]:
        return False
    meta = dict(connection.execute(_META).fetchall())
    wanted = {
        "schema_version": __version__,
        "digest": resources.digest(),
        "plpython": "true",
    }
    return all(meta.get(key) == value for key, value in wanted.items())
