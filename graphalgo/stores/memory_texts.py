"""Text sources, passages and vectors of the store in memory."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from graphalgo.engine.errors import InvalidValue, NotFound, UnknownName
from graphalgo.engine.trigram import real
from graphalgo.p8ql.protocol import EmbeddingModel, TextSource, VectorSpace
from graphalgo.p8ql.ranking import DISTANCES, distances_from
from graphalgo.stores.fulltext import Query, Vector, check_configuration, dictionary, snippet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphalgo.p8ql.protocol import Ranking, RowId
    from graphalgo.p8ql.query import Embedding

MOST_NUMBERS = 16_000


class _Source:
    """A source and its passages. Their lexemes are made when they are first searched:
    a graph's file loads without what stems them."""

    __slots__ = ("_lexeme", "_vectors", "described", "passages")

    def __init__(self, described: TextSource) -> None:
        check_configuration(described.configuration)
        self.described = described
        # Id -> title, content.
        self.passages: dict[RowId, tuple[str | None, str]] = {}
        self._vectors: dict[RowId, Vector] = {}
        self._lexeme: Callable[[str], str | None] | None = None

    @property
    def lexeme(self) -> Callable[[str], str | None]:
        if self._lexeme is None:
            self._lexeme = dictionary(self.described.configuration)
        return self._lexeme

    def put(self, row_id: RowId, title: str | None, content: str) -> None:
        self.passages[row_id] = title, content
        self._vectors.pop(row_id, None)

    def vectors(self) -> dict[RowId, Vector]:
        for row_id, (_, content) in self.passages.items():
            if row_id not in self._vectors:
                self._vectors[row_id] = Vector(content, self.lexeme)
        return self._vectors


