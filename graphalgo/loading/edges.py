"""From the temporary table of edges into the graph, a set at a time."""

from __future__ import annotations

from psycopg import Connection, Cursor
from psycopg.rows import TupleRow

from graphalgo.engine.folding import fold_key
from graphalgo.engine.seed import parse_handle
from graphalgo.loading.errors import AmbiguousInLine, NotFoundInLine, shown
from graphalgo.loading.nodes import HANDLE_NUMBER, utc
from graphalgo.loading.reading import Reader
from graphalgo.loading.staging import make_table
from graphalgo.loading.vocabulary import Vocabulary

_BATCH = 10_000

# Every name of an end, once, and what it names: first the refs of the source.
_NAMES = """
create temporary table loading_names on commit drop as
select u.name, min(u.line) as line, min(r.node_id) as node_id, min(r.entity_type) as entity_type
from (
    select src as name, line from pg_temp.loading_edges
    union all
    select dst, line from pg_temp.loading_edges
) as u
left join pg_temp.loading_refs as r on r.ref = u.name
group by u.name
"""

_SPELLING_COLUMNS = {
    "name": 'text collate "C"',
    "folded": 'text collate "C"',
    "handle_type": 'text collate "C"',
    "handle_number": "bigint",
}

_FOUND_BY_HANDLE = f"""
update pg_temp.loading_names as l
set node_id = n.id, entity_type = n.entity_type
from pg_temp.loading_spellings as s
join aiq.nodes as n
    on n.entity_type = s.handle_type
    and {HANDLE_NUMBER} = s.handle_number
where s.name = l.name and n.retired_at is null
"""

_FOUND_BY_SOFT_HANDLE = """
update pg_temp.loading_names as l
set node_id = n.id
from pg_temp.loading_spellings as s
join aiq.nodes as n on n.id = s.handle_number
where
    s.name = l.name and s.handle_type is null and s.handle_number is not null
    and n.entity_type is null and n.retired_at is null
"""

# Exact keys of typed nodes, and soft nodes by kind/name.
_FOUND_BY_KEY = """
create temporary table loading_found on commit drop as
select f.name, min(f.node_id) as node_id, count(*) as nodes
from (
    select s.name, k.node_id
    from pg_temp.loading_spellings as s
    join aiq.node_keys as k on k.key = s.folded
    where s.handle_number is null and k.retired_at is null and not k.soft
    union
    select s.name, n.id
    from pg_temp.loading_spellings as s
    join aiq.nodes as n on n.soft_key = s.folded
    where s.handle_number is null and n.retired_at is null
) as f
group by f.name
"""

_TAKE_FOUND = """
update pg_temp.loading_names as l
set node_id = n.id, entity_type = n.entity_type
from pg_temp.loading_found as f
join aiq.nodes as n on n.id = f.node_id
where f.name = l.name and f.nodes = 1
"""

_AMBIGUOUS_NODES = """
select n.handle
from aiq.nodes_api as n
where
    n.soft_key = %(folded)s
    or n.id in (
        select k.node_id from aiq.node_keys as k
        where k.key = %(folded)s and k.retired_at is null and not k.soft
    )
order by n.id
limit 10
"""

_UNRESOLVED = """
select n.line, n.name, e.src = n.name, coalesce(f.nodes, 0)
from pg_temp.loading_names as n
join pg_temp.loading_edges as e on e.line = n.line
left join pg_temp.loading_found as f on f.name = n.name
where n.node_id is null
order by n.line, e.src = n.name desc
limit 1
"""

_UNDECLARED = """
select g.line, g.relation, g.src_type, g.dst_type
from (
    select
        min(e.line) as line, e.relation, s.entity_type as src_type, d.entity_type as dst_type
    from pg_temp.loading_edges as e
    join pg_temp.loading_names as s on s.name = e.src
    join pg_temp.loading_names as d on d.name = e.dst
    group by e.relation, s.entity_type, d.entity_type
) as g
where
    g.src_type is not null and g.dst_type is not null
    and not exists (
        select from aiq.relations as r
        where
            r.src_type = g.src_type and r.relation = g.relation and r.dst_type = g.dst_type
    )
order by g.line
limit 1
"""

_LINKS = """
create temporary table loading_links on commit drop as
select
    e.line, s.node_id as src_id, d.node_id as dst_id, e.relation, e.weight, e.valid_from,
    e.valid_to, e.memory, e.org_id, e.visibility, e.owner_id
from pg_temp.loading_edges as e
join pg_temp.loading_names as s on s.name = e.src
join pg_temp.loading_names as d on d.name = e.dst
"""

_SAME_EDGE = """
a.src_id = b.src_id and a.relation = b.relation and a.dst_id = b.dst_id
and a.visibility = b.visibility and a.org_id is not distinct from b.org_id
and a.owner_id is not distinct from b.owner_id
"""

