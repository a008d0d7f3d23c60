"""Passages and their vectors, as a store on PostgreSQL searches them.

Exact search gives the same rows in the same order whatever computes it. Something
fast (pgvector in single precision, numpy in double) says which vectors can be among
the nearest, by a bound on how far off it is; these are compared again with every
sum rounded once, and ties go by id.
"""

from __future__ import annotations

import math
from math import inf, sqrt
from operator import mul

from graphalgo.engine.arguments import shown
from graphalgo.engine.errors import InvalidValue, UnknownName

# What only a search needs is imported by it: a walk in a fresh backend does not pay.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from graphalgo.p8ql.protocol import EmbeddingModel, Ranking, RowId, TextSource, VectorSpace
    from graphalgo.p8ql.query import Embedding

TEXT_SOURCES = """
select name, configuration, description from aiq.text_sources_api order by name
"""
ONE_TEXT_SOURCE = """
select name, configuration, description from aiq.text_sources_api where name = $1
"""
EMBEDDING_MODELS = """
select name, dim, distance, is_default, description from aiq.embedding_models_api order by name
"""
EMBEDDED_MODELS = """
select model from aiq.embedded_models_api where source = $1 order by model
"""
VECTOR_SEARCH = "select current_setting('aiq.vector_search', true) as setting"
# What a search among the vectors of a source begins with, in one statement.
VECTOR_SPACE = """
select
    m.name, m.dim, m.distance, m.is_default, aiq.vector_schema() is not null as pgvector,
    current_setting('aiq.vector_search', true) as setting,
    exists (
        select from aiq.embedded_models_api as e where e.source = s.name and e.model = m.name
    ) as has_vectors
from aiq.text_sources_api as s
cross join aiq.embedding_models_api as m
where s.name = $1 and (m.name = $2 or ($2 is null and m.is_default))
"""
# How a model's vectors are compared, and whether pgvector can be asked.
COMPARING = """
select
    (select distance from aiq.embedding_models_api where name = $1) as distance,
    aiq.vector_schema() is not null as pgvector
"""
TEXT_RANKING = "select id, number, rank::float8 as rank from aiq.rank_passages($1, $2, $3)"
SHOWN_PASSAGES = "select id, number, title, snippet from aiq.show_passages($1, $2, $3)"
NEAR_VECTORS = """
select id, number, vector, near, kind
from aiq.near_vectors($1, $2, $3::float8[]::real[], $4, $5, $6)
"""
NEAR_VECTORS_TYPES = ("text", "text", "text", "float8", "int", "boolean")
# Every vector as the bytes that the server sends it in: as a list of Python's
# numbers it would take many times as long.
ALL_VECTORS = """
select passage_id, array_send(vector) as vector from aiq.embeddings
where source = $1 and model = $2
"""
PASSAGE_IDS = """
select passage_id, id, number from aiq.passages where passage_id = any ($1)
"""

VECTOR_SEARCHES = ("exact", "approximate")

# What pgvector is asked for beyond the rows that are wanted, so that one statement
# is enough, and by how much more the next asks where it was not. An approximate
# search, too: the exact distances then choose.
SPARE_ROWS = 10
MORE_ROWS = 4
MOST_ROWS = 2**31 - 1
# The bytes of vectors that are fetched at once. Python compares so many within some
# tens of milliseconds, and between two fetches the server can be interrupted.
BLOCK_BYTES = 1_000_000
# The rows that are fetched at once where there may be many, for the same reason.
BLOCK_ROWS = 5_000

# Half the distance from 1 to the next number: what one rounding is off at most.
SINGLE, DOUBLE = 2.0**-24, 2.0**-53
# Lengths whose squares single precision holds with room for underflow: within them
# what underflows is less than the margins below.
SHORTEST, LONGEST = 1e-10, 1e10


