"""Whom the server runs as.

PostgreSQL refuses to run as root, so root hands the server to the `postgres`
user; everybody else runs it as themselves.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphalgo.cluster.errors import NOTHING_FOUND, ClusterError

SERVER_USER = "postgres"


@dataclass(frozen=True)
class Account:
    """The user whose processes the server's are.

    Attributes
    ----------
    name, uid, gid
        As in the user database.
    borrowed : bool
        Whether it is another user than the caller's, who then is root.
    """

    name: str
    uid: int
    gid: int
    borrowed: bool

    def run(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        output: int | None = subprocess.PIPE,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this user, in `/`, with exactly the environment given.

        It gets a session of its own, out of reach of the keys of the caller's terminal.
        Its standard output and error are gathered together unless `output` is
        a file descriptor, which then receives the standard error alone.
        """
        errors = subprocess.STDOUT if output == subprocess.PIPE else output
        return subprocess.run(
            [str(word) for word in command],
            check=False,
            cwd="/",
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            errors="replace",
            umask=0o077,
            start_new_session=True,
            user=self.uid if self.borrowed else None,
            group=self.gid if self.borrowed else None,
            extra_groups=[] if self.borrowed else None,
        )

    def give(self, path: Path) -> None:
        """Hand a file or directory that the caller made to this user."""
        if self.borrowed:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def can_enter(self, directory: Path) -> bool:
        """Whether this user can go into a directory, through all its parents."""
        if not self.borrowed:
            return os.access(directory, os.X_OK)
        # Asked of the system rather than worked out from modes: access lists count too.
        go: list[str | Path] = ["/bin/sh", "-c", 'cd -- "$1"', "sh", directory]
        return self.run(go, environment={}).returncode == 0


def server_account() -> Account:
    """The account that the caller's servers run under.

    Raises
    ------
    ClusterError
        The caller is root and there is no `postgres` user (58P01).
    """
    account = account_if_any()
    if account is None:
        raise ClusterError(
            f"PostgreSQL does not run as root, and this machine has no user {SERVER_USER!r}",
            f"useradd --system --home-dir /nonexistent {SERVER_USER}",
            sqlstate=NOTHING_FOUND,
        )
    return account


def account_if_any() -> Account | None:
    """The account that the caller's servers run under; None when that user is missing."""
    if os.geteuid() != 0:
        return Account(user_name(os.geteuid()), os.geteuid(), os.getegid(), borrowed=False)
    try:
        entry = pwd.getpwnam(SERVER_USER)
    except KeyError:
        return None
    return Account(SERVER_USER, entry.pw_uid, entry.pw_gid, borrowed=True)


def user_name(uid: int) -> str:
    """The name of a user, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
