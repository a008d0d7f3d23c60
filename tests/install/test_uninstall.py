"""Uninstalling removes exactly what installing made, and refuses what would take more."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from graphalgo.install import InstallError, install, uninstall
from graphalgo.install.roles import ROLES

from .conftest import catalogues, execute, fetch


def refused(dsn: str, sqlstate: str) -> str:
    before = catalogues(dsn)
    with pytest.raises(InstallError) as caught:
        uninstall(dsn)
    assert caught.value.sqlstate == sqlstate
    assert catalogues(dsn) == before
    return caught.value.message


@pytest.mark.parametrize(
    "prepared",
    [
        [],
        ["create extension plpython3u", "create extension pg_trgm"],
        ["create role authenticated", "comment on role authenticated is 'ours'"],
        ["create schema ext", "create extension pg_trgm schema ext", "drop schema public"],
        ["create table public.mine (id int)", "create view public.other as select * from mine"],
    ],
    ids=["empty", "extensions there", "role there", "pg_trgm elsewhere", "other things there"],
)
@pytest.mark.parametrize("plpython", [True, False])
def test_everything_is_as_before(database: str, prepared: list[str], plpython: bool) -> None:
    # What stays open to everyone is written out, as granting and revoking leaves it.
    execute(database, *prepared, "grant usage on schema pg_catalog to public")
    if "create schema ext" in prepared:
        execute(database, "grant usage on schema ext to postgres")
    before = catalogues(database)
    install(database, plpython=plpython)
    execute(database, "insert into aiq.entity_types (name, handle_prefix) values ('vessel', 'VSL')")
    install(database, plpython=plpython)
    report = uninstall(database)
    assert report.left == []
    assert catalogues(database) == before


def test_what_is_not_installed_is_not_removed(database: str) -> None:
    execute(
        database, "create schema aiq", "create table aiq.mine (id int)", "create role aiq_owner"
    )
    before = catalogues(database)
    lines: list[str] = []
    assert not uninstall(database, report=lines.append).found
    assert lines == ["graphalgo is not installed in this database"]
    assert catalogues(database) == before


def test_an_empty_schema_that_was_there_stays(database: str) -> None:
    execute(database, "create schema aiq")
    install(database)
    report = uninstall(database)
    assert report.left == ["schema aiq: it was there before"]
    assert "schema rbac" in report.removed
    assert fetch(database, "select to_regnamespace('aiq') is not null") == [(True,)]
    assert fetch(database, "select 1 from pg_class where relnamespace = 'aiq'::regnamespace") == []
    assert fetch(database, "select 1 from pg_proc where pronamespace = 'aiq'::regnamespace") == []
    assert fetch(database, "select 1 from pg_roles where rolname = any (%s)", list(ROLES)) == []


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("create view public.mine as select * from aiq.edges_current", "view public.mine"),
        (
            "create view public.mine as select * from aiq.walk('x')",
            "view public.mine",
        ),
        (
            "create materialized view public.mine as select id from aiq.nodes",
            "materialized view public.mine",
        ),
        (
            "create table public.mine (node_id bigint references aiq.nodes)",
            "constraint mine_node_id_fkey on table public.mine",
        ),
        (
            "create function public.mine() returns setof aiq.nodes language sql"
            " as 'select * from aiq.nodes'",
            "function public.mine()",
        ),
        ("create table public.mine (node aiq.nodes)", "column node of table public.mine"),
        ("create table public.mine () inherits (aiq.link_verdicts)", "table public.mine"),
    ],
    ids=["view", "view over function", "matview", "foreign key", "function", "column", "child"],
)
def test_what_depends_on_ours_is_named(database: str, statement: str, named: str) -> None:
    install(database)
    execute(database, statement)
    message = refused(database, "2BP01")
    assert f"{named} depends on it, but graphalgo did not make it" in message


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("create table aiq.mine (id int)", "table aiq.mine"),
        ("create function rbac.mine() returns int language sql as 'select 1'", "function rbac.m"),
        ("create type aiq.mine as enum ('a')", "type aiq.mine"),
        ("create extension hstore schema aiq", "extension hstore"),
    ],
)
def test_what_others_put_into_our_schemas_is_named(
    database: str, statement: str, named: str
) -> None:
    install(database)
    execute(database, statement)
    assert named in refused(database, "2BP01")


def test_what_others_put_on_our_tables_goes_with_them(database: str) -> None:
    before = catalogues(database)
    install(database)
    execute(
        database,
        "create index mine on aiq.nodes (summary)",
        "create trigger mine before update on aiq.nodes for each row"
        " execute function suppress_redundant_updates_trigger()",
    )
    uninstall(database)
    assert catalogues(database) == before


def test_a_role_that_another_database_uses_is_left_until_that_one_is_done(
    fresh_database: Callable[[], str],
) -> None:
    first, second = fresh_database(), fresh_database()
    before = catalogues(first)
    install(first)
    install(second)
    left = uninstall(first).left
    used = [role for role in ROLES if role != "web_anon"]
    assert sorted(line.split(":")[0] for line in left) == sorted(f"role {role}" for role in used)
    assert "in database" in left[0]
    execute(second, "set role authenticated; select * from aiq.edges_current")
    assert uninstall(second).left == []
    assert catalogues(first) == before


def test_a_role_that_owns_something_is_left(database: str) -> None:
    install(database)
    execute(
        database,
        "create table public.mine (id int)",
        "alter table public.mine owner to aiq_worker",
        "grant select on public.mine to authenticated",
    )
    report = uninstall(database)
    assert report.left == [
        "role aiq_worker: owner of table public.mine",
        "role authenticated: privileges for table public.mine",
    ]
    assert "role aiq_owner" in report.removed
    execute(database, "drop table public.mine")


def test_an_extension_that_somebody_uses_is_left(database: str) -> None:
    install(database)
    execute(
        database,
        "create table public.mine (name text)",
        "create index mine_name on public.mine using gin (name public.gin_trgm_ops)",
        "create function public.mine() returns int language plpython3u as 'return 1'",
    )
    left = uninstall(database).left
    assert [line.split(":")[0] for line in left] == ["extension pg_trgm", "extension plpython3u"]
    assert "function public.mine()" in left[1]
    assert fetch(database, "select public.mine()") == [(1,)]


def test_only_a_superuser_can_uninstall(database: str, somebody: str) -> None:
    install(database)
    with pytest.raises(InstallError, match="somebody is not a superuser") as caught:
        uninstall(somebody)
    assert caught.value.sqlstate == "42501"


def test_an_error_while_uninstalling_changes_nothing(database: str) -> None:
    install(database)
    before = catalogues(database)
    with psycopg.connect(database) as reader:
        reader.execute("select * from aiq.edges_current")
        with pytest.raises(InstallError) as caught:
            uninstall(make_conninfo(database, options="-c lock_timeout=50"))
    assert caught.value.sqlstate == "55P03"
    assert catalogues(database) == before


def test_a_view_made_while_uninstalling_waits_is_seen(database: str) -> None:
    install(database)
    caught: list[InstallError] = []

    def remove() -> None:
        try:
            uninstall(database)
        except InstallError as error:
            caught.append(error)

    with psycopg.connect(database) as other:
        other.execute("create view public.mine as select * from aiq.edges_current")
        thread = threading.Thread(target=remove)
        thread.start()
        waiting = "select count(*) from pg_locks where not granted"
        while fetch(database, waiting) == [(0,)]:
            assert thread.is_alive()
    thread.join()
    assert "view public.mine depends on it" in caught[0].message
    assert fetch(database, "select * from public.mine") == []


def test_it_can_be_installed_again(database: str) -> None:
    install(database)
    uninstall(database)
    assert install(database).action == "installed"
