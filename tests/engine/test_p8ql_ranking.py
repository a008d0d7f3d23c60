"""Distances are what they are called, to the bit; rankings are fused by their places."""

from __future__ import annotations

import struct
from array import array
from fractions import Fraction
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphalgo.engine.ordering import RUN_LENGTH
from graphalgo.p8ql.ranking import distance, fuse, sum_of_products
from graphalgo.stores import passages
from graphalgo.stores.sent_vectors import distances_of_sent, numbers_of

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


@given(PAIRS)
def test_a_cosine_distance_is_from_0_to_2_and_0_between_the_same(pair):
    one, other = pair
    assert 0.0 <= distance("cosine", one, other) <= 2.0
    if any(one):
        assert distance("cosine", one, one) == 0.0


@pytest.mark.parametrize("size", [1.401298464324817e-45, 1e-30, 1.0, 3.4028234663852886e38])
def test_no_length_of_reals_is_too_small_or_too_great(size):
    for width in (1, 16_000):
        assert distance("cosine", [size] * width, [size] * width) == 0.0
        assert distance("cosine", [size] * width, [-size] * width) == 2.0


# Numbers of one range and of several, zeros, and powers of two, whose sums are ties.
SIZES = st.floats(2.0**-16, 1.0, width=32).map(lambda one: one * (1 if one < 0.5 else -1))
ODD = st.one_of(SIZES, REALS, st.sampled_from([0.0, -0.0, 2.0**-126, 1.4e-45, 3e38, -(2.0**-20)]))
SENT = st.one_of(
    *(
        st.integers(1, 40).flatmap(
            lambda width, numbers=numbers: st.tuples(
                *[st.lists(numbers, min_size=width, max_size=width)] * 2
            )
        )
        for numbers in (SIZES, ODD)
    )
)


@given(SENT, st.sampled_from(["cosine", "l2", "inner"]))
def test_vectors_as_the_server_sends_them_have_the_same_distances(pair, kind):
    one, other = (array("f", numbers).tolist() for numbers in pair)
    sent = struct.pack("!iIIii", 1, 0, 700, len(other), 1) + b"".join(
        struct.pack("!if", 4, number) for number in other
    )
    by_pgvector = struct.pack(f"!HH{len(other)}f", len(other), 0, *other)
    for form in (sent, by_pgvector):
        assert numbers_of(form, len(one)) == other
        for squares in (None, sum_of_products(other, other)):
            assert distances_of_sent(kind, one)(form, squares) == distance(kind, one, other)


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


class Cancelled(Exception):
    """What an interrupt raises."""


def cancel():
    raise Cancelled


def test_an_interrupt_strikes_while_many_are_fused():
    few = [(one, 0.5) for one in range(100)]
    assert fuse(few, few[::-1], 60, 3, cancel) == fuse(few, few[::-1], 60, 3)
    many = [(one, 0.5) for one in range(RUN_LENGTH)]
    with pytest.raises(Cancelled):
        fuse(many, many, 60, 10**6, cancel)


@pytest.mark.parametrize("kind", ["cosine", "l2", "inner"])
def test_an_interrupt_strikes_while_many_vectors_are_compared(kind):
    width = 100
    sent = struct.pack(f">hh{width}f", width, 0, *[1.0] * width)

    def rows(count):
        return [
            {"id": None, "number": one, "title": None, "vector": sent, "squares": float(width),
             "own": sent, "near": 0.0}
            for one in range(count)
        ]  # fmt: skip

    size = passages.block_size(width)
    vector, found = [1.0] * width, rows(size)
    assert len(passages.nearest_of_sent(kind, width, found, cancel)) == size
    with pytest.raises(Cancelled):
        passages.nearest_of_sent(kind, width, rows(size + 1), cancel)
    assert len(passages._compared(kind, vector, found[1:], 0.0, size, cancel)[0]) == size - 1
    with pytest.raises(Cancelled):
        passages._compared(kind, vector, rows(size + 1), 0.0, size + 1, cancel)
