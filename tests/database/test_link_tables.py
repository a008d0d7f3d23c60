"""Edges read from references and junction tables stay in step with them."""

from __future__ import annotations

import threading

import psycopg
import pytest

from graphalgo.install import install
from tests.support.registered import (
    OTHER,
    OWNER,
    WRITER,
    acting_as,
    edges,
    ids,
    registering,
    with_roles,
)

LINE = "d0000000-0000-0000-0000-00000000000a"
SHIPPING = "d0000000-0000-0000-0000-00000000000b"
BY_COLUMN = (
    "select * from aiq.register_link_table('harbour.vessels', 'operated_by', 'vessel', 'operator',"
    " p_dst_expr => 'operator_id'"
)
BY_JUNCTION = (
    "select * from aiq.register_link_table('harbour.charters', 'operated_by', 'vessel', 'operator',"
    " 'vessel_id', 'operator_id'"
)
TABLES = """
create table harbour.operators (id int primary key, name text, active boolean default true);
create table harbour.vessels (id int primary key, name text, operator_id int);
create table harbour.charters (
    vessel_id int, operator_id int, share real, since timestamptz, org uuid, line int default 1,
    primary key (vessel_id, operator_id, line)
);
insert into harbour.operators values (1, 'Meridian'), (2, 'Kestrel'), (3, 'Nordvik');
insert into harbour.vessels values (1, 'Dawn', 1), (2, 'Star', 1), (3, 'Harmony', null);
select aiq.register_entity_table('operator', 'harbour.operators', 'name', null, null, 'active');
select aiq.register_entity_table('vessel', 'harbour.vessels', 'name');
"""


@pytest.fixture(scope="module")
def installed(make_database):
    made = make_database()
    install(made)
    with with_roles(made):
        yield made


@pytest.fixture
def db(installed):
    with registering(installed) as connection:
        connection.execute(TABLES)
        yield connection


def operated(db):
    return {(vessel, operator) for vessel, _, operator in edges(db)}


def periods(db):
    return db.execute(
        "select s.source_pk, d.source_pk, e.valid_to is null, e.closed_by"
        " from aiq.edges as e"
        " join aiq.nodes as s on s.id = e.src_id join aiq.nodes as d on d.id = e.dst_id"
        " order by e.id"
    ).fetchall()


def refused(db, statement, sqlstate, *words):
    with pytest.raises(psycopg.Error) as caught:
        db.execute(statement)
    assert caught.value.sqlstate == sqlstate, caught.value
    for word in words:
        assert word in str(caught.value.diag.message_primary)
    return caught.value


def test_a_column_that_refers_is_an_edge(db):
    assert db.execute(BY_COLUMN + ")").fetchall() == [("harbour.vessels", "operated_by", 2, 0)]
    assert operated(db) == {("1", "1"), ("2", "1")}
    assert db.execute(
        "select distinct weight, memory, provenance ->> 'table', visibility, org_id from aiq.edges"
    ).fetchall() == [(1.0, "table harbour.vessels", "harbour.vessels", "org", None)]
    db.execute("insert into harbour.vessels values (4, 'Aurora', 2), (5, 'Pelican', null)")
    assert operated(db) == {("1", "1"), ("2", "1"), ("4", "2")}


def test_a_changed_reference_ends_the_edge_and_opens_the_new_one(db):
    db.execute(BY_COLUMN + ")")
    db.execute("update harbour.vessels set operator_id = 2 where id = 1")
    assert operated(db) == {("1", "2"), ("2", "1")}
    db.execute("update harbour.vessels set operator_id = null where id = 2")
    assert operated(db) == {("1", "2")}
    db.execute("update harbour.vessels set operator_id = 1 where id = 1")
    assert periods(db) == [
        ("1", "1", False, "table harbour.vessels"),
        ("2", "1", False, "table harbour.vessels"),
        ("1", "2", False, "table harbour.vessels"),
        ("1", "1", True, None),
    ]
    db.execute("delete from harbour.vessels where id = 1")
    assert operated(db) == set()
    assert db.execute("select count(*) from aiq.edges where valid_to is null").fetchone() == (0,)
    assert db.execute("select bool_and(valid_to >= valid_from) from aiq.edges").fetchone() == (
        True,
    )


