"""Trigram similarity agrees with pg_trgm, as captured from real servers.

``tests/data/similarities.json`` holds pairs of texts that are hard to get
right and what servers with each ``lc_ctype`` answered for them
(``scripts/capture_similarities.py``); the database tests ask a live one.
"""

from __future__ import annotations

import ctypes
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphalgo.engine import trigram, trigram_tables
from graphalgo.engine.errors import InvalidValue
from graphalgo.engine.trigram import (
    BYTES,
    PROBES,
    RELEASES,
    UTF8,
    ctype_of,
    parse_lower,
    parse_ranges,
    ratio,
    real,
    similarity,
    similarity_of,
    trigrams,
)

ROOT = Path(__file__).resolve().parents[2]
CAPTURED = json.loads((ROOT / "tests" / "data" / "similarities.json").read_text())
CTYPES = [BYTES, *(f"{UTF8}@{release}" for release in RELEASES)]
SURROGATES = range(0xD800, 0xE000)


@pytest.mark.parametrize("ctype", CTYPES)
def test_similarity_is_what_a_server_with_that_ctype_answered(ctype: str) -> None:
    answers = CAPTURED["answers"][ctype]
    assert len(answers) == len(CAPTURED["pairs"]) > 400
    wrong = [
        (a, b, expected, similarity(a, b, ctype))
        for (a, b), expected in zip(CAPTURED["pairs"], answers, strict=True)
        if similarity(a, b, ctype) != expected
    ]
    assert wrong == []


def test_the_plain_ctype_is_the_newest_release() -> None:
    for a, b in CAPTURED["pairs"]:
        assert similarity(a, b) == similarity(a, b, CTYPES[-1])


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("C", "C++", 1.0),
        ("½", "½", 0.0),
        ("²", "²", 0.0),
        ("", "", 0.0),
        ("a", "", 0.0),
        ("word word word", "word", 1.0),
        ("İ", "i", 1.0),
        ("STRASSE", "straße", 0.3636363744735718),
        ("ΣΟΦΟΣ", "σοφοσ", 1.0),
        ("ΣΟΦΟΣ", "σοφος", 0.5),
        ("Ⅷ", "ⅷ", 1.0),
        ("กำ", "กา", 0.20000000298023224),
    ],
)
def test_known_traps(a: str, b: str, expected: float) -> None:
    assert similarity(a, b) == similarity(b, a) == expected


def test_trigrams_of_a_word_are_padded_by_two_spaces_before_and_one_after() -> None:
    assert trigrams("Cat's") == {"  c", " ca", "cat", "at ", "  s", " s "}


def test_hashes_collide_where_the_servers_do() -> None:
    # One trigram of this character is hashed to the bytes of an ASCII trigram.
    assert trigrams("\u4fff") & trigrams("xscsx") == {"scs"}


def test_a_combining_letter_makes_words_since_a_later_release_only() -> None:
    assert trigrams("\u0363", "C.UTF-8@2.36") == frozenset()
    assert len(trigrams("\u0363", "C.UTF-8@2.41")) == 2


def test_bytewise_ctype_takes_letters_outside_ascii_for_gaps() -> None:
    assert trigrams("aéb", BYTES) == trigrams("a b", BYTES)
    assert trigrams("ÀÉ", BYTES) == frozenset()


def test_text_that_no_server_can_hold_has_no_trigrams_and_no_error() -> None:
    assert trigrams("\ud800\0") == frozenset()


def test_unknown_ctype_is_refused_by_name() -> None:
    for ctype in ("tr_TR.UTF-8", "C.UTF-8@1.0", "C@2.36", ""):
        with pytest.raises(InvalidValue) as caught:
            trigrams("x", ctype)
        assert repr(ctype) in caught.value.message
        assert "C.UTF-8@2.36" in (caught.value.hint or "")


def test_a_server_shows_by_the_probes_which_tables_it_follows() -> None:
    for ctype in CTYPES:
        assert ctype_of(probe for probe in PROBES if trigrams(probe, ctype)) == ctype


def test_similarity_of_sets_and_of_sizes_agree_with_similarity() -> None:
    for a, b in CAPTURED["pairs"]:
        one, other = trigrams(a), trigrams(b)
        expected = similarity(a, b)
        assert similarity_of(one, other) == expected
        assert ratio(len(one & other), len(one), len(other)) == expected


