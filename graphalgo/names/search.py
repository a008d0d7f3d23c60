"""Which entries of a segment are similar to a probe: exact, and reading as little as it can.

A name of m trigrams that shares c of the probe's n has the similarity
c / (n + m - c), as a ``real``. For each m that gives the least c that will do, and
for the probe the least of these, T. Then:

* Whoever shares T trigrams with the probe shares at least one of its n - T + 1
  rarest: the prefix filter (Chaudhuri, Ganti & Kaushik, "A primitive operator for
  similarity joins in data cleaning", ICDE 2006; Bayardo, Ma & Srikant, "Scaling up
  all pairs similarity search", WWW 2007). With r lists left out, at least T - r of
  the others.
* Entries are counted over the lists that are read, one counter for each
  (ScanCount), and the long lists that were left out are only asked about those
  that may still reach their c (DivideSkip): Li, Lu & Lu, "Efficient merging and
  filtering algorithms for approximate string searches", ICDE 2008.
* Where all lists are long, so that too many pass, one list more is counted at a
  time. At the worst all are, each as a bitmap of one bit an entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphalgo.names.building import no_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeGuard

    from numpy.typing import NDArray

    from graphalgo.names.building import Bits, Integers, Segment

# A list as short as that is counted rather than asked about the candidates.
SHORT = 3_000
# So many bitmaps more are counted while more than so many entries, or words of 64, may
# still be similar.
STRIDE = 4
MANY = 3_000
# To look how many may still be similar takes as long as to count two bitmaps, so it is
# not done before no more lists are left than this share of what is needed.
FIRST_ASKED = 0.4


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
    low, high : int
        The range of entries that are neither too short nor too long.
    least : int
        The fewest shared trigrams that any of them needs.
    """

    __slots__ = ("_planes", "_reach", "_starts", "high", "least", "low", "size")

    def __init__(self, segment: Segment, size: int, threshold: float) -> None:
        self.size = size
        common = needed(size, segment.sizes, threshold)
        possible = np.flatnonzero((common <= segment.sizes) & (common <= size))
        self.low = self.high = self.least = 0
        self._planes: list[Bits] | None = None
        self._reach = np.empty(0, np.int64)
        self._starts = np.zeros(1, np.int32)
        if not len(possible):
            return
        first, last = int(possible[0]), int(possible[-1])
        self._starts = segment.starts[first : last + 2]
        self.low, self.high = int(self._starts[0]), int(self._starts[-1])
        self.least = int(common[possible].min())
        reach = common[first : last + 1].copy()
        reach[segment.sizes[first : last + 1] < reach] = size + 1
        self._reach = np.minimum(reach, size + 1)

    def needs(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what each of some entries in the range needs."""
        return self._reach[np.searchsorted(self._starts, entries, "right") - 1]

    def classes(self) -> Iterator[tuple[int, int, int]]:
        """Yield what the entries of each size need, the first of them, and the one after them."""
        starts = self._starts.tolist()
        return zip(self._reach.tolist(), starts[:-1], starts[1:], strict=True)

    @property
    def levels(self) -> int:
        """How many bits hold what any entry needs."""
        return (self.size + 1).bit_length()

    @property
    def planes(self) -> list[Bits]:
        """What each entry lacks to 2 ** levels when it needs what it needs, bit by bit.

        Added to what has been counted, it reaches that number where the need is met:
        so entries of different needs are compared with one number. The words are those
        of the bitmaps from the one with the first entry in range to that with the last.
        """
        if self._planes is None:
            first = self.low >> 6 << 6
            words = -(-self.high // 64) - (first >> 6)
            self._planes = [np.zeros(words, np.uint64) for _ in range(self.levels)]
            whole = 1 << self.levels
            for need, start, end in self.classes():
                for level, plane in enumerate(self._planes):
                    if (whole - need) >> level & 1:
                        _set_bits(plane.view(np.uint8), start - first, end - first)
        return self._planes


class Scratch:
    """Memory that one search after another uses: to be given it anew takes longer than to fill it.

    Not for two threads at once.
    """

    def __init__(self) -> None:
        self._counts = np.empty(0, np.uint8)
        self._bits = np.empty(0, np.uint8)

    def counts(self, length: int, kind: type[Any]) -> NDArray[Any]:
        """Return counters, all zero."""
        if len(self._counts) < 2 * length:
            self._counts = np.empty(2 * length, np.uint8)
        counts: NDArray[Any] = self._counts.view(kind)[:length]
        counts.fill(0)
        return counts

    def bits(self, length: int) -> NDArray[np.uint8]:
        """Return as many octets, of any values."""
        if len(self._bits) < length:
            self._bits = np.empty(length, np.uint8)
        return self._bits[:length]


def _set_bits(octets: NDArray[np.uint8], start: int, end: int) -> None:
    """Set the bits from `start` up to `end`, the first the highest of the first byte."""
    first, last = start >> 3, end >> 3
    head, tail = 0xFF >> (start & 7), 0xFF00 >> (end & 7) & 0xFF
    if first == last:
        octets[first] |= head & tail
        return
    octets[first] |= head
    octets[first + 1 : last] = 0xFF
    if tail:
        octets[last] |= tail


class Counters:
    """A counter for each entry in range, bit by bit: as many words a bit as a bitmap has.

    Adding a bitmap of a million entries takes some thirty microseconds: three bitmaps of
    one weight become one of this weight and one of twice that, as in a carry-save adder
    (Harley's and Seal's way of counting bits).
    """

    def __init__(self, plan: Plan) -> None:
        self._first = plan.low >> 6
        self._last = -(-plan.high // 64)
        self._goal = 1 << plan.levels
        # Bitmaps by weight; what entries lack is there from the beginning.
        self._weights: list[list[Bits]] = [[plane] for plane in plan.planes]

    def add(self, found: Bits) -> None:
        """Count a list."""
        self._add(0, found[self._first : self._last])

    def add_counts(self, counts: NDArray[Any], scratch: Scratch) -> None:
        """Count what has been counted already, entry by entry of the words' range."""
        most = int(counts.max())
        bits = scratch.bits(len(counts))
        for level in range(most.bit_length()):
            if counts.dtype == np.uint8:
                np.bitwise_and(counts, np.uint8(1 << level), out=bits)
            else:
                np.not_equal(counts & (1 << level), 0, out=bits.view(np.bool_))
            self._add(level, np.packbits(bits).view(np.uint64))

    def _add(self, level: int, bits: Bits) -> None:
        while level >= len(self._weights):
            self._weights.append([])
        weight = self._weights[level]
        weight.append(bits)
        if len(weight) == 3:
            one, two, three = weight
            half = one ^ two
            carry = one & two
            carry |= half & three
            half ^= three
            self._weights[level] = [half]
            self._add(level + 1, carry)

    def reaching(self, left: int) -> Bits:
        """Tell, as a bitmap, which entries still reach what they need with `left` lists more."""
        level = 0
        while level < len(self._weights):
            if len(self._weights[level]) == 2:
                one, two = self._weights[level]
                self._weights[level] = [one ^ two]
                self._add(level + 1, one & two)
            level += 1
        least = self._goal - left
        enough: Bits | None = None
        for level, weight in enumerate(self._weights):
            # From the lowest bit up: equal so far counts as enough.
            if not weight:
                if least >> level & 1:
                    enough = np.zeros(self._last - self._first, np.uint64)
            elif least >> level & 1:
                enough = weight[0] if enough is None else enough & weight[0]
            elif enough is not None:
                enough = enough | weight[0]
        assert enough is not None
        return enough

    def counted(self, entries: NDArray[np.int64], needs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how often entries have been counted; to be called after `reaching`."""
        places = entries - (self._first << 6)
        total = needs - self._goal
        for level, weight in enumerate(self._weights):
            if weight:
                total += _bits_at(weight[0], places).astype(np.int64) << level
        return total


def search(
    plan: Plan,
    lists: Sequence[Integers | Bits],
    check_interrupts: Callable[[], None] = no_interrupts,
    scratch: Scratch | None = None,
) -> NDArray[np.int64]:
    """Find the entries of a segment that are similar to a probe.

    Parameters
    ----------
    plan : Plan
        Of the segment and the probe.
    lists : sequence of numpy.ndarray
        The lists of those of the probe's trigrams that the segment has.
    check_interrupts : callable
        Called between steps of a few milliseconds.
    scratch : Scratch, optional
        What an earlier search has used.

    Returns
    -------
    numpy.ndarray
        The entries, ascending: all whose similarity is at least the plan's
        threshold, and no other.

    Notes
    -----
    Costs at most the number of the probe's trigrams times the number of entries in
    range, at some 0.03 ns each.
    """
    # Trigrams that no entry has are read at no cost.
    left = len(lists)
    if left < plan.least or plan.low == plan.high:
        return np.empty(0, np.int64)
    scratch = scratch or Scratch()
    bounds = np.array([plan.low, plan.high], np.int32)
    short = sorted((_cut(one, bounds) for one in lists if _are_numbers(one)), key=len)
    long = [one for one in lists if _are_bits(one)]
    first = plan.low >> 6 << 6
    kind: type[Any] = np.uint8 if plan.size < 255 else np.uint16
    counts = scratch.counts((-(-plan.high // 64) << 6) - first, kind)
    done = 0
    for found in short:
        if left < plan.least and len(found) > SHORT:
            break
        counts[found - np.int32(first)] += 1
        done += 1
        left -= 1
        if done % 8 == 0:
            check_interrupts()
    if left < plan.least:
        entries = _passing(plan, counts, first, left)
        if entries is not None:
            found_yet = counts[entries - first].astype(np.int64)
            return _confirm(entries, found_yet, plan.needs(entries), [*short[done:], *long])
    for found in short[done:]:
        counts[found - np.int32(first)] += 1
    counters = Counters(plan)
    if short:
        counters.add_counts(counts, scratch)
    return _search_long(plan, counters, long, check_interrupts)


def _passing(plan: Plan, counts: NDArray[Any], first: int, left: int) -> NDArray[np.int64] | None:
    """Return which entries may still be similar; None where they are too many to ask about."""
    parts = []
    total = 0
    for need, start, end in plan.classes():
        if need > plan.size:
            continue
        places = np.flatnonzero(counts[start - first : end - first] >= need - left)
        total += len(places)
        if total > MANY:
            return None
        if len(places):
            parts.append(places + start)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _search_long(
    plan: Plan,
    counters: Counters,
    long: list[Bits],
    check_interrupts: Callable[[], None],
) -> NDArray[np.int64]:
    """Go on with a search among bitmaps, until few entries are left to be asked about."""
    left = len(long)
    done = 0
    while True:
        if left <= plan.least * FIRST_ASKED:
            words = counters.reaching(left)
            if not left or np.count_nonzero(words) <= MANY:
                break
        for found in long[done : done + STRIDE]:
            counters.add(found)
            done += 1
            left -= 1
        if done % 16 < STRIDE:
            check_interrupts()
    places = np.flatnonzero(words != 0)
    bits = np.flatnonzero(np.unpackbits(words[places].view(np.uint8)))
    entries = ((places + (plan.low >> 6)) << 6)[bits >> 6] + (bits & 63)
    entries = entries[(entries >= plan.low) & (entries < plan.high)]
    needs = plan.needs(entries)
    return _confirm(entries, counters.counted(entries, needs), needs, long[done:])


def _confirm(
    entries: NDArray[np.int64],
    found: NDArray[np.int64],
    needs: NDArray[np.int64],
    lists: Sequence[Integers | Bits],
) -> NDArray[np.int64]:
    """Ask the lists that were not counted about each candidate, until it cannot be similar."""
    left = len(lists)
    for one in lists:
        left -= 1
        found = found + _among(one, entries)
        kept = np.flatnonzero(found >= needs - left)
        if len(kept) < len(found):
            entries, found, needs = entries[kept], found[kept], needs[kept]
        if not len(entries):
            break
    return entries[found >= needs]


def _are_numbers(found: Integers | Bits) -> TypeGuard[Integers]:
    return found.dtype == np.int32


def _are_bits(found: Integers | Bits) -> TypeGuard[Bits]:
    return found.dtype == np.uint64


def _cut(found: Integers, bounds: Integers) -> Integers:
    start, end = np.searchsorted(found, bounds)
    return found[start:end]


def _bits_at(words: Bits, places: NDArray[np.int64]) -> NDArray[np.uint8]:
    found: NDArray[np.uint8] = words.view(np.uint8)[places >> 3]
    return (found >> (7 - (places & 7)).astype(np.uint8)) & np.uint8(1)


def _among(found: Integers | Bits, entries: NDArray[np.int64]) -> NDArray[Any]:
    """Whether each entry is in a list, as 0 or 1."""
    if _are_bits(found):
        return _bits_at(found, entries)
    if not len(found):
        return np.zeros(len(entries), np.uint8)
    places = np.searchsorted(found, entries.astype(np.int32))
    places[places == len(found)] = len(found) - 1
    there: NDArray[np.uint8] = (found[places] == entries).astype(np.uint8)
    return there


class Probes:
    """Many probes of one segment, those of one size after another so that they share plans."""

    def __init__(self, segment: Segment, threshold: float, scratch: Scratch | None = None) -> None:
        self._segment = segment
        self._threshold = threshold
        self._scratch = scratch or Scratch()

    def run(
        self,
        probes: Sequence[tuple[int, Sequence[int]]],
        lists: Mapping[int, Integers | Bits],
        check_interrupts: Callable[[], None] = no_interrupts,
    ) -> list[tuple[int, NDArray[np.int64]]]:
        """Find the holders of the names similar to each probe.

        Parameters
        ----------
        probes : sequence of tuple
            A number and the trigrams of each probe.
        lists : mapping
            The list of each trigram of theirs that the segment has.
        check_interrupts : callable
            As for :func:`search`.

        Returns
        -------
        list of tuple
            The number of each probe that has any, and the holders, some of them
            perhaps twice.
        """
        found = []
        plan: Plan | None = None
        for number, trigrams in sorted(probes, key=lambda probe: len(probe[1])):
            if not trigrams:
                continue
            if plan is None or plan.size != len(trigrams):
                plan = Plan(self._segment, len(trigrams), self._threshold)
            known = [lists[trigram] for trigram in trigrams if trigram in lists]
            entries = search(plan, known, check_interrupts, self._scratch)
            check_interrupts()
            if len(entries):
                found.append((number, self._segment.holders[entries]))
        return found
