"""Which entries of a segment are similar to a probe: exact, and reading as little as it can.

A name of m trigrams that shares c of the probe's n has the similarity
c / (n + m - c), as a ``real``. For each m that gives the least c that will do, which an
entry *needs*. A search counts twice (ScanCount: Li, Lu & Lu, "Efficient merging and
filtering algorithms for approximate string searches", ICDE 2008):

* First words of 64 entries, of one m each: how many of the probe's trigrams any entry
  of the word has. No entry of it can have more. Since names of the same frequent trigrams
  stand together (see :mod:`graphalgo.names.building`), a few words in a hundred are left.
* Then the entries of these words, of 64 at once a bit each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphalgo.names.building import SHIFT, WORD, no_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias

    from numpy.typing import NDArray

    from graphalgo.names.building import Bits, Integers, Segment

    # Entries, and how many trigrams each shares with the probe.
    Found: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]

# Of a list of more entries it is remembered in which words they are.
SHORT = 500
# So many words may be left whole when the bitmaps are counted, and so many in all; among
# the entries of more, lists of numbers are counted rather than asked for.
WHOLE = 50
MANY = 4_000
# Words of which the bits of all bitmaps are counted in one step, in the processor's cache.
CHUNK = 256
# Hits that are put together in one step.
TOGETHER = 250_000


def needed(size: int, sizes: Integers, threshold: float) -> NDArray[np.int64]:
    """How many trigrams sets of given sizes must share with one, to be similar to it.

    Parameters
    ----------
    size : int
        Of the one, at least 1.
    sizes : numpy.ndarray
        Of the others.
    threshold : float
        The least similarity, the value of a ``real`` in (0, 1].

    Returns
    -------
    numpy.ndarray
        For each of the others the least number; above its size or `size` where no
        number is enough.
    """
    least = np.float32(threshold)
    total = sizes.astype(np.int64) + size
    # In exact numbers c / (n + m - c) >= t where c >= t (n + m) / (1 + t); a real is
    # rounded, so that one less may do too.
    common: NDArray[np.int64] = np.maximum(
        np.ceil(total * (threshold / (1 + threshold))).astype(np.int64) - 2, 1
    )
    for _ in range(4):
        ratio = common.astype(np.float32) / (total - common).astype(np.float32)
        common = np.where((ratio < least) & (2 * common <= total), common + 1, common)
    return common


class Plan:
    """What searching a segment needs to know of a probe's size, for one or many probes.

    Parameters
    ----------
    segment : Segment
        Where to search.
    size : int
        How many trigrams the probe has, at least 1.
    threshold : float
        The least similarity, the value of a ``real`` in (0, 1].

    Attributes
    ----------
    size : int
        How many trigrams the probe has.
    words : int
        How many words of entries there are.
    least : int
        The fewest shared trigrams that any entry needs; 0 where none can be similar.
    needs : numpy.ndarray
        How many trigrams the entries of each word must share with the probe; the
        greatest number that there is, where no number is enough.
    """

    __slots__ = ("_sizes", "least", "needs", "size", "words")

    def __init__(self, segment: Segment, size: int, threshold: float) -> None:
        self.size = size
        self.words = segment.words
        common = needed(size, segment.sizes, threshold)
        possible = (common <= segment.sizes) & (common <= size)
        self.least = int(common[possible].min()) if possible.any() else 0
        kind: type[Any]
        kind = np.uint8 if size < 0xFF else np.uint16 if size < 0xFFFF else np.uint32
        common[~possible] = np.iinfo(kind).max
        words = np.diff(segment.starts) // WORD
        self.needs = np.repeat(common.astype(kind), words)
        self._sizes = np.repeat(segment.sizes, words)

    def similarities(
        self, entries: NDArray[np.int64], common: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return how similar some entries are that share so many trigrams each."""
        total = self._sizes[entries >> SHIFT] + (self.size - common)
        similarities: NDArray[np.float32] = np.divide(
            common.astype(np.float32), total.astype(np.float32)
        )
        return similarities


