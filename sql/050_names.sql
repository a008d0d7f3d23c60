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

-- Of a version that did not tell places.
do $$
begin
    if exists (
        select from pg_proc as p
        where
            p.oid = to_regprocedure('aiq.indexed_name_candidates(text[], real)')
            and not 'places' = any (p.proargnames)
    ) then
        drop function aiq.indexed_name_candidates(text[], real);
    end if;
end
$$;

-- Where the project's own index of names is there, a later file makes this anew.
create or replace function aiq.indexed_name_candidates(p_names text[], p_similarity real)
returns table (
    numbers text, holders text, marks text, places text, similarities text, served boolean
)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select null, null, null, null, null, false;
end
$$;
alter function aiq.indexed_name_candidates(text[], real) owner to aiq_engine;
comment on function aiq.indexed_name_candidates(text[], real) is
    'Candidate function: nothing, as there is no index of names';
revoke all on function aiq.indexed_name_candidates(text[], real) from public;
grant execute on function aiq.indexed_name_candidates(text[], real) to aiq_owner;

create or replace function aiq.name_setting(p_name text, p_default int) returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    setting constant text := btrim(current_setting(p_name, true));
begin
    if setting is null or setting = '' then
        return p_default;
    end if;
    if setting collate "C" !~ '^[0-9]{1,9}$' then
        raise exception using
            errcode = '22023',
            message = format('the setting %s is "%s", but must be a number from 0 to 999999999', p_name, left(setting, 80)),
            hint = format('Write for example set %s = %s.', p_name, p_default);
    end if;
    return setting::int;
end
$$;
alter function aiq.name_setting(text, int) owner to aiq_engine;
comment on function aiq.name_setting(text, int) is
    'A setting that is a number: aiq.name_cache_mb or aiq.name_index_from';
revoke all on function aiq.name_setting(text, int) from public;

create or replace function aiq.most_name_changes() returns int
language sql immutable
set search_path = pg_catalog, pg_temp
as $$ select 50000 $$;
alter function aiq.most_name_changes() owner to aiq_engine;
comment on function aiq.most_name_changes() is
    'With how many names written since its last refresh the index of names still serves';
revoke all on function aiq.most_name_changes() from public;

