"""The capability document says what there is, and its digest changes with it alone."""

from __future__ import annotations

import pytest

from graphalgo.p8ql import document as documents
from graphalgo.p8ql import parser
from graphalgo.p8ql.document import digest, document, handwritten
from graphalgo.samples import harbour_json
from graphalgo.stores.memory import MemoryStore

# Change what is written by hand, and this test asks for another revision.
HANDWRITTEN = (1, "3111a759097c3d712f443f1b7fa42fd6")


@pytest.fixture
def store():
    return MemoryStore.from_dict(harbour_json())


def test_the_revision_is_raised_with_what_is_written_by_hand():
    assert (documents.REVISION, digest(handwritten())) == HANDWRITTEN, (
        "raise REVISION in graphalgo/p8ql/document.py and write both here"
    )


def test_each_facet_is_part_of_the_whole(store):
    whole = document(store)
    assert list(whole) == ["revision", "digest", "p8ql", "graph", "sql"]
    for facet in ("p8ql", "graph", "sql"):
        one = document(store, facet)
        assert list(one) == ["revision", "digest", facet]
        assert one[facet] == whole[facet]


def test_it_reads_the_catalogue(store):
    whole = document(store)
    assert [kind["name"] for kind in whole["graph"]["entity_types"]] == [
        "operator", "port", "registration", "vessel",
    ]  # fmt: skip
    assert whole["graph"]["entity_types"][0]["description"] == "a company that runs or owns ships"
    assert {
        "src_type": "vessel", "relation": "operated_by", "dst_type": "operator",
        "inverse_label": "operates", "description": None,
    } in whole["graph"]["relations"]  # fmt: skip
    (source,) = whole["p8ql"]["sources"]
    assert (source["name"], source["configuration"]) == ("notes", "english")
    assert source["models"] == ["hand-4d"]
    assert whole["p8ql"]["models"] == [
        {
            "name": "hand-4d",
            "dim": 4,
            "distance": "cosine",
            "is_default": True,
            "description": "vectors made by hand: machinery lies one way, people the other",
        }
    ]
    assert [mode["mode"] for mode in whole["p8ql"]["modes"]] == [*parser.MODES, "SQL"]


def test_examples_name_what_the_catalogue_has_and_are_accepted(store):
    examples = document(store, "p8ql")["p8ql"]["examples"]
    assert all(example["accepted"] for example in examples)
    assert {example["mode"] for example in examples} == {*parser.MODES, "SQL"}
    text = " ".join(example["query"] for example in examples)
    assert 'FROM "notes"' in text
    assert 'USING "hand-4d"' in text
    assert 'TYPE "competes_with"' in text


def test_examples_stand_where_there_is_nothing_to_name():
    examples = document(MemoryStore(), "p8ql")["p8ql"]["examples"]
    assert all(example["accepted"] for example in examples)


def test_an_example_that_is_no_longer_accepted_says_so(store, monkeypatch):
    before = document(store, "p8ql")
    monkeypatch.setattr(parser, "MODES", tuple(mode for mode in parser.MODES if mode != "GRAPH"))
    after = document(store, "p8ql")
    refused = [one for one in after["p8ql"]["examples"] if not one["accepted"]]
    assert refused
    assert all(one["query"].startswith("GRAPH") and "GRAPH" in one["error"] for one in refused)
    assert after["digest"] != before["digest"]


class TestDigest:
    def test_it_stays_while_the_document_does(self, store):
        assert document(store) == document(MemoryStore.from_dict(harbour_json()))
        first = document(store)["digest"]
        store.add_node(100, "port")
        store.add_key(100, "hamburg")
        assert document(store)["digest"] == first

    @pytest.mark.parametrize(
        ("facet", "change"),
        [
            ("graph", lambda store: store.add_entity_type("pilot", "PIL")),
            ("graph", lambda store: store.add_entity_type("port", "PRT", "another word")),
            ("graph", lambda store: store.add_relation("port", "near", "port")),
            ("p8ql", lambda store: store.add_text_source("logs", "simple")),
            ("p8ql", lambda store: store.add_embedding_model("b", 4)),
            ("p8ql", lambda store: store.add_embedding_model("hand-4d", 4, "cosine", False)),
        ],
    )
    def test_it_changes_with_the_facet_that_does(self, store, facet, change):
        before = {name: document(store, name) for name in (None, "p8ql", "graph", "sql")}
        change(store)
        after = {name: document(store, name) for name in before}
        for name in (None, facet):
            assert after[name]["digest"] != before[name]["digest"]
        for name, one in after.items():
            assert (one["digest"] == before[name]["digest"]) is (one == before[name])

    def test_it_is_of_the_document_and_not_of_its_order(self):
        assert digest({"a": 1, "b": [True, None, 0.5, "x"]}) == digest(
            {"b": [True, None, 0.5, "x"], "a": 1}
        )
        assert digest({"a": 1}) != digest({"a": "1"})
        assert digest(["a", "b"]) != digest(["a, b"])
