"""The index of names answers as pg_trgm does, to the last bit, and as of this statement."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

import psycopg
import pytest

from graphalgo.engine.errors import InvalidValue
from graphalgo.install import install, uninstall
from graphalgo.names.finding import similar_names
from graphalgo.stores.client import ClientStore
from tests.support.names import (
    SERVED,
    THRESHOLDS,
    assert_exact,
    hard_names,
    random_names,
    refresh,
    use_index,
    write_names,
)
from tests.support.timing import soon

ORG_A, ORG_B = ("a0000000-0000-0000-0000-00000000000a", "b0000000-0000-0000-0000-00000000000b")
USER_A = "e0000000-0000-0000-0000-00000000000a"


@pytest.fixture(scope="module")
def names_dsn(make_database: Callable[[], str]) -> str:
    made = make_database()
    install(made)
    return made


@pytest.fixture
def connection(names_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection to a database without names, in a transaction to be rolled back."""
    with psycopg.connect(names_dsn) as made:
        use_index(made)
        yield made
        made.rollback()


def make_tenants(connection: psycopg.Connection[Any]) -> None:
    """Make two organisations, and a user who belongs to the first."""
    connection.execute("insert into rbac.orgs (id) values (%s), (%s)", [ORG_A, ORG_B])
    connection.execute("insert into rbac.users (id) values (%s)", [USER_A])
    connection.execute("insert into rbac.org_members values (%s, %s)", [ORG_A, USER_A])


def test_hard_names_are_found_as_pg_trgm_finds_them(
    connection: psycopg.Connection[Any],
) -> None:
    names = hard_names()
    write_names(connection, names)
    refresh(connection)
    assert connection.execute(SERVED).fetchone() == (True,)
    assert assert_exact(connection, [*names, "", "unheard of"], THRESHOLDS) > 10_000


def test_random_names_in_several_segments_are_found_as_pg_trgm_finds_them(
    connection: psycopg.Connection[Any],
) -> None:
    first = 1
    for seed, count in enumerate((3_000, 400, 40, 7)):
        write_names(connection, random_names(count, seed), first)
        first += count
        if count > 7:
            refresh(connection)
    segments = connection.execute("select count(*) from aiq.name_segments").fetchone()
    assert segments == (3,), "the segments are not merged: each is a small part of the last"
    assert assert_exact(connection, random_names(25, 99), THRESHOLDS) > 1_000


def test_names_held_by_a_thousand_are_found_with_every_holder(
    connection: psycopg.Connection[Any],
) -> None:
    write_names(connection, ["north sea freight"] * 1_500 + ["north sea fright"] * 3)
    refresh(connection)
    assert assert_exact(connection, ["north sea freight", "north"], (0.3, 0.6, 1.0)) >= 4_503


def test_a_list_is_searched_as_a_bitmap_and_as_numbers(
    connection: psycopg.Connection[Any],
) -> None:
    write_names(connection, [f"limited {number * 7919 % 100_003}" for number in range(20_000)])
    refresh(connection)
    kinds = connection.execute(
        "select bitmap, count(*) from aiq.name_lists group by bitmap order by bitmap"
    ).fetchall()
    assert [kind for kind, _ in kinds] == [False, True]
    assert assert_exact(connection, ["limited 12345", "limited", "77 limited"], (0.4, 0.8)) > 50


def test_each_of_a_nodes_names_has_its_own_similarity(
    connection: psycopg.Connection[Any],
) -> None:
    write_names(connection, random_names(200, 15))
    names = ["northern star", "northern star lines", "star northern", "northern stars ltd"]
    held = (
        "insert into aiq.node_keys (node_id, key, kind, is_name)"
        " select u.number %% 3 + 1, u.name || ' ' || repeat('x', (u.number / 3)::int),"
        " 'alias', true"
        " from unnest(%s::text[]) with ordinality as u (name, number)"
    )
    connection.execute(held, [names])
    refresh(connection)
    connection.execute(held.replace("|| ' ' ||", "|| ' co ' ||"), [names])
    assert assert_exact(connection, [*names, "star"], (0.3, 0.5, 0.8, 1.0)) > 40
    # Written again as it was, a name is in two segments, and is found once.
    connection.execute("update aiq.node_keys set is_name = false where key like 'northern%'")
    connection.execute("update aiq.node_keys set is_name = true where key like 'northern%'")
    refresh(connection)
    assert assert_exact(connection, [*names, "star"], (0.3, 0.5, 0.8, 1.0)) > 40


