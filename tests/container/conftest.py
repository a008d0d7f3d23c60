"""Servers in containers: the project's image, built and started through testcontainers.

`server_dsn` gives every test that takes it one server of each supported major
version. Images are named after their content, so that only a change of what
they are made from builds them again.
"""

from __future__ import annotations

import os

# Read when testcontainers is imported. Its reaper is an image from a registry;
# the fixtures here remove what they start themselves.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import docker.errors
import psycopg
import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.image import DockerImage
from testcontainers.core.wait_strategies import WaitStrategy

import docker
from graphalgo.cluster import docker_image, servers
from graphalgo.install import install
from graphalgo.loading import load_harbour

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = (17, 18, 15)
START_SECONDS = 120


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.container)


class Prepared(WaitStrategy):
    """Waits until a container is healthy; one that ends before fails at once, with its log."""

    def wait_until_ready(self, container: Any) -> None:
        wrapped = container.get_wrapped_container()
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            wrapped.reload()
            state = wrapped.attrs["State"]
            if not state["Running"]:
                break
            if state["Health"]["Status"] == "healthy":
                return
            time.sleep(0.2)
        log = wrapped.logs().decode(errors="replace")
        raise RuntimeError(f"the container is {state['Status']}, but not healthy:\n{log}")


class ServerContainer(DockerContainer):
    """A container of the project's image, with a superuser's way into its database."""

    def __init__(self, image: str, *, ready: bool = True, **environment: str) -> None:
        super().__init__(image)
        self.password = environment.get("POSTGRES_PASSWORD") or secrets.token_hex(8)
        self.with_exposed_ports(5432)
        self.with_envs(**{"POSTGRES_PASSWORD": self.password, **environment})
        if ready:
            self.waiting_for(Prepared())

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        host = self.get_container_host_ip().replace("localhost", "127.0.0.1")
        port = self.get_exposed_port(5432)
        return f"postgresql://{user}:{self.password}@{host}:{port}/{database}"

    def inside_dsn(self) -> str:
        """The way into the database for what runs in the container."""
        return "host=/var/run/postgresql user=postgres"

    def log(self) -> str:
        text: bytes = self.get_wrapped_container().logs()
        return text.decode(errors="replace")


def cannot_run(reason: str) -> NoReturn:
    """Skip, or fail where containers are required."""
    if os.environ.get("GRAPHALGO_REQUIRE_CONTAINERS") == "1":
        pytest.fail(f"containers are required, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """The Docker engine."""
    try:
        client = docker.from_env()
        client.ping()
    except docker.errors.DockerException as error:
        cannot_run(f"no Docker engine answers: {error}")
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(engine: docker.DockerClient) -> Callable[[int], str]:
    """Gives the name of the image of a major version, built when it is asked for."""

    @cache  # one image a run, whatever is edited meanwhile
    def built(version: int) -> str:
        name = docker_image.image_name(version)
        if not engine.images.list(name):
            _require_base(engine, "trixie")
            _require_base(engine, docker_image.SUITES[version])
            _build(name, version)
        return name

    return built


def _require_base(client: docker.DockerClient, suite: str) -> None:
    base = f"debian:{suite}-slim"
    if client.images.list(base):
        return
    try:
        client.images.pull(base)
    except docker.errors.APIError as error:
        cannot_run(f"the base image {base} is neither here nor to be had: {error.explanation}")


def _build(name: str, version: int) -> None:
    wanted = DockerImage(
        path=ROOT,
        tag=name,
        clean_up=False,
        dockerfile_path=docker_image.DOCKERFILE,
        buildargs=docker_image.build_arguments(version),
        rm=True,
    )
    try:
        wanted.build()
    except docker.errors.BuildError as error:
        lines = [str(entry.get("stream", entry.get("error", ""))) for entry in error.build_log]
        pytest.fail(f"{error}\n{''.join(lines)[-4000:]}", pytrace=False)


@pytest.fixture(scope="session", params=VERSIONS, ids=[f"pg{major}" for major in VERSIONS])
def server(
    request: pytest.FixtureRequest, image: Callable[[int], str]
) -> Iterator[ServerContainer]:
    """A server of the major version in the parameter, with the harbour sample."""
    version = request.param
    here = servers.best(servers.find_servers(), None)
    if version == 15 and here is not None and here.major == 15:
        pytest.skip("the database tests run on this machine's own PostgreSQL 15")
    with ServerContainer(image(version), GRAPHALGO_SAMPLE="harbour") as started:
        yield started


@pytest.fixture(scope="session")
def server_dsn(server: ServerContainer) -> str:
    """A superuser's DSN for a database with graphalgo and the harbour sample, on each version."""
    return server.dsn()


@pytest.fixture(scope="session")
def empty_server_dsn(server: ServerContainer) -> str:
    """A superuser's DSN for a database with graphalgo and no data, on each version."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create database without_data")
    install(server.dsn("without_data"))
    return server.dsn("without_data")


@pytest.fixture(scope="session")
def tenants_server_dsn(server: ServerContainer) -> str:
    """A superuser's DSN for a database with the sample's rows by tenant, on each version."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create database with_tenants")
    install(server.dsn("with_tenants"))
    load_harbour(server.dsn("with_tenants"), scoped=True)
    return server.dsn("with_tenants")


@pytest.fixture
def volume(engine: docker.DockerClient) -> Iterator[str]:
    """The name of an empty volume, removed after the test."""
    made = engine.volumes.create(labels={"org.graphalgo.test": "1"})
    yield made.name
    made.remove(force=True)


@pytest.fixture
def run_server() -> Callable[..., AbstractContextManager[ServerContainer]]:
    """Runs a container for one test, on a volume that outlives it if one is named."""

    @contextmanager
    def running(
        image: str,
        *,
        volume: str | None = None,
        files: dict[Path, str] | None = None,
        ready: bool = True,
        **environment: str,
    ) -> Iterator[ServerContainer]:
        container = ServerContainer(image, ready=ready, **environment)
        for path, inside in (files or {}).items():
            container.with_volume_mapping(path, inside)
        if volume is not None:
            container.with_volume_mapping(volume, "/var/lib/postgresql/data", "rw")
        with container:
            yield container

    return running


@pytest.fixture
def prepared() -> Callable[[ServerContainer], None]:
    """Waits until a container that was started again is healthy."""
    return Prepared().wait_until_ready
