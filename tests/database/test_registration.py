"""Registered tables and their nodes stay in step, whatever is done to the tables."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from graphalgo.install import install
from tests.support.registered import (
    OTHER,
    OWNER,
    WRITER,
    acting_as,
    active,
    ids,
    registering,
    with_roles,
)

VESSELS = """
create table harbour.vessels (
    id int primary key, name text, imo text, aliases text[], status text default 'in_service',
    org uuid, number bigint
)
"""
REGISTER = "select * from aiq.register_entity_table('vessel', 'harbour.vessels', "
LINE = "d0000000-0000-0000-0000-00000000000a"
SHIPPING = "d0000000-0000-0000-0000-00000000000b"


@pytest.fixture(scope="module")
def installed(make_database):
    made = make_database()
    install(made)
    with with_roles(made):
        yield made


@pytest.fixture
def db(installed):
    with registering(installed) as connection:
        yield connection


@pytest.fixture
def vessels(db):
    db.execute(VESSELS)
    return db


def refused(db, statement, sqlstate, *words):
    with pytest.raises(psycopg.Error) as caught:
        db.execute(statement)
    assert caught.value.sqlstate == sqlstate, caught.value
    for word in words:
        assert word in str(caught.value.diag.message_primary)
    return caught.value


# What a registration says


def test_rows_there_before_become_nodes(vessels):
    vessels.execute(
        "insert into harbour.vessels (id, name, imo) values (1, ' Meridian  DAWN', '93')"
    )
    row = vessels.execute(
        REGISTER + "'name', 'name || imo', p_alias_exprs => '{imo}', p_code_exprs => '{imo}')"
    ).fetchone()
    assert row == ("harbour.vessels", 1, 0, 0, 2, 0)
    assert vessels.execute(
        "select entity_type, handle, key, summary from aiq.nodes_api"
    ).fetchall() == [("vessel", f"VSL-{ids(vessels)['1']}", "meridian dawn", " Meridian  DAWN93")]
    assert vessels.execute(
        "select key, kind, is_name from aiq.node_keys order by 1"
    ).fetchall() == [
        ("93", "alias", False),
        ("meridian dawn", "canonical", True),
    ]


def test_keys_of_every_kind_collapse_to_the_best(vessels):
    vessels.execute(
        REGISTER + "'name', p_canonical_exprs => array['imo'],"
        " p_short_exprs => array['left(name, 3)'], p_alias_exprs => array['aliases', 'imo'],"
        " p_code_exprs => array['imo'])"
    )
    vessels.execute(
        "insert into harbour.vessels (id, name, imo, aliases)"
        " values (1, 'Dawn', '93', array['DAW', 'Old Dawn', '', null, 'dawn', 'ÉCLAIR'])"
    )
    assert vessels.execute(
        "select key, kind, is_name from aiq.node_keys order by 1"
    ).fetchall() == [
        ("93", "canonical", False),
        ("daw", "short", True),
        ("dawn", "canonical", True),
        ("old dawn", "alias", True),
        ("éclair", "alias", True),
    ]


@pytest.mark.parametrize(
    "text", ["a  b", " a", "a ", "A\tB", "a\u00a0b", "Ünï  C", "x~!  ", "\n", "Ab c"]
)
def test_keys_fold_as_everywhere(vessels, text):
    vessels.execute(REGISTER + "'name')")
    vessels.execute("insert into harbour.vessels (id, name) values (1, %s)", [text])
    folded = vessels.execute("select aiq.fold_key(%s)", [text]).fetchone()[0]
    assert active(vessels)["1"] == ({folded} if folded else set())


def test_a_null_key_is_no_key(vessels):
    vessels.execute(REGISTER + "'name', p_alias_exprs => '{imo}')")
    vessels.execute("insert into harbour.vessels (id, imo) values (1, '93')")
    assert active(vessels) == {"1": {"93"}}
    vessels.execute("update harbour.vessels set name = 'Dawn', imo = null")
    assert active(vessels) == {"1": {"dawn"}}


def test_scope_follows_the_row(vessels):
    owner = "e0000000-0000-0000-0000-00000000000a"
    vessels.execute(
        REGISTER + "'name', null, 'org', p_visibility_expr => $$case when imo is null then 'org'"
        f" else imo end$$, p_owner_expr => $${owner!r}$$)"
    )
    vessels.execute(
        "insert into harbour.vessels (id, name, imo, org)"
        " values (1, 'a', null, %s), (2, 'a', null, %s), (3, 'a', null, null),"
        " (4, 'a', 'private', %s), (5, 'a', 'public', %s)",
        [LINE, SHIPPING, LINE, LINE],
    )
    private = vessels.execute("select rbac.private_audience(%s)", [owner]).fetchone()[0]
    audiences = (
        "select n.source_pk, n.audience::text, k.audience::text from aiq.nodes as n"
        " join aiq.node_keys as k on k.node_id = n.id order by n.source_pk"
    )
    assert vessels.execute(audiences).fetchall() == [
        ("1", LINE, LINE),
        ("2", SHIPPING, SHIPPING),
        ("3", None, None),
        ("4", str(private), str(private)),
        ("5", None, None),
    ]
    vessels.execute("update harbour.vessels set org = %s where id = 1", [SHIPPING])
    assert vessels.execute(audiences).fetchone() == ("1", SHIPPING, SHIPPING)


def test_handle_numbers_are_the_registrations(vessels):
    vessels.execute(REGISTER + "'name', p_number_expr => 'number')")
    vessels.execute(
        "insert into harbour.vessels (id, name, number) values (1, 'a', 700), (2, 'b', null)"
    )
    handles = dict(vessels.execute("select source_pk, handle from aiq.nodes_api").fetchall())
    assert handles == {"1": "VSL-700", "2": f"VSL-{ids(vessels)['2']}"}
    error = refused(
        vessels,
        "insert into harbour.vessels (id, name, number) values (3, 'c', 700)",
        "22023",
        "row 3 of harbour.vessels",
        '"vessel"',
        "handle number 700",
    )
    assert error.diag.message_hint


def test_a_row_that_takes_over_a_handle_number_takes_over_the_node(vessels):
    vessels.execute(REGISTER + "'name', p_number_expr => 'number')")
    vessels.execute("insert into harbour.vessels (id, name, number) values (1, 'a', 700)")
    before = ids(vessels)["1"]
    vessels.execute("update harbour.vessels set id = 2")
    assert ids(vessels) == {"2": before}
    vessels.execute("delete from harbour.vessels")
    vessels.execute("insert into harbour.vessels (id, name, number) values (9, 'b', 700)")
    assert ids(vessels) == {"9": before}
    assert active(vessels) == {"9": {"b"}}


def test_ids_pass_by_handle_numbers_that_are_taken(vessels):
    vessels.execute("select setval('aiq.nodes_id_seq', 100000)")
    vessels.execute(
        "insert into aiq.nodes (entity_type, handle_number)"
        " select 'vessel', i from generate_series(100001, 100050) as i"
    )
    vessels.execute("select setval('aiq.nodes_id_seq', 100000)")
    vessels.execute("update aiq.nodes set id = id + 1000000")
    vessels.execute(REGISTER + "'name')")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a'), (2, 'b')")
    assert set(active(vessels)) >= {"1", "2"}


def test_registering_again_replaces_everything(vessels):
    vessels.execute(
        "insert into harbour.vessels (id, name, imo, status) values (1, 'a', '9', 'scrapped')"
    )
    vessels.execute(
        REGISTER + "'name', 'imo', null, 'true', p_alias_exprs => '{imo}', p_code_exprs => '{imo}')"
    )
    before = ids(vessels)
    row = vessels.execute(REGISTER + "'name')").fetchone()
    assert row == ("harbour.vessels", 0, 1, 0, 0, 1)
    assert active(vessels) == {"1": {"a"}}
    assert vessels.execute("select summary from aiq.nodes_api").fetchall() == [(None,)]
    vessels.execute(REGISTER + "'name', p_include_where => $$status <> 'scrapped'$$)")
    assert active(vessels) == {}
    vessels.execute(REGISTER + "'name')")
    assert active(vessels) == {"1": {"a"}}
    assert ids(vessels) == before


def test_one_table_gives_several_types_and_one_type_has_several_tables(vessels):
    vessels.execute("create table harbour.boats (id int primary key, label text)")
    vessels.execute(REGISTER + "'name')")
    vessels.execute("select aiq.register_entity_table('operator', 'harbour.vessels', 'imo')")
    vessels.execute("select aiq.register_entity_table('vessel', 'harbour.boats', 'label')")
    vessels.execute("insert into harbour.vessels (id, name, imo) values (1, 'a', '9')")
    vessels.execute("insert into harbour.boats values (1, 'b')")
    assert vessels.execute(
        "select entity_type, source_table, key from aiq.nodes_api order by 1, 2"
    ).fetchall() == [
        ("operator", "harbour.vessels", "9"),
        ("vessel", "harbour.boats", "b"),
        ("vessel", "harbour.vessels", "a"),
    ]
    assert [row[0] for row in vessels.execute("select * from aiq.rebuild('vessel')")] == [
        "harbour.vessels",
        "harbour.boats",
    ]


# What is done to the table


def test_every_way_of_writing_is_followed(vessels):
    vessels.execute(REGISTER + "'name', null, null, $$status = 'in_service'$$)")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a'), (2, 'b')")
    with vessels.cursor().copy("copy harbour.vessels (id, name) from stdin") as copy:
        copy.write("3\tc\n4\td\n")
    vessels.execute(
        "insert into harbour.vessels (id, name) values (1, 'A2'), (5, 'e')"
        " on conflict (id) do update set name = excluded.name"
    )
    vessels.execute(
        "insert into harbour.vessels (id, name) values (2, 'no') on conflict do nothing"
    )
    vessels.execute(
        "merge into harbour.vessels as v"
        " using (values (2, 'B2'), (3, null), (6, 'f')) as w (id, name)"
        " on v.id = w.id when matched and w.name is null then delete"
        " when matched then update set name = w.name"
        " when not matched then insert (id, name) values (w.id, w.name)"
    )
    vessels.execute("update harbour.vessels set status = 'scrapped' where id = 4")
    assert active(vessels) == {"1": {"a2"}, "2": {"b2"}, "5": {"e"}, "6": {"f"}}
    vessels.execute("delete from harbour.vessels where id = 5")
    assert active(vessels) == {"1": {"a2"}, "2": {"b2"}, "6": {"f"}}
    vessels.execute("truncate harbour.vessels")
    assert active(vessels) == {}


def test_a_retired_node_keeps_its_row_and_keys_and_comes_back_the_same(vessels):
    vessels.execute(REGISTER + "'name', null, null, $$status = 'in_service'$$)")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    before = ids(vessels)
    vessels.execute("delete from harbour.vessels")
    assert vessels.execute(
        "select retired_at is not null from aiq.nodes"
        " union all select retired_at is not null from aiq.node_keys"
    ).fetchall() == [(True,), (True,)]
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'b')")
    assert ids(vessels) == before
    assert active(vessels) == {"1": {"b"}}
    vessels.execute("update harbour.vessels set status = 'scrapped'")
    assert active(vessels) == {}
    vessels.execute("update harbour.vessels set status = 'in_service'")
    assert active(vessels) == {"1": {"b"}}
    assert ids(vessels) == before


def test_changed_and_exchanged_primary_keys(vessels):
    vessels.execute("alter table harbour.vessels drop constraint vessels_pkey")
    vessels.execute("alter table harbour.vessels add primary key (id) deferrable")
    vessels.execute(REGISTER + "'name')")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a'), (2, 'b')")
    vessels.execute("update harbour.vessels set id = 3 - id")
    assert active(vessels) == {"1": {"b"}, "2": {"a"}}
    vessels.execute("update harbour.vessels set id = 7 where id = 1")
    assert active(vessels) == {"7": {"b"}, "2": {"a"}}


def test_what_other_triggers_write_in_between_is_read(vessels):
    vessels.execute(REGISTER + "'name')")
    vessels.execute(
        """
        create function harbour.louder() returns trigger language plpgsql as $$
        begin
            if tg_op = 'DELETE' then
                insert into harbour.vessels (id, name) values (old.id, 'undead');
            else
                update harbour.vessels set name = name || '!' where id = new.id;
            end if;
            return null;
        end $$;
        create trigger louder after insert or delete on harbour.vessels
        for each row execute function harbour.louder();
        """
    )
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    assert active(vessels) == {"1": {"a!"}}
    vessels.execute("delete from harbour.vessels")
    assert active(vessels) == {"1": {"undead!"}}


def test_cascading_deletes_are_followed(vessels):
    vessels.execute("create table harbour.fleets (id int primary key)")
    vessels.execute(
        "alter table harbour.vessels add fleet int references harbour.fleets on delete cascade"
    )
    vessels.execute(REGISTER + "'name')")
    vessels.execute("insert into harbour.fleets values (1)")
    vessels.execute(
        "insert into harbour.vessels (id, name, fleet) values (1, 'a', 1), (2, 'b', null)"
    )
    vessels.execute("delete from harbour.fleets")
    assert active(vessels) == {"2": {"b"}}


def test_ten_thousand_rows_cost_one_insert_each(vessels):
    vessels.execute(
        """
        create table harbour.counted (name text, event text);
        create function harbour.count() returns trigger language plpgsql security definer as $$
        begin insert into harbour.counted values (tg_table_name, tg_op); return null; end $$;
        grant insert on harbour.counted to public;
        create trigger counting after insert or update or delete on aiq.nodes
        for each statement execute function harbour.count();
        create trigger counting after insert or update or delete on aiq.node_keys
        for each statement execute function harbour.count();
        """
    )
    vessels.execute(REGISTER + "'name', p_alias_exprs => '{imo}')")
    vessels.execute("truncate harbour.counted")
    vessels.execute(
        "insert into harbour.vessels (id, name, imo)"
        " select i, 'Ship ' || i, 'IMO' || i from generate_series(1, 10000) as i"
    )
    counts = dict(
        vessels.execute(
            "select name, count(*) from harbour.counted where event = 'INSERT' group by name"
        ).fetchall()
    )
    assert counts == {"nodes": 1, "node_keys": 1}
    assert vessels.execute("select count(*) from aiq.node_keys").fetchone() == (20000,)
    vessels.execute("drop function harbour.count() cascade")


def test_rows_that_say_the_same_write_nothing(vessels):
    vessels.execute(REGISTER + "'name', 'imo', p_alias_exprs => '{imo}')")
    vessels.execute(
        "insert into harbour.vessels (id, name, imo)"
        " select i, 'n' || i, i from generate_series(1, 50) as i"
    )
    versions = "select (select array_agg(xmin::text || ctid::text) from {}) from (select 1) as o"
    look = [versions.format(table) for table in ("aiq.nodes", "aiq.node_keys")]
    before = [vessels.execute(query).fetchone() for query in look]
    last_id = vessels.execute("select last_value from aiq.nodes_id_seq").fetchone()
    vessels.execute("update harbour.vessels set status = 'laid up', name = upper(name)")
    vessels.execute("select aiq.rebuild('vessel')")
    assert [vessels.execute(query).fetchone() for query in look] == before
    assert vessels.execute("select last_value from aiq.nodes_id_seq").fetchone() == last_id


# Tables of every shape


def test_partitions_written_directly_and_through_the_parent(db):
    db.execute(
        """
        create table harbour.calls (port text, id int, name text, primary key (port, id))
            partition by list (port);
        create table harbour.calls_a partition of harbour.calls for values in ('a');
        create table harbour.calls_b (
            name text, extra_gone int, id int not null, port text not null
        );
        alter table harbour.calls_b drop extra_gone;
        alter table harbour.calls attach partition harbour.calls_b for values in ('b');
        """
    )
    db.execute("select aiq.register_entity_table('vessel', 'harbour.calls', 'name')")
    db.execute("insert into harbour.calls values ('a', 1, 'p1'), ('b', 2, 'p2')")
    db.execute("insert into harbour.calls_b (port, id, name) values ('b', 3, 'direct')")
    assert active(db) == {"(a,1)": {"p1"}, "(b,2)": {"p2"}, "(b,3)": {"direct"}}
    db.execute("update harbour.calls_b set name = 'x' where id = 3")
    db.execute("update harbour.calls set port = 'a' where id = 2")
    assert active(db) == {"(a,1)": {"p1"}, "(a,2)": {"p2"}, "(b,3)": {"x"}}
    assert {row[0] for row in db.execute("select source_table from aiq.nodes")} == {"harbour.calls"}
    db.execute("truncate harbour.calls_a")
    assert active(db) == {"(b,3)": {"x"}}
    with db.cursor().copy("copy harbour.calls_a from stdin") as copy:
        copy.write("a\t9\tcopied\n")
    db.execute("delete from harbour.calls_b")
    assert active(db) == {"(a,9)": {"copied"}}
    db.execute("truncate harbour.calls")
    assert active(db) == {}


def test_partitions_of_partitions(db):
    db.execute(
        """
        create table harbour.t (id int primary key, name text) partition by range (id);
        create table harbour.t1 partition of harbour.t for values from (0) to (100)
            partition by range (id);
        create table harbour.t11 partition of harbour.t1 for values from (0) to (50);
        """
    )
    db.execute("select aiq.register_entity_table('vessel', 'harbour.t', 't.name')")
    db.execute("insert into harbour.t11 values (1, 'leaf')")
    db.execute("insert into harbour.t1 values (2, 'middle')")
    db.execute("insert into harbour.t values (3, 'top')")
    assert active(db) == {"1": {"leaf"}, "2": {"middle"}, "3": {"top"}}
    refused(
        db,
        "select aiq.register_entity_table('vessel', 'harbour.t1', 'name')",
        "22023",
        "part of another table",
    )


def test_inheritance_children(db):
    db.execute(
        """
        create table harbour.parent (id int primary key, name text);
        create table harbour.child (extra int, primary key (id)) inherits (harbour.parent);
        """
    )
    db.execute("select aiq.register_entity_table('vessel', 'harbour.parent', 'name')")
    db.execute("insert into harbour.parent values (1, 'p')")
    db.execute("insert into harbour.child values (2, 'c', 5)")
    assert active(db) == {"1": {"p"}, "2": {"c"}}
    db.execute("update harbour.parent set name = name || 'x'")
    assert active(db) == {"1": {"px"}, "2": {"cx"}}
    db.execute("insert into harbour.child values (1, 'twin', 5)")
    assert len(active(db)) == 2
    db.execute("delete from only harbour.parent")
    assert active(db) == {"1": {"twin"}, "2": {"cx"}}
    db.execute("truncate only harbour.parent")
    assert active(db) == {"1": {"twin"}, "2": {"cx"}}
    db.execute("delete from harbour.parent where id = 2")
    assert active(db) == {"1": {"twin"}}


def test_quoted_names_and_keys_of_several_columns(db):
    db.execute(
        """
        create schema "Ha rb";
        create table "Ha rb"."Ships ""of"" 'line'" (
            "Ship No" int, "select" text, "Na'me" text, primary key ("Ship No", "select")
        );
        insert into "Ha rb"."Ships ""of"" 'line'" values (1, 'x, "y"', 'First');
        """
    )
    try:
        db.execute('grant usage on schema "Ha rb" to aiq_engine')
        db.execute(
            """
            select aiq.register_entity_table(
                'vessel', '"Ha rb"."Ships ""of"" ''line''"', '"Na''me" -- its name',
                '"Ships ""of"" ''line''"."Na''me"', p_include_where => '"Ship No" > 0'
            )
            """
        )
        db.execute("""insert into "Ha rb"."Ships ""of"" 'line'" values (2, '', 'Second')""")
        assert list(active(db).values()) == [{"first"}, {"second"}]
        db.execute("""delete from "Ha rb"."Ships ""of"" 'line'" where "Ship No" = 1""")
        assert list(active(db).values()) == [{"second"}]
        db.execute("""truncate "Ha rb"."Ships ""of"" 'line'" """)
        assert active(db) == {}
        db.execute("""drop table "Ha rb"."Ships ""of"" 'line'" """)
        problems = db.execute("select problem, remedy from aiq.registration_problems()").fetchall()
        assert [row[0] for row in problems] == ["the table is no longer there"]
        db.execute(problems[0][1])
        assert db.execute("select * from aiq.registration_problems()").fetchall() == []
    finally:
        db.execute('drop schema "Ha rb" cascade')


def test_keys_of_types_whose_operators_lie_elsewhere(db):
    db.execute("create extension if not exists citext schema harbour")
    db.execute("create table harbour.c (code harbour.citext primary key, name text)")
    db.execute("grant usage on schema harbour to aiq_engine")
    db.execute("select aiq.register_entity_table('vessel', 'harbour.c', 'name')")
    db.execute("insert into harbour.c values ('Ab', 'one')")
    db.execute("update harbour.c set name = 'two'")
    assert active(db) == {"Ab": {"two"}}


# Refusals


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "words"),
    [
        ("'nmae')", "22023", ["p_key_expr", "nmae", "does not exist"]),
        ("'')", "22023", ["p_key_expr", "it is empty"]),
        ("'name || pg_temp.f()')", "22023", ["p_key_expr", "it names pg_temp"]),
        ("null)", "22023", ["p_key_expr is null"]),
        ("'name', 'name; drop table harbour.vessels')", "22023", ["p_summary_expr"]),
        (
            "'name) from harbour.vessels; delete from harbour.vessels; select (1')",
            "22023",
            ["p_key_expr"],
        ),
        ("'max(name)')", "22023", ["aggregate"]),
        ("'unnest(aliases)')", "22023", ["set-returning"]),
        ("'row_number() over ()')", "22023", ["window"]),
        ("'name', null, 'name || 1')", "22023", []),
        ("'name', null, 'id')", "22023", ["p_org_expr", "cannot cast type integer to uuid"]),
        ("'name', p_include_where => 'aliases')", "22023", ["p_include_where"]),
        ("'name', p_code_exprs => '{imo}')", "22023", ["p_code_exprs", "imo"]),
        ("'name', p_alias_exprs => array[null])", "22023", ["p_alias_exprs holds null"]),
        ("'name', p_number_expr => 'status')", "22023", ["row 2 of harbour.vessels", "in_service"]),
        (
            "'name', '1 / (id - 3)')",
            "22023",
            ["row 3 of harbour.vessels", '"vessel"', "division by zero"],
        ),
        ("'name', p_visibility_expr => 'name')", "22023", ["row ", "public, org or private"]),
        ("'repeat(name, 2001)')", "22023", ["row ", "longer than 2000"]),
        ("'tableoid::text')", "22023", ["tableoid"]),
    ],
)
def test_expressions_that_do_not_hold_are_refused_and_nothing_is_left(
    vessels, arguments, sqlstate, words
):
    vessels.execute(
        "insert into harbour.vessels (id, name) values (2, 'a'), (3, 'b'), (4, 'c');"
        "update harbour.vessels set status = case id when 2 then 'in_service' else '7' end"
    )
    error = refused(vessels, REGISTER + arguments, sqlstate, *words)
    assert error.diag.message_hint
    assert vessels.execute("select count(*) from aiq.entity_tables").fetchone() == (0,)
    assert vessels.execute(
        "select count(*) from pg_trigger where tgrelid = 'harbour.vessels'::regclass"
    ).fetchone() == (0,)
    assert vessels.execute("select count(*) from harbour.vessels").fetchone() == (3,)
    assert active(vessels) == {}


@pytest.mark.parametrize(
    ("statement", "sqlstate", "message"),
    [
        ("select aiq.unregister_entity_table('vessel', 'harbour.vessels')", "42704",
         'harbour.vessels is not registered as nodes of type "vessel"'),
        ("select aiq.unregister_entity_table(null, 'harbour.vessels')", "42704",
         "harbour.vessels is not registered as nodes of type null"),
        ("select aiq.rebuild('vessel')", "42704",
         'no table is registered as nodes of type "vessel"'),
        ("select aiq.rebuild('boat')", "42704", 'there is no entity type "boat"'),
        ("select aiq.rebuild(null)", "42704", "there is no entity type null"),
        ("select aiq.bulk('harbour.vessels', true)", "42704",
         "harbour.vessels is not a registered table"),
        ("select aiq.bulk(null, true)", "42704", "there is no table null"),
        (REGISTER + "'name', p_configuration => null)", "22023",
         "p_configuration is null, but must be a text search configuration"),
        ("insert into aiq.registration_requests (action, source, arguments)"
         " values ('dance', 'harbour.vessels', '{}')", "22023", 'there is no request "dance"'),
    ],
)  # fmt: skip
def test_what_is_not_registered_is_refused_by_name(vessels, statement, sqlstate, message):
    error = refused(vessels, statement, sqlstate)
    assert error.diag.message_primary == message
    assert error.diag.message_hint


def test_a_schema_that_is_closed_to_the_engine_is_named_with_the_grant(vessels):
    vessels.execute("revoke usage on schema harbour from public, aiq_engine")
    error = refused(vessels, REGISTER + "'name')", "42501")
    assert error.diag.message_primary == "aiq_engine may not use the schema of harbour.vessels"
    assert error.diag.message_hint == "grant usage on schema harbour to aiq_engine;"
    vessels.execute(error.diag.message_hint)
    vessels.execute(REGISTER + "'name')")


def test_tables_that_cannot_be_registered(db):
    db.execute(
        "create table harbour.keyless (name text); create view harbour.seen as select 1 as id;"
        "create temporary table passing (id int primary key, name text)"
    )
    error = refused(
        db,
        "select aiq.register_entity_table('vessel', 'harbour.keyless', 'name')",
        "22023",
        "harbour.keyless has no primary key",
    )
    assert "add primary key" in error.diag.message_hint
    for table in ("harbour.seen", "passing", "aiq.nodes", "pg_class"):
        refused(db, f"select aiq.register_entity_table('vessel', '{table}', 'id')", "22023")
    refused(db, "select aiq.register_entity_table('vessel', null, 'id')", "42704")
    refused(db, "select aiq.register_entity_table('ship', 'harbour.keyless', 'name')", "22023")


def test_an_unknown_type_is_refused(vessels):
    error = refused(
        vessels, REGISTER.replace("'vessel'", "'ship'") + "'name')", "42704", 'entity type "ship"'
    )
    assert "vessel" in error.diag.message_hint
    refused(vessels, "select aiq.rebuild('ship')", "42704", '"ship"')
    refused(vessels, "select aiq.rebuild('vessel')", "42704", "no table")
    refused(vessels, "select aiq.bulk('harbour.vessels', true)", "42704", "not a registered table")
    refused(vessels, "select aiq.unregister_entity_table('vessel', 'harbour.vessels')", "42704")


def test_a_row_that_fails_later_fails_the_writer_alone(vessels):
    vessels.execute(REGISTER + "'name', '100 / id')")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    error = refused(
        vessels,
        "insert into harbour.vessels (id, name) select i, 'n' from generate_series(-3, 0) as i",
        "22023",
        "the row 0 of harbour.vessels",
        'type "vessel"',
        "division by zero",
    )
    assert "22012" in error.diag.message_detail
    assert vessels.execute("select count(*) from harbour.vessels").fetchone() == (1,)
    assert active(vessels) == {"1": {"a"}}


def test_hidden_rows_are_refused_until_the_engine_sees_them(vessels):
    vessels.execute("alter table harbour.vessels enable row level security")
    error = refused(vessels, REGISTER + "'name')", "55000", "row security hides rows")
    vessels.execute(error.diag.message_hint)
    vessels.execute(REGISTER + "'name')")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    assert active(vessels) == {"1": {"a"}}


# Who may


def test_only_the_owner_or_a_superuser_registers(vessels):
    vessels.execute(f"alter table harbour.vessels owner to {OWNER}")
    vessels.execute(f"grant select, insert, update, trigger on harbour.vessels to {OTHER}")
    calls = [
        REGISTER + "'name')",
        "select aiq.unregister_entity_table('vessel', 'harbour.vessels')",
        "select aiq.rebuild('vessel')",
        "select aiq.bulk('harbour.vessels', true)",
    ]
    with acting_as(vessels, OTHER):
        refused(vessels, calls[0], "42501", OTHER, "harbour.vessels")
    with acting_as(vessels, OWNER):
        vessels.execute(calls[0])
    for call in calls:
        with acting_as(vessels, OTHER):
            error = refused(vessels, call, "42501", OTHER, "not the owner of harbour.vessels")
            assert OWNER in error.diag.message_hint
    with acting_as(vessels, OWNER):
        vessels.execute(calls[3])
        vessels.execute("select aiq.bulk('harbour.vessels', false)")
        vessels.execute(calls[2])
        vessels.execute(calls[1])


def test_of_a_table_that_is_gone_the_registrant_speaks(vessels):
    vessels.execute(f"alter table harbour.vessels owner to {OWNER}")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    with acting_as(vessels, OWNER):
        vessels.execute(REGISTER + "'name')")
    vessels.execute("drop table harbour.vessels")
    release = vessels.execute("select remedy from aiq.registration_problems()").fetchone()[0]
    with acting_as(vessels, OTHER):
        for call in (release, "select aiq.rebuild('vessel')"):
            error = refused(vessels, call, "42501", OTHER, "harbour.vessels")
            assert OWNER in error.diag.message_hint
    assert active(vessels) == {"1": {"a"}}
    with acting_as(vessels, OWNER):
        vessels.execute("select aiq.rebuild('vessel')")
        assert vessels.execute(release).fetchone() == (0,)
    assert active(vessels) == {}


def test_an_owner_needs_the_grant(vessels):
    vessels.execute(
        f"alter table harbour.vessels owner to {WRITER}; grant authenticated to {WRITER}"
    )
    try:
        with acting_as(vessels, WRITER):
            error = refused(vessels, REGISTER + "'name')", "42501", WRITER)
        assert "aiq.registration_requests" in error.diag.message_hint
    finally:
        vessels.execute(f"revoke authenticated from {WRITER}")


@pytest.mark.parametrize("role", ["authenticated", "aiq_worker", "web_anon"])
def test_callers_cannot_register(db, role):
    db.execute(
        f"create table harbour.mine (id int primary key); alter table harbour.mine owner to {role}"
    )
    with acting_as(db, role):
        refused(db, "select aiq.register_entity_table('vessel', 'harbour.mine', 'id')", "42501")


def test_a_request_cannot_name_somebody_elses_table_nor_say_who_asks(vessels):
    vessels.execute(REGISTER + "'name')")
    with acting_as(vessels, OTHER):
        for action in ("register_entity", "unregister_entity", "bulk", "rebuild", "rebuild_links"):
            refused(
                vessels,
                "insert into aiq.registration_requests"
                " (action, source, sources, requested_by, arguments)"
                f" values ('{action}', 'harbour.vessels', '{{}}', 'postgres',"
                """ '{"entity_type": "vessel", "key_expr": "(select 1)", "on": true}')""",
                "42501",
            )


def test_the_parts_that_run_as_the_engine_cannot_be_called(db):
    callable_by = db.execute(
        """
        select p.oid::regprocedure::text, r.rolname
        from pg_proc as p, pg_roles as r
        where p.pronamespace = 'aiq'::regnamespace
            and p.proowner = 'aiq_engine'::regrole
            and r.rolname in ('authenticated', 'web_anon', %s, %s)
            and has_function_privilege(r.oid, p.oid, 'execute')
        """,
        [OTHER, OWNER],
    ).fetchall()
    assert callable_by == []


def test_an_expression_of_a_non_owner_never_runs(vessels):
    vessels.execute("create table harbour.ran (who text); grant all on harbour.ran to public")
    vessels.execute(
        "create function harbour.run() returns text language sql volatile as"
        " $$insert into harbour.ran values (current_user) returning who$$"
    )
    with acting_as(vessels, OTHER):
        refused(vessels, REGISTER + "'harbour.run()')", "42501")
    assert vessels.execute("select * from harbour.ran").fetchall() == []


def test_writers_need_no_grants_of_ours(vessels):
    vessels.execute(REGISTER + "'name')")
    vessels.execute(f"grant insert, update (name), delete, truncate on harbour.vessels to {WRITER}")
    vessels.execute(f"grant select (id) on harbour.vessels to {WRITER}")
    with acting_as(vessels, WRITER):
        vessels.execute("insert into harbour.vessels (id, name) values (1, 'a'), (2, 'b')")
        vessels.execute("update harbour.vessels set name = 'c' where id = 1")
        vessels.execute("delete from harbour.vessels where id = 2")
        refused(vessels, "select * from aiq.nodes", "42501")
    assert active(vessels) == {"1": {"c"}}
    with acting_as(vessels, WRITER):
        vessels.execute("truncate harbour.vessels")
    assert active(vessels) == {}


def test_the_writers_session_does_not_decide_what_is_read(vessels):
    vessels.execute("alter table harbour.vessels add built date, add path text")
    vessels.execute(
        REGISTER + r"""'lower(name)', 'built::text || E'''' || replace(path, ''\'', ''/'')')"""
    )
    vessels.execute(f"grant all on harbour.vessels to {WRITER}")
    with acting_as(vessels, WRITER):
        vessels.execute(
            """
            create function pg_temp.lower(text) returns text language sql as $$select 'stolen'$$;
            create temporary table vessels (id int primary key, name text);
            create temporary table nodes (id bigint);
            create temporary table pg_class (oid oid);
            create temporary table touched (id int);
            insert into vessels values (1, 'temporary');
            set search_path = pg_temp, harbour, pg_catalog;
            set datestyle = 'German'; set timezone = 'Asia/Tokyo'; set intervalstyle = 'iso_8601';
            set standard_conforming_strings = off; set row_security = off;
            set quote_all_identifiers = on; set transform_null_equals = on;
            """
        )
        vessels.execute(
            "insert into harbour.vessels (id, name, built, path)"
            r" values (1, 'A', '2020-02-01', E'x\\y')"
        )
    vessels.execute("discard all")
    assert active(vessels) == {"1": {"a"}}
    assert vessels.execute("select summary from aiq.nodes_api").fetchall() == [("2020-02-01x/y",)]


def test_temporary_objects_of_the_registrant_take_no_part(vessels):
    vessels.execute(
        "create temporary table lookup_name as select 'x'::text as v;"
        "grant select on lookup_name to public;"
        "create function pg_temp.shout(text) returns text language sql as $$select upper($1)$$"
    )
    for expression in (
        "(select v from lookup_name)",
        "pg_temp.shout(name)",
        "(select v from pg_temp.lookup_name)",
    ):
        refused(vessels, REGISTER + f"$${expression}$$)", "22023", "p_key_expr", "temporary")
    vessels.execute(REGISTER + "'name')")


# Stopping, pausing, mending


def test_unregistering_retires_and_lets_go(vessels):
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    vessels.execute(REGISTER + "'name')")
    before = ids(vessels)
    assert vessels.execute(
        "select aiq.unregister_entity_table('vessel', 'harbour.vessels')"
    ).fetchone() == (1,)
    assert active(vessels) == {}
    assert ids(vessels) == before
    assert vessels.execute(
        "select count(*) from pg_trigger where tgrelid = 'harbour.vessels'::regclass"
    ).fetchone() == (0,)
    assert vessels.execute(
        "select has_table_privilege('aiq_engine', 'harbour.vessels', 'select')"
    ).fetchone() == (False,)
    vessels.execute("insert into harbour.vessels (id, name) values (2, 'b')")
    vessels.execute(REGISTER + "'name')")
    assert active(vessels) == {"1": {"a"}, "2": {"b"}}
    assert ids(vessels)["1"] == before["1"]


def test_bulk_pauses_and_one_pass_catches_up(vessels):
    vessels.execute(REGISTER + "'name')")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a'), (2, 'b')")
    vessels.execute("select aiq.bulk('harbour.vessels', true)")
    vessels.execute("insert into harbour.vessels (id, name) values (3, 'c')")
    vessels.execute("delete from harbour.vessels where id = 1")
    assert active(vessels) == {"1": {"a"}, "2": {"b"}}
    problem = vessels.execute("select problem, remedy from aiq.registration_problems()").fetchall()
    assert len(problem) == 1
    assert "aiq.bulk was left on" in problem[0][0]
    vessels.execute(problem[0][1])
    assert active(vessels) == {"2": {"b"}, "3": {"c"}}
    vessels.execute("insert into harbour.vessels (id, name) values (4, 'd')")
    assert "4" in active(vessels)
    assert vessels.execute("select * from aiq.registration_problems()").fetchall() == []
    refused(vessels, "select aiq.bulk('harbour.vessels', null)", "22023", "p_on is null")


def test_rebuild_mends_whatever_went_unnoticed(vessels):
    vessels.execute(REGISTER + "'name')")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a'), (2, 'b'), (3, 'c')")
    vessels.execute("set session_replication_role = replica")
    vessels.execute("insert into harbour.vessels (id, name) values (4, 'd')")
    vessels.execute("update harbour.vessels set name = 'B' || name where id = 2")
    vessels.execute("delete from harbour.vessels where id = 1")
    vessels.execute("set session_replication_role = origin")
    assert vessels.execute("select * from aiq.rebuild('vessel')").fetchall() == [
        ("harbour.vessels", 1, 0, 1, 2, 1)
    ]
    assert active(vessels) == {"2": {"bb"}, "3": {"c"}, "4": {"d"}}
    assert vessels.execute("select * from aiq.rebuild('vessel')").fetchall() == [
        ("harbour.vessels", 0, 0, 0, 0, 0)
    ]


def test_rebuild_waits_for_writers(vessels, installed):
    vessels.execute(REGISTER + "'name')")
    with psycopg.connect(installed) as writer:
        writer.execute("insert into harbour.vessels (id, name) values (1, 'a')")
        vessels.execute("set lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            vessels.execute("select aiq.rebuild('vessel')")
        vessels.execute("reset lock_timeout")
    vessels.execute("select aiq.rebuild('vessel')")
    assert active(vessels) == {"1": {"a"}}


def problems(db):
    return db.execute("select problem, remedy from aiq.registration_problems()").fetchall()


def test_problems_each_come_with_the_statement_that_mends_them(db):
    db.execute(
        """
        create table harbour.t (id int primary key, name text) partition by range (id);
        create table harbour.t1 partition of harbour.t for values from (0) to (100);
        """
    )
    db.execute(
        "select aiq.register_entity_table('vessel', 'harbour.t', 'name', $$name || '''x'$$,"
        " p_alias_exprs => array['left(name, 1)'])"
    )
    assert problems(db) == []
    db.execute(
        "create table harbour.t2 (id int not null, name text);"
        "insert into harbour.t2 values (150, 'late')"
    )
    db.execute("alter table harbour.t attach partition harbour.t2 for values from (100) to (200)")
    found = problems(db)
    assert len(found) == 1
    assert "harbour.t2 was attached later" in found[0][0]
    db.execute(found[0][1])
    assert active(db) == {"150": {"late", "l"}}
    assert problems(db) == []
    db.execute("insert into harbour.t2 values (151, 'm')")
    assert "151" in active(db)
    db.execute("alter table harbour.t1 disable trigger graphalgo_update")
    found = problems(db)
    assert [text for text, _ in found] == ["triggers on harbour.t1 are disabled"]
    db.execute(found[0][1])
    db.execute("drop trigger graphalgo_delete on harbour.t")
    found = problems(db)
    assert [text for text, _ in found] == ["harbour.t has lost triggers"]
    db.execute(found[0][1])
    db.execute("alter table harbour.t detach partition harbour.t2")
    found = problems(db)
    assert [text for text, _ in found] == ["harbour.t2 is no longer a part of it"]
    db.execute("insert into harbour.t2 values (160, 'apart')")
    db.execute(found[0][1])
    assert active(db) == {}
    assert problems(db) == []
    db.execute("revoke select on harbour.t from aiq_engine")
    db.execute(problems(db)[0][1])
    assert problems(db) == []


