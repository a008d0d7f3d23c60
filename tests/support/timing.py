"""Times that a test compares, on machines that do other things as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Measured = TypeVar("Measured")


def soon(
    measure: Callable[[], Measured], holds: Callable[[Measured], bool], tries: int = 4
) -> Measured:
    """Return the first of some measurements for which something holds.

    A machine that is busy for a moment spoils one; what is really slower spoils all.
    """
    found = []
    for _ in range(tries):
        found.append(measure())
        if holds(found[-1]):
            return found[-1]
    raise AssertionError(f"in {tries} measurements: {found}")
