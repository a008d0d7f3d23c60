"""The counts behind the limits, on a clock of their own."""

from __future__ import annotations

import pytest

from graphalgo.mcp.limits import Rate, Sessions


def test_a_user_may_ask_a_part_at_once_and_then_steadily():
    rate = Rate(60)
    assert [rate.take("a", 0.0) for _ in range(10)] == [0.0] * 10
    assert rate.take("a", 0.0) == pytest.approx(1.0)
    assert rate.take("b", 0.0) == 0.0
    assert rate.take("a", 0.5) == pytest.approx(0.5)
    assert rate.take("a", 1.01) == 0.0
    assert rate.take("a", 1.02) > 0
    allowed = sum(rate.take("a", 2.0 + step / 10) == 0.0 for step in range(600))
    assert 59 <= allowed <= 61


def test_who_has_not_asked_for_a_while_takes_no_memory():
    rate = Rate(60)
    for number in range(1000):
        rate.take(str(number), number / 100)
    assert len(rate) <= 1000
    rate.take("late", 1000.0)
    assert len(rate) == 1


def test_a_refused_request_does_not_put_off_the_next():
    rate = Rate(60)
    for _ in range(10):
        rate.take("a", 0.0)
    for step in range(1, 100):
        assert rate.take("a", step / 100) > 0
    assert rate.take("a", 1.0) == 0.0


def test_a_session_counts_until_it_ends_or_has_been_idle():
    sessions = Sessions(2, 10.0)
    sessions.begin("a", "one", 0.0)
    sessions.begin("a", "two", 1.0)
    assert sessions.full("a", 2.0) and not sessions.full("b", 2.0)
    sessions.end("a", "two")
    assert not sessions.full("a", 2.0)
    sessions.begin("a", "three", 2.0)
    sessions.use("a", "one", 1, 3.0)
    # A stream that is open holds its session, however long.
    assert sessions.full("a", 11.9)
    assert not sessions.full("a", 12.0)
    assert len(sessions) == 1
    sessions.use("a", "one", -1, 100.0)
    sessions.sweep(109.0)
    assert len(sessions) == 1
    sessions.sweep(110.0)
    assert len(sessions) == 0


def test_a_request_of_a_session_that_is_unknown_counts_nothing():
    sessions = Sessions(1, 10.0)
    sessions.use("a", "guessed", 1, 0.0)
    sessions.use("a", "guessed", -1, 0.0)
    sessions.end("a", "guessed")
    assert len(sessions) == 0 and not sessions.full("a", 0.0)