def test_a_table_that_is_dropped_or_made_anew_or_renamed(vessels):
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    vessels.execute(REGISTER + "'vessels.name')")
    before = ids(vessels)
    vessels.execute("drop table harbour.vessels")
    vessels.execute(VESSELS)
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'b')")
    found = problems(vessels)
    assert [text for text, _ in found] == ["the table has been made anew and has no triggers"]
    vessels.execute(found[0][1])
    assert active(vessels) == {"1": {"b"}}
    assert ids(vessels) == before
    vessels.execute("alter table harbour.vessels rename to ships")
    vessels.execute("insert into harbour.ships (id, name) values (2, 'c')")
    assert active(vessels) == {"1": {"b"}, "2": {"c"}}
    assert [text for text, _ in problems(vessels)] == ["the table is now called harbour.ships"]
    vessels.execute("select aiq.register_entity_table('vessel', 'harbour.ships', 'name')")
    assert problems(vessels) == []
    assert ids(vessels)["1"] == before["1"]
    vessels.execute("drop table harbour.ships")
    found = problems(vessels)
    assert [text for text, _ in found] == ["the table is no longer there"]
    vessels.execute(found[0][1])
    assert active(vessels) == {}
    assert problems(vessels) == []


# Together


def test_two_writers_of_one_table_do_not_wait_for_each_other(vessels, installed):
    vessels.execute(REGISTER + "'name')")
    with psycopg.connect(installed) as one, psycopg.connect(installed) as two:
        one.execute("insert into harbour.vessels (id, name) values (1, 'a'), (4, 'd')")
        two.execute("set lock_timeout = '5s'")
        two.execute("insert into harbour.vessels (id, name) values (3, 'c'), (2, 'b')")
        one.execute("update harbour.vessels set name = 'a1' where id = 1")
        two.execute("update harbour.vessels set name = 'b1' where id = 2")
    assert active(vessels) == {"1": {"a1"}, "2": {"b1"}, "3": {"c"}, "4": {"d"}}