def test_what_is_written_changed_and_deleted_counts_in_the_next_statement(
    connection: psycopg.Connection[Any],
) -> None:
    def found(name: str) -> set[int]:
        rows = connection.execute("select node_id from aiq.similar_keys(array[%s], 0.7)", [name])
        return {row[0] for row in rows}

    write_names(connection, random_names(300, 5))
    refresh(connection)
    assert found("silver harbour") == set()
    write_names(connection, ["silver harbour", "silver harbor"], 1_001)
    assert found("silver harbour") == {1_001, 1_002}
    connection.execute("savepoint before")
    connection.execute("update aiq.node_keys set key = 'golden gate' where node_id = 1001")
    assert found("silver harbour") == {1_002}
    assert found("golden gates") == {1_001}
    connection.execute("rollback to before")
    assert found("silver harbour") == {1_001, 1_002}
    assert found("golden gates") == set()
    connection.execute("update aiq.nodes set retired_at = now() where id = 1002")
    assert found("silver harbour") == {1_001}
    refresh(connection)
    connection.execute("update aiq.nodes set retired_at = null where id = 1002")
    assert found("silver harbour") == {1_001, 1_002}
    connection.execute("update aiq.node_keys set is_name = false where node_id = 1001")
    assert found("silver harbour") == {1_002}
    connection.execute("delete from aiq.node_keys where node_id = 1002")
    assert found("silver harbour") == set()
    refresh(connection)
    connection.execute("update aiq.node_keys set is_name = true where node_id = 1001")
    assert found("silver harbour") == {1_001}


def test_a_refresh_folds_in_what_was_written_and_forgets_what_is_gone(
    connection: psycopg.Connection[Any],
) -> None:
    write_names(connection, random_names(500, 6))
    assert refresh(connection)[3] is True, "the first time all is built"
    write_names(connection, ["a new name", "another new name"], 1_001)
    connection.execute("delete from aiq.node_keys where node_id = 1002")
    assert refresh(connection) == (1, 501, 2, False, False)
    assert connection.execute("select count(*) from aiq.name_changes").fetchone() == (0,)
    assert refresh(connection) == (0, 501, 2, False, False)
    assert refresh(connection, rebuild=True) == (501, 501, 1, True, False)


def test_a_rolled_back_refresh_leaves_no_trace(connection: psycopg.Connection[Any]) -> None:
    names = random_names(400, 7)
    write_names(connection, names)
    refresh(connection)
    write_names(connection, random_names(100, 8), 1_001)
    connection.execute("savepoint before")
    refresh(connection)
    assert_exact(connection, names[:5], (0.3, 0.6))
    connection.execute("rollback to before")
    assert_exact(connection, names[:5], (0.3, 0.6))


def test_the_index_does_not_serve_where_too_much_has_changed_or_words_are_others(
    connection: psycopg.Connection[Any],
) -> None:
    serves = SERVED
    write_names(connection, ["one name"])
    assert connection.execute(serves).fetchone() == (False,), "nothing is built"
    refresh(connection)
    assert connection.execute(serves).fetchone() == (True,)
    connection.execute("set local aiq.name_index_from = 2")
    assert connection.execute(serves).fetchone() == (False,)
    connection.execute("set local aiq.name_index_from = 0")
    connection.execute("savepoint before")
    connection.execute("update aiq.name_segments set ctype = 'other words'")
    assert connection.execute(serves).fetchone() == (False,)
    assert refresh(connection)[3] is True, "made under other words it is built anew"
    connection.execute("rollback to before")
    connection.execute(
        "insert into aiq.name_changes (node_id, key)"
        " select 1, 'one name' from generate_series(1, aiq.most_name_changes() + 1)"
    )
    assert connection.execute(serves).fetchone() == (False,)
    assert assert_exact(connection, ["one name"], (0.5,), served=False) == 1


