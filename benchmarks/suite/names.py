"""The index of names: searched, built, refreshed and kept fresh, beside pg_trgm's GIN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.bench import Bench
from benchmarks.measuring import Case, Timings, in_blocks, interleaved
from benchmarks.names import common_names, company_names
from benchmarks.results import Bound, Section
from benchmarks.server import Connection, superuser
from benchmarks.suite.store import spent

SIMILARITY = 0.6
FRONTIER = 500
DELTA = 10_000
JOINS = 30
FULL = 1_000_000
GENERATORS: dict[str, Callable[[int, int], np.ndarray]] = {
    "common words": common_names,
    "company-like": company_names,
}
GIN = """
select node_id, key, @similarity(key, %(name)s::text) from aiq.node_keys
where key @% %(name)s::text and is_name and retired_at is null
""".replace("@similarity", "public.similarity").replace("@%", "operator(public.%%)")
OURS = "select node_id, key, similarity from aiq.similar_keys(%(names)s::text[], %(least)s::real)"
GIN_INDEX = """
create index node_keys_name_trigrams on aiq.node_keys using gin (key public.gin_trgm_ops)
where is_name and retired_at is null
"""
SIZES = """
select
    (pg_total_relation_size('aiq.name_lists') + pg_total_relation_size('aiq.name_segments')) / 1e6,
    pg_relation_size('aiq.node_keys_name_trigrams') / 1e6
"""


def run(bench: Bench) -> Section:
    """Measure among growing numbers of names, of two kinds."""
    section = Section("names", "the index of names beside pg_trgm's GIN")
    for kind, generate in GENERATORS.items():
        for count in bench.profile.names:
            with (
                bench.server.scratch("names") as dsn,
                superuser(dsn) as connection,
                bench.progress(f"names: {count:,} of {kind}", None),
            ):
                _one_size(bench, section, connection, dsn, kind, generate(count, bench.seed))
    with bench.server.scratch("names") as dsn, superuser(dsn) as connection:
        _ingestion(bench, section, connection)
    _joins(bench, section)
    section.note(
        f"Milliseconds a name at a similarity of {SIMILARITY}: of the backend's processor time"
        " where the server is on this host, else by the clock. GIN: the bare query of a superuser,"
        " no caller's predicate. The index: aiq.similar_keys, which reads every name that comes"
        " back again under the caller's predicate. The ratios say how many times faster it is than"
        " GIN; where there are few names it is GIN that aiq.similar_keys searches. Single probes"
        " are measured one after another, of each kind; a search by GIN in between empties the"
        " processor's caches, after which the index takes longer than after itself."
    )
    return section


def _one_size(
    bench: Bench,
    section: Section,
    connection: Connection,
    dsn: str,
    kind: str,
    names: np.ndarray,
) -> None:
    count = len(names)
    texts = [name.decode() for name in names.tolist()]
    _load(connection, texts)
    with superuser(dsn) as builder:
        began = perf_counter()
        builder.execute("select * from aiq.refresh_names()")
        built = perf_counter() - began
        builder.execute("vacuum aiq.name_changes")  # as graphalgo maintain does
        peak = _peak(builder)
    ours, gin = connection.execute(SIZES).fetchone() or (0, 0)
    labels = {"names": count, "of": kind}
    random = np.random.default_rng([bench.seed, 7007])
    chosen = [texts[place] for place in random.integers(0, count, bench.profile.probes).tolist()]
    single = _single(connection)
    found = in_blocks(single, chosen)
    gin_time, index_time = found["GIN"], found["index"]
    for what, timings in found.items():
        section.add(timings, gin_time, **labels, what=f"single, {what}")
    turns = interleaved(single, chosen, warm=0)["index"]
    section.add(turns, gin_time, **labels, what="single, index, after GIN each time")
    frontier = [texts[place] for place in random.integers(0, count, FRONTIER).tolist()]
    together = _together(connection, frontier)
    section.add(together, gin_time, **labels, what=f"of {FRONTIER} at once, index")
    refreshed = _refresh(connection, count, kind)
    mean = float(np.mean(gin_time.values))
    section.rows.append(
        {
            **labels,
            "what": "built, refreshed",
            "build s": round(built, 1),
            "index MB": round(float(ours), 1),
            "GIN MB": round(float(gin), 1),
            "build peak MB": peak,
            f"refresh of {DELTA:,} s": round(refreshed, 2),
            "single x": round(mean / float(np.mean(index_time.values)), 1),
            "frontier x": round(mean / together.p50, 1),
        }
    )
    for column in section.rows[-1]:
        if column not in section.columns:
            section.columns.append(column)
    full = count >= FULL
    bounds = [
        ("single probes: index over GIN (means)", np.mean(index_time.values) / mean, 1 / 40, "x"),
        (f"a probe of {FRONTIER}: index over GIN", together.p50 / mean, 1 / 80, "x"),
        ("building", built * 1000, 60_000, "ms"),
        ("on disk", float(ours), 150, "MB"),
        ("memory of the build", float(peak or 0), 1_500, "MB"),
        (f"a refresh of {DELTA:,}", refreshed * 1000, 2_000, "ms"),
    ]
    if count <= 10_000:
        bounds = [
            ("single probes: ours over GIN (medians)", index_time.p50 / gin_time.p50, 1.2, "x")
        ]
    section.bounds += [
        Bound(f"{count:,} of {kind}: {what}", float(measured), limit, unit,
              judged=full or count <= 10_000)
        for what, measured, limit, unit in bounds
    ]  # fmt: skip


def _load(connection: Connection, texts: list[str]) -> None:
    """Write names as fast as can be: pg_trgm's index is made afterwards."""
    connection.execute("insert into aiq.entity_types (name, handle_prefix) values ('c', 'C')")
    connection.execute("drop index aiq.node_keys_name_trigrams")
    connection.execute(
        "insert into aiq.nodes (id, entity_type)"
        " select g, 'c' from generate_series(1, %s::bigint) as g",
        (len(texts),),
    )
    with (
        connection.cursor() as cursor,
        cursor.copy("copy aiq.node_keys (node_id, key, kind) from stdin") as copy,
    ):
        for number, text in enumerate(texts, 1):
            copy.write_row((number, text, "canonical"))
    connection.execute("set maintenance_work_mem = '256MB'")
    connection.execute(GIN_INDEX)
    connection.execute("vacuum (analyze) aiq.node_keys")


