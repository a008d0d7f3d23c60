-- Keeps the copies of a node's scope and retirement on its keys and edges, and
-- checks each edge's relation against the vocabulary. Statement-level: a load
-- of a million rows is checked with one join, and rows that already carry the
-- right copies are not written again. The statements are dynamic, so that each is
-- planned for the number of rows it has: a plan kept from a change of one row would
-- take forever over a load, and one from a load would read the whole table for a row.
--
-- A scope is copied from a node that is held (for key share) until the copy is
-- committed, and a node whose scope or retirement changes is locked against that (for
-- update) before its copies are looked for. So of a new key or edge and a change of its
-- node at the same time the second sees the first. Nodes are locked by id, edges by
-- what they say, as every writer locks them. (A lock for key share does not return the
-- row as it is then, so that it is read in the next statement.) Under one snapshot for all statements
-- (repeatable read) the second would not see the first: there the copies are made under
-- a lock (for share) that fails where the node has changed since.
--
-- A key that is kept for fewer than see its node (narrowed_to) keeps that audience; when
-- the node goes to others, it has one that no organisation and no user belongs to.

-- The server checks a foreign key row by row, with a statement each; so for new rows
-- these triggers do it, with one statement for all, and the server's own checks of
-- inserted rows are switched off at the end of this file. What is referenced is held
-- with the same lock (for key share) that the server's check takes: whoever deletes it
-- waits, and then the server's own action on deleting finds the new rows.

create or replace function aiq.refuse_reference(
    p_table text, p_column text, p_value text, p_target text, p_target_column text
) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = '23503',
        message = format(
            'insert or update on table "%1$s" violates foreign key constraint "%1$s_%2$s_fkey"',
            p_table, p_column
        ),
        detail = format('Key (%s)=(%s) is not present in table "%s".', p_column, p_value, p_target),
        hint = format('Insert it into aiq.%s first, with %s.', p_target, p_target_column),
        schema = 'aiq', table = p_table, constraint = format('%s_%s_fkey', p_table, p_column);
end
$$;
alter function aiq.refuse_reference(text, text, text, text, text) owner to aiq_engine;
comment on function aiq.refuse_reference(text, text, text, text, text) is
    'Raises the server''s error for a new row that references what is not there';
revoke all on function aiq.refuse_reference(text, text, text, text, text) from public;

create or replace function aiq.check_node_types() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    missing text;
begin
    execute $statement$
        with written as materialized (
            select distinct c.entity_type as name from changed as c where c.entity_type is not null
        ),
        held as materialized (
            select t.name from written as w join aiq.entity_types as t on t.name = w.name
            for key share of t
        )
        select name from written except select name from held limit 1
    $statement$ into missing;
    if missing is not null then
        perform aiq.refuse_reference('nodes', 'entity_type', missing, 'entity_types', 'that name');
    end if;
    return null;
end
$$;
alter function aiq.check_node_types() owner to aiq_engine;
comment on function aiq.check_node_types() is 'Trigger: refuses new nodes of an entity type that is not there';
revoke all on function aiq.check_node_types() from public;

create or replace function aiq.copying_lock() returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when current_setting('transaction_isolation') in ('repeatable read', 'serializable') then 'share'
        else 'key share'
    end
$$;
alter function aiq.copying_lock() owner to aiq_engine;
comment on function aiq.copying_lock() is
    'With which lock a node is held while its scope is copied';
revoke all on function aiq.copying_lock() from public;

create or replace function aiq.fill_key_copies() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    found_keys record;
    locked bigint;
begin
    execute format($statement$
        select count(*) from (
            select from (select distinct c.node_id as id from changed as c) as w
            join aiq.nodes as n on n.id = w.id
            order by n.id for %s of n
        ) as held
    $statement$, aiq.copying_lock()) into locked;
    execute $statement$
        select
            min(c.node_id) filter (where n.id is null) as missing,
            bool_or(
                c.soft <> (n.entity_type is null) or c.narrowed_to is not null
                or c.audience is distinct from n.audience or c.retired_at is distinct from n.retired_at
            ) as differ
        from changed as c
        left join aiq.nodes as n on n.id = c.node_id
    $statement$ into found_keys;
    if found_keys.missing is not null then
        perform aiq.refuse_reference('node_keys', 'node_id', found_keys.missing::text, 'nodes', 'that id');
    end if;
    -- Most writers give the right copies themselves.
    if not coalesce(found_keys.differ, false) then
        return null;
    end if;
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
comment on function aiq.fill_key_copies() is
    'Trigger: refuses new keys of a node that is not there and copies the node''s scope and retirement onto the others';
revoke all on function aiq.fill_key_copies() from public;

create or replace function aiq.fill_edge_copies() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    found_edges record;
    locked bigint;
