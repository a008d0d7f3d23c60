"""Segments: the names of an index, turned into one list of entries for each trigram.

An *entry* is one name of one holder, told from the holder's others by a *mark*, a hash
of the name; with it goes the *place* where the name's row lay in its table when the entry
was made, which is a hint and no more. Entries are numbered by the size of their
trigram sets, so that each size is a range of numbers (the length filter of Arasu,
Ganti & Kaushik, "Efficient exact set-similarity joins", VLDB 2006, without reading a
length), and within one size by which of the most frequent trigrams they have, so that
names with the same words stand together: of 64 neighbours, a *word* of entries, few
trigrams are in some and not in others, and a search can pass by whole words. Each size
begins with a word of its own; numbers that are left over there belong to nobody. A
list is either its sorted numbers or, where it holds many of the entries, a bitmap.

A trigram is the number made of its three bytes, the first the highest, which is
how pg_trgm shows those that are hashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    from numpy.typing import NDArray

    Integers: TypeAlias = NDArray[np.int32]
    Bits: TypeAlias = NDArray[np.uint64]

# Names of one segment at the most: a bitmap of so many is 128 kB.
MOST_ENTRIES = 1 << 20
# Entries of a word, and what to shift the number of an entry by to have its word's.
WORD = 64
SHIFT = 6
# Names of one size stand in the order of so many of the most frequent trigrams; where
# there are fewer names than so many, in any.
FREQUENT = 48
MANY_NAMES = 4_096
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
        self._marks: list[NDArray[np.int64]] = []
        self._places: list[NDArray[np.int64]] = []
        self._sizes: list[Integers] = []
        self._trigrams: list[Integers] = []

    def add(
        self,
        holders: NDArray[np.int64],
        marks: NDArray[np.int64],
        places: NDArray[np.int64],
        sizes: Integers,
        trigrams: Integers,
    ) -> None:
        """Add names: each one's holder, mark and place, how many trigrams it has, and these.

        All trigrams stand one after another. A place that is not known is 0. A name
        without a trigram is similar to nothing and may be left out or not.
        """
        self.count += len(holders)
        self._holders.append(holders)
        self._marks.append(marks)
        self._places.append(places)
        self._sizes.append(sizes)
        self._trigrams.append(trigrams)

    def blocks(self) -> Iterator[tuple[NDArray[np.int64], Integers, Integers]]:
        """Yield the holders, sizes and trigrams of what was added."""
        return zip(self._holders, self._sizes, self._trigrams, strict=True)

    @property
    def holders(self) -> NDArray[np.int64]:
        """The holders of all names, in the order they were added."""
        return np.concatenate([*self._holders, np.empty(0, np.int64)])

    @property
    def marks(self) -> NDArray[np.int64]:
        """The marks of all names, in the order they were added."""
        return np.concatenate([*self._marks, np.empty(0, np.int64)])

    @property
    def places(self) -> NDArray[np.int64]:
        """The places of all names, in the order they were added."""
        return np.concatenate([*self._places, np.empty(0, np.int64)])

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
    marks : numpy.ndarray
        What tells each entry from others of its holder.
    places : numpy.ndarray
        Where the row of each entry lay; 0 where that is not known.
    sizes : numpy.ndarray
        The different sizes of the entries' trigram sets, ascending.
    starts : numpy.ndarray
        The first entry of each of these sizes, a multiple of :data:`WORD`, and at the
        end the number that is after the last.
    """

    __slots__ = ("holders", "marks", "places", "sizes", "starts")

    def __init__(
        self,
        holders: NDArray[Any],
        marks: NDArray[np.int64],
        places: NDArray[np.int64],
        sizes: Integers,
        starts: Integers,
    ) -> None:
        self.holders = holders
        self.marks = marks
        self.places = places
        self.sizes = sizes
        self.starts = starts

    @property
    def entries(self) -> int:
        """How many numbers of entries there are, those of nobody with them."""
        return int(self.starts[-1])

    @property
    def words(self) -> int:
        """How many words of entries there are."""
        return self.entries // WORD


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
    segment, ranks = _placed(names, check_interrupts)
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
        lists[trigram] = _list_of(parts, segment.entries)
        if gathered > 500_000:
            gathered = 0
            check_interrupts()
    return segment, lists


