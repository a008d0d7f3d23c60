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
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from graphalgo.names.building import Bits, Integers, Segment

# A list as short as that is counted rather than asked about the candidates.
SHORT = 3_000
# One list more is counted while more than so many entries may still be similar:
# asking a list about a candidate takes about as long as counting twenty entries
# of a bitmap.
MANY = 2_000
MANY_SHARE = 200


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
    common = np.maximum(np.ceil(total * (threshold / (1 + threshold))).astype(np.int64) - 2, 1)
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
    needs : numpy.ndarray
        What each of them needs.
    """

    __slots__ = ("high", "least", "low", "needs", "size", "threshold")

    def __init__(self, segment: Segment, size: int, threshold: float) -> None:
        self.size = size
        self.threshold = threshold
        common = needed(size, segment.sizes, threshold)
        possible = np.flatnonzero((common <= segment.sizes) & (common <= size))
        self.low = self.high = self.least = 0
        kind: type[Any] = np.uint8 if size < 254 else np.uint16
        self.needs = np.empty(0, kind)
        if not len(possible):
            return
        first, last = int(possible[0]), int(possible[-1])
        self.low, self.high = int(segment.starts[first]), int(segment.starts[last + 1])
        self.least = int(common[possible].min())
        reach = np.minimum(common[first : last + 1], size + 1).astype(kind)
        reach[segment.sizes[first : last + 1] < common[first : last + 1]] = size + 1
        self.needs = np.empty(self.high - self.low, kind)
        starts = (segment.starts[first : last + 2] - self.low).tolist()
        for need, start, end in zip(reach.tolist(), starts[:-1], starts[1:], strict=True):
            self.needs[start:end] = need


def search(
    plan: Plan,
    lists: Sequence[Integers | Bits],
    check_interrupts: Callable[[], None] = no_interrupts,
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

    Returns
    -------
    numpy.ndarray
        The entries, ascending: all whose similarity is at least the plan's
        threshold, and no other.

    Notes
    -----
    Costs at most the number of the probe's trigrams times the number of entries in
    range, at some 0.2 ns each.
    """
    if len(lists) < plan.least or plan.low == plan.high:
        return np.empty(0, np.int64)
    low, high, least = plan.low, plan.high, plan.least
    bounds = np.array([low, high], np.int32)
    cut = [one if one.dtype == np.uint8 else _cut(one, bounds) for one in lists]
    lengths = [(high - low) if one.dtype == np.uint8 else len(one) for one in cut]
    order = sorted(range(len(cut)), key=lambda place: (lengths[place], -len(cut[place])))
    # Trigrams that no entry has are read at no cost.
    left = len(order)
    counts = np.zeros(high - low, plan.needs.dtype)
    place = 0
    while place < len(order):
        length = lengths[order[place]]
        if left < least and length > SHORT and _few(counts, plan.needs, left, place, high - low):
            break
        _count(counts, cut[order[place]], low, high)
        place += 1
        left -= 1
        if place % 8 == 0:
            check_interrupts()
    candidates = np.flatnonzero(counts >= _reduced(plan.needs, left))
    found = counts[candidates]
    needs = plan.needs[candidates]
    for place in order[place:]:
        left -= 1
        found = found + _among(cut[place], candidates, low)
        kept = np.flatnonzero(found >= _reduced(needs, left))
        if len(kept) < len(found):
            candidates, found, needs = candidates[kept], found[kept], needs[kept]
        if not len(candidates):
            break
    return candidates + low


def _cut(found: Integers, bounds: Integers) -> Integers:
    start, end = np.searchsorted(found, bounds)
    return found[start:end]


def _reduced(needs: NDArray[Any], left: int) -> NDArray[Any]:
    """What must have been counted already where `left` lists have not been asked yet."""
    return needs - needs.dtype.type(left) if left else needs


def _few(counts: NDArray[Any], needs: NDArray[Any], left: int, done: int, entries: int) -> bool:
    """Whether so few entries may still be similar that each can be asked about."""
    if not done:
        return False
    passing = int(np.count_nonzero(counts >= _reduced(needs, left)))
    return passing <= max(MANY, entries // MANY_SHARE)


def _count(counts: NDArray[Any], found: Integers | Bits, low: int, high: int) -> None:
    if found.dtype != np.uint8:
        counts[found - np.int32(low)] += 1
        return
    first = low >> 3
    bits = np.unpackbits(found[first : (high + 7) >> 3])  # type: ignore[arg-type]
    skipped = low - (first << 3)
    counts += bits[skipped : skipped + high - low]


def _among(found: Integers | Bits, candidates: NDArray[np.int64], low: int) -> NDArray[Any]:
    """Whether each candidate is in a list, as 0 or 1."""
    numbers = candidates + low
    if found.dtype == np.uint8:
        return (found[numbers >> 3] >> (7 - (numbers & 7)).astype(np.uint8)) & np.uint8(1)
    if not len(found):
        return np.zeros(len(candidates), np.uint8)
    places = np.searchsorted(found, numbers.astype(np.int32))
    places[places == len(found)] = len(found) - 1
    return (found[places] == numbers).astype(np.uint8)


class Probes:
    """Many probes of one segment, those of one size after another so that they share plans."""

    def __init__(self, segment: Segment, threshold: float) -> None:
        self._segment = segment
        self._threshold = threshold

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
            entries = search(plan, known, check_interrupts)
            check_interrupts()
            if len(entries):
                found.append((number, self._segment.holders[entries]))
        return found
