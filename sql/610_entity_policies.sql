-- A registration may leave to its product who opens an entity: a function of the
-- product is asked, of nodes that the caller's scope already lets them see, which of
-- them the caller may open. It is asked as the caller, so that the product's own row
-- security decides: what asks it is SECURITY INVOKER, and a view calls it with the
-- rights of whoever reads the view. The rights of the roles here are never lent to it.

create or replace function aiq.find_policy(
    p_name text, out function_oid oid, out qualified text, out returns_ids boolean
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    parts text[];
begin
    begin
        parts := parse_ident(p_name);
    exception when invalid_parameter_value then
        return;
    end;
    select p.oid, format('%I.%I', n.nspname, p.proname), p.proretset and p.prorettype = 'int8'::regtype
    into function_oid, qualified, returns_ids
    from pg_proc as p
    join pg_namespace as n on n.oid = p.pronamespace
    where
        cardinality(parts) = 2 and n.nspname = parts[1] and p.proname = parts[2] and p.prokind = 'f'
        and n.nspname !~ '^pg_(toast_)?temp'
        and p.pronargs = 1 and p.proargtypes[0] = 'int8[]'::regtype and p.provariadic = 0;
end
$$;
alter function aiq.find_policy(text) owner to aiq_owner;
comment on function aiq.find_policy(text) is
    'The function of that name, with its schema, that takes an array of node ids, and whether it returns a set of ids; nulls if there is none';
revoke all on function aiq.find_policy(text) from public;
grant execute on function aiq.find_policy(text) to authenticated, aiq_worker, aiq_engine;

create or replace function aiq.refuse_policy(p_name text, p_fault text, p_hint text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = '42883', message = format('the policy %s %s', coalesce(p_name, 'null'), p_fault),
        hint = coalesce(nullif(p_hint, ''), 'Register the table again with a policy that can be asked.');
end
$$;
alter function aiq.refuse_policy(text, text, text) owner to aiq_owner;
comment on function aiq.refuse_policy(text, text, text) is 'Refuses a policy that cannot be asked';
revoke all on function aiq.refuse_policy(text, text, text) from public;
grant execute on function aiq.refuse_policy(text, text, text) to authenticated, aiq_worker, aiq_engine;

create or replace function aiq.require_policy(p_name text, p_of_callers boolean) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    asking constant name := case when p_of_callers then 'authenticated' else current_user end;
    policy record;
begin
    select * into policy from aiq.find_policy(p_name);
    if policy.function_oid is null then
        perform aiq.refuse_policy(
            left(p_name, 200), 'does not exist as f(p_nodes bigint[]) returns setof bigint',
            'Create the function, and write its name with its schema, such as p_policy => ''product.may_open''.'
        );
    end if;
    if not policy.returns_ids then
        perform aiq.refuse_policy(
            policy.qualified, 'does not return setof bigint',
            'Let it return those of the ids of its argument that the caller may open.'
        );
    end if;
    if not has_function_privilege(asking, policy.function_oid, 'execute') or not has_schema_privilege(
        asking, (select p.pronamespace from pg_proc as p where p.oid = policy.function_oid), 'usage'
    ) then
        perform aiq.refuse_policy(
            policy.qualified, format('may not be executed by %s', asking),
            format('As its owner: grant execute on function %s(bigint[]) to %I; and usage on its schema.', policy.qualified, asking)
        );
    end if;
    return policy.qualified;
end
$$;
alter function aiq.require_policy(text, boolean) owner to aiq_owner;
comment on function aiq.require_policy(text, boolean) is
    'The name, with its schema, of a policy that the current role, or p_of_callers can ask; refuses one that is missing, of another shape or closed to them';
revoke all on function aiq.require_policy(text, boolean) from public;
grant execute on function aiq.require_policy(text, boolean) to authenticated, aiq_worker, aiq_engine;

create or replace function aiq.registered_policy(p_name text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case when p_name is not null then aiq.require_policy(p_name, true) end
$$;
alter function aiq.registered_policy(text) owner to aiq_engine;
comment on function aiq.registered_policy(text) is
    'The name of a policy as a registration keeps it: with its schema; refuses one that callers cannot ask';
revoke all on function aiq.registered_policy(text) from public;

-- Asking

create or replace function aiq.policies_of_nodes(p_nodes bigint[])
returns table (policy text, nodes bigint[])
language sql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
    select e.policy, array_agg(n.id)
    from unnest(p_nodes) as u (id)
    cross join lateral (
        select o.id, o.source_table, o.entity_type from aiq.nodes as o
        where o.id = u.id and o.retired_at is null limit 1
    ) as n
    left join aiq.entity_tables as e
        on e.source_table = n.source_table and e.entity_type = n.entity_type
    where (select rbac.caller_audiences()) is not null
    group by e.policy
    order by e.policy
$$;
alter function aiq.policies_of_nodes(bigint[]) owner to aiq_owner;
comment on function aiq.policies_of_nodes(bigint[]) is
    'Those of some nodes that the caller may see, by the policy that decides which of them are theirs to open';
revoke all on function aiq.policies_of_nodes(bigint[]) from public;

create or replace function aiq.ask_policy(p_policy text, p_nodes bigint[]) returns setof bigint
language plpgsql stable security invoker rows 100
set search_path = pg_catalog, pg_temp
as $$
declare
    policy text;
begin
    if current_user in ('aiq_owner', 'aiq_engine') then
        raise exception using
            errcode = '42501',
            message = format('%s may not ask the policy %s, which is asked as the caller', current_user, left(p_policy, 200)),
            hint = 'Read aiq.entities_api and call the functions of the map as the caller, not in a function of this role.';
    end if;
    policy := aiq.require_policy(p_policy, false);
    return query execute format(
        'select distinct o.id from %s($1) as o (id) where o.id = any ($1)', policy
    ) using p_nodes;
end
$$;
alter function aiq.ask_policy(text, bigint[]) owner to aiq_owner;
comment on function aiq.ask_policy(text, bigint[]) is
    'Asks a policy, as the caller, which of some nodes the caller may open; ids that it was not asked about are left out';
revoke all on function aiq.ask_policy(text, bigint[]) from public;

create or replace function aiq.opened_nodes(p_nodes bigint[]) returns setof bigint
language plpgsql stable security invoker rows 100
set search_path = pg_catalog, pg_temp
as $$
declare
    item record;
begin
    for item in select * from aiq.policies_of_nodes(p_nodes) loop
        if item.policy is null then
            return query select u.id from unnest(item.nodes) as u (id);
        else
            return query select o.id from aiq.ask_policy(item.policy, item.nodes) as o (id);
        end if;
    end loop;
end
$$;
alter function aiq.opened_nodes(bigint[]) owner to aiq_owner;
comment on function aiq.opened_nodes(bigint[]) is
    'Those of some nodes that the caller may see and, where their registration has a policy, open';
revoke all on function aiq.opened_nodes(bigint[]) from public;

-- What is retired cannot be opened, and is only met by who asks for the past.
create or replace function aiq.guarded_nodes(p_nodes bigint[])
returns table (policy text, nodes bigint[], retired bigint[])
language sql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
    select
        e.policy, array_agg(n.id) filter (where n.retired_at is null),
        array_agg(n.id) filter (where n.retired_at is not null)
    from unnest(p_nodes) as u (id)
    cross join lateral (
        select o.id, o.source_table, o.entity_type, o.retired_at from aiq.nodes as o
        where o.id = u.id limit 1
    ) as n
    join aiq.entity_tables as e
        on e.source_table = n.source_table and e.entity_type = n.entity_type
    where e.policy is not null and (select rbac.caller_audiences()) is not null
    group by e.policy
    order by e.policy
$$;
alter function aiq.guarded_nodes(bigint[]) owner to aiq_owner;
comment on function aiq.guarded_nodes(bigint[]) is
    'Those of some nodes that the caller may see and that a policy decides on, by the policy: what there is, and what is retired';
revoke all on function aiq.guarded_nodes(bigint[]) from public;

create or replace function aiq.closed_nodes(p_nodes bigint[], p_evenly boolean default false)
returns setof bigint
language plpgsql stable security invoker rows 10
set search_path = pg_catalog, pg_temp
as $$
declare
    item record;
    asked text[] := '{}';
    policy text;
begin
    for item in select * from aiq.guarded_nodes(p_nodes) loop
        return query select u.id from unnest(item.retired) as u (id);
        if item.nodes is not null then
            asked := asked || item.policy;
            return query
            select u.id from unnest(item.nodes) as u (id)
            where u.id not in (select o.id from aiq.ask_policy(item.policy, item.nodes) as o (id));
        end if;
    end loop;
    if p_evenly then
        foreach policy in array aiq.policies_of_type(null) loop
            if policy <> all (asked) then
                perform from aiq.ask_policy(policy, array[-9223372036854775808]);
            end if;
        end loop;
    end if;
end
$$;
alter function aiq.closed_nodes(bigint[], boolean) owner to aiq_owner;
comment on function aiq.closed_nodes(bigint[], boolean) is
    'Those of some nodes that the caller may see and a policy does not let them open. With p_evenly every policy is asked, about an id that no node has where there is none to ask about, so that what is denied takes as long as what is missing';
revoke all on function aiq.closed_nodes(bigint[], boolean) from public;

create or replace function aiq.opens_node(p_policy text, p_node bigint) returns boolean
language sql stable security invoker cost 10000
set search_path = pg_catalog, pg_temp
as $$
    select p_policy is null or exists (select from aiq.ask_policy(p_policy, array[p_node]))
$$;
alter function aiq.opens_node(text, bigint) owner to aiq_owner;
comment on function aiq.opens_node(text, bigint) is
    'Whether a policy, asked as the caller, lets the caller open a node';
revoke all on function aiq.opens_node(text, bigint) from public;

-- Titles and bodies are read here alone, so that whoever may not open an entity does
-- not read them by any other way.
create or replace view aiq.entities_api with (security_barrier) as
    select
        n.id, n.handle, n.entity_type, coalesce(d.title, n.summary, n.key) as title, n.summary, d.body,
        case when d.node_id is not null then e.configuration::text end as configuration
    from aiq.nodes_api as n
    left join aiq.entity_documents as d on d.node_id = n.id
    left join aiq.entity_tables as e
        on e.source_table = n.source_table and e.entity_type = n.entity_type
    where e.policy is null or aiq.opens_node(e.policy, n.id);
alter view aiq.entities_api owner to aiq_owner;
comment on view aiq.entities_api is
    'The nodes that the caller may open, with title (else summary, else key) and body; configuration is the text search configuration of what is searched';
grant select on aiq.entities_api to authenticated, aiq_worker;

grant execute on function
    aiq.policies_of_nodes(bigint[]), aiq.ask_policy(text, bigint[]), aiq.opened_nodes(bigint[]),
    aiq.opens_node(text, bigint), aiq.guarded_nodes(bigint[]), aiq.closed_nodes(bigint[], boolean)
    to authenticated, aiq_worker;
