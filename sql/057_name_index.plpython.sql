-- The index of names by similarity: what aiq.similar_keys searches where there are names
-- enough for it to pay. See graphalgo.names for how it is searched.
--
-- Segments and their lists never change once they are written: a refresh writes new ones
-- and takes away those that they replace, so that a backend may keep what it has read by
-- a segment's token, and a statement sees the whole index of its own snapshot. What was
-- written to aiq.node_keys since is in aiq.name_changes, and searched beside the segments.
-- Names that are gone stay in their segment: what is found is only ever a candidate.

-- What a version wrote that knew no marks does not serve, and the next refresh would take
-- it away.
do $$
begin
    if to_regclass('aiq.name_segments') is not null and not exists (
        select from pg_attribute
        where attrelid = to_regclass('aiq.name_segments') and attname = 'marks'
    ) then
        drop table aiq.name_segments, aiq.name_lists;
    end if;
end
$$;

create table if not exists aiq.name_segments (
    id bigint generated always as identity primary key,
    token uuid not null default gen_random_uuid(),
    entries int not null check (entries > 0),
    ctype text collate "C" not null,
    holders bytea not null,
    marks bytea not null,
    sizes bytea not null,
    starts bytea not null,
    built_at timestamptz not null default now()
);
alter table aiq.name_segments owner to aiq_owner;
-- A segment of an earlier version has none: its names are looked for by their nodes.
alter table aiq.name_segments add column if not exists places bytea not null default '';
alter table aiq.name_segments alter column places drop default;
alter table aiq.name_segments add column if not exists file oid;
alter table aiq.name_segments alter column holders set storage external;
alter table aiq.name_segments alter column marks set storage external;
alter table aiq.name_segments alter column places set storage external;
comment on table aiq.name_segments is
    'The parts of the index of names: entries in the order of their numbers of trigrams, and which node holds each';
comment on column aiq.name_segments.marks is
    'A hash of each entry''s name, by which it is told from others of its node';
comment on column aiq.name_segments.places is
    'Where each entry''s row lay in aiq.node_keys: read there first, and by its node where it has moved';
comment on column aiq.name_segments.file is
    'In which file of aiq.node_keys that was: where the table has been written anew, the next refresh builds the index anew';
comment on column aiq.name_segments.ctype is
    'What the server took for words, and made of a name by hashing it, when the segment was made: see aiq.name_ctype';

create table if not exists aiq.name_lists (
    segment_id bigint not null,
    trigram int not null,
    bitmap boolean not null,
    entries bytea not null,
    primary key (segment_id, trigram)
);
alter table aiq.name_lists owner to aiq_owner;
-- What is compressed by PostgreSQL's own method takes longer to read than it saves.
alter table aiq.name_lists alter column entries set storage external;
comment on table aiq.name_lists is
    'The entries of a segment that have each trigram: sorted 32-bit numbers, or a bitmap where that is smaller';

create table if not exists aiq.name_changes (
    id bigint generated always as identity,
    node_id bigint not null,
    key text collate "C" not null
);
alter table aiq.name_changes owner to aiq_owner;
comment on table aiq.name_changes is
    'The names written since the index of names was last refreshed';
-- Refreshed, it is empty again; a scan should not read what was in it for long.
alter table aiq.name_changes set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

grant select, insert, delete on aiq.name_segments, aiq.name_lists, aiq.name_changes to aiq_engine;

do $$
declare
    item text;
begin
    foreach item in array array['name_segments', 'name_lists', 'name_changes'] loop
        execute format('alter table aiq.%I enable row level security', item);
        execute format('alter table aiq.%I force row level security', item);
        execute format('drop policy if exists engine_does on aiq.%I', item);
        execute format(
            'create policy engine_does on aiq.%I to aiq_engine using (true) with check (true)', item
        );
    end loop;
end
$$;

