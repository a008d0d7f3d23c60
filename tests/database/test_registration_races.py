"""Two sessions that write what belongs together leave the graph as the rows say."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import ExitStack
from random import Random

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


# Commits that meet

CARGO = """
insert into aiq.relations (src_type, relation, dst_type) values
    ('vessel', 'calls_at', 'operator'), ('vessel', 'owned_by', 'operator');
create table harbour.operators (id int primary key, name text);
create table harbour.calls (id int primary key, a int, b int);
create table harbour.owners (id int primary key, a int, b int);
select aiq.register_entity_table('operator', 'harbour.operators', 'name');
select aiq.register_link_table('harbour.calls', 'calls_at', 'vessel', 'operator', 'a', 'b');
select aiq.register_link_table('harbour.owners', 'owned_by', 'vessel', 'operator', 'a', 'b');
"""
VESSEL = "insert into harbour.vessels (id, name) values (%s, 'v')"
OPERATOR = "insert into harbour.operators (id, name) values (%s, 'o')"
CALL = "insert into harbour.calls (id, a, b) values (%s, %s, %s)"


def commit_together(connections):
    """Commit in as many threads; the errors."""
    barrier = threading.Barrier(len(connections))
    failures = []

    def commit(connection):
        barrier.wait()
        try:
            connection.commit()
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=commit, args=(one,)) for one in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


@pytest.mark.parametrize("turn", range(3))
def test_both_ends_of_a_row_written_since_commit_together(db, two, turn):
    db.execute(CARGO)
    two[0].execute(VESSEL, [10])
    two[1].execute(OPERATOR, [10])
    db.execute(CALL, [1, 10, 10])
    assert commit_together(two) == []
    assert edges(db) == {("10", "calls_at", "10")}


@pytest.mark.parametrize("turn", range(3))
def test_sources_of_rows_that_still_wait_commit_together(db, two, turn):
    db.execute(CARGO)
    for number, connection in enumerate(two):
        connection.execute(VESSEL, [10 + number])
    for number in range(2):
        db.execute(CALL, [number, 10 + number, 20 + number])
    assert commit_together(two) == []
    assert edges(db) == set()
    db.execute("insert into harbour.operators (id, name) values (20, 'o'), (21, 'o')")
    assert edges(db) == {("10", "calls_at", "20"), ("11", "calls_at", "21")}


def test_both_ends_of_a_row_of_a_table_that_names_itself_commit_together(db, two):
    for number, connection in enumerate(two):
        connection.execute(VESSEL, [10 + number])
    db.execute("insert into harbour.convoys (a, b) values (10, 11), (11, 10), (10, 99)")
    assert commit_together(two) == []
    assert edges(db) == {("10", "follows", "11"), ("11", "follows", "10")}


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_a_row_that_another_has_changed_holds_up_nobody_but_those_it_names(
    db, installed, two, outcome
):
    """The one who has changed the row gets the locks that the others need for theirs."""
    db.execute(CARGO)
    db.execute(OPERATOR, [10])
    with ExitStack() as stack:
        writers = [stack.enter_context(psycopg.connect(installed)) for _ in range(6)]
        for number, writer in enumerate(writers):
            writer.execute(VESSEL, [10 + number])
        db.execute(
            "insert into harbour.calls (id, a, b) select i, i, 10 from generate_series(10, 15) as i"
        )
        two[0].execute("update harbour.calls set b = 99")
        failures = []
        threads = []
        for writer in writers:
            threads.append(committing(writer, failures))
            time.sleep(0.25)
        two[1].execute(VESSEL, [50])
        two[1].commit()
        began = time.monotonic()
        getattr(two[0], outcome)()
        assert time.monotonic() - began < 1
        for thread in threads:
            thread.join()
    assert failures == []
    opened = {(str(i), "calls_at", "10") for i in range(10, 16)}
    assert edges(db) == (opened if outcome == "rollback" else set())
    assert db.execute(PROBLEMS).fetchall() == []


def test_one_snapshot_that_waits_for_the_maker_of_a_node_does_not_keep_it_from_committing(db, two):
    two[0].execute("set transaction isolation level repeatable read")
    two[0].execute(LINK)
    two[1].execute("insert into harbour.vessels (id, name) values (2, 'Star')")
    failures = []
    thread = committing(two[0], failures)
    thread.join(1.5)
    assert thread.is_alive()
    two[1].commit()
    thread.join()
    assert [failure.sqlstate for failure in failures] == ["40001"]
    db.execute(LINK)
    assert edges(db) == {("2", "follows", "1")}


def test_sessions_that_write_several_tables_commit_together(db, installed):
    """What each writes is its own, so that nothing but the commits can meet."""
    db.execute(CARGO)
    random = Random(7)
    writers, rounds = 6, 25
    with ExitStack() as stack:
        connections = [stack.enter_context(psycopg.connect(installed)) for _ in range(writers)]
        for turn in range(rounds):
            base = 100 + turn * 10
            pairs = [(random.randrange(4), random.randrange(4)) for _ in range(6)]
            statements = [(VESSEL, [base + i]) for i in range(4)]
            statements += [(OPERATOR, [base + i]) for i in range(4 if turn % 2 else 2)]
            statements += [
                (
                    f"insert into harbour.{random.choice(['calls', 'owners'])} values (%s, %s, %s)",
                    [base + number, base + a, base + b],
                )
                for number, (a, b) in enumerate(pairs)
            ]
            statements += [
                ("insert into harbour.convoys (a, b) values (%s, %s)", [base + a, base + b])
                for a, b in set(pairs)
            ]
            random.shuffle(statements)
            # A few are there before the others commit, and unseen by what they wrote.
            early, late = statements[:3], statements[3:]
            for number, (statement, values) in enumerate(late):
                connections[number % writers].execute(statement, values)
            for statement, values in early:
                db.execute(statement, values)
            assert commit_together(connections) == []
    expected = db.execute(
        "select l.a::text, l.relation, l.b::text from ("
        " select 'calls_at' as relation, a, b from harbour.calls"
        " union select 'owned_by', a, b from harbour.owners) as l"
        " join harbour.vessels as s on s.id = l.a join harbour.operators as d on d.id = l.b"
        " union select c.a::text, 'follows', c.b::text from harbour.convoys as c"
        " join harbour.vessels as s on s.id = c.a join harbour.vessels as d on d.id = c.b"
    ).fetchall()
    assert edges(db) == set(expected)
    assert db.execute(PROBLEMS).fetchall() == []
    assert db.execute("select count(*) from aiq.unsettled").fetchone() == (0,)


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
