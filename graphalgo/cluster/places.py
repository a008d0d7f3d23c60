"""Where a cluster lives, and whether a directory is one of ours to touch.

A cluster's directory belongs to the invoking user, and so do its marker, its
configuration and the copy of the package; the server's user owns nothing in it
but the data and the socket's directory. So nothing that runs inside the server
can lead root to a file of its choice.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from graphalgo.cluster.account import Account, account_if_any, user_name
from graphalgo.cluster.errors import (
    INVALID_VALUE,
    NOT_ALLOWED,
    WRONG_STATE,
    ClusterError,
    explained,
)

MARKER = "graphalgo-cluster.json"
_FORMAT = 1
_LOCK = "lock"
_GIT_IGNORE = ".gitignore"
_NOT_YET_OURS = frozenset({_LOCK, _GIT_IGNORE, f"{MARKER}.new"})
_SHARED_TOP = Path("/var/tmp")
# A socket's path may have 107 bytes; its own name takes up to 20 of them.
_LONGEST_SOCKET_DIRECTORY = 80
_SOCKET_TOP = Path("/tmp")
_SOCKET_PREFIX = "graphalgo-"


@dataclass
class State:
    """What a cluster's marker file records.

    Attributes
    ----------
    major : int
        The major version that made the data.
    python_version : str or None
        The version of the server's Python, for which the package is compiled.
    socket_directory : str
        Where the server's socket is.
    settings : dict
        The settings that the caller asked for, beyond the defaults.
    """

    major: int
    python_version: str | None
    socket_directory: str
    settings: dict[str, str] = field(default_factory=dict)


def project_directory() -> Path:
    """The top of the checkout that the current directory is in, else that directory."""
    here = Path.cwd()
    for place in (here, *here.parents):
        if (place / ".git").exists():
            return place
    return here


def chosen(directory: Path) -> Path:
    """The absolute path of a directory that a caller named, with its links followed.

    Raises
    ------
    ClusterError
        The path holds a colon or a line break, which PYTHONPATH cannot (22023).
    """
    path = Path(os.path.realpath(directory.expanduser()))
    if any(character in str(path) for character in ":\n"):
        raise ClusterError(
            f"the directory {str(path)!r} cannot hold a cluster: its path has a colon or a line"
            " break, which the search path of the server's Python cannot hold",
            "choose another directory with: graphalgo up --directory DIRECTORY",
            sqlstate=INVALID_VALUE,
        )
    return path


def default_directory(name: str = ".graphalgo", project: Path | None = None) -> Path:
    """Where the project's cluster is, or would be made, when no directory is named.

    Parameters
    ----------
    name : str
        The folder's name in the project; another name is another cluster.
    project : Path, optional
        The project's top; by default the one that the current directory is in.

    Returns
    -------
    Path
        The folder of that name in the project or, where the server's user could
        not get there or the folder is another user's, one below /var/tmp.
    """
    project = project or project_directory()
    inside = project / name
    digest = hashlib.sha256(os.fsencode(inside)).hexdigest()[:12]
    shared = _SHARED_TOP / f"graphalgo-{os.geteuid()}-{digest}"
    for place in (inside, shared):
        if _is_owned(place) and _has_marker(place):
            return place
    usable = ":" not in str(inside) and os.access(project, os.W_OK) and _can_serve_from(project)
    free = _is_owned(inside) or not os.path.lexists(inside)
    return inside if usable and free else shared


def find_existing(directory: Path | None) -> Path | None:
    """The directory of the cluster that exists, for a caller's choice or the default."""
    path = default_directory() if directory is None else chosen(directory)
    # Without a directory named, another user's cluster is none of the caller's.
    return path if _has_marker(path) and (directory or _is_owned(path)) else None


def choose_new(directory: Path | None, account: Account) -> Path:
    """The directory in which a new cluster is to be made.

    Raises
    ------
    ClusterError
        The server's user could not get into the directory asked for (42501).
    """
    if directory is None:
        return default_directory()
    path = chosen(directory)
    # The directory itself is opened to the server's user once it is known to be ours.
    parent = next(place for place in path.parents if os.path.lexists(place))
    if not account.can_enter(parent):
        raise ClusterError(
            f"the server runs as {account.name}, who cannot get into {parent}",
            "choose a directory that others can enter, such as one below /var/tmp",
            sqlstate=NOT_ALLOWED,
        )
    return path


