"""What the PL/Python function bodies call: the engine on the SPI store.

Runs inside a database backend and nowhere else. The functions give what the
engine finds; what is shown of a node (handle, key, type, summary) the SQL around
them reads.
"""

from __future__ import annotations

from graphalgo.engine import iterated_join as _iterated_join
from graphalgo.engine import iterated_join_trace as _iterated_join_trace
from graphalgo.engine import lookup as _lookup
from graphalgo.engine import walk as _walk
from graphalgo.engine.errors import GraphAlgoError
from graphalgo.refusals import json_text, server_refusal
from graphalgo.stores.spi import QuerySpiStore, SpiStore

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    Answer = TypeVar("Answer")

BLOCK_ROWS = 5_000
# Names that are read again all at once: the more, the nearer to each other they are stored.
BLOCK_HITS = 50_000
# Where a refusal waits for `refusal`.
LEFT = "graphalgo.refusal"

NUMPY_HINT = (
    "On the server's machine: apt-get install python3-numpy, or python3 -m pip install numpy for"
    " the Python that PL/Python links. Until then pg_trgm's own index is searched."
)

_loaded: dict[str, Callable[..., Any]] = {}


def iterated_join(plpy: Any, shared: dict[str, Any], *arguments: Any) -> Iterator[tuple[Any, ...]]:
    """Answer `aiq.iterated_join`; the arguments are those of the SQL function, in its order."""
    return _join_rows(*_run(plpy, shared, _iterated_join, arguments))


def opened_iterated_join(
    plpy: Any, shared: dict[str, Any], *arguments: Any
) -> Iterator[tuple[Any, ...]]:
    """Answer `aiq.opened_iterated_join`, where a type has a policy."""
    store = _opened().OpenedStore(plpy, shared)
    return _join_rows(*_attempt(plpy, _iterated_join, (store, *arguments)))


def _join_rows(rows: Any, refusal: str | None) -> Iterator[tuple[Any, ...]]:
    if rows is None:
        return iter([(*[None] * 9, refusal)])
    return (
        (
            row.resolved, row.round, row.hops, row.node_id, row.score,
            None if row.path is None else json_text(row.path),
            row.deferred, row.examined, row.reason, None,
        )
        for row in rows
    )  # fmt: skip


def iterated_join_trace(
    plpy: Any, shared: dict[str, Any], *arguments: Any
) -> list[tuple[str | None, str | None]]:
    """Answer `aiq.iterated_join_trace` as JSON text."""
    trace, refusal = _run(plpy, shared, _iterated_join_trace, arguments)
    return [(None if trace is None else json_text(trace), refusal)]


def walk(plpy: Any, shared: dict[str, Any], *arguments: Any) -> Iterator[tuple[str | None, ...]]:
    """Answer `aiq.walk` in blocks of rows, each column the text of an array.

    The server reads such a text several times faster than PL/Python turns as many
    Python values into its own, one by one. Between blocks it can be interrupted.
    """
    rows, refusal = _run(plpy, shared, _walk, arguments)
    if rows is None:
        yield (None, None, None, None, None, refusal)
        return
    paths: dict[tuple[str, ...], str] = {}
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        for row in block:
            relations = tuple(row.path)
            if relations not in paths:
                paths[relations] = _quoted(_array(map(_quoted, relations)))
        yield (
            _array(str(row.depth) for row in block),
            _array(str(row.node_id) for row in block),
            _array(paths[tuple(row.path)] for row in block),
            _array(repr(row.weight) for row in block),
            _array("t" if row.capped else "f" for row in block),
            None,
        )


def lookup(plpy: Any, shared: dict[str, Any], *arguments: Any) -> Iterator[tuple[Any, ...]]:
    """Answer `aiq.lookup`."""
    return _lookup_rows(*_run(plpy, shared, _lookup, arguments))