def test_what_does_not_touch_the_reference_writes_no_edge(db):
    db.execute(BY_COLUMN + ")")
    look = (
        "select array_agg(xmin::text || ctid::text) from aiq.edges"
        " union all select array_agg(xmin::text || ctid::text) from aiq.link_rows"
    )
    before = db.execute(look).fetchall()
    db.execute("update harbour.vessels set name = name || '!'")
    assert db.execute(look).fetchall() == before


def test_a_junction_table_with_weights_starts_and_scopes(db):
    db.execute(BY_JUNCTION + ", 'share', 'since', 'org', $$share is null or share > 0$$)")
    db.execute(
        "insert into harbour.charters values (1, 1, 0.5, '2024-01-01Z', %s),"
        " (1, 2, null, null, %s), (2, 2, 0, null, null)",
        [LINE, SHIPPING],
    )
    assert operated(db) == {("1", "1"), ("1", "2")}
    assert db.execute(
        "select weight, valid_from = '2024-01-01Z', audience::text from aiq.edges order by weight"
    ).fetchall() == [(0.5, True, LINE), (1.0, False, SHIPPING)]
    db.execute(
        "update harbour.charters set share = 0.25, since = '2023-01-01Z' where org = %s", [LINE]
    )
    assert db.execute(
        "select weight, valid_from = '2023-01-01Z' from aiq.edges where org_id = %s", [LINE]
    ).fetchall() == [(0.25, True)]
    db.execute("update harbour.charters set share = 0 where operator_id = 2")
    assert operated(db) == {("1", "1")}
    db.execute("update harbour.charters set org = null where operator_id = 1")
    assert db.execute(
        "select org_id::text, valid_to is null from aiq.edges"
        " where valid_from >= '2023-01-01Z' and org_id is distinct from %s order by 1",
        [SHIPPING],
    ).fetchall() == [(LINE, False), (None, True)]


def test_two_rows_that_say_one_edge(db):
    db.execute(BY_JUNCTION + ", 'share', 'since')")
    db.execute(
        "insert into harbour.charters (vessel_id, operator_id, share, since, line)"
        " values (1, 1, 0.5, '2024-01-01Z', 1), (1, 1, 0.75, '2025-01-01Z', 2)"
    )
    state = "select weight, valid_from, valid_to is null from aiq.edges"
    first = db.execute(state).fetchall()
    assert len(first) == 1
    assert first[0][0] == 0.75
    assert first[0][1].year == 2024
    db.execute("delete from harbour.charters where line = 2")
    assert operated(db) == {("1", "1")}
    db.execute("delete from harbour.charters where line = 1")
    assert operated(db) == set()


def test_an_edge_that_another_table_still_says_stays(db):
    db.execute(BY_COLUMN + ")")
    db.execute(BY_JUNCTION + ")")
    db.execute("insert into harbour.charters values (1, 1)")
    assert db.execute("select count(*) from aiq.edges where valid_to is null").fetchone() == (2,)
    db.execute("update harbour.vessels set operator_id = null where id = 1")
    assert operated(db) == {("1", "1"), ("2", "1")}
    db.execute("delete from harbour.charters")
    assert operated(db) == {("2", "1")}


def test_a_stated_start_before_an_ended_period_moves_to_its_end(db):
    db.execute(BY_JUNCTION + ", null, 'since')")
    db.execute(
        "insert into harbour.charters (vessel_id, operator_id, since) values (1, 1, '2020-01-01Z')"
    )
    db.execute("delete from harbour.charters")
    db.execute(
        "insert into harbour.charters (vessel_id, operator_id, since) values (1, 1, '2020-01-01Z')"
    )
    spans = db.execute("select valid_from, valid_to from aiq.edges order by id").fetchall()
    assert len(spans) == 2
    assert spans[1] == (spans[0][1], None)


def test_a_reference_waits_until_its_row_is_a_node(db):
    db.execute(BY_COLUMN + ")")
    db.execute("insert into harbour.vessels values (4, 'Aurora', 9), (5, 'Star II', 9)")
    assert operated(db) == {("1", "1"), ("2", "1")}
    assert db.execute("select * from aiq.rebuild_links('harbour.vessels')").fetchall() == [
        ("harbour.vessels", "operated_by", 2, 2)
    ]
    db.execute("insert into harbour.operators values (9, 'Late', false)")
    assert operated(db) == {("1", "1"), ("2", "1")}
    db.execute("update harbour.operators set active = true where id = 9")
    assert operated(db) == {("1", "1"), ("2", "1"), ("4", "9"), ("5", "9")}


