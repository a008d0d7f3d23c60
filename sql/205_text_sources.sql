-- Tables read as passages of text, for search. A registration names a table's id
-- and content columns; the triggers of the file before keep the passages in step,
-- as they do nodes and edges: rows that say what they said before write nothing.
--
-- A passage's content is stored with its text search vector, so that a rank is
-- computed without the source. Who sees a passage is decided like everything else,
-- by its audience.

create table if not exists aiq.text_sources (
    id int generated always as identity primary key,
    name text collate "C" not null unique check (name <> ''),
    source regclass not null,
    source_table text collate "C" not null,
    row_name text collate "C" not null,
    id_column text collate "C" not null,
    id_is_number boolean not null,
    content_column text collate "C" not null,
    title_column text collate "C",
    configuration regconfig not null,
    org_expr text,
    visibility_expr text,
    owner_expr text,
    include_where text,
    description text,
    key_columns text[] not null,
    key_operators text[] not null,
    may_repeat boolean not null,
    members regclass[] not null,
    paused boolean not null default false,
    registered_by text not null,
    registered_at timestamptz not null default now()
);
alter table aiq.text_sources owner to aiq_owner;
comment on table aiq.text_sources is
    'Which tables are read as passages of text, by which columns and expressions';
comment on column aiq.text_sources.id_is_number is
    'Whether the ids are whole numbers, which are shown and ordered as such';
comment on column aiq.text_sources.may_repeat is
    'Whether an id can occur twice, as in a table and its inheritance child';

create table if not exists aiq.text_chunks (
    id bigint generated always as identity primary key,
    source_id int not null references aiq.text_sources (id) on delete cascade,
    row_id text collate "C" not null,
    row_number bigint,
    title text,
    content text not null,
    words tsvector not null,
    org_id uuid,
    visibility text collate "C" not null default 'org'
        check (visibility in ('public', 'org', 'private')),
    owner_id uuid,
    audience uuid generated always as (
        case visibility
            when 'org' then org_id
            when 'private' then md5('private:' || owner_id::text)::uuid
        end
    ) stored,
    embedded_at timestamptz,
    constraint text_chunks_private_has_owner check (visibility <> 'private' or owner_id is not null),
    unique (source_id, row_id)
);
alter table aiq.text_chunks owner to aiq_owner;
comment on table aiq.text_chunks is
    'The passages: the rows of the text sources, each with its content, its text search vector and its scope';
comment on column aiq.text_chunks.row_id is 'The row''s id as text';
comment on column aiq.text_chunks.row_number is 'The row''s id where ids are whole numbers';
comment on column aiq.text_chunks.embedded_at is
    'When a vector of it was last written: a transaction that began before and changes the content then fails, since it could not see the vector';
create index if not exists text_chunks_words on aiq.text_chunks using gin (words);

grant select, insert, update, delete on aiq.text_sources, aiq.text_chunks to aiq_engine;
grant usage on sequence aiq.text_sources_id_seq, aiq.text_chunks_id_seq to aiq_engine;

do $$
declare
    item record;
