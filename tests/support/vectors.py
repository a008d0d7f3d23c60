"""Vectors, and the exact answer about them."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence

from graphalgo.p8ql.ranking import distance

DISTANCES = ("cosine", "l2", "inner")
Vectors = Mapping[int, Sequence[float]]


def real(number: float) -> float:
    """Round to the nearest real."""
    rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    return rounded


def oracle(
    kind: str, vectors: Vectors, target: Sequence[float], limit: int
) -> list[tuple[int, float]]:
    """Every distance exactly, sorted."""
    ranked = sorted((distance(kind, target, vector), one) for one, vector in vectors.items())
    return [(one, away) for away, one in ranked[:limit]]


def scattered(count: int, width: int, seed: int) -> tuple[dict[int, list[float]], list[float]]:
    """Vectors among which many are nearly or wholly the same."""
    choice = random.Random(seed)
    centres = [[choice.gauss(0, 1) for _ in range(width)] for _ in range(3)]
    vectors = {}
    for one in range(1, count + 1):
        centre = choice.choice(centres)
        near = choice.choice((0.0, 1e-7, 1e-3, 0.5))
        vectors[one] = [real(number + near * choice.gauss(0, 1)) for number in centre]
    return vectors, [real(number) for number in centres[0]]