def test_an_edge_to_a_retired_node_is_hidden_until_it_returns(db):
    db.execute(BY_COLUMN + ")")
    db.execute("update harbour.operators set active = false where id = 1")
    assert operated(db) == set()
    db.execute("insert into harbour.vessels values (4, 'Aurora', 1)")
    assert db.execute("select count(*) from aiq.edges").fetchone() == (2,)
    db.execute("update harbour.operators set active = true where id = 1")
    assert operated(db) == {("1", "1"), ("2", "1"), ("4", "1")}


def test_a_row_and_what_it_refers_to_in_one_transaction(db):
    db.execute(BY_COLUMN + ")")
    with db.transaction():
        db.execute("insert into harbour.vessels values (7, 'First', 7)")
        db.execute("insert into harbour.operators values (7, 'Then')")
        db.execute("update harbour.vessels set operator_id = 2 where id = 7")
        db.execute("update harbour.vessels set operator_id = 7 where id = 7")
    assert ("7", "7") in operated(db)
    assert ("7", "2") not in operated(db)


def test_a_table_that_refers_to_itself(db):
    db.execute("alter table harbour.operators add parent int")
    db.execute(
        "select aiq.register_link_table("
        "'harbour.operators', 'subsidiary_of', 'operator', 'operator', p_dst_expr => 'parent')"
    )
    db.execute(
        "insert into harbour.operators values (11, 'Child', true, 12), (12, 'Parent', true, 1)"
    )
    assert edges(db) == {("11", "subsidiary_of", "12"), ("12", "subsidiary_of", "1")}
    db.execute("delete from harbour.operators where id = 12")
    assert edges(db) == set()


def test_keys_of_several_columns_are_named_by_rows(db):
    db.execute(
        """
        create table harbour.berths (port text, "No" int, name text, primary key (port, "No"));
        insert into aiq.entity_types (name, handle_prefix) values ('berth', 'BRT');
        insert into aiq.relations values ('vessel', 'moored_at', 'berth');
        create table harbour.moorings (id int primary key, vessel int, port text, berth bigint);
        select aiq.register_entity_table('berth', 'harbour.berths', 'name');
        select aiq.register_link_table('harbour.moorings', 'moored_at', 'vessel', 'berth',
            'vessel', 'row(port, berth)');
        insert into harbour.berths values ('a, "b"', 1, 'North');
        insert into harbour.moorings values (1, 1, 'a, "b"', 1);
        """
    )
    assert edges(db) == {("1", "moored_at", '("a, ""b""",1)')}


def test_truncate_and_partitions(db):
    db.execute(
        """
        create table harbour.legs (id int primary key, v int, o int) partition by range (id);
        create table harbour.legs1 partition of harbour.legs for values from (0) to (100);
        create table harbour.legs2 partition of harbour.legs for values from (100) to (200);
        select aiq.register_link_table(
            'harbour.legs', 'operated_by', 'vessel', 'operator', 'v', 'o'
        );
        insert into harbour.legs values (1, 1, 1), (101, 2, 2);
        insert into harbour.legs2 values (102, 3, 3);
        """
    )
    assert operated(db) == {("1", "1"), ("2", "2"), ("3", "3")}
    db.execute("update harbour.legs set id = 103 where id = 1")
    assert operated(db) == {("1", "1"), ("2", "2"), ("3", "3")}
    assert db.execute("select count(*) from aiq.edges where valid_to is null").fetchone() == (3,)
    db.execute("insert into harbour.legs values (2, 3, 1)")
    db.execute("truncate harbour.legs2")
    assert operated(db) == {("3", "1")}
    db.execute("truncate harbour.legs")
    assert operated(db) == set()


def test_copy_merge_and_conflicts(db):
    db.execute(BY_JUNCTION + ")")
    with db.cursor().copy("copy harbour.charters (vessel_id, operator_id) from stdin") as copy:
        copy.write("1\t1\n2\t2\n")
    db.execute(
        "insert into harbour.charters (vessel_id, operator_id) values (1, 1), (3, 3)"
        " on conflict (vessel_id, operator_id, line) do update set operator_id = 2"
    )
    assert operated(db) == {("1", "2"), ("2", "2"), ("3", "3")}
    db.execute(
        "merge into harbour.charters as c using (values (2), (3)) as w (v) on c.vessel_id = w.v"
        " when matched and w.v = 2 then delete when matched then update set operator_id = 1"
    )
    assert operated(db) == {("1", "2"), ("3", "1")}


