"""With pgvector: the same answers as without it, and the approximate search."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from graphalgo.engine.errors import MissingSetting
from graphalgo.install import check, install, uninstall
from graphalgo.stores import passages as searching
from tests.container.conftest import ServerContainer
from tests.support.catalogue import differences, schema_of
from tests.support.facts import ORG_A, ORG_B, USER_A, USER_B
from tests.support.passages import (
    REGISTER,
    TABLE,
    array_text,
    embedded,
    empty_tables,
    put,
    speaking,
)
from tests.support.timing import soon
from tests.support.vectors import DISTANCES, Vectors, oracle, real, scattered

Connection = psycopg.Connection[Any]
EXTENSION = """
create schema if not exists "Odd schema";
create extension if not exists vector schema "Odd schema";
grant usage on schema "Odd schema" to aiq_owner, aiq_engine;
"""


def _available(connection: Connection) -> bool:
    row = connection.execute(
        "select exists (select from pg_available_extensions where name = 'vector')"
    ).fetchone()
    return row == (True,)


@pytest.fixture(scope="session")
def vector_dsn(server: ServerContainer) -> str:
    """A database with graphalgo and, installed after it in a schema of its own, pgvector."""
    name = "with_vectors"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        if not _available(connection):
            pytest.skip("this server has no pgvector")
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    dsn = server.dsn(name)
    install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        before = schema_of(dsn)
        connection.execute(EXTENSION)
        assert differences(before, schema_of(dsn)).keys() <= {"extensions"}
    return dsn


@pytest.fixture
def notes(vector_dsn: str) -> Iterator[Connection]:
    with empty_tables(vector_dsn) as connection:
        connection.execute(TABLE)
        connection.execute(REGISTER)
        yield connection


def _model(connection: Connection, dim: int, kind: str) -> None:
    connection.execute("select aiq.register_embedding_model('small', %s, %s)", [dim, kind])


def _write(connection: Connection, vectors: Vectors, org: str | None = None) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy("copy harbour.notes (id, title, content, org) from stdin") as copy,
    ):
        for one in vectors:
            copy.write_row((one, f"note {one}", "x", org))
    ids = list(vectors)
    for start in range(0, len(ids), 5_000):
        block = ids[start : start + 5_000]
        put(connection, block, [vectors[one] for one in block])


@pytest.mark.parametrize("kind", DISTANCES)
def test_the_nearest_are_the_exactly_nearest(notes: Connection, kind: str) -> None:
    """Ties and near-ties that single precision cannot tell apart come in the exact order."""
    vectors, target = scattered(400, 24, seed=7)
    _model(notes, 24, kind)
    _write(notes, vectors)
    for limit in (1, 7, 50, 399, 1000):
        expected = oracle(kind, vectors, target, limit)
        with speaking(notes, None) as store:
            assert store.vector_ranking("notes", "small", target, limit) == expected
        row = notes.execute(
            "select aiq.query(%s, %s)",
            [f'SEMANTIC "x" FROM notes USING "small" LIMIT {limit}', array_text(target)],
        ).fetchone()
        assert row is not None
        assert [(one["id"], one["distance"]) for one in row[0]["rows"]] == expected


@pytest.mark.parametrize("kind", DISTANCES)
def test_pgvector_is_asked(notes: Connection, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, target = scattered(50, 8, seed=2)
    _model(notes, 8, kind)
    _write(notes, vectors)
    monkeypatch.setattr(searching, "ALL_VECTORS", "select 1/0")
    with speaking(notes, None) as store:
        assert store.vector_ranking("notes", "small", target, 9) == oracle(kind, vectors, target, 9)


@pytest.mark.parametrize("kind", DISTANCES)
def test_vectors_of_extreme_lengths_are_ranked_too(notes: Connection, kind: str) -> None:
    choice = random.Random(3)
    scales = (1e-42, 1e-30, 1e-20, 1e-11, 1e-9, 1.0, 1e9, 1e11, 1e19, 1e30, 1e38)
    vectors = {
        one: [real(scales[one % len(scales)] * choice.uniform(-3, 3)) for _ in range(4)]
        for one in range(1, 111)
    }
    _model(notes, 4, kind)
    _write(notes, vectors)
    for scale in scales:
        target = [real(scale * choice.uniform(-3, 3)) for _ in range(4)]
        with speaking(notes, None) as store:
            assert store.vector_ranking("notes", "small", target, 30) == oracle(
                kind, vectors, target, 30
            )


def test_without_the_schema_s_usage_the_search_goes_without_pgvector(notes: Connection) -> None:
    vectors, target = scattered(50, 8, seed=2)
    _model(notes, 8, "l2")
    _write(notes, vectors)
    notes.execute('revoke usage on schema "Odd schema" from aiq_engine')
    try:
        with speaking(notes, None) as store:
            assert store.vector_ranking("notes", "small", target, 9) == oracle(
                "l2", vectors, target, 9
            )
    finally:
        notes.execute('grant usage on schema "Odd schema" to aiq_engine')


def _clustered(count: int, width: int, clusters: int) -> dict[int, list[float]]:
    choice = random.Random(11)
    centres = [[choice.gauss(0, 1) for _ in range(width)] for _ in range(clusters)]
    return {
        one: [real(number + 0.15 * choice.gauss(0, 1)) for number in centres[one % clusters]]
        for one in range(1, count + 1)
    }


@pytest.mark.parametrize("kind", DISTANCES)
def test_a_small_tenant_gets_all_its_rows_from_the_index(notes: Connection, kind: str) -> None:
    """The nearest of all are others'; a scan that stops after them would leave none."""
    vectors = _clustered(6_000, 16, 20)
    # The caller's are all in the cluster that is farthest from what is asked for.
    mine = {one: vector for one, vector in vectors.items() if one % 20 == 7 and one <= 1_000}
    others = {one: vector for one, vector in vectors.items() if one not in mine}
    _model(notes, 16, kind)
    _write(notes, others, ORG_B)
    _write(notes, mine, ORG_A)
    # Before the settings are looked at: it loads the library, which has some of its own.
    notes.execute("select aiq.index_embeddings('small')")
    target = vectors[3]
    before = _settings(notes)

    def hits() -> tuple[int, int]:
        notes.execute("select aiq.index_embeddings('small', false)")
        notes.execute("select aiq.index_embeddings('small')")
        notes.execute("analyze aiq.chunk_vectors; analyze aiq.text_chunks")
        with speaking(notes, USER_A) as store:
            found = store.approximate_ranking("notes", "small", target, 10)
            assert len(found) == 10 and {one for one, _ in found} <= set(mine)
            exact = oracle(kind, mine, target, 10)
            of_mine = len({one for one, _ in found} & {one for one, _ in exact})
            # Distances are exact ones, and the order is theirs.
            assert found == [one for one in oracle(kind, mine, target, 50) if one in found]
            assert len(store.approximate_ranking("notes", "small", target, 100)) == len(mine)
        with speaking(notes, USER_B) as store:
            found = store.approximate_ranking("notes", "small", target, 10)
            exact = oracle(kind, others, target, 10)
            of_others = len({one for one, _ in found} & {one for one, _ in exact})
        with speaking(notes, None) as store:
            assert store.approximate_ranking("notes", "small", target, 10) == []
        return of_mine, of_others

    # pgvector draws the layers of its index by lot: one that misses is made anew.
    soon(hits, lambda found: found[0] >= 9 and found[1] >= 8)
    assert _settings(notes) == before