_PERIODS = """
create temporary table loading_periods on commit drop as
select
    src_id, dst_id, relation, org_id, visibility, owner_id, valid_from, valid_to,
    max(weight) as weight, min(memory) as memory, min(line) as line
from pg_temp.loading_links
where valid_to is not null
group by src_id, dst_id, relation, org_id, visibility, owner_id, valid_from, valid_to
"""

_OVERLAP_IN_FILE = """
select line, valid_from, valid_to, other_line, other_from, other_to
from (
    select
        line, valid_from, valid_to,
        lag(line) over same_edge as other_line,
        lag(valid_from) over same_edge as other_from,
        lag(valid_to) over same_edge as other_to
    from pg_temp.loading_periods
    window same_edge as (
        partition by src_id, dst_id, relation, org_id, visibility, owner_id
        order by valid_from, valid_to
    )
) as p
where other_to > valid_from
order by line
limit 1
"""

_OVERLAP_STORED = f"""
select a.line, a.valid_from, a.valid_to, null::bigint, b.valid_from, b.valid_to
from pg_temp.loading_periods as a
join aiq.edges as b on {_SAME_EDGE}
where
    b.valid_from < a.valid_to and (b.valid_to is null or b.valid_to > a.valid_from)
    and (a.valid_from, a.valid_to) is distinct from (b.valid_from, b.valid_to)
order by a.line
limit 1
"""

_RAISE_PERIODS = f"""
update aiq.edges as b
set weight = a.weight
from pg_temp.loading_periods as a
where
    {_SAME_EDGE} and b.valid_from = a.valid_from and b.valid_to = a.valid_to
    and a.weight > b.weight
"""

_ADD_PERIODS = f"""
insert into aiq.edges (
    src_id, dst_id, relation, weight, valid_from, valid_to, memory, provenance, org_id,
    visibility, owner_id
)
select
    a.src_id, a.dst_id, a.relation, a.weight, a.valid_from, a.valid_to, a.memory,
    jsonb_build_object('source', %(source)s::text), a.org_id, a.visibility, a.owner_id
from pg_temp.loading_periods as a
where not exists (
    select from aiq.edges as b
    where {_SAME_EDGE} and b.valid_from = a.valid_from and b.valid_to = a.valid_to
)
order by a.line
"""

# An edge that holds on: one row for all its lines. Where a closed period of the
# same edge ends later than the stated start, the edge begins again at that end.
_ADD_CURRENT = """
with wanted as (
    select
        src_id, dst_id, relation, org_id, visibility, owner_id,
        max(weight) as weight, min(valid_from) as valid_from, min(memory) as memory,
        min(line) as line
    from pg_temp.loading_links
    where valid_to is null
    group by src_id, dst_id, relation, org_id, visibility, owner_id
),
closed as (
    select
        e.src_id, e.dst_id, e.relation, e.org_id, e.visibility, e.owner_id,
        max(e.valid_to) as ended
    from aiq.edges as e
    where
        e.valid_to is not null
        and exists (select from wanted as w where w.src_id = e.src_id)
    group by e.src_id, e.dst_id, e.relation, e.org_id, e.visibility, e.owner_id
),
stored as (
    insert into aiq.edges as s (
        src_id, dst_id, relation, weight, valid_from, memory, provenance, org_id, visibility,
        owner_id
    )
    select
        a.src_id, a.dst_id, a.relation, a.weight, greatest(a.valid_from, b.ended), a.memory,
        jsonb_build_object('source', %(source)s::text), a.org_id, a.visibility, a.owner_id
    from wanted as a
    left join closed as b on @same@
    order by a.line
    on conflict (src_id, relation, dst_id, org_id, visibility, owner_id)
    where valid_to is null
    do update
    set
        weight = greatest(s.weight, excluded.weight),
        valid_from = least(s.valid_from, excluded.valid_from),
        memory = coalesce(s.memory, excluded.memory)
    where
        excluded.weight > s.weight or excluded.valid_from < s.valid_from
        or (s.memory is null and excluded.memory is not null)
    returning (xmax = 0) as new
)
select count(*) filter (where new), count(*) filter (where not new) from stored
""".replace("@same@", _SAME_EDGE)

# Every memory that states an edge may close it, as one that aiq.upsert_graph was told.
_ADD_ASSERTIONS = f"""
insert into aiq.edge_assertions as r (edge_id, memory, stated_from, weight)
select b.id, a.memory, a.stated_from, a.weight
from (
    select
        src_id, dst_id, relation, org_id, visibility, owner_id, memory, valid_to,
        case when valid_to is not null then valid_from end as begun,
        min(valid_from) as stated_from, max(weight) as weight
    from pg_temp.loading_links
    where memory is not null
    group by src_id, dst_id, relation, org_id, visibility, owner_id, memory, valid_to, begun
) as a
join aiq.edges as b on {_SAME_EDGE}
where
    case
        when a.valid_to is null then b.valid_to is null
        else b.valid_to = a.valid_to and b.valid_from = a.begun
    end
on conflict (edge_id, memory) do update
set
    stated_from = least(r.stated_from, excluded.stated_from),
    weight = greatest(r.weight, excluded.weight)
where r.stated_from > excluded.stated_from or r.weight < excluded.weight
"""


