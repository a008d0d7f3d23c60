"""Check names what is wrong with the command that mends it, and changes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import psycopg
import pytest

from graphalgo import resources
from graphalgo.install import Finding, check, install, server

from .conftest import catalogues, execute, fetch

Variant = Callable[..., resources.Resources]


def wrong(dsn: str) -> list[Finding]:
    """Check, expecting that it changes nothing and mends every finding in words."""
    before = catalogues(dsn)
    findings = check(dsn)
    assert catalogues(dsn) == before
    found = [finding for finding in findings if not finding.ok]
    assert all(finding.remedy for finding in found)
    return found


def mend(dsn: str, finding: Finding) -> None:
    """Run the SQL of a remedy, as psql would."""
    assert finding.remedy is not None
    program, _, option, statement = shlex.split(finding.remedy)
    assert (program, option) == ("psql", "-c")
    execute(dsn, statement)


def test_all_is_well_after_installing(database: str) -> None:
    install(database)
    assert wrong(database) == []


def test_all_is_well_after_installing_without_plpython(database: str) -> None:
    install(database, plpython=False)
    assert wrong(database) == []


def test_an_empty_database_lacks_everything(database: str) -> None:
    found = {finding.name: finding for finding in wrong(database)}
    assert set(found) == {"schema", "plpython3u", "pg_trgm", "server's Python", "roles"}
    assert found["schema"].message == "graphalgo is not installed in this database"
    assert str(found["schema"].remedy).startswith("graphalgo install --dsn '")
    assert found["server's Python"].ok is None
    mend(database, found["plpython3u"])
    mend(database, found["pg_trgm"])
    assert {finding.name for finding in wrong(database)} == {"schema", "roles"}


def test_an_extension_whose_files_are_missing_is_told_with_the_package(database: str) -> None:
    with psycopg.connect(database) as connection:
        major = connection.info.server_version // 10000
        problem = server.extension_missing(connection, "plpython3u")
        assert server.extension_state(connection, "plpython9u") == "missing"
    assert f"postgresql-plpython3-{major}" in problem.remedy
    assert "--no-plpython" in problem.remedy


@pytest.mark.parametrize(
    ("version", "message", "remedy"),
    [
        ("0.0.1", "older than this package's", "graphalgo install --dsn"),
        ("999.1", "newer than this package's", "pip install 'graphalgo==999.1'"),
    ],
)
def test_a_schema_of_another_version_is_told(
    database: str, version: str, message: str, remedy: str
) -> None:
    install(database)
    execute(database, f"update aiq.meta set value = '{version}' where key = 'schema_version'")
    (finding,) = wrong(database)
    assert f"graphalgo {version}, {message}" in finding.message
    assert remedy in str(finding.remedy)


def test_a_schema_made_from_other_files_is_told(database: str, variant: Variant) -> None:
    install(database, files=variant(f900_more="select 1;"))
    (finding,) = wrong(database)
    assert "made from other files" in finding.message
    install(database)
    assert wrong(database) == []


@pytest.mark.parametrize(
    "statement",
    [
        "alter role aiq_owner superuser",
        "alter role aiq_owner bypassrls",
        "alter role aiq_owner login",
        "alter role aiq_engine superuser",
        "grant aiq_engine to aiq_owner",
        "create role go_between; grant aiq_engine to go_between; grant go_between to aiq_owner",
        "grant aiq_owner to authenticated",
    ],
)
def test_a_role_that_gets_round_row_security_is_told_and_mended(
    database: str, statement: str
) -> None:
    install(database)
    execute(database, statement)
    (finding,) = wrong(database)
    assert finding.name == "roles"
    mend(database, finding)
    assert wrong(database) == []


@pytest.mark.parametrize(
    "statement",
    [
        "alter table aiq.edges owner to postgres",
        "alter view aiq.edges_current owner to postgres",
        "grant select on aiq.edges to authenticated",
        "grant select on aiq.edges to public",
        "grant execute on function aiq.similar_name_candidates(text[], real) to public",
        "grant select on rbac.org_members to authenticated",
        "grant insert on aiq.entity_tables to web_anon",
        "grant execute on function aiq.upsert_graph(jsonb, jsonb) to public",
        "grant execute on function rbac.caller_audiences() to public",
        "alter table aiq.edges disable row level security",
        "alter table aiq.node_keys no force row level security",
        "alter table aiq.distinct_nodes disable row level security, no force row level security",
        "update pg_index set indisvalid = false"
        " where indexrelid = 'aiq.edges_out_strongest'::regclass",
    ],
)
def test_what_has_been_changed_by_hand_is_told_and_mended(database: str, statement: str) -> None:
    install(database)
    execute(database, statement)
    (finding,) = wrong(database)
    mend(database, finding)
    assert wrong(database) == []


@pytest.mark.parametrize(
    "function",
    [
        "aiq.keep_in_step()",
        "aiq.walk_plpython(text,integer,text,integer,integer,timestamp with time zone)",
    ],
)
def test_a_function_with_a_superusers_rights_is_told_and_installed_again(
    database: str, function: str
) -> None:
    install(database)
    execute(database, f"alter function {function} owner to postgres")
    (finding,) = wrong(database)
    assert finding.message == (
        f"function {function} belongs to postgres, to none of aiq_owner, aiq_engine and aiq_reader"
    )
    install(database)
    assert wrong(database) == []


@pytest.mark.parametrize(
    ("statement", "gone"),
    [
        ("drop function aiq.lookup(text[], boolean, int)", "function aiq.lookup("),
        ("drop index aiq.edges_out_strongest", "index aiq.edges_out_strongest"),
        ("drop view aiq.edges_current cascade", "view aiq.edges_current"),
        ("drop policy caller_sees on aiq.edges", "policy caller_sees on aiq.edges"),
        (
            "drop trigger request_2_owner on aiq.registration_requests",
            "trigger request_2_owner on aiq.registration_requests",
        ),
    ],
)
def test_what_has_been_dropped_is_told_and_installed_again(
    database: str, statement: str, gone: str
) -> None:
    install(database)
    execute(database, statement)
    (finding,) = wrong(database)
    assert gone in finding.message
    install(database)
    assert wrong(database) == []


def test_a_server_that_is_too_old_is_the_only_finding(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "OLDEST_MAJOR", 99)
    (finding,) = check(database)
    assert finding.ok is False
    assert "99 to " in finding.message


def test_a_user_who_is_no_superuser_is_told_what_could_not_be_looked_at(
    database: str, somebody: str
) -> None:
    install(database)
    execute(database, "alter role aiq_owner bypassrls")
    findings = {finding.name: finding for finding in check(somebody)}
    assert findings["schema"].ok is None
    assert findings["server's Python"].ok is None
    assert findings["roles"].ok is False
    assert findings["pg_trgm"].ok is True
    assert findings["owners"].ok is True


def test_check_works_where_nothing_may_be_written(database: str) -> None:
    install(database)
    execute(
        database,
        "do $$ begin execute format('alter database %I set default_transaction_read_only = on',"
        " current_database()); end $$",
    )
    assert wrong(database) == []
    assert fetch(database, "select count(*) > 0 from aiq.installed_objects") == [(True,)]
