-- The map: what an agent finds its way by. The types and the routes between them, a
-- search, one hop from an entity, and an entity as a whole.
--
-- The functions that callers use are SECURITY INVOKER, since a policy is asked as the
-- caller; what they are made of are functions of aiq_owner that answer under the
-- caller's claims. Candidates come in blocks, best first, until enough of them may be
-- opened, so that what is denied neither counts nor leaves a gap.

create or replace function aiq.ontology() returns jsonb
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object(
        'entity_types', (
            select coalesce(jsonb_agg(
                jsonb_build_object(
                    'name', t.name, 'handle_prefix', t.handle_prefix,
                    'description', t.description, 'indexed', t.indexed
                ) order by t.name
            ), '[]')
            from aiq.entity_types_api as t
        ),
        'routes', (
            select coalesce(jsonb_agg(
                jsonb_build_object(
                    'src_type', r.src_type, 'relation', r.relation, 'dst_type', r.dst_type,
                    'inverse_label', r.inverse_label, 'description', r.description
                ) order by r.src_type, r.relation, r.dst_type
            ), '[]')
            from aiq.relations_api as r
        )
    )
$$;
alter function aiq.ontology() owner to aiq_owner;
comment on function aiq.ontology() is
    'The map of types: each entity type with its handle prefix, description and whether it is searched, and the routes declared between types. It holds no entity and is the same for every caller';
revoke all on function aiq.ontology() from public;

-- What is refused

create or replace function aiq.refuse_unknown(p_what text, p_parameter text, p_name text, p_names text[])
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = '42704',
        message = format('there is no %s %s, which %s names', p_what, coalesce('"' || left(p_name, 100) || '"', 'null'), p_parameter),
        hint = coalesce('Write one of: ' || (
            select string_agg(t.name, ', ' order by t.place)
            from (
                select u.name, row_number() over (
                    order by @trgm@.similarity(u.name, coalesce(left(p_name, 100), '')) desc, u.name collate "C"
                ) as place
                from unnest(p_names) as u (name)
            ) as t
            where t.place <= 5
        ), format('There is no %s yet.', p_what));
end
$$;
alter function aiq.refuse_unknown(text, text, text, text[]) owner to aiq_owner;
comment on function aiq.refuse_unknown(text, text, text, text[]) is
    'Refuses a name that is none of some names, the likeliest of which it tells';
revoke all on function aiq.refuse_unknown(text, text, text, text[]) from public;

create or replace function aiq.check_entity_types(p_types text[]) returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    wrong record;
begin
    if array_ndims(p_types) > 1 then
        raise exception using
            errcode = '22023',
            message = format('p_types has %s dimensions, but must be a list', array_ndims(p_types)),
            hint = 'Write a list of entity types, or null for all.';
    end if;
    select u.name, t.name is null as unknown into wrong
    from unnest(p_types) with ordinality as u (name, place)
    left join aiq.entity_types as t on t.name = u.name
    where t.name is null or not t.indexed
    order by u.place limit 1;
    if wrong.unknown then
        perform aiq.refuse_unknown('entity type', 'p_types', wrong.name, array(
            select t.name from aiq.entity_types as t where t.indexed
        ));
    elsif wrong.name is not null then
        raise exception using
            errcode = '22023',
            message = format('entities of type "%s" are not searched', wrong.name),
            hint = 'They are reached by their handles and by going from their neighbors; write types that the ontology tells to be indexed.';
    end if;
end
$$;
alter function aiq.check_entity_types(text[]) owner to aiq_owner;
comment on function aiq.check_entity_types(text[]) is 'Refuses entity types that are not there or are not searched';
revoke all on function aiq.check_entity_types(text[]) from public;

create or replace function aiq.require_relations(p_relations text[]) returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    wrong record;
begin
    if array_ndims(p_relations) > 1 then
        raise exception using
            errcode = '22023',
            message = format('p_relations has %s dimensions, but must be a list', array_ndims(p_relations)),
            hint = 'Write a list of relations, or null for all.';
    end if;
    select u.relation, true as unknown into wrong
    from unnest(p_relations) with ordinality as u (relation, place)
    where not exists (select from aiq.relations as r where r.relation = u.relation)
    order by u.place limit 1;
    if wrong.unknown then
        perform aiq.refuse_unknown('relation', 'p_relations', wrong.relation, array(
            select distinct r.relation from aiq.relations as r
        ));
    end if;
end
$$;
alter function aiq.require_relations(text[]) owner to aiq_owner;
comment on function aiq.require_relations(text[]) is 'Refuses relations that are not declared';
revoke all on function aiq.require_relations(text[]) from public;

create or replace function aiq.check_page(p_limit int) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_limit is null or p_limit not between 1 and 100 then
        raise exception using
            errcode = '22023',
            message = format('p_limit is %s, but must be from 1 to 100', coalesce(p_limit::text, 'null')),
            hint = 'Write for example p_limit => 10.';
    end if;
end
$$;
alter function aiq.check_page(int) owner to aiq_owner;
comment on function aiq.check_page(int) is 'Refuses a limit that is not from 1 to 100';
revoke all on function aiq.check_page(int) from public;

create or replace function aiq.check_search(p_query text, p_limit int) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_query is null or btrim(p_query, E' \t\r\n') = '' or length(p_query) > 4000 then
        raise exception using
            errcode = '22023',
            message = case
                when length(p_query) > 4000
                    then format('p_query has %s characters, but must have at most 4000', length(p_query))
                else format('p_query is %s, but must be words to search for', coalesce('"' || p_query || '"', 'null'))
            end,
            hint = 'Write a question, or some words of it.';
    end if;
    perform aiq.check_page(p_limit);
end
$$;
alter function aiq.check_search(text, int) owner to aiq_owner;
comment on function aiq.check_search(text, int) is 'Refuses a query without words or too long a one, and limits as aiq.check_page';
revoke all on function aiq.check_search(text, int) from public;