def merge_edges(
    cursor: Cursor[TupleRow], reader: Reader, vocabulary: Vocabulary, source: str
) -> tuple[int, int]:
    """Store the rows of the temporary table of edges.

    Parameters
    ----------
    cursor : psycopg.Cursor
        In the load's transaction, the nodes merged.
    reader : Reader
        The file, for messages.
    vocabulary : Vocabulary
        The declared relations, for messages.
    source : str
        Written into each new edge's provenance.

    Returns
    -------
    tuple of int
        How many edges are new, and how many have changed.

    Raises
    ------
    NotFoundInLine, AmbiguousInLine
        An end names no node (P0002), or several (21000).
    UnknownNameInLine
        A relation is not declared for the types of its ends (42704).
    InvalidLine
        A closed period overlaps another of the same edge (22023).
    """
    for table in ("names", "found", "links", "periods"):
        cursor.execute(f"drop table if exists pg_temp.loading_{table}")
    _resolve_ends(cursor, reader)
    if row := cursor.execute(_UNDECLARED).fetchone():
        vocabulary.refuse_ends(reader, row[0], row[1], (shown(row[2]), shown(row[3])))
    cursor.execute(_LINKS)
    cursor.execute("drop table pg_temp.loading_edges")
    cursor.execute("analyze pg_temp.loading_links")
    added, changed = _merge_periods(cursor, reader, source)
    counts = cursor.execute(_ADD_CURRENT, {"source": source}).fetchone()
    assert counts is not None
    cursor.execute(_ADD_ASSERTIONS)
    return added + counts[0], changed + counts[1]


def _resolve_ends(cursor: Cursor[TupleRow], reader: Reader) -> None:
    cursor.execute(_NAMES)
    cursor.execute("analyze pg_temp.loading_names")
    _spell(cursor)
    cursor.execute(_FOUND_BY_HANDLE)
    cursor.execute(_FOUND_BY_SOFT_HANDLE)
    cursor.execute(_FOUND_BY_KEY)
    cursor.execute(_TAKE_FOUND)
    row = cursor.execute(_UNRESOLVED).fetchone()
    if row is None:
        return
    line, name, is_source, nodes = row
    column = "src" if is_source else "dst"
    if nodes > 1:
        cursor.execute(_AMBIGUOUS_NODES, {"folded": fold_key(name)})
        handles = ", ".join(handle for (handle,) in cursor.fetchall())
        raise AmbiguousInLine(
            str(reader.path),
            line,
            f"{column} is {shown(name)}, which names {nodes} nodes: {handles}",
            "Write the handle of the one you mean.",
        )
    raise NotFoundInLine(
        str(reader.path),
        line,
        f"{column} is {shown(name)}, which names no node",
        "Write the ref of a node of this source, a handle, a soft node's kind/name,"
        " or a key that one node holds.",
    )


def _spell(cursor: Cursor[TupleRow]) -> None:
    """Fold the names that are no refs, a batch at a time, and take handles apart."""
    make_table(cursor, "loading_spellings", _SPELLING_COLUMNS)
    connection: Connection[TupleRow] = cursor.connection
    cursor.execute("select name, handle_prefix from aiq.entity_types")
    types: list[tuple[str, str]] = [(name, prefix) for name, prefix in cursor.fetchall()]
    with connection.cursor(name="loading_names_to_fold") as names:
        names.execute("select name from pg_temp.loading_names where node_id is null")
        while batch := names.fetchmany(_BATCH):
            with cursor.copy("copy pg_temp.loading_spellings from stdin") as copy:
                for (name,) in batch:
                    folded = fold_key(name)
                    copy.write_row((name, folded, *(parse_handle(folded, types) or (None, None))))
    cursor.execute("analyze pg_temp.loading_spellings")


def _merge_periods(cursor: Cursor[TupleRow], reader: Reader, source: str) -> tuple[int, int]:
    """Store the edges that state their end."""
    cursor.execute(_PERIODS)
    cursor.execute("analyze pg_temp.loading_periods")
    for overlap in (_OVERLAP_IN_FILE, _OVERLAP_STORED):
        if row := cursor.execute(overlap).fetchone():
            line, start, end, other_line, other_start, other_end = row
            other = f"line {other_line}'s" if other_line else "the stored one"
            until = f"to {utc(other_end)}" if other_end else "on"
            reader.refuse(
                line,
                f"the edge's period from {utc(start)} to {utc(end)} overlaps {other}"
                f" from {utc(other_start)} {until}",
                "The periods of one edge may touch, but not overlap.",
            )
    changed = cursor.execute(_RAISE_PERIODS).rowcount
    added = cursor.execute(_ADD_PERIODS, {"source": source}).rowcount
    return added, changed
