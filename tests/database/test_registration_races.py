"""Two sessions that write what belongs together leave the graph as the rows say."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import ExitStack

import psycopg
import pytest

from graphalgo.install import install
from tests.support.registered import edges, registering, with_roles

LINE = "d0000000-0000-0000-0000-00000000000a"
SHIPPING = "d0000000-0000-0000-0000-00000000000b"
TABLES = """
insert into aiq.relations (src_type, relation, dst_type) values ('vessel', 'follows', 'vessel');
create table harbour.vessels (id int primary key, name text, active boolean default true, org uuid);
create table harbour.convoys (a int, b int, weight real default 1, primary key (a, b));
select aiq.register_entity_table('vessel', 'harbour.vessels', 'name', null, 'org', 'active');
select aiq.register_link_table(
    'harbour.convoys', 'follows', 'vessel', 'vessel', 'a', 'b', 'weight'
);
insert into harbour.vessels (id, name) values (1, 'Dawn');
"""
LINK = "insert into harbour.convoys (a, b) values (2, 1)"
ARRIVALS = {
    "new": ("", "insert into harbour.vessels (id, name) values (2, 'Star')"),
    "returning": (
        "insert into harbour.vessels (id, name) values (2, 'Star');"
        "delete from harbour.vessels where id = 2",
        "insert into harbour.vessels (id, name) values (2, 'Star')",
    ),
    "included again": (
        "insert into harbour.vessels (id, name) values (2, 'Star');"
        "update harbour.vessels set active = false where id = 2",
        "update harbour.vessels set active = true where id = 2",
    ),
    "included at last": (
        "insert into harbour.vessels (id, name, active) values (2, 'Star', false)",
        "update harbour.vessels set active = true where id = 2",
    ),
}
PROBLEMS = "select problem, remedy from aiq.registration_problems()"


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


@pytest.fixture
def two(installed):
    with psycopg.connect(installed) as one, psycopg.connect(installed) as other:
        for connection in (one, other):
            connection.execute("set lock_timeout = '5s'")
            connection.commit()
        yield one, other


def committing(connection, into):
    """Commit in a thread: it may have to wait for the other session's commit."""

    def commit():
        try:
            connection.commit()
        except psycopg.Error as error:
            into.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    return thread


# A row and the row that it names


@pytest.mark.parametrize("first", ["node", "link"])
@pytest.mark.parametrize("committed_first", ["node", "link"])
@pytest.mark.parametrize("arrival", sorted(ARRIVALS))
def test_a_row_and_what_it_names_written_by_two_sessions(db, two, arrival, first, committed_first):
    before, node = ARRIVALS[arrival]
    if before:
        db.execute(before)
    statements = {"node": (two[0], node), "link": (two[1], LINK)}
    for which in sorted(statements, key=lambda name: name != first):
        statements[which][0].execute(statements[which][1])
    for which in sorted(statements, key=lambda name: name != committed_first):
        statements[which][0].commit()
    assert edges(db) == {("2", "follows", "1")}
    assert db.execute("select count(*) from aiq.link_rows where edge_id is null").fetchone() == (0,)


def test_both_ends_of_a_waiting_row_arrive_in_two_sessions(db, two):
    db.execute("insert into harbour.convoys (a, b) values (2, 3)")
    failures = []
    two[0].execute("insert into harbour.vessels (id, name) values (2, 'Star')")
    other = threading.Thread(
        target=lambda: two[1].execute("insert into harbour.vessels (id, name) values (3, 'Pearl')")
    )
    other.start()
    other.join(0.3)
    two[0].commit()
    other.join()
    committing(two[1], failures).join()
    assert failures == []
    assert edges(db) == {("2", "follows", "3")}


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("frozen", ["node", "link"])
@pytest.mark.parametrize("arrival", sorted(ARRIVALS))
def test_one_snapshot_fails_or_opens_the_edge(db, two, arrival, frozen, level):
    before, node = ARRIVALS[arrival]
    if before:
        db.execute(before)
    mine, others = (node, LINK) if frozen == "node" else (LINK, node)
    two[0].execute(f"set transaction isolation level {level}")
    two[0].execute("select 1 from harbour.vessels")
    two[1].execute(others)
    two[1].commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        two[0].execute(mine)
        two[0].commit()
    two[0].rollback()
    db.execute(mine)
    assert edges(db) == {("2", "follows", "1")}