class Postings:
    """The entries that have a trigram, as numbers or as a bitmap, and their words.

    Parameters
    ----------
    entries : numpy.ndarray
        Sorted entries as int32, or a bitmap as uint64.
    words : int
        How many words of entries the segment has.

    Attributes
    ----------
    entries : numpy.ndarray
        The same.
    sparse : bool
        Whether they are numbers.
    """

    __slots__ = ("_count", "_words", "entries", "sparse")

    def __init__(self, entries: Integers | Bits, words: int) -> None:
        self.entries: NDArray[Any] = entries
        self.sparse = entries.dtype == np.int32
        self._count = words
        self._words: NDArray[np.uint8] | None = None

    def words(self) -> NDArray[np.uint8]:
        """Return for each word, as 1 or 0, whether an entry of the list is in it."""
        if self._words is not None:
            return self._words if not self.sparse else np.unpackbits(self._words)[: self._count]
        if not self.sparse:
            # Kept as it is asked for, an eighth of the list beside it.
            self._words = (self.entries != 0).view(np.uint8)
            return self._words
        there = np.zeros(self._count, np.bool_)
        there[self.entries >> SHIFT] = True
        if len(self.entries) > SHORT:
            self._words = np.packbits(there)
        return there.view(np.uint8)

    @property
    def nbytes(self) -> int:
        """How many bytes are kept, or will be once the words have been asked for."""
        if not self.sparse:
            return self.entries.nbytes + self._count
        return self.entries.nbytes + (self._count // 8 if len(self.entries) > SHORT else 0)


def search(plan: Plan, lists: Sequence[Postings]) -> Found:
    """Find the entries of a segment that are similar to a probe.

    Parameters
    ----------
    plan : Plan
        Of the segment and the probe.
    lists : sequence of Postings
        Those of the probe's trigrams that the segment has.

    Returns
    -------
    tuple
        The entries, ascending: all whose similarity is at least the plan's threshold, and
        no other; and how many trigrams each shares with the probe.

    Notes
    -----
    Some microseconds for each of the probe's trigrams and, for each, at most 0.1 ns an
    entry; a tenth of that or less where names are of few words.
    """
    # Trigrams that no entry has are read at no cost.
    if not plan.least or len(lists) < plan.least:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    there = [one.words() for one in lists]
    words = _words(plan, there)
    if not len(words):
        return words, words
    counts = _bitmaps_counted(plan, words, [one.entries for one in lists if not one.sparse])
    numbers = [
        _Numbers(one.entries, within[words])
        for one, within in zip(lists, there, strict=True)
        if one.sparse
    ]
    # Lists of numbers are asked about what has enough of the others, if all of them have
    # it that are in its word; where that leaves too many, they are counted first.
    needs = plan.needs[words].astype(np.int64)
    least = needs - sum((one.there for one in numbers), np.zeros(len(words), np.int64))
    if np.count_nonzero(least <= 0) > WHOLE or len(words) > MANY:
        _count_numbers(counts, words, numbers)
        least, numbers = needs, []
    np.maximum(least, 0, out=least)
    enough = counts.reshape(-1, WORD) >= least.astype(counts.dtype)[:, None]
    places = enough.reshape(-1).nonzero()[0]
    common = counts[places].astype(np.int64)
    if numbers:
        places, common = _confirmed(plan, words, places, common, numbers)
    return _entries(words, places), common


def _words(plan: Plan, there: Sequence[NDArray[np.uint8]]) -> NDArray[np.int64]:
    """Return the words in which an entry may be similar, by which lists are in which words."""
    most = np.zeros(plan.words, plan.needs.dtype)
    for one in there:
        most += one
    words: NDArray[np.int64] = (most >= plan.needs).nonzero()[0]
    return words


class _Numbers:
    """A list of numbers that is asked about some words, and in which of them it is."""

    __slots__ = ("found", "there")

    def __init__(self, found: Integers, there: NDArray[np.uint8]) -> None:
        self.found = found
        self.there = there

    def __len__(self) -> int:
        return len(self.found)


def _entries(words: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which entries are in some places of the words."""
    entries: NDArray[np.int64] = (words[places >> SHIFT] << SHIFT) + (places & WORD - 1)
    return entries


def _bitmaps_counted(plan: Plan, words: NDArray[np.int64], bitmaps: Sequence[Bits]) -> NDArray[Any]:
    """Return how many of some bitmaps each entry of the words is in."""
    counts = np.empty(len(words) * WORD, plan.needs.dtype)
    for start in range(0, len(words), CHUNK):
        part = words[start : start + CHUNK]
        bits = np.empty((len(bitmaps), len(part)), np.uint64)
        for row, found in zip(bits, bitmaps, strict=True):
            # To say what becomes of words that are not there, of which there are none,
            # saves numpy to look for them.
            found.take(part, out=row, mode="clip")
        np.add.reduce(
            np.unpackbits(bits.view(np.uint8), axis=1),
            axis=0,
            dtype=counts.dtype,
            out=counts[start * WORD : (start + CHUNK) * WORD],
        )
    return counts


def _count_numbers(
    counts: NDArray[Any], words: NDArray[np.int64], numbers: Sequence[_Numbers]
) -> None:
    """Count lists of numbers too, entry by entry of the words."""
    for one in numbers:
        rows = one.there.nonzero()[0]
        if not len(rows):
            continue
        firsts = (words[rows] << SHIFT).astype(np.int32)
        ends = one.found.searchsorted(firsts + np.int32(WORD))
        lengths = ends - one.found.searchsorted(firsts)
        total = lengths.cumsum()
        which = np.repeat(ends - total, lengths) + np.arange(total[-1])
        counts[(np.repeat(rows, lengths) << SHIFT) + (one.found[which] & WORD - 1)] += 1


def _confirmed(
    plan: Plan,
    words: NDArray[np.int64],
    places: NDArray[np.int64],
    common: NDArray[np.int64],
    numbers: Sequence[_Numbers],
) -> Found:
    """Ask lists of numbers about candidates, the shortest first, while these may be similar."""
    left = len(numbers)
    within = places >> SHIFT
    entries = _entries(words, places).astype(np.int32)
    lacking = plan.needs[words[within]] - common
    for one in sorted(numbers, key=len):
        left -= 1
        asked = one.there[within].nonzero()[0]
        if len(asked):
            sought = entries[asked]
            at = one.found.searchsorted(sought)
            at[at == len(one)] = 0
            hits = one.found[at] == sought
            lacking[asked] -= hits
            common[asked] += hits
        kept = (lacking <= left).nonzero()[0]
        if 2 * len(kept) < len(places) or not left:
            places, within, entries = places[kept], within[kept], entries[kept]
            lacking, common = lacking[kept], common[kept]
    return places, common


class Hits:
    """Names that are similar to probes, side by side.

    Attributes
    ----------
    numbers : numpy.ndarray
        The number of the probe, of each hit.
    holders, marks : numpy.ndarray
        Whose name it is, and which of theirs.
    places : numpy.ndarray
        Where its row lay, as in a segment.
    similarities : numpy.ndarray
        How similar it is to the probe, as pg_trgm computes it in a ``real``.
    """

    __slots__ = ("holders", "marks", "numbers", "places", "similarities")

    def __init__(
        self,
        numbers: NDArray[np.int64],
        holders: NDArray[np.int64],
        marks: NDArray[np.int64],
        places: NDArray[np.int64],
        similarities: NDArray[np.float32],
    ) -> None:
        self.numbers = numbers
        self.holders = holders
        self.marks = marks
        self.places = places
        self.similarities = similarities

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, which: slice | NDArray[np.int64]) -> Hits:
        return Hits(
            self.numbers[which],
            self.holders[which],
            self.marks[which],
            self.places[which],
            self.similarities[which],
        )

    def similarities_as_text(self) -> list[str]:
        """Return each similarity as short as a ``real`` can be written."""
        return [_TEXTS[value] for value in self.similarities.tolist()]

    @staticmethod
    def together(
        parts: Sequence[Hits], check_interrupts: Callable[[], None] = no_interrupts
    ) -> list[Hits]:
        """Put hits together, each name of a probe once.

        Parameters
        ----------
        parts : sequence of Hits
            Each of one probe, and not empty.
        check_interrupts : callable
            Called between steps of some tens of milliseconds.

        Returns
        -------
        list of Hits
            Those of each probe in one of them.
        """
        groups: list[list[Hits]] = []
        size = TOGETHER
        number = None
        for part in sorted(parts, key=_number):
            if size >= TOGETHER and number != _number(part):
                groups.append([])
                size = 0
            groups[-1].append(part)
            size += len(part)
            number = _number(part)
        found = []
        for group in groups:
            found.append(Hits._once(group))
            check_interrupts()
        return found

    @staticmethod
    def _once(parts: Sequence[Hits]) -> Hits:
        if len(parts) == 1:
            hits = parts[0]
        else:
            hits = Hits(
                np.concatenate([part.numbers for part in parts]),
                np.concatenate([part.holders for part in parts]),
                np.concatenate([part.marks for part in parts]),
                np.concatenate([part.places for part in parts]),
                np.concatenate([part.similarities for part in parts]),
            )
        # Names of which no two have the same number here are all different.
        mixed = (hits.numbers * 0x9E3779B1 + hits.holders) * 0x85EBCA6B + hits.marks
        mixed.sort()
        if not (mixed[1:] == mixed[:-1]).any():
            return hits
        hits = hits[np.lexsort((hits.marks, hits.holders, hits.numbers))]
        others = np.ones(len(hits), np.bool_)
        others[1:] = (
            (hits.marks[1:] != hits.marks[:-1])
            | (hits.holders[1:] != hits.holders[:-1])
            | (hits.numbers[1:] != hits.numbers[:-1])
        )
        return hits[np.flatnonzero(others)]


def _number(part: Hits) -> int:
    return int(part.numbers[0])


class _Texts(dict[float, str]):
    """How each value of a ``real`` is written: to write one takes as long as to look at forty."""

    __slots__ = ()

    def __missing__(self, value: float) -> str:
        text = str(np.float32(value))
        if len(self) < 10_000:
            self[value] = text
        return text


_TEXTS = _Texts()


class Probes:
    """A segment to be searched, with the plans that were made last for it.

    For whoever searches it again: a plan takes longer to make than some searches. Not for
    two threads at once.

    Parameters
    ----------
    segment : Segment
        Where to search.
    """

    MOST_PLANS = 32

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._plans: dict[tuple[int, float], Plan] = {}

    def run(
        self,
        probes: Sequence[tuple[int, Sequence[int]]],
        threshold: float,
        lists: Mapping[int, Postings],
        check_interrupts: Callable[[], None] = no_interrupts,
    ) -> list[Hits]:
        """Find the names similar to each probe: all whose similarity is at least a threshold.

        Parameters
        ----------
        probes : sequence of tuple
            A number and the trigrams of each probe, each once.
        threshold : float
            The least similarity, the value of a ``real`` in (0, 1].
        lists : mapping
            The list of each trigram of theirs that the segment has.
        check_interrupts : callable
            Called between steps of a few milliseconds.

        Returns
        -------
        list of Hits
            Those of each probe that has any, some of them perhaps twice.
        """
        hits = []
        # Those of one size after another share a plan.
        for number, trigrams in sorted(probes, key=_size):
            if not trigrams:
                continue
            plan = self._plan(len(trigrams), threshold)
            known = [lists[trigram] for trigram in trigrams if trigram in lists]
            entries, common = search(plan, known)
            check_interrupts()
            if len(entries):
                hits.append(
                    Hits(
                        np.full(len(entries), number, np.int64),
                        self.segment.holders[entries].astype(np.int64),
                        self.segment.marks[entries],
                        self.segment.places[entries],
                        plan.similarities(entries, common),
                    )
                )
        return hits

    def _plan(self, size: int, threshold: float) -> Plan:
        plan = self._plans.pop((size, threshold), None)
        if plan is None:
            while len(self._plans) >= self.MOST_PLANS:
                del self._plans[next(iter(self._plans))]
            plan = Plan(self.segment, size, threshold)
        self._plans[size, threshold] = plan
        return plan


def _size(probe: tuple[int, Sequence[int]]) -> int:
    return len(probe[1])