class MemoryTexts:
    """The part of the store in memory that holds and searches texts and their vectors."""

    def __init__(self) -> None:
        self._sources: dict[str, _Source] = {}
        self._models: dict[str, EmbeddingModel] = {}
        # (source, model) -> id -> vector.
        self._vectors: dict[tuple[str, str], dict[RowId, list[float]]] = {}

    # Building.

    def add_text_source(
        self, name: str, configuration: str = "english", description: str | None = None
    ) -> None:
        """Add a text source; its configuration is `english` or `simple`.

        Raises
        ------
        UnknownName
            The configuration is another (42704).
        """
        self._sources[name] = _Source(TextSource(name, configuration, description))

    def add_passage(
        self, source: str, row_id: RowId, content: str, title: str | None = None
    ) -> None:
        """Add a passage to a source, or put it in the place of the one with its id.

        Raises
        ------
        UnknownName
            There is no such source (42704).
        InvalidValue
            The ids of one source are not all numbers or all texts (22023).
        """
        kept = self._source(source)
        kind = next((type(one) for one in kept.passages), type(row_id))
        if type(row_id) is not kind or kind not in (int, str):
            raise InvalidValue(
                f'passage {row_id!r} of "{source}" has an id of another kind than the others',
                "Give whole numbers throughout, or texts throughout.",
            )
        if not isinstance(content, str):
            raise InvalidValue(
                f'the content of passage {row_id!r} of "{source}" is {content!r}'[:200],
                "Give a text.",
            )
        kept.put(row_id, title, content)

    def add_embedding_model(
        self,
        name: str,
        dim: int,
        distance: str = "cosine",
        is_default: bool = False,
        description: str | None = None,
    ) -> None:
        """Add an embedding model; of several defaults the last added is the default.

        Raises
        ------
        InvalidValue
            The width is not from 1 to 16000, or the distance is not `cosine`, `l2` or
            `inner` (22023).
        """
        if isinstance(dim, bool) or not isinstance(dim, int) or not 1 <= dim <= MOST_NUMBERS:
            raise InvalidValue(
                f"the width of a model is {dim!r}, but must be from 1 to {MOST_NUMBERS}",
                "Write how many numbers its vectors have.",
            )
        if distance not in DISTANCES:
            raise InvalidValue(
                f'the distance of a model is "{distance}", but must be {" or ".join(DISTANCES)}',
                "Write for example cosine.",
            )
        if is_default:
            for model in self._models.values():
                model.is_default = False
        self._models[name] = EmbeddingModel(name, dim, distance, is_default, description)

    def add_embedding(
        self, source: str, model: str, row_id: RowId, vector: Sequence[float]
    ) -> None:
        """Add a passage's vector, each number rounded to a real.

        Raises
        ------
        UnknownName
            There is no such source or model (42704).
        NotFound
            There is no such passage (P0002).
        InvalidValue
            The vector has another width, holds what is not finite, or has no
            direction where the model asks for one (22023).
        """
        kept, written_by = self._source(source), self._models.get(model)
        if written_by is None:
            raise UnknownName(f'"{model}" is not a registered embedding model', "Add it first.")
        if row_id not in kept.passages:
            raise NotFound(f'"{source}" has no passage with the id {row_id!r}', "Add it first.")
        if len(vector) != written_by.dim:
            raise InvalidValue(
                f'a vector has {len(vector)} numbers, but model "{model}" writes {written_by.dim}',
                "Give the vector that the model wrote.",
            )
        rounded = [real(float(number)) if number else 0.0 for number in vector]
        directed = any(rounded) or written_by.distance != "cosine"
        if not directed or not all(map(isfinite, rounded)):
            raise InvalidValue(
                f'passage {row_id!r} of "{source}" has a vector that is not finite or all zeros',
                "Give the vector that the model wrote.",
            )
        self._vectors.setdefault((source, model), {})[row_id] = rounded

    def _source(self, name: str) -> _Source:
        try:
            return self._sources[name]
        except KeyError:
            raise UnknownName(
                f'"{name}" is not a registered text source', "Add it first."
            ) from None

    def _add_source_from(self, row: Mapping[str, Any]) -> None:
        self.add_text_source(
            row["name"], row.get("configuration", "english"), row.get("description")
        )

    def _add_passage_from(self, row: Mapping[str, Any]) -> None:
        self.add_passage(row["source"], row["id"], row["content"], row.get("title"))

    def _add_model_from(self, row: Mapping[str, Any]) -> None:
        self.add_embedding_model(
            row["name"],
            row["dim"],
            row.get("distance", "cosine"),
            row.get("is_default", False),
            row.get("description"),
        )

    def _add_embedding_from(self, row: Mapping[str, Any]) -> None:
        self.add_embedding(row["source"], row["model"], row["id"], row["vector"])

    # What the dialect asks.

    def text_source(self, name: str) -> TextSource | None:
        kept = self._sources.get(name)
        return None if kept is None else kept.described

    def text_sources(self) -> list[TextSource]:
        return [self._sources[name].described for name in sorted(self._sources)]

    def embedding_models(self) -> list[EmbeddingModel]:
        return [self._models[name] for name in sorted(self._models)]

    def embedded_models(self, source: str) -> list[str]:
        return sorted(model for one, model in self._vectors if one == source)

    def vector_space(self, source: str, model: str | None) -> VectorSpace | None:
        chosen = [
            one
            for one in self._models.values()
            if one.name == model or (model is None and one.is_default)
        ]
        if source not in self._sources or not chosen:
            return None
        return VectorSpace(chosen[0], (source, chosen[0].name) in self._vectors, "exact")

    def vector_search(self) -> str:
        return "exact"

    def text_ranking(self, source: str, words: str, limit: int) -> Ranking:
        kept = self._source(source)
        query = Query(words, kept.lexeme)
        ranking: Ranking = [
            (row, query.rank(vector))
            for row, vector in kept.vectors().items()
            if query.matches(vector)
        ]
        ranking.sort(key=lambda one: (-one[1], one[0]))
        return ranking[:limit]

    def vector_ranking(
        self, source: str, model: str, vector: Sequence[float], limit: int
    ) -> Ranking:
        away = distances_from(self._models[model].distance, vector)
        ranking: Ranking = [
            (row, away(other)) for row, other in self._vectors.get((source, model), {}).items()
        ]
        ranking.sort(key=lambda one: (one[1], one[0]))
        return ranking[:limit]

    def nearest_by_index(
        self, source: str, model: str | None, embedding: Embedding, limit: int
    ) -> tuple[str, Ranking] | None:
        """Leave it to `vector_ranking`: there is no index here."""
        return None

    def approximate_ranking(
        self, source: str, model: str, vector: Sequence[float], limit: int
    ) -> Ranking:
        return self.vector_ranking(source, model, vector, limit)

    def passages(
        self, source: str, ids: Sequence[RowId], words: str | None
    ) -> dict[RowId, tuple[str | None, str | None]]:
        kept = self._source(source)
        query = None if words is None else Query(words, kept.lexeme)
        shown: dict[RowId, tuple[str | None, str | None]] = {}
        for row in ids:
            title, content = kept.passages[row]
            shown[row] = title, None if query is None else snippet(content, query, kept.lexeme)
        return shown