def opened_lookup(plpy: Any, shared: dict[str, Any], *arguments: Any) -> Iterator[tuple[Any, ...]]:
    """Answer `aiq.opened_lookup`, where a type has a policy."""
    store = _opened().OpenedStore(plpy, shared)
    return _lookup_rows(*_attempt(plpy, _lookup, (store, *arguments)))


def _lookup_rows(rows: Any, refusal: str | None) -> Iterator[tuple[Any, ...]]:
    if rows is None:
        return iter([(*[None] * 5, refusal)])
    return ((row.input_key, row.node_id, row.key, row.match_kind, row.score, None) for row in rows)


def similar_names(plpy: Any, shared: dict[str, Any], *arguments: Any) -> Iterator[tuple[Any, ...]]:
    """Answer `aiq.similar_names`."""
    from graphalgo.names.finding import similar_names as find  # noqa: PLC0415

    rows, refusal = _run(plpy, shared, find, arguments)
    if rows is None:
        return iter([(*[None] * 5, refusal)])
    return (
        (row.input_name, row.node_id, row.key, row.score, row.candidate_similarity, None)
        for row in rows
    )


def _numbers(values: list[int]) -> str:
    """Write an array of numbers; a list writes its own faster than one by one."""
    return "{" + str(values)[1:-1] + "}"


def search_name_index(
    plpy: Any, shared: dict[str, Any], names: list[str], threshold: float
) -> Iterator[tuple[str | None, str | None, str | None, str | None, str | None, bool, str | None]]:
    """Answer `aiq.search_name_index_plpython` in blocks; one row that says no where it cannot."""
    try:
        hits = _name_index_hits(plpy, shared, names, threshold)
    except plpy.SPIError as error:
        # Out of an iterator the server would have its own words put before these.
        yield None, None, None, None, None, False, _refusal(error)
        return
    if hits is None:
        yield None, None, None, None, None, False, None
        return
    blocks = [(many, start) for many in hits for start in range(0, len(many), BLOCK_HITS)]
    for many, start in blocks:
        part = many[start : start + BLOCK_HITS]
        yield (
            _numbers(part.numbers.tolist()),
            _numbers(part.holders.tolist()),
            _numbers(part.marks.tolist()),
            _array([f'"({place >> 16},{place & 65535})"' for place in part.places.tolist()]),
            _array(part.similarities_as_text()),
            True,
            None,
        )
    if not blocks:
        yield "{}", "{}", "{}", "{}", "{}", True, None


def _name_index_hits(
    plpy: Any, shared: dict[str, Any], names: list[str], threshold: float
) -> list[Any] | None:
    """Return what the index of names finds, or nothing where it is not to be searched."""
    from graphalgo.names.serving import segments_that_serve  # noqa: PLC0415

    segments = segments_that_serve(plpy, shared, names)
    if not segments:
        return None
    try:
        from graphalgo.names.tables import NameIndex  # noqa: PLC0415
    except ImportError:
        return None
    return NameIndex(plpy, shared).hits(segments, threshold)


def refresh_names(
    plpy: Any, shared: dict[str, Any], rebuild: bool
) -> list[tuple[int | None, int | None, int | None, bool | None, bool | None, str | None]]:
    """Answer `aiq.refresh_names`."""
    try:
        from graphalgo.names.tables import NameIndex  # noqa: PLC0415
    except ImportError:
        refusal = {
            "sqlstate": "55000",
            "message": "the index of names needs numpy, which the server's Python cannot import",
            "hint": NUMPY_HINT,
        }
        return [(None, None, None, None, None, json_text(refusal))]
    done, refused = _attempt(plpy, NameIndex(plpy, shared).refresh, (rebuild,))
    if done is None:
        return [(None, None, None, None, None, refused)]
    return [(*done, None)]


