"""The store in memory keeps texts and vectors, and refuses what cannot be kept."""

from __future__ import annotations

import sys

import pytest

from graphalgo.engine.errors import (
    GraphAlgoError,
    InvalidValue,
    MissingSetting,
    NotFound,
    UnknownName,
)
from graphalgo.samples import harbour_json
from graphalgo.samples.harbour import graph_from_harbour, visible_to
from graphalgo.stores import fulltext
from graphalgo.stores.memory import MemoryStore


@pytest.fixture
def store():
    store = MemoryStore()
    store.add_text_source("notes", "simple", "a word or two")
    store.add_passage("notes", 1, "one two", "first")
    store.add_embedding_model("m", 2, is_default=True)
    return store


@pytest.mark.parametrize(
    ("add", "error", "says"),
    [
        (lambda s: s.add_text_source("x", "german"), UnknownName, '"german" is not known'),
        (lambda s: s.add_passage("notes", "1", "t"), InvalidValue, "an id of another kind"),
        (lambda s: s.add_passage("notes", True, "t"), InvalidValue, "an id of another kind"),
        (
            lambda s: s.add_passage("notes", 2, None),
            InvalidValue,
            'the content of passage 2 of "notes" is null, but must be a text',
        ),
        (lambda s: s.add_passage("notes", 2, 10**5000), InvalidValue, "is a very large int, but"),
        (lambda s: s.add_embedding("notes", "m", 1, [1, 1e39]), InvalidValue, "fit into a real"),
    ],
)
def test_what_cannot_be_kept_is_refused(store, add, error, says):
    with pytest.raises(error, match=says) as caught:
        add(store)
    assert caught.value.hint


# What is refused by the functions of the server, too, and in their words: see
# tests/database/test_twin_text.py.
@pytest.mark.parametrize(
    ("add", "error", "message"),
    [
        (lambda s: s.add_text_source(""), InvalidValue, 'p_name is "", but must name the source'),
        (lambda s: s.add_text_source(None), InvalidValue,
         "p_name is null, but must name the source"),
        (lambda s: s.add_passage("x", 1, "t"), UnknownName, 'there is no text source "x"'),
        (lambda s: s.add_embedding_model(" ", 2), InvalidValue,
         'p_name is " ", but must name the model'),
        (lambda s: s.add_embedding_model(None, 2), InvalidValue,
         "p_name is null, but must name the model"),
        (lambda s: s.add_embedding_model("x", 0), InvalidValue,
         "p_dim is 0, but must be from 1 to 16000"),
        (lambda s: s.add_embedding_model("x", 16001), InvalidValue,
         "p_dim is 16001, but must be from 1 to 16000"),
        (lambda s: s.add_embedding_model("x", True), InvalidValue,
         "p_dim is True, but must be from 1 to 16000"),
        (lambda s: s.add_embedding_model("x", 2, "dot"), InvalidValue,
         'p_distance is "dot", but must be cosine, l2 or inner'),
        (lambda s: s.add_embedding_model("x", 2, None), InvalidValue,
         "p_distance is null, but must be cosine, l2 or inner"),
        (lambda s: s.add_embedding_model("x", 2, is_default=None), InvalidValue,
         "p_is_default is null, but must be true or false"),
        (lambda s: s.add_embedding("x", "m", 1, [1, 2]), UnknownName,
         'there is no text source "x"'),
        (lambda s: s.add_embedding("notes", "x", 1, [1, 2]), UnknownName,
         'there is no embedding model "x"'),
        (lambda s: s.add_embedding("notes", "m", 2, [1, 2]), NotFound,
         '"notes" has no passage with the id 2'),
        (lambda s: s.add_embedding("notes", "m", 1, [1]), InvalidValue,
         'the vectors of model "m" have 2 numbers, but these have 1'),
        (lambda s: s.add_embedding("notes", "m", 1, [0, 0]), InvalidValue,
         "the vector of 1 holds nothing but zeros, which have no angle"),
        (lambda s: s.add_embedding("notes", "m", 1, [1, float("nan")]), InvalidValue,
         "the vector of 1 holds NaN"),
        (lambda s: s.add_embedding("notes", "m", 1, [1, float("-inf")]), InvalidValue,
         "the vector of 1 holds infinity"),
        (lambda s: s.add_embedding("notes", "m", 1, [1, None]), InvalidValue,
         "the vector of 1 holds null"),
    ],
)  # fmt: skip
def test_what_the_server_refuses_too_is_refused_in_its_words(store, add, error, message):
    with pytest.raises(error) as caught:
        add(store)
    assert caught.value.message == message
    assert caught.value.hint
    assert [model.name for model in store.embedding_models()] == ["m"]
    assert [source.name for source in store.text_sources()] == ["notes"]
    assert store.embedded_models("notes") == []


