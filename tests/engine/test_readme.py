"""The worked examples of the README answer what stands below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.p8ql.parser import FORMS
from graphalgo.p8ql.query import query
from graphalgo.samples import harbour_json
from graphalgo.stores.memory import MemoryStore
from tests.support.readme import EXAMPLES, QUERIES, SECTION, VECTOR, check_example

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def store():
    return MemoryStore.from_dict(harbour_json())


def test_there_are_examples_of_every_mode_and_the_forms_are_the_parser_s():
    assert VECTOR is not None
    first_words = {text.split()[0] for text in QUERIES}
    assert first_words >= {"LOOKUP", "GRAPH", "TEXT", "SEMANTIC", "SEARCH", "select"}
    for mode, form in FORMS.items():
        if mode != "SQL":
            assert f"| {mode} | `{form}`" in SECTION


@pytest.mark.parametrize(("text", "told"), EXAMPLES, ids=QUERIES)
def test_an_example_answers_what_stands_below_it(store, text, told):
    def ask(text, vector):
        try:
            return query(store, text, vector)
        except GraphAlgoError as error:
            return error.sqlstate, error.message

    check_example(ask, text, told)


@pytest.mark.parametrize(
    "name",
    [
        "aiq.query", "aiq.parse", "aiq.register_text_source", "aiq.put_embeddings",
        "aiq.vector_search", "graphalgo query", "graphalgo repl",
    ],
)  # fmt: skip
def test_the_changelog_names_what_is_new(name):
    assert name in " ".join(CHANGELOG.split())
