"""One cluster's directory, and what is done in it while it is held."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from graphalgo.cluster import errors, packages, places, processes, server_python, servers
from graphalgo.cluster import settings as configuration
from graphalgo.cluster.account import Account
from graphalgo.cluster.errors import ClusterError, explained
from graphalgo.cluster.places import State
from graphalgo.cluster.servers import Server

DATABASE = "graphalgo"
SUPERUSER = "postgres"
_ANSWER_SECONDS = 10
_LEAST_ROOM = 100 * 1024 * 1024  # a new cluster takes about half of that


@dataclass(frozen=True)
class Cluster:
    """A running private PostgreSQL.

    Attributes
    ----------
    dsn : str
        Connects to its database as its superuser, for root and the invoking user.
    superuser : str
        The superuser's name.
    data_directory, socket_directory : Path
        Where its data and its socket are.
    port : int
        The number in the socket's name.
    version : int
        The major version: 15, 16, …
    server_version : str
        The full version, such as `15.13`.
    pid : int
        The server's process id.
    python_directory : Path
        What the server's Python finds `graphalgo` in; it names the current copy.
    log : Path
        The server's log.
    started_now : bool
        Whether the call that gave this started the server, or found it running.
    """

    dsn: str
    superuser: str
    data_directory: Path
    socket_directory: Path
    port: int
    version: int
    server_version: str
    pid: int
    python_directory: Path
    log: Path
    started_now: bool


@dataclass(frozen=True)
class Site:
    """A cluster's directory, held by this process.

    Attributes
    ----------
    place : Path
        The directory.
    account : Account
        Whom the server runs as.
    report : callable
        Is told, in a sentence, about each step that takes time.
    """

    place: Path
    account: Account
    report: Callable[[str], None]

    @property
    def data(self) -> Path:
        return self.place / "data"

    @property
    def log(self) -> Path:
        return self.place / "server.log"

    @property
    def cluster_name(self) -> str:
        """The name by which the server's processes are known; it survives a move."""
        status = self.place.stat()
        return f"graphalgo-{status.st_dev:x}-{status.st_ino:x}"

    def bring_up(self, version: int | None, wanted: dict[str, str] | None) -> Cluster:
        """Make the cluster if there is none, start the server if it does not run.

        `version` and `wanted` settings are as for :func:`graphalgo.cluster.up`.
        """
        state = places.read_state(self.place)
        if state is not None and version not in (None, state.major):
            raise self._wrong_version(state.major, f"not {version}")
        if state is None or not self.data.exists():
            major = version if state is None else state.major
            state = self._make(packages.acquire(major, self.report))
        changed = wanted is not None and wanted != state.settings
        running = self.postmaster()
        if running is not None and not changed and _socket(state).exists():
            with explained(self.place):
                self._refresh_python(state)
            try:
                return self.describe(state, running, started_now=False)
            except ClusterError:
                if processes.is_alive(running):
                    raise
                running = None  # it was about to end when it was found
        pid = self._start(state, wanted if changed else None, running)
        return self.describe(state, pid, started_now=True)

    def postmaster(self) -> int | None:
        """The server's process id, if it runs."""
        return processes.find_postmaster(self.data, self.cluster_name, self.account)

    def _make(self, server: Server) -> State:
        """Make the data directory, in one step: an interrupted attempt leaves none."""
        self.report(f"Making a cluster with {server} in {self.place}")
        with explained(self.place):
            self._check_room()
            socket_directory = places.make_socket_directory(self.place, None, self.account)
            state = State(server.major, server.python_version, str(socket_directory))
            places.write_state(self.place, state)
            staging = self.place / "data.new"
            if staging.exists():
                shutil.rmtree(staging)
            places.make_private(staging, self.account)
            command: list[str | Path] = [server.bin_directory / "initdb", "-D", staging]
            command += [f"--username={SUPERUSER}", "--auth=trust", "--no-sync"]
            command += ["--encoding=UTF8", "--locale=C.UTF-8"]
            done = self.account.run(command, environment=self._environment(server))
            if done.returncode != 0:
                raise errors.from_output(
                    "initdb could not make the cluster", done.stdout, self.place
                )
            staging.rename(self.data)
        return state

    def _start(self, state: State, wanted: dict[str, str] | None, running: int | None) -> int:
        """Start the server, with other settings if wanted; a running one is stopped first."""
        server = servers.best(servers.find_servers(), state.major)
        if server is None:
            raise self._wrong_version(state.major, "of which no usable server is here any more")
        previous = state.settings
        with explained(self.place):
            if wanted is not None:
                self._check_settings(server, state, wanted)
                state.settings = wanted
            state.python_version = server.python_version
            state.socket_directory = str(
                places.make_socket_directory(self.place, state.socket_directory, self.account)
            )
            places.write_state(self.place, state)
            self._refresh_python(state)
            if running is not None:
                self.report("Stopping the server, to start it anew")
                processes.stop(running)
            try:
                pid = self._launch(server, state)
            except ClusterError:
                # Settings with which it does not start must not be what the next call finds.
                state.settings = previous
                places.write_state(self.place, state)
                raise
        self.report(f"Started {server} (process {pid})")
        return pid

    def _launch(self, server: Server, state: State) -> int:
        configuration_file = self.place / "postgresql.conf"
        self._write_configuration(configuration_file, state)
        places.write_file(self._hba_file, configuration.host_based_authentication())
        return processes.start(
            server.bin_directory / "postgres",
            self.data,
            _socket(state),
            configuration_file,
            self.log,
            account=self.account,
            cluster_name=self.cluster_name,
            environment=self._environment(server),
        )

    def _check_settings(self, server: Server, state: State, wanted: dict[str, str]) -> None:
        """Have the server read the configuration with other settings, and do no more.

        So a setting that it does not take is refused before anything is stopped.
        """
        trial = self.place / "postgresql.conf.trial"
        self._write_configuration(trial, State(**{**vars(state), "settings": wanted}))
        try:
            command: list[str | Path] = [server.bin_directory / "postgres", "-D", self.data]
            command += ["-c", f"config_file={trial}", "-C", "port"]
            done = self.account.run(command, environment=self._environment(server))
        finally:
            trial.unlink()
        if done.returncode != 0:
            written = ", ".join(f"{name} = {value!r}" for name, value in wanted.items())
            raise ClusterError(
                f"PostgreSQL {server.release} does not take the settings {written}; it says:\n"
                f"{errors.last_lines(done.stdout)}",
                "write names and values as in postgresql.conf",
                sqlstate=errors.INVALID_VALUE,
            )

    def _write_configuration(self, path: Path, state: State) -> None:
        text = configuration.configuration(
            state.settings,
            hba_file=self._hba_file,
            socket_directory=Path(state.socket_directory),
        )
        places.write_file(path, text)

    @property
    def _hba_file(self) -> Path:
        return self.place / "pg_hba.conf"

    def _refresh_python(self, state: State) -> None:
        """Bring the package up to date; backends that start later see it."""
        server_python.refresh(self.place, state.python_version, self.account, self.report)

    def _environment(self, server: Server) -> dict[str, str]:
        """All that the server sees of an environment: nothing of the caller's Python."""
        environment = {
            "PATH": f"{server.bin_directory}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(self.place / server_python.LINK),
            "PYTHONNOUSERSITE": "1",
        }
        if "TZ" in os.environ:
            environment["TZ"] = os.environ["TZ"]
        return environment

    def describe(self, state: State, pid: int, *, started_now: bool) -> Cluster:
        """The running cluster, after making sure that it answers and has its database."""
        return Cluster(
            dsn=_dsn(state, DATABASE),
            superuser=SUPERUSER,
            data_directory=self.data,
            socket_directory=Path(state.socket_directory),
            port=configuration.PORT,
            version=state.major,
            server_version=self._answer(state, pid),
            pid=pid,
            python_directory=self.place / server_python.LINK,
            log=self.log,
            started_now=started_now,
        )

    def _answer(self, state: State, pid: int) -> str:
        """The version that the server says it has; makes the database if it is missing."""
        import psycopg  # noqa: PLC0415  (a tenth of a second that stopping need not pay)

        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                with psycopg.connect(
                    _dsn(state, "postgres"), autocommit=True, connect_timeout=30
                ) as connection:
                    query = "select from pg_database where datname = %s"
                    if connection.execute(query, [DATABASE]).rowcount == 0:
                        connection.execute(f"create database {DATABASE}")
                    release = connection.info.parameter_status("server_version")
                    return (release or str(state.major)).split()[0]
            except psycopg.Error as error:
                # After a session was killed, a server takes a moment to recover.
                if processes.is_alive(pid) and time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
                raise ClusterError(
                    f"the server in {self.place} (process {pid}) does not answer:"
                    f" {str(error).strip()}",
                    f"see {self.log}, or stop it with: graphalgo down --directory {self.place}",
                    sqlstate=error.sqlstate or errors.CANNOT_CONNECT,
                ) from error

    def _check_room(self) -> None:
        room = shutil.disk_usage(self.place).free
        if room < _LEAST_ROOM:
            raise ClusterError(
                f"a new cluster in {self.place} needs {_LEAST_ROOM >> 20} MB of room,"
                f" and its file system has {room >> 20} MB left",
                "make room, or choose another directory with: graphalgo up --directory DIRECTORY",
                sqlstate=errors.DISK_FULL,
            )

    def _wrong_version(self, major: int, but: str) -> ClusterError:
        return ClusterError(
            f"the cluster in {self.place} was made by PostgreSQL {major}, {but}",
            f"graphalgo down --purge --directory {self.place}"
            "   # removes it with its data; then: graphalgo up",
            sqlstate=errors.WRONG_STATE,
        )


def _dsn(state: State, database: str) -> str:
    """A URI that needs no quoting in a shell."""
    host = quote(state.socket_directory, safe="")
    return f"postgresql://{SUPERUSER}@{host}:{configuration.PORT}/{database}"


def _socket(state: State) -> Path:
    return Path(state.socket_directory) / f".s.PGSQL.{configuration.PORT}"