begin
    for item in
        select * from (values
            ('text_sources', 'true'),
            ('text_chunks', 'audience is null or audience = any ((select rbac.caller_audiences())::uuid[])')
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

-- What callers read

create or replace view aiq.text_sources_api with (security_barrier) as
    select s.name, s.configuration::text as configuration, s.description
    from aiq.text_sources as s
    where (select rbac.caller_audiences()) is not null;
alter view aiq.text_sources_api owner to aiq_owner;
comment on view aiq.text_sources_api is 'The text sources, each with its text search configuration';

create or replace view aiq.passages with (security_barrier) as
    select
        c.id as passage_id, s.name as source, c.row_id as id, c.row_number as number, c.title,
        c.content, c.org_id, c.visibility, c.owner_id
    from aiq.text_chunks as c
    join aiq.text_sources as s on s.id = c.source_id
    where (select rbac.caller_audiences()) is not null;
alter view aiq.passages owner to aiq_owner;
comment on view aiq.passages is
    'The passages of the text sources: id is the row''s own id as text, number the same where ids are whole numbers, passage_id a number over all sources';
grant select on aiq.text_sources_api, aiq.passages to authenticated, aiq_worker, aiq_engine;

-- From a registration to the statements that keep it in step

create or replace function aiq.text_key(
    p_source regclass, p_column text, out columns text[], out operators text[]
)
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select array[a.attname::text], array[format('operator(%I.%s)', n.nspname, o.oprname)]
    from pg_index as x
    join pg_attribute as a on a.attrelid = x.indrelid and a.attnum = x.indkey[0]
    join pg_opclass as c on c.oid = x.indclass[0]
    join pg_amop as m
        on m.amopfamily = c.opcfamily and m.amopstrategy = 3
        and m.amoplefttype = c.opcintype and m.amoprighttype = c.opcintype
    join pg_operator as o on o.oid = m.amopopr
    join pg_namespace as n on n.oid = o.oprnamespace
    where
        x.indrelid = p_source and a.attname = p_column and a.attnotnull and x.indnkeyatts = 1
        and x.indisunique and x.indimmediate and x.indisvalid
        and x.indpred is null and x.indexprs is null
    order by not x.indisprimary, x.indexrelid
    limit 1
$$;
alter function aiq.text_key(regclass, text) owner to aiq_engine;
comment on function aiq.text_key(regclass, text) is
    'A column by which a table''s rows are told apart, and the operator that compares it; nulls if a row''s value need not be there or need not be unique';
revoke all on function aiq.text_key(regclass, text) from public;

create or replace function aiq.text_projection(p_source aiq.text_sources, p_rows text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select format(
        E'select%s %s as row_id,\n'
        '        %s::bigint as row_number, %s::text as title, %s::text as content,\n'
        '        (\n%s\n)::uuid as org_id, coalesce((\n%s\n)::text, ''org'') as visibility,\n'
        '        (\n%s\n)::uuid as owner_id\n'
        '    from (%s) as %I where %s is not null and (\n%s\n)::boolean%s',
        case when p_source.may_repeat then ' distinct on (' || key_text || ')' else '' end,
        key_text,
        case when p_source.id_is_number
            then format('(%I.%I)', p_source.row_name, p_source.id_column) else 'null' end,
        case when p_source.title_column is null then 'null'
            else format('(%I.%I)', p_source.row_name, p_source.title_column) end,
        content,
        coalesce(p_source.org_expr, 'null'), coalesce(p_source.visibility_expr, 'null'),
        coalesce(p_source.owner_expr, 'null'), p_rows, p_source.row_name, content,
        coalesce(p_source.include_where, 'true'),
        case when p_source.may_repeat then ' order by ' || key_text else '' end
    )
    from (select
        aiq.key_text(p_source.key_columns, p_source.row_name),
        format('(%I.%I)', p_source.row_name, p_source.content_column)
    ) as k (key_text, content)
$$;
alter function aiq.text_projection(aiq.text_sources, text) owner to aiq_engine;
comment on function aiq.text_projection(aiq.text_sources, text) is
    'The query for the passages that rows say: one row each for those that are included and have content';
revoke all on function aiq.text_projection(aiq.text_sources, text) from public;

-- Only what has changed is parsed again; a rebuild parses everything, since the
-- configuration may read it differently now. Passages are locked in the order of their
-- ids, as every writer locks them.
create or replace function aiq.text_statement(p_source_id int, p_touched text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select case when p_touched is null then 'with ' else format(
        E'with touched as materialized (%s),\ntouched_keys as materialized (select %s as row_id from touched as %I),\n',
        p_touched, aiq.key_text(t.key_columns, t.row_name), t.row_name
    ) end || format(
        $statement$projected as materialized (
    %2$s
),
known as materialized (
    select
        p.*, c.id as chunk_id,
        case
            when %3$s or c.id is null or c.content <> p.content then to_tsvector(%4$s::regconfig, p.content)
            else c.words
        end as words,
        c.title as title_then, c.content as content_then, c.words as words_then,
        c.org_id as org_id_then, c.visibility as visibility_then, c.owner_id as owner_id_then
    from projected as p
    left join lateral (
        select o.* from aiq.text_chunks as o
        where o.source_id = %1$s and o.row_id = p.row_id
        offset 0
    ) as c on true
),
held as materialized (
    select c.id
    from known as k
    join aiq.text_chunks as c on c.id = k.chunk_id
    where (
        k.title_then, k.content_then, k.words_then, k.org_id_then, k.visibility_then, k.owner_id_then
    ) is distinct from (
        k.title, k.content, k.words, k.org_id, k.visibility, k.owner_id
    )
    order by c.id for no key update of c
),
updated as (
    update aiq.text_chunks as c
    set title = k.title, content = k.content, words = k.words, org_id = k.org_id,
        visibility = k.visibility, owner_id = k.owner_id
    from held as h
    join known as k on k.chunk_id = h.id
    where c.id = h.id
    returning 1
),
inserted as (
    insert into aiq.text_chunks (
        source_id, row_id, row_number, title, content, words, org_id, visibility, owner_id
    )
    select
        %1$s, k.row_id, k.row_number, k.title, k.content, k.words, k.org_id, k.visibility, k.owner_id
    from known as k
    where k.chunk_id is null
    order by k.row_number, k.row_id
    returning 1
),
gone as materialized (
    %5$s
    except
    select row_id from projected
),
leaving as materialized (
    select c.id
    from gone as g
    cross join lateral (
        select o.id from aiq.text_chunks as o
        where o.source_id = %1$s and o.row_id = g.row_id
        offset 0
    ) as l
    join aiq.text_chunks as c on c.id = l.id
    order by c.id for update of c
),
deleted as (
    delete from aiq.text_chunks as c
    using leaving as l
    where c.id = l.id
    returning 1
)
select
    (select count(*) from inserted) as inserted, (select count(*) from updated) as updated,
    (select count(*) from deleted) as deleted$statement$,
        t.id,
        aiq.text_projection(t, aiq.source_rows(t.source, t.key_columns, t.key_operators, p_touched)),
        case when p_touched is null then 'true' else 'false' end, t.configuration::oid,
        case when p_touched is not null then 'select row_id from touched_keys'
            else format('select row_id from aiq.text_chunks where source_id = %s', t.id) end
    )
    from aiq.text_sources as t where t.id = p_source_id
$$;
alter function aiq.text_statement(int, text) owner to aiq_engine;
comment on function aiq.text_statement(int, text) is
    'The statement that makes passages agree with a table''s rows: all of them or those that a statement touched';
revoke all on function aiq.text_statement(int, text) from public;

create or replace function aiq.drop_truncated_text(p_source_id int) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    source aiq.text_sources;
begin
    select * into source from aiq.text_sources as t where t.id = p_source_id;
    execute format(
        $statement$
delete from aiq.text_chunks as c
where c.source_id = %s and not exists (select from %s as s where %s = c.row_id)$statement$,
        source.id, aiq.source_name(source.source), aiq.key_text(source.key_columns, 's')
    );
end
$$;
alter function aiq.drop_truncated_text(int) owner to aiq_engine;
comment on function aiq.drop_truncated_text(int) is
    'Removes the passages of a text source whose rows are no longer there';
revoke all on function aiq.drop_truncated_text(int) from public;

-- Failures

create or replace function aiq.refuse_text_rows(
    p_source_id int, p_keys text[], p_sqlstate text, p_message text, p_detail text
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    source aiq.text_sources;
    keys text[] := p_keys;
    projection text;
    found_row text;
    cause text;
begin
    select * into source from aiq.text_sources as t where t.id = p_source_id;
    keys := coalesce(keys, aiq.all_keys(source.source, source.key_columns));
    projection := aiq.text_projection(source, aiq.some_rows(source.source, source.key_columns));
    select f.failing, f.message into found_row, cause
    from aiq.failing_row(
        format(
            'select p.*, to_tsvector(%s::regconfig, p.content) as words from (%s) as p',
            source.configuration::oid, projection
        ),
        keys
    ) as f;
    if cause is null then
        execute format(
            $query$
select q.row_id, f.message
from (%s) as q
cross join lateral (select case
    when q.visibility not in ('public', 'org', 'private')
        then format('visibility is "%%s", but must be public, org or private', q.visibility)
    when q.visibility = 'private' and q.owner_id is null then 'a private row must have an owner'
    when octet_length(q.row_id) > 2000
        then format('its id of %%s bytes is longer than 2000', octet_length(q.row_id))
    end) as f (message)
where f.message is not null
limit 1$query$,
            projection
        ) into found_row, cause using keys;
    end if;
    raise exception using
        errcode = '22023',
        message = format(
            '%s %s cannot be read as a passage of "%s": %s',
            coalesce('the row ' || left(found_row, 100) || ' of', 'a row of'), source.source_table,
            source.name, coalesce(cause, p_message)
        ),
        detail = concat_ws(' ', p_sqlstate, p_message, nullif(p_detail, '')),
        hint = format(
            'Correct the row, or call aiq.register_text_source(''%s'', ''%s'', …) with columns and expressions that hold for it.',
            source.name, source.source_table
        );
end
$$;
alter function aiq.refuse_text_rows(int, text[], text, text, text) owner to aiq_engine;
comment on function aiq.refuse_text_rows(int, text[], text, text, text) is
    'Raises the error that names the text source, the row and the cause';
revoke all on function aiq.refuse_text_rows(int, text[], text, text, text) from public;

create or replace function aiq.require_text_columns(p_source_id int) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    source aiq.text_sources;
    missing text[];
begin
    select * into source from aiq.text_sources as t where t.id = p_source_id;
    missing := aiq.missing_columns(
        source.source, array_remove(array[source.id_column, source.content_column, source.title_column], null)
    );
    if missing <> '{}' then
        raise exception using
            errcode = '55000',
            message = format(
                '%s is read as passages of "%s", but has no column %s any more',
                aiq.source_name(source.source), source.name, array_to_string(missing, ', ')
            ),
            hint = format(
                'Register it again with its columns of now: select aiq.register_text_source(%L, %L, …); or release it: select aiq.unregister_text_source(%L);',
                source.name, source.source_table, source.name
            );
    end if;
end
$$;
alter function aiq.require_text_columns(int) owner to aiq_engine;
comment on function aiq.require_text_columns(int) is
    'Refuses a text source whose table has lost columns that are read';
revoke all on function aiq.require_text_columns(int) from public;

create or replace function aiq.refuse_text_source(p_name text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = '42704',
        message = format('there is no text source %s', coalesce('"' || p_name || '"', 'null')),
        hint = coalesce('Write one of: ' || (
            select string_agg(t.name, ', ' order by t.place)
            from (
                select s.name, row_number() over (
                    order by @trgm@.similarity(s.name, coalesce(p_name, '')) desc, s.name
                ) as place
                from aiq.text_sources as s
            ) as t
            where t.place <= 5
        ), 'Register one with aiq.register_text_source.');
end
$$;
alter function aiq.refuse_text_source(text) owner to aiq_owner;
comment on function aiq.refuse_text_source(text) is
    'Refuses a text source that is not there and names those that are, the likeliest first';
revoke all on function aiq.refuse_text_source(text) from public;
grant execute on function aiq.refuse_text_source(text) to aiq_engine;

-- The work of the requests, run as the engine

create or replace function aiq.rebuild_text_rows(p_source_id int) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set standard_conforming_strings = on
set transform_null_equals = off
set row_security = on
set quote_all_identifiers = off
set datestyle = 'ISO, YMD'
set intervalstyle = postgres
set timezone = 'UTC'
set bytea_output = hex
set extra_float_digits = 1
as $$
declare
    source aiq.text_sources;
    report record;
    code text;
    what text;
    detail text;
begin
    select * into source from aiq.text_sources as t where t.id = p_source_id;
    if aiq.source_name(source.source) is null then
        with deleted as (
            delete from aiq.text_chunks as c where c.source_id = p_source_id returning 1
        )
        select 0 as inserted, 0 as updated, count(*) as deleted into report from deleted;
    else
        perform aiq.require_readable(source.source);
        begin
            execute aiq.text_statement(p_source_id, null) into report;
        exception when others then
            get stacked diagnostics code = returned_sqlstate, what = message_text,
                detail = pg_exception_detail;
            if aiq.passes_as_it_is(code) then
                raise;
            end if;
            perform aiq.require_text_columns(p_source_id);
            perform aiq.refuse_text_rows(p_source_id, null, code, what, detail);
        end;
    end if;
    return to_jsonb(report) || jsonb_build_object('name', source.name, 'source_table', source.source_table);
end
$$;
alter function aiq.rebuild_text_rows(int) owner to aiq_engine;
comment on function aiq.rebuild_text_rows(int) is
    'Makes passages agree with a table in one pass and tells how many it wrote';
revoke all on function aiq.rebuild_text_rows(int) from public;

create or replace function aiq.check_text_column(p_source regclass, p_parameter text, p_column text)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from pg_attribute as a
        where a.attrelid = p_source and a.attname = p_column and a.attnum > 0 and not a.attisdropped
    ) then
        raise exception using
            errcode = '22023',
            message = format(
                '%s is %s, which is no column of %s', p_parameter,
                coalesce('"' || p_column || '"', 'null'), aiq.source_name(p_source)
            ),
            hint = 'Write one of: ' || (
                select string_agg(a.attname, ', ' order by a.attnum) from pg_attribute as a
                where a.attrelid = p_source and a.attnum > 0 and not a.attisdropped
            );
    end if;
end
$$;
alter function aiq.check_text_column(regclass, text, text) owner to aiq_engine;
comment on function aiq.check_text_column(regclass, text, text) is 'Refuses a column that a table does not have';
revoke all on function aiq.check_text_column(regclass, text, text) from public;

create or replace function aiq.is_whole_number(p_source regclass, p_column text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with recursive base (oid) as (
        select a.atttypid from pg_attribute as a where a.attrelid = p_source and a.attname = p_column
        union
        select t.typbasetype from base join pg_type as t on t.oid = base.oid where t.typtype = 'd'
    )
    select exists (
        select from base where oid in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
    )
$$;
alter function aiq.is_whole_number(regclass, text) owner to aiq_engine;
comment on function aiq.is_whole_number(regclass, text) is 'Whether a column holds integers, or a domain of them';
revoke all on function aiq.is_whole_number(regclass, text) from public;

create or replace function aiq.do_register_text(
    p_source regclass, p_arguments jsonb, p_requested_by text
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    source aiq.text_sources := jsonb_populate_record(null::aiq.text_sources, p_arguments);
    other aiq.text_sources;
    item record;
begin
    if coalesce(btrim(source.name), '') = '' then
        raise exception using
            errcode = '22023',
            message = format('p_name is %s, but must name the source', coalesce('"' || source.name || '"', 'null')),
            hint = 'Write the name that queries will use, such as ''notes''.';
    end if;
    if source.configuration is null then
        raise exception using
            errcode = '22023', message = 'p_configuration is null, but must be a text search configuration',
            hint = 'Write one of pg_ts_config, such as ''english'' or ''simple''.';
    end if;
    perform aiq.require_readable(p_source);
    perform aiq.follow_names(p_source);
    source.source := p_source;
    source.source_table := aiq.source_name(p_source);
    select * into other from aiq.text_sources as t where t.name = source.name;
    if found and other.source <> p_source and aiq.source_name(other.source) is not null then
        raise exception using
            errcode = '22023',
            message = format('the text source "%s" is %s already', source.name, other.source_table),
            hint = format('Choose another name, or release it first: select aiq.unregister_text_source(%L);', source.name);
    elsif found and other.source <> p_source then
        perform aiq.require_registrant(other.registered_by, p_requested_by, other.source_table);
    end if;
    source.id := other.id;
    source.row_name := (select c.relname from pg_class as c where c.oid = p_source);
    for item in
        select * from (values
            ('p_id_column', source.id_column, true), ('p_content_column', source.content_column, true),
            ('p_title_column', source.title_column, false)
        ) as t (parameter, name, needed)
    loop
        if item.needed or item.name is not null then
            perform aiq.check_text_column(p_source, item.parameter, item.name);
        end if;
    end loop;
    select k.columns, k.operators into source.key_columns, source.key_operators
    from aiq.text_key(p_source, source.id_column) as k;
    if source.key_columns is null then
        raise exception using
            errcode = '22023',
            message = format(
                'p_id_column is "%s", by which the rows of %s cannot be told apart: it may be null or repeat',
                source.id_column, source.source_table
            ),
            hint = format(
                'Write a column that is not null and unique by itself, or make it so: alter table %s alter %I set not null, add unique (%I);',
                source.source_table, source.id_column, source.id_column
            );
    end if;
    source.id_is_number := aiq.is_whole_number(p_source, source.id_column);
    source.members := aiq.source_tree(p_source);
    source.may_repeat := cardinality(source.members) > 1
        and (select c.relkind from pg_class as c where c.oid = p_source) = 'r';
    for item in
        select * from (values
            ('p_org_expr', source.org_expr, 'uuid'), ('p_visibility_expr', source.visibility_expr, 'text'),
            ('p_owner_expr', source.owner_expr, 'uuid'), ('p_include_where', source.include_where, 'boolean')
        ) as t (parameter, expression, type)
    loop
        perform aiq.expression_type(p_source, source.row_name, item.parameter, item.expression, item.type);
    end loop;
    source.paused := false;
    source.registered_by := p_requested_by;
    source.registered_at := now();
    perform aiq.put_text_source(source);
    select t.id into source.id from aiq.text_sources as t where t.name = source.name;
    perform aiq.put_triggers(p_source);
    return aiq.rebuild_text_rows(source.id);
end
$$;
alter function aiq.do_register_text(regclass, jsonb, text) owner to aiq_engine;
comment on function aiq.do_register_text(regclass, jsonb, text) is 'The engine''s part of aiq.register_text_source';
revoke all on function aiq.do_register_text(regclass, jsonb, text) from public;

-- Its row stays where there is one: passages and their vectors hang on it.
create or replace function aiq.put_text_source(p_source aiq.text_sources) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    insert into aiq.text_sources as t (
        name, source, source_table, row_name, id_column, id_is_number, content_column, title_column,
        configuration, org_expr, visibility_expr, owner_expr, include_where, description,
        key_columns, key_operators, may_repeat, members, paused, registered_by, registered_at
    )
    values (
        p_source.name, p_source.source, p_source.source_table, p_source.row_name, p_source.id_column,
        p_source.id_is_number, p_source.content_column, p_source.title_column,
        p_source.configuration, p_source.org_expr, p_source.visibility_expr, p_source.owner_expr,
        p_source.include_where, p_source.description, p_source.key_columns, p_source.key_operators,
        p_source.may_repeat, p_source.members, p_source.paused, p_source.registered_by,
        p_source.registered_at
    )
    on conflict (name) do update
    set source = excluded.source, source_table = excluded.source_table, row_name = excluded.row_name,
        id_column = excluded.id_column, id_is_number = excluded.id_is_number,
        content_column = excluded.content_column, title_column = excluded.title_column,
        configuration = excluded.configuration, org_expr = excluded.org_expr,
        visibility_expr = excluded.visibility_expr, owner_expr = excluded.owner_expr,
        include_where = excluded.include_where, description = excluded.description,
        key_columns = excluded.key_columns, key_operators = excluded.key_operators,
        may_repeat = excluded.may_repeat, members = excluded.members, paused = excluded.paused,
        registered_by = excluded.registered_by, registered_at = excluded.registered_at;
    -- Another column's ids are other passages', even where they read the same.
    delete from aiq.text_chunks as c
    using aiq.text_sources as t
    where
        t.name = p_source.name and c.source_id = t.id
        and c.row_number is not null <> t.id_is_number
$$;
alter function aiq.put_text_source(aiq.text_sources) owner to aiq_engine;
comment on function aiq.put_text_source(aiq.text_sources) is 'Writes a text source, over that of the same name if there is one';
revoke all on function aiq.put_text_source(aiq.text_sources) from public;

create or replace function aiq.text_source_table(p_name text) returns regclass
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    found_source regclass;
begin
    select t.source into found_source from aiq.text_sources as t where t.name = p_name;
    if not found then
        perform aiq.refuse_text_source(p_name);
    end if;
    return found_source;
end
$$;
alter function aiq.text_source_table(text) owner to aiq_engine;
comment on function aiq.text_source_table(text) is 'The table of a text source';
revoke all on function aiq.text_source_table(text) from public;

create or replace function aiq.do_unregister_text(
    p_source regclass, p_arguments jsonb, p_requested_by text
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    source aiq.text_sources;
    deleted bigint;
begin
    select * into source from aiq.text_sources as t
    where t.name = p_arguments ->> 'name' and t.source = p_source;
    if not found then
        perform aiq.refuse_text_source(p_arguments ->> 'name');
    end if;
    if aiq.source_name(p_source) is null then
        perform aiq.require_registrant(source.registered_by, p_requested_by, source.source_table);
    end if;
    select count(*) into deleted from aiq.text_chunks as c where c.source_id = source.id;
    delete from aiq.text_sources as t where t.id = source.id;
    if not aiq.is_registered(p_source) then
        perform aiq.forget_triggers(source.members || aiq.source_tree(p_source));
    end if;
    return jsonb_build_object(
        'deleted', deleted, 'release', not aiq.is_registered(p_source), 'members', to_jsonb(source.members)
    );
end
$$;
alter function aiq.do_unregister_text(regclass, jsonb, text) owner to aiq_engine;
comment on function aiq.do_unregister_text(regclass, jsonb, text) is 'The engine''s part of aiq.unregister_text_source';
revoke all on function aiq.do_unregister_text(regclass, jsonb, text) from public;

create or replace function aiq.do_rebuild_text(p_arguments jsonb, p_requested_by text) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    source aiq.text_sources;
begin
    select * into source from aiq.text_sources as t where t.name = p_arguments ->> 'name';
    if aiq.source_name(source.source) is null then
        perform aiq.require_registrant(source.registered_by, p_requested_by, source.source_table);
    end if;
    return aiq.rebuild_text_rows(source.id);
end
$$;
alter function aiq.do_rebuild_text(jsonb, text) owner to aiq_engine;
comment on function aiq.do_rebuild_text(jsonb, text) is 'The engine''s part of aiq.rebuild_text';
revoke all on function aiq.do_rebuild_text(jsonb, text) from public;

create or replace function aiq.resume_text(p_source regclass) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    source_id int;
begin
    update aiq.text_sources as t set members = aiq.source_tree(p_source) where t.source = p_source;
    for source_id in select t.id from aiq.text_sources as t where t.source = p_source order by t.id loop
        perform aiq.rebuild_text_rows(source_id);
    end loop;
end
$$;
alter function aiq.resume_text(regclass) owner to aiq_engine;
comment on function aiq.resume_text(regclass) is 'Makes the passages of a table agree with it after a pause';
revoke all on function aiq.resume_text(regclass) from public;

-- What callers call: nothing but the request, with their own rights

create or replace function aiq.register_text_source(
    p_name text, p_source_table regclass, p_id_column text, p_content_column text,
    p_title_column text default null, p_configuration regconfig default 'pg_catalog.english',
    p_org_expr text default null, p_visibility_expr text default null,
    p_owner_expr text default null, p_include_where text default null,
    p_description text default null
) returns table (
    name text, source_table text, passages_inserted bigint, passages_updated bigint,
    passages_deleted bigint
)
language sql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
    select r.name, r.source_table, r.inserted, r.updated, r.deleted
    from jsonb_to_record(aiq.request_registration(
        'register_text', p_source_table,
        jsonb_build_object(
            'name', p_name, 'id_column', p_id_column, 'content_column', p_content_column,
            'title_column', p_title_column, 'configuration', p_configuration::text,
            'org_expr', p_org_expr, 'visibility_expr', p_visibility_expr, 'owner_expr', p_owner_expr,
            'include_where', p_include_where, 'description', p_description
        )
    )) as r (name text, source_table text, inserted bigint, updated bigint, deleted bigint)
$$;
alter function aiq.register_text_source(
    text, regclass, text, text, text, regconfig, text, text, text, text, text
) owner to aiq_owner;
comment on function aiq.register_text_source(
    text, regclass, text, text, text, regconfig, text, text, text, text, text
) is
    'Reads a table''s rows as passages of text for search and keeps them in step with it. p_id_column is a column that is not null and unique by itself, p_content_column what is searched (a row whose content is null is no passage), p_title_column what is shown as its title, p_configuration the text search configuration. p_org_expr, p_visibility_expr (org by default), p_owner_expr and p_include_where are SQL over the table''s columns as for aiq.register_entity_table, with the same rights and for the same callers. Registering a name again replaces the whole registration; passages whose content stays keep their vectors. Returns what was written';
revoke all on function aiq.register_text_source(
    text, regclass, text, text, text, regconfig, text, text, text, text, text
) from public;

create or replace function aiq.unregister_text_source(p_name text) returns bigint
language sql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
    select (aiq.request_registration(
        'unregister_text', null, jsonb_build_object('name', p_name)
    ) ->> 'deleted')::bigint
$$;
alter function aiq.unregister_text_source(text) owner to aiq_owner;
comment on function aiq.unregister_text_source(text) is
    'Reads a table no longer as a text source: removes its passages with their vectors, its triggers where nothing else needs them, and returns how many passages there were';
revoke all on function aiq.unregister_text_source(text) from public;

create or replace function aiq.rebuild_text(p_name text)
returns table (
    name text, source_table text, passages_inserted bigint, passages_updated bigint,
    passages_deleted bigint
)
language sql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
    select r.name, r.source_table, r.inserted, r.updated, r.deleted
    from jsonb_to_record(aiq.request_registration(
        'rebuild_text', null, jsonb_build_object('name', p_name)
    )) as r (name text, source_table text, inserted bigint, updated bigint, deleted bigint)
$$;
alter function aiq.rebuild_text(text) owner to aiq_owner;
comment on function aiq.rebuild_text(text) is
    'Makes the passages of a text source agree with its table in one pass, every text parsed anew; writers wait meanwhile. The table''s owner or a superuser may. Returns what was written';
revoke all on function aiq.rebuild_text(text) from public;

grant execute on function
    aiq.register_text_source(text, regclass, text, text, text, regconfig, text, text, text, text, text),
    aiq.unregister_text_source(text), aiq.rebuild_text(text)
    to authenticated, aiq_worker;

-- Its helpers are in the next file, so its statements are not looked at before it runs.
create or replace function aiq.text_registrations()
returns table (
    what text, registered_as text, source regclass, source_table text, members regclass[],
    key_columns text[], paused boolean, again text, release text
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select
        'passages', t.name, t.source, t.source_table, t.members, t.key_columns, t.paused,
        aiq.call_text('register_text_source', jsonb_build_array(
            jsonb_build_array('p_name', t.name),
            jsonb_build_array('p_source_table', coalesce(aiq.source_name(t.source), t.source_table)),
            jsonb_build_array('p_id_column', t.id_column),
            jsonb_build_array('p_content_column', t.content_column),
            jsonb_build_array('p_title_column', t.title_column),
            jsonb_build_array('p_configuration', t.configuration::text),
            jsonb_build_array('p_org_expr', t.org_expr),
            jsonb_build_array('p_visibility_expr', t.visibility_expr),
            jsonb_build_array('p_owner_expr', t.owner_expr),
            jsonb_build_array('p_include_where', t.include_where),
            jsonb_build_array('p_description', t.description)
        )),
        aiq.call_text('unregister_text_source', jsonb_build_array(jsonb_build_array('p_name', t.name)))
    from aiq.text_sources as t;
end
$$;
alter function aiq.text_registrations() owner to aiq_engine;
comment on function aiq.text_registrations() is
    'Every text source with the statements that register it again and that release it';
revoke all on function aiq.text_registrations() from public;