def _settings(connection: Connection) -> list[Any]:
    return connection.execute(
        "select name, setting from pg_settings where name ~ '^(hnsw|enable_|aiq)' order by 1"
    ).fetchall()


def test_the_index_is_what_the_approximate_search_reads(notes: Connection) -> None:
    _model(notes, 8, "cosine")
    _write(notes, _clustered(3_000, 8, 5))
    notes.execute("select aiq.index_embeddings('small')")
    scans = (
        "select coalesce(sum(idx_scan), 0) from pg_stat_user_indexes where indexrelname ~ 'model_'"
    )
    with psycopg.connect(notes.info.dsn, autocommit=True, password=notes.info.password) as fresh:
        before = fresh.execute(scans).fetchone()
        fresh.execute("set aiq.vector_search = 'approximate'")
        row = fresh.execute(
            "select aiq.query(%s, %s)",
            ['SEMANTIC "x" FROM notes USING "small" LIMIT 5', array_text([1] * 8)],
        ).fetchone()
        assert row is not None
        assert row[0]["plan"]["vector_search"] == "approximate"
        assert len(row[0]["rows"]) == 5
        fresh.execute("select pg_stat_force_next_flush()")
        assert fresh.execute(scans).fetchone() != before


def test_a_query_finds_by_the_index_what_the_store_finds(notes: Connection) -> None:
    """Through a statement of its own, with a plan that is kept; and leaves no setting behind."""
    vectors = _clustered(3_000, 8, 5)
    _write_for_two(notes, vectors)
    question = 'SEMANTIC "x" FROM notes USING "small" LIMIT 7'
    target = [0.5, -0.25, 1.5, 0.0, 1e-3, -2.0, 0.75, 0.1]
    texts = [array_text(target), str(target), str([*target[:4], "1e-60", *target[5:]])]
    texts[2] = texts[2].replace("'", "")
    with psycopg.connect(notes.info.dsn, autocommit=True, password=notes.info.password) as fresh:
        for user in (USER_A, USER_B, None, USER_A):
            for text in texts:
                with speaking(fresh, user) as store:
                    fresh.execute("set local aiq.vector_search = 'approximate'")
                    before = _settings(fresh)
                    row = fresh.execute("select aiq.query(%s, %s)", [question, text]).fetchone()
                    changed = [one for one in _settings(fresh) if one not in before]
                    # A library that is loaded brings settings with it.
                    assert {one[1] for one in changed if "enable" in one[0]} == set()
                    assert changed == [] or user == USER_A
                    asked = [real(one) for one in target]
                    if "e-60" in text:
                        asked[4] = 0.0
                    expected = store.approximate_ranking("notes", "small", asked, 7)
                assert row is not None
                found = [(one["id"], one["distance"]) for one in row[0]["rows"]]
                assert found == expected
                assert len(found) == (0 if user is None else 7)
                assert {one["title"] for one in row[0]["rows"]} == {
                    f"note {one}" for one, _ in found
                }


