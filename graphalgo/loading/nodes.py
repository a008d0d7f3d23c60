"""From the temporary tables of nodes and keys into the graph, a set at a time.

A node of a file is the node that the same source loaded under the same ref; a
soft node is the one of its kind, name and scope, whoever made it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from psycopg import Cursor
from psycopg.rows import TupleRow

from graphalgo.loading.errors import NotFoundInLine, shown
from graphalgo.loading.reading import Reader

# The number of the handle of a typed node n, as the index on it is written.
HANDLE_NUMBER = "case when n.handle_number is null then n.id else n.handle_number end"

# Added to the copied columns once the rows are there: which node a row is, and
# whether that node was there before.
_PREPARE = """
alter table pg_temp.loading_nodes add node_id bigint, add there boolean not null default false
"""

_REPEATED_REF = """
select line, ref, previous
from (
    select line, ref, lag(line) over (partition by ref order by line) as previous
    from pg_temp.loading_nodes
) as l
where previous is not null
order by line
limit 1
"""

_REPEATED_SOFT = """
select line, claimed_kind || '/' || soft_name, previous
from (
    select
        line, claimed_kind, soft_name,
        lag(line) over (
            partition by claimed_kind, soft_name, org_id, visibility, owner_id order by line
        ) as previous
    from pg_temp.loading_nodes
    where entity_type is null
) as l
where previous is not null
order by line
limit 1
"""

_OTHER_TYPE = """
select l.line, l.ref, coalesce(n.entity_type, 'a soft node')
from pg_temp.loading_nodes as l
join aiq.nodes as n on n.source_table = %(source)s and n.source_pk = l.ref
where n.entity_type is distinct from l.entity_type
order by l.line
limit 1
"""

_REPEATED_NUMBER = """
select line, handle_number, entity_type, previous
from (
    select
        line, handle_number, entity_type,
        lag(line) over (partition by entity_type, handle_number order by line) as previous
    from pg_temp.loading_nodes
    where handle_number is not null
) as l
where previous is not null
order by line
limit 1
"""

_TAKEN_NUMBER = f"""
select l.line, l.handle_number, l.entity_type, n.source_table, n.source_pk
from pg_temp.loading_nodes as l
join aiq.nodes as n
    on n.entity_type = l.entity_type
    and {HANDLE_NUMBER} = l.handle_number
where
    l.handle_number is not null
    and (n.source_table, n.source_pk) is distinct from (%(source)s, l.ref)
order by l.line
limit 1
"""

_FIND_TYPED = """
update pg_temp.loading_nodes as l
set node_id = n.id, there = true
from aiq.nodes as n
where
    l.entity_type is not null
    and n.source_table = %(source)s and n.source_pk = l.ref and n.entity_type = l.entity_type
"""

# A ref whose soft node has another name now lets go of the node of the old name.
_LET_GO = """
update aiq.nodes as n
set source_table = null, source_pk = null
from pg_temp.loading_nodes as l
where
    l.entity_type is null and n.entity_type is null
    and n.source_table = %(source)s and n.source_pk = l.ref
    and (n.claimed_kind, n.soft_name, n.org_id, n.visibility, n.owner_id)
    is distinct from (l.claimed_kind, l.soft_name, l.org_id, l.visibility, l.owner_id)
"""

_FIND_SOFT = """
update pg_temp.loading_nodes as l
set node_id = n.id, there = true
from aiq.nodes as n
where
    l.entity_type is null and n.entity_type is null
    and n.claimed_kind = l.claimed_kind and n.soft_name = l.soft_name
    and n.visibility = l.visibility
    and n.org_id is not distinct from l.org_id and n.owner_id is not distinct from l.owner_id
"""

_ADOPT = """
update aiq.nodes as n
set source_table = %(source)s, source_pk = l.ref
from pg_temp.loading_nodes as l
where
    n.id = l.node_id and l.entity_type is null
    and (n.source_table is null or n.source_table = %(source)s)
    and (n.source_table, n.source_pk) is distinct from (%(source)s, l.ref)