create or replace function aiq.opened_in_order(p_nodes bigint[]) returns bigint[]
language sql stable security invoker
set search_path = pg_catalog, pg_temp
as $$
    select array(
        select u.id from unnest(p_nodes) with ordinality as u (id, place)
        where u.id in (select aiq.opened_nodes(p_nodes))
        order by u.place
    )
$$;
alter function aiq.opened_in_order(bigint[]) owner to aiq_owner;
comment on function aiq.opened_in_order(bigint[]) is
    'Those of some nodes that the caller may see and open, in their order';
revoke all on function aiq.opened_in_order(bigint[]) from public;

-- An entity by its handle

create or replace function aiq.policies_of_type(p_entity_type text) returns text[]
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(distinct e.policy) filter (where e.policy is not null), '{}')
    from aiq.entity_tables as e
    where p_entity_type is null or e.entity_type = p_entity_type
$$;
alter function aiq.policies_of_type(text) owner to aiq_owner;
comment on function aiq.policies_of_type(text) is
    'The policies of an entity type''s registrations, by name; of all for null';
revoke all on function aiq.policies_of_type(text) from public;

-- Missing, malformed, retired, not theirs to see and not theirs to open are one answer.
-- It takes one time too: every policy of the type is asked, about the node if it is
-- found and the policy its own, else about an id that no node has.
create or replace function aiq.node_of_handle(p_handle text) returns bigint
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
as $$
declare
    folded constant text := case when octet_length(p_handle) <= 1000 then aiq.fold_key(p_handle) end;
    written_number constant text := substring(folded from '-(0|[1-9][0-9]{0,18})$');
    prefix constant text := left(folded, -1 - length(written_number));
    of_type text;
    found_id bigint;
    own record;
    policy text;
    opened boolean := true;
begin
    if p_handle is null then
        raise exception using
            errcode = '22023', message = 'p_handle is null, but must be a handle',
            hint = 'Take a handle from search_entities or get_neighbors.';
    end if;
    if written_number::numeric <= 9223372036854775807 then
        select t.name into of_type from aiq.entity_types_api as t where lower(t.handle_prefix) = prefix;
        if of_type is not null or prefix = 'soft' then
            select n.node_id into found_id
            from aiq.nodes_by_handle(of_type, written_number::bigint, null) as n;
        end if;
    end if;
    select p.policy into own from aiq.policies_of_nodes(array[found_id]) as p;
    if of_type is not null then
        foreach policy in array aiq.policies_of_type(of_type) loop
            if policy = own.policy then
                opened := exists (select from aiq.ask_policy(policy, array[found_id]));
            else
                perform from aiq.ask_policy(policy, array[-9223372036854775808]);
            end if;
        end loop;
    end if;
    if found_id is null or not opened then
        raise exception using
            errcode = 'P0002', message = format('no entity has the handle "%s"', left(p_handle, 200)),
            hint = 'Take a handle from search_entities or get_neighbors.';
    end if;
    return found_id;
end
$$;
alter function aiq.node_of_handle(text) owner to aiq_owner;
comment on function aiq.node_of_handle(text) is
    'The node of a handle that the caller may open; refuses every other handle in the same words';
revoke all on function aiq.node_of_handle(text) from public;

create or replace function aiq.entity(p_handle text) returns jsonb
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
as $$
declare
    node constant bigint := aiq.node_of_handle(p_handle);
begin
    return (
        select jsonb_build_object(
            'handle', n.handle, 'type', n.entity_type, 'title', n.title, 'summary', n.summary,
            'body', n.body, 'keys', (
                select coalesce(jsonb_agg(k.key order by
                    case k.kind when 'canonical' then 0 when 'short' then 1 else 2 end, k.key
                ), '[]')
                from aiq.node_keys_api as k where k.node_id = n.id
            )
        )
        from aiq.entities_api as n
        where n.id = node
    );
end
$$;
alter function aiq.entity(text) owner to aiq_owner;
comment on function aiq.entity(text) is
    'An entity as a whole: handle, type, title, summary, body and keys. A handle that is missing, retired or not the caller''s to see or to open is refused in the same words';
revoke all on function aiq.entity(text) from public;

-- One hop

-- The edges of a node after one of them, strongest first: by weight descending, the
-- other end, relation, out before in, edge. Each part comes off an index in that order,
-- so that a hub costs what the limit costs and a later page what the first does: those
-- as strong as the edge to go on from, the weaker ones, and those with an end that lies
-- ahead. A self-loop is out, unless only what comes in is asked for.
create or replace function aiq.edges_of_node(
    p_node bigint, p_direction text, p_after_weight real, p_after_neighbour bigint,
    p_after_relation text, p_after_direction text, p_after_edge bigint, p_limit int
) returns table (neighbour bigint, relation text, direction text, weight real, edge bigint)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    -- An edge of another direction comes wholly before or after.
    out_after constant bigint := case p_after_direction
        when 'out' then p_after_edge when 'in' then 9223372036854775807 end;
    in_after constant bigint := case p_after_direction
        when 'in' then p_after_edge when 'out' then -9223372036854775808 end;
    top constant real := coalesce(p_after_weight, 'Infinity');
    outgoing constant boolean := p_direction is distinct from 'in';
    incoming constant boolean := p_direction is distinct from 'out';