@pytest.mark.parametrize(
    "text",
    [
        "[ 1,\t+.5 , -2. ,\n1e-3, 1E2,0,0,0]", "  {1,2,3,4,5,6,7,8}\n", "[1e-60,1,0,0,0,0,0,0]",
        "[1,2,3]", "[]", "{}", "[,]", "[1,2,3,4,5,6,7,]", "[1,2,3,4,5,6,7,8,9]", "{{1,2},{3,4}}",
        "[1,2,3,4,5,6,7,1 2]", "[1,2,3,4,5,6,7,e]", "[1,2,3,4,5,6,7,-]", "[1,2,3,4,5,6,7,1e39]",
        "[1,2,3,4,5,6,7,1e400]", "[1,2,3,4,5,6,7,1e-400]", "[1,2,3,4,5,6,7,NaN]",
        "[1,2,3,4,5,6,7,inf]", "[1,2,3,4,5,6,7,0x1]", "[1,2,3,4,5,6,7,1_0]", "{1,2,3,4,5,6,7,NULL}",
        '{1,2,3,4,5,6,7,"8"}', "[0,0,0,0,0,0,0,0]", "[1,2,3,4,5,6,7,\u0661]", "1,2,3", "",
        pytest.param("[" + "1," * 16_000 + "1]", id="wider than any"),
    ],
)  # fmt: skip
def test_a_vector_that_the_server_reads_is_one_that_the_dialect_reads(
    notes: Connection, text: str
) -> None:
    """With the approximate search it is the server that reads it first."""
    _write_for_two(notes, _clustered(300, 8, 5))
    told = []
    with psycopg.connect(notes.info.dsn, autocommit=True, password=notes.info.password) as fresh:
        for search in ("exact", "approximate"):
            with speaking(fresh, USER_A):
                fresh.execute(f"set local aiq.vector_search = '{search}'".encode())
                try:
                    with fresh.transaction():
                        row = fresh.execute(
                            "select aiq.query(%s, %s)",
                            ['SEMANTIC "x" FROM notes USING "small" LIMIT 3', text],
                        ).fetchone()
                except psycopg.Error as error:
                    told.append(
                        (error.sqlstate, error.diag.message_primary, error.diag.message_hint)
                    )
                else:
                    assert row is not None
                    told.append(row[0]["rows"])
    assert told[0] == told[1]
    assert told[0]


