"""A private PostgreSQL in a container, for machines that can have no server of their own.

What there is to remember (whose container it is, its password) the container
itself holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphalgo.cluster import errors, places
from graphalgo.cluster.docker_command import demand, docker_obstacle, run, text_of
from graphalgo.cluster.docker_image import build_image
from graphalgo.cluster.errors import ClusterError

DEFAULT_VERSION = 17
DATABASE = "graphalgo"
SUPERUSER = "postgres"
_LABEL = "org.graphalgo.directory"
_MAJOR_LABEL = "org.graphalgo.major"
_DATA = "/var/lib/postgresql/data"
_START_SECONDS = 300

Report = Callable[[str], None]

__all__ = ["DockerCluster", "docker_down", "docker_obstacle", "docker_status", "docker_up"]


@dataclass(frozen=True)
class DockerCluster:
    """A running private PostgreSQL in a container.

    Attributes
    ----------
    dsn : str
        Connects to its database as its superuser, from this machine. Holds the password.
    superuser : str
        The superuser's name.
    container, image, volume : str
        The container's id, and the names of its image and of the volume of its data.
    port : int
        Where it listens on 127.0.0.1.
    version : int
        The major version: 15, 17 or 18.
    started_now : bool
        Whether the call that gave this started the container, or found it running.
    """

    dsn: str
    superuser: str
    container: str
    image: str
    volume: str
    port: int
    version: int
    started_now: bool


def docker_up(
    directory: Path | str | None = None,
    *,
    version: int | None = None,
    report: Report | None = None,
) -> DockerCluster:
    """Start the private server's container, or find it running; make it if there is none.

    Parameters
    ----------
    directory : path, optional
        Whose server it is: each directory has one of its own, and nothing is
        written there. By default the top of the current project.
    version : int, optional
        The major version of PostgreSQL: 15, 17 or 18; by default that of the
        existing data, or else 17.
    report : callable, optional
        Is told, in a sentence, about each step that takes time.

    Returns
    -------
    DockerCluster
        The running server, with this version of graphalgo installed in its database.

    Raises
    ------
    ClusterError
        No engine answers or there is no image for that version (58P01), the
        existing data is of another version (55000), or the image cannot be built
        or the server does not start (58000).

    Notes
    -----
    Takes a second for a running container, about five for a new one. The first
    call, and the first after a change of the package, build the image: that
    takes minutes, or seconds when only the package has changed.
    """
    report = report or _say_nothing
    obstacle = docker_obstacle()
    if obstacle is not None:
        raise ClusterError(
            f"a container cannot serve: {obstacle}",
            "start the Docker engine, and see that this prints its version: docker info",
            sqlstate=errors.NOTHING_FOUND,
        )
    owner = _owner(directory)
    major = _choose_major(owner, version)
    image = build_image(major, report=report)
    before = _container(owner)
    if before and before["State"]["Running"] and before["Config"]["Image"] == image:
        _wait_until_healthy(owner)
        return _describe(owner, major, started_now=False)
    password = _password(before) if before else secrets.token_hex(16)
    if before:
        report(f"Replacing the container {_name(owner)}")
        demand(["stop", before["Id"]], "the container could not be stopped")
        demand(["rm", before["Id"]], "the container could not be removed")
    report(f"Starting PostgreSQL {major} in the container {_name(owner)}")
    _start(owner, major, image, password)
    return _describe(owner, major, started_now=True)


def docker_down(
    directory: Path | str | None = None, *, purge: bool = False, report: Report | None = None
) -> bool:
    """Stop the private server's container.

    Parameters
    ----------
    directory : path, optional
        As for :func:`docker_up`.
    purge : bool
        Whether to remove the container, its data and its image, too.
    report : callable, optional
        As for :func:`docker_up`.

    Returns
    -------
    bool
        Whether there was anything to stop or to remove.

    Raises
    ------
    ClusterError
        The container does not stop, or cannot be removed.
    """
    report = report or _say_nothing
    if docker_obstacle() is not None:
        return False
    owner = _owner(directory)
    container = _container(owner)
    running = bool(container and container["State"]["Running"])
    if container and running:
        demand(["stop", container["Id"]], "the container could not be stopped")
        report(f"Stopped the container {_name(owner)}")
    return (_purge(owner, container, report) or running) if purge else running


def docker_status(directory: Path | str | None = None) -> DockerCluster | None:
    """Find the private server's container; None when none runs.

    Parameters
    ----------
    directory : path, optional
        As for :func:`docker_up`.
    """
    if docker_obstacle() is not None:
        return None
    owner = _owner(directory)
    container = _container(owner)
    if container is None or not container["State"]["Running"]:
        return None
    return _describe(owner, int(container["Config"]["Labels"][_MAJOR_LABEL]), started_now=False)


def _owner(directory: Path | str | None) -> str:
    """The directory that the server belongs to, as an absolute path."""
    return str(places.project_directory() if directory is None else Path(directory).absolute())


def _name(owner: str) -> str:
    """The name of the container and of its volume."""
    return f"graphalgo-{hashlib.sha256(os.fsencode(owner)).hexdigest()[:12]}"


def _choose_major(owner: str, version: int | None) -> int:
    """The version asked for, if the data that is there is of that version."""
    done = run(["volume", "inspect", _name(owner)])
    if done.returncode != 0:
        return version or DEFAULT_VERSION
    labels = json.loads(done.stdout)[0]["Labels"] or {}
    existing = int(labels.get(_MAJOR_LABEL, DEFAULT_VERSION))
    if version not in (None, existing):
        raise ClusterError(
            f"the data for {owner} in the volume {_name(owner)} was made by PostgreSQL {existing},"
            f" not {version}",
            "graphalgo down --purge   # removes it; then: graphalgo up",
            sqlstate=errors.WRONG_STATE,
        )
    return existing


def _container(owner: str) -> dict[str, Any] | None:
    """What the engine knows of the container, running or not."""
    done = run(["container", "inspect", _name(owner)])
    if done.returncode != 0:
        return None
    found: dict[str, Any] = json.loads(done.stdout)[0]
    if (found["Config"]["Labels"] or {}).get(_LABEL) != owner:
        raise ClusterError(
            f"the container {_name(owner)} is left alone: it is not the server of {owner}",
            f"see what it is: docker container inspect {_name(owner)}",
            sqlstate=errors.WRONG_STATE,
        )
    return found


def _password(container: dict[str, Any]) -> str:
    environment = dict(entry.split("=", 1) for entry in container["Config"]["Env"])
    return str(environment["POSTGRES_PASSWORD"])


def _start(owner: str, major: int, image: str, password: str) -> None:
    """Make and start the container, with its volume if there is none, and wait for it."""
    name, labels = _name(owner), {_LABEL: owner, _MAJOR_LABEL: str(major)}
    flags = [f"--label={key}={value}" for key, value in labels.items()]
    if run(["volume", "inspect", name]).returncode != 0:
        demand(["volume", "create", *flags, name], "the volume could not be made")
    command = ["run", "--detach", f"--name={name}", *flags, "--shm-size=256m"]
    command += ["--publish=127.0.0.1::5432", f"--volume={name}:{_DATA}"]
    # Without a value docker takes it from its own environment, which nobody else reads.
    command += ["--env=POSTGRES_PASSWORD", f"--env=POSTGRES_DB={DATABASE}", image]
    demand(command, "the container could not be started", password=password)
    _wait_until_healthy(owner)
    # The data may be of an earlier container, whose password was another.
    psql = ["psql", f"--username={SUPERUSER}", "--dbname=postgres", "--no-psqlrc", "--quiet"]
    demand(
        ["exec", "--interactive", "--user=postgres", name, *psql],
        "the superuser's password could not be set",
        stdin=f"alter role {SUPERUSER} password '{password}';\n".encode(),
    )


def _wait_until_healthy(owner: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        container = _container(owner)
        if container is None or not container["State"]["Running"]:
            break
        if container["State"]["Health"]["Status"] == "healthy":
            return
        time.sleep(0.2)
    logs = run(["logs", "--tail=40", _name(owner)])
    raise errors.from_output(
        f"the server in the container {_name(owner)} did not start",
        text_of(logs.stdout + logs.stderr),
        Path(_DATA),
    )


def _describe(owner: str, major: int, *, started_now: bool) -> DockerCluster:
    container = _container(owner)
    if container is None or not container["State"]["Running"]:
        raise ClusterError(f"the container {_name(owner)} was stopped meanwhile")
    port = int(container["NetworkSettings"]["Ports"]["5432/tcp"][0]["HostPort"])
    dsn = f"postgresql://{SUPERUSER}:{_password(container)}@127.0.0.1:{port}/{DATABASE}"
    _check_answers(dsn, owner, port)
    return DockerCluster(
        dsn=dsn,
        superuser=SUPERUSER,
        container=container["Id"],
        image=container["Config"]["Image"],
        volume=_name(owner),
        port=port,
        version=major,
        started_now=started_now,
    )


def _check_answers(dsn: str, owner: str, port: int) -> None:
    """See that the port leads to the server: the engine may publish on another machine."""
    import psycopg  # noqa: PLC0415  (a tenth of a second that only this needs)

    try:
        psycopg.connect(dsn, connect_timeout=10).close()
    except psycopg.Error as error:
        raise ClusterError(
            f"the server in the container {_name(owner)} runs, but does not answer on"
            f" 127.0.0.1:{port}: {str(error).strip()}",
            f"see where the engine publishes it: docker port {_name(owner)}",
            sqlstate=errors.CANNOT_CONNECT,
        ) from error


def _purge(owner: str, container: dict[str, Any] | None, report: Report) -> bool:
    """Remove the container, its volume and its image; tells whether there was one of the first."""
    name = _name(owner)
    if container:
        demand(["rm", container["Id"]], "the container could not be removed")
    volume = run(["volume", "inspect", name]).returncode == 0
    if volume:
        demand(["volume", "rm", name], f"the volume {name} could not be removed")
    if container:
        # Another directory's container may be using it; then it stays.
        run(["image", "rm", "--no-prune", container["Config"]["Image"]])
    if container or volume:
        report(f"Removed the container {name} and its data")
    return bool(container or volume)


def _say_nothing(_message: str) -> None:
    pass
