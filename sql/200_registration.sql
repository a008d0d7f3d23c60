-- Tables read as nodes. A registration says how a row becomes a node and its
-- keys; statement-level triggers keep the two in step.
--
-- A trigger takes no more from the transition tables than the primary keys that
-- a statement touched, and reads the rows themselves again: a row that another
-- trigger has changed since, or that lies in a child table, is then read as it is.
-- What the rows say is compared with what is stored, in one statement, so that
-- rows that say what they said before write nothing.
--
-- Who may do what: every request is a row inserted into a view. Its triggers run
-- in the order of their names, by turns as the engine and as whoever asks. The
-- latter alone can tell who asks, lock the table and grant the engine its reading
-- rights; the former alone writes the graph. No function that runs as the engine
-- can be called with a table of somebody else's.

create table if not exists aiq.entity_tables (
    id int generated always as identity primary key,
    entity_type text collate "C" not null references aiq.entity_types (name),
    source regclass not null,
    source_table text collate "C" not null,
    row_name text collate "C" not null,
    key_expr text not null,
    summary_expr text,
    org_expr text,
    include_where text,
    canonical_exprs text[] not null default '{}',
    short_exprs text[] not null default '{}',
    alias_exprs text[] not null default '{}',
    code_exprs text[] not null default '{}',
    visibility_expr text,
    owner_expr text,
    number_expr text,
    key_columns text[] not null,
    key_operators text[] not null,
    key_groups jsonb not null,
    may_repeat boolean not null,
    members regclass[] not null,
    paused boolean not null default false,
    registered_by text not null,
    registered_at timestamptz not null default now(),
    unique (entity_type, source_table)
);
alter table aiq.entity_tables owner to aiq_owner;
comment on table aiq.entity_tables is
    'Which tables are read as nodes of which entity type, and by which expressions';
comment on column aiq.entity_tables.source_table is
    'The table''s name as its nodes carry it, schema included';
comment on column aiq.entity_tables.row_name is
    'The name by which the expressions may call a row: the table''s when it was registered';
comment on column aiq.entity_tables.key_groups is
    'The key expressions by kind and is_name, each an expression of type text[]; derived';
comment on column aiq.entity_tables.may_repeat is
    'Whether a primary key can occur twice, as in a table and its inheritance child';
comment on column aiq.entity_tables.members is
    'The table, its partitions and its inheritance children, as they were when it was registered';
comment on column aiq.entity_tables.paused is 'Whether aiq.bulk has paused the triggers';


-- How a row is searched, and who else decides about it; see the agent's map.
alter table aiq.entity_tables
    add column if not exists title_expr text,
    add column if not exists body_expr text,
    add column if not exists configuration regconfig,
    add column if not exists policy text;
comment on column aiq.entity_tables.configuration is
    'The text search configuration of the titles and bodies; null if an earlier version registered the table';
comment on column aiq.entity_tables.policy is
    'The function, with its schema, that says which of some nodes the caller may open; null: whoever sees them';

grant select, insert, update, delete on aiq.entity_tables to aiq_engine;
grant usage on sequence aiq.entity_tables_id_seq to aiq_engine;

create table if not exists aiq.link_tables (
    id int generated always as identity primary key,
    source regclass not null,
    source_table text collate "C" not null,
    row_name text collate "C" not null,
    relation text collate "C" not null,
    src_type text collate "C" not null references aiq.entity_types (name),
    src_table text collate "C" not null,
    src_expr text,
    dst_type text collate "C" not null references aiq.entity_types (name),
    dst_table text collate "C" not null,
    dst_expr text,
    weight_expr text,
    valid_from_expr text,
    org_expr text,
    visibility_expr text,
    owner_expr text,
    include_where text,
    key_columns text[] not null,
    key_operators text[] not null,
    may_repeat boolean not null,
    members regclass[] not null,
    paused boolean not null default false,
    registered_by text not null,
    registered_at timestamptz not null default now(),
    unique (source_table, relation, src_type, dst_type)
);
alter table aiq.link_tables owner to aiq_owner;
comment on table aiq.link_tables is
    'Which tables are read as edges of which relation, and by which expressions';
comment on column aiq.link_tables.src_table is 'The registered table whose rows p_src_expr names by primary key';

create table if not exists aiq.link_rows (
    link_id int not null references aiq.link_tables (id) on delete cascade,
    row_pk text collate "C" not null,
    src_pk text collate "C" not null,
    dst_pk text collate "C" not null,
    weight real not null check (weight > 0 and weight <= 1),
    valid_from timestamptz,
    org_id uuid,
    visibility text collate "C" not null check (visibility in ('public', 'org', 'private')),
    owner_id uuid,
    edge_id bigint,
    primary key (link_id, row_pk),
    check (visibility <> 'private' or owner_id is not null)
);
alter table aiq.link_rows owner to aiq_owner;
comment on table aiq.link_rows is
    'What each row of a link table says, and the current edge that says it; without an edge while an end is no node';
create index if not exists link_rows_edge on aiq.link_rows (edge_id) where edge_id is not null;
create index if not exists link_rows_src_waiting on aiq.link_rows (link_id, src_pk) where edge_id is null;
create index if not exists link_rows_dst_waiting on aiq.link_rows (link_id, dst_pk) where edge_id is null;

grant select, insert, update, delete on aiq.link_tables, aiq.link_rows to aiq_engine;
grant usage on sequence aiq.link_tables_id_seq to aiq_engine;
alter table aiq.link_rows enable row level security;
alter table aiq.link_rows force row level security;
drop policy if exists engine_does on aiq.link_rows;
create policy engine_does on aiq.link_rows to aiq_engine using (true) with check (true);

-- 'infinity' would keep every later period away; -infinity says: for ever.
do $$
begin
    if not exists (
        select from pg_catalog.pg_constraint as c
        where c.conrelid = 'aiq.link_rows'::regclass and c.conname = 'link_rows_start'
    ) then
        alter table aiq.link_rows
            add constraint link_rows_start check (valid_from < 'infinity') not valid;
    end if;
end
$$;

-- A row that names another and the row that it names may be written at the same time
-- by two transactions, neither of which sees the other's. So what has become a node,
-- and which rows wait for one, is looked at again when the transaction commits, under
-- a lock that the two do not hold together: the second sees what the first left.
create table if not exists aiq.unsettled (
    id bigint generated always as identity primary key,
    entity_type text collate "C",
    source_table text collate "C",
    keys text[],
    link_id int,
    rows text[]
);
alter table aiq.unsettled owner to aiq_owner;
comment on table aiq.unsettled is
    'What a transaction has to look at again when it commits: keys of rows that have become nodes, rows of link tables that wait. Always empty for others';
create table if not exists aiq.link_waits (
    link_id int primary key references aiq.link_tables (id) on delete cascade,
    times bigint not null default 0
);
alter table aiq.link_waits owner to aiq_owner;
comment on table aiq.link_waits is
    'How often transactions have left rows of a link table waiting: a transaction with one snapshot fails here where it could not see them';
insert into aiq.link_waits (link_id) select l.id from aiq.link_tables as l on conflict do nothing;
grant select, insert, update, delete on aiq.unsettled, aiq.link_waits to aiq_engine;
grant usage on sequence aiq.unsettled_id_seq to aiq_engine;
do $$
declare
    name text;
begin
    foreach name in array array['unsettled', 'link_waits'] loop
        execute pg_catalog.format('alter table aiq.%I enable row level security', name);
        execute pg_catalog.format('alter table aiq.%I force row level security', name);
        execute pg_catalog.format('drop policy if exists engine_does on aiq.%I', name);
        execute pg_catalog.format(
            'create policy engine_does on aiq.%I to aiq_engine using (true) with check (true)', name
        );
    end loop;
end
$$;

-- Triggers on tables of others are recorded as ours, so that uninstalling removes them.
grant select, insert, delete on aiq.installed_objects to aiq_engine;
grant usage, update on sequence aiq.nodes_id_seq to aiq_engine;

-- Names and trees of tables

create or replace function aiq.source_name(p_source regclass) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select format('%I.%I', n.nspname, c.relname)
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where c.oid = p_source
$$;
alter function aiq.source_name(regclass) owner to aiq_engine;
comment on function aiq.source_name(regclass) is
    'A table''s name with its schema, quoted where it must be; null if there is no such table';
revoke all on function aiq.source_name(regclass) from public;

