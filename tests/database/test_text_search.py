"""Search by words and by vectors: the same on every store, and row security inside it."""

from __future__ import annotations

import math
import random
import sys
import time

import psycopg
import pytest

from graphalgo.engine.errors import InvalidValue, MissingSetting, UnknownName
from graphalgo.install import install
from graphalgo.stores import passages as searching
from tests.support.facts import ORG_A, ORG_B, USER_A, USER_B
from tests.support.passages import REGISTER, TABLE, array_text, empty_tables, put, speaking
from tests.support.timing import soon
from tests.support.vectors import DISTANCES, oracle, real, scattered

WORDS = ["the", "boiler", "feed", "pump", "leaked", "near", "port", "a", "vessel", "repair"]


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
        yield connection


def write(db, texts, org=None):
    first = db.execute("select coalesce(max(id), 0) from harbour.notes").fetchone()[0]
    with db.cursor() as cursor:
        cursor.executemany(
            "insert into harbour.notes (id, title, content, org) values (%s, %s, %s, %s)",
            [(i, f"note {i}", text, org) for i, text in enumerate(texts, first + 1)],
        )


def model(db, name, dim, kind):
    db.execute("select aiq.register_embedding_model(%s, %s, %s)", [name, dim, kind])


# Words


def test_passages_are_ranked_as_the_server_ranks_them(notes):
    choice = random.Random(4)
    write(notes, [" ".join(choice.choices(WORDS, k=30)) for _ in range(300)])
    with speaking(notes, None) as store:
        for words in ("boiler", "feed pump", '"feed pump" or vessel', "boiler -leaked", "ports"):
            found = store.text_ranking("notes", words, 40)
            expected = store.connection.execute(
                "select number, ts_rank(to_tsvector('english', content), q)::float8"
                " from aiq.passages, websearch_to_tsquery('english', %s) as q"
                " where to_tsvector('english', content) @@ q"
                " order by 2 desc, 1 limit 40",
                [words],
            ).fetchall()
            assert found == expected and found


def test_ties_go_by_id_numbers_as_numbers_and_texts_by_code_point(notes):
    write(notes, ["same words"] * 12)
    notes.execute(
        "create table harbour.logs (id text primary key, content text);"
        "insert into harbour.logs select v, 'same words' from"
        " unnest('{b,a,Z,10,9,é,~,\"ab\"}'::text[]) as v;"
        "select aiq.register_text_source('logs', 'harbour.logs', 'id', 'content')"
    )
    model(notes, "flat", 2, "l2")
    put(notes, range(1, 13), [[1, 1]] * 12, model="flat")
    put(
        notes, ["b", "a", "Z", "10", "9", "é", "~", "ab"], [[1, 1]] * 8, model="flat", source="logs"
    )
    with speaking(notes, None) as store:
        assert [one for one, _ in store.text_ranking("notes", "words", 11)] == list(range(1, 12))
        texts = [one for one, _ in store.text_ranking("logs", "words", 11)]
        assert texts == ["10", "9", "Z", "a", "ab", "b", "~", "é"]
        assert [one for one, _ in store.vector_ranking("logs", "flat", [1.0, 0.0], 11)] == texts
        assert [one for one, _ in store.vector_ranking("notes", "flat", [1.0, 0.0], 11)] == list(
            range(1, 12)
        )


@pytest.mark.parametrize("words", ["", "the", "  ", '"', "-", "&|!:*", "or or", "'; drop", "«»"])
def test_whatever_is_searched_for_is_no_error(notes, words):
    write(notes, ["the boiler", "drop it"])
    with speaking(notes, None) as store:
        found = store.text_ranking("notes", words, 5)
        assert {one for one, _ in found} <= {1, 2}


def test_a_source_has_its_own_reading_of_words(notes):
    notes.execute(REGISTER.replace("p_title", "p_configuration => 'simple', p_title"))
    write(notes, ["two vessels", "a vessel"])
    with speaking(notes, None) as store:
        assert [one for one, _ in store.text_ranking("notes", "vessel", 5)] == [2]
        assert [one for one, _ in store.text_ranking("notes", "a", 5)] == [2]


def test_snippets_mark_the_words(notes):
    write(notes, ["Below deck " * 30 + "the boiler leaked again " + "all night " * 30, "short"])
    with speaking(notes, None) as store:
        shown = store.passages("notes", [1, 2, 99], "leak")
        assert set(shown) == {1, 2}
        assert shown[1][0] == "note 1" and "«leaked»" in shown[1][1] and len(shown[1][1]) < 300
        assert shown[2] == ("note 2", "short")
        assert store.passages("notes", [1], None) == {1: ("note 1", None)}
        assert store.passages("notes", [], "leak") == {}


