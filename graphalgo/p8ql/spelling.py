"""Which word somebody may have meant."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 24


def nearest(word: str, vocabulary: Iterable[str]) -> str | None:
    """Return the word of the vocabulary that takes the fewest slips to write as `word`.

    A slip is a letter too many, too few or wrong, or two that changed places. A
    third of the letters may be wrong; a word that begins another, or that another
    begins, is near it from three letters on. None where nothing is near.
    """
    if len(word) > LONGEST:
        return None
    best: tuple[int, str] | None = None
    for known in vocabulary:
        slips = distance(word, known)
        shorter, longer = sorted((word, known), key=len)
        if slips * 3 > len(longer) and not (len(shorter) >= 3 and longer.startswith(shorter)):
            continue
        if best is None or slips < best[0]:
            best = slips, known
    return None if best is None else best[1]


def distance(one: str, other: str) -> int:
    """Return the number of slips between two words.

    The optimal string alignment distance, by dynamic programming over three rows:
    O(len(one) * len(other)).
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, wanted in enumerate(other, 1):
            slips = min(
                last[column] + 1, current[column - 1] + 1, last[column - 1] + (letter != wanted)
            )
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted:
                slips = min(slips, before[column - 2] + 1)
            current.append(slips)
        before, last = last, current
    return last[-1]