begin
    if p_limit is null or p_limit < 1 then
        perform aiq.refuse_limit(p_limit);
    end if;
    return query
    select u.* from (
        (
            select e.dst_id, e.relation, 'out', e.weight, e.id from aiq.edges_current as e
            where outgoing and e.src_id = p_node and e.ends_at is null and e.weight = top
                and (e.dst_id, e.relation, e.id) > (p_after_neighbour, p_after_relation, out_after)
            order by e.weight desc, e.dst_id, e.relation, e.id limit p_limit
        )
        union all
        (
            select e.dst_id, e.relation, 'out', e.weight, e.id from aiq.edges_current as e
            where outgoing and e.src_id = p_node and e.ends_at is null and e.weight < top
            order by e.weight desc, e.dst_id, e.relation, e.id limit p_limit
        )
        union all
        (
            select e.dst_id, e.relation, 'out', e.weight, e.id from aiq.edges_current as e
            where outgoing and e.src_id = p_node and e.ends_at > now()
                and (e.weight < top or (e.weight = top
                and (e.dst_id, e.relation, e.id) > (p_after_neighbour, p_after_relation, out_after)))
            order by e.weight desc, e.dst_id, e.relation, e.id limit p_limit
        )
        union all
        (
            select e.src_id, e.relation, 'in', e.weight, e.id from aiq.edges_current as e
            where incoming and e.dst_id = p_node and e.ends_at is null and e.weight = top
                and (e.src_id, e.relation, e.id) > (p_after_neighbour, p_after_relation, in_after)
                and not (outgoing and e.src_id = e.dst_id)
            order by e.weight desc, e.src_id, e.relation, e.id limit p_limit
        )
        union all
        (
            select e.src_id, e.relation, 'in', e.weight, e.id from aiq.edges_current as e
            where incoming and e.dst_id = p_node and e.ends_at is null and e.weight < top
                and not (outgoing and e.src_id = e.dst_id)
            order by e.weight desc, e.src_id, e.relation, e.id limit p_limit
        )
        union all
        (
            select e.src_id, e.relation, 'in', e.weight, e.id from aiq.edges_current as e
            where incoming and e.dst_id = p_node and e.ends_at > now()
                and (e.weight < top or (e.weight = top
                and (e.src_id, e.relation, e.id) > (p_after_neighbour, p_after_relation, in_after)))
                and not (outgoing and e.src_id = e.dst_id)
            order by e.weight desc, e.src_id, e.relation, e.id limit p_limit
        )
    ) as u (neighbour, relation, direction, weight, edge)
    order by u.weight desc, u.neighbour, u.relation, u.direction desc, u.edge
    limit p_limit;
end
$$;
alter function aiq.edges_of_node(bigint, text, real, bigint, text, text, bigint, int) owner to aiq_owner;
comment on function aiq.edges_of_node(bigint, text, real, bigint, text, text, bigint, int) is
    'The strongest current edges of a node that the caller may see, after one of them';
revoke all on function aiq.edges_of_node(bigint, text, real, bigint, text, text, bigint, int) from public;

-- The same of some relations, by the indexes that begin with one.
create or replace function aiq.edges_of_relations(
    p_node bigint, p_direction text, p_relations text[], p_after_weight real, p_after_neighbour bigint,
    p_after_relation text, p_after_direction text, p_after_edge bigint, p_limit int
) returns table (neighbour bigint, relation text, direction text, weight real, edge bigint)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    top constant real := coalesce(p_after_weight, 'Infinity');
    outgoing constant boolean := p_direction is distinct from 'in';
    incoming constant boolean := p_direction is distinct from 'out';
    least_id constant bigint := -9223372036854775808;
    greatest_id constant bigint := 9223372036854775807;
begin
    if p_limit is null or p_limit < 1 then
        perform aiq.refuse_limit(p_limit);
    end if;
    return query
    select o.*
    from (
        -- Of one neighbour and weight, a relation's edges come wholly before or after
        -- those of another.
        select
            s.relation,
            case
                when s.relation = p_after_relation then case p_after_direction
                    when 'out' then p_after_edge else greatest_id end
                when s.relation > p_after_relation then least_id else greatest_id
            end as out_after,
            case
                when s.relation = p_after_relation then case p_after_direction
                    when 'in' then p_after_edge else least_id end
                when s.relation > p_after_relation then least_id else greatest_id
            end as in_after
        from (select distinct a.relation collate "C" from unnest(p_relations) as a (relation)) as s (relation)
    ) as r
    cross join lateral (
        (
            select e.dst_id, e.relation, 'out', e.weight, e.id from aiq.edges_current as e
            where outgoing and e.src_id = p_node and e.relation = r.relation and e.ends_at is null
                and e.weight = top and (e.dst_id, e.id) > (p_after_neighbour, r.out_after)
            order by e.weight desc, e.dst_id, e.id limit p_limit
        )
        union all
        (
            select e.dst_id, e.relation, 'out', e.weight, e.id from aiq.edges_current as e
            where outgoing and e.src_id = p_node and e.relation = r.relation and e.ends_at is null
                and e.weight < top
            order by e.weight desc, e.dst_id, e.id limit p_limit
        )
        union all
        (
            select e.dst_id, e.relation, 'out', e.weight, e.id from aiq.edges_current as e
            where outgoing and e.src_id = p_node and e.relation = r.relation and e.ends_at > now()
                and (e.weight < top
                or (e.weight = top and (e.dst_id, e.id) > (p_after_neighbour, r.out_after)))
            order by e.weight desc, e.dst_id, e.id limit p_limit
        )
        union all
        (
            select e.src_id, e.relation, 'in', e.weight, e.id from aiq.edges_current as e
            where incoming and e.dst_id = p_node and e.relation = r.relation and e.ends_at is null
                and e.weight = top and (e.src_id, e.id) > (p_after_neighbour, r.in_after)
                and not (outgoing and e.src_id = e.dst_id)
            order by e.weight desc, e.src_id, e.id limit p_limit
        )
        union all
        (
            select e.src_id, e.relation, 'in', e.weight, e.id from aiq.edges_current as e
            where incoming and e.dst_id = p_node and e.relation = r.relation and e.ends_at is null
                and e.weight < top and not (outgoing and e.src_id = e.dst_id)
            order by e.weight desc, e.src_id, e.id limit p_limit
        )
        union all
        (
            select e.src_id, e.relation, 'in', e.weight, e.id from aiq.edges_current as e
            where incoming and e.dst_id = p_node and e.relation = r.relation and e.ends_at > now()
                and (e.weight < top
                or (e.weight = top and (e.src_id, e.id) > (p_after_neighbour, r.in_after)))
                and not (outgoing and e.src_id = e.dst_id)
            order by e.weight desc, e.src_id, e.id limit p_limit
        )
    ) as o (neighbour, relation, direction, weight, edge)
    order by o.weight desc, o.neighbour, o.relation, o.direction desc, o.edge
    limit p_limit;
