"""Writing: rows of a registered table beside those of the same table alone, and graphs of facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.measuring import Case, interleaved
from benchmarks.results import Bound, Section
from benchmarks.server import Connection, superuser

ROWS = 10_000
MOST = 4.0
GRAPH_NODES, GRAPH_EDGES = 10_000, 30_000
# 30,000 edges at 10,000 a second.
LONGEST = 3_000.0

# A table as applications have them: a dozen columns, some 250 bytes a row, two unique
# keys, two more indexes and a foreign key; and one with nothing but a name and a code.
SOURCES = {
    "a dozen columns": (
        """
        id bigint primary key, name text not null, code text not null unique,
        kind text not null, status text not null, description text, email text, city text,
        country_id int not null references shop.country, amount numeric(12, 2),
        created_at timestamptz not null default now(), updated_at timestamptz not null default now()
        """,
        ("name", "country_id"),
        """
        select g, %(name)s, 'K-' || g, 'supplier', 'active', repeat(md5(g::text) || ' ', 3),
            'someone' || g || '@example.org', 'City ' || g %% 500, 1 + g %% 200, (g %% 10000) / 7.0
        """,
        "id, name, code, kind, status, description, email, city, country_id, amount",
    ),
    "three columns": (
        "id bigint primary key, name text not null, code text",
        (),
        "select g, %(name)s, 'K-' || g",
        "id, name, code",
    ),
}
NAME = (
    "(array['North', 'Blue', 'Grand', 'Silver', 'Royal', 'Delta', 'Nova', 'Iron'])[1 + g % 8]"
    " || ' ' || (array['Harbour', 'Marine', 'Freight', 'Line', 'Cargo', 'Trading'])[1 + g / 8 % 6]"
    " || ' ' || left(md5(g::text), 4) || ' Ltd'"
)
SCHEMA = """
create schema shop;
grant usage on schema shop to aiq_engine;
create table shop.country (id int primary key, name text not null);
insert into shop.country select g, 'Country ' || g from generate_series(1, 200) as g;
"""


def run(bench: Bench) -> Section:
    """Insert the same rows into a table and into its registered twin; then upsert graphs."""
    section = Section("store", f"{ROWS:,} rows inserted; graphs of {GRAPH_EDGES:,} edges upserted")
    with bench.server.scratch("store") as dsn, superuser(dsn) as connection:
        connection.execute(SCHEMA)
        for number, source in enumerate(SOURCES):
            _insert(bench, section, connection, source, f"source{number}")
        _upsert(bench, section, connection)
    section.note(
        "Milliseconds of the backend's processor time where the server is on this host, else by"
        " the clock. The registered table has two keys a row, a name and a code, so that its rows"
        " write 10,000 nodes and 20,000 keys, the names into the index of trigrams too."
    )
    section.note(
        "The promise is made for the table of a dozen columns: a primary and a unique key, two"
        " more indexes, a foreign key, some 250 bytes a row. Three columns without any of that"
        " are told beside it: the nodes and keys cost the same, the insert itself hardly anything."
    )
    return section


def _insert(bench: Bench, section: Section, connection: Connection, source: str, name: str) -> None:
    columns, indexed, rows, written = SOURCES[source]
    for table in (f"shop.{name}", f"shop.{name}_registered"):
        connection.execute(f"create table {table} ({columns})".encode())
        for column in indexed:
            connection.execute(f"create index on {table} ({column})".encode())
    connection.execute(
        "insert into aiq.entity_types (name, handle_prefix) values (%s, %s)", (name, name)
    )
    connection.execute(
        "select aiq.register_entity_table(%s, %s::regclass, 'name',"
        " p_alias_exprs => '{code}', p_code_exprs => '{code}')",
        (name, f"shop.{name}_registered"),
    )

    def into(table: str) -> Case[int]:
        chosen = rows.replace("%(name)s", NAME).replace("%%", "%")

        def case(number: int) -> float:
            first = number * ROWS
            text = (
                f"insert into {table} ({written}) {chosen}"
                f" from generate_series({first + 1}, {first + ROWS}) as g"
            )
            return spent(connection, lambda: connection.execute(text.encode()))

        return case

    cases = {"alone": into(f"shop.{name}"), "registered": into(f"shop.{name}_registered")}
    for case in cases.values():
        case(0)
    repeats = range(1, 1 + min(bench.profile.repeats, 9))
    with bench.progress(f"store: {source}", len(repeats)) as advance:
        found = interleaved(cases, repeats, warm=0, advance=advance)
    for what, timings in found.items():
        section.add(timings, found["alone"], what=f"insert {ROWS:,} rows", table=source, case=what)
    section.bounds.append(
        Bound(
            f"{source}: registered over alone (medians)",
            found["registered"].p50 / found["alone"].p50,
            MOST,
            judged=source == "a dozen columns",
        )
    )


def _upsert(bench: Bench, section: Section, connection: Connection) -> None:
    connection.execute(
        "insert into aiq.entity_types (name, handle_prefix) values ('company', 'CO');"
        "insert into aiq.relations values"
        " ('company', 'supplies', 'company'), ('company', 'owns', 'company')"
    )

    def upsert(number: int) -> float:
        given = (_facts(bench.seed + number), json.dumps({"memory": f"document {number}"}))
        return spent(
            connection,
            lambda: connection.execute("select aiq.upsert_graph(%s::jsonb, %s::jsonb)", given),
        )

    repeats = range(min(bench.profile.repeats, 5))
    cases: dict[str, Case[int]] = {"new": upsert}
    with bench.progress("store: upsert_graph", 2 * len(repeats)) as advance:
        found = interleaved(cases, repeats, warm=0, advance=advance)
        again = interleaved({"again": upsert}, repeats, warm=0, advance=advance)
    what = f"upsert_graph, {GRAPH_NODES:,} nodes, {GRAPH_EDGES:,} edges"
    section.add(found["new"], what=what, case="new")
    section.add(again["again"], what=what, case="known already")
    section.bounds.append(Bound(f"{what}: 10,000 edges a second", found["new"].p50, LONGEST, "ms"))


def _facts(seed: int) -> str:
    """Write a graph of soft nodes and random edges."""
    random = Random(seed)
    nodes = [{"k": "project", "n": f"Project {seed} {number}"} for number in range(GRAPH_NODES)]
    edges = [
        {
            "s": random.randrange(GRAPH_NODES),
            "t": random.randrange(GRAPH_NODES),
            "r": random.choice(("supplies", "owns")),
            "w": random.randint(1, 1000) / 1000,
        }
        for _ in range(GRAPH_EDGES)
    ]
    return json.dumps({"nodes": nodes, "edges": edges})


def spent(connection: Connection, call: Callable[[], object]) -> float:
    """Give the milliseconds of a call: the backend's processor time, or the clock's."""
    account = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    local = connection.info.host.startswith("/") and account.exists()

    def now() -> float:
        return int(account.read_text().split()[0]) / 1e6 if local else perf_counter() * 1000

    began = now()
    call()
    return now() - began
