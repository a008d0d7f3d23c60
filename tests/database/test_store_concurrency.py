"""Many writers and readers at once, and an oracle for what they must leave behind."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from graphalgo.install import install
from tests.support.facts import ORG_A, ORG_B, USER_A, USER_B, Facts

SECONDS = float(os.environ.get("GRAPHALGO_SOAK_SECONDS", "8"))
WRITERS = READERS = 8
DAY_ZERO = datetime(2020, 1, 1, tzinfo=UTC)
SCOPES: list[dict[str, str]] = [{}, {"org": ORG_A}, {"org": ORG_B}]
# Shared by all writers, so that nearly every graph overlaps every other.
PEOPLE = [f"Person {number}" for number in range(6)]
PROMOTED = [f"Nickname {number}" for number in range(3)]
FACT = "src_id, relation, dst_id, org_id, visibility, owner_id"


def day(number: int) -> datetime:
    return DAY_ZERO + timedelta(days=number)


class Soak:
    """The threads' common ground: when to stop, what was acknowledged, what went wrong."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.stop = time.monotonic() + SECONDS
        self.lock = threading.Lock()
        self.stated: list[tuple[int, str, datetime, float]] = []
        self.closed: list[tuple[int, datetime, str]] = []
        self.promotions = 0
        self.walks = 0
        self.wrong: list[str] = []

    def running(self) -> bool:
        return time.monotonic() < self.stop and not self.wrong

    def run(self) -> None:
        roles: list[tuple[Callable[[Any, random.Random, int], None], int]] = [
            (self.write, WRITERS), (self.read, READERS), (self.promote, 1),
        ]  # fmt: skip
        threads = [
            threading.Thread(target=self.guarded, args=(role, number))
            for role, many in roles
            for number in range(many)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 60)
            assert not thread.is_alive(), "a session hangs"

    def guarded(self, role: Callable[[Any, random.Random, int], None], number: int) -> None:
        chance = random.Random(f"{role.__name__} {number}")
        try:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                role(connection, chance, number)
        except BaseException as error:
            self.wrong.append(f"{role.__name__} {number}: {error!r}")
            raise

    def write(
        self, connection: psycopg.Connection[Any], chance: random.Random, number: int
    ) -> None:
        connection.execute("set role aiq_worker")
        mine: list[int] = []
        call = 0
        while self.running():
            call += 1
            if mine and chance.random() < 0.3:
                # Half the time an edge that others are writing right now.
                self.close(connection, chance.choice(mine), day(chance.randrange(400)), f"{number}")
            else:
                mine = (mine + self.state(connection, chance, f"{number}/{call}"))[-200:]

    def state(
        self, connection: psycopg.Connection[Any], chance: random.Random, memory: str
    ) -> list[int]:
        names = chance.sample(PEOPLE + PROMOTED, chance.randint(2, 8))
        nodes = [{"k": "person", "n": name} for name in names]
        edges = [
            {"s": chance.randrange(len(nodes)), "t": chance.randrange(len(nodes)), "r": "knows",
             "w": chance.randint(1, 16) / 16}
            for _ in range(chance.randint(1, 40))
        ]  # fmt: skip
        start = day(chance.randrange(400))
        context = {"memory": memory, "valid_from": start.isoformat(), **chance.choice(SCOPES)}
        row = connection.execute(
            "select aiq.upsert_graph(%s, %s)",
            (Jsonb({"nodes": nodes, "edges": edges}), Jsonb(context)),
        ).fetchone()
        assert row is not None
        ids: list[int] = row[0]["edges"]
        with self.lock:
            self.stated += [
                (edge, memory, start, float(entry["w"]))  # type: ignore[arg-type]
                for edge, entry in zip(ids, edges, strict=True)
            ]
        return ids

    def close(self, connection: psycopg.Connection[Any], edge: int, at: datetime, by: str) -> None:
        try:
            connection.execute("select aiq.close_edge(%s, %s, %s)", (at, by, edge))
        except (psycopg.errors.NoDataFound, psycopg.errors.InvalidParameterValue):
            return  # ended by somebody else, or not begun by then
        with self.lock:
            self.closed.append((edge, at, by))

    def promote(
        self, connection: psycopg.Connection[Any], chance: random.Random, _number: int
    ) -> None:
        """Fold soft nodes into typed ones while facts of both are written."""
        for position, name in enumerate(PROMOTED):
            while self.stop - time.monotonic() > SECONDS * (1 - (position + 1) / 8):
                time.sleep(0.05)
            softs = connection.execute(
                "select id from aiq.nodes where soft_name = %s and retired_at is null order by id",
                (name.lower(),),
            ).fetchall()
            row = connection.execute(
                "insert into aiq.nodes (entity_type) values ('person') returning id"
            ).fetchone()
            assert row is not None
            for (soft,) in softs:
                connection.execute(
                    "select aiq.promote_soft_node(%s, %s, 'soak', null)", (soft, row[0])
                )
                with self.lock:
                    self.promotions += 1

    def read(self, connection: psycopg.Connection[Any], chance: random.Random, number: int) -> None:
        user = (USER_A, USER_B, None)[number % 3]
        claims = "" if user is None else f'{{"sub": "{user}"}}'
        connection.execute("select set_config('request.jwt.claims', %s, false)", (claims,))
        connection.execute("set role authenticated")
        while self.running():
            twice = connection.execute(
                f"select {FACT} from aiq.edges_current group by {FACT} having count(*) > 1".encode()
            ).fetchall()
            assert twice == []
            name = f"person/{chance.choice(PEOPLE)}".lower()
            try:
                connection.execute("select * from aiq.walk(%s, 3)", (name,)).fetchall()
            except (psycopg.errors.NoDataFound, psycopg.errors.CardinalityViolation):
                continue  # not there yet, or one in several scopes
            with self.lock:
                self.walks += 1


