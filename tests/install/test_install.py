"""Installing makes everything or nothing, and refuses what would not be safe."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from graphalgo import __version__, resources
from graphalgo.install import InstallError, check, install, server, uninstall
from graphalgo.install.roles import MARK, ROLES
from graphalgo.install.server import ServerPython, code_problem, python_problem

from .conftest import catalogues, execute, fetch

Variant = Callable[..., resources.Resources]


def refused(dsn: str, sqlstate: str, **options: object) -> InstallError:
    """Install, expecting a refusal that changes nothing."""
    before = catalogues(dsn)
    with pytest.raises(InstallError) as caught:
        install(dsn, **options)  # type: ignore[arg-type]
    assert caught.value.sqlstate == sqlstate
    assert catalogues(dsn) == before
    return caught.value


def test_an_empty_database_gets_roles_extensions_schemas_and_functions(database: str) -> None:
    lines: list[str] = []
    report = install(database, report=lines.append)
    assert report.action == "installed"
    assert set(report.roles) == set(ROLES)
    assert report.extensions == ["plpython3u", "pg_trgm"]
    assert report.schemas == ["aiq", "rbac"]
    assert "made role aiq_owner" in lines
    owners = fetch(
        database,
        "select distinct relowner::regrole::text from pg_class"
        " where relnamespace = 'aiq'::regnamespace",
    )
    assert owners == [("aiq_owner",)]
    assert fetch(database, "select value from aiq.meta where key = 'schema_version'") == [
        (__version__,)
    ]
    execute(database, "select * from aiq.lookup(array['nothing'])")


def test_the_roles_cannot_log_in_and_have_no_power(database: str) -> None:
    install(database)
    roles = fetch(
        database,
        "select rolname from pg_roles where rolname = any (%s) and not rolcanlogin and not rolsuper"
        " and not rolbypassrls and not rolcreaterole and not rolcreatedb",
        list(ROLES),
    )
    assert {name for (name,) in roles} == set(ROLES)


def test_web_anon_has_no_usage_on_the_schemas(database: str) -> None:
    install(database)
    for schema in ("aiq", "rbac"):
        query = "select has_schema_privilege('web_anon', %s, 'usage')"
        assert fetch(database, query, schema) == [(False,)]


def test_installing_again_changes_nothing(database: str) -> None:
    install(database)
    execute(database, "insert into aiq.entity_types (name, handle_prefix) values ('vessel', 'VSL')")
    before = catalogues(database)
    books = fetch(database, "select * from aiq.installed_objects order by 1, 2")
    report = install(database)
    assert report.action == "unchanged"
    assert report.roles == report.extensions == report.schemas == report.dropped == []
    assert catalogues(database) == before
    assert fetch(database, "select * from aiq.installed_objects order by 1, 2") == books
    assert fetch(database, "select name from aiq.entity_types") == [("vessel",)]


def test_of_two_installations_at_once_the_second_finds_it_done(database: str) -> None:
    actions: list[str] = []
    threads = [
        threading.Thread(target=lambda: actions.append(install(database).action)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(actions) == ["installed", "unchanged", "unchanged"]


def test_installations_at_once_into_two_databases_share_the_roles(
    fresh_database: Callable[[], str],
) -> None:
    made: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda dsn=dsn: made.append(install(dsn).roles))
        for dsn in (fresh_database(), fresh_database(), fresh_database())
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(len(roles) for roles in made) == [0, 0, len(ROLES)]


def test_an_error_in_a_file_changes_nothing_and_says_where(database: str, variant: Variant) -> None:
    files = variant(f900_wrong="create table aiq.more (id int);\n\nselect no_such_column;\n")
    error = refused(database, "42703", files=files)
    assert error.message.startswith("900_wrong.sql, line 3: ")


def test_an_error_while_upgrading_changes_nothing(database: str, variant: Variant) -> None:
    install(database)
    refused(database, "22012", files=variant(f900_wrong="select 1 / 0;"))


def test_names_in_the_files_must_be_qualified(database: str, variant: Variant) -> None:
    execute(database, "create table public.mine (id int)")
    refused(database, "42P01", files=variant(f900_wrong="drop table mine;"))


def test_only_a_superuser_can_install(database: str, somebody: str) -> None:
    error = refused(somebody, "42501")
    assert "somebody is not a superuser" in error.message


@pytest.fixture
def manager(database: str) -> str:
    """The DSN of the most powerful user of a managed server: one who makes roles and schemas."""
    execute(
        database,
        "create role somebody login createrole",
        "do $$ begin execute format('grant create on database %I to somebody',"
        " current_database()); end $$",
    )
    return make_conninfo(database, user="somebody")


def test_without_plpython_the_user_of_a_managed_server_is_enough(
    database: str, manager: str, variant: Variant
) -> None:
    refused(manager, "42501")
    before = catalogues(database)
    assert install(manager, plpython=False).action == "installed"
    assert install(manager, plpython=False).action == "unchanged"
    assert (
        install(manager, plpython=False, files=variant(f900_more="select 1;")).action == "upgraded"
    )
    # Nobody is left with more than an installation by a superuser leaves them.
    members = (
        "select member::regrole::text from pg_auth_members where roleid = 'aiq_owner'::regrole"
    )
    inherited = "select pg_has_role('somebody', %s, 'usage')"
    assert fetch(database, inherited, "aiq_owner") == [(False,)]
    assert fetch(database, inherited, "aiq_engine") == [(False,)]
    assert len(fetch(database, members)) <= 1
    query = "select has_schema_privilege('aiq_engine', 'aiq', 'create')"
    assert fetch(database, query) == [(False,)]
    assert [
        finding for finding in check(database) if not finding.ok and finding.name != "schema"
    ] == []
    uninstall(manager)
    assert catalogues(database) == before


def test_without_plpython_by_a_superuser_or_not_ends_the_same(
    fresh_database: Callable[[], str],
) -> None:
    found = []
    for user in ("postgres", "somebody"):
        dsn = fresh_database()
        execute(
            dsn,
            "do $$ begin create role somebody login createrole;"
            " exception when duplicate_object then null; end $$",
            "do $$ begin execute format('grant create on database %I to somebody',"
            " current_database()); end $$",
        )
        install(make_conninfo(dsn, user=user), plpython=False)
        found.append({**catalogues(dsn), "pg_auth_members": []})
        uninstall(dsn)
    assert found[0] == found[1]


def test_without_plpython_a_user_who_cannot_make_roles_is_refused(
    database: str, somebody: str
) -> None:
    error = refused(somebody, "42501", plpython=False)
    assert "CREATEROLE and CREATE on the database" in error.message


def test_without_plpython_all_but_its_functions_are_installed(database: str) -> None:
    report = install(database, plpython=False)
    assert report.extensions == ["pg_trgm"]
    assert fetch(database, "select to_regclass('aiq.edges_current') is not null") == [(True,)]
    assert fetch(database, "select 1 from pg_proc where proname = 'iterated_join'") == []


def test_plpython_can_be_added_and_taken_away_again(database: str) -> None:
    install(database, plpython=False)
    assert install(database).action == "upgraded"
    execute(database, "select * from aiq.lookup(array['nothing'])")
    report = install(database, plpython=False)
    assert any("aiq.lookup" in line for line in report.dropped)
    assert fetch(database, "select 1 from pg_proc where proname = 'lookup'") == []


def test_pg_trgm_may_live_in_a_schema_of_any_name_that_is_closed(database: str) -> None:
    execute(
        database,
        'create schema "odd "" schema"',
        'create extension pg_trgm schema "odd "" schema"',
    )
    report = install(database)
    assert report.extensions == ["plpython3u"]
    execute(database, "set role authenticated; select aiq.name_similarity('abc', 'abd')")


def test_a_database_without_a_schema_for_pg_trgm_is_told_what_to_do(database: str) -> None:
    execute(database, "drop schema public")
    error = refused(database, "3F000")
    assert error.hint == "Choose a schema for it: create extension pg_trgm schema SCHEMA;"
    execute(database, "create schema ext", "create extension pg_trgm schema ext")
    assert install(database).action == "installed"


def test_a_role_that_was_there_is_kept_and_not_recorded_as_ours(database: str) -> None:
    execute(database, "create role authenticated nologin", "comment on role authenticated is 'us'")
    report = install(database)
    assert "authenticated" not in report.roles
    books = fetch(database, "select name from aiq.installed_objects where kind = 'role'")
    assert {name for (name,) in books} == set(ROLES) - {"authenticated"}


def test_a_role_made_by_an_installation_in_another_database_is_ours_here_too(
    fresh_database: Callable[[], str],
) -> None:
    install(fresh_database())
    second = fresh_database()
    assert install(second).roles == []
    books = fetch(second, "select name from aiq.installed_objects where kind = 'role'")
    assert {name for (name,) in books} == set(ROLES)
    marked = fetch(second, "select count(*) from pg_shdescription where description = %s", MARK)
    assert marked == [(len(ROLES),)]


@pytest.mark.parametrize(
    ("role", "power", "mend"),
    [
        ("aiq_owner", "superuser", "alter role aiq_owner nosuperuser;"),
        ("aiq_owner", "bypassrls", "alter role aiq_owner nobypassrls;"),
        ("aiq_engine", "superuser", "alter role aiq_engine nosuperuser;"),
        ("authenticated", "superuser", "alter role authenticated nosuperuser;"),
        ("authenticated", "bypassrls", "alter role authenticated nobypassrls;"),
    ],
)
def test_a_role_that_would_switch_row_security_off_is_refused(
    database: str, role: str, power: str, mend: str
) -> None:
    execute(database, f"create role {role} nologin {power}")
    error = refused(database, "42501")
    assert f"role {role} " in error.message
    assert error.hint == f"As a superuser: {mend}"
    execute(database, mend)
    assert install(database).action == "installed"


def test_upgrading_with_an_owner_made_superuser_is_refused(database: str) -> None:
    install(database)
    execute(database, "alter role aiq_owner superuser")
    refused(database, "42501")


@pytest.mark.parametrize("member", ["aiq_owner", "authenticated"])
def test_a_member_of_the_engine_role_is_refused(database: str, member: str) -> None:
    execute(
        database, f"create role {member}", "create role aiq_engine", f"grant aiq_engine to {member}"
    )
    error = refused(database, "42501")
    assert error.hint == f"As a superuser: revoke aiq_engine from {member};"


def test_an_owner_who_is_a_member_of_the_engine_by_way_of_another_is_refused(
    database: str,
) -> None:
    execute(
        database,
        "create role aiq_owner",
        "create role aiq_engine",
        "create role go_between",
        "grant aiq_engine to go_between",
        "grant go_between to aiq_owner",
    )
    error = refused(database, "42501")
    assert "by way of go_between" in error.message
    execute(database, str(error.hint).removeprefix("As a superuser: "))
    assert install(database).action == "installed"


def test_somebody_elses_schema_of_our_name_is_refused(database: str) -> None:
    execute(database, "create schema rbac", "create table rbac.org_members (id int)")
    error = refused(database, "42P06")
    assert "table rbac.org_members" in error.message


def test_an_empty_schema_of_our_name_is_used(database: str) -> None:
    execute(database, "create schema aiq")
    report = install(database)
    assert report.schemas == ["rbac"]
    execute(database, "set role authenticated; select * from aiq.edges_current")


def test_a_newer_schema_is_not_downgraded(database: str) -> None:
    install(database)
    execute(database, "update aiq.meta set value = '999.1' where key = 'schema_version'")
    error = refused(database, "55000")
    assert "999.1" in error.message
    assert __version__ in error.message
    assert "graphalgo>=999.1" in str(error.hint)


def test_an_older_schema_is_upgraded(database: str) -> None:
    install(database)
    execute(database, "update aiq.meta set value = '0.0.1' where key = 'schema_version'")
    report = install(database)
    assert (report.action, report.previous_version) == ("upgraded", "0.0.1")


def test_a_server_that_is_too_old_is_refused_with_its_version(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = fetch(database, "select split_part(current_setting('server_version'), ' ', 1)")
    monkeypatch.setattr(server, "OLDEST_MAJOR", 99)
    error = refused(database, "0A000")
    assert f"PostgreSQL {found[0]}, but 99 to " in error.message


def test_a_server_newer_than_any_known_is_allowed_with_a_warning(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "NEWEST_MAJOR", 14)
    assert any("newer than 14" in warning for warning in install(database).warnings)


def test_server_settings_do_not_get_in_the_way(database: str) -> None:
    execute(
        database,
        "do $$ begin execute format('alter database %I set default_transaction_isolation ="
        " serializable', current_database()); execute format('alter database %I set"
        " default_transaction_read_only = on', current_database()); execute format('alter database"
        " %I set search_path = ''''', current_database()); end $$",
    )
    assert install(database).action == "installed"
    assert install(make_conninfo(database, options="-c statement_timeout=1")).action == "unchanged"


def test_a_lock_that_is_not_had_in_time_is_an_error_that_says_so(database: str) -> None:
    install(database)
    with psycopg.connect(database) as holder:
        holder.execute("lock table aiq.nodes in access exclusive mode")
        with pytest.raises(InstallError) as caught:
            install(make_conninfo(database, options="-c lock_timeout=50"))
    assert caught.value.sqlstate == "55P03"


@pytest.mark.parametrize(
    ("found", "sqlstate", "message"),
    [
        (ServerPython((3, 9, 2)), "0A000", "runs Python 3.9.2"),
        (
            ServerPython((3, 12, 1), ["/a"], error="ModuleNotFoundError: x"),
            "55000",
            "cannot import",
        ),
        (ServerPython((3, 12, 1), ["/a"], "0.0.1", "/a/graphalgo"), "55000", "graphalgo 0.0.1"),
    ],
)
def test_a_server_python_that_does_not_fit_is_told(
    found: ServerPython, sqlstate: str, message: str
) -> None:
    problem = python_problem(found)
    assert problem is not None
    assert problem.sqlstate == sqlstate
    assert message in problem.message


def test_a_server_with_other_code_of_the_same_version_is_told() -> None:
    same = ServerPython(
        (3, 12, 1), ["/a"], __version__, "/a/graphalgo", resources.server_code_digest()
    )
    assert python_problem(same) is None
    assert code_problem(same) is None
    problem = code_problem(dataclasses.replace(same, digest="0" * 64))
    assert problem is not None
    assert "not the same" in problem.message


def test_the_mend_names_the_servers_own_python_and_a_folder_that_it_reads() -> None:
    path = ["/usr/lib/python312.zip", "/usr/lib/python3/dist-packages",
            "/usr/local/lib/python3.12/dist-packages"]  # fmt: skip
    problem = python_problem(ServerPython((3, 12, 1), path, error="ModuleNotFoundError: x"))
    assert problem is not None
    target = "--target /usr/local/lib/python3.12/dist-packages "
    assert "python3.12 -m pip install --no-deps --upgrade " + target in problem.remedy
    assert "PYTHONPATH=/opt/graphalgo" in problem.remedy


def test_a_server_that_cannot_import_graphalgo_is_refused(database: str) -> None:
    execute(database, "create extension plpython3u")
    # As if it were not there: the module path of new sessions leads elsewhere.
    execute(
        database,
        "create function public.hide() returns void language plpython3u as $$"
        "import sys; sys.modules['graphalgo'] = None $$",
    )
    with psycopg.connect(database) as connection:
        connection.execute("select public.hide()")
        found = server.probe_python(connection)
    problem = python_problem(found)
    assert problem is not None
    assert "cannot import graphalgo" in problem.message
