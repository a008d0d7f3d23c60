"""Segments: the names of an index, turned into one list of entries for each trigram.

An *entry* is one name of one holder. Entries are numbered by the size of their
trigram sets, so that all sizes a probe can be similar to are one range of numbers
and every list can be cut to that range (the length filter of Arasu, Ganti & Kaushik,
"Efficient exact set-similarity joins", VLDB 2006, without reading a length). A list
is either its sorted numbers or, where it holds many of the entries, a bitmap.

A trigram is the number made of its three bytes, the first the highest, which is
how pg_trgm shows those that are hashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from numpy.typing import NDArray

    Integers: TypeAlias = NDArray[np.int32]
    Bits: TypeAlias = NDArray[np.uint64]

# Entries of one segment at the most: a bitmap of so many is 128 kB.
MOST_ENTRIES = 1 << 20
# Names whose trigrams are sorted in one step: some 30 ms, after which the server
# can be interrupted.
BLOCK_NAMES = 16_384
# A list with more than one entry in so many is kept as a bitmap: smaller where it is more
# than one in 32, and several times faster to count where it is less.
DENSITY = 64


class Names:
    """Names that are to become a segment, collected block by block.

    Attributes
    ----------
    count : int
        How many names there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._holders: list[NDArray[np.int64]] = []
        self._sizes: list[Integers] = []
        self._trigrams: list[Integers] = []

    def add(self, holders: NDArray[np.int64], sizes: Integers, trigrams: Integers) -> None:
        """Add names: each one's holder, how many trigrams it has, and those, one after another.

        A name without a trigram is similar to nothing and may be left out or not.
        """
        self.count += len(holders)
        self._holders.append(holders)
        self._sizes.append(sizes)
        self._trigrams.append(trigrams)

    def blocks(self) -> Iterator[tuple[NDArray[np.int64], Integers, Integers]]:
        """Yield what was added."""
        return zip(self._holders, self._sizes, self._trigrams, strict=True)

    @property
    def holders(self) -> NDArray[np.int64]:
        """The holders of all names, in the order they were added."""
        return np.concatenate([*self._holders, np.empty(0, np.int64)])

    @property
    def sizes(self) -> Integers:
        """The number of trigrams of each name, in the order they were added."""
        return np.concatenate([*self._sizes, np.empty(0, np.int32)])


class Segment:
    """Names that never change: who holds each entry, and where each size begins.

    Parameters
    ----------
    holders : numpy.ndarray
        The holder of each entry.
    sizes : numpy.ndarray
        The different sizes of the entries' trigram sets, ascending.
    starts : numpy.ndarray
        The first entry of each of these sizes, and at the end the number of entries.
    """

    __slots__ = ("holders", "sizes", "starts")

    def __init__(self, holders: NDArray[np.int64], sizes: Integers, starts: Integers) -> None:
        self.holders = holders
        self.sizes = sizes
        self.starts = starts

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return int(self.starts[-1])


def no_interrupts() -> None:
    """Stand in for a check of interrupts where nothing can interrupt."""


def build(
    names: Names, check_interrupts: Callable[[], None] = no_interrupts
) -> tuple[Segment, dict[int, Integers | Bits]]:
    """Make a segment of names.

    Parameters
    ----------
    names : Names
        At most :data:`MOST_ENTRIES`.
    check_interrupts : callable
        Called between steps of some tens of milliseconds.

    Returns
    -------
    tuple
        The segment, and for each trigram its list: sorted entries as int32, or a
        bitmap as uint64, the first entry the highest bit of the first byte in memory.

    Notes
    -----
    The trigrams of each block of names are sorted by themselves and then gathered
    list by list: O(p log b) for p trigrams in all and b in a block, some 25 bytes of
    memory for each.
    """
    sizes = names.sizes
    order = np.argsort(sizes, kind="stable")
    ranks = np.empty(len(sizes), np.int32)
    ranks[order] = np.arange(len(sizes), dtype=np.int32)
    distinct, starts = np.unique(sizes[order], return_index=True)
    segment = Segment(
        names.holders[order],
        distinct.astype(np.int32),
        np.append(starts, len(sizes)).astype(np.int32),
    )
    pieces: dict[int, list[Integers]] = {}
    first = 0
    for _, counts, trigrams in names.blocks():
        _gather(pieces, ranks[first : first + len(counts)], counts, trigrams)
        first += len(counts)
        check_interrupts()
    lists: dict[int, Integers | Bits] = {}
    gathered = 0
    for trigram in sorted(pieces):
        parts = pieces.pop(trigram)
        gathered += sum(map(len, parts))
        lists[trigram] = _list_of(parts, len(sizes))
        if gathered > 500_000:
            gathered = 0
            check_interrupts()
    return segment, lists


def _gather(
    pieces: dict[int, list[Integers]], ranks: Integers, counts: Integers, trigrams: Integers
) -> None:
    """Add the entries of one block's names to the pieces of their trigrams."""
    # Sorted as one number, trigram before entry: faster than sorting by an index.
    both = trigrams.astype(np.int64) << 32 | np.repeat(ranks, counts)
    both.sort()
    found = (both >> 32).astype(np.int32)
    entries = both.astype(np.int32)  # the lower half
    bounds = [0, *(np.flatnonzero(found[1:] != found[:-1]) + 1).tolist(), len(found)]
    if not len(found):
        return
    for trigram, start, end in zip(
        found[bounds[:-1]].tolist(), bounds[:-1], bounds[1:], strict=True
    ):
        pieces.setdefault(trigram, []).append(entries[start:end])


def _list_of(parts: list[Integers], entries: int) -> Integers | Bits:
    length = sum(map(len, parts))
    if length * DENSITY > entries:
        bits = np.zeros(-(-entries // 64) * 64, np.bool_)
        for part in parts:
            bits[part] = True
        return np.packbits(bits).view(np.uint64)
    if len(parts) == 1:
        # A copy, since a piece keeps its whole block in memory.
        return parts[0].copy()
    joined = np.concatenate(parts)
    joined.sort()
    return joined


def take_apart(
    segment: Segment,
    lists: dict[int, Integers | Bits],
    into: Names,
    check_interrupts: Callable[[], None] = no_interrupts,
) -> None:
    """Add the names of a segment to others, so that one segment can be made of several.

    The inverse of :func:`build`; `lists` is emptied on the way.
    """
    entries = segment.entries
    parts = []
    for trigram in list(lists):
        found = numbers_of(lists.pop(trigram), entries)
        parts.append(found.astype(np.int64) << 32 | trigram)
    if not parts:
        return
    check_interrupts()
    both = np.concatenate(parts)
    del parts
    sizes = np.repeat(segment.sizes, np.diff(segment.starts))
    ends = np.cumsum(sizes)
    for start in range(0, entries, BLOCK_NAMES):
        # Partitioned rather than sorted as a whole, so that no step is long.
        end = min(start + BLOCK_NAMES, entries)
        chosen = both[(both >= start << 32) & (both < end << 32)]
        chosen.sort()
        into.add(segment.holders[start:end], sizes[start:end], chosen.astype(np.int32))
        check_interrupts()
    assert len(both) == (ends[-1] if entries else 0)


def numbers_of(found: Integers | Bits, entries: int) -> Integers:
    """Return the sorted entries of a list, of either kind."""
    if found.dtype == np.int32:
        return found  # type: ignore[return-value]
    bits = np.unpackbits(found.view(np.uint8), count=entries)
    return np.flatnonzero(bits).astype(np.int32)
