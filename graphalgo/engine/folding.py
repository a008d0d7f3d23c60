"""How a key is folded before it is stored, compared or looked up.

The SQL function ``aiq.fold_key`` and :func:`fold_key` answer the same for every
text: keys folded by a loader outside the server are found inside it, whatever
the locale of the database, the release of the server's C library and the
version of Python. So the letters and the white space are fixed tables
(:mod:`graphalgo.engine.trigram_tables`), one character to one character: no
final sigma, ß stays, İ becomes i.
"""

from __future__ import annotations

from graphalgo.engine.errors import InvalidValue
from graphalgo.engine.trigram import parse_lower, parse_ranges


def fold_key(text: str) -> str:
    """Fold a key: lower case, trimmed, inner white space collapsed to one space.

    Parameters
    ----------
    text : str
        The key as somebody wrote it.

    Returns
    -------
    str
        The folded key; empty where the text is white space alone, which is the
        caller's to refuse. Folding a folded key changes nothing.

    Raises
    ------
    InvalidValue
        If the text holds the character NUL or half of a surrogate pair, which
        PostgreSQL cannot store.

    Notes
    -----
    Costs time in proportion to the text's length, for ASCII very little.
    """
    if "\0" in text:
        raise InvalidValue(
            f"the key {text[:200]!r} holds the character NUL, which cannot be stored",
            "Leave the character out.",
        )
    # Within ASCII, Python's own lower() and split() have never changed and
    # never will; elsewhere they follow Python's edition of Unicode.
    if text.isascii():
        return " ".join(text.lower().split())
    folded = text.translate(_FOLDED)
    try:
        folded.encode()
    except UnicodeEncodeError:
        raise InvalidValue(
            f"the key {text[:200]!r} holds half of a surrogate pair, which is no character",
            "Decode the text as UTF-8 or UTF-16 before it is used as a key.",
        ) from None
    return " ".join([word for word in folded.split(" ") if word])


class _Folded(dict[int, int]):
    """What becomes of each character: its lower case, or a space if it is white space."""

    __slots__ = ()

    def __missing__(self, code: int) -> int:
        if not self:
            self._read_tables()
            return self[code]
        # Not remembered: there are a million characters that stay as they are.
        return code

    def _read_tables(self) -> None:
        from graphalgo.engine.trigram_tables import LOWER, WHITE_SPACE  # noqa: PLC0415

        table = {code: code for code in range(128)}
        for pairs in LOWER.values():
            table.update(parse_lower(pairs))
        for first, last in parse_ranges(WHITE_SPACE):
            table.update((code, 32) for code in range(first, last + 1))
        self.update(table)  # whole at once: another thread may be looking


_FOLDED = _Folded()