def test_a_small_cache_answers_the_same_and_keeps_no_more_than_it_may(
    connection: psycopg.Connection[Any],
) -> None:
    names = [sha256(str(number).encode()).hexdigest() for number in range(3_000)]
    write_names(connection, names)
    refresh(connection)
    connection.execute("""
        create function pg_temp.kept() returns table (lists int, others int, changes int)
        language plpython3u as $body$
        cache = GD["graphalgo.name_cache"]
        lists = sum(cache._cost(found) for found in cache._lists.values())
        yield lists, len(cache.segments) + len(cache.changed), cache.changes_size
        $body$
    """)

    def kept(megabytes: int) -> tuple[int, int, int]:
        connection.execute(f"set local aiq.name_cache_mb = {megabytes}".encode())
        assert_exact(connection, names[:5], (0.5,))
        connection.execute("select from aiq.similar_keys(%s, 0.5)", [names[:300]])
        row = connection.execute("select * from pg_temp.kept()").fetchone()
        assert row is not None
        return row

    assert kept(64)[0] > 1 << 20
    assert 0 < kept(1)[0] <= 1 << 20
    write_names(connection, [name[::-1] for name in names[:500]], 10_001)
    lists, _, changes = kept(2)
    assert min(lists, changes) > 0
    assert lists + changes <= 2 << 20
    write_names(connection, [name[::-1] for name in names[500:]], 20_001)
    assert kept(1)[:2] == (0, 3_001), "what was written is more than all that may be kept"
    assert kept(0) == (0, 0, 0)


def test_an_interrupted_search_forgets_nothing_that_was_written(
    connection: psycopg.Connection[Any],
) -> None:
    write_names(connection, random_names(300, 12))
    refresh(connection)
    write_names(connection, ["silver harbour"], 1_001)
    assert assert_exact(connection, ["silver harbour"], (1.0,)) == 1
    connection.execute("savepoint before")
    write_names(connection, random_names(300, 13), 2_001)
    connection.execute("""
        do language plpython3u $body$
        from graphalgo.names import serving, tables

        class Interrupted(Exception):
            pass

        def interrupt_from(number):
            calls = iter(range(1000))

            def check():
                if next(calls) >= number:
                    raise Interrupted

            return check

        ids = plpy.execute(plpy.prepare(serving.STATE, ["text[]"]), [[]])[0]["ids"]
        interrupted = 0
        for number in range(2):
            index = tables.NameIndex(plpy, GD)
            index.check_interrupts = interrupt_from(number)
            try:
                index._changes(ids)
            except Interrupted:
                interrupted += 1
        if interrupted < 2:
            plpy.fatal("it was not interrupted at both places")
        $body$
    """)
    connection.execute("rollback to before")
    assert assert_exact(connection, ["silver harbour"], (1.0,)) == 1


def test_a_name_is_found_wherever_its_row_has_come_to_lie(
    connection: psycopg.Connection[Any],
) -> None:
    names = random_names(400, 17)
    write_names(connection, names)
    connection.execute(
        "insert into aiq.node_keys (node_id, key, kind, is_name)"
        " select 1, key || ' lines', 'alias', true from aiq.node_keys where node_id <= 200"
        " on conflict do nothing"
    )
    refresh(connection)
    rows = assert_exact(connection, names[:20], (0.3, 0.6))
    # Of one node's names some are moved, of others all, and no name changes.
    connection.execute("update aiq.node_keys set soft = soft where node_id % 3 = 1 and key < 'f'")
    changes = connection.execute("select count(*) from aiq.name_changes").fetchone()
    assert changes == (0,), "none has to be read again for it"
    assert assert_exact(connection, names[:20], (0.3, 0.6)) == rows
    # Where a row lay there is another one, or the file has no such block, or it is not known.
    for places in (
        "substr(places, 9) || substr(places, 1, 8)",
        "decode(repeat('0100ffffff000000', octet_length(places) / 8), 'hex')",
        "''",
    ):
        connection.execute(
            f"update aiq.name_segments set token = gen_random_uuid(), places = {places}".encode()
        )
        assert assert_exact(connection, names[:20], (0.3, 0.6)) == rows


