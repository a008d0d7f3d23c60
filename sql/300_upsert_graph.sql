-- Writing a graph of facts: names join typed nodes or become soft nodes, edges
-- join the current edge of the same fact or begin one.
--
-- Writers of overlapping graphs wait for each other in one order and so never in
-- a circle: new soft nodes by (kind, name), then all nodes by id, then edges by
-- (source, relation, target). What a statement has to know of others' work it
-- reads after it holds the lock, which takes READ COMMITTED.

grant select on rbac.orgs, rbac.users to aiq_engine;

create or replace function aiq.read_text(p_context jsonb, p_name text) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    value constant jsonb := p_context -> p_name;
begin
    if value is null or jsonb_typeof(value) = 'null' then
        return null;
    end if;
    if jsonb_typeof(value) <> 'string' or btrim(value #>> '{}') = '' then
        raise exception using
            errcode = '22023',
            message = format('context: "%s" is %s, but must be a string that is not empty', p_name, left(value::text, 80)),
            hint = format('Write a string, or leave "%s" out.', p_name);
    end if;
    if octet_length(value #>> '{}') > 1000 then
        raise exception using
            errcode = '22023',
            message = format('context: "%s" has %s bytes, but may have at most 1000', p_name, octet_length(value #>> '{}')),
            hint = 'Write a short name, such as an id of the document.';
    end if;
    return value #>> '{}';
end
$$;
alter function aiq.read_text(jsonb, text) owner to aiq_engine;
comment on function aiq.read_text(jsonb, text) is 'A text of a context, null where it has none';
revoke all on function aiq.read_text(jsonb, text) from public;

create or replace function aiq.read_uuid(p_context jsonb, p_name text) returns uuid
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return aiq.read_text(p_context, p_name)::uuid;
exception when invalid_text_representation then
    raise exception using
        errcode = '22023',
        message = format('context: "%s" is %s, but must be a uuid', p_name, left((p_context -> p_name)::text, 80)),
        hint = 'Write a uuid in quotes, such as "d0000000-0000-0000-0000-00000000000a".';
end
$$;
alter function aiq.read_uuid(jsonb, text) owner to aiq_engine;
comment on function aiq.read_uuid(jsonb, text) is 'A uuid of a context, null where it has none';
revoke all on function aiq.read_uuid(jsonb, text) from public;

create or replace function aiq.read_start(p_context jsonb) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    start timestamptz;
begin
    begin
        start := coalesce(aiq.read_text(p_context, 'valid_from')::timestamptz, now());
    exception
        when sqlstate '22023' then
            if jsonb_typeof(p_context -> 'valid_from') <> 'string' then
                raise;
            end if;
        when data_exception then
            null;
    end;
    if start is null or start = 'infinity' then
        raise exception using
            errcode = '22023',
            message = format('context: "valid_from" is %s, but must be a date or a time', left((p_context -> 'valid_from')::text, 80)),
            hint = 'Write it such as "2024-01-31" or "2024-01-31T12:00:00Z"; leave it out for now, or write "-infinity" for ever.';
    end if;
    return start;
end
$$;
alter function aiq.read_start(jsonb) owner to aiq_engine;
comment on function aiq.read_start(jsonb) is
    'From when the facts of a context hold: its valid_from, else now; it may lie ahead';
revoke all on function aiq.read_start(jsonb) from public;

create or replace function aiq.read_scope(
    p_context jsonb, out org_id uuid, out visibility text, out owner_id uuid, out audience uuid
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    org_id := aiq.read_uuid(p_context, 'org');
    owner_id := aiq.read_uuid(p_context, 'owner');
    visibility := coalesce(aiq.read_text(p_context, 'visibility'), 'org');
    if visibility not in ('public', 'org', 'private') then
        raise exception using
            errcode = '22023',
            message = format('context: "visibility" is "%s", but must be public, org or private', left(visibility, 80)),
            hint = 'Leave it out for org: the members of "org", or everyone where there is no "org".';
    end if;
    -- An owner says nothing where a row is not private, and would make two
    -- facts of one.
    if (visibility = 'private') <> (owner_id is not null) then
        raise exception using
            errcode = '22023',
            message = case visibility
                when 'private' then 'context: "visibility" is "private", but there is no "owner"'
                else format('context: there is an "owner", but "visibility" is "%s"', visibility)
            end,
            hint = 'Write both "visibility": "private" and the "owner", a user''s uuid, or neither.';
    end if;
    if org_id is not null and not exists (select from rbac.orgs as o where o.id = org_id) then
        raise exception using
            errcode = '42704',
            message = format('context: there is no organisation %s', org_id),
            hint = 'Write the id of a row of rbac.orgs, or leave "org" out for facts that everyone may see.';
    end if;
    if owner_id is not null and not exists (select from rbac.users as u where u.id = owner_id) then
        raise exception using
            errcode = '42704',
            message = format('context: there is no user %s', owner_id),
            hint = 'Write the id of a row of rbac.users.';
    end if;
    audience := case visibility
        when 'org' then org_id
        when 'private' then md5('private:' || owner_id::text)::uuid
    end;
end
$$;
alter function aiq.read_scope(jsonb) owner to aiq_engine;
comment on function aiq.read_scope(jsonb) is 'The scope that a context gives to what it writes';
revoke all on function aiq.read_scope(jsonb) from public;

create or replace function aiq.check_graph(p_graph jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    part text;
begin
    if p_graph is null or jsonb_typeof(p_graph) <> 'object' then
        raise exception using
            errcode = '22023',
            message = format('p_graph is %s, but must be an object', coalesce(left(p_graph::text, 80), 'null')),
            hint = 'Write {"nodes": [{"k": "kind", "n": "name"}], "edges": [{"s": 0, "t": 0, "r": "relation"}]}.';
    end if;
    select k.name into part
    from jsonb_object_keys(p_graph) as k (name) where k.name not in ('nodes', 'edges') limit 1;
    if found then
        raise exception using
            errcode = '22023',
            message = format('the graph has a part "%s", but its parts are "nodes" and "edges"', left(part, 80)),
            hint = 'What is to be kept beside the facts goes into the context.';
    end if;
    foreach part in array array['nodes', 'edges'] loop
        if p_graph ? part and jsonb_typeof(p_graph -> part) <> 'array' then
            raise exception using
                errcode = '22023',
                message = format('"%s" is %s, but must be a list', part, left((p_graph -> part)::text, 80)),
                hint = format('Write "%s": [], or leave it out.', part);
        end if;
    end loop;
end
$$;
alter function aiq.check_graph(jsonb) owner to aiq_engine;
comment on function aiq.check_graph(jsonb) is 'Refuses what is no graph of nodes and edges';
revoke all on function aiq.check_graph(jsonb) from public;

create or replace function aiq.check_graph_nodes(p_nodes jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    wrong record;
begin
    select e.number - 1 as number, p.problem into wrong
    from jsonb_array_elements(p_nodes) with ordinality as e (entry, number)
    cross join lateral (
        select case
            when jsonb_typeof(e.entry) <> 'object'
                then format('is %s, but must be an object', left(e.entry::text, 80))
            when not e.entry ? 'k' then 'has no kind "k"'
            when jsonb_typeof(e.entry -> 'k') <> 'string'
                then format('the kind "k" is %s, but must be a string', left((e.entry -> 'k')::text, 80))
            when not e.entry ? 'n' then 'has no name "n"'
            when jsonb_typeof(e.entry -> 'n') <> 'string'
                then format('the name "n" is %s, but must be a string', left((e.entry -> 'n')::text, 80))
            when jsonb_typeof(e.entry -> 'summary') not in ('string', 'null')
                then format('the summary is %s, but must be a string', left((e.entry -> 'summary')::text, 80))
        end as problem
    ) as p
    where p.problem is not null
    order by e.number limit 1;
    if found then
        raise exception using
            errcode = '22023',
            message = format('node %s: %s', wrong.number, wrong.problem),
            hint = 'Write each node as {"k": "kind", "n": "name"}.';
    end if;
end
$$;
alter function aiq.check_graph_nodes(jsonb) owner to aiq_engine;
comment on function aiq.check_graph_nodes(jsonb) is 'Refuses the first entry that is no node, naming it';
revoke all on function aiq.check_graph_nodes(jsonb) from public;

create or replace function aiq.check_folded_names(p_kinds text[], p_names text[]) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    wrong record;
begin
    select n.number - 1 as number, p.problem into wrong
    from unnest(p_kinds, p_names) with ordinality as n (kind, name, number)
    cross join lateral (
        select case
            when n.kind = '' then 'the kind "k" is empty'
            when octet_length(n.kind) > 200
                then format('the kind "k" has %s bytes, but may have at most 200', octet_length(n.kind))
            when n.name = '' then 'the name "n" is empty'
            when octet_length(n.name) > 2000
                then format('the name "n" has %s bytes, but may have at most 2000', octet_length(n.name))
        end as problem
    ) as p
    where p.problem is not null
    order by n.number limit 1;
    if found then
        raise exception using
            errcode = '22023',
            message = format('node %s: %s', wrong.number, wrong.problem),
            hint = 'Write the name that the node is to be found by.';
    end if;
end
$$;
alter function aiq.check_folded_names(text[], text[]) owner to aiq_engine;
comment on function aiq.check_folded_names(text[], text[]) is
    'Refuses the first kind or name that is empty or too long once folded, naming its entry';
revoke all on function aiq.check_folded_names(text[], text[]) from public;

create or replace function aiq.check_end(p_end text, p_value jsonb, p_nodes bigint) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when p_value is null then format('has no "%s"', p_end)
        when jsonb_typeof(p_value) <> 'number' or p_value::numeric <> trunc(p_value::numeric)
            then format('"%s" is %s, but must be a node''s place in "nodes", counted from 0', p_end, left(p_value::text, 80))
        when p_value::numeric < 0 or p_value::numeric >= p_nodes
            then format(
                '"%s" is %s, but %s', p_end, left(p_value::text, 80),
                case p_nodes when 0 then 'there are no nodes' else format('the nodes are 0 to %s', p_nodes - 1) end
            )
    end
$$;
alter function aiq.check_end(text, jsonb, bigint) owner to aiq_engine;
comment on function aiq.check_end(text, jsonb, bigint) is
    'What is wrong with an end of an edge of a graph with that many nodes; null: nothing';
revoke all on function aiq.check_end(text, jsonb, bigint) from public;

create or replace function aiq.check_graph_edges(p_edges jsonb, p_nodes bigint) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    wrong record;
begin
    select e.number - 1 as number, p.problem into wrong
    from jsonb_array_elements(p_edges) with ordinality as e (entry, number)
    cross join lateral (
        select case
            when jsonb_typeof(e.entry) <> 'object'
                then format('is %s, but must be an object', left(e.entry::text, 80))
            when e.entry - '{s,t,r,w}'::text[] <> '{}'
                then format(
                    'has a part %s, but its parts are "s", "t", "r" and "w"',
                    left((select to_json(k)::text from jsonb_object_keys(e.entry - '{s,t,r,w}'::text[]) as k limit 1), 80)
                )
            -- Cheap for what is right; the words are looked for only where it is wrong.
            when
                not coalesce(case when jsonb_typeof(e.entry -> 's') = 'number' then
                    (e.entry -> 's')::numeric between 0 and p_nodes - 1
                    and (e.entry -> 's')::numeric = trunc((e.entry -> 's')::numeric)
                end, false)
                then aiq.check_end('s', e.entry -> 's', p_nodes)
            when
                not coalesce(case when jsonb_typeof(e.entry -> 't') = 'number' then
                    (e.entry -> 't')::numeric between 0 and p_nodes - 1
                    and (e.entry -> 't')::numeric = trunc((e.entry -> 't')::numeric)
                end, false)
                then aiq.check_end('t', e.entry -> 't', p_nodes)
            when not e.entry ? 'r' then 'has no relation "r"'
            when jsonb_typeof(e.entry -> 'r') <> 'string' or e.entry ->> 'r' = ''
                then format('the relation "r" is %s, but must be a string that is not empty', left((e.entry -> 'r')::text, 80))
            when coalesce(jsonb_typeof(e.entry -> 'w'), 'null') = 'null' then null
            when jsonb_typeof(e.entry -> 'w') <> 'number'
                then format('the weight "w" is %s, but must be a number above 0 and at most 1', left((e.entry -> 'w')::text, 80))
            when (e.entry -> 'w')::numeric <= 0 or (e.entry -> 'w')::numeric > 1
                then format('the weight "w" is %s, but must be above 0 and at most 1', left((e.entry -> 'w')::text, 80))
            -- Below, a weight would be 0 as it is stored.
            when (e.entry -> 'w')::numeric < 1e-37
                then format('the weight "w" is %s, but must be at least 1e-37', btrim(to_char((e.entry -> 'w')::numeric, '9.9EEEE')))
        end as problem
    ) as p
    where p.problem is not null
    order by e.number limit 1;
    if found then
        raise exception using
            errcode = '22023',
            message = format('edge %s: %s', wrong.number, wrong.problem),
            hint = 'Write each edge as {"s": index, "t": index, "r": "relation"}, with "w": weight if it is not 1.';
    end if;
end
$$;
alter function aiq.check_graph_edges(jsonb, bigint) owner to aiq_engine;
comment on function aiq.check_graph_edges(jsonb, bigint) is 'Refuses the first entry that is no edge, naming it';
revoke all on function aiq.check_graph_edges(jsonb, bigint) from public;

create or replace function aiq.check_relations(
    p_sources bigint[], p_relations text[], p_targets bigint[], p_label text
) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
    wrong record;
    near text;
begin
    select u.number, u.relation, u.src_type, u.dst_type into wrong
    from (
        select e.relation, s.entity_type as src_type, d.entity_type as dst_type, min(e.number) as number
        from unnest(p_sources, p_relations, p_targets) with ordinality as e (src_id, relation, dst_id, number)
        join aiq.nodes as s on s.id = e.src_id
        join aiq.nodes as d on d.id = e.dst_id
        group by e.relation, s.entity_type, d.entity_type
    ) as u
    where
        not exists (
            select from aiq.relations as r
            where
                r.relation = u.relation
                -- With a soft end the relation alone is checked.
                and (
                    u.src_type is null or u.dst_type is null
                    or (r.src_type = u.src_type and r.dst_type = u.dst_type)
                )
        )
    order by u.number limit 1;
    if not found then
        return;
    end if;
    select string_agg(n.words, ', ' order by n.nearness desc, n.words) into near
    from (
        select
            format('"%s" from "%s" to "%s"', r.relation, r.src_type, r.dst_type) as words,
            aiq.name_similarity(r.relation, wrong.relation) as nearness
        from aiq.relations as r
        where
            (wrong.src_type is null or r.src_type = wrong.src_type)
            and (wrong.dst_type is null or r.dst_type = wrong.dst_type)
        order by nearness desc, words limit 3
    ) as n;
    raise exception using
        errcode = '42704',
        message = format(
            '%s: relation "%s" is not declared from %s to %s',
            replace(p_label, '%', (wrong.number - 1)::text),
            left(wrong.relation, 80),
            coalesce('"' || wrong.src_type || '"', 'a soft node'),
            coalesce('"' || wrong.dst_type || '"', 'a soft node')
        ),
        hint = coalesce('Declared are: ' || near || '. ', '')
            || 'Declare it in aiq.relations, or write a relation that is declared for these types.';
end
$$;
alter function aiq.check_relations(bigint[], text[], bigint[], text) owner to aiq_engine;
comment on function aiq.check_relations(bigint[], text[], bigint[], text) is
    'Refuses the first relation that is not declared for its ends; its number from 0 stands for % in the label';
revoke all on function aiq.check_relations(bigint[], text[], bigint[], text) from public;

-- A name joins, in this order: the node that its soft node of this scope has been
-- promoted to; the one typed node of that kind with that key that the members of
-- the organisation (and, of a private row, its owner) see; the soft node of this
-- scope. A name of several typed nodes joins none of them: it is for a judge to
-- say which was meant.
create or replace function aiq.resolve_names(
    p_kinds text[], p_names text[], p_org_id uuid, p_visibility text, p_owner_id uuid, p_audience uuid
) returns table (number bigint, node_id bigint, promoted boolean)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    with types as materialized (
        select t.name, aiq.fold_key(t.name) as kind from aiq.entity_types as t
    )
    select w.number, coalesce(s.promoted_to, k.node_id, s.id), s.promoted_to is not null
    from unnest(p_kinds, p_names) with ordinality as w (kind, name, number)
    left join lateral (
        select min(m.node_id) as node_id
        from (
            select h.node_id
            from types as t
            join aiq.node_keys as h
                on h.key = w.name and h.retired_at is null and not h.soft
                and (h.audience is null or h.audience = p_org_id or h.audience = p_audience)
            join aiq.nodes as n on n.id = h.node_id and n.entity_type = t.name
            where t.kind = w.kind
            limit 2
        ) as m
        having count(*) = 1
    ) as k on true
    left join lateral (
        select o.id, n.id as promoted_to
        from aiq.nodes as o
        left join aiq.node_promotions as p on p.soft_id = o.id and o.retired_at is not null
        left join aiq.nodes as n on n.id = p.node_id and n.retired_at is null
        where
            o.entity_type is null and o.claimed_kind = w.kind and o.soft_name = w.name
            and o.org_id is not distinct from p_org_id and o.visibility = p_visibility
            and o.owner_id is not distinct from p_owner_id
        -- Looked up a name at a time: a join that suits few names takes hours for many.
        offset 0
    ) as s on true
$$;
alter function aiq.resolve_names(text[], text[], uuid, text, uuid, uuid) owner to aiq_engine;
comment on function aiq.resolve_names(text[], text[], uuid, text, uuid, uuid) is
    'The node that each kind and name joins in a scope; no node_id where a soft node is still to be made';
revoke all on function aiq.resolve_names(text[], text[], uuid, text, uuid, uuid) from public;

create or replace function aiq.make_soft_nodes(
    p_kinds text[], p_names text[], p_summaries text[],
    p_org_id uuid, p_visibility text, p_owner_id uuid, p_audience uuid
) returns bigint
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with made as (
        insert into aiq.nodes (claimed_kind, soft_name, summary, org_id, visibility, owner_id)
        select w.kind, w.name, w.summary, p_org_id, p_visibility, p_owner_id
        from unnest(p_kinds, p_names, p_summaries) as w (kind, name, summary)
        order by w.kind, w.name
        on conflict (claimed_kind, soft_name, org_id, visibility, owner_id)
            where entity_type is null do nothing
        returning id, soft_name
    ),
    named as (
        insert into aiq.node_keys (node_id, key, kind, is_name, soft, audience)
        select m.id, m.soft_name, 'alias', true, true, p_audience from made as m
        returning node_id
    )
    select count(*) from named
$$;
alter function aiq.make_soft_nodes(text[], text[], text[], uuid, text, uuid, uuid) owner to aiq_engine;
comment on function aiq.make_soft_nodes(text[], text[], text[], uuid, text, uuid, uuid) is
    'Makes the soft nodes that are not there yet and says how many';
revoke all on function aiq.make_soft_nodes(text[], text[], text[], uuid, text, uuid, uuid) from public;

-- Nodes change under a name while it is looked up: one is retired, promoted or
-- moved to another organisation. So they are looked up, locked, and looked at
-- again; held in share mode, they keep their scope until the edges are written.
create or replace function aiq.take_nodes(
    p_kinds text[], p_names text[], p_summaries text[],
    p_org_id uuid, p_visibility text, p_owner_id uuid, p_audience uuid,
    out node_ids bigint[], out soft_made bigint
)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
    exempt bigint[];
    wanted bigint[];
    held bigint[];
begin
    soft_made := 0;
    for attempt in 1..20 loop
        for pass in 1..2 loop
            select
                array_agg(r.node_id order by r.number),
                array_agg(r.node_id) filter (where r.promoted)
            into node_ids, exempt
            from aiq.resolve_names(p_kinds, p_names, p_org_id, p_visibility, p_owner_id, p_audience) as r;
            exit when array_position(node_ids, null) is null;
            soft_made := soft_made + aiq.make_soft_nodes(
                array_agg(w.kind), array_agg(w.name), array_agg(w.summary),
                p_org_id, p_visibility, p_owner_id, p_audience
            )
            from unnest(p_kinds, p_names, p_summaries, node_ids) as w (kind, name, summary, node_id)
            where w.node_id is null;
        end loop;
        wanted := array(select distinct u.id from unnest(node_ids) as u (id) order by u.id);
        -- A soft node that was retired comes back as the same node.
        perform from aiq.nodes as n
        where n.id = any (wanted) and n.entity_type is null and n.retired_at is not null
        order by n.id for no key update;
        if found then
            update aiq.nodes as n set retired_at = null
            where
                n.id = any (wanted) and n.entity_type is null and n.retired_at is not null
                and not exists (
                    select from aiq.node_promotions as p
                    join aiq.nodes as t on t.id = p.node_id and t.retired_at is null
                    where p.soft_id = n.id
                );
        end if;
        held := array(
            select n.id from aiq.nodes as n
            where
                n.id = any (wanted) and n.retired_at is null
                and (
                    n.entity_type is null or n.audience is null or n.audience = p_org_id
                    or n.audience = p_audience or n.id = any (exempt)
                )
            order by n.id for share
        );
        if held = wanted then
            return;
        end if;
    end loop;
    raise exception using
        errcode = '40001',
        message = 'the nodes of the graph go on changing while they are looked up',
        hint = 'Run the statement again.';
end
$$;
alter function aiq.take_nodes(text[], text[], text[], uuid, text, uuid, uuid) owner to aiq_engine;
comment on function aiq.take_nodes(text[], text[], text[], uuid, text, uuid, uuid) is
    'Finds or makes the nodes of the names and holds them in share mode until the transaction ends';
revoke all on function aiq.take_nodes(text[], text[], text[], uuid, text, uuid, uuid) from public;

-- A fact (source, relation, target, scope) has one edge without an end. Inserting
-- it or meeting it takes it for this transaction: nobody else can close it or
-- begin another. Only then are the closed periods read, in a statement that sees
-- what others have committed, and the start is put where it belongs: at the
-- earliest start stated, but not before the end of the last closed period that an
-- edge from there on would overlap. (A period closed where it began is empty, and
-- nothing overlaps it.)
create or replace function aiq.assert_edges(
    p_sources bigint[], p_relations text[], p_targets bigint[], p_weights real[],
    p_starts timestamptz[], p_memories text[], p_agents text[], p_provenances jsonb[],
    p_org_id uuid, p_visibility text, p_owner_id uuid,
    out edge_ids bigint[], out edges_made bigint
)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
    held record;
begin
    -- An edge that is there is written even where its weight stays, so that what
    -- comes back is the edge as it is once it is held.
    with made as (
        insert into aiq.edges as e (
            src_id, relation, dst_id, weight, valid_from, memory, provenance,
            org_id, visibility, owner_id, src_audience, dst_audience
        )
        select
            f.src_id, f.relation, f.dst_id, f.weight, f.start, f.memory, f.provenance,
            p_org_id, p_visibility, p_owner_id, s.audience, d.audience
        from (
            select distinct on (a.src_id, a.relation, a.dst_id)
                a.src_id, a.relation, a.dst_id, a.start, a.memory, a.provenance,
                max(a.weight) over (partition by a.src_id, a.relation, a.dst_id) as weight
            from unnest(
                p_sources, p_relations, p_targets, p_weights, p_starts, p_memories, p_provenances
            ) with ordinality as a (src_id, relation, dst_id, weight, start, memory, provenance, number)
            order by a.src_id, a.relation, a.dst_id, a.start, a.number
        ) as f
        join aiq.nodes as s on s.id = f.src_id
        join aiq.nodes as d on d.id = f.dst_id
        order by f.src_id, f.relation, f.dst_id
        on conflict (src_id, relation, dst_id, org_id, visibility, owner_id)
            where valid_to is null
        do update set weight = greatest(e.weight, excluded.weight)
        returning e.id, e.src_id, e.relation, e.dst_id, e.valid_from, (e.xmax = 0) as inserted
    )
    select
        array_agg(m.id) as ids, array_agg(m.src_id) as sources, array_agg(m.relation) as relations,
        array_agg(m.dst_id) as targets, array_agg(m.valid_from) as starts,
        count(*) filter (where m.inserted) as made
    into held
    from made as m;
    edges_made := held.made;

    -- All the edges are held now, and this statement sees what others had written.
    with closed as materialized (
        select h.id, h.src_id, h.relation, h.dst_id, h.start, (
            select max(p.valid_to) from aiq.edges as p
            where
                p.src_id = h.src_id and p.relation = h.relation and p.dst_id = h.dst_id
                and p.visibility = p_visibility and p.org_id is not distinct from p_org_id
                and p.owner_id is not distinct from p_owner_id
                and p.valid_to is not null and p.valid_to > p.valid_from
        ) as until
        from unnest(held.ids, held.sources, held.relations, held.targets, held.starts)
            as h (id, src_id, relation, dst_id, start)
    ),
    stated as materialized (
        select
            a.number, a.memory, a.provenance, a.start as stated, c.id, c.start,
            greatest(least(c.start, a.start), c.until) as placed
        from unnest(p_sources, p_relations, p_targets, p_starts, p_memories, p_provenances)
            with ordinality as a (src_id, relation, dst_id, start, memory, provenance, number)
        join closed as c on c.src_id = a.src_id and c.relation = a.relation and c.dst_id = a.dst_id
    ),
    moved as (
        update aiq.edges as e
        set
            valid_from = w.placed,
            -- The period is begun by what states its start.
            memory = case when w.placed < w.start then w.memory else e.memory end,
            provenance = case when w.placed < w.start then w.provenance else e.provenance end
        from (
            select distinct on (s.id) s.id, s.start, s.placed, s.memory, s.provenance
            from stated as s
            where s.placed <> s.start
            order by s.id, s.stated, s.number
        ) as w
        where e.id = w.id
    )
    select array_agg(s.id order by s.number) into edge_ids from stated as s;

    insert into aiq.edge_assertions as r (edge_id, memory, agent, stated_from, weight)
    select distinct on (a.edge_id, a.memory)
        a.edge_id, a.memory, a.agent, a.start,
        max(a.weight) over (partition by a.edge_id, a.memory)
    from unnest(edge_ids, p_memories, p_agents, p_starts, p_weights)
        with ordinality as a (edge_id, memory, agent, start, weight, number)
    where a.memory is not null
    order by a.edge_id, a.memory, a.start, a.number
    on conflict (edge_id, memory) do update
    set
        stated_from = least(r.stated_from, excluded.stated_from),
        weight = greatest(r.weight, excluded.weight)
    where r.stated_from > excluded.stated_from or r.weight < excluded.weight;
end
$$;
alter function aiq.assert_edges(
    bigint[], text[], bigint[], real[], timestamptz[], text[], text[], jsonb[], uuid, text, uuid
) owner to aiq_engine;
comment on function aiq.assert_edges(
    bigint[], text[], bigint[], real[], timestamptz[], text[], text[], jsonb[], uuid, text, uuid
) is
    'Writes facts of one scope, each as a new edge or into the one that is there: the earliest start wins, the greatest weight wins, and each memory is recorded';
revoke all on function aiq.assert_edges(
    bigint[], text[], bigint[], real[], timestamptz[], text[], text[], jsonb[], uuid, text, uuid
) from public;

-- Entries of one kind and name are one node, whose number among the different
-- ones is its place.
create or replace function aiq.read_graph_nodes(
    p_nodes jsonb,
    out places bigint[], out kinds text[], out names text[], out summaries text[]
)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    all_kinds text[];
    all_names text[];
    written text[];
begin
    perform aiq.check_graph_nodes(p_nodes);
    select
        coalesce(array_agg(k.folded order by e.number), '{}'),
        coalesce(array_agg(
            -- What has only ASCII and single blanks inside folds like this, much sooner.
            case when e.entry ->> 'n' ~ '[^ -~]|  |^ | $'
                then aiq.fold_key(e.entry ->> 'n') else lower((e.entry ->> 'n') collate "C")
            end order by e.number
        ), '{}'),
        coalesce(array_agg(
            coalesce(nullif(btrim(e.entry ->> 'summary'), ''), btrim(e.entry ->> 'n')) order by e.number
        ), '{}')
    into all_kinds, all_names, written
    from jsonb_array_elements(p_nodes) with ordinality as e (entry, number)
    join (
        select d.kind, aiq.fold_key(d.kind) as folded
        from (select distinct n.entry ->> 'k' as kind from jsonb_array_elements(p_nodes) as n (entry)) as d
        offset 0
    ) as k on k.kind = e.entry ->> 'k';
    perform aiq.check_folded_names(all_kinds, all_names);
    select
        coalesce(array_agg(e.place order by e.number), '{}'),
        coalesce(array_agg(e.kind order by e.place) filter (where e.first), '{}'),
        coalesce(array_agg(e.name order by e.place) filter (where e.first), '{}'),
        coalesce(array_agg(e.summary order by e.place) filter (where e.first), '{}')
    into places, kinds, names, summaries
    from (
        select
            w.*,
            dense_rank() over (order by w.kind, w.name) as place,
            row_number() over (partition by w.kind, w.name order by w.number) = 1 as first
        from unnest(all_kinds, all_names, written) with ordinality as w (kind, name, summary, number)
    ) as e;
end
$$;
alter function aiq.read_graph_nodes(jsonb) owner to aiq_engine;
comment on function aiq.read_graph_nodes(jsonb) is
    'The different nodes of a graph, folded, and the place among them of each entry';
revoke all on function aiq.read_graph_nodes(jsonb) from public;

create or replace function aiq.upsert_graph_once(p_graph jsonb, p_context jsonb) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
    edge_list constant jsonb := coalesce(p_graph -> 'edges', '[]');
    edge_count constant int := jsonb_array_length(edge_list);
    start constant timestamptz := aiq.read_start(p_context);
    agent constant text := aiq.read_text(p_context, 'agent');
    memory constant text := aiq.read_text(p_context, 'memory');
    scope record;
    named record;
    taken record;
    stated record;
    written record;
    node_ids bigint[];
    soft bigint;
begin
    scope := aiq.read_scope(p_context);
    named := aiq.read_graph_nodes(coalesce(p_graph -> 'nodes', '[]'));
    perform aiq.check_graph_edges(edge_list, cardinality(named.places));
    taken := aiq.take_nodes(
        named.kinds, named.names, named.summaries,
        scope.org_id, scope.visibility, scope.owner_id, scope.audience
    );
    node_ids := array(
        select taken.node_ids[p.place]
        from unnest(named.places) with ordinality as p (place, number)
        order by p.number
    );
    select
        coalesce(array_agg(node_ids[(e.entry -> 's')::numeric::int + 1] order by e.number), '{}') as sources,
        coalesce(array_agg(e.entry ->> 'r' order by e.number), '{}') as relations,
        coalesce(array_agg(node_ids[(e.entry -> 't')::numeric::int + 1] order by e.number), '{}') as targets,
        coalesce(array_agg(coalesce((e.entry ->> 'w')::numeric::real, 1) order by e.number), '{}') as weights
    into stated
    from jsonb_array_elements(edge_list) with ordinality as e (entry, number);
    perform aiq.check_relations(stated.sources, stated.relations, stated.targets, 'edge %');
    written := aiq.assert_edges(
        stated.sources, stated.relations, stated.targets, stated.weights,
        array_fill(start, array[edge_count]), array_fill(memory, array[edge_count]),
        array_fill(agent, array[edge_count]), array_fill(p_context, array[edge_count]),
        scope.org_id, scope.visibility, scope.owner_id
    );
    select count(*) into soft
    from aiq.nodes as n where n.id = any (taken.node_ids) and n.entity_type is null;
    return jsonb_build_object(
        'nodes', to_jsonb(node_ids),
        'edges', to_jsonb(coalesce(written.edge_ids, '{}')),
        'counts', jsonb_build_object(
            'typed', (select count(distinct u.id) from unnest(taken.node_ids) as u (id)) - soft,
            'soft_made', taken.soft_made,
            'soft_found', soft - taken.soft_made,
            'edges_made', written.edges_made,
            'edges_found',
            (select count(distinct u.id) from unnest(written.edge_ids) as u (id)) - written.edges_made
        )
    );
end
$$;
alter function aiq.upsert_graph_once(jsonb, jsonb) owner to aiq_engine;
comment on function aiq.upsert_graph_once(jsonb, jsonb) is 'One attempt of aiq.upsert_graph';
revoke all on function aiq.upsert_graph_once(jsonb, jsonb) from public;

create or replace function aiq.require_read_committed() returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        raise exception using
            errcode = '55000',
            message = format(
                'the transaction is %s, but a writer has to see what others commit while it waits for them',
                current_setting('transaction_isolation')
            ),
            hint = 'Begin the transaction with: begin isolation level read committed;';
    end if;
end
$$;
alter function aiq.require_read_committed() owner to aiq_engine;
comment on function aiq.require_read_committed() is
    'Refuses a transaction whose one snapshot would hide what other writers commit';
revoke all on function aiq.require_read_committed() from public;

create or replace function aiq.upsert_graph(p_graph jsonb, p_context jsonb) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    if p_context is null or jsonb_typeof(p_context) <> 'object' then
        raise exception using
            errcode = '22023',
            message = format('p_context is %s, but must be an object', coalesce(left(p_context::text, 80), 'null')),
            hint = 'Write {"agent": "who", "memory": "what states it", "valid_from": "2024-01-31", "org": "<uuid>"}; each may be left out.';
    end if;
    perform aiq.check_graph(p_graph);
    perform aiq.require_read_committed();
    -- Writers do not get in each other's way like this; one that changes nodes in
    -- another order, such as the rebuilding of a large table, may.
    for attempt in 1..5 loop
        begin
            return aiq.upsert_graph_once(p_graph, p_context);
        exception when deadlock_detected then
            if attempt = 5 then
                raise;
            end if;
        end;
    end loop;
end
$$;
alter function aiq.upsert_graph(jsonb, jsonb) owner to aiq_engine;
comment on function aiq.upsert_graph(jsonb, jsonb) is
    'Writes a graph of facts, all of it or nothing. p_graph: {"nodes":[{"k":kind,"n":name,"summary":text?}],"edges":[{"s":index,"t":index,"r":relation,"w":weight?}]}. '
    'p_context: {"agent","memory","valid_from","org","visibility","owner"}, each optional; the whole of it is kept as provenance. '
    'A name joins the one typed node of that kind with that key that the members of the org see (of several: none), else the soft node of that kind, name and scope. '
    'A fact holds from valid_from (by default now, and it may lie ahead); stated again, its edge keeps the earliest start and the greatest weight. '
    'A start before or in a period that has been given an end, even one ahead, moves to that end. '
    'Returns {"nodes":[id per index],"edges":[id per index],"counts":{…}}';
revoke all on function aiq.upsert_graph(jsonb, jsonb) from public;
grant execute on function aiq.upsert_graph(jsonb, jsonb) to aiq_worker;