@contextmanager
def _asking(notes: Connection) -> Iterator[Callable[[str], Any]]:
    """Ask queries of one caller's backend; give rows and how often near_vectors was called."""
    with psycopg.connect(notes.info.dsn, autocommit=True, password=notes.info.password) as fresh:
        fresh.execute("set track_functions = 'all'")

        def ask(question: str, target: Any) -> tuple[list[tuple[int, float]], int]:
            with speaking(fresh, USER_A):
                before = calls()
                fresh.execute("set local aiq.vector_search = 'approximate'")
                row = fresh.execute(
                    "select aiq.query(%s, %s)", [question, array_text(target)]
                ).fetchone()
                assert row is not None
                found = [(one["id"], one["distance"]) for one in row[0]["rows"]]
                return found, calls() - before

        def calls() -> int:
            row = fresh.execute(
                "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions"
                " where funcname = 'near_vectors'"
            ).fetchone()
            assert row is not None
            return int(row[0])

        yield ask


@pytest.mark.parametrize("kind", DISTANCES)
def test_one_statement_of_a_backend_s_own_answers_as_the_slow_way_does(
    notes: Connection, kind: str
) -> None:
    """From the second query on; many and few rows, near-ties, and vectors without squares."""
    vectors = _clustered(3_000, 8, 5)
    for one in range(1, 3_000, 50):
        vectors[one + 2] = [real(number * (1 + 2e-7)) for number in vectors[one]]
        vectors[one + 4] = vectors[one]
    target = vectors[1]
    _write_for_two(notes, vectors, kind)
    with _asking(notes) as ask:
        ask('SEMANTIC "x" FROM notes USING "small" LIMIT 1', target)
        for limit in (1, 7, 90, 91, 150):
            question = f'SEMANTIC "x" FROM notes USING "small" LIMIT {limit}'
            found, calls = ask(question, target)
            assert calls == 0
            with speaking(notes, USER_A) as store:
                asked = [real(one) for one in target]
                assert found == store.approximate_ranking("notes", "small", asked, limit)
            # As they are of vectors that an earlier version wrote.
            notes.execute(
                "update aiq.chunk_vectors set squares = null where chunk_id %% 150 < %s", [limit]
            )


def test_a_kept_statement_heeds_that_the_extension_moves_and_the_model_changes(
    notes: Connection,
) -> None:
    vectors = _clustered(500, 8, 5)
    _write_for_two(notes, vectors)
    question = 'SEMANTIC "x" FROM notes USING "small" LIMIT 3'
    default = 'SEMANTIC "x" FROM notes LIMIT 3'
    notes.execute("select aiq.register_embedding_model('small', 8, 'cosine', true)")
    with _asking(notes) as ask:
        before = [ask(one, vectors[1])[0] for one in (question, default)]
        assert [ask(one, vectors[1]) for one in (question, default)] == [
            (rows, 0) for rows in before
        ]
        notes.execute("create schema if not exists elsewhere")
        notes.execute("grant usage on schema elsewhere to aiq_owner, aiq_engine")
        notes.execute("alter extension vector set schema elsewhere")
        try:
            for _ in range(3):
                assert [ask(one, vectors[1])[0] for one in (question, default)] == before
            assert ask(question, vectors[1]) == (before[0], 0)
        finally:
            notes.execute('alter extension vector set schema "Odd schema"')
        notes.execute("select aiq.register_embedding_model('other', 8, 'cosine', true)")
        with pytest.raises(psycopg.Error) as caught:
            ask(default, vectors[1])
        assert caught.value.sqlstate == "22023" and "other" in str(caught.value)
        assert ask(question, vectors[1])[0] == before[0]
        notes.execute("select aiq.unregister_embedding_model('small')")
        with pytest.raises(psycopg.Error) as caught:
            ask(question, vectors[1])
        assert caught.value.sqlstate == "42704"


def test_a_kept_plan_heeds_that_the_index_goes_and_comes(notes: Connection) -> None:
    vectors = _clustered(500, 8, 5)
    _write_for_two(notes, vectors)
    question = 'SEMANTIC "x" FROM notes USING "small" LIMIT 3'
    with psycopg.connect(notes.info.dsn, autocommit=True, password=notes.info.password) as other:

        def ask() -> list[int]:
            with speaking(other, USER_A):
                other.execute("set local aiq.vector_search = 'approximate'")
                row = other.execute(
                    "select aiq.query(%s, %s)", [question, array_text(vectors[1])]
                ).fetchone()
            assert row is not None
            return [one["id"] for one in row[0]["rows"]]

        before = ask()
        notes.execute("select aiq.index_embeddings('small', false)")
        with pytest.raises(psycopg.Error) as caught:
            ask()
        assert caught.value.sqlstate == "55000"
        notes.execute("select aiq.index_embeddings('small')")
        assert ask() == before


