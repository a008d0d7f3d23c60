"""The agent's map: one hop from a hub, a search and a read, and what a policy adds."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.measuring import Case, interleaved
from benchmarks.results import Bound, Section
from benchmarks.server import Connection, caller, superuser

MOST_OF_HUB = 2.0
PLAIN = 25
LIMIT = 25

TABLES = """
create schema desk;
grant usage on schema desk to aiq_engine, authenticated;
create table desk.notes (id int primary key, title text not null, body text not null);
create table desk.guarded (id int primary key, title text not null, body text not null);
insert into aiq.entity_types (name, handle_prefix) values ('note', 'NT'), ('guarded', 'GD');
insert into aiq.relations (src_type, relation, dst_type) values ('note', 'cites', 'note');
create function desk.may_open(p_nodes bigint[]) returns setof bigint
language sql stable as 'select u from unnest(p_nodes) as u where u % 10 <> 0';
grant execute on function desk.may_open(bigint[]) to authenticated;
select aiq.register_entity_table('note', 'desk.notes', 'title', p_number_expr => 'id',
    p_title_expr => 'title', p_body_expr => 'body');
select aiq.register_entity_table('guarded', 'desk.guarded', 'title', p_number_expr => 'id',
    p_title_expr => 'title', p_body_expr => 'body', p_policy => 'desk.may_open');
"""
FILL = """
insert into desk.{0}
select g, 'Note ' || g, 'Word w' || g %% 1000 || ' of the body, and v' || g %% 10
from generate_series(1, %s) as g
"""
CITE = """
insert into aiq.edges (src_id, dst_id, relation, weight)
select h.id, t.id, 'cites', 1
from aiq.nodes as h
join aiq.nodes as t on t.entity_type = 'note' and t.handle_number between 11 and 10 + %s
where h.entity_type = 'note' and h.handle_number = %s
"""


def run(bench: Bench) -> Section:
    """Measure the functions of the map as a caller without claims, on shared rows."""
    rows = 100_020 if bench.profile.judged_at_full_size else 10_020
    section = Section("map", f"the agent's map on {rows:,} entities, one of them a hub")
    with bench.server.scratch("map") as dsn:
        with superuser(dsn) as connection, bench.progress("map: loading", None):
            connection.execute(TABLES.encode())
            for table in ("notes", "guarded"):
                connection.execute(FILL.format(table).encode(), (rows,))
            connection.execute("analyze aiq.nodes")
            connection.execute(CITE.encode(), (rows - 20, 1))
            connection.execute(CITE.encode(), (PLAIN, 2))
            connection.execute("vacuum (analyze)")
        _measure(bench, section, caller(dsn), rows)
    return section


def _asking(connection: Connection, statement: str) -> Case[str]:
    def ask(argument: str) -> None:
        connection.execute(statement.encode(), (argument,), prepare=True).fetchall()

    return ask


def _measure(bench: Bench, section: Section, asking: Connection, rows: int) -> None:
    repeats = 4 * bench.profile.repeats
    hop = _asking(asking, f"select aiq.neighbors(%s, p_limit => {LIMIT})")
    cases: dict[str, Case[str]] = {
        f"degree {PLAIN}": lambda _: hop("NT-2"),
        "hub": lambda _: hop("NT-1"),
    }
    with bench.progress("map: one hop", repeats) as advance:
        found = interleaved(cases, [str(n) for n in range(repeats)], warm=3, advance=advance)
    for what, timings in found.items():
        section.add(timings, found[f"degree {PLAIN}"], call="aiq.neighbors", what=what)
    section.bounds.append(
        Bound(
            f"a hop from a node of {rows - 20:,} neighbours over one of {PLAIN} (medians)",
            found["hub"].p50 / found[f"degree {PLAIN}"].p50,
            MOST_OF_HUB,
        )
    )
    for words in ("w7", "w7 w8 w9", "v3"):
        searches: dict[str, Case[str]] = {
            kind: _asking(asking, f"select aiq.search_entities(%s, p_types => '{{{kind}}}')")
            for kind in ("note", "guarded")
        }
        timed = interleaved(searches, [words], rounds=min(20, bench.profile.repeats), warm=2)
        for kind, timings in timed.items():
            what = "under a policy" if kind == "guarded" else "without one"
            section.add(timings, timed["note"], call="aiq.search_entities", what=what, words=words)
    reads = {handle: _asking(asking, "select aiq.entity(%s)") for handle in ("NT-7", "GD-7")}
    for handle, case in reads.items():
        timed_read = interleaved({"read": case}, [handle], rounds=bench.profile.repeats, warm=2)
        what = "under a policy" if handle.startswith("GD") else "without one"
        section.add(timed_read["read"], timed_read["read"], call="aiq.entity", what=what)