def test_bulk_and_rebuild(db):
    db.execute(BY_JUNCTION + ")")
    db.execute("insert into harbour.charters (vessel_id, operator_id) values (1, 1), (2, 2)")
    db.execute("select aiq.bulk('harbour.charters', true)")
    db.execute("delete from harbour.charters where vessel_id = 1")
    db.execute("insert into harbour.charters (vessel_id, operator_id) values (3, 3)")
    assert operated(db) == {("1", "1"), ("2", "2")}
    db.execute("select aiq.bulk('harbour.charters', false)")
    assert operated(db) == {("2", "2"), ("3", "3")}
    refused(db, "select aiq.rebuild_links('harbour.operators')", "42704", "not registered as edges")


def test_registering_again_replaces_and_unregistering_ends(db):
    db.execute(BY_COLUMN + ")")
    kept = db.execute("select min(id) from aiq.edges").fetchone()
    db.execute(BY_COLUMN + ", p_include_where => 'id = 1', p_weight_expr => '0.5')")
    assert operated(db) == {("1", "1")}
    assert db.execute("select id, weight from aiq.edges where valid_to is null").fetchall() == [
        (kept[0], 0.5)
    ]
    db.execute(BY_COLUMN + ")")
    assert operated(db) == {("1", "1"), ("2", "1")}
    assert db.execute(
        "select aiq.unregister_link_table('harbour.vessels', 'operated_by')"
    ).fetchone() == (2,)
    assert operated(db) == set()
    assert len(periods(db)) == 3
    # The table is still read as nodes.
    db.execute("insert into harbour.vessels values (8, 'Still', 1)")
    assert "8" in ids(db)
    assert operated(db) == set()
    refused(db, "select aiq.unregister_link_table('harbour.vessels', 'operated_by')", "42704")


def test_a_released_junction_table_has_no_triggers(db):
    db.execute(BY_JUNCTION + ")")
    db.execute("select aiq.unregister_link_table('harbour.charters', 'operated_by')")
    assert db.execute(
        "select count(*) from pg_trigger where tgrelid = 'harbour.charters'::regclass"
    ).fetchone() == (0,)


@pytest.mark.parametrize(
    ("call", "sqlstate", "words"),
    [
        (
            "'harbour.vessels', 'eats', 'vessel', 'operator', p_dst_expr => 'operator_id'",
            "42704",
            ['relation "eats" is not declared from "vessel" to "operator"'],
        ),
        (
            "'harbour.vessels', null, 'vessel', 'operator', p_dst_expr => 'operator_id'",
            "42704",
            ['relation null is not declared from "vessel" to "operator"'],
        ),
        (
            "'harbour.vessels', 'operated_by', 'ship', 'operator', p_dst_expr => 'operator_id'",
            "42704",
            ['entity type "ship"'],
        ),
        (
            "'harbour.charters', 'operated_by', 'vessel', 'operator', p_dst_expr => 'operator_id'",
            "42704",
            ["harbour.charters is not registered"],
        ),
        ("'harbour.vessels', 'operated_by', 'vessel', 'operator'", "42704", ["not registered"]),
        ("'harbour.operators', 'subsidiary_of', 'operator', 'operator'", "22023", ["both null"]),
        (
            "'harbour.vessels', 'operated_by', 'vessel', 'operator', p_dst_expr => 'nothing'",
            "22023",
            ["p_dst_expr", "nothing"],
        ),
        (
            "'harbour.vessels', 'operated_by', 'vessel', 'operator', p_dst_expr => 'operator_id',"
            " p_weight_expr => 'id'",
            "22023",
            ["row 2 of harbour.vessels", "weight is 2"],
        ),
        (
            "'harbour.vessels', 'operated_by', 'vessel', 'operator', p_dst_expr => 'operator_id',"
            " p_weight_expr => '1 / (id - 2)'",
            "22023",
            ["row 2 of harbour.vessels", "division by zero"],
        ),
    ],
)
def test_registrations_that_do_not_hold(db, call, sqlstate, words):
    error = refused(db, f"select aiq.register_link_table({call})", sqlstate, *words)
    assert error.diag.message_hint
    assert db.execute("select count(*) from aiq.link_tables").fetchone() == (0,)
    assert operated(db) == set()