class Passages:
    """The part of a store on PostgreSQL that searches passages.

    How far off a fast distance may be
    ----------------------------------
    A sum of n products, added in whatever order, differs from the true one by at
    most g = n u / (1 - n u) times the sum of the products' absolute values, with u
    half the distance from 1 to the next number (Higham, Accuracy and Stability of
    Numerical Algorithms, 2002, section 3.1); with Cauchy and Schwarz that is g |x| |y|
    for an inner product. A cosine, with that error above and g on both squared
    lengths below, is off by less than 3 g; a Euclidean distance by less than g times
    itself. With n a little greater than the width the few other roundings are in it.
    """

    space_statement = VECTOR_SPACE

    def __init__(self) -> None:
        # What is known of (source, model), while a query reads.
        self._spaces: dict[tuple[str, str], Mapping[str, Any]] = {}

    def _query(
        self, text: str, types: Sequence[str], parameters: Sequence[Any]
    ) -> Sequence[Mapping[str, Any]]:
        """Run a statement of this project and return its rows."""
        raise NotImplementedError

    def _stream(
        self, text: str, types: Sequence[str], parameters: Sequence[Any], size: int
    ) -> Iterator[Sequence[Mapping[str, Any]]]:
        """Run a statement and yield its rows in blocks of at most `size`."""
        raise NotImplementedError

    def _blocks(
        self,
        text: str,
        types: Sequence[str],
        parameters: Sequence[Any],
        most: int,
        size: int = BLOCK_ROWS,
    ) -> Iterator[Sequence[Mapping[str, Any]]]:
        """Run a statement that answers at most so many rows; yield them in blocks.

        Between blocks the server can be interrupted. Few rows are had at once, which takes
        less than a cursor.
        """
        if most <= size:
            yield self._query(text, types, parameters)
        else:
            yield from self._stream(text, types, parameters, size)

    def check_interrupts(self) -> None:
        """Let a pending cancellation or time-out strike."""

    # What there is.

    def text_source(self, name: str) -> TextSource | None:
        rows = self._query(ONE_TEXT_SOURCE, ("text",), (name,))
        return _text_source(rows[0]) if rows else None

    def text_sources(self) -> list[TextSource]:
        return [_text_source(row) for row in self._query(TEXT_SOURCES, (), ())]

    def embedding_models(self) -> list[EmbeddingModel]:
        from graphalgo.p8ql.protocol import EmbeddingModel  # noqa: PLC0415

        return [
            EmbeddingModel(
                row["name"], row["dim"], row["distance"], row["is_default"], row["description"]
            )
            for row in self._query(EMBEDDING_MODELS, (), ())
        ]

    def embedded_models(self, source: str) -> list[str]:
        return [row["model"] for row in self._query(EMBEDDED_MODELS, ("text",), (source,))]

    def vector_space(self, source: str, model: str | None) -> VectorSpace | None:
        from graphalgo.p8ql.protocol import EmbeddingModel, VectorSpace  # noqa: PLC0415

        rows = self._query(self.space_statement, ("text", "text"), (source, model))
        if not rows:
            return None
        row = rows[0]
        self._spaces[source, row["name"]] = row
        found = EmbeddingModel(row["name"], row["dim"], row["distance"], row["is_default"])
        return VectorSpace(found, row["has_vectors"], _chosen_search(row["setting"]))

    def vector_search(self) -> str:
        return _chosen_search(self._query(VECTOR_SEARCH, (), ())[0]["setting"])

    # Full text.

    def text_ranking(self, source: str, words: str, limit: int) -> Ranking:
        blocks = self._blocks(
            TEXT_RANKING, ("text", "text", "int"), (source, words, _rows(limit)), limit
        )
        return [(_row_id(row), row["rank"]) for rows in blocks for row in rows]

    def passages(
        self, source: str, ids: Sequence[RowId], words: str | None
    ) -> dict[RowId, tuple[str | None, str | None]]:
        if not ids:
            return {}
        rows = self._query(
            SHOWN_PASSAGES, ("text", "text[]", "text"), (source, [str(row) for row in ids], words)
        )
        return {_row_id(row): (row["title"], row["snippet"]) for row in rows}

    # Vectors.

    def vector_ranking(
        self, source: str, model: str, vector: Sequence[float], limit: int
    ) -> Ranking:
        kind, pgvector = self._comparing(source, model)
        length = _length(vector)
        if pgvector and SHORTEST < length < LONGEST:
            return self._near_vectors(source, model, kind, vector, length, limit)
        return self._scan(source, model, kind, vector, limit)

    def approximate_ranking(
        self, source: str, model: str, vector: Sequence[float], limit: int
    ) -> Ranking:
        """Search the model's index, and order by the exact distances what it finds.

        Where it finds fewer rows than are wanted the exact search answers: either
        there are no more, or the caller sees so few that the index missed them.
        """
        error = _error(len(vector), SINGLE)
        length = _length(vector)
        wanted = _rows(limit + SPARE_ROWS)
        rows = self._near_rows(
            (source, model, array_text(vector), error * length, wanted, True), len(vector)
        )
        if len(rows) < limit or not SHORTEST < length < LONGEST:
            return self.vector_ranking(source, model, vector, limit)
        found, _ = _compared(rows[0]["kind"], vector, rows, error, limit, self.check_interrupts)
        return _nearest(found, limit, self.check_interrupts)

    def _near_rows(self, parameters: tuple[Any, ...], width: int) -> list[Mapping[str, Any]]:
        """Return the rows of `NEAR_VECTORS`; the last but one of its parameters is their number."""
        blocks = self._blocks(
            NEAR_VECTORS, NEAR_VECTORS_TYPES, parameters, parameters[-2], block_size(width)
        )
        return [row for rows in blocks for row in rows]

    def nearest_by_index(
        self, source: str, model: str | None, embedding: Embedding, limit: int
    ) -> tuple[str, Ranking] | None:
        """Leave it to `approximate_ranking`."""
        return None

    def _comparing(self, source: str, model: str) -> tuple[str, bool]:
        row = self._spaces.get((source, model))
        if row is None:
            row = self._query(COMPARING, ("text",), (model,))[0]
        if row["distance"] is None:
            raise UnknownName(
                f"{shown(model)} is not a registered embedding model",
                "Register it with aiq.register_embedding_model.",
            )
        return row["distance"], row["pgvector"]

    def _near_vectors(
        self,
        source: str,
        model: str,
        kind: str,
        vector: Sequence[float],
        length: float,
        limit: int,
    ) -> Ranking:
        """Search with pgvector's distances, and order by exact ones.

        The server gives rows by the least that their distance can be. They are
        enough when the last of them cannot be as near as the last that is wanted:
        none that was left out can.
        """
        error = _error(len(vector), SINGLE)
        wanted = _rows(limit + SPARE_ROWS)
        text = array_text(vector)
        while True:
            rows = self._near_rows(
                (source, model, text, error * length, wanted, False), len(vector)
            )
            found, least = _compared(kind, vector, rows, error, limit, self.check_interrupts)
            if len(rows) < wanted or least > sorted(away for away, _ in found)[limit - 1]:
                return _nearest(found, limit, self.check_interrupts)
            wanted = _rows(wanted * MORE_ROWS)

    def _scan(
        self, source: str, model: str, kind: str, vector: Sequence[float], limit: int
    ) -> Ranking:
        """Search all vectors here, with numpy where there is one and it is worth its import."""
        from graphalgo.stores.sent_vectors import distances_of_sent  # noqa: PLC0415

        away_from = distances_of_sent(kind, vector)
        size = block_size(len(vector))
        best: list[tuple[float, int]] = []
        numpy: Any = None
        for number, rows in enumerate(
            self._stream(ALL_VECTORS, ("text", "text"), (source, model), size)
        ):
            if number == 1:
                numpy = _numpy()
            if numpy is None:
                near = rows
            else:
                bound = best[limit - 1][0] if len(best) >= limit else inf
                near = _can_be_near(numpy, kind, vector, rows, bound, limit)
            best += [(away_from(row["vector"], None), row["passage_id"]) for row in near]
            best.sort()
            if len(best) > limit:
                last = best[limit - 1][0]
                best = [one for one in best if one[0] <= last]
        ids: dict[int, Mapping[str, Any]] = {}
        for start in range(0, len(best), BLOCK_ROWS):
            block = [one for _, one in best[start : start + BLOCK_ROWS]]
            rows = self._query(PASSAGE_IDS, ("bigint[]",), (block,))
            ids.update((row["passage_id"], row) for row in rows)
        found = [(away, ids[one]) for away, one in best if one in ids]
        return _nearest(found, limit, self.check_interrupts)


