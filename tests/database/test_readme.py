"""The statements of the README answer what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from graphalgo.install import install
from graphalgo.loading import load_harbour
from tests.support import harbour
from tests.support.readme import EXAMPLES as DIALECT
from tests.support.readme import QUERIES, check_example

SECTION = (
    (Path(__file__).parents[2] / "README.md")
    .read_text(encoding="utf-8")
    .partition("## Texts and vectors\n")[2]
    .partition("\n## ")[0]
)
# Statements, and the rows that stand below them where there are any.
EXAMPLES = re.findall(r"```sql\n(.*?)```\n(?:\n```text\n(.*?)```)?", SECTION, re.DOTALL)
FUNCTIONS = (
    "register_text_source", "rebuild_text", "unregister_text_source", "register_embedding_model",
    "unregister_embedding_model", "passages_to_embed", "put_embeddings", "index_embeddings",
)  # fmt: skip


@pytest.fixture
def connection(make_database):
    made = make_database()
    install(made)
    load_harbour(made)
    with psycopg.connect(made, autocommit=True) as connection:
        yield connection


def answers(connection, script):
    """The rows of a script's statements, as the README writes them."""
    cursor = connection.execute(script)
    lines = []
    while True:
        if cursor.description:
            rows = cursor.fetchall()
            lines += [" | ".join(map(str, row)) for row in rows if row != ("",)]
        if not cursor.nextset():
            return lines


def test_texts_and_vectors(connection):
    assert all(f"aiq.{name}(" in "".join(sql for sql, _ in EXAMPLES) for name in FUNCTIONS)
    pgvector = connection.execute("select aiq.vector_schema() is not null").fetchone()[0]
    for script, told in EXAMPLES:
        if "aiq.index_embeddings" in script and not pgvector:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(script)
            assert caught.value.sqlstate == "55000"
        else:
            assert answers(connection, script) == told.splitlines()


@pytest.mark.parametrize(("text", "told"), DIALECT, ids=QUERIES)
def test_the_dialect_s_examples_answer_the_same_in_the_server(dsn, text, told):
    with harbour.caller(dsn, None) as connection:

        def ask(text, vector):
            try:
                return connection.execute("select aiq.query(%s, %s)", [text, vector]).fetchone()[0]
            except psycopg.Error as error:
                return error.sqlstate, error.diag.message_primary

        check_example(ask, text, told)