def test_a_type_of_several_tables_must_be_told_which(db):
    db.execute("create table harbour.agents (id int primary key, name text)")
    db.execute("select aiq.register_entity_table('operator', 'harbour.agents', 'name')")
    error = refused(db, BY_COLUMN + ")", "21000", "harbour.agents, harbour.operators")
    assert "p_dst_table" in error.diag.message_hint
    db.execute(BY_COLUMN + ", p_dst_table => 'harbour.operators')")
    assert operated(db) == {("1", "1"), ("2", "1")}


def test_a_row_that_fails_later_fails_the_writer(db):
    db.execute(BY_JUNCTION + ", 'share')")
    refused(
        db,
        "insert into harbour.charters (vessel_id, operator_id, share) values (1, 1, 1), (2, 1, 7)",
        "22023",
        "the row (2,1,1) of harbour.charters",
        '"operated_by"',
        "weight is 7",
    )
    assert db.execute("select count(*) from harbour.charters").fetchone() == (0,)


def test_only_the_owner_may(db):
    db.execute(f"alter table harbour.charters owner to {OWNER}")
    with acting_as(db, OTHER):
        refused(db, BY_JUNCTION + ")", "42501", OTHER)
    with acting_as(db, OWNER):
        db.execute(BY_JUNCTION + ")")
    with acting_as(db, OTHER):
        for call in (
            "select aiq.unregister_link_table('harbour.charters', 'operated_by')",
            "select aiq.rebuild_links('harbour.charters')",
            "select aiq.bulk('harbour.charters', true)",
        ):
            refused(db, call, "42501", OTHER)


def test_writers_need_no_grants_of_ours(db):
    db.execute(BY_JUNCTION + ")")
    db.execute(f"grant insert, delete on harbour.charters to {WRITER}")
    with acting_as(db, WRITER):
        db.execute("insert into harbour.charters (vessel_id, operator_id) values (1, 1)")
        db.execute("delete from harbour.charters")
    assert periods(db) == [("1", "1", False, "table harbour.charters")]


def test_the_last_of_two_concurrent_writers_ends_the_edge(db, installed):
    db.execute(BY_JUNCTION + ")")
    db.execute(
        "insert into harbour.charters (vessel_id, operator_id, line) values (1, 1, 1), (1, 1, 2)"
    )
    with psycopg.connect(installed) as one:
        one.execute("delete from harbour.charters where line = 1")

        def other():
            with psycopg.connect(installed) as two:
                two.execute("delete from harbour.charters where line = 2")

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.5)
    thread.join()
    assert operated(db) == set()


def test_many_writers_leave_the_edges_that_the_rows_say(db, installed):
    db.execute(BY_JUNCTION + ")")
    failures = []

    def write(line):
        try:
            with psycopg.connect(installed, autocommit=True) as connection:
                for turn in range(15):
                    connection.execute(
                        "insert into harbour.charters (vessel_id, operator_id, line)"
                        " select v, o, %s"
                        " from generate_series(1, 3) as v, generate_series(1, 3) as o"
                        " where (v + o + %s) %% 2 = 0",
                        [line, turn],
                    )
                    connection.execute(
                        "delete from harbour.charters where line = %s and vessel_id <> %s",
                        [line, turn % 3 + 1],
                    )
                    if turn < 14:
                        connection.execute("delete from harbour.charters where line = %s", [line])
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(line,)) for line in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    expected = db.execute(
        "select distinct vessel_id::text, operator_id::text from harbour.charters"
    )
    assert operated(db) == set(expected.fetchall())


def test_a_link_table_that_is_made_anew_or_renamed(db):
    db.execute(BY_JUNCTION + ")")
    db.execute("insert into harbour.charters (vessel_id, operator_id) values (1, 1), (2, 2)")
    db.execute(
        "drop table harbour.charters;"
        "create table harbour.charters (vessel_id int primary key, operator_id int);"
        "insert into harbour.charters values (1, 3)"
    )
    remedy = "select remedy from aiq.registration_problems()"
    db.execute(db.execute(remedy).fetchone()[0])
    assert operated(db) == {("1", "3")}
    db.execute("alter table harbour.charters rename to hires")
    db.execute("insert into harbour.hires values (3, 1)")
    assert operated(db) == {("1", "3"), ("3", "1")}
    db.execute(db.execute(remedy).fetchone()[0])
    assert db.execute(remedy).fetchall() == []
    db.execute("delete from harbour.hires where vessel_id = 1")
    assert operated(db) == {("3", "1")}


