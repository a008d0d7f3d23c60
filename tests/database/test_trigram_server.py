"""The engine's similarity and folding agree with the server they run beside.

Similarity is compared on the stored hard pairs, on texts spliced from them and
on every character; folding on every character and on random text, also in a
database that knows ASCII alone (``lc_ctype`` C).
"""

from __future__ import annotations

import json
import random
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from graphalgo.engine.folding import fold_key
from graphalgo.engine.trigram import BYTES, PROBES, ctype_of, real, similarity, trigrams

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
STORED = json.loads((ROOT / "tests" / "data" / "similarities.json").read_text())
STORABLE = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
ASCII_DATABASE = "graphalgo_test_ctype_c"
text_without_nul = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@contextmanager
def connected(dsn: str) -> Iterator[psycopg.Connection]:
    """A connection that finds pg_trgm, wherever it was put."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "select nspname from pg_extension join pg_namespace n on n.oid = extnamespace"
            " where extname = 'pg_trgm'"
        ).fetchone()
        assert row is not None, "pg_trgm is not installed"
        connection.execute(
            sql.SQL("set search_path = {}, pg_catalog").format(sql.Identifier(row[0]))
        )
        yield connection


@pytest.fixture
def server(dsn: str) -> Iterator[psycopg.Connection]:
    with connected(dsn) as connection:
        yield connection


@pytest.fixture
def ascii_server(dsn: str) -> Iterator[psycopg.Connection]:
    """A database of the same server with `lc_ctype` C, with pg_trgm and the folding function."""
    with psycopg.connect(dsn, autocommit=True) as first:
        first.execute(f"drop database if exists {ASCII_DATABASE}")
        first.execute(
            f"create database {ASCII_DATABASE} template template0 encoding 'UTF8'"
            " lc_collate 'C' lc_ctype 'C'"
        )
        try:
            with psycopg.connect(dsn, dbname=ASCII_DATABASE, autocommit=True) as connection:
                connection.execute("create extension pg_trgm; create schema aiq")
                connection.execute((ROOT / "sql" / "010_folding.sql").read_text(encoding="utf-8"))
                yield connection
        finally:
            first.execute(f"drop database {ASCII_DATABASE} with (force)")


def ctype(server: psycopg.Connection) -> str:
    rows = server.execute(
        "select p from unnest(%s::text[]) p where similarity(p, p) > 0", (list(PROBES),)
    ).fetchall()
    return ctype_of(row[0] for row in rows)


def hard_pairs() -> list[tuple[str, str]]:
    """The stored pairs, and two thousand texts spliced from pieces of them."""
    pairs = [(a, b) for a, b in STORED["pairs"]]
    source = random.Random(20)
    texts = sorted({text for pair in pairs for text in pair if text})
    for _ in range(2000):
        pieces = []
        for text in source.choices(texts, k=3):
            start = source.randrange(len(text))
            pieces.append(text[start : start + source.randrange(1, 14)])
        spliced = source.choice(["", " ", "-", "_"]).join(pieces)
        other = spliced[: source.randrange(len(spliced) + 1)] + source.choice(texts)[:9]
        pairs.append((spliced, source.choice([other, other.upper(), other.lower()])))
    return pairs


def servers_similarities(
    server: psycopg.Connection, pairs: list[tuple[str, str]]
) -> list[tuple[float, ...]]:
    return server.execute(
        "select similarity(a, b)::float8 from unnest(%s::text[], %s::text[])"
        " with ordinality as pair(a, b, at) order by at",
        ([a for a, _ in pairs], [b for _, b in pairs]),
    ).fetchall()


def disagreements(server: psycopg.Connection, name: str) -> list[tuple[str, str, float, float]]:
    pairs = hard_pairs()
    answers = servers_similarities(server, pairs)
    assert len(answers) == len(pairs) > 2000
    assert len({answer for (answer,) in answers}) > 100, "the pairs are not hard"
    return [
        (a, b, answer, similarity(a, b, name))
        for (a, b), (answer,) in zip(pairs, answers, strict=True)
        if similarity(a, b, name) != answer
    ]


def test_similarity_agrees_to_the_last_bit_on_hard_texts(server: psycopg.Connection) -> None:
    assert disagreements(server, ctype(server)) == []


def test_similarity_agrees_where_only_ascii_makes_words(ascii_server: psycopg.Connection) -> None:
    assert ctype(ascii_server) == BYTES
    assert disagreements(ascii_server, BYTES) == []


def test_thresholds_are_met_alike(server: psycopg.Connection) -> None:
    name = ctype(server)
    compared = []
    for a, b in [*hard_pairs(), ("abcdef", "abcdef xy")]:
        found = similarity(a, b, name)
        # The similarity itself, decimals near it, and thresholds in common use.
        for threshold in (found, round(found, 1), round(found, 7), 0.3, 0.6, 0.7):
            compared.append((a, b, threshold, found >= real(threshold)))
    rows = server.execute(
        "select similarity(a, b) >= t::real from unnest(%s::text[], %s::text[], %s::float8[])"
        " with ordinality as pair(a, b, t, at) order by at",
        tuple([row[part] for row in compared] for part in range(3)),
    ).fetchall()
    wrong = [row for row, (met,) in zip(compared, rows, strict=True) if row[3] is not met]
    assert wrong == []


def test_every_character_has_the_servers_trigrams(server: psycopg.Connection) -> None:
    # Spaces keep the characters apart, so that each shows whether it makes a
    # word and what its lower case is.
    name = ctype(server)
    texts = [" ".join(STORABLE[at : at + 64]) for at in range(0, len(STORABLE), 64)]
    rows = server.execute(
        "select show_trgm(t) from unnest(%s::text[]) with ordinality as u(t, at) order by at",
        (texts,),
    ).fetchall()
    wrong = [
        text
        for text, (shown,) in zip(texts, rows, strict=True)
        if set(shown) != {as_shown(trigram) for trigram in trigrams(text, name)}
    ]
    assert wrong == [], "read the tables anew with scripts/make_character_tables.py"


def as_shown(trigram: str) -> str:
    """A trigram as ``show_trgm`` writes it."""
    if all(
        character == " " or (character.isascii() and character.isalnum()) for character in trigram
    ):
        return trigram
    return "0x" + trigram.encode("latin-1").hex()


def servers_folds(server: psycopg.Connection, texts: list[str]) -> list[str]:
    rows = server.execute(
        "select aiq.fold_key(t) from unnest(%s::text[]) with ordinality as u(t, at) order by at",
        (texts,),
    ).fetchall()
    return [row[0] for row in rows]


def assert_folds_alike(server: psycopg.Connection, texts: list[str]) -> None:
    folds = servers_folds(server, texts)
    wrong = [(t, fold) for t, fold in zip(texts, folds, strict=True) if fold != fold_key(t)]
    assert wrong == []
    assert servers_folds(server, folds) == folds


def every_character() -> list[str]:
    """Texts that hold every character, each between letters that keep white space visible."""
    return ["x" + "x".join(STORABLE[at : at + 64]) + "x" for at in range(0, len(STORABLE), 64)]


def test_every_character_is_folded_alike(server: psycopg.Connection) -> None:
    assert_folds_alike(server, every_character())


def test_every_character_is_folded_alike_whatever_the_locale(
    ascii_server: psycopg.Connection,
) -> None:
    assert_folds_alike(ascii_server, every_character())


def test_white_space_at_the_ends_is_trimmed_alike(server: psycopg.Connection) -> None:
    basic = [character for character in STORABLE if ord(character) < 0x3100]
    assert_folds_alike(server, basic + [f"{c}{c}É{c} {c}A{c}" for c in basic])


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(text_without_nul, min_size=1, max_size=40))
def test_random_text_is_folded_alike(server: psycopg.Connection, texts: list[str]) -> None:
    assert_folds_alike(server, texts)


def test_folding_nothing_gives_nothing(server: psycopg.Connection) -> None:
    assert server.execute("select aiq.fold_key(null)").fetchone() == (None,)


def test_folding_is_declared_for_indexes_and_parallel_plans(server: psycopg.Connection) -> None:
    row = server.execute(
        "select provolatile::text, proisstrict, proparallel::text, proowner::regrole::text,"
        " prosecdef from pg_proc where oid = 'aiq.fold_key(text)'::regprocedure"
    ).fetchone()
    assert row == ("i", True, "s", "aiq_owner", False)


@pytest.mark.parametrize(
    ("role", "may"),
    [("authenticated", True), ("aiq_worker", True), ("aiq_engine", True), ("web_anon", False)],
)
def test_only_named_roles_may_fold(server: psycopg.Connection, role: str, may: bool) -> None:
    row = server.execute(
        "select has_function_privilege(%s, 'aiq.fold_key(text)', 'execute')", (role,)
    ).fetchone()
    assert row == (may,)