def _single(connection: Connection) -> dict[str, Case[str]]:
    connection.execute(f"set pg_trgm.similarity_threshold = {SIMILARITY}")
    connection.execute("set plan_cache_mode = force_generic_plan")

    def gin(name: str) -> float:
        given = {"name": name}
        return spent(connection, lambda: connection.execute(GIN, given, prepare=True).fetchall())

    def index(name: str) -> float:
        given = {"names": [name], "least": SIMILARITY}
        return spent(connection, lambda: connection.execute(OURS, given, prepare=True).fetchall())

    return {"GIN": gin, "index": index}


def _together(connection: Connection, names: list[str]) -> Timings:
    """Look for many names at once; give the milliseconds a name."""
    timings = Timings()
    given = {"names": names, "least": SIMILARITY}
    for _ in range(3):
        timings.add(spent(connection, lambda: connection.execute(OURS, given)) / len(names))
    return timings


def _refresh(connection: Connection, count: int, kind: str) -> float:
    """Write names more, and give the seconds it takes to fold them in."""
    texts = [name.decode() for name in GENERATORS[kind](DELTA, 99).tolist()]
    connection.execute(
        "insert into aiq.nodes (id, entity_type)"
        " select g, 'c' from generate_series(%s::bigint, %s) as g",
        (count + 1, count + DELTA),
    )
    connection.execute(
        "insert into aiq.node_keys (node_id, key, kind)"
        " select %s::bigint + u.number, u.name, 'canonical'"
        " from unnest(%s::text[]) with ordinality as u (name, number)",
        (count, texts),
    )
    began = perf_counter()
    connection.execute("select * from aiq.refresh_names()")
    return perf_counter() - began


def _peak(connection: Connection) -> int | None:
    status = Path(f"/proc/{connection.info.backend_pid}/status")
    if not connection.info.host.startswith("/") or not status.exists():
        return None
    line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) // 1000


def _joins(bench: Bench, section: Section) -> None:
    """Join by all three links, as by default, with the index and with GIN."""
    graph = bench.main_graph()
    dsn = bench.database(graph)
    with superuser(dsn) as connection:
        connection.execute("select * from aiq.refresh_names()")
        seeds = [graph.handle(node) for node in graph.random_nodes(JOINS, bench.seed + 8)]
        text = "select aiq.iterated_join_trace(%s, 'grail')"
        candidates: Counter[str] = Counter()

        def join(handle: str) -> float:
            return spent(connection, lambda: connection.execute(text, (handle,)).fetchall())

        with bench.progress("names: joins", len(seeds)) as advance:
            found = interleaved({"all links": join}, seeds, advance=advance)
        for handle in seeds:
            trace = (connection.execute(text, (handle,)).fetchone() or ({"rounds": []},))[0]
            for one in trace["rounds"]:
                candidates.update(one["candidates"])
    total = max(1, candidates.total())
    shares = ", ".join(f"{kind} {number / total:.0%}" for kind, number in candidates.items())
    what = f"iterated_join, all links, {graph.node_count:,} nodes"
    section.add(found["all links"], what=what)
    section.note(f"Of the candidates of these joins: {shares}.")


def _ingestion(bench: Bench, section: Section, connection: Connection) -> None:
    """Insert rows of a registered table, with the index's triggers and without."""
    connection.execute(
        "create schema shop; grant usage on schema shop to aiq_engine;"
        "create table shop.firm (id bigint primary key, name text not null);"
        "insert into aiq.entity_types (name, handle_prefix) values ('firm', 'F')"
    )
    connection.execute("select aiq.register_entity_table('firm', 'shop.firm'::regclass, 'name')")
    rows = (
        "insert into shop.firm select g, 'Harbour ' || left(md5(g::text), 6) || ' Trading Ltd'"
        " from generate_series({}, {}) as g"
    )
    started = 0

    def case(enabled: bool) -> Case[int]:
        def insert(_number: int) -> float:
            nonlocal started
            does = "enable" if enabled else "disable"
            for name in ("node_keys_new_names", "node_keys_changed_names"):
                connection.execute(f"alter table aiq.node_keys {does} trigger {name}".encode())
            started += DELTA
            text = rows.format(started + 1, started + DELTA).encode()
            return spent(connection, lambda: connection.execute(text))

        return insert

    cases = {"without": case(False), "with": case(True)}
    found = interleaved(cases, range(min(bench.profile.repeats, 9)))
    for what, timings in found.items():
        section.add(timings, found["without"], what=f"{DELTA:,} registered rows, {what} the index")
    slower = found["with"].p50 / found["without"].p50
    section.bounds.append(Bound("registered rows: with the index over without", slower, 1.3))
