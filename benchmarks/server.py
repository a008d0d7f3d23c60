"""The server that is measured, and its databases: one a graph, kept for the next run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from benchmarks.generators import GENERATORS, Graph
from benchmarks.load import EXTRAS, Report, load
from graphalgo.install import install

Connection = psycopg.Connection[Any]

CHECKOUT = Path(__file__).resolve().parent.parent
DIRECTORY = CHECKOUT / ".graphalgo-benchmark"
SETTINGS = {
    "small": {"shared_buffers": "1GB", "effective_cache_size": "2GB"},
    "medium": {"shared_buffers": "2GB", "effective_cache_size": "4GB"},
    "large": {"shared_buffers": "4GB", "effective_cache_size": "12GB"},
}
PREFIX = "graphalgo_benchmark"
# What the cached databases are made by: when any of it changes, they are made anew.
MAKERS = ("generators.py", "names.py", "copying.py", "load.py")


class Server:
    """A running server.

    Parameters
    ----------
    dsn : str, optional
        A superuser's; without one a private cluster is started (or found running).
    size : str
        Decides how much memory a private cluster is given.
    report : callable
        Is told what takes time.
    """

    def __init__(self, dsn: str | None, size: str, report: Callable[[str], None]) -> None:
        if dsn is None:
            from graphalgo.cluster import up  # noqa: PLC0415 - only where it is needed

            settings = {**SETTINGS[size], "work_mem": "64MB"}
            dsn = up(DIRECTORY / "cluster", settings=settings, report=report).dsn
        self.dsn = dsn
        with psycopg.connect(self.database_dsn("postgres"), autocommit=True) as connection:
            self.version = _one(connection, "show server_version")
            self.settings = {
                name: _one(connection, f"show {name}")
                for name in ("shared_buffers", "work_mem", "effective_cache_size", "jit")
            }

    def database_dsn(self, name: str) -> str:
        """Give the DSN of a database of this server."""
        return make_conninfo(self.dsn, dbname=name)

    def database(self, graph: Graph, report: Report) -> str:
        """Give the DSN of a database that holds a graph; make and load it where there is none.

        Parameters
        ----------
        graph : Graph
            What it holds.
        report : callable
            Is told what is being loaded, as :func:`benchmarks.load.load` does.
        """
        stem = f"{PREFIX}_{_digest(describe(graph).encode())}"
        name = f"{stem}_{_makers_digest()}"
        with psycopg.connect(self.database_dsn("postgres"), autocommit=True) as connection:
            known = {row[0] for row in connection.execute("select datname from pg_database")}
            for old in known:
                if old.startswith(stem) and old != name:
                    _drop(connection, old)
            if name not in known:
                making = f"{name}_new"
                _drop(connection, making)
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(making)))
                self._fill(making, graph, report)
                connection.execute(
                    sql.SQL("alter database {} rename to {}").format(
                        sql.Identifier(making), sql.Identifier(name)
                    )
                )
                connection.execute(
                    sql.SQL("comment on database {} is {}").format(
                        sql.Identifier(name), sql.Literal(f"graphalgo benchmark: {describe(graph)}")
                    )
                )
        dsn = self.database_dsn(name)
        if name in known:
            # The data are the same; the functions may have changed since.
            install(dsn)
        return dsn

    @contextmanager
    def scratch(self, name: str) -> Iterator[str]:
        """Give the DSN of a new database with graphalgo and no data, dropped at the end."""
        database = f"{PREFIX}_{name}"
        with psycopg.connect(self.database_dsn("postgres"), autocommit=True) as connection:
            _drop(connection, database)
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(database)))
            try:
                dsn = self.database_dsn(database)
                install(dsn)
                yield dsn
            finally:
                _drop(connection, database)

    def _fill(self, name: str, graph: Graph, report: Report) -> None:
        dsn = self.database_dsn(name)
        install(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            load(connection, graph, report)
            connection.execute(EXTRAS)
            connection.execute("vacuum (analyze) benchmark.edges")


def superuser(dsn: str) -> Connection:
    """Connect as the DSN's own user."""
    return psycopg.connect(dsn, autocommit=True)


def caller(dsn: str, timeout: str = "60s") -> Connection:
    """Connect as callers do: the role ``authenticated``, no JIT, a time-out.

    Without JIT, because a compilation of some hundred milliseconds would be counted against the
    peers.
    """
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute(
        f"set jit = off; set statement_timeout = '{timeout}'; set role authenticated"
    )
    return connection


def describe(graph: Graph) -> str:
    """Name a graph: kind, sizes, seed, history."""
    past = f", {graph.history} closed periods an edge" if graph.history else ""
    if graph.organisations:
        past += f", {graph.organisations} organisations"
    return (
        f"{graph.kind}, {graph.node_count} nodes, {graph.edge_count} edges, seed {graph.seed}{past}"
    )


def generated(kind: str, *sizes: int, seed: int) -> Graph:
    """Make a graph by the name of its generator, or take it from the last run's files."""
    maker = _digest(*(_source(name) for name in ("generators.py", "names.py")))
    sizes_text = "_".join(map(str, sizes))
    file = DIRECTORY / "graphs" / f"{kind}_{sizes_text}_{seed}_{maker}.npz"
    arrays = [field.name for field in fields(Graph) if field.type == "np.ndarray"]
    if file.exists():
        with np.load(file) as stored:
            return Graph(kind=kind, seed=seed, **{name: stored[name] for name in arrays})
    graph = GENERATORS[kind](*sizes, seed=seed)
    file.parent.mkdir(parents=True, exist_ok=True)
    staging = file.with_suffix(".new.npz")
    np.savez(staging, **{name: getattr(graph, name) for name in arrays})
    staging.rename(file)
    return graph


def _drop(connection: Connection, name: str) -> None:
    connection.execute(
        sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
    )


def _makers_digest() -> str:
    schema = [file.read_bytes() for file in sorted((CHECKOUT / "sql").glob("*.sql"))]
    tables = [text for text in schema if b"create table" in text or b"index if not exists" in text]
    return _digest(*(_source(name) for name in MAKERS), *tables)


def _source(name: str) -> bytes:
    return (CHECKOUT / "benchmarks" / name).read_bytes()


def _digest(*texts: bytes) -> str:
    total = hashlib.sha256()
    for text in texts:
        total.update(text)
    return total.hexdigest()[:8]


def _one(connection: Connection, statement: str) -> str:
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return str(row[0])