def block_size(width: int) -> int:
    """Return how many vectors of a width are fetched, or compared, at once."""
    from graphalgo.stores.sent_vectors import HEADER_BYTES, NUMBER_BYTES  # noqa: PLC0415

    return max(1, BLOCK_BYTES // (HEADER_BYTES + NUMBER_BYTES * width))


def array_text(vector: Sequence[float]) -> str:
    """Return the text of an array that the server reads as these reals."""
    written: str | None = getattr(vector, "written", None)
    return "{" + ",".join(map(repr, vector)) + "}" if written is None else written


def nearest_of_sent(
    kind: str,
    width: int,
    rows: Sequence[Mapping[str, Any]],
    check_interrupts: Callable[[], None],
) -> list[tuple[float, RowId, str | None]]:
    """Return distance, id and title of rows of `indexed_vectors`, at least one, in order."""
    from graphalgo.stores.sent_vectors import distances_of_sent, numbers_of  # noqa: PLC0415

    away_from = distances_of_sent(kind, numbers_of(rows[0]["own"], width))
    size = block_size(width)
    found: list[tuple[float, RowId, str | None]] = []
    for start in range(0, len(rows), size):
        if start:
            check_interrupts()
        found += [
            (away_from(row["vector"], row["squares"]), _row_id(row), row["title"])
            for row in rows[start : start + size]
        ]
    # No two have the same id.
    found.sort()
    return found


def single_error(width: int) -> float:
    """Return g of the notes of :class:`Passages` for single precision."""
    return _error(width, SINGLE)


def _chosen_search(setting: str | None) -> str:
    chosen = (setting or "").strip().lower() or VECTOR_SEARCHES[0]
    if chosen not in VECTOR_SEARCHES:
        raise InvalidValue(
            f"the setting aiq.vector_search is {shown(str(setting))}, "
            "but must be exact or approximate",
            "Write for example set aiq.vector_search = 'exact'.",
        )
    return chosen


def _length(vector: Sequence[float]) -> float:
    # There is none before Python 3.12.
    sumprod = getattr(math, "sumprod", None)
    return sqrt(sumprod(vector, vector) if sumprod else sum(map(mul, vector, vector)))


def _rows(count: int) -> int:
    """Return a number of rows that the server can be asked for."""
    return min(count, MOST_ROWS)


def _text_source(row: Mapping[str, Any]) -> TextSource:
    from graphalgo.p8ql.protocol import TextSource  # noqa: PLC0415

    return TextSource(row["name"], row["configuration"], row["description"])


def _row_id(row: Mapping[str, Any]) -> RowId:
    """Return a row's own id: a number where its source's ids are."""
    found: RowId = row["id"] if row["number"] is None else row["number"]
    return found


def _compared(
    kind: str,
    vector: Sequence[float],
    rows: Sequence[Mapping[str, Any]],
    error: float,
    limit: int,
    check_interrupts: Callable[[], None],
) -> tuple[list[tuple[float, Mapping[str, Any]]], float]:
    """Return the rows that can be among the nearest of them, each with its exact distance.

    And the least that the exact distance of the last of the rows can be.
    """
    from bisect import insort  # noqa: PLC0415

    from graphalgo.stores.sent_vectors import distances_of_sent  # noqa: PLC0415

    away_from = distances_of_sent(kind, vector)
    found: list[tuple[float, Mapping[str, Any]]] = []
    distances: list[float] = []
    least = -inf
    size = block_size(len(vector))
    for place, row in enumerate(sorted(rows, key=lambda row: row["near"]), 1):
        if place % size == 0:
            check_interrupts()
        least = _least(kind, row["near"], error)
        if len(distances) >= limit and least > distances[limit - 1]:
            # Neither this one nor any behind it.
            break
        away = away_from(row["vector"], None)
        found.append((away, row))
        insort(distances, away)
    return found, least


def _nearest(
    found: list[tuple[float, Mapping[str, Any]]], limit: int, check_interrupts: Callable[[], None]
) -> Ranking:
    from graphalgo.engine.ordering import smallest  # noqa: PLC0415

    # No two have the same id.
    near = smallest(((away, _row_id(row)) for away, row in found), limit, check_interrupts)
    return [(one, away) for away, one in near]


def _error(width: int, rounding: float) -> float:
    """Return g of the class's notes for vectors of a width."""
    steps = (width + 8) * rounding
    return steps / (1 - steps)


def _least(kind: str, near: float, error: float) -> float:
    """Return the least that an exact distance can be, given a fast one.

    For `inner` the fast one is the least already, but for what underflows.
    """
    if kind == "cosine":
        return near - 3 * error - 1e-12
    if kind == "l2":
        return near * (1 - error) - 1e-16
    return near - 1e-30


def _numpy() -> Any:
    """Return numpy, or None where this Python has none. Its import takes some 60 ms."""
    try:
        import numpy  # noqa: PLC0415
    except ImportError:
        return None
    return numpy


def _can_be_near(
    numpy: Any,
    kind: str,
    vector: Sequence[float],
    rows: Sequence[Mapping[str, Any]],
    bound: float,
    limit: int,
) -> list[Mapping[str, Any]]:
    """Return the rows whose exact distance can be within the bound and the block's nearest."""
    width = len(vector)
    layout = numpy.dtype([("header", "V24"), ("numbers", ">f4", (2 * width - 1,))])
    sent = numpy.frombuffer(b"".join(row["vector"] for row in rows), layout)
    matrix = sent["numbers"][:, ::2].astype(numpy.float64)
    target = numpy.asarray(vector, numpy.float64)
    error = _error(width, DOUBLE)
    if kind == "l2":
        away = numpy.sqrt(numpy.square(matrix - target).sum(axis=1))
        slack = away * error
    else:
        lengths = numpy.sqrt(numpy.square(matrix).sum(axis=1)) * sqrt(
            sum(number * number for number in vector)
        )
        products = matrix @ target
        if kind == "cosine":
            with numpy.errstate(divide="ignore", invalid="ignore"):
                away = numpy.where(lengths > 0, 1 - products / lengths, 1.0)
            slack = numpy.full(len(rows), 4 * error)
        else:
            away = -products
            slack = lengths * error
    if len(rows) > limit:
        bound = min(bound, float(numpy.partition(away + slack, limit - 1)[limit - 1]))
    return [rows[int(place)] for place in numpy.flatnonzero(away - slack <= bound)]