def test_writers_of_the_same_rows_end_in_step(vessels, installed):
    vessels.execute(REGISTER + "'name', null, null, $$status = 'in_service'$$)")
    failures = []

    def write(number):
        try:
            with psycopg.connect(installed, autocommit=True) as connection:
                for turn in range(25):
                    connection.execute(
                        "insert into harbour.vessels (id, name)"
                        " select i, %s from generate_series(1, 8) as i order by i"
                        " on conflict (id) do update set name = excluded.name,"
                        " status = case when excluded.id %% 3 = %s"
                        " then 'out' else 'in_service' end",
                        [f"w{number} {turn}", turn % 3],
                    )
                    connection.execute("delete from harbour.vessels where id = %s", [turn % 8 + 1])
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    expected = vessels.execute(
        "select id::text, name from harbour.vessels where status = 'in_service'"
    ).fetchall()
    assert active(vessels) == {key: {name} for key, name in expected}


def test_a_writer_that_waits_for_another_reads_what_it_left(vessels, installed):
    vessels.execute(REGISTER + "'name')")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    before = ids(vessels)
    with psycopg.connect(installed) as first:
        first.execute("delete from harbour.vessels where id = 1")

        def insert():
            with psycopg.connect(installed) as second:
                second.execute("insert into harbour.vessels (id, name) values (1, 'z')")

        thread = threading.Thread(target=insert)
        thread.start()
        time.sleep(0.3)
    thread.join()
    assert active(vessels) == {"1": {"z"}}
    assert ids(vessels) == before


