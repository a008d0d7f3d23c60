"""Models and vectors: what a worker may write, and what becomes of it when the text changes."""

from __future__ import annotations

import math
import random
import threading
from array import array

import psycopg
import pytest

from graphalgo.install import install
from tests.support.facts import ORG_A, ORG_B, USER_A, USER_B
from tests.support.passages import REGISTER, TABLE, embedded, empty_tables, put, speaking


@pytest.fixture(scope="module")
def installed(make_database):
    made = make_database()
    install(made)
    return made


@pytest.fixture
def notes(installed):
    with empty_tables(installed) as connection:
        connection.execute(TABLE)
        connection.execute(REGISTER)
        connection.execute(
            "insert into harbour.notes (id, title, content)"
            " select i, 'note ' || i, 'text ' || i from generate_series(1, 12) as i"
        )
        model(connection, "'small', 3, p_is_default => true")
        yield connection


def model(db, arguments):
    with db.transaction():
        db.execute("set local role aiq_worker")
        db.execute(f"select aiq.register_embedding_model({arguments})")
        db.execute("set local role none")


def models(db):
    with speaking(db, None) as store:
        return [
            (one.name, one.dim, one.distance, one.is_default) for one in store.embedding_models()
        ]


def refused(call, sqlstate, *words):
    with pytest.raises(psycopg.Error) as caught:
        call()
    assert caught.value.sqlstate == sqlstate, caught.value
    for word in words:
        assert word in str(caught.value.diag.message_primary)
    assert caught.value.diag.message_hint
    return caught.value


# Models


def test_the_last_default_is_the_default(notes):
    model(notes, "'wide', 5, 'l2', true")
    model(notes, "'plain', 5, 'inner'")
    assert models(notes) == [
        ("plain", 5, "inner", False),
        ("small", 3, "cosine", False),
        ("wide", 5, "l2", True),
    ]
    model(notes, "'small', 3, p_is_default => true")
    assert [name for name, *_, default in models(notes) if default] == ["small"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("'', 3", ("p_name",)),
        ("null, 3", ("p_name", "null")),
        ("'x', 0", ("p_dim is 0", "1 to 16000")),
        ("'x', null", ("p_dim is null",)),
        ("'x', 16001", ("p_dim is 16001",)),
        ("'x', 3, 'euclid'", ('p_distance is "euclid"', "cosine, l2 or inner")),
        ("'x', 3, null", ("p_distance is null",)),
        ("'x', 3, 'l2', null", ("p_is_default",)),
    ],
)
def test_a_model_that_cannot_be_is_refused(notes, arguments, words):
    refused(lambda: model(notes, arguments), "22023", *words)


def test_a_model_with_vectors_keeps_its_width_and_distance(notes):
    model(notes, "'small', 4")
    model(notes, "'small', 3")
    put(notes, [1], [[1, 2, 3]])
    refused(lambda: model(notes, "'small', 4"), "22023", '"small"', "3 numbers", "4")
    refused(lambda: model(notes, "'small', 3, 'l2'"), "22023", "cosine", "l2")
    model(notes, "'small', 3, p_description => 'three wide'")
    assert embedded(notes) == ["1"]


def test_a_model_goes_with_its_vectors(notes):
    model(notes, "'other', 2")
    put(notes, [1, 2], [[1, 2, 3], [4, 5, 6]])
    put(notes, [1], [[1, 2]], model="other")
    with notes.transaction():
        notes.execute("set local role aiq_worker")
        assert notes.execute("select aiq.unregister_embedding_model('small')").fetchone() == (2,)
        notes.execute("set local role none")
    assert embedded(notes) == ["1"]
    error = refused(lambda: put(notes, [1], [[1, 2, 3]]), "42704", '"small"')
    assert "other" in error.diag.message_hint


# Vectors


def test_vectors_are_written_and_written_over(notes):
    assert put(notes, [2, 1], [[1, 0, 0], [0, 1, 0.1]]) == 2
    assert put(notes, [1], [[0, 0, 1]]) == 1
    rows = notes.execute(
        "select c.row_id, v.vector, v.norm from aiq.chunk_vectors as v"
        " join aiq.text_chunks as c on c.id = v.chunk_id order by 1"
    ).fetchall()
    assert rows == [("1", [0, 0, 1], 1), ("2", [1, 0, 0], 1)]
    assert put(notes, [], "{}") == 0