def test_a_model_with_vectors_keeps_its_width_and_distance(store):
    store.add_embedding_model("m", 3)
    store.add_embedding_model("m", 2, is_default=True)
    store.add_embedding("notes", "m", 1, [1, 2])
    for dim, distance in ((3, "cosine"), (2, "l2")):
        with pytest.raises(InvalidValue, match='"m" has vectors of 2 numbers for the distance cos'):
            store.add_embedding_model("m", dim, distance)
    store.add_embedding_model("m", 2, description="again")
    (model,) = store.embedding_models()
    assert (model.dim, model.distance, model.description) == (2, "cosine", "again")


def test_the_last_default_is_the_default(store):
    store.add_embedding_model("a", 3, is_default=True)
    assert [(model.name, model.is_default) for model in store.embedding_models()] == [
        ("a", True),
        ("m", False),
    ]


def test_a_passage_that_is_put_again_is_found_by_its_new_words(store):
    assert store.text_ranking("notes", "one", 5)
    store.add_passage("notes", 1, "three")
    assert not store.text_ranking("notes", "one", 5)
    assert [row for row, _ in store.text_ranking("notes", "three", 5)] == [1]


def test_a_graph_loads_without_what_stems_and_says_what_a_search_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    fulltext._stemmer.cache_clear()
    store = MemoryStore.from_dict(harbour_json())
    with pytest.raises(MissingSetting, match="snowballstemmer"):
        store.text_ranking("notes", "boiler", 5)
    fulltext._stemmer.cache_clear()


def test_the_plain_form_names_the_entry_that_is_wrong():
    graph = {
        "text_sources": [{"name": "n", "configuration": "simple"}],
        "passages": [{"source": "n", "id": 1, "content": "x"}, {"source": "n", "id": 2}],
    }
    with pytest.raises(GraphAlgoError, match="passages, entry 2 has no content"):
        MemoryStore.from_dict(graph)


def test_a_tenant_of_the_sample_has_their_own_notes():
    graph = graph_from_harbour(harbour_json(), scoped=True)
    meridian = MemoryStore.from_dict(visible_to(graph, harbour_json()["orgs"][0]["id"]))
    assert [row for row, _ in meridian.text_ranking("notes", "psc-441", 5)] == [1, 3]
    assert [row for row, _ in meridian.text_ranking("notes", "kestrel", 5)] == []
    assert {row for row, _ in meridian.vector_ranking("notes", "hand-4d", [1.0] * 4, 9)} == {
        1, 2, 3, 5,
    }  # fmt: skip


def test_a_long_text_is_shown_around_the_first_word_that_is_searched():
    lexeme = fulltext.dictionary("simple")
    text = "a " * 50 + "boiler pump " + "b " * 50
    shown = fulltext.snippet(text, fulltext.Query("pump", lexeme), lexeme)
    assert "«pump»" in shown
    assert len(shown.split()) == 30
    assert fulltext.snippet("", fulltext.Query("pump", lexeme), lexeme) == ""