def test_threshold_is_met_as_a_real_though_not_as_a_double() -> None:
    assert ratio(7, 7, 10) >= real(0.7)
    assert not ratio(7, 7, 10) >= 0.7


@given(st.text(), st.text())
def test_similarity_is_symmetric_a_real_and_between_0_and_1(a: str, b: str) -> None:
    found = similarity(a, b)
    assert found == similarity(b, a) == real(found)
    assert 0.0 <= found <= 1.0
    assert similarity(a, a) == (1.0 if trigrams(a) else 0.0)


@given(st.floats(width=32))
def test_real_leaves_a_real_alone(value: float) -> None:
    assert real(value) == value or math.isnan(real(value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, 0.10000000149011612),
        (0.6, 0.6000000238418579),
        (0.7, 0.699999988079071),
        (16_777_217, 16_777_216.0),
        (1e-45, 1.401298464324817e-45),
        (0, 0.0),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
    ],
)
def test_real_rounds_to_four_bytes(value: float, expected: float) -> None:
    assert real(value) == expected


@pytest.mark.parametrize("value", [1e39, -1e39, 10**400, 1e-46, -1e-46])
def test_real_refuses_what_the_server_cannot_cast(value: float) -> None:
    with pytest.raises(InvalidValue, match="does not fit into a real"):
        real(value)


def test_tables_name_the_releases_that_the_module_names() -> None:
    assert tuple(trigram_tables.WORD) == tuple(trigram_tables.LOWER) == RELEASES


def test_each_release_only_adds_to_those_before_it() -> None:
    word: set[int] = set()
    lower: set[int] = set()
    for release in RELEASES:
        new_word = {
            code
            for first, last in parse_ranges(trigram_tables.WORD[release])
            for code in range(first, last + 1)
        }
        new_lower = set(parse_lower(trigram_tables.LOWER[release]))
        assert new_word and not word & new_word
        assert new_lower and not lower & new_lower
        word |= new_word
        lower |= new_lower


def test_no_word_character_is_white_space_to_split() -> None:
    # Words are told apart by str.split, which knows more white space than " ".
    alphabet = trigram._alphabet(UTF8)
    for code in range(0x110000):
        lowered = chr(alphabet[code])
        assert lowered == " " or not lowered.isspace()


def test_what_is_remembered_is_bounded_and_changes_no_answer() -> None:
    alphabet = trigram._Alphabet(RELEASES[-1])
    first = [alphabet[code] for code in range(0x110000)]
    assert len(alphabet) <= trigram._MOST_REMEMBERED
    assert first == [alphabet[code] for code in range(0x110000)]
    hashed = trigram._Hashes()
    pieces = [chr(0x4E00 + at) + chr(0x5E00 + at) + " " for at in range(20_500)]
    answers = [hashed[piece] for piece in pieces]
    assert len(hashed) <= trigram._MOST_REMEMBERED
    assert answers == [hashed[piece] for piece in pieces]


def test_tables_are_those_of_this_host() -> None:
    library = ctypes.CDLL(None)
    try:
        library.gnu_get_libc_version.restype = ctypes.c_char_p
        release = library.gnu_get_libc_version().decode()
    except AttributeError:
        pytest.skip("the C library is not GNU's")
    if release not in RELEASES:
        pytest.skip(f"no table is kept for release {release} of the C library")
    # In a process of its own: the locale belongs to the whole process.
    script = ROOT / "scripts" / "make_character_tables.py"
    answer = subprocess.run(
        [sys.executable, str(script), "read"], capture_output=True, check=True, text=True
    )
    read = json.loads(answer.stdout)
    alphabet = trigram._Alphabet(release)
    word, lower = set(read["word"]), dict(read["lower"])
    for code in range(0x110000):
        assert alphabet[code] == (lower.get(code, code) if code in word else 32), hex(code)


def test_importing_costs_no_heavy_module() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import graphalgo.engine.errors\n"
        "from graphalgo.engine import folding, trigram\n"
        "trigram.similarity('abc', 'abd'); folding.fold_key('A  b')\n"
        "heavy = {'collections', 'ctypes', 'dataclasses', 'functools', 'json', 're', 'typing'}\n"
        "print(sorted(heavy & set(sys.modules)), 'graphalgo.engine.trigram_tables' in sys.modules)"
    )
    # -S: the site module may import any of them for packages of its own.
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, check=True, text=True
    )
    assert answer.stdout.split("\n")[0] == "[] False"
