"""The SQL that fetches nodes, keys and links, shared by every store on PostgreSQL.

Parameters are written `$1`, `$2`. Only constants of this module are composed
into a text; whatever a caller writes is a parameter. The statements read views
and call functions that callers may use, so that the server applies their own
predicate before anything is counted, ordered or cut.

Statements that fetch many links answer one row of arrays, which reaches Python
in about half the time of the same links as rows. Reals are handed over as
doubles: their text form would round.
"""

from __future__ import annotations

ENTITY_TYPES = "select name, handle_prefix from aiq.entity_types_api order by name"
RELATION_NAMES = "select distinct relation from aiq.relations_api order by relation"

# An entity type of null asks for a soft node.
NODES_BY_HANDLE = "select node_id as id from aiq.nodes_by_handle($1, $2, $3)"
NODES_BY_KEY = """
select u.node_id as id
from (
    select k.node_id from aiq.nodes_by_key(array[$1], '{canonical,short,alias}', $2) as k
    union
    select s.node_id from aiq.nodes_by_soft_name(array[$1], false, $2) as s
) as u
order by u.node_id limit $2
"""
NEAR_NAMES = """
select shown as name
from (
    select coalesce(n.soft_key, s.key) as shown, max(s.similarity) as similarity
    from aiq.similar_keys(array[$1], $2) as s
    join aiq.nodes_api as n on n.id = s.node_id
    group by 1
) as near
order by similarity desc, shown limit $3
"""
EXACT_KEYS = "select number, node_id, key, kind from aiq.nodes_by_key($1, $2, $3)"
# The same, with what is shown of each node.
EXACT_KEYS_SHOWN = """
select k.number, k.node_id, k.key, k.kind, n.handle, n.entity_type, n.summary
from aiq.nodes_by_key($1, $2, $3) as k
cross join lateral (
    select m.handle, m.entity_type, m.summary
    from aiq.nodes_ever as m where m.id = k.node_id limit 1
) as n
order by k.number, k.node_id
"""
# The same for one key, on the tables themselves: for whoever runs as their owner, whom
# their policies bind. Each view asks once more who the caller is, and to ask takes
# longer than to find the key. The candidate function asks first, whatever there is, so
# that a key that others hold is not told by one question more. `$2` says whether
# canonical keys count, or the others. The rows are still to be put in order. aiq.query
# asks by a statement like it for the commonest lookups, before there is any Python.
EXACT_KEY_SHOWN = """
select k.node_id, k.key, k.kind, n.handle, n.entity_type, n.summary
from aiq.one_key_places($1, $2, $3) as c
cross join lateral (
    select h.node_id, h.key, h.kind
    from aiq.node_keys as h
    where h.ctid = c.place and h.node_id = c.node_id and h.key = $1 limit 1
) as k
cross join lateral (
    select
        t.handle_prefix || '-'
        || case when m.handle_number is null then m.id else m.handle_number end::text as handle,
        m.entity_type, m.summary
    from aiq.nodes as m
    join aiq.entity_types as t on t.name = m.entity_type
    where m.id = k.node_id limit 1
) as n
"""
# What a search among vectors begins with, on the tables for the same reason; and what
# the text of the statement that searches an index is made of.
OWN_VECTOR_SPACE = """
select
    m.name, m.dim, m.distance, m.is_default, m.id as model_id,
    x.namespace is not null as pgvector, x.namespace::bigint as namespace,
    x.namespace::regnamespace::text as vector_schema,
    to_regclass('aiq.chunk_vectors_model_' || m.id) is not null as indexed,
    current_setting('aiq.vector_search', true) as setting,
    case
        -- The search itself will tell.
        when current_setting('aiq.vector_search', true) = 'approximate'
            and to_regclass('aiq.chunk_vectors_model_' || m.id) is not null
            and x.namespace is not null
        then null
        else coalesce((
            select true from aiq.chunk_vectors as v
            where v.model_id = m.id and v.source_id = s.id limit 1
        ), false)
    end as has_vectors
from aiq.text_sources as s
cross join aiq.embedding_models as m
cross join (
    -- What aiq.vector_schema() answers: to call it takes as long as all else here.
    select (
        select e.extnamespace
        from pg_extension as e
        where
            e.extname = 'vector'
            and has_schema_privilege('aiq_owner', e.extnamespace, 'usage')
            and has_schema_privilege('aiq_engine', e.extnamespace, 'usage')
    ) as namespace
    offset 0
) as x
where
    s.name = $1 and (m.name = $2 or ($2 is null and m.is_default))
    and (select rbac.caller_audiences()) is not null
"""
SOFT_NAMES = "select number, node_id, key from aiq.nodes_by_soft_name($1, true, $2)"
FUZZY_KEYS = """
select r.name_number as number, r.node_id, r.key, r.similarity::float8 as similarity
from (
    select
        b.*,
        row_number() over (
            partition by b.name_number order by b.similarity desc, b.key, b.node_id
        ) as place
    from (
        select distinct on (s.name_number, s.node_id)
            s.name_number, s.node_id, s.key, s.similarity
        from aiq.similar_keys($1, $2) as s
        where not s.soft
        order by s.name_number, s.node_id, s.similarity desc, s.key
    ) as b
) as r
where r.place <= $3
order by r.name_number, r.place
"""
# The same for soft nodes too.
BEST_NAMES = FUZZY_KEYS.replace("        where not s.soft\n", "")
ALL_NAMES = """
select s.name_number as number, s.node_id, s.key, s.similarity::float8 as similarity
from aiq.similar_keys($1, $2) as s
"""
DESCRIBE = """
select id, handle, key, entity_type, summary from aiq.nodes_ever where id = any ($1)
"""
OF_TYPE = "select id from aiq.nodes_ever where id = any ($1) and entity_type = $2"
VISIBLE = """
select id from aiq.nodes_ever
where id = any ($1) and (retired_at is null or retired_at > $2)
"""