def test_the_table_is_recorded_as_asserting_the_edge(db):
    db.execute(BY_COLUMN + ", p_weight_expr => '0.5')")
    assert db.execute(
        "select distinct e.memory, a.memory, a.weight from aiq.edge_assertions as a"
        " join aiq.edges as e on e.id = a.edge_id"
    ).fetchall() == [("table harbour.vessels", "table harbour.vessels", 0.5)]


def test_problems_of_link_tables_come_with_their_remedies(db):
    db.execute(BY_JUNCTION + ", 'share')")
    find = "select registered_as, problem, remedy from aiq.registration_problems()"
    assert db.execute(find).fetchall() == []
    db.execute("alter table harbour.charters disable trigger all")
    found = db.execute(find).fetchall()
    assert [row[:2] for row in found] == [
        ('edges "operated_by"', "triggers on harbour.charters are disabled")
    ]
    db.execute(found[0][2])
    assert db.execute(find).fetchall() == []
    db.execute("drop table harbour.charters")
    found = db.execute(find).fetchall()
    assert [row[1] for row in found] == ["the table is no longer there"]
    db.execute(found[0][2])
    assert db.execute(find).fetchall() == []


# What others say of the same edge


def asserted(db):
    return dict(db.execute("select memory, weight from aiq.edge_assertions").fetchall())


def held(db):
    return db.execute(
        "select round(weight::numeric, 2)::float8, valid_from::date::text, valid_to is null"
        " from aiq.edges order by id"
    ).fetchall()


def say(db, weight, start="2020-01-01", memory="doc"):
    context = f'"valid_from": "{start}"' + (f', "memory": "{memory}"' if memory else "")
    db.execute(
        "select aiq.upsert_graph("
        '\'{"nodes": [{"k": "vessel", "n": "Dawn"}, {"k": "operator", "n": "Meridian"}],'
        f' "edges": [{{"s": 0, "t": 1, "r": "operated_by", "w": {weight}}}]}}\','
        f" '{{{context}}}')"
    )


CHARTER = (
    "insert into harbour.charters (vessel_id, operator_id, share, since) values (1, 1, %s, %s)"
)


def test_an_edge_that_a_memory_still_asserts_stays_when_its_row_goes(db):
    db.execute(BY_JUNCTION + ", 'share', 'since')")
    db.execute(CHARTER, [0.9, "2021-01-01"])
    say(db, 0.5, "2022-01-01")
    assert held(db) == [(0.9, "2021-01-01", True)]
    db.execute("delete from harbour.charters")
    assert held(db) == [(0.5, "2021-01-01", True)]
    assert asserted(db) == {"doc": 0.5}
    db.execute("select aiq.close_edge(p_memory => 'doc', p_relation => 'operated_by')")
    assert operated(db) == set()


def test_an_edge_that_a_memory_began_stays_when_its_row_goes(db):
    db.execute(BY_JUNCTION + ", 'share', 'since')")
    say(db, 0.5, "2019-01-01")
    db.execute(CHARTER, [0.9, "2021-01-01"])
    assert held(db) == [(0.9, "2019-01-01", True)]
    db.execute("update harbour.charters set share = 0.7")
    assert held(db) == [(pytest.approx(0.7), "2019-01-01", True)]
    db.execute("update harbour.charters set share = 0.1, since = '2018-01-01'")
    assert held(db) == [(0.5, "2018-01-01", True)]
    db.execute("truncate harbour.charters")
    assert held(db) == [(0.5, "2018-01-01", True)]
    assert asserted(db) == {"doc": 0.5}


def test_a_weight_is_lowered_no_further_than_a_memory_asserts_it(db):
    db.execute(BY_JUNCTION + ", 'share', 'since')")
    db.execute(CHARTER, [0.9, "2021-01-01"])
    say(db, 0.5, "2020-01-01")
    db.execute("update harbour.charters set share = 0.2, since = '2023-01-01'")
    assert held(db) == [(0.5, "2020-01-01", True)]
    db.execute("update harbour.charters set share = 0.8")
    assert held(db) == [(pytest.approx(0.8), "2020-01-01", True)]