"""

_NUMBER = """
update pg_temp.loading_nodes
set node_id = nextval(pg_get_serial_sequence('aiq.nodes', 'id'))
where node_id is null
"""

# A node without a handle number takes its id for one: not one that is taken.
_NUMBER_AGAIN = f"""
update pg_temp.loading_nodes as l
set node_id = nextval(pg_get_serial_sequence('aiq.nodes', 'id'))
where
    not l.there and l.entity_type is not null and l.handle_number is null
    and (
        exists (
            select from aiq.nodes as n
            where
                n.entity_type = l.entity_type
                and {HANDLE_NUMBER} = l.node_id
        )
        or l.node_id in (
            select o.handle_number from pg_temp.loading_nodes as o where o.handle_number is not null
        )
    )
"""

_INSERT = """
insert into aiq.nodes (
    id, entity_type, claimed_kind, soft_name, handle_number, summary, source_table, source_pk,
    org_id, visibility, owner_id
)
select
    node_id, entity_type, claimed_kind, soft_name, handle_number, summary, %(source)s, ref,
    org_id, visibility, owner_id
from pg_temp.loading_nodes
where not there
order by node_id
"""

_UPDATE = """
update aiq.nodes as n
set
    summary = l.summary, handle_number = l.handle_number, org_id = l.org_id,
    visibility = l.visibility, owner_id = l.owner_id, retired_at = null
from pg_temp.loading_nodes as l
where
    n.id = l.node_id and l.there
    and (n.source_table, n.source_pk) is not distinct from (%(source)s, l.ref)
    and (n.summary, n.handle_number, n.org_id, n.visibility, n.owner_id, n.retired_at)
    is distinct from (l.summary, l.handle_number, l.org_id, l.visibility, l.owner_id, null)
"""

# The node of another source: it is the same soft node, and its summary is theirs.
_RETURN = """
update aiq.nodes as n
set retired_at = null
from pg_temp.loading_nodes as l
where n.id = l.node_id and l.there and n.retired_at is not null
"""

_SOFT_KEYS = """
insert into aiq.node_keys (node_id, key, kind, is_name)
select node_id, soft_name, 'alias', true from pg_temp.loading_nodes where entity_type is null
on conflict (node_id, key) do nothing
"""

# What this source calls its nodes: those of the file, and those loaded before.
_REFS = """
create temporary table loading_refs on commit drop as
select ref, node_id, entity_type from pg_temp.loading_nodes
union all
select n.source_pk, n.id, n.entity_type
from aiq.nodes as n
where
    n.source_table = %(source)s and n.retired_at is null
    and not exists (select from pg_temp.loading_nodes as l where l.ref = n.source_pk)
