"""The modes that search texts and vectors."""

from __future__ import annotations

from math import inf, isfinite, isinf, isnan

from graphalgo.engine.arguments import near_spellings, quoted, represented, shown
from graphalgo.engine.errors import InvalidValue, UnknownName
from graphalgo.engine.trigram import real
from graphalgo.p8ql.plan import SearchPlan
from graphalgo.p8ql.protocol import Vector, VectorSpace
from graphalgo.p8ql.ranking import fuse

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, TypeVar

    from graphalgo.p8ql.plan import SemanticPlan, TextPlan
    from graphalgo.p8ql.protocol import EmbeddingModel, QueryStore, Ranking, TextSource
    from graphalgo.p8ql.query import Embedding

    # An id and what it is ranked by.
    Ranked = TypeVar("Ranked", bound=tuple[Any, ...])

NAMED = 10
# Of how many rows the passages are asked for at once.
BLOCK_ROWS = 5_000
# Characters. A longer text of a vector is refused unread: the widest model's takes fewer.
LONGEST_EMBEDDING = 1_000_000
# What a ranking is asked for at most: far more than any source has, and few enough that a
# store may ask its own for some more.
MOST_ROWS = 100_000_000
# What the numbers are made of that Python and the server read alike, and around them.
IN_DECIMALS = b"0123456789+-.eE, \t\n\r\v\f"
# What Python reads as part of a number, or as space around one, and the server does not.
NOT_IN_NUMBERS = "_\x1c\x1d\x1e\x1f"


def text_rows(store: QueryStore, plan: TextPlan) -> list[dict[str, Any]]:
    """Return the rows of TEXT.

    Raises
    ------
    UnknownName
        The source is not registered (42704).
    """
    _source(store, plan.source)
    ranking = store.text_ranking(plan.source, plan.words, min(plan.limit, MOST_ROWS))
    return [
        {"id": row, "title": title, "rank": rank, "snippet": snippet}
        for (row, rank), title, snippet in _with_passages(store, plan.source, ranking, plan.words)
    ]


