-- Keeps the copies of a node's scope and retirement on its keys and edges, and
-- checks each edge's relation against the vocabulary. Statement-level: a load
-- of a million rows is checked with one join, and rows that already carry the
-- right copies are not written again.

create or replace function aiq.fill_key_copies() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update aiq.node_keys as k
    set soft = (n.entity_type is null), audience = n.audience, retired_at = n.retired_at
    from changed as c
    join aiq.nodes as n on n.id = c.node_id
    where
        k.node_id = c.node_id and k.key = c.key
        and (k.soft, k.audience, k.retired_at)
        is distinct from ((n.entity_type is null), n.audience, n.retired_at);
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
    select c.relation, s.entity_type as src_type, d.entity_type as dst_type into wrong
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
    limit 1;
    if found then
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
    update aiq.edges as e
    set src_audience = s.audience, dst_audience = d.audience,
        retired_at = least(s.retired_at, d.retired_at)
    from changed as c
    join aiq.nodes as s on s.id = c.src_id
    join aiq.nodes as d on d.id = c.dst_id
    where
        e.id = c.id
        and (e.src_audience, e.dst_audience, e.retired_at)
        is distinct from (s.audience, d.audience, least(s.retired_at, d.retired_at));
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
begin
    if not exists (
        select from after_change as a
        join before_change as b on b.id = a.id
        where
            (a.audience, a.retired_at, a.entity_type is null)
            is distinct from (b.audience, b.retired_at, b.entity_type is null)
    ) then
        return null;
    end if;
    update aiq.node_keys as k
    set soft = (a.entity_type is null), audience = a.audience, retired_at = a.retired_at
    from after_change as a
    where
        k.node_id = a.id
        and (k.soft, k.audience, k.retired_at)
        is distinct from ((a.entity_type is null), a.audience, a.retired_at);
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
        is distinct from (s.audience, d.audience, least(s.retired_at, d.retired_at));
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
