-- What a reconciler finds out about soft nodes: which typed node one of them is,
-- and which nodes are not the same however alike their names are.

create or replace function aiq.record_distinct(
    p_a bigint, p_b bigint, p_by text default null, p_evidence jsonb default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    missing bigint;
begin
    if p_a is null or p_b is null or p_a = p_b then
        raise exception using
            errcode = '22023',
            message = format('two different nodes can be distinct, not %s and %s',
                coalesce(p_a::text, 'null'), coalesce(p_b::text, 'null')),
            hint = 'Give the ids of two nodes.';
    end if;
    select u.id into missing
    from unnest(array[p_a, p_b]) as u (id)
    where not exists (select from aiq.nodes as n where n.id = u.id)
    order by u.id limit 1;
    if found then
        raise exception using
            errcode = 'P0002',
            message = format('there is no node %s', missing),
            hint = 'Give the ids of nodes that exist.';
    end if;
    insert into aiq.distinct_nodes (node_a, node_b, recorded_by, evidence)
    values (least(p_a, p_b), greatest(p_a, p_b), coalesce(p_by, session_user::text), p_evidence)
    on conflict (node_a, node_b) do update
    set recorded_by = excluded.recorded_by, evidence = excluded.evidence, recorded_at = now();
    delete from aiq.link_pair_queue as q
    where q.node_a = least(p_a, p_b) and q.node_b = greatest(p_a, p_b);
end
$$;
alter function aiq.record_distinct(bigint, bigint, text, jsonb) owner to aiq_engine;
comment on function aiq.record_distinct(bigint, bigint, text, jsonb) is
    'Remembers that two nodes are not the same, whatever their names: similar and judged never link them again, nor is the pair queued for a judge';
revoke all on function aiq.record_distinct(bigint, bigint, text, jsonb) from public;
grant execute on function aiq.record_distinct(bigint, bigint, text, jsonb) to aiq_worker;

create or replace function aiq.check_promotion(p_soft bigint, p_node bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    soft aiq.nodes;
    node aiq.nodes;
    problem text;
begin
    select n.* into soft from aiq.nodes as n where n.id = p_soft;
    select n.* into node from aiq.nodes as n where n.id = p_node;
    if soft.id is null or node.id is null then
        raise exception using
            errcode = 'P0002',
            message = format('there is no node %s', case when soft.id is null then p_soft else p_node end),
            hint = 'Give the id of a soft node and that of a typed one.';
    end if;
    problem := case
        when soft.entity_type is not null
            then format('node %s is not soft, but of the type "%s"', p_soft, soft.entity_type)
        when node.entity_type is null
            then format('node %s is soft, but a soft node is promoted to a typed one', p_node)
        when soft.retired_at is not null then format('node %s is retired', p_soft)
        when node.retired_at is not null then format('node %s is retired', p_node)
        when
            exists (
                select from aiq.entity_types as t
                where aiq.fold_key(t.name) = soft.claimed_kind and t.name <> node.entity_type
            )
            and aiq.fold_key(node.entity_type) <> soft.claimed_kind
            then format(
                'node %s is said to be of the type "%s", but node %s is of the type "%s"',
                p_soft, soft.claimed_kind, p_node, node.entity_type
            )
        when
            exists (
                select from aiq.distinct_nodes as d
                where d.node_a = least(p_soft, p_node) and d.node_b = greatest(p_soft, p_node)
            )
            then format('nodes %s and %s are recorded as distinct', p_soft, p_node)
        when soft.audience is not null and node.audience is not null and soft.audience <> node.audience
            then format('node %s belongs to others than node %s, who would see what is not theirs', p_node, p_soft)
    end;
    if problem is not null then
        raise exception using
            errcode = '22023',
            message = problem,
            hint = 'Promote a soft node to a typed node of its kind, which everyone or the same organisation sees.';
    end if;
end
$$;
alter function aiq.check_promotion(bigint, bigint) owner to aiq_engine;
comment on function aiq.check_promotion(bigint, bigint) is
    'Refuses to fold one node into another where they are not a soft and a typed one of its kind, or where others would see more';
revoke all on function aiq.check_promotion(bigint, bigint) from public;

-- What of a soft node's edges goes over to the typed node, as edges of that node.
-- An edge is seen by those who see it and both its ends: where the typed node is
-- seen by more than the soft one was, the edge's own scope takes over.
create or replace function aiq.promoted_edges(p_soft bigint, p_node bigint)
returns table (
    edge_id bigint, src_id bigint, relation text, dst_id bigint, weight real,
    valid_from timestamptz, valid_to timestamptz, memory text, provenance jsonb,
    org_id uuid, visibility text, owner_id uuid, narrowed boolean, widened boolean
)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select
        e.id,
        case when e.src_id = p_soft then p_node else e.src_id end,
        e.relation,
        case when e.dst_id = p_soft then p_node else e.dst_id end,
        e.weight, e.valid_from, e.valid_to, e.memory, e.provenance,
        case when c.narrowed then s.org_id else e.org_id end,
        case when c.narrowed then s.visibility else e.visibility end,
        case when c.narrowed then s.owner_id else e.owner_id end,
        c.narrowed,
        s.audience is not null and s.audience is distinct from n.audience
        and e.audience is not null and e.audience <> s.audience
    from aiq.edges as e
    join aiq.nodes as s on s.id = p_soft
    join aiq.nodes as n on n.id = p_node
    cross join lateral (
        select s.audience is not null and s.audience is distinct from n.audience and e.audience is null
    ) as c (narrowed)
    where
        (e.src_id = p_soft or e.dst_id = p_soft)
        and e.retired_at is null and (e.valid_to is null or e.valid_to > now())
        -- What was said between the two says nothing of one.
        and e.src_id <> p_node and e.dst_id <> p_node
$$;
alter function aiq.promoted_edges(bigint, bigint) owner to aiq_engine;
comment on function aiq.promoted_edges(bigint, bigint) is
    'The current edges of a soft node as they would be of the typed node; widened: more would see it, whatever its scope';
revoke all on function aiq.promoted_edges(bigint, bigint) from public;

create or replace function aiq.follow_assertions(p_old_ids bigint[], p_new_ids bigint[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    insert into aiq.edge_assertions as r (
        edge_id, memory, agent, stated_from, weight, asserted_at
    )
    select distinct on (m.new_id, a.memory)
        m.new_id, a.memory, a.agent,
        min(a.stated_from) over w, max(a.weight) over w, a.asserted_at
    from unnest(p_old_ids, p_new_ids) as m (old_id, new_id)
    join aiq.edge_assertions as a on a.edge_id = m.old_id
    window w as (partition by m.new_id, a.memory)
    order by m.new_id, a.memory, a.stated_from, a.edge_id
    on conflict (edge_id, memory) do update
    set
        agent = coalesce(r.agent, excluded.agent),
        stated_from = least(r.stated_from, excluded.stated_from),
        weight = greatest(r.weight, excluded.weight)
$$;
alter function aiq.follow_assertions(bigint[], bigint[]) owner to aiq_engine;
comment on function aiq.follow_assertions(bigint[], bigint[]) is
    'Lets the memories that have asserted some edges be those of others too';
revoke all on function aiq.follow_assertions(bigint[], bigint[]) from public;

-- The two nodes are held, so nobody else writes edges of either.
create or replace function aiq.move_promoted_edges(p_soft bigint, p_node bigint) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    item record;
    written record;
    begins timestamptz;
    new_id bigint;
begin
    -- A soft node's edges may be of several scopes.
    for item in
        select
            p.org_id, p.visibility, p.owner_id,
            array_agg(p.edge_id order by p.edge_id) as edge_ids,
            array_agg(p.src_id order by p.edge_id) as sources,
            array_agg(p.relation order by p.edge_id) as relations,
            array_agg(p.dst_id order by p.edge_id) as targets,
            array_agg(p.weight order by p.edge_id) as weights,
            array_agg(p.valid_from order by p.edge_id) as starts,
            array_agg(p.memory order by p.edge_id) as memories,
            array_agg(p.provenance order by p.edge_id) as provenances
        from aiq.promoted_edges(p_soft, p_node) as p
        where p.valid_to is null
        group by p.org_id, p.visibility, p.owner_id
    loop
        written := aiq.assert_edges(
            item.sources, item.relations, item.targets, item.weights, item.starts, item.memories,
            array_fill(null::text, array[cardinality(item.sources)]), item.provenances,
            item.org_id, item.visibility, item.owner_id
        );
        perform aiq.follow_assertions(item.edge_ids, written.edge_ids);
    end loop;
    -- Those that have an end ahead join one without, or fill what other periods leave.
    for item in
        select p.* from aiq.promoted_edges(p_soft, p_node) as p
        where p.valid_to is not null order by p.edge_id
    loop
        select max(coalesce(e.valid_to, 'infinity')) into begins
        from aiq.edges as e
        where
            e.src_id = item.src_id and e.relation = item.relation and e.dst_id = item.dst_id
            and e.visibility = item.visibility and e.org_id is not distinct from item.org_id
            and e.owner_id is not distinct from item.owner_id
            and e.valid_from < item.valid_to and coalesce(e.valid_to, 'infinity') > item.valid_from;
        if begins = 'infinity' then
            -- The typed node has it without an end: the earliest start wins.
            written := aiq.assert_edges(
                array[item.src_id], array[item.relation], array[item.dst_id], array[item.weight],
                array[item.valid_from], array[item.memory], array[null::text],
                array[item.provenance], item.org_id, item.visibility, item.owner_id
            );
            perform aiq.follow_assertions(array[item.edge_id], written.edge_ids);
        end if;
        continue when begins >= item.valid_to;
        insert into aiq.edges (
            src_id, relation, dst_id, weight, valid_from, valid_to, memory, provenance,
            org_id, visibility, owner_id
        )
        values (
            item.src_id, item.relation, item.dst_id, item.weight, greatest(item.valid_from, begins),
            item.valid_to, item.memory, item.provenance, item.org_id, item.visibility, item.owner_id
        )
        returning id into new_id;
        perform aiq.follow_assertions(array[item.edge_id], array[new_id]);
    end loop;
end
$$;
alter function aiq.move_promoted_edges(bigint, bigint) owner to aiq_engine;
comment on function aiq.move_promoted_edges(bigint, bigint) is
    'Writes the current edges of a soft node as edges of a typed one, with their periods, provenance and memories';
revoke all on function aiq.move_promoted_edges(bigint, bigint) from public;

create or replace function aiq.move_promoted_keys(p_soft bigint, p_node bigint) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    insert into aiq.node_keys as k (
        node_id, key, kind, is_name, soft, audience, narrowed_to, promoted_from
    )
    select
        n.id, s.soft_name, 'alias', true, false, coalesce(c.narrowed_to, n.audience),
        c.narrowed_to, s.id
    from aiq.nodes as s
    join aiq.nodes as n on n.id = p_node
    cross join lateral (
        select case when s.audience is distinct from n.audience and n.audience is null then s.audience end
    ) as c (narrowed_to)
    where s.id = p_soft
    -- A name that the node has stays as it is, unless it was for fewer than it now is.
    on conflict (node_id, key) do update
    set narrowed_to = null, audience = excluded.audience, promoted_from = excluded.promoted_from
    where k.narrowed_to is not null and excluded.narrowed_to is null
$$;
alter function aiq.move_promoted_keys(bigint, bigint) owner to aiq_engine;
comment on function aiq.move_promoted_keys(bigint, bigint) is
    'Makes a soft node''s name an alias of the typed node, for those who could see the soft node';
revoke all on function aiq.move_promoted_keys(bigint, bigint) from public;

create or replace function aiq.check_promoted_edges(p_soft bigint, p_node bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    widened bigint[];
    moved record;
begin
    select array_agg(p.edge_id) filter (where p.widened) into widened
    from aiq.promoted_edges(p_soft, p_node) as p;
    if widened is not null then
        raise exception using
            errcode = '22023',
            message = format('others would see what is not theirs if node %s were node %s: edges %s',
                p_soft, p_node, aiq.edge_words(widened)),
            hint = 'Close these edges, or promote to a node that only the soft node''s organisation sees.';
    end if;
    -- One at a time, since the label names the edge; most are right.
    for moved in
        select p.* from aiq.promoted_edges(p_soft, p_node) as p order by p.edge_id
    loop
        perform aiq.check_relations(
            array[moved.src_id], array[moved.relation], array[moved.dst_id],
            'edge ' || aiq.edge_words(array[moved.edge_id])
        );
    end loop;
end
$$;
alter function aiq.check_promoted_edges(bigint, bigint) owner to aiq_engine;
comment on function aiq.check_promoted_edges(bigint, bigint) is
    'Refuses a promotion under which others would see an edge or a relation is not declared, naming the edge';
revoke all on function aiq.check_promoted_edges(bigint, bigint) from public;

create or replace function aiq.promote_soft_node(
    p_soft bigint, p_node bigint, p_by text default null, p_evidence jsonb default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_soft is null or p_node is null or p_soft = p_node then
        raise exception using
            errcode = '22023',
            message = format('a soft node is promoted to another, a typed one, not %s to %s',
                coalesce(p_soft::text, 'null'), coalesce(p_node::text, 'null')),
            hint = 'Give the id of a soft node and that of a typed one.';
    end if;
    perform aiq.require_read_committed();
    -- Writers hold the nodes of their edges: this waits for them, and they for this.
    perform from aiq.nodes as n where n.id in (p_soft, p_node) order by n.id for no key update;
    -- Asked again after its answer was lost, it is done already.
    if exists (
        select from aiq.node_promotions as p
        join aiq.nodes as s on s.id = p.soft_id and s.retired_at is not null
        where p.soft_id = p_soft and p.node_id = p_node
    ) then
        return p_node;
    end if;
    perform aiq.check_promotion(p_soft, p_node);
    perform aiq.check_promoted_edges(p_soft, p_node);
    perform aiq.move_promoted_edges(p_soft, p_node);
    perform aiq.move_promoted_keys(p_soft, p_node);
    insert into aiq.node_promotions (soft_id, node_id, promoted_by, evidence)
    values (p_soft, p_node, coalesce(p_by, session_user::text), p_evidence)
    on conflict (soft_id) do update
    set node_id = excluded.node_id, promoted_by = excluded.promoted_by,
        evidence = excluded.evidence, promoted_at = now();
    -- What the soft node is not, the typed node is not either.
    insert into aiq.distinct_nodes (node_a, node_b, recorded_by, evidence, recorded_at)
    select least(o.id, p_node), greatest(o.id, p_node), d.recorded_by, d.evidence, d.recorded_at
    from aiq.distinct_nodes as d
    cross join lateral (select case d.node_a when p_soft then d.node_b else d.node_a end) as o (id)
    where p_soft in (d.node_a, d.node_b)
    on conflict do nothing;
    delete from aiq.link_pair_queue as q where p_soft in (q.node_a, q.node_b);
    update aiq.nodes as n set retired_at = now() where n.id = p_soft;
    return p_node;
end
$$;
alter function aiq.promote_soft_node(bigint, bigint, text, jsonb) owner to aiq_engine;
comment on function aiq.promote_soft_node(bigint, bigint, text, jsonb) is
    'Folds a soft node into the typed one that it turned out to be; returns the typed node''s id. '
    'Its current edges go over with their periods and provenance (into the typed node''s own where it has the same one), its name becomes an alias for those who could see it, and the soft node is retired and keeps its history. '
    'From then on what is stated of its kind and name in its scope is stated of the typed node. Nobody sees more than before';
revoke all on function aiq.promote_soft_node(bigint, bigint, text, jsonb) from public;
grant execute on function aiq.promote_soft_node(bigint, bigint, text, jsonb) to aiq_worker;
