"""What the image's server offers, on each supported major version."""

from __future__ import annotations

import json

import psycopg
import pytest

from graphalgo.install import check
from tests.container.conftest import ServerContainer


def rows(dsn: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode()).fetchall()


def test_the_server_is_of_the_version_that_was_asked_for(
    server_dsn: str, request: pytest.FixtureRequest
) -> None:
    ((number,),) = rows(server_dsn, "select current_setting('server_version_num')::int / 10000")
    assert request.node.callspec.id == f"pg{number}"


def test_the_installation_has_nothing_to_mend(server_dsn: str) -> None:
    findings = check(server_dsn)
    assert findings
    assert [finding for finding in findings if not finding.ok] == []


def test_pgvector_is_there_where_debian_has_it(
    server_dsn: str, request: pytest.FixtureRequest
) -> None:
    found = rows(server_dsn, "select from pg_available_extensions where name = 'vector'")
    assert len(found) == (0 if request.node.callspec.id == "pg15" else 1)


def test_databases_are_utf8_and_sort_by_code_point(server_dsn: str) -> None:
    query = """
        select pg_encoding_to_char(encoding), datcollate, datctype
        from pg_database where datname = current_database()
    """
    assert rows(server_dsn, query) == [("UTF8", "C.UTF-8", "C.UTF-8")]


def test_the_package_that_the_server_imports_is_compiled(server_dsn: str) -> None:
    with psycopg.connect(server_dsn) as connection:
        connection.execute(
            "create function pg_temp.compiled() returns boolean language plpython3u as $$\n"
            "import os, graphalgo.server\n"
            "return os.path.exists(graphalgo.server.__cached__)\n$$"
        )
        assert connection.execute("select pg_temp.compiled()").fetchone() == (True,)


def test_a_join_answers_inside_the_server(server_dsn: str) -> None:
    ((resolved, key, hops),) = rows(
        server_dsn,
        "select resolved, key, hops from aiq.iterated_join('nl-2231', 'operator') limit 1",
    )
    assert (resolved, hops) == (True, 2)
    assert key


def test_the_command_line_works_inside_where_debian_has_what_it_needs(
    server: ServerContainer, request: pytest.FixtureRequest
) -> None:
    status, output = server.exec(
        ["graphalgo", "join", "NL-2231", "operator", "--json", "--dsn", server.inside_dsn()]
    )
    if request.node.callspec.id == "pg15":
        assert status != 0
        assert b'"graphalgo": executable file not found' in output
    else:
        assert status == 0
        assert json.loads(output)
