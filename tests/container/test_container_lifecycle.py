"""How a container of the image starts, stops, starts again and is upgraded."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

import docker
from graphalgo import __version__

if TYPE_CHECKING:
    from tests.container.conftest import ServerContainer

Run = Callable[..., AbstractContextManager["ServerContainer"]]
COUNT_NODES = "select count(*) from aiq.nodes"


@pytest.fixture(scope="module")
def image17(image: Callable[[int], str]) -> str:
    return image(17)


def one(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, connect_timeout=10) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def ended(container: ServerContainer) -> tuple[int, str]:
    """The exit status and the log of a container that is to end by itself."""
    status = container.get_wrapped_container().wait(timeout=60)["StatusCode"]
    return status, container.log()


def output_of(
    engine: docker.DockerClient, image: str, command: list[str], **settings: object
) -> str:
    """What a container for one command prints; the volume that it gets goes with it."""
    container = engine.containers.run(image, command, detach=True, **settings)
    try:
        assert container.wait(timeout=60)["StatusCode"] == 0
        return str(container.logs().decode())
    finally:
        container.remove(v=True, force=True)


def start_again(container: ServerContainer, ready: Callable[[ServerContainer], None]) -> None:
    container.get_wrapped_container().start()
    ready(container)


def test_a_first_start_without_password_is_refused_with_what_to_write(
    run_server: Run, image17: str
) -> None:
    with run_server(image17, ready=False, POSTGRES_PASSWORD="") as container:
        status, log = ended(container)
    assert status == 1
    assert "the superuser has no password" in log
    assert "-e POSTGRES_PASSWORD=" in log


def test_trust_lets_everybody_in_without_password(run_server: Run, image17: str) -> None:
    with run_server(image17, POSTGRES_PASSWORD="", POSTGRES_HOST_AUTH_METHOD="trust") as container:
        assert one(container.dsn().replace(container.password, "wrong"), "select 1") == 1


def test_an_unknown_sample_is_refused_before_anything_is_made(
    run_server: Run, image17: str, volume: str
) -> None:
    with run_server(image17, ready=False, volume=volume, GRAPHALGO_SAMPLE="harbor") as container:
        status, log = ended(container)
    assert status == 1
    assert (
        "GRAPHALGO_SAMPLE is 'harbor', but harbour, investigation, all or none is expected" in log
    )
    assert "making a PostgreSQL" not in log


def test_user_database_and_password_are_as_named(run_server: Run, image17: str) -> None:
    with run_server(image17, POSTGRES_USER="ann b", POSTGRES_DB="Größe") as container:
        dsn = container.dsn("Gr%C3%B6%C3%9Fe", "ann%20b")
        assert one(dsn, "select current_user || ' in ' || current_database()") == "ann b in Größe"
        assert one(dsn, "select value from aiq.meta where key = 'schema_version'") == __version__
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            one(dsn.replace(container.password, "wrong"), "select 1")


def test_a_password_from_a_file(run_server: Run, image17: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from the file\n")
    secret.chmod(0o600)
    container = run_server(
        image17,
        POSTGRES_PASSWORD="",
        POSTGRES_PASSWORD_FILE="/run/secrets/password",
        files={secret: "/run/secrets/password"},
    )
    with container as started:
        started.password = "from%20the%20file"
        assert one(started.dsn(), "select 1") == 1


def test_the_password_is_not_in_the_servers_environment(run_server: Run, image17: str) -> None:
    with run_server(image17) as container, psycopg.connect(container.dsn()) as connection:
        connection.execute(
            "create function environment() returns text language plpython3u as"
            " 'import os; return repr(dict(os.environ))'"
        )
        row = connection.execute("select environment()").fetchone()
    assert row is not None
    assert "PGDATA" in row[0]
    assert container.password not in row[0]


def test_files_of_the_first_start_run_once_and_find_graphalgo_installed(
    run_server: Run, image17: str, volume: str, tmp_path: Path
) -> None:
    script = tmp_path / "own.sql"
    script.write_text(f"create table own as {COUNT_NODES};\n")
    script.chmod(0o644)
    files = {script: "/docker-entrypoint-initdb.d/own.sql"}
    settings = {"POSTGRES_PASSWORD": "same", "GRAPHALGO_SAMPLE": "harbour"}
    for _ in range(2):  # a second run of the script would fail: the table is there
        with run_server(image17, volume=volume, files=files, **settings) as container:
            assert int(str(one(container.dsn(), "table own"))) > 0


def test_stopping_is_clean_and_prompt_although_a_client_stays(
    run_server: Run, image17: str
) -> None:
    with run_server(image17) as container, psycopg.connect(container.dsn()):
        wrapped = container.get_wrapped_container()
        began = time.monotonic()
        wrapped.stop(timeout=30)
        assert time.monotonic() - began < 10
        wrapped.reload()
        assert wrapped.attrs["State"]["ExitCode"] == 0
        assert "database system is shut down" in container.log().splitlines()[-1]


def test_a_restart_keeps_the_data_and_prepares_nothing_again(
    run_server: Run, image17: str, prepared: Callable[[ServerContainer], None]
) -> None:
    with run_server(image17, GRAPHALGO_SAMPLE="harbour") as container:
        with psycopg.connect(container.dsn()) as connection:
            connection.execute("create table kept as select 41 + 1 as answer")
        nodes = one(container.dsn(), COUNT_NODES)
        container.get_wrapped_container().stop()
        start_again(container, prepared)
        assert one(container.dsn(), "select answer from kept") == 42
        assert one(container.dsn(), COUNT_NODES) == nodes
        assert container.log().count(f"installing {__version__} in database") == 1


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("moment", ["making a PostgreSQL", "installing", "loading"])
def test_a_first_start_that_is_cut_short_is_finished_by_the_next(
    run_server: Run,
    image17: str,
    prepared: Callable[[ServerContainer], None],
    moment: str,
    how: str,
) -> None:
    with run_server(image17, GRAPHALGO_SAMPLE="harbour") as whole:
        nodes = one(whole.dsn(), COUNT_NODES)
    with run_server(image17, ready=False, GRAPHALGO_SAMPLE="harbour") as container:
        deadline = time.monotonic() + 60
        while moment not in container.log():
            assert time.monotonic() < deadline, container.log()
            time.sleep(0.02)
        if how == "killed":
            container.get_wrapped_container().kill()
        else:
            began = time.monotonic()
            container.get_wrapped_container().stop(timeout=60)
            assert time.monotonic() - began < 30
        start_again(container, prepared)
        assert one(container.dsn(), COUNT_NODES) == nodes


@pytest.fixture(scope="module")
def newer_image(engine: docker.DockerClient, image17: str) -> Iterator[str]:
    """The image as it is, but for a package that says it is of a later version."""
    recipe = f"""
        FROM {image17}
        RUN cd /usr/local/lib/python3.*/dist-packages/graphalgo \\
         && sed -i 's/^__version__ = .*/__version__ = "{__version__}.post1"/' __init__.py \\
         && echo another build > /usr/local/share/graphalgo/digest
    """
    made, _ = engine.images.build(fileobj=io.BytesIO(recipe.encode()), rm=True)
    yield str(made.id)
    engine.images.remove(made.id, force=True)


def test_a_newer_image_upgrades_every_database_that_has_graphalgo(
    run_server: Run, image17: str, newer_image: str, volume: str
) -> None:
    version = "select value from aiq.meta where key = 'schema_version'"
    with run_server(image17, volume=volume, GRAPHALGO_SAMPLE="harbour") as container:
        password = container.password
        with psycopg.connect(container.dsn(), autocommit=True) as connection:
            connection.execute("create database plain")
            connection.execute("create database copy template postgres")
        nodes = one(container.dsn(), COUNT_NODES)
        assert one(container.dsn(), version) == __version__
    with run_server(newer_image, volume=volume, POSTGRES_PASSWORD="") as container:
        container.password = password
        for database in ("postgres", "copy"):
            assert one(container.dsn(database), version) == f"{__version__}.post1"
            assert one(container.dsn(database), COUNT_NODES) == nodes
        assert one(container.dsn("plain"), "select to_regnamespace('aiq') is null") is True


def test_an_older_image_leaves_a_newer_schema_alone_and_says_so(
    run_server: Run, image17: str, newer_image: str, volume: str
) -> None:
    with run_server(newer_image, volume=volume):
        pass
    with run_server(image17, volume=volume, ready=False) as container:
        status, log = ended(container)
    assert status == 1
    assert f"{__version__}.post1" in log.split("installing")[-1]


def test_the_data_of_another_major_version_is_refused_with_the_way_out(
    run_server: Run, image: Callable[[int], str], image17: str, volume: str
) -> None:
    with run_server(image17, volume=volume):
        pass
    with run_server(image(18), volume=volume, ready=False) as container:
        status, log = ended(container)
    assert status == 1
    assert "was made by PostgreSQL 17, but this image has 18" in log
    assert "HINT: Dump it" in log


def test_a_directory_of_something_else_is_left_alone(
    run_server: Run, image17: str, volume: str, engine: docker.DockerClient
) -> None:
    mounted = {volume: {"bind": "/elsewhere", "mode": "rw"}}
    output_of(engine, image17, ["touch", "/elsewhere/letters"], volumes=mounted)
    with run_server(image17, volume=volume, ready=False) as container:
        status, log = ended(container)
    assert status == 1
    assert "holds letters, but no PostgreSQL cluster" in log


def test_another_command_runs_instead_of_the_server(
    engine: docker.DockerClient, image17: str
) -> None:
    shown = output_of(engine, image17, ["postgres", "--version"])
    assert shown.startswith("postgres (PostgreSQL) 17")
    assert output_of(engine, image17, ["id", "--user"]).strip() == "0"
