"""Whatever is written, undone and refreshed in whatever order: the index answers as pg_trgm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from graphalgo.install import install
from tests.support.names import OURS, PG_TRGM, refresh, use_index, write_names

WORDS = ("north", "norths", "sea", "seas", "ltd", "limited", "é", "海上", "c++", "a", "?")
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
NODES = st.integers(1, 12)


def machine_on(dsn: str) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        """One backend writes inside transactions and savepoints; another one looks on."""

        def __init__(self) -> None:
            super().__init__()
            self.writer = psycopg.connect(dsn)
            self.reader = psycopg.connect(dsn, autocommit=True)
            self.saved = 0

        @initialize()
        def start(self) -> None:
            use_index(self.writer)
            use_index(self.reader)
            self.writer.execute("truncate aiq.nodes, aiq.node_keys cascade")
            self.writer.execute("truncate aiq.name_segments, aiq.name_lists, aiq.name_changes")
            write_names(self.writer, ["north sea ltd"] * 12)
            refresh(self.writer)
            self.writer.commit()

        @rule(node=NODES, name=NAMES)
        def insert(self, node: int, name: str) -> None:
            self.writer.execute(
                "insert into aiq.node_keys (node_id, key, kind) values (%s, %s, 'alias')"
                " on conflict (node_id, key) do update set is_name = not aiq.node_keys.is_name",
                [node, name],
            )

        @rule(node=NODES, name=NAMES)
        def rename(self, node: int, name: str) -> None:
            self.writer.execute(
                "update aiq.node_keys as k set key = %(name)s"
                " where node_id = %(node)s and kind = 'canonical' and not exists ("
                "select from aiq.node_keys as o where o.node_id = k.node_id and o.key = %(name)s)",
                {"node": node, "name": name},
            )

        @rule(node=NODES)
        def delete(self, node: int) -> None:
            self.writer.execute("delete from aiq.node_keys where node_id = %s", [node])

        @rule(node=NODES)
        def write_again_as_it_is(self, node: int) -> None:
            self.writer.execute("update aiq.node_keys set soft = soft where node_id = %s", [node])

        @rule(node=NODES)
        def retire_or_restore(self, node: int) -> None:
            self.writer.execute(
                "update aiq.nodes set retired_at = case when retired_at is null then now() end"
                " where id = %s",
                [node],
            )

        @rule(rebuild=st.booleans())
        def refresh_in_the_transaction(self, rebuild: bool) -> None:
            refresh(self.writer, rebuild=rebuild)

        @rule()
        def refresh_by_another(self) -> None:
            refresh(self.reader)

        @rule()
        def commit(self) -> None:
            self.writer.commit()
            self.saved = 0

        @rule()
        def roll_back(self) -> None:
            self.writer.rollback()
            self.saved = 0

        @rule()
        def save(self) -> None:
            self.saved += 1
            self.writer.execute(f"savepoint s{self.saved}".encode())

        @rule()
        def roll_back_to_what_was_saved(self) -> None:
            if self.saved:
                self.writer.execute(f"rollback to s{self.saved}".encode())

        @invariant()
        def both_find_what_pg_trgm_finds(self) -> None:
            for connection in (self.writer, self.reader):
                assert _found(connection, OURS) == _found(connection, PG_TRGM)

        def teardown(self) -> None:
            self.writer.close()
            self.reader.close()

    return Machine


def _found(connection: psycopg.Connection[Any], statement: str) -> list[Any]:
    probes = ["north sea ltd", "norths", "海上 a", "?"]
    with connection.cursor(binary=True) as cursor:
        return sorted(cursor.execute(statement, [probes, 0.35]).fetchall())


@pytest.fixture(scope="module")
def names_dsn(make_database: Callable[[], str]) -> str:
    made = make_database()
    install(made)
    return made


def test_the_index_answers_as_pg_trgm_after_any_writes(names_dsn: str) -> None:
    machine = machine_on(names_dsn)
    machine.TestCase.settings = settings(
        max_examples=20, stateful_step_count=20, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    machine.TestCase("runTest").runTest()
