-- What is searched of an entity: its title and body with their text search vector and,
-- where a model has written one, a vector. They are kept beside the node, in step with
-- the source row by the triggers of its registration, so that a search reads no table
-- of a product. A registration that asks for neither title nor body writes none of it.
--
-- A document goes with its node's retirement: what a row no longer says is kept nowhere.

create table if not exists aiq.entity_documents (
    node_id bigint primary key references aiq.nodes (id) on delete cascade,
    registration_id int not null,
    title text,
    body text,
    words tsvector not null,
    audience uuid,
    embedded_at timestamptz
);
alter table aiq.entity_documents owner to aiq_owner;
comment on table aiq.entity_documents is
    'The title, body and words of the entities that are searched; audience is a copy of the node''s, kept by trigger';
comment on column aiq.entity_documents.registration_id is
    'The registration in aiq.entity_tables that says how the row is read';
comment on column aiq.entity_documents.embedded_at is
    'When a vector of it was last written: a transaction that began before and changes the text then fails, since it could not see the vector';
create index if not exists entity_documents_words on aiq.entity_documents using gin (words);
create index if not exists entity_documents_registration on aiq.entity_documents (registration_id);

create table if not exists aiq.entity_vectors (
    node_id bigint not null references aiq.entity_documents (node_id) on delete cascade,
    model_id int not null references aiq.embedding_models (id) on delete cascade,
    norm float8 not null,
    vector real[] not null,
    written_at timestamptz not null default now(),
    primary key (model_id, node_id)
);
alter table aiq.entity_vectors owner to aiq_owner;
-- Numbers that look random do not compress: trying would only cost time.
alter table aiq.entity_vectors alter column vector set storage external;
comment on table aiq.entity_vectors is 'The vectors of entities'' documents, one a model';
comment on column aiq.entity_vectors.norm is 'The vector''s length';
create index if not exists entity_vectors_node on aiq.entity_vectors (node_id);

grant select, insert, update, delete on aiq.entity_documents, aiq.entity_vectors to aiq_engine;

do $$
declare
    item record;