def _placed(names: Names, check_interrupts: Callable[[], None]) -> tuple[Segment, Integers]:
    """Give each name a number; return the segment, and the numbers in the order of the names."""
    sizes = names.sizes
    counts = np.bincount(sizes)
    distinct = np.flatnonzero(counts)
    counts = counts[distinct]
    starts = np.zeros(len(distinct) + 1, np.int64)
    np.cumsum(-(-counts // WORD) * WORD, out=starts[1:])
    classes = np.zeros(int(distinct[-1]) + 1 if len(distinct) else 1, np.uint64)
    classes[distinct] = np.arange(len(distinct), dtype=np.uint64)
    # One number of both takes less time to sort by than two.
    order = np.argsort(
        classes[sizes] << np.uint64(FREQUENT) | _signatures(names, check_interrupts), kind="stable"
    )
    check_interrupts()
    # The entries before a size's first, less the names before it: what numbers are left over.
    skipped = starts[:-1] - (np.cumsum(counts) - counts)
    numbers = np.arange(len(sizes)) + np.repeat(skipped, counts)
    ranks = np.empty(len(sizes), np.int32)
    ranks[order] = numbers

    def placed(values: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.zeros(int(starts[-1]), np.int64)
        found[numbers] = values[order]
        return found

    segment = Segment(
        placed(names.holders),
        placed(names.marks),
        placed(names.places),
        distinct.astype(np.int32),
        starts.astype(np.int32),
    )
    return segment, ranks


def _signatures(names: Names, check_interrupts: Callable[[], None]) -> NDArray[np.uint64]:
    """Give each name a number by which those of the same frequent trigrams stand together.

    Which of the most frequent trigrams a name has, the most frequent the highest bit, taken
    as a Gray code: in that order fewer bits change from one name to the next than in the
    order of the numbers (Lemire & Kaser, "Reordering columns for smaller indexes",
    Information Sciences, 2011).
    """
    signatures = np.zeros(names.count, np.uint64)
    if names.count < MANY_NAMES:
        return signatures
    # Which are the most frequent need not be known exactly.
    some, counts = np.unique(
        np.concatenate([trigrams[::16] for _, _, trigrams in names.blocks()]), return_counts=True
    )
    frequent = some[np.argsort(-counts, kind="stable")[:FREQUENT]]
    places = np.zeros(1 << 24, np.uint8)
    places[frequent] = np.arange(1, len(frequent) + 1)
    bits = np.zeros(FREQUENT + 1, np.uint64)
    bits[1:] = np.uint64(1) << np.arange(FREQUENT - 1, -1, -1).astype(np.uint64)
    first = 0
    for _, sizes, trigrams in names.blocks():
        # Each trigram is in a name once, so that their sum is all of them together.
        sums = np.zeros(len(trigrams) + 1, np.uint64)
        np.cumsum(bits[places[trigrams]], out=sums[1:])
        ends = np.cumsum(sizes)
        codes = sums[ends] - sums[ends - sizes]
        for shift in (1, 2, 4, 8, 16, 32):
            codes ^= codes >> np.uint64(shift)
        signatures[first : first + len(sizes)] = codes
        first += len(sizes)
        check_interrupts()
    return signatures


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
    for start in range(0, entries, BLOCK_NAMES):
        # Partitioned rather than sorted as a whole, so that no step is long.
        chosen = both[(both >= start << 32) & (both < (start + BLOCK_NAMES) << 32)]
        chosen.sort()
        # Numbers that belong to nobody have no trigram.
        held, sizes = np.unique(chosen >> 32, return_counts=True)
        into.add(
            segment.holders[held].astype(np.int64),
            segment.marks[held],
            segment.places[held],
            sizes.astype(np.int32),
            chosen.astype(np.int32),
        )
        check_interrupts()


def numbers_of(found: Integers | Bits, entries: int) -> Integers:
    """Return the sorted entries of a list, of either kind."""
    if found.dtype == np.int32:
        return found  # type: ignore[return-value]
    bits = np.unpackbits(found.view(np.uint8), count=entries)
    return np.flatnonzero(bits).astype(np.int32)
