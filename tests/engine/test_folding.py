"""Folding of keys: a fixed table, whatever the version of Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphalgo.engine.errors import InvalidValue
from graphalgo.engine.folding import fold_key
from graphalgo.engine.trigram import parse_lower
from graphalgo.engine.trigram_tables import LOWER

WHITE_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
STORABLE = [
    chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000
]  # what PostgreSQL can hold in a text


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("VSL-12", "vsl-12"),
        ("  Nordic \t  Aurora\n", "nordic aurora"),
        ("", ""),
        (" \u3000\x1c", ""),
        ("Übermut\u00a0\u2003GmbH", "übermut gmbh"),
        ("ΣΟΦΟΣ", "σοφοσ"),
        ("STRAẞE Straße", "straße straße"),
        ("İSTANBUL", "istanbul"),
        ("ISPARTA", "isparta"),
        ("Ⅷ Ⓐ ＡＢ", "ⅷ ⓐ ａｂ"),
        ("Ǆ ǅ ǆ", "ǆ ǆ ǆ"),
        ("ᲡᲐ Ꭰ 𐐀 𞤀", "სა ꭰ 𐐨 𞤢"),
        ("\u212a\u212b\u2126", "kåω"),
        ("ﬁ ŉ ½", "ﬁ ŉ ½"),
        ("zero\u200bwidth \ufeff", "zero\u200bwidth \ufeff"),
    ],
)
def test_folds_case_and_white_space(text: str, folded: str) -> None:
    assert fold_key(text) == folded


def test_white_space_is_pinned() -> None:
    assert len(WHITE_SPACE) == 29
    assert "".join(c for c in STORABLE if fold_key(c) == "") == WHITE_SPACE
    for character in WHITE_SPACE:
        assert fold_key(f"{character}a{character}{character}b{character}") == "a b"
        assert fold_key(f"{character}é{character}{character}ß{character}") == "é ß"


def test_every_other_character_becomes_one_character_by_the_table() -> None:
    lower = {pair for ranges in LOWER.values() for pair in parse_lower(ranges).items()}
    changed = {
        (ord(character), ord(fold_key(character)))
        for character in STORABLE
        if character not in WHITE_SPACE and fold_key(character) != character
    }
    assert changed == lower


def test_ascii_is_folded_alike_with_and_without_other_letters_beside_it() -> None:
    for code in range(1, 128):
        text = f"a{chr(code)}{chr(code)}Z"
        assert fold_key(text + "É") == fold_key(text) + "é"


def test_folding_twice_changes_nothing_for_any_character() -> None:
    for at in range(0, len(STORABLE), 64):
        once = fold_key("x".join(STORABLE[at : at + 64]))
        assert fold_key(once) == once


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_folding_twice_changes_nothing(text: str) -> None:
    once = fold_key(text)
    assert fold_key(once) == once
    assert once == once.strip(WHITE_SPACE)
    assert "  " not in once


@given(st.text(st.sampled_from([*WHITE_SPACE, *"aÉΣ-"])))
def test_words_stay_in_order_one_space_apart(text: str) -> None:
    words = text.split()
    assert fold_key(text).split(" ") == [fold_key(word) for word in words] or words == []


@pytest.mark.parametrize("text", ["a\0b", "\0", "é\0"])
def test_nul_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="NUL") as caught:
        fold_key(text)
    assert repr(text) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["\ud800", "key \udfff", "\ud83d\ude00"])
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="surrogate") as caught:
        fold_key(text)
    assert repr(text) in caught.value.message
    str(caught.value).encode()  # can be printed, and sent to a client
    assert caught.value.hint