SNIPPET = 'StartSel=«, StopSel=», MaxFragments=2, MaxWords=30, MinWords=15, FragmentDelimiter=" … "'


@pytest.mark.parametrize(
    "words",
    [
        "boiler", "boiler leaked", '"feed pump" or vessel', "boiler -vessel", "it's feed-pump a/b",
        '"feed pump" "pump leaked"', "boiler or feed or port", "boiler & | ( pump", "\\ pump",
        "the", "x' & pump",
    ],
)  # fmt: skip
def test_the_snippets_of_an_ordinary_query_are_the_server_s(notes, words):
    choice = random.Random(6)
    texts = [" ".join(choice.choices(WORDS, k=length)) for length in (5, 80, 400)]
    write(notes, texts)
    with speaking(notes, None) as store:
        shown = store.passages("notes", [1, 2, 3], words)
        expected = store.connection.execute(
            "select ts_headline('english', t, websearch_to_tsquery('english', %s), %s)"
            " from unnest(%s::text[]) as t",
            [words, SNIPPET, texts],
        ).fetchall()
    assert [shown[one][1] for one in (1, 2, 3)] == [one for (one,) in expected]


@pytest.mark.parametrize(
    ("again", "once"),
    [
        ("boiler " * 50, "boiler"),
        ("boiler Boilers leaked " * 50, "boiler leaked"),
        ("boiler or " * 50 + "pump", "boiler or pump"),
        ("boiler -vessel " * 50, "boiler -vessel"),
        ('"feed pump" ' * 50, '"feed pump"'),
        ('"feed pump" boiler or ' * 50 + "port", '"feed pump" boiler or port'),
        ("feed-pump " * 50, "feed-pump"),
        ("-vessel " * 50 + "port", "-vessel port"),
    ],
)
def test_words_that_are_repeated_have_the_snippets_of_the_words_once(notes, again, once):
    choice = random.Random(8)
    write(notes, [" ".join(choice.choices(WORDS, k=length)) for length in (5, 80, 400)])
    with speaking(notes, None) as store:
        found = store.passages("notes", [1, 2, 3], again)
        assert found == store.passages("notes", [1, 2, 3], once)
    assert any("«" in shown for _, shown in found.values())


def test_words_of_many_phrases_are_marked_all_the_same(notes):
    write(notes, ["the boiler feed pump leaked " * 30])
    words = " or ".join(f'"feed pump" "feed w{one}"' for one in range(50)) + ' or "feed pump"'
    with speaking(notes, None) as store:
        assert "«feed» «pump»" in store.passages("notes", [1], words)[1][1]


@pytest.mark.parametrize(
    "piece",
    ["boiler ", "boiler or ", '"boiler feed" ', "boiler Boilers ", "-vessel ", '"pump w{}" or '],
)
def test_a_snippet_takes_time_in_proportion_to_the_words(notes, piece):
    write(notes, ["the boiler feed pump leaked " * 200])

    def seconds(count):
        words = "".join(piece.format(one) for one in range(count)) + "boiler"
        began = time.perf_counter()
        with speaking(notes, None) as store:
            store.passages("notes", [1], words)
        return time.perf_counter() - began

    # In proportion 10 times; the square would be 100 times.
    soon(lambda: (seconds(1_000), seconds(10_000)), lambda took: took[1] < max(30 * took[0], 0.5))


def test_an_unknown_source_or_model_is_refused_naming_the_likeliest(notes):
    write(notes, ["x"])
    model(notes, "small", 2, "l2")
    for call, hint in (
        ("aiq.rank_passages('note', 'x', 1)", "notes"),
        ("aiq.near_vectors('note', 'small', '{1,2}', 0, 1, false)", "notes"),
        ("aiq.near_vectors('notes', 'smal', '{1,2}', 0, 1, false)", "small"),
    ):
        with pytest.raises(psycopg.Error) as caught, speaking(notes, USER_A) as store:
            store.connection.execute(f"select * from {call}")
        assert caught.value.sqlstate == "42704", call
        assert caught.value.diag.message_hint == f"Write one of: {hint}"
    with speaking(notes, USER_A) as store:
        assert store.passages("note", [1], "x") == {}
        with pytest.raises(UnknownName):
            store.vector_ranking("notes", "smal", [1.0, 2.0], 1)


# Row security inside