@pytest.mark.slow
def test_writers_and_readers_at_once_leave_what_any_order_of_them_would(
    make_database: Callable[[], str],
) -> None:
    dsn = make_database()
    install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        facts = Facts(connection)
        facts.prepare()
        for name in PEOPLE[:2]:
            facts.typed("person", name.lower())
        soak = Soak(dsn)
        soak.run()
        assert soak.wrong == []
        # The soak was one: everything happened, and more than once.
        assert len(soak.stated) > 50
        assert len(soak.closed) > 5
        assert soak.promotions > 0
        assert soak.walks > 5
        check_periods(connection)
        check_statements(connection, soak)
        check_closings(connection, soak)
        time.sleep(1)  # counts reach the statistics when a session has ended
        assert facts.one(
            "select deadlocks from pg_stat_database where datname = current_database()"
        ) == 0  # fmt: skip


def check_periods(connection: psycopg.Connection[Any]) -> None:
    """Of one fact, one edge is open and no two periods overlap."""
    open_twice = connection.execute(
        f"select {FACT} from aiq.edges where valid_to is null"
        f" group by {FACT} having count(*) > 1".encode()
    ).fetchall()
    assert open_twice == []
    overlapping = connection.execute(
        f"select a.id, b.id from aiq.edges as a join aiq.edges as b"
        f" on ({qualified('a')}) is not distinct from ({qualified('b')}) and a.id < b.id"
        " where a.valid_to is distinct from a.valid_from"
        " and b.valid_to is distinct from b.valid_from"
        " and tstzrange(a.valid_from, a.valid_to) && tstzrange(b.valid_from, b.valid_to)".encode()
    ).fetchall()
    assert overlapping == []


def qualified(table: str) -> str:
    return ", ".join(f"{table}.{column}" for column in FACT.split(", "))


def check_statements(connection: psycopg.Connection[Any], soak: Soak) -> None:
    """No acknowledged statement is lost; starts and weights are what they must be."""
    recorded = {
        (row[0], row[1]): (row[2], row[3])
        for row in connection.execute(
            "select edge_id, memory, stated_from, weight from aiq.edge_assertions"
        )
    }
    for edge, memory, start, weight in soak.stated:
        assert recorded[edge, memory][0] <= start
        assert recorded[edge, memory][1] >= weight
    stated_of: dict[int, list[tuple[datetime, float]]] = defaultdict(list)
    for (edge, _memory), given in recorded.items():
        stated_of[edge].append(given)
    rows = connection.execute(
        f"""
        select e.id, e.weight, e.valid_from, (
            select max(p.valid_to) from aiq.edges as p
            where
                ({qualified("p")}) is not distinct from ({qualified("e")})
                and p.id <> e.id and p.valid_to > p.valid_from and p.valid_to <= e.valid_from
        ), exists (
            select from aiq.node_promotions as m where e.src_id = m.node_id or e.dst_id = m.node_id
        )
        from aiq.edges as e
        """.encode()
    ).fetchall()
    assert {row[0] for row in rows} == set(stated_of)
    for edge, weight, start, before, promoted in rows:
        stated = stated_of[edge]
        assert weight == max(one for _, one in stated)
        expected = max(min(begin for begin, _ in stated), before or day(-1))
        # Periods that stayed behind with a soft node have moved a start, too.
        assert start >= expected if promoted else start == expected


def check_closings(connection: psycopg.Connection[Any], soak: Soak) -> None:
    """Each edge that has an end was closed by the one whose call was acknowledged."""
    ended = connection.execute(
        "select id, valid_to, closed_by from aiq.edges where valid_to is not null order by id"
    ).fetchall()
    assert ended == sorted(soak.closed)