# Whether any edge has an end that it has not reached yet. Almost never: the
# statements for the present then leave the ending edges out.
ANY_ENDING = "select exists (select from aiq.edges_current where ends_at > now()) as found"


def edge_links(*, relation: bool, by_relation: bool, ending: bool, past: bool) -> str:
    """Return the statement for the strongest edges of each frontier node.

    Parameters
    ----------
    relation : bool
        Also give each link's relation.
    by_relation : bool
        Only edges of the relations in `$4`.
    ending : bool
        Also look among the edges with an end that lies ahead.
    past : bool
        Edges that held at the moment `$5` instead of now; implies `ending`.

    Returns
    -------
    str
        Parameters: `$1` the frontier, `$2` the most links a node, `$3` the most
        links in all (what lies past it is cut off), and `$4`, `$5` where asked.
    """
    edges = _strongest(by_relation=by_relation, ending=ending, past=past)
    columns = "f.id as source, l.neighbour, l.weight::float8 as weight, f.number"
    relations = ""
    if relation:
        columns += ", l.relation"
        relations = ",\n    array_agg(relation) as relations"
    return f"""
select
    array_agg(source) as sources,
    array_agg(neighbour) as neighbours,
    array_agg(weight) as weights{relations}
from (
    select {columns}
    from unnest($1) with ordinality as f (id, number)
    cross join lateral ({edges}) as l
    order by f.number
    limit $3
) as links
"""


def over_cap(*, by_relation: bool, ending: bool, past: bool) -> str:
    """Return the statement for the nodes of `$1` with more than `$2` edges.

    The other parameters are those of :func:`edge_links`, without `$3`.
    """
    relation = ANY_RELATION if by_relation else ""
    parts = "\n        union all".join(
        f"""
        select from {part}"""
        for part, _, _ in _parts(ending=ending, past=past, relation=relation)
    )
    return f"""
select f.id
from unnest($1) as f (id)
where exists (
    select from ({parts}
    ) as u offset $2
)
"""


def edge_details(*, by_relation: bool, past: bool) -> str:
    """Return the statement for relation and direction of hops.

    Parameters: `$1` the nodes they come from, `$2` the nodes they go to, `$3` the
    weights, and as in :func:`edge_links` `$4` the relations and `$5` the moment.
    """
    view, when = _source(past)
    if by_relation:
        when += ANY_RELATION
    # Each part says which partial index can serve it; what has an end is rare.
    union = "\n    union all".join(
        f"""
    (
        select e.relation, {direction} as direction, e.id
        from {view} as e
        where e.{here} = h.source and e.{there} = h.target and e.weight = h.weight::real
        and {end}{when}
        order by e.relation, e.id limit 1
    )"""
        for direction, (here, there) in enumerate((("src_id", "dst_id"), ("dst_id", "src_id")))
        for end in ("e.ends_at is null", "e.ends_at is not null")
    )
    return f"""
select d.relation, case d.direction when 0 then 'out' else 'in' end as direction
from unnest($1, $2, $3) with ordinality as h (source, target, weight, number)
cross join lateral (
    select u.relation, u.direction from ({union}
    ) as u
    order by u.relation, u.direction, u.id limit 1
) as d
order by h.number
"""