create or replace function aiq.source_tree(p_source regclass) returns regclass[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with recursive tree (relation) as (
        select c.oid from pg_class as c where c.oid = p_source
        union
        select i.inhrelid from tree join pg_inherits as i on i.inhparent = tree.relation
    )
    select coalesce(array_agg(relation::regclass order by relation <> p_source, relation), '{}')
    from tree
$$;
alter function aiq.source_tree(regclass) owner to aiq_engine;
comment on function aiq.source_tree(regclass) is
    'A table with its partitions and inheritance children, itself first; empty if there is no such table';
revoke all on function aiq.source_tree(regclass) from public;

-- The operator is the index's own: that of a type from an extension lies in a
-- schema that is on no search path here.
create or replace function aiq.source_key(
    p_source regclass, out columns text[], out operators text[]
)
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select
        array_agg(a.attname::text order by k.position),
        array_agg(
            format('operator(%I.%s)', n.nspname, o.oprname) order by k.position
        )
    from pg_index as x
    cross join lateral unnest(x.indkey::int2[], x.indclass::oid[])
        with ordinality as k (attnum, opclass, position)
    join pg_attribute as a on a.attrelid = x.indrelid and a.attnum = k.attnum
    join pg_opclass as c on c.oid = k.opclass
    join pg_amop as m
        on m.amopfamily = c.opcfamily and m.amopstrategy = 3
        and m.amoplefttype = c.opcintype and m.amoprighttype = c.opcintype
    join pg_operator as o on o.oid = m.amopopr
    join pg_namespace as n on n.oid = o.oprnamespace
    where x.indrelid = p_source and x.indisprimary and k.position <= x.indnkeyatts
$$;
alter function aiq.source_key(regclass) owner to aiq_engine;
comment on function aiq.source_key(regclass) is
    'The columns of a table''s primary key and the operators that compare them; null without one';
revoke all on function aiq.source_key(regclass) from public;

create or replace function aiq.key_text(p_columns text[], p_row_name text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select case count(*)
        when 1 then '(' || string_agg(format('%I.%I', p_row_name, c), ', ') || ')::text collate "C"'
        else '(row(' || string_agg(format('%I.%I', p_row_name, c), ', ' order by i) || '))::text collate "C"'
    end
    from unnest(p_columns) with ordinality as u (c, i)
$$;
alter function aiq.key_text(text[], text) owner to aiq_engine;
comment on function aiq.key_text(text[], text) is
    'The expression that writes a row''s primary key as text: the column''s own text or, of several columns, the row''s';
revoke all on function aiq.key_text(text[], text) from public;

create or replace function aiq.touched_keys(p_columns text[], p_operation text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select case p_operation
        when 'INSERT' then format('select %s from new_rows', list)
        when 'DELETE' then format('select %s from old_rows', list)
        when 'UPDATE' then format('select %1$s from new_rows union select %1$s from old_rows', list)
    end
    from (select string_agg(format('%I', c), ', ' order by i) from unnest(p_columns) with ordinality as u (c, i)) as l (list)
$$;
alter function aiq.touched_keys(text[], text) owner to aiq_engine;
comment on function aiq.touched_keys(text[], text) is
    'The query over a trigger''s transition tables for the primary keys that a statement touched';
revoke all on function aiq.touched_keys(text[], text) from public;

create or replace function aiq.source_rows(
    p_source regclass, p_columns text[], p_operators text[], p_touched text
) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select case
        when p_touched is null then format('select s.* from %s as s', aiq.source_name(p_source))
        else format(
            'select s.* from touched as t join %s as s on %s',
            aiq.source_name(p_source),
            (
                select string_agg(format('s.%1$I %2$s t.%1$I', c, o), ' and ' order by i)
                from unnest(p_columns, p_operators) with ordinality as u (c, o, i)
            )
        )
    end
$$;
alter function aiq.source_rows(regclass, text[], text[], text) owner to aiq_engine;
comment on function aiq.source_rows(regclass, text[], text[], text) is
    'The query for a table''s rows: all of them or those whose primary keys a statement touched';
revoke all on function aiq.source_rows(regclass, text[], text[], text) from public;

-- From a registration to the statements that keep it in step

create or replace function aiq.entity_projection(p_entity aiq.entity_tables, p_rows text)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    key_text constant text := aiq.key_text(p_entity.key_columns, p_entity.row_name);
    keys text := '';
    item record;
begin
    for item in select value ->> 'keys' as keys, ordinality as number
        from jsonb_array_elements(p_entity.key_groups) with ordinality
    loop
        keys := keys || format(E',\n        %s as keys_%s', item.keys, item.number);
    end loop;
    return format(
        E'select%s %s as source_pk,\n'
        '        (\n%s\n)::text as summary,\n        (\n%s\n)::uuid as org_id,\n'
        '        coalesce((\n%s\n)::text, ''org'') as visibility,\n        (\n%s\n)::uuid as owner_id,\n'
        '        (\n%s\n)::bigint as handle_number%s\n'
        '    from (%s) as %I where (\n%s\n)%s',
        case when p_entity.may_repeat then ' distinct on (' || key_text || ')' else '' end,
        key_text, coalesce(p_entity.summary_expr, 'null'), coalesce(p_entity.org_expr, 'null'),
        coalesce(p_entity.visibility_expr, 'null'), coalesce(p_entity.owner_expr, 'null'),
        coalesce(p_entity.number_expr, 'null'), keys, p_rows, p_entity.row_name,
        coalesce(p_entity.include_where, 'true'),
        case when p_entity.may_repeat then ' order by ' || key_text else '' end
    );
end
$$;
alter function aiq.entity_projection(aiq.entity_tables, text) owner to aiq_engine;
comment on function aiq.entity_projection(aiq.entity_tables, text) is
    'The query for the nodes that rows say: one row each for those that are included';
revoke all on function aiq.entity_projection(aiq.entity_tables, text) from public;

create or replace function aiq.entity_common(p_entity aiq.entity_tables, p_touched text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select case when p_touched is null then 'with ' else format(
        E'with touched as materialized (%s),\ntouched_keys as materialized (select %s as source_pk from touched as %I),\n',
        p_touched, aiq.key_text(p_entity.key_columns, p_entity.row_name), p_entity.row_name
    ) end || format(E'projected as materialized (\n    %s\n)', aiq.entity_projection(
        p_entity,
        aiq.source_rows(p_entity.source, p_entity.key_columns, p_entity.key_operators, p_touched)
    ))
$$;
alter function aiq.entity_common(aiq.entity_tables, text) owner to aiq_engine;
comment on function aiq.entity_common(aiq.entity_tables, text) is
    'How the statements that keep a registration in step begin';
revoke all on function aiq.entity_common(aiq.entity_tables, text) from public;

-- A registration that gives handle numbers gives identities: the row that takes
-- over the number of a row that is gone takes over its node.
create or replace function aiq.entity_adoption(p_entity aiq.entity_tables, p_touched text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select aiq.entity_common(p_entity, p_touched) || format(
        $statement$
update aiq.nodes as n
set source_pk = p.source_pk
from projected as p
where
    p.handle_number is not null
    and n.entity_type = %1$L and case when n.handle_number is null then n.id else n.handle_number end = p.handle_number
    and n.source_table = %2$L and n.source_pk <> p.source_pk
    and not exists (
        select from aiq.nodes as o
        where o.source_table = %2$L and o.source_pk = p.source_pk and o.entity_type = %1$L
    )
    and (n.retired_at is not null or (%3$s
        not exists (select from projected as o where o.source_pk = n.source_pk)
    ))$statement$,
        p_entity.entity_type, p_entity.source_table,
        case when p_touched is null then '' else
            'exists (select from touched_keys as t where t.source_pk = n.source_pk) and '
        end
    )
$$;
alter function aiq.entity_adoption(aiq.entity_tables, text) owner to aiq_engine;
comment on function aiq.entity_adoption(aiq.entity_tables, text) is
    'The statement that gives nodes of rows that are gone to the rows that now have their handle numbers';
revoke all on function aiq.entity_adoption(aiq.entity_tables, text) from public;

-- Numbers that rows exchange pass through numbers that are nobody's.
create or replace function aiq.entity_parting(p_entity aiq.entity_tables, p_touched text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select aiq.entity_common(p_entity, p_touched) || format(
        $statement$
update aiq.nodes as n
set handle_number = -9223372036854775807 + n.id
from (
    select o.id
    from projected as p
    cross join lateral (
        select h.id, case when h.handle_number is null then h.id else h.handle_number end as number
        from aiq.nodes as h
        where
            h.source_table = %2$L and h.source_pk = p.source_pk
            and h.entity_type is not distinct from %1$L
        offset 0
    ) as o
    where
        o.number is distinct from p.handle_number
        and o.number in (select w.handle_number from projected as w where w.handle_number is not null)
) as c
where n.id = c.id$statement$,
        p_entity.entity_type, p_entity.source_table
    )
$$;
alter function aiq.entity_parting(aiq.entity_tables, text) owner to aiq_engine;
comment on function aiq.entity_parting(aiq.entity_tables, text) is
    'The statement that takes from nodes the handle numbers that other rows are given by the same statement';
revoke all on function aiq.entity_parting(aiq.entity_tables, text) from public;

-- How many rows an expression lets through cannot be foreseen, and before statistics
-- are gathered neither can how many nodes a table has: a nested loop over either
-- would take forever. So no two intermediate results are joined with each other, and
-- nodes are looked up row by row (offset 0 keeps it so) by the index on their source,
-- their type compared in a way that no other index serves.
--
-- Text of printable ASCII with single blanks folds as lower() does; fold_key, which
-- the planner cannot inline, is called for everything else.
--
-- Nodes that change are locked in the order of their ids, as every writer locks them.
create or replace function aiq.entity_statement(p_entity aiq.entity_tables, p_touched text)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select aiq.entity_common(p_entity, p_touched) || format(
        $statement$,
known as materialized (
    select
        p.*, n.id is not null as was_there,
        coalesce(n.id, nextval('aiq.nodes_id_seq')) as node_id,
        case p.visibility
            when 'org' then p.org_id
            when 'private' then md5('private:' || p.owner_id::text)::uuid
        end as audience,
        n.retired_at is not null as was_retired,
        n.retired_at is not null
        or (n.summary, n.org_id, n.visibility, n.owner_id, n.handle_number)
        is distinct from (p.summary, p.org_id, p.visibility, p.owner_id, p.handle_number) as differs
    from projected as p
    left join lateral (
        select o.* from aiq.nodes as o
        where
            o.source_table = %2$L and o.source_pk = p.source_pk
            and o.entity_type is not distinct from %1$L
        offset 0
    ) as n on true
),
stated as materialized (
    select distinct on (f.node_id, f.key) f.node_id, f.key, f.kind, f.is_name, f.was_there, f.audience
    from (
        select w.*, %5$s as key
        from (
            %3$s
        ) as w
        offset 0
    ) as f
    where f.key <> ''
    order by f.node_id, f.key, f.rank
),
gone as materialized (
    %4$s
    except
    select source_pk from projected
),
leaving as materialized (
    select o.id
    from gone as g
    cross join lateral (
        select h.id from aiq.nodes as h
        where
            h.source_table = %2$L and h.source_pk = g.source_pk
            and h.entity_type is not distinct from %1$L and h.retired_at is null
        offset 0
    ) as o
),
held as materialized (
    select n.id from aiq.nodes as n
    where n.id = any (array(
        select k.node_id from known as k where k.was_there and k.differs
        union all
        select l.id from leaving as l
    ))
    order by n.id for no key update
),
updated as (
    update aiq.nodes as n
    set summary = k.summary, org_id = k.org_id, visibility = k.visibility, owner_id = k.owner_id,
        handle_number = k.handle_number, retired_at = null
    from known as k
    where n.id = k.node_id and k.was_there and k.differs and (select count(*) from held) > 0
    returning 1
),
inserted as (
    insert into aiq.nodes (
        id, entity_type, source_table, source_pk, summary, org_id, visibility, owner_id, handle_number
    )
    select
        k.node_id, %1$L, %2$L, k.source_pk, k.summary, k.org_id, k.visibility, k.owner_id, k.handle_number
    from known as k
    where not k.was_there
    order by k.source_pk
    returning 1
),
removed as (
    delete from aiq.node_keys as o
    using known as k
    cross join lateral (
        select array(select %5$s from unnest(%6$s) as w (written) where w.written is not null) as keys
        offset 0
    ) as f
    where
        k.was_there and o.node_id = k.node_id and o.key <> all (f.keys)
        -- A name that a promotion brought is not the source's to take away.
        and o.promoted_from is null
    returning 1
),
restated as (
    update aiq.node_keys as o
    set kind = s.kind, is_name = s.is_name, promoted_from = null, narrowed_to = null, audience = s.audience
    from stated as s
    where
        s.was_there and o.node_id = s.node_id and o.key = s.key
        and (o.kind, o.is_name, o.promoted_from) is distinct from (s.kind, s.is_name, null::bigint)
    returning 1
),
added as (
    insert into aiq.node_keys (node_id, key, kind, is_name, soft, audience)
    select s.node_id, s.key, s.kind, s.is_name, false, s.audience
    from stated as s
    where not (s.was_there and exists (
        select from aiq.node_keys as h where h.node_id = s.node_id and h.key = s.key offset 0
    ))
    order by s.node_id, s.key
    returning 1
),
retired as (
    update aiq.nodes as n
    set retired_at = now()
    from leaving as l
    where n.id = l.id and (select count(*) from held) > 0
    returning 1
)
select
    (select count(*) from inserted) as inserted, (select count(*) from updated) as updated,
    (select count(*) from retired) as retired,
    (select count(*) from added) + (select count(*) from restated) as added,
    (select count(*) from removed) as removed,
    (select array_agg(source_pk) from known where not was_there or was_retired) as arrived$statement$,
        p_entity.entity_type, p_entity.source_table,
        (
            select string_agg(
                format(
                    'select k.node_id, k.was_there, k.audience, unnest(k.keys_%1$s) as written, %1$s as rank, '
                    '%2$L as kind, %3$L::boolean as is_name from known as k',
                    number, item ->> 'kind', item ->> 'is_name'
                ),
                E'\n            union all\n            ' order by number
            )
            from jsonb_array_elements(p_entity.key_groups) with ordinality as g (item, number)
        ),
        case
            when p_touched is not null then 'select source_pk from touched_keys'
            else format(
                'select source_pk from aiq.nodes where source_table = %L and entity_type = %L and retired_at is null',
                p_entity.source_table, p_entity.entity_type
            )
        end,
        $fold$case
            when w.written collate "C" ~ '^[!-~]+( [!-~]+)*$' then lower(w.written collate "C")
            else aiq.fold_key(w.written)
        end$fold$,
        (
            select string_agg(format('k.keys_%s', number), ' || ' order by number)
            from jsonb_array_elements(p_entity.key_groups) with ordinality as g (item, number)
        )
    )
$$;
alter function aiq.entity_statement(aiq.entity_tables, text) owner to aiq_engine;
comment on function aiq.entity_statement(aiq.entity_tables, text) is
    'The statement that makes nodes and keys agree with a table''s rows: all of them or those that a statement touched';
revoke all on function aiq.entity_statement(aiq.entity_tables, text) from public;

-- Failures

create or replace function aiq.passes_as_it_is(p_sqlstate text) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    -- Deadlocks and serialization, resources, locks and cancelling, the system, bugs.
    select left(p_sqlstate, 2) in ('40', '53', '55', '57', '58', 'XX')
$$;
alter function aiq.passes_as_it_is(text) owner to aiq_engine;
comment on function aiq.passes_as_it_is(text) is
    'Whether an error says nothing of the row that was read, so that it is passed on as it is';
revoke all on function aiq.passes_as_it_is(text) from public;

-- Halves the rows until one is left. The rows are fenced off from the expressions,
-- which must not be tried on rows that are not asked about.
create or replace function aiq.failing_row(
    p_projection text, p_keys text[], out failing text, out message text
)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    rest text[] := p_keys;
    half text[];
    ignored bigint;
begin
    begin
        execute format('select max(length((q)::text)) from (%s) as q', p_projection) into ignored using rest;
        return;
    exception when others then
        message := sqlerrm;
    end;
    while cardinality(rest) > 1 loop
        half := rest[1:cardinality(rest) / 2];
        begin
            execute format('select max(length((q)::text)) from (%s) as q', p_projection) into ignored using half;
            rest := rest[cardinality(rest) / 2 + 1:];
        exception when others then
            message := sqlerrm;
            rest := half;
        end;
    end loop;
    failing := rest[1];
end
$$;
alter function aiq.failing_row(text, text[]) owner to aiq_engine;
comment on function aiq.failing_row(text, text[]) is
    'The primary key of a row for which a projection fails, and the server''s message; nulls if it fails for none';
revoke all on function aiq.failing_row(text, text[]) from public;

create or replace function aiq.some_rows(p_source regclass, p_columns text[]) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        'select s.* from %s as s where %s = any ($1) offset 0',
        aiq.source_name(p_source), aiq.key_text(p_columns, 's')
    )
$$;
alter function aiq.some_rows(regclass, text[]) owner to aiq_engine;
comment on function aiq.some_rows(regclass, text[]) is
    'The query for the rows whose primary keys, as text, are in its parameter';
revoke all on function aiq.some_rows(regclass, text[]) from public;

create or replace function aiq.all_keys(p_source regclass, p_columns text[]) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    keys text[];
begin
    execute format(
        'select coalesce(array_agg(%s), ''{}'') from %s as s',
        aiq.key_text(p_columns, 's'), aiq.source_name(p_source)
    ) into keys;
    return keys;
end
$$;
alter function aiq.all_keys(regclass, text[]) owner to aiq_engine;
comment on function aiq.all_keys(regclass, text[]) is 'The primary keys of a table''s rows, as text';
revoke all on function aiq.all_keys(regclass, text[]) from public;

-- What is wrong with a row whose expressions are in order.
create or replace function aiq.entity_fault(
    p_entity aiq.entity_tables, p_keys text[], out failing text, out message text
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    rows_text constant text := aiq.entity_projection(
        p_entity, aiq.some_rows(p_entity.source, p_entity.key_columns)
    );
begin
    execute format(
        $query$
select max(q.source_pk), format('handle number %%s is also that of the row %%s', q.handle_number, min(q.source_pk))
from (%s) as q
where q.handle_number is not null
group by q.handle_number
having count(*) > 1
order by q.handle_number
limit 1$query$, rows_text
    ) into failing, message using p_keys;
    if failing is not null then
        return;
    end if;
    execute format(
        $query$
select q.source_pk, f.message
from (%s) as q
left join lateral (
    select q.handle_number as number, format(', that of the row %%s of %%s', n.source_pk, n.source_table) as of_row
    from aiq.nodes as n
    where n.entity_type = %L and case when n.handle_number is null then n.id else n.handle_number end = q.handle_number
        and (n.source_table, n.source_pk) is distinct from (%L, q.source_pk)
    limit 1
) as t on true
cross join lateral (select case
    when q.visibility not in ('public', 'org', 'private')
        then format('visibility is "%%s", but must be public, org or private', q.visibility)
    when q.visibility = 'private' and q.owner_id is null then 'a private row must have an owner'
    when t.number is not null then format('handle number %%s is another node''s%%s', q.handle_number, t.of_row)
    else (
        select format('a key of %%s bytes is longer than 2000', octet_length(aiq.fold_key(k.key)))
        from (values %s) as g (keys) cross join lateral unnest(g.keys) as k (key)
        where octet_length(aiq.fold_key(k.key)) > 2000
        limit 1
    ) end) as f (message)
where f.message is not null
limit 1$query$,
        rows_text, p_entity.entity_type, p_entity.source_table,
        (
            select string_agg(format('(q.keys_%s)', number), ', ')
            from generate_series(1, jsonb_array_length(p_entity.key_groups)) as s (number)
        )
    ) into failing, message using p_keys;
end
$$;
alter function aiq.entity_fault(aiq.entity_tables, text[]) owner to aiq_engine;
comment on function aiq.entity_fault(aiq.entity_tables, text[]) is
    'The first row that cannot be a node although its expressions can be computed, and why';
revoke all on function aiq.entity_fault(aiq.entity_tables, text[]) from public;

create or replace function aiq.refuse_entity_rows(
    p_entity aiq.entity_tables, p_keys text[], p_sqlstate text, p_message text, p_detail text
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    keys constant text[] := coalesce(p_keys, aiq.all_keys(p_entity.source, p_entity.key_columns));
    found_row text;
    cause text;
begin
    select f.failing, f.message into found_row, cause
    from aiq.failing_row(
        aiq.entity_projection(p_entity, aiq.some_rows(p_entity.source, p_entity.key_columns)), keys
    ) as f;
    if cause is null then
        select f.failing, f.message into found_row, cause
        from aiq.entity_fault(p_entity, keys) as f;
    end if;
    if cause is null and aiq.has_documents(p_entity) then
        select f.failing, f.message into found_row, cause
        from aiq.failing_row(
            aiq.document_projection(p_entity, aiq.some_rows(p_entity.source, p_entity.key_columns)), keys
        ) as f;
    end if;
    raise exception using
        errcode = '22023',
        message = format(
            '%s %s cannot be read as a node of type "%s": %s',
            coalesce('the row ' || found_row || ' of', 'a row of'), p_entity.source_table,
            p_entity.entity_type, coalesce(cause, p_message)
        ),
        detail = concat_ws(' ', p_sqlstate, p_message, nullif(p_detail, '')),
        hint = format(
            'Correct the row, or call aiq.register_entity_table(''%s'', ''%s'', …) with expressions that hold for it.',
            p_entity.entity_type, p_entity.source_table
        );
end
$$;
alter function aiq.refuse_entity_rows(aiq.entity_tables, text[], text, text, text) owner to aiq_engine;
comment on function aiq.refuse_entity_rows(aiq.entity_tables, text[], text, text, text) is
    'Raises the error that names the type, the row and the cause';
revoke all on function aiq.refuse_entity_rows(aiq.entity_tables, text[], text, text, text) from public;

-- A node without a number takes its id for one. Where others have numbers of their
-- own, the ids go on behind them.
create or replace function aiq.skip_taken_handles(p_entity_type text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select setval(
        pg_get_serial_sequence('aiq.nodes', 'id'),
        greatest(
            nextval(pg_get_serial_sequence('aiq.nodes', 'id')),
            (select max(case when n.handle_number is null then n.id else n.handle_number end) from aiq.nodes as n where n.entity_type = p_entity_type)
        )
    )
$$;
alter function aiq.skip_taken_handles(text) owner to aiq_engine;
comment on function aiq.skip_taken_handles(text) is
    'Moves the ids of new nodes beyond the handle numbers of a type';
revoke all on function aiq.skip_taken_handles(text) from public;

-- The triggers

create or replace function aiq.retire_truncated(p_entity aiq.entity_tables) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format(
        $statement$
with held as materialized (
    select n.id from aiq.nodes as n
    where
        n.source_table = %L and n.entity_type = %L and n.retired_at is null
        and not exists (select from %s as s where %s = n.source_pk)
    order by n.id for no key update
)
update aiq.nodes as n
set retired_at = now()
from held as h
where n.id = h.id$statement$,
        p_entity.source_table, p_entity.entity_type, aiq.source_name(p_entity.source),
        aiq.key_text(p_entity.key_columns, 's')
    );
end
$$;
alter function aiq.retire_truncated(aiq.entity_tables) owner to aiq_engine;
comment on function aiq.retire_truncated(aiq.entity_tables) is
    'Retires the nodes of a registration whose rows are no longer there';
revoke all on function aiq.retire_truncated(aiq.entity_tables) from public;

create or replace function aiq.missing_columns(p_source regclass, p_columns text[]) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array(
        select u.c from unnest(p_columns) with ordinality as u (c, i)
        where not exists (
            select from pg_attribute as a
            where a.attrelid = p_source and a.attname = u.c and not a.attisdropped
        )
        order by u.i
    )
$$;
alter function aiq.missing_columns(regclass, text[]) owner to aiq_engine;
comment on function aiq.missing_columns(regclass, text[]) is
    'Those of some columns that a table does not have';
revoke all on function aiq.missing_columns(regclass, text[]) from public;

create or replace function aiq.require_key_columns(
    p_source regclass, p_columns text[], p_read_as text, p_release text
) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    missing constant text[] := aiq.missing_columns(p_source, p_columns);
begin
    if missing <> '{}' then
        raise exception using
            errcode = '55000',
            message = format(
                '%s is read as %s by its primary key (%s), but has no column %s any more',
                aiq.source_name(p_source), p_read_as, array_to_string(p_columns, ', '),
                array_to_string(missing, ', ')
            ),
            hint = format(
                'Give the table a primary key and register it again, or release it first: %s', p_release
            );
    end if;
end
$$;
alter function aiq.require_key_columns(regclass, text[], text, text) owner to aiq_engine;
comment on function aiq.require_key_columns(regclass, text[], text, text) is
    'Refuses a registered table whose primary key has lost columns';
revoke all on function aiq.require_key_columns(regclass, text[], text, text) from public;

-- A server looks for a deadlock once a wait, after a second by default.
create or replace function aiq.wait_at_most(p_patience interval) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_patience = interval '0' or p_patience > interval '1500 milliseconds' then
        perform set_config('lock_timeout', '1500ms', true);
    end if;
end
$$;
alter function aiq.wait_at_most(interval) owner to aiq_engine;
comment on function aiq.wait_at_most(interval) is
    'Bounds each wait for a lock, unless the caller''s own bound, 0 for none, is tighter';
revoke all on function aiq.wait_at_most(interval) from public;

-- Whatever the session of the writer has set must not change what the rows say:
-- the settings that text depends on, and how a statement is read, are pinned.
-- Only a trigger's own function sees the transition tables, so the statements are
-- run here. A row's node comes before its edges.
--
-- Writers lock what they share in one order: waiting rows of link tables, nodes by id,
-- edges by what they say. Rows written by several statements of a transaction, or by
-- the two halves of an insert on conflict, can still make two wait for each other. So
-- nobody waits for long while holding what the trigger itself has locked: it is let
-- go, and done again. The writer's own lock_timeout holds for the whole.
create or replace function aiq.keep_in_step() returns trigger
language plpgsql volatile security definer
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
set jit = off
as $$
declare
    entity aiq.entity_tables;
    link aiq.link_tables;
    passages record;
    touched text;
    report record;
    keys text[];
    code text;
    hit text;
    what text;
    detail text;
    read boolean;
    skipped boolean;
    again int := 0;
    lock_timeout constant text := current_setting('lock_timeout');
    patience constant interval := lock_timeout::interval;
    begun constant timestamptz := clock_timestamp();
begin
    for entity in
        select * from aiq.entity_tables as e where tg_relid = any (e.members) and not e.paused order by e.id
    loop
        touched := aiq.touched_keys(entity.key_columns, tg_op);
        skipped := false;
        loop
            begin
                read := false;
                perform aiq.wait_at_most(patience);
                if tg_op = 'TRUNCATE' then
                    perform aiq.retire_truncated(entity);
                    perform set_config('lock_timeout', lock_timeout, true);
                    exit;
                end if;
                if aiq.has_waiting(entity.entity_type, entity.source_table) then
                    execute format(
                        'select array_agg(%s) from (%s) as t', aiq.key_text(entity.key_columns, 't'), touched
                    ) into keys;
                    perform aiq.hold_waiting(entity.entity_type, entity.source_table, keys);
                end if;
                if entity.number_expr is not null and tg_op <> 'DELETE' then
                    execute aiq.entity_adoption(entity, touched);
                    if tg_op = 'UPDATE' then
                        execute aiq.entity_parting(entity, touched);
                    end if;
                end if;
                execute aiq.entity_statement(entity, touched) into report;
                if aiq.has_documents(entity) then
                    execute aiq.document_statement(entity, touched);
                end if;
                read := true;
                perform aiq.settle_arrivals(entity.entity_type, entity.source_table, report.arrived);
                perform set_config('lock_timeout', lock_timeout, true);
                exit;
            exception when others then
                get stacked diagnostics code = returned_sqlstate, hit = constraint_name,
                    what = message_text, detail = pg_exception_detail;
                if code = '40P01' and again < 10 or code = '55P03' and (
                    patience = interval '0' or clock_timestamp() < begun + patience
                ) then
                    again := again + (code = '40P01')::int;
                    continue;
                end if;
                if read or aiq.passes_as_it_is(code) then
                    raise;
                end if;
                if not skipped and hit = 'nodes_handle' and entity.number_expr is null then
                    perform aiq.skip_taken_handles(entity.entity_type);
                    skipped := true;
                    continue;
                end if;
                perform aiq.require_key_columns(
                    entity.source, entity.key_columns, format('nodes of type "%s"', entity.entity_type),
                    format('select aiq.unregister_entity_table(%L, %L);', entity.entity_type, entity.source_table)
                );
                if tg_op = 'TRUNCATE' then
                    raise;
                end if;
                execute format(
                    'select array_agg(%s) from (%s) as t', aiq.key_text(entity.key_columns, 't'), touched
                ) into keys;
                perform aiq.refuse_entity_rows(entity, keys, code, what, detail);
            end;
        end loop;
    end loop;
    for link in
        select * from aiq.link_tables as l where tg_relid = any (l.members) and not l.paused order by l.id
    loop
        touched := aiq.touched_keys(link.key_columns, tg_op);
        loop
            begin
                perform aiq.wait_at_most(patience);
                if tg_op = 'TRUNCATE' then
                    perform aiq.drop_truncated_links(link);
                    perform set_config('lock_timeout', lock_timeout, true);
                    exit;
                end if;
                if tg_op <> 'INSERT' then
                    execute format(
                        'select array_agg(%s) from (%s) as t', aiq.key_text(link.key_columns, 't'), touched
                    ) into keys;
                    perform aiq.hold_link_rows(link.id, keys);
                end if;
                execute aiq.link_statement(link, touched) into report;
                perform aiq.settle_links(link, report.departed, report.restated, report.arrived);
                perform set_config('lock_timeout', lock_timeout, true);
                exit;
            exception when others then
                get stacked diagnostics code = returned_sqlstate,
                    what = message_text, detail = pg_exception_detail;
                if code = '40P01' and again < 10 or code = '55P03' and (
                    patience = interval '0' or clock_timestamp() < begun + patience
                ) then
                    again := again + (code = '40P01')::int;
                    continue;
                end if;
                if aiq.passes_as_it_is(code) then
                    raise;
                end if;
                perform aiq.require_key_columns(
                    link.source, link.key_columns, format('edges "%s"', link.relation),
                    format('select aiq.unregister_link_table(%L, %L);', link.source_table, link.relation)
                );
                if tg_op = 'TRUNCATE' then
                    raise;
                end if;
                execute format(
                    'select array_agg(%s) from (%s) as t', aiq.key_text(link.key_columns, 't'), touched
                ) into keys;
                perform aiq.refuse_link_rows(link, keys, code, what, detail);
            end;
        end loop;
    end loop;
    for passages in
        select t.id, t.key_columns from aiq.text_sources as t
        where tg_relid = any (t.members) and not t.paused order by t.id
    loop
        if tg_op = 'TRUNCATE' then
            perform aiq.drop_truncated_text(passages.id);
            continue;
        end if;
        touched := aiq.touched_keys(passages.key_columns, tg_op);
        begin
            execute aiq.text_statement(passages.id, touched) into report;
        exception when others then
            get stacked diagnostics code = returned_sqlstate,
                what = message_text, detail = pg_exception_detail;
            if aiq.passes_as_it_is(code) then
                raise;
            end if;
            perform aiq.require_text_columns(passages.id);
            execute format(
                'select array_agg(%s) from (%s) as t', aiq.key_text(passages.key_columns, 't'), touched
            ) into keys;
            perform aiq.refuse_text_rows(passages.id, keys, code, what, detail);
        end;
    end loop;
    return null;
end
$$;
alter function aiq.keep_in_step() owner to aiq_engine;
comment on function aiq.keep_in_step() is
    'Trigger on a registered table: brings the nodes, edges and passages of the rows that a statement touched into step';
revoke all on function aiq.keep_in_step() from public;

create or replace function aiq.forget_triggers(p_members regclass[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    delete from aiq.installed_objects as o
    where
        o.kind = 'trigger' and o.name ~ '^graphalgo_(insert|update|delete|truncate) on '
        and not exists (
            select
            from pg_trigger as t
            cross join lateral pg_identify_object('pg_trigger'::regclass, t.oid, 0) as i
            where
                t.tgfoid = 'aiq.keep_in_step'::regproc and t.tgrelid <> all (p_members)
                and i.identity = o.name
        )
$$;
alter function aiq.forget_triggers(regclass[]) owner to aiq_engine;
comment on function aiq.forget_triggers(regclass[]) is
    'Strikes triggers from the list of what is installed: those of some tables, and those that are gone';
revoke all on function aiq.forget_triggers(regclass[]) from public;

create or replace function aiq.put_triggers(p_source regclass) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    member regclass;
    item record;
begin
    foreach member in array aiq.source_tree(p_source) loop
        for item in
            select * from (values
                ('graphalgo_insert', 'insert', 'referencing new table as new_rows'),
                ('graphalgo_update', 'update', 'referencing old table as old_rows new table as new_rows'),
                ('graphalgo_delete', 'delete', 'referencing old table as old_rows'),
                ('graphalgo_truncate', 'truncate', '')
            ) as t (name, event, tables)
        loop
            execute format(
                'create or replace trigger %I after %s on %s %s for each statement execute function aiq.keep_in_step()',
                item.name, item.event, aiq.source_name(member), item.tables
            );
            insert into aiq.installed_objects (kind, name)
            select i.type, i.identity
            from pg_trigger as t
            cross join lateral pg_identify_object('pg_trigger'::regclass, t.oid, 0) as i
            where t.tgrelid = member and t.tgname = item.name
            on conflict do nothing;
        end loop;
    end loop;
    perform aiq.forget_triggers('{}');
end
$$;
alter function aiq.put_triggers(regclass) owner to aiq_engine;
comment on function aiq.put_triggers(regclass) is
    'Puts the triggers on a table, its partitions and its inheritance children, or enables them again';
revoke all on function aiq.put_triggers(regclass) from public;

-- Checking a registration

create or replace function aiq.require_type(p_entity_type text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from aiq.entity_types as t where t.name = p_entity_type) then
        raise exception using
            errcode = '42704',
            message = format('there is no entity type %s', coalesce('"' || p_entity_type || '"', 'null')),
            hint = coalesce('Insert it into aiq.entity_types, or write one of: ' || (
                select string_agg(t.name, ', ' order by t.name) from aiq.entity_types as t
            ), 'Insert it into aiq.entity_types first.');
    end if;
end
$$;
alter function aiq.require_type(text) owner to aiq_engine;
comment on function aiq.require_type(text) is 'Refuses an entity type that is not there';
revoke all on function aiq.require_type(text) from public;

-- A row's expression is tried where neither aggregates, windows nor sets are
-- allowed, and by way of a cursor, which takes one statement and no more.
create or replace function aiq.expression_type(
    p_source regclass, p_row_name text, p_parameter text, p_expression text, p_type text
) returns regtype
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set standard_conforming_strings = on
set quote_all_identifiers = off
as $$
declare
    rows_text constant text := format('(select s.* from %s as s) as %I', aiq.source_name(p_source), p_row_name);
    found_type regtype;
    what text;
begin
    if p_expression is null then
        return null;
    end if;
    begin
        if btrim(p_expression, E' \t\r\n') = '' then
            raise exception 'it is empty';
        end if;
        if p_expression ~* 'pg_temp' then
            raise exception 'it names pg_temp, but temporary objects are each session''s own';
        end if;
        for found_type in execute format(
            E'select pg_typeof((select (\n%1$s\n) from %2$s where (\n%1$s\n) is null and false))',
            p_expression, rows_text
        ) loop
            exit;
        end loop;
        if p_type is not null then
            for what in execute format(
                E'select (select (\n%s\n)::%s from %s where false)::text', p_expression, p_type, rows_text
            ) loop
                exit;
            end loop;
        end if;
        perform aiq.refuse_temporary(p_expression, rows_text);
    exception when others then
        raise exception using
            errcode = '22023',
            message = format(
                '%s is "%s", which cannot be computed over a row of %s: %s',
                p_parameter, p_expression, aiq.source_name(p_source), sqlerrm
            ),
            detail = sqlstate,
            hint = format(
                'Write a SQL expression%s over the columns of %s, with every name outside pg_catalog '
                'qualified by its schema; it is computed with the rights of aiq_engine.',
                coalesce(' of type ' || p_type, ''), aiq.source_name(p_source)
            );
    end;
    return found_type;
end
$$;
alter function aiq.expression_type(regclass, text, text, text, text) owner to aiq_engine;
comment on function aiq.expression_type(regclass, text, text, text, text) is
    'The type of an expression over a table''s row; refuses what is no such expression';
revoke all on function aiq.expression_type(regclass, text, text, text, text) from public;

-- A view records what its query resolved to.
create or replace function aiq.refuse_temporary(p_expression text, p_rows text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    view_name constant text := format('graphalgo_expression_%s', pg_current_xact_id());
    named text;
begin
    -- A session without temporary objects cannot have named any.
    if pg_my_temp_schema() = 0 then
        return;
    end if;
    execute format(E'create temporary view %I as select (\n%s\n) as value from %s', view_name, p_expression, p_rows);
    select i.identity into named
    from pg_rewrite as r
    join pg_depend as d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
    cross join lateral pg_identify_object(d.refclassid, d.refobjid, 0) as i
    where
        r.ev_class = format('pg_temp.%I', view_name)::regclass
        and not (d.refclassid = 'pg_class'::regclass and d.refobjid = r.ev_class)
        and i.identity ~ '(^|[^a-z0-9_])pg_temp(_[0-9]+)?[.]'
    limit 1;
    execute format('drop view pg_temp.%I', view_name);
    if named is not null then
        raise exception 'it names %, but temporary objects are each session''s own', named;
    end if;
end
$$;
alter function aiq.refuse_temporary(text, text) owner to aiq_engine;
comment on function aiq.refuse_temporary(text, text) is
    'Refuses an expression that a temporary object of the session takes part in';
revoke all on function aiq.refuse_temporary(text, text) from public;

-- The keys in the order of their kinds, those that are names before codes: where
-- a node has a key twice, the first counts.
create or replace function aiq.key_groups(p_entity aiq.entity_tables) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    item record;
    found_type regtype;
    groups jsonb := '[]';
    keys text := '';
    unknown text;
begin
    select c into unknown
    from unnest(p_entity.code_exprs) as c
    where c is null or c <> all (
        p_entity.key_expr || p_entity.canonical_exprs || p_entity.short_exprs || p_entity.alias_exprs
    )
    limit 1;
    if found then
        raise exception using
            errcode = '22023',
            message = format('p_code_exprs names "%s", which is none of the key expressions', unknown),
            hint = 'Write in p_code_exprs those of p_key_expr, p_canonical_exprs, p_short_exprs and '
                'p_alias_exprs whose keys are codes or numbers.';
    end if;
    for item in
        select
            k.kind, k.parameter, k.expression, k.expression <> all (p_entity.code_exprs) as is_name,
            lead(k.kind || (k.expression <> all (p_entity.code_exprs))::text) over sorted
            is distinct from k.kind || (k.expression <> all (p_entity.code_exprs))::text as last_of_group
        from (
            select 1, 'canonical', 'p_key_expr', p_entity.key_expr
            union all
            select 1, 'canonical', 'p_canonical_exprs', unnest(p_entity.canonical_exprs)
            union all
            select 2, 'short', 'p_short_exprs', unnest(p_entity.short_exprs)
            union all
            select 3, 'alias', 'p_alias_exprs', unnest(p_entity.alias_exprs)
        ) as k (rank, kind, parameter, expression)
        window sorted as (
            order by k.rank, k.expression <> all (p_entity.code_exprs) desc, k.parameter desc, k.expression
        )
        order by k.rank, k.expression <> all (p_entity.code_exprs) desc, k.parameter desc, k.expression
    loop
        if item.expression is null then
            raise exception using
                errcode = '22023',
                message = format('%s holds null, but every key expression must be SQL', item.parameter),
                hint = 'Write an expression such as ''name'', or leave the parameter out.';
        end if;
        found_type := aiq.expression_type(
            p_entity.source, p_entity.row_name, item.parameter, item.expression, null
        );
        keys := concat_ws(' || ', nullif(keys, ''), format(
            case when exists (
                select from pg_type as t where t.oid = found_type and t.typcategory = 'A'
            ) then E'(\n%s\n)::text[]' else E'array[(\n%s\n)::text]' end,
            item.expression
        ));
        if item.last_of_group then
            groups := groups || jsonb_build_object('kind', item.kind, 'is_name', item.is_name, 'keys', keys);
            keys := '';
        end if;
    end loop;
    return groups;
end
$$;
alter function aiq.key_groups(aiq.entity_tables) owner to aiq_engine;
comment on function aiq.key_groups(aiq.entity_tables) is
    'Checks the key expressions of a registration and puts them together by kind and is_name';
revoke all on function aiq.key_groups(aiq.entity_tables) from public;

create or replace function aiq.require_readable(p_source regclass) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if row_security_active(p_source::oid) and not exists (
        select from pg_policy as p
        where
            p.polrelid = p_source and p.polpermissive and p.polcmd in ('r', '*')
            and p.polroles && array[0::oid, 'aiq_engine'::regrole::oid]
            and pg_get_expr(p.polqual, p.polrelid) = 'true'
    ) then
        raise exception using
            errcode = '55000',
            message = format('row security hides rows of %s from aiq_engine, so that they could not become nodes', aiq.source_name(p_source)),
            hint = format('create policy graphalgo_reads on %s for select to aiq_engine using (true);', aiq.source_name(p_source));
    end if;
end
$$;
alter function aiq.require_readable(regclass) owner to aiq_engine;
comment on function aiq.require_readable(regclass) is
    'Refuses a table whose row security would hide rows from the engine';
revoke all on function aiq.require_readable(regclass) from public;

-- The work of the requests, run as the engine

-- A table keeps its registrations when it is renamed or made anew under its name.
create or replace function aiq.follow_names(p_source regclass) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    now_named constant text := aiq.source_name(p_source);
    was_named text;
begin
    update aiq.entity_tables as e
    set source = p_source
    where
        e.source_table = now_named and e.source <> p_source
        and not exists (select from pg_class as c where c.oid = e.source);
    update aiq.link_tables as l
    set source = p_source
    where
        l.source_table = now_named and l.source <> p_source
        and not exists (select from pg_class as c where c.oid = l.source);
    for was_named in
        select distinct e.source_table from aiq.entity_tables as e
        where e.source = p_source and e.source_table <> now_named
    loop
        update aiq.nodes set source_table = now_named where source_table = was_named and entity_type is not null;
        update aiq.entity_tables set source_table = now_named where source = p_source;
        update aiq.link_tables set src_table = now_named where src_table = was_named;
        update aiq.link_tables set dst_table = now_named where dst_table = was_named;
    end loop;
    -- What the table has said it says under its new name.
    update aiq.edges as e
    set memory = 'table ' || now_named
    from aiq.link_tables as l
    join aiq.link_rows as r on r.link_id = l.id
    where
        l.source = p_source and l.source_table <> now_named
        and e.id = r.edge_id and e.memory = aiq.link_memory(l);
    insert into aiq.edge_assertions as a (edge_id, memory, agent, stated_from, weight, asserted_at)
    select o.edge_id, 'table ' || now_named, o.agent, o.stated_from, o.weight, o.asserted_at
    from aiq.edge_assertions as o
    join (
        select distinct r.edge_id, aiq.link_memory(l) as memory
        from aiq.link_tables as l
        join aiq.link_rows as r on r.link_id = l.id
        where l.source = p_source and l.source_table <> now_named
    ) as s on s.edge_id = o.edge_id and s.memory = o.memory
    on conflict (edge_id, memory) do update set
        stated_from = least(a.stated_from, excluded.stated_from),
        weight = greatest(a.weight, excluded.weight);
    delete from aiq.edge_assertions as o
    using aiq.link_tables as l, aiq.link_rows as r
    where
        l.source = p_source and l.source_table <> now_named and r.link_id = l.id
        and o.edge_id = r.edge_id and o.memory = aiq.link_memory(l);
    update aiq.link_tables as l set source_table = now_named
    where l.source = p_source and l.source_table <> now_named;
    update aiq.text_sources as t set source = p_source
    where
        t.source_table = now_named and t.source <> p_source
        and not exists (select from pg_class as c where c.oid = t.source);
    update aiq.text_sources as t set source_table = now_named
    where t.source = p_source and t.source_table <> now_named;
end
$$;
alter function aiq.follow_names(regclass) owner to aiq_engine;
comment on function aiq.follow_names(regclass) is
    'Brings the name that a registered table had into line with the one that it has';
revoke all on function aiq.follow_names(regclass) from public;

create or replace function aiq.rebuild_entity(p_entity aiq.entity_tables) returns jsonb
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
    report record;
    code text;
    hit text;
    what text;
    detail text;
begin
    if aiq.source_name(p_entity.source) is null then
        with held as materialized (
            select n.id from aiq.nodes as n
            where n.source_table = p_entity.source_table and n.entity_type = p_entity.entity_type
                and n.retired_at is null
            order by n.id for no key update
        ),
        retired as (
            update aiq.nodes as n set retired_at = now() from held as h where n.id = h.id
            returning 1
        )
        select 0 as inserted, 0 as updated, count(*) as retired, 0 as added, 0 as removed,
            null::text[] as arrived
        into report from retired;
        return to_jsonb(report) - 'arrived';
    end if;
    perform aiq.require_readable(p_entity.source);
    for attempt in 1..2 loop
        begin
            if p_entity.number_expr is not null then
                execute aiq.entity_adoption(p_entity, null);
                execute aiq.entity_parting(p_entity, null);
            end if;
            execute aiq.entity_statement(p_entity, null) into report;
            if aiq.has_documents(p_entity) then
                execute aiq.document_statement(p_entity, null);
            else
                delete from aiq.entity_documents as d where d.registration_id = p_entity.id;
            end if;
            exit;
        exception when others then
            get stacked diagnostics code = returned_sqlstate, hit = constraint_name,
                what = message_text, detail = pg_exception_detail;
            if aiq.passes_as_it_is(code) then
                raise;
            end if;
            if attempt = 1 and hit = 'nodes_handle' and p_entity.number_expr is null then
                perform aiq.skip_taken_handles(p_entity.entity_type);
                continue;
            end if;
            perform aiq.refuse_entity_rows(p_entity, null, code, what, detail);
        end;
    end loop;
    perform aiq.settle_arrivals(p_entity.entity_type, p_entity.source_table, report.arrived);
    return to_jsonb(report) - 'arrived';
end
$$;
alter function aiq.rebuild_entity(aiq.entity_tables) owner to aiq_engine;
comment on function aiq.rebuild_entity(aiq.entity_tables) is
    'Makes nodes and keys agree with a table in one pass and tells how many it wrote';
revoke all on function aiq.rebuild_entity(aiq.entity_tables) from public;

create or replace function aiq.do_register_entity(
    p_source regclass, p_arguments jsonb, p_requested_by text
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    entity aiq.entity_tables := jsonb_populate_record(null::aiq.entity_tables, p_arguments);
    item record;
begin
    perform aiq.require_type(entity.entity_type);
    perform aiq.require_readable(p_source);
    perform aiq.follow_names(p_source);
    entity.source := p_source;
    entity.source_table := aiq.source_name(p_source);
    entity.row_name := (select c.relname from pg_class as c where c.oid = p_source);
    entity.canonical_exprs := coalesce(entity.canonical_exprs, '{}');
    entity.short_exprs := coalesce(entity.short_exprs, '{}');
    entity.alias_exprs := coalesce(entity.alias_exprs, '{}');
    entity.code_exprs := coalesce(entity.code_exprs, '{}');
    select k.columns, k.operators into entity.key_columns, entity.key_operators
    from aiq.source_key(p_source) as k;
    entity.members := aiq.source_tree(p_source);
    entity.may_repeat := cardinality(entity.members) > 1
        and (select c.relkind from pg_class as c where c.oid = p_source) = 'r';
    for item in
        select * from (values
            ('p_summary_expr', entity.summary_expr, 'text'), ('p_org_expr', entity.org_expr, 'uuid'),
            ('p_include_where', entity.include_where, 'boolean'),
            ('p_visibility_expr', entity.visibility_expr, 'text'),
            ('p_owner_expr', entity.owner_expr, 'uuid'), ('p_number_expr', entity.number_expr, 'bigint'),
            ('p_title_expr', entity.title_expr, 'text'), ('p_body_expr', entity.body_expr, 'text')
        ) as t (parameter, expression, type)
    loop
        perform aiq.expression_type(p_source, entity.row_name, item.parameter, item.expression, item.type);
    end loop;
    if entity.configuration is null then
        raise exception using
            errcode = '22023', message = 'p_configuration is null, but must be a text search configuration',
            hint = 'Write one of pg_ts_config, such as ''english'' or ''simple''.';
    end if;
    entity.policy := aiq.registered_policy(entity.policy);
    entity.key_groups := aiq.key_groups(entity);
    entity.paused := false;
    entity.registered_by := p_requested_by;
    entity.registered_at := now();
    select e.id into entity.id from aiq.entity_tables as e
    where e.entity_type = entity.entity_type and e.source = p_source;
    delete from aiq.entity_tables as e where e.id = entity.id;
    entity.id := coalesce(entity.id, nextval(pg_get_serial_sequence('aiq.entity_tables', 'id')));
    insert into aiq.entity_tables overriding system value select (entity).*;
    perform aiq.put_triggers(p_source);
    return jsonb_build_array(
        jsonb_build_object('source_table', entity.source_table) || aiq.rebuild_entity(entity)
    );
end
$$;
alter function aiq.do_register_entity(regclass, jsonb, text) owner to aiq_engine;
comment on function aiq.do_register_entity(regclass, jsonb, text) is 'The engine''s part of aiq.register_entity_table';
revoke all on function aiq.do_register_entity(regclass, jsonb, text) from public;

-- Of a table that is gone nobody is the owner: whoever registered it, or a superuser.
create or replace function aiq.require_registrant(p_registered_by text, p_requested_by text, p_source_table text)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not coalesce((select r.rolsuper from pg_roles as r where r.rolname = p_requested_by), false)
        and not exists (
            select from pg_roles as r
            where r.rolname = p_registered_by and pg_has_role(p_requested_by::name, r.oid, 'usage')
        )
    then
        raise exception using
            errcode = '42501',
            message = format('%s did not register %s, which is no longer there', p_requested_by, p_source_table),
            hint = format('Ask %s or a superuser.', p_registered_by);
    end if;
end
$$;
alter function aiq.require_registrant(text, text, text) owner to aiq_engine;
comment on function aiq.require_registrant(text, text, text) is
    'Refuses whoever neither registered a table that is gone nor is a superuser';
revoke all on function aiq.require_registrant(text, text, text) from public;

create or replace function aiq.do_unregister_entity(
    p_source regclass, p_arguments jsonb, p_requested_by text
) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    entity aiq.entity_tables;
    retired bigint;
begin
    select * into entity from aiq.entity_tables as e
    where e.entity_type = p_arguments ->> 'entity_type' and e.source = p_source;
    if not found then
        raise exception using
            errcode = '42704',
            message = format(
                '%s is not registered as nodes of type %s',
                coalesce(aiq.source_name(p_source), 'the table ' || coalesce(p_source::oid::text, 'null')),
                coalesce('"' || (p_arguments ->> 'entity_type') || '"', 'null')
            ),
            hint = 'The registrations are in aiq.entity_tables.';
    end if;
    if aiq.source_name(p_source) is null then
        perform aiq.require_registrant(entity.registered_by, p_requested_by, entity.source_table);
    end if;
    delete from aiq.entity_tables as e where e.id = entity.id;
    with held as materialized (
        select n.id from aiq.nodes as n
        where n.source_table = entity.source_table and n.entity_type = entity.entity_type
            and n.retired_at is null
        order by n.id for no key update
    ),
    gone as (
        update aiq.nodes as n set retired_at = now() from held as h where n.id = h.id
        returning 1
    )
    select count(*) into retired from gone;
    if not aiq.is_registered(p_source) then
        perform aiq.forget_triggers(entity.members || aiq.source_tree(p_source));
    end if;
    return jsonb_build_object(
        'retired', retired, 'release', not aiq.is_registered(p_source), 'members', to_jsonb(entity.members)
    );
end
$$;
alter function aiq.do_unregister_entity(regclass, jsonb, text) owner to aiq_engine;
comment on function aiq.do_unregister_entity(regclass, jsonb, text) is 'The engine''s part of aiq.unregister_entity_table';
revoke all on function aiq.do_unregister_entity(regclass, jsonb, text) from public;

create or replace function aiq.do_rebuild(p_arguments jsonb, p_requested_by text) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    entity aiq.entity_tables;
    reports jsonb := '[]';
begin
    for entity in
        select * from aiq.entity_tables as e where e.entity_type = p_arguments ->> 'entity_type' order by e.id
    loop
        if aiq.source_name(entity.source) is null then
            perform aiq.require_registrant(entity.registered_by, p_requested_by, entity.source_table);
        end if;
        reports := reports || (
            jsonb_build_object('source_table', entity.source_table) || aiq.rebuild_entity(entity)
        );
    end loop;
    return reports;
end
$$;
alter function aiq.do_rebuild(jsonb, text) owner to aiq_engine;
comment on function aiq.do_rebuild(jsonb, text) is 'The engine''s part of aiq.rebuild';
revoke all on function aiq.do_rebuild(jsonb, text) from public;

create or replace function aiq.do_bulk(p_source regclass, p_arguments jsonb) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    pause constant boolean := (p_arguments ->> 'on')::boolean;
    entity aiq.entity_tables;
    link aiq.link_tables;
begin
    if not aiq.is_registered(p_source) then
        raise exception using
            errcode = '42704',
            message = format('%s is not a registered table', coalesce(aiq.source_name(p_source), p_source::oid::text)),
            hint = 'Register it with aiq.register_entity_table, aiq.register_link_table or aiq.register_text_source.';
    end if;
    if pause is null then
        raise exception using
            errcode = '22023', message = 'p_on is null, but must be true or false',
            hint = 'Write true to pause the triggers and false to resume.';
    end if;
    update aiq.entity_tables set paused = pause where source = p_source;
    update aiq.link_tables set paused = pause where source = p_source;
    update aiq.text_sources set paused = pause where source = p_source;
    if pause then
        return jsonb_build_object('pause', true);
    end if;
    update aiq.entity_tables set members = aiq.source_tree(p_source) where source = p_source;
    update aiq.link_tables set members = aiq.source_tree(p_source) where source = p_source;
    perform aiq.put_triggers(p_source);
    for entity in select * from aiq.entity_tables as e where e.source = p_source order by e.id loop
        perform aiq.rebuild_entity(entity);
    end loop;
    for link in select * from aiq.link_tables as l where l.source = p_source order by l.id loop
        perform aiq.rebuild_link(link);
    end loop;
    perform aiq.resume_text(p_source);
    return '{}';
end
$$;
alter function aiq.do_bulk(regclass, jsonb) owner to aiq_engine;
comment on function aiq.do_bulk(regclass, jsonb) is 'The engine''s part of aiq.bulk';
revoke all on function aiq.do_bulk(regclass, jsonb) from public;

-- The requests

create or replace view aiq.registration_requests as
    select
        null::text as action, null::regclass as source, null::jsonb as arguments,
        null::regclass[] as sources, null::text as requested_by, null::jsonb as result
    where false;
alter view aiq.registration_requests owner to aiq_owner;
comment on view aiq.registration_requests is
    'Always empty: a row inserted here is a request to register, rebuild or release a table of the one who inserts it. Roles that own tables to be registered are granted select and insert';

create or replace function aiq.request_1_sources() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    new.sources := array[new.source];
    new.requested_by := null;
    new.result := null;
    if new.action = 'rebuild' then
        perform aiq.require_type(new.arguments ->> 'entity_type');
        new.sources := array(
            select e.source from aiq.entity_tables as e
            where e.entity_type = new.arguments ->> 'entity_type' order by e.source
        );
        if new.sources = '{}' then
            raise exception using
                errcode = '42704',
                message = format('no table is registered as nodes of type "%s"', new.arguments ->> 'entity_type'),
                hint = 'Register one with aiq.register_entity_table.';
        end if;
    elsif new.action in ('unregister_text', 'rebuild_text') then
        new.source := aiq.text_source_table(new.arguments ->> 'name');
        new.sources := array[new.source];
    end if;
    return new;
end
$$;
alter function aiq.request_1_sources() owner to aiq_engine;
comment on function aiq.request_1_sources() is 'Trigger of a request, as the engine: which tables it is about';
revoke all on function aiq.request_1_sources() from public;

-- As whoever asks, and with nothing but the catalogue.
create or replace function aiq.request_2_owner() returns trigger
language plpgsql volatile security invoker
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    registers constant boolean := new.action in ('register_entity', 'register_link', 'register_text');
    relation regclass;
    member record;
    table_name text;
begin
    new.requested_by := current_user;
    foreach relation in array new.sources loop
        select format('%I.%I', n.nspname, c.relname) into table_name
        from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where c.oid = relation;
        if table_name is null then
            if registers or new.action = 'bulk' then
                raise exception using
                    errcode = '42704',
                    message = format('there is no table %s', coalesce(relation::oid::text, 'null')),
                    hint = 'Write the table''s name, with its schema, as p_source_table.';
            end if;
            continue;
        end if;
        for member in
            with recursive tree (oid) as (
                select relation::oid
                union
                select i.inhrelid from tree join pg_inherits as i on i.inhparent = tree.oid
            )
            select c.oid, format('%I.%I', n.nspname, c.relname) as name, c.relowner, c.relkind,
                c.relpersistence, n.oid as schema_id, n.nspname, c.oid = relation as is_root,
                exists (select from pg_inherits as i where i.inhrelid = c.oid) as is_child,
                exists (select from pg_index as x where x.indrelid = c.oid and x.indisprimary) as has_key
            from tree
            join pg_class as c on c.oid = tree.oid
            join pg_namespace as n on n.oid = c.relnamespace
            order by c.oid <> relation, c.oid
        loop
            if not pg_has_role(current_user, member.relowner, 'usage') then
                raise exception using
                    errcode = '42501',
                    message = format('%s is not the owner of %s', current_user, member.name),
                    hint = format('Ask %s or a superuser, since the expressions of a registration run with the rights of aiq_engine.', pg_get_userbyid(member.relowner));
            end if;
            continue when not registers;
            if member.is_root and member.relkind not in ('r', 'p') or member.relkind = 'f'
                or member.relpersistence = 't' or member.nspname in ('aiq', 'rbac', 'pg_catalog', 'information_schema')
            then
                raise exception using
                    errcode = '22023',
                    message = format('%s cannot be registered: it is not an ordinary or partitioned table of the database''s own', member.name),
                    hint = 'Register a table that is neither temporary, foreign, a view nor a system''s, and has no foreign partition.';
            end if;
            if member.is_root and member.is_child then
                raise exception using
                    errcode = '22023',
                    message = format('%s is a part of another table, whose statements would not be noticed here', member.name),
                    hint = 'Register the table at the top, with a p_include_where if not all of it is meant.';
            end if;
            if member.is_root and not member.has_key and new.action <> 'register_text' then
                raise exception using
                    errcode = '22023',
                    message = format('%s has no primary key, by which its rows could be told apart', member.name),
                    hint = format('alter table %s add primary key (…);', member.name);
            end if;
        end loop;
        execute format('lock table %s in share row exclusive mode', table_name);
        if registers or new.action = 'bulk' then
            for member in
                with recursive tree (oid) as (
                    select relation::oid
                    union
                    select i.inhrelid from tree join pg_inherits as i on i.inhparent = tree.oid
                )
                select format('%I.%I', n.nspname, c.relname) as name, n.oid as schema_id, n.nspname
                from tree
                join pg_class as c on c.oid = tree.oid
                join pg_namespace as n on n.oid = c.relnamespace
            loop
                execute format('grant select, trigger on table %s to aiq_engine', member.name);
                if not has_schema_privilege('aiq_engine', member.schema_id, 'usage') then
                    raise exception using
                        errcode = '42501',
                        message = format('aiq_engine may not use the schema of %s', member.name),
                        hint = format('grant usage on schema %I to aiq_engine;', member.nspname);
                end if;
            end loop;
        end if;
    end loop;
    return new;
end
$$;
alter function aiq.request_2_owner() owner to aiq_owner;
comment on function aiq.request_2_owner() is
    'Trigger of a request, as whoever asks: refuses who is not the owner, locks the tables and lets the engine read them';
revoke all on function aiq.request_2_owner() from public;

create or replace function aiq.request_3_engine() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    new.result := case new.action
        when 'register_entity' then aiq.do_register_entity(new.source, new.arguments, new.requested_by)
        when 'unregister_entity' then aiq.do_unregister_entity(new.source, new.arguments, new.requested_by)
        when 'register_link' then aiq.do_register_link(new.source, new.arguments, new.requested_by)
        when 'unregister_link' then aiq.do_unregister_link(new.source, new.arguments, new.requested_by)
        when 'register_text' then aiq.do_register_text(new.source, new.arguments, new.requested_by)
        when 'unregister_text' then aiq.do_unregister_text(new.source, new.arguments, new.requested_by)
        when 'rebuild_text' then aiq.do_rebuild_text(new.arguments, new.requested_by)
        when 'rebuild' then aiq.do_rebuild(new.arguments, new.requested_by)
        when 'rebuild_links' then aiq.do_rebuild_links(new.source)
        when 'bulk' then aiq.do_bulk(new.source, new.arguments)
    end;
    if new.result is null then
        raise exception using
            errcode = '22023',
            message = format('there is no request %s', coalesce('"' || new.action || '"', 'null')),
            hint = 'Call aiq.register_entity_table and its like, which write the requests.';
    end if;
    return new;
end
$$;
alter function aiq.request_3_engine() owner to aiq_engine;
comment on function aiq.request_3_engine() is 'Trigger of a request, as the engine: does it';
revoke all on function aiq.request_3_engine() from public;

-- Dropping and disabling a trigger is the owner's alone.
create or replace function aiq.request_4_owner() returns trigger
language plpgsql volatile security invoker
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    item record;
begin
    if new.action not in ('unregister_entity', 'unregister_link', 'unregister_text', 'bulk') then
        return new;
    end if;
    for item in
        select t.tgname, format('%I.%I', n.nspname, c.relname) as name
        from pg_trigger as t
        join pg_class as c on c.oid = t.tgrelid
        join pg_namespace as n on n.oid = c.relnamespace
        where
            t.tgname in ('graphalgo_insert', 'graphalgo_update', 'graphalgo_delete', 'graphalgo_truncate')
            and t.tgfoid = (
                select p.oid from pg_proc as p join pg_namespace as s on s.oid = p.pronamespace
                where s.nspname = 'aiq' and p.proname = 'keep_in_step'
            )
            and (
                c.oid in (
                    with recursive tree (oid) as (
                        select new.source::oid
                        union
                        select i.inhrelid from tree join pg_inherits as i on i.inhparent = tree.oid
                    )
                    select tree.oid from tree
                )
                -- A partition that has been detached still has its triggers.
                or format('%I.%I', n.nspname, c.relname) in (
                    select jsonb_array_elements_text(new.result -> 'members')
                )
            )
        order by c.oid, t.tgname
    loop
        if (new.result ->> 'release')::boolean then
            execute format('drop trigger %I on %s', item.tgname, item.name);
            execute format('revoke select, trigger on table %s from aiq_engine', item.name);
        elsif (new.result ->> 'pause')::boolean then
            execute format('alter table only %s disable trigger %I', item.name, item.tgname);
        end if;
    end loop;
    return new;
end
$$;
alter function aiq.request_4_owner() owner to aiq_owner;
comment on function aiq.request_4_owner() is
    'Trigger of a request, as whoever asks: drops or disables triggers';
revoke all on function aiq.request_4_owner() from public;

create or replace trigger request_1_sources instead of insert on aiq.registration_requests
for each row execute function aiq.request_1_sources();
create or replace trigger request_2_owner instead of insert on aiq.registration_requests
for each row execute function aiq.request_2_owner();
create or replace trigger request_3_engine instead of insert on aiq.registration_requests
for each row execute function aiq.request_3_engine();
create or replace trigger request_4_owner instead of insert on aiq.registration_requests
for each row execute function aiq.request_4_owner();

-- What callers call: nothing but the request, with their own rights

create or replace function aiq.request_registration(p_action text, p_source regclass, p_arguments jsonb)
returns jsonb
language plpgsql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
declare
    answer jsonb;
begin
    if not has_table_privilege(current_user, 'aiq.registration_requests', 'insert')
        or not has_table_privilege(current_user, 'aiq.registration_requests', 'select')
    then
        raise exception using
            errcode = '42501',
            message = format('%s may not register tables', current_user),
            hint = format(
                'As a superuser, if its expressions may read what aiq_engine reads, which is every tenant''s rows: '
                'grant select, insert on aiq.registration_requests to %I;', current_user
            );
    end if;
    insert into aiq.registration_requests (action, source, arguments)
    values (p_action, p_source, p_arguments)
    returning result into answer;
    return answer;
end
$$;
alter function aiq.request_registration(text, regclass, jsonb) owner to aiq_owner;
comment on function aiq.request_registration(text, regclass, jsonb) is
    'Writes a request with the caller''s own rights and returns what came of it';
revoke all on function aiq.request_registration(text, regclass, jsonb) from public;

create or replace function aiq.register_entity_table(
    p_entity_type text, p_source_table regclass, p_key_expr text, p_summary_expr text default null,
    p_org_expr text default null, p_include_where text default null,
    p_canonical_exprs text[] default '{}', p_short_exprs text[] default '{}',
    p_alias_exprs text[] default '{}', p_code_exprs text[] default '{}',
    p_visibility_expr text default null, p_owner_expr text default null, p_number_expr text default null,
    p_title_expr text default null, p_body_expr text default null,
    p_configuration regconfig default 'pg_catalog.english', p_policy text default null
) returns table (
    source_table text, nodes_inserted bigint, nodes_updated bigint, nodes_retired bigint,
    keys_written bigint, keys_removed bigint
)
language plpgsql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_key_expr is null then
        raise exception using
            errcode = '22023',
            message = 'p_key_expr is null, but must be the expression of a row''s canonical key',
            hint = 'Write a SQL expression over the table''s columns, such as ''name''.';
    end if;
    return query
    select r.source_table, r.inserted, r.updated, r.retired, r.added, r.removed
    from jsonb_to_recordset(aiq.request_registration(
        'register_entity', p_source_table,
        jsonb_build_object(
            'entity_type', p_entity_type, 'key_expr', p_key_expr, 'summary_expr', p_summary_expr,
            'org_expr', p_org_expr, 'include_where', p_include_where,
            'canonical_exprs', p_canonical_exprs, 'short_exprs', p_short_exprs,
            'alias_exprs', p_alias_exprs, 'code_exprs', p_code_exprs,
            'visibility_expr', p_visibility_expr, 'owner_expr', p_owner_expr, 'number_expr', p_number_expr,
            'title_expr', p_title_expr, 'body_expr', p_body_expr,
            'configuration', p_configuration::text, 'policy', p_policy
        )
    )) as r (
        source_table text, inserted bigint, updated bigint, retired bigint, added bigint, removed bigint
    );
end
$$;
alter function aiq.register_entity_table(
    text, regclass, text, text, text, text, text[], text[], text[], text[], text, text, text,
    text, text, regconfig, text
) owner to aiq_owner;
comment on function aiq.register_entity_table(
    text, regclass, text, text, text, text, text[], text[], text[], text[], text, text, text,
    text, text, regconfig, text
) is
    'Reads a table as nodes of an entity type and keeps them in step with it. Every expression is SQL over the table''s columns, with names outside pg_catalog qualified, and runs with the rights of aiq_engine: p_key_expr and p_canonical_exprs give canonical keys, p_short_exprs short ones, p_alias_exprs aliases (an array gives several keys; null and empty give none), p_code_exprs repeats those of them that give codes or numbers; p_org_expr, p_visibility_expr (org by default) and p_owner_expr the scope; p_include_where which rows are nodes; p_number_expr the numbers of the handles. p_title_expr (the summary by default) and p_body_expr make the entity searchable by aiq.search_entities with the text search configuration p_configuration; with neither it is not. p_policy names a SQL function f(p_nodes bigint[]) returns setof bigint that callers may execute: it is asked, as the caller, which of some nodes the caller may open, and the functions of the map tell of no others. Registering again replaces the whole registration. The table''s owner or a superuser may, and once a role is granted select and insert on aiq.registration_requests. Returns what was written';
revoke all on function aiq.register_entity_table(
    text, regclass, text, text, text, text, text[], text[], text[], text[], text, text, text,
    text, text, regconfig, text
) from public;

create or replace function aiq.unregister_entity_table(p_entity_type text, p_source_table regclass)
returns bigint
language sql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
    select (aiq.request_registration(
        'unregister_entity', p_source_table, jsonb_build_object('entity_type', p_entity_type)
    ) ->> 'retired')::bigint
$$;
alter function aiq.unregister_entity_table(text, regclass) owner to aiq_owner;
comment on function aiq.unregister_entity_table(text, regclass) is
    'Reads a table no longer as nodes of an entity type: drops its triggers, retires its nodes and returns how many; their history stays. A table that is gone is given by its oid';
revoke all on function aiq.unregister_entity_table(text, regclass) from public;

create or replace function aiq.rebuild(p_entity_type text)
returns table (
    source_table text, nodes_inserted bigint, nodes_updated bigint, nodes_retired bigint,
    keys_written bigint, keys_removed bigint
)
language sql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
    select r.source_table, r.inserted, r.updated, r.retired, r.added, r.removed
    from jsonb_to_recordset(aiq.request_registration(
        'rebuild', null, jsonb_build_object('entity_type', p_entity_type)
    )) as r (
        source_table text, inserted bigint, updated bigint, retired bigint, added bigint, removed bigint
    )
$$;
alter function aiq.rebuild(text) owner to aiq_owner;
comment on function aiq.rebuild(text) is
    'Makes the nodes and keys of an entity type agree with its tables in one pass over each; writers wait meanwhile. The tables'' owner or a superuser may. Returns what was written';
revoke all on function aiq.rebuild(text) from public;

create or replace function aiq.bulk(p_source_table regclass, p_on boolean) returns void
language plpgsql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
begin
    perform aiq.request_registration('bulk', p_source_table, jsonb_build_object('on', p_on));
end
$$;
alter function aiq.bulk(regclass, boolean) owner to aiq_owner;
comment on function aiq.bulk(regclass, boolean) is
    'Pauses (true) the triggers of a registered table for a load, or resumes (false) them and makes nodes, edges and passages agree with the table in one pass';
revoke all on function aiq.bulk(regclass, boolean) from public;

grant execute on function
    aiq.request_registration(text, regclass, jsonb),
    aiq.register_entity_table(
        text, regclass, text, text, text, text, text[], text[], text[], text[], text, text, text,
        text, text, regconfig, text
    ),
    aiq.unregister_entity_table(text, regclass), aiq.rebuild(text), aiq.bulk(regclass, boolean)
    to authenticated, aiq_worker;
