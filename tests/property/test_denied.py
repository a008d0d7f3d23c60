"""A denied thing answers as a missing thing, byte for byte, in rows, counts and refusals."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.denied import check_denied_is_missing


@pytest.fixture(scope="module")
def connection(empty_dsn):
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        yield connection


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_denied_is_answered_as_if_it_were_not_there(connection, data):
    check_denied_is_missing(connection, data)
