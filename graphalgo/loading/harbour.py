"""The harbour sample, loaded into a database."""

from __future__ import annotations

from typing import Any

from psycopg import Connection, Cursor
from psycopg.types.json import Jsonb

from graphalgo.loading.connecting import connected, require_schema
from graphalgo.samples import harbour_json
from graphalgo.samples.harbour import SOURCE_PREFIX, graph_from_harbour

_LOADED = """
select exists (
    select from aiq.nodes where source_table is not null and starts_with(source_table, %s)
)
"""

_TYPE = """
insert into aiq.entity_types (name, handle_prefix, description, indexed)
values (%(name)s, %(handle_prefix)s, %(description)s, %(indexed)s)
on conflict (name) do nothing
"""

_RELATION = """
insert into aiq.relations (src_type, relation, dst_type, inverse_label)
values (%(src_type)s, %(relation)s, %(dst_type)s, %(inverse_label)s)
on conflict do nothing
"""

_FIND_NODE = """
select id from aiq.nodes
where
    source_table = %(source_table)s and source_pk = %(source_pk)s
    or (
        entity_type is null and claimed_kind = %(claimed_kind)s and soft_name = %(soft_name)s
        and visibility = %(visibility)s
        and org_id is not distinct from %(org_id)s::uuid
        and owner_id is not distinct from %(owner_id)s::uuid
    )
"""

_COLUMNS = (
    "entity_type", "claimed_kind", "soft_name", "handle_number", "summary", "source_table",
    "source_pk", "org_id", "visibility", "owner_id",
)  # fmt: skip

_ADD_NODE = f"""
insert into aiq.nodes ({", ".join(_COLUMNS)})
values ({", ".join(f"%({column})s" for column in _COLUMNS)})
returning id
"""

# Into an empty graph the ids go as the sample counts them, so that answers can
# be held against those of the sample in memory, id by id.
_ADD_NODE_AS_NUMBERED = _ADD_NODE.replace("nodes (", "nodes (id, ", 1).replace(
    "values (", "values (%(id)s, ", 1
)

_PLACE_NODE = """
update aiq.nodes
set
    summary = %(summary)s, org_id = %(org_id)s, visibility = %(visibility)s,
    owner_id = %(owner_id)s, retired_at = null
where id = %(stored_id)s
"""

_KEY = """
insert into aiq.node_keys (node_id, key, kind, is_name)
values (%(node_id)s, %(key)s, %(kind)s, %(is_name)s)
on conflict (node_id, key) do update set kind = excluded.kind, is_name = excluded.is_name
"""

_PLACE_EDGE = """
update aiq.edges
set
    weight = %(weight)s, org_id = %(org_id)s, visibility = %(visibility)s,
    owner_id = %(owner_id)s
where
    src_id = %(src_id)s and relation = %(relation)s and dst_id = %(dst_id)s
    and valid_to is null and provenance = %(provenance)s
"""

_ADD_EDGE = """
insert into aiq.edges (
    src_id, dst_id, relation, weight, memory, provenance, org_id, visibility, owner_id
)
values (
    %(src_id)s, %(dst_id)s, %(relation)s, %(weight)s, %(memory)s, %(provenance)s, %(org_id)s,
    %(visibility)s, %(owner_id)s
)
"""


def harbour_is_loaded(connection: Connection[Any] | str) -> bool:
    """Tell whether any of the harbour sample's nodes are in the database."""
    with connected(connection) as opened:
        require_schema(opened)
        row = opened.execute(_LOADED, (SOURCE_PREFIX,)).fetchone()
        return bool(row and row[0])


def load_harbour(connection: Connection[Any] | str, *, scoped: bool = False) -> None:
    """Load the harbour sample; loading it again puts it back as it was.

    Parameters
    ----------
    connection : psycopg.Connection or str
        A connection or a DSN, of a user who may write the tables of ``aiq``.
    scoped : bool
        True gives each row the organisation that the sample says it is of; false
        shares every row with everyone. Loading with the other value changes the
        rows that are there.

    Raises
    ------
    MissingSetting
        graphalgo is not installed in the database (55000).

    Notes
    -----
    Into an empty graph the nodes get the ids that
    :func:`graphalgo.samples.harbour.graph_from_harbour` gives them.
    """
    graph = graph_from_harbour(harbour_json(), scoped=scoped)
    with connected(connection) as opened:
        require_schema(opened)
        with opened.transaction(), opened.cursor() as cursor:
            for entity_type in graph["entity_types"]:
                cursor.execute(_TYPE, entity_type)
            for relation in graph["relations"]:
                cursor.execute(_RELATION, relation)
            ids = _store_nodes(cursor, graph["nodes"])
            for key in graph["keys"]:
                cursor.execute(_KEY, key | {"node_id": ids[key["node_id"]]})
            _store_edges(cursor, graph["edges"], ids)


def _store_nodes(cursor: Cursor[Any], nodes: list[dict[str, Any]]) -> dict[int, int]:
    """Store the nodes; gives the id of each in the database by its id in the sample."""
    as_numbered = _is_empty(cursor)
    statement = _ADD_NODE_AS_NUMBERED if as_numbered else _ADD_NODE
    ids: dict[int, int] = {}
    for node in nodes:
        found = None if as_numbered else cursor.execute(_FIND_NODE, node).fetchone()
        if found is None:
            found = cursor.execute(statement, node).fetchone()
            assert found is not None
        else:
            cursor.execute(_PLACE_NODE, node | {"stored_id": found[0]})
        ids[node["id"]] = found[0]
    if as_numbered:
        cursor.execute(
            "select setval(pg_get_serial_sequence('aiq.nodes', 'id'), %s)", (max(ids.values()),)
        )
    return ids


def _store_edges(cursor: Cursor[Any], edges: list[dict[str, Any]], ids: dict[int, int]) -> None:
    for edge in edges:
        stored = edge | {
            "src_id": ids[edge["src_id"]],
            "dst_id": ids[edge["dst_id"]],
            "provenance": Jsonb(edge["provenance"]),
        }
        if not cursor.execute(_PLACE_EDGE, stored).rowcount:
            cursor.execute(_ADD_EDGE, stored)


def _is_empty(cursor: Cursor[Any]) -> bool:
    row = cursor.execute("select not exists (select from aiq.nodes)").fetchone()
    return bool(row and row[0])