begin
    for item in
        select * from (values
            ('entity_documents', 'audience is null or audience = any ((select rbac.caller_audiences())::uuid[])'),
            ('entity_vectors', '(select true from aiq.entity_documents as d where d.node_id = entity_vectors.node_id)')
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

-- From a registration to the statement that keeps its documents in step

create or replace function aiq.has_documents(p_entity aiq.entity_tables) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select p_entity.title_expr is not null or p_entity.body_expr is not null
$$;
alter function aiq.has_documents(aiq.entity_tables) owner to aiq_engine;
comment on function aiq.has_documents(aiq.entity_tables) is
    'Whether a registration asks for documents';
revoke all on function aiq.has_documents(aiq.entity_tables) from public;

-- The words are those of the first 100,000 characters: what the server's limit of a
-- megabyte for a text search vector always takes, so that no row is refused for it.
create or replace function aiq.document_words(p_configuration regconfig, p_title text, p_body text)
returns tsvector
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select
        setweight(to_tsvector(p_configuration, coalesce(left(p_title, 10000), '')), 'A')
        || setweight(to_tsvector(p_configuration, coalesce(left(p_body, 100000), '')), 'D')
$$;
alter function aiq.document_words(regconfig, text, text) owner to aiq_engine;
comment on function aiq.document_words(regconfig, text, text) is
    'The text search vector of a title, of weight A, and a body, of weight D';
revoke all on function aiq.document_words(regconfig, text, text) from public;

create or replace function aiq.document_projection(p_entity aiq.entity_tables, p_rows text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select format(
        E'select%s %s as source_pk,\n        (\n%s\n)::text as title,\n        (\n%s\n)::text as body\n'
        '    from (%s) as %I where (\n%s\n)%s',
        case when p_entity.may_repeat then ' distinct on (' || key_text || ')' else '' end,
        key_text, coalesce(p_entity.title_expr, 'null'), coalesce(p_entity.body_expr, 'null'),
        p_rows, p_entity.row_name, coalesce(p_entity.include_where, 'true'),
        case when p_entity.may_repeat then ' order by ' || key_text else '' end
    )
    from (select aiq.key_text(p_entity.key_columns, p_entity.row_name)) as k (key_text)
$$;
alter function aiq.document_projection(aiq.entity_tables, text) owner to aiq_engine;
comment on function aiq.document_projection(aiq.entity_tables, text) is
    'The query for the titles and bodies that rows say: one row each for those that are included';
revoke all on function aiq.document_projection(aiq.entity_tables, text) from public;

-- Run after the statement for nodes and keys, whose nodes it finds. Only what has
-- changed is parsed again; a rebuild parses everything, since the configuration may
-- read it differently now. Documents are locked in the order of their ids, as every
-- writer locks them.
create or replace function aiq.document_statement(p_entity aiq.entity_tables, p_touched text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select case when p_touched is null then 'with ' else format(
        E'with touched as materialized (%s),\n', p_touched
    ) end || format(
        $statement$projected as materialized (
    %1$s
),
known as materialized (
    select
        n.id as node_id, n.audience, s.title, p.body, d.node_id is not null as was_there,
        case
            when d.node_id is null or %6$s or (d.title, d.body) is distinct from (s.title, p.body)
                then aiq.document_words(%5$s::regconfig, s.title, p.body)
            else d.words
        end as words,
        d.title as title_then, d.body as body_then, d.words as words_then,
        d.audience as audience_then, d.registration_id as registration_then
    from projected as p
    cross join lateral (
        select o.id, o.audience, o.summary from aiq.nodes as o
        where
            o.source_table = %2$L and o.source_pk = p.source_pk
            and o.entity_type is not distinct from %3$L and o.retired_at is null
        offset 0
    ) as n
    cross join lateral (select coalesce(p.title, n.summary)) as s (title)
    left join lateral (
        select o.* from aiq.entity_documents as o where o.node_id = n.id offset 0
    ) as d on true
),
held as materialized (
    select d.node_id from aiq.entity_documents as d
    where d.node_id = any (array(
        select k.node_id from known as k
        where
            k.was_there
            and (k.title_then, k.body_then, k.words_then, k.audience_then, k.registration_then)
            is distinct from (k.title, k.body, k.words, k.audience, %4$s)
    ))
    order by d.node_id for no key update
),
updated as (
    update aiq.entity_documents as d
    set
        title = k.title, body = k.body, words = k.words, audience = k.audience,
        registration_id = %4$s
    from held as h
    join known as k on k.node_id = h.node_id
    where d.node_id = h.node_id
    returning 1
)
insert into aiq.entity_documents (node_id, registration_id, title, body, words, audience)
select k.node_id, %4$s, k.title, k.body, k.words, k.audience
from known as k
where not k.was_there
order by k.node_id$statement$,
        aiq.document_projection(
            p_entity,
            aiq.source_rows(p_entity.source, p_entity.key_columns, p_entity.key_operators, p_touched)
        ),
        p_entity.source_table, p_entity.entity_type, p_entity.id, p_entity.configuration::oid,
        case when p_touched is null then 'true' else 'false' end
    )
$$;
alter function aiq.document_statement(aiq.entity_tables, text) owner to aiq_engine;
comment on function aiq.document_statement(aiq.entity_tables, text) is
    'The statement that makes documents agree with a table''s rows: all of them or those that a statement touched';
revoke all on function aiq.document_statement(aiq.entity_tables, text) from public;

-- The statements are dynamic, as those that copy a node's scope onto its keys and edges.
create or replace function aiq.spread_to_documents() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    execute $statement$
        with spreading as materialized (
            select a.id, a.audience, a.retired_at is not null as retires
            from after_change as a
            join before_change as b on b.id = a.id
            where
                (a.audience, a.retired_at is not null)
                is distinct from (b.audience, b.retired_at is not null)
        ),
        held as materialized (
            select d.node_id from aiq.entity_documents as d
            where d.node_id = any (array(select s.id from spreading as s))
            order by d.node_id for update
        ),
        gone as (
            delete from aiq.entity_documents as d
            using held as h join spreading as s on s.id = h.node_id
            where d.node_id = h.node_id and s.retires
        )
        update aiq.entity_documents as d
        set audience = s.audience
        from held as h join spreading as s on s.id = h.node_id
        where d.node_id = h.node_id and not s.retires and d.audience is distinct from s.audience
    $statement$;
    return null;
end
$$;
alter function aiq.spread_to_documents() owner to aiq_engine;
comment on function aiq.spread_to_documents() is
    'Trigger: carries a change of a node''s scope to its document, which goes when the node retires';
revoke all on function aiq.spread_to_documents() from public;

create or replace trigger nodes_spread_to_documents after update on aiq.nodes
referencing old table as before_change new table as after_change
for each statement execute function aiq.spread_to_documents();

-- A vector is of a text: when that changes, the vector goes.
create or replace function aiq.drop_stale_vectors() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    execute $statement$
        delete from aiq.entity_vectors as v
        using after_change as a
        join before_change as b on b.node_id = a.node_id
        where v.node_id = a.node_id and (a.title, a.body) is distinct from (b.title, b.body)
    $statement$;
    return null;
end
$$;
alter function aiq.drop_stale_vectors() owner to aiq_engine;
comment on function aiq.drop_stale_vectors() is
    'Trigger: drops the vectors of documents whose text has changed';
revoke all on function aiq.drop_stale_vectors() from public;

create or replace trigger entity_documents_vectors after update on aiq.entity_documents
referencing old table as before_change new table as after_change
for each statement execute function aiq.drop_stale_vectors();

-- Vectors, as a worker writes them

create or replace function aiq.document_content(p_title text, p_body text) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select concat_ws(E'\n\n', p_title, p_body)
$$;
alter function aiq.document_content(text, text) owner to aiq_engine;
comment on function aiq.document_content(text, text) is 'The text of a document that a vector is of';
revoke all on function aiq.document_content(text, text) from public;

create or replace function aiq.nodes_of_handles(p_handles text[])
returns table (place bigint, node_id bigint)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select u.place, n.id
    from unnest(p_handles) with ordinality as u (handle, place)
    cross join lateral (
        select substring(h.folded from '^(.+)-(?:0|[1-9][0-9]{0,17})$') as prefix,
            substring(h.folded from '^.+-(0|[1-9][0-9]{0,17})$')::bigint as number
        from (select lower(u.handle)) as h (folded)
    ) as h
    join aiq.entity_types as t on lower(t.handle_prefix) = h.prefix
    join aiq.nodes as n
        on n.entity_type = t.name
        and case when n.handle_number is null then n.id else n.handle_number end = h.number
$$;
alter function aiq.nodes_of_handles(text[]) owner to aiq_engine;
comment on function aiq.nodes_of_handles(text[]) is
    'The nodes of handles, by the handles'' places: every tenant''s';
revoke all on function aiq.nodes_of_handles(text[]) from public;

create or replace function aiq.put_entity_embeddings(
    p_model text, p_ids text[], p_vectors real[], p_digests text[] default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set extra_float_digits = 1
as $$
declare
    model aiq.embedding_models;
    nodes bigint[];
    wrong record;
begin
    -- The model's width must hold until the vectors are written.
    select * into model from aiq.embedding_models as m where m.name = p_model for share;
    if not found then
        perform aiq.refuse_embedding_model(p_model);
    end if;
    perform aiq.check_vectors(p_ids, p_vectors, p_digests, model.name, model.dim);
    if cardinality(p_ids) = 0 then
        return 0;
    end if;
    select array_agg(d.node_id order by u.place) into nodes
    from unnest(p_ids) with ordinality as u (handle, place)
    left join aiq.nodes_of_handles(p_ids) as h on h.place = u.place
    left join aiq.entity_documents as d on d.node_id = h.node_id;
    select u.handle into wrong
    from unnest(p_ids, nodes) with ordinality as u (handle, node_id, place)
    where u.node_id is null order by u.place limit 1;
    if found then
        raise exception using
            errcode = 'P0002',
            message = format('no searched entity has the handle "%s"', left(wrong.handle, 100)),
            hint = 'Give handles as aiq.entities_to_embed tells them.';
    end if;
    select string_agg(u.handle, ', ' order by u.place) as handles into wrong
    from unnest(p_ids, nodes) with ordinality as u (handle, node_id, place)
    group by u.node_id having count(*) > 1 order by min(u.place) limit 1;
    if found then
        raise exception using
            errcode = '22023',
            message = format('p_ids names an entity more than once: %s', left(wrong.handles, 100)),
            hint = 'Give each entity one vector.';
    end if;
    -- Held until the end, so that no text changes between being looked at and having
    -- its vector; and written, so that a transaction with an older snapshot fails to
    -- change what it says.
    perform from aiq.entity_documents as d where d.node_id = any (nodes)
    order by d.node_id for no key update;
    update aiq.entity_documents as d set embedded_at = now() where d.node_id = any (nodes);
    select u.handle into wrong
    from unnest(p_ids, nodes, p_digests) with ordinality as u (handle, node_id, digest, place)
    left join aiq.entity_documents as d on d.node_id = u.node_id
    where
        d.node_id is null
        or (p_digests is not null and md5(aiq.document_content(d.title, d.body)) is distinct from u.digest)
    order by u.place limit 1;
    if found then
        raise exception using
            errcode = '55000',
            message = format('the entity %s has changed since it was read', left(wrong.handle, 100)),
            hint = 'Ask aiq.entities_to_embed again, and embed what it says now.';
    end if;
    with given as materialized (
        select u.handle, u.node_id, g.*
        from unnest(p_ids, nodes) with ordinality as u (handle, node_id, place)
        join aiq.given_vectors(p_vectors, model.dim, model.distance) as g using (place)
    ),
    faults as materialized (
        select g.handle, g.fault from given as g where g.fault is not null order by g.place limit 1
    ),
    put as (
        insert into aiq.entity_vectors as v (node_id, model_id, norm, vector)
        select g.node_id, model.id, g.norm, g.vector
        from given as g
        where not exists (select from faults)
        order by g.node_id
        on conflict (model_id, node_id) do update
        set vector = excluded.vector, norm = excluded.norm, written_at = excluded.written_at
        where v.vector <> excluded.vector
        returning 1
    )
    select f.handle, f.fault, (select count(*) from put) as number
    into wrong
    from (values (1)) as one left join faults as f on true;
    if wrong.fault is not null then
        raise exception using
            errcode = '22023',
            message = format('the vector of %s %s', left(wrong.handle, 100), wrong.fault),
            hint = 'Give finite numbers; nothing has been written.';
    end if;
    return cardinality(p_ids);
end
$$;
alter function aiq.put_entity_embeddings(text, text[], real[], text[]) owner to aiq_engine;
comment on function aiq.put_entity_embeddings(text, text[], real[], text[]) is
    'Writes the vectors that a model has computed for entities, all or none, over those that are there: p_ids, the entities'' handles; p_vectors, an array of as many vectors of the model''s width; p_digests, as aiq.entities_to_embed told them, to be refused where a text has changed since. Returns how many';
revoke all on function aiq.put_entity_embeddings(text, text[], real[], text[]) from public;

create or replace function aiq.entities_to_embed(p_model text, p_limit int default 1000)
returns table (id text, title text, content text, digest text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    of_model int;
begin
    select m.id into of_model from aiq.embedding_models as m where m.name = p_model;
    if not found then
        perform aiq.refuse_embedding_model(p_model);
    end if;
    if p_limit is null or p_limit < 1 then
        raise exception using
            errcode = '22023',
            message = format('p_limit is %s, but must be at least 1', coalesce(p_limit::text, 'null')),
            hint = 'Write how many entities to give at most.';
    end if;
    return query
    select
        t.handle_prefix || '-' || case when n.handle_number is null then n.id else n.handle_number end::text,
        d.title, c.content, md5(c.content)
    from aiq.entity_documents as d
    join aiq.nodes as n on n.id = d.node_id
    join aiq.entity_types as t on t.name = n.entity_type
    cross join lateral (select aiq.document_content(d.title, d.body)) as c (content)
    where
        c.content <> ''
        and not exists (
            select from aiq.entity_vectors as v where v.node_id = d.node_id and v.model_id = of_model
        )
    order by d.node_id
    limit p_limit;
end
$$;
alter function aiq.entities_to_embed(text, int) owner to aiq_engine;
comment on function aiq.entities_to_embed(text, int) is
    'The entities that a model has no vector of, new ones and changed ones, oldest first: id is the handle; every tenant''s, so a worker''s call';
revoke all on function aiq.entities_to_embed(text, int) from public;

grant execute on function
    aiq.put_entity_embeddings(text, text[], real[], text[]), aiq.entities_to_embed(text, int)
    to aiq_worker;
