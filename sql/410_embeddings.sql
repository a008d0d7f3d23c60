-- Vectors of passages, as a worker writes them. They are kept as real[], so the
-- schema is the same with pgvector and without; pgvector is looked for when it is
-- needed, in whatever schema it lives.

create table if not exists aiq.embedding_models (
    id int generated always as identity primary key,
    name text collate "C" not null unique check (name <> ''),
    dim int not null check (dim between 1 and 16000),
    distance text collate "C" not null check (distance in ('cosine', 'l2', 'inner')),
    is_default boolean not null default false,
    description text,
    registered_at timestamptz not null default now()
);
alter table aiq.embedding_models owner to aiq_owner;
comment on table aiq.embedding_models is
    'The models that write vectors: how wide they are, and by which distance they are compared';
create unique index if not exists embedding_models_default on aiq.embedding_models (is_default) where is_default;

create table if not exists aiq.chunk_vectors (
    chunk_id bigint not null references aiq.text_chunks (id) on delete cascade,
    model_id int not null references aiq.embedding_models (id) on delete cascade,
    source_id int not null,
    audience uuid,
    norm float8 not null,
    vector real[] not null,
    written_at timestamptz not null default now(),
    primary key (chunk_id, model_id)
);
alter table aiq.chunk_vectors owner to aiq_owner;
-- Numbers that look random do not compress: trying would only cost time.
alter table aiq.chunk_vectors alter column vector set storage external;
comment on table aiq.chunk_vectors is
    'The vectors of the passages, one a model; source and audience are copies of the passage''s, kept by trigger';
comment on column aiq.chunk_vectors.norm is
    'The vector''s length: how far a distance computed with less precision can be off depends on it';
alter table aiq.chunk_vectors add column if not exists squares float8;
comment on column aiq.chunk_vectors.squares is
    'The sum of the squares of the vector''s numbers, rounded once, as exact distances take it; null where they are to compute it';
create index if not exists chunk_vectors_audience
    on aiq.chunk_vectors (model_id, source_id, audience);

grant select, insert, update, delete on aiq.embedding_models, aiq.chunk_vectors to aiq_engine;
grant usage on sequence aiq.embedding_models_id_seq to aiq_engine;

do $$
declare
    item record;
begin
    for item in
        select * from (values
            ('embedding_models', 'true'),
            ('chunk_vectors', 'audience is null or audience = any ((select rbac.caller_audiences())::uuid[])')
        ) as t (name, visible)
    loop
        execute format('alter table aiq.%I enable row level security', item.name);
        execute format('alter table aiq.%I force row level security', item.name);
        execute format('drop policy if exists caller_sees on aiq.%I', item.name);
        execute format(
            'create policy caller_sees on aiq.%I for select to aiq_owner using (%s)', item.name, item.visible
        );
        execute format('drop policy if exists engine_does on aiq.%I', item.name);
        execute format(
            'create policy engine_does on aiq.%I to aiq_engine using (true) with check (true)', item.name
        );
    end loop;
end
$$;

create or replace view aiq.embedding_models_api with (security_barrier) as
    select m.name, m.dim, m.distance, m.is_default, m.description
    from aiq.embedding_models as m
    where (select rbac.caller_audiences()) is not null;
alter view aiq.embedding_models_api owner to aiq_owner;
comment on view aiq.embedding_models_api is 'The registered embedding models';

create or replace view aiq.embeddings with (security_barrier) as
    select v.chunk_id as passage_id, s.name as source, m.name as model, v.vector
    from aiq.chunk_vectors as v
    join aiq.text_sources as s on s.id = v.source_id
    join aiq.embedding_models as m on m.id = v.model_id
    where (select rbac.caller_audiences()) is not null;
alter view aiq.embeddings owner to aiq_owner;
comment on view aiq.embeddings is 'The vectors of the passages, by passage_id as in aiq.passages, source and model';

-- One vector that can be seen is enough, and its index finds it.
create or replace view aiq.embedded_models_api with (security_barrier) as
    select s.name as source, m.name as model
    from aiq.text_sources as s
    cross join aiq.embedding_models as m
    where
        (select rbac.caller_audiences()) is not null
        and (
            select true from aiq.chunk_vectors as v
            where v.model_id = m.id and v.source_id = s.id limit 1
        );
