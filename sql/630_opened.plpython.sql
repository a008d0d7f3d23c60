-- Lookup, join and dialect for whoever must not learn of what a policy denies: they answer
-- as if it were not there. The engine runs on a store that leaves it out, as the caller,
-- since a policy is asked as the caller. Where no type has a policy they are the
-- functions that they are named after.

create or replace function aiq.opened_lookup_plpython(
    p_keys text[], p_fuzzy boolean, p_limit int
) returns table (
    input_key text, node_id bigint, key text, match_kind text, score real, refusal text
)
language plpython3u stable security invoker rows 100
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:opened_lookup@$plpython$;
alter function aiq.opened_lookup_plpython(text[], boolean, int) owner to aiq_owner;
comment on function aiq.opened_lookup_plpython(text[], boolean, int) is
    'What aiq.opened_lookup calls; a refusal is in its last column';
revoke all on function aiq.opened_lookup_plpython(text[], boolean, int) from public;

create or replace function aiq.opened_lookup(
    p_keys text[], p_fuzzy boolean default false, p_limit int default 10
) returns table (
    input_key text, node_id bigint, handle text, key text, entity_type text, summary text,
    match_kind text, score real
)
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    if aiq.policies_of_type(null) = '{}' then
        return query select * from aiq.lookup(p_keys, p_fuzzy, p_limit);
        return;
    end if;
    return query
    select
        r.input_key, r.node_id, n.handle, r.key, n.entity_type, n.summary, r.match_kind, r.score
    from aiq.opened_lookup_plpython(p_keys, p_fuzzy, p_limit) with ordinality as r (
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
alter function aiq.opened_lookup(text[], boolean, int) owner to aiq_owner;
comment on function aiq.opened_lookup(text[], boolean, int) is
    'What aiq.lookup answers, as if the nodes that a policy denies the caller did not exist. Arguments: p_keys, the keys; p_fuzzy; p_limit, at least 1 row for each key.';
revoke all on function aiq.opened_lookup(text[], boolean, int) from public;

create or replace function aiq.opened_iterated_join_plpython(
    p_seed text, p_target_type text, p_max_rounds int, p_links text[], p_similarity real,
    p_budget int, p_degree_cap int, p_relations text[], p_as_of timestamptz, p_limit int
) returns table (
    resolved boolean, round int, hops int, node_id bigint, score float8, path jsonb,
    deferred int, examined int, reason text, refusal text
)
language plpython3u stable security invoker rows 100
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set datestyle = 'ISO'
as $plpython$@plpy:opened_iterated_join@$plpython$;
alter function aiq.opened_iterated_join_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) owner to aiq_owner;
comment on function aiq.opened_iterated_join_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) is
    'What aiq.opened_iterated_join calls; a refusal is in its last column';
revoke all on function aiq.opened_iterated_join_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) from public;

create or replace function aiq.opened_iterated_join(
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
    if aiq.policies_of_type(null) = '{}' then
        return query
        select * from aiq.iterated_join(
            p_seed, p_target_type, p_max_rounds, p_links, p_similarity, p_budget, p_degree_cap,
            p_relations, p_as_of, p_limit
        );
        return;
    end if;
    return query
    select
        r.resolved, r.round, r.hops, r.node_id, n.handle, n.key, n.entity_type, n.summary,
        r.score, r.path, r.deferred, r.examined, r.reason
    from aiq.opened_iterated_join_plpython(
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
alter function aiq.opened_iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) owner to aiq_owner;
comment on function aiq.opened_iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) is
    'What aiq.iterated_join answers, of the same arguments, as if the nodes that a policy denies the caller did not exist: they are no seed, no path leads through them, and they are not counted';
revoke all on function aiq.opened_iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) from public;

-- Passages of a table whose rows are entities too

create or replace function aiq.guarded_passages(p_source text, p_ids text[])
returns table (id text, node_id bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select u.id, n.id
    from aiq.text_sources as s
    join aiq.entity_tables as e on e.source_table = s.source_table and e.policy is not null
    cross join unnest(p_ids) as u (id)
    left join aiq.nodes as n
        on n.source_table = e.source_table and n.entity_type = e.entity_type
        and n.source_pk = u.id and n.retired_at is null
    where s.name = p_source and (select rbac.caller_audiences()) is not null
$$;
alter function aiq.guarded_passages(text, text[]) owner to aiq_owner;
comment on function aiq.guarded_passages(text, text[]) is
    'Those of a source''s passages that are rows of a table with a policy, each with its node that the caller may see, or null';
revoke all on function aiq.guarded_passages(text, text[]) from public;

create or replace function aiq.closed_passages(p_source text, p_ids text[]) returns setof text
language sql stable security invoker
set search_path = pg_catalog, pg_temp
as $$
    with guarded as materialized (select g.id, g.node_id from aiq.guarded_passages(p_source, p_ids) as g)
    select distinct g.id
    from guarded as g
    where g.node_id is null or g.node_id in (
        select c.id from aiq.closed_nodes(array(select o.node_id from guarded as o)) as c (id)
    )
$$;
alter function aiq.closed_passages(text, text[]) owner to aiq_owner;
comment on function aiq.closed_passages(text, text[]) is
    'Those of a source''s passages that are rows of a table with a policy and no entity that the caller may open';
revoke all on function aiq.closed_passages(text, text[]) from public;

create or replace function aiq.opened_query_plpython(p_query text, p_embedding text) returns table (
    answer jsonb, refusal text
)
language plpython3u stable security invoker
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:opened_query@$plpython$;
alter function aiq.opened_query_plpython(text, text) owner to aiq_owner;
comment on function aiq.opened_query_plpython(text, text) is
    'What aiq.opened_query calls for what finds nodes and passages; a refusal is in its last column';
revoke all on function aiq.opened_query_plpython(text, text) from public;

create or replace function aiq.opened_query(p_query text, p_embedding text default null) returns jsonb
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
as $$
begin
    -- What tells of no row is read as ever.
    if
        aiq.policies_of_type(null) = '{}'
        or aiq.parse(p_query) ->> 'mode' not in ('LOOKUP', 'GRAPH', 'TEXT', 'SEMANTIC', 'SEARCH')
    then
        return aiq.query(p_query, p_embedding);
    end if;
    return (
        select r.answer from aiq.opened_query_plpython(p_query, p_embedding) as r
        where r.refusal is null or aiq.refuse(r.refusal)
    );
end
$$;
alter function aiq.opened_query(text, text) owner to aiq_owner;
comment on function aiq.opened_query(text, text) is
    'What aiq.query answers, without what a policy denies the caller: as if its nodes did not exist, and of a source that is a table with a policy only the passages of entities that the caller may open. Arguments: p_query, p_embedding';
revoke all on function aiq.opened_query(text, text) from public;

grant execute on function
    aiq.opened_lookup_plpython(text[], boolean, int), aiq.opened_lookup(text[], boolean, int),
    aiq.opened_iterated_join_plpython(text, text, int, text[], real, int, int, text[], timestamptz, int),
    aiq.opened_iterated_join(text, text, int, text[], real, int, int, text[], timestamptz, int),
    aiq.guarded_passages(text, text[]), aiq.closed_passages(text, text[]),
    aiq.opened_query_plpython(text, text), aiq.opened_query(text, text)
    to authenticated, aiq_worker;
