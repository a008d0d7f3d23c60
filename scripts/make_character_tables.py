#!/usr/bin/env python3
"""Make the character tables of the trigrams and of the folding of keys.

Word characters and lower-case letters are those of the GNU C library, asked
under ``C.UTF-8`` one code point at a time, because that is whom PostgreSQL
asks. Every release of the library follows another edition of Unicode, so the
tables are read on one host for each release and then written together::

    python3 make_character_tables.py read > 2.36.json        # on each host
    python3 make_character_tables.py write 2.36.json 2.41.json 2.43.json

Reading needs nothing but Python and the library, so it runs in a bare
container: ``docker run -i IMAGE python3 - read < make_character_tables.py``.
Writing makes ``graphalgo/engine/trigram_tables.py`` and
``sql/010_folding.sql``; a release that only adds to the one before it is kept
as what it adds, and one that takes something away is refused.
"""

from __future__ import annotations

import ctypes
import json
import sys
import textwrap
import unicodedata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent if "__file__" in globals() else Path()
LAST = 0x10FFFF

# Unicode's property White_Space and the four separators that Python's
# str.split takes for white space too. Pinned: the property may grow.
WHITE_SPACE = [
    (0x9, 0xD),
    (0x1C, 0x20),
    (0x85, 0x85),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
]

# Letters that are folded together, by what is likely to stand in one key. A call
# pays for the blocks whose ranges its text touches, so a range keeps off letters
# without case (Arabic, Thai, Chinese) and common punctuation.
BLOCKS = [
    ("Latin-1", [(0xC0, 0xDE)]),
    ("Latin Extended-A", [(0x100, 0x17F)]),
    ("Latin Extended-B", [(0x180, 0x24F)]),
    ("Greek", [(0x370, 0x3FF)]),
    ("Cyrillic", [(0x400, 0x52F)]),
    ("Armenian, Georgian, Cherokee", [(0x531, 0x556), (0x10A0, 0x13F5), (0x1C89, 0x1CBF)]),
    ("Latin Extended Additional", [(0x1E00, 0x1EFF)]),
    ("Greek Extended", [(0x1F00, 0x1FFF)]),
    ("letter-like signs, Roman numerals, letters in circles", [(0x2126, 0x2183), (0x24B6, 0x24CF)]),
    ("Glagolitic, Coptic, later Latin", [(0x2C00, 0x2CF2), (0xA640, 0xA7F5)]),
    ("full width", [(0xFF21, 0xFF3A)]),
    ("beyond the basic plane", [(0x10400, 0x1E921)]),
]


def read_library() -> dict[str, Any]:
    """Ask the C library of this host for every code point."""
    library = ctypes.CDLL(None)
    library.setlocale.restype = ctypes.c_char_p
    library.gnu_get_libc_version.restype = ctypes.c_char_p
    library.towlower.restype = ctypes.c_uint
    for name in ("iswalnum", "towlower"):
        getattr(library, name).argtypes = [ctypes.c_uint]
    if library.setlocale(0, b"C.UTF-8") is None:  # 0 is LC_CTYPE
        raise SystemExit("This host has no locale C.UTF-8, which the tables are read under.")
    lower = {code: library.towlower(code) for code in range(LAST + 1)}
    return {
        "release": library.gnu_get_libc_version().decode(),
        "word": [code for code in range(LAST + 1) if library.iswalnum(code)],
        "lower": [[code, other] for code, other in lower.items() if code != other],
    }


def word_ranges(codes: list[int]) -> str:
    """Write code points as ``first-last`` in base 16, separated by spaces."""
    ranges: list[list[int]] = []
    for code in sorted(codes):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return " ".join(f"{low:x}" if low == high else f"{low:x}-{high:x}" for low, high in ranges)


def lower_ranges(pairs: dict[int, int]) -> str:
    """Write pairs as ``first-last/step>lower case of first``, separated by spaces."""
    runs: list[list[int]] = []  # first, last, step (0 while it is one pair), lower case of first
    for code, other in sorted(pairs.items()):
        if runs:
            first, last, step, target = runs[-1]
            gap = code - last
            if other - code == target - first and gap in ((step,) if step else (1, 2)):
                runs[-1][1:3] = [code, gap]
                continue
        runs.append([code, code, 0, other])
    return " ".join(
        f"{first:x}"
        + (f"-{last:x}" if last != first else "")
        + (f"/{step:x}" if step > 1 else "")
        + f">{target:x}"
        for first, last, step, target in runs
    )


TABLES_HEADER = '''\
"""Word characters and lower-case letters of the GNU C library, as ranges.

Written by ``scripts/make_character_tables.py``; do not edit by hand. PostgreSQL
asks the C library which characters make words and what their lower case is, so
these are its answers (``iswalnum`` and ``towlower`` under ``C.UTF-8``) for every
code point, not Python's. One entry per release whose answers differ; each
release only adds to those before it, so each entry holds what it adds. Any
other locale of the library but Turkish and its kin answers the same.

Ranges are in base 16. ``WORD``: ``first-last``. ``LOWER``:
``first-last/step>target``, where ``target`` is the lower case of ``first`` and
the others follow at the same distance.
"""

'''


def table(name: str, comment: str, entries: dict[str, str]) -> str:
    """Write one table as a dictionary from release to ranges."""
    lines = [f"# {comment}", f"{name} = {{"]
    for release, ranges in entries.items():
        parts = textwrap.wrap(ranges, 86, break_on_hyphens=False)
        if len(parts) == 1:
            lines.append(f'    "{release}": "{ranges}",')
            continue
        lines.append(f'    "{release}": (')
        lines += [f'        "{part} "' for part in parts[:-1]] + [f'        "{parts[-1]}"']
        lines.append("    ),")
    return "\n".join([*lines, "}", ""])


