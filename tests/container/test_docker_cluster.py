"""The private server in a container, as `graphalgo up` and `graphalgo demo` use it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import docker
from graphalgo.cluster import docker as containers
from graphalgo.cluster import docker_image
from graphalgo.cluster.errors import ClusterError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def directory(engine: docker.DockerClient, tmp_path: Path) -> Iterator[Path]:
    """A directory whose private server, if it gets one, is removed after the test."""
    obstacle = containers.docker_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)  # the engine fixture has seen the engine: only the command can lack
    yield tmp_path
    # Not a purge: that would remove the image, which the other tests run on.
    made_here = {"label": f"org.graphalgo.directory={tmp_path}"}
    for container in engine.containers.list(all=True, filters=made_here):
        container.remove(force=True)
    for volume in engine.volumes.list(filters=made_here):
        volume.remove()


def keep_a_table(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("create table kept as select 42 as answer")


def answer(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_up_gives_a_server_with_graphalgo_and_down_keeps_its_data(directory: Path) -> None:
    said: list[str] = []
    cluster = containers.docker_up(directory, report=said.append)
    assert cluster.started_now
    assert said[-1].startswith(f"Starting PostgreSQL {containers.DEFAULT_VERSION} in the container")
    assert answer(cluster.dsn, "select count(*) from aiq.nodes") == 0
    keep_a_table(cluster.dsn)

    again = containers.docker_up(directory)
    assert (again.started_now, again.container) == (False, cluster.container)
    assert containers.docker_status(directory) == again

    assert containers.docker_down(directory)
    assert not containers.docker_down(directory)
    assert containers.docker_status(directory) is None
    assert answer(containers.docker_up(directory).dsn, "select answer from kept") == 42


def test_data_outlives_its_container_and_gets_a_password_of_the_next(
    directory: Path, engine: docker.DockerClient
) -> None:
    first = containers.docker_up(directory)
    keep_a_table(first.dsn)
    engine.containers.get(first.container).remove(force=True)
    second = containers.docker_up(directory)
    assert second.dsn != first.dsn
    assert answer(second.dsn, "select answer from kept") == 42


def test_the_server_listens_to_this_machine_alone_and_wants_its_password(
    directory: Path, engine: docker.DockerClient
) -> None:
    cluster = containers.docker_up(directory)
    ports = engine.containers.get(cluster.container).attrs["NetworkSettings"]["Ports"]
    assert {entry["HostIp"] for entry in ports["5432/tcp"]} == {"127.0.0.1"}
    password = psycopg.conninfo.conninfo_to_dict(cluster.dsn)["password"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        answer(cluster.dsn.replace(str(password), "wrong"), "select 1")


def test_data_of_another_version_is_refused(directory: Path) -> None:
    containers.docker_up(directory, version=17)
    with pytest.raises(ClusterError, match="was made by PostgreSQL 17, not 18") as refused:
        containers.docker_up(directory, version=18)
    assert refused.value.sqlstate == "55000"
    assert refused.value.hint is not None


def test_a_version_without_image_is_refused_with_those_that_have_one(directory: Path) -> None:
    with pytest.raises(ClusterError, match="no image for PostgreSQL 16, but for 15, 17, 18"):
        containers.docker_up(directory, version=16)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("unix:///nonexistent/docker.sock", "no Docker engine answers"),
        ("tcp://192.0.2.1:2375", "another machine's"),
    ],
)
def test_an_engine_that_cannot_serve_is_named(
    directory: Path, monkeypatch: pytest.MonkeyPatch, host: str, reason: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("DOCKER_HOST", host)
        with pytest.raises(ClusterError, match=reason) as refused:
            containers.docker_up(directory)
        assert containers.docker_down(directory) is False
    assert refused.value.sqlstate == "58P01"


def test_an_installed_wheel_builds_the_same_image_as_the_checkout(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    target = tmp_path / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True)
    code = "from graphalgo.cluster.docker_image import image_name; print(image_name(17))"
    named = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(target)},
    )
    assert named.stdout.strip() == docker_image.image_name(17)
