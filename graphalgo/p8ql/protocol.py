"""What the dialect asks of a store, beyond what the engine asks.

Everything is answered as the caller may see it. An id is a row's own id in its
source: a whole number where the source's column is one, else a text.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Protocol, TypeAlias

    from graphalgo.engine.protocol import Store
    from graphalgo.p8ql.query import Embedding

    RowId: TypeAlias = int | str
    # The rows of a ranking, the best first, each with its rank or its distance.
    Ranking: TypeAlias = list[tuple[RowId, float]]

    class QueryStore(Store, Protocol):
        """Nodes, text sources, vectors and the catalogue as one caller sees them."""

        def text_source(self, name: str) -> TextSource | None:
            """Return the text source of that name, or None where none is registered."""

        def text_sources(self) -> list[TextSource]:
            """Return the text sources, by name."""

        def embedding_models(self) -> list[EmbeddingModel]:
            """Return the registered embedding models, by name."""

        def embedded_models(self, source: str) -> list[str]:
            """Return the names of the models that have vectors of that source, sorted."""

        def vector_space(self, source: str, model: str | None) -> VectorSpace | None:
            """Return what a search among the vectors of a source begins with.

            None where there is no such source, no such model, or, with `model`
            None, no model that is the default.
            """

        def vector_search(self) -> str:
            """Return how vectors are searched: `exact` or `approximate`."""

        def text_ranking(self, source: str, words: str, limit: int) -> Ranking:
            """Return the rows that match the words, at most `limit`, and their ranks.

            The words are read as a web search: all of them, `or`, "a phrase",
            -without. The rank is PostgreSQL's `ts_rank`, the double of its real.
            By rank descending, then id.
            """

        def vector_ranking(
            self, source: str, model: str, vector: Sequence[float], limit: int
        ) -> Ranking:
            """Return the rows whose vectors of that model are nearest, and their distances.

            The vector has the model's width and holds doubles of reals; the
            distance is the model's. By distance, then id; every visible row with a
            vector is considered.
            """

        def approximate_ranking(
            self, source: str, model: str, vector: Sequence[float], limit: int
        ) -> Ranking:
            """Return what `vector_ranking` does, as far as an approximate index finds it.

            The distances are the exact ones, and the order is theirs.
            """

        def nearest_by_index(
            self, source: str, model: str | None, embedding: Embedding, limit: int
        ) -> tuple[str, Ranking] | None:
            """Return the model's name and what `approximate_ranking` does, or None.

            None wherever it takes a closer look: at the setting, at what there is, at
            the embedding, or for more rows. With `model` None it is the default one.
            """

        def passages(
            self, source: str, ids: Sequence[RowId], words: str | None
        ) -> dict[RowId, tuple[str | None, str | None]]:
            """Return the title of each row and a snippet that shows the words in it.

            With `words` None the snippet is None. A row that cannot be seen is left out.
            """

        def keys_with_prefix(self, prefix: str, limit: int) -> list[str]:
            """Return the keys that begin with a folded text, each once, sorted; for completion."""

        def entity_type_rows(self) -> list[dict[str, Any]]:
            """Return name, handle_prefix and description of each entity type, by name."""

        def relation_rows(self) -> list[dict[str, Any]]:
            """Return src_type, relation, dst_type, inverse_label and description, in that order."""

        def readable_relations(self) -> list[dict[str, Any]]:
            """Return schema, name, kind and description of what the caller may select from.

            By schema and name; the server's own catalogues are left out.
            """

        def relation_columns(self, relation: str) -> list[dict[str, Any]] | None:
            """Return name, type and description of a readable relation's columns, in order.

            The relation is named with its schema, or without for one of `aiq`;
            None where the caller can read no such relation.
            """

        def callable_functions(self, names: Sequence[str]) -> list[dict[str, Any]]:
            """Return name, arguments, result and description of functions of schema `aiq`.

            Those of the names that the caller may execute, by name.
            """


class TextSource:
    """A registered source of texts.

    Attributes
    ----------
    name : str
    configuration : str
        The text search configuration, such as `english`.
    description : str or None
    """

    __slots__ = ("configuration", "description", "name")

    def __init__(self, name: str, configuration: str, description: str | None = None) -> None:
        self.name = name
        self.configuration = configuration
        self.description = description


class EmbeddingModel:
    """A registered embedding model.

    Attributes
    ----------
    name : str
    dim : int
        The width of its vectors.
    distance : str
        `cosine`, `l2` or `inner` (the negative inner product).
    is_default : bool
        Whether it serves where a query names no model.
    description : str or None
    """

    __slots__ = ("description", "dim", "distance", "is_default", "name")

    def __init__(
        self,
        name: str,
        dim: int,
        distance: str,
        is_default: bool = False,
        description: str | None = None,
    ) -> None:
        self.name = name
        self.dim = dim
        self.distance = distance
        self.is_default = is_default
        self.description = description


class VectorSpace:
    """The vectors of a source that one model has written.

    Attributes
    ----------
    model : EmbeddingModel
    has_vectors : bool or None
        Whether any of them can be seen; None where a search tells as soon.
    search : str
        How they are searched: `exact` or `approximate`.
    """

    __slots__ = ("has_vectors", "model", "search")

    def __init__(self, model: EmbeddingModel, has_vectors: bool | None, search: str) -> None:
        self.model = model
        self.has_vectors = has_vectors
        self.search = search


class Vector(list[float]):
    """Doubles of reals.

    Attributes
    ----------
    written : str or None
        The text of an array that the server reads as the same reals, if there is one:
        to write one takes several times as long as all that is done with it.
    """

    __slots__ = ("written",)

    def __init__(self, numbers: Iterable[float], written: str | None = None) -> None:
        super().__init__(numbers)
        self.written = written