-- The trigrams of all names and of the changed ones. A mark is a hash of 64 bits: of a
-- node's names no two have the same, but for a chance in some 10 to the 18th. ASCII
-- trigrams, of three characters each, stand one after another; where others may be among
-- them, which are written as numbers, all are separated by commas: also where a name has
-- a capital, since that of a Turkish server's I is no ASCII letter.
create or replace view aiq.name_tokens with (security_invoker = true) as
select
    k.node_id, cardinality(t.trigrams) as size,
    array_to_string(
        t.trigrams,
        case
            when octet_length(k.key) = char_length(k.key) and k.key = lower(k.key collate "C")
            then ''
            else ','
        end
    ) as tokens,
    hashtextextended(k.key collate "C", 0) as mark,
    tidsend(k.ctid) as place
from aiq.node_keys as k
cross join lateral (select @trgm@.show_trgm(k.key) as trigrams offset 0) as t
where k.is_name and k.retired_at is null;
alter view aiq.name_tokens owner to aiq_owner;
comment on view aiq.name_tokens is 'The trigrams of each name, for the engine to build its index from';

create or replace view aiq.name_change_tokens with (security_invoker = true) as
select
    c.id, c.node_id, c.key, array_to_string(@trgm@.show_trgm(c.key), ',') as tokens,
    hashtextextended(c.key collate "C", 0) as mark
from aiq.name_changes as c;
alter view aiq.name_change_tokens owner to aiq_owner;
comment on view aiq.name_change_tokens is 'The trigrams of each name written since the last refresh';

grant select on aiq.name_tokens, aiq.name_change_tokens to aiq_engine;

-- What is a word and what its lower case differs from server to server, and on one from
-- release to release of its C library; what a name's hash is, from machine to machine.
create or replace function aiq.name_ctype() returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select
        array_to_string(@trgm@.show_trgm(E'I \u0130 \u00c9 \u0363 \u088f'), ',')
        || ' ' || hashtextextended('meridian dawn' collate "C", 0)
$$;
alter function aiq.name_ctype() owner to aiq_engine;
comment on function aiq.name_ctype() is
    'The trigrams of a text by which servers differ, and the mark of a name: an index made under another answer does not serve';
revoke all on function aiq.name_ctype() from public;

create or replace function aiq.note_new_names() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into aiq.name_changes (node_id, key)
    select c.node_id, c.key from changed as c where c.is_name and c.retired_at is null;
    return null;
end
$$;
alter function aiq.note_new_names() owner to aiq_engine;
comment on function aiq.note_new_names() is 'Trigger: notes new names for the index of names';
revoke all on function aiq.note_new_names() from public;

create or replace function aiq.note_changed_names() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    execute $statement$
        insert into aiq.name_changes (node_id, key)
        select a.node_id, a.key from after_change as a where a.is_name and a.retired_at is null
        except
        select b.node_id, b.key from before_change as b where b.is_name and b.retired_at is null
    $statement$;
    return null;
end
$$;
alter function aiq.note_changed_names() owner to aiq_engine;
comment on function aiq.note_changed_names() is
    'Trigger: notes names that were changed or have come back for the index of names';
revoke all on function aiq.note_changed_names() from public;

create or replace trigger node_keys_new_names after insert on aiq.node_keys
referencing new table as changed
for each statement execute function aiq.note_new_names();

create or replace trigger node_keys_changed_names after update on aiq.node_keys
referencing old table as before_change new table as after_change
for each statement execute function aiq.note_changed_names();

-- In plpgsql, which keeps its plan: for one name SQL takes longer to begin than to answer.
create or replace function aiq.tokens_of_names(p_names text[]) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select array_to_string(@trgm@.show_trgm(u.name), ',')
        from unnest(p_names) with ordinality as u (name, number)
        order by u.number
    );
end
$$;
alter function aiq.tokens_of_names(text[]) owner to aiq_engine;
comment on function aiq.tokens_of_names(text[]) is 'The trigrams of each name, separated by commas';
revoke all on function aiq.tokens_of_names(text[]) from public;