def test_a_ranking_is_of_what_the_caller_sees(notes):
    """The best of another organisation take no place of the caller's."""
    write(notes, ["boiler " * (40 - i) for i in range(20)], ORG_B)
    write(notes, ["boiler room " + "and more " * i for i in range(5)], ORG_A)
    write(notes, ["a boiler for everyone"])
    with speaking(notes, USER_A) as store:
        mine = store.text_ranking("notes", "boiler", 6)
    assert sorted(one for one, _ in mine) == [21, 22, 23, 24, 25, 26]
    with speaking(notes, USER_B) as store:
        assert len(store.text_ranking("notes", "boiler", 100)) == 21
    with speaking(notes, None) as store:
        assert [one for one, _ in store.text_ranking("notes", "boiler", 6)] == [26]


def test_a_hidden_passage_answers_as_one_that_is_not_there(notes):
    write(notes, ["a secret boiler"], ORG_B)
    model(notes, "small", 2, "cosine")
    put(notes, [1], [[1, 2]])
    with speaking(notes, USER_A) as store:
        assert store.passages("notes", [1, 2], "secret") == {}
        assert store.text_ranking("notes", "secret", 5) == []
        assert store.vector_ranking("notes", "small", [1.0, 2.0], 5) == []
        assert store.embedded_models("notes") == []
        for view in ("passages", "embeddings", "embedded_models_api"):
            row = store.connection.execute(f"select count(*) from aiq.{view}").fetchone()
            assert row == (0,), view