def test_names_are_read_where_they_lie_and_not_looked_for_by_their_nodes(
    connection: psycopg.Connection[Any],
) -> None:
    """To look for a node takes three pages of an index beside the name's own."""
    names = random_names(3_000, 21)
    write_names(connection, names)
    refresh(connection)
    # Whichever way callers' plans are made.
    connection.execute("set local plan_cache_mode = force_generic_plan")

    def searched() -> Any:
        return connection.execute(
            "select pg_stat_get_xact_numscans('aiq.node_keys'::regclass),"
            " pg_stat_get_xact_numscans('aiq.node_keys_pkey'::regclass)"
        ).fetchone()

    before = searched()
    asked = "select count(*) from aiq.similar_keys(%s::text[], 0.5)"
    found = connection.execute(asked, [names[:50]]).fetchone()
    assert searched() == before
    connection.execute("update aiq.name_segments set token = gen_random_uuid(), places = ''")
    assert connection.execute(asked, [names[:50]]).fetchone() == found
    assert searched() != before, "by their nodes, where it is not known where they lie"


def test_where_the_table_was_written_anew_the_next_refresh_builds_anew(
    make_database: Callable[[], str],
) -> None:
    dsn = make_database()
    install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        use_index(connection)
        names = random_names(300, 18)
        write_names(connection, names)
        assert refresh(connection)[3] is True
        assert refresh(connection)[3] is False
        connection.execute("delete from aiq.node_keys where node_id % 2 = 1")
        connection.execute("vacuum full aiq.node_keys")
        assert_exact(connection, names[:20], (0.3, 0.6))
        assert refresh(connection)[3] is True
        assert refresh(connection)[3] is False
        assert_exact(connection, names[:20], (0.3, 0.6))


def test_of_names_that_have_moved_a_caller_sees_their_own_alone(
    connection: psycopg.Connection[Any],
) -> None:
    make_tenants(connection)
    write_names(connection, ["northern star line"] * 8)
    refresh(connection)
    # Written anew with their scope; then, once more, one of each that all see and that A sees.
    connection.execute("update aiq.nodes set org_id = %s where id in (1, 2, 3)", [ORG_A])
    connection.execute("update aiq.nodes set org_id = %s where id in (4, 5)", [ORG_B])
    refresh(connection, rebuild=True)
    connection.execute("update aiq.node_keys set soft = soft where node_id in (1, 4, 6)")
    asked = "select node_id from aiq.similar_keys('{northern star lines}', 0.6) order by 1"
    for claims, wanted in (
        ("", [6, 7, 8]),
        (f'{{"sub": "{USER_A}"}}', [1, 2, 3, 6, 7, 8]),
    ):
        connection.execute("select set_config('request.jwt.claims', %s, true)", [claims])
        connection.execute("set local role authenticated")
        assert [row[0] for row in connection.execute(asked).fetchall()] == wanted
        connection.execute("reset role")


@pytest.mark.parametrize(
    ("name", "value", "example"),
    [("name_cache_mb", "much", 64), ("name_index_from", "-1", 10_000)],
)
def test_a_setting_that_is_no_number_is_refused_by_name(
    connection: psycopg.Connection[Any], name: str, value: str, example: int
) -> None:
    write_names(connection, ["one name"])
    refresh(connection)
    connection.execute("select set_config(%s, %s, true)", [f"aiq.{name}", value])
    for asked in ("aiq.similar_keys('{one}', 0.5)", "aiq.similar_names('{one}')"):
        with (
            pytest.raises(psycopg.errors.InvalidParameterValue) as raised,
            connection.transaction(),
        ):
            connection.execute(f"select * from {asked}")
        said = raised.value.diag
        assert said.message_primary == (
            f'the setting aiq.{name} is "{value}", but must be a number from 0 to 999999999'
        )
        assert said.message_hint == f"Write for example set aiq.{name} = {example}."
    with pytest.raises(InvalidValue, match=name), connection.transaction():
        similar_names(ClientStore(connection), ["one"])


def test_names_are_not_taken_for_those_of_an_index_that_was_there_before(
    make_database: Callable[[], str],
) -> None:
    made = make_database()
    with psycopg.connect(made, autocommit=True) as session:
        for name in ("silver harbour", "bronze bay"):
            install(made)
            with psycopg.connect(made, autocommit=True) as writer:
                write_names(writer, random_names(100, 14))
                refresh(writer)
                write_names(writer, [name], 1_001)
            use_index(session)
            assert assert_exact(session, [name], (1.0,)) == 1
            uninstall(made)


