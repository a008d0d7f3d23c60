"""Trigram similarity exactly as PostgreSQL's ``pg_trgm`` computes it.

A text is cut into words; each word, in lower case and padded with two spaces
before and one after, is cut into all its runs of three characters; the
similarity of two texts is the size of the intersection of the two sets over
that of their union, as a ``real``. What makes a word, and what a lower-case
letter is, PostgreSQL asks the C library, so this module asks tables read from
it (:mod:`graphalgo.engine.trigram_tables`), never Python's own Unicode.

A trigram is a string of three characters, each standing for one byte: ASCII
trigrams are themselves, all others are hashed to three bytes, as the server
does (on little-endian machines), so that even a collision of hashes comes out
the same.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from graphalgo.engine.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

UTF8 = "C.UTF-8"
"""The ``lc_ctype`` that the module follows unless told otherwise."""

BYTES = "C"
"""The ``lc_ctype`` under which only ASCII letters and digits make words."""

RELEASES = ("2.36", "2.41", "2.43")
"""Releases of the GNU C library whose tables are kept, oldest first.

A release between two of them differs from both in characters new to Unicode.
"""

PROBES = ("\u00e9", "\u0363", "\u088f")
"""Characters by which a server shows which tables it follows: see :func:`ctype_of`.

A letter that no byte-wise ``lc_ctype`` knows, then one for each release after
the first: a letter that is a word character since then.
"""

# A backend lives for days: what is remembered about characters and about
# hashed trigrams is a bounded convenience. Real names use a few hundred of each.
_MOST_REMEMBERED = 20_000

_REAL = Struct("<f")  # the native "f" would turn what is too large into infinity


def real(value: float) -> float:
    """Round a number to the nearest ``real`` (four bytes), as the server does.

    Parameters
    ----------
    value : float
        Any number; NaN and the infinities stay what they are.

    Returns
    -------
    float
        The value that PostgreSQL's ``value::real`` holds.

    Raises
    ------
    InvalidValue
        If the number is too large for a ``real``, or so small that it would
        become zero: the server refuses those casts too.
    """
    try:
        rounded: float = _REAL.unpack(_REAL.pack(float(value)))[0]
    except OverflowError:
        rounded = 0.0
    if rounded == 0.0 and value != 0.0:
        raise InvalidValue(
            f"the number {value!r} does not fit into a real",
            "Give 0, or a number whose size is between 1e-45 and 3.4e38.",
        )
    return rounded


def ratio(common: int, size_a: int, size_b: int) -> float:
    """Similarity of two trigram sets of which only the sizes are at hand.

    Parameters
    ----------
    common : int
        How many trigrams the two sets share, 0 or more.
    size_a, size_b : int
        How many trigrams each set has.

    Returns
    -------
    float
        ``common`` over the size of the union, rounded to a ``real``; 0 where
        either set is empty.
    """
    if common == 0:
        return 0.0
    # The quotient of two integers below 2**24 is rounded to a double and then
    # to a real; with 53 bits under 24 that is the same as rounding once.
    rounded: float = _REAL.unpack(_REAL.pack(common / (size_a + size_b - common)))[0]
    return rounded


def similarity_of(set_a: frozenset[str], set_b: frozenset[str]) -> float:
    """Similarity of two texts of which the trigrams are at hand.

    Parameters
    ----------
    set_a, set_b : frozenset of str
        What :func:`trigrams` returned, both for the same ``ctype``.

    Returns
    -------
    float
        From 0 to 1, the value of a ``real``. Compare it with ``real(threshold)``.
    """
    return ratio(len(set_a & set_b), len(set_a), len(set_b))


def similarity(text_a: str, text_b: str, ctype: str = UTF8) -> float:
    """Similarity of two texts, to the last bit what ``pg_trgm`` answers.

    Parameters
    ----------
    text_a, text_b : str
        Any texts. Two texts without a word character have similarity 0, even
        to themselves; ``C`` and ``C++`` have 1.
    ctype : str, default "C.UTF-8"
        As for :func:`trigrams`.

    Returns
    -------
    float
        From 0 to 1, the value of a ``real``. Compare it with ``real(threshold)``.

    Raises
    ------
    InvalidValue
        If ``ctype`` is none that the module knows.
    """
    return similarity_of(trigrams(text_a, ctype), trigrams(text_b, ctype))


def trigrams(text: str, ctype: str = UTF8) -> frozenset[str]:
    """The set of trigrams of a text.

    Parameters
    ----------
    text : str
        Any text.
    ctype : str, default "C.UTF-8"
        The ``lc_ctype`` of the database to agree with. ``"C"`` knows ASCII
        alone. ``"C.UTF-8"`` follows the newest release of the GNU C library
        that the tables know, and stands for every UTF-8 locale of it but the
        Turkish ones; ``"C.UTF-8@2.36"`` follows a given release, which matters
        for some combining letters and for characters new to Unicode only.

    Returns
    -------
    frozenset of str
        Three characters each, every character standing for a byte.

    Raises
    ------
    InvalidValue
        If ``ctype`` is none that the module knows.

    Notes
    -----
    Costs time in proportion to the text's length; a trigram with a character
    outside ASCII is hashed once and then remembered.
    """
    found: list[str] = []
    # Once translated, a text is made of word characters and spaces: no word
    # character is white space to split().
    for word in text.translate(_alphabet(ctype)).split():
        padded = f"  {word} "
        pieces = [padded[at : at + 3] for at in range(len(word) + 1)]
        if not word.isascii():
            pieces = [piece if piece.isascii() else _HASHED[piece] for piece in pieces]
        found += pieces
    return frozenset(found)


def ctype_of(words: Iterable[str]) -> str:
    """Which ``ctype`` a server follows, from what it takes for words.

    Parameters
    ----------
    words : iterable of str
        Those of :data:`PROBES` that have trigrams on the server:
        ``select p from unnest($1::text[]) p where similarity(p, p) > 0``.

    Returns
    -------
    str
        A value for the ``ctype`` of the other functions: ``"C"``, or
        ``"C.UTF-8@…"`` with the newest release of the tables that is not newer
        than the server's library.
    """
    known = set(words)
    if PROBES[0] not in known:
        return BYTES
    return f"{UTF8}@{RELEASES[sum(probe in known for probe in PROBES[1:])]}"


class _Alphabet(dict[int, int]):
    """What becomes of each character: its lower case if it makes words, else a space."""

    __slots__ = ("_first", "_last", "_lower", "_release")

    def __init__(self, release: str | None) -> None:
        super().__init__()
        for code in range(128):
            character = chr(code)
            self[code] = ord(character.lower()) if character.isalnum() else 32
        self._release = release
        self._first: list[int] = []
        self._last: list[int] = []
        self._lower: dict[int, int] = {}

    def __missing__(self, code: int) -> int:
        if self._release is None:
            return 32
        if not self._first:
            self._read_tables(self._release)
        at = bisect_right(self._first, code) - 1
        new = self._lower.get(code, code) if code <= self._last[at] else 32
        if len(self) < _MOST_REMEMBERED:
            self[code] = new
        return new

    def _read_tables(self, release: str) -> None:
        # Many a backend never sees a character outside ASCII, and does not pay for them.
        from graphalgo.engine.trigram_tables import LOWER, WORD  # noqa: PLC0415

        until = RELEASES[: RELEASES.index(release) + 1]
        word = sorted(pair for each in until for pair in parse_ranges(WORD[each]))
        for each in until:
            self._lower.update(parse_lower(LOWER[each]))
        self._last = [last for _, last in word]
        # Last, because it says that the rest is there: another thread may be looking.
        self._first = [first for first, _ in word]


class _Hashes(dict[str, str]):
    """Three bytes of a checksum for each trigram that is not ASCII alone.

    The checksum is ``pg_trgm``'s "legacy CRC-32": the table of the ordinary,
    bit-reversed CRC-32 walked as if it were not reversed, which is why zlib's
    is no help. The lowest three of its four bytes are kept, lowest first.
    """

    __slots__ = ("_table",)

    def __init__(self) -> None:
        super().__init__()
        self._table: list[int] = []

    def __missing__(self, trigram: str) -> str:
        table = self._table or self._make_table()
        crc = 0xFFFFFFFF
        for byte in trigram.encode():
            crc = (crc << 8 & 0xFFFFFFFF) ^ table[crc >> 24 ^ byte]
        crc ^= 0xFFFFFFFF
        new = chr(crc & 0xFF) + chr(crc >> 8 & 0xFF) + chr(crc >> 16 & 0xFF)
        if len(self) < _MOST_REMEMBERED:
            self[trigram] = new
        return new

    def _make_table(self) -> list[int]:
        table = []
        for byte in range(256):
            crc = byte
            for _ in range(8):
                crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
            table.append(crc)
        self._table = table  # whole at once: another thread may be looking
        return table


_HASHED = _Hashes()
_ALPHABETS: dict[str, _Alphabet] = {}


def _alphabet(ctype: str) -> _Alphabet:
    known = _ALPHABETS.get(ctype)
    return known if known is not None else _make_alphabet(ctype)


def _make_alphabet(ctype: str) -> _Alphabet:
    if ctype == BYTES:
        made = _Alphabet(None)
    elif ctype == UTF8:
        made = _alphabet(f"{UTF8}@{RELEASES[-1]}")
    else:
        name, _, release = ctype.partition("@")
        if name != UTF8 or release not in RELEASES:
            releases = ", ".join(f"{UTF8}@{each}" for each in RELEASES)
            raise InvalidValue(
                f"trigrams are not known for the ctype {ctype!r}",
                f"Write one of {BYTES}, {UTF8}, {releases}.",
            )
        made = _Alphabet(release)
    _ALPHABETS[ctype] = made
    return made


def parse_ranges(table: str) -> list[tuple[int, int]]:
    """First and last code point of each range of a table such as ``"30-39 5f"``."""
    pairs = []
    for written in table.split():
        first, _, last = written.partition("-")
        pairs.append((int(first, 16), int(last or first, 16)))
    return pairs


def parse_lower(table: str) -> dict[int, int]:
    """Lower case of each code point of a table such as ``"41-5a>61 100-12e/2>101"``."""
    pairs: dict[int, int] = {}
    for written in table.split():
        codes, _, target = written.partition(">")
        codes, _, step = codes.partition("/")
        first, _, last = codes.partition("-")
        start = int(first, 16)
        distance = int(target, 16) - start
        for code in range(start, int(last or first, 16) + 1, int(step or "1", 16)):
            pairs[code] = code + distance
    return pairs
