"""Distances between vectors and the fusion of rankings, the same on every store."""

from __future__ import annotations

from math import fsum, sqrt
from operator import mul, sub

from graphalgo.engine.ordering import smallest

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
        bit of it. A vector of length 0 has no direction: its cosine is 0. Vectors
        of one direction and length are at distance 0, no rounding beside it.
    """
    return distances_from(kind, one)(other)


def cosine_distance(own: float, others: float, both: float) -> float:
    """Return the cosine distance of two vectors from their squared lengths and their product."""
    # The squared lengths of reals are neither so great nor so small that their product
    # would leave the doubles: within 1e-180 and 1e163, or 0.
    squares = own * others
    if not squares:
        return 1.0
    return min(2.0, max(0.0, 1.0 - both / sqrt(squares)))


def sum_of_products(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the sum of the products of doubles, rounded once."""
    return fsum(map(mul, one, other))


def distances_from(
    kind: str,
    one: Sequence[float],
    product: Callable[[Sequence[float], Sequence[float]], float] = sum_of_products,
) -> Callable[[Sequence[float]], float]:
    """Return the function that gives the distances of other vectors from one.

    What depends on that one alone is computed once; the arguments and what the
    function returns are those of :func:`distance`. With a `product` it is the
    caller who answers for its being :func:`sum_of_products` to the bit.
    """

    def euclidean(other: Sequence[float]) -> float:
        differences = list(map(sub, one, other))
        return sqrt(fsum(map(mul, differences, differences)))

    def inner(other: Sequence[float]) -> float:
        return -product(one, other)

    def cosine(other: Sequence[float]) -> float:
        return cosine_distance(own, product(other, other), product(one, other))

    if kind == "l2":
        return euclidean
    if kind == "inner":
        return inner
    own = product(one, one)
    return cosine


def fuse(
    lexical: Ranking,
    semantic: Ranking,
    k: int,
    limit: int,
    check_interrupts: Callable[[], None] = lambda: None,
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
    check_interrupts : callable, optional
        Called now and then where there are many rows.

    Returns
    -------
    list of tuple
        Id, its places in both from 1 (None where it is not there), and the sum of
        1 / (k + place); the greatest sum first, then by id.
    """
    lexical_places = {row: place for place, (row, _) in enumerate(lexical, 1)}
    semantic_places = {row: place for place, (row, _) in enumerate(semantic, 1)}

    def fused() -> Iterator[tuple[float, RowId]]:
        for row in {**lexical_places, **semantic_places}:
            places = lexical_places.get(row), semantic_places.get(row)
            yield -sum(1 / (k + place) for place in places if place is not None), row

    return [
        (row, lexical_places.get(row), semantic_places.get(row), -score)
        for score, row in smallest(fused(), limit, check_interrupts)
    ]