-- What the caller may not see is left out here already: a name that is denied must not
-- take longer than one that is missing, and what is read again is less.
--
-- The threshold is set as the exact double of the real, so that the operator
-- compares as reals do; the function's own SET puts it back on the way out. Candidates
-- are read one by one, by their ids, even where the planner takes the table to be small:
-- it must not read all of it, nor all of an index that begins with something else. So the
-- conditions of those indexes are written in a way that it does not see through. (No JIT:
-- a scan without an index that has to be made counts as so dear that it would be compiled.)
create or replace function aiq.similar_name_candidates(p_names text[], p_similarity real)
returns table (name_number bigint, node_id bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set pg_trgm.similarity_threshold = 0.3
set extra_float_digits = 1
set enable_seqscan = off
set jit = off
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

-- Which of some names that the index of names has found do not lie where they did when it
-- was made: the nodes that hold or held them, whether the caller may see them or not.
create or replace function aiq.moved_names(p_holders bigint[], p_marks bigint[], p_places tid[])
returns bigint[]
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_nestloop = off
set jit = off
as $$
begin
    return array(
        select distinct c.holder
        from unnest(p_holders, p_marks) as c (holder, mark)
        where not exists (
            select
            from (
                select h.node_id, hashtextextended(h.key collate "C", 0) as mark
                from aiq.node_keys as h
                where h.ctid = any (p_places) and case when h.retired_at is null then h.is_name end
                offset 0
            ) as k
            where k.node_id = c.holder and k.mark = c.mark
        )
    );
end
$$;
alter function aiq.moved_names(bigint[], bigint[], tid[]) owner to aiq_engine;
comment on function aiq.moved_names(bigint[], bigint[], tid[]) is
    'Candidate function: holders of names, each given by its holder, its mark and where its row lay, that do not lie there';
revoke all on function aiq.moved_names(bigint[], bigint[], tid[]) from public;
grant execute on function aiq.moved_names(bigint[], bigint[], tid[]) to aiq_owner;

create or replace function aiq.similar_keys(p_names text[], p_similarity real)
returns table (name_number bigint, node_id bigint, key text, soft boolean, similarity real)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set extra_float_digits = 1
set enable_seqscan = off
set enable_nestloop = on
set jit = off
as $$
declare
    block record;
    served boolean;
    seen bigint;
    moved bigint[];
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
    for block in
        select
            c.numbers::bigint[], c.holders::bigint[], c.marks::bigint[], c.places::tid[],
            c.similarities::real[], c.served
        from aiq.indexed_name_candidates(names, p_similarity) as c
    loop
        served := block.served;
        exit when not served;
        -- Each row is read once, where it lay when the index was made, and joined to the
        -- candidates by hashing: in a loop, a thousand candidates would be compared with a
        -- thousand names each. The index knows the similarity of the very name that its
        -- node holds with this mark.
        perform set_config('enable_nestloop', 'off', true);
        return query
        select c.number, k.node_id, k.key, k.soft, c.similarity
        from unnest(
            block.numbers, block.holders, block.marks, block.similarities
        ) as c (number, holder, mark, similarity)
        join (
            select h.node_id, h.key, h.soft, hashtextextended(h.key collate "C", 0) as mark
            from aiq.node_keys as h
            where
                h.ctid = any (block.places)
                and case when h.retired_at is null then h.is_name end
            offset 0
        ) as k on k.node_id = c.holder and k.mark = c.mark
        where (select rbac.caller_audiences()) is not null;
        get diagnostics seen = row_count;
        -- The others are not the caller's to see, or are elsewhere by now, or gone.
        if seen < cardinality(block.holders) then
            moved := aiq.moved_names(block.holders, block.marks, block.places);
            return query
            select c.number, k.node_id, k.key, k.soft, c.similarity
            from unnest(
                block.numbers, block.holders, block.marks, block.similarities
            ) as c (number, holder, mark, similarity)
            join (
                select h.node_id, h.key, h.soft, hashtextextended(h.key collate "C", 0) as mark
                from aiq.node_keys as h
                where
                    h.node_id = any (moved)
                    and case when h.retired_at is null then h.is_name end
                    and not exists (
                        select from unnest(block.places) as s (place) where s.place = h.ctid
                    )
                offset 0
            ) as k on k.node_id = c.holder and k.mark = c.mark
            where cardinality(moved) > 0;
        end if;
        perform set_config('enable_nestloop', 'on', true);
    end loop;
    if served then
        return;
    end if;
    return query
    select c.name_number, k.node_id, k.key, k.soft, s.similarity
    from aiq.similar_name_candidates(names, p_similarity) as c
    -- Node by node: a join might read all names for a hundred candidates.
    cross join lateral (
        select h.node_id, h.key, h.soft
        from aiq.node_keys as h
        where h.node_id = c.node_id and case when h.retired_at is null then h.is_name end
        offset 0
    ) as k
    -- A fence: the similarity is compared and shown, but worked out once.
    cross join lateral (
        select @trgm@.similarity(k.key, names[c.name_number]) offset 0
    ) as s (similarity)
    where s.similarity >= p_similarity and (select rbac.caller_audiences()) is not null;
end
$$;
alter function aiq.similar_keys(text[], real) owner to aiq_owner;
comment on function aiq.similar_keys(text[], real) is
    'The names that the caller may see whose trigram similarity to one of p_names, by its number from 1, is at least p_similarity';
revoke all on function aiq.similar_keys(text[], real) from public;
grant execute on function aiq.similar_keys(text[], real) to authenticated, aiq_worker;
