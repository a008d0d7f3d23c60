"""The worked examples of the README answer what stands below them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.p8ql.parser import FORMS
from graphalgo.p8ql.query import query
from graphalgo.samples import harbour_json
from graphalgo.stores.memory import MemoryStore

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
SECTION = (
    (Path(__file__).parents[2] / "README.md")
    .read_text(encoding="utf-8")
    .partition("## P8QL\n")[2]
    .partition("\n## ")[0]
)
VECTOR = re.search(r"the vector is\s+`([^`]*)`", SECTION)
EXAMPLES = [
    (lines[0], [line.strip() for line in lines[1:]])
    for block in re.findall(r"```text\n(.*?)```", SECTION, re.DOTALL)
    for lines in (part.split("\n") for part in re.split(r"\n(?=\S)", block.strip()))
]


@pytest.fixture(scope="module")
def store():
    return MemoryStore.from_dict(harbour_json())


def test_there_are_examples_of_every_mode_and_the_forms_are_the_parser_s():
    assert VECTOR is not None
    first_words = {text.split()[0] for text, _ in EXAMPLES}
    assert first_words >= {"LOOKUP", "GRAPH", "TEXT", "SEMANTIC", "SEARCH", "select"}
    for mode, form in FORMS.items():
        if mode != "SQL":
            assert f"| {mode} | `{form}`" in SECTION


@pytest.mark.parametrize(("text", "told"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_an_example_answers_what_stands_below_it(store, text, told):
    assert told
    try:
        answer = query(store, text, VECTOR[1] if VECTOR else None)
    except GraphAlgoError as error:
        assert told == [f"refused: {error.sqlstate} {error.message}"]
        return
    rows = [json.loads(line) for line in told if line.startswith("{")]
    found = [
        {name: row[name] for name in expected}
        for row, expected in zip(answer["rows"], rows, strict=True)
    ]
    assert found == rows
    for line in told:
        if not line.startswith("{"):
            name, _, value = line.partition(": ")
            assert answer[name] == json.loads(value)


@pytest.mark.parametrize(
    "name",
    [
        "aiq.query", "aiq.parse", "aiq.register_text_source", "aiq.put_embeddings",
        "aiq.vector_search", "graphalgo query", "graphalgo repl",
    ],
)  # fmt: skip
def test_the_changelog_names_what_is_new(name):
    assert name in " ".join(CHANGELOG.split())
