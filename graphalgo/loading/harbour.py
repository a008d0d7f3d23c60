"""The harbour sample, loaded into a database as its owners would keep it there.

Four tables of schema `harbour`, registered as nodes, one registered as edges and
one as a text source, whose notes have their vectors; what registries, trackers and
notes say beside them is written as facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from psycopg import Connection, Cursor
from psycopg.types.json import Jsonb

from graphalgo.loading.connecting import connected, require_schema
from graphalgo.samples import harbour_json
from graphalgo.samples.harbour import MODEL_DESCRIPTION, SOURCE_PREFIX, TABLES

Row = dict[str, Any]

_LOADED = """
select exists (
    select from aiq.nodes where source_table is not null and starts_with(source_table, %s)
)
"""

_ORG = """
insert into rbac.orgs (id, slug, name) values (%(id)s, %(slug)s, %(name)s)
on conflict (id) do update set slug = excluded.slug, name = excluded.name
"""
_USER = "insert into rbac.users (id) values (%(user)s) on conflict (id) do nothing"
_MEMBER = """
insert into rbac.org_members (org_id, user_id) values (%(org)s, %(user)s) on conflict do nothing
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

_MAKE_TABLES = """
create schema if not exists harbour;
grant usage on schema harbour to aiq_engine;
create table if not exists harbour.operators (
    id int primary key, name text not null, code text not null, short text, org uuid
);
create table if not exists harbour.vessels (
    id int primary key, name text not null, imo text not null, status text not null, org uuid
);
create table if not exists harbour.ports (
    id int primary key, name text not null, country text not null, org uuid
);
create table if not exists harbour.registrations (
    id int primary key, entry text not null, imo text not null, org uuid
);
create table if not exists harbour.competitors (
    operator_id int references harbour.operators (id),
    competitor_id int references harbour.operators (id),
    weight real not null, source text, org uuid,
    primary key (operator_id, competitor_id)
);
create table if not exists harbour.notes (
    id int primary key, title text, content text not null, org uuid
);
"""

# What differs from what is there is written, and nothing else.
_PUT_ROWS = {
    "operators": """
        insert into harbour.operators as t (id, name, code, short, org)
        values (%(id)s, %(name)s, %(code)s, %(short)s, %(org)s)
        on conflict (id) do update
        set name = excluded.name, code = excluded.code, short = excluded.short, org = excluded.org
        where t is distinct from excluded
    """,
    "vessels": """
        insert into harbour.vessels as t (id, name, imo, status, org)
        values (%(id)s, %(name)s, %(imo)s, %(status)s, %(org)s)
        on conflict (id) do update
        set name = excluded.name, imo = excluded.imo, status = excluded.status, org = excluded.org
        where t is distinct from excluded
    """,
    "ports": """
        insert into harbour.ports as t (id, name, country, org)
        values (%(id)s, %(name)s, %(country)s, %(org)s)
        on conflict (id) do update
        set name = excluded.name, country = excluded.country, org = excluded.org
        where t is distinct from excluded
    """,
    "registrations": """
        insert into harbour.registrations as t (id, entry, imo, org)
        values (%(id)s, %(entry)s, %(imo)s, %(org)s)
        on conflict (id) do update
        set entry = excluded.entry, imo = excluded.imo, org = excluded.org
        where t is distinct from excluded
    """,
}
_PUT_COMPETITOR = """
insert into harbour.competitors as t (operator_id, competitor_id, weight, source, org)
select a.id, b.id, %(weight)s, %(source)s, %(org)s::uuid
from harbour.operators as a, harbour.operators as b
where a.code = %(src)s and b.code = %(dst)s
on conflict (operator_id, competitor_id) do update
set weight = excluded.weight, source = excluded.source, org = excluded.org
where t is distinct from excluded
"""

