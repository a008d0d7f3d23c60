"""Every mode answers its envelope, on the store in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.engine.walk import walk
from graphalgo.p8ql.query import query
from graphalgo.samples import harbour_json
from graphalgo.stores.memory import MemoryStore
from tests.support import harbour

MACHINERY = "[0.1, 0, 0.7, 0.7]"


@pytest.fixture(scope="module")
def store():
    return MemoryStore.from_dict(harbour_json())


@pytest.mark.parametrize("case", harbour.lookup_cases())
def test_the_sample_s_lookups(store, case):
    answer = query(store, case["query"])
    found = [
        {name: round(row[name], 3) if name == "score" else row[name] for name in expected}
        for row, expected in zip(answer["rows"], case["rows"], strict=True)
    ]
    assert found == case["rows"]
    assert answer["unresolved"] == case.get("unresolved", [])


@pytest.mark.parametrize("case", harbour.walk_cases())
def test_the_sample_s_walks(store, case):
    relation = f" TYPE {case['relation']}" if "relation" in case else ""
    answer = query(store, f'GRAPH "{case["key"]}" DEPTH {case["depth"]}{relation}')
    found = [
        {name: round(row[name], 3) if name == "weight" else row[name] for name in expected}
        for row, expected in zip(answer["rows"], case["rows"], strict=True)
    ]
    assert found == case["rows"]


def test_an_envelope_begins_with_mode_plan_and_rows(store):
    for text in (
        'LOOKUP "meri"', 'GRAPH "meri"', 'TEXT "boiler" FROM notes', "SCHEMA", "select 1",
        'SEMANTIC "x" FROM notes', 'SEARCH "x" FROM notes',
    ):  # fmt: skip
        answer = query(store, text, MACHINERY)
        assert list(answer)[:3] == ["mode", "plan", "rows"]
        assert answer["mode"] == answer["plan"]["mode"]


def test_lookup_lists_each_key_that_found_nothing_once(store):
    answer = query(store, 'LOOKUP "x", "Meridian  DAWN", "y", "x"')
    assert answer["unresolved"] == ["x", "y"]
    assert [(row["input_key"], row["handle"]) for row in answer["rows"]] == [
        ("Meridian  DAWN", "VSL-1")
    ]
    assert answer["plan"] == {
        "mode": "LOOKUP", "keys": ["x", "Meridian  DAWN", "y", "x"], "fuzzy": False, "limit": 10,
    }  # fmt: skip


def test_lookup_s_limit_is_for_each_key(store):
    answer = query(store, 'FUZZY LOOKUP "meridien", "9331802" LIMIT 1')
    assert [row["input_key"] for row in answer["rows"]] == ["meridien", "9331802"]


def test_a_walk_from_no_node_answers_near_spellings(store):
    answer = query(store, 'GRAPH "meridan dawn" DEPTH 2')
    assert answer["rows"] == []
    assert answer["did_you_mean"] == ["meridian dawn", "vessel/meridien dawn", "meridian"]
    assert answer["error"]["sqlstate"] == "P0002"
    assert answer["error"]["message"] == 'no node is found by "meridan dawn"'
    assert '"meridian dawn"' in answer["error"]["hint"]
    assert "candidates" not in answer


def test_a_walk_from_what_is_like_nothing_means_nothing(store):
    assert query(store, 'GRAPH "zzzz"')["did_you_mean"] == []


def test_a_walk_from_several_nodes_answers_their_handles(store):
    answer = query(store, 'GRAPH "9331802"')
    assert (answer["rows"], answer["candidates"]) == ([], ["VSL-1", "REG-1"])
    assert answer["error"]["sqlstate"] == "21000"
    assert "did_you_mean" not in answer


def test_text_ranks_and_shows_the_words(store):
    answer = query(store, 'TEXT "boiler pump" FROM notes')
    assert [list(row) for row in answer["rows"]] == [["id", "title", "rank", "snippet"]]
    assert answer["rows"][0]["id"] == 1
    assert "«boiler» feed «pump»" in answer["rows"][0]["snippet"]


def test_text_needs_no_vector_and_leaves_one_aside(store):
    text = 'TEXT "boiler" FROM notes'
    assert query(store, text) == query(store, text, "no vector at all")


def test_semantic_gives_the_nearest(store):
    answer = query(store, 'SEMANTIC "steam" FROM notes LIMIT 2', MACHINERY)
    assert [list(row) for row in answer["rows"]] == [["id", "title", "distance"]] * 2
    assert [row["id"] for row in answer["rows"]] == [3, 2]
    assert answer["plan"] == {
        "mode": "SEMANTIC", "words": "steam", "source": "notes", "model": "hand-4d", "limit": 2,
        "vector_search": "exact",
    }  # fmt: skip


def test_search_fuses_both_by_reciprocal_rank(store):
    answer = query(store, 'SEARCH "psc-441" FROM notes USING "hand-4d" LIMIT 3', MACHINERY)
    rows = [tuple(row[name] for name in ("id", "lex", "sem", "rrf")) for row in answer["rows"]]
    assert rows == [
        (3, 2, 1, 1 / 62 + 1 / 61),
        (1, 1, 3, 1 / 61 + 1 / 63),
        (2, None, 2, 1 / 62),
    ]
    assert answer["plan"]["k"] == 60
    assert answer["plan"]["depth"] == 100


def test_a_vector_may_be_written_in_three_ways(store):
    answers = [
        query(store, 'SEMANTIC "x" FROM notes', vector)
        for vector in (MACHINERY, "{0.1,0,0.7,0.7}", [0.1, 0, 0.7, 0.7], " [1e-1,0.0, .7,7e-1] ")
    ]
    assert all(answer == answers[0] for answer in answers)


def test_sql_is_planned_and_not_run(store):
    answer = query(store, "select pg_sleep(100);")
    assert answer["plan"] == {"mode": "SQL", "statement": "select pg_sleep(100)"}
    assert answer["rows"] == []
    assert "aiq.sql_passthrough(p_statement)" in answer["note"]
    assert "read only" in answer["note"]


REFUSED = {
    "no vector": ('SEMANTIC "x" FROM notes', None, "22023", "p_embedding is missing"),
    "no vector of SEARCH": ('SEARCH "x" FROM notes', None, "22023", "SEARCH needs a vector"),
    "width": (
        'SEMANTIC "x" FROM notes', "[1,2,3]", "22023",
        'has 3 numbers, but model "hand-4d" writes 4',
    ),
    "empty": ('SEMANTIC "x" FROM notes', "[ ]", "22023", "has 0 numbers"),
    "too long": (
        'SEMANTIC "x" FROM notes', "[" + " " * 999_999 + "]", "22023",
        "p_embedding has 1000001 characters, but may have 1000000: it is too long",
    ),
    "as long as may be": (
        'SEMANTIC "x" FROM notes', "[" + "1," * 499_998 + "10]", "22023", "has 499999 numbers",
    ),
    "NaN": ('SEMANTIC "x" FROM notes', "[1,NaN,3,4]", "22023", 'number 2 of p_embedding is "NaN"'),
    "infinity": ('SEMANTIC "x" FROM notes', "[1,2,-inf,4]", "22023", "must be finite"),
    "too great": ('SEMANTIC "x" FROM notes', "[1,2,1e39,4]", "22023", "greater than any real"),
    "all zeros": ('SEMANTIC "x" FROM notes', "[0,0,0,0]", "22023", "no direction"),
    "no number": ('SEMANTIC "x" FROM notes', "[1,2,x,4]", "22023", '"x", which is no number'),
    "underscore": ('SEMANTIC "x" FROM notes', "[1,2,1_0,4]", "22023", "which is no number"),
    "other digits": ('SEMANTIC "x" FROM notes', "[1,2,٣,4]", "22023", "which is no number"),
    "no array": ('SEMANTIC "x" FROM notes', "1,2,3,4", "22023", "must be an array"),
    "mixed brackets": ('SEMANTIC "x" FROM notes', "[1,2,3,4}", "22023", "must be an array"),
    "another thing": ('SEMANTIC "x" FROM notes', 5, "22023", "must be an array"),
    "null": ('SEMANTIC "x" FROM notes', [1, 2, 3, None], "22023", '"null", which is no number'),
    "too great for any number": (
        'SEMANTIC "x" FROM notes', [1, 2, 3, 10**5000], "22023",
        'number 4 of p_embedding is "a very large int", but must be finite',
    ),
    "a number that has no text": (
        'SEMANTIC "x" FROM notes', 10**5000, "22023",
        "p_embedding is a very large int, but must be an array",
    ),
    "no text": (10**5000, None, "22023", "the query is a very large int, but must be a text"),
    "null text": (None, None, "22023", "the query is null, but must be a text at character 1"),
    "truth": ('SEMANTIC "x" FROM notes', [1, 2, 3, True], "22023", "which is no number"),
    "source": ('TEXT "x" FROM note', None, "42704", '"note" is not a registered text source'),
    "source of vectors": ('SEARCH "x" FROM note', MACHINERY, "42704", '"note"'),
    "model": (
        'SEMANTIC "x" FROM notes USING hand-8d', MACHINERY, "42704",
        '"hand-8d" is not a registered embedding model',
    ),
    "relation": ('GRAPH "meri" TYPE operatd_by', None, "42704", '"operatd_by"'),
    "readable relation": ("SCHEMA sql FROM nodes", None, "42704", '"nodes"'),
    "empty key": ('GRAPH " "', None, "22023", "is empty"),
    "character that cannot be stored": ('LOOKUP "a\0b"', None, "22023", "NUL"),
    "grammar": ('TEXT "x" DEPTH 2', None, "42601", "DEPTH belongs to GRAPH"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "vector", "sqlstate", "says"), REFUSED.values(), ids=list(REFUSED)
)
def test_what_is_refused_says_why(store, text, vector, sqlstate, says):
    with pytest.raises(GraphAlgoError) as caught:
        query(store, text, vector)
    assert caught.value.sqlstate == sqlstate
    assert says in caught.value.message
    assert caught.value.hint


WORDS = [
    ('GRAPH "meri" TYPE nosuch', 'TYPE is "nosuch", which is not a declared relation'),
    ('GRAPH "meri" TYPE "p_key"', 'TYPE is "p_key", which is not a declared relation'),
    ('GRAPH "meri" DEPTH 6', "DEPTH is 6, but must be from 1 to 5 at character 20"),
    ('GRAPH "meri" LIMIT 0', "LIMIT is 0, but must be from 1 to 2147483647 at character 20"),
    ('LOOKUP "meri" LIMIT 0', "LIMIT is 0, but must be from 1 to 2147483647 at character 21"),
    ('GRAPH ""', "the key is empty, but must name a node"),
]


@pytest.mark.parametrize(("text", "message"), WORDS)
def test_a_refusal_speaks_the_dialect(store, text, message):
    with pytest.raises(GraphAlgoError) as caught:
        query(store, text)
    assert caught.value.message == message
    assert "p_" not in caught.value.hint


def test_what_finds_nothing_is_sent_to_fuzzy_lookup(store):
    error = query(store, 'GRAPH "p_relation zzzz"')["error"]
    assert error["message"] == 'no node is found by "p_relation zzzz"'
    assert error["hint"] == "Check the spelling; FUZZY LOOKUP finds similar names."
    assert "p_fuzzy" in seed_hint(store)


def seed_hint(store):
    with pytest.raises(GraphAlgoError) as caught:
        walk(store, "p_relation zzzz")
    return caught.value.hint


def test_near_spellings_are_in_the_hint(store):
    with pytest.raises(GraphAlgoError) as caught:
        query(store, 'TEXT "x" FROM nots')
    assert caught.value.hint == 'Did you mean FROM "notes"?'


class TestModels:
    @pytest.fixture
    def store(self):
        store = MemoryStore()
        store.add_text_source("a", "simple")
        store.add_passage("a", 1, "one")
        return store

    def test_without_models_there_is_none_to_default_to(self, store):
        with pytest.raises(GraphAlgoError, match="no embedding model is the default") as caught:
            query(store, 'SEMANTIC "x" FROM a', "[1]")
        assert caught.value.sqlstate == "42704"

    def test_without_a_default_one_must_be_named(self, store):
        store.add_embedding_model("m", 1)
        with pytest.raises(GraphAlgoError, match="no embedding model is the default") as caught:
            query(store, 'SEMANTIC "x" FROM a', "[1]")
        assert caught.value.hint == 'Write USING and one of "m".'
        assert query(store, 'SEMANTIC "x" FROM a USING m', "[1]")["rows"] == []

    def test_a_space_that_another_model_wrote_is_refused(self, store):
        store.add_embedding_model("m", 1, is_default=True)
        store.add_embedding_model("other", 1)
        store.add_embedding("a", "other", 1, [1.0])
        with pytest.raises(GraphAlgoError) as caught:
            query(store, 'SEMANTIC "x" FROM a', "[1]")
        assert caught.value.sqlstate == "22023"
        assert caught.value.message == ('source "a" has no vectors of model "m", but of "other"')
        assert [row["id"] for row in query(store, 'SEMANTIC "x" FROM a USING other', "[1]")["rows"]]

    def test_ids_are_numbers_or_texts_and_break_ties(self, store):
        store.add_text_source("texts", "simple")
        store.add_embedding_model("m", 1, "l2", is_default=True)
        for row in ("b", "a", "Z"):
            store.add_passage("texts", row, "same words")
            store.add_embedding("texts", "m", row, [1.0])
        for row in (10, 9):
            store.add_passage("a", row, "same words")
        lexical = query(store, 'TEXT "same" FROM texts')["rows"]
        nearest = query(store, 'SEMANTIC "x" FROM texts', "[2]")["rows"]
        assert [row["id"] for row in lexical] == [row["id"] for row in nearest] == ["Z", "a", "b"]
        assert {row["distance"] for row in nearest} == {1.0}
        assert [row["id"] for row in query(store, 'TEXT "same" FROM a')["rows"]] == [9, 10]


def test_a_backend_loads_nothing_that_is_slow_to_load():
    code = (
        "import sys; before = set(sys.modules);"
        "import graphalgo.server, graphalgo.p8ql.query, graphalgo.p8ql.searching;"
        "import graphalgo.p8ql.document, graphalgo.p8ql.spelling;"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "graphalgo.p8ql.document" in loaded
    slow = {"json", "re", "typing", "dataclasses", "collections.abc", "hashlib", "numpy"}
    assert not slow & set(loaded)
