"""Names similar to given ones, by trigrams or by a scorer for people who know their names."""

from __future__ import annotations

from graphalgo.engine.arguments import (
    MAX_INTEGER,
    NAME_SIMILARITY,
    represented,
    show_real,
    shown,
    text,
    threshold,
    whole_number,
)
from graphalgo.engine.errors import InvalidValue, MissingSetting
from graphalgo.engine.folding import fold_key
from graphalgo.engine.rows import SimilarRow
from graphalgo.engine.trigram import real

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol, TypeAlias

    from graphalgo.engine.protocol import Store

    # Index of the input name, node id, the name that matched, its score.
    Match: TypeAlias = tuple[int, int, str, float]
    Scorer: TypeAlias = Callable[[str, str], float]

    class NameStore(Store, Protocol):
        """A store that tells all similar names, and the best of each node."""

        def best_names(self, names: Sequence[str], threshold: float, limit: int) -> list[Match]:
            """Return (index in `names`, node id, name, similarity) of nodes with similar names.

            Each node once, with its most similar name (ties: the least); at most
            `limit` for each of `names`, by similarity descending, name, id.
            """

        def all_names(self, names: Sequence[str], threshold: float) -> Iterable[Match]:
            """Yield the same of every similar name, in no order."""


SCORERS = ("trigram", "jaro_winkler", "token_set")
INSTALL_RAPIDFUZZ = (
    "Install it for the Python that runs this (inside the server, the one that PL/Python links):"
    " apt-get install python3-rapidfuzz where there is one, or python3 -m pip install rapidfuzz"
    " (where pip will not, with --target DIRECTORY, for a directory of the server's PYTHONPATH);"
    " or write p_scorer => 'trigram'."
)
BLOCK_ROWS = 2_000


def similar_names(
    store: NameStore,
    names: Sequence[str],
    similarity: float = 0.6,
    limit: int = 10,
    scorer: str = "trigram",
    candidate_similarity: float | None = None,
) -> list[SimilarRow]:
    """Find the nodes with names similar to each of some names.

    Parameters
    ----------
    store : Store
        What the caller sees.
    names : list of str
        The names; each is folded, as keys are.
    similarity : float
        The least score, in (0, 1], compared as a ``real``.
    limit : int
        The most rows for each name, at least 1.
    scorer : str
        ``trigram``: pg_trgm's similarity. ``jaro_winkler``: that of Jaro and Winkler,
        for short names with wrong letters. ``token_set``: the ratio of the words that
        both have to all words, for names with words left out or in another order.
        These two are rapidfuzz's, from 0 to 1.
    candidate_similarity : float, optional
        For another scorer than ``trigram``: of which trigram similarity a name must at
        least be to be scored at all, in (0, 1]. Given none, 0.3, or `similarity` where
        that is less. A name that is less similar is not found, whatever its score.

    Returns
    -------
    list of SimilarRow
        Names in their order; within one by score descending, key, node id. Each node
        once, with its best name; `candidate_similarity` is the least trigram similarity
        that a name was looked at from.

    Raises
    ------
    InvalidValue
        An argument is null or out of its range (22023).
    MissingSetting
        The scorer needs rapidfuzz, which is not installed (55000).

    Notes
    -----
    One question to the store. Another scorer than ``trigram`` costs some microseconds
    a candidate besides.
    """
    inputs = _inputs(names)
    least = threshold("p_similarity", similarity)
    limit = whole_number("p_limit", limit, 1, MAX_INTEGER, 10)
    score = _scorer(scorer)
    from_similarity = _candidate_similarity(scorer, least, candidate_similarity)
    folded = [fold_key(name) for name in inputs]
    with store.reading():
        if score is None:
            matches: Iterable[Match] = store.best_names(folded, least, limit)
        else:
            found = store.all_names(folded, from_similarity)
            matches = _best(store, folded, found, score, least, limit)
        return _rows(store, inputs, list(matches), from_similarity)


def _inputs(names: Any) -> list[str]:
    hint = "Write a list of names, such as array['meridian dawn']."
    if names is None:
        raise InvalidValue("p_names is null, but must be a list of names", hint)
    if isinstance(names, str) or not isinstance(names, (list, tuple)):
        raise InvalidValue(f"p_names is {represented(names)}, but must be a list of names", hint)
    return [text("an element of p_names", name, hint) for name in names]


def _scorer(scorer: Any) -> Scorer | None:
    """Return the scorer's function; None for trigrams, which the store compares itself."""
    hint = f"Write one of {', '.join(SCORERS)}."
    if text("p_scorer", scorer, hint) not in SCORERS:
        raise InvalidValue(f"p_scorer is {shown(scorer)}, which is not a scorer", hint)
    if scorer == "trigram":
        return None
    try:
        # In a backend an import takes 10 ms, which only who asks for it pays.
        from rapidfuzz import fuzz  # noqa: PLC0415
        from rapidfuzz.distance import JaroWinkler  # noqa: PLC0415
    except ImportError:
        raise MissingSetting(
            f"p_scorer is {shown(scorer)}, which needs rapidfuzz, but it cannot be imported",
            INSTALL_RAPIDFUZZ,
        ) from None
    if scorer == "jaro_winkler":
        return lambda name, other: float(JaroWinkler.similarity(name, other))
    return lambda name, other: float(fuzz.token_set_ratio(name, other)) / 100


def _candidate_similarity(scorer: str, least: float, given: Any) -> float:
    if scorer == "trigram":
        if given is not None:
            written = show_real(threshold("p_candidate_similarity", given))
            raise InvalidValue(
                f"p_candidate_similarity is {written}, but means nothing for the scorer trigram,"
                " which compares all names",
                "Leave it out, or write p_scorer => 'jaro_winkler'.",
            )
        return least
    if given is None:
        return min(NAME_SIMILARITY, least)
    return threshold("p_candidate_similarity", given)


def _best(
    store: Store,
    folded: Sequence[str],
    found: Iterable[Match],
    score: Scorer,
    least: float,
    limit: int,
) -> list[Match]:
    """Score the candidates; keep each node's best name, and the best nodes of each input."""
    best: dict[tuple[int, int], tuple[float, str]] = {}
    scores: dict[tuple[int, str], float] = {}
    for number, (index, node, name, _) in enumerate(found):
        if number % BLOCK_ROWS == 0:
            store.check_interrupts()
        value = scores.get((index, name))
        if value is None:
            value = scores[index, name] = real(score(folded[index], name))
        if value >= least:
            place = index, node
            best[place] = min(best.get(place, (0.0, "")), (-value, name))
    ordered: dict[int, list[tuple[float, str, int]]] = {}
    for (index, node), (value, name) in best.items():
        ordered.setdefault(index, []).append((value, name, node))
    return [
        (index, node, name, -value)
        for index in sorted(ordered)
        for value, name, node in sorted(ordered[index])[:limit]
    ]


def _rows(
    store: Store, inputs: Sequence[str], matches: Sequence[Match], from_similarity: float
) -> list[SimilarRow]:
    rows = []
    for start in range(0, len(matches), BLOCK_ROWS):
        block = matches[start : start + BLOCK_ROWS]
        infos = store.describe_answers([node for _, node, _, _ in block])
        for index, node, name, score in block:
            handle, _, entity_type, summary = infos[node]
            rows.append(
                SimilarRow(
                    inputs[index], node, handle, name, entity_type, summary, score,
                    from_similarity,
                )
            )  # fmt: skip
    return rows
