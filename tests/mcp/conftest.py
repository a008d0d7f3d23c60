"""A database with the investigation sample, two users, and servers on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from graphalgo.install import install
from graphalgo.loading import load_investigation
from tests.mcp import serving

ORG_A, ORG_B = "d0000000-0000-0000-0000-0000000000a1", "d0000000-0000-0000-0000-0000000000b1"
ADA, BEN = "e0000000-0000-0000-0000-0000000000a1", "e0000000-0000-0000-0000-0000000000b1"
# Of no organisation.
CAM = "e0000000-0000-0000-0000-0000000000c1"


@dataclass(frozen=True)
class Map:
    """A database with the sample: for its owner, and for the server's own user."""

    owner: str
    server: str


def prepare(dsn: str) -> None:
    """Install, and load the sample."""
    install(dsn)
    load_investigation(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for org in (ORG_A, ORG_B):
            connection.execute("insert into rbac.orgs (id) values (%s)", [org])
        for user in (ADA, BEN, CAM):
            connection.execute("insert into rbac.users (id) values (%s)", [user])
        for pair in ((ORG_A, ADA), (ORG_B, BEN)):
            connection.execute(
                "insert into rbac.org_members (org_id, user_id) values (%s, %s)", pair
            )


@pytest.fixture(scope="session")
def server_role(cluster) -> Iterator[str]:
    """A role that may log in and become a caller, and nothing else."""
    name = f"mcp_test_{os.getpid()}"
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute(f"create role {name} login noinherit".encode())
        yield name
        connection.execute(f"drop role {name}".encode())


@pytest.fixture(scope="session")
def make_map(make_database: Callable[[], str], server_role: str) -> Callable[[], Map]:
    """A factory of databases with the sample."""

    def make() -> Map:
        dsn = make_database()
        prepare(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"grant authenticated to {server_role}".encode())
        return Map(dsn, make_conninfo(dsn, user=server_role))

    return make


@pytest.fixture(scope="session")
def shared_map(make_map: Callable[[], Map]) -> Map:
    """The sample, every row shared."""
    return make_map()


@pytest.fixture(scope="session")
def tenants_map(make_map: Callable[[], Map]) -> Map:
    """The sample, some rows one organisation's or one user's."""
    made = make_map()
    with psycopg.connect(made.owner, autocommit=True) as connection:
        for table, number, org in (
            ("discovery", 104, ORG_A), ("insight", 208, ORG_A), ("memory", 41, ORG_B)
        ):  # fmt: skip
            connection.execute(
                f"update investigation.{table} set org = %s where id = %s".encode(), [org, number]
            )
        connection.execute(
            "update investigation.insight set visibility = 'private', owner = %s where id = 209",
            [ADA],
        )
    return made


@pytest.fixture(scope="session")
def shared_server(shared_map: Map) -> Iterator[serving.Server]:
    """A server over HTTP on the shared sample."""
    with serving.http_server(shared_map.server) as server:
        yield server


@pytest.fixture(scope="session")
def tenants_server(tenants_map: Map) -> Iterator[serving.Server]:
    """A server over HTTP on the tenants' sample."""
    with serving.http_server(tenants_map.server) as server:
        yield server
