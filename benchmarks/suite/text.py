"""Search over passages: full text and vectors, beside the bare queries on the same table."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter
from uuid import UUID

import numpy as np

from benchmarks.bench import Bench
from benchmarks.measuring import Case, interleaved
from benchmarks.results import Bound, Section
from benchmarks.server import Connection, caller, superuser
from graphalgo.stores.passages import SPARE_ROWS

MOST = 1.3
LIMIT = 10
WIDTH, CLUSTERS, SPREAD = 384, 100, 0.6
VOCABULARY, LENGTH = 20_000, 60
# Of the passages, what the measured caller does not see.
OTHERS = 0.02
ORGANISATIONS = [UUID(int=1), UUID(int=2)]
USER = UUID(int=10)
BLOCK = 1_000

TABLE = """
create schema archive;
grant usage on schema archive to public;
create table archive.notes (id int primary key, content text not null, org uuid);
"""
REGISTER = """
select aiq.register_text_source('notes', 'archive.notes', 'id', 'content', p_org_expr => 'org')
"""
BARE_TEXT = """
select c.row_number, ts_rank(c.words, q) as rank
from aiq.text_chunks as c, websearch_to_tsquery('english', %s) as q
where c.words @@ q and c.source_id = 1 order by rank desc, c.row_number limit 10
"""
OURS_TEXT = "select number, rank from aiq.rank_passages('notes', %s, 10)"
# As text: what a driver makes of it is not the server's time.
QUERY = "select aiq.query(%s, %s)::text"
BARE_VECTORS = """
select v.chunk_id from aiq.chunk_vectors as v where v.model_id = 1 and v.source_id = 1
order by v.vector::{schema}.vector operator({schema}.<=>) %s::real[]::{schema}.vector limit 10
"""
# On the rows that the caller sees, with the settings of ours.
BARE_HNSW = """
select v.chunk_id from aiq.chunk_vectors as v
where v.model_id = 1 and v.source_id = 1 and (v.audience is null or v.audience = any (%s))
order by
    v.vector::{schema}.vector({width})
    operator({schema}.<=>) %s::real[]::{schema}.vector({width})