def test_the_books_list_the_triggers_that_are_there(vessels):
    listed = (
        "select name from aiq.installed_objects where kind = 'trigger' and name like 'graphalgo%'"
    )
    vessels.execute(REGISTER + "'name')")
    assert {row[0] for row in vessels.execute(listed)} == {
        f"graphalgo_{event} on harbour.vessels"
        for event in ("insert", "update", "delete", "truncate")
    }
    vessels.execute("select aiq.unregister_entity_table('vessel', 'harbour.vessels')")
    assert vessels.execute(listed).fetchall() == []


def test_percent_signs_and_dollar_quotes_in_expressions(vessels):
    vessels.execute(REGISTER + """$x$name || ' 100%s %I $statement$ $$ %%'$x$)""")
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    assert active(vessels) == {"1": {"a 100%s %i $statement$ $$ %%"}}


def test_installing_again_keeps_registrations(vessels, installed):
    vessels.execute(REGISTER + "'name')")
    install(installed)
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    assert active(vessels) == {"1": {"a"}}
    assert problems(vessels) == []


# Handle numbers


def test_rows_may_exchange_their_handle_numbers(vessels):
    vessels.execute(REGISTER + "'name', p_number_expr => 'number')")
    vessels.execute(
        "insert into harbour.vessels (id, name, number)"
        " values (1, 'a', 7), (2, 'b', 8), (3, 'c', 9)"
    )
    before = ids(vessels)
    vessels.execute(
        "update harbour.vessels set number = case id when 1 then 8 when 2 then 7 end where id < 3"
    )
    handles = "select source_pk, handle from aiq.nodes_api order by 1"
    assert vessels.execute(handles).fetchall() == [("1", "VSL-8"), ("2", "VSL-7"), ("3", "VSL-9")]
    vessels.execute("update harbour.vessels set number = number + 1")
    assert vessels.execute(handles).fetchall() == [("1", "VSL-9"), ("2", "VSL-8"), ("3", "VSL-10")]
    assert ids(vessels) == before
    vessels.execute("select aiq.bulk('harbour.vessels', true)")
    vessels.execute("update harbour.vessels set number = 18 - number + 1")
    vessels.execute("select aiq.bulk('harbour.vessels', false)")
    assert vessels.execute(handles).fetchall() == [("1", "VSL-10"), ("2", "VSL-11"), ("3", "VSL-9")]
    assert ids(vessels) == before


