"""Each supported major version answers as written, and as the twin does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.stores.client import ClientStore
from tests.support import harbour
from tests.support.agreement import check_agreement
from tests.support.engine import Bound
from tests.support.server import ServerFunctions
from tests.support.tenants import check_tenants

REFUSALS = (GraphAlgoError, psycopg.Error)


@pytest.fixture(scope="module")
def connection(server_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def empty_connection(empty_server_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(empty_server_dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module", params=["inside-the-server", "over-a-connection"])
def algorithms(request: pytest.FixtureRequest, connection: psycopg.Connection[Any]) -> Any:
    if request.param == "inside-the-server":
        return ServerFunctions(connection)
    return Bound(ClientStore(connection))


@pytest.mark.parametrize("case", harbour.join_cases())
def test_iterated_join_answers_as_written(algorithms: Any, case: dict[str, Any]) -> None:
    harbour.check_join(algorithms, case, REFUSALS)


@pytest.mark.parametrize("case", harbour.walk_cases())
def test_walk_answers_as_written(algorithms: Any, case: dict[str, Any]) -> None:
    harbour.check_walk(algorithms, case)


@pytest.mark.parametrize("case", harbour.lookup_cases())
def test_lookup_answers_as_written(algorithms: Any, case: dict[str, Any]) -> None:
    harbour.check_lookup(algorithms, case)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_stores_agree_row_for_row(
    empty_connection: psycopg.Connection[Any], data: st.DataObject
) -> None:
    check_agreement(empty_connection, data)


def test_each_tenant_is_answered_as_written(tenants_server_dsn: str) -> None:
    cases = sum(len(harbour.EXPECTED[kind]) for kind in harbour.KINDS)
    assert harbour.check_tenants(tenants_server_dsn) == 2 * cases


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_answers_are_those_of_the_visible_graph(
    empty_connection: psycopg.Connection[Any], data: st.DataObject
) -> None:
    check_tenants(empty_connection, data)