def _source(past: bool) -> tuple[str, str]:
    """Return the view to read edges from, and what says that they hold."""
    if past:
        held = " and e.valid_from <= $5 and (e.ends_at is null or e.ends_at > $5)"
        return "aiq.edge_periods", held
    return "aiq.edges_current", ""


ANY_RELATION = " and e.relation = any ($4)"
ONE_RELATION = " and e.relation = r.relation"


def _parts(*, ending: bool, past: bool, relation: str = "") -> list[tuple[str, str, int]]:
    """Return the disjoint parts that make up the edges of the node f.id.

    For each: what to read and on what condition, the column of the other end, and
    the direction. Each part has an index that gives it in the wanted order: out
    and in, open-ended and (where asked) with an end that lies ahead.
    """
    view, when = _source(past)
    ends = ["e.ends_at is null"]
    if ending or past:
        ends.append("e.ends_at > $5" if past else "e.ends_at > now()")
    # A self-loop is one link: its way in is left out.
    ways = (
        ("src_id", "dst_id", ""),
        ("dst_id", "src_id", " and e.src_id <> e.dst_id"),
    )
    return [
        (f"{view} as e where e.{here} = f.id{relation} and {end}{when}{loops}", there, direction)
        for direction, (here, there, loops) in enumerate(ways)
        for end in ends
    ]


def _strongest(*, by_relation: bool, ending: bool, past: bool) -> str:
    """Return a subquery for the `$2` strongest edges of the node f.id.

    Each part comes off its index in order, so that a hub costs what the limit
    costs. With relations asked for, so does each relation's share of a part.
    """
    strongest = []
    for part, there, direction in _parts(
        ending=ending, past=past, relation=ONE_RELATION if by_relation else ""
    ):
        relation = "" if by_relation else " e.relation,"
        select = f"""
            select e.{there} as neighbour, e.weight, e.relation, {direction} as direction, e.id
            from {part}
            order by e.weight desc, e.{there},{relation} e.id limit $2"""
        if by_relation:
            select = f"""
            select o.* from unnest($4) as r (relation)
            cross join lateral ({select}
            ) as o"""
        strongest.append(f"""
        ({select}
        )""")
    union = "\n        union all".join(strongest)
    return f"""
        select u.neighbour, u.weight, u.relation from ({union}
        ) as u
        order by u.weight desc, u.neighbour, u.relation, u.direction, u.id limit $2
    """


# The holders of each different key are counted, and its first few fetched, once
# for the whole frontier. A neighbour within the limit stands within the first
# `$2` + 1 holders of the key that links it.
SHARED_KEY_LINKS = """
with held as materialized (
    select f.id, f.number, k.key
    from unnest($1) with ordinality as f (id, number)
    join aiq.node_keys_api as k on k.node_id = f.id
),
shared as materialized (
    select d.key, c.holders, h.nodes
    from (select distinct key from held) as d
    cross join lateral (
        select count(*) as holders from aiq.node_keys_api as a where a.key = d.key
    ) as c
    cross join lateral (
        select array(
            select b.node_id from aiq.node_keys_api as b
            where b.key = d.key order by b.node_id limit $2 + 1
        ) as nodes
    ) as h
    where c.holders > 1
),
best as (
    select distinct on (g.number, n.id) g.number, g.id as source, n.id as neighbour, s.holders
    from held as g
    join shared as s on s.key = g.key
    cross join lateral unnest(s.nodes) as n (id)
    where n.id <> g.id
    order by g.number, n.id, s.holders, s.key
),
placed as (
    select b.*, row_number() over (partition by b.number order by b.holders, b.neighbour) as place
    from best as b
)
select
    array_agg(source) as sources,
    array_agg(neighbour) as neighbours,
    array_agg(weight) as weights
from (
    select
        p.source, p.neighbour,
        (1::float8 / (p.holders - 1))::real::float8 as weight
    from placed as p
    where p.place <= $2
    order by p.number, p.place
    limit $3
) as links
"""
SHARED_KEY_DETAILS = """
select k.key
from unnest($1, $2) with ordinality as p (source, target, number)
cross join lateral (
    select a.key
    from aiq.node_keys_api as a
    join aiq.node_keys_api as b on b.key = a.key and b.node_id = p.target
    cross join lateral (
        select count(*) as holders from aiq.node_keys_api as c where c.key = a.key
    ) as h
    where a.node_id = p.source
    order by h.holders, a.key limit 1
) as k
order by p.number
"""

