"""What the PL/Python function bodies call: the engine on the SPI store.

Runs inside a database backend and nowhere else.
"""

from __future__ import annotations

from graphalgo.engine import iterated_join as _iterated_join
from graphalgo.engine import iterated_join_trace as _iterated_join_trace
from graphalgo.engine import lookup as _lookup
from graphalgo.engine import walk as _walk
from graphalgo.engine.errors import GraphAlgoError
from graphalgo.stores.spi import SpiStore

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    Answer = TypeVar("Answer")


def iterated_join(plpy: Any, shared: dict[str, Any], *arguments: Any) -> Iterator[tuple[Any, ...]]:
    """Answer `aiq.iterated_join`; the arguments are those of the SQL function, in its order."""
    rows = _run(plpy, shared, _iterated_join, arguments)
    if rows[0].path is None:
        return map(tuple, rows)
    # Imported only for an answer with a path: in a fresh backend it takes longer
    # than the join.
    from json import dumps  # noqa: PLC0415

    at = rows[0]._fields.index("path")
    columns = map(tuple, rows)
    return ((*row[:at], dumps(row[at], ensure_ascii=False), *row[at + 1 :]) for row in columns)


def iterated_join_trace(plpy: Any, shared: dict[str, Any], *arguments: Any) -> str:
    """Answer `aiq.iterated_join_trace` as JSON text."""
    from json import dumps  # noqa: PLC0415

    return dumps(_run(plpy, shared, _iterated_join_trace, arguments), ensure_ascii=False)


def walk(plpy: Any, shared: dict[str, Any], *arguments: Any) -> Iterator[tuple[Any, ...]]:
    """Answer `aiq.walk`."""
    return map(tuple, _run(plpy, shared, _walk, arguments))


def lookup(plpy: Any, shared: dict[str, Any], *arguments: Any) -> Iterator[tuple[Any, ...]]:
    """Answer `aiq.lookup`."""
    return map(tuple, _run(plpy, shared, _lookup, arguments))


def _run(
    plpy: Any,
    shared: dict[str, Any],
    algorithm: Callable[..., Answer],
    arguments: tuple[Any, ...],
) -> Answer:
    """Run an algorithm; raise an error of ours as PostgreSQL's, with its SQLSTATE and hint."""
    try:
        return algorithm(SpiStore(plpy, shared), *arguments)
    except GraphAlgoError as error:
        plpy.error(error.message, hint=error.hint, sqlstate=error.sqlstate)
        raise AssertionError("plpy.error returned") from error