def test_the_candidate_functions_are_closed_to_callers(notes):
    for call in (
        "aiq.text_candidates(1, 'x', '{}', 1)",
        "aiq.vector_candidates(1, 1, 'l2', 'public', '{1}', 0, '{}', 1)",
        "aiq.approximate_candidates(1, 1, 1, 'l2', 'public', '{1}', '{}', 1)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), speaking(notes, USER_A) as store:
            store.connection.execute(f"select {call}")


# Vectors


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("how", ["numpy", "without numpy", "inside the server"])
def test_the_nearest_are_the_exactly_nearest(notes, kind, how, monkeypatch):
    vectors, target = scattered(400, 24, seed=7)
    write(notes, ["x"] * len(vectors))
    model(notes, "small", 24, kind)
    put(notes, list(vectors), list(vectors.values()))
    monkeypatch.setattr(searching, "BLOCK_BYTES", 10_000)
    if how == "without numpy":
        monkeypatch.setitem(sys.modules, "numpy", None)
    for limit in (1, 7, 50, 399, 1000):
        expected = oracle(kind, vectors, target, limit)
        if how == "inside the server":
            row = notes.execute(
                "select aiq.query(%s, %s)",
                [f'SEMANTIC "x" FROM notes USING "small" LIMIT {limit}', array_text(target)],
            ).fetchone()
            found = [(one["id"], one["distance"]) for one in row[0]["rows"]]
        else:
            with speaking(notes, None) as store:
                found = store.vector_ranking("notes", "small", target, limit)
        assert found == expected


@pytest.mark.parametrize("kind", DISTANCES)
def test_vectors_of_extreme_lengths_are_ranked_too(notes, kind):
    choice = random.Random(3)
    scales = (1e-42, 1e-30, 1e-20, 1e-11, 1e-9, 1.0, 1e9, 1e11, 1e19, 1e30, 1e38)
    vectors = {
        one: [real(scales[one % len(scales)] * choice.uniform(-3, 3)) for _ in range(4)]
        for one in range(1, 111)
    }
    write(notes, ["x"] * len(vectors))
    model(notes, "small", 4, kind)
    put(notes, list(vectors), list(vectors.values()))
    for scale in scales:
        target = [real(scale * choice.uniform(-3, 3)) for _ in range(4)]
        with speaking(notes, None) as store:
            assert store.vector_ranking("notes", "small", target, 30) == oracle(
                kind, vectors, target, 30
            )


def test_a_model_of_one_source_says_nothing_of_another(notes):
    write(notes, ["x", "y"])
    notes.execute("select aiq.register_text_source('titles', 'harbour.notes', 'id', 'title')")
    model(notes, "small", 2, "l2")
    put(notes, [1, 2], [[0, 0], [1, 1]])
    put(notes, [2], [[5, 5]], source="titles")
    with speaking(notes, None) as store:
        assert store.vector_ranking("notes", "small", [0.0, 0.0], 5) == [
            (1, 0.0),
            (2, math.sqrt(2)),
        ]
        assert store.vector_ranking("titles", "small", [5.0, 5.0], 5) == [(2, 0.0)]


# The setting


@pytest.mark.parametrize(
    ("setting", "search"), [("", "exact"), ("exact", "exact"), (" Approximate ", "approximate")]
)
def test_vectors_are_searched_as_the_setting_says(notes, setting, search):
    with speaking(notes, None) as store:
        store.connection.execute("select set_config('aiq.vector_search', %s, true)", [setting])
        assert store.vector_search() == search


def test_another_setting_is_refused_naming_it(notes):
    with speaking(notes, None) as store:
        store.connection.execute("set local aiq.vector_search = 'fast'")
        with pytest.raises(Exception, match=r'aiq\.vector_search is "fast"') as caught:
            store.vector_search()
    assert caught.value.sqlstate == "22023"
    assert "exact or approximate" in caught.value.message
    assert caught.value.hint == "Write for example set aiq.vector_search = 'exact'."


def test_without_an_index_the_approximate_search_is_refused(notes):
    write(notes, ["x"])
    model(notes, "small", 2, "l2")
    put(notes, [1], [[0, 0]])
    with pytest.raises(MissingSetting) as caught, speaking(notes, None) as store:
        store.approximate_ranking("notes", "small", [0.0, 0.0], 5)
    assert caught.value.sqlstate == "55000"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("call", "sqlstate", "message"),
    [
        ("rank_passages('nots', 'x', 3)", "42704", 'there is no text source "nots"'),
        ("rank_passages('notes', 'x', 0)", "22023", "p_limit is 0, but must be at least 1"),
        ("rank_passages('notes', 'x', null)", "22023", "p_limit is null, but must be at least 1"),
        ("near_vectors('nots', 'small', '{1,2}', 0, 1, false)", "42704",
         'there is no text source "nots"'),
        ("near_vectors('notes', 'smal', '{1,2}', 0, 1, false)", "42704",
         'there is no embedding model "smal"'),
        ("near_vectors('notes', 'small', '{1,2}', 0, 0, false)", "22023",
         "p_limit is 0, but must be at least 1"),
        ("near_vectors('notes', 'small', null, 0, 1, false)", "22023",
         "p_vector is null, but must be a list of numbers"),
        ("near_vectors('notes', 'small', '{}', 0, 1, false)", "22023",
         'p_vector has 0 numbers, but model "small" writes 2'),
        ("near_vectors('notes', 'small', '{1,2,3}', 0, 1, false)", "22023",
         'p_vector has 3 numbers, but model "small" writes 2'),
        ("near_vectors('notes', 'small', '{{1},{2}}', 0, 1, false)", "22023",
         "p_vector has 2 dimensions, but must be a list of numbers"),
        ("near_vectors('notes', 'small', '{1,NaN}', 0, 1, false)", "22023",
         "p_vector holds NaN, but each of its numbers must be finite"),
        ("near_vectors('notes', 'small', '{-Infinity,1}', 0, 1, false)", "22023",
         "p_vector holds -Infinity, but each of its numbers must be finite"),
        ("near_vectors('notes', 'small', '{1,null}', 0, 1, false)", "22023",
         "p_vector holds null, but each of its numbers must be finite"),
        ("near_vectors('notes', 'small', '{1,2}', -1, 1, false)", "22023",
         "p_slack is -1, but must be a finite number of at least 0"),
        ("near_vectors('notes', 'small', '{1,2}', null, 1, false)", "22023",
         "p_slack is null, but must be a finite number of at least 0"),
    ],
)  # fmt: skip
def test_the_rankings_refuse_alike_with_pgvector_and_without_it(notes, call, sqlstate, message):
    model(notes, "small", 2, "l2")
    with pytest.raises(psycopg.Error) as caught, speaking(notes, None) as store:
        store.connection.execute(f"select * from aiq.{call}")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)
    assert caught.value.diag.message_hint


def test_the_store_over_a_connection_raises_what_the_functions_refuse_as_its_own(notes):
    """Outside the server an error is of one family, whoever has found it."""
    model(notes, "small", 2, "l2")
    for call, kind, message in (
        (lambda s: s.text_ranking("nots", "x", 3), UnknownName, 'there is no text source "nots"'),
        (lambda s: s.text_ranking("notes", "x", 0), InvalidValue, "p_limit is 0"),
    ):
        with pytest.raises(kind) as caught, speaking(notes, None) as store:
            call(store)
        assert caught.value.message.startswith(message)
        assert caught.value.hint
        assert isinstance(caught.value.__cause__, psycopg.Error)


def test_what_the_server_says_of_itself_stays_its_own(notes):
    with pytest.raises(psycopg.errors.QueryCanceled), speaking(notes, None) as store:
        store.connection.execute("set local statement_timeout = '50ms'")
        store._query("select pg_sleep(10)", (), ())
    with pytest.raises(psycopg.errors.InvalidParameterValue), speaking(notes, None) as store:
        store._query("select set_config('extra_float_digits', '99', true)", (), ())