# Each different name of the frontier is compared once.
SIMILAR_LINKS = """
with held as materialized (
    select f.id, f.number, k.key
    from unnest($1) with ordinality as f (id, number)
    join aiq.node_keys_api as k on k.node_id = f.id and k.is_name
),
names as materialized (
    select key, row_number() over (order by key) as name_number
    from (select distinct key from held) as d
),
alike as materialized (
    select n.key as name, s.node_id, s.key, s.similarity
    from aiq.similar_keys(array(select key from names order by name_number), $2) as s
    join names as n using (name_number)
    where s.key <> n.key
),
best as (
    select g.number, g.id as source, a.node_id as neighbour, max(a.similarity) as similarity
    from held as g
    join alike as a on a.name = g.key
    where
        a.node_id <> g.id
        and (
            select true from aiq.distinct_nodes_api as d
            where d.node_a = least(g.id, a.node_id) and d.node_b = greatest(g.id, a.node_id)
        ) is null
    group by g.number, g.id, a.node_id
),
placed as (
    select
        b.*,
        row_number() over (partition by b.number order by b.similarity desc, b.neighbour) as place
    from best as b
)
select
    array_agg(source) as sources,
    array_agg(neighbour) as neighbours,
    array_agg(weight) as weights
from (
    select p.source, p.neighbour, p.similarity::float8 as weight
    from placed as p
    where p.place <= $3
    order by p.number, p.place
    limit $4
) as links
"""
SIMILAR_DETAILS = """
select k.source_name, k.target_name
from unnest($1, $2) with ordinality as p (source, target, number)
cross join lateral (
    select a.key as source_name, b.key as target_name
    from aiq.node_keys_api as a
    join aiq.node_keys_api as b on b.node_id = p.target and b.is_name and b.key <> a.key
    where a.node_id = p.source and a.is_name
    order by aiq.name_similarity(a.key, b.key) desc, b.key, a.key limit 1
) as k
order by p.number
"""

# Which of the pairs, the lower id first, are known not to be the same.
DISTINCT_PAIRS = """
select p.number
from unnest($1, $2) with ordinality as p (node_a, node_b, number)
where (
    select true from aiq.distinct_nodes_api as d
    where d.node_a = p.node_a and d.node_b = p.node_b
)
"""

JUDGE_SETTING = "select current_setting('percolate.link_judge', true) as judge"
# The functions of that name and argument, what each returns, and whether the
# caller may execute it.
FIND_JUDGE = """
select
    n.nspname as schema, p.proname as name, p.proretset as returns_set,
    case
        when p.proallargtypes is not null then (
            select array_agg(t::bigint order by i)
            from unnest(p.proallargtypes, p.proargmodes) with ordinality as a (t, m, i)
            where m in ('t', 'o', 'b')
        )
        else (
            select array_agg(c.atttypid::bigint order by c.attnum)
            from pg_catalog.pg_type as y
            join pg_catalog.pg_attribute as c
                on c.attrelid = y.typrelid and c.attnum > 0 and not c.attisdropped
            where y.oid = p.prorettype
        )
    end as columns,
    has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute') as allowed
from pg_catalog.pg_proc as p
join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
where
    n.nspname = $1 and p.proname = $2 and p.prokind = 'f'
    and p.pronargs = 1 and p.proargtypes[0] = 'bigint[]'::regtype and p.provariadic = 0
"""


def judged_links(quoted_judge: str) -> str:
    """Return the statement that calls the judge of that quoted, qualified name."""
    return f"""
select j.node_id, j.linked_id, j.confidence::float8 as confidence, j.reason
from {quoted_judge}($1) as j (node_id, linked_id, confidence, reason)
"""