def test_one_snapshot_may_leave_a_row_waiting_that_nobody_else_settles(db, two):
    two[0].execute("set transaction isolation level repeatable read")
    two[0].execute("insert into harbour.convoys (a, b) values (7, 1)")
    two[0].execute("insert into harbour.vessels (id, name) values (8, 'Ray')")
    two[0].commit()
    db.execute("insert into harbour.vessels (id, name) values (7, 'Gull')")
    assert edges(db) == {("7", "follows", "1")}
    assert db.execute("select count(*) from aiq.unsettled").fetchone() == (0,)


def test_sessions_that_leave_rows_waiting_do_not_hinder_each_other_before_they_commit(db, two):
    for number, connection in enumerate(two):
        connection.execute("insert into harbour.vessels (id, name) values (%s, 'n')", [10 + number])
        connection.execute("insert into harbour.convoys (a, b) values (%s, 99)", [10 + number])
    for connection in two:
        connection.commit()
    db.execute("insert into harbour.vessels (id, name) values (99, 'Last')")
    assert edges(db) == {("10", "follows", "99"), ("11", "follows", "99")}


def test_a_row_that_waits_for_nothing_is_a_problem_with_a_remedy(db):
    db.execute("insert into harbour.convoys (a, b) values (2, 1)")
    assert db.execute(PROBLEMS).fetchall() == []
    db.execute("alter table harbour.convoys disable trigger all")
    db.execute("set session_replication_role = replica")
    db.execute(
        "insert into aiq.nodes (entity_type, source_table, source_pk)"
        " values ('vessel', 'harbour.vessels', '2')"
    )
    db.execute("reset session_replication_role")
    db.execute("alter table harbour.convoys enable trigger all")
    found = db.execute(PROBLEMS).fetchall()
    assert [row[0] for row in found] == ["1 of its rows have no edge although both ends are nodes"]
    db.execute(found[0][1])
    assert db.execute(PROBLEMS).fetchall() == []
    assert edges(db) == {("2", "follows", "1")}


# Copies of scopes