end
$$;
alter function aiq.edges_of_relations(bigint, text, text[], real, bigint, text, text, bigint, int) owner to aiq_owner;
comment on function aiq.edges_of_relations(bigint, text, text[], real, bigint, text, text, bigint, int) is
    'The strongest current edges of a node, of some relations, that the caller may see, after one of them';
revoke all on function aiq.edges_of_relations(bigint, text, text[], real, bigint, text, text, bigint, int) from public;

-- A cursor is the edge that a page ended with, by what edges are ordered by: edges that
-- come and go in between neither repeat nor hide others.
create or replace function aiq.read_cursor(
    p_cursor text, p_node bigint,
    out weight real, out neighbour bigint, out relation text, out direction text, out edge bigint
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    parts jsonb;
begin
    if p_cursor is null then
        return;
    end if;
    begin
        parts := convert_from(decode(p_cursor, 'base64'), 'UTF8')::jsonb;
        if jsonb_typeof(parts) <> 'array' or jsonb_array_length(parts) <> 6
            or (parts ->> 0)::bigint is distinct from p_node
        then
            raise invalid_parameter_value;
        end if;
        weight := (parts ->> 1)::real;
        neighbour := (parts ->> 2)::bigint;
        relation := parts ->> 3;
        direction := parts ->> 4;
        edge := (parts ->> 5)::bigint;
        if (weight > 0 and neighbour is not null and relation <> '' and direction in ('in', 'out') and edge is not null)
            is not true
        then
            raise invalid_parameter_value;
        end if;
    exception when data_exception or statement_too_complex then
        raise exception using
            errcode = '22023',
            message = format('p_cursor is "%s", which is no cursor of this entity''s neighbors', left(p_cursor, 100)),
            hint = 'Give the cursor of an earlier answer for the same handle as it is, or none to begin anew.';
    end;
end
$$;
alter function aiq.read_cursor(text, bigint) owner to aiq_owner;
comment on function aiq.read_cursor(text, bigint) is
    'The edge that a cursor goes on from; refuses what is no cursor of that node';
revoke all on function aiq.read_cursor(text, bigint) from public;

create or replace function aiq.neighbors(
    p_handle text, p_direction text default null, p_relations text[] default null,
    p_limit int default 25, p_cursor text default null
) returns jsonb
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set extra_float_digits = 1
set jit = off
as $$
declare
    has_policies constant boolean := aiq.policies_of_type(null) <> '{}';
    node bigint;
    last record;
    block int;
    fetched int := 0;
    nodes bigint[] := '{}';
    relations text[] := '{}';
    directions text[] := '{}';
    weights real[] := '{}';
    edges bigint[] := '{}';
    item record;
    rows_found jsonb;
    truncated boolean;
begin
    perform aiq.check_page(p_limit);
    if p_direction not in ('in', 'out') then
        raise exception using
            errcode = '22023',
            message = format('p_direction is "%s", but must be in or out', left(p_direction, 100)),
            hint = 'Write out for what the entity refers to, in for what refers to it, or null for both.';
    end if;
    perform aiq.require_relations(p_relations);
    block := p_limit + 1;
    node := aiq.node_of_handle(p_handle);
    select * into last from aiq.read_cursor(p_cursor, node);
    loop
        if p_relations is null then
            select
                array_agg(e.neighbour order by e.place) as nodes, array_agg(e.relation order by e.place) as relations,
                array_agg(e.direction order by e.place) as directions, array_agg(e.weight order by e.place) as weights,
                array_agg(e.edge order by e.place) as edges
            into item
            from aiq.edges_of_node(
                node, p_direction, last.weight, last.neighbour, last.relation, last.direction, last.edge, block
            ) with ordinality as e (neighbour, relation, direction, weight, edge, place);
        else
            select
                array_agg(e.neighbour order by e.place) as nodes, array_agg(e.relation order by e.place) as relations,
                array_agg(e.direction order by e.place) as directions, array_agg(e.weight order by e.place) as weights,
                array_agg(e.edge order by e.place) as edges
            into item
            from aiq.edges_of_relations(
                node, p_direction, p_relations, last.weight, last.neighbour, last.relation, last.direction,
                last.edge, block
            ) with ordinality as e (neighbour, relation, direction, weight, edge, place);
        end if;
        fetched := coalesce(cardinality(item.nodes), 0);
        exit when fetched = 0;
        last.weight := item.weights[fetched];
        last.neighbour := item.nodes[fetched];
        last.relation := item.relations[fetched];
        last.direction := item.directions[fetched];
        last.edge := item.edges[fetched];
        if has_policies then
            select
                array_agg(e.node order by e.place) as nodes, array_agg(e.relation order by e.place) as relations,
                array_agg(e.direction order by e.place) as directions, array_agg(e.weight order by e.place) as weights,
                array_agg(e.edge order by e.place) as edges
            into item
            from unnest(item.nodes, item.relations, item.directions, item.weights, item.edges)
                with ordinality as e (node, relation, direction, weight, edge, place)
            where e.node in (select aiq.opened_nodes(item.nodes));
        end if;
        nodes := nodes || item.nodes;
        relations := relations || item.relations;
        directions := directions || item.directions;
        weights := weights || item.weights;
        edges := edges || item.edges;
        exit when fetched < block or cardinality(nodes) > p_limit;
        block := least(block * 4, 1000);
    end loop;
    truncated := cardinality(nodes) > p_limit;
    select coalesce(jsonb_agg(
        jsonb_build_object(
            'handle', n.handle, 'type', n.entity_type, 'title', n.title,
            'relation', u.relation, 'direction', u.direction, 'weight', u.weight
        ) order by u.place
    ), '[]')
    into rows_found
    from unnest(nodes[:p_limit], relations[:p_limit], directions[:p_limit], weights[:p_limit])
        with ordinality as u (node_id, relation, direction, weight, place)
    cross join lateral (
        select m.handle, m.entity_type, m.title from aiq.entities_api as m where m.id = u.node_id limit 1
    ) as n;
    return jsonb_build_object(
        'handle', (select n.handle from aiq.nodes_api as n where n.id = node),
        'rows', rows_found, 'truncated', truncated,
        'cursor', case when truncated then translate(encode(convert_to(jsonb_build_array(
            node, weights[p_limit]::text, nodes[p_limit], relations[p_limit], directions[p_limit], edges[p_limit]
        )::text, 'UTF8'), 'base64'), E'\n', '') end
    );
end
$$;
alter function aiq.neighbors(text, text, text[], int, text) owner to aiq_owner;
comment on function aiq.neighbors(text, text, text[], int, text) is
    'One hop from an entity: what it refers to (out) and what refers to it (in), strongest first, at most p_limit of 1 to 100, each edge a row; p_direction and p_relations narrow it. truncated says that there are more, which p_cursor goes on to. What the caller may not open is as if it were not there';
revoke all on function aiq.neighbors(text, text, text[], int, text) from public;

-- Search

-- A question in plain words is not all to be found in one text: any of its words finds
-- an entity, and what has more of them, in its title above all, comes first. What the
-- query reads as a web search (quotes, or) comes before that; what is excluded by a
-- minus is excluded.
create or replace function aiq.entity_query(
    p_configuration regconfig, p_query text, out written tsquery, out matching tsquery, out ranking tsquery
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    minus constant text := '(?:^|\s)-("[^"]*"|[^\s"]+)';
    -- A longer word is found nowhere: a text search vector has none.
    query constant text := regexp_replace(p_query, '[^[:space:]]{255}[^[:space:]]{245,}', ' ', 'g');
    excluded text;
begin
    written := websearch_to_tsquery(p_configuration, query);
    select string_agg(
        '''' || replace(replace(u.lexeme, '\', '\\'), '''', '''''') || '''', ' | ' order by u.lexeme
    )::tsquery
    into ranking
    from unnest(tsvector_to_array(
        to_tsvector(p_configuration, regexp_replace(query, minus, ' ', 'g'))
    )) as u (lexeme);
    matching := ranking;
    for excluded in select m.words[1] from regexp_matches(query, minus, 'g') as m (words) loop
        matching := matching && !!phraseto_tsquery(p_configuration, excluded);
    end loop;
end
$$;
alter function aiq.entity_query(regconfig, text) owner to aiq_owner;
comment on function aiq.entity_query(regconfig, text) is
    'A query read as a web search, what it matches (any of its words), and what matches are ranked by; nulls if it has no words to find';
revoke all on function aiq.entity_query(regconfig, text) from public;

-- Words of a title weigh 1, those of a body 0.4; how often one occurs counts for little.
create or replace function aiq.word_rank(p_words tsvector, p_ranking tsquery) returns real
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select ts_rank('{0.4, 0.4, 0.4, 1}', p_words, p_ranking)
$$;
alter function aiq.word_rank(tsvector, tsquery) owner to aiq_owner;
comment on function aiq.word_rank(tsvector, tsquery) is 'How well a document''s words answer a query';
revoke all on function aiq.word_rank(tsvector, tsquery) from public;
grant execute on function aiq.word_rank(tsvector, tsquery) to aiq_engine;

create or replace function aiq.word_candidates(
    p_registrations int[], p_written tsquery, p_matching tsquery, p_ranking tsquery,
    p_audiences uuid[], p_after_written boolean, p_after_rank real, p_after_node bigint, p_limit int
) returns setof bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query execute $statement$
        select r.node_id
        from (
            select d.node_id, d.words @@ $2 as as_written, aiq.word_rank(d.words, $4) as rank
            from aiq.entity_documents as d
            where
                d.words @@ $3 and d.registration_id = any ($1)
                and (d.audience is null or d.audience = any ($5))
        ) as r
        where
            $8 is null or (r.as_written, r.rank) < ($6, $7)
            or ((r.as_written, r.rank) = ($6, $7) and r.node_id > $8)
        order by r.as_written desc, r.rank desc, r.node_id
        limit $9
    $statement$
    using p_registrations, p_written, p_matching, p_ranking, p_audiences, p_after_written, p_after_rank,
        p_after_node, p_limit;
end
$$;
alter function aiq.word_candidates(int[], tsquery, tsquery, tsquery, uuid[], boolean, real, bigint, int) owner to aiq_engine;
comment on function aiq.word_candidates(int[], tsquery, tsquery, tsquery, uuid[], boolean, real, bigint, int) is
    'Candidate function: ids of the best matches of some audiences, after one of them; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.word_candidates(int[], tsquery, tsquery, tsquery, uuid[], boolean, real, bigint, int) from public;
grant execute on function aiq.word_candidates(int[], tsquery, tsquery, tsquery, uuid[], boolean, real, bigint, int) to aiq_owner;

create or replace function aiq.searched_registrations(p_types text[])
returns table (configuration regconfig, registrations int[])
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select e.configuration, array_agg(e.id)
    from aiq.entity_tables as e
    join aiq.entity_types as t on t.name = e.entity_type
    where
        t.indexed and (p_types is null or e.entity_type = any (p_types))
        and (e.title_expr is not null or e.body_expr is not null)
    group by e.configuration
$$;
alter function aiq.searched_registrations(text[]) owner to aiq_owner;
comment on function aiq.searched_registrations(text[]) is
    'The registrations that a search of some types, of all for null, is made among, by text search configuration';
revoke all on function aiq.searched_registrations(text[]) from public;

create or replace function aiq.matching_nodes(
    p_types text[], p_query text, p_after_written boolean, p_after_rank real, p_after_node bigint, p_limit int
) returns table (node_id bigint, as_written boolean, rank real)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    audiences constant uuid[] := rbac.caller_audiences();
    searched record;
    query record;
begin
    if p_limit is null or p_limit < 1 then
        perform aiq.refuse_limit(p_limit);
    end if;
    for searched in select * from aiq.searched_registrations(p_types) loop
        select * into query from aiq.entity_query(searched.configuration, p_query);
        continue when query.matching is null;
        return query
        select d.node_id, d.as_written, d.rank
        from aiq.word_candidates(
            searched.registrations, query.written, query.matching, query.ranking, audiences,
            p_after_written, p_after_rank, p_after_node, p_limit
        ) as k (node_id)
        cross join lateral (
            select o.node_id, o.words @@ query.written as as_written, aiq.word_rank(o.words, query.ranking) as rank
            from aiq.entity_documents as o where o.node_id = k.node_id limit 1
        ) as d;
    end loop;
end
$$;
alter function aiq.matching_nodes(text[], text, boolean, real, bigint, int) owner to aiq_owner;
comment on function aiq.matching_nodes(text[], text, boolean, real, bigint, int) is
    'The entities that the caller may see and that match a query, after one of them: of each text search configuration the p_limit best';
revoke all on function aiq.matching_nodes(text[], text, boolean, real, bigint, int) from public;

-- With pgvector by its operators, else in double precision. Both compare every vector
-- that the caller may see.
create or replace function aiq.distance_expression(p_distance text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when s.name is not null
            then aiq.near_statement(p_distance, s.name, format('v.vector::%I.vector', s.name)) || '::float8'
        when p_distance = 'cosine' then
            '(select 1 - sum(p.a::float8 * p.b) / (v.norm * $2) from unnest(v.vector, $1) as p (a, b))'
        when p_distance = 'l2' then
            '(select sqrt(sum((p.a::float8 - p.b) ^ 2)) from unnest(v.vector, $1) as p (a, b))'
        else '(select - sum(p.a::float8 * p.b) from unnest(v.vector, $1) as p (a, b))'
    end
    from (select aiq.vector_schema()) as s (name)
$$;
alter function aiq.distance_expression(text) owner to aiq_owner;
comment on function aiq.distance_expression(text) is
    'The expression for the distance of v.vector from the first parameter, whose length is the second';
revoke all on function aiq.distance_expression(text) from public;
grant execute on function aiq.distance_expression(text) to aiq_engine;

create or replace function aiq.entity_vector_candidates(
    p_registrations int[], p_model_id int, p_distance text, p_vector real[], p_audiences uuid[],
    p_after_distance float8, p_after_node bigint, p_limit int
) returns setof bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query execute format(
        $statement$
        select r.node_id
        from (
            select v.node_id, %s as distance
            from aiq.entity_vectors as v
            join aiq.entity_documents as d on d.node_id = v.node_id
            where
                v.model_id = $3 and d.registration_id = any ($4)
                and (d.audience is null or d.audience = any ($5))
        ) as r
        where $7 is null or r.distance > $6 or (r.distance = $6 and r.node_id > $7)
        order by r.distance, r.node_id
        limit $8
        $statement$,
        aiq.distance_expression(p_distance)
    ) using p_vector, (select sqrt(sum(u.x::float8 * u.x)) from unnest(p_vector) as u (x)), p_model_id,
        p_registrations, p_audiences, p_after_distance, p_after_node, p_limit;
end
$$;
alter function aiq.entity_vector_candidates(int[], int, text, real[], uuid[], float8, bigint, int) owner to aiq_engine;
comment on function aiq.entity_vector_candidates(int[], int, text, real[], uuid[], float8, bigint, int) is
    'Candidate function: ids of the nearest entities of some audiences, after one of them; what it returns must be read again under the caller''s predicate';
revoke all on function aiq.entity_vector_candidates(int[], int, text, real[], uuid[], float8, bigint, int) from public;
grant execute on function aiq.entity_vector_candidates(int[], int, text, real[], uuid[], float8, bigint, int) to aiq_owner;

create or replace function aiq.read_embedding(p_embedding text, p_model text, p_dim int, p_distance text)
returns real[]
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    form constant text := format('Send the %s numbers that model "%s" writes for the words, such as ''[0.1, -0.2, …]''.', p_dim, p_model);
    vector real[];
    fault text;
begin
    begin
        if (btrim(p_embedding, E' \t\r\n') ~ '^(\[[^][{}"]*\]|{[^][{}"]*})$') is not true then
            raise invalid_text_representation;
        end if;
        vector := translate(btrim(p_embedding, E' \t\r\n'), '[]', '{}')::real[];
    exception when data_exception then
        raise exception using
            errcode = '22023',
            message = format('p_embedding is %s, but must be an array of numbers that a real can hold', coalesce('"' || left(p_embedding, 40) || '"', 'null')),
            hint = form;
    end;
    fault := case
        when cardinality(vector) <> p_dim then
            format('has %s numbers, but model "%s" writes %s', cardinality(vector), p_model, p_dim)
        when array_position(vector, null) is not null then 'holds null, but each of its numbers must be finite'
        when exists (select from unnest(vector) as u (x) where u.x in ('NaN', 'Infinity', '-Infinity'))
            then format('holds %s, but each of its numbers must be finite', (
                select u.x from unnest(vector) with ordinality as u (x, place)
                where u.x in ('NaN', 'Infinity', '-Infinity') order by u.place limit 1
            ))
        when p_distance = 'cosine' and 0 = all (vector)
            then 'is all zeros, and has no direction that a cosine could be taken of'
    end;
    if fault is not null then
        raise exception using errcode = '22023', message = 'p_embedding ' || fault, hint = form;
    end if;
    return vector;
end
$$;
alter function aiq.read_embedding(text, text, int, text) owner to aiq_owner;
comment on function aiq.read_embedding(text, text, int, text) is
    'A vector as a caller writes it; refuses what is none of the model''s';
revoke all on function aiq.read_embedding(text, text, int, text) from public;

-- The model that a search is made by: null if there is none.
create or replace function aiq.searching_model(p_model text) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    name text;
begin
    select m.name into name from aiq.embedding_models as m
    where m.name = p_model or (p_model is null and m.is_default);
    if name is null and p_model is not null then
        perform aiq.refuse_embedding_model(p_model);
    elsif name is null and exists (select from aiq.embedding_models) then
        raise exception using
            errcode = '42704',
            message = 'no embedding model is the default, and p_model names none',
            hint = 'Write p_model, one of: ' || (
                select string_agg(t.name, ', ' order by t.name)
                from (select m.name from aiq.embedding_models as m order by m.name limit 5) as t
            );
    end if;
    return name;
end
$$;
alter function aiq.searching_model(text) owner to aiq_owner;
comment on function aiq.searching_model(text) is
    'The embedding model of that name, or the default one; null if none is registered';
revoke all on function aiq.searching_model(text) from public;

create or replace function aiq.nearest_nodes(
    p_types text[], p_model text, p_embedding text, p_after_distance float8, p_after_node bigint, p_limit int
) returns table (node_id bigint, distance float8)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    audiences constant uuid[] := rbac.caller_audiences();
    registrations constant int[] := array(
        select unnest(s.registrations) from aiq.searched_registrations(p_types) as s
    );
    model aiq.embedding_models;
    vector real[];
begin
    if p_limit is null or p_limit < 1 then
        perform aiq.refuse_limit(p_limit);
    end if;
    select * into model from aiq.embedding_models as m where m.name = p_model;
    if not found then
        perform aiq.refuse_embedding_model(p_model);
    end if;
    vector := aiq.read_embedding(p_embedding, model.name, model.dim, model.distance);
    return query execute format(
        $statement$
        select v.node_id, v.distance
        from aiq.entity_vector_candidates($4, $3, $5, $1, $6, $7, $8, $9) with ordinality as k (node_id, place)
        cross join lateral (
            select o.node_id, o.distance from (
                select v.node_id, %s as distance from aiq.entity_vectors as v
                where v.model_id = $3 and v.node_id = k.node_id
            ) as o limit 1
        ) as v
        order by k.place
        $statement$,
        aiq.distance_expression(model.distance)
    ) using vector, (select sqrt(sum(u.x::float8 * u.x)) from unnest(vector) as u (x)), model.id,
        registrations, model.distance, audiences, p_after_distance, p_after_node, p_limit;
end
$$;
alter function aiq.nearest_nodes(text[], text, text, float8, bigint, int) owner to aiq_owner;
comment on function aiq.nearest_nodes(text[], text, text, float8, bigint, int) is
    'The entities that the caller may see whose vectors are nearest, after one of them';
revoke all on function aiq.nearest_nodes(text[], text, text, float8, bigint, int) from public;

create or replace function aiq.entity_snippet(p_configuration text, p_title text, p_body text, p_query text)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    configuration constant regconfig := coalesce(
        (select c.oid from pg_ts_config as c where c.oid::regconfig::text = p_configuration limit 1),
        'simple'::regconfig
    );
    ranking constant tsquery := (aiq.entity_query(configuration, p_query)).ranking;
    body constant text := left(p_body, 100000);
begin
    if to_tsvector(configuration, body) @@ ranking then
        return ts_headline(
            configuration, body, ranking,
            'StartSel=«, StopSel=», ' || case
                when length(body) <= 250 then 'HighlightAll=true'
                else 'MaxFragments=2, MaxWords=30, MinWords=15, FragmentDelimiter=" … "'
            end
        );
    elsif to_tsvector(configuration, left(p_title, 10000)) @@ ranking then
        return ts_headline(configuration, left(p_title, 10000), ranking, 'StartSel=«, StopSel=», HighlightAll=true');
    end if;
    return coalesce(substring(left(body, 200) from '^.*(?=\s)'), left(body, 200), p_title);
end
$$;
alter function aiq.entity_snippet(text, text, text, text) owner to aiq_owner;
comment on function aiq.entity_snippet(text, text, text, text) is
    'The part of a body that answers a query, else the title, with the words that match between « and »; the body''s beginning where none does';
revoke all on function aiq.entity_snippet(text, text, text, text) from public;

create or replace function aiq.opened_matches(p_types text[], p_query text, p_enough int) returns bigint[]
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set extra_float_digits = 1
set jit = off
as $$
declare
    has_policies constant boolean := aiq.policies_of_type(null) <> '{}';
    block int := p_enough;
    nodes bigint[];
    ranks real[];
    as_written boolean[];
    fetched int := 0;
    found_nodes bigint[] := '{}';
begin
    loop
        select
            array_agg(m.node_id order by m.place), array_agg(m.rank order by m.place),
            array_agg(m.as_written order by m.place)
        into nodes, ranks, as_written
        from (
            select n.*, row_number() over (order by n.as_written desc, n.rank desc, n.node_id) as place
            from aiq.matching_nodes(
                p_types, p_query, as_written[fetched], ranks[fetched], nodes[fetched], block
            ) as n
            order by place limit greatest(block, 1)
        ) as m;
        fetched := coalesce(cardinality(nodes), 0);
        found_nodes := found_nodes || case
            when has_policies then aiq.opened_in_order(nodes) else coalesce(nodes, '{}')
        end;
        exit when fetched < block or cardinality(found_nodes) >= p_enough;
        block := least(block * 4, 20000);
    end loop;
    return found_nodes[:p_enough];
end
$$;
alter function aiq.opened_matches(text[], text, int) owner to aiq_owner;
comment on function aiq.opened_matches(text[], text, int) is
    'The best p_enough of the entities that match a query and that the caller may open';
revoke all on function aiq.opened_matches(text[], text, int) from public;

create or replace function aiq.opened_nearest(p_types text[], p_model text, p_embedding text, p_enough int)
returns bigint[]
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set extra_float_digits = 1
set jit = off
as $$
declare
    has_policies constant boolean := aiq.policies_of_type(null) <> '{}';
    block int := p_enough;
    nodes bigint[];
    distances float8[];
    fetched int := 0;
    found_nodes bigint[] := '{}';
begin
    loop
        select array_agg(m.node_id order by m.place), array_agg(m.distance order by m.place)
        into nodes, distances
        from aiq.nearest_nodes(p_types, p_model, p_embedding, distances[fetched], nodes[fetched], block)
            with ordinality as m (node_id, distance, place);
        fetched := coalesce(cardinality(nodes), 0);
        found_nodes := found_nodes || case
            when has_policies then aiq.opened_in_order(nodes) else coalesce(nodes, '{}')
        end;
        exit when fetched < block or cardinality(found_nodes) >= p_enough;
        block := least(block * 4, 20000);
    end loop;
    return found_nodes[:p_enough];
end
$$;
alter function aiq.opened_nearest(text[], text, text, int) owner to aiq_owner;
comment on function aiq.opened_nearest(text[], text, text, int) is
    'The p_enough of the entities with the nearest vectors that the caller may open';
revoke all on function aiq.opened_nearest(text[], text, text, int) from public;

create or replace function aiq.search_entities(
    p_query text, p_types text[] default null, p_limit int default 10,
    p_embedding text default null, p_model text default null
) returns jsonb
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set extra_float_digits = 1
set jit = off
as $$
declare
    -- So many of each branch are fused; so many that words find are counted.
    depth constant int := greatest(100, p_limit);
    counted constant int := 1000;
    model text;
    by_words bigint[];
    by_vectors bigint[] := '{}';
    rows_found jsonb;
    total int;
begin
    perform aiq.check_search(p_query, p_limit);
    perform aiq.check_entity_types(p_types);
    if p_model is not null or p_embedding is not null then
        model := aiq.searching_model(p_model);
    end if;
    by_words := aiq.opened_matches(p_types, p_query, counted + 1);
    if model is not null and p_embedding is not null then
        by_vectors := aiq.opened_nearest(p_types, model, p_embedding, depth);
    end if;
    with placed as (
        select u.id, u.place as word_place, null::bigint as vector_place
        from unnest(by_words[:depth]) with ordinality as u (id, place)
        union all
        select u.id, null, u.place from unnest(by_vectors) with ordinality as u (id, place)
    ),
    fused as (
        select
            p.id, max(p.word_place) as word_place, max(p.vector_place) as vector_place,
            -- Reciprocal rank (Cormack, Clarke, Buettcher 2009).
            coalesce(1 / (60 + max(p.word_place)::float8), 0)
            + coalesce(1 / (60 + max(p.vector_place)::float8), 0) as rrf
        from placed as p group by p.id
    ),
    best as (
        select f.*, row_number() over (order by f.rrf desc, f.id) as rank
        from fused as f order by f.rrf desc, f.id limit p_limit
    )
    select coalesce(jsonb_agg(
        jsonb_build_object(
            'handle', n.handle, 'type', n.entity_type, 'title', n.title,
            'snippet', aiq.entity_snippet(n.configuration, n.title, n.body, p_query),
            'rank', b.rank, 'rrf', b.rrf, 'found_by', to_jsonb(array_remove(array[
                case when b.word_place is not null then 'words' end,
                case when b.vector_place is not null then 'vector' end
            ], null))
        ) order by b.rank
    ), '[]')
    into rows_found
    from best as b
    cross join lateral (select m.* from aiq.entities_api as m where m.id = b.id limit 1) as n;
    select least(count(*), counted) into total
    from (select unnest(by_words) union select unnest(by_vectors)) as u;
    return jsonb_build_object(
        'rows', rows_found,
        'ranked_by', case when by_vectors = '{}' then 'words' else 'words and vectors' end,
        'note', case
            when by_vectors <> '{}' then null
            when p_embedding is null then 'ranked by words alone: no vector was given'
            when model is null then 'ranked by words alone: no embedding model is registered'
            else format('ranked by words alone: no vector of model "%s" was found', model)
        end,
        'total', total, 'total_is_capped', cardinality(by_words) > counted,
        'truncated', total > jsonb_array_length(rows_found)
    );
end
$$;
alter function aiq.search_entities(text, text[], int, text, text) owner to aiq_owner;
comment on function aiq.search_entities(text, text[], int, text, text) is
    'The entities that answer a query best, at most p_limit of 1 to 100, of p_types or of all that are searched: those that its words find and, with p_embedding, those whose vectors of p_model (else the default model) are nearest, fused by reciprocal rank. A row''s snippet has the words that match between « and ». total counts what the caller may open, up to 1000; note says why only words ranked';
revoke all on function aiq.search_entities(text, text[], int, text, text) from public;

grant execute on function
    aiq.ontology(), aiq.search_entities(text, text[], int, text, text),
    aiq.neighbors(text, text, text[], int, text), aiq.entity(text),
    aiq.refuse_unknown(text, text, text, text[]), aiq.check_entity_types(text[]),
    aiq.require_relations(text[]), aiq.check_search(text, int), aiq.check_page(int),
    aiq.policies_of_type(text), aiq.node_of_handle(text),
    aiq.edges_of_node(bigint, text, real, bigint, text, text, bigint, int),
    aiq.edges_of_relations(bigint, text, text[], real, bigint, text, text, bigint, int),
    aiq.read_cursor(text, bigint), aiq.matching_nodes(text[], text, boolean, real, bigint, int),
    aiq.searching_model(text), aiq.nearest_nodes(text[], text, text, float8, bigint, int),
    aiq.entity_snippet(text, text, text, text), aiq.opened_in_order(bigint[]),
    aiq.opened_matches(text[], text, int), aiq.opened_nearest(text[], text, text, int)
    to authenticated, aiq_worker;