@contextmanager
def held(
    directory: Path, report: Callable[[str], None], *, create_for: Account | None = None
) -> Iterator[None]:
    """Hold a cluster's directory, so that one process at a time works on it.

    With `create_for`, a directory that is missing is made for a server that runs
    under that account.

    Raises
    ------
    ClusterError
        The directory is not ours: it belongs to somebody else, others may write
        to it, or it holds what is no cluster.
    """
    while True:
        with explained(directory):
            if create_for:
                _make_with_parents(directory)
            _check_ours(directory)
            if create_for and not (directory / MARKER).exists():
                # The server's user has to pass through; nobody else has business here.
                directory.chmod(0o711 if create_for.borrowed else 0o700)
            lock = os.open(directory / _LOCK, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            _lock(lock, report)
            # Whoever held the lock may have removed the directory with it.
            if _is_still_there(lock, directory / _LOCK):
                yield
                return
        finally:
            os.close(lock)
        if not create_for:
            raise ClusterError(f"the cluster in {directory} was removed meanwhile")


def read_state(directory: Path) -> State | None:
    """What the marker says; None when there is no cluster (yet).

    Raises
    ------
    ClusterError
        The marker was not written by this version of graphalgo (55000).
    """
    try:
        record = json.loads((directory / MARKER).read_text(encoding="utf-8"))
        if record.pop("format") != _FORMAT:
            raise ValueError("another format")
        return State(**record)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ClusterError(
            f"{directory / MARKER} was not written by this version of graphalgo",
            f"graphalgo down --purge --directory {directory}",
            sqlstate=WRONG_STATE,
        ) from None


def write_state(directory: Path, state: State) -> None:
    record = {"format": _FORMAT, **asdict(state)}
    write_file(directory / MARKER, json.dumps(record, indent=2) + "\n")
    write_file(directory / _GIT_IGNORE, "*\n")


def write_file(path: Path, text: str) -> None:
    """Write a file that anybody who gets there may read, in one step."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o644)
    os.replace(fresh, path)


def make_private(directory: Path, account: Account) -> None:
    """Make a directory that only the server's user gets into, unless it is there."""
    if not directory.exists():
        directory.mkdir(mode=0o700)
        account.give(directory)


def make_socket_directory(directory: Path, recorded: str | None, account: Account) -> Path:
    """The directory of the socket: in the cluster's, unless its path is too long for one."""
    inside = directory / "run"
    if len(os.fsencode(inside)) <= _LONGEST_SOCKET_DIRECTORY:
        make_private(inside, account)
        return inside
    if recorded and _is_private(Path(recorded), account):
        return Path(recorded)
    outside = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX, dir=_SOCKET_TOP))
    account.give(outside)
    return outside


def remove(directory: Path, account: Account | None) -> None:
    """Remove a cluster's directory and, where it lies elsewhere, its socket's."""
    try:
        state = read_state(directory)
    except ClusterError:
        state = None  # a marker that cannot be read must not keep the cluster from going
    if state and account:
        socket_directory = Path(state.socket_directory)
        outside = socket_directory.parent == _SOCKET_TOP
        if outside and _is_private(socket_directory, account):
            shutil.rmtree(socket_directory)
    with explained(directory):
        empty(directory)
        with suppress(PermissionError):  # of a parent that is not the caller's
            directory.rmdir()


def empty(directory: Path) -> None:
    """Remove all that is in a directory, the marker last, so that a rest of it stays ours."""
    for path in sorted(directory.iterdir(), key=lambda path: path.name == MARKER):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def not_ours(directory: Path, why: str) -> ClusterError:
    return ClusterError(
        f"{directory} is left alone: {why}",
        "name an empty or a new directory with: graphalgo up --directory DIRECTORY",
        sqlstate=WRONG_STATE,
    )


def _make_with_parents(directory: Path) -> None:
    missing = [place for place in directory.parents if not os.path.lexists(place)]
    for place in reversed(missing):
        place.mkdir(exist_ok=True)
        place.chmod(0o755)  # whatever the caller's umask: the server's user has to pass
    directory.mkdir(mode=0o700, exist_ok=True)


def _check_ours(directory: Path) -> None:
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise not_ours(directory, "it is not a directory")
    if status.st_uid != os.geteuid():
        owner, me = user_name(status.st_uid), user_name(os.geteuid())
        raise ClusterError(
            f"{directory} belongs to {owner}, not to {me}",
            f"run the command as {owner}, or name another directory with --directory",
            sqlstate=NOT_ALLOWED,
        )
    content = set(os.listdir(directory))
    if MARKER not in content and not content <= _NOT_YET_OURS:
        raise not_ours(directory, "it is not empty and holds no cluster of graphalgo's")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        directory.chmod(stat.S_IMODE(status.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def _lock(lock: int, report: Callable[[str], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        report("Waiting for another process that is at work on the cluster")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _is_still_there(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), os.lstat(path))
    except FileNotFoundError:
        return False


def _has_marker(directory: Path) -> bool:
    return os.path.lexists(directory / MARKER)


def _can_serve_from(directory: Path) -> bool:
    """Whether a server's user gets into a directory, also before that user is there."""
    account = account_if_any()
    if account is not None:
        return account.can_enter(directory)
    return all(place.stat().st_mode & stat.S_IXOTH for place in (directory, *directory.parents))


def _is_owned(directory: Path) -> bool:
    try:
        return directory.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _is_private(directory: Path, account: Account) -> bool:
    try:
        status = directory.lstat()
    except OSError:
        return False
    mode = stat.S_IMODE(status.st_mode)
    named_by_us = directory.name.startswith(_SOCKET_PREFIX)
    private = stat.S_ISDIR(status.st_mode) and mode == 0o700
    return named_by_us and private and status.st_uid == account.uid