WRONG = {
    "too narrow": ([1], [[1, 2]], "22023", ('"small"', "3 numbers", "these have 2")),
    "too wide": ([1], [[1, 2, 3, 4]], "22023", ("3 numbers", "these have 4")),
    "not a number": ([1, 7], [[1, 2, 3], [1, "NaN", 3]], "22023", ("of 7 ", "NaN")),
    "infinity": ([7, 1], [[1, "Infinity", 3], [1, 2, 3]], "22023", ("of 7 ", "infinity")),
    "minus infinity": ([7], [[1, "-Infinity", 3]], "22023", ("of 7 ", "infinity")),
    "null": ([1, 7], [[1, 2, 3], [1, None, 3]], "22023", ("of 7 ", "null")),
    "zeros": ([1, 7], [[1, 2, 3], [0, 0, 0]], "22023", ("of 7 ", "zeros")),
    "unknown id": ([1, 99], [[1, 2, 3], [1, 2, 3]], "P0002", ('"notes"', "99")),
    "an id in other words": (["01"], [[1, 2, 3]], "P0002", ("01",)),
    "an id twice": ([1, 7, 7], [[1, 2, 3]] * 3, "22023", ("7", "more than once")),
    "fewer vectors": ([1, 2], [[1, 2, 3]], "22023", ("2 ids", "1 vectors")),
    "more vectors": ([1], [[1, 2, 3], [1, 2, 3]], "22023", ("1 ids", "2 vectors")),
    "no vectors": ([1], "{}", "22023", ("0 dimensions",)),
    "one vector bare": ([1], [1, 2, 3], "22023", ("1 dimensions", "must have two")),
    "three dimensions": ([1], [[[1, 2, 3]]], "22023", ("3 dimensions",)),
}


@pytest.mark.parametrize("what", WRONG)
def test_nothing_is_written_of_what_is_wrong(notes, what):
    ids, vectors, sqlstate, words = WRONG[what]
    refused(lambda: put(notes, ids, vectors), sqlstate, *words)
    assert embedded(notes) == []


@pytest.mark.parametrize(
    "arguments",
    [
        "'notes', 'small', null, '{{1,2,3}}'",
        "'notes', 'small', '{1}', null",
        "'notes', 'small', '{null}', '{{1,2,3}}'",
        "'notes', 'small', '{{1}}', '{{1,2,3}}'",
        "'notes', 'small', '{1}', '{{1,2,3}}', '{a,b}'",
    ],
)
def test_arguments_of_another_shape_are_refused(notes, arguments):
    refused(lambda: notes.execute(f"select aiq.put_embeddings({arguments})"), "22023")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'[5:5]={1}', '{{1,2,3}}'", "p_ids is numbered from 5, but must be numbered from 1"),
        (
            "'{1}', '[5:5][1:3]={{1,2,3}}'",
            "p_vectors is numbered from 5 and 1, but must be numbered from 1",
        ),
        (
            "'{1}', '[1:1][0:2]={{1,2,3}}'",
            "p_vectors is numbered from 1 and 0, but must be numbered from 1",
        ),
    ],
)
def test_lists_with_bounds_of_their_own_are_refused_saying_which(notes, arguments, message):
    error = refused(
        lambda: notes.execute(f"select aiq.put_embeddings('notes', 'small', {arguments})"), "22023"
    )
    assert error.diag.message_primary == message


def test_zeros_are_a_vector_where_no_angle_is_asked(notes):
    model(notes, "'flat', 2, 'l2'")
    assert put(notes, [1], [[0, 0]], model="flat") == 1


def test_an_unknown_source_or_model_is_refused_naming_the_likeliest(notes):
    model(notes, "'large', 9")
    error = refused(lambda: put(notes, [1], [[1, 2, 3]], model="smal"), "42704", '"smal"')
    assert error.diag.message_hint.startswith("Write one of: small")
    error = refused(lambda: put(notes, [1], [[1, 2, 3]], source="note"), "42704", '"note"')
    assert "notes" in error.diag.message_hint
    refused(lambda: notes.execute("select * from aiq.passages_to_embed('note', 'small')"), "42704")
    refused(lambda: notes.execute("select * from aiq.passages_to_embed('notes', 'smal')"), "42704")


