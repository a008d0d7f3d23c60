"""Starting, finding and stopping the private cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from graphalgo.cluster import packages, places, processes, servers
from graphalgo.cluster import settings as configuration
from graphalgo.cluster.account import account_if_any, server_account
from graphalgo.cluster.errors import explained
from graphalgo.cluster.site import Cluster, Site

Report = Callable[[str], None]


def up(
    directory: Path | str | None = None,
    *,
    version: int | None = None,
    settings: Mapping[str, str] | None = None,
    report: Report | None = None,
) -> Cluster:
    """Start the private cluster, or find it running; make it if there is none.

    Parameters
    ----------
    directory : path, optional
        Where it lives; by default `.graphalgo` at the top of the current project
        or, where the server's user cannot get there, a directory of the
        project's own below /var/tmp.
    version : int, optional
        The major version of PostgreSQL, 15 or greater; by default that of the
        existing data, or else the newest usable one. As root on Debian or
        Ubuntu, one that is missing is installed.
    settings : mapping of str to str, optional
        Server settings beyond the defaults. They are remembered; a running server
        with others is started again. None leaves them as they are.
    report : callable, optional
        Is told, in a sentence, about each step that takes time.

    Returns
    -------
    Cluster
        The running cluster, with a current copy of this package for its Python.

    Raises
    ------
    ClusterError
        There is no usable server and none can be installed, or the directory is
        not ours, full or read-only, or the server does not start. What a failed
        first call made is removed again.

    Notes
    -----
    Takes under half a second for a running cluster, one or two seconds for a
    stopped one, and about four for a new one. Of two calls at once, one starts
    the server and the other finds it running.
    """
    report = report or _say_nothing
    servers.check_version(version)
    wanted = None if settings is None else configuration.checked(settings)
    place = places.find_existing(_as_path(directory))
    if place is None or account_if_any() is None:
        # The server comes first: the user that it runs as may come with it.
        packages.acquire(version, report)
    account = server_account()
    place = place or places.choose_new(_as_path(directory), account)
    was_there = os.path.lexists(place)
    with places.held(place, report, create_for=account):
        site = Site(place, account, report)
        with _removed_on_failure(site, keep_directory=was_there):
            return site.bring_up(version, wanted)


def down(
    directory: Path | str | None = None, *, purge: bool = False, report: Report | None = None
) -> bool:
    """Stop the private cluster.

    Sessions are cut off: first the server is asked to stop fast and, when a
    session does not obey in time, at once.

    Parameters
    ----------
    directory : path, optional
        As for :func:`up`.
    purge : bool
        Whether to remove the directory with all that is in it, too. Only one
        that :func:`up` made or filled is removed.
    report : callable, optional
        As for :func:`up`.

    Returns
    -------
    bool
        Whether there was anything to stop or to remove.

    Raises
    ------
    ClusterError
        The directory is not ours, or the server does not stop.
    """
    report = report or _say_nothing
    place = _find(directory)
    if place is None:
        return False
    with places.held(place, report):
        # Without the user that it would run as, no server runs.
        account = account_if_any()
        pid = Site(place, account, report).postmaster() if account else None
        if pid is not None:
            processes.stop(pid)
            report(f"Stopped the server in {place}")
        if purge:
            places.remove(place, account)
            report(f"Removed {place}")
        return purge or pid is not None


def status(directory: Path | str | None = None) -> Cluster | None:
    """The running private cluster, or None when none runs.

    Parameters
    ----------
    directory : path, optional
        As for :func:`up`.

    Raises
    ------
    ClusterError
        The directory is not ours, or the server does not answer.
    """
    place, account = _find(directory), account_if_any()
    if place is None or account is None:
        return None
    with places.held(place, _say_nothing):
        state = places.read_state(place)
        site = Site(place, account, _say_nothing)
        pid = site.postmaster()
        if state is None or pid is None:
            return None
        return site.describe(state, pid, started_now=False)


def _find(directory: Path | str | None) -> Path | None:
    """The existing cluster's directory; a directory of something else is refused."""
    place = places.find_existing(_as_path(directory))
    if place is None and directory is not None:
        named = places.chosen(Path(directory))
        with explained(named):
            if named.is_file() or (named.is_dir() and any(named.iterdir())):
                raise places.not_ours(named, "it holds no cluster of graphalgo's")
    return place


@contextmanager
def _removed_on_failure(site: Site, *, keep_directory: bool) -> Iterator[None]:
    """Leave nothing of a cluster that could not be made and started for the first time."""
    had_data = site.data.exists()
    try:
        yield
    except BaseException:
        if not had_data:
            pid = site.postmaster()
            if pid is not None:
                processes.stop(pid)
            with suppress(OSError):  # the error that led here is the one to tell
                places.empty(site.place)
                if not keep_directory:
                    site.place.rmdir()
        raise


def _as_path(directory: Path | str | None) -> Path | None:
    return None if directory is None else Path(directory)


def _say_nothing(_message: str) -> None:
    pass
