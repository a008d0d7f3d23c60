"""The store inside the server, over a connection and in memory answer the same rows."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.agreement import check_agreement


@pytest.fixture(scope="module")
def connection(empty_dsn):
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        yield connection


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_stores_agree_row_for_row(connection, data):
    check_agreement(connection, data)