def test_an_edge_stated_without_a_memory_stays(db):
    db.execute(BY_JUNCTION + ", 'share', 'since')")
    say(db, 0.5, "2020-01-01", memory=None)
    db.execute(CHARTER, [0.4, "2021-01-01"])
    db.execute("delete from harbour.charters")
    assert held(db) == [(0.5, "2020-01-01", True)]


def test_the_weight_of_the_row_that_goes_goes_with_it(db):
    db.execute(BY_JUNCTION + ", 'share')")
    db.execute(
        "insert into harbour.charters (vessel_id, operator_id, share, line)"
        " values (1, 1, 0.9, 1), (1, 1, 0.25, 2)"
    )
    db.execute("delete from harbour.charters where line = 1")
    assert db.execute("select weight from aiq.edges").fetchall() == [(0.25,)]
    assert asserted(db) == {"table harbour.charters": 0.25}


def test_a_renamed_table_withdraws_what_it_said_under_its_former_name(db):
    db.execute(BY_JUNCTION + ")")
    db.execute("insert into harbour.charters (vessel_id, operator_id) values (1, 1)")
    db.execute("alter table harbour.charters rename to hires")
    db.execute(BY_JUNCTION.replace("charters", "hires") + ")")
    assert asserted(db) == {"table harbour.hires": 1}
    db.execute("delete from harbour.hires")
    assert operated(db) == set()


@pytest.mark.parametrize("reader", ["table", "graph"])
def test_a_period_closed_where_it_began_moves_no_start(db, reader):
    db.execute(BY_JUNCTION + ", 'share', 'since')")
    db.execute(CHARTER, [0.5, "2100-01-01"])
    db.execute("delete from harbour.charters")
    assert db.execute("select valid_from = valid_to from aiq.edges").fetchall() == [(True,)]
    if reader == "table":
        db.execute(CHARTER, [0.5, "2020-01-01"])
    else:
        say(db, 0.5, "2020-01-01")
    assert held(db)[1:] == [(0.5, "2020-01-01", True)]


# Starts


def test_a_start_in_infinity_is_refused_and_one_for_ever_is_not(db):
    db.execute("insert into harbour.charters values (1, 1, 1, 'infinity')")
    refused(
        db,
        BY_JUNCTION + ", null, 'since')",
        "22023",
        "the row (1,1,1) of harbour.charters",
        "the start is infinity, but must be a date or a time",
    )
    db.execute("update harbour.charters set since = '-infinity'")
    db.execute(BY_JUNCTION + ", null, 'since')")
    assert operated(db) == {("1", "1")}
    refused(
        db,
        "update harbour.charters set since = 'infinity'",
        "22023",
        "the row (1,1,1) of harbour.charters",
        "the start is infinity",
    )
    refused(db, "insert into harbour.charters values (2, 1, 1, 'infinity')", "22023", "infinity")
    db.execute("delete from harbour.charters")
    db.execute("insert into harbour.charters values (1, 1, 1, '2020-01-01')")
    assert operated(db) == {("1", "1")}


# A primary key that loses a column


def test_a_link_table_without_its_primary_key_says_so(db):
    db.execute(BY_JUNCTION + ")")
    db.execute("insert into harbour.charters (vessel_id, operator_id) values (1, 1)")
    db.execute("alter table harbour.charters drop column line")
    error = refused(
        db,
        "insert into harbour.charters (vessel_id, operator_id) values (2, 1)",
        "55000",
        'harbour.charters is read as edges "operated_by"',
        "has no column line any more",
    )
    assert "aiq.unregister_link_table" in error.diag.message_hint
    db.execute("alter table harbour.charters add primary key (vessel_id, operator_id)")
    found = db.execute("select problem, remedy from aiq.registration_problems()").fetchall()
    assert [row[0] for row in found] == [
        "its primary key was (vessel_id, operator_id, line), but it has no column line any more"
    ]
    db.execute(found[0][1])
    db.execute("insert into harbour.charters (vessel_id, operator_id) values (2, 1)")
    assert operated(db) == {("1", "1"), ("2", "1")}
    assert db.execute("select count(*) from aiq.registration_problems()").fetchone() == (0,)