def test_two_writers_of_the_same_new_fact_write_one(facts: Facts) -> None:
    """Whoever comes second waits, joins the edge of the first, and moves its start."""
    dsn = facts.connection.info.dsn
    graph = Jsonb(
        {"nodes": [{"k": "person", "n": "a"}, {"k": "person", "n": "b"}],
         "edges": [{"s": 0, "t": 1, "r": "knows"}]}
    )  # fmt: skip
    answers: list[Any] = []

    def second() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            answers.append(
                connection.execute(
                    "select aiq.upsert_graph(%s, %s)",
                    (graph, Jsonb({"valid_from": "2024-01-01", "memory": "second"})),
                ).fetchone()
            )

    with facts.connection.transaction():
        first = facts.call("upsert_graph", graph, Jsonb({"valid_from": "2024-02-01"}))
        thread = threading.Thread(target=second)
        thread.start()
        wait_for_a_waiter(facts)
    thread.join(10)
    assert answers[0][0]["edges"] == first["edges"]
    assert facts.spans() == [("2024-01-01", None)]


@pytest.mark.parametrize("stated", ["2024-01-01", "2024-02-15", "2024-04-01"])
def test_a_writer_that_waited_for_a_close_begins_after_it(facts: Facts, stated: str) -> None:
    dsn = facts.connection.info.dsn
    edge = facts.state("person/a", "knows", "person/b", valid_from="2024-02-01")

    def state() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            Facts(connection).state("person/a", "knows", "person/b", valid_from=stated)

    with facts.connection.transaction():
        facts.close("2024-03-01", edge_id=edge)
        thread = threading.Thread(target=state)
        thread.start()
        wait_for_a_waiter(facts)
    thread.join(10)
    assert facts.spans() == [("2024-02-01", "2024-03-01"), (max(stated, "2024-03-01"), None)]


def test_a_close_that_waited_for_another_finds_nothing(facts: Facts) -> None:
    dsn = facts.connection.info.dsn
    edge = facts.state("person/a", "knows", "person/b", valid_from="2024-02-01")
    errors: list[psycopg.Error] = []

    def close() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            try:
                Facts(connection).close("2024-04-01", edge_id=edge)
            except psycopg.Error as error:
                errors.append(error)

    with facts.connection.transaction():
        facts.close("2024-03-01", edge_id=edge)
        thread = threading.Thread(target=close)
        thread.start()
        wait_for_a_waiter(facts)
    thread.join(10)
    assert [error.sqlstate for error in errors] == ["P0002"]
    assert facts.spans() == [("2024-02-01", "2024-03-01")]


def test_a_writer_that_waited_for_a_promotion_writes_of_the_typed_node(facts: Facts) -> None:
    dsn = facts.connection.info.dsn
    facts.state("ship/Dawn", "owns", "company/Acme")
    (soft, acme) = facts.periods()[0].src, facts.periods()[0].dst
    ship = facts.typed("company", "meridian dawn")
    edges: list[int] = []

    def state() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            edges.append(Facts(connection).state("ship/Dawn", "owns", "company/Bolt"))

    with facts.connection.transaction():
        facts.call("promote_soft_node", soft, ship)
        thread = threading.Thread(target=state)
        thread.start()
        wait_for_a_waiter(facts)
    thread.join(10)
    assert facts.periods(edges[0])[0].src == ship
    assert {(row.src, row.dst) for row in facts.periods() if row.src == ship} >= {(ship, acme)}


def test_a_node_that_moves_while_its_edges_are_written_takes_them_along(facts: Facts) -> None:
    """The copies of a node's scope on its edges are right whoever comes first."""
    dsn = facts.connection.info.dsn
    anna = facts.typed("person", "anna")
    edges: list[int] = []

    def state() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            edges.append(Facts(connection).state("person/Anna", "knows", "person/b"))

    with facts.connection.transaction():
        facts.connection.execute("update aiq.nodes set org_id = %s where id = %s", (ORG_A, anna))
        thread = threading.Thread(target=state)
        thread.start()
        wait_for_a_waiter(facts)
    thread.join(10)
    # Shared facts do not join what has become an organisation's.
    assert facts.periods(edges[0])[0].src != anna
    assert facts.one(
        "select count(*) from aiq.edges as e join aiq.nodes as n on n.id = e.src_id"
        " where e.src_audience is distinct from n.audience"
    ) == 0  # fmt: skip


def wait_for_a_waiter(facts: Facts) -> None:
    """Wait until another session of this database waits for a lock."""
    deadline = time.monotonic() + 10
    with psycopg.connect(facts.connection.info.dsn, autocommit=True) as watcher:
        while time.monotonic() < deadline:
            row = watcher.execute(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and wait_event_type = 'Lock'"
            ).fetchone()
            if row is not None and row[0]:
                return
            time.sleep(0.01)
    pytest.fail("nobody waits")
