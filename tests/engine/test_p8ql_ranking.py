"""Distances are what they are called, to the bit; rankings are fused by their places."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphalgo.p8ql.ranking import distance, fuse

REALS = st.floats(-1e6, 1e6, width=32)
PAIRS = st.integers(1, 20).flatmap(
    lambda width: st.tuples(*[st.lists(REALS, min_size=width, max_size=width)] * 2)
)


@given(PAIRS)
def test_the_inner_product_is_rounded_once(pair):
    one, other = pair
    products = [a * b for a, b in zip(one, other, strict=True)]
    assert distance("inner", one, other) == -float(sum(map(Fraction, products)))


@given(PAIRS)
def test_the_order_of_the_numbers_makes_no_difference(pair):
    one, other = pair
    for kind in ("cosine", "l2", "inner"):
        assert distance(kind, one, other) == distance(kind, one[::-1], other[::-1])
        assert distance(kind, one, other) == distance(kind, other, one)


@pytest.mark.parametrize(
    ("kind", "one", "other", "expected"),
    [
        ("cosine", [1.0, 0.0], [2.0, 0.0], 0.0),
        ("cosine", [1.0, 0.0], [0.0, 3.0], 1.0),
        ("cosine", [1.0, 0.0], [-1.0, 0.0], 2.0),
        ("cosine", [1.0, 0.0], [0.0, 0.0], 1.0),
        ("l2", [1.0, 1.0], [4.0, 5.0], 5.0),
        ("l2", [1.0], [1.0], 0.0),
        ("inner", [1.0, 2.0], [3.0, 4.0], -11.0),
        ("cosine", [1.0, 1.0], [1.0, 0.0], 1 - 1 / sqrt(2)),
    ],
)
def test_distances(kind, one, other, expected):
    assert distance(kind, one, other) == pytest.approx(expected, abs=1e-15)


def test_rankings_are_fused_by_reciprocal_rank():
    lexical = [("a", 0.9), ("b", 0.8), ("c", 0.1)]
    semantic = [("c", 0.0), ("d", 0.5), ("a", 0.7)]
    assert fuse(lexical, semantic, 60, 10) == [
        ("a", 1, 3, 1 / 61 + 1 / 63),
        ("c", 3, 1, 1 / 63 + 1 / 61),
        ("b", 2, None, 1 / 62),
        ("d", None, 2, 1 / 62),
    ]
    assert [row for row, *_ in fuse(lexical, semantic, 60, 2)] == ["a", "c"]
    assert fuse([], [], 60, 10) == []


def test_ties_go_by_id_and_numbers_as_numbers():
    assert [row for row, *_ in fuse([(10, 1.0)], [(9, 1.0)], 60, 10)] == [9, 10]
