"""Tables of others that are registered: left as they were, and told when out of step."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from graphalgo.install import InstallError, check, install, uninstall
from graphalgo.install.roles import ROLES
from graphalgo.loading import load_harbour
from tests.support.catalogue import Schema, differences, schema_of
from tests.support.registered import active

from .conftest import execute, fetch
from .test_check import mend, wrong

TABLES = """
create schema yard;
create schema "Odd place";
create table yard.docks (
    region text, id int, name text not null, note text, primary key (region, id)
) partition by list (region);
create table yard.docks_north partition of yard.docks for values in ('north');
create table yard."Dry docks" partition of yard.docks for values in ('south');
create table "Odd place"."Ships; all" (id int primary key, name text, dock int);
alter table yard.docks owner to somebody;
alter table yard.docks_north owner to somebody;
create index by_name on yard.docks (name);
create function yard.mine() returns trigger language plpgsql as 'begin return null; end';
create trigger mine after insert on yard.docks for each statement execute function yard.mine();
insert into yard.docks values ('north', 1, 'Upper Dock', 'x'), ('south', 1, 'Lower Dock', 'y');
insert into "Odd place"."Ships; all" values (1, 'Aurora', 1);
"""
REGISTERED = """
insert into aiq.entity_types (name, handle_prefix) values ('dock', 'DCK'), ('ship', 'SHP');
insert into aiq.relations (src_type, relation, dst_type) values ('ship', 'built_in', 'dock');
grant usage on schema yard, "Odd place" to aiq_engine;
select aiq.register_entity_table('dock', 'yard.docks', 'name');
select aiq.register_entity_table('ship', '"Odd place"."Ships; all"', 'name');
select aiq.register_link_table(
    '"Odd place"."Ships; all"', 'built_in', 'ship', 'dock',
    p_dst_expr => 'row(''north'', dock)'
);
"""
WRITES = (
    "insert into yard.docks values ('north', 9, 'New Dock')",
    "update yard.docks set name = name || '!'",
    """insert into "Odd place"."Ships; all" values (9, 'Borealis', 9)""",
    "delete from yard.docks_north",
    """truncate "Odd place"."Ships; all", yard.docks""",
)


@pytest.fixture
def unregistered(database: str, somebody: str) -> str:
    """The DSN of a database with tables, and graphalgo."""
    # What an owner may do is written out, as granting and revoking leaves it.
    written_out = [
        f"grant select on {table} to somebody; revoke select on {table} from somebody;"
        f"grant select on {table} to postgres"
        for table in ('"Odd place"."Ships; all"', 'yard."Dry docks"')
    ]
    execute(database, TABLES, *written_out)
    for table in ("yard.docks", "yard.docks_north"):
        execute(database, f"grant all on {table} to somebody")
    for schema in ("yard", '"Odd place"'):
        execute(database, f"grant all on schema {schema} to postgres")
    return database


@pytest.fixture
def registered(unregistered: str) -> str:
    install(unregistered)
    execute(unregistered, REGISTERED)
    return unregistered


def theirs(dsn: str) -> tuple[Schema, list[Any]]:
    """All that is known of the tables of others, and what is in them."""
    with psycopg.connect(dsn) as connection:
        rows = [
            connection.execute(f"select t::text from {table} as t order by 1".encode()).fetchall()
            for table in ("yard.docks", '"Odd place"."Ships; all"')
        ]
    return schema_of(dsn, "yard", "Odd place", "public"), rows


def assert_gone(dsn: str) -> None:
    assert fetch(dsn, "select 1 from pg_roles where rolname = any (%s)", list(ROLES)) == []
    assert fetch(dsn, "select 1 from pg_namespace where nspname in ('aiq', 'rbac')") == []
    left = "select tgname from pg_trigger where not tgisinternal and tgname <> 'mine'"
    assert fetch(dsn, left) == []
    execute(dsn, *WRITES)


def test_uninstalling_leaves_registered_tables_exactly_as_they_were(unregistered: str) -> None:
    before = theirs(unregistered)
    install(unregistered)
    execute(unregistered, REGISTERED)
    assert set(differences(before[0], theirs(unregistered)[0])) >= {"triggers", "relations"}
    lines: list[str] = []
    report = uninstall(unregistered, report=lines.append)
    assert report.left == []
    assert 'removed triggers on "Odd place"."Ships; all"' in lines
    assert 'removed triggers on yard."Dry docks"' in lines
    assert "took back what aiq_engine was granted on table yard.docks" in lines
    assert differences(before[0], theirs(unregistered)[0]) == {}
    assert theirs(unregistered)[1] == before[1]
    assert_gone(unregistered)


@pytest.mark.parametrize(
    "changed",
    [
        "select aiq.bulk('yard.docks', true)",
        "alter table yard.docks detach partition yard.docks_north",
        """alter table "Odd place"."Ships; all" set schema yard;
        alter table yard."Ships; all" rename to ships""",
        "drop table yard.docks",
        "alter table yard.docks disable trigger user",
        "drop trigger graphalgo_insert on yard.docks",
        "select aiq.unregister_entity_table('dock', 'yard.docks')",
        """alter function yard.mine() owner to somebody; grant select (name) on
        "Odd place"."Ships; all" to aiq_engine""",
    ],
    ids=["paused", "detached", "renamed", "dropped", "disabled", "a trigger dropped",
         "unregistered", "a column granted"],
)  # fmt: skip
def test_uninstalling_works_whatever_has_become_of_the_tables(
    registered: str, changed: str
) -> None:
    execute(registered, changed)
    assert uninstall(registered).left == []
    assert fetch(registered, "select 1 from pg_roles where rolname = any (%s)", list(ROLES)) == []
    left = "select tgname from pg_trigger where not tgisinternal and tgname <> 'mine'"
    assert fetch(registered, left) == []


def test_the_sample_is_left_as_ordinary_tables(database: str) -> None:
    install(database)
    load_harbour(database, scoped=True)
    before = fetch(database, "select v::text from harbour.vessels as v order by 1")
    assert uninstall(database).left == []
    assert fetch(database, "select v::text from harbour.vessels as v order by 1") == before
    execute(database, "update harbour.vessels set name = name")


def test_what_an_engine_of_others_was_granted_elsewhere_stays(unregistered: str) -> None:
    """The role was there before graphalgo: only what registering granted is taken back."""
    execute(
        unregistered,
        "create role aiq_engine nologin",
        "create table public.own (id int)",
        "grant select on public.own to aiq_engine",
    )
    install(unregistered)
    execute(unregistered, REGISTERED)
    uninstall(unregistered)
    held = "select has_table_privilege('aiq_engine', %s, 'select')"
    assert fetch(unregistered, held, "public.own") == [(True,)]
    assert fetch(unregistered, held, "yard.docks") == [(False,)]
    execute(unregistered, "drop owned by aiq_engine")


HELD = """
select has_schema_privilege('aiq_engine', 'yard', 'usage'),
    has_table_privilege('aiq_engine', 'public.own', 'select'),
    has_table_privilege('aiq_engine', 'yard.docks', 'select'),
    has_table_privilege('aiq_engine', 'yard.docks', 'trigger'),
    has_table_privilege('aiq_engine', 'yard.docks', 'insert')
