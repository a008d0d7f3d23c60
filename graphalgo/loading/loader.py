"""One load: which files, in which order, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from psycopg import Connection, Cursor
from psycopg.rows import TupleRow

from graphalgo.engine.errors import InvalidValue
from graphalgo.loading import staging
from graphalgo.loading.connecting import connected, require_schema
from graphalgo.loading.edges import merge_edges
from graphalgo.loading.errors import shown
from graphalgo.loading.formats import EDGES, KEYS, NODES, RELATIONS, TYPES, Format
from graphalgo.loading.nodes import merge_keys, merge_nodes
from graphalgo.loading.reading import Reader, format_of
from graphalgo.loading.vocabulary import Vocabulary
from graphalgo.stores.settings import PINNED, local_settings

SOURCE_PREFIX = "load:"
_SETTINGS = {**PINNED, "jit": "off", "client_min_messages": "warning"}
MAX_SOURCE_BYTES = 200

# What is being done, and how many more bytes of which file are read.
Progress = Callable[[str, int], None]


@dataclass(slots=True, frozen=True)
class LoadFiles:
    """The files of one load; each may be left out.

    Attributes
    ----------
    types, relations, nodes, keys, edges : pathlib.Path or None
        Files in UTF-8: CSV with a header line, or JSON Lines.
    """

    types: Path | None = None
    relations: Path | None = None
    nodes: Path | None = None
    keys: Path | None = None
    edges: Path | None = None

    def given(self) -> list[tuple[str, Path]]:
        """List the kinds and paths of the files that are there, in the order of loading."""
        pairs = ((entry.name, getattr(self, entry.name)) for entry in fields(self))
        return [(kind, path) for kind, path in pairs if path is not None]


@dataclass(slots=True)
class Count:
    """What became of one file's records.

    Attributes
    ----------
    read, added, changed : int
        Records in the file; rows that are new; rows that were there and differ now.
    """

    read: int = 0
    added: int = 0
    changed: int = 0


@dataclass(slots=True)
class LoadReport:
    """What a load did.

    Attributes
    ----------
    counts : dict
        A :class:`Count` for each kind of file that was given.
    """

    counts: dict[str, Count] = field(default_factory=dict)


def load(
    connection: Connection[Any] | str,
    files: LoadFiles,
    *,
    source: str = "files",
    written: str | None = None,
    progress: Progress | None = None,
) -> LoadReport:
    """Load files into the graph: all of them, or, if any line is wrong, nothing.

    Parameters
    ----------
    connection : psycopg.Connection or str
        A connection or a DSN. The user must be allowed to write the tables of
        the schema ``aiq``, as a superuser is.
    files : LoadFiles
        What to load.
    source : str
        Under what name: a node is the same as one loaded before if source and
        ref are the same. At most 200 bytes.
    written : str, optional
        ``csv`` or ``jsonl``, for files whose extension does not say.
    progress : callable, optional
        Called with the kind of file and the number of bytes read since the last
        call; with 0 when the file is read and its rows are being stored.

    Returns
    -------
    LoadReport
        How many records were read, and how many rows are new or changed.

    Raises
    ------
    LoadError
        A line is refused; the message names the file, the line and the value.
    InvalidValue
        The source is empty or too long, or no file is given (22023).
    MissingSetting
        graphalgo is not installed in the database (55000).

    Notes
    -----
    Rows go through COPY into temporary tables and from there into the graph, a
    set at a time. Memory does not depend on the size of the files.
    """
    if not source or "\0" in source or len(source.encode()) > MAX_SOURCE_BYTES:
        raise InvalidValue(
            f"the source is {shown(source)}, but must have from 1 to {MAX_SOURCE_BYTES} bytes",
            "Give the files a name, such as registry.",
        )
    given = files.given()
    if not given:
        raise InvalidValue(
            "there is no file to load", "Give at least one of types, relations, nodes, keys, edges."
        )
    report = progress or _ignore
    readers = {
        kind: Reader(path, _FORMATS[kind], format_of(path, written), _reporting(report, kind))
        for kind, path in given
    }
    with connected(connection) as opened:
        require_schema(opened)
        with opened.transaction(), opened.cursor() as cursor:
            return _Load(cursor, readers, SOURCE_PREFIX + source, report).run()


_FORMATS: dict[str, Format] = {
    columns.kind: columns for columns in (TYPES, RELATIONS, NODES, KEYS, EDGES)
}


class _Load:
    """The steps of one load, inside its transaction."""

    def __init__(
        self, cursor: Cursor[TupleRow], readers: dict[str, Reader], source: str, progress: Progress
    ) -> None:
        self.cursor = cursor
        self.readers = readers
        self.source = source
        self.progress = progress
        self.counts = {kind: Count() for kind in readers}

    def run(self) -> LoadReport:
        with local_settings(self.cursor.connection, _SETTINGS):
            # Two loads of one source would each take the other's nodes for new.
            self.cursor.execute(
                "select pg_advisory_xact_lock(hashtextextended(%s, 0))", (self.source,)
            )
            vocabulary = Vocabulary(self.cursor)
            self._declare(vocabulary)
            self._stage(vocabulary)
            self._merge(vocabulary)
        return LoadReport(self.counts)

    def _declare(self, vocabulary: Vocabulary) -> None:
        for kind, declare in (
            ("types", vocabulary.declare_types),
            ("relations", vocabulary.declare_relations),
        ):
            if kind in self.readers:
                count = self.counts[kind]
                count.read, count.added, count.changed = declare(self.readers[kind])
                self.progress(kind, 0)

    def _stage(self, vocabulary: Vocabulary) -> None:
        """Read every file to its end before the first row is stored: a bad line is soon told."""
        cursor = self.cursor
        nodes, keys, edges = (self.readers.get(kind) for kind in ("nodes", "keys", "edges"))
        rows = staging.node_rows(nodes, vocabulary) if nodes else iter(())
        read = staging.stage(cursor, "loading_nodes", staging.NODE_COLUMNS, rows)
        if nodes:
            self.counts["nodes"].read = read
        if keys:
            self.counts["keys"].read = staging.stage(
                cursor, "loading_keys", staging.KEY_COLUMNS, staging.key_rows(keys)
            )
        if edges:
            row = cursor.execute("select now()").fetchone()
            assert row is not None
            self.counts["edges"].read = staging.stage(
                cursor,
                "loading_edges",
                staging.EDGE_COLUMNS,
                staging.edge_rows(edges, vocabulary, row[0]),
            )

    def _merge(self, vocabulary: Vocabulary) -> None:
        cursor = self.cursor
        nodes, keys, edges = (self.readers.get(kind) for kind in ("nodes", "keys", "edges"))
        if nodes:
            self.progress("nodes", 0)
        stored = merge_nodes(cursor, nodes, self.source)
        if nodes:
            self._stored("nodes", stored)
        if keys:
            self.progress("keys", 0)
            self._stored("keys", merge_keys(cursor, keys))
            cursor.execute("analyze aiq.node_keys")
        if edges:
            self.progress("edges", 0)
            self._stored("edges", merge_edges(cursor, edges, vocabulary, self.source))
            # The engine's statements keep one plan: it must know how much there is.
            cursor.execute("analyze aiq.edges")

    def _stored(self, kind: str, stored: tuple[int, int]) -> None:
        count = self.counts[kind]
        count.added, count.changed = stored


def _reporting(progress: Progress, kind: str) -> Callable[[int], None]:
    def report(count: int) -> None:
        if count:
            progress(kind, count)

    return report


def _ignore(_kind: str, _count: int) -> None:
    return None