def tables_text(readings: list[dict[str, Any]]) -> str:
    """The text of ``trigram_tables.py``, or an exit where a release takes something away."""
    words: set[int] = set()
    lower: dict[int, int] = {}
    word_entries: dict[str, str] = {}
    lower_entries: dict[str, str] = {}
    for reading in readings:
        release, new_words = reading["release"], set(reading["word"])
        new_lower = dict(reading["lower"])
        if not words <= new_words or not lower.items() <= new_lower.items():
            raise SystemExit(f"Release {release} does not only add to the one before it.")
        word_entries[release] = word_ranges(list(new_words - words))
        lower_entries[release] = lower_ranges(dict(new_lower.items() - lower.items()))
        words, lower = new_words, new_lower
    space = " ".join(
        f"{low:x}" if low == high else f"{low:x}-{high:x}" for low, high in WHITE_SPACE
    )
    return (
        TABLES_HEADER
        + table("WORD", "What iswalnum says yes to.", word_entries)
        + "\n"
        + table("LOWER", "What towlower changes, and into what.", lower_entries)
        + "\n# White space of keys: what str.split splits at, pinned.\n"
        + f'WHITE_SPACE = "{space}"\n'
    )


def letter(code: int) -> str:
    """One letter inside an ``E''`` string: itself, or escaped where text tools might change it."""
    if code < 0x2000 and unicodedata.is_normalized("NFC", chr(code)):
        return chr(code)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def literal(codes: list[int], indent: str) -> str:
    """An ``E''`` string of the letters, continued over lines that are not too long."""
    lines = [""]
    for written in map(letter, codes):
        if len(indent) + len(lines[-1]) + len(written) > 94:
            lines.append("")
        lines[-1] += written
    return "E" + f"\n{indent}".join(f"'{line}'" for line in lines)


def escaped_range(low: int, high: int) -> str:
    """A range of a bracket expression, escaped."""
    one, other = (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}" for code in (low, high))
    return one if low == high else f"{one}-{other}"


SQL_TEXT = """\
-- How a key is folded: every character to its simple lower case, white space
-- trimmed at the ends and collapsed to one space inside.
--
-- Written by scripts/make_character_tables.py; do not edit by hand. The letters
-- are spelled out because lower() asks the database's locale: with lc_ctype C it
-- leaves É alone, and elsewhere the answer changes with the release of the C
-- library. Keys folded on one server must be found on any other, and the Python
-- twin, graphalgo.engine.folding.fold_key, folds by the same table.
--
-- translate() compares each character with each letter of its list, so a list is
-- handed over only where the text touches the list's block; an empty list makes
-- translate() return the text as it is. A text of ASCII alone needs no list.
-- Every regular expression is collated "C", where a range is one of code points.

create or replace function aiq.fold_key(p_key text)
returns text
language sql
immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $fold$
  select btrim(regexp_replace(
    case when octet_length(p_key) = char_length(p_key) then lower(p_key collate "C")
    else
{chain}
    end collate "C",
    {space}, ' ', 'g'), ' ')
$fold$;

comment on function aiq.fold_key(text) is
  'The key as it is stored and compared: each character in simple lower case by a fixed table, '
  'white space trimmed and collapsed. Does not depend on the locale of the database. '
  'Folding a folded key changes nothing.';
alter function aiq.fold_key(text) owner to aiq_owner;
revoke all on function aiq.fold_key(text) from public;
grant execute on function aiq.fold_key(text) to authenticated, aiq_worker, aiq_engine;
"""


def sql_text(lower: dict[int, int]) -> str:
    """The text of ``010_folding.sql``: one ``translate`` around the other, a block each."""
    chain = '      lower(p_key collate "C")'
    covered = 0
    for name, ranges in BLOCKS:
        codes = sorted(code for code in lower if any(low <= code <= high for low, high in ranges))
        covered += len(codes)
        bracket = "".join(escaped_range(low, high) for low, high in ranges)
        chain = (
            f"      translate(\n{chain},\n"
            f"      -- {name}\n"
            f"      case when p_key collate \"C\" ~ E'[{bracket}]' then\n"
            f"        {literal(codes, ' ' * 8)}\n"
            f"      else '' end,\n"
            f"        {literal([lower[code] for code in codes], ' ' * 8)})"
        )
    if covered != sum(code > 0x7F for code in lower):
        raise SystemExit("BLOCKS leave letters out, or have some twice.")
    space = "".join(escaped_range(low, high) for low, high in WHITE_SPACE)
    return SQL_TEXT.format(chain=chain, space=f"E'[{space}]+'")


def main(arguments: list[str]) -> None:
    """Read this host's tables, or write the project's from what was read."""
    if arguments == ["read"]:
        json.dump(read_library(), sys.stdout)
    elif arguments[:1] == ["write"] and len(arguments) > 1:
        readings = [json.loads(Path(name).read_text()) for name in arguments[1:]]
        readings.sort(key=lambda reading: tuple(map(int, reading["release"].split("."))))
        tables = ROOT / "graphalgo" / "engine" / "trigram_tables.py"
        tables.write_text(tables_text(readings), encoding="utf-8")
        folding = ROOT / "sql" / "010_folding.sql"
        folding.write_text(sql_text(dict(readings[-1]["lower"])), encoding="utf-8")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
