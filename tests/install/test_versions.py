"""Versions compare in the order in which they come out."""

from __future__ import annotations

import itertools

import pytest

from graphalgo.install.versions import is_newer

IN_ORDER = [
    "no version", "0.9", "0.10.dev1", "0.10a1.dev2", "0.10a1", "0.10b2", "0.10b10", "0.10rc1",
    "0.10", "0.10.post1", "0.10.1", "1.0", "1.0.1", "2",
]  # fmt: skip


@pytest.mark.parametrize(("older", "newer"), list(itertools.combinations(IN_ORDER, 2)))
def test_a_later_version_is_newer(older: str, newer: str) -> None:
    assert is_newer(newer, older)
    assert not is_newer(older, newer)


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.0.0"), ("1.0+local", "1.0"), ("0", "0.0")])
def test_two_ways_to_write_a_version_are_the_same(one: str, other: str) -> None:
    assert not is_newer(one, other)
    assert not is_newer(other, one)
