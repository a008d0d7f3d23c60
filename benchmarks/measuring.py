"""Timing: warm, interleaved, and told by median, 95th percentile and maximum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from time import perf_counter
from typing import Any, TypeVar

import psycopg

Item = TypeVar("Item")


class Timings:
    """Milliseconds, one for each measurement.

    A measurement that was cut off by a time-out counts as long as the time-out, and
    `cut` counts it: the true value is greater.
    """

    def __init__(self) -> None:
        self.values: list[float] = []
        self.cut = 0

    def add(self, milliseconds: float, *, cut: bool = False) -> None:
        """Take in one measurement."""
        self.values.append(milliseconds)
        self.cut += cut

    def percentile(self, share: float) -> float:
        """Give the value that `share` of the measurements do not exceed (nearest rank)."""
        if not self.values:
            return float("nan")
        ordered = sorted(self.values)
        rank = -int(-share * len(ordered) // 1)
        return ordered[min(len(ordered), max(1, rank)) - 1]

    @property
    def p50(self) -> float:
        """The median."""
        return self.percentile(0.5)

    @property
    def p95(self) -> float:
        """The 95th percentile."""
        return self.percentile(0.95)

    @property
    def maximum(self) -> float:
        """The greatest."""
        return max(self.values, default=float("nan"))

    def as_dict(self) -> dict[str, Any]:
        """Give what is told of the timings, for JSON."""
        return {
            "n": len(self.values),
            "p50": round(self.p50, 3),
            "p95": round(self.p95, 3),
            "max": round(self.maximum, 3),
            "cut": self.cut,
        }


# A case is called with an item and gives the milliseconds that count, or None
# where its whole wall time does.
Case = Callable[[Item], float | None]


def interleaved(
    cases: Mapping[str, Case[Item]],
    items: Sequence[Item],
    *,
    rounds: int = 1,
    warm: int = 1,
    once: Mapping[str, int] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Timings]:
    """Measure several cases on the same items, in turn, so that noise hits all of them alike.

    The order of the cases is shuffled each time, the same way in each run.

    Parameters
    ----------
    cases : mapping of str to callable
        What to measure, by name.
    items : sequence
        What each case is called with: seeds, for example.
    rounds : int
        How often each case is measured on each item.
    warm : int
        How often each case is called on each item before, unmeasured.
    once : mapping of str to int, optional
        Slow cases: each is called once an item, not warmed, and on so many of the items only.
    advance : callable
        Called when an item is done.

    Returns
    -------
    dict of str to Timings
        By the cases' names.
    """
    timings = {name: Timings() for name in cases}
    names = list(cases)
    slow = once or {}
    # In another order each time: what follows a case finds the processor's
    # caches as that case left them, for better or worse.
    shuffled = Random(len(names))
    for number, item in enumerate(items):
        for repetition in range(warm + rounds):
            shuffled.shuffle(names)
            for name in names:
                if name in slow and (repetition != warm or number >= slow[name]):
                    continue
                took, cut = timed(cases[name], item)
                if repetition >= warm:
                    timings[name].add(took, cut=cut)
        advance()
    return timings


def in_blocks(
    cases: Mapping[str, Case[Item]], items: Sequence[Item], *, rounds: int = 2
) -> dict[str, Timings]:
    """Measure several cases on the same items, one case on all of them before the next.

    As an application would call it again and again: the processor's caches are as the case
    itself left them. What takes a millisecond after what reads a hundred megabytes is
    measured so; the rounds take turns, so that noise hits all of them alike.

    Parameters
    ----------
    cases : mapping of str to callable
        What to measure, by name.
    items : sequence
        What each case is called with.
    rounds : int
        How often each case is measured on each item, after once unmeasured.

    Returns
    -------
    dict of str to Timings
        By the cases' names.
    """
    timings = {name: Timings() for name in cases}
    for repetition in range(1 + rounds):
        for name, case in cases.items():
            for item in items:
                took, cut = timed(case, item)
                if repetition:
                    timings[name].add(took, cut=cut)
    return timings


def timed(case: Case[Item], item: Item) -> tuple[float, bool]:
    """Call a case once; give the milliseconds and whether a time-out cut it off."""
    began = perf_counter()
    try:
        counted = case(item)
    except psycopg.errors.QueryCanceled:
        return (perf_counter() - began) * 1000, True
    return (perf_counter() - began) * 1000 if counted is None else counted, False
