-- Names by similarity. Trigram operators are not leakproof and so cannot use
-- their index under a policy: a candidate function of the engine role searches
-- the index and gives back ids alone, and what callers get is read again, under
-- their own predicate, by a function of aiq_owner.

-- A definer function, since callers may have no usage on the schema of pg_trgm.
create or replace function aiq.name_similarity(p_a text, p_b text) returns real
language sql immutable strict parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$ select @trgm@.similarity(p_a, p_b) $$;
alter function aiq.name_similarity(text, text) owner to aiq_owner;
comment on function aiq.name_similarity(text, text) is
    'The trigram similarity of two names, from 0 to 1';
revoke all on function aiq.name_similarity(text, text) from public;
grant execute on function aiq.name_similarity(text, text) to authenticated, aiq_worker, aiq_engine;

-- What the caller may not see is left out here already: a name that is denied must not
-- take longer than one that is missing, and what is read again is less.
--
-- The threshold is set as the exact double of the real, so that the operator
-- compares as reals do; the function's own SET puts it back on the way out.
create or replace function aiq.similar_name_candidates(p_names text[], p_similarity real)
returns table (name_number bigint, node_id bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set pg_trgm.similarity_threshold = 0.3
set extra_float_digits = 1
as $$
declare
    mine constant uuid[] := rbac.caller_audiences();
begin
    perform set_config('pg_trgm.similarity_threshold', (p_similarity::float8)::text, true);
    return query
    select u.number, k.node_id
    from unnest(p_names) with ordinality as u (name, number)
    cross join lateral (
        select distinct h.node_id
        from aiq.node_keys as h
        where
            h.key operator(@trgm@.%) u.name and h.is_name and h.retired_at is null
            and (h.audience is null or h.audience = any (mine))
    ) as k;
end
$$;
alter function aiq.similar_name_candidates(text[], real) owner to aiq_engine;
comment on function aiq.similar_name_candidates(text[], real) is
    'Candidate function: ids of nodes with a name similar to each of the names; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.similar_name_candidates(text[], real) from public;
grant execute on function aiq.similar_name_candidates(text[], real) to aiq_owner;

create or replace function aiq.similar_keys(p_names text[], p_similarity real)
returns table (name_number bigint, node_id bigint, key text, soft boolean, similarity real)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set extra_float_digits = 1
as $$
declare
    -- Numbered from 1, whatever the array's own bounds.
    names constant text[] := array(select u.name from unnest(p_names) as u (name));
begin
    if p_names is null or array_position(names, null) is not null then
        raise exception using
            errcode = '22023',
            message = case
                when p_names is null then 'p_names is null, but must be a list of names'
                else 'an element of p_names is null, but must be a text'
            end,
            hint = 'Write a list of names, such as array[''meridian dawn''].';
    end if;
    if p_similarity is null or not (p_similarity > 0 and p_similarity <= 1) then
        raise exception using
            errcode = '22023',
            message = format(
                'p_similarity is %s, but must be above 0 and at most 1', coalesce(p_similarity::text, 'null')
            ),
            hint = 'Write for example p_similarity => 0.6.';
    end if;
    return query
    select c.name_number, k.node_id, k.key, k.soft, s.similarity
    from aiq.similar_name_candidates(names, p_similarity) as c
    join aiq.node_keys as k on k.node_id = c.node_id and k.is_name and k.retired_at is null
    cross join lateral (select @trgm@.similarity(k.key, names[c.name_number])) as s (similarity)
    where s.similarity >= p_similarity and (select rbac.caller_audiences()) is not null;
end
$$;
alter function aiq.similar_keys(text[], real) owner to aiq_owner;
comment on function aiq.similar_keys(text[], real) is
    'The names that the caller may see whose trigram similarity to one of p_names, by its number from 1, is at least p_similarity';
revoke all on function aiq.similar_keys(text[], real) from public;
grant execute on function aiq.similar_keys(text[], real) to authenticated, aiq_worker;
