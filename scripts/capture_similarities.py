#!/usr/bin/env python3
"""Capture what real servers answer for the similarity of texts that are hard to get right.

::

    python scripts/capture_similarities.py C.UTF-8@2.36=DSN C.UTF-8@2.41=DSN … C=DSN

Each DSN is of a UTF-8 database with pg_trgm whose ``lc_ctype`` is the one it
stands for; ``graphalgo.engine.trigram.ctype_of`` says which that is, and a
wrong one is refused. Writes ``tests/data/similarities.json``: the pairs of
texts, and for each ``ctype`` the answers in the order of the pairs.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import psycopg

from graphalgo.engine.trigram import PROBES, ctype_of

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "similarities.json"

TEXTS = [
    "Northwind Shipping Company Ltd",
    "MV Nordic Aurora (ex Polar-Star)",
    "snake_case_name and CamelCaseName",
    "A1B2 c3-d4 9331802",
    "C++",
    "a b c d e f a b c d e f",
    "abc" * 400,
    "Übermütige Straßenbau-Genossenschaft",
    "STRASSE STRAẞE straße",
    "İSTANBUL ISPARTA ıhlamur İ",
    "ΣΊΣΥΦΟΣ ΟΔΥΣΣΕΥΣ σοφος",
    "ὈΔΥΣΣΕΎΣ ᾼ ᾳ ᾯ",
    "МОСКВА Северный завод Ѣ",
    "ՀԱՅԱՍՏԱՆ Երևան",
    "ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ საქართველო Ⴀ",
    "ᎠᎡᎢ ꭰꭱꭲ Ꮾ",
    "ﬁne ﬂour oﬃce ŉ ǰ",
    "Ǆungla ǅungla ǆungla Ǉ ǈ ǋ",
    "Henry Ⅷ Henry ⅷ Ⅻ",
    "H₂O m² x³ ½ kg ¼ ⅔ ①②③",
    "Ⓐⓑⓒ 🄰🄱 🅰",
    "K Å Ω ℃ № ™ ª º",
    "กรุงเทพมหานคร น้ำ ประเทศไทย",
    "हिन्दी भाषा क्षत्रिय ०१२३",
    "বাংলাদেশ ঢাকা ১২৩",
    "தமிழ் மொழி நாடு",
    "తెలుగు ಕನ್ನಡ മലയാളം",
    "བོད་སྐད་ ༂ ྃ ལྷ་ས་",
    "ຂ້ອຍ ភាសាខ្មែរ မြန်မာ",
    "مُحَمَّد العَرَبِيَّة ١٢٣",
    "نامه\u200cای فارسی ۴۵۶",
    "שָׁלוֹם עוֹלָם ירושלים",
    "東京都 株式会社三菱 千代田区",
    "서울특별시 삼성전자 한국",
    "ひらがな カタカナ ｶﾀｶﾅ ー々〆",
    "ＡＢＣ１２３ ｆｕｌｌ Ｗｉｄｅ",
    "Cafe\u0301 A\u030angstro\u0308m n\u0303",
    "Café Ångström ñ",
    "👩\u200d👩\u200d👧\u200d👦 family 🇩🇪 flag 😀😃",
    "𐐀𐐁𐐂 𐐨𐐩𐐪 Deseret",
    "𝒜𝓁𝓅𝒽𝒶 𝟙𝟚𝟛 𝔘𝔫𝔦",
    "𞤀𞤣𞤤𞤢𞤥 𐓀𐓨 𖹀𖹠",
    "𠀀𠀁 𫝀 𰀀",
    "a\u0363b o\u036fp \u1dd3x \u1de6y",
    "x\u088fy ࢏ \u0897z \ua7cbq Ɤ",
    "\u1c89b \u1c8ab \ua7dac \ua7ced \ua7d2e",
    "\U00010d50\U00010d51 \U00010d70\U00010d71 \U00016ea0\U00016ea1 \U00016ebb\U00016ebc",
    "soft\u00adhyphen zero\u200bwidth word\u2060joiner \ufeffmark",
    "no\u00a0break ideo\u3000graphic thin\u2009space line\u2028feed",
    "tab\tnew\nline\rreturn\x0bvt\x0cff \x1cfs \x85nel",
    "under__score ‿ tie ⁔ ･ ・ dot·dot",
    "\x01control\x7fdelete \ue000private \ufffenon \U0010fffflast",
    "’quotes‘ “double” «guillemets» — dash – en",
    "!!! ??? ... +++",
    # Trigrams of these two characters are hashed to the bytes of "scs" and "b08".
    "\u4fff xscsx",
    "千 xb08x",
    " ",
    "",
]


def variants(text: str) -> list[str]:
    """Texts that are more or less similar to a text, each in its own way."""
    words = text.split(" ")
    return [
        text.upper(),
        text.lower().title(),
        "".join(character for at, character in enumerate(text) if at % 5 != 3),
        " ".join(reversed(words)),
        "_".join(words[:2]) + "\u0301",
        "".join(words),
    ]


def hard_pairs() -> list[tuple[str, str]]:
    """Every text with itself, with its variants and with its neighbour."""
    pairs = [(text, other) for text in TEXTS for other in [text, *variants(text)]]
    pairs += [(text, text + " " + after) for text, after in itertools.pairwise(TEXTS)]
    pairs += [("C", "C++"), ("½", "½"), ("\u4fff", "xscsx"), ("千", "xb08x"), ("İ", "i")]
    return list(dict.fromkeys(pairs))


def answers(dsn: str, ctype: str, pairs: list[tuple[str, str]]) -> list[float]:
    """The server's similarity of each pair."""
    with psycopg.connect(dsn) as connection:
        probed = connection.execute(
            "select p from unnest(%s::text[]) p where similarity(p, p) > 0", (list(PROBES),)
        ).fetchall()
        found = ctype_of(row[0] for row in probed)
        if found != ctype:
            raise SystemExit(f"The database that stands for {ctype} is one of {found}.")
        rows = connection.execute(
            "select similarity(a, b)::float8 from unnest(%s::text[], %s::text[])"
            " with ordinality as pair(a, b, at) order by at",
            ([a for a, _ in pairs], [b for _, b in pairs]),
        ).fetchall()
    return [row[0] for row in rows]


def main(arguments: list[str]) -> None:
    """Ask every server and write the file."""
    if not arguments:
        raise SystemExit(__doc__)
    pairs = hard_pairs()
    servers = [argument.partition("=")[::2] for argument in arguments]
    captured = {ctype: answers(dsn, ctype, pairs) for ctype, dsn in servers}
    lines = [json.dumps(pair) for pair in pairs]
    text = '{"pairs": [\n' + ",\n".join(lines) + '\n],\n"answers": {\n'
    text += ",\n".join(f'"{ctype}": {json.dumps(found)}' for ctype, found in captured.items())
    TARGET.write_text(text + "\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
