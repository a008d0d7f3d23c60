-- Keeps the copies of a node's scope and retirement on its keys and edges, and
-- checks each edge's relation against the vocabulary. Statement-level: a load
-- of a million rows is checked with one join, and rows that already carry the
-- right copies are not written again. The statements are dynamic, so that each is
-- planned for the number of rows it has: a plan kept from a change of one row would
-- take forever over a load, and one from a load would read the whole table for a row.
--
-- A key that is kept for fewer than see its node (narrowed_to) keeps that audience; when
-- the node goes to others, it has one that no organisation and no user belongs to.

create or replace function aiq.fill_key_copies() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    execute $statement$
        update aiq.node_keys as k
        set soft = (n.entity_type is null), audience = v.audience, retired_at = n.retired_at
        from changed as c
        join aiq.nodes as n on n.id = c.node_id
        cross join lateral (
            select case
                when c.narrowed_to is null then n.audience
                when n.audience is null or n.audience = c.narrowed_to then c.narrowed_to
                else md5('nobody')::uuid
            end
        ) as v (audience)
        where
            k.node_id = c.node_id and k.key = c.key
            and (k.soft, k.audience, k.retired_at)
            is distinct from ((n.entity_type is null), v.audience, n.retired_at)
    $statement$;
    return null;
end
$$;
alter function aiq.fill_key_copies() owner to aiq_engine;
comment on function aiq.fill_key_copies() is 'Trigger: copies a node''s scope and retirement onto new keys';
revoke all on function aiq.fill_key_copies() from public;

create or replace function aiq.fill_edge_copies() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    wrong record;
begin
    execute $statement$
        select c.relation, s.entity_type as src_type, d.entity_type as dst_type
        from changed as c
        join aiq.nodes as s on s.id = c.src_id
        join aiq.nodes as d on d.id = c.dst_id
        where
            not exists (
                select from aiq.relations as r
                where
                    r.relation = c.relation
                    and (s.entity_type is null or r.src_type = s.entity_type)
                    and (d.entity_type is null or r.dst_type = d.entity_type)
            )
            -- An edge with a soft end is checked by its relation alone.
            and not (
                (s.entity_type is null or d.entity_type is null)
                and exists (select from aiq.relations as r where r.relation = c.relation)
            )
        limit 1
    $statement$ into wrong;
    if wrong.relation is not null then
        raise exception using
            errcode = '42704',
            message = format(
                'relation "%s" is not declared from %s to %s',
                wrong.relation,
                coalesce('"' || wrong.src_type || '"', 'a soft node'),
                coalesce('"' || wrong.dst_type || '"', 'a soft node')
            ),
            hint = 'Declare it in aiq.relations, or write a relation that is declared for these types.';
    end if;
    execute $statement$
        update aiq.edges as e
        set src_audience = s.audience, dst_audience = d.audience,
            retired_at = least(s.retired_at, d.retired_at)
        from changed as c
        join aiq.nodes as s on s.id = c.src_id
        join aiq.nodes as d on d.id = c.dst_id
        where
            e.id = c.id
            and (e.src_audience, e.dst_audience, e.retired_at)
            is distinct from (s.audience, d.audience, least(s.retired_at, d.retired_at))
    $statement$;
    return null;
end
$$;
alter function aiq.fill_edge_copies() owner to aiq_engine;
comment on function aiq.fill_edge_copies() is
    'Trigger: refuses an undeclared relation and copies the ends'' scopes and retirement onto new edges';
revoke all on function aiq.fill_edge_copies() from public;

create or replace function aiq.spread_node_copies() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    spreads boolean;
begin
    execute $statement$
        select exists (
            select from after_change as a
            join before_change as b on b.id = a.id
            where
                (a.audience, a.retired_at, a.entity_type is null)
                is distinct from (b.audience, b.retired_at, b.entity_type is null)
        )
    $statement$ into spreads;
    if not spreads then
        return null;
    end if;
    execute $statement$
        update aiq.node_keys as k
        set soft = (a.entity_type is null), audience = v.audience, retired_at = a.retired_at
        from after_change as a
        join aiq.node_keys as o on o.node_id = a.id
        cross join lateral (
            select case
                when o.narrowed_to is null then a.audience
                when a.audience is null or a.audience = o.narrowed_to then o.narrowed_to
                else md5('nobody')::uuid
            end
        ) as v (audience)
        where
            k.node_id = o.node_id and k.key = o.key
            and (k.soft, k.audience, k.retired_at)
            is distinct from ((a.entity_type is null), v.audience, a.retired_at)
    $statement$;
    execute $statement$
        update aiq.edges as e
        set src_audience = s.audience, dst_audience = d.audience,
            retired_at = least(s.retired_at, d.retired_at)
        from (
            select o.id from after_change as a join aiq.edges as o on o.src_id = a.id
            union
            select i.id from after_change as a join aiq.edges as i on i.dst_id = a.id
        ) as touched
        join aiq.edges as t on t.id = touched.id
        join aiq.nodes as s on s.id = t.src_id
        join aiq.nodes as d on d.id = t.dst_id
        where
            e.id = touched.id
            and (e.src_audience, e.dst_audience, e.retired_at)
            is distinct from (s.audience, d.audience, least(s.retired_at, d.retired_at))
    $statement$;
    return null;
end
$$;
alter function aiq.spread_node_copies() owner to aiq_engine;
comment on function aiq.spread_node_copies() is
    'Trigger: carries a change of a node''s scope or retirement to its keys and edges';
revoke all on function aiq.spread_node_copies() from public;

create or replace trigger node_keys_copies after insert on aiq.node_keys
referencing new table as changed
for each statement execute function aiq.fill_key_copies();

create or replace trigger edges_copies after insert on aiq.edges
referencing new table as changed
for each statement execute function aiq.fill_edge_copies();

create or replace trigger nodes_spread after update on aiq.nodes
referencing old table as before_change new table as after_change
for each statement execute function aiq.spread_node_copies();
