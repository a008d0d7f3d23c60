"""Installs a PostgreSQL with PL/Python through apt, leaving nothing else changed.

Debian's packages make a default cluster and start services as they are
installed. Neither is wanted here: while apt runs, a drop-in for
postgresql-common says not to make the cluster, and a `policy-rc.d` says not to
start services. Both are taken away again afterwards.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from graphalgo.cluster import servers
from graphalgo.cluster.errors import NOTHING_FOUND, TOO_OLD, ClusterError, last_lines
from graphalgo.cluster.servers import OLDEST_MAJOR, Server

_OURS = "# Written by graphalgo for the time of one apt-get install."
_DROP_IN = Path("/etc/postgresql-common/createcluster.d/zz-graphalgo.conf")
_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_SAVED = Path("/usr/sbin/policy-rc.d.before-graphalgo")
_INSTALL_LOCK = Path("/run/graphalgo-install.lock")
_PLPYTHON = "postgresql-plpython3-"
_NUMPY = "python3-numpy"

# Other distributions' commands, so that the hint can be pasted there.
_OTHER_MANAGERS = {
    "dnf": "dnf install postgresql-server postgresql-contrib postgresql-plpython3",
    "zypper": "zypper install postgresql-server postgresql-contrib postgresql-plpython",
    "apk": "apk add postgresql17 postgresql17-contrib postgresql17-plpython3",
    "pacman": "pacman -S postgresql",
}


def acquire(version: int | None, report: Callable[[str], None]) -> Server:
    """A usable server: one that is here, or else one that apt installs.

    Parameters
    ----------
    version : int or None
        The major version wanted; None takes the newest usable one here, or the
        newest for which apt has PL/Python.
    report : callable
        Is told, in a sentence, about each step that takes time.

    Raises
    ------
    ClusterError
        No server is usable and none can be installed; the hint is the command
        that installs one (58P01), or 0A000 when all there is is too old.
    """
    servers.check_version(version)
    found = servers.find_servers()
    server = servers.best(found, version)
    if server is not None:
        _add_numpy(server, report)
        return server
    _check_can_install(found, version)
    with _one_at_a_time(report):
        # Another process may have installed it while this one waited.
        server = servers.best(servers.find_servers(), version)
        return server or _install(found, version, report)


def _add_numpy(server: Server, report: Callable[[str], None]) -> None:
    """Give a server that was here numpy, where that is easily done; it serves without, too."""
    python = Path(f"/usr/bin/python{server.python_version}")
    if os.geteuid() != 0 or not _is_debian_like() or not python.exists() or _imports(python):
        return
    with _one_at_a_time(report):
        if not _imports(python) and _known(_NUMPY) and _apt_install([_NUMPY], report).returncode:
            report("Without numpy, similar names are looked for by pg_trgm's index alone")


def _imports(python: Path) -> bool:
    """Whether a Python finds numpy."""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('numpy') is None)"
    return subprocess.run([python, "-I", "-c", look], check=False).returncode == 0


def _check_can_install(found: list[Server], version: int | None) -> None:
    wanted = f"PostgreSQL {version}" if version else f"PostgreSQL {OLDEST_MAJOR} or newer"
    why = (
        f"no usable {wanted} with PL/Python was found: {servers.describe_obstacles(found)}"
        if found or version is None
        else f"no {wanted} was found"
    )
    if os.environ.get(servers.BIN_DIRECTORY_VARIABLE):
        hint = f"unset {servers.BIN_DIRECTORY_VARIABLE}"
    elif not _is_debian_like():
        hint = _other_command()
    elif os.geteuid() != 0:
        hint = _apt_command(_packages_to_install(found, version), "sudo ")
    else:
        return
    too_old = bool(found) and all(server.major < OLDEST_MAJOR for server in found)
    raise ClusterError(why, hint, sqlstate=TOO_OLD if too_old else NOTHING_FOUND)


def _is_debian_like() -> bool:
    """Whether this is Debian or one of its descendants, such as Ubuntu."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return False
    names = " ".join(re.findall(r"^ID(?:_LIKE)?=(.*)$", text, re.MULTILINE))
    family = set(re.findall(r"[a-z]+", names))
    return bool(family & {"debian", "ubuntu"}) and shutil.which("apt-get") is not None


def _other_command() -> str:
    for manager, command in _OTHER_MANAGERS.items():
        if shutil.which(manager):
            return (
                f"{command}   # or set {servers.BIN_DIRECTORY_VARIABLE} to a server's bin directory"
            )
    return (
        f"install PostgreSQL {OLDEST_MAJOR} or newer with its plpython3 and pg_trgm, and set"
        f" {servers.BIN_DIRECTORY_VARIABLE} to its bin directory"
    )


def _apt_command(packages: list[str], prefix: str = "") -> str:
    if packages:
        return f"{prefix}apt-get update && {prefix}apt-get install -y {' '.join(packages)}"
    # No list of packages yet, so the command has to find the newest itself.
    newest = f'"$(apt-cache pkgnames {_PLPYTHON} | sort -V | tail -n 1)"'
    return f"{prefix}apt-get update && {prefix}apt-get install -y {newest}"


def _install(found: list[Server], version: int | None, report: Callable[[str], None]) -> Server:
    packages = _packages_to_install(found, version)
    if packages and _apt_install(packages, report).returncode == 0:
        return _installed(packages, version)
    # Without a list of packages, or with one older than the mirror's, ask the mirror.
    trouble = _update(report)
    packages = _packages_to_install(found, version)
    if not packages:
        raise _not_offered(version, trouble)
    done = _apt_install(packages, report)
    if done.returncode != 0:
        cannot = "cannot reach its sources to" if "Failed to fetch" in done.stdout else "could not"
        raise ClusterError(
            f"apt {cannot} install {' and '.join(packages)}; its last words:\n"
            f"{last_lines(done.stdout, 6)}",
            _apt_command(packages),
            sqlstate=NOTHING_FOUND,
        )
    return _installed(packages, version)


