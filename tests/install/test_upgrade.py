"""Upgrading in place: what the files have changed is made anew, what is not ours stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphalgo import resources
from graphalgo.install import InstallError, install, uninstall

from .conftest import catalogues, execute, fetch

Variant = Callable[..., resources.Resources]

FUNCTION = """
create or replace function aiq.extra({arguments}) returns {result}
language sql stable set search_path = pg_catalog, pg_temp as $$ {body} $$;
alter function aiq.extra({types}) owner to aiq_owner;
revoke all on function aiq.extra({types}) from public;
grant execute on function aiq.extra({types}) to authenticated;
"""
OLD = FUNCTION.format(arguments="p_id bigint", types="bigint", result="bigint", body="select p_id")
VIEW = """
create or replace view aiq.extra_view as select {columns};
alter view aiq.extra_view owner to aiq_owner;
grant select on aiq.extra_view to authenticated;
"""


def refused(dsn: str, sqlstate: str, files: resources.Resources) -> InstallError:
    before = catalogues(dsn)
    with pytest.raises(InstallError) as caught:
        install(dsn, files=files)
    assert caught.value.sqlstate == sqlstate
    assert catalogues(dsn) == before
    return caught.value


@pytest.mark.parametrize(
    ("arguments", "result", "body", "answer"),
    [
        ("p_id bigint", "table (id bigint, more text)", "select p_id, 'more'", "(1,more)"),
        ("p_id bigint", "text", "select p_id::text", "1"),
        ("p_node bigint", "bigint", "select p_node", "1"),
        ("p_id bigint, p_more text default 'x'", "text", "select p_more", "x"),
    ],
    ids=["columns", "type", "argument's name", "one more argument"],
)
def test_a_function_of_another_shape_takes_the_old_ones_place(
    database: str, variant: Variant, arguments: str, result: str, body: str, answer: str
) -> None:
    install(database, files=variant(f900_extra=OLD))
    types = "bigint, text" if "," in arguments else "bigint"
    new = FUNCTION.format(arguments=arguments, types=types, result=result, body=body)
    report = install(database, files=variant(f900_extra=new))
    assert report.action == "upgraded"
    assert report.dropped == ["function aiq.extra(bigint)"]
    # There is one function of the name, or this call would be ambiguous.
    assert fetch(database, "select aiq.extra(1)::text") == [(answer,)]
    execute(database, "set role authenticated; select aiq.extra(1)")


def test_a_fresh_install_and_an_upgrade_end_the_same(
    fresh_database: Callable[[], str], variant: Variant
) -> None:
    upgraded, fresh = fresh_database(), fresh_database()
    old = variant(f900_extra=OLD + VIEW.format(columns="1 as a, 2 as b"), f901_gone=VIEW.format(
        columns="1 as a").replace("extra_view", "gone_view"))  # fmt: skip
    new = variant(
        f900_extra=VIEW.format(columns="2 as b")
        + FUNCTION.format(arguments="", types="", result="text", body="select ''")
    )
    install(upgraded, files=old)
    install(upgraded, files=new)
    install(fresh, files=new)
    assert catalogues(upgraded) == catalogues(fresh)
    books = "select * from aiq.installed_objects where kind not in ('role') order by 1, 2"
    assert fetch(upgraded, books) == fetch(fresh, books)


def test_data_survives_an_upgrade(database: str, variant: Variant) -> None:
    install(database, files=variant(f900_extra=OLD))
    execute(
        database,
        "insert into aiq.entity_types (name, handle_prefix) values ('vessel', 'VSL')",
        "insert into aiq.nodes (entity_type) values ('vessel')",
    )
    install(database, files=variant(f900_extra=OLD.replace("bigint", "text")))
    assert fetch(database, "select handle from aiq.nodes_api") == [("VSL-1",)]


def test_a_removed_function_is_dropped(database: str, variant: Variant) -> None:
    install(database, files=variant(f900_extra=OLD))
    assert install(database).dropped == ["function aiq.extra(bigint)"]
    assert fetch(database, "select to_regprocedure('aiq.extra(bigint)') is null") == [(True,)]


def test_policies_triggers_indexes_and_views_of_ours_are_made_anew_with_their_function(
    database: str, variant: Variant
) -> None:
    parts = """
    create table if not exists aiq.extra_table (id bigint);
    create index if not exists extra_index on aiq.extra_table (aiq.extra(id));
    drop policy if exists extra_policy on aiq.extra_table;
    create policy extra_policy on aiq.extra_table using (aiq.extra(id) is not null);
    create or replace view aiq.extra_view as select aiq.extra(id) from aiq.extra_table;
    create or replace function aiq.second() returns setof aiq.extra_view
    language sql set search_path = pg_catalog, pg_temp
    begin atomic select * from aiq.extra_view; end;
    """
    old = OLD.replace("stable", "immutable")
    new = old.replace("returns bigint", "returns text").replace("select p_id", "select p_id::text")
    install(database, files=variant(f900_extra=old + parts))
    execute(database, "insert into aiq.extra_table values (7)")
    install(database, files=variant(f900_extra=new + parts))
    assert fetch(database, "select * from aiq.second()") == [("7",)]
    for catalogue in ("pg_policy where polname", "pg_class where relname"):
        name = "extra_policy" if "pol" in catalogue else "extra_index"
        assert fetch(database, f"select 1 from {catalogue} = '{name}'") == [(1,)]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("create view public.mine as select aiq.extra(1)", "view public.mine"),
        (
            "create table public.mine (id bigint default aiq.extra(1))",
            "default value for column id of table public.mine",
        ),
        (
            "create table public.mine (id bigint check (aiq.extra(id) > 0))",
            "constraint mine_id_check on table public.mine",
        ),
        (
            "create policy mine on aiq.nodes using (aiq.extra(id) > 0)",
            "policy mine on table aiq.nodes",
        ),
        ("create index mine on aiq.nodes (aiq.extra(id))", "index aiq.mine"),
        (
            "create function public.mine() returns bigint language sql begin atomic"
            " select aiq.extra(1); end",
            "function public.mine()",
        ),
    ],
    ids=["view", "default", "check", "policy", "index", "function"],
)
def test_an_upgrade_that_would_take_somebodys_object_along_is_refused_by_its_name(
    database: str, variant: Variant, statement: str, named: str
) -> None:
    old = OLD.replace("stable", "immutable")
    install(database, files=variant(f900_extra=old))
    execute(database, statement)
    changed = variant(f900_extra=old.replace("returns bigint", "returns int"))
    error = refused(database, "2BP01", changed)
    assert error.message == (
        "function aiq.extra(bigint) has to be made anew, since it has changed, "
        f"but {named} depends on it"
    )
    error = refused(database, "2BP01", resources.find())
    assert f"but {named} depends on it" in error.message
    # One that changes nothing about the function goes through.
    assert install(database, files=variant(f900_extra=old + "select 1;")).dropped == []


def test_a_function_that_holds_up_a_generated_column_is_refused(
    database: str, variant: Variant
) -> None:
    column = "alter table aiq.nodes add column if not exists twice bigint generated always as"
    old = OLD.replace("stable", "immutable") + f"{column} (aiq.extra(id)) stored;"
    install(database, files=variant(f900_extra=old))
    changed = variant(f900_extra=old.replace("returns bigint", "returns text"))
    error = refused(database, "2BP01", changed)
    assert "but column twice of table aiq.nodes depends on it" in error.message


@pytest.mark.parametrize("columns", ["2 as b", "'x'::text as a", "1 as c"])
def test_a_view_of_other_columns_takes_the_old_ones_place(
    database: str, variant: Variant, columns: str
) -> None:
    install(database, files=variant(f900_extra=VIEW.format(columns="1 as a, 2 as b")))
    install(database, files=variant(f900_extra=VIEW.format(columns=columns)))
    assert fetch(database, "select * from aiq.extra_view") in ([(2,)], [("x",)], [(1,)])
    execute(database, "set role authenticated; select * from aiq.extra_view")
    execute(database, "set role authenticated; select * from aiq.edges_current")


def test_a_view_of_other_columns_that_somebody_reads_is_refused(
    database: str, variant: Variant
) -> None:
    install(database, files=variant(f900_extra=VIEW.format(columns="1 as a")))
    execute(database, "create view public.mine as select * from aiq.extra_view")
    changed = variant(f900_extra=VIEW.format(columns="1 as b"))
    error = refused(database, "2BP01", changed)
    assert "view public.mine depends on it" in error.message


def test_a_changed_view_is_replaced_though_somebody_reads_another(
    database: str, variant: Variant
) -> None:
    install(database, files=variant(f900_extra=VIEW.format(columns="1 as a")))
    execute(database, "create view public.mine as select id, weight from aiq.edges_current")
    install(database, files=variant(f900_extra=VIEW.format(columns="1 as b")))
    assert fetch(database, "select b from aiq.extra_view") == [(1,)]
    assert fetch(database, "select * from public.mine") == []


def test_what_others_were_granted_is_given_back(
    database: str, variant: Variant, somebody: str
) -> None:
    old, new = (OLD + VIEW.format(columns=column) for column in ("1 as a", "1 as b"))
    new = new.replace("returns bigint", "returns int").replace("select p_id", "select p_id::int")
    install(database, files=variant(f900_extra=old))
    execute(
        database,
        "grant usage on schema aiq to somebody",
        "grant execute on function aiq.extra to somebody with grant option",
        "grant select on aiq.extra_view to somebody",
    )
    install(database, files=variant(f900_extra=new))
    assert fetch(somebody, "select aiq.extra(1), b from aiq.extra_view") == [(1, 1)]
    query = "select has_function_privilege('somebody', 'aiq.extra(bigint)', %s)"
    assert fetch(database, query, "execute with grant option") == [(True,)]


def test_somebodys_function_of_the_same_name_is_not_overwritten(
    database: str, variant: Variant
) -> None:
    install(database)
    execute(
        database,
        "create function aiq.extra(p_id bigint) returns bigint language sql as 'select 1::bigint'",
    )
    error = refused(database, "42710", variant(f900_extra=OLD))
    assert "function aiq.extra(bigint)" in error.message
    refused(database, "42710", variant(f900_extra=OLD.replace("returns bigint", "returns text")))


def test_somebodys_objects_in_our_schemas_stay_somebodys(database: str, variant: Variant) -> None:
    install(database)
    execute(database, "create function aiq.mine() returns int language sql as 'select 1'")
    install(database, files=variant(f900_extra=OLD))
    assert fetch(database, "select aiq.mine()") == [(1,)]
    with pytest.raises(InstallError, match=r"function aiq\.mine\(\) is in its schemas"):
        uninstall(database)


def test_a_file_that_contradicts_itself_ends_in_an_error(database: str, variant: Variant) -> None:
    twice = OLD + OLD.replace("returns bigint", "returns text")
    refused(database, "42P13", variant(f900_extra=twice))
    install(database, files=variant(f900_extra=OLD))
    refused(database, "42P13", variant(f900_extra=twice))
