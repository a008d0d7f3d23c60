-- Nodes by handle, key and soft name: what the answer about one name begins with.
--
-- A policy asks for the caller's audiences at the first row it is asked about. A
-- name that only others hold would thus take longer to find nothing by than one
-- that nobody holds. So candidate functions of the engine role ask first, whatever
-- there is, and leave out by the same condition what the caller may not see; what
-- callers get is read again, under their own predicate, by functions of aiq_owner.

create or replace function aiq.handle_candidates(
    p_entity_type text, p_number bigint, p_as_of timestamptz
) returns table (node_id bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    mine constant uuid[] := rbac.caller_audiences();
begin
    if p_entity_type is null then
        return query
        select n.id from aiq.nodes as n
        where
            n.id = p_number and n.entity_type is null
            and (n.retired_at is null or n.retired_at > p_as_of)
            and (n.audience is null or n.audience = any (mine));
    else
        return query
        select n.id from aiq.nodes as n
        where
            n.entity_type = p_entity_type
            and case when n.handle_number is null then n.id else n.handle_number end = p_number
            and (n.retired_at is null or n.retired_at > p_as_of)
            and (n.audience is null or n.audience = any (mine));
    end if;
end
$$;
alter function aiq.handle_candidates(text, bigint, timestamptz) owner to aiq_engine;
comment on function aiq.handle_candidates(text, bigint, timestamptz) is
    'Candidate function: the node of a handle; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.handle_candidates(text, bigint, timestamptz) from public;
grant execute on function aiq.handle_candidates(text, bigint, timestamptz) to aiq_owner;

create or replace function aiq.key_candidates(p_keys text[], p_kinds text[], p_limit int)
returns table (number bigint, node_id bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    mine constant uuid[] := rbac.caller_audiences();
begin
    return query
    select i.number, k.node_id
    from unnest(p_keys) with ordinality as i (key, number)
    cross join lateral (
        select h.node_id
        from aiq.node_keys as h
        where
            h.key = i.key and h.retired_at is null and not h.soft and h.kind = any (p_kinds)
            and (h.audience is null or h.audience = any (mine))
        order by h.node_id limit p_limit
    ) as k;
end
$$;
alter function aiq.key_candidates(text[], text[], int) owner to aiq_engine;
comment on function aiq.key_candidates(text[], text[], int) is
    'Candidate function: ids of typed nodes that hold each of the keys; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.key_candidates(text[], text[], int) from public;
grant execute on function aiq.key_candidates(text[], text[], int) to aiq_owner;

-- For one key, and the plan that asks it: it is asked in aiq.query, which sets how plans
-- are made. Where it says that there is one row, nothing is prepared for many. It says
-- where each key lies, so that to read it again takes no other index: within one
-- statement a row stays where it is.
create or replace function aiq.one_key_places(p_key text, p_canonical boolean, p_limit int)
returns table (place tid, node_id bigint)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
as $$
declare
    mine constant uuid[] := rbac.caller_audiences();
begin
    return query
    select h.ctid, h.node_id
    from aiq.node_keys as h
    where
        h.key = p_key and h.retired_at is null and not h.soft
        and (h.kind = 'canonical') = p_canonical
        and (h.audience is null or h.audience = any (mine))
    order by h.node_id limit p_limit;
end
$$;
alter function aiq.one_key_places(text, boolean, int) owner to aiq_engine;
comment on function aiq.one_key_places(text, boolean, int) is
    'Candidate function: where a key of typed nodes lies, as their canonical one or as another, and their ids; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.one_key_places(text, boolean, int) from public;
grant execute on function aiq.one_key_places(text, boolean, int) to aiq_owner;
drop function if exists aiq.one_key_candidates(text, boolean, int);

create or replace function aiq.soft_candidates(p_names text[], p_bare boolean, p_limit int)
returns table (number bigint, node_id bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    mine constant uuid[] := rbac.caller_audiences();
begin
    return query
    select i.number, s.id
    from unnest(p_names) with ordinality as i (name, number)
    cross join lateral (
        select u.id
        from (
            select n.id, n.soft_key
            from aiq.nodes as n
            where
                n.soft_key = i.name and n.retired_at is null
                and (n.audience is null or n.audience = any (mine))
            union
            select n.id, n.soft_key
            from aiq.nodes as n
            where
                p_bare and n.soft_name = i.name and n.retired_at is null
                and (n.audience is null or n.audience = any (mine))
        ) as u
        order by u.soft_key, u.id limit p_limit
    ) as s;
end
$$;
alter function aiq.soft_candidates(text[], boolean, int) owner to aiq_engine;
comment on function aiq.soft_candidates(text[], boolean, int) is
    'Candidate function: ids of soft nodes of each kind/name and, if p_bare, bare name; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.soft_candidates(text[], boolean, int) from public;
grant execute on function aiq.soft_candidates(text[], boolean, int) to aiq_owner;

create or replace function aiq.refuse_limit(p_limit int) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = '22023',
        message = format('p_limit is %s, but must be at least 1', coalesce(p_limit::text, 'null')),
        hint = 'Write for example p_limit => 10.';
end
$$;
alter function aiq.refuse_limit(int) owner to aiq_owner;
comment on function aiq.refuse_limit(int) is 'Refuses a limit that lets no row through';
revoke all on function aiq.refuse_limit(int) from public;

create or replace function aiq.nodes_by_handle(
    p_entity_type text, p_number bigint, p_as_of timestamptz
) returns table (node_id bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select n.id
    from aiq.handle_candidates(p_entity_type, p_number, p_as_of) as c
    cross join lateral (select m.id from aiq.nodes as m where m.id = c.node_id limit 1) as n;
end
$$;
alter function aiq.nodes_by_handle(text, bigint, timestamptz) owner to aiq_owner;
comment on function aiq.nodes_by_handle(text, bigint, timestamptz) is
    'The node of that entity type (null: soft) and handle number, if the caller may see it; with p_as_of one that was retired later, too';
revoke all on function aiq.nodes_by_handle(text, bigint, timestamptz) from public;
grant execute on function aiq.nodes_by_handle(text, bigint, timestamptz) to authenticated, aiq_worker;

create or replace function aiq.nodes_by_key(p_keys text[], p_kinds text[], p_limit int)
returns table (number bigint, node_id bigint, key text, kind text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    keys constant text[] := array(select u.key from unnest(p_keys) as u (key));
begin
    if p_limit is null or p_limit < 1 then
        perform aiq.refuse_limit(p_limit);
    end if;
    return query
    select c.number, k.node_id, k.key, k.kind
    from aiq.key_candidates(keys, p_kinds, p_limit) as c
    cross join lateral (
        select h.node_id, h.key, h.kind
        from aiq.node_keys as h
        where h.node_id = c.node_id and h.key = keys[c.number] limit 1
    ) as k
    order by c.number, k.node_id;
end
$$;
alter function aiq.nodes_by_key(text[], text[], int) owner to aiq_owner;
comment on function aiq.nodes_by_key(text[], text[], int) is
    'The typed nodes that the caller may see and that hold each of p_keys, by its number from 1, as a key of one of p_kinds, at most p_limit a key';
revoke all on function aiq.nodes_by_key(text[], text[], int) from public;
grant execute on function aiq.nodes_by_key(text[], text[], int) to authenticated, aiq_worker;

create or replace function aiq.nodes_by_soft_name(p_names text[], p_bare boolean, p_limit int)
returns table (number bigint, node_id bigint, key text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
    if p_limit is null or p_limit < 1 then
        perform aiq.refuse_limit(p_limit);
    end if;
    return query
    select c.number, n.id, n.soft_key
    from aiq.soft_candidates(p_names, p_bare, p_limit) as c
    cross join lateral (
        select m.id, m.soft_key from aiq.nodes as m where m.id = c.node_id limit 1
    ) as n
    order by c.number, n.soft_key, n.id;
end
$$;
alter function aiq.nodes_by_soft_name(text[], boolean, int) owner to aiq_owner;
comment on function aiq.nodes_by_soft_name(text[], boolean, int) is
    'The soft nodes that the caller may see whose kind/name or, if p_bare, bare name is one of p_names, by its number from 1, at most p_limit a name';
revoke all on function aiq.nodes_by_soft_name(text[], boolean, int) from public;
grant execute on function aiq.nodes_by_soft_name(text[], boolean, int) to authenticated, aiq_worker;
