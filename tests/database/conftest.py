"""What the tests of the writers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from graphalgo.install import install
from tests.support.facts import Facts


@pytest.fixture(scope="module")
def facts_store(make_database: Callable[[], str]) -> Iterator[Facts]:
    """A database with a vocabulary and two tenants."""
    made = make_database()
    install(made)
    with psycopg.connect(made, autocommit=True) as connection:
        facts = Facts(connection)
        facts.prepare()
        yield facts


@pytest.fixture
def facts(facts_store: Facts) -> Facts:
    """The same database without nodes and edges."""
    facts_store.clear()
    return facts_store
