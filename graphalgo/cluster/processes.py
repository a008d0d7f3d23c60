"""The server's processes: which one is the cluster's, starting it, stopping it.

A process id in `postmaster.pid` proves nothing: after a crash it may be
anybody's. A process is the cluster's only if it runs as the server's user and
its command line has the cluster's name. Both are read from /proc.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from graphalgo.cluster import errors
from graphalgo.cluster.account import Account
from graphalgo.cluster.errors import ClusterError

START_SECONDS = 300  # a server that recovers from a crash takes its time
FAST_STOP_SECONDS = 15
IMMEDIATE_STOP_SECONDS = 15
_POLL_SECONDS = 0.02
_LOG_LIMIT = 10 * 1024 * 1024

# The server must outlive the caller and be nobody's child, so that no zombie of
# it lingers in a long-running caller; a shell that leaves at once sees to that.
_DETACH = '"$@" >&2 & echo $!'


def find_postmaster(data_directory: Path, cluster_name: str, account: Account) -> int | None:
    """The process id of the live server of a data directory, or None."""
    lines = _pid_file_lines(data_directory)
    if not lines or not lines[0].strip().isdigit():
        return None
    pid = int(lines[0])
    return pid if _is_ours(pid, cluster_name, account) else None


def start(
    postgres: Path,
    data_directory: Path,
    socket: Path,
    configuration: Path,
    log: Path,
    *,
    account: Account,
    cluster_name: str,
    environment: Mapping[str, str],
) -> int:
    """Start a server, wait until it takes connections, and give its process id.

    Raises
    ------
    ClusterError
        The server did not start; the message ends with the log's last lines.
    """
    _clear_away(data_directory, socket, cluster_name, account)
    log_file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(log_file).st_size > _LOG_LIMIT:
            os.ftruncate(log_file, 0)
        offset = os.fstat(log_file).st_size
        command: list[str | Path] = [
            postgres,
            "-D",
            data_directory,
            "-c",
            f"config_file={configuration}",
        ]
        command += ["-c", _name_argument(cluster_name)]
        detached: list[str | Path] = ["/bin/sh", "-c", _DETACH, "sh", *command]
        done = account.run(detached, environment=environment, output=log_file)
    finally:
        os.close(log_file)
    pid = int(done.stdout)
    if _wait(START_SECONDS, lambda: not is_alive(pid) or _is_ready(pid, data_directory)):
        if is_alive(pid):
            return pid
        raise _not_started(log, offset, data_directory)
    stop(pid)
    raise ClusterError(
        f"the server was not ready after {START_SECONDS} seconds; its log's last lines:\n"
        f"{errors.last_lines(_read_log(log, offset))}",
        sqlstate=errors.CANNOT_CONNECT,
    )


def stop(pid: int) -> None:
    """Stop a server: without waiting for its sessions, and if that takes long, at once.

    Raises
    ------
    ClusterError
        The server is still there after both.
    """
    for order, seconds in (
        (signal.SIGINT, FAST_STOP_SECONDS),
        (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS),
    ):
        try:
            os.kill(pid, order)
        except ProcessLookupError:
            return
        if _wait(seconds, lambda: not is_alive(pid)):
            return
    raise ClusterError(
        f"the server (process {pid}) did not stop within"
        f" {FAST_STOP_SECONDS + IMMEDIATE_STOP_SECONDS} seconds",
        f"kill -QUIT {pid}",
    )


def _not_started(log: Path, offset: int, data_directory: Path) -> ClusterError:
    return errors.from_output(
        "the server did not start",
        _read_log(log, offset),
        data_directory.parent,
    )


def _clear_away(data_directory: Path, socket: Path, cluster_name: str, account: Account) -> None:
    """See to it that what a crash left does not keep a new server from starting."""
    # The children of a killed server leave by themselves, a moment later.
    if not _wait(10, lambda: not _orphans(cluster_name, account)):
        raise ClusterError(
            "processes of a server that crashed are still at work in"
            f" {data_directory}: {', '.join(map(str, _orphans(cluster_name, account)))}",
            f"kill -QUIT {' '.join(map(str, _orphans(cluster_name, account)))}",
            sqlstate=errors.WRONG_STATE,
        )
    # The server itself sees through most stale files, but not through an empty one,
    # nor one whose process id belongs to another program of the same user by now.
    # That no server is at work here it makes sure of by the shared memory, too.
    for left in (
        data_directory / "postmaster.pid",
        socket,
        socket.with_name(f"{socket.name}.lock"),
    ):
        left.unlink(missing_ok=True)


def _orphans(cluster_name: str, account: Account) -> list[int]:
    title = f"postgres: {cluster_name}: ".encode()
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return [
        pid
        for pid in pids
        if _command_line(pid).startswith(title) and owner(pid) == account.uid and is_alive(pid)
    ]


def _is_ours(pid: int, cluster_name: str, account: Account) -> bool:
    words = _command_line(pid).split(b"\0")
    return (
        is_alive(pid)
        and owner(pid) == account.uid
        and os.path.basename(words[0]) == b"postgres"
        and _name_argument(cluster_name).encode() in words
    )


def _name_argument(cluster_name: str) -> str:
    """The argument on the server's command line by which it is known again."""
    return f"cluster_name={cluster_name}"


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The second field is the program's name in brackets and may hold anything.
    return state.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def owner(pid: int) -> int | None:
    """The user id that a process runs under; None when there is none of that id."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_ready(pid: int, data_directory: Path) -> bool:
    lines = _pid_file_lines(data_directory)
    return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"


def _pid_file_lines(data_directory: Path) -> list[str]:
    try:
        return (data_directory / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read_log(log: Path, offset: int) -> str:
    with log.open("rb") as file:
        file.seek(offset)
        return file.read().decode(errors="replace")


def _wait(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait until a condition holds; whether it came to hold in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
