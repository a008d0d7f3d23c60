"""A server of these tests' own: they look at the roles, which all databases share."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from graphalgo import resources
from graphalgo.cluster import Cluster, down, up
from graphalgo.install.roles import ROLES

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    # The server's user has to get through to it, as it cannot to pytest's folders.
    with tempfile.TemporaryDirectory(prefix="graphalgo-install-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield up(Path(folder) / "cluster")
        down(Path(folder) / "cluster", purge=True)


@pytest.fixture
def fresh_database(cluster: Cluster) -> Iterator[Callable[[], str]]:
    """Make empty databases; afterwards they are gone, and so are the roles."""
    made: list[str] = []

    def make() -> str:
        name = f"install_{next(_numbers)}"
        execute(cluster.dsn, f"create database {name} template template0")
        made.append(name)
        return make_conninfo(cluster.dsn, dbname=name)

    yield make
    for name in made:
        execute(cluster.dsn, f"drop database if exists {name} with (force)")
    for role in (*ROLES, "somebody", "go_between"):
        execute(cluster.dsn, f"drop role if exists {role}")


@pytest.fixture
def database(fresh_database: Callable[[], str]) -> str:
    return fresh_database()


@pytest.fixture
def somebody(database: str) -> str:
    """The DSN of a user who is no superuser."""
    execute(database, "create role somebody login")
    return make_conninfo(database, user="somebody")


@pytest.fixture
def variant(tmp_path: Path) -> Callable[..., resources.Resources]:
    """Make a set of SQL files like the package's own, with some more."""

    def make(**extra: str) -> resources.Resources:
        own = resources.find()
        root = tmp_path / f"variant_{next(_numbers)}"
        shutil.copytree(own.sql, root / "sql")
        shutil.copytree(own.plpy, root / "plpy")
        for name, text in extra.items():
            (root / "sql" / f"{name.removeprefix('f')}.sql").write_text(text)
        return resources.Resources(root)

    return make


def execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def fetch(dsn: str, query: str, *parameters: object) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode(), parameters or None).fetchall()


def catalogues(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    """Everything that installing could leave behind, here and in what databases share."""
    found = {}
    columns = {
        "pg_roles": "rolname, rolsuper, rolcanlogin, rolbypassrls, rolconfig",
        "pg_auth_members": "roleid::regrole::text, member::regrole::text",
        "pg_extension": "extname, extnamespace::regnamespace::text, extversion",
        "pg_language": "lanname",
        "pg_namespace": "nspname, nspowner::regrole::text, nspacl::text",
        "pg_class": "oid::regclass::text, relkind, relowner::regrole::text, relacl::text",
        "pg_proc": "oid::regprocedure::text, prosrc, proacl::text",
        "pg_type": "oid::regtype::text, typacl::text",
        "pg_trigger": "tgrelid::regclass::text, tgname",
        "pg_policy": "polrelid::regclass::text, polname",
        "pg_default_acl": "defaclrole::regrole::text, defaclacl::text",
        "pg_description": "pg_describe_object(classoid, objoid, objsubid), description",
        "pg_shdescription": "objoid::regrole::text, description",
        "pg_db_role_setting": "setdatabase, setrole::regrole::text, setconfig",
        "pg_operator": "oid::regoperator::text",
        "pg_cast": "castsource::regtype::text, casttarget::regtype::text",
    }
    where = {
        "pg_trigger": "where not tgisinternal",
        "pg_namespace": "where nspname !~ '^pg_(toast_)?temp'",
        "pg_class": "where relnamespace <> 'pg_toast'::regnamespace",
        "pg_shdescription": "where classoid = 'pg_authid'::regclass",
    }
    with psycopg.connect(dsn) as connection:
        for table, what in columns.items():
            query = sql.SQL("select {} from {} {} order by 1, 2").format(
                sql.SQL(what), sql.Identifier(table), sql.SQL(where.get(table, ""))
            )
            text = query.as_string(connection)
            if "," not in what:
                text = text.replace("order by 1, 2", "order by 1")
            found[table] = connection.execute(text.encode()).fetchall()
    return found