"""

_KEY_WITHOUT_NODE = """
select k.line, k.ref
from pg_temp.loading_keys as k
where not exists (select from pg_temp.loading_refs as r where r.ref = k.ref)
order by k.line
limit 1
"""

_KEY_OF_SOFT = """
select k.line, k.ref
from pg_temp.loading_keys as k
join pg_temp.loading_refs as r on r.ref = k.ref
where r.entity_type is null
order by k.line
limit 1
"""

# Spellings of one key that fold to the same are one key, of the best kind.
_KEYS = """
with stored as (
    insert into aiq.node_keys as s (node_id, key, kind, is_name)
    select distinct on (r.node_id, k.key) r.node_id, k.key, k.kind, k.is_name
    from pg_temp.loading_keys as k
    join pg_temp.loading_refs as r on r.ref = k.ref
    order by
        r.node_id, k.key,
        case k.kind when 'canonical' then 0 when 'short' then 1 else 2 end, k.line
    on conflict (node_id, key) do update
    set kind = excluded.kind, is_name = excluded.is_name
    where (s.kind, s.is_name) is distinct from (excluded.kind, excluded.is_name)
    returning (xmax = 0) as new
)
select count(*) filter (where new), count(*) filter (where not new) from stored
"""


def merge_nodes(cursor: Cursor[TupleRow], reader: Reader | None, source: str) -> tuple[int, int]:
    """Store the rows of the temporary table of nodes.

    Parameters
    ----------
    cursor : psycopg.Cursor
        In the load's transaction.
    reader : Reader, optional
        The file, for messages; None where there was none and the table is empty.
    source : str
        What ``source_table`` is to hold.

    Returns
    -------
    tuple of int
        How many nodes are new, and how many have changed.
    """
    cursor.execute(_PREPARE)
    added = changed = 0
    if reader is not None:
        _check_nodes(cursor, reader, source)
        named = {"source": source}
        cursor.execute(_FIND_TYPED, named)
        cursor.execute(_LET_GO, named)
        cursor.execute(_FIND_SOFT)
        cursor.execute(_ADOPT, named)
        cursor.execute(_NUMBER)
        while cursor.execute(_NUMBER_AGAIN).rowcount:
            pass
        added = cursor.execute(_INSERT, named).rowcount
        changed = cursor.execute(_UPDATE, named).rowcount + cursor.execute(_RETURN).rowcount
        cursor.execute(_SOFT_KEYS)
        # Planned as for the table that it was before, what follows could take hours.
        cursor.execute("analyze aiq.nodes")
    cursor.execute("drop table if exists pg_temp.loading_refs")
    cursor.execute(_REFS, {"source": source})
    cursor.execute("analyze pg_temp.loading_refs")
    return added, changed


def merge_keys(cursor: Cursor[TupleRow], reader: Reader) -> tuple[int, int]:
    """Store the rows of the temporary table of keys; tell how many are new and how many changed."""
    if row := cursor.execute(_KEY_WITHOUT_NODE).fetchone():
        raise NotFoundInLine(
            str(reader.path),
            row[0],
            f"ref is {shown(row[1])}, but must be the ref of a node of this source",
            "Load the node in the same run, or give the source under which it was loaded.",
        )
    if row := cursor.execute(_KEY_OF_SOFT).fetchone():
        reader.refuse(
            row[0],
            f"ref is {shown(row[1])}, a soft node, but a soft node has no key beside its name",
            "Give the node an entity_type, or leave the key out.",
        )
    counts = cursor.execute(_KEYS).fetchone()
    assert counts is not None
    return counts[0], counts[1]


def _check_nodes(cursor: Cursor[TupleRow], reader: Reader, source: str) -> None:
    named = {"source": source}
    if row := cursor.execute(_REPEATED_REF).fetchone():
        reader.refuse(
            row[0],
            f"ref is {shown(row[1])}, but that is line {row[2]}'s ref already",
            "Give each node a ref of its own.",
        )
    if row := cursor.execute(_REPEATED_SOFT).fetchone():
        reader.refuse(
            row[0],
            f"the soft node {shown(row[1])} is line {row[2]}'s already",
            "Name each soft node of a scope once.",
        )
    if row := cursor.execute(_OTHER_TYPE, named).fetchone():
        reader.refuse(
            row[0],
            f"ref is {shown(row[1])}, but an earlier load of this source made it"
            f" {row[2] if row[2] == 'a soft node' else 'of type ' + shown(row[2])}",
            "A node stays what it is: give the new one another ref.",
        )
    if row := cursor.execute(_REPEATED_NUMBER).fetchone():
        reader.refuse(
            row[0],
            f"handle_number is {row[1]}, but that is line {row[3]}'s {row[2]} already",
            "Give each node of a type a number of its own, or leave the number empty.",
        )
    if row := cursor.execute(_TAKEN_NUMBER, named).fetchone():
        owner = f"{shown(row[4])} of {shown(row[3])}" if row[3] else "another node"
        reader.refuse(
            row[0],
            f"handle_number is {row[1]}, but that is the number of the {row[2]} {owner} already",
            "Give each node of a type a number of its own, or leave the number empty.",
        )


def utc(moment: datetime) -> str:
    """Write a moment in UTC, as messages show it."""
    return moment.astimezone(UTC).isoformat()