"""
GRANTED = """
create table public.own (id int);
grant select on public.own to aiq_engine;
grant insert on yard.docks to aiq_engine
"""


def test_what_others_granted_an_engine_that_stays_stays_too(
    registered: str, fresh_database: Callable[[], str]
) -> None:
    """Another database uses the role: only what registering granted is taken back."""
    execute(registered, GRANTED)
    other = fresh_database()
    install(other)
    lines: list[str] = []
    uninstall(registered, report=lines.append)
    assert fetch(registered, HELD) == [(True, True, False, False, True)]
    assert [line for line in lines if line.startswith("took back")] == [
        f"took back what aiq_engine was granted on table {table}"
        for table in (
            '"Odd place"."Ships; all"', 'yard."Dry docks"', "yard.docks", "yard.docks_north"
        )
    ]  # fmt: skip
    execute(registered, "drop owned by aiq_engine")
    assert uninstall(other).left == []


def test_what_others_granted_an_engine_that_owns_something_stays(registered: str) -> None:
    execute(registered, GRANTED, "create table public.its_own (id int)")
    execute(registered, "alter table public.its_own owner to aiq_engine")
    assert uninstall(registered).left == ["role aiq_engine: owner of table public.its_own"]
    assert fetch(registered, HELD) == [(True, True, False, False, True)]
    execute(registered, "drop owned by aiq_engine")


def test_uninstalling_waits_for_who_writes_a_registered_table(registered: str) -> None:
    before = theirs(registered)
    with psycopg.connect(registered) as writer:
        writer.execute("insert into yard.docks values ('north', 5, 'Slow Dock')")
        with pytest.raises(InstallError) as caught:
            uninstall(make_conninfo(registered, options="-c lock_timeout=50"))
        assert caught.value.sqlstate == "55P03"
        writer.rollback()
    assert theirs(registered) == before
    assert wrong(registered) == []


def test_installing_again_keeps_registrations_and_their_triggers(registered: str) -> None:
    before = theirs(registered)
    for _ in range(2):
        install(registered)
        assert theirs(registered) == before
        assert wrong(registered) == []
    execute(registered, "insert into yard.docks values ('south', 7, 'Last Dock')")
    with psycopg.connect(registered) as connection:
        assert {"last dock"} in active(connection).values()


@pytest.mark.parametrize(
    ("changed", "told", "remedy"),
    [
        ("drop trigger graphalgo_update on yard.docks", "has lost triggers",
         "aiq.register_entity_table"),
        ("alter table yard.docks_north disable trigger graphalgo_insert", "are disabled",
         "aiq.register_entity_table"),
        ("select aiq.bulk('yard.docks', true)", "aiq.bulk was left on", "aiq.bulk('yard.docks', f"),
        ("create table yard.west partition of yard.docks for values in ('west')",
         "was attached later", "aiq.register_entity_table"),
        ("alter table yard.docks detach partition yard.docks_north", "no longer a part of it",
         "aiq.register_entity_table"),
        ("drop table yard.docks", "the table is no longer there", "aiq.unregister_entity_table"),
        ("revoke select on yard.docks from aiq_engine", "may no longer read it",
         "aiq.register_entity_table"),
        ("alter table yard.docks rename to quays", "is now called yard.quays",
         "aiq.register_entity_table"),
    ],
)  # fmt: skip
def test_a_table_out_of_step_is_told_with_what_mends_it(
    registered: str, changed: str, told: str, remedy: str
) -> None:
    execute(registered, changed)
    (finding,) = wrong(registered)
    assert finding.name == "registrations"
    assert 'registered as nodes "dock"' in finding.message
    assert told in finding.message
    assert remedy in shlex.split(str(finding.remedy))[-1]
    mend(registered, finding)
    assert wrong(registered) == []


def test_registrations_in_step_are_counted(registered: str) -> None:
    (finding,) = [found for found in check(registered) if found.name == "registrations"]
    assert (finding.ok, finding.message) == (
        True, "all 3 registrations are in step with their tables"
    )  # fmt: skip
