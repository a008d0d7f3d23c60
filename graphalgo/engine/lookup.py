"""The name-lookup cascade."""

from __future__ import annotations

from graphalgo.engine.arguments import (
    MAX_INTEGER,
    NAME_SIMILARITY,
    flag,
    represented,
    text,
    whole_number,
)
from graphalgo.engine.errors import InvalidValue
from graphalgo.engine.folding import fold_key
from graphalgo.engine.rows import LookupRow

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from graphalgo.engine.protocol import Store

    # Index of the input key, node id, the key that matched, match kind, score.
    Match: TypeAlias = tuple[int, int, str, str, float]

BLOCK_ROWS = 2_000


def lookup(
    store: Store, keys: Sequence[str], fuzzy: bool = False, limit: int = 10
) -> list[LookupRow]:
    """Find nodes by key, each input key by the first stage that finds anything.

    The stages: exact canonical keys; exact short keys and aliases; soft nodes by
    bare name or `kind/name`; and, only with `fuzzy`, typed nodes with a name of
    trigram similarity 0.3 or more.

    Parameters
    ----------
    store : Store
        What the caller sees.
    keys : list of str
        What to look up; each is folded (lower case, trimmed, white space
        collapsed).
    fuzzy : bool
        Whether similar names count where nothing matches exactly.
    limit : int
        The most rows for each input key, at least 1.

    Returns
    -------
    list of LookupRow
        Input keys in their order; within one by score descending, key, node id.
        Each node once, with the key that matched best. A key that finds nothing
        has no row.

    Raises
    ------
    InvalidValue
        An argument is null or out of its range (22023).

    Notes
    -----
    Cost: one question to the store for each stage that is still needed, for all
    keys together.
    """
    inputs = _inputs(keys)
    fuzzy = flag("p_fuzzy", fuzzy)
    limit = whole_number("p_limit", limit, 1, MAX_INTEGER, 10)
    with store.reading():
        return _rows(store, inputs, _cascade(store, inputs, fuzzy, limit))


def _cascade(store: Store, inputs: list[str], fuzzy: bool, limit: int) -> list[Match]:
    folded: list[str] = []
    for start in range(0, len(inputs), BLOCK_ROWS):
        if start:
            store.check_interrupts()
        folded += map(fold_key, inputs[start : start + BLOCK_ROWS])
    matches: dict[int, list[Match]] = {}
    open_keys = [index for index, key in enumerate(folded) if key]
    if not open_keys:
        # A store that refuses this caller says so even where there is nothing to look up.
        store.entity_types()
    for stage in (_canonical, _short_and_alias, _soft, _fuzzy):
        if not open_keys or (stage is _fuzzy and not fuzzy):
            break
        found = stage(store, [folded[index] for index in open_keys], limit)
        for place, (position, node, key, kind, score) in enumerate(found):
            if place and place % BLOCK_ROWS == 0:
                store.check_interrupts()
            index = open_keys[position]
            matches.setdefault(index, []).append((index, node, key, kind, score))
        open_keys = [index for index in open_keys if index not in matches]
    return [match for index in sorted(matches) for match in matches[index]]


def _inputs(keys: Any) -> list[str]:
    hint = "Write a list of keys, such as array['meridian dawn']."
    if keys is None:
        raise InvalidValue("p_keys is null, but must be a list of keys", hint)
    if isinstance(keys, str) or not isinstance(keys, (list, tuple)):
        raise InvalidValue(f"p_keys is {represented(keys)}, but must be a list of keys", hint)
    return [text("an element of p_keys", key, hint) for key in keys]


def _canonical(store: Store, keys: list[str], limit: int) -> list[Match]:
    return [
        (index, node, key, kind, 1.0)
        for index, node, key, kind in store.exact_keys(keys, ["canonical"], limit)
    ]


def _short_and_alias(store: Store, keys: list[str], limit: int) -> list[Match]:
    return [
        (index, node, key, kind, 1.0)
        for index, node, key, kind in store.exact_keys(keys, ["short", "alias"], limit)
    ]


def _soft(store: Store, keys: list[str], limit: int) -> list[Match]:
    return [(index, node, key, "soft", 1.0) for index, node, key in store.soft_names(keys, limit)]


def _fuzzy(store: Store, keys: list[str], limit: int) -> list[Match]:
    return [
        (index, node, key, "fuzzy", score)
        for index, node, key, score in store.fuzzy_keys(keys, NAME_SIMILARITY, limit)
    ]


def _rows(store: Store, inputs: list[str], matches: list[Match]) -> list[LookupRow]:
    rows = []
    for start in range(0, len(matches), BLOCK_ROWS):
        if start:
            # A store that has described them already is not asked.
            store.check_interrupts()
        block = matches[start : start + BLOCK_ROWS]
        infos = store.describe_answers([node for _, node, _, _, _ in block])
        for index, node, key, kind, score in block:
            handle, _, entity_type, summary = infos[node]
            rows.append(
                LookupRow(inputs[index], node, handle, key, entity_type, summary, kind, score)
            )
    return rows
