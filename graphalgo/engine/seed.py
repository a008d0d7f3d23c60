"""From what a caller wrote to the one node that it names."""

from __future__ import annotations

from graphalgo.engine.arguments import NAME_SIMILARITY, quoted, shown, text
from graphalgo.engine.errors import Ambiguous, InvalidValue, NotFound
from graphalgo.engine.folding import fold_key

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from graphalgo.engine.protocol import Moment, Store

SOFT_PREFIX = "soft"
MAX_NODE_NUMBER = 2**63 - 1
NAMED_CANDIDATES = 10
NEAR_SPELLINGS = 5


def resolve_seed(store: Store, name: str, value: Any, as_of: Moment | None = None) -> int:
    """Return the one visible node that a handle, a soft node's `kind/name` or a key names.

    Parameters
    ----------
    store : Store
        What the caller sees.
    name : str
        The argument's name, for messages.
    value : str
        What the caller wrote. What looks like a handle is one only if its prefix
        is registered; everything else is folded and matched exactly.
    as_of : moment, optional
        With an earlier moment a handle finds a node that has been retired since.

    Returns
    -------
    int
        The node's id.

    Raises
    ------
    InvalidValue
        Null, not a text, empty once folded, or not storable (22023).
    NotFound
        It names no node; the hint gives near spellings (P0002).
    Ambiguous
        It names several; the message gives their handles (21000).
    """
    written = text(name, value, "Write a handle, a soft node's kind/name, or a key.")
    key = fold_key(written)
    if not key:
        raise InvalidValue(
            f"{name} is empty, but must name a node",
            "Write a handle, a soft node's kind/name, or a key.",
        )
    handle = parse_handle(key, store.entity_types())
    if handle is None:
        found = store.nodes_by_key(key, NAMED_CANDIDATES + 1)
    else:
        found = store.nodes_by_handle(handle[0], handle[1], as_of)
    if len(found) == 1:
        return found[0]
    if not found:
        raise _not_found(store, written, key)
    raise _ambiguous(store, written, found)


def parse_handle(
    key: str, entity_types: Sequence[tuple[str, str]]
) -> tuple[str | None, int] | None:
    """Return the type and number that a folded text names as a handle, or None if it is none.

    The type is None for a soft node. A number is written without leading zeros.
    """
    prefix, dash, digits = key.rpartition("-")
    if not dash or not prefix or not (digits.isascii() and digits.isdigit()):
        return None
    if (len(digits) > 1 and digits[0] == "0") or len(digits) > 19:
        return None
    number = int(digits)
    if number > MAX_NODE_NUMBER:
        return None
    if prefix == SOFT_PREFIX:
        return None, number
    for entity_type, registered in entity_types:
        if registered.lower() == prefix:
            return entity_type, number
    return None


def _not_found(store: Store, written: str, key: str) -> NotFound:
    near = store.near_names(key, NAME_SIMILARITY, NEAR_SPELLINGS)
    hint = "Check the spelling; aiq.lookup with p_fuzzy => true finds similar names."
    if near:
        hint = f"Near spellings: {quoted(near)}."
    error = NotFound(f"no node is found by {shown(written)}", hint)
    error.near = tuple(near)
    return error


def _ambiguous(store: Store, written: str, found: list[int]) -> Ambiguous:
    named = found[:NAMED_CANDIDATES]
    infos = store.describe(named)
    handles = tuple(infos[node][0] for node in named)
    count = f"more than {NAMED_CANDIDATES}" if len(found) > NAMED_CANDIDATES else str(len(found))
    error = Ambiguous(
        f"{shown(written)} names {count} nodes: {', '.join(handles)}",
        "Write the handle of the one you mean.",
    )
    error.candidates = handles
    return error