def test_the_trigrams_of_a_name_with_a_capital_are_told_apart(
    connection: psycopg.Connection[Any],
) -> None:
    # A Turkish server takes the lower case of I for a letter that is not ASCII, and shows
    # the trigrams of this name as numbers.
    write_names(connection, ["IO"])
    row = connection.execute("select tokens from aiq.name_tokens").fetchone()
    assert row is not None
    assert len(row[0].split(",")) == 3


def test_a_refresh_where_nothing_may_be_written_is_refused_though_there_is_nothing_to_write(
    names_dsn: str,
) -> None:
    with psycopg.connect(names_dsn, autocommit=True) as connection:
        connection.execute("begin read only")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="only reads") as raised:
            refresh(connection)
        assert "transaction of its own" in (raised.value.diag.message_hint or "")


def test_two_tenants_see_their_own_names_alone(connection: psycopg.Connection[Any]) -> None:
    make_tenants(connection)
    write_names(connection, ["northern star line"] * 6)
    connection.execute("update aiq.nodes set org_id = %s where id in (1, 2)", [ORG_A])
    connection.execute("update aiq.nodes set org_id = %s where id in (3, 4)", [ORG_B])
    asked = (
        "select node_id from aiq.similar_names('{northern star lines}', p_limit => 2) order by 1"
    )

    def seen(claims: str) -> list[int]:
        connection.execute("select set_config('request.jwt.claims', %s, true)", [claims])
        connection.execute("set local role authenticated")
        rows = connection.execute(asked).fetchall()
        every = connection.execute(
            "select count(*) from aiq.similar_keys('{northern star lines}', 0.6)"
        ).fetchone()
        connection.execute("reset role")
        return [*(row[0] for row in rows), *(every or ())]

    for _ in range(2):  # from what was written since, then from a segment
        assert seen("") == [5, 6, 2]
        assert seen(f'{{"sub": "{USER_A}"}}') == [1, 2, 4]
        refresh(connection)


def test_callers_may_neither_read_nor_refresh_the_index(
    connection: psycopg.Connection[Any],
) -> None:
    for statement in (
        "select * from aiq.name_changes",
        "select * from aiq.name_tokens",
        "select * from aiq.indexed_name_candidates('{}', 0.5)",
        "select * from aiq.moved_names('{}', '{}', '{}')",
        "select * from aiq.refresh_names()",
    ):
        for role in ("authenticated", "web_anon"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(f"set local role {role}".encode())
                connection.execute(statement.encode())


def test_the_owner_sees_no_name_that_was_noted(connection: psycopg.Connection[Any]) -> None:
    write_names(connection, ["a secret name"])
    connection.execute("set local role aiq_owner")
    assert connection.execute("select count(*) from aiq.name_changes").fetchone() == (0,)


def test_similar_names_scores_by_other_means_or_says_what_is_missing(
    connection: psycopg.Connection[Any],
) -> None:
    write_names(connection, ["meridian dawn", "meridian down", "dawn meridian shipping"])
    rows = connection.execute(
        "select node_id, score, candidate_similarity"
        " from aiq.similar_names('{Meridian Dawn, x}', 0.5)"
    ).fetchall()
    assert rows[0] == (1, 1.0, 0.5)
    try:
        with connection.transaction():
            found = connection.execute(
                "select node_id, score::float8, candidate_similarity::float8"
                " from aiq.similar_names('{meridian dawn}', 0.95, p_scorer => 'token_set')"
            ).fetchall()
    except psycopg.Error as error:
        assert error.sqlstate == "55000"
        assert "rapidfuzz" in str(error)
    else:
        assert {row[0] for row in found} == {1, 3}
        assert found[0][2] == pytest.approx(0.3)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="p_scorer"):
        connection.execute("select * from aiq.similar_names('{a}', p_scorer => 'best')")


@pytest.mark.parametrize("milliseconds", [30, 120])
def test_a_timeout_strikes_within_a_quarter_of_a_second(
    make_database: Callable[[], str], milliseconds: int
) -> None:
    made = make_database()
    install(made)
    with psycopg.connect(made, autocommit=True) as connection:
        use_index(connection)
        names = random_names(20_000, 11)
        write_names(connection, names)
        for statement in (
            "select * from aiq.refresh_names(true)",
            "select count(*) from aiq.similar_keys(%(names)s, 0.3)",
        ):
            soon(
                partial(seconds_until_cancelled, connection, statement, milliseconds, names),
                lambda taken: taken < milliseconds / 1000 + 0.25,
            )