def query(
    plpy: Any,
    shared: dict[str, Any],
    text: Any,
    embedding: Any,
    by_index: bool = False,
    looked_up: bool | None = False,
) -> str | None:
    """Answer `aiq.query` as JSON text; None is a refusal, which `refusal` then tells.

    With `by_index` the settings are those that an index of vectors is searched with. With
    `looked_up` the query is a lookup of one key, which nothing has as its canonical one.
    """
    # Only who uses the dialect pays for it; an import again and again is not for nothing.
    run = _loaded.get("query") or _query()
    store = QuerySpiStore(plpy, shared, by_index, bool(looked_up))
    try:
        return _written(plpy, run(store, text, embedding))
    except (GraphAlgoError, plpy.SPIError) as error:
        shared[LEFT] = _refusal(error)
        return None


def opened_query(
    plpy: Any, shared: dict[str, Any], text: Any, embedding: Any
) -> list[tuple[str | None, str | None]]:
    """Answer what `aiq.opened_query` finds, where a type has a policy, as JSON text."""
    store = _opened().OpenedQueryStore(plpy, shared)
    try:
        return [(_written(plpy, _query()(store, text, embedding)), None)]
    except (GraphAlgoError, plpy.SPIError) as error:
        return [(None, _refusal(error))]


def _query() -> Callable[..., Any]:
    if "query" not in _loaded:
        from graphalgo.p8ql.query import query as run  # noqa: PLC0415

        _loaded["query"] = run
    return _loaded["query"]


def _opened() -> Any:
    """Return the module of the stores without what a policy denies."""
    from graphalgo.stores import opened  # noqa: PLC0415

    return opened


def parse(plpy: Any, shared: dict[str, Any], text: Any) -> str | None:
    """Answer `aiq.parse` as JSON text; None is a refusal, which `refusal` then tells."""
    from graphalgo.p8ql.parser import plan_of  # noqa: PLC0415

    try:
        return json_text(plan_of(text))
    except GraphAlgoError as error:
        shared[LEFT] = _refusal(error)
        return None


def refusal(shared: dict[str, Any]) -> str | None:
    """Return the refusal that the last query or parse left, as JSON text."""
    left: str | None = shared.pop(LEFT, None)
    return left


def _written(plpy: Any, answer: dict[str, Any]) -> str:
    """Return an answer as JSON text; between blocks of rows the server can be interrupted."""
    rows = answer["rows"]
    if len(rows) <= BLOCK_ROWS:
        return json_text(answer)
    blocks = []
    for start in range(0, len(rows), BLOCK_ROWS):
        plpy.execute("select 1")
        blocks.append(json_text(rows[start : start + BLOCK_ROWS])[1:-1])
    others = json_text({name: value for name, value in answer.items() if name != "rows"})
    return f'{others[:-1]},"rows":[{",".join(blocks)}]}}'


def _run(
    plpy: Any,
    shared: dict[str, Any],
    algorithm: Callable[..., Answer],
    arguments: tuple[Any, ...],
) -> tuple[Answer | None, str | None]:
    """Run an algorithm; return its answer, or nothing and the refusal as JSON text."""
    return _attempt(plpy, algorithm, (SpiStore(plpy, shared), *arguments))


def _attempt(
    plpy: Any, run: Callable[..., Answer], arguments: tuple[Any, ...]
) -> tuple[Answer | None, str | None]:
    """Call something; return its answer, or nothing and the refusal as JSON text."""
    try:
        return run(*arguments), None
    except (GraphAlgoError, plpy.SPIError) as error:
        return None, _refusal(error)


def _refusal(error: Any) -> str:
    """Return an error as JSON text.

    An error of the server (a judge that fails, a cancelled statement), too: the
    statement ends with it all the same, in the server's own words.
    """
    if isinstance(error, GraphAlgoError):
        told = {"sqlstate": error.sqlstate, "message": error.message, "hint": error.hint}
    else:
        told = server_refusal(error)
    return json_text(told)


def _array(elements: Iterable[str]) -> str:
    """Return the text of an array of elements that are quoted where they must be."""
    return "{" + ",".join(elements) + "}"


def _quoted(text: str) -> str:
    """Return a text as an element of an array."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