begin
    execute format($statement$
        select count(*) from (
            select from (
                select c.src_id as id from changed as c union select c.dst_id from changed as c
            ) as w
            join aiq.nodes as n on n.id = w.id
            order by n.id for %s of n
        ) as held
    $statement$, aiq.copying_lock()) into locked;
    execute $statement$
        with written as materialized (
            select c.src_id as id from changed as c union select c.dst_id from changed as c
        ),
        held as materialized (
            select n.id, n.entity_type, n.audience, n.retired_at
            from written as w join aiq.nodes as n on n.id = w.id
        ),
        kinds as materialized (
            select
                c.relation, s.entity_type as src_type, d.entity_type as dst_type,
                min(c.src_id) filter (where s.id is null) as no_source,
                min(c.dst_id) filter (where d.id is null) as no_target,
                bool_or(
                    c.src_audience is distinct from s.audience
                    or c.dst_audience is distinct from d.audience
                    or c.retired_at is distinct from least(s.retired_at, d.retired_at)
                ) as differ
            from changed as c
            left join held as s on s.id = c.src_id
            left join held as d on d.id = c.dst_id
            group by c.relation, s.entity_type, d.entity_type
        ),
        undeclared as (
            select k.relation, k.src_type, k.dst_type
            from kinds as k
            where
                not exists (
                    select from aiq.relations as r
                    where
                        r.relation = k.relation
                        -- An edge with a soft end is checked by its relation alone.
                        and (
                            k.src_type is null or k.dst_type is null
                            or (r.src_type = k.src_type and r.dst_type = k.dst_type)
                        )
                )
            limit 1
        )
        select k.no_source, k.no_target, k.differ, u.relation, u.src_type, u.dst_type
        from (
            select min(no_source) as no_source, min(no_target) as no_target, bool_or(differ) as differ
            from kinds
        ) as k
        left join undeclared as u on true
    $statement$ into found_edges;
    if found_edges.no_source is not null then
        perform aiq.refuse_reference('edges', 'src_id', found_edges.no_source::text, 'nodes', 'that id');
    elsif found_edges.no_target is not null then
        perform aiq.refuse_reference('edges', 'dst_id', found_edges.no_target::text, 'nodes', 'that id');
    elsif found_edges.relation is not null then
        raise exception using
            errcode = '42704',
            message = format(
                'relation "%s" is not declared from %s to %s',
                found_edges.relation,
                coalesce('"' || found_edges.src_type || '"', 'a soft node'),
                coalesce('"' || found_edges.dst_type || '"', 'a soft node')
            ),
            hint = 'Declare it in aiq.relations, or write a relation that is declared for these types.';
    end if;
    if not coalesce(found_edges.differ, false) then
        return null;
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
    'Trigger: refuses new edges of a node that is not there or an undeclared relation and copies the ends'' scopes and retirement onto the others';
revoke all on function aiq.fill_edge_copies() from public;

create or replace function aiq.spread_node_copies() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    spreads boolean;
    locked bigint;
    edge_ids bigint[];
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
        select count(*) from (
            select from after_change as a
            join before_change as b on b.id = a.id
            join aiq.nodes as n on n.id = a.id
            where
                (a.audience, a.retired_at, a.entity_type is null)
                is distinct from (b.audience, b.retired_at, b.entity_type is null)
            order by n.id for update of n
        ) as held
    $statement$ into locked;
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
    -- All of them are locked first, those too whose copies seem right, and are read in a
    -- statement of its own: another transaction may be changing the other end.
    execute $statement$
        with spreading as materialized (
            select a.id
            from after_change as a
            join before_change as b on b.id = a.id
            where
                (a.audience, a.retired_at) is distinct from (b.audience, b.retired_at)
        ),
        touched as materialized (
            select o.id from spreading as a join aiq.edges as o on o.src_id = a.id
            union
            select i.id from spreading as a join aiq.edges as i on i.dst_id = a.id
        )
        select array(
            select t.id
            from touched
            join aiq.edges as t on t.id = touched.id
            order by t.src_id, t.relation, t.dst_id, t.org_id, t.visibility, t.owner_id, t.id
            for no key update of t
        )
    $statement$ into edge_ids;
    if edge_ids <> '{}' then
        execute $statement$
            update aiq.edges as e
            set src_audience = s.audience, dst_audience = d.audience,
                retired_at = least(s.retired_at, d.retired_at)
            from unnest($1) as h (id)
            join aiq.edges as t on t.id = h.id
            join aiq.nodes as s on s.id = t.src_id
            join aiq.nodes as d on d.id = t.dst_id
            where
                e.id = h.id
                and (e.src_audience, e.dst_audience, e.retired_at)
                is distinct from (s.audience, d.audience, least(s.retired_at, d.retired_at))
        $statement$ using edge_ids;
    end if;
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

create or replace trigger nodes_types after insert on aiq.nodes
referencing new table as changed
for each statement execute function aiq.check_node_types();

-- The checks of changed and of deleted rows stay the server's. A dump does not tell
-- that a check is off: a restored database checks twice until this is run again.
-- It takes a superuser: whoever else installs has rows checked twice.
do $$
declare
    item record;
begin
    for item in
        select t.tgname, c.relname
        from pg_trigger as t
        join pg_constraint as f on f.oid = t.tgconstraint
        join pg_class as c on c.oid = t.tgrelid
        where
            c.relnamespace = 'aiq'::regnamespace and t.tgfoid = '"RI_FKey_check_ins"'::regproc
            and t.tgenabled = 'O'
            and (select r.rolsuper from pg_roles as r where r.rolname = current_user)
            and f.conname in (
                'nodes_entity_type_fkey', 'node_keys_node_id_fkey', 'edges_src_id_fkey', 'edges_dst_id_fkey'
            )
    loop
        execute format('alter table aiq.%I disable trigger %I', item.relname, item.tgname);
    end loop;
end
$$;
