"""Under any claims every answer is that of a graph filtered first and walked after."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.tenants import check_tenants


@pytest.fixture(scope="module")
def connection(empty_dsn):
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        yield connection


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_answers_are_those_of_the_visible_graph(connection, data):
    check_tenants(connection, data)
