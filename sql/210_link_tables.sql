-- Tables read as edges: a column that refers to a registered row, or a junction
-- table. A reference that changes closes the edge and opens the new one.
--
-- aiq.link_rows (its table is in the file before) holds what each row of such a
-- table says, and the edge that says it: two rows may say the same, and the edge
-- ends when the last of them goes. A row one of whose ends is not (yet) a node
-- waits there without an edge.

create or replace function aiq.is_registered(p_source regclass) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select
        exists (select from aiq.entity_tables as e where e.source = p_source)
        or exists (select from aiq.link_tables as l where l.source = p_source)
        or exists (select from aiq.text_sources as t where t.source = p_source)
$$;
alter function aiq.is_registered(regclass) owner to aiq_engine;
comment on function aiq.is_registered(regclass) is 'Whether a table is read as nodes, as edges or as passages';
revoke all on function aiq.is_registered(regclass) from public;

create or replace function aiq.link_projection(p_link aiq.link_tables, p_rows text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select format(
        E'select%s * from (select %s as row_pk,\n'
        '        %s collate "C" as src_pk,\n        %s collate "C" as dst_pk,\n'
        '        coalesce((\n%s\n)::real, 1) as weight,\n        (\n%s\n)::timestamptz as valid_from,\n'
        '        (\n%s\n)::uuid as org_id,\n        coalesce((\n%s\n)::text, ''org'') as visibility,\n'
        '        (\n%s\n)::uuid as owner_id\n    from (%s) as %I where (\n%s\n)) as r\n'
        '    where src_pk is not null and dst_pk is not null%s',
        case when p_link.may_repeat then ' distinct on (row_pk)' else '' end,
        key, coalesce(E'(\n' || p_link.src_expr || E'\n)::text', key),
        coalesce(E'(\n' || p_link.dst_expr || E'\n)::text', key),
        coalesce(p_link.weight_expr, 'null'), coalesce(p_link.valid_from_expr, 'null'),
        coalesce(p_link.org_expr, 'null'), coalesce(p_link.visibility_expr, 'null'),
        coalesce(p_link.owner_expr, 'null'), p_rows, p_link.row_name,
        coalesce(p_link.include_where, 'true'),
        case when p_link.may_repeat then ' order by row_pk' else '' end
    )
    from (select aiq.key_text(p_link.key_columns, p_link.row_name)) as k (key)
$$;
alter function aiq.link_projection(aiq.link_tables, text) owner to aiq_engine;
comment on function aiq.link_projection(aiq.link_tables, text) is
    'The query for the edges that rows say: one row each for those that are included and name both ends';
revoke all on function aiq.link_projection(aiq.link_tables, text) from public;

create or replace function aiq.link_statement(p_link aiq.link_tables, p_touched text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select case when p_touched is null then 'with ' else format(
        E'with touched as materialized (%s),\ntouched_keys as materialized (select %s as row_pk from touched as %I),\n',
        p_touched, aiq.key_text(p_link.key_columns, p_link.row_name), p_link.row_name
    ) end || format(
        $statement$projected as materialized (
    %1$s
),
compared as materialized (
    select
        p.*, r.row_pk is null as fresh, r.edge_id as former,
        (r.src_pk, r.dst_pk, r.org_id, r.visibility, r.owner_id)
        is distinct from (p.src_pk, p.dst_pk, p.org_id, p.visibility, p.owner_id) as moved,
        (r.weight, r.valid_from) is distinct from (p.weight, p.valid_from) as restated
    from projected as p
    left join lateral (
        select o.* from aiq.link_rows as o where o.link_id = %2$s and o.row_pk = p.row_pk offset 0
    ) as r on true
),
gone as (
    delete from aiq.link_rows as r
    using (
        %3$s
        except
        select row_pk from projected
    ) as g
    where r.link_id = %2$s and r.row_pk = g.row_pk
    returning r.edge_id
),
changed as (
    update aiq.link_rows as r
    set src_pk = c.src_pk, dst_pk = c.dst_pk, weight = c.weight, valid_from = c.valid_from,
        org_id = c.org_id, visibility = c.visibility, owner_id = c.owner_id,
        edge_id = case when c.moved then null else r.edge_id end
    from compared as c
    where r.link_id = %2$s and r.row_pk = c.row_pk and not c.fresh and (c.moved or c.restated)
),
inserted as (
    insert into aiq.link_rows (
        link_id, row_pk, src_pk, dst_pk, weight, valid_from, org_id, visibility, owner_id
    )
    select %2$s, row_pk, src_pk, dst_pk, weight, valid_from, org_id, visibility, owner_id
    from compared
    where fresh
    order by row_pk
)
select
    array(
        select edge_id from gone where edge_id is not null
        union
        select former from compared where moved and former is not null
    ) as departed,
    array(select distinct former from compared where restated and not moved and former is not null) as restated,
    array(select row_pk from compared where moved) as arrived$statement$,
        aiq.link_projection(
            p_link, aiq.source_rows(p_link.source, p_link.key_columns, p_link.key_operators, p_touched)
        ),
        p_link.id,
        case
            when p_touched is not null then 'select row_pk from touched_keys'
            else format('select row_pk from aiq.link_rows where link_id = %s', p_link.id)
        end
    )
$$;
alter function aiq.link_statement(aiq.link_tables, text) owner to aiq_engine;
comment on function aiq.link_statement(aiq.link_tables, text) is
    'The statement that records what rows say now and tells which edges lost a row, which are said otherwise, and which rows want one';
revoke all on function aiq.link_statement(aiq.link_tables, text) from public;

-- Everybody who changes several rows of link tables or several edges locks them first,
-- in these orders. The statements that follow then see what others have left.
create or replace function aiq.hold_link_rows(p_link_id int, p_rows text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
begin
    perform from aiq.link_rows as r
    where r.link_id = p_link_id and r.row_pk = any (p_rows)
    order by r.row_pk for update;
end
$$;
alter function aiq.hold_link_rows(int, text[]) owner to aiq_engine;
comment on function aiq.hold_link_rows(int, text[]) is
    'Locks what rows of a link table say until the transaction ends';
revoke all on function aiq.hold_link_rows(int, text[]) from public;

create or replace function aiq.hold_edges(p_edges bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
begin
    perform from aiq.edges as e
    where e.id = any (p_edges) and e.valid_to is null
    order by e.src_id, e.relation, e.dst_id, e.org_id, e.visibility, e.owner_id, e.id for no key update;
end
$$;
alter function aiq.hold_edges(bigint[]) owner to aiq_engine;
comment on function aiq.hold_edges(bigint[]) is
    'Locks those of some edges that have no end until the transaction ends';
revoke all on function aiq.hold_edges(bigint[]) from public;

create or replace function aiq.links_to(p_entity_type text, p_source_table text)
returns setof aiq.link_tables
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select l.* from aiq.link_tables as l
    where
        (l.src_type = p_entity_type and l.src_table = p_source_table)
        or (l.dst_type = p_entity_type and l.dst_table = p_source_table)
    order by l.id
$$;
alter function aiq.links_to(text, text) owner to aiq_engine;
comment on function aiq.links_to(text, text) is 'The link tables whose rows name rows of a registered table';
revoke all on function aiq.links_to(text, text) from public;

create or replace function aiq.has_waiting(p_entity_type text, p_source_table text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select from aiq.links_to(p_entity_type, p_source_table) as l
        where exists (select from aiq.link_rows as r where r.link_id = l.id and r.edge_id is null)
    )
$$;
alter function aiq.has_waiting(text, text) owner to aiq_engine;
comment on function aiq.has_waiting(text, text) is
    'Whether any row of a link table that names rows of a registered table waits for an edge';
revoke all on function aiq.has_waiting(text, text) from public;

create or replace function aiq.waiting_for(
    p_link aiq.link_tables, p_entity_type text, p_source_table text, p_keys text[],
    out rows text[], out ready text[]
)
language sql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
    with named as materialized (
        select r.row_pk, p_link.dst_type as type, p_link.dst_table as source, r.dst_pk as pk
        from aiq.link_rows as r
        where
            p_link.src_type = p_entity_type and p_link.src_table = p_source_table
            and r.link_id = p_link.id and r.edge_id is null and r.src_pk = any (p_keys)
        union all
        select r.row_pk, p_link.src_type, p_link.src_table, r.src_pk
        from aiq.link_rows as r
        where
            p_link.dst_type = p_entity_type and p_link.dst_table = p_source_table
            and r.link_id = p_link.id and r.edge_id is null and r.dst_pk = any (p_keys)
    )
    select
        array_agg(distinct w.row_pk),
        array_agg(distinct w.row_pk) filter (where
            (w.type = p_entity_type and w.source = p_source_table and w.pk = any (p_keys))
            or exists (
                select from aiq.nodes as n
                where
                    n.source_table = w.source and n.source_pk = w.pk
                    and n.entity_type is not distinct from w.type and n.retired_at is null
            )
        )
    from named as w
$$;
alter function aiq.waiting_for(aiq.link_tables, text, text, text[]) owner to aiq_engine;
comment on function aiq.waiting_for(aiq.link_tables, text, text, text[]) is
    'The rows of a link table that wait and name rows of a registered table by one of some primary keys; ready: those whose other end is a node, or becomes one with these';
revoke all on function aiq.waiting_for(aiq.link_tables, text, text, text[]) from public;

create or replace function aiq.hold_waiting(p_entity_type text, p_source_table text, p_keys text[])
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    link aiq.link_tables;
begin
    for link in select * from aiq.links_to(p_entity_type, p_source_table) loop
        perform aiq.hold_link_rows(link.id, w.ready)
        from aiq.waiting_for(link, p_entity_type, p_source_table, p_keys) as w
        where w.ready is not null;
    end loop;
end
$$;
alter function aiq.hold_waiting(text, text, text[]) owner to aiq_engine;
comment on function aiq.hold_waiting(text, text, text[]) is
    'Locks the rows of link tables that wait for nothing but rows of a registered table';
revoke all on function aiq.hold_waiting(text, text, text[]) from public;

-- An edge that several tables or memories say is not ended by the first that stops:
-- the edge is locked before those that still say it are looked for, so that of two
-- writers that each take one away the second ends it. Of an edge that somebody began
-- without giving a memory nobody knows whether it is still said, so it stays.
create or replace function aiq.end_links(p_memory text, p_edges bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    unsaid bigint[];
begin
    if p_edges is null or p_edges = '{}' then
        return;
    end if;
    perform aiq.hold_edges(p_edges);
    unsaid := array(
        select e.id from aiq.edges as e
        where
            e.id = any (p_edges) and e.valid_to is null
            and not exists (
                select from aiq.link_rows as r
                join aiq.link_tables as l on l.id = r.link_id
                where r.edge_id = e.id and aiq.link_memory(l) = p_memory
            )
    );
    update aiq.edges as e
    set valid_to = greatest(now(), e.valid_from), closed_by = p_memory
    where
        e.id = any (unsaid) and e.memory is not null
        and not exists (select from aiq.link_rows as r where r.edge_id = e.id)
        and not exists (
            select from aiq.edge_assertions as a where a.edge_id = e.id and a.memory <> p_memory
        );
    delete from aiq.edge_assertions as a
    using aiq.edges as e
    where
        a.edge_id = any (unsaid) and a.memory = p_memory
        and e.id = a.edge_id and e.valid_to is null;
    perform aiq.restate_links(p_memory, p_edges);
end
$$;
alter function aiq.end_links(text, bigint[]) owner to aiq_engine;
comment on function aiq.end_links(text, bigint[]) is
    'Withdraws what a table has said of some edges where no row of it says them any more: ends those that nobody else says, and leaves the others the weight that they are said with';
revoke all on function aiq.end_links(text, bigint[]) from public;

-- The greatest weight and the earliest start of what is still said win. The start of
-- an edge that another source began is only brought forward.
create or replace function aiq.restate_links(p_memory text, p_edges bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform aiq.hold_edges(p_edges);
    update aiq.edge_assertions as a
    set weight = s.weight, stated_from = coalesce(s.stated_from, a.stated_from)
    from (
        select r.edge_id, max(r.weight) as weight, min(r.valid_from) as stated_from
        from aiq.link_rows as r
        join aiq.link_tables as l on l.id = r.link_id
        where r.edge_id = any (p_edges) and aiq.link_memory(l) = p_memory
        group by r.edge_id
    ) as s
    where
        a.edge_id = s.edge_id and a.memory = p_memory
        and (a.weight, a.stated_from)
        is distinct from (s.weight, coalesce(s.stated_from, a.stated_from))
        and exists (select from aiq.edges as e where e.id = a.edge_id and e.valid_to is null);
    update aiq.edges as e
    set weight = s.weight, valid_from = s.valid_from
    from (
        select
            o.id,
            case when o.memory is null then greatest(o.weight, t.weight) else t.weight end as weight,
            greatest(
                case when o.memory = p_memory and t.still then t.stated_from
                    else least(o.valid_from, t.stated_from) end,
                aiq.closed_until(o.src_id, o.relation, o.dst_id, o.org_id, o.visibility, o.owner_id)
            ) as valid_from
        from aiq.edges as o
        cross join lateral (
            select max(a.weight) as weight, min(a.stated_from) as stated_from,
                bool_or(a.memory = p_memory) as still
            from aiq.edge_assertions as a where a.edge_id = o.id
        ) as t
        where o.id = any (p_edges) and o.valid_to is null and t.weight is not null
    ) as s
    where e.id = s.id and (e.weight, e.valid_from) is distinct from (s.weight, s.valid_from);
end
$$;
alter function aiq.restate_links(text, bigint[]) owner to aiq_engine;
comment on function aiq.restate_links(text, bigint[]) is
    'Gives edges the greatest weight and the earliest start with which tables and memories say them';
revoke all on function aiq.restate_links(text, bigint[]) from public;

-- A period that was closed where it began is empty: nothing overlaps it.
create or replace function aiq.closed_until(
    p_src_id bigint, p_relation text, p_dst_id bigint, p_org_id uuid, p_visibility text, p_owner_id uuid
) returns timestamptz
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select max(p.valid_to) from aiq.edges as p
    where
        p.src_id = p_src_id and p.dst_id = p_dst_id and p.relation = p_relation
        and p.org_id is not distinct from p_org_id and p.visibility = p_visibility
        and p.owner_id is not distinct from p_owner_id
        and p.valid_to is not null and p.valid_to > p.valid_from
$$;
alter function aiq.closed_until(bigint, text, bigint, uuid, text, uuid) owner to aiq_engine;
comment on function aiq.closed_until(bigint, text, bigint, uuid, text, uuid) is
    'The end of the last period of a fact that has one; null: none';
revoke all on function aiq.closed_until(bigint, text, bigint, uuid, text, uuid) from public;

-- A start before or inside an ended period moves to its end. Which edge a row has the
-- insert itself says: to look it up, the planner may choose to read a hub's edges for
-- each of its rows. For why types are compared in this way see
-- aiq.entity_statement.
create or replace function aiq.open_links(p_link aiq.link_tables, p_rows text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    waiting constant text[] := array(
        select r.row_pk from aiq.link_rows as r
        where r.link_id = p_link.id and r.edge_id is null and r.row_pk = any (p_rows)
    );
    opened_edges bigint[];
    opened_rows text[];
begin
    if waiting = '{}' then
        return;
    end if;
    -- The nodes before the edges, as every writer does.
    perform from aiq.nodes as n
    where n.id = any (array(
        select s.id
        from aiq.link_rows as r
        cross join lateral (
            select o.id from aiq.nodes as o
            where
                o.source_table = p_link.src_table and o.source_pk = r.src_pk
                and o.entity_type is not distinct from p_link.src_type and o.retired_at is null
            union all
            select o.id from aiq.nodes as o
            where
                o.source_table = p_link.dst_table and o.source_pk = r.dst_pk
                and o.entity_type is not distinct from p_link.dst_type and o.retired_at is null
            offset 0
        ) as s
        where r.link_id = p_link.id and r.row_pk = any (waiting)
    ))
    order by n.id for key share;
    with stated as materialized (
        select
            s.id as src_id, d.id as dst_id, r.org_id, r.visibility, r.owner_id,
            s.audience as src_audience, d.audience as dst_audience,
            max(r.weight) as weight, min(coalesce(r.valid_from, now())) as valid_from,
            array_agg(r.row_pk order by r.row_pk) as row_pks
        from aiq.link_rows as r
        cross join lateral (
            select n.id, n.audience from aiq.nodes as n
            where
                n.source_table = p_link.src_table and n.source_pk = r.src_pk
                and n.entity_type is not distinct from p_link.src_type and n.retired_at is null
            offset 0
        ) as s
        cross join lateral (
            select n.id, n.audience from aiq.nodes as n
            where
                n.source_table = p_link.dst_table and n.source_pk = r.dst_pk
                and n.entity_type is not distinct from p_link.dst_type and n.retired_at is null
            offset 0
        ) as d
        where r.link_id = p_link.id and r.row_pk = any (waiting)
        group by s.id, s.audience, d.id, d.audience, r.org_id, r.visibility, r.owner_id
    ),
    opened as (
        insert into aiq.edges as e (
            src_id, dst_id, relation, weight, valid_from, memory, provenance,
            org_id, visibility, owner_id, src_audience, dst_audience
        )
        select
            s.src_id, s.dst_id, p_link.relation, s.weight,
            greatest(s.valid_from, (
                select max(p.valid_to) from aiq.edges as p
                where
                    p.src_id = s.src_id and p.dst_id = s.dst_id and p.relation = p_link.relation
                    and (p.org_id, p.visibility, p.owner_id)
                    is not distinct from (s.org_id, s.visibility, s.owner_id)
                    and p.valid_to is not null and p.valid_to > p.valid_from
            )),
            aiq.link_memory(p_link),
            jsonb_build_object('table', p_link.source_table, 'rows', to_jsonb(s.row_pks[1:10])),
            s.org_id, s.visibility, s.owner_id, s.src_audience, s.dst_audience
        from stated as s
        order by s.src_id, s.dst_id, s.org_id, s.visibility, s.owner_id
        on conflict (src_id, relation, dst_id, org_id, visibility, owner_id) where valid_to is null
        do update set
            weight = greatest(e.weight, excluded.weight),
            valid_from = least(e.valid_from, excluded.valid_from)
        returning e.id, e.src_id, e.dst_id, e.org_id, e.visibility, e.owner_id
    )
    select array_agg(o.id), array_agg(u.row_pk)
    into opened_edges, opened_rows
    from opened as o
    join stated as s
        on
            s.src_id = o.src_id and s.dst_id = o.dst_id and s.org_id is not distinct from o.org_id
            and s.visibility = o.visibility and s.owner_id is not distinct from o.owner_id
    cross join lateral unnest(s.row_pks) as u (row_pk);
    update aiq.link_rows as r
    set edge_id = o.edge_id
    from unnest(opened_edges, opened_rows) as o (edge_id, row_pk)
    where r.link_id = p_link.id and r.row_pk = o.row_pk;
    insert into aiq.edge_assertions as a (edge_id, memory, stated_from, weight)
    select r.edge_id, aiq.link_memory(p_link), min(coalesce(r.valid_from, now())), max(r.weight)
    from aiq.link_rows as r
    where r.link_id = p_link.id and r.row_pk = any (waiting) and r.edge_id is not null
    group by r.edge_id
    order by r.edge_id
    on conflict (edge_id, memory) do update set
        stated_from = least(a.stated_from, excluded.stated_from),
        weight = greatest(a.weight, excluded.weight);
    -- Whoever makes the missing end a node meanwhile does not see these.
    insert into aiq.unsettled (link_id, rows)
    select r.link_id, array_agg(r.row_pk order by r.row_pk)
    from aiq.link_rows as r
    where
        r.link_id = p_link.id and r.row_pk = any (waiting) and r.edge_id is null
    group by r.link_id;
end
$$;
alter function aiq.open_links(aiq.link_tables, text[]) owner to aiq_engine;
comment on function aiq.open_links(aiq.link_tables, text[]) is
    'Opens the edges of those of some rows that wait and both ends of which are nodes';
revoke all on function aiq.open_links(aiq.link_tables, text[]) from public;

create or replace function aiq.link_memory(p_link aiq.link_tables) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$ select 'table ' || p_link.source_table $$;
alter function aiq.link_memory(aiq.link_tables) owner to aiq_engine;
comment on function aiq.link_memory(aiq.link_tables) is
    'The memory of the edges that a table says, and who ends them';
revoke all on function aiq.link_memory(aiq.link_tables) from public;

create or replace function aiq.settle_links(
    p_link aiq.link_tables, p_departed bigint[], p_restated bigint[], p_rows text[]
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- All at once, since each of the two would lock in its own order.
    perform aiq.hold_edges(p_departed || p_restated);
    perform aiq.end_links(aiq.link_memory(p_link), p_departed);
    if p_restated <> '{}' then
        perform aiq.restate_links(aiq.link_memory(p_link), p_restated);
    end if;
    if p_rows <> '{}' then
        perform aiq.open_links(p_link, p_rows);
    end if;
end
$$;
alter function aiq.settle_links(aiq.link_tables, bigint[], bigint[], text[]) owner to aiq_engine;
comment on function aiq.settle_links(aiq.link_tables, bigint[], bigint[], text[]) is
    'Ends, restates and opens edges after rows of a link table have changed';
revoke all on function aiq.settle_links(aiq.link_tables, bigint[], bigint[], text[]) from public;

create or replace function aiq.open_arrivals(p_entity_type text, p_source_table text, p_keys text[])
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    link aiq.link_tables;
    waiting record;
begin
    for link in select * from aiq.links_to(p_entity_type, p_source_table) loop
        waiting := aiq.waiting_for(link, p_entity_type, p_source_table, p_keys);
        if waiting.rows is not null then
            perform aiq.hold_link_rows(link.id, waiting.ready);
            perform aiq.open_links(link, waiting.rows);
        end if;
    end loop;
end
$$;
alter function aiq.open_arrivals(text, text, text[]) owner to aiq_engine;
comment on function aiq.open_arrivals(text, text, text[]) is
    'Opens the edges that wait for rows of a registered table, of those rows that have become nodes';
revoke all on function aiq.open_arrivals(text, text, text[]) from public;

create or replace function aiq.settle_arrivals(p_entity_type text, p_source_table text, p_keys text[])
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_keys is null or not exists (select from aiq.links_to(p_entity_type, p_source_table)) then
        return;
    end if;
    perform aiq.open_arrivals(p_entity_type, p_source_table, p_keys);
    insert into aiq.unsettled (entity_type, source_table, keys)
    values (p_entity_type, p_source_table, p_keys);
end
$$;
alter function aiq.settle_arrivals(text, text, text[]) owner to aiq_engine;
comment on function aiq.settle_arrivals(text, text, text[]) is
    'Opens the edges that waited for rows that have become nodes, and has it looked at again at the end of the transaction';
revoke all on function aiq.settle_arrivals(text, text, text[]) from public;

-- A transaction with one snapshot cannot look again. A row that a statement of it
-- would meet, or find changed, it meets nevertheless, and fails with 40001: a node
-- that the unique index has, a node that is no longer retired, or the count of a link
-- table some rows of which others have left waiting.
create or replace function aiq.require_nothing_unseen() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from aiq.link_waits as w
    where w.link_id in (
        select l.id from aiq.unsettled as u
        cross join lateral aiq.links_to(u.entity_type, u.source_table) as l
        where u.keys is not null
    )
    order by w.link_id for share;
    begin
        perform from aiq.nodes as n
        where n.id in (
            select o.id from aiq.missing_ends() as m
            join aiq.nodes as o
                on o.source_table = m.source_table and o.source_pk = m.source_pk
                and o.entity_type = m.entity_type
        )
        order by n.id for share skip locked;
        insert into aiq.nodes (entity_type, source_table, source_pk)
        select m.entity_type, m.source_table, m.source_pk
        from aiq.missing_ends() as m
        order by m.source_table, m.source_pk, m.entity_type
        on conflict do nothing;
        raise exception using errcode = 'GA001', message = 'nothing unseen';
    exception when sqlstate 'GA001' then
        null;
    end;
end
$$;
alter function aiq.require_nothing_unseen() owner to aiq_engine;
comment on function aiq.require_nothing_unseen() is
    'Fails with 40001 where another transaction has committed what this one waits for and cannot see';
revoke all on function aiq.require_nothing_unseen() from public;

create or replace function aiq.missing_ends()
returns table (entity_type text, source_table text, source_pk text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select distinct e.entity_type, e.source_table, e.source_pk
    from aiq.unsettled as u
    join aiq.link_tables as l on l.id = u.link_id
    cross join lateral unnest(u.rows) as w (row_pk)
    join aiq.link_rows as r on r.link_id = l.id and r.row_pk = w.row_pk and r.edge_id is null
    cross join lateral (
        values (l.src_type, l.src_table, r.src_pk), (l.dst_type, l.dst_table, r.dst_pk)
    ) as e (entity_type, source_table, source_pk)
    where not exists (
        select from aiq.nodes as n
        where
            n.source_table = e.source_table and n.source_pk = e.source_pk
            and n.entity_type is not distinct from e.entity_type and n.retired_at is null
    )
$$;
alter function aiq.missing_ends() owner to aiq_engine;
comment on function aiq.missing_ends() is
    'The ends that rows of link tables wait for, of the rows that this transaction has left waiting';
revoke all on function aiq.missing_ends() from public;

create or replace function aiq.settle_parts(p_parts aiq.unsettled[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    part aiq.unsettled;
    link aiq.link_tables;
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform aiq.require_nothing_unseen();
    end if;
    foreach part in array p_parts loop
        if part.keys is not null then
            perform aiq.open_arrivals(part.entity_type, part.source_table, part.keys);
            continue;
        end if;
        select * into link from aiq.link_tables as l where l.id = part.link_id;
        if found then
            perform aiq.open_links(link, part.rows);
        end if;
    end loop;
end
$$;
alter function aiq.settle_parts(aiq.unsettled[]) owner to aiq_engine;
comment on function aiq.settle_parts(aiq.unsettled[]) is
    'Opens the edges between what a transaction has written and what others have committed meanwhile';
revoke all on function aiq.settle_parts(aiq.unsettled[]) from public;

create or replace function aiq.hold_tables(p_alone int[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    item record;
begin
    for item in
        select t.lock, bool_or(t.alone) as alone
        from (
            select hashtext(u.source_table) as lock, false as alone
            from aiq.unsettled as u where u.keys is not null
            union
            select hashtext(e.name), true
            from aiq.link_tables as l
            cross join lateral (values (l.src_table), (l.dst_table)) as e (name)
            where l.id = any (p_alone)
        ) as t
        group by t.lock order by t.lock
    loop
        if item.alone then
            perform pg_advisory_xact_lock(1634298211, item.lock);
        else
            perform pg_advisory_xact_lock_shared(1634298211, item.lock);
        end if;
    end loop;
end
$$;
alter function aiq.hold_tables(int[]) owner to aiq_engine;
comment on function aiq.hold_tables(int[]) is
    'Locks, in one order, the tables whose rows a transaction has made nodes, shared, and those that some link tables name, alone';
revoke all on function aiq.hold_tables(int[]) from public;

-- The locks of tables are taken at the end of the transaction, all of them at once and
-- in order. Those who make nodes share them; those who leave rows waiting have both
-- tables alone that the rows may name. That rows of one more link table are left waiting
-- may show only under the locks. A shared lock is never made a stronger one, since two
-- who share it would wait for each other: all are let go and taken anew.
--
-- A row that is needed now may be locked by a transaction that has still to come here.
-- So whoever has the tables waits for a row but a moment, less than it takes until a
-- deadlock is looked for; then lets go of the tables, waits for the row without them, and
-- begins again. The writer's own lock_timeout holds for the whole.
create or replace function aiq.settle_at_commit() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    parts aiq.unsettled[];
    alone int[];
    more int[];
    code text;
    crowded boolean := false;
    again int := 0;
    lock_timeout constant text := current_setting('lock_timeout');
    patience constant interval := lock_timeout::interval;
    begun constant timestamptz := clock_timestamp();
begin
    -- The first of the transaction's rows settles them all.
    if not exists (select from aiq.unsettled as u where u.id = new.id) then
        return null;
    end if;
    parts := array(select u from aiq.unsettled as u order by u.id);
    alone := array(select distinct u.link_id from aiq.unsettled as u where u.link_id is not null);
    loop
        begin
            if crowded then
                perform aiq.wait_at_most(patience);
                perform aiq.settle_parts(parts);
                perform set_config('lock_timeout', lock_timeout, true);
            end if;
            perform aiq.hold_tables(alone);
            if patience = interval '0' or patience > interval '100 milliseconds' then
                perform set_config('lock_timeout', '100ms', true);
            end if;
            update aiq.link_waits as w set times = w.times + 1 where w.link_id = any (alone);
            perform aiq.settle_parts(parts);
            perform set_config('lock_timeout', lock_timeout, true);
            more := array(
                select distinct u.link_id from aiq.unsettled as u where u.link_id <> all (alone)
            );
            if more <> '{}' then
                raise exception using errcode = 'GA002', message = 'more rows wait';
            end if;
            -- What still waits has been looked at under locks that nobody shared.
            delete from aiq.unsettled;
            return null;
        exception when others then
            -- This lets go of every lock of this attempt.
            get stacked diagnostics code = returned_sqlstate;
            if code = 'GA002' then
                alone := alone || more;
            elsif code = '40P01' and again < 10 or code = '55P03' and (
                patience = interval '0' or clock_timestamp() < begun + patience
            ) then
                again := again + (code = '40P01')::int;
                crowded := true;
            else
                raise;
            end if;
        end;
    end loop;
end
$$;
alter function aiq.settle_at_commit() owner to aiq_engine;
comment on function aiq.settle_at_commit() is
    'Trigger at the end of a transaction: opens the edges between what it has written and what others have committed meanwhile';
revoke all on function aiq.settle_at_commit() from public;

do $$
begin
    if not exists (
        select from pg_catalog.pg_trigger as t
        where t.tgrelid = 'aiq.unsettled'::regclass and t.tgname = 'settle'
    ) then
        create constraint trigger settle after insert on aiq.unsettled
        deferrable initially deferred
        for each row execute function aiq.settle_at_commit();
    end if;
end
$$;

create or replace function aiq.drop_truncated_links(p_link aiq.link_tables) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    departed bigint[];
begin
    perform from aiq.link_rows as r where r.link_id = p_link.id order by r.row_pk for update;
    execute format(
        $statement$
with gone as (
    delete from aiq.link_rows as r
    where r.link_id = %s and not exists (select from %s as s where %s = r.row_pk)
    returning r.edge_id
)
select array_agg(edge_id) from gone where edge_id is not null$statement$,
        p_link.id, aiq.source_name(p_link.source), aiq.key_text(p_link.key_columns, 's')
    ) into departed;
    perform aiq.end_links(aiq.link_memory(p_link), departed);
end
$$;
alter function aiq.drop_truncated_links(aiq.link_tables) owner to aiq_engine;
comment on function aiq.drop_truncated_links(aiq.link_tables) is
    'Ends the edges of rows that a truncate took away';
revoke all on function aiq.drop_truncated_links(aiq.link_tables) from public;

create or replace function aiq.refuse_link_rows(
    p_link aiq.link_tables, p_keys text[], p_sqlstate text, p_message text, p_detail text
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    projection constant text := aiq.link_projection(p_link, aiq.some_rows(p_link.source, p_link.key_columns));
    keys constant text[] := coalesce(p_keys, aiq.all_keys(p_link.source, p_link.key_columns));
    found_row text;
    cause text;
begin
    select f.failing, f.message into found_row, cause from aiq.failing_row(projection, keys) as f;
    if cause is null then
        execute format(
            $query$
select q.row_pk, f.message
from (%s) as q
cross join lateral (select case
    when not (q.weight > 0 and q.weight <= 1)
        then format('weight is %%s, but must be above 0 and at most 1', q.weight)
    when q.visibility not in ('public', 'org', 'private')
        then format('visibility is "%%s", but must be public, org or private', q.visibility)
    when q.visibility = 'private' and q.owner_id is null then 'a private edge must have an owner'
    when q.valid_from = 'infinity'
        then 'the start is infinity, but must be a date or a time (or -infinity for ever)'
end) as f (message)
where f.message is not null
limit 1$query$, projection
        ) into found_row, cause using keys;
    end if;
    raise exception using
        errcode = '22023',
        message = format(
            '%s %s cannot be read as an edge "%s": %s',
            coalesce('the row ' || found_row || ' of', 'a row of'), p_link.source_table,
            p_link.relation, coalesce(cause, p_message)
        ),
        detail = concat_ws(' ', p_sqlstate, p_message, nullif(p_detail, '')),
        hint = format(
            'Correct the row, or call aiq.register_link_table(''%s'', ''%s'', …) with expressions that hold for it.',
            p_link.source_table, p_link.relation
        );
end
$$;
alter function aiq.refuse_link_rows(aiq.link_tables, text[], text, text, text) owner to aiq_engine;
comment on function aiq.refuse_link_rows(aiq.link_tables, text[], text, text, text) is
    'Raises the error that names the relation, the row and the cause';
revoke all on function aiq.refuse_link_rows(aiq.link_tables, text[], text, text, text) from public;

create or replace function aiq.rebuild_link(p_link aiq.link_tables) returns jsonb
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
    waiting text[];
    code text;
    what text;
    detail text;
begin
    if aiq.source_name(p_link.source) is not null then
        perform aiq.require_readable(p_link.source);
        perform from aiq.link_rows as r where r.link_id = p_link.id order by r.row_pk for update;
        begin
            execute aiq.link_statement(p_link, null) into report;
            perform aiq.settle_links(p_link, report.departed, report.restated, '{}');
            -- The waiting rows of before too: an end may have become a node unnoticed.
            waiting := array(
                select r.row_pk from aiq.link_rows as r where r.link_id = p_link.id and r.edge_id is null
            );
            perform aiq.hold_link_rows(p_link.id, waiting);
            perform aiq.open_links(p_link, waiting);
        exception when others then
            get stacked diagnostics code = returned_sqlstate,
                what = message_text, detail = pg_exception_detail;
            if aiq.passes_as_it_is(code) then
                raise;
            end if;
            perform aiq.refuse_link_rows(p_link, null, code, what, detail);
        end;
    end if;
    return (
        select jsonb_build_object(
            'source_table', p_link.source_table, 'relation', p_link.relation,
            'edges', count(distinct r.edge_id), 'waiting', count(*) filter (where r.edge_id is null)
        )
        from aiq.link_rows as r
        where r.link_id = p_link.id
    );
end
$$;
alter function aiq.rebuild_link(aiq.link_tables) owner to aiq_engine;
comment on function aiq.rebuild_link(aiq.link_tables) is
    'Makes edges agree with a link table in one pass and tells how many there are and how many rows wait for an end';
revoke all on function aiq.rebuild_link(aiq.link_tables) from public;

-- The registered table that references name: the one given, or the type's only one.
create or replace function aiq.link_end(p_entity_type text, p_table text, p_parameter text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    tables text[];
begin
    perform aiq.require_type(p_entity_type);
    tables := array(
        select e.source_table from aiq.entity_tables as e
        where e.entity_type = p_entity_type and (p_table is null or e.source_table = p_table)
        order by e.source_table
    );
    if cardinality(tables) = 1 then
        return tables[1];
    elsif cardinality(tables) = 0 then
        raise exception using
            errcode = '42704',
            message = format('%s is not registered as nodes of type "%s"', coalesce(p_table, 'no table'), p_entity_type),
            hint = 'Register it first with aiq.register_entity_table.';
    end if;
    raise exception using
        errcode = '21000',
        message = format('several tables are registered as nodes of type "%s": %s', p_entity_type, array_to_string(tables, ', ')),
        hint = format('Name the one that is meant as %s.', p_parameter);
end
$$;
alter function aiq.link_end(text, text, text) owner to aiq_engine;
comment on function aiq.link_end(text, text, text) is 'The registered table whose rows an end of a link names';
revoke all on function aiq.link_end(text, text, text) from public;

create or replace function aiq.do_register_link(p_source regclass, p_arguments jsonb, p_requested_by text)
returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    link aiq.link_tables := jsonb_populate_record(null::aiq.link_tables, p_arguments);
    item record;
    kept boolean;
begin
    perform aiq.require_readable(p_source);
    perform aiq.follow_names(p_source);
    link.source := p_source;
    link.source_table := aiq.source_name(p_source);
    link.row_name := (select c.relname from pg_class as c where c.oid = p_source);
    link.src_table := aiq.link_end(
        link.src_type, coalesce(link.src_table, case when link.src_expr is null then link.source_table end), 'p_src_table'
    );
    link.dst_table := aiq.link_end(
        link.dst_type, coalesce(link.dst_table, case when link.dst_expr is null then link.source_table end), 'p_dst_table'
    );
    if link.src_expr is null and link.dst_expr is null then
        raise exception using
            errcode = '22023',
            message = 'p_src_expr and p_dst_expr are both null, but one must name another row',
            hint = 'Write the column that refers to it, such as ''operator_id''; the other end is the row itself.';
    end if;
    if not exists (
        select from aiq.relations as r
        where r.src_type = link.src_type and r.relation = link.relation and r.dst_type = link.dst_type
    ) then
        raise exception using
            errcode = '42704',
            message = format('relation %s is not declared from "%s" to "%s"', coalesce('"' || link.relation || '"', 'null'), link.src_type, link.dst_type),
            hint = 'Declare it in aiq.relations, or write a relation that is declared for these types.';
    end if;
    for item in
        select * from (values
            ('p_src_expr', link.src_expr, 'text'), ('p_dst_expr', link.dst_expr, 'text'),
            ('p_weight_expr', link.weight_expr, 'real'),
            ('p_valid_from_expr', link.valid_from_expr, 'timestamptz'), ('p_org_expr', link.org_expr, 'uuid'),
            ('p_visibility_expr', link.visibility_expr, 'text'), ('p_owner_expr', link.owner_expr, 'uuid'),
            ('p_include_where', link.include_where, 'boolean')
        ) as t (parameter, expression, type)
    loop
        perform aiq.expression_type(p_source, link.row_name, item.parameter, item.expression, item.type);
    end loop;
    select k.columns, k.operators into link.key_columns, link.key_operators from aiq.source_key(p_source) as k;
    link.members := aiq.source_tree(p_source);
    link.may_repeat := cardinality(link.members) > 1
        and (select c.relkind from pg_class as c where c.oid = p_source) = 'r';
    link.paused := false;
    link.registered_by := p_requested_by;
    link.registered_at := now();
    select l.id into link.id from aiq.link_tables as l
    where
        l.source = p_source and l.relation = link.relation
        and l.src_type = link.src_type and l.dst_type = link.dst_type;
    kept := found;
    if kept then
        perform aiq.change_link(link);
    else
        link.id := nextval(pg_get_serial_sequence('aiq.link_tables', 'id'));
        insert into aiq.link_tables overriding system value select (link).*;
    end if;
    insert into aiq.link_waits (link_id) values (link.id) on conflict do nothing;
    perform aiq.put_triggers(p_source);
    return aiq.rebuild_link(link);
end
$$;
alter function aiq.do_register_link(regclass, jsonb, text) owner to aiq_engine;
comment on function aiq.do_register_link(regclass, jsonb, text) is 'The engine''s part of aiq.register_link_table';
revoke all on function aiq.do_register_link(regclass, jsonb, text) from public;

-- The row is kept, since the rows of aiq.link_rows hang on it. If an end is another
-- table now, what the rows said of the former is over.
create or replace function aiq.change_link(p_link aiq.link_tables) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    departed bigint[];
begin
    if exists (
        select from aiq.link_tables as l
        where l.id = p_link.id and (l.src_table, l.dst_table) <> (p_link.src_table, p_link.dst_table)
    ) then
        perform from aiq.link_rows as r where r.link_id = p_link.id order by r.row_pk for update;
        with forgotten as (
            delete from aiq.link_rows as r where r.link_id = p_link.id returning r.edge_id
        )
        select array_agg(edge_id) into departed from forgotten where edge_id is not null;
        perform aiq.end_links(aiq.link_memory(p_link), departed);
    end if;
    update aiq.link_tables as l
    set source = p_link.source, source_table = p_link.source_table, row_name = p_link.row_name,
        src_table = p_link.src_table, src_expr = p_link.src_expr,
        dst_table = p_link.dst_table, dst_expr = p_link.dst_expr,
        weight_expr = p_link.weight_expr, valid_from_expr = p_link.valid_from_expr,
        org_expr = p_link.org_expr, visibility_expr = p_link.visibility_expr,
        owner_expr = p_link.owner_expr, include_where = p_link.include_where,
        key_columns = p_link.key_columns, key_operators = p_link.key_operators,
        may_repeat = p_link.may_repeat, members = p_link.members, paused = p_link.paused,
        registered_by = p_link.registered_by, registered_at = p_link.registered_at
    where l.id = p_link.id;
end
$$;
alter function aiq.change_link(aiq.link_tables) owner to aiq_engine;
comment on function aiq.change_link(aiq.link_tables) is 'Replaces the registration of a link table';
revoke all on function aiq.change_link(aiq.link_tables) from public;

create or replace function aiq.do_unregister_link(p_source regclass, p_arguments jsonb, p_requested_by text)
returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    link aiq.link_tables;
    departed bigint[] := '{}';
    members regclass[] := '{}';
    edges bigint[];
begin
    for link in
        select * from aiq.link_tables as l
        where l.source = p_source and l.relation = p_arguments ->> 'relation'
    loop
        if aiq.source_name(p_source) is null then
            perform aiq.require_registrant(link.registered_by, p_requested_by, link.source_table);
        end if;
        perform from aiq.link_rows as r where r.link_id = link.id order by r.row_pk for update;
        edges := array(select r.edge_id from aiq.link_rows as r where r.link_id = link.id and r.edge_id is not null);
        members := members || link.members;
        delete from aiq.link_tables as l where l.id = link.id;
        perform aiq.end_links(aiq.link_memory(link), edges);
        departed := departed || edges;
    end loop;
    if members = '{}' then
        raise exception using
            errcode = '42704',
            message = format(
                '%s is not registered as edges %s',
                coalesce(aiq.source_name(p_source), 'the table ' || coalesce(p_source::oid::text, 'null')),
                coalesce('"' || (p_arguments ->> 'relation') || '"', 'null')
            ),
            hint = 'The registrations are in aiq.link_tables.';
    end if;
    if not aiq.is_registered(p_source) then
        perform aiq.forget_triggers(members || aiq.source_tree(p_source));
    end if;
    return jsonb_build_object(
        'ended', (select count(*) from aiq.edges as e where e.id = any (departed) and e.valid_to is not null),
        'release', not aiq.is_registered(p_source), 'members', to_jsonb(members)
    );
end
$$;
alter function aiq.do_unregister_link(regclass, jsonb, text) owner to aiq_engine;
comment on function aiq.do_unregister_link(regclass, jsonb, text) is 'The engine''s part of aiq.unregister_link_table';
revoke all on function aiq.do_unregister_link(regclass, jsonb, text) from public;

create or replace function aiq.do_rebuild_links(p_source regclass) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    link aiq.link_tables;
    reports jsonb := '[]';
begin
    for link in select * from aiq.link_tables as l where l.source = p_source order by l.id loop
        reports := reports || aiq.rebuild_link(link);
    end loop;
    if reports = '[]' then
        raise exception using
            errcode = '42704',
            message = format('%s is not registered as edges', coalesce(aiq.source_name(p_source), p_source::oid::text, 'null')),
            hint = 'Register it with aiq.register_link_table.';
    end if;
    return reports;
end
$$;
alter function aiq.do_rebuild_links(regclass) owner to aiq_engine;
comment on function aiq.do_rebuild_links(regclass) is 'The engine''s part of aiq.rebuild_links';
revoke all on function aiq.do_rebuild_links(regclass) from public;

create or replace function aiq.register_link_table(
    p_source_table regclass, p_relation text, p_src_type text, p_dst_type text,
    p_src_expr text default null, p_dst_expr text default null, p_weight_expr text default null,
    p_valid_from_expr text default null, p_org_expr text default null, p_include_where text default null,
    p_visibility_expr text default null, p_owner_expr text default null,
    p_src_table regclass default null, p_dst_table regclass default null
) returns table (source_table text, relation text, edges bigint, waiting bigint)
language sql volatile security invoker
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select r.source_table, r.relation, r.edges, r.waiting
    from jsonb_to_record(aiq.request_registration(
        'register_link', p_source_table,
        jsonb_build_object(
            'relation', p_relation, 'src_type', p_src_type, 'dst_type', p_dst_type,
            'src_expr', p_src_expr, 'dst_expr', p_dst_expr, 'weight_expr', p_weight_expr,
            'valid_from_expr', p_valid_from_expr, 'org_expr', p_org_expr,
            'include_where', p_include_where, 'visibility_expr', p_visibility_expr,
            'owner_expr', p_owner_expr,
            'src_table', (
                select format('%I.%I', n.nspname, c.relname)
                from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where c.oid = p_src_table
            ),
            'dst_table', (
                select format('%I.%I', n.nspname, c.relname)
                from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where c.oid = p_dst_table
            )
        )
    )) as r (source_table text, relation text, edges bigint, waiting bigint)
$$;
alter function aiq.register_link_table(
    regclass, text, text, text, text, text, text, text, text, text, text, text, regclass, regclass
) owner to aiq_owner;
comment on function aiq.register_link_table(
    regclass, text, text, text, text, text, text, text, text, text, text, text, regclass, regclass
) is
    'Reads a table''s rows as edges of a declared relation and keeps them in step. p_src_expr and p_dst_expr name rows of the tables registered as p_src_type and p_dst_type by primary key (of several columns: row(a, b)); left out, the end is the row itself; p_src_table and p_dst_table tell which table where a type has several. p_weight_expr is 1 by default, p_valid_from_expr the moment at which the edge is opened. A row that is not included, or names no row that is a node, makes no edge until it does. Registering again replaces the registration of that relation between those types. Who may and with which rights the expressions run is as for aiq.register_entity_table. Returns how many edges there are and how many rows wait for an end';
revoke all on function aiq.register_link_table(
    regclass, text, text, text, text, text, text, text, text, text, text, text, regclass, regclass
) from public;

create or replace function aiq.unregister_link_table(p_source_table regclass, p_relation text)
returns bigint
language sql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
    select (aiq.request_registration(
        'unregister_link', p_source_table, jsonb_build_object('relation', p_relation)
    ) ->> 'ended')::bigint
$$;
alter function aiq.unregister_link_table(regclass, text) owner to aiq_owner;
comment on function aiq.unregister_link_table(regclass, text) is
    'Reads a table no longer as edges of a relation: drops its triggers, ends its edges and returns how many; their history stays. A table that is gone is given by its oid';
revoke all on function aiq.unregister_link_table(regclass, text) from public;

create or replace function aiq.rebuild_links(p_source_table regclass)
returns table (source_table text, relation text, edges bigint, waiting bigint)
language sql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
    select r.source_table, r.relation, r.edges, r.waiting
    from jsonb_to_recordset(aiq.request_registration('rebuild_links', p_source_table, '{}'))
        as r (source_table text, relation text, edges bigint, waiting bigint)
$$;
alter function aiq.rebuild_links(regclass) owner to aiq_owner;
comment on function aiq.rebuild_links(regclass) is
    'Makes the edges of a link table agree with it in one pass; writers wait meanwhile. Returns how many edges there are and how many rows wait for an end';
revoke all on function aiq.rebuild_links(regclass) from public;

grant execute on function
    aiq.register_link_table(
        regclass, text, text, text, text, text, text, text, text, text, text, text, regclass, regclass
    ),
    aiq.unregister_link_table(regclass, text), aiq.rebuild_links(regclass)
    to authenticated, aiq_worker;

-- What has come apart

create or replace function aiq.call_text(p_function text, p_arguments jsonb) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select format('select * from aiq.%I(%s);', p_function, string_agg(
        format('%s => %s', a.item ->> 0, case jsonb_typeof(a.item -> 1)
            when 'array' then format('array[%s]', (
                select string_agg(quote_literal(e), ', ') from jsonb_array_elements_text(a.item -> 1) as e
            ))
            when 'number' then a.item ->> 1
            else quote_literal(a.item ->> 1)
        end), ', ' order by a.position
    ))
    from jsonb_array_elements(p_arguments) with ordinality as a (item, position)
    where a.item -> 1 not in ('null', '[]')
$$;
alter function aiq.call_text(text, jsonb) owner to aiq_engine;
comment on function aiq.call_text(text, jsonb) is
    'The statement that calls a function with arguments by name; those that are null or empty are left out';
revoke all on function aiq.call_text(text, jsonb) from public;

create or replace function aiq.registrations()
returns table (
    what text, registered_as text, source regclass, source_table text, members regclass[],
    key_columns text[], paused boolean, again text, release text
)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select
        'nodes', e.entity_type, e.source, e.source_table, e.members, e.key_columns, e.paused,
        aiq.call_text('register_entity_table', jsonb_build_array(
            jsonb_build_array('p_entity_type', e.entity_type),
            jsonb_build_array('p_source_table', coalesce(aiq.source_name(e.source), e.source_table)),
            jsonb_build_array('p_key_expr', e.key_expr),
            jsonb_build_array('p_summary_expr', e.summary_expr),
            jsonb_build_array('p_org_expr', e.org_expr),
            jsonb_build_array('p_include_where', e.include_where),
            jsonb_build_array('p_canonical_exprs', to_jsonb(e.canonical_exprs)),
            jsonb_build_array('p_short_exprs', to_jsonb(e.short_exprs)),
            jsonb_build_array('p_alias_exprs', to_jsonb(e.alias_exprs)),
            jsonb_build_array('p_code_exprs', to_jsonb(e.code_exprs)),
            jsonb_build_array('p_visibility_expr', e.visibility_expr),
            jsonb_build_array('p_owner_expr', e.owner_expr),
            jsonb_build_array('p_number_expr', e.number_expr),
            jsonb_build_array('p_title_expr', e.title_expr),
            jsonb_build_array('p_body_expr', e.body_expr),
            jsonb_build_array('p_configuration', nullif(e.configuration::text, 'english')),
            jsonb_build_array('p_policy', e.policy)
        )),
        aiq.call_text('unregister_entity_table', jsonb_build_array(
            jsonb_build_array('p_entity_type', e.entity_type),
            jsonb_build_array('p_source_table', e.source::oid::text)
        ))
    from aiq.entity_tables as e
    union all
    select
        'edges', l.relation, l.source, l.source_table, l.members, l.key_columns, l.paused,
        aiq.call_text('register_link_table', jsonb_build_array(
            jsonb_build_array('p_source_table', coalesce(aiq.source_name(l.source), l.source_table)),
            jsonb_build_array('p_relation', l.relation),
            jsonb_build_array('p_src_type', l.src_type),
            jsonb_build_array('p_dst_type', l.dst_type),
            jsonb_build_array('p_src_expr', l.src_expr),
            jsonb_build_array('p_dst_expr', l.dst_expr),
            jsonb_build_array('p_weight_expr', l.weight_expr),
            jsonb_build_array('p_valid_from_expr', l.valid_from_expr),
            jsonb_build_array('p_org_expr', l.org_expr),
            jsonb_build_array('p_include_where', l.include_where),
            jsonb_build_array('p_visibility_expr', l.visibility_expr),
            jsonb_build_array('p_owner_expr', l.owner_expr),
            jsonb_build_array('p_src_table', l.src_table),
            jsonb_build_array('p_dst_table', l.dst_table)
        )),
        aiq.call_text('unregister_link_table', jsonb_build_array(
            jsonb_build_array('p_source_table', l.source::oid::text),
            jsonb_build_array('p_relation', l.relation)
        ))
    from aiq.link_tables as l
    union all
    select * from aiq.text_registrations()
$$;
alter function aiq.registrations() owner to aiq_engine;
comment on function aiq.registrations() is
    'Every registration with the statements that make it again and that release it';
revoke all on function aiq.registrations() from public;

create or replace function aiq.registration_problems()
returns table (registered_as text, source_table text, problem text, remedy text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    with registered as materialized (select * from aiq.registrations()),
    there as materialized (
        select r.*, aiq.source_tree(r.source) as tree
        from registered as r where aiq.source_name(r.source) is not null
    ),
    wanted as (
        select t.*, m.member, n.name
        from there as t
        cross join lateral unnest(t.tree) as m (member)
        cross join unnest(array[
            'graphalgo_insert', 'graphalgo_update', 'graphalgo_delete', 'graphalgo_truncate'
        ]) as n (name)
    ),
    held as (
        select w.*, g.tgenabled
        from wanted as w
        left join pg_trigger as g
            on g.tgrelid = w.member and g.tgname = w.name and g.tgfoid = 'aiq.keep_in_step'::regproc
    ),
    found (number, what, registered_as, source_table, problem, remedy) as (
        select
            1, r.what, r.registered_as, r.source_table,
            case when to_regclass(r.source_table) is null then 'the table is no longer there'
                else 'the table has been made anew and has no triggers' end,
            case when to_regclass(r.source_table) is null then r.release else r.again end
        from registered as r where aiq.source_name(r.source) is null
        union all
        select
            2, t.what, t.registered_as, t.source_table, 'aiq.bulk was left on, so that changes go unnoticed',
            format('select aiq.bulk(%L, false);', aiq.source_name(t.source))
        from there as t where t.paused
        union all
        select distinct
            3, h.what, h.registered_as, h.source_table,
            case when h.member = any (h.members)
                then format('%s has lost triggers', aiq.source_name(h.member))
                else format('%s was attached later and has no triggers', aiq.source_name(h.member)) end,
            h.again
        from held as h where h.tgenabled is null
        union all
        select distinct
            4, h.what, h.registered_as, h.source_table,
            format('triggers on %s are disabled', aiq.source_name(h.member)), h.again
        from held as h where h.tgenabled in ('D', 'R') and not h.paused
        union all
        select
            5, t.what, t.registered_as, t.source_table,
            format('%s is no longer a part of it', coalesce(aiq.source_name(m.member), 'a partition or child that was dropped')),
            t.again
        from there as t cross join lateral unnest(t.members) as m (member)
        where m.member <> all (t.tree)
        union all
        -- Its triggers are there already: it came with them from elsewhere.
        select
            5, t.what, t.registered_as, t.source_table,
            format('%s was attached later', aiq.source_name(m.member)), t.again
        from there as t cross join lateral unnest(t.tree) as m (member)
        where m.member <> all (t.members) and not exists (
            select from held as h where h.member = m.member and h.tgenabled is null
        )
        union all
        select
            6, t.what, t.registered_as, t.source_table,
            'it has become a part of another table, whose statements go unnoticed', t.release
        from there as t where exists (select from pg_inherits as i where i.inhrelid = t.source)
        union all
        -- What names a column that is gone cannot be registered again as it was.
        select
            7, t.what, t.registered_as, t.source_table,
            case
                when m.missing <> '{}' then format(
                    'its primary key was (%s), but it has no column %s any more',
                    array_to_string(t.key_columns, ', '), array_to_string(m.missing, ', ')
                )
                when k.columns is null then 'its primary key is gone'
                else 'its primary key is another one now'
            end,
            case
                when m.named then t.release
                when k.columns is not null then t.again
                when m.missing <> '{}' then t.release
                else format(
                    'alter table %s add primary key (%s);', aiq.source_name(t.source),
                    (select string_agg(format('%I', c), ', ' order by i) from unnest(t.key_columns) with ordinality as u (c, i))
                )
            end
        from there as t
        cross join lateral aiq.source_key(t.source) as k
        cross join lateral (
            select c.missing, exists (
                select from unnest(c.missing) as u (name)
                where strpos(lower(t.again), lower(u.name)) > 0
            ) as named
            from (select aiq.missing_columns(t.source, t.key_columns)) as c (missing)
        ) as m
        where t.what <> 'passages' and k.columns is distinct from t.key_columns
        union all
        select
            7, t.what, t.registered_as, t.source_table,
            case when c.missing <> '{}'
                then format('its column %s is gone', array_to_string(c.missing, ', '))
                else format('its column %s may now be null or repeat', t.key_columns[1]) end,
            case when c.missing <> '{}' then t.release
                else format(
                    'alter table %1$s alter %2$I set not null, add unique (%2$I);',
                    aiq.source_name(t.source), t.key_columns[1]
                ) end
        from there as t
        join aiq.text_sources as s on s.name = t.registered_as
        cross join lateral (
            select aiq.missing_columns(
                t.source, array_remove(array[s.id_column, s.content_column, s.title_column], null)
            )
        ) as c (missing)
        where
            t.what = 'passages'
            and (c.missing <> '{}' or (select k.columns from aiq.text_key(t.source, s.id_column) as k) is null)
        union all
        select 8, t.what, t.registered_as, t.source_table, 'aiq_engine may no longer read it', t.again
        from there as t where not has_table_privilege('aiq_engine', t.source, 'select')
        union all
        select
            9, t.what, t.registered_as, t.source_table,
            format('the table is now called %s', aiq.source_name(t.source)), t.again
        from there as t where aiq.source_name(t.source) <> t.source_table
        union all
        select
            10, 'edges', l.relation, l.source_table,
            format('%s of its rows have no edge although both ends are nodes', w.rows),
            format('select * from aiq.rebuild_links(%L);', aiq.source_name(l.source))
        from aiq.link_tables as l
        cross join lateral (
            select count(*) as rows from aiq.link_rows as r
            where
                r.link_id = l.id and r.edge_id is null
                and exists (
                    select from aiq.nodes as s
                    where
                        s.source_table = l.src_table and s.source_pk = r.src_pk
                        and s.entity_type = l.src_type and s.retired_at is null
                )
                and exists (
                    select from aiq.nodes as d
                    where
                        d.source_table = l.dst_table and d.source_pk = r.dst_pk
                        and d.entity_type = l.dst_type and d.retired_at is null
                )
        ) as w
        where w.rows > 0 and not l.paused and aiq.source_name(l.source) is not null
        union all
        -- Registering again says what it is that the policy lacks.
        select
            11, t.what, t.registered_as, t.source_table,
            format('callers cannot ask its policy %s, so that the map tells of none of its entities', e.policy),
            t.again
        from there as t
        join aiq.entity_tables as e on e.entity_type = t.registered_as and e.source = t.source
        where
            t.what = 'nodes' and e.policy is not null
            and not exists (
                select from pg_proc as p
                join pg_namespace as n on n.oid = p.pronamespace
                where
                    format('%I.%I', n.nspname, p.proname) = e.policy and p.prokind = 'f'
                    and p.pronargs = 1 and p.proargtypes[0] = 'int8[]'::regtype and p.provariadic = 0
                    and p.proretset and p.prorettype = 'int8'::regtype
                    and has_function_privilege('authenticated', p.oid, 'execute')
                    and has_schema_privilege('authenticated', n.oid, 'usage')
            )
    )
    select
        format('%s "%s"', f.what, f.registered_as), f.source_table, f.problem, f.remedy
    from found as f
    order by f.number, f.source_table, f.what desc, f.registered_as, f.problem
$$;
alter function aiq.registration_problems() owner to aiq_engine;
comment on function aiq.registration_problems() is
    'What keeps a registered table out of step, each with the statement that mends it, to be run by the table''s owner';
revoke all on function aiq.registration_problems() from public;
grant execute on function aiq.registration_problems() to aiq_worker;