alter view aiq.embedded_models_api owner to aiq_owner;
comment on view aiq.embedded_models_api is
    'Which models have vectors of which text source, as far as the caller can see any';
grant select on aiq.embedding_models_api, aiq.embeddings, aiq.embedded_models_api
    to authenticated, aiq_worker, aiq_engine;

-- A vector is of a content: when that changes, the vector goes. Whoever sees the
-- passage sees its vectors.
create or replace function aiq.spread_passage_changes() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    execute $statement$
        delete from aiq.chunk_vectors as v
        using after_change as a
        join before_change as b on b.id = a.id
        where v.chunk_id = a.id and a.content <> b.content
    $statement$;
    execute $statement$
        update aiq.chunk_vectors as v
        set audience = a.audience, source_id = a.source_id
        from after_change as a
        where
            v.chunk_id = a.id
            and (v.audience, v.source_id) is distinct from (a.audience, a.source_id)
    $statement$;
    return null;
end
$$;
alter function aiq.spread_passage_changes() owner to aiq_engine;
comment on function aiq.spread_passage_changes() is
    'Trigger: drops the vectors of passages whose content has changed and carries a change of scope to the others';
revoke all on function aiq.spread_passage_changes() from public;

create or replace trigger text_chunks_spread after update on aiq.text_chunks
referencing old table as before_change new table as after_change
for each statement execute function aiq.spread_passage_changes();

-- Models

