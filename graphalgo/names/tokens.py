"""Trigrams as numbers: from what the server shows of them, and from the engine's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphalgo.names.building import Integers

# A backend lives for days: what is remembered is a bounded convenience.
_MOST_REMEMBERED = 50_000


def number_of(trigram: str) -> int:
    """Return the number of a trigram: three characters that stand for a byte each."""
    return ord(trigram[0]) << 16 | ord(trigram[1]) << 8 | ord(trigram[2])


class _Numbers(dict[str, int]):
    """The number of each trigram as pg_trgm shows it: three letters, or 0x and six digits."""

    __slots__ = ()

    def __missing__(self, token: str) -> int:
        number = int(token, 16) if len(token) == 8 else number_of(token)
        if len(self) < _MOST_REMEMBERED:
            self[token] = number
        return number


_NUMBERS = _Numbers()


def numbers_of_tokens(tokens: str) -> list[int]:
    """Return the trigrams of a text of them, separated by commas; of an empty text none."""
    return [_NUMBERS[token] for token in tokens.split(",")] if tokens else []


def flattened(lists: Iterable[Sequence[int]]) -> tuple[Integers, Integers]:
    """Return how long each list is, and all their numbers, one after another."""
    kept = list(lists)
    sizes = np.fromiter(map(len, kept), np.int32, len(kept))
    numbers = np.fromiter((number for each in kept for number in each), np.int32, int(sizes.sum()))
    return sizes, numbers


def numbers_of_ascii(text: str) -> Integers:
    """Return the trigrams of a text of them, three ASCII characters each."""
    letters = np.frombuffer(text.encode("ascii"), np.uint8).reshape(-1, 3).astype(np.int32)
    joined: Integers = letters[:, 0] << 16 | letters[:, 1] << 8 | letters[:, 2]
    return joined
