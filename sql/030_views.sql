-- What callers read. The views belong to aiq_owner, so the base tables stay
-- closed to everyone else, and its policies decide which rows a caller sees.
--
-- Each asks for the caller's audiences even where it finds no row: claims that
-- cannot be read are an error, never an empty answer.

create or replace view aiq.entity_types_api as
    select name, handle_prefix, description, indexed
    from aiq.entity_types
    where (select rbac.caller_audiences()) is not null;
alter view aiq.entity_types_api owner to aiq_owner;
comment on view aiq.entity_types_api is 'The registered entity types';

create or replace view aiq.relations_api as
    select src_type, relation, dst_type, inverse_label, description
    from aiq.relations
    where (select rbac.caller_audiences()) is not null;
alter view aiq.relations_api owner to aiq_owner;
comment on view aiq.relations_api is 'The declared relations and the entity types they stand between';

create or replace view aiq.nodes_ever as
    select
        n.id,
        n.entity_type,
        n.claimed_kind,
        n.soft_name,
        n.soft_key,
        case when n.handle_number is null then n.id else n.handle_number end as handle_number,
        case
            when n.entity_type is null then 'soft-' || n.id::text
            else t.handle_prefix || '-' || case when n.handle_number is null then n.id else n.handle_number end::text
        end as handle,
        coalesce(
            n.soft_key,
            (
                select k.key
                from aiq.node_keys as k
                where k.node_id = n.id
                order by
                    case k.kind when 'canonical' then 0 when 'short' then 1 else 2 end,
                    k.key
                limit 1
            )
        ) as key,
        n.summary,
        n.source_table,
        n.source_pk,
        n.org_id,
        n.visibility,
        n.owner_id,
        n.retired_at
    from aiq.nodes as n
    left join aiq.entity_types as t on t.name = n.entity_type
    where (select rbac.caller_audiences()) is not null;
alter view aiq.nodes_ever owner to aiq_owner;
comment on view aiq.nodes_ever is 'Every node, retired ones too; key is the least canonical key, else short, else alias';

create or replace view aiq.nodes_api as
    select
        id, entity_type, claimed_kind, soft_name, soft_key, handle_number, handle, key, summary,
        source_table, source_pk, org_id, visibility, owner_id
    from aiq.nodes_ever
    where retired_at is null;
alter view aiq.nodes_api owner to aiq_owner;
comment on view aiq.nodes_api is 'The nodes that are not retired';

create or replace view aiq.node_keys_api as
    select node_id, key, kind, is_name, soft
    from aiq.node_keys
    where retired_at is null and (select rbac.caller_audiences()) is not null;
alter view aiq.node_keys_api owner to aiq_owner;
comment on view aiq.node_keys_api is
    'The keys of the nodes that are not retired; for a soft node its bare name';

create or replace view aiq.edge_periods as
    select
        id, src_id, dst_id, relation, weight, valid_from, valid_to, ends_at, recorded_at, memory,
        provenance, closed_by, org_id, visibility, owner_id
    from aiq.edges
    where (select rbac.caller_audiences()) is not null;
alter view aiq.edge_periods owner to aiq_owner;
comment on view aiq.edge_periods is
    'The whole history of the edges: each period with the provenance that began it';

create or replace view aiq.edges_current as
    select
        id, src_id, dst_id, relation, weight, valid_from, valid_to, ends_at, recorded_at, memory,
        provenance, closed_by, org_id, visibility, owner_id
    from aiq.edges
    where
        valid_from <= now() and (ends_at is null or ends_at > now())
        and (select rbac.caller_audiences()) is not null;
alter view aiq.edges_current owner to aiq_owner;
comment on view aiq.edges_current is 'The edges that hold now';

-- Both nodes are asked for one by one: as joins, a plan made on statistics that are
-- out of date could begin with all nodes.
--
-- What decides here stands in the view and not in a policy, so the view itself must
-- keep a caller's own conditions from being asked about rows that it leaves out.
create or replace view aiq.link_verdicts_api with (security_barrier) as
    select v.node_a, v.node_b, v.confidence, v.reason, v.judged_by, v.judged_at
    from aiq.link_verdicts as v
    where
        (select rbac.caller_audiences()) is not null
        and (select true from aiq.nodes as a where a.id = v.node_a and a.retired_at is null)
        and (select true from aiq.nodes as b where b.id = v.node_b and b.retired_at is null);
alter view aiq.link_verdicts_api owner to aiq_owner;
comment on view aiq.link_verdicts_api is 'The verdicts on pairs of which both nodes can be seen';

grant select on
    aiq.entity_types_api, aiq.relations_api, aiq.nodes_ever, aiq.nodes_api, aiq.node_keys_api,
    aiq.edge_periods, aiq.edges_current, aiq.link_verdicts_api
    to authenticated, aiq_worker, aiq_engine;
