"""Exact distances of vectors in the form in which the server or pgvector sends them."""

from __future__ import annotations

import math
from array import array
from sys import byteorder

from graphalgo.p8ql.ranking import cosine_distance, distances_from, sum_of_products

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# There is none before Python 3.12.
sumprod: Callable[[Sequence[float], Sequence[float]], float] | None = getattr(math, "sumprod", None)

# An array of reals: dimensions, flags, element type, length, lower bound; and before
# each number its own length.
HEADER_BYTES, NUMBER_BYTES = 20, 8
# A vector of pgvector: length and nothing, and then the numbers alone.
VECTOR_HEADER_BYTES, VECTOR_NUMBER_BYTES = 4, 4

# `math.sumprod` takes a third of the time of `math.fsum` over products. It adds in
# triple-length arithmetic, each part a double, and only what two of them cannot hold is
# ever rounded before the end. With m the least power of two that a number may have, the
# products of reals are multiples of m^2 2^-46. Of numbers below m 2^18, so many as
# MOST_EXACT, all sums stay below m^2 2^47, and all that the first part loses in all
# its roundings below m^2 2^5: the second part holds that with 51 bits. So the result
# is the true sum, rounded once, as that of fsum is.
MOST_EXACT = 2_048
# The first byte of a number holds its sign and all but the last bit of its exponent:
# two powers of two a value.
BYTES_IN_RANGE = 9
WITHOUT_SIGN = bytes(one & 0x7F for one in range(256))


def distances_of_sent(kind: str, vector: Sequence[float]) -> Callable[[bytes, float | None], float]:
    """Return the function that gives the distances of vectors from one.

    Parameters
    ----------
    kind : str
        `cosine`, `l2` or `inner`.
    vector : sequence of float
        Doubles of reals.

    Returns
    -------
    callable
        Takes what `array_send` or pgvector's `vector_send` gives for a vector of
        the same width, and the sum of its numbers' squares, rounded once, or None
        where that is not known. Returns what
        :func:`graphalgo.p8ql.ranking.distance` does, to the bit.
    """
    width = len(vector)
    if kind == "l2":
        exact = distances_from(kind, vector)
        return lambda sent, squares: exact(numbers_of(sent, width))
    allowed = _allowed(vector)
    # The vector's own numbers are among those that may stand beside it.
    fast = sum_of_products if allowed is None or sumprod is None else sumprod
    own = fast(vector, vector) if kind == "cosine" else 0.0

    def away(sent: bytes, squares: float | None) -> float:
        start, step = _layout(sent, width)
        outside = allowed is None or sent[start::step].translate(None, allowed)
        product = sum_of_products if outside else fast
        if kind == "cosine" and squares is None:
            numbers = numbers_of(sent, width)
            return cosine_distance(own, product(numbers, numbers), product(vector, numbers))
        # Each is looked at once: to make a list of them takes as long as the rest.
        both = product(vector, _reals(sent, start, step))
        return -both if kind == "inner" else cosine_distance(own, squares or 0.0, both)

    return away


def numbers_of(sent: bytes, width: int) -> Sequence[float]:
    """Return so many reals, in network byte order, as the server or pgvector sends them."""
    return _reals(sent, *_layout(sent, width)).tolist()


def _reals(sent: bytes, start: int, step: int) -> array[float]:
    words = array("f", sent)
    if byteorder == "little":
        words.byteswap()
    return words[start // 4 :: step // 4]


def _layout(sent: bytes, width: int) -> tuple[int, int]:
    """Return where the first number begins, and how far it is to the next."""
    if len(sent) == VECTOR_HEADER_BYTES + VECTOR_NUMBER_BYTES * width:
        return VECTOR_HEADER_BYTES, VECTOR_NUMBER_BYTES
    return HEADER_BYTES + NUMBER_BYTES // 2, NUMBER_BYTES


def _allowed(vector: Sequence[float]) -> bytes | None:
    """Return the first bytes of the numbers that `sumprod` adds exactly beside a vector's.

    None where there are none. (Not for Euclidean distances: they are sums of products
    that are themselves rounded.)
    """
    if sumprod is None or len(vector) > MOST_EXACT:
        return None
    own = array("f", vector)
    if byteorder == "little":
        own.byteswap()
    firsts = set(own.tobytes()[::4].translate(WITHOUT_SIGN))
    # Vectors of one model are alike: room for somewhat greater numbers than its own. A
    # zero, whose first byte is 0, is never among them.
    last = min(max(firsts) + 1, 0x7E)
    first = last - BYTES_IN_RANGE + 1
    if first < 1 or min(firsts) < first:
        return None
    return bytes(one | sign for one in range(first, last + 1) for sign in (0, 0x80))