drop function if exists aiq.search_name_index(text[], real, int);
drop function if exists aiq.search_name_index(text[], real);
drop function if exists aiq.name_index_serves(int);
create or replace function aiq.search_name_index_plpython(p_names text[], p_similarity real)
returns table (
    numbers text, holders text, marks text, places text, similarities text, served boolean,
    refusal text
)
language plpython3u stable security invoker rows 1
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:search_name_index@$plpython$;
alter function aiq.search_name_index_plpython(text[], real) owner to aiq_engine;
comment on function aiq.search_name_index_plpython(text[], real) is
    'What aiq.indexed_name_candidates calls; a refusal is in its last column';
revoke all on function aiq.search_name_index_plpython(text[], real) from public;

-- Python's code never runs as another role than its caller: this is who calls it.
create or replace function aiq.indexed_name_candidates(p_names text[], p_similarity real)
returns table (
    numbers text, holders text, marks text, places text, similarities text, served boolean
)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select s.numbers, s.holders, s.marks, s.places, s.similarities, s.served
    from aiq.search_name_index_plpython(p_names, p_similarity) as s
    where s.refusal is null or aiq.refuse(s.refusal);
end
$$;
alter function aiq.indexed_name_candidates(text[], real) owner to aiq_engine;
comment on function aiq.indexed_name_candidates(text[], real) is
    'Candidate function: in blocks, the numbers from 1 of p_names with nodes that hold or held a name similar to each, its mark, where its row lay and its similarity, each the text of an array; what it returns must be read again under the caller''s predicate. Served is false where pg_trgm''s index is to be searched instead.';
revoke all on function aiq.indexed_name_candidates(text[], real) from public;
grant execute on function aiq.indexed_name_candidates(text[], real) to aiq_owner;

create or replace function aiq.refresh_names_plpython(p_rebuild boolean)
returns table (folded bigint, names bigint, segments int, rebuilt boolean, busy boolean, refusal text)
language plpython3u volatile security invoker rows 1
set search_path = pg_catalog, pg_temp
set jit = off
as $plpython$@plpy:refresh_names@$plpython$;
alter function aiq.refresh_names_plpython(boolean) owner to aiq_engine;
comment on function aiq.refresh_names_plpython(boolean) is
    'What aiq.refresh_names calls; a refusal is in its last column';
revoke all on function aiq.refresh_names_plpython(boolean) from public;

create or replace function aiq.refresh_names(p_rebuild boolean default false)
returns table (folded bigint, names bigint, segments int, rebuilt boolean, busy boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_rebuild is null then
        raise exception using
            errcode = '22023',
            message = 'p_rebuild is null, but must be true or false',
            hint = 'Write p_rebuild => true to build the whole index again, or leave it out.';
    end if;
    -- Told even where there is nothing to write: a job that is run in the wrong place
    -- should not be told so only now and then. On a standby every transaction only reads.
    if current_setting('transaction_read_only')::boolean then
        raise exception using
            errcode = '25006',
            message = case
                when pg_is_in_recovery()
                then 'aiq.refresh_names() writes, but this server is a standby, which only reads'
                else 'aiq.refresh_names() writes, but this transaction only reads'
            end,
            hint = case
                when pg_is_in_recovery()
                then 'Call it on the primary: a standby has what that has refreshed.'
                else 'Call it in a transaction of its own that is not read only.'
            end;
    end if;
    return query
    select r.folded, r.names, r.segments, r.rebuilt, r.busy
    from aiq.refresh_names_plpython(p_rebuild) as r
    where r.refusal is null or aiq.refuse(r.refusal);
end
$$;
alter function aiq.refresh_names(boolean) owner to aiq_engine;
comment on function aiq.refresh_names(boolean) is
    'Folds the names written since the last refresh into the index of names; the first time, or with p_rebuild, builds it whole. Blocks nobody. busy: another refresh is running, and nothing was done.';
revoke all on function aiq.refresh_names(boolean) from public;
grant execute on function aiq.refresh_names(boolean) to aiq_worker;