# Codes are exact: no name is like another by its number.
_REGISTER = {
    "operators": """
        select aiq.register_entity_table(
            'operator', 'harbour.operators', p_key_expr => 'code', p_summary_expr => 'name',
            p_org_expr => 'org', p_short_exprs => array['short'], p_number_expr => 'id'
        )
    """,
    "vessels": """
        select aiq.register_entity_table(
            'vessel', 'harbour.vessels', p_key_expr => 'name',
            p_summary_expr => $$name || ' (IMO ' || imo || ')'$$, p_org_expr => 'org',
            p_include_where => $$status <> 'scrapped'$$, p_alias_exprs => array['imo'],
            p_code_exprs => array['imo'], p_number_expr => 'id'
        )
    """,
    "ports": """
        select aiq.register_entity_table(
            'port', 'harbour.ports', p_key_expr => 'name',
            p_summary_expr => $$name || ', ' || country$$, p_org_expr => 'org',
            p_number_expr => 'id'
        )
    """,
    "registrations": """
        select aiq.register_entity_table(
            'registration', 'harbour.registrations', p_key_expr => 'entry',
            p_summary_expr => $$entry || ' (IMO ' || imo || ')'$$, p_org_expr => 'org',
            p_alias_exprs => array['imo'], p_code_exprs => array['entry', 'imo'],
            p_number_expr => 'id'
        )
    """,
}
_REGISTER_COMPETITORS = """
select aiq.register_link_table(
    'harbour.competitors', 'competes_with', 'operator', 'operator',
    p_src_expr => 'operator_id', p_dst_expr => 'competitor_id', p_weight_expr => 'weight',
    p_org_expr => 'org'
)
"""

_PUT_NOTE = """
insert into harbour.notes as t (id, title, content, org)
values (%(id)s, %(title)s, %(content)s, %(org)s)
on conflict (id) do update
set title = excluded.title, content = excluded.content, org = excluded.org
where t is distinct from excluded
"""
_REGISTER_NOTES = """
select aiq.register_text_source(
    'notes', 'harbour.notes', 'id', 'content', p_title_column => 'title', p_org_expr => 'org',
    p_description => 'what inspectors and the two lines have noted'
)
"""
_REGISTER_MODEL = """
select aiq.register_embedding_model(
    %(name)s, %(dim)s, %(distance_op)s, p_is_default => %(is_default)s,
    p_description => %(description)s
)
"""
_PUT_VECTORS = "select aiq.put_embeddings('notes', %s, %s::text[], %s::real[])"

