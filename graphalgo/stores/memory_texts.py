"""Text sources, passages and vectors of the store in memory."""

from __future__ import annotations

from math import isinf, isnan
from typing import TYPE_CHECKING, Any

from graphalgo.engine.arguments import represented, told
from graphalgo.engine.errors import InvalidValue, NotFound, UnknownName
from graphalgo.engine.trigram import real, similarity
from graphalgo.p8ql.protocol import EmbeddingModel, TextSource, VectorSpace
from graphalgo.p8ql.ranking import DISTANCES, distances_from
from graphalgo.stores.fulltext import Query, Vector, check_configuration, dictionary, snippet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
        InvalidValue
            The name is empty (22023).
        UnknownName
            The configuration is another (42704).
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidValue(
                f"p_name is {told(name)}, but must name the source",
                "Write the name that queries will use, such as 'notes'.",
            )
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
                f'the content of passage {row_id!r} of "{source}" is {represented(content)}, '
                "but must be a text",
                "Write the passage's words.",
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

        Added again, it is replaced; its width and distance stay while it has vectors.
        It is refused in the words of `aiq.register_embedding_model`.

        Raises
        ------
        InvalidValue
            The name is empty, the width is not from 1 to 16000, the distance is not
            `cosine`, `l2` or `inner`, or the model has vectors of another width or for
            another distance (22023).
        """
        _check_model(name, dim, distance, is_default)
        known = self._models.get(name)
        if (
            known is not None
            and (known.dim, known.distance) != (dim, distance)
            and any(model == name for _, model in self._vectors)
        ):
            raise InvalidValue(
                f'the model "{name}" has vectors of {known.dim} numbers for the distance '
                f"{known.distance}, so it cannot become one of {dim} for {distance}",
                "Add it by another name.",
            )
        if is_default:
            for model in self._models.values():
                model.is_default = False
        self._models[name] = EmbeddingModel(name, dim, distance, is_default, description)

    def add_embedding(
        self, source: str, model: str, row_id: RowId, vector: Sequence[float]
    ) -> None:
        """Add a passage's vector, each number rounded to a real.

        It is refused in the words of `aiq.put_embeddings`.

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
            raise UnknownName(f'there is no embedding model "{model}"', _known(model, self._models))
        if row_id not in kept.passages:
            raise NotFound(f'"{source}" has no passage with the id {row_id}', "Add it first.")
        if len(vector) != written_by.dim:
            raise InvalidValue(
                f'the vectors of model "{model}" have {written_by.dim} numbers, '
                f"but these have {len(vector)}",
                "Give vectors that this model has computed, or name the model that did.",
            )
        fault = _fault(vector, written_by.distance)
        if fault is not None:
            raise InvalidValue(
                f"the vector of {row_id} {fault}",
                "Give finite numbers; nothing has been written.",
            )
        rounded = [real(float(number)) if number else 0.0 for number in vector]
        self._vectors.setdefault((source, model), {})[row_id] = rounded

    def _source(self, name: str) -> _Source:
        try:
            return self._sources[name]
        except KeyError:
            raise UnknownName(
                f'there is no text source "{name}"', _known(name, self._sources)
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


def _check_model(name: Any, dim: Any, distance: Any, is_default: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InvalidValue(
            f"p_name is {told(name)}, but must name the model",
            "Write the name that queries will use after USING.",
        )
    if isinstance(dim, bool) or not isinstance(dim, int) or not 1 <= dim <= MOST_NUMBERS:
        raise InvalidValue(
            f"p_dim is {represented(dim)}, but must be from 1 to {MOST_NUMBERS}",
            "Write how many numbers each of the model's vectors has.",
        )
    if distance not in DISTANCES:
        raise InvalidValue(
            f"p_distance is {told(distance)}, but must be cosine, l2 or inner",
            "Write cosine for angles, l2 for straight lines, or inner for the negative inner"
            " product.",
        )
    if not isinstance(is_default, bool):
        raise InvalidValue(
            f"p_is_default is {represented(is_default)}, but must be true or false",
            "Write true for the model that serves where a query names none.",
        )


def _fault(vector: Sequence[float], distance: str) -> str | None:
    """Return what is wrong with a vector for a model of that distance, if anything."""
    if any(number is None for number in vector):
        return "holds null"
    if any(map(isnan, vector)):
        return "holds NaN"
    if any(map(isinf, vector)):
        return "holds infinity"
    if distance == "cosine" and not any(vector):
        return "holds nothing but zeros, which have no angle"
    return None


def _known(name: str, names: Iterable[str]) -> str:
    """Return the hint of a name that is not there: what could be written, the likeliest first."""
    likest = sorted(names, key=lambda one: (-similarity(one, name), one))[:5]
    return f"Write one of: {', '.join(likest)}" if likest else "Add it first."
