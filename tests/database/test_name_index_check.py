"""`graphalgo check` tells when the index of names wants refreshing, and `maintain` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from graphalgo.cli.application import app
from graphalgo.install import check, install, names
from graphalgo.names.serving import FEW
from tests.support.names import random_names, refresh, write_names


@pytest.fixture
def names_dsn(make_database: Callable[[], str]) -> str:
    made = make_database()
    install(made)
    return made


@pytest.fixture
def connection(names_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(names_dsn, autocommit=True) as made:
        yield made


def found(dsn: str) -> tuple[bool | None, str, str | None]:
    (one,) = [finding for finding in check(dsn) if finding.name == "names"]
    return one.ok, one.message, one.remedy


def test_few_names_need_no_index(names_dsn: str, connection: psycopg.Connection[Any]) -> None:
    write_names(connection, ["one", "two"])
    assert found(names_dsn)[0] is True


def test_the_index_is_asked_for_then_told_to_be_old_then_to_be_right(
    names_dsn: str, connection: psycopg.Connection[Any]
) -> None:
    write_names(connection, random_names(FEW, 1))
    ok, message, remedy = found(names_dsn)
    assert ok is False
    assert "built" in message
    assert (remedy or "").startswith("graphalgo maintain --dsn")
    told = CliRunner().invoke(app, ["maintain", "--dsn", names_dsn])
    assert told.exit_code == 0, told.output
    assert f"built anew from {FEW:,} names" in told.output
    assert found(names_dsn)[0] is True
    write_names(connection, random_names(names.FEW_CHANGES + 1, 2), FEW + 1)
    ok, message, _ = found(names_dsn)
    assert ok is False
    assert "more than 10% of it" in message
    told = CliRunner().invoke(app, ["maintain", "--dsn", names_dsn])
    assert "refreshed with 5,001 names" in told.output
    assert found(names_dsn)[0] is True
    connection.execute("update aiq.name_segments set ctype = 'other'")
    assert "does not serve" in found(names_dsn)[1]
    refresh(connection)
    connection.execute("delete from aiq.node_keys where node_id > 5000")
    ok, message, remedy = found(names_dsn)
    assert ok is False
    assert "are gone" in message
    assert (remedy or "").endswith("--rebuild")


def test_without_numpy_check_says_what_is_lost_and_what_mends_it(
    connection: psycopg.Connection[Any],
) -> None:
    write_names(connection, ["one", "two"])
    ((ok, message, remedy),) = names.problems(connection, None, "graphalgo maintain")
    assert ok is True
    assert "numpy" in message
    assert "apt-get install python3-numpy" in (remedy or "")
    write_names(connection, random_names(FEW, 3), 10)
    ((ok, _, _),) = names.problems(connection, None, "graphalgo maintain")
    assert ok is False


def test_without_numpy_pg_trgm_serves_and_a_refresh_is_refused(
    connection: psycopg.Connection[Any],
) -> None:
    write_names(connection, ["silver harbour"])
    refresh(connection)
    connection.execute("set aiq.name_index_from = 0")
    connection.execute(
        "do language plpython3u $$\n"
        "import sys\n"
        "for name in [n for n in sys.modules if n.startswith(('numpy', 'graphalgo.names'))]:\n"
        "    del sys.modules[name]\n"
        "sys.modules['numpy'] = None\n"
        "$$"
    )
    asked = "select node_id from aiq.similar_keys('{silver harbor}', 0.5)"
    assert connection.execute(asked).fetchall() == [(1,)]
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="numpy"):
        refresh(connection)