def seconds_until_cancelled(
    connection: psycopg.Connection, statement: str, milliseconds: int, names: list[str]
) -> float:
    refresh(connection)
    connection.execute(f"set statement_timeout = {milliseconds}".encode())
    started = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled) as cancelled:
        connection.execute(statement.encode(), {"names": names[:3_000]})
    taken = time.monotonic() - started
    said = cancelled.value.diag.message_primary
    assert said == "canceling statement due to statement timeout"
    connection.execute("set statement_timeout = 0")
    return taken


def test_writers_readers_and_refreshes_at_once(make_database: Callable[[], str]) -> None:
    made = make_database()
    install(made)
    seconds = float(os.environ.get("GRAPHALGO_SOAK_SECONDS", "4"))
    with psycopg.connect(made, autocommit=True) as connection:
        write_names(connection, random_names(2_000, 12))
        refresh(connection)
    _Soak(made, seconds).run()


# What a soak has to do at the least, to have tried anything.
ENOUGH = 50


class _Soak:
    """Eight writers, eight readers and a worker that refreshes, each on its own connection.

    Each writer owns a word that no other name resembles; what it has committed, and
    nothing else, must be found by it, by the writer at once and by readers as of a
    snapshot in which they count it in the table itself.
    """

    def __init__(self, dsn: str, seconds: float) -> None:
        self.dsn = dsn
        began = time.monotonic()
        self.end, self.at_the_latest = began + seconds, began + 20 * seconds
        self.failures: list[str] = []
        self.done = 0

    def run(self) -> None:
        jobs = [(self.write, number) for number in range(8)]
        jobs += [(self.read, number) for number in range(8)]
        jobs.append((self.refresh, 0))
        threads = [threading.Thread(target=self._guarded, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not self.failures, self.failures[:3]
        assert self.done > ENOUGH

    def goes_on(self) -> bool:
        """Tell whether there is time left, or on a busy machine too little was done in it."""
        now = time.monotonic()
        return now < self.end or (self.done <= ENOUGH and now < self.at_the_latest)

    def _guarded(self, job: Callable[[psycopg.Connection[Any], int], None], number: int) -> None:
        try:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                use_index(connection)
                while self.goes_on() and not self.failures:
                    job(connection, number)
                    self.done += 1
        except BaseException as error:
            self.failures.append(f"{job.__name__}: {error!r}")

    @staticmethod
    def word(number: int) -> str:
        return "zqxjkvwy"[number] * 3 + f"word{number}"

    def check(self, connection: psycopg.Connection[Any], number: int, what: str) -> None:
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read")
            word = self.word(number)
            wanted = connection.execute(
                "select node_id, key from aiq.node_keys where similarity(key, %s) >= 0.5::real",
                [word],
            ).fetchall()
            found = connection.execute(
                "select node_id, key from aiq.similar_keys(array[%s], 0.5)", [word]
            ).fetchall()
            if sorted(found) != sorted(wanted):
                self.failures.append(f"{what}: {sorted(found)} is not {sorted(wanted)}")

    def write(self, connection: psycopg.Connection[Any], number: int) -> None:
        random = Random(time.monotonic_ns())
        node = 10_000 + number * 100_000 + random.randrange(60)
        try:
            with connection.transaction():
                connection.execute(
                    "insert into aiq.nodes (id, entity_type) values (%s, 'company')"
                    " on conflict do nothing",
                    [node],
                )
                connection.execute("delete from aiq.node_keys where node_id = %s", [node])
                if random.random() < 0.7:
                    connection.execute(
                        "insert into aiq.node_keys (node_id, key, kind)"
                        " values (%s, %s, 'canonical')",
                        [node, f"{self.word(number)} {random.randrange(10)}"],
                    )
                if random.random() < 0.2:
                    raise _Undone
        except _Undone:
            pass
        self.check(connection, number, "writer")

    def read(self, connection: psycopg.Connection[Any], number: int) -> None:
        self.check(connection, number, "reader")

    def refresh(self, connection: psycopg.Connection[Any], number: int) -> None:
        refresh(connection, rebuild=Random(time.monotonic_ns()).random() < 0.1)
        time.sleep(0.1)


class _Undone(Exception):
    """Thrown to have a transaction rolled back."""