# Facts that an earlier load has written for somebody else become these callers'.
_PLACE_FACTS = """
update aiq.edges as e
set org_id = w.org_id
from aiq.nodes as s, aiq.nodes as d,
    jsonb_to_recordset(%(facts)s) as w (src text, dst text, relation text, org_id uuid)
where
    e.memory = %(memory)s and e.valid_to is null and e.relation = w.relation
    and s.id = e.src_id and d.id = e.dst_id
    and exists (select from aiq.node_keys as k where k.node_id = s.id and k.key = lower(w.src))
    and exists (select from aiq.node_keys as k where k.node_id = d.id and k.key = lower(w.dst))
    and e.org_id is distinct from w.org_id
"""
_UPSERT = "select aiq.upsert_graph(%s, %s)"


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
        A connection or a DSN, of a superuser.
    scoped : bool
        True gives each row the organisation that the sample says it is of; false
        shares every row with everyone. Loading with the other value changes the
        rows that are there. The organisations and their members are there either
        way.

    Raises
    ------
    MissingSetting
        graphalgo is not installed in the database (55000).

    Notes
    -----
    The rows are in the tables of schema `harbour`: what is written there from now
    on is in the graph at once. Into an empty graph the nodes get the ids that
    :func:`graphalgo.samples.harbour.graph_from_harbour` gives them.
    """
    sample = harbour_json()
    with connected(connection) as opened:
        require_schema(opened)
        with opened.transaction(), opened.cursor() as cursor:
            _put_vocabulary(cursor, sample)
            _put_tables(cursor, sample, scoped)
            for soft in sample["soft_nodes"]:
                node = {"k": soft["k"], "n": soft["n"], "summary": soft["n"]}
                cursor.execute(_UPSERT, (Jsonb({"nodes": [node]}), Jsonb(soft["context"])))
            _put_facts(cursor, sample, scoped)
            _put_notes(cursor, sample, scoped)


def _put_vocabulary(cursor: Cursor[Any], sample: Row) -> None:
    """Put organisations, members, entity types and relations."""
    for statement, rows in (
        (_ORG, sample["orgs"]),
        (_USER, sample["members"]),
        (_MEMBER, sample["members"]),
        (_TYPE, sample["entity_types"]),
        (_RELATION, sample["relations"]),
    ):
        for row in rows:
            cursor.execute(statement, row)


def _put_tables(cursor: Cursor[Any], sample: Row, scoped: bool) -> None:
    """Put the rows of the source tables and register these, in the order of their ids."""
    cursor.execute(_MAKE_TABLES)
    for table, _ in TABLES:
        for row in sample["tables"][table]:
            cursor.execute(_PUT_ROWS[table], row | _org(row, scoped))
        cursor.execute(_REGISTER[table])
    for edge in sample["edges"]:
        if edge["relation"] == "competes_with":
            ends = {end: edge[end].partition(":")[2] for end in ("src", "dst")}
            cursor.execute(_PUT_COMPETITOR, edge | ends | _org(edge, scoped))
    cursor.execute(_REGISTER_COMPETITORS)


def _put_facts(cursor: Cursor[Any], sample: Row, scoped: bool) -> None:
    """Put the edges that are in no table: what a source says, for one organisation."""
    for (source, org), edges in _facts(sample, scoped).items():
        names: list[str] = []
        for edge in edges:
            names += [end for end in (edge["src"], edge["dst"]) if end not in names]
        memory = f"harbour {source}"
        placed = [
            {
                "src": edge["src"].partition(":")[2],
                "dst": edge["dst"].partition(":")[2],
                "relation": edge["relation"],
                "org_id": org,
            }
            for edge in edges
        ]
        cursor.execute(_PLACE_FACTS, {"facts": Jsonb(placed), "memory": memory})
        graph = {
            "nodes": list(_named(names)),
            "edges": [
                {
                    "s": names.index(edge["src"]),
                    "t": names.index(edge["dst"]),
                    "r": edge["relation"],
                    "w": edge["weight"],
                }
                for edge in edges
            ],
        }
        context = {"agent": source, "memory": memory} | ({} if org is None else {"org": org})
        cursor.execute(_UPSERT, (Jsonb(graph), Jsonb(context)))


def _put_notes(cursor: Cursor[Any], sample: Row, scoped: bool) -> None:
    """Put the notes, register them as a text source, and write their vectors."""
    notes = sample["chunks"]
    for note in notes:
        cursor.execute(_PUT_NOTE, note | _org(note, scoped))
    cursor.execute(_REGISTER_NOTES)
    model = sample["embedding_model"]
    cursor.execute(_REGISTER_MODEL, model | {"description": MODEL_DESCRIPTION})
    ids = [str(note["id"]) for note in notes]
    vectors = [[float(number) for number in note["embedding"]] for note in notes]
    cursor.execute(_PUT_VECTORS, (model["name"], ids, vectors))


def _facts(sample: Row, scoped: bool) -> dict[tuple[str, str | None], list[Row]]:
    grouped: dict[tuple[str, str | None], list[Row]] = {}
    for edge in sample["edges"]:
        if edge["relation"] != "competes_with":
            group = (edge["source"], _org(edge, scoped)["org"])
            grouped.setdefault(group, []).append(edge)
    return grouped


def _named(names: list[str]) -> Iterator[Row]:
    """Give the nodes of a graph for ends written `type:name`."""
    for name in names:
        kind, _, key = name.partition(":")
        yield {"k": kind, "n": key}


def _org(row: Row, scoped: bool) -> Row:
    return {"org": row.get("org") if scoped else None}