create or replace function aiq.refuse_embedding_model(p_name text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = '42704',
        message = format('there is no embedding model %s', coalesce('"' || p_name || '"', 'null')),
        hint = coalesce('Write one of: ' || (
            select string_agg(t.name, ', ' order by t.place)
            from (
                select m.name, row_number() over (
                    order by @trgm@.similarity(m.name, coalesce(p_name, '')) desc, m.name
                ) as place
                from aiq.embedding_models as m
            ) as t
            where t.place <= 5
        ), 'Register one with aiq.register_embedding_model.');
end
$$;
alter function aiq.refuse_embedding_model(text) owner to aiq_owner;
comment on function aiq.refuse_embedding_model(text) is
    'Refuses an embedding model that is not there and names those that are, the likeliest first';
revoke all on function aiq.refuse_embedding_model(text) from public;
grant execute on function aiq.refuse_embedding_model(text) to aiq_engine;

create or replace function aiq.register_embedding_model(
    p_name text, p_dim int, p_distance text default 'cosine', p_is_default boolean default false,
    p_description text default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    model aiq.embedding_models;
begin
    if coalesce(btrim(p_name), '') = '' then
        raise exception using
            errcode = '22023',
            message = format('p_name is %s, but must name the model', coalesce('"' || p_name || '"', 'null')),
            hint = 'Write the name that queries will use after USING.';
    end if;
    if p_dim is null or p_dim not between 1 and 16000 then
        raise exception using
            errcode = '22023',
            message = format('p_dim is %s, but must be from 1 to 16000', coalesce(p_dim::text, 'null')),
            hint = 'Write how many numbers each of the model''s vectors has.';
    end if;
    if p_distance is null or p_distance not in ('cosine', 'l2', 'inner') then
        raise exception using
            errcode = '22023',
            message = format(
                'p_distance is %s, but must be cosine, l2 or inner', coalesce('"' || p_distance || '"', 'null')
            ),
            hint = 'Write cosine for angles, l2 for straight lines, or inner for the negative inner product.';
    end if;
    if p_is_default is null then
        raise exception using
            errcode = '22023', message = 'p_is_default is null, but must be true or false',
            hint = 'Write true for the model that serves where a query names none.';
    end if;
    select * into model from aiq.embedding_models as m where m.name = p_name for update;
    if found and (model.dim, model.distance) is distinct from (p_dim, p_distance)
        and (
            exists (select from aiq.chunk_vectors as v where v.model_id = model.id)
            or exists (select from aiq.entity_vectors as v where v.model_id = model.id)
        )
    then
        raise exception using
            errcode = '22023',
            message = format(
                'the model "%s" has vectors of %s numbers for the distance %s, so it cannot become one of %s for %s',
                p_name, model.dim, model.distance, p_dim, p_distance
            ),
            hint = format('Register another name, or drop its vectors first: select aiq.unregister_embedding_model(%L);', p_name);
    end if;
    if (model.dim, model.distance) is distinct from (p_dim, p_distance) and model.id is not null then
        perform aiq.drop_vector_index(model.id);
    end if;
    if p_is_default then
        update aiq.embedding_models as m set is_default = false where m.is_default and m.name <> p_name;
    end if;
    insert into aiq.embedding_models (name, dim, distance, is_default, description)
    values (p_name, p_dim, p_distance, p_is_default, p_description)
    on conflict (name) do update
    set dim = excluded.dim, distance = excluded.distance, is_default = excluded.is_default,
        description = excluded.description;
end
$$;
alter function aiq.register_embedding_model(text, int, text, boolean, text) owner to aiq_engine;
comment on function aiq.register_embedding_model(text, int, text, boolean, text) is
    'Declares a model that writes vectors: p_dim, 1 to 16000 numbers each; p_distance, cosine, l2 or inner (the negative inner product); p_is_default, whether it serves where a query names none (of several, the last registered). Registering again replaces the registration; width and distance stay while there are vectors';
revoke all on function aiq.register_embedding_model(text, int, text, boolean, text) from public;

create or replace function aiq.unregister_embedding_model(p_name text) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    of_model int;
    dropped bigint;
    of_entities bigint;
begin
    select m.id into of_model from aiq.embedding_models as m where m.name = p_name for update;
    if not found then
        perform aiq.refuse_embedding_model(p_name);
    end if;
    perform aiq.drop_vector_index(of_model);
    delete from aiq.chunk_vectors as v where v.model_id = of_model;
    get diagnostics dropped = row_count;
    delete from aiq.entity_vectors as v where v.model_id = of_model;
    get diagnostics of_entities = row_count;
    delete from aiq.embedding_models as m where m.id = of_model;
    return dropped + of_entities;
end
$$;
alter function aiq.unregister_embedding_model(text) owner to aiq_engine;
comment on function aiq.unregister_embedding_model(text) is
    'Drops a model with its vectors and its index, and returns how many vectors there were';
revoke all on function aiq.unregister_embedding_model(text) from public;

-- Vectors

create or replace function aiq.given_vectors(p_vectors real[], p_dim int, p_distance text)
returns table (place bigint, vector real[], norm float8, fault text)
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select
        s.place, e.vector, sqrt(e.squares),
        case
            when e.numbers < p_dim then 'holds null'
            when e.squares = 'NaN' then 'holds NaN'
            when e.squares = 'Infinity' then 'holds infinity'
            when e.squares = 0 and p_distance = 'cosine' then 'holds nothing but zeros, which have no angle'
        end
    from generate_series(1, array_length(p_vectors, 1)) as s (place)
    cross join lateral (
        select
            array_agg(n.value) as vector, sum(n.value::float8 * n.value::float8) as squares,
            count(n.value) as numbers
        from unnest(p_vectors[s.place:s.place]) as n (value)
    ) as e
$$;
alter function aiq.given_vectors(real[], int, text) owner to aiq_engine;
comment on function aiq.given_vectors(real[], int, text) is
    'The vectors of an array of vectors, each with its length and with what is wrong with it for a model, if anything';
revoke all on function aiq.given_vectors(real[], int, text) from public;

-- A square of a real is exact. Each is split at a power of two so great that what lies
-- above and what lies below add up without any rounding, in any order: with s four times
-- the sum or more, the upper parts are multiples of s 2^-52 and their sums below s; the
-- lower ones are at most s 2^-53, and multiples of the least square times 2^-48 (the
-- numbers have 24 bits), so that n of them add up within 53 bits where the least is
-- n s 2^-58 or more. One rounding is left, that of the two sums' sum.
create or replace function aiq.sum_of_squares(p_vector real[], p_norm float8) returns float8
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when min(nullif(p.square, 0)) >= count(*) * min(e.split) * 2::float8 ^ -58
        then sum((p.square + e.split) - e.split) + sum(p.square - ((p.square + e.split) - e.split))
    end
    from (
        select 2::float8 ^ (ceil(2 * ln(nullif(p_norm, 0)) / ln(2::float8)) + 3) as split offset 0
    ) as e
    cross join (
        select u.value::float8 * u.value::float8 as square from unnest(p_vector) as u (value) offset 0
    ) as p
$$;
alter function aiq.sum_of_squares(real[], float8) owner to aiq_engine;
comment on function aiq.sum_of_squares(real[], float8) is
    'The sum of the squares of a vector''s numbers, rounded once, given its length as nearly as float8 adds it; null where the numbers are too far apart for that';
revoke all on function aiq.sum_of_squares(real[], float8) from public;

create or replace function aiq.put_embeddings(
    p_source text, p_model text, p_ids text[], p_vectors real[], p_digests text[] default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set extra_float_digits = 1
as $$
declare
    of_source int;
    model aiq.embedding_models;
    wrong record;
    written bigint;
begin
    select s.id into of_source from aiq.text_sources as s where s.name = p_source;
    if not found then
        perform aiq.refuse_text_source(p_source);
    end if;
    -- The model's width must hold until the vectors are written.
    select * into model from aiq.embedding_models as m where m.name = p_model for share;
    if not found then
        perform aiq.refuse_embedding_model(p_model);
    end if;
    perform aiq.check_vectors(p_ids, p_vectors, p_digests, model.name, model.dim);
    if cardinality(p_ids) = 0 then
        return 0;
    end if;
    select u.row_id, c.id is null as unknown into wrong
    from unnest(p_ids) with ordinality as u (row_id, place)
    left join aiq.text_chunks as c on c.source_id = of_source and c.row_id = u.row_id
    where c.id is null order by u.place limit 1;
    if found then
        raise exception using
            errcode = 'P0002',
            message = format('"%s" has no passage with the id %s', p_source, left(wrong.row_id, 100)),
            hint = 'Give ids as aiq.passages_to_embed tells them.';
    end if;
    -- Held until the end, so that no content changes between being looked at and
    -- having its vector, in the order in which everybody locks them; and written, so
    -- that a transaction with an older snapshot fails to change what it says.
    perform from aiq.text_chunks as c
    where c.source_id = of_source and c.row_id = any (p_ids)
    order by c.id for no key update;
    update aiq.text_chunks as c set embedded_at = now()
    where c.source_id = of_source and c.row_id = any (p_ids);
    if p_digests is not null then
        select u.row_id into wrong
        from unnest(p_ids, p_digests) with ordinality as u (row_id, digest, place)
        left join aiq.text_chunks as c on c.source_id = of_source and c.row_id = u.row_id
        where md5(c.content) is distinct from u.digest order by u.place limit 1;
        if found then
            raise exception using
                errcode = '55000',
                message = format('the passage %s of "%s" has changed since it was read', left(wrong.row_id, 100), p_source),
                hint = 'Ask aiq.passages_to_embed again, and embed what it says now.';
        end if;
    end if;
    with given as materialized (
        select u.row_id, g.*
        from unnest(p_ids) with ordinality as u (row_id, place)
        join aiq.given_vectors(p_vectors, model.dim, model.distance) as g using (place)
    ),
    faults as materialized (
        select g.row_id, g.fault from given as g where g.fault is not null order by g.place limit 1
    ),
    put as (
        insert into aiq.chunk_vectors as v (
            chunk_id, model_id, source_id, audience, norm, squares, vector
        )
        select
            c.id, model.id, c.source_id, c.audience, g.norm, aiq.sum_of_squares(g.vector, g.norm),
            g.vector
        from given as g
        join aiq.text_chunks as c on c.source_id = of_source and c.row_id = g.row_id
        where not exists (select from faults)
        on conflict (chunk_id, model_id) do update
        set vector = excluded.vector, norm = excluded.norm, squares = excluded.squares,
            audience = excluded.audience, source_id = excluded.source_id, written_at = excluded.written_at
        where v.vector <> excluded.vector
        returning 1
    )
    select f.row_id, f.fault, (select count(*) from put) as number
    into wrong
    from (values (1)) as one left join faults as f on true;
    if wrong.fault is not null then
        raise exception using
            errcode = '22023',
            message = format('the vector of %s %s', left(wrong.row_id, 100), wrong.fault),
            hint = 'Give finite numbers; nothing has been written.';
    end if;
    return cardinality(p_ids);
end
$$;
alter function aiq.put_embeddings(text, text, text[], real[], text[]) owner to aiq_engine;
comment on function aiq.put_embeddings(text, text, text[], real[], text[]) is
    'Writes the vectors that a model has computed for passages of a text source, all or none, over those that are there: p_ids, the passages'' ids as text; p_vectors, an array of as many vectors of the model''s width; p_digests, as aiq.passages_to_embed told them, to be refused where a content has changed since. Returns how many';
revoke all on function aiq.put_embeddings(text, text, text[], real[], text[]) from public;

create or replace function aiq.check_vectors(
    p_ids text[], p_vectors real[], p_digests text[], p_model text, p_dim int
) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    again text;
begin
    if p_ids is null or p_vectors is null or coalesce(array_ndims(p_ids), 1) <> 1
        or exists (select from unnest(p_ids) as u (i) where u.i is null)
    then
        raise exception using
            errcode = '22023',
            message = format('%s, but must be a list without nulls', case
                when p_ids is null then 'p_ids is null'
                when p_vectors is null then 'p_vectors is null'
                when array_ndims(p_ids) > 1 then format('p_ids has %s dimensions', array_ndims(p_ids))
                else 'p_ids holds null'
            end),
            hint = 'Give the ids of passages and as many vectors, such as ''{7,8}'' and ''{{0.1,0.2},{0.3,0.4}}''.';
    end if;
    if cardinality(p_ids) = 0 and cardinality(p_vectors) = 0 then
        return;
    end if;
    if coalesce(array_ndims(p_vectors), 0) <> 2 then
        raise exception using
            errcode = '22023',
            message = format(
                'p_vectors has %s dimensions, but must have two: one vector for each of the %s ids',
                coalesce(array_ndims(p_vectors), 0), cardinality(p_ids)
            ),
            hint = 'Write a list of vectors, of one vector too: ''{{0.1,0.2}}''.';
    end if;
    if array_length(p_vectors, 2) <> p_dim then
        raise exception using
            errcode = '22023',
            message = format(
                'the vectors of model "%s" have %s numbers, but these have %s', p_model, p_dim, array_length(p_vectors, 2)
            ),
            hint = 'Give vectors that this model has computed, or name the model that did.';
    end if;
    if array_length(p_vectors, 1) <> cardinality(p_ids) or cardinality(p_digests) <> cardinality(p_ids) then
        raise exception using
            errcode = '22023',
            message = format(
                'there are %s ids, but %s', cardinality(p_ids), case
                    when array_length(p_vectors, 1) <> cardinality(p_ids) then array_length(p_vectors, 1) || ' vectors'
                    else cardinality(p_digests) || ' digests' end
            ),
            hint = 'Give one vector for each id, in their order.';
    end if;
    if array_lower(p_vectors, 1) <> 1 or array_lower(p_vectors, 2) <> 1 or array_lower(p_ids, 1) <> 1 then
        raise exception using
            errcode = '22023',
            message = case
                when array_lower(p_ids, 1) <> 1 then format('p_ids is numbered from %s', array_lower(p_ids, 1))
                else format('p_vectors is numbered from %s and %s', array_lower(p_vectors, 1), array_lower(p_vectors, 2))
            end || ', but must be numbered from 1',
            hint = 'Write them without bounds of their own.';
    end if;
    select i into again from unnest(p_ids) as u (i) group by i having count(*) > 1 order by i limit 1;
    if found then
        raise exception using
            errcode = '22023', message = format('the id %s is given more than once', left(again, 100)),
            hint = 'Give each passage one vector.';
    end if;
end
$$;
alter function aiq.check_vectors(text[], real[], text[], text, int) owner to aiq_engine;
comment on function aiq.check_vectors(text[], real[], text[], text, int) is
    'Refuses vectors of another number or width than they must have';
revoke all on function aiq.check_vectors(text[], real[], text[], text, int) from public;

create or replace function aiq.passages_to_embed(p_source text, p_model text, p_limit int default 1000)
returns table (id text, title text, content text, digest text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    of_source int;
    of_model int;
begin
    select s.id into of_source from aiq.text_sources as s where s.name = p_source;
    if not found then
        perform aiq.refuse_text_source(p_source);
    end if;
    select m.id into of_model from aiq.embedding_models as m where m.name = p_model;
    if not found then
        perform aiq.refuse_embedding_model(p_model);
    end if;
    if p_limit is null or p_limit < 1 then
        raise exception using
            errcode = '22023',
            message = format('p_limit is %s, but must be at least 1', coalesce(p_limit::text, 'null')),
            hint = 'Write how many passages to give at most.';
    end if;
    return query
    select c.row_id, c.title, c.content, md5(c.content)
    from aiq.text_chunks as c
    where
        c.source_id = of_source
        and not exists (
            select from aiq.chunk_vectors as v
            where v.chunk_id = c.id and v.model_id = of_model
        )
    order by c.id
    limit p_limit;
end
$$;
alter function aiq.passages_to_embed(text, text, int) owner to aiq_engine;
comment on function aiq.passages_to_embed(text, text, int) is
    'The passages of a text source that a model has no vector of, new ones and changed ones, oldest first: every tenant''s, so a worker''s call';
revoke all on function aiq.passages_to_embed(text, text, int) from public;

-- pgvector, where it is

-- Not in SQL: that would be planned again at each call.
create or replace function aiq.vector_schema() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    schema text;
begin
    select n.nspname into schema
    from pg_extension as e
    join pg_namespace as n on n.oid = e.extnamespace
    where
        e.extname = 'vector'
        and has_schema_privilege('aiq_owner', n.oid, 'usage')
        and has_schema_privilege('aiq_engine', n.oid, 'usage');
    return schema;
end
$$;
alter function aiq.vector_schema() owner to aiq_owner;
comment on function aiq.vector_schema() is
    'The schema of the extension vector; null where it is not installed or closed to our roles';
revoke all on function aiq.vector_schema() from public;
grant execute on function aiq.vector_schema() to authenticated, aiq_worker, aiq_engine;

create or replace function aiq.drop_vector_index(p_model_id int) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    index constant regclass := to_regclass('aiq.chunk_vectors_model_' || p_model_id);
begin
    -- Not "if exists": that notices, where it does not, an index that nobody asked for.
    if index is not null then
        execute format('drop index %s', index);
    end if;
end
$$;
alter function aiq.drop_vector_index(int) owner to aiq_owner;
comment on function aiq.drop_vector_index(int) is 'Drops the approximate index over a model''s vectors, if there is one';
revoke all on function aiq.drop_vector_index(int) from public;
grant execute on function aiq.drop_vector_index(int) to aiq_engine;

create or replace function aiq.index_embeddings(p_model text, p_on boolean default true) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    model aiq.embedding_models;
    schema constant text := aiq.vector_schema();
begin
    select * into model from aiq.embedding_models as m where m.name = p_model;
    if not found then
        perform aiq.refuse_embedding_model(p_model);
    end if;
    if p_on is null then
        raise exception using
            errcode = '22023', message = 'p_on is null, but must be true or false',
            hint = 'Write true to make the index and false to drop it.';
    end if;
    perform aiq.drop_vector_index(model.id);
    if not p_on then
        return;
    end if;
    if model.dim > 2000 then
        raise exception using
            errcode = '22023',
            message = format('the vectors of model "%s" have %s numbers, but an HNSW index takes at most 2000', model.name, model.dim),
            hint = 'Search them exactly, which takes any width, or use a model with shorter vectors.';
    end if;
    if schema is null then
        raise exception using
            errcode = '55000',
            message = 'an approximate index takes the extension vector, which is not installed or closed to aiq_owner and aiq_engine',
            hint = 'As a superuser: create extension vector; and, if its schema is not everyone''s: grant usage on schema … to aiq_owner, aiq_engine; exact search needs neither.';
    end if;
    execute format(
        'create index %I on aiq.chunk_vectors using hnsw ((vector::%I.vector(%s)) %I.%I) where model_id = %s',
        'chunk_vectors_model_' || model.id, schema, model.dim, schema,
        case model.distance when 'cosine' then 'vector_cosine_ops' when 'l2' then 'vector_l2_ops' else 'vector_ip_ops' end,
        model.id
    );
end
$$;
alter function aiq.index_embeddings(text, boolean) owner to aiq_owner;
comment on function aiq.index_embeddings(text, boolean) is
    'Makes (true) or drops (false) the HNSW index over a model''s vectors that aiq.vector_search = ''approximate'' searches; at most 2000 numbers wide, with pgvector. Writers of vectors wait while it is made';
revoke all on function aiq.index_embeddings(text, boolean) from public;

grant execute on function
    aiq.register_embedding_model(text, int, text, boolean, text), aiq.unregister_embedding_model(text),
    aiq.put_embeddings(text, text, text[], real[], text[]), aiq.passages_to_embed(text, text, int),
    aiq.index_embeddings(text, boolean)
    to aiq_worker;
