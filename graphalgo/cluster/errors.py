"""What can go wrong with a private cluster, and the translation of the system's errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graphalgo.engine.errors import GraphAlgoError

INVALID_VALUE = "22023"
NOT_ALLOWED = "42501"
DISK_FULL = "53100"
WRONG_STATE = "55000"
CANNOT_CONNECT = "57P03"
SYSTEM_ERROR = "58000"
IO_ERROR = "58030"
NOTHING_FOUND = "58P01"
TOO_OLD = "0A000"

_ELSEWHERE = "choose another directory with: graphalgo up --directory DIRECTORY"


class ClusterError(GraphAlgoError):
    """The private cluster cannot be found, made, started or stopped.

    Parameters
    ----------
    message : str
        One sentence that names the offending value and what was expected.
    hint : str, optional
        What to do, as an exact command where there is one.
    sqlstate : str
        The SQLSTATE that comes closest; 58000 (system error) where none does.
    """

    def __init__(
        self, message: str, hint: str | None = None, *, sqlstate: str = SYSTEM_ERROR
    ) -> None:
        super().__init__(message, hint)
        self.sqlstate = sqlstate


def from_os_error(error: OSError, directory: Path) -> ClusterError:
    """The ClusterError that says what an OSError about `directory` means."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(directory)
    if error.errno == errno.EROFS:
        return read_only(directory)
    reason = error.strerror or str(error)
    where = error.filename or directory
    if error.errno in (errno.EACCES, errno.EPERM):
        return ClusterError(
            f"the cluster's directory {directory} cannot be used: {where}: {reason}",
            f"make it yours, or {_ELSEWHERE}",
            sqlstate=NOT_ALLOWED,
        )
    return ClusterError(
        f"the cluster's directory {directory} cannot be used: {where}: {reason}",
        _ELSEWHERE,
        sqlstate=IO_ERROR,
    )


def disk_full(directory: Path) -> ClusterError:
    return ClusterError(
        f"the file system of the cluster's directory {directory} is full",
        f"make room (see: df -h {directory}), or {_ELSEWHERE}",
        sqlstate=DISK_FULL,
    )


def read_only(directory: Path) -> ClusterError:
    return ClusterError(
        f"the file system of the cluster's directory {directory} is read-only",
        _ELSEWHERE,
        sqlstate=IO_ERROR,
    )


def from_output(what: str, output: str, directory: Path) -> ClusterError:
    """The ClusterError for a program that failed: `what` happened, and its last lines."""
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return disk_full(directory)
    if "Read-only file system" in output:
        return read_only(directory)
    return ClusterError(f"{what}; its last words:\n{last_lines(output)}", sqlstate=SYSTEM_ERROR)


def last_lines(text: str, count: int = 15) -> str:
    """The last lines of a log, indented, with empty ones left out."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-count:]) or "    (it wrote nothing)"


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Turn the OSErrors of the block into ClusterErrors about `directory`."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, directory) from error
