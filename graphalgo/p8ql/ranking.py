"""Distances between vectors and the fusion of rankings, the same on every store."""

from __future__ import annotations

from math import fsum, sqrt
from operator import mul

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphalgo.p8ql.protocol import Ranking, RowId

DISTANCES = ("cosine", "l2", "inner")


def distance(kind: str, one: Sequence[float], other: Sequence[float]) -> float:
    """Return the distance of two vectors of one width.

    Parameters
    ----------
    kind : str
        `cosine` (1 - cos, from 0 to 2), `l2` (Euclidean) or `inner` (the negative
        inner product).
    one, other : sequence of float
        Doubles of reals.

    Returns
    -------
    float
        The products are of doubles and their sum is rounded once (Shewchuk 1997,
        as `math.fsum`), so that no order of adding and no machine makes another
        bit of it. A vector of length 0 has no direction: its cosine is 0.
    """
    if kind == "l2":
        differences = [a - b for a, b in zip(one, other, strict=True)]
        return sqrt(fsum(map(mul, differences, differences)))
    product = fsum(map(mul, one, other))
    if kind == "inner":
        return -product
    lengths = sqrt(fsum(map(mul, one, one))) * sqrt(fsum(map(mul, other, other)))
    return 1.0 - product / lengths if lengths else 1.0


def fuse(
    lexical: Ranking, semantic: Ranking, k: int, limit: int
) -> list[tuple[RowId, int | None, int | None, float]]:
    """Fuse two rankings by reciprocal rank (Cormack, Clarke, Buettcher 2009).

    Parameters
    ----------
    lexical, semantic : ranking
        Each the best row first.
    k : int
        What is added to each place.
    limit : int
        The most rows.

    Returns
    -------
    list of tuple
        Id, its places in both from 1 (None where it is not there), and the sum of
        1 / (k + place); the greatest sum first, then by id.
    """
    lexical_places = {row: place for place, (row, _) in enumerate(lexical, 1)}
    semantic_places = {row: place for place, (row, _) in enumerate(semantic, 1)}
    fused = []
    for row in {**lexical_places, **semantic_places}:
        places = lexical_places.get(row), semantic_places.get(row)
        score = sum(1 / (k + place) for place in places if place is not None)
        fused.append((row, *places, score))
    fused.sort(key=lambda one: (-one[3], one[0]))
    return fused[:limit]