def test_rows_of_one_handle_number_are_refused_by_name(vessels):
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a'), (2, 'b')")
    words = ("the row 2 of harbour.vessels", "handle number 1 is also that of the row 1")
    refused(vessels, REGISTER + "'name', p_number_expr => '1')", "22023", *words)
    vessels.execute("delete from harbour.vessels")
    vessels.execute(REGISTER + "'name', p_number_expr => '1')")
    insert = "insert into harbour.vessels (id, name) values (1, 'a'), (2, 'b')"
    refused(vessels, insert, "22023", *words)
    vessels.execute("insert into harbour.vessels (id, name) values (1, 'a')")
    refused(
        vessels,
        "insert into harbour.vessels (id, name) values (2, 'b')",
        "22023",
        "the row 2 of harbour.vessels",
        "handle number 1 is another node's, that of the row 1 of harbour.vessels",
    )


# A primary key that is lost


def test_a_primary_key_column_that_is_gone_is_named_with_a_remedy(vessels):
    vessels.execute("insert into harbour.vessels (id, name, imo) values (1, 'a', '93')")
    vessels.execute(REGISTER + "'name', p_alias_exprs => array['id'])")
    vessels.execute("alter table harbour.vessels drop column id")
    for statement in (
        "insert into harbour.vessels (name) values ('b')",
        "update harbour.vessels set name = 'c'",
        "delete from harbour.vessels",
        "truncate harbour.vessels",
    ):
        error = refused(
            vessels,
            statement,
            "55000",
            'harbour.vessels is read as nodes of type "vessel" by its primary key (id)',
            "has no column id any more",
        )
        assert "aiq.unregister_entity_table" in error.diag.message_hint
    found = problems(vessels)
    assert len(found) == 1
    assert "it has no column id any more" in found[0][0]
    vessels.execute(found[0][1])
    assert problems(vessels) == []
    vessels.execute("insert into harbour.vessels (name) values ('b')")


def test_a_primary_key_that_is_dropped_or_another_one_is_mended(vessels):
    vessels.execute("insert into harbour.vessels (id, name, imo) values (1, 'a', '93')")
    vessels.execute(REGISTER + "'name')")
    vessels.execute("alter table harbour.vessels drop constraint vessels_pkey")
    found = problems(vessels)
    assert [row[0] for row in found] == ["its primary key is gone"]
    vessels.execute(found[0][1])
    assert problems(vessels) == []
    vessels.execute("alter table harbour.vessels drop column id, add primary key (imo)")
    found = problems(vessels)
    assert len(found) == 1
    vessels.execute(found[0][1])
    assert problems(vessels) == []
    assert active(vessels) == {"93": {"a"}}
