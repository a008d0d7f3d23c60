"""The store in memory reads, finds and ranks texts as the server does."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.stores.fulltext import STOP_WORDS, Query, Vector, dictionary, lexemes
from graphalgo.stores.memory import MemoryStore

WORDS = [
    "boiler", "boilers", "pump", "pumping", "the", "of", "a", "ship", "ships", "shipping",
    "deficiency", "deficiencies", "galley", "PSC-441", "psc", "441", "-441", "état-major",
    "feed-pump", "3rd", "b52-x", "12-13", "1.5", "1.2.3", "1e5", "x_y", "don't", "Ünïcode",
    "foo--bar", "a-b-1", "generously", "unserviceable", "is", "or", "OR", "and", "№5", "e-mail",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)
PHRASES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(
    lambda words: '"' + " ".join(words) + '"'
)
OPERANDS = st.one_of(st.sampled_from(WORDS), PHRASES).flatmap(
    lambda operand: st.sampled_from([operand, operand, operand, f"-{operand}"])
)
QUERIES = st.one_of(
    st.lists(st.one_of(OPERANDS, st.just("or")), max_size=6).map(" ".join),
    st.text(st.sampled_from('abor "-!&|(): \t'), max_size=15),
)

SERVER = """
select
    array(
        select u.lexeme || ':' || p
        from unnest(v.vector) as u, unnest(u.positions) as p
        order by u.lexeme collate "C", p
    ),
    v.vector @@ q.query, ts_rank(v.vector, q.query)::float8
from to_tsvector(%(configuration)s::regconfig, %(text)s) as v (vector)
cross join websearch_to_tsquery(%(configuration)s::regconfig, %(words)s) as q (query)
"""


@pytest.fixture(scope="module")
def connection(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.parametrize("configuration", ["english", "simple"])
@given(text=TEXTS, words=QUERIES)
@example(text="PSC-441 raised; psc-441 again", words="psc-441 or raised")
@example(text="the boiler of the ship", words='"boiler of the ship" -galley')
@example(text=" ".join(["boiler pump"] * 150), words="boiler pump")
@example(text=" ".join(["boiler"] * 300), words="boiler or pump")
@example(text="boiler " + "x " * 120 + "pump", words="boiler pump")
@example(text="", words="-a)-b")
@example(text="", words=":-b")
@example(text="a b", words="a:-b ::b")
@example(text="word " * 17_000 + "boiler pump", words='"boiler pump"')
def test_texts_are_read_found_and_ranked_as_by_the_server(connection, configuration, text, words):
    vector, found, rank = connection.execute(
        SERVER, {"configuration": configuration, "text": text, "words": words}
    ).fetchone()
    lexeme = dictionary(configuration)
    twin = Vector(text, lexeme)
    assert sorted(
        f"{word}:{place}" for word, places in twin.positions.items() for place in places
    ) == sorted(vector)
    query = Query(words, lexeme)
    assert query.matches(twin) is found
    if found:
        assert query.rank(twin) == rank


def test_the_stop_words_are_the_server_s(connection):
    words = connection.execute(
        "select array(select w from unnest(%s::text[]) as w"
        " where ts_lexize('english_stem', w) = '{}')",
        [[*sorted(STOP_WORDS), "boiler", "us", "shall", "yes"]],
    ).fetchone()[0]
    assert set(words) == STOP_WORDS


def test_stop_words_leave_a_gap():
    assert list(lexemes("the port of call", dictionary("english"))) == [("port", 2), ("call", 4)]


# A call of the server's and of the twin's, which is refused.
REFUSED = {
    "no name": ("register_embedding_model('', 2)", lambda s: s.add_embedding_model("", 2)),
    "a null name": ("register_embedding_model(null, 2)", lambda s: s.add_embedding_model(None, 2)),
    "no width": ("register_embedding_model('x', 0)", lambda s: s.add_embedding_model("x", 0)),
    "a null width": (
        "register_embedding_model('x', null)", lambda s: s.add_embedding_model("x", None),
    ),
    "a width too great": (
        "register_embedding_model('x', 16001)", lambda s: s.add_embedding_model("x", 16001),
    ),
    "a distance": (
        "register_embedding_model('x', 2, 'dot')", lambda s: s.add_embedding_model("x", 2, "dot"),
    ),
    "a null default": (
        "register_embedding_model('x', 2, 'l2', null)",
        lambda s: s.add_embedding_model("x", 2, "l2", None),
    ),
    "a source": (
        "put_embeddings('note', 'm', '{1}', '{{1,2}}')",
        lambda s: s.add_embedding("note", "m", 1, [1, 2]),
    ),
    "a model": (
        "put_embeddings('notes', 'n', '{1}', '{{1,2}}')",
        lambda s: s.add_embedding("notes", "n", 1, [1, 2]),
    ),
    "a passage": (
        "put_embeddings('notes', 'm', '{99}', '{{1,2}}')",
        lambda s: s.add_embedding("notes", "m", 99, [1, 2]),
    ),
    "another width": (
        "put_embeddings('notes', 'm', '{1}', '{{1,2,3}}')",
        lambda s: s.add_embedding("notes", "m", 1, [1, 2, 3]),
    ),
    "null in a vector": (
        "put_embeddings('notes', 'm', '{1}', '{{1,null}}')",
        lambda s: s.add_embedding("notes", "m", 1, [1, None]),
    ),
    "NaN": (
        "put_embeddings('notes', 'm', '{1}', '{{1,NaN}}')",
        lambda s: s.add_embedding("notes", "m", 1, [1, float("nan")]),
    ),
    "infinity": (
        "put_embeddings('notes', 'm', '{1}', '{{1,-Infinity}}')",
        lambda s: s.add_embedding("notes", "m", 1, [1, float("-inf")]),
    ),
    "zeros": (
        "put_embeddings('notes', 'm', '{1}', '{{0,0}}')",
        lambda s: s.add_embedding("notes", "m", 1, [0, 0]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_models_and_vectors_are_refused_alike(connection, case):
    statement, call = REFUSED[case]
    twin = MemoryStore()
    twin.add_text_source("notes", "simple")
    twin.add_passage("notes", 1, "one")
    twin.add_embedding_model("m", 2)
    with pytest.raises(GraphAlgoError) as of_twin:
        call(twin)
    with pytest.raises(psycopg.Error) as of_server, connection.transaction():
        connection.execute("delete from aiq.embedding_models")
        connection.execute("select aiq.register_embedding_model('m', 2)")
        connection.execute(f"select aiq.{statement}")
    assert of_server.value.sqlstate == of_twin.value.sqlstate
    assert of_server.value.diag.message_primary == of_twin.value.message
    assert of_server.value.diag.message_hint
    assert of_twin.value.hint
