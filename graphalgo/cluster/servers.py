"""Finds the PostgreSQL servers on this machine and says what each one lacks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graphalgo.cluster.errors import NOTHING_FOUND, TOO_OLD, ClusterError

OLDEST_MAJOR = 15
OLDEST_PYTHON = (3, 11)
BIN_DIRECTORY_VARIABLE = "GRAPHALGO_PG_BINDIR"

# Where the packages of Debian and its relatives, and of Red Hat's, put servers.
_USUAL_PLACES = (("/usr/lib/postgresql", "*/bin"), ("/usr", "pgsql-*/bin"))


@dataclass(frozen=True)
class Server:
    """An installed PostgreSQL.

    Attributes
    ----------
    major : int
        15, 16, …
    release : str
        The full version, such as `15.13`.
    bin_directory, library_directory, share_directory : Path
        Its programs, its loadable modules (`pkglibdir`) and its `sharedir`.
    python_version : str or None
        The Python that its PL/Python links, such as `3.11`; None when PL/Python
        is not there or does not say.
    """

    major: int
    release: str
    bin_directory: Path
    library_directory: Path
    share_directory: Path
    python_version: str | None

    @property
    def has_plpython(self) -> bool:
        return (self.library_directory / "plpython3.so").exists()

    def obstacle(self) -> str | None:
        """Why this server cannot serve, as the end of a sentence; None when it can."""
        if self.major < OLDEST_MAJOR:
            return f"is older than {OLDEST_MAJOR}"
        if not self.has_plpython:
            return "has no plpython3"
        if not (self.share_directory / "extension" / "pg_trgm.control").exists():
            return "has no pg_trgm"
        if self.python_version and _numbers(self.python_version) < OLDEST_PYTHON:
            wanted = ".".join(map(str, OLDEST_PYTHON))
            return f"runs PL/Python on Python {self.python_version}, older than {wanted}"
        return None

    def __str__(self) -> str:
        return f"PostgreSQL {self.release} in {self.bin_directory}"


def find_servers() -> list[Server]:
    """Every PostgreSQL server on this machine, usable or not, newest first.

    Looks where packages put servers and asks the `pg_config` on the PATH. The
    environment variable GRAPHALGO_PG_BINDIR, when set, names the one directory
    to look in.

    Raises
    ------
    ClusterError
        GRAPHALGO_PG_BINDIR names a directory without a server (58P01).
    """
    named = os.environ.get(BIN_DIRECTORY_VARIABLE)
    if named:
        server = _inspect(Path(named).expanduser().absolute())
        if server is None:
            raise ClusterError(
                f"{BIN_DIRECTORY_VARIABLE} names {named!r}, where there is no PostgreSQL server"
                " (expected the programs postgres and initdb)",
                "set it to a server's bin directory, such as /usr/lib/postgresql/17/bin,"
                f" or: unset {BIN_DIRECTORY_VARIABLE}",
                sqlstate=NOTHING_FOUND,
            )
        return [server]
    directories = dict.fromkeys(place.resolve() for place in _bin_directories())
    servers = [server for place in directories if (server := _inspect(place))]
    return sorted(servers, key=lambda server: _numbers(server.release), reverse=True)


def best(servers: list[Server], version: int | None) -> Server | None:
    """The newest usable server, of the major version asked for if one is."""
    for server in servers:
        if version in (None, server.major) and server.obstacle() is None:
            return server
    return None


def describe_obstacles(servers: list[Server]) -> str:
    """Why none of the servers serves, as a sentence's end."""
    if not servers:
        return "there is no PostgreSQL server on this machine"
    return "; ".join(f"{server} {server.obstacle() or 'is usable'}" for server in servers)


def check_version(version: int | None) -> None:
    """Refuse a major version that no server of ours can have."""
    if version is not None and version < OLDEST_MAJOR:
        raise ClusterError(
            f"PostgreSQL {version} is too old: graphalgo needs {OLDEST_MAJOR} or newer",
            "leave the version out to get the newest there is: graphalgo up",
            sqlstate=TOO_OLD,
        )


def _bin_directories() -> Iterator[Path]:
    for root, pattern in _USUAL_PLACES:
        yield from Path(root).glob(pattern)
    config = shutil.which("pg_config")
    answer = _answer([config, "--bindir"]) if config else None
    if answer:
        yield Path(answer)


def _inspect(bin_directory: Path) -> Server | None:
    programs = [bin_directory / name for name in ("postgres", "initdb")]
    if not all(os.access(program, os.X_OK) for program in programs):
        return None
    found = re.search(r"PostgreSQL\) (\d+)(?:\.(\d+))?\S*", _answer([programs[0], "--version"]))
    if found is None:
        return None
    library, share = _library_and_share(bin_directory)
    return Server(
        major=int(found[1]),
        release=found[0].split()[-1],
        bin_directory=bin_directory,
        library_directory=library,
        share_directory=share,
        python_version=_linked_python(library / "plpython3.so"),
    )


def _library_and_share(bin_directory: Path) -> tuple[Path, Path]:
    """A server's pkglibdir and sharedir, from its own pg_config where it has one."""
    config = bin_directory / "pg_config"
    if config.exists():
        library, share = _answer([config, "--pkglibdir"]), _answer([config, "--sharedir"])
        if library and share:
            return Path(library), Path(share)
    home = bin_directory.parent
    debian_share = Path("/usr/share/postgresql") / home.name
    return home / "lib", debian_share if debian_share.is_dir() else home / "share"


def _linked_python(module: Path) -> str | None:
    """The version of the libpython that a module links.

    The name of the library stands in the module's table of strings, which any
    machine can read; tools that print it properly are not on every machine.
    """
    try:
        found = re.search(rb"libpython(3\.\d+)[a-z]*\.so", module.read_bytes())
    except OSError:
        return None
    return found[1].decode() if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _answer(command: list[str | Path]) -> str:
    """What a program prints, or nothing when it cannot be run or fails."""
    try:
        done = subprocess.run(
            [str(word) for word in command],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
