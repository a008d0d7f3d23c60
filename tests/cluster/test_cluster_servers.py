"""Which PostgreSQL servers are found, and what is said about those that will not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphalgo.cluster import ClusterError, packages, servers, up

PLPYTHON = b"\x7fELF\0libc.so.6\0libpython%s.so.1.0\0"


def lay_out(top: Path, version: str, *, python: str | None = "3.11", trigrams: bool = True) -> Path:
    """Files as a server's package would put them; its programs only tell their version."""
    for folder in ("bin", "lib", "share/extension"):
        (top / folder).mkdir(parents=True)
    for name in ("postgres", "initdb"):
        program = top / "bin" / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    if python:
        (top / "lib" / "plpython3.so").write_bytes(PLPYTHON % python.encode())
    if trigrams:
        (top / "share" / "extension" / "pg_trgm.control").touch()
    return top / "bin"


@pytest.mark.parametrize(
    ("version", "python", "trigrams", "obstacle"),
    [
        ("13.4 (Debian 13.4-1)", "3.11", True, "is older than 15"),
        ("17.2", None, True, "has no plpython3"),
        ("17.2", "3.11", False, "has no pg_trgm"),
        ("15.1", "3.10", True, "runs PL/Python on Python 3.10, older than 3.11"),
        ("18beta1", "3.13", True, None),
        ("15.13 (Debian 15.13-0+deb12u1)", "3.11", True, None),
    ],
)
def test_what_a_server_lacks_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    python: str | None,
    trigrams: bool,
    obstacle: str | None,
) -> None:
    place = lay_out(tmp_path / "server", version, python=python, trigrams=trigrams)
    monkeypatch.setenv("GRAPHALGO_PG_BINDIR", str(place))
    (server,) = servers.find_servers()
    assert server.obstacle() == obstacle
    assert server.python_version == python
    if obstacle is None:
        assert packages.acquire(None, print) == server
        return
    with pytest.raises(ClusterError) as caught:
        packages.acquire(None, print)
    assert f"{server} {obstacle}" in caught.value.message
    assert caught.value.hint == "unset GRAPHALGO_PG_BINDIR"
    assert caught.value.sqlstate == ("0A000" if "older than 15" in obstacle else "58P01")


def test_a_bin_directory_without_a_server_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHALGO_PG_BINDIR", str(tmp_path))
    with pytest.raises(ClusterError, match="there is no PostgreSQL server") as caught:
        up(tmp_path / "cluster")
    assert caught.value.sqlstate == "58P01"
    assert not (tmp_path / "cluster").exists()


def test_a_version_that_is_too_old_is_refused_before_anything_else(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="PostgreSQL 13 is too old") as caught:
        up(tmp_path / "cluster", version=13)
    assert caught.value.sqlstate == "0A000"
    assert not (tmp_path / "cluster").exists()


def test_the_newest_usable_server_is_taken(tmp_path: Path) -> None:
    found = [
        server
        for number, version in enumerate(("17.10", "17.9", "18.0", "16.3"))
        if (server := servers._inspect(lay_out(tmp_path / str(number), version)))
    ]
    found.sort(key=lambda server: servers._numbers(server.release), reverse=True)
    assert [server.release for server in found] == ["18.0", "17.10", "17.9", "16.3"]
    (found[0].library_directory / "plpython3.so").unlink()
    assert servers.best(found, None) == found[1]
    assert servers.best(found, 16) == found[3]
    assert servers.best(found, 15) is None
    assert "has no plpython3" in servers.describe_obstacles(found)


def test_the_installed_server_is_found_with_its_python() -> None:
    server = servers.best(servers.find_servers(), None)
    if server is None:
        pytest.skip("no server is installed yet; the other tests install one")
    assert server.major >= servers.OLDEST_MAJOR
    assert server.python_version is not None