ORGS = (
    f"insert into rbac.orgs (id, name) values ('{LINE}', 'line'), ('{SHIPPING}', 'shipping')"
    " on conflict do nothing"
)
STALE_EDGES = """
select count(*) from aiq.edges as e
join aiq.nodes as s on s.id = e.src_id join aiq.nodes as d on d.id = e.dst_id
where (e.src_audience, e.dst_audience, e.retired_at)
    is distinct from (s.audience, d.audience, least(s.retired_at, d.retired_at))
"""
STALE_KEYS = """
select count(*) from aiq.node_keys as k join aiq.nodes as n on n.id = k.node_id
where (k.audience, k.retired_at) is distinct from (n.audience, n.retired_at)
"""
CHANGES = [
    f"update harbour.vessels set org = '{LINE}' where id = 1",
    "delete from harbour.vessels where id = 1",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("first", ["scope", "copy"])
@pytest.mark.parametrize("what", ["edge", "key"])
def test_a_copy_made_while_its_node_changes_is_not_stale(db, two, what, first, change):
    db.execute(ORGS)
    db.execute("insert into harbour.vessels (id, name) values (2, 'Star')")
    write = {
        "edge": LINK,
        "key": "insert into aiq.node_keys (node_id, key, kind)"
        " select id, 'another', 'alias' from aiq.nodes where source_pk = '1'",
    }[what]
    statements = (change, write) if first == "scope" else (write, change)
    two[0].execute(statements[0])
    failures = []

    def second():
        try:
            two[1].execute(statements[1])
            two[1].commit()
        except psycopg.Error as error:
            failures.append(error)

    thread = threading.Thread(target=second)
    thread.start()
    thread.join(0.4)
    two[0].commit()
    thread.join()
    assert failures == []
    assert db.execute(STALE_EDGES).fetchone() == (0,)
    assert db.execute(STALE_KEYS).fetchone() == (0,)


def test_both_ends_of_an_edge_change_their_scope_at_once(db, two):
    db.execute(ORGS)
    db.execute("insert into harbour.vessels (id, name) values (2, 'Star')")
    db.execute(LINK)
    two[0].execute(f"update harbour.vessels set org = '{LINE}' where id = 1")
    thread = threading.Thread(
        target=lambda: two[1].execute(f"update harbour.vessels set org = '{SHIPPING}' where id = 2")
    )
    thread.start()
    thread.join(0.4)
    two[0].commit()
    thread.join()
    two[1].commit()
    assert db.execute(STALE_EDGES).fetchone() == (0,)


def test_a_copy_under_one_snapshot_fails_where_its_node_has_changed(db, two):
    db.execute(ORGS)
    db.execute("insert into harbour.vessels (id, name) values (2, 'Star')")
    two[0].execute("set transaction isolation level repeatable read")
    two[0].execute("select 1 from harbour.vessels")
    db.execute(CHANGES[0])
    with pytest.raises(psycopg.errors.SerializationFailure):
        two[0].execute(LINK)
    two[0].rollback()
    assert db.execute(STALE_EDGES).fetchone() == (0,)


def test_writers_of_edges_of_one_node_do_not_wait_for_its_other_changes(db, two):
    db.execute("insert into harbour.vessels (id, name) values (2, 'Star')")
    two[0].execute("update harbour.vessels set name = 'Dusk' where id = 1")
    two[1].execute("set lock_timeout = '300ms'")
    two[1].execute(LINK)
    two[1].commit()
    two[0].commit()
    assert edges(db) == {("2", "follows", "1")}


# Many at once


def test_writers_of_nodes_and_edges_and_a_truncate_do_not_lock_each_other_out(db, installed):
    db.execute("delete from harbour.vessels")
    db.execute(
        "insert into harbour.vessels (id, name) select i, 'v' || i from generate_series(0, 39) as i"
    )
    end = time.monotonic() + 6
    failures = []
    counts = itertools.count()

    def write(number):
        with ExitStack() as stack:
            connection = stack.enter_context(psycopg.connect(installed, autocommit=True))
            connection.execute("set lock_timeout = '20s'")
            for turn in itertools.count(number * 1000):
                if time.monotonic() > end:
                    return
                rows = sorted({(turn * step + number) % 40 for step in (3, 7, 11, 13, 17)})
                if turn % 3 == 0:
                    rows.reverse()
                choice = turn % 10
                try:
                    if choice < 3:
                        connection.execute(
                            "insert into harbour.vessels (id, name, active)"
                            " select i, 'v' || i || %s, %s from unnest(%s::int[]) as i"
                            " order by i on conflict (id) do update"
                            " set name = excluded.name, active = excluded.active",
                            [str(turn % 5), turn % 4 != 0, rows],
                        )
                    elif choice < 5:
                        connection.execute(
                            "delete from harbour.vessels where id in (select id"
                            " from harbour.vessels where id = any (%s) order by id for update)",
                            [rows],
                        )
                    elif choice < 8:
                        connection.execute(
                            "insert into harbour.convoys (a, b) select i, i %% 7"
                            " from unnest(%s::int[]) as i order by i on conflict do nothing",
                            [rows],
                        )
                    elif turn % 50 == 9:
                        connection.execute("truncate harbour.convoys")
                    else:
                        connection.execute(
                            "delete from harbour.convoys where (a, b) in (select a, b"
                            " from harbour.convoys where a = any (%s) order by a, b for update)",
                            [rows],
                        )
                    next(counts)
                except psycopg.Error as error:
                    failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert next(counts) > 50
    expected = db.execute(
        "select c.a::text, 'follows', c.b::text from harbour.convoys as c"
        " join harbour.vessels as s on s.id = c.a and s.active"
        " join harbour.vessels as d on d.id = c.b and d.active"
    ).fetchall()
    assert edges(db) == set(expected)
    assert db.execute(PROBLEMS).fetchall() == []
    assert db.execute(STALE_EDGES).fetchone() == (0,)
    assert db.execute(STALE_KEYS).fetchone() == (0,)
    assert db.execute("select count(*) from aiq.unsettled").fetchone() == (0,)


def test_the_writers_lock_timeout_is_kept_and_obeyed(db, two):
    db.execute("insert into harbour.vessels (id, name) values (2, 'Star')")
    db.execute(LINK)
    two[0].execute("select from aiq.edges for update")
    two[1].execute("set lock_timeout = '2500ms'")
    two[1].commit()
    began = time.monotonic()
    with pytest.raises(psycopg.errors.LockNotAvailable):
        two[1].execute("delete from harbour.convoys")
    assert 2 < time.monotonic() - began < 5
    two[1].rollback()
    two[0].rollback()
    two[1].execute("delete from harbour.convoys")
    assert two[1].execute("show lock_timeout").fetchone() == ("2500ms",)
    two[1].commit()
    assert edges(db) == set()


def test_a_writer_waits_as_long_as_it_takes(db, two):
    db.execute("insert into harbour.vessels (id, name) values (2, 'Star')")
    db.execute(LINK)
    two[0].execute("select from aiq.edges for update")
    two[1].execute("set lock_timeout = 0")
    two[1].commit()
    thread = threading.Thread(target=lambda: two[1].execute("delete from harbour.convoys"))
    thread.start()
    thread.join(2)
    assert thread.is_alive()
    two[0].rollback()
    thread.join()
    two[1].commit()
    assert edges(db) == set()
