-- The algorithms as callers use them. What is shown of a node is read node by node,
-- by its id: a join could choose to read all nodes for a hundred rows, and does where
-- the table is small or its statistics are old.

create or replace function aiq.refuse(p_refusal text) returns boolean
language plpgsql immutable strict
set search_path = pg_catalog, pg_temp
as $$
declare
    refusal jsonb;
begin
    begin
        refusal := p_refusal::jsonb;
    exception when data_exception or statement_too_complex then
        null;
    end;
    if
        jsonb_typeof(refusal -> 'message') is distinct from 'string'
        or coalesce(refusal ->> 'sqlstate', '') collate "C" !~ '^[1-9A-Z][0-9A-Z]{4}$|^0[1-9A-Z][0-9A-Z]{3}$'
    then
        raise exception using
            errcode = '22023',
            message = format('p_refusal is %s, but must be a refusal of the engine', left(p_refusal, 80)),
            hint = 'Write {"sqlstate": "22023", "message": "a sentence"}, with a "hint" if there is one.';
    end if;
    -- An option of raise may not be null.
    if refusal ->> 'detail' is not null and refusal ->> 'hint' is not null then
        raise exception using
            errcode = refusal ->> 'sqlstate',
            message = refusal ->> 'message',
            detail = refusal ->> 'detail',
            hint = refusal ->> 'hint';
    elsif refusal ->> 'detail' is not null then
        raise exception using
            errcode = refusal ->> 'sqlstate',
            message = refusal ->> 'message',
            detail = refusal ->> 'detail';
    elsif refusal ->> 'hint' is not null then
        raise exception using
            errcode = refusal ->> 'sqlstate',
            message = refusal ->> 'message',
            hint = refusal ->> 'hint';
    else
        raise exception using
            errcode = refusal ->> 'sqlstate',
            message = refusal ->> 'message';
    end if;
end
$$;
alter function aiq.refuse(text) owner to aiq_owner;
comment on function aiq.refuse(text) is
    'Raises a refusal of the engine: its SQLSTATE, sentence and hint as JSON';
revoke all on function aiq.refuse(text) from public;
grant execute on function aiq.refuse(text) to authenticated, aiq_worker, aiq_engine;

create or replace function aiq.iterated_join(
    p_seed text,
    p_target_type text,
    p_max_rounds int default 3,
    p_links text[] default '{edge,shared_key,similar}',
    p_similarity real default 0.6,
    p_budget int default 500,
    p_degree_cap int default 100,
    p_relations text[] default null,
    p_as_of timestamptz default null,
    p_limit int default 100
) returns table (
    resolved boolean, round int, hops int, node_id bigint, handle text, key text,
    entity_type text, summary text, score float8, path jsonb, deferred int, examined int,
    reason text
)
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query
    select
        r.resolved, r.round, r.hops, r.node_id, n.handle, n.key, n.entity_type, n.summary,
        r.score, r.path, r.deferred, r.examined, r.reason
    from aiq.iterated_join_plpython(
        p_seed, p_target_type, p_max_rounds, p_links, p_similarity, p_budget, p_degree_cap,
        p_relations, p_as_of, p_limit
    ) with ordinality as r (
        resolved, round, hops, node_id, score, path, deferred, examined, reason, refusal, number
    )
    left join lateral (
        select m.handle, m.key, m.entity_type, m.summary
        from aiq.nodes_ever as m where m.id = r.node_id limit 1
    ) as n on true
    where r.refusal is null or aiq.refuse(r.refusal)
    order by r.number;
end
$$;
alter function aiq.iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) owner to aiq_owner;
comment on function aiq.iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) is
    'Walks out from one node, a round at a time, over edges, shared keys, similar names and judged links, until a round reaches nodes of the target type; says by which path. Arguments: p_seed, a handle, a soft node''s kind/name or a key; p_target_type, a registered entity type; p_max_rounds, 1 to 5; p_links, some of edge, shared_key, similar, judged; p_similarity, above 0 and at most 1; p_budget, 1 to 100000 candidates a round; p_degree_cap, 1 to 100000 links a node and kind; p_relations, declared relations or null for all; p_as_of, edges as they held then; p_limit, at least 1 row.';
revoke all on function aiq.iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) from public;
grant execute on function aiq.iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) to authenticated, aiq_worker;