def test_only_workers_write_vectors_and_models(notes):
    for call in (
        "aiq.put_embeddings('notes', 'small', '{1}', '{{1,2,3}}')",
        "aiq.register_embedding_model('mine', 3)",
        "aiq.unregister_embedding_model('small')",
        "aiq.passages_to_embed('notes', 'small')",
        "aiq.index_embeddings('small')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), speaking(notes, USER_A) as store:
            store.connection.execute(f"select {call}")


# What is left to embed, and what is stale


def to_embed(db, limit=100):
    rows = db.execute(
        "select id, content, digest from aiq.passages_to_embed('notes', 'small', %s)", [limit]
    ).fetchall()
    return [row[0] for row in rows]


def test_a_changed_text_drops_its_vectors_and_asks_for_new_ones(notes):
    model(notes, "'other', 1")
    assert to_embed(notes, 3) == ["1", "2", "3"]
    put(notes, range(1, 13), [[1, 2, 3]] * 12)
    put(notes, [1], [[1]], model="other")
    assert to_embed(notes) == []
    notes.execute("update harbour.notes set content = 'new' where id in (1, 4)")
    notes.execute("update harbour.notes set title = 'new' where id = 2")
    notes.execute("delete from harbour.notes where id = 3")
    assert to_embed(notes) == ["1", "4"]
    assert embedded(notes) == ["2", "5", "6", "7", "8", "9", "10", "11", "12"]
    refused(lambda: to_embed(notes, 0), "22023", "p_limit is 0")


def test_a_rebuild_keeps_the_vectors_of_texts_that_stay(notes):
    put(notes, [1, 2], [[1, 2, 3]] * 2)
    notes.execute("select aiq.rebuild_text('notes')")
    notes.execute(REGISTER.replace("p_title", "p_configuration => 'simple', p_title"))
    assert embedded(notes) == ["1", "2"]


def test_a_vector_of_a_text_that_has_changed_since_is_refused(notes):
    rows = notes.execute(
        "select id, digest from aiq.passages_to_embed('notes', 'small', 2)"
    ).fetchall()
    ids, digests = [row[0] for row in rows], [row[1] for row in rows]
    notes.execute("update harbour.notes set content = 'new' where id = 2")
    refused(
        lambda: put(notes, ids, [[1, 2, 3]] * 2, digests=digests), "55000",
        "passage 2", '"notes"', "changed",
    )  # fmt: skip
    assert embedded(notes) == []
    assert put(notes, ids[:1], [[1, 2, 3]], digests=digests[:1]) == 1


def test_a_text_that_changes_while_its_vector_is_written_is_left_without(notes):
    """Whichever commits first, no vector of the old text is left."""
    dsn = notes.info.dsn
    with psycopg.connect(dsn) as worker:
        worker.execute("select aiq.put_embeddings('notes', 'small', '{1}', '{{1,2,3}}')")

        def change():
            with psycopg.connect(dsn, autocommit=True) as writer:
                writer.execute("update harbour.notes set content = 'new' where id = 1")

        thread = threading.Thread(target=change)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        worker.commit()
        thread.join()
    assert embedded(notes) == []


def test_under_one_snapshot_a_text_whose_vector_is_new_cannot_be_changed(notes):
    dsn = notes.info.dsn
    with psycopg.connect(dsn) as writer:
        writer.execute("set transaction isolation level repeatable read")
        writer.execute("select count(*) from harbour.notes")
        put(notes, [1], [[1, 2, 3]])
        writer.execute("update harbour.notes set content = 'new' where id = 2")
        with pytest.raises(psycopg.errors.SerializationFailure):
            writer.execute("update harbour.notes set content = 'new' where id = 1")
        writer.rollback()
    assert embedded(notes) == ["1"]


# Who sees a vector


def test_vectors_are_seen_by_those_who_see_the_passage(notes):
    put(notes, [1, 2, 3], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    notes.execute("update harbour.notes set org = %s where id = 2", [ORG_A])
    notes.execute(
        "update harbour.notes set visibility = 'private', owner = %s where id = 3", [USER_B]
    )
    for sub, expected in ((None, [1]), (USER_A, [1, 2]), (USER_B, [1, 3])):
        with speaking(notes, sub) as store:
            found = store.vector_ranking("notes", "small", [1.0, 1.0, 1.0], 10)
            assert sorted(row for row, _ in found) == expected
            rows = store.connection.execute("select count(*) from aiq.embeddings").fetchone()
            assert rows == (len(expected),)


def test_a_model_is_told_only_where_one_of_its_vectors_is_seen(notes):
    model(notes, "'other', 1")
    put(notes, [1], [[1, 0, 0]])
    put(notes, [2], [[1]], model="other")
    notes.execute("update harbour.notes set org = %s where id = 2", [ORG_B])
    for sub, expected in ((USER_A, ["small"]), (USER_B, ["other", "small"]), (None, ["small"])):
        with speaking(notes, sub) as store:
            assert store.embedded_models("notes") == expected
            assert store.embedded_models("nothing") == []


def test_without_pgvector_an_index_is_refused_saying_so(notes):
    if notes.execute("select aiq.vector_schema()").fetchone() != (None,):
        pytest.skip("the extension vector is installed here")
    refused(lambda: notes.execute("select aiq.index_embeddings('small')"), "55000", "vector")
    notes.execute("select aiq.index_embeddings('small', false)")


def test_nobody_is_told_of_an_index_that_was_never_made(notes):
    told = []
    notes.add_notice_handler(lambda notice: told.append(notice.message_primary))
    notes.execute("select aiq.register_embedding_model('small', 2)")
    notes.execute("select aiq.index_embeddings('small', false)")
    notes.execute("select aiq.unregister_embedding_model('small')")
    notes.execute("do $$ begin raise notice 'heard'; end $$")
    assert told == ["heard"]


def test_an_index_that_cannot_be_is_refused_with_pgvector_and_without_it(notes):
    model(notes, "'wide', 2001")
    for arguments, sqlstate, words in (
        ("'smal'", "42704", 'there is no embedding model "smal"'),
        ("'small', null", "22023", "p_on is null, but must be true or false"),
        ("'wide'", "22023", 'model "wide" have 2001 numbers, but an HNSW index takes at most 2000'),
    ):
        refused(
            lambda given=arguments: notes.execute(f"select aiq.index_embeddings({given})"),
            sqlstate,
            words,
        )


# Squares


def test_the_squares_of_a_vector_are_added_up_without_rounding_between(notes):
    """So that whoever finds them there need not add them up; where that cannot be, nothing is."""
    choice = random.Random(9)

    def reals(count, size):
        return array("f", [size() for _ in range(count)]).tolist()

    sizes = (
        lambda: choice.gauss(0, 1),
        lambda: choice.gauss(0, 1e-18),
        lambda: choice.gauss(0, 1e18),
        lambda: choice.choice((0.0, 1.0, -0.1, 2.0**-20)),
        lambda: 1 + 2.0 ** -choice.randrange(24),
        lambda: choice.gauss(0, 1) * 2.0 ** -choice.randrange(40),
    )
    told = 0
    for size in sizes:
        for count in (1, 2, 3, 64, 1_536):
            vector = reals(count, size)
            found = notes.execute(
                "select aiq.sum_of_squares(v, sqrt((select sum(u::float8 * u) from unnest(v) u)))"
                " from (select %s::float8[]::real[] as v) as given",
                [vector],
            ).fetchone()[0]
            told += found is not None
            assert found in (None, math.fsum(one * one for one in vector))
    assert told >= 20


def test_squares_are_written_with_the_vector_and_anew_with_another(notes):
    for vector in ([0.1, 0.2, -0.3], [4.0, 0.0, 3.0], [1e-40, 1.0, 0.0]):
        put(notes, [1], [vector])
        (squares,) = notes.execute(
            "select squares from aiq.chunk_vectors order by written_at desc limit 1"
        ).fetchone()
        exact = math.fsum(one * one for one in array("f", vector))
        assert squares == (None if 1e-40 in vector else exact)