def vector_rows(
    store: QueryStore, plan: SemanticPlan, embedding: Embedding
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of SEMANTIC or SEARCH, and what the store added to the plan.

    Raises
    ------
    UnknownName
        The source or the model is not registered, or no model is the default (42704).
    InvalidValue
        The vector cannot be taken (22023).
    """
    depth = min(plan.depth if isinstance(plan, SearchPlan) else plan.limit, MOST_ROWS)
    found = store.nearest_by_index(plan.source, plan.model, embedding, depth)
    if found is None:
        name, search, ranking = _vector_ranking(store, plan, embedding, depth)
    else:
        (name, ranking), search = found, "approximate"
    if isinstance(plan, SearchPlan):
        lexical = store.text_ranking(plan.source, plan.words, depth)
        rows = _fused(store, plan, lexical, ranking)
    else:
        rows = _nearest(store, plan, ranking)
    return rows, {"model": name, "vector_search": search}


def _vector_ranking(
    store: QueryStore, plan: SemanticPlan, embedding: Embedding, depth: int
) -> tuple[str, str, Ranking]:
    """Return the model's name, how its vectors are searched, and the nearest of them."""
    space = _space(store, plan)
    model = space.model
    vector = _vector(embedding, model, plan)
    if space.has_vectors is False:
        _refuse_without_vectors(store, plan.source, model)
    approximate = space.search == "approximate"
    nearest = store.approximate_ranking if approximate else store.vector_ranking
    ranking = nearest(plan.source, model.name, vector, depth)
    if not ranking and space.has_vectors is None:
        _refuse_without_vectors(store, plan.source, model)
    return model.name, space.search, ranking


def _refuse_without_vectors(store: QueryStore, source: str, model: EmbeddingModel) -> None:
    """Refuse a model that has no vectors of a source where others have some."""
    written = store.embedded_models(source)
    if written:
        raise InvalidValue(
            f"source {shown(source)} has no vectors of model {shown(model.name)}, "
            f"but of {quoted(written[:NAMED])}",
            f"Write USING {quoted(written[:1])} and send a vector that this model wrote.",
        )


def _nearest(store: QueryStore, plan: SemanticPlan, ranking: Ranking) -> list[dict[str, Any]]:
    return [
        {"id": row, "title": title, "distance": distance}
        for (row, distance), title, _ in _with_passages(store, plan.source, ranking, None)
    ]


def _fused(
    store: QueryStore, plan: SearchPlan, lexical: Ranking, semantic: Ranking
) -> list[dict[str, Any]]:
    fused = fuse(lexical, semantic, plan.k, plan.limit, store.check_interrupts)
    return [
        {"id": row, "title": title, "lex": lex, "sem": sem, "rrf": rrf, "snippet": snippet}
        for (row, lex, sem, rrf), title, snippet in _with_passages(
            store, plan.source, fused, plan.words
        )
    ]


def _with_passages(
    store: QueryStore, source: str, ranking: Sequence[Ranked], words: str | None
) -> Iterator[tuple[Ranked, str | None, str | None]]:
    """Yield what is ranked by its first value, an id, with title and snippet.

    Not what cannot be seen. Between blocks the store can be interrupted.
    """
    for start in range(0, len(ranking), BLOCK_ROWS):
        if start:
            store.check_interrupts()
        block = ranking[start : start + BLOCK_ROWS]
        passages = store.passages(source, [one[0] for one in block], words)
        for one in block:
            if one[0] in passages:
                yield one, *passages[one[0]]


def _source(store: QueryStore, name: str) -> TextSource:
    source = store.text_source(name)
    if source is None:
        names = [one.name for one in store.text_sources()]
        raise unknown(name, names, "registered text source", "FROM")
    return source


def _space(store: QueryStore, plan: SemanticPlan) -> VectorSpace:
    space = store.vector_space(plan.source, plan.model)
    if space is None:
        # One of the two is missing, and refused.
        _source(store, plan.source)
        model = _model(store, plan.model)
        space = VectorSpace(model, False, store.vector_search())
    return space


def _model(store: QueryStore, name: str | None) -> EmbeddingModel:
    models = store.embedding_models()
    names = [model.name for model in models]
    for model in models:
        if model.name == name or (name is None and model.is_default):
            return model
    if name is not None:
        raise unknown(name, names, "registered embedding model", "USING")
    raise UnknownName(
        "no embedding model is the default, and the query names none",
        f"Write USING and one of {quoted(names[:NAMED])}."
        if names
        else "Register one with aiq.register_embedding_model.",
    )


def unknown(name: str, names: Sequence[str], what: str, modifier: str) -> UnknownName:
    """Return the refusal of a name that is not registered, with near spellings."""
    near = near_spellings(name, names)
    if near:
        hint = f"Did you mean {modifier} {' or '.join(quoted([one]) for one in near)}?"
    elif names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        hint = f"There are {quoted(names[:NAMED])}{more}."
    else:
        hint = f"There is no {what} yet."
    return UnknownName(f"{shown(name)} is not a {what}", hint)


def _vector(embedding: Embedding, model: EmbeddingModel, plan: SemanticPlan) -> Vector:
    """Return the vector as doubles of reals; refuse what is none of the model's space."""
    send = f"Send the {model.dim} numbers that model {shown(model.name)} writes for the words"
    form = f"{send}, such as p_embedding => '[0.1, -0.2, …]'."
    if embedding is None:
        raise InvalidValue(
            f"{plan.mode} needs a vector, but p_embedding is missing: the database calls no model",
            form,
        )
    parts = _parts(embedding, form)
    if len(parts) != model.dim:
        raise InvalidValue(
            f"p_embedding has {len(parts)} numbers, but model {shown(model.name)} "
            f"writes {model.dim}",
            form,
        )
    vector = _plain_numbers(embedding, parts)
    if vector is None:
        vector = Vector(_number(part, place, form) for place, part in enumerate(parts, 1))
    if model.distance == "cosine" and not any(vector):
        raise InvalidValue(
            "p_embedding is all zeros, and has no direction that a cosine could be taken of", form
        )
    return vector


def decimals(embedding: Embedding) -> str | None:
    """Return a vector as the text of an array, if it is made of nothing but decimal numbers.

    Or what could be some: the server reads them as `_vector` does, or refuses them all.
    """
    if not isinstance(embedding, str):
        return None
    written = embedding.strip()
    inner = written[1:-1]
    if written[:1] + written[-1:] not in ("[]", "{}") or inner.encode().translate(
        None, IN_DECIMALS
    ):
        return None
    return "{" + inner + "}"


def _parts(embedding: str | Sequence[float], form: str) -> Sequence[str | float]:
    """Return the numbers of a vector, still as they are written."""
    if not isinstance(embedding, str):
        if not isinstance(embedding, (list, tuple)):
            raise InvalidValue(
                f"p_embedding is {represented(embedding)}, but must be an array", form
            )
        return embedding
    if len(embedding) > LONGEST_EMBEDDING:
        raise InvalidValue(
            f"p_embedding has {len(embedding)} characters, but may have {LONGEST_EMBEDDING}: "
            "it is too long",
            form,
        )
    written = embedding.strip()
    if written[:1] + written[-1:] not in ("[]", "{}"):
        raise InvalidValue(
            f"p_embedding is {shown(embedding[:40])}, but must be an array of numbers", form
        )
    inner = written[1:-1]
    return inner.split(",") if inner.strip() else []


def _plain_numbers(embedding: Embedding, parts: Sequence[str | float]) -> Vector | None:
    """Return what `_number` makes of each part, or None where it must have a look at them.

    One by one they take five times as long. What Python takes for a number and the
    server does not, and what one of them may round to 0, is left to `_number`.
    """
    from array import array  # noqa: PLC0415 - only a search for vectors pays for it

    if not isinstance(embedding, str) or not embedding.isascii():
        return None
    if any(sign in embedding for sign in NOT_IN_NUMBERS):
        return None
    try:
        reals = array("f", map(float, parts)).tolist()
    except (ValueError, OverflowError):
        return None
    if not isfinite(sum(reals)) or 0.0 in reals:
        return None
    return Vector(reals, "{" + embedding.strip()[1:-1] + "}")


def _number(part: str | float, place: int, form: str) -> float:
    """Return a number as the double of a real; what is smaller than any real is 0."""
    written = part.strip() if isinstance(part, str) else part
    plain = not isinstance(written, str) or (written.isascii() and "_" not in written)
    try:
        number = float(written) if plain and not isinstance(written, bool) else None
    except OverflowError:
        number = inf
    except (TypeError, ValueError):
        number = None
    said = shown((written if isinstance(written, str) else represented(written))[:40])
    if number is None:
        raise InvalidValue(f"number {place} of p_embedding is {said}, which is no number", form)
    if isnan(number) or isinf(number):
        raise InvalidValue(f"number {place} of p_embedding is {said}, but must be finite", form)
    try:
        return real(number)
    except InvalidValue:
        if abs(number) < 1:
            return 0.0
        raise InvalidValue(
            f"number {place} of p_embedding is {said}, which is greater than any real",
            form,
        ) from None
