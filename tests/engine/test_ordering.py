"""Sorting that can be interrupted answers what sorting answers."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphalgo.engine import ordering
from graphalgo.engine.ordering import RUN_LENGTH, smallest


def nothing() -> None:
    """No interrupt is pending."""


@given(st.lists(st.tuples(st.integers(0, 9), st.integers())), st.integers(-1, 30))
def test_it_is_the_head_of_the_sorted_list(items, count):
    assert smallest(items, count, nothing) == sorted(items)[: max(count, 0)]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_it_is_so_across_many_runs(monkeypatch, length):
    monkeypatch.setattr(ordering, "RUN_LENGTH", length)
    draw = Random(length)
    for size in (0, 1, 2, 3, 10, 50):
        items = [(draw.randrange(8), draw.randrange(8)) for _ in range(size)]
        for count in (0, 1, 2, 5, 49, 50, 51):
            assert smallest(iter(items), count, nothing) == sorted(items)[:count]


@pytest.mark.parametrize("count", [1, 500, RUN_LENGTH, 3 * RUN_LENGTH])
def test_it_is_so_for_more_items_than_a_run_holds(count):
    draw = Random(count)
    items = [(draw.random(), number) for number in range(2 * RUN_LENGTH + 17)]
    assert smallest(items, count, nothing) == sorted(items)[:count]


@pytest.mark.parametrize("count", [10, 10 * RUN_LENGTH])
def test_an_interrupt_strikes_after_each_run(count):
    class Cancelled(Exception):
        pass

    seen = 0

    def numbers():
        nonlocal seen
        for number in range(5 * RUN_LENGTH):
            seen += 1
            yield (number,)

    def cancel() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        smallest(numbers(), count, cancel)
    assert seen <= RUN_LENGTH


def test_merging_can_be_interrupted_too():
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    smallest(((number,) for number in range(4 * RUN_LENGTH)), 4 * RUN_LENGTH, count)
    # Four runs sorted, and four blocks merged.
    assert calls >= 8


def test_few_of_many_are_held_in_little_memory():
    """Of a million items, no more than some runs are alive at once."""

    class Counted(tuple):
        alive = 0

        def __new__(cls, value):
            Counted.alive += 1
            return super().__new__(cls, (value,))

        def __del__(self):
            Counted.alive -= 1

    most = 0

    def watch() -> None:
        nonlocal most
        most = max(most, Counted.alive)

    draw = Random(1)
    best = smallest((Counted(draw.random()) for _ in range(20 * RUN_LENGTH)), 10, watch)
    assert len(best) == 10
    assert most < 3 * RUN_LENGTH


def test_few_items_are_sorted_without_asking():
    """A question to the server would take longer than to sort them."""

    def never() -> None:
        raise AssertionError("asked")

    assert smallest([(3,), (1,), (2,)], 2, never) == [(1,), (2,)]