@pytest.mark.parametrize("search", ["exact", "approximate"])
def test_a_time_out_stops_a_search_and_leaves_no_setting(notes: Connection, search: str) -> None:
    """Whichever part it strikes; the transaction goes on, and so does the next."""
    vectors = _clustered(4_000, 8, 5)
    _write_for_two(notes, vectors)
    arguments = ['SEMANTIC "x" FROM notes USING "small" LIMIT 2000', array_text(vectors[1])]
    ask = "select aiq.query(%s, %s) -> 'rows'"
    stopped = 0
    with psycopg.connect(notes.info.dsn, autocommit=True, password=notes.info.password) as fresh:
        fresh.execute(f"set aiq.vector_search = '{search}'".encode())
        with speaking(fresh, USER_A):
            # Loads the library, which has settings of its own, and keeps the statement.
            whole = fresh.execute(ask, arguments).fetchone()
            assert whole is not None and len(whole[0]) == 2000
        before = _settings(fresh)
        for milliseconds in (1, 2, 3, 5, 8, 12, 20, 30, 50):
            with speaking(fresh, USER_A):
                fresh.execute(f"set local statement_timeout = {milliseconds}".encode())
                try:
                    with fresh.transaction():
                        fresh.execute(ask, arguments)
                except psycopg.errors.QueryCanceled:
                    stopped += 1
                fresh.execute("set local statement_timeout = 0")
                assert _settings(fresh) == before
                assert fresh.execute(ask, arguments).fetchone() == whole
            assert _settings(fresh) == before
    assert stopped


def _write_for_two(
    connection: Connection, vectors: dict[int, list[float]], kind: str = "cosine"
) -> None:
    """Even ids for one tenant and odd ones for the other, with an index over all."""
    _model(connection, 8, kind)
    _write(connection, {one: vectors[one] for one in vectors if one % 2}, ORG_A)
    _write(connection, {one: vectors[one] for one in vectors if not one % 2}, ORG_B)
    connection.execute("select aiq.index_embeddings('small')")


def test_an_index_is_made_over_dropped_and_kept_in_step(notes: Connection) -> None:
    vectors = _clustered(300, 8, 5)
    _model(notes, 8, "l2")
    notes.execute("select aiq.index_embeddings('small')")
    _write(notes, vectors)
    notes.execute("select aiq.index_embeddings('small')")
    notes.execute("update harbour.notes set content = 'new' where id <= 290")
    assert len(embedded(notes)) == 10
    with speaking(notes, None) as store:
        assert len(store.approximate_ranking("notes", "small", vectors[1], 5)) == 5
    notes.execute("select aiq.index_embeddings('small', false)")
    with pytest.raises(MissingSetting) as caught, speaking(notes, None) as store:
        store.approximate_ranking("notes", "small", vectors[1], 5)
    assert caught.value.sqlstate == "55000"
    assert caught.value.message == (
        'aiq.vector_search is approximate, but model "small" has no index for it'
    )
    assert "aiq.index_embeddings" in str(caught.value.hint)


def test_a_model_too_wide_for_the_index_is_refused_and_searched_exactly(notes: Connection) -> None:
    _model(notes, 2_001, "cosine")
    vectors = {one: [real(one + place / 7) for place in range(2_001)] for one in (1, 2, 3)}
    _write(notes, vectors)
    with pytest.raises(psycopg.Error) as caught:
        notes.execute("select aiq.index_embeddings('small')")
    assert caught.value.sqlstate == "22023"
    assert "2001" in str(caught.value) and "2000" in str(caught.value)
    with speaking(notes, None) as store:
        assert store.vector_ranking("notes", "small", vectors[2], 2) == oracle(
            "cosine", vectors, vectors[2], 2
        )


def test_installing_again_and_uninstalling_with_an_index(server: ServerContainer) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        if not _available(connection):
            pytest.skip("this server has no pgvector")
        connection.execute("drop database if exists indexed with (force)")
        connection.execute("create database indexed")
    dsn = server.dsn("indexed")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create extension vector")
    install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select aiq.register_embedding_model('small', 3)")
        connection.execute("select aiq.index_embeddings('small')")
    install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("select to_regclass('aiq.chunk_vectors_model_1')").fetchone()
        assert row is not None and row[0] is not None
    assert [finding for finding in check(dsn) if finding.name == "indexes" and not finding.ok] == []
    uninstall(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute("select to_regnamespace('aiq')").fetchone() == (None,)