create or replace function aiq.iterated_join_trace(
    p_seed text,
    p_target_type text,
    p_max_rounds int default 3,
    p_links text[] default '{edge,shared_key,similar}',
    p_similarity real default 0.6,
    p_budget int default 500,
    p_degree_cap int default 100,
    p_relations text[] default null,
    p_as_of timestamptz default null,
    p_limit int default 100
) returns jsonb
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return (
        select r.trace
        from aiq.iterated_join_trace_plpython(
            p_seed, p_target_type, p_max_rounds, p_links, p_similarity, p_budget, p_degree_cap,
            p_relations, p_as_of, p_limit
        ) as r
        where r.refusal is null or aiq.refuse(r.refusal)
    );
end
$$;
alter function aiq.iterated_join_trace(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) owner to aiq_owner;
comment on function aiq.iterated_join_trace(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) is
    'The account of the same iterated join: for each round the frontier, the candidates by link kind, the examined, the deferred, the nodes that the degree cap cut, and the milliseconds. Arguments: p_seed, a handle, a soft node''s kind/name or a key; p_target_type, a registered entity type; p_max_rounds, 1 to 5; p_links, some of edge, shared_key, similar, judged; p_similarity, above 0 and at most 1; p_budget, 1 to 100000 candidates a round; p_degree_cap, 1 to 100000 links a node and kind; p_relations, declared relations or null for all; p_as_of, edges as they held then; p_limit, at least 1 row.';
revoke all on function aiq.iterated_join_trace(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) from public;
grant execute on function aiq.iterated_join_trace(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) to authenticated, aiq_worker;

create or replace function aiq.walk(
    p_key text,
    p_depth int default 1,
    p_relation text default null,
    p_degree_cap int default 100,
    p_limit int default 100,
    p_as_of timestamptz default null
) returns table (
    depth int, node_id bigint, handle text, key text, entity_type text, summary text,
    path text[], weight float8, capped boolean
)
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query
    select
        r.depth, r.node_id, n.handle, n.key, n.entity_type, n.summary, r.path::text[],
        r.weight, r.capped
    from aiq.walk_plpython(
        p_key, p_depth, p_relation, p_degree_cap, p_limit, p_as_of
    ) with ordinality as w (depths, node_ids, paths, weights, capped, refusal, block)
    cross join lateral unnest(
        w.depths::int[], w.node_ids::bigint[], w.paths::text[], w.weights::float8[],
        w.capped::boolean[]
    ) with ordinality as r (depth, node_id, path, weight, capped, number)
    left join lateral (
        select m.handle, m.key, m.entity_type, m.summary
        from aiq.nodes_ever as m where m.id = r.node_id limit 1
    ) as n on true
    where w.refusal is null or aiq.refuse(w.refusal)
    order by w.block, r.number;
end
$$;
alter function aiq.walk(text, int, text, int, int, timestamptz) owner to aiq_owner;
comment on function aiq.walk(text, int, text, int, int, timestamptz) is
    'Everything within p_depth hops of a node, edges walked both ways, at most p_degree_cap strongest per node. Arguments: p_key, a handle, a soft node''s kind/name or a key; p_depth, 1 to 5; p_relation, a declared relation or null for all, at every hop; p_degree_cap, 1 to 100000; p_limit, at least 1 row; p_as_of, edges as they held then.';
revoke all on function aiq.walk(text, int, text, int, int, timestamptz) from public;
grant execute on function aiq.walk(text, int, text, int, int, timestamptz)
    to authenticated, aiq_worker;

create or replace function aiq.lookup(
    p_keys text[],
    p_fuzzy boolean default false,
    p_limit int default 10
) returns table (
    input_key text, node_id bigint, handle text, key text, entity_type text, summary text,
    match_kind text, score real
)
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query
    select
        r.input_key, r.node_id, n.handle, r.key, n.entity_type, n.summary, r.match_kind,
        r.score
    from aiq.lookup_plpython(
        p_keys, p_fuzzy, p_limit
    ) with ordinality as r (
        input_key, node_id, key, match_kind, score, refusal, number
    )
    left join lateral (
        select m.handle, m.entity_type, m.summary
        from aiq.nodes_ever as m where m.id = r.node_id limit 1
    ) as n on true
    where r.refusal is null or aiq.refuse(r.refusal)
    order by r.number;
end
$$;
alter function aiq.lookup(text[], boolean, int) owner to aiq_owner;
comment on function aiq.lookup(text[], boolean, int) is
    'Nodes by key, in a cascade: canonical, then short and alias, then soft names, then (with p_fuzzy) names of trigram similarity 0.3 or more. Arguments: p_keys, the keys; p_fuzzy; p_limit, at least 1 row for each key.';
revoke all on function aiq.lookup(text[], boolean, int) from public;
grant execute on function aiq.lookup(text[], boolean, int)
    to authenticated, aiq_worker;