OPERATORS = {"cosine": "<=>", "l2": "<->", "inner": "<#>"}
# Inside a function that has a setting of its own for it, which ends with the function.
WIDER_SEARCH = "select set_config('hnsw.ef_search', least(1000, $1)::text, true) as set"
INDEXED_VECTORS_TYPES = ("text", "text", "text", "boolean", "int", "int")


def indexed_vectors(
    schema: str, namespace: int, model: int, dim: int, kind: str, error: float
) -> str:
    """Return the statement for what a model's index finds near a vector.

    For whoever owns the tables, whom their policies bind. It says itself whether what
    it was composed from is still so, and finds nothing where it is not; where the
    extension is another or elsewhere, the server plans it again and fails.

    Parameters
    ----------
    schema : str
        pgvector's, quoted as it must be.
    namespace : int
        The schema's oid.
    model : int
        The model's id.
    dim : int
        Its width.
    kind : str
        Its distance: `cosine`, `l2` or `inner`.
    error : float
        By which share of the vectors' lengths an inner product of pgvector's may be off.

    Returns
    -------
    str
        Parameters: `$1` the vector as an array's text, `$2` the source's name, `$3` the
        model's, `$4` whether it must be the default one, `$5` how many the index is asked
        for, `$6` how many are wanted, less 1. Rows: of what the index finds all that can
        be among as many nearest, by exact distances. Columns: `id`, `number` and `title`
        of the passage; `vector`, as pgvector sends it, which takes a fifth of the time,
        and its `squares`; and `own`, the vector that was given.
    """
    near = f"(d.stored operator({schema}.{OPERATORS[kind]}) g.given)"

    def double(number: float) -> str:
        return f"'{number!r}'::float8"

    least, greatest = {
        "cosine": (
            f"{near} - {double(3 * error + 1e-12)}",
            f"{near} + {double(3 * error + 1e-12)}",
        ),
        "l2": (
            f"{near} * {double(1 - error)} - {double(1e-16)}",
            f"{near} * {double(1 + 2 * error)} + {double(1e-16)}",
        ),
        "inner": (
            f"{near} - {double(error)} * g.norm * v.norm - {double(1e-30)}",
            f"{near} + {double(error)} * g.norm * v.norm + {double(1e-30)}",
        ),
    }[kind]
    # Single precision does not hold the squares of others.
    held = "norm > 1e-10 and {0}.norm < 1e10"
    return f"""
with found as materialized (
    select
        v.chunk_id, v.squares, d.stored, g.own,
        case when v.{held.format("v")} then {least} else '-Infinity' end as least,
        case when v.{held.format("v")} then {greatest} else 'Infinity' end as greatest
    from (
        select
            a.given, a.source_id, {schema}.vector_send(a.given) as own,
            {schema}.vector_norm(a.given) as norm
        from (
            select $1::float8[]::real[]::{schema}.vector({dim}) as given, s.id as source_id
            from aiq.text_sources as s
            cross join aiq.embedding_models as m
            where
                s.name = $2 and m.id = {model} and m.dim = {dim} and m.distance = '{kind}'
                and m.name = $3 and (m.is_default or not $4)
                and to_regclass('aiq.chunk_vectors_model_{model}') is not null
                and current_setting('hnsw.iterative_scan', true) = 'relaxed_order'
                and has_schema_privilege('aiq_owner', {namespace}::oid, 'usage')
                and has_schema_privilege('aiq_engine', {namespace}::oid, 'usage')
            offset 0
        ) as a
        offset 0
    ) as g
    cross join lateral (
        select o.chunk_id, o.vector, o.norm, o.squares
        from aiq.chunk_vectors as o
        where o.model_id = {model} and o.source_id = g.source_id
        order by o.vector::{schema}.vector({dim}) operator({schema}.{OPERATORS[kind]}) g.given
        limit $5
    ) as v
    -- Once: it may be stored apart.
    cross join lateral (select v.vector::{schema}.vector as stored offset 0) as d
    where g.{held.format("g")}
)
select
    c.row_id as id, c.row_number as number, c.title,
    {schema}.vector_send(f.stored) as vector, f.squares, f.own
from found as f
cross join lateral (
    select o.row_id, o.row_number, o.title
    from aiq.text_chunks as o where o.id = f.chunk_id limit 1
) as c
where
    f.least <= coalesce(
        (select o.greatest from found as o order by o.greatest offset $6 limit 1), 'Infinity'
    )
"""
