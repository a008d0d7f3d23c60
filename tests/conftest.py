"""A private PostgreSQL for the whole run, and databases in it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from graphalgo import cluster as private_cluster
from graphalgo.install import install
from graphalgo.loading import load_harbour

DIRECTORY = os.environ.get("GRAPHALGO_TEST_CLUSTER")


@pytest.fixture(scope="session")
def cluster() -> private_cluster.Cluster:
    """The private cluster of the tests; it is left running for the next run."""
    if DIRECTORY:
        return private_cluster.up(Path(DIRECTORY))
    return private_cluster.up(private_cluster.default_directory(".graphalgo-test"))


@pytest.fixture(scope="session")
def make_database(cluster: private_cluster.Cluster) -> Iterator[Callable[[], str]]:
    """A factory of new, empty databases, dropped at the end of the run."""
    made: list[str] = []
    numbers = itertools.count(1)

    def make() -> str:
        name = f"test_{os.getpid()}_{next(numbers)}"
        with psycopg.connect(cluster.dsn, autocommit=True) as connection:
            connection.execute(
                sql.SQL("create database {} template template0").format(sql.Identifier(name))
            )
        made.append(name)
        return make_conninfo(cluster.dsn, dbname=name)

    yield make
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        for name in made:
            connection.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
            )


@pytest.fixture
def fresh_database(make_database: Callable[[], str]) -> Callable[[], str]:
    """A factory of new, empty databases."""
    return make_database


@pytest.fixture(scope="session")
def dsn(make_database: Callable[[], str]) -> str:
    """A superuser's DSN of a database with graphalgo and the harbour sample."""
    made = make_database()
    install(made)
    load_harbour(made)
    return made


@pytest.fixture(scope="session")
def empty_dsn(make_database: Callable[[], str]) -> str:
    """A superuser's DSN of a database with graphalgo and no data."""
    made = make_database()
    install(made)
    return made


@pytest.fixture(scope="session")
def tenants_dsn(make_database: Callable[[], str]) -> str:
    """A superuser's DSN of a database with the harbour sample, its rows the tenants' own."""
    made = make_database()
    install(made)
    load_harbour(made, scoped=True)
    return made