limit %s
"""
HNSW_SETTINGS = """
set hnsw.ef_search = 100; set hnsw.iterative_scan = relaxed_order;
set hnsw.max_scan_tuples = 2147483647; set hnsw.scan_mem_multiplier = 8;
set enable_seqscan = off; set enable_sort = off
"""

# The same rows as whoever has no graphalgo would keep them: a column of vectors with its
# index, and a policy that asks who the caller is. It gives what a reader wants to see.
PEER = """
create table archive.members (user_id uuid, org_id uuid, primary key (user_id, org_id));
insert into archive.members select user_id, org_id from rbac.org_members;
create table archive.embedded (
    id int primary key, content text not null, org uuid, embedding {schema}.vector({width})
);
insert into archive.embedded
select n.id, n.content, n.org, v.vector::{schema}.vector
from archive.notes as n
join aiq.text_chunks as c on c.row_number = n.id
join aiq.chunk_vectors as v on v.chunk_id = c.id;
create index on archive.embedded using hnsw (embedding {schema}.vector_cosine_ops);
alter table archive.embedded enable row level security;
create policy members_see on archive.embedded for select using (
    org in (
        select m.org_id from archive.members as m
        where m.user_id = (current_setting('request.jwt.claims')::json ->> 'sub')::uuid
    )
);
grant select on archive.embedded, archive.members to authenticated;
"""
PEER_HNSW = """
select id, content, embedding operator({schema}.<=>) %s::text::{schema}.vector as distance
from archive.embedded order by distance limit %s
"""
PEER_SETTINGS = "set hnsw.ef_search = 100; set hnsw.iterative_scan = relaxed_order"


def run(bench: Bench) -> Section:
    """Measure TEXT and SEMANTIC on one table of passages."""
    section = Section("text", "search over passages, beside the bare queries")
    rows = max(2_000, bench.profile.nodes // 5)
    with bench.server.scratch("text") as dsn:
        words = _fill(bench, dsn, rows)
        _measure_text(bench, section, dsn, words, rows)
        _measure_vectors(bench, section, dsn, rows)
    return section


def _fill(bench: Bench, dsn: str, rows: int) -> list[str]:
    """Put passages of words whose frequency falls as their rank; give words to search for."""
    random = np.random.default_rng([bench.seed, 11])
    shares = 1 / np.arange(1, VOCABULARY + 1)
    chosen = random.choice(VOCABULARY, (rows, LENGTH), p=shares / shares.sum())
    organisations = random.random(rows) < OTHERS
    with superuser(dsn) as connection, bench.progress("text: loading passages", None):
        connection.execute(TABLE)
        _put_tenants(connection)
        with connection.cursor().copy("copy archive.notes from stdin") as copy:
            for number in range(rows):
                text = " ".join(f"w{word}x" for word in chosen[number])
                copy.write_row((number, text, ORGANISATIONS[int(organisations[number])]))
        connection.execute(REGISTER)
        connection.execute("vacuum (analyze) aiq.text_chunks")
    return ["w5x", "w30x", "w200x", "w1000x", "w3x w9x", "w100x or w300x", "w20x -w1x"]


def _put_tenants(connection: Connection) -> None:
    for number, organisation in enumerate(ORGANISATIONS):
        connection.execute(
            "insert into rbac.orgs (id, slug) values (%s, %s)", (organisation, f"org-{number}")
        )
    connection.execute("insert into rbac.users (id) values (%s)", (USER,))
    connection.execute(
        "insert into rbac.org_members (org_id, user_id) values (%s, %s)", (ORGANISATIONS[0], USER)
    )


def _speaking(dsn: str) -> Connection:
    connection = caller(dsn)
    connection.execute(
        "select set_config('request.jwt.claims', %s, false)", (json.dumps({"sub": str(USER)}),)
    )
    return connection


def _asking(connection: Connection, statement: str) -> Case[tuple[object, ...]]:
    def ask(parameters: tuple[object, ...]) -> None:
        connection.execute(statement.encode(), parameters, prepare=True).fetchall()

    return ask


def _measure_text(bench: Bench, section: Section, dsn: str, words: list[str], rows: int) -> None:
    bare, asking = superuser(dsn), _speaking(dsn)
    bare.execute("set jit = off")
    ranked, queried = _asking(asking, OURS_TEXT), _asking(asking, QUERY)
    name = "the bare tsquery query, no row security"
    cases: dict[str, Case[tuple[object, ...]]] = {
        name: _asking(bare, BARE_TEXT),
        "aiq.rank_passages, under row security": ranked,
        "aiq.query, TEXT with snippets": lambda one: queried((f'TEXT "{one[0]}" FROM notes', None)),
    }
    with bench.progress("text: words", len(words)) as advance:
        for one in words:
            found = interleaved(cases, [(one,)], rounds=min(30, bench.profile.repeats), warm=2)
            for what, timings in found.items():
                section.add(timings, found[name], rows=rows, words=one, what=what)
            section.bounds.append(
                Bound(
                    f"TEXT {one} on {rows:,} passages over the bare query (medians)",
                    found["aiq.rank_passages, under row security"].p50 / found[name].p50,
                    MOST,
                    judged=bench.profile.judged_at_full_size,
                )
            )
            advance()


def _measure_vectors(bench: Bench, section: Section, dsn: str, rows: int) -> None:
    random = np.random.default_rng([bench.seed, 12])
    centres = random.standard_normal((CLUSTERS, WIDTH))
    vectors = centres[random.integers(0, CLUSTERS, rows)]
    vectors = (vectors + SPREAD * random.standard_normal(vectors.shape)).astype(np.float32)
    targets = [
        (centres[random.integers(0, CLUSTERS)] + SPREAD * random.standard_normal(WIDTH)).astype(
            np.float32
        )
        for _ in range(10)
    ]
    with superuser(dsn) as connection, bench.progress("text: vectors", rows // BLOCK) as advance:
        connection.execute(
            "select aiq.register_embedding_model('made', %s, 'cosine', true)", (WIDTH,)
        )
        for start in range(0, rows, BLOCK):
            block = vectors[start : start + BLOCK]
            connection.execute(
                "select aiq.put_embeddings('notes', 'made', %s::text[], %s::text::real[])",
                (
                    [str(start + place) for place in range(len(block))],
                    "{" + ",".join(map(_array, block)) + "}",
                ),
            )
            advance()
        connection.execute("vacuum (analyze) aiq.chunk_vectors")
        schema = _pgvector(connection)
    if schema is None:
        section.note("The server has no pgvector: vectors are searched with numpy or Python alone.")
    _measure_exact(bench, section, dsn, schema, targets, rows)
    if schema is not None:
        _measure_approximate(bench, section, dsn, schema, targets, rows)


def _pgvector(connection: Connection) -> str | None:
    """Make the extension where the server has it; give its schema."""
    available = connection.execute(
        "select exists (select from pg_available_extensions where name = 'vector')"
    ).fetchone()
    if available != (True,):
        return None
    connection.execute("create extension if not exists vector schema public")
    return "public"


def _array(vector: np.ndarray) -> str:
    return "{" + ",".join(map(repr, map(float, vector))) + "}"


def _semantic(connection: Connection) -> Callable[[np.ndarray], str]:
    def ask(target: np.ndarray) -> str:
        row = connection.execute(
            QUERY, (f'SEMANTIC "x" FROM notes LIMIT {LIMIT}', _array(target)), prepare=True
        ).fetchone()
        assert row is not None
        return str(row[0])

    return ask


def _ids(answer: str) -> set[int]:
    return {one["id"] for one in json.loads(answer)["rows"]}


def _measure_exact(
    bench: Bench, section: Section, dsn: str, schema: str | None, targets: list[np.ndarray],
    rows: int,
) -> None:  # fmt: skip
    ask = _semantic(_speaking(dsn))
    ours = "aiq.query, SEMANTIC, exact"
    cases: dict[str, Case[np.ndarray]] = {ours: lambda target: ask(target) and None}
    base = ours
    if schema is not None:
        bare = superuser(dsn)
        bare.execute("set jit = off")
        base = "pgvector's bare exact query, no row security"
        asked = _asking(bare, BARE_VECTORS.format(schema=schema))
        cases[base] = lambda target: asked((_array(target),))
    with bench.progress("text: exact", len(targets)) as advance:
        found = interleaved(cases, targets, rounds=3, advance=advance)
    for what, timings in found.items():
        section.add(timings, found[base], rows=rows, words=f"{WIDTH} wide", what=what)
    if base != ours:
        section.bounds.append(
            Bound(
                f"SEMANTIC exact on {rows:,} vectors over the bare query (medians)",
                found[ours].p50 / found[base].p50, MOST,
                judged=bench.profile.judged_at_full_size,
            )
        )  # fmt: skip


def _measure_approximate(
    bench: Bench, section: Section, dsn: str, schema: str, targets: list[np.ndarray], rows: int
) -> None:
    exact = _semantic(_speaking(dsn))
    speaking = _speaking(dsn)
    speaking.execute("set aiq.vector_search = 'approximate'")
    approximate = _semantic(speaking)
    with superuser(dsn) as connection, bench.progress("text: making the index", None):
        connection.execute("set maintenance_work_mem = '512MB'")
        began = perf_counter()
        connection.execute("select aiq.index_embeddings('made')")
        took = perf_counter() - began
    bare, peer = superuser(dsn), _speaking(dsn)
    bare.execute("set maintenance_work_mem = '512MB'")
    with bench.progress("text: making the peer's table", None):
        bare.execute(PEER.format(schema=schema, width=WIDTH).encode())
        bare.execute("vacuum (analyze) archive.embedded")
    for connection, settings in ((bare, HNSW_SETTINGS), (peer, PEER_SETTINGS)):
        connection.execute(f"select null::{schema}.vector".encode())
        connection.execute(settings)
    asked = _asking(bare, BARE_HNSW.format(schema=schema, width=WIDTH))
    seen = _asking(peer, PEER_HNSW.format(schema=schema))
    base, ours = "pgvector's bare HNSW query, same settings", "aiq.query, SEMANTIC, approximate"
    secured = "pgvector's HNSW query of a caller under row security"
    cases: dict[str, Case[np.ndarray]] = {
        base: lambda target: asked(([ORGANISATIONS[0]], _array(target), LIMIT + SPARE_ROWS)),
        secured: lambda target: seen((f"[{_array(target)[1:-1]}]", LIMIT)),
        ours: lambda target: approximate(target) and None,
    }
    with bench.progress("text: approximate", len(targets)) as advance:
        found = interleaved(cases, targets, rounds=20, warm=3, advance=advance)
    for what, timings in found.items():
        section.add(timings, found[base], rows=rows, words=f"{WIDTH} wide", what=what)
    for other in (secured, base):
        section.bounds.append(
            Bound(
                f"SEMANTIC approximate on {rows:,} vectors over {other} (medians)",
                found[ours].p50 / found[other].p50, MOST,
                judged=bench.profile.judged_at_full_size,
            )
        )  # fmt: skip
    section.note(
        "The approximate search is beside two queries: the one that a caller would write, on a"
        " table of its own with a policy, for id, content and distance, and the bare one, which"
        " gives ids alone, to a superuser, who asks for an audience's rows by hand. Both have the"
        " same ef_search and iterative scan."
    )
    wanted = [_ids(exact(target)) for target in targets]

    def theirs(target: np.ndarray) -> set[int]:
        given = (f"[{_array(target)[1:-1]}]", LIMIT)
        statement = PEER_HNSW.format(schema=schema).encode()
        return {row[0] for row in peer.execute(statement, given).fetchall()}

    section.note(
        f"Of the {LIMIT} exactly nearest that the caller sees the approximate search finds"
        f" {_told([_ids(approximate(target)) for target in targets], wanted)}; the caller's own"
        f" HNSW query, on an index of its own over the same vectors,"
        f" {_told([theirs(target) for target in targets], wanted)}. What an index of clustered"
        " vectors misses is another lot each time that it is made. Ours over"
        f" {rows:,} vectors took {took:.0f} s to make."
    )


def _told(found: list[set[int]], wanted: list[set[int]]) -> str:
    """Say how much was found of what was wanted, in the mean and at the worst."""
    shares = [len(one & other) / LIMIT for one, other in zip(found, wanted, strict=True)]
    return f"{sum(shares) / len(shares):.0%} (worst of {len(shares)}: {min(shares):.0%})"
