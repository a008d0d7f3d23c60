"""Which directories a cluster takes, and which it leaves alone."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graphalgo.cluster import ClusterError, default_directory, down, server_python, status, up
from graphalgo.cluster.account import server_account

AS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root can set this scene")


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """A small file system in memory, or a skipped test where none can be mounted."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("this root may not mount file systems")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("purge", [False, True])
def test_a_directory_of_something_else_is_never_touched(top: Path, purge: bool) -> None:
    theirs = top / "theirs"
    theirs.mkdir()
    (theirs / "precious").write_text("data")
    for attempt in (lambda: up(theirs), lambda: down(theirs, purge=purge), lambda: status(theirs)):
        with pytest.raises(ClusterError, match="is left alone") as caught:
            attempt()
        assert caught.value.sqlstate == "55000"
        assert caught.value.hint
    assert content(theirs) == {"precious": b"data"}


def test_a_file_in_the_directorys_place_is_left_alone(top: Path) -> None:
    (top / "file").write_text("data")
    with pytest.raises(ClusterError):
        up(top / "file")
    with pytest.raises(ClusterError):
        down(top / "file", purge=True)
    assert (top / "file").read_text() == "data"


def test_a_path_that_the_search_path_cannot_hold_is_refused(top: Path) -> None:
    with pytest.raises(ClusterError, match="colon") as caught:
        up(top / "a:b")
    assert caught.value.sqlstate == "22023"
    assert not (top / "a:b").exists()


def test_a_link_to_a_directory_is_followed(top: Path) -> None:
    (top / "real").mkdir()
    (top / "link").symlink_to(top / "real")
    cluster = up(top / "link")
    assert cluster.data_directory == top / "real" / "data"
    assert up(top / "real").pid == cluster.pid


def test_a_marker_that_cannot_be_read_is_no_reason_to_guess(top: Path) -> None:
    home = top / "cluster"
    home.mkdir()
    (home / "graphalgo-cluster.json").write_text("{}")
    with pytest.raises(ClusterError, match="was not written by this version") as caught:
        up(home)
    assert f"--directory {home}" in (caught.value.hint or "")


def test_the_default_is_in_the_project_and_out_of_gits_sight(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git to see anything")
    deep = top / "project" / "deep" / "down"
    deep.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(top / "project")], check=True)
    monkeypatch.chdir(deep)
    cluster = up()
    assert cluster.data_directory.parent == top / "project" / ".graphalgo"
    assert default_directory() == top / "project" / ".graphalgo"
    seen = subprocess.run(
        ["git", "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert seen.stdout == ""
    monkeypatch.chdir(top / "project")
    assert status() is not None
    assert down(purge=True)
    assert not (top / "project" / ".graphalgo").exists()


@needs_root
def test_a_closed_project_gets_a_directory_of_its_own_elsewhere(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = top / "closed"
    project = closed / "project"
    project.mkdir(parents=True)
    closed.chmod(0o700)
    monkeypatch.chdir(project)
    elsewhere = default_directory()
    assert elsewhere.parent == Path("/var/tmp")
    cluster = up()
    try:
        assert cluster.data_directory.parent == elsewhere
        assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o711
        # Also when the project is opened meanwhile: the cluster that is there counts.
        closed.chmod(0o755)
        assert default_directory() == elsewhere
        assert up().pid == cluster.pid
    finally:
        assert down(purge=True)
    assert list(project.iterdir()) == []
    assert default_directory() == project / ".graphalgo"
    assert default_directory(".other", project) == project / ".other"


@needs_root
def test_a_directory_made_by_somebody_else_is_not_moved_into(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = top / "closed" / "project"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o700)
    monkeypatch.chdir(closed)
    squatted = default_directory()
    squatted.mkdir()
    os.chown(squatted, 65534, 65534)
    try:
        with pytest.raises(ClusterError, match="not to root") as caught:
            up()
        assert caught.value.sqlstate == "42501"
        assert list(squatted.iterdir()) == []
    finally:
        squatted.rmdir()


@needs_root
def test_a_directory_that_the_server_cannot_enter_is_refused(top: Path) -> None:
    closed = top / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ClusterError, match=f"cannot get into {closed}") as caught:
        up(closed / "cluster")
    assert caught.value.sqlstate == "42501"
    assert list(closed.iterdir()) == []


@needs_root
def test_a_directory_closed_to_others_is_opened_just_enough(top: Path) -> None:
    home = top / "cluster"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    assert up(home).started_now
    assert stat.S_IMODE(home.stat().st_mode) == 0o711


@needs_root
def test_a_full_file_system_is_named(top: Path) -> None:
    with mounted(top / "small", "size=20m,mode=755"):
        with pytest.raises(ClusterError, match="100 MB of room") as caught:
            up(top / "small" / "cluster")
        assert caught.value.sqlstate == "53100"
        assert list((top / "small").iterdir()) == []


@needs_root
def test_a_file_system_that_fills_up_while_the_cluster_is_made_is_named(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphalgo.cluster.site._LEAST_ROOM", 0)
    with mounted(top / "small", "size=20m,mode=755"):
        with pytest.raises(ClusterError, match="is full") as caught:
            up(top / "small" / "cluster")
        assert caught.value.sqlstate == "53100"
        assert list((top / "small").iterdir()) == []


@needs_root
def test_an_existing_cluster_on_a_full_file_system_says_so_and_recovers(top: Path) -> None:
    place = top / "small"
    with mounted(place, "size=200m,mode=755"):
        home = place / "cluster"
        up(home)
        down(home)
        (place / "filler").touch()
        with (place / "filler").open("wb") as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        with pytest.raises(ClusterError, match="is full") as caught:
            up(home)
        assert caught.value.sqlstate == "53100"
        (place / "filler").unlink()
        assert up(home).started_now
        down(home)


@needs_root
def test_a_read_only_file_system_is_named(top: Path) -> None:
    place = top / "fixed"
    with mounted(place, "size=200m,mode=755"):
        home = place / "cluster"
        up(home)
        down(home)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        for directory in (home, place / "another"):
            with pytest.raises(ClusterError, match="is read-only") as caught:
                up(directory)
            assert caught.value.sqlstate == "58030"


def test_a_package_that_cannot_be_compiled_ahead_is_left_to_the_server(top: Path) -> None:
    said: list[str] = []
    account = server_account()
    assert server_python.refresh(top, "3.0", account, said.append)
    assert "no program python3.0" in said[0]
    package = top / "python" / "graphalgo"
    assert package.stat().st_uid == account.uid
    assert not (package / "__pycache__").exists()
    assert not server_python.refresh(top, "3.0", account, said.append)
