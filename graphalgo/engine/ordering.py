"""Sorting that can be interrupted.

Python code in a database backend cannot be cancelled between calls into the
server, and one `sorted` of a million candidates takes seconds. Here the work is
cut into runs, with a chance to be interrupted between them.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    # Tuples of plain values.
    Sortable = TypeVar("Sortable", bound=tuple[Any, ...])

# A run of this length sorts in some 20 ms.
RUN_LENGTH = 16_000


def smallest(
    items: Iterable[Sortable], count: int, check_interrupts: Callable[[], None]
) -> list[Sortable]:
    """Return the `count` smallest items in ascending order.

    Parameters
    ----------
    items : iterable of tuples
        They must be comparable with each other.
    count : int
        How many to return at most; 0 or more.
    check_interrupts : callable
        Called between runs of 16,000 items, both while sorting and while merging.

    Returns
    -------
    list
        Sorted; shorter than `count` where there are fewer items.

    Notes
    -----
    Sorted runs and a k-way merge (Knuth, The Art of Computer Programming, vol. 3,
    section 5.4.1). For n items in r runs: O(n log RUN_LENGTH + count log r) time;
    each run keeps at most `count` items.
    """
    if count <= 0:
        return []
    iterator = iter(items)
    runs: list[list[Sortable]] = []
    while run := sorted(islice(iterator, RUN_LENGTH)):
        sorted_in_one = len(run)
        del run[count:]
        runs.append(run)
        if len(run) * len(runs) > RUN_LENGTH and len(runs) > 1 and count < RUN_LENGTH:
            # Few are wanted of many: fold the runs together, so that memory
            # stays near `count`.
            runs = [list(islice(merge(*runs), count))]
        if sorted_in_one < RUN_LENGTH:
            # It was the last: few items are not worth asking for.
            break
        check_interrupts()
    if not runs:
        return []
    if len(runs) == 1:
        return runs[0]
    merged = merge(*runs)
    result: list[Sortable] = []
    while len(result) < count:
        block = list(islice(merged, min(RUN_LENGTH, count - len(result))))
        if not block:
            break
        result += block
        check_interrupts()
    return result