def _installed(packages: list[str], version: int | None) -> Server:
    found = servers.find_servers()
    server = servers.best(found, version)
    if server is None:
        raise ClusterError(
            f"apt installed {' and '.join(packages)}, but no usable server came of it: "
            f"{servers.describe_obstacles(found)}",
            f"set {servers.BIN_DIRECTORY_VARIABLE} to a usable server's bin directory",
            sqlstate=NOTHING_FOUND,
        )
    return server


def _packages_to_install(found: list[Server], version: int | None) -> list[str]:
    """The packages to ask apt for; none when it has none that would do.

    A server that is here and only lacks PL/Python gets it, if apt has it for
    that version; otherwise the newest major for which apt has PL/Python.
    """
    offered = _offered_majors()
    if version is None:
        here = [server.major for server in found if server.major in offered]
        version = max(here or offered, default=None)
    if version not in offered:
        return []
    packages = [f"postgresql-{version}", f"{_PLPYTHON}{version}"]
    # What PL/Python links on Debian is Debian's own Python: with numpy, names are indexed.
    return [*packages, _NUMPY] if _known(_NUMPY) else packages


def _offered_majors() -> set[int]:
    """The majors for which apt, by its present lists, has PL/Python."""
    names = _apt(["apt-cache", "pkgnames", _PLPYTHON]).stdout.split()
    majors = (re.fullmatch(_PLPYTHON + r"(\d+)", name) for name in names)
    found = {int(major[1]) for major in majors if major}
    return {major for major in found if major >= OLDEST_MAJOR and _known(f"{_PLPYTHON}{major}")}


def _known(package: str) -> bool:
    """Whether apt can install a package, by its present lists."""
    policy = _apt(["apt-cache", "policy", package]).stdout
    candidate = re.search(r"Candidate: (.*)", policy)
    return candidate is not None and candidate[1] != "(none)"


def _update(report: Callable[[str], None]) -> str:
    """Fetch apt's list of packages; what apt said, when it could not fetch all.

    One unreachable source among several need not matter, so that is no error
    unless the package then is not found.
    """
    report("Updating apt's list of packages")
    done = _apt(["apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any"])
    return done.stdout if done.returncode else ""


def _not_offered(version: int | None, trouble: str) -> ClusterError:
    wanted = f"{_PLPYTHON}{version}" if version else f"{_PLPYTHON}NN for {OLDEST_MAJOR} or newer"
    if trouble:
        return ClusterError(
            f"apt cannot reach all its sources, and knows no package {wanted}; its last words:\n"
            f"{last_lines(trouble, 6)}",
            "once the network is there: apt-get update && graphalgo up",
            sqlstate=NOTHING_FOUND,
        )
    majors = sorted(_offered_majors())
    offered = ", ".join(map(str, majors))
    return ClusterError(
        f"apt knows no package {wanted}; it has PL/Python for PostgreSQL: {offered or 'none'}",
        f"graphalgo up --version {majors[-1]}"
        if majors
        else f"set {servers.BIN_DIRECTORY_VARIABLE} to the bin directory of a server that has it",
        sqlstate=NOTHING_FOUND,
    )


def _apt_install(
    packages: list[str], report: Callable[[str], None]
) -> subprocess.CompletedProcess[str]:
    report(f"Installing {' and '.join(packages)} with apt; this takes about a minute")
    options = ["-y", "-q", "--no-install-recommends"]
    options += ["-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=300"]
    with _no_default_cluster(), _no_services():
        return _apt(["apt-get", "install", *options, *packages])


def _apt(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


@contextmanager
def _no_default_cluster() -> Iterator[None]:
    made = [place for place in (_DROP_IN.parent, _DROP_IN.parent.parent) if not place.exists()]
    _DROP_IN.parent.mkdir(parents=True, exist_ok=True)
    _DROP_IN.write_text(f"{_OURS}\ncreate_main_cluster = false\n", encoding="utf-8")
    try:
        yield
    finally:
        _DROP_IN.unlink(missing_ok=True)
        for place in made:
            # Not when the package has put something there by now, or owns it.
            owned = _apt(["dpkg-query", "-S", str(place)]).returncode == 0
            if not owned and not any(place.iterdir()):
                place.rmdir()


@contextmanager
def _no_services() -> Iterator[None]:
    _restore_policy()  # what an earlier run that was killed may have left
    if os.path.lexists(_POLICY):
        os.rename(_POLICY, _POLICY_SAVED)
    _POLICY.write_text(f"#!/bin/sh\n{_OURS}\nexit 101\n", encoding="utf-8")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _restore_policy()


def _restore_policy() -> None:
    if _POLICY.is_file() and _OURS in _POLICY.read_text(encoding="utf-8", errors="replace"):
        _POLICY.unlink()
    if os.path.lexists(_POLICY_SAVED) and not os.path.lexists(_POLICY):
        os.rename(_POLICY_SAVED, _POLICY)


@contextmanager
def _one_at_a_time(report: Callable[[str], None]) -> Iterator[None]:
    """Keep two processes from installing at once; only root comes here."""
    with _INSTALL_LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("Waiting for another process that is installing PostgreSQL")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
